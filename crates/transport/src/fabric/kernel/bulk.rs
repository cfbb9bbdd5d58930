//! Long messages on a connection: the memory of one process, read by the other into its own.
//!
//! The reader sends a request ([`CarrierKind::Read`]: loan, bytes, token), and the other process answers with
//! pieces ([`CarrierKind::Bulk`]: token, position). A piece goes from the lender's memory into the socket and
//! from the socket into the reader's memory without another copy. Records go between pieces, and several
//! reads take turns, so a piece is short.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};

use super::super::carrier::CarrierKind;
use super::super::frame::{BULK_BYTES, Front, HEADER_BYTES};
use super::wire::Wire;
use crate::link::Header;
use crate::loan::{Memory, store};

/// Bytes of a piece: records and what else is to be sent wait for so long.
const PIECE_BYTES: usize = 128 << 10;
const _: () = assert!(PIECE_BYTES <= BULK_BYTES, "the peer takes pieces of that length");

/// Request of a peer to read lent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Name of the loan.
    pub loan: u64,
    /// Number of bytes to read.
    pub bytes: u64,
    /// Number by which the peer identifies the read.
    pub token: u64,
}

impl Wish {
    /// Encodes the request as the header of a frame.
    pub fn header(self) -> Header {
        Header([self.loan, self.bytes, self.token])
    }

    /// Decodes a request from the header of a frame.
    pub fn from_header(header: Header) -> Wish {
        let [loan, bytes, token] = header.0;
        Wish { loan, bytes, token }
    }
}

/// Read by the peer, answered up to `position`.
#[derive(Debug)]
struct Answer {
    memory: Memory,
    loan: u64,
    token: u64,
    position: u64,
    bytes: u64,
}

/// Piece of which a part is sent.
#[derive(Debug)]
struct Piece {
    front: [u8; HEADER_BYTES],
    front_sent: usize,
    end: u64,
}

/// Reads of the peer in progress.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Reads that take turns. The piece belongs to the first one.
    answers: VecDeque<Answer>,
    piece: Option<Piece>,
    /// Loans that were read as a whole. The system has a copy of the bytes still under way.
    returned: Vec<u64>,
}

impl Outgoing {
    /// Answers a request with `memory`.
    pub fn push(&mut self, memory: Memory, wish: Wish) {
        if wish.bytes > 0 {
            let Wish { loan, bytes, token } = wish;
            self.answers.push_back(Answer { memory, loan, token, position: 0, bytes });
        }
    }

    /// Returns the loans that were read completely since the last call.
    pub fn take_returned(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.returned)
    }

    /// Returns true if nothing is left to be sent.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Returns true if a piece was begun, so that nothing else may be sent before its end.
    pub fn is_inside(&self) -> bool {
        self.piece.is_some()
    }

    /// Sends a piece, or the rest of one: whether the socket took all of it.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, wire: &mut Wire) -> io::Result<bool> {
        let Some(answer) = self.answers.front_mut() else { return Ok(true) };
        let piece = self.piece.get_or_insert_with(|| answer.begin());
        while answer.position < piece.end {
            let mut result = Ok(0);
            answer.memory.read(answer.position, piece.end - answer.position, &mut |runs| {
                let mut slices = Vec::with_capacity(runs.len() + 1);
                if piece.front_sent < HEADER_BYTES {
                    slices.push(IoSlice::new(&piece.front[piece.front_sent..]));
                }
                slices.extend_from_slice(runs);
                result = wire.write(&slices);
            });
            let sent = result?;
            if sent == 0 {
                return Ok(false);
            }
            let of_front = sent.min(HEADER_BYTES - piece.front_sent);
            piece.front_sent += of_front;
            answer.position += (sent - of_front) as u64;
        }
        self.piece = None;
        match self.answers.pop_front() {
            Some(answer) if answer.position < answer.bytes => self.answers.push_back(answer),
            answer => self.returned.extend(answer.map(|answer| answer.loan)),
        }
        Ok(true)
    }
}

impl Answer {
    fn begin(&self) -> Piece {
        let bytes = (self.bytes - self.position).min(PIECE_BYTES as u64);
        let mut front = [0; HEADER_BYTES];
        let header = Header([self.token, self.position, 0]);
        Front { kind: CarrierKind::Bulk, line: 0, header, bytes: bytes as usize }.write(&mut front);
        Piece { front, front_sent: 0, end: self.position + bytes }
    }
}

/// A read of this process.
#[derive(Debug)]
struct Reading {
    memory: Memory,
    position: u64,
    bytes: u64,
}

/// Reads of this process in progress.
#[derive(Debug, Default)]
pub struct Incoming {
    readings: HashMap<u64, Reading>,
    /// Token of the piece that is arriving, and the position of its end.
    piece: Option<(u64, u64)>,
    completed: Vec<u64>,
}

