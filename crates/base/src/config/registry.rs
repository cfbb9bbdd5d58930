//! The rows of the registry, and how the values of settings are written.

use super::{
    Checkpoint, Config, Connections, CopyBy, ForeignMpi, InitialErrorHandler, Mapped, MappedHome, Multicast,
    Offload, OneSided, RemoteRead, SingleCopy, Starter, Tune, TuneSearch,
};
use crate::PortRange;

/// One row of the registry.
pub struct Setting {
    /// Name of the environment variable.
    pub name: &'static str,
    /// Type and unit, for people.
    pub kind: &'static str,
    /// What it does.
    pub doc: &'static str,
    pub(super) set: fn(&mut Config, &str) -> std::result::Result<(), String>,
    show: fn(&Config) -> String,
}

impl Setting {
    /// The value in `config`, as it would be written in the environment.
    pub fn show(&self, config: &Config) -> String {
        (self.show)(config)
    }
}

/// The registry. Rows in the order in which `tutti info` shows them.
pub static SETTINGS: &[Setting] = &[
    Setting {
        name: "TUTTI_EAGER_BYTES",
        kind: "size",
        doc: "largest message sent before its receive is known",
        set: |c, v| size(v).map(|x| c.eager_bytes = x),
        show: |c| c.eager_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_CONNECTED_EAGER_BYTES",
        kind: "size",
        doc: "the same between hosts, over a connection: to ask takes a journey there and back",
        set: |c, v| size(v).map(|x| c.connected_eager_bytes = x),
        show: |c| c.connected_eager_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_UNEXPECTED_BYTES",
        kind: "size",
        doc: "bound on what is kept of messages whose receive is not posted yet: payload, and 128 bytes each; beyond it senders wait",
        set: |c, v| size(v).map(|x| c.unexpected_bytes = x),
        show: |c| c.unexpected_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_RING_BYTES",
        kind: "size",
        doc: "shared ring between two processes that talk; 0: by the number of ranks",
        set: |c, v| size(v).map(|x| c.ring_bytes = x),
        show: |c| c.ring_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_FRAGMENT_BYTES",
        kind: "size",
        doc: "piece in which a long message passes through shared memory",
        set: |c, v| size(v).map(|x| c.fragment_bytes = x),
        show: |c| c.fragment_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_SINGLE_COPY",
        kind: "auto | always | never",
        doc: "copy long messages by process_vm_readv",
        set: |c, v| single_copy(v).map(|x| c.single_copy = x),
        show: |c| format!("{:?}", c.single_copy).to_lowercase(),
    },
    Setting {
        name: "TUTTI_SINGLE_COPY_BYTES",
        kind: "size",
        doc: "from here on TUTTI_SINGLE_COPY=auto reads in any case, below where that is the faster way at present",
        set: |c, v| size(v).map(|x| c.single_copy_bytes = x),
        show: |c| c.single_copy_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_IO_MOUNT",
        kind: "file",
        doc: "the mount file of the io-servers that have the files whose names begin with tutti:",
        set: |c, v| {
            c.io_mount = v.to_string();
            Ok(())
        },
        show: |c| c.io_mount.clone(),
    },
    Setting {
        name: "TUTTI_IO_NEAR",
        kind: "0 | 1",
        doc: "whether io-servers on this host lend their open files, so that data do not pass through them",
        set: |c, v| flag(v).map(|x| c.io_near = x),
        show: |c| u8::from(c.io_near).to_string(),
    },
    Setting {
        name: "TUTTI_REMOTE_READ",
        kind: "auto | never",
        doc: "whether a network of libfabric reads long messages by itself (FI_RMA); auto: where its provider offers it",
        set: |c, v| remote_read(v).map(|x| c.remote_read = x),
        show: |c| format!("{:?}", c.remote_read).to_lowercase(),
    },
    Setting {
        name: "TUTTI_REMOTE_READ_BYTES",
        kind: "size",
        doc: "smallest message between hosts that its receiver reads without a copy; 0: all are streamed",
        set: |c, v| size(v).map(|x| c.remote_read_bytes = x),
        show: |c| c.remote_read_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_COPY_BY",
        kind: "auto | attach | xpmem | knem",
        doc: "what collectives reach private memory of peers by; attach: process_vm_readv",
        set: |c, v| copy_by(v).map(|x| c.copy_by = x),
        show: |c| format!("{:?}", c.copy_by).to_lowercase(),
    },
    Setting {
        name: "TUTTI_MAPPED",
        kind: "auto | always | never",
        doc: "let peers work in buffers in place: their pages become shared memory after some uses",
        set: |c, v| mapped(v).map(|x| c.mapped = x),
        show: |c| format!("{:?}", c.mapped).to_lowercase(),
    },
    Setting {
        name: "TUTTI_MAP_AFTER",
        kind: "count",
        doc: "times that a buffer's bytes are lent before it is mapped where TUTTI_MAPPED=auto",
        set: |c, v| size(v).map(|x| c.map_after = x),
        show: |c| c.map_after.to_string(),
    },
    Setting {
        name: "TUTTI_MAP_BYTES",
        kind: "size",
        doc: "smallest buffer that is mapped",
        set: |c, v| size(v).map(|x| c.map_bytes = x),
        show: |c| c.map_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_MAPPED_LIMIT",
        kind: "size",
        doc: "most mapped memory of a process; a fork copies it",
        set: |c, v| size(v).map(|x| c.mapped_limit = x),
        show: |c| c.mapped_limit.to_string(),
    },
    Setting {
        name: "TUTTI_MAPPED_WATCH",
        kind: "0 | 1",
        doc: "have the kernel tell when mapped memory is unmapped or moved, instead of asking at each use",
        set: |c, v| flag(v).map(|x| c.mapped_watch = x),
        show: |c| u8::from(c.mapped_watch).to_string(),
    },
    Setting {
        name: "TUTTI_MAPPED_HOME",
        kind: "auto | always | never",
        doc: "write mapped memory that peers have read back to main memory: where they are far and it changes each time",
        set: |c, v| mapped_home(v).map(|x| c.mapped_home = x),
        show: |c| format!("{:?}", c.mapped_home).to_lowercase(),
    },
    Setting {
        name: "TUTTI_SPIN_US",
        kind: "microseconds",
        doc: "how long a wait spins before it parks; -1: by ranks and cores",
        set: |c, v| number(v).map(|x| c.spin_us = x),
        show: |c| c.spin_us.to_string(),
    },
    Setting {
        name: "TUTTI_YIELD_ROUNDS",
        kind: "count",
        doc: "how often a wait yields its core before it parks",
        set: |c, v| size(v).map(|x| c.yield_rounds = x),
        show: |c| c.yield_rounds.to_string(),
    },
    Setting {
        name: "TUTTI_MOVE_APART",
        kind: "0 | 1",
        doc: "where ranks share processors, let one of two that answer each other on one of them move to another",
        set: |c, v| flag(v).map(|x| c.move_apart = x),
        show: |c| (c.move_apart as u8).to_string(),
    },
    Setting {
        name: "TUTTI_THREAD_LANES",
        kind: "count",
        doc: "lanes in which threads communicate beside each other (1 to 8; fewer where many ranks share a host)",
        set: |c, v| size(v).map(|x| c.thread_lanes = x),
        show: |c| c.thread_lanes.to_string(),
    },
    Setting {
        name: "TUTTI_PROGRESS_THREAD",
        kind: "0 | 1",
        doc: "a thread takes in messages while the program computes: targets of one-sided operations on other hosts need not call MPI",
        set: |c, v| flag(v).map(|x| c.progress_thread = x),
        show: |c| (c.progress_thread as u8).to_string(),
    },
    Setting {
        name: "TUTTI_TUNE",
        kind: "off | known | on",
        doc: "on: try algorithms of collectives that repeat while the program runs, keep to the best, and keep it in the model file for later runs; known: take what earlier runs have learned",
        set: |c, v| one_of(&Tune::NAMES, v).map(|x| c.tune = x),
        show: |c| c.tune.name().to_string(),
    },
    Setting {
        name: "TUTTI_OFFLOAD",
        kind: "auto | on | off",
        doc: "small barriers, broadcasts and allreduces between hosts by the kernel's packet program; auto: where `tutti netd` runs",
        set: |c, v| one_of(&Offload::NAMES, v).map(|x| c.offload = x),
        show: |c| c.offload.name().to_string(),
    },
    Setting {
        name: "TUTTI_TUNE_SEARCH",
        kind: "halving | row | attributes | factorial",
        doc: "what tuning tries next: all in turn and the better half again; each in a row; one attribute after the other; the ends of all attributes first",
        set: |c, v| one_of(&TuneSearch::NAMES, v).map(|x| c.tune_search = x),
        show: |c| c.tune_search.name().to_string(),
    },
    Setting {
        name: "TUTTI_CHECK_TYPES",
        kind: "0 | 1",
        doc: "refuse a receive whose datatype does not match the sender's, and operators on MPI_CHAR (debugging)",
        set: |c, v| flag(v).map(|x| c.check_types = x),
        show: |c| (c.check_types as u8).to_string(),
    },
    Setting {
        name: "TUTTI_CHECK_ARGUMENTS",
        kind: "0 | 1",
        doc: "1 adds the one check of arguments that takes time: whether blocks that a collective receives overlap",
        set: |c, v| flag(v).map(|x| c.check_arguments = x),
        show: |c| (c.check_arguments as u8).to_string(),
    },
    Setting {
        name: "TUTTI_BACKTRACE",
        kind: "0 | 1",
        doc: "say where in its program a rank was that crashes (SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE)",
        set: |c, v| flag(v).map(|x| c.backtrace = x),
        show: |c| (c.backtrace as u8).to_string(),
    },
    Setting {
        name: "TUTTI_REPORT_LEAKS",
        kind: "0 | 1",
        doc: "say in MPI_Finalize how many requests, communicators, datatypes and others were not freed",
        set: |c, v| flag(v).map(|x| c.report_leaks = x),
        show: |c| (c.report_leaks as u8).to_string(),
    },
    Setting {
        name: "TUTTI_INITIAL_ERROR_HANDLER",
        kind: "mpi_errors_are_fatal | mpi_errors_abort | mpi_errors_return",
        doc: "error handler of MPI_COMM_WORLD and MPI_COMM_SELF from the start (mpirun --initial-errhandler)",
        set: |c, v| initial_error_handler(v).map(|x| c.initial_error_handler = x),
        show: |c| c.initial_error_handler.name().to_string(),
    },
    Setting {
        name: "TUTTI_COLLECTIVE_BYTES",
        kind: "size | auto",
        doc: "bound on the shared memory of collectives, a node (read by mpirun); 0: none; auto: by the number of ranks",
        set: |c, v| size_or_auto(v).map(|x| c.collective_bytes = x),
        show: |c| shown_or_auto(c.collective_bytes),
    },
    Setting {
        name: "TUTTI_BANK_BYTES",
        kind: "size | auto",
        doc: "shared scratch of a rank in an operation, large (read by mpirun); auto: by the number of members",
        set: |c, v| size_or_auto(v).map(|x| c.bank_bytes = x),
        show: |c| shown_or_auto(c.bank_bytes),
    },
    Setting {
        name: "TUTTI_BANK_SMALL_BYTES",
        kind: "size",
        doc: "shared scratch of a rank in an operation, small (read by mpirun)",
        set: |c, v| size(v).map(|x| c.bank_small_bytes = x),
        show: |c| c.bank_small_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_BANK_SMALL_SLOTS",
        kind: "count",
        doc: "small operations that may be under way before the first must have ended everywhere; at most 128 (read by mpirun)",
        set: |c, v| size(v).map(|x| c.bank_small_slots = x),
        show: |c| c.bank_small_slots.to_string(),
    },
    Setting {
        name: "TUTTI_ALGORITHM",
        kind: "list of collective=algorithm",
        doc: "force algorithms, for example allreduce=ring,bcast=knomial:radix=4:segment=32K:window=8",
        set: |c, v| {
            c.algorithm = v.to_string();
            Ok(())
        },
        show: |c| c.algorithm.clone(),
    },
    Setting {
        name: "TUTTI_MODEL_FILE",
        kind: "path",
        doc: "what this machine costs, as tutti probe wrote it; by default in the user's cache directory",
        set: |c, v| {
            c.model_file = v.to_string();
            Ok(())
        },
        show: |c| c.model_file.clone(),
    },
    Setting {
        name: "TUTTI_DETERMINISTIC",
        kind: "0 | 1",
        doc: "reductions combine operands in one fixed order of ranks: the same bits for any machine, binding and size",
        set: |c, v| flag(v).map(|x| c.deterministic = x),
        show: |c| (c.deterministic as u8).to_string(),
    },
    Setting {
        name: "TUTTI_EXPLAIN",
        kind: "0 | 1",
        doc: "print every choice of transport and algorithm to standard error",
        set: |c, v| flag(v).map(|x| c.explain = x),
        show: |c| (c.explain as u8).to_string(),
    },
    Setting {
        name: "TUTTI_AGENT",
        kind: "command",
        doc: "how mpirun reaches other hosts: called as COMMAND HOST PROGRAM...; {host} in it stands for the host",
        set: |c, v| {
            c.agent = v.to_string();
            Ok(())
        },
        show: |c| c.agent.clone(),
    },
    Setting {
        name: "TUTTI_DEBUGGER",
        kind: "command",
        doc: "what mpirun --debug starts each rank's program under: xterm -e gdb --args; empty: ranks wait for a debugger in MPI_Init",
        set: |c, v| {
            c.debugger = v.to_string();
            Ok(())
        },
        show: |c| c.debugger.clone(),
    },
    Setting {
        name: "TUTTI_LAUNCH_RADIX",
        kind: "count",
        doc: "other hosts that each host starts (read by mpirun); 0: the first starts all",
        set: |c, v| size(v).map(|x| c.launch_radix = x),
        show: |c| c.launch_radix.to_string(),
    },
    Setting {
        name: "TUTTI_CHECKPOINT",
        kind: "no | now | stop",
        doc: "written by a program while it runs (MPI_T): now has mpirun keep the job, stop end it with that",
        set: |c, v| one_of(&Checkpoint::NAMES, v).map(|x| c.checkpoint = x),
        show: |c| c.checkpoint.name().to_string(),
    },
    Setting {
        name: "TUTTI_CHECKPOINT_STOP",
        kind: "text",
        doc: "for tests: SET:STEP at which daemons stop themselves (SIGSTOP; read by mpirun), a step of tutti checkpoints --steps",
        set: |c, v| {
            c.checkpoint_stop = v.to_string();
            Ok(())
        },
        show: |c| c.checkpoint_stop.clone(),
    },
    Setting {
        name: "TUTTI_INTERFACE",
        kind: "name | address | network",
        doc: "interface by which hosts reach each other, for example eth0 or 10.1.0.0/16; empty: the one that leads there",
        set: |c, v| {
            c.interface = v.to_string();
            Ok(())
        },
        show: |c| c.interface.clone(),
    },
    Setting {
        name: "TUTTI_PORT_RANGE",
        kind: "LOW-HIGH",
        doc: "ports at which ranks (two each, UDP and TCP), the launcher's daemons and MPI_Open_port are reached; empty: any that are free",
        set: |c, v| port_range(v).map(|x| c.port_range = x),
        show: |c| c.port_range.map_or(String::new(), |ports| ports.to_string()),
    },
    Setting {
        name: "TUTTI_HEARTBEAT_MS",
        kind: "milliseconds",
        doc: "longest time without a word between the daemons of two hosts (read by mpirun)",
        set: |c, v| size(v).map(|x| c.heartbeat_ms = x.max(1)),
        show: |c| c.heartbeat_ms.to_string(),
    },
    Setting {
        name: "TUTTI_SILENCE_MS",
        kind: "milliseconds",
        doc: "how long another host may be silent, without its connections having failed, before the job is ended",
        set: |c, v| size(v).map(|x| c.silence_ms = x.max(1)),
        show: |c| c.silence_ms.to_string(),
    },
    Setting {
        name: "TUTTI_FOREIGN_MPI",
        kind: "refuse | start",
        doc: "what mpirun does with several ranks of a program that is linked to another MPI library, where each would be alone",
        set: |c, v| foreign_mpi(v).map(|x| c.foreign_mpi = x),
        show: |c| format!("{:?}", c.foreign_mpi).to_lowercase(),
    },
    Setting {
        name: "TUTTI_START_MS",
        kind: "milliseconds",
        doc: "how long a host may take until its daemon, or under another launcher all of its ranks, have started",
        set: |c, v| size(v).map(|x| c.start_ms = x.max(1)),
        show: |c| c.start_ms.to_string(),
    },
    Setting {
        name: "TUTTI_FABRIC",
        kind: "auto | sockets | tcp | verbs | efa | cxi | psm2 | psm3 | opx | other provider of libfabric",
        doc: "what carries messages between hosts; auto: a fast network that is there, else sockets of the system",
        set: |c, v| fabric(v).map(|x| c.fabric = x),
        show: |c| c.fabric.clone(),
    },
    Setting {
        name: "TUTTI_CONNECTIONS",
        kind: "never | on-demand | partially-static | static",
        doc: "when ranks on different hosts connect; until then they exchange datagrams",
        set: |c, v| connections(v).map(|x| c.connections = x),
        show: |c| c.connections.name().to_string(),
    },
    Setting {
        name: "TUTTI_CONNECT_MESSAGES",
        kind: "count",
        doc: "messages between two ranks after which they connect on demand",
        set: |c, v| size(v).map(|x| c.connect_messages = x),
        show: |c| c.connect_messages.to_string(),
    },
    Setting {
        name: "TUTTI_CONNECT_BYTES",
        kind: "size",
        doc: "bytes between two ranks after which they connect on demand",
        set: |c, v| size(v).map(|x| c.connect_bytes = x),
        show: |c| c.connect_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_MAX_CONNECTIONS",
        kind: "count",
        doc: "most connections of a rank at a time; 0: by the limit on descriptors",
        set: |c, v| size(v).map(|x| c.max_connections = x),
        show: |c| c.max_connections.to_string(),
    },
    Setting {
        name: "TUTTI_MULTICAST",
        kind: "auto | on | off",
        doc: "collectives between hosts as one payload for all, where the network copies it: tried after some operations of a communicator, from the first one on, or never",
        set: |c, v| multicast(v).map(|x| c.multicast = x),
        show: |c| c.multicast.name().to_string(),
    },
    Setting {
        name: "TUTTI_MULTICAST_WINDOW",
        kind: "count",
        doc: "datagrams that a sender multicasts before all have acknowledged the first",
        set: |c, v| size(v).map(|x| c.multicast_window = x.clamp(1, 4096)),
        show: |c| c.multicast_window.to_string(),
    },
    Setting {
        name: "TUTTI_ONE_SIDED",
        kind: "auto | messages",
        doc: "how one-sided communication reaches memory of other ranks of the node: directly where it can, or always by messages",
        set: |c, v| one_sided(v).map(|x| c.one_sided = x),
        show: |c| {
            let name = match c.one_sided {
                OneSided::Auto => "auto",
                OneSided::Messages => "messages",
            };
            name.to_string()
        },
    },
    Setting {
        name: "TUTTI_COUNTERS",
        kind: "0 | 1",
        doc: "at the end print what each rank has sent, by way, and its traffic with other hosts",
        set: |c, v| flag(v).map(|x| c.counters = x),
        show: |c| (c.counters as u8).to_string(),
    },
    Setting {
        name: "TUTTI_TRACE",
        kind: "path",
        doc: "at the end write a trace of all ranks there: for Perfetto, and for tutti trace",
        set: |c, v| {
            c.trace = v.to_string();
            Ok(())
        },
        show: |c| c.trace.clone(),
    },
    Setting {
        name: "TUTTI_TRACE_EVENTS",
        kind: "count",
        doc: "most events of a rank in a trace",
        set: |c, v| size(v).map(|x| c.trace_events = x),
        show: |c| c.trace_events.to_string(),
    },
    Setting {
        name: "TUTTI_STARTER",
        kind: "auto | pmix | pmi | alone",
        doc: "who started this process, if not mpirun: found out, PMIx, PMI-1 or PMI-2, or nobody (a job of its own)",
        set: |c, v| starter(v).map(|x| c.starter = x),
        show: |c| {
            let name = match c.starter {
                Starter::Auto => "auto",
                Starter::Pmix => "pmix",
                Starter::Pmi => "pmi",
                Starter::Alone => "alone",
            };
            name.to_string()
        },
    },
    Setting {
        name: "TUTTI_PMIX_LIBRARY",
        kind: "path",
        doc: "the library of PMIx; by default that of the starter if it says where it is, or libpmix.so.2 of the system",
        set: |c, v| {
            c.pmix_library = v.to_string();
            Ok(())
        },
        show: |c| c.pmix_library.clone(),
    },
];

