//! Contacts of all pairs: when a contact begins, and which datagrams arrive over it.

use std::time::Duration;

use super::connection::Ends;
use super::contact::{
    CLOSING_SILENCE, Contact, ContactSettings, Effect, FIRST_SILENCE, LATER_SILENCE, Situation,
};
use super::pair::Reach;
use super::words::{Claim, Nonces};
use super::{Action, Adaptive, ConnectionId, Decision};
use crate::link::{Peer, Sink};

/// One that was not used for so long may be given up for another one.
const IDLE: Duration = Duration::from_secs(1);
/// Datagrams up to this length pass every path, with what the network puts in front of them.
const SHORT_BYTES: usize = 508;

impl Adaptive {
    /// Notes that the system of the peer has accepted a connection of [`Action::Contact`]. The peer itself
    /// answers later.
    pub fn reached(&mut self, now: Duration, connection: ConnectionId) {
        self.advance(now);
        if let Some(index) = self.names.pair_of(connection) {
            self.pairs[index].contact.reached(connection);
            self.list(index);
        }
    }

    /// Notes that the driver has found long packets to get lost on the way to some host.
    pub fn narrow(&mut self, now: Duration) {
        self.advance(now);
        self.is_narrow = true;
    }

    /// Notes that `peer` cannot reach this process, and had it called ([`Action::Call`]).
    pub fn called(&mut self, now: Duration, peer: Peer) {
        self.advance(now);
        if peer.0 >= self.settings.ranks || peer.0 == self.settings.rank {
            return;
        }
        let index = self.pair(peer);
        let pair = &mut self.pairs[index];
        pair.contact.called.get_or_insert(now);
        // A datagram, as the peer's own may be let in as the answer to it.
        pair.receiver.acknowledge_now(now);
        self.list(index);
    }

    /// Takes a frame of a connection that carries datagrams. Records that it completes go to `sink`.
    pub fn contacted(&mut self, now: Duration, connection: ConnectionId, bytes: &[u8], sink: &mut impl Sink) {
        self.advance(now);
        let Some(index) = self.names.pair_of(connection) else { return };
        self.names.used(connection, now);
        if let Some(nonces) = self.pairs[index].contact.awaited(connection) {
            let claim = self.claim(self.pairs[index].peer.0, self.settings.rank, nonces);
            if self.prover.read(bytes, true) == Some(claim) {
                self.contact(index, |contact, at, out| contact.proved(at.ends, out));
            } else {
                self.common.counters.rejected += 1;
                self.contact(index, Contact::drop_got_of);
            }
        } else if self.pairs[index].contact.is_open(connection) {
            self.arrived(now, bytes, Some(index), sink);
        }
    }

    /// Returns the identity claim of a connection that carries datagrams.
    fn claim(&self, from: u32, to: u32, nonces: Nonces) -> Claim {
        Claim { job: self.settings.job, from, to, is_contact: true, nonces }
    }

    /// Decides on the request of a peer for a connection that carries its datagrams. None rejects it.
    pub(super) fn decide_contact(&mut self, claim: Claim) -> Option<Decision> {
        let expected = self.claim(claim.from, self.settings.rank, Nonces { accepting: 0, ..claim.nonces });
        let is_peer = claim.from < self.settings.ranks && claim.from != self.settings.rank;
        if claim != expected || !is_peer {
            return None;
        }
        let peer = Peer(claim.from);
        let index = self.pair(peer);
        if self.pairs[index].reach == Reach::Gone {
            return None;
        }
        let Some(connection) = self.names.take_contact(index, self.now) else {
            self.leave_idle_contact();
            return None;
        };
        let nonces = Nonces { accepting: self.nonce(), ..claim.nonces };
        let private_data = self.prover.write(&self.claim(self.settings.rank, claim.from, nonces), false);
        self.contact(index, |contact, _, out| contact.accept(connection, nonces, out));
        Some(Decision::Accept { peer, connection, private_data })
    }

    /// Handles the establishment of a contact: see [`Adaptive::established`].
    pub(super) fn contact_established(&mut self, index: usize, connection: ConnectionId, data: &[u8]) {
        let Some(connecting) = self.pairs[index].contact.making(connection) else { return };
        let proved = self.prover.read(data, false).filter(|claim| {
            let nonces = Nonces { connecting, ..claim.nonces };
            *claim == self.claim(self.pairs[index].peer.0, self.settings.rank, nonces)
        });
        let nonces = proved.map(|claim| claim.nonces);
        self.contact(index, |contact, at, out| contact.established(at, connection, nonces, out));
    }

    /// Handles the end of a contact: see [`Adaptive::closed`].
    pub(super) fn contact_closed(&mut self, index: usize, connection: ConnectionId) {
        let mut was_on = false;
        self.contact(index, |contact, at, out| was_on = contact.closed(at, connection, out));
        if self.closing && (was_on || self.pairs[index].bye.is_some()) {
            // A peer that closes the only connection has all that it needs. One that does not
            // listen has left.
            self.bury(index);
        } else if was_on {
            self.pairs[index].sender.repeat_all(self.now);
        }
        self.list(index);
    }

