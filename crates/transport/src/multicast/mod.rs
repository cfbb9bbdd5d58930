//! Reliable multicast (S8; yu-2006 chapter 5), as state machines without sockets and clocks.
//!
//! A *stream* leads from one process to a group of others. Its messages are records of the link like any
//! other, cut into multicast datagrams; receivers deliver them in order. All control messages of the two ends
//! ([`control`]) are records of the link, which are reliable and keep order. Hence datagrams of a stream may
//! get lost, but no message about them.
//!
//! # The window
//! The sender keeps datagrams until all members have them, up to a limit (the paper's channels). Each is in
//! one of four sets: datagrams in use (being sent); datagrams that receivers have been told of; datagrams
//! whose acknowledgements are under way; and datagrams that all members have, which are used again. A
//! receiver acknowledges whenever it has a quarter of the window more. Acknowledgements go up a tree of
//! receivers, each of which reports what all members below it have. A broadcast waits for none of this unless
//! the window is full, which limits the rate.
//!
//! # Losses
//! A receiver that finds something missing reports it to the sender at once. The sender asks members that
//! have been silent for long, which finds lost datagrams at the end of a stream. It repairs for one member by
//! a record, for several by multicast. These messages go directly; so do acknowledgements once some member
//! receives nothing. A member that repeatedly got nothing is deaf: see [`sender`].
//!
//! # Messages that are not wanted yet
//! A message for which its receiver has no room is left, so that the stream stands still and with it the
//! sender. After a while that receiver declines, and gets the following messages by itself as ordinary
//! messages, which may be withheld.
//!
//! # Security
//! Every datagram ends with a tag over all of it. Datagrams that are malformed, foreign, forged, or repeated
//! are counted and dropped.

pub mod carrier;
pub mod control;
mod counters;
pub mod packet;
mod receiver;
mod seal;
mod sender;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use crate::link::{Full, Header, Peer, Sink};
use control::MulticastControl;
pub use counters::MulticastCounters;
pub use packet::LONGEST_BYTES;
use packet::{Datagram, Member, Unfit};
use receiver::{Fate, Incoming};
use seal::Seal;
pub use sender::Batch;
use sender::Outgoing;

/// Streams that a process has at most: the one that was not used for longest makes room.
const STREAMS: usize = 64;
/// Streams of others that a process knows at most.
const MOST_INCOMING: usize = 4096;
/// Highest number of remembered tests of other members.
const MOST_PROBES: usize = 4096;

/// Parameters of the multicast machines.
#[derive(Clone, Debug)]
pub struct MulticastSettings {
    /// Number of the job.
    pub job: u32,
    /// Rank of this process.
    pub rank: u32,
    /// Ranks of the job.
    pub ranks: u32,
    /// Secret that the ranks of the job share.
    pub secret: [u8; 32],
    /// Highest number of datagrams of a stream under way.
    pub window: u64,
}

/// All streams of one process.
#[derive(Debug)]
pub struct Multicast {
    member: Member,
    seal: Seal,
    group: SocketAddrV4,
    window: u64,
    outgoing: Vec<Outgoing>,
    streams: u32,
    incoming: BTreeMap<(u32, u32), Incoming>,
    /// Tests that were heard.
    probes: BTreeSet<(u64, u32)>,
    back: VecDeque<(Peer, Header, Vec<u8>)>,
    counters: MulticastCounters,
}

impl Multicast {
    /// Creates the state of a process without streams.
    pub fn new(settings: &MulticastSettings) -> Multicast {
        let MulticastSettings { job, rank, ranks, secret, window } = settings;
        let seal = Seal::new(secret);
        let any = u128::from_le_bytes(seal.key().tag(&[b"group"]));
        // Addresses for use within an organisation (RFC 2365), and ports that no system gives away by itself.
        let address = Ipv4Addr::from(0xefc0_0000 | any as u32 & 0x3_ffff);
        let port = 20_000 + (any >> 64) as u16 % 10_000;
        Multicast {
            member: Member { job: *job, rank: *rank, ranks: *ranks },
            seal,
            group: SocketAddrV4::new(address, port),
            window: (*window).max(1),
            outgoing: Vec::new(),
            streams: 0,
            incoming: BTreeMap::new(),
            probes: BTreeSet::new(),
            back: VecDeque::new(),
            counters: MulticastCounters::default(),
        }
    }

