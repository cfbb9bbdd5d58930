//! An allreduce for long data on several hosts: reduce-scatter within each host, rings across, allgather within.
//!
//! The data are cut into slices, two for each of some leaders a host. The leaders of a slice pass it around a ring of all hosts, in
//! blocks, twice: first combining, then collecting. A leader combines each block over the ranks of its host, reading them in
//! place, before it is its turn; the others of the host fetch each block as soon as it is whole. Every host sends and receives
//! each unit of data nearly twice, the least that is possible, and all its leaders drive the network at the same time: as many as
//! it takes ([`Params::radix`]), since every message costs a processor.

use super::hosts::Hosts;
use super::levels::{DONE, DOWN, READY, UP};
use super::own;
use crate::build::{self, Builder};
use crate::hierarchy::{Hierarchy, Ignored};
use crate::ir::{Access, BufferId, Division, Index, Kind, Span, StepId};
use crate::shape::{Params, Shape};

/// Slices of a leader: while a block of one is combined, one of another is on its way.
const STREAMS: u32 = 2;
/// Most leaders of a host.
const MOST_LEADERS: u32 = 8;
/// The first of the flags that count what is here of a slice: one when it is combined within the host, then the blocks of the ring.
const HERE: u16 = 0;
/// The first of the private flags that count the blocks of a slice that are combined within the host.
const COMBINED: u16 = Kind::FLAGS;

/// Where a rank is, and who else is there.
struct Place {
    /// The ranks of its host, itself among them.
    members: Vec<u32>,
    /// Its number among them.
    number: u32,
    hosts: u32,
    /// Number of its host.
    host: u32,
    /// Leaders of each host.
    leaders: u32,
    /// The leaders of the same number on the hosts before and after.
    left: u32,
    right: u32,
}

/// See the module.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 {
        return;
    }
    let place = Place::new(&b.hierarchy(shape.ranks, Ignored::NONE), shape.rank, params.radix);
    let parts = place.leaders * STREAMS * place.hosts;
    let slices =
        Slices { place: &place, division: Division::Even { parts, total: shape.count }, own: own(shape) };
    slices.lend(shape.count, b);
    if place.number < place.leaders {
        slices.combine(b);
        let block = shape.count.div_ceil(u64::from(parts));
        let room = (place.hosts > 1).then(|| b.temporary(block * u64::from(STREAMS)));
        for stream in 0..STREAMS {
            slices.receive(stream, room.map(|room| (room, block)), b);
            slices.send(stream, b);
        }
    }
    slices.fetch(b);
}

impl Place {
    fn new(hierarchy: &Hierarchy, rank: u32, leaders: u32) -> Place {
        let hosts = Hosts::new(hierarchy, rank);
        let smallest = (0..hosts.count()).map(|host| hosts.size(host)).min().unwrap_or(1);
        let leaders = smallest.min(MOST_LEADERS).min(leaders);
        let (host, number) = (hosts.mine, hosts.number);
        let leader = |distance| hosts.members(hosts.neighbour(distance))[number.min(leaders - 1) as usize];
        let (left, right) = (leader(-1), leader(1));
        let members = hosts.members(host).to_vec();
        Place { members, number, hosts: hosts.count(), host, leaders, left, right }
    }

    fn me(&self) -> u32 {
        self.members[self.number as usize]
    }

    /// Writes `body` for the other members one after the other, beginning after this one, so that not all read the same one first;
    /// from the `first`th of them on.
    fn each_other(&self, first: u32, b: &mut Builder, body: impl Fn(Index, &mut Builder) -> StepId) {
        let count = self.members.len() as u32;
        let stride = self.members.get(1).map_or(1, |second| second - self.members[0]);
        let regular = self.members.windows(2).all(|two| two[0] + stride == two[1]);
        if regular && count > first + 1 {
            let start = i64::from((self.number + 1 + first) * stride);
            let all = Index::cyclic(start, stride.into(), count * stride).plus(self.members[0]);
            return b.each(all, count - 1 - first, |member, b| {
                body(member, b);
            });
        }
        for (_, member) in self.others().skip(first as usize) {
            body(Index::from(member), b);
        }
    }

    /// The other members, with their numbers, in the same order.
    fn others(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let count = self.members.len() as u32;
        (1..count)
            .map(move |step| (self.number + step) % count)
            .map(|other| (other, self.members[other as usize]))
    }
}

