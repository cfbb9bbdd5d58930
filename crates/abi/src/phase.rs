//! Where the library is in its life, and how many calls are under way.

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering};

const BEFORE: u8 = 0;
const RUNNING: u8 = 1;
const OVER: u8 = 2;

static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
/// Whether the functions of MPI may be called: the world model or a session is up.
static USABLE: AtomicU8 = AtomicU8::new(BEFORE);
/// Calls under way, nested ones and ones that wait included. Only touched under the giant lock.
static CALLS: AtomicUsize = AtomicUsize::new(0);
static WORLD_RANK: AtomicI32 = AtomicI32::new(-1);

/// Whether the functions of MPI may be called.
#[inline(always)]
pub fn is_running() -> bool {
    USABLE.load(Ordering::Relaxed) == RUNNING
}

/// Whether they cannot be called any more.
pub fn is_over() -> bool {
    USABLE.load(Ordering::Relaxed) == OVER
}

/// Whether MPI_Init was called (and perhaps MPI_Finalize too).
pub fn was_initialised() -> bool {
    PHASE.load(Ordering::Acquire) != BEFORE
}

/// Whether MPI_Finalize was called.
pub fn was_finalised() -> bool {
    PHASE.load(Ordering::Acquire) == OVER
}

/// MPI_Init succeeded.
pub fn world_begins(rank: u32) {
    WORLD_RANK.store(rank as i32, Ordering::Relaxed);
    PHASE.store(RUNNING, Ordering::Release);
    USABLE.store(RUNNING, Ordering::Release);
}

/// MPI_Finalize is done. `sessions` are still open or not.
pub fn world_ends(sessions: bool) {
    PHASE.store(OVER, Ordering::Release);
    if !sessions {
        USABLE.store(OVER, Ordering::Release);
    }
}

/// A session was opened (`true`) or the last one closed while the world model is not up.
pub fn sessions(open: bool) {
    USABLE.store(if open { RUNNING } else { OVER }, Ordering::Release);
}

/// The rank of this process in the world, once it is known.
pub fn world_rank() -> Option<i32> {
    let rank = WORLD_RANK.load(Ordering::Relaxed);
    (rank >= 0).then_some(rank)
}

/// A call begins; the giant lock is held.
#[inline]
pub fn call_begins() {
    CALLS.store(CALLS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// A call ends; the giant lock is held. Whether it was the last one.
#[inline]
pub fn call_ends() -> bool {
    let calls = CALLS.load(Ordering::Relaxed) - 1;
    CALLS.store(calls, Ordering::Relaxed);
    calls == 0
}
