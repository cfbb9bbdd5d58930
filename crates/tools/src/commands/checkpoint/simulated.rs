//! `tutti sim checkpoint`: time for all daemons of a job to stop and to continue together, by Tutti's tree
//! and by the paper's ring, at any size. The costs are fitted to measured checkpoints ([`model`]). It also
//! prints the total cost of checkpoints.
//!
//! Measured checkpoints are text with one line each, in milliseconds like the output of `mpirun --verbose`
//! (`#` begins a comment):
//!
//! ```text
//! shared 2                                # all hosts are one machine with so many processors (a testbed)
//! HOSTS RANKS PREPARE FREEZE DRAIN THAW   # of a tree with the usual radix
//! ```

use std::path::PathBuf;

use clap::Args;
use tutti_checkpoint::coordination::{self, Phase};
use tutti_coll::start::{Fitted, Job, fit};
use tutti_sys::files;

use super::model::{ASSUMED, MEANINGS, MODELLED, Scheme, TERMS};
use crate::amounts::{costs, seconds};
use crate::measure::options::positive;

/// Options of `tutti sim checkpoint`.
#[derive(Args)]
pub struct SimulatedCheckpointOptions {
    /// Measured checkpoints, a line each: HOSTS RANKS and the milliseconds of prepare, freeze, drain and
    /// thaw; and `shared PROCESSORS` if all hosts are one machine.
    #[arg(long)]
    runs: Option<PathBuf>,
    /// Ranks on each host of the jobs that are predicted.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    per_host: u32,
    /// Children of a daemon.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    radix: u32,
    /// Sizes of the jobs that are predicted.
    #[arg(long, value_delimiter = ',', default_value = "8,64,128,2048,16384,1000000",
          value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Vec<u32>,
    /// Bytes that a rank writes (K, M and G allowed).
    #[arg(long, default_value = "1G", value_parser = crate::measure::options::bytes)]
    bytes: u64,
    /// Bytes a second that a host writes, and that the file system takes from all together.
    #[arg(long, default_value = "2G", value_parser = crate::measure::options::bytes)]
    host_rate: u64,
    /// See above.
    #[arg(long, default_value = "1000G", value_parser = crate::measure::options::bytes)]
    all_rate: u64,
    /// Mean time in hours between two losses of a host
    #[arg(long, default_value_t = 43800.0, value_parser = positive)]
    lost_after: f64,
}

/// Longest list of runs, in bytes.
const RUNS_BYTES: u64 = 64 << 20;
/// Children of a daemon where runs were measured.
const RADIX: u32 = 32;

/// A measured checkpoint: seconds of [`MODELLED`].
#[derive(Clone, Debug, PartialEq)]
struct Run {
    job: Job,
    phases: [f64; 4],
}

/// Returns the predicted times as text.
///
/// # Errors
/// Fails if the file cannot be read, or a line of it is not understood.
pub fn text(options: &SimulatedCheckpointOptions) -> Result<String, String> {
    let runs = match &options.runs {
        None => Vec::new(),
        Some(path) => {
            let named = |why: String| format!("{}: {why}", path.display());
            let text =
                files::read_text_or_pipe(path, RUNS_BYTES).map_err(|error| named(error.to_string()))?;
            parse(&text).map_err(named)?
        }
    };
    Ok(report(options, &runs))
}

fn parse(text: &str) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    let mut shared = 0;
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        let wrong =
            || format!("line {}: HOSTS RANKS and four times in milliseconds are expected", number + 1);
        match words[..] {
            [] => {}
            ["shared", processors] => shared = processors.parse().map_err(|_| wrong())?,
            [hosts, ranks, ref times @ ..] => {
                let [hosts, ranks] = [hosts, ranks].map(|word| word.parse::<u32>().unwrap_or(0));
                let times: Option<Vec<f64>> = times.iter().map(|word| word.parse().ok()).collect();
                let times: Option<[f64; 4]> = times.and_then(|times| times.try_into().ok());
                let is_sound = |times: &[f64; 4]| times.iter().all(|time| time.is_finite() && *time >= 0.0);
                let times =
                    times.filter(|times| hosts > 0 && ranks >= hosts && is_sound(times)).ok_or_else(wrong)?;
                let job = Job { hosts, ranks, shared };
                runs.push(Run { job, phases: times.map(|time| time / 1e3) });
            }
            _ => return Err(wrong()),
        }
    }
    Ok(runs)
}

/// Fits the costs to the measured phases. Phases that took no time (a drain on one host) are ignored.
fn fitted(runs: &[Run]) -> Fitted<8> {
    let rows = runs.iter().flat_map(|run| {
        let phases = MODELLED.into_iter().zip(run.phases).filter(|(_, time)| *time > 0.0);
        phases.map(|(phase, time)| (Scheme::Tree(RADIX).terms(phase, &run.job), time))
    });
    fit(&rows.collect::<Vec<_>>(), &ASSUMED)
}

fn report(options: &SimulatedCheckpointOptions, runs: &[Run]) -> String {
    let fitted = fitted(runs);
    let mut text =
        "coordination of a checkpoint: all of it but the files (Yu 2006, sections 4.1 to 4.3)\n".to_string();
    text += &costs(&TERMS, &MEANINGS, &fitted, runs.len(), seconds);
    text += &measured(runs, &fitted.costs);
    text += &predicted(options, &fitted.costs);
    text += &restarts(options, &fitted.costs);
    text += &in_all(options, &fitted.costs);
    text
}

