//! A network from a seed: datagrams are lost, doubled, delayed and overtaken; lines have a rate and a short
//! buffer, and are cut; connections fail to come about. Firewalls drop datagrams, long ones only, or
//! connections, in one direction or both. Processes compute and do not listen, and leave records that they
//! cannot take.
//!
//! Each process is driven as a real driver does it. Every record says which one of its pair it is, so it is
//! checked here that each arrives once, whole, and in order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use crate::adaptive::{Action, Adaptive, ConnectionId, Decision, Mode, Settings};
use crate::link::{Header, Peer, Sink, Verdict};

pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }
}

/// Faults of the network. Chances are in percent, times in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Weather {
    pub ranks: u32,
    pub mode: Mode,
    pub max_connections: usize,
    /// Every other process encrypts its datagrams.
    pub hides: bool,
    pub loss: u32,
    pub doubled: u32,
    pub delay: u64,
    pub jitter: u64,
    /// Bits a second and bytes of buffer of each process's line (0: no bound).
    pub rate: u64,
    pub buffer: u64,
    /// Datagrams that wait for a process that does not listen; more are lost.
    pub backlog: usize,
    /// Nothing passes in this time.
    pub cut: (u64, u64),
    /// Longest datagram that passes.
    pub longest: usize,
    /// Functions that decide whether datagrams pass from one process to another, and whether it can connect
    /// there.
    pub passes: fn(u32, u32) -> bool,
    pub connects: fn(u32, u32) -> bool,
    /// Process that gets datagrams only from peers to which it has sent some. Nobody connects to it.
    pub guarded: Option<u32>,
    /// True if the directory can request a peer to connect.
    pub can_call: bool,
    /// Percentage of connections that fail.
    pub failing: u32,
    /// Records that are left when first offered.
    pub left: u32,
    /// Polls after which a process computes, and for how long at most.
    pub computing: u32,
    pub compute: u64,
    pub record_bytes: usize,
}

impl Default for Weather {
    fn default() -> Weather {
        Weather {
            ranks: 2,
            mode: Mode::OnDemand,
            max_connections: 64,
            hides: false,
            loss: 0,
            doubled: 0,
            delay: 20,
            jitter: 0,
            rate: 0,
            buffer: 0,
            backlog: 1000,
            cut: (0, 0),
            longest: usize::MAX,
            passes: |_, _| true,
            connects: |_, _| true,
            guarded: None,
            can_call: true,
            failing: 0,
            left: 0,
            computing: 0,
            compute: 0,
            record_bytes: 32 << 10,
        }
    }
}

/// One record on a connection.
#[derive(Debug)]
enum Frame {
    Record(Header, Vec<u8>),
    Mark,
    Datagram(Vec<u8>),
}

#[derive(Debug)]
enum Event {
    Wake,
    Found(Peer, bool),
    Called(Peer),
    /// The system of the other end has accepted.
    Reached(u64),
    Datagram(Vec<u8>),
    /// A connection wanted by this end of the wire.
    Knock(u64, Vec<u8>),
    /// The answer of the other end; none: refused.
    Answer(u64, Option<Vec<u8>>),
    Frame(u64, Frame),
    Shutdown(u64),
}

/// One end of a connection.
#[derive(Debug)]
struct End {
    wire: u64,
    peer: u32,
    open: bool,
    is_contact: bool,
    up: bool,
    over: bool,
    frames: VecDeque<Frame>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub machine: Adaptive,
    ends: BTreeMap<ConnectionId, End>,
    backlog: VecDeque<Event>,
    datagrams: usize,
    busy_until: u64,
    line_free: u64,
    /// Messages that are still to be sent: peer and bytes.
    pub plan: VecDeque<(u32, usize)>,
    /// Next number of each peer's records, and what arrived.
    sent: BTreeMap<u32, u64>,
    received: BTreeMap<u32, u64>,
    pub lost: Vec<Peer>,
    pub unreachable: Vec<Peer>,
    pub blocked: u32,
    pub swallowed: u32,
    pub calls: u32,
    woken: u64,
    pub full: u64,
    pub closing: bool,
    /// Not there any more.
    pub exited: bool,
    exited_at: u64,
}

