//! The configuration registry: every setting of Tutti is one line of [`SETTINGS`].
//!
//! A setting is an environment variable `TUTTI_NAME`. It is parsed once, when a process starts, into
//! the typed field of [`Config`] it belongs to; a wrong value or an unknown `TUTTI_` name is refused
//! by name. `tutti info` prints this table; MPI_T will show it as control variables.
//!
//! To add a setting: a field in [`Config`], a row in [`SETTINGS`]. Nothing else.

use std::fmt;

use crate::BankSizes;

/// When to copy large messages straight out of the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleCopy {
    /// When a real read of the peer's memory succeeds and the copy is expected to pay.
    Auto,
    /// Whenever a real read of the peer's memory succeeds.
    Always,
    /// Never: a pipelined double copy through shared memory.
    Never,
}

/// What reaches a peer's private memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyBy {
    /// XPMEM where its device is there, else process_vm_readv, else KNEM.
    Auto,
    /// process_vm_readv and process_vm_writev.
    Attach,
    /// XPMEM.
    Xpmem,
    /// KNEM.
    Knem,
}

/// How one-sided communication reaches memory of other ranks of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneSided {
    /// By load and store or the system's calls where that is possible.
    Auto,
    /// By messages, as between hosts.
    Messages,
}

/// Whether buffers that are used often become shared memory in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// After some uses.
    Auto,
    /// At the first use.
    Always,
    /// Never.
    Never,
}

/// When ranks on different hosts connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// Never: everything goes by datagrams.
    Never,
    /// Pairs that have exchanged enough.
    OnDemand,
    /// As on demand, and the neighbours at +-2^j from the start.
    PartiallyStatic,
    /// Everybody from the start.
    Static,
}

impl Connections {
    const NAMES: [(&str, Connections); 4] = [
        ("never", Connections::Never),
        ("on-demand", Connections::OnDemand),
        ("partially-static", Connections::PartiallyStatic),
        ("static", Connections::Static),
    ];

    fn name(self) -> &'static str {
        Connections::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Who has started this process, where it is not our own launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// Whom the environment shows.
    Auto,
    /// A server of PMIx.
    Pmix,
    /// One that speaks PMI-1 or PMI-2.
    Pmi,
    /// Nobody: the process is a job of its own.
    Alone,
}

