//! Common parts of the algorithms on flags and banks (Graham and Shipman, section 3). They define the meaning
//! of flags, offer a contribution, and combine several ranks' operands from right to left.
//!
//! A rank copies its contribution into its own bank, posts a flag and reads the contributions in the other
//! banks. It begins with the rank after it, so that the ranks do not all read the same bank at the same time.
//! No rank waits until its bank has been read: the next operation that gets the same bank does.

pub mod flags;
pub mod moves;
pub mod reduce;
pub mod stream;
pub mod stream_moves;
pub mod together;

use crate::build::Builder;
use crate::ir::{Index, Span};
use crate::shape::Shape;

/// Flag of a rank whose contribution is in its bank. The flag is in the same cache line as the beginning of
/// the bank.
pub(crate) const READY: u16 = 0;
/// Flag of a rank whose bank holds its part of the result, for others to read.
pub(crate) const RESULT: u16 = 1;

/// Returns the other ranks, `ranks - 1` of them, beginning with the one after this rank.
pub(crate) fn others(shape: &Shape) -> Index {
    Index::cyclic(i64::from(shape.rank) + 1, 1, shape.ranks)
}

/// Puts `contribution` at `place` of the own bank and posts [`READY`].
pub(crate) fn offer(contribution: Span, place: Span, b: &mut Builder) {
    b.copy(contribution, place, &[]);
    b.post(READY, 1);
}

/// Waits for flag `flag` of all other ranks.
pub(crate) fn await_others(shape: &Shape, flag: u16, value: impl Into<Index>, b: &mut Builder) {
    let value = value.into();
    b.repeat(shape.ranks - 1, 1, |b| {
        b.wait(others(shape), flag, value);
    });
}

/// Combination of several ranks' operands from right to left: later operands are further left. The own
/// operand is read in place, without a copy, if the order allows it.
pub(crate) struct Folding {
    own: Span,
    into: Span,
    /// Partial result so far: none, the own operand, or `into`.
    have: Option<Span>,
}

impl Folding {
    /// Begins a combination into `into`. The operand of this rank, `own`, may be the same span if it is the
    /// first one.
    pub fn new(own: Span, into: Span) -> Folding {
        Folding { own, into, have: None }
    }

    /// Writes the schedule of a rank that is alone: the result is its operand.
    pub fn alone(own: Span, into: Span, b: &mut Builder) {
        let mut folding = Folding::new(own, into);
        folding.own(b);
        folding.finish(b);
    }

    /// Combines the own operand with the partial result.
    pub fn own(&mut self, b: &mut Builder) {
        match self.have {
            None => self.have = Some(self.own),
            Some(_) => {
                assert!(self.own != self.into, "an operand in the way of the result is the first one");
                b.reduce(self.own, self.into, &[]);
            }
        }
    }

    /// Combines the operands of `count` peers, `from` of each, after its flag if `flag` is given.
    pub fn peers(
        &mut self,
        mut peers: Index,
        mut count: u32,
        flag: Option<(u16, Index)>,
        from: impl Fn(Index) -> Span,
        b: &mut Builder,
    ) {
        let wait = |peers: Index, b: &mut Builder| {
            if let Some((flag, value)) = flag {
                b.wait(peers, flag, value);
            }
        };
        if count > 0 && self.have != Some(self.into) {
            let first = Index::fixed(peers.in_iteration(0));
            wait(first, b);
            match self.have {
                None => b.pull(first, from(first), self.into),
                Some(operand) => b.combine(first, from(first), operand, self.into),
            };
            self.have = Some(self.into);
            peers = Index { base: peers.base + peers.step, ..peers };
            count -= 1;
        }
        let into = self.into;
        b.each(peers, count, |peer, b| {
            wait(peer, b);
            b.combine(peer, from(peer), into, into);
        });
    }

    /// Copies the result to `into` if it is not there yet.
    pub fn finish(self, b: &mut Builder) {
        if let Some(operand) = self.have.filter(|operand| *operand != self.into) {
            b.copy(operand, self.into, &[]);
        }
    }
}

/// Combines the operands of all ranks into `into`: `own` of this rank, and `from` of each peer once its flag
/// is set. With `same`, or if the order matters, all ranks combine in the order of ranks and get the same
/// bits. Otherwise each begins with its own operand.
pub(crate) fn fold_all(
    shape: &Shape,
    same: bool,
    (own, into): (Span, Span),
    from: impl Fn(Index) -> Span,
    b: &mut Builder,
) {
    let mut folding = Folding::new(own, into);
    if shape.commutative && !same {
        folding.own(b);
        folding.peers(others(shape), shape.ranks - 1, Some((READY, Index::fixed(1))), from, b);
        return folding.finish(b);
    }
    // The lines with flags are fetched in different orders, before all ranks begin with the same operand.
    await_others(shape, READY, 1, b);
    fold_ordered(shape, shape.ranks, folding, from, b);
}

/// Combines the operands of ranks `0..end` from right to left. All of them must be ready.
pub(crate) fn fold_ordered(
    shape: &Shape,
    end: u32,
    mut folding: Folding,
    from: impl Fn(Index) -> Span,
    b: &mut Builder,
) {
    let downwards = |first: u32| Index::linear(i64::from(first), -1);
    if shape.rank < end {
        let right = end - shape.rank - 1;
        if right > 0 {
            folding.peers(downwards(end - 1), right, None, &from, b);
        }
        folding.own(b);
    }
    let left = shape.rank.min(end);
    if left > 0 {
        folding.peers(downwards(left - 1), left, None, &from, b);
    }
    folding.finish(b);
}
