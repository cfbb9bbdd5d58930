//! Settings of checkpoints (S7).

/// Request of a program for a checkpoint of its job (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// No checkpoint.
    No,
    /// A checkpoint at once, without the end of the job.
    Now,
    /// A checkpoint, after which the job ends.
    Stop,
}

impl Checkpoint {
    pub(super) const NAMES: [(&str, Checkpoint); 3] =
        [("no", Checkpoint::No), ("now", Checkpoint::Now), ("stop", Checkpoint::Stop)];

    /// Returns the value in the notation of the setting.
    pub fn name(self) -> &'static str {
        Checkpoint::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Time at which checkpoints are written (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointWriting {
    /// The way with the shorter pause.
    Auto,
    /// Writing while ranks are stopped.
    Still,
    /// The ranks run on, while forked copies of them are written.
    Fork,
}

impl CheckpointWriting {
    pub(super) const NAMES: [(&str, CheckpointWriting); 3] = [
        ("auto", CheckpointWriting::Auto),
        ("still", CheckpointWriting::Still),
        ("fork", CheckpointWriting::Fork),
    ];

    /// Returns the value in the notation of the setting.
    pub fn name(self) -> &'static str {
        CheckpointWriting::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Whether checkpoints are packed (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPacking {
    /// Compression if it is faster than the disk.
    Auto,
    /// Never.
    Never,
    /// Compression of all blocks that get smaller by it.
    Always,
}

impl CheckpointPacking {
    pub(super) const NAMES: [(&str, CheckpointPacking); 3] = [
        ("auto", CheckpointPacking::Auto),
        ("never", CheckpointPacking::Never),
        ("always", CheckpointPacking::Always),
    ];

    /// Returns the value in the notation of the setting.
    pub fn name(self) -> &'static str {
        CheckpointPacking::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Settings of checkpoints (S7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    /// Time at which checkpoints are written.
    pub checkpoint_writing: CheckpointWriting,
    /// Whether they are packed.
    pub checkpoint_packing: CheckpointPacking,
    /// Set and step of a checkpoint at which daemons stop themselves; for tests.
    pub checkpoint_stop: String,
}

impl Default for Checkpoints {
    fn default() -> Checkpoints {
        Checkpoints {
            checkpoint_writing: CheckpointWriting::Auto,
            checkpoint_packing: CheckpointPacking::Auto,
            checkpoint_stop: String::new(),
        }
    }
}
