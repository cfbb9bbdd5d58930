//! Lengths of the phases of a wait: all constants of waiting, and the settings that replace them.

use std::time::Duration;

use tutti_base::config::Config;

/// Looks at messages of a wait on a processor that nobody else wants; [`LOOK_NS`] bounds their time.
const MESSAGE_LOOKS_FREE: u32 = 1000;
/// Looks of a blocking collective at a flag before it looks at everything else: some microseconds.
const FLAG_LOOKS_FREE: u32 = 200;
/// Looks at messages or a flag where others want the processor.
const LOOKS_SHARED: u32 = 2;
/// Looks at messages there where each is a call to the kernel, as others may come from the network.
const NETWORK_LOOKS_SHARED: u32 = 1;
/// Longest time of the looks before a wait gives its processor away for the first time. About what it costs
/// to be woken on another processor.
const LOOK_NS: u64 = 20_000;
/// The same where messages may come from the network, half of it in the call for a receive and half after
/// that.
const NETWORK_LOOK_NS: u64 = 10_000;
/// Looks between two that ask for the time.
const LOOKS_A_TIME: u32 = 16;
/// Looks between two readings of the clock, if a look is a system call.
const NETWORK_LOOKS_A_TIME: u32 = 2;
/// Number of times that a wait gives its processor away before anything else, if it cannot end before others
/// have run here.
const FIRST_YIELDS: u32 = 2;
/// The same number if messages come from the network. Measured in us with 16 ranks of 4 hosts on two
/// processors, for 0, 2 and 8 such times: barrier 393, 281, 159. Allgather of 8 bytes took 534, 439, 312 and
/// allreduce 416, 322, 216. 30 are no better, nor are fewer looks than one after each.
const NETWORK_FIRST_YIELDS: u32 = 8;
/// Time for which a wait stays awake on a processor that nobody else wants. Waking from sleep on an idle
/// processor takes tens of microseconds.
const AWAKE_FREE_NS: u64 = 1_000_000;
/// Time for which a wait stays awake where others want the processor. Time that it gave away does not count.
const AWAKE_SHARED_NS: u64 = 200_000;
/// Time given away in all after which a wait sleeps next: the threads that took it compute.
const GIVEN_LIMIT_NS: u64 = 100_000;
/// The same time if in addition messages come from the network and there are more ranks than processors. A
/// wait that sleeps earlier has to be woken for each operation. The wake-up takes the processor from the rank
/// that sends the next ones. Then one operation costs 40 to 60 switches in place of 5, and stays so.
///
/// 16 ranks of 4 hosts on two processors, in us, median and worst of 12 samples, first with 100 us here and
/// 20 us awake. Broadcast of 8 bytes: 43 and 297, then 35 and 41. Scatter: 230 and 434, then 52 and 92.
/// Gather: 40 and 172, then 39 and 52. With one rank on each host it is a loss (26 %).
const NETWORK_GIVEN_CROWDED_NS: u64 = 1_000_000;
/// Time for which such a wait stays awake if it has given its processor away at first
/// ([`NETWORK_FIRST_YIELDS`]): all others have had it. Barrier of the same ranks: 497 us with 200 us here,
/// 375 us with none. It gives away [`GIVEN_LIMIT_NS`] more: with 32 ranks of 8 hosts, allgather takes 2.8 ms
/// so, and 6.9 ms with [`NETWORK_GIVEN_CROWDED_NS`].
const NETWORK_AWAKE_AFTER_NS: u64 = 20_000;
/// Duration of a yield below which nobody else took the processor: it costs 0.3 us.
pub(super) const NOBODY_NS: u64 = 1_000;
/// Slowest yield that surely nobody took, in nanoseconds: two switches between processes take longer. On a
/// virtual machine (AMD EPYC) a yield takes 0.5 us, one in 1000 1.2 us.
pub(super) const SLOW_YIELD_NS: u64 = 600;
/// Duration of a yield from which another thread is computing on the processor.
pub(super) const HELD_NS: u64 = 500_000;
/// Time for which others that were met on the processor are assumed to stay. It doubles each time that they
/// did, up to the longest.
pub(super) const SHARED_FOR_NS: u64 = 100_000;
pub(super) const SHARED_FOR_MOST_NS: u64 = 20_000_000;
/// Time for which threads that were seen computing on the processor are assumed to stay; see
/// [`SHARED_FOR_NS`].
pub(super) const HELD_FOR_NS: u64 = 10_000_000;
/// Longest such time.
pub(super) const HELD_FOR_MOST_NS: u64 = 640_000_000;
/// Number of these times within which a state that is seen again counts as the same one.
pub(super) const AGAIN: u64 = 8;

