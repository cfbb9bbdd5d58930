//! The algorithms, a file a family. Each is a pure function that writes one rank's schedule; all take
//! any number of ranks, any root, any count (0 too) and, unless registered otherwise, operators that
//! do not commute. [`crate::registry`] names them.

pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod bank_move;
pub mod bank_reduce;
pub mod bank_stream;
pub mod bank_stream_move;
pub mod barrier;
pub mod bcast;
pub mod between;
pub mod exposed_move;
pub mod exposed_reduce;
pub mod files;
pub mod flags;
pub mod gather;
pub mod hierarchical;
pub mod hierarchical_exposed;
pub mod hierarchical_exposed_reduce;
pub mod levels;
pub mod levels_bank;
pub mod levels_bank_move;
pub mod levels_circulant;
pub mod levels_circulant_reduce;
pub mod levels_doubling;
pub mod levels_exchange;
pub mod levels_frames;
pub mod levels_leaders;
pub mod levels_reduce;
pub mod levels_ring;
pub mod levels_scan;
pub mod levels_slices;
pub mod neighbourhood;
pub mod reduce;
pub mod reduce_scatter;
pub mod scan;
pub mod tree;

mod bank;
mod circulant;
mod exchange;
mod exposed;
mod hosts;

use crate::build::{self, Builder};
use crate::ir::{BufferId, Division, Index, Span};
use crate::shape::{Params, Shape};

/// Where this rank's contribution lies.
fn own(shape: &Shape) -> BufferId {
    if shape.in_place { BufferId::RECV } else { BufferId::SEND }
}

/// The segments of `units` units that `params` asks for, and how many there are.
fn segments(units: u64, params: &Params) -> (Division, u32) {
    let size = if params.segment == 0 { units.max(1) } else { params.segment };
    let size = size.max(units.div_ceil(u64::from(u32::MAX)));
    (Division::Regular { size, total: units }, units.div_ceil(size) as u32)
}

/// Passes the blocks of `buffer` around the ring: rank r begins with block r, all end with all.
/// `root`, which has all from the beginning, receives none.
fn ring(shape: &Shape, buffer: BufferId, blocks: Division, root: Option<u32>, b: &mut Builder) {
    let (left, right) = (shape.neighbour(-1), shape.neighbour(1));
    let (ranks, rank) = (shape.ranks, i64::from(shape.rank));
    let from = (root != Some(shape.rank)).then_some(left);
    let to = (root != Some(right)).then_some(right);
    let block = |back| build::block(buffer, blocks, Index::cyclic(rank - back, -1, ranks));
    ring_through(ranks, from, to, block, b);
}

/// Passes blocks around a ring, in the rounds from one neighbour to the other; `block(back)` are, round by round, the
/// blocks that began `back` places before this one.
fn ring_through(
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
