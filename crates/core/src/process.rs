//! Process: the state that exists once, from MPI_Init to MPI_Finalize (MPI-5 chapter 11).
//! [`crate::lifecycle`] creates and ends it.
//!
//! It has three layers: its [`crate::host`], its [`crate::messenger`], and its [`Library`]. So code that
//! moves messages needs no communicators. A process dereferences to its messenger, and a messenger to its
//! host. Each layer receives only what it needs.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use tutti_base::config::Config;
use tutti_base::{ContextId, Rank, Result};
use tutti_transport::exposure::Exposures;

use crate::boot::{self, Boot};
use crate::communicator::Communicator;
use crate::communicator::collectives::choices::Choices;
use crate::communicator::collectives::learnings::Learnings;
use crate::communicator::collectives::ledger::Ledger;
use crate::communicator::collectives::places::Layouts;
use crate::communicator::collectives::repertoire::Repertoire;
use crate::context::Contexts;
use crate::group::Group;
use crate::host::Host;
use crate::lanes::{self, FirstLaneCell, LaneGuard};
use crate::matching::Numbered;
use crate::messenger::{Above, Messenger};
use crate::offload::Kernel;
use crate::other_jobs::OtherJobs;
use crate::request;
use crate::trace;

/// Context number of `MPI_COMM_WORLD`.
pub const WORLD_CONTEXT: ContextId = ContextId(0);
/// Context number of `MPI_COMM_SELF`.
pub const SELF_CONTEXT: ContextId = ContextId(1);

/// Constructors as collectives see them: the layer above that makes communicators of others.
pub trait Splitter: fmt::Debug + Sync {
    /// Splits a communicator by colour and key (MPI_Comm_split). Returns `None` for colour `MPI_UNDEFINED`.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    fn split(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        comm: &Arc<Communicator>,
        color: i32,
        key: i32,
    ) -> Result<Option<Arc<Communicator>>>;
}

/// Process of the job, with all its layers.
#[derive(Debug)]
pub struct Process {
    /// Messages of the process, and its host.
    pub messenger: Messenger,
    /// Communicators of the process, and their state.
    pub library: Library,
}

/// State of a process about its communicators and their operations.
#[derive(Debug)]
pub struct Library {
    /// Communicator `MPI_COMM_WORLD` of the process.
    pub world: Arc<Communicator>,
    /// Communicator `MPI_COMM_SELF` of the process.
    pub myself: Arc<Communicator>,
    /// Communicators of this process that are not freed, by context.
    pub communicators: FirstLaneCell<Numbered<u32, Arc<Communicator>>>,
    /// Serial numbers for new communicators.
    pub contexts: FirstLaneCell<Contexts>,
    /// Contexts of communicators that programs have created, until the last reference is dropped.
    pub(crate) alive: FirstLaneCell<Numbered<u32, ()>>,
    /// Location of the members of groups.
    pub layouts: Layouts,
    /// Algorithms that were chosen so far.
    pub choices: FirstLaneCell<Choices>,
    /// Results of tuning in this process.
    pub learnings: FirstLaneCell<Learnings>,
    /// Alternatives that tuning may choose, and results of earlier runs.
    pub repertoire: FirstLaneCell<Repertoire>,
    /// Time that tuning has cost in this process.
    pub ledger: FirstLaneCell<Ledger>,
    /// Knowledge about other jobs, and the numbers of their processes here.
    pub other_jobs: FirstLaneCell<OtherJobs>,
    /// Packet program in the kernel, if there is one.
    pub(crate) kernel: FirstLaneCell<Kernel>,
    /// Constructors of communicators, for collectives that need parts of one.
    pub(crate) splitter: &'static dyn Splitter,
}

impl Deref for Process {
    type Target = Messenger;

    #[inline(always)]
    fn deref(&self) -> &Messenger {
        &self.messenger
    }
}

pub(crate) static PROCESS: OnceLock<Process> = OnceLock::new();
pub(crate) static PHASE: AtomicU32 = AtomicU32::new(BEFORE);
pub(crate) const BEFORE: u32 = 0;
pub(crate) const RUNNING: u32 = 1;
pub(crate) const FINALIZED: u32 = 2;

/// Returns the process between MPI_Init and the end of MPI_Finalize, and while a session is open.
#[inline]
pub fn process() -> Option<&'static Process> {
    if PHASE.load(Ordering::Acquire) == RUNNING { PROCESS.get() } else { None }
}

