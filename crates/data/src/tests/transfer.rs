//! Random nested types: facts, packing, unpacking and segments against the type map.
//!
//! # Safety
//! Every buffer holds the span of the items given, which the test asserts.
#![allow(unsafe_code)]

use super::*;
use crate::{Cursor, Form, Order, copy};
use proptest::prelude::*;

/// Generates a random datatype of at most `depth` constructors over some basic types.
fn any_type(depth: u32) -> impl Strategy<Value = Datatype> {
    let leaf =
        prop::sample::select(vec![INT, DOUBLE, SHORT, CHAR, SHORT_INT, DOUBLE_INT, 0x22d]).prop_map(named);
    leaf.prop_recursive(depth, 24, 3, |inner| {
        let form = Form::Int;
        let list = prop::collection::vec((0i64..4, -6i64..12), 0..6);
        let one = inner.clone();
        prop_oneof![
            (0i64..5, one.clone()).prop_map(move |(n, t)| Datatype::create_contiguous(n, &t, form)),
            (0i64..5, 0i64..4, -4i64..6, one.clone())
                .prop_map(move |(n, b, s, t)| Datatype::create_vector(n, b, s, &t, form)),
            (0i64..5, 0i64..4, -40i64..60, one.clone())
                .prop_map(move |(n, b, s, t)| Datatype::create_hvector(n, b, s, &t, form)),
            (list.clone(), one.clone()).prop_map(move |(l, t)| {
                let (lengths, displacements): (Vec<i64>, Vec<i64>) = l.into_iter().unzip();
                Datatype::create_indexed(&lengths, &displacements, &t, form)
            }),
            (list.clone(), one.clone()).prop_map(move |(l, t)| {
                let (lengths, displacements): (Vec<i64>, Vec<i64>) = l.into_iter().unzip();
                Datatype::create_hindexed(&lengths, &displacements, &t, form)
            }),
            (0i64..3, prop::collection::vec(-9i64..20, 0..6), one.clone())
                .prop_map(move |(b, d, t)| Datatype::create_indexed_block(b, &d, &t, form)),
            (0i64..3, prop::collection::vec(-99i64..99, 0..6), one.clone())
                .prop_map(move |(b, d, t)| Datatype::create_hindexed_block(b, &d, &t, form)),
            prop::collection::vec((0i64..3, -50i64..90, inner.clone()), 0..4).prop_map(move |l| {
                let lengths: Vec<i64> = l.iter().map(|part| part.0).collect();
                let displacements: Vec<i64> = l.iter().map(|part| part.1).collect();
                let types: Vec<Datatype> = l.into_iter().map(|part| part.2).collect();
                Datatype::create_struct(&lengths, &displacements, &types, form)
            }),
            (prop::collection::vec((1i64..4, 0i64..3, 0i64..3), 1..4), any::<bool>(), one.clone()).prop_map(
                move |(dimensions, c, t)| {
                    let order = if c { Order::C } else { Order::Fortran };
                    let subsizes: Vec<i64> = dimensions.iter().map(|d| d.0).collect();
                    let starts: Vec<i64> = dimensions.iter().map(|d| d.1).collect();
                    let sizes: Vec<i64> = dimensions.iter().map(|d| d.0 + d.1 + d.2).collect();
                    Datatype::create_subarray(&sizes, &subsizes, &starts, order, &t, form)
                }
            ),
            (-20i64..20, 0i64..80, one)
                .prop_map(move |(lb, extent, t)| { Datatype::create_resized(lb, extent, &t, form) }),
        ]
        .prop_map(|made| made.expect("small arguments are valid"))
        .boxed()
    })
}

/// Returns lowest offset and length of a buffer that contains every byte in `offsets`.
fn room(offsets: &[i64]) -> (i64, usize) {
    let low = offsets.iter().min().copied().unwrap_or(0).min(0);
    let high = offsets.iter().max().map_or(0, |last| last + 1).max(0);
    (low, (high - low) as usize)
}

