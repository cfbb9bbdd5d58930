//! Reductions whose result all ranks receive.

use crate::algorithms::messages::exchange::{Accumulator, Fold, Hop, halve, ring_reduce};
use crate::algorithms::messages::{bcast, reduce};
use crate::algorithms::{own, ring as pass_around};
use crate::build::{self, Builder};
use crate::generator::need::{ANY, COMMUTES};
use crate::generator::parameters::{FIXED, TREE, WINDOW};
use crate::generator::{Generator, entry, flat, ordered, right};
use crate::ir::{BufferId, Division, Index, StepId};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Allreduce, "recursive_doubling", ANY, FIXED, recursive_doubling, work::messages::allreduce_doubling),
    entry(C::Allreduce, "rabenseifner", ANY, FIXED, rabenseifner, work::messages::allreduce_rabenseifner),
    entry(C::Allreduce, "ring", COMMUTES, FIXED, ring, work::messages::allreduce_ring),
    flat(entry(C::Allreduce, "tree", ANY, TREE, tree, work::messages::allreduce_tree)),
    ordered(right(entry(C::Allreduce, "spread", ANY, WINDOW, spread, work::messages::allreduce_spread))),
];

/// Exchanges the whole data with the ranks at distance 1, 2, 4..: log2 P rounds.
pub fn recursive_doubling(shape: &Shape, _: &Params, b: &mut Builder) {
    let spare = b.temporary(shape.count);
    let mut state = Accumulator::new(own(shape), BufferId::RECV, spare, shape);
    let fold = Fold::new(shape);
    let whole = build::range(BufferId::RECV, 0, shape.count);
    fold.enter(&mut state, whole, b);
    if let Some(me) = fold.me() {
        let mut distance = 1;
        while distance < fold.size {
            let lower = me & distance == 0;
            state.exchange(fold.rank(me ^ distance), Some(whole), Some(whole), lower, b);
            distance *= 2;
        }
        state.settle(whole, b);
    }
    leave(&fold, shape, b);
}

/// Sends the result to the ranks that did not work.
fn leave(fold: &Fold, shape: &Shape, b: &mut Builder) {
    let whole = build::range(BufferId::RECV, 0, shape.count);
    if let Some(partner) = fold.partner() {
        if fold.me().is_some() {
            b.send(partner, 0, whole, &[]);
        } else {
            b.recv(partner, 0, whole, &[]);
        }
        b.join();
    }
}

/// Reduces by a reduce-scatter by halving, and an allgather by doubling over the same pairs (Rabenseifner).
pub fn rabenseifner(shape: &Shape, _: &Params, b: &mut Builder) {
    let spare = b.temporary(shape.count);
    let mut state = Accumulator::new(own(shape), BufferId::RECV, spare, shape);
    let fold = Fold::new(shape);
    fold.enter(&mut state, build::range(BufferId::RECV, 0, shape.count), b);
    if let Some(me) = fold.me() {
        let division = Division::Even { parts: fold.size, total: shape.count };
        let mut low = halve(&fold, me, division, &mut state, b);
        state.settle(build::block(BufferId::RECV, division, low), b);
        let (mut length, mut distance) = (1, fold.size / 2);
        while distance > 0 {
            let peer = fold.rank(me ^ distance);
            let sibling = if me & distance == 0 { low + length } else { low - length };
            b.send(peer, 0, build::blocks(BufferId::RECV, division, low, length), &[]);
            b.recv(peer, 0, build::blocks(BufferId::RECV, division, sibling, length), &[]);
            b.join();
            (low, length, distance) = (low.min(sibling), length * 2, distance / 2);
        }
    }
    leave(&fold, shape, b);
}

/// Reduces by a reduce-scatter around the ring and an allgather around it. Every rank sends the data twice
/// less two blocks, and each message is one P-th of the data.
pub fn ring(shape: &Shape, _: &Params, b: &mut Builder) {
    let blocks = Division::Even { parts: shape.ranks, total: shape.count };
    let (source, result) = (own(shape), BufferId::RECV);
    if shape.ranks == 1 {
        copy_own(shape, b);
        return;
    }
    if source == result {
        let size = shape.count.div_ceil(u64::from(shape.ranks));
        let room = b.temporary(3 * size);
        let hop = |index, turn| {
            let right = build::block(result, blocks, index);
            let into = build::slot(room, 0, size, turn, right);
            Hop { into, left: into, right }
        };
        let last = hop(shape.rank.into(), 2.into());
        ring_reduce(shape, source, blocks, hop, last, b);
    } else {
        let hop = |index, _| {
            let into = build::block(result, blocks, index);
            Hop { into, left: build::same(source, into), right: into }
        };
        let last = hop(shape.rank.into(), 0.into());
        ring_reduce(shape, source, blocks, hop, last, b);
    }
    pass_around(shape, result, blocks, None, b);
}

fn copy_own(shape: &Shape, b: &mut Builder) {
    if !shape.in_place {
        let all = |buffer| build::range(buffer, 0, shape.count);
        b.copy(all(BufferId::SEND), all(BufferId::RECV), &[]);
        b.join();
    }
}

/// Reduces up a tree to rank 0 and broadcasts down again. A flat tree wakes every rank once.
pub fn tree(shape: &Shape, params: &Params, b: &mut Builder) {
    let form = Form::Kary(params.radix);
    up_and_down(shape, &TreeNode::new(form, shape.ranks, 0, false, shape.rank), params, b);
}

/// Reduces up a tree and broadcasts down again; a segment goes down as soon as it is complete.
pub(crate) fn up_and_down(shape: &Shape, node: &TreeNode, params: &Params, b: &mut Builder) {
    let ready = reduce::up_to(shape, node, params, BufferId::RECV, b);
    bcast::down_from(shape, node, params, ready, b);
}

/// Sends the operand of every rank to every other rank, which reduces all of them in the order of ranks.
/// There are P (P - 1) messages in one hop, and the same bits everywhere. For few bytes.
pub fn spread(shape: &Shape, params: &Params, b: &mut Builder) {
    let (rank, ranks) = (i64::from(shape.rank), shape.ranks);
    let mine = build::range(own(shape), 0, shape.count);
    let result = build::range(BufferId::RECV, 0, shape.count);
    let room = b.temporary(shape.count * u64::from(ranks));
    let from_rank = |index: Index| build::slot(room, 0, shape.count, index, result);
    let (to, from) = (Index::cyclic(rank + 1, 1, ranks), Index::cyclic(rank - 1, -1, ranks));
    b.repeat(ranks - 1, params.window, |b| {
        b.send(to, 0, mine, &[]);
        b.recv(from, 0, from_rank(from), &[]);
    });
    b.copy(mine, from_rank(shape.rank.into()), &[]);
    b.join();
    b.copy(from_rank((ranks - 1).into()), result, &[]);
    b.join();
    let next = Index::linear(i64::from(ranks) - 2, -1);
    b.repeat(ranks - 1, 1, |b| {
        let this: StepId = b.upcoming();
        b.reduce(from_rank(next), result, &[this.before(1)]);
    });
    b.join();
}
