//! Reductions whose result is scattered, in blocks of one size or of sizes given by a table.

use crate::algorithms::messages::exchange::{Accumulator, Hop, ring_reduce};
use crate::algorithms::messages::reduce;
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::{ANY, COMMUTES};
use crate::generator::parameters::{FIXED, TREE, WINDOW};
use crate::generator::{Generator, entry, flat, ordered};
use crate::ir::{BufferId, Division, Index, Loop, Span, StepId, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::tree::Form;
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::ReduceScatterBlock, "recursive_halving", COMMUTES, FIXED, recursive_halving, work::messages::reduce_scatter_halving),
    entry(C::ReduceScatterBlock, "ring", COMMUTES, FIXED, ring, work::messages::reduce_scatter_ring),
    entry(C::ReduceScatterBlock, "pairwise", ANY, WINDOW, pairwise, work::messages::reduce_scatter_pairwise),
    ordered(flat(entry(C::ReduceScatterBlock, "tree", ANY, TREE, tree, work::messages::reduce_scatter_tree))),
    entry(C::ReduceScatter, "recursive_halving", COMMUTES, FIXED, recursive_halving, work::messages::reduce_scatter_halving),
    entry(C::ReduceScatter, "ring", COMMUTES, FIXED, ring, work::messages::reduce_scatter_ring),
    entry(C::ReduceScatter, "pairwise", ANY, WINDOW, pairwise, work::messages::reduce_scatter_pairwise),
    ordered(flat(entry(C::ReduceScatter, "tree", ANY, TREE, tree, work::messages::reduce_scatter_tree))),
];

/// Returns the division of the operand, and its units.
pub(crate) fn division(shape: &Shape) -> (Division, u64) {
    if shape.collective == Collective::ReduceScatter {
        return (Division::Table(Table::Recv), shape.count);
    }
    let total = shape.count * u64::from(shape.ranks);
    (Division::Regular { size: shape.count, total }, total)
}

/// Returns the span of the result, at the beginning of the receive buffer.
pub(crate) fn result(shape: &Shape, blocks: Division) -> Span {
    build::slot(BufferId::RECV, 0, 0, 0, build::block(BufferId::RECV, blocks, shape.rank))
}

/// Halves the ranks round by round, the far half first. A rank sends the half of the data that concerns the
/// other half of the ranks. The operator must commute.
pub fn recursive_halving(shape: &Shape, _: &Params, b: &mut Builder) {
    let (blocks, total) = division(shape);
    if shape.ranks == 1 {
        copy_whole(shape, build::block(own(shape), blocks, 0), result(shape, blocks), b);
        return;
    }
    let home = b.temporary(total);
    let spare = b.temporary(total);
    let mut state = Accumulator::new(own(shape), home, spare, shape);
    let size = 1 << shape.ranks.ilog2();
    let rest = shape.ranks - size;
    let rank = shape.rank;
    let mine = build::block(home, blocks, rank);
    // In each of the first pairs, the even rank works for both.
    let first_of = |worker: u32| worker + worker.min(rest);
    if rank < 2 * rest {
        let whole = Some(build::range(home, 0, total));
        let (send, keep) = if rank.is_multiple_of(2) { (None, whole) } else { (whole, None) };
        state.exchange(rank ^ 1, send, keep, true, b);
        if rank % 2 == 1 {
            b.recv(rank ^ 1, 0, result(shape, blocks), &[]);
            b.join();
            return;
        }
    }
    let worker = if rank < 2 * rest { rank / 2 } else { rank - rest };
    let (mut low, mut length) = (0, size);
    while length > 1 {
        length /= 2;
        let lower = worker & length == 0;
        let (keep, give) = if lower { (low, low + length) } else { (low + length, low) };
        let part = |first: u32| {
            let begin = first_of(first);
            Some(build::blocks(home, blocks, begin, first_of(first + length) - begin))
        };
        let peer = first_of(worker ^ length);
        state.exchange(peer, part(give), part(keep), true, b);
        low = keep;
    }
    b.copy(build::same(state.live, mine), result(shape, blocks), &[]);
    if rank < 2 * rest {
        b.send(rank + 1, 0, build::block(state.live, blocks, rank + 1), &[]);
    }
    b.join();
}