/// All settings, typed. Sizes in bytes, times with their unit in the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Largest message that is sent before its receiver asks for it.
    pub eager_bytes: u64,
    /// Bound on eager payload kept for receives that are not posted yet, a process.
    pub unexpected_bytes: u64,
    /// Size of the shared payload ring between two processes that talk (0: by the number of ranks).
    pub ring_bytes: u64,
    /// Piece in which a long message passes through shared memory.
    pub fragment_bytes: u64,
    /// Use of process_vm_readv.
    pub single_copy: SingleCopy,
    /// Smallest message between hosts that its receiver reads (0: none).
    pub remote_read_bytes: u64,
    /// Smallest message for a single copy.
    pub single_copy_bytes: u64,
    /// Back end of collectives for memory that is not mapped.
    pub copy_by: CopyBy,
    /// How one-sided communication reaches memory of other ranks of the node.
    pub one_sided: OneSided,
    /// Mapping of buffers into peers.
    pub mapped: Mapped,
    /// Uses of a buffer by collective operations before it is mapped.
    pub map_after: u64,
    /// Smallest buffer that is mapped, in whole pages.
    pub map_bytes: u64,
    /// Most memory of a process that is mapped. A fork copies it.
    pub mapped_limit: u64,
    /// How long a wait spins before it yields and parks (-1: by the number of ranks and cores).
    pub spin_us: i64,
    /// How often a wait yields its core before it parks.
    pub yield_rounds: u64,
    /// Most lanes, in which threads of a process communicate beside each other.
    pub thread_lanes: u64,
    /// Compare the datatypes of sender and receiver (debugging).
    pub check_types: bool,
    /// Check arguments of MPI functions.
    pub check_arguments: bool,
    /// Room for the banks of all communicators of a node (`None`: by the number of ranks).
    pub collective_bytes: Option<u64>,
    /// Payload of a large slot of a bank (`None`: by the number of members).
    pub bank_bytes: Option<u64>,
    /// Payload of a small slot of a bank.
    pub bank_small_bytes: u64,
    /// Small slots of a bank.
    pub bank_small_slots: u64,
    /// Force the algorithm of collectives: `bcast=knomial:radix=4,allreduce=ring`.
    pub algorithm: String,
    /// The file with what this machine costs; empty: see [`Config::model_path`].
    pub model_file: String,
    /// Reductions give the same bits whatever the machine, the binding and the algorithm.
    pub deterministic: bool,
    /// Print each choice that the library makes.
    pub explain: bool,
    /// What starts daemons on other hosts; empty: ssh, or srun inside Slurm.
    pub agent: String,
    /// Other hosts that each host starts; 0: all are started by the first.
    pub launch_radix: u64,
    /// The interface by which hosts reach each other: a name, an address or a network; empty: the one that leads there.
    pub interface: String,
    /// Longest time without a word between two daemons.
    pub heartbeat_ms: u64,
    /// How long a host may be silent before it counts as lost.
    pub silence_ms: u64,
    /// How long a host may take to start its daemon, or under another launcher all of its ranks.
    pub start_ms: u64,
    /// What carries messages between hosts: `auto`, `sockets`, or a provider of libfabric.
    pub fabric: String,
    /// When ranks on different hosts connect.
    pub connections: Connections,
    /// Messages between two ranks after which they connect.
    pub connect_messages: u64,
    /// Bytes between two ranks after which they connect.
    pub connect_bytes: u64,
    /// Most connections of a rank at a time (0: by the limit on descriptors).
    pub max_connections: u64,
    /// Print what was counted of the traffic with other hosts.
    pub counters: bool,
    /// The file for the trace of all ranks; empty: none.
    pub trace: String,
    /// Most events of a rank in a trace.
    pub trace_events: u64,
    /// Which starter to believe in, where it is not our own.
    pub starter: Starter,
    /// The file of the PMIx library (empty: the starter's or the system's).
    pub pmix_library: String,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            eager_bytes: 16 << 10,
            unexpected_bytes: 64 << 20,
            ring_bytes: 0,
            fragment_bytes: 32 << 10,
            single_copy: SingleCopy::Auto,
            remote_read_bytes: 256 << 10,
            single_copy_bytes: 64 << 20,
            copy_by: CopyBy::Auto,
            one_sided: OneSided::Auto,
            mapped: Mapped::Auto,
            map_after: 20,
            map_bytes: 32 << 10,
            mapped_limit: 1 << 30,
            spin_us: -1,
            yield_rounds: 64,
            thread_lanes: 8,
            check_types: false,
            check_arguments: true,
            collective_bytes: None,
            bank_bytes: None,
            bank_small_bytes: 4096,
            bank_small_slots: 64,
            algorithm: String::new(),
            model_file: String::new(),
            deterministic: false,
            explain: false,
            agent: String::new(),
            launch_radix: 16,
            interface: String::new(),
            heartbeat_ms: 1000,
            silence_ms: 5000,
            start_ms: 60_000,
            fabric: "auto".to_string(),
            connections: Connections::OnDemand,
            connect_messages: 16,
            connect_bytes: 256 << 10,
            max_connections: 0,
            counters: false,
            trace: String::new(),
            trace_events: 100_000,
            starter: Starter::Auto,
            pmix_library: String::new(),
        }
    }
}

