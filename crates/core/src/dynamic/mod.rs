//! Processes of other jobs: those that this job has started, those that have started it, and those it has
//! met at a port (MPI-5 chapter 11).
//!
//! A job is a world, with a job object, a secret and a `mpirun` of its own. Worlds meet in one way only
//! ([`meeting`]): two groups, each with a root, and a connection between the roots ([`line`]). The groups
//! are connected by a *bridge* (`tutti_transport::bridges`), and then all members agree on a context.
//!
//! | members | bridge |
//! |---|---|
//! | all on one host | job object of rings between any two members, built by the accepting side |
//! | on several hosts | `FabricLink` over the network ([`crossing`]) between the members of both groups |
//! | all of one job | none: the members can reach each other already |
//!
//! A process of another job has a local number beyond the ranks of the own world. Each process assigns its
//! own numbers; messages between processes contain a [`crate::other_jobs::Name`] (job, rank). So groups,
//! communicators, requests, matching and contexts need no knowledge of other jobs. Collectives have one
//! exception: members of several jobs share no banks, and select algorithms only by what all know
//! (`communicator::collectives::places::mixed`).
//!
//! # Operations
//!
//! | operation | steps |
//! |---|---|
//! | MPI_Comm_accept, MPI_Comm_connect | a meeting at a port |
//! | MPI_Comm_join | a meeting at a port whose name is sent over the socket |
//! | MPI_Publish_name | opens a socket that returns the name of the port |
//! | MPI_Comm_spawn | opens a port, sends an order to the daemon of the host, and accepts |
//! | MPI_Comm_disconnect | both sides close connections to processes that neither needs (`connected_jobs`) |
//!
//! For a spawn (`sys::spawning`) the daemon starts a further `mpirun` (`launch::spawned`) on the host of
//! the root, and hands it the connection. It forwards that program's output and the user's signals
//! (`node::spawned`). The processes of the new job connect to the port in MPI_Init. A process without a
//! daemon starts that `mpirun` itself.
//!
//! # Within a host
//!
//! Both sides of a meeting get each other's job objects, which contain the doorbells. So a process sleeps
//! in one place whichever process may wake it, and notices the end of the others. Descriptors and the
//! roots' messages go over local sockets of one user (`local_socket`, `letter`). A separate thread handles
//! them (`background`), so that the process continues to communicate.
//!
//! # Between hosts
//!
//! The number and the secret of the bridge are derived from data that the roots share. All members exchange
//! their addresses through the roots. The roots communicate over a [`line`], whose ends prove that they
//! know the port's key. A job of one host opens no port to the network, but may connect to one of a job of
//! several hosts. An unused bridge is kept until all data sent over it have arrived.
//!
//! # Failures
//!
//! - Open connections are recorded in the rank's block. A daemon whose spawned job fails ends its own job
//!   if a rank is connected to it.
//! - For jobs that met at a port, ranks detect each other's failure in long waits (`connected_jobs`).
//! - The roots keep the line over which they have met. An end that closes it without notice has died, and
//!   the other root detects that. A silent host is not detected, since no data is sent over the line.
//!
//! # Deliberately absent
//!
//! - Windows over several jobs, files, and names that outlive their process.
//! - A check that the requests of one MPI_Waitall come from one session, which MPI-5 section 11.3 requires
//!   of programs. A request that completes when it is started keeps no communicator, so the error would
//!   depend on timing.

mod acceptor;
pub mod background;
pub mod connected_jobs;
mod crossing;
pub mod line;
pub mod meeting;
pub mod orders;
pub mod ports;
pub mod services;
pub mod spawn;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use tutti_base::WorldRank;
use tutti_sys::job::RankState;

use crate::communicator::Communicator;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::process::Process;

/// Connections of this process to other jobs, and the ports at which others can reach it.
#[derive(Debug, Default)]
pub struct Dynamic {
    /// Ports that are open, by name.
    ports: HashMap<Vec<u8>, Arc<ports::OpenPort>>,
    /// Names that are published, by name.
    services: HashMap<Vec<u8>, services::Service>,
    /// Communicator with the processes that have started this job.
    parent: Option<Arc<Communicator>>,
    /// Processes of other jobs that can be reached.
    tied: connected_jobs::ConnectedJobs,
}

impl Dynamic {
    /// Returns the communicator with the processes that have started this job.
    pub fn parent(&self) -> Option<&Arc<Communicator>> {
        self.parent.as_ref()
    }
}

/// Returns the state of this process.
pub fn known(_: &Process) -> &'static FirstLaneCell<Dynamic> {
    static KNOWN: LazyLock<FirstLaneCell<Dynamic>> = LazyLock::new(FirstLaneCell::default);
    &KNOWN
}

/// Returns true if a process of any job has called MPI_Finalize.
pub(crate) fn is_gone(held: &LaneGuard, process: &Process, number: WorldRank) -> bool {
    let home = process.library.other_jobs.borrow(held).home(process, number);
    home.is_some_and(|home| home.job.block(home.local).state() == RankState::Finalized)
}
