//! Requests: completing, freeing, cancelling, starting them (MPI-5 sections 3.7, 3.8.4, 3.9, 13.2).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::completion::{self, Finished, Stage};
use tutti_core::needs;
use tutti_core::point_to_point;
use tutti_core::progress;
use tutti_core::request::{Generalised, Request as CoreRequest, RequestId, Retired, Status, Work};

use crate::dialect::{self, Dialect};
use crate::entry::{At, Call};
use crate::generated::callbacks::{
    MPI_Grequest_cancel_function, MPI_Grequest_free_function, MPI_Grequest_query_function,
};
use crate::generated::constants::{MPI_REQUEST_NULL, MPI_SUCCESS, MPI_UNDEFINED};
use crate::handles::kind::Request;
use crate::handles::request::{handle_of, id_in};
use crate::imp::memory::process;
use crate::scope::{Address, Array, ArrayOut, HandleOut, In, Out};
use crate::status::{Report, StatusOut, Statuses};
use crate::types::{MPI_Request, MPI_Status};

/// Returns the request behind a handle; `None` for MPI_REQUEST_NULL.
#[inline]
pub(super) fn id_of(handle: In<Request>) -> Result<Option<RequestId>> {
    if handle.is_null() {
        return Ok(None);
    }
    id_in(handle.raw()).map(Some).ok_or_else(|| handle.complaint())
}

/// Returns the request behind a handle that must not be null.
pub(super) fn some_id(handle: In<Request>) -> Result<RequestId> {
    id_of(handle)?.ok_or_else(|| handle.complaint())
}

/// Converts a status of core to the form that the abi returns.
#[inline]
pub fn report(status: Status) -> Report {
    Report { source: status.source, tag: status.tag, bytes: status.bytes, cancelled: status.cancelled }
}

/// Whether the program has started a generalised request.
static HAS_GENERALISED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The status that the program passed to the call that completes a request; null for MPI_STATUS_IGNORE.
    static STATUS_OF_CALL: Cell<*mut MPI_Status> = const { Cell::new(std::ptr::null_mut()) };
}

/// Notes the status that a query function of a generalised request is to fill in, before a call that may lead
/// to it.
#[inline]
fn note_status(place: StatusOut) {
    if HAS_GENERALISED.load(Ordering::Relaxed) {
        STATUS_OF_CALL.set(place.pointer());
    }
}

/// Frees a request whose operation is complete (a persistent one becomes inactive), with its status.
#[inline]
fn finish(call: &Call, id: RequestId, place: StatusOut) -> Result<Finished> {
    note_status(place);
    Ok(completion::finish(&call.held, process()?, id))
}

/// Returns the status of a request that is over, and leaves the request.
fn peek(call: &Call, id: RequestId, place: StatusOut) -> Result<Option<Status>> {
    note_status(place);
    completion::peek(&call.held, process()?, id)
}

/// Waits for a request. A null request counts as complete.
#[inline]
fn wait_for(call: &mut Call, id: RequestId, place: StatusOut) -> Result<Finished> {
    let process = process()?;
    note_status(place);
    if let Some(finished) = completion::finish_if_over(&call.held, process, id)? {
        return Ok(finished);
    }
    Ok(completion::wait(&mut call.held, process, id, "a wait for "))
}

/// Puts the null handle where a finished request was, unless it is persistent; blames its communicator.
#[inline]
fn settle(call: &mut Call, finished: &Finished, place: &mut MPI_Request) {
    if !finished.persistent {
        *place = MPI_REQUEST_NULL;
    }
    if finished.result.is_err() {
        call.at = At::Context(finished.context);
    }
}

