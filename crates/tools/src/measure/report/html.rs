//! Report as a page: goals, tables of ratios as heat maps, plots, failures. It is one file that loads no
//! other.

use super::input::Input;
use super::svg::{self, Series, escape};
use super::words::{size, time};
use crate::measure::results::Measure;
use crate::measure::sample::Cell;
use std::collections::BTreeSet;
use std::fmt::Write;

const COLOURS: [&str; 6] = ["#c2185b", "#1976d2", "#388e3c", "#f57c00", "#7b1fa2", "#00838f"];

const STYLE: &str = "body{font:15px/1.45 sans-serif;color:#222;max-width:1180px;margin:2em auto;padding:0 1em}\
h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em}table{border-collapse:collapse;font-size:13px}\
td,th{padding:3px 8px;text-align:right;border:1px solid #fff}th{font-weight:600;color:#555}\
td:first-child,th:first-child{text-align:left}.plots{display:flex;flex-wrap:wrap;gap:10px}\
figure{margin:0}figcaption{font-weight:600;font-size:13px;margin:8px 0 0}.key span{margin-right:1.4em}\
.key i{display:inline-block;width:1em;height:.7em;margin-right:.4em}.met{color:#2e7d32}.missed{color:#c62828}\
pre{background:#f5f5f5;padding:.8em;overflow:auto}";

/// Returns the text of the whole page.
pub fn page(input: &Input) -> String {
    let title = if input.compares() { "Tutti and the others" } else { "Tutti" };
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style><h1>{title}</h1>"
    );
    let versions = input.libraries.iter().map(|library| library.version.clone());
    let facts: Vec<_> = input.machine.iter().cloned().chain(versions).map(|line| escape(&line)).collect();
    let _ = write!(out, "<p>{}</p>", facts.join("<br>"));
    let _ = write!(
        out,
        "<p>Rounds over all cells, the libraries in turn cell by cell, {} ms each; medians of the rounds, and of their ratios. Plain: the same data in each \
         iteration; changing: written afresh and read, without the time of writing and reading.</p>",
        input.options.ms
    );
    if input.compares() {
        goal_table(input, &mut out);
    }
    events(input, &mut out);
    for &ranks in &input.options.ranks {
        for mode in &input.options.modes {
            section(input, ranks, mode, &mut out);
        }
    }
    if !input.results.failures.is_empty() {
        let _ = write!(out, "<h2>Failures</h2><pre>{}</pre>", escape(&input.results.failures.join("\n")));
    }
    out + "</html>\n"
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

fn goal_table(input: &Input, out: &mut String) {
    out.push_str("<h2>Goals</h2><table><tr><th>measurement<th>ratio at most<th>ratio<th>best other<th>");
    for goal in input.goals() {
        let (ratio, best) =
            goal.ratio.as_ref().map_or(("-".to_string(), "-"), |r| (format!("{:.2}", r.value), &r.best));
        let verdict = goal.verdict();
        let class = verdict.split(' ').next().unwrap_or_default();
        let _ = write!(
            out,
            "<tr><td>{}<td>{:.2}<td>{ratio}<td>{best}<td class=\"{class}\">{verdict}",
            goal.what, goal.limit
        );
    }
    out.push_str("</table>");
}

fn events(input: &Input, out: &mut String) {
    let mut figures = String::new();
    for (event, title) in input.events() {
        let rows: Vec<_> = input
            .libraries
            .iter()
            .enumerate()
            .filter_map(|(i, one)| {
                Some((one.name.as_str(), colour(i), input.results.event(&event, &one.name)?))
            })
            .collect();
        if !rows.is_empty() {
            let plot = svg::bars(&rows, "ms");
            let _ = write!(figures, "<figure><figcaption>{title}</figcaption>{plot}</figure>");
        }
    }
    if !figures.is_empty() {
        let _ = write!(out, "<h2>Jobs</h2><div class=\"plots\">{figures}</div>");
    }
}

