//! The inverse of a cursor against the cursor itself, byte by byte.

use proptest::prelude::*;

use super::*;
use crate::{Form, Order, Segment, Succession, Tiling};

/// Returns the file offset of each of the first `bytes` packed bytes of an endless repetition.
fn offsets(datatype: &Datatype, bytes: u64) -> Vec<i64> {
    let mut runs: Vec<Segment> = Vec::new();
    let count = bytes / datatype.size() as u64 + 1;
    datatype.segments(count, 0..bytes, &mut runs, usize::MAX);
    runs.iter().flat_map(|run| run.offset..run.offset + run.bytes as i64).collect()
}

fn check(datatype: &Datatype) {
    datatype.commit();
    let bytes = 4 * datatype.size() as u64 + 3;
    let places = offsets(datatype, bytes);
    let succession = datatype.succession();
    let ascending = places.windows(2).all(|pair| pair[0] < pair[1]);
    assert_eq!(succession == Succession::Disjoint, ascending, "{datatype:?} {places:?}");
    if !ascending {
        return;
    }
    let last = places.last().copied().unwrap_or(0);
    let other = Tiling::decode(&Tiling::from_datatype(datatype).encode()).unwrap();
    let mut runs = Vec::new();
    other.segments(1..bytes, &mut runs, usize::MAX);
    let again: Vec<i64> = runs.iter().flat_map(|run| run.offset..run.offset + run.bytes as i64).collect();
    assert_eq!(again, places[1..], "{datatype:?}");
    for limit in -9..=last {
        let expected = places.iter().filter(|place| **place < limit).count() as u64;
        assert_eq!(other.bytes_below(limit), expected);
        assert_eq!(datatype.bytes_below(limit), expected, "{datatype:?} below {limit}: {places:?}");
    }
}

fn named(code: u32) -> Datatype {
    Datatype::predefined(code).unwrap().clone()
}

#[test]
fn simple_views() {
    let (byte, int) = (named(0x247), named(0x209));
    check(&byte);
    check(&Datatype::create_vector(3, 2, 5, &int, Form::Int).unwrap());
    let gaps = Datatype::create_resized(0, 40, &int, Form::Int).unwrap();
    check(&gaps);
    check(&Datatype::create_indexed(&[1, 3, 2], &[0, 4, 9], &int, Form::Int).unwrap());
    check(&Datatype::create_indexed(&[1, 1], &[4, 0], &int, Form::Int).unwrap());
    let inner = Datatype::create_vector(2, 1, 2, &byte, Form::Int).unwrap();
    check(&Datatype::create_struct(&[2, 1], &[3, 40], &[inner.clone(), gaps], Form::Int).unwrap());
    let array = Datatype::create_subarray(&[5, 7, 3], &[2, 3, 2], &[1, 2, 1], Order::C, &int, Form::Int);
    check(&array.unwrap());
}

proptest! {
    #[test]
    fn random_views(
        lengths in proptest::collection::vec((0i64..4, 0i64..6), 1..7),
        stride in 0i64..60,
        count in 1i64..4,
        padding in 0i64..20,
    ) {
        let mut end = 0;
        let (mut blocks, mut places) = (Vec::new(), Vec::new());
        for (length, gap) in lengths {
            blocks.push(length);
            places.push(end + gap);
            end += gap + length;
        }
        let list = Datatype::create_hindexed(&blocks, &places, &named(0x247), Form::Int).unwrap();
        if list.size() > 0 {
            let many = Datatype::create_hvector(count, 1, stride, &list, Form::Int).unwrap();
            check(&many);
            let extent = many.ub() + padding;
            check(&Datatype::create_resized(0, extent, &many, Form::Int).unwrap());
        }
    }
}

#[test]
fn represented_types_have_other_leaves() {
    let long = named(0x20b);
    let vector = Datatype::create_vector(3, 1, 2, &long, Form::Int).unwrap();
    let file = vector.represented(&mut |leaf| leaf.pack_external_size(1)).unwrap();
    let bytes = long.pack_external_size(1).unwrap();
    assert_eq!((file.size(), file.extent()), (3 * bytes, 5 * bytes));
    assert!(file.is_committed());
}

proptest! {
    #[test]
    fn what_makes_no_sense_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        // Whatever comes in, nothing breaks.
        let _ = Tiling::decode(&bytes);
    }
}
