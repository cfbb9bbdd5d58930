//! Reasons for which memory stays private. Each refusal has one, and all are counted.

use std::fmt;

/// Reason for which a buffer is not mapped into peers. The buffer is exposed all the same, through the back
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PrivateReason {
    /// The setting TUTTI_MAPPED is `never`.
    Off,
    /// The system cannot say what addresses are mapped to (PROCMAP_QUERY, Linux 6.11).
    NoQuery,
    /// The shared object of this process could not be made.
    NoObject,
    /// Fewer bytes in whole pages than map_bytes of TUTTI_DEBUG.
    TooSmall,
    /// Entries with gaps between them, which others may write meanwhile or are most of it.
    Gaps,
    /// Not mapped at all.
    NotMapped,
    /// A stack.
    Stack,
    /// Mapped from a file or a device.
    FileBacked,
    /// Shared by the user already.
    Shared,
    /// Not both readable and writable, or executable.
    Protected,
    /// Pages of hugetlbfs.
    HugeTlb,
    /// Special memory of the kernel, or memory with an attribute that it would lose (MADV_WIPEONFORK, a
    /// protection key).
    Special,
    /// Too many different mappings.
    Fragmented,
    /// Pages are registered with a device or an io_uring, which would go on using the old ones.
    Pinned,
    /// A userfaultfd is open in this process.
    Userfault,
    /// Pages are spread over NUMA nodes, or lie on another one.
    Spread,
    /// Pages may not be locked (RLIMIT_MEMLOCK), which would keep their content from being discarded. Nor is
    /// the memory known to come from the C library's malloc, which discards nothing in use.
    Unlockable,
    /// Some of the memory is mapped already, and peers may be working there.
    Busy,
    /// The limit mapped_limit of TUTTI_DEBUG is reached.
    Limit,
    /// No slot is free: the program keeps mapping new regions.
    Slots,
    /// Code of the program makes system calls that concern memory without the C library.
    OwnCalls,
    /// A child of fork.
    Forked,
    /// The system reported an error.
    System,
}

impl PrivateReason {
    /// Number of the reasons above.
    pub const COUNT: usize = PrivateReason::System as usize + 1;

    /// All reasons in the order of their numbers.
    pub const ALL: [PrivateReason; PrivateReason::COUNT] = [
        PrivateReason::Off,
        PrivateReason::NoQuery,
        PrivateReason::NoObject,
        PrivateReason::TooSmall,
        PrivateReason::Gaps,
        PrivateReason::NotMapped,
        PrivateReason::Stack,
        PrivateReason::FileBacked,
        PrivateReason::Shared,
        PrivateReason::Protected,
        PrivateReason::HugeTlb,
        PrivateReason::Special,
        PrivateReason::Fragmented,
        PrivateReason::Pinned,
        PrivateReason::Userfault,
        PrivateReason::Spread,
        PrivateReason::Unlockable,
        PrivateReason::Busy,
        PrivateReason::Limit,
        PrivateReason::Slots,
        PrivateReason::OwnCalls,
        PrivateReason::Forked,
        PrivateReason::System,
    ];

    /// Returns true if more uses of the same buffer cannot change it.
    pub(super) fn is_final(self) -> bool {
        matches!(
            self,
            PrivateReason::Off
                | PrivateReason::NoQuery
                | PrivateReason::NoObject
                | PrivateReason::OwnCalls
                | PrivateReason::Forked
        )
    }
}

impl fmt::Display for PrivateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PrivateReason::Off => "TUTTI_MAPPED is never",
            PrivateReason::NoQuery => {
                "the kernel cannot say what addresses are mapped to (PROCMAP_QUERY, Linux 6.11)"
            }
            PrivateReason::NoObject => "no shared memory object could be made",
            PrivateReason::TooSmall => "fewer bytes in whole pages than map_bytes of TUTTI_DEBUG",
            PrivateReason::Gaps => {
                "gaps between the entries, which are not part of the operation and may be in use"
            }
            PrivateReason::NotMapped => "not mapped",
            PrivateReason::Stack => "on a stack",
            PrivateReason::FileBacked => "mapped from a file or a device",
            PrivateReason::Shared => "shared by the program already",
            PrivateReason::Protected => "read-only, or executable",
            PrivateReason::HugeTlb => "huge pages of hugetlbfs",
            PrivateReason::Special => "special memory: of the kernel, or with an attribute that it would lose",
            PrivateReason::Fragmented => "too many different mappings in one buffer",
            PrivateReason::Pinned => "this process has memory registered with a device or an io_uring",
            PrivateReason::Userfault => "this process uses a userfaultfd",
            PrivateReason::Spread => "pages lie on other NUMA nodes",
            PrivateReason::Unlockable => {
                "RLIMIT_MEMLOCK is too low, and the memory is not known to come from malloc"
            }
            PrivateReason::Busy => "part of it is mapped already and in use",
            PrivateReason::Limit => "mapped_limit of TUTTI_DEBUG is reached",
            PrivateReason::Slots => "too many regions",
            PrivateReason::OwnCalls => {
                "code of the program, or of a library, makes children or changes memory by system calls of its own"
            }
            PrivateReason::Forked => "this process is a child of fork",
            PrivateReason::System => "the system reported an error",
        })
    }
}