/// Waits until a request is complete (MPI_Wait).
#[inline]
pub fn wait(call: &mut Call, request: HandleOut<Request>, status: StatusOut) -> Result<()> {
    let Some(id) = id_of(request.input()?)? else {
        status.set_empty();
        return Ok(());
    };
    if id.is_done() {
        status.set(report(Status::EMPTY));
        return request.set(MPI_REQUEST_NULL);
    }
    if let Some(seen_off) = completion::retire_plain(&call.held, process()?, id) {
        fill(status, seen_off);
        return if seen_off.persistent { Ok(()) } else { request.set(MPI_REQUEST_NULL) };
    }
    let finished = wait_for(call, id, status)?;
    one_finished(call, finished, request, status)
}

/// Tests whether a request is complete (MPI_Test).
pub fn test(call: &mut Call, request: HandleOut<Request>, flag: Out<c_int>, status: StatusOut) -> Result<()> {
    flag.check()?;
    let Some(id) = id_of(request.input()?)? else {
        status.set_empty();
        return flag.set_flag(true);
    };
    if !is_over(call, id)? {
        return flag.set_flag(false);
    }
    flag.set_flag(true)?;
    let finished = finish(call, id, status)?;
    one_finished(call, finished, request, status)
}

/// Returns the status of a request that is over; an inactive one has the empty status.
#[inline]
fn fill(place: StatusOut, Retired { status, persistent }: Retired) {
    if persistent && status == Status::EMPTY {
        place.set_empty();
    } else {
        place.set(report(status));
    }
}

#[inline]
fn fill_finished(place: StatusOut, finished: &Finished) {
    fill(place, Retired { status: finished.status, persistent: finished.persistent });
}

fn one_finished(
    call: &mut Call,
    finished: Finished,
    request: HandleOut<Request>,
    status: StatusOut,
) -> Result<()> {
    fill_finished(status, &finished);
    let mut handle = request.input()?.raw();
    settle(call, &finished, &mut handle);
    request.set(handle)?;
    finished.result.map(drop)
}

/// Tests whether a request is complete, after one pass over arrived messages.
#[inline]
fn is_over(call: &mut Call, id: RequestId) -> Result<bool> {
    let process = process()?;
    if completion::is_complete(&call.held, process, id)? {
        return Ok(true);
    }
    if !progress::poll(&mut call.held, process) {
        return Ok(false);
    }
    completion::is_complete(&call.held, process, id)
}

/// Returns the requests of an array that are neither null nor inactive, with their places.
fn active(call: &Call, requests: ArrayOut<MPI_Request>, count: i64) -> Result<Vec<(usize, RequestId)>> {
    let process = process()?;
    let mut found = Vec::new();
    for (place, raw) in requests.slice(count)?.iter().enumerate() {
        if let Some(id) = id_of(requests.handle(*raw))?
            && !completion::is_inactive(&call.held, process, id)?
        {
            found.push((place, id));
        }
    }
    Ok(found)
}

/// Returns the positions and ids of complete requests, or `None` if no request is active. Makes progress
/// once if none is complete.
fn find_complete<'s>(
    call: &mut Call,
    handles: impl Iterator<Item = In<'s, Request>> + Clone,
) -> Result<Option<Vec<(usize, RequestId)>>> {
    let process = process()?;
    let mut has_looked = false;
    loop {
        let mut complete = Vec::new();
        let mut is_any_running = false;
        for (place, handle) in handles.clone().enumerate() {
            let Some(id) = id_of(handle)? else { continue };
            match completion::stage(&call.held, process, id)? {
                Stage::Over => complete.push((place, id)),
                Stage::Running => is_any_running = true,
                Stage::Inactive => {}
            }
        }
        if complete.is_empty() && !is_any_running {
            return Ok(None);
        }
        if !complete.is_empty() || has_looked || !progress::poll(&mut call.held, process) {
            return Ok(Some(complete));
        }
        has_looked = true;
    }
}

/// Returns true if all of these requests are complete or inactive. Makes progress at most once, at the first
/// incomplete request.
fn are_all_over<'s>(call: &mut Call, handles: impl Iterator<Item = In<'s, Request>>) -> Result<bool> {
    let process = process()?;
    let mut has_looked = false;
    for handle in handles {
        let Some(id) = id_of(handle)? else { continue };
        while completion::stage(&call.held, process, id)? == Stage::Running {
            if has_looked || !progress::poll(&mut call.held, process) {
                return Ok(false);
            }
            has_looked = true;
        }
    }
    Ok(true)
}

