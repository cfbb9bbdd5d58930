//! Format of a multicast datagram.
//!
//! Job, sender, stream (4 bytes each), kind (the highest byte) and number (8), then the payload, then the
//! tag over all of it ([`super::seal`]). Numbers go up by one a datagram; a datagram that comes again is
//! known by its number.

use super::seal::Seal;
use crate::adaptive::tag::TAG_BYTES;

/// Longest datagram: what an Ethernet frame of 1500 bytes leaves behind the headers of IPv4 and UDP.
pub const PACKET_BYTES: usize = 1472;
/// Bytes in front of the payload.
pub const FRONT_BYTES: usize = 20;
/// Bytes of the header in front of a message.
pub const HEADER_BYTES: usize = 24;
/// Length of the longest message in bytes.
pub const LONGEST_BYTES: usize = 64 << 10;
/// Longest payload of a datagram.
pub const PAYLOAD_BYTES: usize = PACKET_BYTES - FRONT_BYTES - TAG_BYTES;

/// Bit of the first datagram of a message.
pub const FIRST: u8 = 1;
/// Bit of the last datagram of a message.
pub const LAST: u8 = 2;
/// Bit of a test datagram, which is no part of a message.
const PROBE: u8 = 4;
/// Lowest bit of the kind in the word of the number.
const KIND_SHIFT: u32 = 56;
/// Mask of the bits of a number.
pub const NUMBERS: u64 = (1 << KIND_SHIFT) - 1;

/// A datagram of a member of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// A part of a message.
    Part {
        /// Rank of the sending process.
        sender: u32,
        /// Number of the sender's stream.
        stream: u32,
        /// Number of the datagram in its stream.
        number: u64,
        /// Bits of [`FIRST`] and [`LAST`].
        kind: u8,
        /// Payload of the datagram.
        payload: &'a [u8],
    },
    /// Test whether multicast datagrams arrive.
    Probe {
        /// Rank of the sending process.
        sender: u32,
        /// Number of the test.
        nonce: u64,
    },
}

/// Identity of a process in the datagrams of a job.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Number of the job.
    pub job: u32,
    /// Rank of this process.
    pub rank: u32,
    /// Ranks of the job.
    pub ranks: u32,
}

/// Reason for which a datagram is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The datagram is not in our format.
    Malformed,
    /// The datagram belongs to another job.
    Foreign,
    /// The tag does not match the content.
    Forged,
}

impl Member {
    /// Completes a part of a message in `room`, whose payload already lies behind [`FRONT_BYTES`]. Returns
    /// the length of the datagram.
    pub fn seal(
        &self,
        seal: &Seal,
        room: &mut [u8],
        (stream, number, kind): (u32, u64, u8),
        payload: usize,
    ) -> usize {
        debug_assert!(number >> KIND_SHIFT == 0, "a stream has less than 2^56 datagrams");
        room[..4].copy_from_slice(&self.job.to_le_bytes());
        room[4..8].copy_from_slice(&self.rank.to_le_bytes());
        room[8..12].copy_from_slice(&stream.to_le_bytes());
        room[12..20].copy_from_slice(&(number | u64::from(kind) << KIND_SHIFT).to_le_bytes());
        let (text, tag) = room.split_at_mut(FRONT_BYTES + payload);
        tag[..TAG_BYTES].copy_from_slice(&seal.tag(text));
        FRONT_BYTES + payload + TAG_BYTES
    }

    /// Returns a test datagram of the highest possible length.
    pub fn probe(&self, seal: &Seal, nonce: u64) -> Vec<u8> {
        let mut room = vec![0; PACKET_BYTES];
        self.seal(seal, &mut room, (0, nonce & NUMBERS, PROBE), PAYLOAD_BYTES);
        room
    }

    /// Parses and authenticates a datagram.
    ///
    /// # Errors
    /// The reason if it is dropped.
    pub fn parse<'a>(&self, seal: &Seal, bytes: &'a [u8]) -> Result<Datagram<'a>, Unfit> {
        if bytes.len() < FRONT_BYTES + TAG_BYTES || bytes.len() > PACKET_BYTES {
            return Err(Unfit::Malformed);
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if word(0) != self.job {
            return Err(Unfit::Foreign);
        }
        let (text, tag) = bytes.split_at(bytes.len() - TAG_BYTES);
        if !seal.verifies(text, tag) {
            return Err(Unfit::Forged);
        }
        let (sender, stream) = (word(4), word(8));
        let number = u64::from_le_bytes(bytes[12..20].try_into().expect("eight bytes"));
        let (kind, number) = ((number >> KIND_SHIFT) as u8, number & NUMBERS);
        if sender >= self.ranks {
            return Err(Unfit::Malformed);
        }
        match kind {
            PROBE => Ok(Datagram::Probe { sender, nonce: number }),
            0..PROBE => Ok(Datagram::Part { sender, stream, number, kind, payload: &text[FRONT_BYTES..] }),
            _ => Err(Unfit::Malformed),
        }
    }
}
