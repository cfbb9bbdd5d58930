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
//!
//! # What is where
//!
//! Messages between processes. Entry points: `Links` (shared memory to the ranks of this host, a `FarLink` to
//! the others, looked at a bounded part of the time while near traffic flows (`poll_interval`), `Bridges` to
//! processes of other jobs, as one link whose peers are ranks of the world and, beyond them, those others),
//! trait `Directory` (who knows the addresses of others), trait `Link` (ordered records with 24 opaque header
//! bytes, taken only when they can leave: none before the peer's address is known; `Sink` takes what a poll
//! finds, straight from the link's memory), `ShmLink` (through the job object), `MemoryLink` (stand-in for
//! tests above), `waiting` (the one policy of waiting: all its constants, pure machines for the phases of a
//! wait, for what was seen of others who want the processor, and for what a polling program leaves to them;
//! `Waiter` does what they say and sleeps, on the futex or, with a `Watch`, on a bell and the network's
//! descriptors), trait `SingleCopy` (process_vm_readv, XPMEM, KNEM), `Exposures` (memory lent to the peers of
//! an operation: `expose` gives a record to publish, `open` makes a window of it; buffers used often become
//! shared in place: `exposure::convert` argues why that is safe, `exposure::known` why where they are need
//! not be asked each time, `locality` how far peers are, how copies are stored there, and why what far ones
//! have read is written back to main memory), `Banks` (flags and scratch memory of a communicator, in slots
//! used in turn; S1; and in `banks::found` what one member has found out for all), `window::Control` (locks
//! and counters of a window, logs of short puts, before the memory that its members on the node allocate with
//! it), `Adaptive` (S6: connections between hosts on demand; state machines for the reliable streams over
//! datagrams, for the connections and for the way records keep their order between the two; it owns no socket
//! and reads no clock, and is tested in a network from a seed), `fabric::FabricLink` (the `FarLink`: drives
//! these machines over a datagram socket and a `Carrier` of connections: sockets of the system, or connected
//! endpoints of libfabric; or uses reliable endpoints of libfabric, which need neither. A long message
//! between hosts is lent to its receiver alone and read once (`loan`, `Link::lend`, `read`, `returned`,
//! `fabric::kernel::bulk`; in core `p2p::remote`): writev out of the sender's buffer, readv into the
//! receiver's, in pieces of 256 KiB between which records go; the sender is free when the system has a copy
//! of the last piece. Over libfabric the provider reads by itself where it can (FI_RMA; `fabric::remote`: the
//! loan says where the memory is and by which key, `reads` is the machine of operations under way,
//! `registrations` keeps what was registered as long as it is certain which pages that holds: memory of the
//! process's own object, whose mapping is looked at and whose discards are counted, `exposure::pages`, and
//! everything where a provider holds no pages; other memory is registered for one message). What cannot be
//! lent (many short runs) core streams. `fabric::select` says which and why; all conform to the suite of
//! `Link`; `examples/fabric` measures them). `ring`, `bell`, `banks::turns`, `window::{mutex, turnstile}`,
//! `exposure::{count, loans}` hold the lock-free algorithms, over atomics of `tutti_base::sync`,
//! model-checked by loom: `RUSTFLAGS="--cfg loom" cargo test -p tutti-transport --release loom_`. Invariants:
//! nothing blocks; nothing is allocated or touched for a pair that does not talk (both sides' counters live
//! in the ring's control page); a sender pays one load when its peer does not sleep. Absent: matching,
//! protocols, MPI, a process's link to itself.
#![deny(unsafe_code)]

#[cfg(loom)]
#[path = "window/active.rs"]
pub mod active;
#[cfg(not(loom))]
pub mod adaptive;
#[cfg(not(loom))]
pub mod banks;
pub mod bell;
#[cfg(not(loom))]
pub mod bridges;
#[cfg(not(loom))]
mod buffers;
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
pub mod link;
#[cfg(not(loom))]
pub mod links;
pub mod loan;
#[cfg(loom)]
#[path = "exposure/loans.rs"]
pub mod loans;
#[cfg(not(loom))]
pub mod locality;
pub mod memory;
#[cfg(not(loom))]
pub mod multicast;
#[cfg(loom)]
#[path = "window/mutex.rs"]
pub mod mutex;
#[cfg(not(loom))]
mod poll_interval;
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
mod loom_gate;
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
pub use fabric::{FabricCounters as FarCounters, FabricLink};
pub use link::{Full, Header, Link, Peer, Sink, Verdict};
#[cfg(not(loom))]
pub use links::{FarLink, Links};
pub use loan::{Loan, Memory};
#[cfg(not(loom))]
pub use multicast::carrier::Casting;
#[cfg(not(loom))]
pub use shm::ShmLink;
#[cfg(not(loom))]
pub use single_copy::{CrossMemoryAttach, SingleCopy};
#[cfg(not(loom))]
pub use waiting::{Paused, Waiter};
#[cfg(not(loom))]
pub use watch::Watch;
