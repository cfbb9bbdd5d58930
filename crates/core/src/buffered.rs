//! Buffered sends (MPI-5 section 3.6): a copy is made, and the attached buffer bounds how much is copied.
//!
//! A program attaches its buffer to a communicator, to a session or to the process; or it attaches
//! `MPI_BUFFER_AUTOMATIC` (MPI-4.1) and the library bounds nothing. The copies themselves live in the library's
//! own memory: the standard asks for the effect of the buffer, which is that bytes and overhead fit.

use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};

use crate::buffer::Buffer;
use crate::collective::Activity;
use crate::completion;
use crate::giant::{GiantCell, Held};
use crate::process::Process;
use crate::progress;
use crate::request::{Request, RequestId, Status, Work};

/// What a message costs beyond its bytes. The constant `MPI_BSEND_OVERHEAD` is 512 in the standard ABI, and less in others: programs
/// of MPICH's ABI give 96 bytes, of Open MPI's 128.
pub const OVERHEAD_BYTES: u64 = 96;

/// A buffer that is attached.
#[derive(Debug)]
pub struct Attached {
    address: usize,
    limit: Option<u64>,
    pending: GiantCell<Vec<(RequestId, u64)>>,
}

/// Where a buffer may be attached: one at a time.
#[derive(Debug, Default)]
pub struct Place(GiantCell<Option<Arc<Attached>>>);

/// The place of the process, for MPI_Buffer_attach.
pub static OF_PROCESS: Place = Place(GiantCell::new(None));

/// The places of the open sessions. A communicator does not know the session it comes from: it uses the first of
/// these that has a buffer. Nothing can be lost by that, as copies do not live in attached memory.
pub static OF_SESSIONS: GiantCell<Vec<Arc<Place>>> = GiantCell::new(Vec::new());

impl Place {
    /// Nothing is attached.
    pub const fn new() -> Place {
        Place(GiantCell::new(None))
    }

    /// Attaches memory at `address` of `bytes`; `None` for `MPI_BUFFER_AUTOMATIC`.
    ///
    /// # Errors
    /// `Buffer` when something is attached already.
    pub fn attach(&self, held: &Held, address: usize, bytes: Option<u64>) -> Result<()> {
        let mut place = self.0.borrow_mut(held);
        if place.is_some() {
            return Err(Error::new(ErrorClass::Buffer, "a buffer is attached already; detach it first"));
        }
        *place = Some(Arc::new(Attached { address, limit: bytes, pending: GiantCell::default() }));
        Ok(())
    }

    /// Waits until all messages in the buffer are sent, then detaches it: its address and size as attached
    /// (size `None`: automatic), or nothing if none was attached.
    pub fn detach(&self, held: &mut Held, process: &Process) -> Option<(usize, Option<u64>)> {
        self.flush(held, process);
        self.0.borrow_mut(held).take().map(|attached| (attached.address, attached.limit))
    }

    /// Waits until all messages in the buffer are sent.
    pub fn flush(&self, held: &mut Held, process: &Process) {
        let Some(attached) = self.current(held) else { return };
        progress::wait_until(held, process, &|| "a flush of the attached buffer".to_string(), |held| {
            attached.is_empty(held, process)
        });
    }

    /// A request that is over when all messages that are in the buffer now are sent.
    pub fn start_flush(&self, held: &Held, process: &Process) -> RequestId {
        let attached = self.current(held).filter(|attached| !attached.is_empty(held, process));
        let messages = &process.messages;
        let Some(attached) = attached else {
            return messages.borrow_mut(held).state.completed(Status::EMPTY, 0);
        };
        let request = messages.borrow_mut(held).state.insert(Request::new(Work::Other, 0));
        let pending = attached.pending.borrow(held).iter().map(|(id, _)| *id).collect();
        process.add_activity(held, Box::new(Flush { pending, request }));
        request
    }

    /// What is attached here.
    pub fn current(&self, held: &Held) -> Option<Arc<Attached>> {
        self.0.borrow(held).clone()
    }
}

impl Attached {
    /// Copies a message into the buffer.
    ///
    /// # Errors
    /// `Buffer` when it does not fit beside the messages that are not sent yet.
    pub fn take_in(&self, held: &Held, process: &Process, message: &Buffer) -> Result<Buffer> {
        progress::progress(held, process);
        self.is_empty(held, process);
        let used: u64 = self.pending.borrow(held).iter().map(|(_, bytes)| bytes + OVERHEAD_BYTES).sum();
        let wanted = message.bytes() + OVERHEAD_BYTES;
        if let Some(limit) = self.limit.filter(|limit| used + wanted > *limit) {
            return Err(Error::new(
                ErrorClass::Buffer,
                format!("the attached buffer of {limit} bytes holds {used} and cannot take {wanted} more"),
            ));
        }
        let mut copy = vec![0; message.bytes() as usize];
        message.pack(0, &mut copy);
        Ok(Buffer::owned(copy))
    }

    /// Notes the send that empties the buffer of a message.
    pub fn note(&self, held: &Held, sending: RequestId, bytes: u64) {
        self.pending.borrow_mut(held).push((sending, bytes));
    }

    fn is_empty(&self, held: &Held, process: &Process) -> bool {
        let mut pending = self.pending.borrow_mut(held);
        pending.retain(|(id, _)| completion::is_known(held, process, *id));
        pending.is_empty()
    }
}

/// A flush under way.
#[derive(Debug)]
struct Flush {
    pending: Vec<RequestId>,
    request: RequestId,
}

impl Activity for Flush {
    fn advance(mut self: Box<Self>, held: &Held, process: &Process, _: bool) -> Option<Box<dyn Activity>> {
        if self.go_on(held, process) { None } else { Some(self) }
    }
}

impl Flush {
    /// Whether it is over.
    fn go_on(&mut self, held: &Held, process: &Process) -> bool {
        self.pending.retain(|id| completion::is_known(held, process, *id));
        if self.pending.is_empty() {
            process.messages.borrow_mut(held).state.requests.complete(self.request, None);
        }
        self.pending.is_empty()
    }
}

/// The buffer that a buffered send on a communicator uses: its own, else that of the process, else a session's.
///
/// # Errors
/// `Buffer` when none is attached.
pub fn attached(held: &Held, of_communicator: &Place) -> Result<Arc<Attached>> {
    of_communicator
        .current(held)
        .or_else(|| OF_PROCESS.current(held))
        .or_else(|| OF_SESSIONS.borrow(held).iter().find_map(|place| place.current(held)))
        .ok_or_else(|| Error::new(ErrorClass::Buffer, "no buffer is attached; call MPI_Buffer_attach first"))
}
