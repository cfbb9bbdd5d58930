//! Messages that their sender withholds because their receiver has no room: the sender's half of what [`crate::flow`] describes.
//!
//! [`Withheld`] is a pure state machine, one a receiver: messages in the order in which they were sent, and what the receiver has asked
//! for in the order in which it asked. Messages leave in order when there is room, or out of order when they are claimed for a
//! receive. One claim at a time is undecided, and until it is, nothing else leaves.

use std::collections::VecDeque;

use tutti_base::traffic::TRAFFIC;
use tutti_transport::{Link, Peer};

use super::outgoing::sender_address;
use super::{Body, PointToPoint, Small, State};
use crate::matching::Envelope;
use crate::request::RequestId;
use crate::wire::{Claim, Packet, Signature, Wanted};

/// A message that is withheld; its payload is in the buffer of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub id: RequestId,
    pub envelope: Envelope,
    pub signature: Signature,
    pub sync: bool,
    pub bytes: u64,
}

/// What the receiver asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub context: u32,
    pub source: u32,
    pub tag: Option<i32>,
    pub by: Wanted,
}

/// What is to be said to the receiver about what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// This message is the first for what was wanted; it leaves when the receiver says so.
    Claim(Waiting, Wanted),
    /// There is this message.
    Seen(Waiting, Wanted),
}

/// What a sender does about one receiver while it withholds messages from it.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    messages: VecDeque<Entry>,
    /// Messages that were ever withheld in this episode: the number of the next.
    next: u64,
    asked: VecDeque<Search>,
    claim: Option<Undecided>,
    /// Contexts, and the own rank in each, of which the receiver knows that messages are withheld.
    told: Vec<(u32, u32)>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    message: Waiting,
    /// The receiver was told that it is here.
    is_seen: bool,
}

#[derive(Debug)]
struct Search {
    asked: Asked,
    /// All messages before this number do not fit.
    from: u64,
}

#[derive(Debug)]
struct Undecided {
    id: RequestId,
    number: u64,
    /// If the receiver declines, the message is cancelled.
    is_cancelled: bool,
}

/// What becomes of a message that the receiver has declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stays where it was.
    Stays,
    /// The program wanted it back: it is gone.
    Cancelled,
}

/// What became of the wish to cancel a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    /// It is not one that is withheld.
    NotHere,
    /// It is gone; the receiver knew of it if `is_seen`.
    Gone { envelope: Envelope, is_seen: bool },
    /// It is claimed: that depends on the receiver.
    Claimed,
}

impl Asked {
    fn fits(&self, envelope: Envelope) -> bool {
        (self.context, self.source) == (envelope.context, envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

impl Withheld {
    /// Whether one with this envelope is among them.
    pub fn holds(&self, envelope: Envelope) -> bool {
        self.messages.iter().any(|entry| entry.message.envelope == envelope)
    }

    /// Withholds a message; whether the receiver does not know yet that there are some of its context.
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

    /// The next message that leaves if there is room for it.
    pub fn front(&self) -> Option<&Waiting> {
        if self.claim.is_some() { None } else { self.messages.front().map(|entry| &entry.message) }
    }

    /// That message leaves, as any other: it will be matched with the receive that was first asked for; whether the receiver knew
    /// of it.
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

    /// The receiver asks for a message.
    pub fn ask(&mut self, asked: Asked) {
        self.asked.push_back(Search { asked, from: 0 });
    }

    /// The next thing to say, if there is one.
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

    /// The receiver takes a message; whether it is the one that was claimed.
    pub fn accepted(&mut self, id: RequestId) -> bool {
        let Some(claim) = self.claim.take_if(|claim| claim.id == id) else { return false };
        self.messages.remove(self.place_of(claim.number));
        true
    }

    /// The receiver does not want the message that was claimed, which is as if it had never been; `None` if it was not claimed.
    pub fn declined(&mut self, id: RequestId) -> Option<Fate> {
        let claim = self.claim.take_if(|claim| claim.id == id)?;
        if !claim.is_cancelled {
            return Some(Fate::Stays);
        }
        self.messages.remove(self.place_of(claim.number));
        Some(Fate::Cancelled)
    }

    /// The program wants a message back.
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

    /// Takes away all messages that are not claimed and are `wanted`.
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

    /// Where the message with this number is, or the first after it.
    fn place_of(&self, number: u64) -> usize {
        self.messages.partition_point(|entry| entry.number < number)
    }

    /// What the receiver is to be told when nothing is withheld any more; `None` as long as something is.
    pub fn end(&mut self) -> Option<Vec<(u32, u32)>> {
        self.messages.is_empty().then(|| std::mem::take(&mut self.told))
    }
}

impl State {
    /// The next message to a peer that leaves if there is room for it.
    fn withheld_front(&mut self, peer: Peer) -> Option<Waiting> {
        self.peers.get(peer).withheld.as_ref().and_then(|withheld| withheld.front()).copied()
    }

    /// Withholds the message of a send.
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

    /// There was no room for a message: its receiver learns that.
    #[cold]
    pub(super) fn ask_for_room(&mut self, peer: Peer) {
        if self.peers.get(peer).send_window.asks() {
            self.queue(peer, Small::bare(Packet::Starved));
        }
    }

    /// The receiver gives room.
    pub(super) fn credited(&mut self, from: Peer, bytes: u64) {
        let towards = self.peers.get(from);
        towards.send_window.credit(bytes);
        if towards.withheld.is_some() {
            self.list(from);
        }
    }

    /// The receiver asks for a message that is withheld. If none is any more, all are on their way.
    #[cold]
    pub(super) fn asked_for(&mut self, from: Peer, asked: Asked) {
        if let Some(withheld) = &mut self.peers.get(from).withheld {
            withheld.ask(asked);
            self.list(from);
        }
    }

    /// Says what there is to say about what the receiver has asked for.
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

    /// The receiver takes the message of a send, which may be one that it was asked about.
    #[inline]
    pub(super) fn claim_accepted(&mut self, from: Peer, sender: RequestId) {
        let towards = self.peers.get(from);
        if let Some(withheld) = &mut towards.withheld
            && withheld.accepted(sender)
        {
            self.list(from);
        }
    }

    /// The receiver does not take the message that is claimed.
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

    /// Takes a message back that is withheld; true if it is not (or if that depends on the receiver, who has to be asked).
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

    /// Nobody will ask for messages of an operation that was given up: their sends are over.
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
    /// Sends what was withheld, as far as there is room now, and answers what was asked for.
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
