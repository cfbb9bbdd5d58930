//! Measures messages between hosts, in a few seconds, between two processes on loopback: `cargo run --release
//! -p tutti-transport --example fabric` or between two hosts that share a folder: `fabric RANK FOLDER
//! ADDRESS` on each, with 0 and 1 for RANK. Settings come from the environment, as in a job.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Instant;

use tutti_base::config::Config;
use tutti_sys::cpu;
use tutti_sys::job::Secret;
use tutti_transport::directory::{Address, Answer};
use tutti_transport::fabric::{FabricLink, Identity};
use tutti_transport::{Directory, FarLink, Header, Link, Peer, Verdict};

const RUNS: usize = 5;

/// Addresses as files of a folder.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    rank: u32,
    asked: Vec<u32>,
}

impl Directory for Folder {
    fn publish(&mut self, address: &Address) {
        let partial = self.path.join(format!("{}.part", self.rank));
        std::fs::write(&partial, address.bytes()).expect("a folder to write to");
        std::fs::rename(&partial, self.path.join(self.rank.to_string())).expect("a folder to write to");
    }

    fn request(&mut self, rank: u32) {
        self.asked.push(rank);
    }

    fn poll(&mut self) -> Option<Answer> {
        let &rank = self.asked.last()?;
        let bytes = std::fs::read(self.path.join(rank.to_string())).ok()?;
        self.asked.pop();
        Some((rank, Address::new(&bytes)))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let config = Config::from_env().expect("settings");
    if let [rank, folder, address] = &arguments[..] {
        run(&config, rank.parse().expect("a rank"), folder.into(), address);
        return;
    }
    let folder = std::env::temp_dir().join(format!("fabric-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder to write to");
    let program = std::env::current_exe().expect("this program");
    let start = |rank: &str| -> Child {
        Command::new(&program)
            .args([rank, &folder.display().to_string(), "127.0.0.1"])
            .spawn()
            .expect("a process")
    };
    let mut ranks = [start("0"), start("1")];
    for rank in &mut ranks {
        rank.wait().expect("a child");
    }
    std::fs::remove_dir_all(&folder).expect("our folder");
}

fn run(config: &Config, rank: u32, path: PathBuf, address: &str) {
    if cpu::usable_processors() > 1 {
        cpu::set_affinity(&[rank as usize % cpu::usable_processors()].into_iter().collect())
            .expect("processors");
    }
    let began = Instant::now();
    let identity = Identity {
        rank,
        ranks: 2,
        job_id: 1,
        secret: Secret([7; 32]),
        interface: address.to_string(),
        is_kept: false,
    };
    let directory = Box::new(Folder { path, rank, asked: Vec::new() });
    let mut link = FabricLink::new(config, &identity, directory).expect("a link");
    let opened = began.elapsed();
    let began = Instant::now();
    bounce(&mut link, rank, 8, 1000);
    if rank == 0 {
        println!(
            "open {:.3} ms, first 1000 round trips {:.1} us each",
            opened.as_secs_f64() * 1e3,
            began.elapsed().as_secs_f64() * 1e3
        );
    }
    for bytes in [0, 8, 64, 1024, 4096, 16384, 65536] {
        report(rank, &format!("one-way latency, {bytes} B"), "us", || bounce(&mut link, rank, bytes, 2000));
    }
    for bytes in [8, 1024] {
        report(rank, &format!("stream of {bytes} B"), "M/s", || {
            stream(&mut link, rank, bytes, 20_000) / bytes as f64
        });
    }
    for bytes in [16384, 65536, 1 << 20] {
        report(rank, &format!("stream of {bytes} B"), "MB/s", || {
            stream(&mut link, rank, bytes, (64 << 20) / bytes)
        });
    }
    while !link.is_flushed() {}
    println!("rank {rank}: {}", link.counters());
}

fn report(rank: u32, name: &str, unit: &str, mut run: impl FnMut() -> f64) {
    let mut figures: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    figures.sort_by(f64::total_cmp);
    let best = if unit == "us" { figures[0] } else { figures[RUNS - 1] };
    if rank == 0 {
        println!("{name:32} {:10.3} {unit:5} best {best:10.3}", figures[RUNS / 2]);
    }
}

fn send(link: &mut FabricLink, to: u32, bytes: &[u8]) {
    for piece in bytes.chunks(link.max_payload()).chain(bytes.is_empty().then_some(bytes)) {
        while link.try_send(Peer(to), Header::default(), piece).is_err() {
            link.poll(&mut |_: Peer, _: Header, _: &[u8]| Verdict::Left);
        }
    }
}

fn receive(link: &mut FabricLink, target: &mut [u8]) {
    let (mut got, mut records) = (0, 0);
    while records == 0 || got < target.len() {
        link.poll(&mut |_: Peer, _: Header, payload: &[u8]| {
            if records > 0 && got == target.len() {
                return Verdict::Left;
            }
            target[got..got + payload.len()].copy_from_slice(payload);
            got += payload.len();
            records += 1;
            Verdict::Taken
        });
    }
}

/// Half a round trip in microseconds.
fn bounce(link: &mut FabricLink, rank: u32, bytes: usize, rounds: u32) -> f64 {
    let mut buffer = vec![rank as u8; bytes];
    let start = Instant::now();
    for _ in 0..rounds {
        if rank == 0 {
            send(link, 1, &buffer);
        }
        receive(link, &mut buffer);
        if rank == 1 {
            send(link, 0, &buffer);
        }
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * rounds)
}

/// Megabytes a second from rank 0 to rank 1.
fn stream(link: &mut FabricLink, rank: u32, bytes: usize, count: usize) -> f64 {
    let mut buffer = vec![1; bytes];
    let start = Instant::now();
    for _ in 0..count {
        if rank == 0 {
            send(link, 1, &buffer);
        } else {
            receive(link, &mut buffer);
        }
    }
    let mut end = [0; 1];
    if rank == 0 {
        receive(link, &mut end);
    } else {
        send(link, 0, &end);
    }
    (bytes * count) as f64 / start.elapsed().as_secs_f64() / 1e6
}
