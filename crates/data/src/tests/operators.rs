//! Predefined operators against scalar arithmetic, at every alignment; user operators; refusals.
//!
//! # Safety
//! Every buffer holds the items given.
#![allow(unsafe_code)]

use super::*;
use crate::{Form, Op};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
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

/// Returns the bytes of an array, one byte off its alignment.
fn unaligned<T: Copy>(values: &[T]) -> Vec<u8> {
    let bytes = size_of_val(values);
    let mut copy = vec![0; bytes + 1];
    // SAFETY: both sides hold `bytes` bytes.
    unsafe { copy.as_mut_ptr().add(1).copy_from_nonoverlapping(values.as_ptr().cast(), bytes) };
    copy
}

/// Returns true if the operator or the element is one that was not checked before. Miri, which is slow, is
/// given each of them once: what a loop does to memory depends on the size of its elements only.
fn is_new(op: &str, element: &str) -> bool {
    static CHECKED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut checked = CHECKED.lock().expect("no test panics while it holds this");
    [op, element].map(|name| checked.insert(name.into())).contains(&true)
}

/// Checks that all forms of an operator on arrays give `expected`.
fn check<T: Copy + PartialEq + std::fmt::Debug>(
    op: &Op,
    datatype: &Datatype,
    left: &[T],
    right: &[T],
    expected: impl Fn(T, T) -> T,
) {
    if cfg!(miri) && !is_new(&format!("{op:?}"), std::any::type_name::<T>()) {
        return;
    }
    let fold = |operands: &[T]| operands.iter().copied().rev().reduce(|sum, one| expected(one, sum));
    let of = |sources: &[&[T]]| -> Vec<T> {
        let column = |i: usize| sources.iter().map(|source| source[i]).collect::<Vec<_>>();
        (0..left.len()).map(|i| fold(&column(i)).expect("has operands")).collect()
    };
    let reducer = op.bind(datatype).expect("applies");
    let (pair, triple) = (of(&[left, right]), of(&[left, right, left]));
    for &count in &[left.len(), left.len().min(3), 1][..if cfg!(miri) { 1 } else { 3 }] {
        let n = count as u64;
        let results = |which: usize, sources: &[&[T]], expected: &[T]| {
            let mut buffers: Vec<Vec<u8>> = sources.iter().map(|source| unaligned(source)).collect();
            buffers.push(unaligned(left));
            let places: Vec<*mut u8> = buffers.iter_mut().map(|b| b.as_mut_ptr().wrapping_add(1)).collect();
            let operands: Vec<*const u8> = places[..sources.len()].iter().map(|p| p.cast_const()).collect();
            // Into each of the operands, and elsewhere.
            for &into in &places {
                let before = items::<T>(into, left.len());
                // SAFETY: the buffers hold `count` items after their first byte.
                unsafe {
                    match which {
                        0 => reducer.apply_into(operands[0], operands[1], into, n),
                        1 => reducer.apply_many(&operands, into, n),
                        _ => reducer.apply_many_streaming(&operands, into, n),
                    }
                }
                let wanted = [&expected[..count], &before[count..]].concat();
                assert_eq!(items::<T>(into, left.len()), wanted, "{op:?} {datatype:?} {which} {count}");
                // Restore what was overwritten.
                for (place, value) in before.iter().enumerate() {
                    // SAFETY: the buffer holds these items.
                    unsafe { into.cast::<T>().add(place).write_unaligned(*value) };
                }
            }
        };
        results(0, &[left, right], &pair);
        results(1, &[left, right, left], &triple);
        results(2, &[left, right, left], &triple);
        results(1, &[left], left);
        let mut inout = unaligned(right);
        let place = inout.as_mut_ptr().wrapping_add(1);
        // SAFETY: as above.
        unsafe { op.reduce(datatype, unaligned(left).as_ptr().add(1), place, n).expect("applies") };
        assert_eq!(items::<T>(place, count), pair[..count], "{op:?} {datatype:?}");
    }
}

