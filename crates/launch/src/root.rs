//! State and decisions of the root daemon only: the policy, and messages for the user.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tutti_base::Placement;
use tutti_base::placement::Run;
use tutti_sys::job::RankState;
use tutti_sys::process::Exit;
use tutti_sys::signal;

use crate::debugger::Entry;
use crate::outcome::{Outcome, STATUS_DAMAGED};
use crate::policy::{self, Event, Notice, Policy};
use crate::report::{self, Named};

use crate::tree::message::{Ending, JobInfo, Loss, Phase, RankExit, StartFailure};
use crate::tree::shape::Shape;

/// Exit status when a host is lost.
pub const STATUS_LOST: u8 = 1;

/// State of the whole job as the root knows it.
#[derive(Debug)]
pub struct Root {
    job: Arc<JobInfo>,
    placement: Placement,
    /// True for each rank that has ended or will never report its end.
    ended: Vec<bool>,
    /// Process numbers of ranks that failed, and the remarks of their hosts on the cause.
    failed: HashMap<u32, (i32, String)>,
    /// First rank that ended with a code other than 0, after MPI_Finalize or without MPI, and its code.
    culprit: Option<(u32, i32)>,
    /// True if the reason of the job's end was printed.
    is_explained: bool,
    /// Process number of each rank that was started.
    processes: BTreeMap<u32, i32>,
    /// Lines on the ends of ranks, if the user requests them.
    exit_codes: Option<BTreeMap<u32, String>>,
    /// Policy that decides the consequences of events.
    pub policy: Policy,
    /// Outcome of the job for a restart, determined by the first failure.
    pub outcome: Outcome,
    /// Time at which the last agent was called.
    called: Duration,
    /// Times at which the phases were reached.
    reached: Vec<(Phase, Duration)>,
}

impl Root {
    /// Creates the state of a job that has not begun.
    pub fn new(job: Arc<JobInfo>, wants_exit_codes: bool) -> Root {
        let placement = placement_of(&job).expect("the plan was made from a placement");
        let ranks = placement.ranks();
        Root {
            job,
            placement,
            ended: vec![false; ranks as usize],
            failed: HashMap::new(),
            culprit: None,
            is_explained: false,
            processes: BTreeMap::new(),
            exit_codes: wants_exit_codes.then(BTreeMap::new),
            policy: Policy::new(ranks),
            outcome: Outcome::Over,
            called: Duration::ZERO,
            reached: Vec::new(),
        }
    }

    /// Records the ranks that were started.
    pub fn started(&mut self, started: &[(u32, i32)]) {
        self.processes.extend(started.iter().copied());
    }

    /// Returns the processes of all known ranks, for debuggers.
    pub fn table(&self) -> Vec<Entry> {
        let entry = |(&rank, &pid): (&u32, &i32)| {
            let Named { host, program, .. } = self.name(rank);
            Entry { host, program, pid }
        };
        self.processes.iter().map(entry).collect()
    }

    /// Returns lines with the ranks that wait for a debugger, if they do.
    pub fn waits_for_debugger(&self, table: &[Entry]) -> Option<String> {
        let line = |(rank, entry): (usize, &Entry)| {
            let Entry { host, pid, .. } = entry;
            format!("mpirun: rank {rank} waits in MPI_Init for a debugger (host {host}): gdb -p {pid}\n")
        };
        self.job.manner.waits_for_debugger.then(|| table.iter().enumerate().map(line).collect())
    }

