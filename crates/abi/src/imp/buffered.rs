//! Buffers for buffered sends (MPI-5 section 3.6).

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::buffered::{AttachmentPlace, OF_PROCESS};

use crate::entry::Call;
use crate::generated::constants::MPI_BUFFER_AUTOMATIC;
use crate::handles::kind::{Comm, Request, Session};
use crate::handles::request::handle_of;
use crate::imp::memory::process;
use crate::scope::{Address, CountOut, HandleOut, In};

/// Attaches memory for buffered sends to the process (MPI_Buffer_attach).
pub fn attach(call: &mut Call, buffer: Address, size: i64) -> Result<()> {
    attach_at(call, &OF_PROCESS, buffer, size)
}

/// Detaches the process's memory for buffered sends (MPI_Buffer_detach).
pub fn detach(call: &mut Call, buffer_addr: Address, size: CountOut) -> Result<()> {
    detach_at(call, &OF_PROCESS, buffer_addr, size)
}

/// Waits until the process's buffered messages are sent (MPI_Buffer_flush).
pub fn flush(call: &mut Call) -> Result<()> {
    OF_PROCESS.flush(&mut call.held, process()?);
    Ok(())
}

/// Starts a flush of the process's buffered messages (MPI_Buffer_iflush).
pub fn iflush(call: &mut Call, request: HandleOut<Request>) -> Result<()> {
    iflush_at(call, &OF_PROCESS, request)
}

/// Attaches memory for buffered sends to a communicator (MPI_Comm_attach_buffer).
pub fn comm_attach(call: &mut Call, comm: In<Comm>, buffer: Address, size: i64) -> Result<()> {
    attach_at(call, &comm.get()?.buffer, buffer, size)
}

/// Detaches a communicator's memory for buffered sends (MPI_Comm_detach_buffer).
pub fn comm_detach(call: &mut Call, comm: In<Comm>, buffer_addr: Address, size: CountOut) -> Result<()> {
    detach_at(call, &comm.get()?.buffer, buffer_addr, size)
}

/// Waits until a communicator's buffered messages are sent (MPI_Comm_flush_buffer).
pub fn comm_flush(call: &mut Call, comm: In<Comm>) -> Result<()> {
    comm.get()?.buffer.flush(&mut call.held, process()?);
    Ok(())
}

/// Starts a flush of a communicator's buffered messages (MPI_Comm_iflush_buffer).
pub fn comm_iflush(call: &mut Call, comm: In<Comm>, request: HandleOut<Request>) -> Result<()> {
    iflush_at(call, &comm.get()?.buffer, request)
}

/// Attaches memory for buffered sends to a session (MPI_Session_attach_buffer).
pub fn session_attach(call: &mut Call, session: In<Session>, buffer: Address, size: i64) -> Result<()> {
    attach_at(call, &session.get()?.buffer, buffer, size)
}

/// Detaches a session's memory for buffered sends (MPI_Session_detach_buffer).
pub fn session_detach(
    call: &mut Call,
    session: In<Session>,
    buffer_addr: Address,
    size: CountOut,
) -> Result<()> {
    detach_at(call, &session.get()?.buffer, buffer_addr, size)
}

/// Waits until a session's buffered messages are sent (MPI_Session_flush_buffer).
pub fn session_flush(call: &mut Call, session: In<Session>) -> Result<()> {
    session.get()?.buffer.flush(&mut call.held, process()?);
    Ok(())
}

/// Starts a flush of a session's buffered messages (MPI_Session_iflush_buffer).
pub fn session_iflush(call: &mut Call, session: In<Session>, request: HandleOut<Request>) -> Result<()> {
    iflush_at(call, &session.get()?.buffer, request)
}

fn attach_at(call: &Call, place: &AttachmentPlace, buffer: Address, size: i64) -> Result<()> {
    if buffer.bits() == MPI_BUFFER_AUTOMATIC {
        return place.attach(&call.held, buffer.bits(), None);
    }
    let bytes = u64::try_from(size).map_err(|_| {
        Error::new(ErrorClass::Arg, format!("argument size is {size}; it must not be negative"))
    })?;
    if buffer.is_null() && bytes > 0 {
        return Err(Error::new(ErrorClass::Buffer, "argument buffer is a null pointer"));
    }
    place.attach(&call.held, buffer.bits(), Some(bytes))
}

fn detach_at(call: &mut Call, place: &AttachmentPlace, buffer_addr: Address, size: CountOut) -> Result<()> {
    let Some((address, bytes)) = place.detach(&mut call.held, process()?) else {
        return Err(Error::new(ErrorClass::Buffer, "no buffer is attached"));
    };
    buffer_addr.store(address, "buffer_addr")?;
    size.set(bytes.unwrap_or(0) as i64)
}

fn iflush_at(call: &mut Call, place: &AttachmentPlace, request: HandleOut<Request>) -> Result<()> {
    request.check_new()?;
    request.set(handle_of(place.start_flush(&call.held, process()?)))
}
