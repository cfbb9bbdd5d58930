//! Adaptive connection management (S6; yu-2006 chapter 3), as state machines without sockets and clocks.
//!
//! Every process has one datagram endpoint. Records to a peer go over it, made reliable here, until the pair
//! has exchanged enough for a connection to pay. Then they go over the connection, in the same order. Hence a
//! process keeps no state for a peer without messages, and connections only to frequent peers.
//!
//! The driver of the machines ([`Adaptive`]) owns the endpoints. It reports what happens (a datagram, an
//! event of the connection manager, the time), and carries out the requests of [`Adaptive::next_action`] and
//! [`Adaptive::transmit`]. Times count from any fixed moment.
//!
//! # Sending
//! [`Adaptive::connection_of`] returns the connection over which records to a peer go now, if any; that costs
//! two loads. With a connection, the driver sends there without any call of this module. Without one,
//! [`Adaptive::send`] takes the record, and [`Adaptive::transmit`] hands out the datagrams. The sender of
//! each direction alone decides which way its records take.
//!
//! # The order of records, across the switch and back
//! The datagrams of a direction are one numbered stream. A process that moves to a connection announces it by
//! a record of that stream (*confirm*). The other side opens the connection only when all records before it
//! have been delivered ([`Action::Open`]: records found on it may be delivered). A process that leaves a
//! connection puts an end mark behind its last record there ([`Action::Finish`]; the driver defines the
//! mark), and continues by datagrams at once. The other side holds these until the driver reports that
//! everything up to the end mark was taken ([`Adaptive::finished`]).
//!
//! # Establishment of a connection
//! | side | step | by |
//! |---|---|---|
//! | A | request (nonce of A) | record of the datagram stream |
//! | B | reply (nonce of B, where B listens), or refuse | record of the datagram stream |
//! | A | connects ([`Action::Connect`]) with a proof over both nonces | connection manager's private data |
//! | B | accepts ([`Adaptive::requested`]) with a proof of its own | connection manager's private data |
//! | A | confirm, and sends over the connection from now on; or abandon | record of the datagram stream |
//! | B | confirm, and sends over the connection from now on | record of the datagram stream |
//!
//! Where the network lets no datagrams through, a connection carries them instead: see [`contact`].
//!
//! Of crossing requests that of the lower rank counts (section 3.4). As the stream is reliable and ordered,
//! every state has one way out: only A needs a timer, for its connecting. Each side answers the other's end
//! mark by its own. The side that sent one first disconnects when it has the other's.
//!
//! # Security
//! Every datagram ends with a keyed tag over all of it, including sender, receiver and number; proofs are
//! tags too. Datagrams that are malformed, foreign, forged, or repeated are counted and dropped.

mod action;
mod connection;
mod contact;
mod contacts;
mod counters;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod manage;
mod names;
mod pace;
mod packet;
mod pair;
mod peers;
mod polling;
mod pool;
mod receiver;
mod sender;
pub mod tag;
mod words;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

pub use action::{Action, ConnectionId, Decision};
pub use counters::ConnectionCounters;
pub use manage::neighbours;

use names::Names;
use packet::{DropReason, Guard, Identity};
use pair::{Common, Pair, Reach};
use peers::Peers;
use polling::Polling;
use pool::Pool;
use tag::{Key, Use};
use tutti_seal::MESSAGE_OVERHEAD;
use words::Prover;

use crate::link::{Full, Header, Peer, Sink};

/// Longest time until datagrams that found no room are tried again.
const NO_ROOM: Duration = Duration::from_micros(200);

/// Policy for making connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Never: everything goes by datagrams.
    Never,
    /// Connections are made when a pair has exchanged enough.
    OnDemand,
    /// Connections are made when a pair has exchanged enough, and with the neighbours at +-2^j from the
    /// start.
    PartiallyStatic,
    /// Connections are made with every peer from the start.
    Static,
}

