//! State of a process for one peer with which it exchanges datagrams: a stream each way, held records, and
//! facts about the peer.

use std::collections::VecDeque;
use std::time::Duration;

use super::action::ConnectionId;
use super::connection::{Connection, Ends};
use super::contact::{Contact, ContactSettings};
use super::counters::ConnectionCounters;
use super::pace::WINDOW;
use super::packet::{self, FIXED_BYTES, Guard, HEADER_BYTES, Kind, Outline, Packet};
use super::pool::Pool;
use super::receiver::{Arrival, Receiver, Whole};
use super::sender::Sender;
use crate::link::{Full, Header, Peer, Sink, Verdict};

/// A peer that said goodbye has nothing more to send, and leaves: so often it is asked whether it has our
/// last words.
const LAST_ATTEMPTS: u32 = 6;
/// Fewest repetitions of our goodbye, followed by its shortest time, for a peer that does not send its own.
const BYE_ATTEMPTS: u32 = 16;
const BYE_PATIENCE: Duration = Duration::from_secs(5);
/// Time for which a process stays after a goodbye, in case that its acknowledgement was lost.
const LINGER: Duration = Duration::from_millis(10);
/// Silence after which a peer is assumed to have left while this process leaves. All processes have then
/// entered MPI_Finalize, where every live one answers.
const CLOSING_PATIENCE: Duration = Duration::from_secs(30);

/// Function that sends a datagram: receiver, connection that carries it (if any), and bytes. It returns false
/// without room.
pub(super) trait Wire: FnMut(Peer, Option<ConnectionId>, &[u8]) -> bool {}

impl<F: FnMut(Peer, Option<ConnectionId>, &[u8]) -> bool> Wire for F {}

/// State that all pairs of a process share.
#[derive(Debug)]
pub(super) struct Common {
    pub job: u32,
    pub rank: u32,
    pub guard: Guard,
    pub datagram_bytes: usize,
    pub record_bytes: usize,
    pub address: Vec<u8>,
    pub pool: Pool,
    pub counters: ConnectionCounters,
    /// Memory for a datagram under construction.
    pub sealed: Vec<u8>,
    /// A record under construction.
    pub scratch: Vec<u8>,
}

impl Common {
    /// Returns the payload bytes of a datagram that is the first of a record, or not.
    fn payload_bytes(&self, first: bool) -> usize {
        let header = if first { HEADER_BYTES } else { 0 };
        self.datagram_bytes - FIXED_BYTES - self.guard.overhead_bytes() - self.address.len() - header
    }

    /// Datagrams of a record of `bytes`.
    pub(super) fn datagrams(&self, bytes: usize) -> usize {
        let rest = bytes.saturating_sub(self.payload_bytes(true));
        1 + rest.div_ceil(self.payload_bytes(false))
    }
}

/// Reachability of the peer by datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The address of the peer is being looked up.
    Unknown,
    /// Datagrams reach the peer.
    Known,
    /// Datagrams will never reach the peer: it is dead, or has left.
    Gone,
}

/// Record that its receiver did not take, or may not see yet.
#[derive(Debug)]
struct Held {
    kind: Kind,
    header: Header,
    payload: Vec<u8>,
    datagrams: u16,
}

/// Records of a stream that wait at its receiver.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    records: VecDeque<Held>,
    datagrams: u16,
    /// The first one was offered and left.
    left: bool,
    /// A connection comes between these and what was delivered: none may be delivered until it is finished.
    pub stopped: bool,
}

/// A record in order, delivered or kept. The answer is what was delivered that is not the user's.
impl Waiting {
    pub(super) fn window(&self) -> u16 {
        WINDOW - WINDOW.min(self.datagrams)
    }

