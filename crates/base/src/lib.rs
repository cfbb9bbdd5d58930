//! Vocabulary that all crates of Tutti share: newtypes of MPI's numbers, the error type, the registry of
//! settings and the facade for synchronisation.
//!
//! # What is where
//!
//! | module | content |
//! |---|---|
//! | [`ids`] | newtypes of MPI's numbers |
//! | [`error`] | the error type |
//! | [`config`] | the registry of settings; entry point: [`config::SETTINGS`] |
//! | [`cost_model`] | names of files with the costs of a machine |
//! | [`sync`] | facade for atomics, which loom replaces in model checks |
//! | [`placement`], [`machines`] | the host of each rank, and the machine of each host |
//! | [`mpi_libraries`] | MPI libraries by their file names |
//! | [`traffic`] | counters of the data that a process has moved, by path; entry point: [`traffic::TRAFFIC`] |
//! | [`trace`] | events of a trace and their text |
//!
//! Deliberately absent: I/O, unsafe code, and knowledge about the transport of messages.
#![deny(unsafe_code)]

mod bank_sizes;
pub mod config;
pub mod cost_model;
pub mod error;
pub mod ids;
pub mod machines;
pub mod mpi_libraries;
pub mod placement;
mod ports;
pub mod sync;
pub mod trace;
pub mod traffic;

pub use bank_sizes::BankSizes;
pub use error::{Error, ErrorClass, Result};
pub use ids::{ContextId, Rank, Tag, WorldRank};
pub use machines::Machines;
pub use placement::{Placement, RankPlace};
pub use ports::PortRange;
