//! Collective operations: from a user's arguments to a plan and its execution (MPI-5 chapter 6).
//!
//! An [`Operation`] says what is to be done on which memory. [`run`] does it and waits, [`start`] leaves it to
//! progress, [`persistent`] keeps it to be started again: all three run the same [`Execution`] of the same plan over
//! a [`CommPort`]. A communicator remembers its latest executions, so that repeating an operation selects,
//! generates and allocates nothing.
//!
//! Messages of an operation carry its number on the communicator as tag, so any number may be under way. A
//! persistent operation has a number of its own from the day it is made, since its starts need not be in the
//! same order everywhere (MPI-5 section 6.13).

mod internal;
mod operation;
mod places;
mod port;

use std::fmt;
use std::sync::Arc;

use tutti_base::ids::Plane;
use tutti_base::{Error, Result};
pub use tutti_coll::Collective;
use tutti_coll::{Environment, Model, Plan, Shape};

use crate::communicator::Communicator;
use crate::engine::{Execution, Status};
use crate::giant::{GiantCell, Held};
use crate::process::Process;
use crate::progress;
use crate::request::{Persistent, Request, RequestId, Restart, Status as RequestStatus, Template, Work};

pub use internal::{
    Maximum, allgather_bytes, barrier, broadcast_bytes, last_barrier, maximum, other_group, start_maximum,
    swap_bytes,
};
pub use operation::{Operation, Side};

use port::CommPort;

/// An operation that goes on by itself whenever messages move.
pub trait Activity: Send + fmt::Debug {
    /// Does what can be done now; whether it is over.
    fn advance(&mut self, held: &Held, process: &Process) -> bool;
}

/// What a communicator keeps for its collective operations.
#[derive(Debug)]
pub struct Collectives {
    channel: Channel,
    state: GiantCell<State>,
    near: places::Near,
}

/// Which messages belong to the collectives of a communicator.
#[derive(Clone, Copy, Debug)]
enum Channel {
    /// The communicator's own plane, operations numbered in turn.
    Own,
    /// Another plane of a communicator that the members share: all operations have this number, and follow one
    /// another.
    Outside(i32),
}

#[derive(Debug, Default)]
struct State {
    operations: u32,
    persistent: u32,
    /// Executions that are at rest, the latest last.
    rest: Vec<Run>,
}

/// Boxed, since it is handed around.
type Run = Box<Execution<RequestId>>;

/// Executions that a communicator keeps at rest.
const KEPT: usize = 16;
/// Operations are numbered modulo this; the number and the lane make a tag.
const NUMBERS: u32 = 1 << 22;
/// Tags of persistent operations have this bit.
const PERSISTENT: i32 = 1 << 30;
/// Bits of a tag for the lane.
const LANE_BITS: u32 = 8;

impl Default for Collectives {
    fn default() -> Collectives {
        Collectives { channel: Channel::Own, state: GiantCell::default(), near: places::Near::default() }
    }
}

impl Collectives {
    /// Those of a group that meets inside a communicator it is a part of, under a tag of the user's
    /// (MPI_Comm_create_group).
    pub fn outside(tag: i32) -> Collectives {
        let tag = (tag as u32 % NUMBERS) << LANE_BITS;
        Collectives { channel: Channel::Outside(tag as i32), ..Collectives::default() }
    }

    fn plane(&self) -> Plane {
        match self.channel {
            Channel::Own => Plane::Collective,
            Channel::Outside(_) => Plane::Agreement,
        }
    }

    /// The number of the next operation, as a tag. Members take numbers in the order of their calls, so whatever
    /// goes on in the background takes its number when it is called for, and keeps it for all its rounds.
    pub(crate) fn next_tag(&self, held: &Held) -> i32 {
        let Channel::Own = self.channel else { return self.fixed_tag() };
        let mut state = self.state.borrow_mut(held);
        let number = state.operations % NUMBERS;
        state.operations = state.operations.wrapping_add(1);
        (number << LANE_BITS) as i32
    }

