//! `tutti connections`: number of connections that patterns like those of the NAS kernels create, and the
//! cost of waiting for them.
//!
//! The patterns run on hosts of their own (`tutti testbed`), a rank on each, as in yu-2006, table 3.2, once
//! with connections on demand and once with all of them made at the start; latency and bandwidth are measured
//! both ways in turns.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::commands::hosts::Raised;
use crate::measure::crew::{Crew, Pace, Rounds};
use crate::measure::job_end::last;
use crate::measure::library::{HostSet, Library, home};
use crate::measure::machine;
use crate::measure::programs::Programs;
use crate::measure::report::size;
use crate::measure::results::{Measure, Results, median};
use crate::measure::run::{self, End};
use crate::measure::sample::Cell;
use crate::measure::session::Ask;
use crate::output::{FOLDER, folder};

/// Options of `tutti connections`.
#[derive(Args, Clone, Debug)]
pub struct ConnectionsOptions {
    /// Hosts, with a rank on each: 4, 16, 64.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    hosts: u32,
    /// Rate of their links, as tc takes it (1gbit); unlimited if empty.
    #[arg(long, default_value = "1gbit")]
    rate: String,
    /// Iterations of each pattern.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Time for one cell of latency or bandwidth, in milliseconds.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    ms: u32,
    /// Patterns.
    #[arg(long, value_delimiter = ',', default_values_t = PAPER.map(|(name, _)| name.to_string()), value_parser = PAPER.map(|(name, _)| name))]
    patterns: Vec<String>,
    /// Directory for programs and the table.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER, value_parser = folder)]
    out: PathBuf,
}

/// Connections a rank at 16 processes on demand, from yu-2006, table 3.2 (UD-OD); all of them would be 15.
const PAPER: [(&str, f64); 7] =
    [("ep", 0.0), ("cg", 2.7), ("lu", 3.6), ("mg", 5.0), ("is", 15.0), ("sp", 6.0), ("bt", 6.0)];
const STATIC: &str = "static";
const ON_DEMAND: &str = "on-demand";
const TIMEOUT: Duration = Duration::from_secs(120);
/// Latency and bandwidth may be so much worse than with connections made at the start.
const LIMIT: f64 = 1.03;

/// One run of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    /// Microseconds of an iteration.
    us: f64,
    /// Connections a rank, the mean of all.
    connections: f64,
    /// Most of any rank.
    most: f64,
    /// Memory a rank for traffic with other hosts, in bytes, the mean of all.
    memory_bytes: f64,
}

/// Measures, prints the tables, and writes them to `connections.txt`.
///
/// # Errors
/// Fails if there can be no testbed here, Tutti is not installed, or a job fails.
pub fn run(options: &ConnectionsOptions) -> Result<(), String> {
    let home = home()?;
    let tutti = Library::find("tutti", &home, &home)?;
    let programs = Programs::build(&options.out, std::slice::from_ref(&tutti))?;
    let testbed = Raised::new(options.hosts.max(2), &options.rate, &[&home, &programs.directory])?;
    let way = |name: &str, place: &HostSet| {
        let settings = [("TUTTI_CONNECTIONS", name), ("TUTTI_COUNTERS", "1")];
        let settings = settings.map(|(key, value)| (key.to_string(), value.to_string()));
        tutti.variant(name, &settings).on_hosts(place)
    };
    let place = testbed.place(options.hosts, 1);
    let ways = [ON_DEMAND, STATIC].map(|name| way(name, &place));
    let mut out = machine::processor_line() + &patterns(options, &ways, &programs)?;
    let place = testbed.place(2, 1);
    let ways = [ON_DEMAND, STATIC].map(|name| way(name, &place));
    out += &messages(options, &ways, &programs);
    crate::output::show(&out);
    let path = options.out.join("connections.txt");
    std::fs::write(&path, out).map_err(|error| format!("{}: {error}", path.display()))
}

