//! Collectives in the kernel's packet path (S9; yu-2006, chapter 6): the part that a rank, `tutti netd` and
//! the kernel's program share.
//!
//! # Contents
//!
//! - `bpf/packets.c`: the kernel's program, compiled to `bpf/packets.o`, which `tutti netd` (crate netd)
//!   loads
//! - `layout`: its tables and numbers
//! - `packet`: the format of packets with their tag
//! - `desk`: the protocol between a job and netd
//! - `seat`: a rank's access to the kernel's program, by mapped tables and a socket
//!
//! The meaning of a packet is defined by `coll::lower::Machine`, with which the kernel is compared in
//! tests. Absent: loading programs, MPI, policy.
#![deny(unsafe_code)]

pub mod desk;
pub mod layout;
pub mod packet;
pub mod seat;
