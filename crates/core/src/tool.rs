//! Contents of the tool information interface (MPI-5 chapter 15.3): [`settings`] as control variables,
//! counters as performance variables ([`variables`]), and [`events`].
//!
//! This module has names, meanings and values. Handles, sessions and C types are in the abi crate. All can be
//! read before MPI_Init and after MPI_Finalize. Then the settings are those of a process that starts now, and
//! counters do not change.

pub mod settings;
pub mod variables;

pub use crate::events::{self, Names};
