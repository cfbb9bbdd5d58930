//! Costs of this machine, in seconds. Two threads on processors at each distance represent two ranks: a cache
//! line, a copy and a hand-over cost the same between threads as between processes. The fastest of several
//! rounds counts, because disturbances only add time. Costs that cannot be measured without messages
//! (overheads of the library) keep their defaults, scaled by a measured cost that they contain.

use std::hint::{black_box, spin_loop};
use std::io::IoSliceMut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use tutti_coll::Model;
use tutti_sys::cma::{self, Pid, RemoteSegment};
use tutti_sys::cpu::{self, ProcessorSet};
use tutti_topo::Machine;

const ROUNDS: u32 = 7;
const IN_CACHE: usize = 256 << 10;
const BEYOND_CACHE: usize = 64 << 20;
const PAGE: usize = 4096;
/// More readers of one memory are not tried.
const MOST_READERS: usize = 64;

/// Measures all costs within this machine.
pub fn probe() -> Model {
    let usual = Model::default();
    let mut model = Model::default();
    let allowed: Vec<usize> = cpu::affinity().map(|set| set.iter().collect()).unwrap_or_default();
    let here = allowed.first().copied().unwrap_or(0);
    model.reduce_byte = run_on(here, reduce_byte);
    model.copy_byte[0] = run_on(here, || copy_byte(IN_CACHE));
    model.memory_byte[0] = run_on(here, || copy_byte(BEYOND_CACHE)).max(model.copy_byte[0]);
    model.switch = least(|| there_and_back(here, here, 500) / 2.0);
    if let Some((call, page)) = run_on(here, single_copy) {
        (model.single_copy_call, model.single_copy_page) = (call, page);
    }
    if let Some(readers) = source_readers(&allowed) {
        model.source_readers = readers;
    }
    let pairs = pairs(&Machine::local(), &allowed);
    for distance in 1..usual.line.len() {
        // A distance that this machine does not have costs as much as the next nearer one, in proportion.
        let nearest = (1..=distance).rev().find_map(|nearer| Some((nearer, pairs[nearer]?)));
        let Some((nearer, (one, two))) = nearest else { continue };
        if nearer == distance {
            model.line[distance] = least(|| there_and_back(one, two, 5000) / 2.0);
            model.copy_byte[distance] = copy_from(one, two, IN_CACHE).max(model.copy_byte[0]);
            model.memory_byte[distance] = copy_from(one, two, BEYOND_CACHE).max(model.copy_byte[distance]);
        } else if distance < 7 {
            let scale = |values: &mut [f64], usual: &[f64]| {
                values[distance] = values[nearer] * usual[distance] / usual[nearer];
            };
            scale(&mut model.line, &usual.line);
            scale(&mut model.copy_byte, &usual.copy_byte);
            scale(&mut model.memory_byte, &usual.memory_byte);
        }
        if distance < 7 {
            let ratio = model.line[distance] / usual.line[distance];
            model.message_latency[distance] = usual.message_latency[distance] * ratio;
        }
    }
    // Each side of a message copies once, somewhat slower than one long copy; so do those of a bank.
    model.message_byte = model.copy_byte[1] * (usual.message_byte / usual.copy_byte[1]);
    model.bank_byte = model.copy_byte[1] * (usual.bank_byte / usual.copy_byte[1]);
    model.memory_bandwidth = memory_bandwidth(&allowed);
    model
}

/// Returns a pair of processors at each distance that this machine has.
fn pairs(machine: &Machine, allowed: &[usize]) -> [Option<(usize, usize)>; 8] {
    let mut pairs = [None; 8];
    let only = |processor| std::iter::once(processor).collect::<ProcessorSet>();
    // All distances show from one processor where the machine is symmetric.
    for &one in allowed.iter().take(1) {
        for &other in allowed.iter().skip(1) {
            let distance = machine.distance(&only(one), &only(other)) as usize;
            pairs[distance].get_or_insert((one, other));
        }
    }
    pairs
}

pub fn pin(processor: usize) {
    // Where that is refused, the operating system places the thread, and the figures are those of its choice.
    let _ = cpu::set_affinity(&std::iter::once(processor).collect());
}

/// Runs `work` in a thread that is pinned to `processor`, and returns its result.
fn run_on<T: Send>(processor: usize, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let pinned = move || {
            pin(processor);
            work()
        };
        scope.spawn(pinned).join().expect("a measurement does not panic")
    })
}

fn least(mut measure: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

/// Measures the least time of `work`, in seconds.
fn seconds(mut work: impl FnMut()) -> f64 {
    least(|| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    })
}

/// Sends a flag from one processor to another and back, `rounds` times. Returns the seconds of one round.
fn there_and_back(one: usize, two: usize, rounds: u32) -> f64 {
    let flag = AtomicU32::new(0);
    let wait = |value: u32| {
        while flag.load(Ordering::Acquire) != value {
            if one == two { cpu::yield_now() } else { spin_loop() }
        }
    };
    let mut took = 0.0;
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(two);
            for round in 0..rounds {
                wait(2 * round + 1);
                flag.store(2 * round + 2, Ordering::Release);
            }
        });
        took = scope
            .spawn(|| {
                pin(one);
                flag.store(1, Ordering::Release);
                wait(2);
                let start = Instant::now();
                for round in 1..rounds {
                    flag.store(2 * round + 1, Ordering::Release);
                    wait(2 * round + 2);
                }
                start.elapsed().as_secs_f64() / f64::from(rounds - 1)
            })
            .join()
            .expect("a measurement does not panic");
    });
    took
}