/// Settings of the connection machines.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Ranks of the job: no rank is above.
    pub ranks: u32,
    /// The rank of this process.
    pub rank: u32,
    /// Number of the job; datagrams of others are foreign.
    pub job: u32,
    /// Secret that the ranks of the job share.
    pub secret: [u8; 32],
    /// Datagrams are sent encrypted.
    pub hides: bool,
    /// Any bytes that no other process of this job has had: nonces are made of them.
    pub seed: [u8; 16],
    /// Longest datagram that the endpoint takes, in bytes.
    pub datagram_bytes: usize,
    /// Longest payload of a record.
    pub record_bytes: usize,
    /// Policy for making connections.
    pub mode: Mode,
    /// A pair that has exchanged more messages than this connects.
    pub threshold_messages: u64,
    /// A pair that has exchanged more bytes than this connects.
    pub threshold_bytes: u64,
    /// Most connections at a time.
    pub max_connections: usize,
    /// Most connections at a time that carry datagrams, beside those of records.
    pub max_contacts: usize,
    /// The directory can request a peer to connect to this process: [`Action::Call`].
    pub can_call: bool,
    /// The driver reports when a peer's system has accepted a connection: [`Adaptive::reached`].
    pub sees_reach: bool,
    /// Address of this process, sent to peers until they answer (may be empty).
    pub address: Vec<u8>,
    /// Listening address of this process, sent to peers that request a connection.
    pub listen_address: Vec<u8>,
}

/// The state machines of one process: a stream in each direction for every peer spoken to, and its
/// connections.
#[derive(Debug)]
pub struct Adaptive {
    settings: Settings,
    identity: Identity,
    prover: Prover,
    nonce_key: Key,
    /// Room for a datagram that is opened.
    opened: Vec<u8>,
    nonces: u64,
    common: Common,
    peers: Peers,
    pairs: Vec<Pair>,
    /// Pairs with something to do: due, under way, or waiting for a time.
    busy: Vec<u32>,
    /// Pairs with records that wait for their receiver.
    waiting: Vec<u32>,
    names: Names,
    /// Peers that a connection is wanted with from the start.
    wanted: VecDeque<Peer>,
    actions: VecDeque<Action>,
    polling: Polling,
    /// Long datagrams to somebody get lost.
    is_narrow: bool,
    /// Time at which a datagram last arrived, and time at which a connection last turned out to be needed for
    /// datagrams.
    last_datagram: Option<Duration>,
    last_contact: Option<Duration>,
    /// The latest time that was told.
    now: Duration,
    /// Nothing is due before.
    wake: Duration,
    closing: bool,
}

impl Adaptive {
    /// Creates the state of a process without any peers.
    ///
    /// # Panics
    /// If a datagram has no room for an address, a header and some payload.
    pub fn new(settings: Settings) -> Adaptive {
        let Settings { job, rank, ranks, datagram_bytes, record_bytes, .. } = settings;
        let address = settings.address.clone();
        let front = packet::FIXED_BYTES + packet::HEADER_BYTES + MESSAGE_OVERHEAD + address.len();
        assert!(
            address.len() <= packet::ADDRESS_BYTES && datagram_bytes >= front + 32,
            "datagrams are too short"
        );
        let common = Common {
            job,
            rank,
            guard: Guard::new(&settings.secret, settings.hides),
            datagram_bytes,
            record_bytes,
            address,
            pool: Pool::new(datagram_bytes),
            counters: ConnectionCounters::default(),
            sealed: Vec::with_capacity(datagram_bytes),
            scratch: Vec::new(),
        };
        let limit = if settings.mode == Mode::Never { 0 } else { settings.max_connections };
        Adaptive {
            identity: Identity { job, rank, ranks },
            prover: Prover::new(&settings.secret),
            nonce_key: Key::new(&settings.secret, Use::Nonce),
            nonces: 0,
            opened: Vec::new(),
            common,
            peers: Peers::default(),
            pairs: Vec::new(),
            busy: Vec::new(),
            waiting: Vec::new(),
            names: Names::new(limit, settings.max_contacts),
            wanted: VecDeque::new(),
            actions: VecDeque::new(),
            polling: Polling::default(),
            is_narrow: false,
            last_datagram: None,
            last_contact: None,
            now: Duration::ZERO,
            wake: Duration::ZERO,
            closing: false,
            settings,
        }
    }

    /// Returns machines that know nothing of what was before [`Adaptive::close`]. All processes of the job
    /// have closed theirs. What they send from now on is under other keys, so that a late datagram of before
    /// is taken for none of theirs.
    pub fn renewed(&self) -> Adaptive {
        let secret = tag::derive(&self.settings.secret, &[b"renewed"]);
        let mut renewed = Adaptive::new(Settings { secret, ..self.settings.clone() });
        renewed.common.counters = self.common.counters;
        renewed
    }

