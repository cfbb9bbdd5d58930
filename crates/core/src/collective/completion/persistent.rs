//! Persistent operations, kept to be started again (MPI-5 section 6.13). They use one algorithm, or, where
//! they are tuned, one of several that are tried one after the other.
//!
//! Starts of a persistent operation need not follow those of other operations. So each one has a number and
//! banks of its own, and is a unit of tuning of its own: the n-th start is the same on all members.
//! Measurements of the members are exchanged under another number of this kind. A start that must wait for
//! the exchange returns at once, and the operation begins when the exchange is complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tutti_base::config::Tune;
use tutti_base::{Error, ErrorClass, Result};
use tutti_coll::select::Choice;
use tutti_coll::tune::cycle::CyclePlace;
use tutti_coll::tune::{CallForm, Proposal, Rules, UnitKey};
use tutti_sys::clock;

use crate::collective::completion::nonblocking::{Attempt, launch_kept, start_looks, work_of};
use crate::collective::completion::{failures, settle_offers, tuned};
use crate::collective::context::{CommContext, WaitContext};
use crate::collective::execution::fast_path;
use crate::collective::execution::port::CommPort;
use crate::collective::plan::{
    alternatives, explain, is_within_node, make_plan, prepare, return_to_cache, slot_needs,
};
use crate::collective::route::{self, Form, Route, kernel};
use crate::communicator::Communicator;
use crate::communicator::collectives::agreement::{self as of_banks, OperationAgreement};
use crate::communicator::collectives::call::Call;
use crate::communicator::collectives::collected::Maxima;
use crate::communicator::collectives::hints::CollectiveHints;
use crate::communicator::collectives::node::Neighbourhood;
use crate::communicator::collectives::repertoire::Best;
use crate::communicator::collectives::under_way::Kept;
use crate::communicator::collectives::unit::{News, Says, Unit, UnitAnswer};
use crate::communicator::collectives::{AllowedPaths, BufferAddresses, CachedExecution, Ticket};
use crate::completion;
use crate::engine::ExecutionStatus;
use crate::inside;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::messenger::{Activity, Messenger};
use crate::p2p::agreement::{LANE_BITS, PERSISTENT};
use crate::process::{Process, started};
use crate::request::{Persistent, Request, RequestId, Restart, Restarted, Status as RequestStatus, Template};

/// Maximum number of algorithms that are tried for one operation; each of them has banks.
const MOST_TRIED: usize = 6;
/// Approximate time to make that many, in nanoseconds.
const SEVERAL_NS: u64 = 1_000_000;

/// Makes an operation that MPI_Start starts, with the given hints; missing hints are those of the
/// communicator. Members on several hosts agree on whether each host has banks for it, so the call is not
/// local (MPI-5 section 6.13).
///
/// # Errors
/// Returns the error of a message of that agreement.
pub fn persistent(cx: &mut WaitContext<'_>, call: &Call<'_>, hints: &CollectiveHints) -> Result<RequestId> {
    settle_offers(cx)?;
    if let Some(kept) = kernel::persistent(cx, call)? {
        return Ok(insert(cx.shared(), kept));
    }
    let hints = hints.or(&cx.comm.collectives.state.borrow(cx.lane).hints);
    let shape = call.shape();
    if let Route::Tuned = route::decide(cx.shared(), call, Form::Persistent(&hints)) {
        let key = UnitKey::new(shape, CallForm::Persistent);
        let occurrence = cx.comm.collectives.deferred.borrow_mut(cx.lane).count_made(key);
        let place = CyclePlace { key, occurrence };
        let news = tuned::news(cx.shared(), shape, place);
        if let Some(proposal) = news.known.as_ref().and_then(Best::proposal) {
            let kept = Kept::make(cx, call, Some(&proposal.choice))?;
            return Ok(insert(cx.shared(), Arc::new(kept)));
        }
        if hints.tune_of(&cx.process.config) == Tune::On && news.known.is_none() && is_affordable(cx)? {
            return try_several(cx, call, place, news);
        }
    }
    let chosen = hints != cx.comm.collectives.state.borrow(cx.lane).hints;
    let plan = chosen.then(|| make_plan(cx.shared(), shape, None, &hints));
    if let Some(plan) = &plan {
        explain(cx.shared(), &plan.choice, None);
    }
    let kept = Kept::make(cx, call, plan.as_ref().map(|plan| &plan.choice))?;
    Ok(insert(cx.shared(), Arc::new(kept)))
}

