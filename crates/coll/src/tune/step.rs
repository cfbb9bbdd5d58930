//! Input and output of a tuner: rules, samples, accounts; steps and decisions.

use super::statistics::Filter;

/// Limits on the cost of tuning, and the reading of samples.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Filter for outliers among the samples.
    pub filter: Filter,
    /// Part of the time of the whole program that all tuning together may lose, 0 to 1.
    pub budget_part: f64,
    /// Largest loss of one unit, in nanoseconds. [`Rules::budget_operations`] may raise it.
    pub budget_ns: f64,
    /// Largest loss of one unit, in periods of the default. The greater of the two limits holds.
    pub budget_operations: f64,
    /// Smallest part of a unit's time in MPI for which it is tuned, 0 to 1.
    pub least_share: f64,
    /// Operations with the default that are measured before the first trial.
    pub observed: u32,
    /// Operations before the first one that is measured.
    pub settled: u32,
    /// Operations with the best alternative so far after a trial, while its samples come in; and as many
    /// again while the maximum is under way.
    pub lag: u32,
    /// True if the best alternative is compared with the default before a decision for it.
    pub proves: bool,
    /// True if a decision for another algorithm than the default is checked again from time to time.
    pub guards: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            filter: Filter::default(),
            budget_part: 0.01,
            budget_ns: 20e6,
            budget_operations: 40.0,
            least_share: 0.02,
            observed: 8,
            settled: 8,
            lag: 2,
            proves: true,
            guards: true,
        }
    }
}

/// Duration of an operation on this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time in the calls that started, tested and completed it, in nanoseconds.
    pub inside_ns: u64,
    /// Time from its start to the start of the unit's next operation, in nanoseconds.
    pub period_ns: u64,
}

/// Time of the program and of its tuning on this rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Time since the program started, in nanoseconds.
    pub elapsed_ns: u64,
    /// Time that tuning has lost compared with the defaults, its own work included, in nanoseconds.
    pub lost_ns: u64,
    /// Time to generate the alternatives of an operation, in nanoseconds.
    pub finding_ns: u64,
}

/// Instruction for the next operation of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Use an alternative.
    Take {
        /// Index of the alternative.
        alternative: usize,
        /// Number of the operation for [`Tuner::record`](super::Tuner::record), if it is to be measured.
        operation: Option<u64>,
        /// Contribution of this rank to the maximum over all ranks, if one starts with this operation.
        words: Option<Vec<u64>>,
    },
    /// Wait for the maximum ([`Tuner::heard`](super::Tuner::heard)), then take the turn again.
    Await,
    /// Provide the alternatives ([`Tuner::provide`](super::Tuner::provide)), then take the turn again.
    Provide,
}

/// Outcome of tuning a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The best alternative of all that were tried.
    Learned(usize),
    /// The default: too little time is spent here, or there is nothing else.
    LeftAlone,
    /// The best alternative so far: trying the others would exceed the budget.
    OutOfBudget(usize),
    /// Result of an earlier run or of another communicator.
    Known(usize),
    /// The default again: the alternative that was decided on has become slower.
    Reverted,
}

impl Decision {
    /// Returns the alternative that all further operations use.
    pub fn alternative(self) -> usize {
        match self {
            Decision::Learned(best) | Decision::OutOfBudget(best) | Decision::Known(best) => best,
            Decision::LeftAlone | Decision::Reverted => 0,
        }
    }
}
