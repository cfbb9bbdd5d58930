//! Requirements of every [`Link`], checked for each implementation.
//!
//! # Safety
//! One test asks the kernel how many pages the job object has: a plain C structure, an open descriptor.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tutti_base::config::{Config, Connections, RemoteRead};
use tutti_sys::job::{Job, Plan};

use crate::fabric::FabricLink;
use crate::link::{Full, Header, Link, Peer, Verdict};
use crate::links::FarLink;
use crate::memory::MemoryLink;
use crate::shm::ShmLink;

/// Links of a job of `ranks` in this process.
fn shm(ranks: u32, ring_bytes: u64) -> Vec<ShmLink> {
    let plan = Plan { processors: 2, ring_bytes, ..Plan::one_host(ranks) };
    let job = Arc::new(Job::create(&plan).unwrap());
    (0..ranks).map(|rank| ShmLink::new(job.clone(), rank).unwrap()).collect()
}

fn memory(ranks: u32) -> Vec<MemoryLink> {
    MemoryLink::connected(ranks, 7, 8192)
}

/// Returns `bytes` bytes that depend on `seed` at every position.
fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

fn header(number: u64) -> Header {
    Header([number, !number, number << 32])
}

/// Returns everything that one poll delivers, as (sender, first word, payload).
fn collect(link: &mut impl Link) -> Vec<(u32, u64, Vec<u8>)> {
    let mut got = Vec::new();
    link.poll(&mut |from: Peer, head: Header, payload: &[u8]| {
        assert_eq!(head, header(head.0[0]));
        got.push((from.0, head.0[0], payload.to_vec()));
        Verdict::Taken
    });
    got
}

/// Link that the suite checks.
trait Conforming: Link {
    /// True if a record can be polled as soon as it was sent. Otherwise both sides have to be polled until it
    /// arrives.
    const AT_ONCE: bool = true;

    /// Polls until all sent records have arrived.
    fn leave(&mut self) {}
}

impl Conforming for ShmLink {}
impl Conforming for MemoryLink {}

impl Conforming for FabricLink {
    const AT_ONCE: bool = false;

    fn leave(&mut self) {
        let start = Instant::now();
        while !self.is_flushed() {
            assert!(start.elapsed() < PATIENCE, "what was sent does not arrive");
            std::thread::yield_now();
        }
    }
}

/// Time limit for anything that does not arrive at once; far more than it ever takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the next `count` records of link `at`, polling all links. The other links must receive nothing
/// meanwhile.
fn gather<L: Conforming>(links: &mut [L], at: usize, count: usize) -> Vec<(u32, u64, Vec<u8>)> {
    let start = Instant::now();
    let mut got = Vec::new();
    while got.len() < count {
        assert!(start.elapsed() < PATIENCE && (!L::AT_ONCE || got.is_empty()), "{} of {count}", got.len());
        for (place, link) in links.iter_mut().enumerate() {
            let here = collect(link);
            assert!(place == at || here.is_empty(), "{place} got what was not sent to it");
            got.extend(here);
        }
    }
    got
}

/// Polls all links for a while, in which nobody gets anything.
fn nothing_comes<L: Conforming>(links: &mut [L]) {
    for _ in 0..if L::AT_ONCE { 1 } else { 200 } {
        assert!(links.iter_mut().all(|link| collect(link).is_empty()));
    }
}

fn every_size_arrives_whole<L: Conforming>(mut links: Vec<L>) {
    let max = links[0].max_payload();
    let sizes = (0..70).chain([127, 128, 129, 1000, 4095, 4096, 4097, max - 1, max]);
    for (number, bytes) in sizes.enumerate() {
        let sent = pattern(number as u64, bytes);
        assert!(!(L::AT_ONCE && links[1].pending()) && links[0].has_room(Peer(1), bytes));
        links[0].try_send(Peer(1), header(number as u64), &sent).unwrap();
        assert!(!L::AT_ONCE || links[1].pending() && !links[0].pending());
        assert_eq!(gather(&mut links, 1, 1), [(0, number as u64, sent)]);
    }
}

