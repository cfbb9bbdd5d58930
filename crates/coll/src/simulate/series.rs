//! Series of operations that ranks do one after the other, with computation between and beside them.

use super::resources::{Time, time};
use crate::ir::Schedule;

/// Several operations of the same load in a row, as a program calls them. Each rank begins the next operation
/// when it has completed one and has computed. They may have different roots and algorithms.
pub struct Series<'a> {
    /// Schedules of all ranks, for each distinct operation.
    operations: Vec<&'a [Schedule]>,
    /// Order of the operations: indices into `operations`.
    pub(super) order: Vec<usize>,
    /// Time for which each rank computes after each operation but the last; empty if no rank does.
    computing: Vec<Time>,
    /// Computation between the start of an operation and the wait for its end.
    beside: Beside,
}

/// Computation of a program between the call that starts a non-blocking operation and the one that waits for
/// it. Messages that need the rank's attention wait until it polls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beside {
    /// Time of the computation, in seconds.
    pub seconds: f64,
    /// Number of polls (MPI_Test) meanwhile, at equal intervals.
    pub looks: u32,
    /// Cost of a poll by itself, in seconds.
    pub look_seconds: f64,
    /// Time in seconds for which the call that starts the operation progresses it, if it does not complete
    /// sooner.
    pub pushed_seconds: f64,
}

impl Beside {
    /// Returns the number of parts that the computation is divided into.
    pub(super) fn parts(&self) -> u32 {
        if self.seconds > 0.0 { self.looks + 1 } else { 0 }
    }

    /// Returns the time of each part, including the poll at its end.
    pub(super) fn part(&self) -> Time {
        time(self.seconds / f64::from(self.looks + 1) + self.look_seconds)
    }

    /// Returns the time for which the operation is progressed first.
    pub(super) fn pushed(&self) -> Time {
        time(self.pushed_seconds)
    }
}

/// Begin and end of an operation of a series: means over the ranks, in seconds since all ranks began the
/// first operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationTimes {
    /// Mean of the ranks' begin times.
    pub begin_seconds: f64,
    /// Mean of the ranks' end times.
    pub end_seconds: f64,
}

impl<'a> Series<'a> {
    /// Returns a series of the same operation, `times` times without a pause.
    pub fn repeated(schedules: &'a [Schedule], times: u32) -> Series<'a> {
        let order = vec![0; times as usize];
        Series { operations: vec![schedules], order, computing: Vec::new(), beside: Beside::default() }
    }

    /// Returns the same series with computation beside each operation.
    pub fn with_computation(self, beside: Beside) -> Series<'a> {
        Series { beside, ..self }
    }

    /// Returns a series of `operations` in this order, at least one. Each rank computes for
    /// `computing_seconds` in between.
    pub fn new(operations: &'a [Vec<Schedule>], order: Vec<usize>, computing_seconds: &[f64]) -> Series<'a> {
        let operations: Vec<&[Schedule]> = operations.iter().map(Vec::as_slice).collect();
        let ranks = operations.first().map_or(0, |one| one.len());
        assert!(
            operations.iter().all(|one| one.len() == ranks),
            "a schedule for every rank in each operation"
        );
        assert!(
            !order.is_empty() && order.iter().all(|one| *one < operations.len()),
            "the order contains indices of the operations"
        );
        assert!(computing_seconds.is_empty() || computing_seconds.len() == ranks, "a time for every rank");
        Series {
            operations,
            order,
            computing: computing_seconds.iter().map(|&seconds| time(seconds)).collect(),
            beside: Beside::default(),
        }
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.schedules(0).len()
    }

    /// Returns the schedules of the operation of this number, or of the last one if the number is too large.
    pub(super) fn schedules(&self, number: u32) -> &'a [Schedule] {
        let place = (number as usize).min(self.order.len() - 1);
        self.operations[self.order[place]]
    }

    /// Returns the schedules of all ranks and operations.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Schedule> + '_ {
        self.operations.iter().flat_map(|schedules| schedules.iter())
    }

    /// Returns the time that `rank` computes after an operation.
    pub(super) fn computes(&self, rank: u32) -> Time {
        self.computing.get(rank as usize).copied().unwrap_or(0)
    }

    /// Returns the computation of each rank beside an operation.
    pub(super) fn computes_beside(&self) -> &Beside {
        &self.beside
    }
}
