//! Operations behind a request: non-blocking ones, which progress moves on, and persistent ones, which are kept to be started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tutti_base::{Error, ErrorClass, Result};

use super::accord::Accord;
use super::again::{Attempt, hope};
use super::node::Neighbourhood;
use super::port::{CommPort, Ticket};
use super::{
    Activity, Given, LANE_BITS, Means, Operation, Run, advance, agree, dash, internal, is_within_node,
    prepare, rest, root_of,
};
use crate::communicator::Communicator;
use crate::engine::Status;
use crate::giant::{GiantCell, Held};
use crate::p2p::accord::PERSISTENT;
use crate::process::Process;
use crate::request::{
    Persistent, Request, RequestId, Restart, Restarted, Status as RequestStatus, Template, Work,
};

/// Starts an operation; the request is complete when it is over.
pub fn start(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> RequestId {
    let run = prepare(held, process, comm, operation, Means::All);
    let ticket = comm.collectives.ticket(held, &run);
    start_run(held, process, comm, run, ticket, None)
}

/// As [`start`] under a number taken before, so by messages alone: turns are taken in the order of calls. `memory` is what
/// the operation works on, the library's own.
pub(super) fn start_keeping(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
    tag: i32,
    memory: Arc<internal::Words>,
) -> RequestId {
    let run = prepare(held, process, comm, operation, Means::Messages);
    let ticket = Ticket::new(tag, None, Accord::UNKNOWN, run.signature);
    start_run(held, process, comm, run, ticket, Some(memory))
}

pub(super) fn start_run(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    run: Run,
    ticket: Ticket,
    memory: Option<Arc<internal::Words>>,
) -> RequestId {
    let context = comm.context().0;
    let request = process.messages.borrow_mut(held).state.insert(Request::new(work_of(&run), context));
    launch(
        held,
        process,
        Some(comm),
        Flight { run: Some(run), ticket, request, kept: None, _memory: memory },
    );
    request
}

/// Keeps an operation to be started by MPI_Start. Members on several hosts agree on whether each host has banks for it: the
/// call is not local (MPI-5 section 6.13).
///
/// # Errors
/// What went wrong with a message of that agreement.
pub fn persistent(
    held: &mut Held,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> Result<RequestId> {
    agree(held, process, comm)?;
    let mut run = prepare(held, process, comm, operation, Means::All);
    let number = comm.collectives.next_persistent(held);
    let compile = |run: &mut Run| {
        let Given(given) = run.given;
        let _ = !run.lists.is_empty() && run.execution.compile(given);
    };
    compile(&mut run);
    let mut banks = None;
    if is_within_node(run.execution.plan()) {
        banks = Neighbourhood::of_persistent(process, comm, number, run.execution.plan());
        let several = comm.collectives.node.numbers(process, comm).is_some();
        if several && internal::maximum(held, process, comm, u32::from(banks.is_none()))? > 0 {
            banks = None;
        }
        if banks.is_none() {
            run = prepare(held, process, comm, operation, Means::Messages);
            compile(&mut run);
        }
    }
    let own = banks.as_ref().and_then(|node| node.banks(held));
    run.room = run.room.map(|room| own.as_ref().map_or(room, |banks| room.within(banks)));
    drop(own);
    let tag = PERSISTENT | (number << LANE_BITS) as i32;
    let dashes = banks.is_some() && run.execution.is_compiled() && !run.execution.calls_user();
    let kept = Kept {
        dashes,
        begun: GiantCell::new(None),
        run: GiantCell::new(Some(run)),
        comm: Arc::clone(comm),
        tag,
        banks,
        starts: AtomicU32::new(0),
        failed: AtomicBool::new(false),
    };
    let request = Request {
        persistent: Some(Box::new(Persistent {
            active: false,
            template: Template::Collective(Some(Arc::new(kept))),
        })),
        ..Request::completed(RequestStatus::EMPTY, comm.context().0)
    };
    Ok(process.messages.borrow_mut(held).state.insert(request))
}

/// An operation under way behind a request. The box is used again and again.
#[derive(Debug)]
pub(super) struct Running {
    /// `None` for a persistent operation, which has its own, and while the box is idle.
    comm: Option<Arc<Communicator>>,
    flight: Option<Flight>,
}

#[derive(Debug)]
struct Flight {
    /// Until it is over.
    run: Option<Run>,
    ticket: Ticket,
    request: RequestId,
    /// Where a persistent operation goes when it is over; others go back to the communicator.
    kept: Option<Arc<Kept>>,
    _memory: Option<Arc<internal::Words>>,
}

/// A persistent operation.
#[derive(Debug)]
struct Kept {
    run: GiantCell<Option<Run>>,
    comm: Arc<Communicator>,
    tag: i32,
    /// Its own, since its starts need not follow those of other operations.
    banks: Option<Neighbourhood>,
    /// It may be done without messages and without foreign code.
    dashes: bool,
    /// What a start has begun that was not over at once, until the same start goes on with it.
    begun: GiantCell<Option<Ticket>>,
    /// How often it was started.
    starts: AtomicU32,
    /// A run by messages has failed: what is still under way of it could be taken for the next one's, as all have one tag.
    failed: AtomicBool,
}

/// An operation is handed to arbitrary code only by [`Kept::restart`], which needs the process.
impl Restart for Kept {
    fn restart(self: Arc<Self>, held: &Held, process: &Process, request: RequestId) -> Restarted {
        if self.failed.load(Ordering::Relaxed) {
            let reason = "this persistent operation has failed before; free it and make another";
            return Restarted::Refused(self, Error::new(ErrorClass::Other, reason));
        }
        let (run, ticket) = match self.attempt(held, process) {
            Attempt::Over(result) => return Restarted::Over(self, result.err()),
            Attempt::Waits(run, ticket) => (run, ticket),
        };
        let operation: Arc<dyn Restart> = Arc::<Kept>::clone(&self);
        process.messages.borrow_mut(held).state.requests.under_way(request, operation, work_of(&run));
        let flight = Flight { run: Some(run), ticket, request, kept: Some(self), _memory: None };
        launch(held, process, None, flight);
        Restarted::UnderWay
    }

    #[inline]
    fn dash(&self, held: &Held, process: &Process) -> bool {
        if !self.dashes {
            return false;
        }
        let mut place = self.run.borrow_mut(held);
        let run = place.as_mut().expect("an inactive operation is at rest");
        run.execution.start_again();
        let mut banks = self.banks.as_ref().and_then(|node| node.banks(held));
        let banks = banks.as_mut().expect("it has banks");
        let ticket = dash(self.tag, self.next(), banks, run, hope(process));
        ticket.is_none_or(|ticket| {
            *self.begun.borrow_mut(held) = Some(ticket);
            false
        })
    }
}

impl Kept {
    /// The number of the next start. Who holds its execution is alone with it.
    #[inline]
    fn next(&self) -> u32 {
        let number = self.starts.load(Ordering::Relaxed);
        self.starts.store(number.wrapping_add(1), Ordering::Relaxed);
        number
    }

    /// Begins it, or goes on with what [`Restart::dash`] has begun, and does it if nothing is in the way.
    #[inline]
    fn attempt(&self, held: &Held, process: &Process) -> Attempt {
        let mut place = self.run.borrow_mut(held);
        let run = place.as_mut().expect("an inactive operation is at rest");
        let begun = self.begun.borrow_mut(held).take();
        if begun.is_none() {
            run.execution.start_again();
        }
        let mut banks = self.banks.as_ref().and_then(|node| node.banks(held));
        let mut ticket = match (begun, &mut banks) {
            (Some(ticket), _) => ticket,
            // All its starts are within the node, and take turns there.
            (None, Some(banks)) => match dash(self.tag, self.next(), banks, run, hope(process)) {
                Some(ticket) => ticket,
                None => return Attempt::Over(Ok(())),
            },
            (None, None) => Ticket::new(self.tag, None, Accord::UNKNOWN, run.signature),
        };
        if ticket.turn.is_some() && !ticket.accord.is_lost() {
            let looks = if run.execution.is_compiled() { 0 } else { hope(process) };
            let port = CommPort::new(held, process, &self.comm, &mut ticket, banks.as_deref_mut());
            let result = run.execution.progress(&mut port.looking(looks));
            if !matches!(result, Ok(Status::Pending)) {
                return Attempt::Over(result.map(drop));
            }
        }
        Attempt::Waits(place.take().expect("it was just there"), ticket)
    }
}

impl Activity for Running {
    fn advance(
        mut self: Box<Self>,
        held: &Held,
        process: &Process,
        patient: bool,
    ) -> Option<Box<dyn Activity>> {
        let Running { comm, flight } = &mut *self;
        let result = match flight.as_mut()?.advance(held, process, comm.as_deref(), patient) {
            Ok(Status::Pending) => return Some(self),
            result => result,
        };
        if let Some(flight) = flight {
            flight.land(held, process, comm.as_deref(), result);
        }
        let (comm, kept) = (comm.take(), flight.take().and_then(|flight| flight.kept));
        let its = communicator(kept.as_deref(), comm.as_deref());
        its.collectives.state.borrow_mut(held).idle = Some(self);
        None
    }
}

impl Flight {
    /// Goes on; `comm` is the communicator unless the operation is persistent.
    #[inline]
    fn advance(
        &mut self,
        held: &Held,
        process: &Process,
        comm: Option<&Communicator>,
        patient: bool,
    ) -> Result<Status> {
        let Flight { run, ticket, kept, .. } = self;
        let comm = communicator(kept.as_deref(), comm);
        let own = kept.as_ref().and_then(|kept| kept.banks.as_ref());
        let run = run.as_mut().expect("an operation under way has its execution");
        advance(held, process, comm, own.unwrap_or(&comm.collectives.node), run, ticket, patient)
    }

    /// Is over; gives the execution back.
    #[inline]
    fn land(&mut self, held: &Held, process: &Process, comm: Option<&Communicator>, result: Result<Status>) {
        let run = self.run.take();
        match &self.kept {
            None => {
                let comm = communicator(None, comm);
                run.into_iter().for_each(|run| rest(held, comm, run));
            }
            Some(kept) => {
                if result.is_err() && kept.banks.is_none() {
                    kept.failed.store(true, Ordering::Relaxed);
                }
                *kept.run.borrow_mut(held) = run;
            }
        }
        process.messages.borrow_mut(held).state.requests.complete(self.request, result.err());
    }
}

fn communicator<'a>(kept: Option<&'a Kept>, other: Option<&'a Communicator>) -> &'a Communicator {
    let own = kept.map(|kept| &*kept.comm);
    own.or(other).expect("an operation under way has its communicator")
}

fn work_of(run: &Run) -> Work {
    let shape = &run.execution.plan().shape;
    Work::Collective(shape.collective.name(), root_of(shape.collective, shape.root))
}

/// Does the first steps of an operation; leaves the rest to progress. `comm` is the communicator unless the operation is
/// persistent.
#[inline]
fn launch(held: &Held, process: &Process, comm: Option<&Arc<Communicator>>, flight: Flight) {
    let its = communicator(flight.kept.as_deref(), comm.map(|comm| &**comm));
    let idle = its.collectives.state.borrow_mut(held).idle.take();
    let mut running = idle.unwrap_or_else(|| Box::new(Running { comm: None, flight: None }));
    (running.comm, running.flight) = (comm.cloned(), Some(flight));
    if let Some(activity) = running.advance(held, process, false) {
        process.add_activity(held, activity);
    }
}
