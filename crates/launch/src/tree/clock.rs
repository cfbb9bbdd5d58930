//! The time of a daemon: that in which it ran.
//!
//! A daemon that was away (a machine that was suspended or moved, a frozen container, SIGSTOP) has heard nobody meanwhile, and nobody
//! came too late for that. So the time it was away is left out here, and every limit that it keeps by this clock lasts so
//! much longer: the silence of others, the time they have to start, to end, to leave. What has arrived meanwhile is read
//! before any of these is judged.

use std::time::Duration;

/// Who runs so much later than it wanted to was away; less is a busy machine.
const LATE: Duration = Duration::from_secs(1);

/// Times are those since any fixed moment: by the system's clock those that go in, by the daemon's own those that come out.
#[derive(Debug, Default)]
pub struct Clock {
    away: Duration,
    /// Until when it is known that it ran, or meant to sleep.
    seen: Option<Duration>,
}

impl Clock {
    /// The daemon's own time.
    pub fn now(&self, system: Duration) -> Duration {
        system.saturating_sub(self.away)
    }

    /// It runs, and is about to sleep for `timeout` at most, if that is bounded.
    pub fn sleeps(&mut self, system: Duration, timeout: Option<Duration>) {
        self.runs(system);
        self.seen = timeout.map(|timeout| system + timeout);
    }

    /// It runs again, woken by an event or the time-out.
    pub fn wakes(&mut self, system: Duration) {
        self.runs(system);
        self.seen = Some(system);
    }

    fn runs(&mut self, system: Duration) {
        let late = self.seen.map_or(Duration::ZERO, |seen| system.saturating_sub(seen));
        if late >= LATE {
            self.away += late;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Sleeps of at most so many seconds that last so long: the own time after them.
    fn check(sleeps: &[(Option<u32>, u32)], expected: u32) {
        let (mut clock, mut system) = (Clock::default(), Duration::ZERO);
        for &(timeout, lasted) in sleeps {
            clock.sleeps(system, timeout.map(|seconds| SECOND * seconds));
            system += SECOND * lasted;
            clock.wakes(system);
        }
        assert_eq!(clock.now(system), SECOND * expected, "{sleeps:?}");
    }

    #[test]
    fn time_away_does_not_count() {
        check(&[(Some(1), 1), (Some(5), 2), (None, 100)], 103);
        check(&[(Some(1), 13)], 1);
        check(&[(Some(1), 13), (Some(1), 1), (Some(0), 30)], 2);
    }

    #[test]
    fn who_is_away_at_work_is_away_too() {
        let mut clock = Clock::default();
        clock.sleeps(Duration::ZERO, Some(SECOND));
        clock.wakes(SECOND);
        clock.sleeps(SECOND * 20, Some(SECOND));
        assert_eq!(clock.now(SECOND * 21), SECOND * 2);
    }
}
