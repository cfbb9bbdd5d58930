//! Files (MPI-5 chapter 14; S10), between `core` and the C interface.
//!
//! Floors, from below:
//!
//! | module | what |
//! |---|---|
//! | [`view`] | what of a file a process sees: a datatype repeated without end, never flattened |
//! | [`representation`] | how data look in a file: native, internal, external32, and what programs register |
//! | [`memory`] | the user's side of an access |
//! | [`driver`] | what touches the world: one trait, one conformance suite |
//! | [`transfer`] | moves a range of a view between a file and memory, in bounded windows |
//! | [`common`] | what the members of a file share: the shared pointer and the lock of atomic mode |
//! | [`two_phase`], `windows` | what all members do together as a schedule: who exchanges what with whom, and the windows of the file |
//! | [`hints`] | what programs may say about a file, and what is in force |
//! | [`file`] | the object: open, close, sizes, views, pointers |
//! | [`access`] | reading and writing in all forms |
//! | [`background`], [`worker`] | accesses behind a request: a thread that waits for the device, and who finishes what it has done |
//!
//! A byte that was not given is never written: nobody reads a block, changes it and writes it back. Members of a file agree on the
//! result of whatever they do together, so that all of them get the same class of error.
//!
//! Deliberately absent: locks of the file system, hidden files, C types.
#![deny(unsafe_code)]

pub mod access;
mod accord;
pub mod amode;
pub mod background;
pub mod common;
pub mod driver;
mod fault;
pub mod file;
pub mod hints;
pub mod memory;
pub mod representation;
pub mod transfer;
pub mod two_phase;
pub mod view;
mod windows;
pub mod worker;

pub use access::{Access, Pointer};
pub use amode::Amode;
pub use file::File;
pub use memory::Memory;
