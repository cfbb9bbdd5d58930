//! Sets of ranks as ranges. Groups of a job are few ranges, also with thousands of ranks.

use std::fmt;

/// Set of ranks in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranks {
    /// First and last rank of each range; ranges neither overlap nor touch.
    ranges: Vec<(u32, u32)>,
}

impl Ranks {
    /// Returns the set with one rank.
    pub fn one(rank: u32) -> Ranks {
        Ranks { ranges: vec![(rank, rank)] }
    }

    /// Returns the ranges, each with its first and last rank.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// Returns the ranks in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| first..=last)
    }

    /// Returns the number of ranks.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|&(first, last)| (last - first) as usize + 1).sum()
    }

    /// Returns true if the set has no rank.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns true if the set has this rank.
    pub fn contains(&self, rank: u32) -> bool {
        let after = self.ranges.partition_point(|&(first, _)| first <= rank);
        after > 0 && self.ranges[after - 1].1 >= rank
    }
}

impl FromIterator<u32> for Ranks {
    fn from_iter<I: IntoIterator<Item = u32>>(ranks: I) -> Ranks {
        let mut all: Vec<u32> = ranks.into_iter().collect();
        all.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for rank in all {
            match ranges.last_mut() {
                Some((_, last)) if rank <= last.saturating_add(1) => *last = rank.max(*last),
                _ => ranges.push((rank, rank)),
            }
        }
        Ranks { ranges }
    }
}

impl fmt::Display for Ranks {
    /// Shows `rank 3` or `ranks 0-2, 5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.len() == 1 { "rank " } else { "ranks " })?;
        for (place, &(first, last)) in self.ranges.iter().enumerate() {
            f.write_str(if place > 0 { ", " } else { "" })?;
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first}, {last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sets_are_shown_as_ranges() {
        let show = |ranks: &[u32]| ranks.iter().copied().collect::<Ranks>().to_string();
        assert_eq!(show(&[3]), "rank 3");
        assert_eq!(show(&[7, 0, 1, 2, 5, 4, 5]), "ranks 0-2, 4, 5, 7");
        assert_eq!(show(&[u32::MAX, 0]), format!("ranks 0, {}", u32::MAX));
    }

    proptest! {
        /// Compares a set with the sorted list of its ranks.
        #[test]
        fn a_set_has_what_it_was_made_of(ranks in proptest::collection::vec(0u32..60, 0..40)) {
            let set: Ranks = ranks.iter().copied().collect();
            let mut sorted = ranks.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), sorted.clone());
            prop_assert_eq!((set.len(), set.is_empty()), (sorted.len(), sorted.is_empty()));
            prop_assert!((0..70).all(|rank| set.contains(rank) == ranks.contains(&rank)));
        }
    }
}
