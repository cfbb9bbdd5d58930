//! The contact of one pair: a connection that carries the pair's datagrams where the network does not.
//!
//! Contact between hosts begins with datagrams. A firewall may drop all of them, the unsolicited ones, or the
//! long ones; or they are lost in one direction. Then a connection to the peer carries the datagrams of
//! the pair unchanged: numbered, repeated, authenticated. The messages in them stay the same, including
//! requests for connections of the other kind.
//!
//! | side | step | by |
//! |---|---|---|
//! | A | finds that the peer is silent, or does not receive what A sends | no answer, or no acknowledgement |
//! | A | connects ([`Action::Contact`]) with a nonce of A and a proof | connection manager's private data |
//! | B | accepts, with a nonce of B and a proof | connection manager's private data |
//! | A | proves that it knows both nonces ([`Action::Prove`]), if no datagram came | first frame |
//! | both | send datagrams over it | frames |
//!
//! A silent peer may be computing outside of this library. Then its system accepts the connection
//! ([`Adaptive::reached`]( super::Adaptive::reached)), and the peer answers by datagrams when it returns. If
//! its system does not accept either, the directory requests the peer to connect to this process
//! ([`Action::Call`]). A peer that was called and cannot connect gives up ([`Action::Unreachable`]): the two
//! cannot communicate. Without a directory that can call, a process gives up after a silence of [`GIVEN_UP`].
//! Both times are longer than a cable is unplugged that is soon plugged in again.
//!
//! Each end makes one such connection and accepts one. Datagrams need no order, so both may be used when they
//! cross; afterwards the one of the lower rank remains.

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
/// Time without acceptance by the peer's system after which the peer is requested to connect.
const CALL_AFTER: Duration = Duration::from_millis(1500);
/// Time after which an attempt has failed.
const PATIENCE: Duration = Duration::from_secs(4);
/// A peer that was only busy answers by datagrams at the same time.
const SETTLING: Duration = Duration::from_millis(20);
/// Time between attempts: at first, and later.
const RETRY: Duration = Duration::from_secs(1);
const LATER_RETRY: Duration = Duration::from_secs(10);
const FIRST_ATTEMPTS: u32 = 8;
/// Time for which a process that was called tries to connect. With the silence before the call, this is
/// longer than a cable is unplugged that somebody plugs in again.
const ANSWERING: Duration = Duration::from_millis(8500);
/// Additional time after which the higher rank reports the failure, so that only one of the two does.
const OTHERS_WORD: Duration = Duration::from_secs(1);
/// Silence after which a peer is unreachable if the directory cannot call it.
const GIVEN_UP: Duration = Duration::from_secs(12);
/// Silence after which the driver is told that a called peer may be computing.
const REMARK: Duration = Duration::from_secs(15);

/// Connection that this side makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Made {
    #[default]
    None,
    Connecting {
        id: ConnectionId,
        nonce: u64,
        begun: Duration,
        /// The peer's system has accepted the connection.
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

/// Connection that the peer makes.
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

/// Abilities of the driver and the directory. They are the same for all contacts of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContactSettings {
    /// The directory can request a peer to connect to this process.
    pub can_call: bool,
    /// The driver reports when a peer's system has accepted. Otherwise a silent peer may just be busy.
    pub sees_reach: bool,
}

/// Circumstances in which an event finds a pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    pub now: Duration,
    /// Time since the peer last answered.
    pub silent: Duration,
    pub ends: Ends,
    pub means: ContactSettings,
}

/// Consequence of an event, for the caller to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Pass this request to the driver.
    Do(Action),
    /// Return the name of the connection to the free ones.
    Release(ConnectionId),
    /// The contact is established and carries the datagrams.
    Up,
    /// The two processes cannot communicate.
    Unreachable,
}

#[derive(Debug, Default)]
pub(super) struct Contact {
    made: Made,
    got: Got,
    /// Datagrams of this pair arrive only over a contact.
    pub needed: bool,
    /// Time at which the peer, which cannot reach this process, had it called.
    pub called: Option<Duration>,
    failures: u32,
    not_before: Duration,
    has_remarked: bool,
}

impl Contact {
    /// Returns the connection that carries the datagrams, if one is established.
    pub(super) fn connection(&self) -> Option<ConnectionId> {
        match (self.made, self.got) {
            (Made::Up { id }, _) | (_, Got::Up { id }) => Some(id),
            _ => None,
        }
    }

    /// Returns true if the peer made the connection because this side could not.
    pub(super) fn is_only_theirs(&self) -> bool {
        matches!(self.got, Got::Up { .. }) && self.failures > 0
    }

