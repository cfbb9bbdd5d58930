//! Memory of peers that providers of libfabric read, over loopback; where libfabric is not installed, nothing
//! is tested.

use std::collections::BTreeSet;
use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};

use tutti_base::config::{Config, Connections, RemoteRead};

use crate::fabric::FabricLink;
use crate::fabric::tests::{job, until};
use crate::link::{Header, Link, Peer};
use crate::links::FarLink;
use crate::loan::{Loan, Pieces};

/// A message whose runs of some length lie apart.
#[derive(Debug)]
struct Apart {
    memory: Mutex<Vec<u8>>,
    run: usize,
    gap: usize,
    bytes: usize,
}

impl Apart {
    fn new(message: &[u8], run: usize, gap: usize) -> Arc<Apart> {
        let memory: Vec<u8> =
            message.chunks(run).flat_map(|part| [part, &vec![0xaa; gap]].concat()).collect();
        Arc::new(Apart { memory: Mutex::new(memory), run, gap, bytes: message.len() })
    }

    /// Returns the message after a check that the bytes between its runs are unchanged.
    fn message(&self) -> Vec<u8> {
        let memory = self.memory.lock().unwrap();
        let mut message = Vec::new();
        for part in memory.chunks(self.run + self.gap) {
            let (run, gap) = part.split_at(part.len() - self.gap);
            message.extend_from_slice(run);
            assert!(gap.iter().all(|&byte| byte == 0xaa));
        }
        message
    }

    /// Returns index and length of the contiguous bytes of the message that begin at `position`.
    fn at(&self, position: usize) -> (usize, usize) {
        let (number, inside) = (position / self.run, position % self.run);
        (number * (self.run + self.gap) + inside, (self.run - inside).min(self.bytes - position))
    }
}

