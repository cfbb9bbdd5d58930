//! Sessions (MPI-5 section 11.3): use of the library without the world model.
//!
//! All sessions share the [`Process`]; communicators isolate them. The process sets are the job, the process
//! itself, the ranks of a program, and the ranks of a host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use tutti_base::{Error, ErrorClass, Result, WorldRank};
use tutti_sys::job::RankBlock;

use crate::attached::{Attached, AttachmentPlace, OF_PROCESS};
use crate::communicator::Communicator;
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::host::ThreadLevel;
use crate::info::Info;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::memory_kinds;
pub use crate::origin::Origin;
use crate::process::Process;

/// Process sets that every implementation has (MPI-5 section 11.3.2).
const STANDARD_SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];
/// Prefix of the names of the sets for a program's ranks; its number in the job follows.
const PROGRAM_SET: &str = "tutti://app/";
/// Prefix of the name of the set for this host's ranks; the name of the host follows.
const HOST_SET: &str = "tutti://host/";

/// Open session of the process.
#[derive(Debug)]
pub struct Session {
    /// Origin of the groups of this session.
    pub origin: Origin,
    /// Error handler of the session.
    pub error_handler: FirstLaneCell<ErrorHandler>,
    /// Thread level that the session provides.
    pub level: ThreadLevel,
    /// Attached buffer for buffered sends, if any.
    pub buffer: Arc<AttachmentPlace>,
}

/// Number of sessions that were opened in this process so far.
static OPENED: AtomicU32 = AtomicU32::new(0);
/// Sessions that are open now.
static OPEN: FirstLaneCell<Vec<Open>> = FirstLaneCell::new(Vec::new());

/// Open session, for code without a handle of it.
#[derive(Debug)]
struct Open {
    origin: Origin,
    level: ThreadLevel,
    buffer: Arc<AttachmentPlace>,
}

impl Session {
    /// Opens a session and requests its kinds of memory.
    pub fn open(held: &LaneGuard, error_handler: ErrorHandler, info: &Info, level: ThreadLevel) -> Session {
        let buffer = Arc::new(AttachmentPlace::new());
        let origin = Origin::numbered(1 + OPENED.fetch_add(1, Ordering::Relaxed));
        memory_kinds::request(held, origin, info.text(memory_kinds::KEY));
        let mut open = OPEN.borrow_mut(held);
        open.push(Open { origin, level, buffer: Arc::clone(&buffer) });
        note_levels(&open);
        Session { origin, error_handler: FirstLaneCell::new(error_handler), level, buffer }
    }

    /// Closes the session after the messages in its buffer are sent.
    pub fn close(&self, held: &mut LaneGuard, process: &Process) {
        self.buffer.flush(held, process);
        let mut open = OPEN.borrow_mut(held);
        open.retain(|open| open.origin != self.origin);
        note_levels(&open);
        memory_kinds::forget(held, self.origin);
    }
}

/// Returns true if a session is open.
pub fn are_open(held: &LaneGuard) -> bool {
    !OPEN.borrow(held).is_empty()
}

/// Thread level of a session that requests none. The standard advises against MPI_THREAD_SINGLE, which other
/// components of a program may not be able to accept. A higher level would lock in every call.
pub const DEFAULT_LEVEL: ThreadLevel = ThreadLevel::Serialized;

/// Highest level of the open sessions, for MPI_Query_thread, which holds no lane.
static HIGHEST: AtomicU8 = AtomicU8::new(DEFAULT_LEVEL as u8);

/// Updates the highest level after a session was opened or closed.
fn note_levels(open: &[Open]) {
    let highest = open.iter().map(|open| open.level).max().unwrap_or(DEFAULT_LEVEL);
    HIGHEST.store(highest as u8, Ordering::Relaxed);
}

