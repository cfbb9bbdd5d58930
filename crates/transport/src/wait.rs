//! How to pass the time until something arrives.
//!
//! A wait goes through three phases: look again at once, a bounded number of times; give the processor
//! to others between looks; sleep on the doorbell. How long to stay in the second depends on what giving the
//! processor away does. If nobody takes it, it is free and looking costs nobody anything: waking from sleep on
//! an idle processor takes tens of microseconds, so the wait stays awake for a millisecond. If others take
//! it, they may be the ones waited for, so a few rounds are worth it; but when they keep it, they
//! compute, and the wait had better sleep and be woken.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_base::config::{Config, MAX_LANES};
use tutti_base::sync::{AtomicU32, Ordering::Relaxed};
use tutti_sys::cpu;
use tutti_sys::futex;
use tutti_sys::job::Sleeper;

use crate::bell::Announced;
use crate::shm::bell;
use crate::watch::Watch;

/// Looks before the first yield when every rank has a processor of its own: some 20 microseconds.
const SPINS_FREE: u32 = 1000;
/// Looks before the first yield when ranks share processors.
const SPINS_CROWDED: u32 = 5;
/// How long a wait stays awake on a processor that nobody else wants.
const AWAKE_FREE: Duration = Duration::from_micros(1000);
/// The same when ranks share processors.
const AWAKE_CROWDED: Duration = Duration::from_micros(200);
/// A yield that takes longer than this gave the processor to somebody.
const HANDED_OVER: Duration = Duration::from_micros(1);
/// A wait that gave its processor away for this long in all sleeps next.
const GIVEN_LIMIT: Duration = Duration::from_micros(100);
/// Who gets the processor back from a yield after so long shares it with a program that computes: it would have been woken sooner.
const KEPT: Duration = Duration::from_micros(500);
/// So many waits of a job on several hosts sleep at once after that.
const WAITS_ASLEEP: u32 = 4096;
/// First and longest sleep. A wake-up that was missed (see `bell`) costs the first; later ones cannot be
/// missed for longer than it takes a store to leave a processor.
const FIRST_SLEEP: Duration = Duration::from_millis(1);
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// What a [`Waiter::pause`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// Nothing but a moment.
    Spun,
    /// Let others run.
    Yielded,
    /// Slept, or was about to and found something pending.
    Parked,
}

/// Decides, from look to look, how a thread waits. One a thread.
#[derive(Clone, Debug)]
pub struct Waiter {
    spin_limit: u32,
    awake: Duration,
    yield_rounds: u64,
    spins: u32,
    handed_over: u64,
    given: Duration,
    yielding_since: Option<Instant>,
    sleep: Duration,
    /// Of a job on several hosts: so many waits sleep at once from now on. All waiters of the process share it.
    asleep: Option<Arc<AtomicU32>>,
    longest_sleep: Duration,
}

impl Waiter {
    /// A waiter for a process on a node that runs `ranks_on_node` on `processors`.
    pub fn new(config: &Config, ranks_on_node: u32, processors: u32) -> Waiter {
        let crowded = ranks_on_node > processors;
        let (spin_limit, awake) = match u64::try_from(config.spin_us) {
            Ok(0) => (0, Duration::ZERO),
            Ok(limit_us) => {
                (if crowded { SPINS_CROWDED } else { SPINS_FREE }, Duration::from_micros(limit_us))
            }
            Err(_) if crowded => (SPINS_CROWDED, AWAKE_CROWDED),
            Err(_) => (SPINS_FREE, AWAKE_FREE),
        };
        Waiter {
            spin_limit,
            awake,
            yield_rounds: config.yield_rounds,
            spins: 0,
            handed_over: 0,
            given: Duration::ZERO,
            yielding_since: None,
            sleep: FIRST_SLEEP,
            asleep: None,
            longest_sleep: LONGEST_SLEEP,
        }
    }

    /// The same for a job of several hosts: where ranks share processors, a wait sleeps at once. What it waits for comes by the
    /// network, long after the others have had the processor; and each look at the network is a call to the kernel.
    /// Where other programs compute on the processors of the ranks, waits find that out and sleep at once too.
    #[must_use]
    pub fn across_hosts(self, config: &Config, ranks_on_node: u32, processors: u32) -> Waiter {
        if config.spin_us >= 0 {
            return self;
        }
        if ranks_on_node <= processors {
            return Waiter { asleep: Some(Arc::default()), ..self };
        }
        Waiter { spin_limit: 0, awake: Duration::ZERO, ..self }
    }

    /// The same for a process that waits for the network too, but has no bell that others could strike while it watches that: a
    /// job of one host that has met one of several.
    #[must_use]
    pub fn sleeping_shortly(self) -> Waiter {
        Waiter { longest_sleep: FIRST_SLEEP, ..self }
    }

