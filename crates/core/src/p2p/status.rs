//! Status and errors of receives.

use tutti_base::{Error, ErrorClass};

use crate::matching::Envelope;
use crate::request::Status;

pub(super) fn status_of(envelope: Envelope, bytes: u64) -> Status {
    Status { source: envelope.source as i32, tag: envelope.tag, bytes, cancelled: false }
}

#[cold]
pub(super) fn truncated(envelope: Envelope, bytes: u64, capacity: u64) -> Error {
    let Envelope { source, tag, .. } = envelope;
    Error::new(
        ErrorClass::Truncate,
        format!(
            "a message of {bytes} bytes from rank {source} with tag {tag} does not fit into a buffer of {capacity} bytes"
        ),
    )
}
