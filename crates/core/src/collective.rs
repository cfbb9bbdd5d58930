//! Collective operations: from a user's arguments to a plan and its execution (MPI-5 chapter 6).
//!
//! An [`Operation`] describes what to do on which memory. There are three ways to run it:
//!
//! - [`run`] waits for its end,
//! - [`start`] leaves it to progress,
//! - [`persistent`] keeps it, so that it can be started again.
//!
//! All three run the same [`Execution`] of the same plan over a [`CommPort`]. A communicator caches its
//! latest executions, so that repeating an operation selects, generates and allocates nothing.
//!
//! The messages of an operation carry its sequence number on the communicator as tag, so any number of
//! operations may be active. A persistent operation gets a number of its own when it is created. Its starts
//! need not be in the same order everywhere (MPI-5 section 6.13).
//!
//! # Safety
//! Nothing is read or written through the addresses that are remembered of a call.
#![allow(unsafe_code)]

mod bank_port;
mod deferred;
mod failures;
pub mod files;
mod first;
mod hosts;
mod inline_payload;
mod internal;
mod loans;
mod multicast;
mod nonblocking;
mod offloaded;
mod persistent;
mod port;
mod replay;
mod served;

use std::ptr::null_mut;
use std::sync::Arc;

use tutti_base::Result;
use tutti_base::traffic::TRAFFIC;
use tutti_coll::ir::Order;
use tutti_coll::select::Choice;
use tutti_coll::simulate;
use tutti_coll::tune::cycle::CyclePlace;
use tutti_coll::tune::{self, CallForm, ProgressMode, Proposal, UnitKey};
pub use tutti_coll::{Collective, Shape};
use tutti_coll::{Environment, Plan};

use tutti_sys::clock;
use tutti_sys::floating_point::isolated;
use tutti_transport::banks::Banks;

use crate::communicator::Communicator;
use crate::engine::{Execution, ExecutionStatus};
use crate::events;
use crate::hang;
use crate::info::Info;
use crate::lanes::LaneGuard;
pub use crate::messenger::Activity;
use crate::messenger::Messenger;
use crate::p2p::agreement::LANE_BITS;
use crate::process::{Process, name_of_context};
use crate::progress;
use crate::trace;

pub(crate) use deferred::tell_undecided;
pub use failures::untold;
pub(crate) use failures::{Unreceived, answer, unreceived};
pub use internal::{
    add_words, allgather_bytes, alltoall_bytes, barrier, barrier_by_messages, broadcast_bytes, maximum,
    maximum_by_messages, start_allgather, start_maximum, swap_bytes,
};
pub use nonblocking::start;
pub use persistent::persistent;
pub use replay::{replay, start_replay};

use bank_port::BankPort;
use nonblocking::start_keeping;
use port::CommPort;

use crate::communicator::collectives::agreement::OperationAgreement;
pub use crate::communicator::collectives::choices::Choices;
use crate::communicator::collectives::choices::Whose;
pub use crate::communicator::collectives::collected::{Gathering, Maximum};
pub use crate::communicator::collectives::learnings::Learnings;
use crate::communicator::collectives::node::{HostOffer, Neighbourhood};
pub use crate::communicator::collectives::operation::{Operation, Side};
use crate::communicator::collectives::repertoire::{Best, KindOfCall};
use crate::communicator::collectives::turn::{BankTurn, SlotNeeds};
pub use crate::communicator::collectives::wishes::{self, Wishes};
pub use crate::communicator::collectives::words::Words;
use crate::communicator::collectives::{
    Channel, Given, Means, Prepared, Run, Ticket, agreement, learnings, places, ticket,
};

/// Returns the layout of the members on hosts and processors, equal at all members. `None` if no process is
/// bound to processors, so that nothing is known.
pub(crate) fn near(process: &Process, comm: &Communicator) -> Option<Arc<simulate::Layout>> {
    comm.collectives.near.of(process, &process.library.layouts, comm)
}

