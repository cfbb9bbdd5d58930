//! Exact sums of a few operands, for many elements at once.
//!
//! A sum of two numbers and its rounding error are computed by six additions (Knuth's TwoSum, exact without
//! overflow). Each operand is added to a first sum, its error to a second one. If all errors of the second
//! sum are zero, both sums together are the exact result, and adding them rounds once. The errors are nearly
//! always zero: the smallest and the largest operand would have to be some 2^50 apart. Where one is not, and
//! where infinities, NaNs or overflow make it NaN, an [`Accumulator`] computes the element.
//!
//! The transformation is that of T. Ogita, S. Rump, S. Oishi, "Accurate sum and dot product" (SIAM J. Sci.
//! Comput. 26, 2005), section 4; the test makes it exact.
//!
//! # Safety
//! Pointers are to arrays that are as long as a caller says, at any alignment. Lanes for a level of vector
//! instructions are only used where the processor has it.
#![allow(unsafe_code)]

use super::accumulator::Accumulator;
use super::format::{BF16, F16, F32, F64, Format};
use crate::brain::{Brain, odd};
use crate::quad::Half;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A vector of f64, or one of them.
pub(crate) trait Lanes: Copy {
    /// Number of lanes.
    const LANES: usize;

    /// Reads [`Lanes::LANES`] numbers.
    ///
    /// # Safety
    /// See the module's Safety section; so for all functions of this trait.
    unsafe fn load(from: *const f64) -> Self;
    /// Writes them.
    ///
    /// # Safety
    /// See [`Lanes::load`].
    unsafe fn store(self, into: *mut f64);
    /// Returns zeros.
    ///
    /// # Safety
    /// See [`Lanes::load`].
    unsafe fn zero() -> Self;
    /// Adds.
    ///
    /// # Safety
    /// See [`Lanes::load`].
    unsafe fn plus(self, other: Self) -> Self;
    /// Subtracts.
    ///
    /// # Safety
    /// See [`Lanes::load`].
    unsafe fn minus(self, other: Self) -> Self;
    /// Returns the union of the bits of both.
    ///
    /// # Safety
    /// See [`Lanes::load`].
    unsafe fn union(self, other: Self) -> Self;
    /// Returns true if all lanes are 0 or -0.
    ///
    /// # Safety
    /// See [`Lanes::load`].
    unsafe fn is_zero(self) -> bool;
    /// Returns `self + other`, but `self` where `other` is zero, and the quiet NaN for any NaN.
    ///
    /// # Safety
    /// See [`Lanes::load`].
    unsafe fn closed(self, other: Self) -> Self;
    /// Returns `range` extended by the magnitudes of these lanes, or `None` if this level has no quick way.
    ///
    /// # Safety
    /// See [`Lanes::load`].
    #[inline(always)]
    unsafe fn extend(self, _range: Option<Range<Self>>) -> Option<Range<Self>> {
        None
    }
    /// Returns true if sums of `operands` numbers of this range cannot overflow, and their errors can be
    /// added without rounding.
    ///
    /// # Safety
    /// See [`Lanes::load`].
    #[inline(always)]
    unsafe fn is_narrow(_range: &Range<Self>, _operands: usize) -> bool {
        false
    }
}

/// Magnitudes of operands, as bit patterns: the least that is not zero, less one, and the greatest.
#[derive(Clone, Copy)]
pub(crate) struct Range<L> {
    least: L,
    most: L,
}

