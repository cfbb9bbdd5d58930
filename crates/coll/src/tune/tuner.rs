//! State machine of one unit: the next alternative, the measurements so far, and the values agreed on.

use std::collections::VecDeque;

use super::proof::{self, Proof, Verdict};
use super::search::{Block, Known, Strategy};
use super::statistics::summary;
use super::step::{Account, Decision, NextStep, Rules, Sample};
use super::{Alternative, Attributes};

/// Tuning of one unit. Its calls need no clock and no communication.
#[derive(Debug)]
pub struct Tuner {
    rules: Rules,
    alternatives: Vec<Alternative>,
    strategy: Box<dyn Strategy>,
    /// True if the alternatives were provided. Before that the default is the only one.
    is_complete: bool,
    phase: Phase,
    operations: u64,
    /// Operations whose samples are outstanding: number and purpose.
    open: VecDeque<(u64, Use)>,
    /// Samples of this rank, by alternative.
    own: Vec<Own>,
    account: Account,
    /// The shortest operation with each alternative on this rank, in nanoseconds.
    least_ns: Vec<u64>,
    /// Extra time of this rank's trials over the default since the last agreement, in nanoseconds.
    excess_ns: f64,
    agreed: Agreed,
    /// Loss that [`Tuner::take_lost_ns`] has not returned yet, in nanoseconds.
    untold_ns: f64,
    /// Comparison with the default, while one is under way.
    proof: Option<Proof>,
    /// Operations until the decision is checked again, and the current interval between checks; 0: never.
    guard: [u32; 2],
    /// Trials that the strategy has requested and that have not begun.
    wanted: VecDeque<Block>,
    /// Trials that were too expensive when they were due. They are tried at the end if the budget has
    /// grown.
    postponed: Vec<Block>,
    late: Late,
    /// True if some alternative is never tried because of its cost.
    leaves_out: bool,
    /// True if the memory that [`Alternative::once_ns`] accounts for was touched.
    is_touched: bool,
    /// Trials under way, or finished and not agreed on yet.
    chunk: Vec<Block>,
    /// Number of measured operations by alternative.
    measured: Vec<u32>,
    /// Maxima that have arrived early. They count from an operation on that is the same on all ranks.
    news: Option<Vec<u64>>,
    /// Hash of a result that this rank knows from elsewhere, or 0. After the first agreement it is nonzero
    /// only if all ranks have the same.
    hint: u64,
    /// Agreed cost of an operation by alternative, in nanoseconds.
    prices: Vec<Option<f64>>,
    /// Best alternative so far.
    best: usize,
}

#[derive(Debug)]
enum Phase {
    /// Use the best alternative for this many operations, then contribute to the maximum.
    Staying(u32),
    /// Use these alternatives for the next operations.
    Trying(VecDeque<Use>),
    /// The maximum is under way. Use the best alternative for this many operations, then wait for it.
    Contributed(u32),
    /// The alternatives must be provided.
    Wanting,
    Decided(Decision),
}

/// Purpose of a measured operation.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// Sample of an alternative: its index, and whether the sample counts.
    Sample(usize, bool),
    /// Part of the comparison that is under way.
    Proof(proof::Trial),
}

/// Progress of the trials that were postponed, after all others of the strategy.
#[derive(Debug)]
enum Late {
    Not,
    /// The postponed trials run. Holds the best alternative before them, then theirs.
    Tried(Vec<usize>),
    /// Alternatives nearly as good as the best so far are measured as often as that one.
    Compared(Vec<usize>),
}

/// Samples of one alternative, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Own {
    inside: Vec<u64>,
    outside: Vec<u64>,
}

/// Values from the agreements, equal on all ranks.
#[derive(Debug, Default)]
struct Agreed {
    elapsed_ns: f64,
    /// Loss of the program by all its tuning, in nanoseconds; at least 0.
    program_lost_ns: f64,
    finding_ns: f64,
    inside: Vec<Option<f64>>,
    outside: Vec<Option<f64>>,
    /// Loss of this unit against the default, in nanoseconds; negative after a gain.
    lost_ns: f64,
    /// Operations of the unit before the latest agreement; 0 if there was none.
    operations: u64,
}

