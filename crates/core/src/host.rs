//! What a process is on its host: its settings, its job, its rank; how it waits there, and how it ends the
//! job. No messages: see [`crate::messenger`].

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use tutti_base::config::Config;
use tutti_base::{ErrorClass, WorldRank};
use tutti_sys::clock;
use tutti_sys::job::{Job, RankBlock, RankState, Sleeper};
use tutti_sys::{speaker, this_process};
use tutti_transport::waiting::{Spin, Waiting};
use tutti_transport::{Waiter, Watch};

use crate::boot::starter::Starter;
use crate::lanes::{self, Lane};
use crate::separation::Counterpart;

/// Thread levels (MPI-5 section 11.6), in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// One thread.
    Single,
    /// Only the main thread calls MPI.
    Funneled,
    /// One thread at a time calls MPI.
    Serialized,
    /// Any thread at any time.
    Multiple,
}

/// The largest of the small exit statuses that `mpirun` itself has.
const LAST_OF_LAUNCHER: i32 = 3;
/// Distance of exit statuses that would otherwise be those of `mpirun`, beyond the largest class.
const SHIFTED: i32 = 64;

/// A process on its host.
#[derive(Debug)]
pub struct Host {
    /// When it was made, by the clock of its host.
    pub started_ns: u64,
    /// Number of the process, which a copy made by fork does not have.
    pub pid: u32,
    /// Settings, fixed at start.
    pub config: Config,
    /// The job object of this node.
    pub job: Arc<Job>,
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: WorldRank,
    /// Rank among the processes of this host.
    pub local: u32,
    /// The thread that made it: that called MPI_Init, or opened the first session.
    pub main_thread: ThreadId,
    /// A wait looks for the last time before it sleeps.
    about_to_sleep: AtomicBool,
    /// How threads wait.
    pub waiting: Waiting,
    /// Processes of other jobs that this one is connected with: they want processors too.
    pub guests: AtomicU32,
    /// Who started this process, if not our launcher, until it has left.
    starter: Mutex<Option<Box<dyn Starter>>>,
}

impl Host {
    /// Of the process that calls this and has joined its job. `local` is its rank among those of the host.
    pub fn new(
        config: Config,
        job: Arc<Job>,
        (rank, local): (WorldRank, u32),
        starter: Option<Box<dyn Starter>>,
    ) -> Host {
        let header = job.header();
        let waiting = Waiting::new(&config, header.local_ranks, header.processors, header.has_other_hosts());
        Host {
            started_ns: clock::now_ns(),
            pid: std::process::id(),
            config,
            rank,
            local,
            main_thread: std::thread::current().id(),
            about_to_sleep: AtomicBool::new(false),
            waiting,
            guests: AtomicU32::new(0),
            job,
            starter: Mutex::new(starter),
        }
    }

    /// What this process says about itself to its host.
    pub fn block(&self) -> &RankBlock {
        self.job.block(self.local)
    }

