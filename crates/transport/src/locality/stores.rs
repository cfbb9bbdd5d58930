//! Stores of copies: through the caches, or past them.
//!
//! Either way, lines are written that another core has read and that have to be taken back from it first.
//! Stores through the caches are better while the two processors are near each other. Lines that have left
//! the reader's cache, as those of a long ring have, are written at once, and then move from cache to cache.
//! Where the processors are far, as two virtual ones are from time to time, each line costs a round trip
//! before it can be written. Stores past the caches wait for no line, but then the reader has to go to
//! memory. Hence a writer times its long copies, and bypasses the caches for a while after a slow one.
//!
//! The time of a short copy says nothing: it goes into the processor's own buffers, and the reader waits for
//! the lines one by one. Short copies therefore bypass the caches while the reader is known to be far.

use std::sync::atomic::{AtomicU16, Ordering};

use tutti_sys::clock;

use super::limits::{Destination, Limits, STREAMED};
use super::{BANK_READERS, CoreDistance, Estimate, FAR_BYTES};

/// Path on which a copy is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorePath {
    /// Store through the caches.
    Cached,
    /// Store on the path that was faster recently ([`Timer`]).
    Timed,
    /// Store past the caches.
    PastCaches,
}

/// Returns the path for a copy of `bytes` bytes. `distance` is that of the reader's core.
#[inline]
pub fn path(to: Destination, bytes: usize, distance: Option<CoreDistance>) -> StorePath {
    let Limits { far_bytes, unknown_bytes, timed_bytes, long_bytes, .. } = to.limits();
    let past_caches = match distance {
        Some(CoreDistance::Far) => bytes >= far_bytes,
        None => (unknown_bytes..timed_bytes).contains(&bytes),
        Some(CoreDistance::Near) => false,
    };
    match () {
        () if past_caches || bytes >= long_bytes => StorePath::PastCaches,
        () if bytes >= timed_bytes => StorePath::Timed,
        () => StorePath::Cached,
    }
}

/// Returns the path for a copy of `bytes` bytes to a bank of this process.
pub fn to_bank(bytes: usize) -> StorePath {
    BANK_READERS.used();
    path(Destination::Bank, bytes, BANK_READERS.distance())
}

/// Choice of the path from the times of earlier copies.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    slow_bytes: u64,
    /// Number of copies that are still to bypass the caches.
    streamed: u16,
}

impl Timer {
    /// Creates a timer without any measurements.
    pub const fn new(to: Destination) -> Timer {
        Timer { slow_bytes: to.limits().slow_bytes, streamed: 0 }
    }

    /// Copies `bytes` bytes on the path that is faster at present.
    #[inline]
    pub fn store(&mut self, bytes: usize, cached: impl FnOnce(), streaming: impl FnOnce()) {
        self.store_by(bytes, cached, streaming, clock::ticks);
    }

    /// Copies where any thread of the process may copy, each to its own part. `streamed` is the shared state
    /// of such copies; an update of another thread may get lost.
    pub fn store_shared(
        to: Destination,
        streamed: &AtomicU16,
        bytes: usize,
        cached: impl FnOnce(),
        streaming: impl FnOnce(),
    ) {
        let mut timer = Timer { streamed: streamed.load(Ordering::Relaxed), ..Timer::new(to) };
        timer.store(bytes, cached, streaming);
        streamed.store(timer.streamed, Ordering::Relaxed);
    }

    fn store_by(
        &mut self,
        bytes: usize,
        cached: impl FnOnce(),
        streaming: impl FnOnce(),
        mut now: impl FnMut() -> u64,
    ) {
        if self.streamed > 0 {
            self.streamed -= 1;
            return streaming();
        }
        let begun = now();
        cached();
        if now().wrapping_sub(begun) > bytes as u64 / self.slow_bytes {
            self.streamed = STREAMED;
        }
    }
}

/// State of a sender about the ring of one peer.
#[derive(Debug)]
pub struct PeerStores {
    timer: Timer,
    distance: Estimate,
}

impl Default for PeerStores {
    fn default() -> PeerStores {
        PeerStores { timer: Timer::new(Destination::Ring), distance: Estimate::of_one() }
    }
}

impl PeerStores {
    /// Fills `out` on one of the two paths.
    #[inline]
    pub fn fill(
        &mut self,
        out: &mut [u8],
        cached: impl FnOnce(&mut [u8]),
        streaming: impl FnOnce(&mut [u8]),
    ) {
        if out.len() < FAR_BYTES {
            return cached(out);
        }
        self.distance.used();
        match path(Destination::Ring, out.len(), self.distance.distance()) {
            StorePath::Cached => cached(out),
            StorePath::PastCaches => streaming(out),
            StorePath::Timed => {
                let out = std::cell::RefCell::new(out);
                let bytes = out.borrow().len();
                self.timer.store(
                    bytes,
                    || cached(&mut out.borrow_mut()),
                    || streaming(&mut out.borrow_mut()),
                );
            }
        }
    }

