//! One TCP connection: frames in both directions.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use tutti_sys::event::Interest;
use tutti_sys::socket;

use super::super::carrier::{CarrierKind, RECORDS_PER_POLL};
use super::super::frame::{Front, HEADER_BYTES};
use super::bulk::{Incoming, Outgoing, Wish};
use super::wire::Wire;
use crate::adaptive::ConnectionId;
use crate::link::{Header, Verdict};
use crate::loan::Memory;

/// Bytes queued behind a full socket, but for one record.
const QUEUE_BYTES: usize = 256 << 10;

/// Repetitions of the same bytes by the system after which a stream counts as stuck: some seconds.
const REPETITIONS: u32 = 4;
/// Pieces of memory received in a row: then others have their turn.
const PIECES_AT_ONCE: usize = 8;
/// Highest number of times that opened content is offered in one call.
const CONTENT_AT_ONCE: usize = 16;
/// Bytes received in one call while pieces are awaited. More would be copied once more from the receive
/// buffer, except for the first bytes of the pieces.
const ROOM_WHILE_READING: usize = 2 << 10;

/// Frames that came or left on one socket.
#[derive(Debug)]
pub struct Stream {
    name: ConnectionId,
    wire: Wire,
    /// Frame of which a part has arrived: its bytes so far, and room for all that are known to come.
    partial: Vec<u8>,
    filled: usize,
    /// Frames that arrived and were not handed over yet; they begin at `done`.
    backlog: Vec<u8>,
    done: usize,
    /// True if the first of them was left.
    left: bool,
    queue: VecDeque<u8>,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Read requests of the peer since the last [`Stream::take_wishes`].
    wishes: Vec<Wish>,
    closed: bool,
    /// True if anything has arrived.
    has_heard: bool,
    /// Time since which the system repeats the same bytes.
    stuck: Option<Instant>,
}

/// Parses the first frame of `bytes`, if it is whole.
fn first(bytes: &[u8]) -> io::Result<Option<(CarrierKind, Header, &[u8])>> {
    let Some(start) = bytes.first_chunk() else { return Ok(None) };
    let malformed = || io::Error::new(ErrorKind::InvalidData, "the peer sent a malformed frame");
    let front = Front::read(start).ok_or_else(malformed)?;
    let payload = bytes.get(HEADER_BYTES..HEADER_BYTES + front.bytes);
    Ok(payload.map(|payload| (front.kind, front.header, payload)))
}

impl Stream {
    /// Creates a stream over a connected socket, of which `early` bytes were read already.
    pub fn new(name: ConnectionId, mut wire: Wire, early: Vec<u8>) -> Stream {
        let early = if wire.give_back(&early) { Vec::new() } else { early };
        Stream {
            name,
            wire,
            partial: Vec::new(),
            filled: 0,
            backlog: early,
            done: 0,
            left: false,
            queue: VecDeque::new(),
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            wishes: Vec::new(),
            closed: false,
            has_heard: false,
            stuck: None,
        }
    }

    /// Returns the name of the connection.
    pub fn name(&self) -> ConnectionId {
        self.name
    }

    /// Returns the socket of this stream.
    pub fn socket(&self) -> &TcpStream {
        self.wire.socket()
    }

    /// Returns true if frames wait in memory; nothing is received meanwhile.
    pub fn holds(&self) -> bool {
        self.has_backlog() || self.wire.has_content()
    }

    fn has_backlog(&self) -> bool {
        self.done < self.backlog.len()
    }

    /// Returns true if some of them were not left.
    pub fn has_more(&self) -> bool {
        self.holds() && !self.left
    }

    /// Returns true if something is queued to be sent.
    pub fn is_queued(&self) -> bool {
        !self.queue.is_empty() || !self.outgoing.is_empty() || self.wire.is_pending()
    }

    /// Returns true if one of the two processes reads memory of the other.
    pub fn is_read(&self) -> bool {
        !self.outgoing.is_empty() || !self.incoming.is_empty()
    }

