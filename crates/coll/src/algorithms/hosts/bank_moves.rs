//! Gather, scatter, allgather and alltoall of few bytes on several hosts. All data from the ranks of one host
//! to those of another travel as one message between their leaders, and within a host through banks.
//!
//! A rank waits for others only if it needs their data, as in [`crate::algorithms::hosts::banks`]. The leader
//! of a host is its first rank, or the root on the root's host.

use std::sync::Arc;

use crate::algorithms::banks::{READY, RESULT, offer};
use crate::algorithms::distance::messages::Rootside;
use crate::algorithms::hosts::{Hosts, Reordering, Sending, each_rank};
use crate::algorithms::messages::{allgather, gather as gathering};
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::LEVELS_SHARED;
use crate::generator::parameters::{FIXED_NEAR, RADIX_NEAR};
use crate::generator::{Generator, entry};
use crate::hierarchy::{Child, Hierarchy, Ignored, NETWORK, Tree};
use crate::ir::{BufferId, Division, Index, Span};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::tree::Form;
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Gather, "levels_bank", LEVELS_SHARED, RADIX_NEAR, gather, work::messages::rooted_tree),
    entry(C::Scatter, "levels_bank", LEVELS_SHARED, RADIX_NEAR, scatter, work::messages::rooted_tree),
    entry(C::Allgather, "levels_bank", LEVELS_SHARED, FIXED_NEAR, allgather, work::messages::allgather_bruck),
    entry(C::Allgatherv, "levels_bank", LEVELS_SHARED, FIXED_NEAR, allgather, work::messages::allgather_bruck),
    entry(C::Allgather, "levels_tree", LEVELS_SHARED, RADIX_NEAR, allgather_tree, work::messages::allgather_tree),
    entry(C::Allgatherv, "levels_tree", LEVELS_SHARED, RADIX_NEAR, allgather_tree, work::messages::allgather_tree),
    entry(C::Alltoall, "levels_bank", LEVELS_SHARED, FIXED_NEAR, alltoall, work::messages::spread),
];

/// Tree of hosts, each of which is a star around its leader.
pub(crate) struct Stars {
    pub hierarchy: Arc<Hierarchy>,
    pub tree: Tree,
    pub near: Vec<Child>,
    pub far: Vec<Child>,
    /// Position of this rank in the order, that of the first rank of its host, and number of ranks of its
    /// host.
    pub position: u32,
    pub start: u32,
    pub size: u32,
    /// Number of ranks of the largest host.
    largest: u32,
}

impl Stars {
    pub fn new(shape: &Shape, params: &Params, b: &Builder) -> Stars {
        let hierarchy = b.hierarchy(shape.ranks, Ignored::WITHIN_NODE);
        let form = |distance| Form::Kary(if distance == NETWORK { params.radix } else { Params::FLAT });
        let tree = Tree::of_levels(&hierarchy, form, shape.root, shape.rank);
        let (far, near) = tree.children.iter().partition(|child| child.distance == NETWORK);
        let hosts = Hosts::new(&hierarchy, shape.rank);
        let (start, size) = (hosts.start(hosts.mine), hosts.size(hosts.mine));
        let position = hierarchy.position(shape.rank);
        Stars { tree, near, far, position, start, size, largest: hosts.largest(), hierarchy }
    }

    /// Returns the leader of its host, or `None` if this rank is the leader.
    pub fn leader(&self) -> Option<u32> {
        let parent = self.tree.parent?;
        (self.hierarchy.distance(parent, self.hierarchy.order()[self.position as usize]) != NETWORK)
            .then_some(parent)
    }

    /// Writes `body` for children `(rank, position)` on the same host.
    pub fn each_near(&self, b: &mut Builder, body: impl Fn(Index, Index, &mut Builder)) {
        let near: Vec<(u32, u32)> = self.near.iter().map(|child| (child.rank, child.low)).collect();
        each_rank(&near, b, body);
    }
}

