//! Memory that distant peers have read is sent home to main memory before its owner writes it again.
//!
//! A line that a core of another last-level cache holds has to be taken back from it before it is written, one by one: a program that
//! writes 64 KiB afresh after it has lent them waits 30 us for that where it would take 6 (EPYC, cores of different
//! last-level caches; 8 and 6 within one). Such lines an owner writes back and drops when all peers are done with them, 5 us:
//! the program then fetches them from memory.
//!
//! It pays only where peers are far and the content changes from loan to loan. How far they are is no property that can be asked for:
//! a hypervisor moves processors about. So an owner that waits for its peers looks now and then how long the line takes by which one of them
//! says that it is done. That the content changes shows in some words of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tutti_sys::cache;
use tutti_sys::job::{Distance, Job};

use super::policy::{BUFFERS, place};

/// Shorter memory is not worth it; of longer one most has left the caches.
const BYTES: std::ops::RangeInclusive<u64> = (16 << 10)..=(4 << 20);
/// After so many loans it is looked again how far the peers are, so often at most: where ranks share processors, most of
/// those that are waited for are not running.
const LOANS: u32 = 16;
const LOOKS: u32 = 4;

/// Ticks of the clock that a line takes of a core that shares the last level of caches, at most; one of another core takes two to
/// four times as long. What takes longer than that was interrupted.
const NEAR_TICKS: u64 = 300;
const FAR_TICKS: u64 = 5000;

/// Votes of a far line, against one of a near one, and what makes far: one such line, or where both are found, a third of them.
const FAR_VOTE: u32 = 2;
const MOST_VOTES: u32 = 4;

/// Words of the content that are looked at.
const WORDS: u64 = 8;
/// So many changes in a row make it likely that it will be changed again.
const CHANGES: u32 = 2;

/// What an owner knows about the content of its buffers and the distance of its peers.
#[derive(Debug)]
pub(super) struct Homing {
    is_on: bool,
    loans: u32,
    /// So many looks, at most, are to find out how far the peers are.
    due_looks: u32,
    /// Of the ranks of a host all know what one has found: those that share processors find something rarely.
    job: Option<Arc<Job>>,
    /// Of a process without a job.
    own: Distance,
    seen: Box<[Seen; BUFFERS]>,
}

/// A buffer, what it held when it was lent last, and how often in a row that was something new.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    start: u64,
    bytes: u64,
    content: u64,
    changes: u32,
}

impl Homing {
    pub(super) fn new(is_on: bool) -> Homing {
        Homing {
            is_on: is_on && cache::can_drop_lines(),
            loans: 0,
            due_looks: 0,
            job: None,
            own: Distance::default(),
            seen: Box::new([Seen::default(); BUFFERS]),
        }
    }

    /// With the other ranks of a host.
    pub(super) fn of_job(self, job: Arc<Job>) -> Homing {
        Homing { job: Some(job), ..self }
    }

    /// Whether memory that is about to be lent is to be sent home afterwards. `word` reads of it.
    #[inline]
    pub(super) fn pays(&mut self, start: u64, bytes: u64, word: impl Fn(u64) -> u64) -> bool {
        if !self.is_on || !BYTES.contains(&bytes) {
            return false;
        }
        self.loans = self.loans.wrapping_add(1);
        if self.loans.is_multiple_of(LOANS) {
            self.due_looks = LOOKS;
        }
        is_far(self.distance().votes.load(Ordering::Relaxed)) && self.changes(start, bytes, word)
    }

