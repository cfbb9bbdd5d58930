//! Merger of the output of many ranks, which never mixes lines. It is pure: bytes and the time go in, bytes
//! come out.
//!
//! Output leaves in whole lines. There are two cases in which a line without its end leaves early. Its rank
//! has been quiet for [`QUIET`] (a prompt), or the line is longer than [`LONGEST`]. The line is then open.
//! Lines of other ranks wait for its end, at most for [`HOLD`].
//!
//! After that time, or when its rank has ended, a newline is inserted, so that no other rank is blocked. A
//! rank whose output waits is not read further (see [`Merger::wants`]). Thus memory is bounded by [`LONGEST`]
//! bytes for each rank, and one read.

use std::collections::VecDeque;
use std::time::Duration;

use crate::reports::Reports;

/// Maximum bytes of a line that are kept until its end arrives.
pub const LONGEST: usize = 64 << 10;
/// Silence after which a line without end is shown.
pub const QUIET: Duration = Duration::from_millis(50);
/// Time for which other lines wait for the end of a line that is shown in part.
pub const HOLD: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Source {
    tag: String,
    held: Vec<u8>,
    /// Time of the last byte.
    fed: Duration,
    /// Time since which whole lines wait for another source's open line.
    waiting: Option<Duration>,
    closed: bool,
}

/// Merger of the lines of several sources into one stream.
#[derive(Debug, Default)]
pub struct Merger {
    sources: Vec<Source>,
    /// Source whose line is shown in part.
    open: Option<usize>,
    /// Sources with whole lines that wait for the open line, in order of arrival.
    queue: VecDeque<usize>,
    timestamp: bool,
    /// Reports of ranks that wait for equal ones; None if lines have times before them.
    reports: Option<Reports>,
    /// Source of the launcher's own messages, if reports are merged.
    own: Option<usize>,
    out: Vec<u8>,
}

impl Merger {
    /// Creates a merger without sources. `timestamp` puts the time before each line.
    pub fn new(timestamp: bool) -> Merger {
        Merger { timestamp, ..Merger::default() }
    }

    /// Merges equal reports of several ranks in all later lines. `own` is the source number of the
    /// launcher's own lines.
    pub fn join_reports(&mut self, own: usize) {
        self.reports = (!self.timestamp).then(Reports::default);
        self.own = Some(own);
    }

    /// Shows the reports that wait, since no further ones can arrive.
    pub fn release_reports(&mut self) {
        if let Some(reports) = self.reports.as_mut().filter(|reports| !reports.is_empty())
            && self.open.is_none()
        {
            self.out.extend(reports.release());
        }
    }

    /// Returns true while reports wait.
    pub fn holds_reports(&self) -> bool {
        self.reports.as_ref().is_some_and(|reports| !reports.is_empty())
    }

    /// Adds a source whose lines begin with `tag`; returns its number.
    pub fn add(&mut self, tag: String) -> usize {
        self.sources.push(Source { tag, ..Source::default() });
        self.sources.len() - 1
    }

    /// Returns true if bytes of `source` can be taken now.
    pub fn wants(&self, source: usize) -> bool {
        self.sources[source].held.len() < LONGEST || self.open.is_none_or(|open| open == source)
    }

    /// Takes bytes that a source has written.
    pub fn feed(&mut self, source: usize, bytes: &[u8], now: Duration) {
        let entry = &mut self.sources[source];
        entry.held.extend_from_slice(bytes);
        entry.fed = now;
        self.advance(source, now);
        self.release(now);
    }

    /// Records the end of a source.
    pub fn close(&mut self, source: usize, now: Duration) {
        self.sources[source].closed = true;
        self.advance(source, now);
        self.release(now);
    }

    /// Performs the actions that are due at time `now`.
    pub fn tick(&mut self, now: Duration) {
        if self.overdue().is_some_and(|at| at <= now) {
            self.end_open_line();
        }
        self.release(now);
        if self.reports_due().is_some_and(|at| at <= now) {
            self.release_reports();
        }
        if self.open.is_none() {
            let quiet = |source: &Source| !source.held.is_empty() && source.fed + QUIET <= now;
            if let Some(source) = self.sources.iter().position(quiet) {
                self.show(source, self.sources[source].held.len(), now);
            }
        }
    }

