//! What the messages of a collective operation say of it, and which operations members have given up.
//!
//! MPI-5 section 6.1 asks that all members call the same operations in the same order, with equal roots and amounts of data.
//! The field of a header that has the datatype signature of a user's message has what the sender takes the operation for
//! ([`signature`]) where it is one of a collective: whoever receives it compares, which costs one comparison a message.
//!
//! A member whose part has failed can send no more of it, and its neighbours would wait for ever. It says so to all members
//! ([`Packet::Refused`](crate::wire::Packet::Refused)); their parts then fail too, and what else arrives of the operation is
//! dropped.
//!
//! Where every member only sends, as two that both take themselves for the root of a broadcast, nobody receives anything that
//! could be compared. What they have sent then lies here when the operation is over, and nobody will ask for it: whoever
//! ends an operation looks whether there is such a message ([`State::overdue`]).

use std::collections::{BTreeSet, VecDeque};

use tutti_base::{Error, ErrorClass, WorldRank};
use tutti_coll::Collective;
use tutti_transport::Peer;

use super::multicast;
use super::{Message, Notice, State};
use crate::flow::ENVELOPE_BYTES;
use crate::matching::Envelope;
pub use crate::matching::LANE_BITS;
use crate::request::RequestId;
use crate::wire::{Packet, Signature};

/// Operations are numbered modulo this; the number and the lane make a tag.
pub const NUMBERS: u32 = 1 << 22;
/// Tags of persistent operations have this bit.
pub const PERSISTENT: i32 = 1 << 30;

/// An operation that a member has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Context with plane.
    context: u32,
    /// The tag of its messages, without the lane.
    tag: i32,
    /// Who gave it up.
    pub source: u32,
    /// Why.
    pub class: ErrorClass,
}

/// The latest operations that were given up.
#[derive(Debug, Default)]
pub struct FailedOperations {
    all: VecDeque<Refusal>,
    /// Contexts, with plane, of those that are not remembered any more.
    forgotten: BTreeSet<u32>,
    /// Senders of messages that were found wrong, who still wait for a word.
    owed: Vec<(Peer, RequestId)>,
    /// What members have answered.
    dissents: VecDeque<(Envelope, Signature)>,
}

/// How many are remembered: programs that go on after an error have few of them.
const MOST: usize = 1024;

/// Most contexts that are remembered of those that were forgotten; then any may be one of them.
const CONTEXTS: usize = 1 << 16;

/// Most questions, and most answers, that wait: who asks does so again.
const INQUIRIES: usize = 1024;

const KNOWN: u16 = 1 << 15;
/// The kind of what makes a persistent operation, whose kind is in the place of the root.
const MAKING: u16 = FIELD;
const KIND_SHIFT: u32 = 10;
const ROOT_SHIFT: u32 = 5;
const FIELD: u16 = 0x1f;
const _: () = assert!(Collective::EVERY.len() <= MAKING as usize);

/// What a message says of its operation: which it is, and five bits each of what the root and the number of bytes hash to.
pub fn signature(collective: Collective, root: u32, bytes: u64) -> Signature {
    // Fibonacci hashing: the highest bits depend on all.
    let hash = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as u16;
    let kind = collective as u16;
    KNOWN | kind << KIND_SHIFT | hash(u64::from(root) + 1) << ROOT_SHIFT | hash(bytes + 1)
}

/// What the making of a persistent operation says.
pub fn making(collective: Collective) -> Signature {
    KNOWN | MAKING << KIND_SHIFT | (collective as u16) << ROOT_SHIFT
}

/// Ten bits of a signature, in which the kinds differ.
pub fn digest(signature: Signature) -> u16 {
    (signature >> ROOT_SHIFT ^ signature & FIELD) & 0x3ff
}

/// Whether two members who say this of an operation disagree; who says nothing agrees.
pub fn disagreement(mine: Signature, theirs: Signature, source: u32) -> Option<Error> {
    if mine == theirs || mine & theirs & KNOWN == 0 {
        return None;
    }
    Some(words_for(mine, theirs, source))
}

