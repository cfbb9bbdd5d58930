//! Strategies of search: the alternatives to try next. A strategy uses only values that all ranks have agreed
//! on, so its decisions are equal on all of them.

mod attributes;
mod factorial;
mod halving;
mod row;

pub use attributes::ByAttribute;
pub use factorial::Factorial;
pub use halving::Halving;
pub use row::InRow;

use std::fmt;

use super::Alternative;

/// Costs that differ by less are equal: the default stays.
pub const EQUAL: f64 = 1.02;

/// Operations of one alternative in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of the alternative.
    pub alternative: usize,
    /// Number of operations at the beginning that do not count.
    pub drop: u32,
    /// Number of operations that are measured.
    pub keep: u32,
}

impl Block {
    /// Returns the number of operations in the block.
    pub fn operations(&self) -> u32 {
        self.drop + self.keep
    }
}

/// Measured and predicted times of the alternatives.
#[derive(Debug)]
pub struct Known<'a> {
    /// All alternatives; the first is the default.
    pub alternatives: &'a [Alternative],
    /// Agreed time of an operation with each alternative, in nanoseconds, if it was measured.
    pub prices: &'a [Option<f64>],
}

impl Known<'_> {
    /// Returns the expected time of an alternative as a multiple of the default's time. It is the ratio in
    /// the model. If an alternative of the same algorithm and radix was measured, its measured ratio is
    /// scaled by the model. If the default takes longer than predicted, its measured time counts.
    pub fn expected(&self, alternative: usize) -> f64 {
        let prior_s = |place: usize| self.alternatives[place].prior_s;
        let measured_s =
            |place: usize| self.prices[place].filter(|price| price.is_finite()).map(|ns| ns * 1e-9);
        let kind = |place: usize| &self.alternatives[place].attributes.0[..2];
        let default_s = measured_s(0).unwrap_or(0.0);
        let by_relative = |place: usize| {
            let known_s = measured_s(place).filter(|_| place > 0 && kind(place) == kind(alternative))?;
            Some(known_s / default_s * prior_s(alternative) / prior_s(place))
        };
        (0..self.prices.len())
            .filter_map(by_relative)
            .reduce(f64::max)
            .unwrap_or(prior_s(alternative) / prior_s(0).max(default_s))
    }

    /// Returns the cheapest of these, the first of equals, or `None` if none was measured.
    pub fn best_of(&self, among: &[usize]) -> Option<usize> {
        let price = |place: &usize| self.prices[*place].unwrap_or(f64::INFINITY);
        let least = among.iter().map(price).fold(f64::INFINITY, f64::min);
        among.iter().copied().filter(|place| price(place) <= least * EQUAL).min()
    }

    /// Returns the cheapest of all measured alternatives.
    pub fn best(&self) -> Option<usize> {
        let measured: Vec<usize> =
            (0..self.prices.len()).filter(|place| self.prices[*place].is_some()).collect();
        self.best_of(&measured)
    }
}

/// Strategy of search. All strategies are compared by the same tests.
pub trait Strategy: fmt::Debug + Send {
    /// Returns the blocks to try next, in this order, or none if enough is known. Called again when all of
    /// them have been measured.
    fn next(&mut self, known: &Known<'_>) -> Vec<Block>;

    /// Returns the best alternative once the search has ended.
    fn winner(&self, known: &Known<'_>) -> usize {
        known.best().unwrap_or(0)
    }
}

/// Returns the strategy of this name, or `None` if there is none.
pub fn strategy(name: &str, seed: u64) -> Option<Box<dyn Strategy>> {
    match name {
        "halving" => Some(Box::new(Halving::new(seed))),
        "row" => Some(Box::new(InRow::new(InRow::PAPER))),
        "attributes" => Some(Box::new(ByAttribute::default())),
        "factorial" => Some(Box::new(Factorial::default())),
        _ => None,
    }
}

/// Samples of an alternative that the paper's searches take in a row: brute force takes more
/// ([`InRow::PAPER`]), as it visits each but once.
const SAMPLES: u32 = 10;

/// Returns a block of an alternative that is visited only once.
fn once(known: &Known<'_>, alternative: usize, keep: u32) -> Block {
    Block { alternative, drop: known.alternatives[alternative].warm_up, keep }
}