pub(super) struct World {
    pub weather: Weather,
    pub random: Random,
    pub nodes: Vec<Node>,
    queue: BinaryHeap<Reverse<(u64, u64, u32)>>,
    events: BTreeMap<u64, Event>,
    order: u64,
    pub now: u64,
    /// Pairs (sender, receiver) between which datagrams were sent.
    spoken: BTreeSet<(u32, u32)>,
    wires: BTreeMap<u64, [u32; 2]>,
    wire_free: BTreeMap<(u64, u32), u64>,
    next_wire: u64,
    /// Datagrams for which a line's buffer had no room.
    pub dropped: u64,
}

pub(super) fn settings(rank: u32, weather: &Weather) -> Settings {
    Settings {
        ranks: weather.ranks,
        rank,
        job: 7,
        secret: [9; 32],
        // One rank's setting is not the other's: each reads both.
        hides: weather.hides && rank % 2 == 1,
        seed: u128::from(rank).to_le_bytes(),
        datagram_bytes: 1472,
        record_bytes: weather.record_bytes,
        mode: weather.mode,
        threshold_messages: 16,
        threshold_bytes: 1 << 20,
        max_connections: weather.max_connections,
        max_contacts: 64,
        can_call: weather.can_call,
        sees_reach: true,
        address: if rank.is_multiple_of(2) { format!("datagram {rank}").into() } else { Vec::new() },
        listen_address: format!("listen {rank}").into(),
    }
}

fn byte(number: u64, place: usize) -> u8 {
    (number as usize).wrapping_mul(31).wrapping_add(place.wrapping_mul(7)) as u8
}

/// Checks and counts what arrives.
struct Inbox<'a> {
    received: &'a mut BTreeMap<u32, u64>,
    random: &'a mut Random,
    left: u32,
}

impl Sink for Inbox<'_> {
    fn arrived(&mut self, from: Peer, header: Header, payload: &[u8]) -> Verdict {
        let expected = self.received.entry(from.0).or_default();
        let number = header.0[0];
        assert_eq!(number, *expected, "from {}: once and in order", from.0);
        assert_eq!(header.0, [number, payload.len() as u64, !number]);
        assert!(payload.iter().enumerate().all(|(place, &found)| found == byte(number, place)));
        if self.random.chance(self.left) {
            return Verdict::Left;
        }
        *expected += 1;
        Verdict::Taken
    }
}

impl World {
    pub(super) fn new(seed: u64, weather: Weather) -> World {
        let node = |rank| Node {
            machine: Adaptive::new(settings(rank, &weather)),
            ends: BTreeMap::new(),
            backlog: VecDeque::new(),
            datagrams: 0,
            busy_until: 0,
            line_free: 0,
            plan: VecDeque::new(),
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            lost: Vec::new(),
            unreachable: Vec::new(),
            blocked: 0,
            swallowed: 0,
            calls: 0,
            woken: u64::MAX,
            full: 0,
            closing: false,
            exited: false,
            exited_at: 0,
        };
        World {
            nodes: (0..weather.ranks).map(node).collect(),
            random: Random(seed),
            weather,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            order: 0,
            now: 0,
            spoken: BTreeSet::new(),
            wires: BTreeMap::new(),
            wire_free: BTreeMap::new(),
            next_wire: 0,
            dropped: 0,
        }
    }

    fn at(&mut self, time: u64, node: u32, event: Event) {
        self.order += 1;
        self.events.insert(self.order, event);
        self.queue.push(Reverse((time, self.order, node)));
    }

    fn is_cut(&self, time: u64) -> bool {
        (self.weather.cut.0..self.weather.cut.1).contains(&time)
    }

    /// Runs until all plans are done and all records have arrived, or `until`.
    pub(super) fn run(&mut self, until: u64) {
        self.wake_all();
        self.drive(until, |world| world.is_quiet());
        assert!(self.is_quiet(), "not everything arrived by {} us", self.now);
    }

    /// Closes all processes at random times within `spread`, and runs until all have left.
    pub(super) fn finish(&mut self, spread: u64, until: u64) {
        for rank in 0..self.weather.ranks {
            let when = self.now + self.random.below(spread);
            self.nodes[rank as usize].exited_at = when;
            self.at(when, rank, Event::Wake);
        }
        for node in &mut self.nodes {
            node.closing = true;
        }
        self.drive(until, |world| world.nodes.iter().all(|node| node.exited));
        let stuck: Vec<u32> =
            (0..self.weather.ranks).filter(|&rank| !self.nodes[rank as usize].exited).collect();
        assert!(stuck.is_empty(), "{stuck:?} cannot leave");
    }

