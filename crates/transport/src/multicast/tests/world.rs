//! Simulated network from a seed. Datagrams are lost, doubled, delayed and overtaken; records of the link are
//! delayed, but reliable and in order. Processes are busy, leave messages for which they have no room, and
//! miss datagrams.
//!
//! Every message contains its number at its sender. The test checks that each receiver gets each message
//! once, whole and in order, on any route.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use crate::link::{Header, KEEP, LINK_KIND, Peer, Verdict};
use crate::multicast::{Multicast, MulticastCounters, MulticastSettings};

/// Faults of the network and the processes. Chances are in percent, times in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Weather {
    pub ranks: u32,
    /// Number of processes that send to all others.
    pub senders: u32,
    /// Number of messages of each sender.
    pub messages: u64,
    /// Longest time between two messages.
    pub pause: u64,
    pub window: u64,
    pub loss: u32,
    pub doubled: u32,
    pub delay: u64,
    pub jitter: u64,
    /// Ranks that get no datagrams during `deaf_us`.
    pub deaf: &'static [u32],
    pub deaf_us: (u64, u64),
    /// Ranks that cannot listen for multicast.
    pub cannot: &'static [u32],
    /// Longest time for which a receiver does not poll.
    pub busy: u64,
    /// Percentage of messages that are left, followed by the time for which they are.
    pub leaves: u32,
    pub leaves_us: u64,
}

impl Weather {
    pub fn fair(ranks: u32) -> Weather {
        Weather {
            ranks,
            senders: 2,
            messages: 30,
            pause: 500,
            window: 64,
            loss: 0,
            doubled: 0,
            delay: 100,
            jitter: 0,
            deaf: &[],
            deaf_us: (0, u64::MAX),
            cannot: &[],
            busy: 0,
            leaves: 0,
            leaves_us: 2000,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A process looks.
    Look(u32),
    /// A datagram is there.
    Datagram(u32, Vec<u8>),
    /// A record of the link is there.
    Record(u32, u32, [u64; 3], Vec<u8>),
}

struct Process {
    machine: Multicast,
    /// Datagrams that have arrived and were not polled.
    datagrams: Vec<Vec<u8>>,
    records: Vec<(u32, Header, Vec<u8>)>,
    /// Number of the next message of each sender; then the message that is left, and until when.
    expected: BTreeMap<u32, u64>,
    left: BTreeMap<u32, (u64, u64)>,
    sent: u64,
    next_send: u64,
}

struct World<'a> {
    weather: &'a Weather,
    now: u64,
    order: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Time at which the last record of each pair arrives.
    lines: BTreeMap<(u32, u32), u64>,
    state: u64,
}

impl World<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ word >> 31) % bound.max(1)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.queue.push(Reverse((time, self.order, event)));
    }

    fn multicast(&mut self, from: u32, bytes: &[u8], each: usize) {
        let Weather { ranks, loss, doubled, delay, jitter, deaf, deaf_us, cannot, .. } = *self.weather;
        for datagram in bytes.chunks(each) {
            for to in (0..ranks).filter(|to| *to != from && !cannot.contains(to)) {
                let is_deaf = deaf.contains(&to) && (deaf_us.0..deaf_us.1).contains(&self.now);
                let copies =
                    if is_deaf || self.chance(loss) { 0 } else { 1 + u32::from(self.chance(doubled)) };
                for _ in 0..copies {
                    let time = self.now + delay + self.below(jitter + 1);
                    self.at(time, Event::Datagram(to, datagram.to_vec()));
                }
            }
        }
    }

    fn record(&mut self, from: u32, to: u32, header: Header, payload: &[u8]) {
        let time = self.now + self.weather.delay + self.below(self.weather.jitter + 1);
        let line = self.lines.entry((from, to)).or_default();
        *line = time.max(*line + 1);
        let time = *line;
        self.at(time, Event::Record(to, from, header.0, payload.to_vec()));
    }
}

/// Returns the content of message `number` of `sender`. Its length depends on both.
fn content(sender: u32, number: u64) -> Vec<u8> {
    let bytes = [0, 8, 100, 1412, 1413, 5000, 64 << 10][(number as usize * 7 + sender as usize) % 7];
    (0..bytes).map(|byte: u64| (byte * 31 + number * 7 + u64::from(sender)) as u8).collect()
}