/// Returns true if all members can afford to make an operation with several algorithms, most of which will
/// not be needed.
fn is_affordable(cx: &mut WaitContext<'_>) -> Result<bool> {
    let percent = cx.process.config.collectives.tune_budget;
    let refuses = !cx.process.library.ledger.borrow(cx.lane).affords(SEVERAL_NS, percent);
    Ok(cx.maximum(u64::from(refuses))? == 0)
}

/// Makes an operation as [`persistent`] does, once with each of several algorithms.
fn try_several(
    cx: &mut WaitContext<'_>,
    call: &Call<'_>,
    place: CyclePlace,
    news: News,
) -> Result<RequestId> {
    let begun_ns = clock::now_ns();
    let proposals = alternatives(cx.shared(), call.shape(), CallForm::Persistent);
    let kept = proposals.iter().take(MOST_TRIED).enumerate().map(|(number, proposal)| {
        let choice = (number > 0).then_some(&proposal.choice);
        Kept::make(cx, call, choice).map(|kept| Some(Arc::new(kept)))
    });
    let kept = kept.collect::<Result<Vec<_>>>()?;
    let spent_ns = clock::now_ns().saturating_sub(begun_ns);
    cx.process.library.ledger.borrow_mut(cx.lane).lose(spent_ns.cast_signed());
    let signature = kept[0].as_ref().map_or(0, |kept| kept.made.1);
    let number = cx.take_number(signature)?;
    let proposals = proposals.iter().take(kept.len()).cloned().collect();
    // Undecided results are not stored, so there is nothing to return to.
    let rules = Rules { guards: false, ..news.rules };
    let unit = Unit::new(place, News { rules, ..news });
    let tried = Tried { unit, proposals, place, kept, words: None };
    let tag = PERSISTENT | (number << LANE_BITS) as i32;
    let tuned = Tuned { tried: FirstLaneCell::new(tried), comm: Arc::clone(cx.comm), tag };
    Ok(insert(cx.shared(), Arc::new(tuned)))
}

/// Creates the inactive request of a persistent operation.
fn insert(cx: CommContext<'_>, operation: Arc<dyn Restart>) -> RequestId {
    let request = Request {
        persistent: Some(Box::new(Persistent {
            active: false,
            template: Template::Collective(Some(operation)),
            keeps: None,
        })),
        ..Request::completed(RequestStatus::EMPTY, cx.comm.context().0)
    };
    cx.process.messages.borrow_mut(cx.lane).state.insert(request)
}

/// Starts by MPI_Start. Only [`Kept::begin`] may run the user's code (operators), for which it needs the
/// process.
impl Restart for Kept {
    fn restart(self: Arc<Self>, held: &LaneGuard, request: RequestId) -> Restarted {
        let process = started();
        match self.begin(held, process) {
            Err(refusal) => Restarted::Refused(self, refusal),
            Ok(Attempt::Over(result)) => Restarted::Over(self, result.err()),
            Ok(Attempt::Waits(cached, ticket)) => {
                let operation: Arc<dyn Restart> = Arc::<Kept>::clone(&self);
                process.messages.borrow_mut(held).state.requests.under_way(
                    request,
                    operation,
                    work_of(&cached),
                );
                {
                    let comm = Arc::clone(&self.comm);
                    launch_kept(CommContext::new(held, process, &comm), request, self, (cached, ticket))
                };
                Restarted::UnderWay
            }
        }
    }

