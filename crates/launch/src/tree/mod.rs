//! What the daemons of a job say to each other, as pure state machines: bytes, events and the time go in, bytes and actions
//! come out. The sockets are in [`connections`](crate::connections), the processes in [`node`](crate::node).
//!
//! One daemon a host, numbered from 0 (that of mpirun itself) as a complete tree of a settable radix. A daemon starts those of its children,
//! so the time to start grows with the depth (yu-2006, chapter 2, and its multi-purpose daemons); a star is the same with the
//! radix of all. Every connection is one edge of the tree: nothing is all-to-all.
//!
//! - [`shape`]: who is whose parent
//! - [`handshake`]: both ends prove that they know the secret
//! - [`frame`], [`link`]: messages as authenticated frames, heartbeats
//! - [`clock`]: the time in which a daemon ran
//! - [`message`]: what is said
//! - [`daemon`]: what a daemon does about it
//! - [`directory`]: where ranks can be reached
//! - [`fuzz`]: what comes from strangers and from daemons gone mad

pub mod clock;
pub mod daemon;
pub mod directory;
pub mod frame;
pub mod fuzz;
pub mod handshake;
pub mod link;
mod machines;
pub mod message;
#[cfg(test)]
mod pauses;
pub mod shape;
#[cfg(test)]
mod simulation;