/// Takes this process out of the multicasts of a communicator. A process that has left answers no repair
/// requests.
pub(crate) fn leave_multicasts(held: &LaneGuard, comm: &Communicator) {
    multicast::leave(held, comm);
}

/// Runs an operation that the program has called, and waits for its end. Uses tuning where it is on.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn perform(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> Result<()> {
    if comm.collectives.tune(held, process).is_on() {
        return deferred::run(held, process, comm, operation);
    }
    run(held, process, comm, operation)
}

/// Sets the hints of a communicator. All its members must pass the same hints (MPI-5 section 7.4.4).
///
/// # Errors
/// Returns the error of a message of an operation that had to begin first.
pub fn set_info(held: &mut LaneGuard, process: &Process, comm: &Communicator, info: &Info) -> Result<()> {
    if matches!(comm.collectives.channel, Channel::Own) && comm.inter().is_none() {
        deferred::settle_all(held, process, comm)?;
    }
    comm.set_hints(held, info);
    Ok(())
}

/// Runs an operation and waits for its end, in the kernel if it can be offloaded.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn run(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
) -> Result<()> {
    agree(held, process, comm)?;
    offloaded::agree(held, process, comm)?;
    match offloaded::run(held, process, comm, operation) {
        Some(result) => result,
        None => run_by(held, process, comm, operation, Means::All, ""),
    }
}

/// Runs an operation as [`run`] does, but without the kernel offload. All members must pass the same
/// `means`. The text shown to a user who asks where this rank waits is `prefix` and the operation. A rank
/// that is done may exit: no other rank requests repairs from it.
fn run_by(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
    means: Means,
    prefix: &str,
) -> Result<()> {
    if means == Means::All {
        agree(held, process, comm)?;
        multicast::agree(held, process, comm, operation)?;
    }
    let run = prepare(held, process, comm, operation, means);
    let what =
        || format!("{prefix}{}", waiting_for(operation.collective(), operation.shape(comm).root, comm));
    let ticket = comm.collectives.ticket(held, &run);
    finish(held, process, comm, run, ticket, &what)
}

/// Agrees with members on other hosts on what each host offers. Happens before the first blocking
/// operation.
#[inline]
fn agree(held: &mut LaneGuard, process: &Process, comm: &Communicator) -> Result<()> {
    let its = &comm.collectives;
    if !matches!(its.channel, Channel::Own) || comm.inter().is_some() {
        return Ok(());
    }
    deferred::settle_all(held, process, comm)?;
    if let Some(offer) = its.node.needs_agreement(held, process, comm) {
        let offer = internal::maximum(held, process, comm, offer)?;
        its.node.settle(held, offer);
    }
    Ok(())
}

/// Runs an execution to its end and puts it back into the cache.
fn finish(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    mut run: Run,
    mut ticket: Ticket,
    what: &dyn Fn() -> String,
) -> Result<()> {
    let node = &comm.collectives.node;
    let mut result = advance(held, messenger, comm, node, &mut run, &mut ticket, true);
    if matches!(result, Ok(ExecutionStatus::Pending)) {
        let gives_way =
            waits_for_all(run.execution.plan().shape.collective) && messenger.gives_way(comm.size());
        let done = |held: &LaneGuard| {
            if matches!(result, Ok(ExecutionStatus::Pending)) {
                result = advance(held, messenger, comm, node, &mut run, &mut ticket, false);
            }
            !matches!(result, Ok(ExecutionStatus::Pending))
        };
        if gives_way {
            progress::wait_for_all(held, messenger, what, done);
        } else {
            progress::wait_until(held, messenger, what, done);
        }
    }
    rest(held, comm, run);
    result?;
    failures::overdue(&CommPort::new(held, messenger, comm, &mut ticket, None)).map_or(Ok(()), Err)
}

/// Returns true if no member can finish the operation before every member has started it. In other
/// operations the members this rank waits for may be ahead, with results of several operations in their
/// banks.
fn waits_for_all(collective: Collective) -> bool {
    use Collective as C;
    let reduces = matches!(collective, C::Allreduce | C::ReduceScatter | C::ReduceScatterBlock);
    reduces || matches!(collective, C::Barrier | C::Allgather | C::Allgatherv | C::Alltoall | C::Alltoallv)
}

