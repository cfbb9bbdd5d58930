//! The configuration registry: every setting of Tutti is one line of [`SETTINGS`].
//!
//! A setting is an environment variable `TUTTI_NAME`. It is parsed once, when a process starts, into
//! the typed field of [`Config`] it belongs to; a wrong value or an unknown `TUTTI_` name is refused
//! by name. `tutti info` prints those for users, `--all-settings` this table; MPI_T has it as control
//! variables.
//!
//! To add a setting: a field in [`Config`], a row in [`SETTINGS`] (`registry`, which also parses). Nothing
//! else.

mod registry;

use std::fmt;

use crate::{BankSizes, PortRange};

pub use registry::{Audience, SETTINGS, Scope, Setting, ValueKind};

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

/// Whether long messages between hosts are read by the network itself (FI_RMA of libfabric).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteRead {
    /// Where the provider offers it: also one that does it by messages moves them faster than streams, which
    /// are copied.
    Auto,
    /// Never: they are sent.
    Never,
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

/// Whether mapped memory that peers have read is written back to main memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedHome {
    /// Where the peers are far and its content changes.
    Auto,
    /// Each time: for tests.
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

/// What mpirun does with a program that needs another MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignMpi {
    /// It is refused: each of its processes would be a job of its own.
    Refuse,
    /// It is started.
    Start,
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

/// The error handler of MPI_COMM_WORLD and MPI_COMM_SELF, and of errors without an object, from the start
/// (MPI-5 section 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialErrorHandler {
    /// MPI_ERRORS_ARE_FATAL.
    Fatal,
    /// MPI_ERRORS_ABORT.
    Abort,
    /// MPI_ERRORS_RETURN.
    Return,
}

impl InitialErrorHandler {
    /// As the info key `mpi_initial_errhandler` names them (MPI-5 section 11.8.4).
    pub const NAMES: [(&str, InitialErrorHandler); 3] = [
        ("mpi_errors_are_fatal", InitialErrorHandler::Fatal),
        ("mpi_errors_abort", InitialErrorHandler::Abort),
        ("mpi_errors_return", InitialErrorHandler::Return),
    ];

    fn name(self) -> &'static str {
        InitialErrorHandler::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Whether algorithms are tried while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tune {
    /// The model chooses.
    Off,
    /// What earlier runs have learned counts; nothing is tried.
    Known,
    /// What repeats is tuned, and kept for later runs.
    On,
}

impl Tune {
    const NAMES: [(&str, Tune); 3] = [("off", Tune::Off), ("known", Tune::Known), ("on", Tune::On)];

    /// The one of this name.
    pub fn of_name(name: &str) -> Option<Tune> {
        Tune::NAMES.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Tune::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }

    /// Whether anything but the model chooses.
    pub fn is_on(self) -> bool {
        self != Tune::Off
    }
}

/// What a program asks for about checkpoints of its job (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// Nothing.
    No,
    /// One, now.
    Now,
    /// One with which the job ends.
    Stop,
}

