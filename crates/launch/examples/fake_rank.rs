//! Program that behaves like a rank of an MPI job as far as the launcher can see. It writes the same values
//! to the job object as the library. The tests of the launcher run it.
//!
//! The arguments are actions, performed in order: `init`, `finalize`, `abort:CODE`, `wait:TEXT`, `say:TEXT`,
//! `part:TEXT` (no newline), `flood:MEGABYTES`, `sleep:MILLISECONDS`, `kill:SIGNAL`, `exit:CODE`, `header`,
//! `publish:ADDRESS`, `ask:RANK` (waits for its address), `call:RANK`, `called:` (waits for a call).
//! `on:RANK` restricts the next action to one rank.
#![deny(unsafe_code)]

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tutti_sys::directory::{Ended, RankEnd, Reply, Word};
use tutti_sys::job::{self, Job, RankState};
use tutti_sys::{process, this_process};

fn main() {
    let variable = |name| std::env::var(name).expect("started by mpirun");
    let path = format!("/proc/self/fd/{}", variable(job::ENV_FD));
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the job object is inherited");
    let job = Job::attach(file.into()).expect("the descriptor is a job object");
    let rank: u32 = variable(job::ENV_RANK).parse().expect("a rank is a number");
    let directory = std::env::var(job::ENV_DIRECTORY_FD).ok().map(|fd| {
        let fd = fd.parse().expect("a descriptor is a number");
        RankEnd::new(this_process::adopt_descriptor(fd).expect("the descriptor is inherited"))
    });
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.strip_prefix("on:") {
            Some(only) if only != rank.to_string() => drop(words.next()),
            Some(_) => {}
            None => match (word.split_once(':'), &directory) {
                (Some(("publish", address)), Some(directory)) => publish(&job, rank, address, directory),
                (Some(("ask", other)), Some(directory)) => {
                    let other = other.parse().expect("a rank is a number");
                    say(directory, Word::Request(other));
                    hear(rank, directory);
                }
                (Some(("call", other)), Some(directory)) => {
                    say(directory, Word::Call(other.parse().expect("a rank is a number")));
                }
                (Some(("called", _)), Some(directory)) => hear(rank, directory),
                _ => act(&job, rank, &word),
            },
        }
    }
}

fn publish(job: &Job, rank: u32, address: &str, directory: &RankEnd) {
    job.block_of(rank)
        .expect("the rank runs on this host")
        .set_address(format!("{address}{rank}").as_bytes());
    say(directory, Word::Published);
}

fn say(directory: &RankEnd, word: Word) {
    assert!(directory.say(word).expect("the daemon is there"));
}

fn hear(rank: u32, directory: &RankEnd) {
    loop {
        match directory.hear() {
            Ok(Reply::Address(of, address)) => {
                println!("{rank}: {of} is at {:?}", String::from_utf8_lossy(&address));
                return;
            }
            Ok(Reply::Call(caller)) => return println!("{rank}: {caller} calls"),
            Err(Ended::NotYet) => std::thread::sleep(Duration::from_millis(1)),
            Err(Ended::Gone) => panic!("the daemon has gone"),
        }
    }
}

fn act(job: &Job, rank: u32, word: &str) {
    let block = job.block_of(rank).expect("the rank runs on this host");
    let (verb, value) = word.split_once(':').unwrap_or((word, ""));
    let number = || value.parse::<i32>().expect("a number");
    match verb {
        "init" => block.set_state(RankState::Running),
        "finalize" => block.set_state(RankState::Finalized),
        "abort" => {
            block.abort_code.store(number(), Ordering::Relaxed);
            block.set_state(RankState::Aborted);
            eprintln!("rank {rank} called MPI_Abort");
            std::process::exit(1);
        }
        "wait" => block.set_waiting(value),
        "say" => println!("{value}"),
        "part" => {
            print!("{value}");
            std::io::stdout().flush().expect("standard output is a pipe");
        }
        "flood" => {
            let line = format!("{rank} {}\n", "x".repeat(97));
            for _ in 0..number() * 10_486 {
                print!("{line}");
            }
        }
        "sleep" => std::thread::sleep(Duration::from_millis(number().unsigned_abs().into())),
        "kill" => {
            // The Rust runtime catches the first SIGSEGV to detect a stack overflow. The second one kills.
            for _ in 0..2 {
                process::kill(std::process::id().cast_signed(), number());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        "exit" => std::process::exit(number()),
        "header" => println!(
            "{} of {} on host {} of {} app {}",
            rank,
            job.header().world_size,
            job.header().host,
            job.header().hosts,
            block.app_number.load(Ordering::Relaxed)
        ),
        _ => panic!("{word}: not an action of a fake rank"),
    }
}
