//! Origin of groups and communicators.

use std::fmt;

/// Origin of a group or communicator: the world model, or a session. One call must not mix objects of
/// different origins (MPI-5 section 11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(u32);

impl Origin {
    /// Origin of objects outside sessions: MPI_COMM_WORLD, the parent, joined processes, and all objects made
    /// of them.
    pub const WORLD: Origin = Origin(0);

    /// Returns the origin of the session with this number, which counts from 1.
    pub(crate) fn numbered(number: u32) -> Origin {
        Origin(number)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin(0) => write!(out, "the world model"),
            Origin(number) => write!(out, "session {number} of this process"),
        }
    }
}
