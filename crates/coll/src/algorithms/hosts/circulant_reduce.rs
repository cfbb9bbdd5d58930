//! Reductions on several hosts along a circulant graph (Träff, "Optimal, non-pipelined reduce-scatter and
//! allreduce algorithms", 2024). They need as few rounds as halving and as few bytes as a ring, for any
//! number of hosts.
//!
//! A host counts the others by their distance after it. In each round it sends the data for all hosts from a
//! distance `skip` on to the host at that distance. It receives as much from the host at the same distance
//! before it, for itself and those after it. Skips go down from half the hosts to 1. After the last round it
//! has its own result. An allreduce goes back the same way, collecting.
//!
//! Within a host some leaders ([`Params::radix`]) combine the operands of its ranks, each a part, reading
//! them in place. They combine first the parts to send, and last the part that stays. Rounds pass in pieces
//! ([`Params::segment`]), the farthest hosts first, as the next round sends those. A leader combines within
//! the host, receives, combines with the received data, and sends, in a strand for each.

use crate::algorithms::hosts::Hosts;
use crate::algorithms::hosts::levels::{COMBINED, DONE, DOWN, READY, UP};
use crate::algorithms::hosts::slices::SlicePlace;
use crate::algorithms::messages::reduce_scatter as plain;
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::LEVELS_COMMUTES;
use crate::generator::parameters::LEADERS;
use crate::generator::{Generator, entry};
use crate::hierarchy::Ignored;
use crate::ir::{Access, BufferId, Division, Index, Kind, Length, Range, Span, Start, Tables};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::ReduceScatterBlock, "levels_circulant", LEVELS_COMMUTES, LEADERS, reduce_scatter, work::messages::reduce_scatter_circulant),
    entry(C::ReduceScatter, "levels_circulant", LEVELS_COMMUTES, LEADERS, reduce_scatter, work::messages::reduce_scatter_circulant),
    entry(C::Allreduce, "levels_circulant", LEVELS_COMMUTES, LEADERS, allreduce, work::messages::allreduce_circulant),
];

/// Largest number of pieces of a round.
const MOST_PIECES: u64 = 8;
/// Flag that counts the parts that other ranks of the host may fetch: the own result, then the data of each
/// round back.
const HERE: u16 = 0;
/// Private flags that count blocks combined within the host, arrived pieces, and arrived pieces that have
/// been combined.
const BLOCKS: u16 = Kind::FLAGS;
const ARRIVED: u16 = Kind::FLAGS + 1;
const REDUCED: u16 = Kind::FLAGS + 2;

/// Reduces and scatters: every rank gets its block.
pub fn reduce_scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let (ranked, total) = plain::division(shape);
    let result = plain::result(shape, ranked);
    if total == 0 {
        return;
    }
    let hierarchy = b.hierarchy(shape.ranks, Ignored::NONE);
    let hosts = Hosts::new(&hierarchy, shape.rank);
    let place = SlicePlace::new(&hierarchy, shape.rank, params.radix);
    let leads = place.number < place.leaders;
    let sum = if leads { b.temporary(total) } else { BufferId::exposed(DOWN) };
    let blocks = Blocks::of_ranks((own(shape), sum), ranked, &place, &hosts, b);
    let mine = blocks.sum(Index::from(blocks.starts[place.host as usize] + place.number / place.leaders));
    let fetches = |number: u32| number >= place.leaders && number % place.leaders == place.number;
    let fetching: Vec<u32> =
        place.others().filter(|(number, _)| fetches(*number)).map(|(_, rank)| rank).collect();
    blocks.lend(&place, total, !fetching.is_empty(), b);
    for member in &fetching {
        b.wait(*member, DONE, 1);
    }
    let across = leads.then(|| Across::new(&place, &hosts, &blocks, params.segment, total));
    if let Some(across) = &across {
        across.write(total, (!fetching.is_empty(), false), b);
    }
    b.strand();
    // Until the leaders have combined, they read this rank's operand, which the result may overwrite. The
    // wait for the own leader, from which this rank fetches, includes that. Ranks that are fetched from have
    // waited for the other leaders.
    let own_leader = place.number % place.leaders;
    let waits = !leads || fetching.is_empty() || shape.in_place;
    let leaders = place.others().filter(|(number, _)| *number < place.leaders && *number != own_leader);
    for (_, leader) in leaders.filter(|_| waits) {
        b.wait(leader, COMBINED, 1);
    }
    if let Some(across) = &across {
        across.wait_for_whole(b);
        b.copy(mine, result, &[]);
    } else {
        let leader = place.members[own_leader as usize];
        b.wait(leader, HERE, 1);
        b.pull(leader, mine, result);
        b.post(DONE, 1);
    }
}

