//! Which place of a program's loop an operation is at, told by the order of operations on a communicator.
//!
//! A loop that broadcasts 64 KiB twice, once before a long computation and once before a short one, has two
//! units of tuning, though both calls look the same. Ranks call the collective operations of a communicator
//! in the same order (MPI-5 section 6), so all of them find the same cycle at the same operation.

use super::UnitKey;

/// Longer cycles are not looked for.
pub const LONGEST: usize = 32;
/// So often a cycle must have come before it counts.
const TIMES: usize = 3;

/// An operation at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// What it is.
    pub key: UnitKey,
    /// How many of the same key come before it in the cycle; 0 where none was found.
    pub occurrence: u32,
}

/// The cycle that the latest operations form.
#[derive(Debug, Default)]
pub struct Cycle {
    /// The latest keys, the newest last; at most [`LONGEST`] times [`TIMES`].
    latest: Vec<UnitKey>,
    /// Length of the cycle, or 0.
    period: usize,
    /// Where in it the newest is.
    position: usize,
}

impl Cycle {
    /// One more operation: its place.
    pub fn next(&mut self, key: UnitKey) -> Place {
        if self.latest.len() == LONGEST * TIMES {
            self.latest.remove(0);
        }
        self.latest.push(key);
        let newest = self.latest.len() - 1;
        if self.period > 0 && self.latest[newest] == self.latest[newest - self.period] {
            self.position = (self.position + 1) % self.period;
        } else {
            (self.period, self.position) = (self.shortest(), 0);
        }
        Place { key, occurrence: self.occurrence() }
    }

    /// Whether one more of `key` changes nothing: all that is remembered is that.
    pub fn is_full_of(&self, key: UnitKey) -> bool {
        self.period == 1 && self.latest.len() == LONGEST * TIMES && self.latest.iter().all(|one| *one == key)
    }

    /// The length of the cycle, or 0 where there is none.
    pub fn period(&self) -> usize {
        self.period
    }

    /// The shortest cycle that the latest keys have gone through often enough.
    fn shortest(&self) -> usize {
        let fits = |period: &usize| {
            let Some(first) = self.latest.len().checked_sub(period * TIMES) else { return false };
            let part = &self.latest[first..];
            part.iter().zip(&part[*period..]).all(|(one, next)| one == next)
        };
        (1..=LONGEST).find(fits).unwrap_or(0)
    }

    /// How many of the newest key come before it, counted from where the cycle begins.
    fn occurrence(&self) -> u32 {
        let newest = self.latest.len() - 1;
        let before = &self.latest[newest - self.position.min(newest)..newest];
        before.iter().filter(|key| **key == self.latest[newest]).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Collective;
    use crate::tune::CallForm;

    fn key(bytes: u64) -> UnitKey {
        UnitKey { form: CallForm::Nonblocking, collective: Collective::Bcast, root: 0, bytes }
    }

    /// Letters stand for keys; the occurrences that come out, in digits.
    fn check(keys: &str, expected: &str) {
        let mut cycle = Cycle::default();
        let found: String =
            keys.chars().map(|letter| cycle.next(key(letter as u64)).occurrence.to_string()).collect();
        assert_eq!(found, expected, "{keys}");
    }

    #[test]
    fn operations_of_a_cycle_have_places() {
        check("aaaaaa", "000000");
        check("abababababab", "000000000000");
        // The cycle is found at its third end, and begins there.
        check("aabaabaabaabaab", "000000000010010");
        // Another loop begins.
        check("aabaabaabaabccccc", "00000000001000000");
    }

    #[test]
    fn nothing_is_kept_of_what_never_comes_again() {
        let mut cycle = Cycle::default();
        for bytes in 0..10_000 {
            let place = cycle.next(key(bytes));
            assert_eq!((place.occurrence, cycle.period()), (0, 0));
            assert!(cycle.latest.len() <= LONGEST * TIMES);
        }
    }

    #[test]
    fn what_goes_on_for_long_changes_nothing() {
        let mut cycle = Cycle::default();
        for number in 0..200 {
            assert_eq!(cycle.is_full_of(key(1)), number >= LONGEST * TIMES, "{number}");
            cycle.next(key(1));
        }
        assert!(!cycle.is_full_of(key(2)));
        cycle.next(key(2));
        assert!(!cycle.is_full_of(key(1)) && !cycle.is_full_of(key(2)));
    }
}
