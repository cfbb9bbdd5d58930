//! The ring of an allgather: neighbours around it are near one another wherever that is possible.
//!
//! The paper sorts all pairs by distance, then by ranks, and takes a pair if both have fewer than two
//! neighbours and are not connected yet (Algorithm 2). Pairs at one distance connect the subgroups of a
//! group, each of which is a path with two free ends by then. So only the ends within a group need to be
//! examined, in the order of their ranks: the first end takes the next one that is not the other end of its
//! own path.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Hierarchy, inverse};

/// All ranks around a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The ranks, from rank 0 on towards the smaller of its neighbours.
    pub order: Arc<[u32]>,
    position: Vec<u32>,
}

impl Hierarchy {
    /// Returns the ring through all ranks (section 4.4.3).
    pub fn ring(&self) -> Arc<Ring> {
        Arc::clone(self.ring.get_or_init(|| Arc::new(Ring::new(self))))
    }
}

impl Ring {
    fn new(hierarchy: &Hierarchy) -> Ring {
        let ranks = hierarchy.ranks();
        let mut paths = Paths::new(ranks);
        let mut ends: Vec<[u32; 2]> = hierarchy.order.iter().map(|&rank| [rank, rank]).collect();
        let mut starts: Vec<u32> = (0..ranks).collect();
        for groups in &hierarchy.levels {
            let limits = groups.starts[1..].iter().copied().chain([ranks]);
            let mut first = 0;
            let joined = limits.map(|limit| {
                let count = starts[first..].partition_point(|&start| start < limit);
                first += count;
                paths.join(&ends[first - count..first])
            });
            ends = joined.collect();
            starts.clone_from(&groups.starts);
        }
        let [one, other] = ends[0];
        paths.neighbours[one as usize].push(other);
        paths.neighbours[other as usize].push(one);
        let order = paths.walk();
        Ring { position: inverse(&order), order: order.into() }
    }

    /// Returns the position of `rank` around the ring.
    pub fn position(&self, rank: u32) -> u32 {
        self.position[rank as usize]
    }

    /// Returns the rank before `rank`.
    pub fn left(&self, rank: u32) -> u32 {
        let ranks = self.order.len() as u32;
        self.order[((self.position(rank) + ranks - 1) % ranks) as usize]
    }

    /// Returns the rank after `rank`.
    pub fn right(&self, rank: u32) -> u32 {
        self.order[(self.position(rank) as usize + 1) % self.order.len()]
    }
}

/// Paths that are joined until one ring is left.
struct Paths {
    neighbours: Vec<Vec<u32>>,
    /// For each end of a path, the other end of the same path.
    other: Vec<u32>,
}

impl Paths {
    fn new(ranks: u32) -> Paths {
        Paths { neighbours: vec![Vec::with_capacity(2); ranks as usize], other: (0..ranks).collect() }
    }

    fn is_full(&self, rank: u32) -> bool {
        self.neighbours[rank as usize].len() == 2
    }

    /// Makes one path of several, given by their ends; returns its ends.
    fn join(&mut self, ends: &[[u32; 2]]) -> [u32; 2] {
        let mut free: BTreeSet<u32> = ends.iter().flatten().copied().collect();
        let mut left = ends.len();
        while left > 1 {
            let one = *free.first().expect("at least two paths are left, and each has two free ends");
            let next = free.range(one + 1..).copied().find(|&two| two != self.other[one as usize]);
            let Some(two) = next else {
                unreachable!("the ends of another path come after the smallest end, or it is the smallest")
            };
            self.link(one, two);
            left -= 1;
            for rank in [one, two] {
                if self.is_full(rank) {
                    free.remove(&rank);
                }
            }
        }
        let end = *free.first().expect("a path has an end");
        [end, self.other[end as usize]]
    }

    fn link(&mut self, one: u32, two: u32) {
        self.neighbours[one as usize].push(two);
        self.neighbours[two as usize].push(one);
        let (start, end) = (self.other[one as usize], self.other[two as usize]);
        self.other[start as usize] = end;
        self.other[end as usize] = start;
    }

    /// Returns the ranks of the closed ring in their order.
    fn walk(&self) -> Vec<u32> {
        let mut order = vec![0];
        let (mut before, mut now) = (0, *self.neighbours[0].iter().min().expect("the ring is closed"));
        while now != 0 {
            order.push(now);
            let [one, other] = self.neighbours[now as usize][..] else { unreachable!("the ring is closed") };
            (before, now) = (now, if one == before { other } else { one });
        }
        order
    }
}
