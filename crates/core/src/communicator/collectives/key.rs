//! Key by which a repeated call is recognised.

use tutti_coll::Collective;

/// The arguments of a call except addresses and lists, unchanged. Calls with equal keys and lists on one
/// communicator are the same operation, so their arguments need not be analysed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKey {
    /// Collective that is called.
    pub collective: Collective,
    /// For send and receive: whether the buffer is MPI_IN_PLACE.
    pub in_place: [bool; 2],
    /// The root, or 0.
    pub root: i32,
    /// Counts of send and receive.
    pub counts: [i64; 2],
    /// Handles of the datatypes of send and receive.
    pub datatypes: [usize; 2],
    /// Handle of the operator, or 0.
    pub operator: usize,
}
