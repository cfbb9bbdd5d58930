//! Merger of equal reports of several ranks: `tutti: ranks 0-14, 16-63: ...`. It is pure: lines and the time
//! go in, lines come out.
//!
//! Two kinds of lines are reports. The library begins each line about an error or a crash with `tutti: rank
//! 3: `. The launcher prints `mpirun: rank 3 (pid 77, host n0): waiting 2.0 s in ...`. All lines of a rank
//! that arrive within [`HOLD`] of each other are its block. Blocks are equal if they differ only in rank,
//! addresses and times. Lines of the launcher that arrive meanwhile are shown after the blocks, since they
//! refer to them.

use std::collections::HashMap;
use std::time::Duration;

use tutti_topo::text::show_list;

/// Time for which a report waits for equal ones of other ranks.
pub const HOLD: Duration = Duration::from_millis(100);
/// Maximum time for which a report waits while others keep arriving.
const LONGEST_HOLD: Duration = Duration::from_millis(500);
/// Maximum bytes that wait.
const MOST_BYTES: usize = 1 << 20;
/// Minimum number of ranks whose equal waits are merged. For fewer ranks, the process numbers are more
/// useful.
const FEWEST_WAITS: usize = 4;

/// Kind of report, which determines its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// Error or crash, reported by the library.
    Fault,
    /// Operation in which a rank waits, reported by the launcher.
    Wait,
}

/// Part of the output that waits.
#[derive(Debug)]
enum Item {
    /// Lines of a rank.
    Block { kind: Kind, rank: usize, lines: Vec<Line> },
    /// Line of the launcher that is not a report.
    Plain(Vec<u8>),
}

/// Line of a rank's block.
#[derive(Clone, Debug)]
struct Line {
    /// Whole line with its end.
    whole: String,
    /// Line without the rank, its process and its host.
    text: String,
}

/// Number of a rank, and the lines of its report.
type RankReport<'r> = (usize, &'r [Line]);

/// Queue of reports that wait for equal ones.
#[derive(Debug, Default)]
pub struct Reports {
    items: Vec<Item>,
    /// Indices of the blocks among the items.
    blocks: HashMap<(Kind, usize), usize>,
    bytes: usize,
    /// Times at which the first and the last report arrived.
    first: Duration,
    last: Duration,
}

impl Reports {
    /// Takes a line with its end, and returns true, if it is a report. A line of the launcher (`is_own`) is
    /// also taken while reports wait.
    pub fn take(&mut self, line: &[u8], is_own: bool, now: Duration) -> bool {
        let report = std::str::from_utf8(line).ok().and_then(parse);
        if report.is_none() && (!is_own || self.items.is_empty()) {
            return false;
        }
        if self.items.is_empty() {
            self.first = now;
        }
        self.bytes += line.len();
        let Some((kind, rank, line)) = report else {
            self.items.push(Item::Plain(line.to_vec()));
            return true;
        };
        self.last = now;
        let place = *self.blocks.entry((kind, rank)).or_insert(self.items.len());
        match self.items.get_mut(place) {
            Some(Item::Block { lines, .. }) => lines.push(line),
            _ => self.items.push(Item::Block { kind, rank, lines: vec![line] }),
        }
        true
    }

    /// Returns true if no line waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the time at which the waiting reports are shown; None if none waits.
    pub fn deadline(&self) -> Option<Duration> {
        let at = (self.last + HOLD).min(self.first + LONGEST_HOLD);
        (!self.items.is_empty()).then_some(if self.bytes > MOST_BYTES { Duration::ZERO } else { at })
    }

    /// Returns all waiting lines, with equal reports merged.
    pub fn release(&mut self) -> Vec<u8> {
        let items = std::mem::take(self).items;
        let mut groups: HashMap<(Kind, String), Vec<RankReport>> = HashMap::new();
        for item in &items {
            if let Item::Block { kind, rank, lines } = item {
                groups.entry((*kind, key(lines))).or_default().push((*rank, lines));
            }
        }
        let mut out = Vec::new();
        for item in &items {
            match item {
                Item::Plain(line) => out.extend_from_slice(line),
                Item::Block { kind, lines, .. } => {
                    let fewest = if *kind == Kind::Wait { FEWEST_WAITS } else { 2 };
                    let of_it = (*kind, key(lines));
                    match groups.get(&of_it).map_or(0, Vec::len) {
                        // The block was shown with the first one of its group.
                        0 => {}
                        count if count < fewest => {
                            lines.iter().for_each(|line| out.extend_from_slice(line.whole.as_bytes()));
                        }
                        _ => {
                            let group = groups.remove(&of_it).unwrap_or_default();
                            out.extend_from_slice(show(*kind, &group).as_bytes());
                        }
                    }
                }
            }
        }
        out
    }
}