/// Maximum number of samples of an alternative.
const MOST_SAMPLES: usize = 128;
/// Bound on the loss of a disturbed trial: this many times the alternative's shortest operation.
const MOST_TIMES: u64 = 3;
/// Maximum number of operations whose samples are outstanding. The oldest ones are given up.
const MOST_OPEN: usize = 256;
/// Smallest expected slowdown of an alternative without samples, as a part of the default's time.
const LEAST_EXCESS: f64 = 1.0;
/// Safety factor on the time that the model predicts.
const RISK: f64 = 1.5;
/// Samples that an alternative needs before it is used between trials.
const FEW_SAMPLES: u32 = 4;
/// Factor by which the first samples of an alternative may exceed later ones (cold caches).
const COLD: f64 = 2.0;
/// Number of new samples that may replace the earlier ones.
const LEAST_ANEW: u32 = 16;
/// Samples of each alternative in the comparison of late trials with the best.
const LATE_SAMPLES: u32 = 24;
/// Ratio to the best cost up to which an alternative is nearly as good, by its first samples.
const NEARLY: f64 = 1.5;
/// Longest wait for the budget, as a multiple of the operations so far. Trials that would wait longer are
/// postponed, and in the end left out.
const MOST_WAIT: f64 = 16.0;
/// Largest number of operations until the budget is checked again, unless there were more so far.
const MOST_STAYING: u64 = 4096;
/// Difference of times outside MPI that is more than noise, as a part of the least.
const OUTSIDE_PART: f64 = 0.05;
/// Words of a contribution before those of the alternatives:
///
/// 0. complement of the elapsed time, so that the maximum gives the least time of all ranks;
/// 1. loss of the program by tuning;
/// 2. time to generate the alternatives;
/// 3. extra time of the trials, plus [`ZERO`];
/// 4. hint;
/// 5. complement of the hint: the two maxima add up to `u64::MAX` only if all ranks have the same hint.
const HEADER: usize = 6;
/// Offset of a signed difference of times in an unsigned word.
const ZERO: u64 = 1 << 62;
/// Operations from a decision until its first check. Each further interval is twice as long.
const GUARDED: u32 = 512;

