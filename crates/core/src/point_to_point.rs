//! What the MPI functions of point-to-point communication call (MPI-5 chapter 3).
//!
//! Ranks and tags are still the user's numbers here and become typed in [`send_spec`] and [`receive_spec`].
//! Callers hold the communicator's lane or the first one, unless a function says more.
//! Blocking is starting and waiting; a short standard send or a receive whose message is there never makes a
//! request visible to anybody else.

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
use crate::lanes::{self, FirstLaneCell, Lane, LaneGuard, engage};
use crate::matching::{Envelope, Pattern};
use crate::messenger::{Activity, AllLinks, Messenger};
use crate::p2p::{Check, Message, Mode, PointToPoint, ReceiveSpec, SendSpec};
use crate::request::{Persistent, Request, RequestId, Status, Template, Work};
use crate::special::ANY_TAG;
use crate::trace;

/// A buffer with the datatype it was made of: what a user passes.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'a> {
    /// The memory.
    pub buffer: &'a Buffer,
    /// Its datatype.
    pub datatype: &'a Datatype,
    /// Items.
    pub count: u64,
}

/// A message taken by a matched probe, until it is received.
#[derive(Debug)]
pub struct Matched {
    context: u32,
    lane: Lane,
    inner: FirstLaneCell<Option<(Envelope, Message)>>,
}

impl Matched {
    /// The context of the communicator that it came over.
    pub fn context(&self) -> u32 {
        self.context
    }
}

/// Parses the arguments of a send; `None` for `MPI_PROC_NULL`.
///
/// # Errors
/// `Rank` or `Tag`, naming the argument.
#[inline(always)]
pub fn send_spec(
    messenger: &Messenger,
    comm: &Communicator,
    message: Typed<'_>,
    destination: i32,
    tag: i32,
    mode: Mode,
) -> Result<Option<SendSpec>> {
    let Some((peer, envelope)) = destination_of(comm, destination, tag)? else { return Ok(None) };
    let signature =
        if messenger.config.diagnosis.check_types { signature(message.datatype, message.count) } else { 0 };
    Ok(Some(SendSpec { buffer: message.buffer.clone(), peer, envelope, mode, signature }))
}

/// Parses destination and tag of a send; `None` for `MPI_PROC_NULL`.
#[inline(always)]
fn destination_of(comm: &Communicator, destination: i32, tag: i32) -> Result<Option<(WorldRank, Envelope)>> {
    if tag < 0 {
        return Err(wrong_tag(tag, false));
    }
    let Partner::Process(peer) = comm.destination(destination)? else { return Ok(None) };
    let context = comm.context().plane(Plane::PointToPoint);
    Ok(Some((peer, Envelope { context, source: comm.rank().0, tag })))
}

/// Parses source and tag of a receive or probe; `None` for `MPI_PROC_NULL`.
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

/// Parses the arguments of a receive; `None` for `MPI_PROC_NULL`.
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
    let Some(pattern) = pattern(comm, source, tag)? else { return Ok(None) };
    let check = check_of(messenger, message.datatype);
    let from = pattern.source.and_then(|source| comm.peers().get(Rank(source))).map(|world| Peer(world.0));
    Ok(Some(ReceiveSpec { buffer: message.buffer.clone(), pattern, from, check }))
}

fn check_of(messenger: &Messenger, datatype: &Datatype) -> Check {
    if messenger.config.diagnosis.check_types { Check::Type(datatype.clone()) } else { Check::Nothing }
}

/// MPI_Send, MPI_Ssend, MPI_Rsend.
///
/// # Errors
/// As [`send_spec`].
#[inline]
pub fn send(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    spec: Option<SendSpec>,
) -> Result<()> {
    let Some(spec) = spec else { return Ok(()) };
    if held.lane() == comm.lane() && messenger.messages.borrow_mut(held).send_now(&spec) {
        if trace::is_on() {
            trace::sent(&spec);
        }
        return Ok(());
    }
    let id = start_send(held, messenger, comm, Some(spec));
    completion::wait(held, messenger, id, "").result.map(|_| ())
}

/// A standard send of one run of memory, if that takes no more than a copy into the transport: whether it is on its way.
///
/// # Errors
/// As [`send_spec`].
#[inline(never)]
pub fn send_run(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    run: ByteRun,
    destination: i32,
    tag: i32,
) -> Result<bool> {
    let Some((peer, envelope)) = destination_of(comm, destination, tag)? else { return Ok(false) };
    if messenger.config.diagnosis.check_types || held.lane() != comm.lane() || trace::is_on() {
        return Ok(false);
    }
    Ok(messenger.messages.borrow_mut(held).send_run(peer, envelope, run))
}

/// MPI_Isend and its like: a request that is already running, or [`RequestId::DONE`] for a message that is on its way.
#[inline]
pub fn start_send(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    spec: Option<SendSpec>,
) -> RequestId {
    if let Some(spec) = &spec
        && held.lane() == comm.lane()
        && messenger.messages.borrow_mut(held).send_now(spec)
    {
        if trace::is_on() {
            trace::sent(spec);
        }
        return RequestId::DONE;
    }
    start_send_later(held, messenger, comm, spec)
}

/// As [`start_send`], for what needs a request.
fn start_send_later(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    spec: Option<SendSpec>,
) -> RequestId {
    let context = comm.context().0;
    let near = spec.as_ref().and_then(|spec| lend(held, messenger, spec));
    inside(held, messenger, comm, |messages| {
        let Some(spec) = spec else { return messages.state.completed(Status::PROC_NULL, context) };
        let id = messages.state.insert(Request::new(Work::Other, context));
        begin_send(messages, id, spec, near);
        id
    })
}

