//! Accesses behind a request. A thread moves the bytes, or the members exchange data step by step. Progress
//! of the library performs the steps, wherever the program waits.

use std::sync::Arc;

use tutti_base::Result;
use tutti_base::traffic::TRAFFIC;
use tutti_core::collective::{Activity, CommContext, Gathering, Maximum, files};
use tutti_core::completion;
use tutti_core::lanes::LaneGuard;
use tutti_core::messenger::Messenger;
use tutti_core::process::{self, Process};
use tutti_core::request::{Request, RequestId};

use crate::access::{AT_ONCE_BYTES, PreparedAccess, completed_request, judged, verdict_of};
use crate::file::File;
use crate::two_phase::{Card, TwoPhaseParams};
use crate::windows::FileWindows;
use crate::worker::{self, Job};
use tutti_storage::Moved;
use tutti_sys::clock;

/// State of an access between its start and its completion.
#[derive(Debug)]
pub(crate) enum Flight {
    /// Members send each other the position in their views.
    Gathering(Gathering, TwoPhaseParams, Result<PreparedAccess>),
    /// Members exchange data. The numbers are the bytes of memory that a file of sufficient length would
    /// fill, and the start time in nanoseconds.
    Exchanging(RequestId, Arc<FileWindows>, PreparedAccess, u64, u64),
    /// A thread moves the bytes.
    Moving(Arc<Job>, PreparedAccess),
    /// All bytes are moved, with this result.
    Over(Moved),
    /// Members agree on a common result.
    Agreeing(Maximum, Moved),
    /// All members know the result.
    Known(Moved),
}

/// Tags of the successive steps that members perform for one access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tags {
    /// Tag of the exchange of data.
    pub exchange: i32,
    /// Tag of the agreement at the end.
    pub verdict: i32,
}

/// Access in progress behind a request.
#[derive(Debug)]
struct Running {
    file: Arc<File>,
    flight: Flight,
    request: RequestId,
    /// Tags of the steps; `None` if the access is independent.
    tags: Option<Tags>,
}

/// Starts an access in state `flight` and returns its request. The request completes together with the
/// access.
pub(crate) fn launch(
    held: &LaneGuard,
    process: &'static Process,
    file: &Arc<File>,
    flight: Flight,
    tags: Option<Tags>,
) -> RequestId {
    let context = file.comm.context().0;
    let insert = |request| process.messages.borrow_mut(held).state.insert(request);
    let flight = match flight {
        Flight::Over(moved) if tags.is_none() => return insert(completed_request(moved, context)),
        flight => flight,
    };
    let request = insert(Request::uncancellable(context));
    let running = Box::new(Running { file: Arc::clone(file), flight, request, tags });
    if let Some(activity) = running.advance(held, process, false) {
        process.add_activity(held, activity);
    }
    request
}

/// Returns a request for work that a thread performs for the library itself.
pub(crate) fn watch(
    held: &LaneGuard,
    process: &'static Process,
    file: &Arc<File>,
    job: Arc<Job>,
) -> RequestId {
    #[derive(Debug)]
    struct Watched(Arc<Job>, RequestId);
    impl Activity for Watched {
        fn advance(
            self: Box<Self>,
            held: &LaneGuard,
            messenger: &Messenger,
            _: bool,
        ) -> Option<Box<dyn Activity>> {
            let Some(moved) = self.0.take() else { return Some(self) };
            complete(held, messenger, self.1, moved);
            None
        }
        fn is_unattended(&self) -> bool {
            true
        }
    }
    let request =
        process.messages.borrow_mut(held).state.insert(Request::uncancellable(file.comm.context().0));
    process.add_activity(held, Box::new(Watched(job, request)));
    request
}

