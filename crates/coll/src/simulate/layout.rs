//! Places of the ranks: the processors that each may use, and the distance of two ranks.
//!
//! Ranks that may run on the same processors form a [`Pool`], which runs as many of them at a time as it has
//! processors. A rank bound to a core of its own is a pool of one; ranks that are not bound share one pool.

use std::collections::HashMap;
use std::sync::Arc;

use tutti_base::Machines;
use tutti_topo::model::Places;
use tutti_topo::{Distance, Level, Machine, ProcessorSet};

use crate::hierarchy::{self, Hierarchy};

/// Set of ranks that share processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Number of ranks that can run at a time.
    pub processors: u32,
    /// Number of ranks in the pool.
    pub ranks: u32,
}

/// Place of one rank in a [`Layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPlace {
    /// Number of its host, beginning with 0.
    pub host: u32,
    /// Index of its pool in [`Layout::pools`].
    pub pool: u32,
    /// Number of its memory controller, counted over all hosts.
    pub memory: u32,
    /// Number of its last-level cache, counted over all hosts.
    pub cache: u32,
    /// Number of its board, counted over all hosts.
    pub board: u32,
    /// Instance of each of [`LEVELS`] that contains it wholly, or [`NONE`].
    at: [u32; LEVELS.len()],
}

/// Levels that the distance of ranks depends on, from the inside out.
const LEVELS: [Level; 6] = [Level::Core, Level::L2, Level::L3, Level::Package, Level::Numa, Level::Board];
/// Value for a rank that is in no single instance of a level.
const NONE: u32 = u32::MAX;

/// Places of all ranks, their pools and their hierarchy.
#[derive(Clone, Debug)]
pub struct Layout {
    places: Vec<PoolPlace>,
    pools: Vec<Pool>,
    memories: u32,
    /// The largest number of ranks that share a last-level cache.
    cache_ranks: u32,
    hierarchy: Arc<Hierarchy>,
}

/// Usual methods of placing ranks on the cores of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Consecutive ranks on neighbouring cores.
    Compact,
    /// Neighbours as far apart as possible: packages in turn, memory controllers in turn.
    Scatter,
    /// Shuffled cores; the value is the seed.
    Random(u64),
    /// Given processors, used one after another.
    List(Vec<usize>),
    /// Not bound: all ranks share all cores.
    None,
}

impl Layout {
    /// Returns the layout of `ranks` ranks that share `cores` cores of unknown topology and one cache.
    pub fn flat(ranks: u32, cores: u32) -> Layout {
        let place =
            PoolPlace { host: 0, pool: 0, memory: 0, cache: 0, board: 0, at: [NONE, NONE, 0, 0, 0, 0] };
        Layout {
            places: vec![place; ranks as usize],
            pools: vec![Pool { processors: cores.max(1), ranks }],
            memories: 1,
            cache_ranks: ranks,
            hierarchy: Arc::new(Hierarchy::flat(ranks)),
        }
    }

    /// Returns the layout of ranks confined to sets of processors of `machine`. There are `hosts` machines,
    /// all alike; the first of them is filled first.
    pub fn from_sets(machine: &Machine, sets: &[ProcessorSet], hosts: u32) -> Layout {
        let per_host = sets.len().div_ceil(hosts.max(1) as usize).max(1);
        Layout::placed(machine, sets, hosts, |rank| (rank / per_host) as u32)
    }