/// Starts a send behind a request that exists; its receiver may read what is `near`.
fn begin_send(
    messages: &mut PointToPoint<AllLinks>,
    id: RequestId,
    spec: SendSpec,
    near: Option<LentMessage>,
) {
    if trace::is_on() {
        trace::sent(&spec);
    }
    if let Some(near) = near {
        messages.lend_near(id, near);
    }
    messages.start_send(id, spec);
}

/// Lends the buffer of a send to its receiver, where that is a process of the same host and the buffer is mapped, or is from
/// now on. Threads in lanes of their own do not lend.
fn lend(held: &LaneGuard, messenger: &Messenger, spec: &SendSpec) -> Option<LentMessage> {
    // Those of other jobs have numbers beyond.
    let is_own = spec.peer.0 < messenger.job.header().world_size && spec.peer != messenger.rank;
    let is_near = is_own && messenger.job.local_rank(spec.peer.0).is_some();
    (is_near && held.lane().is_first())
        .then(|| spec.buffer.lend(&mut messenger.exposures.borrow_mut(held)))
        .flatten()
}

/// Starts something with the messages of a communicator's lane.
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

/// MPI_Recv.
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

/// A blocking receive whose message arrives within a few looks: the usual case of a short message between
/// processes that run.
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

/// Looks for the message of a blocking receive as long as `spin` goes on, and `while_so`.
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
        // A pause takes as long as several looks, so it would delay what is about to arrive.
        look += 1;
        if look.is_multiple_of(8) {
            std::hint::spin_loop();
        }
    }
    None
}

/// MPI_Irecv.
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

/// MPI_Irecv into one run of memory: `None` where there is more to it.
///
/// # Errors
/// As [`receive_spec`].
#[inline(never)]
pub fn start_receive_run(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    run: ByteRun,
    source: i32,
    tag: i32,
) -> Result<Option<RequestId>> {
    let Some(pattern) = pattern(comm, source, tag)? else { return Ok(None) };
    let lane = comm.lane();
    if messenger.config.diagnosis.check_types || held.lane() != lane {
        return Ok(None);
    }
    engage(lane);
    let spec = ReceiveSpec { buffer: run.into(), pattern, from: None, check: Check::Nothing };
    Ok(Some(messenger.messages.borrow_mut(held).start_new_receive(spec, comm.context().0)))
}

/// MPI_Send_init and MPI_Recv_init: an inactive persistent request. `None` is `MPI_PROC_NULL`.
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

/// MPI_Start. For who holds the first lane.
///
/// # Errors
/// `Request` when it is not persistent or already active.
#[inline]
pub fn start(held: &LaneGuard, messenger: &Messenger, id: RequestId) -> Result<()> {
    let is_here = id.lane() == Some(held.lane());
    if is_here && messenger.messages.borrow_mut(held).state.requests.fast_path(id, held) {
        return Ok(());
    }
    start_later(held, messenger, id)
}

/// As [`start`], for what is not over at once.
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

/// Starts a persistent request that has begun and is no collective operation.
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
            Template::Send(spec) => begin_send(&mut messages, id, spec, near),
            Template::Receive(spec) => messages.start_receive(id, spec),
            Template::Partitioned => messages.start_partitioned(id),
            Template::BufferedSend(..) | Template::Collective(_) => {
                messages.state.requests.complete(id, None)
            }
        }
    });
    Ok(())
}

/// MPI_Bsend: copies the message into the attached buffer, from where it is sent, in the communicator's lane. Nobody waits
/// for it. For who holds the first lane.
///
/// # Errors
/// `Buffer` when it does not fit.
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

/// MPI_Isendrecv and MPI_Isendrecv_replace: one request for both halves, with the status of the receive. For who holds the
/// first lane.
pub fn start_send_receive(
    held: &LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    send: Option<SendSpec>,
    receive: Option<ReceiveSpec>,
) -> RequestId {
    let receiving = start_receive(held, messenger, comm, receive);
    let sending = start_send(held, messenger, comm, send);
    let whole = messenger.messages.borrow_mut(held).state.insert(Request::new(Work::Other, comm.context().0));
    engage(Lane::FIRST);
    messenger.add_activity(held, Box::new(SendReceive { sending, receiving, whole }));
    whole
}

/// Both halves of an MPI_Isendrecv.
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
    /// Whether it is over.
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

/// MPI_Iprobe: what a receive would get now. Moves messages forward.
///
/// # Errors
/// As [`probe`], if the program has called nothing else for long.
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

/// MPI_Probe.
///
/// # Errors
/// `Other` when all ranks that could send such a message have left.
pub fn probe(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Communicator,
    pattern: Option<Pattern>,
) -> Result<Status> {
    let Some(wanted) = pattern else { return Ok(Status::PROC_NULL) };
    let mut found = None;
    let what = || format!("a probe {}", completion::describe(&lanes::enter(), &wanted));
    engage(comm.lane());
    inside(held, messenger, comm, |messages| messages.state.departures.begin_probe(wanted));
    crate::progress::wait_until(held, messenger, &what, |held| {
        // A probe is given up once: what was found stays.
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

/// MPI_Improbe: takes the message that a receive would get now. For who holds the first lane.
///
/// # Errors
/// As [`probe_now`].
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

/// MPI_Mprobe. For who holds the first lane.
///
/// # Errors
/// As [`probe`].
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

/// MPI_Imrecv: receives a matched message. For who holds the first lane.
///
/// # Errors
/// `Request` when the message was received already.
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

/// MPI_Cancel. Receives and sends that are not matched yet and generalised requests are cancelled.
///
/// # Errors
/// `Request` for an unknown one and for an operation that is neither; what the user's callback returned.
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
