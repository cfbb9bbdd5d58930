//! What is counted of multicast.

use std::fmt;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MulticastCounters {
    /// Messages sent to groups, and their payload in bytes.
    pub messages: u64,
    /// See `messages`.
    pub bytes: u64,
    /// Datagrams sent, and in how many calls.
    pub sent: u64,
    /// See `sent`.
    pub batches: u64,
    /// Datagrams multicast again.
    pub repeated: u64,
    /// Datagrams sent to one receiver as a record.
    pub repaired: u64,
    /// Datagrams that receivers said they lack.
    pub lacked: u64,
    /// Receivers given up because they do not hear, or do not listen.
    pub demoted: u64,
    /// Receivers that wanted what follows another way, for lack of room.
    pub declined: u64,
    /// Datagrams received that were new,
    pub received: u64,
    /// that were there before, or are not for this process,
    pub again: u64,
    /// and that were dropped: malformed, foreign, forged, absurd.
    pub malformed: u64,
    /// See `malformed`.
    pub foreign: u64,
    /// See `malformed`.
    pub forged: u64,
    /// See `malformed`.
    pub absurd: u64,
}

impl MulticastCounters {
    /// Datagrams that were dropped, whatever for.
    pub fn dropped(&self) -> u64 {
        self.malformed + self.foreign + self.forged + self.absurd
    }
}

impl fmt::Display for MulticastCounters {
    /// One line, `name=value` each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dropped = self.dropped();
        write!(f, "messages={} bytes={} datagrams={}", self.messages, self.bytes, self.sent)?;
        write!(f, " batches={} repeated={} repaired={}", self.batches, self.repeated, self.repaired)?;
        write!(f, " lacked={} demoted={} declined={}", self.lacked, self.demoted, self.declined)?;
        write!(f, " received={} again={} dropped={dropped}", self.received, self.again)
    }
}
