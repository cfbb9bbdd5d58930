//! Decision when a rank moves to another processor, away from a rank with which it exchanges messages.
//!
//! Two ranks that answer each other on one processor need a context switch for each message. That takes ten
//! times as long as a message between two processors. The kernel does not separate them: one waits whenever
//! the other runs, so it sees only one runnable process. They may share the processor for their whole life.
//! The ranks can detect this themselves. A waiting rank finds that the other waits for the same processor
//! ([`tutti_sys::job::Doorbell::away_from`]), wait after wait in quick succession. Then one of the two moves
//! once. Afterwards the kernel schedules it freely again.
//!
//! The move is a guess, as other processes may compute on the new processor. So only ranks move that do
//! nothing but exchange messages. If a rank soon shares a processor with the same rank again, it moves more
//! and more rarely.

use tutti_base::traffic::TRAFFIC;
use tutti_sys::job::Doorbell;
use tutti_sys::{clock, cpu};
use tutti_transport::Paused;

use crate::lanes::{FirstLaneCell, LaneGuard};

/// Number of successive waits that find the other rank on the same processor before a rank moves.
const TOGETHER: u32 = 16;
/// Maximum time of each such wait for each rank of the host: a context switch and a message. If it takes
/// longer, ranks also compute between their messages. Then a move next to a computing process would lose more
/// than it wins.
const TURN_NS: u64 = 8_000;
/// Time in nanoseconds without a common processor after which a move counts as useful.
const WORTH_NS: u64 = 2_000_000;
/// Shortest and longest time between two moves.
const SHORTEST_NS: u64 = 1_000_000;
const LONGEST_NS: u64 = 1_000_000_000;

/// Length in bytes of the longest message for which ranks move. A longer one takes more time to copy than a
/// context switch does. Its copy out of a ring is faster on the processor whose caches still have it.
const SHORT_BYTES: u64 = 4096;

/// State of a process for its decisions to move.
#[derive(Debug, Default)]
pub struct Separation {
    /// Number of successive waits that found the other on the same processor, and the time of the first of
    /// them.
    together: u32,
    since_ns: u64,
    /// Time of the last move, and the time that must pass before the next one.
    moved_ns: u64,
    pause_ns: u64,
    /// Time at which the two first shared a processor after the move.
    met_ns: Option<u64>,
}

impl Separation {
    /// Notes a wait that has yielded its processor. `together` is true if the awaited rank got it, among
    /// others. `ranks` is their number on the host. Returns true if this rank must move now. The clock is
    /// read rarely.
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

/// Rank of this host, for which a wait of this process waits.
#[derive(Clone, Copy, Debug)]
pub struct Counterpart<'a> {
    doorbell: &'a Doorbell,
    moves: bool,
}

impl Counterpart<'_> {
    /// Returns the rank with this doorbell. `moves` is true if this process is the one of the two that moves.
    pub fn new(doorbell: &Doorbell, moves: bool) -> Counterpart<'_> {
        Counterpart { doorbell, moves }
    }

    /// Returns the counterpart for a message of `bytes` bytes. For long messages this process does not move.
    pub fn for_message(self, bytes: u64) -> Self {
        Counterpart { moves: self.moves && bytes <= SHORT_BYTES, ..self }
    }

    /// Returns true if it waits without a processor. This is a hint from its doorbell.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.doorbell.is_away()
    }

    /// Moves to another processor if the two share this one.
    fn part(&self, held: &LaneGuard, (apart, ranks): (&FirstLaneCell<Separation>, u32)) {
        if !self.moves {
            return;
        }
        let together = self.doorbell.away_from().is_some_and(|processor| cpu::current() == Some(processor));
        let due = apart.borrow_mut(held).waited(together, ranks, clock::now_ns);
        // If the system refuses, the rank stays where it is.
        if due && cpu::move_elsewhere().unwrap_or(false) {
            TRAFFIC.moves.add(1);
        }
    }
}

/// Handles the pause of a wait for `other`, which is taken if the wait has yielded its processor. Moves this
/// process if the two share a processor. `own` has the state of this process, and the number of ranks of the
/// host.
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

    /// Checks the number of moves of one of four processes in `waits` waits, one every `step_us`. `together`
    /// returns whether a wait finds the other process on the same processor. Its arguments are the number of
    /// moves so far and the microseconds since the last one.
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
