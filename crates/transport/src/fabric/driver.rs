//! Drives the machines of `adaptive` over a datagram endpoint and a carrier of connections.
//!
//! Records to a peer go where the machines say: by datagrams, or straight to the carrier. A poll looks at the
//! connections first, as they carry most, and at everything else as often as the machines ask for it.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use super::carrier::{Carrier, Event, Frames, Kind, place_of};
use super::counters::Counters;
use super::datagrams::Datagrams;
use crate::adaptive::{Action, Adaptive, ConnectionId, Decision, Mode, Settings, neighbours};
use crate::directory::Directory;
use crate::link::{Full, Header, Link, Peer, Sink, Verdict};
use crate::loan::{Loan, Memory};

/// Who wants to connect may wait for so many looks at the datagrams: it is a call to the system less for each of them.
const LOOKS_A_CONTROL: u32 = 8;

/// What the driver knows of a connection.
#[derive(Clone, Debug)]
struct Line {
    name: ConnectionId,
    peer: Peer,
    /// Records found on it may be delivered.
    open: bool,
    /// Why the carrier gave it up.
    ended: Option<String>,
}

/// What went over connections.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    sent_records: u64,
    sent_bytes: u64,
    received_records: u64,
    received_bytes: u64,
    reads: u64,
    read_bytes: u64,
}

/// A link over datagrams and connections.
#[derive(Debug)]
pub struct Driver<C> {
    machine: Adaptive,
    carrier: C,
    datagrams: Datagrams,
    directory: Box<dyn Directory>,
    /// By [`place_of`].
    lines: Vec<Option<Line>>,
    /// Connections whose own end mark found no room yet.
    finishing: Vec<ConnectionId>,
    /// Connections on which the end mark was found.
    finished: Vec<ConnectionId>,
    failures: VecDeque<(Peer, String)>,
    /// Addresses that were asked for and have not come.
    lookups: usize,
    traffic: Traffic,
    start: Instant,
    /// Everything is looked at in the next poll.
    thorough: bool,
    /// Looks around until the carrier is asked for requests.
    until_control: u32,
    leaving: bool,
}

/// Hands the records of connections to the owner of the link.
struct Delivery<'a, S> {
    lines: &'a [Option<Line>],
    finished: &'a mut Vec<ConnectionId>,
    traffic: &'a mut Traffic,
    machine: &'a mut Adaptive,
    sink: &'a mut S,
}

impl<S: Sink> Frames for Delivery<'_, S> {
    #[inline]
    fn arrived(&mut self, connection: ConnectionId, kind: Kind, header: Header, payload: &[u8]) -> Verdict {
        let Some(Some(line)) = self.lines.get(place_of(connection)) else { return Verdict::Taken };
        if !line.open {
            return Verdict::Left;
        }
        if kind == Kind::End {
            self.finished.push(connection);
            return Verdict::Taken;
        }
        if kind != Kind::Record {
            // A carrier that knows these keeps them to itself.
            return Verdict::Taken;
        }
        let verdict = self.sink.arrived(line.peer, header, payload);
        if verdict == Verdict::Taken {
            self.traffic.received_records += 1;
            self.traffic.received_bytes += payload.len() as u64;
            self.machine.used(connection);
        }
        verdict
    }

    fn peer(&self, connection: ConnectionId) -> Option<Peer> {
        let line = self.lines.get(place_of(connection))?.as_ref()?;
        (line.name == connection).then_some(line.peer)
    }
}

