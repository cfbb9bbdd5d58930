//! Selection of an algorithm and its parameters: those of least time.
//!
//! Closed forms ([`crate::cost`]) give the order in which candidates are simulated. Each simulation stops
//! when it is certain to take longer than the best so far. If there are too many ranks to simulate at the
//! first use of a shape, closed forms decide. Measurements correct both
//! ([`Model::correction`](crate::Model::correction)). Nothing in Tutti is a table of sizes.
//!
//! All ranks choose the same algorithm, because selection uses only properties that are equal on all of them.
//! Sizes of one [`class`] share a choice, and of two equally good algorithms the one registered first wins.
//! So sizes that differ little rarely have different choices.

use std::fmt;
use std::sync::Arc;

use tutti_base::config::algorithms::{ForcedParameter, parameter};

use crate::cost::Environment;
use crate::explanation::Explanation;
use crate::generator::{Generator, Need, Radix};
use crate::hierarchy::Ignored;
use crate::ir::Schedule;
use crate::neighbours::Neighbours;
use crate::registry::{FILE_READ, FILE_WRITE, registry};
use crate::shape::{Collective, Params, Shape};
use crate::simulate::Load;

mod multicast;
mod search;
#[cfg(test)]
mod tests;
mod usable;

pub use search::closed_form;
pub use usable::refusal;

use search::{Effort, FIRST_USE, OUTLINE, STUDY, closer, correction, simulated};
use usable::{allowed, asks, floods, ordered, situation};

/// Ratio of two times below which they are equal.
const EQUAL: f64 = 1.02;
/// Ratio below which the times of two algorithms are equal, between hosts whose ranks share processors. The
/// scheduling of ranks is random there, which costs ranks that wait for each other more than the simulation
/// knows.
const EQUAL_CROWDED: f64 = 1.1;
/// Ratio below which two times are equal if one algorithm asks before it sends, and so waits more than the
/// other.
const EQUAL_ASKING: f64 = 1.05;
/// Time in seconds below which latency counts, not bandwidth.
const BRIEF: f64 = 1e-4;
/// Share of the processors' time that makes no difference if the network is the bottleneck.
const LITTLE_WORK: f64 = 0.01;

/// Algorithm that can perform the operation, with its parameters and its time.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Entry of the algorithm in the registry.
    pub generator: &'static Generator,
    /// Best parameters found for it.
    pub params: Params,
    /// Predicted time, in seconds.
    pub time: f64,
    /// Processor time of all ranks together, in seconds, if it was simulated.
    pub work: f64,
    /// True if it was simulated; otherwise the time is that of the closed form.
    pub simulated: bool,
}

/// Relation of a choice to a request of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forced {
    No,
    Yes,
    DoesNotSuit,
    /// Tuning tried it while the program ran ([`crate::tune`]).
    Tried,
}

/// Algorithm with its parameters, and the reason for it.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Entry of the algorithm in the registry.
    pub generator: &'static Generator,
    /// Parameters of the algorithm.
    pub params: Params,
    /// Time in the model, in seconds.
    pub time: f64,
    forced: Forced,
    shape: Shape,
    environment: Environment,
}

impl Choice {
    /// Returns true if the user requested it.
    pub fn is_forced(&self) -> bool {
        self.forced == Forced::Yes
    }

    /// Returns a choice for a candidate that tuning tries, whatever the model predicts.
    pub(crate) fn tried(candidate: &Candidate, shape: &Shape, environment: &Environment) -> Choice {
        let Candidate { generator, params, time, .. } = *candidate;
        let environment = environment.clone();
        Choice { generator, params, time, forced: Forced::Tried, shape: *shape, environment }
    }

    /// Returns true if it is the same algorithm with the same parameters.
    pub fn is_same(&self, other: &Choice) -> bool {
        std::ptr::eq(self.generator, other.generator) && self.params == other.params
    }

    /// Encodes the choice in four numbers for ranks that are to choose the same; [`Choice::of_words`] decodes
    /// them.
    pub fn words(&self) -> [u64; 4] {
        let index = number_of(self.generator);
        let Params { radix, fan_out, segment, window, readers, ignored } = self.params;
        [
            index | u64::from(ignored.bits()) << 16 | u64::from(window) << 24 | u64::from(readers) << 32,
            u64::from(radix) | u64::from(fan_out) << 32,
            segment,
            self.time.to_bits(),
        ]
    }

    /// Returns a word that is equal for equal choices in any run: the algorithm's name and its parameters.
    pub fn label(&self) -> String {
        let Params { radix, fan_out, segment, window, readers, ignored } = self.params;
        let name = self.generator.name;
        format!("{name}:{radix}:{fan_out}:{segment}:{window}:{readers}:{}", ignored.bits())
    }

