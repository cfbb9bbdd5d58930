//! Tests of receivers with little room for unexpected messages: the bound holds, and all messages arrive in
//! order.

use tutti_base::config::Config;
use tutti_base::traffic::TRAFFIC;

use super::tests::{Process, config, is_complete, pattern_bytes, processes, receive, send, settle};
use super::{Check, Message, Mode, ReceiveSpec, SendSpec};
use crate::buffer::Buffer;
use crate::flow::{LEAST_WINDOW, eager_cost};
use crate::matching::{Envelope, Pattern};
use crate::request::{Request, RequestId, Work};
use tutti_base::WorldRank;

const BOUND: u64 = 4096;

fn tight() -> Config {
    config().changed(|c| c.messages.unexpected_bytes = BOUND)
}

/// Returns the bytes of unexpected messages that a process keeps.
fn kept(process: &Process) -> u64 {
    let payload = |message: &Message| match message {
        Message::Eager { payload, .. } => payload.len() as u64,
        _ => 0,
    };
    process.state.matcher.kept_anywhere().map(|(_, message)| eager_cost(payload(message))).sum()
}

/// Sends `count` messages of `bytes` bytes from three processes to one, which receives them in the order
/// `order`.
fn check_flood(bytes: usize, count: i32, order: impl Fn(i32) -> i32) {
    let mut all = processes(4, &tight());
    let data = |from: u32, tag: i32| pattern_bytes(u64::from(from) * 1000 + tag as u64, bytes);
    let mut ids = Vec::new();
    for tag in 0..count {
        for from in 1..4 {
            let mode = if tag % 7 == 3 { Mode::Synchronous } else { Mode::Standard };
            let id = send(&mut all[from as usize], from, 0, tag, data(from, tag), mode);
            ids.push((from as usize, id));
        }
        settle(&mut all);
        assert!(kept(&all[0]) <= BOUND, "{} bytes are kept after {tag} messages of {bytes}", kept(&all[0]));
    }
    for number in 0..count {
        let tag = order(number);
        for from in 1..4 {
            let (id, buffer) = receive(&mut all[0], Some(from), Some(tag), bytes);
            settle(&mut all);
            assert!(is_complete(&all[0], id), "message {tag} of {from}, {bytes} bytes");
            assert_eq!(buffer.to_vec(), data(from, tag), "message {tag} of {from}");
        }
    }
    settle(&mut all);
    assert!(ids.iter().all(|(from, id)| is_complete(&all[*from], *id)));
    assert!(all[0].state.pulling.is_idle() && all[0].state.kept() == 0);
    assert!(all[1..].iter_mut().all(|one| one.state.peers.get(tutti_transport::Peer(0)).withheld.is_none()));
    let (id, _) = receive(&mut all[0], Some(1), Some(0), bytes);
    send(&mut all[1], 1, 0, 0, data(1, 0), Mode::Standard);
    settle(&mut all);
    assert!(is_complete(&all[0], id), "all goes on as before");
}

#[test]
fn floods_of_any_length_keep_the_bound_and_arrive() {
    for bytes in [0, 8, 200, 256, 5000] {
        check_flood(bytes, 100, |number| number);
        check_flood(bytes, 100, |number| 99 - number);
        check_flood(bytes, 100, |number| number * 37 % 100);
    }
}

#[test]
fn a_collective_gets_past_a_flood() {
    let mut all = processes(2, &tight());
    for tag in 0..100 {
        send(&mut all[0], 0, 1, tag, Vec::new(), Mode::Standard);
    }
    settle(&mut all);
    // The plane differs, as for messages of a collective.
    let envelope = Envelope { context: 1, source: 0, tag: 7 };
    let id = all[0].state.insert(Request::new(Work::Other, 0));
    let buffer = Buffer::owned(pattern_bytes(1, 50));
    let spec = SendSpec { buffer, peer: WorldRank(1), envelope, mode: Mode::Standard, signature: 3 };
    all[0].start_send(id, spec);
    settle(&mut all);
    assert!(!is_complete(&all[0], id));
    let buffer = Buffer::owned(vec![0; 50]);
    let receiving = all[1].state.insert(Request::new(Work::Other, 0));
    let pattern = Pattern { context: 1, source: Some(0), tag: Some(7) };
    let spec = ReceiveSpec { buffer: buffer.clone(), pattern, from: None, check: Check::Nothing };
    all[1].start_receive(receiving, spec);
    settle(&mut all);
    assert!(is_complete(&all[0], id) && is_complete(&all[1], receiving));
    assert_eq!(buffer.to_vec(), pattern_bytes(1, 50));
}

