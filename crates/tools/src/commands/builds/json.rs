//! A comparison of builds for other programs.

use super::report::{Build, Report};
use super::rows::{Row, count, geometric_mean};
use crate::measure::rank_test::Verdict;
use serde_json::{Value, json};

/// Returns everything that was measured and decided. Times are in microseconds.
pub fn value(report: &Report) -> Value {
    let build = |build: &Build| json!({ "version": build.version, "prefix": build.prefix });
    json!({
        "machine": report.machine,
        "before": build(&report.before),
        "now": build(&report.now),
        "rounds": report.rounds,
        "level": report.bounds.level,
        "least_effect": report.bounds.least_effect,
        "geometric_mean": geometric_mean(report.rows.iter().map(|row| row.ratio)),
        "faster": count(&report.rows, Verdict::Faster),
        "slower": count(&report.rows, Verdict::Slower),
        "cells": report.rows.iter().map(cell).collect::<Vec<Value>>(),
        "notes": report.notes,
        "failures": report.failures,
    })
}

fn cell(row: &Row) -> Value {
    json!({
        "stage": row.stage,
        "op": row.cell.op,
        "mode": row.cell.mode,
        "ranks": row.cell.ranks,
        "bytes": row.cell.bytes,
        "before_us": row.before,
        "now_us": row.now,
        "ratio": row.ratio,
        "p": row.p,
        "p_again": row.p_again,
        "verdict": row.verdict.name(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_times_and_verdicts() {
        let value = value(&Report::example());
        assert_eq!((&value["slower"], &value["faster"]), (&json!(1), &json!(1)));
        assert_eq!(value["now"]["version"], "tutti bbb");
        assert_eq!(value["cells"][0]["verdict"], "slower");
        assert_eq!(value["cells"][1]["before_us"], json!([10.0, 10.0, 10.0, 10.0, 10.0]));
        assert_eq!(value["cells"][1]["p_again"], Value::Null);
    }
}
