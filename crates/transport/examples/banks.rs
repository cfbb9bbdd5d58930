//! What banks cost: the calls of one operation in one thread, and an exchange of two threads, nanoseconds
//! each. `cargo run --release -p tutti-transport --example banks`
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tutti_sys::job::{Job, Plan};
use tutti_sys::regions::RegionKey;
use tutti_transport::Banks;
use tutti_transport::banks::{Class, Layout};

const OPERATIONS: u64 = 100_000;
/// The best of so many runs counts: what others do on the machine is not measured.
const RUNS: usize = 51;

fn job(ranks: u32) -> Arc<Job> {
    let plan = Plan { processors: 2, ..Plan::one_host(ranks) };
    Arc::new(Job::create(&plan).unwrap())
}

fn open(job: &Arc<Job>, communicator: u64, members: u32, me: u32) -> Banks {
    let layout = Layout::of_communicator(&job.header().banks, members);
    let ranks: Vec<u32> = (0..members).collect();
    let key = RegionKey { communicator, number: 0, lowest: 0 };
    Banks::open(job, key, &layout, &ranks, me).unwrap().unwrap()
}

fn measure(what: &str, mut work: impl FnMut()) {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..OPERATIONS {
                work();
            }
            start.elapsed().as_nanos() as f64 / OPERATIONS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what:40} {:8.2}", times[0]);
}

fn alone() {
    let job = job(1);
    let mut banks = open(&job, 1, 1, 0);
    measure("begin, grant, leave", || {
        let number = banks.begin(Class::Small);
        black_box(banks.grant(Class::Small, number, black_box(8), 0));
        banks.leave(Class::Small, number);
    });
    let number = banks.begin(Class::Small);
    let slot = banks.grant(Class::Small, number, 8, 0).unwrap();
    let mut value = 0;
    measure("post", || {
        value += 1;
        banks.post(black_box(&slot), 0, value & 0xff_ffff);
    });
    measure("is_reached", || {
        black_box(banks.is_reached(black_box(&slot), black_box(0), 0, 1));
    });
    banks.leave(Class::Small, number);
    measure("begin, grant, post, is_reached, leave", || {
        let number = banks.begin(Class::Small);
        let slot = banks.grant(Class::Small, number, black_box(8), 0).expect("all others are left");
        banks.post(&slot, 0, 1);
        black_box(banks.is_reached(&slot, black_box(0), 0, 1));
        banks.leave(Class::Small, number);
    });
    let mut best = f64::MAX;
    for context in 100..1100 {
        let start = Instant::now();
        black_box(open(&job, context, 1, 0));
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    println!("{:40} {best:8.0}", "open and close");
}

fn exchange(banks: &mut Banks, operations: u64) {
    let me = banks.me();
    for _ in 0..operations {
        let number = banks.begin(Class::Small);
        let slot = loop {
            if let Some(slot) = banks.grant(Class::Small, number, 8, 0) {
                break slot;
            }
            std::hint::spin_loop();
        };
        // SAFETY: granted; eight bytes; the peer reads them after the flag.
        unsafe { banks.bank(&slot, me).cast::<u64>().write(number) };
        banks.post(&slot, 0, 1);
        while !banks.is_reached(&slot, 1 - me, 0, 1) {
            std::hint::spin_loop();
        }
        // SAFETY: the peer has posted.
        assert_eq!(unsafe { banks.bank(&slot, 1 - me).cast::<u64>().read() }, number);
        banks.leave(Class::Small, number);
    }
}

fn main() {
    alone();
    let job = job(2);
    let mut two: Vec<Banks> = (0..2).map(|me| open(&job, 1, 2, me)).collect();
    let mut best = f64::MAX;
    std::thread::scope(|scope| {
        let other = two.pop().unwrap();
        scope.spawn(move || {
            let mut other = other;
            exchange(&mut other, 1000 * RUNS as u64);
        });
        for _ in 0..RUNS {
            let start = Instant::now();
            exchange(&mut two[0], 1000);
            best = best.min(start.elapsed().as_nanos() as f64 / 1000.0);
        }
    });
    println!("{:40} {best:8.1}", "8 bytes exchanged by two threads");
}