/// Returns the next pseudo-random number of a seed, below a limit.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sent {
    from: u32,
    context: u32,
    tag: i32,
    id: RequestId,
    /// Number of the receive that got the message.
    by: Option<usize>,
    cancelled: bool,
}

struct Posted {
    pattern: Pattern,
    id: RequestId,
    buffer: Buffer,
    got: Option<usize>,
}

/// Messages that two processes have sent to a third one, and its receives.
struct World {
    all: Vec<Process>,
    sent: Vec<Sent>,
    posted: Vec<Posted>,
    seed: u64,
}

const RECEIVER: usize = 2;
const LONGEST: usize = 600;

impl World {
    fn send(&mut self) {
        let seed = &mut self.seed;
        let (from, context) = (random(seed, 2) as u32, 8 * random(seed, 2) as u32);
        let tag = random(seed, 4) as i32;
        let bytes = [8, 8, 40, 250, LONGEST][random(seed, 5) as usize];
        let mut data = pattern_bytes(0, bytes);
        data[..8].copy_from_slice(&(self.sent.len() as u64).to_le_bytes());
        let mode = if random(seed, 4) == 0 { Mode::Synchronous } else { Mode::Standard };
        let process = &mut self.all[from as usize];
        let id = process.state.insert(Request::new(Work::Other, 0));
        let envelope = Envelope { context, source: from, tag };
        let spec = SendSpec { buffer: Buffer::owned(data), peer: WorldRank(2), envelope, mode, signature: 0 };
        process.start_send(id, spec);
        self.sent.push(Sent { from, context, tag, id, by: None, cancelled: false });
    }

    fn pattern(&mut self) -> Pattern {
        let seed = &mut self.seed;
        let source = [Some(0), Some(1), None][random(seed, 3) as usize];
        let tag = Some(random(seed, 6) as i32).filter(|tag| *tag < 4);
        Pattern { context: 8 * random(seed, 2) as u32, source, tag }
    }

    fn post(&mut self, pattern: Pattern) {
        let process = &mut self.all[RECEIVER];
        let buffer = Buffer::owned(vec![0; LONGEST]);
        let id = process.state.insert(Request::new(Work::Other, 0));
        let spec = ReceiveSpec { buffer: buffer.clone(), pattern, from: None, check: Check::Nothing };
        process.start_receive(id, spec);
        self.posted.push(Posted { pattern, id, buffer, got: None });
    }

    /// Performs a matched probe. A message that it takes counts as a receive posted now.
    fn take(&mut self, pattern: Pattern) {
        let Some((status, (envelope, message))) = self.all[RECEIVER].matched_probe(pattern) else { return };
        assert_eq!((status.source as u32, status.tag), (envelope.source, envelope.tag));
        let process = &mut self.all[RECEIVER];
        let buffer = Buffer::owned(vec![0; LONGEST]);
        let id = process.state.insert(Request::new(Work::Other, 0));
        let spec = ReceiveSpec { buffer: buffer.clone(), pattern, from: None, check: Check::Nothing };
        process.start_receive_message(id, spec, envelope, message);
        self.posted.push(Posted { pattern, id, buffer, got: None });
    }

    /// Performs a probe, and posts a receive for the message that it has found.
    fn look(&mut self, pattern: Pattern) {
        let Some(status) = self.all[RECEIVER].probe(pattern) else { return };
        let source = Some(status.source as u32);
        self.post(Pattern { source, tag: Some(status.tag), ..pattern });
    }

    fn cancel(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let which = random(&mut self.seed, self.sent.len() as u64) as usize;
        let Sent { from, id, .. } = self.sent[which];
        if !is_complete(&self.all[from as usize], id) {
            self.all[from as usize].cancel(id);
        }
    }

