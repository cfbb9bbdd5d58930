//! Common parts of the algorithms on exposed memory (Ma, chapter 3). A rank exposes its buffers, and the
//! others copy or combine the parts that they need, once. The rank leaves when all have reported that they
//! are done. All ranks copy at the same time, in rotated order, so that they do not access the same memory.

pub mod moves;
pub mod reduce;
pub mod together;

use crate::algorithms::banks::{READY, await_others};
use crate::build::{self, Builder};
use crate::ir::{BufferId, Division, Index, Span};
use crate::shape::{Params, Shape};

/// Flag of a rank that is done with the memory of others.
pub(crate) const DONE: u16 = 2;
/// Exposed span that others read.
pub(crate) const SOURCE: BufferId = BufferId::exposed(0);
/// Exposed span that others write.
pub(crate) const TARGET: BufferId = BufferId::exposed(1);

/// Posts that this rank is done with the memory of all others, and waits until they are done with its own.
pub(crate) fn part(shape: &Shape, b: &mut Builder) {
    b.post(DONE, 1);
    await_others(shape, DONE, 1, b);
}

/// Posts that the exposed memory may be used, and waits for the same of all others.
pub(crate) fn meet(shape: &Shape, b: &mut Builder) {
    b.post(READY, 1);
    await_others(shape, READY, 1, b);
}

/// Range of a buffer in pieces, each of which stays in the cache while the operands of all ranks are
/// combined.
pub(crate) struct Pieces {
    start: u64,
    length: u64,
    /// Units of a piece; the last one may be shorter.
    pub size: u64,
    unrolled: bool,
    count: u32,
}

impl Pieces {
    /// Largest number of ranks for which pieces are a loop of the schedule. With more ranks the pieces are
    /// unrolled, and the ranks are a loop.
    const FEW_RANKS: u32 = 16;
    /// Number of pieces with more ranks.
    const FEW_PIECES: u64 = 4;

    /// Divides units `start..start + length` into pieces of [`Params::segment`].
    pub fn new(start: u64, length: u64, shape: &Shape, params: &Params) -> Pieces {
        let unrolled = shape.ranks > Pieces::FEW_RANKS;
        let few = if unrolled { Pieces::FEW_PIECES } else { u64::from(u32::MAX) };
        let size = if params.segment == 0 { length } else { params.segment };
        let size = size.clamp(1, length.max(1)).max(length.div_ceil(few));
        Pieces { start, length, size, unrolled, count: length.div_ceil(size) as u32 }
    }

    /// Returns slice `rank` of `total` units in pieces; there are as many equal slices as ranks.
    pub fn of_slice(total: u64, shape: &Shape, params: &Params) -> Pieces {
        let slices = Division::Even { parts: shape.ranks, total };
        let start = |slice: u32| slices.start(u64::from(slice), &Default::default());
        let (first, end) = (start(shape.rank), start(shape.rank + 1));
        Pieces::new(first, end - first, shape, params)
    }

    /// Returns piece `piece` of `buffer`.
    pub fn piece(&self, buffer: BufferId, piece: Index) -> Span {
        build::slot(buffer, self.start, self.size, piece, self.first(buffer, piece))
    }

    /// Returns a span at the beginning of `buffer`, as long as piece `piece`.
    pub fn room(&self, buffer: BufferId, piece: Index) -> Span {
        build::slot(buffer, 0, 0, 0, self.first(buffer, piece))
    }

    fn first(&self, buffer: BufferId, piece: Index) -> Span {
        build::block(buffer, Division::Regular { size: self.size, total: self.length }, piece)
    }

    /// Writes `body` for every piece.
    pub fn each(&self, b: &mut Builder, body: impl Fn(Index, &mut Builder)) {
        if self.unrolled || self.count == 1 {
            (0..self.count).for_each(|piece| body(piece.into(), b));
        } else {
            b.repeat(self.count, 1, |b| body(Index::linear(0, 1), b));
        }
    }
}
