//! One loop over elements, compiled for each level of vector instructions, and the choice among them.
//!
//! # Safety
//! A kernel's caller promises valid arrays of `count` elements, at any alignment; `left` and `right` of
//! [`Three`] do not overlap `out`. Kernels for a level are only handed out where the processor has it.
#![allow(unsafe_code)]

use crate::kernels::Combine;
use std::arch::is_x86_feature_detected;
use std::sync::OnceLock;

/// `inout[i] = input[i] op inout[i]`: input, inout, count.
pub(crate) type Two = unsafe fn(*const u8, *mut u8, usize);
/// `out[i] = left[i] op right[i]`: left, right, out, count.
pub(crate) type Three = unsafe fn(*const u8, *const u8, *mut u8, usize);

/// The two loops of one operator and type.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    pub two: Two,
    pub three: Three,
    /// Elements of the loop in one item: 2 where a complex is two reals.
    pub lanes: usize,
}

#[derive(Clone, Copy)]
enum Level {
    Base,
    Avx2,
    Avx512,
}

fn level() -> Level {
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

impl Kernels {
    /// The loops at the widest level of this processor.
    pub fn of<T: Copy, O: Combine<T>>() -> Kernels {
        let (two, three): (Two, Three) = match level() {
            Level::Avx512 => (two_avx512::<T, O>, three_avx512::<T, O>),
            Level::Avx2 => (two_avx2::<T, O>, three_avx2::<T, O>),
            Level::Base => (two::<T, O>, three::<T, O>),
        };
        Kernels { two, three, lanes: 1 }
    }

    /// The loops for types that do not vectorise.
    pub fn scalar<T: Copy, O: Combine<T>>() -> Kernels {
        Kernels { two: two::<T, O>, three: three::<T, O>, lanes: 1 }
    }

    /// The same loops for items of several elements.
    pub fn lanes(self, lanes: usize) -> Kernels {
        Kernels { lanes, ..self }
    }
}

/// # Safety
/// See the module.
#[inline(always)]
unsafe fn two<T: Copy, O: Combine<T>>(input: *const u8, inout: *mut u8, count: usize) {
    let (input, inout) = (input.cast::<T>(), inout.cast::<T>());
    for i in 0..count {
        // SAFETY: i < count, and the caller promises that many elements.
        unsafe {
            let result = O::combine(input.add(i).read_unaligned(), inout.add(i).read_unaligned());
            inout.add(i).write_unaligned(result);
        }
    }
}

/// # Safety
/// See the module.
#[inline(always)]
unsafe fn three<T: Copy, O: Combine<T>>(left: *const u8, right: *const u8, out: *mut u8, count: usize) {
    let (left, right, out) = (left.cast::<T>(), right.cast::<T>(), out.cast::<T>());
    for i in 0..count {
        // SAFETY: i < count, and the caller promises that many elements.
        unsafe {
            let result = O::combine(left.add(i).read_unaligned(), right.add(i).read_unaligned());
            out.add(i).write_unaligned(result);
        }
    }
}

/// # Safety
/// See the module; the processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn two_avx2<T: Copy, O: Combine<T>>(input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: passed on.
    unsafe { two::<T, O>(input, inout, count) }
}

/// # Safety
/// See the module; the processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn three_avx2<T: Copy, O: Combine<T>>(left: *const u8, right: *const u8, out: *mut u8, count: usize) {
    // SAFETY: passed on.
    unsafe { three::<T, O>(left, right, out, count) }
}

/// # Safety
/// See the module; the processor has these parts of AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn two_avx512<T: Copy, O: Combine<T>>(input: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: passed on.
    unsafe { two::<T, O>(input, inout, count) }
}

/// # Safety
/// See the module; the processor has these parts of AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn three_avx512<T: Copy, O: Combine<T>>(
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    count: usize,
) {
    // SAFETY: passed on.
    unsafe { three::<T, O>(left, right, out, count) }
}