    fn step(&mut self, with_cancel: bool) {
        match random(&mut self.seed, if with_cancel { 12 } else { 11 }) {
            0..4 => self.send(),
            4..6 => {
                let pattern = self.pattern();
                self.post(pattern);
            }
            6 => {
                let pattern = self.pattern();
                self.take(pattern);
            }
            7 => {
                let pattern = self.pattern();
                self.look(pattern);
            }
            8..11 => {
                let one = random(&mut self.seed, 3) as usize;
                self.all[one].progress();
            }
            _ => self.cancel(),
        }
        let limit = BOUND.max(2 * LEAST_WINDOW) + eager_cost(0) * 4;
        assert!(kept(&self.all[RECEIVER]) <= limit, "{} bytes are kept", kept(&self.all[RECEIVER]));
    }

    /// Records which receive has got which message.
    fn read(&mut self) {
        for (number, posted) in self.posted.iter_mut().enumerate() {
            if !is_complete(&self.all[RECEIVER], posted.id) {
                continue;
            }
            let data = posted.buffer.to_vec();
            let which = u64::from_le_bytes(data[..8].try_into().unwrap()) as usize;
            let sent = &mut self.sent[which];
            assert!(posted.pattern.fits(Envelope {
                context: sent.context,
                source: sent.from,
                tag: sent.tag
            }));
            assert_eq!(sent.by, None, "message {which} came twice");
            (sent.by, posted.got) = (Some(number), Some(which));
        }
        for sent in &mut self.sent {
            let status = self.all[sent.from as usize].state.requests.get(sent.id).map(|one| one.status);
            sent.cancelled = status.is_some_and(|status| status.cancelled);
            assert!(!sent.cancelled || sent.by.is_none(), "received and cancelled");
            let is_over = is_complete(&self.all[sent.from as usize], sent.id);
            assert!(is_over || sent.by.is_none(), "received, but its sender does not know");
        }
    }

    /// Checks the order of matching: messages of one source in the order of sending, receives in the order of
    /// posting (MPI-5 section 3.5).
    fn check_order(&self) {
        for (number, posted) in self.posted.iter().enumerate() {
            for (which, sent) in self.sent.iter().enumerate().filter(|(_, sent)| !sent.cancelled) {
                let Sent { context, from: source, tag, .. } = *sent;
                if !posted.pattern.fits(Envelope { context, source, tag }) {
                    continue;
                }
                assert!(posted.got.is_some() || sent.by.is_some(), "{sent:?} and {:?}", posted.pattern);
                if let Some(got) = posted.got
                    && got > which
                    && self.sent[got].from == source
                {
                    let by = sent.by.expect("a message that was overtaken was received");
                    assert!(by < number, "receive {number} got message {got}, not {which}, which {by} got");
                }
                if let Some(by) = sent.by.filter(|by| *by > number) {
                    let got = posted.got.expect("a receive that was overtaken has got a message");
                    assert!(
                        self.sent[got].from != source || got < which,
                        "message {which} went to receive {by}, not to {number}, which got {got}"
                    );
                }
            }
        }
    }
}

/// Performs random sends and receives, from a seed.
fn check_random(seed: u64, steps: usize, with_cancel: bool) {
    let mut world = World { all: processes(3, &tight()), sent: Vec::new(), posted: Vec::new(), seed };
    for _ in 0..steps {
        world.step(with_cancel);
    }
    settle(&mut world.all);
    // Wildcard probes take the remaining messages.
    for context in (0..4000).map(|turn| 8 * (turn % 2)) {
        if world.all[RECEIVER].state.pulling.wishes_claimed() == 0 {
            break;
        }
        world.look(Pattern { context, source: None, tag: None });
        settle(&mut world.all);
    }
    assert_eq!(world.all[RECEIVER].state.pulling.wishes_claimed(), 0, "claims are taken or declined");
    world.read();
    world.check_order();
}

#[test]
fn random_messages_match_in_order_where_there_is_no_room() {
    let before = TRAFFIC.withheld.transfers.get();
    for seed in 0..300 {
        check_random(seed, 400, seed % 2 == 1);
    }
    assert!(TRAFFIC.withheld.transfers.get() - before > 300 * 20, "messages are withheld all the time");
}

