//! Rows: memory that ranks of a host share with each other.

use crate::config::memory::{CopyBy, Mapped, MappedHome, OneSided};
use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::{flag, one_of, size};

pub(super) const ROWS: &[Setting] = &[
    Setting {
        name: "TUTTI_COPY_BY",
        kind: ValueKind::Words(&["auto", "attach", "xpmem", "knem"]),
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "mechanism by which collectives access private memory of peers; attach: process_vm_readv",
        set: |c, v| copy_by(v).map(|x| c.memory.copy_by = x),
        show: |c| format!("{:?}", c.memory.copy_by).to_lowercase(),
    },
    Setting {
        name: "TUTTI_MAPPED",
        kind: ValueKind::Words(&["auto", "always", "never"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "convert pages of buffers to shared memory after some uses, so that peers access them in place",
        set: |c, v| mapped(v).map(|x| c.memory.mapped = x),
        show: |c| format!("{:?}", c.memory.mapped).to_lowercase(),
    },
    Setting {
        name: "TUTTI_MAP_AFTER",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "number of uses of a buffer before it is mapped, if TUTTI_MAPPED=auto",
        set: |c, v| size(v).map(|x| c.memory.map_after = x),
        show: |c| c.memory.map_after.to_string(),
    },
    Setting {
        name: "TUTTI_MAP_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "smallest buffer that is mapped",
        set: |c, v| size(v).map(|x| c.memory.map_bytes = x),
        show: |c| c.memory.map_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_MAPPED_LIMIT",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "greatest mapped memory of a process; a fork copies it",
        set: |c, v| size(v).map(|x| c.memory.mapped_limit = x),
        show: |c| c.memory.mapped_limit.to_string(),
    },
    Setting {
        name: "TUTTI_MAPPED_WATCH",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "let the kernel report when mapped memory is unmapped or moved, instead of a query at each use",
        set: |c, v| flag(v).map(|x| c.memory.mapped_watch = x),
        show: |c| u8::from(c.memory.mapped_watch).to_string(),
    },
    Setting {
        name: "TUTTI_MAPPED_HOME",
        kind: ValueKind::Words(&["auto", "always", "never"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "write mapped memory back to main memory after peers have read it; auto: if the peers are distant and the content changes each time",
        set: |c, v| mapped_home(v).map(|x| c.memory.mapped_home = x),
        show: |c| format!("{:?}", c.memory.mapped_home).to_lowercase(),
    },
    Setting {
        name: "TUTTI_ONE_SIDED",
        kind: ValueKind::Words(&["auto", "messages"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "access of one-sided communication to ranks of the same node; auto: directly where possible; messages: always by messages",
        set: |c, v| one_sided(v).map(|x| c.memory.one_sided = x),
        show: |c| {
            let name = match c.memory.one_sided {
                OneSided::Auto => "auto",
                OneSided::Messages => "messages",
            };
            name.to_string()
        },
    },
];

fn one_sided(text: &str) -> std::result::Result<OneSided, String> {
    use OneSided::{Auto, Messages};
    one_of(&[("auto", Auto), ("messages", Messages)], text)
}

fn copy_by(text: &str) -> std::result::Result<CopyBy, String> {
    use CopyBy::{Attach, Auto, Knem, Xpmem};
    one_of(&[("auto", Auto), ("attach", Attach), ("xpmem", Xpmem), ("knem", Knem)], text)
}

fn mapped_home(text: &str) -> std::result::Result<MappedHome, String> {
    use MappedHome::{Always, Auto, Never};
    one_of(&[("auto", Auto), ("always", Always), ("never", Never)], text)
}

fn mapped(text: &str) -> std::result::Result<Mapped, String> {
    use Mapped::{Always, Auto, Never};
    one_of(&[("auto", Auto), ("always", Always), ("never", Never)], text)
}
