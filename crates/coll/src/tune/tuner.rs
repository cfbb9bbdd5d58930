//! The state machine of one unit: which alternative comes next, what has been measured, what was agreed on.

use std::collections::VecDeque;

use super::proof::{self, Proof, Verdict};
use super::search::{Block, Known, Strategy};
use super::statistics::summary;
use super::step::{Account, Decision, NextStep, Rules, Sample};
use super::{Alternative, Attributes};

/// See the module.
#[derive(Debug)]
pub struct Tuner {
    rules: Rules,
    alternatives: Vec<Alternative>,
    strategy: Box<dyn Strategy>,
    /// Whether the alternatives are there; before that there is the default alone.
    is_complete: bool,
    phase: Phase,
    operations: u64,
    /// Operations whose samples have not come, with what they are for.
    open: VecDeque<(u64, Use)>,
    /// Of this rank.
    own: Vec<Own>,
    account: Account,
    /// The shortest operation with each alternative on this rank, in nanoseconds.
    least_ns: Vec<u64>,
    /// By how much the trials of this rank since it was last agreed took longer than the default.
    excess_ns: f64,
    agreed: Agreed,
    /// Loss that the program has not been told of yet, in nanoseconds.
    untold_ns: f64,
    /// The comparison that is under way.
    proof: Option<Proof>,
    /// Operations until what was decided on is proved again, and after that; 0: never.
    guard: [u32; 2],
    /// What the strategy wants to be tried, not begun yet.
    wanted: VecDeque<Block>,
    /// What would have cost too much when its turn came: tried at the end if the budget has grown.
    postponed: Vec<Block>,
    late: Late,
    /// Whether something is never tried.
    leaves_out: bool,
    /// Whether the memory is touched that [`Alternative::once_ns`] is about.
    is_touched: bool,
    /// What is tried or has just been, and not agreed on.
    chunk: Vec<Block>,
    /// Operations with each alternative that were measured.
    measured: Vec<u32>,
    /// Maxima that have come before the operation from which on they count, which is the same on all ranks.
    news: Option<Vec<u64>>,
    /// Stands for what this rank knows from elsewhere, and once it is agreed on for what all ranks know; or
    /// 0.
    hint: u64,
    /// What operations cost as far as that is agreed on, and the best of them.
    prices: Vec<Option<f64>>,
    best: usize,
}

#[derive(Debug)]
enum Phase {
    /// The best so far is taken so many times more; then the words are contributed.
    Staying(u32),
    /// The next operations.
    Trying(VecDeque<Use>),
    /// The words are on their way; the best so far is taken so many times more.
    Contributed(u32),
    /// The alternatives are needed.
    Wanting,
    Decided(Decision),
}

/// What an operation is measured for.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// This alternative, and whether it counts.
    Sample(usize, bool),
    /// The comparison that is under way.
    Proof(proof::Turn),
}

/// What comes after all that the strategy wanted and that was not postponed.
#[derive(Debug)]
enum Late {
    Not,
    /// What was postponed is tried; the best before it, and these.
    Tried(Vec<usize>),
    /// Those that are nearly as good are measured as often as the best before.
    Compared(Vec<usize>),
}

/// Samples of one alternative, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Own {
    inside: Vec<u64>,
    outside: Vec<u64>,
}

/// What all ranks know.
#[derive(Debug, Default)]
struct Agreed {
    elapsed_ns: f64,
    /// What tuning has lost in the program; less than nothing where it has gained.
    program_lost_ns: f64,
    finding_ns: f64,
    inside: Vec<Option<f64>>,
    outside: Vec<Option<f64>>,
    /// What this unit has lost beside the default; less than nothing where it has gained.
    lost_ns: f64,
    /// Operations of the unit when it was agreed on.
    operations: u64,
}

