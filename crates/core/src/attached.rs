//! Buffers that are attached for buffered sends (MPI-5 section 3.6), and to what. How they are used:
//! [`crate::buffered`].

use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};

use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::request_id::RequestId;

/// What a message costs beyond its bytes. The constant `MPI_BSEND_OVERHEAD` is 512 in the standard ABI, and less in others: programs
/// of MPICH's ABI give 96 bytes, of Open MPI's 128.
pub const OVERHEAD_BYTES: u64 = 96;

/// A buffer that is attached.
#[derive(Debug)]
pub struct Attached {
    pub(crate) address: usize,
    pub(crate) limit: Option<u64>,
    pub(crate) pending: FirstLaneCell<Vec<(RequestId, u64)>>,
}

/// Where a buffer may be attached: one at a time.
#[derive(Debug, Default)]
pub struct AttachmentPlace(pub(crate) FirstLaneCell<Option<Arc<Attached>>>);

/// The place of the process, for MPI_Buffer_attach.
pub static OF_PROCESS: AttachmentPlace = AttachmentPlace(FirstLaneCell::new(None));

impl AttachmentPlace {
    /// Nothing is attached.
    pub const fn new() -> AttachmentPlace {
        AttachmentPlace(FirstLaneCell::new(None))
    }

    /// Attaches memory at `address` of `bytes`; `None` for `MPI_BUFFER_AUTOMATIC`.
    ///
    /// # Errors
    /// `Buffer` when something is attached already.
    pub fn attach(&self, held: &LaneGuard, address: usize, bytes: Option<u64>) -> Result<()> {
        let mut place = self.0.borrow_mut(held);
        if place.is_some() {
            return Err(Error::new(ErrorClass::Buffer, "a buffer is attached already; detach it first"));
        }
        *place = Some(Arc::new(Attached { address, limit: bytes, pending: FirstLaneCell::default() }));
        Ok(())
    }

    /// What is attached here.
    pub fn current(&self, held: &LaneGuard) -> Option<Arc<Attached>> {
        self.0.borrow(held).clone()
    }
}

impl Attached {
    /// Notes the send that empties the buffer of a message.
    pub fn note(&self, held: &LaneGuard, sending: RequestId, bytes: u64) {
        self.pending.borrow_mut(held).push((sending, bytes));
    }
}
