//! Packets between two processes: a header of 24 bytes, typed on both sides.
//!
//! | bits | with an envelope | clear to send, open | with one request | piece | credit |
//! |---|---|---|---|---|---|
//! | 0..8 of word 0 | kind | kind | kind | kind | kind |
//! | 16..32 of word 0 | signature | | | | |
//! | 32..64 of word 0 | context and plane | | | | |
//! | word 1 | source (low), tag (high) | receiver's request | | offset | |
//! | word 2 | sender's request, if it matters | sender's request | addressee's request | the same | bytes |
//!
//! Some packets differ:
//!
//! - Refused has an envelope, and the class of the error in place of the signature.
//! - In messages of a collective, the signature is that of the operation.
//! - Wants has its kind (`Wanted`) in bits 8..12 of word 0 and its number in word 2. Bit 12 of word 0 is set
//!   if any tag matches.
//!
//! The payload of an offer and an announcement is a [`RendezvousRequest`], that of Claim and Seen a
//! [`Claim`], that of Get and Put an [`Area`]. Headers that do not decode come from a broken or foreign peer
//! and are errors.

use tutti_base::{Error, ErrorClass, Result};
use tutti_transport::exposure::Record;
use tutti_transport::{Header, Loan};

use crate::matching::Envelope;
use crate::request_id::RequestId;

pub use crate::matching::Signature;

/// Packet in decoded form.
#[allow(missing_docs, reason = "the fields are what their types say")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Complete message. With `sync`, its sender waits for [`Packet::Done`].
    Eager { envelope: Envelope, signature: Signature, sync: Option<RequestId> },
    /// Complete message that was sent to several receivers. Memory for unexpected ones has its own bound.
    Multicast { envelope: Envelope, signature: Signature },
    /// Offer of a message that waits at its sender. The payload is a [`RendezvousRequest`].
    RendezvousRequest { envelope: Envelope, signature: Signature, sender: RequestId },
    /// Request of the receiver for the data of an offer.
    ClearToSend { sender: RequestId, receiver: RequestId },
    /// Next piece of a message.
    Data { receiver: RequestId },
    /// Report that the receiver needs nothing more of a message.
    Done { sender: RequestId },
    /// Request of the sender to cancel a message, which the receiver may not have matched yet.
    Cancel { sender: RequestId },
    /// Report that the receiver has dropped a message whose sender cancelled it.
    Cancelled { sender: RequestId },
    /// Number of bytes of the window that the receiver has consumed or grants.
    Credit { bytes: u64 },
    /// Announcement of a channel for partitioned messages. The payload is a [`RendezvousRequest`] with their
    /// length.
    Announce { envelope: Envelope, signature: Signature, sender: RequestId },
    /// Report that the receiver waits for a partitioned message.
    Open { sender: RequestId, receiver: RequestId },
    /// Part of a partitioned message, which begins at `offset` bytes of it.
    Piece { receiver: RequestId, offset: u64 },
    /// Report that the channel of a receiver no longer exists at the sender.
    Withdrawn { receiver: RequestId },
    /// Inquiry of a member that has waited long in the operation of the envelope, with its signature.
    Inquiry { envelope: Envelope, signature: Signature },
    /// Reply to an inquiry: the signature of the operation at the member `envelope.source`.
    Dissent { envelope: Envelope, signature: Signature },
    /// Inquiry whether the addressee, for which the sender waits, has left MPI.
    Presence,
    /// Report that the sender has left MPI and initiates no more messages.
    Absent,
    /// Report that the sender withholds messages of the envelope's context and source ([`crate::flow`]).
    Withheld { envelope: Envelope },
    /// Report that the sender no longer withholds messages of the envelope's context and source.
    Resumed { envelope: Envelope },
    /// Request of a sender for a larger window.
    Starved,
    /// Request of the receiver for the first withheld message of this context and source, and of this tag if
    /// there is one.
    Wants { context: u32, source: u32, tag: Option<i32>, by: Wanted },
    /// Reply with the first message that fits. The payload is a [`Claim`]. The message leaves when it is
    /// accepted.
    Claim { envelope: Envelope, signature: Signature, sender: RequestId },
    /// Acceptance of a claimed message by the receiver.
    Accepted { sender: RequestId },
    /// Refusal of a claimed message by the receiver, for now.
    Declined { sender: RequestId },
    /// Report about the message that a probe would find. The payload is a [`Claim`].
    Seen { envelope: Envelope },
    /// Revocation of such a report for messages of this context and source.
    Unseen { envelope: Envelope },
    /// Report that the member `envelope.source` has abandoned the collective operation with this tag, because
    /// of an error of this class.
    Refused { envelope: Envelope, class: u16 },
    /// Request to send the content of an exposed [`Area`] as the data of this receive.
    Get { receiver: RequestId },
    /// Request to fetch the data of this send and to store them in an exposed [`Area`].
    Put { sender: RequestId },
    /// Report that the area of this request does not exist.
    Missing { request: RequestId },
}