fn patterns(
    options: &ConnectionsOptions,
    ways: &[Library; 2],
    programs: &Programs,
) -> Result<String, String> {
    let mut samples: BTreeMap<(&str, &str), Vec<Sample>> = BTreeMap::new();
    for _ in 0..options.rounds {
        for pattern in &options.patterns {
            for library in ways {
                let sample = pattern_once(options, pattern, library, programs)?;
                samples.entry((pattern, &library.name)).or_default().push(sample);
            }
        }
    }
    let mut out = format!(
        "{} hosts, a rank on each: connections a rank (most of any), memory, time of an iteration\n{:8}{:>7}{:>17}{:>9}{:>14}{:>14}{:>10}{:>10}\n",
        options.hosts,
        "pattern",
        "paper",
        ON_DEMAND,
        STATIC,
        "KiB on demand",
        "KiB static",
        "ms",
        "by static"
    );
    for pattern in &options.patterns {
        let of = |way: &str, value: fn(&Sample) -> f64| {
            let values: Vec<f64> = samples[&(pattern.as_str(), way)].iter().map(value).collect();
            median(&values).unwrap_or(f64::NAN)
        };
        let paper = PAPER.iter().find(|(name, _)| name == pattern).map_or(f64::NAN, |(_, number)| *number);
        let counted = format!("{:.1} ({})", of(ON_DEMAND, |s| s.connections), of(ON_DEMAND, |s| s.most));
        let _ = writeln!(
            out,
            "{pattern:8}{paper:>7}{counted:>17}{:>9.1}{:>14.0}{:>14.0}{:>10.2}{:>10.2}",
            of(STATIC, |s| s.connections),
            of(ON_DEMAND, |s| s.memory_bytes / 1024.0),
            of(STATIC, |s| s.memory_bytes / 1024.0),
            of(ON_DEMAND, |s| s.us) / 1e3,
            of(ON_DEMAND, |s| s.us) / of(STATIC, |s| s.us),
        );
    }
    Ok(out)
}

fn pattern_once(
    options: &ConnectionsOptions,
    pattern: &str,
    library: &Library,
    programs: &Programs,
) -> Result<Sample, String> {
    let mut command = library.command(options.hosts, &programs.path_of("patterns", library));
    command.arg(pattern).arg(options.iterations.to_string());
    let outcome = run::run(&mut command, TIMEOUT)?;
    if outcome.end != End::Exit(0) {
        return Err(format!("{pattern}, {}: {:?} {}", library.name, outcome.end, last(&outcome.errors)));
    }
    read(&outcome.lines, &outcome.errors)
        .ok_or_else(|| format!("{pattern}, {}: no counters: {}", library.name, last(&outcome.errors)))
}

/// Parses the time that the program prints, and the counters of the ranks.
fn read(lines: &[String], errors: &[String]) -> Option<Sample> {
    let field = |line: &str, name: &str| {
        let mut words = line.split_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse::<f64>().ok())
    };
    let us = lines.iter().find(|line| line.starts_with("pattern "))?;
    let all = |name: &str| -> Vec<f64> { errors.iter().filter_map(|line| field(line, name)).collect() };
    let connections = all("most_connections");
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    (!connections.is_empty()).then_some(Sample {
        us: field(us, "us")?,
        connections: mean(&connections),
        most: connections.iter().copied().fold(0.0, f64::max),
        memory_bytes: mean(&all("memory_bytes")),
    })
}

fn messages(options: &ConnectionsOptions, ways: &[Library; 2], programs: &Programs) -> String {
    let members = ways.iter().map(|library| (library, programs.path_of("tutti-bench", library))).collect();
    let pace = Pace { ms: f64::from(options.ms), limit_ms: 1000, timeout: TIMEOUT };
    let mut crew = Crew::new(members, 2, &programs.directory, pace);
    let asks = [("latency", 8), ("latency", 1 << 10), ("bandwidth", 64 << 10), ("bandwidth", 1 << 20)];
    let mut results = Results::default();
    Rounds::Number(options.rounds).run(|round| {
        for (op, bytes) in asks {
            let ask = Ask { op: op.to_string(), mode: "plain".to_string(), bytes };
            crew.measure(&ask, round, &mut results);
        }
    });
    let mut out = "\ntwo hosts, median us: on demand, static, ratio\n".to_string();
    for (op, bytes) in asks {
        let cell = Cell { op: op.to_string(), mode: "plain".to_string(), ranks: 2, bytes };
        let time = |way| results.time(&cell, way, Measure::Median).unwrap_or(f64::NAN);
        let ratio = time(ON_DEMAND) / time(STATIC);
        let verdict = if ratio <= LIMIT { "met" } else { "missed" };
        let times = format!("{:>10.1}{:>10.1}{ratio:>8.3}", time(ON_DEMAND), time(STATIC));
        let _ = writeln!(out, "{op:12}{:>6}{times} at most {LIMIT}: {verdict}", size(bytes));
    }
    results.failures.iter().for_each(|failure| out += &format!("{failure}\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_lines_of_the_ranks() {
        let lines = ["pattern name=cg ranks=2 us=12.5 messages=3".to_string()];
        let errors = [
            "tutti: rank 0: peers=3 connections=1 most_connections=2 memory_bytes=1000".to_string(),
            "a warning".to_string(),
            "tutti: rank 1: peers=3 connections=1 most_connections=3 memory_bytes=3000".to_string(),
        ];
        let expected = Sample { us: 12.5, connections: 2.5, most: 3.0, memory_bytes: 2000.0 };
        assert_eq!(read(&lines, &errors), Some(expected));
        assert_eq!(read(&lines, &[]), None);
        assert_eq!(read(&[], &errors), None);
    }
}
