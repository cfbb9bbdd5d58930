//! Links to processes of other jobs, which this job has spawned or met at a port (MPI-5 chapter 11).
//!
//! Whenever groups of processes of several jobs meet, a bridge is built. If all are on one host it is a
//! shared memory object with a ring between any two of them, otherwise a link of its own over the network.
//! The layers above identify a process of another job by a number beyond the ranks of the own world. Two
//! processes keep using the bridge over which they met first, since the order of their messages is that of
//! one ring. A bridge ends when none of its processes is in use any more. Both sides agree on that, so that
//! no message goes to a bridge that nobody polls.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use crate::link::{Header, Link, Peer, Sink, Verdict};
use crate::links::FarLink;
use crate::shm::ShmLink;

/// Longest time for which an unused bridge over the network is kept until its last messages have arrived.
/// Both sides have agreed to send nothing more, so only a process that has gone away makes it take this long.
const PARTING: Duration = Duration::from_secs(10);

/// Carrier of a bridge. Its ranks are those of the bridge.
#[derive(Debug)]
pub enum Way<F> {
    /// Shared memory of the host.
    Near(ShmLink),
    /// Link over the network.
    Far(Box<F>),
}

impl<F> Way<F> {
    fn far(&mut self) -> Option<&mut F> {
        match self {
            Way::Near(_) => None,
            Way::Far(far) => Some(far),
        }
    }
}

/// All bridges of a process.
#[derive(Debug)]
pub struct Bridges<F> {
    /// Ranks of the own world: the first number of a process of another job.
    first: u32,
    bridges: Vec<Option<Bridge<F>>>,
    /// Bridge and rank by which each process of other jobs is reached.
    routes: Vec<Option<Route>>,
    /// Bridges over the network that are used no more, and since when.
    parting: Vec<(Box<F>, Instant)>,
}

#[derive(Debug)]
struct Bridge<F> {
    way: Way<F>,
    /// The number of each rank of the bridge.
    members: Box<[Peer]>,
}

#[derive(Clone, Copy, Debug)]
struct Route {
    bridge: usize,
    rank: Peer,
}

/// Tells the sink the numbers of processes where a bridge names its own ranks.
struct Named<'a, S> {
    sink: &'a mut S,
    members: &'a [Peer],
}

impl<S: Sink> Sink for Named<'_, S> {
    fn arrived(&mut self, from: Peer, header: Header, payload: &[u8]) -> Verdict {
        self.sink.arrived(self.members[from.0 as usize], header, payload)
    }
}

impl<F: FarLink> Bridges<F> {
    /// Creates an empty set of bridges in a world of `world` ranks.
    pub fn new(world: u32) -> Bridges<F> {
        Bridges { first: world, bridges: Vec::new(), routes: Vec::new(), parting: Vec::new() }
    }