    /// Runs until `until`.
    pub(super) fn wait(&mut self, until: u64) {
        self.wake_all();
        self.drive(until, |_| false);
        self.now = self.now.max(until);
    }

    fn wake_all(&mut self) {
        (0..self.weather.ranks).for_each(|rank| self.at(self.now, rank, Event::Wake));
    }

    fn drive(&mut self, until: u64, done: impl Fn(&World) -> bool) {
        let mut steps = 0u64;
        while !done(self) {
            let Some(Reverse((time, order, rank))) = self.queue.pop() else { return };
            if time > until {
                self.queue.push(Reverse((time, order, rank)));
                return;
            }
            steps += 1;
            assert!(steps < 20_000_000, "too many events");
            self.now = self.now.max(time);
            let event = self.events.remove(&order).unwrap();
            self.deliver(rank, event);
        }
    }

    fn is_quiet(&self) -> bool {
        self.nodes.iter().enumerate().all(|(rank, node)| {
            node.plan.is_empty()
                && node.sent.iter().all(|(&to, &sent)| {
                    let there = &self.nodes[to as usize];
                    there.received.get(&(rank as u32)).copied().unwrap_or(0) == sent
                })
        })
    }

    fn deliver(&mut self, rank: u32, event: Event) {
        let backlog = self.weather.backlog;
        let node = &mut self.nodes[rank as usize];
        if node.exited {
            // Whoever knocks at a process that is gone is refused by its kernel.
            if let Event::Knock(wire, _) = event {
                self.answer(rank, wire, None);
            }
            return;
        }
        if let Event::Datagram(_) = event {
            if node.datagrams >= backlog {
                return;
            }
            node.datagrams += 1;
        }
        if let Event::Knock(wire, _) = event {
            // The system accepts at once, the process when it listens.
            let other = self.other_end(wire, rank);
            let delay = self.wire_delay();
            self.at(self.now + delay, other, Event::Reached(wire));
        }
        let node = &mut self.nodes[rank as usize];
        if matches!(event, Event::Wake) {
            node.woken = u64::MAX;
        }
        node.backlog.push_back(event);
        if self.now < node.busy_until {
            let when = node.busy_until;
            self.at_once_a_time(rank, when);
            return;
        }
        self.poll(rank);
    }

    fn at_once_a_time(&mut self, rank: u32, when: u64) {
        let node = &mut self.nodes[rank as usize];
        if when < node.woken {
            node.woken = when;
            self.at(when, rank, Event::Wake);
        }
    }

    /// Runs one round of a process: takes what has arrived, sends what is planned, carries out the requests.
    fn poll(&mut self, rank: u32) {
        let time = Duration::from_micros(self.now);
        let left = self.weather.left;
        let events = std::mem::take(&mut self.nodes[rank as usize].backlog);
        self.nodes[rank as usize].datagrams = 0;
        for event in events {
            self.take(rank, event, time);
        }
        self.drain(rank, time);
        let node = &mut self.nodes[rank as usize];
        let mut inbox = Inbox { received: &mut node.received, random: &mut self.random, left };
        node.machine.poll(time, &mut inbox);
        self.send_planned(rank, time);
        let node = &mut self.nodes[rank as usize];
        if node.closing && self.now >= node.exited_at {
            node.machine.close(time);
        }
        node.machine.tick(time);
        self.transmit(rank, time);
        self.act(rank, time);
        self.transmit(rank, time);
        let limit = self.weather.max_connections;
        let node = &mut self.nodes[rank as usize];
        let is_of_records = |end: &&End| !end.is_contact;
        assert!(node.ends.values().filter(is_of_records).count() <= limit, "more connections than allowed");
        if node.closing && node.machine.is_closed() {
            self.kill(rank);
            return;
        }
        if self.random.chance(self.weather.computing) {
            node.busy_until = self.now + self.random.below(self.weather.compute);
        }
        let retry = !node.plan.is_empty()
            || node.machine.pending()
            || left > 0
            || node.closing
            || node
                .ends
                .values()
                .any(|end| end.over || (end.open || end.is_contact) && !end.frames.is_empty());
        let deadline = node.machine.deadline().map(|due| due.as_micros() as u64 + 1);
        let soon = retry.then_some(self.now + 50);
        if let Some(when) = [deadline, soon].into_iter().flatten().min() {
            self.at_once_a_time(rank, when.max(self.now + 1));
        }
    }

