//! Tests that the verifier rejects schedules that are broken in one place.

use tutti_coll::generator::{Need, Node};
use tutti_coll::ir::{Index, Kind, Length, Schedule, Start, Tables};
use tutti_coll::verify::{Case, Pattern, verify};
use tutti_coll::{Collective, Generator, Params, registry};

/// A way to break one step: `None` where it does not apply.
type Break = fn(&mut Schedule, usize) -> Option<()>;

fn case(generator: &Generator, commutative: bool, params: Params) -> Case {
    let ranks = generator.ranks_from(5).expect("it has a number of ranks");
    let count = if generator.collective == Collective::Barrier { 0 } else { 6 };
    let root = if generator.collective.rooted() { 2 } else { 0 };
    Case {
        collective: generator.collective,
        ranks,
        root,
        count,
        commutative,
        in_place: false,
        params,
        pattern: Pattern::Whole,
    }
}

/// Breaks every step of every rank, one at a time; returns those that the verifier let pass.
fn survivors(generator: &Generator, case: &Case, change: Break) -> (Vec<String>, usize) {
    let mut schedules: Vec<Schedule> =
        (0..case.ranks).map(|rank| generator.generate(&case.shape(rank), &case.params)).collect();
    assert_eq!(verify(case, &schedules), Ok(()), "{generator:?}");
    let (mut passed, mut tried) = (Vec::new(), 0);
    for rank in 0..case.ranks as usize {
        for step in 0..schedules[rank].steps.len() {
            let whole = schedules[rank].clone();
            if change(&mut schedules[rank], step).is_some() {
                tried += 1;
                if verify(case, &schedules).is_ok() {
                    let step = &whole.steps[step];
                    passed.push(format!("{generator:?}, rank {rank}: {step}"));
                }
            }
            schedules[rank] = whole;
        }
    }
    (passed, tried)
}

/// Tables have empty blocks, whose steps do nothing, right or wrong.
fn has_table(collective: Collective) -> bool {
    use Collective as C;
    matches!(collective, C::Gatherv | C::Scatterv | C::Allgatherv | C::Alltoallv | C::ReduceScatter)
}

fn check(commutative: bool, params: Params, change: Break) {
    let mut total = 0;
    for generator in registry() {
        let case = case(generator, commutative, params);
        if has_table(generator.collective) || !generator.suits(&case.shape(0)) {
            continue;
        }
        let (passed, tried) = survivors(generator, &case, change);
        assert!(passed.is_empty(), "not noticed: {passed:#?}");
        total += tried;
    }
    assert!(total > 10, "the change applied only {total} times");
}

const WHOLE: Params = Params::DEFAULT;
const SEGMENTS: Params = Params { segment: 2, ..Params::DEFAULT };

/// Returns true if a message of the step is sent at all, whatever the counts.
fn carries(schedule: &Schedule, step: usize) -> bool {
    let kind = &schedule.steps[step].kind;
    let Some(span) = kind.reads().or(kind.writes()) else { return false };
    span.is_signal()
        || span.in_iteration(0, &Tables { permutation: &schedule.permutation, ..Tables::default() }).length
            > 0
}

fn another_peer(schedule: &mut Schedule, step: usize) -> Option<()> {
    if !carries(schedule, step) {
        return None;
    }
    match &mut schedule.steps[step].kind {
        Kind::Send { peer, .. } | Kind::Recv { peer, .. } => *peer = Index { base: peer.base + 1, ..*peer },
        _ => return None,
    }
    Some(())
}

fn another_lane(schedule: &mut Schedule, step: usize) -> Option<()> {
    if !carries(schedule, step) {
        return None;
    }
    match &mut schedule.steps[step].kind {
        Kind::Send { lane, .. } | Kind::Multicast { lane, .. } | Kind::Recv { lane, .. } => *lane = 7,
        _ => return None,
    }
    Some(())
}

fn swapped_operands(schedule: &mut Schedule, step: usize) -> Option<()> {
    // Swapping must not write the user's operand, which is another fault.
    match &mut schedule.steps[step].kind {
        Kind::Reduce { left, right } if left.buffer.0 != 0 => std::mem::swap(left, right),
        _ => return None,
    }
    Some(())
}

/// Makes a step that uses the result of another one no longer wait for anything.
fn no_edges(schedule: &mut Schedule, step: usize) -> Option<()> {
    let uses = matches!(schedule.steps[step].kind, Kind::Reduce { .. });
    let waits = !schedule.steps[step].after.is_empty();
    (uses && waits).then(|| schedule.steps[step].after = Box::default())
}

fn longer_window(schedule: &mut Schedule, step: usize) -> Option<()> {
    let number = schedule.steps[step].in_loop?;
    let this = &mut schedule.loops[usize::from(number)];
    // Only a loop that uses slots of a temporary again and again depends on its window.
    let slots = match schedule.steps[step].kind {
        Kind::Recv { into, .. } if into.buffer.temporary().is_some() && !into.is_signal() => match into.start
        {
            Start::Affine { index: slot, .. } | Start::Within { slot, .. } => {
                u64::from(slot.modulus) < u64::from(this.count)
            }
            Start::Block { .. } => true,
            Start::Permuted { .. } | Start::Part { .. } | Start::Entry(_) => false,
        },
        _ => false,
    };
    (slots && this.count > this.window).then(|| this.window += 1)
}

fn missing_step(schedule: &mut Schedule, step: usize) -> Option<()> {
    match &mut schedule.steps[step].kind {
        Kind::Copy { from, into } => (from.length, into.length) = (Length::Fixed(0), Length::Fixed(0)),
        Kind::Reduce { left, right } => (left.length, right.length) = (Length::Fixed(0), Length::Fixed(0)),
        _ => return None,
    }
    Some(())
}

#[test]
fn peers() {
    check(true, WHOLE, another_peer);
    check(true, SEGMENTS, another_peer);
}

#[test]
fn lanes() {
    check(true, WHOLE, another_lane);
    check(false, SEGMENTS, another_lane);
}

#[test]
fn operands() {
    check(false, WHOLE, swapped_operands);
    check(false, SEGMENTS, swapped_operands);
}

#[test]
fn edges() {
    check(true, WHOLE, no_edges);
    check(false, SEGMENTS, no_edges);
}

#[test]
fn windows() {
    check(false, SEGMENTS, longer_window);
}

#[test]
fn steps() {
    check(false, WHOLE, missing_step);
    check(true, SEGMENTS, missing_step);
}

/// A rank that signals before it has received the others' signals breaks a barrier, though no data show it.
#[test]
fn barrier_that_releases_early() {
    let by_messages =
        |generator: &&Generator| generator.node() == Node::Any && !generator.requires(Need::TwoGroups);
    let barriers = registry().iter().filter(|generator| generator.collective == Collective::Barrier);
    for generator in barriers.filter(by_messages) {
        let case = case(generator, true, WHOLE);
        let mut schedules: Vec<Schedule> =
            (0..case.ranks).map(|rank| generator.generate(&case.shape(rank), &WHOLE)).collect();
        if schedules[0].steps.iter().all(|step| step.after.is_empty()) {
            // Nothing waits within one hop: this rank skips the last signal that it should receive.
            schedules[0].loops[0].count -= 1;
        }
        for step in &mut schedules[0].steps {
            step.after = Box::default();
        }
        assert!(verify(&case, &schedules).is_err(), "{generator:?}");
    }
}
