//! Distance between cores: its estimate for peers, and the consequences for copies and for memory that peers
//! have read.
//!
//! Two cores that share a last-level cache pass a line on in a half to a third of the time that others need.
//! The best way to use memory that both access depends on it, and no interface reports it: a hypervisor moves
//! processors about from second to second. Hence it is measured while a process waits for a peer anyway, by
//! the latency of the line that ends the wait.
//!
//! Callers ask one question and note one thing:
//!
//! - The path of a copy ([`to_bank`], [`PeerStores::fill`], [`path`]): through the caches or past them. A
//!   [`Timer`] decides where only the time of the copy itself tells.
//! - The distance that a wait has shown ([`observe`], or [`observe_reader`] for a flag that a reader of the
//!   own banks has written), when [`is_due`] returns true.
//!
//! Observations are kept in an [`Estimate`], which is due again after some uses and expires after more of
//! them. `limits` holds all limits with their measurements, `stores` the consequences for copies,
//! `write_back` those for mapped memory.

mod estimate;
mod latency;
mod limits;
mod stores;
mod write_back;

pub use estimate::Estimate;
pub use latency::{CoreDistance, Observed, observe};
pub use limits::{Destination, FAR_BYTES};
pub use stores::{PeerStores, StorePath, Timer, path, to_bank};
pub(crate) use write_back::{WHOLE, WriteBack, write_back};

/// Estimated distance of the processes that read the banks of this process.
static BANK_READERS: Estimate = Estimate::of_many();

/// Returns true if the next wait for a flag is to find out how far its writer is ([`observe_reader`]).
#[inline]
pub fn is_due() -> bool {
    BANK_READERS.is_due()
}

/// Watches like [`observe`] for a flag of a reader of this process's banks, and notes the distance.
#[cold]
pub fn observe_reader(has_come: impl FnMut() -> bool) -> Observed {
    let observed = observe(has_come);
    BANK_READERS.note(observed.distance);
    observed
}