/// Makes a ticket as [`ticket`] does, and tries to run the whole operation at once. That works if it is
/// compiled, needs no more than a [`BankPort`], and need not wait. Returns `None` if the operation is done.
#[inline(always)]
fn fast_path(tag: i32, number: u32, banks: &mut Banks, run: &mut Run, looks: u32) -> Option<Ticket> {
    let Some(room) = run.room.filter(|_| run.execution.is_compiled()) else {
        return Some(ticket(tag, number, banks, run));
    };
    let mut turn = BankTurn::take(banks, room, run.said.agreed);
    let agreement = OperationAgreement::begin(banks, number, &run.said, Some(&turn));
    if !agreement.is_lost() && turn.grant(banks) {
        let slot = *turn.slot();
        let (bank_bytes, near_bytes) = (room.bytes, room.near_bytes);
        let mut port = BankPort { banks, slot, bank_bytes, carried_bytes: 0, near_bytes, looks };
        let status = run.execution.fast_path(&mut port);
        let carried_bytes = port.carried_bytes;
        if let ExecutionStatus::Done = status {
            turn.leave(banks);
            return None;
        }
        let ticket = Ticket::new(tag, Some(turn), agreement, run.signature);
        return Some(Ticket { carried_bytes, ..ticket });
    }
    Some(Ticket::new(tag, Some(turn), agreement, run.signature))
}

/// Takes all steps that are possible now; `node` holds the banks of the operation. With `patient`, flags
/// are polled several times before giving up.
#[inline]
fn advance(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    node: &Neighbourhood,
    run: &mut Run,
    ticket: &mut Ticket,
    patient: bool,
) -> Result<ExecutionStatus> {
    if let Some(refusal) = ticket.agreement.refusal(|| name_of_context(comm.context().0)) {
        if node.numbers(messenger, comm).is_some() {
            // Members on other hosts are still in step.
            failures::tell(&CommPort::new(held, messenger, comm, ticket, None), &refusal);
        }
        return Err(refusal);
    }
    let mut banks = if ticket.turn.is_some() { node.banks(held) } else { None };
    let mut port = CommPort::new(held, messenger, comm, ticket, banks.as_deref_mut());
    if let Some(refusal) = failures::of(&port) {
        run.execution.abandon(&mut port);
        return Err(refusal);
    }
    let looks = if patient { messenger.waiting.flag_looks() } else { 0 };
    let mut port = port.looking(looks);
    port.ticket.patience.awaited = None;
    let mut result = run.execution.progress(&mut port);
    let sleeps = messenger.is_about_to_sleep();
    let mut doubts = sleeps;
    if matches!(result, Ok(ExecutionStatus::Pending)) && port.ticket.patience.looked(sleeps) {
        failures::ask(&mut port);
        if let Some(error) = failures::departed(&mut port) {
            run.execution.abandon(&mut port);
            result = Err(error);
        }
        doubts |= port.ticket.patience.is_long();
        if doubts && let Some(error) = failures::dissent(&port).or_else(|| failures::answered(&port)) {
            run.execution.abandon(&mut port);
            result = Err(error);
        }
    }
    if let Err(error) = &result {
        failures::tell(&port, error);
    }
    drop(banks);
    if matches!(result, Ok(ExecutionStatus::Pending)) && ticket.agreement.is_doubtful(doubts) {
        return settle_disagreement(held, messenger, comm, node, run, ticket);
    }
    result
}

