//! Which algorithm, with which parameters: the one of least time.
//!
//! Closed forms ([`crate::cost`]) say in which order to simulate the candidates, each only until it is certain to take longer than
//! the best so far; where the ranks are too many for that at the first use of a shape, closed forms decide. What was measured
//! corrects both ([`Model::correction`](crate::Model::correction)).
//! Nothing in Tutti is a table of sizes.
//!
//! All ranks choose the same: only what is equal on all of them is looked at. Sizes of one [`class`] share a choice, and of
//! two that are as good as each other the one registered first wins, so
//! sizes that differ little rarely differ in that.

use std::fmt;
use std::sync::Arc;

use crate::cost::{self, Environment};
use crate::hierarchy::Ignored;
use crate::ir::Schedule;
use crate::neighbours::Neighbours;
use crate::registry::{Association, Generator, Node, Requirements, registry};
use crate::shape::{Collective, Params, Shape};
use crate::simulate::{Bound, Load, predict};

/// How much may be simulated.
struct Effort {
    /// With more ranks than this, nothing: the closed forms stand.
    ranks: u32,
    /// The same on several hosts, where one operation is a poor sign of what many in a row take.
    ranks_across: u32,
    /// Of each candidate about so many pieces of work: loops are cut beyond.
    tasks: u64,
    /// The same for each rank, if that is more.
    tasks_of_rank: u64,
    /// Of all candidates together so many on one host,
    tasks_of_all: u64,
    /// but at least so many candidates, and on several hosts, where each takes milliseconds, all that are made for these and so many
    least: u32,
    /// whose closed form is less than so many times the best;
    unlikely: f64,
    /// no candidate further than to so many times the time of the best.
    hopeless: f64,
}

/// At the first use of a shape, while all ranks wait, and perhaps for the processors too: some ten milliseconds with ranks by the hundred.
const FIRST_USE: Effort = Effort {
    ranks: 256,
    ranks_across: 64,
    tasks: 2048,
    tasks_of_rank: 16,
    tasks_of_all: 50_000,
    least: 3,
    unlikely: 6.0,
    hopeless: 1.5,
};
/// When a person asks: seconds at 4096 ranks.
const STUDY: Effort = Effort {
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
/// Times that differ by less are equal.
const EQUAL: f64 = 1.02;
/// The same of two algorithms between hosts where ranks share processors: when each gets one is chance, which costs those that wait
/// for each other more than the simulation knows.
const EQUAL_CROWDED: f64 = 1.1;

/// An operation of less seconds waits for journeys, not for bytes.
const BRIEF: f64 = 1e-4;
/// Messages of so many bytes fill the queues between hosts if all are sent at once, also those that ask nobody.
const BULK: u64 = 4096;
/// So many may be under way then.
const NARROW: u32 = 4;
/// By how much longer it takes than simulated if receivers are asked first (a bcast of 4 MiB in segments of 256 KiB on 4 hosts of 4
/// ranks 1.0 to 1.2 times, in segments of 64 KiB 0.93): who is asked may be waiting for a processor, and the link has nothing to do.
const ASKED: f64 = 1.08;
/// What part of the processors' time makes no difference where the network is what takes the time.
const LITTLE_WORK: f64 = 0.01;

/// An algorithm that could do it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The algorithm.
    pub generator: &'static Generator,
    /// Its best parameters.
    pub params: Params,
    /// Its time, in seconds.
    pub time: f64,
    /// What all ranks together work for it, in seconds, if it was simulated.
    pub work: f64,
    /// Whether it was simulated; or else it is the closed form's.
    pub simulated: bool,
}

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forced {
    No,
    Yes,
    DoesNotSuit,
}

/// An algorithm with its parameters, and why.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The algorithm.
    pub generator: &'static Generator,
    /// Its parameters.
    pub params: Params,
    /// Its time in the model, in seconds.
    pub time: f64,
    forced: Forced,
    shape: Shape,
    environment: Environment,
}

impl Choice {
    /// Whether the user asked for it.
    pub fn is_forced(&self) -> bool {
        self.forced == Forced::Yes
    }

    /// It in numbers, for others who would choose the same: [`Choice::of_words`].
    pub fn words(&self) -> [u64; 4] {
        let index = registry().iter().position(|other| std::ptr::eq(other, self.generator));
        let index = index.expect("a choice is a registered algorithm") as u64;
        let Params { radix, fan_out, segment, window, readers, ignored } = self.params;
        [
            index | u64::from(ignored.bits()) << 16 | u64::from(window) << 24 | u64::from(readers) << 32,
            u64::from(radix) | u64::from(fan_out) << 32,
            segment,
            self.time.to_bits(),
        ]
    }

