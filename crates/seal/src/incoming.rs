//! The receiving side of a sealed stream.

use std::ops::Range;

use crate::keys::{Key, Salts, StreamKeys};
use crate::{Announced, Forged, HEADER_BYTES, MOST_BYTES, OVERHEAD_BYTES, Salt};

/// Length of the receive buffer for little data; below, for much data.
const LEAST_ROOM: usize = 4 << 10;
const MOST_ROOM: usize = 2 * (MOST_BYTES + OVERHEAD_BYTES);
/// Number of consecutive short arrivals after which a stream shortens its buffer.
const SHORT_ARRIVALS: u32 = 256;

/// Renewal that this side has started and the other end has not answered yet.
#[derive(Clone, Copy, Debug)]
struct Expected {
    own: Salt,
    /// Own salt of an earlier renewal that was not answered when this one started.
    earlier: Option<Salt>,
    /// Number of bytes in the buffer that the other end had sent before.
    old_bytes: usize,
}

/// Receiving side of a stream, which opens the records of the other end in their order.
#[derive(Debug)]
pub struct Incoming {
    keys: StreamKeys,
    key: Key,
    /// Number of the next record, which is its nonce.
    number: u64,
    /// Buffer of received records, which are in `start..end`.
    room: Vec<u8>,
    start: usize,
    end: usize,
    /// Content of the record before `start` that was not taken yet.
    content: Range<usize>,
    is_filled: bool,
    short_arrivals: u32,
    expected: Option<Expected>,
    answered: Option<Salts>,
    has_failed: bool,
}

impl Incoming {
    /// Creates the receiving side of a fresh connection.
    pub fn new(keys: &StreamKeys) -> Incoming {
        Incoming {
            key: keys.direction(keys.end.other(), None),
            keys: keys.clone(),
            number: 0,
            room: Vec::new(),
            start: 0,
            end: 0,
            content: 0..0,
            is_filled: false,
            short_arrivals: 0,
            expected: None,
            answered: None,
            has_failed: false,
        }
    }

