//! Plans of calls: choice of the algorithm, its schedule, and the cache of executions.
//!
//! [`prepare`] returns an execution for a call. If an idle one with an equal plan is cached, it is bound to
//! the new memory; selecting, generating and allocating happen once for each kind of call. Tuning passes an
//! algorithm of its own ([`alternatives`] lists those that it may choose); otherwise the model selects one
//! ([`make_plan`]).

use std::ptr::null_mut;
use std::sync::Arc;

use tutti_base::traffic::TRAFFIC;
use tutti_coll::ir::Order;
use tutti_coll::select::Choice;
use tutti_coll::simulate;
use tutti_coll::tune::cycle::CyclePlace;
use tutti_coll::tune::{self, CallForm, ProgressMode, Proposal, UnitKey};
use tutti_coll::{Environment, Plan, Shape};
use tutti_sys::clock;
use tutti_sys::floating_point::isolated;

use super::context::{CommContext, member_layout};
use super::route::{MessagesOnly, kernel, messages_only, multicast};
use super::signature::{hash_of_choice, message_signature, message_signature_by};
use crate::communicator::Communicator;
use crate::communicator::collectives::call::Call;
use crate::communicator::collectives::choices::Whose;
use crate::communicator::collectives::hints::CollectiveHints;
use crate::communicator::collectives::node::HostOffer;
use crate::communicator::collectives::repertoire::{Best, KindOfCall};
use crate::communicator::collectives::turn::SlotNeeds;
use crate::communicator::collectives::{
    AllowedPaths, BufferAddresses, CachedExecution, Channel, agreement, learnings, places,
};
use crate::engine::Execution;
use crate::events;
use crate::process::Process;
use crate::trace;

/// Returns an execution for a call, bound to its memory and ready to start: an idle one of the same plan, or
/// a new one. The algorithm is `tuned` if tuning has chosen one, otherwise the model selects it.
pub(super) fn prepare(
    cx: CommContext<'_>,
    call: &Call<'_>,
    requested: AllowedPaths,
    tuned: Option<&Choice>,
) -> Box<CachedExecution> {
    let shape = call.shape();
    let why = messages_only(cx, requested, tuned.is_some());
    let paths = if why.is_some() { AllowedPaths::Messages } else { AllowedPaths::All };
    let mut state = cx.comm.collectives.state.borrow_mut(cx.lane);
    let generation = state.generation;
    // The set of idle executions depends on what has ended here so far. Only an execution planned under the
    // same conditions is the one that the other members use.
    let fits = |cached: &CachedExecution| {
        let plan = cached.execution.plan();
        let chosen = tuned.map_or(!cached.tuned, |choice| cached.tuned && plan.choice.is_same(choice));
        cached.paths == paths && plan.shape == *shape && chosen && cached.generation == generation
    };
    let found = state.idle_executions.iter_mut().find(|slot| slot.as_deref().is_some_and(fits));
    let mut cached = match found.and_then(Option::take) {
        Some(cached) => cached,
        None => {
            drop(state);
            make_execution(cx, shape, (paths, why), generation, tuned)
        }
    };
    // An execution may have been made for the library's own use first.
    if !cached.is_explained && tuned.is_none() && !call.is_internal() {
        cached.is_explained = true;
        explain(cx, &cached.execution.plan().choice, why);
    }
    call.bind(cached.execution.bindings(), cx.comm);
    cached.execution.start();
    // The key of a call does not contain the other group's arguments. An operation that goes by messages
    // now may go by banks the next time.
    let has_all = cx.comm.inter().is_none() && paths == AllowedPaths::All;
    cached.key = call.key().filter(|_| has_all && !cached.counts);
    let (lists, bases) = call.lists();
    cached.lists.clear();
    cached.lists.extend_from_slice(lists);
    cached.bases = BufferAddresses(bases);
    cached
}

