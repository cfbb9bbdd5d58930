//! Collectives by multicast (S8): a host that has data for all other hosts sends them once, and the network
//! copies them.
//!
//! In a broadcast the root sends each segment. Within the hosts it is forwarded as in [`super::levels`]: the
//! leader of a host has a strand that receives, and the other ranks fetch each arrived segment out of its
//! memory. Hosts have no tree: all are children of the root's host. A segment is at most one message of the
//! carrier ([`MESSAGE_BYTES`]), so that a receiver reserves memory for one.
//!
//! In the other collectives every host has data for all: its leader sends them, and receives those of each
//! other host. For few bytes that is one round between hosts, whatever their number. Long blocks are sent in
//! turn, in the order of hosts: all at once they would overflow the queues of the network.

use crate::algorithms::banks::{self, RESULT};
use crate::algorithms::hosts::banks::{all, alone, down, up};
use crate::algorithms::hosts::levels::{self, DONE, Edges, HERE, READY, Segments, Source};
use crate::algorithms::hosts::{Hosts, Sending, bank_moves};
use crate::algorithms::messages::{allgather as whole, gather};
use crate::build::{self, Builder};
use crate::generator::need::{FEW_HEAR, FEW_HEAR_EXPOSED, FEW_HEAR_ORDERED, LEVELS_MULTICAST};
use crate::generator::parameters::{FIXED_NEAR, PIPELINE_NEAR};
use crate::generator::{Generator, entry};
use crate::hierarchy::Ignored;
use crate::ir::{Access, BufferId, Division, Index, Kind, Span};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::tree::Form;
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Bcast, "multicast", LEVELS_MULTICAST, PIPELINE_NEAR, bcast, work::messages::bcast_multicast),
    entry(C::Barrier, "multicast", FEW_HEAR, FIXED_NEAR, barrier, work::messages::hear_all),
    entry(C::Allreduce, "multicast", FEW_HEAR_ORDERED, FIXED_NEAR, allreduce, work::messages::hear_all),
    entry(C::Allgather, "multicast", FEW_HEAR, FIXED_NEAR, allgather, work::messages::hear_all),
    entry(C::Allgatherv, "multicast", FEW_HEAR, FIXED_NEAR, allgather, work::messages::hear_all),
    entry(C::Allgather, "multicast_turns", FEW_HEAR_EXPOSED, PIPELINE_NEAR, allgather_in_turn, work::messages::hear_in_turn),
];

/// Longest message that carriers of multicast take, in bytes. A longer one is sent to each member separately.
pub const MESSAGE_BYTES: u64 = 64 << 10;

/// Returns the units of the longest segment.
fn longest(shape: &Shape, params: &Params) -> u64 {
    let most = (MESSAGE_BYTES / shape.unit_bytes.max(1)).max(1);
    if params.segment == 0 { most } else { params.segment.min(most) }
}

/// Broadcasts by Algorithm 3 of the paper of S4, on the multicast of S8.
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    let edges = Edges::in_tree(shape, params, Form::Kary(Params::FLAT), b);
    let segments = Segments::new(shape.count, &Params { segment: longest(shape, params), ..*params });
    if !edges.near.is_empty() {
        let access = if edges.parent.is_none() { Access::Read } else { Access::ReadWrite };
        b.expose(levels::DOWN, build::range(BufferId::RECV, 0, shape.count), access);
        b.post(READY, 1);
        levels::wait_for_children(&edges, b);
    }
    levels::arrive(segments, &edges, Source::Given, b);
    if edges.far.is_empty() {
        return;
    }
    let group = b.group(&edges.far);
    for stream in 0..segments.streams {
        b.strand();
        b.repeat(segments.turns, 1, |b| {
            b.multicast(group, stream as u16, segments.segment(stream, BufferId::RECV), &[]);
        });
    }
}

/// Synchronises hosts: the leader of each sends a signal to all others, and receives one from each of them.
pub fn barrier(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return;
    }
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::NONE), shape.rank);
    let edges = Edges::for_few(shape, params, b).within_host();
    for child in &edges.near {
        b.wait(*child, banks::READY, 1);
    }
    let mut sending = Sending::new(shape.rank);
    if let Some(parent) = edges.parent {
        b.post(banks::READY, 1);
        b.wait(parent, RESULT, 1);
    } else if hosts.count() > 1 {
        let others = hosts.other_leaders();
        if !edges.near.is_empty() {
            sending.report(b);
        }
        sending.multicast(b.group(&others), 0, Span::SIGNAL);
        for leader in others {
            b.recv(leader, 0, Span::SIGNAL, &[]);
        }
    }
    if !edges.near.is_empty() {
        b.post(RESULT, 1);
    }
    sending.finish(b);
}

/// Reduces: the leader of each host combines the data of all hosts, from the last to the first.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || alone(shape, b) {
        return;
    }
    b.bank(shape.count);
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::NONE), shape.rank);
    let edges = Edges::for_few(shape, params, b).within_host();
    if edges.parent.is_some() {
        let sum = up(shape, &edges, BufferId::BANK, b);
        return down(shape, &edges, RESULT, Some(sum), b);
    }
    let own = all(shape, b.temporary(shape.count));
    let mut have = up(shape, &edges, own.buffer, b);
    if hosts.count() == 1 {
        return down(shape, &edges, RESULT, Some(have), b);
    }
    // The user's operand may be in the place of the result.
    if have.buffer == BufferId::RECV {
        b.copy(have, own, &[]);
        have = own;
    }
    let mut sending = Sending::new(shape.rank);
    sending.report(b);
    sending.multicast(b.group(&hosts.other_leaders()), 0, have);
    let sum = all(shape, b.temporary(shape.count));
    let room = all(shape, b.temporary(shape.count));
    for host in (0..hosts.count()).rev() {
        let into = if host + 1 == hosts.count() { sum } else { room };
        if host != hosts.mine {
            b.recv(hosts.leader(host), 0, into, &[]);
        } else if into == sum {
            b.copy(have, sum, &[]);
        }
        if into == room {
            b.reduce(if host == hosts.mine { have } else { room }, sum, &[]);
        }
    }
    down(shape, &edges, RESULT, Some(sum), b);
    sending.finish(b);
}