/// Samples that are kept of an alternative.
const MOST_SAMPLES: usize = 128;
/// A trial that takes longer than so many times the least was disturbed, and counts as that for what is lost.
const MOST_TIMES: u64 = 3;
/// Operations in the air; older ones have lost their samples.
const MOST_OPEN: usize = 256;
/// Until something is known, an alternative is taken to be slower than the default by at least this part;
const LEAST_EXCESS: f64 = 1.0;
/// what the model expects may be so many times as long.
const RISK: f64 = 1.5;
/// What was not measured more often is not what operations take while nothing is tried.
const FEW_SAMPLES: u32 = 4;
/// The first samples of an alternative may be so many times as long as later ones.
const COLD: f64 = 2.0;
/// So many samples stand by themselves, without those from before.
const LEAST_ANEW: u32 = 16;
/// Samples of each, when one that was tried late is nearly as good as the best.
const LATE_SAMPLES: u32 = 24;
/// Nearly as good: by its first samples within this of the best.
const NEARLY: f64 = 1.5;
/// What fits into the budget only when the loop has gone on for so many times as long as so far is postponed,
/// or in the end not tried.
const MOST_WAIT: f64 = 16.0;
/// The best so far goes on at most so long, or as long as so far, until it is looked at the budget again.
const MOST_STAYING: u64 = 4096;
/// The time outside MPI differs if it does so by this part of the least.
const OUTSIDE_PART: f64 = 0.05;
/// Words before those of alternatives: the time so far, to the greatest number; what tuning has lost in the
/// program; what finding the alternatives takes; by how much trials took longer, above [`ZERO`]; the hint,
/// and what is left of it to the greatest number, so that the maxima say whether all ranks have the same.
const HEADER: usize = 6;
/// Stands for no difference between times.
const ZERO: u64 = 1 << 62;
/// Operations after a decision until it is proved again; then twice as many, and so on.
const GUARDED: u32 = 512;

impl Tuner {
    /// For these alternatives; the first is the default. There must be one at least.
    pub fn new(alternatives: Vec<Alternative>, strategy: Box<dyn Strategy>, rules: Rules) -> Tuner {
        assert!(!alternatives.is_empty(), "an operation can be done in some way");
        let number = alternatives.len();
        let agreed = Agreed { inside: vec![None; number], outside: vec![None; number], ..Agreed::default() };
        let phase = if number == 1 {
            Phase::Decided(Decision::LeftAlone)
        } else {
            Phase::Staying(rules.settled + rules.observed + alternatives[0].warm_up)
        };
        Tuner {
            rules,
            alternatives,
            strategy,
            is_complete: true,
            phase,
            operations: 0,
            open: VecDeque::new(),
            own: vec![Own::default(); number],
            account: Account::default(),
            least_ns: vec![u64::MAX; number],
            excess_ns: 0.0,
            agreed,
            untold_ns: 0.0,
            proof: None,
            guard: [0; 2],
            wanted: VecDeque::new(),
            postponed: Vec::new(),
            late: Late::Not,
            leaves_out: false,
            is_touched: false,
            chunk: Vec::new(),
            measured: vec![0; number],
            news: None,
            hint: 0,
            prices: vec![None; number],
            best: 0,
        }
    }

    /// For a unit whose alternatives are asked for once it is worth it ([`NextStep::Provide`]).
    pub fn without_alternatives(strategy: Box<dyn Strategy>, rules: Rules) -> Tuner {
        let default =
            Alternative { attributes: Attributes::default(), prior_s: 0.0, warm_up: 1, once_ns: 0.0 };
        let phase = Phase::Staying(rules.settled + rules.observed + default.warm_up);
        Tuner { is_complete: false, phase, ..Tuner::new(vec![default], strategy, rules) }
    }

    /// For a unit that keeps to the default.
    pub fn idle(strategy: Box<dyn Strategy>, rules: Rules) -> Tuner {
        Tuner { phase: Phase::Decided(Decision::LeftAlone), ..Tuner::without_alternatives(strategy, rules) }
    }

    /// For a unit of which an earlier run knows the best.
    pub fn known(
        alternatives: Vec<Alternative>,
        strategy: Box<dyn Strategy>,
        best: usize,
        rules: Rules,
    ) -> Tuner {
        assert!(best < alternatives.len(), "it is one of them");
        let mut tuner = Tuner::new(alternatives, strategy, rules);
        tuner.phase = tuner.decided(Decision::Known(best));
        tuner
    }

    /// How it ended, if it has.
    pub fn decision(&self) -> Option<Decision> {
        match self.phase {
            Phase::Decided(decision) => Some(decision),
            _ => None,
        }
    }

