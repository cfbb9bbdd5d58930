//! Predefined operators against scalar arithmetic, at every alignment; user operators; refusals.
//!
//! # Safety
//! Every buffer holds the items given.
#![allow(unsafe_code)]

use super::*;
use crate::{Form, Op};
use std::sync::Arc;
use tutti_base::ErrorClass;

const SUM: u32 = 0x21;
const MIN: u32 = 0x22;
const MAX: u32 = 0x23;
const PROD: u32 = 0x24;
const BAND: u32 = 0x28;
const BOR: u32 = 0x29;
const BXOR: u32 = 0x2a;
const LAND: u32 = 0x30;
const LOR: u32 = 0x31;
const LXOR: u32 = 0x32;
const MINLOC: u32 = 0x38;
const MAXLOC: u32 = 0x39;

fn op(code: u32) -> &'static Op {
    Op::predefined(code).expect("a valid code")
}

/// The bytes of an array, one byte off its alignment.
fn unaligned<T: Copy>(values: &[T]) -> Vec<u8> {
    let bytes = size_of_val(values);
    let mut copy = vec![0; bytes + 1];
    // SAFETY: both sides hold `bytes` bytes.
    unsafe { copy.as_mut_ptr().add(1).copy_from_nonoverlapping(values.as_ptr().cast(), bytes) };
    copy
}

/// Both forms of an operator on arrays give `expected`.
fn check<T: Copy + PartialEq + std::fmt::Debug>(
    op: &Op,
    datatype: &Datatype,
    left: &[T],
    right: &[T],
    expected: impl Fn(T, T) -> T,
) {
    let expected: Vec<T> = left.iter().zip(right).map(|(l, r)| expected(*l, *r)).collect();
    let (left_bytes, right_bytes) = (unaligned(left), unaligned(right));
    let (mut inout, mut out) = (right_bytes.clone(), vec![0; right_bytes.len()]);
    let count = left.len() as u64;
    // SAFETY: the buffers hold `count` items after their first byte.
    let (inout, out): (Vec<T>, Vec<T>) = unsafe {
        let (left, right) = (left_bytes.as_ptr().add(1), right_bytes.as_ptr().add(1));
        op.reduce(datatype, left, inout.as_mut_ptr().add(1), count).expect("applies");
        op.reduce_to(datatype, left, right, out.as_mut_ptr().add(1), count).expect("applies");
        let read = |bytes: &[u8]| {
            (0..left_len(bytes, size_of::<T>()))
                .map(|i| bytes.as_ptr().add(1).cast::<T>().add(i).read_unaligned())
                .collect()
        };
        (read(&inout), read(&out))
    };
    assert_eq!(inout, expected, "{op:?} {datatype:?}");
    assert_eq!(out, expected, "{op:?} {datatype:?}");
}

fn left_len(bytes: &[u8], item: usize) -> usize {
    (bytes.len() - 1) / item
}

/// Numbers that look random; the count leaves a tail after every vector width.
fn numbers() -> impl Iterator<Item = (u64, u64)> {
    let step = |state: &mut u64| {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        Some(*state)
    };
    let values: Vec<u64> = std::iter::successors(Some(7u64), |s| step(&mut s.clone())).take(302).collect();
    values.into_iter().array_pairs()
}

/// Pairs of consecutive items.
trait ArrayPairs: Iterator<Item = u64> + Sized {
    fn array_pairs(mut self) -> impl Iterator<Item = (u64, u64)> {
        std::iter::from_fn(move || Some((self.next()?, self.next()?)))
    }
}

impl<I: Iterator<Item = u64>> ArrayPairs for I {}

/// Two arrays made by `from`.
fn operands<T>(from: impl Fn(u64) -> T) -> (Vec<T>, Vec<T>) {
    numbers().map(|(l, r)| (from(l >> 7), from(r >> 7))).unzip()
}

