//! What the reductions share: an accumulator that knows the order of its operands, the fold to a
//! power of two, and the two ways to reduce and scatter (halving, ring).

use crate::build::{self, Builder};
use crate::ir::{BufferId, Division, Index, Span, StepId};
use crate::shape::Shape;

/// A partial result that moves between buffers, since `right = left op right` leaves it where the
/// right operand was.
pub(crate) struct Accumulator {
    /// Where it is; may be the user's operand, which is only read.
    pub live: BufferId,
    /// Where it should end.
    pub home: BufferId,
    spare: BufferId,
    commutative: bool,
}

impl Accumulator {
    /// Begins with the operand in `live`; writes only `home` and `spare`.
    pub fn new(live: BufferId, home: BufferId, spare: BufferId, shape: &Shape) -> Accumulator {
        Accumulator { live, home, spare, commutative: shape.commutative }
    }

    /// Sends the part `send` and receives the part `keep` from `peer` and combines it. `left`: what is
    /// here is the left operand. The places are those of `send` and `keep`, the buffers its own.
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

/// The largest power of two of the ranks does the work: of the first `2 * rest` ranks, one of each
/// pair of neighbours gives its operand to the other. Neighbours, so that the order is kept.
pub(crate) struct Fold {
    /// How many ranks work; a power of two.
    pub size: u32,
    rest: u32,
    root: u32,
    rank: u32,
}

impl Fold {
    /// The root always works.
    pub fn new(shape: &Shape) -> Fold {
        let size = 1 << shape.ranks.ilog2();
        Fold { size, rest: shape.ranks - size, root: shape.root, rank: shape.rank }
    }

    /// The rank of worker `worker`.
    pub fn rank(&self, worker: u32) -> u32 {
        if worker >= self.rest {
            return worker + self.rest;
        }
        if self.root == 2 * worker + 1 { self.root } else { 2 * worker }
    }

    /// The number of the worker that acts for `rank`.
    pub fn worker(&self, rank: u32) -> u32 {
        if rank < 2 * self.rest { rank / 2 } else { rank - self.rest }
    }

    /// The number of this rank among the workers, if it is one.
    pub fn me(&self) -> Option<u32> {
        let worker = self.worker(self.rank);
        (self.rank(worker) == self.rank).then_some(worker)
    }

    /// The other one of this rank's pair.
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

/// Workers at distance 1, 2, 4.. exchange halves of what they hold, so that each ends with a block of
/// the result: `size` blocks of `division`. Returns the block of worker `me`. Keeps the order.
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

/// One round of [`ring_reduce`].
pub(crate) struct Hop {
    /// Where the partial result of the others arrives.
    pub into: Span,
    /// Then `right = left op right`, and `right` travels on.
    pub left: Span,
    /// See `left`.
    pub right: Span,
}

/// Partial results of the blocks of `division` travel around the ring and take up the operand of every rank;
/// that of block r ends at rank r. `hop` gives the memory for a block in a round (which may be that of two
/// rounds before), `last`, apart from it, for the own block. At least two ranks; a commutative operator.
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
