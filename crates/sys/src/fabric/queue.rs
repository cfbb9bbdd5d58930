//! Completion queues and event queues, and the descriptors to sleep on.

use std::ffi::c_void;
use std::os::fd::RawFd;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use super::info::Info;
use super::memory::{Domain, Fabric, close};
use super::raw::{
    self, CompletionEntry, CompletionError, CompletionQueueOps, ConnectionEvent, DomainOps, EventError,
    EventQueueOps, FabricOps, Fid, FidCq, FidEq, OperationContext, call,
};
use super::{Result, checked, failed};

/// Maximum length of the private data in a connection event, in bytes.
const PRIVATE_BYTES: usize = 256;

/// Report of a finished operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Context that the operation was posted with; null if there was none.
    pub context: *mut OperationContext,
    /// Number of bytes received.
    pub bytes: usize,
    /// True for a receive, false for a send or an access to remote memory.
    pub received: bool,
}

/// Report of a failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionFailure {
    /// Context of the operation that failed.
    pub context: *mut OperationContext,
    /// Error number of the failure.
    pub code: i32,
    /// True if the operation is a receive.
    pub received: bool,
}

/// Means by which a queue reports that it has entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// A descriptor for sleeping until an entry arrives.
    Descriptor,
    /// Polling only, without a descriptor.
    None,
}

impl Wakeup {
    fn raw(self) -> i32 {
        match self {
            Wakeup::Descriptor => raw::FI_WAIT_FD,
            Wakeup::None => raw::FI_WAIT_NONE,
        }
    }
}

/// Reads the descriptor of a queue.
///
/// # Safety
/// `fid` is an open queue.
unsafe fn descriptor(fid: *mut Fid, provider: &str) -> Result<RawFd> {
    let mut descriptor: RawFd = -1;
    // SAFETY: the object is open; FI_GETWAIT of a queue opened with FI_WAIT_FD writes an int.
    let code = unsafe {
        call!((*fid).ops, raw::FidOps, control(fid, raw::FI_GETWAIT, (&raw mut descriptor).cast::<c_void>()))
    };
    checked(provider, "FI_GETWAIT", code).map(|_| descriptor)
}

/// Queue that reports finished operations.
#[derive(Debug)]
pub struct CompletionQueue {
    raw: NonNull<FidCq>,
    read: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize,
    descriptor: Option<RawFd>,
    domain: Rc<Domain>,
}

