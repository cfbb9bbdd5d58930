//! Completion of operations: progress and waits, and errors where members fail or disagree.
//!
//! | module | content |
//! |---|---|
//! | this file | [`advance`], which all forms use; [`finish`], the wait of blocking calls |
//! | `nonblocking` | operations behind a request, advanced by progress |
//! | `persistent` | operations that are kept to be started again |
//! | `tuned` | operations that begin when the members have agreed, with tuning |
//! | `failures` | failures and mismatched calls become errors at all members |

pub(super) mod failures;
pub(super) mod nonblocking;
pub(super) mod persistent;
pub(super) mod tuned;

use tutti_base::Result;
use tutti_coll::Collective;

use super::context::{CommContext, WaitContext, describe_wait};
use super::execution::port::CommPort;
use super::plan::{prepare, return_to_cache};
use super::route::{kernel, multicast};
use crate::communicator::collectives::call::Call;
use crate::communicator::collectives::node::Neighbourhood;
use crate::communicator::collectives::{AllowedPaths, CachedExecution, Channel, Ticket};
use crate::engine::ExecutionStatus;
use crate::lanes::LaneGuard;
use crate::process::name_of_context;
use crate::progress;

/// Completes the agreements that have to precede a blocking operation: calls that wait begin, and the members
/// agree on what their hosts offer and on the kernel offload.
///
/// # Errors
/// Returns the error of a message that failed; with TUTTI_OFFLOAD=on, also the reason if the kernel cannot
/// do collectives.
#[inline]
pub(super) fn settle_agreements(cx: &mut WaitContext<'_>) -> Result<()> {
    settle_offers(cx)?;
    kernel::agree(cx)
}

/// Completes the agreement with members on other hosts on what each host offers, before the first blocking
/// operation.
///
/// # Errors
/// Returns the error of a message that failed.
#[inline]
pub(super) fn settle_offers(cx: &mut WaitContext<'_>) -> Result<()> {
    let its = &cx.comm.collectives;
    if !matches!(its.channel, Channel::Own) || cx.comm.inter().is_some() {
        return Ok(());
    }
    tuned::settle_all(cx)?;
    if let Some(offer) = its.node.needs_agreement(cx.lane, cx.process, cx.comm) {
        let offer = cx.maximum(offer)?;
        its.node.settle(cx.lane, offer);
    }
    Ok(())
}

/// Runs a planned operation on these paths, the same at all members, and waits for its end. A rank that is
/// done may exit: no other rank requests repairs from it.
///
/// # Errors
/// Returns the error of a message that failed, or of members that disagree.
pub(super) fn run_planned(cx: &mut WaitContext<'_>, call: &Call<'_>, paths: AllowedPaths) -> Result<()> {
    if paths == AllowedPaths::All {
        multicast::agree(cx, call)?;
    }
    let cached = prepare(cx.shared(), call, paths, None);
    let ticket = cx.comm.collectives.ticket(cx.lane, &cached);
    let comm = cx.comm;
    finish(cx, cached, ticket, &|| describe_wait(call.collective(), call.shape().root, comm))
}

/// Runs an execution to its end and returns it to the cache. `what` returns the text for a user who asks
/// where this rank waits.
///
/// # Errors
/// Returns the error of a message that failed, or of members that disagree.
pub(super) fn finish(
    cx: &mut WaitContext<'_>,
    mut cached: Box<CachedExecution>,
    mut ticket: Ticket,
    what: &dyn Fn() -> String,
) -> Result<()> {
    let node = &cx.comm.collectives.node;
    let mut result = advance(cx.shared(), node, &mut cached, &mut ticket, true);
    if matches!(result, Ok(ExecutionStatus::Pending)) {
        let gives_way =
            waits_for_all(cached.execution.plan().shape.collective) && cx.process.gives_way(cx.comm.size());
        let (process, comm) = (cx.process, cx.comm);
        let done = |lane: &LaneGuard| {
            if matches!(result, Ok(ExecutionStatus::Pending)) {
                result =
                    advance(CommContext::new(lane, process, comm), node, &mut cached, &mut ticket, false);
            }
            !matches!(result, Ok(ExecutionStatus::Pending))
        };
        if gives_way {
            progress::wait_for_all(cx.lane, cx.process, what, done);
        } else {
            progress::wait_until(cx.lane, cx.process, what, done);
        }
    }
    return_to_cache(cx.shared(), cached);
    result?;
    failures::leftover_mismatch(&CommPort::new(cx.shared(), &mut ticket, None)).map_or(Ok(()), Err)
}

