//! Rule for the first operations of a new communicator, which go by messages. Many communicators see only a
//! few operations. For two processes, making banks takes as long as a hundred short operations by messages.

use crate::communicator::Communicator;
use crate::communicator::collectives::{Channel, places};
use crate::lanes::LaneGuard;
use crate::process::{Process, SELF_CONTEXT};

/// Number of operations that go by messages first.
const BEFORE_BANKS: u32 = 4;

/// Returns true if the next operation is one of the first of two processes on one host, which need no
/// banks.
///
/// - Only the operation's number decides, not its kind. Otherwise mismatched calls would take different
///   routes, and no member could detect it.
/// - Only two processes: the operands of a reduction then meet in one order only, and later operations give
///   the same bits.
/// - With more ranks than processors banks pay at once, since each message may wait for a processor.
/// - Algorithms that the user names take precedence.
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
