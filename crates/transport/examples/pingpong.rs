//! Measures the node-local transport between two processes, in a few seconds:
//! `cargo run --release -p tutti-transport --example pingpong [-- latency|rate|bandwidth|crowded|parked]`
//!
//! Every figure is the median of several short runs, taken in turn with the others, and the best of them.
//!
//! # Safety
//! fork and _exit only; a child runs a closure and ends.

use std::io::IoSliceMut;
use std::sync::Arc;
use std::time::Instant;

use tutti_base::config::Config;
use tutti_sys::cpu;
use tutti_sys::job::{Job, Plan};
use tutti_transport::single_copy::{CrossMemoryAttach, Pid, RemoteSegment, SingleCopy};
use tutti_transport::waiting::Waiting;
use tutti_transport::{Header, Link, Peer, ShmLink, Verdict, Waiter};

const RUNS: usize = 5;

fn main() {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    println!("processors: {}", cpu::usable_processors());
    if wanted("latency") {
        for bytes in [0, 8, 32, 64, 256, 1024, 4096, 16384] {
            for ring in [64 << 10, 2 << 20] {
                let name = format!("one-way latency, {bytes} B, ring of {} K", ring >> 10);
                report(&name, "us", || latency(2, &[0, 1], bytes, 20_000, ring));
            }
        }
    }
    if wanted("rate") {
        for bytes in [8, 256, 1024] {
            report(&format!("message rate, {bytes} B"), "M/s", || rate(bytes, 300_000));
        }
    }
    if wanted("parked") {
        for (ranks, cores) in [(2, &[0][..]), (2, &[0, 1]), (4, &[0, 1])] {
            let name = format!("hop in a ring of {ranks} on {} processors, parking at once", cores.len());
            let config = Config::default().changed(|c| c.waiting.spin_us = 0);
            report(&name, "us", || latency_with(&config, ranks, cores, 8, 2000, 64 << 10));
        }
    }
    if wanted("crowded") {
        for (ranks, cores) in [(2, &[0][..]), (4, &[0, 1]), (8, &[0, 1])] {
            let name = format!("hop in a ring of {ranks} on {} processors, 8 B", cores.len());
            report(&name, "us", || latency(ranks, cores, 8, 2000, 64 << 10));
        }
    }
    if wanted("crowded") {
        for bytes in [64 << 10, 1 << 20, 4 << 20, 32 << 20] {
            let (count, kib) = ((128 << 20) / bytes, bytes >> 10);
            for ring in [256 << 10, 1 << 20, 2 << 20] {
                let name = format!("{kib} KiB on one processor, ring of {} K", ring >> 10);
                report(&name, "GB/s", || bandwidth(&[0], bytes, count, ring, 32 << 10));
            }
            let name = format!("{kib} KiB on one processor, process_vm_readv");
            report(&name, "GB/s", || attach(&[0], bytes, count));
        }
    }
    if wanted("bandwidth") {
        for bytes in [64 << 10, 1 << 20, 4 << 20, 32 << 20] {
            let count = (64 << 20) / bytes;
            for ring in [64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20] {
                for fragment in [8 << 10, 16 << 10, 32 << 10] {
                    let (ring_kib, fragment_kib) = (ring >> 10, fragment >> 10);
                    let name = format!("{} KiB by {fragment_kib} K in a ring of {ring_kib} K", bytes >> 10);
                    report(&name, "GB/s", || bandwidth(&[0, 1], bytes, count, ring, fragment));
                }
            }
            report(&format!("{} KiB by process_vm_readv", bytes >> 10), "GB/s", || {
                attach(&[0, 1], bytes, (count / 4).max(2))
            });
        }
    }
}

fn report(name: &str, unit: &str, mut run: impl FnMut() -> f64) {
    let mut figures: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    figures.sort_by(f64::total_cmp);
    let best = if unit == "us" { figures[0] } else { figures[RUNS - 1] };
    println!("{name:48} {:9.3} {unit:5} best {best:9.3}", figures[RUNS / 2]);
}

fn job(ranks: u32, ring_bytes: u64) -> Arc<Job> {
    let plan = Plan { processors: 2, ring_bytes, job_id: 7, ..Plan::one_host(ranks) };
    Arc::new(Job::create(&plan).expect("memory for a job object"))
}

/// Runs `body` in a process for each rank but the first, which runs here and gives the result.
fn processes<T>(job: &Arc<Job>, cores: &[usize], body: impl Fn(ShmLink, Waiter<'_>) -> T) -> T {
    let ranks = job.header().local_ranks;
    let run = |rank: u32| {
        let core = cores[rank as usize % cores.len()];
        cpu::set_affinity(&[core].into_iter().collect()).expect("these processors");
        let link = ShmLink::new(job.clone(), rank).expect("a link a rank");
        let waiting = Waiting::new(&Config::default(), ranks, cores.len() as u32, false);
        body(link, waiting.waiter(false))
    };
    let everywhere = cpu::affinity().expect("an affinity mask");
    let mut children = Vec::new();
    for rank in 1..ranks {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            0 => {
                run(rank);
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(0) };
            }
            pid => children.push(pid),
        }
    }
    let result = run(0);
    for pid in children {
        // SAFETY: waits for a child of this process.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
    cpu::set_affinity(&everywhere).expect("the mask from before");
    result
}

/// Waits until a record from `from` has come and was copied to `target`.
fn receive(link: &mut ShmLink, waiter: &mut Waiter<'_>, from: u32, target: &mut [u8]) {
    waiter.reset();
    let job = link.job().clone();
    let sleeper = job.sleeper(link.rank(), 0);
    loop {
        let mut arrived = false;
        link.poll(&mut |peer: Peer, _: Header, payload: &[u8]| {
            if arrived || peer.0 != from {
                return Verdict::Left;
            }
            target[..payload.len()].copy_from_slice(payload);
            arrived = true;
            Verdict::Taken
        });
        if arrived {
            return;
        }
        waiter.pause(sleeper, || link.pending());
    }
}

