//! Parsed command line of `mpirun`, as data.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tutti_checkpoint::input::RestartInput;

/// Order in which consecutive ranks are assigned to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Across {
    /// Fills all slots of a host, then those of the next.
    #[default]
    Slot,
    /// Assigns consecutive ranks to different hosts, in turn.
    Node,
}

/// Source of the host of each rank.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Assignment {
    /// Slots: ranks are assigned by the number of slots.
    #[default]
    Slots,
    /// File with a line for each rank: its host and cores.
    RankFile(String),
    /// File with a line for each rank: its host. None: the host file.
    Sequence(Option<String>),
    /// Index in the list of hosts, for each rank.
    Hosts(Vec<u32>),
}

/// Order in which the ranks of a host are assigned to its processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapBy {
    /// Assigns consecutive ranks to neighbouring cores.
    Core,
    /// Assigns consecutive ranks to different level 2 caches, in turn.
    L2,
    /// Assigns consecutive ranks to different level 3 caches, in turn.
    L3,
    /// Assigns consecutive ranks to different NUMA nodes, in turn.
    Numa,
    /// Assigns consecutive ranks to different packages, in turn.
    Package,
}

/// Processors to which a rank is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindTo {
    /// All processors of the job.
    None,
    /// One processor, that is one hardware thread.
    Processor,
    /// All processors of one core.
    Core,
    /// All processors of one level 2 cache.
    L2,
    /// All processors of one level 3 cache.
    L3,
    /// All processors of one NUMA node.
    Numa,
    /// All processors of one package.
    Package,
}

/// Cores of a host, by their order on the machine or within one package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// Package whose cores are counted. None: cores of the whole machine.
    pub package: Option<u32>,
    /// Indices of the cores, from 0.
    pub cores: Vec<u32>,
}

/// Options that place the ranks of a host on its processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placing {
    /// Mapping of the ranks, if the command line has one.
    pub map_by: Option<MapBy>,
    /// Number of consecutive ranks on a unit before the next unit; 0 means 1.
    pub ranks_per_unit: u32,
    /// Cores of each rank; 0 if the command line has no number.
    pub cores_per_rank: u32,
    /// Binding of the ranks, if the command line has one.
    pub bind_to: Option<BindTo>,
    /// Cores that ranks may use, by their order on the machine. Empty: all.
    pub cores: Vec<u32>,
    /// Ranks with an explicit assignment, and their cores.
    pub told: Vec<(u32, Cores)>,
}

/// Prefix of each line of output.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Tagging {
    /// No prefix at all.
    #[default]
    Plain,
    /// Prefix with the rank: `[rank] `.
    Rank,
    /// Prefix with rank and stream: `[rank]<stdout>: `.
    Stream,
    /// Pattern with `%r`, `%h`, `%g` and `%p`, which are replaced for each rank.
    Pattern(String),
}

/// Destination of the output of ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputTo {
    /// File for the standard output of each rank, relative to the working directory of mpirun. `%r`, `%h`,
    /// `%g` and `%p` are replaced.
    pub out: Option<String>,
    /// File for the standard error of each rank, likewise.
    pub err: Option<String>,
    /// True if mpirun also prints the output.
    pub is_shown: bool,
    /// True if standard error goes to the destination of standard output.
    pub is_merged: bool,
}

impl Default for OutputTo {
    fn default() -> Self {
        OutputTo { out: None, err: None, is_shown: true, is_merged: false }
    }
}

/// Inherited environment variables that a program gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inherit {
    /// All inherited variables.
    #[default]
    All,
    /// No inherited variable.
    None,
    /// Names of variables that are passed. A name that ends with `*` is a prefix.
    Only(Vec<String>),
    /// Names of variables that are not passed.
    Except(Vec<String>),
}

/// Information about a job that is shown before it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Display {
    /// Shows the host of each rank.
    pub map: bool,
    /// Shows the hosts and their slots.
    pub allocation: bool,
}

/// Amount of messages that `mpirun` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// Prints only errors that end the job.
    Quiet,
    /// Prints errors and warnings.
    #[default]
    Normal,
    /// Also prints the programs and hosts that are started.
    Verbose,
}

/// Treatment of files that were open for writing and whose length has changed since the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RestartFiles {
    /// Cuts files back to their length at the checkpoint; a file that is shorter now is refused.
    #[default]
    Truncate,
    /// Keeps files as they are.
    Keep,
    /// Refuses the restart if the length of a file has changed.
    Refuse,
}

/// Options of the command line for checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Checkpoints {
    /// Time between two checkpoints.
    pub every: Option<Duration>,
    /// Directory of the checkpoint sets.
    pub directory: Option<OsString>,
    /// Signal to mpirun that requests a checkpoint.
    pub on_signal: Option<i32>,
    /// Number of automatic restarts after failures.
    pub restarts: u32,
    /// Directory from which the job is restarted, and the set; None for the newest set.
    pub restart: Option<(OsString, Option<u64>)>,
    /// Treatment of files whose length has changed since the checkpoint.
    pub files: RestartFiles,
    /// Content of the standard input of a restart (`--restart-input`).
    pub input: RestartInput,
    /// True if this mpirun holds the lock of the directory of sets.
    pub is_locked: bool,
    /// True if a restart accepts sets that other users may have written.
    pub allows_others: bool,
}