    /// Decodes the choice of another rank for `shape`. Returns `None` if the words denote no suitable
    /// algorithm.
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

    /// Returns the name of the algorithm with its parameters, for users.
    pub fn described(&self) -> String {
        self.generator.described(&self.params, self.shape.unit_bytes)
    }

    /// Returns the reason for the choice, for users. The chosen algorithm and the best other one come first.
    pub fn reason(&self) -> Explanation {
        let how = match self.forced {
            Forced::Yes => "as it was forced",
            Forced::DoesNotSuit => "as the forced one does not suit",
            Forced::No => "least time by the model",
            Forced::Tried => "as it was tried while the program ran",
        };
        let Shape { collective, ranks, .. } = self.shape;
        let hosts = self.environment.layout.on_hosts();
        let bytes = self.shape.bytes();
        let sentence =
            format!("{collective} of {bytes} bytes on {ranks} ranks{hosts}: {}, {how}", self.described());
        let others = candidates(&self.shape, &self.environment).into_iter();
        let others = others.filter(|other| !std::ptr::eq(other.generator, self.generator));
        let others = others.map(|other| (other.described(self.shape.unit_bytes), other.time));
        let candidates = std::iter::once((self.described(), self.time)).chain(others).collect();
        Explanation { sentence, candidates, short: 2 }
    }
}

/// Returns the index of an algorithm in the registry.
pub(crate) fn number_of(generator: &Generator) -> u64 {
    let place = registry().iter().position(|other| std::ptr::eq(other, generator));
    place.expect("a choice is a registered algorithm") as u64
}

/// Returns the class of a count: the next higher one of four sizes an octave. Powers of two are classes of
/// their own, so limits that are powers of two (the eager size) do not lie inside a class.
pub fn class(count: u64) -> u64 {
    let Some(octave) = count.checked_ilog2() else { return 0 };
    let (power, step) = (1 << octave, (1_u64 << octave).div_ceil(4));
    (count - power).div_ceil(step).saturating_mul(step).saturating_add(power)
}

/// Returns the parameters in their simplest form. Values that make no difference among these ranks are
/// removed, so that nothing is examined twice.
fn simplest(generator: &Generator, mut params: Params, environment: &Environment) -> Params {
    if !environment.layout.hierarchy().levels().any(|distance| params.ignored.contains(distance)) {
        params.ignored = Ignored::NONE;
    }
    let most_far = environment.layout.hosts();
    if generator.parameters.radix() == Some(Radix::Leaders) {
        params.radix = params.radix.min(environment.ranks_on_node);
        params.fan_out = params.fan_out.min(most_far);
    } else if generator.requires(Need::SeveralHosts) {
        params.radix = params.radix.min(most_far);
    }
    params
}

/// Returns the part of a shape on which all ranks agree, and which determines choices. Shapes with the same
/// part share one choice.
pub fn common(shape: &Shape, environment: &Environment) -> Shape {
    use Collective as C;
    let count = match shape.collective {
        C::Gatherv | C::Scatterv | C::Alltoallv => 0,
        _ => class(shape.count),
    };
    Shape { count, rank: 0, root: 0, in_place: false, own: 0, ..ordered(shape, environment) }
}

/// Returns that part in two numbers, for ranks of one communicator in one job.
pub fn key(shape: &Shape, environment: &Environment) -> [u64; 2] {
    let Shape { collective, count, unit_bytes, commutative, together, .. } = common(shape, environment);
    // No datatype has 2^48 bytes.
    [
        u64::from(commutative)
            | (environment.node as u64) << 1
            | u64::from(together) << 6
            | u64::from(environment.multicast) << 7
            | (collective as u64) << 8
            | unit_bytes << 16,
        count,
    ]
}

/// Returns one algorithm with its best parameters for each useful length of segments, the best first. If
/// lengths have been measured ([`Model::correction`](crate::Model::correction)), selection considers all of
/// those.
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

