//! Calls of the program that create children, share memory or discard it, where the memory is exposed, or was
//! until a fork.
//!
//! Exposed memory keeps all guarantees of the kernel for private memory. docs/exposed-memory.md lists every
//! call, its treatment, and the test. [`tutti_sys::calls`] redirects the calls here. Rules:
//!
//! - Calls that discard memory make it zero ([`private::discard`]).
//! - The kernel does some things to private memory only, or does them differently to shared memory (moving
//!   and growing, attributes). Such calls are given memory without a file ([`private::make_plain`]). Memory
//!   with such an attribute is not exposed ([`is_special`]).
//! - A call that creates a child with memory of its own is a fork ([`fork`]).
//!
//! # Safety
//! Ranges are those that the program has named in its call. Nothing is allocated.

#![allow(unsafe_code)]

use std::io;
use std::sync::{Mutex, Once, PoisonError, TryLockError};

use tutti_sys::calls::Hooks;
use tutti_sys::remap::{self, Effect, invalid, try_again};

use super::fork;
use super::private::{self, Meanwhile};

/// Ranges with attributes that are kept in mind; beside more of them nothing is exposed any more.
const RANGES: usize = 256;

/// Memory that the program has given an attribute which shared memory cannot have.
struct Special {
    ranges: [(u64, u64); RANGES],
    count: usize,
    /// Set once there were more ranges than room.
    is_all: bool,
}

static SPECIAL: Mutex<Special> = Mutex::new(Special { ranges: [(0, 0); RANGES], count: 0, is_all: false });

static HOOKS: Hooks = Hooks {
    fork: (fork::before, fork::parent, fork::child),
    advise,
    moves,
    changes,
    unlock,
    lock_all: private::lock_all,
    holds: |start, bytes| private::holds(start, start.saturating_add(bytes)),
};

/// Leads calls of the program here; without memory that is exposed (`shares`), only what finds drivers of
/// devices.
pub(super) fn install(shares: bool) {
    tutti_sys::calls::install(shares.then_some(&HOOKS));
}

/// Returns true if any of `start..end` has an attribute that it would lose if it were exposed.
pub(super) fn is_special(start: u64, end: u64) -> bool {
    learn();
    let special = SPECIAL.lock().unwrap_or_else(PoisonError::into_inner);
    special.is_all || special.ranges[..special.count].iter().any(|&(from, to)| from < end && start < to)
}

/// Finds what the program had given attributes before its calls were led here, once.
fn learn() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let found = tutti_sys::maps::special_areas();
        let mut special = SPECIAL.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(areas) => areas.into_iter().for_each(|(start, end)| special.add(start, end)),
            Err(_) => special.is_all = true,
        }
    });
}

impl Special {
    fn add(&mut self, start: u64, end: u64) {
        let near = |range: &&mut (u64, u64)| range.0 <= end && start <= range.1;
        if let Some(range) = self.ranges[..self.count].iter_mut().find(near) {
            *range = (range.0.min(start), range.1.max(end));
        } else if self.count < RANGES {
            self.ranges[self.count] = (start, end);
            self.count += 1;
        } else {
            self.is_all = true;
        }
    }

    /// Forgets ranges that lie in `start..end` as a whole.
    fn remove(&mut self, start: u64, end: u64) {
        let mut kept = 0;
        for index in 0..self.count {
            let range = self.ranges[index];
            if range.0 < start || end < range.1 {
                self.ranges[kept] = range;
                kept += 1;
            }
        }
        self.count = kept;
    }
}

/// Notes that `start..end` has an attribute from now on, or has it no more. Where another thread notes
/// something at the same time and is in the allocator, it gives up, and nothing is exposed any more.
fn note(start: u64, end: u64, has_attribute: bool) {
    const LOOKS: u32 = 1 << 16;
    for _ in 0..LOOKS {
        let mut special = match SPECIAL.try_lock() {
            Ok(special) => special,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::thread::yield_now();
                continue;
            }
        };
        if has_attribute {
            special.add(start, end)
        } else {
            special.remove(start, end)
        }
        return;
    }
}

/// Performs madvise as the program means it.
///
/// # Errors
/// The error of the system.
///
/// # Safety
/// As for madvise.
pub unsafe fn advise(start: u64, bytes: u64, advice: i32) -> io::Result<()> {
    // SAFETY: the caller's promise, here and below.
    let kernel = |start: u64, bytes: u64| unsafe { remap::advise(start, bytes, advice) };
    // Addresses that the kernel refuses are left to it.
    let Some((first, end)) = private::pages_of(start, bytes) else { return kernel(start, bytes) };
    match remap::effect_of(advice) {
        // The kernel does not take it for locked memory; nothing has to be done for it.
        Effect::None if remap::is_for_unlocked(advice) && private::holds(first, end) => Ok(()),
        Effect::None => kernel(start, bytes),
        Effect::Refused if private::holds(first, end) => Err(invalid()),
        Effect::Refused => kernel(start, bytes),
        // SAFETY: as above.
        Effect::Discard => match unsafe { private::discard(first, end - first, kernel) } {
            Ok(false) => kernel(start, bytes),
            other => other.map(|_| ()),
        },
        effect @ (Effect::Special | Effect::Ordinary) => {
            // SAFETY: as above.
            unsafe { changes(first, end - first)? };
            kernel(start, bytes)?;
            note(first, end, effect == Effect::Special);
            Ok(())
        }
    }
}

/// Makes memory one mapping of its own again, before it is moved, grown or shrunk.
unsafe fn moves(start: u64, bytes: u64) -> io::Result<()> {
    let Some((start, end)) = private::pages_of(start, bytes) else { return Ok(()) };
    if private::holds(start, end) {
        // SAFETY: a program that moves memory does not use it meanwhile, nor has it lent it.
        unsafe { private::make_plain(start, end, Meanwhile::Untouched) }
    } else {
        Ok(())
    }
}

/// Prepares memory for a call that gives it an attribute.
unsafe fn changes(start: u64, bytes: u64) -> io::Result<()> {
    let Some((start, end)) =
        private::pages_of(start, bytes).or_else(|| (bytes == u64::MAX).then_some((0, bytes)))
    else {
        return Ok(());
    };
    if !private::holds(start, end) {
        return Ok(());
    }
    // Peers may be storing there.
    if fork::GATE.has_loans() && private::holds_shared(start, end) {
        return Err(try_again());
    }
    // SAFETY: nobody else stores there. A thread of the program that does so in this moment may lose it:
    // attributes are given to memory before it is used.
    unsafe { private::make_plain(start, end, Meanwhile::Read) }
}

/// Handles munlock. Exposed memory stays locked, so that a discarding call which bypasses this library is
/// refused.
unsafe fn unlock(start: u64, bytes: u64) -> io::Result<()> {
    let kernel = |start: u64, end: u64| remap::unlock(start, end - start);
    let page = start / super::PAGE_BYTES * super::PAGE_BYTES;
    match private::pages_of(page, bytes.saturating_add(start - page)) {
        Some((first, end)) if private::holds(first, end) => private::around(first, end, kernel),
        _ => remap::unlock(start, bytes),
    }
}