impl Incoming {
    /// Expects the answer to a request in `memory`.
    pub fn expect(&mut self, memory: Memory, wish: Wish) {
        self.readings.insert(wish.token, Reading { memory, position: 0, bytes: wish.bytes });
    }

    /// Returns true if nothing is to come.
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty()
    }

    /// Returns true if the next bytes of the connection are of a piece.
    pub fn is_inside(&self) -> bool {
        self.piece.is_some()
    }

    /// Returns the tokens of the completed reads.
    pub fn take_completed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.completed)
    }

    /// Begins a piece with this header.
    ///
    /// # Errors
    /// InvalidData if it is not the next one of a read.
    pub fn begin(&mut self, front: &Front) -> io::Result<()> {
        let [token, position, _] = front.header.0;
        let bytes = front.bytes as u64;
        match self.readings.get(&token) {
            Some(reading)
                if reading.position == position && bytes > 0 && bytes <= reading.bytes - position =>
            {
                self.piece = Some((token, position + bytes));
                Ok(())
            }
            _ => Err(io::Error::new(
                ErrorKind::InvalidData,
                "the peer sent a piece of memory that was not requested",
            )),
        }
    }

    /// Takes as much of `fresh` as is of the piece: how much it was.
    pub fn take(&mut self, fresh: &[u8]) -> usize {
        let Some((token, end)) = self.piece else { return 0 };
        let Some(reading) = self.readings.get(&token) else { return 0 };
        let count = ((end - reading.position) as usize).min(fresh.len());
        store(&reading.memory, reading.position, &fresh[..count]);
        self.arrived(count as u64);
        count
    }

    /// Receives once, into the memory of the piece and, if that is not enough, `tail`: how many bytes into
    /// `tail`. `None`: there was nothing.
    ///
    /// # Errors
    /// The connection is broken or closed.
    pub fn receive(&mut self, wire: &mut Wire, tail: &mut [u8]) -> io::Result<Option<usize>> {
        let Some((token, end)) = self.piece else { return Ok(None) };
        let Some(reading) = self.readings.get(&token) else { return Ok(None) };
        let rest = (end - reading.position) as usize;
        let (mut result, mut covered) = (Ok(None), 0);
        reading.memory.write(reading.position, rest as u64, &mut |runs| {
            covered = runs.iter().map(|run| run.len()).sum();
            let mut slices: Vec<IoSliceMut<'_>> = runs.iter_mut().map(|run| IoSliceMut::new(run)).collect();
            if covered == rest {
                slices.push(IoSliceMut::new(tail));
            }
            result = wire.read(&mut slices);
        });
        let Some(got) = result? else { return Ok(None) };
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.arrived(got.min(covered) as u64);
        Ok(Some(got.saturating_sub(covered)))
    }

    fn arrived(&mut self, count: u64) {
        let Some((token, end)) = self.piece else { return };
        let Some(reading) = self.readings.get_mut(&token) else { return };
        reading.position += count;
        if reading.position == end {
            self.piece = None;
        }
        if reading.position == reading.bytes {
            self.readings.remove(&token);
            self.completed.push(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use tutti_seal::{Cover, End, Root, SALT_BYTES, Salts};

    use super::super::stream::Stream;
    use super::super::wire::receive;
    use super::*;
    use crate::adaptive::ConnectionId;
    use crate::link::Verdict;
    use crate::loan::tests::InRuns;

    fn frame(kind: CarrierKind, header: Header, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADER_BYTES];
        Front { kind, line: 0, header, bytes: payload.len() }.write(&mut frame);
        frame.extend_from_slice(payload);
        frame
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|i| (i * 7 % 251) as u8).collect()
    }

    /// Checks two reads whose pieces come among records, in parts of `part` bytes. Every `left`th record is
    /// left once.
    fn check(part: usize, left: usize, cover: Option<Cover>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_nodelay(true).unwrap();
        let socket = listener.accept().unwrap().0;
        socket.set_nonblocking(true).unwrap();
        let keys = |end| {
            let salts = Salts { connecting: [1; SALT_BYTES], accepting: [2; SALT_BYTES] };
            cover.map(|cover| Root::new(&[3; 32], "test").connection(cover, end, &salts, b""))
        };
        let wire = Wire::new(socket, keys(End::Accepting).as_ref());
        let mut stream = Stream::new(ConnectionId(0), wire, Vec::new());
        let (first, second) = (bytes(700), bytes(300));
        let memories = [InRuns::new(vec![0; 700], 64, 3), InRuns::new(vec![0; 300], 1000, 1)];
        for (token, memory) in memories.iter().enumerate() {
            let length = memory.bytes.lock().unwrap().len() as u64;
            let wish = Wish { loan: 1, bytes: length, token: token as u64 };
            stream.expect(memory.clone(), wish);
        }
        let record =
            |number: u64| frame(CarrierKind::Record, Header([number, 0, 0]), &bytes(number as usize * 40));
        let piece = |token, position: usize, part: &[u8]| {
            frame(CarrierKind::Bulk, Header([token, position as u64, 0]), part)
        };
        let wish = Wish { loan: 5, bytes: 6, token: 7 };
        let sent = [
            record(1),
            piece(0, 0, &first[..500]),
            piece(1, 0, &second[..1]),
            record(2),
            frame(CarrierKind::Read, wish.header(), &[]),
            piece(1, 1, &second[1..]),
            piece(0, 500, &first[500..]),
            record(3),
        ]
        .concat();
        let (mut got, mut asked, mut room) = (Vec::new(), 0, vec![0; 4096]);
        let mut hand = |_: CarrierKind, header: Header, payload: &[u8]| {
            asked += 1;
            if asked % left == 0 {
                return Verdict::Left;
            }
            assert_eq!(payload, bytes(header.0[0] as usize * 40));
            got.push(header.0[0]);
            Verdict::Taken
        };
        let mut wishes = Vec::new();
        let mut sealed = keys(End::Connecting).map(|keys| tutti_seal::Outgoing::new(&keys));
        for part in sent.chunks(part) {
            let mut sealed_part = part.to_vec();
            if let Some(outgoing) = &mut sealed {
                assert_eq!(outgoing.put([part].into_iter()), part.len());
                sealed_part = outgoing.pending().to_vec();
                outgoing.sent(sealed_part.len());
            }
            peer.write_all(&sealed_part).unwrap();
            stream.receive(&mut room, &mut hand).unwrap();
            wishes.extend(stream.take_wishes());
        }
        drop(peer);
        while stream.receive(&mut room, &mut hand).is_ok() {
            wishes.extend(stream.take_wishes());
        }
        assert_eq!((got, wishes), (vec![1, 2, 3], vec![wish]), "{part} {left}");
        assert_eq!((stream.take_completed(), stream.is_read()), (vec![1, 0], false));
        assert!(*memories[0].bytes.lock().unwrap() == first && *memories[1].bytes.lock().unwrap() == second);
    }

    #[test]
    fn pieces_and_records_come_in_any_parts() {
        for part in (1..80).chain([531, 532, 533, 564, 1000, 4000]) {
            for cover in [None, Some(Cover::Authenticated), Some(Cover::Encrypted)] {
                check(part, usize::MAX, cover);
                check(part, 2, cover);
            }
        }
    }

    #[test]
    fn pieces_that_nobody_reads_are_refused() {
        let refused = |header: [u64; 3], bytes: usize| {
            let mut incoming = Incoming::default();
            incoming.expect(InRuns::new(vec![0; 9], 9, 1), Wish { loan: 1, bytes: 9, token: 4 });
            incoming
                .begin(&Front { kind: CarrierKind::Bulk, line: 0, header: Header(header), bytes })
                .is_err()
        };
        assert!(refused([3, 0, 0], 9) && refused([4, 1, 0], 8) && refused([4, 0, 0], 10));
        assert!(refused([4, 0, 0], 0) && !refused([4, 0, 0], 9));
    }

    #[test]
    fn answers_take_turns() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let peer = listener.accept().unwrap().0;
        peer.set_nonblocking(true).unwrap();
        let lent = bytes(3 * PIECE_BYTES / 2);
        let memory = InRuns::new(lent.clone(), 1000, 600);
        let mut wire = Wire::new(socket, None);
        let mut outgoing = Outgoing::default();
        for token in [0, 1] {
            let wish = Wish { loan: 1, bytes: lent.len() as u64, token };
            outgoing.push(Arc::clone(&memory) as Memory, wish);
        }
        let mut got = Vec::new();
        let mut room = vec![0; 1 << 16];
        while !outgoing.is_empty() {
            while !outgoing.send(&mut wire).unwrap() {
                let count = receive(&peer, &mut [IoSliceMut::new(&mut room)]).unwrap().unwrap_or(0);
                got.extend_from_slice(&room[..count]);
            }
        }
        drop(wire);
        while let Ok(count) = receive(&peer, &mut [IoSliceMut::new(&mut room)])
            && count != Some(0)
        {
            got.extend_from_slice(&room[..count.unwrap_or(0)]);
        }
        assert_eq!(outgoing.take_returned(), [1, 1]);
        let half = PIECE_BYTES / 2;
        let expected =
            [(0, 0, PIECE_BYTES), (1, 0, PIECE_BYTES), (0, PIECE_BYTES, half), (1, PIECE_BYTES, half)];
        let expected = expected.map(|(token, position, count)| {
            frame(CarrierKind::Bulk, Header([token, position as u64, 0]), &lent[position..position + count])
        });
        assert!(got == expected.concat());
    }
}
