//! Clock of a daemon, which counts only the time in which the daemon ran.
//!
//! A daemon may be suspended: with its machine, in a frozen container, or by SIGSTOP. Meanwhile it receives
//! no messages, so none is late. Therefore this clock leaves out the time of suspension. Every limit that is
//! kept by it lasts longer by that time: for the silence of others, and for their start, end and departure.
//! Bytes that arrived meanwhile are read before a limit is checked.

use std::time::Duration;

/// Delay from which a daemon counts as suspended. A shorter delay is a busy machine.
const LATE: Duration = Duration::from_secs(1);

/// Conversion from the system's clock to the daemon's own. Both count from any fixed moment.
#[derive(Debug, Default)]
pub struct Clock {
    away: Duration,
    /// System time up to which the daemon is known to have run, or intended to sleep.
    seen: Option<Duration>,
}

impl Clock {
    /// Returns the daemon's own time for a time of the system.
    pub fn now(&self, system: Duration) -> Duration {
        system.saturating_sub(self.away)
    }

    /// Records that the daemon runs, and is about to sleep for `timeout` at most, if there is one.
    pub fn sleeps(&mut self, system: Duration, timeout: Option<Duration>) {
        self.runs(system);
        self.seen = timeout.map(|timeout| system + timeout);
    }

    /// Records that the daemon runs again, woken by an event or the timeout.
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

    /// Checks the own time after sleeps. Each case has the maximum and the real duration of a sleep in
    /// seconds.
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
