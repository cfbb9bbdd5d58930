//! Messages of `mpirun` for the user: one line for each fact, with the prefix `mpirun`.

use tutti_sys::cgroup::Shortage;
use tutti_sys::job::{RankBlock, RankState};
use tutti_sys::process::Exit;
use tutti_sys::signal;
use tutti_topo::text::show_list;

use crate::error::LaunchError;
use crate::hosts::Host;
use crate::policy::{Notice, RESIGNATION};
use crate::request::{Request, Verbosity};
use crate::tree::message::{Cause, Ending, JobInfo, ProgramPlan};

/// Rank with the properties that messages show.
#[derive(Clone, Debug)]
pub struct Named {
    /// Rank in MPI_COMM_WORLD of the job.
    pub rank: u32,
    /// Process number of the rank.
    pub pid: i32,
    /// Name of the rank's host.
    pub host: String,
    /// Name of the program as the user wrote it.
    pub program: String,
    /// Known cause of its end, as text; may be empty.
    pub remark: String,
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} (pid {}, host {}, {})", self.rank, self.pid, self.host, self.program)
    }
}

/// Hosts of a job, for messages before it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Hosts that the job may use.
    pub hosts: Vec<Host>,
    /// Variable that names them, or the command line.
    pub source: String,
    /// Command that reaches them.
    pub agent: String,
    /// Lines about options and variables that are not used.
    pub notes: Vec<String>,
}

/// Returns the name of a program as the user wrote it.
pub fn program_name(program: &ProgramPlan) -> String {
    program.command.first().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default()
}

/// Prints what the command line requests before the start: the number of this process, the hosts, the map.
/// Notes on variables that are not used are printed unless `--quiet` is set.
///
/// # Errors
/// Fails if the file of the process number cannot be written.
pub fn before(request: &Request, job: &JobInfo, shown: &Shown) -> Result<(), LaunchError> {
    if request.verbosity != Verbosity::Quiet {
        shown.notes.iter().for_each(|note| eprintln!("mpirun: {note}"));
    }
    let number = std::process::id();
    match request.pid_to.as_deref() {
        None => {}
        Some("-") => println!("{number}"),
        Some("+") => eprintln!("{number}"),
        Some(file) => {
            std::fs::write(file, format!("{number}\n"))
                .map_err(LaunchError::system(format!("--report-pid {file}")))?;
        }
    }
    let mut of_host: Vec<Vec<usize>> = vec![Vec::new(); job.daemon_of.len()];
    let mut next = 0;
    for &(host, ranks) in &job.runs {
        of_host[host as usize].extend(next..next + ranks as usize);
        next += ranks as usize;
    }
    if request.display.allocation {
        println!("mpirun: hosts are named by {}, reached by {}", shown.source, shown.agent);
        for Host { name, slots } in &shown.hosts {
            let daemons = of_host.iter().zip(&job.daemon_of);
            let here = daemons.filter(|(_, daemon)| job.names[**daemon as usize] == *name);
            let ranks: usize = here.map(|(ranks, _)| ranks.len()).sum();
            println!("mpirun: host {name}: {slots} slots, {ranks} ranks");
        }
    }
    for (host, &daemon) in of_host.iter().zip(&job.daemon_of) {
        let name = &job.names[daemon as usize];
        if request.display.map {
            println!("mpirun: host {name}: ranks {}", show_list(host.iter().copied()));
        }
    }
    Ok(())
}

/// Returns the remark of a host on the end of one of its ranks. `shortage` returns whether processes were
/// killed for lack of memory meanwhile.
pub fn remark(exit: Exit, shortage: impl FnOnce() -> Shortage) -> String {
    const KILLED_IN_SHELL: i32 = 128 + libc::SIGKILL;
    match exit {
        Exit::Signal { number: libc::SIGKILL, .. } | Exit::Code(KILLED_IN_SHELL) => lack(shortage()),
        _ => String::new(),
    }
}

