//! Identifiers of requests, their status, and the remains of retired ones.

use crate::lanes::Lane;

/// Identifier of a request of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Status of a completed operation (MPI_Status). Receives from `MPI_PROC_NULL` report `source: -3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender, or a negative constant of the standard.
    pub source: i32,
    /// Tag of the message, or `MPI_ANY_TAG`.
    pub tag: i32,
    /// Received bytes, in packed form.
    pub bytes: u64,
    /// True if the operation was cancelled.
    pub cancelled: bool,
}

/// Result of a retired request: see `RequestTable::retire_plain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Status of the completed operation.
    pub status: Status,
    /// True if the request is persistent, so that its handle stays valid.
    pub persistent: bool,
}

/// Bound on generations. They are never 0, so that an id as a number differs from all predefined handles.
/// They stay below 2^24, so that a handle has room for its kind above them.
pub(crate) const GENERATIONS: u32 = 1 << 24;
/// Position of the lane in an index, above the slot.
pub(crate) const LANE_SHIFT: u32 = 27;
/// Difference between the number of a request (MPI_Request_toint) and its index.
const FIRST_NUMBER: u32 = 0x1000;
/// Maximum number of requests of a lane.
pub(crate) const MOST: usize = (1 << LANE_SHIFT) - 2 * FIRST_NUMBER as usize;
const _: () = assert!(
    (tutti_base::config::MAX_LANES - 1) << LANE_SHIFT | (MOST as u32 - 1)
        < RequestId::DONE_UNCANCELLABLE.index,
    "no request has the place of those that are done"
);

impl RequestId {
    /// Id of every operation that was complete at once and has an empty status. Such operations take no slot,
    /// and retiring the id frees nothing. No table uses its index. The number (MPI_Request_toint) has 30
    /// bits, as for all requests, so that it fits into handles of other ABIs (`crates/fronts`).
    pub const DONE: RequestId =
        RequestId { index: (1 << 30) - 2 - FIRST_NUMBER, generation: GENERATIONS - 1 };

    /// Id of such operations that must not be cancelled (MPI-5 sections 6.12 and 12.3.5).
    pub const DONE_UNCANCELLABLE: RequestId =
        RequestId { index: RequestId::DONE.index - 1, generation: RequestId::DONE.generation };

    /// Returns true for an operation that was complete at once.
    #[inline]
    pub fn is_done(self) -> bool {
        // The two ids are consecutive numbers.
        self.to_bits().wrapping_sub(RequestId::DONE_UNCANCELLABLE.to_bits()) <= 1
    }

    /// Returns the lane whose table contains the request, or None if any lane will do.
    #[inline]
    pub fn lane(self) -> Option<Lane> {
        if self.is_done() { None } else { Lane::new(self.index >> LANE_SHIFT) }
    }

    /// Returns the lane whose table may have a request with this index.
    pub fn lane_of_index(index: u32) -> Lane {
        Lane::new(index >> LANE_SHIFT).unwrap_or(Lane::FIRST)
    }

    /// Returns the id as one number, for packets and handles. It is at least 2^32.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Returns the id of a number. Any number gives an id, which may be unknown to the table.
    #[inline]
    pub fn from_bits(bits: u64) -> RequestId {
        RequestId { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

impl Status {
    /// Status of a request that is null or inactive (MPI-5 section 3.7.3).
    pub const EMPTY: Status = Status { source: -1, tag: -2, bytes: 0, cancelled: false };
    /// Status of a receive from `MPI_PROC_NULL`.
    pub const PROC_NULL: Status = Status { source: -3, tag: -2, bytes: 0, cancelled: false };
}
