//! Processes of other jobs: those that this job has started, those that have started it, those it has met at a port
//! (MPI-5 chapter 11).
//!
//! A job is a world, with a job object and a `mpirun` of its own, and worlds meet in one way only ([`meeting`]): two groups, each
//! with a root, and a connection between the roots ([`line`]). Between them is a bridge (`tutti_transport::bridges`): where all are on one
//! host a shared memory object with rings between any two of them, which whoever accepts builds and both roots hand on to their
//! members; else a link of its own over the network ([`crossing`]). Then all agree on a context. So
//! spawning is opening a port, asking the launcher for a further job, and accepting: the processes of the new job connect to that port in
//! MPI_Init. MPI_Comm_join is a port whose name is told over the socket.
//!
//! A process of another job has here a number beyond the ranks of the own world, so that groups, communicators, requests and
//! matching need not know of any of this. Numbers are a process's own business: between processes its [`Name`] travels.
//!
//! Jobs that are spawned run on the host of the root. A job of one host opens no port to the network, but may connect to one
//! of a job of several.
//!
//! # Processes of several jobs
//!
//! A job is a world: a job object, a secret, a `mpirun` of its own. Worlds meet in one way only
//! (`dynamic::meeting`): two groups, each with a root, and a socket between the roots. The side that
//! accepts builds a *bridge*, a job object of nothing but rings between any two members; both sides get
//! each other's job objects too, in which the doorbells are, so that a process sleeps in one place whoever
//! may wake it, and learns of the other's end. Descriptors and roots' words go over abstract sockets of one
//! user (`local_socket`, `letter`), in a thread of their own (`background`), so that the process goes on
//! communicating. A process of another job has a number beyond the ranks of the own world; between
//! processes its `Name` travels (job, rank). Groups, matching, requests, contexts and collectives do not
//! know of it, but for this: members of several jobs share no banks, and choose algorithms by nothing but
//! what all know (`collective::places::mixed`). So
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
//! - MPI_Comm_disconnect lets both sides say whom they still need (`dynamic::ties`); the way to whom
//!   neither needs is closed by both. What is left open stands in the rank's block: a daemon whose spawned
//!   job fails ends its own if a rank is tied to it. Jobs that met at a port see each other's failure from
//!   the ranks, in waits that have become long.
//!
//! Deliberately absent: windows over several jobs, files, names that outlive their process; a check that
//! requests of one MPI_Waitall come from one session (MPI-5 section 11.3 forbids it, but what was over when
//! it was started leaves nothing that tells its communicator: the error would come and go with timing).

pub mod background;
mod crossing;
mod door;
pub mod line;
pub mod meeting;
pub mod orders;
pub mod ports;
pub mod services;
pub mod spawn;
pub mod ties;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tutti_base::{Error, ErrorClass, Result, WorldRank};
use tutti_sys::job::{Job, RankState};
use tutti_transport::shm::Home;

use crate::collective;
use crate::communicator::Communicator;
use crate::giant::{GiantCell, Held};
use crate::group::Group;
use crate::process::Process;

/// Bytes of a [`Name`].
const NAME_BYTES: usize = 12;

/// A process, as all call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// The number of its job.
    pub job: u64,
    /// Its rank in the world of that job.
    pub rank: u32,
}

/// What a process knows of other jobs.
#[derive(Debug)]
pub struct Dynamic {
    own: Arc<Job>,
    /// The processes of other jobs, in the order of their numbers.
    names: Vec<Name>,
    numbers: HashMap<Name, u32>,
    jobs: HashMap<u64, Arc<Job>>,
    /// Ports that are open.
    ports: HashMap<Vec<u8>, Arc<ports::Port>>,
    /// Names that are published.
    services: HashMap<Vec<u8>, services::Service>,
    /// Communicator with those that have started this job.
    parent: Option<Arc<Communicator>>,
    /// The processes of other jobs that can be reached.
    tied: ties::Ties,
}

impl Dynamic {
    /// Knows only the own job.
    pub fn new(own: Arc<Job>) -> Dynamic {
        Dynamic {
            own,
            names: Vec::new(),
            numbers: HashMap::new(),
            jobs: HashMap::new(),
            ports: HashMap::new(),
            services: HashMap::new(),
            parent: None,
            tied: ties::Ties::default(),
        }
    }

    fn first(&self) -> u32 {
        self.own.header().world_size
    }

    /// What all call a process.
    ///
    /// # Panics
    /// If there is no such process: a bug of the caller.
    pub fn name(&self, process: WorldRank) -> Name {
        match process.0.checked_sub(self.first()) {
            None => Name { job: self.own.header().job_id, rank: process.0 },
            Some(at) => self.names[at as usize],
        }
    }

    /// The number of a process that was met before.
    pub fn number(&self, name: Name) -> Option<WorldRank> {
        if name.job == self.own.header().job_id {
            return (name.rank < self.first()).then_some(WorldRank(name.rank));
        }
        self.numbers.get(&name).copied().map(WorldRank)
    }

    /// The number of a process from now on.
    fn meet(&mut self, name: Name) -> WorldRank {
        if let Some(number) = self.number(name) {
            return number;
        }
        let number = self.first() + self.names.len() as u32;
        self.names.push(name);
        self.numbers.insert(name, number);
        WorldRank(number)
    }

