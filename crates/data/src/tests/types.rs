//! Construction, bounds, decoding, signatures and refused arguments.

use super::*;
use crate::Combiner::{self, *};
use crate::{Darray, Distribution, Form, Op, Order};
use tutti_base::ErrorClass;

fn valid(datatype: tutti_base::Result<Datatype>) -> Datatype {
    datatype.expect("valid arguments")
}

#[test]
fn predefined_types_have_the_sizes_of_linux() {
    let check = |name: &str, size, extent| {
        let datatype = Datatype::all_predefined().find(|d| d.name() == Some(name)).expect(name);
        assert_eq!((datatype.size(), datatype.extent(), datatype.lb()), (size, extent, 0), "{name}");
        assert!(datatype.is_committed() && datatype.is_predefined());
        assert_eq!(Datatype::predefined(datatype.code().expect(name)), Some(datatype));
        assert_eq!((datatype.combiner(), datatype.contents()), (Named, Contents::default()));
    };
    for name in ["MPI_CHAR", "MPI_BYTE", "MPI_PACKED", "MPI_C_BOOL", "MPI_INTEGER1", "MPI_CHARACTER"] {
        check(name, 1, 1);
    }
    for name in
        ["MPI_INT", "MPI_FLOAT", "MPI_WCHAR", "MPI_LOGICAL", "MPI_INTEGER", "MPI_REAL", "MPI_COMPLEX4"]
    {
        check(name, 4, 4);
    }
    for name in [
        "MPI_LONG",
        "MPI_AINT",
        "MPI_COUNT",
        "MPI_DOUBLE_PRECISION",
        "MPI_COMPLEX",
        "MPI_2INT",
        "MPI_FLOAT_INT",
    ] {
        check(name, 8, 8);
    }
    for name in ["MPI_LONG_DOUBLE", "MPI_REAL16", "MPI_INTEGER16", "MPI_LOGICAL16", "MPI_DOUBLE_COMPLEX"] {
        check(name, 16, 16);
    }
    check("MPI_SHORT_INT", 6, 8);
    check("MPI_LONG_INT", 12, 16);
    check("MPI_DOUBLE_INT", 12, 16);
    check("MPI_LONG_DOUBLE_INT", 20, 32);
    check("MPI_C_LONG_DOUBLE_COMPLEX", 32, 32);
    check("MPI_2DOUBLE_PRECISION", 16, 16);
    assert_eq!(Datatype::all_predefined().count(), 71);
    for code in [0, 0x1ff, 0x200, 0x211, 0x300, u32::MAX] {
        assert_eq!(Datatype::predefined(code), None);
    }
}

#[test]
fn bounds_follow_the_standard() {
    let check = |datatype: Datatype, lb, ub, true_lb, true_extent| {
        let found = (datatype.lb(), datatype.ub(), datatype.true_lb(), datatype.true_extent());
        assert_eq!(found, (lb, ub, true_lb, true_extent), "{datatype:?}");
    };
    let form = Form::Int;
    let (char, double, int) = (named(CHAR), named(DOUBLE), named(INT));
    let pair = [double.clone(), char.clone()];
    // MPI-5 section 5.1, example: {(double, 0), (char, 8)} has extent 16 by alignment.
    let record = valid(Datatype::create_struct(&[1, 1], &[0, 8], &pair, form));
    check(record.clone(), 0, 16, 0, 9);
    check(valid(Datatype::create_contiguous(2, &record, form)), 0, 32, 0, 25);
    // Alignment rounds the extent, not the upper bound.
    check(valid(Datatype::create_struct(&[1, 1], &[4, 12], &pair, form)), 4, 20, 4, 9);
    // A type ends no earlier than its parts, also where they lie at odd displacements.
    let odd = valid(Datatype::create_hvector(3, 4, 25, &int, form));
    check(odd.clone(), 0, 68, 0, 66);
    check(valid(Datatype::create_hvector(2, 3, 273, &odd, form)), 0, 480, 0, 475);
    // Bounds once set stick to types made of this one, and hide those of the data.
    let resized = valid(Datatype::create_resized(-4, 20, &int, form));
    check(resized.clone(), -4, 16, 0, 4);
    let mixed = [resized.clone(), double.clone()];
    check(valid(Datatype::create_struct(&[1, 1], &[0, 40], &mixed, form)), -4, 16, 0, 48);
    check(valid(Datatype::create_contiguous(3, &resized, form)), -4, 56, 0, 44);
    check(valid(Datatype::create_resized(2, 1, &resized, form)), 2, 3, 0, 4);
    check(valid(Datatype::create_contiguous(0, &resized, form)), 0, 0, 0, 0);
    // Bounds without data count.
    let nothing = valid(Datatype::create_contiguous(0, &int, form));
    check(valid(Datatype::create_resized(0, 24, &nothing, form)), 0, 24, 0, 0);
    check(valid(Datatype::create_vector(3, 1, -2, &int, form)), -16, 4, -16, 20);
    check(valid(Datatype::create_subarray(&[4, 4], &[2, 2], &[1, 1], Order::C, &int, form)), 0, 64, 20, 24);
}

