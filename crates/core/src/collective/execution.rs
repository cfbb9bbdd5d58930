//! Execution of a plan: the [engine](crate::engine) takes its steps over the ports of this stage.
//!
//! | module | content |
//! |---|---|
//! | `port` | port of all operations: messages, the slot in the banks |
//! | `bank_port` | port of operations that need nothing but banks, for the fast path |
//! | `loans`, `inline_payload` | memory that members expose to each other, in place or by value |
//! | `served` | exposed memory that its owner copies, where the system denies access |
//!
//! [`fast_path`] tries to do an operation at once. The waits for operations that are not over are in
//! [`completion`](super::completion).

pub(super) mod bank_port;
mod inline_payload;
mod loans;
pub(super) mod port;
mod served;

use tutti_transport::banks::Banks;

use crate::communicator::collectives::agreement::OperationAgreement;
use crate::communicator::collectives::turn::BankTurn;
use crate::communicator::collectives::{CachedExecution, Ticket, ticket};
use crate::engine::ExecutionStatus;
use bank_port::BankPort;

/// Makes a ticket as [`ticket`] does, and tries to do the whole operation at once. That works if it is
/// compiled, needs no more than a [`BankPort`], and need not wait. Returns `None` if the operation is done.
#[inline(always)]
pub(super) fn fast_path(
    tag: i32,
    number: u32,
    banks: &mut Banks,
    cached: &mut CachedExecution,
    looks: u32,
) -> Option<Ticket> {
    let Some(room) = cached.room.filter(|_| cached.execution.is_compiled()) else {
        return Some(ticket(tag, number, banks, cached));
    };
    let mut turn = BankTurn::take(banks, room, cached.bank_signature.agreed);
    let agreement = OperationAgreement::begin(banks, number, &cached.bank_signature, Some(&turn));
    if !agreement.is_lost() && turn.grant(banks) {
        let slot = *turn.slot();
        let (bank_bytes, near_bytes) = (room.bytes, room.near_bytes);
        let mut port = BankPort { banks, slot, bank_bytes, carried_bytes: 0, near_bytes, looks };
        let status = cached.execution.fast_path(&mut port);
        let carried_bytes = port.carried_bytes;
        if let ExecutionStatus::Done = status {
            turn.leave(banks);
            return None;
        }
        let ticket = Ticket::new(tag, Some(turn), agreement, cached.signature);
        return Some(Ticket { carried_bytes, ..ticket });
    }
    Some(Ticket::new(tag, Some(turn), agreement, cached.signature))
}