    /// What another rank has chosen for `shape`, by the model; `None` if the words say nothing that suits.
    pub fn of_words(words: [u64; 4], shape: &Shape, environment: &Environment) -> Option<Choice> {
        let shape = common(shape, environment);
        let generator = registry().get((words[0] & 0xffff) as usize)?;
        let params = Params {
            radix: words[1] as u32,
            fan_out: (words[1] >> 32) as u32,
            segment: words[2],
            window: (words[0] >> 24) as u32 & 0xff,
            readers: (words[0] >> 32) as u32,
            ignored: Ignored::of_bits((words[0] >> 16) as u8),
        };
        let suits = generator.suits(&shape) && params.radix > 0 && params.window > 0;
        let time = f64::from_bits(words[3]);
        let environment = environment.clone();
        suits.then_some(Choice { generator, params, time, forced: Forced::No, shape, environment })
    }

    /// Why this one, in a sentence and a list, for a person.
    pub fn reason(&self) -> String {
        let how = match self.forced {
            Forced::Yes => "as it was forced",
            Forced::DoesNotSuit => "as the forced one does not suit",
            Forced::No => "by the model",
        };
        let Shape { collective, ranks, .. } = self.shape;
        let hosts = self.environment.layout.on_hosts();
        let mut text = format!(
            "{collective} of {} bytes on {ranks} ranks{hosts}: {} ({}), {how}, {:.1} us.",
            self.shape.bytes(),
            self.generator.name,
            self.params,
            self.time * 1e6
        );
        for Candidate { generator, params, time, simulated, .. } in candidates(&self.shape, &self.environment)
        {
            let closed = if simulated { "" } else { ", closed form" };
            text += &format!(" {} ({params}): {:.1} us{closed}.", generator.name, time * 1e6);
        }
        text
    }
}

/// Why an algorithm cannot be used for a shape; `None` if it can.
pub fn refusal(generator: &Generator, shape: &Shape, environment: &Environment) -> Option<String> {
    let requires = generator.requires;
    if requires.commutative && !shape.commutative {
        return Some("the operator does not commute".to_string());
    }
    if requires.power_of_two && !shape.ranks.is_power_of_two() {
        return Some("the number of ranks is no power of two".to_string());
    }
    if requires.few_ranks && shape.ranks > Requirements::FEW {
        return Some(format!("there are more than {} ranks", Requirements::FEW));
    }
    if requires.two_groups != (shape.first_group > 0) {
        let what = if requires.two_groups { "an intercommunicator" } else { "one group" };
        return Some(format!("it is for {what}"));
    }
    let hosts = environment.layout.hosts();
    if requires.node <= environment.node && !requires.are_met(environment.node, hosts) {
        let why = if hosts > 1 { "the ranks are on several hosts" } else { "the ranks are on one host" };
        return Some(why.to_string());
    }
    if requires.node > environment.node {
        return Some(match requires.node {
            Node::Exposed => "ranks cannot get at each other's memory".to_string(),
            _ => "the ranks do not share a node's memory".to_string(),
        });
    }
    let shape = &ordered(shape, environment);
    if requires.commutative && !shape.commutative {
        return Some("deterministic results keep the order of ranks".to_string());
    }
    if !generator.suits_on(shape, environment.layout.hierarchy()) {
        return Some("operands keep the order of ranks and hosts do not hold consecutive ranks".to_string());
    }
    if !generator.candidates(shape).iter().any(|params| allowed(generator, params, environment)) {
        return Some("it associates operands in its own way, which deterministic results forbid".to_string());
    }
    if generator.candidates(shape).iter().all(|params| floods(generator, params, shape, environment)) {
        return Some("messages so short would all be sent at once (unless it is forced)".to_string());
    }
    let fits = generator.candidates(shape).iter().any(|params| fits(generator, shape, params, environment));
    (!fits).then(|| format!("it needs a bank of more than {} bytes", environment.bank_bytes))
}

/// Whether messages between hosts would all be sent at once and overflow the queues on their way: TCP notices by a time-out, which
/// takes as long as the data do.
fn floods(generator: &Generator, params: &Params, shape: &Shape, environment: &Environment) -> bool {
    let several = environment.layout.hosts() > 1;
    let nobody_waits = generator.parameters.asks && !asks(params, shape, environment);
    let many = generator.parameters.window && shape.bytes() >= BULK && params.window > NARROW;
    several && (nobody_waits || many)
}

