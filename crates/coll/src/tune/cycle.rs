//! The loop of a program, found in the order of its operations.
//!
//! A loop that broadcasts 64 KiB twice, once before a long computation and once before a short one, has two
//! units of tuning, though both calls look the same. Ranks call the collective operations of a communicator
//! in the same order (MPI-5 section 6), so all of them find the same cycle at the same operation. [`Watch`]
//! looks for a cycle for a while; [`Cycle`] follows the one that was found. A program may also call
//! operations that do not belong to the cycle, for example a sum in every tenth round as its stopping
//! criterion. These *strangers* are ignored as long as they are few.

use super::UnitKey;

/// Length of the longest cycle that is found, in operations.
pub const LONGEST: usize = 32;
/// Repetitions after which a cycle is accepted.
const TIMES: usize = 3;
/// Operations that must follow a cycle before it is accepted.
const FOLLOWED: usize = 48;
/// Operations between two searches for a cycle.
const BETWEEN_SEARCHES: usize = 8;
/// Operations after which a watch ends without a cycle.
pub const WATCHED: u32 = 192;
/// Weight of a stranger: the number of operations of the cycle that make up for one.
const STRANGER: u32 = 4;
/// Excess weight of strangers at which the program has left the loop.
const MOST_STRANGE: u32 = 64;

/// Place of an operation in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CyclePlace {
    /// Key of the operation.
    pub key: UnitKey,
    /// Number of operations with the same key before it in the cycle.
    pub occurrence: u32,
}

/// A search for a cycle among the latest operations.
#[derive(Debug, Default)]
pub struct Watch {
    /// Keys of the operations, the newest last; at most [`WATCHED`].
    keys: Vec<UnitKey>,
    /// Length of the cycle that the newest operations follow, or 0.
    period: usize,
    /// Number of the newest operations that follow this cycle.
    following: usize,
}

impl Watch {
    /// Notes an operation. Returns the cycle if this one completes it.
    pub fn note(&mut self, key: UnitKey) -> Option<Cycle> {
        self.keys.push(key);
        let newest = self.keys.len() - 1;
        if self.period > 0 && self.keys[newest] == self.keys[newest - self.period] {
            self.following += 1;
        } else {
            self.period = 0;
            if self.keys.len().is_multiple_of(BETWEEN_SEARCHES) {
                self.period = self.shortest();
                self.following = self.period * TIMES;
            }
        }
        let is_found = self.period > 0 && self.following >= FOLLOWED.max(self.period * TIMES);
        is_found.then(|| Cycle::new(&self.keys[self.keys.len() - self.period..]))
    }

    /// Returns true if so many operations have been noted that no cycle is expected any more.
    pub fn is_over(&self) -> bool {
        self.keys.len() >= WATCHED as usize
    }

    /// Returns the length of the shortest cycle that the latest keys have gone through often enough, or 0.
    fn shortest(&self) -> usize {
        let fits = |period: &usize| {
            let Some(first) = self.keys.len().checked_sub(period * TIMES) else { return false };
            let part = &self.keys[first..];
            part.iter().rev().zip(part.iter().rev().skip(*period)).all(|(one, earlier)| one == earlier)
        };
        (1..=LONGEST).find(fits).unwrap_or(0)
    }
}

/// A cycle of operations, and the place of the next one.
#[derive(Debug)]
pub struct Cycle {
    places: Box<[CyclePlace]>,
    next: usize,
    /// Excess weight of strangers over operations of the cycle.
    strange: u32,
}

impl Cycle {
    fn new(keys: &[UnitKey]) -> Cycle {
        let before = |place: usize| keys[..place].iter().filter(|key| **key == keys[place]).count() as u32;
        let place = |place| CyclePlace { key: keys[place], occurrence: before(place) };
        Cycle { places: (0..keys.len()).map(place).collect(), next: 0, strange: 0 }
    }

    /// Returns the length of the cycle.
    pub fn period(&self) -> usize {
        self.places.len()
    }

    /// Returns the position of the next operation, if it belongs to the cycle.
    #[inline]
    pub fn position(&self) -> usize {
        self.next
    }

    /// Returns the key of the next operation, if it belongs to the cycle.
    #[inline]
    pub fn next_key(&self) -> UnitKey {
        self.places[self.next].key
    }

    /// Returns the position of the operation that was met last.
    pub fn last_position(&self) -> usize {
        self.next.checked_sub(1).unwrap_or(self.places.len() - 1)
    }

