//! Partitioned communication (MPI-5 chapter 4): the protocol.
//!
//! Each side opens one end of a channel when its request is created. The sender's announcement is matched
//! like a message, on a separate plane of the context. So channels are connected in the order of their
//! creation. Each start of the receive opens the channel for one transfer. From then on, ready partitions are
//! stored directly in the receiver's buffer, in any order. No data are ever kept for a receive that has not
//! started. Pieces carry their offset in the message in bytes, so the partitions of the two sides are
//! independent.
//!
//! | packet | when |
//! |---|---|
//! | Announce | MPI_Psend_init |
//! | Open | MPI_Start of the receive, or the match if that comes later |
//! | Piece | MPI_Pready, at most one fragment; adjacent ready partitions are sent together |
//! | Withdrawn | reply to Open if the send request was freed; the receive is matched again |

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use tutti_base::{Error, ErrorClass, Result};
use tutti_transport::{Link, Peer};

use super::outgoing::Piece;
use super::status::{status_of, truncated};
use super::{Body, Message, PointToPoint, Small, State, Stream};
use crate::buffer::Buffer;
use crate::matching::{Envelope, Pattern};
use crate::request::{RequestId, Status, Work};
use crate::wire::{Packet, RendezvousRequest, Signature};

/// Largest piece in bytes that a process copies to itself at once.
const LOCAL_BYTES: usize = 8 << 10;

/// Message of several partitions of equal size.
#[derive(Clone, Debug)]
pub struct Partitions {
    /// Buffer of the complete message.
    pub buffer: Buffer,
    /// Number of partitions of the message.
    pub count: usize,
    /// Packed bytes of each partition.
    pub bytes: u64,
}

/// Ends of channels in this process, by their requests.
#[derive(Debug, Default)]
pub struct Channels {
    sending: HashMap<RequestId, Sending>,
    receiving: HashMap<RequestId, Receiving>,
}

/// Sender's end of a channel.
#[derive(Debug)]
struct Sending {
    partitions: Partitions,
    /// Receiver; None for MPI_PROC_NULL.
    peer: Option<Peer>,
    /// Request at the other end, once the receiver has opened the channel.
    receiver: Option<RequestId>,
    /// True while the receiver waits for data of an unfinished transfer.
    open: bool,
    ready: Vec<bool>,
    /// Number of partitions that are not ready.
    unready: usize,
    /// Ranges of bytes that are ready and not sent.
    queue: VecDeque<Range<u64>>,
    /// True while a stream to the peer takes from the queue.
    streaming: bool,
}

/// Receiver's end of a channel.
#[derive(Debug)]
struct Receiving {
    partitions: Partitions,
    /// Pattern of the sender's announcement; None for MPI_PROC_NULL.
    pattern: Option<Pattern>,
    signature: Signature,
    joined: Option<Joined>,
    active: bool,
    /// Number of bytes that each partition still misses.
    missing: Vec<u64>,
    arrived: u64,
}

/// Announcement of a sender, matched by a receive.
#[derive(Clone, Copy, Debug)]
struct Joined {
    from: Peer,
    sender: RequestId,
    bytes: u64,
    signature: Signature,
}

/// Side whose action a partitioned message awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionWait {
    /// Calls of MPI_Pready by the process itself.
    Own,
    /// The process at the other end.
    Peer(Peer),
    /// A sender with this pattern, which has not made its request yet.
    Sender(Pattern),
}

impl State {
    /// Returns the side whose action the message of a request awaits; None if its data are under way.
    pub fn partition_wait(&self, id: RequestId) -> Option<PartitionWait> {
        if let Some(sending) = self.channels.sending.get(&id) {
            return match sending.peer {
                _ if sending.unready > 0 => Some(PartitionWait::Own),
                Some(peer) if !sending.open => Some(PartitionWait::Peer(peer)),
                _ => None,
            };
        }
        let receiving = self.channels.receiving.get(&id)?;
        match receiving.joined {
            Some(joined) => Some(PartitionWait::Peer(joined.from)),
            None => receiving.pattern.map(PartitionWait::Sender),
        }
    }
}

impl Partitions {
    fn total(&self) -> u64 {
        self.bytes * self.count as u64
    }

    /// Checks that a partition with this number exists.
    fn check(&self, partition: usize) -> Result<()> {
        if partition < self.count {
            return Ok(());
        }
        let reason = format!("argument partition is {partition}; the request has {} partitions", self.count);
        Err(Error::new(ErrorClass::Arg, reason))
    }
}

