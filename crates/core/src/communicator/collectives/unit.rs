//! One unit of tuning: connects its operations with the state machine that decides ([`tutti_coll::tune`]).

use std::sync::Arc;

use tutti_base::config::TuneSearch;
use tutti_coll::explanation::Explanation;
use tutti_coll::tune::cycle::CyclePlace;
use tutti_coll::tune::{CallForm, Decision, NextStep, Proposal, Rules, Sample, Tuner, search};
use tutti_sys::floating_point::isolated;

use super::learnings::{Learnings, hint_of};
use super::ledger::Ledger;
use super::repertoire::Best;
use crate::inside::{Measuring, Reading};

/// Cost of an agreement for each member beside the time to start it, in nanoseconds.
const AGREEMENT_NS: i64 = 5000;

/// Operations at one place of a loop, which are tuned together.
#[derive(Debug)]
pub(crate) struct Unit {
    tuner: Tuner,
    form: CallForm,
    /// Alternatives, the default first; empty until the tuner requests them.
    proposals: Arc<[Proposal]>,
    /// Key of the unit's result in the model file.
    key: String,
    /// Number and start of the latest operation, if it is measured.
    open: Option<(u64, Reading)>,
    /// Duration of its call in nanoseconds, if it is blocking.
    call_ns: Option<u64>,
    /// Number of the loop of its latest operation.
    pub lap: u32,
    /// Guard that keeps time inside MPI measured, while the tuner needs it.
    measuring: Option<Measuring>,
    /// Decision that was reported last.
    told: Option<Decision>,
}

/// Initial state of a unit.
#[derive(Debug)]
pub(crate) struct News {
    /// Key of the unit's result in the model file.
    pub key: String,
    /// Result of an earlier run, or of the original if this communicator is a duplicate.
    pub known: Option<Best>,
    /// True if the unit may try alternatives.
    pub tries: bool,
    /// Strategy that selects the next trials.
    pub search: TuneSearch,
    /// Limits on the cost of trials.
    pub rules: Rules,
}

/// Instruction for one operation.
#[derive(Debug, Default)]
pub(crate) struct Says {
    /// Alternative to use; `None`: the default.
    pub best: Option<Best>,
    /// Contribution of this rank to the maximum over all ranks, if one starts with the operation.
    pub words: Option<Vec<u64>>,
    /// Decision that was made at this operation.
    pub decided: Option<Decided>,
    /// True if the operation is a trial of another alternative than the default.
    pub is_trial: bool,
    /// True if the unit has decided at this operation, or the operation is the first at its place in a
    /// loop. No rank takes the short way at a landmark.
    pub is_landmark: bool,
}

/// New decision of a unit.
#[derive(Debug)]
pub(crate) struct Decided {
    /// Reason that `TUTTI_EXPLAIN` prints.
    pub explanation: Explanation,
    /// Key and label for the model file, unless they were known.
    pub learned: Option<(String, String)>,
}

/// Answer of a unit to a turn.
#[derive(Debug)]
pub(crate) enum UnitAnswer {
    /// Instruction for the operation.
    Says(Says),
    /// The operation has to wait for the maxima.
    Wait,
    /// The alternatives must be provided ([`Unit::provide`]), then the turn is taken again.
    Provide,
}

impl Says {
    /// Returns the alternative to use, or `None` for the default.
    pub fn proposal(&self) -> Option<&Proposal> {
        self.best.as_ref().and_then(Best::proposal)
    }
}

