//! Exact sums and products: against other ways to compute them, in any order, and at every level of vectors.
//!
//! # Safety
//! Each block passes arrays of this test with their lengths.
#![allow(unsafe_code)]

use crate::exact::{Accumulator, BF16, F16, F32, F64, Format, levels, product};
use crate::{Datatype, GlobalSum, Op};

/// Random numbers (xorshift), so that a case can be repeated by its number.
struct Random(u64);

impl Random {
    fn new(case: u64) -> Random {
        Random(case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (((self.next() >> 32) * bound as u64) >> 32) as usize
    }
}

/// Returns bits of a number of the given kind. Small kinds are benign, large ones are not.
fn number<F: Format>(random: &mut Random, kind: usize) -> F::Bits {
    let bits = random.next();
    let (sign, fraction) = (bits >> 63 << F::SIGN, bits & ((1 << F::FRACTION_BITS) - 1));
    let exponent = |exponent: u64| exponent << F::FRACTION_BITS;
    let middle = F::BIAS as u64;
    F::from_bits(match kind {
        // Of one size, or a few binary orders apart.
        0 => sign | exponent(middle) | fraction,
        1 => sign | exponent(middle + random.below(8) as u64) | fraction,
        // Any size.
        2 => sign | exponent(random.below(F::TOP as usize) as u64) | fraction,
        // Subnormal, or zero.
        3 => sign | fraction >> random.below(F::FRACTION_BITS as usize + 1),
        // The largest.
        4 => sign | exponent(F::TOP - 1) | fraction | (fraction << 1 & ((1 << F::FRACTION_BITS) - 1)),
        5 => sign,
        6 => sign | exponent(F::TOP),
        _ => sign | exponent(F::TOP) | 1 << (F::FRACTION_BITS - 1) | fraction,
    })
}

/// Returns a multiset of numbers, many of which cancel.
fn numbers<F: Format>(random: &mut Random, count: usize) -> Vec<F::Bits> {
    let kinds = [1, 2, 3, 4, 5, 6, 7, 8][random.below(8)];
    let mut all: Vec<F::Bits> = Vec::with_capacity(count);
    while all.len() < count {
        let before = all.len();
        match random.below(3) {
            0 if before > 0 => {
                let earlier: u64 = all[random.below(before)].into();
                all.push(F::from_bits(earlier ^ 1 << F::SIGN));
            }
            _ => {
                // NaN and infinities would decide most cases if they were as frequent as the others.
                let kind = random.below(kinds);
                let kind = if kind > 5 && random.below(8) > 0 { 2 } else { kind };
                all.push(number::<F>(random, kind));
            }
        }
    }
    all
}

fn shuffle<T>(random: &mut Random, all: &mut [T]) {
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last + 1));
    }
}

fn sum<F: Format>(numbers: &[F::Bits]) -> Accumulator {
    let mut sum = Accumulator::new();
    numbers.iter().for_each(|bits| sum.add_bits::<F>(*bits));
    sum
}

/// Adds numbers exactly as sums of non-overlapping parts (J. Shewchuk, 1997) and rounds the last of them: an
/// independent reference for sums that do not overflow.
fn by_parts(numbers: &[f64]) -> f64 {
    let mut parts: Vec<f64> = Vec::new();
    for &number in numbers {
        let mut high = number;
        let mut kept = Vec::new();
        for &part in &parts {
            let (large, small) = if high.abs() < part.abs() { (part, high) } else { (high, part) };
            let total = large + small;
            let rest = small - (total - large);
            kept.extend(Some(rest).filter(|rest| *rest != 0.0));
            high = total;
        }
        kept.push(high);
        parts = kept;
    }
    let mut parts = parts.into_iter().rev();
    let Some(mut high) = parts.next() else { return 0.0 };
    let mut low = 0.0;
    for part in parts.by_ref() {
        let before = high;
        high = before + part;
        low = part - (high - before);
        if low != 0.0 {
            break;
        }
    }
    // A tie is decided by the next part.
    let next = parts.next().unwrap_or(0.0);
    if low < 0.0 && next < 0.0 || low > 0.0 && next > 0.0 {
        let twice = low * 2.0;
        let other = high + twice;
        if twice == other - high {
            high = other;
        }
    }
    high
}