    /// Whether the next wait for a peer is to find out how long the line takes.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due_looks > 0
    }

    /// A line came from the core of a peer that has just written it, and took so long; `None`: none came while it was
    /// looked for.
    pub(super) fn line_took(&mut self, ticks: Option<u64>) {
        self.due_looks = if ticks.is_some() { 0 } else { self.due_looks.saturating_sub(1) };
        let votes = &self.distance().votes;
        let before = votes.load(Ordering::Relaxed);
        let after = ticks.map_or(before, |ticks| voted(before, ticks));
        if after != before {
            votes.store(after, Ordering::Relaxed);
        }
    }

    fn distance(&self) -> &Distance {
        self.job.as_ref().map_or(&self.own, |job| &job.node().distance)
    }

    /// Whether the content is another one each time.
    fn changes(&mut self, start: u64, bytes: u64, word: impl Fn(u64) -> u64) -> bool {
        let apart = (bytes - size_of::<u64>() as u64) / (WORDS - 1);
        let content = (0..WORDS).fold(0, |sum: u64, at| {
            (sum.rotate_left(7) ^ word(at * apart)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let seen = &mut self.seen[place(start)];
        let is_it = seen.start == start && seen.bytes == bytes;
        let changes = if is_it && seen.content != content { seen.changes + 1 } else { 0 };
        *seen = Seen { start, bytes, content, changes: changes.min(CHANGES) };
        changes >= CHANGES
    }
}

/// The votes after a line took so long.
fn voted(far: u32, ticks: u64) -> u32 {
    match ticks {
        0..NEAR_TICKS => far.saturating_sub(1),
        NEAR_TICKS..FAR_TICKS => (far + FAR_VOTE).min(MOST_VOTES),
        _ => far,
    }
}

/// Whether these are enough.
fn is_far(votes: u32) -> bool {
    votes >= FAR_VOTE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is concluded from lines that took so long, each so often.
    fn check(lines: &[(u64, u32)], expected: bool) {
        let each = lines.iter().flat_map(|&(ticks, times)| (0..times).map(move |_| ticks));
        assert_eq!(is_far(each.fold(0, voted)), expected, "{lines:?}");
    }

    #[test]
    fn peers_are_far_when_most_lines_say_so() {
        check(&[], false);
        check(&[(450, 1)], true);
        check(&[(450, 1), (130, 1)], false);
        check(&[(450, 1000), (130, 2)], true);
        check(&[(450, 1000), (130, 3)], false);
        check(&[(130, 1000), (450, 1)], true);
        check(&[(60, 10), (10_000, 100)], false);
        check(&[(450, 8), (10_000, 100)], true);
    }

    /// Of loans of one buffer that hold these, which are to be sent home.
    fn check_loans(contents: &[u64], expected: &[bool]) {
        let mut homing = Homing::new(true);
        let got: Vec<bool> =
            contents.iter().map(|&content| homing.changes(4096, 65536, |at| content + at)).collect();
        assert_eq!(got, expected, "{contents:?}");
    }

    #[test]
    fn what_changes_each_time_is_sent_home() {
        check_loans(&[1, 2, 3, 4, 4, 5, 6, 7], &[false, false, true, true, false, false, true, true]);
        check_loans(&[1, 1, 1], &[false; 3]);
    }

    #[test]
    fn all_words_that_are_read_are_within_the_memory() {
        for bytes in [*BYTES.start(), *BYTES.start() + 1, 100_001, *BYTES.end()] {
            Homing::new(true).changes(0, bytes, |at| {
                assert!(at + 8 <= bytes);
                0
            });
        }
    }

    #[test]
    fn two_buffers_are_told_apart() {
        let mut homing = Homing::new(true);
        for content in 0..100 {
            let (first, second) =
                (homing.changes(4096, 65536, |_| content), homing.changes(4096, 32768, |_| content));
            assert!(!first && !second, "each takes the other's place");
        }
    }

    #[test]
    fn only_what_is_of_the_right_length_is_looked_at() {
        let mut homing = Homing::new(true);
        (0..MOST_VOTES).for_each(|_| homing.line_took(Some(NEAR_TICKS)));
        for bytes in [*BYTES.start() - 1, *BYTES.end() + 1] {
            assert!(!homing.pays(4096, bytes, |_| unreachable!("it is not looked at")));
        }
    }
}
