//! Datagrams of a job. They are parsed here, once; afterwards they are well formed and of this job.
//!
//! Little endian:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 2 | 0x7475 |
//! | 2 | 1 | version |
//! | 3 | 1 | what follows: nothing (0), or a fragment of a record, by its kind |
//! | 4 | 4 | number of the job |
//! | 8 | 4 | sender's rank |
//! | 12 | 4 | receiver's rank |
//! | 16 | 8 | number of the datagram in the stream; of one without fragment: that of the next one |
//! | 24 | 8 | all datagrams of the other direction below this number have arrived |
//! | 32 | 8 | bit i: so has the one whose number is higher by 1 + i |
//! | 40 | 2 | so many datagrams from the acknowledged one on find room |
//! | 42 | 1 | flags: first and last fragment of a record |
//! | 43 | 1 | bytes of the sender's address |
//! | 44 | 4 | in a first fragment: payload of the whole record |
//! | 48 | | the sender's address; in a first fragment 24 bytes of header; payload |
//! | end | 16 | tag of all before |
//!
//! In version 2, all from 16 on is encrypted, and at the end are a nonce and a tag
//! ([`tutti_seal::Messages`]). Every process takes both versions: nobody can make either without the secret
//! of the job.
//!
//! Nothing is allocated for a datagram before its tag was found right.

use tutti_seal::{MESSAGE_OVERHEAD, Messages, Root};

use super::tag::{Key, TAG_BYTES, Use};
use crate::link::Header;

/// Bytes in front of address, header and payload.
pub(super) const FIXED_BYTES: usize = 48;
/// Bytes of a record's header.
pub(super) const HEADER_BYTES: usize = 24;
/// Longest address.
pub(super) const ADDRESS_BYTES: usize = 64;

const MAGIC: u16 = 0x7475;
const VERSION: u8 = 1;
const HIDDEN: u8 = 2;
/// Bytes that are never encrypted: they tell whose the datagram is.
const CLEAR_BYTES: usize = 16;
const FIRST: u8 = 1;
const LAST: u8 = 2;

/// Kind of a record of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Record of the layer above.
    Data = 1,
    /// Request for a connection.
    Request = 2,
    /// Agreement to a connection.
    Reply = 3,
    /// Refusal of a connection for now.
    Refuse = 4,
    /// Announcement that the next record from here comes over the connection.
    Confirm = 5,
    /// Withdrawal from an agreed connection.
    Abandon = 6,
    /// Last record: the sender needs nothing any more.
    Bye = 7,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        use Kind::*;
        [Data, Request, Reply, Refuse, Confirm, Abandon, Bye].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Acknowledgement of the other direction, and room for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Acknowledgement {
    /// Number below which all datagrams have arrived.
    pub below: u64,
    /// Bit i is set if datagram `below + 1 + i` has arrived too.
    pub selective: u64,
    /// Number of datagrams, from `below` on, for which there is room.
    pub window: u16,
}

/// Piece of a record in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment<'a> {
    /// Kind of the record.
    pub kind: Kind,
    /// Header and payload bytes of the whole record, in its first fragment.
    pub first: Option<(Header, u32)>,
    /// True if nothing of the record follows.
    pub last: bool,
    /// Payload in this fragment.
    pub payload: &'a [u8],
}

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    /// Rank of the sender.
    pub from: u32,
    /// Number of the datagram in the stream.
    pub sequence: u64,
    /// Acknowledgement of the other direction.
    pub acknowledgement: Acknowledgement,
    /// Address of the sender, if included.
    pub address: &'a [u8],
    /// Fragment of a record. None in a datagram with an acknowledgement only.
    pub fragment: Option<Fragment<'a>>,
}

/// Identity of a process, by which it accepts datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub job: u32,
    pub rank: u32,
    pub ranks: u32,
}

/// Reason for which a datagram is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// The datagram is not in this format.
    Malformed,
    /// The datagram is of another job or for another rank.
    Foreign,
    /// The datagram has a wrong tag.
    Forged,
}

/// Keys that protect the datagrams of a job.
#[derive(Debug)]
pub(super) struct Guard {
    key: Key,
    nonces: Key,
    messages: Messages,
    hides: bool,
}

impl Guard {
    /// Derives the keys of the job. `hides` is true if datagrams are sent encrypted.
    pub(super) fn new(secret: &[u8; 32], hides: bool) -> Guard {
        Guard {
            key: Key::new(secret, Use::Datagram),
            nonces: Key::new(secret, Use::Hidden),
            messages: Messages::new(&Root::new(secret, "datagrams")),
            hides,
        }
    }

    /// Bytes that it adds to a datagram.
    pub(super) fn overhead_bytes(&self) -> usize {
        if self.hides { MESSAGE_OVERHEAD } else { TAG_BYTES }
    }
}

/// Reads a datagram. One that is encrypted is opened in `opened`.
pub(super) fn parse<'a>(
    bytes: &'a [u8],
    me: &Identity,
    guard: &Guard,
    opened: &'a mut Vec<u8>,
) -> Result<Packet<'a>, DropReason> {
    if bytes.len() < FIXED_BYTES + TAG_BYTES
        || read_u16(bytes, 0) != MAGIC
        || ![VERSION, HIDDEN].contains(&bytes[2])
    {
        return Err(DropReason::Malformed);
    }
    let from = read_u32(bytes, 8);
    if read_u32(bytes, 4) != me.job || read_u32(bytes, 12) != me.rank || from >= me.ranks || from == me.rank {
        return Err(DropReason::Foreign);
    }
    let content = if bytes[2] == HIDDEN {
        opened.clear();
        opened.extend_from_slice(bytes);
        let content = guard.messages.open(opened, CLEAR_BYTES).map_err(|_| DropReason::Forged)?;
        if content.len() < FIXED_BYTES {
            return Err(DropReason::Malformed);
        }
        content
    } else {
        let (content, tag) = bytes.split_at(bytes.len() - TAG_BYTES);
        if !guard.key.verifies(content, tag) {
            return Err(DropReason::Forged);
        }
        content
    };
    read(content, from)
}

