//! Stopping of all threads of a host's ranks, at points where their state can be saved.
//!
//! A thread stops wherever it is, also in the kernel; an interrupted system call is restarted later. Two
//! cases need more than a request to stop:
//!
//! - A thread may hold state in registers that is useless elsewhere: a process number, or bytes read from a
//!   socket and not yet recorded. Its rank reports this in its block. The threads of such a rank go on for a
//!   moment.
//! - A thread may wait in the kernel for a stopped one, for example when it unmaps memory that the other
//!   watches. After a while all threads go on for a moment.
//!
//! Both waits double each time, as a thread may be waiting for a processor that other processes use.

use std::io;
use std::time::{Duration, Instant};

use tutti_sys::tracee::{self, Seen, Tracee};

use crate::error::CheckpointError;

/// Time that threads may take to stop before all go on for a moment: at first, and at most.
const PATIENCE: [Duration; 2] = [Duration::from_millis(40), Duration::from_secs(2)];
/// Time for which they go on: at first, and at most.
const MOMENT: [Duration; 2] = [Duration::from_micros(300), Duration::from_millis(50)];
/// Interval between two looks at the threads.
const LOOK: Duration = Duration::from_micros(30);
/// Time after which the attempt is given up.
const LIMIT: Duration = Duration::from_secs(60);

/// Process whose threads are all stopped.
#[derive(Debug)]
pub struct Frozen {
    /// Number of the process.
    pub pid: i32,
    /// Threads of the process. The initial one is the first.
    pub threads: Vec<Tracee>,
}

/// Reason why processes could not be stopped.
#[derive(Debug)]
pub struct Unstoppable {
    /// Index of the process in the list that was passed.
    pub which: usize,
    /// Explanation as a text for the user.
    pub reason: String,
}

/// Stops processes. `is_critical` returns true for the index of a stopped process that must go on for a
/// moment.
///
/// # Errors
/// Returns the process that cannot be stopped. All processes then go on.
pub fn freeze(pids: &[i32], is_critical: impl Fn(usize) -> bool) -> Result<Vec<Frozen>, Unstoppable> {
    let mut all: Vec<Stopping> = Vec::with_capacity(pids.len());
    let result = pids.iter().enumerate().try_for_each(|(which, &pid)| {
        let stopping =
            Stopping::new(pid).map_err(|error| Unstoppable { which, reason: error.to_string() })?;
        all.push(stopping);
        Ok(())
    });
    let result = result.and_then(|()| stop(&mut all, is_critical));
    match result {
        Ok(()) => Ok(all.into_iter().map(Stopping::done).collect()),
        Err(error) => {
            for stopping in all {
                stopping.give_up();
            }
            Err(error)
        }
    }
}

/// Resumes all threads of the processes.
pub fn thaw(frozen: Vec<Frozen>) {
    for thread in frozen.into_iter().flat_map(|frozen| frozen.threads) {
        // A process that was killed meanwhile has no threads left.
        let _ = thread.detach();
    }
}

