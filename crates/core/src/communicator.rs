//! Communicators: a context, one or two groups, and the objects that users attach to them (MPI-5 chapter
//! 7).
//!
//! This file holds the object itself, `collectives` its state for collective operations, and `neighbours`
//! the neighbours in its topology. [`crate::constructors`] makes new communicators,
//! [`crate::intercommunicator`] those between two groups.

pub mod collectives;
mod neighbours;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tutti_base::config::Config;
use tutti_base::{ContextId, Error, ErrorClass, Rank, Result, WorldRank};

use crate::attached::AttachmentPlace;
use crate::attributes::Attributes;
use crate::context::{LiveContext, Serial};
use crate::error_handler::ErrorHandler;
use crate::group::{Comparison, Group};
use crate::hints::{self, Hints};
use crate::info::Info;
use crate::lanes::{FirstLaneCell, Lane, LaneGuard};
use crate::memory_kinds;
use crate::names::ObjectName;
use crate::special::{ANY_SOURCE, PROC_NULL};
use crate::topology::Topology;

use collectives::Collectives;
use collectives::hints::CollectiveHints;

/// A communicator. Shared by handles, requests and schedules.
#[derive(Debug)]
pub struct Communicator {
    /// Context of its messages; unknown (`u32::MAX`) while a non-blocking duplicate is being made.
    pub(crate) context: AtomicU32,
    /// Number of the lane of its point-to-point messages, set with the context.
    pub(crate) lane: AtomicU32,
    /// Serial number, set when the members have agreed on it. Predefined communicators have none, nor have
    /// those that use the context of another one.
    pub(crate) owned: OnceLock<LiveContext>,
    /// Processes of the (local) group.
    pub(crate) group: Group,
    /// Rank of this process in the (local) group.
    pub(crate) rank: Rank,
    /// For an intercommunicator: the other group, and an intracommunicator of the own one.
    pub(crate) inter: Option<Inter>,
    /// True for the first of two groups, see [`Communicator::is_first`]; valid once the context is known.
    pub(crate) is_first: AtomicBool,
    /// Handle by which the program knows it; 0 if none.
    handle: AtomicUsize,
    /// Attributes that the user set.
    pub attributes: Attributes,
    /// Name that the user can set.
    pub name: FirstLaneCell<ObjectName>,
    /// Error handler of the communicator.
    pub error_handler: FirstLaneCell<ErrorHandler>,
    /// Hints from info objects.
    pub(crate) hints: FirstLaneCell<Hints>,
    /// Buffer attached for buffered sends (MPI-4.1).
    pub buffer: AttachmentPlace,
    /// State of its collective operations.
    pub collectives: Collectives,
    /// Topology, if it was made with one.
    pub(crate) topology: OnceLock<Arc<Topology>>,
}

/// The other half of an intercommunicator.
#[derive(Debug)]
pub struct Inter {
    /// Group of the processes on the other side.
    pub remote: Group,
    /// Intracommunicator of the processes on this side.
    pub local: Arc<Communicator>,
}

/// Process that a rank argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// No process (MPI_PROC_NULL).
    ProcNull,
    /// Any sender (MPI_ANY_SOURCE).
    Any,
    /// One particular process.
    Process(WorldRank),
}

/// Result of comparing two communicators (MPI-5 section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same object.
    Identical,
    /// The same groups in the same order.
    Congruent,
    /// The same members in another order.
    Similar,
    /// Groups with different members.
    Unequal,
}

/// Context of a communicator that is being made.
pub(crate) const UNKNOWN_CONTEXT: u32 = u32::MAX;

impl Communicator {
    /// Makes a communicator that exists from the start.
    pub(crate) fn predefined(
        context: ContextId,
        name: &str,
        group: Group,
        rank: Rank,
        handler: ErrorHandler,
    ) -> Arc<Communicator> {
        let comm = Communicator::new(Some(context), group, rank, None, handler);
        let named = Communicator { name: FirstLaneCell::new(ObjectName::new(name.as_bytes())), ..comm };
        Arc::new(named)
    }

    /// Makes a communicator that is not registered yet. Without a context it cannot communicate.
    pub(crate) fn new(
        context: Option<ContextId>,
        group: Group,
        rank: Rank,
        inter: Option<Inter>,
        error_handler: ErrorHandler,
    ) -> Communicator {
        Communicator {
            context: AtomicU32::new(context.map_or(UNKNOWN_CONTEXT, |context| context.0)),
            lane: AtomicU32::new(0),
            owned: OnceLock::new(),
            group,
            rank,
            inter,
            is_first: AtomicBool::new(true),
            handle: AtomicUsize::new(0),
            attributes: Attributes::default(),
            name: FirstLaneCell::new(ObjectName::EMPTY),
            error_handler: FirstLaneCell::new(error_handler),
            hints: FirstLaneCell::new(Hints::new(&hints::OF_COMMUNICATORS)),
            buffer: AttachmentPlace::new(),
            collectives: Collectives::default(),
            topology: OnceLock::new(),
        }
    }

    /// Returns the context of its messages.
    #[inline]
    pub fn context(&self) -> ContextId {
        ContextId(self.context.load(Ordering::Relaxed))
    }

    /// Returns the serial number, which no other communicator of a member has or had.
    pub fn serial(&self) -> Serial {
        self.owned.get().map_or(Serial(self.context().0.into()), |owned| owned.serial)
    }

    /// Returns the lane of its point-to-point messages. The first lane serves intercommunicators, and all
    /// communicators with a member that does not use lanes or is on another host.
    #[inline]
    pub fn lane(&self) -> Lane {
        Lane::numbered(self.lane.load(Ordering::Relaxed))
    }

