//! New communicators from old ones (MPI-5 section 7.4.2): duplicates and subsets.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tutti_base::ids::Plane;
use tutti_base::{ContextId, Error, ErrorClass, Rank, Result, WorldRank};

use crate::collective::{self, WaitContext};
use crate::communicator::collectives::Collectives;
use crate::communicator::{Communicator, Inter};
use crate::completion;
use crate::context::{self, Agreement, LiveContext, Next, Serial};
use crate::exchange::exchange;
use crate::group::Group;
use crate::info::Info;
use crate::lanes::{self, Lane, LaneGuard};
use crate::messenger::{Activity, Messenger};
use crate::process::{Process, started};
use crate::request::{Request, RequestId};

/// Tag of messages between the leaders of an intercommunicator.
const LEADER_TAG: i32 = 0;

/// Duplicates a communicator (MPI_Comm_dup and MPI_Comm_dup_with_info).
///
/// # Errors
/// Returns the code of a copy callback of an attribute that failed.
pub fn duplicate(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    info: Option<Info>,
) -> Result<Arc<Communicator>> {
    let serial = agree(held, process, comm)?;
    let local = match &comm.inter {
        None => None,
        Some(inter) => Some(duplicate(held, process, &inter.local, None)?),
    };
    let (new, failure) = copy_of(held, comm, info, local);
    new.collectives.inherit_tuning(held, process, &comm.collectives);
    match failure {
        None => Ok(new.publish(held, process, serial)),
        Some(failure) => Err(failure),
    }
}

/// Starts to duplicate a communicator (MPI_Comm_idup). The new one is usable once the request is complete;
/// the members agree in the background.
///
/// # Errors
/// Returns the code of a copy callback of an attribute that failed.
pub fn start_duplicate(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    info: Option<Info>,
) -> Result<(Arc<Communicator>, RequestId)> {
    // The communicator of the own group has no attributes whose copying could fail.
    let local = comm.inter.as_ref().map(|inter| Arc::new(copy_of(held, &inter.local, None, None).0));
    let (new, failure) = copy_of(held, comm, info, local);
    let tags = Tags::take(held, comm);
    let first = comm.inter.as_ref().map_or(comm, |inter| &inter.local);
    let background = Background::begin(held, process, first, tags.of(first))?;
    let mut request = Request::uncancellable(comm.context().0);
    // The other members need this one for the agreement, even if its own duplicate fails.
    request.detached = failure.is_some();
    let id = process.messages.borrow_mut(held).state.insert(request);
    let new = Arc::new(new);
    let (wanted, comm) = (failure.is_none(), Arc::clone(comm));
    let duplicate = Duplicate { comm, new: Arc::clone(&new), wanted, tags, background, request: id };
    process.add_activity(held, Box::new(duplicate));
    match failure {
        None => Ok((new, id)),
        Some(failure) => Err(failure),
    }
}

/// Makes a communicator of a subset (MPI_Comm_create). Returns `None` for a process outside `group`.
///
/// # Errors
/// Returns `Group` if it is not a subset of the communicator's.
pub fn create(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    group: &Group,
) -> Result<Option<Arc<Communicator>>> {
    check_subset(comm, group)?;
    let serial = agree(held, process, comm)?;
    let handler = comm.error_handler.borrow(held).clone();
    let Some(inter) = &comm.inter else {
        return Ok(group.rank_of(process.rank).map(|rank| {
            Communicator::new(None, group.clone(), rank, None, handler).publish(held, process, serial)
        }));
    };
    // On an intercommunicator each side passes its own subset (MPI-5 section 7.4.2).
    let remote = other_group(held, process, comm, group)?.with_origin(group.origin());
    let local = create(held, process, &inter.local, group)?;
    Ok(match (local, group.rank_of(process.rank)) {
        (Some(local), Some(rank)) if !remote.is_empty() => {
            let inter = Some(Inter { remote, local });
            Some(Communicator::new(None, group.clone(), rank, inter, handler).publish(held, process, serial))
        }
        _ => None,
    })
}

/// Makes a communicator of a subset (MPI_Comm_create_group), collective over `group` only.
///
/// # Errors
/// Returns `Group` if it is not a subset of the communicator's, `Comm` for an intercommunicator.
pub fn create_group(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    group: &Group,
    tag: i32,
) -> Result<Option<Arc<Communicator>>> {
    if comm.inter.is_some() {
        let reason = "argument comm is an intercommunicator; MPI_Comm_create takes one, MPI_Comm_create_group does not";
        return Err(Error::new(ErrorClass::Comm, reason));
    }
    check_subset(comm, group)?;
    let Some(rank) = group.rank_of(process.rank) else { return Ok(None) };
    let handler = comm.error_handler.borrow(held).clone();
    let mut among = Communicator::new(Some(comm.context()), group.clone(), rank, None, handler.clone());
    let names = group.iter().filter_map(|member| comm.group.rank_of(member)).map(|rank| rank.0).collect();
    among.collectives = Collectives::outside(tag, names);
    let among = Arc::new(among);
    let serial = agree(held, process, &among)?;
    Ok(Some(Communicator::new(None, group.clone(), rank, None, handler).publish(held, process, serial)))
}

