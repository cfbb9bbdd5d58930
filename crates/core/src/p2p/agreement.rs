//! Detection of mismatched collective operations, and the record of operations that members have abandoned.
//!
//! All members must call the same operations in the same order, with equal roots and amounts of data (MPI-5
//! section 6.1). Messages of collectives carry a [`signature`] of their operation. It has the header field
//! that holds the datatype signature of a user's message. The receiver compares, which costs one comparison a
//! message.
//!
//! A member whose operation has failed sends no more messages of it, and its neighbours would wait forever.
//! It informs all members by [`Packet::Refused`](crate::wire::Packet::Refused). Their operations fail too,
//! and later messages of the operation are dropped.
//!
//! If every member only sends, no member has anything to compare: for example two members that both believe
//! to be the root of a broadcast. Their messages then remain in the receivers' unexpected queues after the
//! operation. Therefore a member that ends an operation looks for such a message ([`State::overdue`]).

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

/// Modulus of the numbers of operations. The number and the lane form a tag.
pub const NUMBERS: u32 = 1 << 22;
/// Bit that is set in tags of persistent operations.
pub const PERSISTENT: i32 = 1 << 30;

/// Operation that a member has abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Context with plane.
    context: u32,
    /// Tag of its messages, without the lane.
    tag: i32,
    /// Rank that abandoned the operation.
    pub source: u32,
    /// Class of the error that made it abandon the operation.
    pub class: ErrorClass,
}

/// Latest abandoned operations, the oldest first.
#[derive(Debug, Default)]
pub struct FailedOperations {
    all: VecDeque<Refusal>,
    /// Contexts, with plane, of abandoned operations that have been dropped from `all`.
    forgotten: BTreeSet<u32>,
    /// Senders of mismatched messages that wait for Done.
    owed: Vec<(Peer, RequestId)>,
    /// Replies of members to inquiries.
    dissents: VecDeque<(Envelope, Signature)>,
}

/// Maximum number of abandoned operations in the record. Programs that continue after an error have few of
/// them.
const MOST: usize = 1024;

/// Maximum number of contexts in `forgotten`. Once it is reached, any context may have been dropped.
const CONTEXTS: usize = 1 << 16;

/// Maximum number of waiting inquiries, and of waiting replies. A lost inquiry is repeated by its sender.
const INQUIRIES: usize = 1024;

const KNOWN: u16 = 1 << 15;
/// Kind of the creation of a persistent operation. The operation's kind is then in the field of the root.
const MAKING: u16 = FIELD;
const KIND_SHIFT: u32 = 10;
const ROOT_SHIFT: u32 = 5;
const FIELD: u16 = 0x1f;
const _: () = assert!(Collective::EVERY.len() <= MAKING as usize);

/// Returns the signature of an operation: its kind, and five hash bits each of the root and the number of
/// bytes.
pub fn signature(collective: Collective, root: u32, bytes: u64) -> Signature {
    // Fibonacci hashing: the highest bits depend on all.
    let hash = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as u16;
    let kind = collective as u16;
    KNOWN | kind << KIND_SHIFT | hash(u64::from(root) + 1) << ROOT_SHIFT | hash(bytes + 1)
}

/// Returns the signature of the creation of a persistent operation.
pub fn making(collective: Collective) -> Signature {
    KNOWN | MAKING << KIND_SHIFT | (collective as u16) << ROOT_SHIFT
}

/// Returns ten bits of a signature, which differ for different kinds.
pub fn digest(signature: Signature) -> u16 {
    (signature >> ROOT_SHIFT ^ signature & FIELD) & 0x3ff
}

/// Returns an error if two members' signatures of an operation differ. An unknown signature matches any
/// other.
pub fn disagreement(mine: Signature, theirs: Signature, source: u32) -> Option<Error> {
    if mine == theirs || mine & theirs & KNOWN == 0 {
        return None;
    }
    Some(words_for(mine, theirs, source))
}

/// Returns the error that describes two different signatures.
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

/// Returns the name of the operation with this signature.
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

/// Returns the error for a message that this rank did not expect, of an operation that has ended here.
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

/// Returns true if the operation with tag `other` started before that with tag `mine`, or is the same. No
/// receive here waits for its messages once `mine` has ended and no other operation is active. Persistent
/// operations are never past, as they can be started again.
pub fn is_past(other: i32, mine: i32) -> bool {
    if (other | mine) & PERSISTENT != 0 {
        return false;
    }
    let number = |tag: i32| tag as u32 >> LANE_BITS;
    number(mine).wrapping_sub(number(other)) % NUMBERS < NUMBERS / 2
}

/// Returns the error for a message of a collective whose length is not the expected one.
#[cold]
pub fn misfit(source: u32, bytes: u64, expected: u64) -> Error {
    let reason = format!(
        "rank {source} has sent {bytes} bytes where this rank expects {expected}; the amounts of data must be equal"
    );
    Error::new(ErrorClass::Truncate, reason)
}

