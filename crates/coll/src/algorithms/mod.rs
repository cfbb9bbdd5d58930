//! The algorithms, in a folder for each means of moving data and a file for each family, which ends in the
//! list of its entries. Each is a pure function that writes one rank's schedule. All take any number of
//! ranks, any root and any count (including 0). Unless registered otherwise, they keep the order of operands
//! of operators that do not commute. [`crate::registry()`] joins the lists.
//!
//! From the bottom: [`messages`] between any ranks, [`banks`] and flags of one node (S1), [`exposed`] memory
//! of one node (S2), trees and rings by [`distance`] (S3), [`hosts`] whose levels overlap (S4); [`groups`] of
//! an intercommunicator, [`neighbourhood`] collectives, and [`files`] (S10).

pub mod banks;
pub mod distance;
pub mod exposed;
pub mod files;
pub mod groups;
pub mod hosts;
pub mod messages;
pub mod neighbourhood;

use crate::build::{self, Builder};
use crate::ir::{BufferId, Division, Index, Span};
use crate::shape::{Params, Shape};

/// Returns the buffer of this rank's contribution.
pub(crate) fn own(shape: &Shape) -> BufferId {
    if shape.in_place { BufferId::RECV } else { BufferId::SEND }
}

/// Returns the division of `units` units into segments of the size in `params`, and the number of segments.
pub(crate) fn segments(units: u64, params: &Params) -> (Division, u32) {
    let size = if params.segment == 0 { units.max(1) } else { params.segment };
    let size = size.max(units.div_ceil(u64::from(u32::MAX)));
    (Division::Regular { size, total: units }, units.div_ceil(size) as u32)
}

/// Passes the blocks of `buffer` around the ring: rank r begins with block r, and all end with all blocks.
/// `root`, which has all from the beginning, receives none.
pub(crate) fn ring(shape: &Shape, buffer: BufferId, blocks: Division, root: Option<u32>, b: &mut Builder) {
    let (left, right) = (shape.neighbour(-1), shape.neighbour(1));
    let (ranks, rank) = (shape.ranks, i64::from(shape.rank));
    let from = (root != Some(shape.rank)).then_some(left);
    let to = (root != Some(right)).then_some(right);
    let block = |back| build::block(buffer, blocks, Index::cyclic(rank - back, -1, ranks));
    ring_through(ranks, from, to, block, b);
}

/// Passes blocks around a ring, in the rounds from one neighbour to the other; `block(back)` are, round by
/// round, the blocks that began `back` places before this one.
pub(crate) fn ring_through(
    ranks: u32,
    from: Option<u32>,
    to: Option<u32>,
    block: impl Fn(i64) -> Span,
    b: &mut Builder,
) {
    b.repeat(ranks - 1, 2, |b| {
        let received = from.map(|left| b.recv(left, 0, block(1), &[]));
        if let Some(right) = to {
            let previous = received.map(|step| step.before(1));
            b.send(right, 0, block(0), previous.as_slice());
        }
    });
    b.join();
}
