//! What `tutti info` and MPI_T show of a process's network traffic.

/// Since the start of the process, but for those that say *now*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounters {
    /// Peers that were spoken to.
    pub peers: u64,
    /// Records sent and received by datagrams.
    pub sent_records: u64,
    /// See [`ConnectionCounters::sent_records`].
    pub received_records: u64,
    /// Their payload in bytes.
    pub sent_bytes: u64,
    /// See [`ConnectionCounters::sent_bytes`].
    pub received_bytes: u64,
    /// Datagrams sent, acknowledgements and repetitions included.
    pub sent_datagrams: u64,
    /// Datagrams received and taken.
    pub received_datagrams: u64,
    /// Datagrams sent again.
    pub repeated_datagrams: u64,
    /// Datagrams of acknowledgement only, sent.
    pub acknowledgements: u64,
    /// Dropped: not in the format.
    pub malformed: u64,
    /// Dropped: of another job or for another rank.
    pub foreign: u64,
    /// Dropped: with a wrong tag.
    pub forged: u64,
    /// Dropped: there before (a repetition or a replay).
    pub duplicates: u64,
    /// Dropped: no room.
    pub beyond: u64,
    /// Dropped: well formed, but no sense in it.
    pub absurd: u64,
    /// Connections now.
    pub connections: u64,
    /// Most connections at a time.
    pub most_connections: u64,
    /// Connections that came into use.
    pub established: u64,
    /// Connections that were asked for, here.
    pub requests: u64,
    /// Refused by the peer.
    pub refused: u64,
    /// Connections that did not come about.
    pub failed: u64,
    /// Connections given up because they were idle.
    pub given_up: u64,
    /// Connections that carry datagrams, now: the network does not let these through.
    pub contacts: u64,
    /// Such connections that came into use.
    pub contacted: u64,
    /// Connection requests with a wrong proof, or that nobody waited for.
    pub rejected: u64,
    /// Bytes of memory of these machines, now.
    pub memory_bytes: u64,
}
