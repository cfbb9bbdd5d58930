//! The C library's `madvise`, for the program that this library is linked to.
//!
//! Buffers that are used often become shared memory (mapped regions). After a program has discarded pages by
//! madvise, they must read as zero, as private memory would. The kernel refuses this for shared memory, and
//! programs seldom check the result. This wrapper discards the pages itself. Calls on other ways (a program
//! that loads MPI at run time, a direct system call) are refused by the kernel, with an error and without
//! effect.

use std::ffi::{c_int, c_void};

/// Replaces the C library's madvise(2): see the module.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { tutti_core::messenger::advise(address as u64, bytes as u64, advice) } {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: the calling thread's errno.
            unsafe { *libc::__errno_location() = error.raw_os_error().unwrap_or(libc::EINVAL) };
            -1
        }
    }
}
