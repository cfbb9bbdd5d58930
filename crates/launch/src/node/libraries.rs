//! Looks for other MPI libraries in the ranks of this host ([`crate::loaded_libraries`]).

use super::Node;
use crate::loaded_libraries::other_library;

impl Node {
    /// Looks, if it is time, and prints a warning that names the first such library of this host.
    pub(super) fn look_for_libraries(&mut self) {
        let now = self.now();
        if !self.looks.take(now) {
            return;
        }
        let Some(ranks) = self.ranks.as_ref().filter(|ranks| ranks.refuses_other_mpi()) else {
            self.looks.end();
            return;
        };
        let suspects = ranks.uninitialised();
        if suspects.is_empty() {
            self.looks.end();
            return;
        }
        let found = suspects.into_iter().find_map(|(rank, pid)| Some((rank, pid, other_library(pid)?)));
        if let Some((rank, pid, file)) = found {
            self.looks.end();
            let text = format!(
                "mpirun: warning: rank {rank} (process {pid}) has loaded another MPI library, {}: each rank is alone there, in a job \
                 of one rank; let the program find Tutti's library first (LD_LIBRARY_PATH, as mpirun sets it) or build it with Tutti's \
                 mpicc (TUTTI_FOREIGN_MPI=start: nothing is said)\n",
                file.display()
            );
            eprint!("{text}");
        }
    }
}