impl Running {
    /// Performs the next step of the access, if it need not wait. Returns true if it made a step.
    fn step(&mut self, held: &LaneGuard, process: &Process) -> bool {
        // One that is gone is over.
        let is_over = |request| completion::is_complete(held, process, request).unwrap_or(true);
        let next = match std::mem::replace(&mut self.flight, Flight::Over(Moved::default())) {
            Flight::Gathering(gathering, means, prepared) if is_over(gathering.request) => {
                match gathering.finish(held, process) {
                    Ok(cards) => self.exchange(held, process, &means, prepared, &Card::decode_all(&cards)),
                    Err(error) => Flight::Over(Moved { bytes: 0, fault: Some(error) }),
                }
            }
            Flight::Exchanging(request, windows, prepared, bytes, start_ns) if is_over(request) => {
                TRAFFIC.file_exchange_ns.add(clock::now_ns() - start_ns);
                let result = completion::finish(held, process, request).result;
                let fault = result.err().or(windows.fault());
                Flight::Over(prepared.conclude(Moved { bytes, fault }))
            }
            Flight::Moving(job, prepared) => match job.take() {
                Some(moved) => Flight::Over(prepared.conclude(moved)),
                None => {
                    self.flight = Flight::Moving(job, prepared);
                    return false;
                }
            },
            Flight::Over(moved) => match self.tags {
                None => Flight::Known(moved),
                Some(tags) => {
                    let verdict = verdict_of(&moved);
                    let comm = &self.file.comm;
                    match CommContext::new(held, process, comm).start_maximum(tags.verdict, verdict.into()) {
                        Ok(maximum) => Flight::Agreeing(maximum, moved),
                        Err(error) => Flight::Known(Moved { fault: Some(error), ..moved }),
                    }
                }
            },
            Flight::Agreeing(maximum, moved) if is_over(maximum.request) => {
                Flight::Known(match maximum.finish(held, process) {
                    Ok(worst) => judged(moved, worst as u32),
                    Err(error) => Moved { fault: Some(error), ..moved },
                })
            }
            waits => {
                self.flight = waits;
                return false;
            }
        };
        self.flight = next;
        true
    }

    /// Starts the exchange, when all members know each other's part, or an independent access if that is
    /// cheaper.
    fn exchange(
        &self,
        held: &LaneGuard,
        process: &Process,
        means: &TwoPhaseParams,
        prepared: Result<PreparedAccess>,
        cards: &[Card],
    ) -> Flight {
        let worst = cards.iter().map(|card| card.verdict).max().unwrap_or(0);
        let nothing = |fault| Moved { bytes: 0, fault };
        let prepared = match prepared {
            Ok(prepared) if worst == 0 => prepared,
            result => return Flight::Known(judged(nothing(result.err()), worst)),
        };
        let Some(tags) = self.tags else { unreachable!("a member that exchanges data has tags for it") };
        let Some(division) = means.divide(cards) else {
            let transfer = prepared.transfer(&self.file);
            if prepared.buffer.bytes() <= AT_ONCE_BYTES {
                return Flight::Over(prepared.conclude(transfer.run()));
            }
            let job =
                process::process().map(|process| worker::start(process, Box::new(move || transfer.run())));
            return match job {
                Some(Ok(job)) => Flight::Moving(job, prepared),
                Some(Err(error)) => Flight::Over(nothing(Some(error))),
                None => Flight::Over(nothing(None)),
            };
        };
        let rank = self.file.comm.rank().0;
        let file_bytes = cards.iter().map(|card| card.file_bytes).max().unwrap_or(0);
        let wanted = &division.streams[rank as usize];
        let bytes = match prepared.write {
            true => wanted.end - wanted.start,
            false => {
                division.views[rank as usize].stream_below(file_bytes).clamp(wanted.start, wanted.end)
                    - wanted.start
            }
        };
        TRAFFIC.file_exchanges.add(1);
        let start_ns = clock::now_ns();
        let division = Arc::new(division);
        let slots = division.slots(rank);
        let windows = Arc::new(FileWindows::new(Arc::clone(&self.file), Arc::clone(&division)));
        let operation = files::OnFile {
            schedule: division.schedule(rank, &slots, prepared.write),
            write: prepared.write,
            memory: prepared.buffer.clone(),
            own: division.own(rank),
            slots,
            windows: Arc::clone(&windows) as Arc<dyn files::Windows>,
        };
        let request =
            files::start(CommContext::new(held, process, &self.file.comm), operation, tags.exchange);
        Flight::Exchanging(request, windows, prepared, bytes, start_ns)
    }
}

impl Activity for Running {
    fn advance(
        mut self: Box<Self>,
        held: &LaneGuard,
        _: &Messenger,
        _patient: bool,
    ) -> Option<Box<dyn Activity>> {
        let process = process::started();
        while self.step(held, process) {
            if let Flight::Known(moved) = &mut self.flight {
                complete(held, process, self.request, std::mem::take(moved));
                return None;
            }
        }
        Some(self)
    }

    fn is_unattended(&self) -> bool {
        match &self.flight {
            Flight::Moving(_, prepared) | Flight::Exchanging(_, _, prepared, ..) => {
                !prepared.view.representation.calls_user()
            }
            _ => true,
        }
    }
}

fn complete(held: &LaneGuard, messenger: &Messenger, request: RequestId, moved: Moved) {
    let mut messages = messenger.messages.borrow_mut(held);
    if let Some(request) = messages.state.requests.get_mut(request) {
        request.status.bytes = moved.bytes;
    }
    messages.state.requests.complete(request, moved.fault);
}
