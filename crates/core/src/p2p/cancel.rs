//! Cancellation of sends (MPI-5 section 3.8.4): a message is cancelled if its receiver has not matched it.
//!
//! - A message that has not left is removed at once, unless it is withheld and claimed. The receiver is
//!   informed if it knows of the message from a probe.
//! - For a message that is claimed or has left, the sender sends Cancel, behind all earlier packets to the
//!   receiver. A receiver that still keeps the message drops it and replies with Cancelled.
//! - A message that was matched, or taken by a matched probe, causes no reply. The send then completes as
//!   usual.
//!
//! So the wait for a cancelled send needs its receiver to enter the library, but needs no receive. A short
//! standard send is complete at its start, and a buffered one when it is copied. Both cannot be cancelled.

use tutti_transport::{Link, Peer};

use super::withheld::Cancelled;
use super::{Message, PointToPoint, Queued, Small, State, is_counted};
use crate::flow::{ENVELOPE_BYTES, eager_cost};
use crate::request::{Request, RequestId, Status, Work};
use crate::wire::Packet;

impl<L: Link> PointToPoint<L> {
    /// Cancels a user's request: a receive or a send that is not matched yet. Other requests do not change.
    pub fn cancel(&mut self, id: RequestId) {
        let Some(Request { work: Work::Send { peer, .. }, .. }) = self.state.requests.get(id) else {
            return self.state.cancel(id);
        };
        let peer = Peer(*peer);
        if self.state.take_back(peer, id) {
            self.state.cancelled(peer, id);
        } else if peer != self.state.me {
            self.state.queue(peer, Small::bare(Packet::Cancel { sender: id }));
        }
        self.flush();
    }
}

impl State {
    /// Removes a message that is still in this process. Returns false if it has left, is claimed, or is
    /// matched.
    fn take_back(&mut self, peer: Peer, id: RequestId) -> bool {
        if peer == self.me {
            let own = |message: &Message| matches!(message, Message::Local { sender } if *sender == id);
            return self.matcher.take_first(own).is_some();
        }
        match self.take_back_withheld(peer, id) {
            Cancelled::Gone { .. } => return true,
            Cancelled::Claimed => return false,
            Cancelled::NotHere => {}
        }
        let towards = self.peers.get(peer);
        let Some(position) = towards.backlog.iter().position(|queued| queued.starts(id)) else {
            return false;
        };
        let cost = match (towards.backlog.remove(position), self.requests.get(id)) {
            (Some(Queued::Eager(..)), Some(Request { work: Work::Send { buffer, .. }, .. })) => {
                eager_cost(buffer.bytes())
            }
            (Some(Queued::Small(Small { packet: Packet::RendezvousRequest { envelope, .. }, .. })), _)
                if is_counted(envelope.context) =>
            {
                ENVELOPE_BYTES
            }
            _ => 0,
        };
        towards.send_window.give_back(cost);
        true
    }

    /// Handles a sender's request to cancel a message.
    #[cold]
    pub(super) fn asked_back(&mut self, from: Peer, sender: RequestId) {
        let named = |message: &Message| match message {
            Message::Eager { from: source, sync: Some(id), .. }
            | Message::RendezvousRequest { from: source, sender: id, .. } => (*source, *id) == (from, sender),
            _ => false,
        };
        if self.claim_asked_back(from, sender) {
            return;
        }
        let Some(message) = self.matcher.take_first(named) else { return };
        match message {
            Message::Eager { payload, .. } => self.eager_done(from, payload.len(), None),
            Message::RendezvousRequest { is_counted: true, .. } => self.consumed(from, ENVELOPE_BYTES),
            _ => {}
        }
        self.answer(from, Packet::Cancelled { sender });
    }