/// Returns the division of a buffer that holds one block for each rank.
fn blocks(shape: &Shape) -> Division {
    gathering::division(shape)
}

/// Gathers: leaders collect the blocks of their hosts and send them up a tree.
pub fn gather(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let stars = Stars::new(shape, params, b);
    let (mine, bank) =
        (build::range(BufferId::SEND, 0, shape.count), build::range(BufferId::BANK, 0, shape.count));
    if shape.count == 0 {
        return;
    }
    if stars.largest > 1 {
        b.bank(shape.count);
    }
    if stars.leader().is_some() {
        return offer(mine, bank, b);
    }
    let Some(parent) = stars.tree.parent else { return gather_at_root(shape, &stars, b) };
    let size = u64::from(stars.tree.high - stars.tree.low);
    if size == 1 {
        b.send(parent, 0, mine, &[]);
        return;
    }
    let room = b.temporary(shape.count * size);
    let low = i64::from(stars.tree.low);
    let part = |position: Index, like: Span| {
        let index = Index { base: position.base - low, ..position };
        build::slot(room, 0, shape.count, index, like)
    };
    b.copy(mine, part(stars.position.into(), mine), &[]);
    stars.each_near(b, |child, position, b| {
        b.wait(child, READY, 1);
        b.pull(child, bank, part(position, bank));
    });
    for child in &stars.far {
        let (low, size) = (u64::from(child.low - stars.tree.low), u64::from(child.high - child.low));
        b.recv(child.rank, 0, build::range(room, low * shape.count, size * shape.count), &[]);
    }
    b.send(parent, 0, build::range(room, 0, size * shape.count), &[]);
}

fn gather_at_root(shape: &Shape, stars: &Stars, b: &mut Builder) {
    let plan = Rootside::new(shape, &stars.hierarchy, &stars.far, b);
    let place = |rank: Index| build::block(BufferId::RECV, blocks(shape), rank);
    if !shape.in_place {
        b.copy(build::range(BufferId::SEND, 0, shape.count), place(shape.root.into()), &[]);
    }
    let bank = build::range(BufferId::BANK, 0, shape.count);
    stars.each_near(b, |child, _, b| {
        b.wait(child, READY, 1);
        b.pull(child, bank, place(child));
    });
    for part in &plan.parts {
        if part.in_place {
            b.recv(part.peer, 0, build::blocks(BufferId::RECV, blocks(shape), part.peer, part.size), &[]);
            continue;
        }
        b.recv(part.peer, 0, plan.whole(part), &[]);
        plan.each(part, BufferId::RECV, b, |block, slot, b| b.copy(slot, block, &[]));
    }
}

/// Scatters: the root sends every host its blocks, down a tree. The other ranks of a host take them from the
/// bank of their leader.
pub fn scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 {
        return;
    }
    let stars = Stars::new(shape, params, b);
    if stars.largest > 1 {
        b.bank(shape.count * u64::from(stars.largest));
    }
    let mine = build::range(BufferId::RECV, 0, shape.count);
    // In a bank, blocks are in the order of the members of the host.
    let slot = |position: Index| {
        let index = Index { base: position.base - i64::from(stars.start), ..position };
        build::slot(BufferId::BANK, 0, shape.count, index, mine)
    };
    if let Some(leader) = stars.leader() {
        b.wait(leader, READY, 1);
        b.pull(leader, slot(stars.position.into()), mine);
        return;
    }
    let Some(parent) = stars.tree.parent else { return scatter_at_root(shape, &stars, slot, b) };
    let (all, host) = (u64::from(stars.tree.high - stars.tree.low), u64::from(stars.size));
    let units = |blocks: u64| blocks * shape.count;
    let room = match (all, all > host) {
        (1, _) => BufferId::RECV,
        (_, true) => b.temporary(units(all)),
        (_, false) => BufferId::BANK,
    };
    b.recv(parent, 0, build::range(room, 0, units(all)), &[]);
    for child in &stars.far {
        let (low, size) = (u64::from(child.low - stars.tree.low), u64::from(child.high - child.low));
        b.send(child.rank, 0, build::range(room, units(low), units(size)), &[]);
    }
    if host > 1 {
        if room != BufferId::BANK {
            b.copy(build::range(room, 0, units(host)), build::range(BufferId::BANK, 0, units(host)), &[]);
        }
        b.post(READY, 1);
    }
    if room != BufferId::RECV {
        b.copy(build::range(room, 0, shape.count), mine, &[]);
    }
}

