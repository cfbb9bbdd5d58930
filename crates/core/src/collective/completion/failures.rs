//! Propagation of failures: an operation that fails at one member fails at all. The member that detects a
//! failure reports it to the others (see [`crate::p2p::agreement`]).
//!
//! Reports are needed where messages connect the members. Members that meet in banks alone detect the
//! failure there ([`crate::communicator::collectives::agreement`]).
//!
//! Members that wait for a long time send inquiries to the members they wait for.
//!
//! A rank that receives a message of another operation detects the mismatch itself
//! ([`crate::p2p::agreement`]). But members of two operations may all wait for messages that are never
//! sent. An example is the root of a gather, while the other members wait for its broadcast. So a rank that
//! has waited for a second inquires of the members whose messages it waits for, or that have not taken its
//! own. If it waits for flags, it inquires of the members in turn. It repeats the inquiry after twice the
//! time, since members may be late, or busy elsewhere.
//!
//! Each member remembers the signatures of the latest operations. A member that has begun the operation
//! with another signature answers. One that has not begun it is late, which is no mistake, and does not
//! answer. In a row of members that wait for each other, the one next to the mismatch detects it and
//! reports it to all.
//!
//! Persistent operations have numbers of their own. Making one takes a number of the ordinary ones too, so
//! that members that do something different instead detect the mismatch.

use tutti_base::ids::Plane;
use tutti_base::{ContextId, Error, ErrorClass, WorldRank};
use tutti_coll::Collective;
use tutti_sys::clock;

use crate::collective::context::CommContext;
use crate::collective::execution::port::CommPort;
use crate::communicator::Communicator;
use crate::communicator::collectives::history::CallHistory;
use crate::communicator::collectives::{Channel, OperationState, agreement as of_banks};
use crate::error_handler::ErrorHandler;
use crate::lanes::LaneGuard;
use crate::matching::Envelope;
use crate::messenger::Messenger;
use crate::p2p::agreement::{self, PERSISTENT, Refusal};
use crate::process::{Process, by_context, name_of};
use crate::request::Awaited;
use crate::wire::{Packet, Signature};

/// Maximum number of members that get an inquiry at a time. For flags this is the number of the first time,
/// which doubles each time.
const ASKED: usize = 16;

/// Returns an error if another member has given up the operation of this port.
#[inline]
pub(in crate::collective) fn failure_of(port: &CommPort<'_>) -> Option<Error> {
    let messages = port.cx.process.messages.borrow(port.cx.lane);
    if messages.state.failed_operations.is_empty() {
        return None;
    }
    let envelope = port.own_envelope(0);
    messages.state.failed_operations.of(envelope.context, envelope.tag).map(Refusal::error)
}

/// Returns an error if a member has sent a message of another operation instead. Only for operations that
/// wait for long.
pub(in crate::collective) fn mismatched_message(port: &CommPort<'_>) -> Option<Error> {
    let messages = port.cx.process.messages.borrow(port.cx.lane);
    if messages.state.kept() == 0 || has_users_tag(port) {
        return None;
    }
    messages.state.dissenter(port.own_envelope(0), port.ticket.signature)
}

/// Returns an error if the members disagree about this operation, which is over, or an earlier one. The
/// sign is a message that matches no operation of this rank. Members that still wait in that operation get
/// a report. Does nothing while background operations are active, which may use the message.
#[inline]
pub(in crate::collective) fn leftover_mismatch(port: &CommPort<'_>) -> Option<Error> {
    let none = port.cx.process.messages.borrow(port.cx.lane).state.kept() == 0;
    if none { None } else { find_leftover_mismatch(port) }
}

/// Searches for such a message, after the quick check has found that messages are left.
#[cold]
fn find_leftover_mismatch(port: &CommPort<'_>) -> Option<Error> {
    if has_users_tag(port) || !port.cx.process.activities.borrow(port.cx.lane).is_empty() {
        return None;
    }
    let found = port
        .cx
        .process
        .messages
        .borrow(port.cx.lane)
        .state
        .overdue(port.own_envelope(0), port.ticket.signature);
    let (tag, error) = found?;
    report_failure_of(port, tag, &error);
    Some(error)
}

/// Data of a collective operation that another rank has sent and this rank has not received.
pub(crate) struct Unreceived {
    /// The communicator, the operation and the sender.
    pub(crate) error: Error,
    /// True if this rank has called the operation too, with other arguments: results may be wrong. False if
    /// it has not called it: no rank waits for the data.
    pub(crate) is_disagreement: bool,
}

