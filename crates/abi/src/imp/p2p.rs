//! Point-to-point communication (MPI-5 chapter 3).

use std::ffi::c_int;
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::buffer::Buffer;
use tutti_core::communicator::Communicator;
use tutti_core::completion::{self, Finished};
use tutti_core::p2p::{self, SendSpec};
use tutti_core::point_to_point::{self, Eager, Matched, Typed};
use tutti_core::process::Process;
use tutti_core::request::{RequestId, Status, Template};
use tutti_core::session;

use crate::entry::{At, Call};
use crate::form::Form;
use crate::generated::constants::{MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL};
use crate::handles::kind::{Comm, Datatype, Message as MessageKind, Request};
use crate::handles::request::handle_of;
use crate::imp::memory::{self, Message, process};
use crate::imp::request::report;
use crate::scope::{Address, HandleOut, In, Out};
use crate::status::StatusOut;

/// The modes of sending (MPI-5 section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// MPI_Send.
    Standard,
    /// MPI_Bsend.
    Buffered,
    /// MPI_Ssend.
    Synchronous,
    /// MPI_Rsend: the promise that a receive is posted buys nothing here.
    Ready,
}

impl Mode {
    fn of_core(self) -> p2p::Mode {
        if self == Mode::Synchronous { p2p::Mode::Synchronous } else { p2p::Mode::Standard }
    }
}

/// Sends a message in one of four modes (MPI_Send, MPI_Bsend, MPI_Ssend, MPI_Rsend).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
#[inline(always)]
pub fn send(
    call: &mut Call,
    mode: Mode,
    buf: Address,
    count: i64,
    datatype: In<Datatype>,
    dest: c_int,
    tag: c_int,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let (process, comm) = (process()?, comm.get()?);
    if mode != Mode::Buffered {
        call.go_to_lane_of(comm);
    }
    if let Form::Nonblocking(request) = form {
        request.check_new()?;
    }
    let data = memory::data(buf, count, datatype)?;
    let to = point_to_point::destination(comm, dest, tag)?;
    let mut eager = Eager::Untried;
    if matches!(mode, Mode::Standard | Mode::Ready)
        && !matches!(form, Form::Persistent(..))
        && let (Some(run), Some(to)) = (data.run(), to)
    {
        eager = point_to_point::send_run(&call.held, process, comm, run, to);
        if eager == Eager::Sent {
            return match form {
                Form::Nonblocking(request) => request.set(handle_of(RequestId::DONE)),
                _ => Ok(()),
            };
        }
    }
    let message = data.message()?;
    let spec = to.map(|to| point_to_point::send_spec_to(process, message.typed(), to, mode.of_core()));
    match form {
        Form::Blocking(_) if mode == Mode::Buffered => send_buffered(call, process, comm, spec),
        Form::Blocking(_) => point_to_point::send(&mut call.held, process, comm, spec, eager),
        Form::Nonblocking(request) => {
            let id = if mode == Mode::Buffered {
                send_buffered(call, process, comm, spec)?;
                point_to_point::start_send(&call.held, process, comm, None, eager)
            } else {
                point_to_point::start_send(&call.held, process, comm, spec, eager)
            };
            request.set(handle_of(id))
        }
        Form::Persistent(_, request) => {
            request.check_new()?;
            let template = match (spec, mode) {
                (None, _) => None,
                (Some(spec), Mode::Buffered) => {
                    Some(Template::BufferedSend(spec, session::attached(&call.held, comm)?))
                }
                (Some(spec), _) => Some(Template::Send(spec)),
            };
            request.set(handle_of(point_to_point::persistent(&call.held, process, comm, template)))
        }
    }
}

fn send_buffered(call: &Call, process: &Process, comm: &Communicator, spec: Option<SendSpec>) -> Result<()> {
    let Some(spec) = spec else { return Ok(()) };
    let attached = session::attached(&call.held, comm)?;
    point_to_point::send_buffered(&call.held, process, comm.lane(), &attached, spec)
}

