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
//!
//! # Safety
//! [`run_again`] and [`start_again`] bind the memory that their caller vouches for to an execution that was made for a call
//! with equal arguments, so it covers as much as the first call's did.
#![allow(unsafe_code)]

mod accord;
mod carrying;
mod choices;
mod costs;
mod internal;
mod loans;
mod node;
mod operation;
mod places;
mod port;

use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tutti_base::Result;
use tutti_base::ids::Plane;
pub use tutti_coll::Collective;
use tutti_coll::ir::Order;
use tutti_coll::registry::Node;
use tutti_coll::simulate;
use tutti_coll::{Environment, Plan, Shape};

use tutti_sys::job::Reach;
use tutti_transport::banks::{Banks, Said};

use crate::communicator::Communicator;
use crate::engine::{Execution, Status};
use crate::giant::{GiantCell, Held};
use crate::process::Process;
use crate::progress;
use crate::request::{Persistent, Request, RequestId, Restart, Status as RequestStatus, Template, Work};

pub use choices::Choices;
pub use internal::{
    Maximum, allgather_bytes, barrier, broadcast_bytes, last_barrier, maximum, other_group, start_maximum,
    swap_bytes,
};
pub use operation::{Operation, Side};

use accord::Accord;
use node::{BankPort, Neighbourhood, Room, Turn};
use port::{CommPort, Ticket};

/// An operation that goes on by itself whenever messages move.
pub trait Activity: Send + fmt::Debug {
    /// Does what can be done now; itself, unless it is over. With `patient` nobody has anything else to do.
    fn advance(self: Box<Self>, held: &Held, process: &Process, patient: bool) -> Option<Box<dyn Activity>>;
}

/// What a communicator keeps for its collective operations.
#[derive(Debug)]
pub struct Collectives {
    channel: Channel,
    state: GiantCell<State>,
    near: places::Near,
    node: Neighbourhood,
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
    /// Executions that are at rest; `None` while one is under way.
    rest: Vec<Option<Run>>,
    /// The place whose execution goes next when there are too many.
    oldest: usize,
    /// For the next operation behind a request.
    idle: Option<Box<Running>>,
}

/// An execution and the call that it was made for.
#[derive(Debug)]
struct Prepared {
    execution: Execution<RequestId>,
    /// What its plan was allowed to use.
    means: Means,
    /// What the members must agree on.
    said: Said,
    /// What it needs of a slot, if it is within the node.
    room: Option<Room>,
    words: Option<Words>,
    /// With the words: see [`Operation::listed`].
    lists: Vec<i64>,
    given: Given,
}

/// Addresses that a user gave, to be compared and counted from.
#[derive(Clone, Copy, Debug)]
struct Given([*mut u8; 2]);

// SAFETY: nothing is read or written through them.
unsafe impl Send for Given {}

/// Boxed, since it is handed around.
type Run = Box<Prepared>;

/// The arguments of a call but for its addresses and lists, as they came: calls with equal words and lists on one
/// communicator are the same operation, so that it need not be taken apart again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Which.
    pub collective: Collective,
    /// Whether send or receive is MPI_IN_PLACE.
    pub in_place: [bool; 2],
    /// The root, or 0.
    pub root: i32,
    /// Of send and receive.
    pub counts: [i64; 2],
    /// Handles of the datatypes.
    pub datatypes: [usize; 2],
    /// Handle of the operator, or 0.
    pub operator: usize,
}

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
        Collectives {
            channel: Channel::Own,
            state: GiantCell::default(),
            near: places::Near::default(),
            node: Neighbourhood::default(),
        }
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
        self.state.borrow_mut(held).next_tag()
    }

    /// The number of a new persistent operation, from 1 on.
    fn next_persistent(&self, held: &Held) -> u32 {
        let mut state = self.state.borrow_mut(held);
        state.persistent += 1;
        assert!(state.persistent < NUMBERS, "a communicator has had 2^22 persistent operations");
        state.persistent
    }

    /// What an operation that begins now gets.
    #[inline]
    fn ticket(&self, held: &Held, run: &Run) -> Ticket {
        let tag = self.next_tag(held);
        match self.node.banks(held) {
            Some(mut banks) => ticket(tag, tag as u32 >> LANE_BITS, &mut banks, run),
            None => Ticket::new(tag, None, Accord::UNKNOWN),
        }
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
    agree(held, process, comm)?;
    let run = prepare(held, process, comm, operation, Means::All);
    let what = || format!("{prefix}{}", waiting_for(operation.collective(), comm));
    let ticket = comm.collectives.ticket(held, &run);
    finish(held, process, comm, run, ticket, &what)
}

