//! `mpirun`: places the ranks of a job on hosts, starts them, forwards their input and output, and ends all
//! of them when one fails.
//!
//! There are two processes. The [`supervisor`] is started by the user and receives signals and the terminal's
//! input. Its child, the [`node`], starts the ranks and serves them in one event loop. Each of the two adopts
//! the orphans below it. If one is killed, the other ends every process of the job.
//!
//! On other hosts the same two processes run (`mpirun --daemon`, started by the parent's agent). The nodes
//! are joined in a [`tree`]. A job on one host is a tree of one.
//!
//! The node is in a Unix session of its own, together with its ranks; each rank has a process group. A kernel
//! that shares processors by session (CONFIG_SCHED_AUTOGROUP) gives one session as much as all programs of
//! the user's terminal together. All ranks of a host share one session, because sched_yield gives a processor
//! only to others of the same session. Consequently ranks have no controlling terminal (`/dev/tty` does not
//! open). They could not read it before either, since they were never in its foreground.
//!
//! The rules are pure state machines; the node executes their decisions. Deliberately absent: MPI, as the
//! launcher sees ranks through the job object only; named segments.
//!
//! # Modules
//!
//! | module | task |
//! |---|---|
//! | `options` | command line: one table for parser, help and hints; `options::parse` |
//! | `program` | `program::prepare`: all checks before the start, and the daemons' `JobInfo` |
//! | `program::HostJob` | the part of a job that one host starts |
//! | [`policy`] | consequences of an exit or a signal |
//! | [`lines`] | merges outputs by lines, at each daemon |
//! | `hosts`, `allocation` | hosts and agents, from options and from variables of resource managers |
//! | `needed` | MPI library that a program needs, read from ELF as the dynamic loader does |
//! | `mapping` | host of each rank |
//! | [`placement`] | processors of each rank on its host |
//! | `tree::Daemon` | actions of a daemon on each event |
//! | `tree::Directory` | addresses of ranks, on request |
//! | `tree::Link`, `tree::handshake` | encrypted frames and heartbeats; proof of the shared secret |
//! | `node` | executes decisions: `node/agents`, `children`, `local`, `streams`, `input`, `decisions` |
//! | `ranks`, `connections` | processes of a host; sockets |
//! | `root` | state of mpirun's own daemon only |
//!
//! A new message between daemons goes into `tree::message` and `tree::daemon`.
#![deny(unsafe_code)]

pub mod agent;
pub mod allocation;
mod calibration;
pub mod connections;
pub mod debugger;
pub mod environment;
pub mod error;
pub mod generated {
    //! Tables that are generated from `spec/`.
    pub mod foreign;
    pub mod statuses;
}
pub mod hang;
pub mod hosts;
pub mod input;
pub mod inquiries;
pub mod instruments;
pub mod interpreters;
pub mod io_servers;
pub mod lines;
pub mod loaded_libraries;
pub mod mapping;
pub mod needed;
pub mod node;
pub mod options;
pub mod outcome;
pub mod output;
pub mod output_files;
pub mod placement;
pub mod policy;
pub mod program;
pub mod rankfile;
pub mod ranks;
pub mod report;
pub mod reports;
pub mod request;
pub mod restart;
pub mod root;
pub mod sockets;
pub mod spawned;
pub mod supervisor;
pub mod sweep;
pub mod tree;

use options::Parsed;
use outcome::STATUS_USAGE;
use tutti_sys::{refusal, signal};

/// Runs `mpirun` with the arguments of this process, and returns its exit status.
pub fn main() -> u8 {
    // The parent of this process may ignore SIGCHLD, which its programs inherit.
    signal::restore_child_signal();
    if std::env::args_os().nth(1).is_some_and(|first| first == "--daemon") {
        return daemon(&std::env::args().skip(2).collect::<Vec<_>>());
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == tutti_sys::spawning::OPTION) {
        return spawned::main(std::env::args().nth(2));
    }
    let request = match options::parse(std::env::args_os().skip(1)) {
        Ok(Parsed::Run(request)) => request,
        Ok(Parsed::Help) => return show(&options::help()),
        Ok(Parsed::Version) => return show(&format!("mpirun (Tutti) {}\n", env!("CARGO_PKG_VERSION"))),
        Err(error) => return refuse(STATUS_USAGE, &error.to_string()),
    };
    if request.verbosity != request::Verbosity::Quiet {
        for (option, reason) in &request.ignored {
            eprintln!("mpirun: {option} is ignored: {reason}");
        }
    }
    match restart::run(*request) {
        Ok(status) => status,
        Err(refusal) => refuse(refusal.status, &refusal.reason),
    }
}

/// Runs as the daemon of another host. The arguments are `NUMBER --parent ADDRESS,...`, as another daemon
/// passes them.
fn daemon(arguments: &[String]) -> u8 {
    let parsed = match arguments {
        [number, flag, parents] if flag == "--parent" => {
            let parents: Result<Vec<_>, _> = parents.split(',').map(str::parse).collect();
            number.parse().ok().zip(parents.ok())
        }
        _ => None,
    };
    let Some((number, parents)) = parsed else {
        return refuse(STATUS_USAGE, "--daemon is what mpirun itself calls on other hosts");
    };
    match supervisor::run_daemon(number, &parents) {
        Ok(status) => status,
        Err(error) => {
            refuse(STATUS_USAGE, &format!("this daemon cannot start: {}", refusal::explain(&error)))
        }
    }
}

fn show(text: &str) -> u8 {
    use std::io::Write;
    // The reader of the help text may be gone, which is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
    0
}

fn refuse(status: u8, reason: &str) -> u8 {
    eprintln!("mpirun: {reason}");
    status
}

#[cfg(test)]
mod tests {
    use crate::generated::statuses::STATUSES;
    use crate::{outcome, policy, program, root};

    #[test]
    fn every_status_is_in_the_table() {
        let own = [
            root::STATUS_LOST,
            outcome::STATUS_USAGE,
            outcome::STATUS_DAMAGED,
            policy::STATUS_TIMEOUT,
            policy::STATUS_HANG,
            program::STATUS_NOT_EXECUTABLE,
            program::STATUS_NOT_FOUND,
        ];
        let listed = STATUSES.iter().filter_map(|(status, _)| status.parse::<u8>().ok());
        let own = [0].into_iter().chain(own);
        assert_eq!(listed.collect::<Vec<_>>(), own.collect::<Vec<_>>());
    }
}
