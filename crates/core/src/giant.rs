//! The giant lock: at most one thread at a time is inside the library.
//!
//! A program that asked for less than `MPI_THREAD_MULTIPLE` never takes it: [`enter`] is one load.
//! With `MPI_THREAD_MULTIPLE` the first entry of a thread locks a mutex; entries from callbacks (user
//! operators, attribute callbacks, error handlers) nest. A thread that waits lets others in by
//! [`Held::relax`], which takes the token mutably so that nothing reached through it is still borrowed.
//!
//! Mutable state of MPI objects sits in a [`GiantCell`], which opens only for a [`Held`]. Rule: no borrow
//! is alive while a user's callback runs, since the callback may enter again.
//!
//! # Safety
//! `GiantCell` is `Sync` though its `RefCell` is not: the borrow counter is touched only by the thread
//! that holds the lock (or by the only thread, below `MPI_THREAD_MULTIPLE`, as MPI-5 section 11.6 demands of
//! the program). `Held` is neither `Send` nor `Sync` and borrows end before it does.
#![allow(unsafe_code)]

use std::cell::{Ref, RefCell, RefMut};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static MULTIPLE: AtomicBool = AtomicBool::new(false);
static LOCK: Mutex<()> = Mutex::new(());
static OWNER: AtomicUsize = AtomicUsize::new(0);
static WAITERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MARK: u8 = const { 0 };
}

/// Proof that this thread is the one inside the library.
#[derive(Debug)]
pub struct Held {
    guard: Option<MutexGuard<'static, ()>>,
    not_send: PhantomData<*const ()>,
}

/// State that only the holder of the giant lock can reach.
#[derive(Debug, Default)]
pub struct GiantCell<T>(RefCell<T>);

// SAFETY: see the module's Safety section.
unsafe impl<T: Send> Sync for GiantCell<T> {}

/// Says that several threads may call MPI at the same time from now on (`MPI_THREAD_MULTIPLE`).
/// Called before a second thread can be inside.
pub fn allow_threads() {
    MULTIPLE.store(true, Ordering::Relaxed);
}

/// Whether several threads may call MPI at the same time.
pub fn threads_allowed() -> bool {
    MULTIPLE.load(Ordering::Relaxed)
}

/// Enters the library; nested entries of one thread do not block.
#[inline]
pub fn enter() -> Held {
    let guard = if threads_allowed() { lock() } else { None };
    Held { guard, not_send: PhantomData }
}

impl Held {
    /// Lets other threads in, if any waits, and comes back. Does nothing inside a callback.
    #[inline]
    pub fn relax(&mut self) {
        if self.guard.is_some() && WAITERS.load(Ordering::Relaxed) > 0 {
            self.release_while(std::thread::yield_now);
        }
    }

    /// Runs `sleep` without the lock (unless this is a nested entry) and takes it again.
    pub fn release_while<R>(&mut self, sleep: impl FnOnce() -> R) -> R {
        if self.guard.is_none() {
            return sleep();
        }
        self.unlock();
        let result = sleep();
        self.guard = lock();
        result
    }

    fn unlock(&mut self) {
        if let Some(guard) = self.guard.take() {
            OWNER.store(0, Ordering::Relaxed);
            drop(guard);
        }
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.unlock();
        }
    }
}

impl<T> GiantCell<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> GiantCell<T> {
        GiantCell(RefCell::new(value))
    }

    /// Reads. The borrow ends before the token does.
    ///
    /// # Panics
    /// If the value is borrowed mutably: a bug (a callback ran under a borrow).
    #[inline]
    pub fn borrow<'a>(&'a self, _held: &'a Held) -> Ref<'a, T> {
        self.0.borrow()
    }

    /// Reads and writes. The borrow ends before the token does.
    ///
    /// # Panics
    /// If the value is borrowed: a bug (a callback ran under a borrow).
    #[inline]
    pub fn borrow_mut<'a>(&'a self, _held: &'a Held) -> RefMut<'a, T> {
        self.0.borrow_mut()
    }
}

fn me() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

#[cold]
fn lock() -> Option<MutexGuard<'static, ()>> {
    if OWNER.load(Ordering::Relaxed) == me() {
        return None;
    }
    WAITERS.fetch_add(1, Ordering::Relaxed);
    // A panic aborts the process, so poison only appears in tests and says nothing about the state.
    let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    WAITERS.fetch_sub(1, Ordering::Relaxed);
    OWNER.store(me(), Ordering::Relaxed);
    Some(guard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_and_entries_nest() {
        static COUNT: GiantCell<u64> = GiantCell::new(0);
        allow_threads();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let mut outer = enter();
                        let inner = enter();
                        let before = *COUNT.borrow(&inner);
                        *COUNT.borrow_mut(&inner) = before + 1;
                        drop(inner);
                        outer.relax();
                    }
                });
            }
        });
        assert_eq!(*COUNT.borrow(&enter()), 4000);
    }
}
