//! Start, end, versions, time (MPI-5 chapters 9 and 11).

use std::collections::BTreeMap;
use std::ffi::{c_char, c_double, c_int};
use std::sync::OnceLock;
use std::thread::ThreadId;

use tutti_base::{ContextId, Error, ErrorClass, Result};
use tutti_core::host::ThreadLevel;
use tutti_core::info::Info as Entries;
use tutti_core::lanes::{FirstLaneCell, LaneGuard};
use tutti_core::lifecycle;
use tutti_core::process::{Process, name_of};
use tutti_core::{floating_point, progress, progress_thread, session, trace_file};

use super::memory::process;
use crate::entry::Call;
use crate::errors;
use crate::generated::constants::*;
use crate::handles::kind::{Comm, Datatype, Errhandler, File, Group, Info, Kind, Message, Op, Win};
use crate::handles::{self, Stored};
use crate::phase;
use crate::scope::{HandleOut, In, Out, TextOut};

/// The caller of MPI_Init or MPI_Init_thread, and the thread level that it was given.
struct World {
    level: ThreadLevel,
    main_thread: ThreadId,
}

static WORLD: OnceLock<World> = OnceLock::new();

/// Initialises the world model at level MPI_THREAD_SINGLE (MPI_Init).
pub fn init(call: &mut Call, _argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Result<()> {
    start(call, ThreadLevel::Single)
}

/// Initialises the world model at the required thread level, which is always provided (MPI_Init_thread).
pub fn init_thread(
    call: &mut Call,
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: Out<c_int>,
) -> Result<()> {
    provided.check()?;
    let level = level_of(required)?;
    start(call, level)?;
    provided.set(number_of(level))
}

/// Parses the thread level that a program requires.
pub(super) fn level_of(required: c_int) -> Result<ThreadLevel> {
    Ok(match required {
        MPI_THREAD_SINGLE => ThreadLevel::Single,
        MPI_THREAD_FUNNELED => ThreadLevel::Funneled,
        MPI_THREAD_SERIALIZED => ThreadLevel::Serialized,
        MPI_THREAD_MULTIPLE => ThreadLevel::Multiple,
        other => {
            let reason = format!("argument required is {other}; it must be one of the MPI_THREAD_ levels");
            return Err(Error::new(ErrorClass::Arg, reason));
        }
    })
}

pub(super) fn number_of(level: ThreadLevel) -> c_int {
    match level {
        ThreadLevel::Single => MPI_THREAD_SINGLE,
        ThreadLevel::Funneled => MPI_THREAD_FUNNELED,
        ThreadLevel::Serialized => MPI_THREAD_SERIALIZED,
        ThreadLevel::Multiple => MPI_THREAD_MULTIPLE,
    }
}

fn start(call: &mut Call, level: ThreadLevel) -> Result<()> {
    errors::install_panic_hook();
    if phase::was_initialised() {
        return Err(Error::new(ErrorClass::Other, "MPI is initialised already (or was, and is finalised)"));
    }
    let process = bring_up(call, level)?;
    WORLD.get_or_init(|| World { level, main_thread: std::thread::current().id() });
    phase::world_begins(process.rank.0);
    tutti_core::dynamic::spawn::meet_parents(&mut call.held, process)?;
    advance_unattended(call, process)
}

/// Returns the process with support for threads of this level: as sessions have brought it up, or new.
pub(super) fn bring_up(call: &Call, level: ThreadLevel) -> Result<&'static Process> {
    lifecycle::resume(&call.held, level).map_or_else(|| lifecycle::init(level), Ok)
}

/// Has messages taken in while the program computes, if it wants that. The last that a call does which has
/// called [`bring_up`].
pub(super) fn advance_unattended(call: &mut Call, process: &'static Process) -> Result<()> {
    // When the call began, there were no locks.
    call.held.secure();
    progress_thread::start(process)
}

/// Ends the world model after pending work is complete (MPI_Finalize).
pub fn finalize(call: &mut Call) -> Result<()> {
    let process = process()?;
    process.library.myself.attributes.delete_all(&call.held, MPI_COMM_SELF.bits())?;
    trace_file::collect(&mut call.held, process)?;
    lifecycle::meet(&mut call.held, process)?;
    let sessions = session::are_open(&call.held);
    if process.config.diagnosis.report_leaks {
        report_leaks(call, process);
        report_unmatched(call, process);
    }
    if !sessions {
        lifecycle::close(&mut call.held, process, true);
    }
    handles::clear_predefined::<Comm>(MPI_COMM_WORLD);
    handles::clear_predefined::<Comm>(MPI_COMM_SELF);
    phase::world_ends(sessions);
    Ok(())
}

