//! Assignment of ranks to hosts, for algorithms that treat hosts as a whole, and the messages of their
//! leaders.
//!
//! Positions are those of [`Hierarchy::order`], in which the ranks of a host are contiguous.

pub mod bank_moves;
pub mod banks;
pub mod circulant;
pub mod circulant_graph;
pub mod circulant_reduce;
pub mod doubling;
pub mod exchange;
pub mod frames;
pub mod leaders;
pub mod levels;
pub mod multicast;
pub mod reduce;
pub mod ring;
pub mod scan;
pub mod slices;

use std::sync::Arc;

use crate::build::{self, Builder};
use crate::hierarchy::{Hierarchy, NETWORK};
use crate::ir::{BufferId, Division, Index, Kind, Span};

/// Hosts of a communicator, seen from one rank.
pub(crate) struct Hosts {
    /// All ranks, host by host.
    pub order: Arc<[u32]>,
    /// Position at which each host begins, and the end.
    starts: Vec<u32>,
    /// Index of this rank's host.
    pub mine: u32,
    /// Number of this rank on its host, beginning with 0.
    pub number: u32,
}

impl Hosts {
    pub fn new(hierarchy: &Hierarchy, rank: u32) -> Hosts {
        let order: Arc<[u32]> = hierarchy.order().into();
        let position = hierarchy.position(rank);
        let together = |two: &[u32]| hierarchy.distance(two[0], two[1]) != NETWORK;
        let mut starts = vec![0];
        starts.extend((1..).zip(order.windows(2)).filter(|(_, two)| !together(two)).map(|(at, _)| at));
        let mine = starts.partition_point(|&start| start <= position) as u32 - 1;
        let number = position - starts[mine as usize];
        starts.push(order.len() as u32);
        Hosts { order, starts, mine, number }
    }

