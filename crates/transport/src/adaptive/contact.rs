//! The contact of one pair: a connection that carries its datagrams where the network does not.
//!
//! Contact between hosts begins with datagrams. A firewall may let none of them through, or none that nobody
//! has asked for, or only short ones; or they are lost in one direction. Then a connection to where the peer
//! listens for such carries the datagrams of the pair, as they are: numbered, repeated, authenticated. What
//! they say, connections of the other kind among it, stays the same.
//!
//! | who | what | how |
//! |---|---|---|
//! | A | finds that the peer is silent, or does not get what it is sent | no answer, or none that names it |
//! | A | connects ([`Action::Contact`]) with a nonce of A and a proof | connection manager's private data |
//! | B | accepts, with a nonce of B and a proof | connection manager's private data |
//! | A | proves that it knows both nonces ([`Action::Prove`]), if no datagram has come | the first frame on it |
//! | both | send datagrams over it | frames |
//!
//! A silent peer may compute outside of this library, and then its system accepts the connection
//! ([`Adaptive::reached`]( super::Adaptive::reached)) and it answers by datagrams when it comes back. Where
//! the system does not either, whoever knows all ranks is asked to have the peer connect to this one
//! ([`Action::Call`]). A peer that was called and cannot connect either ends it ([`Action::Unreachable`]):
//! nothing goes between the two. Where nobody can be asked, that is so after the silence of [`GIVEN_UP`].
//! Both take longer than a cable is out that is soon plugged in again.
//!
//! Each end makes one such connection and accepts one. Datagrams need no order, so both may be used when they
//! cross; that of the lower rank remains.

use std::time::Duration;

use super::action::{Action, ConnectionId};
use super::connection::Ends;
use super::words::Nonces;
use crate::link::Peer;

/// A peer that does not answer while this process leaves: it may have left itself, and then nobody accepts.
pub(super) const CLOSING_SILENCE: Duration = Duration::from_millis(500);
/// A peer that never answered is contacted after so long.
pub(super) const FIRST_SILENCE: Duration = Duration::from_secs(1);
/// One that did: it computes, as a rule.
pub(super) const LATER_SILENCE: Duration = Duration::from_millis(3500);
/// After so long without the peer's system accepting, the peer is asked to connect itself.
const CALL_AFTER: Duration = Duration::from_millis(1500);
/// After so long, the attempt has failed.
const PATIENCE: Duration = Duration::from_secs(4);
/// A peer that was only busy answers by datagrams at the same time.
const SETTLING: Duration = Duration::from_millis(20);
/// From one attempt to the next: at first, and later.
const RETRY: Duration = Duration::from_secs(1);
const LATER_RETRY: Duration = Duration::from_secs(10);
const FIRST_ATTEMPTS: u32 = 8;
/// Who was called tries for so long: with the silence before the call, that is longer than a cable is out
/// which somebody plugs in again.
const ANSWERING: Duration = Duration::from_millis(8500);
/// The higher rank says it so much later, so that it is said once.
const OTHERS_WORD: Duration = Duration::from_secs(1);
/// Where nobody can be asked to call the peer, it cannot be reached after so long.
const GIVEN_UP: Duration = Duration::from_secs(12);
/// Where the peer was called and does not come, it may compute: that is remarked after so long.
const REMARK: Duration = Duration::from_secs(15);

/// The connection that this side makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Made {
    #[default]
    None,
    Connecting {
        id: ConnectionId,
        nonce: u64,
        begun: Duration,
        /// The peer's system has accepted.
        reached: bool,
        has_called: bool,
    },
    Settling {
        id: ConnectionId,
        nonces: Nonces,
        until: Duration,
    },
    Up {
        id: ConnectionId,
    },
}

/// That of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Got {
    #[default]
    None,
    Accepted {
        id: ConnectionId,
        nonces: Nonces,
    },
    Up {
        id: ConnectionId,
    },
}

/// What holds for all contacts of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    /// Somebody can be asked to call a peer.
    pub can_call: bool,
    /// It is told when a peer's system has accepted: without that a silent one may be busy.
    pub sees_reach: bool,
}

/// In what an event finds a pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    pub now: Duration,
    /// For how long the peer has not answered.
    pub silent: Duration,
    pub ends: Ends,
    pub means: Means,
}

/// What follows from an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// For the driver.
    Do(Action),
    /// The name is free.
    Release(ConnectionId),
    /// Datagrams go over it from now on.
    Up,
    /// Nothing goes between the two.
    Unreachable,
}

#[derive(Debug, Default)]
pub(super) struct Contact {
    made: Made,
    got: Got,
    /// Datagrams of this pair do not arrive otherwise.
    pub needed: bool,
    /// The peer cannot reach this process, and had it called.
    pub called: Option<Duration>,
    failures: u32,
    not_before: Duration,
    has_remarked: bool,
}