fn a_full_link_says_so_and_loses_nothing<L: Conforming>(mut links: Vec<L>, bytes: usize) {
    for round in 0..5 {
        let mut sent = 0;
        while links[0].try_send(Peer(1), header(sent), &pattern(sent, bytes)) == Ok(()) {
            sent += 1;
            assert!(sent < 1_000_000);
        }
        assert!(
            sent > round / 5 && !links[0].has_room(Peer(1), bytes) && !links[0].want_room(Peer(1), bytes)
        );
        let filled = links[0].try_send_with(Peer(1), header(9), bytes, |_| panic!("filled without room"));
        assert_eq!(filled, Err(Full));
        let mut next = 0;
        while next < sent {
            let got = if L::AT_ONCE { collect(&mut links[1]) } else { gather(&mut links, 1, 1) };
            assert!(!got.is_empty() && (!L::AT_ONCE || links[0].has_room(Peer(1), bytes)));
            for record in got {
                assert_eq!(record, (0, next, pattern(next, bytes)));
                next += 1;
            }
        }
        assert!(!L::AT_ONCE || !links[1].pending());
        nothing_comes(&mut links);
    }
}

fn peers_do_not_mix<L: Conforming>(mut links: Vec<L>) {
    let last = links.len() as u32 - 1;
    let senders = [0, 1, last - 1];
    for (turn, &from) in senders.iter().enumerate() {
        links[from as usize].try_send(Peer(last), header(turn as u64), &pattern(7, 100)).unwrap();
    }
    let mut seen = Vec::new();
    let start = Instant::now();
    while seen.is_empty() {
        assert!(start.elapsed() < PATIENCE);
        let (end, others) = links.split_last_mut().unwrap();
        assert!(!end.poll_peer(Peer(2), &mut |_: Peer, _: Header, _: &[u8]| panic!("nothing sent")));
        let taken = end.poll_peer(Peer(1), &mut |from: Peer, _: Header, _: &[u8]| {
            seen.push(from.0);
            Verdict::Taken
        });
        assert!(taken != seen.is_empty() && (taken || !L::AT_ONCE));
        assert!(others.iter_mut().all(|link| collect(link).is_empty()));
    }
    assert_eq!(seen, [1]);
    let expected = senders.iter().filter(|&&from| from != 1).count();
    let mut rest: Vec<u32> =
        gather(&mut links, last as usize, expected).iter().map(|record| record.0).collect();
    rest.sort_unstable();
    let expected: Vec<u32> = senders.into_iter().filter(|&from| from != 1).collect();
    assert_eq!(rest, expected);
}

fn what_is_left_stays_first<L: Conforming>(mut links: Vec<L>) {
    for number in 0..3 {
        links[0].try_send(Peer(2), header(number), &pattern(number, 200)).unwrap();
    }
    links[1].try_send(Peer(2), header(10), &[]).unwrap();
    let mut offered = Vec::new();
    let start = Instant::now();
    while offered.iter().filter(|&&number| number == 1).count() < 2 || !offered.contains(&10) {
        assert!(start.elapsed() < PATIENCE);
        links[2].poll(&mut |from: Peer, head: Header, _: &[u8]| {
            offered.push(head.0[0]);
            if from == Peer(0) && head.0[0] == 1 { Verdict::Left } else { Verdict::Taken }
        });
        assert!(links[..2].iter_mut().all(|link| collect(link).is_empty()));
    }
    offered.sort_unstable();
    assert_eq!((offered[0], offered[1], offered[offered.len() - 2], offered.last()), (0, 1, 1, Some(&10)));
    assert!(!L::AT_ONCE || !links[2].pending(), "a record that was left is not news");
    links[1].try_send(Peer(2), header(11), &[]).unwrap();
    assert!(!L::AT_ONCE || links[2].pending());
    let mut numbers: Vec<u64> = gather(&mut links, 2, 3).iter().map(|record| record.1).collect();
    numbers.sort_by_key(|number| number / 10);
    assert_eq!(numbers, [1, 2, 11]);
    links[0].try_send(Peer(2), header(12), &[]).unwrap();
    assert!(!L::AT_ONCE || links[2].pending());
    assert_eq!(gather(&mut links, 2, 1)[0].1, 12);
}

