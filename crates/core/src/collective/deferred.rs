//! Non-blocking operations whose beginning may have to wait for an agreement of the members.
//!
//! Two things are agreed on in the background, by a maximum that some operation carries along: what the hosts
//! of a communicator have to offer
//! ([`crate::communicator::collectives::node::Neighbourhood::needs_agreement`]), and what tuning has found
//! ([`super::tuning`]). Operations go on with what was known before; after a number of them that is the same
//! on all members the next one has to have heard. If it has not, its call returns all the same (starting is
//! local, MPI-5 section 6.12), and it begins when progress has heard. What is called for after it begins
//! after it, so that all members take tags and turns in the order of calls: blocking operations wait here
//! first ([`settle_all`]).
//!
//! So wait operations that are called for while a hundred are under way: a program may start a million.
//!
//! # Safety
//! An operation that is kept describes the memory that its call described, whose owner leaves it alone until
//! the request is complete.
#![allow(unsafe_code)]

use std::sync::Arc;

use tutti_base::Result;
use tutti_base::config::Tune;
use tutti_coll::Shape;
use tutti_coll::ir::Kind;
use tutti_coll::tune::cycle::Place;
use tutti_coll::tune::{CallForm, Manner};
use tutti_sys::{clock, floating_point};

use super::internal;
use super::learnings;
use super::nonblocking::start_under;
use super::{
    Activity, Channel, Means, Operation, Run, agree, failures, finish, multicast, offloaded, prepare_as,
    root_of, surroundings, waiting_for,
};
use crate::communicator::Communicator;
use crate::communicator::collectives::MOST_UNDER_WAY;
use crate::communicator::collectives::deferred::{Settling, Waiting};
use crate::communicator::collectives::operation::Owned;
use crate::communicator::collectives::tuning::{Decided, News, Says};
use crate::completion;
use crate::inside::{self, Reading};
use crate::lanes::LaneGuard;
use crate::messenger::Messenger;
use crate::process::{Process, started};
use crate::progress;
use crate::request::{Request, RequestId, Work};

/// Operations that go on by messages while members learn what their hosts have to offer.
const MEANWHILE: u32 = 2;
/// A pushed operation moves on for so many times as long as the model takes it for, in the call that
/// starts it,
const PUSHED_TIMES: f64 = 2.0;
/// at least and at most so long.
const LEAST_PUSHED_NS: u64 = 20_000;
const MOST_PUSHED_NS: u64 = 20_000_000;

/// What the first one does.
enum Next {
    /// It begins so.
    Begin(Means, Says),
    /// It has to wait.
    Wait,
}

/// Whether non-blocking operations of a communicator go this way.
pub(super) fn is_needed(held: &LaneGuard, process: &Process, comm: &Communicator) -> bool {
    let its = &comm.collectives;
    if !matches!(its.channel, Channel::Own) || comm.inter().is_some() {
        return false;
    }
    let unsettled = its.node.numbers(process, comm).is_some() && !its.node.is_settled(held);
    its.tune(held, process).is_on() || unsettled
}

/// Whether so many operations of a communicator are under way that others wait. Those of intercommunicators
/// do not take turns, and need not.
pub(super) fn is_crowded(held: &LaneGuard, comm: &Communicator) -> bool {
    comm.inter().is_none() && comm.collectives.state.borrow(held).is_crowded()
}