    /// Returns true if [`Waiting::offer`] would offer something that was not left before.
    pub(super) fn pending(&self) -> bool {
        !self.records.is_empty() && !self.left && !self.stopped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn push(&mut self, whole: &Whole<'_>) {
        let Whole { kind, header, payload, datagrams } = *whole;
        self.datagrams = self.datagrams.saturating_add(datagrams);
        self.records.push_back(Held { kind, header, payload: payload.to_vec(), datagrams });
    }

    /// Offers what waits, until something is left or a connection comes next. True if anything was taken.
    pub(super) fn offer(&mut self, from: Peer, sink: &mut impl Sink) -> (bool, Option<Vec<u8>>) {
        let mut any = false;
        while !self.stopped {
            let Some(first) = self.records.front() else { break };
            if first.kind == Kind::Data && sink.arrived(from, first.header, &first.payload) == Verdict::Left {
                self.left = true;
                return (any, None);
            }
            let first = self.records.pop_front().expect("there is a first one");
            self.left = false;
            self.datagrams = self.records.iter().fold(0, |all, held| all.saturating_add(held.datagrams));
            any = true;
            if first.kind == Kind::Confirm {
                self.stopped = true;
                return (any, Some(first.payload));
            }
        }
        self.left = false;
        (any, None)
    }

    pub(super) fn clear(&mut self) {
        *self = Waiting::default();
    }

    pub(super) fn memory(&self) -> usize {
        self.records.iter().map(|held| held.payload.len() + size_of::<Held>()).sum()
    }
}

/// A word about connections, out of the stream.
pub(super) type Word = (Kind, Vec<u8>);

#[derive(Debug)]
pub(super) struct Pair {
    pub peer: Peer,
    pub reach: Reach,
    pub sender: Sender,
    pub receiver: Receiver,
    pub waiting: Waiting,
    pub connection: Connection,
    pub contact: Contact,
    /// True if a datagram of the peer has arrived.
    pub was_heard: bool,
    /// Records and bytes exchanged by datagrams, both ways, since the last connection.
    pub messages: u64,
    pub bytes: u64,
    /// True if the peer has our address.
    told: bool,
    /// True if the peer has sent its own address.
    pub address_seen: bool,
    /// Number of our goodbye, and the time at which it was sent.
    pub bye: Option<(u64, Duration)>,
    /// Time at which the peer's goodbye last arrived.
    pub bye_heard: Option<Duration>,
    /// True if the pair is in the list of those with work to do.
    pub listed: bool,
}

impl Pair {
    pub(super) fn new(peer: Peer) -> Pair {
        Pair {
            peer,
            reach: Reach::Unknown,
            sender: Sender::new(),
            receiver: Receiver::new(),
            waiting: Waiting::default(),
            connection: Connection::default(),
            contact: Contact::default(),
            was_heard: false,
            messages: 0,
            bytes: 0,
            told: false,
            address_seen: false,
            bye: None,
            bye_heard: None,
            listed: false,
        }
    }

    /// Returns true if a record of `bytes` finds room: none does before it can leave.
    pub(super) fn has_room(&self, bytes: usize, common: &Common) -> bool {
        match self.reach {
            Reach::Unknown => false,
            Reach::Known => self.sender.takes(common.datagrams(bytes)),
            Reach::Gone => true,
        }
    }

    /// Queues a record of the user.
    pub(super) fn send(
        &mut self,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
        common: &mut Common,
    ) -> Result<(), Full> {
        if !self.has_room(bytes, common) {
            return Err(Full);
        }
        self.messages += 1;
        self.bytes += bytes as u64;
        common.counters.sent_records += 1;
        common.counters.sent_bytes += bytes as u64;
        self.queue(Kind::Data, header, bytes, fill, common);
        self.sender.promise();
        Ok(())
    }

    /// Queues a record about connections, beyond the bound for the user's: there are few.
    pub(super) fn say(&mut self, kind: Kind, text: &[u8], common: &mut Common) {
        self.queue(kind, Header::default(), text.len(), |room| room.copy_from_slice(text), common);
        self.sender.promise();
    }

