//! Stopping all threads of a host's ranks at places where they can be kept.
//!
//! A thread stops wherever it is, in the kernel too: a system call is then begun anew. Two things take more
//! than telling it. A thread may be where what it holds in registers is worth nothing elsewhere (the number
//! of a process, bytes taken out of a socket and not yet noted): its rank says so in its block, and the
//! threads of such a rank go on for a moment. And a thread may wait in the kernel for another that stands
//! still already (one that unmaps memory which another watches): after a while all go on for a moment. Both
//! waits get longer each time, as a thread may wait for a processor that neighbours have.

use std::io;
use std::time::{Duration, Instant};

use tutti_sys::tracee::{self, Seen, Tracee};

/// How long threads may take to stop before all go on for a moment, at first and at most.
const PATIENCE: [Duration; 2] = [Duration::from_millis(40), Duration::from_secs(2)];
/// How long they go on, at first and at most.
const MOMENT: [Duration; 2] = [Duration::from_micros(300), Duration::from_millis(50)];
/// How often to look.
const LOOK: Duration = Duration::from_micros(30);
/// How long to try.
const LIMIT: Duration = Duration::from_secs(60);

/// A process all of whose threads stand still.
#[derive(Debug)]
pub struct Frozen {
    /// Its number.
    pub pid: i32,
    /// Its threads; that which the process began with is the first.
    pub threads: Vec<Tracee>,
}

/// Why processes could not be stopped.
#[derive(Debug)]
pub struct Unstoppable {
    /// Which of them, by its place in the list.
    pub which: usize,
    /// Why.
    pub reason: String,
}

/// Stops these processes. `is_critical` tells of one of them, which stands still, whether it must go on for a
/// moment.
///
/// # Errors
/// Which cannot be stopped and why; then all go on.
pub fn freeze(pids: &[i32], is_critical: impl Fn(usize) -> bool) -> Result<Vec<Frozen>, Unstoppable> {
    let mut all: Vec<Stopping> = Vec::with_capacity(pids.len());
    let result = pids.iter().enumerate().try_for_each(|(which, &pid)| {
        let stopping = Stopping::new(pid).map_err(|reason| Unstoppable { which, reason })?;
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

/// Lets them go on.
pub fn thaw(frozen: Vec<Frozen>) {
    for thread in frozen.into_iter().flat_map(|frozen| frozen.threads) {
        // Whoever has been killed meanwhile is gone.
        let _ = thread.detach();
    }
}

fn stop(all: &mut [Stopping], is_critical: impl Fn(usize) -> bool) -> Result<(), Unstoppable> {
    let begun = Instant::now();
    let ([mut patience, most_patience], [mut moment, longest_moment]) = (PATIENCE, MOMENT);
    loop {
        let has_stopped = all.iter_mut().enumerate().try_fold(true, |so_far, (which, stopping)| {
            let stopped = stopping.stop(patience).map_err(|reason| Unstoppable { which, reason })?;
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

/// A process that is being stopped.
#[derive(Debug)]
struct Stopping {
    pid: i32,
    threads: Vec<(Tracee, State)>,
}

impl Stopping {
    fn new(pid: i32) -> Result<Stopping, String> {
        let mut stopping = Stopping { pid, threads: Vec::new() };
        match stopping.attach_new() {
            Ok(_) => Ok(stopping),
            Err(error) => {
                stopping.give_up();
                Err(explain(&error))
            }
        }
    }

    /// Attaches to threads that are not known yet; returns whether there were any.
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

    /// Tells all to stop and waits so long; returns whether all stand still.
    fn stop(&mut self, patience: Duration) -> Result<bool, String> {
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
                return Err("it has ended".to_string());
            }
            if self.is_still() && !self.attach_new().map_err(|error| explain(&error))? {
                return Ok(true);
            }
            if begun.elapsed() > patience {
                return Ok(false);
            }
            tracee::pause(LOOK);
        }
    }

    fn look(&mut self) {
        self.threads.retain_mut(|(thread, state)| {
            if *state == State::Still {
                return true;
            }
            match thread.look() {
                Seen::Stopped => *state = State::Still,
                // It gets the signal, and stops before it does anything about it.
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

    /// Leaves it alone again; a thread can be detached from only while it stands still.
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
