//! Which algorithm, with which parameters: the one of least time.
//!
//! Closed forms ([`crate::cost`]) say in which order to simulate the candidates, each only until it is
//! certain to take longer than the best so far; where the ranks are too many for that at the first use of a
//! shape, closed forms decide. What was measured corrects both
//! ([`Model::correction`](crate::Model::correction)). Nothing in Tutti is a table of sizes.
//!
//! All ranks choose the same: only what is equal on all of them is looked at. Sizes of one [`class`] share a
//! choice, and of two that are as good as each other the one registered first wins, so sizes that differ
//! little rarely differ in that.

use std::fmt;
use std::sync::Arc;

use tutti_base::config::algorithms::{ForcedParameter, parameter};

use crate::cost::Environment;
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

/// Times that differ by less are equal.
const EQUAL: f64 = 1.02;
/// The same of two algorithms between hosts where ranks share processors: when each gets one is chance, which
/// costs those that wait for each other more than the simulation knows.
const EQUAL_CROWDED: f64 = 1.1;
/// The same where one asks before it sends, and so waits more than the other.
const EQUAL_ASKING: f64 = 1.05;
/// An operation of less seconds waits for journeys, not for bytes.
const BRIEF: f64 = 1e-4;
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
    /// It was tried while the program ran ([`crate::tune`]).
    Tried,
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

    /// A candidate that is tried whatever the model says of it.
    pub(crate) fn tried(candidate: &Candidate, shape: &Shape, environment: &Environment) -> Choice {
        let Candidate { generator, params, time, .. } = *candidate;
        let environment = environment.clone();
        Choice { generator, params, time, forced: Forced::Tried, shape: *shape, environment }
    }

    /// Whether it is the same algorithm with the same parameters.
    pub fn is_same(&self, other: &Choice) -> bool {
        std::ptr::eq(self.generator, other.generator) && self.params == other.params
    }

    /// It in numbers, for others who would choose the same: [`Choice::of_words`].
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

    /// It in a word, equal for equal choices in any run: the algorithm's name and its parameters.
    pub fn label(&self) -> String {
        let Params { radix, fan_out, segment, window, readers, ignored } = self.params;
        let name = self.generator.name;
        format!("{name}:{radix}:{fan_out}:{segment}:{window}:{readers}:{}", ignored.bits())
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
            Forced::Tried => "as it was tried while the program ran",
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

/// The place of an algorithm among the registered ones.
pub(crate) fn number_of(generator: &Generator) -> u64 {
    let place = registry().iter().position(|other| std::ptr::eq(other, generator));
    place.expect("a choice is a registered algorithm") as u64
}

/// The class of a count: the next higher one of four an octave. Powers of two are in it themselves, so limits
/// that are powers of two (the eager size) do not lie inside a class.
pub fn class(count: u64) -> u64 {
    let Some(octave) = count.checked_ilog2() else { return 0 };
    let (power, step) = (1 << octave, (1_u64 << octave).div_ceil(4));
    (count - power).div_ceil(step).saturating_mul(step).saturating_add(power)
}

/// The parameters in their simplest form: what makes no difference among these ranks is left out, so that
/// nothing is looked at twice.
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
        u64::from(commutative)
            | (environment.node as u64) << 1
            | u64::from(environment.multicast) << 7
            | (collective as u64) << 8
            | unit_bytes << 16,
        count,
    ]
}

/// One algorithm with its best parameters for each length of segments that is worth a try, the best first.
/// Where they have been measured ([`Model::correction`](crate::Model::correction)), selection looks at all of
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

/// A candidate for every algorithm that can be used, the best first. An algorithm that has no chance is left
/// out if the others are simulated.
pub fn candidates(shape: &Shape, environment: &Environment) -> Vec<Candidate> {
    let shape = common(shape, environment);
    of_each(timed(None, &shape, environment, &FIRST_USE))
}

/// As [`candidates`], for exactly this count, with more effort, and for every algorithm; or for the one that
/// is `forced`, as in [`select`].
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
        generator.collective == shape.collective
            && generator.meets(&situation(shape, environment)).is_ok()
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

/// The algorithm of least time for `shape`, or the one that is `forced`, if it suits: by name, and by
/// parameters if these follow (`knomial:radix=4:segment=32768:window=8`, segments in bytes).
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
        .expect("every collective has an algorithm for any shape, and that has candidates");
    Choice { generator, params, time, forced: wanted, shape: common, environment: environment.clone() }
}

/// The one of least time. Of equal times the first wins; between hosts, where the bytes on the network are
/// what takes the time, the first of those with which the ranks work least, as there may be more ranks than
/// processors. If that makes little difference, several leaders of a host are better than one where messages
/// ask: the network has something to do also while one of them has no processor. Messages that ask nobody
/// wait in the kernel instead, so that several leaders of one algorithm take turns for nothing (1 MiB on 4
/// hosts of 4 ranks, 1 Gbit/s, one and four leaders: bcast 9.0 and 10.7 ms, reduce 9.3 and 12). And few
/// messages at a time are better than many, which only fill the queues of the network until one overflows (12
/// blocks of 256 KiB at once over 200 Mbit/s took twice their time). What is brief and on hosts that share
/// processors goes by work too: every message is some for both ends (barrier of 4 hosts of 4 ranks on 2
/// processors: 211 us with 8 messages, 137 with 6; allgather of 8 bytes 294 and 167).
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
/// ([`tutti_base::config::algorithms`]); here a word that cannot be read changes nothing.
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

    /// Generates what was chosen, for this or another shape of its class, and for a rank with these
    /// neighbours.
    pub fn chosen(shape: &Shape, choice: Choice, neighbours: Option<&Arc<Neighbours>>) -> Plan {
        let hierarchy = Some(choice.environment.layout.hierarchy());
        let ordered = ordered(shape, &choice.environment);
        let schedule = choice.generator.generate_among(&ordered, &choice.params, hierarchy, neighbours);
        Plan { shape: *shape, choice, schedule }
    }

    /// For an operation on a file, whose schedule was made of what ranks have in its windows.
    pub fn on_file(shape: &Shape, environment: Environment, schedule: Schedule) -> Plan {
        let generator = match shape.collective {
            Collective::FileRead => &FILE_READ,
            _ => &FILE_WRITE,
        };
        let (params, time, forced) = (Params::DEFAULT, 0.0, Forced::No);
        let choice = Choice { generator, params, time, forced, shape: *shape, environment };
        Plan { shape: *shape, choice, schedule }
    }

    /// Whether what the ranks that share a cache touch is more than it holds, or nearly so: then copies had
    /// better pass it by.
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