    /// Returns the time at which [`Merger::tick`] must be called next, if any.
    pub fn deadline(&self) -> Option<Duration> {
        if self.open.is_some() {
            return self.overdue();
        }
        let partial = self.sources.iter().filter(|source| !source.held.is_empty());
        partial.map(|source| source.fed + QUIET).chain(self.reports_due()).min()
    }

    fn reports_due(&self) -> Option<Duration> {
        self.reports.as_ref()?.deadline().filter(|_| self.open.is_none())
    }

    /// Returns the merged bytes. The caller removes those that it has written.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Returns the number of merged bytes that were not removed yet.
    pub fn output_bytes(&self) -> usize {
        self.out.len()
    }

    fn overdue(&self) -> Option<Duration> {
        let first = *self.queue.front()?;
        self.sources[first].waiting.map(|since| since + HOLD)
    }

    /// Shows the bytes of `source` that may be shown now.
    fn advance(&mut self, source: usize, now: Duration) {
        let entry = &self.sources[source];
        let end = match entry.held.iter().rposition(|&byte| byte == b'\n') {
            _ if entry.closed => entry.held.len(),
            None if entry.held.len() >= LONGEST => entry.held.len(),
            Some(last) if entry.held.len() - last > LONGEST => entry.held.len(),
            Some(last) => last + 1,
            None => 0,
        };
        if end == 0 {
            return;
        }
        if self.open.is_none_or(|open| open == source) {
            self.show(source, end, now);
        } else if entry.waiting.is_none() {
            self.sources[source].waiting = Some(now);
            self.queue.push_back(source);
        }
    }

    /// Continues waiting sources while no line is open.
    fn release(&mut self, now: Duration) {
        loop {
            if self.open.is_some_and(|open| self.sources[open].closed) && !self.queue.is_empty() {
                self.end_open_line();
            }
            if self.open.is_some() {
                return;
            }
            let Some(source) = self.queue.pop_front() else { return };
            self.sources[source].waiting = None;
            self.advance(source, now);
        }
    }

    fn end_open_line(&mut self) {
        self.out.push(b'\n');
        self.open = None;
    }

