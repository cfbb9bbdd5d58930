//! Messages that their senders withhold: the receiver's half of what [`crate::flow`] describes.
//!
//! The receiver knows which peers withhold messages, by context and source. It tells them of every receive that may be for
//! those, and answers when one of them claims a receive.
//!
//! A probe that finds nothing here becomes a *wish*, of which these peers are told too. One that only looks is answered with what
//! there is; the sender takes that back before the message leaves. One that takes the message (MPI_Improbe) is answered with
//! a claim, which waits for the program to ask again: it may do so or post a receive that comes first. Meanwhile nothing else comes from
//! that peer, so the claim is declined when a receive is posted that may be for it, or when the program asks only for
//! other messages.

use tutti_transport::Peer;

use super::status::status_of;
use super::{Message, State};
use crate::matching::{Envelope, Pattern};
use crate::request::{RequestId, Status};
use crate::wire::{Claim, Packet, RendezvousRequest, Signature, Wanted};

/// What is known of messages that are withheld from this process.
#[derive(Debug, Default)]
pub(super) struct Pulling {
    holders: Vec<Holder>,
    /// The oldest first.
    wishes: Vec<Wish>,
    numbered: u64,
}

/// A peer that withholds messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    context: u32,
    source: u32,
    peer: Peer,
}

/// What a probe asked for that has found nothing here.
#[derive(Debug)]
struct Wish {
    number: u64,
    pattern: Pattern,
    takes: bool,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Awaited,
    Seen { from: Peer, status: Status },
    Claimed(Claimed),
}

/// A message that is claimed for a matched probe.
#[derive(Debug)]
struct Claimed {
    from: Peer,
    envelope: Envelope,
    signature: Signature,
    sender: RequestId,
    offer: RendezvousRequest,
    /// Probes for other messages that found nothing since.
    passed_over: u32,
}

/// Most wishes at a time; of more, the oldest is forgotten, and made again when its probe is.
const WISHES: usize = 64;
/// Probes for other messages until a message that is claimed is declined.
const PATIENCE: u32 = 64;

impl Pulling {
    /// Whether there is nobody to ask.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.holders.is_empty()
    }

    /// Who may withhold what this pattern asks for.
    fn holders_of(&self, pattern: Pattern) -> Vec<Holder> {
        let may_be = |holder: &&Holder| {
            holder.context == pattern.context && pattern.source.is_none_or(|source| source == holder.source)
        };
        self.holders.iter().filter(may_be).copied().collect()
    }

    fn find(&mut self, pattern: Pattern, takes: bool) -> Option<usize> {
        self.wishes.iter().position(|wish| (wish.pattern, wish.takes) == (pattern, takes))
    }

    /// What was said of messages of `from` that it has sent since is not so any more.
    fn forget_seen(&mut self, from: Peer) {
        self.wishes
            .retain(|wish| !matches!(wish.answer, Answer::Seen { from: source, .. } if source == from));
    }

    /// Takes back the claims that are `wanted`: who is to be told.
    fn decline(&mut self, wanted: impl Fn(&Claimed) -> bool) -> Vec<(Peer, RequestId)> {
        let mut declined = Vec::new();
        self.wishes.retain(|wish| {
            let Answer::Claimed(claimed) = &wish.answer else { return true };
            let goes = wanted(claimed);
            if goes {
                declined.push((claimed.from, claimed.sender));
            }
            !goes
        });
        declined
    }

    /// Messages that are claimed for matched probes.
    #[cfg(test)]
    pub fn wishes_claimed(&self) -> usize {
        self.wishes.iter().filter(|wish| matches!(wish.answer, Answer::Claimed(_))).count()
    }

    /// Nothing more comes from a peer.
    pub fn forget_peer(&mut self, peer: Peer) {
        self.holders.retain(|holder| holder.peer != peer);
        self.forget_seen(peer);
        self.decline(|claimed| claimed.from == peer);
    }
}

