//! Summary of the tables: mean ratios by operation, cells with a slower Tutti, and unreliable times.

use super::input::Input;
use super::words::{short, size};
use crate::measure::results::{Measure, Ratio};
use crate::measure::sample::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Ratio of the slowest to the fastest round above which a cell is listed.
const SPREAD_LIMIT: f64 = 3.0;

/// Number of unreliable cells to list.
const SPREADS: usize = 10;

/// A cell with the subject's ratios to the best other.
struct Compared<'a> {
    cell: &'a Cell,
    least: Ratio,
    median: Ratio,
}

impl Compared<'_> {
    /// Returns true if Tutti is slower by both statistics; one alone may be noise.
    fn lost(&self) -> bool {
        self.least.value > 1.0 && self.median.value > 1.0
    }

    fn open(&self) -> bool {
        !self.lost() && (self.least.value > 1.0 || self.median.value > 1.0)
    }
}

/// Appends the whole summary to `out`.
pub fn summary(input: &Input, out: &mut String) {
    let compared: Vec<_> = input
        .results
        .cells()
        .filter_map(|(cell, _)| {
            let ratio = |measure| input.results.ratio(cell, input.subject(), measure);
            Some(Compared { cell, least: ratio(Measure::Least)?, median: ratio(Measure::Median)? })
        })
        .collect();
    if compared.is_empty() {
        return;
    }
    means(input, &compared, out);
    losses(input, &compared, out);
    spreads(input, out);
    let [turns, disturbed] = input.results.turns();
    if disturbed > 0 {
        let _ = writeln!(
            out,
            "\nWarning: a hypervisor took processors away from this machine in {disturbed} of {turns} measurements, also when they were repeated"
        );
    }
}

fn means(input: &Input, compared: &[Compared], out: &mut String) {
    let _ = writeln!(out, "\nSummary: geometric means of time by the best other's; lost: by both measures");
    let _ =
        writeln!(out, "{:<21}{:>6}{:>8}{:>8}{:>6}{:>10}", "", "cells", "least", "median", "lost", "by one");
    let row = |name: &str, wanted: &dyn Fn(&Cell) -> bool, out: &mut String| {
        let cells: Vec<_> = compared.iter().filter(|one| wanted(one.cell)).collect();
        let mean = |measure| input.results.mean_ratio(input.subject(), measure, wanted).unwrap_or(f64::NAN);
        let _ = writeln!(
            out,
            "{name:<21}{:>6}{:>8.2}{:>8.2}{:>6}{:>10}",
            cells.len(),
            mean(Measure::Least),
            mean(Measure::Median),
            cells.iter().filter(|one| one.lost()).count(),
            cells.iter().filter(|one| one.open()).count()
        );
    };
    let measured = |op: &&String| compared.iter().any(|one| one.cell.op == **op);
    for op in input.options.ops.iter().filter(measured) {
        row(op, &|cell| cell.op == *op, out);
    }
    for &ranks in &input.options.ranks {
        row(&format!("{ranks} ranks"), &|cell| cell.ranks == ranks, out);
    }
    for mode in &input.options.modes {
        row(&format!("{mode} data"), &|cell| cell.mode == *mode, out);
    }
    row("all", &|_| true, out);
}

/// Appends the cells with a slower Tutti, worst first, with the times.
fn losses(input: &Input, compared: &[Compared], out: &mut String) {
    let mut lost: Vec<_> = compared.iter().filter(|one| one.lost()).collect();
    lost.sort_by(|one, other| other.least.value.total_cmp(&one.least.value));
    let _ = writeln!(out, "\nCells lost: {} of {}", lost.len(), compared.len());
    if lost.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{:<21}{:>6} {:<9}{:>6}{:>18}{:>18} {:<10}{:>7}{:>8}",
        "", "ranks", "data", "bytes", "least/median us", "best other's", "", "least", "median"
    );
    for Compared { cell, least, median } in lost {
        let times = |library| {
            let time = |measure| input.results.time(cell, library, measure).map_or("-".to_string(), short);
            format!("{}/{}", time(Measure::Least), time(Measure::Median))
        };
        let Cell { op, mode, ranks, bytes } = cell;
        let _ = writeln!(
            out,
            "{op:<21}{ranks:>6} {mode:<9}{:>6}{:>18}{:>18} {:<10}{:>7}{:>8}",
            size(*bytes),
            times(input.subject()),
            times(&least.best),
            least.best,
            short(least.value),
            short(median.value)
        );
    }
}

fn spreads(input: &Input, out: &mut String) {
    let mut by_library: BTreeMap<&str, Vec<(f64, &Cell)>> = BTreeMap::new();
    let mut cells = 0;
    for (cell, times) in input.results.cells() {
        for (library, series) in times {
            cells += 1;
            if series.spread() > SPREAD_LIMIT {
                by_library.entry(library).or_default().push((series.spread(), cell));
            }
        }
    }
    let wide: usize = by_library.values().map(Vec::len).sum();
    if wide == 0 {
        return;
    }
    let counts: Vec<_> = by_library.iter().map(|(name, all)| format!("{name} {}", all.len())).collect();
    let _ = writeln!(
        out,
        "\nWarning: rounds differ by more than {SPREAD_LIMIT} in {wide} of {cells} times ({}); the widest:",
        counts.join(", ")
    );
    let mut all: Vec<_> =
        by_library.iter().flat_map(|(name, all)| all.iter().map(move |one| (one.0, *name, one.1))).collect();
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    for (spread, library, Cell { op, mode, ranks, bytes }) in all.into_iter().take(SPREADS) {
        let _ =
            writeln!(out, "  {library}: {op} {mode}, {ranks} ranks, {} B: {}", size(*bytes), short(spread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;
    use crate::measure::library::Library;
    use crate::measure::results::Results;
    use crate::measure::sample::Sample;
    use std::path::Path;

    fn check(rows: &[(&str, &str, f64)], expected: &[&str]) {
        let mut results = Results::default();
        for (library, op, us) in rows {
            let cell = Cell { op: op.to_string(), mode: "plain".to_string(), ranks: 2, bytes: 8 };
            results.add(library, Sample { cell, us: *us, least: *us, wrong: 0 });
        }
        let libraries = ["tutti", "a"].map(|name| Library::nameless(Path::new("/")).variant(name, &[]));
        let options = command_line::options("--ops bcast,scan --ranks 2").expect("options");
        let input =
            Input { options: &options, libraries: &libraries, results: &results, machine: Vec::new() };
        let mut out = String::new();
        summary(&input, &mut out);
        for line in expected {
            let words: Vec<_> = line.split_whitespace().collect();
            let found = out.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == words);
            assert!(found, "{line} is missing in\n{out}");
        }
    }

    #[test]
    fn losses_and_spreads_are_told() {
        check(
            &[("tutti", "bcast", 1.0), ("a", "bcast", 4.0), ("tutti", "scan", 3.0), ("a", "scan", 2.0)],
            &["bcast 1 0.25 0.25 0 0", "scan 1 1.50 1.50 1 0", "Cells lost: 1 of 2", "all 2 0.61 0.61 1 0"],
        );
        check(
            &[("tutti", "bcast", 1.0), ("a", "bcast", 1.0), ("a", "bcast", 5.0)],
            &["Cells lost: 0 of 1", "a: bcast plain, 2 ranks, 8 B: 5.00"],
        );
    }
}