/// Returns the process, also after MPI_Finalize, for objects that may be released then.
pub fn started_ever() -> Option<&'static Process> {
    PROCESS.get()
}

/// Returns the process, for code that only runs while it is initialised, as in started operations.
///
/// # Panics
/// Before MPI_Init and after MPI_Finalize.
#[inline]
pub fn started() -> &'static Process {
    process().expect("an operation is started between MPI_Init and MPI_Finalize")
}

/// Returns the process, for progress of operations, which exist only after the process does.
///
/// # Panics
/// Before the process has joined its job.
#[inline]
pub(crate) fn current() -> &'static Process {
    PROCESS.get().expect("operations are started by a process")
}

/// Returns true if MPI_Init has completed, even if MPI_Finalize has too.
pub fn is_initialized() -> bool {
    PHASE.load(Ordering::Acquire) != BEFORE
}

/// Returns true if MPI_Finalize has completed.
pub fn is_finalized() -> bool {
    PHASE.load(Ordering::Acquire) == FINALIZED
}

impl Process {
    /// Returns a process that has joined its job. `above` and `splitter` are the layers above.
    pub(crate) fn new(
        config: Config,
        boot: Boot,
        above: Above,
        splitter: &'static dyn Splitter,
    ) -> Result<Process> {
        let exposures = Exposures::new(&config).of_job(Arc::clone(&boot.job));
        boot::declare(&boot, exposures.reach())?;
        let Boot { job, rank, local, network, starter } = boot;
        let host = Host::new(config, job, (rank, local), starter);
        let messenger = Messenger::new(host, exposures, network, above)?;
        if !messenger.config.diagnosis.trace.is_empty() {
            trace::begin(Arc::clone(&messenger.job), rank.0, messenger.config.diagnosis.trace_events);
        }
        let library = Library::new(&messenger, splitter);
        request::wrap_after(messenger.config.diagnosis.wrap_after);
        let held = lanes::enter();
        for comm in [&library.world, &library.myself] {
            comm.collectives.wrap_after(&held, messenger.config.diagnosis.wrap_after);
        }
        drop(held);
        Ok(Process { messenger, library })
    }
}

impl Library {
    fn new(host: &Host, splitter: &'static dyn Splitter) -> Library {
        let rank = host.rank;
        let initial = || host.config.diagnosis.initial_error_handler.into();
        let (of_world, of_self) =
            ((Group::world(host.world_size()), Rank(rank.0)), (Group::single(rank), Rank(0)));
        let world =
            Communicator::predefined(WORLD_CONTEXT, "MPI_COMM_WORLD", of_world.0, of_world.1, initial());
        let myself = Communicator::predefined(SELF_CONTEXT, "MPI_COMM_SELF", of_self.0, of_self.1, initial());
        let communicators = [(WORLD_CONTEXT.0, Arc::clone(&world)), (SELF_CONTEXT.0, Arc::clone(&myself))]
            .into_iter()
            .collect();
        Library {
            world,
            myself,
            communicators: FirstLaneCell::new(communicators),
            contexts: FirstLaneCell::new(Contexts::new(host.config.diagnosis.wrap_after)),
            alive: FirstLaneCell::default(),
            layouts: Layouts::default(),
            choices: FirstLaneCell::default(),
            learnings: FirstLaneCell::default(),
            repertoire: FirstLaneCell::default(),
            ledger: FirstLaneCell::default(),
            other_jobs: FirstLaneCell::new(OtherJobs::new(Arc::clone(&host.job))),
            kernel: FirstLaneCell::default(),
            splitter,
        }
    }
}

/// Returns the communicator with this context, if it is not freed.
pub fn by_context(held: &LaneGuard, context: u32) -> Option<Arc<Communicator>> {
    process()?.library.communicators.borrow(held).get(&context).cloned()
}

/// Returns the name of a communicator for messages to the user. The caller holds no lane or only the first.
pub fn name_of_context(context: u32) -> String {
    name_of(&lanes::enter(), context)
}

/// Returns the name of a communicator for messages to the user, for a caller that holds the first lane.
pub fn name_of(held: &LaneGuard, context: u32) -> String {
    let unnamed = || format!("the communicator with context {context}");
    match by_context(held, context) {
        Some(comm) => match comm.name.borrow(held).as_bytes() {
            [] => unnamed(),
            name => String::from_utf8_lossy(name).into_owned(),
        },
        None => unnamed(),
    }
}
