//! Continuations: functions of the program that run once operations are complete (MPIX_Continue).
//!
//! A request table knows which of its requests have a continuation. When such a request completes, it is
//! moved to a list of ready ones; nothing else is looked at, so a completion costs the same however many
//! operations are outstanding. Ready continuations run at the end of the program's MPI calls, and in waits.
//! No borrow and no lock but that of the first lane is held then, which this thread may enter again. So a
//! continuation may start operations, test and wait. Continuations do not run inside another one: those that
//! become ready meanwhile follow it.
//!
//! Each continuation belongs to a continuation request, which is complete while none of its continuations is
//! outstanding.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tutti_base::{Error, ErrorClass, Result};

use crate::completion::{self, Finished};
pub use crate::followers::any_ready;
use crate::followers::{Follower, take_any_ready};
use crate::lanes::LaneGuard;
use crate::messenger::Messenger;
use crate::request::{Persistent, Request, RequestId, Template};

/// Function that gets the outcome of the operation with this number.
pub type Report = Box<dyn Fn(usize, &Finished) + Send + Sync>;
/// Function that runs when all operations are complete, with the error of one that failed.
pub type Callback = Box<dyn FnOnce(Option<Error>) + Send>;

/// Continuation of one or several operations.
pub struct Continuation {
    /// Operations that have not been finished yet.
    left: AtomicUsize,
    report: Report,
    /// Function to call, and the first error; taken when it runs.
    then: Mutex<(Option<Callback>, Option<Error>)>,
    /// Continuation request that waits for this continuation.
    owner: RequestId,
}

thread_local! {
    /// True while a continuation runs in this thread.
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Creates an inactive continuation request.
pub fn create_request(held: &LaneGuard, messenger: &Messenger) -> RequestId {
    let persistent = Persistent { active: false, template: Template::Nothing, keeps: None };
    let request =
        Request { persistent: Some(Box::new(persistent)), complete: true, ..Request::uncancellable(0) };
    let mut messages = messenger.messages.borrow_mut(held);
    let id = messages.state.requests.insert(request);
    messages.state.requests.followers.outstanding.insert(id, 0);
    id
}

/// Attaches a continuation to operations, whose requests must not be used afterwards. The caller holds the
/// first lane. A continuation of complete operations becomes ready at once.
///
/// # Errors
/// `Request` if `owner` is no started continuation request, or one of `ids` is not known.
pub fn attach(
    held: &LaneGuard,
    messenger: &Messenger,
    ids: &[RequestId],
    owner: RequestId,
    (report, callback): (Report, Callback),
) -> Result<()> {
    for id in ids {
        completion::is_complete(held, messenger, *id)?;
    }
    begin(held, messenger, owner)?;
    let continuation = Arc::new(Continuation {
        left: AtomicUsize::new(ids.len().max(1)),
        report,
        then: Mutex::new((Some(callback), None)),
        owner,
    });
    if ids.is_empty() {
        let mut messages = messenger.messages.borrow_mut(held);
        messages.state.requests.followers.make_ready(RequestId::DONE, (continuation, usize::MAX));
        return Ok(());
    }
    for (number, id) in ids.iter().enumerate() {
        let follower: Follower = (Arc::<Continuation>::clone(&continuation), number);
        messenger.in_lane(held, id.lane().unwrap_or(held.lane()), |held| {
            let mut messages = messenger.messages.borrow_mut(held);
            let requests = &mut messages.state.requests;
            match requests.user(*id).map(|request| request.complete) {
                Ok(false) => drop(requests.followers.waiting.insert(*id, follower)),
                _ => requests.followers.make_ready(*id, follower),
            }
        });
    }
    Ok(())
}

/// Counts a new continuation of a continuation request. The request is not complete from now on.
fn begin(held: &LaneGuard, messenger: &Messenger, owner: RequestId) -> Result<()> {
    let wrong = || {
        let reason =
            "argument cont_req is no continuation request that was started (MPIX_Continue_init, MPI_Start)";
        Error::new(ErrorClass::Request, reason)
    };
    let mut messages = messenger.messages.borrow_mut(held);
    let requests = &mut messages.state.requests;
    let count = requests.followers.outstanding.get_mut(&owner).ok_or_else(wrong)?;
    *count += 1;
    let request = requests.user(owner)?;
    if request.is_inactive() {
        requests.followers.outstanding.insert(owner, 0);
        return Err(wrong());
    }
    request.complete = false;
    Ok(())
}

/// Runs ready continuations, and those that become ready meanwhile. The caller holds the first lane, without
/// a borrow of its state.
#[cold]
pub fn run_ready(held: &LaneGuard, messenger: &Messenger) {
    if RUNS.replace(true) {
        return;
    }
    while take_any_ready() {
        for lane in messenger.messages.lanes() {
            let ready = messenger.in_lane(held, lane, |held| {
                std::mem::take(&mut messenger.messages.borrow_mut(held).state.requests.followers.ready)
            });
            for (id, (continuation, number)) in ready {
                let Ok(continuation) = continuation.downcast::<Continuation>() else { continue };
                if number != usize::MAX {
                    let finished = completion::finish(held, messenger, id);
                    (continuation.report)(number, &finished);
                    continuation.note(finished.result.err());
                }
                if continuation.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    continuation.run();
                    end(held, messenger, continuation.owner);
                }
            }
        }
    }
    RUNS.set(false);
}

impl Continuation {
    fn note(&self, error: Option<Error>) {
        let mut then = self.then.lock().unwrap_or_else(PoisonError::into_inner);
        then.1 = then.1.take().or(error);
    }

    fn run(&self) {
        let (callback, error) =
            std::mem::take(&mut *self.then.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(callback) = callback {
            callback(error);
        }
    }
}

/// Completes a continuation request if none of its continuations is outstanding.
fn end(held: &LaneGuard, messenger: &Messenger, owner: RequestId) {
    let mut messages = messenger.messages.borrow_mut(held);
    let requests = &mut messages.state.requests;
    let Some(count) = requests.followers.outstanding.get_mut(&owner) else { return };
    *count -= 1;
    if *count == 0 {
        requests.complete(owner, None);
    }
}
