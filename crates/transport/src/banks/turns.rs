//! Who may use a slot when: the split-phase barrier of S1 as counters, one a member.
//!
//! All members run the same operations in the same order and number them alike, 0, 1, 2 and so on. Operation n uses slot
//! n modulo the number of slots, which operation n - slots used before. Each member publishes how many operations it has left,
//! counted without gaps, however they ended; n is granted once that number has passed n - slots at all
//! members. Nobody waits for this barrier unless it has run a whole round ahead: what was seen last is remembered,
//! so that most grants are one comparison, and one look at all counters is good for up to a round of operations.
//!
//! # Why nothing is overwritten while it is read
//! What a member does in operation n - slots, reads of others' banks and flags included, comes before its
//! release of the counter that counts it; a member that is granted n has acquired such a counter of everyone, so all of that
//! happened before what it writes in n. Nobody reads n's values too early either: flags carry the number of
//! their operation (see [`word`]), and grow.
//! They also carry what their owner takes the operation for: who reads the flag of a member that does something else finds that
//! out ([`is_at_odds`]), at no cost, as a flag that is not reached is one that is looked at again.
//!
//! # Why who sleeps for room is woken
//! It has published the count it needs of everyone (`wanted`) before it announced its sleep and looked again (see
//! [`crate::bell`]). The member whose counter is the last to reach it must ring. Two may arrive at the same time and each miss the other's
//! counter; so who finds somebody wanting what it has just reached passes a full fence, and then looks at all counters: the
//! one whose fence is last sees them all ([`is_last`]).

use tutti_base::BankSizes;
use tutti_base::sync::{AtomicU64, Ordering, fence};

/// Bits of the value in a flag word.
const VALUE_BITS: u32 = 24;
/// Bits of the agreement, above the value and a bit that is 0.
const ACCORD_BITS: u32 = 15;
/// Where the agreement begins.
const ACCORD_SHIFT: u32 = VALUE_BITS + 1;
/// Where the number begins: the rest are its lowest bits.
const NUMBER_SHIFT: u32 = ACCORD_SHIFT + ACCORD_BITS;
/// Numbers of operations in flag words are modulo this.
const NUMBERS: u64 = 1 << (64 - NUMBER_SHIFT);

/// What a flag holds when operation `number` has set it to `value`, below 2^24, at a member for which the operation is
/// what `agreed` says: 15 bits on which all members agree if they call it alike. Flags need no reset from operation to
/// operation, only before their numbers come again ([`is_stale`]).
#[inline]
pub fn word(number: u64, agreed: u16, value: u64) -> u64 {
    debug_assert!(value < 1 << VALUE_BITS, "a flag overflows");
    number << NUMBER_SHIFT | (u64::from(agreed) & ((1 << ACCORD_BITS) - 1)) << ACCORD_SHIFT | value
}

/// Whether a flag says what the word `wanted` says, with this value or a higher one. The bit between value and agreed keeps
/// an agreement that is one higher from being taken for a high value.
#[inline]
pub fn is_reached(flag: u64, wanted: u64) -> bool {
    flag.wrapping_sub(wanted) < 1 << VALUE_BITS
}

/// Whether a flag is of the operation of the word `wanted`, but its owner takes that for something else.
#[inline]
pub fn is_at_odds(flag: u64, wanted: u64) -> bool {
    let differs = flag ^ wanted;
    flag != 0 && differs >> NUMBER_SHIFT == 0 && differs >> ACCORD_SHIFT != 0
}

/// Whether the flags of the slot of operation `number` have to be cleared by their owner before it uses them: each slot has such
/// an operation in every half of the numbers, so that no flag is ever as old as its number is unique.
#[inline]
pub fn is_stale(number: u64) -> bool {
    number & (NUMBERS / 2 - 1) < MOST_SLOTS
}

/// Slots of a class, at the most.
const MOST_SLOTS: u64 = BankSizes::MAX_SLOTS as u64;

/// What one member knows about its operations of one class.
#[derive(Clone, Debug)]
pub struct Turns {
    /// A power of two up to [`MOST_SLOTS`]; 0 if there are none.
    slots: u64,
    /// Operations below this number may use their slots.
    granted: u64,
    /// Operations begun here.
    begun: u64,
    /// Operations left here, without gaps; this is what others see.
    left: u64,
    /// Bit i: operation `left + i` was left too. Bit 0 is never set.
    ended: u128,
    /// What this member has published as wanted; 0: nothing.
    wanted: u64,
}

impl Turns {
    /// For a set of `slots` slots that nobody has used.
    pub fn new(slots: u32) -> Turns {
        assert!(
            u64::from(slots) <= MOST_SLOTS && (slots == 0 || slots.is_power_of_two()),
            "a number of slots that is none"
        );
        Turns { slots: slots.into(), granted: slots.into(), begun: 0, left: 0, ended: 0, wanted: 0 }
    }

    /// Resumes in a set that this member has used before, and in which it has left so many operations.
    pub fn resume(slots: u32, left: u64) -> Turns {
        let turns = Turns::new(slots);
        Turns { granted: turns.granted.max(left), begun: left, left, ..turns }
    }

    /// Returns the number of operations left here, without gaps.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The number of the next operation.
    #[inline]
    pub fn begin(&mut self) -> u64 {
        debug_assert!(self.slots > 0, "an operation of a class without slots");
        self.begun += 1;
        self.begun - 1
    }

    /// The slot of operation `number`.
    #[inline]
    pub fn slot(&self, number: u64) -> u32 {
        (number & self.slots.wrapping_sub(1)) as u32
    }

    /// Whether operation `number` is known to own its slot.
    #[inline]
    pub fn is_granted(&self, number: u64) -> bool {
        number < self.granted
    }

    /// Whether operations are under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.begun == self.left
    }

    /// Looks at the counters of all members, own included. If operation `number` must wait, publishes what it needs.
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

    /// Operation `number` has ended here: nothing of its slot will be read or written by this member. Publishes it, unless
    /// earlier ones are still under way. Says from what to what the count went.
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

/// Whether all counters have come as far as `needs`, as seen by a member that has just moved its own.
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

    /// One member's operations end in `order`; what it publishes after each.
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