    /// The object of a job of which some process is known.
    fn job(&self, job: u64) -> Option<&Arc<Job>> {
        if job == self.own.header().job_id { Some(&self.own) } else { self.jobs.get(&job) }
    }

    /// Where a process of this host sleeps and says what state it is in; `None` for one on another host.
    pub fn home(&self, process: &Process, number: WorldRank) -> Option<Home> {
        if !process.is_foreign(number) {
            let local = process.job.local_rank(number.0)?;
            return Some(Home { job: Arc::clone(&process.job), local });
        }
        self.home_of(self.name(number))
    }

    fn home_of(&self, name: Name) -> Option<Home> {
        let job = self.job(name.job)?;
        let is_there = name.rank < job.header().world_size;
        let local = is_there.then(|| job.local_rank(name.rank)).flatten()?;
        Some(Home { job: Arc::clone(job), local })
    }

    /// The communicator with the processes that have started this job.
    pub fn parent(&self) -> Option<&Arc<Communicator>> {
        self.parent.as_ref()
    }
}

/// What this process knows of other jobs.
pub fn known(process: &Process) -> &'static GiantCell<Dynamic> {
    static KNOWN: OnceLock<GiantCell<Dynamic>> = OnceLock::new();
    KNOWN.get_or_init(|| GiantCell::new(Dynamic::new(Arc::clone(&process.job))))
}

/// Whether a process has left, of whatever job.
pub(crate) fn is_gone(held: &Held, process: &Process, number: WorldRank) -> bool {
    let home = known(process).borrow(held).home(process, number);
    home.is_some_and(|home| home.job.block(home.local).state() == RankState::Finalized)
}

impl Name {
    fn encode(self) -> [u8; NAME_BYTES] {
        let mut bytes = [0; NAME_BYTES];
        bytes[..8].copy_from_slice(&self.job.to_le_bytes());
        bytes[8..].copy_from_slice(&self.rank.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; NAME_BYTES]) -> Name {
        let [b0, b1, b2, b3, b4, b5, b6, b7, r0, r1, r2, r3] = bytes;
        let job = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        Name { job, rank: u32::from_le_bytes([r0, r1, r2, r3]) }
    }
}

/// A group as bytes for a message to processes of any job.
pub fn encode(held: &Held, process: &Process, group: &Group) -> Vec<u8> {
    let dynamic = known(process).borrow(held);
    group.iter().flat_map(|member| dynamic.name(member).encode()).collect()
}

/// The names in a message.
fn names(bytes: &[u8]) -> impl Iterator<Item = Name> + '_ {
    bytes
        .chunks_exact(NAME_BYTES)
        .map(|one| Name::decode(one.try_into().expect("as many bytes as asked for")))
}

/// Whether two groups, as they travel, have processes of more than one job.
pub fn are_several(one: &[u8], other: &[u8]) -> bool {
    let mut jobs = names(one).chain(names(other)).map(|name| name.job);
    jobs.next().is_some_and(|first| jobs.any(|job| job != first))
}

/// A group from a message.
///
/// # Errors
/// `Comm` when one of its members was never met, so that no way leads to it.
pub fn decode(held: &Held, process: &Process, bytes: &[u8]) -> Result<Group> {
    let dynamic = known(process).borrow(held);
    let number = |name: Name| {
        dynamic.number(name).ok_or_else(|| {
            let reason = format!(
                "rank {} of job {:x} is not connected with this process: let the two meet by MPI_Comm_connect and MPI_Comm_accept first",
                name.rank, name.job
            );
            Error::new(ErrorClass::Comm, reason)
        })
    };
    names(bytes).map(number).collect()
}

/// The group that the other side of an intercommunicator names, for the one that this side names.
///
/// # Errors
/// What went wrong with a message.
pub fn other_group(held: &mut Held, process: &Process, comm: &Communicator, mine: &Group) -> Result<Group> {
    let words = encode(held, process, mine);
    let theirs = collective::swap_bytes(held, process, comm, words)?;
    decode(held, process, &theirs)
}

#[cfg(test)]
mod tests {
    use tutti_sys::job::Plan;

    use super::*;

    fn check(dynamic: &mut Dynamic, job: u64, rank: u32, expected: u32) {
        let name = Name { job, rank };
        assert_eq!(dynamic.meet(name), WorldRank(expected));
        assert_eq!(
            (dynamic.number(name), dynamic.name(WorldRank(expected))),
            (Some(WorldRank(expected)), name)
        );
        assert_eq!(Name::decode(name.encode()), name);
    }

    #[test]
    fn others_are_numbered_beyond_the_world() {
        let own = Arc::new(Job::create(&Plan { job_id: 5, ..Plan::one_host(3) }).unwrap());
        let mut dynamic = Dynamic::new(own);
        check(&mut dynamic, 5, 2, 2);
        check(&mut dynamic, 9, 0, 3);
        check(&mut dynamic, 8, 0, 4);
        check(&mut dynamic, 9, 0, 3);
        assert_eq!(dynamic.number(Name { job: 9, rank: 1 }), None);
        assert_eq!(dynamic.number(Name { job: 5, rank: 3 }), None);
        assert!(dynamic.home_of(Name { job: 9, rank: 0 }).is_none());
        assert_eq!(dynamic.home_of(Name { job: 5, rank: 1 }).map(|home| home.local), Some(1));
    }
}
