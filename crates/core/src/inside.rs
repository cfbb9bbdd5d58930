//! How long this process has been inside of MPI, waiting for or moving operations: what tuning decides by
//! ([`tutti_coll::tune`]). Nothing is measured, and nothing is spent, unless somebody asked for it.
//!
//! A program may bracket what is to count: from MPI_Pcontrol(0) to the next MPI_Pcontrol(1) time stands still
//! here.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tutti_sys::clock;

/// Number of live [`Measuring`] guards. Time is measured while there is one.
static MEASURING: AtomicU32 = AtomicU32::new(0);
static TOTAL_NS: AtomicU64 = AtomicU64::new(0);
/// Since when time stands still, or 0.
static STANDS_NS: AtomicU64 = AtomicU64::new(0);
/// How long it has stood still before.
static STOOD_NS: AtomicU64 = AtomicU64::new(0);
/// Of so many tests one moves operations on; and how many there were.
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

/// Time does not count from here on (`false`), or counts again.
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

/// When, and how long inside of MPI until then.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The time, as far as it counts.
    pub now_ns: u64,
    /// Inside of MPI since the start.
    pub inside_ns: u64,
}

/// The time now.
pub fn reading() -> Reading {
    let since_ns = STANDS_NS.load(Ordering::Relaxed);
    let now_ns = if since_ns > 0 { since_ns } else { clock::now_ns() };
    Reading {
        now_ns: now_ns.saturating_sub(STOOD_NS.load(Ordering::Relaxed)),
        inside_ns: TOTAL_NS.load(Ordering::Relaxed),
    }
}

/// Time that counts while it lives.
#[derive(Debug)]
pub struct Inside(Option<u64>);

/// What the caller does from here on is inside of MPI; not to be nested.
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

/// From now on one of so many tests that find nothing moves operations on.
pub fn move_on_every(tests: u32) {
    EVERY.store(tests.max(1), Ordering::Relaxed);
}

/// Returns true if time in MPI is not measured and every MPI_Test makes progress.
#[inline]
pub fn is_off() -> bool {
    !is_measured() && EVERY.load(Ordering::Relaxed) == 1
}

/// A test: whether it is one that moves operations on.
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
