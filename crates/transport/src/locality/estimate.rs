//! Estimate of a distance, with the time for which it holds and the time of the next observation.

use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use super::CoreDistance;
use super::limits::{DUE_USES, FAR_VOTE, HELD_USES, MOST_VOTES};

/// Observed distance of peers. An update of another thread may get lost.
#[derive(Debug)]
pub struct Estimate {
    /// Number of uses since the last observation, bounded.
    uses: AtomicU16,
    /// Number of uses at which the next observation is due.
    due: AtomicU16,
    /// 0 if nothing is known; otherwise one more than the votes for far peers.
    votes: AtomicU8,
    most_votes: u8,
}

impl Estimate {
    /// Creates an estimate for peers that may be at several distances.
    pub const fn of_many() -> Estimate {
        Estimate::new(MOST_VOTES)
    }

    /// Creates an estimate for one peer: the last observation decides.
    pub const fn of_one() -> Estimate {
        Estimate::new(FAR_VOTE)
    }

    const fn new(most_votes: u8) -> Estimate {
        let (uses, due, votes) = (AtomicU16::new(0), AtomicU16::new(DUE_USES), AtomicU8::new(0));
        Estimate { uses, due, votes, most_votes }
    }

    /// Counts a use of the estimate.
    #[inline]
    pub fn used(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        self.uses.store(uses.saturating_add(1), Ordering::Relaxed);
    }

    /// Returns the distance if an estimate holds.
    #[inline]
    pub fn distance(&self) -> Option<CoreDistance> {
        let holds = self.uses.load(Ordering::Relaxed) < HELD_USES;
        let votes = self.votes.load(Ordering::Relaxed).checked_sub(1).filter(|_| holds)?;
        Some(if is_far(votes) { CoreDistance::Far } else { CoreDistance::Near })
    }

    /// Returns true if it is time for an observation.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.uses.load(Ordering::Relaxed) >= self.due.load(Ordering::Relaxed)
    }

    /// Notes an observation. `None` means that it failed; the next one is due after as many uses again.
    pub fn note(&self, distance: Option<CoreDistance>) {
        let uses = match distance {
            Some(distance) => {
                let before = self.votes.load(Ordering::Relaxed).saturating_sub(1);
                self.votes.store(voted(before, distance, self.most_votes) + 1, Ordering::Relaxed);
                0
            }
            // No more than that it does not hold any more.
            None => self.uses.load(Ordering::Relaxed).min(HELD_USES),
        };
        self.uses.store(uses, Ordering::Relaxed);
        self.due.store(uses + DUE_USES, Ordering::Relaxed);
    }
}

/// Returns the votes for far lines after one more, starting from 0. Where peers are at several distances, far
/// lines count for more.
pub(super) fn voted(far: u8, distance: CoreDistance, most: u8) -> u8 {
    match distance {
        CoreDistance::Near => far.saturating_sub(1),
        CoreDistance::Far => (far + FAR_VOTE).min(most),
    }
}

/// Returns true if these are enough.
#[inline]
pub(super) fn is_far(votes: u8) -> bool {
    votes >= FAR_VOTE
}

#[cfg(test)]
mod tests {
    use super::CoreDistance::{Far, Near};
    use super::*;

    /// Checks the conclusion from lines that came from these distances, each so many times.
    fn check_votes(lines: &[(CoreDistance, u32)], [of_many, of_one]: [bool; 2]) {
        for (most, expected) in [(MOST_VOTES, of_many), (FAR_VOTE, of_one)] {
            let each = lines.iter().flat_map(|&(line, times)| (0..times).map(move |_| line));
            assert_eq!(
                is_far(each.fold(0, |far, line| voted(far, line, most))),
                expected,
                "{lines:?} {most}"
            );
        }
    }

    #[test]
    fn peers_are_far_when_most_lines_say_so() {
        check_votes(&[], [false, false]);
        check_votes(&[(Far, 1)], [true, true]);
        check_votes(&[(Far, 1), (Near, 1)], [false, false]);
        check_votes(&[(Far, 1000), (Near, 2)], [true, false]);
        check_votes(&[(Far, 1000), (Near, 3)], [false, false]);
        check_votes(&[(Near, 1000), (Far, 1)], [true, true]);
    }

    #[test]
    fn after_some_copies_it_is_looked_how_far_readers_are() {
        let readers = Estimate::of_many();
        let copy = |count: u16| {
            (0..count).for_each(|_| readers.used());
            readers.is_due()
        };
        assert!(!copy(DUE_USES - 1) && copy(1));
        readers.note(None);
        assert!(!copy(DUE_USES - 1) && copy(1));
        assert_eq!(readers.distance(), None);
        for (came, expected) in [(Near, Near), (Far, Far), (Near, Near)] {
            readers.note(Some(came));
            assert_eq!(readers.distance(), Some(expected));
        }
        copy(HELD_USES - 1);
        assert_eq!(readers.distance(), Some(Near));
        assert!(copy(1));
        readers.note(None);
        assert_eq!((readers.distance(), copy(DUE_USES - 1), copy(u16::MAX)), (None, false, true));
        readers.note(Some(Far));
        assert_eq!((readers.distance(), copy(1)), (Some(Far), false));
    }
}