/// Returns the merged lines of equal blocks.
fn show(kind: Kind, group: &[(usize, &[Line])]) -> String {
    let mut ranks: Vec<usize> = group.iter().map(|(rank, _)| *rank).collect();
    ranks.sort_unstable();
    let ranks = show_list(ranks.into_iter()).replace(',', ", ");
    let speaker = if kind == Kind::Wait { "mpirun" } else { "tutti" };
    let lines = group.first().map_or(&[][..], |(_, lines)| *lines);
    let merged = lines.iter().enumerate().map(|(number, line)| {
        let all = group.iter().map(|(_, lines)| lines[number].text.as_str());
        format!("{speaker}: ranks {ranks}: {}", merge(&line.text, all))
    });
    merged.collect()
}

/// Returns a key that equal blocks share: their texts without addresses and times.
fn key(lines: &[Line]) -> String {
    let mut key = String::new();
    for word in lines.iter().flat_map(|line| words(&line.text)) {
        key.push_str(match word {
            Word::Text(text) => text,
            Word::Address(_) => "0x",
            Word::Seconds(_) => "",
        });
    }
    key
}

/// Parses a report: its kind, rank and line.
fn parse(line: &str) -> Option<(Kind, usize, Line)> {
    let (kind, rest) = match line.strip_prefix("tutti: rank ") {
        Some(rest) => (Kind::Fault, rest),
        None => (Kind::Wait, line.strip_prefix("mpirun: rank ")?),
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (rank, rest) = rest.split_at(digits);
    let rest = match kind {
        Kind::Fault => rest,
        Kind::Wait => rest.strip_prefix(" (pid ")?.split_once(')')?.1,
    };
    let text = rest.strip_prefix(": ")?.to_string();
    Some((kind, rank.parse().ok()?, Line { whole: line.to_string(), text }))
}

/// Part of a text: words that are compared, or values that may differ.
#[derive(Debug, PartialEq)]
enum Word<'t> {
    Text(&'t str),
    /// Address, such as `0x7ffe12345678`.
    Address(&'t str),
    /// Number of seconds, such as `2.0` in `waiting 2.0 s`.
    Seconds(&'t str),
}

/// Splits a text at its addresses and times.
fn words(text: &str) -> Vec<Word<'_>> {
    const WAITING: &str = "waiting ";
    let mut words = Vec::new();
    let mut rest = text;
    if let Some((seconds, after)) = rest.strip_prefix(WAITING).and_then(|rest| rest.split_once(' ')) {
        words.extend([Word::Text(WAITING), Word::Seconds(seconds)]);
        rest = after;
    }
    while let Some(start) = rest.find("0x") {
        let digits = rest[start + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let end = start + 2 + digits;
        words.extend([Word::Text(&rest[..start]), Word::Address(&rest[start..end])]);
        rest = &rest[end..];
    }
    words.push(Word::Text(rest));
    words
}

/// Merges texts that differ only in addresses and times.
fn merge<'t>(first: &'t str, all: impl Iterator<Item = &'t str>) -> String {
    let all: Vec<Vec<Word<'t>>> = all.map(words).collect();
    let mut merged = String::new();
    for (place, word) in words(first).into_iter().enumerate() {
        let differs = all.iter().any(|words| words.get(place) != Some(&word));
        match word {
            Word::Address(_) if differs => merged.push_str("0x..."),
            Word::Seconds(_) if differs => {
                let numbers = all.iter().filter_map(|words| match words.get(place) {
                    Some(Word::Seconds(text)) => text.parse::<f64>().ok(),
                    _ => None,
                });
                let (least, most) = numbers.fold((f64::MAX, 0.0), |(least, most): (f64, f64), seconds| {
                    (least.min(seconds), most.max(seconds))
                });
                merged.push_str(&format!("{least:.1} to {most:.1} "));
            }
            Word::Seconds(text) => merged.push_str(&format!("{text} ")),
            Word::Text(text) | Word::Address(text) => merged.push_str(text),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds lines, of which `!` marks those of the launcher. Checks the lines that pass at once, and those
    /// that are released.
    fn check(lines: &[&str], passed: &[&str], released: &[&str]) {
        let mut reports = Reports::default();
        let mut got = Vec::new();
        for line in lines {
            let (own, line) = line.strip_prefix('!').map_or((false, *line), |line| (true, line));
            if !reports.take(format!("{line}\n").as_bytes(), own, Duration::ZERO) {
                got.push(line);
            }
        }
        assert_eq!(got, passed);
        let text = String::from_utf8(reports.release()).unwrap();
        assert_eq!(text.lines().collect::<Vec<_>>(), released);
        assert!(reports.is_empty() && reports.deadline().is_none());
    }

    #[test]
    fn equal_errors_are_one() {
        check(
            &["tutti: rank 0: a", "tutti: rank 2: a", "hello", "tutti: rank 1: a", "tutti: rank 5: a"],
            &["hello"],
            &["tutti: ranks 0-2, 5: a"],
        );
        // Lines of ranks may arrive in any order.
        check(
            &["tutti: rank 0: a", "tutti: rank 1: a", "tutti: rank 1:   b", "tutti: rank 0:   b"],
            &[],
            &["tutti: ranks 0-1: a", "tutti: ranks 0-1:   b"],
        );
    }

    #[test]
    fn different_errors_stay_whole() {
        check(
            &["tutti: rank 0: a", "tutti: rank 1: a", "tutti: rank 0: b", "tutti: rank 1: c"],
            &[],
            &["tutti: rank 0: a", "tutti: rank 0: b", "tutti: rank 1: a", "tutti: rank 1: c"],
        );
        check(
            &["tutti: rank x: a", "tutti: 5", "mpirun: rank 1 was killed"],
            &["tutti: rank x: a", "tutti: 5", "mpirun: rank 1 was killed"],
            &[],
        );
    }

    #[test]
    fn addresses_may_differ() {
        check(
            &["tutti: rank 0: f(buf=0x7ff0, n=0x1)", "tutti: rank 1: f(buf=0x7ff8, n=0x1)"],
            &[],
            &["tutti: ranks 0-1: f(buf=0x..., n=0x1)"],
        );
        check(
            &["tutti: rank 0: f(buf=0x7ff0)", "tutti: rank 1: f(buf=NULL)"],
            &[],
            &["tutti: rank 0: f(buf=0x7ff0)", "tutti: rank 1: f(buf=NULL)"],
        );
    }

    #[test]
    fn many_waits_are_one_and_few_keep_their_processes() {
        let wait = |rank: u32, seconds: &str| {
            format!("!mpirun: rank {rank} (pid 7{rank}, n0): waiting {seconds} s in barrier")
        };
        let [a, b, c, d] = [wait(0, "2.0"), wait(1, "2.1"), wait(3, "1.9"), wait(4, "2.0")];
        check(&[&a, &b, &c, &d], &[], &["mpirun: ranks 0-1, 3-4: waiting 1.9 to 2.1 s in barrier"]);
        check(&[&a, &b], &[], &[&a[1..], &b[1..]]);
        let other = "!mpirun: rank 2 (pid 9, n1): running (not waiting in MPI)";
        check(
            &[&a, &b, other, &c, &d],
            &[],
            &["mpirun: ranks 0-1, 3-4: waiting 1.9 to 2.1 s in barrier", &other[1..]],
        );
    }

    #[test]
    fn what_the_launcher_says_of_reports_follows_them() {
        check(
            &["!mpirun: first", "tutti: rank 0: a", "!mpirun: rank 0 exited", "tutti: rank 1: a"],
            &["mpirun: first"],
            &["tutti: ranks 0-1: a", "mpirun: rank 0 exited"],
        );
    }

    #[test]
    fn nothing_waits_for_long() {
        let mut reports = Reports::default();
        for ms in [0, 90, 180, 270, 360, 450] {
            assert!(reports.take(b"tutti: rank 0: a\n", false, Duration::from_millis(ms)));
        }
        assert_eq!(reports.deadline(), Some(LONGEST_HOLD));
        let long = [b"tutti: rank 1: ", &vec![b'x'; MOST_BYTES][..], b"\n"].concat();
        assert!(reports.take(&long, false, Duration::from_millis(460)));
        assert_eq!(reports.deadline(), Some(Duration::ZERO));
    }
}
