//! The daemon `tutti netd`: it may load kernel programs, and does so for the jobs of this host (S9).
//!
//! Each requesting rank gets an instance of the fixed program of `crates/offload/bpf`, attached to the
//! interface of its address, with tables of its own. It receives only the tables that it fills and reads,
//! never a program. The hosts to which its packets may go are in a table that it does not receive. The
//! rules for granting programs are in [`policy`], loading is in [`loaded`], and the loop over connections
//! in [`serve`].
//!
//! # When netd ends
//! Jobs hold their own program at the interface and continue with it. Communicators that are created later
//! cannot reach netd and use the schedules of hosts. Before Linux 6.6 programs cannot be held. There they
//! are filters, which are removed with netd's connection to their job, or by the next netd.
//!
//! Absent: MPI; anything that outlives the jobs; threads, except those that close descriptors of users.
#![forbid(unsafe_code)]

pub mod loaded;
pub mod policy;
pub mod serve;

pub use serve::{NetdOptions, serve};

/// Object code of the kernel's program, compiled from `crates/offload/bpf/packets.c`.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../offload/bpf/packets.o");