/// Returns the items at an address of any alignment.
fn items<T: Copy>(base: *const u8, count: usize) -> Vec<T> {
    // SAFETY: so many items are there.
    (0..count).map(|i| unsafe { base.cast::<T>().add(i).read_unaligned() }).collect()
}

/// Numbers that look random; the count leaves a tail after every vector width, also of the few that Miri is
/// given.
fn numbers() -> impl Iterator<Item = (u64, u64)> {
    let step = |state: &mut u64| {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        Some(*state)
    };
    let values: Vec<u64> =
        std::iter::successors(Some(7u64), |s| step(&mut s.clone())).take(PAIRS * 2).collect();
    values.into_iter().array_pairs()
}

const PAIRS: usize = if cfg!(miri) { 11 } else { 151 };

/// Pairs of consecutive items.
trait ArrayPairs: Iterator<Item = u64> + Sized {
    fn array_pairs(mut self) -> impl Iterator<Item = (u64, u64)> {
        std::iter::from_fn(move || Some((self.next()?, self.next()?)))
    }
}

impl<I: Iterator<Item = u64>> ArrayPairs for I {}

/// Returns two arrays made by `from`.
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
        i8: 0x240, 0x244, 0x2c1, CHAR;
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
#[cfg_attr(miri, ignore = "calls assembly")]
fn wide_floats() {
    use crate::extended::Extended;
    // Odd, so that no product is a zero, which would have a sign.
    let (left, right) = operands(|n| (n % 100_000) as i64 * 2 - 99_999);
    let check_wide = |code, of: &dyn Fn(i64) -> u128, integer: &dyn Fn(u128) -> i64| {
        let wide = |values: &[i64]| values.iter().map(|v| of(*v)).collect::<Vec<u128>>();
        let (l, r) = (wide(&left), wide(&right));
        check(op(SUM), &named(code), &l, &r, |l, r| of(integer(l) + integer(r)));
        check(op(PROD), &named(code), &l, &r, |l, r| of(integer(l) * integer(r)));
        check(op(MIN), &named(code), &l, &r, |l, r| of(integer(l).min(integer(r))));
        check(op(MAX), &named(code), &l, &r, |l, r| of(integer(l).max(integer(r))));
    };
    check_wide(0x2e2, &quad, &quad_integer);
    check_wide(0x220, &|v| u128::from_le_bytes(Extended::from_binary128(quad(v)).to_bytes()), &|v| {
        quad_integer(Extended::from_bytes(v.to_le_bytes()).to_binary128())
    });
    let (left, right) = (vec![[quad(3), quad(-4)]; 5], vec![[quad(7), quad(2)]; 5]);
    let of = |v: [i64; 2]| v.map(quad);
    let numbers = |v: [u128; 2]| v.map(quad_integer);
    check(op(PROD), &named(0x2eb), &left, &right, |l, r| of(product(numbers(l), numbers(r))));
    check(op(SUM), &named(0x2eb), &left, &right, |l, r| {
        let ([a, b], [c, d]) = (numbers(l), numbers(r));
        of([a + c, b + d])
    });
    let half = |v: f32| crate::quad::Half::narrow(v).0;
    let (left, right) = operands(|n| half((n % 2000) as f32 / 4.0 - 240.0));
    let number = |bits: u16| crate::quad::Half(bits).widen();
    check(op(SUM), &named(0x2ca), &left, &right, |l, r| half(number(l) + number(r)));
    check(op(PROD), &named(0x2ca), &left, &right, |l, r| half(number(l) * number(r)));
    check(op(MIN), &named(0x2ca), &left, &right, |l, r| half(number(l).min(number(r))));
    // bfloat16: the result of an operation on singles, rounded again by taking the nearer neighbour.
    let brain = |v: f32| {
        let below = v.to_bits() >> 16 << 16;
        let (low, high) = (f32::from_bits(below), f32::from_bits(below + (1 << 16)));
        let up = match (v - low).abs().partial_cmp(&(high - v).abs()) {
            Some(std::cmp::Ordering::Equal) => below >> 16 & 1 == 1,
            order => order == Some(std::cmp::Ordering::Greater),
        };
        ((below >> 16) + u32::from(up)) as u16
    };
    let (left, right) = operands(|n| brain((n % 2000) as f32 / 4.0 - 240.0));
    let number = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    check(op(SUM), &named(0x24c), &left, &right, |l, r| brain(number(l) + number(r)));
    check(op(PROD), &named(0x24c), &left, &right, |l, r| brain(number(l) * number(r)));
    check(op(MAX), &named(0x24c), &left, &right, |l, r| brain(number(l).max(number(r))));
    let number = |bits: u16| crate::quad::Half(bits).widen();
    check(op(SUM), &named(0x2d3), &[[half(0.0), half(2.0)]], &[[half(0.5), half(3.0)]], |l, r| {
        [half(number(l[0]) + number(r[0])), half(number(l[1]) + number(r[1]))]
    });
    check(op(PROD), &named(0x2d3), &[[half(0.0), half(2.0)]], &[[half(0.0), half(3.0)]], |l, r| {
        [half(-number(l[1]) * number(r[1])), half(number(l[0]) * number(r[1]) + number(l[1]) * number(r[0]))]
    });
}

