//! Inspection of the ranks of this host for other MPI libraries ([`crate::loaded_libraries`]).

use super::Node;
use crate::loaded_libraries::other_library;

impl Node {
    /// Inspects the ranks if an inspection is due. Prints a warning that names the first library found.
    pub(super) fn look_for_libraries(&mut self) {
        let now = self.now();
        if !self.inspections.take(now) {
            return;
        }
        let Some(ranks) = self.ranks.as_ref().filter(|ranks| ranks.refuses_other_mpi()) else {
            self.inspections.end();
            return;
        };
        let suspects = ranks.uninitialised();
        if suspects.is_empty() {
            self.inspections.end();
            return;
        }
        let found = suspects.into_iter().find_map(|(rank, pid)| Some((rank, pid, other_library(pid)?)));
        if let Some((rank, pid, file)) = found {
            self.inspections.end();
            eprintln!(
                "mpirun: warning: rank {rank} (process {pid}) has loaded another MPI library, {}: each rank is alone there, in a job \
                 of one rank; let the program find Tutti's library first (LD_LIBRARY_PATH, as mpirun sets it) or build it with Tutti's \
                 mpicc (TUTTI_FOREIGN_MPI=start: nothing is said)",
                file.display()
            );
        }
    }
}