/// Reduces, and every rank gets the whole result.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 {
        return;
    }
    let hierarchy = b.hierarchy(shape.ranks, Ignored::NONE);
    let hosts = Hosts::new(&hierarchy, shape.rank);
    let place = SlicePlace::new(&hierarchy, shape.rank, params.radix);
    let leads = place.number < place.leaders;
    let others = place.members.len() > 1;
    let blocks = Blocks::of_slices((own(shape), BufferId::RECV), shape.count, place.number, &place);
    blocks.lend(&place, shape.count, leads, b);
    if leads && others {
        place.each_other(b, |member, b| b.wait(member, DONE, 1));
    }
    if leads {
        let across = Across::new(&place, &hosts, &blocks, params.segment, shape.count);
        across.write(shape.count, (true, true), b);
    }
    if others {
        b.strand();
        fetch_all(shape, &place, b);
        b.post(DONE, 1);
    }
}

/// Fetches the data of the other leaders, as they arrive.
fn fetch_all(shape: &Shape, place: &SlicePlace, b: &mut Builder) {
    let back = rounds(place.hosts);
    let came = back.iter().rev().map(|round| (round.skip, round.count));
    for (turn, (distance, count)) in (1_u64..).zip(std::iter::once((0, 1)).chain(came)) {
        for (number, leader) in place.others().filter(|(number, _)| *number < place.leaders) {
            b.wait(leader, HERE, Index::fixed(turn));
            let blocks = Blocks::of_slices((own(shape), BufferId::RECV), shape.count, number, place);
            for into in blocks.of_hosts(BufferId::RECV, place.host + distance, count) {
                b.pull(leader, build::same(BufferId::exposed(DOWN), into), into);
            }
        }
    }
}

/// Round of the reduction: one message to a peer and one from another.
struct Round {
    /// Distance of the peers, in hosts.
    skip: u32,
    /// Number of hosts whose parts pass: those sent begin at that distance, those received with this host.
    count: u32,
}

/// Returns the rounds for `hosts` hosts.
fn rounds(hosts: u32) -> Vec<Round> {
    let mut rounds = Vec::new();
    let mut left = hosts;
    while left > 1 {
        let skip = left.div_ceil(2);
        rounds.push(Round { skip, count: left - skip });
        left = skip;
    }
    rounds
}

/// Blocks that the leaders of one number combine, host by host.
struct Blocks {
    own: BufferId,
    /// Buffer in which they are combined.
    sum: BufferId,
    /// Division of the operands into blocks.
    ranked: Division,
    /// Division of the combined data.
    placed: Division,
    /// True if the number of each block in `ranked` is looked up in the permutation.
    permuted: bool,
    /// Number of the first block.
    first: u32,
    /// Index at which the blocks of each host begin, counted from `first`, and the end.
    starts: Vec<u32>,
}

