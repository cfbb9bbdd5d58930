//! Sends and receives that are ready to start.

use tutti_base::WorldRank;
use tutti_data::Datatype;
use tutti_transport::Peer;

use crate::buffer::Buffer;
use crate::matching::{Envelope, Pattern, Signature};

/// How a send completes (MPI-5 section 3.4). Buffered sends are standard sends of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When the buffer may be used again.
    Standard,
    /// When the receive has begun.
    Synchronous,
}

/// A send, ready to start.
#[derive(Clone, Debug)]
pub struct SendSpec {
    /// What.
    pub buffer: Buffer,
    /// To whom.
    pub peer: WorldRank,
    /// Context with plane, own rank, tag.
    pub envelope: Envelope,
    /// How it completes.
    pub mode: Mode,
    /// Datatype signature, 0 if it is not to be compared.
    pub signature: Signature,
}

/// A receive, ready to start.
#[derive(Clone, Debug)]
pub struct ReceiveSpec {
    /// Where to.
    pub buffer: Buffer,
    /// Context with plane, source, tag.
    pub pattern: Pattern,
    /// Where the source is, if one is named: it is looked at first.
    pub from: Option<Peer>,
    /// What is to be compared with the sender's signature.
    pub check: Check,
}

/// What a receive compares with the signature of its message.
#[derive(Clone, Debug)]
pub enum Check {
    /// Nothing.
    Nothing,
    /// The signature of this datatype.
    Type(Datatype),
    /// What this member takes a collective operation for; then the length must be equal too.
    Accord(Signature),
}
