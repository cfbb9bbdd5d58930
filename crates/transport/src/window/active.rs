//! General active target synchronisation within a node (MPI-5 section 12.5.2): counters, and a log of puts.
//!
//! A target counts its posts to each origin. An origin waits until a post has been counted that it has not
//! used, accesses the memory, and counts its epoch as complete at the target. The target waits until all
//! origins that it has posted to have done so ([`Tally`]).
//!
//! An origin that cannot store into the memory of a target writes short puts to a log of the target, before
//! it reports that its epoch is complete. The target performs them when all its origins have reported, before
//! its exposure epoch is over: until then nobody may read the memory (section 12.7.2). A system call for each
//! put takes ten times as long. Origins allocate from [`LogTail`] concurrently. A record needs no mark that
//! it is complete, since nobody reads before all origins are done. The target clears the log before it posts
//! its memory anew, so nobody allocates meanwhile. If a log is full, a put takes another route.

use tutti_base::sync::{AtomicU32, Ordering};

/// Count of events, modulo 2^32. A reader of the count sees everything that was done before it was counted.
#[derive(Debug)]
#[repr(transparent)]
pub struct Tally(AtomicU32);

/// Number of bytes of a log that are in use.
#[derive(Debug)]
#[repr(transparent)]
pub struct LogTail(AtomicU32);

impl Default for Tally {
    fn default() -> Tally {
        Tally(AtomicU32::new(0))
    }
}

impl Default for LogTail {
    fn default() -> LogTail {
        LogTail(AtomicU32::new(0))
    }
}

impl Tally {
    /// Adds one to the count.
    #[inline]
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Returns the current count of events.
    #[inline]
    pub fn now(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

impl LogTail {
    /// Allocates `bytes` of the `all` bytes of the log and returns their offset; `None` if fewer are left.
    #[inline]
    pub fn take(&self, bytes: u32, all: u32) -> Option<u32> {
        let end = |taken: u32| taken.checked_add(bytes).filter(|end| *end <= all);
        // Tallies say when others see it.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).ok()
    }

    /// Returns the number of bytes in use. Called once all origins are done.
    #[inline]
    pub fn taken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Empties the log, before the next post.
    #[inline]
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
