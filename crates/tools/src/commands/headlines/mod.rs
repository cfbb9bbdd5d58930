//! `tutti headlines`: the papers' ratios between two ways of doing the same work, both inside Tutti, in one
//! run.
//!
//! Effects that two cores can show are measured, with a job for each way and algorithm. The jobs take turns
//! cell by cell, and the best of each way counts. All others are simulated on recorded machines; the table
//! marks them. [`list`] contains the rows, [`files`] those of io-servers, [`hosts`] those on several hosts of
//! this machine.

mod files;
mod hosts;
mod list;
mod outcome;
mod simulated;

use crate::commands::tuning;
use crate::measure::awake::{Awake, NOTE};
use crate::measure::cells::has_no_data;
use crate::measure::crew::{Crew, Pace, Rounds};
use crate::measure::library::{Library, home};
use crate::measure::machine;
use crate::measure::options::parse_time;
use crate::measure::programs::Programs;
use crate::measure::report::size;
use crate::measure::results::{Measure, Results};
use crate::measure::sample::Cell;
use crate::measure::session::Ask;
use crate::output::{FOLDER, folder};
use crate::simulate::cluster::Cluster;
use clap::Args;
use list::{Algorithms, HEADLINES, Headline, Shown, Way};
use outcome::{Outcome, Value};
use simulated::{Best, Scene};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tutti_base::config::Config;
use tutti_coll::generator::Need;
use tutti_coll::registry::registry;
use tutti_coll::shape::Collective;
use tutti_coll::simulate::Binding;

/// Options of `tutti headlines`.
#[derive(Args, Clone, Debug)]
pub struct HeadlinesOptions {
    /// Numbers of ranks of the measured rows.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4], value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Vec<u32>,
    /// Rounds of each measured row.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Instead: as many rounds as fit into this time for all rows together.
    #[arg(long, value_parser = parse_time)]
    budget: Option<Duration>,
    /// Time for one cell, in milliseconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    ms: u32,
    /// Only simulated rows, or only measured ones.
    #[arg(long, value_parser = ["simulated", "measured"])]
    only: Option<String>,
    /// Only rows whose claim or name of the cluster contains this text (1000x128)
    #[arg(long)]
    about: Option<String>,
    /// Show which algorithm was the best of each way.
    #[arg(long)]
    explain: bool,
    /// Directory for programs and the table.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER, value_parser = folder)]
    out: PathBuf,
}

/// Measures, simulates, prints the table, and writes it to `headlines.txt`.
///
/// # Errors
/// Fails if Tutti is not installed, or a program does not compile.
pub fn run(options: &HeadlinesOptions) -> Result<(), String> {
    let home = home()?;
    let tutti = Library::find("tutti", &home, &home)?;
    let programs = Programs::build(&options.out, std::slice::from_ref(&tutti))?;
    let bench = Bench { options, tutti, programs };
    let wanted: Vec<_> = HEADLINES.iter().filter(|headline| bench.wants(headline)).collect();
    let of_files: Vec<_> = files::ROWS.iter().filter(|row| bench.wants_measured(row.claim)).collect();
    let of_hosts: Vec<_> = hosts::ROWS.iter().filter(|row| bench.wants_measured(row.claim)).collect();
    if let Some(words) =
        options.about.as_ref().filter(|_| wanted.is_empty() && of_files.is_empty() && of_hosts.is_empty())
    {
        return Err(format!("no row is about {words:?}; without --about all are shown"));
    }
    let mut left = wanted.iter().filter(|headline| matches!(headline.shown, Shown::Measured(..))).count()
        as u32
        * options.ranks.len() as u32
        + (of_files.len() + of_hosts.len()) as u32;
    let awake = (left > 0).then(Awake::begin).flatten();
    let start = Instant::now();
    let rounds = |left: u32| match options.budget {
        Some(time) => Rounds::Time(time.saturating_sub(start.elapsed()) / left.max(1)),
        None => Rounds::Number(options.rounds),
    };
    let mut table = machine::processor_line() + &head();
    if awake.is_some() {
        table += &format!("{NOTE}\n");
    }
    crate::output::show(&table);
    let mut missed = 0;
    let mut tell = |line: String, outcome: &Outcome| {
        missed += u32::from(!outcome.value.as_ref().is_ok_and(|value| value.reached));
        crate::output::show(&line);
        table += &line;
    };
    for headline in wanted {
        let ranks: &[u32] = if matches!(headline.shown, Shown::Measured(..)) { &options.ranks } else { &[0] };
        for &ranks in ranks {
            let outcome = bench.outcome(headline, ranks, rounds(left));
            left = left.saturating_sub(u32::from(ranks > 0));
            tell(row(headline, &outcome, options.explain), &outcome);
        }
    }
    if !of_files.is_empty() {
        let rounds = |number: usize| rounds((of_files.len() - number + of_hosts.len()) as u32);
        files::measure(&bench.tutti, &bench.programs, bench.pace(), &of_files, rounds, |row, outcome| {
            let what = ["S10", row.claim, row.op];
            tell(measured_row(what, row.bytes, Some(row.paper), outcome, options.explain), outcome);
        })?;
    }
    if !of_hosts.is_empty() {
        let rounds = |number: usize| rounds((of_hosts.len() - number) as u32);
        let at = (home.as_path(), bench.pace());
        hosts::measure(&bench.tutti, &bench.programs, at, &of_hosts, rounds, |row, outcome| {
            let what = [row.system, row.claim, row.operation];
            tell(measured_row(what, row.bytes, row.paper, outcome, options.explain), outcome);
        });
    }
    let end = format!("\n{missed} not reached. measured: on this machine; simulated: on a recorded one.\n");
    crate::output::show(&end);
    let path = options.out.join("headlines.txt");
    std::fs::write(&path, table + &end).map_err(|error| format!("{}: {error}", path.display()))
}

