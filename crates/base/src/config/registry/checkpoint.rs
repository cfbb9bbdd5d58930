//! Rows: Checkpoints (S7).

use crate::config::checkpoint::{Checkpoint, CheckpointPacking, CheckpointWriting};
use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::one_of;

pub(super) const ROWS: &[Setting] = &[
    Setting {
        name: "TUTTI_CHECKPOINT",
        kind: ValueKind::Words(&["no", "now", "stop"]),
        scope: Scope::Process,
        audience: Audience::User,
        doc: "request of a running program (MPI_T): now writes a checkpoint, stop also ends the job",
        set: |c, v| one_of(&Checkpoint::NAMES, v).map(|x| c.checkpoint.checkpoint = x),
        show: |c| c.checkpoint.checkpoint.name().to_string(),
    },
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
    Setting {
        name: "TUTTI_CHECKPOINT_STOP",
        kind: ValueKind::Text("text"),
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "for tests: SET:STEP at which daemons stop themselves (SIGSTOP); tutti checkpoints --steps lists the steps",
        set: |c, v| {
            let step = v.split_once(':').filter(|(set, step)| set.parse::<u64>().is_ok() && !step.is_empty());
            if step.is_none() && !v.is_empty() {
                return Err("SET:STEP, a number and a step".to_string());
            }
            c.checkpoint.checkpoint_stop = v.to_string();
            Ok(())
        },
        show: |c| c.checkpoint.checkpoint_stop.clone(),
    },
];
