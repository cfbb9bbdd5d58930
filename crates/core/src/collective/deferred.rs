//! Non-blocking operations that may have to wait for an agreement of the members before they begin.
//!
//! Two things are agreed on in the background, each by a maximum that some operation carries along:
//!
//! - what the hosts of a communicator offer
//!   ([`crate::communicator::collectives::node::Neighbourhood::needs_agreement`]),
//! - what tuning has measured ([`super::tuning`]).
//!
//! Operations continue with the old state until a fixed number of them, equal on all members, has begun.
//! The next one needs the result. If the result is missing, the call returns at once (starting is local,
//! MPI-5 section 6.12), and the operation begins when progress has received it. Later operations begin
//! after it, so that all members take tags and slots in the order of calls. Blocking operations wait here
//! first ([`settle_all`]).
//!
//! Operations also wait while too many are active, since a program may start a million.
//!
//! # Safety
//! A stored operation describes the memory that its call described. The owner of the memory leaves it alone
//! until the request is complete.
#![allow(unsafe_code)]

use std::sync::Arc;

use tutti_base::Result;
use tutti_base::config::Tune;
use tutti_coll::ir::Kind;
use tutti_coll::tune::cycle::CyclePlace;
use tutti_coll::tune::{CallForm, ProgressMode, Proposal, Rules, UnitKey};
use tutti_coll::{Collective, Shape};
use tutti_sys::clock;
use tutti_sys::floating_point::isolated;

use super::internal;
use super::learnings;
use super::nonblocking::{start_run, start_under};
use super::{
    Activity, Channel, Means, Operation, Run, agree, alternatives, failures, finish, first, known_before,
    multicast, offloaded, prepare, prepare_as, root_of, waiting_for,
};
use crate::communicator::Communicator;
use crate::communicator::collectives::MOST_UNDER_WAY;
use crate::communicator::collectives::deferred::{Settling, Waiting};
use crate::communicator::collectives::operation::Owned;
use crate::communicator::collectives::repertoire::Best;
use crate::communicator::collectives::tuning::CallSpot;
use crate::communicator::collectives::unit::{Decided, News, Says, UnitAnswer};
use crate::completion;
use crate::inside::{self, Reading};
use crate::lanes::LaneGuard;
use crate::messenger::Messenger;
use crate::process::{Process, started};
use crate::progress;
use crate::request::{Request, RequestId, Work};

/// Number of operations that go by messages while members learn what their hosts offer.
const MEANWHILE: u32 = 2;
/// Factor on the model's estimate, which gives the time for which a pushed operation advances in the call
/// that starts it.
const PUSHED_TIMES: f64 = 2.0;
/// Minimum time for which a pushed operation advances in that call, in nanoseconds.
const LEAST_PUSHED_NS: u64 = 20_000;
/// Maximum time for which a pushed operation advances in that call, in nanoseconds.
const MOST_PUSHED_NS: u64 = 20_000_000;

/// Decision about the first waiting operation.
enum Next {
    /// The operation begins with these means and instructions.
    Begin(Means, Says),
    /// The operation has to wait.
    Wait,
}

/// Returns true if non-blocking operations of a communicator must use this module.
pub(super) fn is_needed(held: &LaneGuard, process: &Process, comm: &Communicator) -> bool {
    let its = &comm.collectives;
    if !matches!(its.channel, Channel::Own) || comm.inter().is_some() {
        return false;
    }
    let unsettled = its.node.numbers(process, comm).is_some() && !its.node.is_settled(held);
    its.tune(held, process).is_on() || unsettled
}

/// Returns true if so many operations of a communicator are active that others must wait. Those of
/// intercommunicators take no slots, and need not wait.
pub(super) fn is_crowded(held: &LaneGuard, comm: &Communicator) -> bool {
    comm.inter().is_none() && comm.collectives.state.borrow(held).is_crowded()
}

