//! How a long payload is written into a ring: through the caches, or past them.
//!
//! Through the caches is the better way while the two processors are near each other: lines that have left the receiver's cache, as those
//! of a long ring have, are written at once, and then come from cache to cache. Where the processors are far, as two virtual ones are from
//! time to time, each line costs a round trip before it can be written: 16 KiB take 6 us. Stores past the caches wait for no line: 0.2 us,
//! and the receiver reads from memory in one more. Which it is changes without a word, so the sender looks at how long its writing
//! takes.

use tutti_sys::clock;

/// Payloads from here on.
const BYTES: usize = (8 << 10) + 1;
/// Slow: so many bytes, or fewer, a tick of the clock. Near ones are written at four to twenty, far ones at one.
const SLOW_BYTES: u64 = 2;
/// Payloads that are written past the caches after a slow one.
const STREAMED: u16 = 256;

/// What a sender knows about writing to one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// So many payloads are still to be written past the caches.
    pub(crate) streamed: u16,
}

impl Pace {
    /// Fills `out` in one of two ways.
    #[inline]
    pub fn fill(
        &mut self,
        out: &mut [u8],
        cached: impl FnOnce(&mut [u8]),
        streaming: impl FnOnce(&mut [u8]),
    ) {
        if out.len() < BYTES {
            return cached(out);
        }
        self.fill_timed(out, cached, streaming, clock::ticks);
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
    fn check(pace: &mut Pace, ticks: u64, count: u32, expected: u32) {
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
        let mut pace = Pace::default();
        check(&mut pace, 4_000, 1000, 0);
        check(&mut pace, 15_000, 1 + 10, 10);
        check(&mut pace, 4_000, 1000, u32::from(STREAMED) - 10);
        check(&mut pace, 15_000, 3 * (1 + u32::from(STREAMED)), 3 * u32::from(STREAMED));
    }

    #[test]
    fn what_is_short_is_not_timed() {
        let mut pace = Pace { streamed: 1 };
        pace.fill(&mut [0; BYTES - 1], |_| {}, |_| panic!("it is short"));
        let mut streamed = false;
        pace.fill(&mut [0; BYTES], |_| {}, |_| streamed = true);
        assert!(streamed);
    }
}
