//! Evaluation of the times of two builds: a row with a verdict for each cell, means, and whether any cell is
//! slower. The module is pure.

use super::stages::Stage;
use crate::measure::rank_test::{Bounds, Verdict, judge, p_value, ratio};
use crate::measure::results::Results;
use crate::measure::sample::Cell;
use crate::measure::session::Ask;

/// Name of the build that is judged, in results.
pub const NOW: &str = "now";
/// Name of the build that is the reference, in results.
pub const BEFORE: &str = "before";

/// One cell of a stage, measured with both builds.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Title of its stage.
    pub stage: String,
    /// Operation, mode, ranks and bytes.
    pub cell: Cell,
    /// Times of the build before, in microseconds, round by round; those of the second series follow.
    pub before: Vec<f64>,
    /// Times of the build now.
    pub now: Vec<f64>,
    /// Probability with which chance alone makes such a difference, in the first series.
    pub p: f64,
    /// Probability in the second series, if there was one.
    pub p_again: Option<f64>,
    /// Median time now by that before: above 1 the build is slower.
    pub ratio: f64,
    /// Verdict. A difference counts only if both series have it.
    pub verdict: Verdict,
}

/// Returns the cells that differ in one series: each stage with these cells alone, to be measured again.
pub fn suspects(stages: &[Stage], results: &[Results], bounds: Bounds) -> Vec<Stage> {
    let differs = |results: &Results, ranks: u32, ask: &Ask| {
        let [before, now] = [BEFORE, NOW].map(|build| results.rounds(&cell(ask, ranks), build));
        judge(before, now, bounds) != Verdict::Equal
    };
    let of_stage = |(stage, results): (&Stage, &Results)| {
        let asks = stage.asks.iter().filter(|ask| differs(results, stage.ranks, ask)).cloned().collect();
        Stage { asks, ..stage.clone() }
    };
    stages.iter().zip(results).map(of_stage).collect()
}

/// Returns a row for each cell that both builds have measured. `again` is the second series, empty or by
/// stage.
pub fn rows(stages: &[Stage], first: &[Results], again: &[Results], bounds: Bounds) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, (stage, results)) in stages.iter().zip(first).enumerate() {
        for ask in &stage.asks {
            let cell = cell(ask, stage.ranks);
            let series = [Some(results), again.get(number)];
            let times = |build| series.map(|one| one.map_or(&[][..], |one| one.rounds(&cell, build)));
            rows.extend(row(stage.title(), &cell, times(BEFORE), times(NOW), bounds));
        }
    }
    rows
}

fn row(stage: String, cell: &Cell, before: [&[f64]; 2], now: [&[f64]; 2], bounds: Bounds) -> Option<Row> {
    let verdicts = [0, 1].map(|series| judge(before[series], now[series], bounds));
    let repeated = !before[1].is_empty() && !now[1].is_empty();
    let (before_all, now_all) = (before.concat(), now.concat());
    Some(Row {
        stage,
        cell: cell.clone(),
        p: p_value(before[0], now[0]),
        p_again: repeated.then(|| p_value(before[1], now[1])),
        ratio: ratio(&before_all, &now_all)?,
        verdict: if verdicts[0] == verdicts[1] { verdicts[0] } else { Verdict::Equal },
        before: before_all,
        now: now_all,
    })
}

fn cell(ask: &Ask, ranks: u32) -> Cell {
    Cell { op: ask.op.clone(), mode: ask.mode.clone(), ranks, bytes: ask.bytes }
}

/// Returns the number of rows with a verdict.
pub fn count(rows: &[Row], verdict: Verdict) -> usize {
    rows.iter().filter(|row| row.verdict == verdict).count()
}

