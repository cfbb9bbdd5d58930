//! Processes of other jobs: those that this job has started, those that have started it, and those it has
//! met at a port (MPI-5 chapter 11).
//!
//! A job is a world, with a job object and a `mpirun` of its own. Worlds meet in one way only
//! ([`meeting`]): two groups, each with a root, and a connection between the roots ([`line`]). The groups
//! are connected by a bridge (`tutti_transport::bridges`):
//!
//! - If all processes are on one host, it is a shared memory object with rings between any two of them. The
//!   accepting side builds it, and both roots pass it on to their members.
//! - Otherwise it is a link of its own over the network ([`crossing`]).
//!
//! Then all agree on a context. So spawning consists of opening a port, requesting a further job from the
//! launcher, and accepting. The processes of the new job connect to that port in MPI_Init. MPI_Comm_join
//! uses a port whose name is sent over the socket.
//!
//! A process of another job has a local number beyond the ranks of the own world. So groups, communicators,
//! requests and matching need no knowledge of other jobs. Each process assigns its own numbers; messages
//! between processes contain a [`crate::other_jobs::Name`].
//!
//! Spawned jobs run on the host of the root. A job of one host opens no port to the network, but may
//! connect to one of a job of several hosts.
//!
//! # Processes of several jobs
//!
//! A job is a world: a job object, a secret and a `mpirun` of its own. Worlds meet in one way only
//! (`dynamic::meeting`): two groups, each with a root, and a socket between the roots. The accepting side
//! builds a *bridge*, a job object that consists of rings between any two members. Both sides also get each
//! other's job objects, which contain the doorbells. So a process sleeps in one place whichever process may
//! wake it, and notices the end of the others.
//!
//! Descriptors and the roots' messages go over local sockets of one user (`local_socket`, `letter`). A
//! separate thread handles them (`background`), so that the process continues to communicate. A process of
//! another job has a number beyond the ranks of the own world; messages contain its `Name` (job, rank).
//! Groups, matching, requests, contexts and collectives need no knowledge of that, with one exception.
//! Members of several jobs share no banks, and select algorithms only by what all know
//! (`communicator::collectives::places::mixed`). The consequences:
//!
//! - MPI_Comm_accept and MPI_Comm_connect are a meeting at a port. MPI_Comm_join is one at a port whose
//!   name is sent over the socket. A published name is a socket that returns the port.
//! - If not all are on one host, the bridge is a `FabricLink` of its own (`dynamic::crossing`). Its world
//!   are the members of both groups. Its number and secret are derived from data that the roots share. All
//!   members exchange their addresses through the roots. Between hosts the roots communicate over a
//!   `dynamic::line`, whose ends prove that they know the port's key. A job of one host opens no port to
//!   the network. Groups of one job need no bridge. An unused bridge is kept until all data sent over it
//!   have arrived. The jobs' windows stay within a host. The roots keep the line over which they have met.
//!   An end that closes it without notice has died, and the other root detects that in a wait. A silent
//!   host is not detected, since no data is sent over the line.
//! - MPI_Comm_spawn opens a port, sends an order (`sys::spawning`) to the daemon of the host, and accepts.
//!   The daemon starts a further `mpirun` (`launch::spawned`) and hands it the connection. It forwards its
//!   output and the user's signals (`node::spawned`). The processes of the new job connect to the port in
//!   MPI_Init. A process without a daemon starts that `mpirun` itself.
//! - In MPI_Comm_disconnect both sides report which processes they still need (`dynamic::connected_jobs`).
//!   Both close the connection to processes that neither needs. Open connections are recorded in the rank's
//!   block: a daemon whose spawned job fails ends its own job if a rank is connected to it. For jobs that
//!   met at a port, ranks detect each other's failure in long waits.
//!
//! Deliberately absent: windows over several jobs, files, and names that outlive their process. Also absent
//! is a check that the requests of one MPI_Waitall come from one session. MPI-5 section 11.3 forbids mixing
//! them. But a request that completes when it is started keeps no communicator, so the error would depend
//! on timing.

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
