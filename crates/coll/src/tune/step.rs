//! What goes into a tuner and comes out of it.

use super::statistics::Filter;

/// What tuning may cost, and how samples are read.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How samples that something has disturbed are left out.
    pub filter: Filter,
    /// Part of the time of the whole program that all tuning together may lose.
    pub budget_part: f64,
    /// One unit may lose at most this, in nanoseconds, or what
    pub budget_ns: f64,
    /// so many operations of the default take, where these are long.
    pub budget_operations: f64,
    /// Units that spend a smaller part of their time in MPI are left alone.
    pub least_share: f64,
    /// Operations of the default that are measured before anything else is tried,
    pub observed: u32,
    /// and operations before that.
    pub settled: u32,
    /// Operations for which the best so far goes on while samples come in; and again while the words are on
    /// their way.
    pub lag: u32,
    /// Whether the best has to prove itself against the default before it is decided on.
    pub proves: bool,
    /// Whether a decision for another algorithm than the default is proved again from time to time.
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

/// What an operation took on this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time in the calls that started, tested and completed it, in nanoseconds.
    pub inside_ns: u64,
    /// From its start to that of the unit's next operation, in nanoseconds.
    pub period_ns: u64,
}

/// Time of the program and of its tuning on this rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Since the program started, in nanoseconds.
    pub elapsed_ns: u64,
    /// What tuning has lost beside the defaults, with all that it does itself, in nanoseconds.
    pub lost_ns: u64,
    /// What it takes to find out what there is to choose from, in nanoseconds.
    pub finding_ns: u64,
}

/// What the next operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// It takes this alternative.
    Take {
        /// Its number.
        alternative: usize,
        /// The operation's number, for [`Tuner::record`](super::Tuner::record), if it is to be measured.
        operation: Option<u64>,
        /// What this rank contributes to the maximum that is begun with it.
        words: Option<Vec<u64>>,
    },
    /// It has to wait until the maximum has come ([`Tuner::heard`](super::Tuner::heard)), then ask again.
    Await,
    /// The alternatives are needed now ([`Tuner::provide`](super::Tuner::provide)), then ask again.
    Provide,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The best of what was tried.
    Learned(usize),
    /// The default: too little time is spent here, or there is nothing else.
    LeftAlone,
    /// The best so far, as trying the rest would cost more than it may.
    OutOfBudget(usize),
    /// What an earlier run, or another communicator, has learned.
    Known(usize),
    /// The default again: what was decided on is no quicker any more.
    Reverted,
}

impl Decision {
    /// The alternative that all further operations take.
    pub fn alternative(self) -> usize {
        match self {
            Decision::Learned(best) | Decision::OutOfBudget(best) | Decision::Known(best) => best,
            Decision::LeftAlone | Decision::Reverted => 0,
        }
    }
}