impl Contact {
    /// Datagrams go here.
    pub(super) fn on(&self) -> Option<ConnectionId> {
        match (self.made, self.got) {
            (Made::Up { id }, _) | (_, Got::Up { id }) => Some(id),
            _ => None,
        }
    }

    /// Whether it was the peer that connected, as this side could not.
    pub(super) fn is_only_theirs(&self) -> bool {
        matches!(self.got, Got::Up { .. }) && self.failures > 0
    }

    /// Whether one may be begun.
    pub(super) fn may_begin(&self, now: Duration) -> bool {
        self.made == Made::None && !matches!(self.got, Got::Up { .. }) && now >= self.not_before
    }

    /// Whether one is under way or there.
    pub(super) fn is_begun(&self) -> bool {
        self.made != Made::None || self.got != Got::None || self.failures > 0
    }

    pub(super) fn begin(
        &mut self,
        (now, peer): (Duration, Peer),
        connection: ConnectionId,
        nonce: u64,
        private_data: Vec<u8>,
        out: &mut Vec<Effect>,
    ) {
        self.made = Made::Connecting { id: connection, nonce, begun: now, reached: false, has_called: false };
        out.push(Effect::Do(Action::Contact { peer, connection, private_data }));
    }

    /// There is no name for one now: later.
    pub(super) fn postpone(&mut self, now: Duration) {
        self.not_before = now + RETRY;
    }

    /// The peer's system has accepted.
    pub(super) fn reached(&mut self, connection: ConnectionId) {
        if let Made::Connecting { id, reached, .. } = &mut self.made
            && *id == connection
        {
            *reached = true;
        }
    }

    /// The nonce of the connection that this side is making.
    pub(super) fn making(&self, connection: ConnectionId) -> Option<u64> {
        match self.made {
            Made::Connecting { id, nonce, .. } if id == connection => Some(nonce),
            _ => None,
        }
    }

    /// The connection is there. `nonces`: if the other side is who it says.
    pub(super) fn established(
        &mut self,
        at: Situation,
        connection: ConnectionId,
        nonces: Option<Nonces>,
        out: &mut Vec<Effect>,
    ) {
        if !matches!(self.made, Made::Connecting { id, .. } if id == connection) {
            // Stale, or that of the peer.
            return;
        }
        match nonces {
            Some(nonces) => {
                self.made = Made::Settling { id: connection, nonces, until: at.now + SETTLING };
            }
            None => {
                out.extend([Effect::Do(Action::Disconnect(connection)), Effect::Release(connection)]);
                self.fail(at, out);
            }
        }
    }

    /// The peer connects. An older connection of it is no more: it knows best.
    pub(super) fn accept(&mut self, connection: ConnectionId, nonces: Nonces, out: &mut Vec<Effect>) {
        self.drop_got(out);
        self.got = Got::Accepted { id: connection, nonces };
    }

    /// What the first frame has to prove, on a connection of the peer.
    pub(super) fn awaited(&self, connection: ConnectionId) -> Option<Nonces> {
        match self.got {
            Got::Accepted { id, nonces } if id == connection => Some(nonces),
            _ => None,
        }
    }

    /// Whether datagrams on this connection are taken.
    pub(super) fn is_open(&self, connection: ConnectionId) -> bool {
        self.made == Made::Up { id: connection } || self.got == Got::Up { id: connection }
    }

    /// The peer has proved itself.
    pub(super) fn proved(&mut self, ends: Ends, out: &mut Vec<Effect>) {
        if let Got::Accepted { id, .. } = self.got {
            self.got = Got::Up { id };
            self.came_up(ends, out);
        }
    }

    fn came_up(&mut self, ends: Ends, out: &mut Vec<Effect>) {
        self.needed = true;
        self.called = None;
        out.push(Effect::Up);
        if let (Made::Up { .. }, Got::Up { .. }) = (self.made, self.got) {
            if ends.rank < ends.peer.0 { self.drop_got(out) } else { self.drop_made(out) }
        }
    }

    /// A datagram has come from the peer, not over a connection.
    pub(super) fn heard(&mut self, out: &mut Vec<Effect>) {
        self.called = None;
        if self.on().is_some() || self.needed && self.made != Made::None {
            return;
        }
        self.needed = false;
        self.failures = 0;
        self.drop_made(out);
    }

    /// The connection failed, or was closed. Whether it carried datagrams.
    pub(super) fn closed(&mut self, at: Situation, connection: ConnectionId, out: &mut Vec<Effect>) -> bool {
        let was_on = self.on() == Some(connection);
        match (self.made, self.got) {
            (Made::Connecting { id, .. } | Made::Settling { id, .. }, _) if id == connection => {
                out.push(Effect::Release(connection));
                self.fail(at, out);
            }
            (Made::Up { id }, _) if id == connection => {
                out.push(Effect::Release(connection));
                self.made = Made::None;
            }
            (_, Got::Accepted { id, .. } | Got::Up { id }) if id == connection => {
                out.push(Effect::Release(connection));
                self.got = Got::None;
            }
            // Stale: this side has changed its mind since.
            _ => {}
        }
        was_on
    }

