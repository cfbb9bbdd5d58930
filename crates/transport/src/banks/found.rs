//! Results that one member has found and every other member would find alike, such as which algorithm is
//! best. They are in a small table in the part of the first member, so that on crowded processors one member
//! searches and the others read.
//!
//! The first member that looks for a key claims an entry by one compare and exchange. The others look again
//! until the result is stored. They need not wait: a member may search by itself at any time, or if the table
//! is full, as all find the same result. Nothing is ever removed. An entry holds its whole key, so that a
//! collision of hashes is a miss.

use tutti_base::sync::{AtomicU64, Ordering};

/// Words of a key.
pub const KEY_WORDS: usize = 2;
/// Words of what is known.
pub const VALUE_WORDS: usize = 4;
/// Entries of a table.
#[cfg_attr(loom, allow(dead_code, reason = "the model has smaller tables"))]
pub(super) const ENTRIES: usize = 64;
/// Number of entries that are searched for a key.
const PROBES: usize = 8;

/// States beside 0, which is free; the rest of the word is of the key's hash.
const BUSY: u64 = 1;
const DONE: u64 = 2;

/// Entry for one key. All bytes zero: a free entry.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct FoundEntry {
    state: AtomicU64,
    words: [AtomicU64; KEY_WORDS + VALUE_WORDS],
}

/// The table of a set.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a>(&'a [FoundEntry]);

/// Result of looking up a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Stored result for the key.
    Known([u64; VALUE_WORDS]),
    /// The entry at this index is claimed for the caller, which has to find the result and store it.
    Mine(usize),
    /// Another member is finding the result.
    Busy,
    /// No result is stored and no entry is free.
    Full,
}

impl<'a> Found<'a> {
    /// Wraps these entries, at least one.
    pub fn new(entries: &'a [FoundEntry]) -> Found<'a> {
        Found(entries)
    }

    /// Looks up `key` and claims a free entry if there is none.
    pub fn look(&self, key: [u64; KEY_WORDS]) -> Look {
        let tag = tag(key);
        let places = (0..PROBES.min(self.0.len())).map(|probe| self.place(tag, probe));
        for place in places {
            let state = &self.0[place].state;
            let found = match state.load(Ordering::Acquire) {
                0 => match state.compare_exchange(0, tag | BUSY, Ordering::Acquire, Ordering::Acquire) {
                    Ok(_) => return Look::Mine(place),
                    Err(found) => found,
                },
                found => found,
            };
            if found == tag | BUSY {
                return Look::Busy;
            }
            if found == tag | DONE && self.words(place, 0) == key {
                return Look::Known(self.words(place, KEY_WORDS));
            }
        }
        Look::Full
    }

    /// Tells the others; `place` is that of the [`Look::Mine`] that the caller got for `key`.
    pub fn tell(&self, place: usize, key: [u64; KEY_WORDS], value: [u64; VALUE_WORDS]) {
        let entry = &self.0[place];
        for (word, value) in entry.words.iter().zip(key.into_iter().chain(value)) {
            word.store(value, Ordering::Relaxed);
        }
        entry.state.store(tag(key) | DONE, Ordering::Release);
    }

    fn place(&self, tag: u64, probe: usize) -> usize {
        ((tag >> 32) as usize + probe) % self.0.len()
    }

    fn words<const COUNT: usize>(&self, place: usize, first: usize) -> [u64; COUNT] {
        std::array::from_fn(|word| self.0[place].words[first + word].load(Ordering::Relaxed))
    }
}

/// Returns a hash of the key with two bits free.
fn tag(key: [u64; KEY_WORDS]) -> u64 {
    // The finaliser of MurmurHash3.
    let mix = |mut word: u64| {
        word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        word ^ word >> 33
    };
    (mix(key[0]) ^ mix(key[1] ^ 0x9e37_79b9_7f4a_7c15)) & !(BUSY | DONE)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn check(found: Found<'_>, key: u64, expected: Look) {
        assert_eq!(found.look([key, 1]), expected, "{key}");
    }

    #[test]
    fn the_first_who_looks_tells_the_others() {
        let entries: Vec<FoundEntry> = (0..16).map(|_| FoundEntry::default()).collect();
        let found = Found::new(&entries);
        let Look::Mine(place) = found.look([5, 1]) else { panic!("the table is empty") };
        check(found, 5, Look::Busy);
        found.tell(place, [5, 1], [1, 2, 3, 4]);
        check(found, 5, Look::Known([1, 2, 3, 4]));
        let mut full = 0;
        for key in 6..100 {
            match found.look([key, 1]) {
                Look::Mine(place) => found.tell(place, [key, 1], [key; 4]),
                Look::Full => full += 1,
                other => panic!("{key}: {other:?}"),
            }
        }
        assert!((78..94).contains(&full), "{full}");
        check(found, 5, Look::Known([1, 2, 3, 4]));
    }
}