impl Checkpoint {
    const NAMES: [(&str, Checkpoint); 3] =
        [("no", Checkpoint::No), ("now", Checkpoint::Now), ("stop", Checkpoint::Stop)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Checkpoint::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// When checkpoints are written (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointWriting {
    /// As the pause is shorter.
    Auto,
    /// While ranks stand still.
    Still,
    /// From copies of them (fork), while they go on.
    Fork,
}

impl CheckpointWriting {
    pub(super) const NAMES: [(&str, CheckpointWriting); 3] = [
        ("auto", CheckpointWriting::Auto),
        ("still", CheckpointWriting::Still),
        ("fork", CheckpointWriting::Fork),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        CheckpointWriting::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Whether checkpoints are packed (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPacking {
    /// Where that is faster than the disk.
    Auto,
    /// Never.
    Never,
    /// Whatever gets smaller.
    Always,
}

impl CheckpointPacking {
    pub(super) const NAMES: [(&str, CheckpointPacking); 3] = [
        ("auto", CheckpointPacking::Auto),
        ("never", CheckpointPacking::Never),
        ("always", CheckpointPacking::Always),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        CheckpointPacking::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Whether the kernel's packet program does small collectives between hosts (S9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Where `tutti netd` runs on the hosts.
    Auto,
    /// It has to: otherwise operations fail.
    On,
    /// Never.
    Off,
}

impl Offload {
    const NAMES: [(&str, Offload); 3] = [("auto", Offload::Auto), ("on", Offload::On), ("off", Offload::Off)];

    fn name(self) -> &'static str {
        Offload::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Whether broadcasts between hosts are multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multicast {
    /// Never.
    Off,
    /// Where it works and pays, once a communicator has broadcast some times.
    Auto,
    /// The same from the first broadcast on.
    On,
}

impl Multicast {
    const NAMES: [(&str, Multicast); 3] =
        [("auto", Multicast::Auto), ("on", Multicast::On), ("off", Multicast::Off)];

    fn name(self) -> &'static str {
        Multicast::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// How what is tried next is found out ([`Tune::On`]; barigou-2016, section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuneSearch {
    /// All in turn, and the better half again.
    Halving,
    /// Brute force: each in a row.
    Row,
    /// One attribute after the other.
    Attributes,
    /// The ends of all attributes, then what is left.
    Factorial,
}

impl TuneSearch {
    const NAMES: [(&str, TuneSearch); 4] = [
        ("halving", TuneSearch::Halving),
        ("row", TuneSearch::Row),
        ("attributes", TuneSearch::Attributes),
        ("factorial", TuneSearch::Factorial),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        TuneSearch::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// The algorithm that a list like `allreduce=ring,bcast=tree` names for a collective.
pub fn algorithm_in<'a>(list: &'a str, collective: &str) -> Option<&'a str> {
    let mut entries = list.split(',').filter_map(|entry| entry.split_once('='));
    entries.find(|(name, _)| name.trim() == collective).map(|(_, algorithm)| algorithm.trim())
}

/// All settings, typed. Sizes in bytes, times with their unit in the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Largest message that is sent before its receiver asks for it.
    pub eager_bytes: u64,
    /// The same between processes of two hosts that are connected.
    pub connected_eager_bytes: u64,
    /// Bound on what a process keeps of messages whose receives are not posted yet.
    pub unexpected_bytes: u64,
    /// Size of the shared payload ring between two processes that talk (0: by the number of ranks).
    pub ring_bytes: u64,
    /// Piece in which a long message passes through shared memory.
    pub fragment_bytes: u64,
    /// Use of process_vm_readv.
    pub single_copy: SingleCopy,
    /// The mount file of io-servers.
    pub io_mount: String,
    /// Whether io-servers on this host lend their files.
    pub io_near: bool,
    /// Whether the network reads long messages by itself.
    pub remote_read: RemoteRead,
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
    /// Changes of mapped memory are told by the kernel, which is asked at each use otherwise.
    pub mapped_watch: bool,
    /// Mapped memory that peers have read is written back to main memory.
    pub mapped_home: MappedHome,
    /// Whether mpirun starts programs that need another MPI library.
    pub foreign_mpi: ForeignMpi,
    /// How long a wait spins before it yields and parks (-1: by the number of ranks and cores).
    pub spin_us: i64,
    /// How often a wait yields its core before it parks.
    pub yield_rounds: u64,
    /// Whether ranks that share processors move away from the ones they exchange messages with.
    pub move_apart: bool,
    /// Most lanes, in which threads of a process communicate beside each other.
    pub thread_lanes: u64,
    /// Whether a thread takes in messages while the program computes.
    pub progress_thread: bool,
    /// Whether algorithms are tried while the program runs.
    pub tune: Tune,
    /// Whether the kernel's packet program does small collectives.
    pub offload: Offload,
    /// What tuning tries next.
    pub tune_search: TuneSearch,
    /// Compare the datatypes of sender and receiver (debugging).
    pub check_types: bool,
    /// Check also what takes time in proportion to the length of lists: whether received blocks overlap. What
    /// handles, pointers, counts, ranks, roots, tags, graphs are worth is always checked.
    pub check_arguments: bool,
    /// Where a rank was is told when it crashes.
    pub backtrace: bool,
    /// What was not freed is told in MPI_Finalize.
    pub report_leaks: bool,
    /// The error handler that communicators have from the start.
    pub initial_error_handler: InitialErrorHandler,
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
    /// `TUTTI_DEBUGGER`.
    pub debugger: String,
    /// Other hosts that each host starts; 0: all are started by the first.
    pub launch_radix: u64,
    /// What the program asks for, by MPI_T.
    pub checkpoint: Checkpoint,
    /// When checkpoints are written.
    pub checkpoint_writing: CheckpointWriting,
    /// Whether they are packed.
    pub checkpoint_packing: CheckpointPacking,
    /// For tests: the set and the step of a checkpoint at which daemons stop themselves.
    pub checkpoint_stop: String,
    /// The interface by which hosts reach each other: a name, an address or a network; empty: the one that
    /// leads there.
    pub interface: String,
    /// The ports that listeners and datagram sockets of the job are confined to; `None`: any.
    pub port_range: Option<PortRange>,
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
    /// Whether broadcasts between hosts are multicast.
    pub multicast: Multicast,
    /// Datagrams of a multicast stream that are under way at a time.
    pub multicast_window: u64,
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
            connected_eager_bytes: 64 << 10,
            unexpected_bytes: 64 << 20,
            ring_bytes: 0,
            fragment_bytes: 32 << 10,
            single_copy: SingleCopy::Auto,
            io_mount: String::new(),
            io_near: true,
            remote_read: RemoteRead::Auto,
            remote_read_bytes: 256 << 10,
            single_copy_bytes: 64 << 20,
            copy_by: CopyBy::Auto,
            one_sided: OneSided::Auto,
            mapped: Mapped::Auto,
            map_after: 8,
            map_bytes: 8 << 10,
            mapped_limit: 1 << 30,
            mapped_watch: true,
            mapped_home: MappedHome::Auto,
            foreign_mpi: ForeignMpi::Refuse,
            spin_us: -1,
            yield_rounds: 64,
            move_apart: true,
            thread_lanes: 8,
            progress_thread: false,
            tune: Tune::Off,
            offload: Offload::Auto,
            tune_search: TuneSearch::Halving,
            check_types: false,
            check_arguments: false,
            backtrace: true,
            report_leaks: false,
            initial_error_handler: InitialErrorHandler::Fatal,
            collective_bytes: None,
            bank_bytes: None,
            bank_small_bytes: 4096,
            bank_small_slots: 128,
            algorithm: String::new(),
            model_file: String::new(),
            deterministic: false,
            explain: false,
            agent: String::new(),
            debugger: String::new(),
            launch_radix: 16,
            checkpoint: Checkpoint::No,
            checkpoint_writing: CheckpointWriting::Auto,
            checkpoint_packing: CheckpointPacking::Auto,
            checkpoint_stop: String::new(),
            interface: String::new(),
            port_range: None,
            heartbeat_ms: 1000,
            silence_ms: 30_000,
            start_ms: 60_000,
            fabric: "auto".to_string(),
            connections: Connections::OnDemand,
            connect_messages: 16,
            connect_bytes: 64 << 10,
            max_connections: 0,
            multicast: Multicast::Off,
            multicast_window: 256,
            counters: false,
            trace: String::new(),
            trace_events: 100_000,
            starter: Starter::Auto,
            pmix_library: String::new(),
        }
    }
}

/// Most lanes: sets of rings between the ranks of a host, each used by other threads of them.
pub const MAX_LANES: u32 = 8;
/// Most rings of all lanes of a host, unless one lane has more.
const RINGS_OF_LANES: u64 = 8 * 64 * 64;

/// Names in the `TUTTI_` space that are no settings of the library: what the launcher and the library say to
/// each other, and what the compiler wrappers read.
pub const INTERNAL_NAMES: &[&str] = &[
    "TUTTI_JOB_FD",
    "TUTTI_JOB_RANK",
    "TUTTI_JOB_MAXPROCS",
    "TUTTI_JOB_IO",
    "TUTTI_JOB_GATE",
    "TUTTI_DIRECTORY_FD",
    "TUTTI_BELL_FDS",
    "TUTTI_PARENT_PORT",
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
        algorithm_in(&self.algorithm, collective)
    }

    /// The file with what the machine `host` of `processors` processors costs: the one that is set, or else
    /// one in the user's cache directory, which `variable` leads to (the XDG base directories). `None`
    /// without one.
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

    /// Lanes of a host with so many ranks: each has a ring for every pair of them, in address space if not in
    /// memory.
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
        check("TUTTI_REMOTE_READ", "always", Err("auto or never"));
        check("TUTTI_COPY_BY", "fast", Err("auto, attach, xpmem or knem"));
        check("TUTTI_CONNECTIONS", "some", Err("never, on-demand, partially-static or static"));
        let ports = PortRange::new(40000, 40010);
        check("TUTTI_PORT_RANGE", "40000-40010", Ok(Config { port_range: ports, ..Config::default() }));
        check(
            "TUTTI_PORT_RANGE",
            "9-8",
            Err("TUTTI_PORT_RANGE: \"9-8\" is not a range of ports such as 40000-40100"),
        );
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