    /// What a thread of this process needs to sleep in a lane.
    pub fn sleeper(&self, lane: Lane) -> Sleeper<'_> {
        self.job.sleeper(self.local, lane.number())
    }

    /// What a sleep watches beside the doorbell, in a job of several hosts.
    pub fn watch(&self) -> Option<Watch<'_>> {
        self.job.bell(self.local).map(Watch::new)
    }

    /// Who wants a processor of this host, as far as this process knows: ranks, guests, and threads of
    /// ranks that wait. The other ranks are taken to have as many of them as this one.
    #[inline]
    fn runners(&self) -> u32 {
        let (ranks, guests) = (self.job.header().local_ranks, self.guests.load(Ordering::Relaxed));
        ranks * (1 + lanes::waiting()) + guests
    }

    /// Whether more want to run on this host than it has processors.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.runners() > self.job.header().processors
    }

    /// The looks at the transport with which a wait begins.
    #[inline]
    pub fn spin(&self) -> Spin {
        let is_crowded = lanes::waiting() > 0 && self.is_crowded();
        Spin::new(self.waiting.message_looks(is_crowded))
    }

    /// Whether a wait gives its processor away at once that ends when all of so many ranks have run: more
    /// than there are processors, so some of them have to come here first. With fewer, those that are
    /// waited for may run just now, and what they send is here before the processor could have been given
    /// away and come back. Ranks of other hosts have other processors, unless it was seen that theirs are
    /// these.
    #[inline]
    pub fn gives_way(&self, ranks: u32) -> bool {
        let header = self.job.header();
        let are_missing = ranks > header.processors;
        let is_shared = || !header.has_other_hosts() || self.waiting.is_shared(self.is_crowded());
        are_missing && self.waiting.limits.gives_way() && is_shared()
    }

    /// The one whom a wait is for; `None` if it makes no difference where that is: this process has its
    /// processor for itself, or the other one is on another host. With threads nobody knows which of them
    /// runs.
    pub fn counterpart(&self, world: WorldRank) -> Option<Counterpart<'_>> {
        if !self.is_crowded() || lanes::several_wait() {
            return None;
        }
        let local = self.local_rank(world)?;
        let moves = self.config.waiting.move_apart && self.local > local;
        Some(Counterpart::new(&self.job.block(local).doorbell, moves))
    }

    /// How a wait that begins now waits.
    pub fn waiter(&self) -> Waiter<'_> {
        self.waiting.waiter(self.is_crowded())
    }

    /// The rank among those of this host of a process of the own job that runs here.
    #[inline]
    pub fn local_rank(&self, world: WorldRank) -> Option<u32> {
        if self.is_foreign(world) { None } else { self.job.local_rank(world.0) }
    }

    /// Whether a process belongs to another job: the number is then one of [`crate::dynamic`].
    #[inline]
    pub fn is_foreign(&self, world: WorldRank) -> bool {
        world.0 >= self.job.header().world_size
    }

    /// Number of processes of the job.
    pub fn world_size(&self) -> u32 {
        self.job.header().world_size
    }

    /// Ends the job: says why, tells the launcher, leaves at once. Does not return.
    pub fn abort(&self, code: i32, why: &str) -> ! {
        let block = self.block();
        say(why);
        block.abort_code.store(code, Ordering::Relaxed);
        block.set_state(RankState::Aborted);
        // Another thread may be waiting in it: then it ends the job when it sees our status.
        if let Ok(mut starter) = self.starter.try_lock()
            && let Some(starter) = starter.as_mut()
        {
            starter.abort(exit_status(code), why);
        }
        // Of a process that a rank has forked only the rank's own end ends the job.
        speaker::end_origin();
        this_process::exit_now(exit_status(code))
    }

    /// Ends the job because of an error of `class` that concerns no call of the program. Does not return.
    pub fn fail(&self, class: ErrorClass, why: &str) -> ! {
        let name = speaker::name().unwrap_or_else(|| format!("rank {}", self.rank));
        self.abort(status_of_class(class), &format!("tutti: {name}: {why}"))
    }

    /// Tells the starter that the end of this process is no failure any more. `together`: all ranks do so
    /// now.
    pub(crate) fn leave_starter(&self, together: bool) {
        let starter = self.starter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(error)) = starter.map(|mut starter| starter.leave(together)) {
            eprintln!("Tutti: rank {}: MPI_Finalize: {}", self.rank, error.message);
        }
    }

    /// Whether a wait of this process looks for the last time before it sleeps: who waits for flags says so
    /// now.
    #[inline]
    pub fn is_about_to_sleep(&self) -> bool {
        self.about_to_sleep.load(Ordering::Relaxed)
    }

    /// Runs the last look before a sleep.
    pub fn before_sleeping(&self, look: impl FnOnce() -> bool) -> bool {
        self.about_to_sleep.store(true, Ordering::Relaxed);
        let found = look();
        self.about_to_sleep.store(false, Ordering::Relaxed);
        found
    }
}

/// Writes a report to standard error in one piece, so that lines of other processes do not come between.
pub fn say(report: &str) {
    if !report.is_empty() {
        // Nobody can be told where that fails.
        let _ = std::io::stderr().write_all(format!("{report}\n").as_bytes());
    }
}

/// The exit status of a fatal error of a class: the number of the class. Where that is a status of `mpirun`
/// itself (1 to 3), [`SHIFTED`] is added.
pub fn status_of_class(class: ErrorClass) -> i32 {
    let number = class as i32;
    if number <= LAST_OF_LAUNCHER { SHIFTED + number } else { number }
}

/// The exit status for an abort code: never 0 unless the code is.
pub fn exit_status(code: i32) -> i32 {
    match code & 0xff {
        0 if code != 0 => 1,
        status => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fatal_errors_have_statuses_of_their_own() {
        let statuses: Vec<i32> = ErrorClass::ALL.iter().map(|(class, ..)| status_of_class(*class)).collect();
        for (place, status) in statuses.iter().enumerate() {
            // Those of mpirun (spec/statuses.tsv).
            assert!(![0, 1, 2, 3, 124, 126, 127].contains(status) && *status < 128, "{status}");
            assert!(!statuses[..place].contains(status), "{status}");
        }
        assert_eq!((status_of_class(ErrorClass::Count), status_of_class(ErrorClass::Truncate)), (66, 15));
    }
}