/// Decodes a type made under both forms.
fn check_contents(
    make: impl Fn(Form) -> tutti_base::Result<Datatype>,
    combiner: Combiner,
    int: (&[i32], &[i64]),
    count: (&[i32], &[i64]),
) {
    for (form, (integers, wide)) in [(Form::Int, int), (Form::Count, count)] {
        let datatype = valid(make(form));
        let (envelope, contents) = (datatype.envelope(), datatype.contents());
        assert_eq!((datatype.combiner(), &contents.integers[..]), (combiner, integers), "{form:?}");
        let (addresses, large_counts) = match form {
            Form::Int => (wide, &[][..]),
            Form::Count => (&[][..], wide),
        };
        assert_eq!(
            (&contents.addresses[..], &contents.large_counts[..]),
            (addresses, large_counts),
            "{combiner:?}"
        );
        let lengths = (contents.integers.len(), contents.addresses.len(), contents.large_counts.len());
        assert_eq!((envelope.integers, envelope.addresses, envelope.large_counts), lengths);
        assert_eq!((envelope.combiner, envelope.datatypes), (combiner, contents.datatypes.len()));
        assert_eq!(contents.datatypes[0], named(INT));
    }
}

#[test]
fn constructors_decode() {
    let int = &named(INT);
    check_contents(|f| Datatype::create_contiguous(3, int, f), Contiguous, (&[3], &[]), (&[], &[3]));
    check_contents(
        |f| Datatype::create_vector(3, 2, -5, int, f),
        Vector,
        (&[3, 2, -5], &[]),
        (&[], &[3, 2, -5]),
    );
    check_contents(
        |f| Datatype::create_hvector(3, 2, -5, int, f),
        Hvector,
        (&[3, 2], &[-5]),
        (&[], &[3, 2, -5]),
    );
    check_contents(
        |f| Datatype::create_indexed(&[1, 2], &[7, 9], int, f),
        Indexed,
        (&[2, 1, 2, 7, 9], &[]),
        (&[], &[2, 1, 2, 7, 9]),
    );
    check_contents(
        |f| Datatype::create_hindexed(&[1, 2], &[7, 9], int, f),
        Hindexed,
        (&[2, 1, 2], &[7, 9]),
        (&[], &[2, 1, 2, 7, 9]),
    );
    check_contents(
        |f| Datatype::create_indexed_block(4, &[7, 9], int, f),
        IndexedBlock,
        (&[2, 4, 7, 9], &[]),
        (&[], &[2, 4, 7, 9]),
    );
    check_contents(
        |f| Datatype::create_hindexed_block(4, &[7, 9], int, f),
        HindexedBlock,
        (&[2, 4], &[7, 9]),
        (&[], &[2, 4, 7, 9]),
    );
}

