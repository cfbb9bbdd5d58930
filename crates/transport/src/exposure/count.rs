//! The count of changes that a watcher has heard of ([`tutti_sys::userfault`]): odd while one is being read.
//!
//! Who remembers something of watched memory remembers the count with it. It holds as long as the count is that one, unless some
//! thread is changing something at this moment, of which the kernel has to be asked first: it says so from before the change until
//! the message of it has been read.

use tutti_base::sync::{AtomicU64, Ordering};

/// The count.
#[derive(Debug)]
pub struct Count(AtomicU64);

impl Count {
    /// Nothing heard so far.
    #[allow(clippy::new_without_default, reason = "a count is one of a watcher")]
    pub fn new() -> Count {
        Count(AtomicU64::new(0))
    }

    /// The count, to be remembered; `None` while a change is being read.
    #[inline]
    pub fn now(&self) -> Option<u64> {
        let count = self.0.load(Ordering::Acquire);
        count.is_multiple_of(2).then_some(count)
    }

    /// Whether nothing has been heard since `count`. To be asked after the kernel was.
    #[inline]
    pub fn is(&self, count: u64) -> bool {
        self.0.load(Ordering::Acquire) == count
    }

    /// Where the watcher counts.
    #[cfg(not(loom))]
    pub fn word(&self) -> &std::sync::atomic::AtomicU64 {
        &self.0
    }

    /// What the watcher does before it reads, and after it has read.
    #[cfg(loom)]
    pub fn step(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