    fn queue(
        &mut self,
        kind: Kind,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
        common: &mut Common,
    ) {
        if self.reach == Reach::Gone {
            fill(&mut vec![0; bytes]);
            return;
        }
        let first = Some((header, bytes as u32));
        if bytes <= common.payload_bytes(true) {
            self.queue_fragment(&Outline { kind, first, last: true }, bytes, fill, common);
            return;
        }
        let mut record = std::mem::take(&mut common.scratch);
        record.clear();
        record.resize(bytes, 0);
        fill(&mut record);
        let (mut piece, mut rest) = record.split_at(common.payload_bytes(true));
        let mut first = first;
        loop {
            let outline = Outline { kind, first: first.take(), last: rest.is_empty() };
            self.queue_fragment(&outline, piece.len(), |room| room.copy_from_slice(piece), common);
            if rest.is_empty() {
                break;
            }
            (piece, rest) = rest.split_at(rest.len().min(common.payload_bytes(false)));
        }
        common.scratch = record;
    }

    fn queue_fragment(
        &mut self,
        outline: &Outline,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
        common: &mut Common,
    ) {
        let mut content = common.pool.take();
        let front = outline.front_bytes();
        content.resize(front + bytes, 0);
        fill(&mut content[front..]);
        outline.write(common.rank, self.peer.0, common.job, self.sender.sequence(), &mut content);
        self.sender.push(content);
    }

    /// Hands out what is due. False if `wire` has no room.
    pub(super) fn transmit(&mut self, now: Duration, common: &mut Common, wire: &mut impl Wire) -> bool {
        if self.reach != Reach::Known {
            return true;
        }
        while let Some((index, content)) = self.sender.due() {
            let window = self.waiting.window();
            let address = if self.told { &[] } else { common.address.as_slice() };
            let acknowledgement = self.receiver.acknowledgement(window);
            packet::seal(content, &acknowledgement, address, &common.guard, &mut common.sealed);
            if !wire(self.peer, self.contact.connection(), &common.sealed) {
                return false;
            }
            common.counters.sent_datagrams += 1;
            common.counters.repeated_datagrams += u64::from(self.sender.sent(now, index));
            self.receiver.acknowledged(window);
        }
        if self.receiver.deadline().is_some_and(|due| due <= now) {
            return self.acknowledge(common, wire);
        }
        true
    }

    fn acknowledge(&mut self, common: &mut Common, wire: &mut impl Wire) -> bool {
        let mut bare = [0; FIXED_BYTES];
        packet::write_bare(common.rank, self.peer.0, common.job, self.sender.next(), &mut bare);
        let window = self.waiting.window();
        packet::seal(&bare, &self.receiver.acknowledgement(window), &[], &common.guard, &mut common.sealed);
        if !wire(self.peer, self.contact.connection(), &common.sealed) {
            return false;
        }
        common.counters.sent_datagrams += 1;
        common.counters.acknowledgements += 1;
        self.receiver.acknowledged(window);
        true
    }

    /// Takes a datagram of this peer. Records in order go to `sink`. Returns the messages about connections.
    pub(super) fn take(
        &mut self,
        now: Duration,
        packet: &Packet<'_>,
        common: &mut Common,
        sink: &mut impl Sink,
    ) -> Vec<Word> {
        let mut words = Vec::new();
        self.sender.heard();
        let progress = self.sender.acknowledge(now, &packet.acknowledgement, &mut common.pool);
        self.told |= progress.arrived > 0;
        common.counters.absurd += u64::from(progress.absurd);
        if self.bye_heard.is_some() {
            self.bye_heard = Some(now);
        }
        let Some(fragment) = &packet.fragment else { return words };
        let Pair { receiver, waiting, messages, bytes, bye_heard, peer, .. } = self;
        let room = (waiting.window(), common.record_bytes);
        let counters = &mut common.counters;
        let mut bye = false;
        let arrival = receiver.take(now, packet.sequence, fragment, room, &mut |whole| match whole.kind {
            Kind::Data => {
                *messages += 1;
                *bytes += whole.payload.len() as u64;
                counters.received_records += 1;
                counters.received_bytes += whole.payload.len() as u64;
                let straight = waiting.is_empty() && !waiting.stopped;
                if !straight || sink.arrived(*peer, whole.header, whole.payload) == Verdict::Left {
                    waiting.left = straight || waiting.left;
                    waiting.push(&whole);
                }
            }
            Kind::Bye => {
                *bye_heard = Some(now);
                bye = true;
            }
            Kind::Confirm if waiting.is_empty() && !waiting.stopped => {
                waiting.stopped = true;
                words.push((Kind::Confirm, whole.payload.to_vec()));
            }
            Kind::Confirm => waiting.push(&whole),
            kind => words.push((kind, whole.payload.to_vec())),
        });
        if bye {
            receiver.acknowledge_now(now);
        }
        let counter = match arrival {
            Arrival::New => &mut counters.received_datagrams,
            Arrival::Duplicate => &mut counters.duplicates,
            Arrival::Beyond => &mut counters.beyond,
            Arrival::Absurd => &mut counters.absurd,
        };
        *counter += 1;
        words
    }