/// Members on several hosts agree on what their hosts have to offer, before their first blocking operation.
#[inline]
fn agree(held: &mut Held, process: &Process, comm: &Communicator) -> Result<()> {
    let its = &comm.collectives;
    if !matches!(its.channel, Channel::Own) {
        return Ok(());
    }
    if let Some(offer) = its.node.needs_accord(held, process, comm) {
        let offer = internal::maximum(held, process, comm, offer)?;
        its.node.settle(held, offer);
    }
    Ok(())
}

/// As [`run`] for the operation that `words` name on other memory, if it is at rest and simple enough.
///
/// # Safety
/// The memory is what the first call with these words had to have, for all data that begin at `send` and `recv`.
#[inline]
pub unsafe fn run_again(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    words: &Words,
    has_lists: impl Fn(&[i64]) -> bool,
    addresses: [*mut u8; 2],
) -> Option<Result<()>> {
    // SAFETY: passed on.
    match unsafe { attempt(held, process, comm, words, has_lists, addresses, process.flag_looks)? } {
        Attempt::Over(result) => Some(result),
        Attempt::Waits(run, ticket) => {
            let what = || waiting_for(words.collective, comm);
            Some(finish(held, process, comm, run, ticket, &what))
        }
    }
}

/// As [`start`], in the way of [`run_again`].
///
/// # Safety
/// As for [`run_again`].
#[inline]
pub unsafe fn start_again(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    words: &Words,
    has_lists: impl Fn(&[i64]) -> bool,
    addresses: [*mut u8; 2],
) -> Option<RequestId> {
    // SAFETY: passed on.
    Some(match unsafe { attempt(held, process, comm, words, has_lists, addresses, hope(process))? } {
        Attempt::Over(Ok(())) => RequestId::DONE,
        Attempt::Over(Err(error)) => {
            let requests = &mut process.messages.borrow_mut(held).state;
            let request = requests.insert(Request::new(Work::Other, comm.context().0));
            requests.requests.complete(request, Some(error));
            request
        }
        Attempt::Waits(run, ticket) => start_run(held, process, comm, run, ticket, None),
    })
}

/// Looks at a flag that may come while an operation is started: a tenth of a microsecond, less than it costs to come back.
#[inline]
fn hope(process: &Process) -> u32 {
    process.flag_looks.min(8)
}

/// What became of an operation in the call for it.
enum Attempt {
    /// It is over.
    Over(Result<()>),
    /// It has to wait for others.
    Waits(Run, Ticket),
}

/// Begins the operation that `words` name on other memory, if it is at rest and simple enough, and does it if nothing is in the
/// way; `looks` at a flag are made. Its execution stays at rest unless it has to wait, which is when other calls may come between.
///
/// # Safety
/// As for [`run_again`].
#[inline(always)]
unsafe fn attempt(
    held: &Held,
    process: &Process,
    comm: &Communicator,
    words: &Words,
    has_lists: impl Fn(&[i64]) -> bool,
    addresses: [*mut u8; 2],
    looks: u32,
) -> Option<Attempt> {
    let its = &comm.collectives;
    let mut state = its.state.borrow_mut(held);
    // SAFETY: passed on.
    let place = unsafe { state.awaken(words, has_lists, addresses)? };
    let tag = if let Channel::Own = its.channel { state.next_tag() } else { its.fixed_tag() };
    let run = state.rest[place].as_mut().expect("it was just found");
    let mut banks = its.node.banks(held);
    let mut ticket = match &mut banks {
        Some(banks) => match dash(tag, tag as u32 >> LANE_BITS, banks, run, looks) {
            Some(ticket) => ticket,
            None => return Some(Attempt::Over(Ok(()))),
        },
        None => Ticket::new(tag, None, Accord::UNKNOWN),
    };
    if !ticket.accord.is_lost() {
        // What it could do before, it need not look for again.
        let looks = if ticket.turn.is_some() && run.execution.is_compiled() { 0 } else { looks };
        let port = CommPort::new(held, process, comm, &mut ticket, banks.as_deref_mut());
        match run.execution.progress(&mut port.looking(looks)) {
            Ok(Status::Pending) => {}
            result => return Some(Attempt::Over(result.map(drop))),
        }
    }
    Some(Attempt::Waits(state.rest[place].take().expect("it was just found"), ticket))
}

impl Prepared {
    /// Compiles it for its lists, which have come again. If that cannot be done it is not tried a third time.
    #[cold]
    fn compile(&mut self) -> bool {
        let Given(given) = self.given;
        let compiled = !self.lists.is_empty() && self.execution.compile(given);
        if !compiled && !self.lists.is_empty() {
            self.words = None;
        }
        compiled
    }
}