/// Payload of [`Packet::Get`] and [`Packet::Put`]: memory of the addressee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Address in the addressee's memory.
    pub address: u64,
    /// Length of the area in bytes.
    pub bytes: u64,
}

/// Payload of [`Packet::RendezvousRequest`]: the length of a message, and its location if the receiver or the
/// link can read it in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RendezvousRequest {
    /// Length of the message in bytes.
    pub bytes: u64,
    /// Address in the sender's memory; 0 if the message is not contiguous.
    pub address: u64,
    /// Exposure of the sender's memory to the link, if any.
    pub loan: Option<Loan>,
    /// Record of mapped memory, for a receiver on the same host. It is rare, and boxed as offers wait in
    /// queues.
    pub near: Option<Box<Record>>,
}

/// Payload of [`Packet::Claim`] and [`Packet::Seen`]: a withheld message, and the request that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Request that the message answers.
    pub by: Wanted,
    /// Length of the message in bytes.
    pub bytes: u64,
    /// Address in the sender's memory; 0 if the message is not contiguous.
    pub address: u64,
}

/// Kind and number of a receiver's request for a withheld message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Receive that is posted.
    Receive(RequestId),
    /// Probe with this number.
    Look(u64),
    /// Matched probe with this number.
    Take(u64),
}

const EAGER: u64 = 1;
const EAGER_SYNC: u64 = 2;
const OFFER: u64 = 3;
const CLEAR_TO_SEND: u64 = 4;
const DATA: u64 = 5;
const DONE: u64 = 6;
const CREDIT: u64 = 7;
const CANCEL: u64 = 8;
const CANCELLED: u64 = 9;
const ANNOUNCE: u64 = 0x20;
const OPEN: u64 = 0x21;
const PIECE: u64 = 0x22;
const WITHDRAWN: u64 = 0x23;
const REFUSED: u64 = 0x24;
const WITHHELD: u64 = 0x25;
const RESUMED: u64 = 0x26;
const STARVED: u64 = 0x27;
const WANTS: u64 = 0x28;
const CLAIM: u64 = 0x29;
const ACCEPTED: u64 = 0x2a;
const DECLINED: u64 = 0x2b;
const SEEN: u64 = 0x2c;
const UNSEEN: u64 = 0x2d;
const GET: u64 = 0x2f;
const PUT: u64 = 0x30;
const MISSING: u64 = 0x31;
const INQUIRY: u64 = 0x32;
const DISSENT: u64 = 0x33;
const MULTICAST: u64 = 0x34;
const PRESENCE: u64 = 0x35;
const ABSENT: u64 = 0x36;

