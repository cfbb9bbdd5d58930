//! Several hosts on one machine: for tests across hosts, for measuring the libraries side by side, for trying Tutti out.
//!
//! A host is a set of namespaces (network, host name, System V memory, mounts) that a holder process keeps, with a
//! network link of its own to a switch, private /tmp and /dev/shm, and a server that takes the place of sshd. A fault is
//! what it is in the world: a crashed host falls silent, a pulled plug loses what is on the way, and a command started
//! on another host belongs to that host and not to who asked for it. Commands of iproute2, util-linux and nftables do the
//! work; nothing here is unsafe.
#![deny(unsafe_code)]

mod command;
mod faults;
mod hold;
mod remote;
mod state;
mod up;

pub use command::{Action, run};
pub use state::{Host, Testbed, down};
pub use up::{Lines, up};
