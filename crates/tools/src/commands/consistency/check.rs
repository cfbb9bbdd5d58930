//! Comparison of measured times with the rules: pure functions from results to findings.

use super::rules::{Bytes, DOUBLE, FEWER, NONBLOCKING, OF_LINE, OF_MEMCPY, PERSISTENT, RULES, Rule};
use crate::measure::cells::has_no_data;
use crate::measure::options::FORMS;
use crate::measure::report::size;
use crate::measure::results::{Measure, Results};
use crate::measure::sample::Cell;

/// The library that is measured.
pub const SUBJECT: &str = "tutti";

/// One comparison that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Description of the rule.
    pub what: String,
    /// Ratio of the least times to the limit: above 1 the rule is violated.
    pub least: f64,
    /// Ratio of the median times to the limit.
    pub median: f64,
}

impl Finding {
    /// Returns true if both ratios exceed `tolerance` (1.05: 5 %).
    pub fn violates(&self, tolerance: f64) -> bool {
        self.least > tolerance && self.median > tolerance
    }
}

/// The times of the subject on some number of ranks.
pub struct Times<'a> {
    /// Times of all measured cells.
    pub results: &'a Results,
    /// Number of ranks in the job.
    pub ranks: u32,
}

impl Times<'_> {
    fn time_of(&self, op: &str, bytes: u64, measure: Measure) -> Option<f64> {
        let bytes = if has_no_data(op) { 0 } else { bytes };
        let cell = Cell { op: op.to_string(), mode: "plain".to_string(), ranks: self.ranks, bytes };
        self.results.time(&cell, SUBJECT, measure)
    }

    /// Returns a finding, if all times that `ratio` needs were measured.
    fn finding(&self, what: String, ratio: impl Fn(Measure) -> Option<f64>) -> Option<Finding> {
        Some(Finding { what, least: ratio(Measure::Least)?, median: ratio(Measure::Median)? })
    }

    /// Applies all rules about parts to operations with `bytes` bytes.
    pub fn compositions(&self, bytes: u64) -> Vec<Finding> {
        let possible = RULES.iter().filter(|rule| !has_no_data(rule.whole) || bytes == 8);
        possible.filter_map(|rule| self.composition(rule, bytes)).collect()
    }

    fn composition(&self, rule: &Rule, bytes: u64) -> Option<Finding> {
        let ranks = self.ranks;
        let named = |part: &(&str, Bytes)| {
            part.1.part_bytes(bytes, ranks).map(|bytes| format!("{} {}", part.0, size(bytes)))
        };
        let parts: Option<Vec<_>> = rule.parts.iter().map(named).collect();
        let own = if has_no_data(rule.whole) { String::new() } else { format!(" {}", size(bytes)) };
        let what = format!("{}{own} <= {}, {ranks} ranks", rule.whole, parts?.join(" + "));
        self.finding(what, |measure| {
            let parts = match rule.parts {
                [(op, part)] => self.time_of(op, part.part_bytes(bytes, ranks)?, measure),
                _ => self.time_of(&rule.sequence(bytes, ranks)?, bytes, measure),
            };
            Some(self.time_of(rule.whole, bytes, measure)? / (rule.factor * parts?))
        })
    }

    /// Compares the non-blocking and the persistent form with the blocking one.
    pub fn forms(&self, bytes: u64) -> Vec<Finding> {
        let ops = FORMS.iter().filter(|op| !has_no_data(op) || bytes == 8);
        let pairs = ops.flat_map(|op| [(op, "i", NONBLOCKING), (op, "p", PERSISTENT)]);
        pairs
            .filter_map(|(op, form, factor)| {
                let name = format!("{form}{op}");
                let ranks = self.ranks;
                let what = format!("{name} {} <= {factor} x {op}, {ranks} ranks", size(bytes));
                self.finding(what, |measure| {
                    Some(self.time_of(&name, bytes, measure)? / (factor * self.time_of(op, bytes, measure)?))
                })
            })
            .collect()
    }

    /// Compares `bytes` with twice the bytes, in both directions.
    pub fn neighbours(&self, op: &str, bytes: u64) -> Vec<Finding> {
        let (small, large, ranks) = (size(bytes), size(2 * bytes), self.ranks);
        let grows =
            self.finding(format!("{op} {large} <= {DOUBLE} x {op} {small}, {ranks} ranks"), |measure| {
                Some(self.time_of(op, 2 * bytes, measure)? / (DOUBLE * self.time_of(op, bytes, measure)?))
            });
        let falls =
            self.finding(format!("{op} {small} <= {FEWER} x {op} {large}, {ranks} ranks"), |measure| {
                Some(self.time_of(op, bytes, measure)? / (FEWER * self.time_of(op, 2 * bytes, measure)?))
            });
        grows.into_iter().chain(falls).collect()
    }

    /// Compares with one rank more: the time may grow as the work does, and must not shrink much.
    pub fn one_more(&self, more: &Times, op: &str, bytes: u64) -> Vec<Finding> {
        let (few, many) = (self.ranks, more.ranks);
        let most = FEWER * f64::from(many) / f64::from(few);
        let size = size(if has_no_data(op) { 0 } else { bytes });
        let grows = self.finding(format!("{op} {size} on {many} ranks <= {most:.2} x on {few}"), |measure| {
            Some(more.time_of(op, bytes, measure)? / (most * self.time_of(op, bytes, measure)?))
        });
        let falls = self.finding(format!("{op} {size} on {few} ranks <= {FEWER} x on {many}"), |measure| {
            Some(self.time_of(op, bytes, measure)? / (FEWER * more.time_of(op, bytes, measure)?))
        });
        grows.into_iter().chain(falls).collect()
    }

    /// Compares operations with references without MPI.
    pub fn references(&self, bytes: u64) -> Vec<Finding> {
        let ranks = self.ranks;
        let copies = ["bcast", "allgather"].iter().filter_map(|op| {
            let what = format!("{op} {} <= copies without MPI / {OF_MEMCPY}, {ranks} ranks", size(bytes));
            self.finding(what, |measure| {
                let copy = self.time_of(&format!("copy_{op}"), bytes, measure)?;
                Some(OF_MEMCPY * self.time_of(op, bytes, measure)? / copy)
            })
        });
        let doublings = f64::from(ranks).log2().ceil();
        let what = format!("barrier <= {OF_LINE} x {doublings} x line, {ranks} ranks");
        let barrier = self.finding(what, |measure| {
            Some(
                self.time_of("barrier", 0, measure)?
                    / (OF_LINE * doublings * self.time_of("line", 0, measure)?),
            )
        });
        copies.chain(barrier).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::Sample;

    fn check(
        rows: &[(&str, u32, u64, f64)],
        findings: impl Fn(&Times, &Times) -> Vec<Finding>,
        expected: &[(&str, f64)],
    ) {
        let mut results = Results::default();
        for &(op, ranks, bytes, us) in rows {
            let cell = Cell { op: op.to_string(), mode: "plain".to_string(), ranks, bytes };
            results.add(SUBJECT, Sample { cell, us, least: us, wrong: 0 });
        }
        let (few, more) = (Times { results: &results, ranks: 2 }, Times { results: &results, ranks: 3 });
        let found: Vec<_> = findings(&few, &more)
            .into_iter()
            .map(|one| (one.what, (one.least * 100.0).round() / 100.0))
            .collect();
        let wanted: Vec<_> = expected.iter().map(|(what, ratio)| (what.to_string(), *ratio)).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_whole_is_held_against_its_parts_where_all_were_measured() {
        let rows = [("allreduce", 2, 8, 6.0), ("reduce", 2, 8, 1.0), ("reduce@8+bcast@8", 2, 8, 3.0)];
        check(
            &rows,
            |times, _| times.compositions(8),
            &[
                ("allreduce 8 <= reduce 8 + bcast 8, 2 ranks", 2.0),
                ("reduce 8 <= allreduce 8, 2 ranks", 0.17),
            ],
        );
    }

    #[test]
    fn forms_sizes_and_ranks_have_no_cliffs() {
        let rows = [("scan", 2, 64, 1.0), ("iscan", 2, 64, 2.2), ("pscan", 2, 64, 0.5)];
        check(
            &rows,
            |times, _| times.forms(64),
            &[("iscan 64 <= 1.1 x scan, 2 ranks", 2.0), ("pscan 64 <= 1 x scan, 2 ranks", 0.5)],
        );
        let rows = [("scan", 2, 64, 1.3), ("scan", 2, 128, 1.0), ("scan", 3, 64, 3.9)];
        check(
            &rows,
            |times, _| times.neighbours("scan", 64),
            &[("scan 128 <= 2.2 x scan 64, 2 ranks", 0.35), ("scan 64 <= 1.3 x scan 128, 2 ranks", 1.0)],
        );
        check(
            &rows,
            |few, more| few.one_more(more, "scan", 64),
            &[("scan 64 on 3 ranks <= 1.95 x on 2", 1.54), ("scan 64 on 2 ranks <= 1.3 x on 3", 0.26)],
        );
    }

    #[test]
    fn references_are_what_the_machine_does() {
        let rows =
            [("barrier", 2, 0, 2.6), ("line", 2, 0, 1.0), ("bcast", 2, 64, 1.0), ("copy_bcast", 2, 64, 0.9)];
        check(
            &rows,
            |times, _| times.references(64),
            &[
                ("bcast 64 <= copies without MPI / 0.9, 2 ranks", 1.0),
                ("barrier <= 1.3 x 1 x line, 2 ranks", 2.0),
            ],
        );
    }
}
