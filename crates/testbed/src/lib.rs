//! Several hosts on one machine: for tests across hosts, for measuring the libraries side by side, for trying Tutti out.
//!
//! A host is a set of namespaces (network, host name, System V memory, mounts) that a holder process keeps, with a
//! network link of its own to a switch, private /tmp and /dev/shm, and a server that takes the place of sshd. A fault is
//! what it is in the world: a crashed host falls silent, a pulled plug loses what is on the way, and a command started
//! on another host belongs to that host and not to who asked for it. Commands of iproute2, util-linux and nftables do the
//! work; nothing here is unsafe.
//!
//! # What is where
//!
//! Several hosts on one machine, in namespaces: `tutti testbed up N`, which is also `cargo xtask testbed up
//! N`. A holder process a host keeps its network, name, System V memory and mounts, and serves in the place
//! of sshd; `agent HOST COMMAND...` is its client in the place of ssh: words joined with blanks for the
//! other side's shell, nothing inherited, streams through the network of the hosts, the command a child of
//! the server. So a cut cable cuts the agent's connections, and killing a launcher kills nothing on another
//! host. What connections hand to a shaped interface passes it uncut, as real ones cut packets themselves.
//! Faults: `kill` (a crash: silent first, then dead), `cut`, `join`, `loss`. Entry points: `up`, `Testbed`,
//! `run` (the command line). The state is in `/run/tutti-testbed/NAME`; a killed `up` ends the holders,
//! whose input it held; `--with PID` ends the testbed with a process. Absent: unsafe code (iproute2,
//! util-linux and nftables do the work), MPI, users other than root.
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