#[test]
fn structures_and_arrays_decode() {
    let int = &named(INT);
    let types = [int.clone(), named(DOUBLE)];
    check_contents(
        |f| Datatype::create_struct(&[1, 2], &[0, 8], &types, f),
        Struct,
        (&[2, 1, 2], &[0, 8]),
        (&[], &[2, 1, 2, 0, 8]),
    );
    check_contents(
        |f| Datatype::create_subarray(&[4, 5], &[2, 3], &[1, 0], Order::Fortran, int, f),
        Subarray,
        (&[2, 4, 5, 2, 3, 1, 0, 0xf], &[]),
        (&[2, 0xf], &[4, 5, 2, 3, 1, 0]),
    );
    check_contents(|f| Datatype::create_resized(-1, 9, int, f), Resized, (&[], &[-1, 9]), (&[], &[-1, 9]));
    let array = Darray {
        size: 6,
        rank: 4,
        gsizes: vec![10, 11],
        distributions: vec![Distribution::Block, Distribution::Cyclic],
        arguments: vec![19, 2],
        psizes: vec![2, 3],
        order: Order::C,
    };
    check_contents(
        |f| Datatype::create_darray(&array, int, f),
        Combiner::Darray,
        (&[6, 4, 2, 10, 11, 17, 18, 19, 2, 2, 3, 0xc], &[]),
        (&[6, 4, 2, 17, 18, 19, 2, 2, 3, 0xc], &[10, 11]),
    );
    let duplicate = int.create_dup();
    assert_eq!((duplicate.combiner(), duplicate.contents().datatypes), (Dup, vec![int.clone()]));
    assert!(duplicate.is_committed() && duplicate != *int);
}

/// Returns the offsets that the standard's definition gives a rank: every element of the array in storage
/// order that belongs to it.
fn darray_reference(array: &Darray) -> Vec<i64> {
    let n = array.gsizes.len();
    let mut coordinates = vec![0; n];
    let mut rest = array.rank;
    for d in (0..n).rev() {
        coordinates[d] = i64::from(rest % array.psizes[d]);
        rest /= array.psizes[d];
    }
    let owner = |d: usize, index: i64| {
        let (gsize, psize, argument) =
            (array.gsizes[d], i64::from(array.psizes[d]), i64::from(array.arguments[d]));
        match (array.distributions[d], argument) {
            (Distribution::None, _) => 0,
            (Distribution::Block, 19) => index / ((gsize + psize - 1) / psize),
            (Distribution::Block, block) => index / block,
            (Distribution::Cyclic, 19) => index % psize,
            (Distribution::Cyclic, block) => index / block % psize,
        }
    };
    let mut dimensions: Vec<usize> = (0..n).collect();
    if array.order == Order::C {
        dimensions.reverse();
    }
    let total: i64 = array.gsizes.iter().product();
    let mine = |linear: &i64| {
        let mut rest = *linear;
        dimensions.iter().all(|d| {
            let index = rest % array.gsizes[*d];
            rest /= array.gsizes[*d];
            owner(*d, index) == coordinates[*d]
        })
    };
    (0..total).filter(mine).collect()
}