    fn next_persistent_tag(&self, held: &Held) -> i32 {
        let mut state = self.state.borrow_mut(held);
        state.persistent += 1;
        assert!(state.persistent < NUMBERS, "a communicator has had 2^22 persistent operations");
        PERSISTENT | (state.persistent << LANE_BITS) as i32
    }

    fn fixed_tag(&self) -> i32 {
        match self.channel {
            Channel::Own => 0,
            Channel::Outside(tag) => tag,
        }
    }
}

/// Does an operation and waits for its end.
///
/// # Errors
/// What went wrong with a message.
pub fn run(held: &mut Held, process: &Process, comm: &Communicator, operation: &Operation<'_>) -> Result<()> {
    run_saying(held, process, comm, operation, "")
}

/// As [`run`]; a person who asks where this rank waits is told `prefix` and the operation.
fn run_saying(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
    prefix: &str,
) -> Result<()> {
    let mut run = prepare(held, process, comm, operation);
    let tag = comm.collectives.next_tag(held);
    let mut result = run.progress(&mut CommPort::new(held, process, comm, tag));
    if matches!(result, Ok(Status::Pending)) {
        let what = || format!("{prefix}{}", waiting_for(operation.collective(), comm));
        progress::wait_until(held, process, &what, |held| {
            result = run.progress(&mut CommPort::new(held, process, comm, tag));
            !matches!(result, Ok(Status::Pending))
        });
    }
    rest(held, comm, run);
    result.map(drop)
}