impl Lanes for f64 {
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> f64 {
        // SAFETY: the caller's promise.
        unsafe { from.read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, into: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { into.write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn zero() -> f64 {
        0.0
    }

    #[inline(always)]
    unsafe fn plus(self, other: f64) -> f64 {
        self + other
    }

    #[inline(always)]
    unsafe fn minus(self, other: f64) -> f64 {
        self - other
    }

    #[inline(always)]
    unsafe fn union(self, other: f64) -> f64 {
        f64::from_bits(self.to_bits() | other.to_bits())
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        self == 0.0
    }

    #[inline(always)]
    unsafe fn closed(self, other: f64) -> f64 {
        let sum = if other == 0.0 { self } else { self + other };
        if sum.is_nan() { f64::from_bits(F64::NAN) } else { sum }
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for __m256d {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> __m256d {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn store(self, into: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_pd(into, self) }
    }

    #[inline(always)]
    unsafe fn zero() -> __m256d {
        // SAFETY: the processor has AVX2.
        unsafe { _mm256_setzero_pd() }
    }

    #[inline(always)]
    unsafe fn plus(self, other: __m256d) -> __m256d {
        // SAFETY: the processor has AVX2.
        unsafe { _mm256_add_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn minus(self, other: __m256d) -> __m256d {
        // SAFETY: the processor has AVX2.
        unsafe { _mm256_sub_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn union(self, other: __m256d) -> __m256d {
        // SAFETY: the processor has AVX2.
        unsafe { _mm256_or_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: the processor has AVX2.
        unsafe { _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_NEQ_UQ>(self, _mm256_setzero_pd())) == 0 }
    }

    #[inline(always)]
    unsafe fn closed(self, other: __m256d) -> __m256d {
        // SAFETY: the processor has AVX2.
        unsafe {
            let is_zero = _mm256_cmp_pd::<_CMP_EQ_OQ>(other, _mm256_setzero_pd());
            let sum = _mm256_blendv_pd(_mm256_add_pd(self, other), self, is_zero);
            let nan = _mm256_set1_pd(f64::from_bits(F64::NAN));
            _mm256_blendv_pd(sum, nan, _mm256_cmp_pd::<_CMP_UNORD_Q>(sum, sum))
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for __m512d {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> __m512d {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn store(self, into: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_pd(into, self) }
    }

    #[inline(always)]
    unsafe fn zero() -> __m512d {
        // SAFETY: the processor has AVX-512.
        unsafe { _mm512_setzero_pd() }
    }

    #[inline(always)]
    unsafe fn plus(self, other: __m512d) -> __m512d {
        // SAFETY: the processor has AVX-512.
        unsafe { _mm512_add_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn minus(self, other: __m512d) -> __m512d {
        // SAFETY: the processor has AVX-512.
        unsafe { _mm512_sub_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn union(self, other: __m512d) -> __m512d {
        // SAFETY: the processor has AVX-512.
        unsafe { _mm512_or_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: the processor has AVX-512.
        unsafe { _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(self, _mm512_setzero_pd()) == 0 }
    }

    #[inline(always)]
    unsafe fn closed(self, other: __m512d) -> __m512d {
        // SAFETY: the processor has AVX-512.
        unsafe {
            let is_more = _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(other, _mm512_setzero_pd());
            let sum = _mm512_mask_add_pd(self, is_more, self, other);
            let nan = _mm512_set1_pd(f64::from_bits(F64::NAN));
            _mm512_mask_mov_pd(sum, _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(sum, sum), nan)
        }
    }

    #[inline(always)]
    unsafe fn extend(self, range: Option<Range<__m512d>>) -> Option<Range<__m512d>> {
        // SAFETY: the processor has AVX-512.
        unsafe {
            let bits = _mm512_and_si512(_mm512_castpd_si512(self), _mm512_set1_epi64(i64::MAX));
            // Zero becomes the largest number, so it is never the least.
            let less = _mm512_sub_epi64(bits, _mm512_set1_epi64(1));
            let (least, most) = match range {
                None => (less, bits),
                Some(Range { least, most }) => (
                    _mm512_min_epu64(_mm512_castpd_si512(least), less),
                    _mm512_max_epu64(_mm512_castpd_si512(most), bits),
                ),
            };
            Some(Range { least: _mm512_castsi512_pd(least), most: _mm512_castsi512_pd(most) })
        }
    }

    #[inline(always)]
    unsafe fn is_narrow(range: &Range<__m512d>, operands: usize) -> bool {
        let log = i64::from(operands.next_power_of_two().ilog2());
        // SAFETY: the processor has AVX-512.
        unsafe {
            let exponent = |bits| _mm512_srli_epi64::<52>(_mm512_castpd_si512(bits));
            let (least, most) = (exponent(range.least), exponent(range.most));
            let reach = _mm512_sub_epi64(most, least);
            let wide = _mm512_cmpgt_epi64_mask(reach, _mm512_set1_epi64(53 - 2 * log));
            let large = _mm512_cmpgt_epi64_mask(most, _mm512_set1_epi64(2045 - log));
            wide | large == 0
        }
    }
}

/// An element of an array that is summed.
pub(crate) trait Element: Format {
    /// True if a sum of two elements is one addition of vectors.
    const ADDS_PAIRS: bool = false;

    /// Reads one vector of elements as f64, which is exact.
    ///
    /// # Safety
    /// See the module's Safety section.
    unsafe fn load<L: Lanes>(from: *const u8) -> L;
    /// Rounds `sum + rest` once, and writes it. Both are finite, or `rest` is 0.
    ///
    /// # Safety
    /// See the module's Safety section.
    unsafe fn store<L: Lanes>(sum: L, rest: L, into: *mut u8);
}

impl Element for F64 {
    const ADDS_PAIRS: bool = true;

    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const u8) -> L {
        // SAFETY: passed on.
        unsafe { L::load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store<L: Lanes>(sum: L, rest: L, into: *mut u8) {
        // SAFETY: passed on.
        unsafe { sum.closed(rest).store(into.cast()) }
    }
}

/// Most lanes of a vector.
const MOST_LANES: usize = 8;

/// Widens and narrows elements one by one; the compiler makes vectors of these loops.
macro_rules! narrow {
    ($($format:ident: $widen:ident, $narrow:ident;)*) => {$(
        impl Element for $format {
            #[inline(always)]
            unsafe fn load<L: Lanes>(from: *const u8) -> L {
                let from = from.cast::<<$format as Format>::Bits>();
                let mut wide = [0.0; MOST_LANES];
                // SAFETY: passed on.
                unsafe {
                    for (lane, wide) in wide.iter_mut().take(L::LANES).enumerate() {
                        *wide = $widen(from.add(lane).read_unaligned());
                    }
                    L::load(wide.as_ptr())
                }
            }

            #[inline(always)]
            unsafe fn store<L: Lanes>(sum: L, rest: L, into: *mut u8) {
                let into = into.cast::<<$format as Format>::Bits>();
                let (mut sums, mut rests) = ([0.0; MOST_LANES], [0.0; MOST_LANES]);
                // SAFETY: passed on.
                unsafe {
                    sum.store(sums.as_mut_ptr());
                    rest.store(rests.as_mut_ptr());
                    for lane in 0..L::LANES {
                        into.add(lane).write_unaligned($narrow(to_odd(sums[lane], rests[lane])));
                    }
                }
            }
        }
    )*};
}

narrow! {
    F32: widen_f32, narrow_f32;
    BF16: widen_bf16, narrow_bf16;
    F16: widen_f16, narrow_f16;
}

/// Returns `sum + rest` rounded to odd, as [`odd`] rounds: rounding that to a format with at least two bits
/// less is rounding once.
#[inline(always)]
fn to_odd(sum: f64, rest: f64) -> f64 {
    if rest == 0.0 {
        return sum;
    }
    let (near, error) = two_sum(sum, rest);
    if error == 0.0 { near } else { step_to_odd(near, error) }
}

/// Returns the neighbour of `near` in the direction of `error` if its last bit is 0.
#[inline(always)]
fn step_to_odd(near: f64, error: f64) -> f64 {
    let bits = near.to_bits();
    let away = (near < 0.0) == (error < 0.0);
    let step = 1 - (bits & 1);
    f64::from_bits(if away { bits + step } else { bits - step })
}

#[inline(always)]
fn two_sum(one: f64, two: f64) -> (f64, f64) {
    let sum = one + two;
    let second = sum - one;
    (sum, (one - (sum - second)) + (two - second))
}

#[inline(always)]
fn widen_f32(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

#[inline(always)]
fn widen_bf16(bits: u16) -> f64 {
    f64::from(Brain(bits).widen())
}

#[inline(always)]
fn widen_f16(bits: u16) -> f64 {
    f64::from(Half(bits).widen())
}

#[inline(always)]
fn narrow_f32(wide: f64) -> u32 {
    if wide.is_nan() { F32::NAN as u32 } else { (wide as f32).to_bits() }
}

#[inline(always)]
fn narrow_bf16(wide: f64) -> u16 {
    if wide.is_nan() { BF16::NAN as u16 } else { Brain::narrow(odd(wide)).0 }
}

#[inline(always)]
fn narrow_f16(wide: f64) -> u16 {
    if wide.is_nan() { F16::NAN as u16 } else { Half::narrow(odd(wide)).0 }
}

/// Sums of one chunk, of `V` vectors.
struct Sums<L, const V: usize> {
    sum: [L; V],
    rest: [L; V],
    /// Union of the errors of `rest`.
    lost: L,
}

impl<L: Lanes, const V: usize> Sums<L, V> {
    /// # Safety
    /// See the module's Safety section.
    #[inline(always)]
    unsafe fn new<T: Element>(from: *const u8) -> Sums<L, V> {
        // SAFETY: passed on.
        unsafe {
            let mut sums = Sums { sum: [L::zero(); V], rest: [L::zero(); V], lost: L::zero() };
            for (place, sum) in sums.sum.iter_mut().enumerate() {
                *sum = T::load(from.wrapping_add(place * L::LANES * size_of::<T::Bits>()));
            }
            sums
        }
    }

    /// # Safety
    /// See the module's Safety section.
    #[inline(always)]
    unsafe fn add<T: Element>(&mut self, from: *const u8) {
        // SAFETY: passed on.
        unsafe {
            for place in 0..V {
                let next: L = T::load(from.wrapping_add(place * L::LANES * size_of::<T::Bits>()));
                let (sum, error) = two_sums(self.sum[place], next);
                let (rest, lost) = two_sums(self.rest[place], error);
                (self.sum[place], self.rest[place]) = (sum, rest);
                self.lost = self.lost.union(lost);
            }
        }
    }
}

/// Returns the sum and its rounding error.
///
/// # Safety
/// See the module's Safety section.
#[inline(always)]
unsafe fn two_sums<L: Lanes>(one: L, two: L) -> (L, L) {
    // SAFETY: passed on.
    unsafe {
        let sum = one.plus(two);
        let second = sum.minus(one);
        (sum, one.minus(sum.minus(second)).plus(two.minus(second)))
    }
}

/// Computes one chunk as [`chunk`] does, if the magnitudes of the operands are so close that errors are added
/// without rounding. Let the biased exponents of the operands, zeros aside, lie between l and h, and let
/// their number n be at most 2^c. All operands, sums and errors are multiples of 2^(l - 1075). Sums are at
/// most n 2^(h - 1022), so that errors are at most 2^(h + c - 1075) each and 2^(h + 2c - 1075) together. If h
/// + 2c <= l + 53, each partial sum of errors has at most 53 bits. Nothing overflows if h + c < 2046.
///
/// # Safety
/// See the module's Safety section. There is at least one source.
#[inline(always)]
unsafe fn narrow_chunk<L: Lanes, T: Element, const V: usize>(
    sources: &[*const u8],
    into: *mut u8,
    at: isize,
) -> bool {
    let (first, others) = sources.split_first().expect("a reduction has operands");
    // SAFETY: passed on.
    unsafe {
        let mut sum = [L::zero(); V];
        let mut rest = [L::zero(); V];
        let mut ranges = [None; V];
        for place in 0..V {
            let offset = at + (place * L::LANES * size_of::<T::Bits>()) as isize;
            sum[place] = T::load(first.wrapping_offset(offset));
            ranges[place] = sum[place].extend(None);
            if ranges[place].is_none() {
                return false;
            }
        }
        for source in others {
            for place in 0..V {
                let offset = at + (place * L::LANES * size_of::<T::Bits>()) as isize;
                let next: L = T::load(source.wrapping_offset(offset));
                ranges[place] = next.extend(ranges[place]);
                let error;
                (sum[place], error) = two_sums(sum[place], next);
                rest[place] = rest[place].plus(error);
            }
        }
        if !ranges.iter().flatten().all(|range| L::is_narrow(range, sources.len())) {
            return false;
        }
        for place in 0..V {
            let offset = at + (place * L::LANES * size_of::<T::Bits>()) as isize;
            T::store(sum[place], rest[place], into.wrapping_offset(offset));
        }
        true
    }
}

/// Computes one chunk of `V` vectors at byte `at` of all arrays. Returns false, having written nothing, if
/// the sums are not known to be exact.
///
/// # Safety
/// See the module's Safety section. There is at least one source.
#[inline(always)]
pub(super) unsafe fn chunk<L: Lanes, T: Element, const V: usize>(
    sources: &[*const u8],
    into: *mut u8,
    at: isize,
) -> bool {
    let (first, rest) = sources.split_first().expect("a reduction has operands");
    // SAFETY: passed on.
    unsafe {
        if let (true, &[second]) = (T::ADDS_PAIRS, rest) {
            // One addition rounds the sum of two once.
            for place in 0..V {
                let offset = at + (place * L::LANES * size_of::<T::Bits>()) as isize;
                let [one, two]: [L; 2] =
                    [*first, second].map(|source| T::load(source.wrapping_offset(offset)));
                T::store(one.plus(two), L::zero(), into.wrapping_offset(offset));
            }
            return true;
        }
        if narrow_chunk::<L, T, V>(sources, into, at) {
            return true;
        }
        let mut sums = Sums::<L, V>::new::<T>(first.wrapping_offset(at));
        for source in rest {
            sums.add::<T>(source.wrapping_offset(at));
        }
        if !sums.lost.is_zero() {
            return false;
        }
        for place in 0..V {
            let at = at + (place * L::LANES * size_of::<T::Bits>()) as isize;
            T::store(sums.sum[place], sums.rest[place], into.wrapping_offset(at));
        }
        true
    }
}

/// Rows of vectors that are summed before the sums go into the accumulator.
const ROWS: usize = 64;

/// Adds the elements of one array to a sum. Vectors are summed in lanes, of which only the sums go into the
/// accumulator.
///
/// # Safety
/// See the module's Safety section.
#[inline(always)]
pub(super) unsafe fn accumulate<L: Lanes, T: Element, const V: usize>(
    from: *const u8,
    count: usize,
    total: &mut Accumulator,
) {
    let size = size_of::<T::Bits>();
    let row = V * L::LANES;
    let mut at = 0;
    // SAFETY: passed on; no element from `count` on is read.
    unsafe {
        while super::environment::is_default() && count - at >= 2 * row {
            let rows = ((count - at) / row).min(ROWS);
            let start = from.wrapping_add(at * size);
            let mut sums = Sums::<L, V>::new::<T>(start);
            (1..rows).for_each(|number| sums.add::<T>(start.wrapping_add(number * row * size)));
            if sums.lost.is_zero() {
                for place in 0..V {
                    total.add_lanes(sums.sum[place], sums.rest[place]);
                }
            } else {
                one_by_one::<T>(start, rows * row, total);
            }
            at += rows * row;
        }
        one_by_one::<T>(from.wrapping_add(at * size), count - at, total);
    }
}

/// # Safety
/// See the module's Safety section.
unsafe fn one_by_one<T: Element>(from: *const u8, count: usize, total: &mut Accumulator) {
    let from = from.cast::<T::Bits>();
    for place in 0..count {
        // SAFETY: the caller's promise.
        total.add_bits::<T>(unsafe { from.wrapping_add(place).read_unaligned() });
    }
}

impl Accumulator {
    /// Adds the values of lanes with their rests, which together are one value each.
    ///
    /// # Safety
    /// See the module's Safety section.
    #[inline(always)]
    unsafe fn add_lanes<L: Lanes>(&mut self, sum: L, rest: L) {
        let (mut sums, mut rests) = ([0.0; MOST_LANES], [0.0; MOST_LANES]);
        // SAFETY: the arrays have room for any lanes.
        unsafe {
            sum.store(sums.as_mut_ptr());
            rest.store(rests.as_mut_ptr());
        }
        for lane in 0..L::LANES {
            self.add(sums[lane]);
            // A rest that is 0 would count as a value that is not -0.
            if rests[lane] != 0.0 {
                self.add(rests[lane]);
            }
        }
    }
}
