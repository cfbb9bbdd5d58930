//! Supervisor: the process that the user started. It passes signals and the terminal's input down, and waits
//! for the [`node`].
//!
//! It does nothing else, so that it can be killed or stopped without harm. The node is in a process group of
//! its own, as timeout(1) and `kill -9 %1` kill whole groups. If the supervisor is killed, the node sees the
//! end of the pipe and ends the job. If the node is killed, the ranks die with it. Processes that they had
//! started become children of the supervisor, which ends them.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tutti_checkpoint::input::Resumption;
use tutti_sys::cgroup::Killings;
use tutti_sys::event::{self, Interest, Poller};
use tutti_sys::process::{self, Exit, Reaped};
use tutti_sys::signal::{self, Mask, SignalFd};

use crate::input::Input;
use crate::node::NodeArguments;
use crate::outcome::{EndReport, Outcome};
use crate::program::JobPlan;
use crate::request::Request;
use crate::{agent, debugger, node, report, sweep};

const TOKEN_SIGNAL: u64 = 0;
const TOKEN_INPUT: u64 = 1;
const TOKEN_TABLE: u64 = 2;

/// Number of interrupts after which the node is killed. Two interrupts end any job, so a node that needs more
/// hangs.
const LAST_INTERRUPT: u32 = 5;

/// Maximum time in which the agent must pass the secret.
const SECRET_TIME: Duration = Duration::from_secs(30);

/// Signals that are passed on to the job.
const PASSED_ON: [i32; 8] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// End of a job, for a caller that may restart it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Exit status of the job.
    pub status: u8,
    /// Cause of the end, which decides whether a restart helps.
    pub outcome: Outcome,
    /// True if bytes of the standard input were taken that a restart cannot read again.
    pub took_input: bool,
}

/// Runs a job, and returns its end.
///
/// # Errors
/// Fails if the system refuses resources of mpirun itself, such as a pipe or a process.
pub fn run(request: &Request, job: JobPlan) -> io::Result<Ended> {
    let JobPlan { info, here, secret, io_servers, resumption, shown: _ } = job;
    let (input, rank_input) = match resumption {
        Resumption::Ended => (Input::none(), File::open("/dev/null")?.into()),
        Resumption::AsGiven => Input::new(TOKEN_INPUT)?,
        Resumption::Seek(position) => {
            // The open file is shared with the process that provided it, and with the rank that reads it.
            let mut file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
            file.seek(SeekFrom::Start(position))?;
            Input::new(TOKEN_INPUT)?
        }
    };
    let status = supervise(input, rank_input, secret.0, |given| node::run(request, info, here, given), true);
    drop(io_servers);
    status
}

/// Runs as a daemon of a job on another host, and returns the exit status of this process. The secret comes
/// over the standard input.
///
/// # Errors
/// Fails if the secret does not arrive, or if the system refuses resources of this process.
pub fn run_daemon(number: u32, parents: &[SocketAddr]) -> io::Result<u8> {
    let secret = read_secret()?;
    let null = File::open("/dev/null")?;
    let run = |given| node::run_daemon(number, parents, given);
    supervise(Input::none(), null.into(), secret, run, false).map(|ended| ended.status)
}

/// Reads the secret from the agent.
fn read_secret() -> io::Result<[u8; 32]> {
    let stdin = io::stdin();
    let poller = Poller::new()?;
    // An input that cannot be watched is always ready.
    let is_watched = poller.add(stdin.as_fd(), TOKEN_INPUT, Interest::Read).is_ok();
    let start = Instant::now();
    let mut pipe = File::from(stdin.as_fd().try_clone_to_owned()?);
    let mut bytes = [0; 40];
    let mut count = 0;
    while count < bytes.len() {
        let mut events = Vec::new();
        if is_watched {
            poller.wait(Some(SECRET_TIME.saturating_sub(start.elapsed())), &mut events)?;
        }
        let refused = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        if is_watched && events.is_empty() {
            return Err(refused("the secret of the job does not come over the standard input"));
        }
        match pipe.read(&mut bytes[count..])? {
            0 => return Err(refused("the standard input ends before the secret of the job")),
            more => count += more,
        }
    }
    let (greeting, secret) = bytes.split_at(agent::GREETING.len());
    if greeting != agent::GREETING {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the standard input holds something else than the secret",
        ));
    }
    Ok(secret.try_into().expect("40 bytes less 8"))
}

