//! Search by halving. All alternatives are sampled briefly. Those not far behind are then tried in turn, and
//! the better half again with more samples. So a change while the program runs affects all alternatives of a
//! round, and the worst ones are not tried often.

use super::{Block, Known, Strategy};

/// Least number of rounds after the first: two were too few on hosts (right in 58 %). The alternatives of the
/// last rounds differ by less than samples do, so many samples are taken.
const LEAST_ROUNDS: u32 = 4;
/// Samples of each alternative in the first round.
const TASTE: u32 = 3;
/// Ratio to the best time from which on an alternative is not tried again.
const FAR: f64 = 4.0;
/// Samples of each alternative in the second round. Each next round has twice as many.
const FIRST_SAMPLES: u32 = 4;
/// Largest number of samples of each alternative in a round.
const MOST_SAMPLES: u32 = 32;
/// Number of samples for each operation that is dropped before them. The first operations of a block include
/// the cost of the change to another algorithm.
const SWITCHING: u32 = 4;

/// Search by halving; see the module's documentation.
#[derive(Debug)]
pub struct Halving {
    state: u64,
    round: u32,
    survivors: Vec<usize>,
}

impl Halving {
    /// Returns a search that shuffles the alternatives by `seed`, which must be equal on all ranks.
    pub fn new(seed: u64) -> Halving {
        Halving { state: seed, round: 0, survivors: Vec::new() }
    }

    /// Returns a random number below `below` (SplitMix64).
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
        1 + known.alternatives.len().next_power_of_two().ilog2().max(LEAST_ROUNDS)
    }

    /// Keeps the measured alternatives, without those far behind after the first round, and without the worse
    /// half after each other round.
    fn survive(&mut self, known: &Known<'_>) {
        let price = |place: &usize| known.prices[*place].unwrap_or(f64::INFINITY);
        self.survivors.retain(|place| known.prices[*place].is_some());
        self.survivors.sort_by(|one, two| price(one).total_cmp(&price(two)).then(one.cmp(two)));
        if self.round == 1 {
            let most = self.survivors.first().map_or(f64::INFINITY, price) * FAR;
            self.survivors.retain(|place| price(place) <= most);
        } else {
            self.survivors.truncate(self.survivors.len().div_ceil(2).max(2));
        }
    }
}

impl Strategy for Halving {
    fn next(&mut self, known: &Known<'_>) -> Vec<Block> {
        if self.round == 0 {
            self.survivors = (0..known.alternatives.len()).collect();
        } else {
            self.survive(known);
        }
        if self.round == Halving::rounds(known) || self.survivors.len() < 2 {
            return Vec::new();
        }
        let round = self.round;
        self.round += 1;
        let mut order = self.shuffled();
        let prior = |alternative: usize| known.alternatives[alternative].prior_s;
        if round == 0 {
            // The default has been observed already. Short loops only reach the first blocks.
            order.retain(|alternative| *alternative > 0);
            order.sort_by(|one, two| prior(*one).total_cmp(&prior(*two)));
        }
        let block = |alternative: usize| match round {
            0 => Block { alternative, drop: 0, keep: TASTE },
            _ => {
                let keep = (FIRST_SAMPLES << (round - 1).min(8)).min(MOST_SAMPLES);
                let warm_up = if round == 1 { known.alternatives[alternative].warm_up } else { 1 };
                Block { alternative, drop: warm_up.saturating_sub(TASTE).max(keep / SWITCHING), keep }
            }
        };
        order.into_iter().map(block).collect()
    }

    fn winner(&self, known: &Known<'_>) -> usize {
        known.best_of(&self.survivors).unwrap_or(0)
    }
}
