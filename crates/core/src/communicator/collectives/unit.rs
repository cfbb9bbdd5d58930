//! One unit of tuning: between its operations and the state machine that decides ([`tutti_coll::tune`]).

use std::sync::Arc;

use tutti_base::config::TuneSearch;
use tutti_coll::tune::cycle::Place;
use tutti_coll::tune::{CallForm, Decision, NextStep, Proposal, Rules, Sample, Tuner, search};
use tutti_sys::floating_point::isolated;

use super::learnings::{Learnings, hint_of};
use super::ledger::Ledger;
use super::repertoire::Best;
use crate::inside::{Measuring, Reading};

/// An agreement of the members costs each so much beside the time to start it, in nanoseconds.
const AGREEMENT_NS: i64 = 5000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Unit {
    tuner: Tuner,
    form: CallForm,
    /// The default first; empty until they are needed.
    proposals: Arc<[Proposal]>,
    /// What it is called in what was learned.
    key: String,
    /// The latest operation that was measured from its start.
    open: Option<(u64, Reading)>,
    /// How long its call took, if it is blocking.
    call_ns: Option<u64>,
    /// The loop that its latest operation was in.
    pub lap: u32,
    /// While time inside MPI is needed.
    measuring: Option<Measuring>,
    /// What was said of it last.
    told: Option<Decision>,
}

/// What is known of a unit that comes for the first time.
#[derive(Debug)]
pub(crate) struct News {
    /// What it is called in what was learned.
    pub key: String,
    /// What an earlier run, or the communicator that this one is a duplicate of, has learned.
    pub known: Option<Best>,
    /// Whether anything is tried.
    pub tries: bool,
    /// What is tried next.
    pub search: TuneSearch,
    /// What trying may cost.
    pub rules: Rules,
}

/// What an operation does.
#[derive(Debug, Default)]
pub(crate) struct Says {
    /// What it takes, unless that is what the model chooses.
    pub best: Option<Best>,
    /// Words that it carries along, whose maximum is taken.
    pub words: Option<Vec<u64>>,
    /// What was decided with it.
    pub decided: Option<Decided>,
    /// Whether it is tried, beside the default.
    pub is_trial: bool,
    /// Whether the unit has decided with it, or it is the first of its place in a loop: then no rank goes the
    /// short way.
    pub is_landmark: bool,
}

/// A decision that was just made.
#[derive(Debug)]
pub(crate) struct Decided {
    /// For a person.
    pub explanation: String,
    /// What is to be kept, unless it was known.
    pub learned: Option<(String, String)>,
}

/// What comes of asking a unit.
#[derive(Debug)]
pub(crate) enum UnitAnswer {
    /// The operation does this.
    Says(Says),
    /// It has to wait for the maxima.
    Wait,
    /// The alternatives are needed ([`Unit::provide`]).
    Provide,
}

impl Says {
    /// What is taken, if it is not what the model chooses.
    pub fn proposal(&self) -> Option<&Proposal> {
        self.best.as_ref().and_then(Best::proposal)
    }
}

impl Unit {
    /// A unit that nobody has taken a turn of.
    pub fn new(place: Place, news: News) -> Unit {
        let News { key, known, tries, search, rules } = news;
        let seed = place.key.bytes ^ u64::from(place.occurrence) << 48 ^ (place.key.collective as u64) << 56;
        let strategy = search::strategy(search.name(), seed).expect("every setting names a strategy");
        let (tuner, proposals) = isolated(|| match known {
            Some(Best { proposals, number }) => {
                let alternatives = proposals.iter().map(|proposal| proposal.alternative).collect();
                (Tuner::known(alternatives, strategy, number, rules), proposals)
            }
            None if tries => (Tuner::without_alternatives(strategy, rules), Arc::default()),
            None => (Tuner::idle(strategy, rules), Arc::default()),
        });
        let form = place.key.form;
        Unit { tuner, form, proposals, key, open: None, call_ns: None, lap: 0, measuring: None, told: None }
    }

    /// What there is to choose from, the default first.
    pub fn provide(&mut self, proposals: Arc<[Proposal]>) {
        let alternatives = proposals.iter().map(|proposal| proposal.alternative).collect();
        let is_known = |proposal: &Proposal| self.tuner.agreed_hint() == Some(hint_of(&proposal.label()));
        let known = proposals.iter().position(is_known);
        self.proposals = proposals;
        isolated(|| self.tuner.provide(alternatives, known));
    }