/// Returns the text about a lack of memory; empty if there was none.
pub fn lack(shortage: Shortage) -> String {
    match shortage {
        Shortage::No => String::new(),
        Shortage::OfGroup(Some(bytes)) => {
            format!(" for lack of memory (its control group may use {} MiB)", bytes >> 20)
        }
        Shortage::OfGroup(None) => {
            " for lack of memory (the kernel killed processes of its control group)".to_string()
        }
        Shortage::OfMachine => {
            ", perhaps for lack of memory: the kernel killed processes of its machine for that (see dmesg)"
                .to_string()
        }
    }
}

/// Returns the text that explains the loss of a host.
pub fn loss(host: &str, cause: &Cause, agent: &str, silence_ms: u64, start_ms: u64) -> String {
    let seconds = |ms: u64| format!("{} s", ms as f64 / 1000.0);
    let what = match cause {
        Cause::Agent(Ending::Code(code)) => {
            format!(
                "cannot be reached: {agent} exited with code {code} before the launcher's daemon was there"
            )
        }
        Cause::Agent(Ending::Signal { number, .. }) => {
            format!("cannot be reached: {agent} was killed by {}", signal::describe(*number))
        }
        Cause::NoAgent(reason) => format!("cannot be reached: {agent} cannot be started: {reason}"),
        Cause::Late => {
            format!("cannot be reached: the launcher's daemon was not there after {}", seconds(start_ms))
        }
        Cause::Silent => {
            format!("is lost: nothing was heard of it for {} (TUTTI_SILENCE_MS)", seconds(silence_ms))
        }
        Cause::CutOff => {
            format!(
                "is lost: it is there, but nothing reached it for {} (TUTTI_SILENCE_MS); something on the way to it \
                 drops packets",
                seconds(silence_ms)
            )
        }
        Cause::Broken(reason) => {
            format!("is lost: the connection to the launcher's daemon on it has failed: {reason}")
        }
        Cause::Closed => "is lost: the launcher's daemon on it has ended".to_string(),
        Cause::Malformed => "is lost: what came from it cannot be understood".to_string(),
    };
    format!("host {host} {what}")
}

/// Returns the text of a notice. `name` returns the properties of a rank. `others` is true if other ranks
/// were ended as a consequence.
pub fn notice(notice: &Notice, name: impl Fn(u32) -> Named, others: bool) -> String {
    let end = if others { "; the other ranks were ended" } else { "" };
    match *notice {
        Notice::Told(ref text) => {
            format!("mpirun: {text}{}\n", if others { "; the job was ended" } else { "" })
        }
        Notice::Killed { rank, signal, core } => {
            let dumped = if core { ", core dumped" } else { "" };
            let named = name(rank);
            format!(
                "mpirun: {named} was killed by {}{dumped}{}{end}\n",
                signal::describe(signal),
                named.remark
            )
        }
        Notice::NotFinalized { rank, code } => {
            let named = name(rank);
            let hidden = hidden_signal(code);
            format!(
                "mpirun: {named} exited with code {code}{hidden}{} without calling MPI_Finalize{end}\n",
                named.remark
            )
        }
        Notice::Failed { rank, code: code @ (126 | 127) } => {
            let what = if code == 127 { "not found" } else { "not executable" };
            format!(
                "mpirun: {} exited with code {code}: it, a program it runs or a shared library it needs \
                 is {what}, see above{end}\n",
                name(rank)
            )
        }
        Notice::Failed { rank, code } => {
            let named = name(rank);
            format!("mpirun: {named} exited with code {code}{}{}{end}\n", hidden_signal(code), named.remark)
        }
        Notice::Left { rank, code } => {
            let named = name(rank);
            format!(
                "mpirun: {named} exited with code {code}{}{} after MPI_Finalize, which other ranks had not called \
                 yet{end}\n",
                hidden_signal(code),
                named.remark
            )
        }
        Notice::TimedOut => "mpirun: the time limit (--timeout) is over; the job is ended\n".to_string(),
        // Reported for each host by [`unended`].
        Notice::Unended => String::new(),
        Notice::Unresponsive(number) => {
            format!("mpirun: ranks still ran 2 s after {}; killed\n", signal::describe(number))
        }
    }
}

