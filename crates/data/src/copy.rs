//! Copies of raw memory, used once both sides of a transfer are addresses.
//!
//! [`copy_small`] is compiled into its caller: up to 64 bytes it is a few loads and stores without a loop.
//! [`copy`] is for any size. Beyond small sizes it is the C library's. Loops over wider registers and `rep
//! movsb` are only as fast as that for data that another core has just written (the example `copies` measures
//! it). The exception is data of up to 32 KiB in a core's own cache. There the C library takes `rep movsb`
//! from 2 KiB on (glibc 2.36, where the processor is said to do that fast). That takes 1.1 to 1.3 times as
//! long as a loop whose stores are aligned, and twice as long if the target is not a multiple of 32 bytes.
//! [`copy_streaming`] bypasses the caches on the writing side. It pays where source and target together are
//! larger than the last-level cache and the target is not read next (measured: 0.6 of the speed of [`copy`]
//! below that size, 1.5 times it above). The caller knows both conditions; this module does not.
//!
//! # Safety
//! Callers promise that both sides have `bytes` bytes and are disjoint.
#![allow(unsafe_code)]

use crate::nontemporal;
use std::ptr;

/// Highest number of bytes that [`copy_small`] copies.
pub const SMALL: usize = 64;

/// Copies `bytes`, at most [`SMALL`], by words that overlap in the middle.
///
/// # Safety
/// See the module; but both sides may overlap, as all is read before anything is written.
#[inline(always)]
pub unsafe fn copy_small(from: *const u8, into: *mut u8, bytes: usize) {
    debug_assert!(bytes <= SMALL);
    // SAFETY: the caller's promise; each arm takes its words from within `bytes`.
    unsafe {
        match bytes {
            8 => into.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            33.. => ends::<[u128; 2]>(from, into, bytes),
            17.. => ends::<u128>(from, into, bytes),
            9.. => ends::<u64>(from, into, bytes),
            4.. => ends::<u32>(from, into, bytes),
            2.. => ends::<u16>(from, into, bytes),
            1 => into.write(from.read()),
            0 => {}
        }
    }
}

/// Copies the first and the last `T` of `bytes`, which they cover together.
///
/// # Safety
/// Between one and two `T` are there.
#[inline(always)]
unsafe fn ends<T: Copy>(from: *const u8, into: *mut u8, bytes: usize) {
    let last = bytes - size_of::<T>();
    // SAFETY: the caller's promise.
    unsafe {
        let words = (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
        into.cast::<T>().write_unaligned(words.0);
        into.add(last).cast::<T>().write_unaligned(words.1);
    }
}

/// Copies any number of bytes.
///
/// # Safety
/// See the module.
#[inline]
pub unsafe fn copy(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            ..=SMALL => copy_small(from, into, bytes),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            LOOP_LEAST..=LOOP_MOST if std::arch::is_x86_feature_detected!("avx2") => {
                copy_loop(from, into, bytes);
            }
            _ => ptr::copy_nonoverlapping(from, into, bytes),
        }
    }
}

/// Bytes that [`copy_loop`] moves in one step, and hence the fewest that it copies.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LOOP_LEAST: usize = 128;
/// Most bytes that [`copy_loop`] copies: beyond, all methods wait for the first-level cache.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LOOP_MOST: usize = 32 << 10;

/// Copies `bytes`, at least [`LOOP_LEAST`]. All stores but the first and the last few are aligned.
///
/// # Safety
/// See the module; the processor has AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
unsafe fn copy_loop(from: *const u8, into: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    const WORD: usize = size_of::<__m256i>();
    debug_assert!(bytes >= LOOP_LEAST);
    // SAFETY: the caller's promise; each word is within `bytes`: the last ones end with them, and those of
    // the loop before them.
    unsafe {
        let load = |at: usize| _mm256_loadu_si256(from.add(at).cast::<__m256i>());
        let store = |at: usize, word| _mm256_storeu_si256(into.add(at).cast::<__m256i>(), word);
        let load_four = |at: usize| [load(at), load(at + WORD), load(at + 2 * WORD), load(at + 3 * WORD)];
        let store_four = |at: usize, words: [__m256i; 4]| {
            store(at, words[0]);
            store(at + WORD, words[1]);
            store(at + 2 * WORD, words[2]);
            store(at + 3 * WORD, words[3]);
        };
        store(0, load(0));
        let mut at = WORD - into.addr() % WORD;
        while at + LOOP_LEAST < bytes {
            store_four(at, load_four(at));
            at += LOOP_LEAST;
        }
        store_four(bytes - LOOP_LEAST, load_four(bytes - LOOP_LEAST));
    }
}

/// Copies `bytes` to memory that is not read soon. Ordered before all stores that follow, like any other
/// copy.
///
/// # Safety
/// See the module.
pub unsafe fn copy_streaming(from: *const u8, into: *mut u8, bytes: usize) {
    let head = into.align_offset(nontemporal::LINE).min(bytes);
    let lines = (bytes - head) / nontemporal::LINE * nontemporal::LINE;
    let tail = bytes - head - lines;
    // SAFETY: the caller's promise; the three parts are all of it, and the middle one begins at a line.
    unsafe {
        copy_small(from, into, head);
        nontemporal::lines(from.add(head), into.add(head), lines);
        copy_small(from.add(head + lines), into.add(head + lines), tail);
    }
    nontemporal::fence();
}

/// Copies slices with [`copy_streaming`].
///
/// # Panics
/// If they are not of one length.
pub fn fill_streaming(into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len(), "both sides of a copy");
    // SAFETY: both hold so many bytes, and are disjoint as one of them is borrowed alone.
    unsafe { copy_streaming(from.as_ptr(), into.as_mut_ptr(), from.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that each way of copying moves these bytes, and none beside them.
    fn check(bytes: usize, from: usize, into: usize) {
        let source: Vec<u8> = (0..bytes + from).map(|i| i as u8 ^ (i >> 8) as u8).collect();
        let ways: [unsafe fn(*const u8, *mut u8, usize); 3] = [copy_small, copy, copy_streaming];
        for (which, way) in ways.into_iter().enumerate().skip(usize::from(bytes > SMALL)) {
            let mut target = vec![0xa5; into + bytes + 70];
            // SAFETY: both hold so many bytes.
            unsafe { way(source.as_ptr().add(from), target.as_mut_ptr().add(into), bytes) };
            let (before, rest) = target.split_at(into);
            let (copied, after) = rest.split_at(bytes);
            assert_eq!(copied, &source[from..], "{which} {bytes} {from} {into}");
            assert!(before.iter().chain(after).all(|byte| *byte == 0xa5), "{which} {bytes} {from} {into}");
        }
    }

    #[test]
    fn any_size_at_any_alignment() {
        // Miri, which is slow, gets the sizes at which something changes.
        let sizes: Vec<usize> = match cfg!(miri) {
            true => vec![0, 1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 129, 191],
            false => (0..=SMALL)
                .chain([65, 127, 128, 129, 191, 255, 256, 290, 1000, 4097, 32_768, 32_769])
                .collect(),
        };
        for bytes in sizes {
            for (from, into) in [(0, 0), (1, 0), (0, 1), (3, 17), (63, 64)] {
                check(bytes, from, into);
            }
        }
    }
}