/// Makes a communicator of the same group for the library's own use, without attributes and hints.
pub(crate) fn duplicate_bare(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
) -> Result<Arc<Communicator>> {
    let serial = agree(held, process, comm)?;
    let handler = comm.error_handler.borrow(held).clone();
    Ok(Communicator::new(None, comm.group().clone(), comm.rank(), None, handler)
        .publish(held, process, serial))
}

/// Agrees with all members of `comm` (both groups of an intercommunicator) on a context.
pub(crate) fn agree(held: &mut LaneGuard, process: &Process, comm: &Arc<Communicator>) -> Result<Serial> {
    agree_by(held, process, |held, value| maximum(held, process, comm, value))
}

/// Agrees on a context. `maximum` takes the maximum over all members of the agreement.
pub(crate) fn agree_by(
    held: &mut LaneGuard,
    process: &Process,
    mut maximum: impl FnMut(&mut LaneGuard, u64) -> Result<u64>,
) -> Result<Serial> {
    let (mut agreement, mut value) = Agreement::begin(&process.library.contexts.borrow(held));
    loop {
        let highest = maximum(held, value)?;
        match advance(held, process, &mut agreement, highest) {
            Next::Maximum(next) => value = next,
            Next::Agreed(serial) => return Ok(serial),
        }
    }
}

/// Continues an agreement on a context with the result of its latest round.
///
/// `highest` is the maximum over all members of the value that each contributed to this round: a proposed
/// serial number, or 1 from a member at which the proposed number is not free and 0 from the others.
/// Returns the value to contribute to the next round, or the serial number once all members have it. A
/// context counts as in use here as long as [`is_left`] returns true for it.
fn advance(held: &LaneGuard, process: &Process, agreement: &mut Agreement, highest: u64) -> Next {
    let mut contexts = process.library.contexts.borrow_mut(held);
    agreement.advance(&mut contexts, highest, |context| is_left(held, process, context))
}

/// Returns true if a context is in use in this process: a communicator has it, or a posted receive or an
/// unexpected message of a former communicator still waits under it.
fn is_left(held: &LaneGuard, process: &Process, context: ContextId) -> bool {
    forget_gone(held, process);
    let has_messages = |lane| {
        let inside = held.in_lane(lane);
        let messages = process.messages.borrow(&inside);
        Plane::ALL.into_iter().any(|plane| messages.state.has_waiting(context.plane(plane)))
    };
    process.library.alive.borrow(held).contains_key(&context.0) || process.messages.lanes().any(has_messages)
}

/// Discards the empty message queues of communicators that no handle, request or operation uses any more.
fn forget_gone(held: &LaneGuard, process: &Process) {
    for (context, lane) in context::take_gone() {
        process.library.alive.borrow_mut(held).remove(&context.0);
        let forget = |held: &LaneGuard| {
            let mut messages = process.messages.borrow_mut(held);
            Plane::ALL.into_iter().for_each(|plane| messages.state.forget(context.plane(plane)));
        };
        forget(held);
        if !lane.is_first() {
            process.in_lane(held, lane, forget);
        }
    }
}

/// Returns the maximum over all members of `comm`, of both groups of an intercommunicator.
pub(crate) fn maximum(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    value: u64,
) -> Result<u64> {
    let Some(inter) = &comm.inter else { return WaitContext::new(held, process, comm).maximum(value) };
    let own = WaitContext::new(held, process, &inter.local).maximum(value)?;
    let mut highest = own.to_le_bytes().to_vec();
    if comm.rank == Rank(0) {
        let theirs = exchange(held, process, comm, Rank(0), LEADER_TAG, highest.clone())?;
        let theirs = theirs.try_into().map_or(own, u64::from_le_bytes);
        highest = own.max(theirs).to_le_bytes().to_vec();
    }
    WaitContext::new(held, process, &inter.local).broadcast_bytes(Rank(0), &mut highest)?;
    Ok(highest.try_into().map_or(own, u64::from_le_bytes))
}

impl Communicator {
    /// Registers a communicator under its number.
    pub(crate) fn publish(self, held: &LaneGuard, process: &Process, serial: Serial) -> Arc<Communicator> {
        let comm = Arc::new(self);
        comm.open(held, process, serial);
        comm
    }

