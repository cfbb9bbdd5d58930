//! `libmpi_abi.so.1`: the C interface of MPI, standard ABI (MPI-5 chapter 20).
//!
//! # What is where
//!
//! `spec/` contains the standard ABI as tables. `cargo xtask generate` writes `include/mpi.h` and
//! `src/generated/` from them: the entry points MPI_X and PMPI_X of all functions.
//!
//! | module | content |
//! |---|---|
//! | [`generated`] | entry points: they turn C arguments into typed views and call an implementation |
//! | [`scope`] | typed views of arguments |
//! | [`entry`] | wrapper of each call: checks that the library runs, takes the lock, raises errors |
//! | [`imp`] | implementations, one function for each family; its documentation describes how to add one |
//! | [`handles`] | the table of handles, and the kinds of handles |
//! | `imp::stored` | types of the objects behind handles |
//! | [`errors`] | raising of errors, and their messages for MPI_Error_string |
//! | `madvise` | exported wrapper of the C library's function |
//!
//! Deliberately absent: semantics, which are in core.

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