impl Packet {
    /// Returns the header of this packet.
    #[inline]
    pub fn encode(self) -> Header {
        match self {
            Packet::Eager { envelope, signature, sync: None } => with_envelope(EAGER, envelope, signature, 0),
            Packet::Eager { envelope, signature, sync: Some(sender) } => {
                with_envelope(EAGER_SYNC, envelope, signature, sender.to_bits())
            }
            Packet::Multicast { envelope, signature } => with_envelope(MULTICAST, envelope, signature, 0),
            Packet::RendezvousRequest { envelope, signature, sender } => {
                with_envelope(OFFER, envelope, signature, sender.to_bits())
            }
            Packet::ClearToSend { sender, receiver } => {
                Header([CLEAR_TO_SEND, receiver.to_bits(), sender.to_bits()])
            }
            Packet::Data { receiver } => Header([DATA, 0, receiver.to_bits()]),
            Packet::Done { sender } => Header([DONE, 0, sender.to_bits()]),
            Packet::Cancel { sender } => Header([CANCEL, 0, sender.to_bits()]),
            Packet::Cancelled { sender } => Header([CANCELLED, 0, sender.to_bits()]),
            Packet::Credit { bytes } => Header([CREDIT, 0, bytes]),
            Packet::Announce { envelope, signature, sender } => {
                with_envelope(ANNOUNCE, envelope, signature, sender.to_bits())
            }
            Packet::Open { sender, receiver } => Header([OPEN, receiver.to_bits(), sender.to_bits()]),
            Packet::Piece { receiver, offset } => Header([PIECE, offset, receiver.to_bits()]),
            Packet::Withdrawn { receiver } => Header([WITHDRAWN, 0, receiver.to_bits()]),
            Packet::Refused { envelope, class } => with_envelope(REFUSED, envelope, class, 0),
            Packet::Get { receiver } => Header([GET, 0, receiver.to_bits()]),
            Packet::Put { sender } => Header([PUT, 0, sender.to_bits()]),
            Packet::Missing { request } => Header([MISSING, 0, request.to_bits()]),
            Packet::Inquiry { envelope, signature } => with_envelope(INQUIRY, envelope, signature, 0),
            Packet::Dissent { envelope, signature } => with_envelope(DISSENT, envelope, signature, 0),
            Packet::Withheld { envelope } => with_envelope(WITHHELD, envelope, 0, 0),
            Packet::Resumed { envelope } => with_envelope(RESUMED, envelope, 0, 0),
            Packet::Starved => Header([STARVED, 0, 0]),
            Packet::Presence => Header([PRESENCE, 0, 0]),
            Packet::Absent => Header([ABSENT, 0, 0]),
            Packet::Wants { context, source, tag, by } => {
                let (kind, number) = by.to_bits();
                let kind = WANTS | kind << 8 | u64::from(tag.is_none()) << 12;
                with_envelope(kind, Envelope { context, source, tag: tag.unwrap_or(0) }, 0, number)
            }
            Packet::Claim { envelope, signature, sender } => {
                with_envelope(CLAIM, envelope, signature, sender.to_bits())
            }
            Packet::Accepted { sender } => Header([ACCEPTED, 0, sender.to_bits()]),
            Packet::Declined { sender } => Header([DECLINED, 0, sender.to_bits()]),
            Packet::Seen { envelope } => with_envelope(SEEN, envelope, 0, 0),
            Packet::Unseen { envelope } => with_envelope(UNSEEN, envelope, 0, 0),
        }
    }

    /// Returns envelope and signature of a complete message without synchronous mode, which is the usual
    /// case. Returns None for other packets.
    #[inline]
    pub fn decode_eager(header: Header) -> Option<(Envelope, Signature)> {
        let [first, second, _] = header.0;
        (first & 0xff == EAGER).then(|| (envelope_in(first, second), (first >> 16) as u16))
    }

