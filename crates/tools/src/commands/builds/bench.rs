//! Measures the stages: in each round every stage has fresh jobs, of all libraries at once, which take turns
//! cell by cell.
//!
//! A job finds one of several steady states, by how the kernel spreads its ranks over the cores, and keeps
//! it. So the times of one job are alike, and only times of different jobs are independent samples.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::stages::{KILLED, Kind, Stage};
use crate::commands::files::servers::Scratch;
use crate::commands::hosts::Raised;
use crate::measure::crew::{Crew, Pace};
use crate::measure::job_end;
use crate::measure::library::Library;
use crate::measure::options::CompareOptions;
use crate::measure::programs::Programs;
use crate::measure::progress::{Estimate, Progress};
use crate::measure::results::Results;
use crate::measure::sample::{Cell, Sample};
use crate::measure::session::Ask;

/// Folder of the files of a stage: memory.
const MEMORY: &str = "/dev/shm";

/// Libraries, programs and hosts with which stages are measured.
pub struct Bench<'a> {
    /// Options of the command line.
    pub options: &'a CompareOptions,
    /// The two builds, and after them other libraries.
    pub libraries: Vec<Library>,
    /// Benchmark programs, compiled for all libraries.
    pub programs: Programs,
    /// Hosts, if there can be some.
    pub testbed: Option<Raised>,
}

impl Bench<'_> {
    /// Measures `rounds` rounds of all stages by the first `members` libraries. Returns results by stage.
    ///
    /// # Errors
    /// Fails if there is no folder for files.
    pub fn measure(&self, stages: &[Stage], members: usize, rounds: u32) -> Result<Vec<Results>, String> {
        let scratch = Scratch::new(Path::new(MEMORY))?;
        let casts: Vec<Vec<Library>> =
            stages.iter().map(|stage| self.cast(stage, members, &scratch.0)).collect();
        let mut crews: Vec<Crew> =
            stages.iter().zip(&casts).map(|(stage, cast)| self.crew(stage, cast)).collect();
        let mut results: Vec<Results> = stages.iter().map(|_| Results::default()).collect();
        let planned =
            |(stage, cast): (&Stage, &Vec<Library>)| stage.planned_seconds(self.options.ms, cast.len());
        let planned: Vec<f64> = stages.iter().zip(&casts).flat_map(planned).collect();
        let mut progress = Progress::new(Estimate::new(planned, rounds));
        let mut told = vec![0; stages.len()];
        for round in 0..rounds {
            let mut step = 0;
            for (number, stage) in stages.iter().enumerate() {
                for ask in &stage.asks {
                    let name = format!("round {} of {rounds}, {}, {}", round + 1, stage.title(), ask.op);
                    progress.step(step, &name, || match stage.kind {
                        Kind::Jobs => self.jobs(&casts[number], stage, ask, round, &mut results[number]),
                        _ => crews[number].measure(ask, round, &mut results[number]),
                    });
                    step += 1;
                }
                crews[number].end_jobs();
                progress.stage_done(&format!("round {} of {rounds}, {}", round + 1, stage.title()));
                let known = &mut told[number];
                results[number].failures[*known..].iter().for_each(|failure| progress.note(failure));
                *known = results[number].failures.len();
            }
        }
        Ok(results)
    }

    /// Returns the libraries of a stage, where its jobs run.
    fn cast(&self, stage: &Stage, members: usize, scratch: &Path) -> Vec<Library> {
        // Only builds have files: others are compared by `tutti bench io`.
        let members = if stage.kind == Kind::Files { members.min(2) } else { members };
        let place = self.testbed.as_ref().filter(|_| stage.hosts > 1);
        let place = place.map(|testbed| testbed.place(stage.hosts, stage.ranks / stage.hosts));
        let of_stage = |library: &Library| {
            let file = scratch.join(&library.name).to_string_lossy().into_owned();
            let library = library.variant(&library.name, &[("BENCH_FILE".to_string(), file)]);
            place.as_ref().map_or(library.clone(), |place| library.on_hosts(place))
        };
        self.libraries.iter().take(members).map(of_stage).collect()
    }

    fn crew<'b>(&'b self, stage: &Stage, cast: &'b [Library]) -> Crew<'b> {
        let (program, limit_ms) = match stage.kind {
            Kind::Operations(program) => (program, self.options.limit_ms),
            Kind::Files => ("files-bench", u32::MAX),
            Kind::Jobs => ("start", u32::MAX),
        };
        let pace = Pace { ms: f64::from(self.options.ms), limit_ms, timeout: self.timeout() };
        let members: Vec<(&Library, PathBuf)> =
            cast.iter().map(|library| (library, self.programs.path_of(program, library))).collect();
        Crew::new(members, stage.ranks, &self.programs.directory, pace)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.options.timeout)
    }

    /// Measures the start of a job, or the end of one, by each library in turn.
    fn jobs(&self, cast: &[Library], stage: &Stage, ask: &Ask, round: u32, results: &mut Results) {
        for turn in 0..cast.len() {
            let library = &cast[(turn + round as usize) % cast.len()];
            let note = self.programs.directory.join("victim.time");
            let ms = match ask.op.as_str() {
                KILLED => {
                    job_end::killed(library, &self.programs.path_of("victim", library), &note, self.timeout())
                }
                _ => job_end::start(
                    library,
                    &self.programs.path_of("start", library),
                    stage.ranks,
                    self.timeout(),
                ),
            };
            let cell = Cell { op: ask.op.clone(), mode: ask.mode.clone(), ranks: stage.ranks, bytes: 0 };
            match ms {
                Ok(ms) => {
                    results.add(&library.name, Sample { cell, us: ms * 1e3, least: ms * 1e3, wrong: 0 })
                }
                Err(why) => results.fail(format!("{}, {}: {why}", library.name, stage.title())),
            }
        }
    }
}