/// Ends a waiting operation with an error if the members disagree about it.
#[cold]
fn settle_disagreement(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    node: &Neighbourhood,
    run: &mut Run,
    ticket: &mut Ticket,
) -> Result<ExecutionStatus> {
    let Some(mut banks) = node.banks(held) else { return Ok(ExecutionStatus::Pending) };
    let numbers = comm.collectives.node.numbers(messenger, comm);
    let rank_of = |member| comm.collectives.node.rank_of(messenger, comm, member);
    let complaint = ticket.agreement.complaint(&banks, || name_of_context(comm.context().0), rank_of);
    let Some(complaint) = complaint else { return Ok(ExecutionStatus::Pending) };
    banks.was_told(ticket.agreement.number());
    if ticket.turn.as_ref().is_some_and(|turn| !turn.is_granted()) {
        // This operation never gets its slot, so none after it does either.
        banks.give_up(ticket.agreement.number());
    }
    let mut port = CommPort::new(held, messenger, comm, ticket, Some(&mut banks));
    run.execution.abandon(&mut port);
    if numbers.is_some() {
        // Members on other hosts do not see the banks of this one.
        failures::tell(&port, &complaint);
    }
    Err(complaint)
}

/// Returns true if a plan is confined to one host: its steps run in the order of the program.
fn is_within_node(plan: &Plan) -> bool {
    plan.schedule.order == Order::Program
}

/// Returns an execution of the plan for this operation, bound to its memory and ready to start.
fn prepare(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
    means: Means,
) -> Run {
    prepare_as(held, process, comm, operation, means, None)
}

/// Prepares an operation as [`prepare`] does. The algorithm is `tuned` if tuning has chosen one.
fn prepare_as(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
    means: Means,
    tuned: Option<&Choice>,
) -> Run {
    let shape = operation.shape(comm);
    let several = comm.collectives.node.numbers(process, comm).is_some();
    let lacks_banks = several && !comm.collectives.node.is_settled(held)
        || tuned.is_none() && first::is_among_them(held, process, comm);
    let means = if comm.inter().is_some() || lacks_banks { Means::Messages } else { means };
    let mut state = comm.collectives.state.borrow_mut(held);
    let generation = state.generation;
    // The set of idle executions depends on what has ended here so far. Only an execution planned under the
    // same conditions is the one that the other members use.
    let fits = |run: &Run| {
        let plan = run.execution.plan();
        let chosen = tuned.map_or(!run.tuned, |choice| run.tuned && plan.choice.is_same(choice));
        run.means == means && plan.shape == shape && chosen && run.generation == generation
    };
    let found = state.rest.iter_mut().find(|place| place.as_ref().is_some_and(fits));
    let mut run = match found.and_then(Option::take) {
        Some(run) => run,
        None => {
            drop(state);
            prepared(held, process, comm, &shape, (means, generation), tuned)
        }
    };
    // An execution may have been made for the library's own use first.
    if !run.is_explained && tuned.is_none() && !operation.is_internal() {
        run.is_explained = true;
        explain(process, comm, &run.execution.plan().choice);
    }
    operation.bind(run.execution.bindings(), comm);
    run.execution.start();
    // The key of a call does not contain the other group's arguments. An operation that goes by messages
    // now may go by banks the next time.
    let has_all = comm.inter().is_none() && means == Means::All;
    run.words = operation.words().filter(|_| has_all && !run.counts);
    let (lists, given) = operation.lists();
    run.lists.clear();
    run.lists.extend_from_slice(lists);
    run.given = Given(given);
    run
}

/// Makes an execution of a new plan.
fn prepared(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    (means, generation): (Means, u32),
    tuned: Option<&Choice>,
) -> Run {
    let plan = Arc::new(match tuned {
        Some(choice) => Plan::chosen(shape, choice.clone(), None),
        None => plan(held, process, comm, shape, means),
    });
    if tuned.is_none() && means == Means::All {
        multicast::note(held, process, comm, shape, &plan.choice);
    }
    let room = room_of(held, process, comm, &plan);
    // Members have other numbers in the banks, which compiled code does not know. An operation without
    // steps needs no numbers.
    let several = comm.collectives.node.numbers(process, comm).is_some();
    let has_other_numbers = several && !plan.schedule.steps.is_empty();
    let execution =
        if has_other_numbers || trace::is_on() { Execution::stepwise(plan) } else { Execution::new(plan) };
    Box::new(Prepared {
        execution,
        means,
        said: tuned.map_or_else(
            || agreement::said(shape),
            |choice| agreement::said_by(shape, failures::mixed(choice)),
        ),
        signature: tuned.map_or_else(
            || failures::signature_of(shape, comm),
            |choice| failures::signature_by(shape, comm, choice),
        ),
        room,
        counts: multicast::concern(held, process, comm, shape).is_some(),
        generation,
        tuned: tuned.is_some(),
        is_explained: false,
        manner: ProgressMode::Plain,
        words: None,
        lists: Vec::new(),
        given: Given([null_mut(); 2]),
    })
}

