//! Rows: Waiting, threads and progress.

use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::{flag, microseconds};

pub(super) const ROWS: &[Setting] = &[
    Setting {
        name: "TUTTI_SPIN_US",
        kind: ValueKind::Microseconds,
        scope: Scope::Process,
        audience: Audience::User,
        doc: "time that a wait spins before it parks; -1: by the numbers of ranks and cores",
        set: |c, v| microseconds(v).map(|x| c.waiting.spin_us = x),
        show: |c| c.waiting.spin_us.to_string(),
    },
    Setting {
        name: "TUTTI_PROGRESS_THREAD",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "run a thread that receives messages while the program computes: targets of one-sided operations on other hosts need not call MPI",
        set: |c, v| flag(v).map(|x| c.waiting.progress_thread = x),
        show: |c| (c.waiting.progress_thread as u8).to_string(),
    },
];