/// Reads what was sealed by a process of the job.
fn read(bytes: &[u8], from: u32) -> Result<Packet<'_>, DropReason> {
    let (address, body) =
        bytes[FIXED_BYTES..].split_at_checked(usize::from(bytes[43])).ok_or(DropReason::Malformed)?;
    if address.len() > ADDRESS_BYTES {
        return Err(DropReason::Malformed);
    }
    let fragment = match bytes[3] {
        0 if body.is_empty() && bytes[42] == 0 => None,
        0 => return Err(DropReason::Malformed),
        kind => Some(fragment(kind, bytes[42], read_u32(bytes, 44), body)?),
    };
    let acknowledgement = Acknowledgement {
        below: read_u64(bytes, 24),
        selective: read_u64(bytes, 32),
        window: read_u16(bytes, 40),
    };
    Ok(Packet { from, sequence: read_u64(bytes, 16), acknowledgement, address, fragment })
}

fn fragment(kind: u8, flags: u8, record_bytes: u32, body: &[u8]) -> Result<Fragment<'_>, DropReason> {
    let kind = Kind::from_byte(kind).ok_or(DropReason::Malformed)?;
    if flags & !(FIRST | LAST) != 0 {
        return Err(DropReason::Malformed);
    }
    let last = flags & LAST != 0;
    if flags & FIRST == 0 {
        return Ok(Fragment { kind, first: None, last, payload: body });
    }
    let (header, payload) = body.split_at_checked(HEADER_BYTES).ok_or(DropReason::Malformed)?;
    let header = Header([0, 8, 16].map(|at| read_u64(header, at)));
    let long = payload.len() > record_bytes as usize;
    if long || last != (payload.len() == record_bytes as usize) {
        return Err(DropReason::Malformed);
    }
    Ok(Fragment { kind, first: Some((header, record_bytes)), last, payload })
}

/// Outline of a datagram. Header and payload follow the fixed part and the room for the address, which is
/// filled (or not) when the datagram is sent.
pub(super) struct Outline {
    /// Kind of the record.
    pub kind: Kind,
    /// Header and payload bytes of the record, like [`Fragment::first`].
    pub first: Option<(Header, u32)>,
    /// True if nothing of the record follows, like [`Fragment::last`].
    pub last: bool,
}

impl Outline {
    /// Bytes in front of the payload, without address.
    pub(super) fn front_bytes(&self) -> usize {
        FIXED_BYTES + if self.first.is_some() { HEADER_BYTES } else { 0 }
    }

    /// Writes what does not change from one sending to the next. The payload is already at
    /// [`Outline::front_bytes`].
    pub(super) fn write(&self, from: u32, to: u32, job: u32, sequence: u64, buffer: &mut [u8]) {
        write_fixed(buffer, self.kind as u8, from, to, job, sequence);
        buffer[42] = if self.first.is_some() { FIRST } else { 0 } | if self.last { LAST } else { 0 };
        if let Some((header, record_bytes)) = self.first {
            buffer[44..48].copy_from_slice(&record_bytes.to_le_bytes());
            for (word, at) in header.0.into_iter().zip([48, 56, 64]) {
                buffer[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

fn write_fixed(buffer: &mut [u8], kind: u8, from: u32, to: u32, job: u32, sequence: u64) {
    buffer[..2].copy_from_slice(&MAGIC.to_le_bytes());
    buffer[2] = VERSION;
    buffer[3] = kind;
    buffer[4..8].copy_from_slice(&job.to_le_bytes());
    buffer[8..12].copy_from_slice(&from.to_le_bytes());
    buffer[12..16].copy_from_slice(&to.to_le_bytes());
    buffer[16..24].copy_from_slice(&sequence.to_le_bytes());
    buffer[42..48].fill(0);
}

/// Writes a datagram without fragment.
pub(super) fn write_bare(from: u32, to: u32, job: u32, sequence: u64, buffer: &mut [u8; FIXED_BYTES]) {
    write_fixed(buffer, 0, from, to, job, sequence);
}

/// Puts what is known only when a datagram is sent into it, the sender's address included, and protects it:
/// the whole datagram, in `out`.
pub(super) fn seal(content: &[u8], now: &Acknowledgement, address: &[u8], guard: &Guard, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&content[..FIXED_BYTES]);
    out[24..32].copy_from_slice(&now.below.to_le_bytes());
    out[32..40].copy_from_slice(&now.selective.to_le_bytes());
    out[40..42].copy_from_slice(&now.window.to_le_bytes());
    out[43] = address.len() as u8;
    out.extend_from_slice(address);
    out.extend_from_slice(&content[FIXED_BYTES..]);
    if guard.hides {
        out[2] = HIDDEN;
        let nonce = guard.nonces.tag(&[out]);
        let nonce = nonce.first_chunk().expect("a nonce is shorter than a tag");
        return guard.messages.seal(nonce, out, CLEAR_BYTES);
    }
    let tag = guard.key.tag(&[out]);
    out.extend_from_slice(&tag);
}

/// Callers have checked that the bytes are there.
fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
