//! Copies between the memory of processes: to an own bank that others read, and to the memory of a peer.
//!
//! Either way lines are written that another core has read, and have to be taken back from it first. How long that takes changes
//! without a word where a hypervisor moves processors about: 64 KiB take 6 us between cores that share a cache and 30 between
//! others. Stores past the caches wait for no line, but then the reader has to go to memory. So a process looks at how
//! long its copies take, and passes the caches by for a while after a slow one.
//!
//! How long a short copy takes says nothing: it is written into the processor's own buffers, and those wait for the lines who read it. So
//! a process that waits for a flag after a number of copies to its banks looks how far that came from ([`tutti_transport::line`]): allreduce of
//! 4 KiB takes 0.7 us between near cores and past the caches 1.35, one of 2 KiB between far cores 1.45 and past the caches 0.95.
//!
//! # Safety
//! Callers promise that both sides are valid for so many bytes and disjoint.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use tutti_data::copy::copy_streaming;
use tutti_sys::clock;
use tutti_transport::line::{self, Line};

use crate::p2p::store_mode::StoreMode;

/// Copies to a bank from here on go past the caches towards far cores: lines that this core has written would come to them one by one,
/// and have to be taken back from them for the next operation.
const FAR_BYTES: usize = 257;
/// And from here on while it is not known how far they are.
const UNKNOWN_BYTES: usize = 4 << 10;
/// Copies of [`FAR_BYTES`] and more after which it is looked how far others are.
const COPIES: u16 = 64;
/// Copies for which it holds.
const HOLDS: u16 = 2048;

/// These are looked at: where the cores are near and the lines have left the reader's cache, as those of a bank that moves about
/// have ([`tutti_transport::banks::Banks::spread`]), the way through the caches is the shorter one.
const TIMED_BYTES: usize = (8 << 10) + 1;
/// And these take longer through the caches in any case: 64 KiB by reduce 5.4 us and past them 4.8.
const LONG_BYTES: usize = 32 << 10;
/// Slow: so many bytes, or fewer, a tick of the clock. Past the caches it is about as many.
const SLOW_BYTES: u64 = 4;

/// Copies to a peer's memory are looked at from here on: it stays where it is, and its owner has read it since the last one.
const PEER_BYTES: usize = 4 << 10;
/// Slow among these. Between near cores two to four bytes a tick, between far ones less than one.
const PEER_SLOW_BYTES: u64 = 1;

/// Copies; short lengths without a call.
///
/// # Safety
/// See the module.
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            8 => into.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            4 => into.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => std::ptr::copy_nonoverlapping(from, into, bytes),
        }
    }
}

/// Copies to the own bank.
///
/// # Safety
/// See the module.
#[inline(always)]
pub(crate) unsafe fn copy_to_bank(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            0..FAR_BYTES => copy(from, into, bytes),
            _ => copy_long_to_bank(from, into, bytes),
        }
    }
}

