//! Repetition of an operation that a communicator has run before. The key of the call finds its idle
//! execution, which is bound to other memory and run in its cache slot. The latency of short operations
//! depends on this path.
//!
//! # Safety
//! [`replay`] and [`start_replay`] bind memory that their caller vouches for to an execution that was made
//! for a call with equal arguments. So the memory covers as much as the first call's did.
#![allow(unsafe_code)]

use tutti_base::Result;
use tutti_coll::tune::{CallForm, ProgressMode};

use super::completion::nonblocking::{Attempt, start_looks, start_run};
use super::completion::{failures, finish, tuned};
use super::context::{CommContext, WaitContext, describe_wait};
use super::execution::fast_path;
use super::execution::port::CommPort;
use super::route::{Replay, find_replay, kernel};
use crate::communicator::collectives::Channel;
use crate::communicator::collectives::Ticket;
use crate::communicator::collectives::agreement::OperationAgreement;
use crate::communicator::collectives::key::CallKey;
use crate::engine::ExecutionStatus;
use crate::p2p::agreement::LANE_BITS;
use crate::request::{Request, RequestId};

/// Runs the operation with the key `key` on other memory, as [`run`] does. Returns `None` if its
/// execution is not idle or the call needs more than this path does.
///
/// # Safety
/// The memory must fulfil what the first call with this key required, for all data that begin at `send` and
/// `recv`.
#[inline]
pub unsafe fn replay(
    cx: &mut WaitContext<'_>,
    key: &CallKey,
    has_lists: impl Fn(&[i64]) -> bool,
    addresses: [*mut u8; 2],
) -> Option<Result<()>> {
    let call = KnownCall { form: CallForm::Blocking, key, looks: cx.process.waiting.flag_looks() };
    // SAFETY: passed on.
    match unsafe { attempt(cx.shared(), call, has_lists, addresses)? } {
        Attempt::Over(result) => Some(result),
        Attempt::Waits(cached, ticket) => {
            let what = || describe_wait(key.collective, key.root as u32, cx.comm);
            Some(finish(cx, cached, ticket, &what))
        }
    }
}

/// Starts an operation as [`start`] does, by the method of [`replay`].
///
/// # Safety
/// Same as for [`replay`].
#[inline]
pub unsafe fn start_replay(
    cx: CommContext<'_>,
    key: &CallKey,
    has_lists: impl Fn(&[i64]) -> bool,
    addresses: [*mut u8; 2],
) -> Option<RequestId> {
    let call = KnownCall { form: CallForm::Nonblocking, key, looks: start_looks(cx.process) };
    // SAFETY: passed on.
    Some(match unsafe { attempt(cx, call, has_lists, addresses)? } {
        Attempt::Over(Ok(())) => RequestId::DONE_UNCANCELLABLE,
        Attempt::Over(Err(error)) => {
            let requests = &mut cx.process.messages.borrow_mut(cx.lane).state;
            let request = requests.insert(Request::uncancellable(cx.comm.context().0));
            requests.requests.complete(request, Some(error));
            request
        }
        Attempt::Waits(cached, ticket) => {
            let (manner, time_s) = (cached.manner, cached.execution.plan().choice.time);
            tuned::space_tests(manner);
            let request = start_run(cx, cached, ticket, None);
            if manner == ProgressMode::Pushed {
                tuned::push(cx.lane, cx.process, request, tuned::push_end_ns(time_s));
            }
            request
        }
    })
}

/// Call that is known by its key.
struct KnownCall<'w> {
    /// Blocking or non-blocking call.
    form: CallForm,
    /// Key of the call.
    key: &'w CallKey,
    /// Number of polls of a flag.
    looks: u32,
}

/// Begins an operation on other memory if its execution is idle, and runs it to its end if nothing blocks
/// it. The execution stays in the cache unless it has to wait, since only then other calls can come
/// between.
///
/// # Safety
/// Same as for [`replay`].
#[inline(always)]
unsafe fn attempt(
    cx: CommContext<'_>,
    KnownCall { form, key, looks }: KnownCall<'_>,
    has_lists: impl Fn(&[i64]) -> bool,
    addresses: [*mut u8; 2],
) -> Option<Attempt> {
    let its = &cx.comm.collectives;
    if kernel::may_carry(cx, key.collective) {
        return None;
    }
    let mut state = its.state.borrow_mut(cx.lane);
    // SAFETY: passed on.
    let Replay { index, is_tuned } = unsafe { find_replay(cx, &mut state, form, key, has_lists, addresses)? };
    let signature = state.idle_executions[index].as_ref().map_or(0, |cached| cached.signature);
    let tag = if let Channel::Own = its.channel { state.next_tag(signature) } else { its.fixed_tag() };
    if is_tuned && form == CallForm::Nonblocking {
        // Skips a number, as every operation does that may carry an agreement: see `route::tuned`.
        state.next_tag(0);
    }
    let cached = state.idle_executions[index].as_mut().expect("it was just found");
    let mut banks = its.node.banks(cx.lane);
    let mut ticket = match &mut banks {
        Some(banks) => match fast_path(tag, tag as u32 >> LANE_BITS, banks, cached, looks) {
            Some(ticket) => ticket,
            None => return Some(Attempt::Over(Ok(()))),
        },
        None => Ticket::new(tag, None, OperationAgreement::UNKNOWN, cached.signature),
    };
    if !ticket.agreement.is_lost() {
        // What was possible before is not tried again.
        let looks = if ticket.turn.is_some() && cached.execution.is_compiled() { 0 } else { looks };
        let mut port = CommPort::new(cx, &mut ticket, banks.as_deref_mut()).looking(looks);
        match cached.execution.progress(&mut port) {
            Ok(ExecutionStatus::Pending) => {}
            Ok(ExecutionStatus::Done) => {
                return Some(Attempt::Over(failures::leftover_mismatch(&port).map_or(Ok(()), Err)));
            }
            Err(error) => {
                failures::report_failure(&port, &error);
                return Some(Attempt::Over(Err(error)));
            }
        }
    }
    Some(Attempt::Waits(state.idle_executions[index].take().expect("it was just found"), ticket))
}