impl Tuner {
    /// Creates a tuner for at least one alternative. The first is the default.
    pub fn new(alternatives: Vec<Alternative>, strategy: Box<dyn Strategy>, rules: Rules) -> Tuner {
        assert!(!alternatives.is_empty(), "a tuner has at least one alternative");
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

    /// Creates a tuner that requests the alternatives once tuning is worth their cost
    /// ([`NextStep::Provide`]).
    pub fn without_alternatives(strategy: Box<dyn Strategy>, rules: Rules) -> Tuner {
        let default =
            Alternative { attributes: Attributes::default(), prior_s: 0.0, warm_up: 1, once_ns: 0.0 };
        let phase = Phase::Staying(rules.settled + rules.observed + default.warm_up);
        Tuner { is_complete: false, phase, ..Tuner::new(vec![default], strategy, rules) }
    }

    /// Creates a tuner that keeps the default.
    pub fn idle(strategy: Box<dyn Strategy>, rules: Rules) -> Tuner {
        Tuner { phase: Phase::Decided(Decision::LeftAlone), ..Tuner::without_alternatives(strategy, rules) }
    }

    /// Creates a tuner that starts with the decision of an earlier run.
    pub fn known(
        alternatives: Vec<Alternative>,
        strategy: Box<dyn Strategy>,
        best: usize,
        rules: Rules,
    ) -> Tuner {
        assert!(best < alternatives.len(), "the best alternative is an index of the list");
        let mut tuner = Tuner::new(alternatives, strategy, rules);
        tuner.phase = tuner.decided(Decision::Known(best));
        tuner
    }

    /// Returns the decision, if there is one.
    pub fn decision(&self) -> Option<Decision> {
        match self.phase {
            Phase::Decided(decision) => Some(decision),
            _ => None,
        }
    }

    /// Returns the alternative that operations use while nothing is tried.
    pub fn best(&self) -> usize {
        self.decision().map_or(self.best, Decision::alternative)
    }

    /// Returns the agreed cost of an operation with this alternative, in nanoseconds.
    pub fn price_ns(&self, alternative: usize) -> Option<f64> {
        self.prices[alternative]
    }

    /// Returns true if the next turn contributes for the first time: the last moment for [`Tuner::hint`].
    pub fn takes_hints(&self) -> bool {
        matches!(self.phase, Phase::Staying(0)) && self.agreed.operations == 0
    }

    /// Sets the hash of the result that this rank knows of an equal unit elsewhere; not 0. If all ranks
    /// have the same at their first contribution, [`Tuner::agreed_hint`] returns it from then on.
    pub fn hint(&mut self, hint: u64) {
        self.hint = hint;
    }

    /// Returns the hint if all ranks have the same.
    pub fn agreed_hint(&self) -> Option<u64> {
        (self.agreed.operations > 0 && self.hint != 0).then_some(self.hint)
    }

    /// Returns true if the next turn contributes to a maximum. [`Tuner::account`] must be called before it.
    pub fn contributes(&self) -> bool {
        matches!(self.phase, Phase::Staying(0))
    }

    /// Sets this rank's account of the program, for the next contribution.
    pub fn account(&mut self, account: Account) {
        self.account = account;
    }

    /// Returns the loss since the previous call, in nanoseconds; negative after a gain.
    pub fn take_lost_ns(&mut self) -> f64 {
        std::mem::take(&mut self.untold_ns)
    }

    /// Sets the alternatives, the default first, and the index of the best one if it is known already. Both
    /// must be equal on all ranks.
    pub fn provide(&mut self, alternatives: Vec<Alternative>, known: Option<usize>) {
        assert!(
            !self.is_complete && !alternatives.is_empty(),
            "alternatives are provided once, after a request"
        );
        let number = alternatives.len();
        self.is_complete = true;
        self.alternatives = alternatives;
        self.own.resize(number, Own::default());
        self.least_ns.resize(number, u64::MAX);
        self.measured.resize(number, 0);
        self.prices.resize(number, None);
        self.agreed.inside.resize(number, None);
        self.agreed.outside.resize(number, None);
        // All ranks debit the agreed time of the search for alternatives. The real time is part of the next
        // words.
        self.agreed.program_lost_ns += self.agreed.finding_ns;
        self.phase = match (known, number) {
            (Some(best), _) => self.decided(Decision::Known(best)),
            (None, 1) => Phase::Decided(Decision::LeftAlone),
            (None, _) => self.next_phase(),
        };
    }

    /// Returns the number of further operations that may use [`Tuner::best`] without a turn.
    pub fn free_turns(&self) -> u32 {
        match &self.phase {
            // Time inside MPI is measured from the turn before the first one that is observed.
            Phase::Staying(left) if self.agreed.operations == 0 => {
                left.saturating_sub(self.rules.observed + 1)
            }
            Phase::Staying(left) => *left,
            // The last of them begins another proof.
            Phase::Decided(_) if self.guard[0] > 0 => self.guard[0] - 1,
            Phase::Decided(_) => u32::MAX,
            Phase::Trying(_) | Phase::Contributed(_) | Phase::Wanting => 0,
        }
    }

    /// Counts operations without a turn, at most [`Tuner::free_turns`].
    pub fn skip(&mut self, turns: u32) {
        debug_assert!(turns <= self.free_turns(), "at most as many turns as free_turns returned");
        match &mut self.phase {
            Phase::Staying(left) => *left = left.saturating_sub(turns),
            Phase::Decided(_) => self.guard[0] = self.guard[0].saturating_sub(turns),
            Phase::Trying(_) | Phase::Contributed(_) | Phase::Wanting => return,
        }
        self.operations += u64::from(turns);
    }

    /// Returns the next step. Ranks that have taken the same number of turns get the same step.
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
                let turn = next.pop_front().expect("the phase ends with the last turn of a chunk");
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
                // Before anything has been tried, the default is observed once it is warm.
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

    /// Records the sample of an operation of this rank. Unknown numbers are ignored.
    pub fn record(&mut self, operation: u64, sample: Sample) {
        let Some(place) = self.open.iter().position(|open| open.0 == operation) else { return };
        let (_, what) = self.open.remove(place).expect("the place was found in the list above");
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

    /// Receives the element-wise maximum of all ranks' contributions.
    pub fn heard(&mut self, words: &[u64]) {
        if let Phase::Contributed(_) = self.phase {
            self.news = Some(words.to_vec());
        }
    }

    /// Keeps the default for good, because the maxima will never arrive.
    pub fn give_up(&mut self) {
        self.phase = Phase::Decided(Decision::LeftAlone);
    }

    /// Updates the agreed values with the maxima, and chooses the next phase.
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
            // No rank has a sample, so this alternative will not be used.
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

    /// Returns the phase that follows a round of the comparison.
    fn judged(&mut self, words: &[u64]) -> Phase {
        let mut proof = self.proof.take().expect("a verdict needs a proof under way");
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

    /// Returns the phase of a decision. A decision for another algorithm than the default is checked again
    /// after some time.
    fn decided(&mut self, decision: Decision) -> Phase {
        self.best = decision.alternative();
        let waits = self.guard[1].saturating_mul(2).max(GUARDED);
        self.guard = if self.rules.guards && self.best > 0 { [waits; 2] } else { [0; 2] };
        Phase::Decided(decision)
    }

    /// Returns true if the next operation begins a check of the decision.
    fn is_guard_due(&mut self) -> bool {
        if !matches!(self.phase, Phase::Decided(_)) || self.guard[0] == 0 {
            return false;
        }
        self.guard[0] -= 1;
        self.guard[0] == 0
    }

    /// Begins to compare an alternative with the default.
    fn begin_proof(&mut self, alternative: usize, is_guard: bool) {
        self.best = alternative;
        let proof = Proof::new(alternative, is_guard);
        self.phase = Phase::Trying(proof.turns().into_iter().map(Use::Proof).collect());
        self.proof = Some(proof);
    }

    /// Returns the number of words of a contribution now.
    #[cfg(test)]
    pub(super) fn words_now(&self) -> usize {
        HEADER + 2 * self.reported().len() + if self.proof.is_some() { proof::WORDS } else { 0 }
    }

    /// Returns the alternatives with words in a contribution: the default, and those tried since the last.
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
            // Of a few first samples, most may be disturbed or cold.
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

    /// Returns the best alternative with at least [`FEW_SAMPLES`] samples.
    fn well_known_best(&self) -> usize {
        let known = Known { alternatives: &self.alternatives, prices: &self.prices };
        let is_known = |place: &usize| self.prices[*place].is_some() && self.measured[*place] >= FEW_SAMPLES;
        known.best_of(&(0..self.prices.len()).filter(is_known).collect::<Vec<_>>()).unwrap_or(0)
    }

    /// Forgets the first few samples of an alternative, which were taken with cold caches. The agreed
    /// cost stays.
    fn forget_taste(&mut self, alternative: usize) {
        if self.measured[alternative] < FEW_SAMPLES {
            self.own[alternative] = Own::default();
        }
    }

    /// Forgets the earlier samples of alternatives that are measured again at least half as often as
    /// before. The first samples were taken with cold caches and untouched memory.
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
        // The period is unknown if no sample came.
        let period = Some(inside + outside).filter(|ns| ns.is_finite()).unwrap_or(0.0);
        let most = self.rules.budget_ns.max(self.rules.budget_operations * period) - self.agreed.lost_ns;
        let part = self.rules.budget_part * self.agreed.elapsed_ns - self.agreed.program_lost_ns;
        let (now, gained) = (part.min(most), self.rules.budget_part * period);
        // Number of turns until the budget allows this loss, unless that takes too long.
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
        // Each iteration asks the strategy for a round or ends. Strategies end.
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

    /// Requests the next trials from the strategy. Returns false if there are none.
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

    /// Returns the phase after the last trial: a decision, or first a comparison of the best alternative
    /// with the default, if it is another one.
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

    /// Takes those of the wanted trials whose extra time is at most `left` nanoseconds in sum.
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

    /// Returns the operations of the trials under way.
    fn turns(&self) -> VecDeque<Use> {
        let turns = |block: &Block| {
            let Block { alternative, drop, .. } = *block;
            (0..block.operations()).map(move |number| Use::Sample(alternative, number >= drop))
        };
        self.chunk.iter().flat_map(turns).collect()
    }

    /// Returns the expected extra time of a trial over as many operations of the default, in nanoseconds.
    fn excess_ns(&self, block: Block) -> f64 {
        let Some(default) = self.prices[0] else { return 0.0 };
        let known = Known { alternatives: &self.alternatives, prices: &self.prices };
        let each = match self.prices[block.alternative] {
            Some(price) if price.is_finite() && self.measured[block.alternative] < FEW_SAMPLES => {
                price / COLD - default
            }
            Some(price) if price.is_finite() => price - default,
            _ if block.alternative == 0 => 0.0,
            // A prediction may be wrong. The loss is known afterwards, and nothing more is tried before the
            // budget has recovered.
            _ => default * (RISK * known.expected(block.alternative) - 1.0).max(LEAST_EXCESS),
        };
        each * f64::from(block.operations()) + self.once_ns(block.alternative)
    }

    /// Returns the additional cost of the next operation with this alternative for untouched memory, in
    /// nanoseconds.
    fn once_ns(&self, alternative: usize) -> f64 {
        if self.is_touched { 0.0 } else { self.alternatives[alternative].once_ns }
    }

    /// Returns the cost of an operation by alternative, in nanoseconds: the time inside MPI, plus the
    /// slowdown of the computation against the alternative that slows it down least, if that is more than
    /// noise. A progress thread takes its time from the computation, and data that passes through the
    /// caches slows it down.
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
    /// Returns the mean time inside MPI, in nanoseconds. Disturbed samples are bounded as in
    /// [`MOST_TIMES`].
    fn mean_inside_ns(&self) -> Option<f64> {
        let most = self.inside.iter().min()?.saturating_mul(MOST_TIMES);
        let sum: u64 = self.inside.iter().map(|ns| ns.min(&most)).sum();
        Some(sum as f64 / self.inside.len() as f64)
    }
}

fn least(values: &[Option<f64>]) -> Option<f64> {
    values.iter().flatten().copied().filter(|value| value.is_finite()).reduce(f64::min)
}
