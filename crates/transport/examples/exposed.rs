//! What exposed memory costs: lending, conversion, the first and later copies in place, against
//! process_vm_readv.
//!
//!     cargo run --release -p tutti-transport --example exposed

#![allow(clippy::unwrap_used, reason = "a measurement that fails ends")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use tutti_base::config::{Config, Mapped};
use tutti_sys::memory::{Mapping, create_object};
use tutti_transport::Peer;
use tutti_transport::exposure::{Access, EdgeRoom, Exposures, Record, Window};

/// Memory of both processes: the owner posts odd turns, the peer even ones.
#[repr(C)]
struct Board {
    turn: AtomicU32,
    record: Record,
    edges: EdgeRoom,
}

const ROUNDS: usize = 21;

fn main() {
    let object = create_object(c"board", size_of::<Board>() as u64).unwrap();
    let mapping = Mapping::of_object(std::os::fd::AsFd::as_fd(&object)).unwrap();
    let board: *mut Board = mapping.base().as_ptr().cast();
    // SAFETY: the child leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the board is mapped; ends the child.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            owner(board);
            libc::_exit(0);
        }
    }
    // SAFETY: the board is mapped.
    unsafe { peer(board) };
    // SAFETY: a child of this process.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}

const SIZES: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 32 << 20];

/// # Safety
/// The board is mapped.
unsafe fn owner(board: *mut Board) {
    // SAFETY: the caller's promise.
    let (turn, room) = unsafe { (&(*board).turn, NonNull::new(&raw mut (*board).edges).unwrap()) };
    let post = |record: Record| {
        // SAFETY: the peer waits.
        unsafe { (*board).record = record };
        let mine = turn.load(Ordering::Relaxed) + 1;
        turn.store(mine, Ordering::Release);
        while turn.load(Ordering::Acquire) == mine {
            std::hint::spin_loop();
        }
    };
    println!("owner: lending | KiB, far ns, mapped ns, mapped with edges ns, conversion us (per MiB)");
    for bytes in SIZES {
        let memory = tutti_sys::remap::map_private(bytes + 8192).unwrap();
        // SAFETY: memory of that size.
        unsafe { memory.write_bytes(1, bytes + 8192) };
        let lend = |exposures: &mut Exposures, skip: usize| {
            let start = Instant::now();
            // SAFETY: memory of that size, until the end.
            let record = unsafe {
                exposures.expose(memory.wrapping_add(skip), bytes as u64, Access::Read, Some(room))
            };
            let took = start.elapsed();
            exposures.withdraw(&record);
            (record, took.as_nanos() as f64)
        };
        let mut far = Exposures::new(&Config::default().changed(|c| c.memory.mapped = Mapped::Never));
        let far_ns = median(|| lend(&mut far, 0).1);
        post(lend(&mut far, 0).0);
        let mut near = Exposures::new(&Config::default().changed(|c| c.memory.mapped = Mapped::Always));
        let conversion = lend(&mut near, 0).1;
        let near_ns = median(|| lend(&mut near, 0).1);
        post(lend(&mut near, 0).0);
        let edges_ns = median(|| lend(&mut near, 100).1);
        let mib = bytes as f64 / f64::from(1 << 20);
        println!(
            "{:6} {far_ns:8.0} {near_ns:8.0} {edges_ns:8.0} {:10.0} ({:.0})",
            bytes >> 10,
            conversion / 1e3,
            conversion / 1e3 / mib
        );
    }
}

/// # Safety
/// The board is mapped.
unsafe fn peer(board: *mut Board) {
    // SAFETY: the caller's promise.
    let turn = unsafe { &(*board).turn };
    let mut exposures = Exposures::new(&Config::default());
    let mut lines = Vec::new();
    let mut expected = 1;
    for bytes in SIZES {
        let mut target = vec![0u8; bytes];
        let mut copy = |window: &Window| {
            let start = Instant::now();
            // SAFETY: the target is as long.
            unsafe { window.read(0, target.as_mut_ptr(), bytes as u64).unwrap() };
            start.elapsed().as_nanos() as f64 / 1e3
        };
        let mut times = Vec::new();
        for _ in 0..2 {
            while turn.load(Ordering::Acquire) != expected {
                std::hint::spin_loop();
            }
            // SAFETY: the owner waits.
            let record = unsafe { (*board).record };
            let start = Instant::now();
            // SAFETY: the edges belong to the record.
            let window =
                unsafe { exposures.open(Peer(0), &record, &raw const (*board).edges, std::ptr::null()) };
            let open_us = start.elapsed().as_nanos() as f64 / 1e3;
            let first = copy(&window);
            let open_ns = median(|| {
                let start = Instant::now();
                // SAFETY: as above.
                let _ =
                    unsafe { exposures.open(Peer(0), &record, &raw const (*board).edges, std::ptr::null()) };
                start.elapsed().as_nanos() as f64
            });
            times.push((open_us, first, open_ns, median(|| copy(&window))));
            turn.store(expected + 1, Ordering::Release);
            expected += 2;
        }
        let (far, near) = (times[0], times[1]);
        lines.push(format!(
            "{:6} | {:9.1} | first open {:6.1} copy {:8.1} | later open {:4.0} ns copy {:8.1} | {:.1}x, {:.0} GB/s",
            bytes >> 10, far.3, near.0, near.1, near.2, near.3, far.3 / near.3, bytes as f64 / near.3 / 1e3
        ));
    }
    println!("peer: KiB | process_vm_readv us | mapped us");
    lines.iter().for_each(|line| println!("{line}"));
}

fn median(mut one: impl FnMut() -> f64) -> f64 {
    let mut values: Vec<f64> = (0..ROUNDS).map(|_| one()).collect();
    values.sort_by(f64::total_cmp);
    values[ROUNDS / 2]
}
