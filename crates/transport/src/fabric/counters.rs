//! Counters of a process's traffic with other hosts.

use std::fmt;

use crate::adaptive;

/// Counts since the start of the process, except for those documented as "at present".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FabricCounters {
    /// Records sent, by datagrams and connections.
    pub sent_records: u64,
    /// Payload bytes of the records sent.
    pub sent_bytes: u64,
    /// Records received, by datagrams and connections.
    pub received_records: u64,
    /// Payload bytes of the records received.
    pub received_bytes: u64,
    /// Messages that this process read out of its peers' memory.
    pub reads: u64,
    /// Bytes of the messages read so.
    pub read_bytes: u64,
    /// Number of times that memory was registered with the network.
    pub registrations: u64,
    /// Number of times that a kept registration was used again.
    pub reused_registrations: u64,
    /// Connections of strangers that were rejected.
    pub foreign_connections: u64,
    /// Memory for the network traffic at present, in bytes.
    pub memory_bytes: u64,
    /// Counters of datagrams and connections in detail.
    pub adaptive: adaptive::ConnectionCounters,
}

impl fmt::Display for FabricCounters {
    /// Formats the counters as one line, `name=value` each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = &self.adaptive;
        let dropped = detail.malformed + detail.foreign + detail.forged + detail.absurd;
        write!(f, "peers={} connections={}", detail.peers, detail.connections)?;
        write!(f, " most_connections={} established={}", detail.most_connections, detail.established)?;
        write!(f, " given_up={} failed={}", detail.given_up, detail.failed)?;
        write!(f, " contacts={}", detail.contacted)?;
        write!(f, " sent_records={} sent_bytes={}", self.sent_records, self.sent_bytes)?;
        write!(f, " received_records={} received_bytes={}", self.received_records, self.received_bytes)?;
        write!(f, " reads={} read_bytes={}", self.reads, self.read_bytes)?;
        write!(f, " registrations={} reused={}", self.registrations, self.reused_registrations)?;
        write!(f, " sent_datagrams={} repeated={}", detail.sent_datagrams, detail.repeated_datagrams)?;
        write!(f, " received_datagrams={} dropped={dropped}", detail.received_datagrams)?;
        write!(f, " rejected={} strangers={}", detail.rejected, self.foreign_connections)?;
        write!(f, " memory_bytes={}", self.memory_bytes)
    }
}
