//! Vocabulary that all crates of Tutti share: newtypes of MPI's numbers, the error type, the registry of
//! settings and the facade for synchronisation.
//!
//! Deliberately absent: I/O, unsafe code, and anything that knows how a message travels.
//!
//! # What is where
//!
//! Newtypes, the error type, the configuration registry, the synchronisation facade, which host each rank
//! runs on, MPI libraries by their names, what a process has moved by which way (`traffic`: plain words,
//! written by whoever is in the library), and the events of a trace with their text (`trace`). Entry
//! points: `Error`, `config::SETTINGS`, `Placement`, `sync`, `traffic::TRAFFIC`, `trace::Event`. Absent:
//! I/O, unsafe code.
#![deny(unsafe_code)]

mod bank_sizes;
pub mod config;
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
pub use placement::{Place, Placement};
pub use ports::PortRange;