fn scatter_at_root(shape: &Shape, stars: &Stars, slot: impl Fn(Index) -> Span, b: &mut Builder) {
    let plan = Rootside::new(shape, &stars.hierarchy, &stars.far, b);
    let block = |rank: Index| build::block(BufferId::SEND, blocks(shape), rank);
    for part in &plan.parts {
        if part.in_place {
            b.send(part.peer, 0, build::blocks(BufferId::SEND, blocks(shape), part.peer, part.size), &[]);
            continue;
        }
        plan.each(part, BufferId::SEND, b, |block, slot, b| b.copy(block, slot, &[]));
        b.send(part.peer, 0, plan.whole(part), &[]);
    }
    if !stars.near.is_empty() {
        stars.each_near(b, |child, position, b| {
            b.copy(block(child), slot(position), &[]);
        });
        b.post(READY, 1);
    }
    if !shape.in_place {
        b.copy(block(shape.root.into()), build::range(BufferId::RECV, 0, shape.count), &[]);
    }
}

/// Banks of an allgather, which hold all blocks host by host.
pub(crate) struct Gathered {
    /// Division of the receive buffer, in the order of ranks.
    ranked: Division,
    /// Division of a bank, in the order of hosts.
    placed: Division,
}

impl Gathered {
    fn new(shape: &Shape, hosts: &Hosts) -> Gathered {
        let ranked = allgather::division(shape);
        let placed = match ranked {
            Division::Table(table) if !hosts.is_sorted() => Division::Permuted(table),
            _ => ranked,
        };
        Gathered { ranked, placed }
    }

    /// Returns the blocks at `count` consecutive positions, beginning with `first`.
    fn placed(&self, first: impl Into<Index>, count: u32) -> Span {
        build::blocks(BufferId::BANK, self.placed, first, count)
    }

    /// Writes `body` for each block, with its span in the receive buffer and its span in a bank.
    fn each(&self, shape: &Shape, hosts: &Hosts, b: &mut Builder, body: impl Fn(Span, Span, &mut Builder)) {
        let Division::Table(_) = self.ranked else {
            let (ranked, placed) = (BufferId::RECV, BufferId::BANK);
            let all = Reordering { units: shape.count, ranked, placed, offset: 0 };
            return all.each(&hosts.order, (0, shape.ranks), b, body);
        };
        // Entries of a table may lie anywhere.
        let (each, sorted) = (Index::linear(0, 1), hosts.is_sorted());
        let entry = if sorted { build::block } else { build::permuted };
        b.repeat(shape.ranks, 1, |b| body(entry(BufferId::RECV, self.ranked, each), self.placed(each, 1), b));
    }
}

/// Gathers all blocks: leaders collect the blocks of their hosts and exchange them in about log2 rounds.
/// After round k each has those of 2^k hosts. The other ranks of a host take all blocks from the bank of
/// their leader.
pub fn allgather(shape: &Shape, _: &Params, b: &mut Builder) {
    allgather_by(exchange, shape, b);
}

/// Function that writes the exchange of blocks between leaders.
pub(crate) type ExchangeMoves = fn(&Gathered, &Hosts, &mut Sending, &mut Builder);

/// Writes an allgather in which leaders exchange the blocks of their hosts by `exchange`.
pub(crate) fn allgather_by(exchange: ExchangeMoves, shape: &Shape, b: &mut Builder) {
    b.in_program_order();
    let mut sending = Sending::new(shape.rank);
    gather_all(shape, b, |blocks, hosts, b| exchange(blocks, hosts, &mut sending, b));
    sending.finish(b);
}

