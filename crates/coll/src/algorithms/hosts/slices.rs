//! An allreduce for long data on several hosts: reduce-scatter within each host, rings across, allgather
//! within.
//!
//! The data are cut into slices, a few for each of some leaders of a host. The leaders of a slice pass it
//! around a ring of all hosts, in blocks, twice: first combining, then collecting. A leader combines each
//! block over the ranks of its host, reading them in place, before the block is needed. The other ranks of
//! the host fetch each block as soon as it is complete. Every host sends and receives each unit of data
//! nearly twice, the least that is possible. All its leaders drive the network at the same time. Their number
//! ([`Params::radix`]) is a parameter, since every message costs processor time.
//!
//! A block can be forwarded when it has arrived completely, which a leader notices some time later. Meanwhile
//! the network carries the blocks of its other slices: the more there are ([`Params::segment`]), the longer
//! it stays busy.

use crate::algorithms::hosts::Hosts;
use crate::algorithms::hosts::levels::{DONE, DOWN, READY, UP};
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::LEVELS_COMMUTES;
use crate::generator::parameters::LEADERS;
use crate::generator::{Generator, entry, sliced};
use crate::hierarchy::{Hierarchy, Ignored};
use crate::ir::{Access, BufferId, Division, Index, Kind, Span, StepId};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    sliced(entry(C::Allreduce, "levels_slices", LEVELS_COMMUTES, LEADERS, allreduce, work::messages::allreduce_slices)),
];

/// Number of messages of a leader under way: while a block of one slice is combined, one of another is on its
/// way.
const STREAMS: u32 = 2;
/// Largest number of slices that take turns in a stream.
const MOST_TURNS: u32 = 64;
/// Largest number of leaders of a host.
const MOST_LEADERS: u32 = 8;
/// First of the flags that count the available blocks of a stream: those combined within the host, then those
/// of the ring.
const HERE: u16 = 0;
/// First of the private flags that count the blocks of a stream that are combined within the host.
const COMBINED: u16 = Kind::FLAGS;

/// Place of a rank among the ranks of its host, and that of its host among all hosts.
pub(crate) struct SlicePlace {
    /// Ranks of its host, including itself.
    pub members: Vec<u32>,
    /// Index of this rank in `members`.
    pub number: u32,
    pub hosts: u32,
    /// Number of its host, beginning with 0.
    pub host: u32,
    /// Number of leaders of each host.
    pub leaders: u32,
    /// Leaders of the same number on the hosts before and after.
    left: u32,
    right: u32,
}

/// Reduces slices around rings of hosts; see the module's documentation.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 {
        return;
    }
    let place = SlicePlace::new(&b.hierarchy(shape.ranks, Ignored::NONE), shape.rank, params.radix);
    let turns = turns(&place, shape.count, params.segment);
    let parts = place.leaders * STREAMS * turns * place.hosts;
    let division = Division::Even { parts, total: shape.count };
    let slices = Slices { place: &place, division, turns, own: own(shape) };
    slices.lend(shape.count, b);
    if place.number < place.leaders {
        slices.combine(b);
        let block = shape.count.div_ceil(u64::from(parts));
        let room = (place.hosts > 1).then(|| b.temporary(block * u64::from(STREAMS)));
        for stream in slices.mine() {
            slices.receive(stream, room.map(|room| (room, block)), b);
            slices.send(stream, b);
        }
    }
    slices.fetch(b);
}

/// Returns the number of slices that take turns in a stream, such that a block has about `segment` units.
fn turns(place: &SlicePlace, units: u64, segment: u64) -> u32 {
    let blocks = u64::from(place.leaders * STREAMS * place.hosts);
    match segment {
        0 => 1,
        _ => units.div_ceil(blocks).div_ceil(segment).clamp(1, MOST_TURNS.into()) as u32,
    }
}

impl SlicePlace {
    pub fn new(hierarchy: &Hierarchy, rank: u32, leaders: u32) -> SlicePlace {
        let hosts = Hosts::new(hierarchy, rank);
        let smallest = (0..hosts.count()).map(|host| hosts.size(host)).min().unwrap_or(1);
        let leaders = smallest.min(MOST_LEADERS).min(leaders);
        let (host, number) = (hosts.mine, hosts.number);
        let leader = |distance| hosts.members(hosts.neighbour(distance))[number.min(leaders - 1) as usize];
        let (left, right) = (leader(-1), leader(1));
        let members = hosts.members(host).to_vec();
        SlicePlace { members, number, hosts: hosts.count(), host, leaders, left, right }
    }