#[test]
fn sums_agree_with_another_method() {
    for case in 0..20_000 {
        let mut random = Random::new(case);
        let count = 1 + random.below(40);
        let values: Vec<f64> = numbers::<F64>(&mut random, count).into_iter().map(f64::from_bits).collect();
        if values.iter().any(|value| value.abs() > 1e300 || value.is_nan()) {
            continue;
        }
        let bits: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
        let expected = by_parts(&values);
        assert_eq!(sum::<F64>(&bits).round(), expected, "case {case}: {values:?}");
    }
}

/// Narrow formats: the sum of 16-bit floats of similar size is exact in double precision, so its conversion
/// rounds once.
#[test]
fn narrow_sums_round_once() {
    for case in 0..20_000 {
        let mut random = Random::new(case);
        let values: Vec<u32> = (0..9).map(|_| number::<F32>(&mut random, 1)).collect();
        let exact: f64 = values.iter().map(|bits| f64::from(f32::from_bits(*bits))).sum();
        assert_eq!(sum::<F32>(&values).round_to::<F32>(), (exact as f32).to_bits(), "case {case}");
        let halves: Vec<u16> = (0..9).map(|_| number::<F16>(&mut random, 1)).collect();
        let exact: f64 = halves.iter().map(|bits| f64::from(crate::quad::Half(*bits).widen())).sum();
        // All are multiples of 2^-10 below 2^12: exact in single precision too.
        assert_eq!(sum::<F16>(&halves).round_to::<F16>(), crate::quad::Half::narrow(exact as f32).0);
    }
}

/// Distributes numbers over 1 to 64 ranks and merges the sums of ranks in a random tree.
fn distributed<F: Format>(random: &mut Random, numbers: &[F::Bits]) -> F::Bits {
    let mut ranks = vec![Accumulator::new(); 1 + random.below(64)];
    for bits in numbers {
        let rank = random.below(ranks.len());
        ranks[rank].add_bits::<F>(*bits);
    }
    if random.below(2) == 0 {
        let mut words = [0_i64; Accumulator::WORDS];
        for rank in &mut ranks {
            words.iter_mut().zip(rank.words()).for_each(|(word, other)| *word += other);
        }
        return Accumulator::from_words(&words).round_to::<F>();
    }
    while ranks.len() > 1 {
        let one = ranks.swap_remove(random.below(ranks.len()));
        let place = random.below(ranks.len());
        ranks[place].merge(&one);
    }
    ranks[0].round_to::<F>()
}

fn check_any_order<F: Format>(cases: u64) {
    for case in 0..cases {
        let mut random = Random::new(case);
        let count = random.below(40);
        let mut all = numbers::<F>(&mut random, count);
        let expected = sum::<F>(&all).round_to::<F>();
        shuffle(&mut random, &mut all);
        assert_eq!(distributed::<F>(&mut random, &all), expected, "case {case} of {:?}: {all:x?}", F::NAN);
    }
}

#[test]
fn sums_do_not_depend_on_order_or_distribution() {
    check_any_order::<F64>(4000);
    check_any_order::<F32>(2000);
    check_any_order::<F16>(2000);
    check_any_order::<BF16>(2000);
}

/// The same with a million cases: `cargo test --release -p tutti-data -- --ignored million`.
#[test]
#[ignore = "takes a minute"]
fn a_million_sums_do_not_depend_on_order_or_distribution() {
    check_any_order::<F64>(700_000);
    check_any_order::<F32>(100_000);
    check_any_order::<F16>(100_000);
    check_any_order::<BF16>(100_000);
    (0..1_000_000).for_each(check_kernels_of_all);
}

