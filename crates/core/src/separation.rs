//! When a rank moves to another processor, away from the one it exchanges messages with.
//!
//! Two ranks that answer each other on one processor pay a switch between processes for each message, ten times what a message
//! costs between two processors. The kernel does not part them: since one waits whenever the other runs, it sees no more than one that
//! wants the processor, and so they may lie there for as long as they live. They can see it themselves: who waits finds the other
//! one waiting for the same processor ([`tutti_sys::job::Doorbell::away_from`]), wait after wait in quick succession. Then one of the two
//! moves once; afterwards the kernel has its freedom again.
//!
//! This is a guess, for where it moves to others may compute. So only those move that do nothing but exchange messages; and who
//! finds itself beside the same one again soon moves ever more seldom.

use tutti_base::traffic::TRAFFIC;
use tutti_sys::job::Doorbell;
use tutti_sys::{clock, cpu};
use tutti_transport::Paused;

use crate::lanes::{FirstLaneCell, LaneGuard};

/// So many waits in a row find the other one on the same processor before a rank moves.
const TOGETHER: u32 = 16;
/// Longest time that each of them takes for each rank of the host: a switch between processes and a message. With more, ranks also
/// compute between their messages. Then there is more to lose beside one that computes than to win here.
const TURN_NS: u64 = 8_000;
/// A move was worth it if the two did not meet again for so long.
const WORTH_NS: u64 = 2_000_000;
/// Shortest and longest time between two moves.
const SHORTEST_NS: u64 = 1_000_000;
const LONGEST_NS: u64 = 1_000_000_000;

/// Longest message for which ranks move. What is longer takes more time to copy than a switch between processes does, and is copied out of
/// a ring sooner on the processor whose caches still have it.
const SHORT_BYTES: u64 = 4096;

/// What a process knows about those it waits for.
#[derive(Debug, Default)]
pub struct Separation {
    /// Waits in a row that found the other one on the same processor, and when the first of them was.
    together: u32,
    since_ns: u64,
    /// When it moved last, and how long it moves no more after that.
    moved_ns: u64,
    pause_ns: u64,
    /// When the two met again after that.
    met_ns: Option<u64>,
}

impl Separation {
    /// A wait has given its processor away; `together`: to the one it waits for, among others. Whether to move now. `ranks`: those of
    /// the host. The time is asked rarely.
    pub fn waited(&mut self, together: bool, ranks: u32, now_ns: impl Fn() -> u64) -> bool {
        if !together {
            self.together = 0;
            return false;
        }
        self.together += 1;
        if self.together == 1 {
            self.since_ns = now_ns();
            return false;
        }
        if self.together < TOGETHER {
            return false;
        }
        self.together = 0;
        let now = now_ns();
        if now - self.since_ns > u64::from(TOGETHER * ranks) * TURN_NS {
            return false;
        }
        let met = *self.met_ns.get_or_insert(self.since_ns);
        if now < self.moved_ns + self.pause_ns {
            return false;
        }
        let was_worth = met >= self.moved_ns + WORTH_NS;
        self.pause_ns =
            if was_worth { SHORTEST_NS } else { (2 * self.pause_ns).clamp(SHORTEST_NS, LONGEST_NS) };
        (self.moved_ns, self.met_ns) = (now, None);
        true
    }
}

/// Another rank of this host whom a wait is for.
#[derive(Clone, Copy, Debug)]
pub struct Counterpart<'a> {
    doorbell: &'a Doorbell,
    moves: bool,
}

impl Counterpart<'_> {
    /// The rank with this doorbell. `moves`: whether it is this process that moves if both lie on one processor; one of the two.
    pub fn new(doorbell: &Doorbell, moves: bool) -> Counterpart<'_> {
        Counterpart { doorbell, moves }
    }

    /// The same for a message of so many bytes.
    pub fn for_message(self, bytes: u64) -> Self {
        Counterpart { moves: self.moves && bytes <= SHORT_BYTES, ..self }
    }

    /// Whether it waits without a processor, as far as it says itself: a hint.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.doorbell.is_away()
    }

    /// Moves to another processor if the two are in each other's way on this one.
    fn part(&self, held: &LaneGuard, (apart, ranks): (&FirstLaneCell<Separation>, u32)) {
        if !self.moves {
            return;
        }
        let together = self.doorbell.away_from().is_some_and(|processor| cpu::current() == Some(processor));
        let due = apart.borrow_mut(held).waited(together, ranks, clock::now_ns);
        // Where this is refused ranks stay where they are.
        if due && cpu::move_elsewhere().unwrap_or(false) {
            TRAFFIC.moves.add(1);
        }
    }
}

/// After a pause of a wait for `other`, which is taken once the wait has given its processor away: moves if that is in the way. `own`: what
/// this process knows, and the number of ranks of the host.
#[inline]
pub fn after(
    paused: Paused,
    other: &mut Option<Counterpart<'_>>,
    held: &LaneGuard,
    own: (&FirstLaneCell<Separation>, u32),
) {
    if paused == Paused::Yielded
        && let Some(other) = other.take()
    {
        other.part(held, own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often one of four processes moves in so many waits, which come each `step_us`, if it finds the other one as `together` says: given
    /// the number of moves so far and the microseconds since the last one.
    fn check(waits: u64, step_us: u64, together: impl Fn(u32, u64) -> bool, expected: u32) {
        let (mut apart, mut moves, mut last_us) = (Separation::default(), 0, 0);
        for wait in 0..waits {
            let now_us = 1_000_000 + wait * step_us;
            if apart.waited(together(moves, now_us - last_us), 4, || now_us * 1000) {
                (moves, last_us) = (moves + 1, now_us);
            }
        }
        assert_eq!(moves, expected, "{waits} waits, one each {step_us} us");
    }

    #[test]
    fn who_meets_the_other_wait_after_wait_moves_once() {
        check(15, 10, |_, _| true, 0);
        check(1000, 10, |moves, _| moves == 0, 1);
    }

    #[test]
    fn who_computes_between_waits_stays() {
        check(1000, 40, |_, _| true, 0);
    }

    #[test]
    fn moves_that_help_are_repeated_and_others_soon_are_not() {
        // Each lasts for 3 ms: some 30 in 100 ms.
        check(10_000, 10, |_, since_us| since_us > 3000, 32);
        // None helps: after 0, 1, 2, 4 .. 64 ms.
        check(10_000, 10, |_, _| true, 7);
        // At last one a second.
        check(1_000_000, 10, |_, _| true, 11 + 8);
    }
}