    /// Asks for the connections that are wanted from the start.
    pub fn begin(&mut self) {
        let Settings { mode, rank, ranks, .. } = self.settings;
        match mode {
            Mode::PartiallyStatic => self.preconnect(Duration::ZERO, neighbours(rank, ranks)),
            Mode::Static => {
                self.preconnect(Duration::ZERO, (0..ranks).filter(|&peer| peer != rank).map(Peer));
            }
            Mode::Never | Mode::OnDemand => {}
        }
    }

    /// Returns the connection over which records to `peer` have to go now. None: use [`Adaptive::send`].
    #[inline]
    pub fn connection_of(&mut self, peer: Peer) -> Option<ConnectionId> {
        let index = self.peers.find(peer.0)?;
        let connection = self.pairs[index].connection.on?;
        self.names.used(connection, self.now);
        Some(connection)
    }

    /// Returns the connection like [`Adaptive::connection_of`], without counting a use.
    #[inline]
    pub fn connection_to(&self, peer: Peer) -> Option<ConnectionId> {
        self.pairs[self.peers.find(peer.0)?].connection.on
    }

    /// Returns true if a connection carries datagrams.
    pub fn is_contact(&self, connection: ConnectionId) -> bool {
        self.names.is_contact(connection)
    }

    /// Notes that something arrived on this connection, so that it is in use. May be called seldom.
    #[inline]
    pub fn used(&mut self, connection: ConnectionId) {
        self.names.used(connection, self.now);
    }

    /// Returns true if a record of `bytes` would find room, were it sent by datagrams.
    pub fn has_room(&self, to: Peer, bytes: usize) -> bool {
        self.peers.find(to.0).is_some_and(|index| self.pairs[index].has_room(bytes, &self.common))
    }

    /// Takes a record that goes by datagrams, written by `fill`. Call [`Adaptive::transmit`] soon.
    ///
    /// # Errors
    /// [`Full`] when too much is waiting for this peer, or its address is not known yet: whoever waits until
    /// a record is sent may do something else for long then, and the record would not leave. `fill` was not
    /// called.
    ///
    /// # Panics
    /// If there is no such peer, the record is too long, or there is a connection: a bug of the caller.
    pub fn send(
        &mut self,
        now: Duration,
        to: Peer,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        assert!(to.0 < self.settings.ranks && to.0 != self.settings.rank, "no such peer");
        assert!(bytes <= self.settings.record_bytes, "a record that no datagrams take");
        self.advance(now);
        let index = self.pair(to);
        let pair = &mut self.pairs[index];
        assert!(pair.connection.on.is_none(), "records of a pair would overtake one another");
        pair.send(header, bytes, fill, &mut self.common)?;
        self.list(index);
        self.consider(index);
        Ok(())
    }

    /// Hands out the datagrams that are due (records, repetitions, acknowledgements), each with the
    /// connection that it goes by, if it does, until `wire` says false: it has no room, and this datagram
    /// stays. `wire` copies the bytes.
    pub fn transmit(
        &mut self,
        now: Duration,
        mut wire: impl FnMut(Peer, Option<ConnectionId>, &[u8]) -> bool,
    ) {
        self.advance(now);
        if self.busy.is_empty() || now < self.wake {
            return;
        }
        let (mut wake, means) = (Duration::MAX, self.means());
        let mut room = true;
        let mut place = 0;
        while place < self.busy.len() {
            let pair = &mut self.pairs[self.busy[place] as usize];
            room = room && pair.transmit(now, &mut self.common, &mut wire);
            if let Some(deadline) = pair.deadline(now, self.settings.rank, means) {
                wake = wake.min(deadline);
                place += 1;
            } else {
                pair.listed = false;
                self.busy.swap_remove(place);
            }
        }
        if !room {
            // The next one gets its turn first.
            self.busy.rotate_left(1);
            wake = wake.max(now + NO_ROOM);
        }
        self.wake = wake;
    }

    /// Takes a datagram that has arrived. Records that it completes go to `sink`.
    pub fn datagram(&mut self, now: Duration, bytes: &[u8], sink: &mut impl Sink) {
        self.arrived(now, bytes, None, sink);
    }

