//! Time that this process spends in MPI, waiting for or progressing operations. Tuning decides by it
//! ([`tutti_coll::tune`]). Nothing is measured unless tuning requests it.
//!
//! A program may exclude phases: the clock stands still from MPI_Pcontrol(0) to the next MPI_Pcontrol(1).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tutti_sys::clock;

/// Number of live [`Measuring`] guards. Time is measured while there is one.
static MEASURING: AtomicU32 = AtomicU32::new(0);
static TOTAL_NS: AtomicU64 = AtomicU64::new(0);
/// Time in nanoseconds since which the clock stands still, or 0.
static STANDS_NS: AtomicU64 = AtomicU64::new(0);
/// Total time of earlier standstills in nanoseconds.
static STOOD_NS: AtomicU64 = AtomicU64::new(0);
/// Interval in tests at which a test makes progress, and the number of tests so far.
static EVERY: AtomicU32 = AtomicU32::new(1);
static TESTS: AtomicU32 = AtomicU32::new(0);

/// Guard that keeps time measured while it lives.
#[derive(Debug)]
pub struct Measuring(());

impl Measuring {
    /// Begins to measure time, if no other guard does already.
    pub fn begin() -> Measuring {
        MEASURING.fetch_add(1, Ordering::Relaxed);
        Measuring(())
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        MEASURING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[inline]
fn is_measured() -> bool {
    MEASURING.load(Ordering::Relaxed) > 0
}

/// Stops the clock (`false`) or continues it.
pub fn counts(counts: bool) {
    let now_ns = clock::now_ns();
    match (counts, STANDS_NS.load(Ordering::Relaxed)) {
        (false, 0) => STANDS_NS.store(now_ns, Ordering::Relaxed),
        (true, since_ns) if since_ns > 0 => {
            STOOD_NS.fetch_add(now_ns.saturating_sub(since_ns), Ordering::Relaxed);
            STANDS_NS.store(0, Ordering::Relaxed);
        }
        _ => {}
    }
}

/// Reading of the clock, with the time spent in MPI so far.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Time in nanoseconds, without standstills.
    pub now_ns: u64,
    /// Time in MPI since the start, in nanoseconds.
    pub inside_ns: u64,
}

/// Returns the current reading of the clock.
pub fn reading() -> Reading {
    let since_ns = STANDS_NS.load(Ordering::Relaxed);
    let now_ns = if since_ns > 0 { since_ns } else { clock::now_ns() };
    Reading {
        now_ns: now_ns.saturating_sub(STOOD_NS.load(Ordering::Relaxed)),
        inside_ns: TOTAL_NS.load(Ordering::Relaxed),
    }
}

/// Guard during whose life time counts as spent in MPI.
#[derive(Debug)]
pub struct Inside(Option<u64>);

/// Starts to count time as spent in MPI, until the guard is dropped. Guards must not be nested.
#[inline]
pub fn measure() -> Inside {
    Inside((is_measured() && STANDS_NS.load(Ordering::Relaxed) == 0).then(clock::now_ns))
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        if let Some(begun_ns) = self.0 {
            TOTAL_NS.fetch_add(clock::now_ns().saturating_sub(begun_ns), Ordering::Relaxed);
        }
    }
}

/// Makes only one of `tests` tests that find nothing progress operations.
pub fn move_on_every(tests: u32) {
    EVERY.store(tests.max(1), Ordering::Relaxed);
}

/// Returns true if time in MPI is not measured and every MPI_Test makes progress.
#[inline]
pub fn is_off() -> bool {
    !is_measured() && EVERY.load(Ordering::Relaxed) == 1
}

/// Counts a test. Returns true if it must make progress.
#[inline]
pub fn test_moves_on() -> bool {
    let every = EVERY.load(Ordering::Relaxed);
    every == 1 || TESTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stands_still_where_it_is_said() {
        let measuring = Measuring::begin();
        let before = reading();
        counts(false);
        let first = reading();
        drop(measure());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!((reading().now_ns, reading().inside_ns), (first.now_ns, first.inside_ns));
        counts(true);
        counts(true);
        let after = reading();
        assert!(before.now_ns <= first.now_ns && first.now_ns <= after.now_ns);
        assert!(clock::now_ns() - after.now_ns >= 20_000_000);
        assert!(!is_off());
        drop(measuring);
        assert!(is_off());
    }

    #[test]
    fn one_test_of_so_many_moves_on() {
        move_on_every(4);
        assert_eq!((0..16).filter(|_| test_moves_on()).count(), 4);
        move_on_every(1);
        assert!(test_moves_on() && test_moves_on());
    }
}
