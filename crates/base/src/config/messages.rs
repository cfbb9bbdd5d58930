//! Settings of messages: protocols, the memory between sender and receiver, and single copies.

/// Use of single copies: the receiver reads large messages from the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleCopy {
    /// Single copies if a test read of the peer's memory succeeds, and if they should be faster.
    Auto,
    /// Whenever a real read of the peer's memory succeeds.
    Always,
    /// Never: a pipelined double copy through shared memory.
    Never,
}

/// Whether long messages between hosts are read by the network itself (FI_RMA of libfabric).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteRead {
    /// Remote reads if the provider offers them. They are faster than copied streams even if the provider
    /// emulates them by messages.
    Auto,
    /// Never: they are sent.
    Never,
}

/// Messages: protocols, the memory that they pass through, and single copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Largest message that is sent before its receiver requests it, in bytes.
    pub eager_bytes: u64,
    /// Largest eager message between connected processes of different hosts, in bytes.
    pub connected_eager_bytes: u64,
    /// Greatest memory of a process for messages whose receives are not posted yet, in bytes.
    pub unexpected_bytes: u64,
    /// Size of the shared payload ring between two processes that talk (0: by the number of ranks).
    pub ring_bytes: u64,
    /// Piece in which a long message passes through shared memory.
    pub fragment_bytes: u64,
    /// Whether long messages are copied by process_vm_readv.
    pub single_copy: SingleCopy,
    /// Smallest message for a single copy.
    pub single_copy_bytes: u64,
    /// Whether the network reads long messages by itself.
    pub remote_read: RemoteRead,
    /// Smallest message between hosts that its receiver reads (0: none).
    pub remote_read_bytes: u64,
}

impl Default for Messages {
    fn default() -> Messages {
        Messages {
            eager_bytes: 16 << 10,
            connected_eager_bytes: 64 << 10,
            unexpected_bytes: 64 << 20,
            ring_bytes: 0,
            fragment_bytes: 32 << 10,
            single_copy: SingleCopy::Auto,
            single_copy_bytes: 64 << 20,
            remote_read: RemoteRead::Auto,
            remote_read_bytes: 256 << 10,
        }
    }
}
