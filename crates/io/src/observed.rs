//! Counters (`TUTTI_COUNTERS`, MPI_T) and trace events (`TUTTI_TRACE`) of accesses to devices and servers.

use tutti_base::trace::{Action, Event, Level};
use tutti_base::traffic::TRAFFIC;
use tutti_core::trace;
use tutti_storage::Moved;
use tutti_sys::clock;

/// Runs `work` and counts its time. It is for accesses in a schedule, whose steps are in the trace already.
pub fn counted(work: impl FnOnce() -> Moved) -> Moved {
    let start_ns = clock::now_ns();
    let moved = work();
    TRAFFIC.file_ns.add(clock::now_ns() - start_ns);
    moved
}

/// Observes an access that is not part of a schedule, and adds it to the trace as a step. `far` is true if it
/// goes over a network.
pub fn traced(write: bool, far: bool, work: impl FnOnce() -> Moved) -> Moved {
    let start_ns = trace::since();
    let moved = counted(work);
    if trace::is_on() {
        let action = if write { Action::FileWrite } else { Action::FileRead };
        let level = if far { Level::Network } else { Level::Own };
        trace::record(Event { bytes: moved.bytes, level, ..trace::event(action, start_ns) });
    }
    moved
}
