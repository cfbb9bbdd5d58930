//! Start and end of the process in its job (MPI-5 chapter 11). This is the highest layer, as it creates and
//! ends all others.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tutti_base::traffic::{self, Totals};
use tutti_base::{Error, ErrorClass, Result, WorldRank};
use tutti_sys::job::RankState;
use tutti_sys::{crash, debugger, floating_point, speaker, this_process};
use tutti_transport::FarLink;

use crate::collective::{self, report_undecided};
use crate::communicator::Communicator;
use crate::constructors::split;
use crate::continuation;
use crate::dynamic::{self, connected_jobs};
use crate::hang;
use crate::host::ThreadLevel;
use crate::lanes::{self, LaneGuard};
use crate::matching::{Envelope, Signature};
use crate::messenger::{
    Above, CallServer, CardWriter, ContinuationRunner, InquiryHandler, Messenger, PeerWatch, WakeSource,
};
use crate::process::{
    BEFORE, FINALIZED, PHASE, PROCESS, Process, RUNNING, Splitter, is_finalized, started, started_ever,
};
use crate::tool::settings;
use crate::window::serve;
use crate::{boot, departed, leaving, other_libraries, progress, progress_thread};

/// Maximum time for which a process that ends without a barrier repairs its multicasts.
const LAST_REPAIRS: Duration = Duration::from_millis(200);

/// The library above its messages, as progress calls it.
#[derive(Debug)]
struct Library;

const ABOVE: Above = Above {
    calls: &Library,
    inquiries: &Library,
    peers: &Library,
    cards: &Library,
    continuations: &Library,
    wakes: &Library,
};

impl CallServer for Library {
    fn answer_calls(&self, held: &LaneGuard, messenger: &Messenger) {
        serve::answer_calls(held, messenger);
    }
}

impl InquiryHandler for Library {
    fn answer_inquiry(&self, held: &LaneGuard, from: WorldRank, envelope: Envelope, theirs: Signature) {
        collective::answer_inquiry(held, started(), from, envelope, theirs);
    }
}

impl PeerWatch for Library {
    fn watch_others(&self, held: &LaneGuard) {
        connected_jobs::watch(held, started());
    }

    fn watch_departed(&self, held: &LaneGuard) {
        departed::watch(held, started());
    }

    fn is_gone(&self, held: &LaneGuard, process: WorldRank) -> bool {
        dynamic::is_gone(held, started(), process)
    }
}

impl CardWriter for Library {
    fn answer_card(&self, messenger: &Messenger, request: u32, what: &dyn Fn() -> String) {
        hang::answer(messenger, request, what);
    }
}

impl ContinuationRunner for Library {
    fn run_ready(&self, held: &LaneGuard, messenger: &Messenger) {
        continuation::run_ready(held, messenger);
    }
}

impl WakeSource for Library {
    fn before_sleep(
        &self,
        held: &LaneGuard,
        descriptors: &mut Vec<RawFd>,
        until: &mut Option<Instant>,
    ) -> bool {
        started_ever()
            .is_none_or(|process| process.library.kernel.borrow_mut(held).before_sleep(descriptors, until))
    }
}

impl Splitter for Library {
    fn split(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        comm: &Arc<Communicator>,
        color: i32,
        key: i32,
    ) -> Result<Option<Arc<Communicator>>> {
        split::split(held, process, comm, color, key)
    }
}

/// Joins the job, for the world model or the first session. Does not wait for other ranks.
///
/// # Errors
/// `Other` if it is called twice, if a setting is wrong, or if the job object cannot be used.
pub fn init(wanted: ThreadLevel) -> Result<&'static Process> {
    if PHASE.load(Ordering::Acquire) != BEFORE {
        return Err(Error::new(ErrorClass::Other, "MPI is initialised already (or was, and is finalised)"));
    }
    let process = floating_point::isolated(|| join(wanted))?;
    let process = PROCESS.get_or_init(|| process);
    this_process::at_exit(leave_at_exit);
    speaker::set_rank(process.rank.0);
    if process.config.diagnosis.backtrace {
        crash::tell();
    }
    debugger::wait_at_gate();
    boot::set_inheritance(&process.job, false);
    warn_of_other_libraries(process);
    process.block().set_state(RankState::Running);
    PHASE.store(RUNNING, Ordering::Release);
    Ok(process)
}