/// # Safety
/// See the module.
unsafe fn copy_long_to_bank(from: *const u8, into: *mut u8, bytes: usize) {
    static STREAMED: AtomicU16 = AtomicU16::new(0);
    READERS.count();
    // SAFETY: the caller's promise.
    unsafe {
        match way_to_bank(bytes, READERS.line()) {
            Way::Cached => copy(from, into, bytes),
            Way::Timed => copy_timed(from, into, bytes, SLOW_BYTES, &STREAMED),
            Way::PastCaches => copy_streaming(from, into, bytes),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Cached,
    /// Whichever was the better one of late.
    Timed,
    PastCaches,
}

/// How to copy so much to a bank which those read that a line came from.
fn way_to_bank(bytes: usize, line: Option<Line>) -> Way {
    match (bytes, line) {
        (..FAR_BYTES, _) | (..UNKNOWN_BYTES, None) | (..TIMED_BYTES, Some(Line::Near)) => Way::Cached,
        (TIMED_BYTES..LONG_BYTES, None | Some(Line::Near)) => Way::Timed,
        _ => Way::PastCaches,
    }
}

/// What this process knows about those who read its banks. Another thread's knowledge may get lost.
struct Readers {
    /// Copies since one was found, bounded.
    copies: AtomicU16,
    /// With how many it is time to look.
    due: AtomicU16,
    /// 0: nothing is known. Else one more than the votes for far ones.
    votes: AtomicU8,
}

static READERS: Readers = Readers::new();

impl Readers {
    const fn new() -> Readers {
        Readers { copies: AtomicU16::new(0), due: AtomicU16::new(COPIES), votes: AtomicU8::new(0) }
    }

    #[inline]
    fn count(&self) {
        let copies = self.copies.load(Ordering::Relaxed);
        self.copies.store(copies.saturating_add(1), Ordering::Relaxed);
    }

    #[inline]
    fn line(&self) -> Option<Line> {
        let holds = self.copies.load(Ordering::Relaxed) < HOLDS;
        let votes = self.votes.load(Ordering::Relaxed).checked_sub(1).filter(|_| holds)?;
        Some(if line::is_far(votes.into()) { Line::Far } else { Line::Near })
    }

    #[inline]
    fn wants_look(&self) -> bool {
        self.copies.load(Ordering::Relaxed) >= self.due.load(Ordering::Relaxed)
    }

    fn looked(&self, line: Option<Line>) {
        let copies = match line {
            Some(line) => {
                let before = self.votes.load(Ordering::Relaxed).saturating_sub(1);
                self.votes.store(line::voted(before.into(), line) as u8 + 1, Ordering::Relaxed);
                0
            }
            // No more than that it does not hold any more.
            None => self.copies.load(Ordering::Relaxed).min(HOLDS),
        };
        self.copies.store(copies, Ordering::Relaxed);
        self.due.store(copies + COPIES, Ordering::Relaxed);
    }
}

/// Whether the next wait for a flag is to look how far it came from ([`note_readers`]).
#[inline]
pub(crate) fn wants_look() -> bool {
    READERS.wants_look()
}

/// A flag came from there; `None`: it did not come while it was looked for.
pub(crate) fn note_readers(line: Option<Line>) {
    READERS.looked(line);
}

/// Copies to the memory of a peer, who reads it when the operation is over.
///
/// # Safety
/// See the module.
pub(crate) unsafe fn copy_to_peer(from: *const u8, into: *mut u8, bytes: usize) {
    static STREAMED: AtomicU16 = AtomicU16::new(0);
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            0..PEER_BYTES => copy(from, into, bytes),
            _ => copy_timed(from, into, bytes, PEER_SLOW_BYTES, &STREAMED),
        }
    }
}

/// In the way that is the better one at present: `slow_bytes` a tick, or fewer, are slow; `streamed` is what the process
/// knows of such copies. Another thread's knowledge may get lost.
///
/// # Safety
/// See the module.
unsafe fn copy_timed(from: *const u8, into: *mut u8, bytes: usize, slow_bytes: u64, streamed: &AtomicU16) {
    let mut pace = StoreMode::still(streamed.load(Ordering::Relaxed));
    // SAFETY: the caller's promise.
    unsafe {
        if pace.passes_by() {
            copy_streaming(from, into, bytes);
        } else {
            let begun = clock::ticks();
            std::ptr::copy_nonoverlapping(from, into, bytes);
            pace.took(clock::ticks().wrapping_sub(begun), bytes as u64 / slow_bytes);
        }
    }
    streamed.store(pace.streamed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: usize, expected: [Way; 3]) {
        let lines = [None, Some(Line::Near), Some(Line::Far)];
        assert_eq!(lines.map(|line| way_to_bank(bytes, line)), expected, "{bytes}");
    }

    #[test]
    fn what_far_cores_read_passes_the_caches_by() {
        use Way::{Cached, PastCaches, Timed};
        check(256, [Cached; 3]);
        check(257, [Cached, Cached, PastCaches]);
        check(4095, [Cached, Cached, PastCaches]);
        check(4096, [PastCaches, Cached, PastCaches]);
        check(8192, [PastCaches, Cached, PastCaches]);
        check(8193, [Timed, Timed, PastCaches]);
        check(32 << 10, [PastCaches; 3]);
    }

    #[test]
    fn after_some_copies_it_is_looked_how_far_readers_are() {
        let readers = Readers::new();
        let copy = |count: u16| {
            (0..count).for_each(|_| readers.count());
            readers.wants_look()
        };
        assert!(!copy(COPIES - 1) && copy(1));
        readers.looked(None);
        assert!(!copy(COPIES - 1) && copy(1));
        assert_eq!(readers.line(), None);
        for (came, expected) in [(Line::Near, Line::Near), (Line::Far, Line::Far), (Line::Near, Line::Near)] {
            readers.looked(Some(came));
            assert_eq!(readers.line(), Some(expected));
        }
        copy(HOLDS - 1);
        assert_eq!(readers.line(), Some(Line::Near));
        assert!(copy(1));
        readers.looked(None);
        assert_eq!((readers.line(), copy(COPIES - 1), copy(u16::MAX)), (None, false, true));
        readers.looked(Some(Line::Far));
        assert_eq!((readers.line(), copy(1)), (Some(Line::Far), false));
    }
}