/// Gathers all blocks in a tree: leaders collect the blocks of their hosts and send them up a tree of hosts,
/// and all blocks come down again. There are two messages for each host, compared with log2 for an exchange.
/// The difference matters if hosts share processors.
pub fn allgather_tree(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    gather_all(shape, b, |blocks, hosts, b| up_and_down(shape, params, blocks, hosts, b));
}

/// Writes the common part of both allgathers. `between` brings the blocks of all hosts into the banks of
/// their leaders.
fn gather_all(shape: &Shape, b: &mut Builder, between: impl FnOnce(&Gathered, &Hosts, &mut Builder)) {
    if shape.count == 0 {
        return;
    }
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::WITHIN_NODE), shape.rank);
    let blocks = Gathered::new(shape, &hosts);
    let place = build::block(BufferId::RECV, blocks.ranked, shape.rank);
    let mine = if shape.in_place { place } else { build::slot(BufferId::SEND, 0, 0, 0, place) };
    if shape.ranks == 1 {
        if !shape.in_place {
            b.copy(mine, place, &[]);
        }
        return;
    }
    // If blocks differ in length, `count` is their sum.
    let each = if shape.collective == Collective::Allgatherv { 1 } else { u64::from(shape.ranks) };
    b.bank(shape.count * each);
    if !hosts.is_sorted() {
        b.permute(Arc::clone(&hosts.order));
    }
    if !hosts.leads() {
        offer(mine, build::slot(BufferId::BANK, 0, 0, 0, place), b);
        let leader = hosts.leader(hosts.mine);
        b.wait(leader, RESULT, 1);
        blocks.each(shape, &hosts, b, |ranked, placed, b| {
            b.pull(leader, placed, ranked);
        });
        return;
    }
    collect_host(&blocks, &hosts, mine, b);
    between(&blocks, &hosts, b);
    if hosts.size(hosts.mine) > 1 {
        b.post(RESULT, 1);
    }
    blocks.each(shape, &hosts, b, |ranked, placed, b| {
        b.copy(placed, ranked, &[]);
    });
}

/// Makes the blocks of the host contiguous in the bank of the leader.
fn collect_host(blocks: &Gathered, hosts: &Hosts, mine: Span, b: &mut Builder) {
    b.copy(mine, blocks.placed(hosts.start(hosts.mine), 1), &[]);
    each_rank(&hosts.others(), b, |member, position, b| {
        let place = blocks.placed(position, 1);
        b.wait(member, READY, 1);
        b.pull(member, build::slot(BufferId::BANK, 0, 0, 0, place), place);
    });
}

/// Passes blocks of hosts from leader to leader, until each has all of them in its bank.
fn exchange(blocks: &Gathered, hosts: &Hosts, sending: &mut Sending, b: &mut Builder) {
    let count = hosts.count();
    let mut distance = 1;
    while distance < count {
        let moved = distance.min(count - distance);
        sending.report(b);
        let to = hosts.leader(hosts.neighbour(distance.into()));
        for (lane, span) in (0..).zip(blocks_ending_with(blocks, hosts, hosts.mine, moved)) {
            sending.send(to, lane, span);
        }
        let from = hosts.neighbour(-i64::from(distance));
        for (lane, span) in (0..).zip(blocks_ending_with(blocks, hosts, from, moved)) {
            b.recv(hosts.leader(from), lane, span, &[]);
        }
        distance *= 2;
    }
}