    /// Returns the place at a position.
    pub fn place(&self, position: usize) -> CyclePlace {
        self.places[position]
    }

    /// Goes on by one operation, which is known to be the next one of the cycle.
    #[inline]
    pub fn advance(&mut self) {
        self.next = if self.next + 1 < self.places.len() { self.next + 1 } else { 0 };
        self.strange = self.strange.saturating_sub(1);
    }

    /// Records an operation and returns its place, or `None` for a stranger. Too many strangers end the
    /// cycle ([`Cycle::is_left`]).
    pub fn meet(&mut self, key: UnitKey) -> Option<CyclePlace> {
        let place = self.places[self.next];
        if place.key == key {
            self.advance();
            return Some(place);
        }
        self.strange += STRANGER;
        None
    }

    /// Returns true if the program has left the loop.
    pub fn is_left(&self) -> bool {
        self.strange > MOST_STRANGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Collective, Shape};
    use crate::tune::CallForm;

    fn key(bytes: u64) -> UnitKey {
        UnitKey::new(&Shape::new(Collective::Bcast, 4, 0, bytes), CallForm::Nonblocking)
    }

    /// Returns the cycle found in these keys, as letters with occurrences, and the number of operations
    /// until then. Letters stand for keys.
    fn found(keys: impl Iterator<Item = u8>) -> Option<(String, usize)> {
        let mut watch = Watch::default();
        for (number, letter) in keys.take(WATCHED as usize).enumerate() {
            if let Some(cycle) = watch.note(key(u64::from(letter))) {
                let text = cycle.places.iter().map(|place| {
                    let letter = (b'a'..=b'z').find(|letter| key(u64::from(*letter)) == place.key);
                    format!("{}{}", char::from(letter.expect("it is a letter")), place.occurrence)
                });
                return Some((text.collect(), number + 1));
            }
        }
        assert!(watch.is_over());
        None
    }

    fn check(cycle_of: &str, expected: &str) {
        let (text, after) = found(cycle_of.bytes().cycle()).expect("it repeats");
        assert_eq!(text, expected);
        assert!(after >= FOLLOWED && after <= WATCHED as usize / 2 + BETWEEN_SEARCHES, "{cycle_of} {after}");
    }

    #[test]
    fn operations_of_a_cycle_have_places() {
        check("a", "a0");
        check("ab", "a0b0");
        check("aab", "a0b0a1");
        check("abacad", "a0b0a1c0a2d0");
    }

    #[test]
    fn the_longest_cycle_is_found_and_a_longer_one_is_not() {
        let cycle = |length: u8| (0..length).cycle().map(|number| b'a' + number % 26 + number / 26 * 40);
        let mut watch = Watch::default();
        let first = cycle(LONGEST as u8).position(|letter| watch.note(key(u64::from(letter))).is_some());
        assert!(first.is_some_and(|first| first < WATCHED as usize));
        let mut watch = Watch::default();
        let longer = cycle(LONGEST as u8 + 1).take(WATCHED as usize);
        assert!(longer.into_iter().all(|letter| watch.note(key(u64::from(letter))).is_none()));
    }

    #[test]
    fn what_never_comes_again_is_no_cycle() {
        let mut watch = Watch::default();
        assert!((0..u64::from(WATCHED)).all(|bytes| watch.note(key(bytes)).is_none()));
        assert!(watch.is_over());
    }

    /// Checks the course of the cycle "aab" under these operations: the occurrence of each that belongs to
    /// it, `.` for a stranger, `!` once the loop is left.
    fn check_course(keys: &str, expected: &str) {
        let mut cycle = Cycle::new(&[key(97), key(97), key(98)]);
        let course: String = keys
            .bytes()
            .map(|letter| match cycle.meet(key(u64::from(letter))) {
                _ if cycle.is_left() => '!',
                Some(place) => char::from(b'0' + place.occurrence as u8),
                None => '.',
            })
            .collect();
        assert_eq!(course, expected);
    }

    #[test]
    fn few_strangers_are_passed_over_and_many_end_the_loop() {
        check_course("aabaab", "010010");
        check_course("axabaaxb", "0.1001.0");
        check_course("aabababab", "0100.100.");
        check_course(&"x".repeat(20), &format!("{}{}", ".".repeat(16), "!".repeat(4)));
    }
}
