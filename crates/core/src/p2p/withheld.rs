//! Withheld messages: messages that stay at their sender because the receiver has no room. This is the
//! sender's half of the protocol in [`crate::flow`].
//!
//! [`Withheld`] is a pure state machine, one for each receiver. It holds the messages in the order in which
//! they were sent, and the receiver's requests for messages in their order. Messages leave in order when
//! there is room, or out of order when they are claimed for a receive. At most one claim is undecided at a
//! time. Until it is decided, no other message leaves.

use std::collections::VecDeque;

use tutti_base::traffic::TRAFFIC;
use tutti_transport::{Link, Peer};

use super::outgoing::sender_address;
use super::{Body, PointToPoint, Small, State};
use crate::matching::Envelope;
use crate::request::RequestId;
use crate::wire::{Claim, Packet, Signature, Wanted};

/// Message that is withheld. Its payload is in the buffer of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub id: RequestId,
    pub envelope: Envelope,
    pub signature: Signature,
    pub sync: bool,
    pub bytes: u64,
}

/// Request of the receiver for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub context: u32,
    pub source: u32,
    pub tag: Option<i32>,
    pub by: Wanted,
}

/// Reply to a request of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Claim: this message is the first that fits the request. It leaves when the receiver accepts it.
    Claim(Waiting, Wanted),
    /// Report that this message exists, for a probe. It does not leave.
    Seen(Waiting, Wanted),
}

/// State at a sender for one receiver from which messages are withheld.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    messages: VecDeque<Entry>,
    /// Number of the next message; numbers count from 0 while messages are withheld.
    next: u64,
    asked: VecDeque<Search>,
    claim: Option<Undecided>,
    /// Contexts, with the own rank in each, for which the receiver knows that messages are withheld.
    told: Vec<(u32, u32)>,
}

/// Withheld message with its number.
#[derive(Debug)]
struct Entry {
    number: u64,
    message: Waiting,
    /// True if the receiver knows of this message from a probe.
    is_seen: bool,
}

/// Request of the receiver, with the position up to which it was compared.
#[derive(Debug)]
struct Search {
    asked: Asked,
    /// Number of the first message that has not been compared with the request.
    from: u64,
}

/// Claimed message about which the receiver has not decided.
#[derive(Debug)]
struct Undecided {
    id: RequestId,
    number: u64,
    /// True if the message is cancelled as soon as the receiver declines it.
    is_cancelled: bool,
}

/// Outcome of a declined claim for its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The message keeps its position.
    Stays,
    /// The program has cancelled the message, and it is removed.
    Cancelled,
}

/// Outcome of an attempt to cancel a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    /// The message is not withheld.
    NotHere,
    /// The message is removed. `is_seen` is true if the receiver knew of it.
    Gone { envelope: Envelope, is_seen: bool },
    /// The message is claimed, so the receiver decides.
    Claimed,
}