impl<L: Link> PointToPoint<L> {
    /// Opens the sender's end of a channel for a persistent request and announces it. `peer` is None for
    /// MPI_PROC_NULL.
    pub fn announce(
        &mut self,
        id: RequestId,
        partitions: Partitions,
        peer: Option<Peer>,
        envelope: Envelope,
        signature: Signature,
    ) {
        let bytes = partitions.total();
        let sending = Sending {
            ready: vec![false; partitions.count],
            unready: partitions.count,
            partitions,
            peer,
            receiver: None,
            open: false,
            queue: VecDeque::new(),
            streaming: false,
        };
        self.state.channels.sending.insert(id, sending);
        match peer {
            None => {}
            Some(peer) if peer == self.state.me => {
                self.state.announced(peer, envelope, RendezvousRequest::of_length(bytes), signature, id);
            }
            Some(peer) => {
                let packet = Packet::Announce { envelope, signature, sender: id };
                self.state.outbox.push_back((
                    peer,
                    Small { packet, body: Body::RendezvousRequest(RendezvousRequest::of_length(bytes)) },
                ));
                self.flush();
            }
        }
    }

    /// Opens the receiver's end of a channel for a persistent request. `pattern` is None for MPI_PROC_NULL.
    pub fn expect(
        &mut self,
        id: RequestId,
        partitions: Partitions,
        pattern: Option<Pattern>,
        signature: Signature,
    ) {
        let missing = vec![partitions.bytes; partitions.count];
        let receiving =
            Receiving { partitions, pattern, signature, joined: None, active: false, missing, arrived: 0 };
        self.state.channels.receiving.insert(id, receiving);
        self.state.look_for_sender(id);
    }

    /// Starts a transfer on either side (MPI_Start).
    pub fn start_partitioned(&mut self, id: RequestId) {
        self.state.start_partitioned(id);
        self.flush();
    }

    /// Marks partitions as ready to be sent (MPI_Pready).
    ///
    /// # Errors
    /// `Arg` for a partition that does not exist or is ready already. `Request` if the request is not an
    /// active partitioned send. After an error no partition of the call is marked.
    pub fn ready(&mut self, id: RequestId, partitions: impl Iterator<Item = usize> + Clone) -> Result<()> {
        self.state.ready(id, partitions)?;
        self.flush();
        Ok(())
    }
}

impl State {
    fn start_partitioned(&mut self, id: RequestId) {
        if let Some(sending) = self.channels.sending.get_mut(&id) {
            sending.ready.fill(false);
            sending.unready = sending.partitions.count;
            self.note_work(id, true);
            if self.channels.sending[&id].unready == 0 {
                self.all_ready(id);
            }
            return;
        }
        let Some(receiving) = self.channels.receiving.get_mut(&id) else { return };
        receiving.missing.fill(receiving.partitions.bytes);
        receiving.arrived = 0;
        receiving.active = true;
        if receiving.pattern.is_none() {
            return self.transfer_received(id, Status::PROC_NULL);
        }
        self.note_work(id, false);
        self.open(id);
    }

    /// Records the operation in the request, for diagnosis.
    fn note_work(&mut self, id: RequestId, sends: bool) {
        let peer = match sends {
            true => self.channels.sending.get(&id).and_then(|sending| sending.peer).map(|peer| peer.0),
            false => None,
        };
        if let Some(request) = self.requests.get_mut(id) {
            request.work = Work::Partitioned { sends, peer };
        }
    }

    fn ready(&mut self, id: RequestId, partitions: impl Iterator<Item = usize> + Clone) -> Result<()> {
        let active = self.requests.user(id)?.persistent.as_ref().is_some_and(|persistent| persistent.active);
        let Some(sending) = self.channels.sending.get_mut(&id) else {
            return Err(Error::new(ErrorClass::Request, "argument request is not a partitioned send"));
        };
        if !active {
            return Err(Error::new(
                ErrorClass::Request,
                "argument request is not active; call MPI_Start first",
            ));
        }
        for partition in partitions.clone() {
            sending.partitions.check(partition)?;
            if sending.ready[partition] {
                let reason = format!("argument partition: partition {partition} was marked ready before");
                return Err(Error::new(ErrorClass::Arg, reason));
            }
        }
        for partition in partitions {
            sending.mark(partition);
        }
        if sending.unready == 0 {
            self.all_ready(id);
        } else {
            self.pump(id);
        }
        Ok(())
    }

