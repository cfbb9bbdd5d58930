//! The sender's half of the protocols.

use tutti_base::WorldRank;
use tutti_base::traffic::TRAFFIC;
use tutti_data::copy;
use tutti_sys::clock;
use tutti_transport::locality::PeerStores;
use tutti_transport::{Link, Peer};

use super::withheld::Waiting;
use super::{
    Body, Limits, Message, Mode, PeerState, PointToPoint, Queued, SendSpec, Small, State, Stream, is_counted,
};
use crate::buffer::ByteRun;
use crate::flow::{ENVELOPE_BYTES, eager_cost};
use crate::matching::Envelope;
use crate::request::{Request, RequestId, Status, Work};
use crate::wire::{Packet, RendezvousRequest, Signature};

/// Copies contiguous memory into the space of a record.
#[inline(always)]
fn fill(stores: &mut PeerStores, run: ByteRun, out: &mut [u8]) {
    stores.fill(out, |out| run.pack(out), |out| run.stream(out));
}

impl<L: Link> PointToPoint<L> {
    /// Sends a standard message at once, if a copy into the transport suffices. Returns false if it does not.
    #[inline]
    pub fn send_now(&mut self, spec: &SendSpec) -> bool {
        let fill = |stores: &mut PeerStores, out: &mut [u8]| match spec.buffer.user_run() {
            Some(run) => fill(stores, run, out),
            None => drop(spec.buffer.pack(0, out)),
        };
        let SendSpec { peer, envelope, signature, .. } = *spec;
        spec.mode == Mode::Standard && self.send_eager(peer, envelope, signature, spec.buffer.bytes(), fill)
    }

    /// Sends contiguous memory in standard mode at once, if a copy into the transport suffices. Returns false
    /// if it does not.
    #[inline]
    pub fn send_run(&mut self, peer: WorldRank, envelope: Envelope, run: ByteRun) -> bool {
        self.send_eager(peer, envelope, 0, run.bytes(), |stores, out| fill(stores, run, out))
    }

    /// Sends an eager message at once. Returns false if it is too long or there is no room for it.
    #[inline]
    fn send_eager(
        &mut self,
        peer: WorldRank,
        envelope: Envelope,
        signature: Signature,
        bytes: u64,
        fill: impl FnOnce(&mut PeerStores, &mut [u8]),
    ) -> bool {
        let peer = Peer(peer.0);
        if peer == self.state.me || !self.is_short(peer, bytes) {
            return false;
        }
        let towards = self.state.peers.get(peer);
        if !towards.backlog.is_empty() || !towards.send_window.admit(eager_cost(bytes)) {
            return false;
        }
        let packet = Packet::Eager { envelope, signature, sync: None };
        let stores = &mut towards.stores;
        let fill = |out: &mut [u8]| fill(stores, out);
        let sent = self.link.try_send_with(peer, packet.encode(), bytes as usize, fill).is_ok();
        if !sent {
            towards.send_window.give_back(eager_cost(bytes));
        }
        if towards.stores.is_due() {
            self.state.watched = Self::watch_of(&self.link, peer);
        }
        sent
    }

    /// Returns true if a message is sent without a request of its receiver.
    #[inline]
    fn is_short(&self, peer: Peer, bytes: u64) -> bool {
        let Limits { eager_bytes, connected_eager_bytes, .. } = self.state.limits;
        bytes <= eager_bytes || bytes <= connected_eager_bytes && self.link.is_connected(peer)
    }

    /// Starts a send for a request that exists (new or persistent): at once if that is possible.
    pub fn start_send(&mut self, id: RequestId, spec: SendSpec) {
        if self.send_now(&spec) {
            self.state.requests.complete(id, None);
        } else {
            self.start_refused(id, spec);
        }
    }

    /// Starts a send that could not be done at once, for a request that exists.
    pub fn start_refused(&mut self, id: RequestId, spec: SendSpec) {
        let SendSpec { envelope, signature, .. } = spec;
        let (peer, bytes) = (Peer(spec.peer.0), spec.buffer.bytes());
        let work = Work::Send { peer: peer.0, tag: envelope.tag, buffer: spec.buffer, sent: 0 };
        if let Some(request) = self.state.requests.get_mut(id) {
            request.work = work;
        }
        let sync = spec.mode == Mode::Synchronous;
        if peer == self.state.me {
            self.state.send_to_self(id, envelope, bytes, signature, sync);
        } else {
            let message = Waiting { id, envelope, signature, sync, bytes };
            match self.departure(peer, &message) {
                Some(queued) => self.state.peers.get(peer).backlog.push_back(queued),
                None => self.state.withhold(peer, message),
            }
            self.state.list(peer);
        }
        self.flush();
    }

