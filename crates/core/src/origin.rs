//! Where groups and communicators come from.

use std::fmt;

/// Where groups and communicators come from. Such of different origin must not be mixed in one call (MPI-5
/// section 11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(u32);

impl Origin {
    /// What is not of a session: MPI_COMM_WORLD, the parent and who was joined, and all that is made from them.
    pub const WORLD: Origin = Origin(0);

    /// That of the session with this number, from 1 on.
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
