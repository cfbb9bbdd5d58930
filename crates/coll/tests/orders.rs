//! Proofs that algorithms combine in the same order. Tuning at run time changes between algorithms of a
//! reduction only if [`Generator::combines_like`] returns true for them, so that the bits stay the same. Each
//! such pair is proved here to produce the same expression for every element, on machines of one and of
//! several hosts.

use std::collections::HashMap;
use std::sync::Arc;

use tutti_coll::generator::{Association, Need, Parameter};
use tutti_coll::hierarchy::{Hierarchy, Ignored, RankLocation};
use tutti_coll::verify::{Case, Expressions, Pattern, Results};
use tutti_coll::{Collective, Generator, Params, Schedule, registry};

/// Returns the hierarchy of ranks with two to a cache, four to a memory controller and `host` to a host, in
/// order or dealt in turn.
fn hierarchy(ranks: u32, host: u32, is_dealt: bool) -> Arc<Hierarchy> {
    let location = |rank: u32| {
        let core = if is_dealt { rank % 3 * ranks.div_ceil(3) + rank / 3 } else { rank };
        let at = [None, None, Some(core / 4), Some(core / 2), Some(core), None, None];
        RankLocation { host: core / host, at }
    };
    Arc::new(Hierarchy::new(&(0..ranks).map(location).collect::<Vec<_>>()))
}

fn all_params(generator: &Generator) -> Vec<Params> {
    let has = |parameter| generator.parameters.has(parameter);
    let radices: &[u32] =
        if generator.parameters.radix().is_some() { &[2, 3, Params::FLAT, 1] } else { &[2] };
    let segments: &[u64] = if generator.parameters.segments().is_some() { &[0, 2, 3] } else { &[0] };
    let windows: &[u32] = if has(Parameter::Window) { &[2, 64] } else { &[2] };
    let fan_outs: &[u32] = if has(Parameter::FanOut) { &[0, 3] } else { &[0] };
    let ignored: &[Ignored] =
        if has(Parameter::Distances) { &[Ignored::NONE, Ignored::BELOW_MEMORY] } else { &[Ignored::NONE] };
    let mut all = Vec::new();
    for &radix in radices {
        for &segment in segments {
            for &window in windows {
                for &fan_out in fan_outs {
                    let of =
                        |&ignored| Params { radix, segment, window, fan_out, ignored, ..Params::default() };
                    all.extend(ignored.iter().map(of));
                }
            }
        }
    }
    all
}

/// Returns the algorithms of a case, each with its parameters and the number of its results: equal numbers
/// for equal results.
fn entries(
    case: Case,
    hierarchy: &Arc<Hierarchy>,
    (expressions, found): &mut (Expressions, Vec<Results>),
) -> Vec<(&'static Generator, Params, usize)> {
    let mut entries = Vec::new();
    for generator in registry().iter().filter(|generator| generator.collective == case.collective) {
        for params in all_params(generator) {
            let case = Case { params, ..case };
            if !(0..case.ranks).all(|rank| generator.suits_on(&case.shape(rank), hierarchy)) {
                continue;
            }
            let write = |rank| generator.generate_on(&case.shape(rank), &params, Some(hierarchy));
            let schedules: Vec<Schedule> = (0..case.ranks).map(write).collect();
            // Others take all ranks to be on one host.
            let hosts = generator.requires(Need::SeveralHosts).then_some(&**hierarchy);
            let results = match expressions.results_of(&case, &schedules, hosts) {
                Ok(results) => results,
                Err(fault) => panic!("{generator:?}, {case:?}: {fault}"),
            };
            let known = found.iter().position(|known| *known == results);
            let number = known.unwrap_or_else(|| {
                found.push(results);
                found.len() - 1
            });
            entries.push((generator, params, number));
        }
    }
    entries
}

/// Checks that pairs that are declared to combine alike do. Records by name whether canonical algorithms give
/// the canonical expression with an operator that commutes.
fn check(case: Case, hierarchy: &Arc<Hierarchy>, keeps: &mut HashMap<String, bool>) -> usize {
    let mut shared = (Expressions::new(case.ranks), Vec::new());
    let ordered = entries(Case { commutative: false, ..case }, hierarchy, &mut shared);
    let canonical = ordered.iter().find(|(generator, params, _)| generator.is_canonical(params));
    let canonical = canonical.expect("there is one for any shape").2;
    let commuting = entries(Case { commutative: true, ..case }, hierarchy, &mut shared);
    let mut pairs = 0;
    for (entries, commutative) in [(&ordered, false), (&commuting, true)] {
        // Operators that combine all operands in one step show no order: tutti-data tests that.
        let ordered = entries.iter().enumerate().filter(|(_, (one, ..))| !one.combines_together());
        for (place, (one, params, number)) in ordered {
            for (two, others, other_number) in &entries[place + 1..] {
                if one.combines_like(params, (two, others), commutative) {
                    pairs += 1;
                    assert_eq!(
                        number, other_number,
                        "{one:?} {params:?}, {two:?} {others:?}, {case:?}, commutes: {commutative}"
                    );
                }
            }
        }
    }
    for (generator, params, number) in &commuting {
        if generator.association != Association::Free && generator.is_canonical(params) {
            *keeps.entry(format!("{generator:?}")).or_insert(true) &= *number == canonical;
        }
    }
    pairs
}

#[test]
fn algorithms_that_are_said_to_combine_alike_do() {
    let mut keeps = HashMap::new();
    let mut pairs = 0;
    let reductions = Collective::ALL
        .into_iter()
        .filter(|collective| Association::deterministic_for(*collective).is_some());
    for collective in reductions {
        for ranks in [2, 3, 4, 5, 7, 8] {
            for (host, is_dealt) in [(64, false), (64, true), (2, false), (3, true)] {
                let hierarchy = hierarchy(ranks, host, is_dealt);
                for (root, in_place) in [(0, false), (0, true), (ranks - 1, false), (ranks / 2, true)] {
                    if root > 0 && !collective.rooted() {
                        continue;
                    }
                    let count =
                        if matches!(collective, Collective::ReduceScatterBlock | Collective::ReduceScatter) {
                            2
                        } else {
                            u64::from(ranks) + 3
                        };
                    let (params, pattern) = (Params::default(), Pattern::Whole);
                    let case = Case {
                        collective,
                        ranks,
                        root,
                        count,
                        commutative: false,
                        in_place,
                        params,
                        pattern,
                    };
                    pairs += check(case, &hierarchy, &mut keeps);
                }
            }
        }
    }
    assert!(pairs > 10_000, "{pairs}");
    let differs = |generator: &&Generator| {
        let kept = keeps.get(&format!("{generator:?}"));
        kept.is_some_and(|kept| *kept != generator.keeps_order)
    };
    let wrong: Vec<&Generator> = registry().iter().filter(differs).collect();
    assert!(wrong.is_empty(), "whether they keep the order where operators commute is wrong of {wrong:?}");
}