/// Copies memory in a way that the compiler cannot remove.
fn copy(from: &[u8], into: &mut [u8]) {
    black_box(&mut *into).copy_from_slice(black_box(from));
    black_box(into);
}

fn copy_byte(bytes: usize) -> f64 {
    let (from, mut into) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    into.copy_from_slice(&from);
    seconds(|| copy(&from, &mut into)) / bytes as f64
}

/// Seconds a byte to copy what another processor wrote last.
fn copy_from(writer: usize, reader: usize, bytes: usize) -> f64 {
    let (mut from, mut into) = (vec![0_u8; bytes], vec![0_u8; bytes]);
    let rounds = if bytes > IN_CACHE { 3 } else { ROUNDS };
    (1..=rounds)
        .map(|round| {
            run_on(writer, || from.fill(round as u8));
            run_on(reader, || {
                let start = Instant::now();
                copy(&from, &mut into);
                start.elapsed().as_secs_f64() / bytes as f64
            })
        })
        .fold(f64::INFINITY, f64::min)
}

fn reduce_byte() -> f64 {
    let count = IN_CACHE / 8;
    let (left, mut right) = (vec![1.5_f64; count], vec![0.5_f64; count]);
    let took = seconds(|| {
        black_box(&mut right).iter_mut().zip(black_box(&left)).for_each(|(right, left)| *right += left);
        black_box(&mut right);
    });
    took / IN_CACHE as f64
}

/// Seconds of a call, and of a page beyond the copy of its bytes; `None` where it is refused.
fn single_copy() -> Option<(f64, f64)> {
    let from = vec![1_u8; IN_CACHE];
    let (small, large) = (read_by_call(&from[..8])?, read_by_call(&from)?);
    let pages = (IN_CACHE / PAGE) as f64;
    let page = (large - small) / pages - PAGE as f64 * copy_byte(IN_CACHE);
    Some((small, page.max(0.0)))
}

/// Seconds to read all of `from` by a system call; `None` where it is refused.
fn read_by_call(from: &[u8]) -> Option<f64> {
    let mut into = vec![0_u8; from.len()];
    let remote = [RemoteSegment { address: from.as_ptr() as u64, bytes: from.len() }];
    let me = Pid(std::process::id() as i32);
    let mut complete = true;
    let took = seconds(|| {
        let mut local = [IoSliceMut::new(&mut into)];
        complete &= cma::read(me, &remote, &mut local) == Ok(from.len());
    });
    complete.then_some(took)
}

/// Returns the best number of concurrent readers of one memory by system calls. It is the first power of two
/// that twice as many readers do not surpass. Returns `None` if more readers are always better.
fn source_readers(allowed: &[usize]) -> Option<f64> {
    let from = vec![1_u8; IN_CACHE];
    let rate = |readers: usize| {
        thread::scope(|scope| {
            let reader = |&processor: &usize| {
                let from = &from;
                scope.spawn(move || {
                    pin(processor);
                    read_by_call(from).map(|took| 1.0 / took)
                })
            };
            let readers: Vec<_> = allowed.iter().take(readers).map(reader).collect();
            readers
                .into_iter()
                .map(|one| one.join().expect("a measurement does not panic"))
                .sum::<Option<f64>>()
        })
    };
    let mut readers = 1;
    let mut best = rate(readers)?;
    while 2 * readers <= allowed.len().min(MOST_READERS) {
        let next = rate(2 * readers)?;
        if next < best {
            return Some(readers as f64);
        }
        (readers, best) = (2 * readers, next);
    }
    None
}

/// Bytes a second of all copies beyond the caches at the same time, as many as there are processors (at most
/// 16).
fn memory_bandwidth(allowed: &[usize]) -> f64 {
    let total = thread::scope(|scope| {
        let copies: Vec<_> = allowed
            .iter()
            .take(16)
            .map(|&processor| {
                scope.spawn(move || {
                    pin(processor);
                    1.0 / copy_byte(BEYOND_CACHE / 2)
                })
            })
            .collect();
        copies.into_iter().map(|copy| copy.join().expect("a measurement does not panic")).sum::<f64>()
    });
    if total.is_finite() && total > 0.0 { total } else { Model::default().memory_bandwidth }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_found_at_each_distance() {
        let path = format!("{}/../../fixtures/machines/epyc-2x16-nps2.txt", env!("CARGO_MANIFEST_DIR"));
        let machine = Machine::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        let all: Vec<usize> = (0..32).collect();
        let found = pairs(&machine, &all);
        assert_eq!([found[1], found[2], found[4], found[5]], [1, 4, 8, 16].map(|other| Some((0, other))));
        assert_eq!([found[0], found[3], found[6], found[7]], [None; 4]);
    }
}