/// One row of the registry.
pub struct Setting {
    /// Name of the environment variable.
    pub name: &'static str,
    /// Type and unit, for people.
    pub kind: &'static str,
    /// What it does.
    pub doc: &'static str,
    set: fn(&mut Config, &str) -> std::result::Result<(), String>,
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
        name: "TUTTI_UNEXPECTED_BYTES",
        kind: "size",
        doc: "bound on payload kept for receives not posted yet; beyond it senders wait",
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
        doc: "smallest message for a single copy where TUTTI_SINGLE_COPY=auto",
        set: |c, v| size(v).map(|x| c.single_copy_bytes = x),
        show: |c| c.single_copy_bytes.to_string(),
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
        doc: "uses of a buffer before it is mapped where TUTTI_MAPPED=auto",
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
        name: "TUTTI_THREAD_LANES",
        kind: "count",
        doc: "lanes in which threads communicate beside each other (1 to 8; fewer where many ranks share a host)",
        set: |c, v| size(v).map(|x| c.thread_lanes = x),
        show: |c| c.thread_lanes.to_string(),
    },
    Setting {
        name: "TUTTI_CHECK_TYPES",
        kind: "0 | 1",
        doc: "refuse a receive whose datatype does not match the sender's (debugging)",
        set: |c, v| flag(v).map(|x| c.check_types = x),
        show: |c| (c.check_types as u8).to_string(),
    },
    Setting {
        name: "TUTTI_CHECK_ARGUMENTS",
        kind: "0 | 1",
        doc: "check the arguments of MPI functions",
        set: |c, v| flag(v).map(|x| c.check_arguments = x),
        show: |c| (c.check_arguments as u8).to_string(),
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
        doc: "small operations that may be under way before the first must have ended everywhere; at most 64 (read by mpirun)",
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
        name: "TUTTI_LAUNCH_RADIX",
        kind: "count",
        doc: "other hosts that each host starts (read by mpirun); 0: the first starts all",
        set: |c, v| size(v).map(|x| c.launch_radix = x),
        show: |c| c.launch_radix.to_string(),
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
        name: "TUTTI_HEARTBEAT_MS",
        kind: "milliseconds",
        doc: "longest time without a word between the daemons of two hosts (read by mpirun)",
        set: |c, v| size(v).map(|x| c.heartbeat_ms = x.max(1)),
        show: |c| c.heartbeat_ms.to_string(),
    },
    Setting {
        name: "TUTTI_SILENCE_MS",
        kind: "milliseconds",
        doc: "how long a host may be silent before the job is ended (read by mpirun)",
        set: |c, v| size(v).map(|x| c.silence_ms = x.max(1)),
        show: |c| c.silence_ms.to_string(),
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

/// Most lanes: sets of rings between the ranks of a host, each used by other threads of them.
pub const MAX_LANES: u32 = 8;
/// Most rings of all lanes of a host, unless one lane has more.
const RINGS_OF_LANES: u64 = 8 * 64 * 64;

/// Names in the `TUTTI_` space that are no settings of the library: what the launcher and the library say to each
/// other, and what the compiler wrappers read.
pub const INTERNAL_NAMES: &[&str] = &[
    "TUTTI_JOB_FD",
    "TUTTI_JOB_RANK",
    "TUTTI_DIRECTORY_FD",
    "TUTTI_BELL_FDS",
    "TUTTI_PARENT_PORT",
    "TUTTI_INITIAL_ERROR_HANDLER",
    "TUTTI_CC",
    "TUTTI_CXX",
];

/// A setting that could not be taken, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The environment variable.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (tutti info lists all settings)", self.name, self.reason)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads all settings from the environment of this process.
    ///
    /// # Errors
    /// The first variable whose value does not parse, or an unknown name that begins with `TUTTI_`.
    pub fn from_env() -> std::result::Result<Config, ConfigError> {
        let pairs = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Config::from_pairs(pairs)
    }

    /// The algorithm (with parameters, if they follow) that [`Config::algorithm`] names for a collective.
    pub fn algorithm_of(&self, collective: &str) -> Option<&str> {
        let mut entries = self.algorithm.split(',').filter_map(|entry| entry.split_once('='));
        entries.find(|(name, _)| name.trim() == collective).map(|(_, algorithm)| algorithm.trim())
    }

    /// The file with what the machine `host` of `processors` processors costs: the one that is set, or else one in the
    /// user's cache directory, which `variable` leads to (the XDG base directories). `None` without one.
    pub fn model_path(
        &self,
        host: &str,
        processors: usize,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        if !self.model_file.is_empty() {
            return Some(self.model_file.clone());
        }
        let absolute = |name| variable(name).filter(|path| path.starts_with('/'));
        let home = || absolute("HOME").map(|home| home + "/.cache");
        let cache = absolute("XDG_CACHE_HOME").or_else(home)?;
        Some(format!("{cache}/tutti/MODEL-{host}-{processors}"))
    }

    /// Lanes of a host with so many ranks: each has a ring for every pair of them, in address space if not in memory.
    pub fn lanes_for(&self, ranks: u32) -> u32 {
        let pairs = u64::from(ranks.max(1)).pow(2);
        (RINGS_OF_LANES / pairs).min(self.thread_lanes).clamp(1, MAX_LANES.into()) as u32
    }

    /// Bytes of the shared ring between two processes on a node with `ranks` of them, for a launcher that
    /// creates the job object.
    ///
    /// A ring is best somewhat larger than a processor's own cache (2 MiB moves 3 to 6 times what 64 KiB
    /// does, see the transport's benchmark). Where many ranks talk to one, their rings together are larger
    /// than its cache anyway, so all rings of one receiver take 8 MiB when all are in use.
    pub fn ring_bytes_for(&self, ranks: u32) -> u64 {
        let bytes = match self.ring_bytes {
            0 => ((8 << 20) / u64::from(ranks.max(1)).next_power_of_two()).clamp(64 << 10, 2 << 20),
            stated => stated.max(4096),
        };
        bytes.next_multiple_of(4096)
    }

    /// Sizes of banks on a node with `ranks` of them, for a launcher that creates the job object.
    pub fn bank_sizes_for(&self, ranks: u32) -> BankSizes {
        let (area, large) = (self.collective_bytes, self.bank_bytes);
        BankSizes::new(area, large, self.bank_small_bytes, self.bank_small_slots, ranks)
    }

    /// Reads settings from `(name, value)` pairs; names outside `TUTTI_` are passed over.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn from_pairs(
        pairs: impl Iterator<Item = (String, String)>,
    ) -> std::result::Result<Config, ConfigError> {
        let mut config = Config::default();
        for (name, value) in pairs.filter(|(name, _)| name.starts_with("TUTTI_")) {
            if INTERNAL_NAMES.contains(&name.as_str()) {
                continue;
            }
            let refuse = |reason: String| ConfigError { name: name.clone(), reason };
            let setting = SETTINGS
                .iter()
                .find(|setting| setting.name == name)
                .ok_or_else(|| refuse("no such setting".to_string()))?;
            (setting.set)(&mut config, value.trim())
                .map_err(|reason| refuse(format!("{value:?} is not {reason}")))?;
        }
        Ok(config)
    }
}

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

