//! The table of `tutti bench io`.

use super::list;
use crate::measure::report::{size, time};
use crate::measure::results::{Measure, Results};
use crate::measure::sample::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Results of each storage, by its name.
pub type ByPlace = BTreeMap<String, Results>;

/// Ratio to another library's time above which a cell is marked.
const LIMIT: f64 = 1.1;
/// Ratio of collective to independent speed below which a cell is listed.
const TOGETHER: f64 = 0.9;

/// Formats the tables of all storages. The first library is compared with the others.
pub fn table(libraries: &[String], places: &ByPlace) -> String {
    let mut out = String::new();
    for (place, results) in places {
        let present: BTreeSet<&String> = results.cells().flat_map(|(_, times)| times.keys()).collect();
        // Variants come behind their library.
        let mut names: Vec<&str> = present.into_iter().map(String::as_str).collect();
        names.sort_by_key(|name| {
            (libraries.iter().position(|library| name.starts_with(library.as_str())), name.len())
        });
        out += &of_place(place, &names, results);
        results.failures.iter().for_each(|failure| out += &format!("failed: {failure}\n"));
        out += "\n";
    }
    out
}

fn of_place(place: &str, names: &[&str], results: &Results) -> String {
    let mut out = format!("{place:18}{:>13}{:>8}{:>7}", "", "bytes", "ranks");
    names.iter().for_each(|name| out += &format!("{name:>16}"));
    out += &format!("{:>12}\n", "by the best");
    let (mut behind, mut all) = (0, 0);
    for (cell, _) in results.cells() {
        out += &format!("{:18}{:>13}{:>8}{:>7}", cell.op, cell.mode, size(cell.bytes), cell.ranks);
        for name in names {
            out += &format!("{:>16}", shown(cell, results.time(cell, name, Measure::Median)));
        }
        let ratio = names.first().and_then(|subject| results.ratio(cell, subject, Measure::Median));
        if let Some(ratio) = ratio {
            let is_behind = ratio.value > LIMIT;
            (behind, all) = (behind + u32::from(is_behind), all + 1);
            out += &format!("{:>12.2}", 1.0 / ratio.value);
            out += &if is_behind { format!("  << {}", ratio.best) } else { String::new() };
        }
        out += "\n";
    }
    if all > 0 {
        out += &format!("{behind} of {all} cells behind the best of the others by more than {LIMIT} (<<)\n");
    }
    names.iter().for_each(|name| out += &together(name, results));
    out
}

/// Formats the speed in MB/s, or the time of an operation without data.
fn shown(cell: &Cell, us: Option<f64>) -> String {
    let Some(us) = us else { return "-".to_string() };
    match list::moved(&cell.op, cell.bytes, cell.ranks) {
        Some(moved) => format!("{:.0} MB/s", moved as f64 / us),
        None => time(us),
    }
}

/// Lists operations that are slower collectively than independently.
fn together(name: &str, results: &Results) -> String {
    let mut slow = Vec::new();
    let mut all = 0;
    for (cell, _) in results.cells().filter(|(cell, _)| cell.mode == "collective") {
        let alone = Cell { mode: "independent".to_string(), ..cell.clone() };
        let us = |cell| results.time(cell, name, Measure::Median);
        if let (Some(together), Some(alone)) = (us(cell), us(&alone)) {
            all += 1;
            if alone / together < TOGETHER {
                slow.push(format!(
                    "{}@{} on {} {:.2}",
                    cell.op,
                    size(cell.bytes),
                    cell.ranks,
                    alone / together
                ));
            }
        }
    }
    if all == 0 {
        return String::new();
    }
    let slower = slow.len();
    let which = if slow.is_empty() { String::new() } else { format!(": {}", slow.join(", ")) };
    format!("{name}: collective under {TOGETHER} of independent in {slower} of {all}{which}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::Sample;

    #[test]
    fn rates_are_told_and_what_is_behind() {
        let mut results = Results::default();
        let mut add = |mode: &str, library: &str, us: f64| {
            let cell = Cell { op: "write_bt".into(), mode: mode.into(), ranks: 4, bytes: 0 };
            results.add(library, Sample { cell, us, least: us, wrong: 0 });
        };
        add("independent", "tutti", 10_000.0);
        add("collective", "tutti", 20_000.0);
        add("collective", "mpich", 10_000.0);
        let names = ["tutti", "mpich"].map(String::from);
        let text = table(&names, &ByPlace::from([("disk".to_string(), results)]));
        let squeezed: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(squeezed[1], "write_bt collective - 4 524 MB/s 1049 MB/s 0.50 << mpich");
        assert_eq!(squeezed[2], "write_bt independent - 4 1049 MB/s -");
        assert!(text.contains("1 of 1 cells behind"), "{text}");
        assert!(
            text.contains("tutti: collective under 0.9 of independent in 1 of 1: write_bt@- on 4 0.50"),
            "{text}"
        );
    }
}
