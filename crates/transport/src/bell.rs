//! Waking a process that sleeps: the handshake over the two words of a doorbell.
//!
//! The sleeper announces itself, looks once more for work, then sleeps on the futex. A waker that
//! made work for it loads one word. Only if a sleeper is announced does it change the futex and call the
//! kernel, once for each announcement.
//!
//! A complete handshake needs a full fence on both sides: otherwise a waker's load may pass its earlier
//! store, and waker and sleeper miss one another. On the waker's side that fence would wait for the stores of
//! the very message to leave the processor, with every message. The waker therefore has no fence: the
//! sleeper, which has time, looks a second time once those stores must have arrived (a store stays in a store
//! buffer for well under a microsecond; see [`Bell::announce`] and `wait`), and sleeps with a time limit in
//! any case. Both variants are in the loom test.
//!
//! `sleeping` holds the number of threads that sleep in its low byte and above it how often they were woken.
//! The waker that takes the number to zero rings; the others need not.
//!
//! A thread that may have to wake many (a flag that many await) would load a word of each. So sleepers are
//! also counted for the whole node: a waker that finds nobody counted is done. That word is written where the
//! bell's is, and read like it, so the same argument holds for both.

use tutti_base::sync::{AtomicU32, Ordering, fence};
use tutti_sys::job::Doorbell;

const SLEEPERS: u32 = Doorbell::SLEEPERS;
const ONE_ROUND: u32 = 0x100;
/// Mark of a sleeper that waits for descriptors, beside the round of its announcement.
const POLLS: u32 = 1;

/// Means by which the sleepers of a bell are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakes {
    /// Some wait on the futex.
    pub futex: bool,
    /// One waits for descriptors.
    pub descriptor: bool,
}

/// The words of one doorbell.
#[derive(Clone, Copy, Debug)]
pub struct Bell<'a> {
    /// Number of sleepers in the low byte, number of wake-ups above.
    pub sleeping: &'a AtomicU32,
    /// Futex word on which sleepers wait.
    pub futex: &'a AtomicU32,
    /// Nonzero if a sleeper waits for descriptors instead: the round of its announcement, and a one.
    pub polled: &'a AtomicU32,
}

/// Proof that a thread has announced that it is about to sleep.
#[derive(Debug)]
pub struct Announced<'a> {
    parked: &'a AtomicU32,
    round: u32,
    /// Futex value to sleep on; a changed value ends the sleep.
    pub ticket: u32,
}

impl Bell<'_> {
    /// Announces that the calling thread is about to sleep. It is counted here and in `parked`, which wakers
    /// of many read first. Afterwards the thread must look for work once more, and a moment later again.
    #[must_use]
    pub fn announce<'a>(&self, parked: &'a AtomicU32) -> Announced<'a> {
        let ticket = self.futex.load(Ordering::Acquire);
        let before = self.sleeping.fetch_add(1, Ordering::SeqCst);
        debug_assert!(before & SLEEPERS < SLEEPERS, "more than 254 threads of a process sleep");
        parked.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Announced { parked, round: before & !SLEEPERS, ticket }
    }

    /// Ends an announcement, however the sleep ended.
    pub fn withdraw(&self, announced: Announced<'_>) {
        announced.parked.fetch_sub(1, Ordering::Relaxed);
        let mut now = self.sleeping.load(Ordering::Relaxed);
        // A bounded loop: each failure means that another thread announced, withdrew or rang.
        while now & !SLEEPERS == announced.round && now & SLEEPERS != 0 {
            match self.sleeping.compare_exchange(now, now - 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }

    /// Says that the announced thread sleeps on descriptors, of which ringing makes one ready, until
    /// [`Bell::polls_no_more`]. False if another thread does so already, or if somebody rang meanwhile: then
    /// it must not.
    #[must_use]
    pub fn polls(&self, announced: &Announced<'_>) -> bool {
        let mark = announced.round | POLLS;
        if self.polled.compare_exchange(0, mark, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        fence(Ordering::SeqCst);
        let quiet = self.futex.load(Ordering::Acquire) == announced.ticket;
        if !quiet {
            self.polls_no_more();
        }
        quiet
    }

    /// Ends what [`Bell::polls`] began.
    pub fn polls_no_more(&self) {
        self.polled.store(0, Ordering::Release);
    }

    /// Wakes whoever sleeps, by `wake`. Call after publishing what they wait for. One load if nobody sleeps.
    #[inline]
    pub fn ring(&self, wake: impl FnOnce(&AtomicU32, Wakes)) {
        // The compiler must not do what the processor is allowed to: move the load before the stores.
        #[cfg(not(loom))]
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) & SLEEPERS != 0 {
            self.ring_now(wake);
        }
    }

    #[cold]
    #[inline(never)]
    fn ring_now(&self, wake: impl FnOnce(&AtomicU32, Wakes)) {
        let mut now = self.sleeping.load(Ordering::Relaxed);
        while now & SLEEPERS != 0 {
            let next = (now & !SLEEPERS).wrapping_add(ONE_ROUND);
            match self.sleeping.compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.futex.fetch_add(1, Ordering::Release);
                    fence(Ordering::SeqCst);
                    let polled = self.polled.load(Ordering::Relaxed);
                    // The one sleeper of this round is the one that polls. If it only begins to, it sees the
                    // changed futex and does not sleep.
                    let is_alone = now & SLEEPERS == 1 && polled == now & !SLEEPERS | POLLS;
                    return wake(self.futex, Wakes { futex: !is_alone, descriptor: polled != 0 });
                }
                Err(other) => now = other,
            }
        }
    }
}
