//! The command `tutti`: what is here (`info`), how fast it is (`bench`), and against the others (`compare`).
#![deny(unsafe_code)]

mod asp;
mod awake;
mod cluster;
mod compare;
mod connections;
mod consistency;
mod crew;
mod headlines;
mod hosts;
mod info;
mod job_end;
mod library;
mod network;
mod options;
mod probe;
mod programs;
mod reorder;
mod report;
mod results;
mod run;
mod sample;
mod session;
mod sim;
mod spread;
mod start;
mod trace;
mod tune;
mod waits;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

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
    Info(info::Options),
    /// Predict the time of a collective on this or any recorded machine.
    Sim(sim::Options),
    /// Draw the trace of a program (TUTTI_TRACE), or of a collective as it is simulated.
    Trace(trace::Options),
    /// Measure what this machine costs (cache lines, copies, hand-overs), once; jobs choose algorithms by it.
    Probe(probe::Options),
    /// Measure collectives by all their algorithms; jobs choose by what is found.
    Tune(tune::Options),
    /// Measure Tutti.
    Bench(Bench),
    /// Measure Tutti side by side with the other MPI libraries installed.
    Compare(options::Options),
    /// Hold operations against each other and against the machine; print what is slower than it should be.
    Consistency(consistency::Options),
    /// Measure and simulate the papers' headlines inside Tutti.
    Headlines(headlines::Options),
    /// Count the connections of patterns like those of the NAS kernels, between hosts made for it.
    Connections(connections::Options),
    /// Measure all shortest paths on several hosts, by broadcasts that know hosts, that do not, and by other libraries.
    Asp(asp::Options),
    /// Several hosts on this machine, in namespaces.
    #[command(subcommand)]
    Testbed(tutti_testbed::Action),
    /// Keep processors from falling asleep: a part of those commands that measure.
    #[command(hide = true)]
    Awake,
}

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
struct Bench {
    #[command(flatten)]
    options: options::Options,
    #[command(subcommand)]
    what: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// Measure how long ranks wait in all the ways there are, beside the other libraries told to yield.
    Waits(waits::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Info(options) => info::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Trace(options) => trace::run(&options),
        Command::Probe(options) => probe::run(&options),
        Command::Tune(options) => tune::run(&options),
        Command::Bench(Bench { what: Some(Part::Waits(options)), .. }) => waits::run(&options),
        Command::Bench(Bench { options, what: None }) => compare::run(&options.with_libraries(&["tutti"])),
        Command::Compare(options) => compare::run(&options.with_libraries(&library::NAMES)),
        Command::Consistency(options) => consistency::run(&options),
        Command::Headlines(options) => headlines::run(&options),
        Command::Connections(options) => connections::run(&options),
        Command::Asp(options) => asp::run(&options),
        Command::Awake => awake::spin(),
        Command::Testbed(action) => return tutti_testbed::run(action),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("tutti: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints `text`; a reader that has gone (`tutti info | head`) is no error.
fn show(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}
