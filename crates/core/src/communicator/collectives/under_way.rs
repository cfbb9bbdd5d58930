//! Operations of a communicator behind requests, and those that are kept to be started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::node::Neighbourhood;
use super::{Run, Ticket};
use crate::buffer::Buffer;
use crate::communicator::Communicator;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::request::RequestId;
use crate::wire::Signature;

/// An operation under way behind a request. The box is used again and again.
#[derive(Debug)]
pub(crate) struct Running {
    /// `None` for a persistent operation, which has its own, and while the box is idle.
    pub(crate) comm: Option<Arc<Communicator>>,
    pub(crate) operation: Option<Nonblocking>,
}

#[derive(Debug)]
pub(crate) struct Nonblocking {
    /// Until it is over.
    pub(crate) run: Option<Run>,
    pub(crate) ticket: Ticket,
    pub(crate) request: RequestId,
    /// Where a persistent operation goes when it is over; others go back to the communicator.
    pub(crate) kept: Option<Arc<Kept>>,
    pub(crate) _memory: Option<[Buffer; 2]>,
}

/// A persistent operation.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) run: FirstLaneCell<Option<Run>>,
    pub(crate) comm: Arc<Communicator>,
    pub(crate) tag: i32,
    /// The tag that making it took, and what that said.
    pub(crate) made: (i32, Signature),
    /// Its own, since its starts need not follow those of other operations.
    pub(crate) banks: Option<Neighbourhood>,
    /// It may be done without messages and without foreign code.
    pub(crate) has_fast_path: bool,
    /// What a start has begun that was not over at once, until the same start goes on with it.
    pub(crate) begun: FirstLaneCell<Option<Ticket>>,
    /// How often it was started.
    pub(crate) starts: AtomicU32,
    /// A run has failed. If it was one by messages, what is still under way of it could be taken for the next
    /// one's, as all have one tag; its banks are not used again.
    pub(crate) failed: AtomicBool,
}

impl Kept {
    /// Its communicator.
    pub fn communicator(&self) -> &Communicator {
        &self.comm
    }

    /// Its own banks.
    pub fn banks(&self) -> Option<&Neighbourhood> {
        self.banks.as_ref()
    }

    /// Its execution is at rest again, after it has failed or not.
    pub fn put_back(&self, held: &LaneGuard, run: Option<Run>, has_failed: bool) {
        if has_failed {
            self.failed.store(true, Ordering::Relaxed);
        }
        *self.run.borrow_mut(held) = run;
    }
}
