//! `tutti asp`: all shortest paths on several hosts (Ma 2012, section 5.5). It measures the total time and
//! the time in broadcasts. Tutti's choice, broadcasts that ignore hosts, and other libraries take turns. The
//! program is `examples/asp/asp.c`. The size of the paper is simulated ([`simulated`]).

mod flat;
pub mod simulated;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::commands::hosts::Raised;
use crate::measure::job_end::last;
use crate::measure::library::{HostSet, Library, home};
use crate::measure::machine;
use crate::measure::network;
use crate::measure::programs::Programs;
use crate::measure::results::median;
use crate::measure::run::{self, End};
use crate::output::{FOLDER, folder};
use crate::simulate::spread::NeighbourOrder;

/// Options of `tutti asp`.
#[derive(Args, Clone, Debug)]
pub struct AspOptions {
    /// Hosts.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    hosts: u32,
    /// Ranks on each.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_host: u32,
    /// Whether neighbours are side by side (core), or dealt out like cards, on different hosts (node).
    #[arg(long, value_delimiter = ',', default_value = "core,node")]
    map_by: Vec<NeighbourOrder>,
    /// Rate of the links, as tc takes it (1gbit); unlimited if empty.
    #[arg(long, default_value = "1gbit")]
    rate: String,
    /// Cities: that many broadcasts of four bytes for each of them.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(3..20_000))]
    cities: u32,
    /// Number of islands, between which there is no road: the computation shrinks by that factor, as with
    /// more processors
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..1000))]
    islands: u32,
    /// Rounds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The other libraries.
    #[arg(long, value_delimiter = ',', default_value = "mpich,openmpi")]
    libraries: Vec<String>,
    /// Directory of the installed libraries
    #[arg(long, default_value = "build/peers")]
    peers: PathBuf,
    /// Directory for programs and the table.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER, value_parser = folder)]
    out: PathBuf,
}

/// Broadcasts that ignore hosts: a binomial tree, and the algorithm of Open MPI's tuned component for rows of
/// 2 to 362 KiB, a binary tree with segments of 1 KiB.
const FLAT: [(&str, &str); 2] =
    [("binomial tree", "bcast=knomial:radix=2"), ("binary tree", "bcast=kary:radix=2:segment=1K")];
const TIMEOUT: Duration = Duration::from_secs(600);

/// Result of a run: seconds in total, and in broadcasts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    seconds: f64,
    in_broadcasts: f64,
}

/// Measures, prints the table, and writes it to `asp.txt`.
///
/// # Errors
/// Fails if there can be no testbed here, a library is not installed, or a job fails.
pub fn run(options: &AspOptions) -> Result<(), String> {
    let home = home()?;
    let mut libraries = vec![Library::find("tutti", &home, &options.peers)?];
    for name in options.libraries.iter().filter(|name| !name.is_empty()) {
        libraries.push(Library::find(name, &home, &options.peers)?);
    }
    let programs = Programs::build(&options.out, &libraries)?;
    let graph = programs.directory.join("asp.graph");
    let text = rings(options.cities, options.islands.min(options.cities / 3));
    std::fs::write(&graph, text).map_err(|error| format!("{}: {error}", graph.display()))?;
    let testbed =
        Raised::new(options.hosts.max(2), &options.rate, &[&home, &options.peers, &programs.directory])?;
    libraries[0] = network::told(&libraries[0], &programs, &testbed.place(2, 1))?;
    let flat = |&(name, value): &(&str, &str)| {
        libraries[0].variant(name, &[("TUTTI_ALGORITHM".to_string(), value.to_string())])
    };
    let flat: Vec<Library> = FLAT.iter().map(flat).collect();
    libraries.splice(1..1, flat);
    let mut out = machine::processor_line();
    for &near in &options.map_by {
        let by_node = near == NeighbourOrder::Node;
        let place = HostSet { by_node, ..testbed.place(options.hosts, options.ranks_per_host) };
        out += &placement(options, &libraries, &place, &programs, &graph)?;
    }
    crate::output::show(&out);
    let path = options.out.join("asp.txt");
    std::fs::write(&path, out).map_err(|error| format!("{}: {error}", path.display()))
}