struct Bench<'a> {
    options: &'a HeadlinesOptions,
    tutti: Library,
    programs: Programs,
}

impl Bench<'_> {
    fn wants(&self, headline: &Headline) -> bool {
        let measured = matches!(headline.shown, Shown::Measured(..));
        let about = self.options.about.as_deref().is_none_or(|words| headline.is_about(words));
        about && self.options.only.as_deref().is_none_or(|only| (only == "measured") == measured)
    }

    /// Returns true if the user selected a row that is always measured.
    fn wants_measured(&self, claim: &str) -> bool {
        let about = self.options.about.as_deref().is_none_or(|words| claim.contains(words));
        about && self.options.only.as_deref() != Some("simulated")
    }

    fn pace(&self) -> Pace {
        Pace { ms: f64::from(self.options.ms), limit_ms: 2000, timeout: Duration::from_secs(30) }
    }

    fn outcome(&self, headline: &Headline, ranks: u32, rounds: Rounds) -> Outcome {
        match &headline.shown {
            Shown::Measured(one, two) => Outcome {
                ranks: ranks.to_string(),
                value: self.measured(headline, ranks, rounds, [one, two]),
            },
            Shown::Ratio(machine, one, two) => {
                let scene = Scene::new(headline.collective, headline.bytes, machine, &Binding::Compact);
                let value = scene.and_then(|scene| simulated_ratio(headline, &scene, [one, two]));
                Outcome { ranks: named(machine), value }
            }
            Shown::Loss(machine, worst, most, near, flat) => Outcome {
                ranks: named(machine),
                value: simulated_loss(headline, machine, worst, *most, [near, flat]),
            },
            Shown::Across(cluster, one, two) => {
                let scene = Scene::across(headline.collective, headline.bytes, cluster);
                let value = scene.and_then(|scene| simulated_ratio(headline, &scene, [one, two]));
                Outcome { ranks: cluster.name.to_string(), value }
            }
            Shown::Kernel(hosts) => {
                Outcome { ranks: format!("{hosts} hosts"), value: simulated_kernel(headline, *hosts) }
            }
            Shown::Alike(clusters, most, way) => Outcome {
                ranks: clusters[1].name.to_string(),
                value: simulated_difference(headline, *clusters, *most, way),
            },
            Shown::Found(scenarios) => {
                Outcome { ranks: "32 to 256".to_string(), value: found(headline, *scenarios) }
            }
        }
    }

    /// Measures all variants of both ways in turns.
    fn measured(
        &self,
        headline: &Headline,
        ranks: u32,
        rounds: Rounds,
        ways: [&Way; 2],
    ) -> Result<Value, String> {
        let op = headline.collective.name();
        let mut variants = Vec::new();
        for (index, way) in ways.iter().enumerate() {
            for name in algorithms(way, headline.collective, ranks)? {
                let settings = settings(way, op, &name)?;
                let label = format!("{index} {name}");
                variants.push(self.tutti.variant(&label, &settings));
            }
        }
        let members = variants.iter().map(|one| (one, self.programs.path_of("tutti-bench", one))).collect();
        let mut crew = Crew::new(members, ranks, &self.programs.directory, self.pace());
        let bytes = if has_no_data(op) { 0 } else { headline.bytes };
        let ask = Ask { op: op.to_string(), mode: "plain".to_string(), bytes };
        let mut results = Results::default();
        rounds.run(|round| crew.measure(&ask, round, &mut results));
        // Where a forced algorithm cannot be used Tutti takes another: that would be a measurement of
        // something else.
        let refused = crew.complaints(&format!("Tutti: {op} of"), "does not suit");
        let cell = Cell { op: ask.op, mode: ask.mode, ranks, bytes };
        let best = |way: &str, measure| {
            let suits = |variant: &&Library| !refused.contains(&variant.name.as_str());
            let of_way = variants.iter().filter(|variant| variant.name.starts_with(way)).filter(suits);
            let times =
                of_way.filter_map(|one| Some((results.time(&cell, &one.name, measure)?, &one.name[2..])));
            let none = || match results.failures.is_empty() {
                true => format!("Tutti does not take {}", refused.join(", ")),
                false => results.failures.join("; "),
            };
            times.min_by(|one, two| one.0.total_cmp(&two.0)).ok_or_else(none)
        };
        let (fast, slow) = (best("0", Measure::Least)?, best("1", Measure::Least)?);
        let (fast_median, slow_median) = (best("0", Measure::Median)?, best("1", Measure::Median)?);
        let least = slow.0 / fast.0;
        Ok(Value {
            least,
            median: slow_median.0 / fast_median.0,
            other: None,
            reached: least >= headline.paper.unwrap_or(1.0),
            how: format!("{} {:.2} us, {} {:.2} us", fast.1, fast.0, slow.1, slow.0),
        })
    }
}