/// Waits until at least one of `active` is complete.
fn wait_for_any(call: &mut Call, active: &[(usize, RequestId)]) -> Result<()> {
    let process = process()?;
    let complete = |held: &tutti_core::lanes::LaneGuard| {
        active.iter().any(|(_, id)| completion::is_complete(held, process, *id).unwrap_or(true))
    };
    let what = || {
        let described = if needs::note_any() { active.len() } else { 1 };
        let mut texts =
            active.iter().take(described).map(|(_, id)| completion::describe_request(process, *id));
        let first = texts.next();
        texts.for_each(drop);
        format!("a wait for any of {} requests, the first {}", active.len(), first.unwrap_or_default())
    };
    progress::wait_until(&mut call.held, process, &what, complete);
    Ok(())
}

/// Waits until one of several requests is complete (MPI_Waitany).
pub fn waitany(
    call: &mut Call,
    count: c_int,
    requests: ArrayOut<MPI_Request>,
    index: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    index.check()?;
    let active = active(call, requests, count.into())?;
    if active.is_empty() {
        status.set_empty();
        return index.set(MPI_UNDEFINED);
    }
    wait_for_any(call, &active)?;
    let complete =
        find_complete(call, requests.handles(count.into())?)?.and_then(|complete| complete.first().copied());
    let first = complete.expect("a wait for any request ends when one is complete");
    finish_one(call, first, requests.slice(count.into())?, index, status)
}

/// Tests whether one of several requests is complete (MPI_Testany).
pub fn testany(
    call: &mut Call,
    count: c_int,
    requests: ArrayOut<MPI_Request>,
    index: Out<c_int>,
    flag: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    index.check()?;
    flag.check()?;
    let process = process()?;
    let handles = requests.slice(count.into())?;
    let mut has_looked = false;
    loop {
        let mut is_any_running = false;
        for (place, raw) in handles.iter().enumerate() {
            let Some(id) = id_of(requests.handle(*raw))? else { continue };
            match completion::stage(&call.held, process, id)? {
                Stage::Over => {
                    flag.set_flag(true)?;
                    return finish_one(call, (place, id), handles, index, status);
                }
                Stage::Running => is_any_running = true,
                Stage::Inactive => {}
            }
        }
        if !is_any_running || has_looked || !progress::poll(&mut call.held, process) {
            flag.set_flag(!is_any_running)?;
            if !is_any_running {
                status.set_empty();
            }
            return index.set(MPI_UNDEFINED);
        }
        has_looked = true;
    }
}

fn finish_one(
    call: &mut Call,
    (place, id): (usize, RequestId),
    requests: &mut [MPI_Request],
    index: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let finished = finish(call, id, status)?;
    index.set(place as c_int)?;
    status.set(report(finished.status));
    settle(call, &finished, &mut requests[place]);
    finished.result.map(drop)
}

/// Waits until all requests are complete (MPI_Waitall).
pub fn waitall(
    call: &mut Call,
    count: c_int,
    requests: ArrayOut<MPI_Request>,
    statuses: Statuses,
) -> Result<()> {
    let mut failed = Failed::new();
    let process = process()?;
    let handles = requests.slice(count.into())?;
    for (place, handle) in handles.iter_mut().enumerate() {
        let Some(id) = id_of(requests.handle(*handle))? else {
            statuses.output_at(place).set_empty();
            continue;
        };
        let over = if id.is_done() {
            Some(Retired { status: Status::EMPTY, persistent: false })
        } else {
            completion::retire_plain(&call.held, process, id)
        };
        if let Some(seen_off) = over {
            fill(statuses.output_at(place), seen_off);
            if !seen_off.persistent {
                *handle = MPI_REQUEST_NULL;
            }
            continue;
        }
        let finished = wait_for(call, id, statuses.output_at(place))?;
        finish_place(call, finished, handle, (statuses, place), &mut failed);
    }
    in_status(failed, statuses, handles.len())
}

