//! Phases of one wait: looking, giving way, sleeping.

use std::time::Duration;

use super::contention::Contention;
use super::limits::{Budget, FIRST_SLEEP, LONGEST_SLEEP, Limits};

/// Next action after an unsuccessful look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again.
    Look,
    /// Give the processor away, pass the time it took to [`Phases::given`], and look again.
    Yield,
    /// Sleep until woken, at most for this time, and look again.
    Sleep(Duration),
}

/// Looks with which a wait begins: a number of them, and not longer than some microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    made: u32,
    most: u32,
    /// The number of looks after which the time is asked next.
    asks: u32,
    begun_ns: u64,
}

/// Progress of one wait through the phases.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    spin: Spin,
    /// State of giving way, once the wait gives way.
    giving: Option<Giving>,
    sleep: Duration,
    longest_sleep: Duration,
    /// True if the wait has given its processor away before its first look.
    has_given_way: bool,
}

#[derive(Clone, Copy, Debug)]
struct Giving {
    budget: Budget,
    since_ns: u64,
    given_ns: u64,
    handed_over: u64,
}

impl Spin {
    /// Starts with at most `most` looks.
    #[inline]
    pub fn new(most: u32) -> Spin {
        Spin { made: 0, most, asks: 1, begun_ns: 0 }
    }

    /// Decides whether to look once more.
    #[inline]
    pub fn goes_on(&mut self, limits: &Limits, now_ns: impl FnOnce() -> u64) -> bool {
        if self.made >= self.most {
            return false;
        }
        self.made += 1;
        if self.made == self.asks {
            self.check_time(limits, now_ns());
        }
        true
    }

    #[cold]
    fn check_time(&mut self, limits: &Limits, now_ns: u64) {
        self.asks = self.made + limits.looks_a_time;
        if self.begun_ns == 0 {
            self.begun_ns = now_ns;
        } else if now_ns - self.begun_ns >= limits.look_ns {
            self.made = self.most;
        }
    }
}

impl Phases {
    /// Starts a wait with the phase of looking.
    pub fn new() -> Phases {
        Phases {
            spin: Spin::new(u32::MAX),
            giving: None,
            sleep: FIRST_SLEEP,
            longest_sleep: LONGEST_SLEEP,
            has_given_way: false,
        }
    }

    /// Limits every sleep, for a thread that not every awaited event can wake.
    #[must_use]
    pub fn sleeping_shortly(self) -> Phases {
        Phases { longest_sleep: FIRST_SLEEP, ..self }
    }

    /// Shortens the phase of giving way for a wait that has given its processor away before its first look.
    #[must_use]
    pub fn after_giving_way(self) -> Phases {
        Phases { has_given_way: true, ..self }
    }

    /// Skips the phases of looking and giving way.
    pub fn sleep_at_once(&mut self) {
        self.spin.most = 0;
        self.giving = Some(Giving { budget: Budget::NONE, since_ns: 0, given_ns: 0, handed_over: u64::MAX });
    }

    /// Starts the wait anew, as a look has found something.
    #[inline]
    pub fn restart(&mut self) {
        let Phases { longest_sleep, has_given_way, .. } = *self;
        *self = Phases { longest_sleep, has_given_way, ..Phases::new() };
    }

    /// Returns the next action after an unsuccessful look. `is_shared` is true if others are known to want
    /// the processor.
    #[inline]
    pub fn next(&mut self, limits: &Limits, is_shared: bool, now_ns: impl Fn() -> u64) -> Step {
        self.spin.most = self.spin.most.min(limits.budget(is_shared).message_looks);
        if self.spin.goes_on(limits, &now_ns) {
            Step::Look
        } else {
            self.next_long(limits, is_shared, now_ns)
        }
    }

    /// Notes that the processor was given away from `begun_ns` to `ended_ns`.
    pub fn given(&mut self, contention: &Contention, begun_ns: u64, ended_ns: u64) {
        contention.given(begun_ns, ended_ns);
        let took_ns = ended_ns.saturating_sub(begun_ns);
        if let Some(giving) = self.giving.as_mut().filter(|_| took_ns >= super::limits::NOBODY_NS) {
            giving.handed_over += 1;
            giving.given_ns += took_ns;
        }
    }

    /// Returns the next action once all looks are made.
    #[cold]
    fn next_long(&mut self, limits: &Limits, is_shared: bool, now_ns: impl Fn() -> u64) -> Step {
        let now = now_ns();
        let budget =
            if self.has_given_way { limits.budget_after(is_shared) } else { limits.budget(is_shared) };
        let begins = Giving { budget: *budget, since_ns: now, given_ns: 0, handed_over: 0 };
        let giving = self.giving.get_or_insert(begins);
        let over = giving.handed_over >= limits.yields || giving.given_ns >= giving.budget.given_ns;
        let late = now.saturating_sub(giving.since_ns) >= giving.budget.awake_ns + giving.given_ns;
        if over || late {
            let sleep = self.sleep;
            self.sleep = (sleep * 2).min(self.longest_sleep);
            return Step::Sleep(sleep);
        }
        Step::Yield
    }
}

impl Default for Phases {
    fn default() -> Phases {
        Phases::new()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tutti_base::config::Config;

    use super::*;

    /// Checks the steps of a wait without success, as runs of one kind. A look takes `look_ns` and a yield
    /// `yield_us`.
    fn check(spin_us: i64, is_shared: bool, look_ns: u64, yield_us: u64, expected: &[(&str, u32)]) {
        let limits = Limits::new(&Config::default().changed(|c| c.waiting.spin_us = spin_us), 2, 2, false);
        let (contention, now) = (Contention::new(&limits), Cell::new(1_000_000_000));
        let (mut phases, mut seen): (_, Vec<(&str, u32)>) = (Phases::new(), Vec::new());
        let mut sleeps = 0;
        while sleeps < 3 {
            now.set(now.get() + look_ns);
            let step = phases.next(&limits, is_shared, || now.get());
            let name = match step {
                Step::Look => "look",
                Step::Yield => {
                    let begun = now.get();
                    now.set(begun + (yield_us * 1000).max(300));
                    phases.given(&contention, begun, now.get());
                    "yield"
                }
                Step::Sleep(time) => {
                    now.set(now.get() + time.as_nanos() as u64);
                    sleeps += 1;
                    "sleep"
                }
            };
            match seen.last_mut().filter(|last| last.0 == name) {
                Some(last) => last.1 += 1,
                None => seen.push((name, 1)),
            }
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_wait_looks_then_gives_way_then_sleeps() {
        check(-1, false, 50, 0, &[("look", 401), ("yield", 2858), ("sleep", 3)]);
        // Looks at a network are dear.
        check(-1, false, 1000, 0, &[("look", 33), ("yield", 770), ("sleep", 3)]);
        check(-1, true, 50, 2, &[("look", 2), ("yield", 50), ("sleep", 3)]);
        // Somebody computes: the next ones sleep at once.
        check(-1, true, 50, 3000, &[("look", 2), ("yield", 1), ("sleep", 3)]);
        check(50, true, 50, 0, &[("look", 2), ("yield", 143), ("sleep", 3)]);
        check(0, false, 50, 0, &[("sleep", 3)]);
    }
}
