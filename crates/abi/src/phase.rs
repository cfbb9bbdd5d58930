//! Phases of the library (before, during and after MPI), and the number of calls in progress.

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering, compiler_fence, fence};

use tutti_base::config::MAX_LANES;
use tutti_core::lanes::Lane;

const BEFORE: u8 = 0;
const RUNNING: u8 = 1;
const OVER: u8 = 2;

static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
/// Whether the functions of MPI may be called: the world model or a session is up.
static USABLE: AtomicU8 = AtomicU8::new(BEFORE);
/// Calls under way by the lane they began in, nested ones and ones that wait included.
static CALLS: [Calls; MAX_LANES as usize] = [const { Calls(AtomicUsize::new(0)) }; MAX_LANES as usize];
static WORLD_RANK: AtomicI32 = AtomicI32::new(-1);

/// Away from the cache lines of other lanes.
#[repr(align(128))]
struct Calls(AtomicUsize);

/// Returns true if the functions of MPI may be called.
#[inline(always)]
pub fn is_running() -> bool {
    USABLE.load(Ordering::Relaxed) == RUNNING
}

/// Returns true if MPI functions can no longer be called.
pub fn is_over() -> bool {
    USABLE.load(Ordering::Relaxed) == OVER
}

/// Returns true if MPI_Init was called (and perhaps MPI_Finalize too).
pub fn was_initialised() -> bool {
    PHASE.load(Ordering::Acquire) != BEFORE
}

/// Returns true if MPI_Finalize was called.
pub fn was_finalised() -> bool {
    PHASE.load(Ordering::Acquire) == OVER
}

/// Returns true if the world model is up.
pub fn is_in_world() -> bool {
    PHASE.load(Ordering::Acquire) == RUNNING
}

/// Notes that MPI_Init has succeeded on this rank of the world.
pub fn world_begins(rank: u32) {
    WORLD_RANK.store(rank as i32, Ordering::Relaxed);
    PHASE.store(RUNNING, Ordering::Release);
    USABLE.store(RUNNING, Ordering::Release);
}

/// Notes that MPI_Finalize has completed. `sessions` is true if sessions are still open.
pub fn world_ends(sessions: bool) {
    PHASE.store(OVER, Ordering::Release);
    if !sessions {
        USABLE.store(OVER, Ordering::Release);
    }
}

/// Notes that a session was opened (`true`), or that the last one was closed outside the world model.
pub fn sessions(open: bool) {
    USABLE.store(if open { RUNNING } else { OVER }, Ordering::Release);
}

/// Returns the rank of this process in the world, once it is known.
pub fn world_rank() -> Option<i32> {
    let rank = WORLD_RANK.load(Ordering::Relaxed);
    (rank >= 0).then_some(rank)
}

/// Notes the begin of a call while one thread at a time is in the library. Objects that the call looks up are
/// not dropped before its end.
#[inline(always)]
pub fn call_begins() {
    let calls = &CALLS[0].0;
    calls.store(calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Notes the end of a call while one thread at a time is in the library.
#[inline(always)]
pub fn call_ends() {
    let calls = &CALLS[0].0;
    calls.store(calls.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
}

/// Notes the begin of a call in a lane whose lock it holds. Objects that the call looks up are not dropped
/// before its end.
#[inline]
pub fn call_begins_in(lane: Lane) {
    CALLS[lane.number() as usize].0.fetch_add(1, Ordering::SeqCst);
    // Pairs with the fence of `is_quiet`: either `is_quiet` sees this call, or this call sees all earlier
    // removals. On x86 the locked addition is a fence already (AMD64 manual, section 7.4.2).
    if cfg!(target_arch = "x86_64") {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Notes the end of a call that began in `lane`.
#[inline]
pub fn call_ends_in(lane: Lane) {
    CALLS[lane.number() as usize].0.fetch_sub(1, Ordering::Release);
}

/// Returns true if no call in progress can have looked up objects that the holder of the first lane has
/// removed.
pub fn is_quiet() -> bool {
    fence(Ordering::SeqCst);
    CALLS.iter().all(|calls| calls.0.load(Ordering::Acquire) == 0)
}
