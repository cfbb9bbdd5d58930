//! Thread that makes progress while the program computes, if `TUTTI_PROGRESS_THREAD` is set.
//!
//! Without it, a target executes one-sided operations of ranks on other hosts only in its next MPI call.
//! MPI-5 section 12.7.3 requires no more. The same holds for long messages to receives that are posted
//! already. A thread in `MPI_Recv` would have the same effect, and this one has the same price. The process
//! locks as for MPI_THREAD_MULTIPLE, whatever level the program requested, which makes each call slower. So
//! it is off by default.
//!
//! The thread calls no code of the program. Users' operators may need a lock (an interpreter's) that the
//! program holds while it waits for our lock. So the thread runs only progress handlers that allow it
//! ([`Activity::is_unattended`](crate::collective::Activity::is_unattended)). It never spins: it sleeps until
//! a doorbell or the network wakes it. While another thread of the process waits in MPI, that thread does the
//! work.
//!
//! A process that has sent multicasts (`TUTTI_MULTICAST`) has another, smaller thread. It repeats lost
//! datagrams while the program computes. It polls at long intervals while messages are not acknowledged, and
//! sleeps otherwise ([`crate::repairs`]). The thread and the locks exist from the end of the first call that
//! multicasts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tutti_base::{Error, ErrorClass, Result};
use tutti_sys::own_thread;
use tutti_transport::shm::ring_doorbell;
use tutti_transport::waiting::Waiting;

use crate::lanes::{self, Lane, LaneGuard};
use crate::process::Process;
use crate::{progress, repairs};

static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);
static ENDS: AtomicBool = AtomicBool::new(false);
/// Thread that repairs multicasts.
static REPAIRER: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// Time for which the thread leaves the work to another one.
const LEFT_TO_OTHERS: Duration = Duration::from_millis(1);

/// Interval between checks of multicasts at first.
const OFTEN: Duration = Duration::from_millis(2);
/// Interval between checks of multicasts in the end; it doubles up to this.
const SELDOM: Duration = Duration::from_millis(32);

/// Starts the progress thread if it is requested and not running. The caller has entered a lane that locks.
///
/// # Errors
/// `Other` if the thread cannot be started.
pub fn start(process: &'static Process) -> Result<()> {
    if process.config.waiting.progress_thread {
        begin(&THREAD, "tutti-progress", move || take_in_messages(process))
    } else {
        Ok(())
    }
}

/// Starts the thread that repairs multicasts, unless the progress thread does that. From now on calls lock.
/// It is called at the end of an MPI call while no other is active, since the caller's lane was entered
/// without a lock. If the thread cannot be started, MPI calls repair multicasts.
#[cold]
pub fn start_repairs(process: &'static Process) {
    if process.config.waiting.progress_thread {
        return;
    }
    lanes::allow_helper();
    if begin(&REPAIRER, "tutti-repairs", move || repair(process)).is_ok() {
        let repairer = REPAIRER.lock().unwrap_or_else(PoisonError::into_inner);
        repairs::tell(repairer.as_ref().map(|thread| thread.thread().clone()));
    }
}

fn begin(
    place: &Mutex<Option<JoinHandle<()>>>,
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let mut thread = place.lock().unwrap_or_else(PoisonError::into_inner);
    if thread.is_some() {
        return Ok(());
    }
    ENDS.store(false, Ordering::Relaxed);
    let reason = |error| {
        let why = "TUTTI_PROGRESS_THREAD=1 needs a thread, but none starts";
        Error::new(ErrorClass::Other, format!("{why}: {error}"))
    };
    *thread = Some(own_thread::spawn(name, work).map_err(reason)?);
    Ok(())
}

/// Ends both threads, if they run.
pub fn stop(held: &mut LaneGuard, process: &Process) {
    let threads =
        [&THREAD, &REPAIRER].map(|thread| thread.lock().unwrap_or_else(PoisonError::into_inner).take());
    if threads.iter().all(Option::is_none) {
        return;
    }
    ENDS.store(true, Ordering::SeqCst);
    // They may be waiting for the lane that the caller holds.
    let ended = held.release_while(|| {
        ring_doorbell(&process.job, process.local, Lane::FIRST.number());
        let join = |thread: JoinHandle<()>| {
            thread.thread().unpark();
            thread.join()
        };
        threads.into_iter().flatten().try_for_each(join)
    });
    repairs::tell(None);
    repairs::are_done();
    if ended.is_err() {
        process.fail(ErrorClass::Intern, "a progress thread has failed");
    }
}

fn ends() -> bool {
    ENDS.load(Ordering::SeqCst)
}

/// Runs the progress thread until it is stopped.
fn take_in_messages(process: &'static Process) {
    let waiting = Waiting::asleep(&process.config);
    let mut waiter = waiting.waiter(false);
    let watch = process.watch();
    while !ends() {
        if lanes::waiting() > 0 {
            std::thread::sleep(LEFT_TO_OTHERS);
            continue;
        }
        let any_far = {
            let held = lanes::enter();
            let any = progress::advance_unattended(&held, process);
            progress::tell_threads(&held, process);
            if any {
                waiter.reset();
                continue;
            }
            process.messages.borrow_mut(&held).link.bridges().any_far()
        };
        if watch.is_none() && any_far {
            waiter = waiter.sleeping_shortly();
        }
        waiter.pause_watching(&[process.sleeper(Lane::FIRST)], watch.as_ref(), || {
            ends() || {
                let held = lanes::enter();
                let found = progress::before_unattended_sleep(&held, process, watch.as_ref());
                progress::tell_threads(&held, process);
                found
            }
        });
        // The event that woke this thread may be for another one that has begun to wait meanwhile. Only one
        // of the threads that watch the network is woken.
        if lanes::waiting() > 0 {
            ring_doorbell(&process.job, process.local, Lane::FIRST.number());
        }
    }
}

/// Runs the thread that repairs multicasts until it is stopped.
fn repair(process: &'static Process) {
    let mut pause = OFTEN;
    while !ends() {
        if !repairs::are_wanted() {
            pause = OFTEN;
            std::thread::park();
            continue;
        }
        std::thread::park_timeout(pause);
        // A thread that waits in MPI repairs them.
        if lanes::waiting() > 0 {
            continue;
        }
        let Some(held) = lanes::try_enter(Lane::FIRST) else { continue };
        let any = progress::advance_unattended(&held, process);
        progress::tell_threads(&held, process);
        if any {
            // Another thread may have gone to sleep meanwhile, waiting for a message that was received here.
            ring_doorbell(&process.job, process.local, Lane::FIRST.number());
        }
        pause = if any { OFTEN } else { (2 * pause).min(SELDOM) };
        let mut messages = process.messages.borrow_mut(&held);
        if messages.link.casting().is_none_or(|casting| casting.is_at_rest()) {
            repairs::are_done();
        }
    }
}
