//! `tutti compare` and `tutti bench`: the same program on each library, interleaved in one run.
//!
//! Times on a shared machine drift, so libraries take turns: in each round every library runs the same
//! few operations before the next ones are begun, and the order of the libraries rotates.

use crate::job_end;
use crate::library::Library;
use crate::options::Options;
use crate::report;
use crate::results::{KILLED, Results, START};
use crate::run::{self, End};
use crate::sample;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROGRAMS: [(&str, &str); 3] = [
    ("tutti-bench", include_str!("../bench/tutti-bench.c")),
    ("start", include_str!("../bench/start.c")),
    ("victim", include_str!("../bench/victim.c")),
];

/// A run of the program that all libraries make in turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    ranks: u32,
    mode: String,
    ops: Vec<String>,
}

/// Measures, prints the tables and writes the report.
///
/// # Errors
/// A library is missing, the program does not compile, or the report cannot be written.
pub fn run(options: &Options) -> Result<(), String> {
    let home = home()?;
    let libraries = options
        .libraries
        .iter()
        .map(|name| Library::find(name, &home, &options.peers))
        .collect::<Result<Vec<_>, _>>()?;
    let directory = options.out.join("programs");
    std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
    let bench = Bench { options, programs: Programs::build(&directory, &libraries)?, libraries };
    let mut results = Results::default();
    bench.measure(&mut results);
    report::write(options, &bench.libraries, &results)
}

/// Where Tutti is installed: the directory above the one this program is in.
fn home() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    Ok(own.ancestors().nth(2).unwrap_or(Path::new("/")).to_path_buf())
}

/// The compiled programs: once for all libraries of the standard ABI, once for each other.
struct Programs {
    directory: PathBuf,
}

impl Programs {
    fn build(directory: &Path, libraries: &[Library]) -> Result<Programs, String> {
        let programs = Programs { directory: directory.to_path_buf() };
        let standard = libraries.iter().find(|library| library.standard_abi && library.can_compile());
        for (name, text) in PROGRAMS {
            let source = directory.join(name).with_extension("c");
            std::fs::write(&source, text).map_err(|error| format!("{}: {error}", source.display()))?;
            for compiler in standard.into_iter().chain(libraries.iter().filter(|own| !own.standard_abi)) {
                let program = programs.of(name, compiler);
                let outcome = run::run(&mut compiler.compile(&source, &program), Duration::from_secs(300))?;
                if outcome.end != End::Exit(0) {
                    let why = outcome.errors.join("\n");
                    return Err(format!("{} does not compile {name}.c:\n{why}", compiler.name));
                }
            }
        }
        Ok(programs)
    }

    fn of(&self, name: &str, library: &Library) -> PathBuf {
        let kind = if library.standard_abi { "standard" } else { &library.name };
        self.directory.join(format!("{name}-{kind}"))
    }
}

struct Bench<'a> {
    options: &'a Options,
    libraries: Vec<Library>,
    programs: Programs,
}

impl Bench<'_> {
    fn measure(&self, results: &mut Results) {
        let turns = turns(self.options);
        // What hung once is not waited for again.
        let mut hung = BTreeSet::new();
        for round in 0..self.options.rounds {
            for turn in &turns {
                for library in self.in_turn(round) {
                    let key = (turn.clone(), library.name.clone());
                    if !hung.contains(&key) && !self.take(round, turn, library, results) {
                        hung.insert(key);
                    }
                }
            }
            self.job_events(round, results);
        }
    }

    fn in_turn(&self, round: u32) -> impl Iterator<Item = &Library> {
        let count = self.libraries.len();
        (0..count).map(move |i| &self.libraries[(i + round as usize) % count])
    }

    /// Whether the run ended by itself.
    fn take(&self, round: u32, turn: &Turn, library: &Library, results: &mut Results) -> bool {
        let Turn { ranks, mode, ops } = turn;
        let what = format!("{} on {ranks} ranks, {mode} ({})", library.name, ops.join(" "));
        eprint!("round {}/{}: {what} ..", round + 1, self.options.rounds);
        let mut command = library.command(*ranks, &self.programs.of("tutti-bench", library));
        let sizes: Vec<_> = self.options.sizes.iter().map(u64::to_string).collect();
        command.args(["--op", &ops.join(","), "--sizes", &sizes.join(",")]);
        command.args(["--ms", &self.options.ms.to_string()]);
        command.args(["--limit-ms", &self.options.limit_ms.to_string()]);
        if mode == "changing" {
            command.arg("--changing");
        }
        match run::run(&mut command, Duration::from_secs(self.options.timeout)) {
            Err(why) => {
                eprintln!(" {why}");
                results.fail(format!("{what}: {why}"));
                false
            }
            Ok(outcome) => {
                eprintln!(" {:.1} s", outcome.elapsed.as_secs_f64());
                outcome
                    .lines
                    .iter()
                    .filter_map(|line| sample::parse(line))
                    .for_each(|sample| results.add(&library.name, sample));
                if outcome.end != End::Exit(0) {
                    let why = job_end::last(&outcome.errors);
                    results.fail(format!("{what}: {} {why}", describe(&outcome.end, self.options.timeout)));
                }
                outcome.end == End::Exit(0)
            }
        }
    }

    fn job_events(&self, round: u32, results: &mut Results) {
        let ranks = self.options.start_ranks;
        let timeout = Duration::from_secs(self.options.timeout);
        if ranks == 0 {
            return;
        }
        for library in self.in_turn(round) {
            eprintln!("round {}/{}: {}, start and end of jobs", round + 1, self.options.rounds, library.name);
            let note = self.programs.directory.join("victim.time");
            let started = job_end::start(library, &self.programs.of("start", library), ranks, timeout);
            let killed = job_end::killed(library, &self.programs.of("victim", library), &note, timeout);
            for (event, measured) in [(START, started), (KILLED, killed)] {
                match measured {
                    Ok(ms) => results.add_event(event, &library.name, ms),
                    Err(why) => results.fail(format!("{}: {why}", library.name)),
                }
            }
        }
    }
}

fn describe(end: &End, timeout: u64) -> String {
    match end {
        End::Exit(status) => format!("exit status {status}"),
        End::Signal(signal) => format!("killed by signal {signal}"),
        End::TimedOut => format!("killed after {timeout} s"),
    }
}

fn turns(options: &Options) -> Vec<Turn> {
    let mut turns = Vec::new();
    for &ranks in &options.ranks {
        for mode in &options.modes {
            // A barrier has no data that could change.
            let ops: Vec<_> = options
                .ops
                .iter()
                .filter(|op| mode == "plain" || !op.ends_with("barrier"))
                .cloned()
                .collect();
            turns.extend(ops.chunks(options.ops_per_run.max(1)).map(|ops| Turn {
                ranks,
                mode: mode.clone(),
                ops: ops.to_vec(),
            }));
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn turns_cover_every_operation_once() {
        let line = "x --ops latency,barrier,bcast --ranks 2,4 --ops-per-run 2";
        let options = Line::parse_from(line.split(' ')).options;
        let shown: Vec<_> = turns(&options)
            .iter()
            .map(|turn| format!("{} {} {}", turn.ranks, turn.mode, turn.ops.join(",")))
            .collect();
        let expected = [
            "2 plain latency,barrier",
            "2 plain bcast",
            "2 changing latency,bcast",
            "4 plain latency,barrier",
            "4 plain bcast",
            "4 changing latency,bcast",
        ];
        assert_eq!(shown, expected);
    }
}