    /// Returns the group address of the job's datagrams.
    pub fn group(&self) -> SocketAddrV4 {
        self.group
    }

    /// Returns the counts so far.
    pub fn counters(&self) -> MulticastCounters {
        self.counters
    }

    /// Sends a record to a group: see [`crate::Link::multicast`].
    ///
    /// # Errors
    /// [`Full`].
    pub fn send(
        &mut self,
        now: Duration,
        to: &[Peer],
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
        rest: &mut Vec<Peer>,
    ) -> Result<(), Full> {
        if bytes > LONGEST_BYTES {
            return self.pass_by(to, rest);
        }
        let Some(place) = self.stream_to(now, to) else { return self.pass_by(to, rest) };
        let before = rest.len();
        self.outgoing[place].send(now, (&self.member, &self.seal), header, bytes, fill, rest)?;
        if rest.len() - before < to.len() {
            self.counters.messages += 1;
            self.counters.bytes += bytes as u64;
        }
        Ok(())
    }

    /// Adds the peers to `rest`. Refuses if that could overtake what was multicast to them.
    fn pass_by(&mut self, to: &[Peer], rest: &mut Vec<Peer>) -> Result<(), Full> {
        if self.outgoing.iter().any(|stream| stream.is_for(to) && !stream.is_at_rest()) {
            return Err(Full);
        }
        rest.extend_from_slice(to);
        Ok(())
    }