    /// Completes a send as cancelled. No part of its message is or will be received.
    #[cold]
    pub(super) fn cancelled(&mut self, from: Peer, sender: RequestId) {
        match self.requests.get_mut(sender) {
            Some(Request { work: Work::Send { peer, .. }, status, .. }) if *peer == from.0 => {
                *status = Status { cancelled: true, ..Status::EMPTY };
            }
            _ => return self.fail("a peer dropped a message that was not sent to it"),
        }
        self.remote.give_back(sender);
        self.requests.complete(sender, None);
    }
}

impl Queued {
    /// Returns true if this is the message or the offer of the given send.
    fn starts(&self, id: RequestId) -> bool {
        match self {
            Queued::Eager(_, sender) => *sender == id,
            Queued::Small(Small { packet: Packet::RendezvousRequest { sender, .. }, .. }) => *sender == id,
            Queued::Small(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mode;
    use super::super::tests::{
        Process, config, is_complete, pattern_bytes, processes, receive, send, settle,
    };
    use super::*;

    fn was_cancelled(at: &Process, id: RequestId) -> bool {
        assert!(is_complete(at, id));
        at.state.requests.get(id).unwrap().status.cancelled
    }

    /// Cancels a send of `bytes` bytes. With `received` its receive was posted before. The next message takes
    /// its place.
    fn check(bytes: usize, mode: Mode, to: u32, received: bool, expected: bool) {
        let mut all = processes(2, &config());
        let early = received.then(|| receive(&mut all[to as usize], Some(0), Some(5), bytes));
        let id = send(&mut all[0], 0, to, 5, pattern_bytes(1, bytes), mode);
        settle(&mut all);
        all[0].cancel(id);
        settle(&mut all);
        assert_eq!(was_cancelled(&all[0], id), expected, "{bytes} bytes {mode:?} to {to}");
        let next = send(&mut all[0], 0, to, 5, pattern_bytes(2, bytes), mode);
        let (receiving, buffer) =
            early.unwrap_or_else(|| receive(&mut all[to as usize], Some(0), Some(5), bytes));
        settle(&mut all);
        assert!(is_complete(&all[to as usize], receiving));
        assert_eq!(buffer.to_vec(), pattern_bytes(if expected { 2 } else { 1 }, bytes));
        assert!(!expected || is_complete(&all[0], next));
    }

    #[test]
    fn what_is_not_matched_is_taken_back() {
        for to in [0, 1] {
            check(100, Mode::Standard, to, false, false);
            check(100, Mode::Synchronous, to, false, true);
            check(5000, Mode::Standard, to, false, true);
            check(5000, Mode::Synchronous, to, false, true);
            check(100, Mode::Synchronous, to, true, false);
            check(5000, Mode::Standard, to, true, false);
        }
    }

    #[test]
    fn what_has_not_left_goes_without_a_word() {
        let mut all = processes(2, &config());
        // The link in memory holds 8 packets.
        let ids: Vec<RequestId> = (0..20)
            .map(|i| send(&mut all[0], 0, 1, i, pattern_bytes(i as u64, 200), Mode::Standard))
            .collect();
        all[0].cancel(ids[15]);
        assert!(was_cancelled(&all[0], ids[15]));
        settle(&mut all);
        for tag in (0..20).filter(|tag| *tag != 15) {
            let (id, buffer) = receive(&mut all[1], Some(0), Some(tag), 200);
            assert!(is_complete(&all[1], id) && buffer.to_vec() == pattern_bytes(tag as u64, 200));
        }
        assert_eq!(all[1].state.kept(), 0);
    }

    #[test]
    fn a_cancelled_message_gives_its_window_back() {
        let mut all = processes(2, &config());
        for round in 0..100_000 / 200 {
            let id = send(&mut all[0], 0, 1, round, pattern_bytes(1, 200), Mode::Synchronous);
            settle(&mut all);
            all[0].cancel(id);
            settle(&mut all);
            assert!(was_cancelled(&all[0], id));
        }
        let id = send(&mut all[0], 0, 1, 0, pattern_bytes(1, 200), Mode::Standard);
        assert!(is_complete(&all[0], id), "there is room for eager messages");
    }
}
