//! The messages of a process and what goes on by itself with them, on its [`Host`]: what progress moves
//! ([`crate::progress`]). Communicators are above.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tutti_base::config::{Config, Mapped};
use tutti_base::{Error, ErrorClass, Result, WorldRank};
use tutti_sys::job::Job;
use tutti_transport::exposure::Exposures;
pub use tutti_transport::exposure::advise;
use tutti_transport::fabric::{self, FabricLink, Identity};
use tutti_transport::shm::ring_doorbell;
use tutti_transport::waiting::Partnership;
use tutti_transport::{Link, Links, Peer, ShmLink};

use crate::boot::Network;
use crate::host::Host;
use crate::lanes::{self, FirstLaneCell, Lane, LaneCells, LaneGuard};
use crate::matching::{Envelope, Signature};
use crate::offload::Kernel;
use crate::p2p::{Limits, PointToPoint};
use crate::separation::Separation;
use crate::single_copy::Reader;

/// All links of a process.
pub type AllLinks = Links<FabricLink>;

/// An operation that goes on by itself whenever messages move.
pub trait Activity: Send + fmt::Debug {
    /// Does what can be done now; itself, unless it is over. With `patient` nobody has anything else to do.
    fn advance(
        self: Box<Self>,
        held: &LaneGuard,
        messenger: &Messenger,
        patient: bool,
    ) -> Option<Box<dyn Activity>>;
    /// Whether it never calls anything of the program's, so that any thread may advance it.
    fn is_unattended(&self) -> bool {
        false
    }
}

/// What progress asks of who is above it.
#[derive(Debug)]
pub struct Above {
    /// Windows have active messages to do.
    pub answer_calls: fn(&LaneGuard, &Messenger),
    /// A member waits for long in the operation of the envelope, and takes it for what the signature says.
    pub answer: fn(&LaneGuard, WorldRank, Envelope, Signature),
    /// Before a sleep: looks at one of the processes of other jobs that this one is connected with.
    pub watch_others: fn(&LaneGuard),
    /// Before a sleep: ends waits for ranks that have left.
    pub watch_departed: fn(&LaneGuard),
    /// Whether a process has left, of whatever job.
    pub is_gone: fn(&LaneGuard, WorldRank) -> bool,
}

/// The messages of a process. It is its host too, for whoever waits.
#[derive(Debug)]
pub struct Messenger {
    /// Where it is.
    pub host: Host,
    /// See there.
    pub(crate) above: Above,
    /// Messages, lane by lane.
    pub messages: LaneCells<PointToPoint<AllLinks>>,
    /// Operations that go on by themselves: non-blocking collectives and the like.
    pub activities: FirstLaneCell<Vec<Option<Box<dyn Activity>>>>,
    /// How long waits look at their partner while that runs.
    pub partnership: FirstLaneCell<Partnership>,
    /// When waits move to another processor.
    pub separation: FirstLaneCell<Separation>,
    /// What collectives lend to be read is lent where it is mapped, from so many bytes on; what is shorter
    /// is copied beside a bank.
    pub near_bytes: u64,
    /// Memory that is lent to the other processes of the node.
    pub exposures: FirstLaneCell<Exposures>,
    /// The kernel's packet program, if there is one.
    pub kernel: FirstLaneCell<Kernel>,
}

impl Deref for Messenger {
    type Target = Host;

    #[inline(always)]
    fn deref(&self) -> &Host {
        &self.host
    }
}

impl Messenger {
    /// On this host. `exposures` were told to the other processes there; `network` leads to other hosts;
    /// `above`: what is asked of who is above.
    ///
    /// # Errors
    /// `Other` for a job object or a network that cannot be used.
    pub fn new(
        host: Host,
        exposures: Exposures,
        network: Option<Network>,
        above: Above,
    ) -> Result<Messenger> {
        let (config, job) = (&host.config, &host.job);
        let header = *job.header();
        let crowded = header.local_ranks > header.processors;
        let near = ShmLink::new(Arc::clone(job), host.local).map_err(|error| no_link(&error))?;
        let identity = identity(job, host.rank);
        let casting = network.as_ref().and_then(|_| fabric::casting(config, &identity));
        let far = network.map(|network| far_link(config, job, &identity, network)).transpose()?;
        let link = Links::new(near, far).with_casting(casting);
        let near_bytes = near_bytes(config, crowded);
        let limits =
            Limits::new(config, link.max_payload(), u64::from(header.world_size)).shared_by(lanes::count());
        let reader = Reader::new(config, Arc::clone(job));
        let further =
            if lanes::count() > 1 { further_lanes(config, job, host.local, limits)? } else { Vec::new() };
        let messages = LaneCells::new(PointToPoint::new(link, Peer(host.rank.0), limits, reader), further);
        Ok(Messenger {
            above,
            messages,
            partnership: FirstLaneCell::new(Partnership::default()),
            separation: FirstLaneCell::new(Separation::default()),
            activities: FirstLaneCell::new(Vec::new()),
            near_bytes,
            exposures: FirstLaneCell::new(exposures),
            kernel: FirstLaneCell::default(),
            host,
        })
    }

    /// Does something in a lane, for who holds that or the first.
    #[inline(always)]
    pub fn in_lane<R>(&self, held: &LaneGuard, lane: Lane, work: impl FnOnce(&LaneGuard) -> R) -> R {
        let other = held.other_lane(lane);
        let result = work(other.as_ref().unwrap_or(held));
        if let Some(other) = other {
            tell_threads(&other, self);
        }
        result
    }

    /// Adds an operation that goes on by itself.
    pub fn add_activity(&self, held: &LaneGuard, activity: Box<dyn Activity>) {
        self.activities.borrow_mut(held).push(Some(activity));
    }
}

/// Wakes the threads of this process that sleep, if something has happened since this was last called that
/// one of them may wait for. Called wherever a thread leaves the library or lets others in.
#[inline]
pub fn tell_threads(held: &LaneGuard, messenger: &Messenger) {
    if !lanes::threads_allowed() {
        return;
    }
    let requests = &mut messenger.messages.borrow_mut(held).state.requests;
    if std::mem::take(&mut requests.news) {
        requests.told += 1;
        ring_doorbell(&messenger.job, messenger.local, held.lane().number());
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
    let lanes = (1..lanes::count()).filter_map(|number| lane(number).transpose()).collect();
    job.block(local).in_lanes.store(1, Ordering::Release);
    lanes
}

fn no_link(error: &std::io::Error) -> Error {
    Error::new(ErrorClass::Other, format!("cannot use the job object: {error}"))
}

/// The link to other hosts. See [`Messenger::near_bytes`]. Whoever copies waits for nobody, which counts for
/// more where ranks share processors; and to ask the kernel whether memory is mapped takes as long as to
/// copy.
fn near_bytes(config: &Config, crowded: bool) -> u64 {
    const NEAR_BYTES: u64 = 8 << 10;
    let pays = !crowded && config.memory.mapped != Mapped::Never && config.memory.mapped_watch;
    if pays { NEAR_BYTES } else { u64::MAX }
}

/// Who this process is among those of other hosts.
fn identity(job: &Job, rank: WorldRank) -> Identity {
    let header = job.header();
    Identity {
        rank: rank.0,
        ranks: header.world_size,
        job_id: header.world_id(),
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