    /// Returns true if an attempt may begin now.
    pub(super) fn may_begin(&self, now: Duration) -> bool {
        self.made == Made::None && !matches!(self.got, Got::Up { .. }) && now >= self.not_before
    }

    /// Returns true if one is under way or there.
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

    /// Delays the attempt because all names of connections are taken.
    pub(super) fn postpone(&mut self, now: Duration) {
        self.not_before = now + RETRY;
    }

    /// Notes that the peer's system has accepted the connection.
    pub(super) fn reached(&mut self, connection: ConnectionId) {
        if let Made::Connecting { id, reached, .. } = &mut self.made
            && *id == connection
        {
            *reached = true;
        }
    }

    /// Returns the nonce of the connection that this side is making.
    pub(super) fn making(&self, connection: ConnectionId) -> Option<u64> {
        match self.made {
            Made::Connecting { id, nonce, .. } if id == connection => Some(nonce),
            _ => None,
        }
    }

    /// Notes that the connection is established. `nonces` are given if the other side has authenticated
    /// itself.
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

    /// Accepts a connection of the peer. It replaces an older one of the peer, which knows best.
    pub(super) fn accept(&mut self, connection: ConnectionId, nonces: Nonces, out: &mut Vec<Effect>) {
        self.drop_got(out);
        self.got = Got::Accepted { id: connection, nonces };
    }

    /// Returns the nonces for the proof in the first frame on an accepted connection.
    pub(super) fn awaited(&self, connection: ConnectionId) -> Option<Nonces> {
        match self.got {
            Got::Accepted { id, nonces } if id == connection => Some(nonces),
            _ => None,
        }
    }

    /// Returns true if datagrams that arrive on this connection are accepted.
    pub(super) fn is_open(&self, connection: ConnectionId) -> bool {
        self.made == Made::Up { id: connection } || self.got == Got::Up { id: connection }
    }

    /// Notes that the peer has authenticated itself.
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

    /// Notes that a datagram has come from the peer without a connection.
    pub(super) fn heard(&mut self, out: &mut Vec<Effect>) {
        self.called = None;
        if self.connection().is_some() || self.needed && self.made != Made::None {
            return;
        }
        self.needed = false;
        self.failures = 0;
        self.drop_made(out);
    }

    /// Handles a connection that failed or was closed. Returns true if it carried datagrams.
    pub(super) fn closed(&mut self, at: Situation, connection: ConnectionId, out: &mut Vec<Effect>) -> bool {
        let was_on = self.connection() == Some(connection);
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

    /// Returns the nonces for the next proof, which [`Contact::tick`] needs.
    pub(super) fn settling(&self) -> Option<Nonces> {
        match self.made {
            Made::Settling { nonces, .. } => Some(nonces),
            _ => None,
        }
    }

    /// Performs what is due at this time. `proof` is the proof for the nonces of [`Contact::settling`].
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

    /// Handles the failure of this side's attempt.
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

    /// Returns true if nothing goes between the two, for all that is known. Of a peer whose system accepts it
    /// is not known.
    fn has_given_up(&self, at: Situation) -> bool {
        if !self.may_give_up(at.means) {
            return false;
        }
        match self.called {
            Some(called) => at.now >= called + Contact::answering(at.ends),
            None => !at.means.can_call && at.silent >= GIVEN_UP,
        }
    }

    fn may_give_up(&self, means: ContactSettings) -> bool {
        let may_be_busy = match self.made {
            Made::Connecting { reached, .. } => reached || !means.sees_reach,
            Made::Settling { .. } => true,
            Made::None | Made::Up { .. } => false,
        };
        self.failures > 0 && !may_be_busy && self.connection().is_none()
    }

    fn answering(ends: Ends) -> Duration {
        if ends.rank < ends.peer.0 { ANSWERING } else { ANSWERING + OTHERS_WORD }
    }

    /// Returns the time at which [`Contact::tick`] has something to do. `ends` are those of this contact.
    pub(super) fn deadline(&self, means: ContactSettings, ends: Ends) -> Option<Duration> {
        let gives_up = self.called.filter(|_| self.may_give_up(means));
        let gives_up = gives_up.map(|called| called + Contact::answering(ends));
        self.step_due(means).into_iter().chain(gives_up).min()
    }

    fn step_due(&self, means: ContactSettings) -> Option<Duration> {
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

    /// Drops both connections of the contact, as the peer is dead or needs none now.
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

    /// Drops the peer's connection, as the peer has not authenticated itself.
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
