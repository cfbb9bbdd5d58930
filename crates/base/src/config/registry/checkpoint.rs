//! Rows: Checkpoints (S7).

use crate::config::checkpoint::{Checkpoint, CheckpointPacking, CheckpointWriting};
use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::one_of;

pub(super) const ROWS: &[Setting] = &[
    Setting {
        name: "TUTTI_CHECKPOINT_WRITING",
        kind: ValueKind::Words(&["auto", "still", "fork"]),
        scope: Scope::Launcher,
        audience: Audience::User,
        doc: "still: ranks are stopped while a checkpoint is written; fork: copies of them are written while they run on; auto: the way with the shorter pause",
        set: |c, v| one_of(&CheckpointWriting::NAMES, v).map(|x| c.checkpoint.checkpoint_writing = x),
        show: |c| c.checkpoint.checkpoint_writing.name().to_string(),
    },
    Setting {
        name: "TUTTI_CHECKPOINT_PACKING",
        kind: ValueKind::Words(&["auto", "never", "always"]),
        scope: Scope::Launcher,
        audience: Audience::User,
        doc: "compression of checkpoints (Zstandard); auto: if it is faster than the disk",
        set: |c, v| one_of(&CheckpointPacking::NAMES, v).map(|x| c.checkpoint.checkpoint_packing = x),
        show: |c| c.checkpoint.checkpoint_packing.name().to_string(),
    },
];

/// Requests that a running program writes as a control variable of MPI_T.
pub(super) const REQUESTS: &[Setting] = &[Setting {
    name: "TUTTI_CHECKPOINT",
    kind: ValueKind::Words(&["no", "now", "stop"]),
    scope: Scope::Process,
    audience: Audience::User,
    doc: "request of a running program: now writes a checkpoint, stop also ends the job",
    set: |_, v| one_of(&Checkpoint::NAMES, v).map(drop),
    show: |_| Checkpoint::No.name().to_string(),
}];
