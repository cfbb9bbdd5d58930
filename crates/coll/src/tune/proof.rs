//! Comparison of two alternatives by the time of the program's loop.
//!
//! Samples of single operations show which algorithm is worth a closer look, but not the gain of the
//! program: the time inside MPI of one rank depends on the arrival of the others, and rare long operations
//! count. Therefore the best alternative is compared with the default in pairs of blocks of operations. The
//! measure is the mean time from one operation to the next, on the slowest rank. The longest few of a block
//! are left out, because the machine has other work. A longer disturbance affects both blocks of a pair.
//! The order within pairs alternates, so that neither alternative gains by being first. A verdict must hold
//! in nearly all pairs.

use std::collections::VecDeque;

/// Pairs of blocks of a round.
pub(super) const PAIRS: usize = 8;
/// Words of a round: the mean of each block.
pub(super) const WORDS: usize = 2 * PAIRS;
/// Measured operations of a block in the first round. Each further round doubles them.
const KEPT: u32 = 4;
/// Operations at the start of a block that do not count.
const DROPPED: u32 = 1;
/// One in this many operations of a block is left out: the longest ones.
const LONG: usize = 4;
/// Maximum number of rounds.
const MOST_ROUNDS: u32 = 3;
/// Ratio of times up to which a block counts as shorter than its counterpart.
const SHORTER: f64 = 0.98;
/// Shorter blocks of a round that a verdict needs. Chance alone gives one in 28 rounds.
const CLEAR: usize = 7;
/// Lead in blocks below which a round ends the comparison as a tie.
const LEAD: usize = 2;

/// Position of an operation in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    pub pair: usize,
    /// 0 for the default, 1 for the other alternative.
    pub side: usize,
    pub counts: bool,
}

/// Verdict of a round on the other alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Quicker,
    Slower,
    /// Neither quicker nor slower.
    Alike,
    /// Another round is needed.
    Open,
}

/// Comparison of one alternative with the default.
#[derive(Debug)]
pub(super) struct Proof {
    /// Alternative that is compared with the default.
    pub alternative: usize,
    /// True if this checks an earlier decision for the alternative.
    pub is_guard: bool,
    round: u32,
    /// Nanoseconds of the operations of each block, on this rank.
    blocks: [[Vec<u64>; 2]; PAIRS],
}

impl Proof {
    pub fn new(alternative: usize, is_guard: bool) -> Proof {
        Proof { alternative, is_guard, round: 0, blocks: Default::default() }
    }

    /// Returns the operations of the next round.
    pub fn turns(&self) -> VecDeque<Trial> {
        let kept = KEPT << self.round;
        let block = |(pair, side): (usize, usize)| {
            (0..DROPPED + kept).map(move |number| Trial { pair, side, counts: number >= DROPPED })
        };
        let sides = |pair: usize| if pair.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        (0..PAIRS).flat_map(|pair| sides(pair).map(|side| (pair, side))).flat_map(block).collect()
    }

    /// Returns the alternative that an operation uses.
    pub fn taken_by(&self, turn: Trial) -> usize {
        if turn.side == 0 { 0 } else { self.alternative }
    }

    /// Records the time from the start of an operation to the start of the next one.
    pub fn record(&mut self, turn: Trial, period_ns: u64) {
        if turn.counts {
            self.blocks[turn.pair][turn.side].push(period_ns);
        }
    }

    /// Returns the contribution of this rank: the mean of each block, or 0 for an empty block.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.blocks.iter().flatten().map(|block| mean_ns(block))
    }

    /// Returns the extra time of the other alternative on this rank, in nanoseconds; negative if it was
    /// quicker.
    pub fn excess_ns(&self) -> f64 {
        let sum = |side: usize| self.blocks.iter().flat_map(|pair| &pair[side]).sum::<u64>() as f64;
        sum(1) - sum(0)
    }

    /// Ends a round with the element-wise maxima of all ranks' contributions and returns its verdict.
    pub fn judge(&mut self, words: &[u64]) -> Verdict {
        let is_shorter = |one: u64, other: u64| one > 0 && other > 0 && one as f64 <= SHORTER * other as f64;
        let count = |one: usize| {
            let pairs = words.as_chunks::<2>().0.iter();
            pairs.filter(|pair| is_shorter(pair[one], pair[1 - one])).count()
        };
        let (slower, quicker) = (count(0), count(1));
        self.round += 1;
        self.blocks = Default::default();
        match () {
            () if quicker >= CLEAR => Verdict::Quicker,
            () if slower >= CLEAR => Verdict::Slower,
            () if self.round == MOST_ROUNDS || quicker.abs_diff(slower) < LEAD => Verdict::Alike,
            () => Verdict::Open,
        }
    }
}

/// Returns the mean without the longest operations, or 0 for an empty block.
fn mean_ns(block: &[u64]) -> u64 {
    let mut sorted = block.to_vec();
    sorted.sort_unstable();
    sorted.truncate(block.len() - block.len() / LONG);
    sorted.iter().sum::<u64>().checked_div(sorted.len() as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the verdict on pairs of blocks with these times of an operation (default, other), in
    /// nanoseconds.
    fn check(pairs: [(u64, u64); PAIRS], expected: Verdict) {
        let mut proof = Proof::new(3, false);
        for turn in proof.turns() {
            let (default, other) = pairs[turn.pair];
            proof.record(turn, [default, other][turn.side]);
        }
        let words: Vec<u64> = proof.words().collect();
        assert_eq!(words.len(), WORDS);
        assert_eq!(proof.judge(&words), expected, "{pairs:?}");
    }

    #[test]
    fn what_is_clear_is_said() {
        check([(100, 90); PAIRS], Verdict::Quicker);
        check([(90, 100); PAIRS], Verdict::Slower);
        check([(100, 99); PAIRS], Verdict::Alike);
        check([(0, 0); PAIRS], Verdict::Alike);
        let mut pairs = [(100, 90); PAIRS];
        pairs[2] = (90, 1000);
        check(pairs, Verdict::Quicker);
        pairs[5] = (90, 1000);
        check(pairs, Verdict::Open);
    }

    #[test]
    fn the_longest_are_left_out() {
        assert_eq!(mean_ns(&[]), 0);
        assert_eq!(mean_ns(&[6]), 6);
        assert_eq!(mean_ns(&[10, 900, 11, 12]), 11);
        assert_eq!(mean_ns(&[10, 900, 11, 900]), 307);
    }

    #[test]
    fn the_rounds_end() {
        let mut proof = Proof::new(1, true);
        let words: Vec<u64> =
            (0..PAIRS as u64).flat_map(|pair| [100, if pair < 5 { 90 } else { 110 }]).collect();
        let verdicts: Vec<Verdict> = (0..MOST_ROUNDS).map(|_| proof.judge(&words)).collect();
        assert_eq!(verdicts, [Verdict::Open, Verdict::Open, Verdict::Alike]);
    }

    #[test]
    fn both_come_first_equally_often_and_blocks_grow() {
        let mut proof = Proof::new(1, false);
        let turns = proof.turns();
        let first = |side: usize| {
            let begins = |pair: &usize| turns.iter().find(|turn| turn.pair == *pair).map(|turn| turn.side);
            (0..PAIRS).filter(|pair| begins(pair) == Some(side)).count()
        };
        assert_eq!(first(0), first(1));
        proof.judge(&[0; WORDS]);
        assert!(proof.turns().len() > turns.len());
    }
}