#[cold]
fn words_for(mine: Signature, theirs: Signature, source: u32) -> Error {
    let (own, other) = (name_of(mine), name_of(theirs));
    if own != other {
        let reason = format!(
            "this rank calls {own} where rank {source} calls {other}; all ranks must call the same operations in the same \
             order"
        );
        return Error::new(ErrorClass::Other, reason);
    }
    if (mine ^ theirs) >> ROOT_SHIFT & FIELD != 0 {
        let reason = format!("{own} has another root at rank {source} than at this rank");
        return Error::new(ErrorClass::Root, reason);
    }
    let reason = format!("{own} is of other amounts of data at rank {source} than at this rank");
    Error::new(ErrorClass::Truncate, reason)
}

/// Of an operation that says this.
fn name_of(signature: Signature) -> String {
    let named = |kind: u16| Collective::EVERY.get(usize::from(kind)).map(|collective| collective.name());
    match signature >> KIND_SHIFT & FIELD {
        MAKING => {
            let made = named(signature >> ROOT_SHIFT & FIELD).unwrap_or("operation");
            format!("the making of a persistent {made}")
        }
        kind => named(kind).unwrap_or("another operation").to_string(),
    }
}

/// A message of an operation that is over here, which this rank was not to get.
#[cold]
fn unasked(theirs: Signature, source: u32) -> Error {
    let kind =
        Collective::EVERY.get(usize::from(theirs >> KIND_SHIFT & FIELD)).filter(|_| theirs & KNOWN != 0);
    let name = kind.map_or("a collective operation", |collective| collective.name());
    let reason = format!(
        "rank {source} has sent this rank a message in {name} that it was not to get: the ranks disagree about that \
         operation, perhaps about its root; all that was done since it is in doubt"
    );
    Error::new(
        if kind.is_some_and(|kind| kind.rooted()) { ErrorClass::Root } else { ErrorClass::Other },
        reason,
    )
}

/// Whether an operation with the tag `other` began before that with `mine`, or is the same, so that nobody here waits for messages
/// of it when that is over and no other one is under way. Persistent ones come back.
pub fn is_past(other: i32, mine: i32) -> bool {
    if (other | mine) & PERSISTENT != 0 {
        return false;
    }
    let number = |tag: i32| tag as u32 >> LANE_BITS;
    number(mine).wrapping_sub(number(other)) % NUMBERS < NUMBERS / 2
}

/// A message of a collective that is longer or shorter than it must be.
#[cold]
pub fn misfit(source: u32, bytes: u64, expected: u64) -> Error {
    let reason = format!(
        "rank {source} has sent {bytes} bytes where this rank expects {expected}; the amounts of data must be equal"
    );
    Error::new(ErrorClass::Truncate, reason)
}

impl Refusal {
    /// As an error of the operation.
    #[cold]
    pub fn error(self) -> Error {
        let reason = format!(
            "rank {} has given this operation up ({}); what this rank has of it is not complete",
            self.source,
            self.class.meaning()
        );
        Error::new(self.class, reason)
    }
}

impl FailedOperations {
    /// A member has answered that it takes an operation for this.
    #[cold]
    pub(super) fn answered(&mut self, envelope: Envelope, signature: Signature) {
        if self.dissents.len() == INQUIRIES {
            self.dissents.pop_front();
        }
        self.dissents.push_back((envelope, signature));
    }

