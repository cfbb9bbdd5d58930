//! What is tried next. A strategy sees what all ranks have agreed on, and so says the same everywhere.

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
    /// Its number among the alternatives.
    pub alternative: usize,
    /// So many first ones do not count.
    pub drop: u32,
    /// So many are measured.
    pub keep: u32,
}

impl Block {
    /// How many operations it takes.
    pub fn operations(&self) -> u32 {
        self.drop + self.keep
    }
}

/// What is known of the alternatives.
#[derive(Debug)]
pub struct Known<'a> {
    /// All of them.
    pub alternatives: &'a [Alternative],
    /// What each costs an operation, if it was measured; agreed on, in nanoseconds.
    pub prices: &'a [Option<f64>],
}

impl Known<'_> {
    /// How many times the default's time is to be expected of one: what the model says, or, where one of the
    /// same algorithm and radix was measured, as much more than that as the model says. A default that takes
    /// longer than expected counts as it is.
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

    /// The cheapest of these, the first of equals; nothing else counts where none was measured.
    pub fn best_of(&self, among: &[usize]) -> Option<usize> {
        let price = |place: &usize| self.prices[*place].unwrap_or(f64::INFINITY);
        let least = among.iter().map(price).fold(f64::INFINITY, f64::min);
        among.iter().copied().filter(|place| price(place) <= least * EQUAL).min()
    }

    /// The cheapest of all that were measured.
    pub fn best(&self) -> Option<usize> {
        let measured: Vec<usize> =
            (0..self.prices.len()).filter(|place| self.prices[*place].is_some()).collect();
        self.best_of(&measured)
    }
}

/// A way to search. Each says something of its own; all are compared by the same tests.
pub trait Strategy: fmt::Debug + Send {
    /// What is to be tried next, in this order; nothing: it is known enough. Asked again when all of it is
    /// known.
    fn next(&mut self, known: &Known<'_>) -> Vec<Block>;

    /// The best, once nothing is to be tried any more.
    fn winner(&self, known: &Known<'_>) -> usize {
        known.best().unwrap_or(0)
    }
}

/// Strategies by name, as users choose them.
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

/// A block of an alternative that is visited but once.
fn once(known: &Known<'_>, alternative: usize, keep: u32) -> Block {
    Block { alternative, drop: known.alternatives[alternative].warm_up, keep }
}