macro_rules! integers {
    ($($type:ty: $($code:expr),+;)*) => {$(
        let (left, right) = operands(|n| n as $type);
        for datatype in [$(named($code)),+] {
            check(op(SUM), &datatype, &left, &right, |l, r| l.wrapping_add(r));
            check(op(PROD), &datatype, &left, &right, |l, r| l.wrapping_mul(r));
            check(op(MIN), &datatype, &left, &right, |l, r| l.min(r));
            check(op(MAX), &datatype, &left, &right, |l, r| l.max(r));
            check(op(BAND), &datatype, &left, &right, |l, r| l & r);
            check(op(BOR), &datatype, &left, &right, |l, r| l | r);
            check(op(BXOR), &datatype, &left, &right, |l, r| l ^ r);
        }
        let (left, right) = operands(|n| (n % 3) as $type);
        for datatype in [$(named($code)),+].into_iter().filter(|d| op(LAND).check(d).is_ok()) {
            check(op(LAND), &datatype, &left, &right, |l, r| (l != 0 && r != 0) as $type);
            check(op(LOR), &datatype, &left, &right, |l, r| (l != 0 || r != 0) as $type);
            check(op(LXOR), &datatype, &left, &right, |l, r| ((l != 0) != (r != 0)) as $type);
        }
    )*};
}

#[test]
fn integers_and_logicals() {
    integers! {
        i8: 0x240, 0x244, 0x2c1;
        u8: 0x241, 0x245;
        i16: 0x208, 0x248, 0x2c9;
        u16: 0x20c, 0x249;
        i32: 0x209, 0x219, 0x250, 0x2d1;
        u32: 0x20d, 0x251;
        i64: 0x201, 0x202, 0x203, 0x20a, 0x20b, 0x258, 0x2d9;
        u64: 0x20e, 0x20f, 0x259;
        i128: 0x2e1;
    }
    let (left, right) = operands(|n| n as u8);
    check(op(BXOR), &named(0x247), &left, &right, |l, r| l ^ r);
    let (left, right) = operands(|n| (n % 3) as u32);
    check(op(LOR), &named(0x218), &left, &right, |l, r| u32::from(l != 0 || r != 0));
    let (left, right) = operands(|n| n % 3 > 0);
    check(op(LXOR), &named(0x238), &left, &right, |l, r| l != r);
    let (left, right) = operands(|n| u128::from(n % 3) << 90);
    check(op(LAND), &named(0x2e0), &left, &right, |l, r| u128::from(l != 0 && r != 0));
}

#[test]
fn floats_and_complexes() {
    let (left, right) = operands(|n| n as f32 / 1e15 - 9.0);
    for datatype in [named(0x210), named(0x21a), named(0x2d2), Datatype::f90_real(6, 30).expect("valid")] {
        check(op(SUM), &datatype, &left, &right, |l, r| l + r);
        check(op(PROD), &datatype, &left, &right, |l, r| l * r);
        check(op(MIN), &datatype, &left, &right, f32::min);
        check(op(MAX), &datatype, &left, &right, f32::max);
    }
    let (left, right) = operands(|n| n as f64 / 1e15 - 9.0);
    check(op(SUM), &named(DOUBLE), &left, &right, |l, r| l + r);
    check(op(PROD), &named(0x21c), &left, &right, |l, r| l * r);
    check(op(MIN), &named(0x2da), &left, &right, f64::min);
    let (left, right) = operands(|n| [(n % 1000) as f64, (n % 77) as f64 - 30.0]);
    for datatype in [named(0x216), named(0x21d), named(0x2e3)] {
        check(op(SUM), &datatype, &left, &right, |l, r| [l[0] + r[0], l[1] + r[1]]);
        let product = |l: [f64; 2], r: [f64; 2]| [l[0] * r[0] - l[1] * r[1], l[0] * r[1] + l[1] * r[0]];
        check(op(PROD), &datatype, &left, &right, product);
    }
    let (left, right) = operands(|n| [(n % 100) as f32, (n % 77) as f32 - 30.0]);
    let product = |l: [f32; 2], r: [f32; 2]| [l[0] * r[0] - l[1] * r[1], l[0] * r[1] + l[1] * r[0]];
    check(op(PROD), &named(0x212), &left, &right, product);
}

/// Integers in binary128, exactly.
fn quad(value: i64) -> u128 {
    let magnitude = value.unsigned_abs();
    if magnitude == 0 {
        return 0;
    }
    let top = 63 - magnitude.leading_zeros();
    let fraction = u128::from(magnitude) << (112 - top) & ((1 << 112) - 1);
    u128::from(value < 0) << 127 | u128::from(16383 + top) << 112 | fraction
}

