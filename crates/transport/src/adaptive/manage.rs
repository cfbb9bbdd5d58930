//! Connections of all pairs: which pairs get one or lose one, and the messages about them.

use std::time::Duration;

use super::connection::{Connection, Effect, Ends};
use super::packet::Kind;
use super::pair::{Pair, Reach};
use super::words::{Claim, Nonces, Word};
use super::{Action, Adaptive, ConnectionId, Decision, Mode};
use crate::link::Peer;

/// A connection that was not used for so long may be given up for another one.
const IDLE: Duration = Duration::from_secs(1);
/// Connections that are wanted from the start are made so many at a time.
const AT_A_TIME: usize = 16;

/// Returns the ranks at +-2^j of `rank`, each once: the partners of binary trees and of recursive doubling
/// (section 3.3).
pub fn neighbours(rank: u32, ranks: u32) -> impl Iterator<Item = Peer> {
    let mut all = Vec::new();
    let mut distance = 1;
    while distance < u64::from(ranks) {
        let (here, size) = (u64::from(rank), u64::from(ranks));
        all.extend([(here + distance) % size, (here + size - distance) % size].map(|peer| Peer(peer as u32)));
        distance *= 2;
    }
    all.sort_unstable();
    all.dedup();
    all.into_iter().filter(move |peer| peer.0 != rank)
}

impl Adaptive {
    /// Decides on a connection request with this private data.
    pub fn requested(&mut self, now: Duration, private_data: &[u8]) -> Decision {
        self.advance(now);
        let decision = self.decide(private_data);
        if decision.is_none() {
            self.common.counters.rejected += 1;
        }
        decision.unwrap_or(Decision::Reject)
    }

    fn decide(&mut self, private_data: &[u8]) -> Option<Decision> {
        let claim = self.prover.read(private_data, true)?;
        if claim.is_contact {
            return self.decide_contact(claim);
        }
        let index = self.peers.find(claim.from)?;
        let connection = &mut self.pairs[index].connection;
        let (id, nonces) = connection.expected()?;
        let Claim { job, to, .. } = claim;
        if (job, to, claim.nonces) != (self.settings.job, self.settings.rank, nonces) {
            return None;
        }
        connection.accept();
        let answer = Claim { from: self.settings.rank, to: claim.from, ..claim };
        let private_data = self.prover.write(&answer, false);
        Some(Decision::Accept { peer: Peer(claim.from), connection: id, private_data })
    }

    /// Notes that the connection is established in both directions. `private_data` is that of the accepting
    /// side; it is empty at the accepting side itself.
    pub fn established(&mut self, now: Duration, connection: ConnectionId, private_data: &[u8]) {
        if let Some(index) = self.contact_event(now, connection) {
            return self.contact_established(index, connection, private_data);
        }
        let settings = (self.settings.job, self.settings.rank);
        let claim = self.prover.read(private_data, false);
        self.event(now, connection, |machine, peer, out| {
            let proved = machine.making(connection).is_some_and(|nonces| {
                claim
                    == Some(Claim {
                        job: settings.0,
                        from: peer.0,
                        to: settings.1,
                        is_contact: false,
                        nonces,
                    })
            });
            machine.established(now, connection, proved, out);
        });
    }

    /// Notes that the connection was refused, or closed by the peer, or broke. The driver has dropped it, and
    /// its name may be used again. Called when everything that had arrived on it was taken.
    pub fn closed(&mut self, now: Duration, connection: ConnectionId) {
        if let Some(index) = self.contact_event(now, connection) {
            return self.contact_closed(index, connection);
        }
        self.event(now, connection, |machine, _, out| machine.closed(now, connection, out));
    }

    /// Notes that the peer's end mark was found on an open connection ([`Action::Open`]), and that every
    /// record before it was taken. Held records may be delivered now: [`Adaptive::pending`].
    pub fn finished(&mut self, now: Duration, connection: ConnectionId) {
        let Some(index) = self.names.pair_of(connection) else { return };
        let mut goes_on = false;
        self.event(now, connection, |machine, _, out| goes_on = machine.finished(connection, out));
        if goes_on {
            self.pairs[index].waiting.stopped = false;
        }
    }

    /// Wants connections with these peers without waiting for traffic (see [`neighbours`]). Of two that want
    /// each other the lower rank asks.
    pub fn preconnect(&mut self, now: Duration, peers: impl Iterator<Item = Peer>) {
        self.advance(now);
        let rank = self.settings.rank;
        self.wanted.extend(peers.filter(|peer| peer.0 > rank));
        self.want_next();
    }

    /// Goes on with those that are wanted from the start.
    pub(super) fn want_next(&mut self) {
        for _ in 0..AT_A_TIME {
            if self.names.is_full() || self.common.counters.requests >= self.ended() + AT_A_TIME as u64 {
                return;
            }
            let Some(peer) = self.wanted.pop_front() else { return };
            let index = self.pair(peer);
            self.ask(index);
        }
    }

    /// Requests that have come to an end.
    fn ended(&self) -> u64 {
        let counters = &self.common.counters;
        counters.established + counters.failed + counters.refused
    }

    /// Asks for a connection if the pair has exchanged enough for one.
    pub(super) fn consider(&mut self, index: usize) {
        let Pair { messages, bytes, .. } = &self.pairs[index];
        let much = *messages > self.settings.threshold_messages || *bytes > self.settings.threshold_bytes;
        if much && self.settings.mode != Mode::Never {
            self.ask(index);
        }
    }

