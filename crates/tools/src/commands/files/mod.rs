//! `tutti bench io` and `tutti compare --ops io`: patterns of MPI-IO, independent and collective, in memory,
//! on a disk and on io-servers. They are measured together with other libraries.
//!
//! Processors are kept awake as in `tutti compare`, and the jobs take turns cell by cell
//! ([`crate::measure::crew`]). Other libraries are set to yield, which their users do where ranks share
//! processors. Only Tutti has io-servers. There it is measured with both transports: files that local servers
//! expose, and TCP.

mod list;
pub mod servers;
mod table;

use self::servers::{Scratch, on_servers};
use crate::commands::hosts::Raised;
use crate::measure::awake::Awake;
use crate::measure::crew::{Crew, Pace, Rounds};
use crate::measure::library::{Library, home};
use crate::measure::machine;
use crate::measure::options::{self, parse_time};
use crate::measure::programs::Programs;
use crate::measure::results::Results;
use crate::measure::session::Ask;
use crate::output::{FOLDER, folder};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of `tutti bench io`.
#[derive(Args, Clone, Debug)]
pub struct FilesOptions {
    /// Operations: write_ or read_ with contiguous, strided, list, tile or bt; create; overlap; and after @
    /// the bytes (write_strided@64).
    #[arg(long, value_delimiter = ',')]
    ops: Vec<list::Wanted>,
    /// independent, collective, nonblocking (and waited for), split.
    #[arg(long, value_delimiter = ',', default_value = "independent,collective", value_parser = list::MODES)]
    modes: Vec<String>,
    /// Storage of the files: memory, disk, servers
    #[arg(long, value_delimiter = ',', default_value = "memory,disk", value_parser = list::PLACES)]
    places: Vec<String>,
    /// A directory on a disk.
    #[arg(long, default_value = "/var/tmp")]
    disk: PathBuf,
    /// Io-servers of a job, for the place `servers`.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    servers: u32,
    /// Hints for all libraries, KEY=VALUE, by the file that ROMIO_HINTS names.
    #[arg(long, value_delimiter = ',')]
    hints: Vec<String>,
    /// Numbers of ranks.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8], value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Vec<u32>,
    /// Rounds over all cells and libraries; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Instead: as many rounds as fit into this time (90s, 10m, 1h), one at least.
    #[arg(long, value_parser = parse_time)]
    budget: Option<Duration>,
    /// Time for one cell, in milliseconds.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    ms: u32,
    /// Measure on this number of hosts, which are namespaces of this machine (root only), with equal numbers
    /// of ranks. There is no storage `memory` then, which each host has for itself
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..))]
    hosts: Option<u32>,
    /// Rate of their links, as tc takes it; unlimited if empty.
    #[arg(long, default_value = "1gbit", requires = "hosts")]
    rate: String,
    /// Libraries, of which the first is compared with the others.
    #[arg(long, value_delimiter = ',', default_value = "tutti")]
    libraries: Vec<String>,
    /// Directory of the other libraries, as `make peers` installs them
    #[arg(long, default_value = "build/peers")]
    peers: PathBuf,
    /// Directory for programs and the table.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER, value_parser = folder)]
    out: PathBuf,
}

/// Time limit of a cell; a job that exceeds it is killed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Libraries of `tutti compare --ops io` without the option --libraries.
const COMPARED: [&str; 3] = ["tutti", "mpich-p2p", "openmpi-yield"];

impl FilesOptions {
    /// Returns the options that correspond to those of `tutti compare --ops io`.
    pub fn from_compare(compare: &options::CompareOptions) -> FilesOptions {
        let libraries = match compare.libraries.is_empty() {
            true => COMPARED.map(String::from).to_vec(),
            false => compare.libraries.clone(),
        };
        FilesOptions {
            ops: Vec::new(),
            modes: ["independent", "collective"].map(String::from).to_vec(),
            places: ["memory", "disk"].map(String::from).to_vec(),
            disk: "/var/tmp".into(),
            servers: 4,
            hints: Vec::new(),
            ranks: compare.ranks.clone(),
            rounds: compare.rounds,
            budget: compare.budget,
            ms: compare.ms.max(100),
            hosts: compare.hosts,
            rate: compare.rate.clone(),
            libraries,
            peers: compare.peers.clone(),
            out: compare.out.clone(),
        }
    }
}

/// Returns the cells in which two builds are compared: all of them, or a few where it has to be quick.
pub fn asks_of_builds(quick: bool) -> Vec<Ask> {
    let wanted = |name: &str, bytes| list::Wanted { name: name.to_string(), bytes: Some(bytes) };
    let few = [wanted("write_contiguous", 4 << 10), wanted("read_strided", 1 << 10)];
    let modes = ["independent", "collective"].map(String::from);
    list::asks(if quick { &few } else { &[] }, &modes)
}

