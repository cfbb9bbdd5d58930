//! Pace of a stream. The round trip gives the time after which a datagram counts as lost (RFC 6298). A window
//! limits the datagrams under way (additive increase, multiplicative decrease; RFC 5681).
//!
//! A peer answers only while it is inside the library. Hence an apparently lost datagram is often a peer that
//! computes: the time-out grows with every repetition, and only one datagram is repeated at a time.

use std::time::Duration;

/// Most datagrams of a stream under way: as many as an acknowledgement can name.
pub(super) const WINDOW: u16 = 64;

/// Time-out before the first measurement.
const FIRST_TIMEOUT: Duration = Duration::from_millis(20);
const LEAST_TIMEOUT: Duration = Duration::from_millis(4);
/// Longest time-out, and so the longest delay after a cut line works again.
const MOST_TIMEOUT: Duration = Duration::from_millis(400);
/// Longest sample of a round trip. Longer ones come from a peer that computed.
const LONGEST_SAMPLE: Duration = Duration::from_millis(50);
const FIRST_WINDOW: u32 = 8;
const LEAST_WINDOW: u32 = 2;

#[derive(Clone, Debug)]
pub(super) struct Pace {
    round_trip: Option<Duration>,
    variation: Duration,
    timeouts: u32,
    window: u32,
    /// Window size at which slow start ends.
    threshold: u32,
    /// Datagrams acknowledged since the window last grew.
    credit: u32,
    /// Sequence number below which losses no longer shrink the window, as they have already done so.
    recovery: u64,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace {
            round_trip: None,
            variation: Duration::ZERO,
            timeouts: 0,
            window: FIRST_WINDOW,
            threshold: u32::from(WINDOW),
            credit: 0,
            recovery: 0,
        }
    }

    /// Returns the number of datagrams that may be under way.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// Returns the time after which a datagram without an answer counts as lost.
    pub(super) fn timeout(&self) -> Duration {
        let once = match self.round_trip {
            None => FIRST_TIMEOUT,
            Some(round_trip) => (round_trip + 4 * self.variation).max(LEAST_TIMEOUT),
        };
        (once * (1 << self.timeouts.min(8))).min(MOST_TIMEOUT)
    }

    /// Returns the reordering time: a datagram sent this much earlier than one that has arrived is probably
    /// lost.
    pub(super) fn reordering(&self) -> Duration {
        self.round_trip.unwrap_or(FIRST_TIMEOUT)
    }

    /// Takes a sample: a datagram that was sent once was acknowledged after `time`.
    pub(super) fn measured(&mut self, time: Duration) {
        let time = time.min(LONGEST_SAMPLE);
        let Some(round_trip) = self.round_trip else {
            self.round_trip = Some(time);
            self.variation = time / 2;
            return;
        };
        self.variation = (3 * self.variation + round_trip.abs_diff(time)) / 4;
        self.round_trip = Some((7 * round_trip + time) / 8);
    }

    /// Notes that `datagrams` more datagrams have been acknowledged.
    pub(super) fn arrived(&mut self, datagrams: u32) {
        self.timeouts = 0;
        if self.window < self.threshold {
            self.window = (self.window + datagrams).min(self.threshold);
        } else {
            self.credit += datagrams;
            if self.credit >= self.window {
                self.credit = 0;
                self.window += 1;
            }
        }
        self.window = self.window.min(u32::from(WINDOW));
    }

    /// Notes the loss of datagram `sequence`. `next` is the first that was never sent. A window shrinks once
    /// for all its losses.
    pub(super) fn lost(&mut self, sequence: u64, next: u64) {
        if sequence >= self.recovery {
            self.recovery = next;
            self.threshold = (self.window / 2).max(LEAST_WINDOW);
            self.window = self.threshold;
        }
    }

    /// Notes that nothing was acknowledged in time.
    pub(super) fn timed_out(&mut self, next: u64) {
        if self.timeouts == 0 {
            self.threshold = (self.window / 2).max(LEAST_WINDOW);
        }
        self.timeouts = self.timeouts.saturating_add(1);
        self.recovery = next;
        self.window = 1;
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Checks the time-out in milliseconds after these samples (milliseconds; 0: a time-out).
    fn check(samples: &[u32], expected_ms: std::ops::RangeInclusive<u128>) {
        let mut pace = Pace::new();
        for &sample in samples {
            if sample == 0 { pace.timed_out(0) } else { pace.measured(MS * sample) }
        }
        let timeout = pace.timeout().as_millis();
        assert!(expected_ms.contains(&timeout), "{samples:?}: {timeout} ms");
    }

    #[test]
    fn time_outs_follow_the_round_trip() {
        check(&[], 20..=20);
        check(&[1], 4..=4);
        check(&[10], 30..=30);
        check(&[10; 30], 10..=11);
        check(&[1, 0, 0], 16..=16);
        check(&[0; 40], 400..=400);
        check(&[60_000], 100..=150);
    }

    #[test]
    fn the_window_halves_once_and_comes_back() {
        let mut pace = Pace::new();
        pace.arrived(100);
        assert_eq!(pace.window(), 64);
        (0..10).for_each(|sequence| pace.lost(sequence, 64));
        assert_eq!(pace.window(), 32);
        pace.lost(64, 90);
        assert_eq!(pace.window(), 16);
        (0..16).for_each(|_| pace.arrived(1));
        assert_eq!(pace.window(), 17);
        pace.timed_out(100);
        assert_eq!(pace.window(), 1);
        (0..7).for_each(|_| pace.arrived(1));
        assert_eq!(pace.window(), 8);
        (0..10_000).for_each(|_| pace.arrived(1));
        assert_eq!(pace.window(), 64);
    }
}
