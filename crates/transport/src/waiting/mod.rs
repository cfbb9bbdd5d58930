//! How a thread passes the time until what it waits for is there: the one policy of waiting.
//!
//! Every wait goes through three phases: look again at once for a bounded time; give the processor away between looks, for a
//! bounded time; sleep on everything that can end the wait. How long the first two last depends on who else wants the
//! processor. The number of ranks and processors of a host says what to expect ([`Limits::new`]), but hosts may share one machine
//! and neighbours may compute, so what decides is observed ([`Contention`]):
//!
//! | contention | what was seen | a wait |
//! |---|---|---|
//! | none | giving the processor away found nobody | looks for 20 us, then gives way for 1 ms, then sleeps |
//! | shared | others took it and gave it back soon: they wait too | looks a few times, then gives way, then sleeps |
//! | held | somebody kept it for a slice of the scheduler: he computes | sleeps as soon as it has given so much away |
//!
//! A look in vain by MPI_Test or MPI_Iprobe is no wait, but a loop of nothing else is one ([`Polling`]).
//!
//! [`Phases`], [`Contention`], [`Polling`] and [`Partnership`] are pure: what was seen and the time come in, what to do comes out.
//! They are tested on a model of a scheduler. [`Waiter`] does what they say.

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
pub use polling::{Polling, Turn};
pub use waiter::{Paused, Waiter};

/// How the threads of a process wait. `is_crowded`, where it is asked for: there are more threads that want a processor just now
/// than the host has, so that others want it whatever was seen.
#[derive(Debug)]
pub struct Waiting {
    /// What a wait may take.
    pub limits: Limits,
    /// What was seen of others.
    pub contention: Contention,
    /// Looks in vain of the program.
    pub polling: Polling,
}

impl Waiting {
    /// As [`Limits::new`].
    pub fn new(config: &Config, ranks_on_host: u32, processors: u32, has_network: bool) -> Waiting {
        Waiting::within(Limits::new(config, ranks_on_host, processors, has_network))
    }

    /// For a thread that sleeps whenever there is nothing to do.
    pub fn asleep(config: &Config) -> Waiting {
        Waiting::within(Limits::asleep(config))
    }

    fn within(limits: Limits) -> Waiting {
        let contention = Contention::new(&limits);
        Waiting { limits, contention, polling: Polling::new() }
    }

    /// Whether others want the processor.
    #[inline]
    pub fn is_shared(&self, is_crowded: bool) -> bool {
        is_crowded || self.contention.is_shared()
    }

    /// A wait that begins now.
    #[inline]
    pub fn waiter(&self, is_crowded: bool) -> Waiter<'_> {
        Waiter::new(&self.limits, &self.contention, is_crowded)
    }

    /// Looks at messages with which a wait begins.
    #[inline]
    pub fn message_looks(&self, is_crowded: bool) -> u32 {
        self.limits.budget(self.is_shared(is_crowded)).message_looks
    }

    /// Looks at a flag of the node before everything else is looked at.
    #[inline]
    pub fn flag_looks(&self) -> u32 {
        self.limits.budget(self.contention.is_shared()).flag_looks
    }

    /// Looks at a lock in shared memory before its thread sleeps.
    pub fn lock_looks(&self) -> u32 {
        self.limits.lock_looks()
    }
}
