//! Processor time that a polling program (MPI_Test, MPI_Iprobe in a loop) leaves to others.
//!
//! An unsuccessful look is no wait: the program may have other work. But most loops have none, and where
//! others want the processor, the awaited event often depends on them. Hence a program that does nothing but
//! look gives its processor away: now and then as long as nobody takes it, and with each look once somebody
//! has. The longer nobody takes it, the less often again, as giving it away costs six times as much as a
//! look. Beside a thread that computes this is in vain: the kernel leaves the processor to the looking thread
//! for a slice and then takes it away for one. There a program that has only looked for some milliseconds
//! sleeps for a moment between looks, which is little compared with its wait.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::contention::Contention;
use super::limits::{BETWEEN_NS, NAP, NOBODY_A_LOOK, POLLS_BETWEEN, POLLS_FREE, POLLS_SHARED, TIRED_NS};

/// Action before the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollStep {
    /// Look again without a pause.
    Stay,
    /// Let others run, and call [`Polling::given`].
    Yield,
    /// Sleep for this time, and call [`Polling::given`].
    Sleep(Duration),
}

/// Unsuccessful looks of a process, of all its threads together.
#[derive(Debug, Default)]
pub struct Polling {
    in_vain: AtomicU32,
    /// Time since which there was nothing but looks.
    since_ns: AtomicU64,
    last_ns: AtomicU64,
    /// Number of yields in a row in which nobody took the processor.
    nobody: AtomicU32,
}

impl Polling {
    /// Starts for a process that has not looked.
    pub const fn new() -> Polling {
        Polling {
            in_vain: AtomicU32::new(0),
            since_ns: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            nobody: AtomicU32::new(0),
        }
    }

    /// Notes that a look found something.
    #[inline]
    pub fn found(&self) {
        self.in_vain.store(0, Relaxed);
        self.nobody.store(0, Relaxed);
    }

    /// Returns the action after an unsuccessful look. `is_shared` is true if others want the processor.
    /// `now_ns` is called only if necessary.
    #[inline]
    pub fn in_vain(
        &self,
        contention: &Contention,
        is_shared: bool,
        now_ns: impl FnOnce() -> u64,
    ) -> PollStep {
        let in_vain = self.in_vain.load(Relaxed).saturating_add(1);
        self.in_vain.store(in_vain, Relaxed);
        let most = if is_shared { POLLS_SHARED } else { POLLS_FREE };
        let between = if is_shared { self.looks_between() } else { 1 };
        if in_vain <= most || !in_vain.is_multiple_of(between) {
            PollStep::Stay
        } else {
            let is_first = in_vain == most + 1;
            self.turn(contention, is_shared, is_first, (now_ns(), u64::from(between) * BETWEEN_NS))
        }
    }

    /// Notes that the processor was given away from `begun_ns` to `ended_ns`.
    pub fn given(&self, contention: &Contention, begun_ns: u64, ended_ns: u64) {
        let is_nobody = contention.given(begun_ns, ended_ns);
        self.last_ns.store(ended_ns, Relaxed);
        self.nobody.store(if is_nobody { self.nobody.load(Relaxed).saturating_add(1) } else { 0 }, Relaxed);
    }

    /// Returns the number of looks between two yields, where others were seen to want the processor.
    #[inline]
    fn looks_between(&self) -> u32 {
        (1 + self.nobody.load(Relaxed) / NOBODY_A_LOOK).min(POLLS_BETWEEN)
    }

    #[cold]
    fn turn(
        &self,
        contention: &Contention,
        is_shared: bool,
        is_first: bool,
        (now_ns, between_ns): (u64, u64),
    ) -> PollStep {
        let last_ns = self.last_ns.swap(now_ns, Relaxed);
        if !is_shared {
            // So many looks take some hundred times what it costs to find that nobody wants the processor.
            self.in_vain.store(0, Relaxed);
            return PollStep::Yield;
        }
        let has_other_work = now_ns.saturating_sub(last_ns) > between_ns;
        if has_other_work || is_first {
            self.since_ns.store(now_ns, Relaxed);
        }
        if has_other_work && !is_first {
            return PollStep::Stay;
        }
        let is_tired = now_ns.saturating_sub(self.since_ns.load(Relaxed)) >= TIRED_NS;
        if is_tired && contention.is_held(|| now_ns) { PollStep::Sleep(NAP) } else { PollStep::Yield }
    }
}

#[cfg(test)]
mod tests {
    use tutti_base::config::Config;

    use super::*;
    use crate::waiting::Limits;

    /// Checks how many of `looks` unsuccessful looks gave the processor away and how many slept. Each comes
    /// this long after the last one.
    fn check(
        polling: &Polling,
        contention: &Contention,
        is_shared: bool,
        (looks, apart_ns): (u64, u64),
        expected: (u64, u64),
    ) {
        let start_ns = polling.last_ns.load(Relaxed).max(1_000_000_000);
        let turns: Vec<PollStep> = (1..=looks)
            .map(|look| polling.in_vain(contention, is_shared, || start_ns + look * apart_ns))
            .collect();
        let count = |which: fn(&PollStep) -> bool| turns.iter().filter(|turn| which(turn)).count() as u64;
        let got = (count(|turn| *turn == PollStep::Yield), count(|turn| matches!(turn, PollStep::Sleep(_))));
        assert_eq!(got, expected, "{looks} looks, {apart_ns} ns apart");
    }

    fn contention() -> Contention {
        Contention::new(&Limits::new(&Config::default(), 2, 2, false))
    }

    #[test]
    fn who_only_looks_gives_way_and_sleeps_beside_who_computes() {
        let (polling, contention) = (Polling::new(), contention());
        check(&polling, &contention, true, (1002, 1000), (1000, 0));
        check(&polling, &contention, true, (110_000, 1000), (110_000, 0));
        let now_ns = polling.last_ns.load(Relaxed);
        polling.given(&contention, now_ns - 3_000_000, now_ns);
        check(&polling, &contention, true, (100, 1000), (0, 100));
        polling.found();
        check(&polling, &contention, true, (102, 1000), (100, 0));
    }

    #[test]
    fn who_finds_nobody_gives_way_less_often_until_somebody_is_there() {
        let (polling, contention) = (Polling::new(), contention());
        let mut now_ns = 1_000_000_000;
        let mut give = |looks: u64, took_ns: u64| {
            let mut yields = 0;
            for _ in 0..looks {
                now_ns += 100;
                if polling.in_vain(&contention, true, || now_ns) == PollStep::Yield {
                    polling.given(&contention, now_ns, now_ns + took_ns);
                    (now_ns, yields) = (now_ns + took_ns, yields + 1);
                }
            }
            yields
        };
        assert_eq!(give(6, 300), 4);
        assert_eq!(give(10_000, 300), 276);
        assert!(give(100, 2000) > 100 - 70);
        assert_eq!(give(100, 2000), 100);
    }

    #[test]
    fn who_has_the_processor_for_itself_or_other_work_is_not_held_up() {
        check(&Polling::new(), &contention(), false, (10_010, 100), (10, 0));
        check(&Polling::new(), &contention(), true, (1003, BETWEEN_NS + 1), (1, 0));
    }
}
