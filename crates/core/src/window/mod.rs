//! Windows: one-sided communication (MPI-5 chapter 12).
//!
//! An origin that can reach the memory of a target performs its operations itself, so the target need not be
//! in MPI. The path depends on the target ([`memory::WindowPlace`]):
//!
//! | memory of the target | path |
//! |---|---|
//! | allocated by the library, or already shared | mapped in every process of the node |
//! | other memory of the node | read and written by system calls |
//! | out of reach, on other hosts | active messages ([`wire`]) |
//!
//! The target executes the active messages of one origin in order, whenever it is in MPI. If the system
//! refuses an access that it allowed before, the origin switches to messages (`access`).
//!
//! The origin performs accumulates under a lock of the target in shared memory. A target that performs them
//! for another host takes the same lock. So all accumulates are atomic with each other, whatever their types
//! and operators. Locks, posts and completions are words in shared memory too (`tutti_transport::window`). A
//! process that waits for one sleeps as in any wait of the library. The process that changes the word wakes
//! it.
//!
//! | file | content |
//! |---|---|
//! | `create` | creation and freeing of windows |
//! | `epoch` | rules for the calls that are allowed at each time |
//! | `access` | communication operations |
//! | `sync` | synchronisation calls |
//! | `polls` | detection of programs that poll by synchronisation calls |
//! | `remote`, `serve` | the origin's and the target's half of active messages |

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

/// Kind of a window, by the origin of its memory (the attribute MPI_WIN_CREATE_FLAVOR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Flavor {
    /// Memory of the program, by MPI_Win_create.
    Create = 311,
    /// Memory allocated by MPI_Win_allocate.
    Allocate = 312,
    /// Memory attached later, by MPI_Win_create_dynamic.
    Dynamic = 313,
    /// Shared memory allocated by MPI_Win_allocate_shared.
    Shared = 314,
}

/// Window, shared by its handles and its service.
#[derive(Debug)]
pub struct Window {
    /// Communicator of this window only, for its barriers and active messages.
    comm: Arc<Communicator>,
    flavor: Flavor,
    members: Box<[Member]>,
    control: Control,
    /// Number of this process among the members that share `control`.
    station: u32,
    /// Local ranks of the members that share `control`, by station.
    near: Box<[u32]>,
    /// Number of attempts to take the lock of an accumulate before sleeping.
    looks: u32,
    /// True if operators are checked strictly against the types that the standard allows.
    checks_types: bool,
    /// Start of the own memory.
    own: Base,
    slot: FirstLaneCell<Option<Slot>>,
    loan: FirstLaneCell<Option<Record>>,
    epochs: FirstLaneCell<Epochs<Lock>>,
    counts: FirstLaneCell<Counts>,
    remote: FirstLaneCell<Remote>,
    /// True if the last access was an accumulate by this process itself, without a flush since. Then a flush
    /// needs no fence.
    is_ordered: AtomicBool,
    /// Detection of synchronisation calls by which a program polls.
    polls: Polls,
    /// Number of barriers of all members so far.
    meetings: FirstLaneCell<u32>,
    /// Operator and type of the last accumulate.
    bound: FirstLaneCell<Option<Bound>>,
    /// Memory attached to a dynamic window, as (address, bytes).
    attached: FirstLaneCell<Vec<(u64, u64)>>,
    /// True while the window's service is among the progress handlers of the process.
    is_at_work: AtomicBool,
    handle: AtomicUsize,
    /// Values of predefined attributes, whose addresses are passed to programs.
    pub facts: Facts,
    /// Attributes set by the program.
    pub attributes: Attributes,
    /// Name set by the program.
    pub name: FirstLaneCell<ObjectName>,
    /// Error handler of the window.
    pub error_handler: FirstLaneCell<ErrorHandler>,
    /// Hints that are in use.
    hints: FirstLaneCell<Hints>,
}

/// Values of predefined attributes (MPI-5 section 12.2.6).
#[derive(Debug)]
pub struct Facts {
    /// Value of MPI_WIN_BASE: the address of the own memory.
    pub base: usize,
    /// Value of MPI_WIN_SIZE, in bytes.
    pub size: AtomicI64,
    /// Value of MPI_WIN_DISP_UNIT, in bytes.
    pub unit: AtomicI32,
    /// Value of MPI_WIN_CREATE_FLAVOR: a `Flavor`.
    pub flavor: AtomicI32,
    /// Value of MPI_WIN_MODEL: always MPI_WIN_UNIFIED.
    pub model: AtomicI32,
}

