//! Reuse of slots: the split-phase barrier of S1 as counters, one for each member.
//!
//! All members run the same operations in the same order and number them alike: 0, 1, 2 and so on. Operation
//! n uses slot n modulo the number of slots, which operation n - slots used before. Each member publishes how
//! many operations it has left, counted without gaps, however they ended. Operation n is granted once that
//! number has passed n - slots at all members. A member waits for this barrier only if it has run a whole
//! round ahead. The last values seen are remembered, so that most grants are one comparison. One look at all
//! counters is good for up to a round of operations.
//!
//! # Why nothing is overwritten while it is read
//! A member's accesses in operation n - slots, including reads of others' banks and flags, come before its
//! release of the counter that counts the operation. A member that is granted n has acquired such a counter
//! of every member. Hence all those accesses happened before its writes in n. Nobody reads n's values too
//! early either: flags carry the number of their operation (see [`word`]), and grow. They also carry their
//! owner's signature of the operation. A member that reads the flag of one that does something else detects
//! it ([`is_at_odds`]) at no cost: a flag that is not reached is read again anyway.
//!
//! # Why a member that sleeps for room is woken
//! The sleeper has published the count it needs of everyone (`wanted`) before it announced its sleep and
//! looked again (see [`crate::bell`]). The member whose counter is the last to reach it must ring. Two
//! members may arrive at the same time and each miss the other's counter. Hence a member that finds somebody
//! wanting the count it has just reached passes a full fence and then reads all counters: the one whose fence
//! is last sees them all ([`is_last`]).

use tutti_base::BankSizes;
use tutti_base::sync::{AtomicU64, Ordering, fence};

/// Bits of the value in a flag word.
const VALUE_BITS: u32 = 24;
/// Bits of the agreement, above the value and a bit that is 0.
const ACCORD_BITS: u32 = 15;
/// Lowest bit of the agreement.
const ACCORD_SHIFT: u32 = VALUE_BITS + 1;
/// Lowest bit of the operation number, of which the word holds the low bits.
const NUMBER_SHIFT: u32 = ACCORD_SHIFT + ACCORD_BITS;
/// Numbers of operations in flag words are modulo this.
const NUMBERS: u64 = 1 << (64 - NUMBER_SHIFT);

/// Returns the content of a flag that operation `number` has set to `value`, below 2^24. `agreed` is the
/// owner's signature of the operation: 15 bits that are equal if all members call it alike. Flags need no
/// reset between operations, only before their numbers repeat ([`is_stale`]).
#[inline]
pub fn word(number: u64, agreed: u16, value: u64) -> u64 {
    debug_assert!(value < 1 << VALUE_BITS, "a flag overflows");
    number << NUMBER_SHIFT | (u64::from(agreed) & ((1 << ACCORD_BITS) - 1)) << ACCORD_SHIFT | value
}

/// Returns true if a flag holds the number and agreement of the word `wanted`, with its value or a higher
/// one. The bit between value and agreement keeps an agreement that is one higher from being taken for a high
/// value.
#[inline]
pub fn is_reached(flag: u64, wanted: u64) -> bool {
    flag.wrapping_sub(wanted) < 1 << VALUE_BITS
}

/// Returns true if a flag is of the operation of the word `wanted`, but its owner takes that for something
/// else.
#[inline]
pub fn is_at_odds(flag: u64, wanted: u64) -> bool {
    let differs = flag ^ wanted;
    flag != 0 && differs >> NUMBER_SHIFT == 0 && differs >> ACCORD_SHIFT != 0
}

/// Returns true if the owner has to clear the flags of the slot of operation `number` before using them. Each
/// slot has such an operation in every half of the numbers. Hence no flag is old enough for its number to be
/// ambiguous.
#[inline]
pub fn is_stale(number: u64) -> bool {
    number & (NUMBERS / 2 - 1) < MOST_SLOTS
}

