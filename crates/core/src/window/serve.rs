//! The target's half of active messages. Those of one origin are executed in the order of sending, whenever
//! this process is in MPI, or by [`crate::progress_thread`].
//!
//! A window without active messages costs nothing during progress. An arriving message identifies its window
//! ([`answer_calls`]). The window's [`Service`] is among the progress handlers of the process only while it
//! has work.

use std::sync::{Arc, LazyLock};

use tutti_base::ids::Plane;
use tutti_base::{Error, ErrorClass, Result};
use tutti_data::{Datatype, Op};
use tutti_sys::cma::CopyError;
use tutti_transport::window::turnstile::Kind as LockKind;

use super::memory::{gather, scatter, unreachable};
use super::wire::{Active, WindowRequestKind};
use super::{Flavor, Window};
use crate::buffer::{Buffer, combine_packed};
use crate::completion;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::matching::{Numbered, Pattern};
use crate::messenger::{Activity, Messenger};
use crate::p2p::{Check, ReceiveSpec};
use crate::request::{Request, RequestId, Work};
use std::sync::atomic::Ordering;

/// Message whose data are arriving.
#[derive(Debug)]
pub(super) struct Incoming {
    source: u32,
    request: RequestId,
    buffer: Buffer,
}

/// Progress handler of a window, which ends when it has no more work.
#[derive(Debug)]
struct Service {
    window: Arc<Window>,
}

/// Windows that may receive active messages, by context and plane.
#[derive(Debug, Default)]
struct Served(Numbered<u32, Arc<Window>>);

static SERVED: LazyLock<FirstLaneCell<Served>> = LazyLock::new(FirstLaneCell::default);

/// Maximum number of messages received at a time. Flow control at their senders holds back further ones.
const INCOMING: usize = 64;

impl Activity for Service {
    fn advance(
        self: Box<Self>,
        held: &LaneGuard,
        messenger: &Messenger,
        _: bool,
    ) -> Option<Box<dyn Activity>> {
        let window = &self.window;
        let more = window.take_messages(held, messenger);
        window.do_messages(held, messenger);
        window.grant_locks(held, messenger);
        let remote = window.remote.borrow(held);
        if more || !remote.incoming.is_empty() || !remote.queue.is_empty() {
            drop(remote);
            return Some(self);
        }
        window.is_at_work.store(false, Ordering::Relaxed);
        None
    }

    fn is_unattended(&self) -> bool {
        // Operators of accumulates are predefined, so no code of the program runs.
        true
    }
}

/// Starts the services of windows for which messages have arrived.
#[cold]
pub(crate) fn answer_calls(held: &LaneGuard, messenger: &Messenger) {
    loop {
        let call = messenger.messages.borrow_mut(held).state.next_call();
        let Some(context) = call else { break };
        // A window whose service has not begun will check for messages when it begins.
        let window = SERVED.borrow(held).0.get(&context).map(Arc::clone);
        window.inspect(|window| window.serve(held, messenger));
    }
}

