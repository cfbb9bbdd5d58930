//! The C library's `madvise`, for the program that this library is linked to.
//!
//! Buffers that are used often become shared memory (mapped regions). What a program then discards by madvise
//! has to read as zero, as private memory would, which the kernel does not do for shared memory: it refuses,
//! and programs seldom look whether it did. This wrapper does it. Calls that do not come this way (a program
//! that loads MPI at run time, a system call of its own) are refused by the kernel: an error, and nothing
//! discarded.

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
