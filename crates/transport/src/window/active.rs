//! General active target synchronisation within a node (MPI-5 section 12.5.2): counters, and a log of puts.
//!
//! A target counts its posts to each origin; an origin waits until a post has been counted that it has not
//! used, accesses the memory, and counts its epoch as complete at the target, which waits until all that it
//! has posted to have done so ([`Tally`]).
//!
//! An origin that cannot store into the memory of a target leaves short puts in a log of the target, before
//! it says that its epoch is complete. The target does them when all its origins have said so, before its
//! exposure epoch is over: until then nobody may look for what was put (section 12.7.2). A call of the system
//! for each put takes ten times as long. Origins take [`LogTail`] in the log side by side. A record needs no
//! mark that it is whole, since nobody reads before all origins are done; and the target clears the log
//! before it posts its memory anew, so nobody takes room meanwhile. Where a log is full, a put takes another
//! way.

use tutti_base::sync::{AtomicU32, Ordering};

/// How often something has happened, modulo 2^32. What was done before it is counted, whoever sees the count
/// sees too.
#[derive(Debug)]
#[repr(transparent)]
pub struct Tally(AtomicU32);

/// How many bytes of a log are taken.
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
    /// Once more.
    #[inline]
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// So often.
    #[inline]
    pub fn now(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

impl LogTail {
    /// Takes `bytes` of the `all` that there are: where they begin; `None` if fewer are left.
    #[inline]
    pub fn take(&self, bytes: u32, all: u32) -> Option<u32> {
        let end = |taken: u32| taken.checked_add(bytes).filter(|end| *end <= all);
        // Tallies say when others see it.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).ok()
    }

    /// How many bytes are taken, asked once all origins are done.
    #[inline]
    pub fn taken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Nothing is taken any more, from the next post on.
    #[inline]
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
