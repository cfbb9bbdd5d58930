//! Whether something that this process has multicast may have to be sent again, and who is told so: a
//! thread ([`crate::progress_thread`]). It is there from the end of the call on in which the first such
//! thing was sent, so that processes which send none need neither the thread nor the locks that it makes
//! necessary.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;

use crate::events;

static WANTED: AtomicBool = AtomicBool::new(false);
/// Somebody is wanted, and nobody is there.
static LACKS: AtomicBool = AtomicBool::new(false);
static WHO: Mutex<Option<Thread>> = Mutex::new(None);

/// Something was multicast that others may lack.
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

/// Whether somebody is wanted for the first time: once.
pub fn lack_somebody() -> bool {
    LACKS.load(Ordering::Relaxed) && LACKS.swap(false, Ordering::Relaxed)
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