    fn take(&mut self, rank: u32, event: Event, time: Duration) {
        let left = self.weather.left;
        let node = &mut self.nodes[rank as usize];
        match event {
            Event::Wake => {}
            Event::Found(peer, true) => node.machine.reachable(time, peer),
            Event::Found(peer, false) => node.machine.gone(time, peer),
            Event::Called(peer) => node.machine.called(time, peer),
            Event::Reached(wire) => {
                if let Some(id) = self.end(rank, wire) {
                    self.nodes[rank as usize].machine.reached(time, id);
                }
            }
            Event::Datagram(bytes) => {
                let mut inbox = Inbox { received: &mut node.received, random: &mut self.random, left };
                node.machine.datagram(time, &bytes, &mut inbox);
            }
            Event::Knock(wire, data) => {
                let decision = node.machine.requested(time, &data);
                let answer = match decision {
                    Decision::Reject => None,
                    Decision::Accept { connection, private_data, peer } => {
                        let is_contact = node.machine.is_contact(connection);
                        self.add_end(rank, connection, wire, peer.0, is_contact);
                        Some(private_data)
                    }
                };
                self.answer(rank, wire, answer);
            }
            Event::Answer(wire, data) => {
                let Some(id) = self.end(rank, wire) else { return };
                let node = &mut self.nodes[rank as usize];
                match data {
                    Some(data) => {
                        node.ends.get_mut(&id).unwrap().up = true;
                        node.machine.established(time, id, &data);
                    }
                    None => {
                        node.ends.remove(&id);
                        node.machine.closed(time, id);
                    }
                }
            }
            Event::Frame(wire, frame) => {
                let Some(id) = self.end(rank, wire) else { return };
                self.nodes[rank as usize].ends.get_mut(&id).unwrap().frames.push_back(frame);
            }
            Event::Shutdown(wire) => {
                let Some(id) = self.end(rank, wire) else { return };
                self.nodes[rank as usize].ends.get_mut(&id).unwrap().over = true;
            }
        }
    }

    fn answer(&mut self, rank: u32, wire: u64, data: Option<Vec<u8>>) {
        let other = self.other_end(wire, rank);
        let fails = self.random.chance(self.weather.failing);
        let data = if fails { None } else { data };
        let delay = self.wire_delay();
        if data.is_some() {
            self.at(self.now + 2 * delay, rank, Event::Answer(wire, Some(Vec::new())));
        } else {
            self.at(self.now + 2 * delay, rank, Event::Shutdown(wire));
        }
        self.at(self.now + delay, other, Event::Answer(wire, data));
    }

    fn other_end(&self, wire: u64, rank: u32) -> u32 {
        self.wires[&wire].into_iter().find(|&end| end != rank).unwrap()
    }

    fn wire_delay(&mut self) -> u64 {
        let delay = self.weather.delay + self.random.below(self.weather.jitter + 1);
        let end = if self.is_cut(self.now) { self.weather.cut.1 - self.now } else { 0 };
        delay + end
    }

    fn end(&self, rank: u32, wire: u64) -> Option<ConnectionId> {
        let ends = &self.nodes[rank as usize].ends;
        ends.iter().find(|(_, end)| end.wire == wire).map(|(&id, _)| id)
    }

    fn add_end(&mut self, rank: u32, id: ConnectionId, wire: u64, peer: u32, is_contact: bool) {
        let frames = VecDeque::new();
        let end = End { wire, peer, open: false, is_contact, up: false, over: false, frames };
        let old = self.nodes[rank as usize].ends.insert(id, end);
        assert!(old.is_none(), "a name in use was given again");
    }

