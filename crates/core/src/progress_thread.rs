//! A thread that takes in messages while the program computes, if `TUTTI_PROGRESS_THREAD` asks for one.
//!
//! What a rank on another host puts, gets and accumulates is done by the target, which without this thread
//! does it in its next call of MPI only (MPI-5 section 12.7.3 asks for no more); the same holds for long
//! messages whose receive was posted before. A thread in `MPI_Recv` would do it too, and this one is
//! nothing else: the process locks as for MPI_THREAD_MULTIPLE, whatever level the program got, which makes
//! each call slower; so nobody has it unasked.
//!
//! It calls nothing of the program's. Users' operators may want a lock (an interpreter's) that the program
//! holds while it waits for ours. Of what goes on by itself it therefore moves only what says that it may
//! be moved so ([`Activity::is_unattended`](crate::collective::Activity::is_unattended)). It never spins:
//! it sleeps until a doorbell or the network wakes it, and while another thread of the process waits in
//! MPI, that one does the work.
//!
//! Who has multicast something (`TUTTI_MULTICAST`) has another, smaller one: it has to send again what got
//! lost while the program computes. It looks after such messages while some are not acknowledged, seldom,
//! and sleeps else ([`crate::repairs`]). It and the locks are there from the end of the first call that
//! multicasts something.

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
/// The one that looks after what was multicast.
static REPAIRER: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// For how long it leaves the work to another thread.
const LEFT_TO_OTHERS: Duration = Duration::from_millis(1);

/// How often it looks after what was multicast, at first and in the end.
const OFTEN: Duration = Duration::from_millis(2);
/// See [`OFTEN`].
const SELDOM: Duration = Duration::from_millis(32);

/// Starts the one that takes in messages, if it is wanted and not there. Whoever calls this has entered a
/// lane that locks.
///
/// # Errors
/// `Other` where there is no thread to be had.
pub fn start(process: &'static Process) -> Result<()> {
    if process.config.waiting.progress_thread {
        begin(&THREAD, "tutti-progress", move || take_in_messages(process))
    } else {
        Ok(())
    }
}

/// Starts the one that looks after what was multicast, unless the other one does that. From now on calls
/// lock. For the end of a call, while no other is under way: what is held was entered without a lock. Where
/// there is no thread to be had, calls of MPI repair.
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

/// Ends them.
pub fn stop(held: &mut LaneGuard, process: &Process) {
    let threads =
        [&THREAD, &REPAIRER].map(|thread| thread.lock().unwrap_or_else(PoisonError::into_inner).take());
    if threads.iter().all(Option::is_none) {
        return;
    }
    ENDS.store(true, Ordering::SeqCst);
    // They may be waiting for the lane that is held here.
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

/// The work of the thread.
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
        // What woke this one may be what the other waits for, which began to wait meanwhile: of those who
        // watch the network only one is woken.
        if lanes::waiting() > 0 {
            ring_doorbell(&process.job, process.local, Lane::FIRST.number());
        }
    }
}

/// The work of the thread that looks after what was multicast.
fn repair(process: &'static Process) {
    let mut pause = OFTEN;
    while !ends() {
        if !repairs::are_wanted() {
            pause = OFTEN;
            std::thread::park();
            continue;
        }
        std::thread::park_timeout(pause);
        // Who waits in MPI does it.
        if lanes::waiting() > 0 {
            continue;
        }
        let Some(held) = lanes::try_enter(Lane::FIRST) else { continue };
        let any = progress::advance_unattended(&held, process);
        progress::tell_threads(&held, process);
        if any {
            // Somebody may have gone to sleep meanwhile over what was taken in here.
            ring_doorbell(&process.job, process.local, Lane::FIRST.number());
        }
        pause = if any { OFTEN } else { (2 * pause).min(SELDOM) };
        let mut messages = process.messages.borrow_mut(&held);
        if messages.link.casting().is_none_or(|casting| casting.is_at_rest()) {
            repairs::are_done();
        }
    }
}