fn a_poll_is_bounded<L: Conforming>(mut links: Vec<L>) {
    let mut sent = 0;
    while links[0].try_send(Peer(1), header(sent), &[]) == Ok(()) {
        sent += 1;
    }
    assert!(collect(&mut links[1]).len() <= 64);
}

/// Sends `sizes` from both ends to each other, from threads of their own that also receive.
fn both_directions_at_once<L: Conforming + Send>(links: Vec<L>, sizes: &[usize]) {
    std::thread::scope(|scope| {
        for (rank, mut link) in links.into_iter().enumerate() {
            scope.spawn(move || {
                let peer = Peer(1 - rank as u32);
                let (mut sent, mut received) = (0, 0);
                let start = Instant::now();
                while sent < sizes.len() || received < sizes.len() {
                    assert!(start.elapsed() < PATIENCE, "{sent} sent, {received} received");
                    if sent < sizes.len() {
                        let bytes = sizes[sent].min(link.max_payload());
                        let seed = sent as u64 * 2 + rank as u64;
                        if link.try_send(peer, header(sent as u64), &pattern(seed, bytes)) == Ok(()) {
                            sent += 1;
                        }
                    }
                    let got = collect(&mut link);
                    if got.is_empty() {
                        std::thread::yield_now();
                    }
                    for (_, number, payload) in got {
                        let bytes = sizes[received].min(link.max_payload());
                        let seed = received as u64 * 2 + 1 - rank as u64;
                        assert_eq!((number, payload), (received as u64, pattern(seed, bytes)));
                        received += 1;
                    }
                }
                link.leave();
            });
        }
    });
}

/// Sends from every end to every other; each pair stays in order.
fn all_to_all<L: Conforming + Send>(links: Vec<L>, rounds: u64) {
    let ranks = links.len() as u32;
    std::thread::scope(|scope| {
        for (rank, mut link) in links.into_iter().enumerate() {
            scope.spawn(move || {
                let peers: Vec<u32> = (0..ranks).filter(|&peer| peer != rank as u32).collect();
                let mut sent: HashMap<u32, u64> = peers.iter().map(|&peer| (peer, 0)).collect();
                let mut received = sent.clone();
                let start = Instant::now();
                while sent.values().chain(received.values()).any(|&count| count < rounds) {
                    assert!(start.elapsed() < PATIENCE, "{sent:?} sent, {received:?} received");
                    for (&peer, count) in sent.iter_mut().filter(|(_, count)| **count < rounds) {
                        let payload = pattern(*count, (*count as usize * 37) % 3000);
                        *count += u64::from(link.try_send(Peer(peer), header(*count), &payload).is_ok());
                    }
                    for (from, number, payload) in collect(&mut link) {
                        let count = received.get_mut(&from).unwrap();
                        assert_eq!((number, payload.len()), (*count, (*count as usize * 37) % 3000));
                        *count += 1;
                    }
                    std::thread::yield_now();
                }
                link.leave();
            });
        }
    });
}

#[test]
fn shm_link_conforms() {
    every_size_arrives_whole(shm(2, 16384));
    every_size_arrives_whole(shm(2, 256 << 10));
    for bytes in [33, 200, 512, 513, 40_000] {
        a_full_link_says_so_and_loses_nothing(shm(2, 256 << 10), bytes);
    }
    for bytes in [0, 32, 33, 64, 65, 1000, 4096, 8192] {
        a_full_link_says_so_and_loses_nothing(shm(2, 16384), bytes);
    }
    for ranks in [5, 64, 65, 130] {
        peers_do_not_mix(shm(ranks, 4096));
    }
    what_is_left_stays_first(shm(3, 4096));
    a_poll_is_bounded(shm(2, 4096));
    all_to_all(shm(4, 8192), 300);
}

