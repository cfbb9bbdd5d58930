//! A stand-in for a transport: queues in the memory of one process, for tests of what lies above a link.
//!
//! Room is small and exact, so tests meet full links early. It may be used from several threads.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::link::{Full, Header, Link, Peer, Sink, Verdict};

const RECORDS_PER_POLL: usize = 32;

/// One process's end of a set of links in memory.
#[derive(Clone, Debug)]
pub struct MemoryLink {
    rank: u32,
    max_payload: usize,
    capacity: usize,
    queues: Arc<[Queue]>,
}

/// Records on their way from one process to another.
#[derive(Debug, Default)]
struct Queue {
    records: Mutex<VecDeque<(Header, Vec<u8>)>>,
    held: Mutex<bool>,
}

impl MemoryLink {
    /// Returns the ends of `ranks` processes. Every pair is linked by a queue of `capacity` records of up to
    /// `max_payload` bytes.
    pub fn connected(ranks: u32, capacity: usize, max_payload: usize) -> Vec<MemoryLink> {
        let queues: Arc<[Queue]> = (0..ranks * ranks).map(|_| Queue::default()).collect();
        let end = |rank| MemoryLink { rank, max_payload, capacity, queues: queues.clone() };
        (0..ranks).map(end).collect()
    }

    fn ranks(&self) -> u32 {
        self.queues.len().isqrt() as u32
    }

    fn queue(&self, to: u32, from: u32) -> &Queue {
        assert!(to < self.ranks() && from < self.ranks(), "no such local rank");
        &self.queues[(to * self.ranks() + from) as usize]
    }
}

impl Link for MemoryLink {
    fn max_payload(&self) -> usize {
        self.max_payload
    }

    fn try_send_with(
        &mut self,
        to: Peer,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        assert!(bytes <= self.max_payload && to.0 != self.rank, "a record that no link takes");
        let mut records = lock(&self.queue(to.0, self.rank).records);
        if records.len() >= self.capacity {
            return Err(Full);
        }
        let mut payload = vec![0xa5; bytes];
        fill(&mut payload);
        records.push_back((header, payload));
        Ok(())
    }

    fn has_room(&self, to: Peer, _bytes: usize) -> bool {
        lock(&self.queue(to.0, self.rank).records).len() < self.capacity
    }

    fn want_room(&mut self, to: Peer, bytes: usize) -> bool {
        self.has_room(to, bytes)
    }

    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        (0..self.ranks()).fold(false, |any, from| self.poll_peer(Peer(from), sink) | any)
    }

    fn poll_peer(&mut self, from: Peer, sink: &mut impl Sink) -> bool {
        let queue = self.queue(self.rank, from.0);
        let mut taken = false;
        for _ in 0..RECORDS_PER_POLL {
            let Some((header, payload)) = lock(&queue.records).front().cloned() else { break };
            let left = sink.arrived(from, header, &payload) == Verdict::Left;
            *lock(&queue.held) = left;
            if left {
                break;
            }
            lock(&queue.records).pop_front();
            taken = true;
        }
        taken
    }

    fn pending(&self) -> bool {
        (0..self.ranks()).map(|from| self.queue(self.rank, from)).any(|queue| {
            let waiting = !lock(&queue.records).is_empty();
            waiting && !*lock(&queue.held)
        })
    }
}

/// Locks a queue, even after a panic: the queue is consistent whatever its last user did.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