    /// Returns the own rank in the (local) group.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Returns the (local) group.
    #[inline]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Returns the other half of an intercommunicator.
    #[inline]
    pub fn inter(&self) -> Option<&Inter> {
        self.inter.as_ref()
    }

    /// Returns the topology, if the communicator has one.
    #[inline]
    pub fn topology(&self) -> Option<&Topology> {
        self.topology.get().map(|topology| &**topology)
    }

    /// Sets the topology of a new communicator.
    pub(crate) fn arrange(&self, topology: Arc<Topology>) {
        self.topology.set(topology).expect("a communicator gets its topology where it is made");
    }

    /// Sets the hints that the info object contains; all others stay as they are (MPI-5 section 7.4.4).
    pub fn set_hints(&self, held: &LaneGuard, info: &Info) {
        self.hints.borrow_mut(held).update(info);
        self.collectives.wish(held, &CollectiveHints::from_info(info));
    }

    /// Returns the hints in use (MPI_Comm_get_info).
    pub fn info(&self, held: &LaneGuard, config: &Config) -> Info {
        let mut info = self.hints.borrow(held).in_use();
        memory_kinds::add_to(&mut info, held, self.group.origin());
        self.collectives.state.borrow(held).hints.add_to(&mut info, config);
        info
    }

    /// Returns the number of processes in the (local) group.
    #[inline]
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// Returns the group to which ranks in sends and receives refer.
    #[inline]
    pub fn peers(&self) -> &Group {
        self.inter.as_ref().map_or(&self.group, |inter| &inter.remote)
    }

    /// Returns true if the own group is the first of an intercommunicator's two groups. All members use the
    /// same order.
    #[inline]
    pub fn is_first(&self) -> bool {
        self.is_first.load(Ordering::Relaxed)
    }

    /// Returns the number of processes in both groups, or in the only one. Collective operations number
    /// them as one space, the first group's first.
    #[inline]
    pub fn everybody(&self) -> u32 {
        self.size() + self.inter.as_ref().map_or(0, |inter| inter.remote.size())
    }

    /// Returns the size of the first group of an intercommunicator; 0 for an intracommunicator.
    pub fn first_group(&self) -> u32 {
        match &self.inter {
            None => 0,
            Some(_) if self.is_first() => self.size(),
            Some(inter) => inter.remote.size(),
        }
    }

    /// Returns the number of the process with this rank in the own group, or with `remote` in the other
    /// one.
    #[inline]
    pub fn number(&self, rank: Rank, remote: bool) -> u32 {
        match &self.inter {
            Some(_) if self.is_first() == remote => self.first_group() + rank.0,
            _ => rank.0,
        }
    }

    /// Returns the process with this number in both groups.
    #[inline]
    pub fn process(&self, number: u32) -> Option<WorldRank> {
        let Some(inter) = &self.inter else { return self.group.get(Rank(number)) };
        let (first, second) =
            if self.is_first() { (&self.group, &inter.remote) } else { (&inter.remote, &self.group) };
        first.get(Rank(number)).or_else(|| second.get(Rank(number - first.size())))
    }

    /// Returns the handle by which the program knows the communicator; 0 if none.
    pub fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// Sets the handle of the communicator.
    pub fn set_handle(&self, handle: usize) {
        self.handle.store(handle, Ordering::Relaxed);
    }

    /// Returns the process that `rank` names as the destination of a message.
    ///
    /// # Errors
    /// Returns `Rank`, naming the argument and its range.
    #[inline]
    pub fn destination(&self, rank: i32) -> Result<Partner> {
        if let Some(world) = u32::try_from(rank).ok().and_then(|rank| self.peers().get(Rank(rank))) {
            return Ok(Partner::Process(world));
        }
        if rank == PROC_NULL { Ok(Partner::ProcNull) } else { Err(self.wrong_rank("dest", rank)) }
    }

    /// Returns the process that `rank` names as the source of a message.
    ///
    /// # Errors
    /// Returns `Rank`, naming the argument and its range.
    #[inline]
    pub fn source(&self, rank: i32) -> Result<Partner> {
        if let Some(world) = u32::try_from(rank).ok().and_then(|rank| self.peers().get(Rank(rank))) {
            return Ok(Partner::Process(world));
        }
        match rank {
            PROC_NULL => Ok(Partner::ProcNull),
            ANY_SOURCE => Ok(Partner::Any),
            _ => Err(self.wrong_rank("source", rank)),
        }
    }

    /// Compares this communicator with another one.
    pub fn compare(&self, other: &Communicator) -> Relation {
        if std::ptr::eq(self, other) {
            return Relation::Identical;
        }
        let remotes = match (&self.inter, &other.inter) {
            (None, None) => Comparison::Identical,
            (Some(own), Some(other)) => own.remote.compare(&other.remote),
            _ => return Relation::Unequal,
        };
        match (self.group.compare(&other.group), remotes) {
            (Comparison::Unequal, _) | (_, Comparison::Unequal) => Relation::Unequal,
            (Comparison::Identical, Comparison::Identical) => Relation::Congruent,
            _ => Relation::Similar,
        }
    }

    /// Makes the error of a rank argument outside the group.
    #[cold]
    fn wrong_rank(&self, argument: &str, rank: i32) -> Error {
        let last = i64::from(self.peers().size()) - 1;
        Error::new(
            ErrorClass::Rank,
            format!("argument {argument} is {rank}; it must be 0 to {last} or MPI_PROC_NULL"),
        )
    }
}
