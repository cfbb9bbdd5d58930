//! Counters of a process's network traffic, shown by `tutti info` and MPI_T.

/// Counts since the start of the process, except for fields documented as "at present".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounters {
    /// Peers with which datagrams were exchanged.
    pub peers: u64,
    /// Records sent by datagrams.
    pub sent_records: u64,
    /// Records received by datagrams.
    pub received_records: u64,
    /// Payload bytes of the records sent by datagrams.
    pub sent_bytes: u64,
    /// Payload bytes of the records received by datagrams.
    pub received_bytes: u64,
    /// Datagrams sent, including acknowledgements and repetitions.
    pub sent_datagrams: u64,
    /// Datagrams received and accepted.
    pub received_datagrams: u64,
    /// Datagrams sent more than once.
    pub repeated_datagrams: u64,
    /// Sent datagrams that contain only an acknowledgement.
    pub acknowledgements: u64,
    /// Dropped datagrams that were not in the format.
    pub malformed: u64,
    /// Dropped datagrams of another job or for another rank.
    pub foreign: u64,
    /// Dropped datagrams with a wrong tag.
    pub forged: u64,
    /// Dropped datagrams that had arrived before (a repetition or a replay).
    pub duplicates: u64,
    /// Dropped datagrams for which the receiver had no room.
    pub beyond: u64,
    /// Dropped datagrams that were well formed but made no sense.
    pub absurd: u64,
    /// Connections in use at present.
    pub connections: u64,
    /// Highest number of connections at the same time.
    pub most_connections: u64,
    /// Connections that were established.
    pub established: u64,
    /// Connections requested by this process.
    pub requests: u64,
    /// Requests that the peer refused.
    pub refused: u64,
    /// Attempts to connect that failed.
    pub failed: u64,
    /// Connections closed because they were idle.
    pub given_up: u64,
    /// Connections at present that carry datagrams, because the network does not let these through.
    pub contacts: u64,
    /// Connections for datagrams that were established.
    pub contacted: u64,
    /// Rejected requests: the proof was wrong or no connection was expected.
    pub rejected: u64,
    /// Memory of the connection machines at present, in bytes.
    pub memory_bytes: u64,
}
