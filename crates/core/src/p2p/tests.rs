//! Tests of the protocols over the link in memory: every size class, wildcards, both orders of arrival.

use std::sync::Arc;

use tutti_base::config::{Config, SingleCopy};
use tutti_base::{ErrorClass, WorldRank};
use tutti_sys::job::{Job, Plan};
use tutti_transport::Peer;
use tutti_transport::memory::MemoryLink;

use super::{Check, Limits, Mode, PointToPoint, ReceiveSpec, SendSpec};
use crate::buffer::Buffer;
use crate::matching::{Envelope, Pattern};
use crate::request::{Request, RequestId, Work};
use crate::single_copy::Reader;

pub(super) type Process = PointToPoint<MemoryLink>;

pub(super) fn processes(count: u32, config: &Config) -> Vec<Process> {
    let plan = Plan::one_host(count);
    let job = Arc::new(Job::create(&plan).unwrap());
    let links = MemoryLink::connected(count, 8, 1 << 10);
    let new = |(rank, link): (usize, MemoryLink)| {
        let limits = Limits::new(config, 1 << 10, u64::from(count));
        PointToPoint::new(link, Peer(rank as u32), limits, Reader::new(config, Arc::clone(&job)))
    };
    links.into_iter().enumerate().map(new).collect()
}

pub(super) fn config() -> Config {
    Config::default().changed(|c| {
        c.messages.single_copy = SingleCopy::Never;
        c.messages.eager_bytes = 256;
        c.messages.fragment_bytes = 200;
    })
}

pub(super) fn pattern_bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(31).wrapping_add(seed * 7) % 251) as u8).collect()
}

pub(super) fn send(from: &mut Process, me: u32, to: u32, tag: i32, data: Vec<u8>, mode: Mode) -> RequestId {
    let id = from.state.insert(Request::new(Work::Other, 0));
    let envelope = Envelope { context: 0, source: me, tag };
    let spec = SendSpec { buffer: Buffer::owned(data), peer: WorldRank(to), envelope, mode, signature: 0 };
    from.start_send(id, spec);
    id
}

pub(super) fn receive(
    at: &mut Process,
    source: Option<u32>,
    tag: Option<i32>,
    bytes: usize,
) -> (RequestId, Buffer) {
    let buffer = Buffer::owned(vec![0; bytes]);
    let id = at.state.insert(Request::new(Work::Other, 0));
    let pattern = Pattern { context: 0, source, tag };
    at.start_receive(id, ReceiveSpec { buffer: buffer.clone(), pattern, from: None, check: Check::Nothing });
    (id, buffer)
}

pub(super) fn settle(all: &mut [Process]) {
    for _ in 0..10_000 {
        let moved = all.iter_mut().fold(false, |moved, process| process.progress() | moved);
        if !moved && all.iter_mut().all(|process| !process.pending()) {
            break;
        }
    }
    assert!(all.iter().all(|process| process.state.fault.is_none()));
}

pub(super) fn is_complete(process: &Process, id: RequestId) -> bool {
    process.state.requests.get(id).is_none_or(|request| request.complete)
}

/// Sends one message of `bytes` bytes, which is received before or after it arrives.
fn check(bytes: usize, mode: Mode, to: u32, post_first: bool) {
    let mut all = processes(2, &config());
    let data = pattern_bytes(3, bytes);
    let to_place = to as usize;
    let early = post_first.then(|| receive(&mut all[to_place], Some(0), Some(5), bytes + 10));
    let sending = send(&mut all[0], 0, to, 5, data.clone(), mode);
    settle(&mut all);
    if !post_first && (mode == Mode::Synchronous || bytes > 256) {
        assert!(!is_complete(&all[0], sending), "{bytes} {mode:?} completed without its receive");
    }
    let (receiving, buffer) = early.unwrap_or_else(|| receive(&mut all[to_place], None, None, bytes + 10));
    settle(&mut all);
    assert!(is_complete(&all[0], sending) && is_complete(&all[to_place], receiving), "{bytes} {mode:?}");
    let status = all[to_place].state.requests.get(receiving).unwrap().status;
    assert_eq!((status.source, status.tag, status.bytes), (0, 5, bytes as u64));
    assert_eq!(buffer.to_vec()[..bytes], data[..]);
}