/// Gathers all blocks of few bytes, through banks within a host.
pub fn allgather(shape: &Shape, _: &Params, b: &mut Builder) {
    bank_moves::allgather_by(bank_moves::spread, shape, b);
}

/// Flag of a rank that has sent its block: the turn of the next rank follows. No data depend on it.
const SENT: u16 = 2;
/// Flag of a leader that has received the blocks of the hosts before its own: the turn of its own host
/// follows.
const TURN: u16 = Kind::PACING;

/// Gathers long blocks: each rank sends its own to the leaders of the other hosts, when these and its own
/// host have all blocks before it.
pub fn allgather_in_turn(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let blocks = whole::division(shape);
    gather::place_own(shape, blocks, b);
    if shape.ranks == 1 || shape.count == 0 {
        return;
    }
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::NONE), shape.rank);
    let turns = Turns::new(shape, params, &hosts);
    let total = shape.count * u64::from(shape.ranks);
    if hosts.others().is_empty() {
        b.post(READY, 1);
    } else {
        b.expose(levels::DOWN, build::range(BufferId::RECV, 0, total), Access::ReadWrite);
        b.post(READY, 1);
        for (member, _) in hosts.others() {
            b.wait(member, DONE, 1);
        }
    }
    turns.send(b);
    if hosts.leads() {
        turns.receive(b);
    }
    turns.fetch(b);
}

/// The segments of all blocks, in the order of turns.
struct Turns<'a> {
    me: u32,
    hosts: &'a Hosts,
    /// Segments of each block, and all of them.
    each: u32,
    blocks: Division,
}

impl Turns<'_> {
    fn new<'a>(shape: &Shape, params: &Params, hosts: &'a Hosts) -> Turns<'a> {
        let longest = longest(shape, params);
        Turns {
            me: shape.rank,
            hosts,
            each: shape.count.div_ceil(longest).max(1) as u32,
            blocks: whole::division(shape),
        }
    }

    /// Returns the segments of a rank's block, one in each iteration.
    fn block_segments(&self, rank: u32, buffer: BufferId) -> Span {
        build::part(buffer, self.blocks, rank, (Index::linear(0, 1), self.each))
    }

    /// Returns the number of segments of other hosts that are here before those of the `number`th foreign
    /// block.
    fn count(&self, number: u32) -> i64 {
        i64::from(number) * i64::from(self.each)
    }

    /// Returns the ranks of other hosts in the order of their turns, each with the number of those before it.
    fn foreign(&self) -> impl Iterator<Item = (u32, u32)> {
        let hosts = (0..self.hosts.count()).filter(|host| *host != self.hosts.mine);
        (0..).zip(hosts.flat_map(|host| self.hosts.members(host).iter().copied()))
    }

    fn send(&self, b: &mut Builder) {
        if self.hosts.count() == 1 {
            return;
        }
        b.strand();
        let hosts = self.hosts;
        let (own, before) = (hosts.members(hosts.mine), hosts.start(hosts.mine));
        b.wait(self.me, READY, 1);
        if hosts.number > 0 {
            b.wait(own[hosts.number as usize - 1], SENT, 1);
        } else if before > 0 {
            b.wait(self.me, TURN, 1);
        }
        let group = b.group(&hosts.other_leaders());
        b.repeat(self.each, 1, |b| {
            b.multicast(group, 0, self.block_segments(self.me, BufferId::RECV), &[]);
        });
        b.post(SENT, 1);
    }

    fn receive(&self, b: &mut Builder) {
        b.strand();
        let before = self.hosts.start(self.hosts.mine);
        for (number, rank) in self.foreign() {
            b.repeat(self.each, 1, |b| {
                b.recv(rank, 0, self.block_segments(rank, BufferId::RECV), &[]);
                b.post(HERE, Index::linear(self.count(number) + 1, 1));
            });
            if number + 1 == before {
                b.post(TURN, 1);
            }
        }
    }

    /// Fetches the blocks of the other ranks of the host, then the blocks that the leader receives.
    fn fetch(&self, b: &mut Builder) {
        let (hosts, leader) = (self.hosts, self.hosts.leader(self.hosts.mine));
        let others = hosts.others();
        if others.is_empty() {
            return;
        }
        b.strand();
        for (member, _) in &others {
            b.wait(*member, READY, 1);
            b.repeat(self.each, 1, |b| {
                let from = self.block_segments(*member, BufferId::exposed(levels::DOWN));
                b.pull(*member, from, self.block_segments(*member, BufferId::RECV));
            });
        }
        for (number, rank) in self.foreign().filter(|_| !hosts.leads()) {
            b.repeat(self.each, 1, |b| {
                b.wait(leader, HERE, Index::linear(self.count(number) + 1, 1));
                let from = self.block_segments(rank, BufferId::exposed(levels::DOWN));
                b.pull(leader, from, self.block_segments(rank, BufferId::RECV));
            });
        }
        b.post(DONE, 1);
    }
}
