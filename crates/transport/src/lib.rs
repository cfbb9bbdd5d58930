//! Transport of messages between the processes of a node and between hosts.
//!
//! A [`Link`] carries small records, ordered for each pair of processes, with 24 bytes of header that only
//! the layer above understands. A record is taken only when it can leave: none before the peer's address is
//! known. A [`Sink`] receives arriving records straight from the link's memory. Long messages may be copied
//! straight out of the peer's memory, or read by the network.
//!
//! Not here on purpose: matching, protocols, anything about MPI, a link of a process to itself. A link never
//! blocks and allocates nothing for a pair that does not talk.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | `links` | `Links`: shared memory to the ranks of this host and a `FarLink` to the others, as one link |
//! | `bridges` | links to processes of other jobs |
//! | `shm`, `ring`, `bell` | records through the job's shared memory object; doorbells |
//! | `memory` | stand-in for a link, for tests of the layers above |
//! | `poll_interval` | share of the polls that includes the network |
//! | `directory` | trait `Directory`: source of the addresses of other processes |
//! | `waiting`, `watch` | the one policy of waiting; sleeping on doorbells and descriptors |
//! | `single_copy` | trait `SingleCopy` (process_vm_readv, XPMEM, KNEM) |
//! | `exposure` | `Exposures`: memory that peers of an operation read and write (S2) |
//! | `locality` | distance of peers, and its consequences for copies |
//! | `banks` | `Banks`: flags and scratch memory of a communicator (S1) |
//! | `window` | locks, counters and logs of an MPI window on a node |
//! | `adaptive` | connections between hosts on demand (S6), as state machines without sockets and clocks |
//! | `multicast` | reliable multicast between hosts (S8), as state machines |
//! | `fabric` | `FabricLink`: drives `adaptive` over a datagram socket and a carrier of connections |
//! | `loan` | long messages between hosts, lent to their receiver and read once |
//!
//! The carrier of `fabric` is the sockets of the system or connected endpoints of libfabric; `fabric::select`
//! chooses. Reliable endpoints of libfabric need neither datagrams nor connections. Over sockets a lent
//! message goes by writev out of the sender's buffer and by readv into the receiver's, in pieces between
//! which records go (`fabric::kernel::bulk`). Where the provider can, it reads by itself (FI_RMA,
//! `fabric::remote`). Memory of many short runs is not lent; core streams it.
//!
//! The lock-free algorithms are in `ring`, `bell`, `banks::turns`, `window::{mutex, turnstile}` and
//! `exposure::{count, loans}`. They use the atomics of `tutti_base::sync`, and loom checks them:
//! `RUSTFLAGS="--cfg loom" cargo test -p tutti-transport --release loom_`. All implementations of [`Link`]
//! pass one conformance suite; `examples/` measures them.
//!
//! # Invariants
//! - Nothing blocks.
//! - Nothing is allocated or touched for a pair that does not talk: the counters of both sides are in the
//!   ring's control page.
//! - A sender pays one load if its peer does not sleep.
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
pub use tutti_seal::Forged;
#[cfg(not(loom))]
pub use waiting::{Paused, Waiter};
#[cfg(not(loom))]
pub use watch::Watch;
