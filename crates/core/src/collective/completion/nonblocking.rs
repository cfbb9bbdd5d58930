//! Non-blocking operations: each has a request and is advanced by progress.

use std::sync::Arc;

use tutti_base::Result;
use tutti_coll::tune::ProgressMode;

use crate::buffer::Buffer;
use crate::collective::completion::advance;
use crate::collective::context::{CommContext, root_of};
use crate::collective::plan::{prepare, return_to_cache};
use crate::communicator::Communicator;
use crate::communicator::collectives::agreement::OperationAgreement;
use crate::communicator::collectives::call::Call;
use crate::communicator::collectives::under_way::{Kept, Nonblocking, Running};
use crate::communicator::collectives::{AllowedPaths, CachedExecution, Ticket};
use crate::engine::ExecutionStatus;
use crate::inside;
use crate::lanes::LaneGuard;
use crate::messenger::{Activity, Messenger};
use crate::p2p::agreement::{LANE_BITS, NUMBERS};
use crate::process::{self, Process};
use crate::request::{Request, RequestId, Work};

/// Returns the number of polls of a flag while an operation is started. They take a tenth of a microsecond,
/// less than returning to the operation later.
#[inline]
pub(in crate::collective) fn start_looks(messenger: &Messenger) -> u32 {
    messenger.waiting.flag_looks().min(8)
}

/// Outcome of an operation at the end of the call that starts it.
pub(in crate::collective) enum Attempt {
    /// The operation is over, with this result.
    Over(Result<()>),
    /// The operation has to wait for other members.
    Waits(Box<CachedExecution>, Ticket),
}

/// Starts a planned operation on these paths. The returned request is complete when the operation is over.
pub(in crate::collective) fn start_planned(
    cx: CommContext<'_>,
    call: &Call<'_>,
    paths: AllowedPaths,
) -> RequestId {
    let cached = prepare(cx, call, paths, None);
    let ticket = cx.comm.collectives.ticket(cx.lane, &cached);
    start_run(cx, cached, ticket, None)
}

/// Starts an operation as [`start_planned`] does, under a number taken before. It goes by messages alone,
/// since slots are taken in the order of calls. `memory` is the library's own memory that the operation uses.
pub(in crate::collective) fn start_keeping(
    cx: CommContext<'_>,
    call: &Call<'_>,
    tag: i32,
    memory: [Buffer; 2],
) -> RequestId {
    let cached = prepare(cx, call, AllowedPaths::Messages, None);
    let ticket = Ticket::new(tag, None, OperationAgreement::UNKNOWN, cached.signature);
    start_run(cx, cached, ticket, Some(memory))
}

/// Creates a request for an execution and starts it. `memory` is kept until the operation is over.
pub(in crate::collective) fn start_run(
    cx: CommContext<'_>,
    cached: Box<CachedExecution>,
    ticket: Ticket,
    memory: Option<[Buffer; 2]>,
) -> RequestId {
    let context = cx.comm.context().0;
    let request =
        cx.process.messages.borrow_mut(cx.lane).state.insert(Request::new(work_of(&cached), context));
    launch(cx, Nonblocking { cached: Some(cached), ticket, request, kept: None, _memory: memory });
    request
}

/// Starts an execution as [`start_run`] does, with a request that exists already.
pub(in crate::collective) fn start_under(
    cx: CommContext<'_>,
    cached: Box<CachedExecution>,
    ticket: Ticket,
    request: RequestId,
) {
    launch(cx, Nonblocking { cached: Some(cached), ticket, request, kept: None, _memory: None });
}

impl Activity for Running {
    fn advance(
        mut self: Box<Self>,
        held: &LaneGuard,
        _: &Messenger,
        patient: bool,
    ) -> Option<Box<dyn Activity>> {
        let process = process::current();
        let Running { comm, operation } = &mut *self;
        let result = match operation.as_mut()?.advance(held, process, comm.as_ref(), patient) {
            Ok(ExecutionStatus::Pending) => return Some(self),
            result => result,
        };
        if let Some(operation) = operation {
            operation.land(held, process, comm.as_ref(), result);
        }
        let (comm, kept) = (comm.take(), operation.take().and_then(|operation| operation.kept));
        let its = communicator(kept.as_deref(), comm.as_ref());
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
        let cached = self.operation.as_ref().and_then(|operation| operation.cached.as_ref());
        cached.is_some_and(|cached| !cached.execution.calls_user())
    }
}

impl Nonblocking {
    /// Advances the operation; `comm` is the communicator unless the operation is persistent.
    #[inline]
    fn advance(
        &mut self,
        held: &LaneGuard,
        process: &Process,
        comm: Option<&Arc<Communicator>>,
        patient: bool,
    ) -> Result<ExecutionStatus> {
        let Nonblocking { cached, ticket, kept, .. } = self;
        let comm = communicator(kept.as_deref(), comm);
        let own = kept.as_ref().and_then(|kept| kept.banks());
        let cached = cached.as_mut().expect("an operation under way has its execution");
        let cx = CommContext::new(held, process, comm);
        advance(cx, own.unwrap_or(&comm.collectives.node), cached, ticket, patient)
    }

    /// Completes the request and returns the execution to its cache.
    #[inline]
    fn land(
        &mut self,
        held: &LaneGuard,
        process: &Process,
        comm: Option<&Arc<Communicator>>,
        result: Result<ExecutionStatus>,
    ) {
        let cached = self.cached.take();
        match &self.kept {
            None => {
                let comm = communicator(None, comm);
                cached.into_iter().for_each(|cached| {
                    if let ProgressMode::Sparse(_) = cached.manner {
                        inside::move_on_every(1);
                    }
                    return_to_cache(CommContext::new(held, process, comm), cached);
                });
            }
            Some(kept) => {
                kept.put_back(held, cached, result.is_err());
            }
        }
        process.messages.borrow_mut(held).state.requests.complete(self.request, result.err());
    }
}

/// Returns the communicator of a persistent operation, or the other one given.
fn communicator<'a>(kept: Option<&'a Kept>, other: Option<&'a Arc<Communicator>>) -> &'a Arc<Communicator> {
    let own = kept.map(Kept::communicator);
    own.or(other).expect("an operation under way has its communicator")
}

/// Returns the description of an execution for its request.
pub(in crate::collective) fn work_of(cached: &CachedExecution) -> Work {
    let shape = &cached.execution.plan().shape;
    Work::Collective(shape.collective.name(), root_of(shape.collective, shape.root))
}

/// Takes the first steps of a started persistent operation and leaves the others to progress. Its request is
/// `request`.
pub(in crate::collective) fn launch_kept(
    cx: CommContext<'_>,
    request: RequestId,
    kept: Arc<Kept>,
    (cached, ticket): (Box<CachedExecution>, Ticket),
) {
    launch(cx, Nonblocking { cached: Some(cached), ticket, request, kept: Some(kept), _memory: None });
}

/// Takes the first steps of an operation and leaves the others to progress. A persistent operation holds its
/// communicator itself.
#[inline]
fn launch(cx: CommContext<'_>, operation: Nonblocking) {
    let comm = Some(cx.comm).filter(|_| operation.kept.is_none());
    let mut state = cx.comm.collectives.state.borrow_mut(cx.lane);
    state.under_way += u32::from(comm.is_some());
    let idle = state.idle.take();
    drop(state);
    let mut running = idle.unwrap_or_else(|| Box::new(Running { comm: None, operation: None }));
    (running.comm, running.operation) = (comm.cloned(), Some(operation));
    if let Some(activity) = running.advance(cx.lane, cx.process, false) {
        cx.process.add_activity(cx.lane, activity);
    }
}