    /// What operations take while nothing is tried.
    pub fn best(&self) -> usize {
        self.decision().map_or(self.best, Decision::alternative)
    }

    /// What an operation with this alternative costs as agreed on, in nanoseconds.
    pub fn price_ns(&self, alternative: usize) -> Option<f64> {
        self.prices[alternative]
    }

    /// Whether the next turn contributes the first words: the last moment for a [`Tuner::hint`].
    pub fn takes_hints(&self) -> bool {
        matches!(self.phase, Phase::Staying(0)) && self.agreed.operations == 0
    }

    /// Stands for what this rank knows of an equal unit elsewhere; not 0. If all ranks have given the same
    /// when they first contribute, [`Tuner::agreed_hint`] has it when the alternatives are asked for.
    pub fn hint(&mut self, hint: u64) {
        self.hint = hint;
    }

    /// Returns the hint that all ranks have.
    pub fn agreed_hint(&self) -> Option<u64> {
        (self.agreed.operations > 0 && self.hint != 0).then_some(self.hint)
    }

    /// Whether the next turn contributes words, for which the account has to be there.
    pub fn contributes(&self) -> bool {
        matches!(self.phase, Phase::Staying(0))
    }

    /// What this rank knows of the program, for the next words.
    pub fn account(&mut self, account: Account) {
        self.account = account;
    }

    /// Takes what was lost since it was last asked, in nanoseconds; less than nothing where something was
    /// gained.
    pub fn take_lost_ns(&mut self) -> f64 {
        std::mem::take(&mut self.untold_ns)
    }

    /// What there is to choose from, the default first, and which is known to be the best; equal on all
    /// ranks.
    pub fn provide(&mut self, alternatives: Vec<Alternative>, known: Option<usize>) {
        assert!(!self.is_complete && !alternatives.is_empty(), "they were asked for");
        let number = alternatives.len();
        self.is_complete = true;
        self.alternatives = alternatives;
        self.own.resize(number, Own::default());
        self.least_ns.resize(number, u64::MAX);
        self.measured.resize(number, 0);
        self.prices.resize(number, None);
        self.agreed.inside.resize(number, None);
        self.agreed.outside.resize(number, None);
        // All ranks debit what all ranks have agreed that it takes; what it really takes is in the next
        // words.
        self.agreed.program_lost_ns += self.agreed.finding_ns;
        self.phase = match (known, number) {
            (Some(best), _) => self.decided(Decision::Known(best)),
            (None, 1) => Phase::Decided(Decision::LeftAlone),
            (None, _) => self.next_phase(),
        };
    }

    /// Returns how many further operations can be done as [`Tuner::best`] says without a turn.
    pub fn free_turns(&self) -> u32 {
        match &self.phase {
            // Time inside MPI is measured from the turn before the first one that is observed.
            Phase::Staying(left) if self.agreed.operations == 0 => {
                left.saturating_sub(self.rules.observed + 1)
            }
            Phase::Staying(left) => *left,
            // The last one begins to prove again.
            Phase::Decided(_) if self.guard[0] > 0 => self.guard[0] - 1,
            Phase::Decided(_) => u32::MAX,
            Phase::Trying(_) | Phase::Contributed(_) | Phase::Wanting => 0,
        }
    }

    /// So many operations were done without a turn, of those that could.
    pub fn skip(&mut self, turns: u32) {
        debug_assert!(turns <= self.free_turns(), "no more than were free");
        match &mut self.phase {
            Phase::Staying(left) => *left = left.saturating_sub(turns),
            Phase::Decided(_) => self.guard[0] = self.guard[0].saturating_sub(turns),
            Phase::Trying(_) | Phase::Contributed(_) | Phase::Wanting => return,
        }
        self.operations += u64::from(turns);
    }