    /// Decodes the packet of a header.
    ///
    /// # Errors
    /// `Intern` for a kind that this version does not know.
    #[inline]
    pub fn decode(header: Header) -> Result<Packet> {
        let [first, second, third] = header.0;
        let envelope = envelope_in(first, second);
        let signature = (first >> 16) as u16;
        let request = RequestId::from_bits(third);
        match first & 0xff {
            EAGER => Ok(Packet::Eager { envelope, signature, sync: None }),
            EAGER_SYNC => Ok(Packet::Eager { envelope, signature, sync: Some(request) }),
            MULTICAST => Ok(Packet::Multicast { envelope, signature }),
            OFFER => Ok(Packet::RendezvousRequest { envelope, signature, sender: request }),
            CLEAR_TO_SEND => {
                Ok(Packet::ClearToSend { sender: request, receiver: RequestId::from_bits(second) })
            }
            DATA => Ok(Packet::Data { receiver: request }),
            DONE => Ok(Packet::Done { sender: request }),
            CANCEL => Ok(Packet::Cancel { sender: request }),
            CANCELLED => Ok(Packet::Cancelled { sender: request }),
            CREDIT => Ok(Packet::Credit { bytes: third }),
            ANNOUNCE => Ok(Packet::Announce { envelope, signature, sender: request }),
            OPEN => Ok(Packet::Open { sender: request, receiver: RequestId::from_bits(second) }),
            PIECE => Ok(Packet::Piece { receiver: request, offset: second }),
            WITHDRAWN => Ok(Packet::Withdrawn { receiver: request }),
            REFUSED => Ok(Packet::Refused { envelope, class: signature }),
            GET => Ok(Packet::Get { receiver: request }),
            PUT => Ok(Packet::Put { sender: request }),
            MISSING => Ok(Packet::Missing { request }),
            INQUIRY => Ok(Packet::Inquiry { envelope, signature }),
            DISSENT => Ok(Packet::Dissent { envelope, signature }),
            WITHHELD => Ok(Packet::Withheld { envelope }),
            RESUMED => Ok(Packet::Resumed { envelope }),
            STARVED => Ok(Packet::Starved),
            PRESENCE => Ok(Packet::Presence),
            ABSENT => Ok(Packet::Absent),
            WANTS => {
                let Envelope { context, source, tag } = envelope;
                let by = Wanted::from_bits(first >> 8 & 0xf, third)?;
                let tag = (first >> 12 & 1 == 0).then_some(tag);
                Ok(Packet::Wants { context, source, tag, by })
            }
            CLAIM => Ok(Packet::Claim { envelope, signature, sender: request }),
            ACCEPTED => Ok(Packet::Accepted { sender: request }),
            DECLINED => Ok(Packet::Declined { sender: request }),
            SEEN => Ok(Packet::Seen { envelope }),
            UNSEEN => Ok(Packet::Unseen { envelope }),
            kind => Err(Error::new(ErrorClass::Intern, format!("a packet of unknown kind {kind} arrived"))),
        }
    }
}

impl Area {
    /// Length of the payload in bytes.
    pub const WIRE_BYTES: usize = 16;

    /// Encodes the area as payload.
    pub fn encode(self) -> [u8; Area::WIRE_BYTES] {
        (u128::from(self.address) << 64 | u128::from(self.bytes)).to_le_bytes()
    }

    /// Decodes the payload of a packet.
    ///
    /// # Errors
    /// `Intern` if it has another length, or the area exceeds the address space.
    pub fn decode(payload: &[u8]) -> Result<Area> {
        let both = payload.try_into().map(u128::from_le_bytes);
        let area = both.map(|both| Area { address: (both >> 64) as u64, bytes: both as u64 });
        area.ok()
            .filter(|area| area.address.checked_add(area.bytes).is_some_and(|end| end <= i64::MAX as u64))
            .ok_or_else(|| Error::new(ErrorClass::Intern, "an area of memory arrived that is none"))
    }
}

impl RendezvousRequest {
    /// Returns the offer of a message that cannot be read in place.
    pub fn of_length(bytes: u64) -> RendezvousRequest {
        RendezvousRequest { bytes, address: 0, loan: None, near: None }
    }

    /// Length of the payload in words, without and with a record.
    const WORDS: usize = 6;
    const MOST_WORDS: usize = RendezvousRequest::WORDS + Record::WORDS;

    /// Returns the length of the payload in bytes.
    pub fn wire_bytes(&self) -> usize {
        8 * if self.near.is_some() { RendezvousRequest::MOST_WORDS } else { RendezvousRequest::WORDS }
    }

    /// Passes the encoded payload to `send`.
    pub fn encoded<R>(&self, send: impl FnOnce(&[u8]) -> R) -> R {
        let Loan { name, address, key, runs } = self.loan.unwrap_or(Loan::named(0));
        let mut words = [0; RendezvousRequest::MOST_WORDS];
        let (own, near) = words.split_at_mut(RendezvousRequest::WORDS);
        own.copy_from_slice(&[self.bytes, self.address, name, address, key, runs]);
        if let Some(record) = &self.near {
            near.copy_from_slice(&record.words());
        }
        let bytes = words.map(u64::to_le_bytes);
        send(&bytes.as_flattened()[..self.wire_bytes()])
    }

