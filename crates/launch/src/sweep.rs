//! Ending every process below this one. Works because both processes of `mpirun` adopt orphans: who
//! loses its parent becomes our child, so killing children until there are none ends all descendants.

use std::time::{Duration, Instant};

use tutti_sys::process::{self, Reaped};

/// Longest time spent; only a process stuck in the kernel outlives SIGKILL for long.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kills and reaps all descendants of this process. Costs one system call when there are none.
pub fn sweep() {
    let start = Instant::now();
    let mut pause = Duration::from_micros(50);
    while start.elapsed() < PATIENCE {
        loop {
            match process::reap() {
                Reaped::Ended(..) => {}
                Reaped::NoChildren => return,
                Reaped::Nothing => break,
            }
        }
        for child in process::children() {
            process::kill_group(child, libc::SIGKILL);
            process::kill(child, libc::SIGKILL);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}