/// Whether its messages between hosts are so long that their receivers are asked first.
fn asks(params: &Params, shape: &Shape, environment: &Environment) -> bool {
    let bytes = match params.segment {
        0 => shape.bytes(),
        segment => shape.bytes().min(segment * shape.unit_bytes),
    };
    bytes as f64 > environment.model.longest_eager(true)
}

/// Whether the node has banks as large as the algorithm asks for; which is the same on all ranks.
fn fits(generator: &Generator, shape: &Shape, params: &Params, environment: &Environment) -> bool {
    let bytes = || {
        let hierarchy = Some(environment.layout.hierarchy());
        generator.generate_on(shape, params, hierarchy).bank * shape.unit_bytes
    };
    generator.requires.node == Node::Any || bytes() <= environment.bank_bytes
}

/// The class of a count: the next higher one of four an octave. Powers of two are in it themselves, so limits that are
/// powers of two (the eager size) do not lie inside a class.
pub fn class(count: u64) -> u64 {
    let Some(octave) = count.checked_ilog2() else { return 0 };
    let (power, step) = (1 << octave, (1_u64 << octave).div_ceil(4));
    (count - power).div_ceil(step).saturating_mul(step).saturating_add(power)
}

/// The shape that schedules are written for. Where results are to be deterministic, every operator is one that does not
/// commute: the order of ranks is kept.
fn ordered(shape: &Shape, environment: &Environment) -> Shape {
    let free = !environment.deterministic || Association::of(shape.collective).is_none();
    Shape { commutative: shape.commutative && free, ..*shape }
}

/// Whether it may be taken with these parameters.
fn allowed(generator: &Generator, params: &Params, environment: &Environment) -> bool {
    !environment.deterministic || generator.is_canonical(params)
}

/// The parameters in their simplest form: what makes no difference among these ranks is left out, so that nothing is looked at twice.
fn simplest(generator: &Generator, mut params: Params, environment: &Environment) -> Params {
    if !environment.layout.hierarchy().levels().any(|distance| params.ignored.contains(distance)) {
        params.ignored = Ignored::NONE;
    }
    let most_far = environment.layout.hosts();
    if generator.parameters.leaders {
        params.radix = params.radix.min(environment.ranks_on_node);
        params.fan_out = params.fan_out.min(most_far);
    } else if generator.requires.several_hosts {
        params.radix = params.radix.min(most_far);
    }
    params
}

/// What all ranks agree on of a shape, and what choices depend on: shapes that have this in common share one.
pub fn common(shape: &Shape, environment: &Environment) -> Shape {
    use Collective as C;
    let count = match shape.collective {
        C::Gatherv | C::Scatterv | C::Alltoallv => 0,
        _ => class(shape.count),
    };
    Shape { count, rank: 0, root: 0, in_place: false, own: 0, ..ordered(shape, environment) }
}

/// The same in numbers, for ranks of one communicator in one job.
pub fn key(shape: &Shape, environment: &Environment) -> [u64; 2] {
    let Shape { collective, count, unit_bytes, commutative, .. } = common(shape, environment);
    // A datatype of 2^48 bytes is none.
    [
        u64::from(commutative) | (environment.node as u64) << 1 | (collective as u64) << 8 | unit_bytes << 16,
        count,
    ]
}

/// One algorithm with its best parameters for each length of segments that is worth a try, the best first. Where
/// they have been measured ([`Model::correction`](crate::Model::correction)), selection looks at all of those.
pub fn variants(generator: &Generator, shape: &Shape, environment: &Environment) -> Vec<Candidate> {
    let shape = common(shape, environment);
    let mut segments: Vec<u64> = generator.candidates(&shape).iter().map(|params| params.segment).collect();
    segments.sort_unstable();
    segments.dedup();
    let best = |segment: u64| {
        let name = crate::model::variant(generator.name, Some(segment * shape.unit_bytes));
        let times = timed(Some(&name), &shape, environment, &FIRST_USE).into_iter();
        times.min_by(|one, two| one.time.total_cmp(&two.time))
    };
    let mut variants: Vec<Candidate> = segments.into_iter().filter_map(best).collect();
    variants.sort_by(|one, two| one.time.total_cmp(&two.time));
    variants
}

/// A candidate for every algorithm that can be used, the best first. An algorithm that has no chance is left out if the
/// others are simulated.
pub fn candidates(shape: &Shape, environment: &Environment) -> Vec<Candidate> {
    let shape = common(shape, environment);
    of_each(timed(None, &shape, environment, &FIRST_USE))
}

