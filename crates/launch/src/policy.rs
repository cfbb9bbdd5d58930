//! Consequences of an exit or a signal for the job, as a pure state machine: events and the time go in,
//! actions come out.
//!
//! | event | consequence |
//! |---|---|
//! | a rank exits 0 before MPI_Init or after MPI_Finalize | none |
//! | exits otherwise after MPI_Finalize | its code is the job's status |
//! | exits otherwise after MPI_Finalize, before all ranks have called it | the others are killed at once |
//! | exits otherwise before MPI_Init | its code is the status; the others are killed [`GRACE`] later |
//! | exits between MPI_Init and MPI_Finalize, by a signal or MPI_Abort | the others are killed at once |
//! | SIGINT, SIGTERM, SIGHUP, SIGQUIT to mpirun | passed on; ranks are killed [`PATIENCE`] later |
//!
//! After such a signal, ranks may end in any way. At the first SIGINT, mpirun also prints which ranks have
//! waited for long. Only the first failure counts and is reported, in one message. MPI_Abort has printed its
//! own message already.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tutti_sys::job::RankState;
use tutti_sys::process::Exit;

/// Time for which others may go on when a program fails that has not called MPI_Init. They often fail alike,
/// and may finish their own message.
pub const GRACE: Duration = Duration::from_millis(10);
/// Time that ranks have to end after a signal from the user.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Time within which a second interrupt kills the ranks.
pub const AGAIN: Duration = Duration::from_secs(1);
/// Time after which mpirun stops waiting for the end of killed ranks. Ranks that hang in the kernel do not
/// end, and hosts with a stalled connection do not report it.
pub const RESIGNATION: Duration = Duration::from_secs(5);
/// Exit status after the time limit, as that of timeout(1).
pub const STATUS_TIMEOUT: u8 = 124;
/// Exit status after a proved deadlock, with the setting `TUTTI_HANG=abort`.
pub const STATUS_HANG: u8 = 125;

/// Event that the launcher observes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rank ended, normally or by a signal.
    Exited {
        /// Number of the rank.
        rank: u32,
        /// Exit code or signal.
        exit: Exit,
        /// State that the rank had reached.
        state: RankState,
        /// Argument of MPI_Abort, if the rank has called it.
        abort_code: i32,
    },
    /// A process sent a signal to mpirun.
    Signal(i32),
    /// The time limit of the user has expired.
    TimeLimit,
    /// A deadlock is proved and reported, and the user wants such a job to end.
    Hang,
    /// The output of mpirun can no longer be written.
    OutputLost {
        /// True for a failure; false if the reader is gone.
        is_failure: bool,
    },
    /// The process that the user started is gone, so that no process waits for this job.
    SupervisorLost,
    /// The checkpoint with which the user wanted the job to end is complete.
    Stopped,
    /// A host is lost or cannot start its ranks.
    Failure {
        /// Exit status of the job.
        status: u8,
        /// Message for the user.
        text: String,
        /// Number of ranks whose end will never be reported.
        gone: u32,
    },
}

/// Action that the launcher must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends a signal to the process group of every running rank.
    SignalAll(i32),
    /// Prints a message for the user.
    Tell(Notice),
    /// Prints the operations in which ranks wait.
    ReportWaits(Reported),
}

/// Ranks whose waiting is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reported {
    /// Every rank of the job.
    All,
    /// Ranks that have waited for a second or longer. A user who interrupts a job often does so because it
    /// hangs.
    Stuck,
    /// Ranks that have waited for some milliseconds or longer.
    Waiting,
}

