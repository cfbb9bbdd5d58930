//! Specifications of sends and receives that are ready to start.

use tutti_base::WorldRank;
use tutti_data::Datatype;
use tutti_transport::Peer;

use crate::buffer::Buffer;
use crate::matching::{Envelope, Pattern, Signature};

/// Completion mode of a send (MPI-5 section 3.4). Buffered sends are standard sends of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Complete when the buffer may be used again.
    Standard,
    /// Complete when the receive has started.
    Synchronous,
}

/// Specification of a send.
#[derive(Clone, Debug)]
pub struct SendSpec {
    /// Buffer with the data.
    pub buffer: Buffer,
    /// World rank of the receiver.
    pub peer: WorldRank,
    /// Envelope: context with plane, own rank, tag.
    pub envelope: Envelope,
    /// Completion mode of the send.
    pub mode: Mode,
    /// Datatype signature; 0 if it is not to be compared.
    pub signature: Signature,
}

/// Specification of a receive.
#[derive(Clone, Debug)]
pub struct ReceiveSpec {
    /// Buffer for the message.
    pub buffer: Buffer,
    /// Pattern: context with plane, source, tag.
    pub pattern: Pattern,
    /// Peer of the source, if one is named. Waits poll it first.
    pub from: Option<Peer>,
    /// Check of the message's signature.
    pub check: Check,
}

/// Check that a receive performs on the signature of its message.
#[derive(Clone, Debug)]
pub enum Check {
    /// No comparison is made.
    Nothing,
    /// Comparison with the signature of this datatype.
    Type(Datatype),
    /// Comparison with this member's signature of a collective operation. The length must be equal too.
    Accord(Signature),
}
