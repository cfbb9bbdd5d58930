//! Processes of other jobs: those that this job has started, those that have started it, those it has met at
//! a port (MPI-5 chapter 11).
//!
//! A job is a world, with a job object and a `mpirun` of its own, and worlds meet in one way only
//! ([`meeting`]): two groups, each with a root, and a connection between the roots ([`line`]). Between them
//! is a bridge (`tutti_transport::bridges`): where all are on one host a shared memory object with rings
//! between any two of them, which whoever accepts builds and both roots hand on to their members; else a link
//! of its own over the network ([`crossing`]). Then all agree on a context. So spawning is opening a port,
//! asking the launcher for a further job, and accepting: the processes of the new job connect to that port in
//! MPI_Init. MPI_Comm_join is a port whose name is told over the socket.
//!
//! A process of another job has here a number beyond the ranks of the own world, so that groups,
//! communicators, requests and matching need not know of any of this. Numbers are a process's own business:
//! between processes its [`crate::other_jobs::Name`] travels.
//!
//! Jobs that are spawned run on the host of the root. A job of one host opens no port to the network, but may
//! connect to one of a job of several.
//!
//! # Processes of several jobs
//!
//! A job is a world: a job object, a secret, a `mpirun` of its own. Worlds meet in one way only
//! (`dynamic::meeting`): two groups, each with a root, and a socket between the roots. The side that
//! accepts builds a *bridge*, a job object of nothing but rings between any two members; both sides get
//! each other's job objects too, in which the doorbells are, so that a process sleeps in one place whoever
//! may wake it, and learns of the other's end. Descriptors and roots' words go over local sockets of one
//! user (`local_socket`, `letter`), in a thread of their own (`background`), so that the process goes on
//! communicating. A process of another job has a number beyond the ranks of the own world; between
//! processes its `Name` travels (job, rank). Groups, matching, requests, contexts and collectives do not
//! know of it, but for this: members of several jobs share no banks, and choose algorithms by nothing but
//! what all know (`communicator::collectives::places::mixed`). So
//!
//! - MPI_Comm_accept and connect are a meeting at a port; MPI_Comm_join is one at a port told over the
//!   socket; a published name is a socket that says the port;
//! - Where not all are on one host the bridge is a `FabricLink` of its own (`dynamic::crossing`): its world
//!   are the members of both groups, its number and secret are derived from what the roots share, and all
//!   tell each other their addresses through the roots. Between hosts the roots speak over a
//!   `dynamic::line`, whose ends prove that they know the port's key; a job of one host opens no port to
//!   the network. Groups of one job need no bridge. A bridge that nobody uses any more is kept until what
//!   was sent over it has arrived. The jobs' windows stay within a host. The roots keep the line over which
//!   they have met: who closes it without a word has died, which the other root notices in a wait (not a
//!   host that falls silent: nothing is said over the line).
//! - MPI_Comm_spawn opens a port, sends an order (`sys::spawning`) to the daemon of the host, and accepts.
//!   The daemon starts a further `mpirun` (`launch::spawned`), to which it hands the connection, and passes
//!   on its outputs and the user's signals (`node::spawned`); the processes of the new job connect to the
//!   port in MPI_Init. A process without a daemon starts that `mpirun` itself;
//! - MPI_Comm_disconnect lets both sides say whom they still need (`dynamic::connected_jobs`); the way to
//!   whom neither needs is closed by both. What is left open stands in the rank's block: a daemon whose
//!   spawned job fails ends its own if a rank is tied to it. Jobs that met at a port see each other's failure
//!   from the ranks, in waits that have become long.
//!
//! Deliberately absent: windows over several jobs, files, names that outlive their process; a check that
//! requests of one MPI_Waitall come from one session (MPI-5 section 11.3 forbids it, but what was over when
//! it was started leaves nothing that tells its communicator: the error would come and go with timing).

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

/// Whom this process has met, and where others can meet it.
#[derive(Debug, Default)]
pub struct Dynamic {
    /// Ports that are open.
    ports: HashMap<Vec<u8>, Arc<ports::OpenPort>>,
    /// Names that are published.
    services: HashMap<Vec<u8>, services::Service>,
    /// Communicator with those that have started this job.
    parent: Option<Arc<Communicator>>,
    /// The processes of other jobs that can be reached.
    tied: connected_jobs::ConnectedJobs,
}

impl Dynamic {
    /// The communicator with the processes that have started this job.
    pub fn parent(&self) -> Option<&Arc<Communicator>> {
        self.parent.as_ref()
    }
}

/// Those of this process.
pub fn known(_: &Process) -> &'static FirstLaneCell<Dynamic> {
    static KNOWN: LazyLock<FirstLaneCell<Dynamic>> = LazyLock::new(FirstLaneCell::default);
    &KNOWN
}

/// Whether a process has left, of whatever job.
pub(crate) fn is_gone(held: &LaneGuard, process: &Process, number: WorldRank) -> bool {
    let home = process.library.other_jobs.borrow(held).home(process, number);
    home.is_some_and(|home| home.job.block(home.local).state() == RankState::Finalized)
}
