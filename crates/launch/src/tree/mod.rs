//! Protocol between the daemons of a job, as pure state machines. Bytes, events and the time go in; bytes and
//! actions come out. The sockets are in [`connections`](crate::connections), the processes in
//! [`node`](crate::node).
//!
//! There is one daemon on each host. They are numbered from 0, the daemon of mpirun itself, as a complete
//! tree of a settable radix. A daemon starts its children, so that the time to start grows with the depth
//! (yu-2006, chapter 2). A star is the tree whose radix is the number of daemons. Every connection is an edge
//! of the tree; there are no others.
//!
//! | module | task |
//! |---|---|
//! | [`shape`] | parents and children |
//! | [`handshake`] | mutual proof of the secret |
//! | [`frame`], [`link`] | messages as authenticated frames, heartbeats |
//! | [`clock`] | time in which a daemon ran |
//! | [`message`] | messages |
//! | [`daemon`] | actions of a daemon on each event |
//! | [`directory`] | addresses of ranks |
//! | [`fuzz`] | arbitrary bytes from strangers and from faulty daemons |

pub mod cards;
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
