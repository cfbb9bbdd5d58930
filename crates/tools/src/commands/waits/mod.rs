//! `tutti bench waits`: the time that a rank waits for an event that another rank causes immediately. Small
//! programs cover all ways to wait, on one host and over several, without and with other load. Other
//! libraries are measured together with Tutti.
//!
//! The result is a mean ([`bench/waits.c`]): users notice if one hand-over in a hundred is late by a
//! scheduler's slice. Processors are not kept awake ([`crate::measure::awake`]), as the time to wake them is
//! part of the result. Other libraries are set to yield, which their users do where ranks share processors.

mod list;
mod load;
mod table;

use crate::commands::hosts::Raised;
use crate::measure::crew::{Crew, Pace, Rounds};
use crate::measure::library::{HostSet, Library, home};
use crate::measure::machine;
use crate::measure::network;
use crate::measure::options::parse_time;
use crate::measure::programs::Programs;
use crate::output::{FOLDER, folder};
use clap::Args;
use list::{FAMILIES, Family, Wanted};
use load::Load;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use table::ByPlace;

/// Options of `tutti bench waits`.
#[derive(Args, Clone, Debug)]
pub struct WaitsOptions {
    /// Programs, by name or the beginning of some; NAME@N where they count objects or seconds
    /// (idle_windows@100).
    #[arg(long, value_delimiter = ',')]
    only: Vec<Wanted>,
    /// Numbers of ranks on all hosts together; numbers that hosts cannot share equally are left out
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Vec<u32>,
    /// Numbers of hosts, which are namespaces of this machine (root only).
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    hosts: Vec<u32>,
    /// Load on the processors: alone (none), busy (one process in another session) or shells (eight shells in
    /// the same session; by default for collectives only)
    #[arg(long, value_delimiter = ',')]
    loads: Vec<Load>,
    /// Rounds over the programs of a family and all libraries; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Instead: as many rounds as fit into this time (90s, 10m, 1h), one at least.
    #[arg(long, value_parser = parse_time)]
    budget: Option<Duration>,
    /// Time for one cell, in milliseconds.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    ms: u32,
    /// A job that takes longer than this many seconds for one cell is killed.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Libraries, of which the first is compared with the others; `before` is another build of Tutti.
    #[arg(long, value_delimiter = ',', default_value = "tutti,mpich-p2p,openmpi-yield")]
    libraries: Vec<String>,
    /// Rate of the links, as tc takes it; unlimited if empty.
    #[arg(long, default_value = "1gbit")]
    rate: String,
    /// Directory of the other libraries, as `make peers` installs them
    #[arg(long, default_value = "build/peers")]
    peers: PathBuf,
    /// Directory for programs and the table.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER, value_parser = folder)]
    out: PathBuf,
}

/// Hosts and ranks in all, unless some are given.
const PLACES: [(u32, u32); 11] =
    [(1, 1), (1, 2), (1, 4), (1, 6), (1, 8), (2, 2), (2, 4), (2, 6), (4, 4), (4, 8), (4, 16)];

/// Measures, prints the table, and writes it to `waits.txt`.
///
/// # Errors
/// Fails if there can be no hosts here, a library is missing, a program does not compile, or the table cannot
/// be written.
pub fn run(options: &WaitsOptions) -> Result<(), String> {
    let places = places(&options.hosts, &options.ranks);
    let stages = stages(options, &places);
    if stages.is_empty() {
        return Err("no program runs on these numbers of ranks and hosts".to_string());
    }
    let home = home()?;
    let find = |name: &String| Library::find(name, &home, &options.peers);
    let libraries = options.libraries.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let hosts = stages.iter().map(|stage| stage.hosts).max().unwrap_or(1);
    let by_network = hosts > 1 && stages.iter().any(|stage| stage.hosts > 1 && stage.family.by_network);
    let mut sources: Vec<&str> = stages.iter().map(|stage| stage.family.source()).collect();
    sources.extend(by_network.then_some("tutti-bench"));
    let programs = Programs::some(&options.out, &libraries, &sources)?;
    let shared = [home.as_path(), &options.peers, &programs.directory];
    let testbed = (hosts > 1).then(|| Raised::new(hosts, &options.rate, &shared)).transpose()?;
    let mut bench = Bench { options, libraries, programs, testbed };
    if by_network {
        bench.learn()?;
    }
    let mut results = ByPlace::new();
    let start = Instant::now();
    for (number, stage) in stages.iter().enumerate() {
        let left = (stages.len() - number) as u32;
        let rounds = match options.budget {
            None => Rounds::Number(options.rounds),
            Some(budget) => Rounds::Time(budget.saturating_sub(start.elapsed()) / left),
        };
        bench.measure(stage, rounds, &mut results)?;
    }
    bench.show(&results)
}

/// A family in a place.
struct Stage {
    family: &'static Family,
    hosts: u32,
    ranks: u32,
}