/// Returns the space that a plan needs in the banks of the communicator; `None` for a plan that is not
/// confined to one host.
fn room_of(held: &LaneGuard, process: &Process, comm: &Communicator, plan: &Plan) -> Option<SlotNeeds> {
    let room = is_within_node(plan).then(|| SlotNeeds::of(process.near_bytes, plan))?;
    Some(comm.collectives.node.banks(held).map_or(room, |banks| room.within(&banks)))
}

/// Keeps an execution in the cache of its communicator.
#[inline]
fn rest(held: &LaneGuard, comm: &Communicator, run: Run) {
    comm.collectives.state.borrow_mut(held).keep(run);
}

/// Returns the environment in which algorithms for a shape are selected, and the owner of its layout.
fn surroundings(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    means: Means,
) -> (Environment, Whose) {
    let header = process.job.header();
    let offer = match (means, comm.collectives.channel) {
        (Means::All, Channel::Own) => comm.collectives.node.of_communicator(held, process, comm),
        _ => HostOffer::Messages,
    };
    let model = places::model(process);
    let near = near(process, comm).filter(|_| comm.inter().is_none());
    let whose = match near {
        _ if places::is_mixed(process, comm) => Whose::Several,
        Some(_) => Whose::Communicator,
        None => Whose::Job,
    };
    let several = near.as_ref().filter(|layout| layout.hosts() > 1);
    let neighbours = several.map_or(shape.ranks, |layout| layout.ranks_on_host());
    let surroundings = match near {
        _ if whose == Whose::Several => places::mixed(shape.ranks, Arc::default()),
        Some(layout) if layout.hosts() > 1 => Environment::on_hosts(layout, model),
        near => {
            let flat = Environment::in_job(shape.ranks, header.local_ranks, header.processors, model);
            Environment { layout: near.unwrap_or_else(|| flat.layout.clone()), ..flat }
        }
    };
    let environment = Environment {
        node: offer.node(),
        bank_bytes: header.banks.large_bytes_for(neighbours),
        deterministic: process.config.collectives.deterministic,
        reach: offer.reach(),
        multicast: multicast::may_carry(held, process, comm, shape.collective),
        ..surroundings
    };
    (environment, whose)
}

/// Returns the key of an operation's alternatives on this communicator, and the environment in which they
/// are generated.
fn kind_of(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    form: CallForm,
) -> (KindOfCall, Environment) {
    let (environment, whose) = surroundings(held, process, comm, shape, Means::All);
    let in_kernel = form == CallForm::Blocking && offloaded::is_candidate(held, comm, shape);
    let key = UnitKey::new(shape, form);
    (KindOfCall::new(key, shape.ranks, (&environment, whose), in_kernel), environment)
}

/// Returns the alternatives that tuning may choose for an operation, the default first. They are equal at
/// all members.
fn alternatives(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    form: CallForm,
) -> Arc<[Proposal]> {
    let (kind, environment) = kind_of(held, process, comm, shape, form);
    if let Some(known) = process.library.repertoire.borrow(held).alternatives(&kind) {
        return known;
    }
    let begun_ns = clock::now_ns();
    let default = plan(held, process, comm, shape, Means::All).choice;
    let any_bits = process.config.collectives.tune_any_order && !process.config.collectives.deterministic;
    let found = isolated(|| {
        let found = tune::alternatives(shape, &environment, &default, form, any_bits);
        if kind.in_kernel { tune::beside_kernel(found) } else { found }
    });
    process.library.ledger.borrow_mut(held).found(clock::now_ns().saturating_sub(begun_ns));
    process.library.repertoire.borrow_mut(held).keep(kind, found)
}

