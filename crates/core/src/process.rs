//! The process: what there is once of everything, from MPI_Init to MPI_Finalize (MPI-5 chapter 11). How it
//! comes and goes: [`crate::lifecycle`].

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

use tutti_base::config::{Config, Mapped};
use tutti_base::{ContextId, Error, ErrorClass, Rank, Result, WorldRank};
use tutti_sys::clock;
use tutti_sys::job::{Job, RankBlock, RankState, Sleeper};
use tutti_sys::this_process;
use tutti_transport::exposure::Exposures;
pub use tutti_transport::exposure::advise;
use tutti_transport::fabric::{self, FabricLink, Identity};
use tutti_transport::shm::ring_doorbell;
use tutti_transport::waiting::{Partnership, Spin, Waiting};
use tutti_transport::{Link, Links, Peer, ShmLink, Waiter, Watch};

use crate::apart::{Apart, Counterpart};
use crate::boot::starter::Starter;
use crate::boot::{self, Boot, Network};
use crate::collective::{Choices, Learnings};
use crate::communicator::Communicator;
use crate::context::Contexts;
use crate::giant::{self, GiantCell, Held, Lane, LaneCells};
use crate::group::Group;
use crate::matching::{Envelope, Numbered, Signature};
use crate::offload::Kernel;
use crate::p2p::{Limits, PointToPoint};
use crate::single_copy::Reader;
use crate::trace;

/// Context of `MPI_COMM_WORLD`.
pub const WORLD_CONTEXT: ContextId = ContextId(0);
/// Context of `MPI_COMM_SELF`.
pub const SELF_CONTEXT: ContextId = ContextId(1);

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

/// All links of a process.
pub type AllLinks = Links<FabricLink>;

/// An operation that goes on by itself whenever messages move.
pub trait Activity: Send + fmt::Debug {
    /// Does what can be done now; itself, unless it is over. With `patient` nobody has anything else to do.
    fn advance(self: Box<Self>, held: &Held, process: &Process, patient: bool) -> Option<Box<dyn Activity>>;
    /// Whether it never calls anything of the program's, so that any thread may advance it.
    fn is_unattended(&self) -> bool {
        false
    }
}

/// MPI_Comm_split.
type Split = fn(&mut Held, &Process, &Communicator, i32, i32) -> Result<Option<Arc<Communicator>>>;

/// What progress and collectives ask of who is above them.
#[derive(Debug)]
pub struct Above {
    /// Windows have active messages to do.
    pub answer_calls: fn(&Held, &Process),
    /// A member waits for long in the operation of the envelope, and takes it for what the signature says.
    pub answer: fn(&Held, &Process, WorldRank, Envelope, Signature),
    /// Before a sleep: looks at one of the processes of other jobs that this one is connected with.
    pub watch_others: fn(&Held, &Process),
    /// Whether a process has left, of whatever job.
    pub is_gone: fn(&Held, &Process, WorldRank) -> bool,
    /// Splits a communicator, by colour and key.
    pub split: Split,
}

/// One process of the job.
#[derive(Debug)]
pub struct Process {
    /// See there.
    pub(crate) above: Above,
    /// When it was made, by the clock of its host.
    pub started_ns: u64,
    /// Settings, fixed at start.
    pub config: Config,
    /// The job object of this node.
    pub job: Arc<Job>,
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: WorldRank,
    /// Rank among the processes of this host.
    pub local: u32,
    /// What the program asked for and got.
    pub thread_level: ThreadLevel,
    /// The thread that called MPI_Init.
    pub main_thread: ThreadId,
    /// Messages, lane by lane.
    pub messages: LaneCells<PointToPoint<AllLinks>>,
    /// Operations that go on by themselves: non-blocking collectives and the like.
    pub activities: GiantCell<Vec<Option<Box<dyn Activity>>>>,
    /// How long waits look at their partner while that runs.
    pub partnership: GiantCell<Partnership>,
    /// When waits move to another processor.
    pub apart: GiantCell<Apart>,
    /// Which algorithms were chosen so far.
    pub choices: GiantCell<Choices>,
    /// What tuning has learned in this process.
    pub learnings: GiantCell<Learnings>,
    /// `MPI_COMM_WORLD`.
    pub world: Arc<Communicator>,
    /// `MPI_COMM_SELF`.
    pub myself: Arc<Communicator>,
    /// Every communicator of this process that is not freed, by context.
    pub communicators: GiantCell<Numbered<u32, Arc<Communicator>>>,
    /// Context numbers.
    pub contexts: GiantCell<Contexts>,
    /// What collectives lend to be read is lent where it is mapped, from so many bytes on; what is shorter
    /// is copied beside a bank.
    pub near_bytes: u64,
    /// A wait looks for the last time before it sleeps.
    about_to_sleep: AtomicBool,
    /// Memory that is lent to the other processes of the node.
    pub exposures: GiantCell<Exposures>,
    /// The kernel's packet program, if there is one.
    pub kernel: GiantCell<Kernel>,
    /// How threads wait.
    pub waiting: Waiting,
    /// Processes of other jobs that this one is connected with: they want processors too.
    pub guests: AtomicU32,
    /// Who started this process, if not our launcher, until it has left.
    starter: Mutex<Option<Box<dyn Starter>>>,
}

