//! Access of the ranks of a host to each other's memory. Each rank tries it, as ranks of MPI do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tutti_base::config::Config;
use tutti_sys::cma::{self, CopyError};
use tutti_sys::job::{Declaration, Job, RankState};
use tutti_sys::process;

use super::job::OwnJob;
use super::machine;

/// Time that a rank waits for others, which may run other programs than `tutti info`.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns a line with the access that this rank has. The line is empty if the rank is alone on its host.
pub fn describe(own: &OwnJob, config: &Config) -> String {
    let job = &own.job;
    let Some(local) = job.local_rank(own.rank).filter(|_| job.header().local_ranks > 1) else {
        return String::new();
    };
    let ranks: Vec<u32> = (0..job.header().local_ranks).collect();
    cma::allow_peers();
    declare(job, local, config);
    let reach = wait(|| {
        job.wait_for_declarations(Duration::from_millis(10));
        job.reach_among(&ranks)
    });
    let tried: Vec<(u32, Result<(), CopyError>)> = match reach {
        Some(_) => ranks
            .iter()
            .filter(|other| **other != local)
            .map(|other| (job.world_rank(*other), job.prove(*other).map(drop)))
            .collect(),
        None => Vec::new(),
    };
    // A rank stays until all have tried to read its memory.
    job.block(local).set_state(RankState::Finalized);
    let is_done = |other: &u32| job.block(*other).state() == RankState::Finalized;
    let _ = wait(|| ranks.iter().all(is_done).then_some(()).or_else(pause));
    explain(own.rank, &tried)
}

fn declare(job: &Job, local: u32, config: &Config) {
    static PROOF: AtomicU64 = AtomicU64::new(0);
    let proof = process::random().unwrap_or_else(|_| std::process::id().into());
    PROOF.store(proof, Ordering::Relaxed);
    job.block(local).set_state(RankState::Running);
    let proof_address = std::ptr::from_ref(&PROOF) as u64;
    job.declare(local, &Declaration { proof_address, proof, reach: machine::reach(config) });
}

fn pause() -> Option<()> {
    std::thread::sleep(Duration::from_millis(1));
    None
}

/// Calls `ask` until it returns a result, for a bounded time.
fn wait<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        match ask() {
            None if start.elapsed() < PATIENCE => (),
            answer => return answer,
        }
    }
}

fn explain(rank: u32, tried: &[(u32, Result<(), CopyError>)]) -> String {
    if tried.is_empty() {
        return format!("  rank {rank}: single copy was not tried: other ranks of this host do not answer\n");
    }
    let refused: Vec<_> = tried.iter().filter_map(|(other, tried)| Some((other, tried.err()?))).collect();
    match refused.first() {
        None => format!("  rank {rank}: single copy from all other ranks of this host works\n"),
        Some((_, why)) => {
            let others: Vec<String> = refused.iter().map(|(other, _)| other.to_string()).collect();
            let others = others.join(", ");
            format!(
                "  rank {rank}: single copy is off for rank {others}: {why}; messages and banks are used\n"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_named_with_its_reason() {
        let check = |tried: &[(u32, Result<(), CopyError>)], part: &str| {
            let text = explain(1, tried);
            assert!(text.contains(part), "{text}");
        };
        check(&[], "was not tried");
        check(&[(0, Ok(())), (2, Ok(()))], "rank 1: single copy from all other ranks of this host works");
        check(&[(0, Ok(())), (2, Err(CopyError::OtherPids))], "off for rank 2: the peer is in another pid");
        check(&[(0, Err(CopyError::Refused)), (2, Err(CopyError::Refused))], "off for rank 0, 2: the system");
    }
}
