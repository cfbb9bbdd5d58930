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

/// The places of the open sessions. A communicator does not know the session it comes from: it uses the first of
/// these that has a buffer. Nothing can be lost by that, as copies do not live in attached memory.
pub static OF_SESSIONS: FirstLaneCell<Vec<Arc<AttachmentPlace>>> = FirstLaneCell::new(Vec::new());

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

/// The buffer that a buffered send on a communicator uses: its own, else that of the process, else a session's.
///
/// # Errors
/// `Buffer` when none is attached.
pub fn attached(held: &LaneGuard, of_communicator: &AttachmentPlace) -> Result<Arc<Attached>> {
    of_communicator
        .current(held)
        .or_else(|| OF_PROCESS.current(held))
        .or_else(|| OF_SESSIONS.borrow(held).iter().find_map(|place| place.current(held)))
        .ok_or_else(|| Error::new(ErrorClass::Buffer, "no buffer is attached; call MPI_Buffer_attach first"))
}
