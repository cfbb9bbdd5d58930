//! Whether something that this process has multicast may have to be sent again, and who is told so
//! ([`crate::progress_thread`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;

static WANTED: AtomicBool = AtomicBool::new(false);
static WHO: Mutex<Option<Thread>> = Mutex::new(None);

/// Something was multicast that others may lack.
pub fn want() {
    if !WANTED.swap(true, Ordering::Relaxed)
        && let Some(thread) = &*WHO.lock().unwrap_or_else(PoisonError::into_inner)
    {
        thread.unpark();
    }
}

/// Whether anything is wanted.
pub fn are_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Nothing is lacked any more.
pub fn are_done() {
    WANTED.store(false, Ordering::Relaxed);
}

/// Who is to be told from now on, if anybody.
pub fn tell(thread: Option<Thread>) {
    *WHO.lock().unwrap_or_else(PoisonError::into_inner) = thread;
}