/// Receives a message and waits for it (MPI_Recv).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
#[inline(always)]
pub fn recv(
    call: &mut Call,
    buf: Address,
    count: i64,
    datatype: In<Datatype>,
    source: c_int,
    tag: c_int,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let (process, comm) = (process()?, comm.get()?);
    call.go_to_lane_of(comm);
    if let Form::Nonblocking(request) = form {
        request.check_new()?;
    }
    let data = memory::data(buf, count, datatype)?;
    let pattern = point_to_point::pattern(comm, source, tag)?;
    if let (Form::Nonblocking(request), Some(run), Some(pattern)) = (&form, data.run(), pattern)
        && let Some(id) = point_to_point::start_receive_run(&call.held, process, comm, run, pattern)
    {
        return request.set(handle_of(id));
    }
    let message = data.message()?;
    let spec =
        pattern.map(|pattern| point_to_point::receive_spec_of(process, comm, message.typed(), pattern));
    match form {
        Form::Blocking(status) => {
            finished(point_to_point::receive(&mut call.held, process, comm, spec), status)
        }
        Form::Nonblocking(request) => {
            request.set(handle_of(point_to_point::start_receive(&call.held, process, comm, spec)))
        }
        Form::Persistent(_, request) => {
            request.check_new()?;
            request.set(handle_of(point_to_point::persistent(
                &call.held,
                process,
                comm,
                spec.map(Template::Receive),
            )))
        }
    }
}

/// Sends one message and receives another at the same time (MPI_Sendrecv).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn sendrecv(
    call: &mut Call,
    sendbuf: Address,
    sendcount: i64,
    sendtype: In<Datatype>,
    dest: c_int,
    sendtag: c_int,
    recvbuf: Address,
    recvcount: i64,
    recvtype: In<Datatype>,
    source: c_int,
    recvtag: c_int,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let outgoing = memory::message(sendbuf, sendcount, sendtype)?;
    let incoming = memory::message(recvbuf, recvcount, recvtype)?;
    exchange(call, outgoing.typed(), (dest, sendtag), &incoming, (source, recvtag), comm.get()?, form)
}

/// Sends a buffer and receives another message into it (MPI_Sendrecv_replace).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn sendrecv_replace(
    call: &mut Call,
    buf: Address,
    count: i64,
    datatype: In<Datatype>,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let message = memory::message(buf, count, datatype)?;
    let copy = Buffer::owned(message.buffer.to_vec());
    let outgoing = Typed { buffer: &copy, ..message.typed() };
    exchange(call, outgoing, (dest, sendtag), &message, (source, recvtag), comm.get()?, form)
}

fn exchange(
    call: &mut Call,
    outgoing: Typed<'_>,
    (dest, sendtag): (c_int, c_int),
    incoming: &Message<'_>,
    (source, recvtag): (c_int, c_int),
    comm: &Communicator,
    form: Form,
) -> Result<()> {
    let process = process()?;
    let send = point_to_point::send_spec(process, comm, outgoing, dest, sendtag, p2p::Mode::Standard)?;
    let receive = point_to_point::receive_spec(process, comm, incoming.typed(), source, recvtag)?;
    if let Form::Nonblocking(request) = form {
        request.check_new()?;
        return request
            .set(handle_of(point_to_point::start_send_receive(&call.held, process, comm, send, receive)));
    }
    let Form::Blocking(status) = form else { return Err(Error::new(ErrorClass::Intern, "no such form")) };
    call.go_to_lane_of(comm);
    let receiving = point_to_point::start_receive(&call.held, process, comm, receive);
    let sent = point_to_point::send(&mut call.held, process, comm, send, Eager::Untried);
    let received = completion::wait(&mut call.held, process, receiving, "MPI_Sendrecv: ");
    finished(received, status).and(sent)
}

/// Waits for a message without receiving it (MPI_Probe).
pub fn probe(call: &mut Call, source: c_int, tag: c_int, comm: In<Comm>, status: StatusOut) -> Result<()> {
    let comm = comm.get()?;
    call.go_to_lane_of(comm);
    let pattern = point_to_point::pattern(comm, source, tag)?;
    status.set(report(point_to_point::probe(&mut call.held, process()?, comm, pattern)?));
    Ok(())
}