    /// Returns the same layout with the host of each rank given by `host`.
    fn placed(machine: &Machine, sets: &[ProcessorSet], hosts: u32, host: impl Fn(usize) -> u32) -> Layout {
        let (mut places, mut pools) = (Vec::with_capacity(sets.len()), Vec::new());
        let mut known: HashMap<(u32, Vec<usize>), usize> = HashMap::new();
        let mut near = Vec::with_capacity(sets.len());
        let memories = machine.count(Level::Numa).max(1) as u32;
        let caches = machine.count(Level::L3).max(machine.count(Level::L2)).max(1) as u32;
        let boards = machine.count(Level::Board).max(1) as u32;
        for (rank, set) in sets.iter().enumerate() {
            let host = host(rank);
            let at = LEVELS.map(|level| machine.location(set, level).unwrap_or(NONE));
            // The threads of one core share its speed: a rank bound to a thread counts as bound to its core.
            let key = match at[0] {
                NONE => set.iter().collect(),
                core => vec![usize::MAX, core as usize],
            };
            let pool = *known.entry((host, key)).or_insert_with(|| {
                pools.push(Pool { processors: cores(machine, set), ranks: 0 });
                pools.len() - 1
            });
            pools[pool].ranks += 1;
            near.push(hierarchy::RankLocation { host, at: machine.places(set) });
            let shared = if machine.count(Level::L3) > 0 { at[2] } else { at[1] };
            places.push(PoolPlace {
                host,
                pool: pool as u32,
                memory: host * memories + if at[4] == NONE { 0 } else { at[4] },
                cache: host * caches + if shared == NONE { 0 } else { shared },
                board: host * boards + if at[5] == NONE { 0 } else { at[5] },
                at,
            });
        }
        let mut sharing = vec![0; (hosts.max(1) * caches) as usize];
        places.iter().for_each(|place| sharing[place.cache as usize] += 1);
        let cache_ranks = sharing.into_iter().max().unwrap_or(1);
        let hierarchy = Arc::new(Hierarchy::new(&near));
        Layout { places, pools, memories: hosts.max(1) * memories, cache_ranks, hierarchy }
    }

    /// Returns the layout of ranks on these hosts, each of which has `cores` cores of unknown topology.
    pub fn across(hosts: &[u32], cores: u32) -> Layout {
        let count = hosts.iter().map(|host| host + 1).max().unwrap_or(0);
        Layout::on_machines(hosts, &Machines::apart(count, cores))
    }

    /// Returns the layout of ranks on hosts of which several may be one machine, such as the containers of a
    /// job. These share its cores, memory and caches, but reach each other by the network alone.
    ///
    /// # Panics
    /// If one of the hosts has no machine: a bug of the caller.
    /// If one of the hosts has no machine: a bug of the caller.
    pub fn on_machines(hosts: &[u32], machines: &Machines) -> Layout {
        let hosts_in_order = dense(hosts);
        let cores = machines.processors;
        let machines = dense(&hosts.iter().map(|host| machines.of_host[*host as usize]).collect::<Vec<_>>());
        let count = machines.iter().map(|machine| machine + 1).max().unwrap_or(0);
        let mut pools = vec![Pool { processors: cores.max(1), ranks: 0 }; count as usize];
        let place = |(host, machine): (u32, u32)| {
            pools[machine as usize].ranks += 1;
            let (pool, memory, cache, board) = (machine, machine, machine, machine);
            PoolPlace { host, pool, memory, cache, board, at: [NONE, NONE, 0, 0, 0, 0] }
        };
        let places: Vec<PoolPlace> = hosts_in_order.into_iter().zip(machines).map(place).collect();
        let near: Vec<hierarchy::RankLocation> = places
            .iter()
            .map(|place| hierarchy::RankLocation { host: place.host, at: Places::default() })
            .collect();
        Layout {
            memories: pools.len() as u32,
            cache_ranks: pools.iter().map(|pool| pool.ranks).max().unwrap_or(1),
            hierarchy: Arc::new(Hierarchy::new(&near)),
            places,
            pools,
        }
    }

    /// Returns the layout of `ranks` ranks that are dealt to `hosts` machines in turn, and placed on their
    /// cores by `binding`. Consecutive ranks are on different hosts.
    pub fn dealt(machine: &Machine, binding: &Binding, ranks: u32, hosts: u32) -> Layout {
        let hosts = hosts.clamp(1, ranks.max(1));
        let sets = sets(machine, binding, ranks, |rank| rank / hosts as usize);
        Layout::placed(machine, &sets, hosts, |rank| rank as u32 % hosts)
    }

