//! Count of exposures that have not ended. Pages are moved or given back only while there is no other.
//!
//! Loans begin under the lock of the process's exposures. Where a message was lent, its loan ends in whatever
//! thread looks after the message, without that lock: what that thread has done with the memory comes before
//! what is done once the loan is over.
//!
//! Memory that peers may write has to stay theirs to write until its loan ends. A fork, in any thread, makes
//! exposed memory private ([`super::fork`]); whether it may is decided by the [`Gate`].

use std::sync::Arc;

use tutti_base::sync::{AtomicU64, Ordering};

/// The count, shared by all that may end a loan.
#[derive(Clone, Debug)]
pub struct Loans(Arc<AtomicU64>);

/// Loans for being written that have not ended, and whether memory is being made private at the moment. One
/// word:
///
/// | bits | meaning |
/// |---|---|
/// | 0 | closed: memory is being made private |
/// | 1 to 63 | loans that have begun, while it was open or closed, and have not ended |
#[derive(Debug)]
pub struct Gate(AtomicU64);

const CLOSED: u64 = 1;
const ONE: u64 = 2;

impl Gate {
    /// Creates an open gate without loans.
    #[cfg(not(loom))]
    pub const fn new() -> Gate {
        Gate(AtomicU64::new(0))
    }

    /// Creates an open gate without loans.
    #[cfg(loom)]
    pub fn new() -> Gate {
        Gate(AtomicU64::new(0))
    }

    /// Begins a loan; returns whether memory that is found shared from now on stays so until the loan ends.
    /// Otherwise it has to be lent as private memory.
    #[inline]
    pub fn begin(&self) -> bool {
        // Acquire: who finds the gate open again finds what was made private while it was closed.
        self.0.fetch_add(ONE, Ordering::AcqRel) & CLOSED == 0
    }

    /// Ends a loan that [`Gate::begin`] has counted.
    #[inline]
    pub fn end(&self) {
        let before = self.0.fetch_sub(ONE, Ordering::Release);
        debug_assert!(before >= ONE, "a loan ends once");
    }

    /// Returns true if some memory is lent for being written.
    pub fn has_loans(&self) -> bool {
        self.0.load(Ordering::Acquire) >= ONE
    }

    /// Closes the gate; returns false, and does nothing, if memory is lent for being written.
    pub fn close(&self) -> bool {
        self.0.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Opens the gate that this thread has closed.
    pub fn open(&self) {
        self.0.fetch_sub(CLOSED, Ordering::Release);
    }

    /// Forgets all loans: in a child of fork, whose memory nobody else has.
    #[cfg(not(loom))]
    pub fn forget(&self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Default for Loans {
    fn default() -> Loans {
        Loans(Arc::new(AtomicU64::new(0)))
    }
}

impl Loans {
    /// Adds one to the count of exposures.
    #[inline]
    pub fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one from the count of exposures.
    #[inline]
    pub fn end(&self) {
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "a loan ends once");
    }

    /// Returns true if the only exposure is the one that is being made now.
    pub fn is_only_one(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }
}
