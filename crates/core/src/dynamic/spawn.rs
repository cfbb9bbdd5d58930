//! Starting processes (MPI-5 section 11.8): opens a port, sends an order to the launcher, and meets the
//! processes that connect.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Rank, Result};
use tutti_sys::job::{ENV_BELL_FDS, ENV_DIRECTORY_FD, ENV_FD, ENV_MAXPROCS, ENV_RANK};
use tutti_sys::local_socket::Connection;
use tutti_sys::spawning::{self, ENV_ERROR_HANDLER, ENV_MEMORY_KINDS, ENV_PARENT, Order, Program};
use tutti_sys::{letter, process as system, this_process};

use super::background::wait_for;
use super::line::Line;
use super::meeting::{Part, meet};
use super::ports::{self, Failed, OpenPort};
use crate::collective::WaitContext;
use crate::communicator::Communicator;
use crate::lanes::LaneGuard;
use crate::names::ObjectName;
use crate::process::Process;

/// Environment variables of this process that the started processes must not inherit.
const OWN_VARIABLES: [&str; 10] = [
    ENV_FD,
    ENV_RANK,
    ENV_MAXPROCS,
    ENV_DIRECTORY_FD,
    ENV_BELL_FDS,
    ENV_PARENT,
    ENV_ERROR_HANDLER,
    ENV_MEMORY_KINDS,
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
];

/// Starts processes (MPI_Comm_spawn and MPI_Comm_spawn_multiple), and returns the communicator with them.
/// `programs` is evaluated only at `root`.
///
/// # Errors
/// Returns `Spawn` if they cannot be started or do not call MPI_Init, or the error of an argument.
pub fn spawn(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    root: Rank,
    programs: impl FnOnce() -> Result<Vec<Program>>,
) -> Result<Arc<Communicator>> {
    let line = (comm.rank() == root).then(|| programs().and_then(|programs| start(held, process, programs)));
    meet(held, process, comm, root, line, (Part::Accepts, ErrorClass::Spawn))
}

/// Sends all members the number of processes that the root requested, after [`spawn`] has failed at all of
/// them. Each member returns that many error codes (MPI-5 section 11.8.2). Returns the number. If the root
/// cannot be reached any more, it is `requested`.
pub fn spread_requested(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    root: Rank,
    requested: u32,
) -> u32 {
    let mut words = if comm.rank() == root { requested.to_le_bytes().to_vec() } else { Vec::new() };
    let told = WaitContext::new(held, process, comm).broadcast_bytes(root, &mut words);
    told.ok().and_then(|()| words.try_into().ok()).map_or(requested, u32::from_le_bytes)
}

/// Starts the processes and returns the connection to their rank 0.
fn start(held: &mut LaneGuard, process: &Process, programs: Vec<Program>) -> Result<Line> {
    let refused =
        |error: io::Error| Error::new(ErrorClass::Spawn, format!("no process can be started: {error}"));
    // The processes start on this host.
    let port = OpenPort::open(None).map_err(refused)?;
    let job_id = system::random().map_err(refused)?;
    let is_own = |name: &[u8]| OWN_VARIABLES.iter().any(|own| own.as_bytes() == name);
    let mut variables: Vec<(Vec<u8>, Vec<u8>)> = std::env::vars_os()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .filter(|(name, _)| !is_own(name))
        .collect();
    variables.push((ENV_PARENT.as_bytes().to_vec(), port.name().as_bytes().to_vec()));
    let directory = std::env::current_dir().unwrap_or_default().into_os_string().into_vec();
    let order = Order { job_id, parents: process.library.world.size(), directory, variables, programs };
    let launcher = launcher(process, job_id)?;
    let wait = move || {
        letter::send(&launcher, &order.encode(), &[]).map_err(Failed::System)?;
        port.accept(Some(&launcher))
    };
    let came = wait_for(held, process, "MPI_Comm_spawn, for processes that start", wait).map_err(refused)?;
    came.map_err(|failed| match failed {
        Failed::System(error) => refused(error),
        Failed::Told(said) if said.is_empty() => {
            let reason = "the processes that were started have ended before all of them called MPI_Init";
            Error::new(ErrorClass::Spawn, reason)
        }
        Failed::Told(said) => Error::new(ErrorClass::Spawn, String::from_utf8_lossy(&said).into_owned()),
    })
}

/// Returns a connection to a launcher that waits for an order: the daemon of this host, or if there is
/// none, an own one.
fn launcher(process: &Process, job_id: u64) -> Result<Connection> {
    let header = process.job.header();
    match spawning::call(header.job_id, header.host, job_id) {
        Ok(connection) => Ok(connection),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => own_launcher(),
        Err(error) => {
            Err(Error::new(ErrorClass::Spawn, format!("the launcher of this job does not answer: {error}")))
        }
    }
}

/// Starts an `mpirun` for this process alone. It ends with this process.
fn own_launcher() -> Result<Connection> {
    let mpirun = installed_launcher().ok_or_else(|| {
        let reason = "this process was not started by Tutti's mpirun, and there is none beside the library: start it with mpirun";
        Error::new(ErrorClass::Spawn, reason)
    })?;
    let started = || -> io::Result<Connection> {
        let (near, far) = Connection::pair()?;
        let null = std::fs::File::open("/dev/null")?;
        let (out, err) = (io::stdout(), io::stderr());
        system::start_helper(
            &mpirun,
            spawning::OPTION,
            far.as_fd(),
            [null.as_fd(), out.as_fd(), err.as_fd()],
        )?;
        Ok(near)
    };
    started().map_err(|error| {
        Error::new(ErrorClass::Spawn, format!("{} cannot be started: {error}", mpirun.display()))
    })
}

/// Returns the `mpirun` of the installation to which this library belongs.
fn installed_launcher() -> Option<PathBuf> {
    let library = this_process::loaded_at(installed_launcher as fn() -> Option<PathBuf> as usize)?.file;
    let directory = Path::new(std::ffi::OsStr::from_bytes(&library)).parent()?.to_path_buf();
    let beside = [directory.join("../bin/mpirun"), directory.join("mpirun")];
    beside.into_iter().find(|file| file.exists())
}

/// Connects this job to the processes that have started it; part of MPI_Init. Collective over the world.
///
/// # Errors
/// Returns `Other` if they cannot be reached.
pub fn meet_parents(held: &mut LaneGuard, process: &Process) -> Result<()> {
    let Ok(port) = std::env::var(ENV_PARENT) else { return Ok(()) };
    // Only the first program of this rank meets the parents.
    if process.job.header().generation > 0 {
        return Ok(());
    }
    let root = Rank(0);
    let line = (process.library.world.rank() == root)
        .then(|| ports::reach(held, process, &port, None, ErrorClass::Other));
    let world = Arc::clone(&process.library.world);
    let parent = meet(held, process, &world, root, line, (Part::Connects, ErrorClass::Other))?;
    // MPI-5 section 7.8 requires that name.
    *parent.name.borrow_mut(held) = ObjectName::new(b"MPI_COMM_PARENT");
    super::known(process).borrow_mut(held).parent = Some(parent);
    Ok(())
}

/// Forgets the communicator with the parents, after it is disconnected.
pub fn forget_parent(held: &LaneGuard, process: &Process, comm: &Arc<Communicator>) {
    let parent = &mut super::known(process).borrow_mut(held).parent;
    if parent.as_ref().is_some_and(|parent| parent.context() == comm.context()) {
        *parent = None;
    }
}
