//! Lock in shared memory, held for the few instructions of an accumulate: 0 free, 1 taken, 2 taken and
//! wanted.
//!
//! A thread that finds it taken looks again a bounded number of times and then sleeps. The usual case is two
//! atomic operations.

use tutti_base::sync::{AtomicU32, Ordering};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const WANTED: u32 = 2;

/// Lock in one word of shared memory.
#[derive(Debug)]
#[repr(transparent)]
pub struct Mutex(AtomicU32);

impl Default for Mutex {
    fn default() -> Mutex {
        Mutex(AtomicU32::new(FREE))
    }
}

impl Mutex {
    /// Takes the lock. `sleep` passes time while the word holds the value that it gets, and may return early.
    #[inline]
    pub fn lock(&self, looks: u32, sleep: impl FnMut(&AtomicU32, u32)) {
        if self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slowly(looks, sleep);
        }
    }

    /// Gives it back; `wake` is called if somebody sleeps.
    #[inline]
    pub fn unlock(&self, wake: impl FnOnce(&AtomicU32)) {
        if self.0.swap(FREE, Ordering::Release) == WANTED {
            wake(&self.0);
        }
    }

    #[cold]
    fn lock_slowly(&self, looks: u32, mut sleep: impl FnMut(&AtomicU32, u32)) {
        for _ in 0..looks {
            if self.0.load(Ordering::Relaxed) == FREE
                && self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        // Ends when the holder, which waits for nobody, leaves it. Whoever gets it here leaves it marked as
        // wanted: there may be others that sleep.
        while self.0.swap(WANTED, Ordering::Acquire) != FREE {
            sleep(&self.0, WANTED);
        }
    }
}