impl<C: Carrier> Driver<C> {
    /// Publishes the address of `datagrams` in `directory`, and begins the connections that are wanted from the start.
    pub fn new(
        settings: Settings,
        carrier: C,
        datagrams: Datagrams,
        mut directory: Box<dyn Directory>,
    ) -> Driver<C> {
        if let Some(address) = crate::directory::Address::new(&settings.datagram_address) {
            directory.publish(&address);
        }
        let Settings { mode, rank, ranks, .. } = settings;
        let mut driver = Driver {
            machine: Adaptive::new(settings),
            carrier,
            datagrams,
            directory,
            lines: Vec::new(),
            finishing: Vec::new(),
            finished: Vec::new(),
            failures: VecDeque::new(),
            lookups: 0,
            traffic: Traffic::default(),
            start: Instant::now(),
            thorough: true,
            until_control: 0,
            leaving: false,
        };
        match mode {
            Mode::PartiallyStatic => driver.machine.preconnect(Duration::ZERO, neighbours(rank, ranks)),
            Mode::Static => {
                driver.machine.preconnect(Duration::ZERO, (0..ranks).filter(|&peer| peer != rank).map(Peer));
            }
            Mode::Never | Mode::OnDemand => {}
        }
        driver.act();
        driver
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn transmit(&mut self, now: Duration) {
        let datagrams = &self.datagrams;
        self.machine.transmit(now, |peer, bytes| datagrams.send(peer, bytes));
    }

    /// Does what the machines ask for.
    fn act(&mut self) {
        while let Some(action) = self.machine.next_action() {
            let now = self.now();
            match action {
                Action::LookUp(peer) => {
                    self.directory.request(peer.0);
                    self.lookups += 1;
                }
                Action::Address(peer, bytes) => {
                    if self.datagrams.learn(peer, &bytes) {
                        self.machine.reachable(now, peer);
                    }
                }
                Action::Connect { peer, connection, address, private_data } => {
                    self.begin(peer, connection);
                    self.carrier.connect(connection, &address, &private_data);
                }
                Action::Open(connection) => {
                    if let Some(line) = self.line(connection) {
                        line.open = true;
                    }
                }
                Action::Finish(connection) => {
                    self.finishing.push(connection);
                    self.finish();
                }
                Action::Disconnect(connection) => self.disconnect(connection),
                Action::Silent(..) => {}
                Action::Lost(peer) => self.lost(peer),
            }
        }
    }

    fn begin(&mut self, peer: Peer, connection: ConnectionId) {
        let place = place_of(connection);
        if self.lines.len() <= place {
            self.lines.resize(place + 1, None);
        }
        self.lines[place] = Some(Line { name: connection, peer, open: false, ended: None });
    }

    fn line(&mut self, connection: ConnectionId) -> Option<&mut Line> {
        self.lines.get_mut(place_of(connection))?.as_mut().filter(|line| line.name == connection)
    }

    /// Puts the end marks behind what was sent, where there is room now.
    fn finish(&mut self) {
        let carrier = &mut self.carrier;
        let mut sent = |connection| carrier.send(connection, Kind::End, Header::default(), 0, |_| ()).is_ok();
        let lines = &self.lines;
        let gone = |connection: ConnectionId| lines.get(place_of(connection)).is_none_or(Option::is_none);
        self.finishing.retain(|&connection| !gone(connection) && !sent(connection));
    }

    fn disconnect(&mut self, connection: ConnectionId) {
        self.carrier.disconnect(connection);
        if self.line(connection).is_some() {
            self.lines[place_of(connection)] = None;
        }
    }

    fn lost(&mut self, peer: Peer) {
        let why =
            self.lines.iter().flatten().find(|line| line.peer == peer).and_then(|line| line.ended.clone());
        let why = why.unwrap_or_else(|| "the connection broke".to_string());
        if !self.leaving {
            self.failures.push_back((peer, why));
        }
    }

    /// Tells the machines what happened to connections: first that one is finished, then that it has ended.
    fn hear(&mut self) {
        for place in 0..self.finished.len() {
            let connection = self.finished[place];
            self.machine.finished(self.now(), connection);
        }
        self.finished.clear();
        self.act();
        while let Some(event) = self.carrier.event() {
            let now = self.now();
            match event {
                Event::Requested(request, data) => match self.machine.requested(now, &data) {
                    Decision::Accept { peer, connection, private_data } => {
                        self.begin(peer, connection);
                        self.carrier.accept(request, connection, &private_data);
                    }
                    Decision::Reject => self.carrier.reject(request),
                },
                Event::Established(connection, data) => self.machine.established(now, connection, &data),
                Event::Closed(connection, why) => {
                    if let Some(line) = self.line(connection) {
                        line.ended = Some(why);
                        self.machine.closed(now, connection);
                        self.act();
                        self.disconnect(connection);
                    }
                }
            }
            self.act();
        }
    }

    /// Takes the addresses that have come.
    fn learn(&mut self) {
        while let Some((rank, address)) = self.directory.poll() {
            self.lookups = self.lookups.saturating_sub(1);
            let (now, peer) = (self.now(), Peer(rank));
            match address {
                Some(address) if self.datagrams.learn(peer, address.bytes()) => {
                    self.machine.reachable(now, peer);
                }
                _ => {
                    self.machine.gone(now, peer);
                    self.failures.push_back((peer, "it has ended, or never had an address".to_string()));
                }
            }
        }
    }

    /// Everything but the records of connections: datagrams, requests, answers, timers.
    fn look_around(&mut self, sink: &mut impl Sink) -> bool {
        let mut taken = false;
        let mut counted = |from: Peer, header: Header, payload: &[u8]| {
            let verdict = sink.arrived(from, header, payload);
            taken |= verdict == Verdict::Taken;
            verdict
        };
        if self.lookups > 0 {
            self.learn();
        }
        let (machine, start) = (&mut self.machine, self.start);
        self.datagrams.receive(|bytes| machine.datagram(start.elapsed(), bytes, &mut counted));
        self.act();
        if self.until_control == 0 || std::mem::take(&mut self.thorough) || self.carrier.is_opening() {
            self.until_control = LOOKS_A_CONTROL;
            self.carrier.control();
        }
        self.until_control -= 1;
        self.hear();
        if !self.finishing.is_empty() {
            self.finish();
        }
        let now = self.now();
        self.machine.poll(now, &mut counted);
        self.machine.tick(now);
        self.act();
        self.transmit(now);
        taken
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        let machine = self.machine.counters();
        let memory = self.carrier.memory_bytes()
            + self.datagrams.memory_bytes()
            + self.lines.capacity() * size_of::<Option<Line>>();
        let (registrations, reused_registrations) = self.carrier.registrations();
        Counters {
            registrations,
            reused_registrations,
            sent_records: machine.sent_records + self.traffic.sent_records,
            sent_bytes: machine.sent_bytes + self.traffic.sent_bytes,
            received_records: machine.received_records + self.traffic.received_records,
            received_bytes: machine.received_bytes + self.traffic.received_bytes,
            reads: self.traffic.reads,
            read_bytes: self.traffic.read_bytes,
            foreign_connections: self.carrier.foreign(),
            memory_bytes: machine.memory_bytes + memory as u64,
            adaptive: machine,
        }
    }

    /// See [`crate::FarLink::before_sleep`].
    pub fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> (bool, Option<Instant>) {
        self.thorough = true;
        let quiet = self.carrier.before_sleep(descriptors);
        descriptors.push(self.datagrams.descriptor());
        if self.lookups > 0 {
            descriptors.extend(self.directory.descriptor().map(|fd| fd.as_raw_fd()));
        }
        let until = self.machine.deadline().map(|deadline| self.start + deadline);
        (quiet && !self.machine.pending() && self.failures.is_empty(), until)
    }

    /// See [`crate::FarLink::is_flushed`].
    pub fn is_flushed(&mut self) -> bool {
        if !self.leaving {
            self.leaving = true;
            let now = self.now();
            self.machine.close(now);
        }
        self.thorough = true;
        self.poll(&mut |_: Peer, _: Header, _: &[u8]| Verdict::Taken);
        self.machine.is_closed() && self.carrier.is_flushed()
    }
}

impl<C: Carrier> Link for Driver<C> {
    fn max_payload(&self) -> usize {
        super::carrier::RECORD_BYTES
    }

