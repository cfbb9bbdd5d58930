//! Buffered sends (MPI-5 section 3.6): each message is copied, and the attached buffer limits the total
//! size of copies.
//!
//! A program attaches its buffer to a communicator, to a session or to the process. With
//! `MPI_BUFFER_AUTOMATIC` (MPI-4.1) the library sets no limit. The copies themselves are in the library's
//! own memory: the standard only requires that messages and overhead fit.

use tutti_base::{Error, ErrorClass, Result};

pub use crate::attached::{Attached, AttachmentPlace, OF_PROCESS, OVERHEAD_BYTES};
use crate::buffer::Buffer;
use crate::completion;
use crate::lanes::LaneGuard;
use crate::messenger::{Activity, Messenger};
use crate::progress;
use crate::request::{Request, RequestId, Status, Work};

impl AttachmentPlace {
    /// Waits until all messages in the buffer are sent, then detaches it. Returns its address and size as
    /// attached (size `None`: automatic), or `None` if none was attached.
    pub fn detach(&self, held: &mut LaneGuard, messenger: &Messenger) -> Option<(usize, Option<u64>)> {
        self.flush(held, messenger);
        self.0.borrow_mut(held).take().map(|attached| (attached.address, attached.limit))
    }

    /// Waits until all messages in the buffer are sent.
    pub fn flush(&self, held: &mut LaneGuard, messenger: &Messenger) {
        let Some(attached) = self.current(held) else { return };
        progress::wait_until(held, messenger, &|| "a flush of the attached buffer".to_string(), |held| {
            attached.is_empty(held, messenger)
        });
    }

    /// Starts a flush: the request is complete when all messages that are in the buffer now are sent.
    pub fn start_flush(&self, held: &LaneGuard, messenger: &Messenger) -> RequestId {
        let attached = self.current(held).filter(|attached| !attached.is_empty(held, messenger));
        let messages = &messenger.messages;
        let Some(attached) = attached else {
            return messages.borrow_mut(held).state.completed(Status::EMPTY, 0);
        };
        let request = messages.borrow_mut(held).state.insert(Request::new(Work::Other, 0));
        let pending = attached.pending.borrow(held).iter().map(|(id, _)| *id).collect();
        messenger.add_activity(held, Box::new(Flush { pending, request }));
        request
    }
}

impl Attached {
    /// Copies a message into the buffer.
    ///
    /// # Errors
    /// Returns `Buffer` if it does not fit beside the messages that are not sent yet.
    pub fn take_in(&self, held: &LaneGuard, messenger: &Messenger, message: &Buffer) -> Result<Buffer> {
        progress::progress(held, messenger);
        self.is_empty(held, messenger);
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

    /// Removes completed sends from the list, and returns true if none is left.
    fn is_empty(&self, held: &LaneGuard, messenger: &Messenger) -> bool {
        let mut pending = self.pending.borrow_mut(held);
        pending.retain(|(id, _)| completion::is_known(held, messenger, *id));
        pending.is_empty()
    }
}

/// An active flush of an attached buffer.
#[derive(Debug)]
struct Flush {
    /// Sends that were pending when the flush began.
    pending: Vec<RequestId>,
    /// Request of the flush.
    request: RequestId,
}

impl Activity for Flush {
    fn advance(
        mut self: Box<Self>,
        held: &LaneGuard,
        messenger: &Messenger,
        _: bool,
    ) -> Option<Box<dyn Activity>> {
        if self.go_on(held, messenger) { None } else { Some(self) }
    }
}

impl Flush {
    /// Removes completed sends, and returns true if none is left.
    fn go_on(&mut self, held: &LaneGuard, messenger: &Messenger) -> bool {
        self.pending.retain(|id| completion::is_known(held, messenger, *id));
        if self.pending.is_empty() {
            messenger.messages.borrow_mut(held).state.requests.complete(self.request, None);
        }
        self.pending.is_empty()
    }
}