#[test]
fn memory_link_conforms() {
    every_size_arrives_whole(memory(2));
    for bytes in [0, 32, 33, 4096, 8192] {
        a_full_link_says_so_and_loses_nothing(memory(2), bytes);
    }
    peers_do_not_mix(memory(5));
    what_is_left_stays_first(memory(3));
    a_poll_is_bounded(memory(2));
    all_to_all(memory(4), 300);
}

/// Runs all of the suite that applies to a link between hosts.
fn fabric_conforms(config: &Config) {
    let job = |ranks| crate::fabric::tests::job(ranks, config);
    every_size_arrives_whole(job(2));
    for bytes in [0, 33, 1000, 1500, 40_000] {
        a_full_link_says_so_and_loses_nothing(job(2), bytes);
    }
    peers_do_not_mix(job(5));
    what_is_left_stays_first(job(3));
    a_poll_is_bounded(job(2));
    all_to_all(job(4), 300);
    both_directions_at_once(job(2), &[65536, 0, 7, 30_000, 65536, 1, 1400, 1500, 1, 2, 3, 65536, 65536]);
}

#[test]
fn datagrams_conform() {
    fabric_conforms(&Config::default().changed(|c| c.network.connections = Connections::Never));
}

/// Runs the suite over a provider of libfabric, where that is installed.
fn provider_conforms(provider: &str, connections: Connections) {
    if tutti_sys::fabric::version().is_ok() {
        for remote_read in [RemoteRead::Never, RemoteRead::Auto] {
            let fabric = provider.to_string();
            fabric_conforms(&Config::default().changed(|c| {
                c.network.fabric = fabric;
                c.network.connections = connections;
                c.messages.remote_read = remote_read;
            }));
        }
    }
}

#[test]
fn connections_of_libfabric_conform() {
    provider_conforms("tcp", Connections::OnDemand);
    provider_conforms("tcp", Connections::Static);
}

#[test]
fn reliable_endpoints_of_libfabric_conform() {
    provider_conforms("tcp;ofi_rxm", Connections::OnDemand);
}

#[test]
fn connections_on_demand_conform() {
    fabric_conforms(&Config::default());
}

#[test]
fn static_connections_conform() {
    fabric_conforms(&Config::default().changed(|c| c.network.connections = Connections::Static));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn random_sizes_arrive_in_order(
        sizes in prop::collection::vec(prop_oneof![0usize..40, 0usize..600, 0usize..20000], 1..400),
        pages in prop_oneof![1u64..6, 32u64..40],
    ) {
        both_directions_at_once(shm(2, pages * 4096), &sizes);
        both_directions_at_once(memory(2), &sizes);
    }
}

#[test]
fn a_rank_has_one_link() {
    let mut links = shm(2, 4096);
    let job = links[0].job().clone();
    let error = ShmLink::new(job.clone(), 1).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    links[0].try_send(Peer(1), header(5), b"kept").unwrap();
    drop(links.pop());
    let mut again = ShmLink::new(job, 1).unwrap();
    assert_eq!(collect(&mut again), [(0, 5, b"kept".to_vec())]);
}

#[test]
#[allow(unsafe_code)]
fn pairs_that_do_not_talk_have_no_pages() {
    let mut links = shm(100, 1 << 20);
    links[3].try_send(Peer(70), header(1), &[1; 40]).unwrap();
    assert_eq!(collect(&mut links[70]).len(), 1);
    for link in &mut links {
        assert!(!link.pending() && collect(link).is_empty());
    }
    let job = links[0].job().clone();
    // SAFETY: an all-zero stat is a valid value of that plain C structure, and the descriptor is open.
    let status = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        assert_eq!(libc::fstat(job.raw_fd(), &mut status), 0);
        status
    };
    // Job header and machine, one announcement page a polling rank, and three pages of the ring.
    assert!(status.st_blocks * 512 <= (100 + 2 + 3 + 2) * 4096, "{} blocks", status.st_blocks);
}