    /// What the next operation does, which was called for at `reading`.
    pub fn turn(
        &mut self,
        place: Place,
        reading: Reading,
        learnings: &Learnings,
        ledger: &mut Ledger,
    ) -> UnitAnswer {
        if let Some((operation, start)) = self.open.take() {
            let inside_ns = reading.inside_ns.saturating_sub(start.inside_ns);
            let sample = Sample {
                inside_ns: self.call_ns.take().unwrap_or(inside_ns),
                period_ns: reading.now_ns.saturating_sub(start.now_ns),
            };
            isolated(|| self.tuner.record(operation, sample));
        }
        if self.tuner.takes_hints()
            && let Some(hint) = learnings.hint(&self.key)
        {
            self.tuner.hint(hint);
        }
        if self.tuner.contributes() {
            self.tuner.account(ledger.account());
        }
        let step = isolated(|| self.tuner.turn());
        ledger.lose(isolated(|| self.tuner.take_lost_ns() as i64));
        let (alternative, operation, words) = match step {
            NextStep::Await => return UnitAnswer::Wait,
            NextStep::Provide => return UnitAnswer::Provide,
            NextStep::Take { alternative, operation, words } => (alternative, operation, words),
        };
        if words.is_some() {
            ledger.lose(AGREEMENT_NS);
        }
        self.call_ns = None;
        self.open = operation.map(|operation| (operation, reading));
        let needs_time = self.form != CallForm::Blocking && self.tuner.free_turns() == 0;
        self.measuring =
            if needs_time { self.measuring.take().or_else(|| Some(Measuring::begin())) } else { None };
        let decided = self.newly_decided(place);
        let is_trial = alternative != 0 && self.tuner.decision().is_none();
        let best =
            (alternative > 0).then(|| Best { proposals: Arc::clone(&self.proposals), number: alternative });
        let is_landmark = decided.is_some();
        UnitAnswer::Says(Says { best, words, decided, is_trial, is_landmark })
    }

    /// Forgets when its latest operation began: others have come between that are not of the loop.
    pub fn forget_open(&mut self) {
        self.open = None;
    }

    /// Its latest operation, a blocking one, took so long.
    pub fn ended(&mut self, call_ns: u64) {
        self.call_ns = Some(call_ns);
    }

    /// How many further operations can be done without a turn, as [`Unit::standing`] says.
    pub fn free_turns(&self) -> u32 {
        // The end of an operation that is measured is the beginning of the next one.
        if self.open.is_some() { 0 } else { self.tuner.free_turns() }
    }

    /// So many operations were done without a turn.
    pub fn skip(&mut self, turns: u32) {
        self.tuner.skip(turns);
    }

    /// What operations do while nothing is tried, unless that is what the model chooses.
    pub fn standing(&self) -> Option<Best> {
        let number = self.tuner.best();
        (number > 0).then(|| Best { proposals: Arc::clone(&self.proposals), number })
    }

    /// Returns true if it keeps to the default for good.
    pub fn rests(&self) -> bool {
        self.decision() == Some(0)
    }

    /// What it has decided on, the default too; `None` where nothing was tried.
    pub fn learned(&self) -> Option<Best> {
        let number = self.decision()?;
        (!self.proposals.is_empty()).then(|| Best { proposals: Arc::clone(&self.proposals), number })
    }

    /// The maxima of what it has contributed.
    pub fn heard(&mut self, words: &[u64]) {
        isolated(|| self.tuner.heard(words));
    }

    /// They could not be taken.
    pub fn give_up(&mut self) {
        self.tuner.give_up();
    }

    /// How it ended, if it has: the proposal that all further operations take.
    pub fn decision(&self) -> Option<usize> {
        self.tuner.decision().map(Decision::alternative)
    }

    /// Returns what was decided since it was last asked.
    fn newly_decided(&mut self, place: Place) -> Option<Decided> {
        let decision = self.tuner.decision()?;
        let was = self.told.replace(decision);
        if was.is_some_and(|was| was.alternative() == decision.alternative()) {
            return None;
        }
        let is_new = match decision {
            Decision::Learned(_) | Decision::OutOfBudget(_) | Decision::Reverted => true,
            Decision::LeftAlone | Decision::Known(_) => false,
        };
        let best = self.proposals.get(decision.alternative()).filter(|_| is_new);
        let learned = best.map(|best| (self.key.clone(), best.label()));
        Some(Decided { explanation: self.explain(place, decision), learned })
    }

    fn explain(&self, place: Place, decision: Decision) -> String {
        let why = match decision {
            Decision::Learned(_) => "was learned",
            Decision::LeftAlone => "stays, as there is little to gain",
            Decision::OutOfBudget(_) => "is the best so far, and trying more would cost too much",
            Decision::Known(_) => "was known",
            Decision::Reverted => "is taken again, as nothing else is quicker any more",
        };
        self.describe(place, decision.alternative(), why)
    }

    /// A sentence on what was decided, and what each alternative that was tried costs an operation.
    pub fn describe(&self, place: Place, number: usize, why: &str) -> String {
        isolated(|| self.sentence(place, number, why))
    }

    fn sentence(&self, place: Place, number: usize, why: &str) -> String {
        let Place { key, occurrence } = place;
        let name = |number: usize| match self.proposals.get(number) {
            Some(Proposal { choice, manner, .. }) => {
                format!("{} ({}, {manner})", choice.generator.name, choice.params)
            }
            None => "what the model chooses".to_string(),
        };
        let mut text = format!(
            "{} {} of {} bytes (number {} in its loop): {} {why}.",
            key.form.name(),
            key.collective,
            key.bytes,
            occurrence + 1,
            name(number),
        );
        for number in 0..self.proposals.len() {
            if let Some(price_ns) = self.tuner.price_ns(number).filter(|price| price.is_finite()) {
                text += &format!(" {}: {:.1} us.", name(number), price_ns / 1e3);
            }
        }
        text
    }
}
