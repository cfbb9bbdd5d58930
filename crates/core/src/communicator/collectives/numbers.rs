//! Numbers of a communicator's persistent operations, which are the tags of their messages.
//!
//! Members make these operations in the same order, so the first four million numbers are counted. Members
//! free the operations in any order. When the count ends, the members agree once for each block of numbers
//! on which of them no member uses.

use crate::matching::Numbered;
use crate::p2p::agreement::NUMBERS;
use crate::wire::Signature;

/// CallKey of a block of numbers, with a bit for each number.
pub(crate) const BLOCK_WORDS: usize = 64;
/// Numbers of a block.
const BLOCK: u32 = 64 * BLOCK_WORDS as u32;
/// Number of blocks.
pub(crate) const BLOCKS: u32 = NUMBERS / BLOCK;

/// Numbers of persistent operations at one member.
#[derive(Debug, Default)]
pub(crate) struct PersistentNumbers {
    /// The last number that was counted; 0 if none.
    counted: u32,
    /// Block on which the members agree next.
    block: u32,
    /// Free numbers of the agreed block, one bit each.
    free: Option<Box<[u64; BLOCK_WORDS]>>,
    /// Signatures of the operations that are not freed, by number.
    live: Numbered<u32, Signature>,
}

impl PersistentNumbers {
    /// Makes numbers of which only `numbers` are left to be counted, for tests.
    pub fn left(numbers: u64) -> PersistentNumbers {
        let counted = u64::from(NUMBERS).saturating_sub(numbers + 1) as u32;
        PersistentNumbers { counted, ..PersistentNumbers::default() }
    }

    /// Takes the number of a new operation, 1 or more. Returns `None` if the members have to agree first
    /// ([`PersistentNumbers::agree`]).
    pub fn take(&mut self, signature: Signature) -> Option<u32> {
        let number = if self.counted + 1 < NUMBERS { self.counted + 1 } else { self.take_free()? };
        self.counted = self.counted.max(number);
        let before = self.live.insert(number, signature);
        debug_assert!(before.is_none(), "a number that is in use");
        Some(number)
    }

    /// Takes a number that the members have agreed is free.
    fn take_free(&mut self) -> Option<u32> {
        let free = self.free.as_mut()?;
        let word = free.iter().position(|word| *word != 0)?;
        let bit = free[word].trailing_zeros();
        free[word] &= free[word] - 1;
        Some((self.block + BLOCKS - 1) % BLOCKS * BLOCK + word as u32 * 64 + bit)
    }

    /// Returns the numbers of the next block that are in use here, by bits.
    pub fn in_use(&self) -> [u64; BLOCK_WORDS] {
        let mut used = [0; BLOCK_WORDS];
        let first = self.block * BLOCK;
        // No operation has number 0.
        used[0] = u64::from(first == 0);
        for number in self.live.keys().filter_map(|number| number.checked_sub(first)) {
            if number < BLOCK {
                used[number as usize / 64] |= 1 << (number % 64);
            }
        }
        used
    }

    /// Takes over the numbers of the next block that are in use at some member. The others are free from
    /// now on.
    pub fn agree(&mut self, in_use: [u64; BLOCK_WORDS]) {
        self.free = Some(Box::new(in_use.map(|word| !word)));
        self.block = (self.block + 1) % BLOCKS;
    }

    /// Records that an operation is freed here.
    pub fn forget(&mut self, number: u32) {
        self.live.remove(&number);
    }

    /// Returns the signature of an operation that is not freed.
    pub fn signature(&self, number: u32) -> Option<Signature> {
        self.live.get(&number).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes `count` operations at two members and returns their numbers. One member frees each operation
    /// at once, the other keeps those that `to_keep` selects.
    fn make(members: &mut [PersistentNumbers; 2], count: u32, to_keep: impl Fn(u32) -> bool) -> Vec<u32> {
        let made = (0..count).map(|operation| {
            let number = loop {
                if let [Some(one), Some(two)] = members.each_mut().map(|member| member.take(1)) {
                    assert_eq!(one, two);
                    break one;
                }
                let [one, two] = members.each_ref().map(PersistentNumbers::in_use);
                let either = std::array::from_fn(|word| one[word] | two[word]);
                members.iter_mut().for_each(|member| member.agree(either));
            };
            members[0].forget(number);
            if !to_keep(operation) {
                members[1].forget(number);
            }
            number
        });
        made.collect()
    }

    #[test]
    fn numbers_come_again_once_all_have_freed_them() {
        let mut members = [PersistentNumbers::left(3), PersistentNumbers::left(3)];
        let last = NUMBERS - 1;
        assert_eq!(make(&mut members, 5, |operation| operation == 3), [last - 2, last - 1, last, 1, 2]);
        assert_eq!(members[1].signature(1), Some(1));
        let rest = make(&mut members, NUMBERS - 3, |_| false);
        assert_eq!((rest[0], rest[rest.len() - 1]), (3, last), "each once");
        let again = make(&mut members, 3, |_| false);
        assert_eq!(again, [2, 3, 4], "1 is still in use");
    }

    #[test]
    fn blocks_of_which_all_numbers_are_in_use_are_passed_over() {
        let mut members = [PersistentNumbers::left(0), PersistentNumbers::left(0)];
        let kept = make(&mut members, BLOCK - 1, |_| true);
        assert_eq!((kept[0], kept[kept.len() - 1]), (1, BLOCK - 1));
        make(&mut members, NUMBERS - BLOCK, |_| false);
        assert_eq!(make(&mut members, 1, |_| false), [BLOCK]);
    }
}
