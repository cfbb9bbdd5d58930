//! `libmpi_abi.so.1`: the C interface of MPI, standard ABI (MPI-5 chapter 20).
//!
//! Generated entry points ([`generated`]) turn C arguments into typed views ([`scope`]) and call one
//! hand-written function a family ([`imp`]), inside a wrapper ([`entry`]) that takes the lock and raises
//! errors. Handles are looked up in [`handles`]. Deliberately absent: semantics; those are core's.
//!
//! # What is where
//!
//! `libmpi_abi.so.1` and `mpi.h`. `spec/` holds the standard ABI as tables; `cargo xtask generate` writes
//! from them `include/mpi.h` and `src/generated/`: MPI_X and PMPI_X of all functions, each turning its C
//! arguments into typed views (`scope`) and calling one hand-written function a family (`imp`) inside the
//! wrapper `entry` (running? lock, error handler). It also exports `madvise` (see there). Entry points:
//! `imp` (its module doc says how to implement a function), `handles` (the table, and the kinds of handles),
//! `imp::stored` (which object a handle stands for), `errors` (raises them, and remembers them in words for
//! MPI_Error_string). Absent: semantics.

mod arguments;
pub mod dialect;
pub mod entry;
pub mod errors;
pub mod form;
pub mod function;
pub mod generated;
pub mod handles;
pub mod imp;
pub mod lane;
pub mod listeners;
mod madvise;
pub mod phase;
pub mod scope;
pub mod slots;
pub mod status;
pub mod types;
