//! Handles of requests: the kind, and core's request id.

use tutti_core::request::RequestId;

use super::kind::{Kind, Request};
use crate::types::{MPI_Request, Raw};

const ID_BITS: u32 = 56;

/// Returns the handle of a request.
#[inline]
pub fn handle_of(id: RequestId) -> MPI_Request {
    Raw::from_bits((u64::from(Request::CODE) << ID_BITS | id.to_bits()) as usize)
}

/// Returns the request behind a handle, if it is one.
#[inline]
pub fn id_in(handle: MPI_Request) -> Option<RequestId> {
    let bits = handle.bits() as u64;
    (bits >> ID_BITS == u64::from(Request::CODE)).then(|| RequestId::from_bits(bits & ((1 << ID_BITS) - 1)))
}