/// Message for the user about the end of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Report that a signal killed a rank.
    Killed {
        /// Number of the rank.
        rank: u32,
        /// Number of the signal.
        signal: i32,
        /// True if there is a core file.
        core: bool,
    },
    /// Report that a rank ended between MPI_Init and MPI_Finalize.
    NotFinalized {
        /// Number of the rank.
        rank: u32,
        /// Exit code of the rank.
        code: i32,
    },
    /// Report that a rank ended with a code other than 0 before MPI_Init.
    Failed {
        /// Number of the rank.
        rank: u32,
        /// Exit code of the rank.
        code: i32,
    },
    /// Report that a rank ended with a code other than 0 after MPI_Finalize, which other ranks had not called
    /// yet.
    Left {
        /// Number of the rank.
        rank: u32,
        /// Exit code of the rank.
        code: i32,
    },
    /// Report that the time limit has expired.
    TimedOut,
    /// Report that ranks did not end after this signal from the user.
    Unresponsive(i32),
    /// Report that the end of killed ranks is unknown. They do not end, or their hosts do not report it.
    Unended,
    /// Message with this text.
    Told(String),
}

/// State of a job, from its start to its exit status.
#[derive(Debug)]
pub struct Policy {
    running: u32,
    status: Option<u8>,
    /// The status is a 1 that no rank returned. The code of a rank that exited meanwhile replaces it.
    is_assumed: bool,
    /// Time at which ranks that still run are killed.
    kill_at: Option<Duration>,
    /// Message that is printed if ranks are killed then.
    pending: Option<Notice>,
    killed: Option<Duration>,
    has_resigned: bool,
    stopped: bool,
    user_signal: Option<i32>,
    last_interrupt: Option<Duration>,
    output_lost: bool,
}

impl Policy {
    /// Creates the state of a job with `ranks` running ranks.
    pub fn new(ranks: u32) -> Policy {
        Policy {
            running: ranks,
            status: None,
            is_assumed: false,
            kill_at: None,
            pending: None,
            killed: None,
            has_resigned: false,
            stopped: false,
            user_signal: None,
            last_interrupt: None,
            output_lost: false,
        }
    }

    /// Handles an event at time `now` and appends the actions.
    pub fn handle(&mut self, event: Event, now: Duration, actions: &mut Vec<Action>) {
        match event {
            Event::Exited { rank, exit, state, abort_code } => {
                self.running = self.running.saturating_sub(1);
                match exit {
                    _ if self.killed.is_none() => self.exited(rank, exit, state, abort_code, now, actions),
                    Exit::Code(code) if code != 0 && self.is_assumed => {
                        self.status = None;
                        self.is_assumed = false;
                        self.first_status(code);
                    }
                    _ => {}
                }
            }
            Event::Signal(signal) => self.signal(signal, now, actions),
            Event::TimeLimit if self.killed.is_none() => {
                actions.push(Action::Tell(Notice::TimedOut));
                actions.push(Action::ReportWaits(Reported::All));
                self.status = Some(STATUS_TIMEOUT);
                self.kill(now, actions);
            }
            Event::Hang if self.killed.is_none() => {
                self.first_status(STATUS_HANG.into());
                self.kill(now, actions);
            }
            Event::Hang => {}
            Event::SupervisorLost => self.kill(now, actions),
            Event::Stopped => {
                self.first_status(0);
                self.kill(now, actions);
            }
            Event::OutputLost { is_failure } => {
                self.output_lost = true;
                if is_failure {
                    self.first_status(1);
                }
            }
            Event::TimeLimit => {}
            Event::Failure { status, text, gone } => {
                self.running = self.running.saturating_sub(gone);
                if self.killed.is_none() {
                    self.fail(i32::from(status), Notice::Told(text), now, actions);
                }
            }
        }
    }

    /// Performs the actions that are due at time `now`.
    pub fn tick(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.kill_at.is_some_and(|at| at <= now) && self.killed.is_none() {
            self.tell_pending(actions);
            self.kill(now, actions);
        }
        if self.killed.is_some_and(|at| at + RESIGNATION <= now) && self.running > 0 {
            actions.push(Action::Tell(Notice::Unended));
            self.first_status(1);
            self.running = 0;
            self.has_resigned = true;
        }
    }

    /// Returns the time at which [`Policy::tick`] must be called next, if any.
    pub fn deadline(&self) -> Option<Duration> {
        let next = self.killed.map(|at| at + RESIGNATION).or(self.kill_at);
        next.filter(|_| self.running > 0)
    }

