//! Keys of TUTTI_DEBUG: switches and sizes for tests of Tutti and for the search for its faults.

use crate::BankSizes;
use crate::config::memory::{CopyBy, MappedHome};
use crate::config::messages::RemoteRead;
use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::typed::Config;
use crate::config::values::{
    flag, milliseconds, one_of, shown_or_auto, size, size_or_auto, size_or_zero, within,
};
use crate::config::waiting::MAX_LANES;

/// Keys of TUTTI_DEBUG. A key is read by the processes of its scope.
pub static DEBUG_KEYS: &[Setting] = &[
    Setting {
        name: "checkpoint_stop",
        kind: ValueKind::Text("text"),
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "SET:STEP at which daemons stop themselves (SIGSTOP); tutti checkpoints --steps lists the steps",
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
    Setting {
        name: "collective_bytes",
        kind: ValueKind::Text("size | auto"),
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "greatest shared memory of collectives on a node; 0: none; auto: by the number of ranks",
        set: |c, v| {
            size_or_auto(v, 1, BankSizes::MOST_AREA_BYTES).map(|x| c.collectives.collective_bytes = x)
        },
        show: |c| shown_or_auto(c.collectives.collective_bytes),
    },
    Setting {
        name: "bank_bytes",
        kind: ValueKind::Text("size | auto"),
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "large slot: shared memory of a rank for a large operation; auto: by the number of members",
        set: |c, v| size_or_auto(v, 4096, BankSizes::MOST_LARGE_BYTES).map(|x| c.collectives.bank_bytes = x),
        show: |c| shown_or_auto(c.collectives.bank_bytes),
    },
    Setting {
        name: "bank_small_bytes",
        kind: ValueKind::Size,
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "small slot: shared memory of a rank for a small operation",
        set: |c, v| within(v, 64, BankSizes::MOST_SMALL_BYTES).map(|x| c.collectives.bank_small_bytes = x),
        show: |c| c.collectives.bank_small_bytes.to_string(),
    },
    Setting {
        name: "bank_small_slots",
        kind: ValueKind::Count,
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "number of small operations that may start before the first has ended on all ranks; at most 128",
        set: |c, v| within(v, 2, BankSizes::MAX_SLOTS.into()).map(|x| c.collectives.bank_small_slots = x),
        show: |c| c.collectives.bank_small_slots.to_string(),
    },
    Setting {
        name: "check_arguments",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "also check whether blocks that a collective receives overlap, which takes time",
        set: |c, v| flag(v).map(|x| c.diagnosis.check_arguments = x),
        show: |c| (c.diagnosis.check_arguments as u8).to_string(),
    },
    Setting {
        name: "trace_events",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "greatest number of events of a rank in a trace",
        set: |c, v| within(v, 1, 1 << 30).map(|x| c.diagnosis.trace_events = x),
        show: |c| c.diagnosis.trace_events.to_string(),
    },
    Setting {
        name: "wrap_after",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "range after which counters wrap around (contexts, operations, persistent operations); 0: the full range",
        set: |c, v| within(v, 0, 1 << 62).map(|x| c.diagnosis.wrap_after = x),
        show: |c| c.diagnosis.wrap_after.to_string(),
    },
    Setting {
        name: "launch_radix",
        kind: ValueKind::Count,
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "number of other hosts that each host starts; 0: the first starts all",
        set: |c, v| within(v, 0, 1 << 16).map(|x| c.launch.launch_radix = x),
        show: |c| c.launch.launch_radix.to_string(),
    },
    Setting {
        name: "heartbeat_ms",
        kind: ValueKind::Milliseconds,
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "longest time without a message between the daemons of two hosts",
        set: |c, v| milliseconds(v).map(|x| c.launch.heartbeat_ms = x),
        show: |c| c.launch.heartbeat_ms.to_string(),
    },
    Setting {
        name: "pmix_library",
        kind: ValueKind::Text("path"),
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "file of the PMIx library; by default the one that the process manager names, or libpmix.so.2 of the system",
        set: |c, v| {
            c.launch.pmix_library = v.to_string();
            Ok(())
        },
        show: |c| c.launch.pmix_library.clone(),
    },
    Setting {
        name: "copy_by",
        kind: ValueKind::Words(&["auto", "attach", "xpmem", "knem"]),
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "mechanism by which collectives access private memory of peers; attach: process_vm_readv",
        set: |c, v| copy_by(v).map(|x| c.memory.copy_by = x),
        show: |c| format!("{:?}", c.memory.copy_by).to_lowercase(),
    },
    Setting {
        name: "map_after",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "number of uses of a buffer before it is mapped, if TUTTI_MAPPED=auto",
        set: |c, v| size(v).map(|x| c.memory.map_after = x),
        show: |c| c.memory.map_after.to_string(),
    },
    Setting {
        name: "map_bytes",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "smallest buffer that is mapped",
        set: |c, v| size(v).map(|x| c.memory.map_bytes = x),
        show: |c| c.memory.map_bytes.to_string(),
    },
    Setting {
        name: "mapped_limit",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "greatest mapped memory of a process; a fork copies it",
        set: |c, v| size(v).map(|x| c.memory.mapped_limit = x),
        show: |c| c.memory.mapped_limit.to_string(),
    },
    Setting {
        name: "mapped_watch",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "let the kernel report when mapped memory is unmapped or moved, instead of a query at each use",
        set: |c, v| flag(v).map(|x| c.memory.mapped_watch = x),
        show: |c| u8::from(c.memory.mapped_watch).to_string(),
    },
    Setting {
        name: "mapped_home",
        kind: ValueKind::Words(&["auto", "always", "never"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "write mapped memory back to main memory after peers have read it; auto: if the peers are distant and the content changes each time",
        set: |c, v| mapped_home(v).map(|x| c.memory.mapped_home = x),
        show: |c| format!("{:?}", c.memory.mapped_home).to_lowercase(),
    },
    Setting {
        name: "ring_bytes",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "size of the shared ring between two processes; 0: by the number of ranks",
        set: |c, v| size_or_zero(v, 4096, 1 << 30).map(|x| c.messages.ring_bytes = x),
        show: |c| c.messages.ring_bytes.to_string(),
    },
    Setting {
        name: "fragment_bytes",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "size of the pieces in which a long message passes through shared memory",
        set: |c, v| within(v, 64, 1 << 30).map(|x| c.messages.fragment_bytes = x),
        show: |c| c.messages.fragment_bytes.to_string(),
    },
    Setting {
        name: "remote_read",
        kind: ValueKind::Words(&["auto", "never"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "remote reads of long messages by a network of libfabric (FI_RMA); auto: if its provider offers them",
        set: |c, v| remote_read(v).map(|x| c.messages.remote_read = x),
        show: |c| format!("{:?}", c.messages.remote_read).to_lowercase(),
    },
    Setting {
        name: "connect_messages",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "number of messages between two ranks after which they connect on demand",
        set: |c, v| size(v).map(|x| c.network.connect_messages = x),
        show: |c| c.network.connect_messages.to_string(),
    },
    Setting {
        name: "connect_bytes",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "number of bytes between two ranks after which they connect on demand",
        set: |c, v| size(v).map(|x| c.network.connect_bytes = x),
        show: |c| c.network.connect_bytes.to_string(),
    },
    Setting {
        name: "max_connections",
        kind: ValueKind::Count,
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "greatest number of connections of a rank; 0: by the limit on descriptors",
        set: |c, v| within(v, 0, 1 << 16).map(|x| c.network.max_connections = x),
        show: |c| c.network.max_connections.to_string(),
    },
    Setting {
        name: "yield_rounds",
        kind: ValueKind::Count,
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "number of times that a wait yields its core before it parks",
        set: |c, v| within(v, 0, u32::MAX.into()).map(|x| c.waiting.yield_rounds = x),
        show: |c| c.waiting.yield_rounds.to_string(),
    },
    Setting {
        name: "move_apart",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "if two ranks that exchange messages share a processor, move one of them to another",
        set: |c, v| flag(v).map(|x| c.waiting.move_apart = x),
        show: |c| (c.waiting.move_apart as u8).to_string(),
    },
    Setting {
        name: "thread_lanes",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "number of lanes in which threads communicate concurrently (1 to 8; fewer if many ranks share a host)",
        set: |c, v| within(v, 1, MAX_LANES.into()).map(|x| c.waiting.thread_lanes = x),
        show: |c| c.waiting.thread_lanes.to_string(),
    },
];

/// Reads `key=value,key=value`.
pub(super) fn set(config: &mut Config, text: &str) -> std::result::Result<(), String> {
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let expected = |why: String| format!("a list of key=value: {why}");
        let (name, value) = part.split_once('=').ok_or_else(|| expected(format!("{part:?} has no value")))?;
        let key = DEBUG_KEYS.iter().find(|key| key.name == name.trim());
        let key = key.ok_or_else(|| expected(format!("there is no key {name:?}")))?;
        (key.set)(config, value.trim()).map_err(|why| expected(format!("{name} takes {why}")))?;
    }
    Ok(())
}

/// Returns the keys whose values differ from the default.
pub(super) fn show(config: &Config) -> String {
    let default = Config::default();
    let changed = DEBUG_KEYS.iter().filter(|key| key.show(config) != key.show(&default));
    changed.map(|key| format!("{}={}", key.name, key.show(config))).collect::<Vec<_>>().join(",")
}

fn copy_by(text: &str) -> std::result::Result<CopyBy, String> {
    use CopyBy::{Attach, Auto, Knem, Xpmem};
    one_of(&[("auto", Auto), ("attach", Attach), ("xpmem", Xpmem), ("knem", Knem)], text)
}

fn mapped_home(text: &str) -> std::result::Result<MappedHome, String> {
    use MappedHome::{Always, Auto, Never};
    one_of(&[("auto", Auto), ("always", Always), ("never", Never)], text)
}

fn remote_read(text: &str) -> std::result::Result<RemoteRead, String> {
    use RemoteRead::{Auto, Never};
    one_of(&[("auto", Auto), ("never", Never)], text)
}
