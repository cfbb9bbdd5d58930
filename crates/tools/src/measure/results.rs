//! Measured times, and values computed from them: medians, ratios, goals. Absent: input and output.

use crate::measure::sample::{Cell, Sample};
use std::collections::BTreeMap;

/// Times of cells and of job events, by library.
#[derive(Clone, Debug, Default)]
pub struct Results {
    cells: BTreeMap<Cell, BTreeMap<String, Series>>,
    events: BTreeMap<String, BTreeMap<String, Series>>,
    /// Turns in all, and those during which processors were taken away from this machine.
    turns: [u32; 2],
    /// The processors were kept from falling asleep ([`crate::measure::awake`]).
    pub kept_awake: bool,
    /// Cells in which a library delivered wrong data, and runs that failed, for people.
    pub failures: Vec<String>,
}

/// Times of one library for one cell, one for each round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The time that counts in each round.
    values: Vec<f64>,
    /// The least time ever seen.
    least: f64,
}

/// Statistic of a library's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The least time: the time without disturbances.
    Least,
    /// The median of the rounds; of ratios, that of the rounds' ratios.
    Median,
}

impl Series {
    fn add(&mut self, value: f64, least: f64) {
        self.least = if self.values.is_empty() { least } else { self.least.min(least) };
        self.values.push(value);
    }

    /// Returns the time by this statistic, or `None` without samples.
    pub fn time(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Least => (!self.values.is_empty()).then_some(self.least),
            Measure::Median => median(&self.values),
        }
    }

    /// Returns the time of the slowest round.
    pub fn most(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the ratio of the slowest round to the fastest.
    pub fn spread(&self) -> f64 {
        self.most() / self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Returns the number of rounds.
    pub fn rounds(&self) -> usize {
        self.values.len()
    }

    /// Returns the ratio of the own time to another library's, if both have one. For the median, it is the
    /// median of the ratios of all rounds. In a round, both took turns one right after the other, so that
    /// longer disturbances affect both. An example is a hypervisor that moves two processors to a shared
    /// cache, where they are five times as fast.
    fn ratio_to(&self, other: &Series, measure: Measure) -> Option<f64> {
        let in_pairs = measure == Measure::Median && self.values.len() == other.values.len();
        if !in_pairs {
            return Some(self.time(measure)? / other.time(measure)?);
        }
        let ratios: Vec<f64> =
            self.values.iter().zip(&other.values).map(|(own, other)| own / other).collect();
        median(&ratios)
    }
}

/// A time relative to the best of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// Time of the subject by the best other's: above 1 the subject is slower.
    pub value: f64,
    /// Name of the fastest other library.
    pub best: String,
}

/// Name of the measurement of one TCP connection without MPI. It is no library, so it is in no ratio.
pub const TCP: &str = "tcp";
/// Start of a job: init, barrier, finalize. Milliseconds.
pub const START: &str = "start";
/// Event: time from the death of a rank to the end of the launcher, in milliseconds.
pub const KILLED: &str = "killed";

impl Results {
    /// Creates an empty set of results. `kept_awake` notes that processors were kept awake meanwhile
    /// ([`crate::measure::awake`]).
    pub fn new(kept_awake: bool) -> Results {
        Results { kept_awake, ..Results::default() }
    }

    /// Adds one measured cell of `library`.
    pub fn add(&mut self, library: &str, sample: Sample) {
        let Cell { op, mode, ranks, bytes } = &sample.cell;
        if sample.wrong > 0 {
            let what = format!("{library}: {op} {mode}, {ranks} ranks, {bytes} bytes: wrong data");
            self.fail(what);
        }
        let series = self.cells.entry(sample.cell).or_default().entry(library.to_string()).or_default();
        series.add(sample.us, sample.least);
    }

    /// Counts a turn of a library.
    pub fn count_turn(&mut self, disturbed: bool) {
        self.turns[0] += 1;
        self.turns[1] += u32::from(disturbed);
    }

    /// Returns the number of turns, and the number of turns in which processors were taken away from this
    /// machine.
    pub fn turns(&self) -> [u32; 2] {
        self.turns
    }

    /// Adds a measured job event ([`START`], [`KILLED`]) of `library`.
    pub fn add_event(&mut self, event: &str, library: &str, ms: f64) {
        let series =
            self.events.entry(event.to_string()).or_default().entry(library.to_string()).or_default();
        series.add(ms, ms);
    }

    /// Records a failure once.
    pub fn fail(&mut self, what: String) {
        if !self.failures.contains(&what) {
            self.failures.push(what);
        }
    }

    /// Returns the time of a cell in microseconds.
    pub fn time(&self, cell: &Cell, library: &str, measure: Measure) -> Option<f64> {
        self.cells.get(cell)?.get(library)?.time(measure)
    }

    /// Times of a cell in microseconds, round by round; none if it was not measured.
    pub fn rounds(&self, cell: &Cell, library: &str) -> &[f64] {
        self.cells.get(cell).and_then(|times| times.get(library)).map_or(&[], |series| &series.values)
    }

