//! Functions behind the MPI calls of point-to-point communication (MPI-5 chapter 3).
//!
//! Ranks and tags are the user's numbers here, and become typed in [`destination`] and [`pattern`].
//! Callers hold the communicator's lane or the first one, unless a function says more. A blocking call starts
//! an operation and waits. A short standard send creates no request, and neither does a receive whose message
//! has arrived.

use std::any::Any;
use std::sync::Arc;

use tutti_base::ids::Plane;
use tutti_base::{Error, ErrorClass, Rank, Result, WorldRank};
use tutti_data::Datatype;
use tutti_sys::clock;
use tutti_transport::Peer;
use tutti_transport::exposure::LentMessage;
use tutti_transport::waiting::Spin;

use crate::buffer::{Buffer, ByteRun, signature};
use crate::buffered::Attached;
use crate::communicator::{Communicator, Partner};
use crate::completion::{self, Finished};
use crate::hang;
use crate::lanes::{self, FirstLaneCell, Lane, LaneGuard, engage};
use crate::matching::{Envelope, Pattern};
use crate::messenger::{Activity, AllLinks, Messenger};
use crate::needs;
use crate::p2p::{Check, Message, Mode, PointToPoint, ReceiveSpec, SendSpec};
use crate::request::{Persistent, Request, RequestId, Status, Template, Work};
use crate::special::ANY_TAG;
use crate::trace;

/// Buffer of a user, with its datatype.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'a> {
    /// Memory of the items.
    pub buffer: &'a Buffer,
    /// Datatype of each item.
    pub datatype: &'a Datatype,
    /// Number of items in the buffer.
    pub count: u64,
}

/// Process to which a message goes, and the envelope by which that matches it.
pub type Destination = (WorldRank, Envelope);

/// Outcome of the attempt to send a message at once ([`send_run`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eager {
    /// The message was sent.
    Sent,
    /// The message is too long or there was no room; it needs a request.
    Refused,
    /// The attempt was not made.
    Untried,
}

/// Message taken by a matched probe, until it is received.
#[derive(Debug)]
pub struct Matched {
    context: u32,
    lane: Lane,
    inner: FirstLaneCell<Option<(Envelope, Message)>>,
}

impl Matched {
    /// Returns the context of the communicator over which it came.
    pub fn context(&self) -> u32 {
        self.context
    }
}

/// Parses the arguments of a send. Returns None for `MPI_PROC_NULL`.
///
/// # Errors
/// `Rank` or `Tag`, naming the argument.
#[inline(always)]
pub fn send_spec(
    messenger: &Messenger,
    comm: &Communicator,
    message: Typed<'_>,
    rank: i32,
    tag: i32,
    mode: Mode,
) -> Result<Option<SendSpec>> {
    let to = destination(comm, rank, tag)?;
    Ok(to.map(|to| send_spec_to(messenger, message, to, mode)))
}

/// Describes a send to a destination that is parsed.
#[inline(always)]
pub fn send_spec_to(
    messenger: &Messenger,
    message: Typed<'_>,
    (peer, envelope): Destination,
    mode: Mode,
) -> SendSpec {
    let signature =
        if messenger.config.diagnosis.check_types { signature(message.datatype, message.count) } else { 0 };
    SendSpec { buffer: message.buffer.clone(), peer, envelope, mode, signature }
}

/// Parses destination and tag of a send. Returns None for `MPI_PROC_NULL`.
///
/// # Errors
/// `Rank` or `Tag`, naming the argument.
#[inline(always)]
pub fn destination(comm: &Communicator, rank: i32, tag: i32) -> Result<Option<Destination>> {
    if tag < 0 {
        return Err(wrong_tag(tag, false));
    }
    let Partner::Process(peer) = comm.destination(rank)? else { return Ok(None) };
    let context = comm.context().plane(Plane::PointToPoint);
    Ok(Some((peer, Envelope { context, source: comm.rank().0, tag })))
}