/// Returns true if no member can finish the operation before every member has started it. In other
/// operations the members this rank waits for may be ahead, with results of several operations in their
/// banks.
fn waits_for_all(collective: Collective) -> bool {
    use Collective as C;
    let reduces = matches!(collective, C::Allreduce | C::ReduceScatter | C::ReduceScatterBlock);
    reduces || matches!(collective, C::Barrier | C::Allgather | C::Allgatherv | C::Alltoall | C::Alltoallv)
}

/// Takes all steps that are possible now; `node` holds the banks of the operation. With `patient`, flags
/// are polled several times before giving up.
#[inline]
pub(super) fn advance(
    cx: CommContext<'_>,
    node: &Neighbourhood,
    cached: &mut CachedExecution,
    ticket: &mut Ticket,
    patient: bool,
) -> Result<ExecutionStatus> {
    if let Some(refusal) = ticket.agreement.refusal(|| name_of_context(cx.comm.context().0)) {
        if node.numbers(cx.process, cx.comm).is_some() {
            // Members on other hosts are still in step.
            failures::report_failure(&CommPort::new(cx, ticket, None), &refusal);
        }
        return Err(refusal);
    }
    let mut banks = if ticket.turn.is_some() { node.banks(cx.lane) } else { None };
    let mut port = CommPort::new(cx, ticket, banks.as_deref_mut());
    if let Some(refusal) = failures::failure_of(&port) {
        cached.execution.abandon(&mut port);
        return Err(refusal);
    }
    let looks = if patient { cx.process.waiting.flag_looks() } else { 0 };
    let mut port = port.looking(looks);
    port.ticket.patience.awaited = None;
    let mut result = cached.execution.progress(&mut port);
    let sleeps = cx.process.is_about_to_sleep();
    let mut doubts = sleeps;
    if matches!(result, Ok(ExecutionStatus::Pending)) && port.ticket.patience.looked(sleeps) {
        failures::send_inquiries(&mut port);
        if let Some(error) = failures::departed_member(&mut port) {
            cached.execution.abandon(&mut port);
            result = Err(error);
        }
        doubts |= port.ticket.patience.is_long();
        if doubts
            && let Some(error) =
                failures::mismatched_message(&port).or_else(|| failures::mismatch_by_reply(&port))
        {
            cached.execution.abandon(&mut port);
            result = Err(error);
        }
    }
    if let Err(error) = &result {
        failures::report_failure(&port, error);
    }
    drop(banks);
    if matches!(result, Ok(ExecutionStatus::Pending)) && ticket.agreement.is_doubtful(doubts) {
        return settle_disagreement(cx, node, cached, ticket);
    }
    result
}

/// Ends a waiting operation with an error if the members disagree about it.
#[cold]
fn settle_disagreement(
    cx: CommContext<'_>,
    node: &Neighbourhood,
    cached: &mut CachedExecution,
    ticket: &mut Ticket,
) -> Result<ExecutionStatus> {
    let Some(mut banks) = node.banks(cx.lane) else { return Ok(ExecutionStatus::Pending) };
    let numbers = cx.comm.collectives.node.numbers(cx.process, cx.comm);
    let rank_of = |member| cx.comm.collectives.node.rank_of(cx.process, cx.comm, member);
    let complaint = ticket.agreement.complaint(&banks, || name_of_context(cx.comm.context().0), rank_of);
    let Some(complaint) = complaint else { return Ok(ExecutionStatus::Pending) };
    banks.was_told(ticket.agreement.number());
    if ticket.turn.as_ref().is_some_and(|turn| !turn.is_granted()) {
        // This operation never gets its slot, so none after it does either.
        banks.give_up(ticket.agreement.number());
    }
    let mut port = CommPort::new(cx, ticket, Some(&mut banks));
    cached.execution.abandon(&mut port);
    if numbers.is_some() {
        // Members on other hosts do not see the banks of this one.
        failures::report_failure(&port, &complaint);
    }
    Err(complaint)
}
