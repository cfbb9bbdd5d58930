//! Comparison of trees and rings with the paper's greedy algorithms over all pairs, on recorded and on random
//! machines, and with the golden files of `fixtures/topologies`. With TUTTI_BLESS=1 in the environment the
//! files are written anew.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tutti_topo::{Machine, ProcessorSet};

use super::*;
use crate::shape::Params;
use crate::tree::Form;

const STAR: Form = Form::Kary(Params::FLAT);

fn fixtures(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(kind)
}

fn machine(name: &str) -> Machine {
    let path = fixtures("machines").join(format!("{name}.txt"));
    Machine::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the places of ranks of which rank r is bound to processor `binding[r]`.
fn bound(machine: &Machine, binding: &[usize]) -> Vec<RankLocation> {
    let place = |&processor: &usize| {
        let set: ProcessorSet = [processor].into_iter().collect();
        RankLocation { host: 0, at: machine.places(&set) }
    };
    binding.iter().map(place).collect()
}

/// Pairs in the order of the paper's queues.
fn queue(ranks: u32, weight: impl Fn(u32, u32) -> u8, root: Option<u32>) -> Vec<(u32, u32)> {
    let pairs = (0..ranks).flat_map(|one| (one + 1..ranks).map(move |two| (one, two)));
    let mut pairs: Vec<(u32, u32)> = pairs.collect();
    let touches = |pair: (u32, u32)| Some(pair.0) == root || Some(pair.1) == root;
    pairs.sort_by_key(|&pair| {
        let ranks = match root {
            Some(root) if touches(pair) => (pair.0 + pair.1 - root, 0),
            _ => pair,
        };
        (weight(pair.0, pair.1), !touches(pair), ranks)
    });
    pairs
}

fn find(sets: &[u32], mut rank: u32) -> u32 {
    while sets[rank as usize] != rank {
        rank = sets[rank as usize];
    }
    rank
}

/// Returns the parents that Algorithm 1 finds.
fn greedy_tree(ranks: u32, weight: impl Fn(u32, u32) -> u8, root: u32) -> Vec<Option<u32>> {
    let mut sets: Vec<u32> = (0..ranks).collect();
    let mut neighbours = vec![Vec::new(); ranks as usize];
    for (one, two) in queue(ranks, weight, Some(root)) {
        let (head, other) = (find(&sets, one), find(&sets, two));
        if head != other {
            sets[other as usize] = head;
            neighbours[one as usize].push(two);
            neighbours[two as usize].push(one);
        }
    }
    let mut parents = vec![None; ranks as usize];
    let mut open = vec![root];
    while let Some(rank) = open.pop() {
        for &child in &neighbours[rank as usize] {
            if parents[rank as usize] == Some(child) {
                continue;
            }
            parents[child as usize] = Some(rank);
            open.push(child);
        }
    }
    parents
}

/// Returns the pairs of neighbours that Algorithm 2 finds, each sorted, all sorted. The last pair, which
/// closes the ring, is left out.
fn greedy_path(ranks: u32, weight: impl Fn(u32, u32) -> u8) -> Vec<(u32, u32)> {
    let mut sets: Vec<u32> = (0..ranks).collect();
    let mut degree = vec![0; ranks as usize];
    let mut path = Vec::new();
    for (one, two) in queue(ranks, weight, None) {
        let (head, other) = (find(&sets, one), find(&sets, two));
        if head != other && degree[one as usize] < 2 && degree[two as usize] < 2 {
            sets[other as usize] = head;
            degree[one as usize] += 1;
            degree[two as usize] += 1;
            path.push((one, two));
        }
    }
    path.sort_unstable();
    path
}

fn parents(hierarchy: &Hierarchy, form: Form, root: u32) -> Vec<Option<u32>> {
    (0..hierarchy.ranks()).map(|rank| Tree::new(hierarchy, form, root, rank).parent).collect()
}

/// Holds a hierarchy, its trees and its ring against distances and the greedy algorithms.
fn check(places: &[RankLocation], distance: impl Fn(u32, u32) -> u8) {
    let ranks = places.len() as u32;
    let hierarchy = Hierarchy::new(places);
    for one in 0..ranks {
        for two in (0..ranks).filter(|two| *two != one) {
            assert_eq!(hierarchy.distance(one, two), distance(one, two), "ranks {one} and {two}: {places:?}");
        }
    }
    check_groups(&hierarchy);
    for root in (0..ranks).step_by(1 + ranks as usize / 12) {
        assert_eq!(parents(&hierarchy, STAR, root), greedy_tree(ranks, &distance, root), "root {root}");
        for form in [STAR, Form::Kary(1), Form::Kary(3), Form::Knomial(2)] {
            check_tree(&hierarchy, form, root);
        }
    }
    check_ring(&hierarchy, &greedy_path(ranks, &distance));
}

fn check_groups(hierarchy: &Hierarchy) {
    for distance in 0..=NETWORK {
        let mut seen = 0;
        for group in hierarchy.groups(distance) {
            seen += group.len();
            for &rank in group {
                assert_eq!(hierarchy.group(distance, rank), group);
                assert_eq!(hierarchy.leader(distance, rank, rank), rank);
                assert!(group[0] <= rank && hierarchy.distance(group[0], rank) <= distance);
            }
        }
        assert_eq!(seen, hierarchy.ranks() as usize);
    }
}

/// Parents and children agree, and subtrees are what they say.
fn check_tree(hierarchy: &Hierarchy, form: Form, root: u32) {
    let ranks = hierarchy.ranks();
    let trees: Vec<Tree> = (0..ranks).map(|rank| Tree::new(hierarchy, form, root, rank)).collect();
    let mut found = vec![None; ranks as usize];
    for (rank, tree) in (0..).zip(&trees) {
        let mut sizes = 1;
        for child in &tree.children {
            assert_eq!(found[child.rank as usize].replace(rank), None);
            let other = &trees[child.rank as usize];
            assert_eq!((other.low, other.high), (child.low, child.high), "{form:?} {root} {rank}");
            assert_eq!(hierarchy.order[child.low as usize], child.rank);
            assert_eq!(hierarchy.distance(rank, child.rank), child.distance);
            sizes += child.high - child.low;
        }
        assert_eq!(sizes, tree.high - tree.low);
        assert!((tree.low..tree.high).contains(&hierarchy.position[rank as usize]));
    }
    assert_eq!(found, trees.iter().map(|tree| tree.parent).collect::<Vec<_>>(), "{form:?} {root}");
}

fn check_ring(hierarchy: &Hierarchy, expected: &[(u32, u32)]) {
    let ring = hierarchy.ring();
    let ranks = hierarchy.ranks();
    let mut pairs: Vec<(u32, u32)> = (0..ranks)
        .map(|rank| {
            assert_eq!(ring.left(ring.right(rank)), rank);
            (rank.min(ring.right(rank)), rank.max(ring.right(rank)))
        })
        .collect();
    pairs.sort_unstable();
    // The ring has one more pair, which closes it.
    let more: Vec<_> = expected.iter().filter(|pair| !pairs.contains(pair)).collect();
    assert!(more.is_empty() && pairs.len() == expected.len() + 1, "{pairs:?} {expected:?}");
}

fn check_bound(name: &str, binding: &[usize]) {
    let machine = machine(name);
    let set = |rank: u32| -> ProcessorSet { [binding[rank as usize]].into_iter().collect() };
    check(&bound(&machine, binding), |one, two| machine.distance(&set(one), &set(two)) as u8);
}

/// Returns the processors in an order that depends on the seed.
fn shuffled(mut list: Vec<usize>, mut seed: u64) -> Vec<usize> {
    for place in (1..list.len()).rev() {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        list.swap(place, (seed >> 33) as usize % (place + 1));
    }
    list
}

#[test]
fn recorded_machines_in_any_binding() {
    for name in ["front-side-bus-4x4", "boards-2x4x6", "boards-2x2x3", "sockets-4x2", "epyc-2x16-nps2"] {
        let processors: Vec<usize> = machine(name).processors().collect();
        check_bound(name, &processors);
        for seed in 0..4 {
            let ranks = processors.len() - seed as usize * processors.len() / 5;
            check_bound(name, &shuffled(processors.clone(), seed)[..ranks]);
        }
    }
    let far: Vec<usize> = (0..48).map(|rank| rank % 8 * 6 + rank / 8).collect();
    check_bound("boards-2x4x6", &far);
    let large: Vec<usize> = shuffled(machine("epyc-2x64-nps4").processors().collect(), 9);
    check_bound("epyc-2x64-nps4", &large[..60]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Several machines of any (nested) form; ranks are bound to a core, to something larger, or not at all.
    #[test]
    fn random_machines_in_any_binding(
        boards in 1_u32..3, packages in 1_u32..4, controllers in 1_u32..3, caches in 0_u32..3, cores in 1_u32..4,
        one_controller: bool,
        ranks in prop::collection::vec((0_u32..3, any::<u32>(), 0_u32..12), 1..40),
    ) {
        let places: Vec<RankLocation> = ranks.into_iter().map(|(host, seed, free)| {
            let mut at = [None; tutti_topo::model::LEVELS];
            let (mut seed, mut instance) = (seed, 0);
            let mut digit = |count: u32| {
                instance = instance * count.max(1) + seed % count.max(1);
                seed /= count.max(1);
                instance
            };
            at[Level::Board as usize] = Some(digit(boards));
            at[Level::Package as usize] = Some(digit(packages));
            at[Level::Numa as usize] = if one_controller { at[0] } else { Some(digit(controllers)) };
            at[Level::L3 as usize] = Some(digit(caches)).filter(|_| caches > 0);
            at[Level::Core as usize] = Some(digit(cores));
            // The rank is not confined on a random number of the innermost levels.
            at.iter_mut().rev().take(free.saturating_sub(5) as usize).for_each(|level| *level = None);
            if one_controller {
                at[Level::Numa as usize] = at[Level::Board as usize];
            }
            RankLocation { host, at }
        }).collect();
        check(&places, |one, two| distance_of(&places[one as usize], &places[two as usize]));
    }
}

/// Returns the distance by the literal definition of section 4.4.1.
fn distance_of(one: &RankLocation, two: &RankLocation) -> u8 {
    let share = |level: Level| {
        let instance = one.at[level as usize];
        instance.is_some() && instance == two.at[level as usize]
    };
    if one.host != two.host {
        return NETWORK;
    }
    if share(Level::L3) || share(Level::L2) || share(Level::Core) {
        return 1;
    }
    match (share(Level::Package), share(Level::Numa)) {
        (true, true) => 2,
        (false, true) => 3,
        (true, false) => 4,
        (false, false) if share(Level::Board) => 5,
        (false, false) => 6,
    }
}

fn check_ignored(ignored: Ignored, levels: &[u8], parent_of_15: u32) {
    let hierarchy = Hierarchy::new(&bound(&machine("front-side-bus-4x4"), &(0..16).collect::<Vec<_>>()));
    let fewer = hierarchy.without(ignored);
    assert_eq!(fewer.levels().collect::<Vec<_>>(), levels);
    check_groups(&fewer);
    assert_eq!(parents(&fewer, STAR, 0)[15], Some(parent_of_15));
}

#[test]
fn ignored_distances_make_trees_less_deep() {
    check_ignored(Ignored::NONE, &[1, 2, 3], 14);
    check_ignored(Ignored::BELOW_MEMORY, &[3], 0);
    check_ignored(Ignored::WITHIN_NODE, &[3], 0);
    check_ignored(Ignored(1 << 2), &[2, 3], 12);
    // The remaining ranks are in their own order again.
    let far: Vec<usize> = (0..16).map(|rank| rank % 4 * 4 + rank / 4).collect();
    let hierarchy = Hierarchy::new(&bound(&machine("front-side-bus-4x4"), &far));
    assert!(!hierarchy.order().is_sorted() && hierarchy.without(Ignored::BELOW_MEMORY).order().is_sorted());
}

#[test]
fn flat_and_alone() {
    for ranks in 1..9 {
        let flat = Hierarchy::flat(ranks);
        let other = Hierarchy::new(&vec![
            RankLocation { host: 0, at: [Some(0); tutti_topo::model::LEVELS] };
            ranks as usize
        ]);
        assert_eq!(flat.order(), other.order());
        assert_eq!(parents(&flat, STAR, ranks / 2), greedy_tree(ranks, |_, _| 1, ranks / 2));
        check_ring(&flat, &greedy_path(ranks, |_, _| 1));
        check_groups(&flat);
        assert_eq!(flat.without(Ignored::WITHIN_NODE).order(), flat.order());
    }
}

/// Returns the tree and the ring of a binding as text.
fn show(title: &str, name: &str, binding: &[usize], root: u32) -> String {
    let hierarchy = Hierarchy::new(&bound(&machine(name), binding));
    let mut text = format!("{title}\nmachine {name}\nrank:core");
    for (rank, core) in binding.iter().enumerate() {
        write!(text, " {rank}:{core}").unwrap();
    }
    text += "\n\ngroups\n";
    for distance in hierarchy.levels() {
        write!(text, "  distance {distance}:").unwrap();
        for group in hierarchy.groups(distance) {
            let ranks: Vec<String> = group.iter().map(u32::to_string).collect();
            write!(text, " ({})", ranks.join(" ")).unwrap();
        }
        text += "\n";
    }
    text += "\ntree, child @ distance\n";
    show_tree(&hierarchy, root, root, 1, &mut text);
    text += "\nring, rank -distance-\n ";
    let ring = hierarchy.ring();
    for &rank in ring.order.iter() {
        write!(text, " {rank} -{}-", hierarchy.distance(rank, ring.right(rank))).unwrap();
    }
    text + "\n"
}

fn show_tree(hierarchy: &Hierarchy, root: u32, rank: u32, depth: usize, text: &mut String) {
    let tree = Tree::new(hierarchy, STAR, root, rank);
    let far = tree.parent.map(|parent| format!(" @ {}", hierarchy.distance(parent, rank)));
    writeln!(text, "{}{rank}{}", "  ".repeat(depth), far.unwrap_or_default()).unwrap();
    for child in tree.far_first() {
        show_tree(hierarchy, root, child.rank, depth + 1, text);
    }
}

fn check_golden(file: &str, title: &str, name: &str, binding: &[usize], root: u32) {
    let text = show(title, name, binding, root);
    tutti_golden::check(&format!("topologies/{file}.txt"), &text);
}

/// The pictures of the paper are not part of its text: these bindings are ones that give what the text says
/// of them.
#[test]
fn trees_and_rings_are_as_recorded() {
    let figure = [3, 6, 0, 1, 8, 4, 5, 9, 2, 7, 11, 10];
    check_golden("figure-4.3", "Figure 4.3: root 5, 5 -> 1 -> 7 -> 10", "boards-2x2x3", &figure, 5);
    let figure = [6, 1, 4, 3, 0, 7, 2, 5];
    check_golden("figure-4.4", "Figure 4.4: a quad-socket dual-core node", "sockets-4x2", &figure, 0);
    let near: Vec<usize> = (0..48).collect();
    check_golden("boards-2x4x6-contiguous", "Section 4.5.1, contiguous case", "boards-2x4x6", &near, 0);
    let far: Vec<usize> = (0..48).map(|rank| rank % 8 * 6 + rank / 8).collect();
    check_golden("boards-2x4x6-crossed", "Section 4.5.1, cross socket case", "boards-2x4x6", &far, 0);
    let near: Vec<usize> = (0..16).collect();
    check_golden("front-side-bus-4x4", "Section 4.5.2, contiguous case", "front-side-bus-4x4", &near, 0);
    let spread: Vec<usize> = (0..32).map(|rank| rank % 8 * 16 + rank / 8 * 5).collect();
    check_golden("epyc-2x64-nps4", "32 ranks over 8 memory controllers", "epyc-2x64-nps4", &spread, 3);
}
