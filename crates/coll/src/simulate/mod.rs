//! Simulation of a collective: runs the schedules of all ranks on a [`Model`] of the machine and predicts the
//! time.
//!
//! The model is LogGP's (latency, overhead, gap, bytes; by distance) with these additions for a node:
//!
//! - Flags move as cache lines, and their readers queue.
//! - Copies are slower when the data exceed the cache. Copies of one memory controller share its bandwidth,
//!   and readers of one rank's memory share that rank's bandwidth.
//! - Ranks that share a processor run one at a time. A rank keeps the processor while it has work and a
//!   little longer, and a switch takes time. In reality it is random which of them run side by side; in the
//!   simulation, partners of the first step do not.
//!
//! If the ranks of an operation need not wait for each other, a program is slowed by the work of the busiest
//! rank, not by the end of the last one. [`Prediction::steady_seconds`] is therefore the time of each of
//! several operations in a row.
//!
//! Times are whole picoseconds and the order of events is fixed, so all ranks compute the same prediction.
//! Loops of many iterations settle to a period. Beyond a bound on the work, two shortened runs are
//! extrapolated linearly ([`Prediction::exact`] is then false). For millions of ranks there are the closed
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
pub use series::{Beside, OperationTimes, Series};

use tutti_base::trace::Event;

use machine::{Machine, Run};
use prices::Prices;

use crate::generator::Generator;
use crate::ir::{Order, Schedule};
use crate::model::Model;
use crate::shape::Params;

/// Limit of the simulation of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Number of pieces of work (about) beyond which loops are cut short and the remaining iterations are
    /// extrapolated.
    pub tasks: u64,
    /// Time in seconds beyond which the simulation is given up ([`Prediction::gave_up`]).
    pub seconds: f64,
}

impl Bound {
    /// No limit: simulates to the end.
    pub const NONE: Bound = Bound::tasks(u64::MAX);

    /// Returns a limit of the pieces of work, without a limit of the time.
    pub const fn tasks(tasks: u64) -> Bound {
        Bound { tasks, seconds: f64::INFINITY }
    }
}

/// Machine and places of the ranks on which the simulation runs.
#[derive(Clone, Copy, Debug)]
pub struct Stage<'a> {
    /// Costs of the machine.
    pub model: &'a Model,
    /// Places of the ranks.
    pub layout: &'a Layout,
    /// Access to exposed memory: mapped or by system call.
    pub reach: Reach,
}

/// Predicted times and work of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Time from the common beginning to the end of the last rank.
    pub seconds: f64,
    /// Time of each of many such operations in a row. Ranks that need not wait run ahead, so the work of the
    /// busiest rank or core counts.
    pub steady_seconds: f64,
    /// Mean of the end times of all ranks.
    pub mean_seconds: f64,
    /// Work of all ranks together on data and messages.
    pub work_seconds: f64,
    /// Number of simulated pieces of work.
    pub tasks: u64,
    /// True if all iterations of all loops were simulated.
    pub exact: bool,
    /// True if [`Prediction::steady_seconds`] certainly exceed the limit. The other fields are then
    /// meaningless.
    pub gave_up: bool,
}

/// Number of operations in a row from which the time of each is derived.
const IN_A_ROW: u32 = 3;
/// Number of ranks above which only one operation is simulated, as the first use of a shape waits for the
/// result.
const MANY: usize = 16;
/// Number of iterations below which a loop is not cut.
const LEAST_CUT: u32 = 4;

/// Simulates `schedules`, one for each rank, that do `load`.
pub fn simulate(schedules: &[Schedule], load: &Load, stage: &Stage<'_>) -> Prediction {
    assert_eq!(schedules.len(), stage.layout.ranks() as usize, "a schedule for every rank of the layout");
    let run = whole(&Series::repeated(schedules, 1), load, stage);
    summary(&run, stage)
}

/// Simulates operations one after the other, all of which do `load` (but for their roots). Returns the times
/// at which each began and ended.
pub fn follow(series: &Series<'_>, load: &Load, stage: &Stage<'_>) -> Vec<OperationTimes> {
    assert_eq!(series.ranks(), stage.layout.ranks() as usize, "a schedule for every rank of the layout");
    let run = whole(series, load, stage);
    let mean = |sum: &u64| *sum as f64 / series.ranks() as f64 * 1e-12;
    run.turns
        .iter()
        .map(|[begin, end]| OperationTimes { begin_seconds: mean(begin), end_seconds: mean(end) })
        .collect()
}

/// Returns the time in seconds that one of the operations takes each rank at a steady pace. It is measured
/// from the beginning of the second operation to the end of the last; there must be at least two.
pub fn periods(series: &Series<'_>, load: &Load, stage: &Stage<'_>) -> Vec<f64> {
    assert_eq!(series.ranks(), stage.layout.ranks() as usize, "a schedule for every rank of the layout");
    assert!(series.order.len() > 1, "a period needs at least two operations");
    let run = whole(series, load, stage);
    let more = (series.order.len() - 1) as f64;
    run.ends.iter().zip(&run.second_begins).map(|(end, begin)| (end - begin) as f64 * 1e-12 / more).collect()
}

/// Simulates schedules that were not cut short.
fn whole(series: &Series<'_>, load: &Load, stage: &Stage<'_>) -> Run {
    let run = machine(series, load, stage).run();
    debug_assert!(run.forced == 0, "{} waits of schedules that were not cut have no end", run.forced);
    run
}

/// Simulates like [`simulate()`], and returns the actions of all ranks with their times too.
pub fn observe(schedules: &[Schedule], load: &Load, stage: &Stage<'_>) -> (Prediction, Vec<Event>) {
    let (run, events) = machine(&Series::repeated(schedules, 1), load, stage).run_observed();
    (summary(&run, stage), events)
}

/// Simulates one operation and, if `bound` allows it, several in a row.
fn simulate_in_a_row(schedules: &[Schedule], load: &Load, stage: &Stage<'_>, bound: Bound) -> Prediction {
    // Messages of several operations at once fill queues, which are not simulated.
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

/// Generates and simulates the schedules of an algorithm within `bound`.
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

/// Simulates one operation within the time of `bound`.
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

/// Returns the number of iterations after which to cut loops, such that a run of twice as many stays within
/// `bound`.
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
