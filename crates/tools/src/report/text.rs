//! Tables of ratios for the terminal, and all figures for other programs.

use super::{Input, size, time};
use crate::results::{KILLED, Results, START, goals, median};
use crate::sample::Cell;
use std::collections::BTreeSet;
use std::fmt::Write;

const NAME_WIDTH: usize = 15;
const CELL_WIDTH: usize = 9;

/// All tables.
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
    events(input, &mut out);
    if input.compares() {
        let _ = writeln!(out, "\nGoals (ratio to the best other)");
        for goal in goals(input.results, input.subject()) {
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
    let title = if input.compares() { "time by the best other's (its initial)" } else { "time" };
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
            let shown = match (results.ratio(&cell, subject), results.time(&cell, subject)) {
                (Some(ratio), _) => format!("{} {}", short(ratio.value), &ratio.best[..1]),
                (None, Some(us)) => time(us),
                (None, None) => "-".to_string(),
            };
            let _ = write!(out, "{shown:>CELL_WIDTH$}");
        }
        out.push('\n');
    }
    let mean = results.mean_ratio(subject, |cell| cell.ranks == ranks && cell.mode == mode);
    if let Some(mean) = mean {
        let _ = writeln!(out, "geometric mean {mean:.2}");
    }
}

fn short(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

fn events(input: &Input, out: &mut String) {
    let what = [
        (START, format!("Start of {} ranks (init, barrier, finalize), ms", input.options.start_ranks)),
        (KILLED, "End of a job after one rank was killed, ms".to_string()),
    ];
    for (event, title) in what {
        let times: Vec<_> = input
            .libraries
            .iter()
            .filter_map(|library| Some((&library.name, input.results.event(event, &library.name)?)))
            .collect();
        if !times.is_empty() {
            let _ = write!(out, "\n{title}:");
            times.iter().for_each(|(name, ms)| *out += &format!("  {name} {ms:.0}"));
            out.push('\n');
        }
    }
}

/// Every cell: median, least and largest time of each library, separated by tabs.
pub fn figures(results: &Results) -> String {
    let mut out = "op\tmode\tranks\tbytes\tlibrary\tmedian_us\tleast_us\tmost_us\trounds\n".to_string();
    for (cell, library, values) in results.cells() {
        let Some(middle) = median(values) else { continue };
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let Cell { op, mode, ranks, bytes } = cell;
        let _ = writeln!(
            out,
            "{op}\t{mode}\t{ranks}\t{bytes}\t{library}\t{middle:.4}\t{least:.4}\t{most:.4}\t{}",
            values.len()
        );
    }
    out
}