/// Parses source and tag of a receive or probe. Returns None for `MPI_PROC_NULL`.
///
/// # Errors
/// `Rank` or `Tag`, naming the argument.
#[inline(always)]
pub fn pattern(comm: &Communicator, source: i32, tag: i32) -> Result<Option<Pattern>> {
    if tag < 0 && tag != ANY_TAG {
        return Err(wrong_tag(tag, true));
    }
    let context = comm.context().plane(Plane::PointToPoint);
    let tag = (tag != ANY_TAG).then_some(tag);
    Ok(match comm.source(source)? {
        Partner::ProcNull => None,
        Partner::Any => Some(Pattern { context, source: None, tag }),
        Partner::Process(_) => Some(Pattern { context, source: Some(source as u32), tag }),
    })
}

/// Parses the arguments of a receive. Returns None for `MPI_PROC_NULL`.
///
/// # Errors
/// `Rank` or `Tag`, naming the argument.
#[inline(always)]
pub fn receive_spec(
    messenger: &Messenger,
    comm: &Communicator,
    message: Typed<'_>,
    source: i32,
    tag: i32,
) -> Result<Option<ReceiveSpec>> {
    let pattern = pattern(comm, source, tag)?;
    Ok(pattern.map(|pattern| receive_spec_of(messenger, comm, message, pattern)))
}

/// Describes a receive whose source and tag are parsed.
#[inline(always)]
pub fn receive_spec_of(
    messenger: &Messenger,
    comm: &Communicator,
    message: Typed<'_>,
    pattern: Pattern,
) -> ReceiveSpec {
    let check = check_of(messenger, message.datatype);
    let from = pattern.source.and_then(|source| comm.peers().get(Rank(source))).map(|world| Peer(world.0));
    ReceiveSpec { buffer: message.buffer.clone(), pattern, from, check }
}

fn check_of(messenger: &Messenger, datatype: &Datatype) -> Check {
    if messenger.config.diagnosis.check_types { Check::Type(datatype.clone()) } else { Check::Nothing }
}

/// Performs MPI_Send, MPI_Ssend or MPI_Rsend. `eager` is the outcome of an earlier attempt to send at once.
///
/// # Errors
/// The errors of the send operation.
#[inline]
pub fn send(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    spec: Option<SendSpec>,
    eager: Eager,
) -> Result<()> {
    let Some(spec) = spec else { return Ok(()) };
    let id = start_send(held, messenger, comm, Some(spec), eager);
    if id == RequestId::DONE {
        return Ok(());
    }
    completion::wait(held, messenger, id, "").result.map(|_| ())
}

/// Performs a standard send of contiguous memory, if a copy into the transport suffices. If it does not,
/// nothing was sent.
#[inline(never)]
pub fn send_run(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    run: ByteRun,
    (peer, envelope): Destination,
) -> Eager {
    if messenger.config.diagnosis.check_types || held.lane() != comm.lane() || trace::is_on() {
        return Eager::Untried;
    }
    let sent = messenger.messages.borrow_mut(held).send_run(peer, envelope, run);
    if sent { Eager::Sent } else { Eager::Refused }
}

/// Starts MPI_Isend or a similar send. Returns its request, or [`RequestId::DONE`] if the message was sent at
/// once. `eager` is the outcome of an earlier attempt to send at once.
#[inline]
pub fn start_send(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    spec: Option<SendSpec>,
    eager: Eager,
) -> RequestId {
    let mut eager = eager;
    if let (Some(spec), Eager::Untried) = (&spec, eager)
        && held.lane() == comm.lane()
    {
        if messenger.messages.borrow_mut(held).send_now(spec) {
            if trace::is_on() {
                trace::sent(spec);
            }
            return RequestId::DONE;
        }
        eager = Eager::Refused;
    }
    start_send_later(held, messenger, comm, spec, eager)
}

/// Starts a send that needs a request.
fn start_send_later(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    spec: Option<SendSpec>,
    eager: Eager,
) -> RequestId {
    let context = comm.context().0;
    let near = spec.as_ref().and_then(|spec| lend(held, messenger, spec));
    inside(held, messenger, comm, |messages| {
        let Some(spec) = spec else { return messages.state.completed(Status::PROC_NULL, context) };
        let id = messages.state.insert(Request::new(Work::Other, context));
        begin_send(messages, id, spec, near, eager);
        id
    })
}

