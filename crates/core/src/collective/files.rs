//! Operations of all members on a file: a schedule that was made of what each has in which window, run behind a request as any other.

use std::fmt::Debug;
use std::sync::Arc;

use tutti_base::Result;
use tutti_coll::{Collective, Environment, Plan, Schedule, Shape};

use super::port::CommPort;
use super::{Activity, failures, places};
use crate::buffer::Buffer;
use crate::communicator::Communicator;
use crate::communicator::collectives::Ticket;
use crate::communicator::collectives::agreement::OperationAgreement;
use crate::engine::{Execution, ExecutionStatus};
use crate::lanes::LaneGuard;
use crate::messenger::Messenger;
use crate::request::{Request, RequestId, Work};

/// Where the bytes of a window are in the file.
pub trait Windows: Send + Sync + Debug {
    /// Starts to write what ranks have given of a window, or to read what they have asked for; in memory one rank's after the other.
    ///
    /// # Errors
    /// Why it cannot be started.
    fn start(
        &self,
        held: &LaneGuard,
        messenger: &Messenger,
        window: u32,
        write: bool,
        memory: Buffer,
    ) -> Result<RequestId>;
}

/// One member's part of an operation on a file.
#[derive(Debug)]
pub struct OnFile {
    /// What to do.
    pub schedule: Schedule,
    /// To the file, or from it.
    pub write: bool,
    /// The own data.
    pub memory: Buffer,
    /// Running sums of the own bytes in every window.
    pub own: Vec<u64>,
    /// Running sums of the bytes of all members in the windows that this one is in charge of.
    pub slots: Vec<u64>,
    /// The windows.
    pub windows: Arc<dyn Windows>,
}

/// One under way.
#[derive(Debug)]
struct Running {
    comm: Arc<Communicator>,
    execution: Execution<RequestId>,
    ticket: Ticket,
    windows: Arc<dyn Windows>,
    request: RequestId,
}

/// Starts an operation under a number taken before; the request is complete when it is over.
pub fn start(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Arc<Communicator>,
    operation: OnFile,
    tag: i32,
) -> RequestId {
    let OnFile { schedule, write, memory, own, slots, windows } = operation;
    let collective = if write { Collective::FileWrite } else { Collective::FileRead };
    let shape = Shape::new(collective, comm.size(), comm.rank().0, memory.bytes());
    let header = messenger.job.header();
    let environment =
        Environment::in_job(comm.size(), header.local_ranks, header.processors, places::model(messenger));
    let plan = Arc::new(Plan::on_file(&shape, environment, schedule));
    let mut execution = Execution::stepwise(plan);
    let (user, sums) = match write {
        true => ([Some(memory), None], [own, slots]),
        false => ([None, Some(memory)], [slots, own]),
    };
    execution.bindings().bind_buffers(user, sums);
    execution.start();
    // Members have different amounts of data.
    let signature = failures::signature_of(&Shape { count: 0, ..shape }, comm);
    let ticket = Ticket::new(tag, None, OperationAgreement::UNKNOWN, signature);
    let work = Work::Collective(collective.name(), None);
    let request = messenger.messages.borrow_mut(held).state.insert(Request::new(work, comm.context().0));
    let running = Box::new(Running { comm: Arc::clone(comm), execution, ticket, windows, request });
    if let Some(activity) = running.advance(held, messenger, false) {
        messenger.add_activity(held, activity);
    }
    request
}

impl Activity for Running {
    fn advance(
        mut self: Box<Self>,
        held: &LaneGuard,
        messenger: &Messenger,
        _patient: bool,
    ) -> Option<Box<dyn Activity>> {
        let Running { comm, execution, ticket, windows, .. } = &mut *self;
        let mut port = CommPort::new(held, messenger, comm, ticket, None).on(&**windows);
        let refusal = failures::of(&port);
        let result = match refusal {
            Some(error) => {
                execution.abandon(&mut port);
                Err(error)
            }
            None => execution.progress(&mut port),
        };
        let error = match result {
            Ok(ExecutionStatus::Pending) => return Some(self),
            Ok(ExecutionStatus::Done) => None,
            Err(error) => {
                failures::tell(&port, &error);
                Some(error)
            }
        };
        messenger.messages.borrow_mut(held).state.requests.complete(self.request, error);
        None
    }

    fn is_unattended(&self) -> bool {
        true
    }
}
