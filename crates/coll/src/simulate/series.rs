//! Operations that ranks do one after the other, with what they compute in between.

use super::resources::{Time, time};
use crate::ir::Schedule;

/// Several operations of the same load in a row, as a program calls them: each rank begins the next one when it is done with one and has
/// computed. They may have different roots and algorithms.
pub struct Series<'a> {
    /// The schedules of all ranks, of each operation that is different.
    operations: Vec<&'a [Schedule]>,
    /// Which of these comes first, second, and so on.
    pub(super) order: Vec<usize>,
    /// How long each rank computes after each operation but the last; nobody does if it is empty.
    computing: Vec<Time>,
}

/// When the ranks began and ended an operation of a series: the means over them, in seconds since all began the first one.
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
        Series { operations: vec![schedules], order: vec![0; times as usize], computing: Vec::new() }
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
}