/// Returns unreceived data of the collective operations of all communicators; a disagreement, if there is
/// one. For a process all of whose operations are complete.
pub(crate) fn unreceived(held: &LaneGuard, process: &Process) -> Option<Unreceived> {
    let messenger: &Messenger = process;
    if !messenger.activities.borrow(held).is_empty() {
        return None;
    }
    let is_collective = |number| ContextId::of_plane(number).plane(Plane::Collective) == number;
    let left_over = messenger.messages.borrow(held).state.left_over_anywhere(is_collective);
    let mut first = None;
    for (envelope, error) in left_over {
        let context = ContextId::of_plane(envelope.context).0;
        let place = name_of(held, context);
        let error = Error::new(error.class, format!("in {place}: {}", error.message));
        // All operations of a communicator that is freed were called.
        let is_disagreement = by_context(held, context)
            .is_none_or(|comm| comm.collectives.state.borrow(held).has_begun(envelope.tag));
        let found = Unreceived { error, is_disagreement };
        if is_disagreement {
            return Some(found);
        }
        first.get_or_insert(found);
    }
    let communicators = process.library.communicators.borrow(held);
    let by_banks = communicators
        .values()
        .find_map(|comm| unreported_mismatch_in_banks(CommContext::new(held, process, comm)));
    by_banks.map(|error| Unreceived { error, is_disagreement: true }).or(first)
}

/// Returns an error if members disagree about one of the latest operations of a communicator, all of which
/// are over here. That happens if each member only had to leave data for others. Slow; called when the
/// communicator is about to be freed.
#[cold]
pub fn unreported_mismatch(cx: CommContext<'_>) -> Option<Error> {
    let Channel::Own = cx.comm.collectives.channel else { return None };
    if !cx.process.activities.borrow(cx.lane).is_empty() {
        return None;
    }
    let context = cx.comm.context().plane(Plane::Collective);
    // A persistent operation may be started after its communicator is freed, at a faster member first.
    let state = cx.comm.collectives.state.borrow(cx.lane);
    let is_awaited = |tag| tag & PERSISTENT != 0 && state.history.signature(tag, 0).is_some();
    let left_over = cx.process.messages.borrow(cx.lane).state.left_over(context, is_awaited);
    drop(state);
    if left_over.is_some() {
        return left_over;
    }
    unreported_mismatch_in_banks(cx)
}

/// Does the same check with the signatures that members have noted in the banks of the host.
fn unreported_mismatch_in_banks(cx: CommContext<'_>) -> Option<Error> {
    let context = cx.comm.context().plane(Plane::Collective);
    if cx.process.messages.borrow(cx.lane).state.failed_operations.may_be_in(context) {
        return None;
    }
    let node = &cx.comm.collectives.node;
    let operations = cx.comm.collectives.state.borrow(cx.lane).operations;
    let banks = node.banks(cx.lane)?;
    let place = || name_of(cx.lane, cx.comm.context().0);
    let rank_of = |member| node.rank_of(cx.process, cx.comm, member);
    CallHistory::latest(operations)
        .find_map(|number| of_banks::unreported_mismatch(&banks, number, place, rank_of))
}

/// Returns true if operations use a tag of the user, which successive operations share.
fn has_users_tag(port: &CommPort<'_>) -> bool {
    matches!(port.cx.comm.collectives.channel, Channel::Outside(_))
}

/// Reports to all members that this one has given the operation up, unless the error ends the job.
#[cold]
pub(in crate::collective) fn report_failure(port: &CommPort<'_>, error: &Error) {
    report_failure_of(port, port.ticket.tag, error);
}

/// Reports the same for the operation with this tag.
#[cold]
fn report_failure_of(port: &CommPort<'_>, tag: i32, error: &Error) {
    let (messenger, comm, held) = (port.cx.process, port.cx.comm, port.cx.lane);
    let ends = matches!(*comm.error_handler.borrow(held), ErrorHandler::Fatal | ErrorHandler::Abort);
    let mut messages = messenger.messages.borrow_mut(held);
    if !ends && !has_users_tag(port) {
        let (envelope, class) = (Envelope { tag, ..port.own_envelope(0) }, error.class);
        let others = comm.inter().map_or(0, |inter| inter.remote.size());
        for member in 0..comm.size() + others {
            if let Some(peer) = comm.process(member).filter(|peer| *peer != messenger.rank) {
                messages.tell(peer, Packet::Refused { envelope, class: class as u16 });
            }
        }
        messages.state.refused(envelope, class);
    }
    messages.state.settle();
    messages.flush_answers();
}