    /// Hands out what is to be sent, until `wire` or `tell` returns false: datagrams to `wire`, control
    /// messages (receiver, header, payload) to `tell`.
    pub fn transmit(
        &mut self,
        now: Duration,
        mut wire: impl FnMut(Batch<'_>) -> bool,
        mut tell: impl FnMut(Peer, Header, &[u8]) -> bool,
    ) {
        let mut tell = |peer: Peer, stream: u32, word: &MulticastControl| {
            let (header, payload) = word.encode(stream);
            tell(peer, header, &payload)
        };
        for (&(_, stream), incoming) in &mut self.incoming {
            let mut has_room = true;
            for word in incoming.words(now) {
                has_room = has_room && tell(incoming.addressee(&word), stream, &word);
                if !has_room {
                    incoming.unsaid(word);
                }
            }
        }
        for stream in &mut self.outgoing {
            stream.transmit(now, &mut wire, &mut tell, &mut self.counters);
        }
    }

    /// Takes a datagram that has arrived. Messages that it completes go to `sink`.
    pub fn datagram(&mut self, now: Duration, bytes: &[u8], sink: &mut impl Sink) {
        let counters = &mut self.counters;
        match self.member.parse(&self.seal, bytes) {
            Err(Unfit::Malformed) => counters.malformed += 1,
            Err(Unfit::Foreign) => counters.foreign += 1,
            Err(Unfit::Forged) => counters.forged += 1,
            Ok(Datagram::Probe { sender, nonce }) => {
                if self.probes.len() >= MOST_PROBES {
                    self.probes.pop_first();
                }
                self.probes.insert((nonce, sender));
            }
            Ok(Datagram::Part { sender, stream, number, kind, payload }) => {
                let fate = match self.incoming.get_mut(&(sender, stream)) {
                    Some(incoming) => incoming.take(now, number, (kind, payload), sink),
                    None => Fate::Again,
                };
                count(counters, fate);
            }
        }
    }

    /// Takes a record of the link's own. `listens` is true if this process receives the group of the job.
    pub fn told(
        &mut self,
        now: Duration,
        from: Peer,
        header: Header,
        payload: &[u8],
        listens: bool,
        sink: &mut impl Sink,
    ) {
        let Some((stream, word)) = MulticastControl::decode(header, payload) else {
            self.counters.absurd += 1;
            return;
        };
        if let MulticastControl::Gathered { origin, next } = word {
            if let Some(incoming) = self.incoming.get_mut(&(origin, stream)) {
                incoming.gathered(from, next);
            }
            return;
        }
        if let MulticastControl::Open { first, quarter, group, way } = word {
            if self.incoming.len() >= MOST_INCOMING {
                self.incoming.retain(|_, incoming| !incoming.is_over());
            }
            let listens = listens && group == self.group && self.incoming.len() < MOST_INCOMING;
            let incoming = self.incoming.entry((from.0, stream)).or_insert_with(|| Incoming::new(from));
            return incoming.open(first, (quarter, way), listens, sink);
        }
        if let Some(incoming) = self.incoming.get_mut(&(from.0, stream)) {
            match word {
                MulticastControl::Ask { end } => return incoming.ask(end),
                MulticastControl::Straight => return incoming.go_straight(),
                MulticastControl::Leave { end } => return incoming.leave(end, sink),
                MulticastControl::Repair { number, kind, ref payload } => {
                    let fate = incoming.take(now, number, (kind, payload), sink);
                    return count(&mut self.counters, fate);
                }
                _ => {}
            }
        }
        let known = self.outgoing.iter_mut().find(|one| one.number == stream);
        let is_known = known.is_some_and(|one| one.said(now, from, word, &mut self.back, &mut self.counters));
        self.counters.absurd += u64::from(!is_known);
    }

    /// Offers messages again that were left. True if anything was taken.
    pub fn poll(&mut self, now: Duration, sink: &mut impl Sink) -> bool {
        let mut any = false;
        for incoming in self.incoming.values_mut().filter(|incoming| incoming.holds()) {
            any |= incoming.poll(now, sink);
        }
        any
    }

    /// Returns the next record that was handed back: see [`crate::Link::handed_back`].
    pub fn handed_back(&mut self) -> Option<(Peer, Header, Vec<u8>)> {
        self.back.pop_front()
    }

    /// Returns a test datagram for [`Multicast::has_heard`] of others.
    pub fn probe(&self, nonce: u64) -> Vec<u8> {
        self.member.probe(&self.seal, nonce)
    }

    /// Returns true if the tests of all these peers were received.
    pub fn has_heard(&self, nonce: u64, of: &[Peer]) -> bool {
        of.iter().all(|peer| self.probes.contains(&(nonce & packet::NUMBERS, peer.0)))
    }

    /// Returns true if some receivers of this process's streams do not hear.
    pub fn has_deaf(&self) -> bool {
        self.outgoing.iter().any(Outgoing::has_deaf)
    }

    /// Returns the time at which [`Multicast::transmit`] or [`Multicast::poll`] has something to do.
    /// `has_room` is true if the wire takes unsent datagrams.
    pub fn deadline(&self, has_room: bool) -> Option<Duration> {
        let outgoing = self.outgoing.iter().filter_map(|stream| stream.deadline(has_room));
        outgoing.chain(self.incoming.values().filter_map(Incoming::deadline)).min()
    }

    /// Returns true if all that was sent is there.
    pub fn is_at_rest(&self) -> bool {
        self.back.is_empty() && self.outgoing.iter().all(Outgoing::is_at_rest)
    }

    /// Returns true if datagrams may come.
    pub fn listens(&self) -> bool {
        !self.incoming.is_empty()
    }

    /// Returns the stream to this group, new if necessary; none if all are busy.
    fn stream_to(&mut self, now: Duration, to: &[Peer]) -> Option<usize> {
        if let Some(place) = self.outgoing.iter().position(|stream| stream.is_for(to)) {
            return Some(place);
        }
        if self.outgoing.len() >= STREAMS {
            let idle = (0..self.outgoing.len()).filter(|&place| self.outgoing[place].is_at_rest());
            let oldest = idle.min_by_key(|&place| self.outgoing[place].used)?;
            self.outgoing.swap_remove(oldest);
        }
        self.streams += 1;
        self.outgoing.push(Outgoing::new(now, self.streams, self.group, to, self.window));
        Some(self.outgoing.len() - 1)
    }
}

fn count(counters: &mut MulticastCounters, fate: Fate) {
    match fate {
        Fate::Taken => counters.received += 1,
        Fate::Again => counters.again += 1,
        Fate::Absurd => counters.absurd += 1,
    }
}
