//! Collectives in the kernel's packet path (S9; yu-2006, chapter 6): what a rank, `tutti netd` and the
//! kernel's program share.
//!
//! # What is where
//!
//! `bpf/packets.c` is the program of the kernel, compiled to `bpf/packets.o`, which `tutti netd` (crate netd)
//! loads; `layout` has its tables and numbers, `packet` the bytes on the wire with their tag, `desk` what a
//! job and netd say to each other, `seat` a rank's place in the kernel: mapped tables and a socket. What a
//! packet means is said by `coll::lower::Machine`, with which the kernel is compared. Absent: loading
//! programs, MPI, policy.
#![deny(unsafe_code)]

pub mod desk;
pub mod layout;
pub mod packet;
pub mod seat;
