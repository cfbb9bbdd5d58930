//! `tutti netd`: who may load kernel programs does so for the jobs of this host (S9).
//!
//! Each rank that asks gets an instance of the fixed program of `crates/offload/bpf`, attached to the
//! interface of its address, with tables of its own. It is handed the tables that it fills and reads, never a
//! program; which hosts its packets may go to is in a table that it does not get. What is granted is written
//! in [`policy`], what is loaded in [`loaded`], who asks and who has gone in [`serve`].
//!
//! # When netd ends
//! Jobs hold their own program at the interface and go on with it; communicators that are made later find
//! nobody to ask, and use the schedules of hosts. Before Linux 6.6 nothing can be held: there programs are
//! filters, which go with netd's connection to their job, or with the next netd.
//!
//! Absent: MPI; anything that survives the jobs; threads, but for those that close what users have sent.
#![forbid(unsafe_code)]

pub mod loaded;
pub mod policy;
pub mod serve;

pub use serve::{Options, serve};

/// The kernel's program, compiled from `crates/offload/bpf/packets.c`.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../offload/bpf/packets.o");
