//! Process on its host: its settings, job and rank, its waiting, and the abort of the job. Messages are in
//! [`crate::messenger`].

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

/// Thread levels (MPI-5 section 11.6), in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// Only one thread exists.
    Single,
    /// Only the main thread calls MPI.
    Funneled,
    /// One thread at a time calls MPI.
    Serialized,
    /// Any thread may call MPI at any time.
    Multiple,
}

/// Largest of the small exit statuses that `mpirun` uses itself.
const LAST_OF_LAUNCHER: i32 = 3;
/// Added to exit statuses that would be equal to one of `mpirun`. The sum is beyond the largest class.
const SHIFTED: i32 = 64;

/// State of a process on its host.
#[derive(Debug)]
pub struct Host {
    /// Time of creation, in nanoseconds of the host's clock.
    pub started_ns: u64,
    /// Process id, which a copy made by fork does not have.
    pub pid: u32,
    /// Settings, which are fixed at the start.
    pub config: Config,
    /// Job object of this node.
    pub job: Arc<Job>,
    /// Rank of the process in `MPI_COMM_WORLD`.
    pub rank: WorldRank,
    /// Rank among the processes of this host.
    pub local: u32,
    /// Thread that created the process: it called MPI_Init or opened the first session.
    pub main_thread: ThreadId,
    /// True while a wait checks for the last time before it sleeps.
    about_to_sleep: AtomicBool,
    /// Parameters for the waiting of threads.
    pub waiting: Waiting,
    /// Number of connected processes of other jobs. They need processors too.
    pub guests: AtomicU32,
    /// Process manager that started this process, if it is not `mpirun`, until the process has left it.
    starter: Mutex<Option<Box<dyn Starter>>>,
}

impl Host {
    /// Returns the host of the calling process, which has joined its job. `local` is its rank among those of
    /// the host.
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

    /// Returns the block of this process in the job object, which other processes of the host read.
    pub fn block(&self) -> &RankBlock {
        self.job.block(self.local)
    }

