//! Construction of communicators from others (MPI-5 sections 7.4 and 8.5):
//!
//! - `create`: duplicates and subsets,
//! - `split`: by colour or hardware,
//! - `topologies`: with a topology,
//! - `reorder`: with ranks that are near each other in the hardware.

mod color;
pub mod create;
mod reorder;
pub mod split;
pub mod topologies;
