//! Several hosts on one machine: for tests across hosts, for comparisons of libraries, and for trying
//! Tutti.
//!
//! A host is a set of namespaces (network, host name, System V memory, mounts) that a holder process keeps
//! alive. It has a network link of its own to a switch, private /tmp and /dev/shm, and a server in place of
//! sshd. Faults behave as in reality. A crashed host falls silent, a cut cable loses packets in transit,
//! and a command on another host does not end with its caller. The work is done by commands of iproute2,
//! util-linux and nftables, without unsafe code.
//!
//! # Contents
//!
//! `tutti testbed up N`, also available as `cargo xtask testbed up N`, creates a testbed. A holder process
//! for each host keeps its network, name, System V memory and mounts, and serves in place of sshd. `agent
//! HOST COMMAND...` is its client in place of ssh. It joins words with blanks for the shell of the other
//! side and inherits nothing. Streams go through the network of the hosts, and the command is a child of
//! the server. So a cut cable cuts the agent's connections, and killing a launcher kills nothing on another
//! host. Segments that connections pass to a shaped interface are not cut by it, as real interfaces cut
//! packets themselves.
//!
//! Faults: `kill` (a crash: silent first, then dead), `cut`, `join`, `loss`. Entry points: `up`, `Testbed`,
//! `run` (the command line), `TestbedError`. The state is in `/run/tutti-testbed/NAME`. If `up` is killed,
//! the holders end, because it held their input. `--with PID` ends the testbed with a process. Absent: unsafe
//! code, MPI, users other than root.
#![deny(unsafe_code)]

mod command;
mod error;
mod faults;
mod hold;
mod remote;
mod state;
mod up;

pub use command::{Action, run};
pub use error::TestbedError;
pub use state::{Host, Testbed, down};
pub use up::{Lines, up};