#[test]
#[cfg_attr(miri, ignore = "reads no memory but vectors: nothing that Miri could find")]
fn darrays_deal_out_every_element() {
    use Distribution::{Block, Cyclic, None};
    let choices = [
        (None, 19, 1),
        (Block, 19, 2),
        (Block, 19, 4),
        (Block, 5, 3),
        (Cyclic, 19, 3),
        (Cyclic, 2, 2),
        (Cyclic, 3, 2),
        (Cyclic, 20, 2),
    ];
    for order in [Order::C, Order::Fortran] {
        for first in choices {
            for second in choices {
                for gsizes in [vec![7, 10], vec![1, 4], vec![12, 3]] {
                    let size = first.2 * second.2;
                    let fits = |gsize: i64, (kind, block, psize): (Distribution, i32, i32)| {
                        kind != Block || block == 19 || i64::from(block * psize) >= gsize
                    };
                    if !fits(gsizes[0], first) || !fits(gsizes[1], second) {
                        continue;
                    }
                    let total: i64 = gsizes.iter().product();
                    let mut covered = 0;
                    for rank in 0..size {
                        let array = Darray {
                            size,
                            rank,
                            gsizes: gsizes.clone(),
                            distributions: vec![first.0, second.0],
                            arguments: vec![first.1, second.1],
                            psizes: vec![first.2, second.2],
                            order,
                        };
                        let datatype = valid(Datatype::create_darray(&array, &named(SHORT), Form::Int));
                        assert_eq!((datatype.lb(), datatype.extent()), (0, 2 * total), "{array:?}");
                        let mut segments = vec![];
                        datatype.segments(1, 0..u64::MAX, &mut segments, usize::MAX);
                        let offsets = segments.iter().flat_map(|s| s.offset..s.offset + s.bytes as i64);
                        let expected: Vec<i64> =
                            darray_reference(&array).iter().flat_map(|i| [2 * i, 2 * i + 1]).collect();
                        assert_eq!(offsets.collect::<Vec<i64>>(), expected, "{array:?}");
                        covered += datatype.size() / 2;
                    }
                    assert_eq!(covered, total);
                }
            }
        }
    }
}

#[test]
fn signatures_ignore_structure() {
    let form = Form::Int;
    let (int, double) = (named(INT), named(DOUBLE));
    let hash = |datatype: &Datatype, count| datatype.signature_hash(count);
    let vector = valid(Datatype::create_vector(3, 2, 7, &int, form));
    let indexed = valid(Datatype::create_indexed(&[4, 2], &[0, 9], &int, form));
    assert_eq!(hash(&vector, 5), hash(&int, 30));
    assert_eq!(hash(&vector, 5), hash(&indexed, 5));
    assert_ne!(hash(&vector, 5), hash(&indexed, 4));
    let types = [int.clone(), double.clone()];
    let record = valid(Datatype::create_struct(&[2, 1], &[0, 8], &types, form));
    let swapped = valid(Datatype::create_struct(&[1, 1], &[0, 8], &[double.clone(), int.clone()], form));
    assert_ne!(hash(&record, 1), hash(&swapped, 1));
    assert_eq!(hash(&named(DOUBLE_INT), 2), hash(&swapped, 2));
    assert_eq!(hash(&named(0x247), 4), None);
    let bytes = valid(Datatype::create_struct(&[1, 1], &[0, 8], &[int.clone(), named(0x207)], form));
    assert_eq!(hash(&bytes, 1), None);
    assert_eq!((vector.basic(), record.basic()), (Datatype::predefined(INT), None));
    assert_eq!(named(0x22b).basic(), Datatype::predefined(0x22b));
    assert_eq!((record.complete_items(32), record.complete_items(33)), (Some(2), None));
}