    #[inline]
    fn try_send_with(
        &mut self,
        to: Peer,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        if let Some(connection) = self.machine.connection_of(to) {
            self.carrier.send(connection, Kind::Record, header, bytes, fill)?;
            self.traffic.sent_records += 1;
            self.traffic.sent_bytes += bytes as u64;
            return Ok(());
        }
        let now = self.now();
        let sent = self.machine.send(now, to, header, bytes, fill);
        self.act();
        if sent.is_ok() {
            self.transmit(now);
        }
        sent
    }

    #[inline]
    fn has_room(&self, to: Peer, bytes: usize) -> bool {
        match self.machine.connection_to(to) {
            Some(connection) => self.carrier.has_room(connection, bytes),
            None => self.machine.has_room(to, bytes),
        }
    }

    fn want_room(&mut self, to: Peer, bytes: usize) -> bool {
        // Room comes with addresses, acknowledgements and writable sockets, which wake a sleeper.
        self.has_room(to, bytes)
    }

    fn is_connected(&self, to: Peer) -> bool {
        self.machine.connection_to(to).is_some()
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let Driver { carrier, lines, finished, traffic, machine, .. } = self;
        let taken = carrier.poll(&mut Delivery { lines, finished, traffic, machine, sink });
        let due = self.machine.poll_datagrams();
        if due || self.thorough || !self.finishing.is_empty() || !self.finished.is_empty() {
            return self.look_around(sink) | taken;
        }
        taken
    }

    fn poll_peer(&mut self, from: Peer, sink: &mut impl Sink) -> bool {
        let Some(connection) = self.machine.connection_to(from) else {
            // What comes by datagrams comes from everybody; it is kept where its turn has not come.
            return self.poll_only(from, sink);
        };
        let Driver { carrier, lines, finished, traffic, machine, .. } = self;
        carrier.poll_one(connection, &mut Delivery { lines, finished, traffic, machine, sink })
            | self.poll_only(from, sink)
    }

    fn pending(&self) -> bool {
        self.machine.pending() || self.carrier.pending() || self.datagrams.pending()
    }

    fn lend(&mut self, to: Peer, memory: Memory) -> Option<Loan> {
        self.machine.connection_to(to)?;
        self.carrier.lend(to, memory)
    }

    fn withdraw(&mut self, loan: Loan) {
        self.carrier.withdraw(loan);
    }

    fn returned(&mut self) -> Option<Loan> {
        self.carrier.returned()
    }

    fn read(&mut self, from: Peer, loan: Loan, memory: Memory, bytes: u64, token: u64) -> bool {
        let Some(connection) = self.machine.connection_of(from) else { return false };
        let begun = self.carrier.read(connection, loan, memory, bytes, token);
        self.traffic.reads += u64::from(begun);
        self.traffic.read_bytes += if begun { bytes } else { 0 };
        begun
    }

    fn completed(&mut self) -> Option<u64> {
        self.carrier.completed()
    }

    fn failure(&mut self) -> Option<(Peer, String)> {
        self.failures.pop_front()
    }
}

impl<C: Carrier> Driver<C> {
    /// Polls everything, but takes records of one peer only.
    fn poll_only(&mut self, wanted: Peer, sink: &mut impl Sink) -> bool {
        let mut taken = false;
        self.poll(&mut |from: Peer, header: Header, payload: &[u8]| {
            if from != wanted {
                return Verdict::Left;
            }
            let verdict = sink.arrived(from, header, payload);
            taken |= verdict == Verdict::Taken;
            verdict
        });
        taken
    }
}
