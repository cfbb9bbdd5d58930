//! The registry: the rows of all groups of settings.

mod checkpoint;
mod collectives;
mod diagnosis;
mod files;
mod launch;
mod memory;
mod messages;
mod network;
mod waiting;

use super::setting::Setting;

/// The rows of each concern, in the order in which `tutti info` shows them.
const CONCERNS: [&[Setting]; 9] = [
    messages::ROWS,
    memory::ROWS,
    waiting::ROWS,
    collectives::ROWS,
    diagnosis::ROWS,
    launch::ROWS,
    checkpoint::ROWS,
    network::ROWS,
    files::ROWS,
];

const COUNT: usize = {
    let (mut count, mut concern) = (0, 0);
    while concern < CONCERNS.len() {
        count += CONCERNS[concern].len();
        concern += 1;
    }
    count
};

/// All settings, in the order in which `tutti info` prints them.
pub static SETTINGS: &[Setting] = &{
    let (mut all, mut count, mut concern) = ([messages::ROWS[0]; COUNT], 0, 0);
    while concern < CONCERNS.len() {
        let mut row = 0;
        while row < CONCERNS[concern].len() {
            all[count] = CONCERNS[concern][row];
            (row, count) = (row + 1, count + 1);
        }
        concern += 1;
    }
    all
};
