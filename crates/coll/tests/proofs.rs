//! Proofs of every registered algorithm, for every number of ranks from 1 to 64 and every root. Counts,
//! parameters, MPI_IN_PLACE and commutativity vary from case to case. For few ranks all their combinations
//! are proved, and random cases up to 1000 ranks. Algorithms that use distances see ranks of unknown places,
//! and ranks that are bound in order and crosswise.

use std::sync::Arc;

use proptest::prelude::*;
use tutti_coll::generator::{Association, Need, Node, Parameter};
use tutti_coll::hierarchy::{Hierarchy, Ignored, RankLocation};
use tutti_coll::ir::{Kind, StepId};
use tutti_coll::verify::{Case, Pattern, most_steps, verify_as};
use tutti_coll::{Collective, Environment, Generator, Params, Schedule, Shape, registry, select};

const RADICES: [u32; 5] = [2, 3, Params::FLAT, 1, 4];
const SEGMENTS: [u64; 3] = [0, 2, 3];
const WINDOWS: [u32; 4] = [2, 1, 64, 3];

/// Number of [`arrangement`]s.
const ARRANGEMENTS: usize = 4;

/// Returns the places of ranks and the ignored distances. The machine has two ranks to a cache, two caches to
/// a memory controller, two controllers to a socket, three sockets to a board.
fn arrangement(number: usize, ranks: u32) -> (Option<Arc<Hierarchy>>, Ignored) {
    let place = |processor: u32| RankLocation {
        host: 0,
        at: [
            Some(processor / 24),
            Some(processor / 8),
            Some(processor / 4),
            Some(processor / 2),
            Some(processor),
            Some(processor),
            Some(processor),
        ],
    };
    let crosswise = |rank: u32| rank % 5 * ranks.div_ceil(5) + rank / 5;
    let bound = |binding: &dyn Fn(u32) -> u32| {
        let places: Vec<RankLocation> = (0..ranks).map(|rank| place(binding(rank))).collect();
        Some(Arc::new(Hierarchy::new(&places)))
    };
    match number % ARRANGEMENTS {
        0 => (None, Ignored::NONE),
        1 => (bound(&|rank| rank), Ignored::NONE),
        2 => (bound(&crosswise), Ignored::NONE),
        _ => (bound(&crosswise), Ignored::BELOW_MEMORY),
    }
}

/// Verifies one case, if the algorithm suits it, in the given [`arrangement`] if it looks at one.
fn check(generator: &Generator, case: Case, number: usize) {
    check_as(generator, case, number, Association::Free);
}

