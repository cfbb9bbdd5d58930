//! Whether a program waits for something by synchronising with a window again and again.
//!
//! A flush, an unlock or MPI_Win_sync with nothing outstanding waits for nobody and should cost some
//! nanoseconds. But programs wait by such calls too: they read a flag at another rank and flush, or look at
//! their own memory between two locks, until somebody has written there. A loop like that has to move
//! messages, by which may come what it waits for, and to give the processor away where others want it. A
//! program that between two calls writes something, or reads what it has not just read there, gets on with
//! its work; it moves messages now and then only, for those who ask this process for something.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// So many calls of a program that gets on move messages once.
const RARELY: u32 = 32;
/// Reads that are kept in mind, of all windows; a power of two.
const READS: usize = 64;

/// What such a call does before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Return,
    /// Moves messages.
    Progress,
    /// Looks, as functions do with which programs poll ([`crate::progress::poll`]).
    Look,
}

/// What is known of the calls of a process at one window. Threads that call at once may lose one of each
/// other's notes.
#[derive(Debug)]
pub struct Polls {
    /// An access since the last call has written something, or has read something new.
    is_moved: AtomicBool,
    calls: AtomicU32,
    /// So many calls of a program that polls look once.
    every: u32,
}

/// What was read last of some items of up to eight bytes: where and what, mixed.
static READ: [AtomicU64; READS] = [const { AtomicU64::new(0) }; READS];

impl Polls {
    /// Of a window of which nothing was asked so far; `crowded`: others may want the processor.
    pub fn new(crowded: bool) -> Polls {
        Polls {
            is_moved: AtomicBool::new(false),
            calls: AtomicU32::new(0),
            every: if crowded { 1 } else { RARELY },
        }
    }

    /// Memory of a target was written, or read in a way that is no poll.
    #[inline(always)]
    pub fn moved(&self) {
        self.is_moved.store(true, Ordering::Relaxed);
    }

    /// A `word` was read at the place that `place` stands for among all windows.
    #[inline(always)]
    pub fn read(&self, place: u64, word: u64) {
        const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
        let spread = place.wrapping_mul(MIX);
        let read = &READ[(spread >> 58) as usize];
        let what = (spread ^ word).wrapping_mul(MIX);
        if read.load(Ordering::Relaxed) != what {
            read.store(what, Ordering::Relaxed);
            self.moved();
        }
    }

    /// A call is about to return that had nothing to wait for.
    #[inline(always)]
    pub fn next(&self) -> Then {
        let is_moved = self.is_moved.load(Ordering::Relaxed);
        self.is_moved.store(false, Ordering::Relaxed);
        let calls = self.calls.load(Ordering::Relaxed) + 1;
        let (every, then) = if is_moved { (RARELY, Then::Progress) } else { (self.every, Then::Look) };
        let is_due = calls >= every;
        self.calls.store(if is_due { 0 } else { calls }, Ordering::Relaxed);
        if is_due { then } else { Then::Return }
    }
}

const _: () = assert!(READS == 1 << (64 - 58));

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `calls` return at once, move messages and look, if `access` comes before each.
    fn check(crowded: bool, calls: u64, access: impl Fn(&Polls, u64), expected: [usize; 3]) {
        let polls = Polls::new(crowded);
        let mut count = [0; 3];
        for call in 0..calls {
            access(&polls, call);
            count[polls.next() as usize] += 1;
        }
        assert_eq!(count, expected);
    }

    #[test]
    fn who_writes_gets_on() {
        check(true, 320, |polls, _| polls.moved(), [310, 10, 0]);
        check(false, 320, |polls, _| polls.moved(), [310, 10, 0]);
    }

    #[test]
    fn who_reads_something_new_gets_on() {
        check(true, 320, |polls, call| polls.read(1 << 40, call), [310, 10, 0]);
        check(true, 320, |polls, call| polls.read(2 << 40 | call, 7), [310, 10, 0]);
    }

    #[test]
    fn who_reads_the_same_or_nothing_polls() {
        // The first one finds something new.
        check(true, 321, |polls, _| polls.read(3 << 40, 7), [1, 0, 320]);
        check(true, 320, |_, _| (), [0, 0, 320]);
        check(false, 320, |_, _| (), [310, 0, 10]);
        // In turn at the flags of several ranks.
        check(true, 16, |polls, call| (4..8).for_each(|rank| polls.read(rank << 40, call / 16)), [1, 0, 15]);
    }
}
