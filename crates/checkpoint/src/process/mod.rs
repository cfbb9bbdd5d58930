//! The processes of a host's ranks, as they are: stopped, looked at, listed.

pub mod areas;
mod asker;
pub mod capture;
pub mod freeze;
pub mod keeper;
pub mod memory;
pub mod network;
pub mod open_files;
