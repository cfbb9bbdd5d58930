//! Long messages that their receiver reads: between hosts the link moves them between the two buffers without a copy, within
//! one the receiver copies them out of mapped memory.
//!
//! The sender lends its buffer with the offer, where the link takes it; the receiver decides whether it reads or asks for
//! the stream. A buffer of many short pieces is streamed: a copy costs less than the kernel's look at each of them.

use std::collections::VecDeque;
use std::sync::Arc;

use tutti_transport::exposure::{LentMessage, Record};
use tutti_transport::{Link, Loan, Peer};

use super::{PointToPoint, State};
use crate::buffer::Buffer;
use crate::matching::Numbered;
use crate::request::{RequestId, Work};
use crate::wire::{Packet, RendezvousRequest};

/// A receive that is to be completed by a read.
#[derive(Debug)]
struct Wanted {
    receive: RequestId,
    from: Peer,
    sender: RequestId,
    loan: Loan,
    buffer: Buffer,
    bytes: u64,
}

/// What is lent and read.
#[derive(Debug)]
pub(super) struct Remote {
    at_least_bytes: u64,
    /// By the send, and the other way round.
    lent: Numbered<RequestId, Loan>,
    lenders: Numbered<Loan, RequestId>,
    /// What is lent to receivers of the same host, by the send.
    near: Numbered<RequestId, LentMessage>,
    /// Loans whose messages went another way.
    unread: Vec<Loan>,
    wanted: VecDeque<Wanted>,
    /// Receives under way, and whose memory they read.
    reading: Numbered<RequestId, Peer>,
}

impl Remote {
    /// For messages from that length on.
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

    /// Whether nothing has to be done or waited for.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        !self.is_ready() && self.reading.is_empty() && self.lent.is_empty()
    }

    /// Whether something can be done without waiting.
    pub(super) fn is_ready(&self) -> bool {
        !self.unread.is_empty() || !self.wanted.is_empty()
    }

    /// The peers whose memory is read.
    pub(super) fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.wanted.iter().map(|wanted| &wanted.from).chain(self.reading.values())
    }

    /// What the offer of a message says of memory that is lent to a receiver of the same host.
    pub(super) fn near(&self, sender: RequestId) -> Option<Box<Record>> {
        self.near.get(&sender).map(|lent| Box::new(lent.record))
    }

    /// The receiver has read the message of `sender`, whose buffer is still lent.
    pub(super) fn was_read(&self, sender: RequestId) {
        if let Some(lent) = self.near.get(&sender) {
            lent.was_read();
        }
    }

    /// The message of `sender` went another way, or is there.
    pub(super) fn give_back(&mut self, sender: RequestId) {
        self.near.remove(&sender);
        if let Some(loan) = self.lent.remove(&sender) {
            self.lenders.remove(&loan);
            self.unread.push(loan);
        }
    }

    fn pays(&self, buffer: &Buffer, bytes: u64) -> bool {
        bytes >= self.at_least_bytes && buffer.is_coarse()
    }
}

impl State {
    /// Plans a read of an offered message; false if it has to come another way.
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
    /// The buffer of a send that is about to start is lent to its receiver.
    pub fn lend_near(&mut self, id: RequestId, lent: LentMessage) {
        self.state.remote.near.insert(id, lent);
    }

    /// Lends the buffer of a send, if that is worth while and the link takes it.
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

    /// Begins the reads that are planned, ends those that are complete, and takes back what was lent.
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
