//! Decides whether the hosts of a communicator use multicast (S8). All members must reach the same decision
//! at the same operation.
//!
//! Multicast is tested in a blocking operation that could use it. The test starts when such operations have
//! taken as long in total as a failed test takes. So a program with few of them, or with none that
//! multicast makes faster, pays nothing. Steps of the test:
//!
//! 1. The leader of each host joins the group of the job.
//! 2. A maximum over the members makes all wait for each other.
//! 3. Each leader multicasts a test message and listens for those of the others.
//! 4. A second maximum tells whether every leader has received every message.
//!
//! After that algorithms may use multicast. Networks change, so after a number of operations by multicast a
//! maximum checks whether all receivers still get messages. If not, multicast is given up, and tested
//! again after many more operations.
//!
//! Operations are counted, and their times come from the model, so all members decide at the same
//! operation. For that each member must count the same operations. A counted operation is therefore never
//! [replayed](super::replay): whether a member replays one depends on what has ended there, and on its
//! addresses.
//!
//! Reductions use multicast only if they do so from the first one on (`TUTTI_MULTICAST=on`, or an
//! algorithm's name). A program that adds the same numbers twice should get the same bits (MPI-5 section
//! 6.9.1).

use std::time::{Duration, Instant};

use tutti_base::Result;
use tutti_base::config::Multicast;
use tutti_coll::generator::Need;
use tutti_coll::select::Choice;
use tutti_coll::{Collective, Shape};
use tutti_sys::floating_point::isolated;
use tutti_transport::Peer;

use crate::collective::context::{CommContext, WaitContext, member_layout};
use crate::communicator::Communicator;
use crate::communicator::collectives::Terms;
use crate::communicator::collectives::call::Call;
use crate::communicator::collectives::{Channel, places};
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::progress;

/// Collectives that have an algorithm by multicast.
pub(in crate::collective) const CONCERNED: [Collective; 5] = [
    Collective::Bcast,
    Collective::Barrier,
    Collective::Allreduce,
    Collective::Allgather,
    Collective::Allgatherv,
];
/// Minimum number of hosts; with fewer, no data are sent twice.
const FEWEST_HOSTS: u32 = 3;
/// Maximum number of shapes for which it is recorded whether multicast makes them faster.
const MOST_SHAPES: usize = 64;
/// Total time of such operations, in nanoseconds, after which multicast is tested: [`PATIENCE`], the time
/// of a failed test. Each failed test multiplies it by [`DEARER`]. Integers, since this runs in the
/// program's floating-point environment.
const PRICE_NS: u64 = 20_000_000;
/// Factor for [`PRICE_NS`] after each failed test.
const DEARER: u64 = 16;
/// Number of operations before the first check whether multicast still works. It doubles with each check.
const AGAIN: u32 = 4;
/// Maximum number of operations between two checks. It is also added to the operations before the next test
/// if a test or check has failed.
const SELDOM: u32 = 256;
/// Factor on the number of operations so far, which gives the next test after a failed one, see [`SELDOM`].
const LATER: u64 = 4;
/// Time that a leader waits for the test messages of others.
const PATIENCE: Duration = Duration::from_millis(20);
/// Number of times that each leader sends its test message within [`PATIENCE`].
const TESTS: u32 = 4;

/// Agrees on the use of multicast if a test or check is due at this operation.
///
/// # Errors
/// Returns the error of a message that failed.
#[inline]
pub(in crate::collective) fn agree(cx: &mut WaitContext<'_>, call: &Call<'_>) -> Result<()> {
    if !CONCERNED.contains(&call.collective()) {
        return Ok(());
    }
    let Some(time_ns) = concern(cx.shared(), call.shape()) else { return Ok(()) };
    if cx.comm.collectives.multicast.borrow_mut(cx.lane).count(time_ns) { decide(cx) } else { Ok(()) }
}

