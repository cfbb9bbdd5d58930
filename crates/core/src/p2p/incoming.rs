//! The receiver's half of the protocols.

use tutti_base::{Error, ErrorClass, Result};
use tutti_sys::clock;
use tutti_transport::link::KEEP;
use tutti_transport::{Header, Link, Peer, Sink, Verdict};

use super::multicast;
use super::path_choice::Reading;
use super::status::{status_of, truncated};
use super::withheld::Asked;
use super::{Check, Message, PointToPoint, ReceiveSpec, Small, State, agreement, is_counted};
use crate::buffer::{Buffer, signature};
use crate::flow::{ENVELOPE_BYTES, eager_cost};
use crate::matching::{Envelope, Pattern};
use crate::request::{Request, RequestId, Status, Work};
use crate::trace;
use crate::wire::{Claim, Packet, RendezvousRequest, Signature};

/// Envelope, length and signature of a message that a receive gets.
pub(super) struct Arrival {
    pub envelope: Envelope,
    pub bytes: u64,
    pub signature: Signature,
}

impl<L: Link> PointToPoint<L> {
    /// Starts a receive for a request that exists.
    pub fn start_receive(&mut self, id: RequestId, spec: ReceiveSpec) {
        let pattern = spec.pattern;
        if let Some(request) = self.state.requests.get_mut(id) {
            request.work = spec.into_work();
        }
        self.match_receive(id, pattern);
    }

    /// Starts a receive with a new request.
    #[inline]
    pub fn start_new_receive(&mut self, spec: ReceiveSpec, context: u32) -> RequestId {
        let pattern = spec.pattern;
        let id = self.state.requests.insert(Request::new(spec.into_work(), context));
        self.match_receive(id, pattern);
        id
    }

    /// Delivers the first unexpected message that matches the receive, or posts the receive.
    #[inline(always)]
    fn match_receive(&mut self, id: RequestId, pattern: Pattern) {
        match self.state.matcher.take(pattern) {
            Some((envelope, message)) => {
                self.state.deliver(id, envelope, message);
                self.flush();
            }
            None => {
                self.state.matcher.post(pattern, id);
                if !self.state.pulling.is_idle() {
                    self.state.pull(pattern, id);
                    self.flush();
                }
            }
        }
    }

    /// Returns the status of the message that a receive of this pattern would get (MPI_Iprobe), here or at a
    /// peer that withholds messages.
    #[inline]
    pub fn probe(&mut self, pattern: Pattern) -> Option<Status> {
        let found = self.state.peek(pattern);
        if found.is_some() || self.state.pulling.is_idle() {
            return found;
        }
        let found = self.state.look_at_withheld(pattern);
        self.flush();
        found
    }

    /// Takes the message that a receive of this pattern would get (MPI_Improbe). Returns it with its status.
    pub fn matched_probe(&mut self, pattern: Pattern) -> Option<(Status, (Envelope, Message))> {
        let mut found = self.state.take(pattern);
        if found.is_none() && !self.state.pulling.is_idle() {
            found = self.state.take_withheld(pattern);
            self.flush();
        }
        let (envelope, message) = found?;
        Some((status_of(envelope, self.state.bytes_of(&message)), (envelope, message)))
    }

    /// Starts a receive of a message that a matched probe took (MPI-5 section 3.8.2).
    pub fn start_receive_message(
        &mut self,
        id: RequestId,
        spec: ReceiveSpec,
        envelope: Envelope,
        message: Message,
    ) {
        if let Some(request) = self.state.requests.get_mut(id) {
            request.work = spec.into_work();
        }
        self.state.deliver(id, envelope, message);
        self.flush();
    }
}

impl ReceiveSpec {
    /// Returns the work of a request that has received nothing yet.
    #[inline(always)]
    fn into_work(self) -> Work {
        let ReceiveSpec { buffer, pattern, check, .. } = self;
        Work::Receive { pattern, buffer, check, arrived: 0, expected: 0 }
    }
}