/// Returns the highest level of the sessions that are open. Any thread may ask at any time.
pub fn highest_level() -> ThreadLevel {
    const ALL: [ThreadLevel; 4] =
        [ThreadLevel::Single, ThreadLevel::Funneled, ThreadLevel::Serialized, ThreadLevel::Multiple];
    ALL[usize::from(HIGHEST.load(Ordering::Relaxed))]
}

/// Returns the buffer that a buffered send on a communicator uses (MPI-5 section 3.6). It is the
/// communicator's own, otherwise that of its session, otherwise that of the process.
///
/// # Errors
/// `Buffer` when none is attached.
pub fn attached(held: &LaneGuard, comm: &Communicator) -> Result<Arc<Attached>> {
    let origin = comm.group().origin();
    let of_session = || {
        let open = OPEN.borrow(held);
        open.iter().find(|open| open.origin == origin).and_then(|open| open.buffer.current(held))
    };
    let found = comm.buffer.current(held).or_else(of_session).or_else(|| OF_PROCESS.current(held));
    found.ok_or_else(|| Error::new(ErrorClass::Buffer, "no buffer is attached; call MPI_Buffer_attach first"))
}

/// Returns the names of the process sets: the standard ones, then one for each program of the job and one for
/// this host. The programs of ranks on other hosts are unknown, so jobs on several hosts have no sets for
/// programs.
pub fn process_sets(process: &Process) -> Vec<String> {
    let mut names: Vec<String> = STANDARD_SETS.iter().map(ToString::to_string).collect();
    let mut programs: Vec<u32> = if process.job.header().has_other_hosts() {
        Vec::new()
    } else {
        locals(process).map(|(_, block)| block.app_number.load(Ordering::Relaxed)).collect()
    };
    programs.sort_unstable();
    programs.dedup();
    names.extend(programs.iter().map(|program| format!("{PROGRAM_SET}{program}")));
    names.push(format!("{HOST_SET}{}", tutti_sys::process::host_name()));
    names
}

/// Returns the world ranks of this host's ranks, with their blocks in the job object.
fn locals(process: &Process) -> impl Iterator<Item = (WorldRank, &RankBlock)> {
    let job = &process.job;
    (0..job.header().local_ranks).map(|local| (WorldRank(job.world_rank(local)), job.block(local)))
}

/// Returns the group of a process set, with the world as origin.
///
/// # Errors
/// `Arg` if there is no set of this name.
pub fn process_set(process: &Process, name: &[u8]) -> Result<Group> {
    let known = process_sets(process);
    let given = String::from_utf8_lossy(name);
    // Names are URIs, whose host part is case-insensitive (RFC 3986, section 3.2.2).
    let Some(name) = known.iter().find(|name| name.eq_ignore_ascii_case(&given)) else {
        let reason = format!("there is no process set {given:?}; give one of {known:?}");
        return Err(Error::new(ErrorClass::Arg, reason));
    };
    let runs = |number: u32| {
        locals(process).filter(move |(_, block)| block.app_number.load(Ordering::Relaxed) == number)
    };
    Ok(match name.strip_prefix(PROGRAM_SET).and_then(|number| number.parse().ok()) {
        Some(number) => runs(number).map(|(rank, _)| rank).collect(),
        None if name == STANDARD_SETS[0] => process.library.world.group().clone(),
        None if name == STANDARD_SETS[1] => process.library.myself.group().clone(),
        None => locals(process).map(|(rank, _)| rank).collect(),
    })
}

/// Returns a tag for the messages that create a communicator from a group. Equal string tags give equal tags.
pub fn tag_of(string_tag: &[u8]) -> i32 {
    let hash = string_tag
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    (hash >> 33) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: &str, other: &str, same: bool) {
        assert!(tag_of(one.as_bytes()) >= 0);
        assert_eq!(tag_of(one.as_bytes()) == tag_of(other.as_bytes()), same, "{one} {other}");
    }

    #[test]
    fn tags_tell_string_tags_apart() {
        check("", "", true);
        check("org.example", "org.example", true);
        check("org.example", "org.exampld", false);
        check("", "a", false);
    }
}
