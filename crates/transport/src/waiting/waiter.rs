//! Execution of the waiting policy: looks, gives the processor away, sleeps on the doorbells and the network.

use std::time::Duration;

use tutti_base::config::MAX_LANES;
use tutti_sys::job::Sleeper;
use tutti_sys::{clock, cpu, futex};

use super::{Contention, Limits, Phases, Step};
use crate::bell::Announced;
use crate::shm::bell;
use crate::watch::Watch;

/// Outcome of one [`Waiter::pause`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// Spun for a moment.
    Spun,
    /// Let other threads run.
    Yielded,
    /// Slept, or was about to sleep and found something pending.
    Parked,
}

/// State of one wait of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Waiter<'a> {
    limits: &'a Limits,
    contention: &'a Contention,
    /// True if others want the processor, whatever was seen of them.
    is_crowded: bool,
    phases: Phases,
}

impl<'a> Waiter<'a> {
    /// Starts a wait. `is_crowded` is true if more threads wait than there are processors.
    #[inline]
    pub fn new(limits: &'a Limits, contention: &'a Contention, is_crowded: bool) -> Waiter<'a> {
        Waiter { limits, contention, is_crowded, phases: Phases::new() }
    }

    /// Limits every sleep of a process that waits for the network too, but has no bell that others could ring
    /// meanwhile: a job of one host that has met one of several.
    #[must_use]
    pub fn sleeping_shortly(self) -> Waiter<'a> {
        Waiter { phases: self.phases.sleeping_shortly(), ..self }
    }

    /// Makes the wait one that has given its processor away before its first look.
    #[must_use]
    pub fn after_giving_way(self) -> Waiter<'a> {
        Waiter { phases: self.phases.after_giving_way(), ..self }
    }

    /// Makes the next pause a sleep if the awaited event takes longer than looking for it would pay.
    pub fn sleep_at_once_if(&mut self, is_long: bool) -> bool {
        if is_long {
            self.phases.sleep_at_once();
        }
        is_long
    }

    /// Begins anew: call after a look that found something.
    #[inline]
    pub fn reset(&mut self) {
        self.phases.restart();
    }

    /// Passes a moment after a look that found nothing. `pending` says whether there is anything new to look
    /// at; it is asked only before sleeping. `sleeper` is that of this process.
    #[inline]
    pub fn pause(&mut self, sleeper: Sleeper<'_>, pending: impl FnMut() -> bool) -> Paused {
        self.pause_watching(&[sleeper], None, pending)
    }

    /// Pauses a thread that waits in several lanes of its process, at most [`MAX_LANES`]. A sleep also ends
    /// when a descriptor is readable that `pending` passed to `watch`.
    #[inline]
    pub fn pause_watching(
        &mut self,
        sleepers: &[Sleeper<'_>],
        watch: Option<&Watch<'_>>,
        pending: impl FnMut() -> bool,
    ) -> Paused {
        let is_shared = self.is_crowded || self.contention.is_shared();
        match self.phases.next(self.limits, is_shared, clock::now_ns) {
            Step::Look => {
                std::hint::spin_loop();
                Paused::Spun
            }
            Step::Yield => {
                let begun_ns = clock::now_ns();
                sleepers[0].doorbell.yield_now();
                self.phases.given(self.contention, begun_ns, clock::now_ns());
                Paused::Yielded
            }
            Step::Sleep(longest) => {
                park(sleepers, watch, longest, pending);
                Paused::Parked
            }
        }
    }
}

/// Sleeps on the doorbells unless something is pending, at most for so long.
#[cold]
fn park(
    sleepers: &[Sleeper<'_>],
    watch: Option<&Watch<'_>>,
    longest: Duration,
    mut pending: impl FnMut() -> bool,
) {
    assert!((1..=MAX_LANES as usize).contains(&sleepers.len()), "a doorbell for each lane, one at least");
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
        if !wanted.is_some_and(|watch| sleep_on(watch, sleepers, &announced, longest)) {
            let tickets = announced.iter().flatten().map(|announced| announced.ticket);
            let words = sleepers.iter().map(|sleeper| bell(sleeper.doorbell).futex);
            futex::wait_any(words.zip(tickets), longest);
        }
    }
    for (announced, sleeper) in announced.into_iter().flatten().zip(sleepers) {
        bell(sleeper.doorbell).withdraw(announced);
    }
}

/// Sleeps on what `watch` has: the doorbells of all lanes of a process strike its one bell, so all are heard.
/// False, without a sleep, if another thread of the process does so already, or if somebody rang meanwhile.
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

    use tutti_base::config::Config;
    use tutti_sys::job::{Job, Plan};

    use super::*;
    use crate::shm::ring_doorbell;
    use crate::waiting::Waiting;

    fn job() -> Arc<Job> {
        let plan = Plan::one_host(1);
        Arc::new(Job::create(&plan).unwrap())
    }

    #[test]
    fn a_wait_spins_then_yields_then_parks() {
        let job = job();
        let (sleeper, bell) = (job.sleeper(0, 0), &job.block(0).doorbell);
        let config = Config::default().changed(|c| c.waiting.spin_us = 50);
        let waiting = Waiting::new(&config, 4, 2, false);
        let mut waiter = waiting.waiter(false);
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
    }

    #[test]
    fn a_sleeper_in_several_lanes_is_woken_in_each() {
        let plan = Plan { lanes: 3, ..Plan::one_host(1) };
        let job = Job::create(&plan).unwrap();
        let waiting = Waiting::asleep(&Config::default());
        for lane in 0..3 {
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let sleepers = [0, 1, 2].map(|lane| job.sleeper(0, lane));
                    let mut waiter = waiting.waiter(false);
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
        let waiting = Waiting::asleep(&Config::default());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut waiter = waiting.waiter(false);
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
