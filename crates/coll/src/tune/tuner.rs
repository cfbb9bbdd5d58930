//! The state machine of one unit: which alternative comes next, what has been measured, what was agreed on.

use std::collections::VecDeque;

use super::Alternative;
use super::search::{Block, Known, Strategy};
use super::statistics::{Filter, summary};

/// What tuning may cost, and how samples are read.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How samples that something has disturbed are left out.
    pub filter: Filter,
    /// What exploring may lose beside the default: this part of the loop's time so far,
    pub budget_part: f64,
    /// and not more than this, in nanoseconds, or than what
    pub budget_ns: f64,
    /// so many operations of the default take, where these are long.
    pub budget_operations: f64,
    /// Units that spend a smaller part of their time in MPI are left alone.
    pub least_share: f64,
    /// Operations of the default that are measured before anything else is tried,
    pub observed: u32,
    /// and operations before that: short loops run as by default.
    pub settled: u32,
    /// Operations for which the best so far goes on while samples come in; and again while the words are on
    /// their way.
    pub lag: u32,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            filter: Filter::default(),
            budget_part: 0.02,
            budget_ns: 20e6,
            budget_operations: 40.0,
            least_share: 0.02,
            observed: 8,
            settled: 120,
            lag: 2,
        }
    }
}

/// What an operation took on this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time in the calls that started, tested and completed it, in nanoseconds.
    pub inside_ns: u64,
    /// From its start to that of the unit's next operation, in nanoseconds.
    pub period_ns: u64,
}

/// What the next operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// It takes this alternative.
    Take {
        /// Its number.
        alternative: usize,
        /// The operation's number, for [`Tuner::record`].
        operation: u64,
        /// What this rank contributes to the maximum that is begun with it.
        words: Option<Vec<u64>>,
    },
    /// It has to wait until the maximum has come ([`Tuner::heard`]), then ask again.
    Await,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The best of what was tried.
    Learned(usize),
    /// The default: too little time is spent here.
    LeftAlone,
    /// The best so far, as trying the rest would cost more than it may.
    OutOfBudget(usize),
    /// What an earlier run has learned.
    Known(usize),
}

impl Decision {
    /// The alternative that all further operations take.
    pub fn alternative(self) -> usize {
        match self {
            Decision::Learned(best) | Decision::OutOfBudget(best) | Decision::Known(best) => best,
            Decision::LeftAlone => 0,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Tuner {
    rules: Rules,
    alternatives: Vec<Alternative>,
    strategy: Box<dyn Strategy>,
    phase: Phase,
    operations: u64,
    /// Operations whose samples have not come, with what they took and whether they count.
    open: VecDeque<(u64, usize, bool)>,
    /// Of this rank.
    own: Vec<Own>,
    elapsed_ns: u64,
    least_period_ns: u64,
    agreed: Agreed,
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
    /// Operations with each alternative since it was last agreed, and how many were measured in all.
    taken: Vec<u32>,
    measured: Vec<u32>,
    /// Maxima that have come before the operation from which on they count, which is the same on all ranks.
    news: Option<Vec<u64>>,
    /// What this rank knows from elsewhere, until the first words are contributed.
    hint: Option<usize>,
    /// What operations cost as far as that is agreed on, and the best of them.
    prices: Vec<Option<f64>>,
    best: usize,
}

#[derive(Debug)]
enum Phase {
    /// The best so far is taken so many times more; then the words are contributed.
    Staying(u32),
    /// The next operations: alternative, and whether it counts.
    Trying(VecDeque<(usize, bool)>),
    /// The words are on their way; the best so far is taken so many times more.
    Contributed(u32),
    Decided(Decision),
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
    inside: Vec<Option<f64>>,
    outside: Vec<Option<f64>>,
    /// What exploring has lost beside the default; less than nothing where it has gained.
    lost_ns: f64,
    /// Operations of the unit when it was agreed on.
    operations: u64,
}

/// Samples that are kept of an alternative.
const MOST_SAMPLES: usize = 128;
/// Operations in the air; older ones have lost their samples.
const MOST_OPEN: usize = 256;
/// Longer periods count as so many times the least.
const MOST_PERIODS: u64 = 3;
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
const MOST_WAIT: f64 = 4.0;
/// The best so far goes on at most so long until it is looked at the budget again.
const MOST_STAYING: u32 = 4096;
/// The time outside MPI differs if it does so by this part of the least.
const OUTSIDE_PART: f64 = 0.05;
/// Words before those of alternatives: the time so far; the hint, and what is left of it to the greatest
/// number, so that the maxima say whether all ranks have the same.
const HEADER: usize = 3;

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
            phase,
            operations: 0,
            open: VecDeque::new(),
            own: vec![Own::default(); number],
            elapsed_ns: 0,
            least_period_ns: u64::MAX,
            agreed,
            wanted: VecDeque::new(),
            postponed: Vec::new(),
            late: Late::Not,
            leaves_out: false,
            is_touched: false,
            chunk: Vec::new(),
            taken: vec![0; number],
            measured: vec![0; number],
            news: None,
            hint: None,
            prices: vec![None; number],
            best: 0,
        }
    }

