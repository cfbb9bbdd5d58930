//! Frames: `length (4 bytes) | payload | tag (16 bytes)`. The tag is a keyed hash over payload and the number of the frame, so a frame that
//! was changed, left out, repeated or put in by somebody else is noticed.

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;
/// Longest payload, in bytes: the plan of a job, with the environments of its programs.
pub const MAXIMUM_BYTES: usize = 64 << 20;

/// A frame that cannot be one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Key and count of one direction of a connection.
#[derive(Debug)]
pub struct Seal {
    key: [u8; 32],
    count: u64,
}

impl Seal {
    /// For frames from the first on.
    pub fn new(key: [u8; 32]) -> Seal {
        Seal { key, count: 0 }
    }

    /// The tag of the next frame.
    pub fn tag(&mut self, payload: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.count.to_le_bytes());
        hasher.update(payload);
        self.count += 1;
        let mut tag = [0; TAG_BYTES];
        hasher.finalize_xof().fill(&mut tag);
        tag
    }
}

/// Appends a frame.
///
/// # Panics
/// If the payload is longer than [`MAXIMUM_BYTES`]: a bug of the caller.
pub fn put(seal: &mut Seal, payload: &[u8], out: &mut Vec<u8>) {
    assert!(payload.len() <= MAXIMUM_BYTES, "a frame of {} bytes", payload.len());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(&seal.tag(payload));
}

/// Bytes received, until they are frames.
#[derive(Debug, Default)]
pub struct Reader {
    held: Vec<u8>,
    taken: usize,
}

impl Reader {
    /// Takes bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.held.drain(..std::mem::take(&mut self.taken));
        self.held.extend_from_slice(bytes);
    }

    /// The next payload, if it is all there.
    ///
    /// # Errors
    /// If the frame is too long or its tag is wrong; the connection is of no use then.
    pub fn next(&mut self, seal: &mut Seal) -> Result<Option<&[u8]>, Malformed> {
        let held = &self.held[self.taken..];
        let Some((length, rest)) = held.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAXIMUM_BYTES {
            return Err(Malformed);
        }
        if rest.len() < length + TAG_BYTES {
            return Ok(None);
        }
        let (payload, tag) = rest[..length + TAG_BYTES].split_at(length);
        let expected = seal.tag(payload);
        let difference = expected.iter().zip(tag).fold(0, |sum, (one, two)| sum | (one ^ two));
        if difference != 0 {
            return Err(Malformed);
        }
        self.taken += 4 + length + TAG_BYTES;
        Ok(Some(payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(payloads: &[Vec<u8>]) -> Vec<u8> {
        let (mut seal, mut out) = (Seal::new([3; 32]), Vec::new());
        payloads.iter().for_each(|payload| put(&mut seal, payload, &mut out));
        out
    }

    fn parsed(bytes: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, Malformed> {
        let (mut reader, mut seal, mut got) = (Reader::default(), Seal::new([3; 32]), Vec::new());
        for part in bytes.chunks(piece.max(1)) {
            reader.feed(part);
            while let Some(payload) = reader.next(&mut seal)? {
                got.push(payload.to_vec());
            }
        }
        Ok(got)
    }

    proptest! {
        #[test]
        fn what_is_put_comes_out_however_it_arrives(
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..99), 0..9),
            piece in 1usize..64,
        ) {
            prop_assert_eq!(parsed(&framed(&payloads), piece), Ok(payloads));
        }

        #[test]
        fn a_changed_byte_is_noticed(
            payload in proptest::collection::vec(any::<u8>(), 1..99),
            at in any::<proptest::sample::Index>(),
            bit in 0u8..8,
        ) {
            let mut bytes = framed(std::slice::from_ref(&payload));
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            // A longer length waits for bytes that never come.
            prop_assert!(parsed(&bytes, 1000).is_err() || parsed(&bytes, 1000) == Ok(vec![]));
        }

        #[test]
        fn noise_is_no_frame(bytes in proptest::collection::vec(any::<u8>(), 0..300), piece in 1usize..64) {
            prop_assert!(parsed(&bytes, piece).is_ok_and(|got| got.is_empty()) || parsed(&bytes, piece).is_err());
        }
    }

    #[test]
    fn order_matters_and_repeats_are_refused() {
        let one = framed(&[b"one".to_vec()]);
        assert_eq!(parsed(&[&one[..], &one].concat(), 9), Err(Malformed));
        let both = framed(&[b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(parsed(&both[one.len()..], 9), Err(Malformed));
        assert_eq!(parsed(&[0xff; 8], 8), Err(Malformed));
    }
}
