//! The ranks of a communicator as nested groups by distance (S3: ma-2012 dissertation, chapter 4).
//!
//! Distances 1 to 6 are those of [`tutti_topo::Distance`], 7 is the network. All ranks at most `d` from one
//! another form a group of level `d`. Groups nest, so P ranks need P numbers for each level instead of P²
//! distances, and the hierarchy is built by sorting in O(P log P). The result depends neither on the order of
//! ranks nor on their binding: a group is headed by its smallest rank, or by the root if it contains the
//! root.
//!
//! The [`Tree`] of a broadcast and the [`ring`](Hierarchy::ring) of an allgather are derived from it. Both
//! equal the results of the paper's greedy algorithms over all pairs; the tests compare them.
//! [`Hierarchy::without`] removes levels that make no difference to an operation.

pub mod mapping;
mod ring;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use tutti_topo::Level;
use tutti_topo::model::Places;

pub use ring::Ring;
pub use tree::{Child, Tree};

/// Distance between ranks on different machines, larger than every [`tutti_topo::Distance`].
pub const NETWORK: u8 = 7;

/// Place at which a rank runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankLocation {
    /// Number of its machine; any number, different for each machine.
    pub host: u32,
    /// Resources that it is confined to on its machine ([`tutti_topo::Machine::places`]).
    pub at: Places,
}

/// Distances that are treated like the next smaller one: ranks so far apart count as members of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ignored(u8);

impl Ignored {
    /// No distance is ignored.
    pub const NONE: Ignored = Ignored(0);
    /// Ranks that share a memory controller form one group, whatever their caches and sockets. Large messages
    /// are bounded by the controller, and a deeper tree only delays them (section 4.5.2).
    pub const BELOW_MEMORY: Ignored = Ignored(1 << 2 | 1 << 3);
    /// Ranks that share a machine form one group.
    pub const WITHIN_NODE: Ignored = Ignored(0b111_1110);

    /// Returns the set as a mask: bit `d` is distance `d`.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set that a mask of [`Ignored::bits`] denotes.
    pub const fn of_bits(bits: u8) -> Ignored {
        Ignored(bits)
    }

    /// Returns true if `distance` is ignored.
    pub fn contains(self, distance: u8) -> bool {
        self.0 >> distance & 1 == 1
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distances = (1..=NETWORK).filter(|&distance| self.contains(distance));
        f.write_str(&distances.map(|distance| distance.to_string()).collect::<Vec<_>>().join(","))
    }
}

/// The groups of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Groups {
    distance: u8,
    /// Position in `Hierarchy::order` at which each group begins.
    starts: Vec<u32>,
}

/// The ranks of a communicator as nested groups. Immutable, built once for each communicator.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    /// All ranks, such that each group of any level is contiguous and headed by its smallest rank.
    order: Vec<u32>,
    /// Position of each rank in `order`.
    position: Vec<u32>,
    /// Levels from the inside out, each coarser than the one before. The last one is one group of all ranks.
    levels: Vec<Groups>,
    ring: OnceLock<Arc<Ring>>,
}

impl Hierarchy {
    /// Returns the hierarchy of ranks at these places, one for each rank.
    pub fn new(places: &[RankLocation]) -> Hierarchy {
        let mut sets = Sets::new(places.len());
        // For each level, the smallest rank of each rank's group.
        let heads: Vec<Vec<u32>> = (1..=NETWORK)
            .map(|distance| {
                for keys in shared(distance) {
                    sets.join_equal(places.iter().map(|place| key(distance, place, keys)));
                }
                sets.heads()
            })
            .collect();
        Hierarchy::of_heads(places.len(), &heads)
    }

    /// Returns the hierarchy of ranks at unknown places: all are as far from one another as different
    /// sockets.
    pub fn flat(ranks: u32) -> Hierarchy {
        let order: Vec<u32> = (0..ranks).collect();
        let levels = vec![Groups { distance: tutti_topo::Distance::SameBoard as u8, starts: vec![0] }];
        Hierarchy { position: order.clone(), order, levels, ring: OnceLock::new() }
    }

    fn of_heads(ranks: usize, heads: &[Vec<u32>]) -> Hierarchy {
        let mut order: Vec<u32> = (0..ranks as u32).collect();
        let path = |rank: u32| heads.iter().rev().map(move |heads| heads[rank as usize]).chain([rank]);
        order.sort_by(|&one, &two| path(one).cmp(path(two)));
        let mut levels: Vec<Groups> = Vec::new();
        for (distance, heads) in (1..).zip(heads) {
            let is_head = |&place: &u32| {
                let rank = order[place as usize];
                heads[rank as usize] == rank
            };
            let starts: Vec<u32> = (0..ranks as u32).filter(is_head).collect();
            let finer = levels.last().map_or(ranks, |finer| finer.starts.len());
            if starts.len() < finer {
                levels.push(Groups { distance, starts });
            }
        }
        if levels.is_empty() {
            levels.push(Groups { distance: 1, starts: vec![0] });
        }
        Hierarchy { position: inverse(&order), order, levels, ring: OnceLock::new() }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.order.len() as u32
    }

