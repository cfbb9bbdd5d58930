//! Common parts of the reductions. An accumulator keeps the order of its operands, a fold reduces the ranks
//! to a power of two, and two methods reduce and scatter (halving, ring).

use crate::build::{self, Builder};
use crate::ir::{BufferId, Division, Index, Span, StepId};
use crate::shape::Shape;

/// A partial result that moves between buffers, since `right = left op right` leaves it where the
/// right operand was.
pub(crate) struct Accumulator {
    /// Buffer of the partial result; may be the user's operand, which is only read.
    pub live: BufferId,
    /// Buffer in which the result should end.
    pub home: BufferId,
    spare: BufferId,
    commutative: bool,
}

impl Accumulator {
    /// Begins with the operand in `live`; writes only `home` and `spare`.
    pub fn new(live: BufferId, home: BufferId, spare: BufferId, shape: &Shape) -> Accumulator {
        Accumulator { live, home, spare, commutative: shape.commutative }
    }

    /// Sends the part `send` to `peer`, receives the part `keep` and combines it. If `left` is true, the data
    /// here are the left operand. The positions are those of `send` and `keep`, the buffers those of the
    /// accumulator.
    pub fn exchange(
        &mut self,
        peer: u32,
        send: Option<Span>,
        keep: Option<Span>,
        left: bool,
        b: &mut Builder,
    ) {
        if let Some(send) = send {
            b.send(peer, 0, build::same(self.live, send), &[]);
        }
        let Some(keep) = keep else {
            b.join();
            return;
        };
        let target = if self.live == self.home { self.spare } else { self.home };
        b.recv(peer, 0, build::same(target, keep), &[]);
        let stays = if self.commutative { self.live == self.home } else { !left };
        let writable = self.live == self.home || self.live == self.spare;
        if stays && !writable {
            b.copy(build::same(self.live, keep), build::same(self.spare, keep), &[]);
            self.live = self.spare;
        }
        b.join();
        let (mine, theirs) = (build::same(self.live, keep), build::same(target, keep));
        if stays {
            b.reduce(theirs, mine, &[]);
        } else {
            b.reduce(mine, theirs, &[]);
            self.live = target;
        }
        b.join();
    }

    /// Brings the part `part` home.
    pub fn settle(&mut self, part: Span, b: &mut Builder) {
        if self.live != self.home {
            b.copy(build::same(self.live, part), build::same(self.home, part), &[]);
            b.join();
            self.live = self.home;
        }
    }
}

/// Reduction of the number of ranks to a power of two. Of the first `2 * rest` ranks, one of each pair of
/// neighbours gives its operand to the other. They are neighbours, so that the order is kept.
pub(crate) struct Fold {
    /// Number of ranks that work; a power of two.
    pub size: u32,
    rest: u32,
    root: u32,
    rank: u32,
}

impl Fold {
    /// Returns the fold of these ranks. The root always works.
    pub fn new(shape: &Shape) -> Fold {
        let size = 1 << shape.ranks.ilog2();
        Fold { size, rest: shape.ranks - size, root: shape.root, rank: shape.rank }
    }

    /// Returns the rank of worker `worker`.
    pub fn rank(&self, worker: u32) -> u32 {
        if worker >= self.rest {
            return worker + self.rest;
        }
        if self.root == 2 * worker + 1 { self.root } else { 2 * worker }
    }

    /// Returns the number of the worker that acts for `rank`.
    pub fn worker(&self, rank: u32) -> u32 {
        if rank < 2 * self.rest { rank / 2 } else { rank - self.rest }
    }

    /// Returns the number of this rank among the workers, or `None` if it is none.
    pub fn me(&self) -> Option<u32> {
        let worker = self.worker(self.rank);
        (self.rank(worker) == self.rank).then_some(worker)
    }

    /// Returns the other rank of this rank's pair, if it is in a pair.
    pub fn partner(&self) -> Option<u32> {
        (self.rank < 2 * self.rest).then_some(self.rank ^ 1)
    }

    /// Hands the operand `whole` over within the pairs.
    pub fn enter(&self, state: &mut Accumulator, whole: Span, b: &mut Builder) {
        if let Some(partner) = self.partner() {
            let (send, keep) = if self.me().is_some() { (None, Some(whole)) } else { (Some(whole), None) };
            state.exchange(partner, send, keep, self.rank < partner, b);
        }
    }
}

/// Exchanges halves between workers at distance 1, 2, 4.., so that each ends with a block of the result:
/// `size` blocks of `division`. Returns the block of worker `me`. Keeps the order.
pub(crate) fn halve(
    fold: &Fold,
    me: u32,
    division: Division,
    state: &mut Accumulator,
    b: &mut Builder,
) -> u32 {
    let (mut low, mut length, mut distance) = (0, fold.size, 1);
    while distance < fold.size {
        length /= 2;
        let lower = me & distance == 0;
        let (keep, give) = if lower { (low, low + length) } else { (low + length, low) };
        let part = |first| Some(build::blocks(state.home, division, first, length));
        state.exchange(fold.rank(me ^ distance), part(give), part(keep), lower, b);
        (low, distance) = (keep, distance * 2);
    }
    low
}

/// Memory of one round of [`ring_reduce`].
pub(crate) struct Hop {
    /// Destination of the partial result that arrives.
    pub into: Span,
    /// Left operand of the combination `right = left op right`.
    pub left: Span,
    /// Right operand, and the result to forward.
    pub right: Span,
}

/// Reduces and scatters around the ring. Partial results of the blocks of `division` travel around it and are
/// combined with the operand of every rank; that of block r ends at rank r. `hop` gives the memory for a
/// block in a round (which may be that of two rounds before), `last`, distinct from it, that for the own
/// block. There must be at least two ranks and a commutative operator.
pub(crate) fn ring_reduce(
    shape: &Shape,
    source: BufferId,
    division: Division,
    hop: impl Fn(Index, Index) -> Hop,
    last: Hop,
    b: &mut Builder,
) {
    let (left, right) = (shape.neighbour(-1), shape.neighbour(1));
    let first = b.send(right, 0, build::block(source, division, left), &[]);
    let passing = Index::cyclic(i64::from(shape.rank) - 2, -1, shape.ranks);
    let received = b.upcoming();
    b.repeat(shape.ranks - 2, 2, |b| {
        let hop = hop(passing, Index::cyclic(0, 1, 2));
        let arrived: StepId = b.recv(left, 0, hop.into, &[]);
        let reduced = b.reduce(hop.left, hop.right, &[arrived.done()]);
        b.send(right, 0, hop.right, &[reduced.done(), first.done()]);
    });
    // The last block arrives on the same lane as those before it.
    let before = (shape.ranks > 2).then(|| received.whole());
    let arrived = b.recv(left, 0, last.into, before.as_slice());
    b.reduce(last.left, last.right, &[arrived.done()]);
    b.join();
}
