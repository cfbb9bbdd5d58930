//! How many loans of memory have not ended: pages are moved or given back only while there is no other.
//!
//! Loans begin under the lock of the process's exposures. Where a message was lent, its loan ends in whatever thread looks after
//! the message, without that lock: what that thread has done with the memory comes before what is done once the loan is over.

use std::sync::Arc;

use tutti_base::sync::{AtomicU64, Ordering};

/// The count, shared by all that may end a loan.
#[derive(Clone, Debug)]
pub struct Loans(Arc<AtomicU64>);

impl Default for Loans {
    fn default() -> Loans {
        Loans(Arc::new(AtomicU64::new(0)))
    }
}

impl Loans {
    /// One more.
    #[inline]
    pub fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    #[inline]
    pub fn end(&self) {
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "a loan ends once");
    }

    /// Whether nothing is lent but what is being lent now.
    pub fn is_only_one(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }
}