/// Starts a send for a request that exists. Its receiver may read the memory in `near`.
fn begin_send(
    messages: &mut PointToPoint<AllLinks>,
    id: RequestId,
    spec: SendSpec,
    near: Option<LentMessage>,
    eager: Eager,
) {
    if trace::is_on() {
        trace::sent(&spec);
    }
    if let Some(near) = near {
        messages.lend_near(id, near);
    }
    match eager {
        Eager::Untried => messages.start_send(id, spec),
        Eager::Refused | Eager::Sent => messages.start_refused(id, spec),
    }
}

/// Exposes the buffer of a send if the receiver is a process of this host and the buffer can be mapped.
/// Threads in lanes of their own do not expose buffers.
fn lend(held: &LaneGuard, messenger: &Messenger, spec: &SendSpec) -> Option<LentMessage> {
    // Processes of other jobs have larger numbers.
    let is_own = spec.peer.0 < messenger.job.header().world_size && spec.peer != messenger.rank;
    let is_near = is_own && messenger.job.local_rank(spec.peer.0).is_some();
    (is_near && held.lane().is_first())
        .then(|| spec.buffer.lend(&mut messenger.exposures.borrow_mut(held)))
        .flatten()
}

/// Calls `work` with the messages of the communicator's lane.
#[inline]
fn inside<R>(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    work: impl FnOnce(&mut PointToPoint<AllLinks>) -> R,
) -> R {
    engage(comm.lane());
    messenger.in_lane(held, comm.lane(), |held| work(&mut messenger.messages.borrow_mut(held)))
}

/// Performs MPI_Recv. Returns the outcome, as receives report a status even after an error.
#[inline]
pub fn receive(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    spec: Option<ReceiveSpec>,
) -> Finished {
    if let Some(spec) = &spec
        && held.lane() == comm.lane()
        && let Some(finished) = receive_soon(held, messenger, spec)
    {
        return finished;
    }
    let id = start_receive(held, messenger, comm, spec);
    completion::wait(held, messenger, id, "")
}

/// Performs a blocking receive whose message arrives within a few polls, which is usual for short messages
/// between running processes. Returns None if it does not arrive.
#[inline]
fn receive_soon(held: &mut LaneGuard, messenger: &Messenger, spec: &ReceiveSpec) -> Option<Finished> {
    if held.lane().is_first() && !messenger.activities.borrow(held).is_empty() {
        return None;
    }
    let finished = look_for(held, messenger, spec, messenger.spin(), || true);
    if finished.is_some() {
        return finished;
    }
    let counterpart = messenger.counterpart(WorldRank(spec.from?.0))?;
    let looks = messenger.partnership.borrow_mut(held).looks(&messenger.waiting.limits);
    let finished = look_for(held, messenger, spec, Spin::new(looks), || !counterpart.is_away());
    let mut partnership = messenger.partnership.borrow_mut(held);
    match &finished {
        Some(_) => partnership.helped(),
        None if looks > 0 && !counterpart.is_away() => partnership.was_in_vain(),
        None => {}
    }
    finished
}

/// Polls for the message of a blocking receive as long as `spin` continues and `while_so` returns true.
#[inline]
fn look_for(
    held: &mut LaneGuard,
    messenger: &Messenger,
    spec: &ReceiveSpec,
    mut spin: Spin,
    while_so: impl Fn() -> bool,
) -> Option<Finished> {
    let mut look = 0u32;
    while while_so() && spin.goes_on(&messenger.waiting.limits, clock::now_ns) {
        let mut messages = messenger.messages.borrow_mut(held);
        if !messages.may_receive_directly(spec) {
            return None;
        }
        if let Some(finished) = messages.receive_directly(spec) {
            return Some(finished);
        }
        drop(messages);
        held.relax();
        // A pause takes as long as several polls and would delay a message that is about to arrive.
        look += 1;
        if look.is_multiple_of(8) {
            std::hint::spin_loop();
        }
    }
    None
}

/// Starts a receive (MPI_Irecv) and returns its request.
#[inline]
pub fn start_receive(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    spec: Option<ReceiveSpec>,
) -> RequestId {
    let context = comm.context().0;
    inside(held, messenger, comm, |messages| {
        let Some(spec) = spec else { return messages.state.completed(Status::PROC_NULL, context) };
        messages.start_new_receive(spec, context)
    })
}

