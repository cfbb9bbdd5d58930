//! The command `tutti`: description of the installation (`info`), benchmarks (`bench`), and comparison with
//! other libraries (`compare`).
//!
//! # What is where
//!
//! `commands` contains the subcommands, one each. `measure` is the common part of measurements, `simulate`
//! that of simulations. Entry points are `commands::*::run`. Parsing of output, medians, ratios, tables and
//! plots are pure functions. Absent: any run-time crate of the library but storage. Libraries are measured
//! from outside, as programs see them.
//!
//! - `info`: machine, settings, functions, and the choice for a collective with its reasons.
//! - `trace`: events of a program or a simulation as a picture: `read`, `path` for the critical path,
//!   `picture`.
//! - `sim`: predicted times on any recorded machine, and of starting jobs of any size.
//! - `probe`: measures the costs of this machine and stores them in a file, which the launcher passes to all
//!   ranks in the job object; `--hosts`: also the network between two hosts.
//! - `tune`: measures whole operations by all their algorithms, and stores the errors of the model in the
//!   same file; with `--hosts` for several lengths of segments.
//! - `compare --build` (`builds`): two builds of Tutti, a verdict for each cell by a rank test; the ledger.
//! - `bench`, `compare`: the same C programs, in `bench/`, on each library; tables, plots, goals, lost cells;
//!   `compare --hosts` on hosts of `testbed` (`bench/wire.c` is one TCP connection without MPI).
//! - `bench tune` (`tuning`): hundreds of scenarios in which programs find their algorithms while they run.
//! - `connections`: the patterns of the NAS kernels (`bench/patterns.c`) with the ranks' counters of
//!   connections.
//! - `headlines`: the papers' ratios as data (`list`): two ways of one operation, each the best of some
//!   algorithms under some settings, measured as jobs in turns or simulated by `coll` on recorded machines.
//! - `asp`: a program of broadcasts on hosts of the testbed, and simulated at the paper's size (`flat` is
//!   Open MPI's broadcast as a schedule, which is used here only).
//! - `consistency`: rules as data (`rules`), applied in pure functions (`check`).
//!
//! The jobs of all libraries are alive at the same time and measure one cell each in turn
//! (`measure::session`, `crew`), because a shared machine changes its speed within seconds. Between two cells
//! ranks sleep outside MPI. On virtual machines an idle process keeps the processors awake meanwhile
//! (`awake`), as a hypervisor takes idle processors away. `bench/reference.h` measures the machine without
//! MPI, in the same processes.
#![deny(unsafe_code)]

mod amounts;
#[cfg(test)]
mod command_line;
mod commands;
mod kept;
mod measure;
mod output;
mod simulate;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

use commands::{
    asp, builds, checkpoint, compare, connections, consistency, files, headlines, info, io_server, manual,
    overlap, probe, sim, trace, tune, tuning, waits,
};
use measure::options::FILES;
use measure::{awake, library, options};

/// Tutti, an MPI library: information and measurements.
#[derive(Parser)]
#[command(name = "tutti", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show version, machine, transports and all settings.
    Info(info::InfoOptions),
    /// Predict the time of a collective on this or any recorded machine.
    Sim(sim::SimOptions),
    /// Draw the trace of a program (TUTTI_TRACE) or of a simulated collective.
    Trace(trace::TraceOptions),
    /// Measure the costs of this machine (cache lines, copies, hand-overs), by which jobs choose algorithms.
    Probe(probe::ProbeOptions),
    /// Measure collectives by all their algorithms, and store the results for jobs.
    Tune(tune::TuneOptions),
    /// Measure Tutti.
    Bench(Box<Bench>),
    /// Compare Tutti with other installed MPI libraries, or with another build of Tutti.
    Compare(Box<Compare>),
    /// Translate loops over time and space in C to MPI that communicates while it computes.
    Overlap(overlap::OverlapOptions),
    /// Make a running mpirun write a checkpoint of its job.
    Checkpoint(checkpoint::CheckpointOptions),
    /// List the checkpoints in a directory.
    Checkpoints(checkpoint::ListOptions),
    /// Serve files: stripes of shared files, or files of its own (MPI-IO by names that begin with tutti:).
    IoServer(io_server::IoServerOptions),
    /// Load packet programs into the kernel for the jobs of this host; needs CAP_BPF and CAP_NET_ADMIN.
    Netd(tutti_netd::NetdOptions),
    /// List, copy and check files of io-servers.
    #[command(subcommand)]
    Io(io_server::IoServerCommand),
    /// Commands for developers of Tutti: measurements of its parts, and virtual hosts.
    #[command(subcommand)]
    Dev(Box<Dev>),
    /// The commands of `dev` by their former names.
    #[command(flatten)]
    Former(Box<Former>),
    /// Write manual pages and completions for shells, for `make install`.
    #[command(hide = true)]
    Manual(manual::ManualOptions),
    /// Keep processors awake: a helper of the commands that measure.
    #[command(hide = true)]
    Awake,
}