    /// Moves `end` bytes of `source` to the output, with a tag at the start of each line.
    fn show(&mut self, source: usize, end: usize, now: Duration) {
        let entry = &mut self.sources[source];
        let mut continues = self.open == Some(source);
        if let Some(reports) = self.reports.as_mut().filter(|_| entry.tag.is_empty()) {
            let is_own = self.own == Some(source);
            for line in entry.held[..end].split_inclusive(|&byte| byte == b'\n') {
                let is_whole = !std::mem::take(&mut continues) && line.ends_with(b"\n");
                if !is_whole || !reports.take(line, is_own, now) {
                    self.out.extend_from_slice(line);
                }
            }
        } else if entry.tag.is_empty() && !self.timestamp {
            self.out.extend_from_slice(&entry.held[..end]);
        } else {
            for line in entry.held[..end].split_inclusive(|&byte| byte == b'\n') {
                if !std::mem::take(&mut continues) {
                    if self.timestamp {
                        self.out.extend_from_slice(format!("{:.3} ", now.as_secs_f64()).as_bytes());
                    }
                    self.out.extend_from_slice(entry.tag.as_bytes());
                }
                self.out.extend_from_slice(line);
            }
        }
        let ended = entry.held[..end].last() == Some(&b'\n');
        entry.held.drain(..end);
        self.open = if ended { None } else { Some(source) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Performs steps and checks the output. `0:text` feeds source 0, `0.` closes it, `@90` sets the time in
    /// ms and ticks.
    fn check(tags: &[&str], steps: &[&str], expected: &str) {
        let mut merger = Merger::new(false);
        for tag in tags {
            merger.add(tag.to_string());
        }
        let mut now = Duration::ZERO;
        for step in steps {
            if let Some(time) = step.strip_prefix('@') {
                now = Duration::from_millis(time.parse().unwrap());
                merger.tick(now);
                continue;
            }
            let source = usize::from(step.as_bytes()[0] - b'0');
            match &step[1..2] {
                ":" => merger.feed(source, &step.as_bytes()[2..], now),
                _ => merger.close(source, now),
            }
        }
        assert_eq!(String::from_utf8_lossy(merger.output()), expected, "{steps:?}");
    }

    #[test]
    fn whole_lines_leave_at_once_and_parts_wait() {
        check(&["", ""], &["0:a", "1:b\n", "0:c\n"], "b\nac\n");
        check(&["", ""], &["0:a\nb", "1:c\nd\n"], "a\nc\nd\n");
        check(&["[0] ", "[1] "], &["0:a\nb", "1:c\nd\n", "0:!\n"], "[0] a\n[1] c\n[1] d\n[0] b!\n");
    }

    #[test]
    fn a_prompt_is_shown_when_its_rank_is_quiet() {
        check(&[""], &["0:name? ", "@49"], "");
        check(&[""], &["0:name? ", "@50"], "name? ");
        check(&["[0] "], &["0:name? ", "@50", "0:thanks\n"], "[0] name? thanks\n");
    }

    #[test]
    fn others_wait_for_an_open_line_but_not_for_ever() {
        check(&["", ""], &["0:a", "@50", "1:b\n", "@149"], "a");
        check(&["", ""], &["0:a", "@50", "1:b\n", "0:c\n"], "ac\nb\n");
        check(&["", ""], &["0:a", "@50", "1:b\n", "@150", "0:c\n"], "a\nb\nc\n");
        check(&["0 ", "1 "], &["0:a", "@50", "1:b\n", "@150", "0:c\n"], "0 a\n1 b\n0 c\n");
        // An incomplete line of another rank does not end the open line.
        check(&["", ""], &["0:a", "@50", "1:b", "@500"], "a");
    }

    #[test]
    fn the_end_of_a_rank_shows_its_last_line() {
        check(&["", ""], &["0:a", "0."], "a");
        check(&["", ""], &["0:a", "0.", "1:b\n"], "a\nb\n");
        check(&["", ""], &["0:a", "@50", "1:b", "1.", "0:c\n"], "ac\nb");
        check(&["", ""], &["0:a", "1:b", "0.", "1."], "a\nb");
        check(&["", ""], &["0.", "1."], "");
    }

    #[test]
    fn a_long_line_passes_in_pieces_and_stays_whole() {
        let long = "x".repeat(LONGEST);
        let step = format!("0:{long}");
        check(&["", ""], &[&step, "1:b\n", &step, "0:\n"], &format!("{long}{long}\nb\n"));
        check(&["", ""], &["0:a", "@50", &format!("1:{long}"), "0:\n"], &format!("a\n{long}"));
    }

    #[test]
    fn memory_is_bounded_by_not_reading() {
        let mut merger = Merger::new(false);
        let (one, two) = (merger.add(String::new()), merger.add(String::new()));
        merger.feed(one, b"open", Duration::ZERO);
        merger.tick(QUIET);
        assert!(merger.wants(one) && merger.wants(two));
        merger.feed(two, &[b'\n'; LONGEST], QUIET);
        assert!(merger.wants(one) && !merger.wants(two));
        assert_eq!(merger.deadline(), Some(QUIET + HOLD));
        merger.tick(QUIET + HOLD);
        assert!(merger.wants(two));
        assert_eq!((merger.output_bytes(), merger.deadline()), (5 + LONGEST, None));
    }

    #[test]
    fn equal_reports_are_put_together() {
        let mut merger = Merger::new(false);
        let (own, one, two) =
            (merger.add(String::new()), merger.add(String::new()), merger.add(String::new()));
        merger.join_reports(own);
        merger.feed(one, b"tutti: rank 0: a\nplain\n", Duration::ZERO);
        merger.feed(two, b"tutti: rank 1: a\n", Duration::ZERO);
        assert_eq!(merger.deadline(), Some(HOLD));
        assert_eq!(merger.output(), b"plain\n");
        // Reports are not released into a line that is shown in part.
        merger.feed(two, b"name? ", Duration::ZERO);
        merger.tick(QUIET);
        merger.tick(HOLD);
        assert!(merger.holds_reports());
        merger.feed(two, b"x\n", HOLD);
        merger.tick(HOLD);
        assert_eq!(merger.output(), b"plain\nname? x\ntutti: ranks 0-1: a\n");
        assert_eq!((merger.holds_reports(), merger.deadline()), (false, None));
    }

    #[test]
    fn lines_may_begin_with_the_time() {
        let mut merger = Merger::new(true);
        let source = merger.add("[0] ".to_string());
        merger.feed(source, b"a\nb\n", Duration::from_millis(1234));
        assert_eq!(merger.output(), b"1.234 [0] a\n1.234 [0] b\n");
    }
}