/// Returns the geometric mean of ratios. None if there are none.
pub fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let (number, sum) = ratios.fold((0u32, 0.0), |(number, sum), ratio| (number + 1, sum + ratio.ln()));
    (number > 0).then(|| (sum / f64::from(number)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::builds::stages::Kind;
    use crate::measure::sample::Sample;

    const BOUNDS: Bounds = Bounds { level: 0.01, least_effect: 0.05 };
    const STEADY: [f64; 5] = [1.0, 1.1, 1.2, 1.3, 1.4];
    const SLOW: [f64; 5] = [2.0, 2.1, 2.2, 2.3, 2.4];

    fn stages() -> Vec<Stage> {
        let ask = |op: &str| Ask { op: op.to_string(), mode: "plain".to_string(), bytes: 8 };
        let asks = ["bcast", "scan", "reduce"].map(ask).to_vec();
        vec![Stage { kind: Kind::Operations("tutti-bench"), hosts: 1, ranks: 2, asks }]
    }

    fn results(rows: &[(&str, &str, [f64; 5])]) -> Vec<Results> {
        let mut results = Results::default();
        for (op, build, times) in rows {
            let cell = Cell { op: op.to_string(), mode: "plain".to_string(), ranks: 2, bytes: 8 };
            for us in times {
                results.add(build, Sample { cell: cell.clone(), us: *us, least: *us, wrong: 0 });
            }
        }
        vec![results]
    }

    fn first() -> Vec<Results> {
        results(&[
            ("bcast", BEFORE, STEADY),
            ("bcast", NOW, SLOW),
            ("scan", BEFORE, SLOW),
            ("scan", NOW, STEADY),
            ("reduce", BEFORE, STEADY),
            ("reduce", NOW, STEADY),
        ])
    }

    #[test]
    fn only_cells_that_differ_are_measured_again() {
        let again = suspects(&stages(), &first(), BOUNDS);
        let ops: Vec<&str> = again[0].asks.iter().map(|ask| ask.op.as_str()).collect();
        assert_eq!(ops, ["bcast", "scan"]);
    }

    #[test]
    fn a_difference_counts_if_both_series_have_it() {
        let check = |again: &[Results], expected: [(&str, Verdict); 3]| {
            let rows = rows(&stages(), &first(), again, BOUNDS);
            let found: Vec<_> = rows.iter().map(|row| (row.cell.op.as_str(), row.verdict)).collect();
            assert_eq!(found, expected);
        };
        let again =
            [("bcast", BEFORE, STEADY), ("bcast", NOW, SLOW), ("scan", BEFORE, STEADY), ("scan", NOW, SLOW)];
        // The scan was faster first, and then slower.
        check(
            &results(&again),
            [("bcast", Verdict::Slower), ("scan", Verdict::Equal), ("reduce", Verdict::Equal)],
        );
        check(&[], ["bcast", "scan", "reduce"].map(|op| (op, Verdict::Equal)));
    }

    #[test]
    fn a_row_has_all_times_and_their_ratio() {
        let rows =
            rows(&stages(), &first(), &results(&[("bcast", BEFORE, STEADY), ("bcast", NOW, SLOW)]), BOUNDS);
        assert_eq!((rows[0].before.len(), rows[0].now.len()), (10, 10));
        assert!((rows[0].ratio - 2.2 / 1.2).abs() < 1e-9 && rows[0].p < 0.01 && rows[0].p_again.is_some());
        assert_eq!((rows[2].before.len(), rows[2].p_again), (5, None));
        assert_eq!([Verdict::Slower, Verdict::Equal].map(|verdict| count(&rows, verdict)), [1, 2]);
        // A cell that one build alone has measured has no row.
        let lonely = results(&[("bcast", NOW, SLOW)]);
        assert!(super::rows(&stages(), &lonely, &[], BOUNDS).is_empty());
    }

    #[test]
    fn means_of_ratios_are_geometric() {
        assert_eq!(geometric_mean([0.5, 2.0].into_iter()), Some(1.0));
        assert_eq!(geometric_mean(std::iter::empty()), None);
    }
}