/// First and longest sleep. A wake-up that was missed (see `bell`) costs the first. Later ones cannot be
/// missed for longer than it takes a store to leave a processor.
pub(super) const FIRST_SLEEP: Duration = Duration::from_millis(1);
pub(super) const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Unsuccessful looks of a polling program before its processor is given away, where nobody else was seen to
/// want it.
pub(super) const POLLS_FREE: u32 = 1000;
/// The same number where others want the processor.
pub(super) const POLLS_SHARED: u32 = 2;
/// Number of yields in a row that found nobody after which one more look precedes the next yield.
pub(super) const NOBODY_A_LOOK: u32 = 4;
/// Highest number of looks between two yields where others want the processor.
pub(super) const POLLS_BETWEEN: u32 = 256;
/// Time between two looks from which a program counts as doing other work.
pub(super) const BETWEEN_NS: u64 = 10_000;
/// Time with nothing but looks after which a polling program sleeps between them, if all of its yields found
/// nobody or cost a slice.
pub(super) const TIRED_NS: u64 = 100_000_000;
/// Sleep between two looks of a polling program.
pub(super) const NAP: Duration = Duration::from_micros(25);

/// Looks while the partner of a wait has a processor: some ten microseconds.
pub(super) const PARTNER_LOOKS: u32 = 300;
/// Number of waits in a row that may look at their partner in vain.
pub(super) const PARTNER_PATIENCE: u32 = 4;
/// Afterwards, one wait of this many looks.
pub(super) const PARTNER_RARELY: u32 = 16;

/// Looks at a lock in shared memory before its thread sleeps, where ranks have processors of their own and
/// where they share them.
const LOCK_LOOKS: [u32; 2] = [200, 1];

/// Budget of one wait, for one state of contention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Number of looks at messages.
    pub message_looks: u32,
    /// Number of looks at a flag of the node.
    pub flag_looks: u32,
    /// Time for which the wait stays awake after the looks, without the time that it gives away. 0: it
    /// sleeps.
    pub awake_ns: u64,
    /// Time that it gives away before it sleeps.
    pub given_ns: u64,
}

impl Budget {
    /// Budget of a wait that sleeps at once.
    pub const NONE: Budget = Budget { message_looks: 0, flag_looks: 0, awake_ns: 0, given_ns: 0 };
}

/// Limits of the waits of a process, from the settings and the size of the job. They never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    free: Budget,
    shared: Budget,
    /// Budget of a wait on a processor that others want, after it has given the processor away at first.
    after: Budget,
    /// True if there are more ranks than processors on the host: others want the processor, whatever was
    /// seen.
    pub(super) is_crowded: bool,
    /// Number of times that a wait gives its processor away before it sleeps.
    pub(super) yields: u64,
    /// True if the user has set the spinning time.
    is_set: bool,
    /// Longest time of the looks of a wait.
    pub(super) look_ns: u64,
    /// Number of looks between two readings of the clock.
    pub(super) looks_a_time: u32,
}