    /// Returns the number of running ranks.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Returns true if neither a failure nor the user has ended the job.
    pub fn is_unended(&self) -> bool {
        self.killed.is_none() && self.user_signal.is_none() && self.status.is_none()
    }

    /// Returns true if ranks may end with any code: the user has sent a signal, or the output has no reader.
    pub fn expects_failures(&self) -> bool {
        self.user_signal.is_some() || self.output_lost
    }

    /// Returns true if mpirun stopped waiting for the end of some ranks.
    pub fn has_resigned(&self) -> bool {
        self.has_resigned
    }

    /// Returns the exit status of the job. It is final when no rank runs.
    pub fn status(&self) -> u8 {
        self.status.unwrap_or(0)
    }

    /// Decides the consequences of a rank's exit, by the table in the introduction of this module.
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
                self.kill(now, actions);
            }
            (_, Exit::Signal { number, core }) => self.died(rank, number, core, now, actions),
            (RankState::Running, Exit::Code(code)) => match self.user_signal {
                Some(signal) => self.first_status(if code == 0 { 128 + signal } else { code }),
                None => {
                    self.is_assumed = code == 0 && self.status.is_none();
                    self.fail(code.max(1), Notice::NotFinalized { rank, code }, now, actions);
                }
            },
            (_, Exit::Code(0)) => {}
            (_, Exit::Code(code)) if self.output_lost => {
                // The rank could not write its output, which needs no message.
                self.first_status(code);
                self.kill(now, actions);
            }
            (RankState::Left, Exit::Code(code)) if self.user_signal.is_none() => {
                self.first_status(code);
                actions.push(Action::Tell(Notice::Left { rank, code }));
                actions.push(Action::ReportWaits(Reported::Waiting));
                self.kill(now, actions);
            }
            (RankState::Finalized | RankState::Left, Exit::Code(code)) => self.first_status(code),
            (RankState::Started, Exit::Code(code)) => {
                let is_first = self.status.is_none();
                self.first_status(code);
                if is_first && self.user_signal.is_none() {
                    self.pending = Some(Notice::Failed { rank, code });
                    self.kill_at = Some(now + GRACE);
                    // A shell or the dynamic loader exits with 126 or 127, which the user should see in any
                    // case.
                    if code == 126 || code == 127 {
                        self.tell_pending(actions);
                    }
                }
            }
        }
    }

    /// Decides the consequences of a rank's death by a signal.
    fn died(&mut self, rank: u32, signal: i32, core: bool, now: Duration, actions: &mut Vec<Action>) {
        let expected = self.user_signal == Some(signal) || self.output_lost && signal == PIPE;
        if self.user_signal.is_some() && expected {
            // The user requested it; the other ranks keep their time to end.
            self.first_status(128 + signal);
        } else if expected {
            self.first_status(128 + signal);
            self.kill(now, actions);
        } else {
            self.fail(128 + signal, Notice::Killed { rank, signal, core }, now, actions);
        }
    }

    fn fail(&mut self, status: i32, notice: Notice, now: Duration, actions: &mut Vec<Action>) {
        self.first_status(status);
        match self.pending.take() {
            Some(earlier @ Notice::Failed { .. }) => actions.push(Action::Tell(earlier)),
            _ => actions.push(Action::Tell(notice)),
        }
        self.kill(now, actions);
    }

    /// Decides the consequences of a signal to mpirun.
    fn signal(&mut self, signal: i32, now: Duration, actions: &mut Vec<Action>) {
        match signal {
            USR1 => actions.push(Action::ReportWaits(Reported::All)),
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

    /// Passes on a signal that ends the job. A second interrupt within `AGAIN` kills the ranks.
    fn end_by(&mut self, signal: i32, now: Duration, actions: &mut Vec<Action>) {
        let again = signal == INTERRUPT && self.last_interrupt.is_some_and(|last| now <= last + AGAIN);
        if signal == INTERRUPT {
            self.last_interrupt = Some(now);
        }
        if again {
            self.first_status(128 + signal);
            self.kill(now, actions);
            return;
        }
        if signal == INTERRUPT && self.user_signal.is_none() && self.killed.is_none() {
            actions.push(Action::ReportWaits(Reported::Stuck));
        }
        actions.push(Action::SignalAll(signal));
        if std::mem::take(&mut self.stopped) {
            actions.push(Action::SignalAll(CONTINUE));
        }
        if self.user_signal.is_none() && self.killed.is_none() {
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

    fn kill(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.killed.get_or_insert(now);
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

/// Returns the low byte of the code, like exit(2), but never 0 for a code other than 0.
fn abort_status(code: i32) -> u8 {
    match (code & 0xff) as u8 {
        0 if code != 0 => 1,
        low => low,
    }
}

/// Returns the order in which simultaneous exits are handled. The exit that explains the others comes first.
pub fn precedence(exit: Exit, state: RankState) -> u8 {
    match (state, exit) {
        (RankState::Aborted, _) => 0,
        (_, Exit::Signal { .. }) => 1,
        (RankState::Running | RankState::Left, _) => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RankState::*;

    /// Feeds events at times in milliseconds, and checks all actions and the final status.
    fn check(ranks: u32, events: &[(u64, Event)], expected: &[Action], status: u8) {
        let mut policy = Policy::new(ranks);
        let mut actions = Vec::new();
        for (time, event) in events {
            let now = Duration::from_millis(*time);
            while let Some(at) = policy.deadline().filter(|&at| at <= now) {
                policy.tick(at, &mut actions);
            }
            policy.handle(event.clone(), now, &mut actions);
        }
        if let Some(at) = policy.deadline().filter(|_| policy.killed.is_none()) {
            policy.tick(at, &mut actions);
        }
        assert_eq!((&actions[..], policy.status()), (expected, status), "{events:?}");
    }

    fn exit(rank: u32, code: i32, state: RankState) -> Event {
        Event::Exited { rank, exit: Exit::Code(code), state, abort_code: 0 }
    }

    fn died(rank: u32, number: i32, state: RankState) -> Event {
        Event::Exited { rank, exit: Exit::Signal { number, core: false }, state, abort_code: 0 }
    }

    fn killed(rank: u32, signal: i32) -> Action {
        Action::Tell(Notice::Killed { rank, signal, core: false })
    }

    const KILL_ALL: Action = Action::SignalAll(KILL);

    #[test]
    fn a_job_that_goes_well_needs_nothing() {
        check(3, &[(0, exit(0, 0, Finalized)), (9, exit(1, 0, Started)), (9, exit(2, 0, Finalized))], &[], 0);
        check(2, &[(0, exit(0, 3, Finalized)), (500, exit(1, 4, Finalized))], &[], 3);
    }

    #[test]
    fn a_death_ends_the_job_at_once_and_is_told_once() {
        let segv = [(5, died(1, 11, Running)), (6, died(0, 9, Running)), (6, exit(2, 1, Running))];
        check(3, &segv, &[killed(1, 11), KILL_ALL], 139);
        check(2, &[(5, died(0, 9, Started)), (6, died(1, 9, Started))], &[killed(0, 9), KILL_ALL], 137);
        let quit = Action::Tell(Notice::NotFinalized { rank: 1, code: 0 });
        check(2, &[(5, exit(1, 0, Running)), (6, died(0, 9, Running))], &[quit, KILL_ALL], 1);
        let quit = Action::Tell(Notice::NotFinalized { rank: 0, code: 7 });
        check(1, &[(5, exit(0, 7, Running))], &[quit, KILL_ALL], 7);
    }

    #[test]
    fn a_rank_that_others_still_need_ends_the_job_with_its_code() {
        let left = Action::Tell(Notice::Left { rank: 1, code: 9 });
        let waits = Action::ReportWaits(Reported::Waiting);
        let ends = [(5, exit(1, 9, Left)), (6, died(0, 9, Running))];
        check(2, &ends, &[left, waits, KILL_ALL], 9);
        check(2, &[(5, exit(1, 0, Left)), (6, exit(0, 0, Finalized))], &[], 0);
        let ended = [(0, Event::Signal(TERMINATE)), (5, exit(1, 9, Left)), (6, exit(0, 0, Finalized))];
        check(2, &ended, &[Action::SignalAll(TERMINATE)], 9);
    }

    #[test]
    fn an_early_failure_leaves_others_a_moment() {
        let failed = Action::Tell(Notice::Failed { rank: 1, code: 2 });
        check(2, &[(5, exit(1, 2, Started)), (6, exit(0, 3, Started))], &[], 2);
        check(2, &[(5, exit(1, 2, Started)), (90, died(0, 9, Started))], &[failed.clone(), KILL_ALL], 2);
        // Consequences of the first failure are not reported in its place.
        check(2, &[(5, exit(1, 2, Started)), (6, died(0, 6, Running))], &[failed, KILL_ALL], 2);
        let failed = Action::Tell(Notice::Failed { rank: 0, code: 127 });
        check(1, &[(5, exit(0, 127, Started))], &[failed], 127);
    }

    #[test]
    fn a_code_that_a_rank_has_said_counts_before_one_that_none_has() {
        let unfinalized = Action::Tell(Notice::NotFinalized { rank: 0, code: 0 });
        let leaves = (0, exit(0, 0, Running));
        check(
            3,
            &[leaves.clone(), (1, exit(1, 3, Running)), (1, exit(2, 4, Running))],
            &[unfinalized.clone(), KILL_ALL],
            3,
        );
        check(
            3,
            &[leaves.clone(), (1, died(1, 9, Running)), (1, exit(2, 4, Finalized))],
            &[unfinalized.clone(), KILL_ALL],
            4,
        );
        check(2, &[leaves, (1, exit(1, 0, Finalized))], &[unfinalized, KILL_ALL], 1);
        // The code of the first failure stands.
        let failed = Action::Tell(Notice::NotFinalized { rank: 0, code: 7 });
        check(2, &[(0, exit(0, 7, Running)), (1, exit(1, 3, Running))], &[failed, KILL_ALL], 7);
    }

    #[test]
    fn abort_has_told_its_story() {
        let abort = |code| Event::Exited { rank: 0, exit: Exit::Code(1), state: Aborted, abort_code: code };
        for (code, status) in [(5, 5), (0, 0), (256, 1), (-1, 255), (0x1234, 0x34)] {
            check(2, &[(0, abort(code)), (1, died(1, 9, Running))], &[KILL_ALL], status);
        }
        check(2, &[(0, exit(1, 2, Started)), (1, abort(9))], &[KILL_ALL], 9);
    }

    #[test]
    fn signals_of_the_user_are_passed_on_with_patience() {
        let pass = |signal| Action::SignalAll(signal);
        let int = Event::Signal(INTERRUPT);
        let both = [(0, int.clone()), (5, died(0, INTERRUPT, Running)), (900, died(1, INTERRUPT, Running))];
        let stuck = Action::ReportWaits(Reported::Stuck);
        check(2, &both, &[stuck.clone(), pass(INTERRUPT)], 130);
        check(1, &[(0, Event::Signal(TERMINATE)), (9, exit(0, 0, Finalized))], &[pass(TERMINATE)], 0);
        let late = Action::Tell(Notice::Unresponsive(TERMINATE));
        check(1, &[(0, Event::Signal(TERMINATE))], &[pass(TERMINATE), late, KILL_ALL], 143);
        check(
            1,
            &[(0, int.clone()), (900, int.clone()), (901, died(0, 9, Running))],
            &[stuck.clone(), pass(INTERRUPT), KILL_ALL],
            130,
        );
        let late = Action::Tell(Notice::Unresponsive(INTERRUPT));
        check(
            1,
            &[(0, int.clone()), (1500, int.clone())],
            &[stuck.clone(), pass(INTERRUPT), pass(INTERRUPT), late, KILL_ALL],
            130,
        );
        check(1, &[(0, Event::Signal(libc::SIGUSR2)), (1, exit(0, 0, Started))], &[pass(libc::SIGUSR2)], 0);
        let unfinalized = [(0, int), (5, exit(0, 1, Running)), (6, exit(1, 0, Running))];
        check(2, &unfinalized, &[stuck, pass(INTERRUPT)], 1);
        // A death by another signal than the user's is a failure.
        let segv = [(0, Event::Signal(TERMINATE)), (5, died(0, 11, Running))];
        check(2, &segv, &[pass(TERMINATE), killed(0, 11), KILL_ALL], 139);
    }

    #[test]
    fn job_control_stops_and_continues() {
        let stop = [(0, Event::Signal(STOP_KEY)), (9, Event::Signal(CONTINUE)), (99, exit(0, 0, Started))];
        check(1, &stop, &[Action::SignalAll(STOP), Action::SignalAll(CONTINUE)], 0);
        // A stopped rank must be continued before it can die of a signal.
        let end =
            [(0, Event::Signal(STOP_KEY)), (9, Event::Signal(TERMINATE)), (10, died(0, TERMINATE, Started))];
        let actions = [STOP, TERMINATE, CONTINUE].map(Action::SignalAll);
        check(1, &end, &actions, 143);
    }

    #[test]
    fn a_rank_that_cannot_be_killed_does_not_keep_the_user() {
        let mut policy = Policy::new(3);
        let mut actions = Vec::new();
        policy.handle(died(1, 11, Running), Duration::ZERO, &mut actions);
        policy.handle(died(0, 9, Running), Duration::ZERO, &mut actions);
        assert_eq!(policy.deadline(), Some(RESIGNATION));
        policy.tick(RESIGNATION, &mut actions);
        assert_eq!(actions, [killed(1, 11), KILL_ALL, Action::Tell(Notice::Unended)]);
        assert_eq!((policy.running(), policy.status(), policy.deadline()), (0, 139, None));
        assert!(policy.has_resigned());
    }

    #[test]
    fn a_lost_host_ends_the_job() {
        let lost = |gone| Event::Failure { status: 1, text: "host n1 is lost".to_string(), gone };
        let told = Action::Tell(Notice::Told("host n1 is lost".to_string()));
        check(4, &[(0, lost(2)), (1, died(0, 9, Running)), (1, died(1, 9, Running))], &[told, KILL_ALL], 1);
        check(4, &[(0, died(3, 11, Running)), (1, lost(3))], &[killed(3, 11), KILL_ALL], 139);
    }

    #[test]
    fn other_ends() {
        let ended = [(100, Event::TimeLimit), (101, died(0, 9, Running))];
        check(
            1,
            &ended,
            &[Action::Tell(Notice::TimedOut), Action::ReportWaits(Reported::All), KILL_ALL],
            124,
        );
        check(1, &[(0, Event::Hang), (1, died(0, 9, Running))], &[KILL_ALL], 125);
        check(1, &[(0, Event::SupervisorLost), (1, died(0, 9, Running))], &[KILL_ALL], 0);
        check(
            2,
            &[(0, Event::OutputLost { is_failure: false }), (1, died(0, PIPE, Started))],
            &[KILL_ALL],
            141,
        );
        check(
            2,
            &[(0, Event::OutputLost { is_failure: false }), (1, exit(0, 120, Started))],
            &[KILL_ALL],
            120,
        );
        check(1, &[(0, Event::OutputLost { is_failure: true }), (1, exit(0, 0, Finalized))], &[], 1);
        check(
            1,
            &[(0, Event::Signal(USR1)), (1, exit(0, 0, Started))],
            &[Action::ReportWaits(Reported::All)],
            0,
        );
    }

    #[test]
    fn of_exits_seen_together_the_cause_comes_first() {
        let order = [
            precedence(Exit::Code(1), Aborted),
            precedence(Exit::Signal { number: 11, core: true }, Running),
            precedence(Exit::Code(0), Running),
            precedence(Exit::Code(1), Started),
        ];
        assert!(order.is_sorted_by(|one, two| one < two));
    }
}
