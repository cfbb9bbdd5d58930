//! Frame of each MPI function: check that the library runs, take the lock, call the implementation, raise an
//! error.

use std::ffi::c_int;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::communicator::Communicator;
use tutti_core::lanes::{self, Lane, LaneGuard};
use tutti_core::tool::events;
use tutti_core::{continuation, process, progress, progress_thread, repairs, trace};

use crate::errors;
use crate::generated::constants::MPI_SUCCESS;
use crate::handles;
use crate::lane;
use crate::listeners;
use crate::phase;
use crate::scope::Scope;

pub use crate::function::{At, Function};

/// A call under way: proof that this thread is inside the library.
#[derive(Debug)]
pub struct Call {
    /// Token of the lock, which functions of core require.
    pub held: LaneGuard,
    /// The function that the user called.
    pub function: &'static Function,
    /// Object whose error handler receives an error. An implementation changes it if an error belongs to an
    /// object that is not an argument, such as the communicator of a request.
    pub at: At,
    /// The lane in which the call is counted.
    counted: Lane,
    /// Start time in nanoseconds, or 0 if the call is not traced.
    since_ns: u64,
}

impl Call {
    #[inline(always)]
    fn enter(function: &'static Function, at: At, lane: Lane) -> Call {
        let held = if lanes::threads_allowed() {
            enter_among_threads(lane)
        } else {
            phase::call_begins();
            lanes::enter_alone()
        };
        Call { held, function, at, counted: lane, since_ns: trace::since() }
    }

    /// Ends the call. It is no `Drop`, which would not be inlined into the entry points. It takes `self` by
    /// reference, as a value that was stored in parts is slow to load as a whole.
    #[inline(always)]
    fn leave(&self) {
        if self.since_ns != 0 {
            trace::call(self.function.name, self.since_ns);
        }
        if lanes::threads_allowed() {
            leave_among_threads(&self.held, self.counted);
        } else {
            phase::call_ends();
        }
        if events::any_waiting() || handles::any_retired() {
            tidy_up(&self.held);
        }
    }

    /// Goes on in the lane of a communicator's messages, which the entry could only guess.
    #[inline]
    pub fn go_to_lane_of(&mut self, comm: &Communicator) {
        if self.held.lane() != comm.lane() {
            self.change_lane(comm);
        }
    }

    #[cold]
    fn change_lane(&mut self, comm: &Communicator) {
        lane::learn(comm);
        self.held.move_to(comm.lane());
    }
}

/// Enters a lane where several threads may be.
#[inline(never)]
fn enter_among_threads(lane: Lane) -> LaneGuard {
    let held = lanes::enter_lane(lane);
    phase::call_begins_in(lane);
    held
}

/// Ends a call in a process with several threads: wakes threads that sleep until this call completes
/// something.
#[inline(never)]
fn leave_among_threads(held: &LaneGuard, counted: Lane) {
    if let Some(process) = process::process() {
        progress::tell_threads(held, process);
    }
    phase::call_ends_in(counted);
}

/// Performs work at the end of a call that must wait until no other call is in progress.
#[cold]
fn tidy_up(held: &LaneGuard) {
    if held.lane().is_first() && phase::is_quiet() {
        if events::any_waiting() {
            if let (true, Some(process)) = (continuation::any_ready(), process::process()) {
                continuation::run_ready(held, process);
            }
            listeners::tell(held);
        }
        handles::drop_retired();
        if repairs::lack_somebody()
            && let Some(process) = process::process()
        {
            progress_thread::start_repairs(process);
        }
    }
}

/// Runs the implementation of `function`. `arguments` are formatted only if an error is reported.
#[inline(always)]
pub fn entry<const N: usize>(
    function: &'static Function,
    at: At,
    arguments: impl FnOnce() -> [usize; N],
    body: impl for<'s> FnOnce(&mut Call, Scope<'s>) -> Result<()>,
) -> c_int {
    entry_in(Lane::FIRST, function, at, arguments, body)
}

/// Runs a function like [`entry`], but in a lane, for functions that use messages only (see [`lane`]).
#[inline(always)]
pub fn entry_in<const N: usize>(
    lane: Lane,
    function: &'static Function,
    at: At,
    arguments: impl FnOnce() -> [usize; N],
    body: impl for<'s> FnOnce(&mut Call, Scope<'s>) -> Result<()>,
) -> c_int {
    if !function.always && !phase::is_running() {
        return outside(function, &arguments());
    }
    let mut call = Call::enter(function, at, lane);
    let result = body(&mut call, Scope::new());
    call.leave();
    match result {
        Ok(()) => MPI_SUCCESS,
        Err(error) => failed(call, &error, &arguments()),
    }
}

/// Raises an error once the call has left the library: its handler may call MPI.
#[cold]
fn failed(call: Call, error: &Error, arguments: &[usize]) -> c_int {
    let Call { held, function, at, .. } = call;
    drop(held);
    errors::raise(function, at, error, arguments)
}

/// Runs the implementation of a function that any thread may call at any time: no lock, no state.
#[inline(always)]
pub fn bare<const N: usize>(
    function: &'static Function,
    arguments: impl FnOnce() -> [usize; N],
    body: impl for<'s> FnOnce(Scope<'s>) -> Result<()>,
) -> c_int {
    match body(Scope::new()) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => errors::raise(function, At::World, &error, &arguments()),
    }
}

/// Reports that a function is not implemented.
#[cold]
pub fn unsupported<const N: usize>(
    function: &'static Function,
    at: At,
    arguments: impl FnOnce() -> [usize; N],
) -> c_int {
    if !function.always && !phase::is_running() {
        return outside(function, &arguments());
    }
    let reason = format!("{} is not implemented yet (tutti info --functions lists what is)", function.name);
    let error = Error::new(ErrorClass::UnsupportedOperation, reason);
    errors::raise(function, at, &error, &arguments())
}

#[cold]
fn outside(function: &'static Function, arguments: &[usize]) -> c_int {
    let reason = if phase::is_over() {
        "called after MPI_Finalize"
    } else {
        "called before MPI_Init: call MPI_Init, MPI_Init_thread or MPI_Session_init first"
    };
    errors::raise(function, At::World, &Error::new(ErrorClass::Other, reason), arguments)
}
