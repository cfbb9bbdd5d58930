//! Jobs that are compared with each other, and their turns: one cell after another, one library after
//! another.

use crate::measure::library::Library;
use crate::measure::results::Results;
use crate::measure::session::{Ask, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tutti_sys::cpu;

/// Greatest number of repetitions of a turn, if a hypervisor takes processors away from this machine.
const REPEATS: u32 = 2;

/// Time limits for a cell.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time for one cell in milliseconds.
    pub ms: f64,
    /// Limit in milliseconds: an operation that takes longer is not measured with larger sizes.
    pub limit_ms: u32,
    /// A cell that takes longer than this costs its job the life.
    pub timeout: Duration,
}

/// Failure of a library: its number, the operation, and the mode.
type Trouble = (usize, String, String);

/// Jobs of the same number of ranks, one a library.
pub struct Crew<'a> {
    members: Vec<(&'a Library, PathBuf)>,
    ranks: u32,
    directory: &'a Path,
    pace: Pace,
    sessions: Vec<Option<Session>>,
    hung: BTreeSet<Trouble>,
    /// Members whose job did not start; they are not tried again.
    failed: BTreeSet<usize>,
    /// The size from which on an operation is too slow.
    slow: BTreeMap<Trouble, u64>,
}

impl<'a> Crew<'a> {
    /// Creates a crew of `members`: libraries, and the benchmark program compiled for each. Jobs start when
    /// they are needed, with their pipes in `directory`.
    pub fn new(
        members: Vec<(&'a Library, PathBuf)>,
        ranks: u32,
        directory: &'a Path,
        pace: Pace,
    ) -> Crew<'a> {
        let sessions = members.iter().map(|_| None).collect();
        Crew {
            members,
            ranks,
            directory,
            pace,
            sessions,
            hung: BTreeSet::new(),
            failed: BTreeSet::new(),
            slow: BTreeMap::new(),
        }
    }

    /// Measures `ask` once with every member. The order of members rotates with `round`.
    pub fn measure(&mut self, ask: &Ask, round: u32, results: &mut Results) {
        let count = self.members.len();
        for i in 0..count {
            self.take((i + round as usize) % count, ask, results);
        }
    }

    /// Measures `ask` once with one member.
    pub fn measure_one(&mut self, member: usize, ask: &Ask, results: &mut Results) {
        self.take(member, ask, results);
    }

    /// Ends all jobs; the next cell starts fresh ones. Cells that hung or were too slow stay left out.
    pub fn end_jobs(&mut self) {
        self.sessions.iter_mut().for_each(|session| *session = None);
    }

    /// Returns the names of members whose job has printed a matching line on standard error: it begins with
    /// one text and contains another.
    pub fn complaints(&self, begin: &str, word: &str) -> Vec<&str> {
        let members = self.members.iter().zip(&self.sessions);
        members
            .filter(|(_, session)| session.as_ref().is_some_and(|session| session.complained(begin, word)))
            .map(|((library, _), _)| library.name.as_str())
            .collect()
    }

    fn take(&mut self, member: usize, ask: &Ask, results: &mut Results) {
        let trouble = (member, ask.op.clone(), ask.mode.clone());
        let too_slow = self.slow.get(&trouble).is_some_and(|bytes| ask.bytes > *bytes);
        if self.failed.contains(&member) || self.hung.contains(&trouble) || too_slow {
            return;
        }
        let Pace { ms, limit_ms, timeout } = self.pace;
        let (answer, stolen_ticks) = undisturbed(cpu::stolen_ticks, || {
            self.session(member).and_then(|session| session.measure(ask, ms, limit_ms, timeout))
        });
        results.count_turn(stolen_ticks > 0);
        let name = &self.members[member].0.name;
        match answer {
            Ok(Some(sample)) => {
                if sample.us > f64::from(limit_ms) * 1e3 {
                    self.slow.insert(trouble, ask.bytes);
                }
                results.add(name, sample);
            }
            Ok(None) => {}
            Err(why) => {
                let Ask { op, mode, bytes } = ask;
                results.fail(format!("{name} on {} ranks, {op} {mode} {bytes} bytes: {why}", self.ranks));
                // A cell that has hung once is not tried again.
                self.hung.insert(trouble);
                self.sessions[member] = None;
            }
        }
    }

