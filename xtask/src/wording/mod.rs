//! The wording gate: the number of texts that a reader cannot understand alone (STYLE.md) may only fall.
//!
//! `xtask/wording.txt` has a line for each area (a crate, or a folder at the top) with the number of its
//! faults of each kind ([`Fault`]). A higher number is a complaint; a lower one is recorded by `cargo xtask
//! tidy --lower`. `cargo xtask wording AREA...` lists the faults.

mod passages;
mod rules;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use rules::Fault;

const PATH: &str = "xtask/wording.txt";
const HEAD: &str = "\
# Texts that a reader cannot understand alone, counted for each area. Numbers may only fall: `cargo xtask wording
# AREA` lists the places, `cargo xtask tidy --lower` writes down what was won.
";

/// Numbers of faults in the order of [`Fault::ALL`].
type Counts = [usize; Fault::ALL.len()];

/// Fault with its place.
struct Hit {
    path: String,
    line: usize,
    fault: Fault,
    text: String,
}

/// Complains about areas with more faults than recorded. With `lower`, smaller numbers are recorded.
pub fn check(root: &Path, files: &[String], lower: bool) -> Result<Vec<String>, Vec<String>> {
    let recorded = parse(&std::fs::read_to_string(root.join(PATH)).unwrap_or_default())?;
    let found = counts(&hits(root, files));
    let mut complaints = Vec::new();
    let mut kept = BTreeMap::new();
    for (area, counts) in &found {
        let most = recorded.get(area).copied().unwrap_or_default();
        complaints.extend(grown(area, counts, &most));
        kept.insert(area.clone(), *counts);
    }
    if lower && complaints.is_empty() {
        std::fs::write(root.join(PATH), text(&kept)).map_err(|error| vec![format!("{PATH}: {error}")])?;
    }
    Ok(complaints)
}

/// Lists the faults of some areas, or of all, one on each line.
pub fn list(root: &Path, files: &[String], areas: &[&str]) -> String {
    let mut text = String::new();
    for Hit { path, line, fault, text: words } in hits(root, files) {
        if areas.is_empty() || areas.iter().any(|one| *one == area(&path) || path.starts_with(one)) {
            let words: String = words.chars().take(100).collect();
            let _ = writeln!(text, "{:8} {path}:{line}: {words}", fault.name());
        }
    }
    text
}

fn grown(area: &str, counts: &Counts, most: &Counts) -> Vec<String> {
    let kinds = Fault::ALL.iter().zip(counts.iter().zip(most));
    let more = kinds.filter(|(_, (count, most))| count > most);
    let complaint = |(fault, (count, most)): (&Fault, (&usize, &usize))| {
        format!(
            "{area}: {count} texts with the fault `{}` (at most {most}): cargo xtask wording {area}",
            fault.name()
        )
    };
    more.map(complaint).collect()
}

fn hits(root: &Path, files: &[String]) -> Vec<Hit> {
    let mut found = Vec::new();
    for path in files {
        // Binary files have no text.
        let Ok(content) = std::fs::read_to_string(root.join(path)) else { continue };
        for passage in passages::passages(path, &content) {
            let faults = rules::faults(&passage).into_iter();
            found.extend(faults.map(|(fault, text)| Hit {
                path: path.clone(),
                line: passage.line,
                fault,
                text,
            }));
        }
    }
    found
}

fn counts(hits: &[Hit]) -> BTreeMap<String, Counts> {
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for hit in hits {
        let place =
            Fault::ALL.iter().position(|fault| *fault == hit.fault).expect("every fault has a column");
        counts.entry(area(&hit.path).to_string()).or_default()[place] += 1;
    }
    counts
}

/// Returns the area of a file: its crate, or its folder at the top, or the file itself.
fn area(path: &str) -> &str {
    let parts = if path.starts_with("crates/") { 2 } else { 1 };
    let end = path.match_indices('/').nth(parts - 1).map_or(path.len(), |(at, _)| at);
    &path[..end]
}

fn parse(text: &str) -> Result<BTreeMap<String, Counts>, Vec<String>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| row(line).ok_or_else(|| vec![format!("{PATH}: not an area and its counts: {line}")]))
        .collect()
}

/// Parses `AREA clause 3 long 4`; the number of an omitted fault is 0.
fn row(line: &str) -> Option<(String, Counts)> {
    let mut words = line.split_whitespace();
    let area = words.next()?.to_string();
    let mut counts = Counts::default();
    while let Some(name) = words.next() {
        let place = Fault::ALL.iter().position(|fault| fault.name() == name)?;
        counts[place] = words.next()?.parse().ok()?;
    }
    Some((area, counts))
}

fn text(counts: &BTreeMap<String, Counts>) -> String {
    let mut text = HEAD.to_string();
    for (area, counts) in counts {
        text.push_str(area);
        for (fault, count) in Fault::ALL.iter().zip(counts).filter(|(_, count)| **count > 0) {
            let _ = write!(text, " {} {count}", fault.name());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_and_read() {
        let counts = BTreeMap::from([("crates/abi".to_string(), [3, 0, 0, 0, 4, 0])]);
        assert_eq!(parse(&text(&counts)), Ok(counts));
        assert!(parse("crates/abi clause\n").is_err() && parse("docs poem 3\n").is_err());
    }

    #[test]
    fn an_area_is_a_crate_or_a_folder() {
        let check = |path, expected| assert_eq!(area(path), expected);
        check("crates/abi/src/lib.rs", "crates/abi");
        check("docs/guide/src/a.md", "docs");
        check("README.md", "README.md");
    }

    #[test]
    fn more_than_recorded_is_a_complaint() {
        let check = |counts: Counts, most: Counts, expected: usize| {
            assert_eq!(grown("docs", &counts, &most).len(), expected, "{counts:?}");
        };
        check([1, 0, 0, 0, 2, 0], [1, 0, 0, 0, 2, 0], 0);
        check([2, 0, 0, 0, 1, 0], [1, 0, 0, 0, 2, 0], 1);
        check([2, 0, 0, 0, 3, 0], [1, 0, 0, 0, 2, 0], 2);
    }
}
