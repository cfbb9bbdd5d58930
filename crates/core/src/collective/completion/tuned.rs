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

use crate::collective::completion::finish;
use crate::collective::completion::nonblocking::{start_run, start_under};
use crate::collective::context::{CommContext, WaitContext, describe_wait, root_of};
use crate::collective::perform_untuned;
use crate::collective::plan::{alternatives, best_of_earlier_runs, layout_for_results, prepare};
use crate::collective::route::{can_be_tuned, is_among_first, is_crowded, is_needed, kernel, multicast};
use crate::collective::signature::message_signature;
use crate::communicator::Communicator;
use crate::communicator::collectives::MOST_UNDER_WAY;
use crate::communicator::collectives::call::Call;
use crate::communicator::collectives::call::OwnedCall;
use crate::communicator::collectives::deferred_calls::{Settling, Waiting};
use crate::communicator::collectives::repertoire::Best;
use crate::communicator::collectives::tuning::CallSpot;
use crate::communicator::collectives::unit::{Decided, News, Says, UnitAnswer};
use crate::communicator::collectives::{AllowedPaths, CachedExecution, learnings};
use crate::completion;
use crate::inside::{self, Reading};
use crate::lanes::LaneGuard;
use crate::messenger::{Activity, Messenger};
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
    /// The operation begins on these paths, with these instructions.
    Begin(AllowedPaths, Says),
    /// The operation has to wait.
    Wait,
}

/// Starts an operation of a communicator for which `is_needed` or `is_crowded` is true.
pub(in crate::collective) fn start(cx: CommContext<'_>, call: &Call<'_>) -> RequestId {
    let _inside = inside::measure();
    let shape = call.shape();
    let spot = meet(cx, shape, CallForm::Nonblocking);
    if begins_as_usual(cx, spot) {
        let cached = prepare(cx, call, AllowedPaths::All, None);
        let ticket = cx.comm.collectives.ticket(cx.lane, &cached);
        // See `take_tags`.
        cx.comm.collectives.next_tag(cx.lane);
        return start_run(cx, cached, ticket, None);
    }
    let work = Work::Collective(shape.collective.name(), root_of(shape.collective, shape.root));
    let request =
        cx.process.messages.borrow_mut(cx.lane).state.insert(Request::new(work, cx.comm.context().0));
    let tags = take_tags(cx, shape, spot.is_some());
    let mut its = cx.comm.collectives.deferred.borrow_mut(cx.lane);
    let spot = spot.map(|spot| Box::new((spot, inside::reading())));
    // SAFETY: see the module's Safety section.
    let call = unsafe { OwnedCall::new(call) };
    its.waiting.push_back(Waiting { call, tags, request, spot });
    drop(its);
    cx.comm.collectives.state.borrow_mut(cx.lane).wait(true);
    if let Some(end_ns) = begin(cx) {
        push(cx.lane, cx.process, request, end_ns);
    }
    request
}

/// Takes the tags of an operation and of the agreement that it may carry along. A tuned operation adds its
/// algorithm to its signature when it begins.
///
/// The number of tags must not depend on whether the result of the agreement has arrived. Where it has, the
/// next operation does not use this function. So untuned operations take a second tag only if they are the
/// first, which begins at once and starts the agreement.
fn take_tags(cx: CommContext<'_>, shape: &Shape, is_tuned: bool) -> [i32; 2] {
    let its = &cx.comm.collectives;
    let signature = if is_tuned { 0 } else { message_signature(shape, cx.comm) };
    let own = its.next_tag_of(cx.lane, signature);
    let carries = is_needed(cx) && (its.tune(cx.lane, cx.process).is_on() || its.node.is_open(cx.lane));
    [own, if carries { its.next_tag(cx.lane) } else { own }]
}

/// Returns true if an operation begins at once and by default, as where nothing is tuned.
fn begins_as_usual(cx: CommContext<'_>, spot: Option<CallSpot>) -> bool {
    let its = &cx.comm.collectives;
    let is_settled = its.node.numbers(cx.process, cx.comm).is_none() || its.node.is_settled(cx.lane);
    let is_usual = match spot {
        None => true,
        Some(CallSpot::Loose(_)) => !its.deferred.borrow(cx.lane).tuning.has_known(),
        Some(CallSpot::Placed(..)) => false,
    };
    is_usual && is_settled && its.tune(cx.lane, cx.process).is_on() && !is_crowded(cx)
}