/// Measures, prints the table, and writes it to `io.txt`.
///
/// # Errors
/// Fails if a library is missing, the program does not compile, there can be no hosts here, or the table
/// cannot be written.
pub fn run(options: &FilesOptions) -> Result<(), String> {
    let home = home()?;
    let find = |name: &String| Library::find(name, &home, &options.peers);
    let libraries = options.libraries.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let programs = Programs::some(&options.out, &libraries, &["files-bench"])?;
    let shared = [home.as_path(), &options.peers, &programs.directory];
    let testbed = options.hosts.map(|hosts| Raised::new(hosts, &options.rate, &shared)).transpose()?;
    let bench = Bench { options, libraries, programs, testbed };
    let awake = Awake::begin();
    let (mut results, start) = (table::ByPlace::new(), Instant::now());
    let stages = bench.stages();
    for (number, (place, ranks)) in stages.iter().enumerate() {
        let rounds = match options.budget {
            None => Rounds::Number(options.rounds),
            Some(budget) => {
                Rounds::Time(budget.saturating_sub(start.elapsed()) / (stages.len() - number) as u32)
            }
        };
        bench.measure(place, *ranks, rounds, results.entry(place.clone()).or_default())?;
    }
    let mut text = machine::processor_line() + &table::table(&options.libraries, &results);
    if awake.is_some() {
        text += &format!("{}\n", crate::measure::awake::NOTE);
    }
    crate::output::show(&text);
    let path = options.out.join("io.txt");
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

struct Bench<'a> {
    options: &'a FilesOptions,
    libraries: Vec<Library>,
    programs: Programs,
    testbed: Option<Raised>,
}

impl Bench<'_> {
    fn stages(&self) -> Vec<(String, u32)> {
        let hosts = self.options.hosts.unwrap_or(1);
        let is_there = |place: &&String| hosts == 1 || *place != "memory";
        let of_place = |place: &String| {
            let ranks = self.options.ranks.iter().filter(|ranks| **ranks % hosts == 0);
            ranks.map(|ranks| (place.clone(), *ranks)).collect::<Vec<_>>()
        };
        self.options.places.iter().filter(is_there).flat_map(of_place).collect()
    }

    fn measure(&self, place: &str, ranks: u32, rounds: Rounds, results: &mut Results) -> Result<(), String> {
        let scratch = Scratch::new(self.directory(place))?;
        let members = self.members(place, ranks, &scratch.0)?;
        let programs = members.iter().map(|library| (library, self.programs.path_of("files-bench", library)));
        let pace = Pace { ms: f64::from(self.options.ms), limit_ms: u32::MAX, timeout: TIMEOUT };
        let mut crew = Crew::new(programs.collect(), ranks, &self.programs.directory, pace);
        let asks = list::asks(&self.options.ops, &self.options.modes);
        rounds.run(|round| {
            let begin = Instant::now();
            asks.iter().for_each(|ask| crew.measure(ask, round, results));
            eprintln!("{place}, {ranks} ranks, round {}: {:.1} s", round + 1, begin.elapsed().as_secs_f64());
        });
        Ok(())
    }

    fn directory(&self, place: &str) -> &Path {
        // Hosts have memory of their own, of which others see nothing.
        match place {
            "memory" => Path::new("/dev/shm"),
            "servers" if self.testbed.is_none() => Path::new("/dev/shm"),
            _ => &self.options.disk,
        }
    }

    /// Returns the libraries to measure on a storage, each with a file of its own.
    fn members(&self, place: &str, ranks: u32, scratch: &Path) -> Result<Vec<Library>, String> {
        let mut members = Vec::new();
        for library in &self.libraries {
            if place != "servers" {
                let file = scratch.join(&library.name).to_string_lossy().into_owned();
                members.push(library.variant(&library.name, &self.settings(&file, scratch)?));
                continue;
            }
            if library.is_tutti() {
                let settings = self.settings("tutti:bench", scratch)?;
                members.extend(on_servers(library, self.options.servers, scratch, &settings));
            }
        }
        let Some(testbed) = &self.testbed else { return Ok(members) };
        let hosts = self.options.hosts.unwrap_or(1);
        let place = testbed.place(hosts, ranks / hosts);
        Ok(members.iter().map(|library| library.on_hosts(&place)).collect())
    }

    fn settings(&self, file: &str, scratch: &Path) -> Result<Vec<(String, String)>, String> {
        let mut settings = vec![("BENCH_FILE".to_string(), file.to_string())];
        if !self.options.hints.is_empty() {
            let path = scratch.join("hints");
            let lines: String =
                self.options.hints.iter().map(|hint| hint.replacen('=', " ", 1) + "\n").collect();
            std::fs::write(&path, lines).map_err(|error| format!("{}: {error}", path.display()))?;
            settings.push(("ROMIO_HINTS".to_string(), path.to_string_lossy().into_owned()));
        }
        Ok(settings)
    }
}
