//! Messages and progress handlers of a process, on its [`Host`]. [`crate::progress`] drives them.
//! Communicators are in a higher layer.

use std::fmt;
use std::ops::Deref;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

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
use crate::p2p::{Limits, PointToPoint};
use crate::request::RequestId;
use crate::separation::Separation;
use crate::single_copy::Reader;

/// Links of a process to all peers.
pub type AllLinks = Links<FabricLink>;

/// Progress handler: an operation that continues whenever messages make progress.
pub trait Activity: Send + fmt::Debug {
    /// Does all work that is possible now. Returns the handler, or None if it has ended. With `patient` the
    /// caller has no other work.
    fn advance(
        self: Box<Self>,
        held: &LaneGuard,
        messenger: &Messenger,
        patient: bool,
    ) -> Option<Box<dyn Activity>>;
    /// Returns true if it never calls code of the program, so that any thread may run it.
    fn is_unattended(&self) -> bool {
        false
    }
    /// Returns the number of the collective operation on its communicator, if the handler completes `request`
    /// with it.
    fn number_of(&self, _held: &LaneGuard, _request: RequestId) -> Option<u32> {
        None
    }
}

/// Windows as progress sees them: the layer above that active messages are for (MPI-5 chapter 12).
pub trait CallServer: fmt::Debug + Sync {
    /// Starts the windows for which active messages have arrived.
    fn answer_calls(&self, held: &LaneGuard, messenger: &Messenger);
}

/// Collective operations as progress sees them: the layer above that knows which of them this rank has begun.
pub trait InquiryHandler: fmt::Debug + Sync {
    /// Replies to the member `from` that has waited long in the operation of the envelope. `theirs` is that
    /// member's signature.
    fn answer_inquiry(&self, held: &LaneGuard, from: WorldRank, envelope: Envelope, theirs: Signature);
}

/// Processes of all jobs as progress sees them: the layer above that knows which of them have left.
pub trait PeerWatch: fmt::Debug + Sync {
    /// Checks, before a sleep, one of the connected processes of other jobs.
    fn watch_others(&self, held: &LaneGuard);
    /// Ends, before a sleep, waits for ranks that have left.
    fn watch_departed(&self, held: &LaneGuard);
    /// Returns true if a process of any job has left.
    fn is_gone(&self, held: &LaneGuard, process: WorldRank) -> bool;
}

/// Description of waits for the launcher, which looks for ranks that wait for each other.
pub trait CardWriter: fmt::Debug + Sync {
    /// Answers the launcher's request for a card with the wait that `what` describes. The thread holds no
    /// lane.
    fn answer_card(&self, messenger: &Messenger, request: u32, what: &dyn Fn() -> String);
}

/// Functions of the program that follow operations, as progress sees them.
pub trait ContinuationRunner: fmt::Debug + Sync {
    /// Runs the continuations of operations that are complete.
    fn run_ready(&self, held: &LaneGuard, messenger: &Messenger);
}

/// Sources of work beside the links as progress sees them, such as the kernel's packet program.
pub trait WakeSource: fmt::Debug + Sync {
    /// Adds the descriptors that the next sleep has to watch, and the time at which it has to end. Returns
    /// false if there is work already.
    fn before_sleep(
        &self,
        held: &LaneGuard,
        descriptors: &mut Vec<RawFd>,
        until: &mut Option<Instant>,
    ) -> bool;
}

/// Layers above the messages that progress calls, one for each purpose.
#[derive(Clone, Copy, Debug)]
pub struct Above {
    /// Receivers of active messages.
    pub calls: &'static dyn CallServer,
    /// Receiver of inquiries about collective operations.
    pub inquiries: &'static dyn InquiryHandler,
    /// Knowledge about processes that have left.
    pub peers: &'static dyn PeerWatch,
    /// Writer of the cards that describe waits.
    pub cards: &'static dyn CardWriter,
    /// Runner of the continuations of operations that are complete.
    pub continuations: &'static dyn ContinuationRunner,
    /// Work beside the links.
    pub wakes: &'static dyn WakeSource,
}

/// Messages of a process. It dereferences to its host, for code that waits.
#[derive(Debug)]
pub struct Messenger {
    /// Host of the process.
    pub host: Host,
    /// Layers above.
    pub(crate) above: Above,
    /// State of the messages of each lane.
    pub messages: LaneCells<PointToPoint<AllLinks>>,
    /// Progress handlers: non-blocking collectives and others.
    pub activities: FirstLaneCell<Vec<Option<Box<dyn Activity>>>>,
    /// State that determines how long waits poll a partner that is running.
    pub partnership: FirstLaneCell<Partnership>,
    /// State that determines when waits move to another processor.
    pub separation: FirstLaneCell<Separation>,
    /// Minimum length in bytes from which collectives expose mapped memory. Shorter data are copied beside a
    /// bank.
    pub near_bytes: u64,
    /// Memory that is exposed to the other processes of the node.
    pub exposures: FirstLaneCell<Exposures>,
}

impl Deref for Messenger {
    type Target = Host;

    #[inline(always)]
    fn deref(&self) -> &Host {
        &self.host
    }
}

impl Messenger {
    /// Returns the messenger of a process. Other processes of the host know its `exposures`; `network` leads
    /// to other hosts; `above` are the layers that progress calls.
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
            host,
        })
    }

    /// Runs `work` in a lane, for a caller that holds that lane or the first.
    #[inline(always)]
    pub fn in_lane<R>(&self, held: &LaneGuard, lane: Lane, work: impl FnOnce(&LaneGuard) -> R) -> R {
        let other = held.other_lane(lane);
        let result = work(other.as_ref().unwrap_or(held));
        if let Some(other) = other {
            tell_threads(&other, self);
        }
        result
    }

    /// Adds a progress handler.
    pub fn add_activity(&self, held: &LaneGuard, activity: Box<dyn Activity>) {
        self.activities.borrow_mut(held).push(Some(activity));
    }
}

/// Wakes the sleeping threads of this process if anything has changed since the last call. A thread calls it
/// whenever it leaves the library or releases its lane.
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

/// Returns the messages of all lanes but the first. From now on the ranks of the host may use these lanes.
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

/// Returns the value of [`Messenger::near_bytes`]. A copy needs no wait, which matters more if ranks share
/// processors. For short data, the query whether memory is mapped takes as long as a copy.
fn near_bytes(config: &Config, crowded: bool) -> u64 {
    const NEAR_BYTES: u64 = 8 << 10;
    let pays = !crowded && config.memory.mapped != Mapped::Never && config.memory.mapped_watch;
    if pays { NEAR_BYTES } else { u64::MAX }
}

/// Returns the identity of this process towards other hosts.
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

/// Returns the link to other hosts.
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
