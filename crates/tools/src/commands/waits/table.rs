//! The table of `tutti bench waits`.

use super::load::Load;
use crate::measure::report;
use crate::measure::results::{Measure, Results};
use crate::measure::sample::Cell;
use std::collections::BTreeMap;

/// Ratio to another library's time above which a cell is marked.
pub const LIMIT: f64 = 1.2;

/// Results by the number of hosts and by load.
pub type ByPlace = BTreeMap<(u32, Load), Results>;

/// Formats the table and its summary for the libraries `names`. The first is compared with each of the
/// others.
pub fn table(names: &[&str], places: &ByPlace) -> String {
    let (subject, others) = (names[0], &names[1..]);
    let mut out = format!("{:24}{:>6}{:>6}  {:8}", "program", "ranks", "hosts", "beside");
    names.iter().for_each(|name| out += &format!("{name:>14}"));
    others.iter().for_each(|name| out += &format!("{:>17}", format!("by {name}")));
    out += "\n";
    let mut ratios = vec![Vec::new(); others.len()];
    for ((hosts, load), results) in places {
        for cell in in_order(results) {
            out += &format!("{:24}{:>6}{:>6}  {:8}", name(cell), cell.ranks, hosts, load.name());
            for name in names {
                let us = results.time(cell, name, Measure::Median);
                out += &format!("{:>14}", us.map_or("-".to_string(), report::time));
            }
            let mut ahead = Vec::new();
            for (other, ratios) in others.iter().zip(&mut ratios) {
                let ratio = results.ratio_to(other, cell, subject, Measure::Median);
                out += &format!("{:>17}", ratio.map_or("-".to_string(), |ratio| format!("{ratio:.2}")));
                ratios.extend(ratio);
                ahead.extend(ratio.filter(|ratio| *ratio > LIMIT).map(|_| *other));
            }
            out += &if ahead.is_empty() { "\n".to_string() } else { format!("  << {}\n", ahead.join(" ")) };
        }
    }
    others.iter().zip(&ratios).for_each(|(other, ratios)| out += &summary(other, ratios));
    out
}

/// Returns the name of the program, with its number of objects.
fn name(cell: &Cell) -> String {
    if cell.bytes == 0 { cell.op.clone() } else { format!("{}@{}", cell.op, cell.bytes) }
}

/// Returns the cells in the order of the list of programs, and by ranks.
fn in_order(results: &Results) -> Vec<&Cell> {
    let place =
        |op: &str| super::list::FAMILIES.iter().flat_map(|family| family.names).position(|name| *name == op);
    let mut cells: Vec<&Cell> = results.cells().map(|(cell, _)| cell).collect();
    cells.sort_by_key(|cell| (place(&cell.op), cell.bytes, cell.ranks));
    cells
}

fn summary(other: &str, ratios: &[f64]) -> String {
    if ratios.is_empty() {
        return String::new();
    }
    let behind = ratios.iter().filter(|ratio| **ratio > LIMIT).count();
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    format!(
        "by {other}: {behind} of {} above {LIMIT} (<<), worst {worst:.2}, geometric mean {mean:.2}\n",
        ratios.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::Sample;

    fn check(names: &[&str], times: &[(&str, &str, f64)], expected: &[&str]) {
        let mut results = Results::default();
        for (op, library, us) in times {
            let cell = Cell { op: op.to_string(), mode: "alone".into(), ranks: 2, bytes: 0 };
            results.add(library, Sample { cell, us: *us, least: *us, wrong: 0 });
        }
        let shown = table(names, &ByPlace::from([((1, Load::Busy), results)]));
        let lines: Vec<String> =
            shown.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_another_library_does_faster_is_marked_with_its_name() {
        check(
            &["tutti", "mpich-p2p", "openmpi-yield"],
            &[
                ("ring_recv", "tutti", 3.0),
                ("ring_recv", "mpich-p2p", 2.0),
                ("ring_recv", "openmpi-yield", 4.0),
                ("barrier", "tutti", 1.0),
                ("barrier", "openmpi-yield", 2.0),
            ],
            &[
                "ring_recv 2 1 busy 3.00 us 2.00 us 4.00 us 1.50 0.75 << mpich-p2p",
                "barrier 2 1 busy 1.00 us - 2.00 us - 0.50",
                "by mpich-p2p: 1 of 1 above 1.2 (<<), worst 1.50, geometric mean 1.50",
                "by openmpi-yield: 0 of 2 above 1.2 (<<), worst 0.75, geometric mean 0.61",
            ],
        );
        check(&["tutti"], &[("barrier", "tutti", 3.0)], &["barrier 2 1 busy 3.00 us"]);
    }
}
