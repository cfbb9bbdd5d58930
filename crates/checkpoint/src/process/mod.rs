//! Processes of a host's ranks: how they are stopped, described, copied and drained.

pub mod areas;
mod asker;
pub mod capture;
pub mod freeze;
pub mod keeper;
pub mod memory;
pub mod network;
pub mod open_files;
