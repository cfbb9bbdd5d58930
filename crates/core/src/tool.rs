//! What the tool information interface shows (MPI-5 chapter 15.3): [`settings`] as control variables, counters as
//! performance variables ([`variables`]), and [`events`].
//!
//! Here are names, meanings and values; handles, sessions and C types are the abi's. All of it can be asked for before
//! MPI_Init and after MPI_Finalize: then the settings are those that a start would find, and counters stand still.

pub mod settings;
pub mod variables;

pub use crate::events::{self, Names};