/// Reads the settings, joins the job and creates the process.
fn join(wanted: ThreadLevel) -> Result<Process> {
    boot::privileged::check_environment()?;
    let config = settings::at_start().map_err(|error| Error::new(ErrorClass::Other, error.to_string()))?;
    let boot = boot::join(&config)?;
    if wanted == ThreadLevel::Multiple || config.waiting.progress_thread {
        // Lanes exist within a host only. Messages of other hosts arrive in the first lane.
        let header = boot.job.header();
        let has_lanes = wanted == ThreadLevel::Multiple && !header.has_other_hosts();
        lanes::allow_threads(if has_lanes { header.lanes } else { 1 });
    }
    Process::new(config, boot, ABOVE, &Library)
}

/// True if [`finalize`] was called in this process.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// Ends the world model or a session, after which none is open. If the world model `is_over` and this process
/// has not left the job before, it leaves for good. Otherwise it only pauses.
pub fn close(held: &mut LaneGuard, process: &'static Process, is_over: bool) {
    if is_over && !HAS_LEFT.swap(true, Ordering::Relaxed) {
        finalize(held, process)
    } else {
        pause(held, process)
    }
}

/// Warns of a second MPI library. Only the first rank of each host prints the warning, as its ranks are
/// alike.
fn warn_of_other_libraries(process: &Process) {
    if process.job.place(process.rank.0).local == 0 {
        other_libraries::warn(process.rank.0);
    }
}

/// Waits in MPI_Finalize for the other ranks to call it, for a limited time. The caller has deleted the
/// attributes of `MPI_COMM_SELF`.
///
/// # Errors
/// The error of a message, or a disagreement of ranks about a collective operation.
pub fn meet(held: &mut LaneGuard, process: &'static Process) -> Result<()> {
    // A rank that has left does not repair multicasts.
    collective::leave_multicasts(held, &process.library.world);
    leaving::meet(held, process)
}

/// Performs the last part of MPI_Finalize, after [`meet`]. Leaves the job if all ranks have called it.
/// Otherwise the process leaves at its exit.
fn finalize(held: &mut LaneGuard, process: &'static Process) {
    boot::set_inheritance(&process.job, true);
    progress_thread::stop(held, process);
    if process.job.have_all_arrived() {
        leave(held, process);
    } else {
        process.block().set_state(RankState::Left);
    }
}

/// Completes outstanding messages and leaves the job.
fn leave(held: &mut LaneGuard, process: &'static Process) {
    progress::drain(held, process);
    if process.config.diagnosis.counters {
        eprintln!("Tutti: rank {}: traffic {}", process.rank, Totals::now());
        if let Some(files) = traffic::of_files() {
            eprintln!("Tutti: rank {}: files {files}", process.rank);
        }
    }
    if process.config.diagnosis.counters
        && let Some(far) = process.messages.borrow_mut(held).link.far()
    {
        eprintln!("Tutti: rank {}: {}", process.rank, far.counters());
    }
    if process.config.diagnosis.counters
        && let Some(casting) = process.messages.borrow_mut(held).link.casting()
        && casting.is_used()
    {
        eprintln!("Tutti: rank {}: multicast {}", process.rank, casting.counters());
    }
    report_undecided(held, process);
    if process.rank.0 == 0 {
        floating_point::isolated(|| process.library.learnings.borrow(held).keep(&process.config));
    }
    warn_of_other_libraries(process);
    process.block().set_state(RankState::Finalized);
    connected_jobs::end(held, process);
    // Peers that wait for room towards this process get it, and see that they need not wait again.
    process.messages.borrow_mut(held).progress();
    process.leave_starter(process.job.header().has_other_hosts());
    PHASE.store(FINALIZED, Ordering::Release);
}

