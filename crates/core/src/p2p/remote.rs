//! Long messages that their receiver reads. Between hosts, the link moves them from buffer to buffer without
//! a copy. Within a host, the receiver copies them out of mapped memory.
//!
//! The sender exposes its buffer with the offer, if the link accepts it. The receiver decides between a read
//! and a stream. A buffer of many short pieces is streamed, as a copy costs less than the kernel's work for
//! each piece.

use std::collections::VecDeque;
use std::sync::Arc;

use tutti_transport::exposure::{LentMessage, Record};
use tutti_transport::{Link, Loan, Peer};

use super::{PointToPoint, State};
use crate::buffer::Buffer;
use crate::matching::Numbered;
use crate::request::{RequestId, Work};
use crate::wire::{Packet, RendezvousRequest};

/// Receive that a read will complete.
#[derive(Debug)]
struct Wanted {
    receive: RequestId,
    from: Peer,
    sender: RequestId,
    loan: Loan,
    buffer: Buffer,
    bytes: u64,
}

/// Exposed sends and active reads of this process.
#[derive(Debug)]
pub(super) struct Remote {
    at_least_bytes: u64,
    /// Exposures to the link by send, and the sends by exposure.
    lent: Numbered<RequestId, Loan>,
    lenders: Numbered<Loan, RequestId>,
    /// Exposures to receivers of the same host, by send.
    near: Numbered<RequestId, LentMessage>,
    /// Exposures whose messages were transferred in another way.
    unread: Vec<Loan>,
    wanted: VecDeque<Wanted>,
    /// Receives with an active read, and the peer whose memory they read.
    reading: Numbered<RequestId, Peer>,
}

impl Remote {
    /// Returns an empty state for messages of at least `at_least_bytes` bytes.
    pub(super) fn new(at_least_bytes: u64) -> Remote {
        Remote {
            at_least_bytes,
            lent: Numbered::default(),
            lenders: Numbered::default(),
            near: Numbered::default(),
            unread: Vec::new(),
            wanted: VecDeque::new(),
            reading: Numbered::default(),
        }
    }

    /// Returns true if there is neither work nor an active transfer.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        !self.is_ready() && self.reading.is_empty() && self.lent.is_empty()
    }

    /// Returns true if there is work that needs no waiting.
    pub(super) fn is_ready(&self) -> bool {
        !self.unread.is_empty() || !self.wanted.is_empty()
    }

    /// Returns the peers whose memory is being read.
    pub(super) fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.wanted.iter().map(|wanted| &wanted.from).chain(self.reading.values())
    }

    /// Returns the record of an exposure to receivers of the same host, for the offer of a message.
    pub(super) fn near(&self, sender: RequestId) -> Option<Box<Record>> {
        self.near.get(&sender).map(|lent| Box::new(lent.record))
    }

    /// Notes that the receiver has read the message of `sender`, whose buffer is still exposed.
    pub(super) fn was_read(&self, sender: RequestId) {
        if let Some(lent) = self.near.get(&sender) {
            lent.was_read();
        }
    }

    /// Ends the exposure of a send whose message was transferred in another way or has arrived.
    pub(super) fn give_back(&mut self, sender: RequestId) {
        self.near.remove(&sender);
        if let Some(loan) = self.lent.remove(&sender) {
            self.lenders.remove(&loan);
            self.unread.push(loan);
        }
    }

    /// Returns true if a read is worthwhile: the message is long, and its buffer has few pieces.
    fn pays(&self, buffer: &Buffer, bytes: u64) -> bool {
        bytes >= self.at_least_bytes && buffer.is_coarse()
    }
}

impl State {
    /// Plans a read of an offered message. Returns false if it must be transferred in another way.
    pub(super) fn plan_read(
        &mut self,
        receive: RequestId,
        from: Peer,
        sender: RequestId,
        offer: &RendezvousRequest,
        buffer: &Buffer,
    ) -> bool {
        let bytes = offer.bytes.min(buffer.bytes());
        let Some(loan) = offer.loan.filter(|_| self.remote.pays(buffer, bytes)) else { return false };
        let buffer = buffer.clone();
        self.remote.wanted.push_back(Wanted { receive, from, sender, loan, buffer, bytes });
        true
    }
}

impl<L: Link> PointToPoint<L> {
    /// Notes that the buffer of a send that is about to start is exposed to its receiver.
    pub fn lend_near(&mut self, id: RequestId, lent: LentMessage) {
        self.state.remote.near.insert(id, lent);
    }

    /// Exposes the buffer of a send, if that pays and the link accepts it.
    pub(super) fn lend(&mut self, id: RequestId, peer: Peer) -> Option<Loan> {
        let Some(Work::Send { buffer, .. }) = self.state.requests.get(id).map(|request| &request.work) else {
            return None;
        };
        if !self.state.remote.pays(buffer, buffer.bytes()) {
            return None;
        }
        let loan = self.link.lend(peer, Arc::new(buffer.clone()))?;
        self.state.remote.lent.insert(id, loan);
        self.state.remote.lenders.insert(loan, id);
        Some(loan)
    }

    /// Starts planned reads, completes finished ones, and ends exposures. Returns true if anything happened.
    pub(super) fn read_remote(&mut self) -> bool {
        let mut any = false;
        while let Some(wanted) = self.state.remote.wanted.pop_front() {
            let Wanted { receive, from, sender, loan, buffer, bytes } = wanted;
            any = true;
            if self.link.read(from, loan, Arc::new(buffer), bytes, receive.to_bits()) {
                self.state.remote.reading.insert(receive, from);
            } else {
                self.state.answer(from, Packet::ClearToSend { sender, receiver: receive });
            }
        }
        while let Some(token) = self.link.completed() {
            any = true;
            let receive = RequestId::from_bits(token);
            if self.state.remote.reading.remove(&receive).is_some() {
                self.state.requests.complete_as_is(receive);
            }
        }
        while let Some(loan) = self.link.returned() {
            any = true;
            if let Some(sender) = self.state.remote.lenders.remove(&loan) {
                self.state.remote.lent.remove(&sender);
                self.state.requests.complete(sender, None);
            }
        }
        for loan in self.state.remote.unread.drain(..) {
            self.link.withdraw(loan);
        }
        any
    }
}
