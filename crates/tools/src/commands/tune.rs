//! `tutti tune`: measures whole operations by every algorithm, beside what the model says of them, and keeps
//! what the model misses.
//!
//! The model's parameters are probed one by one; how they work together in an operation is only an assumption
//! of the simulator. Here each cell (an operation, a size, a number of ranks) is measured by all algorithms
//! that have a chance, in turn, over several rounds. Measured by predicted time is the algorithm's correction
//! ([`tutti_coll::model::Correction`]), which selection multiplies its predictions by from then on. The table
//! shows where the model alone chooses well, and what is lost where it does not.
//!
//! On several hosts ([`Options::hosts`]) the segments of levels that overlap are measured too, in the few
//! best lengths: what is kept then belongs to a length, and selection takes the one that was fastest.
//!
//! A job forces one algorithm of every collective, so there are as many jobs as the collective with the most
//! algorithms has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use tutti_base::Machines;
use tutti_base::config::Config;
use tutti_coll::generator::{Need, Segmentation};
use tutti_coll::model::{Correction, size_class, variant};
use tutti_coll::select::{refusal, variants};
use tutti_coll::{Collective, Environment, Generator, Model, Params, Shape, registry, select};
use tutti_sys::files;

use crate::commands::info::{choice, job};
use crate::commands::sim::{Operation, collective};
use crate::measure::cells::has_no_data;
use crate::measure::crew::{Crew, Pace};
use crate::measure::library::{Library, Place, home};
use crate::measure::options::{Sizes, parse_sizes, parse_time, positive};
use crate::measure::programs::Programs;
use crate::measure::report::size;
use crate::measure::results::{Measure, Results};
use crate::measure::run;
use crate::measure::sample::Cell;
use crate::measure::session::Ask;

/// Options of `tutti tune`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Collectives; by default all whose blocks are of one size.
    #[arg(long, value_delimiter = ',', value_parser = collective)]
    ops: Vec<Collective>,
    /// Sizes in bytes (K and M allowed), as a list or as MIN:MAX[:FACTOR].
    #[arg(long, default_value = "8,256,2K,8K,32K,128K,512K,4M", value_parser = parse_sizes)]
    sizes: Sizes,
    /// Numbers of ranks.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8], value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Vec<u32>,
    /// Instead: on these hosts, where libraries and programs must be found under the same names.
    #[arg(long, value_delimiter = ',')]
    hosts: Vec<String>,
    /// Ranks on each of these hosts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_host: u32,
    /// The program in the place of ssh.
    #[arg(long, default_value = "ssh")]
    agent: String,
    /// Same data in each iteration, or data written afresh; of both, the geometric mean.
    #[arg(long, value_delimiter = ',', default_values_t = ["plain", "changing"].map(String::from),
          value_parser = ["plain", "changing"])]
    modes: Vec<String>,
    /// Time for all of it; each cell is measured once, however long that takes.
    #[arg(long, default_value = "5m", value_parser = parse_time)]
    budget: Duration,
    /// Time for one cell by one algorithm, in milliseconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    ms: u32,
    /// What is predicted to take so many times the least is not measured.
    #[arg(long, default_value_t = 6.0, value_parser = positive)]
    hopeless: f64,
    /// Where the model is; by default where the launcher looks for it.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only print the table.
    #[arg(long)]
    dry: bool,
    /// Only print the regret of jobs as they are: the time of the algorithm that they choose, by the costs
    /// and corrections in force, over the time of the best one.
    #[arg(long)]
    regret: bool,
    /// Show all algorithms of each cell.
    #[arg(long)]
    explain: bool,
    /// Directory for the measured programs.
    #[arg(long, default_value = "build/report")]
    programs: PathBuf,
}

/// So many lengths of segments of an algorithm are measured: what the model takes, and what it takes for the
/// next best.
const SEGMENTS: usize = 4;

impl Options {
    /// The hosts, if it is for several.
    fn place(&self) -> Option<Place> {
        let some = !self.hosts.is_empty();
        some.then(|| Place {
            enter: Vec::new(),
            agent: self.agent.clone(),
            hosts: self.hosts.clone(),
            per_host: self.ranks_per_host,
            by_node: false,
        })
    }
}

