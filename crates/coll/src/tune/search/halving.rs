//! All in turn, and the better half again, with more samples: what changes while the program runs meets all
//! alternatives of a round, and the worst are not tried often.

use super::{Block, Known, Strategy};

/// At least so many rounds: two were too few on hosts (right in 58 %). What is left in the last ones differs
/// by less than samples do, so many are taken.
const LEAST_ROUNDS: u32 = 4;
/// Samples of each alternative in the first round; twice as many in each next one,
const FIRST_SAMPLES: u32 = 4;
/// up to so many.
const MOST_SAMPLES: u32 = 32;
/// What is so many times as dear as the default by the model is only tasted first.
const DEAR: f64 = 2.0;

/// See the module.
#[derive(Debug)]
pub struct Halving {
    state: u64,
    round: u32,
    survivors: Vec<usize>,
}

impl Halving {
    /// Alternatives are shuffled by the seed, which is equal on all ranks.
    pub fn new(seed: u64) -> Halving {
        Halving { state: seed, round: 0, survivors: Vec::new() }
    }

    /// A number below `below` (SplitMix64).
    fn random(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ word >> 31) as usize % below
    }

    fn shuffled(&mut self) -> Vec<usize> {
        let mut order = self.survivors.clone();
        for last in (1..order.len()).rev() {
            let other = self.random(last + 1);
            order.swap(last, other);
        }
        order
    }

    fn rounds(known: &Known<'_>) -> u32 {
        known.alternatives.len().next_power_of_two().ilog2().max(LEAST_ROUNDS)
    }
}

impl Strategy for Halving {
    fn next(&mut self, known: &Known<'_>) -> Vec<Block> {
        if self.round == 0 {
            self.survivors = (0..known.alternatives.len()).collect();
        } else {
            let price = |place: &usize| known.prices[*place].unwrap_or(f64::INFINITY);
            self.survivors.sort_by(|one, two| price(one).total_cmp(&price(two)).then(one.cmp(two)));
            let half = self.survivors.len().div_ceil(2);
            self.survivors.truncate(half.max(2));
        }
        if self.round == Halving::rounds(known) || self.survivors.len() < 2 {
            return Vec::new();
        }
        let keep = (FIRST_SAMPLES << self.round.min(8)).min(MOST_SAMPLES);
        let first = self.round == 0;
        self.round += 1;
        let drop = |alternative: usize| if first { known.alternatives[alternative].warm_up } else { 1 };
        let mut order = self.shuffled();
        let prior = |alternative: usize| known.alternatives[alternative].prior_s;
        if first {
            // Short loops only get to the first ones.
            order.sort_by(|one, two| prior(*one).total_cmp(&prior(*two)));
        }
        let keep = |alternative| if first && known.expected(alternative) > DEAR { 1 } else { keep };
        let block = |alternative| Block { alternative, drop: drop(alternative), keep: keep(alternative) };
        order.into_iter().map(block).collect()
    }

    fn winner(&self, known: &Known<'_>) -> usize {
        known.best_of(&self.survivors).unwrap_or(0)
    }
}