/// Reports how many objects of each kind the program has not freed (`TUTTI_REPORT_LEAKS`). Allowed, but often
/// a mistake: a request that is left does not show that its communication is complete (MPI-5 section 11.2.2).
fn report_leaks(call: &Call, process: &Process) {
    let requests = |held: &LaneGuard| process.messages.borrow(held).state.requests.held_by_users();
    let lanes = process.messages.lanes();
    let counts = [
        (lanes.map(|lane| process.in_lane(&call.held, lane, requests)).sum(), "a request"),
        left::<Message>(),
        left::<Comm>(),
        left::<Group>(),
        left::<Datatype>(),
        left::<Op>(),
        left::<Win>(),
        left::<File>(),
        left::<Info>(),
        left::<Errhandler>(),
    ];
    let told: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|&(count, what)| words(count, what)).collect();
    if !told.is_empty() {
        eprintln!("tutti: rank {}: in MPI_Finalize there are left: {}", process.rank, told.join(", "));
    }
}

/// Reports receives without a message, and messages without a receive (`TUTTI_REPORT_LEAKS`).
fn report_unmatched(call: &mut Call, process: &Process) {
    // Messages that others have sent before they came here are received first.
    progress::poll(&mut call.held, process);
    let (mut receives, mut messages) = (Vec::new(), Vec::new());
    for lane in process.messages.lanes() {
        let unmatched = |held: &LaneGuard| process.messages.borrow(held).state.unmatched();
        let (posted, kept) = process.in_lane(&call.held, lane, unmatched);
        receives.extend(posted.iter().map(|posted| (posted.context, posted.source, posted.tag)));
        messages.extend(kept.iter().map(|kept| (kept.context, Some(kept.source), Some(kept.tag))));
    }
    let name = |context| name_of(&call.held, ContextId::of_plane(context).0);
    for (what, other, unmatched) in [("a receive", "message", receives), ("a message", "receive", messages)] {
        let count = unmatched.len();
        let places = unmatched.into_iter().map(|(context, source, tag)| {
            let source = source.map_or("any rank".to_string(), |source| format!("rank {source}"));
            let tag = tag.map_or("any tag".to_string(), |tag| format!("tag {tag}"));
            format!("from {source} with {tag} in {}", name(context))
        });
        if count > 0 {
            let (what, have) = (words(count, what), if count > 1 { "have" } else { "has" });
            let places = enumerate(places);
            let rank = process.rank;
            eprintln!("tutti: rank {rank}: in MPI_Finalize {what} {have} matched no {other}: {places}");
        }
    }
}

/// Lists texts in their order, equal ones once, with a bound.
fn enumerate(texts: impl Iterator<Item = String>) -> String {
    const MOST: usize = 5;
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    texts.for_each(|text| *counted.entry(text).or_default() += 1);
    let more = counted.len().saturating_sub(MOST);
    let mut shown: Vec<String> = counted
        .into_iter()
        .take(MOST)
        .map(|(text, count)| if count > 1 { format!("{text} ({count} times)") } else { text })
        .collect();
    shown.extend((more > 0).then(|| format!("and {more} more kinds")));
    shown.join("; ")
}

fn left<K: Stored>() -> (usize, &'static str) {
    // SAFETY: the references are dropped at once.
    (unsafe { handles::all::<K>() }.len(), <K as Kind>::WHAT)
}

/// Formats a number of objects: `a request` and `3 requests`.
fn words(count: usize, what: &str) -> String {
    match what.split_once(' ') {
        Some((_, noun)) if count > 1 => format!("{count} {noun}s"),
        _ => what.to_string(),
    }
}

/// Returns whether MPI_Init has completed (MPI_Initialized).
pub fn initialized(flag: Out<c_int>) -> Result<()> {
    flag.set_flag(phase::was_initialised())
}

/// Returns whether MPI_Finalize has completed (MPI_Finalized).
pub fn finalized(flag: Out<c_int>) -> Result<()> {
    flag.set_flag(phase::was_finalised())
}

/// Returns the thread level of the world model, or without it the highest of the open sessions
/// (MPI_Query_thread).
pub fn query_thread(provided: Out<c_int>) -> Result<()> {
    process()?;
    let world = WORLD.get().filter(|_| !phase::was_finalised());
    provided.set(number_of(world.map_or_else(session::highest_level, |world| world.level)))
}

/// Returns whether this thread has called MPI_Init, or has opened the first session without the world model
/// (MPI_Is_thread_main).
pub fn is_thread_main(flag: Out<c_int>) -> Result<()> {
    let process = process()?;
    let main_thread = WORLD.get().map_or(process.main_thread, |world| world.main_thread);
    flag.set_flag(main_thread == std::thread::current().id())
}

/// Ends the whole job, whatever the communicator (MPI_Abort).
pub fn abort(call: &mut Call, _comm: In<Comm>, errorcode: c_int) -> Result<()> {
    errors::abort(call.function, errorcode)
}

/// Returns the version of the MPI standard (MPI_Get_version).
pub fn get_version(version: Out<c_int>, subversion: Out<c_int>) -> Result<()> {
    version.set(MPI_VERSION)?;
    subversion.set(MPI_SUBVERSION)
}