/// Location and size of a member's memory.
#[derive(Debug)]
struct Member {
    place: WindowPlace,
    /// Number of the member among those that share the control; None for others.
    station: Option<u32>,
    bytes: u64,
    unit: i64,
    /// True if the system has refused access to its memory, which it allowed before. Messages are used from
    /// then on.
    refused: AtomicBool,
}

/// Kind of a lock that this process holds.
#[derive(Clone, Copy, Debug)]
enum Lock {
    /// No lock: MPI_MODE_NOCHECK was given.
    Nothing,
    /// Position in the target's queue in shared memory.
    Ticket(Ticket),
    /// Lock that the target took on behalf of this process, requested by message.
    Message,
}

/// Numbers of events that were awaited so far, modulo 2^32.
#[derive(Debug, Default)]
struct Counts {
    /// Posts by the members that share the control, by station. It is as long as this process has needed so
    /// far.
    posts: Vec<u32>,
    /// Completed access epochs to the own memory.
    completed: u32,
    /// Ranks in the window to which the own memory is posted.
    origins: Vec<u32>,
}

/// Memory model of all windows: MPI_WIN_UNIFIED.
const UNIFIED: i32 = 321;

impl Member {
    /// Returns the current path to the member's memory.
    #[inline(always)]
    fn place(&self) -> &WindowPlace {
        match &self.place {
            WindowPlace::Lent(_) if self.refused.load(Ordering::Relaxed) => &WindowPlace::Message,
            place => place,
        }
    }
}

impl Window {
    /// Returns the group of the window.
    pub fn group(&self) -> &Group {
        self.comm.group()
    }

    /// Returns the kind of the window.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Adopts the hints of an info object (MPI_Win_set_info).
    pub fn set_info(&self, held: &LaneGuard, info: &Info) {
        self.hints.borrow_mut(held).update(info);
    }

    /// Returns the hints in use (MPI_Win_get_info).
    pub fn info(&self, held: &LaneGuard) -> Info {
        let mut info = self.hints.borrow(held).in_use();
        memory_kinds::add_to(&mut info, held, self.group().origin());
        info
    }

    /// Returns the handle by which the program refers to the window.
    pub fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    /// Sets the handle by which the program refers to the window.
    pub fn set_handle(&self, handle: usize) {
        self.handle.store(handle, Ordering::Relaxed);
    }

    /// Returns address, length and displacement unit of a member's memory as this process may load and store
    /// it. The address is 0 if it cannot. Without a rank, the first member with memory is used (MPI-5 section
    /// 12.2.3).
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

    /// Checks the rank of a member.
    ///
    /// # Errors
    /// `Rank`, naming the argument.
    #[inline(always)]
    fn member(&self, rank: i32, argument: &str) -> Result<u32> {
        // Negative ranks become large unsigned numbers.
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

    /// Returns the station of a member that shares the control.
    #[inline(always)]
    fn station_of(&self, station: u32) -> &Station {
        self.control.station(station)
    }

    /// Wakes a member of this node if it sleeps.
    fn wake(&self, messenger: &Messenger, station: u32) {
        // Stations in a lock's queue are hints, so one may be out of range.
        if let Some(local) = self.near.get(station as usize) {
            ring_doorbell(&messenger.job, *local, Lane::FIRST.number());
        }
    }

    /// Wakes the members that are next at the lock of a member.
    fn wake_next(&self, messenger: &Messenger, station: u32) {
        self.station_of(station).door.next_in_turn().for_each(|next| self.wake(messenger, next));
    }

    /// Attaches memory to a dynamic window (MPI_Win_attach).
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

    /// Detaches memory from a dynamic window (MPI_Win_detach).
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

    /// Checks that the window is dynamic.
    fn is_dynamic(&self, function: &str) -> Result<()> {
        if self.flavor == Flavor::Dynamic {
            return Ok(());
        }
        let reason = format!("argument win: {function} is for windows of MPI_Win_create_dynamic");
        Err(Error::new(ErrorClass::RmaFlavor, reason))
    }
}
