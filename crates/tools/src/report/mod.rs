//! The report: tables on the terminal, figures in a file, and a page with plots.

mod html;
mod summary;
pub mod svg;
mod text;

use crate::info::machine;
use crate::library::Library;
use crate::options::{Options, Shape};
use crate::results::{Goal, KILLED, Results, START, goals, goals_of_hosts};
use std::path::Path;

/// What a report is made from.
pub struct Input<'a> {
    /// What was asked for: gives the order of operations, ranks and modes.
    pub options: &'a Options,
    /// The libraries; the first is compared with the others.
    pub libraries: &'a [Library],
    /// The measured times.
    pub results: &'a Results,
    /// The machine, a line each.
    pub machine: Vec<String>,
}

impl Input<'_> {
    /// What was promised, and what came out.
    pub fn goals(&self) -> Vec<Goal> {
        if self.options.hosts.is_none() {
            return goals(self.results, self.subject());
        }
        let starts: Vec<String> = self.options.starts.iter().map(|shape| shape.event()).collect();
        goals_of_hosts(self.results, self.subject(), &starts)
    }

    /// Names and titles of the job events.
    pub fn events(&self) -> Vec<(String, String)> {
        if self.options.hosts.is_some() {
            let title = |shape: &Shape| {
                format!("Start of {} hosts x {} ranks (init, barrier, finalize)", shape.hosts, shape.ranks)
            };
            return self.options.starts.iter().map(|shape| (shape.event(), title(shape))).collect();
        }
        let start = format!("Start of {} ranks (init, barrier, finalize)", self.options.start_ranks);
        let killed = "End of a job after one rank was killed".to_string();
        vec![(START.to_string(), start), (KILLED.to_string(), killed)]
    }

    /// The library that is compared with the others.
    pub fn subject(&self) -> &str {
        &self.libraries[0].name
    }

    /// Whether there is anything to compare with.
    pub fn compares(&self) -> bool {
        self.libraries.len() > 1
    }
}

/// Prints the tables; writes `report.txt`, `report.html` and `figures.tsv` into the output directory.
///
/// # Errors
/// A file cannot be written.
pub fn write(options: &Options, libraries: &[Library], results: &Results) -> Result<(), String> {
    let mut machine = machine::describe();
    machine.extend(results.kept_awake.then(|| crate::awake::NOTE.to_string()));
    let input = Input { options, libraries, results, machine };
    let tables = text::tables(&input);
    crate::show(&tables);
    save(&options.out.join("report.txt"), &tables)?;
    save(&options.out.join("figures.tsv"), &text::figures(results))?;
    save(&options.out.join("report.html"), &html::page(&input))?;
    crate::show(&format!("\nreport: {}\n", options.out.join("report.html").display()));
    Ok(())
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A size for people: 8, 1K, 4M.
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "-".to_string(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// A time for people, from microseconds.
pub fn time(us: f64) -> String {
    match us {
        _ if us < 10.0 => format!("{us:.2} us"),
        _ if us < 1e4 => format!("{us:.0} us"),
        _ => format!("{:.1} ms", us / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!([0, 8, 1000, 1024, 4 << 20].map(size), ["-", "8", "1000", "1K", "4M"]);
        assert_eq!([0.25, 12.3, 54_321.0].map(time), ["0.25 us", "12 us", "54.3 ms"]);
    }
}