    /// Returns the packet to send for a message now: the message itself or an offer. Returns None if the
    /// receiver has no room for either.
    pub(super) fn departure(&mut self, peer: Peer, message: &Waiting) -> Option<Queued> {
        let Waiting { id, envelope, signature, sync, bytes } = *message;
        let is_short = self.is_short(peer, bytes);
        let towards = self.state.peers.get(peer);
        if is_short && towards.send_window.admit(eager_cost(bytes)) {
            self.state.remote.give_back(id);
            let sync = sync.then_some(id);
            return Some(Queued::Eager(Packet::Eager { envelope, signature, sync }, id));
        }
        if is_counted(envelope.context) && !towards.send_window.admit(ENVELOPE_BYTES) {
            return None;
        }
        towards.offered = Some(id);
        if is_short {
            self.state.ask_for_room(peer);
        }
        let address = self.state.requests.get(id).map_or(0, sender_address);
        let (loan, near) = (self.lend(id, peer), self.state.remote.near(id));
        let body = Body::RendezvousRequest(RendezvousRequest { bytes, address, loan, near });
        Some(Queued::Small(Small {
            packet: Packet::RendezvousRequest { envelope, signature, sender: id },
            body,
        }))
    }

    /// Queues a packet that is no reply. The next [`PointToPoint::flush_answers`] sends it.
    #[cold]
    pub fn tell(&mut self, to: WorldRank, packet: Packet) {
        self.state.answer(Peer(to.0), packet);
    }

    /// Passes queued packets to the transport, as far as it accepts them now.
    #[cold]
    pub fn flush_answers(&mut self) {
        self.flush();
    }

    /// Sends queued replies. Then sends the backlog of each busy peer in order, and pieces of its streams in
    /// turn. Returns true if anything happened.
    #[inline]
    pub(super) fn flush(&mut self) -> bool {
        !self.is_idle() && self.flush_busy()
    }

    /// Sends queued packets and pieces of streams, as far as there is room.
    fn flush_busy(&mut self) -> bool {
        let mut any = !self.state.remote.is_idle() && self.read_remote();
        while let Some((peer, small)) = self.state.outbox.pop_front() {
            self.state.peers.get(peer).backlog.push_back(Queued::Small(small));
            self.state.list(peer);
        }
        let mut position = 0;
        while let Some(&peer) = self.state.busy.get(position) {
            if self.state.peers.get(peer).withheld.is_some() {
                self.release(peer);
            }
            any |= self.drain_backlog(peer);
            any |= self.pump_streams(peer);
            let towards = self.state.peers.get(peer);
            if towards.backlog.is_empty() && towards.streams.is_empty() {
                towards.listed = false;
                self.state.busy.swap_remove(position);
            } else {
                position += 1;
            }
        }
        any
    }

    /// Sends the backlog of a peer in order, as far as there is room.
    fn drain_backlog(&mut self, peer: Peer) -> bool {
        let mut any = false;
        while let Some(queued) = self.state.peers.get(peer).backlog.pop_front() {
            if !self.put_queued(peer, &queued) {
                self.state.peers.get(peer).backlog.push_front(queued);
                break;
            }
            any = true;
        }
        any
    }

    /// Passes a queued packet to the transport. Returns false if there is no room.
    fn put_queued(&mut self, peer: Peer, queued: &Queued) -> bool {
        let (packet, id) = match queued {
            Queued::Small(Small { packet, body }) => {
                return body.encoded(|payload| self.link.try_send(peer, packet.encode(), payload).is_ok());
            }
            Queued::Eager(packet, id) => (*packet, *id),
        };
        let Some(Request { work: Work::Send { buffer, .. }, .. }) = self.state.requests.get(id) else {
            return true;
        };
        let bytes = buffer.bytes() as usize;
        let sent = match buffer.run() {
            Some(run) => self.link.try_send(peer, packet.encode(), run),
            None => self.link.try_send_with(peer, packet.encode(), bytes, |out| {
                buffer.pack(0, out);
            }),
        };
        if sent.is_ok() && matches!(packet, Packet::Eager { sync: None, .. }) {
            self.state.requests.complete(id, None);
        }
        sent.is_ok()
    }

    /// Sends one piece of each stream in turn, until the transport is full or the streams are complete.
    fn pump_streams(&mut self, peer: Peer) -> bool {
        let mut any = false;
        while let Some(stream) = self.state.peers.get(peer).streams.pop_front() {
            let piece = match stream {
                Stream::Message { sender, receiver } => self.put_piece(peer, sender, receiver),
                Stream::Partitions { sender } => self.put_partitions(peer, sender),
            };
            match piece {
                Piece::Full => {
                    self.state.peers.get(peer).streams.push_front(stream);
                    return any;
                }
                Piece::More => self.state.peers.get(peer).streams.push_back(stream),
                Piece::Last => {}
            }
            any = true;
        }
        any
    }