/// Tests whether all requests are complete (MPI_Testall).
pub fn testall(
    call: &mut Call,
    count: c_int,
    requests: ArrayOut<MPI_Request>,
    flag: Out<c_int>,
    statuses: Statuses,
) -> Result<()> {
    flag.check()?;
    let handles = requests.slice(count.into())?;
    if !are_all_over(call, requests.handles(count.into())?)? {
        return flag.set_flag(false);
    }
    flag.set_flag(true)?;
    let mut failed = Failed::new();
    for (place, handle) in handles.iter_mut().enumerate() {
        let Some(id) = id_of(requests.handle(*handle))? else {
            statuses.output_at(place).set_empty();
            continue;
        };
        let finished = finish(call, id, statuses.output_at(place))?;
        finish_place(call, finished, handle, (statuses, place), &mut failed);
    }
    in_status(failed, statuses, handles.len())
}

/// Waits until at least one request is complete, and returns all that are (MPI_Waitsome).
pub fn waitsome(
    call: &mut Call,
    incount: c_int,
    requests: ArrayOut<MPI_Request>,
    outcount: Out<c_int>,
    indices: ArrayOut<c_int>,
    statuses: Statuses,
) -> Result<()> {
    outcount.check()?;
    let active = active(call, requests, incount.into())?;
    if active.is_empty() {
        return outcount.set(MPI_UNDEFINED);
    }
    wait_for_any(call, &active)?;
    let complete = find_complete(call, requests.handles(incount.into())?)?.unwrap_or_default();
    finish_some(call, &complete, incount, requests, outcount, indices, statuses)
}

/// Returns all requests that are complete (MPI_Testsome).
pub fn testsome(
    call: &mut Call,
    incount: c_int,
    requests: ArrayOut<MPI_Request>,
    outcount: Out<c_int>,
    indices: ArrayOut<c_int>,
    statuses: Statuses,
) -> Result<()> {
    outcount.check()?;
    let Some(complete) = find_complete(call, requests.handles(incount.into())?)? else {
        return outcount.set(MPI_UNDEFINED);
    };
    finish_some(call, &complete, incount, requests, outcount, indices, statuses)
}

fn finish_some(
    call: &mut Call,
    complete: &[(usize, RequestId)],
    incount: c_int,
    requests: ArrayOut<MPI_Request>,
    outcount: Out<c_int>,
    indices: ArrayOut<c_int>,
    statuses: Statuses,
) -> Result<()> {
    let indices = indices.slice(incount.into())?;
    let handles = requests.slice(incount.into())?;
    let mut failed = Failed::new();
    for (position, (place, id)) in complete.iter().enumerate() {
        let finished = finish(call, *id, statuses.output_at(position))?;
        indices[position] = *place as c_int;
        finish_place(call, finished, &mut handles[*place], (statuses, position), &mut failed);
    }
    outcount.set(complete.len() as c_int)?;
    in_status(failed, statuses, complete.len())
}

/// Failures among several requests, by their places in the array of statuses.
type Failed = Vec<(usize, Error)>;

#[inline]
fn finish_place(
    call: &mut Call,
    finished: Finished,
    handle: &mut MPI_Request,
    (statuses, position): (Statuses, usize),
    failed: &mut Failed,
) {
    settle(call, &finished, handle);
    fill_finished(statuses.output_at(position), &finished);
    if let Err(error) = finished.result {
        failed.push((position, error));
    }
}

/// Stores an error code in each status and returns `MPI_ERR_IN_STATUS`, if any request has failed.
fn in_status(failed: Failed, statuses: Statuses, count: usize) -> Result<()> {
    let Some((_, first)) = failed.first() else { return Ok(()) };
    let reason = format!("{} of {count} requests failed, the first because {}", failed.len(), first.message);
    for position in 0..count {
        let error = failed.iter().find(|(place, _)| *place == position);
        statuses.set_error(position, error.map_or(MPI_SUCCESS, |(_, error)| error.code()));
    }
    Err(Error::new(ErrorClass::InStatus, reason))
}

