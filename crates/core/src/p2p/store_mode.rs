//! How a long payload is written into a ring: through the caches, or past them.
//!
//! Through the caches is the better way while the two processors are near each other: lines that have left the receiver's cache, as those
//! of a long ring have, are written at once, and then come from cache to cache. Where the processors are far, as two virtual ones are from
//! time to time, each line costs a round trip before it can be written: 16 KiB take 6 us. Stores past the caches wait for no line: 0.2 us,
//! and the receiver reads from memory in one more. Which it is changes without a word, so the sender looks at how long its writing
//! takes.
//!
//! Of shorter payloads that says nothing: they are written into the processor's own buffers, and it is the receiver who waits for the
//! lines one by one. They go past the caches while the peer is known to be far (one way, between far processors: 512 bytes 0.81 us and
//! past the caches 0.64, 8 KiB 3.3 and 1.9; 4 KiB one after the other 2.0 and 0.5. Between near ones it takes twice as long).
//! A sender finds out now and then while it waits for the same peer ([`tutti_transport::line`]).

use tutti_sys::clock;
use tutti_transport::line::Line;

/// Payloads whose writing is timed.
const BYTES: usize = (8 << 10) + 1;
/// Payloads that pass the caches by where the peer is far.
const SHORT_BYTES: usize = 257;
/// After so many of these it is looked again how far the peer is.
const PAYLOADS: u8 = 64;
/// What was found holds for so many times as many, unless it is found again.
const HOLDS: u8 = 32;
/// Slow: so many bytes, or fewer, a tick of the clock. Near ones are written at four to twenty, far ones at one.
const SLOW_BYTES: u64 = 2;
/// Payloads that are written past the caches after a slow one.
const STREAMED: u16 = 256;

/// What a sender knows about writing to one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreMode {
    /// So many payloads are still to be written past the caches.
    pub(crate) streamed: u16,
    /// The peer's core shares no cache with this one.
    far: bool,
    /// Payloads since it was last due to look how far it is, and how often it was due since that was found.
    sent: u8,
    due: u8,
}

impl StoreMode {
    /// Who is still to write so many payloads past the caches.
    pub(crate) fn still(streamed: u16) -> StoreMode {
        StoreMode { streamed, ..StoreMode::default() }
    }

    /// Fills `out` in one of two ways.
    #[inline]
    pub fn fill(
        &mut self,
        out: &mut [u8],
        cached: impl FnOnce(&mut [u8]),
        streaming: impl FnOnce(&mut [u8]),
    ) {
        if out.len() < SHORT_BYTES {
            return cached(out);
        }
        self.sent = self.sent.saturating_add(1);
        match () {
            () if self.far => streaming(out),
            () if out.len() < BYTES => cached(out),
            () => self.fill_timed(out, cached, streaming, clock::ticks),
        }
    }

    /// Whether it is time to look how far the peer is: once each time.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.sent >= PAYLOADS && self.falls_due()
    }

    #[cold]
    fn falls_due(&mut self) -> bool {
        (self.sent, self.due) = (0, self.due.saturating_add(1));
        self.far &= self.due <= HOLDS;
        true
    }

    /// A line of the peer has come from there.
    pub fn line_came(&mut self, line: Line) {
        (self.far, self.due) = (line == Line::Far, 0);
    }

    fn fill_timed(
        &mut self,
        out: &mut [u8],
        cached: impl FnOnce(&mut [u8]),
        streaming: impl FnOnce(&mut [u8]),
        mut now: impl FnMut() -> u64,
    ) {
        if self.passes_by() {
            return streaming(out);
        }
        let (begun, bytes) = (now(), out.len() as u64);
        cached(out);
        self.took(now().wrapping_sub(begun), bytes / SLOW_BYTES);
    }

    /// Whether the next payload is to go past the caches.
    #[inline]
    pub(crate) fn passes_by(&mut self) -> bool {
        let passes_by = self.streamed > 0;
        self.streamed -= u16::from(passes_by);
        passes_by
    }

    /// A payload has gone through the caches in so many ticks; more than `most` are slow.
    #[inline]
    pub(crate) fn took(&mut self, ticks: u64, most: u64) {
        if ticks > most {
            self.streamed = STREAMED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` payloads of 16 KiB go past the caches, if writing one through them takes so many ticks.
    fn check(pace: &mut StoreMode, ticks: u64, count: u32, expected: u32) {
        let (mut out, mut streamed, mut time) = (vec![0; 16 << 10], 0, 0);
        for _ in 0..count {
            let now = || {
                time += ticks;
                time
            };
            pace.fill_timed(&mut out, |_| {}, |_| streamed += 1, now);
        }
        assert_eq!(streamed, expected, "{ticks} {count}");
    }

    #[test]
    fn who_writes_slowly_passes_the_caches_by_for_a_while() {
        let mut pace = StoreMode::default();
        check(&mut pace, 4_000, 1000, 0);
        check(&mut pace, 15_000, 1 + 10, 10);
        check(&mut pace, 4_000, 1000, u32::from(STREAMED) - 10);
        check(&mut pace, 15_000, 3 * (1 + u32::from(STREAMED)), 3 * u32::from(STREAMED));
    }

    #[test]
    fn what_is_short_is_not_timed() {
        let mut pace = StoreMode::still(1);
        pace.fill(&mut [0; BYTES - 1], |_| {}, |_| panic!("it is short"));
        let mut streamed = false;
        pace.fill(&mut [0; BYTES], |_| {}, |_| streamed = true);
        assert!(streamed);
    }

    /// Of so many payloads of one length those that go past the caches, after such a line.
    fn check_far(line: Line, bytes: usize, count: u32, expected: u32) {
        let (mut pace, mut out, mut streamed) = (StoreMode::default(), vec![0; bytes], 0);
        pace.line_came(line);
        for _ in 0..count {
            pace.fill(&mut out, |_| {}, |_| streamed += 1);
            pace.is_due();
        }
        assert_eq!(streamed, expected, "{line:?} {bytes} {count}");
    }

    #[test]
    fn the_caches_are_passed_by_towards_far_peers() {
        check_far(Line::Far, SHORT_BYTES - 1, 10, 0);
        check_far(Line::Far, SHORT_BYTES, 10, 10);
        check_far(Line::Far, BYTES, 10, 10);
        check_far(Line::Near, SHORT_BYTES, 10, 0);
        let holds = u32::from(PAYLOADS) * (u32::from(HOLDS) + 1);
        check_far(Line::Far, 1000, holds + 500, holds);
    }

    #[test]
    fn it_is_looked_now_and_then_how_far_the_peer_is() {
        let mut pace = StoreMode::default();
        let mut due = |bytes: usize| {
            let mut out = vec![0; bytes];
            (0..1000)
                .filter(|_| {
                    pace.fill(&mut out, |_| {}, |_| {});
                    pace.is_due()
                })
                .count()
        };
        assert_eq!((due(SHORT_BYTES - 1), due(SHORT_BYTES)), (0, 1000 / usize::from(PAYLOADS)));
    }
}