fn single_copy(text: &str) -> std::result::Result<SingleCopy, String> {
    match text {
        "auto" => Ok(SingleCopy::Auto),
        "always" => Ok(SingleCopy::Always),
        "never" => Ok(SingleCopy::Never),
        _ => Err("auto, always or never".to_string()),
    }
}

fn fabric(text: &str) -> std::result::Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b";_-".contains(&byte);
    let named = !text.is_empty() && text.bytes().all(plain);
    if named { Ok(text.to_string()) } else { Err("auto, sockets or a provider of libfabric".to_string()) }
}

fn connections(text: &str) -> std::result::Result<Connections, String> {
    let found = Connections::NAMES.iter().find(|entry| entry.0 == text);
    found.map(|entry| entry.1).ok_or_else(|| "never, on-demand, partially-static or static".to_string())
}

fn one_sided(text: &str) -> std::result::Result<OneSided, String> {
    match text {
        "auto" => Ok(OneSided::Auto),
        "messages" => Ok(OneSided::Messages),
        _ => Err("auto or messages".to_string()),
    }
}

fn copy_by(text: &str) -> std::result::Result<CopyBy, String> {
    match text {
        "auto" => Ok(CopyBy::Auto),
        "attach" => Ok(CopyBy::Attach),
        "xpmem" => Ok(CopyBy::Xpmem),
        "knem" => Ok(CopyBy::Knem),
        _ => Err("auto, attach, xpmem or knem".to_string()),
    }
}

fn starter(text: &str) -> std::result::Result<Starter, String> {
    match text {
        "auto" => Ok(Starter::Auto),
        "pmix" => Ok(Starter::Pmix),
        "pmi" => Ok(Starter::Pmi),
        "alone" => Ok(Starter::Alone),
        _ => Err("auto, pmix, pmi or alone".to_string()),
    }
}