    /// Handles the case that the last partition has become ready.
    fn all_ready(&mut self, id: RequestId) {
        let Some(sending) = self.channels.sending.get_mut(&id) else { return };
        if sending.peer.is_none() {
            sending.queue.clear();
            return self.sent(id);
        }
        if sending.partitions.total() == 0 {
            // An empty message still needs a packet, so that the receiver completes.
            sending.queue.push_back(0..0);
        }
        self.pump(id);
    }

    /// Starts to send the queue of a channel if the receiver waits for it.
    fn pump(&mut self, id: RequestId) {
        let Some(sending) = self.channels.sending.get_mut(&id) else { return };
        let (Some(peer), Some(receiver)) = (sending.peer, sending.receiver) else { return };
        if !sending.open || sending.queue.is_empty() || sending.streaming {
            return;
        }
        if peer == self.me {
            return self.pump_locally(id, receiver);
        }
        sending.streaming = true;
        self.peers.get(peer).streams.push_back(Stream::Partitions { sender: id });
        self.list(peer);
    }

    fn pump_locally(&mut self, id: RequestId, receiver: RequestId) {
        let mut piece = [0u8; LOCAL_BYTES];
        while let Some(sending) = self.channels.sending.get_mut(&id) {
            let Some(range) = sending.next_piece(LOCAL_BYTES) else { break };
            let take = (range.end - range.start) as usize;
            sending.partitions.buffer.pack(range.start, &mut piece[..take]);
            let last = sending.took(range.end);
            self.piece(self.me, receiver, range.start, &piece[..take]);
            if last {
                self.sent(id);
            }
        }
    }

    /// Completes a send all of whose data are in the transport.
    fn sent(&mut self, id: RequestId) {
        if let Some(sending) = self.channels.sending.get_mut(&id) {
            sending.open = false;
        }
        self.requests.complete_as_is(id);
        self.forget_channel_if_freed(id);
    }

    /// Completes a transfer at the receiver.
    fn transfer_received(&mut self, id: RequestId, status: Status) {
        if let Some(receiving) = self.channels.receiving.get_mut(&id) {
            receiving.active = false;
        }
        if let Some(request) = self.requests.get_mut(id) {
            request.status = status;
        }
        self.requests.complete_as_is(id);
        self.forget_channel_if_freed(id);
    }

    fn forget_channel_if_freed(&mut self, id: RequestId) {
        if self.requests.get(id).is_none() {
            self.forget_channel(id);
        }
    }

    /// Forgets the channel of a request that was freed.
    pub fn forget_channel(&mut self, id: RequestId) {
        self.channels.sending.remove(&id);
        if let Some(Receiving { pattern: Some(pattern), joined: None, .. }) =
            self.channels.receiving.remove(&id)
        {
            self.matcher.cancel(pattern, &id);
        }
    }

    /// Returns true if a partition has arrived (MPI_Parrived). Partitions of an inactive request count as
    /// arrived.
    ///
    /// # Errors
    /// `Request` if the request is not a partitioned receive, `Arg` for a partition that does not exist.
    pub fn has_arrived(&mut self, id: RequestId, partition: usize) -> Result<bool> {
        let active = self.requests.user(id)?.persistent.as_ref().is_some_and(|persistent| persistent.active);
        let Some(receiving) = self.channels.receiving.get(&id) else {
            return Err(Error::new(ErrorClass::Request, "argument request is not a partitioned receive"));
        };
        receiving.partitions.check(partition)?;
        let whole = receiving.partitions.bytes > 0 && receiving.missing[partition] == 0;
        Ok(!active || !receiving.active || whole)
    }

    /// Handles a sender's announcement of a channel.
    pub(super) fn announced(
        &mut self,
        from: Peer,
        envelope: Envelope,
        offer: RendezvousRequest,
        signature: Signature,
        sender: RequestId,
    ) {
        let joined = Joined { from, sender, bytes: offer.bytes, signature };
        match self.matcher.arrive(envelope) {
            Some(receive) => self.join(receive, joined),
            None => self.push_unexpected(envelope, Message::Announced { from, offer, signature, sender }),
        }
    }