    /// What the next operation does. Equal on all ranks that have taken as many turns.
    pub fn turn(&mut self) -> NextStep {
        if let Phase::Contributed(0) = self.phase {
            match self.news.take() {
                Some(words) => self.agree(&words),
                None => return NextStep::Await,
            }
        }
        if let Phase::Wanting = self.phase {
            return NextStep::Provide;
        }
        if self.is_guard_due() {
            self.begin_proof(self.best(), true);
        }
        let best = self.best();
        let mut words = None;
        let what = match &mut self.phase {
            Phase::Decided(_) | Phase::Wanting => None,
            Phase::Contributed(left) => {
                *left -= 1;
                None
            }
            Phase::Trying(next) => {
                let turn = next.pop_front().expect("a chunk that is over is no phase");
                if next.is_empty() {
                    self.phase = Phase::Staying(self.rules.lag);
                }
                Some(turn)
            }
            Phase::Staying(0) => {
                self.phase = Phase::Contributed(self.rules.lag);
                words = Some(self.words());
                None
            }
            Phase::Staying(left) => {
                *left -= 1;
                // Before anything was tried it is the default that is observed, once it is warm.
                let is_observed = self.agreed.operations == 0 && *left < self.rules.observed;
                is_observed.then_some(Use::Sample(best, true))
            }
        };
        let number = self.operations;
        self.operations += 1;
        let Some(what) = what else { return NextStep::Take { alternative: best, operation: None, words } };
        let alternative = match (what, &self.proof) {
            (Use::Proof(turn), Some(proof)) => proof.taken_by(turn),
            (Use::Proof(_), None) => best,
            (Use::Sample(alternative, counts), _) => {
                self.measured[alternative] += u32::from(counts);
                alternative
            }
        };
        self.is_touched |= self.once_ns(alternative) > 0.0;
        if self.open.len() == MOST_OPEN {
            self.open.pop_front();
        }
        self.open.push_back((number, what));
        NextStep::Take { alternative, operation: Some(number), words }
    }

    /// What an operation of this rank took.
    pub fn record(&mut self, operation: u64, sample: Sample) {
        let Some(place) = self.open.iter().position(|open| open.0 == operation) else { return };
        let (_, what) = self.open.remove(place).expect("it was just there");
        match what {
            Use::Proof(turn) => {
                if let Some(proof) = &mut self.proof {
                    proof.record(turn, sample.period_ns);
                }
            }
            Use::Sample(alternative, counts) => {
                let least_ns = &mut self.least_ns[alternative];
                *least_ns = sample.inside_ns.min(*least_ns);
                if alternative > 0 {
                    let inside_ns = sample.inside_ns.min(least_ns.saturating_mul(MOST_TIMES));
                    let default_ns = self.own[0].mean_inside_ns().unwrap_or(0.0);
                    self.excess_ns += inside_ns as f64 - default_ns;
                }
                let own = &mut self.own[alternative];
                if counts && own.inside.len() < MOST_SAMPLES {
                    own.inside.push(sample.inside_ns);
                    own.outside.push(sample.period_ns.saturating_sub(sample.inside_ns));
                }
            }
        }
    }

    /// The element-wise maximum over all ranks of what they have contributed.
    pub fn heard(&mut self, words: &[u64]) {
        if let Phase::Contributed(_) = self.phase {
            self.news = Some(words.to_vec());
        }
    }

    /// The maxima will never come: the default stays.
    pub fn give_up(&mut self) {
        self.phase = Phase::Decided(Decision::LeftAlone);
    }

    /// Takes the maxima into account.
    fn agree(&mut self, words: &[u64]) {
        let reported = self.reported();
        let of_proof = if self.proof.is_some() { proof::WORDS } else { 0 };
        assert_eq!(words.len(), HEADER + 2 * reported.len() + of_proof, "ranks contribute the same words");
        let is_first = self.agreed.operations == 0;
        if is_first {
            self.hint = if words[4] == u64::MAX - words[5] { words[4] } else { 0 };
        }
        let lost_ns = words[3].cast_signed().saturating_sub(ZERO.cast_signed()) as f64;
        self.agreed.elapsed_ns = (u64::MAX - words[0]) as f64;
        self.agreed.program_lost_ns = (words[1] as f64 + lost_ns).max(0.0);
        self.agreed.finding_ns = words[2] as f64;
        self.agreed.lost_ns += lost_ns;
        self.untold_ns += lost_ns;
        let (of_samples, of_proof) = words[HEADER..].split_at(2 * reported.len());
        for (place, pair) in reported.iter().zip(of_samples.chunks_exact(2)) {
            // Nobody has a sample: it will not be taken.
            let inside = if pair[0] == 0 { f64::INFINITY } else { pair[0] as f64 };
            (self.agreed.inside[*place], self.agreed.outside[*place]) = (Some(inside), Some(pair[1] as f64));
        }
        self.agreed.operations = self.operations;
        self.prices = self.new_prices();
        for block in std::mem::take(&mut self.chunk) {
            self.forget_taste(block.alternative);
        }
        if self.proof.is_some() {
            self.phase = self.judged(of_proof);
            return;
        }
        self.best = self.well_known_best();
        self.phase = self.next_phase();
    }