    /// Returns true if what was sent first, and nothing has come since, does not arrive.
    pub fn is_deaf(&self) -> bool {
        !self.has_heard && is_stuck(self.wire.socket())
    }

    /// Returns the time for which nothing was acknowledged although the system repeats the bytes.
    pub fn stuck(&mut self, now: Instant) -> Duration {
        let is_stuck = is_stuck(self.wire.socket());
        let since = is_stuck.then(|| *self.stuck.get_or_insert(now));
        self.stuck = since;
        since.map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// Restarts the time for which sent bytes may stay unacknowledged.
    pub fn forget_stuck(&mut self) {
        self.stuck = None;
    }

    /// Returns the read requests of the peer since the last call.
    pub fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// Returns the tokens of the reads that have completed since the last call.
    pub fn take_completed(&mut self) -> Vec<u64> {
        self.incoming.take_completed()
    }

    /// Returns the loans that the peer has read since the last call.
    pub fn take_returned(&mut self) -> Vec<u64> {
        self.outgoing.take_returned()
    }

    /// Answers a wish of the peer.
    pub fn answer(&mut self, memory: Memory, wish: Wish) {
        self.outgoing.push(memory, wish);
    }

    /// Expects the peer's answer to a read request in `memory`.
    pub fn expect(&mut self, memory: Memory, wish: Wish) {
        self.incoming.expect(memory, wish);
    }

    /// Returns the events for which a sleeper waits. A socket that is not read from would wake a sleeper for
    /// ever.
    pub fn interest(&self) -> Interest {
        match (self.holds(), self.is_queued()) {
            (false, false) => Interest::Read,
            (false, true) => Interest::Both,
            (true, false) => Interest::Nothing,
            (true, true) => Interest::Write,
        }
    }

    /// Returns true if a frame with this payload finds room.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.queue.is_empty() || self.queue.len() + HEADER_BYTES + bytes <= QUEUE_BYTES
    }