/// Returns the time of an operation of this shape without multicast, in nanoseconds; `None` if such
/// operations do not count. The result is the same at all members.
pub(in crate::collective) fn concern(cx: CommContext<'_>, shape: &Shape) -> Option<u64> {
    let its = &cx.comm.collectives;
    let paths = cx.process.config.collectives.multicast;
    let may = paths != Multicast::Off
        && CONCERNED.contains(&shape.collective)
        && matches!(its.channel, Channel::Own)
        && cx.comm.inter().is_none()
        && its.node.numbers(cx.process, cx.comm).is_some();
    if !may {
        return None;
    }
    if is_demanded(cx.process) {
        return Some(u64::MAX);
    }
    if shape.collective == Collective::Allreduce {
        return None;
    }
    its.multicast.borrow(cx.lane).time_ns_of(shape)
}

/// Returns true if multicast is to be used from the first operation on, if available.
fn is_demanded(process: &Process) -> bool {
    let is_forced = |collective: &Collective| {
        let name = process.config.algorithm_of(collective.name());
        name.is_some_and(|name| name.starts_with("multicast"))
    };
    process.config.collectives.multicast == Multicast::On || CONCERNED.iter().any(is_forced)
}

/// Returns true if algorithms of a collective may use multicast.
pub(in crate::collective) fn may_carry(cx: CommContext<'_>, collective: Collective) -> bool {
    cx.comm.collectives.multicast.borrow(cx.lane).is_there()
        && (collective != Collective::Allreduce || is_demanded(cx.process))
}

/// Returns true if the members are on at least `FEWEST_HOSTS` hosts.
fn has_several_hosts(process: &Process, comm: &Communicator) -> bool {
    member_layout(process, comm).is_some_and(|layout| layout.hosts() >= FEWEST_HOSTS)
}

/// Records whether operations with this choice count; called when a new choice is made. Members record the
/// same ones in the same order.
pub(in crate::collective) fn note(cx: CommContext<'_>, shape: &Shape, choice: &Choice) {
    let off = cx.process.config.collectives.multicast == Multicast::Off;
    if off || !CONCERNED.contains(&shape.collective) || !has_several_hosts(cx.process, cx.comm) {
        return;
    }
    let mut terms = cx.comm.collectives.multicast.borrow_mut(cx.lane);
    let counts = match terms.is_there {
        true => choice.generator.requires(Need::Multicast),
        false => isolated(|| choice.may_be_slower_than_multicast()),
    };
    terms.note(shape, counts.then(|| isolated(|| (choice.time * 1e9) as u64)));
}

impl Terms {
    /// Counts an operation of this duration; returns true if a test or check is due.
    fn count(&mut self, time_ns: u64) -> bool {
        self.calls += 1;
        self.time_ns = self.time_ns.saturating_add(time_ns);
        let price_ns = PRICE_NS.saturating_mul(DEARER.saturating_pow(self.vain));
        self.calls >= self.next && (self.is_there || self.time_ns >= price_ns)
    }

    /// Returns the recorded time of an operation of this shape, if such operations count.
    fn time_ns_of(&self, shape: &Shape) -> Option<u64> {
        let shape = key(shape);
        self.shapes.iter().find(|(known, _)| *known == shape).and_then(|(_, time_ns)| *time_ns)
    }

    /// Records a shape, and never replaces one: which execution a member plans again depends on what has
    /// ended there.
    fn note(&mut self, shape: &Shape, time_ns: Option<u64>) {
        let shape = key(shape);
        if self.shapes.len() < MOST_SHAPES && self.shapes.iter().all(|(known, _)| *known != shape) {
            self.shapes.push((shape, time_ns));
        }
    }
}

/// Returns the part of a shape that all members have in common.
fn key(shape: &Shape) -> Shape {
    Shape { rank: 0, in_place: false, own: 0, ..*shape }
}

/// Performs the test or check that is due, and applies the result.
#[cold]
fn decide(cx: &mut WaitContext<'_>) -> Result<()> {
    let was_there = {
        let mut terms = cx.comm.collectives.multicast.borrow_mut(cx.lane);
        // The operations of the agreement itself do not start another one.
        terms.next = u64::MAX;
        terms.is_there
    };
    let is_there = match was_there {
        _ if places::is_mixed(cx.process, cx.comm) => false,
        true => {
            let deaf = of_casting(cx.lane, cx.process, |casting| casting.has_deaf()).unwrap_or(true);
            cx.maximum(u64::from(deaf))? == 0
        }
        false => test(cx)?,
    };
    let its = &cx.comm.collectives;
    let mut terms = its.multicast.borrow_mut(cx.lane);
    terms.is_there = is_there;
    terms.time_ns = 0;
    terms.vain += u32::from(!is_there);
    terms.pause = if is_there { (terms.pause * 2).clamp(AGAIN, SELDOM) } else { 0 };
    terms.next = match is_there {
        true => terms.calls + u64::from(terms.pause),
        false => terms.calls.saturating_mul(LATER).saturating_add(u64::from(SELDOM)),
    };
    if is_there != was_there {
        // Existing plans were made under the old decision.
        terms.shapes.clear();
        its.state.borrow_mut(cx.lane).forget_plans();
    }
    Ok(())
}