    /// Returns the layout of `ranks` ranks on `hosts` machines, placed on their cores by `binding`. Each host
    /// gets consecutive ranks.
    pub fn bound(machine: &Machine, binding: &Binding, ranks: u32, hosts: u32) -> Layout {
        let hosts = hosts.clamp(1, ranks.max(1));
        let per_host = ranks.div_ceil(hosts) as usize;
        Layout::from_sets(machine, &sets(machine, binding, ranks, |rank| rank % per_host), hosts)
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.places.len() as u32
    }

    /// Returns a hash that is equal for equal layouts in any run.
    pub fn fingerprint(&self) -> u64 {
        let words = |place: &PoolPlace| {
            [place.host, place.pool, place.memory, place.cache, place.board].into_iter().chain(place.at)
        };
        let pools = self.pools.iter().flat_map(|pool| [pool.processors, pool.ranks]);
        // FNV-1a, word by word.
        self.places.iter().flat_map(words).chain(pools).fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
            (hash ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        })
    }

    /// Returns the place of `rank`.
    pub fn place(&self, rank: u32) -> &PoolPlace {
        &self.places[rank as usize]
    }

    /// Returns the pools of all ranks.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Returns the number of memory controllers.
    pub fn memories(&self) -> u32 {
        self.memories
    }

    /// Returns the number of boards.
    pub fn boards(&self) -> u32 {
        self.places.iter().map(|place| place.board + 1).max().unwrap_or(1)
    }

    /// Returns the largest number of ranks that share a last-level cache.
    pub fn cache_ranks(&self) -> u32 {
        self.cache_ranks
    }

    /// Returns the hierarchy of the ranks, as algorithms use it.
    pub fn hierarchy(&self) -> &Arc<Hierarchy> {
        &self.hierarchy
    }

    /// Returns the number of hosts.
    pub fn hosts(&self) -> u32 {
        self.places.iter().map(|place| place.host + 1).max().unwrap_or(1)
    }

    /// Returns the largest number of ranks on one host.
    pub fn ranks_on_host(&self) -> u32 {
        let mut ranks = vec![0; self.hosts() as usize];
        self.places.iter().for_each(|place| ranks[place.host as usize] += 1);
        ranks.into_iter().max().unwrap_or(1)
    }

    /// Returns a description of several hosts for users: ` on 4 hosts, up to 2 of them on one machine`.
    /// Returns an empty text for one host.
    pub fn on_hosts(&self) -> String {
        match (self.hosts(), self.hosts_on_machine()) {
            (1, _) => String::new(),
            (hosts, 1) => format!(" on {hosts} hosts"),
            (hosts, sharing) => format!(" on {hosts} hosts, up to {sharing} of them on one machine"),
        }
    }

    /// Returns the largest number of hosts that are one machine and share its processors.
    pub fn hosts_on_machine(&self) -> u32 {
        let mut pairs: Vec<(u32, u32)> = self.places.iter().map(|place| (place.pool, place.host)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs.chunk_by(|one, two| one.0 == two.0).map(|hosts| hosts.len() as u32).max().unwrap_or(1)
    }

    /// Returns true if a pool has more ranks than processors.
    pub fn crowded(&self) -> bool {
        self.pools.iter().any(|pool| pool.ranks > pool.processors)
    }

    /// Returns the distance of two ranks: an index into a [`crate::model::ByDistance`].
    #[inline]
    pub fn distance(&self, one: u32, two: u32) -> usize {
        let (one, two) = (&self.places[one as usize], &self.places[two as usize]);
        if one.host != two.host {
            return 7;
        }
        let share = |level: usize| one.at[level] != NONE && one.at[level] == two.at[level];
        if share(0) {
            return 0;
        }
        let distance = if share(1) || share(2) {
            Distance::SharedCache
        } else {
            match (share(3), share(4), share(5)) {
                (true, true, _) => Distance::SamePackageAndNuma,
                (false, true, _) => Distance::SameNuma,
                (true, false, _) => Distance::SamePackage,
                (false, false, true) => Distance::SameBoard,
                (false, false, false) => Distance::OtherBoard,
            }
        };
        distance as usize
    }
}

/// Maps the numbers to 0, 1, ... in ascending order.
fn dense(numbers: &[u32]) -> Vec<u32> {
    let mut known = numbers.to_vec();
    known.sort_unstable();
    known.dedup();
    numbers.iter().map(|number| known.partition_point(|other| other < number) as u32).collect()
}