/// Passes partial results around the ring. The operator must commute.
pub fn ring(shape: &Shape, _: &Params, b: &mut Builder) {
    let (blocks, total) = division(shape);
    let source = own(shape);
    let mine = build::block(source, blocks, shape.rank);
    if shape.ranks == 1 {
        copy_whole(shape, mine, result(shape, blocks), b);
        return;
    }
    let regular = matches!(blocks, Division::Regular { .. });
    let room = b.temporary(if regular { 3 * shape.count } else { total });
    let hop = |index: Index, turn: Index| {
        let left = build::block(source, blocks, index);
        let into =
            if regular { build::slot(room, 0, shape.count, turn, left) } else { build::same(room, left) };
        Hop { into, left, right: into }
    };
    let mut last = hop(shape.rank.into(), 2.into());
    if !shape.in_place {
        last.into = result(shape, blocks);
        last.right = last.into;
    }
    let right = last.right;
    ring_reduce(shape, source, blocks, hop, last, b);
    if shape.in_place {
        b.copy(right, result(shape, blocks), &[]);
        b.join();
    }
}

pub(crate) fn copy_whole(shape: &Shape, from: Span, into: Span, b: &mut Builder) {
    if !shape.in_place {
        b.copy(from, into, &[]);
        b.join();
    }
}

/// Exchanges blocks between all pairs of ranks, and combines the received ones from right to left.
pub fn pairwise(shape: &Shape, params: &Params, b: &mut Builder) {
    let (blocks, _) = division(shape);
    let (rank, ranks) = (shape.rank, shape.ranks);
    let own_units = if shape.collective == Collective::ReduceScatter { shape.own } else { shape.count };
    let source = own(shape);
    let mine = build::block(source, blocks, rank);
    let output = result(shape, blocks);
    let window = params.window.clamp(1, 8).min((ranks - 1).max(1));
    let room = b.temporary(u64::from(window) * own_units);
    let split = !shape.commutative && rank + 1 < ranks;
    // First the sum of this rank and those to its left; then, if the order matters, that of those to its
    // right.
    let lower =
        if split || shape.in_place { build::slot(b.temporary(own_units), 0, 0, 0, mine) } else { output };
    let upper =
        if split && shape.in_place { build::slot(b.temporary(own_units), 0, 0, 0, mine) } else { output };
    b.copy(mine, lower, &[]);
    b.join();
    let to = Index::cyclic(i64::from(rank) + 1, 1, ranks);
    b.repeat(ranks - 1, window, |b| {
        b.send(to, 0, build::block(source, blocks, to), &[]);
    });
    let turn = Index::cyclic(0, 1, window);
    let take = |count: u32, first: i64, target: Span, after: Option<StepId>, b: &mut Builder| {
        let slot = build::slot(room, 0, own_units, turn, mine);
        let peer = Index::cyclic(first, -1, ranks);
        let after = after.map(StepId::whole);
        let step = b.upcoming();
        b.repeat(count, window, |b| {
            let arrived = b.recv(peer, 0, slot, after.as_slice());
            let this = StepId(arrived.0 + 1);
            b.reduce(slot, target, &[arrived.done(), this.before(1)]);
        });
        (count > 0).then_some(StepId(step.0 + 1))
    };
    if split {
        let left = take(rank, i64::from(rank) - 1, lower, None, b);
        let after = left.map(StepId::whole);
        let first = b.recv(ranks - 1, 0, upper, after.as_slice());
        take(ranks - rank - 2, i64::from(ranks) - 2, upper, Some(first), b);
        b.join();
        b.reduce(lower, upper, &[]);
    } else {
        take(ranks - 1, i64::from(rank) - 1, lower, None, b);
    }
    b.join();
    let done = if split { upper } else { lower };
    if done != output {
        b.copy(done, output, &[]);
        b.join();
    }
}

/// Reduces up a tree to rank 0, which then sends every rank its block.
pub fn tree(shape: &Shape, params: &Params, b: &mut Builder) {
    let (blocks, total) = division(shape);
    let all = if shape.rank == 0 { b.temporary(total) } else { BufferId::RECV };
    let whole = Shape { count: total, root: 0, collective: Collective::Reduce, ..*shape };
    reduce::up(&whole, Form::Kary(params.radix), params, all, b);
    let output = result(shape, blocks);
    if shape.rank > 0 {
        b.recv(0, 0, output, &[]);
        b.join();
        return;
    }
    let to = Index::linear(1, 1);
    b.repeat(shape.ranks - 1, Loop::MAX_WINDOW, |b| {
        b.send(to, 0, build::block(all, blocks, to), &[]);
    });
    b.copy(build::block(all, blocks, 0), output, &[]);
    b.join();
}
