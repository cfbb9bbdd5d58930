//! The table of a comparison of builds.

use super::report::Report;
use super::rows::{Row, count, geometric_mean};
use crate::measure::rank_test::Verdict;
use crate::measure::report::{size, time};
use std::fmt::Write;

/// Returns the table: every cell with its verdict, then a summary of each stage with the differences.
pub fn table(report: &Report) -> String {
    let mut out = head(report);
    for rows in by_stage(&report.rows) {
        let title = &rows[0].stage;
        let _ = writeln!(
            out,
            "\n{title:26}{:>6}{:>12}{:>12}{:>8}{:>8}  verdict",
            "bytes", "before", "now", "ratio", "p"
        );
        rows.iter().for_each(|row| out += &line(&name(row), row));
    }
    let _ = writeln!(out, "\n{:26}{:>6}{:>8}{:>8}{:>8}", "", "cells", "ratio", "faster", "slower");
    by_stage(&report.rows).for_each(|rows| summary(&rows[0].stage, rows, &mut out));
    summary("all", &report.rows, &mut out);
    for verdict in [Verdict::Faster, Verdict::Slower] {
        let mut rows: Vec<&Row> = report.rows.iter().filter(|row| row.verdict == verdict).collect();
        rows.sort_by(|one, other| one.ratio.ln().abs().total_cmp(&other.ratio.ln().abs()).reverse());
        if !rows.is_empty() {
            let _ = writeln!(out, "\n{}:", verdict.name());
        }
        rows.iter().for_each(|row| out += &line(&format!("{}, {}", row.stage, name(row)), row));
    }
    report.notes.iter().for_each(|note| out += &format!("\nnote: {note}\n"));
    report.failures.iter().for_each(|failure| out += &format!("failed: {failure}\n"));
    out
}

fn head(report: &Report) -> String {
    let mut out = report.machine.iter().fold(String::new(), |out, line| out + line + "\n");
    for (name, build) in [("before", &report.before), ("now", &report.now)] {
        let _ = writeln!(out, "{name}: {}, {}", build.version, build.prefix.display());
    }
    let _ = writeln!(
        out,
        "Medians of {} rounds of fresh jobs, the builds in turn cell by cell; ratio: time now by time before.\n\
         A difference counts if in two series of rounds chance makes it with p <= {}, and it is {} % or more.",
        report.rounds,
        report.bounds.level,
        report.bounds.least_effect * 100.0
    );
    out
}

fn by_stage(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|one, other| one.stage == other.stage)
}

/// Returns the operation of a row, with its mode where that is not the usual one.
pub fn name(row: &Row) -> String {
    match row.cell.mode.as_str() {
        "plain" => row.cell.op.clone(),
        mode => format!("{} {mode}", row.cell.op),
    }
}

fn line(name: &str, row: &Row) -> String {
    let median = |times: &[f64]| crate::measure::results::median(times).map_or("-".to_string(), time);
    let again = row.p_again.map_or(String::new(), |p| format!(" (again: p {p:.4})"));
    format!(
        "{name:26}{:>6}{:>12}{:>12}{:>8.2}{:>8.4}  {}{again}\n",
        size(row.cell.bytes),
        median(&row.before),
        median(&row.now),
        row.ratio,
        row.p,
        row.verdict.name()
    )
}

fn summary(title: &str, rows: &[Row], out: &mut String) {
    let mean = geometric_mean(rows.iter().map(|row| row.ratio)).unwrap_or(f64::NAN);
    let (faster, slower) = (count(rows, Verdict::Faster), count(rows, Verdict::Slower));
    let _ = writeln!(out, "{title:26}{:>6}{mean:>8.2}{faster:>8}{slower:>8}", rows.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_cell_the_means_and_what_differs() {
        let shown = table(&Report::example());
        let lines: Vec<String> =
            shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let check = |expected: &str| {
            assert!(lines.iter().any(|line| line == expected), "{expected} is missing in\n{shown}")
        };
        check("processor: Abacus");
        check("before: tutti aaa, /ab/aaa");
        check("bcast 8 10 us 20 us 2.00 0.0079 slower (again: p 0.0079)");
        check("barrier - 10 us 10 us 1.00 0.0079 equal");
        check("1 host x 2 2 1.41 0 1");
        check("all 3 1.00 1 1");
        check("4 hosts x 4, bcast 1M 10 us 5.00 us 0.50 0.0079 faster (again: p 0.0079)");
        check("note: several hosts are left out: not root");
    }
}
