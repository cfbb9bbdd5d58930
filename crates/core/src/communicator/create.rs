//! New communicators from old ones (MPI-5 section 7.4.2): duplicates and subsets.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tutti_base::{ContextId, Error, ErrorClass, Rank, Result, WorldRank};

use super::{Communicator, Inter};
use crate::collective::{self, Activity};
use crate::completion;
use crate::context::{Agreement, Next};
use crate::exchange::exchange;
use crate::giant::{self, Held};
use crate::group::Group;
use crate::info::Info;
use crate::process::Process;
use crate::request::{Request, RequestId, Status, Work};

/// Tag of the leaders of an intercommunicator among themselves.
const LEADER_TAG: i32 = 0;

/// MPI_Comm_dup and MPI_Comm_dup_with_info.
///
/// # Errors
/// The code that a copy callback of an attribute returned.
pub fn duplicate(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    info: Option<Info>,
) -> Result<Arc<Communicator>> {
    let context = agree(held, process, comm)?;
    let (new, failure) = copy_of(held, process, comm, info)?;
    match failure {
        None => Ok(new.publish(held, process, context)),
        Some(failure) => Err(failure),
    }
}

/// MPI_Comm_idup: the new communicator, usable once the request is complete. Intracommunicators agree in the
/// background; for intercommunicators the agreement is made at once.
///
/// # Errors
/// The code that a copy callback of an attribute returned.
pub fn start_duplicate(
    held: &mut Held,
    process: &Process,
    comm: &Arc<Communicator>,
    info: Option<Info>,
) -> Result<(Arc<Communicator>, RequestId)> {
    let (new, failure) = copy_of(held, process, comm, info)?;
    if comm.inter.is_some() {
        let context = agree(held, process, comm)?;
        failure.map_or(Ok(()), Err)?;
        let id = process.messages.borrow_mut(held).state.completed(Status::EMPTY, comm.context().0);
        return Ok((new.publish(held, process, context), id));
    }
    let (agreement, value) = Agreement::begin(&mut process.contexts.borrow_mut(held))?;
    let tag = comm.collectives.next_tag(held);
    let round = collective::start_maximum(held, process, comm, tag, value)?;
    let mut request = Request::new(Work::Other, comm.context().0);
    // The other members need this one to agree, also where its own duplicate comes to nothing.
    request.detached = failure.is_some();
    let id = process.messages.borrow_mut(held).state.insert(request);
    let new = Arc::new(new);
    let (wanted, comm) = (failure.is_none(), Arc::clone(comm));
    let duplicate = Duplicate { comm, new: Arc::clone(&new), wanted, tag, agreement, round, request: id };
    process.add_activity(held, Box::new(duplicate));
    match failure {
        None => Ok((new, id)),
        Some(failure) => Err(failure),
    }
}

/// MPI_Comm_create on an intracommunicator: `None` for who is not in `group`.
///
/// # Errors
/// `Group` when it is not a subset of the communicator's.
pub fn create(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    group: &Group,
) -> Result<Option<Arc<Communicator>>> {
    check_subset(comm, group)?;
    let context = agree(held, process, comm)?;
    let handler = comm.error_handler.borrow(held).clone();
    let Some(inter) = &comm.inter else {
        return Ok(group.rank_of(process.rank).map(|rank| {
            Communicator::new(None, group.clone(), rank, None, handler).publish(held, process, context)
        }));
    };
    // On an intercommunicator both sides name their own subset (MPI-5 section 7.4.2).
    let remote = collective::other_group(held, process, comm, group)?;
    let local = create(held, process, &inter.local, group)?;
    Ok(match (local, group.rank_of(process.rank)) {
        (Some(local), Some(rank)) if !remote.is_empty() => {
            let inter = Some(Inter { remote, local });
            Some(Communicator::new(None, group.clone(), rank, inter, handler).publish(held, process, context))
        }
        _ => None,
    })
}

/// MPI_Comm_create_group: collective over `group` only.
///
/// # Errors
/// `Group` when it is not a subset of the communicator's.
pub fn create_group(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    group: &Group,
    tag: i32,
) -> Result<Option<Arc<Communicator>>> {
    check_subset(comm, group)?;
    let Some(rank) = group.rank_of(process.rank) else { return Ok(None) };
    let handler = comm.error_handler.borrow(held).clone();
    let mut among = Communicator::new(Some(comm.context()), group.clone(), rank, None, handler.clone());
    among.collectives = collective::Collectives::outside(tag);
    let context = agree(held, process, &among)?;
    Ok(Some(Communicator::new(None, group.clone(), rank, None, handler).publish(held, process, context)))
}

/// A communicator of the same group for the library's own use: no attributes, no hints.
pub(crate) fn duplicate_bare(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
) -> Result<Arc<Communicator>> {
    let context = agree(held, process, comm)?;
    let handler = comm.error_handler.borrow(held).clone();
    Ok(Communicator::new(None, comm.group().clone(), comm.rank(), None, handler)
        .publish(held, process, context))
}

/// Agrees with all members of `comm` (both groups of an intercommunicator) on a context.
pub(super) fn agree(held: &mut Held, process: &Process, comm: &Communicator) -> Result<ContextId> {
    agree_by(held, process, |held, value| maximum(held, process, comm, value))
}

/// Agrees on a context; `maximum` takes the maximum over all that take part.
pub(crate) fn agree_by(
    held: &mut Held,
    process: &Process,
    mut maximum: impl FnMut(&mut Held, u32) -> Result<u32>,
) -> Result<ContextId> {
    let (mut agreement, mut value) = Agreement::begin(&mut process.contexts.borrow_mut(held))?;
    loop {
        let highest = maximum(held, value)?;
        match agreement.advance(&mut process.contexts.borrow_mut(held), highest) {
            Next::Maximum(next) => value = next,
            Next::Agreed(context) => return Ok(context),
        }
    }
}