impl Sink for State {
    #[inline]
    fn arrived(&mut self, from: Peer, header: Header, payload: &[u8]) -> Verdict {
        if let Some((envelope, signature)) = Packet::decode_eager(header) {
            self.eager(from, envelope, signature, None, payload);
            return Verdict::Taken;
        }
        match Packet::decode(header) {
            Ok(Packet::Eager { envelope, signature, sync }) => {
                self.eager(from, envelope, signature, sync, payload);
            }
            Ok(Packet::Multicast { envelope, signature }) => {
                return self.multicast(from, envelope, signature, payload, header.0[0] & KEEP != 0);
            }
            Ok(Packet::Data { receiver }) => self.data(from, receiver, payload),
            Ok(Packet::RendezvousRequest { envelope, signature, sender }) => {
                self.with(RendezvousRequest::decode(payload), |it, offer| {
                    it.offered(from, envelope, offer, signature, sender);
                });
            }
            Ok(Packet::ClearToSend { sender, receiver }) => self.clear_to_send(from, sender, receiver),
            Ok(Packet::Done { sender }) => self.done(from, sender),
            Ok(Packet::Cancel { sender }) => self.asked_back(from, sender),
            Ok(Packet::Cancelled { sender }) => self.cancelled(from, sender),
            Ok(Packet::Credit { bytes }) => self.credited(from, bytes),
            Ok(Packet::Piece { receiver, offset }) => self.piece(from, receiver, offset, payload),
            Ok(Packet::Announce { envelope, signature, sender }) => {
                self.with(RendezvousRequest::decode(payload), |it, offer| {
                    it.announced(from, envelope, offer, signature, sender);
                });
            }
            Ok(Packet::Open { sender, receiver }) => self.opened(from, sender, receiver),
            Ok(Packet::Withdrawn { receiver }) => self.withdrawn(receiver),
            Ok(Packet::Refused { envelope, class }) => {
                let class = ErrorClass::from_code(class.into()).unwrap_or(ErrorClass::Other);
                self.refused(envelope, class);
            }
            Ok(Packet::Get { receiver }) => self.asked_to_get(from, payload, receiver),
            Ok(Packet::Put { sender }) => self.offered_for(from, payload, sender),
            Ok(Packet::Missing { request }) => self.is_missing(request),
            Ok(Packet::Inquiry { envelope, signature }) => self.asked(from, envelope, signature),
            Ok(Packet::Dissent { envelope, signature }) => {
                self.failed_operations.answered(envelope, signature);
                self.requests.news = true;
            }
            Ok(Packet::Presence) => self.asked_for_presence(from),
            Ok(Packet::Absent) => self.is_told_absent(from),
            Ok(rare) => self.arrived_for_want_of_room(from, rare, payload),
            Err(error) => self.fault = Some(error),
        }
        Verdict::Taken
    }
}

impl State {
    /// Handles packets of the protocol for withheld messages.
    #[cold]
    fn arrived_for_want_of_room(&mut self, from: Peer, packet: Packet, payload: &[u8]) {
        match packet {
            Packet::Withheld { envelope } => self.withheld_by(from, envelope),
            Packet::Resumed { envelope } => self.resumed(from, envelope),
            Packet::Starved => self.starved(from),
            Packet::Wants { context, source, tag, by } => {
                self.asked_for(from, Asked { context, source, tag, by });
            }
            Packet::Claim { envelope, signature, sender } => {
                self.with(Claim::decode(payload), |it, claim| {
                    it.claimed(from, envelope, signature, sender, claim);
                });
            }
            Packet::Accepted { sender } => self.claim_accepted(from, sender),
            Packet::Declined { sender } => self.claim_declined(from, sender),
            Packet::Seen { envelope } => {
                self.with(Claim::decode(payload), |it, claim| it.seen(from, envelope, claim));
            }
            Packet::Unseen { .. } => self.unseen(from),
            _ => self.fail("a packet was taken for one about room"),
        }
    }

    /// Passes a decoded payload to `work`, or notes the error of decoding it.
    fn with<T>(&mut self, decoded: tutti_base::Result<T>, work: impl FnOnce(&mut State, T)) {
        match decoded {
            Ok(value) => work(self, value),
            Err(error) => self.fault = Some(error),
        }
    }
}

impl State {
    /// Returns the status of the unexpected message that a receive of this pattern would get.
    pub fn peek(&self, pattern: Pattern) -> Option<Status> {
        let (envelope, message) = self.matcher.peek(pattern)?;
        Some(status_of(envelope, self.bytes_of(message)))
    }