fn mapped(text: &str) -> std::result::Result<Mapped, String> {
    match text {
        "auto" => Ok(Mapped::Auto),
        "always" => Ok(Mapped::Always),
        "never" => Ok(Mapped::Never),
        _ => Err("auto, always or never".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, expected: std::result::Result<Config, &str>) {
        let got = Config::from_pairs([(name.to_string(), value.to_string())].into_iter());
        match (got, expected) {
            (Ok(config), Ok(wanted)) => assert_eq!(config, wanted),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => panic!("{name}={value}: {got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn settings_parse_or_are_refused_by_name() {
        check("TUTTI_EAGER_BYTES", "4K", Ok(Config { eager_bytes: 4096, ..Config::default() }));
        check("TUTTI_EAGER_BYTES", "many", Err("TUTTI_EAGER_BYTES: \"many\" is not a size"));
        check("TUTTI_EAGER_BYTES", "99999999999G", Err("not a size"));
        check(
            "TUTTI_SINGLE_COPY",
            "never",
            Ok(Config { single_copy: SingleCopy::Never, ..Config::default() }),
        );
        check("TUTTI_EAGRE_BYTES", "1", Err("TUTTI_EAGRE_BYTES: no such setting"));
        check("TUTTI_JOB_FD", "whatever", Ok(Config::default()));
        check("TUTTI_BANK_BYTES", "32K", Ok(Config { bank_bytes: Some(32 << 10), ..Config::default() }));
        check("TUTTI_BANK_BYTES", "some", Err("1M, or auto"));
        check("PATH", "whatever", Ok(Config::default()));
    }

    #[test]
    fn algorithms_are_forced_by_name() {
        let of = |setting: &str| {
            let config = Config { algorithm: setting.to_string(), ..Config::default() };
            config.algorithm_of("bcast").map(str::to_string)
        };
        assert_eq!(of(""), None);
        assert_eq!(of("bcast=knomial:radix=4").as_deref(), Some("knomial:radix=4"));
        assert_eq!(of("allreduce=ring, bcast = kary").as_deref(), Some("kary"));
        assert_eq!(of("allreduce=ring"), None);
    }

    #[test]
    fn a_model_is_kept_a_machine() {
        let path = |config: &Config, known: &'static [(&str, &str)]| {
            let variable = |name: &str| {
                known.iter().find(|(other, _)| *other == name).map(|(_, value)| value.to_string())
            };
            config.model_path("host", 8, variable)
        };
        let (plain, set) =
            (Config::default(), Config { model_file: "here".to_string(), ..Config::default() });
        assert_eq!(path(&plain, &[]), None);
        assert_eq!(path(&plain, &[("HOME", "/h")]).as_deref(), Some("/h/.cache/tutti/MODEL-host-8"));
        let both = &[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")];
        assert_eq!(path(&plain, both).as_deref(), Some("/c/tutti/MODEL-host-8"));
        assert_eq!(path(&set, both).as_deref(), Some("here"));
    }

    #[test]
    fn rings_shrink_with_the_number_of_ranks() {
        let bytes = |ranks| Config::default().ring_bytes_for(ranks) >> 10;
        assert_eq!([1, 2, 4, 5, 16, 33, 128, 4000].map(bytes), [2048, 2048, 2048, 1024, 512, 128, 64, 64]);
        let stated = Config { ring_bytes: 10_000, ..Config::default() };
        assert_eq!(stated.ring_bytes_for(100), 12288);
    }

    #[test]
    fn lanes_are_fewer_where_ranks_are_many() {
        let lanes = |ranks| Config::default().lanes_for(ranks);
        assert_eq!([0, 1, 64, 90, 128, 200].map(lanes), [8, 8, 8, 4, 2, 1]);
        assert_eq!(Config { thread_lanes: 0, ..Config::default() }.lanes_for(2), 1);
    }

    #[test]
    fn every_setting_shows_what_it_reads() {
        for setting in SETTINGS {
            let shown = setting.show(&Config::default());
            let again = Config::from_pairs([(setting.name.to_string(), shown)].into_iter());
            assert_eq!(again, Ok(Config::default()), "{}", setting.name);
        }
    }
}