#[test]
fn messages_of_every_kind_arrive() {
    for bytes in [0, 1, 32, 255, 256, 257, 1000, 1024, 1025, 100_000] {
        for mode in [Mode::Standard, Mode::Synchronous] {
            for to in [0, 1] {
                check(bytes, mode, to, true);
                check(bytes, mode, to, false);
            }
        }
    }
}

#[test]
fn a_short_buffer_is_reported_and_hurts_nobody_else() {
    for bytes in [100, 5000] {
        for to in [0, 1] {
            let mut all = processes(2, &config());
            let (receiving, buffer) = receive(&mut all[to as usize], Some(0), Some(1), 60);
            let sending = send(&mut all[0], 0, to, 1, pattern_bytes(1, bytes), Mode::Standard);
            settle(&mut all);
            assert!(is_complete(&all[0], sending));
            let request = all[to as usize].state.requests.get(receiving).unwrap();
            assert_eq!(request.error.as_ref().map(|error| error.class), Some(ErrorClass::Truncate));
            assert_eq!(buffer.to_vec(), pattern_bytes(1, 60));
        }
    }
}

#[test]
fn a_flood_is_bounded_at_its_receiver() {
    let config = config().changed(|c| c.messages.unexpected_bytes = 4096);
    let mut all = processes(2, &config);
    let ids: Vec<RequestId> =
        (0..1000).map(|i| send(&mut all[0], 0, 1, i, pattern_bytes(i as u64, 200), Mode::Standard)).collect();
    settle(&mut all);
    let held = ids.iter().filter(|id| is_complete(&all[0], **id)).count() * 200;
    assert!(held <= 4096, "{held} bytes were taken in before anybody asked for them");
    for i in (0..1000).rev() {
        let (id, buffer) = receive(&mut all[1], Some(0), Some(i), 200);
        settle(&mut all);
        assert!(is_complete(&all[1], id), "message {i}");
        assert_eq!(buffer.to_vec(), pattern_bytes(i as u64, 200));
    }
    settle(&mut all);
    assert!(ids.iter().all(|id| is_complete(&all[0], *id)));
}

#[test]
fn random_traffic_keeps_its_order() {
    let mut seed = 12345u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let mut all = processes(3, &config());
    // Every message of one (sender, receiver, tag) carries its number; receives must see them in order.
    let mut sent = [[[0u64; 2]; 3]; 3];
    let mut posted: Vec<(usize, usize, usize, RequestId, Buffer)> = Vec::new();
    for _ in 0..3000 {
        let (from, to, tag) = (random(3) as usize, random(3) as usize, random(2) as usize);
        if random(2) == 0 {
            let number = sent[from][to][tag];
            sent[from][to][tag] += 1;
            let length = [8, 8, 100, 300, 2000][random(5) as usize];
            let mut data = pattern_bytes(number, length);
            data[..8].copy_from_slice(&number.to_le_bytes());
            let mode = if random(4) == 0 { Mode::Synchronous } else { Mode::Standard };
            send(&mut all[from], from as u32, to as u32, tag as i32, data, mode);
        } else {
            let (id, buffer) = receive(&mut all[to], Some(from as u32), Some(tag as i32), 2000);
            posted.push((from, to, tag, id, buffer));
        }
        all[random(3) as usize].progress();
    }
    settle(&mut all);
    let mut seen = [[[0u64; 2]; 3]; 3];
    for (from, to, tag, id, buffer) in posted {
        if seen[from][to][tag] == sent[from][to][tag] {
            continue;
        }
        assert!(is_complete(&all[to], id));
        let bytes = all[to].state.requests.get(id).unwrap().status.bytes as usize;
        let data = buffer.to_vec();
        let number = seen[from][to][tag];
        assert_eq!(data[..8], number.to_le_bytes());
        assert_eq!(data[8..bytes], pattern_bytes(number, bytes)[8..]);
        seen[from][to][tag] += 1;
    }
}

