//! All links of a process as one: shared memory to the ranks of its host, the fabric to the others.
//!
//! Peers are ranks of the world here. In a job of one host shared memory uses the same numbers, so nothing is
//! translated and there is no fabric. Processes of other jobs have numbers beyond the world and are reached
//! over [`Bridges`]. The layers above see one link, and so need only one matcher, with wildcards.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use tutti_base::traffic::TRAFFIC;
use tutti_sys::clock;
use tutti_sys::job::Job;

use crate::bridges::{Bridges, Way};
use crate::link::{Full, Header, LINK_KIND, Link, Peer, Sink, Verdict};
use crate::loan::{Loan, Memory};
use crate::multicast::carrier::Casting;
use crate::poll_interval::PollInterval;
use crate::shm::ShmLink;

/// A link to other hosts: peers are ranks of the world.
pub trait FarLink: Link {
    /// Prepares a sleep: appends the descriptors to watch and returns the latest end. False if there is
    /// something to do first.
    fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> (bool, Option<Instant>);

    /// Notes which of the descriptors were ready when the sleep ended. The next poll need not ask the others.
    fn slept(&mut self, _ready: &[RawFd]) {}

    /// Returns true if all that was sent has reached its peers, or will without this process. Asked again and
    /// again before the process leaves.
    fn is_flushed(&mut self) -> bool;

    /// Sends and receives again after [`FarLink::is_flushed`], once all ranks of the job have flushed theirs.
    fn reopen(&mut self);
}

/// Shared memory and the fabric.
#[derive(Debug)]
pub struct Links<F> {
    near: ShmLink,
    job: Arc<Job>,
    far: Option<Box<F>>,
    /// Multicast to other hosts.
    casting: Option<Box<Casting>>,
    interval: PollInterval,
    bridges: Bridges<F>,
}

impl<F: FarLink> Links<F> {
    /// Combines the links. `far` is given if and only if the job has several hosts.
    pub fn new(near: ShmLink, far: Option<Box<F>>) -> Links<F> {
        let job = Arc::clone(near.job());
        debug_assert_eq!(far.is_some(), job.header().has_other_hosts());
        let bridges = Bridges::new(job.header().world_size);
        Links { near, job, far, casting: None, interval: PollInterval::default(), bridges }
    }

    /// Adds multicast to other hosts.
    #[must_use]
    pub fn with_casting(self, casting: Option<Box<Casting>>) -> Links<F> {
        Links { casting, ..self }
    }

    /// Returns the multicast to other hosts, if there is any. The next poll includes it.
    pub fn casting(&mut self) -> Option<&mut Casting> {
        self.interval.at_once();
        self.casting.as_deref_mut()
    }

    /// Returns the link to other hosts, if there are any. The next poll includes it.
    pub fn far(&mut self) -> Option<&mut F> {
        self.interval.at_once();
        self.far.as_deref_mut()
    }

    /// Returns the links to processes of other jobs.
    pub fn bridges(&mut self) -> &mut Bridges<F> {
        &mut self.bridges
    }

    /// Prepares all links over the network for sleep. See [`FarLink::before_sleep`] for the result.
    pub fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> (bool, Option<Instant>) {
        let (rests, until) = self.far().map_or((true, None), |far| far.before_sleep(descriptors));
        let (all_rest, first) = self.bridges.before_sleep(descriptors);
        let due = self.casting.as_ref().and_then(|casting| casting.before_sleep(descriptors));
        (rests && all_rest, until.into_iter().chain(first).chain(due).min())
    }

    /// Notes which of the descriptors were ready when the sleep ended: see [`FarLink::slept`].
    pub fn slept(&mut self, ready: &[RawFd]) {
        if let Some(far) = self.far() {
            far.slept(ready);
        }
    }

    /// Returns true if multicast usually waits long for room: see [`Casting::waits_long`].
    pub fn waits_long(&self) -> bool {
        self.casting.as_ref().is_some_and(|casting| casting.waits_long())
    }

