//! Collective operations on a file. The schedule is made from each member's data in each window, and runs
//! behind a request like any other operation.

use std::fmt::Debug;
use std::sync::Arc;

use tutti_coll::{Collective, Environment, Plan, Schedule, Shape};

use super::completion::failures;
use super::execution::port::CommPort;
pub use super::execution::port::Windows;
use super::signature::message_signature;
use crate::buffer::Buffer;
use crate::collective::context::CommContext;
use crate::communicator::Communicator;
use crate::communicator::collectives::Ticket;
use crate::communicator::collectives::agreement::OperationAgreement;
use crate::communicator::collectives::places;
use crate::engine::{Execution, ExecutionStatus};
use crate::lanes::LaneGuard;
use crate::messenger::{Activity, Messenger};
use crate::process;
use crate::request::{Request, RequestId, Work};

/// One member's part of an operation on a file.
#[derive(Debug)]
pub struct OnFile {
    /// Schedule of this member.
    pub schedule: Schedule,
    /// True to write to the file, false to read from it.
    pub write: bool,
    /// Data of this member.
    pub memory: Buffer,
    /// Running sums of this member's bytes in all windows.
    pub own: Vec<u64>,
    /// Running sums of all members' bytes in the windows that this member accesses.
    pub slots: Vec<u64>,
    /// Mapping from windows to the file.
    pub windows: Arc<dyn Windows>,
}

/// An active operation on a file.
#[derive(Debug)]
struct Running {
    comm: Arc<Communicator>,
    execution: Execution<RequestId>,
    ticket: Ticket,
    windows: Arc<dyn Windows>,
    request: RequestId,
}

/// Starts an operation under a tag taken before. The returned request is complete when the operation is
/// over.
pub fn start(cx: CommContext<'_>, operation: OnFile, tag: i32) -> RequestId {
    let OnFile { schedule, write, memory, own, slots, windows } = operation;
    let collective = if write { Collective::FileWrite } else { Collective::FileRead };
    let shape = Shape::new(collective, cx.comm.size(), cx.comm.rank().0, memory.bytes());
    let header = cx.process.job.header();
    let environment =
        Environment::in_job(cx.comm.size(), header.local_ranks, header.processors, places::model(cx.process));
    let plan = Arc::new(Plan::on_file(&shape, environment, schedule));
    let mut execution = Execution::stepwise(plan);
    let (user, sums) = match write {
        true => ([Some(memory), None], [own, slots]),
        false => ([None, Some(memory)], [slots, own]),
    };
    execution.bindings().bind_buffers(user, sums);
    execution.start();
    // Members have different amounts of data.
    let signature = message_signature(&Shape { count: 0, ..shape }, cx.comm);
    let ticket = Ticket::new(tag, None, OperationAgreement::UNKNOWN, signature);
    let work = Work::Collective(collective.name(), None);
    let request =
        cx.process.messages.borrow_mut(cx.lane).state.insert(Request::new(work, cx.comm.context().0));
    let running = Box::new(Running { comm: Arc::clone(cx.comm), execution, ticket, windows, request });
    if let Some(activity) = running.advance(cx.lane, cx.process, false) {
        cx.process.add_activity(cx.lane, activity);
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
        let mut port =
            CommPort::new(CommContext::new(held, process::current(), comm), ticket, None).on(&**windows);
        let refusal = failures::failure_of(&port);
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
                failures::report_failure(&port, &error);
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