    /// Takes a datagram that has arrived by itself, or over the connection of the pair `contact`.
    fn arrived(&mut self, now: Duration, bytes: &[u8], contact: Option<usize>, sink: &mut impl Sink) {
        let mut opened = std::mem::take(&mut self.opened);
        self.arrived_in(now, (bytes, &mut opened), contact, sink);
        self.opened = opened;
    }

    /// Takes a datagram. An encrypted one is opened in the second buffer.
    fn arrived_in(
        &mut self,
        now: Duration,
        (bytes, opened): (&[u8], &mut Vec<u8>),
        contact: Option<usize>,
        sink: &mut impl Sink,
    ) {
        self.advance(now);
        let packet = match packet::parse(bytes, &self.identity, &self.common.guard, opened) {
            Ok(packet) => packet,
            Err(refusal) => {
                let counters = &mut self.common.counters;
                let counter = match refusal {
                    DropReason::Malformed => &mut counters.malformed,
                    DropReason::Foreign => &mut counters.foreign,
                    DropReason::Forged => &mut counters.forged,
                };
                *counter += 1;
                return;
            }
        };
        let index = self.pair_of_arrival(Peer(packet.from), packet.address);
        if self.pairs[index].reach == Reach::Gone {
            return;
        }
        match contact {
            None => self.heard_datagram(index),
            Some(expected) if expected == index => {}
            Some(_) => {
                self.common.counters.absurd += 1;
                return;
            }
        }
        let pair = &mut self.pairs[index];
        let empty = pair.waiting.is_empty();
        let words = pair.take(now, &packet, &mut self.common, sink);
        if empty && !pair.waiting.is_empty() {
            self.waiting.push(index as u32);
        }
        for (kind, text) in words {
            self.said(index, kind, &text);
        }
        self.settle(index);
        self.list(index);
        self.consider(index);
    }

    /// Offers the records that were left, or held until a connection was finished. True if anything was
    /// taken.
    pub fn poll(&mut self, now: Duration, sink: &mut impl Sink) -> bool {
        self.advance(now);
        let mut any = false;
        for place in (0..self.waiting.len()).rev() {
            any |= self.offer(self.waiting[place] as usize, sink);
        }
        self.waiting.retain(|&index| !self.pairs[index as usize].waiting.is_empty());
        any
    }

    /// Polls one peer like [`Adaptive::poll`].
    pub fn poll_peer(&mut self, now: Duration, from: Peer, sink: &mut impl Sink) -> bool {
        self.advance(now);
        let Some(index) = self.peers.find(from.0) else { return false };
        let any = self.offer(index, sink);
        self.waiting.retain(|&index| !self.pairs[index as usize].waiting.is_empty());
        any
    }

    /// Returns true if [`Adaptive::poll`] would offer something that was not left before.
    pub fn pending(&self) -> bool {
        self.waiting.iter().any(|&index| self.pairs[index as usize].waiting.pending())
    }

    /// Notes that datagrams can be sent to `peer`.
    pub fn reachable(&mut self, now: Duration, peer: Peer) {
        self.advance(now);
        let Some(index) = self.peers.find(peer.0) else { return };
        let pair = &mut self.pairs[index];
        if pair.reach == Reach::Unknown {
            pair.reach = Reach::Known;
            self.list(index);
        }
    }

    /// Notes that this process has other addresses than before. Those of its peers have changed too; the
    /// driver looks them up.
    pub fn moved(&mut self, address: Vec<u8>, listen_address: Vec<u8>) {
        // Datagrams were measured with an address of the old length in front.
        if address.len() <= self.common.address.len() {
            self.common.address.clone_from(&address);
            self.settings.address = address;
        }
        self.settings.listen_address = listen_address;
    }

    /// Returns the last time that the driver has passed.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Returns all peers with which datagrams were exchanged and that are not gone.
    pub fn peers(&self) -> impl Iterator<Item = Peer> {
        self.pairs.iter().filter(|pair| pair.reach != Reach::Gone).map(|pair| pair.peer)
    }

    /// Drops everything for `peer`, which is dead or will never have an address.
    pub fn gone(&mut self, now: Duration, peer: Peer) {
        self.advance(now);
        let index = match self.peers.find(peer.0) {
            Some(index) => index,
            None => return,
        };
        self.bury(index);
    }