/// As [`candidates`], for exactly this count, with more effort, and for every algorithm; or for the one that is `forced`, as in
/// [`select`].
pub fn study(shape: &Shape, environment: &Environment, forced: Option<&str>) -> Vec<Candidate> {
    let shape = Shape { rank: 0, in_place: false, own: 0, ..ordered(shape, environment) };
    of_each(timed(forced, &shape, environment, &STUDY))
}

fn of_each(mut timed: Vec<Candidate>) -> Vec<Candidate> {
    timed.sort_by(|one, two| one.time.total_cmp(&two.time));
    let mut seen: Vec<&str> = Vec::new();
    timed.retain(|candidate| {
        let first = !seen.contains(&candidate.generator.name);
        seen.push(candidate.generator.name);
        first
    });
    timed
}

/// The candidates that can be used, or those that are forced, with their times, in the order of registration.
fn timed(forced: Option<&str>, shape: &Shape, environment: &Environment, effort: &Effort) -> Vec<Candidate> {
    let name = forced.and_then(|text| text.split(':').next()).map(str::trim);
    let several = environment.layout.hosts() > 1;
    let possible = |generator: &&Generator| {
        generator.suits_on(shape, environment.layout.hierarchy())
            && generator.requires.are_met(environment.node, environment.layout.hosts())
            && name.is_none_or(|name| generator.name == name)
    };
    let mut all: Vec<Candidate> = Vec::new();
    for generator in registry().iter().filter(possible) {
        let mut tried: Vec<Params> = generator.candidates(shape);
        tried.iter_mut().for_each(|params| force(params, forced.unwrap_or(""), shape));
        tried.retain(|params| allowed(generator, params, environment));
        tried.retain(|params| forced.is_some() || !floods(generator, params, shape, environment));
        tried = tried.into_iter().map(|params| simplest(generator, params, environment)).collect();
        let candidate = |params| {
            let time = closed_form(generator, shape, &params, environment);
            Candidate { generator, params, time, work: 0.0, simulated: false }
        };
        let new = |place: &usize| !tried[..*place].contains(&tried[*place]);
        let mut own: Vec<Candidate> =
            (0..tried.len()).filter(new).map(|place| candidate(tried[place])).collect();
        own.sort_by(|one, two| one.time.total_cmp(&two.time));
        all.extend(closer(own, shape, environment));
    }
    // The simulator knows neither topologies nor groups; for these there is one algorithm each.
    let most = if several { effort.ranks_across } else { effort.ranks };
    if shape.ranks <= most && shape.first_group == 0 && !shape.collective.is_of_neighbours() {
        all = simulated(all, shape, environment, effort);
    }
    for candidate in &mut all {
        candidate.time *= correction(candidate, shape, environment);
    }
    all
}

