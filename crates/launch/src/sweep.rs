//! Ending every process below this one. Works because both processes of `mpirun` adopt orphans: who
//! loses its parent becomes our child, so killing children until there are none ends all descendants.

use std::time::{Duration, Instant};

use tutti_sys::process::{self, Exit, Reaped};

/// Longest time spent; only a process stuck in the kernel outlives SIGKILL for long.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kills and reaps all descendants of this process. Costs one system call when there are none.
pub fn sweep() {
    sweep_but(&[]);
}

/// The same, but leaves the children `spared` alone. Returns those of them that happened to end meanwhile.
pub fn sweep_but(spared: &[i32]) -> Vec<(i32, Exit)> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(50);
    let mut ended = Vec::new();
    while start.elapsed() < PATIENCE {
        loop {
            match process::reap() {
                Reaped::Ended(pid, exit) if spared.contains(&pid) => ended.push((pid, exit)),
                Reaped::Ended(..) => {}
                Reaped::NoChildren => return ended,
                Reaped::Nothing => break,
            }
        }
        let children = process::children().into_iter().filter(|child| !spared.contains(child));
        let mut is_alone = true;
        for child in children {
            is_alone = false;
            process::kill_group(child, libc::SIGKILL);
            process::kill(child, libc::SIGKILL);
        }
        if is_alone {
            break;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    ended
}
