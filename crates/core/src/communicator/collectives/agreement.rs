//! Checks that the members of a communicator call the same operation: kind, root and number of bytes.
//!
//! MPI-5 section 6.1 requires that. A program that violates it should get an error, instead of results from
//! arbitrary memory or an endless wait. There are two checks:
//!
//! - Banks carry no lengths, so the flags of an operation carry a hash of its signature
//!   ([`tutti_transport::banks::turns`]). No member uses data of a different operation.
//! - A member that waits for long compares the signatures that the members have noted
//!   ([`tutti_transport::banks::CallSignature`]). The others may have taken another slot, or sent messages.
//!
//! After a mismatch of kinds the communicator cannot be used: its members have *lost step*, since their
//! slots no longer match. If only lengths or roots differ, the members stay in step.

use tutti_base::{Error, ErrorClass};
use tutti_coll::{Collective, Shape};
use tutti_transport::banks::{Banks, CallSignature};

use super::turn::BankTurn;

/// State of the check for an active operation.
#[derive(Clone, Copy, Debug)]
pub struct OperationAgreement {
    /// Number under which the members have noted the operation.
    number: u32,
    /// Member whose flag shows another operation, or [`NOBODY`].
    odd: u32,
    /// True if the members have noted it.
    noted: bool,
    /// True if this member has lost step with the others before.
    lost: bool,
    /// Number of times that a wait was about to sleep.
    sleeps: u8,
}

/// Value of `OperationAgreement`'s `odd` while no flag has shown another operation.
const NOBODY: u32 = u32::MAX;

/// Value of the counter for the third sleep, after which a wait is long: each sleep is announced by two
/// polls.
const LONG: u8 = 5;

/// Returns the signature that must be equal at all members. Lengths are included only where they are equal
/// everywhere.
pub fn bank_signature(shape: &Shape) -> CallSignature {
    use Collective as C;
    let bytes = match shape.collective {
        C::Gatherv | C::Scatterv | C::Alltoallv => 0,
        // Members of neighbourhood collectives need equal lengths with their neighbours only.
        neighbours if neighbours.is_of_neighbours() => 0,
        _ => shape.count.wrapping_mul(shape.unit_bytes),
    };
    let kind = kind(shape.collective);
    // Multiplied by odd numbers without a pattern (those of a well-known generator), so that the highest
    // bits depend on all others.
    let mixed = (u64::from(kind) << 32 | u64::from(shape.root)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29 ^ bytes).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    CallSignature { agreed: (mixed >> 49) as u16, kind, bytes, turn: 0 }
}

/// Returns the signature of an operation whose algorithm was tried or learned; `algorithm` is a hash of it.
pub fn bank_signature_by(shape: &Shape, algorithm: u64) -> CallSignature {
    let CallSignature { agreed, kind, bytes, turn } = bank_signature(shape);
    let mixed = algorithm.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    CallSignature { agreed: agreed ^ (mixed >> 49) as u16, kind, bytes, turn }
}

/// Returns the number of a collective, never 0.
fn kind(collective: Collective) -> u8 {
    collective as u8 + 1
}

/// Returns the name of a kind for messages.
fn name(kind: u8) -> &'static str {
    let place = usize::from(kind).wrapping_sub(1);
    Collective::EVERY.get(place).map_or("another operation", |collective| collective.name())
}

/// Returns true if operations of this kind have a root.
fn is_rooted(kind: u8) -> bool {
    let place = usize::from(kind).wrapping_sub(1);
    Collective::EVERY.get(place).is_some_and(|collective| collective.rooted())
}

impl OperationAgreement {
    /// State of an operation without a noted signature.
    pub const UNKNOWN: OperationAgreement =
        OperationAgreement { number: 0, odd: NOBODY, noted: false, lost: false, sleeps: 0 };

    /// Notes the signature of an operation that begins, and returns its state.
    #[inline]
    pub fn begin(
        banks: &Banks,
        number: u32,
        said: &CallSignature,
        turn: Option<&BankTurn>,
    ) -> OperationAgreement {
        let turn = turn.map_or(0, |turn| (turn.class() as u8 + 1) << 6 | (turn.number() & 0x3f) as u8);
        banks.say(number, &CallSignature { turn, ..*said });
        let lost = banks.given_up(banks.me()).is_some();
        OperationAgreement { number, noted: true, lost, ..OperationAgreement::UNKNOWN }
    }

    /// Records that the flag of a member shows another operation.
    #[cold]
    pub fn is_at_odds_with(&mut self, member: u32) {
        self.odd = member;
    }

    /// Returns the members' number of the operation.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns true if this member has lost step before.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Returns true if [`OperationAgreement::complaint`] should be called, since its result may have
    /// changed.
    #[inline]
    pub fn is_doubtful(&self, is_about_to_sleep: bool) -> bool {
        self.noted && (is_about_to_sleep || self.odd != NOBODY)
    }

    /// Returns an error if the operation cannot even begin; `place` is the name of its communicator.
    #[inline]
    pub fn refusal(&self, place: impl Fn() -> String) -> Option<Error> {
        if self.lost { Some(lost(&place())) } else { None }
    }

