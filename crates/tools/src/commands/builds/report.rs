//! Result of a comparison of builds: measurements and verdicts, for all forms of output.

use std::path::PathBuf;

use super::rows::Row;
use crate::measure::rank_test::Bounds;
#[cfg(test)]
use crate::measure::{rank_test::Verdict, sample::Cell};

/// An installation that is compared.
pub struct Build {
    /// Folder in which it is installed.
    pub prefix: PathBuf,
    /// Version or commit, for people.
    pub version: String,
    /// Commit of the build; empty if it is unknown.
    pub commit: String,
}

/// Outcome of a comparison.
pub struct Report {
    /// Lines about the machine, the processor first.
    pub machine: Vec<String>,
    /// Name of the processor.
    pub processor: String,
    /// Build that is the reference.
    pub before: Build,
    /// Build that is judged.
    pub now: Build,
    /// Rounds of a series.
    pub rounds: u32,
    /// Bounds of a difference that counts.
    pub bounds: Bounds,
    /// A row for each cell.
    pub rows: Vec<Row>,
    /// Parts that were left out, and why.
    pub notes: Vec<String>,
    /// Cells in which a build failed.
    pub failures: Vec<String>,
}

#[cfg(test)]
impl Report {
    /// Returns a report of three cells, for tests of its output.
    pub fn example() -> Report {
        let build = |commit: &str| Build {
            prefix: format!("/ab/{commit}").into(),
            version: format!("tutti {commit}"),
            commit: commit.to_string(),
        };
        let row = |(stage, op, bytes, ratio, verdict): (&str, &str, u64, f64, Verdict)| Row {
            stage: stage.to_string(),
            cell: Cell { op: op.to_string(), mode: "plain".to_string(), ranks: 2, bytes },
            before: vec![10.0; 5],
            now: vec![10.0 * ratio; 5],
            p: 0.0079,
            p_again: (verdict != Verdict::Equal).then_some(0.0079),
            ratio,
            verdict,
        };
        let rows = [
            ("1 host x 2", "bcast", 8, 2.0, Verdict::Slower),
            ("1 host x 2", "barrier", 0, 1.0, Verdict::Equal),
            ("4 hosts x 4", "bcast", 1 << 20, 0.5, Verdict::Faster),
        ];
        Report {
            machine: vec!["processor: Abacus".to_string()],
            processor: "Abacus".to_string(),
            before: build("aaa"),
            now: build("bbb"),
            rounds: 5,
            bounds: Bounds { level: 0.01, least_effect: 0.05 },
            rows: rows.map(row).to_vec(),
            notes: vec!["several hosts are left out: not root".to_string()],
            failures: Vec::new(),
        }
    }
}