fn send(link: &mut ShmLink, waiter: &mut Waiter<'_>, to: u32, payload: &[u8]) {
    if link.try_send(Peer(to), Header([1, 2, 3]), payload).is_ok() {
        return;
    }
    waiter.reset();
    let job = link.job().clone();
    while link.try_send(Peer(to), Header([1, 2, 3]), payload).is_err() {
        waiter.pause(job.sleeper(link.rank(), 0), || link.want_room(Peer(to), payload.len()));
    }
}

/// A token goes round; microseconds a hop.
fn latency(ranks: u32, cores: &[usize], bytes: usize, rounds: usize, ring: u64) -> f64 {
    latency_with(&Config::default(), ranks, cores, bytes, rounds, ring)
}

fn latency_with(config: &Config, ranks: u32, cores: &[usize], bytes: usize, rounds: usize, ring: u64) -> f64 {
    let job = job(ranks, ring);
    processes(&job, cores, |mut link, _| {
        let waiting = Waiting::new(config, ranks, cores.len() as u32, false);
        let mut waiter = waiting.waiter(false);
        let mut buffer = vec![1u8; bytes];
        let (rank, mut start) = (link.rank(), Instant::now());
        let (before, after) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        for round in 0..rounds + rounds / 10 {
            if round == rounds / 10 {
                start = Instant::now();
            }
            if rank == 0 {
                send(&mut link, &mut waiter, after, &buffer);
            }
            receive(&mut link, &mut waiter, before, &mut buffer);
            if rank != 0 {
                send(&mut link, &mut waiter, after, &buffer);
            }
        }
        start.elapsed().as_secs_f64() * 1e6 / rounds as f64 / f64::from(ranks)
    })
}

/// Messages a microsecond from one process to another.
fn rate(bytes: usize, count: usize) -> f64 {
    processes(&job(2, 64 << 10), &[0, 1], |mut link, mut waiter| {
        let mut buffer = vec![1u8; bytes];
        if link.rank() == 1 {
            let mut received = 0;
            while received < count {
                link.poll(&mut |_: Peer, _: Header, payload: &[u8]| {
                    buffer.copy_from_slice(payload);
                    received += 1;
                    Verdict::Taken
                });
            }
            send(&mut link, &mut waiter, 0, &[]);
            return 0.0;
        }
        let start = Instant::now();
        for _ in 0..count {
            send(&mut link, &mut waiter, 1, &buffer);
        }
        receive(&mut link, &mut waiter, 1, &mut []);
        count as f64 / start.elapsed().as_secs_f64() / 1e6
    })
}

/// A stream of messages in fragments through the ring; the receiver copies to its buffer.
fn bandwidth(cores: &[usize], bytes: usize, count: usize, ring: u64, fragment: usize) -> f64 {
    processes(&job(2, ring), cores, |mut link, mut waiter| {
        let mut buffer = vec![1u8; bytes];
        let mut start = Instant::now();
        for round in 0..count + 4 {
            if round == 4 {
                start = Instant::now();
            }
            if link.rank() == 0 {
                for piece in buffer.chunks(fragment) {
                    send(&mut link, &mut waiter, 1, piece);
                }
            } else {
                let mut received = 0;
                let job = link.job().clone();
                waiter.reset();
                while received < bytes {
                    let any = link.poll(&mut |_: Peer, _: Header, payload: &[u8]| {
                        if received == bytes {
                            return Verdict::Left;
                        }
                        buffer[received..received + payload.len()].copy_from_slice(payload);
                        received += payload.len();
                        Verdict::Taken
                    });
                    if any {
                        waiter.reset();
                    } else {
                        waiter.pause(job.sleeper(1, 0), || link.pending());
                    }
                }
            }
        }
        if link.rank() == 1 {
            send(&mut link, &mut waiter, 0, &[]);
        } else {
            receive(&mut link, &mut waiter, 1, &mut []);
        }
        (bytes * count) as f64 / start.elapsed().as_secs_f64() / 1e9
    })
}

/// A stream of messages that the receiver fetches.
fn attach(cores: &[usize], bytes: usize, count: usize) -> f64 {
    processes(&job(2, 64 << 10), cores, |mut link, mut waiter| {
        let mut buffer = vec![1u8; bytes];
        let copier = CrossMemoryAttach::new();
        let start = Instant::now();
        let mut message = [0u8; 16];
        for _ in 0..count {
            if link.rank() == 0 {
                message[..8].copy_from_slice(&u64::from(std::process::id()).to_ne_bytes());
                message[8..].copy_from_slice(&(buffer.as_ptr() as u64).to_ne_bytes());
                send(&mut link, &mut waiter, 1, &message);
                receive(&mut link, &mut waiter, 1, &mut []);
            } else {
                receive(&mut link, &mut waiter, 0, &mut message);
                let word = |at: usize| u64::from_ne_bytes(message[at..at + 8].try_into().expect("8 bytes"));
                let remote = [RemoteSegment { address: word(8), bytes }];
                let copied =
                    copier.read(Pid(word(0) as i32).into(), &remote, &mut [IoSliceMut::new(&mut buffer)]);
                assert_eq!(copied, Ok(bytes));
                send(&mut link, &mut waiter, 0, &[]);
            }
        }
        (bytes * count) as f64 / start.elapsed().as_secs_f64() / 1e9
    })
}
