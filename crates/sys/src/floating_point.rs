//! The floating-point environment of the calling thread: rounding mode, traps and exception flags
//! (fenv(3)).
//!
//! The environment belongs to the program, but the library computes costs and statistics in floating point
//! on the program's threads. With traps enabled, such arithmetic would end the program, and it would leave
//! flags that the program had not caused. With another rounding mode, ranks could choose different
//! algorithms. So the library computes in [`isolated`]: in the default environment, of which nothing is
//! left afterwards. Reductions of the program's data and its own operators never run inside: their
//! exceptions are the program's.
//!
//! # Safety
//! The instructions access the control and status registers alone. Every value that is written was read
//! before, or is the one with which the ABI starts a process, so reserved bits stay zero.

use std::hint::black_box;
use std::marker::PhantomData;

/// Runs `work` in the default environment and restores the thread's environment afterwards. Calls may be
/// nested.
///
/// Costs one or two nanoseconds where the program has changed nothing and `work` raises no new flag. The
/// compiler cannot move arithmetic out of `work`: all that it captures and returns passes through
/// [`black_box`].
#[inline]
pub fn isolated<R>(work: impl FnOnce() -> R) -> R {
    let environment = Environment::enter();
    let result = black_box(black_box(work)());
    drop(environment);
    result
}

/// Gives the calling thread the default environment. Called in threads of the library, which otherwise
/// inherit the environment of the thread that started them.
pub fn reset() {
    registers::set(registers::DEFAULT);
}

/// Saved environment of a thread, restored when this is dropped.
#[derive(Debug)]
struct Environment {
    before: registers::State,
    not_send: PhantomData<*const ()>,
}

impl Environment {
    #[inline]
    fn enter() -> Environment {
        let before = registers::get();
        // Flags may stay set: they are restored in any case.
        if !registers::has_default_control(before) {
            registers::set(registers::DEFAULT);
        }
        Environment { before, not_send: PhantomData }
    }
}

impl Drop for Environment {
    #[inline]
    fn drop(&mut self) {
        if registers::get() != self.before {
            registers::set(self.before);
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod registers {
    //! MXCSR (Intel 64 manual, volume 1, section 10.2.3). The registers of the x87 are left alone: Rust
    //! computes with them only in reductions of the program's data.

    use std::arch::asm;

    pub type State = u32;
    pub const DEFAULT: State = 0x1f80;
    /// The six exception flags.
    const FLAGS: State = 0x3f;

    #[inline]
    pub fn get() -> State {
        let mut state = 0;
        // SAFETY: stores four bytes at a valid place.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut state, options(nostack, preserves_flags)) };
        state
    }

    #[inline]
    pub fn set(state: State) {
        // SAFETY: see the module's Safety section. No instruction raises an exception for a flag that is set.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const state, options(nostack, preserves_flags)) };
    }

    #[inline]
    pub fn has_default_control(state: State) -> bool {
        state & !FLAGS == DEFAULT
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod registers {
    //! FPCR and FPSR (Arm architecture reference manual, section C5.2).

    use std::arch::asm;

    pub type State = (u64, u64);
    pub const DEFAULT: State = (0, 0);

    #[inline]
    pub fn get() -> State {
        let (control, status);
        // SAFETY: reads two registers.
        unsafe {
            asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status,
                options(nostack, preserves_flags));
        }
        (control, status)
    }

    #[inline]
    pub fn set((control, status): State) {
        // SAFETY: see the module's Safety section.
        unsafe {
            asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) control, in(reg) status,
                options(nostack, preserves_flags));
        }
    }

    #[inline]
    pub fn has_default_control((control, _): State) -> bool {
        control == 0
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod registers {
    //! The registers of this processor are not known: work runs in the program's environment.

    pub type State = ();
    pub const DEFAULT: State = ();

    pub fn get() -> State {}

    pub fn set(_: State) {}

    pub fn has_default_control(_: State) -> bool {
        true
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;

    /// Traps for all exceptions.
    const TRAPS: u32 = 0;
    const ROUND_UP: u32 = 2 << 13;
    const INVALID: u32 = 1;

    /// Raises invalid operation, division by zero, overflow and an inexact result; returns a third.
    fn compute() -> f64 {
        let [zero, one, large, infinite] = black_box([0.0, 1.0, f64::MAX, f64::INFINITY]);
        black_box(zero * infinite + one / zero + large * large);
        one / black_box(3.0)
    }

    fn check(environment: u32) {
        registers::set(environment);
        let third = isolated(compute);
        let nested = isolated(|| isolated(compute));
        let after = registers::get();
        registers::set(registers::DEFAULT);
        assert_eq!(after, environment);
        assert_eq!((third, nested), (1.0 / 3.0, 1.0 / 3.0), "{environment:#x}");
    }

    #[test]
    fn the_environment_of_the_program_is_left_as_it_was() {
        for environment in
            [registers::DEFAULT, TRAPS, registers::DEFAULT | ROUND_UP, registers::DEFAULT | INVALID]
        {
            check(environment);
        }
        check(TRAPS | ROUND_UP | INVALID);
    }

    #[test]
    fn a_thread_may_begin_anew() {
        registers::set(registers::DEFAULT | ROUND_UP | INVALID);
        reset();
        assert_eq!(registers::get(), registers::DEFAULT);
    }

    #[test]
    fn a_panic_restores_the_environment() {
        registers::set(registers::DEFAULT | ROUND_UP);
        let result = std::panic::catch_unwind(|| isolated(|| panic!("on purpose")));
        assert!(result.is_err() && registers::get() == registers::DEFAULT | ROUND_UP);
        reset();
    }
}
