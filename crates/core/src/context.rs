//! Agreement on contexts without a central server (MPI-5 section 7.3, and DESIGN.md).
//!
//! Each process counts upwards and never uses a serial number twice. To make a communicator, its members
//! propose their next number and take the maximum of all. Several threads may do so for different
//! communicators at the same time. So each member then confirms that the number is free at its side, and
//! all retry if it is not free everywhere. Groups without a common member may use the same number, since no
//! message passes between them.
//!
//! Messages have space for 29 bits of the number, the context ([`Serial::context`]). So contexts repeat
//! after half a billion communicators. From then on a number is free only if no communicator has its
//! context, and no message of a former one is left under it.
//!
//! [`Agreement`] is the state machine of one process. Two rounds of a maximum over the members drive it.
//! The maximum is a blocking reduction, a non-blocking one, or an exchange of leaders.

use std::sync::{Mutex, PoisonError};

use tutti_base::ContextId;

use crate::lanes::Lane;

/// Serial number of a communicator, which none of its members has seen before. Messages carry its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serial(pub u64);

/// First number of communicators that programs make; those of MPI_COMM_WORLD and MPI_COMM_SELF are smaller.
const FIRST: u64 = 2;

impl Serial {
    /// Returns the context of the communicator with this number.
    pub fn context(self) -> ContextId {
        let Serial(number) = self;
        let limit = u64::from(ContextId::LIMIT);
        ContextId(if number < limit { number } else { FIRST + (number - FIRST) % (limit - FIRST) } as u32)
    }
}

/// Serial numbers of one process.
#[derive(Debug)]
pub struct Contexts {
    /// Smallest number that was never used in this process.
    next: u64,
}

/// An agreement in progress.
#[derive(Debug)]
pub struct Agreement {
    step: Step,
}

/// Round of the agreement.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Takes the maximum of the members' next numbers.
    Propose,
    /// Checks that this number is free at all members.
    Confirm(u64),
}

/// Next step of an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Take the maximum of this value over all members.
    Maximum(u64),
    /// The agreement is over with this number.
    Agreed(Serial),
}

impl Contexts {
    /// Returns the numbers of a process that has made no communicator. Contexts come again after `before_end`
    /// numbers, for tests; 0: after all of them.
    pub fn new(before_end: u64) -> Contexts {
        let limit = u64::from(ContextId::LIMIT);
        Contexts { next: if before_end == 0 { FIRST } else { limit.saturating_sub(before_end).max(FIRST) } }
    }

    /// Uses up a number. Returns false if it was used up before, or if its context is in use here
    /// (`is_left`).
    fn take(&mut self, number: u64, is_left: impl FnOnce(ContextId) -> bool) -> bool {
        let is_new = number >= self.next;
        self.next = self.next.max(number + 1);
        is_new && (number < u64::from(ContextId::LIMIT) || !is_left(Serial(number).context()))
    }
}

impl Agreement {
    /// Begins an agreement. Returns it with the first value of which to take the maximum.
    pub fn begin(contexts: &Contexts) -> (Agreement, u64) {
        (Agreement { step: Step::Propose }, contexts.next)
    }

    /// Continues with the maximum of all members. `is_left` returns true if a context is in use here, by a
    /// communicator or by messages. A round fails only for a communicator that is alive or being made, which
    /// bounds the number of rounds.
    pub fn advance(
        &mut self,
        contexts: &mut Contexts,
        maximum: u64,
        is_left: impl FnOnce(ContextId) -> bool,
    ) -> Next {
        match self.step {
            Step::Propose => {
                let free = contexts.take(maximum, is_left);
                self.step = Step::Confirm(maximum);
                Next::Maximum(u64::from(!free))
            }
            Step::Confirm(number) if maximum == 0 => Next::Agreed(Serial(number)),
            Step::Confirm(_) => {
                self.step = Step::Propose;
                Next::Maximum(contexts.next)
            }
        }
    }
}

