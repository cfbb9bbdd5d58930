//! Waiting of a thread until an event has happened: the one policy of waiting.
//!
//! Every wait has three phases: look again at once for a bounded time; give the processor away between looks,
//! for a bounded time; sleep on everything that can end the wait. The length of the first two depends on who
//! else wants the processor. The number of ranks and processors of a host gives the expectation
//! ([`Limits::new`]). However, hosts may share one machine and neighbours may compute, so observation decides
//! ([`Contention`]):
//!
//! | contention | what was seen | a wait |
//! |---|---|---|
//! | none | giving the processor away found nobody | looks for 20 us, then gives way for 1 ms, then sleeps |
//! | shared | others took it and gave it back soon: they wait | looks a few times, gives way, then sleeps |
//! | held | another kept it for a slice of the scheduler: it computes | sleeps once it has given that much |
//!
//! An unsuccessful look by MPI_Test or MPI_Iprobe is no wait, but a loop of nothing else is one
//! ([`Polling`]).
//!
//! [`Phases`], [`Contention`], [`Polling`] and [`Partnership`] are pure: observations and the time come in,
//! decisions come out. They are tested on a model of a scheduler. [`Waiter`] carries the decisions out.

mod contention;
mod limits;
mod partnership;
mod phases;
mod polling;
#[cfg(test)]
mod simulation;
mod waiter;

use tutti_base::config::Config;

pub use contention::Contention;
pub use limits::Limits;
pub use partnership::Partnership;
pub use phases::{Phases, Spin, Step};
pub use polling::{PollStep, Polling};
pub use waiter::{Paused, Waiter};

/// Waiting policy of the threads of a process. Several methods take `is_crowded`: true if more threads want a
/// processor now than the host has, so that others want it whatever was seen.
#[derive(Debug)]
pub struct Waiting {
    /// Limits of one wait.
    pub limits: Limits,
    /// Observed use of the processors by others.
    pub contention: Contention,
    /// Unsuccessful looks of the program.
    pub polling: Polling,
}

impl Waiting {
    /// Creates the policy with the limits of [`Limits::new`].
    pub fn new(config: &Config, ranks_on_host: u32, processors: u32, has_network: bool) -> Waiting {
        Waiting::within(Limits::new(config, ranks_on_host, processors, has_network))
    }

    /// Creates the policy of a thread that sleeps whenever there is nothing to do.
    pub fn asleep(config: &Config) -> Waiting {
        Waiting::within(Limits::asleep(config))
    }

    fn within(limits: Limits) -> Waiting {
        let contention = Contention::new(&limits);
        Waiting { limits, contention, polling: Polling::new() }
    }

    /// Returns true if others want the processor.
    #[inline]
    pub fn is_shared(&self, is_crowded: bool) -> bool {
        is_crowded || self.contention.is_shared()
    }

    /// Starts a wait of the calling thread.
    #[inline]
    pub fn waiter(&self, is_crowded: bool) -> Waiter<'_> {
        Waiter::new(&self.limits, &self.contention, is_crowded)
    }

    /// Looks at messages with which a wait begins.
    #[inline]
    pub fn message_looks(&self, is_crowded: bool) -> u32 {
        self.limits.budget(self.is_shared(is_crowded)).message_looks
    }

    /// Returns the number of looks at a flag of the node before everything else is checked.
    #[inline]
    pub fn flag_looks(&self) -> u32 {
        self.limits.budget(self.contention.is_shared()).flag_looks
    }

    /// Returns the number of looks at a lock in shared memory before its thread sleeps.
    pub fn lock_looks(&self) -> u32 {
        self.limits.lock_looks()
    }
}
