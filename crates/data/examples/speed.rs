//! Measures packing and reducing: `cargo run --release -p tutti-data --example speed`. Prints gigabytes
//! of data a second (in cache, 1 MiB, and from memory, 64 MiB) and the time of small calls.
//!
//! # Safety
//! Every buffer is made to hold the items that the call beside it names.
#![allow(clippy::undocumented_unsafe_blocks, reason = "one invariant for all, stated above")]

use std::hint::black_box;
use std::time::Instant;
use tutti_data::{Cursor, Datatype, Form, Op};

fn named(code: u32) -> Datatype {
    Datatype::predefined(code).expect("a valid code").clone()
}

/// The best of a few repetitions, in seconds.
fn best(mut work: impl FnMut()) -> f64 {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..7).map(|_| time(&mut work)).fold(f64::MAX, f64::min)
}

fn pack_speed(name: &str, datatype: &Datatype, bytes: u64) {
    datatype.commit();
    let count = (bytes / datatype.size() as u64).max(1);
    let (low, high) = datatype.span(count).expect("has data");
    let mut memory = vec![1u8; (high - low) as usize];
    let base = memory.as_mut_ptr().wrapping_offset(-low as isize);
    let total = datatype.packed_bytes(count);
    let mut packed = vec![1u8; total as usize];
    let pack = best(|| _ = unsafe { datatype.pack(base, count, 0, black_box(&mut packed)) });
    let unpack = best(|| _ = unsafe { datatype.unpack(base, count, 0, black_box(&packed)) });
    let fragments = best(|| {
        let (mut cursor, mut out) = (Cursor::new(datatype, count), [0; 16384]);
        while unsafe { cursor.pack(base, black_box(&mut out)) } > 0 {}
    });
    let rate = |seconds: f64| total as f64 / seconds / 1e9;
    println!("{name:24} {:8.1} {:8.1} {:8.1}", rate(pack), rate(unpack), rate(fragments));
}

fn reduce_speed(name: &str, op: u32, code: u32, bytes: u64) {
    let datatype = named(code);
    let reducer = Op::predefined(op).expect("a valid code").bind(&datatype).expect("applies");
    let count = bytes / datatype.extent() as u64;
    let size = datatype.basic().map_or(1, |basic| basic.size() as usize);
    // Numbers of middling size in any format: ones, as integers and as floats.
    let one: &[u8] = match (code, size) {
        (0x210, _) => &1f32.to_ne_bytes(),
        (0x214 | 0x216 | 0x229, _) => &1f64.to_ne_bytes(),
        (0x2ca, _) => &[0, 0x3c],
        (0x220, _) => &[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f, 0, 0, 0, 0, 0, 0],
        _ => &[1],
    };
    let operand = || one.iter().copied().cycle().take(bytes as usize).collect::<Vec<u8>>();
    let (sources, mut out): (Vec<Vec<u8>>, _) = ((0..8).map(|_| operand()).collect(), operand());
    let places: Vec<*const u8> = sources.iter().map(|source| source.as_ptr()).collect();
    let into = out.as_mut_ptr();
    let copy = best(|| unsafe { tutti_data::copy::copy(places[0], black_box(into), bytes as usize) });
    let two = best(|| unsafe { reducer.apply(places[0], black_box(into), count) });
    let three = best(|| unsafe { reducer.apply_into(places[0], places[1], black_box(into), count) });
    let streaming = best(|| unsafe { reducer.apply_many_streaming(&places[..2], black_box(into), count) });
    let eight = best(|| unsafe { reducer.apply_many(&places, black_box(into), count) });
    let by_two = best(|| unsafe {
        reducer.apply_into(places[6], places[7], black_box(into), count);
        places[..6].iter().rev().for_each(|&place| reducer.apply(place, black_box(into), count));
    });
    let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
    let columns = [copy, two, three, streaming, eight, by_two].map(|time| format!("{:9.1}", rate(time)));
    println!("{name:24}{}", columns.concat());
}