    /// Returns the lane of this context, which is the same at all members. They declare whether they use
    /// lanes before they can take part in the agreement.
    fn lane_for(&self, process: &Process, context: ContextId) -> u32 {
        let further = lanes::count() - 1;
        let is_in_lanes = |world: WorldRank| {
            let local = process.local_rank(world);
            local.is_some_and(|local| process.job.block(local).in_lanes.load(Ordering::Acquire) != 0)
        };
        let all = || (0..self.size()).all(|rank| self.group.get(Rank(rank)).is_some_and(is_in_lanes));
        if further == 0 || self.inter.is_some() || !all() { 0 } else { 1 + context.0 % further }
    }

    /// Gives the communicator its context and lane, and registers it.
    fn open(self: &Arc<Self>, held: &LaneGuard, process: &Process, serial: Serial) {
        forget_gone(held, process);
        let context = serial.context();
        let lane = self.lane_for(process, context);
        self.context.store(context.0, Ordering::Relaxed);
        self.lane.store(lane, Ordering::Relaxed);
        let owned = LiveContext { serial, lane: Lane::numbered(lane) };
        self.owned.set(owned).expect("a communicator is made known once");
        process.library.alive.borrow_mut(held).insert(context.0, ());
        self.collectives.wrap_after(held, process.config.diagnosis.wrap_after);
        if let Some(inter) = &self.inter {
            // Numbers of processes of other jobs differ between processes; names do not.
            let names = process.library.other_jobs.borrow(held);
            let first = |group: &Group| group.get(Rank(0)).map(|member| names.name(member));
            self.is_first.store(first(&self.group) < first(&inter.remote), Ordering::Relaxed);
        }
        process.library.communicators.borrow_mut(held).insert(context.0, Arc::clone(self));
    }
}

/// Makes a copy without a context. `local` is that of the own group of an intercommunicator. With the error
/// of a copy callback it lacks attributes, and serves only for the agreement with the other members.
fn copy_of(
    held: &mut LaneGuard,
    comm: &Arc<Communicator>,
    info: Option<Info>,
    local: Option<Arc<Communicator>>,
) -> (Communicator, Option<Error>) {
    let remote = comm.inter.as_ref().map(|inter| inter.remote.clone());
    let inter = remote.zip(local).map(|(remote, local)| Inter { remote, local });
    let handler = comm.error_handler.borrow(held).clone();
    let new = Communicator::new(None, comm.group.clone(), comm.rank, inter, handler);
    let copied = comm.attributes.duplicate(held, comm.handle());
    let failure = copied.map(|copies| new.attributes.adopt(held, copies)).err();
    // The new communicator does not inherit the hints of the old one (MPI-5 section 7.4.2).
    info.iter().for_each(|info| new.set_hints(held, info));
    // A duplicate has the same topology (MPI-5 section 7.4.2).
    comm.topology.get().into_iter().for_each(|topology| new.arrange(Arc::clone(topology)));
    (new, failure)
}

/// Returns an error if a member of the group is not in the communicator.
fn check_subset(comm: &Arc<Communicator>, group: &Group) -> Result<()> {
    match group.iter().find(|member| !comm.group.contains(*member)) {
        None => Ok(()),
        Some(stranger) => Err(Error::new(
            ErrorClass::Group,
            format!("argument group contains rank {stranger} of the world, which is not in the communicator"),
        )),
    }
}

/// Numbers of an operation, taken when it was called: on a communicator and, for an intercommunicator, on
/// that of its own group.
#[derive(Clone, Copy, Debug)]
struct Tags {
    /// Tag on the communicator.
    whole: i32,
    /// Tag on the communicator of the own group.
    local: i32,
}

/// An agreement on a context in the background. For an intercommunicator each round consists of one maximum
/// within the own group and one between the two.
#[derive(Debug)]
struct Background {
    comm: Arc<Communicator>,
    tags: Tags,
    agreement: Agreement,
    /// Maxima of the current round: on the communicator, and on that of the own group.
    round: [Option<collective::Maximum>; 2],
}

/// A duplicate in the making. For an intercommunicator the own group's communicator is made first, then the
/// whole.
#[derive(Debug)]
struct Duplicate {
    comm: Arc<Communicator>,
    new: Arc<Communicator>,
    /// True if no copy callback has failed here.
    wanted: bool,
    tags: Tags,
    background: Background,
    request: RequestId,
}

impl Tags {
    /// Takes the numbers of an operation, in the order of calls.
    fn take(held: &LaneGuard, comm: &Arc<Communicator>) -> Tags {
        let whole = comm.collectives.next_tag(held);
        Tags {
            whole,
            local: comm.inter.as_ref().map_or(whole, |inter| inter.local.collectives.next_tag(held)),
        }
    }