/// Returns the value of an integer in binary128.
fn quad_integer(bits: u128) -> i64 {
    if bits << 1 == 0 {
        return 0;
    }
    let exponent = (bits >> 112) as u32 & 0x7fff;
    let magnitude = ((bits & ((1 << 112) - 1) | 1 << 112) >> (112 + 16383 - exponent)) as i64;
    if bits >> 127 == 1 { -magnitude } else { magnitude }
}

/// Returns the product of two complex numbers.
fn product([a, b]: [i64; 2], [c, d]: [i64; 2]) -> [i64; 2] {
    [a * c - b * d, a * d + b * c]
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
#[cfg_attr(miri, ignore = "calls assembly")]
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
    check(SUM, &named(0x21e), ["MPI_SUM", "MPI_CHARACTER"]);
    check(SUM, &named(0x23c), ["MPI_SUM", "MPI_WCHAR"]);
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
fn characters_are_integers_unless_that_is_checked() {
    let pair = Datatype::create_contiguous(2, &named(CHAR), Form::Int).expect("valid");
    for datatype in [&named(CHAR), &pair] {
        let error = op(SUM).check_strictly(datatype).expect_err("a char is no number");
        assert!(error.class == ErrorClass::Op && error.message.contains("TUTTI_CHECK_TYPES"), "{error}");
        assert!(op(SUM).bind(datatype).is_ok() && op(0x3c).check_strictly(datatype).is_ok());
    }
    for code in [0x240, 0x244, 0x245, 0x209, 0x247] {
        let other = named(code);
        assert!(op(BXOR).check_strictly(&other).is_ok() && !other.is_char());
    }
    assert!(named(CHAR).is_char() && named(CHAR).is_integral() && !named(0x21e).is_integral());
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
            reducer.apply_into(input.as_ptr().cast(), before.as_ptr().cast(), out.as_mut_ptr().cast(), 2);
            // The result takes the place of the first of three operands, so that a user's function needs a
            // copy.
            let mut first = input.clone();
            let base = first.as_mut_ptr().cast::<u8>();
            reducer.apply_many(&[base, input.as_ptr().cast(), before.as_ptr().cast()], base, 2);
            let mut last = before.clone();
            let sum = last.as_mut_ptr().cast();
            reducer.apply(input.as_ptr().cast(), sum, 2);
            reducer.apply(input.as_ptr().cast(), sum, 2);
            assert!(places.iter().all(|i| first[*i as usize] == last[*i as usize]), "{op:?}");
            assert_eq!(first[2..4], [2, 3], "gaps stay");
            for (position, part) in [(0, &packed[..24]), (24, &packed[24..])] {
                assert_eq!(reducer.apply_packed(part, position, target.as_mut_ptr().cast(), 2), 24);
            }
        }
        assert_eq!((&inout, &out, &target), (&wanted, &wanted, &wanted), "{op:?}");
    };
    check(op(SUM), &|i| 100 + i);
    check(op(0x3c), &|i| i);
    check(op(0x3d), &|_| 100);
    let minus = |input: *const u8, inout: *mut u8, count: i64, datatype: &Datatype, _: usize| {
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

/// Checks MINLOC on two items of `datatype`, which is derived from the pair `row`, at once and packed in two
/// steps. The first item has pairs of three at `places`. The extent is `extent` pairs.
fn check_pairs<V: Copy + PartialEq + std::fmt::Debug + From<i8>>(
    row: u32,
    make: fn(&Datatype) -> Datatype,
    places: &[usize],
    extent: usize,
) {
    let (pair, datatype) = (named(row), make(&named(row)));
    assert_eq!(datatype.basic(), Datatype::predefined(row));
    let array = |value: fn(usize) -> i8| -> Vec<Pair<V, i32>> {
        (0..2 * extent).map(|i| Pair(V::from(value(i)), i32::from(value(i)) + i as i32)).collect()
    };
    let (input, before) = (array(|i| (i % 3) as i8), array(|i| (i % 2) as i8));
    let mut expected = before.clone();
    for place in [0, extent].iter().flat_map(|start| places.iter().map(move |place| start + place)) {
        // SAFETY: one pair each.
        unsafe {
            op(MINLOC)
                .reduce(&pair, input.as_ptr().add(place).cast(), expected.as_mut_ptr().add(place).cast(), 1)
                .unwrap()
        };
    }
    let reducer = op(MINLOC).bind(&datatype).expect("pairs of one kind");
    let mut whole = before.clone();
    // SAFETY: both hold two items.
    unsafe { reducer.apply(input.as_ptr().cast(), whole.as_mut_ptr().cast(), 2) };
    assert_eq!(whole, expected, "{datatype:?}");
    let mut packed = vec![0; datatype.packed_bytes(2) as usize];
    // SAFETY: as above.
    unsafe { datatype.pack(input.as_ptr().cast(), 2, 0, &mut packed) };
    let (mut piecewise, cut) = (before, pair.size() as usize * 2);
    for (position, piece) in [(0, &packed[..cut]), (cut, &packed[cut..])] {
        // SAFETY: as above.
        unsafe { reducer.apply_packed(piece, position as u64, piecewise.as_mut_ptr().cast(), 2) };
    }
    assert_eq!(piecewise, expected, "{datatype:?} in pieces");
}

#[test]
fn derived_types_of_pairs() {
    let vector = |pair: &Datatype| Datatype::create_vector(2, 2, 3, pair, Form::Int).unwrap();
    check_pairs::<f64>(DOUBLE_INT, vector, &[0, 1, 3, 4], 5);
    check_pairs::<i16>(SHORT_INT, vector, &[0, 1, 3, 4], 5);
    check_pairs::<i32>(0x22b, vector, &[0, 1, 3, 4], 5);
    check_pairs::<f64>(
        DOUBLE_INT,
        |pair| Datatype::create_contiguous(3, pair, Form::Int).unwrap(),
        &[0, 1, 2],
        3,
    );
    check_pairs::<f32>(0x228, |pair| pair.create_dup(), &[0], 1);
    // Pairs of several kinds, and items that are no pairs, are refused.
    let bad = Datatype::create_vector(2, 1, 2, &named(INT), Form::Int).unwrap();
    assert!(op(MINLOC).bind(&bad).is_err() && op(0x21).bind(&vector(&named(0x22b))).is_err());
}