/// Leaves the job temporarily, as no session is open and MPI_Init was never called. Completes outstanding
/// messages and counts as finalised for the launcher. A session or MPI_Init may still [`resume`].
fn pause(held: &mut LaneGuard, process: &'static Process) {
    boot::set_inheritance(&process.job, true);
    progress_thread::stop(held, process);
    progress::send_queued(held, process, "MPI_Session_finalize");
    connected_jobs::end(held, process);
    process.block().set_state(RankState::Finalized);
}

/// Leaves the job at the exit of the process if that was not possible before. Does nothing in a copy of the
/// process that was made by fork.
fn leave_at_exit(status: i32) {
    let Some(process) = PROCESS.get().filter(|process| process.pid == std::process::id()) else { return };
    match process.block().state() {
        // With another status the launcher ends the job.
        RankState::Left if status == 0 => leave_late(process),
        RankState::Finalized if !is_finalized() => leave_after_sessions(process),
        RankState::Finalized => process.leave_starter(false),
        _ => {}
    }
}

/// Leaves the job once all ranks have called MPI_Finalize. Some had not when this process returned from it.
fn leave_late(process: &'static Process) {
    // The output is flushed first, as it could be lost with the job during the wait.
    this_process::flush_streams();
    let mut held = lanes::enter();
    progress::send_queued(&mut held, process, "the end of the process");
    process.messages.borrow_mut(&held).state.departures.is_leaving = true;
    process.block().set_state(RankState::Finalized);
    leaving::wait(&mut held, process, u64::MAX);
    leave(&mut held, process);
}

/// Leaves the job for a process whose sessions are closed. It had left temporarily and could resume until its
/// exit.
fn leave_after_sessions(process: &'static Process) {
    let mut held = lanes::enter();
    leaving::arrive(&held, process);
    // Messages to other hosts may have to be repeated.
    if process.job.header().has_other_hosts() {
        drain_multicasts(&mut held, process);
        progress::drain(&mut held, process);
    }
    drop(held);
    process.leave_starter(false);
}

/// Waits until all receivers of this process's multicasts have them, or for a short time if one is silent.
fn drain_multicasts(held: &mut LaneGuard, process: &Process) {
    let until = Instant::now() + LAST_REPAIRS;
    let is_over = |held: &LaneGuard| {
        let mut messages = process.messages.borrow_mut(held);
        messages.link.casting().is_none_or(|casting| casting.is_at_rest())
    };
    while !is_over(held) && Instant::now() < until {
        progress::progress(held, process);
        held.release_while(|| std::thread::sleep(Duration::from_micros(200)));
    }
}

/// Returns the process for a session or MPI_Init, with support for threads of the `wanted` level. It works
/// after [`pause`], and for sessions after [`finalize`] (MPI-5 section 11.3). Returns None if the process
/// never joined the job.
///
/// A call that has entered without a lock holds one only after
/// [`LaneGuard::secure`](crate::lanes::LaneGuard::secure).
pub fn resume(held: &LaneGuard, wanted: ThreadLevel) -> Option<&'static Process> {
    let process = PROCESS.get()?;
    boot::set_inheritance(&process.job, false);
    if wanted == ThreadLevel::Multiple && !lanes::several_wait() {
        lanes::allow_threads(process.messages.lanes().count() as u32);
    }
    if is_finalized()
        && let Some(far) = process.messages.borrow_mut(held).link.far()
    {
        far.reopen();
    }
    process.block().set_state(RankState::Running);
    PHASE.store(RUNNING, Ordering::Release);
    Some(process)
}