    /// Returns the numbers for an agreement on `comm`, or on the communicator of its own group.
    fn of(self, comm: &Arc<Communicator>) -> Tags {
        if comm.inter.is_some() { self } else { Tags { whole: self.local, ..self } }
    }
}

impl Background {
    /// Starts an agreement on the context of a communicator of the members of `comm`.
    fn begin(
        held: &LaneGuard,
        process: &Process,
        comm: &Arc<Communicator>,
        tags: Tags,
    ) -> Result<Background> {
        let (agreement, value) = Agreement::begin(&process.library.contexts.borrow(held));
        let mut begun = Background { comm: Arc::clone(comm), tags, agreement, round: [None, None] };
        begun.start_round(held, process, value)?;
        Ok(begun)
    }

    /// Starts a round with this value.
    fn start_round(&mut self, held: &LaneGuard, process: &Process, value: u64) -> Result<()> {
        let start = |comm, tag| collective::CommContext::new(held, process, comm).start_maximum(tag, value);
        let local = self.comm.inter.as_ref().map(|inter| start(&inter.local, self.tags.local)).transpose()?;
        self.round = [Some(start(&self.comm, self.tags.whole)?), local];
        Ok(())
    }

    /// Advances the agreement; returns the number once all have agreed.
    fn advance(&mut self, held: &LaneGuard, process: &Process) -> Result<Option<Serial>> {
        let is_over =
            |part: &collective::Maximum| completion::is_complete(held, process, part.request).unwrap_or(true);
        if !self.round.iter().flatten().all(is_over) {
            return Ok(None);
        }
        let mut highest = 0;
        for part in self.round.iter_mut().filter_map(Option::take) {
            highest = highest.max(part.finish(held, process)?);
        }
        match advance(held, process, &mut self.agreement, highest) {
            Next::Agreed(serial) => Ok(Some(serial)),
            Next::Maximum(value) => self.start_round(held, process, value).map(|()| None),
        }
    }
}

impl Activity for Duplicate {
    fn advance(mut self: Box<Self>, held: &LaneGuard, _: &Messenger, _: bool) -> Option<Box<dyn Activity>> {
        let process = started();
        let end = match self.go_on(held, process) {
            Ok(false) => return Some(self),
            end => end.err(),
        };
        process.messages.borrow_mut(held).state.requests.complete(self.request, end);
        None
    }
}

impl Duplicate {
    /// Advances the duplicate; returns true if it is complete.
    fn go_on(&mut self, held: &LaneGuard, process: &Process) -> Result<bool> {
        let Some(serial) = self.background.advance(held, process)? else { return Ok(false) };
        let local = self.new.inter.as_ref().filter(|_| self.background.comm.inter.is_none());
        let made = local.map_or(&self.new, |inter| &inter.local);
        if self.wanted {
            made.open(held, process, serial);
        }
        let is_over = local.is_none();
        if !is_over {
            self.background = Background::begin(held, process, &self.comm, self.tags)?;
        }
        Ok(is_over)
    }
}

impl Communicator {
    /// Releases the program's reference (MPI_Comm_free). Messages in transit still arrive.
    ///
    /// # Errors
    /// Returns the code of a delete callback of an attribute that failed; the communicator then stays.
    pub fn free(&self, held: &LaneGuard, process: &Process) -> Result<()> {
        self.attributes.delete_all(held, self.handle())?;
        for part in self.collectives.parts(held) {
            part.free(held, process)?;
        }
        let mut communicators = process.library.communicators.borrow_mut(held);
        communicators.remove(&self.context().0);
        self.inter.iter().for_each(|inter| drop(communicators.remove(&inter.local.context().0)));
        drop(communicators);
        forget_gone(held, process);
        Ok(())
    }
}

/// Sends the subset of this side of an intercommunicator, and returns that of the other side.
///
/// # Errors
/// Returns the error of a message that failed.
fn other_group(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    mine: &Group,
) -> Result<Group> {
    let words = process.library.other_jobs.borrow(held).encode(mine);
    let theirs = WaitContext::new(held, process, comm).swap_bytes(words)?;
    process.library.other_jobs.borrow(held).decode(&theirs)
}

/// Makes the intercommunicator of the group of `comm` and another group, once all have agreed on its
/// number. `local` is for the library's use.
pub(crate) fn between(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    local: Arc<Communicator>,
    remote: Group,
    serial: Serial,
) -> Arc<Communicator> {
    let handler = comm.error_handler.borrow(held).clone();
    let inter = Some(Inter { remote: remote.with_origin(comm.group().origin()), local });
    let new = Communicator::new(None, comm.group().clone(), comm.rank(), inter, handler);
    new.publish(held, process, serial)
}
