//! Card of this rank for the report of a hang: its waits, and what ends them. The launcher requests a card
//! ([`tutti_sys::job::RankBlock::request_card`]), and each thread that has waited for long answers before its
//! next sleep. A rank that does not wait answers nothing.
//!
//! The answer may be late: it is made of state under the lock of the first lane, after the wait has published
//! its text. It is never wrong in one direction: what is not understood has no need, and proves nothing.

use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;

use tutti_base::ids::Plane;
use tutti_base::{ContextId, Rank, WorldRank};
use tutti_coll::Collective;
use tutti_hang::{Card, Kind, Message, Mode, Need, Ranks, Wait};
use tutti_sys::backtrace;
use tutti_sys::job::CARD_BYTES;
use tutti_sys::own_thread;
use tutti_sys::python;

use crate::communicator::Communicator;
use crate::lanes::{self, LaneGuard};
use crate::matching::{Envelope, Pattern};
use crate::messenger::Messenger;
use crate::needs;
use crate::p2p::partitioned::PartitionWait;
use crate::process::{Process, by_context, name_of, started};
use crate::request::{RequestId, Work};

/// Maximum number of arrived messages and of communicators in a card.
const MOST: usize = 64;
/// Number of the program's functions that a wait shows.
const MOST_CALLERS: usize = 2;

/// Waits that have answered the latest request.
#[derive(Debug)]
struct Answers {
    request: u32,
    waits: Vec<(ThreadId, Wait)>,
}

static ANSWERS: Mutex<Answers> = Mutex::new(Answers { request: 0, waits: Vec::new() });

/// Answers a request for a card with the wait of this thread, which `describe` describes. The thread must not
/// hold a lane.
#[cold]
pub fn answer(messenger: &Messenger, request: u32, describe: &dyn Fn() -> String) {
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    if answers.request != request {
        *answers = Answers { request, waits: Vec::new() };
    }
    let thread = std::thread::current().id();
    if answers.waits.iter().any(|(of, _)| *of == thread) {
        return;
    }
    let has_place = request % 2 == 1;
    answers.waits.push((thread, describe_wait(describe, has_place)));
    let waits: Vec<Wait> = answers.waits.iter().map(|(_, wait)| wait.clone()).collect();
    let others = lanes::several_wait() && own_thread::count_foreign().is_none_or(|count| count > waits.len());
    let card = make_card(&lanes::enter(), started(), waits, others);
    messenger.block().write_card(request, &card.encode(CARD_BYTES));
}

/// Returns the wait of this thread, and with `has_place` where the program has called MPI.
fn describe_wait(describe: &dyn Fn() -> String, has_place: bool) -> Wait {
    let (text, recording) = needs::record(describe);
    let (function, mut callers) =
        if has_place { backtrace::program_call(MOST_CALLERS) } else { (None, Vec::new()) };
    let of_python = if has_place { python::callers(MOST_CALLERS) } else { Vec::new() };
    if !of_python.is_empty() {
        callers = of_python;
    }
    let place = callers.iter().map(|caller| without_folder(caller)).collect::<Vec<_>>().join(" < ");
    let needs::Recording { mode, needs, is_cut } = recording;
    Wait { function: function.unwrap_or_default(), place, text, mode, needs, is_cut }
}

/// Returns `main (solver.c:7)` for `main (/home/me/solver.c:7)`.
fn without_folder(caller: &str) -> String {
    match caller.rsplit_once(" (") {
        Some((name, place)) => format!("{name} ({}", place.rsplit('/').next().unwrap_or(place)),
        None => caller.to_string(),
    }
}

/// Returns the card of this process.
fn make_card(held: &LaneGuard, process: &Process, waits: Vec<Wait>, has_other_threads: bool) -> Card {
    let mut card = Card { waits, has_other_threads, ..Card::default() };
    for lane in process.messages.lanes() {
        process.in_lane(held, lane, |inside| {
            let messages = process.messages.borrow(inside);
            card.is_transferring |= !messages.is_idle_but_for(|_| false) || messages.state.is_receiving();
            let (_, arrived) = messages.state.unmatched();
            let room = MOST.saturating_sub(card.arrived.len());
            card.arrived.extend(arrived.iter().take(room).filter_map(|envelope| message_of(held, envelope)));
        });
    }
    card.network = process.messages.borrow_mut(held).link.far().map(|far| {
        let counters = far.counters();
        (counters.sent_records, counters.received_records)
    });
    let communicators = process.library.communicators.borrow(held);
    let called = communicators.iter().filter(|(_, comm)| comm.size() > 1);
    card.called = called
        .map(|(context, comm)| (*context, comm.collectives.state.borrow(held).operations))
        .take(MOST)
        .collect();
    card
}

