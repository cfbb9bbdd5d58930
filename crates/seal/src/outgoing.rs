//! The sending side of a sealed stream.

use crate::keys::{Key, Salts, StreamKeys};
use crate::{Announced, HEADER_BYTES, MOST_BYTES, OVERHEAD_BYTES, Salt};

/// Maximum length of sealed records that are not sent yet, in bytes: enough for one system call.
const AT_ONCE_BYTES: usize = 2 * (MOST_BYTES + OVERHEAD_BYTES);

/// Sending side of a stream, which seals bytes into records. The caller sends them in their order.
#[derive(Debug)]
pub struct Outgoing {
    keys: StreamKeys,
    key: Key,
    /// Number of the next record, which is its nonce.
    number: u64,
    /// Sealed records; the bytes before `sent` have been sent.
    records: Vec<u8>,
    sent: usize,
    /// Start of a record that is not sealed yet. Always `None` between calls.
    begun: Option<usize>,
    /// Content of records that must be sealed with new keys, before all other content.
    unsealed: Vec<u8>,
    /// True while a renewal waits for the other end's answer. Nothing is sealed meanwhile.
    is_renewing: bool,
}

impl Outgoing {
    /// Creates the sending side of a fresh connection.
    pub fn new(keys: &StreamKeys) -> Outgoing {
        Outgoing {
            key: keys.direction(keys.end, None),
            keys: keys.clone(),
            number: 0,
            records: Vec::new(),
            sent: 0,
            begun: None,
            unsealed: Vec::new(),
            is_renewing: false,
        }
    }

    /// Seals as much of the beginning of `pieces` as possible. Returns the number of bytes, which is 0
    /// while records are pending.
    pub fn put<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> usize {
        if self.is_pending() || self.is_renewing {
            return 0;
        }
        let mut taken = 0;
        for piece in pieces {
            let now = piece.len().min(self.room());
            self.append(&piece[..now]);
            taken += now;
            if now < piece.len() {
                break;
            }
        }
        self.seal_begun();
        taken
    }

    /// Returns the number of content bytes for which there is room.
    fn room(&self) -> usize {
        let begun = self.begun.map_or(0, |start| self.records.len() - start - HEADER_BYTES);
        let sealed = self.begun.unwrap_or(self.records.len());
        // All records but the last are full, so their number follows from their total length.
        let left = AT_ONCE_BYTES.saturating_sub(sealed) / (MOST_BYTES + OVERHEAD_BYTES);
        left * MOST_BYTES - begun
    }

    fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let start = *self.begun.get_or_insert_with(|| {
                self.records.extend_from_slice(&[0; HEADER_BYTES]);
                self.records.len() - HEADER_BYTES
            });
            let room = MOST_BYTES - (self.records.len() - start - HEADER_BYTES);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.records.extend_from_slice(now);
            bytes = later;
            if now.len() == room {
                self.seal_begun();
            }
        }
    }

    fn seal_begun(&mut self) {
        let Some(start) = self.begun.take() else { return };
        let content = self.records.len() - start - HEADER_BYTES;
        let record = &mut self.records[start..];
        record[..HEADER_BYTES].copy_from_slice(&Announced::Sealed(content).write());
        let tag = self.key.seal(self.keys.cover, self.number, record, HEADER_BYTES);
        self.records.extend_from_slice(&tag);
        self.number += 1;
    }

    /// Returns the sealed bytes that have not been sent yet.
    pub fn pending(&self) -> &[u8] {
        &self.records[self.sent..]
    }

    /// Returns true if there is something to send, now or after the other end has answered a renewal.
    pub fn is_pending(&self) -> bool {
        self.sent < self.records.len() || !self.unsealed.is_empty()
    }

    /// Marks the first `count` pending bytes as sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.records.len() {
            self.sent = 0;
            self.records.clear();
        }
    }

    /// Returns the number of bytes of memory that this side uses.
    pub fn memory_bytes(&self) -> usize {
        self.records.capacity() + self.unsealed.capacity()
    }

    /// Starts a renewal: appends a salt after the record that was sent in part. Records of which nothing
    /// was sent are opened, and sealed again after the answer.
    pub(crate) fn renew(&mut self, own: &Salt) {
        let mut kept = 0;
        while kept < self.sent {
            kept += self.record_at(kept).whole();
        }
        let mut unsent = self.records.split_off(kept);
        let count = sealed_in(&unsent);
        self.number -= count;
        let mut unsealed = Vec::new();
        let (mut start, mut number) = (0, self.number);
        while let Some(announced) = announced_at(&unsent, start) {
            let record = &mut unsent[start..start + announced.whole()];
            if let Announced::Sealed(content) = announced {
                let opened = self.key.open(self.keys.cover, number, record, HEADER_BYTES);
                opened.expect("this side sealed it with this key and number");
                unsealed.extend_from_slice(&record[HEADER_BYTES..HEADER_BYTES + content]);
                number += 1;
            }
            start += announced.whole();
        }
        unsealed.append(&mut self.unsealed);
        self.unsealed = unsealed;
        self.records.extend_from_slice(&Announced::Renewal.write());
        self.records.extend_from_slice(own);
        self.is_renewing = true;
    }

    /// Continues with the keys of these salts.
    pub(crate) fn renewed(&mut self, salts: &Salts) {
        self.key = self.keys.direction(self.keys.end, Some(salts));
        self.is_renewing = false;
        let unsealed = std::mem::take(&mut self.unsealed);
        self.append(&unsealed);
        self.seal_begun();
    }

    fn record_at(&self, start: usize) -> Announced {
        announced_at(&self.records, start).expect("this side wrote whole records")
    }
}

fn announced_at(records: &[u8], start: usize) -> Option<Announced> {
    let header = records.get(start..)?.first_chunk()?;
    Announced::read(*header).ok()
}

/// Returns the number of sealed records in `records`, which are complete.
fn sealed_in(records: &[u8]) -> u64 {
    let (mut start, mut count) = (0, 0);
    while let Some(announced) = announced_at(records, start) {
        count += u64::from(matches!(announced, Announced::Sealed(_)));
        start += announced.whole();
    }
    count
}