/// Stops all processes. Lets threads go on for a moment where they must, until all stand still or `LIMIT` has
/// passed.
fn stop(all: &mut [Stopping], is_critical: impl Fn(usize) -> bool) -> Result<(), Unstoppable> {
    let begun = Instant::now();
    let ([mut patience, most_patience], [mut moment, longest_moment]) = (PATIENCE, MOMENT);
    loop {
        let has_stopped = all.iter_mut().enumerate().try_fold(true, |so_far, (which, stopping)| {
            let stopped =
                stopping.stop(patience).map_err(|error| Unstoppable { which, reason: error.to_string() })?;
            Ok(so_far & stopped)
        })?;
        let critical: Vec<usize> = if has_stopped {
            (0..all.len()).filter(|&which| is_critical(which)).collect()
        } else {
            Vec::new()
        };
        if has_stopped && critical.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > LIMIT {
            let which = critical.first().copied();
            let which = which.or_else(|| all.iter().position(|stopping| !stopping.is_still())).unwrap_or(0);
            let reason = format!("it cannot be stopped within {} s", LIMIT.as_secs());
            return Err(Unstoppable { which, reason });
        }
        for (which, stopping) in all.iter_mut().enumerate() {
            if !has_stopped || critical.contains(&which) {
                stopping.go_on();
            }
        }
        tracee::pause(moment);
        (patience, moment) = ((patience * 2).min(most_patience), (moment * 2).min(longest_moment));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Told,
    Still,
}

/// Process that is being stopped.
#[derive(Debug)]
struct Stopping {
    pid: i32,
    threads: Vec<(Tracee, State)>,
}

impl Stopping {
    /// Attaches to all threads of a process.
    fn new(pid: i32) -> Result<Stopping, CheckpointError> {
        let mut stopping = Stopping { pid, threads: Vec::new() };
        match stopping.attach_new() {
            Ok(_) => Ok(stopping),
            Err(error) => {
                stopping.give_up();
                Err(CheckpointError::Obstacle(explain(&error)))
            }
        }
    }

    /// Attaches to threads that are not known yet; returns true if there were any.
    fn attach_new(&mut self) -> io::Result<bool> {
        let mut any = false;
        for tid in tracee::threads(self.pid)? {
            if self.threads.iter().any(|(thread, _)| thread.tid() == tid) {
                continue;
            }
            match Tracee::seize(tid) {
                Ok(thread) => {
                    self.threads.push((thread, State::Running));
                    any = true;
                }
                Err(error) => match tutti_sys::refusal::errno(&error) {
                    Some(libc::ESRCH) => {}
                    // A thread that a traced one has started is attached already.
                    Some(libc::EPERM) if !self.threads.is_empty() => {
                        self.threads.push((Tracee::started(tid), State::Running));
                        any = true;
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(any)
    }

    /// Requests all threads to stop, and waits for at most `patience`. Returns true if all stand still.
    fn stop(&mut self, patience: Duration) -> Result<bool, CheckpointError> {
        let begun = Instant::now();
        loop {
            for (thread, state) in &mut self.threads {
                if *state == State::Running {
                    let _ = thread.interrupt();
                    *state = State::Told;
                }
            }
            self.look();
            if self.threads.is_empty() {
                return Err(CheckpointError::Obstacle("it has ended".to_string()));
            }
            if self.is_still()
                && !self.attach_new().map_err(|error| CheckpointError::Obstacle(explain(&error)))?
            {
                return Ok(true);
            }
            if begun.elapsed() > patience {
                return Ok(false);
            }
            tracee::pause(LOOK);
        }
    }

    /// Updates the states of the threads, and removes those that have ended.
    fn look(&mut self) {
        self.threads.retain_mut(|(thread, state)| {
            if *state == State::Still {
                return true;
            }
            match thread.look() {
                Seen::Stopped => *state = State::Still,
                // The thread receives the signal, and stops before it acts on it.
                Seen::Signalled(signal) => {
                    let _ = thread.resume(signal);
                }
                Seen::Starting => {
                    let _ = thread.resume(0);
                }
                Seen::Running => {}
                Seen::Ended => return false,
            }
            true
        });
    }

    fn is_still(&self) -> bool {
        self.threads.iter().all(|(_, state)| *state == State::Still)
    }

    fn go_on(&mut self) {
        for (thread, state) in &mut self.threads {
            if std::mem::replace(state, State::Running) == State::Still {
                let _ = thread.resume(0);
            }
        }
    }

    fn done(self) -> Frozen {
        let mut threads: Vec<Tracee> = self.threads.into_iter().map(|(thread, _)| thread).collect();
        threads.sort_by_key(|thread| (thread.tid() != self.pid, thread.tid()));
        Frozen { pid: self.pid, threads }
    }

    /// Detaches from all threads. A thread must be stopped for that, so running ones are stopped first.
    fn give_up(mut self) {
        let begun = Instant::now();
        while !self.threads.is_empty() && begun.elapsed() < LIMIT {
            self.threads.retain_mut(|(thread, state)| {
                if *state == State::Running {
                    let _ = thread.interrupt();
                    *state = State::Told;
                }
                if *state == State::Still {
                    let _ = thread.detach();
                    return false;
                }
                true
            });
            self.look();
            tracee::pause(LOOK);
        }
    }
}

/// Returns the error as a text for the user.
fn explain(error: &io::Error) -> String {
    match tutti_sys::refusal::errno(error) {
        Some(libc::EPERM) => {
            "the system does not permit to trace it (ptrace): kernel.yama.ptrace_scope above 1, a \
                              set-uid program, another tracer, or a filter of a container"
                .to_string()
        }
        _ => error.to_string(),
    }
}