/// Highest number of slots of a class.
const MOST_SLOTS: u64 = BankSizes::MAX_SLOTS as u64;

/// State of one member's operations of one class.
#[derive(Clone, Debug)]
pub struct Turns {
    /// A power of two up to [`MOST_SLOTS`]; 0 if there are none.
    slots: u64,
    /// Number below which operations may use their slots.
    granted: u64,
    /// Number of operations begun here.
    begun: u64,
    /// Number of operations left here, without gaps, as published to the others.
    left: u64,
    /// Bit i is set if operation `left + i` was left too. Bit 0 is never set.
    ended: u128,
    /// Count that this member has published as needed; 0 if none.
    wanted: u64,
}

impl Turns {
    /// Starts in a set of `slots` slots that nobody has used.
    pub fn new(slots: u32) -> Turns {
        assert!(
            u64::from(slots) <= MOST_SLOTS && (slots == 0 || slots.is_power_of_two()),
            "a number of slots that is none"
        );
        Turns { slots: slots.into(), granted: slots.into(), begun: 0, left: 0, ended: 0, wanted: 0 }
    }

    /// Resumes in a set that this member has used before and in which it has left `left` operations.
    pub fn resume(slots: u32, left: u64) -> Turns {
        let turns = Turns::new(slots);
        Turns { granted: turns.granted.max(left), begun: left, left, ..turns }
    }

    /// Returns the number of operations left here, without gaps.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Returns the number of the next operation.
    #[inline]
    pub fn begin(&mut self) -> u64 {
        debug_assert!(self.slots > 0, "an operation of a class without slots");
        self.begun += 1;
        self.begun - 1
    }

    /// Returns the slot of operation `number`.
    #[inline]
    pub fn slot(&self, number: u64) -> u32 {
        (number & self.slots.wrapping_sub(1)) as u32
    }

    /// Returns true if operation `number` is known to own its slot.
    #[inline]
    pub fn is_granted(&self, number: u64) -> bool {
        number < self.granted
    }

    /// Returns true if operations are under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.begun == self.left
    }

    /// Looks at the counters of all members, own included. If operation `number` must wait, publishes what it
    /// needs.
    pub fn look<'a>(
        &mut self,
        number: u64,
        lefts: impl Iterator<Item = &'a AtomicU64>,
        wanted: &AtomicU64,
    ) -> bool {
        self.granted = least(lefts) + self.slots;
        let is_granted = self.is_granted(number);
        let needs = if is_granted { 0 } else { number + 1 - self.slots };
        // Of several that wait, the first: the others cannot come before it.
        if self.wanted != needs && (needs == 0 || self.wanted == 0 || needs < self.wanted) {
            self.wanted = needs;
            wanted.store(needs, Ordering::Relaxed);
        }
        is_granted
    }

    /// Notes that operation `number` has ended here: this member no longer reads or writes its slot.
    /// Publishes the count, unless earlier operations are still under way. Returns the count before and
    /// after.
    #[inline]
    pub fn leave(&mut self, number: u64, left: &AtomicU64) -> (u64, u64) {
        debug_assert!((self.left..self.begun).contains(&number), "left without being begun, or twice");
        debug_assert!(self.is_granted(number), "left without being granted");
        let before = self.left;
        self.ended |= 1 << (number - before);
        let count = self.ended.trailing_ones();
        self.left = before + u64::from(count);
        // Two shifts: count may be 128, which one shift does not take.
        self.ended = self.ended >> (count / 2) >> (count - count / 2);
        left.store(self.left, Ordering::Release);
        (before, self.left)
    }
}

/// Returns true if all counters have come as far as `needs`, as seen by a member that has just moved its own.
#[cold]
pub fn is_last<'a>(needs: u64, lefts: impl Iterator<Item = &'a AtomicU64>) -> bool {
    fence(Ordering::SeqCst);
    least(lefts) >= needs
}