impl Blocks {
    /// Returns the blocks of the ranks whose leader has this rank's number, or that of its leader.
    fn of_ranks(
        (own, sum): (BufferId, BufferId),
        ranked: Division,
        place: &SlicePlace,
        hosts: &Hosts,
        b: &mut Builder,
    ) -> Blocks {
        let mut list: Vec<u32> = Vec::new();
        let mut starts = vec![0];
        for host in 0..place.hosts {
            let after = hosts.members(host).iter().skip((place.number % place.leaders) as usize);
            list.extend(after.step_by(place.leaders as usize));
            starts.push(list.len() as u32);
        }
        let placed = match ranked {
            Division::Regular { size, .. } => Division::Regular { size, total: size * list.len() as u64 },
            Division::Table(table) | Division::Permuted(table) => Division::Permuted(table),
            Division::Even { .. } => unreachable!("blocks of ranks are regular or given by a table"),
        };
        b.permute(list.into());
        Blocks { own, sum, ranked, placed, permuted: true, first: 0, starts }
    }

    /// Returns one block for each host, out of `units` units that all leaders share; the blocks belong to
    /// leader `number`.
    fn of_slices((own, sum): (BufferId, BufferId), units: u64, number: u32, place: &SlicePlace) -> Blocks {
        let hosts = place.hosts;
        let division = Division::Even { parts: place.leaders * hosts, total: units };
        let starts = (0..=hosts).collect();
        Blocks {
            own,
            sum,
            ranked: division,
            placed: division,
            permuted: false,
            first: number * hosts,
            starts,
        }
    }

    fn count(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Returns a block of an operand.
    fn operand(&self, buffer: BufferId, index: Index) -> Span {
        if self.permuted {
            return build::permuted(buffer, self.ranked, index);
        }
        build::block(buffer, self.ranked, index.plus(self.first))
    }

    fn sum(&self, index: Index) -> Span {
        build::block(self.sum, self.placed, index.plus(self.first))
    }

    /// Returns the blocks of `count` hosts from `host` on, around the ring of hosts, in a buffer divided like
    /// the sum.
    fn of_hosts(&self, buffer: BufferId, host: u32, count: u32) -> impl Iterator<Item = Span> + '_ {
        let hosts = self.starts.len() as u32 - 1;
        let host = host % hosts;
        let straight = count.min(hosts - host);
        [(host, straight), (0, count - straight)].into_iter().filter(|(_, count)| *count > 0).map(
            move |(host, count)| {
                let [start, end] = [host, host + count].map(|host| self.starts[host as usize]);
                build::blocks(buffer, self.placed, self.first + start, end - start)
            },
        )
    }

    /// Writes `body` for the messages that carry the blocks of `count` hosts, beginning with `host`. A
    /// message has at most `most` units, unless that is 0 or lengths come from a table.
    fn each_message(
        &self,
        buffer: BufferId,
        (host, count, most): (u32, u32, u64),
        b: &mut Builder,
        body: impl Fn(Span, &mut Builder),
    ) {
        for span in self.of_hosts(buffer, host, count) {
            if most == 0 || span.uses_table() {
                body(span, b);
                continue;
            }
            let Range { start, length, .. } = span.in_iteration(0, &Tables::default());
            let whole = length / most;
            b.repeat(whole as u32, 1, |b| {
                let start = Start::Affine { offset: start, stride: most, index: Index::linear(0, 1) };
                body(Span { buffer, start, length: Length::Fixed(most) }, b);
            });
            if length > whole * most {
                body(build::range(buffer, start + whole * most, length - whole * most), b);
            }
        }
    }

    /// Returns the number of blocks of the hosts at least `distance` after `host`.
    fn blocks_beyond(&self, host: u32, distance: u32) -> u32 {
        let hosts = self.starts.len() as u32 - 1;
        let of = |host: u32| self.starts[host as usize + 1] - self.starts[host as usize];
        (distance..hosts).map(|distance| of((host + distance) % hosts)).sum()
    }