/// One program of the job. A job has several if `:` separates them on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Number of ranks, if the command line has one.
    pub count: Option<u32>,
    /// Program name and arguments.
    pub command: Vec<OsString>,
    /// Working directory, if the command line has one.
    pub directory: Option<OsString>,
    /// Directories that are searched for the program before those of PATH, separated by colons.
    pub search: Option<OsString>,
    /// Variables to set, in order; a later value replaces an earlier one.
    pub environment: Vec<(String, String)>,
    /// Variables that are exported with their current values.
    pub exported: Vec<String>,
    /// Inherited variables, if this program has an option of its own.
    pub inherit: Option<Inherit>,
    /// Variables that the program does not get.
    pub unset: Vec<String>,
}

/// Properties of a job that a rank of another job has started (MPI_Comm_spawn).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawned {
    /// Identifier of the new job.
    pub job_id: u64,
    /// Number of processes of the group that started the job.
    pub parents: u32,
    /// Environment variables, in place of those of this process.
    pub variables: Vec<(OsString, OsString)>,
}

/// Servers for the files of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoServers {
    /// Number of servers; 0 if there are none.
    pub count: u32,
    /// Directory that contains the files of the servers.
    pub root: PathBuf,
    /// Mode of the servers: `scratch` or `forward`.
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

/// All options of a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Programs of the job, in the order of their ranks.
    pub programs: Vec<Program>,
    /// Variables to set for all programs.
    pub environment: Vec<(String, String)>,
    /// Hosts named on the command line, each `name` or `name:slots`.
    pub hosts: Vec<String>,
    /// Paths of files that name hosts.
    pub host_files: Vec<String>,
    /// Number of ranks on each host.
    pub per_node: Option<u32>,
    /// Assignment of ranks to hosts.
    pub across: Across,
    /// Numbering of ranks over the hosts, if it differs from the assignment.
    pub rank_by: Option<Across>,
    /// Option `ppr:N:UNIT`: number of ranks on each unit of a host, and the unit.
    pub per_unit: Option<(u32, MapBy)>,
    /// Explicit hosts of the ranks, if the command line has them.
    pub assignment: Assignment,
    /// Paths of host files that are used if no other option names hosts.
    pub default_host_files: Vec<String>,
    /// True if this host gets no ranks.
    pub is_not_here: bool,
    /// Order of hosts by their number of slots: true for ascending, false for descending.
    pub hosts_ascending: Option<bool>,
    /// True if a job with more ranks than slots is refused.
    pub is_within_slots: bool,
    /// Value of the attribute MPI_UNIVERSE_SIZE, if the command line has one.
    pub universe: Option<u32>,
    /// Inherited variables that programs get.
    pub inherit: Inherit,
    /// Placement of the ranks on their hosts.
    pub placing: Placing,
    /// True if ranks run under a debugger or wait for one.
    pub is_debugged: bool,
    /// True if the binding of each rank is printed.
    pub report_bindings: bool,
    /// Prefix of each line of output.
    pub tagging: Tagging,
    /// Destination of the output of ranks.
    pub output: OutputTo,
    /// Rank that reads the standard input. `Some(None)`: no rank; None: the default.
    pub input: Option<Option<u32>>,
    /// True if every rank reads a copy of the standard input.
    pub is_input_copied: bool,
    /// Information that is shown before the start.
    pub display: Display,
    /// True if the job is only prepared and shown, not started.
    pub is_dry: bool,
    /// True if the exit status of every rank is printed.
    pub exit_codes: bool,
    /// Destination to which the process number of mpirun is written.
    pub pid_to: Option<String>,
    /// Options without an effect in Tutti, each with the reason.
    pub ignored: Vec<(String, String)>,
    /// True if such options are refused.
    pub is_strict: bool,
    /// True if each line is preceded by the seconds since the start.
    pub timestamp: bool,
    /// Amount of messages that mpirun prints.
    pub verbosity: Verbosity,
    /// Time after which the job is ended.
    pub timeout: Option<Duration>,
    /// Command that starts daemons on other hosts, if the command line has one.
    pub agent: Option<String>,
    /// Name of the method that reaches other hosts, if the command line has one.
    pub launcher: Option<String>,
    /// Maximum number of children of a daemon, if the command line has one.
    pub radix: Option<u32>,
    /// Network interface for connections to other hosts, if the command line has one.
    pub interface: Option<String>,
    /// Directory in which Tutti is installed on other hosts, if the command line has one.
    pub prefix: Option<String>,
    /// Servers for the files of the job.
    pub io_servers: IoServers,
    /// Checkpoints and restart of the job.
    pub checkpoints: Checkpoints,
    /// Hosts that were lost in this run and are not used again.
    pub lost: Vec<String>,
    /// True if a failed execution of the job took bytes of the standard input that cannot be read again.
    pub input_taken: bool,
    /// File for the report of a hang.
    pub hang_report: Option<PathBuf>,
    /// True if the time of each phase of the start is printed.
    pub timings: bool,
    /// Properties of a job that was started by a rank of another job; None for a job of a user.
    pub spawned: Option<Spawned>,
}
