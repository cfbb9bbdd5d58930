//! Driver of the `adaptive` machines over a datagram endpoint and a carrier of connections.
//!
//! The machines decide whether a record goes by datagrams or straight to the carrier. A poll checks the
//! connections first, as they carry most of the traffic, and everything else as often as the machines
//! request.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use tutti_sys::job::ADDRESS_BYTES;
use tutti_sys::{kept, process};

use super::address::Whereabouts;
use super::carrier::{Carrier, CarrierKind, Event, Frames, place_of};
use super::counters::FabricCounters;
use super::datagrams::Datagrams;
use crate::adaptive::{Action, Adaptive, ConnectionId, Decision, Settings};
use crate::directory::Directory;
use crate::link::{Full, Header, Link, Peer, Sink, Verdict};
use crate::loan::{Loan, Memory};

/// Number of checks for datagrams between two for connection requests, each of which costs a system call. A
/// requesting process may wait that long.
const LOOKS_A_CONTROL: u32 = 8;
/// Interval, in a wait that does not sleep, of checks whether another process had this one called.
const LISTEN: Duration = Duration::from_millis(50);

/// State of a connection at the driver.
#[derive(Clone, Debug)]
struct Line {
    name: ConnectionId,
    peer: Peer,
    /// True if records found on it may be delivered.
    open: bool,
    /// True if the connection carries datagrams.
    is_contact: bool,
    /// Reason for which the carrier gave the connection up.
    ended: Option<String>,
}

/// Counts of the records that went over connections.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    sent_records: u64,
    sent_bytes: u64,
    received_records: u64,
    received_bytes: u64,
    reads: u64,
    read_bytes: u64,
}

/// Link to other hosts over datagrams and connections.
#[derive(Debug)]
pub struct Driver<C> {
    machine: Adaptive,
    carrier: C,
    datagrams: Datagrams,
    directory: Box<dyn Directory>,
    rank: u32,
    /// Addresses of this process, and of its peers.
    own: Whereabouts,
    peers: HashMap<u32, Whereabouts>,
    /// Restarts of this process from a checkpoint at that time.
    restarts: u32,
    /// Reasons for which connections that were to carry datagrams failed, by peer.
    refusals: HashMap<u32, String>,
    /// Time of the next check whether another process had this one called.
    listens_at: Duration,
    /// Flags of the remarks already made: each is made once.
    has_remarked: [bool; 2],
    /// Connections, indexed by [`place_of`].
    lines: Vec<Option<Line>>,
    /// Connections whose own end mark has found no room yet.
    finishing: Vec<ConnectionId>,
    /// Connections on which the peer's end mark was found.
    finished: Vec<ConnectionId>,
    failures: VecDeque<(Peer, String)>,
    /// Addresses that were asked for and have not come.
    lookups: usize,
    traffic: Traffic,
    start: Instant,
    /// Parts that the next poll looks at in any case.
    due: Due,
    /// Looks around until the carrier is asked for requests.
    until_control: u32,
    leaving: bool,
}

/// Parts of the driver that a poll looks at, each of which costs a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    directory: bool,
    datagrams: bool,
    /// [`Carrier::control`].
    control: bool,
    /// True if the carrier's descriptor was ready at the end of a sleep, which frames explain too.
    is_hint: bool,
}

impl Due {
    const ALL: Due = Due { directory: true, datagrams: true, control: true, is_hint: false };
    const NOTHING: Due = Due { directory: false, datagrams: false, control: false, is_hint: false };

    fn is_any(self) -> bool {
        self.directory || self.datagrams || self.control
    }
}

/// Hands the records of connections to the owner of the link.
struct Delivery<'a, S> {
    lines: &'a [Option<Line>],
    finished: &'a mut Vec<ConnectionId>,
    traffic: &'a mut Traffic,
    machine: &'a mut Adaptive,
    start: Instant,
    sink: &'a mut S,
}