impl State {
    /// See [`Collectives::next_tag`].
    #[inline]
    fn next_tag(&mut self) -> i32 {
        let number = self.operations % NUMBERS;
        self.operations = self.operations.wrapping_add(1);
        (number << LANE_BITS) as i32
    }

    /// Where the execution is at rest that `words` name, bound to other memory and ready to go.
    ///
    /// # Safety
    /// As for [`run_again`].
    #[inline]
    unsafe fn awaken(
        &mut self,
        words: &Words,
        has_lists: impl Fn(&[i64]) -> bool,
        [send, recv]: [*mut u8; 2],
    ) -> Option<usize> {
        let said = |run: &Option<Run>| {
            run.as_ref().is_some_and(|run| run.words.as_ref() == Some(words) && has_lists(&run.lists))
        };
        let place = self.rest.iter().position(said)?;
        let run = self.rest[place].as_mut()?;
        // SAFETY: passed on.
        let ready = unsafe {
            run.execution.restart(send, recv) || run.compile() && run.execution.restart(send, recv)
        };
        if ready { Some(place) } else { None }
    }
}

/// Runs to the end.
fn finish(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    mut run: Run,
    mut ticket: Ticket,
    what: &dyn Fn() -> String,
) -> Result<()> {
    let node = &comm.collectives.node;
    let mut result = advance(held, process, comm, node, &mut run, &mut ticket, true);
    if matches!(result, Ok(Status::Pending)) {
        progress::wait_until(held, process, what, |held| {
            if matches!(result, Ok(Status::Pending)) {
                result = advance(held, process, comm, node, &mut run, &mut ticket, false);
            }
            !matches!(result, Ok(Status::Pending))
        });
    }
    rest(held, comm, run);
    result.map(drop)
}

/// What an operation gets that begins now under a number of its own, on these banks if it is one within the node.
#[inline]
fn ticket(tag: i32, number: u32, banks: &mut Banks, run: &Run) -> Ticket {
    let turn = run.room.map(|room| Turn::take(banks, room, run.said.accord));
    let accord = Accord::begin(banks, number, &run.said, turn.as_ref());
    Ticket::new(tag, turn, accord)
}

/// As [`ticket`], and does the operation if it is compiled, needs no more than a [`BankPort`], and need not wait: then there is no
/// ticket.
#[inline(always)]
fn dash(tag: i32, number: u32, banks: &mut Banks, run: &mut Run, looks: u32) -> Option<Ticket> {
    let Some(room) = run.room.filter(|_| run.execution.is_compiled()) else {
        return Some(ticket(tag, number, banks, run));
    };
    let mut turn = Turn::take(banks, room, run.said.accord);
    let accord = Accord::begin(banks, number, &run.said, Some(&turn));
    if !accord.is_lost() && turn.grant(banks) {
        let slot = *turn.slot();
        let mut port = BankPort { banks, slot, bank_bytes: room.bytes, carried_bytes: 0, looks };
        let status = run.execution.dash(&mut port);
        let carried_bytes = port.carried_bytes;
        if let Status::Done = status {
            turn.leave(banks);
            return None;
        }
        return Some(Ticket { carried_bytes, ..Ticket::new(tag, Some(turn), accord) });
    }
    Some(Ticket::new(tag, Some(turn), accord))
}

/// Does what can be done now; `node` has the banks of the operation.
#[inline]
fn advance(
    held: &Held,
    process: &Process,
    comm: &Communicator,
    node: &Neighbourhood,
    run: &mut Run,
    ticket: &mut Ticket,
    patient: bool,
) -> Result<Status> {
    if let Some(refusal) = ticket.accord.refusal(comm) {
        return Err(refusal);
    }
    let mut banks = if ticket.turn.is_some() { node.banks(held) } else { None };
    let port = CommPort::new(held, process, comm, ticket, banks.as_deref_mut());
    let looks = if patient { process.flag_looks } else { 0 };
    let result = run.execution.progress(&mut port.looking(looks));
    drop(banks);
    if matches!(result, Ok(Status::Pending)) && ticket.accord.is_doubtful(process.is_about_to_sleep()) {
        return doubt(held, process, comm, node, run, ticket);
    }
    result
}

