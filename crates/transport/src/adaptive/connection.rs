//! State machine of the connection of one pair: messages and events in, effects out. The table in [`super`]
//! lists the messages.
//!
//! | state | who | leaves by |
//! |---|---|---|
//! | none | both | wanting one; a request |
//! | requested | A | reply, refuse; a request of a lower rank (then this side is B) |
//! | answered | B | private data of A; abandon |
//! | connecting | A | established, closed, its timer |
//! | accepted | B | confirm and established; abandon |
//! | failed | B | abandon; confirm is a lost connection |
//! | up | both | end marks of both sides |

use std::time::Duration;

use super::action::{Action, ConnectionId};
use super::words::{Nonces, Word};
use crate::link::Peer;

/// A connection that takes longer does not come about.
const PATIENCE: Duration = Duration::from_secs(10);
/// Delay before the next attempt after a failure; it doubles with each failure.
const LEAST_BACKOFF: Duration = Duration::from_millis(20);
const MOST_BACKOFF: Duration = Duration::from_secs(10);
/// Time that a process leaves to the peer after its own attempt has failed. Perhaps only the peer can
/// connect.
const OTHERS_TURN: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    Requested {
        id: ConnectionId,
        nonce: u64,
    },
    Answered {
        id: ConnectionId,
        nonces: Nonces,
    },
    Connecting {
        id: ConnectionId,
        nonces: Nonces,
        until: Duration,
    },
    Accepted {
        id: ConnectionId,
        nonces: Nonces,
        established: bool,
        confirmed: bool,
    },
    Failed {
        nonce: u64,
    },
    Up {
        id: ConnectionId,
        nonce: u64,
        mark_sent: bool,
        mark_received: bool,
    },
}

/// Consequence of an event, for the caller to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Append this message to the stream of datagrams.
    Say(Word),
    /// Pass this request to the driver.
    Do(Action),
    /// Return the name of the connection to the free ones.
    Release(ConnectionId),
    /// The connection is established and carries records.
    Up,
    /// The attempt to connect has failed.
    Failed,
    /// The peer refused.
    Refused,
    /// The connection broke; records may be lost.
    Lost,
}

/// Both ends of a connection: the rank of this process and its peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub rank: u32,
    pub peer: Peer,
}

#[derive(Debug, Default)]
pub(super) struct Connection {
    /// Connection that carries the records of this pair. None while datagrams carry them.
    pub on: Option<ConnectionId>,
    state: State,
    failures: u32,
    /// Earliest time of the next attempt.
    not_before: Duration,
}

impl Connection {
    /// Returns true if there is no connection and no attempt is under way.
    pub(super) fn is_none(&self) -> bool {
        matches!(self.state, State::None | State::Failed { .. })
    }

    /// Returns true if a connection may be requested now.
    pub(super) fn may_request(&self, now: Duration) -> bool {
        self.state == State::None && now >= self.not_before
    }

    /// Returns true if a request would need a name.
    pub(super) fn needs_name(&self) -> bool {
        self.is_none() || matches!(self.state, State::Up { mark_sent: true, mark_received: true, .. })
    }

    /// Returns the name and nonces of the connection that A is expected to make.
    pub(super) fn expected(&self) -> Option<(ConnectionId, Nonces)> {
        match self.state {
            State::Answered { id, nonces } => Some((id, nonces)),
            _ => None,
        }
    }

