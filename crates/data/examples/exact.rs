//! Times of sums that are rounded once beside ordinary ones, in the cache of a core: nanoseconds for each
//! element.
//!
//! # Safety
//! All arrays have so many elements as the calls say.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use tutti_data::{Datatype, GlobalSum, Op, Reducer};

const COUNT: usize = 4096;

/// Returns the least time of a call of `work`, in nanoseconds for each of [`COUNT`] elements.
fn time(mut work: impl FnMut()) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..200 {
        let begun = Instant::now();
        work();
        least = least.min(begun.elapsed().as_nanos() as f64);
    }
    least / COUNT as f64
}

fn main() {
    let double = Datatype::predefined(0x214).expect("MPI_DOUBLE");
    let [sum, product] = [0x21, 0x24].map(|code| Op::predefined(code).expect("an operator"));
    let exact = sum.bind_exact(double).expect("exact sums of doubles");
    let products = product.bind_exact(double).expect("exact products of doubles");
    let ordinary = sum.bind(double).expect("sums of doubles");
    for operands in [2, 4, 8, 64] {
        let benign = |place: usize| (place * 7919 % 10007) as f64 / 7.0 - 700.0;
        let wild = |place: usize| benign(place) * 2f64.powi((place * 31 % 1600) as i32 - 800);
        let rows = |number: &dyn Fn(usize) -> f64| -> Vec<Vec<f64>> {
            (0..operands).map(|row| (0..COUNT).map(|place| number(row * 5 + place * 3)).collect()).collect()
        };
        let mut into = vec![0.0_f64; COUNT];
        let mut run = |reducer: &Reducer, rows: &[Vec<f64>]| {
            let sources: Vec<*const u8> = rows.iter().map(|row| row.as_ptr().cast()).collect();
            // SAFETY: see the module's Safety section.
            time(|| unsafe { reducer.apply_many(&sources, into.as_mut_ptr().cast(), COUNT as u64) })
        };
        let (near, far) = (rows(&benign), rows(&wild));
        println!(
            "{operands} operands: ordinary {:.2} ns, exact {:.2} ns, exact with all sizes {:.1} ns, product {:.1} ns",
            run(&ordinary, &near),
            run(&exact, &near),
            run(&exact, &far),
            run(&products, &near)
        );
    }
    let values: Vec<f64> = (0..COUNT).map(|place| place as f64 / 3.0).collect();
    let all = time(|| {
        let mut total = GlobalSum::new(double).expect("doubles have sums");
        // SAFETY: see the module's Safety section.
        unsafe { total.add(values.as_ptr().cast(), COUNT) };
        black_box(total.words());
    });
    println!("a global sum: {all:.2} ns a value");
}