impl<S: Sink> Frames for Delivery<'_, S> {
    #[inline]
    fn arrived(
        &mut self,
        connection: ConnectionId,
        kind: CarrierKind,
        header: Header,
        payload: &[u8],
    ) -> Verdict {
        let Some(Some(line)) = self.lines.get(place_of(connection)) else { return Verdict::Taken };
        if line.is_contact {
            // What else came on it is nobody's.
            if kind == CarrierKind::Datagram {
                self.machine.contacted(self.start.elapsed(), connection, payload, self.sink);
            }
            return Verdict::Taken;
        }
        if !line.open {
            return Verdict::Left;
        }
        if kind == CarrierKind::End {
            self.finished.push(connection);
            return Verdict::Taken;
        }
        if kind != CarrierKind::Record {
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
    /// Publishes where this process is reached in `directory`, and begins the connections that are wanted
    /// from the start. `restarts` is how often this process was made from a checkpoint ([`kept::restarts`])
    /// when that was found out.
    pub fn new(
        settings: Settings,
        own: Whereabouts,
        carrier: C,
        datagrams: Datagrams,
        mut directory: Box<dyn Directory>,
        restarts: u32,
    ) -> Driver<C> {
        if let Some(address) = crate::directory::Address::new(&own.encode(ADDRESS_BYTES)) {
            directory.publish(&address);
        }
        let rank = settings.rank;
        let mut driver = Driver {
            machine: Adaptive::new(settings),
            carrier,
            datagrams,
            directory,
            rank,
            own,
            restarts,
            peers: HashMap::new(),
            refusals: HashMap::new(),
            listens_at: Duration::ZERO,
            has_remarked: [false; 2],
            lines: Vec::new(),
            finishing: Vec::new(),
            finished: Vec::new(),
            failures: VecDeque::new(),
            lookups: 0,
            traffic: Traffic::default(),
            start: Instant::now(),
            due: Due::ALL,
            until_control: 0,
            leaving: false,
        };
        driver.machine.begin();
        driver.act();
        driver
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Updates the addresses after a restore from a checkpoint: this process and all its peers have new ones.
    #[cold]
    fn moved(&mut self) {
        self.restarts = kept::restarts();
        // It may be another machine, whose clock is anywhere, or years later: time goes on where it stood.
        let now = Instant::now();
        self.start = now.checked_sub(self.machine.now()).unwrap_or(now);
        self.carrier.moved();
        let Ok(datagrams) = self.datagrams.address() else { return };
        let listen = self.carrier.listen_address().to_vec();
        self.own = Whereabouts { datagrams, listen, host: process::host_name() };
        if let Some(address) = crate::directory::Address::new(&self.own.encode(ADDRESS_BYTES)) {
            self.directory.publish(&address);
        }
        let told = Whereabouts { host: String::new(), ..self.own.clone() }.encode(ADDRESS_BYTES);
        self.machine.moved(told, self.own.listen.clone());
        // Answers that have come are of before.
        while self.directory.poll().is_some() {}
        self.peers.clear();
        self.lookups = 0;
        for peer in self.machine.peers() {
            self.directory.request(peer.0);
            self.lookups += 1;
        }
        self.due = Due::ALL;
    }

    fn transmit(&mut self, now: Duration) {
        let Driver { datagrams, peers, carrier, .. } = self;
        self.machine.transmit(now, |peer, connection, bytes| match (connection, peers.get(&peer.0)) {
            (Some(connection), _) => {
                let fill = |room: &mut [u8]| room.copy_from_slice(bytes);
                carrier.send(connection, CarrierKind::Datagram, Header::default(), bytes.len(), fill).is_ok()
            }
            (None, Some(peer)) => datagrams.send(peer.datagrams, bytes),
            // Lost, as datagrams may be.
            (None, None) => true,
        });
    }

    /// Keeps where a peer is reached; false if that makes no sense.
    fn keep(&mut self, peer: Peer, bytes: &[u8]) -> bool {
        let Some(mut found) = Whereabouts::decode(bytes) else { return false };
        if let Some(known) = self.peers.get(&peer.0).filter(|_| found.host.is_empty()) {
            found.host.clone_from(&known.host);
        }
        self.peers.insert(peer.0, found);
        true
    }

    /// Connects for the datagrams of a peer.
    fn contact(&mut self, peer: Peer, connection: ConnectionId, private_data: &[u8]) {
        self.begin(peer, connection, true);
        let listen = self.peers.get(&peer.0).map_or(&[][..], |peer| &peer.listen);
        if listen.is_empty() {
            // A peer without a published listening address connects itself.
            self.machine.closed(self.now(), connection);
            return self.disconnect(connection);
        }
        self.carrier.connect_narrow(connection, listen, private_data);
    }

    /// Returns the error text for a peer that cannot be reached, with its reason and advice.
    fn unreachable(&self, peer: Peer) -> String {
        let there = self.peers.get(&peer.0).map_or("an unknown place".to_string(), Whereabouts::to_string);
        let why = self.refusals.get(&peer.0).map_or("no answer", String::as_str);
        format!(
            "rank {} at {} and rank {} at {there} hear nothing of each other, and neither can connect to the other ({why}): \
             a firewall between them has to let UDP or TCP to these ports through; TUTTI_PORT_RANGE=LOW-HIGH confines \
             the ports of a job, TUTTI_INTERFACE chooses the network",
            self.rank, self.own, peer.0
        )
    }

    /// Tells people what goes on, once.
    fn remark(&mut self, which: usize, text: &str) {
        if !std::mem::replace(&mut self.has_remarked[which], true) {
            eprintln!("Tutti: rank {}: {text}", self.rank);
        }
    }

    fn blocked(&mut self, peer: Peer) {
        let there = self.peers.get(&peer.0).map_or_else(String::new, |peer| format!(" ({peer})"));
        let why = self.refusals.get(&peer.0).map_or("there is no answer", String::as_str).to_string();
        let text = format!(
            "rank {}{there} does not answer, and cannot be connected to from here ({}: {why}); it was asked to connect \
             itself, and will if it is not computing",
            peer.0, self.own
        );
        self.remark(0, &text);
    }

    fn swallowed(&mut self, whom: &str) {
        let text = format!(
            "long packets to {whom} get lost while short ones arrive: the network on the way carries less than the interface \
             believes (its MTU), and what says so (ICMP) is dropped; it goes on with short packets over TCP, which is slower"
        );
        self.remark(1, &text);
    }

    /// Carries out the requests of the machines.
    fn act(&mut self) {
        while let Some(action) = self.machine.next_action() {
            let now = self.now();
            match action {
                Action::LookUp(peer) if self.peers.contains_key(&peer.0) => self.machine.reachable(now, peer),
                Action::LookUp(peer) => {
                    self.directory.request(peer.0);
                    self.lookups += 1;
                }
                Action::Address(peer, bytes) => {
                    if self.keep(peer, &bytes) {
                        self.machine.reachable(now, peer);
                    }
                }
                Action::Connect { peer, connection, address, private_data } => {
                    self.begin(peer, connection, false);
                    self.carrier.connect(connection, &address, &private_data);
                }
                Action::Contact { peer, connection, private_data } => {
                    self.contact(peer, connection, &private_data);
                }
                Action::Prove(connection, proof) => {
                    let fill = |room: &mut [u8]| room.copy_from_slice(&proof);
                    // The first on its connection: there is room, or the connection is gone, which is
                    // reported.
                    let _ = self.carrier.send(
                        connection,
                        CarrierKind::Datagram,
                        Header::default(),
                        proof.len(),
                        fill,
                    );
                }
                Action::Call(peer) => {
                    self.directory.call(peer.0);
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
                Action::Blocked(peer) => self.blocked(peer),
                Action::Swallowed(peer) => {
                    self.carrier.narrow();
                    let whom = self.peers.get(&peer.0).map(Whereabouts::to_string).unwrap_or_default();
                    self.swallowed(&format!("rank {} ({whom})", peer.0));
                }
                Action::Unreachable(peer) => {
                    let why = self.unreachable(peer);
                    if !self.leaving {
                        self.failures.push_back((peer, why));
                    }
                }
                Action::Lost(peer) => self.lost(peer),
            }
        }
    }

    fn begin(&mut self, peer: Peer, connection: ConnectionId, is_contact: bool) {
        let place = place_of(connection);
        if self.lines.len() <= place {
            self.lines.resize(place + 1, None);
        }
        self.lines[place] = Some(Line { name: connection, peer, open: false, is_contact, ended: None });
    }

    fn line(&mut self, connection: ConnectionId) -> Option<&mut Line> {
        self.lines.get_mut(place_of(connection))?.as_mut().filter(|line| line.name == connection)
    }

    /// Puts the end marks behind what was sent, where there is room now.
    fn finish(&mut self) {
        let carrier = &mut self.carrier;
        let mut sent =
            |connection| carrier.send(connection, CarrierKind::End, Header::default(), 0, |_| ()).is_ok();
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

    /// Fails for good, as the program has closed the socket under the library and no peer can be received.
    #[cold]
    fn fail_for_good(&mut self) {
        const WHY: &str = "this program has closed a descriptor that it did not open, the network socket of MPI; close only what \
                           the program itself has opened";
        let peer = Peer(self.peers.keys().min().copied().unwrap_or_default());
        if !self.leaving && self.failures.is_empty() {
            self.failures.push_back((peer, WHY.to_string()));
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
                        self.begin(peer, connection, self.machine.is_contact(connection));
                        self.carrier.accept(request, connection, &private_data);
                    }
                    Decision::Reject => self.carrier.reject(request),
                },
                Event::Reached(connection) => self.machine.reached(now, connection),
                Event::Narrow(host) => {
                    self.machine.narrow(now);
                    self.swallowed(&host);
                }
                Event::Established(connection, data) => self.machine.established(now, connection, &data),
                Event::Closed(connection, why) => {
                    if let Some(line) = self.line(connection) {
                        if line.is_contact {
                            let peer = line.peer.0;
                            self.refusals.insert(peer, why.clone());
                        }
                        if let Some(line) = self.line(connection) {
                            line.ended = Some(why);
                        }
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
                Some(address) if self.keep(peer, address.bytes()) => {
                    self.machine.reachable(now, peer);
                }
                _ => {
                    self.machine.gone(now, peer);
                    self.failures.push_back((peer, "it has ended, or never had an address".to_string()));
                }
            }
        }
    }

    /// Polls everything but the records of connections: datagrams, requests, answers, timers.
    fn look_around(&mut self, with_datagrams: bool, sink: &mut impl Sink) -> bool {
        let mut taken = false;
        let mut counted = |from: Peer, header: Header, payload: &[u8]| {
            let verdict = sink.arrived(from, header, payload);
            taken |= verdict == Verdict::Taken;
            verdict
        };
        if self.lookups > 0 {
            self.learn();
        }
        let now = self.now();
        let asked = std::mem::replace(&mut self.due, Due::NOTHING);
        if asked.directory || now >= self.listens_at {
            self.listens_at = now + LISTEN;
            while let Some(rank) = self.directory.called() {
                self.machine.called(now, Peer(rank));
            }
        }
        let (machine, start) = (&mut self.machine, self.start);
        if with_datagrams || asked.datagrams {
            self.datagrams.receive(|bytes| machine.datagram(start.elapsed(), bytes, &mut counted));
        }
        if self.datagrams.is_closed() {
            self.fail_for_good();
        }
        self.act();
        if self.until_control == 0 || asked.control || self.carrier.is_opening() {
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

    /// Returns true if the directory collects which hosts have called [`Directory::report_arrival`].
    pub fn collects_arrivals(&self) -> bool {
        self.directory.collects_arrivals()
    }

    /// Reports that all ranks of this host have called MPI_Finalize.
    pub fn report_arrival(&mut self) {
        self.directory.report_arrival();
    }

    /// Returns the counts so far.
    pub fn counters(&self) -> FabricCounters {
        let machine = self.machine.counters();
        let memory = self.carrier.memory_bytes()
            + self.peers.capacity() * size_of::<(u32, Whereabouts)>()
            + self.lines.capacity() * size_of::<Option<Line>>();
        let (registrations, reused_registrations) = self.carrier.registrations();
        FabricCounters {
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

    /// Prepares for sleep: see [`crate::FarLink::before_sleep`] for the result.
    pub fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> (bool, Option<Instant>) {
        self.due = Due::ALL;
        let quiet = self.carrier.before_sleep(descriptors);
        descriptors.push(self.datagrams.descriptor());
        descriptors.extend(self.directory.descriptor().map(|fd| fd.as_raw_fd()));
        let due = self.machine.deadline().map(|deadline| self.start + deadline);
        let look = self.carrier.rest().map(|rest| Instant::now() + rest);
        let until = due.into_iter().chain(look).min();
        (quiet && !self.machine.pending() && self.failures.is_empty(), until)
    }

    /// Notes what a sleep has found: see [`crate::FarLink::slept`]. After a time limit, everything is looked
    /// at.
    pub fn slept(&mut self, ready: &[RawFd]) {
        let now = self.now();
        let is_late = now >= self.listens_at || self.machine.deadline().is_some_and(|due| now >= due);
        if ready.is_empty() || is_late {
            return;
        }
        let directory = self.directory.descriptor().is_some_and(|fd| ready.contains(&fd.as_raw_fd()));
        let datagrams = ready.contains(&self.datagrams.descriptor());
        self.due = Due { directory, datagrams, control: self.carrier.is_ready(ready), is_hint: true };
        if !datagrams {
            self.machine.no_datagram();
        }
    }

    /// Accepts connections again for a further program in this process ([`crate::FarLink::reopen`]).
    pub fn reopen(&mut self) {
        if !std::mem::take(&mut self.leaving) {
            return;
        }
        for connection in self.lines.drain(..).flatten().map(|line| line.name) {
            self.carrier.disconnect(connection);
        }
        // What is still told of them means nothing to the new machines, which use the same names.
        while self.carrier.event().is_some() {}
        self.finishing.clear();
        self.finished.clear();
        self.failures.clear();
        self.machine = self.machine.renewed();
        self.machine.begin();
        self.due = Due::ALL;
        self.act();
    }

    /// Returns true once all sent records have left, as [`crate::FarLink::is_flushed`] describes.
    pub fn is_flushed(&mut self) -> bool {
        if !self.leaving {
            self.leaving = true;
            let now = self.now();
            self.machine.close(now);
        }
        self.due = Due::ALL;
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
            self.carrier.send(connection, CarrierKind::Record, header, bytes, fill)?;
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
        if kept::restarts() != self.restarts {
            self.moved();
        }
        let Driver { carrier, lines, finished, traffic, machine, start, .. } = self;
        let start = *start;
        let taken = carrier.poll(&mut Delivery { lines, finished, traffic, machine, start, sink });
        if taken && self.due.is_hint {
            self.due.control = false;
        }
        let due = self.machine.poll_datagrams() || !self.finishing.is_empty() || !self.finished.is_empty();
        if due || self.due.is_any() {
            return self.look_around(due, sink) | taken;
        }
        taken
    }

    fn poll_peer(&mut self, from: Peer, sink: &mut impl Sink) -> bool {
        let Some(connection) = self.machine.connection_to(from) else {
            // What comes by datagrams comes from everybody; it is kept where its turn has not come.
            return self.poll_only(from, sink);
        };
        let Driver { carrier, lines, finished, traffic, machine, start, .. } = self;
        let start = *start;
        carrier.poll_one(connection, &mut Delivery { lines, finished, traffic, machine, start, sink })
            | self.poll_only(from, sink)
    }

    fn pending(&self) -> bool {
        self.machine.pending() || self.carrier.pending()
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