#[test]
fn wide_floats() {
    use crate::extended::Extended;
    let (left, right) = operands(|n| (n % 100_000) as i64 - 50_000);
    let check_wide = |code, of: &dyn Fn(i64) -> u128| {
        let wide = |values: &[i64]| values.iter().map(|v| of(*v)).collect::<Vec<u128>>();
        let (l, r) = (wide(&left), wide(&right));
        let narrow = |value: u128| *left.iter().chain(&right).find(|v| of(**v) == value).expect("an operand");
        check(op(SUM), &named(code), &l, &r, |l, r| of(narrow(l) + narrow(r)));
        check(op(PROD), &named(code), &l, &r, |l, r| {
            of(narrow(l) * narrow(r)) | zero_sign(narrow(l), narrow(r), code)
        });
        check(op(MIN), &named(code), &l, &r, |l, r| of(narrow(l).min(narrow(r))));
        check(op(MAX), &named(code), &l, &r, |l, r| of(narrow(l).max(narrow(r))));
    };
    check_wide(0x2e2, &quad);
    check_wide(0x220, &|v| u128::from_le_bytes(Extended::from_binary128(quad(v)).to_bytes()));
    let (left, right) = (vec![[quad(3), quad(-4)]; 5], vec![[quad(7), quad(2)]; 5]);
    check(op(PROD), &named(0x2eb), &left, &right, |_, _| [quad(29), quad(-22)]);
    check(op(SUM), &named(0x2eb), &left, &right, |_, _| [quad(10), quad(-2)]);
    let half = |v: f32| crate::quad::Half::narrow(v).0;
    check(op(SUM), &named(0x2ca), &[half(1.5)], &[half(0.25)], |_, _| half(1.75));
    check(op(PROD), &named(0x2d3), &[[half(0.0), half(2.0)]], &[[half(0.0), half(3.0)]], |_, _| {
        [half(-6.0), 0]
    });
}

