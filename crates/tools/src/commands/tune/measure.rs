//! Times all algorithms of all rows, in jobs that each force one algorithm of each collective.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::options::TuneOptions;
use super::row::{BAD, Row, Tried};
use crate::measure::crew::{Crew, Pace};
use crate::measure::library::Library;
use crate::measure::programs::Programs;
use crate::measure::results::{Measure, Results};
use crate::measure::sample::Cell;
use crate::measure::session::Ask;

/// Returns for each job the algorithm of each collective that it forces.
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
pub fn measure(
    options: &TuneOptions,
    tutti: &Library,
    programs: &Programs,
    budget: Duration,
    rows: &mut [Row],
) {
    let Some(ranks) = rows.first().map(|row| row.ranks) else { return };
    let jobs = jobs(rows);
    let variants: Vec<Library> =
        jobs.iter().enumerate().map(|(index, job)| forced(tutti, index, job)).collect();
    let members = variants.iter().map(|one| (one, programs.path_of("tutti-bench", one))).collect();
    let pace = Pace { ms: f64::from(options.ms), limit_ms: 1000, timeout: Duration::from_secs(30) };
    let crew = Crew::new(members, ranks, &programs.directory, pace);
    let mut stopwatch = Stopwatch { crew, jobs: &jobs, modes: &options.modes, ranks, failures: Vec::new() };
    let (start, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || start.elapsed() < budget {
        for row in rows.iter_mut().take_while(|_| rounds == 0 || start.elapsed() < budget) {
            let best = row.best().and_then(|best| best.measured).unwrap_or(f64::INFINITY);
            // An algorithm that was far behind will not be the best.
            stopwatch.round(row, rounds, |one| one.measured.is_none_or(|time| time <= LOST * best));
            row.settle();
        }
        rounds += 1;
    }
    if options.regret {
        confirm(&mut stopwatch, rows);
    }
    let mut failures = stopwatch.failures;
    failures.sort_unstable();
    failures.dedup();
    eprintln!("{ranks} ranks: {} cells, {} jobs, {rounds} rounds", rows.len(), jobs.len());
    failures.iter().for_each(|failure| eprintln!("{failure}"));
}

/// Measures again, in new jobs, the chosen and the best algorithm of rows that seem to lose much. Among equal
/// algorithms, the fastest has had the luckiest measurement. Where ranks share processors, a job keeps a good
/// or bad placement of its ranks until its end. So only a second measurement, of this pair alone, shows the
/// loss by the choice.
fn confirm(stopwatch: &mut Stopwatch, rows: &mut [Row]) {
    let seems_bad = |row: &&mut Row| row.loss().is_some_and(|loss| loss > BAD);
    let mut doubtful: Vec<&mut Row> = rows.iter_mut().filter(seems_bad).collect();
    doubtful.iter_mut().for_each(|row| row.narrow());
    for round in 0..CONFIRMATIONS {
        stopwatch.crew.end_jobs();
        doubtful.iter_mut().for_each(|row| stopwatch.round(row, round, |_| true));
    }
    doubtful.iter_mut().for_each(|row| row.settle());
}

/// New jobs in which a pair of algorithms is compared.
const CONFIRMATIONS: usize = 5;

/// Returns Tutti with settings that force these algorithms.
fn forced(tutti: &Library, index: usize, job: &BTreeMap<&str, String>) -> Library {
    let all: Vec<String> = job.iter().map(|(op, algorithm)| format!("{op}={algorithm}")).collect();
    // Mapping is disabled: it helps after some uses only, which are not measured here.
    let settings = [("TUTTI_ALGORITHM", all.join(",")), ("TUTTI_DEBUG", "map_after=1".to_string())];
    tutti.variant(&format!("{JOB}{index}"), &settings.map(|(name, value)| (name.to_string(), value)))
}

/// The jobs, and which algorithms each of them forces.
struct Stopwatch<'a> {
    crew: Crew<'a>,
    jobs: &'a [BTreeMap<&'static str, String>],
    modes: &'a [String],
    ranks: u32,
    failures: Vec<String>,
}

impl Stopwatch<'_> {
    /// Adds one round to the times of a row, of those algorithms that `is_tried` allows. The order rotates
    /// with `round`.
    fn round(&mut self, row: &mut Row, round: usize, is_tried: impl Fn(&Tried) -> bool) {
        let asks: Vec<Ask> = row.asks(self.modes).collect();
        let (op, count) = (row.collective.name(), row.tried.len());
        let mut results = Results::default();
        for turn in 0..count {
            let one = &mut row.tried[(turn + round) % count];
            if !is_tried(one) {
                one.rounds.push(None);
                continue;
            }
            let job = self.jobs.iter().position(|job| job.get(op) == Some(&one.name()));
            let job = job.expect("every algorithm that is tried has a job");
            asks.iter().for_each(|ask| self.crew.measure_one(job, ask, &mut results));
            one.rounds.push(time(&results, &asks, self.ranks, &format!("{JOB}{job}")));
        }
        self.failures.append(&mut results.failures);
    }
}

/// Begin of a job's name; its number follows.
const JOB: &str = "job";
/// Ratio to the best time above which an algorithm is not measured again.
const LOST: f64 = 3.0;

/// Returns the time in seconds: the geometric mean over modes.
fn time(results: &Results, asks: &[Ask], ranks: u32, job: &str) -> Option<f64> {
    let mut product = 1.0;
    for Ask { op, mode, bytes } in asks {
        let cell = Cell { op: op.clone(), mode: mode.clone(), ranks, bytes: *bytes };
        product *= results.time(&cell, job, Measure::Least)? * 1e-6;
    }
    Some(product.powf(1.0 / asks.len() as f64))
}

#[cfg(test)]
mod tests {
    use tutti_coll::Collective;

    use super::*;
    use crate::commands::tune::row::tests::row;

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