/// Sends inquiries if the operation of this port has waited for long.
#[cold]
pub(in crate::collective) fn send_inquiries(port: &mut CommPort<'_>) {
    if has_users_tag(port) || !port.ticket.patience.is_over(clock::now_ns()) {
        return;
    }
    let own = port.own_envelope(0);
    let (comm, ticket) = (port.cx.comm, &*port.ticket);
    let mut messages = port.cx.process.messages.borrow_mut(port.cx.lane);
    let Awaited { sources, peers } = messages.state.requests.awaited(comm.context().0, own);
    let sources = sources.into_iter().filter_map(|source| comm.process(source));
    let sources = sources.chain(peers).filter(|peer| *peer != port.cx.process.rank);
    let mut asked: Vec<_> = sources.take(ASKED).collect();
    if ticket.turn.is_some() {
        // Flags carry no identity of their owner, so members are asked in turn.
        let (me, size) = (comm.rank().0, comm.size());
        let others =
            (1..size).map(|distance| (me + distance) % size).filter_map(|member| comm.process(member));
        asked.extend(others.take(ASKED << (ticket.patience.asked - 1).min(20)));
    }
    asked.sort_unstable();
    asked.dedup();
    for peer in asked {
        messages.tell(peer, Packet::Inquiry { envelope: own, signature: ticket.signature });
        if let Some((tag, signature)) = ticket.patience.made {
            messages.tell(peer, Packet::Inquiry { envelope: Envelope { tag, ..own }, signature });
        }
    }
    messages.flush_answers();
}

/// Returns an error if the operation of this port waits for the flag of a member that has left MPI.
#[cold]
pub(in crate::collective) fn departed_member(port: &mut CommPort<'_>) -> Option<Error> {
    let member = port.ticket.patience.awaited?;
    let world = port.cx.comm.process(member)?;
    let local = port.cx.process.local_rank(world).filter(|local| port.cx.process.job.has_left(*local))?;
    // The flag may have been set between the check of it and the check of its owner, so it is checked once
    // more.
    if port.ticket.patience.suspect.replace(local) != Some(local) {
        return None;
    }
    let reason = format!(
        "rank {member} has called MPI_Finalize and takes no part in this operation; all ranks must call the same \
         operations"
    );
    Some(Error::new(ErrorClass::Other, reason))
}

/// Returns an error if a member has answered that it has begun this operation with another signature.
#[cold]
pub(in crate::collective) fn mismatch_by_reply(port: &CommPort<'_>) -> Option<Error> {
    let own = port.own_envelope(0);
    let mut messages = port.cx.process.messages.borrow_mut(port.cx.lane);
    let of_made = port.ticket.patience.made;
    let mut of = |tag, mine| {
        messages
            .state
            .failed_operations
            .take_dissent(own.context, tag)
            .and_then(|(source, theirs)| agreement::disagreement(mine, theirs, source))
    };
    of(own.tag, port.ticket.signature).or_else(|| of_made.and_then(|(tag, signature)| of(tag, signature)))
}

/// Answers the inquiry of a member whose signature for an operation is `theirs`. Sends an answer only if
/// this rank has begun it with a conflicting signature.
#[cold]
pub(crate) fn answer_inquiry(
    held: &LaneGuard,
    process: &Process,
    from: WorldRank,
    envelope: Envelope,
    theirs: Signature,
) {
    let context = ContextId::of_plane(envelope.context);
    let Some(comm) = process.library.communicators.borrow(held).get(&context.0).cloned() else { return };
    let Some(mine) = signature_of_begun(held, &comm, envelope.tag) else { return };
    if agreement::disagreement(theirs, mine, envelope.source).is_some() {
        let envelope = Envelope { source: comm.number(comm.rank(), false), ..envelope };
        let mut messages = process.messages.borrow_mut(held);
        messages.tell(from, Packet::Dissent { envelope, signature: mine });
        messages.flush_answers();
    }
}

/// Returns the signature with which this rank has begun an operation, if it has and remembers it.
fn signature_of_begun(held: &LaneGuard, comm: &Communicator, tag: i32) -> Option<Signature> {
    let state = comm.collectives.state.borrow(held);
    let OperationState { history, operations, .. } = &*state;
    history.signature(tag, *operations)
}

/// Returns the signature of making a persistent operation.
pub(in crate::collective) fn signature_of_making(collective: Collective) -> Signature {
    agreement::making(collective)
}
