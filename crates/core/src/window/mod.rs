//! Windows: one-sided communication (MPI-5 chapter 12).
//!
//! Whoever can reach a target's memory does what is asked for itself, so that the target need not be in MPI: memory that the
//! library allocated, or that is shared already, is mapped in every process of the node; other memory of the node is
//! read and written by the system's calls. What is out of reach, on other hosts, is asked for by active messages
//! ([`wire`]), which the target does in the order of their origin whenever it is in MPI. The public functions choose by
//! the place of each target ([`memory::WindowPlace`]).
//!
//! Accumulates are combined by the origin under a lock of the target in shared memory, also by the target itself where it does so for
//! another host, so all are atomic with each other, whatever their types and operators. Locks, posts
//! and completions are words in shared memory too (`tutti_transport::window`); who waits for one sleeps as in any wait of
//! the library, and is woken by whoever changes it.
//!
//! Files: `create` makes and frees windows, `epoch` knows what is allowed when, `access` has the operations,
//! `sync` the synchronisation, `polls` what calls do that have nothing to wait for, `remote` the origin's
//! half of active messages, `serve` the target's. Where the system refuses in the middle of a job what it has
//! let an origin do before, the origin goes over to messages (`access`).

pub mod access;
pub mod create;
pub mod epoch;
pub mod memory;
mod polls;
mod remote;
pub(crate) mod serve;
pub mod sync;
pub mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicUsize, Ordering};

use tutti_base::{Error, ErrorClass, Rank, Result, WorldRank};
use tutti_sys::job::Slot;
use tutti_transport::exposure::Record;
use tutti_transport::shm::ring_doorbell;
pub use tutti_transport::window::turnstile::Kind as LockKind;
use tutti_transport::window::turnstile::Ticket;
use tutti_transport::window::{Control, Station};

use crate::attributes::Attributes;
use crate::communicator::Communicator;
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::hints::Hints;
use crate::info::Info;
use crate::lanes::{FirstLaneCell, Lane, LaneGuard};
use crate::memory_kinds;
use crate::messenger::Messenger;
use crate::names::ObjectName;

use access::Bound;
use epoch::Epochs;
use memory::{Base, WindowPlace};
use polls::Polls;
use remote::Remote;

/// How a window got its memory (the attribute MPI_WIN_CREATE_FLAVOR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Flavor {
    /// MPI_Win_create.
    Create = 311,
    /// MPI_Win_allocate.
    Allocate = 312,
    /// MPI_Win_create_dynamic.
    Dynamic = 313,
    /// MPI_Win_allocate_shared.
    Shared = 314,
}

/// A window. Shared by handles and by what serves it.
#[derive(Debug)]
pub struct Window {
    /// Of its own: for its barriers and active messages.
    comm: Arc<Communicator>,
    flavor: Flavor,
    members: Box<[Member]>,
    control: Control,
    /// The own number among the members that share `control`.
    station: u32,
    /// The local ranks of these members.
    near: Box<[u32]>,
    /// How often to look at the lock of an accumulate before sleeping.
    looks: u32,
    /// Whether operators apply to types by the letter of the standard only.
    checks_types: bool,
    /// The own memory.
    own: Base,
    slot: FirstLaneCell<Option<Slot>>,
    loan: FirstLaneCell<Option<Record>>,
    epochs: FirstLaneCell<Epochs<Lock>>,
    counts: FirstLaneCell<Counts>,
    remote: FirstLaneCell<Remote>,
    /// Whether the last access was an accumulate that this process did itself and no flush has followed: nothing is left to be ordered.
    is_ordered: AtomicBool,
    /// Calls that have nothing to wait for.
    polls: Polls,
    /// How often all members have waited for each other.
    meetings: FirstLaneCell<u32>,
    /// The operator of the last accumulate.
    bound: FirstLaneCell<Option<Bound>>,
    /// Memory attached to a dynamic window, as (address, bytes).
    attached: FirstLaneCell<Vec<(u64, u64)>>,
    /// Its service is among the activities of the process.
    is_at_work: AtomicBool,
    handle: AtomicUsize,
    /// Values of predefined attributes, which programs get the addresses of.
    pub facts: Facts,
    /// Attributes that the program sets.
    pub attributes: Attributes,
    /// The name.
    pub name: FirstLaneCell<ObjectName>,
    /// What happens on errors.
    pub error_handler: FirstLaneCell<ErrorHandler>,
    /// Hints.
    hints: FirstLaneCell<Hints>,
}

/// Values of predefined attributes (MPI-5 section 12.2.6).
#[derive(Debug)]
pub struct Facts {
    /// MPI_WIN_BASE: the address itself.
    pub base: usize,
    /// MPI_WIN_SIZE.
    pub size: AtomicI64,
    /// MPI_WIN_DISP_UNIT.
    pub unit: AtomicI32,
    /// MPI_WIN_CREATE_FLAVOR.
    pub flavor: AtomicI32,
    /// MPI_WIN_MODEL.
    pub model: AtomicI32,
}

/// What is known of the memory of a member.
#[derive(Debug)]
struct Member {
    place: WindowPlace,
    /// Its number among those that share the control, if it does.
    station: Option<u32>,
    bytes: u64,
    unit: i64,
    /// The system has refused access to its memory, which it had let this process at before: it is asked by message.
    refused: AtomicBool,
}

/// By what a lock is held.
#[derive(Clone, Copy, Debug)]
enum Lock {
    /// MPI_MODE_NOCHECK, or nobody is behind it.
    Nothing,
    /// A place in the queue of the target.
    Ticket(Ticket),
    /// The target has it in its books.
    Message,
}