    /// What the proof is over that is due next.
    pub(super) fn settling(&self) -> Option<Nonces> {
        match self.made {
            Made::Settling { nonces, .. } => Some(nonces),
            _ => None,
        }
    }

    /// What is due. `proof`: that over [`Contact::settling`].
    pub(super) fn tick(&mut self, at: Situation, proof: Option<Vec<u8>>, out: &mut Vec<Effect>) {
        if self.has_given_up(at) {
            return out.push(Effect::Unreachable);
        }
        let calls = at.means.can_call && self.called.is_none();
        match &mut self.made {
            Made::Connecting { id, begun, reached: false, has_called, .. } => {
                if at.means.sees_reach && at.now >= *begun + PATIENCE {
                    out.extend([Effect::Do(Action::Disconnect(*id)), Effect::Release(*id)]);
                    self.fail(at, out);
                } else if calls && at.now >= *begun + CALL_AFTER && !*has_called {
                    *has_called = true;
                    out.push(Effect::Do(Action::Call(at.ends.peer)));
                }
            }
            Made::Settling { id, until, .. } if at.now >= *until => {
                let proof = proof.expect("the caller asked what it is over");
                out.push(Effect::Do(Action::Prove(*id, proof)));
                self.made = Made::Up { id: *id };
                self.came_up(at.ends, out);
            }
            _ => {}
        }
    }

    /// Its own attempt has failed.
    fn fail(&mut self, at: Situation, out: &mut Vec<Effect>) {
        let has_called = matches!(self.made, Made::Connecting { has_called: true, .. });
        self.made = Made::None;
        self.failures = self.failures.saturating_add(1);
        self.not_before = at.now + if self.failures <= FIRST_ATTEMPTS { RETRY } else { LATER_RETRY };
        if at.means.can_call && self.called.is_none() {
            if !has_called {
                out.push(Effect::Do(Action::Call(at.ends.peer)));
            }
            if at.silent >= REMARK && !std::mem::replace(&mut self.has_remarked, true) {
                out.push(Effect::Do(Action::Blocked(at.ends.peer)));
            }
        }
    }

    /// Whether nothing goes between the two, for all that is known. Of a peer whose system accepts it is not
    /// known.
    fn has_given_up(&self, at: Situation) -> bool {
        if !self.may_give_up(at.means) {
            return false;
        }
        match self.called {
            Some(called) => at.now >= called + Contact::answering(at.ends),
            None => !at.means.can_call && at.silent >= GIVEN_UP,
        }
    }

    fn may_give_up(&self, means: Means) -> bool {
        let may_be_busy = match self.made {
            Made::Connecting { reached, .. } => reached || !means.sees_reach,
            Made::Settling { .. } => true,
            Made::None | Made::Up { .. } => false,
        };
        self.failures > 0 && !may_be_busy && self.on().is_none()
    }

    fn answering(ends: Ends) -> Duration {
        if ends.rank < ends.peer.0 { ANSWERING } else { ANSWERING + OTHERS_WORD }
    }

    /// When [`Contact::tick`] has something to do. `ends`: whose it is.
    pub(super) fn deadline(&self, means: Means, ends: Ends) -> Option<Duration> {
        let gives_up = self.called.filter(|_| self.may_give_up(means));
        let gives_up = gives_up.map(|called| called + Contact::answering(ends));
        self.step_due(means).into_iter().chain(gives_up).min()
    }

    fn step_due(&self, means: Means) -> Option<Duration> {
        match self.made {
            Made::Connecting { begun, reached: false, has_called, .. } => {
                let calls = means.can_call && !has_called && self.called.is_none();
                let call = calls.then_some(begun + CALL_AFTER);
                call.or(means.sees_reach.then_some(begun + PATIENCE))
            }
            Made::Settling { until, .. } => Some(until),
            Made::None if self.called.is_some() && self.got == Got::None => Some(self.not_before),
            _ => None,
        }
    }

    /// The peer is dead, or it needs no contact now.
    pub(super) fn drop_all(&mut self, out: &mut Vec<Effect>) {
        self.drop_made(out);
        self.drop_got(out);
        self.called = None;
    }

    fn drop_made(&mut self, out: &mut Vec<Effect>) {
        if let Made::Connecting { id, .. } | Made::Settling { id, .. } | Made::Up { id } = self.made {
            out.extend([Effect::Do(Action::Disconnect(id)), Effect::Release(id)]);
        }
        self.made = Made::None;
    }

    /// The peer has not proved itself.
    pub(super) fn drop_got_of(&mut self, _at: Situation, out: &mut Vec<Effect>) {
        self.drop_got(out);
    }

    fn drop_got(&mut self, out: &mut Vec<Effect>) {
        if let Got::Accepted { id, .. } | Got::Up { id } = self.got {
            out.extend([Effect::Do(Action::Disconnect(id)), Effect::Release(id)]);
        }
        self.got = Got::None;
    }
}
