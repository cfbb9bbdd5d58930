//! Rows: Messages: protocols, the memory that they pass through, and single copies.

use crate::config::messages::SingleCopy;
use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::{one_of, size};

pub(super) const ROWS: &[Setting] = &[
    Setting {
        name: "TUTTI_EAGER_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::User,
        doc: "largest message that is sent before its receive is known",
        set: |c, v| size(v).map(|x| c.messages.eager_bytes = x),
        show: |c| c.messages.eager_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_CONNECTED_EAGER_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "largest message that is sent to another host before its receive is known, over a connection: a request takes a round trip",
        set: |c, v| size(v).map(|x| c.messages.connected_eager_bytes = x),
        show: |c| c.messages.connected_eager_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_UNEXPECTED_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::User,
        doc: "greatest memory for messages whose receive is not posted yet: payload and 128 bytes for each; beyond it senders wait",
        set: |c, v| size(v).map(|x| c.messages.unexpected_bytes = x),
        show: |c| c.messages.unexpected_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_SINGLE_COPY",
        kind: ValueKind::Words(&["auto", "always", "never"]),
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "copy long messages by process_vm_readv",
        set: |c, v| single_copy(v).map(|x| c.messages.single_copy = x),
        show: |c| format!("{:?}", c.messages.single_copy).to_lowercase(),
    },
    Setting {
        name: "TUTTI_SINGLE_COPY_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "size from which TUTTI_SINGLE_COPY=auto always reads; smaller messages are read only if that is faster at present",
        set: |c, v| size(v).map(|x| c.messages.single_copy_bytes = x),
        show: |c| c.messages.single_copy_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_REMOTE_READ_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "smallest message between hosts that its receiver reads without a copy; 0: all are streamed",
        set: |c, v| size(v).map(|x| c.messages.remote_read_bytes = x),
        show: |c| c.messages.remote_read_bytes.to_string(),
    },
];

fn single_copy(text: &str) -> std::result::Result<SingleCopy, String> {
    use SingleCopy::{Always, Auto, Never};
    one_of(&[("auto", Auto), ("always", Always), ("never", Never)], text)
}