    /// Returns the buffer for the next bytes, which is never empty. All content must have been taken.
    pub fn room(&mut self) -> &mut [u8] {
        debug_assert!(self.content.is_empty(), "content is taken before more is received");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let announced = self.header().and_then(|header| Announced::read(header).ok());
        let whole = announced.map_or(HEADER_BYTES, Announced::whole);
        let wanted = match std::mem::take(&mut self.is_filled) {
            true => (2 * self.room.len()).min(MOST_ROOM),
            false => LEAST_ROOM,
        };
        let wanted = wanted.max(whole);
        if self.room.len() - self.start < wanted || self.end == self.room.len() {
            self.room.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.room.len() < wanted.max(self.end + 1) {
            self.room.resize(wanted.max(self.end + 1), 0);
        } else if self.short_arrivals > SHORT_ARRIVALS && self.end < LEAST_ROOM {
            self.room.truncate(LEAST_ROOM.max(whole));
            self.room.shrink_to_fit();
            self.short_arrivals = 0;
        }
        &mut self.room[self.end..]
    }

    /// Marks the first `count` bytes of the buffer as arrived.
    pub fn arrived(&mut self, count: usize) {
        self.end += count;
        self.is_filled = self.end == self.room.len();
        let is_short = count < LEAST_ROOM / 2 && self.room.len() > LEAST_ROOM;
        self.short_arrivals = if is_short { self.short_arrivals + 1 } else { 0 };
    }

    /// Appends bytes that arrived in another way.
    pub fn append(&mut self, bytes: &[u8]) {
        if self.content.is_empty() {
            self.room.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let end = self.end + bytes.len();
        if self.room.len() < end {
            self.room.resize(end, 0);
        }
        self.room[self.end..end].copy_from_slice(bytes);
        self.end = end;
    }

    /// Returns true if [`Incoming::take`] would return content, or fail, without more bytes.
    pub fn has_content(&self) -> bool {
        !self.content.is_empty() || self.has_failed || !matches!(self.next(), Ok(None))
    }

    /// Moves content into `into`. Returns the number of bytes, which is less than its length only if there
    /// is no more content.
    ///
    /// # Errors
    /// If a record is not what the other end sent at this position. All later calls fail too.
    pub fn take(&mut self, into: &mut [u8]) -> Result<usize, Forged> {
        let mut taken = 0;
        while taken < into.len() {
            if self.content.is_empty() {
                match self.open_next() {
                    Ok(true) => continue,
                    // Content before the error is delivered; the next call fails.
                    Err(forged) if taken == 0 => return Err(forged),
                    Ok(false) | Err(_) => break,
                }
            }
            let now = self.content.len().min(into.len() - taken);
            into[taken..taken + now].copy_from_slice(&self.room[self.content.start..][..now]);
            self.content.start += now;
            taken += now;
        }
        Ok(taken)
    }

    /// Returns the whole content of the next record without copying it; empty if no complete record has
    /// arrived.
    ///
    /// # Errors
    /// Errors of [`Incoming::take`].
    pub fn take_record(&mut self) -> Result<&[u8], Forged> {
        while self.content.is_empty() && self.open_next()? {}
        let content = std::mem::replace(&mut self.content, 0..0);
        Ok(&self.room[content])
    }

    /// Returns the number of bytes of memory that this side uses.
    pub fn memory_bytes(&self) -> usize {
        self.room.capacity()
    }

    fn header(&self) -> Option<[u8; HEADER_BYTES]> {
        self.room[self.start..self.end].first_chunk().copied()
    }

    /// Returns the header of the next record, if the record has arrived completely.
    fn next(&self) -> Result<Option<Announced>, Forged> {
        let Some(header) = self.header() else { return Ok(None) };
        let announced = Announced::read(header)?;
        Ok((self.end - self.start >= announced.whole()).then_some(announced))
    }

    fn open_next(&mut self) -> Result<bool, Forged> {
        if self.has_failed {
            return Err(Forged);
        }
        let opened = self.try_open_next();
        self.has_failed = opened.is_err();
        opened
    }

    fn try_open_next(&mut self) -> Result<bool, Forged> {
        let Some(announced) = self.next()? else { return Ok(false) };
        let whole = announced.whole();
        let record = &mut self.room[self.start..self.start + whole];
        let is_old = self.expected.is_none_or(|expected| expected.old_bytes > 0);
        match announced {
            Announced::Sealed(bytes) if is_old => {
                self.key.open(self.keys.cover, self.number, record, HEADER_BYTES)?;
                self.number += 1;
                let content = self.start + HEADER_BYTES;
                self.content = content..content + bytes;
            }
            Announced::Sealed(_) => return Err(Forged),
            Announced::Renewal => {
                let salt = record[HEADER_BYTES..].first_chunk().copied().ok_or(Forged)?;
                self.heard_salt(salt)?;
            }
        }
        if let Some(expected) = &mut self.expected {
            expected.old_bytes = expected.old_bytes.saturating_sub(whole);
        }
        self.start += whole;
        Ok(true)
    }

    /// Processes the salt with which the other end starts a renewal.
    fn heard_salt(&mut self, salt: Salt) -> Result<(), Forged> {
        let Expected { own, earlier, old_bytes } = self.expected.ok_or(Forged)?;
        let of = |own| Salts::new(self.keys.end, own, salt);
        let from = self.keys.end.other();
        match earlier {
            // The other end answered the earlier renewal. Only bytes that it sealed then can have arrived
            // since.
            Some(earlier) if old_bytes > 0 => self.key = self.keys.direction(from, Some(&of(earlier))),
            None if old_bytes > 0 => {}
            _ => {
                let salts = of(own);
                self.key = self.keys.direction(from, Some(&salts));
                (self.expected, self.answered) = (None, Some(salts));
            }
        }
        Ok(())
    }

    /// Expects a renewal by the other end after the bytes that have arrived and the rest of an incomplete
    /// record.
    pub(crate) fn renew(&mut self, own: &Salt) {
        let earlier = self.expected.map(|expected| expected.own);
        self.expected = Some(Expected { own: *own, earlier, old_bytes: self.end - self.start });
    }

    /// Returns the salts of both ends, if the other end has answered a renewal since the last call.
    pub(crate) fn take_answer(&mut self) -> Option<Salts> {
        self.answered.take()
    }
}