/// Ends an operation that waits, if members disagree about it.
#[cold]
fn doubt(
    held: &Held,
    process: &Process,
    comm: &Communicator,
    node: &Neighbourhood,
    run: &mut Run,
    ticket: &mut Ticket,
) -> Result<Status> {
    let Some(mut banks) = node.banks(held) else { return Ok(Status::Pending) };
    let numbers = comm.collectives.node.numbers(process, comm);
    let rank_of = |member| {
        let place = numbers.and_then(|all| all.iter().position(|number| *number == member));
        place.map_or(member, |rank| rank as u32)
    };
    let complaint = ticket.accord.complaint(&banks, comm, rank_of);
    let Some(complaint) = complaint else { return Ok(Status::Pending) };
    if ticket.turn.as_ref().is_some_and(|turn| !turn.is_granted()) {
        // Its turn will not come, and so none after it.
        banks.give_up();
    }
    run.execution.abandon(&mut CommPort::new(held, process, comm, ticket, Some(&mut banks)));
    Err(complaint)
}

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
fn start_keeping(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
    tag: i32,
    memory: Arc<internal::Words>,
) -> RequestId {
    let run = prepare(held, process, comm, operation, Means::Messages);
    start_run(held, process, comm, run, Ticket::new(tag, None, Accord::UNKNOWN), Some(memory))
}

fn start_run(
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

/// Keeps an operation to be started by MPI_Start.
pub fn persistent(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    operation: &Operation<'_>,
) -> RequestId {
    // On several hosts it would have to be agreed upon whether each has banks for it.
    let several = comm.collectives.node.numbers(process, comm).is_some();
    let means = if several { Means::Messages } else { Means::All };
    let mut run = prepare(held, process, comm, operation, means);
    let number = comm.collectives.next_persistent(held);
    let compile = |run: &mut Run| {
        let Given(given) = run.given;
        let _ = !run.lists.is_empty() && run.execution.compile(given);
    };
    compile(&mut run);
    let mut banks = None;
    if is_within_node(run.execution.plan()) {
        banks = Neighbourhood::of_persistent(process, comm, number, run.execution.plan());
        if banks.is_none() {
            run = prepare(held, process, comm, operation, Means::Messages);
            compile(&mut run);
        }
    }
    let tag = PERSISTENT | (number << LANE_BITS) as i32;
    let kept = Kept {
        run: GiantCell::new(Some(run)),
        comm: Arc::clone(comm),
        tag,
        banks,
        starts: AtomicU32::new(0),
    };
    let request = Request {
        persistent: Some(Box::new(Persistent {
            active: false,
            template: Template::Collective(Arc::new(kept)),
        })),
        ..Request::completed(RequestStatus::EMPTY, comm.context().0)
    };
    process.messages.borrow_mut(held).state.insert(request)
}

/// An operation under way behind a request. The box is used again and again.
#[derive(Debug)]
struct Running {
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
    /// How often it was started.
    starts: AtomicU32,
}

/// An operation is handed to arbitrary code only by [`Kept::restart`], which needs the process.
impl Restart for Kept {
    fn restart(self: Arc<Self>, held: &Held, process: &Process, request: RequestId) -> Result<()> {
        let mut place = self.run.borrow_mut(held);
        let run = place.as_mut().expect("an inactive operation is at rest");
        run.execution.start();
        let mut banks = self.banks.as_ref().and_then(|node| node.banks(held));
        let mut ticket = match &mut banks {
            // All its starts are within the node, and take turns there.
            Some(banks) => {
                let number = self.starts.fetch_add(1, Ordering::Relaxed);
                let Some(ticket) = dash(self.tag, number, banks, run, hope(process)) else {
                    process.messages.borrow_mut(held).state.requests.complete(request, None);
                    return Ok(());
                };
                ticket
            }
            None => Ticket::new(self.tag, None, Accord::UNKNOWN),
        };
        if ticket.turn.is_some() && !ticket.accord.is_lost() {
            let looks = if run.execution.is_compiled() { 0 } else { hope(process) };
            let port = CommPort::new(held, process, &self.comm, &mut ticket, banks.as_deref_mut());
            let result = run.execution.progress(&mut port.looking(looks));
            if !matches!(result, Ok(Status::Pending)) {
                process.messages.borrow_mut(held).state.requests.complete(request, result.err());
                return Ok(());
            }
        }
        let run = place.take().expect("an inactive operation is at rest");
        drop((place, banks));
        if let Some(request) = process.messages.borrow_mut(held).state.requests.get_mut(request) {
            request.work = work_of(&run);
        }
        let flight = Flight { run: Some(run), ticket, request, kept: Some(self), _memory: None };
        launch(held, process, None, flight);
        Ok(())
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
            Some(kept) => *kept.run.borrow_mut(held) = run,
        }
        process.messages.borrow_mut(held).state.requests.complete(self.request, result.err());
    }
}