/// Runs every level of loops on `operands` arrays, of which any may be the result.
fn check_kernels<F: crate::exact::Element>(case: u64) {
    let mut random = Random::new(case);
    let (operands, count) = (1 + random.below(9), random.below(90));
    let rows: Vec<Vec<F::Bits>> = (0..operands).map(|_| numbers::<F>(&mut random, count)).collect();
    let expected: Vec<F::Bits> = (0..count)
        .map(|place| sum::<F>(&rows.iter().map(|row| row[place]).collect::<Vec<_>>()).round_to::<F>())
        .collect();
    for kernels in levels::<F>() {
        let mut copies = rows.clone();
        let into = random.below(operands);
        shuffle(&mut random, &mut copies);
        let into = copies[into].as_mut_ptr().cast::<u8>();
        let sources: Vec<*const u8> = copies.iter().map(|row| row.as_ptr().cast()).collect();
        // SAFETY: all rows have so many elements, and the result is one of them.
        let result = unsafe {
            (kernels.many)(&sources, into, 0, count);
            std::slice::from_raw_parts(into.cast::<F::Bits>(), count).to_vec()
        };
        assert_eq!(result, expected, "case {case}, {operands} operands");
    }
}

fn check_kernels_of_all(case: u64) {
    match case % 4 {
        0 | 1 => check_kernels::<F64>(case),
        2 => check_kernels::<F32>(case),
        _ if case % 8 == 3 => check_kernels::<F16>(case),
        _ => check_kernels::<BF16>(case),
    }
}

#[test]
fn all_kernels_give_the_bits_of_an_accumulator() {
    (0..4000).for_each(check_kernels_of_all);
}

/// Benign numbers must not need accumulators, and give the same bits without them.
#[test]
fn global_sums_are_those_of_an_accumulator() {
    let datatype = Datatype::predefined(0x214).expect("MPI_DOUBLE");
    for case in 0..200 {
        let mut random = Random::new(case);
        let count = random.below(3000);
        let all = numbers::<F64>(&mut random, count);
        let mut total = GlobalSum::new(datatype).expect("it has exact sums");
        let split = random.below(count + 1);
        let mut result = 0_u64;
        // SAFETY: both parts lie in the vector; the result is one number.
        unsafe {
            total.add(all.as_ptr().cast(), split);
            total.add(all.as_ptr().add(split).cast(), count - split);
            let words = total.words();
            total.set_words(&words);
            total.write((&raw mut result).cast());
        }
        assert_eq!(result, sum::<F64>(&all).round_to::<F64>(), "case {case}");
    }
}

#[test]
fn global_sums_of_complex_numbers_keep_their_parts_apart() {
    let mut total = GlobalSum::new(Datatype::predefined(0x212).expect("complex")).expect("it has sums");
    let all = [1.0_f32, 1e30, 2.0, -1e30, 4.0, 0.5];
    let mut result = [0.0_f32; 2];
    // SAFETY: three complex numbers, and room for one.
    unsafe {
        total.add(all.as_ptr().cast(), 3);
        total.write(result.as_mut_ptr().cast());
    }
    assert_eq!(result, [7.0, 0.5]);
    assert!(GlobalSum::new(Datatype::predefined(0x209).expect("MPI_INT")).is_err());
}

#[test]
fn special_values() {
    let check = |values: &[f64], expected: f64| {
        let bits: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
        assert_eq!(sum::<F64>(&bits).round().to_bits(), expected.to_bits(), "{values:?}");
    };
    check(&[], 0.0);
    check(&[-0.0, -0.0], -0.0);
    check(&[-0.0, 0.0], 0.0);
    check(&[1.0, -1.0], 0.0);
    check(&[f64::MAX, f64::MAX, -f64::MAX], f64::MAX);
    check(&[f64::MAX, f64::MAX], f64::INFINITY);
    // Half a unit of the last place above the largest number is a tie, which goes to infinity.
    check(&[f64::MAX, 2f64.powi(970)], f64::INFINITY);
    check(&[f64::MAX, 2f64.powi(970), -5e-324], f64::MAX);
    check(&[f64::INFINITY, -f64::MAX], f64::INFINITY);
    check(&[f64::INFINITY, f64::NEG_INFINITY], f64::from_bits(F64::NAN));
    check(&[5e-324, 5e-324, -1.0, 1.0], 1e-323);
    check(&[1.0, 2f64.powi(-53)], 1.0);
    check(&[1.0, 2f64.powi(-53), 5e-324], 1.0 + f64::EPSILON);
}

