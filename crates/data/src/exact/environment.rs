//! The thread's floating-point environment, as far as vector kernels depend on it.
//!
//! # Safety
//! The instructions only read a control register.
#![allow(unsafe_code)]

/// Returns true if arithmetic rounds to nearest, keeps subnormals, and does not trap. The transformations of
/// `cascade` are exact only then. A program may have changed that, for this thread or by an option of its
/// compiler.
#[inline]
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) fn is_default() -> bool {
    /// MXCSR with all exceptions masked (Intel 64 manual, volume 1, section 10.2.3).
    const DEFAULT: u32 = 0x1f80;
    /// Flags of exceptions that have occurred.
    const FLAGS: u32 = 0x3f;
    let mut state = 0_u32;
    // SAFETY: stores four bytes at a valid place.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut state, options(nostack, preserves_flags)) };
    state & !FLAGS == DEFAULT
}

/// Returns true if arithmetic rounds to nearest, keeps subnormals, and does not trap.
#[inline]
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(super) fn is_default() -> bool {
    let control: u64;
    // SAFETY: reads FPCR (Arm architecture reference manual, section C5.2).
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) control, options(nostack, preserves_flags)) };
    control == 0
}

/// Returns false: the registers of this processor are not known.
#[inline]
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(super) fn is_default() -> bool {
    false
}
