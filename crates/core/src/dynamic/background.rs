//! Waiting for something that is no message: a thread of its own does, so that the process goes on with its communication and its
//! sleep is that of any other wait.
//!
//! Only for what is done once in a while, as it costs a thread each time.

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
/// When there is no thread to be had.
pub fn wait_for<T: Send + 'static>(
    held: &mut LaneGuard,
    process: &Process,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    wait_beside(held, process, what, None, work)
}

/// The same in an operation that all members of `comm` have to call: ends the job if one of them has left.
///
/// # Errors
/// As [`wait_for`].
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
    // It has nothing left to do but to end.
    if thread.join().is_err() {
        return Err(io::Error::other("a helping thread has failed"));
    }
    result.ok_or_else(|| io::Error::other("a helping thread has left nothing"))
}
