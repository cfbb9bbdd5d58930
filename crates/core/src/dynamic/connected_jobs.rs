//! Connections of this process to other jobs: their end, and the consequences when one of the jobs fails
//! (MPI-5 section 11.10.4).
//!
//! The launcher of a failing job also ends the jobs that its ranks have started, and the one that started
//! it. Of jobs that have met at a port only the ranks know. So a rank that waits for long checks whether
//! the processes it is connected with still exist. On its own host it reads their job objects. For other
//! hosts the roots check the line over which they have met. A rank waits some seconds before it acts, so
//! that a launcher that ends the job can report the reason first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tutti_base::{Result, WorldRank};
use tutti_sys::job::RankState;
use tutti_sys::process as system;
use tutti_transport::Peer;
use tutti_transport::shm::Home;

use super::line::{End, Line};
use crate::collective::WaitContext;
use crate::communicator::Communicator;
use crate::group::Group;
use crate::lanes::LaneGuard;
use crate::other_jobs::Name;
use crate::process::Process;
use crate::progress;

/// Time in which a failure may be known before a rank ends its job because of it. The launcher may do so
/// meanwhile, and has reported the reason.
const PATIENCE: Duration = Duration::from_secs(3);

/// Processes of other jobs that can be reached.
#[derive(Debug, Default)]
pub(super) struct ConnectedJobs {
    /// Processes on this host, with the objects of their jobs.
    homes: Vec<Home>,
    /// Index of the process that is checked next.
    next: usize,
    /// Time at which a failure was detected, if any.
    lost_since: Option<Instant>,
    /// Lines kept by roots of meetings over the network.
    lookouts: Vec<Lookout>,
}

/// Line to the root of a group on other hosts. Its end shows that the other job is over.
#[derive(Debug)]
struct Lookout {
    line: Arc<Line>,
    /// Members of the other group.
    members: Vec<Name>,
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.line.part();
    }
}

/// Keeps the line over which this root has met `members`, and checks it as long as one of them is connected
/// with this process.
pub(super) fn look_out(
    held: &LaneGuard,
    process: &Process,
    line: Arc<Line>,
    members: impl Iterator<Item = Name>,
) {
    let own = process.job.header().job_id;
    let members: Vec<Name> = members.filter(|name| name.job != own).collect();
    if !members.is_empty() {
        super::known(process).borrow_mut(held).tied.lookouts.push(Lookout { line, members });
    }
}

/// Ends all connections: notifies the other roots that the end of this process is no failure.
pub fn end(held: &LaneGuard, process: &Process) {
    super::known(process).borrow_mut(held).tied.lookouts.clear();
}

/// Disconnects a communicator before it is freed for good (MPI-5 section 11.10.4). All messages of it have
/// arrived afterwards. Connections to processes of other jobs are dropped if neither side uses them in
/// another communicator.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn part(held: &mut LaneGuard, process: &Process, comm: &Arc<Communicator>) -> Result<()> {
    let others: Vec<WorldRank> = match comm.inter() {
        Some(inter) => inter.remote.iter().collect(),
        None => comm.group().iter().collect(),
    };
    let all = || comm.group().iter().chain(comm.peers().iter());
    if !all().any(|member| process.is_foreign(member)) {
        return Ok(());
    }
    // Flags of this member for each process it could disconnect from: 1 if it still needs it.
    let needed = still_needed(held, process, comm);
    let mine: Vec<u8> = others.iter().map(|other| u8::from(needed(*other))).collect();
    let among = comm.inter().map_or(comm, |inter| &inter.local);
    let ours = WaitContext::new(held, process, among).allgather_bytes(&mine)?;
    let theirs = match comm.inter() {
        Some(_) => WaitContext::new(held, process, comm).swap_bytes(ours)?,
        None => ours,
    };
    // Each row belongs to a member of the other group, each column to a member of this one.
    let (me, columns) = (comm.rank().0 as usize, comm.size() as usize);
    let gone: Vec<Peer> = others
        .iter()
        .enumerate()
        .filter(|(at, other)| {
            let keeps = mine[*at] != 0 || theirs.get(at * columns + me).is_none_or(|word| *word != 0);
            process.is_foreign(**other) && !keeps
        })
        .map(|(_, other)| Peer(other.0))
        .collect();
    // All messages to this process were sent before their sender came here. They are taken in before the
    // connection is closed.
    while progress::progress(held, process) {}
    forget(held, process, &gone);
    Ok(())
}

