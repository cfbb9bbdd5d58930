//! Settings of memory that ranks of a host share with each other.

/// Mechanism by which collectives access the private memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyBy {
    /// XPMEM if its device exists, otherwise process_vm_readv, otherwise KNEM.
    Auto,
    /// process_vm_readv and process_vm_writev.
    Attach,
    /// XPMEM.
    Xpmem,
    /// KNEM.
    Knem,
}

/// Mechanism of one-sided communication with ranks of the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneSided {
    /// Direct access by load and store or system calls, where possible.
    Auto,
    /// Messages, as between hosts.
    Messages,
}

/// Whether buffers that are used often become shared memory in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Mapping after some uses.
    Auto,
    /// Mapping at the first use.
    Always,
    /// Never.
    Never,
}

/// Whether mapped memory that peers have read is written back to main memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedHome {
    /// Write-back if the peers are on distant processors and the content changes.
    Auto,
    /// Write-back after each use, for tests.
    Always,
    /// Never.
    Never,
}

/// Settings of memory that ranks of a host share with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMemory {
    /// Back end of collectives for memory that is not mapped.
    pub copy_by: CopyBy,
    /// Mapping of buffers into peers.
    pub mapped: Mapped,
    /// Uses of a buffer by collective operations before it is mapped.
    pub map_after: u64,
    /// Smallest buffer that is mapped, in whole pages.
    pub map_bytes: u64,
    /// Most memory of a process that is mapped. A fork copies it.
    pub mapped_limit: u64,
    /// Whether the kernel reports changes of mapped memory. Otherwise each use queries the kernel.
    pub mapped_watch: bool,
    /// Mapped memory that peers have read is written back to main memory.
    pub mapped_home: MappedHome,
    /// Mechanism of one-sided communication with ranks of the same node.
    pub one_sided: OneSided,
}

impl Default for PeerMemory {
    fn default() -> PeerMemory {
        PeerMemory {
            copy_by: CopyBy::Auto,
            mapped: Mapped::Auto,
            map_after: 8,
            map_bytes: 8 << 10,
            mapped_limit: 1 << 30,
            mapped_watch: true,
            mapped_home: MappedHome::Auto,
            one_sided: OneSided::Auto,
        }
    }
}