    /// Returns the length of a message in bytes.
    pub(super) fn bytes_of(&self, message: &Message) -> u64 {
        match message {
            Message::Eager { payload, .. } | Message::Multicast { payload, .. } => payload.len() as u64,
            Message::RendezvousRequest { offer, .. } | Message::Announced { offer, .. } => offer.bytes,
            Message::Local { sender } => self.requests.get(*sender).map_or(0, sent_bytes),
        }
    }

    /// Takes the unexpected message that a receive of this pattern would get.
    pub fn take(&mut self, pattern: Pattern) -> Option<(Envelope, Message)> {
        self.matcher.take(pattern)
    }

    /// Cancels a receive that is not matched yet. A matched receive is not changed (MPI-5 section 3.8.4).
    pub fn cancel(&mut self, id: RequestId) {
        let Some(Request { work: Work::Receive { pattern, .. }, .. }) = self.requests.get(id) else { return };
        if self.matcher.cancel(*pattern, &id) {
            if let Some(request) = self.requests.get_mut(id) {
                request.status = Status { cancelled: true, ..Status::EMPTY };
            }
            self.requests.complete(id, None);
        }
    }

    /// Frees the queues of a freed context if they are empty.
    pub fn forget(&mut self, plane: u32) {
        self.matcher.forget(plane);
    }

    /// Returns true if receives or messages wait in a context (with plane).
    pub fn has_waiting(&self, plane: u32) -> bool {
        !self.matcher.is_idle(plane)
    }

    /// Handles an arrived eager message: delivers it to its receive, or keeps it.
    #[inline]
    fn eager(
        &mut self,
        from: Peer,
        envelope: Envelope,
        signature: Signature,
        sync: Option<RequestId>,
        payload: &[u8],
    ) {
        match self.matcher.arrive(envelope) {
            Some(receive) => {
                self.deliver_eager(receive, from, envelope, signature, payload);
                self.eager_done(from, payload.len(), sync);
            }
            None => self
                .push_unexpected(envelope, Message::Eager { from, payload: payload.into(), signature, sync }),
        }
    }

    /// Handles an arrived offer: accepts it for its receive, or keeps it.
    fn offered(
        &mut self,
        from: Peer,
        envelope: Envelope,
        offer: RendezvousRequest,
        signature: Signature,
        sender: RequestId,
    ) {
        match self.matcher.arrive(envelope) {
            Some(receive) => {
                self.accept(receive, from, envelope, offer, signature, sender);
                if is_counted(envelope.context) {
                    self.consumed(from, ENVELOPE_BYTES);
                }
            }
            None => {
                let is_counted = is_counted(envelope.context);
                self.push_unexpected(
                    envelope,
                    Message::RendezvousRequest { from, offer, signature, sender, is_counted },
                );
            }
        }
    }

    /// Counts a message that has left the unexpected queue or never entered it, and sends credit if enough is
    /// due.
    #[inline]
    pub(super) fn consumed(&mut self, from: Peer, bytes: u64) {
        if let Some(bytes) = self.peers.get(from).receive_window.consume(bytes, &mut self.reserve) {
            self.answer(from, Packet::Credit { bytes });
        }
    }

    /// Delivers an unexpected message to a receive.
    fn deliver(&mut self, receive: RequestId, envelope: Envelope, message: Message) {
        match message {
            Message::Eager { from, payload, signature, sync } => {
                self.deliver_eager(receive, from, envelope, signature, &payload);
                self.eager_done(from, payload.len(), sync);
            }
            Message::Multicast { from, payload, signature } => {
                self.multicast_bytes -= multicast::cost(&payload);
                self.deliver_eager(receive, from, envelope, signature, &payload);
            }
            Message::RendezvousRequest { from, offer, signature, sender, is_counted } => {
                self.accept(receive, from, envelope, offer, signature, sender);
                if is_counted {
                    self.consumed(from, ENVELOPE_BYTES);
                }
            }
            Message::Local { sender } => self.deliver_local(receive, envelope, sender),
            Message::Announced { .. } => {
                self.fail("a message in partitions arrived among those that are not")
            }
        }
    }