/// Lets all messages be sent and received; what all senders counted together.
pub(super) fn check(weather: &Weather, seed: u64) -> MulticastCounters {
    let mut world =
        World { weather, now: 0, order: 0, queue: BinaryHeap::new(), lines: BTreeMap::new(), state: seed };
    let process = |rank| {
        let settings =
            MulticastSettings { job: 3, rank, ranks: weather.ranks, secret: [5; 32], window: weather.window };
        Process {
            machine: Multicast::new(&settings),
            datagrams: Vec::new(),
            records: Vec::new(),
            expected: BTreeMap::new(),
            left: BTreeMap::new(),
            sent: 0,
            next_send: 0,
        }
    };
    let mut processes: Vec<Process> = (0..weather.ranks).map(process).collect();
    (0..weather.ranks).for_each(|rank| world.at(0, Event::Look(rank)));
    let others = u64::from(weather.ranks - 1);
    let all = u64::from(weather.senders) * weather.messages * others;
    while let Some(Reverse((time, _, event))) = world.queue.pop() {
        world.now = time;
        assert!(time < 600_000_000, "seed {seed}: {} of {all} messages came", received(&processes));
        match event {
            Event::Datagram(to, bytes) => processes[to as usize].datagrams.push(bytes),
            Event::Record(to, from, header, payload) => {
                processes[to as usize].records.push((from, Header(header), payload));
            }
            Event::Look(rank) => {
                look(&mut world, &mut processes[rank as usize], rank, seed);
                let is_over = received(&processes) == all
                    && processes.iter().all(|process| process.machine.is_at_rest());
                if is_over {
                    break;
                }
                let busy = world.below(weather.busy + 1);
                world.at(time + 50 + busy, Event::Look(rank));
            }
        }
    }
    assert_eq!(received(&processes), all, "seed {seed}: nothing happens any more");
    let mut counters = MulticastCounters::default();
    for one in processes.iter().map(|process| process.machine.counters()) {
        counters.bytes += one.bytes;
        counters.sent += one.sent;
        counters.repeated += one.repeated;
        counters.repaired += one.repaired;
        counters.demoted += one.demoted;
        counters.declined += one.declined;
        assert_eq!((one.forged, one.foreign, one.malformed, one.absurd), (0, 0, 0, 0), "seed {seed}");
    }
    counters
}

fn received(processes: &[Process]) -> u64 {
    processes.iter().flat_map(|process| process.expected.values()).sum()
}

/// Runs one poll of a process, like a driver.
fn look(world: &mut World<'_>, process: &mut Process, rank: u32, seed: u64) {
    let weather = world.weather;
    let now = Duration::from_micros(world.now);
    let Process { machine, expected, left, .. } = process;
    let mut leaves = world.below(100) < u64::from(weather.leaves);
    let time = world.now;
    let mut deliver = |from: Peer, header: Header, payload: &[u8]| {
        let next = expected.entry(from.0).or_default();
        let keep = header.0[0] & KEEP != 0;
        assert_eq!(
            (header.0[0] & !KEEP, header.0[1]),
            (1, *next),
            "seed {seed}: rank {rank} from {}",
            from.0
        );
        assert!(payload == content(from.0, *next), "seed {seed}: message {next} is not what was sent");
        let until = match left.get(&from.0) {
            Some(&(number, until)) if number == *next => until,
            _ if leaves => time + weather.leaves_us,
            _ => 0,
        };
        if until > time && !keep && header.0[2] == 0 {
            left.insert(from.0, (*next, until));
            return Verdict::Left;
        }
        leaves = false;
        *next += 1;
        Verdict::Taken
    };
    for (from, header, payload) in process.records.drain(..) {
        if header.0[0] & 0xff == LINK_KIND {
            let listens = !weather.cannot.contains(&rank);
            machine.told(now, Peer(from), header, &payload, listens, &mut deliver);
        } else {
            // What comes another way is never left.
            let taken = deliver(Peer(from), Header([header.0[0], header.0[1], 1]), &payload);
            assert_eq!(taken, Verdict::Taken);
        }
    }
    for datagram in process.datagrams.drain(..) {
        machine.datagram(now, &datagram, &mut deliver);
    }
    machine.poll(now, &mut deliver);
    hand_back(world, process, rank);
    if rank < weather.senders && process.sent < weather.messages && world.now >= process.next_send {
        send(world, process, rank);
    }
    let mut batches: Vec<(Vec<u8>, usize)> = Vec::new();
    let mut words: Vec<(u32, Header, Vec<u8>)> = Vec::new();
    // Now and then there is no room.
    let (full, quiet) = (world.chance(10), world.chance(10));
    process.machine.transmit(
        now,
        |batch| {
            batches.extend((!full).then(|| (batch.bytes.to_vec(), batch.each)));
            !full
        },
        |peer, header, payload| {
            words.extend((!quiet).then(|| (peer.0, header, payload.to_vec())));
            !quiet
        },
    );
    batches.iter().for_each(|(bytes, each)| world.multicast(rank, bytes, *each));
    words.iter().for_each(|(to, header, payload)| world.record(rank, *to, *header, payload));
}

fn hand_back(world: &mut World<'_>, process: &mut Process, rank: u32) {
    while let Some((peer, header, payload)) = process.machine.handed_back() {
        world.record(rank, peer.0, header, &payload);
    }
}

fn send(world: &mut World<'_>, process: &mut Process, rank: u32) {
    let weather = world.weather;
    let to: Vec<Peer> = (0..weather.ranks).filter(|to| *to != rank).map(Peer).collect();
    let payload = content(rank, process.sent);
    let header = Header([1, process.sent, 0]);
    let mut rest = Vec::new();
    let now = Duration::from_micros(world.now);
    let fill = |room: &mut [u8]| room.copy_from_slice(&payload);
    if process.machine.send(now, &to, header, payload.len(), fill, &mut rest).is_ok() {
        process.sent += 1;
        process.next_send = world.now + world.below(weather.pause);
        rest.iter().for_each(|peer| world.record(rank, peer.0, header, &payload));
    } else {
        assert!(rest.is_empty(), "who is told to wait has sent nothing");
    }
}