/// Checks a case, and that operands are combined in the order of `association`.
fn check_as(generator: &Generator, case: Case, number: usize, association: Association) {
    let looks = generator.parameters.has(Parameter::Distances);
    let (hierarchy, ignored) = arrangement(if looks { number } else { 0 }, case.ranks);
    let case = Case { params: Params { ignored, ..case.params }, ..case };
    let shapes = (0..case.ranks).map(|rank| case.shape(rank));
    let schedules: Option<Vec<Schedule>> = shapes
        .map(|shape| {
            let generate = || generator.generate_on(&shape, &case.params, hierarchy.as_ref());
            let suits = match &hierarchy {
                Some(hierarchy) => generator.suits_on(&shape, hierarchy),
                None => generator.suits(&shape),
            };
            suits.then(generate)
        })
        .collect();
    let Some(schedules) = schedules else { return };
    if let Err(fault) = verify_as(&case, &schedules, association) {
        panic!("{generator:?}, {case:?}, arrangement {number}: {fault}");
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
    for &radix in &RADICES[..if parameters.radix().is_some() { RADICES.len() } else { 1 }] {
        for &segment in &SEGMENTS[..if parameters.segments().is_some() { SEGMENTS.len() } else { 1 }] {
            for &window in &WINDOWS[..if parameters.has(Parameter::Window) { WINDOWS.len() } else { 1 }] {
                list.push(Params { radix, segment, window, ..Params::default() });
            }
        }
    }
    for (turn, params) in list.iter_mut().enumerate() {
        // The tree downwards is another one than that upwards, in turn.
        params.fan_out =
            if parameters.has(Parameter::FanOut) { [0, 3, Params::FLAT, 2][turn % 4] } else { 0 };
    }
    if parameters.has(Parameter::Readers) {
        let bounded = list.clone().into_iter().zip([1, 2, 5].into_iter().cycle());
        list.extend(bounded.map(|(params, readers)| Params { readers, ..params }));
    }
    list
}

fn roots(generator: &Generator, ranks: u32) -> u32 {
    if generator.collective.rooted() { ranks } else { 1 }
}

/// Proves all combinations for few ranks, and one of them for each pair of ranks and root beyond.
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
                        cases.push(Case {
                            collective,
                            ranks,
                            root: 0,
                            count,
                            commutative,
                            in_place,
                            params,
                            pattern: Pattern::Whole,
                        });
                    }
                }
            }
            for root in 0..roots(generator, ranks) {
                if ranks <= 6 {
                    let cases = cases.iter().enumerate();
                    cases.for_each(|(number, case)| {
                        check(generator, Case { root, ..*case }, number / 4 + ranks as usize)
                    });
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
                    check(generator, case, turn);
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

/// Schedules for so many ranks cannot be proved, but their steps can be counted. Steps grow with the
/// logarithm of the number of ranks, and with the ranks of a host and the hosts where a rank communicates
/// with each.
#[test]
fn steps_are_few_at_4096_ranks() {
    const HOSTS: u32 = 64;
    let place = |rank: u32| RankLocation { host: rank / HOSTS, at: Default::default() };
    let places: Vec<RankLocation> = (0..4096).map(place).collect();
    let hierarchy = Arc::new(Hierarchy::new(&places));
    let free = |generator: &&Generator| {
        let grows = [Need::FewRanks, Need::FewTurns].iter().any(|need| generator.requires(*need));
        !grows && !generator.collective.is_of_neighbours()
    };
    let mut checked = 0;
    for generator in registry().iter().filter(free).filter(|one| !one.requires(Need::TwoGroups)) {
        let (collective, params, ranks) = (generator.collective, Params::default(), 4096);
        let case = Case {
            collective,
            ranks,
            root: 5,
            count: 8,
            commutative: true,
            in_place: false,
            params,
            pattern: Pattern::Whole,
        };
        for rank in [0, 5, 6, 2047, 4095] {
            let schedule = generator.generate_on(&case.shape(rank), &params, Some(&hierarchy));
            let neighbours = if schedule.strands.is_empty() { 0 } else { 2 * HOSTS };
            let (steps, most) = (schedule.steps.len() as u64, most_steps(&case, rank, neighbours));
            assert!(steps <= most, "{generator:?}, rank {rank}: {steps} steps, more than {most}");
            checked += 1;
        }
    }
    assert!(checked > 0);
}

/// Every algorithm suits some number of ranks, so that none is left unproved.
#[test]
fn every_algorithm_has_a_number_of_ranks() {
    for generator in registry() {
        assert!(generator.ranks_from(2).is_some(), "{generator:?}");
    }
}

/// The proofs are of small sizes. Quantities that grow with the size stay within the bounds of flags, because
/// segments grow instead.
#[test]
fn flags_have_room_for_any_size() {
    for generator in registry().iter().filter(|generator| generator.node() > Node::Any) {
        let params = Params { segment: 1, ..Params::default() };
        for rank in 0..4 {
            let shape = Shape::new(generator.collective, 4, rank, 1 << 30);
            let schedule = generator.generate(&shape, &params);
            for (step, number) in schedule.steps.iter().zip(0..) {
                let (Kind::Post { value, .. } | Kind::Await { value, .. }) = step.kind else { continue };
                let last = schedule.iterations(StepId(number)).saturating_sub(1);
                let values = [value.in_iteration(0), value.in_iteration(last)];
                assert!(
                    values.iter().all(|value| *value < Kind::VALUES),
                    "{generator:?}: {step}, {values:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random cases beyond 64 ranks. Data grow with the square of the ranks where all send to all.
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
        // Collectives of neighbours are proved in `patterns`.
        for generator in registry().iter().filter(|generator| !generator.collective.is_of_neighbours()) {
            use Collective as C;
            let quadratic = matches!(generator.collective, C::Allgather | C::Allgatherv | C::Alltoall
                | C::Alltoallv | C::ReduceScatter | C::ReduceScatterBlock | C::Allreduce);
            let ranks = if quadratic { 65 + ranks % 100 } else { ranks };
            let count = if quadratic && generator.collective != C::Allreduce { count % 3 } else { count };
            let root = if generator.collective.rooted() { root % ranks } else { 0 };
            let mut params = Params { radix, segment, window, ..Params::default() };
            // The bounds of memory and of steps depend on them.
            if generator.parameters.segments().is_none() {
                params.segment = 0;
            }
            if generator.parameters.radix().is_none() {
                params.radix = 1;
            }
            let collective = generator.collective;
            let case = Case { collective, ranks, root, count, commutative, in_place, params, pattern: Pattern::Whole };
            check(generator, case, ranks as usize);
        }
    }
}

/// In the deterministic mode every element of a result is one expression, whatever algorithm is chosen. Each
/// permitted algorithm is checked, and for every shape at least one of them sends messages only.
#[test]
fn deterministic_results_are_one_expression() {
    let reductions = registry().iter().filter(|generator| {
        Association::deterministic_for(generator.collective).is_some() && !generator.combines_together()
    });
    for generator in reductions {
        let wanted = Association::deterministic_for(generator.collective).expect("filtered");
        let mut proved = 0;
        for ranks in (1..=17).chain([31, 32, 33]) {
            for count in counts(generator.collective, ranks) {
                for params in
                    all_params(generator).into_iter().filter(|params| generator.is_canonical(params))
                {
                    for root in (0..roots(generator, ranks)).filter(|root| ranks < 8 || root % 5 == 0) {
                        let in_place = (root + ranks) % 2 == 0;
                        let collective = generator.collective;
                        let commutative = false;
                        let case = Case {
                            collective,
                            ranks,
                            root,
                            count,
                            commutative,
                            in_place,
                            params,
                            pattern: Pattern::Whole,
                        };
                        check_as(generator, case, 0, wanted);
                        proved += 1;
                    }
                }
            }
        }
        let canonical = generator.association != Association::Free;
        assert_eq!(proved > 0, canonical, "{generator:?}");
    }
}

#[test]
#[should_panic(expected = "combines")]
fn another_association_is_noticed() {
    let mut all = registry().iter();
    let found = all.find(|one| one.collective == Collective::Allreduce && one.name == "recursive_doubling");
    let (collective, params) = (Collective::Allreduce, Params::default());
    let case = Case {
        collective,
        ranks: 4,
        root: 0,
        count: 1,
        commutative: false,
        in_place: false,
        params,
        pattern: Pattern::Whole,
    };
    check_as(found.expect("registered"), case, 0, Association::FromRight);
}

/// An operator that rounds once gets all operands of an element in one step, in every algorithm that is for
/// such operators. A second step with a partial result would be refused.
#[test]
fn together_means_in_one_step() {
    for generator in registry().iter().filter(|generator| generator.combines_together()) {
        for ranks in (1..=17).chain([31, 32, 33, 64]) {
            for count in counts(generator.collective, ranks) {
                for params in all_params(generator) {
                    for root in (0..roots(generator, ranks)).filter(|root| ranks < 8 || root % 5 == 0) {
                        let case = Case {
                            collective: generator.collective,
                            ranks,
                            root,
                            count,
                            commutative: true,
                            in_place: (root + ranks) % 2 == 0,
                            params,
                            pattern: Pattern::Whole,
                        };
                        check_as(generator, case, 0, Association::Together);
                        check_as(
                            generator,
                            Case { in_place: !case.in_place, ..case },
                            0,
                            Association::Together,
                        );
                    }
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "combines")]
fn partial_results_are_noticed_where_operands_must_be_together() {
    let mut all = registry().iter();
    let found = all.find(|one| one.collective == Collective::Allreduce && one.name == "spread");
    let case = Case {
        collective: Collective::Allreduce,
        ranks: 3,
        root: 0,
        count: 1,
        commutative: true,
        in_place: false,
        params: Params::default(),
        pattern: Pattern::Whole,
    };
    check_as(found.expect("registered"), case, 0, Association::Together);
}

/// An operator that rounds once has an algorithm for any number of ranks, in the deterministic mode too.
/// Other operators use none of these algorithms.
#[test]
fn every_reduction_can_round_once() {
    for collective in Collective::ALL.into_iter().filter(|all| Association::deterministic_for(*all).is_some())
    {
        for (ranks, count) in [(3, 1), (5, 8), (16, 1 << 20), (300, 1000)] {
            for deterministic in [false, true] {
                for together in [false, true] {
                    let environment = Environment { deterministic, ..Environment::flat(ranks, 4) };
                    let shape = Shape { together, unit_bytes: 8, ..Shape::new(collective, ranks, 0, count) };
                    let choice = select(&shape, &environment, Some("together"));
                    assert_eq!(
                        choice.generator.combines_together(),
                        together,
                        "{}",
                        choice.reason().text(true)
                    );
                }
            }
        }
    }
}

#[test]
fn every_reduction_can_be_deterministic() {
    let reductions = Collective::ALL
        .into_iter()
        .filter(|collective| Association::deterministic_for(*collective).is_some());
    for collective in reductions {
        for (ranks, count) in [(1, 1), (2, 0), (5, 8), (16, 1 << 20), (300, 1000)] {
            let environment = Environment { deterministic: true, ..Environment::flat(ranks, 4) };
            for commutative in [false, true] {
                let shape = Shape { commutative, ..Shape::new(collective, ranks, 0, count) };
                let choice = select(&shape, &environment, Some("recursive_doubling"));
                assert!(choice.generator.is_canonical(&choice.params), "{}", choice.reason().text(true));
            }
        }
    }
}
