//! Files (MPI-5 chapter 14; S10), between `core` and the C interface.
//!
//! Floors, from below:
//!
//! | module | what |
//! |---|---|
//! | [`view`] | what of a file a process sees: a datatype repeated without end, never flattened |
//! | [`representation`] | how data look in a file: native, internal, external32, and what programs register |
//! | [`memory`] | the user's side of an access |
//! | `observed` | what counters and traces get of an access |
//! | `place` | where a name leads: to a file of the system, a stream, or servers (`tutti_storage`) |
//! | [`transfer`] | moves a range of a view between a file and memory, in bounded windows |
//! | [`common`] | what the members of a file share: the shared pointer and the lock of atomic mode |
//! | [`two_phase`], `windows` | what all members do together as a schedule: who exchanges what with whom, and the windows of the file |
//! | [`file`] | the object: open, close, sizes, views, pointers |
//! | [`access`] | reading and writing in all forms |
//! | [`background`], [`worker`] | accesses behind a request: a thread that waits for the device, and who finishes what it has done |
//!
//! Bytes that were not supplied are never written: no member reads a block, changes it and writes it back.
//! Members of a file agree on the result of each joint operation, so that all return the same class of error.
//!
//! Deliberately absent: locks of the file system, hidden files, C types.
//!
//! # What is where
//!
//! Files (MPI-5 chapter 14; S10). Entry points: `File` (`open`, `close`, views, pointers), `access`
//! (reading and writing in all forms), `View` (a datatype repeated without end, never flattened: `data`'s
//! inverse of a cursor finds the bytes of a range of the file), `transfer` (zips runs of the file and
//! memory in bounded windows), `place` (where a name leads: a file of the system, or of io-servers),
//! `worker` (the thread that waits for the device), `common` (shared pointer and lock of atomic mode in a
//! window of core's), `agreement` (members get the same class of error). A byte that was not given is never
//! written. Collective access where runs are short: `two_phase` (pure: from the views of all members, which
//! they tell each other when these are set, and one card each, every member computes how long each message
//! is; the schedule is `coll::algorithms::files`), `windows` (the bytes of a window in the order of the
//! file, at who is in charge of it), `background` (an access behind a request, step by step); core runs the
//! schedule (`collective::files`). Members access the file each by itself where that is cheaper. Absent:
//! locks of the file system, hidden files, C types.
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
