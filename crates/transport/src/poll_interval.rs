//! Interval between polls of the network while shared memory carries traffic.
//!
//! A poll of the memory takes some instructions, one of the network often a system call. While records arrive
//! through memory, polls of the network take a bounded part of the time. As soon as none has arrived between
//! two of them, each poll includes the network. Hence a message from the network waits for two such intervals
//! at most, and only beside memory traffic. A program that polls and finds nothing at all (MPI_Iprobe in a
//! loop) spends two thirds of the time on the network: a poll is that much cheaper, and nothing waits for
//! longer than half a network poll.

/// While near traffic flows, looks at the network take one part in so many of the time.
const PART: u64 = 16;
/// Longest time between two of them, in ticks of the clock: some 10 to 60 microseconds.
const LONGEST: u64 = 1 << 16;

/// Number of polls in a row that found nothing after which the next one waits for half of a poll's cost.
const IN_VAIN: u32 = 64;

/// Schedule of polls of the network. Times are ticks of any clock.
#[derive(Debug, Default)]
pub struct PollInterval {
    /// Something had come from near between the last two looks.
    flowing: bool,
    /// Something has come since the last one.
    recent: bool,
    /// End of the last poll of the network, and its cost.
    looked: u64,
    cost: u64,
    /// Number of polls in a row that found nothing in memory or network.
    in_vain: u32,
}

impl PollInterval {
    /// Returns true if the network is to be polled, after a poll of the memory that has found something
    /// (`near`) or not. `now` is called only if necessary.
    #[inline]
    pub fn due(&mut self, near: bool, now: impl FnOnce() -> u64) -> bool {
        self.recent |= near;
        if !self.flowing && !self.recent {
            return self.in_vain < IN_VAIN || now().wrapping_sub(self.looked) >= self.cost / 2;
        }
        self.in_vain = 0;
        if now().wrapping_sub(self.looked) < (self.cost * PART).min(LONGEST) {
            return false;
        }
        self.flowing = std::mem::take(&mut self.recent);
        true
    }

    /// Notes that the network was polled from `begun` to `ended`. If something was `found`, the time says
    /// nothing about the cost of a poll.
    #[inline]
    pub fn looked(&mut self, begun: u64, ended: u64, found: bool) {
        self.looked = ended;
        self.in_vain = if found { 0 } else { self.in_vain.saturating_add(1) };
        if !found {
            self.cost = ended.wrapping_sub(begun);
        }
    }

    /// Makes the next poll include the network: a thread that is about to sleep, or was woken, has to know.
    #[inline]
    pub fn at_once(&mut self) {
        (self.flowing, self.recent, self.in_vain) = (false, false, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks among polls, one each 10 ticks, which find something near as `near` says; a look costs `cost`.
    fn check(near: impl Fn(u64) -> bool, cost: u64, expected: std::ops::RangeInclusive<usize>) {
        let (mut interval, mut now, mut count) = (PollInterval::default(), 1 << 40, 0);
        for poll in 0..1000 {
            now += 10;
            if interval.due(near(poll), || now) {
                interval.looked(now, now + cost, false);
                now += cost;
                count += 1;
            }
        }
        assert!(expected.contains(&count), "{count} looks, {expected:?} expected");
    }

    #[test]
    fn looks_take_a_bounded_part_of_the_time() {
        check(|_| false, 20, 1000..=1000);
        check(|_| false, 1000, 64 + 936 / 50..=64 + 936 / 50);
        check(|_| true, 10, 60..=64);
        check(|poll| poll % 5 == 0, 10, 60..=64);
        check(|_| true, 1_000_000, 1..=1);
        check(|poll| poll < 500, 10, 490..=515);
    }

    #[test]
    fn what_comes_from_far_waits_for_a_bounded_time() {
        let mut interval = PollInterval::default();
        interval.looked(0, 100, false);
        assert!(!interval.due(true, || 110) && !interval.due(false, || 1699) && interval.due(false, || 1700));
        interval.looked(1700, 1800, false);
        assert!(
            !interval.due(false, || 3399) && interval.due(false, || 3400) && interval.due(false, || 3401)
        );
        interval.looked(3401, 3501, false);
        assert!(!interval.due(true, || 3600));
        interval.at_once();
        assert!(interval.due(false, || 3601));
        interval.looked(3601, 9000, true);
        assert!(
            !interval.due(true, || 10_599) && interval.due(true, || 10_600),
            "what was found is not the cost"
        );
        interval.looked(0, 1 << 40, false);
        assert!(interval.due(true, || (1 << 40) + LONGEST));
    }
}