/// Checks that a probe finds a message behind a flood, and that a receive with the probe's result gets it.
fn check_probe(takes: bool, source: Option<u32>) {
    let mut all = processes(3, &tight());
    for from in 0..2 {
        for number in 0..50 {
            send(&mut all[from as usize], from, 2, 1, pattern_bytes(number, 10), Mode::Standard);
        }
    }
    settle(&mut all);
    let pattern = Pattern { context: 0, source, tag: Some(9) };
    assert!(all[2].probe(pattern).is_none() && all[2].matched_probe(pattern).is_none());
    settle(&mut all);
    assert!(all[2].probe(pattern).is_none() && all[2].matched_probe(pattern).is_none());
    let id = send(&mut all[1], 1, 2, 9, pattern_bytes(1, 70), Mode::Standard);
    settle(&mut all);
    let status = all[2].probe(pattern).expect("it is there");
    assert_eq!((status.source, status.tag, status.bytes), (1, 9, 70));
    let buffer = Buffer::owned(vec![0; 70]);
    let spec = ReceiveSpec { buffer: buffer.clone(), pattern, from: None, check: Check::Nothing };
    let receiving = all[2].state.insert(Request::new(Work::Other, 0));
    if takes {
        let taken = all[2].matched_probe(pattern).or_else(|| {
            settle(&mut all);
            all[2].matched_probe(pattern)
        });
        let (_, (envelope, message)) = taken.expect("it was claimed");
        all[2].start_receive_message(receiving, spec, envelope, message);
    } else {
        all[2].start_receive(receiving, spec);
    }
    settle(&mut all);
    assert!(is_complete(&all[2], receiving) && is_complete(&all[1], id));
    assert_eq!(buffer.to_vec(), pattern_bytes(1, 70));
    assert!(all[2].probe(pattern).is_none(), "it is gone");
}

#[test]
fn probes_see_what_is_withheld() {
    for takes in [false, true] {
        check_probe(takes, Some(1));
        check_probe(takes, None);
    }
}

#[test]
fn probes_that_take_do_not_stand_in_the_way_of_others() {
    let mut all = processes(2, &tight());
    for tag in [1; 50].into_iter().chain([5, 6]) {
        send(&mut all[0], 0, 1, tag, pattern_bytes(tag as u64, 10), Mode::Standard);
    }
    settle(&mut all);
    let pattern = |tag| Pattern { context: 0, source: Some(0), tag: Some(tag) };
    assert!(all[1].matched_probe(pattern(5)).is_none());
    settle(&mut all);
    // The program no longer probes for 5.
    let found = (0..200).any(|_| {
        let found = all[1].matched_probe(pattern(6)).is_some();
        settle(&mut all);
        found
    });
    assert!(found, "message 6 is not found while message 5 is claimed");
    // A receive that is posted has precedence.
    assert!(all[1].matched_probe(pattern(5)).is_none());
    settle(&mut all);
    let (id, _) = receive(&mut all[1], Some(0), Some(5), 10);
    settle(&mut all);
    assert!(is_complete(&all[1], id));
}

#[test]
fn what_is_withheld_can_be_cancelled() {
    let mut all = processes(2, &tight());
    let ids: Vec<RequestId> =
        (0..100).map(|tag| send(&mut all[0], 0, 1, tag, pattern_bytes(1, 8), Mode::Standard)).collect();
    settle(&mut all);
    let last = Pattern { context: 0, source: Some(0), tag: Some(99) };
    all[1].probe(last);
    settle(&mut all);
    assert!(all[1].probe(last).is_some());
    for id in ids[50..].iter().rev() {
        all[0].cancel(*id);
    }
    settle(&mut all);
    let was_cancelled = |id: &RequestId| all[0].state.requests.get(*id).unwrap().status.cancelled;
    assert!(ids[50..].iter().all(was_cancelled));
    assert!(all[1].probe(last).is_none(), "what was seen is gone");
    for tag in 0..50 {
        let (id, _) = receive(&mut all[1], None, Some(tag), 8);
        settle(&mut all);
        assert!(is_complete(&all[1], id));
    }
}