    /// Copies an eager message to the buffer of its receive and completes the receive.
    #[inline]
    pub(super) fn deliver_eager(
        &mut self,
        receive: RequestId,
        from: Peer,
        envelope: Envelope,
        signature: Signature,
        payload: &[u8],
    ) {
        let arrival = Arrival { envelope, bytes: payload.len() as u64, signature };
        if let Some(request) = self.matched(receive, &arrival) {
            if let Work::Receive { buffer, .. } = &request.work {
                buffer.unpack(0, payload);
            }
            trace_received(request, from);
            let is_detached = request.conclude();
            self.requests.concluded(receive, is_detached);
        }
    }

    /// Completes a receive whose message has arrived completely.
    #[inline]
    fn received(&mut self, receive: RequestId, from: Peer) {
        if let Some(request) = self.requests.get(receive) {
            trace_received(request, from);
        }
        self.requests.complete_as_is(receive);
    }

    /// Returns the room of an eager message that was delivered, and informs the sender if it waits for that.
    #[inline]
    pub(super) fn eager_done(&mut self, from: Peer, bytes: usize, sync: Option<RequestId>) {
        if let Some(sender) = sync {
            self.answer(from, Packet::Done { sender });
        }
        let cost = eager_cost(bytes as u64);
        if from == self.me {
            self.peers.get(from).send_window.give_back(cost);
        } else {
            self.consumed(from, cost);
        }
    }

    /// Fetches the data of an offered message: by single copy or a read of the link if possible, otherwise as
    /// a stream.
    pub(super) fn accept(
        &mut self,
        receive: RequestId,
        from: Peer,
        envelope: Envelope,
        offer: RendezvousRequest,
        signature: Signature,
        sender: RequestId,
    ) {
        let arrival = Arrival { envelope, bytes: offer.bytes, signature };
        let Some(buffer) = self.matched(receive, &arrival).and_then(Request::target).cloned() else { return };
        if self.is_at_odds(receive) {
            // The sender is informed of the failed operation first, so that its request fails too.
            self.failed_operations.owe(from, sender);
            return self.requests.complete_as_is(receive);
        }
        let wanted = offer.bytes.min(buffer.bytes());
        let read = if wanted == 0 { Ok(true) } else { self.read_in_place(from, &offer, &buffer, wanted) };
        let is_over = read.unwrap_or_else(|error| {
            self.requests
                .get_mut(receive)
                .into_iter()
                .for_each(|request| request.error = Some(error.clone()));
            true
        });
        if is_over {
            self.received(receive, from);
            self.answer(from, Packet::Done { sender });
        } else if !self.plan_read(receive, from, sender, &offer, &buffer) {
            self.answer(from, Packet::ClearToSend { sender, receiver: receive });
        }
    }

    /// Reads an offered message from its sender's memory if that is possible and expected to be faster.
    fn read_in_place(
        &mut self,
        from: Peer,
        offer: &RendezvousRequest,
        buffer: &Buffer,
        wanted: u64,
    ) -> Result<bool> {
        let own = self.peers.get(from).offered.and_then(|id| self.requests.get(id));
        let alone = !self.reader.is_crowded() && own.is_none_or(|request| request.complete);
        let ways = self.peers.get(from).ways.get_or_insert_default();
        let by = if offer.near.is_some() { Reading::Mapped } else { Reading::Kernel };
        if !self.reader.may_read(from, offer, wanted, || ways.reads(by, wanted, alone)) {
            return Ok(false);
        }
        let begun = clock::ticks();
        let is_read = self.reader.read(from, offer, buffer, wanted)?;
        if is_read {
            ways.read(by, wanted, clock::ticks().wrapping_sub(begun));
        }
        Ok(is_read)
    }

    /// Returns true if a receive got a message of a different collective operation.
    fn is_at_odds(&self, receive: RequestId) -> bool {
        let of_collective = |work: &Work| matches!(work, Work::Receive { check: Check::Accord(_), .. });
        self.requests
            .get(receive)
            .is_some_and(|request| request.error.is_some() && of_collective(&request.work))
    }