    /// Delivers the frames that have arrived on connections.
    fn drain(&mut self, rank: u32, time: Duration) {
        let left = self.weather.left;
        let node = &mut self.nodes[rank as usize];
        let ids: Vec<ConnectionId> = node.ends.keys().copied().collect();
        for id in ids {
            let mut marked = false;
            let Some(end) = node.ends.get_mut(&id) else { continue };
            while end.open || end.is_contact {
                match end.frames.front() {
                    Some(Frame::Datagram(bytes)) => {
                        let mut inbox =
                            Inbox { received: &mut node.received, random: &mut self.random, left };
                        node.machine.contacted(time, id, bytes, &mut inbox);
                        end.frames.pop_front();
                    }
                    Some(Frame::Record(header, payload)) => {
                        let mut inbox =
                            Inbox { received: &mut node.received, random: &mut self.random, left };
                        if inbox.arrived(Peer(end.peer), *header, payload) == Verdict::Left {
                            break;
                        }
                        node.machine.used(id);
                        end.frames.pop_front();
                    }
                    Some(Frame::Mark) => {
                        end.frames.pop_front();
                        assert!(end.frames.is_empty(), "nothing follows an end mark");
                        marked = true;
                    }
                    None => break,
                }
            }
            if marked {
                // What follows from this is done before the connection's end is reported.
                node.machine.finished(time, id);
            } else if end.over && end.frames.is_empty() {
                node.ends.remove(&id);
                node.machine.closed(time, id);
            }
        }
    }

    fn send_planned(&mut self, rank: u32, time: Duration) {
        for _ in 0..8 {
            let node = &mut self.nodes[rank as usize];
            let Some(&(to, bytes)) = node.plan.front() else { return };
            let number = *node.sent.entry(to).or_default();
            let header = Header([number, bytes as u64, !number]);
            let fill = |room: &mut [u8]| {
                room.iter_mut().enumerate().for_each(|(place, byte_)| *byte_ = byte(number, place));
            };
            if let Some(id) = node.machine.connection_of(Peer(to)) {
                let mut payload = vec![0; bytes];
                fill(&mut payload);
                self.frame(rank, id, Frame::Record(header, payload));
            } else if node.machine.send(time, Peer(to), header, bytes, fill).is_err() {
                assert!(!node.machine.has_room(Peer(to), bytes));
                node.full += 1;
                return;
            }
            let node = &mut self.nodes[rank as usize];
            *node.sent.get_mut(&to).unwrap() += 1;
            node.plan.pop_front();
        }
    }

    fn frame(&mut self, rank: u32, id: ConnectionId, frame: Frame) {
        let end = &self.nodes[rank as usize].ends[&id];
        let (wire, peer) = (end.wire, end.peer);
        self.in_order(rank, wire, peer, Event::Frame(wire, frame));
    }

    /// Delivers an event of a connection after all earlier ones.
    fn in_order(&mut self, rank: u32, wire: u64, to: u32, event: Event) {
        let arrival = self.now + self.wire_delay();
        let free = self.wire_free.entry((wire, rank)).or_default();
        *free = arrival.max(*free + 1);
        let when = *free;
        self.at(when, to, event);
    }

    fn transmit(&mut self, rank: u32, time: Duration) {
        let mut out = Vec::new();
        let mut room = 20;
        self.nodes[rank as usize].machine.transmit(time, |to, by, bytes| {
            assert!(bytes.len() <= 1472, "a datagram that is too long");
            room -= 1;
            if room >= 0 {
                out.push((to.0, by, bytes.to_vec()));
            }
            room >= 0
        });
        for (to, by, bytes) in out {
            match by {
                Some(id) => self.frame(rank, id, Frame::Datagram(bytes)),
                None => self.datagram(rank, to, bytes),
            }
        }
    }

    pub(super) fn datagram(&mut self, rank: u32, to: u32, bytes: Vec<u8>) {
        let Weather { loss, doubled, delay, jitter, rate, buffer, .. } = self.weather;
        let mut leaves = self.now;
        if let Some(queued_us) = (buffer * 8_000_000).checked_div(rate) {
            let node = &mut self.nodes[rank as usize];
            leaves = node.line_free.max(self.now);
            if leaves - self.now > queued_us {
                self.dropped += 1;
                return;
            }
            leaves += bytes.len() as u64 * 8_000_000 / rate;
            node.line_free = leaves;
        }
        self.spoken.insert((rank, to));
        let is_let_in = self.weather.guarded != Some(to) || self.spoken.contains(&(to, rank));
        let passes = is_let_in && (self.weather.passes)(rank, to) && bytes.len() <= self.weather.longest;
        if self.is_cut(self.now) || !passes {
            return;
        }
        let copies = 1 + u32::from(self.random.chance(doubled));
        for _ in 0..copies {
            if !self.random.chance(loss) {
                let when = leaves + delay + self.random.below(jitter + 1);
                self.at(when, to, Event::Datagram(bytes.clone()));
            }
        }
    }

