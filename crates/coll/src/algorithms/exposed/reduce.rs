//! Reductions that read and write exposed memory. Every rank combines one slice of all operands, piece by
//! piece, and writes each piece to its destination while it is in the cache.

use crate::algorithms::banks::reduce::alone;
use crate::algorithms::banks::{Folding, fold_ordered, others};
use crate::algorithms::exposed::{Pieces, SOURCE, TARGET, meet, part};
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::EXPOSED;
use crate::generator::parameters::PIPELINE;
use crate::generator::{Generator, entry, left, ordered, right};
use crate::ir::{Access, BufferId, Division, Index, Span, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    right(entry(C::Reduce, "exposed", EXPOSED, PIPELINE, reduce, work::node::exposed_reduce)),
    right(entry(C::Allreduce, "exposed", EXPOSED, PIPELINE, allreduce, work::node::exposed_allreduce)),
    right(entry(C::ReduceScatterBlock, "exposed", EXPOSED, PIPELINE, reduce_scatter, work::node::exposed_reduce_scatter)),
    right(entry(C::ReduceScatter, "exposed", EXPOSED, PIPELINE, reduce_scatter, work::node::exposed_reduce_scatter)),
    ordered(left(entry(C::Scan, "exposed", EXPOSED, PIPELINE, scan, work::node::exposed_allreduce))),
    ordered(left(entry(C::Exscan, "exposed", EXPOSED, PIPELINE, scan, work::node::exposed_allreduce))),
];

/// Exposes the operand of `units` units, and the receive buffer if `result` is true. In place, that is the
/// operand.
fn expose(shape: &Shape, units: u64, result: bool, b: &mut Builder) {
    let exclusive = shape.collective == Collective::Exscan;
    if !exclusive || shape.rank + 1 < shape.ranks {
        let access = if shape.in_place { Access::ReadWrite } else { Access::Read };
        b.expose(0, build::range(own(shape), 0, units), access);
    }
    if result && (!exclusive || shape.rank > 0) {
        let access = if shape.in_place { Access::ReadWrite } else { Access::Write };
        b.expose(1, build::range(BufferId::RECV, 0, units), access);
    }
}

/// Combines the operands of all ranks, which are known to be ready: `mine` of this rank, `theirs` of the
/// others.
fn fold(shape: &Shape, mine: Span, theirs: Span, into: Span, b: &mut Builder) {
    let mut folding = Folding::new(mine, into);
    if !shape.commutative {
        return fold_ordered(shape, shape.ranks, folding, |_| theirs, b);
    }
    folding.own(b);
    folding.peers(others(shape), shape.ranks - 1, None, |_| theirs, b);
    folding.finish(b);
}

/// Returns true if the operand, lying where the result goes, would be overwritten before its turn.
fn in_the_way(shape: &Shape) -> bool {
    shape.in_place && !shape.commutative && shape.rank + 1 < shape.ranks
}

/// Reduces: every rank writes its slice of the result to the root.
pub fn reduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return alone(shape, b);
    }
    expose(shape, shape.count, shape.is_root(), b);
    meet(shape, b);
    let pieces = Pieces::of_slice(shape.count, shape, params);
    let direct = shape.is_root() && !in_the_way(shape);
    let room = if direct { BufferId::RECV } else { b.temporary(pieces.size) };
    pieces.each(b, |piece, b| {
        let into = if direct { pieces.piece(room, piece) } else { pieces.room(room, piece) };
        fold(shape, pieces.piece(own(shape), piece), pieces.piece(SOURCE, piece), into, b);
        if !shape.is_root() {
            b.push(shape.root, into, pieces.piece(TARGET, piece));
        } else if !direct {
            b.copy(into, pieces.piece(BufferId::RECV, piece), &[]);
        }
    });
    part(shape, b);
}

/// Reduces: every rank writes its slice of the result to every rank.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return alone(shape, b);
    }
    expose(shape, shape.count, true, b);
    meet(shape, b);
    let pieces = Pieces::of_slice(shape.count, shape, params);
    let room = if in_the_way(shape) { b.temporary(pieces.size) } else { BufferId::RECV };
    pieces.each(b, |piece, b| {
        let result = pieces.piece(BufferId::RECV, piece);
        let into = if in_the_way(shape) { pieces.room(room, piece) } else { result };
        fold(shape, pieces.piece(own(shape), piece), pieces.piece(SOURCE, piece), into, b);
        if into != result {
            b.copy(into, result, &[]);
        }
        b.each(others(shape), shape.ranks - 1, |peer, b| {
            b.push(peer, result, pieces.piece(TARGET, piece));
        });
    });
    part(shape, b);
}