/// Checks everything that the type map says about `datatype`.
fn check(datatype: &Datatype, count: u64, fragment: usize) -> std::result::Result<(), TestCaseError> {
    let map = Map::of(datatype);
    let ((low, high), (lb, ub)) = (map.true_bounds(), map.bounds());
    prop_assert_eq!((datatype.lb(), datatype.ub(), datatype.size()), (lb, ub, map.size()));
    prop_assert_eq!((datatype.true_lb(), datatype.true_extent()), (low, high - low));
    prop_assert_eq!(datatype.elements() as usize, map.items.len());
    datatype.commit();
    let offsets = map.bytes(count as i64);
    let (lowest, room) = room(&offsets);
    let memory: Vec<u8> = (0..room).map(|i| (i * 7 + i / 251) as u8).collect();
    let base = memory.as_ptr().wrapping_offset(-lowest as isize);
    let expected: Vec<u8> = offsets.iter().map(|o| memory[(o - lowest) as usize]).collect();

    let mut packed = vec![0; expected.len() + 3];
    // SAFETY: `memory` spans the items.
    let n = unsafe { datatype.pack(base, count, 0, &mut packed) };
    prop_assert_eq!((n, &packed[..n]), (expected.len(), &expected[..]));
    let mut cursor = Cursor::new(datatype, count);
    let mut fragments = vec![];
    while cursor.remaining() > 0 {
        let mut out = vec![0; fragment];
        // SAFETY: `memory` spans the items.
        let n = unsafe { cursor.pack(base, &mut out) };
        fragments.extend_from_slice(&out[..n]);
    }
    prop_assert_eq!(&fragments, &expected);
    check_unpack(datatype, count, fragment, &offsets)?;
    check_segments(datatype, count, fragment as u64, &offsets)?;
    check_elements(datatype, &map)
}

fn check_unpack(
    datatype: &Datatype,
    count: u64,
    fragment: usize,
    offsets: &[i64],
) -> std::result::Result<(), TestCaseError> {
    let (lowest, room) = room(offsets);
    let stream: Vec<u8> = (0..offsets.len()).map(|i| (i % 250 + 1) as u8).collect();
    let mut memory = vec![0u8; room];
    let mut expected = memory.clone();
    for (offset, byte) in offsets.iter().zip(&stream) {
        expected[(offset - lowest) as usize] = *byte;
    }
    let base = memory.as_mut_ptr().wrapping_offset(-lowest as isize);
    for (i, part) in stream.chunks(fragment).enumerate() {
        // SAFETY: `memory` spans the items.
        let n = unsafe { datatype.unpack(base, count, (i * fragment) as u64, part) };
        prop_assert_eq!(n, part.len());
    }
    // Items that overlap in memory may be written in any order (MPI-5 section 5.1.2 forbids receiving).
    let mut unique = offsets.to_vec();
    unique.sort_unstable();
    unique.dedup();
    if unique.len() == offsets.len() {
        prop_assert_eq!(memory, expected);
    }
    Ok(())
}

fn check_segments(
    datatype: &Datatype,
    count: u64,
    fragment: u64,
    offsets: &[i64],
) -> std::result::Result<(), TestCaseError> {
    let (mut found, mut segments, mut position) = (vec![], vec![], 0);
    loop {
        let covered = datatype.segments(count, position..position + fragment * 3, &mut segments, 2);
        prop_assert!(segments.len() <= 2 && covered <= fragment * 3);
        found.extend(segments.drain(..).flat_map(|s| s.offset..s.offset + s.bytes as i64));
        position += covered;
        if covered == 0 {
            break;
        }
    }
    prop_assert_eq!(found, offsets);
    Ok(())
}

fn check_elements(datatype: &Datatype, map: &Map) -> std::result::Result<(), TestCaseError> {
    let mut ends: Vec<i64> = vec![0];
    map.items.iter().for_each(|item| ends.push(ends[ends.len() - 1] + item.1));
    for bytes in 0..map.size().min(200) {
        let expected = ends.iter().position(|end| *end == bytes).map(|n| n as u64);
        prop_assert_eq!(datatype.element_count(bytes as u64), expected, "{} bytes", bytes);
    }
    let pieces: Vec<Datatype> = map.items.iter().map(|item| named(item.3)).collect();
    let zeros = vec![0; pieces.len()];
    let ones = vec![1; pieces.len()];
    let flat = Datatype::create_struct(&ones, &zeros, &pieces, Form::Count).expect("valid");
    prop_assert_eq!(flat.signature_hash(3), datatype.signature_hash(3));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 1500 }))]

    #[test]
    fn random_types_follow_their_type_map(datatype in any_type(4), count in 0u64..5, fragment in 1usize..40) {
        check(&datatype, count, fragment)?;
    }
}

