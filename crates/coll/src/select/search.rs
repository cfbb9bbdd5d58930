//! The search of a selection: which candidates are simulated, in which order, and until when.
//!
//! Closed forms ([`crate::cost`]) say what is likely to be good; the simulator says how long it takes; what
//! was measured corrects both. Nothing is chosen here.

use super::Candidate;
use super::usable::{asks, fits};
use crate::cost::{self, Environment};
use crate::generator::{Generator, Need, Radix};
use crate::shape::{Params, Shape};
use crate::simulate::{Bound, Load, predict};

/// How much may be simulated.
pub(super) struct Effort {
    /// With more ranks than this, nothing: the closed forms stand.
    pub ranks: u32,
    /// The same on several hosts, where one operation is a poor sign of what many in a row take.
    pub ranks_across: u32,
    /// Of each candidate about so many pieces of work: loops are cut beyond.
    tasks: u64,
    /// The same for each rank, if that is more.
    tasks_of_rank: u64,
    /// Of all candidates together so many on one host,
    tasks_of_all: u64,
    /// but at least so many candidates, and on several hosts, where each takes milliseconds, all that are
    /// made for these and so many
    least: u32,
    /// whose closed form is less than so many times the best;
    unlikely: f64,
    /// no candidate further than to so many times the time of the best.
    hopeless: f64,
}

/// At the first use of a shape, while all ranks wait, and perhaps for the processors too: some ten
/// milliseconds with ranks by the hundred.
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

/// When a person asks: seconds at 4096 ranks.
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

/// So many parameters of one algorithm are looked at closer than by its closed form.
const PARAMS_OF_ONE: usize = 4;
/// Between hosts, where each takes milliseconds to look at, so many,
const PARAMS_ACROSS: usize = 2;
/// and so many where hosts have several leaders, of which closed forms know little.
const PARAMS_OF_LEADERS: usize = 8;
/// An operation of so many seconds is worth simulating as many times more work,
const LONG: f64 = 1e-3;
/// at most so many times.
const MOST_TIMES: f64 = 8.0;
/// By how much longer it takes than simulated if receivers are asked first (a bcast of 4 MiB in segments of
/// 256 KiB on 4 hosts of 4 ranks 1.0 to 1.2 times, in segments of 64 KiB 0.93): who is asked may be waiting
/// for a processor, and the link has nothing to do.
const ASKED: f64 = 1.08;

/// The few parameters of one algorithm that are looked at closer than by its closed form: the best, the best
/// for each length of segments that was measured, and between hosts the best whose messages ask nobody, of
/// which closed forms know nothing.
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

/// The time of an algorithm without simulation: all that there is for ranks by the ten thousand.
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
    // Closed forms know nothing of levels that overlap.
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

/// In which order to simulate: what is for several hosts first, then the best of each algorithm before the
/// second best, as closed forms compare parameters better than algorithms.
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

/// By what measured times differ from those of the model.
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
    /// What the simulator says of a candidate, whose times are to be multiplied by `factor`; `None` if it is
    /// hopeless.
    fn simulate(&mut self, candidate: Candidate, factor: f64) -> Option<Candidate> {
        let Candidate { generator, params, .. } = candidate;
        let environment = self.environment;
        // While the network is busy processors have other things to do, and hosts may share them: of
        // algorithms that are bound by the network, those win that work less.
        let processors: u32 = environment.layout.pools().iter().map(|pool| pool.processors).sum();
        let several = environment.layout.hosts() > 1;
        let weight = if several { 0.25 / f64::from(processors.max(1)) } else { 0.0 };
        // Of several loads none may be given up: what is slower at one may be faster at another.
        let seconds = if self.loads.len() == 1 { self.limit / factor } else { f64::INFINITY };
        let bound = Bound { tasks: self.tasks, seconds };
        let (mut time, mut work) = (1.0, 0.0);
        for load in self.loads {
            let found = predict(generator, load, &params, &environment.stage(), bound);
            self.spent += found.tasks;
            if found.gave_up {
                return None;
            }
            // Of two that keep the ranks equally busy, the one that is over first wins.
            let asked = if several && asks(&params, load.shape(), environment) { ASKED } else { 1.0 };
            time *= (found.steady_seconds + found.seconds / 16.0) * asked + found.work_seconds * weight;
            work += found.work_seconds;
        }
        // As much faster at one size is worth as much slower at another: the geometric mean.
        Some(Candidate { time: time.powf(1.0 / self.loads.len() as f64), work, simulated: true, ..candidate })
    }
}