impl Pieces for Apart {
    fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn read(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&[IoSlice<'_>])) {
        let (memory, (first, length)) = (self.memory.lock().unwrap(), self.at(position as usize));
        use_memory(&[IoSlice::new(&memory[first..][..length.min(bytes as usize)])]);
    }

    fn write(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&mut [IoSliceMut<'_>])) {
        let (mut memory, (first, length)) = (self.memory.lock().unwrap(), self.at(position as usize));
        let length = length.min(bytes as usize);
        let (one, two) = memory[first..][..length].split_at_mut(length / 2);
        use_memory(&mut [IoSliceMut::new(one), IoSliceMut::new(two)]);
    }
}

/// Links of two ranks that know each other, over a provider that reads; none where it is not there.
fn pair(provider: &str) -> Option<Vec<FabricLink>> {
    tutti_sys::fabric::version().ok()?;
    let (fabric, connections) = (provider.to_string(), Connections::Static);
    let config = Config::default().changed(|c| {
        c.network.fabric = fabric;
        c.network.connections = connections;
        c.messages.remote_read = RemoteRead::Auto;
    });
    let mut links = job(2, &config);
    for (me, other) in [(0, 1), (1, 0)] {
        links[me].try_send(Peer(other), Header::default(), b"hello").unwrap();
    }
    until(&mut links, |links| {
        let met = |link: &FabricLink| link.counters().received_records == 1;
        let connected =
            |link: &FabricLink| provider.contains(';') || link.counters().adaptive.established == 1;
        links.iter().all(|link| met(link) && connected(link))
    });
    Some(links)
}

const PROVIDERS: [&str; 2] = ["tcp", "tcp;ofi_rxm"];

/// Messages of so many bytes are read in both directions at once, with records among them; runs and gaps of
/// lender and reader.
fn check(bytes: usize, lent: (usize, usize), own: (usize, usize)) {
    const READS: u64 = 3;
    let message = |who: usize, read: u64| -> Vec<u8> {
        (0..bytes).map(|i| (i * 31 + who * 3 + read as usize) as u8).collect()
    };
    for provider in PROVIDERS {
        let Some(mut links) = pair(provider) else { return };
        let (mut loans, mut into) = (BTreeSet::new(), Vec::new());
        for (me, other) in [(0usize, 1usize), (1, 0)] {
            for read in 0..READS {
                let memory = Apart::new(&message(other, read), lent.0, lent.1);
                let loan = links[other].lend(Peer(me as u32), memory).unwrap();
                let room = Apart::new(&vec![0; bytes], own.0, own.1);
                assert!(links[me].read(Peer(other as u32), loan, room.clone(), bytes as u64, 40 + read));
                assert!(loans.insert((other, loan)));
                into.push((room, message(other, read)));
            }
        }
        let (mut completed, mut returned, mut records) = (Vec::new(), BTreeSet::new(), 0);
        until(&mut links, |links| {
            records += u64::from(links[0].try_send(Peer(1), Header::default(), &[1; 3000]).is_ok());
            for (owner, link) in links.iter_mut().enumerate() {
                completed.extend(std::iter::from_fn(|| link.completed()));
                returned.extend(std::iter::from_fn(|| link.returned()).map(|loan| (owner, loan)));
                assert_eq!(link.failure(), None);
            }
            completed.len() == 2 * READS as usize && returned == loans
        });
        until(&mut links, |links| links[1].counters().received_records == records + 1);
        assert!(into.iter().all(|(room, message)| room.message() == *message), "{provider} {lent:?} {own:?}");
        assert!(into.iter().all(|(room, _)| Arc::strong_count(room) == 1), "nobody holds the memory");
        assert_eq!(links[0].counters().read_bytes, READS * bytes as u64);
        until(&mut links, |links| links.iter_mut().map(FarLink::is_flushed).fold(true, |all, one| all & one));
    }
}

#[test]
fn memory_of_a_peer_is_read_by_the_provider() {
    check(300_000, (300_000, 0), (300_000, 0));
    check(3_000_000, (3_000_000, 0), (100_000, 7));
    check(1_000_000, (70_000, 13), (1_000_000, 0));
    check(2_000_000, (20_000, 1000), (33_333, 99));
}

#[test]
fn short_runs_and_strangers_loans_are_refused() {
    for provider in PROVIDERS {
        let Some(mut links) = pair(provider) else { return };
        assert_eq!(links[0].lend(Peer(1), Apart::new(&[1; 300_000], 1000, 8)), None);
        assert_eq!(links[0].lend(Peer(1), Apart::new(&[1; 300_000], 20_000, 1 << 20)), None);
        let loan = links[0].lend(Peer(1), Apart::new(&[1; 300_000], 300_000, 0)).unwrap();
        let room = |run| Apart::new(&[0; 300_000], run, 8);
        assert!(!links[1].read(Peer(0), loan, room(500), 300_000, 1));
        assert!(!links[1].read(Peer(0), Loan::named(loan.name), room(300_000), 300_000, 1));
        assert!(!links[1].read(Peer(0), Loan { runs: 1 << 40, ..loan }, room(300_000), 300_000, 1));
        links[0].withdraw(loan);
    }
}

#[test]
fn registrations_are_used_again() {
    let Some(mut links) = pair("tcp") else { return };
    let memory = Apart::new(&[1; 300_000], 300_000, 0);
    for _ in 0..3 {
        let loan = links[0].lend(Peer(1), memory.clone()).unwrap();
        links[0].withdraw(loan);
    }
    let counters = links[0].counters();
    assert_eq!((counters.registrations, counters.reused_registrations), (1, 2));
}

#[test]
fn a_key_that_is_none_fails_and_says_so() {
    for provider in PROVIDERS {
        let Some(mut links) = pair(provider) else { return };
        let loan = Loan { name: 7, address: 5, key: 0x1234_5678, runs: 1 };
        assert!(links[1].read(Peer(0), loan, Apart::new(&[0; 300_000], 300_000, 0), 300_000, 1));
        let mut failure = None;
        until(&mut links, |links| {
            failure = links.iter_mut().find_map(Link::failure);
            failure.is_some()
        });
        assert_eq!(links[1].completed(), None, "{provider} {failure:?}");
    }
}