    /// Handles the ends of ranks.
    pub fn exits(&mut self, exits: &[RankExit], now: Duration, actions: &mut Vec<policy::Action>) {
        for exit in exits {
            // Each rank is counted once, even if its end is reported again.
            let Some(ended) = self.ended.get_mut(exit.rank as usize).filter(|ended| !**ended) else {
                continue;
            };
            *ended = true;
            if exit.ending != Ending::Code(0) || exit.state == RankState::Running as u8 {
                self.failed.insert(exit.rank, (exit.pid, exit.remark.clone()));
            }
            let state = RankState::from_number(exit.state.into()).unwrap_or(RankState::Aborted);
            if let Some(lines) = &mut self.exit_codes {
                let how = match exit.ending {
                    Ending::Code(code) => format!("exited with code {code}"),
                    Ending::Signal { number, .. } => format!("was killed by {}", signal::describe(number)),
                };
                lines.insert(exit.rank, how);
            }
            let how = match exit.ending {
                Ending::Code(code) => Exit::Code(code),
                Ending::Signal { number, core } => Exit::Signal { number, core },
            };
            // MPI_Abort and fatal errors print their own messages.
            self.is_explained |= state == RankState::Aborted;
            if let (Exit::Code(code), None) = (how, self.culprit)
                && code != 0
                && !self.policy.expects_failures()
            {
                self.culprit = Some((exit.rank, code));
            }
            if matches!(how, Exit::Signal { .. }) && self.outcome == Outcome::Over && self.policy.is_unended()
            {
                self.outcome = Outcome::Lost(String::new());
            }
            let event = Event::Exited { rank: exit.rank, exit: how, state, abort_code: exit.abort_code };
            self.policy.handle(event, now, actions);
        }
    }

    /// Handles the loss of a daemon, and of all daemons below it.
    pub fn lost(&mut self, loss: &Loss, shape: Shape, now: Duration, actions: &mut Vec<policy::Action>) {
        if loss.daemon >= shape.daemons() {
            return;
        }
        let below = shape.subtree(loss.daemon);
        let gone = self.give_up(|daemon| below.contains(&daemon));
        let name = &self.job.names[loss.daemon as usize];
        if self.outcome == Outcome::Over && self.policy.is_unended() {
            self.outcome = Outcome::Lost(name.clone());
        }
        let agent = self.job.agent.first().map_or("", String::as_str);
        let text = report::loss(name, &loss.cause, agent, self.job.pace_ms.1, self.job.start_ms);
        self.policy.handle(Event::Failure { status: STATUS_LOST, text, gone }, now, actions);
    }

    /// Handles the report of a daemon that cannot start its ranks.
    pub fn refused(&mut self, refusal: StartFailure, now: Duration, actions: &mut Vec<policy::Action>) {
        let gone = self.give_up(|daemon| daemon == refusal.daemon);
        if refusal.status == STATUS_DAMAGED && self.job.restart.is_some() {
            self.outcome = Outcome::Damaged;
        }
        let text = match self.job.names.get(refusal.daemon as usize) {
            Some(name) if refusal.daemon != 0 => format!("host {name}: {}", refusal.reason),
            _ => refusal.reason,
        };
        self.policy.handle(Event::Failure { status: refusal.status, text, gone }, now, actions);
    }

    /// Counts the ranks of some daemons as ended. Returns the number of those that had not ended.
    fn give_up(&mut self, is_meant: impl Fn(u32) -> bool) -> u32 {
        let meant: Vec<bool> = self.job.daemon_of.iter().map(|&daemon| is_meant(daemon)).collect();
        let mut gone = 0;
        for (ended, place) in self.ended.iter_mut().zip(self.placement.places()) {
            if meant[place.host as usize] && !std::mem::replace(ended, true) {
                gone += 1;
            }
        }
        gone
    }

    /// Records the call of an agent.
    pub fn called(&mut self, now: Duration) {
        self.called = now;
    }

    /// Records that the whole job has reached a phase.
    pub fn reached(&mut self, phase: Phase, now: Duration) {
        self.reached.push((phase, now));
    }

    /// Returns true if every daemon has passed on all output.
    pub fn is_drained(&self) -> bool {
        self.reached.iter().any(|(phase, _)| *phase == Phase::Drained)
    }