    /// Writes the first strand: exposes the rank's operand, and the combined data to ranks that fetch them.
    fn lend(&self, place: &SlicePlace, units: u64, fetched: bool, b: &mut Builder) {
        if place.members.len() == 1 {
            return;
        }
        let access = if self.own == BufferId::SEND { Access::Read } else { Access::ReadWrite };
        b.expose(UP, build::range(self.own, 0, units), access);
        if fetched {
            b.expose(DOWN, build::range(self.sum, 0, units), Access::ReadWrite);
        }
        b.post(READY, 1);
    }
}

/// Part of the data of a round, by distances from its receiver.
struct Piece {
    round: usize,
    low: u32,
    high: u32,
}

/// A leader's part of the reduction.
struct Across<'a> {
    place: &'a SlicePlace,
    blocks: &'a Blocks,
    rounds: Vec<Round>,
    /// Pieces round by round, the farthest hosts first.
    pieces: Vec<Piece>,
    /// Leaders of the same number on all hosts.
    leaders: Vec<u32>,
    /// Largest number of units of a message; 0 for no limit.
    most: u64,
}

impl Across<'_> {
    /// Returns a leader's part. `units` is the number of units of all leaders together.
    fn new<'a>(
        place: &'a SlicePlace,
        hosts: &Hosts,
        blocks: &'a Blocks,
        segment: u64,
        units: u64,
    ) -> Across<'a> {
        let rounds = rounds(place.hosts);
        let of_host = units.div_ceil(u64::from(place.hosts * place.leaders));
        let mut pieces = Vec::new();
        for (round, Round { count, .. }) in rounds.iter().enumerate() {
            let most = u64::from(*count).min(MOST_PIECES);
            let cut =
                if segment == 0 { 1 } else { (of_host * u64::from(*count)).div_ceil(segment).clamp(1, most) };
            let cut = cut as u32;
            let border = |piece: u32| count * piece / cut;
            pieces.extend((0..cut).rev().map(|piece| Piece {
                round,
                low: border(piece),
                high: border(piece + 1),
            }));
        }
        let leaders = (0..place.hosts).map(|host| hosts.members(host)[place.number as usize]).collect();
        Across { place, blocks, rounds, pieces, leaders, most: segment }
    }

    /// Returns the leader of the same number at a distance of hosts.
    fn peer(&self, distance: i64) -> u32 {
        let host = (i64::from(self.place.host) + distance).rem_euclid(i64::from(self.place.hosts));
        self.leaders[host as usize]
    }

    /// Writes the strand that combines within the host.
    fn combine(&self, b: &mut Builder) {
        b.strand();
        let others = self.place.members.len() > 1;
        if others {
            // Other ranks fetch memory that was exposed before. With several leaders, a temporary is fetched
            // by ranks that have waited for another leader, which waits for READY.
            if self.blocks.sum == BufferId::RECV || self.place.leaders == 1 {
                b.wait(self.place.me(), READY, 1);
            }
            self.place.each_other(b, |member, b| b.wait(member, READY, 1));
        }
        let count = self.blocks.count();
        let last = i64::from(self.blocks.starts[self.place.host as usize]) - 1;
        let block = Index::cyclic(last, -1, count);
        b.repeat(count, 1, |b| {
            let theirs = self.blocks.operand(BufferId::exposed(UP), block);
            self.place.combine(
                theirs,
                self.blocks.operand(self.blocks.own, block),
                self.blocks.sum(block),
                b,
            );
            b.post(BLOCKS, Index::linear(1, 1));
        });
        if others {
            b.post(COMBINED, 1);
        }
    }

    /// Returns the spans of an incoming piece, in a buffer divided like the sum.
    fn of_piece(&self, piece: &Piece, buffer: BufferId) -> impl Iterator<Item = Span> + '_ {
        self.blocks.of_hosts(buffer, self.place.host + piece.low, piece.high - piece.low)
    }

    /// Writes the strand that combines the data that arrive in `rooms`.
    fn reduce(&self, rooms: &[BufferId], b: &mut Builder) {
        b.strand();
        for (number, piece) in (1_u64..).zip(&self.pieces) {
            b.wait(self.place.me(), ARRIVED, Index::fixed(number));
            b.wait(self.place.me(), BLOCKS, self.blocks.blocks_beyond(self.place.host, piece.low));
            let room = self.of_piece(piece, rooms[piece.round % rooms.len()]);
            for (from, into) in room.zip(self.of_piece(piece, self.blocks.sum)) {
                b.reduce(from, into, &[]);
            }
            b.post(REDUCED, Index::fixed(number));
        }
    }

    /// Writes the strand that receives. If `tells` is true, other ranks wait for the own result; if
    /// `collects` is true, results are collected after that.
    fn receive(&self, rooms: &[BufferId], (tells, collects): (bool, bool), b: &mut Builder) {
        b.strand();
        for (number, piece) in (1_u64..).zip(&self.pieces) {
            // Its temporary is free again.
            if let Some(before) = self.pieces.iter().rposition(|other| other.round + 2 == piece.round) {
                b.wait(self.place.me(), REDUCED, Index::fixed(before as u64 + 1));
            }
            let from = self.peer(-i64::from(self.rounds[piece.round].skip));
            let part = (self.place.host + piece.low, piece.high - piece.low, self.most);
            self.blocks.each_message(rooms[piece.round % rooms.len()], part, b, |into, b| {
                b.recv(from, 0, into, &[]);
            });
            b.post(ARRIVED, Index::fixed(number));
        }
        if !tells {
            return;
        }
        self.wait_for_whole(b);
        b.post(HERE, 1);
        for (turn, round) in (2_u64..).zip(self.rounds.iter().rev()).filter(|_| collects) {
            let part = (self.place.host + round.skip, round.count, self.most);
            self.blocks.each_message(self.blocks.sum, part, b, |into, b| {
                b.recv(self.peer(round.skip.into()), 0, into, &[]);
            });
            b.post(HERE, Index::fixed(turn));
        }
    }

    /// Writes the strand that sends.
    fn send(&self, collects: bool, b: &mut Builder) {
        b.strand();
        for piece in &self.pieces {
            let skip = self.rounds[piece.round].skip;
            let (low, high) = (skip + piece.low, skip + piece.high);
            b.wait(self.place.me(), BLOCKS, self.blocks.blocks_beyond(self.place.host, low));
            let is_part = |other: &Piece| other.round < piece.round && other.low < high && low < other.high;
            if let Some(last) = self.pieces.iter().rposition(is_part) {
                b.wait(self.place.me(), REDUCED, Index::fixed(last as u64 + 1));
            }
            let part = (self.place.host + low, high - low, self.most);
            self.blocks.each_message(self.blocks.sum, part, b, |from, b| {
                b.send(self.peer(skip.into()), 0, from, &[]);
            });
        }
        for (turn, round) in (1_u64..).zip(self.rounds.iter().rev()).filter(|_| collects) {
            b.wait(self.place.me(), HERE, Index::fixed(turn));
            let part = (self.place.host, round.count, self.most);
            self.blocks.each_message(self.blocks.sum, part, b, |from, b| {
                b.send(self.peer(-i64::from(round.skip)), 0, from, &[]);
            });
        }
    }

    /// Waits until the own result is complete: the last piece is combined with the last block.
    fn wait_for_whole(&self, b: &mut Builder) {
        match self.pieces.len() {
            0 => b.wait(self.place.me(), BLOCKS, self.blocks.count()),
            pieces => b.wait(self.place.me(), REDUCED, Index::fixed(pieces as u64)),
        };
    }

    /// Writes all strands. `units` is the number of units of all leaders together.
    fn write(&self, units: u64, (tells, collects): (bool, bool), b: &mut Builder) {
        let rooms: Vec<BufferId> = (0..self.rounds.len().min(2)).map(|_| b.temporary(units)).collect();
        self.combine(b);
        self.reduce(&rooms, b);
        self.receive(&rooms, (tells, collects), b);
        self.send(collects, b);
    }
}