#[test]
fn a_cancelled_receive_takes_nothing() {
    let mut all = processes(2, &config());
    let (cancelled, _) = receive(&mut all[1], Some(0), Some(1), 10);
    let (kept, buffer) = receive(&mut all[1], None, None, 10);
    all[1].state.cancel(cancelled);
    send(&mut all[0], 0, 1, 1, pattern_bytes(9, 10), Mode::Standard);
    settle(&mut all);
    assert!(all[1].state.requests.get(cancelled).unwrap().status.cancelled);
    assert!(is_complete(&all[1], kept));
    assert_eq!(buffer.to_vec(), pattern_bytes(9, 10));
}

#[test]
fn a_blocking_receive_takes_only_its_own_message_directly() {
    let mut all = processes(2, &config());
    let buffer = Buffer::owned(vec![0; 20]);
    let pattern = Pattern { context: 0, source: Some(0), tag: Some(5) };
    let spec = ReceiveSpec { buffer: buffer.clone(), pattern, from: Some(Peer(0)), check: Check::Nothing };
    assert!(all[1].may_receive_directly(&spec) && all[1].receive_directly(&spec).is_none());
    send(&mut all[0], 0, 1, 5, pattern_bytes(1, 30), Mode::Standard);
    let finished = all[1].receive_directly(&spec).unwrap();
    assert_eq!(finished.result.map_err(|error| error.class), Err(ErrorClass::Truncate));
    assert_eq!(buffer.to_vec(), pattern_bytes(1, 20));
    // Another tag is kept, and what comes behind it has to go through the matcher.
    send(&mut all[0], 0, 1, 6, pattern_bytes(2, 10), Mode::Standard);
    send(&mut all[0], 0, 1, 5, pattern_bytes(3, 20), Mode::Standard);
    assert!(all[1].receive_directly(&spec).is_none() && !all[1].may_receive_directly(&spec));
    let (second, buffer) = receive(&mut all[1], Some(0), Some(5), 20);
    let (first, _) = receive(&mut all[1], Some(0), Some(6), 20);
    assert!(is_complete(&all[1], first) && is_complete(&all[1], second));
    assert_eq!(buffer.to_vec(), pattern_bytes(3, 20));
}

#[test]
fn waits_for_a_peer_that_has_left_end_with_an_error() {
    let mut all = processes(2, &config());
    all[0].state.ask_for_presence([Peer(1)].into_iter());
    settle(&mut all);
    assert!(!all[0].state.departures.has(Peer(1)), "one that has not left does not answer");
    let (got, _) = receive(&mut all[0], Some(1), Some(5), 10);
    let (never, _) = receive(&mut all[0], Some(1), Some(6), 10);
    let sent = send(&mut all[0], 0, 1, 7, vec![0; 5000], Mode::Standard);
    send(&mut all[1], 1, 0, 5, vec![1; 10], Mode::Standard);
    all[1].state.departures.is_leaving = true;
    all[0].state.ask_for_presence([Peer(1)].into_iter());
    settle(&mut all);
    assert!(all[0].state.departures.has(Peer(1)) && is_complete(&all[0], got));
    let waiting: Vec<RequestId> = all[0].state.waiting_requests().into_iter().map(|(id, _)| id).collect();
    assert_eq!(waiting.len(), 2);
    assert!(waiting.contains(&never) && waiting.contains(&sent));
    for id in waiting {
        all[0].state.give_up(id, tutti_base::Error::new(ErrorClass::Other, "it has left"));
        let request = all[0].state.requests.get(id).unwrap();
        assert!(request.complete && request.error.is_some());
    }
    assert!(all[0].state.waiting_requests().is_empty());
}