/// Passes blocks of hosts up a tree of their leaders, until its root has all in its bank, and all of them
/// down.
fn up_and_down(shape: &Shape, params: &Params, blocks: &Gathered, hosts: &Hosts, b: &mut Builder) {
    let hierarchy = b.hierarchy(shape.ranks, Ignored::WITHIN_NODE);
    let form = |distance| Form::Kary(if distance == NETWORK { params.radix } else { Params::FLAT });
    let tree = Tree::of_levels(&hierarchy, form, hosts.leader(0), shape.rank);
    let far: Vec<&Child> = tree.children.iter().filter(|child| child.distance == NETWORK).collect();
    for child in &far {
        b.recv(child.rank, 0, blocks.placed(child.low, child.high - child.low), &[]);
    }
    let all = blocks.placed(0, shape.ranks);
    if let Some(parent) = tree.parent {
        b.send(parent, 0, blocks.placed(tree.low, tree.high - tree.low), &[]);
        b.recv(parent, 0, all, &[]);
    }
    for child in &far {
        b.send(child.rank, 0, all, &[]);
    }
}

/// Sends the blocks of each leader's host to all other leaders at once.
pub(crate) fn spread(blocks: &Gathered, hosts: &Hosts, sending: &mut Sending, b: &mut Builder) {
    if hosts.count() == 1 {
        return;
    }
    let of_host = |host: u32| blocks.placed(hosts.start(host), hosts.size(host));
    let group = b.group(&hosts.other_leaders());
    sending.report(b);
    sending.multicast(group, 0, of_host(hosts.mine));
    for turn in 1..hosts.count() {
        let host = hosts.neighbour(-i64::from(turn));
        b.recv(hosts.leader(host), 0, of_host(host), &[]);
    }
}

/// Returns the blocks of `count` hosts that end with host `last`, around the ring, as one or two spans of the
/// bank.
fn blocks_ending_with(blocks: &Gathered, hosts: &Hosts, last: u32, count: u32) -> Vec<Span> {
    let span = |first: u32, end: u32| {
        let (low, high) = (hosts.start(first), hosts.start(end));
        blocks.placed(low, high - low)
    };
    if count <= last + 1 {
        return vec![span(last + 1 - count, last + 1)];
    }
    vec![span(0, last + 1), span(last + 1 + hosts.count() - count, hosts.count())]
}

/// Exchanges blocks: every rank puts its blocks into its bank, those for one host side by side. Leaders send
/// each other host its ranks' blocks in one message, into the bank of its leader.
pub fn alltoall(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 {
        return;
    }
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::WITHIN_NODE), shape.rank);
    let pairs = Pairs { shape, hosts: &hosts };
    let buffer = own(shape);
    if !shape.in_place {
        let mine = |buffer| build::block(buffer, blocks(shape), shape.rank);
        b.copy(mine(buffer), mine(BufferId::RECV), &[]);
    }
    if shape.ranks == 1 {
        return;
    }
    b.bank(pairs.bank_units());
    b.permute(Arc::clone(&hosts.order));
    let laid = Reordering { units: shape.count, ranked: buffer, placed: BufferId::BANK, offset: 0 };
    laid.each(&hosts.order, (0, shape.ranks), b, |ranked, placed, b| {
        b.copy(ranked, placed, &[]);
    });
    if hosts.size(hosts.mine) > 1 {
        b.post(READY, 1);
    }
    let mut sending = Sending::new(shape.rank);
    if hosts.leads() && hosts.count() > 1 {
        pairs.lead(&mut sending, b);
    }
    pairs.fetch(blocks(shape), b, |peer, from, into, b| {
        if peer == shape.rank.into() {
            b.copy(from, into, &[]);
        } else {
            b.pull(peer, from, into);
        }
    });
    sending.finish(b);
}

/// Alltoall between pairs of hosts, with blocks of one size in banks.
pub(crate) struct Pairs<'a> {
    pub shape: &'a Shape,
    pub hosts: &'a Hosts,
}