/// Returns the names of the algorithms of a way; an empty name stands for Tutti's own choice.
fn algorithms(way: &Way, collective: Collective, ranks: u32) -> Result<Vec<String>, String> {
    if matches!(way.algorithms, Algorithms::Chosen) {
        return Ok(vec![String::new()]);
    }
    let fits = |power: bool| !power || ranks.is_power_of_two();
    let names: Vec<_> = registry()
        .iter()
        .filter(|one| {
            one.collective == collective
                && !one.requires(Need::TwoGroups)
                && way.algorithms.hold(one)
                && fits(one.requires(Need::PowerOfTwo))
        })
        .map(|one| one.name.to_string())
        .collect();
    match names.is_empty() {
        true => Err(format!("{collective} has no algorithm for: {}", way.name)),
        false => Ok(names),
    }
}

/// Returns the environment of a job, if Tutti knows all of its settings.
fn settings(way: &Way, op: &str, algorithm: &str) -> Result<Vec<(String, String)>, String> {
    let mut settings: Vec<_> =
        way.settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    if !algorithm.is_empty() {
        settings.push(("TUTTI_EXPLAIN".to_string(), "1".to_string()));
        settings.push(("TUTTI_ALGORITHM".to_string(), format!("{op}={algorithm}")));
    }
    Config::from_pairs(settings.iter().cloned()).map_err(|error| error.to_string())?;
    Ok(settings)
}

/// Returns the name in the text of a recorded machine.
fn named(machine: &str) -> String {
    machine.lines().find_map(|line| line.strip_prefix("machine ")).unwrap_or("machine").to_string()
}

fn best_in(scene: &Scene, way: &Way, collective: Collective) -> Result<Best, String> {
    scene.best(way).ok_or_else(|| format!("{collective} has no algorithm for: {}", way.name))
}