impl Limits {
    /// Computes the limits of a process on a host with this many ranks and processors. `has_network` is true
    /// if messages come from other hosts too.
    pub fn new(config: &Config, ranks_on_host: u32, processors: u32, has_network: bool) -> Limits {
        let message_looks = if has_network { NETWORK_LOOKS_SHARED } else { LOOKS_SHARED };
        let free = Budget {
            message_looks: MESSAGE_LOOKS_FREE,
            flag_looks: FLAG_LOOKS_FREE,
            awake_ns: AWAKE_FREE_NS,
            given_ns: GIVEN_LIMIT_NS,
        };
        let is_crowded = ranks_on_host > processors;
        let is_far = has_network && is_crowded;
        let shared = Budget {
            message_looks,
            flag_looks: LOOKS_SHARED,
            awake_ns: AWAKE_SHARED_NS,
            given_ns: if is_far { NETWORK_GIVEN_CROWDED_NS } else { GIVEN_LIMIT_NS },
        };
        let awake_ns = if is_far { NETWORK_AWAKE_AFTER_NS } else { AWAKE_SHARED_NS };
        let after = Budget { awake_ns, given_ns: GIVEN_LIMIT_NS, ..shared };
        let set = |budget| match u64::try_from(config.waiting.spin_us) {
            Ok(0) => Budget::NONE,
            Ok(limit_us) => Budget { awake_ns: limit_us * 1000, ..budget },
            Err(_) => budget,
        };
        Limits {
            free: set(free),
            shared: set(shared),
            after: set(after),
            is_crowded,
            yields: config.waiting.yield_rounds,
            is_set: config.waiting.spin_us >= 0,
            look_ns: if has_network { NETWORK_LOOK_NS } else { LOOK_NS },
            looks_a_time: if has_network { NETWORK_LOOKS_A_TIME } else { LOOKS_A_TIME },
        }
    }

    /// Computes the limits of a thread that sleeps whenever there is nothing to do.
    #[must_use]
    pub fn asleep(config: &Config) -> Limits {
        Limits::new(&config.clone().changed(|c| c.waiting.spin_us = 0), 1, 1, false)
    }

    /// Returns the budget of a wait, for processors that others want (`is_shared`) or not.
    pub fn budget(&self, is_shared: bool) -> &Budget {
        if is_shared { &self.shared } else { &self.free }
    }

    /// Returns the budget of a wait that has given its processor away at first, for a processor that others
    /// want (`is_shared`) or not.
    pub fn budget_after(&self, is_shared: bool) -> &Budget {
        if is_shared { &self.after } else { &self.free }
    }

    /// Returns true if a wait may give its processor away before its second look: unless the user has set the
    /// way of waiting.
    pub fn gives_way(&self) -> bool {
        !self.is_set && self.yields > 0
    }

    /// Returns the number of times that a wait gives its processor away before anything else, where
    /// [`Limits::gives_way`].
    pub fn first_yields(&self) -> u32 {
        if self.has_network() { NETWORK_FIRST_YIELDS } else { FIRST_YIELDS }
    }

    /// Returns true if a look is a system call, as messages may come from the network.
    #[inline]
    pub fn has_network(&self) -> bool {
        self.looks_a_time < LOOKS_A_TIME
    }

    /// Looks at a lock in shared memory before its thread sleeps.
    pub fn lock_looks(&self) -> u32 {
        LOCK_LOOKS[usize::from(self.is_crowded)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at messages and flags, and microseconds awake, for `TUTTI_SPIN_US` and whether others want the
    /// processor.
    fn check(spin_us: i64, is_shared: bool, expected: (u32, u32, u64)) {
        let limits = Limits::new(&Config::default().changed(|c| c.waiting.spin_us = spin_us), 4, 2, false);
        let Budget { message_looks, flag_looks, awake_ns, .. } = *limits.budget(is_shared);
        assert_eq!((message_looks, flag_looks, awake_ns / 1000), expected, "{spin_us} {is_shared}");
    }

    #[test]
    fn settings_replace_the_limits() {
        check(-1, false, (1000, 200, 1000));
        check(-1, true, (2, 2, 200));
        check(50, true, (2, 2, 50));
        check(0, false, (0, 0, 0));
        check(0, true, (0, 0, 0));
    }

    /// Microseconds awake and given away of a wait that has not given way before, and of one that has.
    fn check_given(ranks: u32, has_network: bool, expected: [(u64, u64); 2]) {
        let limits = Limits::new(&Config::default(), ranks, 2, has_network);
        let found = [limits.budget(true), limits.budget_after(true)];
        let us = found.map(|budget| (budget.awake_ns / 1000, budget.given_ns / 1000));
        assert_eq!(us, expected, "{ranks} {has_network}");
    }

    #[test]
    fn crowded_hosts_give_way_for_longer() {
        check_given(4, false, [(200, 100), (200, 100)]);
        check_given(2, true, [(200, 100), (200, 100)]);
        check_given(4, true, [(200, 1000), (20, 100)]);
    }
}