struct Slices<'a> {
    place: &'a Place,
    /// Into the blocks of all slices, slice after slice.
    division: Division,
    own: BufferId,
}

impl Slices<'_> {
    /// The first block of a slice.
    fn first(&self, leader: u32, stream: u32) -> u32 {
        (leader * STREAMS + stream) * self.place.hosts
    }

    /// The blocks of a slice in the order in which they pass a host, turn by turn: that of host `host + offset`, then those before.
    fn passing(&self, buffer: BufferId, leader: u32, stream: u32, offset: i64) -> Span {
        let host = Index::cyclic(i64::from(self.place.host) + offset, -1, self.place.hosts);
        build::block(buffer, self.division, host.plus(self.first(leader, stream)))
    }

    /// The first strand: lends what the rank has and gets.
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
            self.place.each_other(0, b, |member, b| b.wait(member, DONE, 1));
        }
    }

    /// The strand that combines the own slices over the host, block by block in the order in which they are needed.
    fn combine(&self, b: &mut Builder) {
        b.strand();
        if self.place.members.len() > 1 {
            b.wait(self.place.me(), READY, 1);
        }
        self.place.each_other(0, b, |member, b| b.wait(member, READY, 1));
        b.repeat(self.place.hosts, 1, |b| {
            for stream in 0..STREAMS {
                let block = |buffer| self.passing(buffer, self.place.number, stream, 0);
                let (theirs, sum) = (block(BufferId::exposed(UP)), block(BufferId::RECV));
                if let Some((_, member)) = self.place.others().next() {
                    b.combine(member, theirs, block(self.own), sum);
                } else if self.own != BufferId::RECV {
                    b.copy(block(self.own), sum, &[]);
                }
                self.place.each_other(1, b, |member, b| b.combine(member, theirs, sum, sum));
                b.post(COMBINED + stream as u16, Index::linear(1, 1));
            }
        });
    }

    /// The strand that takes the blocks of a slice: combines each with its own in the first round, then collects them.
    fn receive(&self, stream: u32, room: Option<(BufferId, u64)>, b: &mut Builder) {
        let flag = HERE + stream as u16;
        b.strand();
        let combined = COMBINED + stream as u16;
        b.wait(self.place.me(), combined, 1);
        b.post(flag, 1);
        let Some((room, block)) = room else { return };
        let (left, lane, turns) = (self.place.left, stream as u16, self.place.hosts - 1);
        let passing = |offset| self.passing(BufferId::RECV, self.place.number, stream, offset);
        b.repeat(turns, 1, |b| {
            let arrived = build::slot(room, block * u64::from(stream), 0, 0, passing(-1));
            b.recv(left, lane, arrived, &[]);
            b.wait(self.place.me(), combined, Index::linear(2, 1));
            b.reduce(arrived, passing(-1), &[]);
            b.post(flag, Index::linear(2, 1));
        });
        b.repeat(turns, 1, |b| {
            // `hosts - 1` turns later.
            b.recv(left, lane, passing(0), &[]);
            b.post(flag, Index::linear(i64::from(turns) + 2, 1));
        });
    }

    /// The strand that passes the blocks of a slice on.
    fn send(&self, stream: u32, b: &mut Builder) {
        if self.place.hosts == 1 {
            return;
        }
        b.strand();
        b.repeat(2 * (self.place.hosts - 1), 1, |b| {
            b.wait(self.place.me(), HERE + stream as u16, Index::linear(1, 1));
            let from = self.passing(BufferId::RECV, self.place.number, stream, 0);
            b.send(self.place.right, stream as u16, from, &[]);
        });
    }

    /// The strand that fetches the blocks of the other leaders.
    fn fetch(&self, b: &mut Builder) {
        if self.place.members.len() == 1 {
            return;
        }
        b.strand();
        // A leader counts what is here after it has lent it.
        b.repeat(self.place.hosts, 1, |b| {
            for (number, leader) in self.place.others().filter(|(number, _)| *number < self.place.leaders) {
                for stream in 0..STREAMS {
                    b.wait(leader, HERE + stream as u16, Index::linear(self.place.hosts.into(), 1));
                    let block = |buffer| self.passing(buffer, number, stream, 1);
                    b.pull(leader, block(BufferId::exposed(DOWN)), block(BufferId::RECV));
                }
            }
        });
        b.post(DONE, 1);
    }
}
