//! The tag of a datagram: a hash of its payload by a secret universal function, and of that, its front and
//! its length a tag under the job's key ([`Key`]).
//!
//! Every receiver of a broadcast looks at all of its bytes, and their processors may be busy: SipHash alone
//! takes longer than all else that is done with a datagram. The hash of the payload is the sum of products
//! of UMAC and VMAC (Black et al., CRYPTO 1999; Krovetz, SAC 2006), by words of 64 bits: two payloads of one
//! length have the same one for at most one in 2^63 keys. Nobody sees it but through the tag.

use crate::adaptive::tag::{Key, TAG_BYTES, Use};
use crate::multicast::packet::{FRONT_BYTES, PACKET_BYTES};

/// Words of the longest payload, in pairs.
const PAIRS: usize = PACKET_BYTES.div_ceil(16);

/// Maker and verifier of the tags of a job's datagrams.
#[derive(Clone, Debug)]
pub struct Seal {
    key: Key,
    words: Box<[[u64; 2]; PAIRS]>,
}

impl Seal {
    /// Derives the keys from the secret of the job.
    pub fn new(secret: &[u8; 32]) -> Seal {
        let key = Key::new(secret, Use::Multicast);
        let mut words = Box::new([[0; 2]; PAIRS]);
        for (number, pair) in (0_u64..).zip(words.iter_mut()) {
            *pair = halves(&key.tag(&[b"words", &number.to_le_bytes()]));
        }
        Seal { key, words }
    }

    /// Returns the key, for other uses.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the tag of a datagram that consists of this front and payload.
    pub fn tag(&self, text: &[u8]) -> [u8; TAG_BYTES] {
        let (front, payload) = text.split_at(FRONT_BYTES.min(text.len()));
        let (hash, length) = (self.hash(payload).to_le_bytes(), (payload.len() as u64).to_le_bytes());
        self.key.tag(&[front, &hash, &length])
    }

    /// Returns true if `tag` is that of `text`. Takes the same time wherever they differ.
    pub fn verifies(&self, text: &[u8], tag: &[u8]) -> bool {
        let expected = self.tag(text);
        tag.len() == TAG_BYTES && expected.iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }

    /// Returns the universal hash of a payload. The incomplete last pair of words is padded with zeros.
    fn hash(&self, payload: &[u8]) -> u128 {
        let (pairs, rest) = payload.as_chunks::<16>();
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        let whole = pairs.iter().zip(self.words.iter()).map(|(bytes, key)| product(bytes, key));
        let sum = whole.fold(0, u128::wrapping_add);
        // A payload that fills all pairs has no rest.
        self.words.get(pairs.len()).map_or(sum, |key| sum.wrapping_add(product(&last, key)))
    }
}

fn product(bytes: &[u8; 16], key: &[u64; 2]) -> u128 {
    let [one, two] = halves(bytes);
    u128::from(one.wrapping_add(key[0])) * u128::from(two.wrapping_add(key[1]))
}

fn halves(bytes: &[u8; 16]) -> [u64; 2] {
    let all = u128::from_le_bytes(*bytes);
    [all as u64, (all >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tags of all these texts differ, and are those of the texts.
    fn check(texts: &[Vec<u8>]) {
        let seal = Seal::new(&[5; 32]);
        let mut tags: Vec<_> = texts.iter().map(|text| seal.tag(text)).collect();
        assert!(texts.iter().zip(&tags).all(|(text, tag)| seal.verifies(text, tag)));
        assert!(texts.iter().zip(&tags).all(|(text, tag)| !seal.verifies(text, &tag[1..])));
        tags.push(Seal::new(&[6; 32]).tag(&texts[0]));
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), texts.len() + 1);
    }

    #[test]
    fn every_length_and_bit_counts() {
        // Zeros, so that a length is all that differs.
        let text_bytes = PACKET_BYTES - TAG_BYTES;
        let mut texts: Vec<Vec<u8>> = (1..=text_bytes).map(|length| vec![0; length]).collect();
        texts.extend((0..8 * text_bytes).map(|bit| {
            let mut text = vec![0; text_bytes];
            text[bit / 8] ^= 1 << (bit % 8);
            text
        }));
        check(&texts);
    }

    #[test]
    fn words_change_places_with_nothing() {
        let text = |order: [u8; 4]| {
            let words = order.iter().flat_map(|word| [*word; 8]);
            [0; FRONT_BYTES].into_iter().chain(words).collect::<Vec<u8>>()
        };
        check(&[[1, 2, 3, 4], [2, 1, 3, 4], [3, 4, 1, 2], [1, 2, 4, 3], [4, 3, 2, 1]].map(text));
    }
}
