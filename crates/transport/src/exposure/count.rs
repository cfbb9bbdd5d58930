//! Count of changes that a watcher has read ([`tutti_sys::userfault`]): odd while one is being read.
//!
//! A reader that remembers a fact about watched memory remembers the count with it. The fact holds as long as
//! the count is the same, unless a thread is changing something at this moment. The kernel reports that: from
//! before the change until the message about it has been read.

use tutti_base::sync::{AtomicU64, Ordering};

/// Change count of one watcher.
#[derive(Debug)]
pub struct Count(AtomicU64);

impl Count {
    /// Starts a count with no changes read.
    #[allow(clippy::new_without_default, reason = "a count is one of a watcher")]
    pub fn new() -> Count {
        Count(AtomicU64::new(0))
    }

    /// Returns the count, to be remembered; `None` while a change is being read.
    #[inline]
    pub fn now(&self) -> Option<u64> {
        let count = self.0.load(Ordering::Acquire);
        count.is_multiple_of(2).then_some(count)
    }

    /// Returns true if nothing has been heard since `count`. To be asked after the kernel was.
    #[inline]
    pub fn is(&self, count: u64) -> bool {
        self.0.load(Ordering::Acquire) == count
    }

    /// Returns the word that the watcher increments.
    #[cfg(not(loom))]
    pub fn word(&self) -> &std::sync::atomic::AtomicU64 {
        &self.0
    }

    /// Increments the count, as the watcher does before it reads and after it has read.
    #[cfg(loom)]
    pub fn step(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
