//! Continuations of the requests of one table: see [`crate::continuation`].

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::events;
use crate::request_id::RequestId;

/// Continuation that a request leads to, and the number of the request among its operations. This layer does
/// not know what a continuation is.
pub(crate) type Follower = (Arc<dyn Any + Send + Sync>, usize);

/// Continuations of the requests of one table.
#[derive(Default)]
pub(crate) struct Followers {
    /// Continuations of requests that are not complete.
    pub(crate) waiting: HashMap<RequestId, Follower>,
    /// Continuations of complete requests, which have not been taken up yet.
    pub(crate) ready: Vec<(RequestId, Follower)>,
    /// Number of outstanding continuations of each continuation request in this table.
    pub(crate) outstanding: HashMap<RequestId, usize>,
}

/// True if a table has ready continuations.
static ANY_READY: AtomicBool = AtomicBool::new(false);

/// Returns true if continuations may be ready to run.
#[inline]
pub fn any_ready() -> bool {
    ANY_READY.load(Ordering::Relaxed)
}

/// Returns true if continuations were ready since the last call.
pub(crate) fn take_any_ready() -> bool {
    ANY_READY.swap(false, Ordering::Relaxed)
}

impl Followers {
    /// Returns true if no request of the table has a continuation.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Makes the continuation of a request ready, if the request has one.
    #[cold]
    pub(crate) fn complete(&mut self, id: RequestId) {
        if let Some(follower) = self.waiting.remove(&id) {
            self.make_ready(id, follower);
        }
    }

    /// Queues a continuation, to be run at the end of the current call or in a wait.
    pub(crate) fn make_ready(&mut self, id: RequestId, follower: Follower) {
        self.ready.push((id, follower));
        ANY_READY.store(true, Ordering::Relaxed);
        events::rouse();
    }

    /// Forgets a continuation request that is freed.
    #[inline]
    pub(crate) fn forget(&mut self, id: RequestId) {
        if !self.outstanding.is_empty() {
            self.outstanding.remove(&id);
        }
    }
}

impl std::fmt::Debug for Followers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} requests with continuations", self.waiting.len())
    }
}
