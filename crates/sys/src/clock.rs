//! Clocks that all processes of a machine share.

use crate::kept;

/// Returns nanoseconds of the monotonic clock: since the start of the machine. After a restart from a
/// checkpoint, the clock continues that of the checkpointed process.
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: now is writable; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    let now_ns = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
    now_ns.wrapping_add(kept::shift_ns())
}

/// Returns the processor time of the calling thread, in nanoseconds.
pub fn thread_ns() -> u64 {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: used is writable; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut used) };
    used.tv_sec.cast_unsigned() * 1_000_000_000 + used.tv_nsec.cast_unsigned()
}

/// Returns the cheapest clock, for short times only. It counts one to five ticks a nanosecond.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the instruction, and Linux does not forbid it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return now_ns();
}

/// Returns `ticks` after all earlier loads have finished, to measure the time of a load.
#[inline]
pub fn ticks_after_loads() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: changes no state that the program sees.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    ticks()
}
