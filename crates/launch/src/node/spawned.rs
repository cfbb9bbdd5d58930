//! Jobs that ranks of this host have started (MPI-5 section 11.8). Each has its own `mpirun`, a child of this
//! daemon. It serves the new job as this one serves the job of the ranks.
//!
//! This daemon accepts requests at a socket whose name all ranks know. It passes the connection to the new
//! `mpirun`, forwards its output, and decides the consequences of its end. A job that fails ends the jobs
//! that are connected with it (MPI-5 section 11.10.4). Ranks record such connections in their blocks.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use tutti_sys::event::{Interest, Poller};
use tutti_sys::local_socket::{Carries, Connection, Listener};
use tutti_sys::process::{self, Exit, Spawn};
use tutti_sys::spawning::{self, Called};

use super::{Node, TOKEN_SPAWNS};
use crate::output::Stream;
use crate::policy;
use crate::ranks::{Ranks, strings, terminated};
use crate::tree::daemon::{self, Event};
use crate::tree::message::Ending;

/// Maximum time from the connection of a rank to its request.
const CALL: Duration = Duration::from_millis(500);

/// Running `mpirun` of a job that a rank has started.
#[derive(Debug)]
pub(super) struct Spawned {
    pid: i32,
    job_id: u64,
}

/// All running jobs that ranks of this host have started.
#[derive(Debug, Default)]
pub(super) struct SpawnedJobs {
    listener: Option<Listener>,
    running: Vec<Spawned>,
    /// True if the user has ended the job, and with it all that it has started.
    is_all_over: bool,
}

impl SpawnedJobs {
    /// Begins to accept requests of ranks.
    pub(super) fn listen(&mut self, ranks: &Ranks, poller: &Poller) {
        let header = ranks.object().header();
        let name = spawning::name(header.job_id, header.host);
        let Ok(listener) = Listener::bind(&name, Carries::Bytes) else { return };
        if poller.add(listener.as_fd(), TOKEN_SPAWNS, Interest::Read).is_ok() {
            self.listener = Some(listener);
        }
    }

    /// Returns true if a spawned job is running.
    pub(super) fn any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Records that the user ends the job, and with it all that it has started.
    pub(super) fn user_ends(&mut self) {
        self.is_all_over = true;
    }
}

impl Node {
    /// Handles the requests of ranks that have connected.
    pub(super) fn take_spawns(&mut self) {
        while let Some(listener) = &self.spawned.listener {
            let Ok(Some(connection)) = listener.accept() else { return };
            let mut bytes = [0; 8];
            let heard = connection.receive_within(&mut bytes, CALL).ok();
            let called = heard.and_then(|(length, _)| Called::decode(&bytes[..length]));
            let Some(called) = called.filter(|_| !self.is_killed && !self.spawned.is_all_over) else {
                continue;
            };
            let job_id = match called {
                Called::Job(job_id) => job_id,
                Called::Checkpoint { stops } => {
                    self.events.push_back(Event::Wanted(stops));
                    continue;
                }
            };
            // The rank sees the connection end, and gets the reason as far as possible.
            if let Err(error) = self.start_mpirun(&connection, job_id) {
                let reason = format!("a further mpirun cannot be started: {error}");
                let _ = tutti_sys::letter::send(&connection, reason.as_bytes(), &[]);
            }
        }
    }

    /// Starts the `mpirun` of a spawned job, which inherits the connection with the rank.
    fn start_mpirun(&mut self, connection: &Connection, job_id: u64) -> io::Result<()> {
        let (out_reader, out) = io::pipe()?;
        let (err_reader, err) = io::pipe()?;
        let null = File::open("/dev/null")?;
        let program = std::env::current_exe()?.into_os_string().into_vec();
        let number = connection.as_fd().as_raw_fd().to_string();
        let arguments = [&program[..], spawning::OPTION.as_bytes(), number.as_bytes()];
        let variables: Vec<Vec<u8>> = std::env::vars_os()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
            .collect();
        let spawn = Spawn {
            program: terminated(&program)?,
            arguments: strings(arguments.into_iter())?,
            environment: strings(variables.iter().map(Vec::as_slice))?,
            directory: None,
            stdio: [null.as_fd(), out.as_fd(), err.as_fd()],
            inherit: vec![connection.as_fd()],
            processors: None,
            mask: self.given.mask,
            descriptors: None,
            is_traced: false,
        };
        let pid = process::spawn(&spawn).map_err(|error| error.error)?;
        self.spawned.running.push(Spawned { pid, job_id });
        self.outputs.add(out_reader, Stream::Out, String::new(), None)?;
        self.outputs.add(err_reader, Stream::Err, String::new(), None)
    }

    /// Forwards a signal to spawned jobs. All of them get a signal of the user. The end of this job ends only
    /// those that are connected with it.
    pub(super) fn signal_spawned(&self, signal: i32) {
        for job in &self.spawned.running {
            let is_tied = self.ranks.as_ref().is_some_and(|ranks| ranks.are_tied_to(job.job_id));
            if signal != libc::SIGKILL || self.spawned.is_all_over || is_tied {
                // The other mpirun must stop its ranks before itself, which SIGSTOP would not let it do.
                process::kill(job.pid, if signal == libc::SIGSTOP { libc::SIGTSTP } else { signal });
            }
        }
    }

    /// Handles the ends of processes that may be the `mpirun` of a spawned job.
    pub(super) fn end_spawned(&mut self, exits: &[(i32, Exit)]) {
        for &(pid, exit) in exits {
            let Some(at) = self.spawned.running.iter().position(|job| job.pid == pid) else { continue };
            let job = self.spawned.running.swap_remove(at);
            let status = match daemon::ending(exit) {
                Ending::Code(code) => code as u8,
                Ending::Signal { number, .. } => (128 + number) as u8,
            };
            let is_tied = self.ranks.as_ref().is_some_and(|ranks| ranks.are_tied_to(job.job_id));
            if status != 0 && is_tied && !self.is_killed {
                // The other mpirun has printed the reason.
                self.fail_with(status);
            }
        }
    }

    fn fail_with(&mut self, status: u8) {
        if self.root.is_some() {
            self.decide(policy::Event::Failure { status, text: String::new(), gone: 0 });
        } else {
            self.events.push_back(Event::Refused { status, reason: String::new() });
        }
    }
}
