//! Tuning of what a program repeats (S11): between a communicator's operations and [`tutti_coll::tune`],
//! which decides.
//!
//! One unit of a communicator explores at a time, in the order in which units come up: what one tries would
//! disturb what the others measure.

use std::collections::HashMap;
use std::sync::Arc;

use tutti_base::config::{Tune, TuneSearch};
use tutti_coll::Shape;
use tutti_coll::tune::cycle::{Cycle, Place};
use tutti_coll::tune::{CallForm, Decision, NextStep, Proposal, Rules, Sample, Tuner, UnitKey, search};
use tutti_sys::floating_point::isolated;

use super::learnings::Learnings;
use super::words::Words;
use crate::inside::Reading;

/// Units of one communicator; more are done by default.
const MOST_UNITS: usize = 256;
/// Who explores and does not come again for so many operations lets others explore.
const ABSENT: u64 = 256;

/// What a communicator knows of its units.
#[derive(Debug)]
pub(crate) struct Tuning {
    /// What was asked for when the first operation came; what is asked for later begins anew.
    mode: Tune,
    cycle: Cycle,
    units: HashMap<Place, Unit>,
    /// Who explores.
    active: Option<Place>,
    operations: u64,
    /// By their positions in a cycle that has been gone through for so long that the next operation changes
    /// nothing: the calls that are decided on. They may be done again so without asking.
    steady: Vec<Option<Steady>>,
    /// Which of them comes next.
    next: usize,
}

/// A call and what was decided on it.
#[derive(Debug)]
struct Steady {
    form: CallForm,
    words: Words,
    proposals: Arc<[Proposal]>,
    number: usize,
}

/// One unit: see [`tutti_coll::tune`].
#[derive(Debug)]
pub(crate) struct Unit {
    tuner: Tuner,
    proposals: Arc<[Proposal]>,
    /// What it is called in what was learned.
    key: String,
    /// The latest operation that was measured from its start.
    open: Option<(u64, Reading)>,
    /// How long its call took, if it is blocking.
    call_ns: Option<u64>,
    latest: u64,
}

/// What is known of a unit that comes for the first time.
#[derive(Debug)]
pub(crate) struct News {
    /// What there is to choose from; the default first.
    pub proposals: Vec<Proposal>,
    /// What it is called in what was learned.
    pub key: String,
    /// What an earlier run has learned.
    pub known: Option<usize>,
    /// Whether anything is tried.
    pub tries: bool,
    /// What is tried next.
    pub search: TuneSearch,
}

/// What an operation does.
#[derive(Debug)]
pub(crate) enum Says {
    /// What the model chooses.
    Default,
    /// This proposal; and it carries these words along.
    Take {
        /// Of these
        proposals: Arc<[Proposal]>,
        /// this one.
        number: usize,
        /// Words whose maximum is taken.
        words: Option<Vec<u64>>,
        /// What was decided with it.
        decided: Option<Decided>,
        /// Whether it is tried, beside the default.
        is_trial: bool,
    },
}

/// A decision that was just made.
#[derive(Debug)]
pub(crate) struct Decided {
    /// For a person.
    pub explanation: String,
    /// What is to be kept, unless it was known.
    pub learned: Option<(String, String)>,
}

impl Says {
    /// What is taken, if it is not what the model chooses.
    pub fn proposal(&self) -> Option<&Proposal> {
        match self {
            Says::Default => None,
            Says::Take { proposals, number, .. } => Some(&proposals[*number]),
        }
    }

    /// Whether something is tried.
    pub fn is_trial(&self) -> bool {
        matches!(self, Says::Take { is_trial: true, .. })
    }
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            mode: Tune::Off,
            cycle: Cycle::default(),
            units: HashMap::new(),
            active: None,
            operations: 0,
            steady: Vec::new(),
            next: 0,
        }
    }
}

impl Tuning {
    /// Which unit an operation belongs to that is called for now. With another mode than before it begins
    /// anew.
    pub fn place(&mut self, mode: Tune, shape: &Shape, form: CallForm) -> Place {
        if mode != self.mode {
            *self = Tuning { mode, ..Tuning::default() };
        }
        self.catch_up();
        let place = self.cycle.next(UnitKey::of(shape, form));
        if !self.cycle.is_full() {
            self.steady.clear();
        }
        self.next = self.cycle.following_position();
        place
    }

