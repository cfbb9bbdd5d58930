//! Loops of reductions: one form of loop, compiled for each level of vector instructions, and the choice
//! among them.
//!
//! A loop goes through its operands chunk by chunk. Of each chunk it reads all operands into registers and
//! combines them from right to left, and only then writes. Hence the location of the result does not matter:
//! it may be any one of the operands, or disjoint from them. The compiler needs no check at run time to
//! vectorise. An element is read once and written once however many operands there are.
//!
//! # Safety
//! A loop's caller promises valid arrays of `count` elements, at any alignment; the result is exactly one of
//! the operands or disjoint from it, for each of them. Loops for a level are only handed out where the
//! processor has it.
#![allow(unsafe_code)]

use crate::nontemporal;
use std::mem::MaybeUninit;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// An operator on elements of `T`.
pub(crate) trait Combine<T> {
    fn combine(left: T, right: T) -> T;
}

/// `into[i] = left[i] op right[i]`: left, right, into, count.
pub(crate) type Three = unsafe fn(*const u8, *const u8, *mut u8, usize);
/// `into[i] = s0[i] op (s1[i] op (.. op sn[i]))`: at least one operand, into, the bytes after which the
/// arrays begin at all these addresses, count.
pub(crate) type Many = unsafe fn(&[*const u8], *mut u8, isize, usize);

/// The loops of one operator and type.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    pub three: Three,
    pub many: Many,
    /// Loop like `many`, whose result does not enter the caches.
    pub streaming: Many,
    /// Elements of the loop in one item: 2 where a complex is two reals.
    pub lanes: usize,
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) enum Level {
    Base,
    Avx2,
    Avx512,
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn level() -> Level {
    use std::arch::is_x86_feature_detected;
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match () {
            () if avx512 => Level::Avx512,
            () if is_x86_feature_detected!("avx2") => Level::Avx2,
            () => Level::Base,
        }
    })
}

/// Returns true if the processor is one of AMD that does 512 bits in two halves (Zen 4). It says how wide it
/// is (AMD64 manual, volume 3, CPUID function 8000_001Ah: bit 2 stands for 256 bits, bit 3 for 512). Asked
/// once: on a virtual machine the answer takes microseconds.
#[cfg(target_arch = "x86_64")]
fn halves_512_bits() -> bool {
    use std::arch::x86_64::__cpuid;
    const WIDTHS: u32 = 0x8000_001a;
    static HALVES: OnceLock<bool> = OnceLock::new();
    // Others than AMD have no functions up to that one.
    *HALVES.get_or_init(|| __cpuid(0x8000_0000).eax >= WIDTHS && __cpuid(WIDTHS).eax >> 2 & 3 == 1)
}

impl Kernels {
    /// Returns the loops at the widest level of this processor.
    #[cfg(target_arch = "x86_64")]
    pub fn for_processor<T: Copy, O: Combine<T>>() -> Kernels {
        match level() {
            Level::Avx512 => avx512::kernels::<T, O>(),
            Level::Avx2 => avx2::kernels::<T, O>(),
            Level::Base => Kernels::scalar::<T, O>(),
        }
    }

    /// Returns loops for operations that all levels do in one instruction. On processors that split 512-bit
    /// operations, the loops with 256 bits take 0.95 of their time in the cache of a core. They take 0.94
    /// where operands are not aligned alike (the example `speed`).
    #[cfg(target_arch = "x86_64")]
    pub fn of_simple<T: Copy, O: Combine<T>>() -> Kernels {
        match level() {
            Level::Avx512 if halves_512_bits() => avx2::kernels::<T, O>(),
            _ => Kernels::for_processor::<T, O>(),
        }
    }

    /// Returns the loops at the level that every processor of this architecture has.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn for_processor<T: Copy, O: Combine<T>>() -> Kernels {
        Kernels::scalar::<T, O>()
    }

    /// Returns the same loops as [`Kernels::for_processor`].
    #[cfg(not(target_arch = "x86_64"))]
    pub fn of_simple<T: Copy, O: Combine<T>>() -> Kernels {
        Kernels::for_processor::<T, O>()
    }

    /// Returns the loops for types that do not vectorise.
    pub fn scalar<T: Copy, O: Combine<T>>() -> Kernels {
        Kernels {
            three: three::<T, O, 64>,
            many: many::<T, O, 64, false>,
            streaming: many::<T, O, 64, true>,
            lanes: 1,
        }
    }

    /// Returns the same loops for items of several elements.
    pub fn lanes(self, lanes: usize) -> Kernels {
        Kernels { lanes, ..self }
    }
}

/// The loops for processors with some features, in chunks of four of their registers.
macro_rules! compiled {
    ($level:ident, $features:literal, $chunk:literal) => {
        #[cfg(target_arch = "x86_64")]
        mod $level {
            use super::{Combine, Kernels};

            pub fn kernels<T: Copy, O: Combine<T>>() -> Kernels {
                Kernels {
                    three: three::<T, O>,
                    many: many::<T, O, false>,
                    streaming: many::<T, O, true>,
                    lanes: 1,
                }
            }

            /// # Safety
            /// See the module above; the processor has the features.
            #[target_feature(enable = $features)]
            unsafe fn three<T: Copy, O: Combine<T>>(
                left: *const u8,
                right: *const u8,
                into: *mut u8,
                count: usize,
            ) {
                // SAFETY: passed on.
                unsafe { super::three::<T, O, $chunk>(left, right, into, count) }
            }

            /// # Safety
            /// See the module above; the processor has the features.
            #[target_feature(enable = $features)]
            unsafe fn many<T: Copy, O: Combine<T>, const STREAMING: bool>(
                sources: &[*const u8],
                into: *mut u8,
                offset: isize,
                count: usize,
            ) {
                // SAFETY: passed on.
                unsafe { super::many::<T, O, $chunk, STREAMING>(sources, into, offset, count) }
            }
        }
    };
}

