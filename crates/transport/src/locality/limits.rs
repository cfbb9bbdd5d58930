//! All limits of the copy decisions, with the measurements behind them.
//!
//! They are constants and not part of the probed model: the branches that they decide are inlined into each
//! copy, the model is read before it is known where processes run, and what they are compared with is probed
//! anyway, all the time, by the waits and copies of the program itself. All were measured on virtual machines
//! of 2 to 4 processors, AMD EPYC (family 25, cores of one and of different last-level caches) where nothing
//! else is said; ticks are those of the time-stamp counter.

/// Looks of a wait whose latency is to be observed: some microseconds.
pub(super) const LOOKS: u32 = 150;
/// Ticks that a line takes of a core that shares the last level of caches, at most: 90 to 150 were measured,
/// of others 390 to 540. What takes longer than the second was interrupted.
pub(super) const NEAR_TICKS: u64 = 300;
pub(super) const FAR_TICKS: u64 = 5000;

/// Votes of a far line, against one of a near one, and what makes far: one such line, or where both are
/// found, a third of them.
pub(super) const FAR_VOTE: u8 = 2;
/// Bound on the votes for peers at several distances.
pub(super) const MOST_VOTES: u8 = 4;

/// Copies of [`FAR_BYTES`] and more, after which the distance is due to be observed again.
pub(super) const DUE_USES: u16 = 64;
/// Number of copies for which an observation holds.
pub(super) const HELD_USES: u16 = 2048;

/// Fewest bytes of copies to a bank or a ring that bypass the caches towards far cores. Lines that this core
/// has written would move to the far core one by one, and have to be taken back for the next operation.
/// Allreduce of 2 KiB by banks takes 1.45 us, past the caches 0.95. A message of 512 B one way takes 0.81 and
/// 0.64, of 8 KiB 3.3 and 1.9; messages of 4 KiB one after the other 2.0 and 0.5. Between near cores
/// bypassing takes twice as long: allreduce of 4 KiB 0.7 and 1.35.
pub const FAR_BYTES: usize = 257;

/// Destination of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Bank of this process, which others read.
    Bank,
    /// Ring to a peer.
    Ring,
    /// Memory of a peer, which the peer reads when the operation has ended.
    PeerMemory,
}

/// Sizes from which copies take each path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Fewest bytes that bypass the caches towards far cores.
    pub far_bytes: usize,
    /// Fewest bytes that bypass the caches while the distance is unknown.
    pub unknown_bytes: usize,
    /// Fewest bytes whose path is chosen by the time of recent copies, unless the distance decides.
    pub timed_bytes: usize,
    /// Fewest bytes that bypass the caches in any case.
    pub long_bytes: usize,
    /// Bytes a tick at or below which a copy through the caches counts as slow.
    pub slow_bytes: u64,
}

/// A broadcast of 4 KiB took 1.9 us through the caches and 0.4 past them between far cores, hence
/// `unknown_bytes`. From `timed_bytes` on, where the cores are near and the lines have left the reader's
/// cache, as those of a bank that moves about have ([`crate::banks::Banks::spread`]), the way through the
/// caches is the shorter one. `long_bytes`: 64 KiB by reduce 5.4 us and past them 4.8. Past the caches about
/// `slow_bytes` a tick are written.
const BANK: Limits = Limits {
    far_bytes: FAR_BYTES,
    unknown_bytes: 4 << 10,
    timed_bytes: (8 << 10) + 1,
    long_bytes: 32 << 10,
    slow_bytes: 4,
};

/// Limits for rings. Payloads below `timed_bytes` are written into the processor's own buffers, so that their
/// time says nothing. Near rings are written at four to twenty bytes a tick, far ones at one. 16 KiB take 4.8
/// us, past the caches 2.1; a stream of them 2.8 and 0.9.
const RING: Limits = Limits {
    far_bytes: FAR_BYTES,
    unknown_bytes: usize::MAX,
    timed_bytes: (8 << 10) + 1,
    long_bytes: usize::MAX,
    slow_bytes: 2,
};

/// Limits for memory of a peer. It stays in place, and its owner has read it since the last copy. Copies run
/// at two to four bytes a tick between near cores, below one between far ones. A gather of 64 KiB on 8 ranks
/// of 2 far processors takes 209 us, past the caches 66.
const PEER_MEMORY: Limits = Limits {
    far_bytes: usize::MAX,
    unknown_bytes: usize::MAX,
    timed_bytes: 4 << 10,
    long_bytes: usize::MAX,
    slow_bytes: 1,
};

impl Destination {
    #[inline]
    pub(super) const fn limits(self) -> Limits {
        match self {
            Destination::Bank => BANK,
            Destination::Ring => RING,
            Destination::PeerMemory => PEER_MEMORY,
        }
    }
}

/// Number of copies that bypass the caches after a slow one.
pub(super) const STREAMED: u16 = 256;

/// Lengths of memory that is written back. Shorter memory is not worth it; longer memory has mostly left the
/// caches. 64 KiB that far peers have read are rewritten in 30 us. Once written back, which takes 5 us, they
/// are rewritten in 6; within one last-level cache the figures are 8 and 6. A program that rewrites and
/// broadcasts 1 MiB takes a fifth of the time, reduces of 64 KiB to 1 MiB a third.
pub(super) const WRITTEN_BACK_BYTES: std::ops::RangeInclusive<u64> = (16 << 10)..=(4 << 20);
/// Number of exposures after which the distance is due to be observed again, in at most `DUE_WAITS` waits.
/// Where ranks share processors, most peers that a rank waits for are not running.
pub(super) const DUE_LOANS: u32 = 16;
pub(super) const DUE_WAITS: u32 = 4;