    #[inline]
    fn fast_path(&self, held: &LaneGuard) -> bool {
        if !self.has_fast_path {
            return false;
        }
        let mut place = self.cached.borrow_mut(held);
        let cached = place.as_mut().expect("an inactive operation is at rest");
        cached.execution.start_again();
        let mut banks = self.banks.as_ref().and_then(|node| node.banks(held));
        let banks = banks.as_mut().expect("it has banks");
        let ticket = fast_path(self.tag, self.next(), banks, cached, start_looks(started()));
        ticket.is_none_or(|ticket| {
            *self.begun.borrow_mut(held) = Some(ticket);
            false
        })
    }

    fn retire(self: Arc<Self>, held: &LaneGuard) {
        // An operation that is active keeps itself alive. Its number is then not used again.
        let Some(Kept { cached, comm, tag, banks, begun, failed, .. }) = Arc::into_inner(self) else {
            return;
        };
        comm.collectives.forget_persistent(held, tag);
        let is_whole = !failed.into_inner() && begun.into_inner().is_none();
        if let Some(mut cached) = cached.into_inner().filter(|_| is_whole) {
            cached.room = slot_needs(CommContext::new(held, started(), &comm), cached.execution.plan());
            return_to_cache(CommContext::new(held, started(), &comm), cached);
        }
        if let Some(banks) = banks {
            banks.put_on_shelf(held, &comm, is_whole);
        }
    }
}

impl Kept {
    /// Makes an operation with the given choice of algorithm, or the default. All members must call this
    /// together.
    fn make(cx: &mut WaitContext<'_>, call: &Call<'_>, choice: Option<&Choice>) -> Result<Kept> {
        let mut cached = prepare(cx.shared(), call, AllowedPaths::All, choice);
        let making = failures::signature_of_making(call.collective());
        let made = (cx.comm.collectives.next_tag_of(cx.lane, making), making);
        if let Some(banks) = cx.comm.collectives.node.banks(cx.lane) {
            of_banks::note_making(&banks, made.0 as u32 >> LANE_BITS, &cached.bank_signature);
        }
        let number = cx.take_number(cached.signature)?;
        let compile = |cached: &mut CachedExecution| {
            let BufferAddresses(bases) = cached.bases;
            let _ = !cached.lists.is_empty() && cached.execution.compile(bases);
        };
        compile(&mut cached);
        let is_within = is_within_node(cached.execution.plan());
        let plan = Some(cached.execution.plan()).filter(|_| is_within);
        let mut banks = plan.and_then(|plan| {
            Neighbourhood::of_persistent(cx.lane, cx.process, cx.comm, cached.signature, plan)
        });
        // Needed for every plan: members that make a different operation must not wait here for members
        // without an agreement.
        let several =
            cx.comm.inter().is_none() && cx.comm.collectives.node.numbers(cx.process, cx.comm).is_some();
        if several && cx.maximum(u64::from(banks.is_none()))? > 0 {
            banks = None;
        }
        if is_within && banks.is_none() {
            cached = prepare(cx.shared(), call, AllowedPaths::Messages, None);
            compile(&mut cached);
        }
        let own = banks.as_ref().and_then(|node| node.banks(cx.lane));
        cached.room = cached.room.map(|room| own.as_ref().map_or(room, |banks| room.within(banks)));
        // Members that used these banks for an earlier operation have counted its starts.
        let starts = own.as_ref().map_or(0, |banks| banks.left()) as u32;
        let starts = starts.wrapping_sub(cx.process.config.diagnosis.wrap_after as u32);
        drop(own);
        let tag = PERSISTENT | (number << LANE_BITS) as i32;
        let has_fast_path =
            banks.is_some() && cached.execution.is_compiled() && !cached.execution.calls_user();
        Ok(Kept {
            has_fast_path,
            begun: FirstLaneCell::new(None),
            cached: FirstLaneCell::new(Some(cached)),
            comm: Arc::clone(cx.comm),
            tag,
            made,
            banks,
            starts: AtomicU32::new(starts),
            failed: AtomicBool::new(false),
        })
    }

