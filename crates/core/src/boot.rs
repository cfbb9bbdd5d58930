//! Start of a process: finds its rank and its job, from our launcher, from another starter (PMIx, PMI), or
//! alone.

mod daemon;
mod guardian;
mod hosted;
pub mod meeting;
pub mod pmi;
mod pmix;
pub mod privileged;
pub mod starter;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tutti_base::config::Config;
use tutti_base::{Error, ErrorClass, Result, WorldRank};
use tutti_sys::job::{
    Declaration, ENV_BELL_FDS, ENV_DIRECTORY_FD, ENV_FD, ENV_RANK, Job, MOST_GENERATIONS, Plan, Reach, Secret,
};
use tutti_sys::{cpu, refusal, speaker, this_process};
use tutti_transport::Directory;

use starter::Starter;

/// Position of this process in its job.
#[derive(Debug)]
pub struct Boot {
    /// The job object of this host.
    pub job: Arc<Job>,
    /// Rank in the world.
    pub rank: WorldRank,
    /// Rank among the ranks of this host.
    pub local: u32,
    /// Connection data for other hosts, present only in a job of several hosts.
    pub network: Option<Network>,
    /// Starter of this process, if it is not our launcher. It is notified when the process
    /// leaves, and can end the job.
    pub starter: Option<Box<dyn Starter>>,
}

/// Connection data that a process needs to reach other hosts.
#[derive(Debug)]
pub struct Network {
    /// Directory of the addresses of other ranks.
    pub directory: Box<dyn Directory>,
    /// Eventfds on which the local ranks sleep, by local rank.
    pub bells: Vec<OwnedFd>,
}

/// Joins the job that the environment describes, or makes a job of this process alone (singleton start).
///
/// # Errors
/// Returns `Other` if the environment names something that is not a job, or a starter that does not answer.
pub fn join(config: &Config) -> Result<Boot> {
    match (variable(ENV_FD)?, variable(ENV_RANK)?) {
        // Processes that a rank starts inherit its variables, also through another launcher.
        (Some(fd), Some(rank)) if speaker::joined_ancestor(fd as i32).is_some() => {
            match starter::find(config)? {
                Some(starter) => hosted::join(config, starter),
                None => {
                    speaker::set_starter(rank);
                    alone(config)
                }
            }
        }
        (Some(fd), Some(rank)) => inherited(fd, rank),
        (None, None) => match starter::find(config)? {
            Some(starter) => hosted::join(config, starter),
            None => alone(config),
        },
        _ => Err(broken("only one of the variables of the launcher is set")),
    }
}

/// Returns the name in messages of a process that has not joined a job: `rank 3` for one that a launcher has
/// started.
pub fn name_before_joining() -> Option<String> {
    let (fd, rank) = (variable(ENV_FD).ok()??, variable(ENV_RANK).ok()??);
    match speaker::joined_ancestor(fd as i32) {
        None => Some(format!("rank {rank}")),
        Some(_) => Some(format!("process {} (started by rank {rank})", std::process::id())),
    }
}

/// Publishes what the other ranks of the host need to know of this process. `reach` is its access to the
/// memory of ranks like it.
///
/// # Errors
/// Returns `Other` if the system provides no random numbers.
pub fn declare(boot: &Boot, reach: Reach) -> Result<()> {
    /// Random value known to no other process. A peer that can read it here can read all memory of this
    /// process.
    static PROOF: AtomicU64 = AtomicU64::new(0);
    let proof = tutti_sys::process::random().map_err(|error| no_job(&error))?;
    PROOF.store(proof, Ordering::Relaxed);
    let proof_address = std::ptr::from_ref(&PROOF) as u64;
    boot.job.declare(boot.local, &Declaration { proof_address, proof, reach });
    Ok(())
}

/// Sets whether programs that this process starts inherit the job's memory, which holds the secret of the
/// job. They need it before MPI_Init (the rank may be a shell), and after MPI_Finalize, when a rank becomes
/// its next MPI program. In between none of them can join.
pub fn set_inheritance(job: &Job, inherits: bool) {
    if let (Ok(Some(number)), Ok(object)) = (variable(ENV_FD), job.object()) {
        this_process::set_inheritance(number as i32, object, inherits);
    }
}

