//! `tutti sim start`: time to start a job of any size by each scheme, and memory of a rank. The model is
//! fitted to measured runs.

use std::path::PathBuf;

use clap::Args;
use tutti_coll::start::{
    Connections, Fitted, Job, MEANINGS, MEMORY_TERMS, Runs, Scheme, SimulatedExchange, Spread, TERMS,
};
use tutti_sys::files;

use crate::amounts::{bytes, costs, seconds};

/// Options of `tutti sim start`.
#[derive(Args)]
pub struct StartOptions {
    /// Measured runs, a line each: `time tree:8+request HOSTS RANKS SECONDS`, `memory adaptive HOSTS RANKS
    /// BYTES`, and `shared PROCESSORS` if all hosts are one machine.
    #[arg(long)]
    runs: Option<PathBuf>,
    /// Ranks on each host of the jobs that are predicted.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    per_host: u32,
    /// Children of a daemon.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    radix: u32,
    /// Sizes of the jobs that are predicted.
    #[arg(long, value_delimiter = ',', default_value = "64,128,2048,16384,1000000",
          value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Vec<u32>,
}

/// Longest list of runs, in bytes.
const RUNS_BYTES: u64 = 64 << 20;

/// Prints the predicted times.
///
/// # Errors
/// Fails if the file cannot be read, or a line of it is not understood.
pub fn run(options: &StartOptions) -> Result<(), String> {
    let runs = match &options.runs {
        None => Runs::default(),
        Some(path) => {
            let named = |why: String| format!("{}: {why}", path.display());
            let text =
                files::read_text_or_pipe(path, RUNS_BYTES).map_err(|error| named(error.to_string()))?;
            Runs::parse(&text).map_err(|error| named(error.to_string()))?
        }
    };
    crate::output::show(&report(options, &runs));
    Ok(())
}

fn report(options: &StartOptions, runs: &Runs) -> String {
    let times = runs.fit_times();
    let memory = runs.fit_memory();
    let mut text =
        "T = T_init + T_connect, the costs of what lies on the longest path (Yu 2006, section 2.7)\n"
            .to_string();
    text += &costs(&TERMS, &MEANINGS, &times, runs.times.len(), seconds);
    text += &measured(runs, &times);
    text += &predicted(options, &times);
    text += "\nmemory of a rank\n";
    text += &costs(&MEMORY_TERMS, &[""; 4], &memory, runs.memory.len(), bytes);
    text += &predicted_memory(options, &memory);
    text
}

/// Formats measured runs together with the times of the model.
fn measured(runs: &Runs, times: &Fitted<7>) -> String {
    if runs.times.is_empty() {
        return String::new();
    }
    let mut text =
        format!("\n{:24} {:>6} {:>8} {:>10} {:>10}\n", "scheme", "hosts", "ranks", "measured", "model");
    for run in &runs.times {
        let model = seconds(run.scheme.seconds(&run.job, &times.costs));
        let (scheme, Job { hosts, ranks, .. }) = (run.scheme.to_string(), run.job);
        text += &format!("{scheme:24} {hosts:>6} {ranks:>8} {:>10} {model:>10}\n", seconds(run.measured));
    }
    text
}

/// Formats the predictions of all schemes at the requested sizes: the total time, and the part of the
/// exchange.
fn predicted(options: &StartOptions, times: &Fitted<7>) -> String {
    let tree = Spread::Tree(options.radix);
    let schemes = [
        (tree, SimulatedExchange::Request),
        (tree, SimulatedExchange::Ring),
        (tree, SimulatedExchange::Static),
        (Spread::Star, SimulatedExchange::Request),
        (Spread::Star, SimulatedExchange::Static),
        (Spread::Each, SimulatedExchange::Reassembled),
        (Spread::Each, SimulatedExchange::Combined),
        (Spread::Daemons, SimulatedExchange::Bootstrap),
    ]
    .map(|(spread, exchange)| Scheme { spread, exchange });
    let mut text =
        format!("\npredicted, {} ranks a host (T, of it T_connect)\n{:24}", options.per_host, "scheme");
    for ranks in &options.ranks {
        text += &format!(" {ranks:>20}");
    }
    text.push('\n');
    for scheme in schemes {
        text += &format!("{:24}", scheme.to_string());
        for job in options.jobs() {
            let all = scheme.seconds(&job, &times.costs);
            let connect = all - scheme.init_seconds(&job, &times.costs);
            text += &format!(" {:>20}", format!("{} ({})", seconds(all), seconds(connect)));
        }
        text.push('\n');
    }
    text
}

fn predicted_memory(options: &StartOptions, memory: &Fitted<4>) -> String {
    let mut text = String::new();
    for connections in [Connections::Adaptive(0), Connections::Static] {
        text += &format!("{:24}", connections.to_string());
        for job in options.jobs() {
            text += &format!(" {:>20}", bytes(connections.bytes(&job, &memory.costs)));
        }
        text.push('\n');
    }
    text
}

impl StartOptions {
    fn jobs(&self) -> impl Iterator<Item = Job> {
        self.ranks.iter().map(|&ranks| Job { hosts: ranks.div_ceil(self.per_host), ranks, shared: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn check(line: &str, runs: &str, expected: &[&str]) {
        let command = |options: &StartOptions| {
            Ok(report(options, &Runs::parse(runs).map_err(|error| error.to_string())?))
        };
        let text = command_line::answer(line, command).unwrap_or_else(|error| error);
        for part in expected {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn schemes_are_shown_side_by_side() {
        check(
            "",
            "",
            &["no run: all costs are assumed", "tree:32+request", "star+static", "1000000", "adaptive"],
        );
        check("--radix 8 --ranks 64,128", "", &["tree:8+ring", "128\n"]);
        check("--ranks 0", "", &["0 is not in"]);
        let runs = "time star 2 4 0.1\ntime star 4 8 0.12\nmemory static 2 4 1e6";
        check("", runs, &["fitted to 2 runs", "measured", "100 ms", "fitted to 1 runs", "(assumed)"]);
    }
}
