//! `tutti sim asp`: prediction of the time of ASP on a cluster that is not available. It simulates the
//! broadcasts of some rows in the middle of the matrix, with the computation of all ranks between them. These
//! rows represent all rows.

use std::path::PathBuf;

use clap::Args;
use tutti_base::config::algorithms;
use tutti_coll::select::Choice;
use tutti_coll::simulate::{Load, OperationTimes, Series, follow};
use tutti_coll::{Collective, Environment, Schedule, Shape, select};

use super::{FLAT, Sample, flat, table};
use crate::measure::options::positive;
use crate::simulate::cluster::{Cluster, PARAPLUIE, SERVERS, STREMI};
use crate::simulate::machines;
use crate::simulate::spread::NeighbourOrder;

/// Options of `tutti sim asp`.
#[derive(Args, Clone, Debug)]
pub struct SimulatedAspOptions {
    /// The paper's cluster with Ethernet, its cluster with InfiniBand, or current servers with 100 Gbit/s.
    #[arg(long, value_delimiter = ',', default_value = "stremi", value_parser = ["stremi", "parapluie", "servers"])]
    cluster: Vec<String>,
    /// Hosts.
    #[arg(long, default_value_t = STREMI.hosts, value_parser = clap::value_parser!(u32).range(1..))]
    hosts: u32,
    /// Ranks on each, a core each.
    #[arg(long, default_value_t = STREMI.ranks_per_host, value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_host: u32,
    /// Whether neighbours are side by side (core), or dealt out like cards, on different hosts (node).
    #[arg(long, value_delimiter = ',', default_value = "core,node")]
    map_by: Vec<NeighbourOrder>,
    /// Cities: that many broadcasts of four bytes for each of them.
    #[arg(long, default_value_t = 16384, value_parser = clap::value_parser!(u32).range(3..))]
    cities: u32,
    /// The hosts are one machine, as containers of it are: they share its processors.
    #[arg(long)]
    hosts_share: bool,
    /// File with the costs of machines and network, written by `tutti probe` [default: known values of the
    /// cluster]
    #[arg(long)]
    model: Option<PathBuf>,
    /// Time in nanoseconds of one update on a rank: a test whether a path is shorter [default: the paper's]
    #[arg(long, value_parser = positive)]
    update_ns: Option<f64>,
    /// Further algorithms, in the notation of TUTTI_ALGORITHM (hierarchical:segment=16K)
    #[arg(long, value_delimiter = ',')]
    algorithms: Vec<String>,
}