/// The sign bit of a zero product of a negative number.
fn zero_sign(left: i64, right: i64, code: u32) -> u128 {
    let negative_zero = left * right == 0 && (left < 0 || right < 0);
    u128::from(negative_zero) << if code == 0x220 { 79 } else { 127 }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair<V, I>(V, I);

#[test]
fn locations() {
    fn least<V: PartialOrd, I: PartialOrd>(l: Pair<V, I>, r: Pair<V, I>) -> Pair<V, I> {
        if l.0 < r.0 || l.0 == r.0 && l.1 < r.1 { l } else { r }
    }
    fn most<V: PartialOrd, I: PartialOrd>(l: Pair<V, I>, r: Pair<V, I>) -> Pair<V, I> {
        if l.0 > r.0 || l.0 == r.0 && l.1 < r.1 { l } else { r }
    }
    let (left, right) = operands(|n| Pair((n % 3) as f64, (n >> 9) as i32));
    check(op(MINLOC), &named(DOUBLE_INT), &left, &right, least);
    check(op(MAXLOC), &named(DOUBLE_INT), &left, &right, most);
    let (left, right) = operands(|n| Pair((n % 3) as i16, (n >> 9) as i32));
    check(op(MINLOC), &named(SHORT_INT), &left, &right, least);
    let (left, right) = operands(|n| Pair((n % 3) as i64, (n >> 9) as i32));
    check(op(MAXLOC), &named(0x22a), &left, &right, most);
    let (left, right) = operands(|n| Pair((n % 3) as f32, (n >> 40) as f32));
    check(op(MAXLOC), &named(0x230), &left, &right, most);
    let (left, right) = operands(|n| Pair((n % 3) as u8, n >> 9));
    let pair = Datatype::value_index(&named(0x241), &named(0x259)).expect("a pair");
    check(op(MINLOC), &pair, &left, &right, least);
    assert!(
        Datatype::all_predefined()
            .filter(|d| op(MINLOC).check(d).is_ok())
            .all(|d| op(MINLOC).bind(d).is_ok())
    );
}

#[test]
fn every_allowed_pair_of_operator_and_type_works() {
    let mut allowed = 0;
    for code in 0x20..0x40 {
        let Some(op) = Op::predefined(code) else { continue };
        for datatype in Datatype::all_predefined().filter(|datatype| op.check(datatype).is_ok()) {
            let (input, mut inout) = ([0u128; 12], [0u128; 12]);
            let reducer = op.bind(datatype).expect("allowed");
            // SAFETY: 192 bytes hold three items of any predefined type.
            unsafe { reducer.apply(input.as_ptr().cast(), inout.as_mut_ptr().cast(), 3) };
            assert_eq!(inout, input, "{op:?} {datatype:?}");
            allowed += 1;
        }
    }
    assert!(allowed > 400, "{allowed}");
}

#[test]
fn refusals_name_operator_and_type() {
    let check = |code, datatype: &Datatype, words: [&str; 2]| {
        let error = op(code).check(datatype).expect_err(words[0]);
        assert_eq!(error.class, ErrorClass::Op);
        assert!(words.iter().all(|word| error.message.contains(word)), "{error}");
    };
    check(SUM, &named(CHAR), ["MPI_SUM", "MPI_CHAR"]);
    check(BAND, &named(DOUBLE), ["MPI_BAND", "MPI_DOUBLE"]);
    check(MAX, &named(0x21b), ["MPI_MAX", "MPI_COMPLEX"]);
    check(MAXLOC, &named(INT), ["MPI_MAXLOC", "MPI_INT"]);
    check(SUM, &named(0x22b), ["MPI_SUM", "MPI_2INT"]);
    let derived = Datatype::create_contiguous(2, &named(INT), Form::Int).expect("valid");
    check(SUM, &derived, ["MPI_SUM", "Contiguous"]);
    assert!(op(SUM).bind(&derived).is_ok() && op(0x3c).check(&derived).is_ok());
    assert_eq!(
        (Op::predefined(0x20).is_none(), op(SUM).name(), op(SUM).code()),
        (true, Some("MPI_SUM"), Some(SUM))
    );
    assert!(op(SUM).is_commutative() && !op(0x3c).is_commutative());
}

#[test]
fn derived_types_replace_and_users() {
    let vector = Datatype::create_vector(3, 2, 4, &named(INT), Form::Int).expect("valid");
    let places = [0, 1, 4, 5, 8, 9, 10, 11, 14, 15, 18, 19];
    let (input, before): (Vec<i32>, Vec<i32>) = ((0..20).collect(), vec![100; 20]);
    let check = |op: &Op, expected: &dyn Fn(i32) -> i32| {
        let wanted: Vec<i32> = (0..20).map(|i| if places.contains(&i) { expected(i) } else { 100 }).collect();
        let reducer = op.bind(&vector).expect("allowed");
        let (mut inout, mut out, mut target) = (before.clone(), before.clone(), before.clone());
        let packed: Vec<u8> = places.iter().flat_map(|i| input[*i as usize].to_ne_bytes()).collect();
        // SAFETY: 20 integers hold two items; the packed bytes are those of two items.
        unsafe {
            reducer.apply(input.as_ptr().cast(), inout.as_mut_ptr().cast(), 2);
            reducer.apply_to(input.as_ptr().cast(), before.as_ptr().cast(), out.as_mut_ptr().cast(), 2);
            for (position, part) in [(0, &packed[..24]), (24, &packed[24..])] {
                assert_eq!(reducer.apply_packed(part, position, target.as_mut_ptr().cast(), 2), 24);
            }
        }
        assert_eq!((&inout, &out, &target), (&wanted, &wanted, &wanted), "{op:?}");
    };
    check(op(SUM), &|i| 100 + i);
    check(op(0x3c), &|i| i);
    check(op(0x3d), &|_| 100);
    let minus = |input: *const u8, inout: *mut u8, count: i64, datatype: &Datatype| {
        for item in 0..count as isize {
            for place in [0, 1, 4, 5, 8, 9] {
                let offset = item * datatype.extent() as isize + 4 * place;
                // SAFETY: the caller gives items of the vector above.
                unsafe {
                    let (input, inout) =
                        (input.offset(offset).cast::<i32>(), inout.offset(offset).cast::<i32>());
                    inout.write(input.read() - inout.read());
                }
            }
        }
    };
    let user = Op::user(Arc::new(minus), false);
    assert!(!user.is_commutative() && user.code().is_none());
    check(&user, &|i| i - 100);
    let pairs = [Pair(2.0f64, 7i32), Pair(3.0, 8)];
    let mut packed = vec![];
    pairs.iter().for_each(|pair| {
        packed.extend(pair.0.to_ne_bytes());
        packed.extend(pair.1.to_ne_bytes());
    });
    let mut inout = [Pair(2.5f64, 1i32), Pair(2.5, 1)];
    // SAFETY: both hold two pairs.
    unsafe {
        op(MINLOC).bind(&named(DOUBLE_INT)).expect("allowed").apply_packed(
            &packed,
            0,
            inout.as_mut_ptr().cast(),
            2,
        )
    };
    assert_eq!(inout, [Pair(2.0, 7), Pair(2.5, 1)]);
}
