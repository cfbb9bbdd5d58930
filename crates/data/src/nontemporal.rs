//! Stores that pass the caches by. A result that is larger than the cache would otherwise be read before it
//! is written (the line is fetched to be changed) and drive out what is needed next. Miri, which knows no
//! caches, takes ordinary ones.
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
#[cfg(all(target_arch = "x86_64", not(miri)))]
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

/// Copies whole lines to the first byte of a line, by the widest stores there are: they fill what the
/// processor collects in fewer steps (1.3 times what 16-byte words do).
///
/// # Safety
/// See the module; both sides hold so many bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) unsafe fn lines(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise, and the processor has what was asked for.
    unsafe {
        if std::arch::is_x86_feature_detected!("avx2") {
            lines_avx2(from, into, bytes);
        } else {
            store(from, into, bytes);
        }
    }
}

/// # Safety
/// As for [`lines`]; the processor has AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
unsafe fn lines_avx2(from: *const u8, into: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    for at in (0..bytes).step_by(LINE) {
        // SAFETY: the caller's promise.
        unsafe {
            let (from, into) = (from.add(at).cast::<__m256i>(), into.add(at).cast::<__m256i>());
            let (low, high) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
            _mm256_stream_si256(into, low);
            _mm256_stream_si256(into.add(1), high);
        }
    }
}

/// Copies in the ordinary way.
///
/// # Safety
/// See the module; both sides hold so many bytes.
#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(crate) unsafe fn lines(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { store(from, into, bytes) };
}

/// Orders all stores before it, as ordinary stores are ordered.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: changes no state that the program sees.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// Copies in the ordinary way: no stable instruction bypasses the caches here.
///
/// # Safety
/// See the module; both sides hold so many bytes.
#[cfg(any(not(target_arch = "x86_64"), miri))]
#[inline(always)]
pub(crate) unsafe fn store(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { into.copy_from_nonoverlapping(from, bytes) };
}

/// Does nothing, as ordinary stores need no fence.
#[cfg(any(not(target_arch = "x86_64"), miri))]
#[inline(always)]
pub(crate) fn fence() {}