fn communicator<'a>(kept: Option<&'a Kept>, other: Option<&'a Communicator>) -> &'a Communicator {
    let own = kept.map(|kept| &*kept.comm);
    own.or(other).expect("an operation under way has its communicator")
}

fn work_of(run: &Run) -> Work {
    Work::Collective(run.execution.plan().shape.collective.name())
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

/// What an operation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// Whatever there is.
    All,
    /// Messages only.
    Messages,
}

fn is_within_node(plan: &Plan) -> bool {
    plan.schedule.order == Order::Program
}

/// An execution of the plan for this operation, bound to its memory and ready to go.
fn prepare(
    held: &Held,
    process: &Process,
    comm: &Communicator,
    operation: &Operation<'_>,
    means: Means,
) -> Run {
    let shape = operation.shape(comm.size(), comm.rank().0);
    let several = comm.collectives.node.numbers(process, comm).is_some();
    let means = if several && !comm.collectives.node.is_settled(held) { Means::Messages } else { means };
    let mut state = comm.collectives.state.borrow_mut(held);
    // Which executions are at rest depends on what has ended here so far: only one that was planned under the same terms is
    // what the other members use.
    let fits = |run: &Run| run.means == means && run.execution.plan().shape == shape;
    let found = state.rest.iter_mut().find(|place| place.as_ref().is_some_and(fits));
    let mut run = match found.and_then(Option::take) {
        Some(run) => run,
        None => {
            drop(state);
            let plan = Arc::new(plan(held, process, comm, &shape, means));
            let room = is_within_node(&plan).then(|| Room::of(&plan));
            // Members of banks have other numbers there, which straight-line code does not know.
            let execution = if several { Execution::stepwise(plan) } else { Execution::new(plan) };
            Box::new(Prepared {
                execution,
                means,
                said: accord::said(&shape),
                room,
                words: None,
                lists: Vec::new(),
                given: Given([null_mut(); 2]),
            })
        }
    };
    operation.bind(run.execution.bindings(), comm.size());
    run.execution.start();
    run.words = operation.words();
    let (lists, given) = operation.lists();
    run.lists.clear();
    run.lists.extend_from_slice(lists);
    run.given = Given(given);
    run
}

/// Keeps an execution for the next time.
#[inline]
fn rest(held: &Held, comm: &Communicator, run: Run) {
    let mut state = comm.collectives.state.borrow_mut(held);
    if let Some(place) = state.rest.iter_mut().find(|place| place.is_none()) {
        *place = Some(run);
    } else if state.rest.len() < KEPT {
        state.rest.push(Some(run));
    } else {
        let oldest = state.oldest;
        state.oldest = (oldest + 1) % KEPT;
        state.rest[oldest] = Some(run);
    }
}

fn plan(held: &Held, process: &Process, comm: &Communicator, shape: &Shape, means: Means) -> Plan {
    let header = process.job.header();
    let node = match (means, comm.collectives.channel) {
        (Means::All, Channel::Own) => comm.collectives.node.of_communicator(held, process, comm),
        _ => Node::Any,
    };
    let model = costs::model(process);
    let near = comm.collectives.near.of(process, comm);
    let bound = near.is_some();
    let largest = |layout: &Arc<simulate::Layout>| layout.pools().iter().map(|pool| pool.ranks).max();
    let several = near.as_ref().filter(|layout| layout.hosts() > 1);
    let neighbours = several.and_then(largest).unwrap_or(comm.size());
    let surroundings = match near {
        Some(layout) if layout.hosts() > 1 => Environment::on_hosts(layout, header.common_processors, model),
        near => {
            let flat = Environment::in_job(comm.size(), header.local_ranks, header.processors, model);
            Environment { layout: near.unwrap_or_else(|| flat.layout.clone()), ..flat }
        }
    };
    let environment = Environment {
        node,
        bank_bytes: header.banks.large_bytes_for(neighbours),
        deterministic: process.config.deterministic,
        reach: if header.reach == Reach::Mapped { simulate::Reach::Mapped } else { simulate::Reach::Call },
        ..surroundings
    };
    let forced = process.config.algorithm_of(shape.collective.name());
    let plan = process.choices.borrow_mut(held).plan(shape, &environment, bound, forced);
    if process.config.explain && comm.rank().0 == 0 {
        eprintln!("Tutti: {}", plan.choice.reason());
    }
    plan
}

fn waiting_for(collective: Collective, comm: &Communicator) -> String {
    format!("{collective} in {}", crate::communicator::name_of_context(comm.context().0))
}