/// Returns the text about killed ranks of a host whose end was not reported in time. On mpirun's own host
/// they hang in the kernel. On another host they may have ended long ago, and the connection has stalled.
pub fn unended(host: &str, ranks: usize, is_own: bool) -> String {
    let waited = RESIGNATION.as_secs();
    let (ranks, they) =
        if ranks == 1 { ("1 rank".to_string(), "it hangs") } else { (format!("{ranks} ranks"), "they hang") };
    if is_own {
        return format!(
            "mpirun: {ranks} on host {host} did not die of SIGKILL within {waited} s: {they} in the kernel\n"
        );
    }
    format!(
        "mpirun: host {host} has not said within {waited} s that {ranks} there died of SIGKILL: the connection to its \
         daemon has stalled (the daemon ends them when it notices), or {they} in the kernel\n"
    )
}

/// Returns a remark for an exit code by which a shell reports the death of its program.
fn hidden_signal(code: i32) -> String {
    match code {
        129..=192 => format!(" (as a shell reports {})", signal::describe(code - 128)),
        _ => String::new(),
    }
}

/// Returns a line about the activity of a rank. `block` is None once the rank has ended.
pub fn waits(name: Named, block: Option<&RankBlock>) -> String {
    let Named { rank, pid, host, .. } = name;
    let what = match block {
        None => "ended".to_string(),
        Some(block) => match (block.waiting(), block.state()) {
            (Some(text), _) => format!("waiting {:.1} s in {text}", block.waited().as_secs_f64()),
            (None, RankState::Started) => "running (has not called MPI_Init)".to_string(),
            (None, RankState::Running) => "running (not waiting in MPI)".to_string(),
            (None, RankState::Finalized | RankState::Left) => "running (has called MPI_Finalize)".to_string(),
            (None, RankState::Aborted) => "ending (has called MPI_Abort)".to_string(),
        },
    };
    format!("mpirun: rank {rank} (pid {pid}, {host}): {what}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: Notice, others: bool, expected: &str) {
        let remark = match given {
            Notice::Killed { signal, .. } => {
                let exit = Exit::Signal { number: signal, core: false };
                remark(exit, || Shortage::OfGroup(Some(64 << 20)))
            }
            _ => String::new(),
        };
        let name = |rank| Named {
            rank,
            pid: 7,
            host: "node0".into(),
            program: "./a.out".into(),
            remark: remark.clone(),
        };
        assert_eq!(notice(&given, name, others), format!("mpirun: {expected}\n"));
    }

    #[test]
    fn notices_name_rank_process_host_and_cause() {
        check(
            Notice::Killed { rank: 3, signal: 11, core: true },
            true,
            "rank 3 (pid 7, host node0, ./a.out) was killed by signal 11 SIGSEGV (segmentation fault), \
             core dumped; the other ranks were ended",
        );
        check(
            Notice::Killed { rank: 3, signal: 9, core: false },
            false,
            "rank 3 (pid 7, host node0, ./a.out) was killed by signal 9 SIGKILL (killed) for lack of memory (its control group may \
             use 64 MiB)",
        );
        check(
            Notice::NotFinalized { rank: 0, code: 137 },
            false,
            "rank 0 (pid 7, host node0, ./a.out) exited with code 137 (as a shell reports signal 9 SIGKILL \
             (killed)) without calling MPI_Finalize",
        );
        check(
            Notice::Failed { rank: 0, code: 3 },
            true,
            "rank 0 (pid 7, host node0, ./a.out) exited with code 3; the other ranks were ended",
        );
        check(
            Notice::Left { rank: 1, code: 9 },
            true,
            "rank 1 (pid 7, host node0, ./a.out) exited with code 9 after MPI_Finalize, which other ranks had \
             not called yet; the other ranks were ended",
        );
    }
}
