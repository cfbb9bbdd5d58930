//! Contention for the processors of this process, as its threads have seen it.
//!
//! A thread that gives the processor away learns whether another one took it, and for how long. There is one
//! record a process, in words that all its threads write without order. They are hints, and any update may
//! get lost.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::limits::{
    AGAIN, HELD_FOR_MOST_NS, HELD_FOR_NS, HELD_NS, Limits, NOBODY_NS, SHARED_FOR_MOST_NS, SHARED_FOR_NS,
    SLOW_YIELD_NS,
};

/// Contention that the threads of a process have seen.
#[derive(Debug)]
pub struct Contention {
    /// True if the host has more ranks than processors.
    is_crowded: bool,
    /// Nonzero if others take the processor and give it back soon. It is read before each wait, so no time is
    /// involved: the first yield that finds nobody after the time of `sharing` clears it.
    shared: AtomicU32,
    sharing: Sighting,
    /// Sighting of threads that compute on these processors.
    holding: Sighting,
    /// Duration of the fastest yield so far, in nanoseconds.
    least_ns: AtomicU64,
}

/// Time until which an observed state is assumed to last.
#[derive(Debug, Default)]
struct Sighting {
    /// End of that time; 0 if the state was never seen.
    until_ns: AtomicU64,
    for_ns: AtomicU64,
}

impl Sighting {
    /// Notes that the state was seen. If it is seen again soon after its assumed end, it lasts twice as long,
    /// at most `most_ns`.
    fn seen(&self, now_ns: u64, first_ns: u64, most_ns: u64) {
        let (before_ns, until_ns) = (self.for_ns.load(Relaxed), self.until_ns.load(Relaxed));
        let goes_on = before_ns != 0 && now_ns < until_ns + AGAIN * before_ns;
        let for_ns = if goes_on { (2 * before_ns).min(most_ns) } else { first_ns };
        self.for_ns.store(for_ns, Relaxed);
        self.until_ns.store(now_ns + for_ns, Relaxed);
    }
}

impl Contention {
    /// Starts without any observation.
    pub fn new(limits: &Limits) -> Contention {
        Contention {
            is_crowded: limits.is_crowded,
            shared: AtomicU32::new(limits.is_crowded.into()),
            sharing: Sighting::default(),
            holding: Sighting::default(),
            least_ns: AtomicU64::new(u64::MAX),
        }
    }

    /// Returns true if others who wait take the processor in turn.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.load(Relaxed) != 0
    }

    /// Returns true if somebody computes on the processor. `now_ns` is asked only if that was ever seen.
    #[inline]
    pub fn is_held(&self, now_ns: impl FnOnce() -> u64) -> bool {
        let until_ns = self.holding.until_ns.load(Relaxed);
        until_ns != 0 && now_ns() < until_ns
    }

    /// Returns true if nobody took a processor that was given away for `took_ns`. In virtual machines a yield
    /// is slow though nobody takes the processor: three times the fastest yield counts as one of these.
    fn is_nobody(&self, took_ns: u64) -> bool {
        let least_ns = self.least_ns.load(Relaxed);
        let limit_ns = if least_ns <= SLOW_YIELD_NS { NOBODY_NS.max(3 * least_ns) } else { NOBODY_NS };
        took_ns < limit_ns
    }

    /// Returns true if somebody computed on a processor that was given away from `begun_ns` to `ended_ns`.
    #[inline]
    pub fn was_held(begun_ns: u64, ended_ns: u64) -> bool {
        ended_ns.saturating_sub(begun_ns) >= HELD_NS
    }

    /// Notes that the processor was given away from `begun_ns` to `ended_ns`. Returns true if nobody took it.
    pub fn given(&self, begun_ns: u64, ended_ns: u64) -> bool {
        let took_ns = ended_ns.saturating_sub(begun_ns);
        if took_ns < self.least_ns.load(Relaxed) {
            self.least_ns.store(took_ns, Relaxed);
        }
        let is_nobody = self.is_nobody(took_ns);
        if is_nobody {
            if self.is_shared() && ended_ns >= self.sharing.until_ns.load(Relaxed) {
                self.shared.store(self.is_crowded.into(), Relaxed);
            }
        } else if took_ns < HELD_NS {
            self.sharing.seen(ended_ns, SHARED_FOR_NS, SHARED_FOR_MOST_NS);
            self.shared.store(1, Relaxed);
        } else {
            self.holding.seen(ended_ns, HELD_FOR_NS, HELD_FOR_MOST_NS);
        }
        is_nobody
    }
}

#[cfg(test)]
mod tests {
    use tutti_base::config::Config;

    use super::*;

    /// Checks whether the processor is shared and held after yields of these durations in microseconds, one
    /// each millisecond. The last number is for how many milliseconds it counts as held.
    fn check(ranks: u32, yields: &[u64], expected: (bool, bool, u64)) {
        let contention = Contention::new(&Limits::new(&Config::default(), ranks, 2, false));
        let mut now_ns = 1_000_000_000;
        for took_us in yields {
            contention.given(now_ns, now_ns + took_us * 1000);
            now_ns += took_us * 1000 + 1_000_000;
        }
        let last_ns = now_ns - 1_000_000;
        let held_ms = (0..).find(|ms| !contention.is_held(|| last_ns + ms * 1_000_000)).expect("it ends");
        assert_eq!((contention.is_shared(), held_ms > 0, held_ms), expected, "{ranks} {yields:?}");
    }

    #[test]
    fn what_yields_find_is_what_is_known() {
        check(2, &[], (false, false, 0));
        check(4, &[], (true, false, 0));
        check(2, &[2], (true, false, 0));
        check(2, &[2, 0], (false, false, 0));
        check(4, &[0; 100], (true, false, 0));
        // A thread that is met again and again is not forgotten in between.
        check(2, &[2, 2, 2, 2, 2, 2, 2, 2, 2, 0], (false, false, 0));
        check(2, &[3000], (false, true, 10));
        check(2, &[3000, 3000, 3000], (false, true, 40));
        check(2, &[3000; 20], (false, true, 640));
    }

    #[test]
    fn slow_yields_of_a_virtual_machine_are_not_taken_for_others() {
        let check = |yields: &[u64], expected: bool| {
            let contention = Contention::new(&Limits::new(&Config::default(), 2, 2, false));
            for took_ns in yields {
                contention.given(1_000_000, 1_000_000 + took_ns);
            }
            assert_eq!(contention.is_shared(), expected, "{yields:?}");
        };
        check(&[1200], true);
        check(&[300, 1200], true);
        check(&[500, 1200], false);
        check(&[500, 1600], true);
        // Nobody is met so soon, where others take the processor each time.
        check(&[900, 1200], true);
    }

    #[test]
    fn who_computes_once_is_soon_forgotten() {
        check(2, &[&[3000, 3000, 3000][..], &[0; 400], &[3000]].concat(), (false, true, 10));
    }
}
