//! Links of several ranks in one process, over loopback.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tutti_base::config::Config;
use tutti_sys::job::Secret;

use super::*;
use crate::directory::{Address, Answer};
use crate::link::Verdict;
use crate::loan::tests::InRuns;

/// Addresses that all ranks of a test share.
#[derive(Clone, Debug, Default)]
struct Shared {
    known: Arc<Mutex<HashMap<u32, Address>>>,
    rank: u32,
    asked: Vec<u32>,
}

impl Directory for Shared {
    fn publish(&mut self, address: &Address) {
        self.known.lock().unwrap().insert(self.rank, *address);
    }

    fn request(&mut self, rank: u32) {
        self.asked.push(rank);
    }

    fn poll(&mut self) -> Option<Answer> {
        let known = self.known.lock().unwrap();
        let place = self.asked.iter().position(|rank| known.contains_key(rank))?;
        let rank = self.asked.swap_remove(place);
        Some((rank, known.get(&rank).copied()))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Builds the links of a job on loopback, which know each other's addresses.
pub(crate) fn job(ranks: u32, config: &Config) -> Vec<FabricLink> {
    let mut links = job_with(ranks, config, |_| 9);
    meet(&mut links);
    links
}

/// Asks for the addresses of all, and polls until they have come.
fn meet(links: &mut [FabricLink]) {
    let strangers = |links: &[FabricLink]| -> Vec<(usize, Peer)> {
        let ends = (0..links.len()).flat_map(|from| (0..links.len()).map(move |to| (from, to)));
        let others = ends.filter(|(from, to)| from != to).map(|(from, to)| (from, Peer(to as u32)));
        others.filter(|(from, to)| !links[*from].has_room(*to, 0)).collect()
    };
    for (from, to) in strangers(links) {
        let sent = links[from].try_send_with(to, Header::default(), 0, |_| panic!("it cannot leave"));
        assert_eq!(sent, Err(Full));
    }
    until(links, |links| strangers(links).is_empty());
}

/// Builds links like [`job`]; the secret of each rank consists of one byte.
fn job_with(ranks: u32, config: &Config, secret: impl Fn(u32) -> u8) -> Vec<FabricLink> {
    let shared = Shared::default();
    let link = |rank| {
        let identity = Identity {
            rank,
            ranks,
            job_id: 7,
            secret: Secret([secret(rank); 32]),
            interface: "127.0.0.1".to_string(),
            is_kept: false,
        };
        let directory = Box::new(Shared { rank, ..shared.clone() });
        FabricLink::new(config, &identity, directory).unwrap()
    };
    (0..ranks).map(link).collect()
}

/// Polls all links until `done`.
pub(crate) fn until(links: &mut [FabricLink], mut done: impl FnMut(&mut [FabricLink]) -> bool) {
    let start = Instant::now();
    while !done(links) {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not come");
        for link in links.iter_mut() {
            link.poll(&mut |_: Peer, _: Header, _: &[u8]| Verdict::Taken);
        }
    }
}

fn with(connections: Connections) -> Config {
    Config::default().changed(|c| c.network.connections = connections)
}

fn established(link: &FabricLink) -> u64 {
    link.counters().adaptive.established
}

#[test]
fn a_pair_connects_after_enough_messages() {
    let mut links = job(2, &with(Connections::OnDemand));
    let config = Config::default();
    for number in 0..=config.network.connect_messages * 2 {
        let got = links[1].counters().received_records;
        links[0].try_send(Peer(1), Header::default(), b"word").unwrap();
        until(&mut links, |links| links[1].counters().received_records > got);
        assert!(number > 0 || established(&links[0]) == 0, "the first message needs no connection");
    }
    until(&mut links, |links| established(&links[0]) == 1 && established(&links[1]) == 1);
    let counters = links[0].counters();
    assert_eq!(
        (counters.sent_records, counters.adaptive.peers),
        (config.network.connect_messages * 2 + 1, 1)
    );
    assert!(counters.to_string().contains("established=1"), "{counters}");
}

#[test]
fn a_peer_that_is_gone_is_reported_and_one_that_leaves_is_not() {
    let mut links = job(2, &with(Connections::Static));
    until(&mut links, |links| established(&links[0]) == 1 && established(&links[1]) == 1);
    let dies = links.pop().unwrap();
    drop(dies);
    let mut failure = None;
    until(&mut links, |links| {
        failure = links[0].failure();
        failure.is_some()
    });
    let (peer, reason) = failure.unwrap();
    assert!(peer == Peer(1) && reason.contains("closed"), "{peer:?}: {reason}");

    let mut links = job(2, &with(Connections::Static));
    until(&mut links, |links| established(&links[0]) == 1 && established(&links[1]) == 1);
    until(&mut links, |links| links.iter_mut().map(FarLink::is_flushed).fold(true, |all, one| all & one));
    drop(links.pop());
    for _ in 0..100 {
        links[0].poll(&mut |_: Peer, _: Header, _: &[u8]| Verdict::Taken);
        assert_eq!(links[0].failure(), None);
    }
}

#[test]
fn who_does_not_know_the_secret_is_not_heard() {
    let mut links = job_with(3, &with(Connections::OnDemand), |rank| if rank == 2 { 1 } else { 9 });
    meet(&mut links);
    links[2].try_send(Peer(1), Header::default(), b"forged").unwrap();
    until(&mut links, |links| links[1].counters().adaptive.forged > 0);
    links[0].try_send(Peer(1), Header::default(), b"true").unwrap();
    let mut heard = Vec::new();
    while heard.is_empty() {
        links[0].poll(&mut |_: Peer, _: Header, _: &[u8]| Verdict::Taken);
        links[1].poll(&mut |from: Peer, _: Header, _: &[u8]| {
            heard.push(from);
            Verdict::Taken
        });
    }
    assert_eq!(heard, [Peer(0)]);
}

#[test]
fn strangers_are_turned_away() {
    use std::io::Write;
    let sealing = Sealing { root: kernel::root(&[1; 32]), cover: None };
    let interface = "127.0.0.1".parse().unwrap();
    let mut kernel = Kernel::new(interface, None, Duration::from_secs(30), false, sealing).unwrap();
    let address = address::decode(kernel.listen_address()).unwrap();
    let greetings: [&[u8]; 3] = [b"GET / HTTP/1.0\r\n\r\n", b"", b"tutti\x01\x01\x00"];
    for (count, greeting) in greetings.iter().enumerate() {
        let mut stranger = std::net::TcpStream::connect(address).unwrap();
        stranger.write_all(greeting).unwrap();
        stranger.shutdown(std::net::Shutdown::Write).unwrap();
        let start = Instant::now();
        while kernel.foreign() == count as u64 {
            assert!(start.elapsed() < Duration::from_secs(60), "{greeting:?} is not refused");
            kernel.control();
        }
        assert_eq!(kernel.event(), None);
    }
}

#[test]
fn a_sleeper_is_woken_by_what_arrives() {
    for connections in [Connections::Never, Connections::Static] {
        let mut links = job(2, &with(connections));
        let wanted = u64::from(connections == Connections::Static);
        until(&mut links, |links| established(&links[1]) == wanted && established(&links[0]) == wanted);
        for _ in 0..20 {
            until(&mut links, |links| {
                let mut descriptors = Vec::new();
                links[1].before_sleep(&mut descriptors).0 && !links[1].pending()
            });
            let got = links[1].counters().received_records;
            links[0].try_send(Peer(1), Header::default(), b"wake").unwrap();
            while links[1].counters().received_records == got {
                let mut descriptors = Vec::new();
                let (quiet, _) = links[1].before_sleep(&mut descriptors);
                if quiet {
                    tutti_sys::event::wait_readable(&descriptors, Duration::from_millis(100));
                }
                for link in &mut links {
                    link.poll(&mut |_: Peer, _: Header, _: &[u8]| Verdict::Taken);
                }
            }
        }
    }
}

/// Reads of `bytes` in both directions at once, `reads` each, with records among them.
fn check_reads(protection: Protection, bytes: usize, reads: usize, run: usize) {
    let config = with(Connections::Static).changed(|c| c.network.protection = protection);
    let mut links = job(2, &config);
    until(&mut links, |links| established(&links[0]) == 1 && established(&links[1]) == 1);
    let lent = |who: usize, read: usize| -> Vec<u8> {
        (0..bytes).map(|i| (i * 31 + who * 3 + read) as u8).collect()
    };
    let mut expected = Vec::new();
    let mut loans = Vec::new();
    for (me, other) in [(0, 1), (1, 0)] {
        for read in 0..reads {
            let memory = InRuns::new(lent(other, read), run, 500);
            let loan = links[other].lend(Peer(me as u32), memory).unwrap();
            let into = InRuns::new(vec![0; bytes], run + 1, 400);
            let token = read as u64 + 40;
            assert!(links[me].read(Peer(other as u32), loan, into.clone(), bytes as u64, token));
            expected.push((lent(other, read), into));
            loans.push((other, loan));
        }
    }
    let (mut completed, mut records) = (Vec::new(), 0);
    until(&mut links, |links| {
        records += u64::from(links[0].try_send(Peer(1), Header::default(), &[1; 3000]).is_ok());
        completed.extend(links.iter_mut().filter_map(Link::completed));
        completed.len() == 2 * reads
    });
    completed.sort_unstable();
    assert_eq!(completed, (0..2 * reads as u64).map(|read| read / 2 + 40).collect::<Vec<_>>());
    assert!(expected.iter().all(|(bytes, into)| *into.bytes.lock().unwrap() == *bytes));
    assert_eq!(links[1].counters().read_bytes, (reads * bytes) as u64);
    until(&mut links, |links| links[1].counters().received_records == records);
    let mut returned: Vec<(usize, Loan)> = Vec::new();
    for (owner, link) in links.iter_mut().enumerate() {
        returned.extend(std::iter::from_fn(|| link.returned()).map(|loan| (owner, loan)));
    }
    returned.sort_unstable();
    loans.sort_unstable();
    assert_eq!(returned, loans);
    assert!(expected.iter().all(|(_, into)| Arc::strong_count(into) == 1), "nobody holds the memory");
}

#[test]
fn memory_of_a_peer_is_read() {
    for protection in [Protection::Greeting, Protection::Authenticate, Protection::Encrypt] {
        check_reads(protection, 1, 1, 1);
        check_reads(protection, 100_000, 3, 1000);
        check_reads(protection, 3_000_000, 4, 1 << 20);
        check_reads(protection, 300_000, 2, 40);
    }
}

#[test]
fn who_is_read_may_say_something_first() {
    let mut links = job(2, &with(Connections::Static));
    until(&mut links, |links| established(&links[0]) == 1 && established(&links[1]) == 1);
    let bytes = 1 << 20;
    let memory = || InRuns::new(vec![5; bytes], bytes, 1);
    let loan = links[0].lend(Peer(1), memory()).unwrap();
    links[1].try_send(Peer(0), Header::default(), b"memory of its own").unwrap();
    assert!(links[1].read(Peer(0), loan, memory(), bytes as u64, 1));
    // It sees both, and what it has to say then does not wait behind the memory.
    links[0].poll(&mut |_: Peer, _: Header, _: &[u8]| Verdict::Taken);
    links[0].try_send(Peer(1), Header::default(), b"a wish of its own").unwrap();
    let mut heard = 0;
    links[1].poll(&mut |_: Peer, _: Header, _: &[u8]| {
        heard += 1;
        Verdict::Taken
    });
    assert_eq!(heard, 1);
    until(&mut links, |links| links[1].completed() == Some(1));
}

#[test]
fn memory_is_lent_where_there_is_a_connection() {
    let mut links = job(2, &with(Connections::Never));
    assert_eq!(links[0].lend(Peer(1), InRuns::new(vec![0; 9], 9, 1)), None);
    assert!(!links[1].read(Peer(0), Loan::named(1), InRuns::new(vec![0; 9], 9, 1), 9, 1));
    assert_eq!(links[1].completed(), None);
}

/// Checks that rank 1 cannot read from rank 0 by an invalid loan, or by one for another rank.
fn check_refused(loan: impl Fn(&mut [FabricLink]) -> Loan) {
    let mut links = job(3, &with(Connections::Static));
    until(&mut links, |links| links.iter().all(|link| established(link) == 2));
    let loan = loan(&mut links);
    assert!(links[1].read(Peer(0), loan, InRuns::new(vec![0; 9], 9, 1), 9, 1));
    let mut failures = Vec::new();
    until(&mut links, |links| {
        failures.extend(links.iter_mut().filter_map(Link::failure));
        failures.len() == 2
    });
    assert!(failures.iter().any(|(_, reason)| reason.contains("not lent")), "{failures:?}");
    assert_eq!(links[1].completed(), None);
}

#[test]
fn a_read_of_what_is_not_lent_ends_the_connection() {
    check_refused(|_| Loan::named(77));
    check_refused(|links| links[0].lend(Peer(2), InRuns::new(vec![0; 9], 9, 1)).unwrap());
    check_refused(|links| links[0].lend(Peer(1), InRuns::new(vec![0; 8], 8, 1)).unwrap());
}

#[test]
fn who_leaves_is_read_to_the_end() {
    let mut links = job(2, &with(Connections::Static));
    until(&mut links, |links| established(&links[0]) == 1 && established(&links[1]) == 1);
    let bytes = 20 << 20;
    let loan = links[0].lend(Peer(1), InRuns::new(vec![5; bytes], bytes, 1)).unwrap();
    let into = InRuns::new(vec![0; bytes], bytes, 1);
    assert!(links[1].read(Peer(0), loan, into.clone(), bytes as u64, 1));
    links[0].poll(&mut |_: Peer, _: Header, _: &[u8]| Verdict::Taken);
    until(&mut links, |links| {
        links[0].is_flushed();
        links[1].completed() == Some(1)
    });
    assert!(*into.bytes.lock().unwrap() == vec![5; bytes]);
    until(&mut links, |links| links.iter_mut().map(FarLink::is_flushed).fold(true, |all, one| all & one));
}

#[test]
fn a_peer_that_dies_while_it_is_read_is_reported() {
    let mut links = job(2, &with(Connections::Static));
    until(&mut links, |links| established(&links[0]) == 1 && established(&links[1]) == 1);
    let bytes = 20 << 20;
    let loan = links[1].lend(Peer(0), InRuns::new(vec![5; bytes], bytes, 1)).unwrap();
    assert!(links[0].read(Peer(1), loan, InRuns::new(vec![0; bytes], bytes, 1), bytes as u64, 1));
    for _ in 0..3 {
        links[1].poll(&mut |_: Peer, _: Header, _: &[u8]| Verdict::Taken);
    }
    drop(links.pop());
    let mut failure = None;
    until(&mut links, |links| {
        failure = links[0].failure();
        failure.is_some()
    });
    assert_eq!((failure.unwrap().0, links[0].completed()), (Peer(1), None));
}