    /// Returns the descriptor to watch if multicast needs room: see [`Casting::wants_room`].
    pub fn wants_room(&self) -> Option<RawFd> {
        self.casting.as_ref()?.wants_room()
    }

    /// Returns true if all links over the network are flushed ([`FarLink::is_flushed`]).
    pub fn is_flushed(&mut self) -> bool {
        let flushed = self.far().is_none_or(FarLink::is_flushed);
        self.bridges.is_flushed() && flushed
    }
}

/// Sink that translates local ranks of shared memory into ranks of the world.
struct InTheWorld<'a, S> {
    sink: &'a mut S,
    job: &'a Job,
}

impl<S: Sink> Sink for InTheWorld<'_, S> {
    #[inline]
    fn arrived(&mut self, from: Peer, header: Header, payload: &[u8]) -> Verdict {
        self.sink.arrived(Peer(self.job.world_rank(from.0)), header, payload)
    }
}

/// Keeps what the link says to itself from its owner.
struct Sieve<'a, S> {
    casting: Option<&'a mut Casting>,
    sink: &'a mut S,
}

impl<S: Sink> Sink for Sieve<'_, S> {
    #[inline]
    fn arrived(&mut self, from: Peer, header: Header, payload: &[u8]) -> Verdict {
        if header.0[0] & 0xff != LINK_KIND {
            return self.sink.arrived(from, header, payload);
        }
        if let Some(casting) = &mut self.casting {
            casting.told(from, header, payload, self.sink);
        }
        Verdict::Taken
    }
}

impl<F: FarLink> Links<F> {
    /// Returns the fabric if it leads to `peer`; otherwise the peer's number in shared memory.
    #[inline]
    fn route(&mut self, peer: Peer) -> Route<'_, F> {
        if self.bridges.is_beyond(peer) {
            return match self.bridges.route_mut(peer) {
                None => Route::Gone,
                Some((Way::Near(near), rank)) => Route::Near(near, rank),
                Some((Way::Far(far), rank)) => Route::Far(far, rank),
            };
        }
        match &mut self.far {
            None => Route::Near(&mut self.near, peer),
            Some(far) => match self.job.local_rank(peer.0) {
                Some(local) => Route::Near(&mut self.near, Peer(local)),
                None => Route::Far(far, peer),
            },
        }
    }

    /// Returns true if the fabric leads to `peer`, and it is of the own job: others may have other settings.
    fn is_elsewhere(&self, peer: Peer) -> bool {
        !self.bridges.is_beyond(peer) && self.job.local_rank(peer.0).is_none()
    }

    /// Returns the fabric if it leads to `peer` of the own job: memory is lent there only.
    fn far_to(&mut self, peer: Peer) -> Option<&mut F> {
        let is_elsewhere = self.is_elsewhere(peer);
        self.far.as_deref_mut().filter(|_| is_elsewhere)
    }
}

