//! State of the processes of a host's ranks: stop them, describe them, list what they have open.

pub mod areas;
mod asker;
pub mod capture;
pub mod freeze;
pub mod keeper;
pub mod memory;
pub mod network;
pub mod open_files;