impl State {
    /// A peer withholds messages of this context and source: it gets what room there is, and learns what is posted for them.
    #[cold]
    pub(super) fn withheld_by(&mut self, from: Peer, envelope: Envelope) {
        let Envelope { context, source, .. } = envelope;
        let holder = Holder { context, source, peer: from };
        if !self.pulling.holders.contains(&holder) {
            self.pulling.holders.push(holder);
        }
        self.starved(from);
        let posted = self.matcher.posted_for(context, source);
        if !posted.is_empty() {
            self.decline(|claimed| claimed.from == from);
        }
        for (tag, id) in posted {
            self.want(holder, tag, Wanted::Receive(id));
        }
        let wishes: Vec<(Pattern, Wanted)> = self.pulling.wishes.iter().filter_map(Wish::awaited).collect();
        for (pattern, by) in wishes {
            if self.pulling.holders_of(pattern).contains(&holder) {
                self.want(holder, pattern.tag, by);
            }
        }
    }

    /// A peer withholds none of these messages any more.
    #[cold]
    pub(super) fn resumed(&mut self, from: Peer, envelope: Envelope) {
        let Envelope { context, source, .. } = envelope;
        self.pulling.holders.retain(|holder| *holder != Holder { context, source, peer: from });
        if self.pulling.is_idle() {
            self.pulling.wishes.clear();
        }
    }

    /// A peer has not enough room: it gets what there is.
    #[cold]
    pub(super) fn starved(&mut self, from: Peer) {
        if let Some(bytes) = self.peers.get(from).receive_window.grant(&mut self.reserve) {
            self.answer(from, Packet::Credit { bytes });
        }
    }

    /// A receive was posted while peers withhold messages.
    #[cold]
    pub(super) fn pull(&mut self, pattern: Pattern, id: RequestId) {
        for holder in self.pulling.holders_of(pattern) {
            self.decline(|claimed| claimed.from == holder.peer);
            self.want(holder, pattern.tag, Wanted::Receive(id));
        }
    }

    /// Asks for a message. What was consumed so far goes back with that: nothing else may come of it.
    fn want(&mut self, holder: Holder, tag: Option<i32>, by: Wanted) {
        let Holder { context, source, peer } = holder;
        if let Some(bytes) = self.peers.get(peer).receive_window.settle(&mut self.reserve) {
            self.answer(peer, Packet::Credit { bytes });
        }
        self.answer(peer, Packet::Wants { context, source, tag, by });
    }

    fn decline(&mut self, wanted: impl Fn(&Claimed) -> bool) {
        for (peer, sender) in self.pulling.decline(wanted) {
            self.answer(peer, Packet::Declined { sender });
        }
    }

    /// What a probe of this pattern finds at those who withhold messages, as far as it is known now.
    #[cold]
    pub(super) fn look_at_withheld(&mut self, pattern: Pattern) -> Option<Status> {
        let known = [false, true].map(|takes| self.pulling.find(pattern, takes));
        for place in known.into_iter().flatten() {
            match &self.pulling.wishes[place].answer {
                Answer::Seen { status, .. } => return Some(*status),
                Answer::Claimed(claimed) => return Some(status_of(claimed.envelope, claimed.offer.bytes)),
                Answer::Awaited => {}
            }
        }
        if known[0].is_none() {
            self.wish(pattern, false);
        }
        self.pass_over();
        None
    }

    /// Takes the message that was claimed for a matched probe of this pattern, if one was.
    #[cold]
    pub(super) fn take_withheld(&mut self, pattern: Pattern) -> Option<(Envelope, Message)> {
        let Some(place) = self.pulling.find(pattern, true) else {
            self.wish(pattern, true);
            return None;
        };
        if !matches!(self.pulling.wishes[place].answer, Answer::Claimed(_)) {
            self.pass_over();
            return None;
        }
        let Answer::Claimed(claimed) = self.pulling.wishes.remove(place).answer else { return None };
        let Claimed { from, envelope, signature, sender, offer, .. } = claimed;
        self.answer(from, Packet::Accepted { sender });
        Some((envelope, Message::RendezvousRequest { from, offer, signature, sender, is_counted: false }))
    }

