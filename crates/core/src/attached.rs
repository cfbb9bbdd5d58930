//! Buffers attached for buffered sends (MPI-5 section 3.6) to the process, a communicator or a session.
//! Their use is in [`crate::buffered`].

use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};

use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::request_id::RequestId;

/// Space that a message needs beyond its data, in bytes. The constant `MPI_BSEND_OVERHEAD` is 512 in the
/// standard ABI, and less in others: 96 in MPICH's ABI, 128 in Open MPI's.
pub const OVERHEAD_BYTES: u64 = 96;

/// A buffer that a program has attached.
#[derive(Debug)]
pub struct Attached {
    /// Address of the buffer in the program's memory; the library never accesses it.
    pub(crate) address: usize,
    /// Size in bytes; `None` for `MPI_BUFFER_AUTOMATIC`.
    pub(crate) limit: Option<u64>,
    /// Sends that are not complete, each with the bytes of its message.
    pub(crate) pending: FirstLaneCell<Vec<(RequestId, u64)>>,
}

/// Object to which at most one buffer can be attached.
#[derive(Debug, Default)]
pub struct AttachmentPlace(pub(crate) FirstLaneCell<Option<Arc<Attached>>>);

/// Buffer of the process, for MPI_Buffer_attach.
pub static OF_PROCESS: AttachmentPlace = AttachmentPlace(FirstLaneCell::new(None));

impl AttachmentPlace {
    /// Makes a place without a buffer.
    pub const fn new() -> AttachmentPlace {
        AttachmentPlace(FirstLaneCell::new(None))
    }

    /// Attaches `bytes` of memory at `address`; `None` stands for `MPI_BUFFER_AUTOMATIC`.
    ///
    /// # Errors
    /// Returns `Buffer` if a buffer is attached already.
    pub fn attach(&self, held: &LaneGuard, address: usize, bytes: Option<u64>) -> Result<()> {
        let mut place = self.0.borrow_mut(held);
        if place.is_some() {
            return Err(Error::new(ErrorClass::Buffer, "a buffer is attached already; detach it first"));
        }
        *place = Some(Arc::new(Attached { address, limit: bytes, pending: FirstLaneCell::default() }));
        Ok(())
    }

    /// Returns the attached buffer, if any.
    pub fn current(&self, held: &LaneGuard) -> Option<Arc<Attached>> {
        self.0.borrow(held).clone()
    }
}

impl Attached {
    /// Records a send whose message occupies the buffer until it is complete.
    pub fn note(&self, held: &LaneGuard, sending: RequestId, bytes: u64) {
        self.pending.borrow_mut(held).push((sending, bytes));
    }
}