/// Measures one placement and returns the table.
fn placement(
    options: &AspOptions,
    libraries: &[Library],
    place: &HostSet,
    programs: &Programs,
    graph: &Path,
) -> Result<String, String> {
    let mut samples: BTreeMap<&str, Vec<Sample>> = BTreeMap::new();
    for round in 0..options.rounds as usize {
        for turn in 0..libraries.len() {
            let library = &libraries[(turn + round) % libraries.len()];
            let sample = once(&library.on_hosts(place), place.ranks(), programs, graph)?;
            samples.entry(&library.name).or_default().push(sample);
        }
    }
    let title = format!(
        "ASP, {} cities on {} islands, {} hosts x {} ranks by {}, links of {}: median of {} runs",
        options.cities,
        options.islands,
        options.hosts,
        options.ranks_per_host,
        if place.by_node { "node" } else { "core" },
        options.rate,
        options.rounds
    );
    let row = |library: &Library| {
        let own = samples.get(library.name.as_str()).map_or(&[][..], Vec::as_slice);
        (library.name.clone(), middle(own))
    };
    let rows: Vec<(String, Sample)> = libraries.iter().map(row).collect();
    Ok(table(&title, &rows) + "\n")
}

/// Cities around a ring on each island, each with two roads. Neighbours by number are on different islands,
/// so all ranks compute the same.
fn rings(cities: u32, islands: u32) -> String {
    let mut text = format!("tutti-graph {cities} {cities}\n");
    (0..cities).for_each(|city| {
        let _ = writeln!(text, "c{city}\t0\t0");
    });
    (0..cities).for_each(|city| {
        let next = city + islands;
        let next = if next < cities { next } else { city % islands };
        let _ = writeln!(text, "{city} {next} {}", city + 1);
    });
    text
}

fn once(library: &Library, ranks: u32, programs: &Programs, graph: &Path) -> Result<Sample, String> {
    let mut command = library.command(ranks, &programs.path_of("asp", library));
    command.arg(graph).args(["c0", "c1"]);
    let outcome = run::run(&mut command, TIMEOUT)?;
    if outcome.end != End::Exit(0) {
        return Err(format!("asp, {}: {:?} {}", library.name, outcome.end, last(&outcome.errors)));
    }
    read(&outcome.lines).ok_or_else(|| format!("asp, {}: the program printed no time", library.name))
}

/// Parses the line `time: 1.234 s on 16 ranks (12.3 % of it in MPI), ...`.
fn read(lines: &[String]) -> Option<Sample> {
    let line = lines.iter().find_map(|line| line.strip_prefix("time: "))?;
    let seconds: f64 = line.split(' ').next()?.parse().ok()?;
    let share: f64 = line.split('(').nth(1)?.split(' ').next()?.parse().ok()?;
    Some(Sample { seconds, in_broadcasts: seconds * share / 100.0 })
}

/// Formats the samples of each name. All are compared with the first.
fn table(title: &str, rows: &[(String, Sample)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(14);
    let mut out = format!(
        "{title}\n{:width$}{:>12}{:>16}{:>10}{:>14}\n",
        "", "all, s", "broadcasts, s", "by first", "broadcasts"
    );
    let Some((_, own)) = rows.first() else { return out };
    for (name, sample) in rows {
        let Sample { seconds, in_broadcasts } = sample;
        let ratios = (seconds / own.seconds, in_broadcasts / own.in_broadcasts);
        let _ = writeln!(
            out,
            "{name:width$}{seconds:>12.3}{in_broadcasts:>16.3}{:>10.2}{:>14.2}",
            ratios.0, ratios.1
        );
    }
    out
}

/// Returns the medians of times in all and in broadcasts.
fn middle(samples: &[Sample]) -> Sample {
    let of = |value: fn(&Sample) -> f64| {
        median(&samples.iter().map(value).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
    };
    Sample { seconds: of(|one| one.seconds), in_broadcasts: of(|one| one.in_broadcasts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_compared() {
        let line = "time: 2.500 s on 16 ranks (20.0 % of it in MPI), sequential 9.000 s".to_string();
        let sample = read(&["asp: 3 cities".to_string(), line]).unwrap();
        assert_eq!(sample, Sample { seconds: 2.5, in_broadcasts: 0.5 });
        assert_eq!(read(&["time: soon".to_string()]), None);
        let slower = Sample { seconds: 5.0, in_broadcasts: 2.5 };
        let rows = [("tutti".to_string(), sample), ("mpich".to_string(), middle(&[slower, slower]))];
        let shown = table("ASP", &rows);
        assert!(
            shown.lines().any(|line| line.split_whitespace().eq(["mpich", "5.000", "2.500", "2.00", "5.00"])),
            "{shown}"
        );
    }

    #[test]
    fn a_ring_has_as_many_roads_as_cities() {
        assert_eq!(rings(3, 1), "tutti-graph 3 3\nc0\t0\t0\nc1\t0\t0\nc2\t0\t0\n0 1 1\n1 2 2\n2 0 3\n");
        assert!(rings(5, 2).ends_with("0 2 1\n1 3 2\n2 4 3\n3 1 4\n4 0 5\n"));
    }
}
