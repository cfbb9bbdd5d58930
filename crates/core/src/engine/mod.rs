//! The engine: moves the bytes of a schedule. Blocking is start and wait, non-blocking is start,
//! persistent is to keep the plan and restart; one path for all of them.
//!
//! Deliberately absent: knowledge of how a message travels ([`Port`] does), and of communicators.

pub mod port;

pub use port::{Port, Region, Started};