    pub fn me(&self) -> u32 {
        self.members[self.number as usize]
    }

    /// Writes `body` for the other members one after the other, beginning after this one, so that not all
    /// read the same one first.
    pub fn each_other(&self, b: &mut Builder, body: impl Fn(Index, &mut Builder) -> StepId) {
        let count = self.members.len() as u32;
        let stride = self.members.get(1).map_or(1, |second| second - self.members[0]);
        let regular = self.members.windows(2).all(|two| two[0] + stride == two[1]);
        if regular && count > 1 {
            let start = i64::from((self.number + 1) * stride);
            let all = Index::cyclic(start, stride.into(), count * stride).plus(self.members[0]);
            return b.each(all, count - 1, |member, b| {
                body(member, b);
            });
        }
        for (_, member) in self.others() {
            body(Index::from(member), b);
        }
    }

    /// Combines the operands of all members into `sum`: `theirs` in the memory they expose, and `own`.
    pub fn combine(&self, theirs: Span, own: Span, sum: Span, b: &mut Builder) {
        if let Some((_, member)) = self.others().next() {
            b.combine(member, theirs, own, sum);
        } else if own != sum {
            b.copy(own, sum, &[]);
        }
        for (_, member) in self.others().skip(1) {
            b.combine(member, theirs, sum, sum);
        }
    }

    /// Returns the other members with their numbers, beginning after this rank.
    pub fn others(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let count = self.members.len() as u32;
        (1..count)
            .map(move |step| (self.number + step) % count)
            .map(|other| (other, self.members[other as usize]))
    }
}

/// A stream of a leader.
#[derive(Clone, Copy)]
struct Stream {
    leader: u32,
    number: u32,
}

impl Stream {
    /// Returns the flag that counts the available blocks of the stream.
    fn here(self) -> u16 {
        HERE + self.number as u16
    }

    /// Returns the private flag that keeps the combining strand in step with the stream.
    fn pace(self) -> u16 {
        Kind::PACING + self.number as u16
    }

    /// Returns the private flag that counts the blocks combined within the host.
    fn combined(self) -> u16 {
        COMBINED + self.number as u16
    }
}

struct Slices<'a> {
    place: &'a SlicePlace,
    /// Division into the blocks of all streams, stream after stream. Within a stream the blocks of a host are
    /// side by side, the last slice first. So the blocks that pass a host are consecutive, backwards around
    /// the ring.
    division: Division,
    /// Number of slices of a stream.
    turns: u32,
    own: BufferId,
}

