//! Settings of waiting, threads and progress.

/// Most lanes: sets of rings between the ranks of a host, each used by other threads of them.
pub const MAX_LANES: u32 = 8;

/// Settings of waiting, threads and progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Time in microseconds that a wait spins before it yields and parks. -1: by the number of ranks and
    /// cores.
    pub spin_us: i64,
    /// Number of times that a wait yields its core before it parks.
    pub yield_rounds: u64,
    /// Whether ranks that share a processor and exchange messages move apart.
    pub move_apart: bool,
    /// Greatest number of lanes, in which threads of a process communicate concurrently.
    pub thread_lanes: u64,
    /// Whether a thread takes in messages while the program computes.
    pub progress_thread: bool,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting { spin_us: -1, yield_rounds: 64, move_apart: true, thread_lanes: 8, progress_thread: false }
    }
}
