//! How jobs are started and supervised.

/// What mpirun does with a program that needs another MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignMpi {
    /// It is refused: each of its processes would be a job of its own.
    Refuse,
    /// It is started.
    Start,
}

/// Who has started this process, where it is not our own launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// Whom the environment shows.
    Auto,
    /// A server of PMIx.
    Pmix,
    /// One that speaks PMI-1 or PMI-2.
    Pmi,
    /// Nobody: the process is a job of its own.
    Alone,
}

/// How jobs are started and supervised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// What starts daemons on other hosts; empty: ssh, or srun inside Slurm.
    pub agent: String,
    /// `TUTTI_DEBUGGER`.
    pub debugger: String,
    /// Other hosts that each host starts; 0: all are started by the first.
    pub launch_radix: u64,
    /// Longest time without a word between two daemons.
    pub heartbeat_ms: u64,
    /// How long a host may be silent before it counts as lost.
    pub silence_ms: u64,
    /// Whether mpirun starts programs that need another MPI library.
    pub foreign_mpi: ForeignMpi,
    /// How long a host may take to start its daemon, or under another launcher all of its ranks.
    pub start_ms: u64,
    /// Which starter to believe in, where it is not our own.
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
