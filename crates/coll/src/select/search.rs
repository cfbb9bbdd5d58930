//! Search of a selection: the candidates to simulate, their order, and the limit of each simulation.
//!
//! Closed forms ([`crate::cost`]) give the order, the simulator the times, and measurements correct both.
//! Nothing is chosen here.

use super::Candidate;
use super::usable::{asks, fits};
use crate::cost::{self, Environment};
use crate::generator::{Generator, Need, Radix};
use crate::shape::{Params, Shape};
use crate::simulate::{Bound, Load, predict};

/// Limits of the work of simulation.
pub(super) struct Effort {
    /// Largest number of ranks for which anything is simulated. Beyond it, the closed forms decide.
    pub ranks: u32,
    /// Largest number of ranks on several hosts. It is smaller there, as one operation is a poor sign of the
    /// time of many in a row.
    pub ranks_across: u32,
    /// Number of pieces of work of each candidate, beyond which loops are cut short.
    tasks: u64,
    /// Number of pieces of work for each rank of a candidate; the larger of the two totals counts.
    tasks_of_rank: u64,
    /// Number of pieces of work of all candidates together on one host, after which no further one is
    /// simulated. On several hosts it counts as 0.
    tasks_of_all: u64,
    /// Number of candidates that are simulated whatever their work. Candidates made for several hosts are not
    /// counted, so all of them are simulated.
    least: u32,
    /// Ratio of a closed form to the best one. On several hosts, a candidate above it is not simulated,
    /// unless it is made for them.
    unlikely: f64,
    /// Ratio to the time of the best at which a simulation is given up.
    hopeless: f64,
}

/// Effort at the first use of a shape, while all ranks wait, and perhaps for processors too: about ten
/// milliseconds with hundreds of ranks.
pub(super) const FIRST_USE: Effort = Effort {
    ranks: 256,
    ranks_across: 64,
    tasks: 2048,
    tasks_of_rank: 16,
    tasks_of_all: 50_000,
    least: 3,
    unlikely: 6.0,
    hopeless: 1.5,
};

/// Effort for tuning in a running program: closed forms only, no simulation.
pub(super) const OUTLINE: Effort = Effort { ranks: 0, ranks_across: 0, ..FIRST_USE };

/// Effort when a user asks: seconds at 4096 ranks.
pub(super) const STUDY: Effort = Effort {
    ranks: 8192,
    ranks_across: 8192,
    tasks: 200_000,
    tasks_of_rank: 0,
    tasks_of_all: u64::MAX,
    least: u32::MAX,
    unlikely: f64::INFINITY,
    hopeless: f64::INFINITY,
};

/// Number of parameter sets of one algorithm that are examined beyond the closed form.
const PARAMS_OF_ONE: usize = 4;
/// Number of such sets between hosts, where each takes milliseconds to simulate.
const PARAMS_ACROSS: usize = 2;
/// Number of such sets if hosts have several leaders, which closed forms describe poorly.
const PARAMS_OF_LEADERS: usize = 8;
/// Time in seconds. An operation of n times this length gets n times the work of simulation.
const LONG: f64 = 1e-3;
/// Largest factor n of the work for a long operation.
const MOST_TIMES: f64 = 8.0;
/// Ratio of the real to the simulated time if receivers are asked first. A bcast of 4 MiB in segments of 256
/// KiB on 4 hosts of 4 ranks took 1.0 to 1.2 times the simulated time. With segments of 64 KiB, which do not
/// ask, it took 0.93 times. A rank that is asked may be waiting for a processor, and the link is idle
/// meanwhile.
const ASKED: f64 = 1.08;

/// Returns the few parameters of one algorithm that deserve more than the closed form. These are the best,
/// the best for each measured length of segments, and between hosts the best whose messages do not ask.
/// Closed forms ignore whether messages ask.
pub(super) fn closer(own: Vec<Candidate>, shape: &Shape, environment: &Environment) -> Vec<Candidate> {
    let place = (shape.ranks, environment.layout.hosts());
    let mut taken: Vec<Candidate> = Vec::new();
    for one in own {
        let segment = one.params.segment;
        let bytes = segment * shape.unit_bytes;
        let is_measured =
            || environment.model.has_measured(shape.collective, (one.generator.name, bytes), place);
        let is_new = taken.iter().all(|other| other.params.segment != segment);
        let several = one.generator.requires(Need::SeveralHosts);
        let most = match several {
            true if one.generator.parameters.radix() == Some(Radix::Leaders) => PARAMS_OF_LEADERS,
            true => PARAMS_ACROSS,
            false => PARAMS_OF_ONE,
        };
        let is_first_told = || {
            several
                && !asks(&one.params, shape, environment)
                && taken.iter().all(|other| asks(&other.params, shape, environment))
        };
        let wanted = taken.len() < most || is_new && is_measured() || is_first_told();
        if wanted && fits(one.generator, shape, &one.params, environment) {
            taken.push(one);
        }
    }
    taken
}