/// Returns the set of processors of each of `ranks` ranks. `number(rank)` is its number on its host.
fn sets(
    machine: &Machine,
    binding: &Binding,
    ranks: u32,
    number: impl Fn(usize) -> usize,
) -> Vec<ProcessorSet> {
    let order = order(machine, binding);
    let set = |rank: usize| match binding {
        Binding::None => machine.processors().collect(),
        _ => std::iter::once(order[number(rank) % order.len()]).collect(),
    };
    (0..ranks as usize).map(set).collect()
}

/// Counts the cores that hold processors of `set`. A processor without a known core counts as one.
fn cores(machine: &Machine, set: &ProcessorSet) -> u32 {
    let mut seen: Vec<u32> = set.iter().filter_map(|number| machine.instance(number, Level::Core)).collect();
    let known = seen.len();
    seen.sort_unstable();
    seen.dedup();
    ((seen.len() + set.len() - known) as u32).max(1)
}

/// Returns one processor for each core, in the order in which ranks get them.
fn order(machine: &Machine, binding: &Binding) -> Vec<usize> {
    let mut cores: Vec<(u32, usize)> = Vec::new();
    for processor in machine.processors() {
        let core = machine.instance(processor, Level::Core).unwrap_or(NONE - processor as u32);
        if cores.iter().all(|(known, _)| *known != core) {
            cores.push((core, processor));
        }
    }
    let compact: Vec<usize> = cores.into_iter().map(|(_, processor)| processor).collect();
    match binding {
        Binding::Compact | Binding::None => compact,
        Binding::List(list) => list.clone(),
        Binding::Scatter => scatter(machine, &compact),
        Binding::Random(seed) => shuffle(compact, *seed),
    }
}

/// Orders processors so that boards alternate, within a board its packages, and so on inwards. The order is
/// that of the reversed digits of the place in the table.
fn scatter(machine: &Machine, compact: &[usize]) -> Vec<usize> {
    const TURNS: [Level; 4] = [Level::Board, Level::Package, Level::Numa, Level::L3];
    let mut keyed: Vec<(Vec<usize>, usize)> = compact
        .iter()
        .enumerate()
        .map(|(position, &processor)| {
            let inside = |level: Level| machine.instance(processor, level).unwrap_or(0);
            // Index of each instance among its siblings, innermost first.
            let mut key: Vec<usize> = vec![0; TURNS.len() + 1];
            for (depth, &level) in TURNS.iter().enumerate() {
                let outer = |other: usize| {
                    TURNS[..depth]
                        .iter()
                        .all(|&level| machine.instance(other, level) == machine.instance(processor, level))
                };
                let mut siblings: Vec<u32> = compact
                    .iter()
                    .filter(|&&other| outer(other))
                    .map(|&other| machine.instance(other, level).unwrap_or(0))
                    .collect();
                siblings.dedup();
                key[TURNS.len() - depth] =
                    siblings.iter().position(|&sibling| sibling == inside(level)).unwrap_or(0);
            }
            let same = |other: &&usize| {
                TURNS
                    .iter()
                    .all(|&level| machine.instance(**other, level) == machine.instance(processor, level))
            };
            key[0] = compact[..position].iter().filter(same).count();
            (key, processor)
        })
        .collect();
    keyed.sort();
    keyed.into_iter().map(|(_, processor)| processor).collect()
}

