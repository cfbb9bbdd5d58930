//! Rows: memory that ranks of a host share with each other.

use crate::config::memory::{Mapped, OneSided};
use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::one_of;

pub(super) const ROWS: &[Setting] = &[
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

fn mapped(text: &str) -> std::result::Result<Mapped, String> {
    use Mapped::{Always, Auto, Never};
    one_of(&[("auto", Auto), ("always", Always), ("never", Never)], text)
}