    /// Starts the operation, and runs it to its end if nothing blocks it.
    ///
    /// # Errors
    /// Returns an error if the operation has failed before.
    fn begin(&self, held: &LaneGuard, process: &Process) -> Result<Attempt> {
        if self.failed.load(Ordering::Relaxed) {
            let reason = "this persistent operation has failed before; free it and make another";
            return Err(Error::new(ErrorClass::Other, reason));
        }
        Ok(match self.attempt(held, process) {
            Attempt::Waits(cached, mut ticket) => {
                ticket.patience.made = Some(self.made);
                Attempt::Waits(cached, ticket)
            }
            over => over,
        })
    }

    /// Returns the number of the next start. The caller holds the execution, so no other thread does this
    /// now.
    #[inline]
    fn next(&self) -> u32 {
        let number = self.starts.load(Ordering::Relaxed);
        self.starts.store(number.wrapping_add(1), Ordering::Relaxed);
        number
    }

    /// Begins the operation, or continues what [`Restart::fast_path`] has begun. Runs it to its end if
    /// nothing blocks it.
    #[inline]
    fn attempt(&self, held: &LaneGuard, process: &Process) -> Attempt {
        let mut place = self.cached.borrow_mut(held);
        let cached = place.as_mut().expect("an inactive operation is at rest");
        let begun = self.begun.borrow_mut(held).take();
        if begun.is_none() {
            cached.execution.start_again();
        }
        let mut banks = self.banks.as_ref().and_then(|node| node.banks(held));
        let mut ticket = match (begun, &mut banks) {
            (Some(ticket), _) => ticket,
            // All its starts are within the node, and get their slots in order.
            (None, Some(banks)) => {
                match fast_path(self.tag, self.next(), banks, cached, start_looks(process)) {
                    Some(ticket) => ticket,
                    None => return Attempt::Over(Ok(())),
                }
            }
            (None, None) => Ticket::new(self.tag, None, OperationAgreement::UNKNOWN, cached.signature),
        };
        if ticket.turn.is_some() && !ticket.agreement.is_lost() {
            let looks = if cached.execution.is_compiled() { 0 } else { start_looks(process) };
            let port =
                CommPort::new(CommContext::new(held, process, &self.comm), &mut ticket, banks.as_deref_mut());
            let mut port = port.looking(looks);
            match cached.execution.progress(&mut port) {
                Ok(ExecutionStatus::Pending) => {}
                Ok(ExecutionStatus::Done) => return Attempt::Over(Ok(())),
                Err(error) => {
                    failures::report_failure(&port, &error);
                    return Attempt::Over(Err(error));
                }
            }
        }
        Attempt::Waits(place.take().expect("it was just there"), ticket)
    }
}

/// A persistent operation with several algorithms under trial.
#[derive(Debug)]
struct Tuned {
    tried: FirstLaneCell<Tried>,
    comm: Arc<Communicator>,
    /// Tag of the messages with which members exchange measurements.
    tag: i32,
}

/// Changing part of a `Tuned` operation.
#[derive(Debug)]
struct Tried {
    /// Unit of tuning that selects the algorithm of each start.
    unit: Unit,
    /// Algorithms under trial; the first is the default.
    proposals: Arc<[Proposal]>,
    /// Position among equal persistent operations, which identifies the unit.
    place: CyclePlace,
    /// The operation with each alternative; only the best remains once it is known.
    kept: Vec<Option<Arc<Kept>>>,
    /// Measurements that were sent and whose maxima have not arrived yet.
    words: Option<Maxima>,
}

impl Restart for Tuned {
    fn restart(self: Arc<Self>, held: &LaneGuard, request: RequestId) -> Restarted {
        let process = started();
        let _inside = inside::measure();
        let reading = inside::reading();
        let operation: Arc<dyn Restart> = Arc::<Tuned>::clone(&self);
        let Some(kept) = self.next(held, process, reading) else {
            let work = crate::request::Work::Other;
            process.messages.borrow_mut(held).state.requests.under_way(request, operation, work);
            process.add_activity(held, Box::new(Late { tuned: self, request, reading }));
            return Restarted::UnderWay;
        };
        match kept.begin(held, process) {
            Err(refusal) => Restarted::Refused(operation, refusal),
            Ok(Attempt::Over(result)) => Restarted::Over(operation, result.err()),
            Ok(Attempt::Waits(cached, ticket)) => {
                process.messages.borrow_mut(held).state.requests.under_way(
                    request,
                    operation,
                    work_of(&cached),
                );
                {
                    let comm = Arc::clone(&kept.comm);
                    launch_kept(CommContext::new(held, process, &comm), request, kept, (cached, ticket))
                };
                Restarted::UnderWay
            }
        }
    }

