//! What an exit or a signal means for the job. Pure: events and the time go in, actions come out.
//!
//! | event | consequence |
//! |---|---|
//! | a rank exits 0 before MPI_Init or after MPI_Finalize | none |
//! | exits otherwise after MPI_Finalize | its code is the job's status |
//! | exits otherwise before MPI_Init | its code is the status; ranks that still run [`GRACE`] later are killed |
//! | exits between MPI_Init and MPI_Finalize, is killed by a signal, calls MPI_Abort | the others are killed at once |
//! | SIGINT, SIGTERM, SIGHUP, SIGQUIT to mpirun | passed on; ranks that still run [`PATIENCE`] later are killed |
//!
//! Only the first failure counts and is told, in one message; MPI_Abort has told it already.

use std::time::Duration;

use tutti_sys::job::RankState;
use tutti_sys::process::Exit;

/// How long others may go on when a program that has not called MPI_Init fails: they often fail
/// alike, and may finish their own message.
pub const GRACE: Duration = Duration::from_millis(10);
/// How long ranks have to end after a signal that the user sent.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Two interrupts within this time kill.
pub const AGAIN: Duration = Duration::from_secs(1);
/// Status after the time limit, as that of timeout(1).
pub const STATUS_TIMEOUT: u8 = 124;

/// What the launcher sees happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rank ended.
    Exited {
        /// Which.
        rank: u32,
        /// How.
        exit: Exit,
        /// How far it had come.
        state: RankState,
        /// Argument of MPI_Abort.
        abort_code: i32,
    },
    /// Somebody sent a signal to mpirun.
    Signal(i32),
    /// The time limit that the user set is over.
    TimeLimit,
    /// The reader of our output has gone.
    OutputLost,
    /// The process that the user started is gone: nobody waits for this job.
    SupervisorLost,
}

/// What the launcher has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a signal to the process group of every rank that runs.
    SignalAll(i32),
    /// Tell the user.
    Tell(Notice),
    /// Print where every rank waits.
    ReportWaits,
}

/// A message to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A signal killed a rank.
    Killed {
        /// Which.
        rank: u32,
        /// The signal.
        signal: i32,
        /// Whether there is a core file.
        core: bool,
    },
    /// A rank ended between MPI_Init and MPI_Finalize.
    NotFinalized {
        /// Which.
        rank: u32,
        /// Its exit code.
        code: i32,
    },
    /// A rank ended with a code other than 0 before MPI_Init.
    Failed {
        /// Which.
        rank: u32,
        /// Its exit code.
        code: i32,
    },
    /// The time limit is over.
    TimedOut,
    /// Ranks did not end after a signal that the user sent.
    Unresponsive(i32),
}

/// The state of a job.
#[derive(Debug)]
pub struct Policy {
    running: u32,
    status: Option<u8>,
    /// When to kill what still runs.
    kill_at: Option<Duration>,
    /// What to say when that kills somebody.
    pending: Option<Notice>,
    killed: bool,
    stopped: bool,
    user_signal: Option<i32>,
    last_interrupt: Option<Duration>,
    output_lost: bool,
}

impl Policy {
    /// A job of `ranks` running ranks.
    pub fn new(ranks: u32) -> Policy {
        Policy {
            running: ranks,
            status: None,
            kill_at: None,
            pending: None,
            killed: false,
            stopped: false,
            user_signal: None,
            last_interrupt: None,
            output_lost: false,
        }
    }

    /// Takes an event at time `now`; appends what to do.
    pub fn handle(&mut self, event: Event, now: Duration, actions: &mut Vec<Action>) {
        match event {
            Event::Exited { rank, exit, state, abort_code } => {
                self.running = self.running.saturating_sub(1);
                if !self.killed {
                    self.exited(rank, exit, state, abort_code, now, actions);
                }
            }
            Event::Signal(signal) => self.signal(signal, now, actions),
            Event::TimeLimit if !self.killed => {
                actions.push(Action::Tell(Notice::TimedOut));
                actions.push(Action::ReportWaits);
                self.status = Some(STATUS_TIMEOUT);
                self.kill(actions);
            }
            Event::SupervisorLost => self.kill(actions),
            Event::OutputLost => self.output_lost = true,
            Event::TimeLimit => {}
        }
    }

    /// Does what is due at time `now`.
    pub fn tick(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.kill_at.is_some_and(|at| at <= now) && !self.killed {
            self.tell_pending(actions);
            self.kill(actions);
        }
    }

