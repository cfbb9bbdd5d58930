//! Names of requests, and what is left of one that is over.

use crate::lanes::Lane;

/// Names a request of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// What a completed operation reports (MPI_Status). Receives from `MPI_PROC_NULL` report `source: -3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender, or a negative constant of the standard.
    pub source: i32,
    /// Tag, or `MPI_ANY_TAG`.
    pub tag: i32,
    /// Bytes received, in packed form.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
}

/// What is left of a request that is over: see `RequestTable::retire_plain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// What it reports.
    pub status: Status,
    /// Its handle stays valid: it is persistent.
    pub persistent: bool,
}

/// Generations are never 0, so that an id as a number is never taken for a predefined handle, and stay below
/// 2^24, so that a handle has room for its kind above them.
pub(crate) const GENERATIONS: u32 = 1 << 24;
/// The lane of a request's table, above the place in it.
pub(crate) const LANE_SHIFT: u32 = 27;
/// What the number of a request is above its place (MPI_Request_toint).
const FIRST_NUMBER: u32 = 0x1000;
/// How many requests a lane has room for.
pub(crate) const MOST: usize = (1 << LANE_SHIFT) - 2 * FIRST_NUMBER as usize;
const _: () = assert!(
    (tutti_base::config::MAX_LANES - 1) << LANE_SHIFT | (MOST as u32 - 1)
        < RequestId::DONE_UNCANCELLABLE.index,
    "no request has the place of those that are done"
);

impl RequestId {
    /// Every operation that was over when it was started and has nothing to report: none of them takes a slot. Whoever sees
    /// it off does not free it. Its place is one that the table never has: the last but one whose number (MPI_Request_toint) has 30
    /// bits, as those of all requests, so that handles of other ABIs have room for it (`crates/fronts`).
    pub const DONE: RequestId =
        RequestId { index: (1 << 30) - 2 - FIRST_NUMBER, generation: GENERATIONS - 1 };

    /// The same for operations that must not be cancelled (MPI-5 sections 6.12 and 12.3.5).
    pub const DONE_UNCANCELLABLE: RequestId =
        RequestId { index: RequestId::DONE.index - 1, generation: RequestId::DONE.generation };

    /// Returns true for an operation that was over when it was started.
    #[inline]
    pub fn is_done(self) -> bool {
        // The two ids follow each other.
        self.to_bits().wrapping_sub(RequestId::DONE_UNCANCELLABLE.to_bits()) <= 1
    }

    /// Whose table has it; `None` if any lane will do.
    #[inline]
    pub fn lane(self) -> Option<Lane> {
        if self.is_done() { None } else { Lane::new(self.index >> LANE_SHIFT) }
    }

    /// The lane whose table may have a request at this place.
    pub fn lane_of_index(index: u32) -> Lane {
        Lane::new(index >> LANE_SHIFT).unwrap_or(Lane::FIRST)
    }

    /// As one number: what packets and handles carry. Never below 2^32.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// From that number; any number gives an id, which the table then knows or not.
    #[inline]
    pub fn from_bits(bits: u64) -> RequestId {
        RequestId { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

impl Status {
    /// The status of a request that is null or inactive (MPI-5 section 3.7.3).
    pub const EMPTY: Status = Status { source: -1, tag: -2, bytes: 0, cancelled: false };
    /// The status of a receive from `MPI_PROC_NULL`.
    pub const PROC_NULL: Status = Status { source: -3, tag: -2, bytes: 0, cancelled: false };
}