fn measured(runs: &[Run], costs: &[f64; 8]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mut text = format!("\nmeasured (model)\n{:>6} {:>8}", "hosts", "ranks");
    for phase in MODELLED {
        text += &format!(" {:>22}", coordination::name(phase));
    }
    text.push('\n');
    for Run { job, phases } in runs {
        text += &format!("{:>6} {:>8}", job.hosts, job.ranks);
        for (phase, time) in MODELLED.into_iter().zip(phases) {
            let model = seconds(Scheme::Tree(RADIX).seconds(phase, job, costs));
            text += &format!(" {:>22}", format!("{} ({model})", seconds(*time)));
        }
        text.push('\n');
    }
    text
}

fn head(options: &SimulatedCheckpointOptions, what: &str) -> String {
    let ranks: String = options.ranks.iter().map(|ranks| format!(" {ranks:>16}")).collect();
    format!("\n{what}\n{:24}{ranks}\n", "ranks")
}

fn predicted(options: &SimulatedCheckpointOptions, costs: &[f64; 8]) -> String {
    let what = format!("predicted, {} ranks a host", options.per_host);
    let mut text = head(options, &what);
    let tree = Scheme::Tree(options.radix);
    for scheme in [tree, Scheme::Star, Scheme::AdaptiveRing, Scheme::Ring] {
        text += &format!("{:24}", scheme.to_string());
        for job in options.jobs() {
            text += &format!(" {:>16}", seconds(scheme.coordination(&job, costs)));
        }
        text.push('\n');
    }
    for phase in MODELLED {
        text += &format!("{:24}", format!("  of {tree}: {}", coordination::name(phase)));
        for job in options.jobs() {
            text += &format!(" {:>16}", seconds(tree.seconds(phase, &job, costs)));
        }
        text.push('\n');
    }
    text
}

/// Formats the times of restarts. A restart passes the tree three times and creates the connections of a
/// host's ranks again.
fn restarts(options: &SimulatedCheckpointOptions, costs: &[f64; 8]) -> String {
    let (tree, connection) = (Scheme::Tree(options.radix), costs[7]);
    let mut text = format!("{:24}", "restart, beside reading");
    for job in options.jobs() {
        // A phase in which nothing is done but passing it on.
        let terms = tree.terms(Phase::Write, &job);
        let pass: f64 = terms.iter().zip(costs).map(|(times, cost)| times * cost).sum();
        let made = if job.hosts > 1 { f64::from(options.per_host) * tree.peers(&job) } else { 0.0 };
        text += &format!(" {:>16}", seconds(3.0 * pass + made * connection));
    }
    text.push('\n');
    text
}

/// Formats the times with files: the pause of ranks, the best interval (Young 1974), and the loss by it.
fn in_all(options: &SimulatedCheckpointOptions, costs: &[f64; 8]) -> String {
    let what = format!(
        "in all, {} of a rank at {}/s a host and {}/s of all, a host lost once in {} h",
        size(options.bytes),
        size(options.host_rate),
        size(options.all_rate),
        options.lost_after
    );
    let mut text = head(options, &what);
    let mut rows = ["files", "a checkpoint", "of it coordination", "best interval", "lost of the time"]
        .map(|name| format!("{name:24}"));
    for job in options.jobs() {
        let of_host = f64::from(options.per_host.min(job.ranks)) * options.bytes as f64;
        let of_all = f64::from(job.ranks) * options.bytes as f64;
        let files = (of_host / options.host_rate.max(1) as f64).max(of_all / options.all_rate.max(1) as f64);
        let coordination = Scheme::Tree(options.radix).coordination(&job, costs);
        let all = files + coordination;
        let between_losses = options.lost_after * 3600.0 / f64::from(job.hosts);
        let interval = (2.0 * all * between_losses).sqrt();
        let lost = all / interval + (interval / 2.0 + all) / between_losses;
        let lost = if lost < 1.0 { format!("{:.1} %", lost * 100.0) } else { "all".to_string() };
        let cells = [
            seconds(files),
            seconds(all),
            format!("{:.3} %", coordination / all * 100.0),
            seconds(interval),
            lost,
        ];
        for (row, cell) in rows.iter_mut().zip(cells) {
            *row += &format!(" {cell:>16}");
        }
    }
    for row in rows {
        text += &row;
        text.push('\n');
    }
    text
}

fn size(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

impl SimulatedCheckpointOptions {
    fn jobs(&self) -> impl Iterator<Item = Job> {
        self.ranks.iter().map(|&ranks| Job { hosts: ranks.div_ceil(self.per_host), ranks, shared: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn check(line: &str, runs: &str, expected: &[&str]) {
        let command = |options: &SimulatedCheckpointOptions| Ok(report(options, &parse(runs)?));
        let text = command_line::answer(line, command).unwrap_or_else(|error| error);
        for part in expected {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        check("--ranks 0", "", &["0 is not in"]);
        check("", "\n1 2 3 4 5", &["line 2: HOSTS RANKS and four times"]);
        check("", "4 2 1 1 1 1", &["line 1"]);
        check("", "shared", &["line 1"]);
        check("--radix 8 --ranks 64", "2 4 1 1 1 1", &["tree:8", "fitted to 1 runs", "(assumed)"]);
    }

    #[test]
    fn predictions_from_measured_checkpoints() {
        let runs = std::fs::read_to_string(tutti_golden::path("checkpoints/testbed-2-processors.txt"));
        let runs = parse(&runs.expect("it is there")).expect("lines of runs");
        let options = command_line::options("").expect("no option is needed");
        tutti_golden::check("predictions/checkpoints.txt", &report(&options, &runs));
    }
}