/// Frees a request; its operation may still run (MPI_Request_free).
pub fn free(call: &mut Call, request: HandleOut<Request>) -> Result<()> {
    let id = some_id(request.input()?)?;
    completion::free(&call.held, process()?, id)?;
    request.set(MPI_REQUEST_NULL)
}

/// Starts the cancellation of a request's operation (MPI_Cancel).
pub fn cancel(call: &mut Call, request: HandleOut<Request>) -> Result<()> {
    let id = some_id(request.input()?)?;
    point_to_point::cancel(&call.held, process()?, id)
}

/// Starts the operation of a persistent request (MPI_Start).
pub fn start(call: &mut Call, request: HandleOut<Request>) -> Result<()> {
    start_one(call, some_id(request.input()?)?)
}

/// Starts a request; an error is one of its communicator.
#[inline]
fn start_one(call: &mut Call, id: RequestId) -> Result<()> {
    let process = process()?;
    let started = point_to_point::start(&call.held, process, id);
    if started.is_err()
        && let Ok(context) = completion::context_of(&call.held, process, id)
    {
        call.at = At::Context(context);
    }
    started
}

/// Starts the operations of several persistent requests (MPI_Startall).
pub fn startall(call: &mut Call, count: c_int, requests: ArrayOut<MPI_Request>) -> Result<()> {
    for raw in requests.slice(count.into())?.iter() {
        start_one(call, some_id(requests.handle(*raw))?)?;
    }
    Ok(())
}

/// Tests whether a request is complete, without freeing it (MPI_Request_get_status).
pub fn get_status(call: &mut Call, request: In<Request>, flag: Out<c_int>, status: StatusOut) -> Result<()> {
    let Some(id) = id_of(request)? else {
        status.set_empty();
        return flag.set_flag(true);
    };
    is_over(call, id)?;
    if completion::is_inactive(&call.held, process()?, id)? {
        status.set_empty();
        return flag.set_flag(true);
    }
    let seen = peek(call, id, status)?;
    if let Some(seen) = seen {
        status.set(report(seen));
    }
    flag.set_flag(seen.is_some())
}

/// Tests whether one of several requests is complete, without freeing it (MPI_Request_get_status_any).
pub fn get_status_any(
    call: &mut Call,
    count: c_int,
    requests: Array<MPI_Request>,
    index: Out<c_int>,
    flag: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let Some(complete) = find_complete(call, requests.handles(count.into())?)? else {
        status.set_empty();
        flag.set_flag(true)?;
        return index.set(MPI_UNDEFINED);
    };
    flag.set_flag(!complete.is_empty())?;
    let Some((place, id)) = complete.first() else {
        return index.set(MPI_UNDEFINED);
    };
    if let Some(seen) = peek(call, *id, status)? {
        status.set(report(seen));
    }
    index.set(*place as c_int)
}

/// Tests whether all requests are complete, without freeing them (MPI_Request_get_status_all).
pub fn get_status_all(
    call: &mut Call,
    count: c_int,
    requests: Array<MPI_Request>,
    flag: Out<c_int>,
    statuses: Statuses,
) -> Result<()> {
    if !are_all_over(call, requests.handles(count.into())?)? {
        return flag.set_flag(false);
    }
    for (place, handle) in requests.handles(count.into())?.enumerate() {
        let seen = match id_of(handle)? {
            Some(id) if !completion::is_inactive(&call.held, process()?, id)? => {
                peek(call, id, statuses.output_at(place))?
            }
            _ => None,
        };
        match seen {
            Some(seen) => statuses.output_at(place).set(report(seen)),
            None => statuses.output_at(place).set_empty(),
        }
    }
    flag.set_flag(true)
}

