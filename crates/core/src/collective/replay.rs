//! Repetition of an operation that a communicator has run before. The key of the call finds its idle
//! execution, which is bound to other memory and run in its cache slot. The latency of short operations
//! depends on this path.
//!
//! # Safety
//! [`replay`] and [`start_replay`] bind memory that their caller vouches for to an execution that was made
//! for a call with equal arguments. So the memory covers as much as the first call's did.
#![allow(unsafe_code)]

use std::sync::Arc;

use tutti_base::Result;
use tutti_coll::tune::{CallForm, ProgressMode};

use super::nonblocking::{Attempt, start_looks, start_run};
use super::port::CommPort;
use super::{Channel, LANE_BITS, Words, deferred, failures, fast_path, finish, offloaded, waiting_for};
use crate::communicator::Communicator;
use crate::communicator::collectives::Ticket;
use crate::communicator::collectives::agreement::OperationAgreement;
use crate::communicator::collectives::tuning::Way;
use crate::engine::ExecutionStatus;
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::request::{Request, RequestId};

/// Runs the operation with the key `words` on other memory, as [`run`] does. Returns `None` if its
/// execution is not idle or the call needs more than this path does.
///
/// # Safety
/// The memory must fulfil what the first call with this key required, for all data that begin at `send` and
/// `recv`.
#[inline]
pub unsafe fn replay(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    words: &Words,
    has_lists: impl Fn(&[i64]) -> bool,
    addresses: [*mut u8; 2],
) -> Option<Result<()>> {
    let call = Call { form: CallForm::Blocking, words, looks: process.waiting.flag_looks() };
    // SAFETY: passed on.
    match unsafe { attempt(held, process, comm, call, has_lists, addresses)? } {
        Attempt::Over(result) => Some(result),
        Attempt::Waits(run, ticket) => {
            let what = || waiting_for(words.collective, words.root as u32, comm);
            Some(finish(held, process, comm, run, ticket, &what))
        }
    }
}

/// Starts an operation as [`start`] does, by the method of [`replay`].
///
/// # Safety
/// Same as for [`replay`].
#[inline]
pub unsafe fn start_replay(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    words: &Words,
    has_lists: impl Fn(&[i64]) -> bool,
    addresses: [*mut u8; 2],
) -> Option<RequestId> {
    let call = Call { form: CallForm::Nonblocking, words, looks: start_looks(process) };
    // SAFETY: passed on.
    Some(match unsafe { attempt(held, process, comm, call, has_lists, addresses)? } {
        Attempt::Over(Ok(())) => RequestId::DONE_UNCANCELLABLE,
        Attempt::Over(Err(error)) => {
            let requests = &mut process.messages.borrow_mut(held).state;
            let request = requests.insert(Request::uncancellable(comm.context().0));
            requests.requests.complete(request, Some(error));
            request
        }
        Attempt::Waits(run, ticket) => {
            let (manner, time_s) = (run.manner, run.execution.plan().choice.time);
            deferred::space_tests(manner);
            let request = start_run(held, process, comm, run, ticket, None);
            if manner == ProgressMode::Pushed {
                deferred::push(held, process, request, deferred::push_end_ns(time_s));
            }
            request
        }
    })
}

/// Description of a call.
struct Call<'w> {
    /// Blocking or non-blocking call.
    form: CallForm,
    /// Key of the call.
    words: &'w Words,
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
    held: &LaneGuard,
    process: &Process,
    comm: &Communicator,
    Call { form, words, looks }: Call<'_>,
    has_lists: impl Fn(&[i64]) -> bool,
    addresses: [*mut u8; 2],
) -> Option<Attempt> {
    let its = &comm.collectives;
    if offloaded::may_carry(held, comm, words.collective) {
        return None;
    }
    let mut state = its.state.borrow_mut(held);
    if state.is_crowded() {
        return None;
    }
    let mode = state.tune(process);
    let sleeps = state.sleeps(mode);
    let mut deferred = (mode.is_on() && !sleeps).then(|| its.deferred.borrow_mut(held));
    let way = match &deferred {
        // Operations called earlier begin earlier.
        Some(deferred) if !deferred.waiting.is_empty() => return None,
        Some(deferred) => deferred.tuning.way(mode, state.generation, form, words)?,
        None => Way::Exempt,
    };
    let is_exempt = matches!(way, Way::Exempt);
    // SAFETY: passed on.
    let place = unsafe {
        state.awaken(words, has_lists, addresses, |run| {
            way.is_meant(&run.execution.plan().shape, run.tuned, |proposal| run.is_of(proposal))
        })?
    };
    if let (Some(deferred), Some(run), false) = (&mut deferred, &state.rest[place], is_exempt) {
        deferred.tuning.went(form, &run.execution.plan().shape);
    }
    drop(deferred);
    state.nap.0 -= u32::from(sleeps);
    let signature = state.rest[place].as_ref().map_or(0, |run| run.signature);
    let tag = if let Channel::Own = its.channel { state.next_tag(signature) } else { its.fixed_tag() };
    if mode.is_on() && form == CallForm::Nonblocking {
        // Skips a number, as every operation does that may carry an agreement: see `deferred`.
        state.next_tag(0);
    }
    let run = state.rest[place].as_mut().expect("it was just found");
    let mut banks = its.node.banks(held);
    let mut ticket = match &mut banks {
        Some(banks) => match fast_path(tag, tag as u32 >> LANE_BITS, banks, run, looks) {
            Some(ticket) => ticket,
            None => return Some(Attempt::Over(Ok(()))),
        },
        None => Ticket::new(tag, None, OperationAgreement::UNKNOWN, run.signature),
    };
    if !ticket.agreement.is_lost() {
        // What was possible before is not tried again.
        let looks = if ticket.turn.is_some() && run.execution.is_compiled() { 0 } else { looks };
        let mut port = CommPort::new(held, process, comm, &mut ticket, banks.as_deref_mut()).looking(looks);
        match run.execution.progress(&mut port) {
            Ok(ExecutionStatus::Pending) => {}
            Ok(ExecutionStatus::Done) => {
                return Some(Attempt::Over(failures::overdue(&port).map_or(Ok(()), Err)));
            }
            Err(error) => {
                failures::tell(&port, &error);
                return Some(Attempt::Over(Err(error)));
            }
        }
    }
    Some(Attempt::Waits(state.rest[place].take().expect("it was just found"), ticket))
}
