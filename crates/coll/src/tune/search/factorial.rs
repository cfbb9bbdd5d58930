//! The 2^k factorial search (barigou-2016, section 2.3). At first only the least and the greatest value of
//! each attribute are combined. An attribute whose value makes a clear difference keeps the better half of
//! its values, and all remaining combinations are tried.

use super::{Block, Known, SAMPLES, Strategy, once};
use crate::tune::Attributes;

/// Factor by which the mean of the better end must win for an attribute to decide.
const CLEAR: f64 = 1.1;

/// Factorial search; see the module's documentation.
#[derive(Debug, Default)]
pub struct Factorial {
    step: u32,
}

impl Strategy for Factorial {
    fn next(&mut self, known: &Known<'_>) -> Vec<Block> {
        self.step += 1;
        let all = 0..known.alternatives.len();
        let chosen: Vec<usize> = match self.step {
            1 => all.filter(|place| *place == 0 || is_corner(known, *place)).collect(),
            2 => {
                let halves: Vec<Half> = (0..Attributes::NUMBER).map(|which| half(known, which)).collect();
                let stays = |place: &usize| {
                    let values = known.alternatives[*place].attributes.0;
                    (0..Attributes::NUMBER).all(|which| halves[which].has(values[which]))
                };
                all.filter(stays).filter(|place| known.prices[*place].is_none()).collect()
            }
            _ => Vec::new(),
        };
        chosen.into_iter().map(|place| once(known, place, SAMPLES)).collect()
    }
}

/// Values of an attribute that are still of interest.
#[derive(Clone, Copy, Debug)]
struct Half {
    least: u64,
    greatest: u64,
}

impl Half {
    fn has(self, value: u64) -> bool {
        (self.least..=self.greatest).contains(&value)
    }
}

/// Returns the values of an attribute, sorted.
fn values(known: &Known<'_>, which: usize) -> Vec<u64> {
    let mut values: Vec<u64> = known.alternatives.iter().map(|other| other.attributes.0[which]).collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn is_corner(known: &Known<'_>, place: usize) -> bool {
    let own = known.alternatives[place].attributes.0;
    (0..Attributes::NUMBER).all(|which| {
        let values = values(known, which);
        own[which] == values[0] || own[which] == values[values.len() - 1]
    })
}

/// Returns the half of an attribute's values that is better at the corners, or all values if no half is.
fn half(known: &Known<'_>, which: usize) -> Half {
    let values = values(known, which);
    let (least, greatest) = (values[0], values[values.len() - 1]);
    let middle = values[values.len() / 2];
    let mean = |value: u64| {
        let of_it = known
            .alternatives
            .iter()
            .zip(known.prices)
            .filter(|(other, _)| other.attributes.0[which] == value);
        let prices: Vec<f64> = of_it.filter_map(|(_, price)| *price).collect();
        (!prices.is_empty()).then(|| prices.iter().sum::<f64>() / prices.len() as f64)
    };
    match (mean(least), mean(greatest)) {
        (Some(low), Some(high)) if low * CLEAR < high => Half { least, greatest: middle },
        (Some(low), Some(high)) if high * CLEAR < low => Half { least: middle, greatest },
        _ => Half { least, greatest },
    }
}
