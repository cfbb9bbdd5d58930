//! The ledger of builds, `docs/measurements/ledger.md`: a line for each issue, with geometric means and the
//! worst cell against the commit before and against the other libraries. Pure but for [`write`].

use super::report::Report;
use super::rows::{NOW, Row, geometric_mean};
use super::stages::Stage;
use super::text::name;
use crate::measure::rank_test::Verdict;
use crate::measure::report::size;
use crate::measure::results::{Measure, Results};
use crate::measure::sample::Cell;
use std::path::Path;

/// The other libraries, in the order of the columns.
pub const PEERS: [&str; 3] = ["mpich", "openmpi", "impi"];

/// Beginning of the file, up to its lines.
pub const HEAD: &str = "\
# Ledger of builds

One line for each issue, written by `make ab REV=COMMIT ARGS=\"--ledger ISSUE\"` (`tutti compare --build
PREFIX --ledger ISSUE`). Each column has the geometric mean of time by the other's over all cells, so that
below 1 Tutti is faster, and the worst cell: its operation, bytes, hosts x ranks. The commit before is
compared in all cells, MPICH, Open MPI and Intel MPI (the versions of `scripts/peers.sh`, told to yield
where ranks share processors) in those of operations and of the start of jobs. A worst cell is \"equal\"
if the difference to the commit before is within the noise.

The first lines have 54 cells (`--parts host,hosts,jobs --sizes 8,64K --ranks 2,4 --modes plain --rounds 5`).

| issue | commit | commit before | processor | by the commit before | by MPICH | by Open MPI | by Intel MPI |
|---|---|---|---|---|---|---|---|
";

/// Comparison with one other build or library.
#[derive(Clone, Debug, PartialEq)]
pub struct Against {
    /// Geometric mean of the ratios.
    pub mean: f64,
    /// Number of cells that both have measured.
    pub cells: usize,
    /// Ratio of the cell in which Tutti does worst.
    pub worst: f64,
    /// Name of that cell: operation, bytes, stage.
    pub worst_cell: String,
}

impl Against {
    /// Returns the comparison of these ratios with their cells. None if there are none.
    fn from_ratios(ratios: &[(f64, String)]) -> Option<Against> {
        let (worst, worst_cell) = ratios.iter().max_by(|one, other| one.0.total_cmp(&other.0))?.clone();
        let mean = geometric_mean(ratios.iter().map(|(ratio, _)| *ratio))?;
        Some(Against { mean, cells: ratios.len(), worst, worst_cell })
    }
}

/// Returns the comparison with the build before.
pub fn against_before(report: &Report) -> Option<Against> {
    let of_row = |row: &Row| {
        let noise = if row.verdict == Verdict::Equal { ", equal" } else { "" };
        (row.ratio, format!("{} {}, {}{noise}", name(row), size(row.cell.bytes), row.stage))
    };
    Against::from_ratios(&report.rows.iter().map(of_row).collect::<Vec<_>>())
}

/// Returns the comparison with another library, over all stages in which it took part.
pub fn against_peer(peer: &str, stages: &[Stage], results: &[Results]) -> Option<Against> {
    let of_stage = |(stage, results): (&Stage, &Results)| {
        let title = stage.title();
        let of_cell = |cell: &Cell| {
            let ratio = results.ratio_to(peer, cell, NOW, Measure::Median)?;
            Some((ratio, format!("{} {}, {title}", cell.op, size(cell.bytes))))
        };
        results.cells().filter_map(|(cell, _)| of_cell(cell)).collect::<Vec<_>>()
    };
    Against::from_ratios(&stages.iter().zip(results).flat_map(of_stage).collect::<Vec<_>>())
}

/// Returns the line of an issue.
pub fn line(issue: u32, report: &Report, peers: &[Option<Against>]) -> String {
    let shown = |against: &Option<Against>| match against {
        None => "-".to_string(),
        Some(Against { mean, cells, worst, worst_cell }) => {
            format!("{mean:.2} of {cells}; {worst:.2} {worst_cell}")
        }
    };
    let mut columns = vec![
        issue.to_string(),
        report.now.commit.clone(),
        report.before.commit.clone(),
        report.processor.clone(),
        shown(&against_before(report)),
    ];
    columns.extend(peers.iter().map(shown));
    format!("| {} |\n", columns.join(" | "))
}

/// Returns the ledger `text` with a line more. A line of the same issue, commits and processor is replaced.
fn insert(text: &str, line: &str) -> String {
    let key =
        |line: &str| line.split('|').take(5).map(str::trim).map(str::to_string).collect::<Vec<String>>();
    let text = if text.is_empty() { HEAD } else { text };
    let kept = text.lines().filter(|old| key(old) != key(line.trim_end()));
    kept.map(|line| format!("{line}\n")).collect::<String>() + line
}

/// Puts a line into the ledger at `path`, which is made if it is not there.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write(path: &Path, line: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    std::fs::write(path, insert(&text, line)).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::builds::stages::Kind;
    use crate::measure::sample::Sample;

    #[test]
    fn a_line_is_added_or_replaces_that_of_the_same_issue_commits_and_processor() {
        let line = |issue: u32, processor: &str, ratio: &str| {
            format!("| {issue} | aaa | bbb | {processor} | {ratio} | - | - | - |\n")
        };
        let one = insert("", &line(42, "EPYC", "1.00"));
        assert_eq!(one, format!("{HEAD}{}", line(42, "EPYC", "1.00")));
        let two = insert(&one, &line(43, "EPYC", "0.90"));
        assert_eq!(two, format!("{one}{}", line(43, "EPYC", "0.90")));
        let three = insert(&two, &line(42, "Xeon", "0.80"));
        assert_eq!(three, format!("{two}{}", line(42, "Xeon", "0.80")));
        let four = insert(&three, &line(43, "EPYC", "0.70"));
        assert_eq!(four, three.replace(&line(43, "EPYC", "0.90"), "") + &line(43, "EPYC", "0.70"));
    }

    #[test]
    fn a_line_has_means_and_the_worst_cells() {
        let other =
            Against { mean: 0.5, cells: 4, worst: 1.25, worst_cell: "scan 8, 1 host x 2".to_string() };
        assert_eq!(
            line(43, &Report::example(), &[Some(other), None, None]),
            "| 43 | bbb | aaa | Abacus | 1.00 of 3; 2.00 bcast 8, 1 host x 2 | 0.50 of 4; 1.25 scan 8, 1 host x 2 | - | - |\n"
        );
    }

    #[test]
    fn a_library_is_compared_where_it_took_part() {
        let mut results = Results::default();
        for (library, us) in [(NOW, 2.0), ("mpich", 1.0)] {
            let cell = Cell { op: "bcast".to_string(), mode: "plain".to_string(), ranks: 2, bytes: 8 };
            results.add(library, Sample { cell, us, least: us, wrong: 0 });
        }
        let stage = Stage { kind: Kind::Operations("tutti-bench"), hosts: 1, ranks: 2, asks: Vec::new() };
        let against = |peer| against_peer(peer, std::slice::from_ref(&stage), std::slice::from_ref(&results));
        let worst_cell = "bcast 8, 1 host x 2".to_string();
        assert_eq!(against("mpich"), Some(Against { mean: 2.0, cells: 1, worst: 2.0, worst_cell }));
        assert_eq!(against("impi"), None);
    }

    #[test]
    fn the_committed_ledger_begins_as_new_ones_do() {
        let committed = include_str!("../../../../../docs/measurements/ledger.md");
        assert!(committed.starts_with(HEAD));
    }
}
