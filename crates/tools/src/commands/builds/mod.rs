//! `tutti compare --build PREFIX`: comparison of two installations of Tutti, cell by cell in turns, with a
//! verdict for each cell. It finds cells that a change has made slower unexpectedly.
//!
//! A round starts fresh jobs for every stage ([`bench`]). After the first series of rounds, the cells that
//! differ are measured in a second series. Only a difference in both series counts: among some 500 cells,
//! several would differ in one series by chance. [`stages`] lists the measured cells. [`rows`] decides by the
//! rank test of [`crate::measure::rank_test`]. [`text`], [`json`] and [`ledger`] show the result.

mod bench;
mod json;
mod ledger;
mod report;
mod rows;
mod stages;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::commands::hosts::Raised;
use crate::measure::awake::{Awake, NOTE};
use crate::measure::library::{Library, home, installed};
use crate::measure::machine;
use crate::measure::options;
use crate::measure::programs::Programs;
use crate::measure::rank_test::{Bounds, LEAST_TIMES, MOST_TIMES, Verdict};
use bench::Bench;
use report::{Build, Report};
use rows::{BEFORE, NOW};
use stages::PARTS;

/// Exit status if a cell is slower. 1 is a failure, 2 a wrong command line.
const SLOWER: u8 = 3;
/// Benchmark programs of all stages.
const PROGRAMS: [&str; 5] = ["tutti-bench", "rate-bench", "files-bench", "start", "victim"];

/// Options of `tutti compare --build`.
#[derive(Args, Clone, Debug)]
#[group(id = "compare-builds")]
pub struct BuildOptions {
    /// Compare with another build of Tutti, installed at PREFIX, in place of other libraries. The exit
    /// status is 0 if nothing is slower, 3 if a cell is slower, 1 if measuring fails.
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["libraries", "budget", "starts"])]
    pub build: Option<PathBuf>,
    /// Installation that is compared with it; this one if missing.
    #[arg(long, value_name = "PREFIX", requires = "build")]
    subject: Option<PathBuf>,
    /// A few cells only: a minute.
    #[arg(long, requires = "build")]
    quick: bool,
    /// Parts: one host, several hosts (root only), files, start and end of jobs. All that can be by default.
    #[arg(long, value_delimiter = ',', requires = "build", value_parser = PARTS)]
    parts: Vec<String>,
    /// Largest probability with which chance may make a difference that counts.
    #[arg(long, default_value_t = 0.01, requires = "build")]
    level: f64,
    /// Smallest relative difference that counts, in percent.
    #[arg(long, default_value_t = 5.0, requires = "build")]
    least_effect: f64,
    /// Write times and verdicts to this file, as JSON.
    #[arg(long, value_name = "FILE", requires = "build")]
    json: Option<PathBuf>,
    /// Measure MPICH, Open MPI and Intel MPI too, and write a line for this issue into the ledger.
    #[arg(long, value_name = "ISSUE", requires = "build")]
    ledger: Option<u32>,
    /// The ledger.
    #[arg(long, value_name = "FILE", default_value = "docs/measurements/ledger.md", requires = "ledger")]
    ledger_file: PathBuf,
}

