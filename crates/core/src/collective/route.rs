//! Route of a call: the way that its operation takes through the rest of the pipeline.
//!
//! | route | the operation | decided by |
//! |---|---|---|
//! | replay | runs the idle execution of an equal call again | [`find_replay`], by the key of the call |
//! | [`Route::Kernel`] | is done by the kernel's packet program | [`decide`] |
//! | [`Route::Tuned`] | begins when the members have agreed, maybe on a trial | [`decide`] |
//! | [`Route::Planned`] | runs a plan by the model, on some paths or all | [`decide`] |
//!
//! A replay is decided before the arguments are parsed, since it saves parsing them. All members decide
//! alike: every condition here depends on nothing but what is equal on all of them, but for replays, which
//! run the plan that the other members run too.
//!
//! # Safety
//! [`find_replay`] binds memory that its caller vouches for to the execution of an equal call.
#![allow(unsafe_code)]

pub(super) mod kernel;
pub(super) mod kernel_hosts;
pub(super) mod multicast;

use std::fmt;

use tutti_coll::Collective;
use tutti_coll::tune::CallForm;

use super::context::CommContext;
use crate::communicator::Communicator;
use crate::communicator::collectives::call::Call;
use crate::communicator::collectives::hints::CollectiveHints;
use crate::communicator::collectives::key::CallKey;
use crate::communicator::collectives::tuning::Way;
use crate::communicator::collectives::{AllowedPaths, Channel, OperationState, places};
use crate::process::SELF_CONTEXT;
use kernel::KernelRoute;

/// Number of operations of a new communicator that go by messages first, see [`is_among_first`].
const BEFORE_BANKS: u32 = 4;

/// Form of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form<'h> {
    /// The call waits for the end of the operation.
    Blocking,
    /// The call returns a request.
    Nonblocking,
    /// The call makes an operation to be started later, under these hints.
    Persistent(&'h CollectiveHints),
}

/// Way of an operation through the rest of the pipeline.
#[derive(Debug)]
pub(super) enum Route {
    /// The kernel's packet program does the operation.
    Kernel(KernelRoute),
    /// The operation is tuned, or has to wait until the members have agreed or others have ended.
    Tuned,
    /// The operation follows a plan that uses these paths.
    Planned(AllowedPaths),
}

/// Reason why an operation uses messages alone. `TUTTI_EXPLAIN` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessagesOnly {
    /// The library asked for messages.
    Requested,
    /// The communicator has two groups.
    BetweenGroups,
    /// The hosts of the members have not agreed on what they offer.
    HostsNotAgreed,
    /// The operation is one of the first of a small communicator.
    FirstOperations,
}

/// Idle execution that a call repeats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay {
    /// Index of the execution in the cache.
    pub index: usize,
    /// True if operations of the communicator are tuned.
    pub is_tuned: bool,
}

/// Decides the route of a call whose arguments are parsed.
///
/// The kernel does not do persistent operations by this route: members have to negotiate about each of them
/// first ([`kernel::persistent`]).
pub(super) fn decide(cx: CommContext<'_>, call: &Call<'_>, form: Form<'_>) -> Route {
    let is_tuned = match form {
        Form::Blocking => cx.comm.collectives.tune(cx.lane, cx.process).is_on(),
        Form::Nonblocking => match kernel::find(cx, call) {
            Some(kernel) => return Route::Kernel(kernel),
            None => is_needed(cx) || is_crowded(cx),
        },
        Form::Persistent(hints) => {
            let collective = call.collective();
            hints.tune_of(&cx.process.config).is_on()
                && hints.algorithm_of(&cx.process.config, collective.name()).is_none()
                && can_be_tuned(cx.comm, collective)
        }
    };
    match form {
        _ if is_tuned => Route::Tuned,
        Form::Blocking => decide_untuned(cx, call),
        Form::Nonblocking | Form::Persistent(_) => Route::Planned(AllowedPaths::All),
    }
}

/// Decides the route of a blocking call that is not tuned: a call of the library itself, or one for which
/// tuning keeps the default.
pub(super) fn decide_untuned(cx: CommContext<'_>, call: &Call<'_>) -> Route {
    kernel::find(cx, call).map_or(Route::Planned(AllowedPaths::All), Route::Kernel)
}

