//! Resources that ranks share and wait for. Processors are [`Processors`]. All others are a [`Server`], which
//! serves requests one after the other: a memory controller, the readers of one rank, a flag's line, a
//! network interface.

use std::collections::VecDeque;

/// Picoseconds since the operation began. They are whole numbers, so that every machine computes the same.
pub(super) type Time = u64;

/// Converts seconds to [`Time`].
pub(super) fn time(seconds: f64) -> Time {
    (seconds * 1e12).round() as Time
}

/// Resource that serves requests in order of arrival. The rate of all requests together and the end of the
/// last one are exact. If requests are served side by side in reality, the first ones end too early here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Server {
    free: Time,
}

impl Server {
    /// Returns the time at which a request that arrives `now` and takes `service` has been served.
    pub fn book(&mut self, now: Time, service: Time) -> Time {
        self.free = self.free.max(now) + service;
        self.free
    }

    /// Returns the time until which it is busy with its requests.
    pub fn until(&self) -> Time {
        self.free
    }
}

/// Processors of a pool. A rank keeps one while it has work. If there are more ranks than processors, the
/// next rank gets it after a switch.
#[derive(Clone, Debug)]
pub(super) struct Processors {
    /// Free processors, each with the rank that used it last.
    free: Vec<Option<u32>>,
    queue: VecDeque<u32>,
    crowded: bool,
}

impl Processors {
    pub fn new(processors: u32, ranks: u32) -> Processors {
        let crowded = ranks > processors;
        let free = if crowded { vec![None; processors as usize] } else { Vec::new() };
        Processors { free, queue: VecDeque::new(), crowded }
    }

    /// Returns true if there are more ranks than processors.
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Returns the time at which `rank`, which has work from `now` on, gets a processor. Returns `None` if it
    /// has to wait for [`Processors::release`].
    pub fn acquire(&mut self, rank: u32, now: Time, switch: Time) -> Option<Time> {
        if !self.crowded {
            return Some(now);
        }
        let own = self.free.iter().position(|last| *last == Some(rank) || last.is_none());
        let Some(found) = own.or(self.free.len().checked_sub(1)) else {
            self.queue.push_back(rank);
            return None;
        };
        let last = self.free.swap_remove(found);
        Some(if last.is_none_or(|last| last == rank) { now } else { now + switch })
    }

    /// Releases the processor of `rank`, which has no more work. Returns the rank that gets it.
    pub fn release(&mut self, rank: u32) -> Option<u32> {
        if !self.crowded {
            return None;
        }
        let next = self.queue.pop_front();
        if next.is_none() {
            self.free.push(Some(rank));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_goes_to_who_waits_longest() {
        let mut pool = Processors::new(1, 3);
        assert_eq!(pool.acquire(0, 5, 100), Some(5));
        assert_eq!(pool.acquire(1, 6, 100), None);
        assert_eq!(pool.acquire(2, 7, 100), None);
        assert_eq!(pool.release(0), Some(1));
        assert_eq!(pool.release(1), Some(2));
        assert_eq!(pool.release(2), None);
        assert_eq!(pool.acquire(2, 9, 100), Some(9));
        assert_eq!(pool.release(2), None);
        assert_eq!(pool.acquire(0, 9, 100), Some(109));
        assert_eq!(Processors::new(2, 2).acquire(1, 3, 100), Some(3));
    }

    #[test]
    fn a_server_serves_one_after_the_other() {
        let mut server = Server::default();
        assert_eq!([server.book(0, 10), server.book(5, 10), server.book(50, 1)], [10, 20, 51]);
        assert_eq!(time(1e-9), 1000);
    }
}