/// An algorithm in a cell. Seconds.
#[derive(Clone, Debug, PartialEq)]
struct Tried {
    algorithm: &'static str,
    /// With segments of so many bytes; or the model says which.
    segment: Option<u64>,
    params: String,
    predicted: f64,
    /// In each round in which it was.
    rounds: Vec<Option<f64>>,
    measured: Option<f64>,
}

/// One operation with one size on so many ranks, by all algorithms that have a chance.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    collective: Collective,
    ranks: u32,
    hosts: u32,
    bytes: u64,
    /// What the model alone takes: which algorithm, with which segments if that makes a difference.
    chosen: String,
    tried: Vec<Tried>,
}

impl Tried {
    /// As it is forced.
    fn name(&self) -> String {
        variant(self.algorithm, self.segment)
    }
}

impl Row {
    fn asks<'a>(&'a self, modes: &'a [String]) -> impl Iterator<Item = Ask> + 'a {
        let bytes = if has_no_data(self.collective.name()) { 0 } else { self.bytes };
        let op = self.collective.name().to_string();
        let some = if bytes == 0 { &modes[..1] } else { modes };
        some.iter().map(move |mode| Ask { op: op.clone(), mode: mode.clone(), bytes })
    }

    /// Makes of the times of all rounds one an algorithm. A shared machine is slower in some rounds than in
    /// others, so an algorithm's time counts by those of the others in the same round, the median of rounds,
    /// and the fastest round says how long that is.
    fn settle(&mut self) {
        let rounds = self.tried.iter().map(|one| one.rounds.len()).max().unwrap_or(0);
        let always: Vec<&Tried> =
            self.tried.iter().filter(|one| one.rounds.iter().all(Option::is_some)).collect();
        if always.is_empty() {
            return;
        }
        let mean = |round: usize| {
            let logarithms = always.iter().filter_map(|one| one.rounds.get(round).copied().flatten());
            (logarithms.map(f64::ln).sum::<f64>() / always.len() as f64).exp()
        };
        let means: Vec<f64> = (0..rounds).map(mean).collect();
        let least = means.iter().copied().fold(f64::INFINITY, f64::min);
        for one in &mut self.tried {
            let times = one.rounds.iter().zip(&means);
            let mut shares: Vec<f64> = times.filter_map(|(time, mean)| Some((*time)? / mean)).collect();
            shares.sort_by(f64::total_cmp);
            one.measured = match shares.len() {
                0 => None,
                count if count % 2 == 0 => Some((shares[count / 2 - 1] * shares[count / 2]).sqrt() * least),
                count => Some(shares[count / 2] * least),
            };
        }
    }

    fn best(&self) -> Option<&Tried> {
        let measured = self.tried.iter().filter(|one| one.measured.is_some());
        measured.min_by(|one, two| one.measured.partial_cmp(&two.measured).expect("times are numbers"))
    }

    /// Time of what the model takes, by the best; `None` unless both were measured.
    fn loss(&self) -> Option<f64> {
        let chosen = self.tried.iter().find(|one| one.name() == self.chosen)?;
        Some(chosen.measured? / self.best()?.measured?)
    }

    fn corrections(&self) -> impl Iterator<Item = Correction> + '_ {
        self.tried.iter().filter_map(|one| {
            Some(Correction {
                collective: self.collective,
                algorithm: one.algorithm.to_string(),
                segment: one.segment,
                ranks: self.ranks,
                hosts: self.hosts,
                class: size_class(self.bytes),
                factor: one.measured? / one.predicted,
            })
        })
    }
}

