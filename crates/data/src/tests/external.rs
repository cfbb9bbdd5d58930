//! external32: golden bytes, sizes, and the way back.
//!
//! # Safety
//! Every buffer holds the items given.
#![allow(unsafe_code)]

use super::*;
use crate::Form;
use tutti_base::ErrorClass;

/// Checks that `native` converts to `expected` and back.
fn check(datatype: &Datatype, count: u64, native: &[u8], expected: &[u8]) {
    let mut out = vec![0xaa; expected.len() + 2];
    assert_eq!(datatype.pack_external_size(count as i64), Ok(expected.len() as i64), "{datatype:?}");
    let mut back = vec![0; native.len()];
    // SAFETY: `native` and `back` hold `count` items.
    unsafe {
        assert_eq!(datatype.pack_external(native.as_ptr(), count, &mut out), Ok(expected.len()));
        assert_eq!(&out[..expected.len()], expected, "{datatype:?}");
        assert_eq!(datatype.unpack_external(back.as_mut_ptr(), count, &out), Ok(expected.len()));
        let short = datatype.pack_external(native.as_ptr(), count, &mut out[..expected.len() - 1]);
        assert_eq!(short.expect_err("too small").class, ErrorClass::Truncate);
    }
    assert_eq!(back, native, "{datatype:?}");
}

fn bytes<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
    values.into_iter().flatten().collect()
}

#[test]
fn items_are_big_endian_and_as_long_as_the_standard_says() {
    check(
        &named(INT),
        2,
        &bytes([1i32.to_ne_bytes(), (-2i32).to_ne_bytes()]),
        &[0, 0, 0, 1, 255, 255, 255, 254],
    );
    check(&named(DOUBLE), 1, &1.5f64.to_ne_bytes(), &1.5f64.to_be_bytes());
    check(&named(0x20a), 1, &(-3i64).to_ne_bytes(), &(-3i32).to_be_bytes());
    check(&named(0x20e), 1, &0xffff_ffffu64.to_ne_bytes(), &[255; 4]);
    check(&named(0x20b), 1, &(-3i64).to_ne_bytes(), &(-3i64).to_be_bytes());
    check(&named(0x201), 1, &(1i64 << 40).to_ne_bytes(), &(1i64 << 40).to_be_bytes());
    check(&named(0x23c), 1, &0x20acu32.to_ne_bytes(), &[0x20, 0xac]);
    check(&named(0x238), 2, &[1, 0], &[1, 0]);
    let complex = bytes([1.0f32.to_ne_bytes(), 2.0f32.to_ne_bytes()]);
    check(&named(0x212), 1, &complex, &bytes([1.0f32.to_be_bytes(), 2.0f32.to_be_bytes()]));
    check(
        &named(0x24c),
        2,
        &bytes([0x3f80u16.to_ne_bytes(), 0xc040u16.to_ne_bytes()]),
        &[0x3f, 0x80, 0xc0, 0x40],
    );
    let one = (0x3fff_u128 << 64 | 1 << 63).to_le_bytes();
    check(&named(0x220), 1, &one, &(0x3fff_u128 << 112).to_be_bytes());
    check(&named(0x224), 1, &bytes([one, one]), &bytes([(0x3fff_u128 << 112).to_be_bytes(); 2]));
    let mut short_int = vec![1, 0, 0, 0];
    short_int.extend(5i32.to_ne_bytes());
    check(&named(SHORT_INT), 1, &short_int, &[0, 1, 0, 0, 0, 5]);
}

#[test]
fn layouts_lose_their_gaps() {
    let types = [named(INT), named(SHORT)];
    let record = Datatype::create_struct(&[1, 2], &[0, 6], &types, Form::Int).expect("valid");
    let mut native = vec![0; 12 * 300];
    let mut expected = vec![];
    for (i, item) in native.chunks_mut(12).enumerate() {
        let (int, short) = (i as i32 * 1_000_003, i as i16);
        item[..4].copy_from_slice(&int.to_ne_bytes());
        item[6..8].copy_from_slice(&short.to_ne_bytes());
        item[8..10].copy_from_slice(&(-short).to_ne_bytes());
        expected.extend(int.to_be_bytes());
        expected.extend(short.to_be_bytes());
        expected.extend((-short).to_be_bytes());
    }
    check(&record, 300, &native, &expected);
}

#[test]
fn values_that_do_not_fit_are_refused() {
    for (code, value) in [(0x20a, 1i64 << 31), (0x20a, -(1 << 31) - 1), (0x20e, 1 << 32), (0x20e, -1)] {
        let mut out = [0; 4];
        // SAFETY: `value` is one item.
        let result = unsafe { named(code).pack_external((&raw const value).cast(), 1, &mut out) };
        let error = result.expect_err("too large");
        assert!(error.class == ErrorClass::Conversion && error.message.contains("LONG"), "{error}");
    }
}