impl Unit {
    /// Creates the unit before its first turn.
    pub fn new(place: CyclePlace, news: News) -> Unit {
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

    /// Sets the alternatives, the default first.
    pub fn provide(&mut self, proposals: Arc<[Proposal]>) {
        let alternatives = proposals.iter().map(|proposal| proposal.alternative).collect();
        let is_known = |proposal: &Proposal| self.tuner.agreed_hint() == Some(hint_of(&proposal.label()));
        let known = proposals.iter().position(is_known);
        self.proposals = proposals;
        isolated(|| self.tuner.provide(alternatives, known));
    }

    /// Takes the turn of the next operation. `reading` is the time of its call.
    pub fn turn(
        &mut self,
        place: CyclePlace,
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

    /// Discards the measurement of the latest operation, because operations outside of the loop came
    /// between.
    pub fn forget_open(&mut self) {
        self.open = None;
    }

    /// Sets the duration of the latest operation, a blocking one.
    pub fn ended(&mut self, call_ns: u64) {
        self.call_ns = Some(call_ns);
    }

    /// Returns the number of further operations that may use [`Unit::standing`] without a turn.
    pub fn free_turns(&self) -> u32 {
        // The end of an operation that is measured is the beginning of the next one.
        if self.open.is_some() { 0 } else { self.tuner.free_turns() }
    }

    /// Counts operations without a turn.
    pub fn skip(&mut self, turns: u32) {
        self.tuner.skip(turns);
    }

    /// Returns the alternative that operations use while nothing is tried, or `None` for the default.
    pub fn standing(&self) -> Option<Best> {
        let number = self.tuner.best();
        (number > 0).then(|| Best { proposals: Arc::clone(&self.proposals), number })
    }

    /// Returns true if the unit has decided for the default.
    pub fn rests(&self) -> bool {
        self.decision() == Some(0)
    }

    /// Returns the alternative decided on, which may be the default, or `None` if nothing was tried.
    pub fn learned(&self) -> Option<Best> {
        let number = self.decision()?;
        (!self.proposals.is_empty()).then(|| Best { proposals: Arc::clone(&self.proposals), number })
    }

    /// Receives the maxima of all ranks' contributions.
    pub fn heard(&mut self, words: &[u64]) {
        isolated(|| self.tuner.heard(words));
    }

    /// Keeps the default for good, because the maxima could not be computed.
    pub fn give_up(&mut self) {
        self.tuner.give_up();
    }

    /// Returns the index of the alternative decided on, if there is a decision.
    pub fn decision(&self) -> Option<usize> {
        self.tuner.decision().map(Decision::alternative)
    }

    /// Returns the decision if it is new since the previous call.
    fn newly_decided(&mut self, place: CyclePlace) -> Option<Decided> {
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

    /// Explains a decision.
    fn explain(&self, place: CyclePlace, decision: Decision) -> Explanation {
        let why = match decision {
            Decision::Learned(_) => "learned while the program ran",
            Decision::LeftAlone => "kept, as there is little to gain",
            Decision::OutOfBudget(_) => "the best so far, as trying more would cost too much",
            Decision::Known(_) => "known from an earlier run",
            Decision::Reverted => "taken again, as nothing else is quicker any more",
        };
        self.describe(place, decision.alternative(), why)
    }

    /// Explains an alternative by the reason `why`. The candidates are the alternatives that were tried, with
    /// the time of an operation.
    pub fn describe(&self, place: CyclePlace, number: usize, why: &str) -> Explanation {
        isolated(|| self.explanation(place, number, why))
    }

    /// Makes the explanation, with floating-point numbers.
    fn explanation(&self, place: CyclePlace, number: usize, why: &str) -> Explanation {
        let CyclePlace { key, occurrence } = place;
        let name = |number: usize| match self.proposals.get(number) {
            Some(Proposal { choice, manner, .. }) => format!("{}, {manner}", choice.described()),
            None => "the choice of the model".to_string(),
        };
        let (form, collective, bytes) = (key.form.name(), key.collective, key.bytes);
        let sentence = format!(
            "{form} {collective} of {bytes} bytes, operation {} of the loop: {}, {why}",
            occurrence + 1,
            name(number)
        );
        let price = |number: usize| self.tuner.price_ns(number).filter(|price| price.is_finite());
        let tried = (0..self.proposals.len()).filter_map(|number| Some((name(number), price(number)? / 1e9)));
        let mut candidates: Vec<(String, f64)> = tried.collect();
        candidates.sort_by(|one, two| one.1.total_cmp(&two.1));
        Explanation { sentence, candidates, short: 4 }
    }
}
