//! Frames of a connection: `length (4 bytes) | payload`, in a sealed stream (`tutti_seal`). A frame that was
//! changed, dropped, repeated or inserted on the way is detected. No third party can read it, which matters
//! as it may carry input and output of programs.

use tutti_seal::{Incoming, Outgoing};

/// Bytes of the length in front of a payload.
const LENGTH_BYTES: usize = 4;
/// Maximum bytes of a payload. The longest is the plan of a job, with the environments of its programs.
pub const MAXIMUM_BYTES: usize = 64 << 20;

/// Error: bytes that the other end did not send as a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Appends a sealed frame to `out`.
///
/// # Panics
/// Panics if the payload is longer than [`MAXIMUM_BYTES`], which is a bug of the caller.
pub fn put(outgoing: &mut Outgoing, payload: &[u8], out: &mut Vec<u8>) {
    assert!(payload.len() <= MAXIMUM_BYTES, "a frame of {} bytes", payload.len());
    let length = (payload.len() as u32).to_le_bytes();
    let (mut length, mut payload) = (&length[..], payload);
    while !length.is_empty() || !payload.is_empty() {
        let taken = outgoing.put([length, payload].into_iter());
        let of_length = taken.min(length.len());
        length = &length[of_length..];
        payload = &payload[taken - of_length..];
        let count = outgoing.pending().len();
        out.extend_from_slice(outgoing.pending());
        outgoing.sent(count);
    }
}

/// Reader that assembles received bytes to frames.
#[derive(Debug)]
pub struct Reader {
    incoming: Incoming,
    /// Contents of records. Frames were taken from the first `taken` bytes.
    held: Vec<u8>,
    taken: usize,
}

impl Reader {
    /// Creates the reader of a fresh connection.
    pub fn new(incoming: Incoming) -> Reader {
        Reader { incoming, held: Vec::new(), taken: 0 }
    }

    /// Appends bytes that were received.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.held.drain(..std::mem::take(&mut self.taken));
        self.incoming.append(bytes);
    }

    /// Returns the next payload, if all of it has arrived.
    ///
    /// # Errors
    /// Fails if the frame is too long, or was not sent by the other end. The connection cannot be used then.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, Malformed> {
        loop {
            let held = &self.held[self.taken..];
            let length =
                held.first_chunk::<LENGTH_BYTES>().map(|length| u32::from_le_bytes(*length) as usize);
            if length.is_some_and(|length| length > MAXIMUM_BYTES) {
                return Err(Malformed);
            }
            if let Some(length) = length.filter(|length| held.len() - LENGTH_BYTES >= *length) {
                let start = self.taken + LENGTH_BYTES;
                self.taken = start + length;
                return Ok(Some(&self.held[start..start + length]));
            }
            let content = self.incoming.take_record().map_err(|_| Malformed)?;
            if content.is_empty() {
                return Ok(None);
            }
            self.held.extend_from_slice(content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tutti_seal::{Cover, End, Root, SALT_BYTES, Salts, StreamKeys};

    fn keys(end: End) -> StreamKeys {
        let salts = Salts { connecting: [1; SALT_BYTES], accepting: [2; SALT_BYTES] };
        Root::new(&[3; 32], "test").connection(Cover::Encrypted, end, &salts, b"")
    }

    fn framed(payloads: &[Vec<u8>]) -> Vec<u8> {
        let (mut outgoing, mut out) = (Outgoing::new(&keys(End::Connecting)), Vec::new());
        payloads.iter().for_each(|payload| put(&mut outgoing, payload, &mut out));
        out
    }

    fn parsed(bytes: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, Malformed> {
        let (mut reader, mut got) = (Reader::new(Incoming::new(&keys(End::Accepting))), Vec::new());
        for part in bytes.chunks(piece.max(1)) {
            reader.feed(part);
            while let Some(payload) = reader.next_frame()? {
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
            prop_assert!(parsed(&bytes, 1000).is_err());
        }

        #[test]
        fn noise_is_no_frame(bytes in proptest::collection::vec(any::<u8>(), 0..300), piece in 1usize..64) {
            prop_assert!(parsed(&bytes, piece).is_ok_and(|got| got.is_empty()) || parsed(&bytes, piece).is_err());
        }
    }

    #[test]
    fn long_frames_pass_and_cannot_be_read() {
        let long = vec![b'x'; 200_000];
        let bytes = framed(&[long.clone(), vec![], long.clone()]);
        assert!(!bytes.windows(9).any(|nine| nine == b"xxxxxxxxx"));
        assert_eq!(parsed(&bytes, 64 << 10), Ok(vec![long.clone(), vec![], long]));
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