    /// Connects a receive with the first announcement that matches, or waits for one.
    fn look_for_sender(&mut self, id: RequestId) {
        let Some(pattern) = self.channels.receiving.get(&id).and_then(|receiving| receiving.pattern) else {
            return;
        };
        match self.matcher.take(pattern) {
            Some((_, Message::Announced { from, offer, signature, sender })) => {
                self.join(id, Joined { from, sender, bytes: offer.bytes, signature });
            }
            Some(_) => self.fail("a message that is not in partitions arrived among those that are"),
            None => self.matcher.post(pattern, id),
        }
    }

    fn join(&mut self, receive: RequestId, joined: Joined) {
        if let Some(receiving) = self.channels.receiving.get_mut(&receive) {
            receiving.joined = Some(joined);
            self.open(receive);
        }
    }

    /// Informs the sender that a receive has started, if both ends are known.
    fn open(&mut self, id: RequestId) {
        let Some(receiving) = self.channels.receiving.get(&id).filter(|receiving| receiving.active) else {
            return;
        };
        let Some(Joined { from, sender, .. }) = receiving.joined else { return };
        if from == self.me {
            self.opened(from, sender, id);
        } else {
            self.answer(from, Packet::Open { sender, receiver: id });
        }
    }

    /// Handles the report that the receiver waits for data.
    pub(super) fn opened(&mut self, from: Peer, sender: RequestId, receiver: RequestId) {
        match self.channels.sending.get_mut(&sender).filter(|sending| sending.peer == Some(from)) {
            Some(sending) => {
                sending.receiver = Some(receiver);
                sending.open = true;
                self.pump(sender);
            }
            None if from == self.me => self.withdrawn(receiver),
            None => self.answer(from, Packet::Withdrawn { receiver }),
        }
    }

    /// Handles the report that the send of a channel no longer exists.
    pub(super) fn withdrawn(&mut self, receiver: RequestId) {
        if let Some(receiving) = self.channels.receiving.get_mut(&receiver) {
            receiving.joined = None;
            self.look_for_sender(receiver);
        }
    }

    /// Handles a piece of a message.
    pub(super) fn piece(&mut self, from: Peer, receiver: RequestId, offset: u64, payload: &[u8]) {
        let receiving = self.channels.receiving.get_mut(&receiver).filter(|receiving| receiving.active);
        let Some((receiving, joined)) = receiving.and_then(|end| end.joined.map(|joined| (end, joined)))
        else {
            return self.fail("part of a message arrived for a partitioned receive that is not active");
        };
        if joined.from != from {
            return self.fail("part of a message arrived from a process that does not send it");
        }
        receiving.partitions.buffer.unpack(offset, payload);
        receiving.note(offset, payload.len() as u64);
        self.requests.news = true;
        if receiving.arrived >= joined.bytes {
            let (status, error) = receiving.outcome(joined);
            if let Some(request) = self.requests.get_mut(receiver) {
                request.error = error;
            }
            self.transfer_received(receiver, status);
        }
    }
}

impl<L: Link> PointToPoint<L> {
    /// Passes the next piece of a channel to the transport.
    pub(super) fn put_partitions(&mut self, peer: Peer, sender: RequestId) -> Piece {
        let fragment = self.state.limits.fragment_bytes;
        let Some(sending) = self.state.channels.sending.get_mut(&sender) else { return Piece::Last };
        let (Some(range), Some(receiver)) = (sending.next_piece(fragment), sending.receiver) else {
            sending.streaming = false;
            return Piece::Last;
        };
        let take = (range.end - range.start) as usize;
        let header = Packet::Piece { receiver, offset: range.start }.encode();
        let buffer = &sending.partitions.buffer;
        let put = match buffer.run() {
            Some(run) => self.link.try_send(peer, header, &run[range.start as usize..][..take]),
            None => self.link.try_send_with(peer, header, take, |out| {
                buffer.pack(range.start, out);
            }),
        };
        if put.is_err() {
            return Piece::Full;
        }
        let last = sending.took(range.end);
        sending.streaming = !sending.queue.is_empty();
        let more = sending.streaming;
        if last {
            self.state.sent(sender);
        }
        if more { Piece::More } else { Piece::Last }
    }
}

impl Sending {
    /// Marks a partition as ready. Its range joins that of the partition before it if that still waits.
    fn mark(&mut self, partition: usize) {
        self.ready[partition] = true;
        self.unready -= 1;
        let start = partition as u64 * self.partitions.bytes;
        let end = start + self.partitions.bytes;
        match self.queue.back_mut().filter(|range| range.end == start) {
            _ if start == end => {}
            Some(before) => before.end = end,
            None => self.queue.push_back(start..end),
        }
    }

