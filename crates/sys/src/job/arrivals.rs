//! Counts of the ranks that have called MPI_Finalize, so that each rank knows when no other will need it
//! any more.
//!
//! The ranks of a host count themselves in shared memory. With several hosts, the last rank of each reports
//! to its daemon, and the daemons inform every host when all have arrived. A rank may end before others
//! call MPI_Finalize, because nothing depends on it any more.

use std::sync::atomic::{Ordering, fence};

use super::{Doorbell, Job, RankState};
use crate::{event, futex};

impl Job {
    /// Counts a rank of this host that calls MPI_Finalize. Returns true if it is the last one here.
    pub fn arrive(&self) -> bool {
        let before = self.node().arrivals.here.fetch_add(1, Ordering::AcqRel);
        before + 1 == self.header.local_ranks
    }

    /// Returns true if all ranks of this host have called MPI_Finalize.
    pub fn have_arrived_here(&self) -> bool {
        self.node().arrivals.here.load(Ordering::Acquire) >= self.header.local_ranks
    }

    /// Records that all ranks of all hosts have called MPI_Finalize, and wakes the ranks of this host that
    /// wait for it.
    pub fn note_all_arrived(&self) {
        self.node().arrivals.everywhere.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        for local in 0..self.header.local_ranks {
            let Doorbell { sleeping, futex, polled, .. } = self.block(local).doorbell_of(0);
            // A rank that starts to sleep later sees the word that was just stored.
            if sleeping.load(Ordering::SeqCst) & Doorbell::SLEEPERS != 0 {
                futex.fetch_add(1, Ordering::SeqCst);
                futex::wake_all(futex);
            }
            if polled.load(Ordering::SeqCst) != 0
                && let Some(bell) = self.bell(local)
            {
                event::strike(bell);
            }
        }
    }

    /// Returns true once all ranks of all hosts have called MPI_Finalize.
    #[inline]
    pub fn have_all_arrived(&self) -> bool {
        self.node().arrivals.everywhere.load(Ordering::Acquire) != 0
    }

    /// Returns true if local rank `local` has left MPI for good: it sends nothing any more, and all that it
    /// sent has arrived.
    pub fn has_left(&self, local: u32) -> bool {
        self.block(local).state() == RankState::Finalized
    }
}

#[cfg(test)]
mod tests {
    use crate::job::{Job, Plan};

    #[test]
    fn the_last_rank_of_a_host_is_told_so() {
        let job = Job::create(&Plan::one_host(3)).unwrap();
        let other = Job::attach(job.fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!([job.arrive(), other.arrive(), job.arrive()], [false, false, true]);
        assert!(!other.have_all_arrived());
        job.note_all_arrived();
        assert!(other.have_all_arrived());
    }
}