#[test]
fn products_round_once() {
    let check = |values: &[f64], expected: f64| {
        let result = product::product::<F64>(values.iter().map(|value| value.to_bits()));
        assert_eq!(result, expected.to_bits(), "{values:?}");
    };
    check(&[3.0, -0.5], -1.5);
    check(&[2f64.powi(800), 2f64.powi(700), 2f64.powi(-800), 2f64.powi(-700)], 1.0);
    check(&[f64::INFINITY, 0.0], f64::from_bits(F64::NAN));
    check(&[f64::INFINITY, -2.0], f64::NEG_INFINITY);
    check(&[-0.0, 3.0], -0.0);
    check(&[f64::MAX, 2.0], f64::INFINITY);
    check(&[5e-324, 0.5], 0.0);
    check(&[5e-324, 0.75], 5e-324);
    let third = 1.0 + f64::EPSILON;
    for case in 0..20_000 {
        let mut random = Random::new(case);
        let pair = [number::<F64>(&mut random, 2), number::<F64>(&mut random, 3)].map(f64::from_bits);
        check(&pair, pair[0] * pair[1]);
        let mut many = numbers::<F64>(&mut random, 12);
        let expected = product::product::<F64>(many.iter().copied());
        shuffle(&mut random, &mut many);
        assert_eq!(product::product::<F64>(many.iter().copied()), expected, "case {case}");
        check(&[third, pair[0]], third * pair[0]);
    }
}

/// Products of more bits than are kept: the shortcut must agree with all bits.
#[test]
fn all_bits_of_a_product_agree_with_the_leading_ones() {
    for case in 0..5000 {
        let mut random = Random::new(case);
        let many: Vec<u64> = (0..2 + random.below(60)).map(|_| number::<F64>(&mut random, 1) | 1).collect();
        let negative = many.iter().fold(false, |negative, bits| negative ^ (bits >> 63 == 1));
        let slow = product::with_all_bits::<F64>(many.iter().copied(), negative);
        assert_eq!(product::product::<F64>(many.iter().copied()), slow, "case {case}");
    }
}

#[test]
fn exact_operators_are_bound_where_they_exist() {
    let check = |op: u32, datatype: u32, expected: bool| {
        let op = Op::predefined(op).expect("an operator");
        let datatype = Datatype::predefined(datatype).expect("a datatype");
        assert_eq!(op.bind_exact(datatype).is_some_and(|reducer| reducer.is_exact()), expected, "{op:?}");
    };
    // MPI_SUM and MPI_PROD of MPI_DOUBLE, MPI_C_COMPLEX, MPIX_BFLOAT16, MPI_LONG_DOUBLE, MPI_INT.
    for (datatype, expected) in [(0x214, true), (0x212, true), (0x24c, true), (0x220, false), (0x209, false)]
    {
        check(0x21, datatype, expected);
    }
    for (datatype, expected) in [(0x214, true), (0x212, false), (0x24c, true)] {
        check(0x24, datatype, expected);
    }
    check(0x23, 0x214, false);
}

#[test]
fn rows_are_combined_at_once() {
    let op = Op::predefined(0x21).expect("MPI_SUM").bind_exact(Datatype::predefined(0x214).expect("double"));
    let rows = [[1e300, 1.0], [-1e300, 2f64.powi(-53)], [3.0, 2f64.powi(-54)]];
    let mut right = [-3.0, 2f64.powi(-54)];
    // SAFETY: three rows of two numbers, and one more.
    unsafe {
        op.expect("it is exact").apply_rows(rows.as_ptr().cast(), 3, right.as_mut_ptr().cast(), 2);
    }
    assert_eq!(right, [0.0, 1.0 + f64::EPSILON]);
}