    fn session(&mut self, member: usize) -> Result<&mut Session, String> {
        if self.sessions[member].is_none() {
            let (library, program) = &self.members[member];
            let prefix = self.directory.join(format!("{}-{}", library.name, self.ranks));
            let command = library.command(self.ranks, program);
            let session = Session::start(command, self.ranks, &prefix).inspect_err(|_| {
                self.failed.insert(member);
            })?;
            self.sessions[member] = Some(session);
        }
        Ok(self.sessions[member].as_mut().expect("it has just been started"))
    }
}

/// Repeats a measurement until no processor was taken away meanwhile, as `stolen` reports, or up to the
/// limit. Returns the least disturbed result, and the time taken away. Failures are not repeated.
fn undisturbed<T>(
    stolen: impl Fn() -> u64,
    mut measure: impl FnMut() -> Result<T, String>,
) -> (Result<T, String>, u64) {
    let mut turn = || {
        let before = stolen();
        let answer = measure();
        (answer, stolen().saturating_sub(before))
    };
    let mut best = turn();
    for _ in 0..REPEATS {
        if best.1 == 0 || best.0.is_err() {
            break;
        }
        let next = turn();
        if next.0.is_err() || next.1 < best.1 {
            best = next;
        }
    }
    best
}

/// Number of rounds. It is fixed, or as many as the time allows, but at least one.
#[derive(Clone, Copy, Debug)]
pub enum Rounds {
    /// A fixed number of rounds.
    Number(u32),
    /// All rounds that begin within this time.
    Time(Duration),
}

impl Rounds {
    /// Returns the rounds for `some` of `all` cells, which share the time.
    #[must_use]
    pub fn part(self, some: usize, all: usize) -> Rounds {
        match self {
            Rounds::Number(number) => Rounds::Number(number),
            Rounds::Time(time) => Rounds::Time(time.mul_f64(some as f64 / all.max(1) as f64)),
        }
    }

    /// Calls `round` with 0, 1, ... . A round is begun if one as long as the longest so far still fits.
    pub fn run(self, mut round: impl FnMut(u32)) -> u32 {
        let start = Instant::now();
        let mut longest = Duration::ZERO;
        let mut done = 0;
        loop {
            let begin = Instant::now();
            round(done);
            done += 1;
            longest = longest.max(begin.elapsed());
            let enough = match self {
                Rounds::Number(number) => done >= number,
                Rounds::Time(time) => start.elapsed() + longest > time,
            };
            if enough {
                return done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_turn_is_repeated_and_the_least_disturbed_one_counts() {
        let check =
            |stolen: &[u64], fails: Option<usize>, expected: Result<usize, &str>, expected_ticks: u64| {
                let (turns, ticks) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
                let measure = || {
                    let turn = turns.replace(turns.get() + 1);
                    ticks.set(ticks.get() + stolen[turn]);
                    if fails == Some(turn) { Err("gone".to_string()) } else { Ok(turn) }
                };
                let (answer, taken) = undisturbed(|| ticks.get(), measure);
                assert_eq!((answer, taken), (expected.map_err(str::to_string), expected_ticks), "{stolen:?}");
                assert_eq!(turns.get(), stolen.len());
            };
        check(&[0], None, Ok(0), 0);
        check(&[5, 0], None, Ok(1), 0);
        check(&[5, 3, 4], None, Ok(1), 3);
        check(&[5, 6], Some(1), Err("gone"), 6);
    }

    #[test]
    fn rounds_are_counted_or_fill_the_time() {
        let mut seen = Vec::new();
        assert_eq!(Rounds::Number(3).run(|round| seen.push(round)), 3);
        assert_eq!(seen, [0, 1, 2]);
        assert_eq!(Rounds::Number(0).run(|_| {}), 1);
        assert_eq!(Rounds::Time(Duration::ZERO).run(|_| {}), 1);
        let nap = |_| std::thread::sleep(Duration::from_millis(5));
        assert!(Rounds::Time(Duration::from_millis(200)).run(nap) > 1);
        assert_eq!(Rounds::Time(Duration::from_millis(200)).part(1, 100).run(nap), 1);
    }
}