    /// An operation is called for that is not tuned.
    pub fn interrupt(&mut self) {
        self.catch_up();
        self.steady.clear();
    }

    /// Whether a unit is known, or will not be.
    pub fn is_known(&self, place: Place) -> bool {
        self.units.contains_key(&place) || self.units.len() >= MOST_UNITS
    }

    /// A new unit.
    pub fn add(&mut self, place: Place, news: News) {
        self.units.insert(place, Unit::new(place, news));
    }

    /// The maxima of what a unit has contributed.
    pub fn heard(&mut self, place: Place, words: &[u64]) {
        if let Some(unit) = self.units.get_mut(&place) {
            unit.heard(words);
        }
    }

    /// The maxima of a unit could not be taken.
    pub fn give_up(&mut self, place: Place) {
        if let Some(unit) = self.units.get_mut(&place) {
            unit.give_up();
        }
    }

    /// What an operation does that was called for at `reading`; `None` if it has to wait for the maxima.
    pub fn turn(&mut self, place: Place, reading: Reading, learnings: &Learnings) -> Option<Says> {
        if let Some(active) = self.active
            && active != place
            && self.units.get(&active).is_none_or(|unit| unit.latest + ABSENT < self.operations)
        {
            self.active = None;
        }
        let Some(unit) = self.units.get_mut(&place) else {
            self.operations += 1;
            return Some(Says::Default);
        };
        if let Some(decision) = unit.tuner.decision() {
            self.operations += 1;
            return Some(unit.take(decision.alternative(), None, None));
        }
        if *self.active.get_or_insert(place) != place {
            self.operations += 1;
            return Some(Says::Default);
        }
        let says = unit.turn(place, reading, learnings)?;
        self.operations += 1;
        unit.latest = self.operations;
        if unit.tuner.decision().is_some() {
            self.active = None;
        }
        Some(says)
    }

    /// The blocking operation that was just begun is over after so long. `words` name it, if it may be done
    /// again by them.
    pub fn ended(&mut self, place: Place, call_ns: u64, words: Option<Words>) {
        if let Some(unit) = self.units.get_mut(&place) {
            unit.call_ns = Some(call_ns);
        }
        if let Some(words) = words {
            self.settle(place, words);
        }
    }

    /// The operation that was told of last has begun, and these words name it: whether it may be done again by
    /// them.
    pub fn settle(&mut self, place: Place, words: Words) {
        let Some(unit) = self.units.get(&place).filter(|_| self.cycle.is_full()) else { return };
        let Some(decision) = unit.tuner.decision() else { return };
        let (proposals, number) = (Arc::clone(&unit.proposals), decision.alternative());
        self.steady.resize_with(self.cycle.period(), || None);
        self.steady[self.cycle.position()] = Some(Steady { form: place.key.form, words, proposals, number });
    }

    /// A sentence on each unit that is still being tried.
    pub fn undecided(&self) -> impl Iterator<Item = String> {
        let open = self.units.iter().filter(|(_, unit)| unit.tuner.decision().is_none());
        open.map(|(place, unit)| {
            unit.describe(*place, 0, "is what it began with, and nothing is decided yet")
        })
    }

    /// How a call is to be done that may be done again as it was.
    #[inline]
    pub fn steady(&self, form: CallForm, words: &Words) -> Option<&Proposal> {
        let steady = self.steady.get(self.next)?.as_ref()?;
        (steady.form == form && steady.words == *words).then(|| &steady.proposals[steady.number])
    }

    /// It was done again.
    #[inline]
    pub fn repeated(&mut self) {
        self.operations += 1;
        self.next = if self.next + 1 < self.steady.len() { self.next + 1 } else { 0 };
    }

    /// The cycle hears of what was done again.
    fn catch_up(&mut self) {
        if !self.steady.is_empty() {
            self.cycle.go_on_to(self.next);
        }
    }
}