    /// Passes the next piece of a message to the transport.
    fn put_piece(&mut self, peer: Peer, sender: RequestId, receiver: RequestId) -> Piece {
        let fragment = self.state.limits.fragment_bytes;
        let Some(request) = self.state.requests.get_mut(sender) else { return Piece::Last };
        let Work::Send { buffer, sent, .. } = &mut request.work else { return Piece::Last };
        let take = fragment.min((buffer.bytes() - *sent) as usize);
        let header = Packet::Data { receiver }.encode();
        let PeerState { stores, ways, .. } = self.state.peers.get(peer);
        let put = match buffer.run() {
            Some(run) => {
                let piece = &run[*sent as usize..][..take];
                self.link.try_send_with(peer, header, take, |out| {
                    let begun = clock::ticks();
                    stores.fill(
                        out,
                        |out| out.copy_from_slice(piece),
                        |out| copy::fill_streaming(out, piece),
                    );
                    let ticks = clock::ticks().wrapping_sub(begun);
                    ways.get_or_insert_default().filled(run.len() as u64, take, ticks);
                })
            }
            None => self.link.try_send_with(peer, header, take, |out| {
                buffer.pack(*sent, out);
            }),
        };
        if put.is_err() {
            return Piece::Full;
        }
        if stores.is_due() {
            self.state.watched = Self::watch_of(&self.link, peer);
        }
        *sent += take as u64;
        if *sent < buffer.bytes() {
            return Piece::More;
        }
        self.state.remote.give_back(sender);
        self.state.requests.complete(sender, None);
        Piece::Last
    }
}

/// Outcome of sending the next piece of a stream.
pub(super) enum Piece {
    Full,
    More,
    Last,
}

impl State {
    /// Adds a peer to the list of busy peers.
    pub(super) fn list(&mut self, peer: Peer) {
        let towards = self.peers.get(peer);
        if !towards.listed {
            towards.listed = true;
            self.busy.push(peer);
        }
    }

    /// Queues a small packet behind all earlier packets to a peer.
    pub(super) fn queue(&mut self, peer: Peer, small: Small) {
        self.peers.get(peer).backlog.push_back(Queued::Small(small));
        self.list(peer);
    }

    /// Delivers a message of this process to itself, or keeps it as unexpected.
    fn send_to_self(&mut self, id: RequestId, envelope: Envelope, bytes: u64, signature: u16, sync: bool) {
        TRAFFIC.own.add(bytes);
        if let Some(receive) = self.matcher.arrive(envelope) {
            self.deliver_local(receive, envelope, id);
            return;
        }
        let me = self.me;
        let short = !sync
            && bytes <= self.limits.eager_bytes
            && self.peers.get(me).send_window.admit(eager_cost(bytes));
        if !short {
            self.push_unexpected(envelope, Message::Local { sender: id });
            return;
        }
        let Some(Request { work: Work::Send { buffer, .. }, .. }) = self.requests.get(id) else { return };
        let mut payload = vec![0; bytes as usize].into_boxed_slice();
        buffer.pack(0, &mut payload);
        self.push_unexpected(envelope, Message::Eager { from: me, payload, signature, sync: None });
        self.requests.complete(id, None);
    }

    /// Handles a peer's request for the data of an offer.
    pub(super) fn clear_to_send(&mut self, from: Peer, sender: RequestId, receiver: RequestId) {
        match self.requests.get(sender).map(|request| &request.work) {
            Some(Work::Send { peer, .. }) if *peer == from.0 => {
                self.claim_accepted(from, sender);
                self.peers.get(from).streams.push_back(Stream::Message { sender, receiver });
                self.list(from);
            }
            _ => self.fail("a peer asked for a message that was not offered to it"),
        }
    }

    /// Handles a peer's report that it needs nothing more of a message.
    pub(super) fn done(&mut self, from: Peer, sender: RequestId) {
        match self.requests.get(sender) {
            Some(Request { work: Work::Send { peer, .. }, detached, .. }) if *peer == from.0 => {
                // After the request was freed, the program may know in another way that its buffer is free
                // again.
                if !detached {
                    self.remote.was_read(sender);
                }
                self.claim_accepted(from, sender);
                self.remote.give_back(sender);
                self.requests.complete(sender, None);
            }
            _ => self.fail("a peer confirmed a message that was not sent to it"),
        }
    }

    /// Adds a request that is complete at once: to or from `MPI_PROC_NULL`.
    pub fn completed(&mut self, status: Status, context: u32) -> RequestId {
        self.requests.insert(Request::completed(status, context))
    }
}

/// Returns the length of the message of a send in bytes.
pub(super) fn payload_bytes(request: &Request) -> usize {
    match &request.work {
        Work::Send { buffer, .. } => buffer.bytes() as usize,
        _ => 0,
    }
}

/// Returns the address of a contiguous send buffer, or 0.
pub(super) fn sender_address(request: &Request) -> u64 {
    match &request.work {
        Work::Send { buffer, .. } => buffer.address(),
        _ => 0,
    }
}