/// The few parameters of one algorithm that are looked at closer than by its closed form: the best, the best for each length
/// of segments that was measured, and between hosts the best whose messages ask nobody, of which closed forms know nothing.
fn closer(own: Vec<Candidate>, shape: &Shape, environment: &Environment) -> Vec<Candidate> {
    let place = (shape.ranks, environment.layout.hosts());
    let mut taken: Vec<Candidate> = Vec::new();
    for one in own {
        let segment = one.params.segment;
        let bytes = segment * shape.unit_bytes;
        let is_measured =
            || environment.model.has_measured(shape.collective, (one.generator.name, bytes), place);
        let is_new = taken.iter().all(|other| other.params.segment != segment);
        let several = one.generator.requires.several_hosts;
        let most = match several {
            true if one.generator.parameters.leaders => PARAMS_OF_LEADERS,
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
    if generator.requires.several_hosts {
        return cost::of_levels(generator.work, shape, params, environment);
    }
    (generator.work)(shape, params).time(environment)
}

/// Simulates those candidates that may be the best, and leaves out the others.
fn simulated(
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
    let levels = |index: &usize| all[*index].generator.requires.several_hosts;
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

/// In which order to simulate: what is for several hosts first, then the best of each algorithm before the second best, as closed
/// forms compare parameters better than algorithms.
fn by_promise(all: &[Candidate]) -> Vec<usize> {
    let own = |index: usize| {
        let name = all[index].generator.name;
        all[..index].iter().filter(|other| other.generator.name == name).count()
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|&one, &two| own(one).cmp(&own(two)).then(all[one].time.total_cmp(&all[two].time)));
    order.sort_by_key(|&one| !all[one].generator.requires.several_hosts);
    order
}

/// By what measured times differ from those of the model.
fn correction(candidate: &Candidate, shape: &Shape, environment: &Environment) -> f64 {
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
    /// What the simulator says of a candidate, whose times are to be multiplied by `factor`; `None` if it is hopeless.
    fn simulate(&mut self, candidate: Candidate, factor: f64) -> Option<Candidate> {
        let Candidate { generator, params, .. } = candidate;
        let environment = self.environment;
        // While the network is busy processors have other things to do, and hosts may share them: of algorithms that are bound by the
        // network, those win that work less.
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

/// The algorithm of least time for `shape`, or the one that is `forced`, if it suits: by name, and by parameters if these
/// follow (`knomial:radix=4:segment=32768:window=8`, segments in bytes).
pub fn select(shape: &Shape, environment: &Environment, forced: Option<&str>) -> Choice {
    let common = common(shape, environment);
    let mut choices = Vec::new();
    let mut wanted = Forced::No;
    if let Some(forced) = forced {
        choices = timed(Some(forced), &common, environment, &FIRST_USE);
        wanted = if choices.is_empty() { Forced::DoesNotSuit } else { Forced::Yes };
    }
    if choices.is_empty() {
        choices = timed(None, &common, environment, &FIRST_USE);
    }
    let &Candidate { generator, params, time, .. } = best(&choices, environment)
        .expect("every collective has an algorithm for any shape, and that has candidates");
    Choice { generator, params, time, forced: wanted, shape: common, environment: environment.clone() }
}

/// The one of least time. Of equal times the first wins; between hosts, where the bytes on the network are what takes
/// the time, the first of those with which the ranks work least, as there may be more ranks than processors. If that
/// makes little difference, several leaders of a host are better than one: the network has something to do also while
/// one of them has no processor; and few messages at a time are better than many, which only fill the queues of the network until one
/// overflows (12 blocks of 256 KiB at once over 200 Mbit/s took twice their time).
fn best<'a>(choices: &'a [Candidate], environment: &Environment) -> Option<&'a Candidate> {
    let least = choices.iter().map(|choice| choice.time).fold(f64::INFINITY, f64::min);
    let crowded = environment.layout.hosts() > 1 && environment.layout.crowded();
    let limit = least * if crowded { EQUAL_CROWDED } else { EQUAL };
    let best_of = |generator: &Generator| {
        let own = choices.iter().filter(|choice| std::ptr::eq(choice.generator, generator));
        own.map(|choice| choice.time).fold(f64::INFINITY, f64::min)
    };
    let equal = || {
        let near = choices.iter().filter(|choice| choice.time <= limit);
        near.filter(|choice| choice.time <= best_of(choice.generator) * EQUAL)
    };
    let first = equal().next()?;
    if environment.layout.hosts() == 1 || least < BRIEF || !first.simulated {
        return Some(first);
    }
    let simulated = || equal().filter(|choice| choice.simulated);
    let processors: u32 = environment.layout.pools().iter().map(|pool| pool.processors).sum();
    let work = simulated().map(|choice| choice.work).fold(f64::INFINITY, f64::min);
    let most = work + LITTLE_WORK * least * f64::from(processors);
    let leaders = |choice: &Candidate| match choice.generator.parameters.leaders {
        true => choice.params.radix.min(environment.ranks_on_node),
        false => 1,
    };
    let near = || simulated().filter(|choice| choice.work <= most);
    let generator = near().next()?.generator;
    near().filter(|choice| std::ptr::eq(choice.generator, generator)).min_by(|one, two| {
        let fewer = leaders(two).cmp(&leaders(one)).then(one.params.window.cmp(&two.params.window));
        fewer.then(one.work.total_cmp(&two.work))
    })
}

/// Sets the parameters that a forced choice names; what cannot be read is passed over.
fn force(params: &mut Params, text: &str, shape: &Shape) {
    for (name, value) in text.split(':').skip(1).filter_map(|part| part.split_once('=')) {
        match (name.trim(), value.trim(), size(value.trim())) {
            ("radix", "flat", _) => params.radix = Params::FLAT,
            ("radix", _, Some(radix)) if radix > 0 => {
                params.radix = radix.min(u64::from(Params::FLAT)) as u32
            }
            ("fan_out", "flat", _) => params.fan_out = Params::FLAT,
            ("fan_out", _, Some(radix)) => params.fan_out = radix.min(u64::from(Params::FLAT)) as u32,
            ("readers", _, Some(readers)) => params.readers = readers.min(u64::from(shape.ranks)) as u32,
            ("segment", _, Some(bytes)) => params.segment = bytes.div_ceil(shape.unit_bytes.max(1)),
            ("window", _, Some(window)) if window > 0 => {
                params.window = window.min(u64::from(crate::ir::Loop::MAX_WINDOW)) as u32;
            }
            _ => {}
        }
    }
}

/// A number with K, M or nothing behind it.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// What a communicator keeps of an operation that it did: the schedule, and how it came about. The
/// [`Shape`] is the key of a cache of plans.
#[derive(Debug)]
pub struct Plan {
    /// What was asked for.
    pub shape: Shape,
    /// What was chosen.
    pub choice: Choice,
    /// What to do.
    pub schedule: Schedule,
}

impl Plan {
    /// Selects and generates.
    pub fn new(shape: &Shape, environment: &Environment, forced: Option<&str>) -> Plan {
        Plan::chosen(shape, select(shape, environment, forced), None)
    }

    /// Generates what was chosen, for this or another shape of its class, and for a rank with these neighbours.
    pub fn chosen(shape: &Shape, choice: Choice, neighbours: Option<&Arc<Neighbours>>) -> Plan {
        let hierarchy = Some(choice.environment.layout.hierarchy());
        let ordered = ordered(shape, &choice.environment);
        let schedule = choice.generator.generate_among(&ordered, &choice.params, hierarchy, neighbours);
        Plan { shape: *shape, choice, schedule }
    }

    /// Whether what the ranks that share a cache touch is more than it holds, or nearly so: then copies had better pass it by.
    pub fn exceeds_cache(&self) -> bool {
        let Environment { layout, model, .. } = &self.choice.environment;
        let footprint = Load::new(&self.shape).footprint() * f64::from(layout.cache_ranks());
        footprint > 0.75 * model.cache_bytes
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.generator.name, self.params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use crate::simulate::{Binding, Layout, Reach};
    use Collective as C;
    use tutti_base::Machines;

    fn check(collective: Collective, ranks: u32, cores: u32, bytes: u64, expected: (&str, Option<u32>)) {
        let environment = Environment::flat(ranks, cores);
        let choice = select(&Shape::new(collective, ranks, 0, bytes), &environment, None);
        assert!(expected.0.split('|').any(|name| name == choice.generator.name), "{}", choice.reason());
        if let Some(radix) = expected.1 {
            assert!(choice.params.radix >= radix, "{}", choice.reason());
        }
    }

    #[test]
    fn more_ranks_than_cores_take_what_switches_least() {
        check(C::Barrier, 4, 2, 0, ("spread", None));
        check(C::Allreduce, 4, 2, 8, ("spread", None));
        for ranks in [8, 16] {
            check(C::Barrier, ranks, 2, 0, ("tree", Some(4)));
            check(C::Allreduce, ranks, 2, 8, ("tree", Some(4)));
        }
        check(C::Barrier, 16, 16, 0, ("dissemination", None));
        check(C::Allreduce, 16, 16, 8, ("recursive_doubling", None));
    }

    #[test]
    fn segments_are_refined_by_measurement() {
        let hosts: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
        let layout = Arc::new(Layout::across(&hosts, 4));
        let shape = Shape::new(C::Bcast, 16, 0, 4 << 20);
        let chosen = |text: &str| {
            let model = Arc::new(Model::parse(text).expect("it is right"));
            let environment = Environment::on_hosts(Arc::clone(&layout), model);
            let environment = Environment { node: Node::Exposed, ..environment };
            let choice = select(&shape, &environment, Some("levels"));
            choice.params.segment
        };
        let by_model = chosen("");
        for better in [8 << 10, 256 << 10] {
            assert_ne!(by_model, better);
            let line =
                |segment, factor| format!("correction bcast levels:segment={segment} 16@4 23 {factor}\n");
            assert_eq!(chosen(&(line(by_model, 8.0) + &line(better, 0.01))), better);
        }
    }

    #[test]
    fn hosts_that_share_processors_take_what_works_less() {
        let hosts: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
        let model = Arc::new(Model { network_bandwidth: 1.2e8, ..Model::default() });
        let layouts = [Layout::across(&hosts, 2), Layout::on_machines(&hosts, &Machines::shared(4, 2))];
        let [apart, one] = layouts.map(|layout| {
            let environment = Environment::on_hosts(Arc::new(layout), Arc::clone(&model));
            Environment { node: Node::Exposed, ..environment }
        });
        let shape = Shape::new(C::Allreduce, 16, 0, 16 << 10);
        let chosen = |environment: &Environment| {
            let found = candidates(&shape, environment);
            best(&found, environment).map(|choice| (choice.generator.name, choice.params))
        };
        // What either choice costs where processors are shared.
        let time = |wanted: Option<(&str, Params)>| {
            let found = candidates(&shape, &one);
            let same = |choice: &&Candidate| Some((choice.generator.name, choice.params)) == wanted;
            found.iter().find(same).map_or(f64::INFINITY, |choice| choice.time)
        };
        assert_eq!((apart.cores, one.cores, one.ranks_on_node, one.oversubscribed), (2, 1, 4, true));
        assert!(time(chosen(&one)) < time(chosen(&apart)));
    }

    #[test]
    fn rows_follow_one_another_from_host_to_host() {
        for (hosts, per_host) in [(4, 4), (4, 24)] {
            let hosts: Vec<u32> = (0..hosts * per_host).map(|rank| rank / per_host).collect();
            let layout = Arc::new(Layout::across(&hosts, 2));
            let model = Arc::new(Model { network_bandwidth: 1.2e8, ..Model::default() });
            let environment = Environment { node: Node::Exposed, ..Environment::on_hosts(layout, model) };
            let shape = Shape::new(C::Bcast, hosts.len() as u32, 0, 8 << 10);
            let choice = select(&shape, &environment, None);
            assert_eq!(
                (choice.generator.name, choice.params.radix),
                ("levels_bank", 1),
                "{}",
                choice.reason()
            );
        }
    }

    #[test]
    fn long_messages_to_many_hosts_wait_for_each_other() {
        let hosts: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
        let model = Arc::new(Model { network_bandwidth: 1.2e8, ..Model::default() });
        let environment =
            Environment::on_hosts(Arc::new(Layout::on_machines(&hosts, &Machines::shared(4, 2))), model);
        for (collective, bytes) in [(C::Scatter, 256 << 10), (C::Scatter, 4 << 20), (C::Gather, 4 << 20)] {
            let choice = select(&Shape::new(collective, 16, 0, bytes), &environment, Some("linear"));
            assert_eq!((choice.generator.name, choice.params.window), ("linear", 4), "{}", choice.reason());
        }
        let environment = Environment { node: Node::Exposed, reach: Reach::Mapped, ..environment };
        let levels = |one: &&Generator| one.collective == C::Alltoall && one.name == "levels";
        let levels = registry().iter().find(levels).expect("it is there");
        for (bytes, waits) in [(16 << 10, false), (256 << 10, true)] {
            let shape = Shape::new(C::Alltoall, 16, 0, bytes);
            let choice = select(&shape, &environment, None);
            let narrow = !choice.generator.parameters.window || choice.params.window <= 4;
            assert!(narrow && (waits || choice.generator.name != "levels"), "{}", choice.reason());
            let refusal = refusal(levels, &shape, &environment);
            assert_eq!(refusal.is_none(), waits, "{bytes}: {refusal:?}");
        }
    }

    /// Whoever is asked for a long segment may be waiting for a processor meanwhile (4 MiB: 49 ms; in segments that ask nobody 38).
    #[test]
    fn long_data_go_in_segments_that_ask_nobody() {
        let hosts: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
        let model = Arc::new(Model { network_bandwidth: 1.2e8, ..Model::default() });
        let layout = Arc::new(Layout::on_machines(&hosts, &Machines::shared(4, 2)));
        let environment =
            Environment { node: Node::Exposed, reach: Reach::Mapped, ..Environment::on_hosts(layout, model) };
        for collective in [C::Bcast, C::Reduce, C::Allreduce] {
            let shape = Shape::new(collective, 16, 0, 4 << 20);
            let choice = select(&shape, &environment, None);
            assert!(!asks(&choice.params, &shape, &environment), "{}", choice.reason());
        }
    }

    /// On a server of 128 cores, what is chosen at the first use takes (almost) as short as the best of all candidates.
    #[test]
    fn many_cores_get_what_is_best_for_them() {
        let path = format!("{}/../../fixtures/machines/epyc-2x64-nps4.txt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("it is there");
        let machine = tutti_topo::Machine::parse(&text).expect("it is right");
        let layout = Arc::new(Layout::bound(&machine, &Binding::Compact, 128, 1));
        let environment = Environment::in_job(128, 128, 128, Arc::default());
        let environment = Environment { node: Node::Exposed, reach: Reach::Mapped, layout, ..environment };
        for (collective, bytes) in [(C::Barrier, 0), (C::Bcast, 64 << 10), (C::Reduce, 8), (C::Allreduce, 8)]
        {
            let shape = Shape::new(collective, 128, 0, bytes);
            let (choice, all) = (select(&shape, &environment, None), study(&shape, &environment, None));
            assert!(choice.time < 1.2 * all[0].time, "{} is best; {}", all[0], choice.reason());
        }
    }

    #[test]
    fn large_data_are_cut() {
        check(C::Allreduce, 16, 16, 16 << 20, ("ring|rabenseifner|tree", None));
        check(C::Bcast, 8, 8, 16 << 20, ("kary|scatter_ring", None));
        check(C::Alltoall, 16, 16, 8, ("bruck", None));
        check(C::Alltoall, 16, 16, 1 << 20, ("spread", None));
    }

    #[test]
    fn every_shape_has_an_algorithm_and_all_ranks_choose_the_same() {
        for collective in Collective::ALL {
            for ranks in 1..20 {
                let environment = Environment::flat(ranks, 2);
                for commutative in [false, true] {
                    let shape = Shape { commutative, ..Shape::new(collective, ranks, 0, 100) };
                    let last = Shape { rank: ranks - 1, in_place: true, own: 3, ..shape };
                    let (one, two) =
                        (select(&shape, &environment, None), select(&last, &environment, Some("?")));
                    assert_eq!((one.generator.name, one.params), (two.generator.name, two.params));
                    assert!(two.reason().contains("does not suit"));
                }
            }
        }
    }

    #[test]
    fn a_choice_can_be_told_in_numbers() {
        let environment = Environment { node: Node::Exposed, ..Environment::flat(12, 12) };
        for (collective, bytes) in [(C::Bcast, 8), (C::Allreduce, 1 << 20), (C::Barrier, 0)] {
            let shape = Shape::new(collective, 12, 3, bytes);
            let choice = select(&shape, &environment, None);
            let told = Choice::of_words(choice.words(), &shape, &environment).expect("it suits");
            assert_eq!((told.generator.name, told.params), (choice.generator.name, choice.params));
            assert_eq!(key(&shape, &environment), key(&Shape { rank: 5, ..shape }, &environment));
        }
        let other = select(&Shape::new(C::Bcast, 12, 0, 8), &environment, None).words();
        assert!(Choice::of_words(other, &Shape::new(C::Gather, 12, 0, 8), &environment).is_none());
        assert!(Choice::of_words([u64::MAX; 4], &Shape::new(C::Gather, 12, 0, 8), &environment).is_none());
    }

    fn check_class(count: u64, expected: u64) {
        assert_eq!(class(count), expected, "{count}");
        assert_eq!(class(expected), expected);
    }

    #[test]
    fn classes_are_four_an_octave() {
        for (count, expected) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (8, 8), (9, 10), (16, 16)] {
            check_class(count, expected);
        }
        check_class(16384, 16384);
        check_class(16385, 20480);
        check_class(u64::MAX, u64::MAX);
    }

    #[test]
    fn there_are_no_cliffs_between_neighbouring_sizes() {
        for (collective, ranks, cores) in [(C::Bcast, 8, 8), (C::Allreduce, 6, 6), (C::Allreduce, 8, 2)] {
            let environment = Environment::flat(ranks, cores);
            let (mut bytes, mut last) = (1, 0.0);
            while bytes <= 64 << 20 {
                let choice = select(&Shape::new(collective, ranks, 0, bytes), &environment, None);
                // A class is at most twice the one before, and the handshake of long messages comes all at once.
                let most = if last == 0.0 || bytes == 20480 { f64::INFINITY } else { 2.1 * last };
                assert!((0.9 * last..most).contains(&choice.time), "{bytes}: {last:e}, {}", choice.reason());
                last = choice.time;
                bytes = class(bytes + 1);
            }
        }
    }

    #[test]
    fn a_forced_choice_may_name_parameters() {
        let environment = Environment::flat(8, 8);
        let shape = Shape { unit_bytes: 4, ..Shape::new(C::Reduce, 8, 0, 1 << 20) };
        let params = |text: &str| select(&shape, &environment, Some(text)).params;
        let forced = params("knomial:radix=3:segment=32K:window=5");
        assert_eq!((forced.radix, forced.segment, forced.window), (3, 8192, 5));
        assert_eq!(params("kary:radix=flat").radix, Params::FLAT);
        let both = params("kary:fan_out=flat:readers=5");
        assert_eq!((both.fan_out, both.readers), (Params::FLAT, 5));
        assert_eq!(params("kary:radix=0:nonsense").radix, params("kary").radix);
    }
}