    /// Notes that a datagram came from a peer without a connection.
    pub(super) fn heard_datagram(&mut self, index: usize) {
        self.last_datagram = Some(self.now);
        self.pairs[index].was_heard = true;
        if self.pairs[index].contact.is_begun() || self.pairs[index].contact.called.is_some() {
            self.contact(index, |contact, _, out| contact.heard(out));
        }
    }

    pub(super) fn tick_contact(&mut self, index: usize) {
        let pair = &self.pairs[index];
        if pair.reach == Reach::Gone {
            return self.drop_contact(index);
        }
        if pair.contact.is_begun() {
            let (own, peer) = (self.settings.rank, pair.peer.0);
            let write = |nonces| self.prover.write(&self.claim(own, peer, nonces), true);
            // Written before it is known whether it is wanted, but only when something is due.
            let proofs = pair.contact.settling().map(write);
            self.contact(index, |contact, at, out| contact.tick(at, proofs, out));
        }
        self.begin_contact(index);
    }

    /// Begins one where it is time for that.
    fn begin_contact(&mut self, index: usize) {
        let (pair, now) = (&self.pairs[index], self.now);
        if pair.reach != Reach::Known || !pair.contact.may_begin(now) {
            return;
        }
        let swallowed = pair.sender.swallowed();
        let wanted = pair.sender.silent(now).is_some_and(|silent| {
            let usual = match pair.was_heard {
                _ if self.closing => CLOSING_SILENCE,
                true => LATER_SILENCE,
                false => FIRST_SILENCE,
            };
            let is_known = pair.contact.needed || self.is_without_datagrams();
            is_known || silent >= usual
        });
        let is_narrow = self.is_narrow && pair.sender.repeats_long(SHORT_BYTES);
        if !wanted && swallowed.is_none() && !is_narrow && pair.contact.called.is_none() {
            return;
        }
        let peer = pair.peer;
        let Some(connection) = self.names.take_contact(index, now) else {
            self.pairs[index].contact.postpone(now);
            return self.leave_idle_contact();
        };
        self.pairs[index].contact.needed |= swallowed.is_some() || is_narrow;
        if swallowed.is_some_and(|bytes| bytes > SHORT_BYTES) {
            self.is_narrow = true;
            self.actions.push_back(Action::Swallowed(peer));
        }
        let nonce = self.nonce();
        let nonces = Nonces { connecting: nonce, accepting: 0 };
        let private_data = self.prover.write(&self.claim(self.settings.rank, peer.0, nonces), true);
        self.contact(index, |contact, at, out| {
            contact.begin((at.now, peer), connection, nonce, private_data, out);
        });
        self.list(index);
    }

    /// Returns true if the network seems to let no datagrams through: none has come from anybody since a
    /// connection was there for them.
    fn is_without_datagrams(&self) -> bool {
        self.last_contact.is_some() && self.last_datagram <= self.last_contact
    }

    /// Leaves the one that was not used for longest, if nothing is under way there.
    fn leave_idle_contact(&mut self) {
        let Some(before) = self.now.checked_sub(IDLE) else { return };
        let is_idle = |&index: &usize| self.pairs[index].sender.is_empty();
        if let Some(index) = self.names.idle(before, true).into_iter().find(is_idle) {
            self.contact(index, |contact, _, out| contact.drop_all(out));
        }
    }

    pub(super) fn drop_contact(&mut self, index: usize) {
        if self.pairs[index].contact.is_begun() {
            self.contact(index, |contact, _, out| contact.drop_all(out));
        }
    }

    /// Runs a pair's machine and does what follows.
    fn contact(&mut self, index: usize, step: impl FnOnce(&mut Contact, Situation, &mut Vec<Effect>)) {
        let pair = &mut self.pairs[index];
        let at = Situation {
            now: self.now,
            silent: pair.sender.silent(self.now).unwrap_or_default(),
            ends: Ends { rank: self.settings.rank, peer: pair.peer },
            means: self.means(),
        };
        let mut effects = Vec::new();
        step(&mut self.pairs[index].contact, at, &mut effects);
        for effect in effects {
            match effect {
                Effect::Do(action) => self.actions.push_back(action),
                Effect::Release(id) => self.names.give(id),
                Effect::Up => {
                    self.common.counters.contacted += 1;
                    self.last_contact = Some(self.now);
                    let pair = &mut self.pairs[index];
                    pair.reach = Reach::Known;
                    pair.sender.repeat_all(self.now);
                    self.list(index);
                }
                Effect::Unreachable => {
                    self.actions.push_back(Action::Unreachable(self.pairs[index].peer));
                    self.bury(index);
                    return;
                }
            }
        }
    }

    pub(super) fn means(&self) -> ContactSettings {
        ContactSettings { can_call: self.settings.can_call, sees_reach: self.settings.sees_reach }
    }
}