    /// Returns the memory of this connection, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.partial.capacity() + self.backlog.capacity() + self.queue.capacity() + self.wire.memory_bytes()
    }

    /// Sends a frame, or queues what the socket does not take: whether all is sent.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let at_once = self.queue.is_empty() && !self.outgoing.is_inside();
        let sent = if at_once { self.wire.write(&[IoSlice::new(frame)])? } else { 0 };
        if sent == frame.len() {
            return Ok(!self.wire.is_pending());
        }
        self.queue.extend(&frame[sent..]);
        Ok(false)
    }

    /// Sends what is queued, records before memory that is read: whether all is sent.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush(&mut self) -> io::Result<bool> {
        if !self.wire.flush()? || !self.outgoing.is_inside() && !self.flush_queue()? {
            return Ok(false);
        }
        // One piece: what the peer has to say meanwhile may be a wish to be read too, and the request that
        // follows would wait behind all that the socket has taken.
        Ok(self.outgoing.send(&mut self.wire)? && !self.is_queued())
    }

    fn flush_queue(&mut self) -> io::Result<bool> {
        while !self.queue.is_empty() {
            let (front, back) = self.queue.as_slices();
            let sent = self.wire.write(&[IoSlice::new(front), IoSlice::new(back)])?;
            if sent == 0 {
                return Ok(false);
            }
            self.queue.drain(..sent);
        }
        self.queue.shrink_to(HEADER_BYTES);
        Ok(true)
    }

    /// Offers what is held; then, if nothing is, receives once into `room` and hands over the frames found, a
    /// bounded number. True if anything was taken.
    ///
    /// # Errors
    /// The connection is broken, or was closed by the peer (UnexpectedEof) and all that came before was
    /// taken.
    #[inline]
    pub fn receive(
        &mut self,
        room: &mut [u8],
        hand: &mut impl FnMut(CarrierKind, Header, &[u8]) -> Verdict,
    ) -> io::Result<bool> {
        let mut taken = self.receive_once(room, hand)?;
        // What was opened with it: to be asked again for the rest would cost calls of the system.
        for _ in 0..CONTENT_AT_ONCE {
            if !self.wire.has_content() || self.has_backlog() {
                break;
            }
            taken |= self.receive_once(room, hand)?;
        }
        Ok(taken)
    }

    #[inline]
    fn receive_once(
        &mut self,
        room: &mut [u8],
        hand: &mut impl FnMut(CarrierKind, Header, &[u8]) -> Verdict,
    ) -> io::Result<bool> {
        if self.has_backlog() {
            return self.offer(hand);
        }
        if self.closed {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if self.incoming.is_inside() {
            return self.receive_pieces(&mut room[..HEADER_BYTES], hand);
        }
        let awaited = if self.incoming.is_empty() { room.len() } else { ROOM_WHILE_READING };
        let room = &mut room[..awaited];
        let wanted = self.partial.len() - self.filled;
        let got = if wanted == 0 {
            self.wire.read(&mut [IoSliceMut::new(room)])?
        } else {
            let rest = IoSliceMut::new(&mut self.partial[self.filled..]);
            self.wire.read(&mut [rest, IoSliceMut::new(room)])?
        };
        match got {
            None => Ok(false),
            Some(0) => {
                self.closed = true;
                Err(ErrorKind::UnexpectedEof.into())
            }
            Some(got) => {
                self.has_heard = true;
                self.found(&room[..got.saturating_sub(wanted)], got.min(wanted), hand)
            }
        }
    }

    /// Receives pieces of memory that this process reads, and after each of them the header of the next
    /// frame.
    fn receive_pieces(
        &mut self,
        header: &mut [u8],
        hand: &mut impl FnMut(CarrierKind, Header, &[u8]) -> Verdict,
    ) -> io::Result<bool> {
        let mut taken = false;
        for _ in 0..PIECES_AT_ONCE {
            if !self.incoming.is_inside() || self.has_backlog() {
                break;
            }
            let got = self.incoming.receive(&mut self.wire, header);
            self.closed = matches!(&got, Err(error) if error.kind() == ErrorKind::UnexpectedEof);
            let Some(in_header) = got? else { break };
            taken = true;
            self.found(&header[..in_header], 0, hand)?;
        }
        Ok(taken)
    }

    /// Takes bytes that were taken out of the socket by who kept the job: they come before all that it has.
    pub fn give_back(&mut self, mut bytes: &[u8]) {
        self.has_heard = true;
        if self.wire.give_back(bytes) {
            return;
        }
        if !self.has_backlog() {
            bytes = &bytes[self.incoming.take(bytes)..];
            self.partial.truncate(self.filled);
            (self.backlog, self.done, self.left) = (std::mem::take(&mut self.partial), 0, false);
            self.filled = 0;
        }
        self.backlog.extend_from_slice(bytes);
    }

    /// Deals with what no owner sees, if `bytes` start with it: how much of them it was.
    fn own(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let Some(front) = bytes.first_chunk().and_then(Front::read) else { return Ok(None) };
        match front.kind {
            CarrierKind::Record | CarrierKind::End | CarrierKind::Datagram => Ok(None),
            CarrierKind::Read => {
                self.wishes.push(Wish::from_header(front.header));
                Ok(Some(HEADER_BYTES))
            }
            // Said of memory that the network reads, which this one does not lend.
            CarrierKind::Done => {
                Err(io::Error::new(ErrorKind::InvalidData, "the peer read memory that was not lent to it"))
            }
            CarrierKind::Bulk => {
                self.incoming.begin(&front)?;
                Ok(Some(HEADER_BYTES + self.incoming.take(&bytes[HEADER_BYTES..])))
            }
        }
    }

    /// Hands over what a read has brought: `into_partial` bytes of the frame begun before, then `fresh` ones.
    fn found(
        &mut self,
        mut fresh: &[u8],
        into_partial: usize,
        hand: &mut impl FnMut(CarrierKind, Header, &[u8]) -> Verdict,
    ) -> io::Result<bool> {
        let mut taken = 0;
        if !self.partial.is_empty() {
            self.filled += into_partial;
            if self.filled < self.partial.len() {
                return Ok(false);
            }
            let partial = std::mem::take(&mut self.partial);
            let own = self.own(&partial)?.is_some();
            self.partial = partial;
            if own {
                // It was a header only: what follows it is in `fresh`.
                self.partial.clear();
                self.filled = 0;
                let more = self.incoming.take(fresh);
                return self.found(&fresh[more..], 0, hand);
            }
            match first(&self.partial)? {
                // Only its header was known to come.
                None => {
                    self.begin_partial(&[])?;
                    let more = fresh.len().min(self.partial.len() - self.filled);
                    self.partial[self.filled..self.filled + more].copy_from_slice(&fresh[..more]);
                    return self.found(&fresh[more..], more, hand);
                }
                Some((kind, header, payload)) => {
                    if hand(kind, header, payload) == Verdict::Left {
                        self.backlog = std::mem::take(&mut self.partial);
                        self.filled = 0;
                        self.backlog.extend_from_slice(fresh);
                        (self.done, self.left) = (0, true);
                        return Ok(false);
                    }
                    taken += 1;
                }
            }
            self.partial.clear();
            self.filled = 0;
        }
        loop {
            if let Some(own) = self.own(fresh)? {
                fresh = &fresh[own..];
                continue;
            }
            let Some((kind, header, payload)) = first(fresh)? else { break };
            let left = taken < RECORDS_PER_POLL && hand(kind, header, payload) == Verdict::Left;
            if left || taken == RECORDS_PER_POLL {
                self.backlog = fresh.to_vec();
                (self.done, self.left) = (0, left);
                return Ok(taken > 0);
            }
            taken += 1;
            fresh = &fresh[HEADER_BYTES + payload.len()..];
        }
        self.begin_partial(fresh)?;
        Ok(taken > 0)
    }

    /// Keeps the beginning of a frame, or what was kept of it so far, with room for all of it that is known
    /// to come.
    fn begin_partial(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !bytes.is_empty() {
            self.partial.extend_from_slice(bytes);
            self.filled = bytes.len();
        }
        if self.partial.is_empty() {
            self.partial =
                if self.partial.capacity() > 4096 { Vec::new() } else { std::mem::take(&mut self.partial) };
            return Ok(());
        }
        let whole = match self.partial.first_chunk() {
            None => HEADER_BYTES,
            Some(start) => match Front::read(start) {
                Some(front) => HEADER_BYTES + front.bytes,
                None => return Err(ErrorKind::InvalidData.into()),
            },
        };
        self.partial.resize(whole, 0);
        Ok(())
    }

    /// Hands over what is held, a bounded number of frames.
    fn offer(&mut self, hand: &mut impl FnMut(CarrierKind, Header, &[u8]) -> Verdict) -> io::Result<bool> {
        let mut taken = 0;
        while taken < RECORDS_PER_POLL {
            let backlog = std::mem::take(&mut self.backlog);
            let own = self.own(&backlog[self.done..]);
            self.backlog = backlog;
            if let Some(own) = own? {
                self.done += own;
                continue;
            }
            let Some((kind, header, payload)) = first(&self.backlog[self.done..])? else {
                let rest = self.backlog.split_off(self.done);
                (self.backlog, self.done, self.left) = (Vec::new(), 0, false);
                self.begin_partial(&rest)?;
                break;
            };
            self.left = hand(kind, header, payload) == Verdict::Left;
            if self.left {
                break;
            }
            self.done += HEADER_BYTES + payload.len();
            taken += 1;
        }
        Ok(taken > 0)
    }
}

/// Returns true if the system has sent the same several times, and it was not acknowledged. That of a process
/// that does not read acknowledges, and says that there is no room.
pub(super) fn is_stuck(socket: &TcpStream) -> bool {
    socket::path(socket.as_fd()).is_ok_and(|path| path.unacknowledged > 0 && path.repetitions >= REPETITIONS)
}