/// Starts MPI_Irecv into contiguous memory. Returns None if the receive needs the general path; then nothing
/// was started.
#[inline(never)]
pub fn start_receive_run(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    run: ByteRun,
    pattern: Pattern,
) -> Option<RequestId> {
    let lane = comm.lane();
    if messenger.config.diagnosis.check_types || held.lane() != lane {
        return None;
    }
    engage(lane);
    let spec = ReceiveSpec { buffer: run.into(), pattern, from: None, check: Check::Nothing };
    Some(messenger.messages.borrow_mut(held).start_new_receive(spec, comm.context().0))
}

/// Creates an inactive persistent request (MPI_Send_init, MPI_Recv_init). A `template` of None is
/// `MPI_PROC_NULL`.
pub fn persistent(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Arc<Communicator>,
    template: Option<Template>,
) -> RequestId {
    let keeps: Arc<dyn Any + Send + Sync> = Arc::<Communicator>::clone(comm);
    let request = Request {
        persistent: Some(Box::new(Persistent {
            active: false,
            template: template.unwrap_or(Template::Nothing),
            keeps: Some(keeps),
        })),
        ..Request::completed(Status::EMPTY, comm.context().0)
    };
    inside(held, messenger, comm, |messages| messages.state.insert(request))
}

/// Starts a persistent request (MPI_Start). The caller holds the first lane.
///
/// # Errors
/// `Request` if it is not persistent or already active.
#[inline]
pub fn start(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<()> {
    let is_here = id.lane() == Some(held.lane());
    if is_here && messenger.messages.borrow_mut(held).state.requests.fast_path(id, held) {
        return Ok(());
    }
    start_later(held, messenger, id)
}

/// Starts a persistent request that could not finish at once.
fn start_later(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<()> {
    let lane = id.lane().unwrap_or(Lane::FIRST);
    engage(lane);
    let operation =
        messenger.in_lane(held, lane, |held| messenger.messages.borrow_mut(held).state.requests.begin(id))?;
    if let Some(operation) = operation {
        let restarted = operation.restart(held, id);
        return messenger.messages.borrow_mut(held).state.requests.started(id, restarted);
    }
    start_message(held, messenger, id, lane)
}

/// Starts a persistent request that is marked active and is not a collective operation.
fn start_message(held: &LaneGuard, messenger: &Messenger, id: RequestId, lane: Lane) -> Result<()> {
    let template = messenger.in_lane(held, lane, |held| {
        let messages = messenger.messages.borrow(held);
        let persistent = messages.state.requests.get(id).and_then(|request| request.persistent.as_ref());
        persistent.expect("a persistent request has begun").template.clone()
    });
    if let Template::BufferedSend(spec, attached) = &template {
        send_buffered(held, messenger, lane, attached, spec.clone())?;
    }
    let near = if let Template::Send(spec) = &template { lend(held, messenger, spec) } else { None };
    messenger.in_lane(held, lane, |held| {
        let mut messages = messenger.messages.borrow_mut(held);
        match template {
            Template::Nothing => {
                if let Some(request) = messages.state.requests.get_mut(id) {
                    request.status = Status::PROC_NULL;
                }
                messages.state.requests.complete(id, None);
            }
            Template::Send(spec) => begin_send(&mut messages, id, spec, near, Eager::Untried),
            Template::Receive(spec) => messages.start_receive(id, spec),
            Template::Partitioned => messages.start_partitioned(id),
            Template::BufferedSend(..) | Template::Collective(_) => {
                messages.state.requests.complete(id, None)
            }
        }
    });
    Ok(())
}

/// Performs MPI_Bsend: copies the message into the attached buffer and sends the copy in the communicator's
/// lane. No call waits for it. The caller holds the first lane.
///
/// # Errors
/// `Buffer` if the message does not fit.
pub fn send_buffered(
    held: &LaneGuard,
    messenger: &Messenger,
    lane: Lane,
    attached: &Attached,
    spec: SendSpec,
) -> Result<()> {
    let copy = attached.take_in(held, messenger, &spec.buffer)?;
    if trace::is_on() {
        trace::sent(&spec);
    }
    let bytes = copy.bytes();
    engage(lane);
    let id = messenger.in_lane(held, lane, |held| {
        let mut messages = messenger.messages.borrow_mut(held);
        let id = messages.state.insert(Request { detached: true, ..Request::new(Work::Other, 0) });
        messages.start_send(id, SendSpec { buffer: copy, ..spec });
        id
    });
    attached.note(held, id, bytes);
    Ok(())
}

/// Starts MPI_Isendrecv or MPI_Isendrecv_replace. Returns one request for both halves, with the status of the
/// receive. The caller holds the first lane.
pub fn start_send_receive(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    send: Option<SendSpec>,
    receive: Option<ReceiveSpec>,
) -> RequestId {
    let receiving = start_receive(held, messenger, comm, receive);
    let sending = start_send(held, messenger, comm, send, Eager::Untried);
    let whole = messenger.messages.borrow_mut(held).state.insert(Request::new(Work::Other, comm.context().0));
    engage(Lane::FIRST);
    messenger.add_activity(held, Box::new(SendReceive { sending, receiving, whole }));
    whole
}

/// Progress handler for both halves of an MPI_Isendrecv.
#[derive(Debug)]
struct SendReceive {
    sending: RequestId,
    receiving: RequestId,
    whole: RequestId,
}

impl Activity for SendReceive {
    fn advance(
        mut self: Box<Self>,
        held: &LaneGuard,
        messenger: &Messenger,
        _: bool,
    ) -> Option<Box<dyn Activity>> {
        if self.go_on(held, messenger) { None } else { Some(self) }
    }
}

impl SendReceive {
    /// Returns true, and completes the request, if both halves are complete.
    fn go_on(&mut self, held: &LaneGuard, messenger: &Messenger) -> bool {
        let over = |id| completion::is_complete(held, messenger, id).unwrap_or(true);
        if !over(self.sending) || !over(self.receiving) {
            return false;
        }
        let sent = completion::finish(held, messenger, self.sending);
        let received = completion::finish(held, messenger, self.receiving);
        let mut messages = messenger.messages.borrow_mut(held);
        if let Some(request) = messages.state.requests.get_mut(self.whole) {
            request.status = received.status;
        }
        messages.state.requests.complete(self.whole, sent.result.and(received.result).err());
        true
    }
}

/// Performs MPI_Iprobe: returns the status of the message that a receive would get now. Makes progress.
///
/// # Errors
/// The same as of [`probe`], if the program has only called such functions for long.
pub fn probe_now(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    pattern: Option<Pattern>,
) -> Result<Option<Status>> {
    let Some(pattern) = pattern else { return Ok(Some(Status::PROC_NULL)) };
    engage(comm.lane());
    crate::progress::poll(held, messenger);
    inside(held, messenger, comm, |messages| {
        let found = messages.probe(pattern);
        messages.state.departures.polled(pattern, found.is_some())?;
        Ok(found)
    })
}

/// Performs MPI_Probe: waits for a message and returns its status.
///
/// # Errors
/// `Other` if all ranks that could send such a message have left.
pub fn probe(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    pattern: Option<Pattern>,
) -> Result<Status> {
    let Some(wanted) = pattern else { return Ok(Status::PROC_NULL) };
    let mut found = None;
    let what = || {
        let held = lanes::enter();
        needs::note(|| hang::need_of_message(&held, &wanted));
        format!("a probe {}", completion::describe(&held, &wanted))
    };
    engage(comm.lane());
    inside(held, messenger, comm, |messages| messages.state.departures.begin_probe(wanted));
    crate::progress::wait_until(held, messenger, &what, |held| {
        // The probe may be abandoned later, so a message that was found is kept.
        if found.is_none() {
            found = inside(held, messenger, comm, |messages| {
                let vain = messages.state.departures.take_vain_probe(wanted);
                messages.probe(wanted).map(Ok).or(vain.map(Err))
            });
        }
        found.is_some()
    });
    inside(held, messenger, comm, |messages| messages.state.departures.end_probe(wanted));
    found.unwrap_or(Ok(Status::EMPTY))
}

/// Performs MPI_Improbe: takes the message that a receive would get now. The caller holds the first lane.
///
/// # Errors
/// The same as of [`probe_now`].
pub fn match_now(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    pattern: Pattern,
) -> Result<Option<(Status, Arc<Matched>)>> {
    engage(comm.lane());
    crate::progress::poll(held, messenger);
    let found = inside(held, messenger, comm, |messages| {
        let found = messages.matched_probe(pattern);
        messages.state.departures.polled(pattern, found.is_some())?;
        Ok(found)
    })?;
    let (context, lane) = (comm.context().0, comm.lane());
    let matched = |(status, message)| {
        (status, Arc::new(Matched { context, lane, inner: FirstLaneCell::new(Some(message)) }))
    };
    Ok(found.map(matched))
}

/// Performs MPI_Mprobe: waits for a message and takes it. The caller holds the first lane.
///
/// # Errors
/// The same as of [`probe`].
pub fn match_message(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    pattern: Pattern,
) -> Result<(Status, Arc<Matched>)> {
    loop {
        probe(held, messenger, comm, Some(pattern))?;
        if let Some(found) = match_now(held, messenger, comm, pattern)? {
            return Ok(found);
        }
    }
}

/// Starts the receive of a matched message (MPI_Imrecv). The caller holds the first lane.
///
/// # Errors
/// `Request` if the message was received already.
pub fn start_receive_matched(
    held: &LaneGuard,
    messenger: &Messenger,
    message: &Matched,
    into: Typed<'_>,
) -> Result<RequestId> {
    let taken = message.inner.borrow_mut(held).take();
    let Some((envelope, inner)) = taken else {
        return Err(Error::new(ErrorClass::Request, "the matched message was received already"));
    };
    let check = check_of(messenger, into.datatype);
    let pattern =
        Pattern { context: envelope.context, source: Some(envelope.source), tag: Some(envelope.tag) };
    let spec = ReceiveSpec { buffer: into.buffer.clone(), pattern, from: None, check };
    engage(message.lane);
    Ok(messenger.in_lane(held, message.lane, |held| {
        let mut messages = messenger.messages.borrow_mut(held);
        let id = messages.state.insert(Request::new(Work::Other, message.context));
        messages.start_receive_message(id, spec, envelope, inner);
        id
    }))
}

/// Performs MPI_Cancel. Generalised requests are cancelled, and receives and sends that are not matched yet.
///
/// # Errors
/// `Request` for an unknown request and for an operation that cannot be cancelled; the error of the user's
/// callback.
pub fn cancel(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<()> {
    let refused = |what: &str| {
        let reason = format!("argument request is {what}, which cannot be cancelled");
        Error::new(ErrorClass::Request, reason)
    };
    if id == RequestId::DONE_UNCANCELLABLE {
        return Err(refused("a collective or one-sided operation"));
    }
    let generalised = messenger.in_lane(held, id.lane().unwrap_or(held.lane()), |held| {
        let mut messages = messenger.messages.borrow_mut(held);
        let request = messages.state.requests.user(id)?;
        let complete = request.complete;
        let template = request.persistent.as_ref().map(|persistent| &persistent.template);
        match template {
            Some(Template::Partitioned) => return Err(refused("a partitioned operation")),
            Some(Template::Collective(_)) => return Err(refused("a collective operation")),
            _ if !request.is_cancellable => {
                return Err(refused("an operation on a file, a window or a whole communicator"));
            }
            _ => (),
        }
        Ok(match &request.work {
            Work::Generalised(callbacks) => Some((Arc::clone(callbacks), complete)),
            _ => {
                messages.cancel(id);
                None
            }
        })
    })?;
    generalised.map_or(Ok(()), |(callbacks, complete)| callbacks.cancel(complete))
}

#[cold]
fn wrong_tag(tag: i32, receive: bool) -> Error {
    let allowed = if receive { "0 to MPI_TAG_UB or MPI_ANY_TAG" } else { "0 to MPI_TAG_UB" };
    Error::new(ErrorClass::Tag, format!("argument tag is {tag}; it must be {allowed}"))
}
