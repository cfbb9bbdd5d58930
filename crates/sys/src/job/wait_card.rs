//! Slot for the card of a waiting rank. The launcher requests a card by a number; a rank that waits for long
//! answers with a card of that number. A rank that does not wait does not see the request, so that the
//! request costs it nothing.
//!
//! The card is written under a sequence lock, and its page is first touched when a card is written.

use std::sync::atomic::{AtomicU32, Ordering};

/// Longest card in bytes.
pub const CARD_BYTES: usize = 4096 - 16;

/// Request for a card, and the card.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct WaitCard {
    /// Odd while the card is written.
    version: AtomicU32,
    /// Number of the request that the card answers.
    answered: AtomicU32,
    bytes: AtomicU32,
    unused: AtomicU32,
    words: [AtomicU32; CARD_BYTES / 4],
}

impl WaitCard {
    /// Writes the card that answers a request, cut to [`CARD_BYTES`]. Callers take turns.
    pub(super) fn write(&self, request: u32, card: &[u8]) {
        let card = &card[..card.len().min(CARD_BYTES)];
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version | 1, Ordering::SeqCst);
        for (word, piece) in self.words.iter().zip(card.chunks(4)) {
            let mut four = [0; 4];
            four[..piece.len()].copy_from_slice(piece);
            word.store(u32::from_le_bytes(four), Ordering::Relaxed);
        }
        self.bytes.store(card.len() as u32, Ordering::Relaxed);
        self.answered.store(request, Ordering::Relaxed);
        self.version.store((version | 1).wrapping_add(1), Ordering::SeqCst);
    }

    /// Returns the card that answers a request; None if there is none yet, or while it is written.
    pub(super) fn read(&self, request: u32) -> Option<Vec<u8>> {
        let before = self.version.load(Ordering::SeqCst);
        let (answered, bytes) = (self.answered.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let words = (bytes as usize).min(CARD_BYTES).div_ceil(4);
        let card = self.words[..words].iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let mut card: Vec<u8> = card.collect();
        card.truncate(bytes as usize);
        let is_whole = before.is_multiple_of(2) && before == self.version.load(Ordering::SeqCst);
        (is_whole && answered == request).then_some(card)
    }
}

#[cfg(test)]
mod tests {
    use crate::job::{Job, Plan};

    use super::CARD_BYTES;

    #[test]
    fn a_card_answers_one_request() {
        let job = Job::create(&Plan::one_host(2)).unwrap();
        let block = job.block(1);
        assert_eq!((block.card_request(), block.card(7)), (None, None));
        block.request_card(7);
        assert_eq!((block.card_request(), block.card(7)), (Some(7), None));
        block.write_card(7, b"hello");
        assert_eq!((block.card_request(), block.card(7).as_deref()), (Some(7), Some(&b"hello"[..])));
        assert_eq!(block.card(8), None);
        block.write_card(8, &[b'x'; 5000]);
        assert_eq!(block.card(8).map(|card| card.len()), Some(CARD_BYTES));
        assert_eq!(job.block(0).card(8), None);
    }
}