fn simulated_ratio(headline: &Headline, scene: &Scene, ways: [&Way; 2]) -> Result<Value, String> {
    let [fast, slow] = ways.map(|way| best_in(scene, way, headline.collective));
    let (fast, slow) = (fast?, slow?);
    let ratio = slow.seconds / fast.seconds;
    Ok(Value {
        least: ratio,
        median: ratio,
        other: None,
        reached: ratio >= headline.paper.unwrap_or(1.0),
        how: format!("{} against {}", fast.how(), slow.how()),
    })
}

/// Compares the best time of a way on two clusters, and checks that they differ by at most `most`.
fn simulated_difference(
    headline: &Headline,
    clusters: [&Cluster; 2],
    most: f64,
    way: &Way,
) -> Result<Value, String> {
    let best = |cluster| {
        let scene = Scene::across(headline.collective, headline.bytes, cluster)?;
        best_in(&scene, way, headline.collective)
    };
    let (one, two) = (best(clusters[0])?, best(clusters[1])?);
    let apart = (two.seconds / one.seconds).max(one.seconds / two.seconds) - 1.0;
    Ok(Value {
        least: apart,
        median: apart,
        other: None,
        reached: apart <= most,
        how: format!("{} against {}", one.how(), two.how()),
    })
}

fn simulated_kernel(headline: &Headline, hosts: u32) -> Result<Value, String> {
    let [processes, kernel] = simulated::barriers(hosts)?;
    let ratio = processes / kernel;
    Ok(Value {
        least: ratio,
        median: ratio,
        other: None,
        reached: ratio >= headline.paper.unwrap_or(1.0),
        how: format!("{:.1} us against {:.1} us", kernel * 1e6, processes * 1e6),
    })
}

fn simulated_loss(
    headline: &Headline,
    machine: &str,
    worst: &Binding,
    most: f64,
    ways: [&Way; 2],
) -> Result<Value, String> {
    let scene = |binding| Scene::new(headline.collective, headline.bytes, machine, binding);
    let (good, bad) = (scene(&Binding::Compact)?, scene(worst)?);
    let [near, flat] = ways.map(|way| {
        let best = best_in(&good, way, headline.collective)?;
        Ok::<_, String>((simulated::loss(best.seconds, bad.again(&best)), best.how()))
    });
    let (near, flat) = (near?, flat?);
    Ok(Value {
        least: near.0,
        median: near.0,
        other: Some(flat.0),
        reached: near.0 <= most,
        how: format!("{} against {}", near.1, flat.1),
    })
}

/// Returns the fraction of scenarios in which tuning finds the best algorithm.
fn found(headline: &Headline, scenarios: usize) -> Result<Value, String> {
    let [own, brute_force] = tuning::found(headline.collective, scenarios)?;
    Ok(Value {
        least: own,
        median: own,
        other: Some(brute_force),
        reached: own >= headline.paper.unwrap_or(0.95),
        how: format!("in {scenarios} scenarios, within 5 %; in brackets by 30 samples of each in a row"),
    })
}

fn head() -> String {
    format!(
        "{:<3} {:<36} {:<10} {:>5} {:<16} {:<9} {:>12} {:>15}\n",
        "", "headline", "operation", "bytes", "ranks or machine", "", "paper", "here"
    )
}

fn row(headline: &Headline, outcome: &Outcome, explain: bool) -> String {
    let loss = matches!(headline.shown, Shown::Loss(..));
    let kind = if matches!(headline.shown, Shown::Measured(..)) { "measured" } else { "simulated" };
    let alike = matches!(headline.shown, Shown::Alike(..));
    let found = matches!(headline.shown, Shown::Found(_));
    let paper = match headline.paper {
        Some(value) if found => format!("{:.0}%", value * 100.0),
        Some(value) if alike => format!("<{:.0}%", value * 100.0),
        Some(value) if loss => format!("<14% ({:.0}%)", value * 100.0),
        Some(value) => format!("{value:.2}"),
        None => "-".to_string(),
    };
    let (here, verdict) = match &outcome.value {
        Ok(value) if alike => (format!("{:.1}%", value.least * 100.0), verdict_of(value)),
        Ok(value) => (shown(value), verdict_of(value)),
        Err(why) => ("-".to_string(), format!("not available: {why}")),
    };
    let what = [headline.system, headline.claim, headline.collective.name()];
    line(what, headline.bytes, outcome, [kind, &paper, &here, &verdict], explain)
}

