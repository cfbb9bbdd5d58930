//! Links to processes of other jobs on this host, which this job has spawned, or met at a port (MPI-5 chapter 11).
//!
//! Whenever two groups of processes of several jobs meet, a bridge is built: a shared memory object with a ring between any two
//! of them. What is above knows a process of another job by a number beyond the ranks of the own world. Two processes go on
//! using the bridge over which they met first, since the order of their messages is that of one ring; a bridge is gone when
//! nobody of it is spoken to any more. Both sides agree on who that is, so that no message goes where nobody looks.

use crate::link::{Header, Link, Peer, Sink, Verdict};
use crate::shm::ShmLink;

/// All bridges of a process.
#[derive(Debug, Default)]
pub struct Bridges {
    /// Ranks of the own world: the first number of a process of another job.
    first: u32,
    bridges: Vec<Option<Bridge>>,
    /// By which bridge each of the others is reached.
    routes: Vec<Option<Route>>,
}

#[derive(Debug)]
struct Bridge {
    link: ShmLink,
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

impl Bridges {
    /// None, in a world of so many ranks.
    pub fn new(world: u32) -> Bridges {
        Bridges { first: world, ..Bridges::default() }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bridges.is_empty()
    }

    /// Whether `peer` is a process of another job.
    #[inline]
    pub fn is_beyond(&self, peer: Peer) -> bool {
        peer.0 >= self.first
    }

    /// Uses a bridge for those of its members that no other bridge leads to. All of them do the same.
    pub fn add(&mut self, link: ShmLink, members: Box<[Peer]>) {
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
            self.bridges[bridge] = Some(Bridge { link, members });
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
            if !self.routes.iter().flatten().any(|route| route.bridge == number) {
                *bridge = None;
            }
        }
        while self.bridges.last().is_some_and(Option::is_none) {
            self.bridges.pop();
        }
    }

    /// The processes that can be reached.
    pub fn known(&self) -> impl Iterator<Item = Peer> + '_ {
        let numbers = self.first..;
        numbers.zip(&self.routes).filter(|(_, route)| route.is_some()).map(|(number, _)| Peer(number))
    }

    /// The link that leads to `peer`, and what it is called there.
    pub fn route(&self, peer: Peer) -> Option<(&ShmLink, Peer)> {
        let route = self.find(peer)?;
        Some((&self.bridges.get(route.bridge)?.as_ref()?.link, route.rank))
    }

    /// The same, to send.
    pub fn route_mut(&mut self, peer: Peer) -> Option<(&mut ShmLink, Peer)> {
        let route = self.find(peer)?;
        Some((&mut self.bridges.get_mut(route.bridge)?.as_mut()?.link, route.rank))
    }

    fn find(&self, peer: Peer) -> Option<Route> {
        self.routes.get((peer.0 - self.first) as usize).copied().flatten()
    }

    /// Hands over what has come over any bridge.
    #[cold]
    pub fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let mut taken = false;
        for Bridge { link, members } in self.bridges.iter_mut().flatten() {
            taken |= link.poll(&mut Named { sink, members });
        }
        taken
    }

    /// Hands over what has come from `peer`.
    pub fn poll_peer(&mut self, peer: Peer, sink: &mut impl Sink) -> bool {
        let Some(Route { bridge, rank }) = self.find(peer) else { return false };
        let bridge = self.bridges.get_mut(bridge).and_then(Option::as_mut);
        bridge.is_some_and(|Bridge { link, members }| link.poll_peer(rank, &mut Named { sink, members }))
    }

    /// Whether something has come.
    pub fn pending(&self) -> bool {
        self.bridges.iter().flatten().any(|bridge| bridge.link.pending())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tutti_sys::job::{Job, Plan};

    use super::*;
    use crate::shm::Home;

    /// A bridge between jobs of these sizes; the ends of all their ranks. Rank 0 of the second job is known to the first as
    /// number `size of the first`, and the other way round.
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

    /// The records that `bridges` finds, as number of the sender and first word.
    fn found(bridges: &mut Bridges) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        bridges.poll(&mut |peer: Peer, header: Header, _: &[u8]| {
            found.push((peer.0, header.0[0]));
            Verdict::Taken
        });
        found
    }

    #[test]
    fn records_cross_and_the_first_bridge_stays_in_use() {
        let mut ends = bridge(2, 1).into_iter();
        let mut sides: Vec<Bridges> = [2, 2, 1].into_iter().map(Bridges::new).collect();
        for side in &mut sides {
            let (link, members) = ends.next().unwrap();
            side.add(link, members);
        }
        let send = |sides: &mut Vec<Bridges>, from: usize, to: u32, word: u64| {
            let (link, rank) = sides[from].route_mut(Peer(to)).unwrap();
            link.try_send(rank, Header([word, 0, 0]), &[]).unwrap();
        };
        send(&mut sides, 0, 2, 7);
        send(&mut sides, 2, 2, 8);
        assert!(sides[2].pending() && sides[1].pending() && !sides[0].pending());
        assert_eq!((found(&mut sides[2]), found(&mut sides[1])), (vec![(1, 7)], vec![(2, 8)]));
        // They meet again: the second bridge leads to nobody new, so it is not kept.
        for (side, (link, members)) in sides.iter_mut().zip(bridge(2, 1)) {
            side.add(link, members);
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