/// Decides whether a call may repeat the idle execution of an equal one, and binds that to the new memory.
///
/// # Safety
/// Same as for [`crate::collective::replay`].
#[inline(always)]
pub(super) unsafe fn find_replay(
    cx: CommContext<'_>,
    state: &mut OperationState,
    form: CallForm,
    key: &CallKey,
    has_lists: impl Fn(&[i64]) -> bool,
    addresses: [*mut u8; 2],
) -> Option<Replay> {
    if state.is_crowded() {
        return None;
    }
    let mode = state.tune(cx.process);
    let sleeps = state.sleeps(mode);
    let mut deferred = (mode.is_on() && !sleeps).then(|| cx.comm.collectives.deferred.borrow_mut(cx.lane));
    let way = match &deferred {
        // Operations called earlier begin earlier.
        Some(deferred) if !deferred.waiting.is_empty() => return None,
        Some(deferred) => deferred.tuning.way(mode, state.generation, form, key)?,
        None => Way::Exempt,
    };
    let is_exempt = matches!(way, Way::Exempt);
    // SAFETY: passed on.
    let index = unsafe {
        state.awaken(key, has_lists, addresses, |cached| {
            way.is_meant(&cached.execution.plan().shape, cached.tuned, |proposal| cached.is_of(proposal))
        })?
    };
    if let (Some(deferred), Some(cached), false) = (&mut deferred, &state.idle_executions[index], is_exempt) {
        deferred.tuning.went(form, &cached.execution.plan().shape);
    }
    state.nap.0 -= u32::from(sleeps);
    Some(Replay { index, is_tuned: mode.is_on() })
}

/// Returns the reason why an operation must go by messages alone, or `None` if it may use all paths.
/// `has_choice` says that tuning has chosen the algorithm.
pub(super) fn messages_only(
    cx: CommContext<'_>,
    requested: AllowedPaths,
    has_choice: bool,
) -> Option<MessagesOnly> {
    let node = &cx.comm.collectives.node;
    if cx.comm.inter().is_some() {
        return Some(MessagesOnly::BetweenGroups);
    }
    if node.numbers(cx.process, cx.comm).is_some() && !node.is_settled(cx.lane) {
        return Some(MessagesOnly::HostsNotAgreed);
    }
    if !has_choice && is_among_first(cx) {
        return Some(MessagesOnly::FirstOperations);
    }
    (requested == AllowedPaths::Messages).then_some(MessagesOnly::Requested)
}

/// Returns true if the next operation is one of the first of two processes on one host, which go by messages.
/// Many communicators see only a few operations. For two processes, making banks takes as long as a hundred
/// short operations by messages.
///
/// - Only the operation's number decides, not its kind. Otherwise mismatched calls would take different
///   routes, and no member could detect it.
/// - Only two processes: the operands of a reduction then meet in one order only, and later operations give
///   the same bits.
/// - With more ranks than processors banks pay at once, since each message may wait for a processor.
/// - Algorithms that the user names take precedence.
pub(super) fn is_among_first(cx: CommContext<'_>) -> bool {
    let (its, header) = (&cx.comm.collectives, cx.process.job.header());
    let config = &cx.process.config.collectives;
    if cx.comm.size() != 2 || cx.comm.context().0 <= SELF_CONTEXT.0 || !matches!(its.channel, Channel::Own) {
        return false;
    }
    let state = its.state.borrow(cx.lane);
    state.operations < BEFORE_BANKS
        && header.local_ranks <= header.processors
        && config.algorithm.is_empty()
        && !state.hints.name_algorithms()
        && its.node.numbers(cx.process, cx.comm).is_none()
        && !places::is_mixed(cx.process, cx.comm)
}

/// Returns true if non-blocking operations of a communicator begin when the members have agreed.
pub(super) fn is_needed(cx: CommContext<'_>) -> bool {
    let its = &cx.comm.collectives;
    if !matches!(its.channel, Channel::Own) || cx.comm.inter().is_some() {
        return false;
    }
    let unsettled = its.node.numbers(cx.process, cx.comm).is_some() && !its.node.is_settled(cx.lane);
    its.tune(cx.lane, cx.process).is_on() || unsettled
}

/// Returns true if so many operations of a communicator are active that others must wait. Those of
/// intercommunicators take no slots, and need not wait.
pub(super) fn is_crowded(cx: CommContext<'_>) -> bool {
    cx.comm.inter().is_none() && cx.comm.collectives.state.borrow(cx.lane).is_crowded()
}

/// Returns true if operations of a collective may be tuned on this communicator.
pub(super) fn can_be_tuned(comm: &Communicator, collective: Collective) -> bool {
    matches!(comm.collectives.channel, Channel::Own)
        && comm.inter().is_none()
        && comm.size() > 1
        && !collective.is_of_neighbours()
}

impl fmt::Display for MessagesOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MessagesOnly::Requested => "the library needs it once only",
            MessagesOnly::BetweenGroups => "the communicator has two groups",
            MessagesOnly::HostsNotAgreed => "the hosts have not agreed on what they offer",
            MessagesOnly::FirstOperations => "it is one of the first operations of two processes",
        })
    }
}