    /// Returns the number of hosts.
    pub fn count(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// Returns the position of the first rank of a host. The one after the last is allowed and gives the end.
    pub fn start(&self, host: u32) -> u32 {
        self.starts[host as usize]
    }

    /// Returns the number of ranks of a host.
    pub fn size(&self, host: u32) -> u32 {
        self.start(host + 1) - self.start(host)
    }

    /// Returns the ranks of a host, the smallest first.
    pub fn members(&self, host: u32) -> &[u32] {
        &self.order[self.start(host) as usize..self.start(host + 1) as usize]
    }

    /// Returns the other ranks of this host and their positions, beginning after this rank, around.
    pub fn others(&self) -> Vec<(u32, u32)> {
        let mut members: Vec<(u32, u32)> =
            self.members(self.mine).iter().copied().zip(self.start(self.mine)..).collect();
        members.rotate_left(self.number as usize);
        members.split_off(1)
    }

    /// Returns the host of `rank`.
    pub fn host_of(&self, rank: u32) -> u32 {
        let position = self.order.iter().position(|other| *other == rank).expect("every rank is on a host");
        self.starts.partition_point(|&start| start <= position as u32) as u32 - 1
    }

    /// Returns the leader of a host: `root` if it is there, otherwise the first rank.
    pub fn speaker(&self, host: u32, root: u32) -> u32 {
        if self.members(host).contains(&root) { root } else { self.leader(host) }
    }

    /// Returns the leader of a host, which is its first rank.
    pub fn leader(&self, host: u32) -> u32 {
        self.members(host)[0]
    }

    /// Returns the leaders of the other hosts, from the host before this one on, around the ring of hosts.
    pub fn other_leaders(&self) -> Vec<u32> {
        (1..self.count()).map(|turn| self.leader(self.neighbour(-i64::from(turn)))).collect()
    }

    /// Returns true if this rank is the leader of its host.
    pub fn leads(&self) -> bool {
        self.number == 0
    }

    /// Returns the number of ranks of the largest host.
    pub fn largest(&self) -> u32 {
        (0..self.count()).map(|host| self.size(host)).max().unwrap_or(1)
    }

    /// Returns the host `distance` after this one, around the ring of hosts.
    pub fn neighbour(&self, distance: i64) -> u32 {
        (i64::from(self.mine) + distance).rem_euclid(i64::from(self.count())) as u32
    }

    /// Returns true if all ranks are in their own order, host by host.
    pub fn is_sorted(&self) -> bool {
        self.order.is_sorted()
    }
}

/// Writes `body` for ranks and their positions, or other numbers. There is one loop for each run of
/// consecutive positions whose ranks are at equal distances. So a schedule does not grow with the ranks of a
/// host if these follow a rule.
pub(crate) fn each_rank(ranks: &[(u32, u32)], b: &mut Builder, body: impl Fn(Index, Index, &mut Builder)) {
    let distance = |two: &[(u32, u32)]| i64::from(two[1].0) - i64::from(two[0].0);
    let mut rest = ranks;
    while let [(rank, position), ..] = *rest {
        let stride = rest.get(..2).map_or(0, distance);
        let follows = |two: &&[(u32, u32)]| distance(two) == stride && two[0].1 + 1 == two[1].1;
        let count = 1 + rest.windows(2).take_while(follows).count();
        let step = i64::from(count > 1);
        b.repeat(count as u32, 1, |b| {
            body(Index::linear(rank.into(), stride * step), Index::linear(position.into(), step), b);
        });
        rest = &rest[count..];
    }
}

/// Copy between blocks in the order of ranks in `ranked` and blocks in the order of positions in `placed`,
/// which begin at `offset`. Each rank has one block of `units` units.
pub(crate) struct Reordering {
    pub units: u64,
    pub ranked: BufferId,
    pub placed: BufferId,
    pub offset: u64,
}

impl Reordering {
    /// Writes `body` with the pairs of spans to copy for `count` positions, beginning with `first`. There is
    /// one pair if these are consecutive ranks, otherwise a loop with a pair in each iteration.
    pub fn each(
        &self,
        order: &[u32],
        (first, count): (u32, u32),
        b: &mut Builder,
        body: impl Fn(Span, Span, &mut Builder),
    ) {
        let part = &order[first as usize..(first + count) as usize];
        let Some(&least) = part.first() else { return };
        let at = self.offset + u64::from(first) * self.units;
        if part.windows(2).all(|two| two[0] + 1 == two[1]) {
            let units = u64::from(count) * self.units;
            let ranked = build::range(self.ranked, u64::from(least) * self.units, units);
            body(ranked, build::range(self.placed, at, units), b);
            return;
        }
        let total = self.units * order.len() as u64;
        let division = Division::Regular { size: self.units, total };
        b.repeat(count, 1, |b| {
            let ranked = build::permuted(self.ranked, division, Index::linear(first.into(), 1));
            let placed = build::slot(self.placed, at, self.units, Index::linear(0, 1), ranked);
            body(ranked, placed, b);
        });
    }
}

/// Messages that a leader sends, in a strand of its own beside the one that receives and combines, so that
/// neither waits for the other.
pub(crate) struct Sending {
    me: u32,
    /// Messages, each with the number of reports of the first strand that it waits for, receiver, lane and
    /// data.
    messages: Vec<(u64, To, u16, Span)>,
    reports: u64,
}

/// Receiver of a message of the leader.
enum To {
    /// A single rank.
    One(u32),
    /// All ranks of a group.
    Group(u16),
}

impl Sending {
    /// Private flag that counts the reports.
    const REPORTED: u16 = Kind::FLAGS;

    pub fn new(me: u32) -> Sending {
        Sending { me, messages: Vec::new(), reports: 0 }
    }

    /// Reports that the data written so far are ready.
    pub fn report(&mut self, b: &mut Builder) {
        self.reports += 1;
        b.post(Sending::REPORTED, Index::fixed(self.reports));
    }

    /// Sends data that were ready at the latest report.
    pub fn send(&mut self, peer: u32, lane: u16, from: Span) {
        self.messages.push((self.reports, To::One(peer), lane, from));
    }

    /// Sends data that were ready at the latest report to a group ([`Builder::group`]).
    pub fn multicast(&mut self, group: u16, lane: u16, from: Span) {
        self.messages.push((self.reports, To::Group(group), lane, from));
    }

    /// Writes the strand, the last one of the schedule.
    pub fn finish(self, b: &mut Builder) {
        let mut known = 0;
        for (number, (reports, to, lane, from)) in self.messages.into_iter().enumerate() {
            if number == 0 {
                b.strand();
            }
            if reports > known {
                b.wait(self.me, Sending::REPORTED, Index::fixed(reports));
                known = reports;
            }
            match to {
                To::One(peer) => b.send(peer, lane, from, &[]),
                To::Group(group) => b.multicast(group, lane, from, &[]),
            };
        }
    }
}