pub(crate) static PROCESS: OnceLock<Process> = OnceLock::new();
pub(crate) static PHASE: AtomicU32 = AtomicU32::new(BEFORE);
pub(crate) const BEFORE: u32 = 0;
pub(crate) const RUNNING: u32 = 1;
pub(crate) const FINALIZED: u32 = 2;

/// The process, between MPI_Init and the end of MPI_Finalize.
#[inline]
pub fn process() -> Option<&'static Process> {
    if PHASE.load(Ordering::Acquire) == RUNNING { PROCESS.get() } else { None }
}

/// The process, for what only runs between the two: an operation that was started there.
///
/// # Panics
/// Before MPI_Init and after MPI_Finalize.
#[inline]
pub fn started() -> &'static Process {
    process().expect("an operation is started between MPI_Init and MPI_Finalize")
}

/// Whether MPI_Init has completed, now or ever.
pub fn is_initialized() -> bool {
    PHASE.load(Ordering::Acquire) != BEFORE
}

/// Whether MPI_Finalize has completed.
pub fn is_finalized() -> bool {
    PHASE.load(Ordering::Acquire) == FINALIZED
}

impl Process {
    /// One that has joined its job. `above`: what is asked of who is above it.
    pub(crate) fn new(
        config: Config,
        boot: Boot,
        thread_level: ThreadLevel,
        above: Above,
    ) -> Result<Process> {
        let exposures = Exposures::new(&config).of_job(Arc::clone(&boot.job));
        boot::declare(&boot, exposures.reach())?;
        let Boot { job, rank, local, network, starter } = boot;
        let header = *job.header();
        let crowded = header.local_ranks > header.processors;
        let near = ShmLink::new(Arc::clone(&job), local).map_err(|error| no_link(&error))?;
        let identity = identity(&job, rank);
        let casting = network.as_ref().and_then(|_| fabric::casting(&config, &identity));
        let far = network.map(|network| far_link(&config, &job, &identity, network)).transpose()?;
        let link = Links::new(near, far).with_casting(casting);
        let near_bytes = near_bytes(&config, crowded);
        let limits =
            Limits::new(&config, link.max_payload(), u64::from(header.world_size)).shared_by(giant::lanes());
        let reader = Reader::new(&config, Arc::clone(&job));
        let further =
            if giant::lanes() > 1 { further_lanes(&config, &job, local, limits)? } else { Vec::new() };
        let waiting = Waiting::new(&config, header.local_ranks, header.processors, header.has_other_hosts());
        let world_group = Group::world(header.world_size);
        let initial = || config.initial_error_handler.into();
        let (of_world, of_self) = ((world_group, Rank(rank.0)), (Group::single(rank), Rank(0)));
        let world =
            Communicator::predefined(WORLD_CONTEXT, "MPI_COMM_WORLD", of_world.0, of_world.1, initial());
        let myself = Communicator::predefined(SELF_CONTEXT, "MPI_COMM_SELF", of_self.0, of_self.1, initial());
        let communicators = [(WORLD_CONTEXT.0, Arc::clone(&world)), (SELF_CONTEXT.0, Arc::clone(&myself))]
            .into_iter()
            .collect();
        let messages = LaneCells::new(PointToPoint::new(link, Peer(rank.0), limits, reader), further);
        if !config.trace.is_empty() {
            trace::begin(Arc::clone(&job), rank.0, config.trace_events);
        }
        Ok(Process {
            above,
            started_ns: clock::now_ns(),
            config,
            rank,
            local,
            thread_level,
            main_thread: std::thread::current().id(),
            messages,
            partnership: GiantCell::new(Partnership::default()),
            apart: GiantCell::new(Apart::default()),
            activities: GiantCell::new(Vec::new()),
            choices: GiantCell::default(),
            learnings: GiantCell::default(),
            world,
            myself,
            communicators: GiantCell::new(communicators),
            contexts: GiantCell::new(Contexts::new(SELF_CONTEXT.0 + 1)),
            near_bytes,
            exposures: GiantCell::new(exposures),
            about_to_sleep: AtomicBool::new(false),
            kernel: GiantCell::default(),
            waiting,
            guests: AtomicU32::new(0),
            job,
            starter: Mutex::new(starter),
        })
    }