    /// Decodes the payload of a packet.
    ///
    /// # Errors
    /// `Intern` if it has another length or an invalid record.
    pub fn decode(payload: &[u8]) -> Result<RendezvousRequest> {
        let (words, rest) = payload.as_chunks::<8>();
        let wrong = || Error::new(ErrorClass::Intern, "an offer arrived that is none");
        let (own, near) = words.split_first_chunk::<{ RendezvousRequest::WORDS }>().ok_or_else(wrong)?;
        let near = match <&[[u8; 8]; Record::WORDS]>::try_from(near) {
            Ok(near) => {
                let record = Record::from_words(near.map(u64::from_le_bytes)).ok_or_else(wrong)?;
                Some(Box::new(record))
            }
            Err(_) if near.is_empty() => None,
            Err(_) => return Err(wrong()),
        };
        if !rest.is_empty() {
            return Err(wrong());
        }
        let [bytes, address, name, at, key, runs] = own.map(u64::from_le_bytes);
        let loan = (name != 0).then_some(Loan { name, address: at, key, runs });
        Ok(RendezvousRequest { bytes, address, loan, near })
    }
}

impl Wanted {
    /// Returns the kind and the number of the request.
    fn to_bits(self) -> (u64, u64) {
        match self {
            Wanted::Receive(id) => (0, id.to_bits()),
            Wanted::Look(number) => (1, number),
            Wanted::Take(number) => (2, number),
        }
    }

    fn from_bits(kind: u64, number: u64) -> Result<Wanted> {
        match kind {
            0 => Ok(Wanted::Receive(RequestId::from_bits(number))),
            1 => Ok(Wanted::Look(number)),
            2 => Ok(Wanted::Take(number)),
            _ => Err(Error::new(
                ErrorClass::Intern,
                format!("something of unknown kind {kind} wants a message"),
            )),
        }
    }
}

impl Claim {
    /// Length of the payload in bytes.
    pub const WIRE_BYTES: usize = 32;

    /// Encodes the claim as payload.
    pub fn encode(&self) -> [u8; Claim::WIRE_BYTES] {
        let (kind, number) = self.by.to_bits();
        let words = [kind, number, self.bytes, self.address].map(u64::to_le_bytes);
        let mut bytes = [0; Claim::WIRE_BYTES];
        bytes.copy_from_slice(words.as_flattened());
        bytes
    }

    /// Decodes the payload of a packet.
    ///
    /// # Errors
    /// `Intern` if it has another length, or the kind of the request is unknown.
    pub fn decode(payload: &[u8]) -> Result<Claim> {
        let (words, rest) = payload.as_chunks::<8>();
        let wrong = || Error::new(ErrorClass::Intern, "a claim arrived that is none");
        let words = <&[[u8; 8]; 4]>::try_from(words).ok().filter(|_| rest.is_empty()).ok_or_else(wrong)?;
        let [kind, number, bytes, address] = words.map(u64::from_le_bytes);
        Ok(Claim { by: Wanted::from_bits(kind, number)?, bytes, address })
    }
}

/// Returns the envelope in the first two words of a header.
#[inline]
fn envelope_in(first: u64, second: u64) -> Envelope {
    Envelope { context: (first >> 32) as u32, source: second as u32, tag: (second >> 32) as i32 }
}