/// Returns every algorithm that can be used, with the parameters that are likely to be good. Ranks them by
/// closed forms only, which takes some hundred microseconds. The best parameters of each algorithm come
/// before the second best of any, and the best algorithm first.
pub fn outlined(shape: &Shape, environment: &Environment) -> Vec<Candidate> {
    let shape = common(shape, environment);
    let mut all = timed(None, &shape, environment, &OUTLINE);
    all.sort_by(|one, two| one.time.total_cmp(&two.time));
    let own = |place: usize| {
        all[..place].iter().filter(|other| std::ptr::eq(other.generator, all[place].generator)).count()
    };
    let mut ranked: Vec<(usize, Candidate)> = (0..all.len()).map(|place| (own(place), all[place])).collect();
    ranked.sort_by_key(|(own, _)| *own);
    ranked.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns a candidate for every usable algorithm, the best first. If candidates are simulated, those without
/// a chance are left out.
pub fn candidates(shape: &Shape, environment: &Environment) -> Vec<Candidate> {
    let shape = common(shape, environment);
    of_each(timed(None, &shape, environment, &FIRST_USE))
}

/// Returns candidates for exactly this count, with more effort than [`candidates`], and for every algorithm,
/// or only for `forced` (see [`select`]).
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

/// Returns the usable candidates, or those that are forced, with their times, in the order of registration.
fn timed(forced: Option<&str>, shape: &Shape, environment: &Environment, effort: &Effort) -> Vec<Candidate> {
    let name = forced.and_then(|text| text.split(':').next()).map(str::trim);
    let several = environment.layout.hosts() > 1;
    let possible = |generator: &&Generator| {
        generator.collective == shape.collective
            && generator.meets(&situation(shape, environment)).is_ok()
            && name.is_none_or(|name| generator.name == name)
    };
    let mut all: Vec<Candidate> = Vec::new();
    for generator in registry().iter().filter(possible) {
        let mut tried: Vec<Params> = generator.candidates(shape);
        tried.iter_mut().for_each(|params| force(params, forced.unwrap_or(""), shape));
        tried.retain(|params| allowed(generator, params, shape, environment));
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
    // The simulator supports neither topologies nor groups. Each of these has only one algorithm.
    let most = if several { effort.ranks_across } else { effort.ranks };
    if shape.ranks <= most && shape.first_group == 0 && !shape.collective.is_of_neighbours() {
        all = simulated(all, shape, environment, effort);
    }
    for candidate in &mut all {
        candidate.time *= correction(candidate, shape, environment);
    }
    all
}

/// Selects the algorithm of least time for `shape`, or the `forced` one if it suits: a name, and parameters
/// if these follow (`knomial:radix=4:segment=32768:window=8`, segments in bytes).
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
    let &Candidate { generator, params, time, .. } = best(&choices, &common, environment)
        .expect("every collective has an algorithm for any shape, with at least one candidate");
    Choice { generator, params, time, forced: wanted, shape: common, environment: environment.clone() }
}

/// Returns the candidate of least time. Among equal times these rules decide:
///
/// - On one host, or with closed forms only, the first one wins.
/// - Brief operations on hosts that share processors: the least work wins, as every message costs both ends
///   work. A barrier of 4 hosts of 4 ranks on 2 processors takes 211 us with 8 messages and 137 with 6; an
///   allgather of 8 bytes 294 and 167.
/// - Otherwise the network is the bottleneck, and the first algorithm wins among those with little work, as
///   there may be more ranks than processors.
/// - If the work is about equal, several leaders of a host win over one where messages ask the receiver: the
///   network is busy even while a leader has no processor. Messages that do not ask wait in the kernel, so
///   several leaders gain nothing. Measured for 1 MiB on 4 hosts of 4 ranks, 1 Gbit/s, one and four leaders:
///   bcast 9.0 and 10.7 ms, reduce 9.3 and 12.
/// - Then few messages at a time win over many, which fill the queues of the network until one overflows. 12
///   blocks of 256 KiB at once over 200 Mbit/s took twice their time.
fn best<'a>(choices: &'a [Candidate], shape: &Shape, environment: &Environment) -> Option<&'a Candidate> {
    let least = choices.iter().map(|choice| choice.time).fold(f64::INFINITY, f64::min);
    let crowded = environment.layout.hosts() > 1 && environment.layout.crowded();
    let tells = |choice: &Candidate| choice.simulated && !asks(&choice.params, shape, environment);
    let best_tells = choices.iter().any(|choice| choice.time <= least && tells(choice));
    let limit = |choice: &Candidate| match crowded && least >= BRIEF {
        true if best_tells && !tells(choice) => least * EQUAL_ASKING,
        true => least * EQUAL_CROWDED,
        false => least * EQUAL,
    };
    let best_of = |generator: &Generator| {
        let own = choices.iter().filter(|choice| std::ptr::eq(choice.generator, generator));
        own.map(|choice| choice.time).fold(f64::INFINITY, f64::min)
    };
    let near = choices.iter().filter(|choice| choice.time <= limit(choice));
    let equal: Vec<&Candidate> =
        near.filter(|choice| choice.time <= best_of(choice.generator) * EQUAL).collect();
    let first = *equal.first()?;
    if environment.layout.hosts() == 1 || !first.simulated {
        return Some(first);
    }
    if least < BRIEF {
        let works_less = |one: &&Candidate, two: &&Candidate| one.work.total_cmp(&two.work);
        let simulated = equal.into_iter().filter(|choice| choice.simulated && crowded);
        return simulated.min_by(works_less).or(Some(first));
    }
    let leaders = |choice: &Candidate| match choice.generator.parameters.radix() {
        Some(Radix::Leaders) => choice.params.radix.min(environment.ranks_on_node),
        _ => 1,
    };
    let takes_turns = |choice: &Candidate| {
        let same = |other: &&&Candidate| std::ptr::eq(other.generator, choice.generator);
        let fewer = |other: &&Candidate| tells(other) && leaders(other) < leaders(choice);
        tells(choice) && equal.iter().filter(same).any(fewer)
    };
    let simulated: Vec<&Candidate> =
        equal.iter().copied().filter(|choice| choice.simulated && !takes_turns(choice)).collect();
    let processors: u32 = environment.layout.pools().iter().map(|pool| pool.processors).sum();
    let work = simulated.iter().map(|choice| choice.work).fold(f64::INFINITY, f64::min);
    let most = work + LITTLE_WORK * least * f64::from(processors);
    let mut idle = simulated.into_iter().filter(|choice| choice.work <= most).peekable();
    let generator = idle.peek()?.generator;
    idle.filter(|choice| std::ptr::eq(choice.generator, generator)).min_by(|one, two| {
        let more = leaders(two).cmp(&leaders(one)).then(one.params.window.cmp(&two.params.window));
        more.then(one.work.total_cmp(&two.work))
    })
}