    /// What a member has answered about the operation with this tag.
    pub fn take_dissent(&mut self, context: u32, tag: i32) -> Option<(u32, Signature)> {
        let is_its = |(other, _): &(Envelope, Signature)| (other.context, other.tag) == (context, tag);
        let place = self.dissents.iter().position(is_its)?;
        self.dissents.remove(place).map(|(envelope, signature)| (envelope.source, signature))
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether an operation of this context may have been given up: what else comes of it is no news.
    pub fn may_be_in(&self, context: u32) -> bool {
        self.forgotten.len() == CONTEXTS
            || self.forgotten.contains(&context)
            || self.all.iter().any(|one| one.context == context)
    }

    /// Whether the operation of messages with this tag was given up.
    #[inline]
    pub fn of(&self, context: u32, tag: i32) -> Option<Refusal> {
        if self.all.is_empty() { None } else { self.find(context, tag) }
    }

    #[cold]
    fn find(&self, context: u32, tag: i32) -> Option<Refusal> {
        let same = |one: &&Refusal| one.context == context && one.tag == without_lane(tag);
        self.all.iter().find(same).copied()
    }

    /// A sender will have to be told that its message has gone.
    pub(super) fn owe(&mut self, to: Peer, sender: RequestId) {
        self.owed.push((to, sender));
    }

    fn note(&mut self, refusal: Refusal) {
        if self.find(refusal.context, refusal.tag).is_some() {
            return;
        }
        let oldest = if self.all.len() == MOST { self.all.pop_front() } else { None };
        if let Some(oldest) = oldest.filter(|_| self.forgotten.len() < CONTEXTS) {
            self.forgotten.insert(oldest.context);
        }
        self.all.push_back(refusal);
    }
}

fn without_lane(tag: i32) -> i32 {
    tag & !((1 << LANE_BITS) - 1)
}

impl Message {
    /// What it says of its operation.
    fn signature(&self) -> Signature {
        match self {
            Message::Eager { signature, .. }
            | Message::Multicast { signature, .. }
            | Message::RendezvousRequest { signature, .. } => *signature,
            Message::Local { .. } | Message::Announced { .. } => 0,
        }
    }
}

impl State {
    /// An operation was given up, by this process or another: what is here of it goes, and its senders are done with it.
    #[cold]
    pub fn refused(&mut self, envelope: Envelope, class: ErrorClass) {
        let Envelope { context, source, tag } = envelope;
        let tag = without_lane(tag);
        self.failed_operations.note(Refusal { context, tag, source, class });
        for message in self.matcher.take_where(context, |other| without_lane(other) == tag) {
            self.throw_away(message);
        }
        self.give_up_withheld(|other| other.context == context && without_lane(other.tag) == tag);
        // Who waits for its messages looks again.
        self.requests.news = true;
    }

    /// A member asks what this one takes an operation for.
    #[cold]
    pub(super) fn asked(&mut self, from: Peer, envelope: Envelope, signature: Signature) {
        if self.inquiries.len() < INQUIRIES {
            self.inquiries.push(Notice::Inquiry { from: WorldRank(from.0), envelope, signature });
        }
    }

    /// Senders of messages that were found wrong are done with them.
    pub fn settle(&mut self) {
        for (to, sender) in std::mem::take(&mut self.failed_operations.owed) {
            self.answer(to, Packet::Done { sender });
        }
    }

    /// A member who takes the operation of `envelope` for another one than `mine` says, by a message that waits here for a
    /// receive that nobody will post.
    #[cold]
    pub fn dissenter(&self, envelope: Envelope, mine: Signature) -> Option<Error> {
        let same = |tag| without_lane(tag) == without_lane(envelope.tag);
        self.matcher.kept_in(envelope.context).find_map(|(other, message)| {
            if same(other.tag) { disagreement(mine, message.signature(), other.source) } else { None }
        })
    }

    /// For who has ended the operation of `envelope`, which says `mine`, while no other one is under way in its context: the tag of
    /// that or an earlier one of which a message lies here that nobody will ask for, and how the members have disagreed about it.
    #[cold]
    pub fn overdue(&self, envelope: Envelope, mine: Signature) -> Option<(i32, Error)> {
        if self.failed_operations.may_be_in(envelope.context) {
            return None;
        }
        let past = |(other, _): &(Envelope, &Message)| is_past(other.tag, envelope.tag);
        let (other, message) = self.matcher.kept_in(envelope.context).find(past)?;
        let theirs = message.signature();
        let same = without_lane(other.tag) == without_lane(envelope.tag);
        let found = if same { disagreement(mine, theirs, other.source) } else { None };
        Some((without_lane(other.tag), found.unwrap_or_else(|| unasked(theirs, other.source))))
    }

    /// Returns the unreceived messages of all contexts that are `collective`, each with its error. For a process
    /// all of whose operations are complete.
    #[cold]
    pub fn left_over_anywhere(&self, collective: impl Fn(u32) -> bool) -> Vec<(Envelope, Error)> {
        let wanted = |other: &Envelope| {
            collective(other.context)
                && other.tag & PERSISTENT == 0
                && !self.failed_operations.may_be_in(other.context)
        };
        let left_over = self.matcher.kept_anywhere().filter(|(other, _)| wanted(other));
        left_over.map(|(other, message)| (other, unasked(message.signature(), other.source))).collect()
    }