    /// Returns true if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bridges.is_empty() && self.parting.is_empty()
    }

    /// Returns true if one goes over the network.
    #[inline]
    pub fn any_far(&self) -> bool {
        let is_far = |bridge: &Bridge<F>| matches!(bridge.way, Way::Far(_));
        !self.parting.is_empty() || self.bridges.iter().flatten().any(is_far)
    }

    /// Returns true if `peer` is a process of another job.
    #[inline]
    pub fn is_beyond(&self, peer: Peer) -> bool {
        peer.0 >= self.first
    }

    /// Adds a bridge for those of its members without any other bridge. All members do the same.
    pub fn add(&mut self, way: Way<F>, members: Box<[Peer]>) {
        let bridge = self.bridges.iter().position(Option::is_none).unwrap_or(self.bridges.len());
        let mut is_used = false;
        for (rank, peer) in (0..).zip(&members) {
            let Some(at) = peer.0.checked_sub(self.first) else { continue };
            if self.routes.len() <= at as usize {
                self.routes.resize(at as usize + 1, None);
            }
            let route = &mut self.routes[at as usize];
            if route.is_none() {
                *route = Some(Route { bridge, rank: Peer(rank) });
                is_used = true;
            }
        }
        if is_used {
            if bridge == self.bridges.len() {
                self.bridges.push(None);
            }
            self.bridges[bridge] = Some(Bridge { way, members });
        }
    }

    /// Forgets how to reach these processes, who forget how to reach this one.
    pub fn forget(&mut self, peers: impl Iterator<Item = Peer>) {
        for peer in peers.filter(|peer| peer.0 >= self.first) {
            if let Some(route) = self.routes.get_mut((peer.0 - self.first) as usize) {
                *route = None;
            }
        }
        for (number, bridge) in self.bridges.iter_mut().enumerate() {
            if self.routes.iter().flatten().any(|route| route.bridge == number) {
                continue;
            }
            if let Some(Bridge { way: Way::Far(far), .. }) = bridge.take() {
                self.parting.push((far, Instant::now()));
            }
        }
        while self.bridges.last().is_some_and(Option::is_none) {
            self.bridges.pop();
        }
    }

    /// Returns the processes that can be reached.
    pub fn known(&self) -> impl Iterator<Item = Peer> + '_ {
        let numbers = self.first..;
        numbers.zip(&self.routes).filter(|(_, route)| route.is_some()).map(|(number, _)| Peer(number))
    }

    /// Returns the link that leads to `peer`, and the peer's rank there.
    pub fn route(&self, peer: Peer) -> Option<(&Way<F>, Peer)> {
        let route = self.find(peer)?;
        Some((&self.bridges.get(route.bridge)?.as_ref()?.way, route.rank))
    }

    /// Returns the link that leads to `peer`, for sending, and the peer's rank there.
    pub fn route_mut(&mut self, peer: Peer) -> Option<(&mut Way<F>, Peer)> {
        let route = self.find(peer)?;
        Some((&mut self.bridges.get_mut(route.bridge)?.as_mut()?.way, route.rank))
    }

    fn find(&self, peer: Peer) -> Option<Route> {
        self.routes.get((peer.0 - self.first) as usize).copied().flatten()
    }

    /// Hands over what has come over any bridge.
    #[cold]
    pub fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let mut taken = false;
        for Bridge { way, members } in self.bridges.iter_mut().flatten() {
            let mut sink = Named { sink, members };
            taken |= match way {
                Way::Near(near) => near.poll(&mut sink),
                Way::Far(far) => far.poll(&mut sink),
            };
        }
        self.part();
        taken
    }

    /// Hands over what has come from `peer`.
    pub fn poll_peer(&mut self, peer: Peer, sink: &mut impl Sink) -> bool {
        let Some(Route { bridge, rank }) = self.find(peer) else { return false };
        let bridge = self.bridges.get_mut(bridge).and_then(Option::as_mut);
        bridge.is_some_and(|Bridge { way, members }| {
            let mut sink = Named { sink, members };
            match way {
                Way::Near(near) => near.poll_peer(rank, &mut sink),
                Way::Far(far) => far.poll_peer(rank, &mut sink),
            }
        })
    }

    /// Returns true if something has come.
    pub fn pending(&self) -> bool {
        self.bridges.iter().flatten().any(|bridge| match &bridge.way {
            Way::Near(near) => near.pending(),
            Way::Far(far) => far.pending(),
        })
    }

    /// Returns a process that cannot be reached any more, and the reason.
    #[cold]
    pub fn failure(&mut self) -> Option<(Peer, String)> {
        self.bridges.iter_mut().flatten().find_map(|Bridge { way, members }| {
            let (rank, why) = way.far()?.failure()?;
            Some((members[rank.0 as usize], why))
        })
    }

    /// Prepares all bridges over the network for sleep. See [`FarLink::before_sleep`] for the result.
    pub fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> (bool, Option<Instant>) {
        let (mut quiet, mut until) = (true, None);
        let used = self.bridges.iter_mut().flatten().filter_map(|bridge| bridge.way.far());
        for far in used.chain(self.parting.iter_mut().map(|(far, _)| &mut **far)) {
            let (rests, deadline) = far.before_sleep(descriptors);
            quiet &= rests;
            until = until.into_iter().chain(deadline).min();
        }
        (quiet, until)
    }

    /// Returns true if all bridges over the network are flushed ([`FarLink::is_flushed`]).
    pub fn is_flushed(&mut self) -> bool {
        self.part();
        let mut flushed = self.parting.is_empty();
        for far in self.bridges.iter_mut().flatten().filter_map(|bridge| bridge.way.far()) {
            flushed &= far.is_flushed();
        }
        flushed
    }

    fn part(&mut self) {
        self.parting.retain_mut(|(far, since)| !far.is_flushed() && since.elapsed() < PARTING);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tutti_sys::job::{Job, Plan};

    use super::*;
    use crate::memory::MemoryLink;
    use crate::shm::Home;

    /// Builds a bridge between jobs of these sizes and returns the ends of all their ranks. Rank 0 of the
    /// second job is known to the first as number `size of the first`, and the other way round.
    fn bridge(one: u32, other: u32) -> Vec<(ShmLink, Box<[Peer]>)> {
        let jobs = [one, other].map(|ranks| Arc::new(Job::create(&Plan::one_host(ranks)).unwrap()));
        let object = Arc::new(Job::create(&Plan::one_host(one + other)).unwrap());
        let home = |rank: u32| match rank.checked_sub(one) {
            None => Home { job: Arc::clone(&jobs[0]), local: rank },
            Some(local) => Home { job: Arc::clone(&jobs[1]), local },
        };
        let homes: Box<[Home]> = (0..one + other).map(home).collect();
        let number = |me: u32, rank: u32| match (me < one, rank < one) {
            (true, _) => rank,
            (false, false) => rank - one,
            (false, true) => other + rank,
        };
        (0..one + other)
            .map(|me| {
                let link = ShmLink::bridge(Arc::clone(&object), me, homes.clone()).unwrap();
                (link, (0..one + other).map(|rank| Peer(number(me, rank))).collect())
            })
            .collect()
    }

    /// Returns the records that `bridges` finds, as number of the sender and first word.
    fn found(bridges: &mut Bridges<MemoryLink>) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        bridges.poll(&mut |peer: Peer, header: Header, _: &[u8]| {
            found.push((peer.0, header.0[0]));
            Verdict::Taken
        });
        found
    }

    fn send(sides: &mut [Bridges<MemoryLink>], from: usize, to: u32, word: u64) {
        let (way, rank) = sides[from].route_mut(Peer(to)).unwrap();
        let header = Header([word, 0, 0]);
        match way {
            Way::Near(near) => near.try_send(rank, header, &[]).unwrap(),
            Way::Far(far) => far.try_send(rank, header, &[]).unwrap(),
        }
    }

    #[test]
    fn a_bridge_over_the_network_is_kept_until_all_has_arrived() {
        // One process each of two jobs with two ranks; each knows the other by number 2.
        let mut sides: Vec<Bridges<MemoryLink>> = MemoryLink::connected(2, 8, 1 << 10)
            .into_iter()
            .zip([[0, 2], [2, 1]])
            .map(|(link, members)| {
                let mut side = Bridges::new(2);
                side.add(Way::Far(Box::new(link)), Box::new(members.map(Peer)));
                side
            })
            .collect();
        send(&mut sides, 0, 2, 7);
        assert!(sides[1].any_far() && sides[1].pending() && !sides[0].pending());
        assert_eq!(found(&mut sides[1]), [(2, 7)]);
        send(&mut sides, 1, 2, 8);
        assert_eq!(found(&mut sides[0]), [(2, 8)]);
        assert_eq!(sides[0].before_sleep(&mut Vec::new()), (true, None));
        sides[0].forget([Peer(2)].into_iter());
        assert!(!sides[0].is_empty() && sides[0].known().next().is_none());
        assert!(sides[0].is_flushed() && sides[0].is_empty());
    }

    #[test]
    fn records_cross_and_the_first_bridge_stays_in_use() {
        let mut ends = bridge(2, 1).into_iter();
        let mut sides: Vec<Bridges<MemoryLink>> = [2, 2, 1].into_iter().map(Bridges::new).collect();
        for side in &mut sides {
            let (link, members) = ends.next().unwrap();
            side.add(Way::Near(link), members);
        }
        send(&mut sides, 0, 2, 7);
        send(&mut sides, 2, 2, 8);
        assert!(sides[2].pending() && sides[1].pending() && !sides[0].pending());
        assert_eq!((found(&mut sides[2]), found(&mut sides[1])), (vec![(1, 7)], vec![(2, 8)]));
        // They meet again: the second bridge leads to nobody new, so it is not kept.
        for (side, (link, members)) in sides.iter_mut().zip(bridge(2, 1)) {
            side.add(Way::Near(link), members);
            assert_eq!(side.bridges.len(), 1);
        }
        send(&mut sides, 1, 2, 9);
        assert_eq!(found(&mut sides[2]), [(2, 9)]);
        assert_eq!(sides[2].known().collect::<Vec<_>>(), [Peer(1), Peer(2)]);
        sides[2].forget([Peer(1)].into_iter());
        assert!(!sides[2].is_empty());
        sides[2].forget([Peer(2)].into_iter());
        assert!(sides[2].is_empty());
    }
}