/// A library, and its seconds in broadcasts and in all.
type Said = (&'static str, f64, f64);

/// Measurements of the paper for two numbers of cities (Ma 2012, table 5.2; HierKNEM, table II), on 32 hosts
/// of 24 ranks with Gigabit Ethernet, neighbouring ranks on one host.
const PAPER: [(u32, [Said; 4]); 2] = [
    (
        16384,
        [
            ("HierKNEM", 20.3, 97.4),
            ("Tuned", 229.0, 308.0),
            ("Hierarch", 31.7, 109.0),
            ("MPICH2", 128.0, 204.0),
        ],
    ),
    (
        32768,
        [
            ("HierKNEM", 79.0, 711.0),
            ("Tuned", 929.0, 1560.0),
            ("Hierarch", 173.0, 806.0),
            ("MPICH2", 417.0, 1020.0),
        ],
    ),
];
/// Least number of simulated rows, which represent all others,
const ROWS: u32 = 20;
/// and the greatest number of ranks that own them.
const OWNERS: usize = 12;
/// Rows of another owner that are simulated before: ranks begin together and need some rows to reach their
/// pace.
const BEFORE: u32 = 8;

/// Algorithm that broadcasts the rows.
enum Way {
    /// The choice of Tutti, or a forced one.
    Chosen(Choice),
    /// The algorithm of Open MPI.
    SplitBinary,
}

/// Prints the tables of all requested clusters and placements.
///
/// # Errors
/// Fails if there are fewer cities than ranks, or if there is no such algorithm.
pub fn run(options: &SimulatedAspOptions) -> Result<(), String> {
    for name in &options.cluster {
        for near in &options.map_by {
            let known = [STREMI, PARAPLUIE, SERVERS].into_iter().find(|cluster| cluster.name == name);
            let cluster = Cluster {
                hosts: options.hosts,
                ranks_per_host: options.ranks_per_host,
                by_node: *near == NeighbourOrder::Node,
                ..known.expect("the option takes these names")
            };
            crate::output::show(&(placement(options, &cluster)? + "\n"));
        }
    }
    Ok(())
}

/// Simulates one cluster and placement, and returns the table.
fn placement(options: &SimulatedAspOptions, cluster: &Cluster) -> Result<String, String> {
    let (cities, ranks) = (options.cities, cluster.ranks());
    if cities < ranks {
        return Err(format!("{cities} cities are fewer than {ranks} ranks"));
    }
    let model = match &options.model {
        Some(path) => machines::model(path)?,
        None => cluster.model(),
    };
    let environment = cluster.environment(model, options.hosts_share)?;
    let shape = Shape::new(Collective::Bcast, ranks, 0, 4 * u64::from(cities));
    let update_seconds = options.update_ns.map_or(papers_update_seconds(), |ns| ns * 1e-9);
    let mut rows: Vec<(String, Sample)> = Vec::new();
    for (name, way) in ways(options, &shape, &environment)? {
        rows.push((name, simulated(&way, &shape, &environment, update_seconds)));
    }
    let is_known = options.model.is_none() && !options.hosts_share;
    let is_papers =
        is_known && (cluster.name, cluster.ranks_per_host, cluster.hosts) == (STREMI.name, 24, 32);
    let said = PAPER.iter().filter(|(theirs, _)| is_papers && *theirs == cities);
    let title = format!(
        "ASP, {cities} cities, {} hosts x {} ranks of {}{} by {}, simulated; an update takes {:.2} ns{}",
        cluster.hosts,
        cluster.ranks_per_host,
        cluster.name,
        if options.hosts_share { " that are one machine" } else { "" },
        if cluster.by_node { "node" } else { "core" },
        update_seconds * 1e9,
        if options.update_ns.is_none() { " as in the paper" } else { "" },
    );
    let mut text = table(&title, &rows);
    for (_, libraries) in said {
        let sample =
            |&(name, in_broadcasts, seconds): &Said| (name.to_string(), Sample { seconds, in_broadcasts });
        let measured: Vec<(String, Sample)> = libraries.iter().map(sample).collect();
        text += &table("measured in the paper, by core", &measured);
    }
    Ok(text)
}

/// Returns the names and algorithms to compare.
fn ways(
    options: &SimulatedAspOptions,
    shape: &Shape,
    environment: &Environment,
) -> Result<Vec<(String, Way)>, String> {
    let chosen = select(shape, environment, None);
    let name = format!("tutti: {} ({})", chosen.generator.name, chosen.params);
    let mut ways = vec![(name, Way::Chosen(chosen))];
    let flat = FLAT.iter().map(|(name, value)| (*name, value.trim_start_matches("bcast=")));
    let own = options.algorithms.iter().map(|value| (value.as_str(), value.as_str()));
    let scatter = [("scatter and ring, as MPICH", "scatter_ring")];
    for (name, value) in own.chain(flat).chain(scatter) {
        algorithms::check_choice(shape.collective.name(), value)?;
        let choice = select(shape, environment, Some(value));
        if !choice.is_forced() {
            return Err(format!("no algorithm {value:?} for this broadcast"));
        }
        ways.push((name.to_string(), Way::Chosen(choice)));
    }
    ways.push(("split binary tree, as Open MPI".to_string(), Way::SplitBinary));
    Ok(ways)
}

/// Returns the predicted times of all rows, extrapolated from some of them.
fn simulated(way: &Way, shape: &Shape, environment: &Environment, update_seconds: f64) -> Sample {
    let cities = (shape.count / 4) as u32;
    let owners = owners(cities, shape.ranks);
    let write = |owner: &u32| -> Vec<Schedule> {
        let one = |rank| way.schedule(&Shape { rank, root: *owner, ..*shape }, environment);
        (0..shape.ranks).map(one).collect()
    };
    let operations: Vec<Vec<Schedule>> = owners.iter().map(write).collect();
    let rows = |place: usize| {
        let all = rows_of(cities, shape.ranks, owners[place]);
        (if place == 0 { all.min(BEFORE) } else { all }) as usize
    };
    let order: Vec<usize> =
        (0..owners.len()).flat_map(|place| std::iter::repeat_n(place, rows(place))).collect();
    let computing: Vec<f64> = (0..shape.ranks)
        .map(|rank| f64::from(rows_of(cities, shape.ranks, rank)) * f64::from(cities) * update_seconds)
        .collect();
    let series = Series::new(&operations, order, &computing);
    let turns = follow(&series, &Load::new(shape), &environment.stage());
    scaled(&turns, rows(0), cities)
}

/// Extrapolates from the rows after the first `skipped` to all rows.
fn scaled(turns: &[OperationTimes], skipped: usize, cities: u32) -> Sample {
    let shown = &turns[skipped..];
    let times = f64::from(cities) / shown.len() as f64;
    let all = turns[turns.len() - 1].end_seconds - turns[skipped - 1].end_seconds;
    let in_broadcasts: f64 = shown.iter().map(|turn| turn.end_seconds - turn.begin_seconds).sum();
    Sample { seconds: all * times, in_broadcasts: in_broadcasts * times }
}

/// Returns the ranks whose rows are simulated, beginning in the middle.
fn owners(cities: u32, ranks: u32) -> Vec<u32> {
    let owner = |place: u32| (ranks / 2 + place) % ranks;
    let mut owners = vec![owner(0)];
    let mut rows = 0;
    while rows < ROWS && owners.len() <= OWNERS {
        let next = owner(owners.len() as u32);
        rows += rows_of(cities, ranks, next);
        owners.push(next);
    }
    owners
}

/// Returns the number of rows of `rank`, as in asp.c.
fn rows_of(cities: u32, ranks: u32, rank: u32) -> u32 {
    let begin = |rank: u32| u64::from(cities) * u64::from(rank) / u64::from(ranks);
    (begin(rank + 1) - begin(rank)) as u32
}

/// Returns the time in seconds of one update in the paper: the time outside broadcasts.
fn papers_update_seconds() -> f64 {
    let (cities, [(_, in_broadcasts, seconds), ..]) = PAPER[0];
    (seconds - in_broadcasts) * f64::from(STREMI.ranks()) / f64::from(cities).powi(3)
}

impl Way {
    fn schedule(&self, shape: &Shape, environment: &Environment) -> Schedule {
        match self {
            Way::Chosen(Choice { generator, params, .. }) => {
                generator.generate_on(shape, params, Some(environment.layout.hierarchy()))
            }
            Way::SplitBinary => flat::split_binary(shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    /// Checks both tables, or the error.
    fn check(line: &str, expected: Result<&[&str], &str>) {
        let options: SimulatedAspOptions = command_line::options(line).unwrap();
        let tables =
            |by_node| placement(&options, &Cluster { hosts: 2, ranks_per_host: 3, by_node, ..STREMI });
        match (tables(false).and_then(|first| Ok(first + &tables(true)?)), expected) {
            (Ok(text), Ok(parts)) => parts.iter().for_each(|part| assert!(text.contains(part), "{text}")),
            (Err(text), Err(part)) => assert!(text.contains(part), "{text}"),
            (got, _) => panic!("{got:?}"),
        }
    }

    #[test]
    fn tables_have_what_is_chosen_and_what_is_flat() {
        check(
            "--cities 60",
            Ok(&[
                "tutti: ",
                "binomial tree",
                "as Open MPI",
                "by core",
                "by node",
                "13.46 ns as in the paper",
            ]),
        );
        check(
            "--cities 60 --update-ns 1.5 --algorithms levels:segment=4K",
            Ok(&["levels:segment=4K", "takes 1.50 ns\n"]),
        );
        check("--cities 60 --hosts-share", Ok(&["stremi that are one machine by node"]));
        check("--cities 60 --model /nowhere/model", Err("cannot read /nowhere/model"));
        check("--cities 60 --algorithms nothing", Err("no algorithm \"nothing\""));
        check("--cities 5", Err("5 cities are fewer than 6 ranks"));
    }

    #[test]
    fn some_rows_stand_for_all() {
        let turn = |begin_seconds, end_seconds| OperationTimes { begin_seconds, end_seconds };
        let turns = [turn(0.0, 5.0), turn(6.0, 8.0), turn(9.0, 10.0)];
        assert_eq!(scaled(&turns, 1, 20), Sample { seconds: 50.0, in_broadcasts: 30.0 });
        assert_eq!([0, 1, 2].map(|rank| rows_of(8, 3, rank)), [2, 3, 3]);
        // 21 or 22 rows each: of one owner some, then all of another one.
        assert_eq!(owners(16384, 768), [384, 385]);
        assert_eq!((owners(44, 2), owners(1000, 1)), (vec![1, 0], vec![0, 0]));
        assert_eq!(owners(768, 768), (384..=396).collect::<Vec<u32>>());
    }

    #[test]
    fn without_broadcasts_only_the_computation_is_left() {
        let (cities, [(_, in_broadcasts, seconds), ..]) = PAPER[0];
        let updates = f64::from(cities).powi(3) / 768.0;
        assert!((papers_update_seconds() * updates - (seconds - in_broadcasts)).abs() < 1e-9);
    }
}