impl Window {
    /// Switches to messages for a target to whose memory the system has refused access.
    ///
    /// # Errors
    /// `RmaRange` if the memory does not exist.
    #[cold]
    pub(super) fn turn_to_messages(&self, messenger: &Messenger, rank: u32, error: CopyError) -> Result<()> {
        if !error.is_of_the_way() {
            return Err(unreachable(error));
        }
        if messenger.config.collectives.explain.is_all() {
            let target = self.world(rank);
            eprintln!(
                "Tutti: rank {}: one-sided operations go to rank {target} by message: {error}",
                messenger.rank
            );
        }
        self.members[rank as usize].refused.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Begins to execute active messages to the window, including those that have arrived already.
    pub(super) fn begin_service(self: &Arc<Window>, held: &LaneGuard, messenger: &Messenger) {
        SERVED.borrow_mut(held).0.insert(self.service_context(), Arc::clone(self));
        self.serve(held, messenger);
    }

    /// Ends the service. All members have synchronised, so no more messages arrive.
    pub(super) fn end_service(&self, held: &LaneGuard, messenger: &Messenger) {
        let context = self.service_context();
        SERVED.borrow_mut(held).0.remove(&context);
        messenger.messages.borrow_mut(held).state.forget(context);
    }

    fn service_context(&self) -> u32 {
        self.comm.context().plane(Plane::OneSided)
    }

    /// Adds the window's service to the progress handlers, unless it is there.
    fn serve(self: &Arc<Window>, held: &LaneGuard, messenger: &Messenger) {
        if !self.is_at_work.swap(true, Ordering::Relaxed) {
            messenger.add_activity(held, Box::new(Service { window: Arc::clone(self) }));
        }
    }

    /// Begins to receive the messages that have arrived. Returns true if there may be more.
    fn take_messages(&self, held: &LaneGuard, messenger: &Messenger) -> bool {
        let context = self.service_context();
        let pattern = Pattern { context, source: None, tag: None };
        let mut remote = self.remote.borrow_mut(held);
        let mut messages = messenger.messages.borrow_mut(held);
        while remote.incoming.len() < INCOMING
            && let Some(status) = messages.state.peek(pattern)
            && let Some((envelope, message)) = messages.state.take(pattern)
        {
            let buffer = Buffer::owned(vec![0; status.bytes as usize]);
            let request = messages.state.insert(Request::new(Work::Other, self.comm.context().0));
            let spec = ReceiveSpec { buffer: buffer.clone(), pattern, from: None, check: Check::Nothing };
            messages.start_receive_message(request, spec, envelope, message);
            remote.incoming.push_back(Incoming { source: envelope.source, request, buffer });
        }
        remote.incoming.len() >= INCOMING
    }

    /// Executes messages whose data have arrived. Later messages of an origin wait for its earlier ones.
    fn do_messages(&self, held: &LaneGuard, messenger: &Messenger) {
        let mut waiting: Vec<u32> = Vec::new();
        let mut place = 0;
        loop {
            let next = {
                let mut remote = self.remote.borrow_mut(held);
                let Some(incoming) = remote.incoming.get(place) else { break };
                let arrived = completion::is_complete(held, messenger, incoming.request).unwrap_or(true);
                if !arrived || waiting.contains(&incoming.source) {
                    waiting.push(incoming.source);
                    place += 1;
                    continue;
                }
                remote.incoming.remove(place)
            };
            let Some(incoming) = next else { break };
            let received = completion::finish(held, messenger, incoming.request).result.map(drop);
            let bytes = incoming.buffer.run().unwrap_or(&[]);
            let done = received
                .and_then(|()| Active::decode(bytes))
                .and_then(|active| self.act(held, messenger, incoming.source, &active));
            if let Err(error) = done {
                let why = format!(
                    "one-sided operation of rank {} at {}: {}",
                    self.world(incoming.source),
                    self.describe(),
                    error.message
                );
                messenger.fail(error.class, &why);
            }
            messenger.messages.borrow_mut(held).state.requests.news = true;
        }
    }

    /// Executes one active message, or handles a reply.
    fn act(&self, held: &LaneGuard, messenger: &Messenger, source: u32, active: &Active<'_>) -> Result<()> {
        match active.kind {
            WindowRequestKind::Put => {
                self.check(held, active)?;
                scatter(&self.own.window(u64::MAX), &active.runs, active.data).map_err(unreachable)
            }
            WindowRequestKind::Get
            | WindowRequestKind::Accumulate
            | WindowRequestKind::Fetch
            | WindowRequestKind::Swap => {
                self.check(held, active)?;
                let old = self.update_own(active)?;
                if active.kind != WindowRequestKind::Accumulate {
                    self.answer(held, messenger, source, active.reply, &old);
                }
                Ok(())
            }
            WindowRequestKind::Flush => {
                self.answer(held, messenger, source, active.reply, &[]);
                Ok(())
            }
            WindowRequestKind::LockShared | WindowRequestKind::LockExclusive => {
                let kind = if active.kind == WindowRequestKind::LockShared {
                    LockKind::Shared
                } else {
                    LockKind::Exclusive
                };
                let ticket = self.station_of(self.station).door.ask(kind, self.station);
                self.remote.borrow_mut(held).queue.push((source, active.reply, ticket));
                Ok(())
            }
            WindowRequestKind::Unlock => {
                let ticket = self.remote.borrow_mut(held).holding.remove(&source);
                let ticket = ticket
                    .ok_or_else(|| Error::new(ErrorClass::RmaSync, "it unlocks what it has not locked"))?;
                self.station_of(self.station).door.leave(ticket);
                self.wake_next(messenger, self.station);
                self.answer(held, messenger, source, active.reply, &[]);
                Ok(())
            }
            WindowRequestKind::Post => {
                *self.remote.borrow_mut(held).posts.entry(source).or_insert(0) += 1;
                Ok(())
            }
            WindowRequestKind::Complete => {
                let mut remote = self.remote.borrow_mut(held);
                remote.completed = remote.completed.wrapping_add(1);
                Ok(())
            }
            WindowRequestKind::Reply => {
                let answered = self.remote.borrow_mut(held).answered(active.reply, active.data);
                let over = answered.ok_or_else(|| Error::new(ErrorClass::Intern, "an answer to nothing"))?;
                if let Some(request) = over {
                    messenger.messages.borrow_mut(held).state.requests.complete(request, None);
                }
                Ok(())
            }
        }
    }

    /// Reads the own memory, and combines or replaces it with exclusive access. Returns the former content.
    fn update_own(&self, active: &Active<'_>) -> Result<Vec<u8>> {
        let mut old = vec![0; active.bytes()];
        let own = self.own.window(u64::MAX);
        if active.kind == WindowRequestKind::Get {
            gather(&own, &active.runs, &mut old).map_err(unreachable)?;
            return Ok(old);
        }
        let reducer = match active.kind {
            WindowRequestKind::Swap => None,
            _ => {
                let unknown = || Error::new(ErrorClass::Intern, "an accumulate that is not known");
                let op = Op::predefined(active.op).ok_or_else(unknown)?;
                Some(op.bind(Datatype::predefined(active.basic).ok_or_else(unknown)?)?)
            }
        };
        self.station_of(self.station)
            .alone(self.looks, || {
                gather(&own, &active.runs, &mut old)?;
                let Some(reducer) = &reducer else {
                    let (compare, new) = active.data.split_at(active.data.len() / 2);
                    return if *compare == *old { scatter(&own, &active.runs, new) } else { Ok(()) };
                };
                // MPI_NO_OP carries no data.
                if active.data.len() != old.len() {
                    return Ok(());
                }
                let mut new = old.clone();
                combine_packed(reducer, active.data, &mut new);
                scatter(&own, &active.runs, &new)
            })
            .map_err(unreachable)?;
        Ok(old)
    }

    /// Checks that the runs are inside the own memory.
    fn check(&self, held: &LaneGuard, active: &Active<'_>) -> Result<()> {
        let attached = self.attached.borrow(held);
        let own = [(0, self.members[self.rank() as usize].bytes)];
        let areas = if self.flavor == Flavor::Dynamic { &attached[..] } else { &own[..] };
        let inside = |offset: u64, bytes: u64| {
            areas.iter().any(|(start, length)| {
                offset >= *start && offset - start <= *length && bytes <= length - (offset - start)
            })
        };
        match active.runs.iter().find(|run| !inside(run.offset, run.bytes)) {
            None => Ok(()),
            Some(run) => {
                let reason =
                    format!("{} bytes at {:#x} are not memory of the window here", run.bytes, run.offset);
                Err(Error::new(ErrorClass::RmaRange, reason))
            }
        }
    }

    fn answer(&self, held: &LaneGuard, messenger: &Messenger, rank: u32, reply: u64, data: &[u8]) {
        let message = Active::bare(WindowRequestKind::Reply, reply)
            .encode(data.len(), |room| room.copy_from_slice(data));
        self.send(held, messenger, rank, message);
    }

    /// Grants the own lock to the origins that are next.
    fn grant_locks(&self, held: &LaneGuard, messenger: &Messenger) {
        let door = &self.station_of(self.station).door;
        let mut remote = self.remote.borrow_mut(held);
        let mut granted = Vec::new();
        remote.queue.retain(|&(source, reply, ticket)| {
            let enters = door.enter(ticket);
            if enters {
                granted.push((source, reply, ticket));
            }
            !enters
        });
        remote.holding.extend(granted.iter().map(|&(source, _, ticket)| (source, ticket)));
        drop(remote);
        for (source, reply, _) in granted {
            self.wake_next(messenger, self.station);
            self.answer(held, messenger, source, reply, &[]);
        }
    }
}
