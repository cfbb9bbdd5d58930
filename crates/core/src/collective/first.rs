//! The first operations of a new communicator: many see no more than a few, and to make banks, which later
//! ones use, takes two processes as long as a hundred short operations by messages. So these few are done by
//! messages.

use crate::communicator::Communicator;
use crate::communicator::collectives::{Channel, places};
use crate::lanes::LaneGuard;
use crate::process::{Process, SELF_CONTEXT};

/// How many.
const BEFORE_BANKS: u32 = 4;

/// Whether the next operation is one of the first of two processes on one host, which need no banks. It is
/// their number alone that says so, not what they are: calls that do not fit each other would go different
/// ways, and nobody could tell. Of two processes, as the operands of a reduction then meet in one order only,
/// and later ones give the same bits. With more ranks than processors banks pay at once, since each message
/// may wait for a processor; and whoever names algorithms gets those.
pub(super) fn is_among_them(held: &LaneGuard, process: &Process, comm: &Communicator) -> bool {
    let (its, header, config) = (&comm.collectives, process.job.header(), &process.config.collectives);
    if comm.size() != 2 || comm.context().0 <= SELF_CONTEXT.0 || !matches!(its.channel, Channel::Own) {
        return false;
    }
    let state = its.state.borrow(held);
    state.operations < BEFORE_BANKS
        && header.local_ranks <= header.processors
        && config.algorithm.is_empty()
        && !state.wishes.name_algorithms()
        && its.node.numbers(process, comm).is_none()
        && !places::is_mixed(process, comm)
}
