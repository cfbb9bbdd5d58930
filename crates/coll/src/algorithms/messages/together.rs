//! Reductions that combine all operands of an element in one step, so that an operator may round once (the
//! guide's page on reproducible results). Operands travel as they are and lie in rows at the rank that
//! combines them. No message carries a partial result, which would have more bits than an element.
//!
//! A slice of the result costs each rank as many bytes as a partial result would: P - 1 rows of 1/P of the
//! data. So long data need no more than in other algorithms, but for prefixes.

use crate::algorithms::messages::reduce_scatter::{division, result};
use crate::algorithms::{own, ring};
use crate::build::{self, Builder};
use crate::generator::need::COMMUTES;
use crate::generator::parameters::{FIXED, WINDOW};
use crate::generator::{Generator, entry, gathering};
use crate::ir::{BufferId, Division, Index, Loop, Span};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    gathering(entry(C::Reduce, "together", COMMUTES, FIXED, reduce, work::messages::together_reduce)),
    gathering(entry(C::Reduce, "together_slices", COMMUTES, WINDOW, reduce_slices, work::messages::together_slices)),
    gathering(entry(C::Allreduce, "together", COMMUTES, WINDOW, allreduce, work::messages::allreduce_spread)),
    gathering(entry(C::Allreduce, "together_slices", COMMUTES, WINDOW, allreduce_slices, work::messages::together_slices)),
    gathering(entry(C::ReduceScatterBlock, "together", COMMUTES, WINDOW, reduce_scatter, work::messages::reduce_scatter_pairwise)),
    gathering(entry(C::ReduceScatter, "together", COMMUTES, WINDOW, reduce_scatter, work::messages::reduce_scatter_pairwise)),
    gathering(entry(C::Scan, "together", COMMUTES, FIXED, scan, work::messages::together_scan)),
    gathering(entry(C::Exscan, "together", COMMUTES, FIXED, scan, work::messages::together_scan)),
];

/// Operands of other ranks, of `length` units each, one after the other.
pub(crate) struct Rows {
    room: BufferId,
    length: u64,
    count: u32,
}

impl Rows {
    /// Makes room for `count` operands.
    pub fn new(count: u32, length: u64, b: &mut Builder) -> Rows {
        Rows::of_pieces(count, length, length, b)
    }

    /// Makes room for `count` operands, of which `most` units at a time are combined, `length` of them now.
    pub fn of_pieces(count: u32, length: u64, most: u64, b: &mut Builder) -> Rows {
        let room = if count == 0 { BufferId::RECV } else { b.temporary(most * u64::from(count)) };
        Rows { room, length, count }
    }

    /// Returns the same room for operands of another length, which must not be greater.
    pub fn shorter(&self, length: u64) -> Rows {
        Rows { length, ..*self }
    }

    /// Returns the first `count` of the rows.
    pub fn fewer(self, count: u32) -> Rows {
        Rows { count, ..self }
    }

    /// Returns the place of an operand as long as `like`, which has the length of a row.
    pub fn row(&self, number: impl Into<Index>, like: Span) -> Span {
        build::slot(self.room, 0, self.length, number, like)
    }

    /// Combines all operands with the one in `into`. In a schedule of messages they must have arrived.
    pub fn combine(&self, into: Span, b: &mut Builder) {
        if self.count > 0 {
            b.reduce(build::range(self.room, 0, u64::from(self.count) * self.length), into, &[]);
        }
        b.join();
    }
}

fn whole(shape: &Shape, buffer: BufferId) -> Span {
    build::range(buffer, 0, shape.count)
}

/// Copies `from` to `into`, unless they are the same.
fn copy(from: Span, into: Span, b: &mut Builder) {
    if from != into {
        b.copy(from, into, &[]);
    }
    b.join();
}

/// Sends `give` of every other rank to it, and receives an operand from each.
fn exchange(
    shape: &Shape,
    params: &Params,
    rows: &Rows,
    (give, like): (impl Fn(Index) -> Span, Span),
    b: &mut Builder,
) {
    let (rank, ranks) = (i64::from(shape.rank), shape.ranks);
    let (to, from) = (Index::cyclic(rank + 1, 1, ranks), Index::cyclic(rank - 1, -1, ranks));
    b.repeat(ranks - 1, params.window, |b| {
        b.send(to, 0, give(to), &[]);
        b.recv(from, 0, rows.row(Index::linear(0, 1), like), &[]);
    });
    b.join();
}

/// Sends every operand to the root, which combines them. For few bytes.
pub fn reduce(shape: &Shape, _: &Params, b: &mut Builder) {
    let mine = whole(shape, own(shape));
    if !shape.is_root() {
        b.send(shape.root, 0, mine, &[]);
        return b.join();
    }
    let (rows, into) = (Rows::new(shape.ranks - 1, shape.count, b), whole(shape, BufferId::RECV));
    let from = Index::cyclic(i64::from(shape.root) + 1, 1, shape.ranks);
    b.repeat(shape.ranks - 1, Loop::MAX_WINDOW, |b| {
        b.recv(from, 0, rows.row(Index::linear(0, 1), into), &[]);
    });
    copy(mine, into, b);
    rows.combine(into, b);
}