/// Checks larger regular types, which reach the loops that small random ones do not.
#[test]
fn regular_types_follow_their_type_map() {
    let form = Form::Int;
    // Miri, which is slow, gets few of them.
    let (rows, records, kinds, fragments) = if cfg!(miri) { (9, 6, 3, 1) } else { (50, 400, 8, 3) };
    for &code in &[SHORT_INT, INT, CHAR, SHORT, DOUBLE, 0x220, 0x224, DOUBLE_INT][..kinds] {
        let column = Datatype::create_vector(rows, 1, 3, &named(code), form).expect("valid");
        let wide = Datatype::create_vector(rows * 2 / 5, 9, 11, &named(code), form).expect("valid");
        let tiled =
            Datatype::create_resized(0, 3 * rows * named(code).extent(), &column, form).expect("valid");
        let nested = Datatype::create_hvector(rows * 3 / 5, 1, 1000, &column, form).expect("valid");
        let offsets: Vec<i64> = (0..rows + 10).map(|i| i * i).collect();
        let listed = Datatype::create_indexed_block(1, &offsets, &named(code), form).expect("valid");
        let types = [named(INT), named(code), named(CHAR), named(DOUBLE)];
        let record = Datatype::create_struct(&[1, 2, 1, 1], &[0, 16, 90, 96], &types, form).expect("valid");
        for (datatype, count) in
            [(column, 3), (wide, 3), (tiled, 2), (nested, 2), (listed, 3), (record, records)]
        {
            for &fragment in &[64, 7, 1000][..fragments] {
                check(&datatype, count, fragment).expect("follows its type map");
            }
        }
    }
}

#[test]
fn contiguity_is_seen() {
    let check = |datatype: Datatype, count, expected| {
        datatype.commit();
        assert_eq!(datatype.contiguous(count), expected, "{datatype:?}");
    };
    let form = Form::Int;
    let int = named(INT);
    check(int.clone(), 5, Some((0, 20)));
    check(Datatype::create_vector(4, 2, 2, &int, form).expect("valid"), 3, Some((0, 96)));
    check(Datatype::create_indexed(&[1, 2], &[2, 3], &int, form).expect("valid"), 2, Some((8, 24)));
    check(Datatype::create_indexed(&[1, 2], &[3, 1], &int, form).expect("valid"), 1, None);
    check(Datatype::create_resized(0, 8, &int, form).expect("valid"), 1, Some((0, 4)));
    check(Datatype::create_resized(0, 8, &int, form).expect("valid"), 2, None);
    check(Datatype::create_contiguous(0, &int, form).expect("valid"), 9, Some((0, 0)));
    let rows = Datatype::create_subarray(&[4, 5], &[2, 5], &[1, 0], Order::C, &int, form).expect("valid");
    check(rows, 1, Some((20, 40)));
    check(named(DOUBLE_INT), 1, Some((0, 12)));
    check(named(DOUBLE_INT), 2, None);
    check(named(SHORT_INT), 1, None);
}

#[test]
fn copies_between_layouts() {
    let (form, int) = (Form::Int, named(INT));
    let n = if cfg!(miri) { 70i64 } else { 5000 };
    let types = [
        Datatype::create_contiguous(n, &int, form).expect("valid"),
        Datatype::create_vector(n, 1, 2, &int, form).expect("valid"),
        Datatype::create_hvector(n, 1, -8, &int, form).expect("valid"),
    ];
    for from in &types {
        for to in &types {
            let source: Vec<i32> = (0..4 * n as i32).collect();
            let mut target = vec![-1i32; 4 * n as usize];
            let middle = 2 * n as usize;
            // SAFETY: each type spans less than 2n integers on either side of the middle.
            let bytes = unsafe {
                let (source, target) = (source.as_ptr().add(middle), target.as_mut_ptr().add(middle));
                copy(from, source.cast(), 1, to, target.cast(), 1)
            };
            assert_eq!(bytes, 4 * n as u64);
            let read = Map::of(from).items;
            for (from, to) in read.iter().zip(&Map::of(to).items) {
                let at = |offset: i64| (middle as i64 + offset / 4) as usize;
                assert_eq!(target[at(to.0)], source[at(from.0)]);
            }
        }
    }
}