    /// Returns the median time of a job event in milliseconds.
    pub fn event(&self, event: &str, library: &str) -> Option<f64> {
        self.events.get(event)?.get(library)?.time(Measure::Median)
    }

    /// Returns the ratio of the subject's time to that of the fastest other library.
    pub fn ratio(&self, cell: &Cell, subject: &str, measure: Measure) -> Option<Ratio> {
        ratio(self.cells.get(cell)?, subject, measure)
    }

    /// Returns the ratio of the subject's time to another library's.
    pub fn ratio_to(&self, other: &str, cell: &Cell, subject: &str, measure: Measure) -> Option<f64> {
        let times = self.cells.get(cell)?;
        times.get(subject)?.ratio_to(times.get(other)?, measure)
    }

    /// Returns the ratio of the subject's time of a job event to that of the fastest other library.
    pub fn event_ratio(&self, event: &str, subject: &str) -> Option<Ratio> {
        ratio(self.events.get(event)?, subject, Measure::Median)
    }

    /// Returns the ratio of the subject's time of a cell to that of one TCP connection.
    pub fn ratio_to_tcp(&self, cell: &Cell, subject: &str) -> Option<Ratio> {
        let own = self.time(cell, subject, Measure::Median)?;
        let value = own / self.time(cell, TCP, Measure::Median)?;
        Some(Ratio { value, best: TCP.to_string() })
    }

    /// Returns all cells with the times of each library.
    pub fn cells(&self) -> impl Iterator<Item = (&Cell, &BTreeMap<String, Series>)> {
        self.cells.iter()
    }

    /// Sizes at which `op` was measured with `ranks` in `mode`.
    pub fn sizes<'a>(&'a self, op: &'a str, mode: &'a str, ranks: u32) -> impl Iterator<Item = u64> + 'a {
        let wanted = move |cell: &&Cell| cell.op == op && cell.mode == mode && cell.ranks == ranks;
        self.cells.keys().filter(wanted).map(|cell| cell.bytes)
    }

    /// Returns the geometric mean of the ratios of all cells that `wanted` selects.
    pub fn mean_ratio(&self, subject: &str, measure: Measure, wanted: impl Fn(&Cell) -> bool) -> Option<f64> {
        let logs: Vec<f64> = self
            .cells
            .keys()
            .filter(|cell| wanted(cell))
            .filter_map(|cell| Some(self.ratio(cell, subject, measure)?.value.ln()))
            .collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    }
}

fn ratio(times: &BTreeMap<String, Series>, subject: &str, measure: Measure) -> Option<Ratio> {
    let own = times.get(subject)?;
    let (best, value) = times
        .iter()
        .filter(|(library, _)| *library != subject && *library != TCP)
        .filter_map(|(library, series)| Some((library, own.ratio_to(series, measure)?)))
        .max_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(Ratio { value, best: best.clone() })
}

/// Returns the middle value, or the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Goal with a limit, and the measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Description of the goal.
    pub what: String,
    /// The ratio that must not be exceeded.
    pub limit: f64,
    /// The ratio measured; None if it was not measured.
    pub ratio: Option<Ratio>,
}

impl Goal {
    /// Returns `met`, `missed by ..` or `not measured`.
    pub fn verdict(&self) -> String {
        match &self.ratio {
            None => "not measured".to_string(),
            Some(ratio) if ratio.value <= self.limit => "met".to_string(),
            Some(ratio) => format!("missed by {:.0} %", (ratio.value / self.limit - 1.0) * 100.0),
        }
    }
}

/// Returns the goals for point-to-point messages, small collectives and the launcher.
pub fn goals(results: &Results, subject: &str) -> Vec<Goal> {
    let cell = |op: &str, ranks, bytes| Cell { op: op.to_string(), mode: "plain".to_string(), ranks, bytes };
    let goal = |cell: Cell, limit: f64| Goal {
        what: format!("{} {} B, {} ranks", cell.op, cell.bytes, cell.ranks),
        limit,
        ratio: results.ratio(&cell, subject, Measure::Median),
    };
    let mut goals: Vec<Goal> = [8, 1024].map(|bytes| goal(cell("latency", 2, bytes), 1.0)).into();
    goals.extend([64 << 10, 1 << 20, 4 << 20].map(|bytes| goal(cell("bandwidth", 2, bytes), 1.0 / 0.95)));
    for ranks in [4, 8] {
        goals.push(goal(cell("barrier", ranks, 0), 1.0));
        goals.push(goal(cell("allreduce", ranks, 8), 1.0));
    }
    for (event, what, limit) in [(START, "start of a job", 0.25), (KILLED, "end after a killed rank", 1.0)] {
        goals.push(Goal { what: what.to_string(), limit, ratio: results.event_ratio(event, subject) });
    }
    goals
}