/// Measures, prints the table, and keeps the corrections.
///
/// # Errors
/// Tutti is not installed, a program does not compile, or the model cannot be read or written.
pub fn run(options: &Options) -> Result<(), String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    let path = options.out.clone().or_else(|| crate::kept::default_path(&config));
    let text = path
        .as_ref()
        .and_then(|path| files::read_text(path, crate::kept::MODEL_BYTES).ok())
        .unwrap_or_default();
    let in_force = Model::parse(&text)?;
    let model = if options.regret { in_force } else { Model { corrections: Vec::new(), ..in_force } };
    let home = home()?;
    let tutti = Library::find("tutti", &home, &home)?;
    let programs = Programs::build(&options.programs, std::slice::from_ref(&tutti))?;
    let (start, mut rows) = (Instant::now(), Vec::new());
    let place = options.place();
    let stages = place.as_ref().map_or(options.ranks.clone(), |place| vec![place.ranks()]);
    let tutti = place.as_ref().map_or(tutti.clone(), |place| tutti.on(place));
    for (stage, &ranks) in stages.iter().enumerate() {
        let left = options.budget.saturating_sub(start.elapsed()) / (stages.len() - stage) as u32;
        let environment = match &place {
            Some(place) => {
                let of = |rank: u32| rank / place.per_host;
                let hosts: Vec<u32> = (0..place.ranks()).map(of).collect();
                choice::environment_on(&hosts, &machines(&tutti, place)?, &config, model.clone())
            }
            None => choice::environment(ranks, &config, model.clone()),
        };
        let mut own = plan(options, ranks, &environment)?;
        measure(options, &tutti, &programs, left, &mut own);
        crate::output::show(&table(&own, options.explain));
        rows.extend(own);
    }
    let basis = if options.regret { "the choice in force" } else { "the model alone" };
    crate::output::show(&summary(basis, &rows));
    if options.dry || options.regret {
        return Ok(());
    }
    let path = path.ok_or("neither --out nor TUTTI_MODEL_FILE nor HOME says where to keep the model")?;
    crate::kept::keep(&path, &merged(&text, &rows))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    crate::output::show(&format!("kept in {}\n", path.display()));
    Ok(())
}

/// Which of the hosts are one machine, as a job on them says.
fn machines(tutti: &Library, place: &Place) -> Result<Machines, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let outcome = run::run(tutti.command(place.ranks(), &program).args(["info", "--machines"]), LIMIT)?;
    let said = outcome.lines.iter().find_map(|line| job::read(line, place.hosts.len()));
    said.ok_or_else(|| {
        format!("a job on {} says no machines: {}", place.hosts.join(","), outcome.errors.join("\n"))
    })
}

/// A job that only says what it is takes no longer.
const LIMIT: Duration = Duration::from_secs(120);

/// What there is to measure, with predictions.
fn plan(options: &Options, ranks: u32, environment: &Environment) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for collective in collectives(&options.ops) {
        let nothing = Sizes::new(vec![0]);
        let sizes = if has_no_data(collective.name()) { &nothing } else { &options.sizes };
        for &bytes in sizes.iter() {
            let operation = Operation { collective, bytes, ranks, ordered: false, model: None };
            rows.push(predicted(&operation, environment, options.hopeless));
        }
    }
    Ok(rows)
}

/// By default all but those of which the model knows no sizes.
/// Returns those that are asked for, or all that have one size.
fn collectives(wanted: &[Collective]) -> Vec<Collective> {
    use Collective as C;
    if !wanted.is_empty() {
        return wanted.to_vec();
    }
    let sized = |one: &C| !matches!(one, C::Gatherv | C::Scatterv | C::Alltoallv | C::Exscan);
    C::ALL.into_iter().filter(sized).collect()
}

fn predicted(operation: &Operation, environment: &Environment, hopeless: f64) -> Row {
    let shape = operation.shape();
    let possible = registry()
        .iter()
        .filter(|one| one.collective == shape.collective && refusal(one, &shape, environment).is_none());
    let mut tried: Vec<Tried> =
        possible.flat_map(|generator| segmented(generator, &shape, environment)).collect();
    let choice = select(&shape, environment, None);
    let segment = by_segments(choice.generator).then_some(choice.params.segment * shape.unit_bytes);
    let chosen = variant(choice.generator.name, segment);
    let least = tried.iter().map(|one| one.predicted).fold(f64::INFINITY, f64::min);
    tried.retain(|one| one.predicted <= hopeless * least || one.name() == chosen);
    let Operation { collective, ranks, bytes, .. } = *operation;
    Row { collective, ranks, hosts: environment.layout.hosts(), bytes, chosen, tried }
}

