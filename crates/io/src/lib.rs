//! Files (MPI-5 chapter 14; S10), between `core` and the C interface.
//!
//! Modules, from the bottom:
//!
//! | module | content |
//! |---|---|
//! | [`view`] | view of a process on a file: a datatype repeated without end, never flattened |
//! | [`representation`] | data representations: native, internal, external32, and those of programs |
//! | [`memory`] | memory of the user that an access reads or writes |
//! | `observed` | counters and trace events of accesses |
//! | `place` | drivers by file name: files of the system, streams, files of io-servers (`tutti_storage`) |
//! | [`transfer`] | transfer of a range of a view between a file and memory, in bounded windows |
//! | [`common`] | state that members share: the shared pointer and the lock of atomic mode |
//! | `agreement` | common results of joint operations |
//! | [`two_phase`] | collective access in two phases: pure computation of windows and messages |
//! | `windows` | the windows of such an access at an aggregator |
//! | [`file`] | the object: open, close, sizes, views, pointers |
//! | [`access`] | reading and writing in all forms |
//! | [`background`], [`worker`] | accesses behind a request, step by step; threads that wait for the device |
//!
//! Bytes that were not supplied are never written: no member reads a block, changes it and writes it back.
//! Members of a file agree on the result of each joint operation, so that all return the same class of error.
//!
//! In a collective access, short runs are exchanged between members first. Members send each other their
//! views when these are set, and a card for each access. From these, each member computes the length of every
//! message. The schedule is `coll::algorithms::files`; core executes it (`collective::files`). If it is
//! faster, each member accesses the file independently.
//!
//! Entry points: `File`, `access`, `View`. Deliberately absent: locks of the file system, hidden files, C
//! types.
#![deny(unsafe_code)]

pub mod access;
mod agreement;
pub mod background;
pub mod common;
#[cfg(test)]
mod conformance;
pub mod file;
pub mod memory;
mod observed;
mod place;
pub mod representation;
pub mod transfer;
pub mod two_phase;
pub mod view;
mod windows;
pub mod worker;

pub use access::{Access, Pointer};
pub use file::File;
pub use memory::Memory;