    /// Goes on as a comparison says.
    fn judged(&mut self, words: &[u64]) -> Phase {
        let mut proof = self.proof.take().expect("only one that is under way is judged");
        let alternative = proof.alternative;
        match (proof.judge(words), proof.is_guard) {
            (Verdict::Open, _) => {
                let turns = proof.turns().into_iter().map(Use::Proof).collect();
                self.proof = Some(proof);
                Phase::Trying(turns)
            }
            (Verdict::Slower, true) => self.decided(Decision::Reverted),
            (_, true) | (Verdict::Quicker, false) => {
                let best = alternative;
                self.decided(if self.leaves_out {
                    Decision::OutOfBudget(best)
                } else {
                    Decision::Learned(best)
                })
            }
            (Verdict::Slower | Verdict::Alike, false) => self.decided(Decision::Learned(0)),
        }
    }

    /// Ends with a decision, which is proved again after some time if it is not for the default.
    fn decided(&mut self, decision: Decision) -> Phase {
        self.best = decision.alternative();
        let waits = self.guard[1].saturating_mul(2).max(GUARDED);
        self.guard = if self.rules.guards && self.best > 0 { [waits; 2] } else { [0; 2] };
        Phase::Decided(decision)
    }

    /// Whether the next operation begins to prove again what was decided.
    fn is_guard_due(&mut self) -> bool {
        if !matches!(self.phase, Phase::Decided(_)) || self.guard[0] == 0 {
            return false;
        }
        self.guard[0] -= 1;
        self.guard[0] == 0
    }

    /// Compares an alternative with the default.
    fn begin_proof(&mut self, alternative: usize, is_guard: bool) {
        self.best = alternative;
        let proof = Proof::new(alternative, is_guard);
        self.phase = Phase::Trying(proof.turns().into_iter().map(Use::Proof).collect());
        self.proof = Some(proof);
    }

    /// Returns how many words are contributed now.
    #[cfg(test)]
    pub(super) fn words_now(&self) -> usize {
        HEADER + 2 * self.reported().len() + if self.proof.is_some() { proof::WORDS } else { 0 }
    }

    /// Whose words are contributed: the default's, and those of what was just tried.
    fn reported(&self) -> Vec<usize> {
        let mut reported = vec![0];
        for block in &self.chunk {
            if !reported.contains(&block.alternative) {
                reported.push(block.alternative);
            }
        }
        reported
    }

    fn words(&mut self) -> Vec<u64> {
        let number = |samples: &[u64]| {
            // Of a few first samples most may be disturbed, or cold.
            let few = samples.len() < FEW_SAMPLES as usize;
            let least = samples.iter().min().map(|ns| *ns as f64);
            let said = if few { least } else { summary(samples, self.rules.filter) };
            said.map_or(0, |ns| (ns as u64).max(1))
        };
        let of = |place: usize| [number(&self.own[place].inside), number(&self.own[place].outside)];
        let hint = self.hint;
        self.excess_ns += self.proof.as_ref().map_or(0.0, Proof::excess_ns);
        let excess = ZERO.saturating_add_signed(std::mem::take(&mut self.excess_ns) as i64);
        let Account { elapsed_ns, lost_ns, finding_ns } = self.account;
        let header = [u64::MAX - elapsed_ns, lost_ns, finding_ns, excess, hint, u64::MAX - hint];
        let of_samples = self.reported().into_iter().flat_map(of);
        let of_proof = self.proof.iter().flat_map(Proof::words);
        header.into_iter().chain(of_samples).chain(of_proof).collect()
    }