/// Starts an operation; the request is complete when it is over.
pub fn start(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> RequestId {
    start_keeping(held, process, comm, operation, comm.collectives.next_tag(held), None)
}

/// As [`start`] under a number taken before; `memory` is what the operation works on, if it is the library's own.
fn start_keeping(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
    tag: i32,
    memory: Option<Arc<internal::Words>>,
) -> RequestId {
    let run = prepare(held, process, comm, operation);
    let context = comm.context().0;
    let request = process.messages.borrow_mut(held).state.insert(Request::new(work_of(&run), context));
    let home = Home::Communicator;
    launch(
        held,
        process,
        Running { run: Some(run), comm: Arc::clone(comm), tag, request, home, _memory: memory },
    );
    request
}

/// Keeps an operation to be started by MPI_Start.
pub fn persistent(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> RequestId {
    let run = prepare(held, process, comm, operation);
    let tag = comm.collectives.next_persistent_tag(held);
    let kept = Arc::new(Kept { run: GiantCell::new(Some(run)), comm: Arc::clone(comm), tag });
    let request = Request {
        persistent: Some(Box::new(Persistent { active: false, template: Template::Collective(kept) })),
        ..Request::completed(RequestStatus::EMPTY, comm.context().0)
    };
    process.messages.borrow_mut(held).state.insert(request)
}

/// Where an execution goes when it is over.
#[derive(Debug)]
enum Home {
    Communicator,
    Persistent(Arc<Kept>),
}

/// An operation under way behind a request.
#[derive(Debug)]
struct Running {
    run: Option<Run>,
    comm: Arc<Communicator>,
    tag: i32,
    request: RequestId,
    home: Home,
    _memory: Option<Arc<internal::Words>>,
}

/// A persistent operation.
#[derive(Debug)]
struct Kept {
    run: GiantCell<Option<Run>>,
    comm: Arc<Communicator>,
    tag: i32,
}

/// An operation is handed to arbitrary code only by [`Kept::restart`], which needs the process.
impl Restart for Kept {
    fn restart(self: Arc<Self>, held: &Held, process: &Process, request: RequestId) -> Result<()> {
        let mut run = self.run.borrow_mut(held).take().expect("an inactive operation is at rest");
        run.start();
        if let Some(request) = process.messages.borrow_mut(held).state.requests.get_mut(request) {
            request.work = work_of(&run);
        }
        let (comm, tag) = (Arc::clone(&self.comm), self.tag);
        let home = Home::Persistent(self);
        launch(held, process, Running { run: Some(run), comm, tag, request, home, _memory: None });
        Ok(())
    }
}

impl Activity for Running {
    fn advance(&mut self, held: &Held, process: &Process) -> bool {
        let Some(run) = &mut self.run else { return true };
        let error: Option<Error> = match run.progress(&mut CommPort::new(held, process, &self.comm, self.tag))
        {
            Ok(Status::Pending) => return false,
            Ok(Status::Done) => None,
            Err(error) => Some(error),
        };
        let run = self.run.take();
        match &self.home {
            Home::Communicator => run.into_iter().for_each(|run| rest(held, &self.comm, run)),
            Home::Persistent(kept) => *kept.run.borrow_mut(held) = run,
        }
        process.messages.borrow_mut(held).state.requests.complete(self.request, error);
        true
    }
}

fn work_of(run: &Run) -> Work {
    Work::Collective(run.plan().shape.collective.name())
}

/// Does the first steps of an operation; leaves the rest to progress.
fn launch(held: &Held, process: &Process, mut running: Running) {
    if !running.advance(held, process) {
        process.add_activity(held, Box::new(running));
    }
}

/// An execution of the plan for this operation, bound to its memory and ready to go.
fn prepare(held: &Held, process: &Process, comm: &Communicator, operation: &Operation<'_>) -> Run {
    let shape = operation.shape(comm.size(), comm.rank().0);
    let mut state = comm.collectives.state.borrow_mut(held);
    let found = state.rest.iter().rposition(|run| run.plan().shape == shape);
    let mut run = match found {
        Some(position) => state.rest.remove(position),
        None => {
            drop(state);
            Box::new(Execution::new(Arc::new(plan(process, comm, &shape))))
        }
    };
    operation.bind(run.bindings(), comm.size());
    run.start();
    run
}

fn rest(held: &Held, comm: &Communicator, run: Run) {
    let mut state = comm.collectives.state.borrow_mut(held);
    if state.rest.len() == KEPT {
        state.rest.remove(0);
    }
    state.rest.push(run);
}

fn plan(process: &Process, comm: &Communicator, shape: &Shape) -> Plan {
    let header = process.job.header();
    let (local, processors) = (header.local_ranks.max(1), header.processors.max(1));
    // Where the job has more ranks than cores, others run beside those of this communicator.
    let cores = if local > processors { (comm.size() * processors / local).max(1) } else { processors };
    let model = Model { eager_bytes: process.config.eager_bytes as f64, ..Model::default() };
    let mut environment = Environment {
        cores: processors,
        oversubscribed: local > processors,
        model: Arc::new(model),
        ..Environment::flat(comm.size(), cores)
    };
    if let Some(layout) = comm.collectives.near.of(process, comm) {
        environment.layout = layout;
    }
    let plan = Plan::new(shape, &environment, forced(&process.config.algorithm, shape.collective));
    if process.config.explain && comm.rank().0 == 0 {
        eprintln!("Tutti: {}", plan.choice.reason());
    }
    plan
}

/// The algorithm that the setting `TUTTI_ALGORITHM` names for a collective.
fn forced(setting: &str, collective: Collective) -> Option<&str> {
    let mut entries = setting.split(',').filter_map(|entry| entry.split_once('='));
    entries.find(|(name, _)| name.trim() == collective.name()).map(|(_, algorithm)| algorithm.trim())
}

fn waiting_for(collective: Collective, comm: &Communicator) -> String {
    format!("{collective} in {}", crate::communicator::name_of_context(comm.context().0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(setting: &str, expected: Option<&str>) {
        assert_eq!(forced(setting, Collective::Bcast), expected);
    }

    #[test]
    fn algorithms_are_forced_by_name() {
        check("", None);
        check("bcast=binomial", Some("binomial"));
        check("allreduce=ring, bcast = chain", Some("chain"));
        check("allreduce=ring", None);
    }
}