/// What has been awaited so far, modulo 2^32.
#[derive(Debug, Default)]
struct Counts {
    /// Posts by the members that share the control, by station; as far as this process has waited for any.
    posts: Vec<u32>,
    /// Completed access epochs to the own memory.
    completed: u32,
    /// Ranks to which the own memory is posted.
    origins: Vec<u32>,
}

/// The model that all windows have: MPI_WIN_UNIFIED.
const UNIFIED: i32 = 321;

impl Member {
    /// Where its memory is now.
    #[inline(always)]
    fn place(&self) -> &WindowPlace {
        match &self.place {
            WindowPlace::Lent(_) if self.refused.load(Ordering::Relaxed) => &WindowPlace::Message,
            place => place,
        }
    }
}

impl Window {
    /// The group.
    pub fn group(&self) -> &Group {
        self.comm.group()
    }

    /// How it got its memory.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Takes over the hints that the info object names (MPI_Win_set_info).
    pub fn set_info(&self, held: &LaneGuard, info: &Info) {
        self.hints.borrow_mut(held).update(info);
    }

    /// Returns the hints in use (MPI_Win_get_info).
    pub fn info(&self, held: &LaneGuard) -> Info {
        let mut info = self.hints.borrow(held).in_use();
        memory_kinds::add_to(&mut info, held, self.group().origin());
        info
    }

    /// The number by which the program knows it.
    pub fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// Gives it that number.
    pub fn set_handle(&self, handle: usize) {
        self.handle.store(handle, Ordering::Relaxed);
    }

    /// Memory of a member as this process may load and store it: address, length and displacement unit; no address where it cannot.
    /// Without a rank, that of the first member that has any (MPI-5 section 12.2.3).
    ///
    /// # Errors
    /// `Rank`, naming the argument.
    pub fn query(&self, rank: Option<i32>) -> Result<(usize, u64, i64)> {
        let member = match rank {
            Some(rank) => &self.members[self.member(rank, "rank")? as usize],
            None => self.members.iter().find(|member| member.bytes > 0).unwrap_or(&self.members[0]),
        };
        match member.place {
            WindowPlace::Here(base) if self.flavor != Flavor::Dynamic => {
                Ok((base.address(), member.bytes, member.unit))
            }
            _ => Ok((0, 0, member.unit)),
        }
    }

    /// The member that `rank` names.
    ///
    /// # Errors
    /// `Rank`, naming the argument.
    #[inline(always)]
    fn member(&self, rank: i32, argument: &str) -> Result<u32> {
        // Negative ones are large as unsigned numbers.
        if (rank as u32 as usize) < self.members.len() {
            Ok(rank as u32)
        } else {
            Err(self.wrong_rank(rank, argument))
        }
    }

    #[cold]
    fn wrong_rank(&self, rank: i32, argument: &str) -> Error {
        let last = self.members.len() - 1;
        let reason = format!("argument {argument} is {rank}; it must be 0 to {last} or MPI_PROC_NULL");
        Error::new(ErrorClass::Rank, reason)
    }

    fn rank(&self) -> u32 {
        self.comm.rank().0
    }

    fn world(&self, rank: u32) -> WorldRank {
        self.comm.group().get(Rank(rank)).expect("a member of the window")
    }

    /// The station of a member that shares the control.
    #[inline(always)]
    fn station_of(&self, station: u32) -> &Station {
        self.control.station(station)
    }

    /// Wakes a member of this node, if it sleeps.
    fn wake(&self, messenger: &Messenger, station: u32) {
        // A name in a turnstile is a hint.
        if let Some(local) = self.near.get(station as usize) {
            ring_doorbell(&messenger.job, *local, Lane::FIRST.number());
        }
    }

    /// Wakes those whose turn it is at the lock of a member.
    fn wake_next(&self, messenger: &Messenger, station: u32) {
        self.station_of(station).door.next_in_turn().for_each(|next| self.wake(messenger, next));
    }

    /// MPI_Win_attach.
    ///
    /// # Errors
    /// `RmaFlavor` for a window that is not dynamic, `RmaAttach` for memory that is attached already.
    pub fn attach(&self, held: &LaneGuard, address: u64, bytes: u64) -> Result<()> {
        self.is_dynamic("MPI_Win_attach")?;
        let mut attached = self.attached.borrow_mut(held);
        let end = address.checked_add(bytes);
        let end =
            end.ok_or_else(|| Error::new(ErrorClass::Size, "argument size is beyond the address space"))?;
        if attached.iter().any(|(start, length)| address < start + length && *start < end) {
            return Err(Error::new(
                ErrorClass::RmaAttach,
                "argument base: part of the memory is attached already",
            ));
        }
        attached.push((address, bytes));
        Ok(())
    }

    /// MPI_Win_detach.
    ///
    /// # Errors
    /// `RmaFlavor` for a window that is not dynamic, `RmaAttach` for memory that is not attached.
    pub fn detach(&self, held: &LaneGuard, address: u64) -> Result<()> {
        self.is_dynamic("MPI_Win_detach")?;
        let mut attached = self.attached.borrow_mut(held);
        let place = attached.iter().position(|(start, _)| *start == address);
        let place = place.ok_or_else(|| {
            Error::new(ErrorClass::RmaAttach, "argument base is not the beginning of memory that is attached")
        })?;
        attached.swap_remove(place);
        Ok(())
    }

    fn is_dynamic(&self, function: &str) -> Result<()> {
        if self.flavor == Flavor::Dynamic {
            return Ok(());
        }
        let reason = format!("argument win: {function} is for windows of MPI_Win_create_dynamic");
        Err(Error::new(ErrorClass::RmaFlavor, reason))
    }
}
