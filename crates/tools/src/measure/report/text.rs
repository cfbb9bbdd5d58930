//! Tables of ratios for the terminal, and all figures for other programs.

use super::input::Input;
use super::summary;
use super::words::{short, size};
use crate::measure::results::{Measure, Results, TCP};
use crate::measure::sample::Cell;
use std::collections::BTreeSet;
use std::fmt::Write;

const NAME_WIDTH: usize = 21;
const CELL_WIDTH: usize = 12;

/// Returns all tables as text for the terminal.
pub fn tables(input: &Input) -> String {
    let mut out = String::new();
    for line in &input.machine {
        let _ = writeln!(out, "{line}");
    }
    for library in input.libraries {
        let _ = writeln!(out, "library: {}", library.version);
    }
    for &ranks in &input.options.ranks {
        for mode in &input.options.modes {
            table(input, ranks, mode, &mut out);
        }
    }
    if input.compares() {
        summary::summary(input, &mut out);
    }
    if input.options.hosts.is_some() {
        between_two(input, &mut out);
    }
    events(input, &mut out);
    if input.compares() {
        let _ = writeln!(out, "\nGoals (ratio to the best other)");
        for goal in input.goals() {
            let ratio = goal.ratio.as_ref().map_or("-".to_string(), |r| format!("{:.2} {}", r.value, r.best));
            let _ = writeln!(
                out,
                "  {:<28} at most {:<5.2} {:<16} {}",
                goal.what,
                goal.limit,
                ratio,
                goal.verdict()
            );
        }
    }
    if !input.results.failures.is_empty() {
        let _ = writeln!(out, "\nFailures");
        for failure in &input.results.failures {
            let _ = writeln!(out, "  {failure}");
        }
    }
    out
}

/// Ratios of times with the best other's initial, or times if there is no other.
fn table(input: &Input, ranks: u32, mode: &str, out: &mut String) {
    let results = input.results;
    let ops: Vec<_> =
        input.options.ops.iter().filter(|op| results.sizes(op, mode, ranks).count() > 0).collect();
    let sizes: BTreeSet<u64> =
        ops.iter().flat_map(|op| results.sizes(op, mode, ranks)).filter(|&bytes| bytes > 0).collect();
    if ops.is_empty() {
        return;
    }
    let subject = input.subject();
    let title = match input.compares() {
        true => "time by the best other's (its mark), least/median",
        false => "time, least/median in us",
    };
    let _ = writeln!(out, "\n{subject}, {ranks} ranks, {mode} data: {title}");
    let _ = write!(out, "{:NAME_WIDTH$}", "bytes");
    sizes.iter().for_each(|&bytes| *out += &format!("{:>CELL_WIDTH$}", size(bytes)));
    out.push('\n');
    for op in ops {
        let _ = write!(out, "{op:NAME_WIDTH$}");
        let whole = results.sizes(op, mode, ranks).all(|bytes| bytes == 0);
        let columns: Vec<u64> = if whole { vec![0] } else { sizes.iter().copied().collect() };
        for bytes in columns {
            let cell = Cell { op: op.clone(), mode: mode.to_string(), ranks, bytes };
            let shown = shown(input, &cell).unwrap_or_else(|| "-".to_string());
            let _ = write!(out, "{shown:>CELL_WIDTH$}");
        }
        out.push('\n');
    }
    let mean =
        |measure| results.mean_ratio(subject, measure, |cell| cell.ranks == ranks && cell.mode == mode);
    if let (Some(least), Some(median)) = (mean(Measure::Least), mean(Measure::Median)) {
        let _ = writeln!(out, "geometric mean {least:.2}/{median:.2}");
    }
}

/// Writes the times of messages between two hosts, for all libraries and one TCP connection.
fn between_two(input: &Input, out: &mut String) {
    let names: Vec<&str> = input.libraries.iter().map(|library| library.name.as_str()).chain([TCP]).collect();
    let _ = write!(out, "\n{:NAME_WIDTH$}{:>8}", "two hosts, median us", "bytes");
    names.iter().for_each(|name| *out += &format!("{name:>CELL_WIDTH$}"));
    out.push('\n');
    for op in ["latency", "bandwidth"] {
        for bytes in input.results.sizes(op, "plain", 2) {
            let cell = Cell { op: op.to_string(), mode: "plain".to_string(), ranks: 2, bytes };
            let _ = write!(out, "{op:NAME_WIDTH$}{:>8}", size(bytes));
            for name in &names {
                let time = input.results.time(&cell, name, Measure::Median).map_or("-".to_string(), short);
                let _ = write!(out, "{time:>CELL_WIDTH$}");
            }
            out.push('\n');
        }
    }
}

/// Ratios of the least and the median times, or the times if there is no other.
fn shown(input: &Input, cell: &Cell) -> Option<String> {
    let subject = input.subject();
    let ratio = |measure| input.results.ratio(cell, subject, measure);
    let time = |measure| input.results.time(cell, subject, measure);
    match (ratio(Measure::Least), ratio(Measure::Median)) {
        (Some(least), Some(median)) => {
            Some(format!("{}/{}{}", short(least.value), short(median.value), mark(&least.best)))
        }
        _ => Some(format!("{}/{}", short(time(Measure::Least)?), short(time(Measure::Median)?))),
    }
}

/// Returns a letter for a library: its initial, or p for MPICH's collectives by point-to-point messages.
fn mark(library: &str) -> &str {
    if library == "mpich-p2p" { "p" } else { &library[..1] }
}

fn events(input: &Input, out: &mut String) {
    for (event, title) in input.events() {
        let times: Vec<_> = input
            .libraries
            .iter()
            .filter_map(|library| Some((&library.name, input.results.event(&event, &library.name)?)))
            .collect();
        if !times.is_empty() {
            let _ = write!(out, "\n{title}, ms:");
            times.iter().for_each(|(name, ms)| *out += &format!("  {name} {ms:.0}"));
            out.push('\n');
        }
    }
}

/// Returns all cells as text: median, least and largest time of each library, separated by tabs.
pub fn figures(results: &Results) -> String {
    let mut out = "op\tmode\tranks\tbytes\tlibrary\tmedian_us\tleast_us\tmost_us\trounds\n".to_string();
    for (cell, times) in results.cells() {
        let Cell { op, mode, ranks, bytes } = cell;
        for (library, series) in times {
            let (middle, least) = (series.time(Measure::Median), series.time(Measure::Least));
            let (Some(middle), Some(least)) = (middle, least) else { continue };
            let _ = writeln!(
                out,
                "{op}\t{mode}\t{ranks}\t{bytes}\t{library}\t{middle:.4}\t{least:.4}\t{:.4}\t{}",
                series.most(),
                series.rounds()
            );
        }
    }
    out
}
