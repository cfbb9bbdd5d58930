//! The one trait of whatever carries connections: the sockets of the kernel, or a provider of libfabric.
//!
//! A carrier moves framed records over connections that somebody else decides about (`adaptive`), and reports what
//! happens to them. It authenticates nobody: the private data of both sides are proofs that its owner checks.

use std::os::fd::RawFd;
use std::time::Duration;

use crate::adaptive::ConnectionId;
use crate::link::{Full, Header, Peer, Verdict};
use crate::loan::{Loan, Memory};

/// Longest payload of a record, in bytes. A record is copied once more on its way than what is read in place, so longer
/// ones gain little; shorter ones cost more calls a byte.
pub const RECORD_BYTES: usize = 64 << 10;
/// Longest private data of a request or its answer, in bytes.
pub const PRIVATE_BYTES: usize = 128;
/// Most records that one poll hands over from one connection.
pub const RECORDS_PER_POLL: usize = 32;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarrierKind {
    /// A record of the layer above.
    Record,
    /// The last one: its sender goes on by datagrams.
    End,
    /// A datagram, on a connection that carries these.
    Datagram,
    /// The peer wants to read memory that was lent to it. Never handed over.
    Read,
    /// A piece of such memory. Never handed over.
    Bulk,
    /// The peer has read memory that was lent to it, by itself. Never handed over.
    Done,
}

/// A request to connect that has not been answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(pub u64);

/// What happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants to connect: accept or reject.
    Requested(RequestId, Vec<u8>),
    /// The system of the peer has accepted; the peer itself has to. Not told by every carrier:
    /// [`Carrier::SEES_REACH`].
    Reached(ConnectionId),
    /// Long packets to this address get lost, short ones do not.
    Narrow(String),
    /// It can be sent on; with what the accepting side sent (nothing for who accepted).
    Established(ConnectionId, Vec<u8>),
    /// It was refused, closed by the peer, or broke.
    Closed(ConnectionId, String),
}

/// Who takes frames from a carrier. `Left` as in [`crate::link::Sink`], for one connection.
pub trait Frames {
    /// A frame. The payload is valid only during the call.
    fn arrived(
        &mut self,
        connection: ConnectionId,
        kind: CarrierKind,
        header: Header,
        payload: &[u8],
    ) -> Verdict;

    /// Who is at the other end of a connection, if that is known: what is lent to it, it may read.
    fn peer(&self, _connection: ConnectionId) -> Option<Peer> {
        None
    }
}

impl<F: FnMut(ConnectionId, CarrierKind, Header, &[u8]) -> Verdict> Frames for F {
    #[inline]
    fn arrived(
        &mut self,
        connection: ConnectionId,
        kind: CarrierKind,
        header: Header,
        payload: &[u8],
    ) -> Verdict {
        self(connection, kind, header, payload)
    }
}

/// Carries frames over connections. Nothing blocks.
pub trait Carrier {
    /// Whether [`Event::Reached`] is told.
    const SEES_REACH: bool;

    /// Where this process listens, for [`Carrier::connect`] of others.
    fn listen_address(&self) -> &[u8];

    /// This process was made from a checkpoint: where it listens has another address.
    fn moved(&mut self) {}

    /// Asks for a connection; an event answers.
    fn connect(&mut self, connection: ConnectionId, address: &[u8], private_data: &[u8]);

    /// As [`Carrier::connect`], by packets that pass every path, if the network lets the carrier choose.
    fn connect_narrow(&mut self, connection: ConnectionId, address: &[u8], private_data: &[u8]) {
        self.connect(connection, address, private_data);
    }

    /// Long packets get lost on the way to some host: connects like that from now on.
    fn narrow(&mut self) {}

    /// Accepts a request; an event tells when the connection is there.
    fn accept(&mut self, request: RequestId, connection: ConnectionId, private_data: &[u8]);

    /// Refuses a request.
    fn reject(&mut self, request: RequestId);

    /// Closes a connection when all sends on it are complete. Its name may be used again at once; it is not reported any more.
    fn disconnect(&mut self, connection: ConnectionId);

    /// Whether a frame with `bytes` of payload finds room.
    fn has_room(&self, connection: ConnectionId, bytes: usize) -> bool;

    /// Sends a frame whose payload `fill` writes.
    ///
    /// # Errors
    /// [`Full`] when there is no room; `fill` was not called.
    fn send(
        &mut self,
        connection: ConnectionId,
        kind: CarrierKind,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full>;

    /// See [`crate::Link::lend`].
    fn lend(&mut self, _to: Peer, _memory: Memory) -> Option<Loan> {
        None
    }

    /// See [`crate::Link::withdraw`].
    fn withdraw(&mut self, _loan: Loan) {}

    /// See [`crate::Link::returned`].
    fn returned(&mut self) -> Option<Loan> {
        None
    }

    /// See [`crate::Link::read`]. A connection on which a read is under way does not take an end mark.
    fn read(
        &mut self,
        _connection: ConnectionId,
        _loan: Loan,
        _memory: Memory,
        _bytes: u64,
        _token: u64,
    ) -> bool {
        false
    }

    /// See [`crate::Link::completed`].
    fn completed(&mut self) -> Option<u64> {
        None
    }

    /// Moves everything forward, and hands over what has arrived on established connections. True if anything was taken.
    fn poll(&mut self, frames: &mut impl Frames) -> bool;

    /// As [`Carrier::poll`], for one connection.
    fn poll_one(&mut self, connection: ConnectionId, frames: &mut impl Frames) -> bool;

    /// Looks for requests, answers and broken connections, which [`Carrier::poll`] need not do.
    fn control(&mut self);

    /// Whether connections are being opened, so that [`Carrier::control`] should be called often.
    fn is_opening(&self) -> bool;

    /// The next of what [`Carrier::control`] and polls have found.
    fn event(&mut self) -> Option<Event>;

    /// Whether a poll would find something that was not left before. May ask the system.
    fn pending(&self) -> bool;

    /// Whether everything sent is out of this process's hands, and every disconnected connection closed.
    fn is_flushed(&self) -> bool;

    /// Adds the descriptors to sleep on; false if there is something to do first.
    fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> bool;

    /// After what time at the latest [`Carrier::control`] has to be called, if at all.
    fn rest(&self) -> Option<Duration> {
        None
    }

    /// Bytes of memory it uses for connections.
    fn memory_bytes(&self) -> usize;

    /// How often memory was registered, and how often a registration was used again.
    fn registrations(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Requests that were dropped because they were malformed or came too often.
    fn foreign(&self) -> u64;
}

/// Where a connection stands in a table: names are small numbers.
#[inline]
pub fn place_of(connection: ConnectionId) -> usize {
    connection.0 as usize
}
