//! The registry: the rows of all groups of settings.

mod checkpoint;
mod collectives;
mod debug;
mod diagnosis;
mod files;
mod launch;
mod memory;
mod messages;
mod network;
mod waiting;

use super::setting::Setting;

pub use debug::DEBUG_KEYS;

/// Rows of settings by concern, in the order in which `tutti info` shows them, and at the end the requests.
const GROUPS: [&[Setting]; 10] = [
    messages::ROWS,
    memory::ROWS,
    waiting::ROWS,
    collectives::ROWS,
    diagnosis::ROWS,
    launch::ROWS,
    checkpoint::ROWS,
    network::ROWS,
    files::ROWS,
    checkpoint::REQUESTS,
];
const CONCERNS: &[&[Setting]] = GROUPS.split_at(9).0;

/// All settings, in the order in which `tutti info` prints them.
pub static SETTINGS: &[Setting] = &joined::<{ count(CONCERNS) }>(CONCERNS);

/// Settings and behind them requests, which MPI_T has as control variables.
pub static CONTROL_VARIABLES: &[Setting] = &joined::<{ count(&GROUPS) }>(&GROUPS);

const fn count(groups: &[&[Setting]]) -> usize {
    let (mut count, mut group) = (0, 0);
    while group < groups.len() {
        count += groups[group].len();
        group += 1;
    }
    count
}

const fn joined<const N: usize>(groups: &[&[Setting]]) -> [Setting; N] {
    let (mut all, mut count, mut group) = ([messages::ROWS[0]; N], 0, 0);
    while group < groups.len() {
        let mut row = 0;
        while row < groups[group].len() {
            all[count] = groups[group][row];
            (row, count) = (row + 1, count + 1);
        }
        group += 1;
    }
    all
}