    fn ask(&mut self, index: usize) {
        let pair = &self.pairs[index];
        // A process that cannot connect to the peer waits for its request.
        let willing = !self.closing
            && pair.reach != Reach::Gone
            && pair.bye_heard.is_none()
            && !pair.contact.is_only_theirs();
        if !willing || !pair.connection.may_request(self.now) {
            return;
        }
        let Some(id) = self.names.take(index, self.now) else {
            self.pairs[index].connection.postpone(self.now);
            self.make_room();
            return;
        };
        let nonce = self.nonce();
        self.common.counters.requests += 1;
        self.apply(index, |machine, _, out| machine.request(id, nonce, out));
    }

    /// Gives up the connection that was not used for longest.
    fn make_room(&mut self) {
        let Some(before) = self.now.checked_sub(IDLE) else { return };
        for index in self.names.idle(before, false) {
            let mut given_up = false;
            self.apply(index, |machine, _, out| given_up = machine.give_up(out));
            if given_up {
                self.common.counters.given_up += 1;
                return;
            }
        }
    }

    /// Handles a message of the peer about connections.
    pub(super) fn said(&mut self, index: usize, kind: Kind, text: &[u8]) {
        let Some(word) = Word::parse(kind, text) else {
            self.common.counters.absurd += 1;
            return;
        };
        let now = self.now;
        match word {
            Word::Request { nonce } => self.asked(index, nonce),
            Word::Reply { nonce, own, address } => {
                let nonces = Nonces { connecting: nonce, accepting: own };
                let peer = self.pairs[index].peer;
                let (job, from) = (self.settings.job, self.settings.rank);
                let claim = Claim { job, from, to: peer.0, is_contact: false, nonces };
                let proof = self.prover.write(&claim, true);
                self.apply(index, |machine, peer, out| {
                    machine.replied((now, peer), (nonces, address), proof, out);
                });
            }
            Word::Refuse { nonce } => self.apply(index, |machine, _, out| machine.refused(now, nonce, out)),
            Word::Confirm { nonce } => self.apply(index, |machine, _, out| machine.confirmed(nonce, out)),
            Word::Abandon { nonce } => {
                self.apply(index, |machine, _, out| machine.abandoned(now, nonce, out))
            }
        }
    }

    /// Handles the peer's request for a connection.
    fn asked(&mut self, index: usize, nonce: u64) {
        let welcome = !self.closing && self.settings.mode != Mode::Never;
        let needs_name = self.pairs[index].connection.needs_name();
        let name = if welcome && needs_name { self.names.take(index, self.now) } else { None };
        if welcome && needs_name && name.is_none() {
            self.make_room();
        }
        let own = self.nonce();
        let address = self.settings.listen_address.clone();
        let rank = self.settings.rank;
        self.apply(index, |machine, peer, out| {
            machine.requested(Ends { rank, peer }, nonce, name, (own, &address), out);
        });
    }

    /// Applies closing, of this process or announced by the peer, to the connection of a pair.
    pub(super) fn settle(&mut self, index: usize) {
        let leaving = self.pairs[index].bye_heard.is_some();
        if self.closing || leaving {
            self.apply(index, |machine, _, out| machine.close(out));
        }
        if self.closing {
            self.pairs[index].close(self.now, &mut self.common);
        }
    }

    pub(super) fn tick_connection(&mut self, index: usize) {
        let now = self.now;
        self.apply(index, |machine, _, out| machine.tick(now, out));
    }

    pub(super) fn drop_connection(&mut self, index: usize) {
        self.apply(index, |machine, _, out| machine.drop_all(out));
        self.pairs[index].waiting.clear();
    }

    /// Returns the pair whose datagrams the connection carries, and marks it as having work to do. None for
    /// other connections.
    fn contact_event(&mut self, now: Duration, connection: ConnectionId) -> Option<usize> {
        self.advance(now);
        let index = self.names.pair_of(connection).filter(|_| self.names.is_contact(connection))?;
        self.names.used(connection, now);
        self.list(index);
        Some(index)
    }

    /// Applies an event of the connection manager.
    fn event(
        &mut self,
        now: Duration,
        connection: ConnectionId,
        event: impl FnOnce(&mut Connection, Peer, &mut Vec<Effect>),
    ) {
        self.advance(now);
        let Some(index) = self.names.pair_of(connection) else { return };
        self.names.used(connection, now);
        self.apply(index, event);
        self.settle(index);
        self.list(index);
    }

    /// Runs a pair's machine and does what follows.
    fn apply(&mut self, index: usize, step: impl FnOnce(&mut Connection, Peer, &mut Vec<Effect>)) {
        let mut effects = Vec::new();
        let peer = self.pairs[index].peer;
        step(&mut self.pairs[index].connection, peer, &mut effects);
        for effect in effects {
            self.follow(index, effect);
        }
    }

    fn follow(&mut self, index: usize, effect: Effect) {
        let counters = &mut self.common.counters;
        match effect {
            Effect::Say(word) => {
                self.pairs[index].say(word.kind(), &word.text(), &mut self.common);
                self.list(index);
            }
            Effect::Do(action) => self.actions.push_back(action),
            Effect::Release(id) => self.names.give(id),
            Effect::Up => {
                counters.established += 1;
                self.pairs[index].messages = 0;
                self.pairs[index].bytes = 0;
            }
            Effect::Failed => counters.failed += 1,
            Effect::Refused => counters.refused += 1,
            Effect::Lost => {
                self.actions.push_back(Action::Lost(self.pairs[index].peer));
                self.bury(index);
            }
        }
    }

    /// Returns a number that nobody can guess, and that this process has never used before.
    pub(super) fn nonce(&mut self) -> u64 {
        self.nonces += 1;
        let tag = self.nonce_key.tag(&[
            &self.settings.seed,
            &self.settings.rank.to_le_bytes(),
            &self.nonces.to_le_bytes(),
        ]);
        u64::from_le_bytes(tag[..8].try_into().expect("eight of sixteen bytes"))
    }
}
