//! Rows: Files of io-servers.

use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::flag;

pub(super) const ROWS: &[Setting] = &[
    Setting {
        name: "TUTTI_IO_MOUNT",
        kind: ValueKind::Text("file"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "mount file of the io-servers for files whose names begin with tutti:",
        set: |c, v| {
            c.files.io_mount = v.to_string();
            Ok(())
        },
        show: |c| c.files.io_mount.clone(),
    },
    Setting {
        name: "TUTTI_IO_NEAR",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "let ranks access the open files of io-servers on the same host directly, so that data do not pass through the servers",
        set: |c, v| flag(v).map(|x| c.files.io_near = x),
        show: |c| u8::from(c.files.io_near).to_string(),
    },
];
