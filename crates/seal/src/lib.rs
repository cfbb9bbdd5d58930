//! Sealed records: what hosts of a job send to each other after the greeting, protected from who reads or
//! changes packets on their way.
//!
//! Two ends that know a secret derive one key for each direction from it and from random numbers that both
//! contributed ([`Root`]). The sender cuts its bytes into records, numbers them, and seals each with
//! AES-256-GCM ([`Outgoing`]). The receiver opens them in their order ([`Incoming`]). A record that was
//! changed, dropped, repeated, reordered, or sent by somebody else is an error ([`Forged`]), and after it
//! nothing is opened any more. Messages that may be lost are sealed each by itself ([`Messages`]).
//!
//! | part of a record | bytes |
//! |---|---|
//! | length of the content, and the same with all bits inverted | 2 + 2 |
//! | content, encrypted or in the clear | 0 to [`MOST_BYTES`] |
//! | tag over the length and the content | 16 |
//!
//! **A nonce is never used twice with a key.** It is the record's number. Numbers only grow, and each end
//! contributes 32 random bytes to each connection's keys, so no two connections share a key. A process that
//! is made from a checkpoint would repeat the numbers of the process that went on. So its streams are renewed
//! before it seals anything ([`renewal`]).
//!
//! Absent: I/O (callers pass functions that move bytes), clocks, unsafe code, randomness (the caller draws
//! it), policy (which cover is used where).
#![deny(unsafe_code)]

#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod incoming;
mod keys;
mod messages;
mod outgoing;
pub mod renewal;

use std::fmt;
use std::io;

pub use incoming::Incoming;
pub use keys::{End, Root, Salts, StreamKeys};
pub use messages::{MESSAGE_OVERHEAD, Messages};
pub use outgoing::Outgoing;
pub use renewal::Sealed;

/// Most bytes of content in a record. The receiver delivers none of it before it has the tag, so longer
/// records delay messages: at 1 Gbit/s, 16 KiB arrive within 0.13 ms.
pub const MOST_BYTES: usize = 16 << 10;
/// Bytes in front of the content.
pub const HEADER_BYTES: usize = 4;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;
/// Random bytes that an end contributes to the keys of a connection.
pub type Salt = [u8; SALT_BYTES];
/// Bytes of a [`Salt`].
pub const SALT_BYTES: usize = 32;
/// Bytes that a record has beyond its content.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;

/// Protection that records give to their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cover {
    /// A tag: others can read the content, but not change it.
    Authenticated = 1,
    /// A tag and encryption.
    Encrypted = 2,
}

impl Cover {
    /// The cover of that number on the wire; `None` for no such number.
    pub fn from_number(number: u8) -> Option<Cover> {
        [Cover::Authenticated, Cover::Encrypted].into_iter().find(|cover| *cover as u8 == number)
    }
}

/// A record that the other end did not send in this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forged;

impl fmt::Display for Forged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "what came over the network is not what the other end sent: somebody changed, repeated or \
             inserted it on the way, or a device on the way is faulty (TUTTI_PROTECT)",
        )
    }
}

impl std::error::Error for Forged {}

impl From<Forged> for io::Error {
    fn from(forged: Forged) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, forged)
    }
}

/// What the header of a record announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announced {
    /// Sealed content of so many bytes.
    Sealed(usize),
    /// A salt: see [`renewal`].
    Renewal,
}

/// Length that no content has: that of a renewal.
const RENEWAL: u16 = u16::MAX;

impl Announced {
    fn write(self) -> [u8; HEADER_BYTES] {
        let length = match self {
            Announced::Sealed(bytes) => bytes as u16,
            Announced::Renewal => RENEWAL,
        };
        (u32::from(length) | u32::from(!length) << 16).to_le_bytes()
    }

    /// Reads a header. A length that was damaged is found at once, so nobody waits for the rest of it.
    fn read(header: [u8; HEADER_BYTES]) -> Result<Announced, Forged> {
        let [length, inverted] = [[header[0], header[1]], [header[2], header[3]]].map(u16::from_le_bytes);
        match length {
            _ if inverted != !length => Err(Forged),
            RENEWAL => Ok(Announced::Renewal),
            bytes if usize::from(bytes) <= MOST_BYTES => Ok(Announced::Sealed(bytes.into())),
            _ => Err(Forged),
        }
    }

    /// Bytes of the whole record.
    fn whole(self) -> usize {
        match self {
            Announced::Sealed(bytes) => bytes + OVERHEAD_BYTES,
            Announced::Renewal => HEADER_BYTES + SALT_BYTES,
        }
    }
}

#[cfg(test)]
mod tests;
