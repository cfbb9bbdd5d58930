//! How long a collective takes: runs the schedules of all ranks on a [`Model`] of the machine.
//!
//! The model is LogGP's (latency, overhead, gap, bytes; by distance) with what decides within a node added:
//! flags move as cache lines and their readers queue; copies slow down when the data leave the cache, and
//! those of one memory controller share its bandwidth; readers of one rank's memory share what it can give;
//! ranks that share a processor run one at a time, keep it while they have work and a little longer, and hand
//! it over at the price of a switch. Which of them run side by side is chance in truth; here partners of the
//! first step do not.
//!
//! What programs feel of an operation in which ranks need not wait for each other is the work of the busiest
//! of them, not the end of the last: [`Prediction::steady_seconds`] is what each of several operations in a
//! row takes.
//!
//! Everything happens in whole picoseconds and in a fixed order: the same question has the same answer on
//! every rank. Loops of many iterations settle to a period; beyond a bound on the work, two cut runs are
//! extended by a straight line ([`Prediction::exact`] says so). For ranks by the million there are the closed
//! forms of [`crate::cost`].

mod layout;
mod load;
mod machine;
mod prices;
mod resources;
mod series;
#[cfg(test)]
mod tests;

pub use layout::{Binding, Layout, Pool, PoolPlace};
pub use load::Load;
pub use prices::Reach;
pub use series::{Beside, Series, Turn};

use tutti_base::trace::Event;

use machine::{Machine, Run};
use prices::Prices;

use crate::generator::Generator;
use crate::ir::{Order, Schedule};
use crate::model::Model;
use crate::shape::Params;

/// How much of an operation is worth simulating.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Beyond (about) so many pieces of work, loops are cut short and the rest is extrapolated.
    pub tasks: u64,
    /// What takes longer is given up ([`Prediction::gave_up`]).
    pub seconds: f64,
}

impl Bound {
    /// To the end, however long it takes.
    pub const NONE: Bound = Bound::tasks(u64::MAX);

    /// To the end, with so many pieces of work.
    pub const fn tasks(tasks: u64) -> Bound {
        Bound { tasks, seconds: f64::INFINITY }
    }
}

/// The machine and where the ranks are.
#[derive(Clone, Copy, Debug)]
pub struct Stage<'a> {
    /// What things cost.
    pub model: &'a Model,
    /// Where the ranks run.
    pub layout: &'a Layout,
    /// How exposed memory is reached.
    pub reach: Reach,
}

/// What the simulator says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// From the beginning, which all ranks share, to the end of the last rank.
    pub seconds: f64,
    /// What each of many such operations in a row takes: those that wait for nobody run ahead, so that it is
    /// the work of the busiest rank or core that counts.
    pub steady_seconds: f64,
    /// The mean of the ends of all ranks.
    pub mean_seconds: f64,
    /// What all ranks together work on data and messages.
    pub work_seconds: f64,
    /// Pieces of work that were simulated.
    pub tasks: u64,
    /// Whether all iterations of all loops were simulated.
    pub exact: bool,
    /// Whether [`Prediction::steady_seconds`] are certain to be more than were of interest; then no more is
    /// known.
    pub gave_up: bool,
}

/// So many operations in a row show what each of them takes.
const IN_A_ROW: u32 = 3;
/// Of more ranks one operation is all that is simulated: the first use of a shape waits for it.
const MANY: usize = 16;
/// Iterations below which a loop is not cut.
const LEAST_CUT: u32 = 4;

/// Runs `schedules`, one a rank, that do `load`.
pub fn simulate(schedules: &[Schedule], load: &Load, stage: &Stage<'_>) -> Prediction {
    assert_eq!(schedules.len(), stage.layout.ranks() as usize, "a schedule for every rank of the layout");
    let run = whole(&Series::repeated(schedules, 1), load, stage);
    summary(&run, stage)
}

/// Runs operations one after the other, all of which do `load` (but for their roots). Returns when each began
/// and ended.
pub fn follow(series: &Series<'_>, load: &Load, stage: &Stage<'_>) -> Vec<Turn> {
    assert_eq!(series.ranks(), stage.layout.ranks() as usize, "a schedule for every rank of the layout");
    let run = whole(series, load, stage);
    let mean = |sum: &u64| *sum as f64 / series.ranks() as f64 * 1e-12;
    run.turns.iter().map(|[begin, end]| Turn { begin_seconds: mean(begin), end_seconds: mean(end) }).collect()
}

/// What one of the operations takes each rank, in seconds, once all have found their pace: from its second to
/// the end of the last. There are two at least.
pub fn periods(series: &Series<'_>, load: &Load, stage: &Stage<'_>) -> Vec<f64> {
    assert_eq!(series.ranks(), stage.layout.ranks() as usize, "a schedule for every rank of the layout");
    assert!(series.order.len() > 1, "one operation has no pace");
    let run = whole(series, load, stage);
    let more = (series.order.len() - 1) as f64;
    run.ends.iter().zip(&run.second_begins).map(|(end, begin)| (end - begin) as f64 * 1e-12 / more).collect()
}

/// Schedules that were not cut short.
fn whole(series: &Series<'_>, load: &Load, stage: &Stage<'_>) -> Run {
    let run = machine(series, load, stage).run();
    debug_assert!(run.forced == 0, "{} waits of schedules that were not cut have no end", run.forced);
    run
}