fn size(text: &str) -> std::result::Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let wrong = || "a size such as 65536, 64K or 1M".to_string();
    let value: u64 = digits.parse().map_err(|_| wrong())?;
    value.checked_mul(1 << shift).ok_or_else(wrong)
}

fn size_or_auto(text: &str) -> std::result::Result<Option<u64>, String> {
    if text == "auto" {
        return Ok(None);
    }
    size(text).map(Some).map_err(|expected| format!("{expected}, or auto"))
}

fn shown_or_auto(value: Option<u64>) -> String {
    value.map_or("auto".to_string(), |bytes| bytes.to_string())
}

fn number(text: &str) -> std::result::Result<i64, String> {
    text.parse().map_err(|_| "a whole number".to_string())
}

fn flag(text: &str) -> std::result::Result<bool, String> {
    match text {
        "0" | "no" | "off" | "false" => Ok(false),
        "1" | "yes" | "on" | "true" => Ok(true),
        _ => Err("0 or 1".to_string()),
    }
}

/// The value of this name; else which names there are.
fn one_of<T: Copy>(names: &[(&str, T)], text: &str) -> std::result::Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let (last, others) = names.split_last().expect("a setting has values");
        format!("{} or {last}", others.join(", "))
    })
}

fn initial_error_handler(text: &str) -> std::result::Result<InitialErrorHandler, String> {
    let found = InitialErrorHandler::NAMES.iter().find(|(name, _)| *name == text);
    let names = || InitialErrorHandler::NAMES.map(|(name, _)| name).join(", ");
    found.map(|(_, handler)| *handler).ok_or_else(names)
}

