//! Flag for multicasts of this process that may have to be repaired, and the thread that is notified of it
//! ([`crate::progress_thread`]). The thread exists from the end of the call with the first multicast. So
//! processes without multicasts need neither the thread nor the locks that it requires.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;

use crate::events;

static WANTED: AtomicBool = AtomicBool::new(false);
/// True if the thread is needed and has not been started.
static LACKS: AtomicBool = AtomicBool::new(false);
static WHO: Mutex<Option<Thread>> = Mutex::new(None);

/// Notes that a multicast was sent which receivers may miss, and wakes the thread.
pub fn want() {
    if WANTED.swap(true, Ordering::Relaxed) {
        return;
    }
    match &*WHO.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(thread) => thread.unpark(),
        None => {
            LACKS.store(true, Ordering::Relaxed);
            events::rouse();
        }
    }
}

/// Returns true, once, if the thread must be started.
pub fn lack_somebody() -> bool {
    LACKS.load(Ordering::Relaxed) && LACKS.swap(false, Ordering::Relaxed)
}

/// Returns true if repairs may be necessary.
pub fn are_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Notes that all multicasts have arrived.
pub fn are_done() {
    WANTED.store(false, Ordering::Relaxed);
}

/// Sets the thread to notify, if any.
pub fn tell(thread: Option<Thread>) {
    *WHO.lock().unwrap_or_else(PoisonError::into_inner) = thread;
}