/// Stops the use of multicast on a communicator for good; all members call this.
pub(in crate::collective) fn leave(held: &LaneGuard, comm: &Communicator) {
    let mut terms = comm.collectives.multicast.borrow_mut(held);
    terms.next = u64::MAX;
    if std::mem::take(&mut terms.is_there) {
        terms.shapes.clear();
        comm.collectives.state.borrow_mut(held).forget_plans();
    }
}

/// Calls a function on the multicast state of this process, if there is one.
fn of_casting<R>(
    held: &LaneGuard,
    process: &Process,
    ask: impl FnOnce(&mut tutti_transport::Casting) -> R,
) -> Option<R> {
    process.messages.borrow_mut(held).link.casting().map(ask)
}

/// Tests multicast; returns true if all hosts receive each other's messages.
fn test(cx: &mut WaitContext<'_>) -> Result<bool> {
    let speakers = speakers(cx.process, cx.comm);
    let me = Peer(cx.process.rank.0);
    let joined = of_casting(cx.lane, cx.process, |casting| casting.join()).unwrap_or(false);
    if cx.maximum(u64::from(!joined))? > 0 {
        return Ok(false);
    }
    let nonce = {
        let mut terms = cx.comm.collectives.multicast.borrow_mut(cx.lane);
        terms.tries += 1;
        u64::from(cx.comm.context().0) << 16 | u64::from(terms.tries & 0xffff)
    };
    let hears = !speakers.contains(&me) || {
        let others: Vec<Peer> = speakers.into_iter().filter(|peer| *peer != me).collect();
        listen(cx.lane, cx.process, nonce, &others)
    };
    Ok(cx.maximum(u64::from(!hears))? == 0)
}

/// Multicasts test messages and listens for those of `others`; returns true if all have arrived.
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

/// Returns the leader of each host: the member with the smallest rank there.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_when_it_would_have_paid() {
        let check = |terms: &mut Terms, time_ns: u64, operations: usize| {
            let first = (1..=100_000).find(|_| terms.count(time_ns));
            assert_eq!(first, Some(operations), "{time_ns}");
        };
        check(&mut Terms::default(), u64::MAX, 1);
        check(&mut Terms::default(), PRICE_NS, 1);
        check(&mut Terms::default(), PRICE_NS / 8, 8);
        check(&mut Terms { vain: 1, ..Terms::default() }, PRICE_NS / 8, 128);
        check(&mut Terms { is_there: true, next: 5, ..Terms::default() }, 0, 5);
        check(&mut Terms { next: 9, ..Terms::default() }, u64::MAX, 9);
        assert!(!(0..1000).any(|_| Terms { next: u64::MAX, ..Terms::default() }.count(u64::MAX)));
    }

    #[test]
    fn what_counts_is_the_same_for_all_members() {
        let of = |rank, count| Shape { root: 1, ..Shape::new(Collective::Bcast, 4, rank, count) };
        let mut terms = Terms::default();
        terms.note(&of(0, 8), Some(1));
        terms.note(&of(2, 8), None);
        terms.note(&of(0, 9), None);
        let known: Vec<_> =
            [(3, 8), (3, 9), (3, 10)].map(|(rank, count)| terms.time_ns_of(&of(rank, count))).into();
        assert_eq!(known, [Some(1), None, None]);
        (100..300).for_each(|count| terms.note(&of(0, count), Some(2)));
        assert_eq!(terms.shapes.len(), MOST_SHAPES);
        assert_eq!(terms.time_ns_of(&of(1, 8)), Some(1));
    }
}