/// The maximum over all members of `comm`, of both groups of an intercommunicator.
pub(super) fn maximum(held: &mut Held, process: &Process, comm: &Communicator, value: u32) -> Result<u32> {
    let Some(inter) = &comm.inter else { return collective::maximum(held, process, comm, value) };
    let own = collective::maximum(held, process, &inter.local, value)?;
    let mut highest = own.to_le_bytes().to_vec();
    if comm.rank == Rank(0) {
        let theirs = exchange(held, process, comm, Rank(0), LEADER_TAG, highest.clone())?;
        let theirs = theirs.try_into().map_or(own, u32::from_le_bytes);
        highest = own.max(theirs).to_le_bytes().to_vec();
    }
    collective::broadcast_bytes(held, process, &inter.local, Rank(0), &mut highest)?;
    Ok(highest.try_into().map_or(own, u32::from_le_bytes))
}

impl Communicator {
    /// Makes a communicator known under its context.
    pub(super) fn publish(self, held: &Held, process: &Process, context: ContextId) -> Arc<Communicator> {
        let comm = Arc::new(self);
        comm.open(held, process, context);
        comm
    }

    /// The lane that all members find for this context: they have said whether they communicate in lanes before they could
    /// take part in the agreement.
    fn lane_for(&self, process: &Process, context: ContextId) -> u32 {
        let further = giant::lanes() - 1;
        let is_in_lanes = |world: WorldRank| {
            let local = process.local_rank(world);
            local.is_some_and(|local| process.job.block(local).in_lanes.load(Ordering::Acquire) != 0)
        };
        let all = || (0..self.size()).all(|rank| self.group.get(Rank(rank)).is_some_and(is_in_lanes));
        if further == 0 || self.inter.is_some() || !all() { 0 } else { 1 + context.0 % further }
    }

    fn open(self: &Arc<Self>, held: &Held, process: &Process, context: ContextId) {
        self.context.store(context.0, Ordering::Relaxed);
        self.lane.store(self.lane_for(process, context), Ordering::Relaxed);
        if let Some(inter) = &self.inter {
            // Numbers of processes of other jobs are not the same everywhere, names are.
            let names = process.dynamic.borrow(held);
            let first = |group: &Group| group.get(Rank(0)).map(|member| names.name(member));
            self.is_first.store(first(&self.group) < first(&inter.remote), Ordering::Relaxed);
        }
        process.communicators.borrow_mut(held).insert(context.0, Arc::clone(self));
    }
}

/// A copy; with the error of a copy callback it lacks attributes, and is only good for agreeing with the other members.
fn copy_of(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    info: Option<Info>,
) -> Result<(Communicator, Option<Error>)> {
    let inter = match &comm.inter {
        None => None,
        Some(inter) => {
            let local = duplicate(held, process, &inter.local, None)?;
            Some(Inter { remote: inter.remote.clone(), local })
        }
    };
    let handler = comm.error_handler.borrow(held).clone();
    let new = Communicator::new(None, comm.group.clone(), comm.rank, inter, handler);
    let copied = comm.attributes.duplicate(held, comm.handle());
    let failure = copied.map(|copies| new.attributes.adopt(held, copies)).err();
    let info = info.unwrap_or_else(|| comm.info.borrow(held).clone());
    *new.info.borrow_mut(held) = info;
    // A duplicate has the topology too (MPI-5 section 7.4.2).
    comm.topology.get().into_iter().for_each(|topology| new.arrange(Arc::clone(topology)));
    Ok((new, failure))
}

fn check_subset(comm: &Communicator, group: &Group) -> Result<()> {
    match group.iter().find(|member| !comm.group.contains(*member)) {
        None => Ok(()),
        Some(stranger) => Err(Error::new(
            ErrorClass::Group,
            format!("argument group contains rank {stranger} of the world, which is not in the communicator"),
        )),
    }
}

/// A duplicate being made in the background.
#[derive(Debug)]
struct Duplicate {
    comm: Arc<Communicator>,
    new: Arc<Communicator>,
    /// A copy callback has not failed here.
    wanted: bool,
    /// The number of the operation, taken when it was called for.
    tag: i32,
    agreement: Agreement,
    round: collective::Maximum,
    request: RequestId,
}

impl Activity for Duplicate {
    fn advance(mut self: Box<Self>, held: &Held, process: &Process, _: bool) -> Option<Box<dyn Activity>> {
        if self.go_on(held, process) { None } else { Some(self) }
    }
}

impl Duplicate {
    /// Whether it is over.
    fn go_on(&mut self, held: &Held, process: &Process) -> bool {
        if !completion::is_complete(held, process, self.round.request).unwrap_or(true) {
            return false;
        }
        let highest = match self.round.finish(held, process) {
            Ok(highest) => highest,
            Err(error) => return self.end(held, process, Some(error)),
        };
        let next = self.agreement.advance(&mut process.contexts.borrow_mut(held), highest);
        match next {
            Next::Agreed(context) => {
                if self.wanted {
                    self.new.open(held, process, context);
                }
                self.end(held, process, None)
            }
            Next::Maximum(value) => {
                match collective::start_maximum(held, process, &self.comm, self.tag, value) {
                    Ok(round) => {
                        self.round = round;
                        false
                    }
                    Err(error) => self.end(held, process, Some(error)),
                }
            }
        }
    }
}

impl Duplicate {
    fn end(&self, held: &Held, process: &Process, error: Option<Error>) -> bool {
        process.messages.borrow_mut(held).state.requests.complete(self.request, error);
        true
    }
}
