//! The subcommands of `tutti`, one each.

pub mod asp;
pub mod builds;
pub mod checkpoint;
pub mod compare;
pub mod connections;
pub mod consistency;
pub mod files;
pub mod headlines;
pub mod hosts;
pub mod info;
pub mod io_server;
pub mod manual;
pub mod overlap;
pub mod probe;
pub mod sim;
pub mod trace;
pub mod tune;
pub mod tuning;
pub mod waits;
