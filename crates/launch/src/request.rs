//! What a command line asks for, as data.

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How ranks follow one another over the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Across {
    /// All slots of a host, then the next.
    #[default]
    Slot,
    /// Neighbouring ranks on different hosts, in turn.
    Node,
}

/// How the ranks of a host follow one another over the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapBy {
    /// Neighbouring ranks on neighbouring cores.
    Core,
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
    /// To one NUMA node.
    Numa,
    /// To one package.
    Package,
}

/// What stands before each line of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Tagging {
    /// Nothing.
    #[default]
    Plain,
    /// `[rank] `.
    Rank,
    /// `[rank]<stdout>: `.
    Stream,
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
    /// Mapping on a host, if it was said.
    pub map_by: Option<MapBy>,
    /// Binding, if it was said.
    pub bind_to: Option<BindTo>,
    /// Print where each rank is bound.
    pub report_bindings: bool,
    /// Tags before lines.
    pub tagging: Tagging,
    /// Seconds since the start before each line.
    pub timestamp: bool,
    /// How much to say.
    pub verbosity: Verbosity,
    /// End the job after this time.
    pub timeout: Option<Duration>,
    /// What starts daemons on other hosts, if it was said.
    pub agent: Option<String>,
    /// Children a daemon, if it was said.
    pub radix: Option<u32>,
    /// The interface that other hosts are reached by, if it was said.
    pub interface: Option<String>,
    /// Where Tutti lies on the other hosts, if it was said.
    pub prefix: Option<String>,
    /// Print when each phase of the start was over.
    pub timings: bool,
    /// What a rank of another job that starts this one has said; nothing for what a user starts.
    pub spawned: Option<Spawned>,
}
