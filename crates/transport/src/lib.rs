//! How messages move between the processes of one node.
//!
//! A [`Link`] carries small records, ordered for each pair of processes, with 24 bytes of header that
//! only the layer above understands. [`shm::ShmLink`] carries them through the job's shared memory
//! object; [`memory::MemoryLink`] is a stand-in for tests of what lies above. Long messages may be
//! fetched straight out of the peer's memory through [`single_copy::SingleCopy`]. [`waiting`]
//! decides how to pass the time until something arrives.
//!
//! Deliberately absent: matching, protocols, anything about MPI. A link never blocks, never allocates
//! for a pair that does not talk, and looks at no clock.
#![deny(unsafe_code)]

#[cfg(not(loom))]
pub mod adaptive;
#[cfg(not(loom))]
pub mod banks;
pub mod bell;
#[cfg(not(loom))]
pub mod bridges;
#[cfg(loom)]
#[path = "exposure/count.rs"]
pub mod count;
#[cfg(not(loom))]
pub mod directory;
#[cfg(not(loom))]
pub mod exposure;
#[cfg(not(loom))]
pub mod fabric;
#[cfg(loom)]
#[path = "banks/found.rs"]
pub mod found;
#[cfg(not(loom))]
pub mod line;
pub mod link;
#[cfg(not(loom))]
pub mod links;
pub mod loan;
#[cfg(loom)]
#[path = "exposure/loans.rs"]
pub mod loans;
#[cfg(not(loom))]
pub mod looks;
pub mod memory;
#[cfg(loom)]
#[path = "window/mutex.rs"]
pub mod mutex;
pub mod ring;
#[cfg(not(loom))]
pub mod shm;
#[cfg(not(loom))]
pub mod single_copy;
#[cfg(loom)]
#[path = "banks/turns.rs"]
pub mod turns;
#[cfg(loom)]
#[path = "window/turnstile.rs"]
pub mod turnstile;
#[cfg(not(loom))]
pub mod waiting;
#[cfg(not(loom))]
pub mod watch;
#[cfg(not(loom))]
pub mod window;

#[cfg(all(test, not(loom)))]
mod conformance;
#[cfg(all(test, loom))]
mod loom_banks;
#[cfg(all(test, loom))]
mod loom_known;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, loom))]
mod loom_windows;

#[cfg(not(loom))]
pub use banks::Banks;
#[cfg(not(loom))]
pub use directory::{Address, Directory};
#[cfg(not(loom))]
pub use exposure::Exposures;
#[cfg(not(loom))]
pub use fabric::{Counters as FarCounters, FabricLink};
pub use link::{Full, Header, Link, Peer, Sink, Verdict};
#[cfg(not(loom))]
pub use links::{FarLink, Links};
pub use loan::{Loan, Memory};
#[cfg(not(loom))]
pub use shm::ShmLink;
#[cfg(not(loom))]
pub use single_copy::{CrossMemoryAttach, SingleCopy};
#[cfg(not(loom))]
pub use waiting::{Paused, Waiter};
#[cfg(not(loom))]
pub use watch::Watch;