/// Tests for a message without receiving it (MPI_Iprobe).
pub fn iprobe(
    call: &mut Call,
    source: c_int,
    tag: c_int,
    comm: In<Comm>,
    flag: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let comm = comm.get()?;
    call.go_to_lane_of(comm);
    let pattern = point_to_point::pattern(comm, source, tag)?;
    let found = point_to_point::probe_now(&mut call.held, process()?, comm, pattern)?;
    if let Some(found) = found {
        status.set(report(found));
    }
    flag.set_flag(found.is_some())
}

/// Waits for a message and removes it from matching (MPI_Mprobe).
pub fn mprobe(
    call: &mut Call,
    source: c_int,
    tag: c_int,
    comm: In<Comm>,
    message: HandleOut<MessageKind>,
    status: StatusOut,
) -> Result<()> {
    message.check()?;
    let comm = comm.get()?;
    let Some(pattern) = point_to_point::pattern(comm, source, tag)? else {
        return no_process(message, status);
    };
    let (found, matched) = point_to_point::match_message(&mut call.held, process()?, comm, pattern)?;
    status.set(report(found));
    message.create(matched).map(drop)
}

/// Tests for a message and removes it from matching (MPI_Improbe).
pub fn improbe(
    call: &mut Call,
    source: c_int,
    tag: c_int,
    comm: In<Comm>,
    flag: Out<c_int>,
    message: HandleOut<MessageKind>,
    status: StatusOut,
) -> Result<()> {
    message.check()?;
    let comm = comm.get()?;
    let Some(pattern) = point_to_point::pattern(comm, source, tag)? else {
        flag.set_flag(true)?;
        return no_process(message, status);
    };
    let found = point_to_point::match_now(&mut call.held, process()?, comm, pattern)?;
    flag.set_flag(found.is_some())?;
    match found {
        None => message.set(MPI_MESSAGE_NULL),
        Some((found, matched)) => {
            status.set(report(found));
            message.create(matched).map(drop)
        }
    }
}

fn no_process(message: HandleOut<MessageKind>, status: StatusOut) -> Result<()> {
    status.set(report(Status::PROC_NULL));
    message.set(MPI_MESSAGE_NO_PROC)
}

/// Receives a message of a matched probe (MPI_Mrecv).
pub fn mrecv(
    call: &mut Call,
    buf: Address,
    count: i64,
    datatype: In<Datatype>,
    message: HandleOut<MessageKind>,
    status: StatusOut,
) -> Result<()> {
    let Some(id) = receive_matched(call, buf, count, datatype, message)? else {
        status.set(report(Status::PROC_NULL));
        return Ok(());
    };
    finished(completion::wait(&mut call.held, process()?, id, ""), status)
}

/// Starts to receive a message of a matched probe (MPI_Imrecv).
pub fn imrecv(
    call: &mut Call,
    buf: Address,
    count: i64,
    datatype: In<Datatype>,
    message: HandleOut<MessageKind>,
    request: HandleOut<Request>,
) -> Result<()> {
    request.check_new()?;
    let process = process()?;
    let id = match receive_matched(call, buf, count, datatype, message)? {
        Some(id) => id,
        None => point_to_point::start_receive(&call.held, process, &process.library.world, None),
    };
    request.set(handle_of(id))
}

/// Starts the receive of a matched message; `None` for MPI_MESSAGE_NO_PROC.
fn receive_matched(
    call: &mut Call,
    buf: Address,
    count: i64,
    datatype: In<Datatype>,
    message: HandleOut<MessageKind>,
) -> Result<Option<RequestId>> {
    if message.input()?.raw() == MPI_MESSAGE_NO_PROC {
        memory::message(buf, count, datatype)?;
        message.set_null()?;
        return Ok(None);
    }
    let matched: &Arc<Matched> = message.input()?.get()?;
    call.at = At::Context(matched.context());
    let into = memory::message(buf, count, datatype)?;
    let id = point_to_point::start_receive_matched(&call.held, process()?, matched, into.typed())?;
    message.remove()?;
    Ok(Some(id))
}

/// Gives the status of a receive, whether it failed or not.
#[inline]
fn finished(finished: Finished, status: StatusOut) -> Result<()> {
    status.set(report(finished.status));
    finished.result.map(drop)
}
