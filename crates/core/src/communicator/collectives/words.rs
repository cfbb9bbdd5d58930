//! What names an operation that was done before.

use tutti_coll::Collective;

/// The arguments of a call but for its addresses and lists, as they came: calls with equal words and lists on
/// one communicator are the same operation, so that it need not be taken apart again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Which.
    pub collective: Collective,
    /// Whether send or receive is MPI_IN_PLACE.
    pub in_place: [bool; 2],
    /// The root, or 0.
    pub root: i32,
    /// Of send and receive.
    pub counts: [i64; 2],
    /// Handles of the datatypes.
    pub datatypes: [usize; 2],
    /// Handle of the operator, or 0.
    pub operator: usize,
}
