//! Words of the job object that several of its parts share: counts of calls of MPI_Finalize, and the
//! objects of later generations.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counts of the ranks that have called MPI_Finalize.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Arrivals {
    /// Number of ranks of this host that have called it.
    pub(super) here: AtomicU32,
    /// Not 0 once all ranks of all hosts have called it.
    pub(super) everywhere: AtomicU32,
}

/// Maximum number of generations that have objects on a node at a time.
pub const MOST_GENERATIONS: usize = 64;

/// Objects of the generations after the first one: generation and slot of each, or 0.
#[derive(Debug)]
#[repr(C)]
pub struct Generations(pub(super) [AtomicU64; MOST_GENERATIONS]);

impl Generations {
    /// Returns the slot with the object of a generation, if there is one now.
    pub(super) fn slot_of(&self, generation: u32) -> Option<u32> {
        let words = self.0.iter().map(|word| word.load(Ordering::Acquire));
        words.filter(|word| *word != 0).find_map(|word| {
            let (number, slot) = parts(word);
            (number == generation).then_some(slot)
        })
    }
}

/// Splits a word into generation and slot.
pub(super) fn parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}