/// Shuffles a list; the result depends only on the seed (Fisher and Yates, numbers by Knuth's multiplier).
fn shuffle(mut list: Vec<usize>, seed: u64) -> Vec<usize> {
    let mut state = seed;
    for last in (1..list.len()).rev() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        list.swap(last, ((state >> 33) % (last as u64 + 1)) as usize);
    }
    list
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a machine recorded in `fixtures/machines`.
    pub fn machine(name: &str) -> Machine {
        let path = format!("{}/../../fixtures/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        Machine::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn check(machine_name: &str, binding: Binding, ranks: u32, pairs: &[(u32, u32, usize)]) {
        let layout = Layout::bound(&machine(machine_name), &binding, ranks, 1);
        for &(one, two, expected) in pairs {
            assert_eq!(layout.distance(one, two), expected, "{binding:?} {one} {two}");
            assert_eq!(layout.distance(two, one), expected, "{binding:?} {two} {one}");
        }
    }

    #[test]
    fn bindings_put_neighbours_near_or_far() {
        check(
            "epyc-2x16-nps2",
            Binding::Compact,
            64,
            &[(0, 1, 1), (0, 4, 2), (0, 8, 4), (0, 16, 5), (0, 32, 0)],
        );
        check(
            "epyc-2x16-nps2",
            Binding::Scatter,
            32,
            &[(0, 1, 5), (0, 2, 4), (0, 4, 2), (0, 8, 1), (1, 9, 1)],
        );
        check("boards-2x2x2", Binding::Scatter, 8, &[(0, 1, 6), (0, 2, 5)]);
        check("boards-2x2x2", Binding::List(vec![0, 7, 1]), 3, &[(0, 1, 6), (0, 2, 2)]);
        check("laptop-4x2", Binding::Compact, 8, &[(0, 1, 1), (0, 4, 0)]);
    }

    #[test]
    fn pools_are_the_ranks_that_share_processors() {
        let laptop = machine("laptop-4x2");
        let pools = |binding, ranks, hosts| {
            let layout = Layout::bound(&laptop, &binding, ranks, hosts);
            let all: Vec<_> = layout.pools().iter().map(|pool| (pool.processors, pool.ranks)).collect();
            (all, layout.crowded())
        };
        assert_eq!(pools(Binding::None, 6, 1), (vec![(4, 6)], true));
        assert_eq!(pools(Binding::Compact, 4, 1), (vec![(1, 1); 4], false));
        assert_eq!(pools(Binding::Compact, 5, 1), (vec![(1, 2), (1, 1), (1, 1), (1, 1)], true));
        assert_eq!(pools(Binding::Compact, 8, 2), (vec![(1, 1); 8], false));
        let two = Layout::bound(&laptop, &Binding::Compact, 8, 2);
        assert_eq!((two.distance(3, 4), two.hosts(), two.memories(), two.cache_ranks()), (7, 2, 2, 4));
        let dealt = Layout::dealt(&laptop, &Binding::Compact, 8, 2);
        assert_eq!((dealt.distance(0, 1), dealt.distance(0, 2), dealt.pools()), (7, 1, two.pools()));
        assert!(!Layout::flat(2, 2).crowded() && Layout::flat(3, 2).crowded());
    }

    #[test]
    fn hosts_of_one_machine_share_its_processors() {
        let check = |hosts: &[u32], machines: &[u32], pools: &[(u32, u32)], most: (u32, u32)| {
            let machines = Machines { of_host: machines.to_vec(), processors: 2 };
            let layout = Layout::on_machines(hosts, &machines);
            let found: Vec<_> = layout.pools().iter().map(|pool| (pool.processors, pool.ranks)).collect();
            assert_eq!(found, pools);
            assert_eq!((layout.ranks_on_host(), layout.hosts_on_machine()), most);
            assert_eq!(layout.memories(), pools.len() as u32);
            assert_eq!(layout.distance(0, layout.ranks() - 1), 7, "another host is reached by the network");
        };
        check(&[0, 0, 1, 1, 2, 2], &[0, 0, 0], &[(2, 6)], (2, 3));
        check(&[0, 0, 1, 2, 2], &[0, 1, 2], &[(2, 2), (2, 1), (2, 2)], (2, 1));
        check(&[0, 1, 2, 0, 2], &[5, 3, 5], &[(2, 1), (2, 4)], (2, 2));
    }

    #[test]
    fn a_random_binding_is_a_permutation() {
        let epyc = machine("epyc-2x16-nps2");
        let (one, two) = (order(&epyc, &Binding::Random(1)), order(&epyc, &Binding::Random(2)));
        assert_ne!(one, two);
        assert_eq!(one, order(&epyc, &Binding::Random(1)));
        let mut sorted = one;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..32).collect::<Vec<_>>());
    }
}
