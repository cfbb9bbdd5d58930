//! `mpirun`: places the ranks of a job on hosts, starts them, carries their input and output, and ends
//! them all when one fails.
//!
//! Two processes: the [`supervisor`] is the one the user started and the one signals reach; its child,
//! the [`node`], starts the ranks and serves them in one event loop. Each adopts the orphans below it,
//! so whichever of the two is killed, the other ends every process of the job. The node is in a Unix session
//! of its own, and its ranks with it, each in a process group: a kernel that shares processors by session
//! (CONFIG_SCHED_AUTOGROUP) gives the ranks of a host as much as all other programs of the user's terminal
//! together, and not as much as each. One session for all of them, not one each: sched_yield gives a processor to
//! others of the same session only. Ranks hence have no controlling terminal (`/dev/tty` does not open); they were
//! never in its foreground, where alone it can be read. On other hosts run the same
//! two processes, the nodes joined in a [`tree`]. The rules are pure
//! state machines: [`policy`] decides what an exit or a signal means, [`lines`] how outputs merge,
//! [`placement`] where ranks run. Deliberately absent: MPI; the launcher sees ranks through the job
//! object only.
//!
//! # What is where
//!
//! `mpirun`, two processes: the supervisor (started by the user; takes signals and the terminal's input)
//! and the node (starts the ranks and serves them in one event loop, in a process group of its own). Both
//! adopt orphans, so whichever is killed, the other ends every process of the job. On other hosts run the
//! same two (`mpirun --daemon`, called by the parent's agent), the nodes joined in a tree of settable
//! radix; a job on one host is a tree of one. Entry points: `options::parse` (one table: parser, help,
//! hints), `program::prepare` (all that can be refused is refused before anything runs; makes `JobInfo`,
//! which every daemon gets), `program::HostJob` (what one host has to start of it), `policy::Policy` (what
//! an exit or a signal means), `lines::Merger` (outputs merge by lines, at each daemon), `hosts` (which
//! hosts), `allocation` (hosts and agents in variables of other launchers and resource managers), `needed`
//! (which MPI library a program needs, read from ELF as the dynamic loader does), `mapping` (which host
//! each rank runs on), `placement` (where on it), `tree::Daemon` (what a
//! daemon does about what it hears), `tree::Directory` (addresses of ranks, on request), `tree::Link`
//! (frames, heartbeats), `tree::handshake` (proof of the secret). All these are pure; `node` executes what
//! they decide (`node/agents`, `children`, `local`, `streams`, `input`, `decisions`), `ranks` holds the
//! processes of a host, `root` what only mpirun's own daemon has, `connections` the sockets. A new message
//! between daemons goes into `tree::message` and `tree::daemon`. Absent: MPI; files, named segments;
//! encryption (frames are authenticated, not hidden).
#![deny(unsafe_code)]

pub mod agent;
pub mod allocation;
mod calibration;
pub mod connections;
pub mod debugger;
pub mod environment;
pub mod generated {
    //! From `spec/`.
    pub mod foreign;
    pub mod statuses;
}
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

/// Runs `mpirun` with the arguments of this process; returns its exit status.
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
        Err(error) => return refuse(STATUS_USAGE, &error),
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

/// Runs as the daemon of another host: `NUMBER --parent ADDRESS,...`, as a daemon calls it.
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
    // Nothing to do if the reader of a help text has gone.
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
            program::STATUS_NOT_EXECUTABLE,
            program::STATUS_NOT_FOUND,
        ];
        let listed = STATUSES.iter().filter_map(|(status, _)| status.parse::<u8>().ok());
        let own = [0].into_iter().chain(own);
        assert_eq!(listed.collect::<Vec<_>>(), own.collect::<Vec<_>>());
    }
}