/// Joins the job of our launcher: `fd` is the descriptor of the job object, `rank` the rank of this
/// process.
fn inherited(fd: u32, rank: u32) -> Result<Boot> {
    let job = Job::attach(descriptor(fd)?).map_err(|error| broken(&refusal::explain(&error)))?;
    if rank >= job.header().world_size {
        return Err(broken("the rank is beyond the size of the job"));
    }
    let local = job.local_rank(rank).ok_or_else(|| broken("the rank belongs to another host"))?;
    let job = Arc::new(job.join(local).map_err(|error| not_entered(&error))?);
    let network = if job.header().has_other_hosts() { Some(inherited_network(&job, local)?) } else { None };
    this_process::die_with_parent();
    Ok(Boot { job, rank: WorldRank(rank), local, network, starter: None })
}

/// Explains why this process cannot be the next MPI program of its rank.
fn not_entered(error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => broken(
            "another process of this rank has called MPI_Init and has not called MPI_Finalize; a rank runs one MPI program \
             after the other",
        ),
        std::io::ErrorKind::StorageFull => broken(&format!(
            "this rank is {MOST_GENERATIONS} MPI programs ahead of another rank of its host, and can go no further"
        )),
        _ => broken(&refusal::explain(error)),
    }
}

/// Returns the directory and the doorbells that our daemon handed down.
fn inherited_network(job: &Arc<Job>, local: u32) -> Result<Network> {
    let fd = variable(ENV_DIRECTORY_FD)?.ok_or_else(|| broken("the way to the daemon is missing"))?;
    let directory = Box::new(daemon::DaemonDirectory::new(descriptor(fd)?, Arc::clone(job), local));
    let listed = std::env::var(ENV_BELL_FDS).unwrap_or_default();
    let numbers = listed.split(',').map(|number| number.parse().map_err(|_| broken("the bells are missing")));
    let bells = numbers.map(|number| descriptor(number?)).collect::<Result<Vec<_>>>()?;
    if bells.len() != job.header().local_ranks as usize {
        return Err(broken("there is not a bell for each local rank"));
    }
    Ok(Network { directory, bells })
}

/// Takes over an inherited descriptor. Returns an error if it is not open any more.
fn descriptor(number: u32) -> Result<OwnedFd> {
    this_process::adopt_descriptor(number as i32).map_err(|error| {
        if !refusal::is_of_closed(&error) {
            return broken(&refusal::explain(&error));
        }
        broken(&format!(
            "descriptor {number}, which mpirun handed down, is not open any more: the program, or what started it, has closed the \
             descriptors that it inherited, which it must not do before MPI_Init has returned"
        ))
    })
}

/// Makes a job of one rank for a process that was started without a launcher.
fn alone(config: &Config) -> Result<Boot> {
    let processors = cpu::usable_processors() as u32;
    let plan = Plan {
        processors,
        secret: Secret::random().map_err(|error| no_job(&error))?,
        ring_bytes: config.messages.ring_bytes.max(64 << 10),
        job_id: tutti_sys::process::random().map_err(|error| no_job(&error))?,
        banks: config.bank_sizes_for(1),
        ..Plan::one_host(1)
    };
    let job = Job::create(&plan).map_err(|error| no_job(&error))?;
    Ok(Boot { job: Arc::new(job), rank: WorldRank(0), local: 0, network: None, starter: None })
}

/// Reads a number from an environment variable; `None` if it is not set.
fn variable(name: &str) -> Result<Option<u32>> {
    match std::env::var(name) {
        Err(_) => Ok(None),
        Ok(text) => text.parse().map(Some).map_err(|_| broken(&format!("{name} is {text:?}"))),
    }
}

/// Makes the error of a job object that cannot be created.
fn no_job(error: &std::io::Error) -> Error {
    Error::new(ErrorClass::Other, format!("no shared memory for the job: {}", refusal::explain(error)))
}

/// Makes the error of a launcher's job that cannot be joined.
fn broken(why: &str) -> Error {
    Error::new(
        ErrorClass::Other,
        format!(
            "the environment says this process belongs to a Tutti job, but it cannot be joined: {why}; start it with mpirun, or unset {ENV_FD} and {ENV_RANK}"
        ),
    )
}