impl CompletionQueue {
    /// Creates a queue with room for `entries`.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn open(domain: &Rc<Domain>, entries: usize, wakeup: Wakeup) -> Result<Rc<CompletionQueue>> {
        let mut attributes = raw::CompletionQueueAttributes {
            size: entries,
            flags: 0,
            format: raw::FI_CQ_FORMAT_MSG,
            wait_obj: wakeup.raw(),
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: null_mut(),
        };
        let provider = domain.provider();
        let mut raw = null_mut();
        // SAFETY: the domain is open, the attributes are whole.
        let code = unsafe {
            call!(
                (*domain.raw()).ops,
                DomainOps,
                cq_open(domain.raw(), &mut attributes, &mut raw, null_mut())
            )
        };
        checked(provider, "fi_cq_open", code)?;
        let raw = NonNull::new(raw).ok_or_else(|| failed(provider, "fi_cq_open", libc::ENOMEM))?;
        // SAFETY: an open queue has its table.
        let read = unsafe { (*raw.as_ref().ops).read };
        let mut queue = CompletionQueue {
            raw,
            read: read.ok_or_else(|| failed(provider, "fi_cq_read", libc::ENOSYS))?,
            descriptor: None,
            domain: domain.clone(),
        };
        if wakeup == Wakeup::Descriptor {
            // SAFETY: the queue is open, and was opened with a descriptor.
            queue.descriptor = Some(unsafe { descriptor(queue.fid(), provider)? });
        }
        Ok(Rc::new(queue))
    }

    /// Makes progress on operations and takes up to `completions.len()` finished ones. Returns their
    /// number. A failed operation is passed to `failure`.
    ///
    /// # Errors
    /// The provider's error of the queue itself.
    #[inline]
    pub fn read(
        &self,
        completions: &mut [Completion],
        mut failure: impl FnMut(CompletionFailure),
    ) -> Result<usize> {
        const AT_ONCE: usize = 16;
        let mut entries = [CompletionEntry { op_context: null_mut(), flags: 0, len: 0 }; AT_ONCE];
        let wanted = completions.len().min(AT_ONCE);
        // SAFETY: the queue is open and has this format of entries; there is room for as many as wanted.
        let count = unsafe { (self.read)(self.raw.as_ptr(), entries.as_mut_ptr().cast(), wanted) };
        if count == -(libc::EAGAIN as isize) {
            return Ok(0);
        }
        if count < 0 {
            return self.read_failure(count, &mut failure);
        }
        let count = (count as usize).min(wanted);
        for (entry, completion) in entries[..count].iter().zip(completions) {
            *completion = Completion {
                context: entry.op_context.cast(),
                bytes: entry.len,
                received: entry.flags & raw::FI_RECV != 0,
            };
        }
        Ok(count)
    }

    #[cold]
    fn read_failure(&self, count: isize, failure: &mut dyn FnMut(CompletionFailure)) -> Result<usize> {
        if count != -raw::FI_EAVAIL {
            return Err(failed(self.domain.provider(), "fi_cq_read", count as i32));
        }
        // SAFETY: all-zero bytes are a valid value of this plain structure.
        let mut entry: CompletionError = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open, the entry valid for the call.
        let got = unsafe {
            let cq = self.raw.as_ptr();
            call!((*cq).ops, CompletionQueueOps, readerr(cq, &mut entry, 0))
        };
        if got == Some(1) {
            failure(CompletionFailure {
                context: entry.op_context.cast(),
                code: entry.err,
                received: entry.flags & raw::FI_RECV != 0,
            });
        }
        Ok(0)
    }

    /// Returns the descriptor that becomes readable when there is something to do, if the queue has one.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }

    /// Returns true if the caller may sleep on the descriptor now; otherwise the queue must be read first.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn may_wait(&self) -> Result<bool> {
        self.domain.fabric().may_wait(&mut [self.fid()])
    }

    pub(super) fn fid(&self) -> *mut Fid {
        self.raw.cast().as_ptr()
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: open until here; endpoints bound to it held it, and are gone.
        unsafe { close(self.fid()) };
    }
}

/// Change in the state of a connection.
#[derive(Debug)]
pub enum ConnectionChange {
    /// A peer requests a connection.
    Requested {
        /// Description for a new endpoint that accepts the request, or for its refusal.
        request: Info,
        /// Private data that the peer sent with the request.
        data: Vec<u8>,
    },
    /// The connection of this endpoint is established.
    Connected {
        /// Identity of the endpoint ([`super::Endpoint::identity`]).
        endpoint: usize,
        /// Private data that the accepting side sent.
        data: Vec<u8>,
    },
    /// The other side has closed the connection, or it broke.
    Closed {
        /// Identity of the endpoint ([`super::Endpoint::identity`]).
        endpoint: usize,
    },
    /// The connection was not established.
    Refused {
        /// Identity of the endpoint ([`super::Endpoint::identity`]).
        endpoint: usize,
        /// Error number of the refusal.
        code: i32,
        /// Private data that the other side sent with its refusal.
        data: Vec<u8>,
    },
}

/// Queue in which the connection manager reports changes.
#[derive(Debug)]
pub struct EventQueue {
    raw: NonNull<FidEq>,
    descriptor: Option<RawFd>,
    fabric: Rc<Fabric>,
}

/// Buffer for a connection event and its private data.
#[repr(C)]
struct EventRoom {
    event: ConnectionEvent,
    data: [u8; PRIVATE_BYTES],
}