#[test]
fn fortran_kinds_pairs_and_sizes() {
    let real = valid(Datatype::f90_real(6, 30));
    assert_eq!((real.combiner(), real.size(), real.contents().integers), (F90Real, 4, vec![6, 30]));
    assert_eq!(real, valid(Datatype::f90_real(6, 30)));
    assert!(real.contents().datatypes.is_empty() && real.is_committed() && real.is_predefined());
    let sizes = [(15, -32766, 8), (-32766, 308, 16), (18, 400, 16), (33, 4931, 16)];
    for (precision, range, size) in sizes {
        assert_eq!(valid(Datatype::f90_real(precision, range)).size(), size);
        assert_eq!(valid(Datatype::f90_complex(precision, range)).size(), 2 * size);
    }
    assert_eq!(valid(Datatype::f90_complex(15, 300)).combiner(), F90Complex);
    for (range, size) in [(2, 1), (4, 2), (9, 4), (18, 8), (38, 16)] {
        let integer = valid(Datatype::f90_integer(range));
        assert_eq!(
            (integer.combiner(), integer.size(), integer.contents().integers),
            (F90Integer, size, vec![range])
        );
    }
    for refused in [Datatype::f90_real(34, 1), Datatype::f90_real(-32766, -32766), Datatype::f90_integer(39)]
    {
        assert_eq!(refused.expect_err("out of range").class, ErrorClass::Arg);
    }
    let value_index = |value, index| Datatype::value_index(&named(value), &named(index));
    assert_eq!(value_index(DOUBLE, INT), Some(named(DOUBLE_INT)));
    assert_eq!(value_index(INT, INT), Some(named(0x22b)));
    let unnamed = value_index(SHORT, 0x258).expect("a pair");
    assert_eq!((unnamed.size(), unnamed.extent(), unnamed.combiner()), (10, 16, ValueIndex));
    assert_eq!(unnamed.contents().datatypes, [named(SHORT), named(0x258)]);
    assert_eq!(Some(unnamed), value_index(SHORT, 0x258));
    assert_eq!(value_index(CHAR, INT), None);
    for value in [SHORT, DOUBLE, 0x220, 0x2ca, 0x2e1, 0x2e2] {
        for index in [0x240, 0x249, INT, 0x258, 0x202, 0x2e1] {
            let pair = value_index(value, index).expect("a pair");
            assert!(Op::predefined(0x38).expect("MINLOC").bind(&pair).is_ok(), "{pair:?}");
        }
    }
    let matched = |class, size| Datatype::match_size(class, size).ok().and_then(Datatype::name);
    assert_eq!((matched(193, 8), matched(192, 16)), (Some("MPI_REAL8"), Some("MPI_INTEGER16")));
    assert_eq!((matched(194, 8), matched(191, 4)), (Some("MPI_COMPLEX8"), Some("MPI_LOGICAL4")));
    assert_eq!((matched(193, 3), matched(1, 4)), (None, None));
}

#[test]
fn bad_arguments_are_named() {
    let (int, form) = (&named(INT), Form::Count);
    let check = |made: tutti_base::Result<Datatype>, class, word: &str| {
        let error = made.expect_err(word);
        assert!(error.class == class && error.message.contains(word), "{error}");
    };
    check(Datatype::create_contiguous(-1, int, form), ErrorClass::Count, "count is -1");
    check(Datatype::create_vector(1, -2, 1, int, form), ErrorClass::Arg, "blocklength is -2");
    check(
        Datatype::create_indexed(&[1, -3], &[0, 0], int, form),
        ErrorClass::Arg,
        "array_of_blocklengths[1]",
    );
    check(Datatype::create_indexed(&[1], &[0, 0], int, form), ErrorClass::Arg, "array_of_displacements");
    check(Datatype::create_contiguous(i64::MAX, int, form), ErrorClass::Count, "the size");
    check(Datatype::create_vector(2, 1, i64::MAX, int, form), ErrorClass::Count, "the stride");
    check(Datatype::create_hvector(3, 1, i64::MAX, int, form), ErrorClass::Count, "the upper bound");
    check(
        Datatype::create_hindexed(&[1, 1], &[i64::MIN, i64::MAX - 20], int, form),
        ErrorClass::Count,
        "extent",
    );
    let subarray =
        |size, subsize, start| Datatype::create_subarray(&[size], &[subsize], &[start], Order::C, int, form);
    check(subarray(4, 5, 0), ErrorClass::Arg, "subsizes[0] is 5");
    check(subarray(4, 2, 3), ErrorClass::Arg, "starts[0] is 3");
    check(Datatype::create_subarray(&[], &[], &[], Order::C, int, form), ErrorClass::Arg, "ndims");
    let mut nested = int.clone();
    let mut depth = 0;
    while let Ok(deeper) = Datatype::create_vector(1, 1, 1, &nested, form) {
        (nested, depth) = (deeper, depth + 1);
    }
    nested.commit();
    assert!(depth > 100 && nested.contiguous(3) == Some((0, 12)));
    assert_eq!(named(DOUBLE).pack_size(3), Ok(24));
    assert!(named(DOUBLE).pack_size(i64::MAX).is_err());
    assert_eq!(named(DOUBLE).span(3), Some((0, 24)));
}
