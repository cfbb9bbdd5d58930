//! Operations that ranks do one after the other, with what they compute in between and beside them.

use super::resources::{Time, time};
use crate::ir::Schedule;

/// Several operations of the same load in a row, as a program calls them: each rank begins the next one when
/// it is done with one and has computed. They may have different roots and algorithms.
pub struct Series<'a> {
    /// The schedules of all ranks, of each operation that is different.
    operations: Vec<&'a [Schedule]>,
    /// Which of these comes first, second, and so on.
    pub(super) order: Vec<usize>,
    /// How long each rank computes after each operation but the last; nobody does if it is empty.
    computing: Vec<Time>,
    /// What each rank computes between starting an operation and waiting for its end.
    beside: Beside,
}

/// What programs do between the call that starts a non-blocking operation and the one that waits for it. What
/// messages need of a rank meanwhile waits until it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beside {
    /// Computation, in seconds.
    pub seconds: f64,
    /// How often the program looks (MPI_Test) meanwhile, at equal distances.
    pub looks: u32,
    /// What a look costs by itself, in seconds.
    pub look_seconds: f64,
    /// For how long the call that starts the operation moves it on, if it is not over sooner.
    pub pushed_seconds: f64,
}

impl Beside {
    /// In how many parts it is computed.
    pub(super) fn parts(&self) -> u32 {
        if self.seconds > 0.0 { self.looks + 1 } else { 0 }
    }

    /// How long each lasts, with the look at its end.
    pub(super) fn part(&self) -> Time {
        time(self.seconds / f64::from(self.looks + 1) + self.look_seconds)
    }

    /// How long the operation is moved on first.
    pub(super) fn pushed(&self) -> Time {
        time(self.pushed_seconds)
    }
}

/// When the ranks began and ended an operation of a series: the means over them, in seconds since all began
/// the first one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// Of the ranks' beginnings.
    pub begin_seconds: f64,
    /// Of their ends.
    pub end_seconds: f64,
}

impl<'a> Series<'a> {
    /// The same operation so many times, without a pause.
    pub fn repeated(schedules: &'a [Schedule], times: u32) -> Series<'a> {
        let order = vec![0; times as usize];
        Series { operations: vec![schedules], order, computing: Vec::new(), beside: Beside::default() }
    }

    /// The same where ranks compute beside each operation.
    pub fn beside(self, beside: Beside) -> Series<'a> {
        Series { beside, ..self }
    }

    /// `operations` in this order, at least one; each rank computes for so many seconds in between.
    pub fn new(operations: &'a [Vec<Schedule>], order: Vec<usize>, computing_seconds: &[f64]) -> Series<'a> {
        let operations: Vec<&[Schedule]> = operations.iter().map(Vec::as_slice).collect();
        let ranks = operations.first().map_or(0, |one| one.len());
        assert!(
            operations.iter().all(|one| one.len() == ranks),
            "a schedule for every rank in each operation"
        );
        assert!(
            !order.is_empty() && order.iter().all(|one| *one < operations.len()),
            "operations that there are"
        );
        assert!(computing_seconds.is_empty() || computing_seconds.len() == ranks, "a time for every rank");
        Series {
            operations,
            order,
            computing: computing_seconds.iter().map(|&seconds| time(seconds)).collect(),
            beside: Beside::default(),
        }
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.of(0).len()
    }

    /// The schedules of the operation of this number; of the last one beyond it.
    pub(super) fn of(&self, number: u32) -> &'a [Schedule] {
        let place = (number as usize).min(self.order.len() - 1);
        self.operations[self.order[place]]
    }

    /// All schedules.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Schedule> + '_ {
        self.operations.iter().flat_map(|schedules| schedules.iter())
    }

    /// How long `rank` computes after an operation.
    pub(super) fn computes(&self, rank: u32) -> Time {
        self.computing.get(rank as usize).copied().unwrap_or(0)
    }

    /// What each computes beside an operation.
    pub(super) fn computes_beside(&self) -> &Beside {
        &self.beside
    }
}