/// Returns the layout of the members that keys of tuning results name, and whether it is the communicator's
/// or the job's. Creates no resources of the communicator.
fn layout_of(process: &Process, comm: &Communicator) -> (Arc<simulate::Layout>, Whose) {
    if let Some(layout) = near(process, comm) {
        return (layout, Whose::Communicator);
    }
    let header = process.job.header();
    let model = places::model(process);
    let flat = Environment::in_job(comm.size(), header.local_ranks, header.processors, model);
    (flat.layout, Whose::Job)
}

/// Returns the best algorithm of earlier runs for an operation at a place, if there is one. It is equal at
/// all members.
fn known_before(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    place: CyclePlace,
) -> Option<Best> {
    // Different jobs have different result files.
    if !learnings::are_there(&process.job) || places::is_mixed(process, comm) {
        return None;
    }
    let (layout, whose) = layout_of(process, comm);
    let unit = (place, comm.size(), whose.address(&layout));
    let found = process.library.repertoire.borrow(held).label(&unit);
    let label = found.unwrap_or_else(|| {
        let key = tune::learned::key(learnings::program(&process.job), place, &layout);
        let label = learnings::earlier(&process.job).get(&key).map(String::as_str);
        process.library.repertoire.borrow_mut(held).note(unit, layout, label);
        label
    })?;
    let proposals = alternatives(held, process, comm, shape, place.key.form);
    let number = proposals.iter().position(|proposal| proposal.label() == label)?;
    Some(Best { proposals, number })
}

/// Makes the plan of an operation under the communicator's hints.
fn plan(held: &LaneGuard, process: &Process, comm: &Communicator, shape: &Shape, means: Means) -> Plan {
    let wishes = comm.collectives.state.borrow(held).wishes.clone();
    plan_as(held, process, comm, shape, means, &wishes)
}

/// Makes the plan of an operation under the given hints.
fn plan_as(
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    shape: &Shape,
    means: Means,
    wishes: &Wishes,
) -> Plan {
    let (environment, whose) = surroundings(held, process, comm, shape, means);
    let forced = wishes.algorithm_of(&process.config, shape.collective.name());
    let neighbours = shape.collective.is_of_neighbours().then(|| Arc::new(comm.neighbours()));
    TRAFFIC.choices.add(1);
    // Ranks differ in their number of neighbours, so the choice of one rank is useless to others.
    let banks = neighbours.is_none().then(|| comm.collectives.node.banks(held)).flatten();
    let found = banks.as_ref().map(|banks| banks.found());
    let mut choices = process.library.choices.borrow_mut(held);
    let plan = isolated(|| choices.plan(shape, &environment, whose, forced, found, neighbours.as_ref()));
    drop(choices);
    let generator = plan.choice.generator;
    let bytes = shape.bytes();
    events::algorithm_chosen(shape.collective, generator.name, comm.size(), comm.context().0, bytes);
    plan
}

/// Prints the reason for a choice, if the user asks for that.
fn explain(process: &Process, comm: &Communicator, choice: &Choice) {
    let wanted = process.config.collectives.explain;
    if wanted.is_on() && comm.rank().0 == 0 {
        eprintln!("Tutti: {}", isolated(|| choice.reason().text(wanted.is_all())));
    }
}

/// Returns the text for a user who asks where this rank waits.
fn waiting_for(collective: Collective, root: u32, comm: &Communicator) -> String {
    let root = root_of(collective, root);
    hang::note_collective(comm, collective, root);
    let root = root.map_or(String::new(), |root| format!(" with root {root}"));
    format!("{collective}{root} in {}", name_of_context(comm.context().0))
}

/// Returns the root of an operation, if it has one.
fn root_of(collective: Collective, root: u32) -> Option<u32> {
    (collective.rooted() && root != Shape::NOBODY).then_some(root)
}