    /// Returns true if it is time to observe how far the peer is: once each time.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        let is_due = self.distance.is_due();
        if is_due {
            self.distance.note(None);
        }
        is_due
    }

    /// Notes the observed distance of the peer.
    pub fn note(&mut self, distance: CoreDistance) {
        self.distance.note(Some(distance));
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::{DUE_USES, HELD_USES};
    use super::*;

    /// The first length of a payload to a ring that is timed.
    const TIMED_BYTES: usize = Destination::Ring.limits().timed_bytes;

    fn check_path(to: Destination, bytes: usize, expected: [StorePath; 3]) {
        let distances = [None, Some(CoreDistance::Near), Some(CoreDistance::Far)];
        assert_eq!(distances.map(|distance| path(to, bytes, distance)), expected, "{to:?} {bytes}");
    }

    #[test]
    fn what_far_cores_read_passes_the_caches_by() {
        use Destination::{Bank, PeerMemory, Ring};
        use StorePath::{Cached, PastCaches, Timed};
        check_path(Bank, 256, [Cached; 3]);
        check_path(Bank, 257, [Cached, Cached, PastCaches]);
        check_path(Bank, 4095, [Cached, Cached, PastCaches]);
        check_path(Bank, 4096, [PastCaches, Cached, PastCaches]);
        check_path(Bank, 8192, [PastCaches, Cached, PastCaches]);
        check_path(Bank, 8193, [Timed, Timed, PastCaches]);
        check_path(Bank, 32 << 10, [PastCaches; 3]);
        check_path(Ring, 256, [Cached; 3]);
        check_path(Ring, 257, [Cached, Cached, PastCaches]);
        check_path(Ring, 8192, [Cached, Cached, PastCaches]);
        check_path(Ring, 8193, [Timed, Timed, PastCaches]);
        check_path(Ring, 1 << 20, [Timed, Timed, PastCaches]);
        check_path(PeerMemory, 4095, [Cached; 3]);
        check_path(PeerMemory, 4096, [Timed; 3]);
    }

    /// Checks how many of `count` payloads of 16 KiB bypass the caches if writing one through them takes
    /// `ticks` ticks.
    fn check(timer: &mut Timer, ticks: u64, count: u32, expected: u32) {
        let (mut streamed, mut time) = (0, 0);
        for _ in 0..count {
            let now = || {
                time += ticks;
                time
            };
            timer.store_by(16 << 10, || {}, || streamed += 1, now);
        }
        assert_eq!(streamed, expected, "{ticks} {count}");
    }

    #[test]
    fn who_writes_slowly_passes_the_caches_by_for_a_while() {
        let mut timer = Timer::new(Destination::Ring);
        check(&mut timer, 4_000, 1000, 0);
        check(&mut timer, 15_000, 1 + 10, 10);
        check(&mut timer, 4_000, 1000, u32::from(STREAMED) - 10);
        check(&mut timer, 15_000, 3 * (1 + u32::from(STREAMED)), 3 * u32::from(STREAMED));
    }

    #[test]
    fn what_is_short_is_not_timed() {
        let mut stores = PeerStores::default();
        stores.timer.streamed = 1;
        stores.fill(&mut [0; TIMED_BYTES - 1], |_| {}, |_| panic!("it is short"));
        let mut streamed = false;
        stores.fill(&mut [0; TIMED_BYTES], |_| {}, |_| streamed = true);
        assert!(streamed);
    }

    /// Checks how many of `count` payloads of one length bypass the caches after such an observation.
    fn check_far(distance: CoreDistance, bytes: usize, count: u32, expected: u32) {
        let (mut stores, mut out, mut streamed) = (PeerStores::default(), vec![0; bytes], 0);
        stores.note(distance);
        for _ in 0..count {
            stores.fill(&mut out, |_| {}, |_| streamed += 1);
            stores.is_due();
        }
        assert_eq!(streamed, expected, "{distance:?} {bytes} {count}");
    }

    #[test]
    fn the_caches_are_passed_by_towards_far_peers() {
        use CoreDistance::{Far, Near};
        check_far(Far, FAR_BYTES - 1, 10, 0);
        check_far(Far, FAR_BYTES, 10, 10);
        check_far(Far, TIMED_BYTES, 10, 10);
        check_far(Near, FAR_BYTES, 10, 0);
        let holds = u32::from(HELD_USES) - 1;
        check_far(Far, 1000, holds + 500, holds);
    }

    #[test]
    fn it_is_looked_now_and_then_how_far_the_peer_is() {
        let mut stores = PeerStores::default();
        let mut due = |bytes: usize| {
            let mut out = vec![0; bytes];
            (0..1000)
                .filter(|_| {
                    stores.fill(&mut out, |_| {}, |_| {});
                    stores.is_due()
                })
                .count()
        };
        assert_eq!((due(FAR_BYTES - 1), due(FAR_BYTES)), (0, 1000 / usize::from(DUE_USES)));
    }
}
