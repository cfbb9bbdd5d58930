//! Search attribute by attribute (barigou-2016, section 2.3). One attribute is varied while the others stay
//! at the best values found, then the next. Far fewer alternatives are tried than there are; effects that
//! depend on two attributes at once are missed.

use super::{Block, Known, SAMPLES, Strategy, once};
use crate::tune::Attributes;

/// Search that varies one attribute after another; see the module's documentation.
#[derive(Debug, Default)]
pub struct ByAttribute {
    /// The attribute that is varied next.
    attribute: usize,
}

impl Strategy for ByAttribute {
    fn next(&mut self, known: &Known<'_>) -> Vec<Block> {
        while self.attribute < Attributes::NUMBER {
            let best = known.best().unwrap_or(0);
            let (base, varied) = (known.alternatives[best].attributes.0, self.attribute);
            self.attribute += 1;
            let differs_in_that = |place: &usize| {
                let other = known.alternatives[*place].attributes.0;
                // Algorithms differ in their other parameters too. The alternative of each algorithm that the
                // model predicts to be best represents it.
                let rest_is_equal = (0..Attributes::NUMBER)
                    .all(|other_one| other_one == varied || other[other_one] == base[other_one]);
                let stands_for_it = varied == 0 && first_of_its_kind(known, *place);
                *place == best || other[varied] != base[varied] && (rest_is_equal || stands_for_it)
            };
            let untried = |place: &usize| known.prices[*place].is_none();
            let tried: Vec<usize> =
                (0..known.alternatives.len()).filter(differs_in_that).filter(untried).collect();
            if !tried.is_empty() {
                return tried.into_iter().map(|place| once(known, place, SAMPLES)).collect();
            }
        }
        Vec::new()
    }
}

/// Returns true if no alternative before it is of the same algorithm.
fn first_of_its_kind(known: &Known<'_>, place: usize) -> bool {
    let algorithm = |other: usize| known.alternatives[other].attributes.0[0];
    (0..place).all(|other| algorithm(other) != algorithm(place))
}