fn small_calls() {
    let (int, double) = (named(0x209), named(0x214));
    let column = Datatype::create_vector(8, 1, 4, &int, Form::Int).expect("valid");
    column.commit();
    let (memory, mut out) = ([0u8; 1024], [0u8; 64]);
    let times = 1_000_000;
    let each = |seconds: f64| seconds / f64::from(times) * 1e9;
    let contiguous =
        best(|| (0..times).for_each(|_| _ = black_box(black_box(&int).contiguous(black_box(4)))));
    let pack = best(|| {
        (0..times)
            .for_each(|_| _ = unsafe { black_box(&column).pack(memory.as_ptr(), 1, 0, black_box(&mut out)) });
    });
    let sum = Op::predefined(0x21).expect("a valid code");
    let reduce = best(|| {
        (0..times).for_each(|_| unsafe {
            black_box(sum)
                .reduce(&double, memory.as_ptr(), black_box(&mut out).as_mut_ptr(), 1)
                .expect("applies");
        });
    });
    let bound = sum.bind(&double).expect("applies");
    let apply = best(|| {
        (0..times).for_each(|_| unsafe {
            black_box(&bound).apply(memory.as_ptr(), black_box(&mut out).as_mut_ptr(), 1)
        });
    });
    println!(
        "\nnanoseconds a call: contiguous {:.1}, pack 8 ints {:.1}, reduce 1 double {:.1}, bound {:.1}",
        each(contiguous),
        each(pack),
        each(reduce),
        each(apply)
    );
}

fn main() {
    let form = Form::Int;
    let vector = |n, length, stride, code| {
        Datatype::create_vector(n, length, stride, &named(code), form).expect("valid")
    };
    let offsets: Vec<i64> = (0..4096).map(|i| i * 3 + i % 2).collect();
    let indexed =
        |length, code| Datatype::create_indexed_block(length, &offsets, &named(code), form).expect("valid");
    let record =
        Datatype::create_struct(&[1, 1, 1], &[0, 8, 16], &[named(0x209), named(0x214), named(0x208)], form);
    let uneven: Vec<i64> = (0..4096).map(|i| 1 + i % 4).collect();
    let places: Vec<i64> = (0..4096).map(|i| i * 6).collect();
    let types = [
        ("contiguous", named(0x247)),
        ("vector 1 byte", vector(4096, 1, 2, 0x247)),
        ("vector 4 bytes", vector(4096, 1, 2, 0x209)),
        ("vector 8 bytes", vector(4096, 1, 2, 0x214)),
        ("vector 16 bytes", vector(4096, 2, 4, 0x214)),
        ("vector 40 bytes", vector(4096, 5, 8, 0x214)),
        ("vector 64 bytes", vector(4096, 8, 16, 0x214)),
        ("vector 512 bytes", vector(1024, 64, 128, 0x214)),
        ("indexed 8 bytes", indexed(1, 0x214)),
        ("indexed 4 bytes", indexed(1, 0x209)),
        (
            "indexed 8 to 32 bytes",
            Datatype::create_indexed(&uneven, &places, &named(0x214), form).expect("valid"),
        ),
        ("struct int double short", record.expect("valid")),
        ("double int", named(0x229)),
    ];
    for bytes in [1 << 20, 64 << 20] {
        println!("\n{:24} {:>8} {:>8} {:>8}  GB/s, {bytes} bytes", "", "pack", "unpack", "16 KiB");
        types.iter().for_each(|(name, datatype)| pack_speed(name, datatype, bytes));
    }
    let reductions = [
        ("sum double", 0x21, 0x214),
        ("sum float", 0x21, 0x210),
        ("sum int32", 0x21, 0x250),
        ("sum int8", 0x21, 0x240),
        ("sum real2 (half)", 0x21, 0x2ca),
        ("prod int64", 0x24, 0x258),
        ("max int8", 0x23, 0x240),
        ("max int16", 0x23, 0x248),
        ("max int64", 0x23, 0x258),
        ("min double", 0x22, 0x214),
        ("prod double complex", 0x24, 0x216),
        ("land int", 0x30, 0x209),
        ("lxor int8", 0x32, 0x238),
        ("bor int64", 0x29, 0x258),
        ("sum long double", 0x21, 0x220),
        ("maxloc double int", 0x39, 0x229),
        ("minloc 2int", 0x38, 0x22b),
    ];
    for bytes in [1 << 14, 1 << 18, 32 << 20] {
        println!("\nGB/s of result, {bytes} bytes");
        let columns = ["memcpy", "in place", "into", "streaming", "of eight", "by twos"];
        println!("{:24}{}", "", columns.map(|column| format!("{column:>9}")).concat());
        reductions.iter().for_each(|&(name, op, code)| reduce_speed(name, op, code, bytes));
    }
    small_calls();
}