/// Reduces and scatters: every rank combines its block out of the operands of all.
pub fn reduce_scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let table = shape.collective == Collective::ReduceScatter;
    let (total, length) = match table {
        true => (shape.count, shape.own),
        false => (shape.count * u64::from(shape.ranks), shape.count),
    };
    if total == 0 || shape.ranks == 1 {
        let all = |buffer| build::range(buffer, 0, length);
        return Folding::alone(all(own(shape)), all(BufferId::RECV), b);
    }
    expose(shape, total, false, b);
    meet(shape, b);
    // In place, other ranks read the place of the result until they are done.
    let result = if shape.in_place { b.temporary(length) } else { BufferId::RECV };
    if table {
        let mine = |buffer| build::block(buffer, Division::Table(Table::Recv), shape.rank);
        fold(shape, mine(own(shape)), mine(SOURCE), build::slot(result, 0, 0, 0, mine(result)), b);
    } else {
        let start = u64::from(shape.rank) * length;
        let (operand, place) =
            (Pieces::new(start, length, shape, params), Pieces::new(0, length, shape, params));
        operand.each(b, |piece, b| {
            let mine = operand.piece(own(shape), piece);
            fold(shape, mine, operand.piece(SOURCE, piece), place.piece(result, piece), b);
        });
    }
    part(shape, b);
    if shape.in_place {
        b.copy(build::range(result, 0, length), build::range(BufferId::RECV, 0, length), &[]);
    }
}

/// Computes prefixes: every rank computes all prefixes of one slice, from left to right, and writes each into
/// the result of its rank.
pub fn scan(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let exclusive = shape.collective == Collective::Exscan;
    if shape.count == 0 || shape.ranks == 1 {
        if !exclusive {
            alone(shape, b);
        }
        return;
    }
    expose(shape, shape.count, true, b);
    meet(shape, b);
    let pieces = Pieces::of_slice(shape.count, shape, params);
    let room = b.temporary(2 * pieces.size);
    pieces.each(b, |piece, b| {
        let prefixes = Prefixes { shape, pieces: &pieces, piece, room };
        let (rank, last) = (shape.rank, shape.ranks - 1);
        // If the own operand does not count, the last operand belongs to no prefix.
        let end = if exclusive { last } else { shape.ranks };
        prefixes.step(0.into(), b);
        b.each(Index::linear(1, 1), rank.max(1).min(end) - 1, |peer, b| prefixes.step(peer, b));
        if rank > 0 && rank < end {
            prefixes.step(rank.into(), b);
        }
        b.each(Index::linear(i64::from(rank) + 1, 1), end.saturating_sub(rank + 1), |peer, b| {
            prefixes.step(peer, b);
        });
        if exclusive {
            prefixes.give(last.into(), prefixes.slot(Index::fixed(u64::from(last) - 1)), b);
        }
    });
    part(shape, b);
}

/// Prefixes of one piece, from left to right. The operand of each rank is combined with the prefix before it
/// in one slot, which leaves the other slot free for the next operand.
struct Prefixes<'a> {
    shape: &'a Shape,
    pieces: &'a Pieces,
    piece: Index,
    room: BufferId,
}

impl Prefixes<'_> {
    /// Returns the slot of the operand, and so of the prefix, of `peer`.
    fn slot(&self, peer: Index) -> Span {
        let turn = Index::cyclic(peer.base, peer.step, 2);
        build::slot(self.room, 0, self.pieces.size, turn, self.pieces.room(self.room, self.piece))
    }

    fn is_mine(&self, peer: Index) -> bool {
        peer == self.shape.rank.into()
    }

    /// Takes up the operand of `peer` and gives it its prefix.
    fn step(&self, peer: Index, b: &mut Builder) {
        let exclusive = self.shape.collective == Collective::Exscan;
        let begins = peer == 0.into();
        let before = self.slot(Index { base: peer.base + 1, ..peer });
        let after = self.slot(peer);
        if self.is_mine(peer) {
            b.copy(self.pieces.piece(own(self.shape), self.piece), after, &[]);
        } else {
            b.pull(peer, self.pieces.piece(SOURCE, self.piece), after);
        }
        if exclusive && !begins {
            self.give(peer, before, b);
        }
        if !begins {
            b.reduce(before, after, &[]);
        }
        if !exclusive {
            self.give(peer, after, b);
        }
    }

    fn give(&self, peer: Index, prefix: Span, b: &mut Builder) {
        if self.is_mine(peer) {
            b.copy(prefix, self.pieces.piece(BufferId::RECV, self.piece), &[]);
        } else {
            b.push(peer, prefix, self.pieces.piece(TARGET, self.piece));
        }
    }
}