/// Returns the slices of the data, one for each rank, and the units of this rank's slice.
fn slices(shape: &Shape) -> (Division, u64) {
    let division = Division::Even { parts: shape.ranks, total: shape.count };
    let start = |slice: u32| division.start(u64::from(slice), &Default::default());
    (division, start(shape.rank + 1) - start(shape.rank))
}

/// Combines this rank's slice of all operands into `into`, a buffer of the data.
fn combine_slices(shape: &Shape, params: &Params, into: Span, b: &mut Builder) {
    let (division, length) = slices(shape);
    let rows = Rows::new(shape.ranks - 1, length, b);
    let give = |rank: Index| build::block(own(shape), division, rank);
    exchange(shape, params, &rows, (give, into), b);
    copy(give(shape.rank.into()), into, b);
    rows.combine(into, b);
}

/// Combines a slice at every rank; the root collects them.
pub fn reduce_slices(shape: &Shape, params: &Params, b: &mut Builder) {
    let (division, length) = slices(shape);
    let slice = |rank: Index| build::block(BufferId::RECV, division, rank);
    if !shape.is_root() {
        let room = b.temporary(length);
        let into = build::slot(room, 0, 0, 0, slice(shape.rank.into()));
        combine_slices(shape, params, into, b);
        b.send(shape.root, 1, into, &[]);
        return b.join();
    }
    combine_slices(shape, params, slice(shape.rank.into()), b);
    let from = Index::cyclic(i64::from(shape.root) + 1, 1, shape.ranks);
    b.repeat(shape.ranks - 1, Loop::MAX_WINDOW, |b| {
        b.recv(from, 1, slice(from), &[]);
    });
    b.join();
}

/// Sends every operand to every rank, which combines them. For few bytes.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    let (mine, into) = (whole(shape, own(shape)), whole(shape, BufferId::RECV));
    let rows = Rows::new(shape.ranks - 1, shape.count, b);
    exchange(shape, params, &rows, (|_| mine, into), b);
    copy(mine, into, b);
    rows.combine(into, b);
}

/// Combines a slice at every rank, and passes the slices around a ring.
pub fn allreduce_slices(shape: &Shape, params: &Params, b: &mut Builder) {
    let (division, _) = slices(shape);
    combine_slices(shape, params, build::block(BufferId::RECV, division, shape.rank), b);
    if shape.ranks > 1 {
        ring(shape, BufferId::RECV, division, None, b);
    }
}

/// Sends every rank its block of every operand.
pub fn reduce_scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    let (blocks, _) = division(shape);
    let length = if shape.collective == Collective::ReduceScatter { shape.own } else { shape.count };
    let output = result(shape, blocks);
    let rows = Rows::new(shape.ranks - 1, length, b);
    let give = |rank: Index| build::block(own(shape), blocks, rank);
    exchange(shape, params, &rows, (give, output), b);
    // In place, the result may lie over a part of the own block.
    let into = if shape.in_place { build::slot(b.temporary(length), 0, 0, 0, output) } else { output };
    copy(give(shape.rank.into()), into, b);
    rows.combine(into, b);
    copy(into, output, b);
}

/// Sends every operand to all later ranks, each of which combines those it received.
pub fn scan(shape: &Shape, _: &Params, b: &mut Builder) {
    let exclusive = shape.collective == Collective::Exscan;
    let (mine, into) = (whole(shape, own(shape)), whole(shape, BufferId::RECV));
    // Exclusive prefixes begin with the operand of the rank before.
    let count = shape.rank.saturating_sub(u32::from(exclusive));
    let begins = exclusive && shape.rank > 0;
    // It must not overwrite the own operand before that is sent. Nor may it wait until then: with more ranks
    // than a window has sends, each rank would wait for the next one.
    let is_apart = begins && mine == into;
    let rows = Rows::new(count + u32::from(is_apart), shape.count, b);
    let first = if is_apart { rows.row(count, into) } else { into };
    let later = shape.ranks - shape.rank - 1;
    b.repeat(later, Loop::MAX_WINDOW, |b| {
        b.send(Index::linear(i64::from(shape.rank) + 1, 1), 0, mine, &[]);
    });
    b.repeat(count, Loop::MAX_WINDOW, |b| {
        b.recv(Index::linear(0, 1), 0, rows.row(Index::linear(0, 1), into), &[]);
    });
    if begins {
        b.recv(shape.rank - 1, 0, first, &[]);
    }
    b.join();
    match (exclusive, begins) {
        (true, false) => return,
        (true, true) => copy(first, into, b),
        (false, _) => copy(mine, into, b),
    }
    b.join();
    rows.fewer(count).combine(into, b);
}