fn section(input: &Input, ranks: u32, mode: &str, out: &mut String) {
    let ops: Vec<_> = input
        .options
        .ops
        .iter()
        .filter(|op| input.results.sizes(op, mode, ranks).count() > 0)
        .map(String::as_str)
        .collect();
    if ops.is_empty() {
        return;
    }
    let _ = write!(out, "<h2>{ranks} ranks, {mode} data</h2>");
    if input.compares() {
        heat(input, ranks, mode, &ops, out);
    }
    out.push_str("<p class=\"key\">");
    for (i, library) in input.libraries.iter().enumerate() {
        let _ =
            write!(out, "<span><i style=\"background:{}\"></i>{}</span>", colour(i), escape(&library.name));
    }
    out.push_str("</p><div class=\"plots\">");
    for op in ops {
        let series: Vec<_> = input
            .libraries
            .iter()
            .enumerate()
            .map(|(i, library)| Series {
                name: &library.name,
                colour: colour(i),
                points: points(input, op, mode, ranks, &library.name),
            })
            .collect();
        let plot = svg::lines(&series);
        if !plot.is_empty() {
            let _ = write!(out, "<figure><figcaption>{op}</figcaption>{plot}</figure>");
        }
    }
    out.push_str("</div>");
}

fn points(input: &Input, op: &str, mode: &str, ranks: u32, library: &str) -> Vec<(f64, f64)> {
    let results = input.results;
    let cell = |bytes| Cell { op: op.to_string(), mode: mode.to_string(), ranks, bytes };
    results
        .sizes(op, mode, ranks)
        .filter(|&bytes| bytes > 0)
        .filter_map(|bytes| Some((bytes as f64, results.time(&cell(bytes), library, Measure::Median)?)))
        .collect()
}

/// Writes ratios as numbers on a background that shows where the subject is faster (green) or slower (red).
fn heat(input: &Input, ranks: u32, mode: &str, ops: &[&str], out: &mut String) {
    let results = input.results;
    let sizes: BTreeSet<u64> = ops.iter().flat_map(|op| results.sizes(op, mode, ranks)).collect();
    let subject = escape(input.subject());
    let _ = write!(out, "<p>Time of {subject} by that of the best other.</p><table><tr><th>bytes");
    sizes.iter().for_each(|&bytes| *out += &format!("<th>{}", size(bytes)));
    for op in ops {
        let _ = write!(out, "<tr><td>{op}");
        for &bytes in &sizes {
            let cell = Cell { op: op.to_string(), mode: mode.to_string(), ranks, bytes };
            let Some(ratio) = results.ratio(&cell, input.subject(), Measure::Median) else {
                out.push_str("<td>");
                continue;
            };
            let times: Vec<_> = input
                .libraries
                .iter()
                .filter_map(|one| {
                    Some(format!("{} {}", one.name, time(results.time(&cell, &one.name, Measure::Median)?)))
                })
                .collect();
            let _ = write!(
                out,
                "<td style=\"background:{}\" title=\"{}\">{:.2}",
                ground(ratio.value),
                escape(&times.join(", ")),
                ratio.value
            );
        }
    }
    out.push_str("</table>");
}

/// Returns the background colour of a ratio: green at 0.5 or less, white at 1, red at 2 or more.
fn ground(ratio: f64) -> String {
    let depth = ratio.log2().clamp(-1.0, 1.0);
    let light = 96.0 - 26.0 * depth.abs();
    format!("hsl({},{}%,{light:.0}%)", if depth < 0.0 { 130 } else { 8 }, (80.0 * depth.abs()) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_tell_faster_from_slower() {
        assert_eq!(ground(0.25), "hsl(130,80%,70%)");
        assert_eq!(ground(1.0), "hsl(8,0%,96%)");
        assert_eq!(ground(100.0), "hsl(8,80%,70%)");
    }
}
