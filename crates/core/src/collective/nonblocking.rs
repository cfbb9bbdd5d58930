//! Non-blocking operations: each has a request and is advanced by progress.

use std::sync::Arc;

use tutti_base::Result;
use tutti_coll::tune::ProgressMode;

use super::{Activity, Means, Operation, Run, advance, deferred, offloaded, prepare, rest, root_of};
use crate::buffer::Buffer;
use crate::communicator::Communicator;
use crate::communicator::collectives::Ticket;
use crate::communicator::collectives::agreement::OperationAgreement;
use crate::communicator::collectives::under_way::{Kept, Nonblocking, Running};
use crate::engine::ExecutionStatus;
use crate::inside;
use crate::lanes::LaneGuard;
use crate::messenger::Messenger;
use crate::p2p::agreement::{LANE_BITS, NUMBERS};
use crate::process::Process;
use crate::request::{Request, RequestId, Work};

/// Returns the number of polls of a flag while an operation is started. They take a tenth of a microsecond,
/// less than returning to the operation later.
#[inline]
pub(super) fn start_looks(messenger: &Messenger) -> u32 {
    messenger.waiting.flag_looks().min(8)
}

/// Outcome of an operation at the end of the call that starts it.
pub(super) enum Attempt {
    /// The operation is over, with this result.
    Over(Result<()>),
    /// The operation has to wait for other members.
    Waits(Run, Ticket),
}