compiled!(avx2, "avx2", 128);
compiled!(avx512, "avx512f,avx512bw,avx512dq,avx512vl", 256);

/// # Safety
/// See the module.
#[inline(always)]
unsafe fn three<T: Copy, O: Combine<T>, const CHUNK: usize>(
    left: *const u8,
    right: *const u8,
    into: *mut u8,
    count: usize,
) {
    // SAFETY: passed on.
    unsafe { chunks::<T, O, CHUNK, false>(&[left, right], into, 0, (count * size_of::<T>()) as isize) };
}

/// # Safety
/// See the module.
#[inline(always)]
unsafe fn many<T: Copy, O: Combine<T>, const CHUNK: usize, const STREAMING: bool>(
    sources: &[*const u8],
    into: *mut u8,
    offset: isize,
    count: usize,
) {
    let end = offset + (count * size_of::<T>()) as isize;
    // Non-temporal stores are of whole aligned lines. Elements that straddle lines are not streamed.
    let head = into.wrapping_offset(offset).align_offset(nontemporal::LINE);
    let middle = offset + head as isize;
    // SAFETY: passed on; head and rest together are the array.
    unsafe {
        if STREAMING && head.is_multiple_of(size_of::<T>()) && middle < end {
            chunks::<T, O, 16, false>(sources, into, offset, middle);
            chunks::<T, O, CHUNK, true>(sources, into, middle, end);
            nontemporal::fence();
        } else {
            chunks::<T, O, CHUNK, false>(sources, into, offset, end);
        }
    }
}

/// Bytes `from..end` of arrays: large chunks, small ones, then elements.
///
/// # Safety
/// See the module. If `STREAMING`, the byte `from` of `into` is the first of a line.
#[inline(always)]
unsafe fn chunks<T: Copy, O: Combine<T>, const CHUNK: usize, const STREAMING: bool>(
    sources: &[*const u8],
    into: *mut u8,
    from: isize,
    end: isize,
) {
    let mut at = from;
    let size = size_of::<T>();
    // SAFETY: each chunk ends at `end` or before it.
    unsafe {
        while CHUNK >= size && end - at >= CHUNK as isize {
            chunk::<T, O, CHUNK, STREAMING>(sources, into, at);
            at += CHUNK as isize;
            one_by_one();
        }
        while CHUNK > 16 && size <= 8 && end - at >= 16 {
            chunk::<T, O, 16, false>(sources, into, at);
            at += 16;
            one_by_one();
        }
        while at < end {
            element::<T, O>(sources, into, at);
            at += size as isize;
            one_by_one();
        }
    }
}

/// Keeps the compiler from vectorising across chunks or operands, which would gather and scatter. Called in
/// the loops over them.
#[inline(always)]
fn one_by_one() {
    #[cfg(not(miri))]
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// Part of an operand, in registers if the compiler is kind.
#[repr(C, align(64))]
struct Chunk<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

/// # Safety
/// See the module: `BYTES` bytes from `at` on are whole elements of all arrays.
#[inline(always)]
unsafe fn chunk<T: Copy, O: Combine<T>, const BYTES: usize, const STREAMING: bool>(
    sources: &[*const u8],
    into: *mut u8,
    at: isize,
) {
    let (last, rest) = sources.split_last().expect("a reduction has operands");
    let mut chunk = Chunk::<BYTES>(MaybeUninit::uninit());
    let sum = chunk.0.as_mut_ptr().cast::<T>();
    // SAFETY: the caller's promise; a chunk is aligned for any element and holds `BYTES` bytes.
    unsafe {
        sum.cast::<u8>().copy_from_nonoverlapping(last.wrapping_offset(at), BYTES);
        for source in rest.iter().rev() {
            one_by_one();
            let source = source.wrapping_offset(at).cast::<T>();
            for lane in 0..BYTES / size_of::<T>() {
                let result = O::combine(source.add(lane).read_unaligned(), sum.add(lane).read());
                sum.add(lane).write(result);
            }
        }
        if STREAMING {
            nontemporal::store(sum.cast::<u8>(), into.wrapping_offset(at), BYTES);
        } else {
            into.wrapping_offset(at).copy_from_nonoverlapping(sum.cast::<u8>(), BYTES);
        }
    }
}

/// # Safety
/// See the module: an element begins at byte `at` of all arrays.
#[inline(always)]
unsafe fn element<T: Copy, O: Combine<T>>(sources: &[*const u8], into: *mut u8, at: isize) {
    let (last, rest) = sources.split_last().expect("a reduction has operands");
    // SAFETY: the caller's promise.
    unsafe {
        let first = last.wrapping_offset(at).cast::<T>().read_unaligned();
        let combine = |sum, source: &*const u8| {
            one_by_one();
            O::combine(source.wrapping_offset(at).cast::<T>().read_unaligned(), sum)
        };
        into.wrapping_offset(at).cast::<T>().write_unaligned(rest.iter().rev().fold(first, combine));
    }
}
