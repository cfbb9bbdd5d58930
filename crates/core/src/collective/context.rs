//! Context of a collective call: the lane that the caller holds, the process, and the communicator. All
//! stages of a call need the three, so they travel as one value.
//!
//! | type | lane | for functions that |
//! |---|---|---|
//! | [`CommContext`] | shared | never wait |
//! | [`WaitContext`] | exclusive | may wait, and release the lane while they sleep |
//!
//! A wait needs exclusive access to the guard, so that no borrow of state is alive while other threads enter
//! the lane ([`crate::lanes`]).

use std::sync::Arc;

use tutti_coll::simulate;
use tutti_coll::{Collective, Shape};

use crate::communicator::Communicator;
use crate::hang;
use crate::lanes::LaneGuard;
use crate::process::{Process, name_of_context};
use crate::progress;

/// Context of a step that does not wait.
#[derive(Clone, Copy, Debug)]
pub struct CommContext<'a> {
    /// Lane that the caller holds, the first one.
    pub lane: &'a LaneGuard,
    /// The one process of this program, with its library.
    pub process: &'a Process,
    /// Communicator of the call.
    pub comm: &'a Arc<Communicator>,
}

/// Context of a call that may wait.
#[derive(Debug)]
pub struct WaitContext<'a> {
    /// Lane that the caller holds, the first one. Waits release it.
    pub lane: &'a mut LaneGuard,
    /// The one process of this program, with its library.
    pub process: &'a Process,
    /// Communicator of the call.
    pub comm: &'a Arc<Communicator>,
}

impl<'a> CommContext<'a> {
    /// Makes the context of a step that does not wait.
    #[inline(always)]
    pub fn new(lane: &'a LaneGuard, process: &'a Process, comm: &'a Arc<Communicator>) -> CommContext<'a> {
        CommContext { lane, process, comm }
    }
}

impl<'a> WaitContext<'a> {
    /// Makes the context of a call that may wait.
    #[inline(always)]
    pub fn new(
        lane: &'a mut LaneGuard,
        process: &'a Process,
        comm: &'a Arc<Communicator>,
    ) -> WaitContext<'a> {
        WaitContext { lane, process, comm }
    }

    /// Returns the context for steps that do not wait.
    #[inline(always)]
    pub fn shared(&self) -> CommContext<'_> {
        CommContext { lane: self.lane, process: self.process, comm: self.comm }
    }

    /// Waits until `is_done` returns true, and makes progress meanwhile. `what` returns the text for a user
    /// who asks where this rank waits.
    pub fn wait_until(
        &mut self,
        what: &dyn Fn() -> String,
        mut is_done: impl FnMut(CommContext<'_>) -> bool,
    ) {
        let (process, comm) = (self.process, self.comm);
        progress::wait_until(self.lane, process, what, |lane| is_done(CommContext::new(lane, process, comm)));
    }

    /// Returns the context of the same caller on another communicator.
    pub fn within<'b>(&'b mut self, comm: &'b Arc<Communicator>) -> WaitContext<'b> {
        WaitContext { lane: self.lane, process: self.process, comm }
    }
}

/// Returns the layout of the members on hosts and processors, equal at all members. `None` if no process is
/// bound to processors, so that nothing is known.
pub(crate) fn member_layout(process: &Process, comm: &Communicator) -> Option<Arc<simulate::Layout>> {
    comm.collectives.layout.of(process, &process.library.layouts, comm)
}

/// Returns the text for a user who asks where this rank waits.
pub(super) fn describe_wait(collective: Collective, root: u32, comm: &Communicator) -> String {
    let root = root_of(collective, root);
    hang::note_collective(comm, collective, root);
    let root = root.map_or(String::new(), |root| format!(" with root {root}"));
    format!("{collective}{root} in {}", name_of_context(comm.context().0))
}

/// Returns the root of an operation, if it has one.
pub(super) fn root_of(collective: Collective, root: u32) -> Option<u32> {
    (collective.rooted() && root != Shape::NOBODY).then_some(root)
}