/// Returns the goals between hosts: messages, and the start of jobs. `starts` are the names of start events.
pub fn goals_of_hosts(results: &Results, subject: &str, starts: &[String]) -> Vec<Goal> {
    let cell = |op: &str, bytes| Cell { op: op.to_string(), mode: "plain".to_string(), ranks: 2, bytes };
    let latency = cell("latency", 8);
    let bandwidth = cell("bandwidth", 1 << 20);
    let goal = |what: &str, limit, ratio| Goal { what: what.to_string(), limit, ratio };
    let mut goals = vec![
        goal("latency 8 B", 1.0, results.ratio(&latency, subject, Measure::Median)),
        goal("bandwidth 1 MiB, one TCP stream", 1.0 / 0.97, results.ratio_to_tcp(&bandwidth, subject)),
    ];
    goals.extend(starts.iter().map(|event| goal(event, 1.0, results.event_ratio(event, subject))));
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(op: &str, bytes: u64) -> Cell {
        Cell { op: op.to_string(), mode: "plain".to_string(), ranks: 2, bytes }
    }

    fn results(rows: &[(&str, &str, f64)]) -> Results {
        let mut results = Results::default();
        for (library, op, us) in rows {
            results.add(library, Sample { cell: cell(op, 8), us: *us, least: *us, wrong: 0 });
        }
        results
    }

    #[test]
    fn the_median_ignores_an_outlier() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[3.0, 1000.0, 1.0]), Some(3.0));
    }

    #[test]
    fn the_least_time_is_that_of_any_batch_and_the_spread_that_of_the_rounds() {
        let mut series = Series::default();
        assert_eq!((series.time(Measure::Least), series.time(Measure::Median)), (None, None));
        [(4.0, 3.0), (2.0, 1.5), (8.0, 2.5)].iter().for_each(|(us, least)| series.add(*us, *least));
        assert_eq!((series.time(Measure::Least), series.time(Measure::Median)), (Some(1.5), Some(4.0)));
        assert_eq!((series.spread(), series.rounds()), (4.0, 3));
    }

    #[test]
    fn the_ratio_is_to_the_best_of_the_others() {
        let results = results(&[("tutti", "bcast", 3.0), ("a", "bcast", 2.0), ("b", "bcast", 1.5)]);
        let ratio = results.ratio(&cell("bcast", 8), "tutti", Measure::Median);
        assert_eq!(ratio, Some(Ratio { value: 2.0, best: "b".to_string() }));
        assert_eq!(results.ratio(&cell("bcast", 8), "c", Measure::Median), None);
        assert_eq!(results.ratio(&cell("scan", 8), "tutti", Measure::Median), None);
        assert_eq!(results.mean_ratio("tutti", Measure::Least, |_| true), Some(2.0));
    }

    #[test]
    fn the_ratio_of_the_medians_is_that_of_the_rounds() {
        let rows = [1.0, 5.0, 1.2].map(|us| ("tutti", "bcast", us));
        let mut results = results(&rows);
        for us in [2.0, 10.0, 11.0] {
            results.add("a", Sample { cell: cell("bcast", 8), us, least: us, wrong: 0 });
        }
        let value = |results: &Results, measure| {
            results.ratio(&cell("bcast", 8), "tutti", measure).map(|ratio| ratio.value)
        };
        assert_eq!(value(&results, Measure::Median), Some(0.5));
        assert_eq!(value(&results, Measure::Least), Some(0.5));
        // Without a partner in each round there are no ratios of rounds.
        results.add("a", Sample { cell: cell("bcast", 8), us: 2.8, least: 2.8, wrong: 0 });
        assert_eq!(value(&results, Measure::Median), Some(1.2 / 6.4));
    }

    #[test]
    fn one_library_alone_has_no_ratio() {
        let results = results(&[("tutti", "bcast", 3.0)]);
        assert_eq!(results.ratio(&cell("bcast", 8), "tutti", Measure::Median), None);
        assert_eq!(results.time(&cell("bcast", 8), "tutti", Measure::Median), Some(3.0));
    }

    #[test]
    fn wrong_data_is_a_failure() {
        let mut results = Results::default();
        for _ in 0..2 {
            results.add("a", Sample { cell: cell("scan", 8), us: 1.0, least: 1.0, wrong: 2 });
        }
        assert_eq!(results.failures, ["a: scan plain, 2 ranks, 8 bytes: wrong data"]);
    }

    #[test]
    fn goals_say_by_how_much_they_are_missed() {
        let mut results = results(&[("tutti", "latency", 1.2), ("a", "latency", 1.0)]);
        results.add_event(START, "tutti", 10.0);
        results.add_event(START, "a", 50.0);
        let verdicts: Vec<_> = goals(&results, "tutti").iter().map(Goal::verdict).collect();
        assert_eq!(verdicts[0], "missed by 20 %");
        assert_eq!(verdicts[1], "not measured");
        assert_eq!(verdicts[9], "met");
    }
}
