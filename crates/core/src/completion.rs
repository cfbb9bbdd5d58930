//! Waiting for requests and finishing them (MPI-5 section 3.7.3).
//!
//! A complete request is finished exactly once. Its slot is freed, or, if it is persistent, it becomes
//! inactive. The functions of the ABI for several requests are loops over [`is_complete`] and [`finish`].
//!
//! The caller of each function must hold the request's lane or the first one.

use std::sync::Arc;

use tutti_base::{ContextId, Error, ErrorClass, Rank, Result, WorldRank};

use crate::hang;
use crate::lanes::{LaneGuard, engage};
use crate::matching::Pattern;
use crate::messenger::Messenger;
use crate::needs;
use crate::process::{by_context, name_of};
use crate::progress;
pub use crate::request::Finished;
use crate::request::{Generalised, Request, RequestId, Retired, Status, Template, Work};
use crate::separation::Counterpart;

/// Returns true if a request is complete or inactive. Makes no progress.
///
/// # Errors
/// Returns `Request` for an unknown one.
#[inline]
pub fn is_complete(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<bool> {
    within(held, messenger, id, |held| {
        Ok(messenger.messages.borrow_mut(held).state.requests.user(id)?.complete)
    })
}

/// Returns true if the request exists.
pub fn is_known(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> bool {
    within(held, messenger, id, |held| messenger.messages.borrow(held).state.requests.get(id).is_some())
}

/// Calls a function in the lane of a request.
#[inline]
fn within<R>(
    held: &LaneGuard,
    messenger: &Messenger,
    id: RequestId,
    work: impl FnOnce(&LaneGuard) -> R,
) -> R {
    messenger.in_lane(held, id.lane().unwrap_or(held.lane()), work)
}

/// Returns true if a request is persistent and not started.
///
/// # Errors
/// Returns `Request` for an unknown one.
pub fn is_inactive(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<bool> {
    within(held, messenger, id, |held| {
        Ok(messenger.messages.borrow_mut(held).state.requests.user(id)?.is_inactive())
    })
}

/// Returns true if a request is persistent, so that its handle stays valid after its operation.
pub fn is_persistent(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> bool {
    within(held, messenger, id, |held| {
        let messages = messenger.messages.borrow(held);
        messages.state.requests.get(id).is_some_and(|request| request.persistent.is_some())
    })
}

/// State of a request in a test of several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A persistent request that is not started.
    Inactive,
    /// An active operation.
    Running,
    /// A complete operation.
    Over,
}

/// Returns the state of a request. Makes no progress.
///
/// # Errors
/// Returns `Request` for an unknown one.
#[inline]
pub fn stage(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<Stage> {
    within(held, messenger, id, |held| {
        let mut messages = messenger.messages.borrow_mut(held);
        let request = messages.state.requests.user(id)?;
        Ok(match request {
            request if request.is_inactive() => Stage::Inactive,
            request if request.complete => Stage::Over,
            _ => Stage::Running,
        })
    })
}

/// Returns the context of a request's communicator.
///
/// # Errors
/// Returns `Request` for an unknown one.
pub fn context_of(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<u32> {
    within(held, messenger, id, |held| {
        Ok(messenger.messages.borrow_mut(held).state.requests.user(id)?.context)
    })
}

/// Waits until `id` is complete, then finishes it. The text shown to a user who asks where this rank waits
/// is `operation` and the request's purpose.
#[inline]
pub fn wait(held: &mut LaneGuard, messenger: &Messenger, id: RequestId, operation: &'static str) -> Finished {
    if !is_over(held, messenger, id) {
        wait_for(held, messenger, id, operation);
    }
    finish(held, messenger, id)
}

/// Returns true if a request is complete, or does not exist any more.
#[inline]
fn is_over(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> bool {
    within(held, messenger, id, |held| {
        messenger.messages.borrow(held).state.requests.get(id).is_none_or(|request| request.complete)
    })
}

/// Returns true if a request is a collective operation.
fn is_collective(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> bool {
    within(held, messenger, id, |held| {
        let messages = messenger.messages.borrow(held);
        messages.state.requests.get(id).is_some_and(|request| matches!(request.work, Work::Collective(..)))
    })
}

/// Waits until `id` is complete, which it is not yet.
fn wait_for(held: &mut LaneGuard, messenger: &Messenger, id: RequestId, operation: &'static str) {
    engage(id.lane().unwrap_or(held.lane()));
    progress::advance_alone(held, messenger);
    let done = |held: &LaneGuard| is_over(held, messenger, id);
    if done(held) {
        return;
    }
    let what = || format!("{operation}{}", describe_request(messenger, id));
    if messenger.gives_way(messenger.job.header().local_ranks) && is_collective(held, messenger, id) {
        progress::wait_for_all(held, messenger, &what, done);
    } else {
        let shares = messenger.is_crowded() && held.lane().is_first();
        let counterpart = if shares { counterpart(held, messenger, id) } else { None };
        progress::wait_for(held, messenger, counterpart, &what, done);
    }
}

/// Returns the rank whose action completes a request, if it may share this rank's processor
/// ([`crate::host::Host::counterpart`]).
fn counterpart<'a>(held: &LaneGuard, messenger: &'a Messenger, id: RequestId) -> Option<Counterpart<'a>> {
    let messages = messenger.messages.borrow(held);
    let (world, buffer) = match &messages.state.requests.get(id)?.work {
        Work::Send { peer, buffer, .. } => (WorldRank(*peer), buffer),
        Work::Receive { pattern, buffer, .. } => {
            let comm = by_context(held, ContextId::of_plane(pattern.context).0)?;
            (comm.peers().get(Rank(pattern.source?))?, buffer)
        }
        _ => return None,
    };
    Some(messenger.counterpart(world)?.for_message(buffer.bytes()))
}

/// Finishes a complete request: frees it, or makes it inactive if it is persistent.
#[inline]
pub fn finish(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Finished {
    within(held, messenger, id, |held| finish_here(held, messenger, id))
}

/// Finishes a request of the held lane. Plain requests take the short path.
#[inline]
fn finish_here(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Finished {
    let mut messages = messenger.messages.borrow_mut(held);
    let requests = &mut messages.state.requests;
    if let Some(request) = requests.get_mut(id)
        && request.persistent.is_none()
        && !matches!(request.work, Work::Generalised(_))
    {
        let (status, context, error) = (request.status, request.context, request.error.take());
        requests.drop_in_place(id);
        return Finished { result: error.map_or(Ok(status), Err), status, persistent: false, context };
    }
    drop(messages);
    finish_special(held, messenger, id)
}

/// Finishes a request of the held lane if it is complete and has only a status, as most have. Returns
/// `None` for others.
#[inline]
pub fn retire_plain(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Option<Retired> {
    messenger.messages.borrow_mut(held).state.requests.retire_plain(id)
}

/// Finishes a request if it is complete; returns `None` while it runs.
///
/// # Errors
/// Returns `Request` for an unknown one.
#[inline]
pub fn finish_if_over(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<Option<Finished>> {
    within(held, messenger, id, |held| {
        let is_over = messenger.messages.borrow_mut(held).state.requests.user(id)?.complete;
        Ok(is_over.then(|| finish_here(held, messenger, id)))
    })
}

/// Finishes persistent and generalised requests, and handles identifiers without a request.
fn finish_special(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Finished {
    let mut messages = messenger.messages.borrow_mut(held);
    let requests = &mut messages.state.requests;
    if let Some(request) = requests.get_mut(id).filter(|request| request.persistent.is_some()) {
        let (status, error, context) = (request.status, request.error.take(), request.context);
        let was_active = !request.is_inactive();
        if let Some(persistent) = &mut request.persistent {
            persistent.active = false;
        }
        request.status = Status::EMPTY;
        let status = if was_active { status } else { Status::EMPTY };
        return Finished { result: error.map_or(Ok(status), Err), status, persistent: true, context };
    }
    let Some(request) = requests.remove(id) else {
        return Finished { result: Ok(Status::EMPTY), status: Status::EMPTY, persistent: false, context: 0 };
    };
    drop(messages);
    let (status, context) = (request.status, request.context);
    let result = match (request.work, request.error) {
        (_, Some(error)) => Err(error),
        (Work::Generalised(callbacks), None) => query_and_free(&callbacks),
        (_, None) => Ok(status),
    };
    let status = *result.as_ref().unwrap_or(&status);
    Finished { result, status, persistent: false, context }
}

/// Returns the status of a request without finishing it (MPI_Request_get_status); `None` while it runs.
///
/// # Errors
/// Returns `Request` for an unknown one, or the error of a query callback.
pub fn peek(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<Option<Status>> {
    let mut query = None;
    let seen = within(held, messenger, id, |held| {
        let mut messages = messenger.messages.borrow_mut(held);
        let request = messages.state.requests.user(id)?;
        if request.is_inactive() {
            return Ok(Some(Status::EMPTY));
        }
        if !request.complete {
            return Ok(None);
        }
        if let Work::Generalised(callbacks) = &request.work {
            query = Some(Arc::clone(callbacks));
        }
        request.error.clone().map_or(Ok(Some(request.status)), Err)
    });
    // Called when nothing is borrowed, since the callback may call MPI.
    query.map_or(seen, |callbacks| callbacks.query().map(Some))
}

/// Frees a request (MPI_Request_free). An active operation continues, and its slot is freed when it
/// completes.
///
/// # Errors
/// Returns `Request` for an unknown one, and for a non-blocking collective operation that is not over
/// (MPI-5 section 6.12). Returns the error of a free callback.
pub fn free(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<()> {
    let freed = within(held, messenger, id, |held| {
        let mut messages = messenger.messages.borrow_mut(held);
        let request = messages.state.requests.user(id)?;
        if matches!(request.work, Work::Collective(..)) && request.persistent.is_none() {
            let reason = "argument request is a collective operation that is not over: wait for it first";
            return Err(Error::new(ErrorClass::Request, reason));
        }
        if !request.complete {
            request.detached = true;
            return Ok(None);
        }
        let freed = messages.state.requests.remove(id);
        let template = freed.as_ref().and_then(|request| request.persistent.as_ref());
        if template.is_some_and(|persistent| matches!(persistent.template, Template::Partitioned)) {
            messages.state.forget_channel(id);
        }
        Ok(freed)
    })?;
    // Nothing is borrowed here, since callbacks may call MPI.
    let Some(Request { work, persistent, .. }) = freed else { return Ok(()) };
    if let Some(Template::Collective(Some(operation))) = persistent.map(|persistent| persistent.template) {
        operation.retire(held);
    }
    match work {
        Work::Generalised(callbacks) => callbacks.free(),
        _ => Ok(()),
    }
}

/// Completes a generalised request (MPI_Grequest_complete).
///
/// # Errors
/// Returns `Request` for an unknown one, or one of another kind.
pub fn complete_generalised(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<()> {
    let freed = {
        let mut messages = messenger.messages.borrow_mut(held);
        let request = messages.state.requests.user(id)?;
        let Work::Generalised(callbacks) = &request.work else {
            return Err(Error::new(ErrorClass::Request, "the request is not a generalised request"));
        };
        let callbacks = Arc::clone(callbacks);
        let detached = request.detached;
        messages.state.requests.complete(id, None);
        detached.then_some(callbacks)
    };
    freed.map_or(Ok(()), |callbacks| callbacks.free())
}

/// Returns the status from the query callback of a generalised request, and calls its free callback.
fn query_and_free(callbacks: &Arc<dyn Generalised>) -> Result<Status> {
    let status = callbacks.query();
    callbacks.free()?;
    status
}

/// Describes the purpose of a request, for a user who asks where a rank waits.
pub fn describe_request(messenger: &Messenger, id: RequestId) -> String {
    let held = crate::lanes::enter();
    within(&held, messenger, id, |held_inside| {
        let messages = messenger.messages.borrow(held_inside);
        let Some(request) = messages.state.requests.get(id) else { return "nothing".to_string() };
        needs::note(|| hang::need_of_request((&held, held_inside), messenger, id));
        let comm = || name_of(&held, request.context);
        match &request.work {
            Work::Receive { pattern, .. } => format!("a receive {}", describe(&held, pattern)),
            Work::Send { peer, tag, buffer, .. } => {
                format!(
                    "a send of {} bytes to rank {peer} of the world, tag {tag}, in {}",
                    buffer.bytes(),
                    comm()
                )
            }
            Work::Partitioned { sends: true, peer } => {
                let to = peer.map_or(String::new(), |peer| format!(" to rank {peer} of the world"));
                format!("a partitioned send{to} in {}", comm())
            }
            Work::Partitioned { .. } => format!("a partitioned receive in {}", comm()),
            Work::Collective(name, root) => {
                let from = root.map_or(String::new(), |root| format!(" with root {root}"));
                format!("a non-blocking {name}{from} in {}", comm())
            }
            Work::Generalised(_) => "a generalised request".to_string(),
            Work::Other => format!("an operation in {}", comm()),
        }
    })
}

/// Describes a receive in words, for a user who asks where a rank waits.
pub fn describe(held: &LaneGuard, pattern: &Pattern) -> String {
    let source = pattern.source.map_or("any source".to_string(), |source| format!("rank {source}"));
    let tag = pattern.tag.map_or("any tag".to_string(), |tag| format!("tag {tag}"));
    let name = name_of(held, ContextId::of_plane(pattern.context).0);
    format!("from {source}, {tag}, in {name}")
}