enum Route<'a, F> {
    Near(&'a mut ShmLink, Peer),
    Far(&'a mut F, Peer),
    /// Both sides have agreed to say nothing more ([`Bridges::forget`]): what is left, credit for example,
    /// means nothing.
    Gone,
}

impl<F: FarLink> Link for Links<F> {
    fn max_payload(&self) -> usize {
        let far = self.far.as_ref().map_or(usize::MAX, |far| far.max_payload());
        self.near.max_payload().min(far)
    }

    #[inline]
    fn try_send_with(
        &mut self,
        to: Peer,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        match self.route(to) {
            Route::Near(near, to) => {
                near.try_send_with(to, header, bytes, fill)?;
                TRAFFIC.ring.add(bytes as u64);
            }
            Route::Far(far, to) => {
                far.try_send_with(to, header, bytes, fill)?;
                TRAFFIC.network.add(bytes as u64);
            }
            Route::Gone => {}
        }
        Ok(())
    }

    fn has_room(&self, to: Peer, bytes: usize) -> bool {
        if self.bridges.is_beyond(to) {
            return self.bridges.route(to).is_none_or(|(way, rank)| match way {
                Way::Near(near) => near.has_room(rank, bytes),
                Way::Far(far) => far.has_room(rank, bytes),
            });
        }
        match &self.far {
            None => self.near.has_room(to, bytes),
            Some(far) => match self.job.local_rank(to.0) {
                Some(local) => self.near.has_room(Peer(local), bytes),
                None => far.has_room(to, bytes),
            },
        }
    }

    fn want_room(&mut self, to: Peer, bytes: usize) -> bool {
        match self.route(to) {
            Route::Near(near, to) => near.want_room(to, bytes),
            Route::Far(far, to) => far.want_room(to, bytes),
            Route::Gone => true,
        }
    }

    fn is_connected(&self, to: Peer) -> bool {
        self.is_elsewhere(to) && self.far.as_ref().is_some_and(|far| far.is_connected(to))
    }

    fn has_come(&self, from: Peer) -> Option<bool> {
        if self.bridges.is_beyond(from) {
            return None;
        }
        let local = if self.far.is_none() { Some(from.0) } else { self.job.local_rank(from.0) };
        self.near.has_come(Peer(local?))
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let crossed = !self.bridges.is_empty() && self.bridges.poll(sink);
        self.poll_own(sink) | crossed
    }

    #[inline]
    fn poll_peer(&mut self, from: Peer, sink: &mut impl Sink) -> bool {
        if self.bridges.is_beyond(from) {
            return self.bridges.poll_peer(from, sink);
        }
        if self.far.is_none() {
            return self.near.poll_peer(from, sink);
        }
        match self.job.local_rank(from.0) {
            Some(local) => self.near.poll_peer(Peer(local), &mut InTheWorld { sink, job: &self.job }),
            None => {
                let Links { far, casting, .. } = self;
                let Some(far) = far else { return false };
                let taken = far.poll_peer(from, &mut Sieve { casting: casting.as_deref_mut(), sink });
                taken | casting.as_mut().is_some_and(|casting| casting.poll(&mut **far, sink))
            }
        }
    }

    #[inline]
    fn is_quiet(&self) -> bool {
        self.far.is_none() && self.casting.is_none() && self.bridges.is_empty() && self.near.is_quiet()
    }

    #[inline]
    fn pending(&self) -> bool {
        let crossed = !self.bridges.is_empty() && self.bridges.pending();
        crossed || self.near.pending() || self.far.as_ref().is_some_and(|far| far.pending())
    }

    fn multicast(
        &mut self,
        to: &[Peer],
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
        rest: &mut Vec<Peer>,
    ) -> Result<(), Full> {
        let others: Vec<Peer> = to.iter().copied().filter(|peer| self.is_elsewhere(*peer)).collect();
        let (Some(far), Some(casting), false) = (&mut self.far, &mut self.casting, others.is_empty()) else {
            rest.extend_from_slice(to);
            return Ok(());
        };
        casting.send(&mut **far, &others, header, bytes, fill, rest)?;
        rest.extend(to.iter().filter(|peer| !others.contains(peer)));
        TRAFFIC.network.add(bytes as u64);
        Ok(())
    }

    fn handed_back(&mut self) -> Option<(Peer, Header, Vec<u8>)> {
        self.casting.as_mut()?.handed_back()
    }

    fn lend(&mut self, to: Peer, memory: Memory) -> Option<Loan> {
        self.far_to(to)?.lend(to, memory)
    }

    fn withdraw(&mut self, loan: Loan) {
        if let Some(far) = &mut self.far {
            far.withdraw(loan);
        }
    }

    fn returned(&mut self) -> Option<Loan> {
        self.far.as_mut()?.returned()
    }

    fn read(&mut self, from: Peer, loan: Loan, memory: Memory, bytes: u64, token: u64) -> bool {
        let begun = self.far_to(from).is_some_and(|far| far.read(from, loan, memory, bytes, token));
        if begun {
            TRAFFIC.network.add(bytes);
        }
        begun
    }

    fn completed(&mut self) -> Option<u64> {
        self.far.as_mut()?.completed()
    }

    #[inline]
    fn failure(&mut self) -> Option<(Peer, String)> {
        let failure = self.far.as_mut().and_then(|far| far.failure());
        if failure.is_some() || self.bridges.is_empty() { failure } else { self.bridges.failure() }
    }
}

impl<F: FarLink> Links<F> {
    /// Polls the links to ranks of the own world.
    #[inline]
    fn poll_own(&mut self, sink: &mut impl Sink) -> bool {
        let Some(far) = &mut self.far else { return self.near.poll(sink) };
        let taken = self.near.poll(&mut InTheWorld { sink, job: &self.job });
        if !self.interval.due(taken, clock::ticks) {
            return taken;
        }
        let begun = clock::ticks();
        let casting = &mut self.casting;
        let mut found = far.poll(&mut Sieve { casting: casting.as_deref_mut(), sink });
        if let Some(casting) = casting {
            found |= casting.poll(&mut **far, sink);
        }
        self.interval.looked(begun, clock::ticks(), found);
        found | taken
    }
}

/// A stand-in for the fabric, in tests.
impl FarLink for crate::memory::MemoryLink {
    fn before_sleep(&mut self, _descriptors: &mut Vec<RawFd>) -> (bool, Option<Instant>) {
        (!self.pending(), None)
    }

    fn is_flushed(&mut self) -> bool {
        true
    }

    fn reopen(&mut self) {}
}

#[cfg(test)]
mod tests {
    use tutti_base::Placement;
    use tutti_sys::job::Plan;

    use super::*;
    use crate::memory::MemoryLink;

    /// Checks that every rank of a job on these hosts sends a record to every other, which receives it
    /// unchanged.
    fn check(hosts: &[u32]) {
        let placement = Placement::from_hosts(hosts.iter().copied()).unwrap();
        let several = placement.hosts() > 1;
        let plan = |host| Plan { host, placement: placement.clone(), ..Plan::one_host(1) };
        let jobs: Vec<Arc<Job>> =
            (0..placement.hosts()).map(|host| Arc::new(Job::create(&plan(host)).unwrap())).collect();
        let far = MemoryLink::connected(placement.ranks(), 8, 1 << 10);
        let mut links: Vec<Links<MemoryLink>> = placement
            .places()
            .zip(far)
            .map(|(place, far)| {
                let near = ShmLink::new(jobs[place.host as usize].clone(), place.local).unwrap();
                Links::new(near, several.then(|| Box::new(far)))
            })
            .collect();
        let ranks = placement.ranks();
        for (me, link) in (0..ranks).zip(&mut links) {
            for to in (0..ranks).filter(|to| *to != me) {
                let header = Header([u64::from(me), u64::from(to), 0]);
                assert!(link.has_room(Peer(to), 4) && link.want_room(Peer(to), 4));
                link.try_send(Peer(to), header, &me.to_le_bytes()).unwrap();
            }
        }
        for (me, link) in (0..ranks).zip(&mut links) {
            let mut from = Vec::new();
            let mut sink = |peer: Peer, header: Header, payload: &[u8]| {
                assert_eq!(
                    (header, payload),
                    (Header([peer.0.into(), me.into(), 0]), &peer.0.to_le_bytes()[..])
                );
                from.push(peer.0);
                Verdict::Taken
            };
            for peer in (0..ranks).filter(|peer| *peer != me && peer % 2 == 0) {
                assert!(link.poll_peer(Peer(peer), &mut sink));
            }
            while link.pending() {
                link.poll(&mut sink);
            }
            from.sort_unstable();
            assert_eq!(from, (0..ranks).filter(|peer| *peer != me).collect::<Vec<_>>());
        }
    }

    #[test]
    fn records_find_their_way_near_and_far() {
        check(&[0, 0, 0]);
        check(&[0, 0, 1, 1]);
        check(&[0, 1, 0, 2, 1]);
    }
}