/// Returns a header with an envelope.
#[inline]
fn with_envelope(kind: u64, envelope: Envelope, signature: Signature, request: u64) -> Header {
    let first = kind | u64::from(signature) << 16 | u64::from(envelope.context) << 32;
    let second = u64::from(envelope.source) | u64::from(envelope.tag as u32) << 32;
    Header([first, second, request])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(packet: Packet) {
        assert_eq!(Packet::decode(packet.encode()), Ok(packet));
    }

    /// A record of which no two numbers are the same.
    const RECORD: [u64; Record::WORDS] = [100, 40, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];

    #[test]
    fn packets_survive_the_wire() {
        let envelope = Envelope { context: u32::MAX, source: 123_456, tag: i32::MAX };
        let id = RequestId::from_bits(u64::MAX - 7);
        check(Packet::Eager { envelope, signature: 65535, sync: None });
        check(Packet::Eager { envelope, signature: 0, sync: Some(id) });
        check(Packet::Multicast { envelope, signature: 3 });
        check(Packet::RendezvousRequest { envelope, signature: 1, sender: id });
        check(Packet::ClearToSend { sender: id, receiver: RequestId::from_bits(9) });
        check(Packet::Data { receiver: id });
        check(Packet::Done { sender: id });
        check(Packet::Cancel { sender: id });
        check(Packet::Cancelled { sender: id });
        check(Packet::Credit { bytes: 1 << 40 });
        check(Packet::Announce { envelope, signature: 7, sender: id });
        check(Packet::Open { sender: id, receiver: RequestId::from_bits(9) });
        check(Packet::Piece { receiver: id, offset: u64::MAX });
        check(Packet::Withdrawn { receiver: id });
        check(Packet::Refused { envelope, class: 15 });
        check(Packet::Get { receiver: id });
        check(Packet::Put { sender: id });
        check(Packet::Missing { request: id });
        let area = Area { address: 0x7fff_0000_1234, bytes: 1 << 40 };
        assert_eq!(Area::decode(&area.encode()), Ok(area));
        check(Packet::Inquiry { envelope, signature: 65535 });
        check(Packet::Dissent { envelope, signature: 1 });
        check(Packet::Withheld { envelope });
        check(Packet::Resumed { envelope });
        check(Packet::Starved);
        check(Packet::Presence);
        check(Packet::Absent);
        for by in [Wanted::Receive(id), Wanted::Look(u64::MAX), Wanted::Take(1)] {
            for tag in [None, Some(0), Some(i32::MAX)] {
                check(Packet::Wants { context: u32::MAX, source: 123_456, tag, by });
            }
            let claim = Claim { by, bytes: 1 << 41, address: 0x7fff_0000_1234 };
            assert_eq!(Claim::decode(&claim.encode()), Ok(claim));
        }
        check(Packet::Claim { envelope, signature: 65535, sender: id });
        check(Packet::Accepted { sender: id });
        check(Packet::Declined { sender: id });
        check(Packet::Seen { envelope });
        check(Packet::Unseen { envelope });
        for loan in [None, Some(Loan::named(77)), Some(Loan { name: 1, address: 2, key: 3, runs: 4 })] {
            let record = Record::from_words(RECORD);
            assert!(record.is_some());
            for near in [None, record.map(Box::new)] {
                let offer = RendezvousRequest { bytes: 1 << 41, address: 0x7fff_0000_1234, loan, near };
                assert_eq!(offer.encoded(RendezvousRequest::decode), Ok(offer));
            }
        }
    }

    #[test]
    fn foreign_bytes_are_an_error() {
        assert!(Packet::decode(Header([0, 0, 0])).is_err());
        assert!(Packet::decode(Header([200, 1, 2])).is_err());
        for bytes in [0, 15, 49, 56, 152, 168] {
            assert!(RendezvousRequest::decode(&vec![0; bytes]).is_err(), "{bytes}");
        }
        for (address, bytes) in [(u64::MAX, 2), (1 << 62, 1 << 62)] {
            assert!(Area::decode(&Area { address, bytes }.encode()).is_err(), "{address} {bytes}");
        }
        assert!(Area::decode(&[0; 15]).is_err());
        for bytes in [0, 24, 31, 33, 40] {
            assert!(Claim::decode(&vec![0; bytes]).is_err(), "{bytes}");
        }
        assert!(Claim::decode(&[3; Claim::WIRE_BYTES]).is_err(), "meant for nothing known");
        assert!(Packet::decode(Header([WANTS | 3 << 8, 0, 0])).is_err());
        let mut wrong = RECORD;
        wrong[6] = 41;
        assert!(Record::from_words(wrong).is_none(), "mapped beyond its end");
        wrong[6] = 4;
        assert!(Record::from_words(wrong).is_none(), "the end before the beginning");
    }
}