/// Starts the node and supervises it. `speaks` is true for the process that the user started.
fn supervise(
    input: Input,
    rank_input: OwnedFd,
    secret: [u8; 32],
    run: impl FnOnce(NodeArguments) -> u8,
    speaks: bool,
) -> io::Result<Ended> {
    // A signal that was ignored at the start stays ignored (nohup).
    let wanted: Vec<i32> = PASSED_ON.into_iter().filter(|&signal| !signal::is_ignored(signal)).collect();
    let listened = Mask::from_signals(&[&wanted[..], &[libc::SIGCHLD]].concat());
    // With SIGTTIN and SIGTTOU blocked, this process gets an error instead of being stopped.
    let blocked =
        Mask::from_signals(&[&PASSED_ON[..], &[libc::SIGCHLD, libc::SIGTTIN, libc::SIGTTOU]].concat());
    // A job that is restarted automatically gets the signal mask that this process had at first.
    static ORIGINAL: OnceLock<Mask> = OnceLock::new();
    let now = blocked.block();
    let original = *ORIGINAL.get_or_init(|| now);
    let signals = SignalFd::new(&listened, true)?;
    let poller = Poller::new()?;
    poller.add(signals.as_fd(), TOKEN_SIGNAL, Interest::Read)?;
    process::adopt_orphans()?;
    let killings = Killings::now();
    let (reader, control) = event::pipe()?;
    let (mut told, tell) = event::pipe()?;
    let (table, shows) = event::pipe()?;
    event::set_nonblocking(table.as_fd())?;
    poller.add(table.as_fd(), TOKEN_TABLE, Interest::Read)?;
    // Each process closes the descriptors of the other.
    let below = Cell::new(Some((reader, rank_input, tell, shows)));
    let above = Cell::new(Some((control, input, poller, table)));
    let node = process::fork(|| {
        drop(above.take());
        let (control, input, outcome, shows) =
            below.take().expect("set above and taken once in each process");
        run(NodeArguments { control, input, mask: original, secret, killings, table: Some(shows), outcome })
    })?;
    drop(below.take());
    let (control, input, poller, table) = above.take().expect("set above and taken once in each process");
    let table = Table { pipe: table, bytes: Vec::new() };
    let exit = wait(node, &signals, &poller, control, input, table)?;
    let status = finish(exit, speaks, killings);
    // The node has ended, and with it all processes that had the other end of the pipe.
    event::set_nonblocking(told.as_fd())?;
    let mut said = Vec::new();
    let _ = told.read_to_end(&mut said);
    let EndReport { outcome, took_input } = EndReport::decode(&said);
    let outcome = match exit {
        Exit::Signal { .. } => Outcome::Lost(String::new()),
        Exit::Code(_) => outcome,
    };
    Ok(Ended { status, outcome, took_input })
}

/// Table of processes, as far as it has arrived.
struct Table {
    pipe: PipeReader,
    bytes: Vec<u8>,
}

impl Table {
    /// Reads further bytes, and publishes the table to debuggers when it is complete.
    fn ready(&mut self, poller: &Poller) {
        // The pipe does not block. A successful read means that its end was reached.
        if self.pipe.read_to_end(&mut self.bytes).is_ok() {
            let _ = poller.remove(self.pipe.as_fd());
            debugger::publish(&self.bytes);
        }
    }
}

/// Passes signals and input to the node until it ends. Returns its exit.
fn wait(
    node: i32,
    signals: &SignalFd,
    poller: &Poller,
    mut control: PipeWriter,
    mut input: Input,
    mut table: Table,
) -> io::Result<Exit> {
    let start = Instant::now();
    let mut events = Vec::new();
    let mut interrupts = 0;
    loop {
        input.advance(poller, start.elapsed());
        let timeout = input.deadline().map(|at| at.saturating_sub(start.elapsed()));
        poller.wait(timeout, &mut events)?;
        for event in events.drain(..) {
            match event.token {
                TOKEN_INPUT => input.ready(start.elapsed()),
                TOKEN_TABLE => table.ready(poller),
                _ => {}
            }
        }
        while let Some(number) = signals.next() {
            if number == libc::SIGCHLD {
                if let Some(exit) = reap_until(node) {
                    return Ok(exit);
                }
                continue;
            }
            // If the write fails, the node has ended, and SIGCHLD follows.
            let _ = control.write_all(&[number as u8]);
            interrupts += u32::from(number == libc::SIGINT);
            if interrupts == LAST_INTERRUPT {
                process::kill(node, libc::SIGKILL);
            }
            if number == libc::SIGTSTP {
                signal::stop_self();
            }
        }
    }
}

/// Reaps processes that have ended. Returns the exit of the node, once it has ended.
fn reap_until(node: i32) -> Option<Exit> {
    loop {
        match process::reap() {
            Reaped::Ended(pid, exit) if pid == node => return Some(exit),
            Reaped::Ended(..) => {}
            Reaped::Nothing | Reaped::NoChildren => return None,
        }
    }
}

/// Ends all processes below this one. Returns the exit status of the job, and reports a killed node.
fn finish(exit: Exit, speaks: bool, before: Killings) -> u8 {
    sweep::sweep();
    match exit {
        Exit::Code(code) => code as u8,
        Exit::Signal { number, .. } => {
            // On another host, the parent reports it.
            if speaks {
                let remark = report::remark(exit, || Killings::now().since(before));
                let signal = signal::describe(number);
                eprintln!(
                    "mpirun: the launcher's own process was killed by {signal}{remark}; the job was ended"
                );
            }
            (128 + number) as u8
        }
    }
}
