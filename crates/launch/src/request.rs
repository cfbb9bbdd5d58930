//! What a command line asks for, as data.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tutti_checkpoint::input::RestartInput;

/// How ranks follow one another over the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Across {
    /// All slots of a host, then the next.
    #[default]
    Slot,
    /// Neighbouring ranks on different hosts, in turn.
    Node,
}

/// Which rank runs on which host, where that is said rank by rank.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Assignment {
    /// It is not: by slots.
    #[default]
    Slots,
    /// A file with a line a rank: its host and cores.
    RankFile(String),
    /// A file with a line a rank: its host. `None`: the host file.
    Sequence(Option<String>),
    /// For each rank the place of its host in the list of hosts.
    Hosts(Vec<u32>),
}

/// How the ranks of a host follow one another over the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapBy {
    /// Neighbouring ranks on neighbouring cores.
    Core,
    /// Neighbouring ranks on different level 2 caches, in turn.
    L2,
    /// Neighbouring ranks on different level 3 caches, in turn.
    L3,
    /// Neighbouring ranks on different NUMA nodes, in turn.
    Numa,
    /// Neighbouring ranks on different packages, in turn.
    Package,
}

/// To what a rank is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindTo {
    /// To the processors of the job.
    None,
    /// To one processor.
    Processor,
    /// To one core.
    Core,
    /// To one level 2 cache.
    L2,
    /// To one level 3 cache.
    L3,
    /// To one NUMA node.
    Numa,
    /// To one package.
    Package,
}

/// Cores of a host, by their order on the machine or within one package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// The package whose cores are counted.
    pub package: Option<u32>,
    /// The cores.
    pub cores: Vec<u32>,
}

/// Where on a host its ranks run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placing {
    /// Mapping, if it was said.
    pub map_by: Option<MapBy>,
    /// So many neighbouring ranks on a unit before the next one; 0 is 1.
    pub ranks_per_unit: u32,
    /// Cores of each rank, if that was said; 0: it was not.
    pub cores_per_rank: u32,
    /// Binding, if it was said.
    pub bind_to: Option<BindTo>,
    /// The cores that ranks may use, by their order on the machine; none: all.
    pub cores: Vec<u32>,
    /// (rank, its cores), for ranks that were told.
    pub told: Vec<(u32, Cores)>,
}

/// What stands before each line of output.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Tagging {
    /// Nothing.
    #[default]
    Plain,
    /// `[rank] `.
    Rank,
    /// `[rank]<stdout>: `.
    Stream,
    /// This, with `%r`, `%h`, `%g` and `%p` replaced.
    Pattern(String),
}

/// Where what ranks write goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputTo {
    /// A file a rank for its standard output, relative to the folder of mpirun, with `%r`, `%h`, `%g` and
    /// `%p` replaced.
    pub out: Option<String>,
    /// The same for its standard error.
    pub err: Option<String>,
    /// Whether it comes out of mpirun too.
    pub is_shown: bool,
    /// Standard error goes where standard output goes.
    pub is_merged: bool,
}

impl Default for OutputTo {
    fn default() -> Self {
        OutputTo { out: None, err: None, is_shown: true, is_merged: false }
    }
}

/// Which inherited variables a program gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inherit {
    /// All.
    #[default]
    All,
    /// None.
    None,
    /// These; a name that ends with `*` stands for all that begin so.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

/// What is shown of a job before it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Display {
    /// Which rank runs on which host.
    pub map: bool,
    /// The hosts and their slots.
    pub allocation: bool,
}

/// How much `mpirun` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// Errors that end the job only.
    Quiet,
    /// Errors and warnings.
    #[default]
    Normal,
    /// Also what is started where.
    Verbose,
}

/// What becomes of files that were open for writing and have been written since the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RestartFiles {
    /// They are cut back to what they were.
    #[default]
    Truncate,
    /// They stay as they are.
    Keep,
    /// The restart is refused.
    Refuse,
}

/// What a command line says of checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Checkpoints {
    /// Time from one to the next.
    pub every: Option<Duration>,
    /// Where the sets are.
    pub directory: Option<OsString>,
    /// A signal to mpirun that asks for one.
    pub on_signal: Option<i32>,
    /// How often the job is restarted by itself.
    pub restarts: u32,
    /// Restart from this directory, from this set or the newest.
    pub restart: Option<(OsString, Option<u64>)>,
    /// What becomes of files.
    pub files: RestartFiles,
    /// Content of the standard input of a restart (`--restart-input`).
    pub input: RestartInput,
    /// True if this mpirun holds the lock of the directory of sets.
    pub is_locked: bool,
    /// Whether a restart believes sets that other users may have written.
    pub allows_others: bool,
}