/// Commands for developers of Tutti.
#[derive(Subcommand)]
enum Dev {
    /// Compare operations with each other and with the machine; print those that are too slow.
    Consistency(consistency::ConsistencyOptions),
    /// Measure and simulate the papers' headlines inside Tutti.
    Headlines(headlines::HeadlinesOptions),
    /// Count the connections of patterns like those of the NAS kernels, on virtual hosts.
    Connections(connections::ConnectionsOptions),
    /// Measure all shortest paths on several hosts: broadcasts that use or ignore the hosts, and other
    /// libraries.
    Asp(asp::AspOptions),
    /// Create several virtual hosts on this machine, in namespaces.
    #[command(subcommand)]
    Testbed(tutti_testbed::Action),
}

/// Commands that have moved to `dev`. Scripts may call them as before.
#[derive(Subcommand)]
enum Former {
    #[command(hide = true)]
    Consistency(consistency::ConsistencyOptions),
    #[command(hide = true)]
    Headlines(headlines::HeadlinesOptions),
    #[command(hide = true)]
    Connections(connections::ConnectionsOptions),
    #[command(hide = true)]
    Asp(asp::AspOptions),
    #[command(hide = true, subcommand)]
    Testbed(tutti_testbed::Action),
}

impl Former {
    /// Returns the command under its name of today.
    fn renamed(self) -> Dev {
        match self {
            Former::Consistency(options) => Dev::Consistency(options),
            Former::Headlines(options) => Dev::Headlines(options),
            Former::Connections(options) => Dev::Connections(options),
            Former::Asp(options) => Dev::Asp(options),
            Former::Testbed(action) => Dev::Testbed(action),
        }
    }
}

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
struct Bench {
    #[command(flatten)]
    options: options::CompareOptions,
    #[command(subcommand)]
    what: Option<Part>,
}

#[derive(clap::Args)]
struct Compare {
    #[command(flatten)]
    options: options::CompareOptions,
    #[command(flatten)]
    builds: builds::BuildOptions,
}

#[derive(Subcommand)]
enum Part {
    /// Measure the time that ranks wait, in all ways to wait, together with other libraries that yield.
    Waits(waits::WaitsOptions),
    /// Measure files: patterns of MPI-IO, independent and collective, in memory, on a disk and on io-servers.
    Io(files::FilesOptions),
    /// Simulate the number of scenarios in which tuning finds the best algorithm while a program runs.
    Tune(tuning::TuningOptions),
}

fn main() -> ExitCode {
    // The parent of this process may ignore SIGCHLD, which its programs inherit.
    tutti_sys::signal::restore_child_signal();
    let outcome = match Cli::parse().command {
        Command::Info(options) => info::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Trace(options) => trace::run(&options),
        Command::Probe(options) => probe::run(&options),
        Command::Tune(options) => tune::run(&options),
        Command::Bench(bench) => match *bench {
            Bench { what: Some(Part::Waits(options)), .. } => waits::run(&options),
            Bench { what: Some(Part::Io(options)), .. } => files::run(&options),
            Bench { what: Some(Part::Tune(options)), .. } => {
                tuning::run(&options).map(|text| output::show(&text))
            }
            Bench { options, what: None } if options.ops == [FILES] => {
                files::run(&files::FilesOptions::from_compare(&options.with_libraries(&["tutti"])))
            }
            Bench { options, what: None } => compare::run(&options.with_libraries(&["tutti"])),
        },
        Command::Compare(compare) => {
            let Compare { options, builds } = *compare;
            match &builds.build {
                Some(before) => return ended(builds::run(&options, &builds, before)),
                None if options.ops == [FILES] => files::run(&files::FilesOptions::from_compare(&options)),
                None => compare::run(&options.with_libraries(&library::NAMES)),
            }
        }
        Command::Dev(command) => return developers(*command),
        Command::Former(command) => return developers(command.renamed()),
        Command::IoServer(options) => io_server::serve(&options),
        Command::Netd(options) => tutti_netd::serve(&options),
        Command::Io(errand) => io_server::run(&errand),
        Command::Overlap(options) => overlap::run(&options),
        Command::Checkpoint(options) => checkpoint::run(&options),
        Command::Checkpoints(options) => checkpoint::list(&options),
        Command::Manual(options) => manual::run(&options, Cli::command()),
        Command::Awake => awake::spin(),
    };
    ended(outcome.map(|()| ExitCode::SUCCESS))
}

/// Runs a command for developers of Tutti.
fn developers(command: Dev) -> ExitCode {
    let outcome = match command {
        Dev::Consistency(options) => consistency::run(&options),
        Dev::Headlines(options) => headlines::run(&options),
        Dev::Connections(options) => connections::run(&options),
        Dev::Asp(options) => asp::run(&options),
        Dev::Testbed(action) => return tutti_testbed::run(action),
    };
    ended(outcome.map(|()| ExitCode::SUCCESS))
}

/// Returns the exit status, after the message of a failure.
fn ended(outcome: Result<ExitCode, String>) -> ExitCode {
    match outcome {
        Ok(status) => status,
        Err(message) => {
            eprintln!("tutti: {message}");
            ExitCode::FAILURE
        }
    }
}
