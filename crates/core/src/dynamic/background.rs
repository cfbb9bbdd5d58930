//! Waiting for events other than messages. A separate thread waits, so that this process continues to
//! communicate and sleeps as in any other wait.
//!
//! Only for rare operations, since each wait costs a thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use tutti_sys::own_thread;
use tutti_transport::shm::ring_doorbell;

use crate::communicator::Communicator;
use crate::departed;
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::progress;

/// Returns what `work` returns, which runs in another thread and must not enter this library. `what` is shown
/// when the user asks where this rank waits.
///
/// # Errors
/// Returns the system's error if no thread can be started.
pub fn wait_for<T: Send + 'static>(
    held: &mut LaneGuard,
    process: &Process,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    wait_beside(held, process, what, None, work)
}

/// Waits as [`wait_for`] does, in an operation that all members of `comm` must call. Ends the job if one of
/// them has left.
///
/// # Errors
/// Returns the same errors as [`wait_for`].
pub fn wait_beside<T: Send + 'static>(
    held: &mut LaneGuard,
    process: &Process,
    what: &str,
    comm: Option<&Communicator>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let slot = Arc::new((AtomicBool::new(false), Mutex::new(None)));
    let (filled, job, local) = (Arc::clone(&slot), Arc::clone(&process.job), process.local);
    let thread = own_thread::spawn("tutti-meeting", move || {
        let result = work();
        *filled.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        filled.0.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        ring_doorbell(&job, local, 0);
    })?;
    let what = || what.to_string();
    progress::wait_until(held, process, &what, |held| {
        let is_over = || slot.0.load(Ordering::Acquire);
        if let Some(comm) = comm.filter(|_| !is_over()) {
            departed::check_members(held, process, &what, comm, is_over);
        }
        is_over()
    });
    let result = slot.1.lock().unwrap_or_else(PoisonError::into_inner).take();
    // The thread has nothing left to do.
    if thread.join().is_err() {
        return Err(io::Error::other("a helping thread has failed"));
    }
    result.ok_or_else(|| io::Error::other("a helping thread has left nothing"))
}
