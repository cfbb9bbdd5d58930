//! Newtypes for the numbers of MPI, so that a rank of a communicator is never taken for a rank of
//! the world, nor a tag for a context.

use std::fmt;

/// A rank within one communicator or group: `0..size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

/// A process of the job: its rank in `MPI_COMM_WORLD` of the job that started first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorldRank(pub u32);

/// A message tag given by a user: `0..=Tag::UPPER_BOUND` (MPI-5 section 3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub i32);

impl Tag {
    /// The value of the attribute `MPI_TAG_UB`.
    pub const UPPER_BOUND: i32 = i32::MAX;
}

/// Identity that separates the traffic of communicators (MPI-5 section 7.3). One communicator owns one
/// context. [`ContextId::plane`] distinguishes its planes (point to point, collective).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub u32);

/// The kinds of traffic inside a communicator that never match one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Plane {
    /// Messages that the user sends.
    PointToPoint = 0,
    /// Messages of collective schedules.
    Collective = 1,
    /// Messages by which new communicators are agreed upon outside a collective of all members.
    Agreement = 2,
    /// Messages of one-sided communication.
    OneSided = 3,
    /// Messages in partitions, which match nothing else (MPI-5 section 4.2).
    Partitioned = 4,
}

impl Plane {
    /// All planes, for loops over them.
    pub const ALL: [Plane; 5] =
        [Plane::PointToPoint, Plane::Collective, Plane::Agreement, Plane::OneSided, Plane::Partitioned];
}

/// Bits of a message header's number that name the plane.
const PLANE_BITS: u32 = 3;

impl ContextId {
    /// Contexts are numbered `0..LIMIT`; the rest of the 32 bits names the plane.
    pub const LIMIT: u32 = 1 << (32 - PLANE_BITS);

    /// Returns the number that travels in a message header for `plane` of this context.
    pub fn plane(self, plane: Plane) -> u32 {
        debug_assert!(self.0 < Self::LIMIT);
        self.0 << PLANE_BITS | plane as u32
    }

    /// Returns true if the number of a message header is of that plane.
    #[inline]
    pub fn is_of(number: u32, plane: Plane) -> bool {
        number & ((1 << PLANE_BITS) - 1) == plane as u32
    }

    /// Returns the context that the number of a message header contains.
    pub fn of_plane(number: u32) -> ContextId {
        ContextId(number >> PLANE_BITS)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for WorldRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