    /// The best of what was measured often enough.
    fn well_known_best(&self) -> usize {
        let known = Known { alternatives: &self.alternatives, prices: &self.prices };
        let is_known = |place: &usize| self.prices[*place].is_some() && self.measured[*place] >= FEW_SAMPLES;
        known.best_of(&(0..self.prices.len()).filter(is_known).collect::<Vec<_>>()).unwrap_or(0)
    }

    /// The first few samples of an alternative were not warm; what they say is agreed on.
    fn forget_taste(&mut self, alternative: usize) {
        if self.measured[alternative] < FEW_SAMPLES {
            self.own[alternative] = Own::default();
        }
    }

    /// What is measured anew at least half as often as before is judged by that alone: the first samples of
    /// all were taken while caches and memory had to come.
    fn forget_old(&mut self) {
        for Block { alternative, keep, .. } in &self.chunk {
            let own = &mut self.own[*alternative];
            if *keep >= LEAST_ANEW && 2 * *keep as usize >= own.inside.len() {
                *own = Own::default();
            }
        }
    }

    fn next_phase(&mut self) -> Phase {
        let (Some(inside), Some(outside)) = (self.agreed.inside[0], self.agreed.outside[0]) else {
            return Phase::Decided(Decision::LeftAlone);
        };
        if inside < self.rules.least_share * (inside + outside) {
            return Phase::Decided(Decision::LeftAlone);
        }
        // Nothing is known of how long they take if no sample came.
        let period = Some(inside + outside).filter(|ns| ns.is_finite()).unwrap_or(0.0);
        let most = self.rules.budget_ns.max(self.rules.budget_operations * period) - self.agreed.lost_ns;
        let part = self.rules.budget_part * self.agreed.elapsed_ns - self.agreed.program_lost_ns;
        let (now, gained) = (part.min(most), self.rules.budget_part * period);
        // Turns until so much may be lost, unless that takes too long.
        let operations = self.operations;
        let wait = move |excess: f64| {
            let wait = ((excess - now) / gained).max(1.0);
            let is_near = excess <= most && wait <= MOST_WAIT * operations as f64;
            is_near.then(|| wait.min(MOST_STAYING.max(operations) as f64) as u32)
        };
        if !self.is_complete {
            return match wait(self.agreed.finding_ns) {
                _ if self.hint != 0 || self.agreed.finding_ns <= now => Phase::Wanting,
                Some(turns) => Phase::Staying(turns),
                None => Phase::Decided(Decision::LeftAlone),
            };
        }
        // Each turn asks the strategy for a round or ends; strategies end.
        loop {
            if self.wanted.is_empty() && !self.refill() {
                return self.ended();
            }
            self.chunk = self.affordable(now);
            self.forget_old();
            if !self.chunk.is_empty() {
                return Phase::Trying(self.turns());
            }
            let excess = self.wanted.iter().map(|block| self.excess_ns(*block)).fold(f64::INFINITY, f64::min);
            if let Some(turns) = wait(excess) {
                return Phase::Staying(turns);
            }
            match self.late {
                Late::Not => self.postponed.extend(self.wanted.drain(..)),
                Late::Tried(_) | Late::Compared(_) => self.leaves_out = true,
            }
            self.wanted.clear();
        }
    }

    /// Asks for what is to be tried next; whether there is anything.
    fn refill(&mut self) -> bool {
        let known = Known { alternatives: &self.alternatives, prices: &self.prices };
        match &self.late {
            Late::Not => {
                self.wanted = self.strategy.next(&known).into();
                if self.wanted.is_empty() && !self.postponed.is_empty() {
                    self.wanted = std::mem::take(&mut self.postponed).into();
                    let late = self.wanted.iter().map(|block| block.alternative);
                    self.late = Late::Tried([self.strategy.winner(&known)].into_iter().chain(late).collect());
                }
            }
            Late::Tried(late) => {
                let price = |place: usize| self.prices[place].unwrap_or(f64::INFINITY);
                let most = price(late[0]) * NEARLY;
                let near: Vec<usize> = late.iter().copied().filter(|place| price(*place) <= most).collect();
                if near.len() > 1 {
                    let block = |place: &usize| Block { alternative: *place, drop: 1, keep: LATE_SAMPLES };
                    self.wanted = near.iter().map(block).collect();
                }
                self.late = Late::Compared(near);
            }
            Late::Compared(_) => {}
        }
        !self.wanted.is_empty()
    }

