//! Collective operations: from a user's arguments to a plan and its execution (MPI-5 chapter 6).
//!
//! A call passes these stages, in this order. Data move forward only.
//!
//! | stage | module | content |
//! |---|---|---|
//! | call | [`crate::communicator::collectives::call`] | [`Arguments`] become a [`Call`] with its [`Shape`] |
//! | route | `route` | one decision: replay, kernel, tuned or planned, and why |
//! | plan | `plan` | algorithm, schedule, cache of executions |
//! | execution | `execution`, [`crate::engine`] | steps over ports: messages, banks, exposed memory |
//! | completion | `completion` | progress and waits; failures and disagreements become errors |
//!
//! The state between calls is in [`crate::communicator::collectives`]. All stages share one
//! [context](CommContext). The forms differ in the entry point and in the completion:
//!
//! - [`perform`] waits for the end of the operation,
//! - [`start`] leaves it to progress,
//! - [`persistent`] keeps it, so that it can be started again.
//!
//! [`replay`] and [`start_replay`] repeat an earlier call with other memory. `internal` has calls of the
//! library itself, as methods of the contexts; [`files`] operations on files.
//!
//! The messages of an operation carry its sequence number on the communicator as tag, so any number of
//! operations may be active. A persistent operation gets a number of its own when it is created. Its starts
//! need not be in the same order everywhere (MPI-5 section 6.13).

mod completion;
mod context;
mod execution;
pub mod files;
mod internal;
mod plan;
mod replay;
mod route;
mod signature;

use tutti_base::Result;
pub use tutti_coll::{Collective, Shape};

use crate::communicator::Communicator;
use crate::communicator::collectives::Channel;
pub use crate::communicator::collectives::call::{Arguments, Call, Side};
pub use crate::communicator::collectives::choices::Choices;
pub use crate::communicator::collectives::collected::{Gathering, Maximum};
pub use crate::communicator::collectives::hints::{self, CollectiveHints};
pub use crate::communicator::collectives::key::CallKey;
pub use crate::communicator::collectives::learnings::Learnings;
use crate::info::Info;
use crate::lanes::LaneGuard;
pub use crate::messenger::Activity;
use crate::request::RequestId;

pub use completion::failures::unreported_mismatch;
pub(crate) use completion::failures::{Unreceived, answer_inquiry, unreceived};
pub use completion::persistent::persistent;
pub(crate) use completion::tuned::report_undecided;
use completion::{nonblocking, tuned};
pub(crate) use context::member_layout;
pub use context::{CommContext, WaitContext};
pub use replay::{replay, start_replay};
use route::{Form, Route, kernel, multicast};

/// Runs an operation that the program has called, and waits for its end.
///
/// # Errors
/// Returns the error of a message that failed, or of members that disagree.
pub fn perform(cx: &mut WaitContext<'_>, call: &Call<'_>) -> Result<()> {
    completion::settle_agreements(cx)?;
    let route = route::decide(cx.shared(), call, Form::Blocking);
    follow(cx, call, route)
}

/// Runs an operation as [`perform`] does, without tuning: for calls of the library itself.
pub(crate) fn perform_untuned(cx: &mut WaitContext<'_>, call: &Call<'_>) -> Result<()> {
    completion::settle_agreements(cx)?;
    let route = route::decide_untuned(cx.shared(), call);
    follow(cx, call, route)
}

/// Runs an operation by a route, and waits for its end.
fn follow(cx: &mut WaitContext<'_>, call: &Call<'_>, route: Route) -> Result<()> {
    match route {
        Route::Kernel(kernel) => kernel::run(cx, call, kernel),
        Route::Tuned => tuned::run(cx, call),
        Route::Planned(paths) => completion::run_planned(cx, call, paths),
    }
}

/// Starts an operation. The returned request is complete when the operation is over.
pub fn start(cx: CommContext<'_>, call: &Call<'_>) -> RequestId {
    match route::decide(cx, call, Form::Nonblocking) {
        Route::Kernel(kernel) => kernel::start(cx, call, kernel),
        Route::Tuned => tuned::start(cx, call),
        Route::Planned(paths) => nonblocking::start_planned(cx, call, paths),
    }
}

/// Sets the hints of a communicator. All its members must pass the same hints (MPI-5 section 7.4.4).
///
/// # Errors
/// Returns the error of a message of an operation that had to begin first.
pub fn set_info(cx: &mut WaitContext<'_>, info: &Info) -> Result<()> {
    if matches!(cx.comm.collectives.channel, Channel::Own) && cx.comm.inter().is_none() {
        tuned::settle_all(cx)?;
    }
    cx.comm.set_hints(cx.lane, info);
    Ok(())
}

/// Takes this process out of the multicasts of a communicator. A process that has left answers no repair
/// requests.
pub(crate) fn leave_multicasts(held: &LaneGuard, comm: &Communicator) {
    multicast::leave(held, comm);
}
