//! The one trait of every node-local transport, and the types it uses.

use crate::loan::{Loan, Memory};

/// A process of this node by its local rank: `0..local_ranks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u32);

/// Header that travels before every payload. Opaque to a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header(pub [u64; 3]);

/// Lowest byte of the first word in records that the link itself sends. Records of its owner do not have it.
pub const LINK_KIND: u64 = 0xfe;
/// Bit of the first word that forbids the owner to leave the record, whatever room it takes. Records that are
/// sent do not have it.
pub const KEEP: u64 = 1 << 15;

/// Error: the link has no room for this record now. Poll, then try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Outcome of the delivery of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Record consumed: its room may be used again.
    Taken,
    /// Record refused for now. It stays first in line, and so does everything behind it, until a later poll
    /// takes it.
    Left,
}

/// Receiver of arriving records.
pub trait Sink {
    /// Takes a record from `from`. `payload` lies in the link's own memory and is valid only during the call:
    /// copy it to where it belongs.
    fn arrived(&mut self, from: Peer, header: Header, payload: &[u8]) -> Verdict;
}

impl<F: FnMut(Peer, Header, &[u8]) -> Verdict> Sink for F {
    #[inline]
    fn arrived(&mut self, from: Peer, header: Header, payload: &[u8]) -> Verdict {
        self(from, header, payload)
    }
}

/// Carries records between this process and its peers: reliable, ordered for each pair, never blocking.
///
/// A process is not its own peer. Every call returns in bounded time; a poll hands over a bounded
/// number of records.
pub trait Link {
    /// Returns the longest payload of one record, in bytes.
    fn max_payload(&self) -> usize;

    /// Sends a record of `bytes` that `fill` writes straight into the link's memory, which holds
    /// arbitrary bytes before. Wakes the peer if it sleeps.
    ///
    /// # Errors
    /// [`Full`] when there is no room, or it is not known yet where the peer is: what was taken leaves this
    /// process even if it does not poll again. `fill` was not called.
    ///
    /// # Panics
    /// If there is no such peer or `bytes` exceeds [`Link::max_payload`]: a bug of the caller.
    fn try_send_with(
        &mut self,
        to: Peer,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full>;

    /// Sends a record. See [`Link::try_send_with`].
    ///
    /// # Errors
    /// [`Full`] when there is no room.
    #[inline]
    fn try_send(&mut self, to: Peer, header: Header, payload: &[u8]) -> Result<(), Full> {
        self.try_send_with(to, header, payload.len(), |room| room.copy_from_slice(payload))
    }

    /// Returns true if there is room for a record of `bytes` to `to`.
    fn has_room(&self, to: Peer, bytes: usize) -> bool;

    /// Returns the result of [`Link::has_room`]. If there is no room, also requests that the peer rings this
    /// process's doorbell when it makes some. For the last look before parking.
    fn want_room(&mut self, to: Peer, bytes: usize) -> bool;

    /// Sends a record once for all of `to` (S8), written by `fill`. Those that it does not go to are added to
    /// `rest`: they have to be sent to one by one. What a link sends to one peer by both ways keeps its
    /// order.
    ///
    /// # Errors
    /// [`Full`] when there is no room now, or it is not known yet who hears; `fill` was not called and `rest`
    /// is as it was.
    fn multicast(
        &mut self,
        to: &[Peer],
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
        rest: &mut Vec<Peer>,
    ) -> Result<(), Full> {
        let _ = (header, bytes, fill);
        rest.extend_from_slice(to);
        Ok(())
    }

    /// Returns a record of a multicast that has to be sent to one peer by itself: in this order, before
    /// anything else.
    fn handed_back(&mut self) -> Option<(Peer, Header, Vec<u8>)> {
        None
    }

    /// Returns true if records to `to` go over a connection between hosts, where one of [`Link::max_payload`]
    /// is as good as many short ones.
    fn is_connected(&self, _to: Peer) -> bool {
        false
    }

    /// Hands what has arrived to `sink`, from every peer. True if anything was taken.
    fn poll(&mut self, sink: &mut impl Sink) -> bool;

    /// Hands what has arrived from `from` to `sink`. True if anything was taken.
    fn poll_peer(&mut self, from: Peer, sink: &mut impl Sink) -> bool;

    /// Returns whether a record has come from `from` that its owner has not left; `None` if memory does not
    /// show that.
    fn has_come(&self, _from: Peer) -> Option<bool> {
        None
    }

    /// Returns true if a poll would find something other than records that were [`Verdict::Left`]: those wait
    /// for an act of their owner, not for the link. Descriptors that a sleeper watches
    /// ([`crate::FarLink::before_sleep`]) are not asked: they end its sleep at once.
    fn pending(&self) -> bool;

    /// Returns true if a poll would do nothing. False where a look at memory cannot tell.
    #[inline]
    fn is_quiet(&self) -> bool {
        false
    }

    /// Lends `memory` to `to`, which may read it once: what to tell it. `None`: it could not read it.
    /// [`Link::returned`] tells when the link has done with the memory.
    fn lend(&mut self, _to: Peer, _memory: Memory) -> Option<Loan> {
        None
    }

    /// Ends a loan that nobody will read.
    fn withdraw(&mut self, _loan: Loan) {}

    /// Returns a loan that has ended by being read: its memory may be written again. Polls find them.
    fn returned(&mut self) -> Option<Loan> {
        None
    }

    /// Begins to read the first `bytes` of what `from` has lent into `memory`; [`Link::completed`] tells
    /// `token` when all of it is there, which may be in any order with records. `token` is that of no other
    /// read. False: it cannot be read, now.
    fn read(&mut self, _from: Peer, _loan: Loan, _memory: Memory, _bytes: u64, _token: u64) -> bool {
        false
    }

    /// Returns the token of a completed read. Polls complete them.
    fn completed(&mut self) -> Option<u64> {
        None
    }

    /// Returns the reason why the job cannot go on, if any: a peer that can no longer be reached, and the
    /// cause.
    #[inline]
    fn failure(&mut self) -> Option<(Peer, String)> {
        None
    }
}