/// Returns all requests that are complete, without freeing them (MPI_Request_get_status_some).
pub fn get_status_some(
    call: &mut Call,
    incount: c_int,
    requests: Array<MPI_Request>,
    outcount: Out<c_int>,
    indices: ArrayOut<c_int>,
    statuses: Statuses,
) -> Result<()> {
    let Some(complete) = find_complete(call, requests.handles(incount.into())?)? else {
        return outcount.set(MPI_UNDEFINED);
    };
    let indices = indices.slice(incount.into())?;
    for (position, (place, id)) in complete.iter().enumerate() {
        indices[position] = *place as c_int;
        let seen = peek(call, *id, statuses.output_at(position))?;
        statuses.output_at(position).set(report(seen.unwrap_or(Status::EMPTY)));
    }
    outcount.set(complete.len() as c_int)
}

/// Callbacks of a generalised request and their arguments.
#[derive(Debug)]
struct Callbacks {
    dialect: &'static Dialect,
    /// Addresses of the program's functions.
    query: usize,
    free: usize,
    cancel: usize,
    extra_state: Address,
}

// SAFETY: extra_state is only handed back to the user's callbacks.
unsafe impl Send for Callbacks {}
// SAFETY: as above.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    fn extra(&self) -> *mut c_void {
        self.extra_state.pointer().cast()
    }
}

fn code(function: &str, code: c_int) -> Result<()> {
    match code {
        MPI_SUCCESS => Ok(()),
        code => {
            Err(Error::with_code(code, format!("the {function} function of a generalised request failed")))
        }
    }
}

impl Generalised for Callbacks {
    fn query(&self) -> Result<Status> {
        let mut own = MPI_Status::EMPTY;
        let passed = STATUS_OF_CALL.replace(std::ptr::null_mut());
        let place = if passed.is_null() { &raw mut own } else { passed };
        // SAFETY: the user's function, called as MPI-5 section 13.2 says: with the status of the call that
        // completes the request, which is not over.
        code("query", unsafe {
            (self.dialect.MPI_Grequest_query_function)(self.query, self.extra(), place)
        })?;
        // SAFETY: as above.
        let status = unsafe { place.read() };
        let Report { source, tag, bytes, cancelled } = status.report();
        Ok(Status { source, tag, bytes, cancelled })
    }

    fn free(&self) -> Result<()> {
        // SAFETY: as above.
        code("free", unsafe { (self.dialect.MPI_Grequest_free_function)(self.free, self.extra()) })
    }

    fn cancel(&self, complete: bool) -> Result<()> {
        // SAFETY: as above.
        code("cancel", unsafe {
            (self.dialect.MPI_Grequest_cancel_function)(self.cancel, self.extra(), c_int::from(complete))
        })
    }
}

/// Creates a generalised request with callbacks of the program (MPI_Grequest_start).
pub fn grequest_start(
    call: &mut Call,
    query_fn: Option<MPI_Grequest_query_function>,
    free_fn: Option<MPI_Grequest_free_function>,
    cancel_fn: Option<MPI_Grequest_cancel_function>,
    extra_state: Address,
    request: HandleOut<Request>,
) -> Result<()> {
    request.check_new()?;
    HAS_GENERALISED.store(true, Ordering::Relaxed);
    let (Some(query), Some(free), Some(cancel)) = (query_fn, free_fn, cancel_fn) else {
        return Err(Error::new(ErrorClass::Arg, "a callback of the generalised request is a null pointer"));
    };
    let callbacks = Arc::new(Callbacks {
        dialect: dialect::spoken(),
        query: query as usize,
        free: free as usize,
        cancel: cancel as usize,
        extra_state,
    });
    let work = Work::Generalised(callbacks);
    let id = process()?.messages.borrow_mut(&call.held).state.insert(CoreRequest::new(work, 0));
    request.set(handle_of(id))
}

/// Marks a generalised request as complete (MPI_Grequest_complete).
pub fn grequest_complete(call: &mut Call, request: In<Request>) -> Result<()> {
    completion::complete_generalised(&call.held, process()?, some_id(request)?)
}