    /// For a unit of which an earlier run knows the best.
    pub fn known(alternatives: Vec<Alternative>, strategy: Box<dyn Strategy>, best: usize) -> Tuner {
        assert!(best < alternatives.len(), "it is one of them");
        let phase = Phase::Decided(Decision::Known(best));
        Tuner { phase, ..Tuner::new(alternatives, strategy, Rules::default()) }
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

    /// What this rank knows of an equal unit elsewhere. If all ranks have got the same hint when they first
    /// contribute, that is the decision.
    pub fn hint(&mut self, best: usize) {
        self.hint = Some(best).filter(|best| *best < self.alternatives.len());
    }

    /// What the next operation does. Equal on all ranks that have taken as many turns.
    pub fn turn(&mut self) -> NextStep {
        if let Phase::Contributed(0) = self.phase {
            match self.news.take() {
                Some(words) => self.agree(&words),
                None => return NextStep::Await,
            }
        }
        let best = self.best;
        let mut words = None;
        let (alternative, counts) = match &mut self.phase {
            Phase::Decided(decision) => {
                return NextStep::Take {
                    alternative: decision.alternative(),
                    operation: self.operations,
                    words,
                };
            }
            Phase::Contributed(left) => {
                *left -= 1;
                (best, false)
            }
            Phase::Trying(next) => {
                let turn = next.pop_front().expect("a chunk that is over is no phase");
                if next.is_empty() {
                    self.phase = Phase::Staying(self.rules.lag);
                }
                turn
            }
            Phase::Staying(0) => {
                self.phase = Phase::Contributed(self.rules.lag);
                words = Some(self.words());
                (best, false)
            }
            Phase::Staying(left) => {
                *left -= 1;
                // Before anything was tried it is the default that is observed, once it is warm.
                (best, self.agreed.operations == 0 && *left < self.rules.observed)
            }
        };
        let operation = self.operations;
        self.operations += 1;
        self.taken[alternative] += 1;
        let once_ns = self.once_ns(alternative);
        if once_ns > 0.0 {
            self.is_touched = true;
            self.agreed.lost_ns += once_ns;
        }
        self.measured[alternative] += u32::from(counts);
        if self.open.len() == MOST_OPEN {
            self.open.pop_front();
        }
        self.open.push_back((operation, alternative, counts));
        NextStep::Take { alternative, operation, words }
    }

    /// What an operation of this rank took.
    pub fn record(&mut self, operation: u64, sample: Sample) {
        let Some(place) = self.open.iter().position(|open| open.0 == operation) else { return };
        let (_, alternative, counts) = self.open.remove(place).expect("it was just there");
        // A pause of the program is no part of the loop that may be slowed down.
        self.least_period_ns = self.least_period_ns.min(sample.period_ns);
        self.elapsed_ns += sample.period_ns.min(self.least_period_ns.saturating_mul(MOST_PERIODS));
        let own = &mut self.own[alternative];
        if counts && own.inside.len() < MOST_SAMPLES {
            own.inside.push(sample.inside_ns);
            own.outside.push(sample.period_ns.saturating_sub(sample.inside_ns));
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
        assert_eq!(words.len(), HEADER + 2 * reported.len(), "ranks contribute the same words");
        let is_first = self.agreed.operations == 0;
        let known = self.is_hint(words[1], words[2]).filter(|_| is_first);
        self.agreed.elapsed_ns = words[0] as f64;
        for (place, pair) in reported.iter().zip(words[HEADER..].chunks_exact(2)) {
            // Nobody has a sample: it will not be taken.
            let inside = if pair[0] == 0 { f64::INFINITY } else { pair[0] as f64 };
            (self.agreed.inside[*place], self.agreed.outside[*place]) = (Some(inside), Some(pair[1] as f64));
        }
        self.agreed.operations = self.operations;
        self.prices = self.new_prices();
        self.best = self.well_known_best();
        self.agreed.lost_ns += self.newly_lost_ns();
        for block in std::mem::take(&mut self.chunk) {
            self.forget_taste(block.alternative);
        }
        self.phase = match known {
            Some(best) => Phase::Decided(Decision::Known(best)),
            None => self.next_phase(),
        };
    }

    /// The hint that all ranks have, by the maxima of their words.
    fn is_hint(&self, most: u64, most_left: u64) -> Option<usize> {
        let number = usize::try_from(most).ok()?.checked_sub(1)?;
        (most == u64::MAX - most_left && number < self.alternatives.len()).then_some(number)
    }

    #[cfg(test)]
    pub(super) fn reported_now(&self) -> usize {
        self.reported().len()
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

    fn words(&self) -> Vec<u64> {
        let number = |samples: &[u64]| {
            // Of a few first samples most may be disturbed, or cold.
            let few = samples.len() < FEW_SAMPLES as usize;
            let least = samples.iter().min().map(|ns| *ns as f64);
            let said = if few { least } else { summary(samples, self.rules.filter) };
            said.map_or(0, |ns| (ns as u64).max(1))
        };
        let of = |place: usize| [number(&self.own[place].inside), number(&self.own[place].outside)];
        let hint = self.hint.map_or(0, |hint| hint as u64 + 1);
        let header = [self.elapsed_ns, hint, u64::MAX - hint];
        header.into_iter().chain(self.reported().into_iter().flat_map(of)).collect()
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

    /// What the operations since it was last agreed have lost beside the default; less than nothing if they
    /// have gained, which may be lost again.
    fn newly_lost_ns(&mut self) -> f64 {
        let taken = std::mem::replace(&mut self.taken, vec![0; self.prices.len()]);
        let Some(default) = self.prices[0].filter(|price| price.is_finite()) else { return 0.0 };
        let lost = |(price, number): (&Option<f64>, u32)| {
            let each = price.filter(|price| price.is_finite()).map_or(0.0, |price| price - default);
            f64::from(number) * each
        };
        self.prices.iter().zip(taken).map(lost).sum()
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
        let most = self.rules.budget_ns.max(self.rules.budget_operations * period);
        let now = (self.rules.budget_part * self.agreed.elapsed_ns).min(most) - self.agreed.lost_ns;
        let gained = self.rules.budget_part * period;
        // Each turn asks the strategy for a round or ends; strategies end.
        loop {
            if self.wanted.is_empty() && !self.refill() {
                return Phase::Decided(self.ended());
            }
            self.chunk = self.affordable(now);
            self.forget_old();
            if !self.chunk.is_empty() {
                return Phase::Trying(self.turns());
            }
            let excess = self.wanted.iter().map(|block| self.excess_ns(*block)).fold(f64::INFINITY, f64::min);
            let wait = ((excess - now) / gained).max(1.0);
            if excess <= most - self.agreed.lost_ns && wait <= MOST_WAIT * self.operations as f64 {
                return Phase::Staying(wait.min(f64::from(MOST_STAYING)) as u32);
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

    /// How it ends when nothing is to be tried any more.
    fn ended(&self) -> Decision {
        let known = Known { alternatives: &self.alternatives, prices: &self.prices };
        let best = match &self.late {
            Late::Compared(near) if near.len() > 1 => self.well_known_best(),
            _ => self.strategy.winner(&known),
        };
        if self.leaves_out { Decision::OutOfBudget(best) } else { Decision::Learned(best) }
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
    fn turns(&self) -> VecDeque<(usize, bool)> {
        let turns = |block: &Block| {
            let Block { alternative, drop, .. } = *block;
            (0..block.operations()).map(move |number| (alternative, number >= drop))
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

fn least(values: &[Option<f64>]) -> Option<f64> {
    values.iter().flatten().copied().filter(|value| value.is_finite()).reduce(f64::min)
}
