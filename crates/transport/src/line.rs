//! How far the core of a peer is: by how long a line takes that it has just written.
//!
//! Two cores that share a last-level cache pass a line on in a half to a third of the time that others need. What is best to do with
//! memory that both use depends on it, and nobody can be asked: a hypervisor moves processors about from second to second. So who
//! waits for a peer anyway looks out for its line, and takes the time of the look that finds it.

use tutti_sys::clock;

/// Looks of who watches: some microseconds.
const LOOKS: u32 = 150;
/// Ticks of the clock that a line takes of a core that shares the last level of caches, at most (90 to 150 were measured, of others
/// 390 to 540). What takes longer than the second was interrupted.
const NEAR_TICKS: u64 = 300;
const FAR_TICKS: u64 = 5000;

/// Votes of a far line, against one of a near one, and what makes far: one such line, or where both are found, a third of them.
const FAR_VOTE: u32 = 2;
const MOST_VOTES: u32 = 4;

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A core that shares a cache with this one.
    Near,
    /// Another one.
    Far,
}

/// What a watch has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// It has come.
    pub came: bool,
    /// While it was looked for, from there.
    pub line: Option<Line>,
}

/// Looks for what a peer is about to write, for a few microseconds: whether it has come.
pub fn watch(has_come: impl FnMut() -> bool) -> Watched {
    watch_by(has_come, clock::ticks_after_loads)
}

fn watch_by(mut has_come: impl FnMut() -> bool, mut now: impl FnMut() -> u64) -> Watched {
    for look in 0..LOOKS {
        let begun = now();
        if has_come() {
            let ticks = now().wrapping_sub(begun);
            // What was there at the first look may have been there for long.
            return Watched { came: true, line: if look > 0 { of_ticks(ticks) } else { None } };
        }
    }
    Watched { came: false, line: None }
}

fn of_ticks(ticks: u64) -> Option<Line> {
    match ticks {
        0..NEAR_TICKS => Some(Line::Near),
        NEAR_TICKS..FAR_TICKS => Some(Line::Far),
        _ => None,
    }
}

/// The votes for far lines after one more, of 0 at first: where peers are at several distances, those further away count for more.
pub fn voted(far: u32, line: Line) -> u32 {
    match line {
        Line::Near => far.saturating_sub(1),
        Line::Far => (far + FAR_VOTE).min(MOST_VOTES),
    }
}

/// Whether these are enough.
#[inline]
pub fn is_far(votes: u32) -> bool {
    votes >= FAR_VOTE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is concluded from lines that came from there, each so often.
    fn check_votes(lines: &[(Line, u32)], expected: bool) {
        let each = lines.iter().flat_map(|&(line, times)| (0..times).map(move |_| line));
        assert_eq!(is_far(each.fold(0, voted)), expected, "{lines:?}");
    }

    #[test]
    fn peers_are_far_when_most_lines_say_so() {
        check_votes(&[], false);
        check_votes(&[(Line::Far, 1)], true);
        check_votes(&[(Line::Far, 1), (Line::Near, 1)], false);
        check_votes(&[(Line::Far, 1000), (Line::Near, 2)], true);
        check_votes(&[(Line::Far, 1000), (Line::Near, 3)], false);
        check_votes(&[(Line::Near, 1000), (Line::Far, 1)], true);
    }

    /// It comes at this look, which takes so many ticks.
    fn check(at: u32, ticks: u64, came: bool, line: Option<Line>) {
        let (looks, time) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        let has_come = || {
            looks.set(looks.get() + 1);
            let is_here = looks.get() > at;
            time.set(time.get() + if is_here { ticks } else { 20 });
            is_here
        };
        assert_eq!(watch_by(has_come, || time.get()), Watched { came, line }, "{at} {ticks}");
    }

    #[test]
    fn the_look_that_finds_it_tells_how_far_it_was() {
        check(3, 130, true, Some(Line::Near));
        check(3, 450, true, Some(Line::Far));
        check(3, 10_000, true, None);
        check(0, 450, true, None);
        check(LOOKS - 1, 450, true, Some(Line::Far));
        check(LOOKS, 450, false, None);
    }
}
