//! Measures ways to copy what another core has just written: `cargo run --release -p tutti-data --example
//! copies`. Gigabytes a second, best and median of several; the other core changes the source before each
//! copy.
//!
//! # Safety
//! Every buffer is made to hold what is copied; the two threads take turns.
#![allow(clippy::undocumented_unsafe_blocks, reason = "one invariant for all, stated above")]

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tutti_data::copy;

type Way = (&'static str, unsafe fn(*const u8, *mut u8, usize));

unsafe fn library(from: *const u8, into: *mut u8, bytes: usize) {
    unsafe { into.copy_from_nonoverlapping(from, bytes) };
}

unsafe fn string(from: *const u8, into: *mut u8, bytes: usize) {
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => _, inout("rsi") from => _, inout("rdi") into => _, options(nostack));
    }
}

/// Defines a loop over pairs of registers.
macro_rules! vectors {
    ($name:ident, $features:literal, $load:literal, $store:literal, $one:literal, $two:literal, $width:literal) => {
        #[target_feature(enable = $features)]
        unsafe fn $name(from: *const u8, into: *mut u8, bytes: usize) {
            for at in (0..bytes).step_by(2 * $width) {
                unsafe {
                    asm!(
                        concat!($load, " ", $one, ", [{from}]"),
                        concat!($load, " ", $two, ", [{from} + ", $width, "]"),
                        concat!($store, " [{into}], ", $one),
                        concat!($store, " [{into} + ", $width, "], ", $two),
                        from = in(reg) from.add(at), into = in(reg) into.add(at),
                        out("xmm0") _, out("xmm1") _, options(nostack, preserves_flags)
                    );
                }
            }
            unsafe { asm!("sfence", options(nostack, preserves_flags)) };
        }
    };
}

vectors!(avx2, "avx2", "vmovdqu", "vmovdqu", "ymm0", "ymm1", 32);
vectors!(avx512, "avx512f", "vmovdqu64", "vmovdqu64", "zmm0", "zmm1", 64);
vectors!(avx2_streaming, "avx2", "vmovdqu", "vmovntdq", "ymm0", "ymm1", 32);
vectors!(avx512_streaming, "avx512f", "vmovdqu64", "vmovntdq", "zmm0", "zmm1", 64);

fn aligned(bytes: usize) -> Vec<u128> {
    // One page more, so that sources and destinations differ in their low bits.
    vec![1u128; bytes / 16 + 256]
}

fn measure(bytes: usize, ways: &[Way], changing: bool) {
    let (mut source, mut target) = (aligned(bytes), aligned(bytes));
    let place = |v: &mut Vec<u128>| {
        let base = v.as_mut_ptr().cast::<u8>();
        base.wrapping_add(base.align_offset(64))
    };
    let (from, into) = (place(&mut source) as usize, place(&mut target) as usize);
    let rounds = ((64 << 20) / bytes).clamp(9, 400) as u64;
    let turn = AtomicU64::new(0);
    let total = rounds * ways.len() as u64;
    let mut times = vec![Vec::new(); ways.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..total {
                while turn.load(Ordering::Acquire) != 2 * round {
                    std::hint::spin_loop();
                }
                if changing {
                    unsafe { (from as *mut u8).write_bytes(round as u8, bytes) };
                }
                turn.store(2 * round + 1, Ordering::Release);
            }
        });
        for round in 0..total {
            while turn.load(Ordering::Acquire) != 2 * round + 1 {
                std::hint::spin_loop();
            }
            // Each by itself: a streaming copy leaves a target that is in no cache.
            let way = (round / rounds) as usize;
            let start = Instant::now();
            unsafe { (ways[way].1)(from as *const u8, into as *mut u8, bytes) };
            times[way].push(start.elapsed().as_secs_f64());
            let last = |base: usize| unsafe { (base as *const u8).add(bytes - 1).read() };
            assert_eq!(last(into), last(from));
            turn.store(2 * round + 2, Ordering::Release);
        }
    });
    print!("{bytes:>9}");
    for mut times in times {
        times.sort_by(f64::total_cmp);
        let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
        print!("  {:7.2} {:6.2}", rate(times[0]), rate(times[times.len() / 2]));
    }
    println!();
}

fn main() {
    let mut ways: Vec<Way> = vec![
        ("copy", |f, i, n| unsafe { copy::copy(f, i, n) }),
        ("streaming", |f, i, n| unsafe { copy::copy_streaming(f, i, n) }),
        ("C library", library),
        ("rep movsb", string),
    ];
    if is_x86_feature_detected!("avx2") {
        ways.extend([("avx2", avx2 as _), ("avx2 nt", avx2_streaming as _)]);
    }
    if is_x86_feature_detected!("avx512f") {
        ways.extend([("avx512", avx512 as _), ("avx512 nt", avx512_streaming as _)]);
    }
    print!("{:>9}", "bytes");
    ways.iter().for_each(|(name, _)| print!("  {name:>14}"));
    println!("   GB/s, best and median");
    for changing in [true, false] {
        println!("{}", if changing { "written by the other core before" } else { "copied before" });
        for bytes in (8..=25).map(|shift| 1 << shift) {
            measure(bytes, &ways, changing);
        }
    }
}
