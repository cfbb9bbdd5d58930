//! Detection of programs that poll by synchronising with a window repeatedly.
//!
//! A flush, an unlock or MPI_Win_sync without outstanding operations has nothing to wait for and should take
//! a few nanoseconds. But programs also poll by such calls. They read a flag at another rank and flush, or
//! read their own memory between two locks, until another rank has written it. Such a loop must progress
//! messages, which may cause the awaited change. It must also yield the processor if other processes need it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Number of calls of a program that makes progress, of which one progresses messages.
const RARELY: u32 = 32;
/// Number of remembered reads for all windows, a power of two.
const READS: usize = 64;

/// Action of such a call before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Return without further action.
    Return,
    /// Progress messages, then return.
    Progress,
    /// Poll as test functions do ([`crate::progress::poll`]).
    Look,
}

/// History of the calls of a process at one window. Threads that call at the same time may overwrite each
/// other's notes.
#[derive(Debug)]
pub struct Polls {
    /// True if an access since the last call has written, or has read a new value.
    is_moved: AtomicBool,
    calls: AtomicU32,
    /// Number of calls of a polling program, of which one polls.
    every: u32,
}

/// Hashes of location and value of the latest reads of up to eight bytes.
static READ: [AtomicU64; READS] = [const { AtomicU64::new(0) }; READS];

impl Polls {
    /// Returns the history of a new window. `crowded` is true if other processes may need the processor.
    pub fn new(crowded: bool) -> Polls {
        Polls {
            is_moved: AtomicBool::new(false),
            calls: AtomicU32::new(0),
            every: if crowded { 1 } else { RARELY },
        }
    }

    /// Notes that a target's memory was written, or read in a way that is not polling.
    #[inline(always)]
    pub fn moved(&self) {
        self.is_moved.store(true, Ordering::Relaxed);
    }

    /// Notes that `word` was read; `place` identifies the location among all windows.
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

    /// Returns the next action of a call without anything to await.
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

    /// Checks how many of `calls` return at once, progress messages and poll, if `access` precedes each.
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