    /// Delivers a message of this process to itself.
    pub(super) fn deliver_local(&mut self, receive: RequestId, envelope: Envelope, sender: RequestId) {
        let source = match self.requests.get(sender) {
            Some(Request { work: Work::Send { buffer, .. }, .. }) => buffer.clone(),
            _ => Buffer::empty(),
        };
        let arrival = Arrival { envelope, bytes: source.bytes(), signature: 0 };
        if let Some(buffer) = self.matched(receive, &arrival).and_then(Request::target) {
            buffer.copy_from(&source);
        }
        self.received(receive, self.me);
        self.requests.complete(sender, None);
    }

    /// Handles the next packet of a stream.
    #[inline]
    fn data(&mut self, from: Peer, receiver: RequestId, payload: &[u8]) {
        let Some(request) = self.requests.get_mut(receiver) else {
            return self.fail("data arrived for a receive that is not known");
        };
        let Work::Receive { buffer, arrived, expected, .. } = &mut request.work else {
            return self.fail("data arrived for a request that receives nothing");
        };
        let begun = clock::ticks();
        buffer.unpack(*arrived, payload);
        let ticks = clock::ticks().wrapping_sub(begun);
        self.peers.get(from).ways.get_or_insert_default().took(*expected, payload.len(), ticks);
        *arrived += payload.len() as u64;
        if *arrived >= *expected {
            self.received(receiver, from);
        }
    }

    /// Records in a receive's request its message, and an error if the message does not fit.
    #[inline]
    fn matched(&mut self, receive: RequestId, arrival: &Arrival) -> Option<&mut Request> {
        let request = self.requests.get_mut(receive)?;
        let Work::Receive { buffer, expected, check, .. } = &mut request.work else { return None };
        *expected = arrival.bytes;
        request.status = status_of(arrival.envelope, arrival.bytes.min(buffer.bytes()));
        // Usually there is neither an old nor a new error, so that no drop is needed.
        let complaint = arrival.complaint(check, buffer.bytes());
        if complaint.is_some() || request.error.is_some() {
            request.error = complaint;
        }
        Some(request)
    }

    /// Queues a packet to a peer; it is sent at the next flush.
    pub(super) fn answer(&mut self, to: Peer, packet: Packet) {
        self.outbox.push_back((to, Small::bare(packet)));
    }

    /// Notes that an invalid packet has arrived, so that the job cannot continue.
    #[cold]
    pub(super) fn fail(&mut self, text: &'static str) {
        self.fault = Some(Error::new(ErrorClass::Intern, text));
    }
}

#[inline]
fn trace_received(request: &Request, from: Peer) {
    if trace::is_on()
        && let Work::Receive { pattern, .. } = &request.work
    {
        trace::received(from, pattern.context, &request.status);
    }
}

fn sent_bytes(request: &Request) -> u64 {
    match &request.work {
        Work::Send { buffer, .. } => buffer.bytes(),
        _ => 0,
    }
}

impl Arrival {
    /// Returns the error of a message for a receive with a buffer of `capacity` bytes, or None if it fits.
    #[inline]
    pub fn complaint(&self, check: &Check, capacity: u64) -> Option<Error> {
        let source = self.envelope.source;
        match check {
            Check::Accord(mine) if *mine != self.signature || self.bytes != capacity => {
                let odd = agreement::disagreement(*mine, self.signature, source);
                odd.or_else(|| {
                    (self.bytes != capacity).then(|| agreement::misfit(source, self.bytes, capacity))
                })
            }
            _ if self.bytes > capacity => Some(truncated(self.envelope, self.bytes, capacity)),
            Check::Type(datatype) => mismatch(self, datatype),
            Check::Nothing | Check::Accord(_) => None,
        }
    }
}

/// Returns an error if the datatypes of sender and receiver differ, as far as their signatures are
/// comparable.
fn mismatch(arrival: &Arrival, datatype: &tutti_data::Datatype) -> Option<Error> {
    let size = datatype.size() as u64;
    let items = arrival.bytes.checked_div(size)?;
    let comparable = items * size == arrival.bytes;
    let own = signature(datatype, items);
    if arrival.signature == 0 || own == 0 || own == arrival.signature || !comparable {
        return None;
    }
    let Envelope { source, tag, .. } = arrival.envelope;
    Some(Error::new(
        ErrorClass::Type,
        format!("the datatype of the message from rank {source} with tag {tag} is not that of the receive"),
    ))
}