/// Starts an operation of a communicator for which `is_needed` or `is_crowded` is true.
pub(super) fn start(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> RequestId {
    let _inside = inside::measure();
    let shape = operation.shape(comm);
    let spot = meet(held, process, comm, &shape, CallForm::Nonblocking);
    if begins_as_usual(held, process, comm, spot) {
        let run = prepare(held, process, comm, operation, Means::All);
        let ticket = comm.collectives.ticket(held, &run);
        // See `take_tags`.
        comm.collectives.next_tag(held);
        return start_run(held, process, comm, run, ticket, None);
    }
    let work = Work::Collective(shape.collective.name(), root_of(shape.collective, shape.root));
    let request = process.messages.borrow_mut(held).state.insert(Request::new(work, comm.context().0));
    let tags = take_tags(held, process, comm, &shape, spot.is_some());
    let mut its = comm.collectives.deferred.borrow_mut(held);
    let spot = spot.map(|spot| Box::new((spot, inside::reading())));
    // SAFETY: see the module's Safety section.
    let operation = unsafe { Owned::new(operation) };
    its.waiting.push_back(Waiting { operation, tags, request, spot });
    drop(its);
    comm.collectives.state.borrow_mut(held).wait(true);
    if let Some(end_ns) = begin(held, process, comm) {
        push(held, process, request, end_ns);
    }
    request
}

/// Takes the tags of an operation and of the agreement that it may carry along. A tuned operation adds its
/// algorithm to its signature when it begins.
///
/// The number of tags must not depend on whether the result of the agreement has arrived. Where it has, the
/// next operation does not use this function. So untuned operations take a second tag only if they are the
/// first, which begins at once and starts the agreement.
fn take_tags(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    is_tuned: bool,
) -> [i32; 2] {
    let its = &comm.collectives;
    let signature = if is_tuned { 0 } else { failures::signature_of(shape, comm) };
    let own = its.next_tag_of(held, signature);
    let carries =
        is_needed(held, process, comm) && (its.tune(held, process).is_on() || its.node.is_open(held));
    [own, if carries { its.next_tag(held) } else { own }]
}

/// Returns true if an operation begins at once and by default, as where nothing is tuned.
fn begins_as_usual(held: &LaneGuard, process: &Process, comm: &Communicator, spot: Option<CallSpot>) -> bool {
    let its = &comm.collectives;
    let is_settled = its.node.numbers(process, comm).is_none() || its.node.is_settled(held);
    let is_usual = match spot {
        None => true,
        Some(CallSpot::Loose(_)) => !its.deferred.borrow(held).tuning.has_known(),
        Some(CallSpot::Placed(..)) => false,
    };
    is_usual && is_settled && its.tune(held, process).is_on() && !is_crowded(held, comm)
}

/// Records a call and returns its position in the program's loop, or `None` if the operation is not tuned.
/// Must be called once for each operation, in the order of calls.
fn meet(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    form: CallForm,
) -> Option<CallSpot> {
    let its = &comm.collectives;
    let mode = its.tune(held, process);
    if !mode.is_on() {
        return None;
    }
    let mut state = its.state.borrow_mut(held);
    if state.sleeps(mode) {
        state.nap.0 -= 1;
        return None;
    }
    let generation = state.generation;
    drop(state);
    its.deferred.borrow_mut(held).tuning.set_mode(mode, learnings::are_there(&process.job));
    let known = its.deferred.borrow(held).tuning.exempt(generation);
    let exempt = known.unwrap_or_else(|| {
        let exempt = exempt(held, process, comm);
        its.deferred.borrow_mut(held).tuning.set_exempt(generation, exempt);
        exempt
    });
    // Sums of the kernel may differ in their bits.
    let is_added_in_kernel = shape.collective == Collective::Allreduce
        && shape.bytes() <= offloaded::MOST_BYTES
        && offloaded::may_carry(held, comm, shape.collective);
    if exempt & 1 << shape.collective as u32 != 0 || is_added_in_kernel {
        return None;
    }
    let spot = its.deferred.borrow_mut(held).tuning.meet(shape, form);
    nap(held, comm, mode);
    Some(spot)
}

/// Stops tuning for a number of operations if there is nothing to gain.
fn nap(held: &LaneGuard, comm: &Communicator, mode: Tune) {
    let nap = comm.collectives.deferred.borrow_mut(held).tuning.take_nap();
    if let Some(operations) = nap {
        comm.collectives.state.borrow_mut(held).nap = (operations, mode);
    }
}

/// Returns the collectives of a communicator that are not tuned, as bits; equal at all members.
fn exempt(held: &LaneGuard, process: &Process, comm: &Communicator) -> u32 {
    let state = comm.collectives.state.borrow(held);
    let is_exempt = |collective: &Collective| {
        !can_be_tuned(comm, *collective)
            || state.wishes.algorithm_of(&process.config, collective.name()).is_some()
    };
    Collective::EVERY.into_iter().filter(is_exempt).fold(0, |bits, collective| bits | 1 << collective as u32)
}

/// Returns true if operations of a collective may be tuned on this communicator.
pub(super) fn can_be_tuned(comm: &Communicator, collective: Collective) -> bool {
    matches!(comm.collectives.channel, Channel::Own)
        && comm.inter().is_none()
        && comm.size() > 1
        && !collective.is_of_neighbours()
}

/// Runs an operation that may be tuned, and waits for its end.
///
/// # Errors
/// Returns the error of a message that failed.
pub(super) fn run(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> Result<()> {
    let shape = operation.shape(comm);
    let reading = inside::reading();
    let (place, lap) = match meet(held, process, comm, &shape, CallForm::Blocking) {
        None => return super::run(held, process, comm, operation),
        Some(CallSpot::Placed(place, lap)) => (place, lap),
        Some(CallSpot::Loose(key)) => {
            if !comm.collectives.deferred.borrow(held).tuning.has_known() {
                return super::run(held, process, comm, operation);
            }
            agree(held, process, comm)?;
            let best = known(held, process, comm, &shape, key);
            return run_as(held, process, comm, operation, best.as_ref().and_then(Best::proposal), false);
        }
    };
    agree(held, process, comm)?;
    let spot = CallSpot::Placed(place, lap);
    let mut says = loop {
        if let Some(says) = turn(held, process, comm, &shape, (spot, reading))? {
            break says;
        }
        let what = || "what all ranks have measured of an operation".to_string();
        progress::wait_until(held, process, &what, |held| has_heard(held, process, comm, place));
    };
    contribute(held, process, comm, place, None, &mut says);
    run_as(held, process, comm, operation, says.proposal(), says.is_trial)?;
    let call_ns = inside::reading().now_ns.saturating_sub(reading.now_ns);
    let mut its = comm.collectives.deferred.borrow_mut(held);
    if let Some(unit) = its.tuning.unit(place) {
        unit.ended(call_ns);
    }
    its.tuning.settle(place, operation.words());
    if says.is_landmark {
        its.tuning.rest();
        drop(its);
        nap(held, comm, comm.collectives.tune(held, process));
    }
    Ok(())
}

/// Runs an operation with this proposal, or by default, and waits for its end.
fn run_as(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
    proposal: Option<&Proposal>,
    is_trial: bool,
) -> Result<()> {
    let Some(proposal) = proposal else { return super::run(held, process, comm, operation) };
    agree(held, process, comm)?;
    offloaded::agree(held, process, comm)?;
    multicast::agree(held, process, comm, operation)?;
    let mut run = prepare_as(held, process, comm, operation, Means::All, Some(&proposal.choice));
    run.manner = proposal.manner;
    ready_banks(held, comm, &run, is_trial);
    let ticket = comm.collectives.ticket(held, &run);
    let (collective, root) = (operation.collective(), operation.shape(comm).root);
    finish(held, process, comm, run, ticket, &|| waiting_for(collective, root, comm))
}

/// Returns the best algorithm known for an operation outside of loops, if there is one.
fn known(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    key: UnitKey,
) -> Option<Best> {
    if let Some(known) = comm.collectives.deferred.borrow(held).tuning.known_of(&key) {
        return known.clone();
    }
    if first::is_among_them(held, process, comm) {
        return None;
    }
    let best = known_before(held, process, comm, shape, CyclePlace { key, occurrence: 0 });
    comm.collectives.deferred.borrow_mut(held).tuning.set_known(key, best.clone());
    best
}

/// Waits until all earlier operations have begun, and completes their agreement. Called before an operation
/// that does not use this module.
///
/// # Errors
/// Returns the error of a message of the agreement.
pub(super) fn settle_all(held: &mut LaneGuard, process: &Process, comm: &Communicator) -> Result<()> {
    if is_busy(held, comm) {
        let what = || "operations that were started before it begin".to_string();
        progress::wait_until(held, process, &what, |held| !is_busy(held, comm));
    }
    let Some(settling) = comm.collectives.deferred.borrow_mut(held).settling.take() else { return Ok(()) };
    let what = || "what the hosts of a communicator have to offer".to_string();
    progress::wait_until(held, process, &what, |held| is_over(held, process, settling.maximum.request));
    let offer = settling.maximum.finish(held, process)?;
    comm.collectives.node.settle(held, offer);
    Ok(())
}

/// Returns true if an operation waits to begin.
#[inline]
pub(super) fn is_busy(held: &LaneGuard, comm: &Communicator) -> bool {
    !comm.collectives.deferred.borrow_mut(held).waiting.is_empty()
}

/// Returns true if a request is complete, or does not exist any more.
fn is_over(held: &LaneGuard, process: &Process, request: RequestId) -> bool {
    completion::is_complete(held, process, request).unwrap_or(true)
}

/// Activity that begins the waiting operations of a communicator.
#[derive(Debug)]
struct Attendant(Arc<Communicator>);

impl Activity for Attendant {
    fn advance(self: Box<Self>, held: &LaneGuard, _: &Messenger, _: bool) -> Option<Box<dyn Activity>> {
        let _ = begin_some(held, started(), &self.0);
        let mut its = self.0.collectives.deferred.borrow_mut(held);
        its.attended = !its.waiting.is_empty();
        if its.attended {
            drop(its);
            return Some(self);
        }
        None
    }
}

/// Begins operations that can begin now, and leaves the others to progress. Returns the end of the time for
/// pushing the last one, in nanoseconds, if it has begun and is pushed.
fn begin(held: &LaneGuard, process: &Process, comm: &Arc<Communicator>) -> Option<u64> {
    let end_ns = begin_some(held, process, comm);
    let mut its = comm.collectives.deferred.borrow_mut(held);
    if !its.waiting.is_empty() && !its.attended {
        its.attended = true;
        drop(its);
        process.add_activity(held, Box::new(Attendant(Arc::clone(comm))));
        return None;
    }
    end_ns.filter(|_| its.waiting.is_empty())
}

/// Begins operations that can begin now, and records whether others still wait.
fn begin_some(held: &LaneGuard, process: &Process, comm: &Arc<Communicator>) -> Option<u64> {
    let end_ns = begin_those_that_can(held, process, comm);
    let has_waiting = is_busy(held, comm);
    comm.collectives.state.borrow_mut(held).wait(has_waiting);
    end_ns
}

/// Begins waiting operations in order, until one has to wait or too many are active.
fn begin_those_that_can(held: &LaneGuard, process: &Process, comm: &Arc<Communicator>) -> Option<u64> {
    let has_room = || comm.collectives.state.borrow(held).under_way < MOST_UNDER_WAY;
    let mut end_ns = None;
    while let Some(result) = has_room().then(|| next(held, process, comm)).flatten() {
        let mut its = comm.collectives.deferred.borrow_mut(held);
        let Some(Waiting { operation, tags, request, spot }) = (match result {
            Ok(Next::Wait) => None,
            _ => its.waiting.pop_front(),
        }) else {
            return end_ns;
        };
        drop(its);
        let (means, mut says) = match result {
            Ok(Next::Begin(means, says)) => (means, says),
            Ok(Next::Wait) => unreachable!("nothing was taken out"),
            Err(error) => {
                process.messages.borrow_mut(held).state.requests.complete(request, Some(error));
                continue;
            }
        };
        let proposal = says.proposal();
        let manner = proposal.map_or(ProgressMode::Plain, |proposal| proposal.manner);
        end_ns = match (manner, proposal) {
            (ProgressMode::Pushed, Some(proposal)) => Some(push_end_ns(proposal.choice.time)),
            _ => None,
        };
        let words = operation.with(|operation| {
            let choice = proposal.map(|proposal| &proposal.choice);
            let mut run = prepare_as(held, process, comm, operation, means, choice);
            run.manner = manner;
            ready_banks(held, comm, &run, says.is_trial);
            space_tests(manner);
            comm.collectives.note(held, tags[0], run.signature);
            let ticket = comm.collectives.ticket_under(held, tags[0], &run);
            let words = run.words;
            start_under(held, process, comm, run, ticket, request);
            words
        });
        let Some(CallSpot::Placed(place, _)) = spot.map(|spot| spot.0) else { continue };
        contribute(held, process, comm, place, Some(tags[1]), &mut says);
        let mut its = comm.collectives.deferred.borrow_mut(held);
        if means == Means::All && its.waiting.is_empty() {
            its.tuning.settle(place, words);
        }
    }
    end_ns
}

/// Populates the memory of the banks before a trial, so that the trial is as fast as banks in use are. Only
/// ranks that write have memory of their own there.
fn ready_banks(held: &LaneGuard, comm: &Communicator, run: &Run, is_trial: bool) {
    let Some(room) = run.room.as_ref().filter(|_| is_trial) else { return };
    let Some(mut banks) = comm.collectives.node.banks(held) else { return };
    let steps = &run.execution.plan().schedule.steps;
    let exposures = steps.iter().filter(|step| matches!(step.kind, Kind::Expose { .. })).count();
    room.populate(&mut banks, steps.iter().any(|step| step.kind.fills_bank()), exposures);
}

/// Makes one of several tests of the program advance operations, if this manner of progress requests that.
pub(super) fn space_tests(manner: ProgressMode) {
    if let ProgressMode::Sparse(tests) = manner {
        inside::move_on_every(tests);
    }
}

/// Returns the time until which an operation is pushed that begins now. `time_s` is the model's estimate,
/// in seconds.
pub(super) fn push_end_ns(time_s: f64) -> u64 {
    let ns = isolated(|| (time_s * PUSHED_TIMES * 1e9) as u64);
    clock::now_ns() + ns.clamp(LEAST_PUSHED_NS, MOST_PUSHED_NS)
}

/// Advances an operation until it is over or `end_ns` has come, so that starting it stays local.
pub(super) fn push(held: &LaneGuard, process: &Process, request: RequestId, end_ns: u64) {
    while !is_over(held, process, request) && clock::now_ns() < end_ns {
        progress::progress(held, process);
    }
}

/// Reports a decision, and starts the maxima that an operation carries along. The tag is `tag` if given,
/// otherwise a new one.
fn contribute(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    place: CyclePlace,
    tag: Option<i32>,
    says: &mut Says,
) {
    if let Some(decided) = says.decided.take() {
        tell(held, process, comm, decided);
    }
    if let Some(words) = says.words.take() {
        let begun_ns = clock::now_ns();
        let tag = tag.unwrap_or_else(|| comm.collectives.next_tag(held));
        let maxima = internal::start_maxima(held, process, comm, tag, &words);
        comm.collectives.deferred.borrow_mut(held).words.insert(place, maxima);
        let spent_ns = clock::now_ns().saturating_sub(begun_ns);
        process.library.ledger.borrow_mut(held).lose(spent_ns.cast_signed());
    }
}

/// Reports a decision, and stores it.
pub(super) fn tell(held: &LaneGuard, process: &Process, comm: &Communicator, decided: Decided) {
    let Decided { explanation, learned } = decided;
    if process.config.collectives.explain.is_on() && comm.rank().0 == 0 {
        eprintln!("Tutti: {}", explanation.text(process.config.collectives.explain.is_all()));
    }
    if let Some((key, label)) = learned {
        process.library.learnings.borrow_mut(held).learn(key, label);
    }
}

/// Reports the units without a decision when the process ends.
pub(crate) fn tell_undecided(held: &LaneGuard, process: &Process) {
    let wanted = process.config.collectives.explain;
    if !wanted.is_on() {
        return;
    }
    for comm in process.library.communicators.borrow(held).values().filter(|comm| comm.rank().0 == 0) {
        for undecided in comm.collectives.deferred.borrow(held).tuning.undecided() {
            eprintln!("Tutti: {}", undecided.text(wanted.is_all()));
        }
    }
}

/// Decides what happens to the first waiting operation; `None` if none waits.
fn next(held: &LaneGuard, process: &Process, comm: &Arc<Communicator>) -> Option<Result<Next>> {
    let tags = comm.collectives.deferred.borrow_mut(held).waiting.front()?.tags;
    match settle(held, process, comm, tags[1]) {
        Ok(None) => return Some(Ok(Next::Wait)),
        Ok(Some(Means::Messages)) => return Some(Ok(Next::Begin(Means::Messages, Says::default()))),
        Ok(Some(Means::All)) => {}
        Err(error) => return Some(Err(error)),
    }
    let (shape, spot) = {
        let its = comm.collectives.deferred.borrow_mut(held);
        let first = its.waiting.front()?;
        (first.operation.with(|operation| operation.shape(comm)), first.spot.as_deref().copied())
    };
    let Some(spot) = spot else { return Some(Ok(Next::Begin(Means::All, Says::default()))) };
    Some(turn(held, process, comm, &shape, spot).map(|says| match says {
        Some(says) => Next::Begin(Means::All, says),
        None => Next::Wait,
    }))
}

/// Returns true if the maxima that an operation has to wait for have arrived.
fn has_heard(held: &LaneGuard, process: &Process, comm: &Communicator, place: CyclePlace) -> bool {
    let its = comm.collectives.deferred.borrow_mut(held);
    let request = its.words.get(&place).map(|maxima| maxima.request);
    drop(its);
    request.is_none_or(|request| is_over(held, process, request))
}

/// Returns the step of a tuned operation, or `None` if it has to wait until the members have agreed.
fn turn(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    (spot, reading): (CallSpot, Reading),
) -> Result<Option<Says>> {
    let (place, lap) = match spot {
        CallSpot::Placed(place, lap) => (place, lap),
        CallSpot::Loose(key) => {
            let has_known = comm.collectives.deferred.borrow(held).tuning.has_known();
            let best = has_known.then(|| known(held, process, comm, shape, key)).flatten();
            return Ok(Some(Says { best, ..Says::default() }));
        }
    };
    let heard = has_heard(held, process, comm, place);
    let maxima = heard.then(|| comm.collectives.deferred.borrow_mut(held).words.remove(&place)).flatten();
    if let Some(maxima) = maxima {
        let words = maxima.finish(held, process);
        let mut its = comm.collectives.deferred.borrow_mut(held);
        if let Some(unit) = its.tuning.unit(place) {
            match &words {
                Ok(words) => unit.heard(words),
                Err(_) => unit.give_up(),
            }
        }
        words?;
    }
    if !comm.collectives.deferred.borrow_mut(held).tuning.has_unit(place) {
        let news = news(held, process, comm, shape, place);
        comm.collectives.deferred.borrow_mut(held).tuning.add(place, news);
    }
    // A unit requests proposals only once.
    loop {
        let answer = {
            let learnings = process.library.learnings.borrow(held);
            let mut ledger = process.library.ledger.borrow_mut(held);
            let mut its = comm.collectives.deferred.borrow_mut(held);
            its.tuning.turn((place, lap), reading, &learnings, &mut ledger)
        };
        match answer {
            UnitAnswer::Says(says) => return Ok(Some(says)),
            UnitAnswer::Wait => return Ok(None),
            UnitAnswer::Provide => {
                let proposals = alternatives(held, process, comm, shape, place.key.form);
                if let Some(unit) = comm.collectives.deferred.borrow_mut(held).tuning.unit(place) {
                    unit.provide(proposals);
                }
            }
        }
    }
}

/// Returns the initial state of a unit that is met for the first time.
pub(super) fn news(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    place: CyclePlace,
) -> News {
    let (layout, _) = super::layout_of(process, comm);
    let key = tutti_coll::tune::learned::key(learnings::program(&process.job), place, &layout);
    let known = known_before(held, process, comm, shape, place).or_else(|| {
        let its = comm.collectives.deferred.borrow(held);
        its.tuning.known_of(&place.key).cloned().flatten()
    });
    let tries = comm.collectives.tune(held, process) == Tune::On;
    let config = &process.config.collectives;
    let budget_part = isolated(|| config.tune_budget as f64 / 100.0);
    let rules = Rules { budget_part, guards: tries, ..Rules::default() };
    News { key, known, tries, search: config.tune_search, rules }
}

/// Returns the means that the first waiting operation may use; `None` if it must wait for the agreement.
/// Starts the agreement with tag `tag`.
fn settle(held: &LaneGuard, process: &Process, comm: &Arc<Communicator>, tag: i32) -> Result<Option<Means>> {
    let node = &comm.collectives.node;
    if node.numbers(process, comm).is_none() || node.is_settled(held) {
        return Ok(Some(Means::All));
    }
    if let Some(offer) = node.needs_agreement(held, process, comm) {
        let maximum = internal::start_maximum(held, process, comm, tag, offer)?;
        comm.collectives.deferred.borrow_mut(held).settling = Some(Settling { maximum, begun: 0 });
    }
    let mut its = comm.collectives.deferred.borrow_mut(held);
    // Another thread waits for the agreement of a blocking operation.
    let Some(settling) = &mut its.settling else { return Ok(Some(Means::Messages)) };
    if settling.begun < MEANWHILE {
        settling.begun += 1;
        return Ok(Some(Means::Messages));
    }
    let request = settling.maximum.request;
    drop(its);
    if !is_over(held, process, request) {
        return Ok(None);
    }
    let settling = comm.collectives.deferred.borrow_mut(held).settling.take();
    let settling = settling.expect("it was just there");
    let offer = settling.maximum.finish(held, process)?;
    node.settle(held, offer);
    Ok(Some(Means::All))
}