/// Returns a function that tells whether a communicator other than `comm` contains a process.
fn still_needed(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
) -> impl Fn(WorldRank) -> bool + use<> {
    let contexts = [Some(comm.context()), comm.inter().map(|inter| inter.local.context())];
    let communicators = process.library.communicators.borrow(held);
    let rest = communicators.values().filter(|other| !contexts.contains(&Some(other.context())));
    let both = rest.flat_map(|other| [other.group().clone(), other.peers().clone()]);
    let groups: Vec<Group> =
        both.filter(|group| group.iter().any(|member| process.is_foreign(member))).collect();
    move |member| groups.iter().any(|group| group.contains(member))
}

/// Drops the connections to processes of other jobs.
fn forget(held: &LaneGuard, process: &Process, gone: &[Peer]) {
    let mut messages = process.messages.borrow_mut(held);
    messages.link.bridges().forget(gone.iter().copied());
    gone.iter().for_each(|peer| messages.state.forget_peer(*peer));
    drop(messages);
    tie(held, process);
}

/// Records for the launcher the jobs to which this process is connected, and drops the objects of other
/// jobs.
pub(super) fn tie(held: &LaneGuard, process: &Process) {
    let known: Vec<Peer> = process.messages.borrow_mut(held).link.bridges().known().collect();
    let mut dynamic = super::known(process).borrow_mut(held);
    let mut others = process.library.other_jobs.borrow_mut(held);
    let names: Vec<_> = known.iter().map(|peer| others.name(WorldRank(peer.0))).collect();
    let homes = names.iter().filter_map(|name| others.home_of(*name)).collect();
    let mut lookouts = std::mem::take(&mut dynamic.tied.lookouts);
    lookouts.retain(|lookout| lookout.members.iter().any(|member| names.contains(member)));
    dynamic.tied = ConnectedJobs { homes, lookouts, ..ConnectedJobs::default() };
    let mut jobs: Vec<u64> = names.iter().map(|name| name.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    process.block().set_ties(jobs.iter().copied());
    process.guests.store(known.len() as u32, Ordering::Relaxed);
    others.jobs.retain(|job, _| jobs.binary_search(job).is_ok());
}

/// Checks one of the processes to which this one is connected; called before each sleep of a wait. Ends
/// this job if that process has been gone for some time.
pub fn watch(held: &LaneGuard, process: &Process) {
    let mut dynamic = super::known(process).borrow_mut(held);
    let connected_jobs = &mut dynamic.tied;
    if connected_jobs.homes.is_empty() && connected_jobs.lookouts.is_empty() {
        return;
    }
    connected_jobs.next = (connected_jobs.next + 1) % connected_jobs.homes.len().max(1);
    if connected_jobs.lost_since.is_none()
        && (connected_jobs.homes.get(connected_jobs.next).is_some_and(is_lost)
            || connected_jobs.is_line_lost())
    {
        connected_jobs.lost_since = Some(Instant::now());
    }
    if connected_jobs.lost_since.is_some_and(|since| since.elapsed() > PATIENCE) {
        drop(dynamic);
        let why = format!("Tutti: rank {}: a job that this one is connected with has failed", process.rank);
        process.abort(1, &why);
    }
}

impl ConnectedJobs {
    /// Returns true if the root of a group on other hosts is gone without notice. Drops lines that were
    /// closed with notice.
    fn is_line_lost(&mut self) -> bool {
        let mut any = false;
        self.lookouts.retain(|lookout| {
            let end = lookout.line.end();
            any |= end == End::Lost;
            end != End::Parted
        });
        any
    }
}

/// Returns true if a process is gone without MPI_Finalize, or if its job is being ended.
fn is_lost(home: &Home) -> bool {
    let is_running = || home.job.block(home.local).state() == RankState::Running;
    // For a process in another pid namespace, only its launcher can tell.
    let is_dead = || home.job.pid_of(home.local).is_some_and(|pid| pid > 1 && !system::is_alive(pid));
    home.job.node().failed.load(Ordering::Acquire) != 0 || is_running() && is_dead()
}