#[inline]
fn least<'a>(lefts: impl Iterator<Item = &'a AtomicU64>) -> u64 {
    lefts.map(|left| left.load(Ordering::Acquire)).min().expect("there is a member")
}

const _: () = assert!(MOST_SLOTS <= u128::BITS as u64, "a bit a slot");

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Checks what one member publishes after each operation, if they end in `order`.
    fn check(slots: u32, order: &[u64], expected: &[u64]) {
        let (mut turns, left, wanted) = (Turns::new(slots), AtomicU64::new(0), AtomicU64::new(0));
        let mut seen = Vec::new();
        for _ in order {
            turns.begin();
        }
        for &number in order {
            assert!(turns.is_granted(number) || turns.look(number, [&left].into_iter(), &wanted));
            turns.leave(number, &left);
            seen.push(left.load(Ordering::Relaxed));
        }
        assert_eq!(seen, expected, "{order:?}");
        assert!(turns.is_idle());
    }

    #[test]
    fn what_is_left_is_published_without_gaps() {
        check(4, &[0, 1, 2, 3, 4], &[1, 2, 3, 4, 5]);
        check(4, &[1, 3, 0, 2, 5, 4], &[0, 0, 2, 4, 4, 6]);
        check(1, &[0, 1, 2], &[1, 2, 3]);
        let mut late: Vec<u64> = (1..128).collect();
        late.push(0);
        check(128, &late, &[&[0; 127][..], &[128]].concat());
    }

    #[test]
    fn a_slot_waits_for_the_slowest() {
        let (mut turns, wanted) = (Turns::new(2), AtomicU64::new(0));
        let lefts = [AtomicU64::new(0), AtomicU64::new(0)];
        let mut look = |number| (turns.look(number, lefts.iter(), &wanted), wanted.load(Ordering::Relaxed));
        assert_eq!((look(1), look(3), look(2), look(3)), ((true, 0), (false, 2), (false, 1), (false, 1)));
        lefts[0].store(5, Ordering::Relaxed);
        assert_eq!(look(2), (false, 1));
        lefts[1].store(1, Ordering::Relaxed);
        assert_eq!((look(2), look(3)), ((true, 0), (false, 2)));
        assert!(!is_last(2, lefts.iter()) && is_last(1, lefts.iter()));
    }

    fn check_words(flag: u64, wanted: u64, expected: (bool, bool)) {
        assert_eq!((is_reached(flag, wanted), is_at_odds(flag, wanted)), expected, "{flag:x} {wanted:x}");
    }

    #[test]
    fn words_tell_values_operations_and_disagreements_apart() {
        let last = (1 << VALUE_BITS) - 1;
        check_words(word(3, 7, 5), word(3, 7, 5), (true, false));
        check_words(word(3, 7, last), word(3, 7, 0), (true, false));
        check_words(word(3, 7, 4), word(3, 7, 5), (false, false));
        check_words(word(2, 7, 9), word(3, 7, 1), (false, false));
        check_words(word(2, 0x7fff, last), word(3, 0, 0), (false, false));
        check_words(0, word(0, 7, 1), (false, false));
        for (flag, wanted) in [(8, 7), (7, 8), (0x7fff, 0), (0, 0x7fff)] {
            for values in [[0, 1], [1, 0], [0, last], [last, 0], [1, 1]] {
                check_words(word(3, flag, values[0]), word(3, wanted, values[1]), (false, true));
            }
        }
        // Numbers come again, but not within a slot that is cleared meanwhile.
        check_words(word(3 + NUMBERS, 7, 5), word(3, 7, 5), (true, false));
        let cleared = |slots: u64, slot: u64| {
            (0..NUMBERS / slots).map(|turn| turn * slots + slot).filter(|&number| is_stale(number)).count()
        };
        for (slots, slot) in [(128, 0), (128, 127), (16, 5), (1, 0)] {
            assert!(cleared(slots, slot) >= 2, "{slots} {slot}");
        }
    }
}