/// Records a call and returns its position in the program's loop, or `None` if the operation is not tuned.
/// Must be called once for each operation, in the order of calls.
fn meet(cx: CommContext<'_>, shape: &Shape, form: CallForm) -> Option<CallSpot> {
    let its = &cx.comm.collectives;
    let mode = its.tune(cx.lane, cx.process);
    if !mode.is_on() {
        return None;
    }
    let mut state = its.state.borrow_mut(cx.lane);
    if state.sleeps(mode) {
        state.nap.0 -= 1;
        return None;
    }
    let generation = state.generation;
    drop(state);
    its.deferred.borrow_mut(cx.lane).tuning.set_mode(mode, learnings::are_there(&cx.process.job));
    let known = its.deferred.borrow(cx.lane).tuning.exempt(generation);
    let exempt = known.unwrap_or_else(|| {
        let exempt = exempt(cx);
        its.deferred.borrow_mut(cx.lane).tuning.set_exempt(generation, exempt);
        exempt
    });
    // Sums of the kernel may differ in their bits.
    let is_added_in_kernel = shape.collective == Collective::Allreduce
        && shape.bytes() <= kernel::MOST_BYTES
        && kernel::may_carry(cx, shape.collective);
    if exempt & 1 << shape.collective as u32 != 0 || is_added_in_kernel {
        return None;
    }
    let spot = its.deferred.borrow_mut(cx.lane).tuning.meet(shape, form);
    nap(cx.lane, cx.comm, mode);
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
fn exempt(cx: CommContext<'_>) -> u32 {
    let state = cx.comm.collectives.state.borrow(cx.lane);
    let is_exempt = |collective: &Collective| {
        !can_be_tuned(cx.comm, *collective)
            || state.hints.algorithm_of(&cx.process.config, collective.name()).is_some()
    };
    Collective::EVERY.into_iter().filter(is_exempt).fold(0, |bits, collective| bits | 1 << collective as u32)
}

/// Runs an operation that may be tuned, and waits for its end.
///
/// # Errors
/// Returns the error of a message that failed.
pub(in crate::collective) fn run(cx: &mut WaitContext<'_>, call: &Call<'_>) -> Result<()> {
    let shape = call.shape();
    let reading = inside::reading();
    let (place, lap) = match meet(cx.shared(), shape, CallForm::Blocking) {
        None => return perform_untuned(cx, call),
        Some(CallSpot::Placed(place, lap)) => (place, lap),
        Some(CallSpot::Loose(key)) => {
            if !cx.comm.collectives.deferred.borrow(cx.lane).tuning.has_known() {
                return perform_untuned(cx, call);
            }
            let best = known(cx.shared(), shape, key);
            return run_as(cx, call, best.as_ref().and_then(Best::proposal), false);
        }
    };
    let spot = CallSpot::Placed(place, lap);
    let mut says = loop {
        if let Some(says) = turn(cx.shared(), shape, (spot, reading))? {
            break says;
        }
        let what = || "what all ranks have measured of an operation".to_string();
        cx.wait_until(&what, |cx| has_heard(cx, place));
    };
    contribute(cx.shared(), place, None, &mut says);
    run_as(cx, call, says.proposal(), says.is_trial)?;
    let call_ns = inside::reading().now_ns.saturating_sub(reading.now_ns);
    let mut its = cx.comm.collectives.deferred.borrow_mut(cx.lane);
    if let Some(unit) = its.tuning.unit(place) {
        unit.ended(call_ns);
    }
    its.tuning.settle(place, call.key());
    if says.is_landmark {
        its.tuning.rest();
        drop(its);
        nap(cx.lane, cx.comm, cx.comm.collectives.tune(cx.lane, cx.process));
    }
    Ok(())
}

/// Runs an operation with this proposal, or by default, and waits for its end.
fn run_as(
    cx: &mut WaitContext<'_>,
    call: &Call<'_>,
    proposal: Option<&Proposal>,
    is_trial: bool,
) -> Result<()> {
    let Some(proposal) = proposal else { return perform_untuned(cx, call) };
    multicast::agree(cx, call)?;
    let mut cached = prepare(cx.shared(), call, AllowedPaths::All, Some(&proposal.choice));
    cached.manner = proposal.manner;
    ready_banks(cx.lane, cx.comm, &cached, is_trial);
    let ticket = cx.comm.collectives.ticket(cx.lane, &cached);
    let comm = cx.comm;
    finish(cx, cached, ticket, &|| describe_wait(call.collective(), call.shape().root, comm))
}

/// Returns the best algorithm known for an operation outside of loops, if there is one.
fn known(cx: CommContext<'_>, shape: &Shape, key: UnitKey) -> Option<Best> {
    if let Some(known) = cx.comm.collectives.deferred.borrow(cx.lane).tuning.known_of(&key) {
        return known.clone();
    }
    if is_among_first(cx) {
        return None;
    }
    let best = best_of_earlier_runs(cx, shape, CyclePlace { key, occurrence: 0 });
    cx.comm.collectives.deferred.borrow_mut(cx.lane).tuning.set_known(key, best.clone());
    best
}

/// Waits until all earlier operations have begun, and completes their agreement. Called before an operation
/// that does not use this module.
///
/// # Errors
/// Returns the error of a message of the agreement.
pub(in crate::collective) fn settle_all(cx: &mut WaitContext<'_>) -> Result<()> {
    if is_busy(cx.lane, cx.comm) {
        let what = || "operations that were started before it begin".to_string();
        cx.wait_until(&what, |cx| !is_busy(cx.lane, cx.comm));
    }
    let Some(settling) = cx.comm.collectives.deferred.borrow_mut(cx.lane).settling.take() else {
        return Ok(());
    };
    let what = || "what the hosts of a communicator have to offer".to_string();
    cx.wait_until(&what, |cx| is_over(cx.lane, cx.process, settling.maximum.request));
    let offer = settling.maximum.finish(cx.lane, cx.process)?;
    cx.comm.collectives.node.settle(cx.lane, offer);
    Ok(())
}

/// Returns true if an operation waits to begin.
#[inline]
pub(in crate::collective) fn is_busy(held: &LaneGuard, comm: &Communicator) -> bool {
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
        let _ = begin_some(CommContext::new(held, started(), &self.0));
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
fn begin(cx: CommContext<'_>) -> Option<u64> {
    let end_ns = begin_some(cx);
    let mut its = cx.comm.collectives.deferred.borrow_mut(cx.lane);
    if !its.waiting.is_empty() && !its.attended {
        its.attended = true;
        drop(its);
        cx.process.add_activity(cx.lane, Box::new(Attendant(Arc::clone(cx.comm))));
        return None;
    }
    end_ns.filter(|_| its.waiting.is_empty())
}

/// Begins operations that can begin now, and records whether others still wait.
fn begin_some(cx: CommContext<'_>) -> Option<u64> {
    let end_ns = begin_those_that_can(cx);
    let has_waiting = is_busy(cx.lane, cx.comm);
    cx.comm.collectives.state.borrow_mut(cx.lane).wait(has_waiting);
    end_ns
}

/// Begins waiting operations in order, until one has to wait or too many are active.
fn begin_those_that_can(cx: CommContext<'_>) -> Option<u64> {
    let has_room = || cx.comm.collectives.state.borrow(cx.lane).under_way < MOST_UNDER_WAY;
    let mut end_ns = None;
    while let Some(result) = has_room().then(|| next(cx)).flatten() {
        let mut its = cx.comm.collectives.deferred.borrow_mut(cx.lane);
        let Some(Waiting { call, tags, request, spot }) = (match result {
            Ok(Next::Wait) => None,
            _ => its.waiting.pop_front(),
        }) else {
            return end_ns;
        };
        drop(its);
        let (paths, mut says) = match result {
            Ok(Next::Begin(paths, says)) => (paths, says),
            Ok(Next::Wait) => unreachable!("nothing was taken out"),
            Err(error) => {
                cx.process.messages.borrow_mut(cx.lane).state.requests.complete(request, Some(error));
                continue;
            }
        };
        let proposal = says.proposal();
        let manner = proposal.map_or(ProgressMode::Plain, |proposal| proposal.manner);
        end_ns = match (manner, proposal) {
            (ProgressMode::Pushed, Some(proposal)) => Some(push_end_ns(proposal.choice.time)),
            _ => None,
        };
        let choice = proposal.map(|proposal| &proposal.choice);
        let mut cached = prepare(cx, call.call(), paths, choice);
        cached.manner = manner;
        ready_banks(cx.lane, cx.comm, &cached, says.is_trial);
        space_tests(manner);
        cx.comm.collectives.note(cx.lane, tags[0], cached.signature);
        let ticket = cx.comm.collectives.ticket_under(cx.lane, tags[0], &cached);
        let key = cached.key;
        start_under(cx, cached, ticket, request);
        let Some(CallSpot::Placed(place, _)) = spot.map(|spot| spot.0) else { continue };
        contribute(cx, place, Some(tags[1]), &mut says);
        let mut its = cx.comm.collectives.deferred.borrow_mut(cx.lane);
        if paths == AllowedPaths::All && its.waiting.is_empty() {
            its.tuning.settle(place, key);
        }
    }
    end_ns
}

/// Populates the memory of the banks before a trial, so that the trial is as fast as banks in use are. Only
/// ranks that write have memory of their own there.
fn ready_banks(held: &LaneGuard, comm: &Communicator, cached: &CachedExecution, is_trial: bool) {
    let Some(room) = cached.room.as_ref().filter(|_| is_trial) else { return };
    let Some(mut banks) = comm.collectives.node.banks(held) else { return };
    let steps = &cached.execution.plan().schedule.steps;
    let exposures = steps.iter().filter(|step| matches!(step.kind, Kind::Expose { .. })).count();
    room.populate(&mut banks, steps.iter().any(|step| step.kind.fills_bank()), exposures);
}

/// Makes one of several tests of the program advance operations, if this manner of progress requests that.
pub(in crate::collective) fn space_tests(manner: ProgressMode) {
    if let ProgressMode::Sparse(tests) = manner {
        inside::move_on_every(tests);
    }
}

/// Returns the time until which an operation is pushed that begins now. `time_s` is the model's estimate,
/// in seconds.
pub(in crate::collective) fn push_end_ns(time_s: f64) -> u64 {
    let ns = isolated(|| (time_s * PUSHED_TIMES * 1e9) as u64);
    clock::now_ns() + ns.clamp(LEAST_PUSHED_NS, MOST_PUSHED_NS)
}

/// Advances an operation until it is over or `end_ns` has come, so that starting it stays local.
pub(in crate::collective) fn push(held: &LaneGuard, process: &Process, request: RequestId, end_ns: u64) {
    while !is_over(held, process, request) && clock::now_ns() < end_ns {
        progress::progress(held, process);
    }
}

/// Reports a decision, and starts the maxima that an operation carries along. The tag is `tag` if given,
/// otherwise a new one.
fn contribute(cx: CommContext<'_>, place: CyclePlace, tag: Option<i32>, says: &mut Says) {
    if let Some(decided) = says.decided.take() {
        report_decision(cx, decided);
    }
    if let Some(words) = says.words.take() {
        let begun_ns = clock::now_ns();
        let tag = tag.unwrap_or_else(|| cx.comm.collectives.next_tag(cx.lane));
        let maxima = cx.start_maxima(tag, &words);
        cx.comm.collectives.deferred.borrow_mut(cx.lane).words.insert(place, maxima);
        let spent_ns = clock::now_ns().saturating_sub(begun_ns);
        cx.process.library.ledger.borrow_mut(cx.lane).lose(spent_ns.cast_signed());
    }
}

/// Reports a decision, and stores it.
pub(in crate::collective) fn report_decision(cx: CommContext<'_>, decided: Decided) {
    let Decided { explanation, learned } = decided;
    let wanted = cx.process.config.collectives.explain;
    if wanted.is_on() && cx.comm.rank().0 == 0 {
        // Times are computed for the text, and the program may have enabled traps.
        isolated(|| eprintln!("Tutti: {}", explanation.text(wanted.is_all())));
    }
    if let Some((key, label)) = learned {
        cx.process.library.learnings.borrow_mut(cx.lane).learn(key, label);
    }
}

/// Reports the units without a decision when the process ends.
pub(crate) fn report_undecided(held: &LaneGuard, process: &Process) {
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
fn next(cx: CommContext<'_>) -> Option<Result<Next>> {
    let tags = cx.comm.collectives.deferred.borrow_mut(cx.lane).waiting.front()?.tags;
    match settle(cx, tags[1]) {
        Ok(None) => return Some(Ok(Next::Wait)),
        Ok(Some(AllowedPaths::Messages)) => {
            return Some(Ok(Next::Begin(AllowedPaths::Messages, Says::default())));
        }
        Ok(Some(AllowedPaths::All)) => {}
        Err(error) => return Some(Err(error)),
    }
    let (shape, spot) = {
        let its = cx.comm.collectives.deferred.borrow_mut(cx.lane);
        let first = its.waiting.front()?;
        (*first.call.call().shape(), first.spot.as_deref().copied())
    };
    let Some(spot) = spot else { return Some(Ok(Next::Begin(AllowedPaths::All, Says::default()))) };
    Some(turn(cx, &shape, spot).map(|says| match says {
        Some(says) => Next::Begin(AllowedPaths::All, says),
        None => Next::Wait,
    }))
}

/// Returns true if the maxima that an operation has to wait for have arrived.
fn has_heard(cx: CommContext<'_>, place: CyclePlace) -> bool {
    let its = cx.comm.collectives.deferred.borrow_mut(cx.lane);
    let request = its.words.get(&place).map(|maxima| maxima.request);
    drop(its);
    request.is_none_or(|request| is_over(cx.lane, cx.process, request))
}

/// Returns the step of a tuned operation, or `None` if it has to wait until the members have agreed.
fn turn(cx: CommContext<'_>, shape: &Shape, (spot, reading): (CallSpot, Reading)) -> Result<Option<Says>> {
    let (place, lap) = match spot {
        CallSpot::Placed(place, lap) => (place, lap),
        CallSpot::Loose(key) => {
            let has_known = cx.comm.collectives.deferred.borrow(cx.lane).tuning.has_known();
            let best = has_known.then(|| known(cx, shape, key)).flatten();
            return Ok(Some(Says { best, ..Says::default() }));
        }
    };
    let heard = has_heard(cx, place);
    let maxima =
        heard.then(|| cx.comm.collectives.deferred.borrow_mut(cx.lane).words.remove(&place)).flatten();
    if let Some(maxima) = maxima {
        let words = maxima.finish(cx.lane, cx.process);
        let mut its = cx.comm.collectives.deferred.borrow_mut(cx.lane);
        if let Some(unit) = its.tuning.unit(place) {
            match &words {
                Ok(words) => unit.heard(words),
                Err(_) => unit.give_up(),
            }
        }
        words?;
    }
    if !cx.comm.collectives.deferred.borrow_mut(cx.lane).tuning.has_unit(place) {
        let news = news(cx, shape, place);
        cx.comm.collectives.deferred.borrow_mut(cx.lane).tuning.add(place, news);
    }
    // A unit requests proposals only once.
    loop {
        let answer = {
            let learnings = cx.process.library.learnings.borrow(cx.lane);
            let mut ledger = cx.process.library.ledger.borrow_mut(cx.lane);
            let mut its = cx.comm.collectives.deferred.borrow_mut(cx.lane);
            its.tuning.turn((place, lap), reading, &learnings, &mut ledger)
        };
        match answer {
            UnitAnswer::Says(says) => return Ok(Some(says)),
            UnitAnswer::Wait => return Ok(None),
            UnitAnswer::Provide => {
                let proposals = alternatives(cx, shape, place.key.form);
                if let Some(unit) = cx.comm.collectives.deferred.borrow_mut(cx.lane).tuning.unit(place) {
                    unit.provide(proposals);
                }
            }
        }
    }
}

/// Returns the initial state of a unit that is met for the first time.
pub(in crate::collective) fn news(cx: CommContext<'_>, shape: &Shape, place: CyclePlace) -> News {
    let (layout, _) = layout_for_results(cx.process, cx.comm);
    let key = tutti_coll::tune::learned::key(learnings::program(&cx.process.job), place, &layout);
    let known = best_of_earlier_runs(cx, shape, place).or_else(|| {
        let its = cx.comm.collectives.deferred.borrow(cx.lane);
        its.tuning.known_of(&place.key).cloned().flatten()
    });
    let tries = cx.comm.collectives.tune(cx.lane, cx.process) == Tune::On;
    let config = &cx.process.config.collectives;
    let budget_part = isolated(|| config.tune_budget as f64 / 100.0);
    let rules = Rules { budget_part, guards: tries, ..Rules::default() };
    News { key, known, tries, search: config.tune_search, rules }
}

/// Returns the means that the first waiting operation may use; `None` if it must wait for the agreement.
/// Starts the agreement with tag `tag`.
fn settle(cx: CommContext<'_>, tag: i32) -> Result<Option<AllowedPaths>> {
    let node = &cx.comm.collectives.node;
    if node.numbers(cx.process, cx.comm).is_none() || node.is_settled(cx.lane) {
        return Ok(Some(AllowedPaths::All));
    }
    if let Some(offer) = node.needs_agreement(cx.lane, cx.process, cx.comm) {
        let maximum = cx.start_maximum(tag, offer)?;
        cx.comm.collectives.deferred.borrow_mut(cx.lane).settling = Some(Settling { maximum, begun: 0 });
    }
    let mut its = cx.comm.collectives.deferred.borrow_mut(cx.lane);
    // Another thread waits for the agreement of a blocking operation.
    let Some(settling) = &mut its.settling else { return Ok(Some(AllowedPaths::Messages)) };
    if settling.begun < MEANWHILE {
        settling.begun += 1;
        return Ok(Some(AllowedPaths::Messages));
    }
    let request = settling.maximum.request;
    drop(its);
    if !is_over(cx.lane, cx.process, request) {
        return Ok(None);
    }
    let settling = cx.comm.collectives.deferred.borrow_mut(cx.lane).settling.take();
    let settling = settling.expect("it was just there");
    let offer = settling.maximum.finish(cx.lane, cx.process)?;
    node.settle(cx.lane, offer);
    Ok(Some(AllowedPaths::All))
}