fn single_copy(text: &str) -> std::result::Result<SingleCopy, String> {
    use SingleCopy::{Always, Auto, Never};
    one_of(&[("auto", Auto), ("always", Always), ("never", Never)], text)
}

fn remote_read(text: &str) -> std::result::Result<RemoteRead, String> {
    use RemoteRead::{Auto, Never};
    one_of(&[("auto", Auto), ("never", Never)], text)
}

fn fabric(text: &str) -> std::result::Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b";_-".contains(&byte);
    let named = !text.is_empty() && text.bytes().all(plain);
    if named { Ok(text.to_string()) } else { Err("auto, sockets or a provider of libfabric".to_string()) }
}

fn port_range(text: &str) -> std::result::Result<Option<PortRange>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| "a range of ports such as 40000-40100".to_string())
}

fn connections(text: &str) -> std::result::Result<Connections, String> {
    one_of(&Connections::NAMES, text)
}

fn multicast(text: &str) -> std::result::Result<Multicast, String> {
    one_of(&Multicast::NAMES, text)
}

fn one_sided(text: &str) -> std::result::Result<OneSided, String> {
    use OneSided::{Auto, Messages};
    one_of(&[("auto", Auto), ("messages", Messages)], text)
}

fn copy_by(text: &str) -> std::result::Result<CopyBy, String> {
    use CopyBy::{Attach, Auto, Knem, Xpmem};
    one_of(&[("auto", Auto), ("attach", Attach), ("xpmem", Xpmem), ("knem", Knem)], text)
}

fn starter(text: &str) -> std::result::Result<Starter, String> {
    use Starter::{Alone, Auto, Pmi, Pmix};
    one_of(&[("auto", Auto), ("pmix", Pmix), ("pmi", Pmi), ("alone", Alone)], text)
}

fn foreign_mpi(text: &str) -> std::result::Result<ForeignMpi, String> {
    one_of(&[("refuse", ForeignMpi::Refuse), ("start", ForeignMpi::Start)], text)
}

fn mapped_home(text: &str) -> std::result::Result<MappedHome, String> {
    use MappedHome::{Always, Auto, Never};
    one_of(&[("auto", Auto), ("always", Always), ("never", Never)], text)
}

fn mapped(text: &str) -> std::result::Result<Mapped, String> {
    use Mapped::{Always, Auto, Never};
    one_of(&[("auto", Auto), ("always", Always), ("never", Never)], text)
}