    /// Returns the next range to send, of at most `limit` bytes.
    fn next_piece(&self, limit: usize) -> Option<Range<u64>> {
        let front = self.queue.front()?;
        Some(front.start..front.end.min(front.start + limit as u64))
    }

    /// Removes the first range up to `end` from the queue. Returns true if the transfer is complete.
    fn took(&mut self, end: u64) -> bool {
        if let Some(front) = self.queue.front_mut() {
            front.start = end;
            if front.start >= front.end {
                self.queue.pop_front();
            }
        }
        self.unready == 0 && self.queue.is_empty()
    }
}

impl Receiving {
    /// Counts bytes of the message for the partitions that contain them.
    fn note(&mut self, offset: u64, bytes: u64) {
        self.arrived += bytes;
        let size = self.partitions.bytes;
        let end = (offset + bytes).min(self.partitions.total());
        let mut position = offset;
        while position < end {
            let partition = position / size;
            let next = ((partition + 1) * size).min(end);
            let missing = &mut self.missing[partition as usize];
            *missing = missing.saturating_sub(next - position);
            position = next;
        }
    }

    /// Returns the status and the error of a completed receive.
    fn outcome(&self, joined: Joined) -> (Status, Option<Error>) {
        let pattern = self.pattern.expect("only receives from a process are joined");
        let (source, tag) = (pattern.source.unwrap_or_default(), pattern.tag.unwrap_or_default());
        let envelope = Envelope { context: pattern.context, source, tag };
        let capacity = self.partitions.total();
        let error = if joined.bytes > capacity {
            Some(truncated(envelope, joined.bytes, capacity))
        } else if joined.bytes == capacity
            && joined.signature != 0
            && self.signature != 0
            && joined.signature != self.signature
        {
            let reason = "the datatype of the partitioned send is not that of the receive";
            Some(Error::new(ErrorClass::Type, reason))
        } else {
            None
        };
        (status_of(envelope, joined.bytes.min(capacity)), error)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Process, config, is_complete, pattern_bytes, processes, settle};
    use super::*;
    use crate::request::{Persistent, Request, Template};

    const ENVELOPE: Envelope = Envelope { context: 3, source: 0, tag: 5 };
    const PATTERN: Pattern = Pattern { context: 3, source: Some(0), tag: Some(5) };

    fn request(at: &mut Process) -> RequestId {
        let persistent =
            Some(Box::new(Persistent { active: false, template: Template::Partitioned, keeps: None }));
        at.state.insert(Request { persistent, ..Request::completed(Status::EMPTY, 0) })
    }

    fn start(at: &mut Process, id: RequestId) {
        let request = at.state.requests.get_mut(id).unwrap();
        request.persistent.as_mut().unwrap().active = true;
        request.complete = false;
        at.start_partitioned(id);
    }

    fn finish(at: &mut Process, id: RequestId) {
        assert!(is_complete(at, id));
        at.state.requests.get_mut(id).unwrap().persistent.as_mut().unwrap().active = false;
    }

    fn partitions(buffer: &Buffer, count: usize) -> Partitions {
        Partitions { buffer: buffer.clone(), count, bytes: buffer.bytes() / count as u64 }
    }

    /// Sends `bytes` bytes from rank 0 to rank `to` three times, with `parts.0` partitions at the sender and
    /// `parts.1` at the receiver.
    fn check(bytes: usize, parts: (usize, usize), to: usize, receive_first: bool) {
        let mut all = processes(2, &config());
        let source = Buffer::owned(pattern_bytes(1, bytes));
        let target = Buffer::owned(vec![0; bytes]);
        let (sender, receiver) = (request(&mut all[0]), request(&mut all[to]));
        let peer = Some(Peer(to as u32));
        all[0].announce(sender, partitions(&source, parts.0), peer, ENVELOPE, 0);
        all[to].expect(receiver, partitions(&target, parts.1), Some(PATTERN), 0);
        for round in 0..3 {
            target.unpack(0, &vec![0; bytes]);
            if receive_first {
                start(&mut all[to], receiver);
            }
            start(&mut all[0], sender);
            let order = (0..parts.0).map(|part| (part * 7 + round) % parts.0);
            for part in order.clone() {
                all[0].ready(sender, std::iter::once(part)).unwrap();
            }
            settle(&mut all);
            if !receive_first {
                assert!(!is_complete(&all[0], sender), "sent before the receive began");
                start(&mut all[to], receiver);
                settle(&mut all);
            }
            finish(&mut all[0], sender);
            assert!((0..parts.1).all(|part| all[to].state.has_arrived(receiver, part).unwrap()));
            finish(&mut all[to], receiver);
            assert_eq!(target.to_vec(), source.to_vec());
        }
    }

