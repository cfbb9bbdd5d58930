//! Termination of every process below this one. Both processes of `mpirun` adopt orphans, so that a process
//! that loses its parent becomes a child of one of them. Therefore killing children until there are none ends
//! all descendants.

use std::time::{Duration, Instant};

use tutti_sys::process::{self, Exit, Reaped};

/// Maximum duration. Only a process that hangs in the kernel outlives SIGKILL for long.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kills and reaps all descendants of this process. Costs one system call when there are none.
pub fn sweep() {
    sweep_but(&[]);
}

/// Kills and reaps all descendants except the children `spared`. Returns the exits of spared children that
/// ended meanwhile.
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
