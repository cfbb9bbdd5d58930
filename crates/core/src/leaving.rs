//! End of MPI_Finalize: a process waits for the others for a limited time, as one of them may still need it.
//!
//! Ranks count themselves ([`tutti_sys::job`], `arrivals`). No message of a collective operation takes part,
//! so that MPI_Finalize of one rank never completes an operation of another. After [`PATIENCE_NS`] a rank
//! returns from MPI_Finalize without the others:
//!
//! - If its program ends with a status other than 0, the launcher ends the job with it. An example is an
//!   exception on one rank of a Python program: the others would wait for that rank, and that rank for them.
//! - If it ends with status 0, the process stays in an exit handler until all ranks have called MPI_Finalize.
//!   It still serves the others there. Ranks that wait for it in an operation get an error that names it
//!   ([`crate::departed`]).
//!
//! If another launcher has started a job on several hosts, no daemon collects the arrivals of hosts. Ranks
//! then meet by messages in a context of their own, without a time limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tutti_base::{ContextId, Rank, Result};
use tutti_sys::clock;

use crate::collective::{self, Unreceived, WaitContext};
use crate::communicator::Communicator;
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::progress;

/// Longest wait of a rank for the others in MPI_Finalize, in nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Time between two reports to the daemon, in nanoseconds. A daemon that was restarted from a checkpoint has
/// lost earlier ones.
const REPORT_NS: u64 = 1_000_000_000;

/// Maximum number of progress calls before the search for unreceived messages.
const MOST_LOOKS: u32 = 10_000;

/// Context of the messages by which ranks meet in MPI_Finalize if they cannot count themselves.
const LAST_CONTEXT: ContextId = ContextId(ContextId::LIMIT - 1);

/// Counts this process, once, as one that has called MPI_Finalize.
pub fn arrive(held: &LaneGuard, process: &Process) {
    static ARRIVED: AtomicBool = AtomicBool::new(false);
    if !ARRIVED.swap(true, Ordering::AcqRel) && process.job.arrive() {
        report(held, process);
    }
}

/// Reports that all ranks of this host have called MPI_Finalize.
fn report(held: &LaneGuard, process: &Process) {
    if !process.job.header().has_other_hosts() {
        return process.job.note_all_arrived();
    }
    if let Some(far) = process.messages.borrow_mut(held).link.far() {
        far.report_arrival();
    }
}

/// Waits for a limited time until all ranks have called MPI_Finalize.
///
/// # Errors
/// The error of a message, or a disagreement of ranks about a collective operation.
pub fn meet(held: &mut LaneGuard, process: &Process) -> Result<()> {
    let counts = !process.job.header().has_other_hosts()
        || process.messages.borrow_mut(held).link.far().is_some_and(|far| far.collects_arrivals());
    if counts {
        arrive(held, process);
        wait(held, process, clock::now_ns() + PATIENCE_NS);
    } else {
        meet_by_messages(held, process)?;
        process.job.note_all_arrived();
    }
    if process.job.have_all_arrived() {
        check_unreceived(held, process)?;
    }
    Ok(())
}

/// Waits until all ranks have called MPI_Finalize, or until the time `until_ns`.
pub fn wait(held: &mut LaneGuard, process: &Process, until_ns: u64) {
    let mut next_report_ns = clock::now_ns() + REPORT_NS;
    let what = || "MPI_Finalize, for other ranks to call it".to_string();
    progress::wait_until(held, process, &what, |held| {
        let now_ns = clock::now_ns();
        if now_ns >= next_report_ns && process.job.have_arrived_here() {
            next_report_ns = now_ns + REPORT_NS;
            report(held, process);
        }
        process.job.have_all_arrived() || now_ns >= until_ns
    });
}

/// Waits for all ranks by messages that match no operation of the program.
fn meet_by_messages(held: &mut LaneGuard, process: &Process) -> Result<()> {
    // This process cannot leave. So only its reply shows other ranks that they wait for it in vain.
    process.messages.borrow_mut(held).state.departures.is_leaving = true;
    let group = (Group::world(process.world_size()), Rank(process.rank.0));
    let comm: Arc<Communicator> =
        Communicator::predefined(LAST_CONTEXT, "MPI_Finalize", group.0, group.1, ErrorHandler::Fatal);
    WaitContext::new(held, process, &comm).barrier_by_messages()
}

/// Searches for data of collective operations that this rank has never received. Prints a warning if this
/// rank has not called the operation, as no rank waits for the data.
///
/// # Errors
/// An error if ranks have called the operation with arguments that do not match.
fn check_unreceived(held: &LaneGuard, process: &Process) -> Result<()> {
    let _ = (0..MOST_LOOKS).take_while(|_| progress::progress(held, process)).count();
    match collective::unreceived(held, process) {
        Some(Unreceived { error, is_disagreement: true }) => return Err(error),
        Some(Unreceived { error, .. }) => {
            eprintln!("Tutti: rank {}: warning in MPI_Finalize: {}", process.rank, error.message);
        }
        None => {}
    }
    Ok(())
}