/// Returns a message that has arrived and matches no receive.
fn message_of(held: &LaneGuard, envelope: &Envelope) -> Option<Message> {
    let context = ContextId::of_plane(envelope.context).0;
    let sender = by_context(held, context)?.peers().get(Rank(envelope.source))?;
    Some(Message { peer: sender.0, context, object: name_of(held, context), tag: envelope.tag })
}

/// Returns the need of a receive or a probe: a message of one of the possible senders.
pub fn need_of_message(held: &LaneGuard, pattern: &Pattern) -> Need {
    let context = ContextId::of_plane(pattern.context).0;
    let senders = by_context(held, context).map(|comm| senders(&comm, pattern)).unwrap_or_default();
    Need {
        context,
        object: name_of(held, context),
        tag: pattern.tag,
        ..Need::new(Kind::Receive, needs::to_set(senders), Mode::Any)
    }
}

fn senders(comm: &Communicator, pattern: &Pattern) -> Vec<WorldRank> {
    match pattern.source {
        Some(source) if ContextId::is_of(pattern.context, Plane::PointToPoint) => {
            comm.peers().get(Rank(source)).into_iter().collect()
        }
        Some(source) => comm.process(source).into_iter().collect(),
        None => comm.peers().iter().collect(),
    }
}

/// Returns the need of a request, for a caller that holds the first lane and the request's.
pub fn need_of_request(
    (held, inside): (&LaneGuard, &LaneGuard),
    messenger: &Messenger,
    id: RequestId,
) -> Need {
    let outside = || Need::new(Kind::Outside, Ranks::default(), Mode::All);
    let messages = messenger.messages.borrow(inside);
    let Some(request) = messages.state.requests.get(id) else { return outside() };
    let context = request.context;
    let object = name_of(held, context);
    let awaited = messages.state.waiting_requests().into_iter().find(|(waiting, _)| *waiting == id);
    match &request.work {
        Work::Receive { pattern, .. } if awaited.is_some() => need_of_message(held, pattern),
        // Its message has matched, and its data are under way.
        Work::Receive { .. } => outside(),
        Work::Send { peer, tag, buffer, sent } if *sent == 0 => Need {
            context,
            tag: Some(*tag),
            bytes: buffer.bytes(),
            ..needs::of_all(Kind::Send, object, [WorldRank(*peer)])
        },
        Work::Collective(name, root) => {
            let activities = messenger.activities.borrow(held);
            let number = activities.iter().flatten().find_map(|activity| activity.number_of(held, id));
            match (number, by_context(held, context)) {
                (Some(number), Some(comm)) => need_of_members(held, &comm, (name, *root), number),
                _ => outside(),
            }
        }
        Work::Partitioned { .. } => {
            let by = |rank| Need { context, ..needs::of_all(Kind::Partition, object, [rank]) };
            match messages.state.partition_wait(id) {
                Some(PartitionWait::Own) => by(messenger.rank),
                Some(PartitionWait::Peer(peer)) => by(WorldRank(peer.0)),
                Some(PartitionWait::Sender(pattern)) => {
                    Need { kind: Kind::Partition, ..need_of_message(held, &pattern) }
                }
                None => outside(),
            }
        }
        _ => outside(),
    }
}

/// Notes the need of the blocking collective operation in which this thread waits.
pub fn note_collective(comm: &Communicator, collective: Collective, root: Option<u32>) {
    needs::note(|| {
        let held = lanes::enter();
        let latest = comm.collectives.state.borrow(&held).operations.wrapping_sub(1);
        need_of_members(&held, comm, (collective.name(), root), latest)
    });
}

/// Returns the need of a collective operation: the members that must call it, and whether all of them must.
/// In doubt one is enough, which proves less.
fn need_of_members(
    held: &LaneGuard,
    comm: &Communicator,
    (name, root): (&'static str, Option<u32>),
    number: u32,
) -> Need {
    let me = comm.rank().0;
    let is_root = root == Some(me);
    let everybody = || comm.group().iter().collect::<Vec<_>>();
    let of_root = || root.and_then(|root| comm.group().get(Rank(root))).into_iter().collect();
    let (members, mode) = match name {
        _ if comm.inter().is_some() => (Vec::new(), Mode::Any),
        // No member of these leaves before all have come. Where counts differ, a member may wait for some
        // alone.
        "barrier" | "allreduce" | "allgather" | "alltoall" | "reduce_scatter_block" => {
            (everybody(), Mode::All)
        }
        "reduce" | "gather" if is_root => (everybody(), Mode::All),
        "bcast" | "scatter" | "scatterv" if !is_root => (of_root(), Mode::All),
        _ => (everybody(), Mode::Any),
    };
    let context = comm.context().0;
    Need {
        context,
        object: name_of(held, context),
        operation: name.to_string(),
        number,
        ..Need::new(Kind::Collective, needs::to_set(members), mode)
    }
}