    #[test]
    fn partitions_of_the_two_sides_may_differ() {
        for to in [0, 1] {
            for receive_first in [false, true] {
                check(600, (10, 1), to, receive_first);
                check(600, (1, 10), to, receive_first);
                check(600, (8, 5), to, receive_first);
                check(70_000, (8, 1), to, receive_first);
                check(0, (3, 2), to, receive_first);
            }
        }
    }

    #[test]
    fn a_partition_arrives_before_the_others_are_ready() {
        let mut all = processes(2, &config());
        let (source, target) = (Buffer::owned(pattern_bytes(1, 400)), Buffer::owned(vec![0; 400]));
        let (sender, receiver) = (request(&mut all[0]), request(&mut all[1]));
        all[1].expect(receiver, partitions(&target, 2), Some(PATTERN), 0);
        all[0].announce(sender, partitions(&source, 4), Some(Peer(1)), ENVELOPE, 0);
        assert!(all[1].state.has_arrived(receiver, 1).unwrap(), "not active");
        start(&mut all[0], sender);
        start(&mut all[1], receiver);
        let ready = |all: &mut [Process], part: usize, arrived: [bool; 2]| {
            all[0].ready(sender, std::iter::once(part)).unwrap();
            settle(all);
            let seen = [0, 1].map(|part| all[1].state.has_arrived(receiver, part).unwrap());
            assert_eq!(seen, arrived, "after partition {part}");
        };
        ready(&mut all, 2, [false, false]);
        ready(&mut all, 3, [false, true]);
        ready(&mut all, 0, [false, true]);
        assert!(all[0].ready(sender, [1, 1, 4].into_iter()).is_err());
        assert!(all[0].ready(sender, std::iter::once(2)).is_err(), "ready before");
        assert!(all[1].ready(receiver, std::iter::once(0)).is_err(), "a receive");
        assert!(all[0].state.has_arrived(sender, 0).is_err(), "a send");
    }

    #[test]
    fn a_freed_send_gives_way_to_the_next() {
        let mut all = processes(2, &config());
        let (source, target) = (Buffer::owned(pattern_bytes(1, 40)), Buffer::owned(vec![0; 40]));
        let first = request(&mut all[0]);
        all[0].announce(first, partitions(&source, 1), Some(Peer(1)), ENVELOPE, 0);
        all[0].state.requests.remove(first);
        all[0].state.forget_channel(first);
        let (sender, receiver) = (request(&mut all[0]), request(&mut all[1]));
        all[1].expect(receiver, partitions(&target, 1), Some(PATTERN), 0);
        settle(&mut all);
        start(&mut all[1], receiver);
        settle(&mut all);
        all[0].announce(sender, partitions(&source, 1), Some(Peer(1)), ENVELOPE, 0);
        start(&mut all[0], sender);
        all[0].ready(sender, std::iter::once(0)).unwrap();
        settle(&mut all);
        finish(&mut all[1], receiver);
        assert_eq!(target.to_vec(), source.to_vec());
    }

    #[test]
    fn a_message_that_does_not_fit_is_an_error() {
        let mut all = processes(2, &config());
        let (source, target) = (Buffer::owned(pattern_bytes(1, 400)), Buffer::owned(vec![0; 300]));
        let (sender, receiver) = (request(&mut all[0]), request(&mut all[1]));
        all[0].announce(sender, partitions(&source, 4), Some(Peer(1)), ENVELOPE, 0);
        all[1].expect(receiver, partitions(&target, 3), Some(PATTERN), 0);
        start(&mut all[0], sender);
        start(&mut all[1], receiver);
        all[0].ready(sender, 0..4).unwrap();
        settle(&mut all);
        finish(&mut all[0], sender);
        let error = all[1].state.requests.get(receiver).unwrap().error.clone();
        assert_eq!(error.map(|error| error.class), Some(ErrorClass::Truncate));
    }
}
