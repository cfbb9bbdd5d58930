//! Entry points for fuzzers on the input of connections, here so that ordinary tests run them too. Not part
//! of the interface.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use super::bulk::Wish;
use super::stream::Stream;
use super::waiting;
use super::wire::Wire;
use crate::adaptive::ConnectionId;
use crate::fabric::address;
use crate::fabric::carrier::RECORD_BYTES;
use crate::fabric::frame::{Front, HEADER_BYTES};
use crate::link::{Header, Verdict};
use crate::loan::Pieces;

/// Bytes of the memory that is read.
const READ_BYTES: usize = 64;

/// Parses `input` as the greeting of a stranger. A refused one stays refused, and the meaning of an accepted
/// one does not change with further bytes.
pub fn greetings(input: &[u8]) {
    let mut before = Ok(None);
    for end in 0..=input.len().min(512) {
        let now = waiting::parse(&input[..end]).map_err(|error| error.kind());
        match before {
            Ok(None) => {}
            settled => assert_eq!(now, settled),
        }
        before = now;
    }
}

/// Parses `input` as a published address.
pub fn addresses(input: &[u8]) {
    if let Some(known) = address::decode(input) {
        assert_eq!(address::encode(known), input);
    }
}

/// Parses `input` as the header of a frame, and as a frame.
pub fn fronts(input: &[u8]) {
    if let Some(front) = input.first_chunk().and_then(Front::read) {
        let mut again = [0; HEADER_BYTES];
        front.write(&mut again);
        assert_eq!(again, input[..HEADER_BYTES]);
    }
    if let Some((front, payload)) = Front::of_message(input) {
        assert_eq!(front.bytes, payload.len());
    }
}

/// Memory that stores a peer's pieces.
#[derive(Debug)]
struct Plain(Mutex<[u8; READ_BYTES]>);

impl Pieces for Plain {
    fn bytes(&self) -> u64 {
        READ_BYTES as u64
    }

    fn read(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&[IoSlice<'_>])) {
        let memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        use_memory(&[IoSlice::new(&memory[position as usize..][..bytes as usize])]);
    }

    fn write(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&mut [IoSliceMut<'_>])) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        use_memory(&mut [IoSliceMut::new(&mut memory[position as usize..][..bytes as usize])]);
    }
}

/// Feeds `input` as all bytes of a peer on a connection on which two reads are awaited. Every third record is
/// left once. The stream ends, only records of valid lengths are delivered, and the rest is refused or kept.
pub fn streams(input: &[u8]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback");
    let address = listener.local_addr().expect("it is bound");
    let socket = TcpStream::connect(address).expect("it listens");
    socket.set_nonblocking(true).expect("a socket can be told so");
    let mut stream = Stream::new(ConnectionId(0), Wire::new(socket, None), input.to_vec());
    for token in 0..2 {
        let memory = Arc::new(Plain(Mutex::new([0; READ_BYTES])));
        stream.expect(memory, Wish { loan: 1, bytes: READ_BYTES as u64, token });
    }
    let (mut room, mut asked) = (vec![0; 4096], 0u32);
    let mut hand = |_, _: Header, payload: &[u8]| {
        assert!(payload.len() <= RECORD_BYTES, "no record is longer");
        asked += 1;
        if asked % 3 == 0 { Verdict::Left } else { Verdict::Taken }
    };
    // Each round takes or leaves a frame, of at least a header.
    for _ in 0..2 * (input.len() / HEADER_BYTES + 2) {
        if let Err(error) = stream.receive(&mut room, &mut hand) {
            assert!(matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof), "{error}");
            return;
        }
    }
    assert!(!stream.holds(), "all that came was looked at");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fabric::carrier::CarrierKind;

    /// Frames with lengths and numbers near those that are allowed, some of them cut short.
    fn traffic() -> impl Strategy<Value = Vec<u8>> {
        let kind = prop::sample::select(vec![
            CarrierKind::Record,
            CarrierKind::End,
            CarrierKind::Read,
            CarrierKind::Bulk,
        ]);
        let frame = (kind, prop::array::uniform3(0..3u64), 0..70usize, 0..40usize).prop_map(
            |(kind, [token, step, other], bytes, cut)| {
                let bytes = if kind == CarrierKind::Read { 0 } else { bytes };
                let mut frame = vec![7; HEADER_BYTES + bytes];
                Front { kind, line: 0, header: Header([token, step * 16, other]), bytes }.write(&mut frame);
                frame.truncate(if cut == 0 { HEADER_BYTES + bytes / 2 } else { frame.len() });
                frame
            },
        );
        prop::collection::vec(frame, 0..8).prop_map(|frames| frames.concat())
    }

    fn check(input: &[u8]) {
        greetings(input);
        addresses(input);
        fronts(input);
        streams(input);
    }

    proptest! {
        /// Runs the fuzz targets on arbitrary input.
        #[test]
        fn no_bytes_do_harm(input in prop::collection::vec(any::<u8>(), 0..300), traffic in traffic()) {
            check(&input);
            check(&traffic);
            check(&[&b"tutti\x02"[..], &input].concat());
            let ends = [input.len().min(6), input.len().min(18)];
            ends.iter().for_each(|&end| addresses(&input[..end]));
        }
    }
}
