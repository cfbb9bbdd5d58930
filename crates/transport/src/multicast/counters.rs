//! Counters of multicast.

use std::fmt;

/// Counts of one process's multicast since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MulticastCounters {
    /// Messages sent to groups.
    pub messages: u64,
    /// Payload bytes of the messages sent to groups.
    pub bytes: u64,
    /// Datagrams sent to groups.
    pub sent: u64,
    /// Calls of the system that sent these datagrams.
    pub batches: u64,
    /// Datagrams multicast more than once.
    pub repeated: u64,
    /// Datagrams repeated for one receiver as a record.
    pub repaired: u64,
    /// Datagrams that receivers reported missing.
    pub lacked: u64,
    /// Receivers excluded because they receive nothing, or do not listen.
    pub demoted: u64,
    /// Receivers that requested other routes for lack of room.
    pub declined: u64,
    /// Received datagrams that were new.
    pub received: u64,
    /// Received datagrams that were there before, or are for other processes.
    pub again: u64,
    /// Dropped datagrams that were not in the format.
    pub malformed: u64,
    /// Dropped datagrams of another job.
    pub foreign: u64,
    /// Dropped datagrams with a wrong tag.
    pub forged: u64,
    /// Dropped datagrams that made no sense.
    pub absurd: u64,
}

impl MulticastCounters {
    /// Returns the number of dropped datagrams, for all reasons together.
    pub fn dropped(&self) -> u64 {
        self.malformed + self.foreign + self.forged + self.absurd
    }
}

impl fmt::Display for MulticastCounters {
    /// Formats the counters as one line, `name=value` each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dropped = self.dropped();
        write!(f, "messages={} bytes={} datagrams={}", self.messages, self.bytes, self.sent)?;
        write!(f, " batches={} repeated={} repaired={}", self.batches, self.repeated, self.repaired)?;
        write!(f, " lacked={} demoted={} declined={}", self.lacked, self.demoted, self.declined)?;
        write!(f, " received={} again={} dropped={dropped}", self.received, self.again)
    }
}
