//! Signatures of a member's latest operations, and the timer of an operation that waits: see
//! [`crate::collective`]'s `failures`.

use super::numbers::PersistentNumbers;
use crate::p2p::agreement::{LANE_BITS, NUMBERS, PERSISTENT};
use crate::wire::Signature;

/// Number of operations that a member remembers for each communicator.
const REMEMBERED: usize = 64;
/// Wait in nanoseconds after which the first inquiry is sent.
const FIRST_NS: u64 = 1_000_000_000;
/// Longest time between two inquiries, in nanoseconds.
const LONGEST_NS: u64 = 32_000_000_000;
/// Number of polls between two readings of the clock.
const LOOKS: u32 = 256;
/// Signatures of the latest operations of a communicator, by number.
#[derive(Debug)]
pub(crate) struct CallHistory {
    /// Signatures of the latest operations, at their numbers modulo the size.
    latest: [Signature; REMEMBERED],
    /// Numbers of persistent operations, with a signature for each.
    pub(crate) persistent: PersistentNumbers,
}

impl Default for CallHistory {
    fn default() -> CallHistory {
        CallHistory { latest: [0; REMEMBERED], persistent: PersistentNumbers::default() }
    }
}

impl CallHistory {
    /// Records the signature of an operation that begins.
    #[inline]
    pub fn note(&mut self, number: u32, signature: Signature) {
        self.latest[number as usize % REMEMBERED] = signature;
    }

    /// Records the signature of an operation that took its number earlier. `operations` is the number of
    /// operations called so far.
    pub fn note_late(&mut self, tag: i32, signature: Signature, operations: u32) {
        if self.signature(tag, operations).is_some() {
            self.note((tag as u32) >> LANE_BITS, signature);
        }
    }

    /// Returns the numbers of the latest operations that are remembered, latest first. `operations` have
    /// begun.
    pub fn latest(operations: u32) -> impl Iterator<Item = u32> {
        (1..=operations.min(REMEMBERED as u32)).map(move |ago| operations.wrapping_sub(ago) % NUMBERS)
    }

    /// Returns the signature of the operation with this tag, if it has begun and is remembered.
    /// `operations` have begun.
    pub(crate) fn signature(&self, tag: i32, operations: u32) -> Option<Signature> {
        let number = (tag & !PERSISTENT) as u32 >> LANE_BITS;
        if tag & PERSISTENT != 0 {
            return self.persistent.signature(number);
        }
        let ago = operations.wrapping_sub(1).wrapping_sub(number) % NUMBERS;
        let known = (operations as usize).min(REMEMBERED);
        ((ago as usize) < known).then(|| self.latest[number as usize % REMEMBERED])
    }
}

/// Timer of a waiting operation; decides when to send inquiries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// Number of polls without success.
    looks: u32,
    /// Time of the next inquiry, in nanoseconds.
    next_ns: u64,
    /// Time between the next two inquiries, in nanoseconds.
    step_ns: u64,
    /// Number of inquiries so far, up to 31.
    pub(crate) asked: u32,
    /// Tag under which a persistent operation was made, and its signature.
    pub made: Option<(i32, Signature)>,
    /// Member whose flag was polled last without success.
    pub awaited: Option<u32>,
    /// Member (local rank) that has left while it is awaited.
    pub suspect: Option<u32>,
}

impl Patience {
    /// Counts a poll without success; returns true if it is time to read the clock.
    #[inline]
    pub fn looked(&mut self, is_about_to_sleep: bool) -> bool {
        self.looks = self.looks.wrapping_add(1);
        is_about_to_sleep || self.looks.is_multiple_of(LOOKS)
    }

    /// Returns true if it is time to send an inquiry.
    #[cold]
    pub fn is_over(&mut self, now_ns: u64) -> bool {
        if self.step_ns == 0 {
            (self.next_ns, self.step_ns) = (now_ns + FIRST_NS, FIRST_NS);
        }
        let over = now_ns >= self.next_ns;
        if over {
            self.asked = (self.asked + 1).min(31);
            self.step_ns = (2 * self.step_ns).min(LONGEST_NS);
            self.next_ns = now_ns + self.step_ns;
        }
        over
    }

    /// Returns true if an inquiry was due before.
    pub fn is_long(&self) -> bool {
        self.asked > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_operations_are_remembered() {
        let mut begun = CallHistory::default();
        let tag = |number: u32| ((number % NUMBERS) << LANE_BITS) as i32;
        assert_eq!(begun.signature(tag(0), 0), None);
        for first in [0, NUMBERS - 10, u32::MAX - 200] {
            let numbers: Vec<u32> = (0..100).map(|number| first + number).collect();
            for number in &numbers {
                begun.note(number % NUMBERS, (number % 1000) as u16);
            }
            let check = |number: u32, known: bool| {
                let expected = known.then_some((number % 1000) as u16);
                assert_eq!(begun.signature(tag(number), first + 100), expected, "{number} after {first}");
            };
            check(first + 99, true);
            check(first + 99 - 63, true);
            check(first + 99 - 64, false);
            check(first + 100, false);
        }
        assert_eq!(begun.persistent.take(7), Some(1));
        assert_eq!(begun.signature(PERSISTENT | tag(1), 0), Some(7));
        assert_eq!(begun.signature(PERSISTENT | tag(2), 0), None);
        assert_eq!(begun.signature(PERSISTENT | tag(0), 0), None);
    }

    #[test]
    fn questions_become_rarer() {
        let mut patience = Patience::default();
        let asked: Vec<u64> = (0..600).filter(|tenth| patience.is_over(tenth * 100_000_000)).collect();
        assert_eq!(asked, [10, 30, 70, 150, 310]);
        assert!(patience.is_long());
        assert!(!Patience::default().is_long() && Patience::default().looked(true));
        assert_eq!((0..1024).filter(|_| patience.looked(false)).count(), 4);
    }
}
