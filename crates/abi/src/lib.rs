//! `libmpi_abi.so.1`: the C interface of MPI, standard ABI (MPI-5 chapter 20).
//!
//! Generated entry points ([`generated`]) turn C arguments into typed views ([`scope`]) and call one hand-written
//! function a family ([`imp`]), inside a wrapper ([`entry`]) that takes the lock and raises errors. Handles are
//! looked up in [`handles`]. Deliberately absent: semantics; those are core's.

pub mod dialect;
pub mod entry;
pub mod errors;
pub mod form;
pub mod generated;
pub mod handles;
pub mod imp;
pub mod kind;
pub mod lane;
mod madvise;
pub mod phase;
pub mod scope;
pub mod status;
pub mod types;