/// Makes an execution of a new plan.
fn make_execution(
    cx: CommContext<'_>,
    shape: &Shape,
    (paths, why): (AllowedPaths, Option<MessagesOnly>),
    generation: u32,
    tuned: Option<&Choice>,
) -> Box<CachedExecution> {
    let plan = Arc::new(match tuned {
        Some(choice) => Plan::chosen(shape, choice.clone(), None),
        None => make_plan(cx, shape, why, &hints_of(cx)),
    });
    if tuned.is_none() && paths == AllowedPaths::All {
        multicast::note(cx, shape, &plan.choice);
    }
    let room = slot_needs(cx, &plan);
    // Members have other numbers in the banks, which compiled code does not know. An operation without
    // steps needs no numbers.
    let several = cx.comm.collectives.node.numbers(cx.process, cx.comm).is_some();
    let has_other_numbers = several && !plan.schedule.steps.is_empty();
    let execution =
        if has_other_numbers || trace::is_on() { Execution::stepwise(plan) } else { Execution::new(plan) };
    let (bank_signature, signature) = match tuned {
        None => (agreement::bank_signature(shape), message_signature(shape, cx.comm)),
        Some(choice) => (
            agreement::bank_signature_by(shape, hash_of_choice(choice)),
            message_signature_by(shape, cx.comm, choice),
        ),
    };
    Box::new(CachedExecution {
        execution,
        paths,
        bank_signature,
        signature,
        room,
        counts: multicast::concern(cx, shape).is_some(),
        generation,
        tuned: tuned.is_some(),
        is_explained: false,
        manner: ProgressMode::Plain,
        key: None,
        lists: Vec::new(),
        bases: BufferAddresses([null_mut(); 2]),
    })
}

/// Returns the space that a plan needs in the banks of the communicator; `None` for a plan that is not
/// confined to one host.
pub(super) fn slot_needs(cx: CommContext<'_>, plan: &Plan) -> Option<SlotNeeds> {
    let room = is_within_node(plan).then(|| SlotNeeds::of(cx.process.near_bytes, plan))?;
    Some(cx.comm.collectives.node.banks(cx.lane).map_or(room, |banks| room.within(&banks)))
}

/// Keeps an execution in the cache of its communicator.
#[inline]
pub(super) fn return_to_cache(cx: CommContext<'_>, cached: Box<CachedExecution>) {
    cx.comm.collectives.state.borrow_mut(cx.lane).keep(cached);
}

/// Returns the environment in which algorithms for a shape are selected, and the owner of its layout.
fn environment_of(cx: CommContext<'_>, shape: &Shape, paths: AllowedPaths) -> (Environment, Whose) {
    let header = cx.process.job.header();
    let offer = match (paths, cx.comm.collectives.channel) {
        (AllowedPaths::All, Channel::Own) => {
            cx.comm.collectives.node.of_communicator(cx.lane, cx.process, cx.comm)
        }
        _ => HostOffer::Messages,
    };
    let model = places::model(cx.process);
    let near = member_layout(cx.process, cx.comm).filter(|_| cx.comm.inter().is_none());
    let whose = match near {
        _ if places::is_mixed(cx.process, cx.comm) => Whose::Several,
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
        deterministic: cx.process.config.collectives.deterministic,
        reach: offer.reach(),
        multicast: multicast::may_carry(cx, shape.collective),
        ..surroundings
    };
    (environment, whose)
}

/// Returns the key of an operation's alternatives on this communicator, and the environment in which they
/// are generated.
fn kind_of_call(cx: CommContext<'_>, shape: &Shape, form: CallForm) -> (KindOfCall, Environment) {
    let (environment, whose) = environment_of(cx, shape, AllowedPaths::All);
    let in_kernel = form == CallForm::Blocking && kernel::is_candidate(cx, shape);
    let key = UnitKey::new(shape, form);
    (KindOfCall::new(key, shape.ranks, (&environment, whose), in_kernel), environment)
}

/// Returns the alternatives that tuning may choose for an operation, the default first. They are equal at
/// all members.
pub(super) fn alternatives(cx: CommContext<'_>, shape: &Shape, form: CallForm) -> Arc<[Proposal]> {
    let (kind, environment) = kind_of_call(cx, shape, form);
    if let Some(known) = cx.process.library.repertoire.borrow(cx.lane).alternatives(&kind) {
        return known;
    }
    let begun_ns = clock::now_ns();
    let default = make_plan(cx, shape, None, &hints_of(cx)).choice;
    let any_bits =
        cx.process.config.collectives.tune_any_order && !cx.process.config.collectives.deterministic;
    let found = isolated(|| {
        let found = tune::alternatives(shape, &environment, &default, form, any_bits);
        if kind.in_kernel { tune::beside_kernel(found) } else { found }
    });
    cx.process.library.ledger.borrow_mut(cx.lane).found(clock::now_ns().saturating_sub(begun_ns));
    cx.process.library.repertoire.borrow_mut(cx.lane).keep(kind, found)
}

