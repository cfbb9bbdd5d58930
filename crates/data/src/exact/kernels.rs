//! Loops of exact reductions over arrays, for each level of vector instructions, and their choice.
//!
//! A loop has the form of those in [`crate::simd`]: each chunk of all operands is read before its result is
//! written, so the result may be any of the operands.
//!
//! # Safety
//! As in [`crate::simd`].
#![allow(unsafe_code)]

use super::accumulator::Accumulator;
use super::cascade::{self, Element, Lanes};
use super::format::{BF16, F16, F32, F64, Format};
use super::{environment, product};
use crate::op::Operator;
use crate::predefined::{Class, Predefined};
use crate::simd::Kernels;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Level, level};

/// Level of vector instructions, as a type with the loops that are compiled for it.
trait Compiled {
    fn sums<T: Element>() -> Kernels;
    fn accumulate<T: Element>() -> Accumulate;
}

/// Adds `count` elements of an array to a sum.
pub(crate) type Accumulate = unsafe fn(*const u8, usize, &mut Accumulator);

/// The loops for processors with some features.
macro_rules! compiled {
    ($(#[$cfg:meta])* $name:ident, $lanes:ty, $vectors:literal, $(#[$feature:meta])*) => {
        $(#[$cfg])*
        struct $name;

        $(#[$cfg])*
        impl Compiled for $name {
            fn sums<T: Element>() -> Kernels {
                /// # Safety
                /// See the module; the processor has the features.
                $(#[$feature])*
                unsafe fn three<T: Element>(
                    left: *const u8,
                    right: *const u8,
                    into: *mut u8,
                    count: usize,
                ) {
                    // SAFETY: passed on.
                    unsafe { sum::<$lanes, T, $vectors>(&[left, right], into, 0, count) }
                }

                /// # Safety
                /// See the module; the processor has the features.
                $(#[$feature])*
                unsafe fn many<T: Element>(
                    sources: &[*const u8],
                    into: *mut u8,
                    offset: isize,
                    count: usize,
                ) {
                    // SAFETY: passed on.
                    unsafe { sum::<$lanes, T, $vectors>(sources, into, offset, count) }
                }

                Kernels { three: three::<T>, many: many::<T>, streaming: many::<T>, lanes: 1 }
            }

            fn accumulate<T: Element>() -> Accumulate {
                /// # Safety
                /// See the module; the processor has the features.
                $(#[$feature])*
                unsafe fn accumulate<T: Element>(from: *const u8, count: usize, total: &mut Accumulator) {
                    // SAFETY: passed on.
                    unsafe { cascade::accumulate::<$lanes, T, $vectors>(from, count, total) }
                }

                accumulate::<T>
            }
        }
    };
}

compiled!(Scalar, f64, 1,);
compiled!(
    #[cfg(target_arch = "x86_64")]
    Avx2, std::arch::x86_64::__m256d, 4, #[target_feature(enable = "avx2")]
);
compiled!(
    #[cfg(target_arch = "x86_64")]
    Avx512, std::arch::x86_64::__m512d, 4, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
);

/// Computes the exact sums of arrays.
///
/// # Safety
/// See the module.
#[inline(always)]
unsafe fn sum<L: Lanes, T: Element, const V: usize>(
    sources: &[*const u8],
    into: *mut u8,
    offset: isize,
    count: usize,
) {
    let size = size_of::<T::Bits>() as isize;
    let step = (V * L::LANES) as isize * size;
    let (mut at, end) = (offset, offset + count as isize * size);
    let is_default = environment::is_default();
    // SAFETY: passed on; every chunk ends at `end` or before it.
    unsafe {
        while is_default && end - at >= step {
            if !cascade::chunk::<L, T, V>(sources, into, at) {
                elements::<T>(sources, into, at, at + step, true);
            }
            at += step;
        }
        elements::<T>(sources, into, at, end, is_default);
    }
}

/// Computes the elements from byte `at` to `end` one by one.
///
/// # Safety
/// See the module.
unsafe fn elements<T: Element>(
    sources: &[*const u8],
    into: *mut u8,
    at: isize,
    end: isize,
    is_default: bool,
) {
    let size = size_of::<T::Bits>();
    for at in (at..end).step_by(size) {
        // SAFETY: passed on.
        unsafe {
            if is_default && cascade::chunk::<f64, T, 1>(sources, into, at) {
                continue;
            }
            let mut sum = Accumulator::new();
            let operand = |source: &*const u8| source.wrapping_offset(at).cast::<T::Bits>().read_unaligned();
            sources.iter().for_each(|source| sum.add_bits::<T>(operand(source)));
            into.wrapping_offset(at).cast::<T::Bits>().write_unaligned(sum.round_to::<T>());
        }
    }
}

/// Computes the exact products of arrays.
///
/// # Safety
/// See the module.
unsafe fn products<T: Format>(sources: &[*const u8], into: *mut u8, offset: isize, count: usize) {
    let size = size_of::<T::Bits>();
    for at in (offset..offset + (count * size) as isize).step_by(size) {
        // SAFETY: passed on.
        unsafe {
            let operand = |source: &*const u8| source.wrapping_offset(at).cast::<T::Bits>().read_unaligned();
            let result = product::product::<T>(sources.iter().map(operand));
            into.wrapping_offset(at).cast::<T::Bits>().write_unaligned(result);
        }
    }
}

/// # Safety
/// See the module.
unsafe fn product_of_two<T: Format>(left: *const u8, right: *const u8, into: *mut u8, count: usize) {
    // SAFETY: passed on.
    unsafe { products::<T>(&[left, right], into, 0, count) }
}

fn product_kernels<T: Format>() -> Kernels {
    let many = products::<T>;
    Kernels { three: product_of_two::<T>, many, streaming: many, lanes: 1 }
}

/// Returns the loops of sums of a format.
fn sum_kernels<T: Element>() -> Kernels {
    #[cfg(target_arch = "x86_64")]
    match level() {
        Level::Avx512 => return Avx512::sums::<T>(),
        Level::Avx2 => return Avx2::sums::<T>(),
        Level::Base => {}
    }
    Scalar::sums::<T>()
}

/// Returns the loop that adds elements of a format to an accumulator.
fn accumulate_kernel<T: Element>() -> Accumulate {
    #[cfg(target_arch = "x86_64")]
    match level() {
        Level::Avx512 => return Avx512::accumulate::<T>(),
        Level::Avx2 => return Avx2::accumulate::<T>(),
        Level::Base => {}
    }
    Scalar::accumulate::<T>()
}

/// The loops of an exact operator over arrays of a predefined type, or `None` if there are none. A complex
/// number is two reals in a sum; its products are not exact.
pub(crate) fn select(operator: Operator, row: &Predefined) -> Option<Kernels> {
    let lanes = if row.class == Class::Complex { 2 } else { 1 };
    let bytes = usize::from(row.bytes) / lanes;
    let one = match (operator, row.class, bytes) {
        (Operator::Sum, Class::Float | Class::Complex, 2) => sum_kernels::<F16>(),
        (Operator::Sum, Class::Float | Class::Complex, 4) => sum_kernels::<F32>(),
        (Operator::Sum, Class::Float | Class::Complex, 8) => sum_kernels::<F64>(),
        (Operator::Sum, Class::Brain, 2) => sum_kernels::<BF16>(),
        (Operator::Product, Class::Float, 2) => product_kernels::<F16>(),
        (Operator::Product, Class::Float, 4) => product_kernels::<F32>(),
        (Operator::Product, Class::Float, 8) => product_kernels::<F64>(),
        (Operator::Product, Class::Brain, 2) => product_kernels::<BF16>(),
        _ => return None,
    };
    Some(one.lanes(lanes))
}

/// Functions for exact sums of arrays of one type.
pub(crate) struct Summing {
    pub accumulate: Accumulate,
    /// Returns the bits of a rounded sum.
    pub round: fn(&Accumulator) -> u64,
    /// Real numbers in an element.
    pub reals: usize,
}

/// Returns the functions for exact sums of a predefined type, or `None` if there are none.
pub(crate) fn select_sum(row: &Predefined) -> Option<Summing> {
    fn summing<T: Element>(reals: usize) -> Summing {
        let round = |sum: &Accumulator| sum.round_to::<T>().into();
        Summing { accumulate: accumulate_kernel::<T>(), round, reals }
    }
    let reals = if row.class == Class::Complex { 2 } else { 1 };
    Some(match (row.class, usize::from(row.bytes) / reals) {
        (Class::Float | Class::Complex, 2) => summing::<F16>(reals),
        (Class::Float | Class::Complex, 4) => summing::<F32>(reals),
        (Class::Float | Class::Complex, 8) => summing::<F64>(reals),
        (Class::Brain, 2) => summing::<BF16>(reals),
        _ => return None,
    })
}

/// All levels of this processor with their loops, for tests that compare them.
#[cfg(test)]
pub(crate) fn levels<T: Element>() -> Vec<Kernels> {
    let mut all = vec![Scalar::sums::<T>()];
    #[cfg(target_arch = "x86_64")]
    {
        if !matches!(level(), Level::Base) {
            all.push(Avx2::sums::<T>());
        }
        if matches!(level(), Level::Avx512) {
            all.push(Avx512::sums::<T>());
        }
    }
    all
}