/// Sets the parameters that a forced choice names. Settings and info keys are checked when they are read
/// ([`tutti_base::config::algorithms`]). A word that cannot be parsed is ignored here.
pub fn force(params: &mut Params, text: &str, shape: &Shape) {
    for named in text.split(':').skip(1).filter_map(|word| parameter(word).ok()) {
        match named {
            ForcedParameter::Radix(radix) => params.radix = radix,
            ForcedParameter::FanOut(radix) => params.fan_out = radix,
            ForcedParameter::Readers(readers) => params.readers = readers.min(shape.ranks),
            ForcedParameter::Segment(bytes) => params.segment = bytes.div_ceil(shape.unit_bytes.max(1)),
            ForcedParameter::Window(window) => params.window = window,
        }
    }
}

/// An operation's schedule and the choice behind it, which a communicator caches. The key of the cache is the
/// [`Shape`].
#[derive(Debug)]
pub struct Plan {
    /// Operation that was requested.
    pub shape: Shape,
    /// Algorithm that was chosen for it.
    pub choice: Choice,
    /// Schedule of this rank.
    pub schedule: Schedule,
}

impl Plan {
    /// Selects an algorithm and generates its schedule.
    pub fn new(shape: &Shape, environment: &Environment, forced: Option<&str>) -> Plan {
        Plan::chosen(shape, select(shape, environment, forced), None)
    }

    /// Generates the schedule of a choice, for its shape or another one of the same class, and for a rank
    /// with these neighbours.
    pub fn chosen(shape: &Shape, choice: Choice, neighbours: Option<&Arc<Neighbours>>) -> Plan {
        let hierarchy = Some(choice.environment.layout.hierarchy());
        let ordered = ordered(shape, &choice.environment);
        let schedule = choice.generator.generate_among(&ordered, &choice.params, hierarchy, neighbours);
        Plan { shape: *shape, choice, schedule }
    }

    /// Returns the plan of an operation on a file. The caller made its schedule from the ranks' tables of
    /// windows.
    pub fn on_file(shape: &Shape, environment: Environment, schedule: Schedule) -> Plan {
        let generator = match shape.collective {
            Collective::FileRead => &FILE_READ,
            _ => &FILE_WRITE,
        };
        let (params, time, forced) = (Params::DEFAULT, 0.0, Forced::No);
        let choice = Choice { generator, params, time, forced, shape: *shape, environment };
        Plan { shape: *shape, choice, schedule }
    }

    /// Returns true if the ranks that share a cache touch more than three quarters of its size. Copies should
    /// then bypass it.
    pub fn exceeds_cache(&self) -> bool {
        let Environment { layout, model, .. } = &self.choice.environment;
        let footprint = Load::new(&self.shape).footprint() * f64::from(layout.cache_ranks());
        footprint > 0.75 * model.cache_bytes
    }
}

impl Candidate {
    /// Returns the name of the algorithm with its parameters, for users.
    pub fn described(&self, unit_bytes: u64) -> String {
        self.generator.described(&self.params, unit_bytes)
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.generator.name, self.params)
    }
}