impl Slices<'_> {
    /// Returns the streams of a leader.
    fn streams(leader: u32) -> impl Iterator<Item = Stream> {
        (0..STREAMS).map(move |number| Stream { leader, number })
    }

    /// Returns the streams of this rank, which must be a leader.
    fn mine(&self) -> impl Iterator<Item = Stream> + use<> {
        Slices::streams(self.place.number)
    }

    /// Returns the blocks of a stream in the order in which they pass this host, beginning with the
    /// `first`th. Each round has a block of each slice; the first round has this host's own blocks.
    fn passing(&self, buffer: BufferId, stream: Stream, first: u32) -> Span {
        let around = self.place.hosts * self.turns;
        let start = i64::from((self.place.host + 1) * self.turns) - 1 - i64::from(first);
        let before = (stream.leader * STREAMS + stream.number) * around;
        build::block(buffer, self.division, Index::cyclic(start, -1, around).plus(before))
    }

    /// Returns the number of blocks up to each iteration of a loop that begins with the `first`th.
    fn count(first: u32) -> Index {
        Index::linear(i64::from(first) + 1, 1)
    }

    /// Returns the number of blocks in all rounds but one.
    fn rest(&self) -> u32 {
        (self.place.hosts - 1) * self.turns
    }

    /// Writes the first strand: exposes the rank's operand and result.
    fn lend(&self, units: u64, b: &mut Builder) {
        if self.place.members.len() == 1 {
            return;
        }
        let access = if self.own == BufferId::SEND { Access::Read } else { Access::ReadWrite };
        b.expose(UP, build::range(self.own, 0, units), access);
        let leads = self.place.number < self.place.leaders;
        if leads {
            b.expose(DOWN, build::range(BufferId::RECV, 0, units), Access::ReadWrite);
        }
        b.post(READY, 1);
        if leads {
            self.place.each_other(b, |member, b| b.wait(member, DONE, 1));
        }
    }

    /// Writes the strand that combines the own slices over the host. It takes block by block in the order in
    /// which they are needed, and not much earlier, as other ranks of the host need the processors.
    fn combine(&self, b: &mut Builder) {
        b.strand();
        if self.place.members.len() > 1 {
            b.wait(self.place.me(), READY, 1);
        }
        self.place.each_other(b, |member, b| b.wait(member, READY, 1));
        b.repeat(self.turns, 1, |b| self.mine().for_each(|stream| self.combine_block(stream, 0, b)));
        let ahead = self.turns.div_ceil(2);
        b.repeat(self.rest(), 1, |b| {
            for stream in self.mine() {
                b.wait(self.place.me(), stream.pace(), Slices::count(self.turns - ahead));
                self.combine_block(stream, self.turns, b);
            }
        });
    }

    fn combine_block(&self, stream: Stream, first: u32, b: &mut Builder) {
        let block = |buffer| self.passing(buffer, stream, first);
        self.place.combine(block(BufferId::exposed(UP)), block(self.own), block(BufferId::RECV), b);
        b.post(stream.combined(), Slices::count(first));
    }

    /// Writes the strand that receives the blocks of a stream. It combines each with its own until the block
    /// has been around, and then collects the results.
    fn receive(&self, stream: Stream, room: Option<(BufferId, u64)>, b: &mut Builder) {
        b.strand();
        b.repeat(self.turns, 1, |b| {
            b.wait(self.place.me(), stream.combined(), Slices::count(0));
            b.post(stream.here(), Slices::count(0));
            b.post(stream.pace(), Slices::count(0));
        });
        let Some((room, block)) = room else { return };
        let (left, lane) = (self.place.left, stream.number as u16);
        b.repeat(self.rest(), 1, |b| {
            let sum = self.passing(BufferId::RECV, stream, self.turns);
            let arrived = build::slot(room, block * u64::from(stream.number), 0, 0, sum);
            b.recv(left, lane, arrived, &[]);
            b.wait(self.place.me(), stream.combined(), Slices::count(self.turns));
            b.reduce(arrived, sum, &[]);
            b.post(stream.here(), Slices::count(self.turns));
            b.post(stream.pace(), Slices::count(self.turns));
        });
        let before = self.turns + self.rest();
        b.repeat(self.rest(), 1, |b| {
            b.recv(left, lane, self.passing(BufferId::RECV, stream, before), &[]);
            b.post(stream.here(), Slices::count(before));
        });
    }

    /// Writes the strand that forwards the blocks of a stream.
    fn send(&self, stream: Stream, b: &mut Builder) {
        if self.place.hosts == 1 {
            return;
        }
        b.strand();
        b.repeat(2 * self.rest(), 1, |b| {
            b.wait(self.place.me(), stream.here(), Slices::count(0));
            let from = self.passing(BufferId::RECV, stream, 0);
            b.send(self.place.right, stream.number as u16, from, &[]);
        });
    }

    /// Writes the strand that fetches the blocks of the other leaders.
    fn fetch(&self, b: &mut Builder) {
        if self.place.members.len() == 1 {
            return;
        }
        b.strand();
        // A leader posts these flags only after it has exposed its memory.
        b.repeat(self.place.hosts * self.turns, 1, |b| {
            for (number, leader) in self.place.others().filter(|(number, _)| *number < self.place.leaders) {
                for stream in Slices::streams(number) {
                    b.wait(leader, stream.here(), Slices::count(self.rest()));
                    let block = |buffer| self.passing(buffer, stream, self.rest());
                    b.pull(leader, block(BufferId::exposed(DOWN)), block(BufferId::RECV));
                }
            }
        });
        b.post(DONE, 1);
    }
}
