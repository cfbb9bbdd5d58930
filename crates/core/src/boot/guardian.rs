//! Where a starter waits for all processes however they end (Slurm, unless it is told --kill-on-bad-exit), the death of a rank would leave the others
//! waiting for it. A guardian a host watches its ranks and has the starter end the job.
//!
//! Ranks that are alone on their host, or compute, can watch nobody, so it is a process of its own, made by the first rank. It
//! ends when the ranks of the host have, and holds nothing of theirs.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use tutti_sys::job::{Job, RankState};
use tutti_sys::{guardian, process, this_process};

use super::meeting::Guest;
use super::starter::{LastWords, Starter};

/// A starter that ends the job kills ranks and guardians one after the other: a guardian that is still there after this was
/// not meant.
const GRACE: Duration = Duration::from_millis(200);

/// Starts a guardian for the ranks of this host, if the starter needs one.
///
/// # Errors
/// What the system reports: that a process cannot be watched, or none be made.
pub fn start(starter: &dyn Starter, job: &Job, guests: &[Guest]) -> io::Result<()> {
    let Some(words) = starter.last_words()? else { return Ok(()) };
    let own = guardian::open_process(std::process::id() as i32);
    let processes =
        std::iter::once(own).chain(guests.iter().map(Guest::process)).collect::<io::Result<Vec<_>>>()?;
    let host = process::host_name();
    let texts: Vec<String> = (0..processes.len() as u32)
        .map(|local| {
            let rank = job.world_rank(local);
            format!("Tutti: rank {rank} (host {host}) ended before MPI_Finalize; this ends the job\n")
        })
        .collect();
    let keep = match &words {
        LastWords::Message(connection, _) => vec![connection.as_fd()],
        LastWords::Program(_) => Vec::new(),
    };
    let ended = |local: usize| {
        let state = job.block(local as u32).state();
        if state == RankState::Finalized {
            return true;
        }
        std::thread::sleep(GRACE);
        // MPI_Abort has said why, but perhaps not to the starter.
        if state != RankState::Aborted {
            this_process::say(&texts[local]);
        }
        say(&words);
        false
    };
    guardian::start(&processes, &keep, ended).map(drop)
}

/// Nothing is allocated.
fn say(words: &LastWords) {
    match words {
        LastWords::Message(connection, bytes) => this_process::send_now(connection.as_fd(), bytes),
        LastWords::Program(program) => {
            program.become_it();
            this_process::say(
                "Tutti: there is no scancel here, so the job does not end: srun --kill-on-bad-exit=1 does it\n",
            );
        }
    }
}