    /// Returns the nonces of the connection that this side is making.
    pub(super) fn making(&self, connection: ConnectionId) -> Option<Nonces> {
        match self.state {
            State::Connecting { id, nonces, .. } if id == connection => Some(nonces),
            _ => None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        match self.state {
            State::Connecting { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Asks for one.
    pub(super) fn request(&mut self, id: ConnectionId, nonce: u64, out: &mut Vec<Effect>) {
        debug_assert_eq!(self.state, State::None, "one connection at a time");
        self.state = State::Requested { id, nonce };
        out.push(Effect::Say(Word::Request { nonce }));
    }

    /// Handles a request of the peer. `name` is given if [`Connection::needs_name`] and the connection is
    /// welcome; `own` is a fresh nonce.
    pub(super) fn requested(
        &mut self,
        ends: Ends,
        nonce: u64,
        name: Option<ConnectionId>,
        (own, address): (u64, &[u8]),
        out: &mut Vec<Effect>,
    ) {
        if let State::Up { id, mark_sent: true, mark_received: true, .. } = self.state {
            // The peer has left the old one, as was agreed; only the news have not come.
            out.extend([Effect::Do(Action::Disconnect(id)), Effect::Release(id)]);
            self.state = State::None;
        }
        let id = match self.state {
            // The peer has a request of ours, and answers that (yu-2006 section 3.4, race conditions).
            State::Requested { .. } if ends.rank < ends.peer.0 => return,
            State::Requested { id, .. } | State::Answered { id, .. } => Some(id),
            State::None | State::Failed { .. } => name,
            _ => None,
        };
        let Some(id) = id else {
            out.push(Effect::Say(Word::Refuse { nonce }));
            return;
        };
        self.state = State::Answered { id, nonces: Nonces { connecting: nonce, accepting: own } };
        out.push(Effect::Say(Word::Reply { nonce, own, address: address.to_vec() }));
    }

    /// Handles the peer's agreement. `private_data` contains the proof.
    pub(super) fn replied(
        &mut self,
        (now, peer): (Duration, Peer),
        (nonces, address): (Nonces, Vec<u8>),
        private_data: Vec<u8>,
        out: &mut Vec<Effect>,
    ) {
        match self.state {
            State::Requested { id, nonce } if nonce == nonces.connecting => {
                self.state = State::Connecting { id, nonces, until: now + PATIENCE };
                out.push(Effect::Do(Action::Connect { peer, connection: id, address, private_data }));
            }
            // Stale: this side has changed its mind since.
            _ => {}
        }
    }

    pub(super) fn refused(&mut self, now: Duration, nonce: u64, out: &mut Vec<Effect>) {
        match self.state {
            State::Requested { id, nonce: own } if own == nonce => {
                out.extend([Effect::Release(id), Effect::Refused]);
                self.rest(now);
            }
            // Stale: this side has changed its mind since.
            _ => {}
        }
    }

    pub(super) fn abandoned(&mut self, now: Duration, nonce: u64, out: &mut Vec<Effect>) {
        match self.state {
            State::Answered { id, nonces } if nonces.connecting == nonce => out.push(Effect::Release(id)),
            State::Accepted { id, nonces, confirmed: false, .. } if nonces.connecting == nonce => {
                out.extend([Effect::Do(Action::Disconnect(id)), Effect::Release(id)]);
            }
            State::Failed { nonce: expected } if nonce == expected => {}
            // It was a request that this side had no time to answer, or overruled.
            _ => return,
        }
        out.push(Effect::Failed);
        self.rest(now);
    }

    /// Delays the attempt because all names of connections are taken.
    pub(super) fn postpone(&mut self, now: Duration) {
        self.rest(now);
    }

    /// Notes that the peer has authenticated itself to the connection manager.
    pub(super) fn accept(&mut self) {
        if let State::Answered { id, nonces } = self.state {
            self.state = State::Accepted { id, nonces, established: false, confirmed: false };
        }
    }

    /// Notes that all records before the peer's first one on the connection have been delivered.
    pub(super) fn confirmed(&mut self, nonce: u64, out: &mut Vec<Effect>) {
        match &mut self.state {
            State::Accepted { id, nonces, confirmed, established } if nonces.connecting == nonce => {
                *confirmed = true;
                out.push(Effect::Do(Action::Open(*id)));
                if *established {
                    self.come_up(out);
                }
            }
            State::Up { id, nonce: own, .. } if *own == nonce => out.push(Effect::Do(Action::Open(*id))),
            _ => out.push(Effect::Lost),
        }
    }

    /// Notes that the connection manager is ready. `proved` is true if the other side has authenticated
    /// itself.
    pub(super) fn established(
        &mut self,
        now: Duration,
        connection: ConnectionId,
        proved: bool,
        out: &mut Vec<Effect>,
    ) {
        match &mut self.state {
            State::Connecting { id, .. } if *id == connection && proved => self.come_up(out),
            State::Connecting { id, .. } if *id == connection => {
                out.push(Effect::Do(Action::Disconnect(connection)));
                self.fail(now, out);
            }
            State::Accepted { id, established, confirmed, .. } if *id == connection => {
                *established = true;
                if *confirmed {
                    self.come_up(out);
                }
            }
            // Stale: this side has changed its mind since.
            _ => {}
        }
    }

    fn come_up(&mut self, out: &mut Vec<Effect>) {
        let (State::Connecting { id, nonces, .. } | State::Accepted { id, nonces, .. }) = self.state else {
            unreachable!("only what was agreed comes up");
        };
        let nonce = nonces.connecting;
        self.state = State::Up { id, nonce, mark_sent: false, mark_received: false };
        self.on = Some(id);
        self.failures = 0;
        out.extend([Effect::Say(Word::Confirm { nonce }), Effect::Up]);
    }

    /// Notes that the connection manager has no connection, or none any more.
    pub(super) fn closed(&mut self, now: Duration, connection: ConnectionId, out: &mut Vec<Effect>) {
        match self.state {
            State::Connecting { id, .. } if id == connection => self.fail(now, out),
            State::Accepted { id, nonces, confirmed: false, .. } if id == connection => {
                self.state = State::Failed { nonce: nonces.connecting };
                out.push(Effect::Release(id));
            }
            State::Up { id, mark_sent: true, mark_received: true, .. } if id == connection => {
                out.push(Effect::Release(id));
                self.state = State::None;
            }
            State::Accepted { id, .. } | State::Up { id, .. } if id == connection => {
                out.extend([Effect::Release(id), Effect::Lost]);
                self.on = None;
                self.state = State::None;
            }
            // Stale: this side has changed its mind since.
            _ => {}
        }
    }

    /// Notes that the peer's end mark, and everything before it, was taken. Returns true if the stream goes
    /// on.
    pub(super) fn finished(&mut self, connection: ConnectionId, out: &mut Vec<Effect>) -> bool {
        if matches!(self.state, State::Accepted { id, confirmed: true, .. } if id == connection) {
            self.come_up(out);
        }
        match &mut self.state {
            State::Up { id, mark_sent, mark_received, .. } if *id == connection && !*mark_received => {
                *mark_received = true;
                self.on = None;
                if *mark_sent {
                    out.extend([Effect::Do(Action::Disconnect(connection)), Effect::Release(connection)]);
                    self.state = State::None;
                } else {
                    *mark_sent = true;
                    out.push(Effect::Do(Action::Finish(connection)));
                }
                true
            }
            _ => false,
        }
    }

    /// Leaves the connection, if it is in use.
    pub(super) fn give_up(&mut self, out: &mut Vec<Effect>) -> bool {
        match &mut self.state {
            State::Up { id, mark_sent, .. } if !*mark_sent => {
                *mark_sent = true;
                out.push(Effect::Do(Action::Finish(*id)));
                self.on = None;
                true
            }
            _ => false,
        }
    }

    /// Starts to close, as nothing else will be sent. A request that waits for the peer's decision goes on
    /// waiting.
    pub(super) fn close(&mut self, out: &mut Vec<Effect>) {
        match self.state {
            State::Requested { id, nonce } => {
                out.extend([Effect::Say(Word::Abandon { nonce }), Effect::Release(id)]);
                self.state = State::None;
            }
            State::Answered { id, .. } => {
                out.push(Effect::Release(id));
                self.state = State::None;
            }
            State::Connecting { id, nonces, .. } => {
                out.push(Effect::Say(Word::Abandon { nonce: nonces.connecting }));
                out.extend([Effect::Do(Action::Disconnect(id)), Effect::Release(id)]);
                self.state = State::None;
            }
            State::Up { .. } => {
                self.give_up(out);
            }
            State::None | State::Accepted { .. } | State::Failed { .. } => {}
        }
    }

    /// Drops the connection to a peer that is dead, in any state.
    pub(super) fn drop_all(&mut self, out: &mut Vec<Effect>) {
        match self.state {
            State::Requested { id, .. } | State::Answered { id, .. } => out.push(Effect::Release(id)),
            State::Connecting { id, .. } | State::Accepted { id, .. } | State::Up { id, .. } => {
                out.extend([Effect::Do(Action::Disconnect(id)), Effect::Release(id)]);
            }
            State::None | State::Failed { .. } => {}
        }
        self.state = State::None;
        self.on = None;
    }

    /// Runs the timer of the connecting side.
    pub(super) fn tick(&mut self, now: Duration, out: &mut Vec<Effect>) {
        if let State::Connecting { id, until, .. } = self.state
            && now >= until
        {
            out.push(Effect::Do(Action::Disconnect(id)));
            self.fail(now, out);
        }
    }

    fn fail(&mut self, now: Duration, out: &mut Vec<Effect>) {
        if let State::Connecting { id, nonces, .. } = self.state {
            out.push(Effect::Say(Word::Abandon { nonce: nonces.connecting }));
            out.extend([Effect::Release(id), Effect::Failed]);
        }
        self.rest(now);
        self.not_before += OTHERS_TURN;
    }

    /// Makes no attempt for some time.
    fn rest(&mut self, now: Duration) {
        self.state = State::None;
        self.not_before = now + (LEAST_BACKOFF * (1 << self.failures.min(10))).min(MOST_BACKOFF);
        self.failures = self.failures.saturating_add(1);
    }
}