/// Returns the time of an algorithm without simulation, in seconds. For tens of thousands of ranks nothing
/// else is available.
pub fn closed_form(generator: &Generator, shape: &Shape, params: &Params, environment: &Environment) -> f64 {
    if generator.requires(Need::SeveralHosts) {
        return cost::of_levels(generator.work, shape, params, environment);
    }
    (generator.work)(shape, params).time(environment)
}

/// Simulates those candidates that may be the best, and leaves out the others.
pub(super) fn simulated(
    all: Vec<Candidate>,
    shape: &Shape,
    environment: &Environment,
    effort: &Effort,
) -> Vec<Candidate> {
    let best = all.iter().map(|candidate| candidate.time).fold(f64::INFINITY, f64::min);
    let times = (best / LONG).clamp(1.0, MOST_TIMES) as u64;
    let several = environment.layout.hosts() > 1;
    let tasks =
        effort.tasks.max(effort.tasks_of_rank * u64::from(shape.ranks)) * if several { times } else { 1 };
    // Closed forms ignore that levels overlap.
    let levels = |index: &usize| all[*index].generator.requires(Need::SeveralHosts);
    let least = ((0..all.len()).filter(levels).count() as u32).saturating_add(effort.least);
    let tasks_of_all = if several { 0 } else { effort.tasks_of_all.saturating_mul(times) };
    let loads = Load::all(shape);
    let mut search = Search { environment, loads: &loads, tasks, limit: f64::INFINITY, spent: 0 };
    let mut found: Vec<(usize, Candidate)> = Vec::new();
    let likely = |index: &usize| !several || levels(index) || all[*index].time <= effort.unlikely * best;
    for (count, index) in (0..).zip(by_promise(&all).into_iter().filter(likely)) {
        if count >= least && search.spent > tasks_of_all {
            break;
        }
        let factor = correction(&all[index], shape, environment);
        if let Some(candidate) = search.simulate(all[index], factor) {
            search.limit = search.limit.min(effort.hopeless * candidate.time * factor);
            found.push((index, candidate));
        }
    }
    found.sort_unstable_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns the order of simulation: candidates for several hosts first, then the best of each algorithm
/// before the second best. Closed forms compare parameters better than algorithms.
fn by_promise(all: &[Candidate]) -> Vec<usize> {
    let own = |index: usize| {
        let name = all[index].generator.name;
        all[..index].iter().filter(|other| other.generator.name == name).count()
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|&one, &two| own(one).cmp(&own(two)).then(all[one].time.total_cmp(&all[two].time)));
    order.sort_by_key(|&one| !all[one].generator.requires(Need::SeveralHosts));
    order
}

/// Returns the ratio of measured times to those of the model.
pub(super) fn correction(candidate: &Candidate, shape: &Shape, environment: &Environment) -> f64 {
    let how = (candidate.generator.name, candidate.params.segment * shape.unit_bytes);
    let place = (shape.ranks, environment.layout.hosts());
    environment.model.correction(shape.collective, how, place, shape.bytes())
}

/// The simulation of one candidate after the other.
struct Search<'a> {
    environment: &'a Environment,
    loads: &'a [Load],
    /// Pieces of work beyond which loops of one candidate are cut.
    tasks: u64,
    /// Candidates of a longer (corrected) time are given up.
    limit: f64,
    /// Pieces of work so far.
    spent: u64,
}

impl Search<'_> {
    /// Simulates a candidate whose time will be multiplied by `factor`. Returns `None` if it is hopeless.
    fn simulate(&mut self, candidate: Candidate, factor: f64) -> Option<Candidate> {
        let Candidate { generator, params, .. } = candidate;
        let environment = self.environment;
        // While the network is busy, processors have other work, and hosts may share them. Of algorithms that
        // are bound by the network, those with less work are better.
        let processors: u32 = environment.layout.pools().iter().map(|pool| pool.processors).sum();
        let several = environment.layout.hosts() > 1;
        let weight = if several { 0.25 / f64::from(processors.max(1)) } else { 0.0 };
        // With several loads no simulation may be given up: an algorithm slower at one may be faster at
        // another.
        let seconds = if self.loads.len() == 1 { self.limit / factor } else { f64::INFINITY };
        let bound = Bound { tasks: self.tasks, seconds };
        let (mut time, mut work) = (1.0, 0.0);
        for load in self.loads {
            let found = predict(generator, load, &params, &environment.stage(), bound);
            self.spent += found.tasks;
            if found.gave_up {
                return None;
            }
            // Among algorithms that keep the ranks equally busy, the one that ends first wins.
            let asked = if several && asks(&params, load.shape(), environment) { ASKED } else { 1.0 };
            time *= (found.steady_seconds + found.seconds / 16.0) * asked + found.work_seconds * weight;
            work += found.work_seconds;
        }
        // A factor gained at one size equals the same factor lost at another: the geometric mean.
        Some(Candidate { time: time.powf(1.0 / self.loads.len() as f64), work, simulated: true, ..candidate })
    }
}