    /// Returns the state that a thread of this process needs to sleep in a lane.
    pub fn sleeper(&self, lane: Lane) -> Sleeper<'_> {
        self.job.sleeper(self.local, lane.number())
    }

    /// Returns the object that a sleep watches besides the doorbell, in a job of several hosts.
    pub fn watch(&self) -> Option<Watch<'_>> {
        self.job.bell(self.local).map(Watch::new)
    }

    /// Estimates the number of threads that need a processor of this host: ranks, guests, and waiting threads
    /// of ranks. The other ranks are assumed to have as many of these as this one.
    #[inline]
    fn runners(&self) -> u32 {
        let (ranks, guests) = (self.job.header().local_ranks, self.guests.load(Ordering::Relaxed));
        ranks * (1 + lanes::waiting()) + guests
    }

    /// Returns true if more threads need a processor than the host has.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.runners() > self.job.header().processors
    }

    /// Returns the polls of the transport with which a wait begins.
    #[inline]
    pub fn spin(&self) -> Spin {
        let is_crowded = lanes::waiting() > 0 && self.is_crowded();
        Spin::new(self.waiting.message_looks(is_crowded))
    }

    /// Returns true if a wait for all of `ranks` ranks should yield its processor at once.
    ///
    /// With more ranks than processors, some of them can only run on this one. With fewer, the awaited ranks
    /// may be running now, and their messages arrive faster than a yield returns. Ranks of other hosts have
    /// processors of their own, unless measurements have shown that these are shared.
    #[inline]
    pub fn gives_way(&self, ranks: u32) -> bool {
        let header = self.job.header();
        let are_missing = ranks > header.processors;
        let is_shared = || !header.has_other_hosts() || self.waiting.is_shared(self.is_crowded());
        are_missing && self.waiting.limits.gives_way() && is_shared()
    }

    /// Returns the awaited process. Returns None if its location does not matter: this process does not share
    /// its processor, the other is on another host, or several threads wait.
    pub fn counterpart(&self, world: WorldRank) -> Option<Counterpart<'_>> {
        if !self.is_crowded() || lanes::several_wait() {
            return None;
        }
        let local = self.local_rank(world)?;
        let moves = self.config.waiting.move_apart && self.local > local;
        Some(Counterpart::new(&self.job.block(local).doorbell, moves))
    }

    /// Returns the waiter for a wait that begins now.
    pub fn waiter(&self) -> Waiter<'_> {
        self.waiting.waiter(self.is_crowded())
    }

    /// Returns the local rank of a process of the own job, if it runs on this host.
    #[inline]
    pub fn local_rank(&self, world: WorldRank) -> Option<u32> {
        if self.is_foreign(world) { None } else { self.job.local_rank(world.0) }
    }

    /// Returns true if a process belongs to another job. Its number is then one of [`crate::dynamic`].
    #[inline]
    pub fn is_foreign(&self, world: WorldRank) -> bool {
        world.0 >= self.job.header().world_size
    }

    /// Returns the number of processes of the job.
    pub fn world_size(&self) -> u32 {
        self.job.header().world_size
    }

    /// Aborts the job: writes the reason, informs the launcher, and exits at once. Does not return.
    pub fn abort(&self, code: i32, why: &str) -> ! {
        let block = self.block();
        say(why);
        block.abort_code.store(code, Ordering::Relaxed);
        block.set_state(RankState::Aborted);
        // Another thread may hold the lock while it waits in the process manager. The job then ends when our
        // status is seen.
        if let Ok(mut starter) = self.starter.try_lock()
            && let Some(starter) = starter.as_mut()
        {
            starter.abort(exit_status(code), why);
        }
        // If a rank has forked this process, the job ends only with the rank itself.
        speaker::end_origin();
        this_process::exit_now(exit_status(code))
    }

    /// Aborts the job because of an error of `class` that belongs to no call of the program. Does not return.
    pub fn fail(&self, class: ErrorClass, why: &str) -> ! {
        let name = speaker::name().unwrap_or_else(|| format!("rank {}", self.rank));
        self.abort(status_of_class(class), &format!("tutti: {name}: {why}"))
    }

    /// Informs the process manager that the exit of this process is no failure any more. `together` is true
    /// if all ranks do so now.
    pub(crate) fn leave_starter(&self, together: bool) {
        let starter = self.starter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(error)) = starter.map(|mut starter| starter.leave(together)) {
            eprintln!("Tutti: rank {}: MPI_Finalize: {}", self.rank, error.message);
        }
    }

    /// Returns true while a wait of this process checks for the last time before it sleeps. Code that waits
    /// for flags then registers for a wake-up.
    #[inline]
    pub fn is_about_to_sleep(&self) -> bool {
        self.about_to_sleep.load(Ordering::Relaxed)
    }

    /// Runs the last check before a sleep.
    pub fn before_sleeping(&self, look: impl FnOnce() -> bool) -> bool {
        self.about_to_sleep.store(true, Ordering::Relaxed);
        let found = look();
        self.about_to_sleep.store(false, Ordering::Relaxed);
        found
    }
}

/// Writes a report to standard error in one piece, so that lines of other processes do not interleave.
pub fn say(report: &str) {
    if !report.is_empty() {
        // An error cannot be reported anywhere.
        let _ = std::io::stderr().write_all(format!("{report}\n").as_bytes());
    }
}

/// Returns the exit status of a fatal error: the number of its class. If that is a status of `mpirun` itself
/// (1 to 3), [`SHIFTED`] is added.
pub fn status_of_class(class: ErrorClass) -> i32 {
    let number = class as i32;
    if number <= LAST_OF_LAUNCHER { SHIFTED + number } else { number }
}

/// Returns the exit status for an abort code. It is 0 only if the code is.
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
