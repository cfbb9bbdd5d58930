//! Notes of each member about its latest operations, by which members that disagree about one find out.
//!
//! Flags carry an agreement ([`super::turns::word`]): the reader of a flag sees whether its owner means the
//! same operation. That does not help a member that waits for a flag which is never set: the other one took
//! the operation for something else, and uses another slot or sends messages. Hence every member notes the
//! kind of each operation in its own part, and a member that has waited for long compares. A note is two
//! stores to a line that no other member writes; notes are read only in trouble.
//!
//! # Safety
//! As for [`super`]: notes are atomics, at offsets that the layout reserves for them.

use tutti_base::sync::{AtomicU64, Ordering};

use super::layout::{SAID_BYTES, SAID_OFFSET};
use super::{Banks, Parts};

/// Operations of which a member's notes are kept: more than it can be ahead of the others within the node.
const KEPT: usize = SAID_BYTES / size_of::<Note>();

/// Bit of a note's kind: its member has learnt that others take the operation for something else.
const TOLD: u8 = 0x80;

/// Bit, above the number, in the word of a member that has given up.
const GIVEN_UP: u64 = 1 << 32;

/// Numbers wrap around; those in use together are near each other.
fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// Signature of an operation as one member understands it. The caller defines the meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSignature {
    /// Fingerprint that is equal where members agree.
    pub agreed: u16,
    /// Kind of the operation, from 1 to 127, for an error message.
    pub kind: u8,
    /// Bytes of the operation, for an error message.
    pub bytes: u64,
    /// Short code of the slot class and its operation number. Members that differ in it have lost step.
    pub turn: u8,
}

#[repr(C)]
pub(super) struct Note {
    /// Lowest bits of the number, fingerprint, kind, turn.
    word: AtomicU64,
    bytes: AtomicU64,
}

impl Banks {
    /// Notes the signature of operation `number` for this member. Members number operations alike.
    #[inline]
    pub fn say(&self, number: u32, said: &CallSignature) {
        let note = self.parts.note(self.me, number);
        let CallSignature { agreed, kind, bytes, turn } = *said;
        note.bytes.store(bytes, Ordering::Relaxed);
        let said = u32::from(agreed) << 16 | u32::from(kind) << 8 | u32::from(turn);
        let word = u64::from(number) << 32 | u64::from(said);
        note.word.store(word, Ordering::Release);
    }

    /// Returns the signature of operation `number` at `member`. None if the member has not started it or the
    /// note was overwritten.
    pub fn said(&self, member: u32, number: u32) -> Option<CallSignature> {
        let note = self.parts.note(member, number);
        let word = note.word.load(Ordering::Acquire);
        let bytes = note.bytes.load(Ordering::Acquire);
        let same = (word >> 32) as u32 == number && note.word.load(Ordering::Relaxed) == word;
        let (agreed, kind, turn) = ((word >> 16) as u16, (word >> 8) as u8 & !TOLD, word as u8);
        // Notes that nobody has written are 0.
        (same && kind != 0).then_some(CallSignature { agreed, kind, bytes, turn })
    }

    /// Notes that this member has learnt that others take operation `number` for something else.
    pub fn was_told(&self, number: u32) {
        let note = self.parts.note(self.me, number);
        let word = note.word.load(Ordering::Relaxed);
        if (word >> 32) as u32 == number {
            note.word.store(word | u64::from(TOLD) << 8, Ordering::Release);
        }
    }

    /// Returns a neighbouring member whose signature of operation `number` differs, unless some member has
    /// learnt of the mismatch or has given up. After giving up, turns differ anyway. Where members
    /// disagree, two neighbours do; the last of them to check finds out.
    pub fn untold(&self, number: u32) -> Option<u32> {
        let mine = self.said(self.me, number)?;
        let members = self.parts.members;
        let beside = [(self.me + 1) % members, (self.me + members - 1) % members];
        let is_unlike = |member: &u32| {
            self.said(*member, number)
                .is_some_and(|theirs| CallSignature { turn: mine.turn, ..theirs } != mine)
        };
        let odd = beside.into_iter().find(is_unlike)?;
        let knows = |member| {
            let word = self.parts.note(member, number).word.load(Ordering::Acquire);
            let is_told = (word >> 32) as u32 == number && (word >> 8) as u8 & TOLD != 0;
            is_told || self.given_up(member).is_some()
        };
        (!(0..members).any(knows)).then_some(odd)
    }

    /// Notes that this member has lost step with the others at operation `number`. It does not use the set
    /// for that operation and later ones.
    pub fn give_up(&self, number: u32) {
        let earlier = self.given_up(self.me).filter(|earlier| !is_before(number, *earlier));
        let word = u64::from(earlier.unwrap_or(number)) | GIVEN_UP;
        self.parts.waits(self.me).gave_up.store(word, Ordering::Release);
    }

    /// Returns the operation at which `member` has given up.
    #[inline]
    pub fn given_up(&self, member: u32) -> Option<u32> {
        let word = self.parts.waits(member).gave_up.load(Ordering::Acquire);
        (word != 0).then_some(word as u32)
    }

    /// Returns true if `member` will never do its part of operation `number`. It still does its part of
    /// earlier ones.
    pub fn has_given_up(&self, member: u32, number: u32) -> bool {
        self.given_up(member).is_some_and(|at| !is_before(number, at))
    }
}

impl Parts {
    #[inline]
    fn note(&self, member: u32, number: u32) -> &Note {
        debug_assert!(member < self.members);
        let offset = SAID_OFFSET + number as usize % KEPT * size_of::<Note>();
        // SAFETY: inside the control words of a part, atomics; callers ask for members that exist.
        unsafe { self.base.add(member as usize * self.stride + offset).cast().as_ref() }
    }
}
