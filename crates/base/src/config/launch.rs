//! Settings of the start and the supervision of jobs.

/// Reaction of mpirun to a program that needs another MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignMpi {
    /// An error message: otherwise each process would be a job of its own.
    Refuse,
    /// Start of the program, without an error.
    Start,
}

/// Process manager that has started this process, if it is not mpirun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// The one that the environment names.
    Auto,
    /// A server of PMIx.
    Pmix,
    /// A server of PMI-1 or PMI-2.
    Pmi,
    /// None: the process is a job of its own.
    Alone,
}

/// Settings of the start and the supervision of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Command that starts daemons on other hosts. Empty: ssh, or srun inside Slurm.
    pub agent: String,
    /// Command that runs each rank's program under a debugger (`mpirun --debug`). Empty: ranks wait for a
    /// debugger in MPI_Init.
    pub debugger: String,
    /// Number of other hosts that each host starts; 0: the first host starts all.
    pub launch_radix: u64,
    /// Longest time without a word between two daemons.
    pub heartbeat_ms: u64,
    /// Time in milliseconds without a message after which a host counts as lost.
    pub silence_ms: u64,
    /// Whether mpirun starts programs that need another MPI library.
    pub foreign_mpi: ForeignMpi,
    /// Time limit in milliseconds for the start of a host's daemon, or of all its ranks under another
    /// launcher.
    pub start_ms: u64,
    /// Process manager to use, if it is not mpirun.
    pub starter: Starter,
    /// The file of the PMIx library (empty: the starter's or the system's).
    pub pmix_library: String,
}

impl Default for Launch {
    fn default() -> Launch {
        Launch {
            agent: String::new(),
            debugger: String::new(),
            launch_radix: 16,
            heartbeat_ms: 1000,
            silence_ms: 30_000,
            foreign_mpi: ForeignMpi::Refuse,
            start_ms: 60_000,
            starter: Starter::Auto,
            pmix_library: String::new(),
        }
    }
}