    /// Offers what waits. True if anything was taken; and what was said about connections.
    pub(super) fn offer(&mut self, now: Duration, sink: &mut impl Sink) -> (bool, Option<Word>) {
        let (any, confirm) = self.waiting.offer(self.peer, sink);
        if any {
            self.receiver.widened(now, self.waiting.window());
        }
        (any, confirm.map(|text| (Kind::Confirm, text)))
    }

    /// Repeats what is due.
    pub(super) fn tick(&mut self, now: Duration, common: &mut Common) {
        if !self.sender.expire(now) {
            return;
        }
        let last = self.bye_heard.is_some() && self.connection.is_none();
        if last && self.sender.attempts() >= LAST_ATTEMPTS {
            self.forget(common);
        }
    }

    /// Drops everything for a peer that is dead or has left.
    pub(super) fn forget(&mut self, common: &mut Common) {
        self.reach = Reach::Gone;
        self.sender.clear(&mut common.pool);
        self.receiver = Receiver::new();
    }

    /// Sends a goodbye, as nothing else will be sent. A peer that has sent its own needs none.
    pub(super) fn close(&mut self, now: Duration, common: &mut Common) {
        if self.bye.is_none() && self.bye_heard.is_none() {
            self.bye = Some((self.sender.sequence(), now));
            self.say(Kind::Bye, &[], common);
        }
    }

    /// Returns true if nobody needs this process for this pair any more.
    pub(super) fn is_closed(&self, now: Duration) -> bool {
        if self.reach == Reach::Gone {
            return true;
        }
        if let Some(heard) = self.bye_heard {
            let arrived = self.sender.is_empty();
            let both = self.bye.is_some() && arrived && self.receiver.deadline().is_none();
            let tired = self.sender.attempts() >= LAST_ATTEMPTS;
            return both || (arrived || tired) && now >= heard + LINGER;
        }
        let Some((sequence, said)) = self.bye else { return false };
        if now >= said + CLOSING_PATIENCE && self.sender.attempts() >= BYE_ATTEMPTS {
            return true;
        }
        let tired = self.sender.attempts() >= BYE_ATTEMPTS && now >= said + BYE_PATIENCE;
        self.sender.is_empty()
            || tired && sequence.checked_sub(1).is_none_or(|last| self.sender.has_arrived(last))
    }

    /// Returns the time at which something is due; `None` if nothing is until an event.
    pub(super) fn deadline(&self, now: Duration, rank: u32, means: ContactSettings) -> Option<Duration> {
        if self.reach != Reach::Known {
            return self.connection.deadline();
        }
        let ready = self.sender.due().map(|_| now);
        let linger = self.bye_heard.map(|heard| heard + LINGER).filter(|&end| end > now);
        let (connection, contact) =
            (self.connection.deadline(), self.contact.deadline(means, Ends { rank, peer: self.peer }));
        [ready, self.sender.deadline(), self.receiver.deadline(), connection, contact, linger]
            .into_iter()
            .flatten()
            .min()
    }

    /// Bytes of memory beyond the pair itself.
    pub(super) fn memory(&self) -> usize {
        self.sender.memory() + self.receiver.memory() + self.waiting.memory()
    }
}