    #[inline]
    fn fast_path(&self, held: &LaneGuard) -> bool {
        let tried = self.tried.borrow_mut(held);
        let best = tried.unit.decision().filter(|_| tried.words.is_none());
        let kept = best.and_then(|best| tried.kept[best].as_ref()).cloned();
        drop(tried);
        kept.is_some_and(|kept| kept.fast_path(held))
    }

    fn retire(self: Arc<Self>, held: &LaneGuard) {
        let Some(Tuned { tried, comm, tag }) = Arc::into_inner(self) else { return };
        comm.collectives.forget_persistent(held, tag);
        tried.into_inner().kept.into_iter().flatten().for_each(|kept| kept.retire(held));
    }
}

impl Tuned {
    /// Returns the operation for the start called at `reading`; `None` if it has to wait for the exchange
    /// of measurements.
    fn next(&self, held: &LaneGuard, process: &Process, reading: inside::Reading) -> Option<Arc<Kept>> {
        let mut tried = self.tried.borrow_mut(held);
        let Tried { unit, proposals, place, kept, words } = &mut *tried;
        let is_over =
            |maxima: &Maxima| completion::is_complete(held, process, maxima.request).unwrap_or(true);
        if let Some(maxima) = words.take_if(|maxima| is_over(maxima)) {
            match maxima.finish(held, process) {
                Ok(words) => unit.heard(&words),
                Err(_) => unit.give_up(),
            }
        }
        let says = loop {
            let learnings = process.library.learnings.borrow(held);
            match unit.turn(*place, reading, &learnings, &mut process.library.ledger.borrow_mut(held)) {
                UnitAnswer::Says(says) => break says,
                UnitAnswer::Wait => return None,
                // A unit requests proposals only once.
                UnitAnswer::Provide => unit.provide(Arc::clone(proposals)),
            }
        };
        let Says { best, words: contributed, decided, .. } = says;
        let number = best.map_or(0, |best| best.number);
        if let Some(decided) = decided {
            tuned::report_decision(CommContext::new(held, process, &self.comm), decided);
        }
        let chosen = kept[number].clone();
        if unit.decision().is_some() {
            let others = kept.iter_mut().enumerate().filter(|(other, _)| *other != number);
            others.filter_map(|(_, kept)| kept.take()).for_each(|kept| kept.retire(held));
        }
        if let Some(contributed) = contributed {
            *words = Some(CommContext::new(held, process, &self.comm).start_maxima(self.tag, &contributed));
        }
        chosen
    }
}

/// A start that waits for the measurements of all members.
#[derive(Debug)]
struct Late {
    /// Operation whose start has to wait.
    tuned: Arc<Tuned>,
    request: RequestId,
    /// Time of the call of MPI_Start.
    reading: inside::Reading,
}

impl Activity for Late {
    fn advance(self: Box<Self>, held: &LaneGuard, _: &Messenger, _: bool) -> Option<Box<dyn Activity>> {
        let process = started();
        let Late { tuned, request, reading } = &*self;
        let Some(kept) = tuned.next(held, process, *reading) else { return Some(self) };
        let result = match kept.begin(held, process) {
            Err(refusal) => Err(refusal),
            Ok(Attempt::Over(result)) => result,
            Ok(Attempt::Waits(cached, ticket)) => {
                {
                    let comm = Arc::clone(&kept.comm);
                    launch_kept(CommContext::new(held, process, &comm), *request, kept, (cached, ticket))
                };
                return None;
            }
        };
        process.messages.borrow_mut(held).state.requests.complete(*request, result.err());
        None
    }
}
