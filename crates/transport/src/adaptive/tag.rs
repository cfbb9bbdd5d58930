//! Keyed tags: only processes that know the job's secret can make them.
//!
//! SipHash-2-4 with 128 bits, under keys that are derived from the secret, one for each use.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// Purpose of a key. Tags of one purpose reveal nothing about another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Tags of datagrams.
    Datagram = 1,
    /// Proofs of connecting processes.
    Connect = 2,
    /// Proofs of accepting processes.
    Accept = 3,
    /// Nonces.
    Nonce = 4,
    /// Tags of frames over networks that need no connections.
    Frame = 5,
    /// Messages between the roots of two groups that meet.
    Line = 6,
    /// Secrets that are derived from others.
    Derived = 7,
    /// Tags of multicast datagrams.
    Multicast = 8,
    /// Nonces of encrypted datagrams.
    Hidden = 9,
}

/// The key of one use.
#[derive(Clone, Copy)]
pub struct Key([u8; 16]);

/// Derives 32 bytes that cannot be guessed without `secret`.
pub fn derive(secret: &[u8; 32], of: &[&[u8]]) -> [u8; 32] {
    let key = Key::new(secret, Use::Derived);
    let half = |number: u8| key.tag(&[&[&[number][..]], of].concat());
    let mut derived = [0; 32];
    derived[..16].copy_from_slice(&half(0));
    derived[16..].copy_from_slice(&half(1));
    derived
}

impl Key {
    /// Derives the key for one purpose from a secret.
    ///
    /// # Panics
    /// Never: the secret has two halves.
    pub fn new(secret: &[u8; 32], what: Use) -> Key {
        let (first, second) = secret.split_at(16);
        let mut label = [0; 17];
        label[..16].copy_from_slice(second);
        label[16] = what as u8;
        Key(Key(first.try_into().expect("half of 32 bytes")).tag(&[&label]))
    }

    /// Uses a key that was agreed upon.
    pub fn from_bytes(bytes: [u8; 16]) -> Key {
        Key(bytes)
    }

    /// Returns the tag of the parts, one after the other.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        for part in parts {
            hasher.write(part);
        }
        hasher.finish128().as_bytes()
    }

    /// Returns true if `tag` is that of `bytes`. Takes the same time wherever they differ.
    pub fn verifies(&self, bytes: &[u8], tag: &[u8]) -> bool {
        let expected = self.tag(&[bytes]);
        tag.len() == TAG_BYTES && expected.iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

/// No key is ever printed.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_secret_and_use() {
        let uses = [
            Use::Datagram,
            Use::Connect,
            Use::Accept,
            Use::Nonce,
            Use::Frame,
            Use::Line,
            Use::Derived,
            Use::Multicast,
            Use::Hidden,
        ];
        let mut tags = Vec::new();
        for last in 0..2 {
            let mut secret = [7; 32];
            secret[31] = last;
            tags.extend(uses.map(|what| Key::new(&secret, what).tag(&[b"text"])));
            secret[0] = 1;
            tags.extend(uses.map(|what| Key::new(&secret, what).tag(&[b"text"])));
        }
        let all = tags.len();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), all);
    }

    #[test]
    fn one_bit_is_noticed() {
        let key = Key::new(&[3; 32], Use::Datagram);
        let text = b"a datagram".to_vec();
        let tag = key.tag(&[&text]);
        assert!(key.verifies(&text, &tag) && key.tag(&[&text[..3], &text[3..]]) == tag);
        for bit in 0..8 * text.len() {
            let mut wrong = text.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(&wrong, &tag));
        }
        assert!(!key.verifies(&text, &tag[..15]) && !key.verifies(&text, &[]));
    }
}
