//! Proofs of the algorithms that are not for all ranks of one communicator. Some are between the two groups
//! of an intercommunicator, proved for all sizes of both. Others follow the edges of grids and graphs,
//! including duplicates and loops.

use std::sync::Arc;

use tutti_coll::generator::{Association, Need};
use tutti_coll::verify::{Case, Pattern, verify_as};
use tutti_coll::{Collective, Params, Schedule, registry};

/// Verifies one case by every algorithm for it with these parameters.
fn check(case: Case, association: Association) {
    let first_group = if let Pattern::Groups(first) = case.pattern { first } else { 0 };
    let all = registry().iter().filter(|generator| {
        generator.collective == case.collective && generator.requires(Need::TwoGroups) == (first_group > 0)
    });
    let mut proved = 0;
    for generator in all {
        let schedule = |rank| {
            let neighbours = Arc::new(case.neighbours(rank));
            generator.generate_among(&case.shape(rank), &case.params, None, Some(&neighbours))
        };
        let schedules: Vec<Schedule> = (0..case.ranks).map(schedule).collect();
        if let Err(fault) = verify_as(&case, &schedules, association) {
            panic!("{generator:?}, {case:?}: {fault}");
        }
        proved += 1;
    }
    assert!(proved > 0, "{case:?} has no algorithm");
}

fn case(collective: Collective, ranks: u32, count: u64, pattern: Pattern) -> Case {
    let (params, commutative) = (Params::default(), false);
    Case { collective, ranks, root: 0, count, commutative, in_place: false, params, pattern }
}

#[test]
fn what_one_group_gives_the_other_gets() {
    let both = |collective: &Collective| !matches!(collective, Collective::Scan | Collective::Exscan);
    for collective in Collective::ALL.into_iter().filter(both) {
        for (first, second) in (1..=7).flat_map(|first| (1..=7).map(move |second| (first, second))) {
            let ranks = first + second;
            let roots = if collective.rooted() { ranks } else { 1 };
            for (root, count) in (0..roots).flat_map(|root| [(root, 0), (root, 1), (root, 3)]) {
                for (radix, window) in [(2, 2), (Params::FLAT, 64), (3, 1)] {
                    let params = Params { radix, window, ..Params::default() };
                    let count = if collective == Collective::Barrier { 0 } else { count };
                    let whole = case(collective, ranks, count, Pattern::Groups(first));
                    check(Case { root, params, ..whole }, Association::Free);
                }
            }
        }
    }
}

#[test]
fn groups_of_many_ranks() {
    for collective in Collective::ALL {
        if matches!(collective, Collective::Scan | Collective::Exscan) {
            continue;
        }
        for (first, second) in [(1, 64), (64, 1), (31, 33), (48, 5)] {
            let root = if collective.rooted() { first } else { 0 };
            let count = u64::from(collective != Collective::Barrier);
            check(
                Case { root, ..case(collective, first + second, count, Pattern::Groups(first)) },
                Association::Free,
            );
        }
    }
}

#[test]
fn a_flat_tree_combines_from_the_right() {
    for collective in [Collective::Reduce, Collective::Allreduce, Collective::ReduceScatter] {
        for first in 1..6 {
            let params = Params { radix: Params::FLAT, ..Params::default() };
            let whole = case(collective, 7, 2, Pattern::Groups(first));
            check(Case { params, ..whole }, Association::FromRight);
        }
    }
}

#[test]
fn neighbours_in_grids() {
    let extents = [[1, 1, 1], [2, 1, 1], [1, 2, 1], [3, 1, 2], [2, 2, 2], [4, 3, 2], [5, 1, 3], [1, 1, 7]];
    for dims in extents {
        for flags in 0..8 {
            let periodic = [flags & 1 == 1, flags & 2 == 2, flags & 4 == 4];
            for (collective, count) in
                Collective::OF_NEIGHBOURS.into_iter().zip([1, 2, 0, 3].into_iter().cycle())
            {
                let ranks = dims.iter().product();
                check(case(collective, ranks, count, Pattern::Grid { dims, periodic }), Association::Free);
                check(case(collective, ranks, 1, Pattern::Grid { dims, periodic }), Association::Free);
            }
        }
    }
}

#[test]
fn neighbours_in_graphs() {
    for collective in Collective::OF_NEIGHBOURS {
        for ranks in [1, 2, 3, 4, 5, 8, 17] {
            for (seed, degree) in [(1, 0), (2, 1), (3, 3), (4, 8), (5, 20)] {
                if degree * ranks > 64 {
                    continue;
                }
                for count in [0, 1, 2] {
                    check(
                        case(collective, ranks, count, Pattern::Random { seed, degree }),
                        Association::Free,
                    );
                }
            }
        }
        // So many edges between two ranks that lanes come again.
        check(case(collective, 2, 1, Pattern::Random { seed: 6, degree: 100 }), Association::Free);
    }
}