impl Pairs<'_> {
    /// Returns the units of `blocks` blocks.
    fn units(&self, blocks: u32) -> u64 {
        u64::from(blocks) * self.shape.count
    }

    /// Returns the size of a bank: a rank's blocks for all ranks, then all that the largest host receives
    /// from others.
    pub fn bank_units(&self) -> u64 {
        let hosts = self.hosts;
        let foreign = |host| u64::from(hosts.size(host)) * self.units(self.shape.ranks - hosts.size(host));
        self.units(self.shape.ranks) + (0..hosts.count()).map(foreign).max().unwrap_or(0)
    }

    /// Returns the number of ranks before a host in the order, without the own host.
    fn before(&self, host: u32) -> u32 {
        let hosts = self.hosts;
        hosts.start(host) - if host > hosts.mine { hosts.size(hosts.mine) } else { 0 }
    }

    /// Returns the first unit of a host's data in the bank of the leader.
    fn incoming(&self, host: u32) -> u64 {
        let own = u64::from(self.hosts.size(self.hosts.mine));
        self.units(self.shape.ranks) + own * self.units(self.before(host))
    }

    /// Writes the leader's part: it collects the data for each host from its members, sends them, and
    /// receives those of each host.
    pub fn lead(&self, sending: &mut Sending, b: &mut Builder) {
        let (shape, hosts) = (self.shape, self.hosts);
        let size = hosts.size(hosts.mine);
        let room = b.temporary(u64::from(size) * self.units(shape.ranks - size));
        for turn in 1..hosts.count() {
            let host = hosts.neighbour(turn.into());
            let part = self.units(hosts.size(host));
            let begin = u64::from(size) * self.units(self.before(host));
            let from = build::range(BufferId::BANK, self.units(hosts.start(host)), part);
            b.copy(from, build::range(room, begin, part), &[]);
            each_rank(&hosts.others(), b, |member, position, b| {
                let number = Index { base: position.base - i64::from(hosts.start(hosts.mine)), ..position };
                if turn == 1 {
                    b.wait(member, READY, 1);
                }
                b.pull(member, from, build::slot(room, begin, part, number, from));
            });
            sending.report(b);
            sending.send(hosts.leader(host), 0, build::range(room, begin, u64::from(size) * part));
        }
        for turn in 1..hosts.count() {
            let host = hosts.neighbour(-i64::from(turn));
            let part = u64::from(size) * self.units(hosts.size(host));
            b.recv(hosts.leader(host), 0, build::range(BufferId::BANK, self.incoming(host), part), &[]);
        }
        if size > 1 {
            b.post(RESULT, 1);
        }
    }

    /// Fetches the blocks for this rank: from the banks of the ranks on its host, then from the leader's
    /// bank. `take` gets the rank whose bank holds a block, the span there, and the span in the receive
    /// buffer, which is divided by `division`.
    pub fn fetch(&self, division: Division, b: &mut Builder, take: impl Fn(Index, Span, Span, &mut Builder)) {
        let (shape, hosts) = (self.shape, self.hosts);
        let size = hosts.size(hosts.mine);
        // A leader has already waited for all members.
        let hears = !hosts.leads() || hosts.count() == 1;
        let mine = hosts.start(hosts.mine) + hosts.number;
        let from = build::range(BufferId::BANK, self.units(mine), shape.count);
        each_rank(&hosts.others(), b, |member, _, b| {
            if hears {
                b.wait(member, READY, 1);
            }
            take(member, from, build::block(BufferId::RECV, division, member), b);
        });
        if hosts.count() == 1 {
            return;
        }
        let leader = hosts.leader(hosts.mine);
        if !hosts.leads() {
            b.wait(leader, RESULT, 1);
        }
        let block = build::range(BufferId::BANK, 0, shape.count);
        for host in (0..hosts.count()).filter(|host| *host != hosts.mine) {
            let begin = self.incoming(host) + self.units(hosts.number);
            b.repeat(hosts.size(host), 1, |b| {
                let into =
                    build::permuted(BufferId::RECV, division, Index::linear(hosts.start(host).into(), 1));
                let from = build::slot(BufferId::BANK, begin, self.units(size), Index::linear(0, 1), block);
                take(leader.into(), from, into, b);
            });
        }
    }
}