    /// What this process says about itself to its host.
    pub fn block(&self) -> &RankBlock {
        self.job.block(self.local)
    }

    /// What a thread of this process needs to sleep in a lane.
    pub fn sleeper(&self, lane: Lane) -> Sleeper<'_> {
        self.job.sleeper(self.local, lane.number())
    }

    /// Does something in a lane, for who holds that or the first.
    #[inline(always)]
    pub fn in_lane<R>(&self, held: &Held, lane: Lane, work: impl FnOnce(&Held) -> R) -> R {
        let other = held.other_lane(lane);
        let result = work(other.as_ref().unwrap_or(held));
        if let Some(other) = other {
            tell_threads(&other, self);
        }
        result
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
        ranks * (1 + giant::waiting()) + guests
    }

    /// Whether more want to run on this host than it has processors.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.runners() > self.job.header().processors
    }

    /// The looks at the transport with which a wait begins.
    #[inline]
    pub fn spin(&self) -> Spin {
        let is_crowded = giant::waiting() > 0 && self.is_crowded();
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
        if !self.is_crowded() || giant::threads_allowed() {
            return None;
        }
        let local = self.local_rank(world)?;
        let moves = self.config.move_apart && self.local > local;
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
        if !why.is_empty() {
            eprintln!("{why}");
        }
        block.abort_code.store(code, Ordering::Relaxed);
        block.set_state(RankState::Aborted);
        // Another thread may be waiting in it: then it ends the job when it sees our status.
        if let Ok(mut starter) = self.starter.try_lock()
            && let Some(starter) = starter.as_mut()
        {
            starter.abort(exit_status(code), why);
        }
        this_process::exit_now(exit_status(code))
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

    /// Adds an operation that goes on by itself.
    pub fn add_activity(&self, held: &Held, activity: Box<dyn Activity>) {
        self.activities.borrow_mut(held).push(Some(activity));
    }
}

/// Wakes the threads of this process that sleep, if something has happened since this was last called that one of
/// them may wait for. Called wherever a thread leaves the library or lets others in.
#[inline]
pub fn tell_threads(held: &Held, process: &Process) {
    if !giant::threads_allowed() {
        return;
    }
    let requests = &mut process.messages.borrow_mut(held).state.requests;
    if std::mem::take(&mut requests.news) {
        requests.told += 1;
        ring_doorbell(&process.job, process.local, held.lane().number());
    }
}

/// The messages of all lanes but the first. From now on the ranks of the host may send in them.
fn further_lanes(
    config: &Config,
    job: &Arc<Job>,
    local: u32,
    limits: Limits,
) -> Result<Vec<PointToPoint<AllLinks>>> {
    let lane = |number| {
        let near = ShmLink::in_lane(Arc::clone(job), local, number).map_err(|error| no_link(&error))?;
        let reader = Reader::new(config, Arc::clone(job));
        let messages = PointToPoint::new(Links::new(near, None), Peer(local), limits, reader);
        Ok(Lane::new(number).map(|lane| messages.in_lane(lane)))
    };
    let lanes = (1..giant::lanes()).filter_map(|number| lane(number).transpose()).collect();
    job.block(local).in_lanes.store(1, Ordering::Release);
    lanes
}

fn no_link(error: &std::io::Error) -> Error {
    Error::new(ErrorClass::Other, format!("cannot use the job object: {error}"))
}

/// The link to other hosts. See [`Process::near_bytes`]. Whoever copies waits for nobody, which counts for
/// more where ranks share processors; and to ask the kernel whether memory is mapped takes as long as to
/// copy.
fn near_bytes(config: &Config, crowded: bool) -> u64 {
    const NEAR_BYTES: u64 = 8 << 10;
    let pays = !crowded && config.mapped != Mapped::Never && config.mapped_watch;
    if pays { NEAR_BYTES } else { u64::MAX }
}

/// Who this process is among those of other hosts.
fn identity(job: &Job, rank: WorldRank) -> Identity {
    let header = job.header();
    Identity {
        rank: rank.0,
        ranks: header.world_size,
        job_id: header.job_id,
        secret: header.secret,
        interface: header.interface().to_string(),
        is_kept: true,
    }
}

fn far_link(
    config: &Config,
    job: &Arc<Job>,
    identity: &Identity,
    network: Network,
) -> Result<Box<FabricLink>> {
    job.set_bells(network.bells);
    let link = FabricLink::new(config, identity, network.directory);
    let refused = |error| Error::new(ErrorClass::Other, format!("cannot use the network: {error}"));
    link.map(Box::new).map_err(refused)
}

/// The exit status for an abort code: never 0 unless the code is.
pub fn exit_status(code: i32) -> i32 {
    match code & 0xff {
        0 if code != 0 => 1,
        status => status,
    }
}