impl Refusal {
    /// Returns the error of the operation at this member.
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
    /// Notes a member's reply with its signature of an operation.
    #[cold]
    pub(super) fn answered(&mut self, envelope: Envelope, signature: Signature) {
        if self.dissents.len() == INQUIRIES {
            self.dissents.pop_front();
        }
        self.dissents.push_back((envelope, signature));
    }

    /// Removes and returns a member's reply about the operation with this tag: its rank and its signature.
    pub fn take_dissent(&mut self, context: u32, tag: i32) -> Option<(u32, Signature)> {
        let is_its = |(other, _): &(Envelope, Signature)| (other.context, other.tag) == (context, tag);
        let place = self.dissents.iter().position(is_its)?;
        self.dissents.remove(place).map(|(envelope, signature)| (envelope.source, signature))
    }

    /// Returns true if no operation was abandoned.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns true if an operation of this context may have been abandoned. Its late messages are then not
    /// errors.
    pub fn may_be_in(&self, context: u32) -> bool {
        self.forgotten.len() == CONTEXTS
            || self.forgotten.contains(&context)
            || self.all.iter().any(|one| one.context == context)
    }

    /// Returns the refusal of the operation whose messages have this tag, if it was abandoned.
    #[inline]
    pub fn of(&self, context: u32, tag: i32) -> Option<Refusal> {
        if self.all.is_empty() { None } else { self.find(context, tag) }
    }

    #[cold]
    fn find(&self, context: u32, tag: i32) -> Option<Refusal> {
        let same = |one: &&Refusal| one.context == context && one.tag == without_lane(tag);
        self.all.iter().find(same).copied()
    }

    /// Notes a sender that must be informed later that its message is dropped.
    pub(super) fn owe(&mut self, to: Peer, sender: RequestId) {
        self.owed.push((to, sender));
    }

    /// Records an abandoned operation, unless it is recorded already.
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

/// Returns a tag with the bits of the lane cleared.
fn without_lane(tag: i32) -> i32 {
    tag & !((1 << LANE_BITS) - 1)
}

impl Message {
    /// Returns the signature of the message's operation, or 0 if it carries none.
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
    /// Records an operation that this process or another has abandoned. Its messages here are dropped and its
    /// sends are completed.
    #[cold]
    pub fn refused(&mut self, envelope: Envelope, class: ErrorClass) {
        let Envelope { context, source, tag } = envelope;
        let tag = without_lane(tag);
        self.failed_operations.note(Refusal { context, tag, source, class });
        for message in self.matcher.take_where(context, |other| without_lane(other) == tag) {
            self.throw_away(message);
        }
        self.give_up_withheld(|other| other.context == context && without_lane(other.tag) == tag);
        // Ranks that wait for its messages check again.
        self.requests.news = true;
    }

    /// Keeps an inquiry of a member for this process's signature of an operation.
    #[cold]
    pub(super) fn asked(&mut self, from: Peer, envelope: Envelope, signature: Signature) {
        if self.inquiries.len() < INQUIRIES {
            self.inquiries.push(Notice::Inquiry { from: WorldRank(from.0), envelope, signature });
        }
    }

    /// Completes the sends whose messages were mismatched.
    pub fn settle(&mut self) {
        for (to, sender) in std::mem::take(&mut self.failed_operations.owed) {
            self.answer(to, Packet::Done { sender });
        }
    }

    /// Returns the disagreement about the operation of `envelope`, if an unexpected message carries a
    /// signature other than `mine`. No receive will match that message.
    #[cold]
    pub fn dissenter(&self, envelope: Envelope, mine: Signature) -> Option<Error> {
        let same = |tag| without_lane(tag) == without_lane(envelope.tag);
        self.matcher.kept_in(envelope.context).find_map(|(other, message)| {
            if same(other.tag) { disagreement(mine, message.signature(), other.source) } else { None }
        })
    }

    /// Returns a message that no receive will match, at the end of the operation of `envelope` with signature
    /// `mine`. The result is the tag of that or an earlier operation, and the disagreement. No other
    /// operation may be active in the context.
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

    /// Returns the unreceived messages of all contexts for which `collective` returns true, each with its
    /// error. All operations of the process must be complete.
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

    /// Returns an error that describes an unreceived message of a context without active operations.
    /// `is_awaited` returns true for tags of operations that will be started later and receive their
    /// messages.
    #[cold]
    pub fn left_over(&self, context: u32, is_awaited: impl Fn(i32) -> bool) -> Option<Error> {
        if self.failed_operations.may_be_in(context) {
            return None;
        }
        let (other, message) = self.matcher.kept_in(context).find(|(other, _)| !is_awaited(other.tag))?;
        Some(unasked(message.signature(), other.source))
    }

    /// Drops a message of an abandoned operation and completes its send.
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