    /// Returns an error that describes an unreceived message of one context in which nothing is under way.
    /// `is_awaited` tells of a tag whether an operation that is yet to be started will receive its messages.
    #[cold]
    pub fn left_over(&self, context: u32, is_awaited: impl Fn(i32) -> bool) -> Option<Error> {
        if self.failed_operations.may_be_in(context) {
            return None;
        }
        let (other, message) = self.matcher.kept_in(context).find(|(other, _)| !is_awaited(other.tag))?;
        Some(unasked(message.signature(), other.source))
    }

    /// A message of an operation that was given up: its sender learns that it has gone.
    #[cold]
    pub(super) fn throw_away(&mut self, message: Message) {
        match message {
            Message::Eager { from, payload, sync, .. } => self.eager_done(from, payload.len(), sync),
            Message::Multicast { payload, .. } => self.multicast_bytes -= multicast::cost(&payload),
            Message::RendezvousRequest { from, sender, is_counted, .. } => {
                self.answer(from, Packet::Done { sender });
                if is_counted {
                    self.consumed(from, ENVELOPE_BYTES);
                }
            }
            Message::Local { sender } => self.requests.complete(sender, None),
            Message::Announced { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mine: Signature, theirs: Signature, expected: Option<ErrorClass>) {
        assert_eq!(disagreement(mine, theirs, 3).map(|error| error.class), expected, "{mine:x} {theirs:x}");
    }

    #[test]
    fn members_who_mean_something_else_are_found() {
        use Collective as C;
        let mine = signature(C::Bcast, 0, 8);
        check(mine, mine, None);
        check(mine, 0, None);
        check(mine, signature(C::Reduce, 0, 8), Some(ErrorClass::Other));
        check(mine, signature(C::Bcast, 1, 8), Some(ErrorClass::Root));
        check(mine, signature(C::Bcast, 0, 16), Some(ErrorClass::Truncate));
        for collective in Collective::EVERY {
            check(signature(collective, 2, 1), signature(collective, 2, 1), None);
            assert!(
                collective == C::Barrier
                    || disagreement(signature(C::Barrier, 2, 1), signature(collective, 2, 1), 0).is_some()
            );
        }
        // Few neighbours in number look alike.
        let alike =
            (0..64).filter(|root| signature(C::Bcast, *root, 8) == signature(C::Bcast, root + 1, 8)).count();
        assert_eq!(alike, 0);
    }

    #[test]
    fn operations_are_past_that_began_earlier() {
        let tag = |number: u32| ((number % NUMBERS) << LANE_BITS) as i32;
        for (other, mine, past) in [
            (3, 3, true),
            (3, 4, true),
            (4, 3, false),
            (NUMBERS - 1, NUMBERS + 1, true),
            (1, NUMBERS - 1, false),
        ] {
            assert_eq!(is_past(tag(other) | 5, tag(mine)), past, "{other} {mine}");
            assert!(
                !is_past(tag(other) | PERSISTENT, tag(mine)) && !is_past(tag(other), tag(mine) | PERSISTENT)
            );
        }
        assert_eq!(unasked(signature(Collective::Bcast, 0, 8), 1).class, ErrorClass::Root);
        assert_eq!(unasked(signature(Collective::Scan, 0, 8), 1).class, ErrorClass::Other);
        assert_eq!(unasked(0, 1).class, ErrorClass::Other);
    }

    #[test]
    fn refusals_are_found_by_operation() {
        let mut failed_operations = FailedOperations::default();
        assert_eq!(failed_operations.of(7, 0x300), None);
        for number in 0..MOST as i32 + 1 {
            failed_operations.note(Refusal {
                context: 7,
                tag: number << LANE_BITS,
                source: 1,
                class: ErrorClass::Root,
            });
        }
        assert_eq!(failed_operations.of(7, 0), None, "the oldest is forgotten");
        assert_eq!(failed_operations.of(7, 0x305).map(|refusal| refusal.source), Some(1));
        assert_eq!(failed_operations.of(8, 0x300), None);
        assert!(failed_operations.may_be_in(7) && !failed_operations.may_be_in(8));
        assert_eq!(failed_operations.all.len(), MOST);
        for context in 100..100 + MOST as u32 {
            failed_operations.note(Refusal { context, tag: 0, source: 1, class: ErrorClass::Root });
        }
        assert!(failed_operations.all.iter().all(|refusal| refusal.context != 7));
        assert!(failed_operations.may_be_in(7), "one that was forgotten");
        assert!(failed_operations.may_be_in(100) && !failed_operations.may_be_in(8));
    }
}
