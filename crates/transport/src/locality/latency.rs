//! Distance of a peer's core, by the latency of a line that it has just written.

use tutti_sys::clock;

use super::limits::{FAR_TICKS, LOOKS, NEAR_TICKS};

/// Distance between two cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreDistance {
    /// Core that shares a cache with this one.
    Near,
    /// Core that shares no cache with this one.
    Far,
}

/// Result of watching for a peer's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// True if the awaited store has come.
    pub came: bool,
    /// Distance of the storing core, if the store came during the watch.
    pub distance: Option<CoreDistance>,
}

/// Watches for a store of a peer for a few microseconds.
pub fn observe(has_come: impl FnMut() -> bool) -> Observed {
    observe_by(has_come, clock::ticks_after_loads)
}

fn observe_by(mut has_come: impl FnMut() -> bool, mut now: impl FnMut() -> u64) -> Observed {
    for look in 0..LOOKS {
        let begun = now();
        if has_come() {
            let ticks = now().wrapping_sub(begun);
            // What was there at the first look may have been there for long.
            return Observed { came: true, distance: if look > 0 { of_ticks(ticks) } else { None } };
        }
    }
    Observed { came: false, distance: None }
}

fn of_ticks(ticks: u64) -> Option<CoreDistance> {
    match ticks {
        0..NEAR_TICKS => Some(CoreDistance::Near),
        NEAR_TICKS..FAR_TICKS => Some(CoreDistance::Far),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a store that is seen by look number `at`, which takes `ticks` ticks.
    fn check(at: u32, ticks: u64, came: bool, distance: Option<CoreDistance>) {
        let (looks, time) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        let has_come = || {
            looks.set(looks.get() + 1);
            let is_here = looks.get() > at;
            time.set(time.get() + if is_here { ticks } else { 20 });
            is_here
        };
        assert_eq!(observe_by(has_come, || time.get()), Observed { came, distance }, "{at} {ticks}");
    }

    #[test]
    fn the_look_that_finds_it_tells_how_far_it_was() {
        check(3, 130, true, Some(CoreDistance::Near));
        check(3, 450, true, Some(CoreDistance::Far));
        check(3, 10_000, true, None);
        check(0, 450, true, None);
        check(LOOKS - 1, 450, true, Some(CoreDistance::Far));
        check(LOOKS, 450, false, None);
    }
}
