//! Engine that moves the bytes of a schedule. All kinds of operations take the same path. A blocking
//! operation starts and waits, a non-blocking one starts, and a persistent one keeps the execution and starts
//! it again.
//!
//! [`Execution`] runs one rank's part of a [`tutti_coll::Plan`]. It uses the memory of its [`Bindings`] and
//! the messages of a [`Port`]. Once it has run, it runs again without allocations.
//!
//! Deliberately absent: transports, which are behind [`Port`], and communicators.

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
