//! What the algorithms on exposed memory share (Ma, chapter 3): a rank lets the others at its buffers, they
//! copy or combine what they need, once, and it leaves when all have said that they are done. All ranks copy
//! at the same time; in rotated order, so that they do not all get at the same memory.

pub mod moves;
pub mod reduce;

use crate::algorithms::banks::{READY, await_others};
use crate::build::{self, Builder};
use crate::ir::{BufferId, Division, Index, Span};
use crate::shape::{Params, Shape};

/// "I am done with the memory of others."
pub(crate) const DONE: u16 = 2;
/// What others read.
pub(crate) const SOURCE: BufferId = BufferId::exposed(0);
/// What others write.
pub(crate) const TARGET: BufferId = BufferId::exposed(1);

/// Says that this rank is done with the memory of all others, and waits until they are done with its own.
pub(crate) fn part(shape: &Shape, b: &mut Builder) {
    b.post(DONE, 1);
    await_others(shape, DONE, 1, b);
}

/// Says that what was exposed may be used, and waits until that of all others may.
pub(crate) fn meet(shape: &Shape, b: &mut Builder) {
    b.post(READY, 1);
    await_others(shape, READY, 1, b);
}

/// A range of a buffer in pieces, each of which stays in the cache while the operands of all ranks pass by.
pub(crate) struct Pieces {
    start: u64,
    length: u64,
    /// Units of a piece, of the first at least.
    pub size: u64,
    unrolled: bool,
    count: u32,
}

impl Pieces {
    /// Up to so many ranks, pieces are a loop, and the ranks are not.
    const FEW_RANKS: u32 = 16;
    /// With more ranks, there are so many pieces.
    const FEW_PIECES: u64 = 4;

    /// Units `start..start + length`, in pieces of [`Params::segment`].
    pub fn new(start: u64, length: u64, shape: &Shape, params: &Params) -> Pieces {
        let unrolled = shape.ranks > Pieces::FEW_RANKS;
        let few = if unrolled { Pieces::FEW_PIECES } else { u64::from(u32::MAX) };
        let size = if params.segment == 0 { length } else { params.segment };
        let size = size.clamp(1, length.max(1)).max(length.div_ceil(few));
        Pieces { start, length, size, unrolled, count: length.div_ceil(size) as u32 }
    }

    /// Slice `rank` of as many equal ones of `total` units as there are ranks.
    pub fn of_slice(total: u64, shape: &Shape, params: &Params) -> Pieces {
        let slices = Division::Even { parts: shape.ranks, total };
        let start = |slice: u32| slices.start(u64::from(slice), &Default::default());
        let (first, end) = (start(shape.rank), start(shape.rank + 1));
        Pieces::new(first, end - first, shape, params)
    }

    /// Piece `piece` of `buffer`.
    pub fn piece(&self, buffer: BufferId, piece: Index) -> Span {
        build::slot(buffer, self.start, self.size, piece, self.first(buffer, piece))
    }

    /// As long as piece `piece`, at the beginning of `buffer`.
    pub fn room(&self, buffer: BufferId, piece: Index) -> Span {
        build::slot(buffer, 0, 0, 0, self.first(buffer, piece))
    }

    fn first(&self, buffer: BufferId, piece: Index) -> Span {
        build::block(buffer, Division::Regular { size: self.size, total: self.length }, piece)
    }

    /// Does `body` for every piece.
    pub fn each(&self, b: &mut Builder, body: impl Fn(Index, &mut Builder)) {
        if self.unrolled || self.count == 1 {
            (0..self.count).for_each(|piece| body(piece.into(), b));
        } else {
            b.repeat(self.count, 1, |b| body(Index::linear(0, 1), b));
        }
    }
}