    /// How it ends when nothing is to be tried any more: another algorithm than the default has to prove that
    /// the loop gains by it.
    fn ended(&mut self) -> Phase {
        let known = Known { alternatives: &self.alternatives, prices: &self.prices };
        let best = match &self.late {
            Late::Compared(near) if near.len() > 1 => self.well_known_best(),
            _ => self.strategy.winner(&known),
        };
        if best > 0 && self.rules.proves {
            self.begin_proof(best, false);
            return std::mem::replace(&mut self.phase, Phase::Staying(0));
        }
        self.decided(if self.leaves_out { Decision::OutOfBudget(best) } else { Decision::Learned(best) })
    }

    /// Those of what is wanted next that together cost no more than this.
    fn affordable(&mut self, mut left: f64) -> Vec<Block> {
        let (mut chosen, mut others) = (Vec::new(), VecDeque::new());
        for block in std::mem::take(&mut self.wanted) {
            let excess = self.excess_ns(block);
            if excess <= left {
                left -= excess.max(0.0);
                chosen.push(block);
            } else {
                others.push_back(block);
            }
        }
        self.wanted = others;
        chosen
    }

    /// Operations of the chunk, and whether each counts.
    fn turns(&self) -> VecDeque<Use> {
        let turns = |block: &Block| {
            let Block { alternative, drop, .. } = *block;
            (0..block.operations()).map(move |number| Use::Sample(alternative, number >= drop))
        };
        self.chunk.iter().flat_map(turns).collect()
    }

    /// What a block costs more than as many operations of the default, as far as that is known.
    fn excess_ns(&self, block: Block) -> f64 {
        let Some(default) = self.prices[0] else { return 0.0 };
        let known = Known { alternatives: &self.alternatives, prices: &self.prices };
        let each = match self.prices[block.alternative] {
            Some(price) if price.is_finite() && self.measured[block.alternative] < FEW_SAMPLES => {
                price / COLD - default
            }
            Some(price) if price.is_finite() => price - default,
            _ if block.alternative == 0 => 0.0,
            // A prior may be wrong; the loss is known afterwards, and no more is tried before it was made up
            // for.
            _ => default * (RISK * known.expected(block.alternative) - 1.0).max(LEAST_EXCESS),
        };
        each * f64::from(block.operations()) + self.once_ns(block.alternative)
    }

    /// What the next operation with this alternative takes beside itself.
    fn once_ns(&self, alternative: usize) -> f64 {
        if self.is_touched { 0.0 } else { self.alternatives[alternative].once_ns }
    }

    /// What operations cost: the time inside MPI, and by how much what is left of the period is longer than
    /// with another alternative, if that is more than noise: a thread that moves operations on takes the time
    /// elsewhere, and what passes through the caches slows the computation down.
    fn new_prices(&self) -> Vec<Option<f64>> {
        let Agreed { inside, outside, .. } = &self.agreed;
        let alike = least(outside).map_or(f64::INFINITY, |least| least * (1.0 + OUTSIDE_PART));
        let price = |(inside, outside): (&Option<f64>, &Option<f64>)| {
            Some((*inside)? + ((*outside)? - alike).max(0.0))
        };
        inside.iter().zip(outside).map(price).collect()
    }
}

impl Own {
    /// Mean time inside MPI, in nanoseconds; of those that were disturbed as for a trial.
    fn mean_inside_ns(&self) -> Option<f64> {
        let most = self.inside.iter().min()?.saturating_mul(MOST_TIMES);
        let sum: u64 = self.inside.iter().map(|ns| ns.min(&most)).sum();
        Some(sum as f64 / self.inside.len() as f64)
    }
}

fn least(values: &[Option<f64>]) -> Option<f64> {
    values.iter().flatten().copied().filter(|value| value.is_finite()).reduce(f64::min)
}