    /// Begins anew: call when a wait begins, and after a look that found something.
    #[inline]
    pub fn reset(&mut self) {
        self.spins = 0;
    }

    /// Passes a moment after a look that found nothing. `pending` says whether there is anything new to look
    /// at; it is asked only before sleeping. `sleeper` is that of this process.
    #[inline]
    pub fn pause(&mut self, sleeper: Sleeper<'_>, pending: impl FnMut() -> bool) -> Paused {
        self.pause_watching(&[sleeper], None, pending)
    }

    /// The same for a thread that waits in several lanes of its process, at most [`MAX_LANES`]; a sleep also ends when one of
    /// the descriptors is readable that `pending` gave to `watch`.
    #[inline]
    pub fn pause_watching(
        &mut self,
        sleepers: &[Sleeper<'_>],
        watch: Option<&Watch<'_>>,
        pending: impl FnMut() -> bool,
    ) -> Paused {
        if self.spins < self.spin_limit && !self.sleeps_at_once() {
            self.spins += 1;
            std::hint::spin_loop();
            return Paused::Spun;
        }
        self.pause_longer(sleepers, watch, pending)
    }

    #[cold]
    #[inline(never)]
    fn pause_longer(
        &mut self,
        sleepers: &[Sleeper<'_>],
        watch: Option<&Watch<'_>>,
        pending: impl FnMut() -> bool,
    ) -> Paused {
        if self.spins <= self.spin_limit {
            self.spins = self.spin_limit + 1;
            (self.handed_over, self.given) = (0, Duration::ZERO);
            (self.yielding_since, self.sleep) = (None, FIRST_SLEEP);
        }
        if self.yield_rounds > 0 && !self.sleeps_at_once() && self.stays_awake(&sleepers[0]) {
            return Paused::Yielded;
        }
        self.park(sleepers, watch, pending);
        Paused::Parked
    }

    /// Yields, unless it is time to sleep.
    fn stays_awake(&mut self, sleeper: &Sleeper<'_>) -> bool {
        let before = Instant::now();
        let since = *self.yielding_since.get_or_insert(before);
        let enough = self.handed_over >= self.yield_rounds || self.given >= GIVEN_LIMIT;
        if enough || before - since >= self.awake + self.given {
            return false;
        }
        sleeper.doorbell.yield_now();
        let took = before.elapsed();
        if took > HANDED_OVER {
            self.handed_over += 1;
            self.given += took;
        }
        if let Some(asleep) = self.asleep.as_ref().filter(|_| took > KEPT) {
            asleep.store(WAITS_ASLEEP, Relaxed);
        }
        true
    }

    /// Whether others compute on this processor, so that spinning and yielding only delay.
    fn sleeps_at_once(&self) -> bool {
        self.asleep.as_ref().is_some_and(|asleep| asleep.load(Relaxed) > 0)
    }

    /// Sleeps on the doorbells unless something is pending.
    fn park(
        &mut self,
        sleepers: &[Sleeper<'_>],
        watch: Option<&Watch<'_>>,
        mut pending: impl FnMut() -> bool,
    ) {
        assert!((1..=MAX_LANES as usize).contains(&sleepers.len()), "a doorbell for each lane, one at least");
        if let Some(asleep) = &self.asleep {
            // A few more or less make no difference.
            asleep.store(asleep.load(Relaxed).saturating_sub(1), Relaxed);
        }
        let mut announced: [Option<Announced<'_>>; MAX_LANES as usize] = [const { None }; MAX_LANES as usize];
        for (place, sleeper) in announced.iter_mut().zip(sleepers) {
            *place = Some(bell(sleeper.doorbell).announce(sleeper.parked));
        }
        // The second look comes when every store made before the announcement was seen has arrived.
        let quiet = !pending() && {
            cpu::yield_now();
            !pending()
        };
        if quiet {
            let wanted = watch.filter(|watch| watch.is_wanted());
            if !wanted.is_some_and(|watch| sleep_on(watch, sleepers, &announced, self.sleep)) {
                let tickets = announced.iter().flatten().map(|announced| announced.ticket);
                let words = sleepers.iter().map(|sleeper| bell(sleeper.doorbell).futex);
                futex::wait_any(words.zip(tickets), self.sleep);
            }
            self.sleep = (self.sleep * 2).min(self.longest_sleep);
        }
        for (announced, sleeper) in announced.into_iter().flatten().zip(sleepers) {
            bell(sleeper.doorbell).withdraw(announced);
        }
    }
}

/// Sleeps on what `watch` has: the doorbells of all lanes of a process strike its one bell, so all are heard. False, without a sleep,
/// if another thread of the process does so already, or if somebody rang meanwhile.
fn sleep_on(
    watch: &Watch<'_>,
    sleepers: &[Sleeper<'_>],
    announced: &[Option<Announced<'_>>],
    timeout: Duration,
) -> bool {
    let bells = || sleepers.iter().map(|sleeper| bell(sleeper.doorbell));
    let polled =
        bells().zip(announced.iter().flatten()).take_while(|(bell, announced)| bell.polls(announced)).count();
    let all = polled == sleepers.len();
    if all {
        watch.sleep(timeout);
    }
    bells().take(polled).for_each(|bell| bell.polls_no_more());
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tutti_sys::job::{Job, Plan};

    use super::*;
    use crate::shm::ring_doorbell;

    fn job() -> Arc<Job> {
        let plan = Plan::one_host(1);
        Arc::new(Job::create(&plan).unwrap())
    }

    #[test]
    fn who_shares_a_processor_with_a_program_that_computes_sleeps_at_once() {
        let (config, job) = (Config::default(), job());
        let mut waiter = Waiter::new(&config, 1, 2).across_hosts(&config, 1, 2);
        let mut other = waiter.clone();
        assert_eq!(waiter.pause(job.sleeper(0, 0), || true), Paused::Spun);
        waiter.asleep.as_ref().expect("it is across hosts").store(2, Relaxed);
        for expected in [Paused::Parked, Paused::Parked, Paused::Spun] {
            other.reset();
            assert_eq!(other.pause(job.sleeper(0, 0), || true), expected);
        }
    }

    #[test]
    fn a_wait_spins_then_yields_then_parks() {
        let job = job();
        let (sleeper, bell) = (job.sleeper(0, 0), &job.block(0).doorbell);
        let config = Config { spin_us: 50, ..Config::default() };
        let mut waiter = Waiter::new(&config, 4, 2);
        for _ in 0..2 {
            waiter.reset();
            let mut seen = vec![Paused::Spun];
            while seen.last() != Some(&Paused::Parked) {
                let paused = waiter.pause(sleeper, || true);
                if seen.last() != Some(&paused) {
                    seen.push(paused);
                }
            }
            assert_eq!(seen, [Paused::Spun, Paused::Yielded, Paused::Parked]);
            assert_eq!(bell.sleeping.load(Ordering::SeqCst) & 0xff, 0);
        }
        let never = Config { spin_us: 0, ..Config::default() };
        assert_eq!(Waiter::new(&never, 1, 2).pause(sleeper, || true), Paused::Parked);
        let usual = Config::default();
        let across = |ranks| Waiter::new(&usual, ranks, 2).across_hosts(&usual, ranks, 2);
        assert_eq!(across(4).pause(sleeper, || true), Paused::Parked);
        assert_eq!(across(2).pause(sleeper, || true), Paused::Spun);
    }

    #[test]
    fn a_sleeper_in_several_lanes_is_woken_in_each() {
        let plan = Plan { lanes: 3, ..Plan::one_host(1) };
        let job = Job::create(&plan).unwrap();
        let config = Config { spin_us: 0, ..Config::default() };
        for lane in 0..3 {
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let sleepers = [0, 1, 2].map(|lane| job.sleeper(0, lane));
                    let mut waiter = Waiter { sleep: LONGEST_SLEEP, ..Waiter::new(&config, 4, 1) };
                    while !done.load(Ordering::Acquire) {
                        waiter.pause_watching(&sleepers, None, || done.load(Ordering::Acquire));
                    }
                });
                while job.block(0).doorbell_of(lane).sleeping.load(Ordering::SeqCst) & 0xff == 0 {
                    std::thread::yield_now();
                }
                done.store(true, Ordering::Release);
                ring_doorbell(&job, 0, lane);
            });
            assert_eq!(job.node().parked.load(Ordering::SeqCst), 0);
        }
    }

    #[test]
    fn all_sleepers_of_a_process_are_woken() {
        let job = job();
        let done = AtomicBool::new(false);
        let config = Config { spin_us: 0, ..Config::default() };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut waiter = Waiter::new(&config, 4, 1);
                    while !done.load(Ordering::Acquire) {
                        waiter.pause(job.sleeper(0, 0), || done.load(Ordering::Acquire));
                    }
                });
            }
            let bell = &job.block(0).doorbell;
            while bell.sleeping.load(Ordering::SeqCst) & 0xff < 3 {
                std::thread::yield_now();
            }
            done.store(true, Ordering::Release);
            ring_doorbell(&job, 0, 0);
        });
        assert_eq!(job.block(0).doorbell.sleeping.load(Ordering::SeqCst) & 0xff, 0);
        assert_eq!(job.node().parked.load(Ordering::SeqCst), 0);
    }
}
