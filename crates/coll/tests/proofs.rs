//! Proves every registered algorithm: for every number of ranks from 1 to 64 and every root, with
//! counts, parameters, MPI_IN_PLACE and commutativity that vary from case to case; for few ranks, all
//! combinations of them; and at random up to 1000 ranks.

use proptest::prelude::*;
use tutti_coll::verify::{Case, verify};
use tutti_coll::{Collective, Generator, Params, Schedule, registry};

const RADICES: [u32; 5] = [2, 3, Params::FLAT, 1, 4];
const SEGMENTS: [u64; 3] = [0, 2, 3];
const WINDOWS: [u32; 4] = [2, 1, 64, 3];

fn schedules(generator: &Generator, case: &Case) -> Option<Vec<Schedule>> {
    let shapes = (0..case.ranks).map(|rank| case.shape(rank));
    shapes.map(|shape| generator.suits(&shape).then(|| generator.generate(&shape, &case.params))).collect()
}

/// Verifies one case, if the algorithm suits it.
fn check(generator: &Generator, case: Case) {
    let Some(schedules) = schedules(generator, &case) else { return };
    if let Err(fault) = verify(&case, &schedules) {
        panic!("{generator:?}, {case:?}: {fault}");
    }
}

/// Counts worth a try: none, one, fewer than ranks, more than ranks and no multiple of them.
fn counts(collective: Collective, ranks: u32) -> Vec<u64> {
    use Collective as C;
    match collective {
        C::Barrier => vec![0],
        C::Bcast | C::Reduce | C::Allreduce | C::Scan | C::Exscan => {
            vec![u64::from(ranks) + 3, 1, 0, u64::from(ranks / 2), 2 * u64::from(ranks)]
        }
        _ => vec![1, 2, 0],
    }
}

fn all_params(generator: &Generator) -> Vec<Params> {
    let parameters = generator.parameters;
    let mut list = Vec::new();
    for &radix in &RADICES[..if parameters.radix { RADICES.len() } else { 1 }] {
        for &segment in &SEGMENTS[..if parameters.segment { SEGMENTS.len() } else { 1 }] {
            for &window in &WINDOWS[..if parameters.window { WINDOWS.len() } else { 1 }] {
                list.push(Params { radix, segment, window, ..Params::default() });
            }
        }
    }
    list
}

fn roots(generator: &Generator, ranks: u32) -> u32 {
    if generator.collective.rooted() { ranks } else { 1 }
}

/// All combinations for few ranks, and one of them for each pair of ranks and root beyond.
fn prove(collective: Collective) {
    for generator in registry().iter().filter(|generator| generator.collective == collective) {
        let params = all_params(generator);
        let mut turn = 0;
        for ranks in 1..=64 {
            let counts = counts(collective, ranks);
            let mut cases = Vec::new();
            for &count in &counts {
                for &params in &params {
                    for flags in 0..4 {
                        let (commutative, in_place) = (flags & 1 == 1, flags & 2 == 2);
                        cases.push(Case { collective, ranks, root: 0, count, commutative, in_place, params });
                    }
                }
            }
            for root in 0..roots(generator, ranks) {
                if ranks <= 6 {
                    cases.iter().for_each(|case| check(generator, Case { root, ..*case }));
                    continue;
                }
                // Every root twice; where there is none, more cases.
                for _ in 0..if generator.collective.rooted() { 2 } else { 16 } {
                    // 31 has no factor in common with the number of cases.
                    turn = (turn + 31) % cases.len();
                    let mut case = Case { root, ..cases[turn] };
                    if case.params.segment > 0 {
                        // Pipelines of up to eight segments; the longest are for few ranks.
                        case.params.segment += case.count / 8;
                    }
                    check(generator, case);
                }
            }
        }
    }
}

macro_rules! proofs {
    ($($name:ident: $collective:ident,)*) => {
        $(#[test]
        fn $name() {
            prove(Collective::$collective);
        })*
    };
}

proofs! {
    barrier: Barrier, bcast: Bcast, gather: Gather, gatherv: Gatherv, scatter: Scatter,
    scatterv: Scatterv, allgather: Allgather, allgatherv: Allgatherv, alltoall: Alltoall,
    alltoallv: Alltoallv, reduce: Reduce, allreduce: Allreduce,
    reduce_scatter_block: ReduceScatterBlock, reduce_scatter: ReduceScatter, scan: Scan,
    exscan: Exscan,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Beyond 64 ranks, at random. Data grow with the square of the ranks where all send to all.
    #[test]
    fn many_ranks(
        ranks in 65_u32..=1000,
        root in any::<u32>(),
        count in 0_u64..40,
        radix in 1_u32..20,
        segment in 0_u64..9,
        window in 1_u32..=64,
        commutative: bool,
        in_place: bool,
    ) {
        for generator in registry() {
            use Collective as C;
            let quadratic = matches!(generator.collective, C::Allgather | C::Allgatherv | C::Alltoall
                | C::Alltoallv | C::ReduceScatter | C::ReduceScatterBlock | C::Allreduce);
            let ranks = if quadratic { 65 + ranks % 100 } else { ranks };
            let count = if quadratic && generator.collective != C::Allreduce { count % 3 } else { count };
            let root = if generator.collective.rooted() { root % ranks } else { 0 };
            let params = Params { radix, segment, window, ..Params::default() };
            let collective = generator.collective;
            check(generator, Case { collective, ranks, root, count, commutative, in_place, params });
        }
    }
}
