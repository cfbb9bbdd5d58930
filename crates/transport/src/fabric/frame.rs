//! Frames: the header that carriers put before every payload.

use super::carrier::{CarrierKind, RECORD_BYTES};
use crate::link::Header;

/// Bytes in front of the payload: its length and what the frame is (4), whom it belongs to (4), the record's
/// header (24).
pub const HEADER_BYTES: usize = 32;

/// Longest piece of memory that is read, which is also how long other frames wait.
pub const BULK_BYTES: usize = 256 << 10;

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Kind of the frame.
    pub kind: CarrierKind,
    /// Number by which the receiver finds the frame's sender, where nothing else identifies it.
    pub line: u32,
    /// Opaque header of the record.
    pub header: Header,
    /// Payload length in bytes.
    pub bytes: usize,
}

impl Front {
    /// Writes the header to the start of a frame.
    #[inline]
    pub fn write(&self, frame: &mut [u8]) {
        let kind: u32 = match self.kind {
            CarrierKind::Record => 0,
            CarrierKind::End => 1,
            CarrierKind::Read => 2,
            CarrierKind::Bulk => 3,
            CarrierKind::Done => 4,
            CarrierKind::Datagram => 5,
        };
        frame[..4].copy_from_slice(&(self.bytes as u32 | kind << 24).to_le_bytes());
        frame[4..8].copy_from_slice(&self.line.to_le_bytes());
        for (place, word) in frame[8..HEADER_BYTES].chunks_exact_mut(8).zip(self.header.0) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads a header; `None` if no frame starts like that.
    #[inline]
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Option<Front> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let kind = match word(0) >> 24 {
            0 => CarrierKind::Record,
            1 => CarrierKind::End,
            2 => CarrierKind::Read,
            3 => CarrierKind::Bulk,
            4 => CarrierKind::Done,
            5 => CarrierKind::Datagram,
            _ => return None,
        };
        let length = (word(0) & 0xff_ffff) as usize;
        let header = Header([long(8), long(16), long(24)]);
        let longest = match kind {
            CarrierKind::Record | CarrierKind::End | CarrierKind::Datagram => RECORD_BYTES,
            CarrierKind::Read | CarrierKind::Done => 0,
            CarrierKind::Bulk => BULK_BYTES,
        };
        (length <= longest).then_some(Front { kind, line: word(4), header, bytes: length })
    }

    /// Splits a message that is one whole frame into header and payload.
    #[inline]
    pub fn of_message(message: &[u8]) -> Option<(Front, &[u8])> {
        let (front, payload) = message.split_first_chunk()?;
        let front = Front::read(front)?;
        (front.bytes == payload.len()).then_some((front, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(front: Front, expected: bool) {
        let mut frame = vec![7; HEADER_BYTES + front.bytes];
        front.write(&mut frame);
        let payload = vec![7; front.bytes];
        assert!(Front::of_message(&frame) == expected.then_some((front, &payload[..])), "{front:?}");
        assert_eq!(Front::of_message(&frame[..frame.len() - 1]), None);
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let header = Header([u64::MAX, 1, 1 << 63]);
        check(Front { kind: CarrierKind::Record, line: 3, header, bytes: 0 }, true);
        check(Front { kind: CarrierKind::Read, line: 3, header, bytes: 0 }, true);
        check(Front { kind: CarrierKind::Read, line: 3, header, bytes: 1 }, false);
        check(Front { kind: CarrierKind::Done, line: 3, header, bytes: 0 }, true);
        check(Front { kind: CarrierKind::Bulk, line: 3, header, bytes: BULK_BYTES }, true);
        check(Front { kind: CarrierKind::Bulk, line: 3, header, bytes: BULK_BYTES + 1 }, false);
        check(Front { kind: CarrierKind::End, line: u32::MAX, header, bytes: RECORD_BYTES }, true);
        check(Front { kind: CarrierKind::Record, line: 0, header, bytes: RECORD_BYTES + 1 }, false);
        assert_eq!(Front::read(&[9; HEADER_BYTES]), None);
    }
}