    /// Asks all who may withhold such a message.
    fn wish(&mut self, pattern: Pattern, takes: bool) {
        let holders = self.pulling.holders_of(pattern);
        if holders.is_empty() {
            return;
        }
        if self.pulling.wishes.len() == WISHES {
            let oldest = self.pulling.wishes.remove(0);
            if let Answer::Claimed(Claimed { from, sender, .. }) = oldest.answer {
                self.answer(from, Packet::Declined { sender });
            }
        }
        self.pulling.numbered += 1;
        let number = self.pulling.numbered;
        self.pulling.wishes.push(Wish { number, pattern, takes, answer: Answer::Awaited });
        let by = if takes { Wanted::Take(number) } else { Wanted::Look(number) };
        for holder in holders {
            self.want(holder, pattern.tag, by);
        }
    }

    /// A probe has found nothing: what is claimed for others does not stand in its way for ever.
    fn pass_over(&mut self) {
        for wish in &mut self.pulling.wishes {
            if let Answer::Claimed(claimed) = &mut wish.answer {
                claimed.passed_over += 1;
            }
        }
        self.decline(|claimed| claimed.passed_over > PATIENCE);
    }

    /// A sender claims what was wanted, for a message that it withholds.
    #[cold]
    pub(super) fn claimed(
        &mut self,
        from: Peer,
        envelope: Envelope,
        signature: Signature,
        sender: RequestId,
        claim: Claim,
    ) {
        self.pulling.forget_seen(from);
        let offer = RendezvousRequest { address: claim.address, ..RendezvousRequest::of_length(claim.bytes) };
        let first = self.matcher.first_posted(envelope).copied();
        match claim.by {
            Wanted::Receive(id) if first == Some(id) => {
                self.matcher.arrive(envelope);
                return self.accept(id, from, envelope, offer, signature, sender);
            }
            Wanted::Take(number) if first.is_none() => {
                let mut wishes = self.pulling.wishes.iter_mut();
                let wish = wishes.find(|wish| wish.number == number);
                if let Some(wish) = wish.filter(|wish| matches!(wish.answer, Answer::Awaited)) {
                    let claimed = Claimed { from, envelope, signature, sender, offer, passed_over: 0 };
                    wish.answer = Answer::Claimed(claimed);
                    self.requests.news = true;
                    return;
                }
            }
            _ => {}
        }
        self.answer(from, Packet::Declined { sender });
    }

    /// A sender says what who looks would see.
    #[cold]
    pub(super) fn seen(&mut self, from: Peer, envelope: Envelope, claim: Claim) {
        let Wanted::Look(number) = claim.by else {
            return self.fail("a peer showed a message to what does not look");
        };
        let awaited = |wish: &&mut Wish| wish.number == number && matches!(wish.answer, Answer::Awaited);
        if let Some(wish) = self.pulling.wishes.iter_mut().find(awaited) {
            wish.answer = Answer::Seen { from, status: status_of(envelope, claim.bytes) };
            self.requests.news = true;
        }
    }

    /// What was said of messages of this peer is not so any more.
    #[cold]
    pub(super) fn unseen(&mut self, from: Peer) {
        self.pulling.forget_seen(from);
    }

    /// The sender of a message that is claimed wants it back; whether it was.
    pub(super) fn claim_asked_back(&mut self, from: Peer, sender: RequestId) -> bool {
        let declined = self.pulling.decline(|claimed| (claimed.from, claimed.sender) == (from, sender));
        for (peer, sender) in &declined {
            self.answer(*peer, Packet::Declined { sender: *sender });
        }
        !declined.is_empty()
    }
}

impl Wish {
    /// What it asks for, unless it is answered.
    fn awaited(&self) -> Option<(Pattern, Wanted)> {
        let by = if self.takes { Wanted::Take(self.number) } else { Wanted::Look(self.number) };
        matches!(self.answer, Answer::Awaited).then_some((self.pattern, by))
    }
}