/// Starts an operation. The returned request is complete when the operation is over.
pub fn start(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> RequestId {
    if let Some(request) = offloaded::start(held, process, comm, operation) {
        return request;
    }
    if deferred::is_needed(held, process, comm) || deferred::is_crowded(held, comm) {
        return deferred::start(held, process, comm, operation);
    }
    let run = prepare(held, process, comm, operation, Means::All);
    let ticket = comm.collectives.ticket(held, &run);
    start_run(held, process, comm, run, ticket, None)
}

/// Starts an operation as [`start`] does, under a number taken before. It goes by messages alone, since
/// slots are taken in the order of calls. `memory` is the library's own memory that the operation uses.
pub(super) fn start_keeping(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
    tag: i32,
    memory: [Buffer; 2],
) -> RequestId {
    let run = prepare(held, process, comm, operation, Means::Messages);
    let ticket = Ticket::new(tag, None, OperationAgreement::UNKNOWN, run.signature);
    start_run(held, process, comm, run, ticket, Some(memory))
}

/// Creates a request for an execution and starts it. `memory` is kept until the operation is over.
pub(super) fn start_run(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Arc<Communicator>,
    run: Run,
    ticket: Ticket,
    memory: Option<[Buffer; 2]>,
) -> RequestId {
    let context = comm.context().0;
    let request = messenger.messages.borrow_mut(held).state.insert(Request::new(work_of(&run), context));
    launch(
        held,
        messenger,
        Some(comm),
        Nonblocking { run: Some(run), ticket, request, kept: None, _memory: memory },
    );
    request
}

/// Starts an execution as [`start_run`] does, with a request that exists already.
pub(super) fn start_under(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Arc<Communicator>,
    run: Run,
    ticket: Ticket,
    request: RequestId,
) {
    launch(
        held,
        messenger,
        Some(comm),
        Nonblocking { run: Some(run), ticket, request, kept: None, _memory: None },
    );
}

impl Activity for Running {
    fn advance(
        mut self: Box<Self>,
        held: &LaneGuard,
        messenger: &Messenger,
        patient: bool,
    ) -> Option<Box<dyn Activity>> {
        let Running { comm, operation } = &mut *self;
        let result = match operation.as_mut()?.advance(held, messenger, comm.as_deref(), patient) {
            Ok(ExecutionStatus::Pending) => return Some(self),
            result => result,
        };
        if let Some(operation) = operation {
            operation.land(held, messenger, comm.as_deref(), result);
        }
        let (comm, kept) = (comm.take(), operation.take().and_then(|operation| operation.kept));
        let its = communicator(kept.as_deref(), comm.as_deref());
        let mut state = its.collectives.state.borrow_mut(held);
        state.under_way -= u32::from(comm.is_some());
        state.idle = Some(self);
        None
    }

    fn number_of(&self, held: &LaneGuard, request: RequestId) -> Option<u32> {
        let operation = self.operation.as_ref().filter(|operation| operation.request == request)?;
        let comm = self.comm.as_ref().filter(|_| operation.kept.is_none())?;
        let latest = comm.collectives.state.borrow(held).operations.wrapping_sub(1);
        let number = operation.ticket.tag as u32 >> LANE_BITS;
        Some(latest.wrapping_sub(latest.wrapping_sub(number) % NUMBERS))
    }

    fn is_unattended(&self) -> bool {
        let run = self.operation.as_ref().and_then(|operation| operation.run.as_ref());
        run.is_some_and(|run| !run.execution.calls_user())
    }
}

impl Nonblocking {
    /// Advances the operation; `comm` is the communicator unless the operation is persistent.
    #[inline]
    fn advance(
        &mut self,
        held: &LaneGuard,
        messenger: &Messenger,
        comm: Option<&Communicator>,
        patient: bool,
    ) -> Result<ExecutionStatus> {
        let Nonblocking { run, ticket, kept, .. } = self;
        let comm = communicator(kept.as_deref(), comm);
        let own = kept.as_ref().and_then(|kept| kept.banks());
        let run = run.as_mut().expect("an operation under way has its execution");
        advance(held, messenger, comm, own.unwrap_or(&comm.collectives.node), run, ticket, patient)
    }

    /// Completes the request and returns the execution to its cache.
    #[inline]
    fn land(
        &mut self,
        held: &LaneGuard,
        messenger: &Messenger,
        comm: Option<&Communicator>,
        result: Result<ExecutionStatus>,
    ) {
        let run = self.run.take();
        match &self.kept {
            None => {
                let comm = communicator(None, comm);
                run.into_iter().for_each(|run| {
                    if let ProgressMode::Sparse(_) = run.manner {
                        inside::move_on_every(1);
                    }
                    rest(held, comm, run);
                });
            }
            Some(kept) => {
                kept.put_back(held, run, result.is_err());
            }
        }
        messenger.messages.borrow_mut(held).state.requests.complete(self.request, result.err());
    }
}

/// Returns the communicator of a persistent operation, or the other one given.
fn communicator<'a>(kept: Option<&'a Kept>, other: Option<&'a Communicator>) -> &'a Communicator {
    let own = kept.map(Kept::communicator);
    own.or(other).expect("an operation under way has its communicator")
}

/// Returns the description of an execution for its request.
pub(super) fn work_of(run: &Run) -> Work {
    let shape = &run.execution.plan().shape;
    Work::Collective(shape.collective.name(), root_of(shape.collective, shape.root))
}

/// Takes the first steps of a started persistent operation and leaves the others to progress. Its request is
/// `request`.
pub(super) fn launch_kept(
    held: &LaneGuard,
    messenger: &Messenger,
    request: RequestId,
    kept: Arc<Kept>,
    (run, ticket): (Run, Ticket),
) {
    launch(
        held,
        messenger,
        None,
        Nonblocking { run: Some(run), ticket, request, kept: Some(kept), _memory: None },
    );
}

/// Takes the first steps of an operation and leaves the others to progress. `comm` is the communicator
/// unless the operation is persistent.
#[inline]
fn launch(held: &LaneGuard, messenger: &Messenger, comm: Option<&Arc<Communicator>>, operation: Nonblocking) {
    let its = communicator(operation.kept.as_deref(), comm.map(|comm| &**comm));
    let mut state = its.collectives.state.borrow_mut(held);
    state.under_way += u32::from(comm.is_some());
    let idle = state.idle.take();
    drop(state);
    let mut running = idle.unwrap_or_else(|| Box::new(Running { comm: None, operation: None }));
    (running.comm, running.operation) = (comm.cloned(), Some(operation));
    if let Some(activity) = running.advance(held, messenger, false) {
        messenger.add_activity(held, activity);
    }
}
