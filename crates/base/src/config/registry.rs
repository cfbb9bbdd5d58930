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

/// Settings of one concern, and the readers of the guide who need them.
pub struct Concern {
    /// Heading of the group.
    pub title: &'static str,
    /// Sentence that says when a reader needs one of these settings.
    pub needed: &'static str,
    /// The settings, in the order in which `tutti info` prints them.
    pub settings: &'static [Setting],
}

const fn concern(title: &'static str, needed: &'static str, settings: &'static [Setting]) -> Concern {
    Concern { title, needed, settings }
}

/// All concerns, in the order in which `tutti info` prints their settings.
pub static CONCERNS: [Concern; 9] = GROUPS;

const GROUPS: [Concern; 9] = [
    concern("Messages", "For programs that send before the receiver is ready.", messages::ROWS),
    concern("Shared memory", "For developers of Tutti.", memory::ROWS),
    concern("Waiting", "For hosts that run more processes than they have cores.", waiting::ROWS),
    concern(
        "Collectives",
        "For performance work and for results that are equal bit by bit.",
        collectives::ROWS,
    ),
    concern("Finding bugs", "For programs that fail, hang, leak or are slow.", diagnosis::ROWS),
    concern("Starting jobs", "For hosts that are not reached by ssh, or are slow to answer.", launch::ROWS),
    concern("Checkpoints", "For jobs with --checkpoint-dir.", checkpoint::ROWS),
    concern("Network", "For hosts with several networks, firewalls, or untrusted networks.", network::ROWS),
    concern("Files", "For programs that use io-servers.", files::ROWS),
];

/// All settings, in the order in which `tutti info` prints them.
pub static SETTINGS: &[Setting] = &joined::<{ count(&GROUPS, &[]) }>(&GROUPS, &[]);

/// Settings and behind them requests, which MPI_T has as control variables.
pub static CONTROL_VARIABLES: &[Setting] =
    &joined::<{ count(&GROUPS, checkpoint::REQUESTS) }>(&GROUPS, checkpoint::REQUESTS);

const fn count(groups: &[Concern], requests: &[Setting]) -> usize {
    let (mut count, mut group) = (requests.len(), 0);
    while group < groups.len() {
        count += groups[group].settings.len();
        group += 1;
    }
    count
}

const fn joined<const N: usize>(groups: &[Concern], requests: &[Setting]) -> [Setting; N] {
    let (mut all, mut count, mut group) = ([messages::ROWS[0]; N], 0, 0);
    while group < groups.len() {
        let mut row = 0;
        while row < groups[group].settings.len() {
            all[count] = groups[group].settings[row];
            (row, count) = (row + 1, count + 1);
        }
        group += 1;
    }
    let mut row = 0;
    while row < requests.len() {
        all[count] = requests[row];
        (row, count) = (row + 1, count + 1);
    }
    all
}