/// Measures two builds, prints the table and writes it to `builds.txt`. Returns the exit status.
///
/// # Errors
/// Fails if a build is not there, a program does not compile, a cell has failed, or a file cannot be written.
pub fn run(
    options: &options::CompareOptions,
    builds: &BuildOptions,
    before: &Path,
) -> Result<ExitCode, String> {
    let rounds = options.rounds as usize;
    if !(LEAST_TIMES..=MOST_TIMES).contains(&rounds) {
        return Err(format!("builds are compared by {LEAST_TIMES} to {MOST_TIMES} rounds, not by {rounds}"));
    }
    let now = builds.subject.clone().map_or_else(home, Ok)?;
    let mut libraries = vec![Library::build(NOW, &now)?, Library::build(BEFORE, before)?];
    let [now, before] = [0, 1].map(|build| describe(&libraries[build]));
    if let (Some(_), true) = (builds.ledger, now.commit.is_empty() || before.commit.is_empty()) {
        return Err("the ledger needs builds with a known commit, as `make ab` installs them".to_string());
    }
    for peer in ledger::PEERS.iter().filter(|_| builds.ledger.is_some()) {
        libraries.push(Library::find(peer, &now.prefix, &options.peers)?);
    }
    let programs = Programs::some(&options.out, &libraries, &PROGRAMS)?;
    let shared = [&now.prefix, &before.prefix, &options.peers, &programs.directory].map(PathBuf::as_path);
    let (testbed, mut notes) = testbed(options, builds, &shared)?;
    let stages = stages::stages(options, &builds.parts, builds.quick, testbed.is_some());
    let members = libraries.len();
    let bench = Bench { options, libraries, programs, testbed };
    let awake = Awake::begin();
    let bounds = Bounds { level: builds.level, least_effect: builds.least_effect / 100.0 };
    let first = bench.measure(&stages, members, options.rounds)?;
    let suspects = rows::suspects(&stages, &first, bounds);
    let number: usize = suspects.iter().map(|stage| stage.asks.len()).sum();
    eprintln!("{number} cells differ and are measured again");
    let again = if number > 0 { bench.measure(&suspects, 2, options.rounds)? } else { Vec::new() };
    let mut machine = machine::describe();
    machine.extend(awake.map(|_| NOTE.to_string()));
    let all = first.iter().chain(&again).flat_map(|results| results.failures.clone());
    let (failures, of_peers): (Vec<String>, _) =
        all.partition(|failure| [NOW, BEFORE].iter().any(|build| failure.starts_with(build)));
    notes.extend(of_peers);
    let rows = rows::rows(&stages, &first, &again, bounds);
    let processor = machine::processor();
    let report =
        Report { machine, processor, before, now, rounds: options.rounds, bounds, rows, notes, failures };
    tell(options, builds, &report)?;
    if let Some(issue) = builds.ledger {
        let against = ledger::PEERS.map(|peer| ledger::against_peer(peer, &stages, &first));
        ledger::write(&builds.ledger_file, &ledger::line(issue, &report, &against))?;
    }
    status(&report)
}

fn describe(library: &Library) -> Build {
    let prefix = library.prefix().to_path_buf();
    Build { version: library.version.clone(), commit: installed(&prefix).unwrap_or_default(), prefix }
}

/// Creates the hosts, if they are requested and possible. Otherwise adds a note with the reason.
fn testbed(
    options: &options::CompareOptions,
    builds: &BuildOptions,
    shared: &[&Path],
) -> Result<(Option<Raised>, Vec<String>), String> {
    let asked_for = builds.parts.iter().any(|part| part == "hosts");
    if !builds.parts.is_empty() && !asked_for {
        return Ok((None, Vec::new()));
    }
    match Raised::new(options.hosts.unwrap_or(stages::HOSTS), &options.rate, shared) {
        Ok(testbed) => Ok((Some(testbed), Vec::new())),
        Err(why) if asked_for => Err(why),
        Err(why) => Ok((None, vec![format!("several hosts are left out: {why}")])),
    }
}

fn tell(options: &options::CompareOptions, builds: &BuildOptions, report: &Report) -> Result<(), String> {
    let table = text::table(report);
    crate::output::show(&table);
    let save = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    save(&options.out.join("builds.txt"), table)?;
    match &builds.json {
        Some(path) => save(path, format!("{:#}\n", json::value(report))),
        None => Ok(()),
    }
}

fn status(report: &Report) -> Result<ExitCode, String> {
    if !report.failures.is_empty() {
        return Err(format!("{} cells have failed", report.failures.len()));
    }
    match rows::count(&report.rows, Verdict::Slower) {
        0 => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::from(SLOWER)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_tells_slower_from_failed() {
        let mut report = Report::example();
        assert_eq!(status(&report), Ok(ExitCode::from(SLOWER)));
        report.rows.remove(0);
        assert_eq!(status(&report), Ok(ExitCode::SUCCESS));
        report.failures.push("now on 2 ranks: ended early".to_string());
        assert!(status(&report).is_err());
    }
}