/// Returns all combinations of the given numbers of hosts and of ranks, or the default ones.
fn places(hosts: &[u32], ranks: &[u32]) -> Vec<(u32, u32)> {
    if hosts.is_empty() && ranks.is_empty() {
        return PLACES.to_vec();
    }
    let usual = |given: &[u32], of: fn(&(u32, u32)) -> u32| {
        let mut all: Vec<u32> =
            if given.is_empty() { PLACES.iter().map(of).collect() } else { given.to_vec() };
        all.sort_unstable();
        all.dedup();
        all
    };
    let ranks = usual(ranks, |place| place.1);
    let of_hosts = |hosts: u32| ranks.iter().map(move |ranks| (hosts, *ranks)).collect::<Vec<_>>();
    let all = usual(hosts, |place| place.0).into_iter().filter(|hosts| *hosts > 0).flat_map(of_hosts);
    all.filter(|(hosts, ranks)| *ranks > 0 && ranks % hosts == 0).collect()
}

fn stages(options: &WaitsOptions, places: &[(u32, u32)]) -> Vec<Stage> {
    let wanted = |family: &&'static Family| !family.asks(&options.only, "").is_empty();
    let of_family = |family: &'static Family| {
        let fits = places.iter().filter(|(_, ranks)| *ranks >= family.least_ranks);
        fits.map(move |&(hosts, ranks)| Stage { family, hosts, ranks }).collect::<Vec<_>>()
    };
    FAMILIES.iter().filter(wanted).flat_map(of_family).collect()
}

struct Bench<'a> {
    options: &'a WaitsOptions,
    libraries: Vec<Library>,
    programs: Programs,
    testbed: Option<Raised>,
}

impl Bench<'_> {
    /// Measures the network for Tutti, as `tutti probe --hosts` does on an installation.
    fn learn(&mut self) -> Result<(), String> {
        let place = self.testbed.as_ref().map(|testbed| testbed.place(2, 1));
        let Some(place) = place else { return Ok(()) };
        for library in self.libraries.iter_mut().filter(|library| library.is_tutti()) {
            *library = network::told(library, &self.programs, &place)?;
        }
        Ok(())
    }

    /// Measures all rounds of a family on a stage, with all libraries in turns.
    fn measure(&self, stage: &Stage, rounds: Rounds, results: &mut ByPlace) -> Result<(), String> {
        let libraries: Vec<Library> = match self.place(stage) {
            None => self.libraries.clone(),
            Some(place) => self.libraries.iter().map(|library| library.on_hosts(&place)).collect(),
        };
        let program = |library| (library, stage.family.program(&self.programs, library));
        let pace = Pace {
            ms: f64::from(self.options.ms),
            limit_ms: u32::MAX,
            timeout: Duration::from_secs(self.options.timeout),
        };
        let members = libraries.iter().map(program).collect();
        let mut crew = Crew::new(members, stage.ranks, &self.programs.directory, pace);
        let loads = self.loads(stage.family);
        let mut outcome = Ok(());
        rounds.run(|round| {
            let begin = Instant::now();
            for &load in &loads {
                let results = results.entry((stage.hosts, load)).or_default();
                let computing = load.begin();
                let asks = stage.family.asks(&self.options.only, load.name());
                asks.iter().for_each(|ask| crew.measure(ask, round, results));
                outcome = computing.map(drop).and(std::mem::replace(&mut outcome, Ok(())));
            }
            let Stage { family, hosts, ranks } = stage;
            let took = begin.elapsed().as_secs_f64();
            eprintln!(
                "{} .., {ranks} ranks, {hosts} hosts, round {}: {took:.1} s",
                family.names[0],
                round + 1
            );
        });
        outcome
    }

    fn place(&self, stage: &Stage) -> Option<HostSet> {
        let testbed = self.testbed.as_ref().filter(|_| stage.hosts > 1)?;
        Some(testbed.place(stage.hosts, stage.ranks / stage.hosts))
    }

    fn loads(&self, family: &Family) -> Vec<Load> {
        match (self.options.loads.as_slice(), family.beside_shells) {
            ([], false) => vec![Load::Alone, Load::Busy],
            ([], true) => vec![Load::Alone, Load::Busy, Load::Shells],
            (given, _) => given.to_vec(),
        }
    }

    fn show(&self, results: &ByPlace) -> Result<(), String> {
        let names: Vec<&str> = self.libraries.iter().map(|library| library.name.as_str()).collect();
        let mut table = machine::processor_line() + &table::table(&names, results);
        for failure in results.values().flat_map(|results| &results.failures) {
            table += &format!("failed: {failure}\n");
        }
        crate::output::show(&table);
        let path = self.options.out.join("waits.txt");
        std::fs::write(&path, table).map_err(|error| format!("{}: {error}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_usual_ones_or_the_product_of_what_is_given() {
        let check = |hosts: &[u32], ranks: &[u32], expected: &[(u32, u32)]| {
            assert_eq!(places(hosts, ranks), expected);
        };
        check(&[], &[], &PLACES);
        check(&[2, 4], &[2, 4], &[(2, 2), (2, 4), (4, 4)]);
        check(&[4], &[], &[(4, 4), (4, 8), (4, 16)]);
        check(&[], &[6], &[(1, 6), (2, 6)]);
    }
}