/// Returns the layout of the members that keys of tuning results name, and whether it is the communicator's
/// or the job's. Creates no resources of the communicator.
pub(super) fn layout_for_results(process: &Process, comm: &Communicator) -> (Arc<simulate::Layout>, Whose) {
    if let Some(layout) = member_layout(process, comm) {
        return (layout, Whose::Communicator);
    }
    let header = process.job.header();
    let model = places::model(process);
    let flat = Environment::in_job(comm.size(), header.local_ranks, header.processors, model);
    (flat.layout, Whose::Job)
}

/// Returns the best algorithm of earlier runs for an operation at a place, if there is one. It is equal at
/// all members.
pub(super) fn best_of_earlier_runs(cx: CommContext<'_>, shape: &Shape, place: CyclePlace) -> Option<Best> {
    // Different jobs have different result files.
    if !learnings::are_there(&cx.process.job) || places::is_mixed(cx.process, cx.comm) {
        return None;
    }
    let (layout, whose) = layout_for_results(cx.process, cx.comm);
    let unit = (place, cx.comm.size(), whose.address(&layout));
    let found = cx.process.library.repertoire.borrow(cx.lane).label(&unit);
    let label = found.unwrap_or_else(|| {
        let key = tune::learned::key(learnings::program(&cx.process.job), place, &layout);
        let label = learnings::earlier(&cx.process.job).get(&key).map(String::as_str);
        cx.process.library.repertoire.borrow_mut(cx.lane).note(unit, layout, label);
        label
    })?;
    let proposals = alternatives(cx, shape, place.key.form);
    let number = proposals.iter().position(|proposal| proposal.label() == label)?;
    Some(Best { proposals, number })
}

/// Returns the hints of the communicator.
fn hints_of(cx: CommContext<'_>) -> CollectiveHints {
    cx.comm.collectives.state.borrow(cx.lane).hints.clone()
}

/// Makes the plan of an operation under the given hints. `why` is the reason if it must go by messages alone.
pub(super) fn make_plan(
    cx: CommContext<'_>,
    shape: &Shape,
    why: Option<MessagesOnly>,
    hints: &CollectiveHints,
) -> Plan {
    let paths = if why.is_some() { AllowedPaths::Messages } else { AllowedPaths::All };
    let (environment, whose) = environment_of(cx, shape, paths);
    let forced = hints.algorithm_of(&cx.process.config, shape.collective.name());
    let neighbours = shape.collective.is_of_neighbours().then(|| Arc::new(cx.comm.neighbours()));
    TRAFFIC.choices.add(1);
    // Ranks differ in their number of neighbours, so the choice of one rank is useless to others.
    let banks = neighbours.is_none().then(|| cx.comm.collectives.node.banks(cx.lane)).flatten();
    let found = banks.as_ref().map(|banks| banks.found());
    let mut choices = cx.process.library.choices.borrow_mut(cx.lane);
    let plan = isolated(|| choices.plan(shape, &environment, whose, forced, found, neighbours.as_ref()));
    drop(choices);
    let generator = plan.choice.generator;
    let bytes = shape.bytes();
    events::algorithm_chosen(shape.collective, generator.name, cx.comm.size(), cx.comm.context().0, bytes);
    plan
}

/// Prints the reason for a choice, and the reason `why` if the operation goes by messages alone, if the user
/// asks for that.
pub(super) fn explain(cx: CommContext<'_>, choice: &Choice, why: Option<MessagesOnly>) {
    let wanted = cx.process.config.collectives.explain;
    if wanted.is_on() && cx.comm.rank().0 == 0 {
        let reason = isolated(|| choice.reason().text(wanted.is_all()));
        let route = why.map_or(String::new(), |why| format!("\n  It goes by messages alone: {why}."));
        eprintln!("Tutti: {reason}{route}");
    }
}

/// Returns true if a plan is confined to one host: its steps run in the order of the program.
pub(super) fn is_within_node(plan: &Plan) -> bool {
    plan.schedule.order == Order::Program
}