    fn act(&mut self, rank: u32, time: Duration) {
        let mut actions = 0;
        while let Some(action) = self.nodes[rank as usize].machine.next_action() {
            actions += 1;
            assert!(actions < 10_000, "actions without end");
            match action {
                Action::LookUp(peer) => {
                    let when = self.now + 100 + self.random.below(1000);
                    self.at(when, rank, Event::Found(peer, true));
                }
                Action::Address(peer, address) => {
                    assert_eq!(address, format!("datagram {}", peer.0).as_bytes());
                    self.nodes[rank as usize].machine.reachable(time, peer);
                }
                Action::Connect { peer, connection, address, private_data } => {
                    assert_eq!(address, format!("listen {}", peer.0).as_bytes());
                    self.knock(rank, (peer, connection), private_data, false);
                }
                Action::Contact { peer, connection, private_data } => {
                    self.knock(rank, (peer, connection), private_data, true);
                }
                Action::Prove(id, bytes) => self.frame(rank, id, Frame::Datagram(bytes)),
                Action::Call(peer) => {
                    assert!(self.weather.can_call, "there is nobody to ask");
                    self.nodes[rank as usize].calls += 1;
                    let when = self.now + 500 + self.random.below(2000);
                    self.at(when, peer.0, Event::Called(Peer(rank)));
                }
                Action::Blocked(_) => self.nodes[rank as usize].blocked += 1,
                Action::Swallowed(_) => self.nodes[rank as usize].swallowed += 1,
                Action::Unreachable(peer) => self.nodes[rank as usize].unreachable.push(peer),
                Action::Open(id) => self.nodes[rank as usize].ends.get_mut(&id).unwrap().open = true,
                Action::Finish(id) => self.frame(rank, id, Frame::Mark),
                Action::Disconnect(id) => {
                    if let Some(end) = self.nodes[rank as usize].ends.remove(&id) {
                        self.in_order(rank, end.wire, end.peer, Event::Shutdown(end.wire));
                    }
                }
                Action::Lost(peer) => self.nodes[rank as usize].lost.push(peer),
            }
        }
        self.drain(rank, time);
    }

    fn knock(&mut self, rank: u32, to: (Peer, ConnectionId), private_data: Vec<u8>, is_contact: bool) {
        let (peer, connection) = to;
        self.next_wire += 1;
        let wire = self.next_wire;
        self.wires.insert(wire, [rank, peer.0]);
        self.add_end(rank, connection, wire, peer.0, is_contact);
        let when = self.now + self.wire_delay();
        if (self.weather.connects)(rank, peer.0) && self.weather.guarded != Some(peer.0) {
            self.at(when, peer.0, Event::Knock(wire, private_data));
        } else if wire.is_multiple_of(2) {
            // Refused; others hear nothing at all.
            self.at(when, rank, Event::Answer(wire, None));
        }
    }

    /// Makes these ranks compute, or stops them, until `time`.
    pub(super) fn away(&mut self, ranks: std::ops::Range<u32>, time: u64) {
        ranks.for_each(|rank| self.nodes[rank as usize].busy_until = time);
    }

    /// Gives up the process: nothing leaves it, its connections are closed by its kernel.
    pub(super) fn kill(&mut self, rank: u32) {
        self.nodes[rank as usize].exited = true;
        for end in std::mem::take(&mut self.nodes[rank as usize].ends).into_values() {
            self.in_order(rank, end.wire, end.peer, Event::Shutdown(end.wire));
        }
    }

    /// Reports to `rank` that `peer` is dead.
    pub(super) fn tell_gone(&mut self, rank: u32, peer: u32) {
        self.at(self.now, rank, Event::Found(Peer(peer), false));
    }
}
