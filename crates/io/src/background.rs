//! Accesses behind a request: what happens once a thread has moved the bytes. Progress moves them on, wherever the program waits.

use std::sync::Arc;

use tutti_core::collective::{self, Activity, Maximum};
use tutti_core::completion;
use tutti_core::giant::Held;
use tutti_core::process::Process;
use tutti_core::request::{Request, RequestId, Work};

use crate::access::{Prepared, judged, over, verdict_of};
use crate::driver::Moved;
use crate::file::File;
use crate::worker::Job;

/// How far an access is.
#[derive(Debug)]
pub(crate) enum Flight {
    /// A thread moves its bytes.
    Moving(Arc<Job>, Prepared),
    /// They are moved.
    Over(Moved),
    /// Members agree on what became of it.
    Agreeing(Maximum, Moved),
}

/// An access that goes on by itself.
#[derive(Debug)]
struct Running {
    file: Arc<File>,
    flight: Flight,
    request: RequestId,
    /// The number of the operation, if all members take part.
    tag: Option<i32>,
}

/// Starts it; the request is complete when it is over.
pub(crate) fn launch(
    held: &Held,
    process: &'static Process,
    file: &Arc<File>,
    flight: Flight,
    tag: Option<i32>,
) -> RequestId {
    let context = file.comm.context().0;
    let insert = |request| process.messages.borrow_mut(held).state.insert(request);
    let flight = match flight {
        Flight::Over(moved) if tag.is_none() => return insert(over(moved, context)),
        flight => flight,
    };
    let request = insert(Request::new(Work::Other, context));
    let running = Box::new(Running { file: Arc::clone(file), flight, request, tag });
    if let Some(activity) = running.advance(held, process, false) {
        process.add_activity(held, activity);
    }
    request
}

impl Running {
    /// The bytes are moved: the request is complete, or members have to agree first.
    fn moved(self, held: &Held, process: &Process, moved: Moved) -> Option<Box<dyn Activity>> {
        let Some(tag) = self.tag else {
            complete(held, process, self.request, moved);
            return None;
        };
        let verdict = verdict_of(&moved);
        match collective::start_maximum(held, process, &self.file.comm, tag, verdict) {
            Ok(maximum) => {
                let next = Box::new(Running { flight: Flight::Agreeing(maximum, moved), ..self });
                next.advance(held, process, false)
            }
            Err(error) => {
                complete(held, process, self.request, Moved { fault: Some(error), ..moved });
                None
            }
        }
    }
}

impl Activity for Running {
    fn advance(
        mut self: Box<Self>,
        held: &Held,
        process: &Process,
        _patient: bool,
    ) -> Option<Box<dyn Activity>> {
        match std::mem::replace(&mut self.flight, Flight::Over(Moved::default())) {
            Flight::Moving(job, prepared) => match job.take() {
                Some(moved) => {
                    let moved = prepared.conclude(moved);
                    (*self).moved(held, process, moved)
                }
                None => {
                    self.flight = Flight::Moving(job, prepared);
                    Some(self)
                }
            },
            Flight::Over(moved) => (*self).moved(held, process, moved),
            Flight::Agreeing(maximum, moved) => {
                // One that is gone is over.
                if !completion::is_complete(held, process, maximum.request).unwrap_or(true) {
                    self.flight = Flight::Agreeing(maximum, moved);
                    return Some(self);
                }
                let moved = match maximum.finish(held, process) {
                    Ok(worst) => judged(moved, worst),
                    Err(error) => Moved { fault: Some(error), ..moved },
                };
                complete(held, process, self.request, moved);
                None
            }
        }
    }

    fn is_unattended(&self) -> bool {
        match &self.flight {
            Flight::Moving(_, prepared) => !prepared.view.representation.calls_user(),
            Flight::Over(_) | Flight::Agreeing(..) => true,
        }
    }
}

fn complete(held: &Held, process: &Process, request: RequestId, moved: Moved) {
    let mut messages = process.messages.borrow_mut(held);
    if let Some(request) = messages.state.requests.get_mut(request) {
        request.status.bytes = moved.bytes;
    }
    messages.state.requests.complete(request, moved.fault);
}
