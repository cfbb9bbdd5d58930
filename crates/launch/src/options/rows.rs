//! Table of options, in the order of the help text.

mod checkpoints;
mod general;
mod hosts;
mod output;
mod parameters;
mod places;
mod programs;
mod servers;

use super::row::Row;

const CONCERNS: &[&[Row]] = &[
    hosts::ROWS,
    programs::ROWS,
    places::ROWS,
    output::ROWS,
    parameters::ROWS,
    servers::ROWS,
    checkpoints::ROWS,
    general::ROWS,
];

/// Returns all options of the table.
pub(super) fn options() -> impl Iterator<Item = &'static Row> + Clone {
    CONCERNS.iter().copied().flatten()
}