    /// Returns the times of the phases as text for the user.
    pub fn timings(&self, refused: u64) -> String {
        let mut text =
            format!("mpirun: {} hosts, {} ranks:", self.job.daemon_of.len(), self.placement.ranks());
        text.push_str(&format!(" agents called {:.1} ms,", self.called.as_secs_f64() * 1e3));
        for (phase, at) in &self.reached {
            let name = match phase {
                Phase::Joined => "daemons joined and told",
                Phase::Started => "ranks started",
                Phase::Initialised => "ranks initialised",
                Phase::Drained => "ranks ended",
            };
            text.push_str(&format!(" {name} {:.1} ms,", at.as_secs_f64() * 1e3));
        }
        text.push_str(&format!(" {refused} foreign connections\n"));
        text
    }

    /// Returns a line on the end of every rank, if the user requests them.
    pub fn exit_codes(&self) -> String {
        let lines = self.exit_codes.iter().flatten();
        lines.map(|(rank, how)| format!("mpirun: rank {rank} {how}\n")).collect()
    }

    /// Returns the text of a notice, if it should be printed.
    pub fn tell(&mut self, notice: &Notice) -> Option<String> {
        if *notice == Notice::Unended {
            return Some(self.unended());
        }
        let others = self.policy.running() > 0;
        // The process that failed has printed the reason already.
        let is_told = matches!(notice, Notice::Told(text) if text.is_empty());
        let is_cause = !is_told
            && !matches!(notice, Notice::Failed { code, .. } if !others && ![126, 127].contains(code));
        self.is_explained |= is_cause || is_told;
        is_cause.then(|| report::notice(notice, |rank| self.name(rank), others))
    }

    /// Returns a text that names the rank that determines the exit status, unless another message has
    /// explained it.
    pub fn explain(&self) -> Option<String> {
        let (rank, code) = self.culprit.filter(|(_, code)| *code == i32::from(self.policy.status()))?;
        let notice = Notice::Failed { rank, code };
        (!self.is_explained).then(|| report::notice(&notice, |rank| self.name(rank), false))
    }

    /// Returns a line for each host on which killed ranks may still run.
    fn unended(&self) -> String {
        let mut on_daemon = BTreeMap::new();
        for (place, _) in self.placement.places().zip(&self.ended).filter(|(_, ended)| !**ended) {
            *on_daemon.entry(self.job.daemon_of[place.host as usize]).or_insert(0) += 1;
        }
        let line = |(daemon, ranks): (u32, usize)| {
            report::unended(&self.job.names[daemon as usize], ranks, daemon == 0)
        };
        on_daemon.into_iter().map(line).collect()
    }

    /// Returns the properties of a rank for messages.
    fn name(&self, rank: u32) -> Named {
        let mut first = 0;
        let mut ranges = self.job.programs_of.iter().map(|&(program, count)| {
            first += count;
            (program, first)
        });
        let program = ranges.find(|&(_, end)| rank < end).map_or(0, |(program, _)| program);
        let (pid, remark) = self.failed.get(&rank).cloned().unwrap_or_default();
        let daemon = self.placement.host_of(rank).map_or(0, |host| self.job.daemon_of[host as usize]);
        Named {
            rank,
            pid,
            remark,
            host: self.job.names[daemon as usize].clone(),
            program: report::program_name(&self.job.programs[program as usize]),
        }
    }
}

/// Returns the placement in a plan; None if the plan is malformed.
pub fn placement_of(job: &JobInfo) -> Option<Placement> {
    let placement = Placement::from_runs(job.runs.iter().map(|&(host, ranks)| Run { host, ranks }))?;
    let is_whole = placement.hosts() as usize == job.daemon_of.len()
        && job.daemon_of.iter().all(|&daemon| (daemon as usize) < job.names.len())
        && job.programs_of.iter().all(|&(program, _)| (program as usize) < job.programs.len())
        && job.programs_of.iter().map(|&(_, count)| u64::from(count)).sum::<u64>()
            == placement.ranks().into();
    is_whole.then_some(placement)
}
