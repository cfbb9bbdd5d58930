//! The distance between cores: how near a peer's is, how that is found out, and what follows for copies and
//! for memory that peers have read.
//!
//! Two cores that share a last-level cache pass a line on in a half to a third of the time that others need.
//! What is best to do with memory that both use depends on it, and nobody can be asked: a hypervisor moves
//! processors about from second to second. So it is found out while a process waits for a peer anyway, by the
//! latency of the line that ends the wait.
//!
//! Callers ask one question and note one thing:
//!
//! - How to copy so many bytes there ([`to_bank`], [`PeerStores::path`], [`path`]): through the caches or
//!   past them, which a [`Timer`] decides where only the time of the copy itself tells.
//! - What a wait has shown of the distance ([`observe`], or [`observe_reader`] of a flag that a reader of the
//!   own banks has written), when [`is_due`] says so.
//!
//! What was seen is an [`Estimate`], which is due again after some uses and expires after more of them.
//! `limits` holds all bounds with what was measured for them, `stores` what follows for copies, `write_back`
//! what follows for mapped memory.

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

/// Of those who read the banks of this process.
static BANK_READERS: Estimate = Estimate::of_many();

/// Whether the next wait for a flag is to find out how far its writer is ([`observe_reader`]).
#[inline]
pub fn is_due() -> bool {
    BANK_READERS.is_due()
}

/// As [`observe`], for a flag of one of those who read the banks of this process.
#[cold]
pub fn observe_reader(has_come: impl FnMut() -> bool) -> Observed {
    let observed = observe(has_come);
    BANK_READERS.note(observed.distance);
    observed
}
