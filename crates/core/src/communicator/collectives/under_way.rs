//! Active non-blocking operations of a communicator, and its persistent operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::node::Neighbourhood;
use super::{CachedExecution, Ticket};
use crate::buffer::Buffer;
use crate::communicator::Communicator;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::request::RequestId;
use crate::wire::Signature;

/// An active operation with a request. The allocation is reused.
#[derive(Debug)]
pub(crate) struct Running {
    /// Communicator; `None` for a persistent operation, which holds its own, and while the box is idle.
    pub(crate) comm: Option<Arc<Communicator>>,
    pub(crate) operation: Option<Nonblocking>,
}

/// A non-blocking or started persistent operation.
#[derive(Debug)]
pub(crate) struct Nonblocking {
    /// Execution, present until the operation ends.
    pub(crate) cached: Option<Box<CachedExecution>>,
    pub(crate) ticket: Ticket,
    pub(crate) request: RequestId,
    /// Persistent operation that gets the execution back at the end; others return it to the communicator.
    pub(crate) kept: Option<Arc<Kept>>,
    /// Memory of the library that the operation uses, kept until its end.
    pub(crate) _memory: Option<[Buffer; 2]>,
}

/// A persistent operation.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Execution, while no start is active.
    pub(crate) cached: FirstLaneCell<Option<Box<CachedExecution>>>,
    pub(crate) comm: Arc<Communicator>,
    /// Tag of the messages of its starts.
    pub(crate) tag: i32,
    /// Tag that making it took, and the signature recorded for that.
    pub(crate) made: (i32, Signature),
    /// Banks of its own, since its starts need not follow those of other operations.
    pub(crate) banks: Option<Neighbourhood>,
    /// True if it may run without messages and without the user's code.
    pub(crate) has_fast_path: bool,
    /// State of a start that did not finish at once, until the same start continues it.
    pub(crate) begun: FirstLaneCell<Option<Ticket>>,
    /// Number of starts so far.
    pub(crate) starts: AtomicU32,
    /// True if a run has failed. All runs have one tag, so leftover messages of a failed run could be taken
    /// for those of the next one. Its banks are not used again.
    pub(crate) failed: AtomicBool,
}

impl Kept {
    /// Returns the communicator of the operation.
    pub fn communicator(&self) -> &Arc<Communicator> {
        &self.comm
    }

    /// Returns the operation's own banks.
    pub fn banks(&self) -> Option<&Neighbourhood> {
        self.banks.as_ref()
    }

    /// Returns the execution at the end of a run, and records whether the run has failed.
    pub fn put_back(&self, held: &LaneGuard, cached: Option<Box<CachedExecution>>, has_failed: bool) {
        if has_failed {
            self.failed.store(true, Ordering::Relaxed);
        }
        *self.cached.borrow_mut(held) = cached;
    }
}