/// Formats a row that is always measured. `what` are its first three columns, `paper` is the paper's ratio.
fn measured_row(what: [&str; 3], bytes: u64, paper: Option<f64>, outcome: &Outcome, explain: bool) -> String {
    let (here, verdict) = match &outcome.value {
        Ok(value) => (shown(value), verdict_of(value)),
        Err(why) => ("-".to_string(), format!("not available: {why}")),
    };
    let paper = paper.map_or("-".to_string(), |paper| format!("{paper:.2}"));
    line(what, bytes, outcome, ["measured", &paper, &here, &verdict], explain)
}

fn line(
    [system, claim, operation]: [&str; 3],
    bytes: u64,
    outcome: &Outcome,
    [kind, paper, here, verdict]: [&str; 4],
    explain: bool,
) -> String {
    let mut line = format!(
        "{system:<3} {claim:<36} {operation:<10} {:>5} {:<16} {kind:<9} {paper:>12} {here:>15}  {verdict}\n",
        size(bytes),
        outcome.ranks,
    );
    if let (true, Ok(value)) = (explain, &outcome.value) {
        let _ = writeln!(line, "      {}", value.how);
    }
    line
}

fn verdict_of(value: &Value) -> String {
    if value.reached { "reached" } else { "NOT reached" }.to_string()
}

fn shown(value: &Value) -> String {
    match value.other {
        Some(other) => format!("{:.0}% ({:.0}%)", value.least * 100.0, other * 100.0),
        None if value.least == value.median => format!("{:.2}", value.least),
        None => format!("{:.2}/{:.2}", value.least, value.median),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_coll::generator::Node;

    fn way(algorithms: Algorithms, settings: &'static [(&'static str, &'static str)]) -> Way {
        Way { name: "test", algorithms, settings, pipelined: None }
    }

    #[test]
    fn a_way_is_a_list_of_algorithms_and_settings() {
        let messages = way(Algorithms::Of(Node::Any), &[("TUTTI_SINGLE_COPY", "never")]);
        let names = algorithms(&messages, Collective::Bcast, 4).unwrap();
        assert!(names.contains(&"knomial".to_string()), "{names:?}");
        let doubling = |ranks| algorithms(&messages, Collective::Allgather, ranks).unwrap();
        assert!(doubling(4).len() > doubling(3).len());
        assert_eq!(algorithms(&way(Algorithms::Chosen, &[]), Collective::Bcast, 4), Ok(vec![String::new()]));
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        let expected = [
            pair("TUTTI_SINGLE_COPY", "never"),
            pair("TUTTI_EXPLAIN", "1"),
            pair("TUTTI_ALGORITHM", "bcast=knomial"),
        ];
        assert_eq!(settings(&messages, "bcast", "knomial"), Ok(expected.to_vec()));
        let unknown = way(Algorithms::Chosen, &[("TUTTI_NO_SUCH_THING", "1")]);
        assert!(settings(&unknown, "bcast", "").unwrap_err().contains("no such setting"));
    }

    #[test]
    fn rows_say_what_was_reached_and_how() {
        let value = Value { least: 3.5, median: 3.0, other: None, reached: true, how: "why".to_string() };
        let ours = row(&HEADLINES[1], &Outcome { ranks: "2".to_string(), value: Ok(value.clone()) }, true);
        assert!(
            ours.contains("3.50/3.00  reached") && ours.contains("measured") && ours.contains("why"),
            "{ours}"
        );
        let losses =
            HEADLINES.iter().find(|one| matches!(one.shown, Shown::Loss(..))).expect("there are some");
        let value = Value { least: 0.2, median: 0.2, other: Some(0.5), reached: false, ..value };
        let lost = row(losses, &Outcome { ranks: "m".to_string(), value: Ok(value) }, false);
        assert!(lost.contains("20% (50%)  NOT reached") && lost.contains("simulated"), "{lost}");
        let none =
            row(&HEADLINES[0], &Outcome { ranks: "2".to_string(), value: Err("x".to_string()) }, false);
        assert!(none.contains("not available: x"), "{none}");
    }
}