/// Communicators without a handle, request or operation, whose messages can be discarded.
static GONE: Mutex<Vec<(ContextId, Lane)>> = Mutex::new(Vec::new());

/// Number of a live communicator. When it is dropped, the context is added to the list of [`take_gone`].
#[derive(Debug)]
pub struct LiveContext {
    /// Serial number of the communicator, unique among those of its group.
    pub serial: Serial,
    /// Lane of the communicator's messages.
    pub lane: Lane,
}

impl Drop for LiveContext {
    fn drop(&mut self) {
        let mut gone = GONE.lock().unwrap_or_else(PoisonError::into_inner);
        gone.push((self.serial.context(), self.lane));
    }
}

/// Returns the contexts of communicators that were dropped since the last call, and the lanes of their
/// messages.
pub fn take_gone() -> Vec<(ContextId, Lane)> {
    std::mem::take(&mut *GONE.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = ContextId::LIMIT as u64;

    /// Runs agreements over members (indices of processes), interleaved round by round. Each process has
    /// used up the numbers below its entry of `next`. Messages of the contexts in `left` remain.
    fn check(next: &[u64], groups: &[&[usize]], left: &[(usize, u32)], expected: &[u64]) {
        let mut contexts: Vec<Contexts> = next.iter().map(|next| Contexts { next: *next }).collect();
        let mut running: Vec<Vec<(Agreement, u64)>> = Vec::new();
        for group in groups {
            running.push(group.iter().map(|&p| Agreement::begin(&contexts[p])).collect());
        }
        let mut agreed: Vec<Option<u64>> = vec![None; groups.len()];
        for _round in 0..100 {
            for (index, group) in
                groups.iter().enumerate().filter(|(index, _)| agreed[*index].is_none()).collect::<Vec<_>>()
            {
                let maximum = running[index].iter().map(|(_, value)| *value).max().unwrap();
                for (place, &p) in group.iter().enumerate() {
                    let is_left = |context: ContextId| left.contains(&(p, context.0));
                    match running[index][place].0.advance(&mut contexts[p], maximum, is_left) {
                        Next::Maximum(value) => running[index][place].1 = value,
                        Next::Agreed(serial) => agreed[index] = Some(serial.0),
                    }
                }
            }
        }
        assert_eq!(agreed.iter().map(|a| a.unwrap()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn overlapping_groups_get_different_numbers() {
        check(&[2], &[&[0]], &[], &[2]);
        check(&[2, 3, 4], &[&[0, 1, 2]], &[], &[4]);
        check(&[2, 3, 4], &[&[0, 1], &[1, 2]], &[], &[3, 4]);
        check(&[2, 3], &[&[0, 1], &[0, 1], &[0, 1]], &[], &[3, 4, 5]);
        check(&[2, 3, 4, 5], &[&[0, 1], &[2, 3]], &[], &[3, 5]);
    }

    #[test]
    fn contexts_come_again_where_nothing_is_left_of_them() {
        let contexts = [1, 2, LIMIT - 1, LIMIT, LIMIT + 1, 2 * LIMIT - 3, 2 * LIMIT - 2];
        assert_eq!(
            contexts.map(|number| Serial(number).context().0),
            [1, 2, ContextId::LIMIT - 1, 2, 3, ContextId::LIMIT - 1, 2]
        );
        check(&[LIMIT - 1, 7], &[&[0, 1]], &[(0, ContextId::LIMIT - 1)], &[LIMIT - 1]);
        check(&[LIMIT, 7], &[&[0, 1]], &[], &[LIMIT]);
        check(&[LIMIT, 7], &[&[0, 1]], &[(1, 2), (0, 3)], &[LIMIT + 2]);
        check(&[Contexts::new(0).next, Contexts::new(3).next], &[&[0], &[1]], &[], &[2, LIMIT - 3]);
    }

    #[test]
    fn a_context_that_goes_is_on_the_list() {
        drop(LiveContext { serial: Serial(LIMIT + 77), lane: Lane::FIRST });
        assert!(take_gone().contains(&(ContextId(79), Lane::FIRST)));
    }
}
