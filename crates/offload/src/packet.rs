//! Format of packets between interfaces: the encoding of [`lower::Packet`].
//!
//! Little endian, after the header of UDP:
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 4 | 0x666f7574 |
//! | 4 | 4 | number of the job |
//! | 8 | 4 | number of the group |
//! | 12 | 4 | number of the operation |
//! | 16 | 1 | purpose: call (1), message (2), question (3), sender waits too (4) |
//! | 17 | 1 | event, or rule |
//! | 18 | 1 | program |
//! | 19 | 1 | operator |
//! | 20 | 2 | length of a block in bytes |
//! | 22 | 2 | length of the data that follow |
//! | 24 | 4 | sender's rank |
//! | 28 | 4 | receiver's rank |
//! | 32 | 16 | tag of all bytes before it and of the data |
//! | 48 | | data, padded to a multiple of 8 bytes |

use tutti_coll::lower::{Operation, Packet, Purpose};
use tutti_transport::adaptive::tag::{Key, TAG_BYTES};

use crate::layout::{AREA_BYTES, Counter, OPERAND_BYTES, Operator, PROGRAMS};

/// Number of bytes before the data.
pub const HEADER_BYTES: usize = 48;
const BEFORE_TAG: usize = HEADER_BYTES - TAG_BYTES;
const MAGIC: u32 = 0x666f_7574;

/// Job and group to which packets belong.
#[derive(Clone, Debug)]
pub struct Line {
    /// Number of the job.
    pub job: u32,
    /// Number of the group.
    pub group: u32,
    /// Key of the packets' tags.
    pub key: Key,
}

/// Reason why bytes are no packet for the interface of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// The packet does not belong to this job and is passed on unchanged.
    NotOurs,
    /// The packet is dropped, and this counter incremented.
    Dropped(Counter),
}

/// Encodes a packet as bytes.
pub fn write(packet: &Packet, line: &Line) -> Vec<u8> {
    let (purpose, index) = match packet.purpose {
        Purpose::Enter => (1, 0),
        Purpose::Message { event } => (2, event),
        Purpose::Ask { rule } => (3, rule),
        Purpose::Alive { event } => (4, event),
    };
    let Operation { program, operator, bytes } = packet.operation;
    let words = [MAGIC, line.job, line.group, packet.sequence];
    let mut header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    header.extend([purpose, index, program, operator]);
    header.extend([bytes, packet.data.len() as u16].iter().flat_map(|half| half.to_le_bytes()));
    header.extend([packet.from, packet.to].iter().flat_map(|rank| rank.to_le_bytes()));
    let mut data = packet.data.clone();
    data.resize(data.len().next_multiple_of(8), 0);
    let tag = line.key.tag(&[&header, &data]);
    [&header[..], &tag, &data].concat()
}

/// Decodes bytes that arrived at the interface of `rank` from its own host (`is_own`) or from the network.
///
/// # Errors
/// The reason for which the bytes are dropped or passed on.
pub fn read(bytes: &[u8], rank: u32, line: &Line, is_own: bool) -> Result<Packet, PacketError> {
    let Some((header, behind)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(PacketError::NotOurs);
    };
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    if word(0) != MAGIC || word(4) != line.job {
        return Err(PacketError::NotOurs);
    }
    let is_call = header[16] == 1;
    if is_own != is_call {
        return Err(if is_own { PacketError::NotOurs } else { PacketError::Dropped(Counter::Foreign) });
    }
    if word(8) != line.group || word(28) != rank {
        return Err(PacketError::Dropped(Counter::Foreign));
    }
    let operation = Operation { program: header[18], operator: header[19], bytes: half(20) };
    let (block, data) = (usize::from(operation.bytes), usize::from(half(22)));
    let is_sound = block <= AREA_BYTES
        && (operation.operator == 0 || block <= OPERAND_BYTES)
        && data <= block
        && behind.len() == data.next_multiple_of(8)
        && usize::from(operation.program) < PROGRAMS
        && usize::from(operation.operator) < Operator::ALL.len()
        && word(12) != 0;
    if !is_sound {
        return Err(PacketError::Dropped(Counter::Malformed));
    }
    if line.key.tag(&[&header[..BEFORE_TAG], behind]) != header[BEFORE_TAG..] {
        return Err(PacketError::Dropped(Counter::Forged));
    }
    let purpose = match (header[16], header[17]) {
        (1, 0) => Purpose::Enter,
        (2, event) => Purpose::Message { event },
        (3, rule) => Purpose::Ask { rule },
        (4, event) => Purpose::Alive { event },
        _ => return Err(PacketError::Dropped(Counter::Malformed)),
    };
    let data = behind[..data].to_vec();
    Ok(Packet { sequence: word(12), operation, from: word(24), to: rank, purpose, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line { job: 7, group: 9, key: Key::from_bytes([3; 16]) }
    }

    fn check(purpose: Purpose, data: &[u8]) {
        let operation = Operation { program: 3, operator: 0, bytes: data.len().max(12) as u16 };
        let packet = Packet { sequence: 5, operation, from: 1, to: 2, purpose, data: data.to_vec() };
        let bytes = write(&packet, &line());
        let is_own = purpose == Purpose::Enter;
        assert_eq!(read(&bytes, 2, &line(), is_own), Ok(packet));
        assert_eq!(read(&bytes, 3, &line(), is_own), Err(PacketError::Dropped(Counter::Foreign)));
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0x10;
            assert!(read(&wrong, 2, &line(), is_own).is_err(), "byte {place}");
            assert!(read(&bytes[..place], 2, &line(), is_own).is_err(), "{place} bytes");
        }
    }

    #[test]
    fn packets_are_read_as_written_and_changed_ones_are_refused() {
        check(Purpose::Enter, b"");
        check(Purpose::Enter, b"twelve bytes");
        check(Purpose::Message { event: 4 }, b"13 bytes here");
        check(Purpose::Ask { rule: 31 }, b"");
        check(Purpose::Alive { event: 31 }, b"");
    }
}
