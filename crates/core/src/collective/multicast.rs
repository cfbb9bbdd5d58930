//! Whether the hosts of a communicator hear each other's multicasts (S8), which all members have to know
//! alike.
//!
//! It is found out in a blocking operation that could go by it, once there were some: whoever speaks for a
//! host joins the group of the job, all wait for each other by a maximum, then each of them multicasts a test
//! and listens for those of the others, and a second maximum says whether all have heard all. From then on
//! algorithms may use it. Networks change their minds, so after a number of operations a maximum asks whether
//! somebody's receivers do not hear any more; then multicast is given up, and tried again after many more.
//!
//! Operations are counted, not times: so all members agree at the same one.

use std::time::{Duration, Instant};

use tutti_base::Result;
use tutti_base::config::Multicast;
use tutti_transport::Peer;

use super::{Channel, Collective, internal, places};
use crate::communicator::Communicator;
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::progress;

/// Operations that have an algorithm by multicast.
pub(super) const CONCERNED: [Collective; 5] = [
    Collective::Bcast,
    Collective::Barrier,
    Collective::Allreduce,
    Collective::Allgather,
    Collective::Allgatherv,
];
/// Such operations before it is tried: who has fewer would only pay.
const FIRST: u32 = 4;
/// After so many more, and then twice as many each time, it is asked whether it still works, at most after
const AGAIN: u32 = 4;
/// so many; and if it does not, it is tried again after so many times the operations there were.
const SELDOM: u32 = 256;
/// See [`SELDOM`].
const LATER: u32 = 4;
/// How long is waited for tests, and how often each is sent meanwhile.
const PATIENCE: Duration = Duration::from_millis(20);
/// See [`PATIENCE`].
const TESTS: u32 = 4;

/// Agrees on it, if this is an operation at which that is done.
///
/// # Errors
/// What went wrong with a message.
#[inline]
pub(super) fn agree(held: &mut LaneGuard, process: &Process, comm: &Communicator) -> Result<()> {
    let its = &comm.collectives;
    let may = matches!(its.channel, Channel::Own)
        && comm.inter().is_none()
        && process.config.collectives.multicast != Multicast::Off
        && its.node.numbers(process, comm).is_some();
    if !may {
        return Ok(());
    }
    let mut terms = its.multicast.borrow_mut(held);
    if terms.next == 0 {
        let is_forced = |collective: &Collective| {
            let name = process.config.algorithm_of(collective.name());
            name.is_some_and(|name| name.starts_with("multicast"))
        };
        let forced = CONCERNED.iter().any(is_forced);
        terms.next = if forced || process.config.collectives.multicast == Multicast::On { 1 } else { FIRST };
    }
    terms.calls += 1;
    if terms.calls < terms.next {
        return Ok(());
    }
    drop(terms);
    decide(held, process, comm)
}

#[cold]
fn decide(held: &mut LaneGuard, process: &Process, comm: &Communicator) -> Result<()> {
    let was_there = {
        let mut terms = comm.collectives.multicast.borrow_mut(held);
        // The agreement's own operations ask nothing.
        terms.next = u32::MAX;
        terms.is_there
    };
    let is_there = match was_there {
        _ if places::is_mixed(process, comm) => false,
        true => {
            let deaf = of_casting(held, process, |casting| casting.has_deaf()).unwrap_or(true);
            internal::maximum(held, process, comm, u32::from(deaf))? == 0
        }
        false => test(held, process, comm)?,
    };
    let its = &comm.collectives;
    let mut terms = its.multicast.borrow_mut(held);
    terms.is_there = is_there;
    terms.pause = if is_there { (terms.pause * 2).clamp(AGAIN, SELDOM) } else { 0 };
    terms.next = match is_there {
        true => terms.calls.saturating_add(terms.pause),
        false => terms.calls.saturating_mul(LATER).saturating_add(SELDOM),
    };
    drop(terms);
    if is_there != was_there {
        // What was planned was planned without knowing.
        its.state.borrow_mut(held).forget_plans();
    }
    Ok(())
}

/// Operations of a communicator go by it no more; all members call this.
pub(super) fn leave(held: &LaneGuard, comm: &Communicator) {
    let mut terms = comm.collectives.multicast.borrow_mut(held);
    terms.next = u32::MAX;
    if std::mem::take(&mut terms.is_there) {
        comm.collectives.state.borrow_mut(held).forget_plans();
    }
}

/// Something about the multicast of this process, if it may have any.
fn of_casting<R>(
    held: &LaneGuard,
    process: &Process,
    ask: impl FnOnce(&mut tutti_transport::Casting) -> R,
) -> Option<R> {
    process.messages.borrow_mut(held).link.casting().map(ask)
}

/// Whether all hosts hear each other.
fn test(held: &mut LaneGuard, process: &Process, comm: &Communicator) -> Result<bool> {
    let speakers = speakers(process, comm);
    let me = Peer(process.rank.0);
    let joined = of_casting(held, process, |casting| casting.join()).unwrap_or(false);
    if internal::maximum(held, process, comm, u32::from(!joined))? > 0 {
        return Ok(false);
    }
    let nonce = {
        let mut terms = comm.collectives.multicast.borrow_mut(held);
        terms.tries += 1;
        u64::from(comm.context().0) << 16 | u64::from(terms.tries & 0xffff)
    };
    let hears = !speakers.contains(&me) || {
        let others: Vec<Peer> = speakers.into_iter().filter(|peer| *peer != me).collect();
        listen(held, process, nonce, &others)
    };
    Ok(internal::maximum(held, process, comm, u32::from(!hears))? == 0)
}

/// Multicasts tests and listens for those of `others`; whether all were heard.
fn listen(held: &mut LaneGuard, process: &Process, nonce: u64, others: &[Peer]) -> bool {
    let (begun, mut sent) = (Instant::now(), 0);
    loop {
        if sent < TESTS && begun.elapsed() >= PATIENCE / TESTS * sent {
            of_casting(held, process, |casting| casting.probe(nonce));
            sent += 1;
        }
        progress::progress(held, process);
        if of_casting(held, process, |casting| casting.has_heard(nonce, others)) == Some(true) {
            return true;
        }
        if begun.elapsed() >= PATIENCE {
            return false;
        }
        held.release_while(|| std::thread::sleep(Duration::from_micros(50)));
    }
}

/// Who speaks for each host: the smallest of its ranks.
fn speakers(process: &Process, comm: &Communicator) -> Vec<Peer> {
    let mut hosts = Vec::new();
    let mut speakers = Vec::new();
    for member in comm.group().iter() {
        let host = process.job.place(member.0).host;
        if !hosts.contains(&host) {
            hosts.push(host);
            speakers.push(Peer(member.0));
        }
    }
    speakers
}
