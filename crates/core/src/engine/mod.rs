//! The engine: moves the bytes of a schedule. Blocking is start and wait, non-blocking is start,
//! persistent is to keep the execution and start it again; one path for all of them.
//!
//! [`Execution`] runs one rank's part of a [`tutti_coll::Plan`] on the memory of its [`Bindings`] with
//! the messages of a [`Port`]. Once it has run, running it again allocates nothing.
//!
//! Deliberately absent: knowledge of how a message travels ([`Port`] does), and of communicators.

mod compiled;
mod copies;
pub mod execution;
pub mod memory;
mod node;
mod observed;
pub mod port;
#[cfg(test)]
mod tests;

pub(crate) use copies::{copy_to_bank, copy_to_peer};
pub use execution::{Execution, ExecutionStatus};
pub use memory::{Array, Bindings, Memory};
pub use port::{Exposed, NodePort, Port, Remote, Rows, Started};
