//! Who am I: from the environment that the launcher gave, or alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tutti_base::config::Config;
use tutti_base::{Error, ErrorClass, Result};
use tutti_sys::job::{ENV_FD, ENV_RANK, Job, Plan, Reach};
use tutti_sys::{cpu, this_process};

/// Where this process stands.
#[derive(Debug)]
pub struct Boot {
    /// The job object of this node.
    pub job: Arc<Job>,
    /// Local rank, which on one node is the rank in the world.
    pub rank: u32,
}

/// Joins the job that the environment names, or makes one of this process alone (singleton start).
///
/// # Errors
/// `Other` when the environment names something that is not a job.
pub fn join(config: &Config) -> Result<Boot> {
    let boot = match (variable(ENV_FD)?, variable(ENV_RANK)?) {
        (Some(fd), Some(rank)) => inherited(fd, rank)?,
        (None, None) => alone(config)?,
        _ => return Err(broken("only one of the variables of the launcher is set")),
    };
    let block = boot.job.block(boot.rank);
    block.probe_address.store(std::ptr::from_ref(&PROBE) as u64, Ordering::Relaxed);
    PROBE.store(boot.job.header().job_id, Ordering::Relaxed);
    block.pid.store(std::process::id() as i32, Ordering::Release);
    Ok(boot)
}

/// Holds the number of the job: a peer that can read it here can read anything here.
static PROBE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

fn inherited(fd: u32, rank: u32) -> Result<Boot> {
    let fd = this_process::adopt_descriptor(fd as i32).map_err(|error| broken(&error.to_string()))?;
    let job = Job::attach(fd).map_err(|error| broken(&error.to_string()))?;
    if rank >= job.header().local_ranks {
        return Err(broken("the rank is beyond the size of the job"));
    }
    this_process::die_with_parent();
    Ok(Boot { job: Arc::new(job), rank })
}

fn alone(config: &Config) -> Result<Boot> {
    let plan = Plan {
        local_ranks: 1,
        world_size: 1,
        processors: cpu::usable_processors() as u32,
        universe_size: 1,
        ring_bytes: config.ring_bytes.max(64 << 10),
        job_id: tutti_sys::process::random().map_err(|error| no_job(&error))?,
        banks: config.bank_sizes_for(1),
        reach: Reach::None,
        machine: Vec::new(),
    };
    let job = Job::create(&plan).map_err(|error| no_job(&error))?;
    Ok(Boot { job: Arc::new(job), rank: 0 })
}

fn variable(name: &str) -> Result<Option<u32>> {
    match std::env::var(name) {
        Err(_) => Ok(None),
        Ok(text) => text.parse().map(Some).map_err(|_| broken(&format!("{name} is {text:?}"))),
    }
}

fn no_job(error: &std::io::Error) -> Error {
    Error::new(ErrorClass::Other, format!("no shared memory for the job: {error}"))
}

fn broken(why: &str) -> Error {
    Error::new(
        ErrorClass::Other,
        format!(
            "the environment says this process belongs to a Tutti job, but it cannot be joined: {why}; start it with mpirun, or unset {ENV_FD} and {ENV_RANK}"
        ),
    )
}
