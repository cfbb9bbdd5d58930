//! Operations that fail at one member fail at all: whoever finds out tells the others (see [`crate::p2p::accord`]).
//!
//! That matters where messages go between members; those who meet in banks alone find out there ([`super::accord`]).

use tutti_base::ids::Plane;
use tutti_base::{ContextId, Error, Result};
use tutti_coll::{Collective, Shape};

use super::Channel;
use super::port::CommPort;
use crate::communicator::{Communicator, name_of};
use crate::error_handler::ErrorHandler;
use crate::giant::Held;
use crate::matching::Envelope;
use crate::p2p::accord::{self, Refusal};
use crate::process::Process;
use crate::wire::{Packet, Signature};

/// What the messages of an operation say of it: no more than what all members have alike.
pub(super) fn signature_of(shape: &Shape, comm: &Communicator) -> Signature {
    use Collective as C;
    if comm.inter().is_some() || shape.collective.is_of_neighbours() {
        return accord::signature(shape.collective, 0, 0);
    }
    let bytes = match shape.collective {
        C::Gatherv | C::Scatterv | C::Alltoallv => 0,
        _ => shape.count.wrapping_mul(shape.unit_bytes),
    };
    accord::signature(shape.collective, shape.root, bytes)
}

/// Why the operation of this port can go no further, if a member has given it up.
#[inline]
pub(super) fn of(port: &CommPort<'_>) -> Option<Error> {
    let messages = port.process.messages.borrow(port.held);
    if messages.state.refusals.is_empty() {
        return None;
    }
    let envelope = port.own_envelope(0);
    messages.state.refusals.of(envelope.context, envelope.tag).map(Refusal::error)
}

/// Why it can go no further, if a member has sent a message of another operation instead. For who waits for long.
pub(super) fn dissent(port: &CommPort<'_>) -> Option<Error> {
    let messages = port.process.messages.borrow(port.held);
    if messages.state.kept() == 0 || has_users_tag(port) {
        return None;
    }
    messages.state.dissenter(port.own_envelope(0), port.ticket.signature)
}

/// Why members have disagreed about this operation, which is over, or an earlier one, if a message is left that was not for
/// anybody here. While something goes on in the background it may be for that. Who still waits in that operation is told.
#[inline]
pub(super) fn overdue(port: &CommPort<'_>) -> Option<Error> {
    let none = port.process.messages.borrow(port.held).state.kept() == 0;
    if none { None } else { find_overdue(port) }
}

#[cold]
fn find_overdue(port: &CommPort<'_>) -> Option<Error> {
    if has_users_tag(port) || !port.process.activities.borrow(port.held).is_empty() {
        return None;
    }
    let found =
        port.process.messages.borrow(port.held).state.overdue(port.own_envelope(0), port.ticket.signature);
    let (tag, error) = found?;
    tell_of(port, tag, &error);
    Some(error)
}

/// The same of all communicators, when all operations are over.
pub(super) fn overdue_anywhere(held: &Held, process: &Process) -> Result<()> {
    if !process.activities.borrow(held).is_empty() {
        return Ok(());
    }
    let is_collective = |number| ContextId::of_plane(number).plane(Plane::Collective) == number;
    let found = process.messages.borrow(held).state.overdue_anywhere(is_collective);
    let Some((context, error)) = found else { return Ok(()) };
    let place = name_of(held, ContextId::of_plane(context).0);
    Err(Error::new(error.class, format!("in {place}: {}", error.message)))
}

/// Operations under a user's tag follow each other under the same one.
fn has_users_tag(port: &CommPort<'_>) -> bool {
    matches!(port.comm.collectives.channel, Channel::Outside(_))
}

/// Tells all members that this one has given the operation up, unless the error ends the job.
#[cold]
pub(super) fn tell(port: &CommPort<'_>, error: &Error) {
    tell_of(port, port.ticket.tag, error);
}

/// The same of the operation with this tag.
#[cold]
fn tell_of(port: &CommPort<'_>, tag: i32, error: &Error) {
    let (process, comm, held) = (port.process, port.comm, port.held);
    let ends = matches!(*comm.error_handler.borrow(held), ErrorHandler::Fatal | ErrorHandler::Abort);
    let mut messages = process.messages.borrow_mut(held);
    if !ends && !has_users_tag(port) {
        let (envelope, class) = (Envelope { tag, ..port.own_envelope(0) }, error.class);
        let others = comm.inter().map_or(0, |inter| inter.remote.size());
        for member in 0..comm.size() + others {
            if let Some(peer) = comm.process(member).filter(|peer| *peer != process.rank) {
                messages.tell(peer, Packet::Refused { envelope, class: class as u16 });
            }
        }
        messages.state.refused(envelope, class);
    }
    messages.state.settle();
    messages.flush_answers();
}