/// Returns the version of the ABI (MPI_Abi_get_version).
pub fn abi_get_version(major: Out<c_int>, minor: Out<c_int>) -> Result<()> {
    major.set(MPI_ABI_VERSION)?;
    minor.set(MPI_ABI_SUBVERSION)
}

/// Returns name and version of the library (MPI_Get_library_version).
pub fn get_library_version(version: TextOut, resultlen: Out<c_int>) -> Result<()> {
    let text = concat!("Tutti ", env!("CARGO_PKG_VERSION"), " (MPI 5.0, standard ABI 1.0)");
    let written = version.set(text.as_bytes(), MPI_MAX_LIBRARY_VERSION_STRING as usize)?;
    resultlen.set(written as c_int)
}

/// Returns the name of the host that the process runs on (MPI_Get_processor_name).
pub fn get_processor_name(_call: &mut Call, name: TextOut, resultlen: Out<c_int>) -> Result<()> {
    let mut host = [0u8; MPI_MAX_PROCESSOR_NAME as usize];
    // SAFETY: a buffer and its length.
    if unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) } != 0 {
        return Err(Error::new(ErrorClass::Other, "the system does not return its host name"));
    }
    let length = host.iter().position(|byte| *byte == 0).unwrap_or(host.len());
    let written = name.set(&host[..length], MPI_MAX_PROCESSOR_NAME as usize)?;
    resultlen.set(written as c_int)
}

/// Returns the types of hardware resources, each with a flag whether the caller is confined to one of them
/// (MPI_Get_hw_resource_info).
pub fn get_hw_resource_info(_call: &mut Call, hw_info: HandleOut<Info>) -> Result<()> {
    let mut entries = Entries::new();
    for (resource, confined) in
        tutti_core::hardware::confinement(tutti_core::process::process().map(|process| &process.host))
    {
        entries.set(resource, if confined { "true" } else { "false" })?;
    }
    hw_info.create(FirstLaneCell::new(entries)).map(drop)
}

/// Excludes the time from level 0 to the next higher level from tuning (MPI_Pcontrol). So a program can
/// restrict tuning to its important parts.
pub fn pcontrol(level: c_int) -> Result<()> {
    tutti_core::inside::counts(level > 0);
    Ok(())
}

/// Returns the seconds since the start of the machine, equal for all processes on it (MPI_Wtime).
pub fn wtime() -> c_double {
    seconds(clock(libc::clock_gettime))
}

/// Returns the resolution of MPI_Wtime in seconds (MPI_Wtick).
pub fn wtick() -> c_double {
    seconds(clock(libc::clock_getres))
}

/// Converts a time without rounding: an integer below 2^53 times a power of two. A rounded conversion would
/// raise the exception flag for an inexact result, and clearing it takes longer than the conversion. Times
/// are rounded down to 2^-33 s, from 2^20 s on to the precision of the 53 bits of a `double`.
fn seconds(time: libc::timespec) -> c_double {
    let (whole, nanoseconds) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    let fraction_bits = u64::from(whole.leading_zeros()).saturating_sub(11).min(33);
    let scaled = (whole << fraction_bits) | ((nanoseconds << fraction_bits) / 1_000_000_000);
    let unit = f64::from_bits((1023 - fraction_bits) << 52);
    floating_point::isolated(|| scaled as c_double * unit)
}

fn clock(read: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the result; CLOCK_MONOTONIC always exists.
    unsafe { read(libc::CLOCK_MONOTONIC, &raw mut time) };
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_counted() {
        let list = |texts: &[&str]| enumerate(texts.iter().map(|text| text.to_string()));
        assert_eq!(list(&["b", "a", "b"]), "a; b (2 times)");
        assert_eq!(list(&["1", "2", "3", "4", "5", "6", "7"]), "1; 2; 3; 4; 5; and 2 more kinds");
    }

    #[test]
    fn times_are_seconds() {
        let check = |tv_sec, tv_nsec, expected: f64, precision: f64| {
            let got = seconds(libc::timespec { tv_sec, tv_nsec });
            assert!((0.0..=precision).contains(&(expected - got)), "{tv_sec} s {tv_nsec} ns: {got}");
        };
        let fine = 1.2e-10;
        check(0, 0, 0.0, 0.0);
        check(0, 1, 1e-9, fine);
        check(0, 999_999_999, 0.999_999_999, fine);
        check(5, 500_000_000, 5.5, 0.0);
        check((1 << 20) - 1, 250_000_000, ((1 << 20) - 1) as f64 + 0.25, 0.0);
        check(1 << 31, 750_000_000, (1u64 << 31) as f64 + 0.75, 0.0);
        check(1 << 40, 500_000_000, (1u64 << 40) as f64 + 0.5, 0.0);
        // Times never go back where the precision changes.
        assert!(seconds(libc::timespec { tv_sec: (1 << 20) - 1, tv_nsec: 999_999_999 }) < (1 << 20) as f64);
    }

    #[test]
    fn counts_are_words() {
        assert_eq!(words(1, "an info object"), "an info object");
        assert_eq!(words(3, "a matched message"), "3 matched messages");
    }
}