/// Whether segments of several lengths are measured: where levels overlap, they decide most.
fn by_segments(generator: &Generator) -> bool {
    generator.requires(Need::SeveralHosts)
        && generator.parameters.segments().is_some_and(|kind| kind != Segmentation::Frames)
}

/// An algorithm with its best parameters, or the best ones for the best few lengths of segments.
fn segmented(generator: &'static Generator, shape: &Shape, environment: &Environment) -> Vec<Tried> {
    let tried = |segment: Option<u64>, params: Params, predicted: f64| {
        let (algorithm, params) = (generator.name, params.to_string());
        Tried { algorithm, segment, params, predicted, rounds: Vec::new(), measured: None }
    };
    let choice = select(shape, environment, Some(generator.name));
    if !by_segments(generator) {
        return vec![tried(None, choice.params, choice.time)];
    }
    // What is taken now is measured in any case.
    let chosen = choice.params.segment;
    let others = variants(generator, shape, environment).into_iter().map(|one| (one.params, one.time));
    let others = others.filter(|(params, _)| params.segment != chosen).take(SEGMENTS - 1);
    std::iter::once((choice.params, choice.time))
        .chain(others)
        .map(|(params, time)| tried(Some(params.segment * shape.unit_bytes), params, time))
        .collect()
}

/// For each job, the algorithm of each collective that it forces.
fn jobs(rows: &[Row]) -> Vec<BTreeMap<&'static str, String>> {
    let mut algorithms: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for row in rows {
        let names = row.tried.iter().map(Tried::name);
        algorithms.entry(row.collective.name()).or_default().extend(names);
    }
    let most = algorithms.values().map(BTreeSet::len).max().unwrap_or(0);
    let of = |job: usize| {
        let pair =
            |(op, names): (&&'static str, &BTreeSet<String>)| Some((*op, names.iter().nth(job)?.clone()));
        algorithms.iter().filter_map(pair).collect()
    };
    (0..most).map(of).collect()
}

