//! Common part of all fronts: the entry points, generated once, and their building blocks.
//!
//! A front is a library with another ABI of MPI. Each of its functions translates its arguments to the
//! standard ABI, calls the function of the same name in `libmpi_abi.so.1`, and translates the results back.
//! Each front compiles this folder against its own types and constants (`crate::abi`, `crate::constants`).
//! Deliberately absent: semantics, state, and knowledge of Tutti beyond the standard ABI and the interface
//! that [`library`] takes.

pub mod generated;
pub mod integers;
pub mod kind;
pub mod library;
pub mod others;
pub mod places;
pub mod special;
pub mod standard;
