//! Stores that pass the caches by. A result that is larger than the cache would otherwise be read before it is
//! written (the line is fetched to be changed) and drive out what is needed next.
//!
//! # Safety
//! Stores are of whole 16-byte words at an aligned address. Others see them in order only after [`fence`].
#![allow(unsafe_code)]

/// Bytes of a cache line: what the processor collects before it writes to memory.
pub(crate) const LINE: usize = 64;

/// Copies `bytes`, whole words, to the aligned address `into`.
///
/// # Safety
/// See the module; both sides hold so many bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn store(from: *const u8, into: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    for at in (0..bytes).step_by(16) {
        // SAFETY: the caller's promise; SSE2 is in every x86-64.
        unsafe {
            let word = _mm_loadu_si128(from.add(at).cast::<__m128i>());
            _mm_stream_si128(into.add(at).cast::<__m128i>(), word);
        }
    }
}

/// Orders all stores before it, as ordinary stores are ordered.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: changes no state that the program sees.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// An ordinary copy: there is no stable way to say more.
///
/// # Safety
/// See the module; both sides hold so many bytes.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) unsafe fn store(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { into.copy_from_nonoverlapping(from, bytes) };
}

/// Ordinary stores need none.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn fence() {}
