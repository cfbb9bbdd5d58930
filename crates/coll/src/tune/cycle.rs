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
    /// So many of the newest keys follow the cycle.
    following: usize,
}

impl Cycle {
    /// One more operation: its place.
    pub fn next(&mut self, key: UnitKey) -> Place {
        self.push(key);
        let newest = self.latest.len() - 1;
        if self.period > 0 && self.latest[newest] == self.latest[newest - self.period] {
            self.position = self.following_position();
            self.following = (self.following + 1).min(LONGEST * TIMES);
        } else {
            (self.period, self.position) = (self.shortest(), 0);
            self.following = self.period * TIMES;
        }
        Place { key, occurrence: self.occurrence() }
    }

    /// Whether going on with the cycle changes nothing but the position: all that is remembered follows it.
    pub fn is_full(&self) -> bool {
        self.period > 0 && self.following == LONGEST * TIMES
    }

    /// Where in the cycle the newest operation is.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Where in the cycle the next operation is, if there is one.
    pub fn following_position(&self) -> usize {
        if self.position + 1 < self.period { self.position + 1 } else { 0 }
    }

    /// Operations went on with a full cycle that nobody told of one by one; the next one is at `position`.
    pub fn go_on_to(&mut self, position: usize) {
        debug_assert!(self.is_full() && position < self.period);
        while self.following_position() != position {
            self.push(self.latest[self.latest.len() - self.period]);
            self.position = self.following_position();
        }
    }

    /// The length of the cycle, or 0 where there is none.
    pub fn period(&self) -> usize {
        self.period
    }

    fn push(&mut self, key: UnitKey) {
        if self.latest.len() == LONGEST * TIMES {
            self.latest.remove(0);
        }
        self.latest.push(key);
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
    fn what_goes_on_for_long_changes_nothing_but_the_position() {
        for cycle_of in ["a", "ab", "aab", "abcde"] {
            let period = cycle_of.len();
            let keys = || cycle_of.chars().cycle().map(|letter| key(letter as u64));
            let mut told = Cycle::default();
            for (number, key) in keys().take(200).enumerate() {
                assert!(!told.is_full() || number >= LONGEST * TIMES, "{cycle_of} {number}");
                told.next(key);
            }
            assert!(told.is_full() && told.period() == period, "{cycle_of}");
            for untold in 0..3 * period {
                let mut one = Cycle { latest: told.latest.clone(), ..told };
                let mut other = Cycle { latest: told.latest.clone(), ..told };
                keys().skip(200).take(untold).for_each(|key| {
                    one.next(key);
                });
                other.go_on_to((told.following_position() + untold) % period);
                assert_eq!(
                    (&one.latest, one.position),
                    (&other.latest, other.position),
                    "{cycle_of} {untold}"
                );
            }
            told.next(key(0));
            assert!(!told.is_full(), "{cycle_of}");
        }
    }
}