/// Fills in the measured times.
fn measure(options: &Options, tutti: &Library, programs: &Programs, budget: Duration, rows: &mut [Row]) {
    let Some(ranks) = rows.first().map(|row| row.ranks) else { return };
    let jobs = jobs(rows);
    let force = |(index, job): (usize, &BTreeMap<&str, String>)| {
        let all: Vec<String> = job.iter().map(|(op, algorithm)| format!("{op}={algorithm}")).collect();
        // Mapping pays after some uses, and those are not what is to be measured.
        let settings = [("TUTTI_ALGORITHM", all.join(",")), ("TUTTI_MAP_AFTER", "1".to_string())];
        tutti.variant(&format!("job{index}"), &settings.map(|(name, value)| (name.to_string(), value)))
    };
    let variants: Vec<Library> = jobs.iter().enumerate().map(force).collect();
    let members = variants.iter().map(|one| (one, programs.of("tutti-bench", one))).collect();
    let pace = Pace { ms: f64::from(options.ms), limit_ms: 1000, timeout: Duration::from_secs(30) };
    let mut crew = Crew::new(members, ranks, &programs.directory, pace);
    let mut failures = Vec::new();
    let (start, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || start.elapsed() < budget {
        for row in rows.iter_mut().take_while(|_| rounds == 0 || start.elapsed() < budget) {
            let best = row.best().and_then(|best| best.measured).unwrap_or(f64::INFINITY);
            let asks: Vec<Ask> = row.asks(&options.modes).collect();
            let (op, count) = (row.collective.name(), row.tried.len());
            let mut results = Results::default();
            for turn in 0..count {
                let one = &mut row.tried[(turn + rounds) % count];
                // What was far behind will not be the best.
                if one.measured.is_some_and(|time| time > LOST * best) {
                    one.rounds.push(None);
                    continue;
                }
                let job = jobs.iter().position(|job| job.get(op) == Some(&one.name()));
                let job = job.expect("every algorithm that is tried has a job");
                asks.iter().for_each(|ask| crew.measure_one(job, ask, &mut results));
                one.rounds.push(time(&results, &asks, ranks, &variants[job].name));
            }
            row.settle();
            failures.append(&mut results.failures);
        }
        rounds += 1;
    }
    failures.sort_unstable();
    failures.dedup();
    eprintln!("{ranks} ranks: {} cells, {} jobs, {rounds} rounds", rows.len(), jobs.len());
    failures.iter().for_each(|failure| eprintln!("{failure}"));
}

/// So many times the best is not looked at again.
const LOST: f64 = 3.0;

/// Seconds, the geometric mean over modes.
fn time(results: &Results, asks: &[Ask], ranks: u32, job: &str) -> Option<f64> {
    let mut product = 1.0;
    for Ask { op, mode, bytes } in asks {
        let cell = Cell { op: op.clone(), mode: mode.clone(), ranks, bytes: *bytes };
        product *= results.time(&cell, job, Measure::Least)? * 1e-6;
    }
    Some(product.powf(1.0 / asks.len() as f64))
}

/// The old text of the model with new corrections for what was measured.
fn merged(text: &str, rows: &[Row]) -> String {
    let fresh: Vec<Correction> = rows.iter().flat_map(Row::corrections).collect();
    let measured = |line: &str| {
        let old = line.trim().strip_prefix("correction ").and_then(|rest| Correction::parse(rest).ok());
        old.is_some_and(|old| {
            rows.iter()
                .any(|row| (row.collective, row.ranks, row.hosts) == (old.collective, old.ranks, old.hosts))
        })
    };
    let mut merged: String =
        text.lines().filter(|line| !measured(line)).flat_map(|line| [line, "\n"]).collect();
    for correction in fresh {
        let _ = writeln!(merged, "{correction}");
    }
    merged
}

fn table(rows: &[Row], explain: bool) -> String {
    let mut text = "ranks collective            bytes    chosen              us (model)       best                us (model)       loss\n".to_string();
    let us = |one: Option<&Tried>| match one {
        Some(Tried { measured: Some(time), predicted, .. }) => {
            format!("{:.2} ({:.2})", time * 1e6, predicted * 1e6)
        }
        _ => "-".to_string(),
    };
    for row in rows {
        let chosen = row.tried.iter().find(|one| one.name() == row.chosen);
        let best = row.best();
        let loss = row.loss().map_or("-".to_string(), |loss| format!("{loss:.2}"));
        let mark = if row.loss().is_some_and(|loss| loss > BAD) { " *" } else { "" };
        let _ = writeln!(
            text,
            "{:>5} {:20} {:>7}  {:19} {:16} {:19} {:16} {loss}{mark}",
            row.ranks,
            row.collective.name(),
            size(row.bytes),
            row.chosen,
            us(chosen),
            best.map_or("-".to_string(), Tried::name),
            us(best),
        );
        for one in row.tried.iter().filter(|_| explain) {
            let factor = one.measured.map_or(0.0, |time| time / one.predicted);
            let shown = us(Some(one));
            let _ = writeln!(text, "        {:24} {shown:20} {factor:.2}  {}", one.name(), one.params);
        }
    }
    text
}

/// More than this is a loss.
const BAD: f64 = 1.15;

/// Returns a line about the regret of the choice of algorithms. `basis` says what the choice goes by.
fn summary(basis: &str, rows: &[Row]) -> String {
    let losses: Vec<f64> = rows.iter().filter_map(Row::loss).collect();
    if losses.is_empty() {
        return "nothing was measured\n".to_string();
    }
    let mean = (losses.iter().map(|loss| loss.ln()).sum::<f64>() / losses.len() as f64).exp();
    let worst = losses.iter().copied().fold(1.0, f64::max);
    let bad = losses.iter().filter(|loss| **loss > BAD).count();
    format!(
        "{basis}: {} cells, {bad} of them lose more than {BAD}; worst {worst:.2}, geometric mean {mean:.3}\n",
        losses.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(chosen: &'static str, tried: &[(&'static str, f64, Option<f64>)]) -> Row {
        let tried = tried.iter().map(|&(algorithm, predicted, measured)| {
            let params = String::new();
            Tried { algorithm, segment: None, params, predicted, rounds: Vec::new(), measured }
        });
        let (chosen, tried) = (chosen.to_string(), tried.collect());
        Row { collective: Collective::Bcast, ranks: 4, hosts: 1, bytes: 1024, chosen, tried }
    }

    fn check(row: &Row, loss: Option<f64>, corrections: &[&str]) {
        assert_eq!(row.loss(), loss, "{row:?}");
        let lines: Vec<String> = row.corrections().map(|one| one.to_string()).collect();
        assert_eq!(lines, corrections, "{row:?}");
    }

    #[test]
    fn a_row_says_what_the_model_misses() {
        let both =
            row("kary", &[("kary", 1.0, Some(3.0)), ("knomial", 2.0, Some(2.0)), ("bank_flat", 9.0, None)]);
        let lines = ["correction bcast kary 4 11 3e0", "correction bcast knomial 4 11 1e0"];
        check(&both, Some(1.5), &lines);
        check(
            &row("kary", &[("kary", 1.0, None), ("knomial", 1.0, Some(2.0))]),
            None,
            &lines[..0].iter().copied().chain(["correction bcast knomial 4 11 2e0"]).collect::<Vec<_>>(),
        );
        assert!(table(std::slice::from_ref(&both), false).contains("1.50 *"));
        assert!(summary("the model alone", &[both]).contains("the model alone: 1 cells, 1 of them"));
    }

    #[test]
    fn times_count_by_those_of_the_same_round() {
        let mut row = row("kary", &[("kary", 1.0, None), ("knomial", 1.0, None), ("bank_flat", 1.0, None)]);
        // The machine was four times slower in the second round, and something disturbed one in the third.
        let rounds =
            [[Some(2.0), Some(8.0), Some(2.0)], [Some(2.0), Some(8.0), Some(32.0)], [Some(9.0), None, None]];
        for (one, rounds) in row.tried.iter_mut().zip(rounds) {
            one.rounds = rounds.to_vec();
        }
        row.settle();
        let measured: Vec<_> = row.tried.iter().map(|one| one.measured.unwrap().round()).collect();
        assert_eq!(measured, [2.0, 2.0, 9.0]);
    }

    #[test]
    fn old_corrections_of_what_was_measured_give_way() {
        let old = "switch 2e-6\ncorrection bcast kary 4 5 9\ncorrection bcast kary 8 5 9\n";
        let text = merged(old, &[row("kary", &[("kary", 1.0, Some(2.0))])]);
        assert_eq!(text, "switch 2e-6\ncorrection bcast kary 8 5 9\ncorrection bcast kary 4 11 2e0\n");
        assert_eq!(Model::parse(&text).unwrap().corrections.len(), 2);
    }

    #[test]
    fn segments_of_several_lengths_are_measured_across_hosts() {
        let hosts: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
        let machines = Machines::apart(4, 2);
        let environment = choice::environment_on(&hosts, &machines, &Config::default(), Model::default());
        let environment = Environment { node: tutti_coll::generator::Node::Exposed, ..environment };
        let operation = Operation {
            collective: Collective::Bcast,
            bytes: 4 << 20,
            ranks: 16,
            ordered: false,
            model: None,
        };
        let row = predicted(&operation, &environment, 100.0);
        let lengths = row.tried.iter().filter(|one| one.algorithm == "levels");
        assert_eq!(lengths.filter(|one| one.segment.is_some()).count(), SEGMENTS, "{row:?}");
        assert!(row.tried.iter().any(|one| one.name() == row.chosen), "{row:?}");
        assert!(row.tried.iter().all(|one| one.segment.is_none() || one.algorithm.starts_with("levels")));
        assert_eq!(row.hosts, 4);
    }

    #[test]
    fn a_job_forces_one_algorithm_of_each_collective() {
        let rows = [
            row("kary", &[("kary", 1.0, None), ("knomial", 1.0, None)]),
            Row { collective: Collective::Reduce, ..row("tree", &[("tree", 1.0, None)]) },
        ];
        let jobs = jobs(&rows);
        assert_eq!(jobs.len(), 2);
        assert_eq!(
            jobs[0].iter().collect::<Vec<_>>(),
            [(&"bcast", &"kary".to_string()), (&"reduce", &"tree".to_string())]
        );
        assert_eq!(jobs[1].get("reduce"), None);
    }
}