impl Asked {
    fn fits(&self, envelope: Envelope) -> bool {
        (self.context, self.source) == (envelope.context, envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

impl Withheld {
    /// Returns true if a message with this envelope is withheld.
    pub fn holds(&self, envelope: Envelope) -> bool {
        self.messages.iter().any(|entry| entry.message.envelope == envelope)
    }

    /// Withholds a message. Returns true if the receiver has to be informed that messages of its context are
    /// withheld.
    pub fn push(&mut self, message: Waiting) -> bool {
        self.messages.push_back(Entry { number: self.next, message, is_seen: false });
        self.next += 1;
        let of = (message.envelope.context, message.envelope.source);
        let is_new = !self.told.contains(&of);
        if is_new {
            self.told.push(of);
        }
        is_new
    }

    /// Returns the next message, which leaves as soon as there is room. Returns None while a claim is
    /// undecided.
    pub fn front(&self) -> Option<&Waiting> {
        if self.claim.is_some() { None } else { self.messages.front().map(|entry| &entry.message) }
    }

    /// Removes the next message, because it leaves in order. The receiver will match it with the oldest
    /// request that fits, so that request is removed too. Returns true if the receiver knew of the message
    /// from a probe.
    pub fn pop(&mut self) -> bool {
        let Some(Entry { message, is_seen, .. }) = self.messages.pop_front() else { return false };
        let is_its = |search: &Search| {
            matches!(search.asked.by, Wanted::Receive(_)) && search.asked.fits(message.envelope)
        };
        if let Some(position) = self.asked.iter().position(is_its) {
            self.asked.remove(position);
        }
        is_seen
    }

    /// Adds a request of the receiver for a message.
    pub fn ask(&mut self, asked: Asked) {
        self.asked.push_back(Search { asked, from: 0 });
    }

    /// Returns the next reply to the receiver, if there is one.
    pub fn answer(&mut self) -> Option<Answer> {
        if self.claim.is_some() {
            return None;
        }
        for place in 0..self.asked.len() {
            let Search { asked, from } = self.asked[place];
            self.asked[place].from = self.next;
            let first = self.place_of(from);
            let fits = |entry: &&mut Entry| asked.fits(entry.message.envelope);
            let Some(entry) = self.messages.range_mut(first..).find(fits) else { continue };
            self.asked.remove(place);
            let message = entry.message;
            if matches!(asked.by, Wanted::Look(_)) {
                entry.is_seen = true;
                return Some(Answer::Seen(message, asked.by));
            }
            self.claim = Some(Undecided { id: message.id, number: entry.number, is_cancelled: false });
            return Some(Answer::Claim(message, asked.by));
        }
        None
    }

    /// Removes the claimed message because the receiver accepts it. Returns false if `id` is not the claimed
    /// message.
    pub fn accepted(&mut self, id: RequestId) -> bool {
        let Some(claim) = self.claim.take_if(|claim| claim.id == id) else { return false };
        self.messages.remove(self.place_of(claim.number));
        true
    }

    /// Ends the claim because the receiver declines the message. Returns None if `id` is not the claimed
    /// message.
    pub fn declined(&mut self, id: RequestId) -> Option<Fate> {
        let claim = self.claim.take_if(|claim| claim.id == id)?;
        if !claim.is_cancelled {
            return Some(Fate::Stays);
        }
        self.messages.remove(self.place_of(claim.number));
        Some(Fate::Cancelled)
    }

    /// Cancels a message on behalf of the program.
    pub fn cancel(&mut self, id: RequestId) -> Cancelled {
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.id == id) {
            claim.is_cancelled = true;
            return Cancelled::Claimed;
        }
        let found = self.messages.iter().position(|entry| entry.message.id == id);
        let gone = found.and_then(|position| self.messages.remove(position));
        gone.map_or(Cancelled::NotHere, |Entry { message, is_seen, .. }| Cancelled::Gone {
            envelope: message.envelope,
            is_seen,
        })
    }

    /// Removes and returns all messages that are `wanted` and not claimed.
    pub fn take_where(&mut self, wanted: impl Fn(Envelope) -> bool) -> Vec<Waiting> {
        let claimed = self.claim.as_ref().map(|claim| claim.id);
        let (mut taken, mut kept) = (Vec::new(), VecDeque::new());
        for entry in std::mem::take(&mut self.messages) {
            if wanted(entry.message.envelope) && Some(entry.message.id) != claimed {
                taken.push(entry.message);
            } else {
                kept.push_back(entry);
            }
        }
        self.messages = kept;
        taken
    }

    /// Returns the position of the message with this number, or of the first one after it.
    fn place_of(&self, number: u64) -> usize {
        self.messages.partition_point(|entry| entry.number < number)
    }

    /// Returns the contexts for which the receiver must be informed that nothing is withheld any more.
    /// Returns None while messages are withheld.
    pub fn end(&mut self) -> Option<Vec<(u32, u32)>> {
        self.messages.is_empty().then(|| std::mem::take(&mut self.told))
    }
}

impl State {
    /// Returns the next message to a peer, which leaves as soon as there is room.
    fn withheld_front(&mut self, peer: Peer) -> Option<Waiting> {
        self.peers.get(peer).withheld.as_ref().and_then(|withheld| withheld.front()).copied()
    }

    /// Withholds the message of a send and informs the receiver.
    #[cold]
    pub(super) fn withhold(&mut self, peer: Peer, message: Waiting) {
        let towards = self.peers.get(peer);
        towards.send_window.close();
        let is_news = towards.withheld.get_or_insert_default().push(message);
        if is_news {
            let envelope = Envelope { tag: 0, ..message.envelope };
            self.queue(peer, Small::bare(Packet::Withheld { envelope }));
        }
        TRAFFIC.withheld.add(message.bytes);
        self.ask_for_room(peer);
        self.answer_asked(peer);
    }

    /// Requests more room from the receiver, unless a request is pending.
    #[cold]
    pub(super) fn ask_for_room(&mut self, peer: Peer) {
        if self.peers.get(peer).send_window.asks() {
            self.queue(peer, Small::bare(Packet::Starved));
        }
    }

    /// Adds room that the receiver has granted.
    pub(super) fn credited(&mut self, from: Peer, bytes: u64) {
        let towards = self.peers.get(from);
        towards.send_window.credit(bytes);
        if towards.withheld.is_some() {
            self.list(from);
        }
    }

    /// Handles the receiver's request for a withheld message. If none is withheld any more, all are on their
    /// way.
    #[cold]
    pub(super) fn asked_for(&mut self, from: Peer, asked: Asked) {
        if let Some(withheld) = &mut self.peers.get(from).withheld {
            withheld.ask(asked);
            self.list(from);
        }
    }

    /// Sends all replies to requests of the receiver that are possible now.
    fn answer_asked(&mut self, peer: Peer) {
        while let Some(answer) = self.peers.get(peer).withheld.as_mut().and_then(|withheld| withheld.answer())
        {
            let (Answer::Claim(message, by) | Answer::Seen(message, by)) = answer;
            let Waiting { id, envelope, signature, bytes, .. } = message;
            let address = self.requests.get(id).map_or(0, sender_address);
            let packet = match answer {
                Answer::Claim(..) => Packet::Claim { envelope, signature, sender: id },
                Answer::Seen(..) => Packet::Seen { envelope },
            };
            self.queue(peer, Small { packet, body: Body::Claim(Claim { by, bytes, address }) });
        }
    }

    /// Handles an acceptance by the receiver. The message may be one that was claimed.
    #[inline]
    pub(super) fn claim_accepted(&mut self, from: Peer, sender: RequestId) {
        let towards = self.peers.get(from);
        if let Some(withheld) = &mut towards.withheld
            && withheld.accepted(sender)
        {
            self.list(from);
        }
    }

    /// Handles the receiver's refusal of the claimed message.
    #[cold]
    pub(super) fn claim_declined(&mut self, from: Peer, sender: RequestId) {
        let declined = self.peers.get(from).withheld.as_mut().and_then(|withheld| withheld.declined(sender));
        let Some(fate) = declined else {
            return self.fail("a peer declined a message that it was not asked about");
        };
        self.list(from);
        if fate == Fate::Cancelled {
            self.cancelled(from, sender);
        }
    }

    /// Cancels a withheld message. The outcome is `Claimed` if the receiver decides about it.
    #[cold]
    pub(super) fn take_back_withheld(&mut self, peer: Peer, id: RequestId) -> Cancelled {
        let towards = self.peers.get(peer);
        let Some(withheld) = &mut towards.withheld else { return Cancelled::NotHere };
        let outcome = withheld.cancel(id);
        if let Cancelled::Gone { envelope, is_seen } = outcome {
            self.list(peer);
            if is_seen {
                self.queue(peer, Small::bare(Packet::Unseen { envelope }));
            }
        }
        outcome
    }

    /// Completes the sends of an abandoned operation, as no rank will receive their messages.
    #[cold]
    pub(super) fn give_up_withheld(&mut self, wanted: impl Fn(Envelope) -> bool) {
        for peer in self.peers.all() {
            let Some(withheld) = &mut self.peers.get(peer).withheld else { continue };
            for message in withheld.take_where(&wanted) {
                self.remote.give_back(message.id);
                self.requests.complete(message.id, None);
            }
            self.list(peer);
        }
    }
}

impl<L: Link> PointToPoint<L> {
    /// Sends withheld messages as far as there is room, and replies to the receiver's requests.
    #[cold]
    pub(super) fn release(&mut self, peer: Peer) {
        self.state.peers.get(peer).send_window.open();
        while let Some(message) = self.state.withheld_front(peer) {
            let Some(queued) = self.departure(peer, &message) else {
                self.state.ask_for_room(peer);
                break;
            };
            let withheld = self.state.peers.get(peer).withheld.as_mut().expect("its front was looked at");
            if withheld.pop() {
                let envelope = message.envelope;
                self.state.queue(peer, Small::bare(Packet::Unseen { envelope }));
            }
            self.state.peers.get(peer).backlog.push_back(queued);
        }
        self.state.answer_asked(peer);
        let towards = self.state.peers.get(peer);
        let Some(told) = towards.withheld.as_mut().and_then(|withheld| withheld.end()) else {
            return towards.send_window.close();
        };
        towards.withheld = None;
        for (context, source) in told {
            let envelope = Envelope { context, source, tag: 0 };
            self.state.queue(peer, Small::bare(Packet::Resumed { envelope }));
        }
    }
}