    /// When [`Policy::tick`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        self.kill_at.filter(|_| !self.killed && self.running > 0)
    }

    /// How many ranks run.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Exit status of the job, once no rank runs.
    pub fn status(&self) -> u8 {
        self.status.unwrap_or(0)
    }

    fn exited(
        &mut self,
        rank: u32,
        exit: Exit,
        state: RankState,
        abort_code: i32,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        match (state, exit) {
            (RankState::Aborted, _) => {
                self.pending = None;
                self.status = Some(abort_status(abort_code));
                self.kill(actions);
            }
            (_, Exit::Signal { number, core }) => self.died(rank, number, core, actions),
            (RankState::Running, Exit::Code(code)) => {
                self.fail(if code == 0 { 1 } else { code }, Notice::NotFinalized { rank, code }, actions);
            }
            (_, Exit::Code(0)) => {}
            (RankState::Finalized, Exit::Code(code)) => self.first_status(code),
            (RankState::Started, Exit::Code(code)) => {
                let is_first = self.status.is_none();
                self.first_status(code);
                if is_first && self.user_signal.is_none() {
                    self.pending = Some(Notice::Failed { rank, code });
                    self.kill_at = Some(now + GRACE);
                    // 126 and 127 are what a shell or the dynamic loader say: worth a word in any case.
                    if code == 126 || code == 127 {
                        self.tell_pending(actions);
                    }
                }
            }
        }
    }

    fn died(&mut self, rank: u32, signal: i32, core: bool, actions: &mut Vec<Action>) {
        let expected = self.user_signal == Some(signal) || self.output_lost && signal == PIPE;
        if self.user_signal.is_some() && expected {
            // The user wanted it; the other ranks keep their time to end.
            self.first_status(128 + signal);
        } else if expected {
            self.first_status(128 + signal);
            self.kill(actions);
        } else {
            self.fail(128 + signal, Notice::Killed { rank, signal, core }, actions);
        }
    }

    fn fail(&mut self, status: i32, notice: Notice, actions: &mut Vec<Action>) {
        self.first_status(status);
        match self.pending.take() {
            Some(earlier) => actions.push(Action::Tell(earlier)),
            None => actions.push(Action::Tell(notice)),
        }
        self.kill(actions);
    }

    fn signal(&mut self, signal: i32, now: Duration, actions: &mut Vec<Action>) {
        match signal {
            USR1 => actions.push(Action::ReportWaits),
            STOP_KEY => {
                self.stopped = true;
                actions.push(Action::SignalAll(STOP));
            }
            CONTINUE => {
                self.stopped = false;
                actions.push(Action::SignalAll(CONTINUE));
            }
            INTERRUPT | TERMINATE | HANGUP | QUIT => self.end_by(signal, now, actions),
            _ => actions.push(Action::SignalAll(signal)),
        }
    }

    fn end_by(&mut self, signal: i32, now: Duration, actions: &mut Vec<Action>) {
        let again = signal == INTERRUPT && self.last_interrupt.is_some_and(|last| now <= last + AGAIN);
        if signal == INTERRUPT {
            self.last_interrupt = Some(now);
        }
        if again {
            self.first_status(128 + signal);
            self.kill(actions);
            return;
        }
        actions.push(Action::SignalAll(signal));
        if std::mem::take(&mut self.stopped) {
            actions.push(Action::SignalAll(CONTINUE));
        }
        if self.user_signal.is_none() && !self.killed {
            self.pending = Some(Notice::Unresponsive(signal));
            self.kill_at = Some(now + PATIENCE);
        }
        self.user_signal = Some(signal);
    }

    fn first_status(&mut self, code: i32) {
        // An exit code has 8 bits, so only 128 + signal could be larger, and no signal is above 64.
        self.status.get_or_insert(u8::try_from(code).unwrap_or(1));
    }

    fn tell_pending(&mut self, actions: &mut Vec<Action>) {
        if let Some(notice) = self.pending.take() {
            if let Notice::Unresponsive(signal) = notice {
                self.first_status(128 + signal);
            }
            actions.push(Action::Tell(notice));
        }
    }

    fn kill(&mut self, actions: &mut Vec<Action>) {
        self.killed = true;
        actions.push(Action::SignalAll(KILL));
    }
}

const HANGUP: i32 = libc::SIGHUP;
const INTERRUPT: i32 = libc::SIGINT;
const QUIT: i32 = libc::SIGQUIT;
const KILL: i32 = libc::SIGKILL;
const USR1: i32 = libc::SIGUSR1;
const PIPE: i32 = libc::SIGPIPE;
const TERMINATE: i32 = libc::SIGTERM;
const CONTINUE: i32 = libc::SIGCONT;
const STOP: i32 = libc::SIGSTOP;
const STOP_KEY: i32 = libc::SIGTSTP;

/// The low byte of the code, as exit would have it, but never 0 for a code that is not.
fn abort_status(code: i32) -> u8 {
    match (code & 0xff) as u8 {
        0 if code != 0 => 1,
        low => low,
    }
}

/// Order in which exits seen at the same moment are taken: what explains the others comes first.
pub fn precedence(exit: Exit, state: RankState) -> u8 {
    match (state, exit) {
        (RankState::Aborted, _) => 0,
        (_, Exit::Signal { .. }) => 1,
        (RankState::Running, _) => 2,
        _ => 3,
    }
}
