//! Ends waits for a rank that has left MPI. Such a wait would never end, so it ends with an error that
//! names the rank.
//!
//! A rank has left when its program has called MPI_Finalize and has ended with status 0. With another
//! status the launcher ends the job. All messages it sent have arrived by then. So a receive without a
//! message, a send it has not taken, or a flag it has not set stays that way. This module checks all waits
//! from time to time before a sleep. [`crate::p2p::departures`] has the queries to ranks of other hosts.

use tutti_base::ids::Plane;
use tutti_base::{ContextId, Error, ErrorClass, Rank, WorldRank};
use tutti_sys::clock;
use tutti_transport::Peer;

use crate::communicator::Communicator;
use crate::lanes::{self, LaneGuard};
use crate::matching::Pattern;
use crate::messenger::Messenger;
use crate::p2p::absent::{AwaitedSide, MOST_ASKED};
use crate::process::{Process, by_context};
use crate::progress;
use crate::request::RequestId;

/// Maximum number of polls for arrived messages before a wait is given up.
const MOST_LOOKS: u32 = 10_000;

/// Ends every wait of the first lane whose partner has left. Called before a sleep; works at most twice a
/// second. Waits of other lanes, which threads use, continue, because the state of communicators is
/// accessible in the first lane only.
pub fn watch(held: &LaneGuard, process: &Process) {
    if !held.lane().is_first() || !process.messages.borrow_mut(held).state.departures.is_due(clock::now_ns())
    {
        return;
    }
    let asks = process.messages.borrow_mut(held).state.departures.may_ask(clock::now_ns());
    let (requests, probes) = (vain_requests(held, process, asks), vain_probes(held, process, asks));
    if requests.is_empty() && probes.is_empty() {
        return;
    }
    take_in_all(held, process);
    let mut messages = process.messages.borrow_mut(held);
    requests.into_iter().for_each(|(id, error)| messages.state.give_up(id, error));
    for (pattern, error) in probes {
        if messages.state.peek(pattern).is_none() {
            messages.state.departures.give_up_probe(pattern, error);
        }
    }
}

/// Takes in the messages that ranks sent before they left.
fn take_in_all(held: &LaneGuard, messenger: &Messenger) {
    let _ = (0..MOST_LOOKS).take_while(|_| progress::take_in(held, messenger)).count();
}

/// Returns the requests that wait for a rank that has left, and the error of each.
fn vain_requests(held: &LaneGuard, process: &Process, asks: bool) -> Vec<(RequestId, Error)> {
    let waiting = process.messages.borrow(held).state.waiting_requests();
    let vain = waiting.into_iter().filter_map(|(id, partner)| match partner {
        AwaitedSide::Receiver(peer) => {
            let never = || {
                format!(
                    "rank {} of the world has called MPI_Finalize and does not receive this message",
                    peer.0
                )
            };
            have_left(held, process, &[WorldRank(peer.0)], asks).then(|| (id, error(&never())))
        }
        AwaitedSide::Sender(pattern) => {
            let senders = senders(held, process, pattern)?;
            have_left(held, process, &senders, asks).then(|| (id, error(&never_sent(&pattern, &senders))))
        }
    });
    vain.collect()
}

/// Returns the probes, blocking or called for long, for a message of a rank that has left, and the error of
/// each.
fn vain_probes(held: &LaneGuard, process: &Process, asks: bool) -> Vec<(Pattern, Error)> {
    let mut probes = process.messages.borrow(held).state.departures.probes().to_vec();
    probes.extend(process.messages.borrow_mut(held).state.departures.polled_for_long());
    let vain = probes.into_iter().filter_map(|pattern| {
        let senders = senders(held, process, pattern)?;
        have_left(held, process, &senders, asks).then(|| (pattern, error(&never_sent(&pattern, &senders))))
    });
    vain.collect()
}

/// Formats the reason why a message will never arrive.
fn never_sent(pattern: &Pattern, senders: &[WorldRank]) -> String {
    match (pattern.source, senders) {
        (Some(_), [sender]) => {
            format!("rank {sender} of the world has called MPI_Finalize and sends no such message")
        }
        _ => "all other ranks have called MPI_Finalize and send no such message".to_string(),
    }
}

/// Makes the error of a wait for a rank that has left.
fn error(what: &str) -> Error {
    Error::new(ErrorClass::Other, what.to_string())
}

