//! What fronts have in common: the entry points, generated once, and what they are made of.
//!
//! A front is a library of another ABI of MPI. Each of its functions turns its arguments into those of the standard ABI, calls
//! the function of the same name in `libmpi_abi.so.1`, and turns back what it returns. This folder is compiled into each of them,
//! against its own types and constants (`crate::abi`, `crate::constants`). Deliberately absent: semantics, state, and knowledge
//! of Tutti beyond the standard ABI and the interface that [`library`] takes.

pub mod generated;
pub mod integers;
pub mod kind;
pub mod library;
pub mod others;
pub mod places;
pub mod special;
pub mod standard;