impl EventQueue {
    /// Creates an empty event queue.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn open(fabric: &Rc<Fabric>, wakeup: Wakeup) -> Result<Rc<EventQueue>> {
        let mut attributes = raw::EventQueueAttributes {
            size: 0,
            flags: 0,
            wait_obj: wakeup.raw(),
            signaling_vector: 0,
            wait_set: null_mut(),
        };
        let mut raw = null_mut();
        // SAFETY: the fabric is open, the attributes are whole.
        let code = unsafe {
            call!(
                (*fabric.raw()).ops,
                FabricOps,
                eq_open(fabric.raw(), &mut attributes, &mut raw, null_mut())
            )
        };
        checked(fabric.provider(), "fi_eq_open", code)?;
        let raw = NonNull::new(raw).ok_or_else(|| failed(fabric.provider(), "fi_eq_open", libc::ENOMEM))?;
        let mut queue = EventQueue { raw, descriptor: None, fabric: fabric.clone() };
        if wakeup == Wakeup::Descriptor {
            // SAFETY: the queue is open, and was opened with a descriptor.
            queue.descriptor = Some(unsafe { descriptor(queue.fid(), fabric.provider())? });
        }
        Ok(Rc::new(queue))
    }

    /// Returns the next change, if there is one.
    ///
    /// # Errors
    /// Errors of the provider about the queue itself.
    pub fn read(&self) -> Result<Option<ConnectionChange>> {
        let mut room = EventRoom {
            event: ConnectionEvent { fid: null_mut(), info: null_mut() },
            data: [0; PRIVATE_BYTES],
        };
        let mut kind = 0;
        // SAFETY: the queue is open; the room is as large as stated.
        let bytes = unsafe {
            let eq = self.raw.as_ptr();
            let start = (&raw mut room).cast::<c_void>();
            call!((*eq).ops, EventQueueOps, read(eq, &mut kind, start, size_of::<EventRoom>(), 0))
        };
        let bytes = match bytes {
            Some(code) if code == -(libc::EAGAIN as isize) => return Ok(None),
            Some(code) if code == -raw::FI_EAVAIL => return self.read_failure(),
            other => checked(self.fabric.provider(), "fi_eq_read", other.map(|code| code as i32))?,
        };
        let private = (bytes as usize).saturating_sub(size_of::<ConnectionEvent>()).min(PRIVATE_BYTES);
        let data = room.data[..private].to_vec();
        let endpoint = room.event.fid as usize;
        Ok(match kind {
            raw::FI_CONNREQ => {
                // SAFETY: a request hands over its description.
                let request = unsafe { Info::owned(room.event.info)? };
                Some(ConnectionChange::Requested { request, data })
            }
            raw::FI_CONNECTED => Some(ConnectionChange::Connected { endpoint, data }),
            raw::FI_SHUTDOWN => Some(ConnectionChange::Closed { endpoint }),
            _ => None,
        })
    }

    #[cold]
    fn read_failure(&self) -> Result<Option<ConnectionChange>> {
        let mut data = [0u8; PRIVATE_BYTES];
        // SAFETY: all-zero bytes are a valid value of this plain structure.
        let mut entry: EventError = unsafe { std::mem::zeroed() };
        entry.err_data = data.as_mut_ptr().cast();
        entry.err_data_size = data.len();
        // SAFETY: the queue is open; the entry and its room are valid for the call.
        let got = unsafe {
            let eq = self.raw.as_ptr();
            call!((*eq).ops, EventQueueOps, readerr(eq, &mut entry, 0))
        };
        if got.is_none_or(|bytes| bytes <= 0) {
            return Ok(None);
        }
        let private = entry.err_data_size.min(data.len());
        let data = data[..private].to_vec();
        Ok(Some(ConnectionChange::Refused { endpoint: entry.fid as usize, code: entry.err, data }))
    }

    /// Returns the descriptor that becomes readable when there is something to do, if the queue has one.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }

    /// Returns true if the caller may sleep on the descriptor now; otherwise the queue must be read first.
    ///
    /// # Errors
    /// Errors of the provider.
    pub fn may_wait(&self) -> Result<bool> {
        self.fabric.may_wait(&mut [self.fid()])
    }

    pub(super) fn fid(&self) -> *mut Fid {
        self.raw.cast().as_ptr()
    }
}

impl Drop for EventQueue {
    fn drop(&mut self) {
        // SAFETY: open until here; endpoints bound to it held it, and are gone.
        unsafe { close(self.fid()) };
    }
}