    /// Returns an error if members disagree about the operation, which waits. `rank_of` maps a member to
    /// its rank.
    #[cold]
    pub fn complaint(
        &mut self,
        banks: &Banks,
        place: impl Fn() -> String,
        rank_of: impl Fn(u32) -> u32,
    ) -> Option<Error> {
        let number = self.number;
        let mine = banks.said(banks.me(), number);
        if self.odd != NOBODY {
            let rank = rank_of(self.odd);
            return Some(disagreement(mine, banks.said(self.odd, number), rank, &place()));
        }
        self.sleeps = self.sleeps.saturating_add(1);
        if self.sleeps < LONG {
            return None;
        }
        let mine = mine?;
        for member in (0..banks.members()).filter(|&member| member != banks.me()) {
            // A member that gave up at a later operation has done its part of this one.
            if banks.has_given_up(member, number) {
                banks.give_up(number);
                return Some(lost(&place()));
            }
            let Some(theirs) = banks.said(member, number) else { continue };
            if theirs.turn != mine.turn {
                banks.give_up(number);
            }
            if theirs != mine {
                return Some(disagreement(Some(mine), Some(theirs), rank_of(member), &place()));
            }
        }
        None
    }
}

/// Notes that the operation `number` makes a persistent one, and is not an ordinary operation of that kind.
pub fn note_making(banks: &Banks, number: u32, said: &CallSignature) {
    banks.say(number, &CallSignature { agreed: !said.agreed, turn: 0, ..*said });
}

/// Returns an error if members have disagreed about operation `number` and none has reported it. The
/// operation is over here: it only required this member to send data.
#[cold]
pub fn unreported_mismatch(
    banks: &Banks,
    number: u32,
    place: impl Fn() -> String,
    rank_of: impl Fn(u32) -> u32,
) -> Option<Error> {
    let odd = banks.untold(number)?;
    banks.was_told(number);
    let (mine, theirs) = (banks.said(banks.me(), number), banks.said(odd, number));
    let error = disagreement(mine, theirs, rank_of(odd), &place());
    Some(Error::new(error.class, format!("in an earlier operation {}", error.message)))
}

/// Makes the error from the first difference between the signatures of two members.
fn disagreement(
    mine: Option<CallSignature>,
    theirs: Option<CallSignature>,
    member: u32,
    place: &str,
) -> Error {
    let (Some(mine), Some(theirs)) = (mine, theirs) else {
        let reason = format!("rank {member} of {place} does not call this operation with equal arguments");
        return Error::new(ErrorClass::Other, reason);
    };
    let (own, other) = (name(mine.kind), name(theirs.kind));
    if mine.kind != theirs.kind {
        let reason = format!(
            "this rank calls {own} where rank {member} of {place} calls {other}; all ranks must call the same \
             operations in the same order"
        );
        return Error::new(ErrorClass::Other, reason);
    }
    if mine.bytes != theirs.bytes {
        let (here, there) = (mine.bytes, theirs.bytes);
        let reason = format!(
            "{own} of {here} bytes at this rank, but of {there} bytes at rank {member} of {place}; the amounts of \
             data must be equal"
        );
        return Error::new(ErrorClass::Truncate, reason);
    }
    if mine.agreed != theirs.agreed && !is_rooted(mine.kind) {
        let reason = format!(
            "{own} is done by another algorithm at rank {member} of {place} than at this rank; settings and \
             info keys that choose algorithms must be equal"
        );
        return Error::new(ErrorClass::Other, reason);
    }
    if mine.agreed != theirs.agreed {
        let reason = format!("{own} has another root at rank {member} of {place} than at this rank");
        return Error::new(ErrorClass::Root, reason);
    }
    lost(place)
}

/// Makes the error of a communicator whose members have lost step.
#[cold]
fn lost(place: &str) -> Error {
    let reason = format!(
        "the members of {} have disagreed about a collective operation before, and lost step; use another one",
        place
    );
    Error::new(ErrorClass::Other, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: Shape, two: Shape, agree: bool) {
        assert_eq!(bank_signature(&one) == bank_signature(&two), agree, "{one:?} {two:?}");
        assert_eq!(bank_signature(&one).agreed == bank_signature(&two).agreed, agree, "{one:?} {two:?}");
    }

    #[test]
    fn operations_agree_where_mpi_asks_for_it() {
        use Collective as C;
        let shape = |collective, count| Shape::new(collective, 4, 0, count);
        let rooted = |root| Shape { root, ..shape(C::Bcast, 8) };
        check(rooted(0), Shape { rank: 3, ..rooted(0) }, true);
        check(rooted(0), rooted(1), false);
        check(shape(C::Bcast, 8), shape(C::Gather, 8), false);
        check(shape(C::Gatherv, 8), shape(C::Gatherv, 9), true);
        check(
            Shape { unit_bytes: 8, ..shape(C::Reduce, 2) },
            Shape { unit_bytes: 4, ..shape(C::Reduce, 4) },
            true,
        );
        for power in 0..60 {
            let bytes = 1 << power;
            check(shape(C::Bcast, bytes), shape(C::Bcast, bytes + 1), false);
            check(shape(C::Bcast, bytes), shape(C::Bcast, 2 * bytes), false);
        }
    }

    #[test]
    fn kinds_have_names() {
        for collective in Collective::ALL.into_iter().chain(Collective::OF_NEIGHBOURS) {
            assert_eq!(name(kind(collective)), collective.name());
        }
        assert_eq!(name(0), "another operation");
    }
}
