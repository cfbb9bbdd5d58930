//! Trait of the carriers of connections: the sockets of the kernel, or a provider of libfabric.
//!
//! A carrier moves framed records over connections. The owner (`adaptive`) decides about them, and the
//! carrier reports their events. A carrier authenticates nobody: the private data of both sides are proofs
//! that its owner checks.

use std::os::fd::RawFd;
use std::time::Duration;

use crate::adaptive::ConnectionId;
use crate::link::{Full, Header, Peer, Verdict};
use crate::loan::{Loan, Memory};

/// Longest payload of a record, in bytes. A record is copied once more on its way than what is read in place,
/// so longer ones gain little; shorter ones cost more calls a byte.
pub const RECORD_BYTES: usize = 64 << 10;
/// Longest private data of a request or its answer, in bytes.
pub const PRIVATE_BYTES: usize = 128;
/// Highest number of records that one poll delivers from one connection.
pub const RECORDS_PER_POLL: usize = 32;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarrierKind {
    /// Record of the layer above.
    Record,
    /// Last frame: its sender continues by datagrams.
    End,
    /// Datagram, on a connection that carries these.
    Datagram,
    /// Request of the peer to read memory that was lent to it. Never delivered.
    Read,
    /// Piece of such memory. Never delivered.
    Bulk,
    /// Report that the peer itself has read memory that was lent to it. Never delivered.
    Done,
}

/// A request to connect that has not been answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(pub u64);

/// Event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process requests a connection with this private data: accept or reject it.
    Requested(RequestId, Vec<u8>),
    /// The system of the peer has accepted; the peer itself has not yet. Reported only if
    /// [`Carrier::SEES_REACH`].
    Reached(ConnectionId),
    /// Long packets to this address get lost, short ones arrive.
    Narrow(String),
    /// The connection is ready to send. The bytes are the private data of the accepting side (empty at that
    /// side).
    Established(ConnectionId, Vec<u8>),
    /// The connection was refused, closed by the peer, or broke, for this reason.
    Closed(ConnectionId, String),
}

/// Receiver of frames from a carrier. `Left` has the meaning of [`crate::link::Sink`], for one connection.
pub trait Frames {
    /// Takes a frame. The payload is valid only during the call.
    fn arrived(
        &mut self,
        connection: ConnectionId,
        kind: CarrierKind,
        header: Header,
        payload: &[u8],
    ) -> Verdict;

    /// Returns the process at the other end of a connection, if known: it may read the memory lent to it.
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
    /// True if [`Event::Reached`] is reported.
    const SEES_REACH: bool;

    /// Returns the address at which this process listens, for [`Carrier::connect`] of others.
    fn listen_address(&self) -> &[u8];

    /// Notes that this process was restored from a checkpoint, and that its listening address has changed.
    fn moved(&mut self) {}

    /// Requests a connection; an event reports the result.
    fn connect(&mut self, connection: ConnectionId, address: &[u8], private_data: &[u8]);

    /// Requests a connection like [`Carrier::connect`], with packets that are small enough for every path, if
    /// the network lets the carrier choose.
    fn connect_narrow(&mut self, connection: ConnectionId, address: &[u8], private_data: &[u8]) {
        self.connect(connection, address, private_data);
    }

    /// Notes that long packets to some host get lost. Later connections use small packets.
    fn narrow(&mut self) {}

    /// Accepts a request; an event reports when the connection is established.
    fn accept(&mut self, request: RequestId, connection: ConnectionId, private_data: &[u8]);

    /// Rejects a connection request.
    fn reject(&mut self, request: RequestId);

    /// Closes a connection when all sends on it are complete. Its name may be used again at once, and no
    /// event of it is reported any more.
    fn disconnect(&mut self, connection: ConnectionId);

    /// Returns true if there is room for a frame with `bytes` of payload.
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

    /// Lends memory to a peer: see [`crate::Link::lend`].
    fn lend(&mut self, _to: Peer, _memory: Memory) -> Option<Loan> {
        None
    }

    /// Ends a loan early: see [`crate::Link::withdraw`].
    fn withdraw(&mut self, _loan: Loan) {}

    /// Returns the next finished loan: see [`crate::Link::returned`].
    fn returned(&mut self) -> Option<Loan> {
        None
    }

    /// Starts to read a loan: see [`crate::Link::read`]. A connection on which a read is under way does not
    /// take an end mark.
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

    /// Returns the token of a completed read: see [`crate::Link::completed`].
    fn completed(&mut self) -> Option<u64> {
        None
    }

    /// Makes progress on everything and delivers frames that have arrived on established connections. Returns
    /// true if any was taken.
    fn poll(&mut self, frames: &mut impl Frames) -> bool;

    /// Polls one connection like [`Carrier::poll`].
    fn poll_one(&mut self, connection: ConnectionId, frames: &mut impl Frames) -> bool;

    /// Checks for requests, answers and broken connections, which [`Carrier::poll`] need not do.
    fn control(&mut self);

    /// Returns true while connections are being opened, so that [`Carrier::control`] should be called often.
    fn is_opening(&self) -> bool;

    /// Returns the next event that [`Carrier::control`] and polls have found.
    fn event(&mut self) -> Option<Event>;

    /// Returns true if a poll would find something that was not left before. The descriptors of
    /// [`Carrier::before_sleep`] are not asked.
    fn pending(&self) -> bool;

    /// Returns true if all sends have left this process and every disconnected connection is closed.
    fn is_flushed(&self) -> bool;

    /// Adds the descriptors to sleep on; false if there is something to do first.
    fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> bool;

    /// Returns true if [`Carrier::control`] may have something to do after a sleep at whose end the
    /// descriptors `ready` were ready.
    fn is_ready(&self, _ready: &[RawFd]) -> bool {
        true
    }

    /// Returns the time after which [`Carrier::control`] has to be called at the latest, if at all.
    fn rest(&self) -> Option<Duration> {
        None
    }

    /// Returns the memory used for connections, in bytes.
    fn memory_bytes(&self) -> usize;

    /// Returns the number of registrations of memory, and the number of reused registrations.
    fn registrations(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Returns the number of requests dropped because they were malformed or came too often.
    fn foreign(&self) -> u64;
}

/// Returns the index of a connection in a table: names are small numbers.
#[inline]
pub fn place_of(connection: ConnectionId) -> usize {
    connection.0 as usize
}
