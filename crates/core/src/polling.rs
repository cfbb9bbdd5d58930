//! What a program that polls (MPI_Test, MPI_Iprobe in a loop) leaves to others.
//!
//! A look that finds nothing is no wait: the program may have other work. But most loops have none, and where others want the
//! processor what they look for is often theirs to do. So after some looks in vain each gives the processor away. That can be
//! in vain too: the kernel may hand it to the next thread that polls, of this process or another, and leave one that has work
//! waiting for seconds (seen with eight threads in MPI_Improbe, whose counterpart was in another scheduling group). So whoever has
//! done nothing but look for some milliseconds sleeps for a moment between looks, which is little against what it has waited.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Looks in vain after which the processor is given away.
const PATIENCE: u32 = 16;
/// Who finds so much time between two looks does something else there, or others run.
const BETWEEN_NS: u64 = 250_000;
/// After so long with nothing but looks.
const TIRED_NS: u64 = 5_000_000;
/// Sleep between two looks; with what the kernel's timers add, less than would count as something else.
const NAP: Duration = Duration::from_micros(25);

/// What to do before the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing.
    Stay,
    /// Let others run.
    Yield,
    /// Sleep so long.
    Sleep(Duration),
}

/// The looks in vain of a process, whichever thread makes them.
#[derive(Debug, Default)]
pub struct Polling {
    in_vain: AtomicU32,
    /// Since when there was nothing but looks.
    since_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl Polling {
    /// A process that has not looked.
    pub const fn new() -> Polling {
        Polling { in_vain: AtomicU32::new(0), since_ns: AtomicU64::new(0), last_ns: AtomicU64::new(0) }
    }

    /// A look found something.
    #[inline]
    pub fn found(&self) {
        self.in_vain.store(0, Ordering::Relaxed);
    }

    /// A look found nothing; others may want the processor if it is `crowded`. `now_ns` is asked only if that matters.
    #[inline]
    pub fn in_vain(&self, crowded: bool, now_ns: impl FnOnce() -> u64) -> Turn {
        let in_vain = self.in_vain.load(Ordering::Relaxed).saturating_add(1);
        self.in_vain.store(in_vain, Ordering::Relaxed);
        if !crowded || in_vain <= PATIENCE {
            return Turn::Stay;
        }
        let now_ns = now_ns();
        let last_ns = self.last_ns.swap(now_ns, Ordering::Relaxed);
        if now_ns.saturating_sub(last_ns) > BETWEEN_NS || in_vain == PATIENCE + 1 {
            self.since_ns.store(now_ns, Ordering::Relaxed);
        }
        if now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed)) < TIRED_NS {
            return Turn::Yield;
        }
        Turn::Sleep(NAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `looks` in vain, each so long after the last one; how many of them gave the processor away, and how many slept.
    fn check(polling: &Polling, crowded: bool, looks: u64, apart_ns: u64, expected: (u64, u64)) {
        let start_ns = polling.last_ns.load(Ordering::Relaxed);
        let turns: Vec<Turn> =
            (1..=looks).map(|look| polling.in_vain(crowded, || start_ns + look * apart_ns)).collect();
        let count = |which: fn(&Turn) -> bool| turns.iter().filter(|turn| which(turn)).count() as u64;
        let got = (count(|turn| *turn == Turn::Yield), count(|turn| matches!(turn, Turn::Sleep(_))));
        assert_eq!(got, expected, "{looks} looks, {apart_ns} ns apart");
    }

    #[test]
    fn who_only_looks_gives_way_and_then_sleeps() {
        let polling = Polling::new();
        check(&polling, true, 1016, 1000, (1000, 0));
        check(&polling, true, 4000, 1000, (4000, 0));
        check(&polling, true, 100, 1000, (0, 100));
        polling.found();
        check(&polling, true, 116, 50_000, (100, 0));
        check(&polling, true, 100, 50_000, (0, 100));
    }

    #[test]
    fn who_has_processors_enough_or_other_work_is_not_held_up() {
        check(&Polling::new(), false, 10_000, 1000, (0, 0));
        check(&Polling::new(), true, 1016, BETWEEN_NS + 1, (1000, 0));
        check(&Polling::new(), true, 16, 1_000_000, (0, 0));
    }
}
