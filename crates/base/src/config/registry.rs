//! The rows of the registry, and how the values of settings are written.

use std::fmt;

use super::{
    Checkpoint, CheckpointPacking, CheckpointWriting, Config, Connections, CopyBy, ForeignMpi,
    InitialErrorHandler, Mapped, MappedHome, Multicast, Offload, OneSided, RemoteRead, SingleCopy, Starter,
    Tune, TuneSearch,
};
use crate::PortRange;

/// What the value of a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Bytes, as 65536, 64K or 1M.
    Size,
    /// A number that is not negative.
    Count,
    /// A time.
    Milliseconds,
    /// A time; negative: by the machine.
    Microseconds,
    /// One of these words.
    Words(&'static [&'static str]),
    /// What this says.
    Text(&'static str),
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueKind::Size => f.write_str("size"),
            ValueKind::Count => f.write_str("count"),
            ValueKind::Milliseconds => f.write_str("milliseconds"),
            ValueKind::Microseconds => f.write_str("microseconds"),
            ValueKind::Words(words) => f.write_str(&words.join(" | ")),
            ValueKind::Text(text) => f.write_str(text),
        }
    }
}

/// Who reads a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only mpirun, before there is a process.
    Launcher,
    /// Each process for itself.
    Process,
    /// All processes of a job, which have to have the same value.
    Job,
}

/// Whom a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Who runs programs.
    User,
    /// Who works on Tutti or looks for a fault in it.
    Developer,
}