    /// Returns the distances that occur, from the nearest to the furthest.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = u8> + '_ {
        self.levels.iter().map(|groups| groups.distance)
    }

    /// Returns all ranks in an order in which groups are contiguous.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Returns the position of `rank` in [`Hierarchy::order`].
    pub fn position(&self, rank: u32) -> u32 {
        self.position[rank as usize]
    }

    /// Returns the groups whose members are at most `distance` from one another. Each begins with its
    /// smallest rank.
    pub fn groups(&self, distance: u8) -> impl Iterator<Item = &[u32]> + '_ {
        let level = self.levels.iter().rposition(|groups| groups.distance <= distance);
        let count = level.map_or(self.order.len(), |level| self.levels[level].starts.len());
        (0..count).map(move |index| match level {
            Some(level) => &self.order[self.range(level, index)],
            None => &self.order[index..=index],
        })
    }

    /// Returns the ranks at most `distance` from `rank`, itself included, the smallest first.
    pub fn group(&self, distance: u8, rank: u32) -> &[u32] {
        match self.levels.iter().rposition(|groups| groups.distance <= distance) {
            Some(level) => &self.order[self.range(level, self.index(level, rank))],
            None => std::slice::from_ref(&self.order[self.position[rank as usize] as usize]),
        }
    }

    /// Returns the leader of the group of `rank`: `root` if it is a member, otherwise the smallest rank.
    pub fn leader(&self, distance: u8, rank: u32, root: u32) -> u32 {
        if self.distance(rank, root) <= distance { root } else { self.group(distance, rank)[0] }
    }

    /// Returns the distance of two ranks; 0 from a rank to itself.
    pub fn distance(&self, one: u32, two: u32) -> u8 {
        if one == two {
            return 0;
        }
        let together = |level: &usize| self.index(*level, one) == self.index(*level, two);
        let level = (0..self.levels.len()).find(together);
        self.levels[level.expect("the last level is one group of all")].distance
    }

    /// Returns the hierarchy of the same ranks with some distances ignored.
    pub fn without(&self, ignored: Ignored) -> Hierarchy {
        let mut levels: Vec<Groups> = Vec::new();
        for groups in &self.levels {
            if ignored.contains(groups.distance) {
                // The groups of this level replace the finer ones that they consist of.
                levels.pop();
            }
            levels.push(groups.clone());
        }
        // Ranks of what is one group now are in their own order.
        let heads: Vec<Vec<u32>> = levels.iter().map(|groups| self.heads_of(groups)).collect();
        let mut fewer = Hierarchy::of_heads(self.order.len(), &heads);
        let distances = levels.iter().map(|groups| groups.distance);
        fewer.levels.iter_mut().zip(distances).for_each(|(groups, distance)| groups.distance = distance);
        fewer
    }

    /// Returns for each rank the smallest of its group.
    fn heads_of(&self, groups: &Groups) -> Vec<u32> {
        let mut heads = vec![0; self.order.len()];
        let ends = groups.starts[1..].iter().copied().chain([self.ranks()]);
        for (&start, end) in groups.starts.iter().zip(ends) {
            for &rank in &self.order[start as usize..end as usize] {
                heads[rank as usize] = self.order[start as usize];
            }
        }
        heads
    }

    /// Returns the index of the group of a level that contains `rank`.
    fn index(&self, level: usize, rank: u32) -> usize {
        let position = self.position[rank as usize];
        self.levels[level].starts.partition_point(|&start| start <= position) - 1
    }

    /// Returns the positions of a group in `order`.
    fn range(&self, level: usize, index: usize) -> std::ops::Range<usize> {
        let starts = &self.levels[level].starts;
        let end = starts.get(index + 1).map_or(self.order.len(), |&end| end as usize);
        starts[index] as usize..end
    }
}

/// Returns the alternative sets of resources, one of which two ranks at `distance` or nearer must share
/// (section 4.4.1).
fn shared(distance: u8) -> &'static [&'static [Level]] {
    match distance {
        1 => &[&[Level::L3], &[Level::L2], &[Level::Core]],
        2 => &[&[Level::Package, Level::Numa]],
        3 => &[&[Level::Numa]],
        4 => &[&[Level::Package]],
        5 => &[&[Level::Board]],
        _ => &[&[]],
    }
}

/// Returns the host and the instances of `levels` that `place` is confined to, or `None` if it is not
/// confined to one of each.
fn key(distance: u8, place: &RankLocation, levels: &[Level]) -> Option<(u32, [u32; 2])> {
    let mut instances = [0; 2];
    for (instance, level) in instances.iter_mut().zip(levels) {
        *instance = place.at[*level as usize]?;
    }
    Some((if distance == NETWORK { 0 } else { place.host }, instances))
}

fn inverse(order: &[u32]) -> Vec<u32> {
    let mut position = vec![0; order.len()];
    for (place, &rank) in (0..).zip(order) {
        position[rank as usize] = place;
    }
    position
}

/// Disjoint sets of ranks that only grow.
struct Sets {
    parent: Vec<u32>,
}

impl Sets {
    fn new(ranks: usize) -> Sets {
        Sets { parent: (0..ranks as u32).collect() }
    }

    /// Returns the smallest rank of the set of `rank`.
    fn head(&mut self, mut rank: u32) -> u32 {
        while self.parent[rank as usize] != rank {
            let above = self.parent[self.parent[rank as usize] as usize];
            self.parent[rank as usize] = above;
            rank = above;
        }
        rank
    }

    fn heads(&mut self) -> Vec<u32> {
        (0..self.parent.len() as u32).map(|rank| self.head(rank)).collect()
    }

    /// Joins all ranks that have equal keys.
    fn join_equal<K: Ord>(&mut self, keys: impl Iterator<Item = Option<K>>) {
        let mut known: BTreeMap<K, u32> = BTreeMap::new();
        for (rank, key) in (0..).zip(keys) {
            let Some(key) = key else { continue };
            let first = *known.entry(key).or_insert(rank);
            let (one, two) = (self.head(first), self.head(rank));
            self.parent[one.max(two) as usize] = one.min(two);
        }
    }
}

#[cfg(test)]
mod tests;