/// As [`simulate()`], with what every rank did and when.
pub fn observe(schedules: &[Schedule], load: &Load, stage: &Stage<'_>) -> (Prediction, Vec<Event>) {
    let (run, events) = machine(&Series::repeated(schedules, 1), load, stage).run_observed();
    (summary(&run, stage), events)
}

/// The same with what each of several operations in a row takes, if `bound` allows for them.
fn simulate_in_a_row(schedules: &[Schedule], load: &Load, stage: &Stage<'_>, bound: Bound) -> Prediction {
    // Messages of several operations at once fill queues, of which nothing is known here.
    let alone = schedules.len() > MANY || schedules.iter().any(|schedule| schedule.order == Order::Edges);
    if alone {
        return once(schedules, load, stage, bound);
    }
    let one = simulate(schedules, load, stage);
    if u64::from(IN_A_ROW) * one.tasks > bound.tasks {
        return one;
    }
    let all = summary(&machine(&Series::repeated(schedules, IN_A_ROW), load, stage).run(), stage);
    let more = (all.seconds - one.seconds).max(0.0) / f64::from(IN_A_ROW - 1);
    Prediction { steady_seconds: stage.model.call + more, tasks: one.tasks + all.tasks, ..one }
}

/// Generates and runs the schedules of an algorithm, as far as `bound` says.
pub fn predict(
    generator: &Generator,
    load: &Load,
    params: &Params,
    stage: &Stage<'_>,
    bound: Bound,
) -> Prediction {
    let ranks = load.shape().ranks;
    let hierarchy = Some(stage.layout.hierarchy());
    let write = |rank| generator.generate_on(&load.shape_of(rank), params, hierarchy);
    let mut schedules: Vec<Schedule> = (0..ranks).map(write).collect();
    let longest = longest(&schedules);
    let cut = cut_for(&schedules, longest, bound.tasks);
    if 2 * cut >= longest {
        return simulate_in_a_row(&schedules, load, stage, bound);
    }
    let counts: Vec<Vec<u32>> =
        schedules.iter().map(|schedule| schedule.loops.iter().map(|one| one.count).collect()).collect();
    let mut cut_to = |cut: u32| {
        for (schedule, counts) in schedules.iter_mut().zip(&counts) {
            for (one, count) in schedule.loops.iter_mut().zip(counts) {
                one.count = (*count).min(cut);
            }
        }
        once(&schedules, load, stage, bound)
    };
    let one = cut_to(cut);
    if one.gave_up {
        return one;
    }
    let two = cut_to(2 * cut);
    if two.gave_up {
        return two;
    }
    let more = f64::from(longest - 2 * cut) / f64::from(cut);
    let extend = |one: f64, two: f64| two + (two - one).max(0.0) * more;
    Prediction {
        seconds: extend(one.seconds, two.seconds),
        steady_seconds: extend(one.steady_seconds, two.steady_seconds),
        mean_seconds: extend(one.mean_seconds, two.mean_seconds),
        work_seconds: extend(one.work_seconds, two.work_seconds),
        tasks: one.tasks + two.tasks,
        exact: false,
        gave_up: false,
    }
}

/// One operation, if it does not take too long.
fn once(schedules: &[Schedule], load: &Load, stage: &Stage<'_>, bound: Bound) -> Prediction {
    let series = Series::repeated(schedules, 1);
    summary(&machine(&series, load, stage).until(resources::time(bound.seconds)).run(), stage)
}

fn machine<'a>(series: &'a Series<'a>, load: &'a Load, stage: &Stage<'a>) -> Machine<'a> {
    let footprint = load.footprint() * f64::from(stage.layout.cache_ranks());
    let prices = Prices::new(stage.model, stage.layout, stage.reach, footprint);
    Machine::new(series, load, stage.layout, prices)
}

fn summary(run: &Run, stage: &Stage<'_>) -> Prediction {
    let last = run.ends.iter().copied().max().unwrap_or(0).max(run.longest_share);
    let sum: f64 = run.ends.iter().map(|end| *end as f64).sum();
    let seconds = stage.model.call + last as f64 * 1e-12;
    Prediction {
        seconds,
        steady_seconds: seconds,
        mean_seconds: stage.model.call + sum / run.ends.len().max(1) as f64 * 1e-12,
        work_seconds: run.work as f64 * 1e-12,
        tasks: run.tasks,
        exact: !run.gave_up,
        gave_up: run.gave_up,
    }
}

fn longest(schedules: &[Schedule]) -> u32 {
    schedules.iter().flat_map(|schedule| &schedule.loops).map(|one| one.count).max().unwrap_or(0)
}

/// After how many iterations to cut, twice which keeps the work below `bound`.
fn cut_for(schedules: &[Schedule], longest: u32, bound: u64) -> u32 {
    let work = |cut: u32| -> u64 {
        let of = |schedule: &Schedule| -> u64 {
            let looped: u64 =
                schedule.loops.iter().map(|one| u64::from(one.steps) * u64::from(one.count.min(cut))).sum();
            schedule.steps.len() as u64 + looped
        };
        schedules.iter().map(of).sum()
    };
    let mut cut = longest;
    while cut > LEAST_CUT && work(cut.saturating_mul(2)) > bound {
        cut /= 2;
    }
    cut.max(LEAST_CUT)
}