/// One row of the registry.
pub struct Setting {
    /// Name of the environment variable.
    pub name: &'static str,
    /// What a value is.
    pub kind: ValueKind,
    /// Who reads it, and who must agree on it.
    pub scope: Scope,
    /// Whom `tutti info` shows it to.
    pub audience: Audience,
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
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::User,
        doc: "largest message sent before its receive is known",
        set: |c, v| size(v).map(|x| c.eager_bytes = x),
        show: |c| c.eager_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_CONNECTED_EAGER_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "the same between hosts, over a connection: to ask takes a journey there and back",
        set: |c, v| size(v).map(|x| c.connected_eager_bytes = x),
        show: |c| c.connected_eager_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_UNEXPECTED_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::User,
        doc: "bound on what is kept of messages whose receive is not posted yet: payload, and 128 bytes each; beyond it senders wait",
        set: |c, v| size(v).map(|x| c.unexpected_bytes = x),
        show: |c| c.unexpected_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_RING_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "shared ring between two processes that talk; 0: by the number of ranks",
        set: |c, v| size(v).map(|x| c.ring_bytes = x),
        show: |c| c.ring_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_FRAGMENT_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "piece in which a long message passes through shared memory",
        set: |c, v| size(v).map(|x| c.fragment_bytes = x),
        show: |c| c.fragment_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_SINGLE_COPY",
        kind: ValueKind::Words(&["auto", "always", "never"]),
        scope: Scope::Process,
        audience: Audience::User,
        doc: "copy long messages by process_vm_readv",
        set: |c, v| single_copy(v).map(|x| c.single_copy = x),
        show: |c| format!("{:?}", c.single_copy).to_lowercase(),
    },
    Setting {
        name: "TUTTI_SINGLE_COPY_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "from here on TUTTI_SINGLE_COPY=auto reads in any case, below where that is the faster way at present",
        set: |c, v| size(v).map(|x| c.single_copy_bytes = x),
        show: |c| c.single_copy_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_IO_MOUNT",
        kind: ValueKind::Text("file"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "the mount file of the io-servers that have the files whose names begin with tutti:",
        set: |c, v| {
            c.io_mount = v.to_string();
            Ok(())
        },
        show: |c| c.io_mount.clone(),
    },
    Setting {
        name: "TUTTI_IO_NEAR",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "whether io-servers on this host lend their open files, so that data do not pass through them",
        set: |c, v| flag(v).map(|x| c.io_near = x),
        show: |c| u8::from(c.io_near).to_string(),
    },
    Setting {
        name: "TUTTI_REMOTE_READ",
        kind: ValueKind::Words(&["auto", "never"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "whether a network of libfabric reads long messages by itself (FI_RMA); auto: where its provider offers it",
        set: |c, v| remote_read(v).map(|x| c.remote_read = x),
        show: |c| format!("{:?}", c.remote_read).to_lowercase(),
    },
    Setting {
        name: "TUTTI_REMOTE_READ_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "smallest message between hosts that its receiver reads without a copy; 0: all are streamed",
        set: |c, v| size(v).map(|x| c.remote_read_bytes = x),
        show: |c| c.remote_read_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_COPY_BY",
        kind: ValueKind::Words(&["auto", "attach", "xpmem", "knem"]),
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "what collectives reach private memory of peers by; attach: process_vm_readv",
        set: |c, v| copy_by(v).map(|x| c.copy_by = x),
        show: |c| format!("{:?}", c.copy_by).to_lowercase(),
    },
    Setting {
        name: "TUTTI_MAPPED",
        kind: ValueKind::Words(&["auto", "always", "never"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "let peers work in buffers in place: their pages become shared memory after some uses",
        set: |c, v| mapped(v).map(|x| c.mapped = x),
        show: |c| format!("{:?}", c.mapped).to_lowercase(),
    },
    Setting {
        name: "TUTTI_MAP_AFTER",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "times that a buffer's bytes are lent before it is mapped where TUTTI_MAPPED=auto",
        set: |c, v| size(v).map(|x| c.map_after = x),
        show: |c| c.map_after.to_string(),
    },
    Setting {
        name: "TUTTI_MAP_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "smallest buffer that is mapped",
        set: |c, v| size(v).map(|x| c.map_bytes = x),
        show: |c| c.map_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_MAPPED_LIMIT",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "most mapped memory of a process; a fork copies it",
        set: |c, v| size(v).map(|x| c.mapped_limit = x),
        show: |c| c.mapped_limit.to_string(),
    },
    Setting {
        name: "TUTTI_MAPPED_WATCH",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "have the kernel tell when mapped memory is unmapped or moved, instead of asking at each use",
        set: |c, v| flag(v).map(|x| c.mapped_watch = x),
        show: |c| u8::from(c.mapped_watch).to_string(),
    },
    Setting {
        name: "TUTTI_MAPPED_HOME",
        kind: ValueKind::Words(&["auto", "always", "never"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "write mapped memory that peers have read back to main memory: where they are far and it changes each time",
        set: |c, v| mapped_home(v).map(|x| c.mapped_home = x),
        show: |c| format!("{:?}", c.mapped_home).to_lowercase(),
    },
    Setting {
        name: "TUTTI_SPIN_US",
        kind: ValueKind::Microseconds,
        scope: Scope::Process,
        audience: Audience::User,
        doc: "how long a wait spins before it parks; -1: by ranks and cores",
        set: |c, v| number(v).map(|x| c.spin_us = x),
        show: |c| c.spin_us.to_string(),
    },
    Setting {
        name: "TUTTI_YIELD_ROUNDS",
        kind: ValueKind::Count,
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "how often a wait yields its core before it parks",
        set: |c, v| size(v).map(|x| c.yield_rounds = x),
        show: |c| c.yield_rounds.to_string(),
    },
    Setting {
        name: "TUTTI_MOVE_APART",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "where ranks share processors, let one of two that answer each other on one of them move to another",
        set: |c, v| flag(v).map(|x| c.move_apart = x),
        show: |c| (c.move_apart as u8).to_string(),
    },
    Setting {
        name: "TUTTI_THREAD_LANES",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "lanes in which threads communicate beside each other (1 to 8; fewer where many ranks share a host)",
        set: |c, v| size(v).map(|x| c.thread_lanes = x),
        show: |c| c.thread_lanes.to_string(),
    },
    Setting {
        name: "TUTTI_PROGRESS_THREAD",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "a thread takes in messages while the program computes: targets of one-sided operations on other hosts need not call MPI",
        set: |c, v| flag(v).map(|x| c.progress_thread = x),
        show: |c| (c.progress_thread as u8).to_string(),
    },
    Setting {
        name: "TUTTI_TUNE",
        kind: ValueKind::Words(&["off", "known", "on"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "on: try algorithms of collectives that repeat while the program runs, keep to the best, and keep it in the model file for later runs; known: take what earlier runs have learned",
        set: |c, v| one_of(&Tune::NAMES, v).map(|x| c.tune = x),
        show: |c| c.tune.name().to_string(),
    },
    Setting {
        name: "TUTTI_OFFLOAD",
        kind: ValueKind::Words(&["auto", "on", "off"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "small barriers, broadcasts and allreduces between hosts by the kernel's packet program; auto: where `tutti netd` runs",
        set: |c, v| one_of(&Offload::NAMES, v).map(|x| c.offload = x),
        show: |c| c.offload.name().to_string(),
    },
    Setting {
        name: "TUTTI_TUNE_SEARCH",
        kind: ValueKind::Words(&["halving", "row", "attributes", "factorial"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "what tuning tries next: all in turn and the better half again; each in a row; one attribute after the other; the ends of all attributes first",
        set: |c, v| one_of(&TuneSearch::NAMES, v).map(|x| c.tune_search = x),
        show: |c| c.tune_search.name().to_string(),
    },
    Setting {
        name: "TUTTI_CHECK_TYPES",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "refuse a receive whose datatype does not match the sender's, and operators on MPI_CHAR (debugging)",
        set: |c, v| flag(v).map(|x| c.check_types = x),
        show: |c| (c.check_types as u8).to_string(),
    },
    Setting {
        name: "TUTTI_CHECK_ARGUMENTS",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Process,
        audience: Audience::User,
        doc: "1 adds the one check of arguments that takes time: whether blocks that a collective receives overlap",
        set: |c, v| flag(v).map(|x| c.check_arguments = x),
        show: |c| (c.check_arguments as u8).to_string(),
    },
    Setting {
        name: "TUTTI_BACKTRACE",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "say where in its program a rank was that crashes (SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE)",
        set: |c, v| flag(v).map(|x| c.backtrace = x),
        show: |c| (c.backtrace as u8).to_string(),
    },
    Setting {
        name: "TUTTI_REPORT_LEAKS",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "say in MPI_Finalize how many requests, communicators, datatypes and others were not freed",
        set: |c, v| flag(v).map(|x| c.report_leaks = x),
        show: |c| (c.report_leaks as u8).to_string(),
    },
    Setting {
        name: "TUTTI_INITIAL_ERROR_HANDLER",
        kind: ValueKind::Words(&["mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "error handler of MPI_COMM_WORLD and MPI_COMM_SELF from the start (mpirun --initial-errhandler)",
        set: |c, v| initial_error_handler(v).map(|x| c.initial_error_handler = x),
        show: |c| c.initial_error_handler.name().to_string(),
    },
    Setting {
        name: "TUTTI_COLLECTIVE_BYTES",
        kind: ValueKind::Text("size | auto"),
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "bound on the shared memory of collectives, a node; 0: none; auto: by the number of ranks",
        set: |c, v| size_or_auto(v).map(|x| c.collective_bytes = x),
        show: |c| shown_or_auto(c.collective_bytes),
    },
    Setting {
        name: "TUTTI_BANK_BYTES",
        kind: ValueKind::Text("size | auto"),
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "shared scratch of a rank in an operation, large; auto: by the number of members",
        set: |c, v| size_or_auto(v).map(|x| c.bank_bytes = x),
        show: |c| shown_or_auto(c.bank_bytes),
    },
    Setting {
        name: "TUTTI_BANK_SMALL_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "shared scratch of a rank in an operation, small",
        set: |c, v| size(v).map(|x| c.bank_small_bytes = x),
        show: |c| c.bank_small_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_BANK_SMALL_SLOTS",
        kind: ValueKind::Count,
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "small operations that may be under way before the first must have ended everywhere; at most 128",
        set: |c, v| size(v).map(|x| c.bank_small_slots = x),
        show: |c| c.bank_small_slots.to_string(),
    },
    Setting {
        name: "TUTTI_ALGORITHM",
        kind: ValueKind::Text("list of collective=algorithm"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "force algorithms, for example allreduce=ring,bcast=knomial:radix=4:segment=32K:window=8",
        set: |c, v| {
            c.algorithm = v.to_string();
            Ok(())
        },
        show: |c| c.algorithm.clone(),
    },
    Setting {
        name: "TUTTI_MODEL_FILE",
        kind: ValueKind::Text("path"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "what this machine costs, as tutti probe wrote it; by default in the user's cache directory",
        set: |c, v| {
            c.model_file = v.to_string();
            Ok(())
        },
        show: |c| c.model_file.clone(),
    },
    Setting {
        name: "TUTTI_DETERMINISTIC",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "reductions combine operands in one fixed order of ranks: the same bits for any machine, binding and size",
        set: |c, v| flag(v).map(|x| c.deterministic = x),
        show: |c| (c.deterministic as u8).to_string(),
    },
    Setting {
        name: "TUTTI_EXPLAIN",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Process,
        audience: Audience::User,
        doc: "print every choice of transport and algorithm to standard error",
        set: |c, v| flag(v).map(|x| c.explain = x),
        show: |c| (c.explain as u8).to_string(),
    },
    Setting {
        name: "TUTTI_AGENT",
        kind: ValueKind::Text("command"),
        scope: Scope::Launcher,
        audience: Audience::User,
        doc: "how mpirun reaches other hosts: called as COMMAND HOST PROGRAM...; {host} in it stands for the host",
        set: |c, v| {
            c.agent = v.to_string();
            Ok(())
        },
        show: |c| c.agent.clone(),
    },
    Setting {
        name: "TUTTI_DEBUGGER",
        kind: ValueKind::Text("command"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "what mpirun --debug starts each rank's program under: xterm -e gdb --args; empty: ranks wait for a debugger in MPI_Init",
        set: |c, v| {
            c.debugger = v.to_string();
            Ok(())
        },
        show: |c| c.debugger.clone(),
    },
    Setting {
        name: "TUTTI_LAUNCH_RADIX",
        kind: ValueKind::Count,
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "other hosts that each host starts; 0: the first starts all",
        set: |c, v| size(v).map(|x| c.launch_radix = x),
        show: |c| c.launch_radix.to_string(),
    },
    Setting {
        name: "TUTTI_CHECKPOINT",
        kind: ValueKind::Words(&["no", "now", "stop"]),
        scope: Scope::Process,
        audience: Audience::User,
        doc: "written by a program while it runs (MPI_T): now has mpirun keep the job, stop end it with that",
        set: |c, v| one_of(&Checkpoint::NAMES, v).map(|x| c.checkpoint = x),
        show: |c| c.checkpoint.name().to_string(),
    },
    Setting {
        name: "TUTTI_CHECKPOINT_WRITING",
        kind: ValueKind::Words(&["auto", "still", "fork"]),
        scope: Scope::Launcher,
        audience: Audience::User,
        doc: "checkpoints are written while ranks stand still, or from copies of them (fork) while they go on; auto: as the pause is shorter",
        set: |c, v| one_of(&CheckpointWriting::NAMES, v).map(|x| c.checkpoint_writing = x),
        show: |c| c.checkpoint_writing.name().to_string(),
    },
    Setting {
        name: "TUTTI_CHECKPOINT_PACKING",
        kind: ValueKind::Words(&["auto", "never", "always"]),
        scope: Scope::Launcher,
        audience: Audience::User,
        doc: "whether checkpoints are packed (Zstandard); auto: where that is faster than the disk",
        set: |c, v| one_of(&CheckpointPacking::NAMES, v).map(|x| c.checkpoint_packing = x),
        show: |c| c.checkpoint_packing.name().to_string(),
    },
    Setting {
        name: "TUTTI_CHECKPOINT_STOP",
        kind: ValueKind::Text("text"),
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "for tests: SET:STEP at which daemons stop themselves (SIGSTOP), a step of tutti checkpoints --steps",
        set: |c, v| {
            c.checkpoint_stop = v.to_string();
            Ok(())
        },
        show: |c| c.checkpoint_stop.clone(),
    },
    Setting {
        name: "TUTTI_INTERFACE",
        kind: ValueKind::Text("name | address | network"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "interface by which hosts reach each other, for example eth0 or 10.1.0.0/16; empty: the one that leads there",
        set: |c, v| {
            c.interface = v.to_string();
            Ok(())
        },
        show: |c| c.interface.clone(),
    },
    Setting {
        name: "TUTTI_PORT_RANGE",
        kind: ValueKind::Text("LOW-HIGH"),
        scope: Scope::Process,
        audience: Audience::User,
        doc: "ports at which ranks (two each, UDP and TCP), the launcher's daemons and MPI_Open_port are reached; empty: any that are free",
        set: |c, v| port_range(v).map(|x| c.port_range = x),
        show: |c| c.port_range.map_or(String::new(), |ports| ports.to_string()),
    },
    Setting {
        name: "TUTTI_HEARTBEAT_MS",
        kind: ValueKind::Milliseconds,
        scope: Scope::Launcher,
        audience: Audience::Developer,
        doc: "longest time without a word between the daemons of two hosts",
        set: |c, v| size(v).map(|x| c.heartbeat_ms = x.max(1)),
        show: |c| c.heartbeat_ms.to_string(),
    },
    Setting {
        name: "TUTTI_SILENCE_MS",
        kind: ValueKind::Milliseconds,
        scope: Scope::Process,
        audience: Audience::User,
        doc: "how long another host may be silent, without its connections having failed, before the job is ended",
        set: |c, v| size(v).map(|x| c.silence_ms = x.max(1)),
        show: |c| c.silence_ms.to_string(),
    },
    Setting {
        name: "TUTTI_FOREIGN_MPI",
        kind: ValueKind::Words(&["refuse", "start"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "what mpirun does with several ranks of a program that is linked to another MPI library, where each would be alone",
        set: |c, v| foreign_mpi(v).map(|x| c.foreign_mpi = x),
        show: |c| format!("{:?}", c.foreign_mpi).to_lowercase(),
    },
    Setting {
        name: "TUTTI_START_MS",
        kind: ValueKind::Milliseconds,
        scope: Scope::Launcher,
        audience: Audience::User,
        doc: "how long a host may take until its daemon, or under another launcher all of its ranks, have started",
        set: |c, v| size(v).map(|x| c.start_ms = x.max(1)),
        show: |c| c.start_ms.to_string(),
    },
    Setting {
        name: "TUTTI_FABRIC",
        kind: ValueKind::Text(
            "auto | sockets | tcp | verbs | efa | cxi | psm2 | psm3 | opx | other provider of libfabric",
        ),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "what carries messages between hosts; auto: a fast network that is there, else sockets of the system",
        set: |c, v| fabric(v).map(|x| c.fabric = x),
        show: |c| c.fabric.clone(),
    },
    Setting {
        name: "TUTTI_CONNECTIONS",
        kind: ValueKind::Words(&["never", "on-demand", "partially-static", "static"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "when ranks on different hosts connect; until then they exchange datagrams",
        set: |c, v| connections(v).map(|x| c.connections = x),
        show: |c| c.connections.name().to_string(),
    },
    Setting {
        name: "TUTTI_CONNECT_MESSAGES",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "messages between two ranks after which they connect on demand",
        set: |c, v| size(v).map(|x| c.connect_messages = x),
        show: |c| c.connect_messages.to_string(),
    },
    Setting {
        name: "TUTTI_CONNECT_BYTES",
        kind: ValueKind::Size,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "bytes between two ranks after which they connect on demand",
        set: |c, v| size(v).map(|x| c.connect_bytes = x),
        show: |c| c.connect_bytes.to_string(),
    },
    Setting {
        name: "TUTTI_MAX_CONNECTIONS",
        kind: ValueKind::Count,
        scope: Scope::Process,
        audience: Audience::Developer,
        doc: "most connections of a rank at a time; 0: by the limit on descriptors",
        set: |c, v| size(v).map(|x| c.max_connections = x),
        show: |c| c.max_connections.to_string(),
    },
    Setting {
        name: "TUTTI_MULTICAST",
        kind: ValueKind::Words(&["auto", "on", "off"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "collectives between hosts as one payload for all, where the network copies it: tried after some operations of a communicator, from the first one on, or never",
        set: |c, v| multicast(v).map(|x| c.multicast = x),
        show: |c| c.multicast.name().to_string(),
    },
    Setting {
        name: "TUTTI_MULTICAST_WINDOW",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "datagrams that a sender multicasts before all have acknowledged the first",
        set: |c, v| size(v).map(|x| c.multicast_window = x.clamp(1, 4096)),
        show: |c| c.multicast_window.to_string(),
    },
    Setting {
        name: "TUTTI_ONE_SIDED",
        kind: ValueKind::Words(&["auto", "messages"]),
        scope: Scope::Job,
        audience: Audience::Developer,
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
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Process,
        audience: Audience::User,
        doc: "at the end print what each rank has sent, by way, and its traffic with other hosts",
        set: |c, v| flag(v).map(|x| c.counters = x),
        show: |c| (c.counters as u8).to_string(),
    },
    Setting {
        name: "TUTTI_TRACE",
        kind: ValueKind::Text("path"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "at the end write a trace of all ranks there: for Perfetto, and for tutti trace",
        set: |c, v| {
            c.trace = v.to_string();
            Ok(())
        },
        show: |c| c.trace.clone(),
    },
    Setting {
        name: "TUTTI_TRACE_EVENTS",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "most events of a rank in a trace",
        set: |c, v| size(v).map(|x| c.trace_events = x),
        show: |c| c.trace_events.to_string(),
    },
    Setting {
        name: "TUTTI_STARTER",
        kind: ValueKind::Words(&["auto", "pmix", "pmi", "alone"]),
        scope: Scope::Job,
        audience: Audience::User,
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
        kind: ValueKind::Text("path"),
        scope: Scope::Process,
        audience: Audience::Developer,
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