/// Returns the possible senders of the message of a receive, or `None` if they are not known.
fn senders(held: &LaneGuard, process: &Process, pattern: Pattern) -> Option<Vec<WorldRank>> {
    let comm = by_context(held, ContextId::of_plane(pattern.context).0)?;
    let Some(source) = pattern.source else {
        // Another thread of this process may send to it.
        let alone = !lanes::several_wait();
        return alone.then(|| comm.peers().iter().filter(|peer| *peer != process.rank).collect());
    };
    let sender = if ContextId::is_of(pattern.context, Plane::PointToPoint) {
        comm.peers().get(Rank(source))
    } else {
        comm.process(source)
    };
    sender.map(|sender| vec![sender])
}

/// Returns true if `ranks` is not empty and all of them are known to have left. With `asks` a query is sent
/// to those on other hosts.
fn have_left(held: &LaneGuard, process: &Process, ranks: &[WorldRank], asks: bool) -> bool {
    let mut messages = process.messages.borrow_mut(held);
    let is_far = |rank: &WorldRank| !process.is_foreign(*rank) && process.local_rank(*rank).is_none();
    let unknown: Vec<Peer> = ranks
        .iter()
        .filter(|rank| is_far(rank) && !messages.state.departures.has(Peer(rank.0)))
        .map(|rank| Peer(rank.0))
        .collect();
    if !unknown.is_empty() {
        if asks && unknown.len() <= MOST_ASKED {
            messages.state.ask_for_presence(unknown.into_iter());
            messages.flush_answers();
        }
        return false;
    }
    let has_left = |rank: &WorldRank| {
        let is_near = process.local_rank(*rank).is_some_and(|local| process.job.has_left(local));
        is_near || is_far(rank)
    };
    !ranks.is_empty() && ranks.iter().all(has_left)
}

/// Ends the job if all these ranks have left. For a wait that only the awaited event can end; called at
/// each poll of such a wait.
pub fn check_wait(
    held: &LaneGuard,
    process: &Process,
    what: &dyn Fn() -> String,
    ranks: impl FnOnce() -> Vec<WorldRank>,
    is_over: impl FnOnce() -> bool,
) {
    if !process.is_about_to_sleep() {
        return;
    }
    let ranks = ranks();
    let asks = process.messages.borrow_mut(held).state.departures.may_ask(clock::now_ns());
    if have_left(held, process, &ranks, asks) {
        end_in_vain(held, process, what, &ranks, is_over);
    }
}

/// Ends the job if a member of the communicator has left. For a wait that needs all members to take part.
pub fn check_members(
    held: &LaneGuard,
    process: &Process,
    what: &dyn Fn() -> String,
    comm: &Communicator,
    is_over: impl FnOnce() -> bool,
) {
    if !process.is_about_to_sleep() {
        return;
    }
    let asks = process.messages.borrow_mut(held).state.departures.may_ask(clock::now_ns());
    let mut others = comm.group().iter().filter(|rank| *rank != process.rank);
    if let Some(gone) = others.find(|rank| have_left(held, process, &[*rank], asks)) {
        end_in_vain(held, process, what, &[gone], is_over);
    }
}

/// Returns true if all these ranks have left and their messages have arrived. For a non-blocking function
/// that a program calls repeatedly; checks twice a second.
pub fn have_left_for_good(
    held: &LaneGuard,
    process: &Process,
    ranks: impl FnOnce() -> Vec<WorldRank>,
) -> bool {
    let mut messages = process.messages.borrow_mut(held);
    let now_ns = clock::now_ns();
    if !messages.state.departures.is_test_due(now_ns) {
        return false;
    }
    let asks = messages.state.departures.may_ask(now_ns);
    drop(messages);
    let is_so = have_left(held, process, &ranks(), asks);
    if is_so {
        take_in_all(held, process);
    }
    is_so
}

/// Ends the job, unless the wait is over meanwhile.
fn end_in_vain(
    held: &LaneGuard,
    process: &Process,
    what: &dyn Fn() -> String,
    ranks: &[WorldRank],
    is_over: impl FnOnce() -> bool,
) {
    take_in_all(held, process);
    if is_over() {
        return;
    }
    let names: Vec<String> = ranks.iter().map(WorldRank::to_string).collect();
    let (rank, what) = (process.rank, what());
    process.abort(
        1,
        &format!(
            "Tutti: rank {rank}: {what}: rank {} of the world has called MPI_Finalize",
            names.join(", ")
        ),
    );
}
