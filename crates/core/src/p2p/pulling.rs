//! Withheld messages: the receiver's half of the protocol in [`crate::flow`].
//!
//! The receiver knows which peers withhold messages, by context and source. It informs them of every receive
//! that may match such a message, and accepts or declines their claims.
//!
//! A probe that finds no message in this process becomes a *wish*, which is sent to these peers as well:
//!
//! - MPI_Iprobe: the peer reports its first message that fits. Before that message leaves, the peer revokes
//!   the report.
//! - MPI_Improbe: the peer claims its first message that fits. The claim waits until the program probes
//!   again.
//!
//! While a claim waits, no other message comes from that peer. Therefore the claim is declined if a receive
//! is posted that may match a message of the peer. It is also declined if the program keeps probing for other
//! messages.

use tutti_transport::Peer;

use super::status::status_of;
use super::{Message, State};
use crate::matching::{Envelope, Pattern};
use crate::request::{RequestId, Status};
use crate::wire::{Claim, Packet, RendezvousRequest, Signature, Wanted};

/// State about messages that are withheld from this process.
#[derive(Debug, Default)]
pub(super) struct Pulling {
    holders: Vec<Holder>,
    /// Probes that wait for a reply, the oldest first.
    wishes: Vec<Wish>,
    numbered: u64,
}

/// Peer that withholds messages of a context and source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    context: u32,
    source: u32,
    peer: Peer,
}

/// Probe that has found no message in this process.
#[derive(Debug)]
struct Wish {
    number: u64,
    pattern: Pattern,
    takes: bool,
    answer: Answer,
}

/// Reply to a probe.
#[derive(Debug)]
enum Answer {
    Awaited,
    Seen { from: Peer, status: Status },
    Claimed(Claimed),
}

/// Message that is claimed for a matched probe.
#[derive(Debug)]
struct Claimed {
    from: Peer,
    envelope: Envelope,
    signature: Signature,
    sender: RequestId,
    offer: RendezvousRequest,
    /// Number of unsuccessful probes for other messages since the claim.
    passed_over: u32,
}

/// Maximum number of wishes. Beyond it the oldest is forgotten, and created again when the program probes
/// again.
const WISHES: usize = 64;
/// Number of unsuccessful probes for other messages after which a claim is declined.
const PATIENCE: u32 = 64;

impl Pulling {
    /// Returns true if no peer withholds messages.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.holders.is_empty()
    }

    /// Returns the peers that may withhold a message for this pattern.
    fn holders_of(&self, pattern: Pattern) -> Vec<Holder> {
        let may_be = |holder: &&Holder| {
            holder.context == pattern.context && pattern.source.is_none_or(|source| source == holder.source)
        };
        self.holders.iter().filter(may_be).copied().collect()
    }

    fn find(&mut self, pattern: Pattern, takes: bool) -> Option<usize> {
        self.wishes.iter().position(|wish| (wish.pattern, wish.takes) == (pattern, takes))
    }

    /// Forgets reports about messages of `from`, which has sent them since.
    fn forget_seen(&mut self, from: Peer) {
        self.wishes
            .retain(|wish| !matches!(wish.answer, Answer::Seen { from: source, .. } if source == from));
    }

    /// Removes the claims that are `wanted`. Returns the peers to inform, with the requests of their sends.
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

    /// Returns the number of messages that are claimed for matched probes.
    #[cfg(test)]
    pub fn wishes_claimed(&self) -> usize {
        self.wishes.iter().filter(|wish| matches!(wish.answer, Answer::Claimed(_))).count()
    }

    /// Forgets a peer from which no messages come any more.
    pub fn forget_peer(&mut self, peer: Peer) {
        self.holders.retain(|holder| holder.peer != peer);
        self.forget_seen(peer);
        self.decline(|claimed| claimed.from == peer);
    }
}

impl State {
    /// Notes that a peer withholds messages of this context and source. Grants the available room, and
    /// informs the peer of the receives and probes that may match.
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

    /// Notes that a peer no longer withholds messages of this context and source.
    #[cold]
    pub(super) fn resumed(&mut self, from: Peer, envelope: Envelope) {
        let Envelope { context, source, .. } = envelope;
        self.pulling.holders.retain(|holder| *holder != Holder { context, source, peer: from });
        if self.pulling.is_idle() {
            self.pulling.wishes.clear();
        }
    }

    /// Grants the available room to a peer that has requested more.
    #[cold]
    pub(super) fn starved(&mut self, from: Peer) {
        if let Some(bytes) = self.peers.get(from).receive_window.grant(&mut self.reserve) {
            self.answer(from, Packet::Credit { bytes });
        }
    }

    /// Informs the peers that withhold messages of a newly posted receive.
    #[cold]
    pub(super) fn pull(&mut self, pattern: Pattern, id: RequestId) {
        for holder in self.pulling.holders_of(pattern) {
            self.decline(|claimed| claimed.from == holder.peer);
            self.want(holder, pattern.tag, Wanted::Receive(id));
        }
    }

    /// Requests a message from a peer. The credit for consumed messages is sent first: there may be no later
    /// occasion.
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

    /// Returns the status of a withheld message for a probe, if a peer has reported or claimed one. Otherwise
    /// requests a report.
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

    /// Takes the message that was claimed for a matched probe of this pattern. Otherwise requests a claim.
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

    /// Creates a wish and sends it to all peers that may withhold such a message.
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

    /// Counts an unsuccessful probe. Claims for other messages are declined after `PATIENCE` of them, as
    /// they block their peer.
    fn pass_over(&mut self) {
        for wish in &mut self.pulling.wishes {
            if let Answer::Claimed(claimed) = &mut wish.answer {
                claimed.passed_over += 1;
            }
        }
        self.decline(|claimed| claimed.passed_over > PATIENCE);
    }

    /// Accepts or declines the claim of a sender for a message that it withholds.
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

    /// Notes a sender's report about the message that a probe would find.
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

    /// Forgets reports of this peer, which it has revoked.
    #[cold]
    pub(super) fn unseen(&mut self, from: Peer) {
        self.pulling.forget_seen(from);
    }

    /// Declines a claim whose sender cancels the message. Returns false if the message is not claimed any
    /// more.
    pub(super) fn claim_asked_back(&mut self, from: Peer, sender: RequestId) -> bool {
        let declined = self.pulling.decline(|claimed| (claimed.from, claimed.sender) == (from, sender));
        for (peer, sender) in &declined {
            self.answer(*peer, Packet::Declined { sender: *sender });
        }
        !declined.is_empty()
    }
}

impl Wish {
    /// Returns the pattern and the kind of the request, unless there is a reply.
    fn awaited(&self) -> Option<(Pattern, Wanted)> {
        let by = if self.takes { Wanted::Take(self.number) } else { Wanted::Look(self.number) };
        matches!(self.answer, Answer::Awaited).then_some((self.pattern, by))
    }
}
