//! Checkpoints (S7).

/// What a program asks for about checkpoints of its job (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// Nothing.
    No,
    /// One, now.
    Now,
    /// One with which the job ends.
    Stop,
}

impl Checkpoint {
    pub(super) const NAMES: [(&str, Checkpoint); 3] =
        [("no", Checkpoint::No), ("now", Checkpoint::Now), ("stop", Checkpoint::Stop)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Checkpoint::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// When checkpoints are written (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointWriting {
    /// As the pause is shorter.
    Auto,
    /// While ranks stand still.
    Still,
    /// From copies of them (fork), while they go on.
    Fork,
}

impl CheckpointWriting {
    pub(super) const NAMES: [(&str, CheckpointWriting); 3] = [
        ("auto", CheckpointWriting::Auto),
        ("still", CheckpointWriting::Still),
        ("fork", CheckpointWriting::Fork),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        CheckpointWriting::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Whether checkpoints are packed (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPacking {
    /// Where that is faster than the disk.
    Auto,
    /// Never.
    Never,
    /// Whatever gets smaller.
    Always,
}

impl CheckpointPacking {
    pub(super) const NAMES: [(&str, CheckpointPacking); 3] = [
        ("auto", CheckpointPacking::Auto),
        ("never", CheckpointPacking::Never),
        ("always", CheckpointPacking::Always),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        CheckpointPacking::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Checkpoints (S7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    /// What the program asks for, by MPI_T.
    pub checkpoint: Checkpoint,
    /// When checkpoints are written.
    pub checkpoint_writing: CheckpointWriting,
    /// Whether they are packed.
    pub checkpoint_packing: CheckpointPacking,
    /// For tests: the set and the step of a checkpoint at which daemons stop themselves.
    pub checkpoint_stop: String,
}

impl Default for Checkpoints {
    fn default() -> Checkpoints {
        Checkpoints {
            checkpoint: Checkpoint::No,
            checkpoint_writing: CheckpointWriting::Auto,
            checkpoint_packing: CheckpointPacking::Auto,
            checkpoint_stop: String::new(),
        }
    }
}