    /// Performs what is due. Call it when [`Adaptive::deadline`] has passed; it costs nothing before.
    pub fn tick(&mut self, now: Duration) {
        self.advance(now);
        self.want_next();
        if now < self.wake {
            return;
        }
        for place in 0..self.busy.len() {
            let index = self.busy[place] as usize;
            self.pairs[index].tick(now, &mut self.common);
            self.tick_connection(index);
            self.tick_contact(index);
        }
    }

    /// Returns the time at which [`Adaptive::tick`], then [`Adaptive::transmit`], have to be called next.
    pub fn deadline(&self) -> Option<Duration> {
        (!self.busy.is_empty()).then_some(self.wake).filter(|&wake| wake != Duration::MAX)
    }

    /// Returns the next request to the driver.
    pub fn next_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front();
        if action.is_none() {
            self.names.recycle();
        }
        action
    }

    /// Starts to leave: nothing is sent any more. The driver continues until [`Adaptive::is_closed`].
    pub fn close(&mut self, now: Duration) {
        self.advance(now);
        self.closing = true;
        self.wanted.clear();
        for index in 0..self.pairs.len() {
            self.settle(index);
            self.list(index);
        }
    }

    /// Returns true if all that was sent has arrived (or its receiver needs nothing any more), and no
    /// connection is left. Only a time that was told counts.
    pub fn is_closed(&self) -> bool {
        self.closing && self.pairs.iter().all(|pair| pair.connection.is_none() && pair.is_closed(self.now))
    }

    /// Returns true if the datagram endpoint has to be looked at in this round of polling, or can wait
    /// (section 3.4, progress rules).
    #[inline]
    pub fn poll_datagrams(&mut self) -> bool {
        self.polling.due(self.busy.is_empty() && self.names.any())
    }

    /// Notes that no datagram had arrived a moment ago.
    pub fn no_datagram(&mut self) {
        self.polling.none_now();
    }

    /// Returns the counts so far.
    pub fn counters(&self) -> ConnectionCounters {
        let memory = self.common.pool.memory()
            + self.common.scratch.capacity()
            + self.peers.memory()
            + self.pairs.capacity() * size_of::<Pair>()
            + self.pairs.iter().map(Pair::memory).sum::<usize>();
        ConnectionCounters {
            peers: self.pairs.len() as u64,
            connections: self.names.count() as u64,
            most_connections: self.names.most() as u64,
            contacts: self.names.contacts() as u64,
            memory_bytes: memory as u64,
            ..self.common.counters
        }
    }

    fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Returns the index of the pair with `peer`, which is created at its first use.
    fn pair(&mut self, peer: Peer) -> usize {
        if let Some(index) = self.peers.find(peer.0) {
            return index;
        }
        let index = self.add(peer);
        self.actions.push_back(Action::LookUp(peer));
        index
    }

    /// Returns the index of the pair with a peer whose datagram has arrived, which may contain its address.
    fn pair_of_arrival(&mut self, peer: Peer, address: &[u8]) -> usize {
        let found = self.peers.find(peer.0);
        if address.is_empty() {
            return found.unwrap_or_else(|| self.pair(peer));
        }
        let index = found.unwrap_or_else(|| self.add(peer));
        if !self.pairs[index].address_seen && self.pairs[index].reach == Reach::Unknown {
            self.pairs[index].address_seen = true;
            self.actions.push_back(Action::Address(peer, address.to_vec()));
        }
        index
    }

    fn add(&mut self, peer: Peer) -> usize {
        let index = self.pairs.len();
        self.peers.insert(peer.0, index);
        self.pairs.push(Pair::new(peer));
        index
    }

    /// Puts a pair in the list of those that may have work to do at once.
    fn list(&mut self, index: usize) {
        self.wake = Duration::ZERO;
        let pair = &mut self.pairs[index];
        if !pair.listed {
            pair.listed = true;
            self.busy.push(index as u32);
        }
    }

    /// Offers what waits, past every connection that is finished.
    fn offer(&mut self, index: usize, sink: &mut impl Sink) -> bool {
        let (any, word) = self.pairs[index].offer(self.now, sink);
        if let Some((kind, text)) = word {
            self.said(index, kind, &text);
        }
        if any {
            self.list(index);
        }
        any
    }

    /// Drops the state of a peer that is dead, or whose records may be lost.
    fn bury(&mut self, index: usize) {
        self.pairs[index].forget(&mut self.common);
        self.drop_connection(index);
        self.drop_contact(index);
    }
}
