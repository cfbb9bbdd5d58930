//! A process on each host that watches its ranks, for starters that do not. Some starters wait for all
//! processes however they end (Slurm, without --kill-on-bad-exit). The death of a rank would then leave the
//! others waiting forever. The guardian makes the starter end the job.
//!
//! Ranks that are alone on their host, or that compute, cannot watch others. So the guardian is a process
//! of its own, started by the first rank. It ends when the ranks of the host have ended, and holds none of
//! their resources.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use tutti_sys::job::{Job, RankState};
use tutti_sys::{guardian, process, this_process};

use super::meeting::Guest;
use super::starter::{LastWords, Starter};

/// Delay before the guardian acts. A starter that ends the job kills ranks and guardians one after the
/// other. If the guardian is still alive after the delay, the starter is not ending the job.
const GRACE: Duration = Duration::from_millis(200);

/// Starts a guardian for the ranks of this host, if the starter needs one.
///
/// # Errors
/// Returns the system's error if a process cannot be watched or none can be made.
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
        // MPI_Abort has printed the reason, but the starter may not know it.
        if state != RankState::Aborted {
            this_process::say(&texts[local]);
        }
        say(&words);
        false
    };
    guardian::start(&processes, &keep, ended).map(drop)
}

/// Sends the request to end the job. Allocates no memory.
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