impl Unit {
    /// A unit that nobody has taken a turn of.
    pub fn new(place: Place, news: News) -> Unit {
        let News { proposals, key, known, tries, search } = news;
        let mut alternatives: Vec<_> = proposals.iter().map(|proposal| proposal.alternative).collect();
        let seed = place.key.bytes ^ u64::from(place.occurrence) << 48 ^ (place.key.collective as u64) << 56;
        let strategy = search::strategy(search.name(), seed).expect("every setting names a strategy");
        let tuner = isolated(|| match known {
            Some(best) => Tuner::known(alternatives, strategy, best),
            None => {
                if !tries {
                    alternatives.truncate(1);
                }
                Tuner::new(alternatives, strategy, Rules::default())
            }
        });
        Unit { tuner, proposals: proposals.into(), key, open: None, call_ns: None, latest: 0 }
    }

    /// What the next operation does, which was called for at `reading`; `None` if it has to wait.
    pub fn turn(&mut self, place: Place, reading: Reading, learnings: &Learnings) -> Option<Says> {
        if let Some((operation, start)) = self.open.take() {
            let inside_ns = reading.inside_ns.saturating_sub(start.inside_ns);
            let sample = Sample {
                inside_ns: self.call_ns.take().unwrap_or(inside_ns),
                period_ns: reading.now_ns.saturating_sub(start.now_ns),
            };
            isolated(|| self.tuner.record(operation, sample));
        }
        if self.tuner.takes_hints()
            && let Some(hint) = learnings.hint(&self.key, &self.proposals)
        {
            isolated(|| self.tuner.hint(hint));
        }
        let was_decided = self.tuner.decision().is_some();
        let step = isolated(|| self.tuner.turn());
        let NextStep::Take { alternative, operation, words } = step else { return None };
        self.open = Some((operation, reading));
        let decided = self.tuner.decision().filter(|_| !was_decided);
        let decided = decided.map(|decision| self.decided(place, decision));
        Some(self.take(alternative, words, decided))
    }

    /// The maxima of what it has contributed.
    pub fn heard(&mut self, words: &[u64]) {
        isolated(|| self.tuner.heard(words));
    }

    /// They could not be taken.
    pub fn give_up(&mut self) {
        isolated(|| self.tuner.give_up());
    }

    /// How it ended, if it has: the proposal that all further operations take.
    pub fn decision(&self) -> Option<usize> {
        self.tuner.decision().map(Decision::alternative)
    }

    fn take(&self, number: usize, words: Option<Vec<u64>>, decided: Option<Decided>) -> Says {
        let is_trial = number != 0 && self.tuner.decision().is_none();
        Says::Take { proposals: Arc::clone(&self.proposals), number, words, decided, is_trial }
    }

    fn decided(&self, place: Place, decision: Decision) -> Decided {
        let best = &self.proposals[decision.alternative()];
        let learned = match decision {
            Decision::Learned(_) | Decision::OutOfBudget(_) => Some((self.key.clone(), best.label())),
            Decision::LeftAlone | Decision::Known(_) => None,
        };
        Decided { explanation: self.explain(place, decision), learned }
    }

    fn explain(&self, place: Place, decision: Decision) -> String {
        let why = match decision {
            Decision::Learned(_) => "was learned",
            Decision::LeftAlone => "stays, as the program spends little time in it",
            Decision::OutOfBudget(_) => "is the best so far, and trying more would cost too much",
            Decision::Known(_) => "was known",
        };
        self.describe(place, decision.alternative(), why)
    }

    /// A sentence on what was decided, and what each alternative that was tried costs an operation.
    fn describe(&self, place: Place, number: usize, why: &str) -> String {
        isolated(|| self.sentence(place, number, why))
    }

    fn sentence(&self, place: Place, number: usize, why: &str) -> String {
        let Place { key, occurrence } = place;
        let name = |proposal: &Proposal| {
            let Proposal { choice, manner, .. } = proposal;
            format!("{} ({}, {manner})", choice.generator.name, choice.params)
        };
        let mut text = format!(
            "{} {} of {} bytes (number {} in its loop): {} {why}.",
            key.form.name(),
            key.collective,
            key.bytes,
            occurrence + 1,
            name(&self.proposals[number]),
        );
        for (number, proposal) in self.proposals.iter().enumerate() {
            if let Some(price_ns) = self.tuner.price_ns(number).filter(|price| price.is_finite()) {
                text += &format!(" {}: {:.1} us.", name(proposal), price_ns / 1e3);
            }
        }
        text
    }
}
