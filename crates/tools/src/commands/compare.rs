//! `tutti compare` and `tutti bench`: the same program on each library, interleaved in one run.
//!
//! Times on a shared machine drift, so libraries take turns cell by cell ([`crate::measure::crew`]): a cell
//! is one operation with one size, some milliseconds long, and each library measures it before the next is
//! begun.

use crate::commands::hosts;
use crate::measure::awake::Awake;
use crate::measure::cells::asks;
use crate::measure::crew::{Crew, Pace, Rounds};
use crate::measure::job_end;
use crate::measure::library::{Library, distinct, home, share_processors};
use crate::measure::options::{CompareOptions, FILES, IN_THREADS};
use crate::measure::programs::Programs;
use crate::measure::report;
use crate::measure::results::{KILLED, Results, START};
use crate::measure::session::Ask;
use std::time::{Duration, Instant};

/// Measures, prints the tables and writes the report.
///
/// # Errors
/// Fails if a library is missing, the program does not compile, or the report cannot be written.
pub fn run(options: &CompareOptions) -> Result<(), String> {
    if options.ops.iter().any(|op| op == FILES) {
        return Err(format!("{FILES} stands for files, which are measured alone: --ops {FILES}"));
    }
    if options.hosts.is_some() {
        return hosts::run(options);
    }
    let home = home()?;
    let libraries = options
        .libraries
        .iter()
        .map(|name| Library::find(name, &home, &options.peers))
        .collect::<Result<Vec<_>, _>>()?;
    let bench = Bench { options, programs: Programs::build(&options.out, &libraries)?, libraries };
    let awake = Awake::begin();
    let mut results = Results::new(awake.is_some());
    bench.measure(&mut results);
    report::write(options, &bench.libraries, &results)
}

struct Bench<'a> {
    options: &'a CompareOptions,
    libraries: Vec<Library>,
    programs: Programs,
}

impl Bench<'_> {
    fn measure(&self, results: &mut Results) {
        let start = Instant::now();
        let stages = self.options.ranks.len() as u32;
        for (stage, &ranks) in self.options.ranks.iter().enumerate() {
            let rounds = match self.options.budget {
                None => Rounds::Number(self.options.rounds),
                Some(budget) => {
                    Rounds::Time(budget.saturating_sub(start.elapsed()) / (stages - stage as u32))
                }
            };
            self.stage(ranks, rounds, results);
        }
        for round in 0..self.options.rounds {
            self.job_events(round, results);
        }
    }

    /// Measures all cells on `ranks` ranks.
    fn stage(&self, ranks: u32, rounds: Rounds, results: &mut Results) {
        let (in_threads, others): (Vec<_>, Vec<_>) =
            asks(self.options).into_iter().partition(|ask| ask.op == IN_THREADS);
        let all = in_threads.len() + others.len();
        for (program, asks) in [("tutti-bench", others), ("rate-bench", in_threads)] {
            if !asks.is_empty() {
                self.cells(program, &asks, ranks, rounds.part(asks.len(), all), results);
            }
        }
    }

    fn cells(&self, program: &str, asks: &[Ask], ranks: u32, rounds: Rounds, results: &mut Results) {
        let members = distinct(&self.libraries, share_processors(ranks))
            .map(|library| (library, self.programs.path_of(program, library)))
            .collect::<Vec<_>>();
        let names: Vec<_> = members.iter().map(|(library, _)| library.name.as_str()).collect();
        let pace = Pace {
            ms: f64::from(self.options.ms),
            limit_ms: self.options.limit_ms,
            timeout: Duration::from_secs(self.options.timeout),
        };
        eprintln!("{ranks} ranks: {} cells on {}", asks.len(), names.join(", "));
        let mut crew = Crew::new(members, ranks, &self.programs.directory, pace);
        rounds.run(|round| {
            let begin = Instant::now();
            asks.iter().for_each(|ask| crew.measure(ask, round, results));
            eprintln!("{ranks} ranks, round {}: {:.1} s", round + 1, begin.elapsed().as_secs_f64());
        });
    }

    fn job_events(&self, round: u32, results: &mut Results) {
        let ranks = self.options.start_ranks;
        let timeout = Duration::from_secs(self.options.timeout);
        if ranks == 0 {
            return;
        }
        let count = self.libraries.len();
        let in_turn = (0..count).map(|i| &self.libraries[(i + round as usize) % count]);
        for library in in_turn.filter(|library| library.name != "mpich-p2p") {
            eprintln!("round {}/{}: {}, start and end of jobs", round + 1, self.options.rounds, library.name);
            let note = self.programs.directory.join("victim.time");
            let started = job_end::start(library, &self.programs.path_of("start", library), ranks, timeout);
            let killed = job_end::killed(library, &self.programs.path_of("victim", library), &note, timeout);
            for (event, measured) in [(START, started), (KILLED, killed)] {
                match measured {
                    Ok(ms) => results.add_event(event, &library.name, ms),
                    Err(why) => results.fail(format!("{}: {why}", library.name)),
                }
            }
        }
    }
}
