//! Waiting for something that is no message: a thread of its own does, so that the process goes on with its communication and its
//! sleep is that of any other wait.
//!
//! Only for what is done once in a while, as it costs a thread each time.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use tutti_sys::own_thread;
use tutti_transport::shm::ring_doorbell;

use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::progress;

/// What `work` returns; it runs in another thread and must not enter this library. `what` is what a person is told who asks where
/// this rank waits.
///
/// # Errors
/// When there is no thread to be had.
pub fn wait_for<T: Send + 'static>(
    held: &mut LaneGuard,
    process: &Process,
    what: &str,
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
    progress::wait_until(held, process, &|| what.to_string(), |_| slot.0.load(Ordering::Acquire));
    let result = slot.1.lock().unwrap_or_else(PoisonError::into_inner).take();
    // It has nothing left to do but to end.
    if thread.join().is_err() {
        return Err(io::Error::other("a helping thread has failed"));
    }
    result.ok_or_else(|| io::Error::other("a helping thread has left nothing"))
}