/// One program of the job; a job has several when `:` separates them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// How many ranks, if it was said.
    pub count: Option<u32>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Working directory, if it was said.
    pub directory: Option<OsString>,
    /// Directories to look for the program in before those of PATH, separated by colons.
    pub search: Option<OsString>,
    /// Variables to set, in order; a later one wins.
    pub environment: Vec<(String, String)>,
    /// Variables to pass on as they are.
    pub exported: Vec<String>,
    /// Which inherited variables it gets, if it was said for it alone.
    pub inherit: Option<Inherit>,
    /// Variables that it does not get.
    pub unset: Vec<String>,
}

/// What belongs to a job that a rank of another has started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawned {
    /// The number of the job.
    pub job_id: u64,
    /// How many processes the job has that ordered it.
    pub parents: u32,
    /// The environment in the place of that of this process.
    pub variables: Vec<(OsString, OsString)>,
}

/// Servers for the files of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoServers {
    /// How many.
    pub count: u32,
    /// The directory of their files.
    pub root: PathBuf,
    /// `scratch` or `forward`.
    pub mode: String,
}

impl Default for IoServers {
    fn default() -> IoServers {
        let user = tutti_sys::local_socket::own_user();
        IoServers {
            count: 0,
            root: std::env::temp_dir().join(format!("tutti-io-{user}")),
            mode: "scratch".to_string(),
        }
    }
}

/// A whole command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The programs, in the order of their ranks.
    pub programs: Vec<Program>,
    /// Variables to set for all programs.
    pub environment: Vec<(String, String)>,
    /// Hosts named on the command line, `name` or `name:slots`.
    pub hosts: Vec<String>,
    /// Files that name hosts.
    pub host_files: Vec<String>,
    /// Ranks a host.
    pub per_node: Option<u32>,
    /// Mapping over the hosts.
    pub across: Across,
    /// How ranks are numbered over the hosts, if that differs from the mapping.
    pub rank_by: Option<Across>,
    /// `ppr:N:UNIT`, with the units of a host of which N ranks each are started.
    pub per_unit: Option<(u32, MapBy)>,
    /// Which rank runs on which host, if it was said.
    pub assignment: Assignment,
    /// Host files for the case that no hosts are named.
    pub default_host_files: Vec<String>,
    /// This host has no ranks.
    pub is_not_here: bool,
    /// Hosts by their number of slots: ascending or not.
    pub hosts_ascending: Option<bool>,
    /// No more ranks than slots.
    pub is_within_slots: bool,
    /// Value of the attribute MPI_UNIVERSE_SIZE, if it was said.
    pub universe: Option<u32>,
    /// Which inherited variables programs get.
    pub inherit: Inherit,
    /// Where ranks run on their hosts.
    pub placing: Placing,
    /// Ranks run under a debugger or wait for one.
    pub is_debugged: bool,
    /// Print where each rank is bound.
    pub report_bindings: bool,
    /// Tags before lines.
    pub tagging: Tagging,
    /// Where what ranks write goes.
    pub output: OutputTo,
    /// Which rank reads the standard input: `Some(None)` none.
    pub input: Option<Option<u32>>,
    /// Every rank reads a copy of the standard input.
    pub is_input_copied: bool,
    /// What is shown before the start.
    pub display: Display,
    /// Nothing is started.
    pub is_dry: bool,
    /// Print how every rank ended.
    pub exit_codes: bool,
    /// Where the number of this process is written.
    pub pid_to: Option<String>,
    /// Options that mean nothing here, and why.
    pub ignored: Vec<(String, String)>,
    /// Refuse those.
    pub is_strict: bool,
    /// Seconds since the start before each line.
    pub timestamp: bool,
    /// How much to say.
    pub verbosity: Verbosity,
    /// End the job after this time.
    pub timeout: Option<Duration>,
    /// What starts daemons on other hosts, if it was said.
    pub agent: Option<String>,
    /// Name of the manner in which hosts are reached, if it was said.
    pub launcher: Option<String>,
    /// Children a daemon, if it was said.
    pub radix: Option<u32>,
    /// The interface that other hosts are reached by, if it was said.
    pub interface: Option<String>,
    /// Where Tutti lies on the other hosts, if it was said.
    pub prefix: Option<String>,
    /// Servers for its files, if there are to be any.
    pub io_servers: IoServers,
    /// Checkpoints and restart.
    pub checkpoints: Checkpoints,
    /// Hosts that were lost in this run and are not used again.
    pub lost: Vec<String>,
    /// An execution of the job that failed took bytes of the standard input that cannot be read again.
    pub input_taken: bool,
    /// Print when each phase of the start was over.
    pub timings: bool,
    /// What a rank of another job that starts this one has said; nothing for what a user starts.
    pub spawned: Option<Spawned>,
}