/// Starts an operation of such a communicator.
pub(super) fn start(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> RequestId {
    let _inside = inside::measure();
    let shape = operation.shape(comm);
    let work = Work::Collective(shape.collective.name(), root_of(shape.collective, shape.root));
    let request = process.messages.borrow_mut(held).state.insert(Request::new(work, comm.context().0));
    let is_tuned = is_tuned(held, process, comm, &shape);
    let tags = take_tags(held, process, comm, &shape, is_tuned);
    let mut its = comm.collectives.deferred.borrow_mut(held);
    let unit = match is_tuned {
        true => {
            let mode = comm.collectives.tune(held, process);
            Some(Box::new((its.tuning.place(mode, &shape, CallForm::Nonblocking), inside::reading())))
        }
        false => {
            its.tuning.interrupt();
            None
        }
    };
    // SAFETY: see the module's Safety section.
    let operation = unsafe { Owned::new(operation) };
    its.waiting.push_back(Waiting { operation, tags, request, unit });
    drop(its);
    comm.collectives.state.borrow_mut(held).wait(true);
    if let Some(end_ns) = begin(held, process, comm) {
        push(held, process, request, end_ns);
    }
    request
}

/// The numbers of an operation and of the agreement that it may carry along. What is tuned says of itself
/// when it begins by which algorithm it is done.
///
/// How many numbers are taken must not depend on whether the agreement has been heard of: where it has, the
/// next operation does not come this way. So untuned ones take a second number only if they are the first,
/// which begins at once and asks.
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

/// Whether the algorithm of an operation is one that is tried or was learned.
pub(super) fn is_tuned(held: &LaneGuard, process: &Process, comm: &Communicator, shape: &Shape) -> bool {
    let its = &comm.collectives;
    its.tune(held, process).is_on()
        && can_be_tuned(comm, shape)
        && its.state.borrow(held).wishes.algorithm_of(&process.config, shape.collective.name()).is_none()
}

/// Whether an operation can be one.
pub(super) fn can_be_tuned(comm: &Communicator, shape: &Shape) -> bool {
    matches!(comm.collectives.channel, Channel::Own)
        && comm.inter().is_none()
        && comm.size() > 1
        && !shape.collective.is_of_neighbours()
}

/// Does a tuned operation and waits for its end.
///
/// # Errors
/// What went wrong with a message.
pub(super) fn run(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> Result<()> {
    agree(held, process, comm)?;
    offloaded::agree(held, process, comm)?;
    multicast::agree(held, process, comm, operation)?;
    let shape = operation.shape(comm);
    let tags = take_tags(held, process, comm, &shape, true);
    let (mode, reading) = (comm.collectives.tune(held, process), inside::reading());
    let place = comm.collectives.deferred.borrow_mut(held).tuning.place(mode, &shape, CallForm::Blocking);
    let says = loop {
        if let Some(says) = turn(held, process, comm, &shape, (place, reading))? {
            break says;
        }
        let what = || "what all ranks have measured of an operation".to_string();
        progress::wait_until(held, process, &what, |held| has_heard(held, process, comm, place));
    };
    if says.proposal().is_some_and(|proposal| proposal.manner == Manner::Kernel) {
        contribute(held, process, comm, place, tags[1], says);
        offloaded::run(held, process, comm, operation)
            .expect("only what the kernel does is proposed to it")?;
        let call_ns = inside::reading().now_ns.saturating_sub(reading.now_ns);
        comm.collectives.deferred.borrow_mut(held).tuning.ended(place, call_ns, None);
        return Ok(());
    }
    let choice = says.proposal().map(|proposal| &proposal.choice);
    let run = prepare_as(held, process, comm, operation, Means::All, choice);
    ready_banks(held, comm, &run, &says);
    let words = run.words;
    comm.collectives.note(held, tags[0], run.signature);
    let ticket = comm.collectives.ticket_under(held, tags[0], &run);
    contribute(held, process, comm, place, tags[1], says);
    let collective = shape.collective;
    finish(held, process, comm, run, ticket, &|| waiting_for(collective, shape.root, comm))?;
    let call_ns = inside::reading().now_ns.saturating_sub(reading.now_ns);
    comm.collectives.deferred.borrow_mut(held).tuning.ended(place, call_ns, words);
    Ok(())
}

/// An operation that is not tuned is called for where others are.
pub(super) fn interrupt(held: &LaneGuard, comm: &Communicator) {
    comm.collectives.deferred.borrow_mut(held).tuning.interrupt();
}

/// Before an operation that does not go this way: waits until all before it have begun, and settles what they
/// have asked.
///
/// # Errors
/// What went wrong with a message of the agreement.
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

/// Whether something waits to begin.
#[inline]
pub(super) fn is_busy(held: &LaneGuard, comm: &Communicator) -> bool {
    !comm.collectives.deferred.borrow_mut(held).waiting.is_empty()
}

fn is_over(held: &LaneGuard, process: &Process, request: RequestId) -> bool {
    completion::is_complete(held, process, request).unwrap_or(true)
}

/// Looks after what waits.
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

/// Begins what can begin now, and leaves the rest to progress. Until when the last one is to be pushed on,
/// if it has begun and is to.
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

fn begin_some(held: &LaneGuard, process: &Process, comm: &Arc<Communicator>) -> Option<u64> {
    let end_ns = begin_those_that_can(held, process, comm);
    let has_waiting = is_busy(held, comm);
    comm.collectives.state.borrow_mut(held).wait(has_waiting);
    end_ns
}

fn begin_those_that_can(held: &LaneGuard, process: &Process, comm: &Arc<Communicator>) -> Option<u64> {
    let has_room = || comm.collectives.state.borrow(held).under_way < MOST_UNDER_WAY;
    let mut end_ns = None;
    while let Some(result) = has_room().then(|| next(held, process, comm)).flatten() {
        let mut its = comm.collectives.deferred.borrow_mut(held);
        let Some(Waiting { operation, tags, request, unit }) = (match result {
            Ok(Next::Wait) => None,
            _ => its.waiting.pop_front(),
        }) else {
            return end_ns;
        };
        drop(its);
        let (means, says) = match result {
            Ok(Next::Begin(means, says)) => (means, says),
            Ok(Next::Wait) => unreachable!("nothing was taken out"),
            Err(error) => {
                process.messages.borrow_mut(held).state.requests.complete(request, Some(error));
                continue;
            }
        };
        let proposal = says.proposal();
        let manner = proposal.map_or(Manner::Plain, |proposal| proposal.manner);
        end_ns = match (manner, proposal) {
            (Manner::Pushed, Some(proposal)) => Some(push_end_ns(proposal.choice.time)),
            _ => None,
        };
        let words = operation.with(|operation| {
            let choice = proposal.map(|proposal| &proposal.choice);
            let mut run = prepare_as(held, process, comm, operation, means, choice);
            run.manner = manner;
            ready_banks(held, comm, &run, &says);
            space_tests(manner);
            comm.collectives.note(held, tags[0], run.signature);
            let ticket = comm.collectives.ticket_under(held, tags[0], &run);
            let words = run.words;
            start_under(held, process, comm, run, ticket, request);
            words
        });
        let Some((place, _)) = unit.map(|unit| *unit) else { continue };
        contribute(held, process, comm, place, tags[1], says);
        let mut its = comm.collectives.deferred.borrow_mut(held);
        if let (Some(words), Means::All, true) = (words, means, its.waiting.is_empty()) {
            its.tuning.settle(place, words);
        }
    }
    end_ns
}

/// Before something is tried by banks: their memory is there, as it is when they have been used for long.
/// Only ranks that write have some of their own.
fn ready_banks(held: &LaneGuard, comm: &Communicator, run: &Run, says: &Says) {
    let Some(room) = run.room.as_ref().filter(|_| says.is_trial()) else { return };
    let Some(mut banks) = comm.collectives.node.banks(held) else { return };
    let steps = &run.execution.plan().schedule.steps;
    let exposures = steps.iter().filter(|step| matches!(step.kind, Kind::Expose { .. })).count();
    room.populate(&mut banks, steps.iter().any(|step| step.kind.fills_bank()), exposures);
}

/// What an operation that moves on in this manner asks of tests.
pub(super) fn space_tests(manner: Manner) {
    if let Manner::Sparse(tests) = manner {
        inside::move_on_every(tests);
    }
}

/// Until when an operation is pushed on that begins now and is to take so long by the model.
pub(super) fn push_end_ns(time_s: f64) -> u64 {
    let ns = floating_point::isolated(|| (time_s * PUSHED_TIMES * 1e9) as u64);
    clock::now_ns() + ns.clamp(LEAST_PUSHED_NS, MOST_PUSHED_NS)
}

/// Moves an operation on until it is over, or until then: starting stays local.
pub(super) fn push(held: &LaneGuard, process: &Process, request: RequestId, end_ns: u64) {
    while !is_over(held, process, request) && clock::now_ns() < end_ns {
        progress::progress(held, process);
    }
}

/// Says what was decided, and begins to take the maxima that an operation carries along.
fn contribute(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    place: Place,
    tag: i32,
    says: Says,
) {
    let Says::Take { words, decided, .. } = says else { return };
    if let Some(decided) = decided {
        tell(held, process, comm, decided);
    }
    if let Some(words) = words {
        let maxima = internal::start_maxima(held, process, comm, tag, &words);
        comm.collectives.deferred.borrow_mut(held).words.insert(place, maxima);
    }
}

/// Says what was decided, and keeps it.
pub(super) fn tell(held: &LaneGuard, process: &Process, comm: &Communicator, decided: Decided) {
    let Decided { explanation, learned } = decided;
    if process.config.collectives.explain && comm.rank().0 == 0 {
        eprintln!("Tutti: {explanation}");
    }
    if let Some((key, label)) = learned {
        process.library.learnings.borrow_mut(held).learn(key, label);
    }
}

/// Says what is not decided when the process ends.
pub(crate) fn tell_undecided(held: &LaneGuard, process: &Process) {
    if !process.config.collectives.explain {
        return;
    }
    for comm in process.library.communicators.borrow(held).values().filter(|comm| comm.rank().0 == 0) {
        for sentence in comm.collectives.deferred.borrow(held).tuning.undecided() {
            eprintln!("Tutti: {sentence}");
        }
    }
}

/// What becomes of the first one that waits.
fn next(held: &LaneGuard, process: &Process, comm: &Arc<Communicator>) -> Option<Result<Next>> {
    let tags = comm.collectives.deferred.borrow_mut(held).waiting.front()?.tags;
    match settle(held, process, comm, tags[1]) {
        Ok(None) => return Some(Ok(Next::Wait)),
        Ok(Some(Means::Messages)) => return Some(Ok(Next::Begin(Means::Messages, Says::Default))),
        Ok(Some(Means::All)) => {}
        Err(error) => return Some(Err(error)),
    }
    let (shape, unit) = {
        let its = comm.collectives.deferred.borrow_mut(held);
        let first = its.waiting.front()?;
        (first.operation.with(|operation| operation.shape(comm)), first.unit.as_deref().copied())
    };
    let Some(unit) = unit else { return Some(Ok(Next::Begin(Means::All, Says::Default))) };
    Some(turn(held, process, comm, &shape, unit).map(|says| match says {
        Some(says) => Next::Begin(Means::All, says),
        None => Next::Wait,
    }))
}

/// Whether the maxima that an operation has to wait for have come.
fn has_heard(held: &LaneGuard, process: &Process, comm: &Communicator, place: Place) -> bool {
    let its = comm.collectives.deferred.borrow_mut(held);
    let request = its.words.get(&place).map(|maxima| maxima.request);
    drop(its);
    request.is_none_or(|request| is_over(held, process, request))
}

/// What a tuned operation does; nothing if it has to wait until members have agreed.
fn turn(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    (place, reading): (Place, Reading),
) -> Result<Option<Says>> {
    let heard = has_heard(held, process, comm, place);
    let maxima = heard.then(|| comm.collectives.deferred.borrow_mut(held).words.remove(&place)).flatten();
    if let Some(maxima) = maxima {
        let words = maxima.finish(held, process);
        let mut its = comm.collectives.deferred.borrow_mut(held);
        match &words {
            Ok(words) => its.tuning.heard(place, words),
            Err(_) => its.tuning.give_up(place),
        }
        words?;
    }
    if !comm.collectives.deferred.borrow_mut(held).tuning.is_known(place) {
        let news = news(held, process, comm, shape, place);
        comm.collectives.deferred.borrow_mut(held).tuning.add(place, news);
    }
    let learnings = process.library.learnings.borrow(held);
    Ok(comm.collectives.deferred.borrow_mut(held).tuning.turn(place, reading, &learnings))
}

/// What is known of a unit that comes for the first time.
pub(super) fn news(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    place: Place,
) -> News {
    let proposals = super::proposals(held, process, comm, shape, place.key.form);
    let (environment, whose) = surroundings(held, process, comm, shape, Means::All);
    let key = tutti_coll::tune::learned::key(learnings::program(&process.job), place, &environment.layout);
    // Jobs have their own files.
    let known = (whose != super::Whose::Several)
        .then(|| learnings::known(learnings::earlier(&process.job), &key, &proposals))
        .flatten();
    let tries = comm.collectives.tune(held, process) == Tune::On;
    News { proposals, key, known, tries, search: process.config.collectives.tune_search }
}

/// What the first one that waits may use; nothing if it has to wait until members have agreed. The agreement
/// is begun under `tag`.
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
