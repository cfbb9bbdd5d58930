//! Daemon of one host: one thread with one event loop. It starts the ranks of its host and the agents of its
//! children, serves them, and executes decisions. Those come from [`tree::daemon`](crate::tree::daemon) and,
//! at the root, from [`policy`](crate::policy). The daemon of mpirun and those of other hosts are the same. A
//! job on one host is a tree of one.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_sys::cgroup::Killings;
use tutti_sys::event::{self, Interest, Poller};
use tutti_sys::process;
use tutti_sys::refusal;
use tutti_sys::signal::{Mask, SignalFd};
use tutti_sys::speaker;

use crate::connections::{self, Connections};
use crate::loaded_libraries::InspectionSchedule;
use crate::outcome::{EndReport, STATUS_USAGE};
use crate::output::{Outputs, Stream};
use crate::policy::{self, Reported};
use crate::program::HostJob;
use crate::ranks::Ranks;
use crate::request::Request;
use crate::root::Root;
use crate::sweep;
use crate::tree::clock::Clock;
use crate::tree::daemon::{Action, Daemon, Event};
use crate::tree::handshake::Secret;
use crate::tree::message::JobInfo;

mod agents;
mod calls;
mod checkpoint;
mod children;
mod decisions;
mod hang;
mod hang_steps;
mod input;
mod libraries;
mod local;
mod spawned;
mod streams;
mod writing;

const TOKEN_CONTROL: u64 = 0;
const TOKEN_CHILD: u64 = 1;
const TOKEN_INPUT: u64 = 2;
const TOKEN_SPAWNS: u64 = 3;
const TOKEN_CHECKPOINT: u64 = 4;
const TOKEN_CALLS: u64 = 5;
const TOKEN_INPUT_TARGET: u64 = 6;
const TOKEN_OUTPUTS: u64 = 16;
const TOKEN_INQUIRIES: u64 = connections::TOKENS_END;
const TOKEN_AGENTS: u64 = TOKEN_INQUIRIES + (1 << 32);
/// Maximum wait for the end of outputs when no process of this host is left.
const DRAIN: Duration = Duration::from_secs(1);
/// Interval after which messages to ranks that found no room are tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// Arguments of a node from its supervisor.
#[derive(Debug)]
pub struct NodeArguments {
    /// Pipe that delivers signal numbers. It ends when the supervisor does.
    pub control: PipeReader,
    /// Standard input of mpirun, used at the root.
    pub input: OwnedFd,
    /// Signal mask that ranks get.
    pub mask: Mask,
    /// Shared secret of the job.
    pub secret: Secret,
    /// Number of processes that the kernel had killed for lack of memory before the job.
    pub killings: Killings,
    /// Pipe to the supervisor for the table of processes, which is sent once.
    pub table: Option<PipeWriter>,
    /// Pipe that carries the [`EndReport`] to the supervisor.
    pub outcome: PipeWriter,
}

struct Node {
    start: Instant,
    clock: Clock,
    given: NodeArguments,
    poller: Poller,
    has_control: bool,
    child_signals: SignalFd,
    outputs: Outputs,
    daemon: Daemon,
    connections: Connections,
    /// Address by which this host's ranks are reached; empty if it is unknown.
    interface: String,
    /// Addresses at which children reach this daemon.
    listening: Vec<SocketAddr>,
    agents: BTreeMap<u32, agents::Agent>,
    /// Output streams of the children that have joined.
    streams: BTreeMap<u32, streams::ChildStreams>,
    here: Option<HostJob>,
    ranks: Option<Ranks>,
    /// Times at which ranks are searched for other MPI libraries.
    inspections: InspectionSchedule,
    /// True if the start of the ranks waits until the address of this host is known.
    is_start_deferred: bool,
    /// Jobs that ranks of this host have started.
    spawned: spawned::SpawnedJobs,
    /// True if ranks must not be started any more.
    is_killed: bool,
    checkpoints: checkpoint::Checkpoints,
    hangs: hang::HangWatch,
    swept_at: Option<Duration>,
    is_drained: bool,
    root: Option<Root>,
    time_limit: Option<Duration>,
    prints_timings: bool,
    hurry: bool,
    /// Source (root) and destinations (ranks of this host) of standard input that mpirun forwards.
    input_source: Option<input::Source>,
    input_targets: Vec<input::Target>,
    /// Number of bytes of the input that all local ranks have taken, as reported to the root.
    input_reported: u64,
    events: VecDeque<Event>,
    end: bool,
}

/// Runs the job as its root, and returns its exit status.
pub fn run(request: &Request, info: Arc<JobInfo>, here: Option<HostJob>, given: NodeArguments) -> u8 {
    // Waiting ranks yield their processors to each other, which the kernel does within a session. Therefore a
    // job that a rank has started stays in the session of that rank.
    if request.spawned.is_some() {
        process::lead_group();
    } else {
        process::lead_session();
    }
    let mut node = match Node::new(given, Daemon::new(0)) {
        Ok(node) => node,
        Err(error) => return fail(&error),
    };
    node.outputs = match Outputs::new(TOKEN_OUTPUTS, request.timestamp) {
        Ok(outputs) => outputs,
        Err(error) => return fail(&error),
    };
    node.root = Some(Root::new(Arc::clone(&info), request.exit_codes));
    node.here = here;
    let input = node.observe_input();
    node.checkpoints = checkpoint::Checkpoints::at_root(request.checkpoints.clone(), input);
    node.checkpoints.calls.listen(&node.poller, TOKEN_CALLS);
    node.hangs = hang::HangWatch::at_root(request, &info);
    node.time_limit = request.timeout;
    node.prints_timings = request.timings;
    node.events.push_back(Event::Plan(info));
    node.serve()
}

/// Runs as daemon `number` of a job on another host, whose parent listens at `parents`. Returns the exit
/// status of this process.
pub fn run_daemon(number: u32, parents: &[SocketAddr], given: NodeArguments) -> u8 {
    process::lead_session();
    let joined = Node::new(given, Daemon::new(number)).and_then(|mut node| {
        let nonce = connections::random_nonce()?;
        let now = node.now();
        let own = node.connections.join(parents, nonce, &node.poller, now)?;
        node.interface = own.to_string();
        Ok(node)
    });
    match joined {
        Ok(mut node) => node.serve(),
        Err(error) => {
            let parents: Vec<String> = parents.iter().map(SocketAddr::to_string).collect();
            let error = refusal::explain(&error);
            eprintln!(
                "mpirun: this daemon cannot join its parent at {} (TCP): {error}; a firewall there has to let hosts of the job \
                 in (TUTTI_PORT_RANGE confines the ports, TUTTI_INTERFACE the address)",
                parents.join(", ")
            );
            STATUS_USAGE
        }
    }
}

fn fail(error: &io::Error) -> u8 {
    eprintln!("mpirun: cannot start the job: {}", refusal::explain(error));
    STATUS_USAGE
}

impl Node {
    /// Creates the event loop of a daemon, and makes this process adopt orphans.
    fn new(given: NodeArguments, daemon: Daemon) -> io::Result<Node> {
        process::set_name(speaker::LAUNCHER_NAME);
        process::adopt_orphans()?;
        let poller = Poller::new()?;
        event::set_nonblocking(given.control.as_fd())?;
        poller.add(given.control.as_fd(), TOKEN_CONTROL, Interest::Read)?;
        let child_signals = SignalFd::new(&Mask::from_signals(&[libc::SIGCHLD]), true)?;
        poller.add(child_signals.as_fd(), TOKEN_CHILD, Interest::Read)?;
        Ok(Node {
            start: Instant::now(),
            clock: Clock::default(),
            connections: Connections::new(given.secret, daemon.number()),
            given,
            poller,
            has_control: true,
            child_signals,
            outputs: Outputs::to_parent(TOKEN_OUTPUTS),
            daemon,
            interface: String::new(),
            listening: Vec::new(),
            agents: BTreeMap::new(),
            streams: BTreeMap::new(),
            here: None,
            ranks: None,
            inspections: InspectionSchedule::default(),
            is_start_deferred: false,
            spawned: spawned::SpawnedJobs::default(),
            is_killed: false,
            checkpoints: checkpoint::Checkpoints::default(),
            hangs: hang::HangWatch::default(),
            swept_at: None,
            is_drained: false,
            root: None,
            time_limit: None,
            prints_timings: false,
            hurry: false,
            input_source: None,
            input_targets: Vec::new(),
            input_reported: 0,
            events: VecDeque::new(),
            end: false,
        })
    }

    fn now(&self) -> Duration {
        self.clock.now(self.start.elapsed())
    }

    /// Runs the event loop until all ranks have ended and all of their output has left this host.
    fn serve(&mut self) -> u8 {
        let mut ready = Vec::new();
        loop {
            self.settle();
            if self.end {
                return self.leave();
            }
            let timeout = self.deadline().map(|at| at.saturating_sub(self.now()));
            self.clock.sleeps(self.start.elapsed(), timeout);
            if self.poller.wait(timeout, &mut ready).is_err() {
                // The kernel is out of memory, so that the job cannot be served any more.
                self.decide(policy::Event::SupervisorLost);
                self.events.push_back(Event::Quit);
            }
            self.clock.wakes(self.start.elapsed());
            for event in ready.drain(..) {
                self.dispatch(event.token);
            }
            self.tick();
        }
    }

    /// Handles the consequences of all events, until no more follow.
    fn settle(&mut self) {
        loop {
            self.drain_events();
            self.pass_outputs();
            self.watch_for_end();
            self.pass_input();
            let mut heard = Vec::new();
            self.connections.advance(&self.poller, self.now(), &mut heard);
            let is_quiet = heard.is_empty();
            self.hear(heard);
            if is_quiet && self.events.is_empty() && !self.next_of_checkpoint() {
                return;
            }
        }
    }

    fn leave(&mut self) -> u8 {
        self.abandon_checkpoint();
        sweep::sweep();
        let outcome = self.root.as_ref().map(|root| root.outcome.clone()).unwrap_or_default();
        let report = EndReport { outcome, took_input: self.has_taken_input() };
        // A supervisor that is gone does not restart the job.
        let _ = self.given.outcome.write_all(&report.encode());
        self.root.as_ref().map_or(0, |root| root.policy.status())
    }

    /// Returns the time at which the loop must wake up, if no event comes earlier.
    fn deadline(&self) -> Option<Duration> {
        let drain = self.swept_at.map(|since| since + DRAIN).filter(|&at| at > self.now());
        let policy = self.root.as_ref().and_then(|root| root.policy.deadline());
        let times = [
            policy,
            self.outputs.deadline(),
            self.daemon.deadline(),
            self.connections.deadline(),
            self.time_limit,
            drain,
            self.again(),
            self.checkpoints.deadline(),
            self.inspections.due(),
            self.hangs.deadline(),
        ];
        times.into_iter().flatten().min()
    }

    fn again(&self) -> Option<Duration> {
        let is_late = self.ranks.as_ref().is_some_and(Ranks::has_late_answers);
        is_late.then(|| self.now() + AGAIN)
    }

    /// Performs all actions that are due.
    fn tick(&mut self) {
        let now = self.now();
        if self.time_limit.is_some_and(|limit| limit <= now) {
            self.time_limit = None;
            self.spawned.user_ends();
            self.decide(policy::Event::TimeLimit);
        }
        if let Some(root) = &mut self.root {
            let mut actions = Vec::new();
            root.policy.tick(now, &mut actions);
            self.obey(actions);
        }
        self.tick_checkpoints();
        self.look_for_libraries();
        self.watch_hangs();
        let mut actions = Vec::new();
        self.daemon.tick(now, &mut actions);
        actions.into_iter().for_each(|action| self.perform(action));
        if let Some(ranks) = &mut self.ranks {
            ranks.flush_answers();
        }
    }

    /// Handles an event of the poller by its token.
    fn dispatch(&mut self, token: u64) {
        let now = self.now();
        match token {
            TOKEN_CONTROL => self.read_control(),
            TOKEN_CHILD => self.reap(),
            TOKEN_INPUT => self.read_input(),
            // The pipe of the input has room again. Input is passed on before the next wait.
            TOKEN_INPUT_TARGET => {}
            TOKEN_SPAWNS => self.take_spawns(),
            TOKEN_CHECKPOINT => self.take_written(),
            TOKEN_CALLS => self.take_calls(),
            TOKEN_OUTPUTS..connections::TOKENS => self.outputs.ready(token, now),
            connections::TOKENS..TOKEN_INQUIRIES => {
                let mut heard = Vec::new();
                let daemon = &self.daemon;
                self.connections.ready(token, &self.poller, now, |child| daemon.expects(child), &mut heard);
                self.hear(heard);
            }
            TOKEN_INQUIRIES..TOKEN_AGENTS => self.read_inquiry((token - TOKEN_INQUIRIES) as u32),
            _ => self.read_agent((token - TOKEN_AGENTS) as u32),
        }
    }

    /// Executes an action of the daemon's state machine.
    fn perform(&mut self, action: Action) {
        let now = self.now();
        match action {
            Action::StartAgent(child) => self.start_agent(child),
            Action::StopAgent(child) => self.stop_agent(child),
            Action::StartRanks => self.start_ranks(),
            Action::SignalRanks(signal) => {
                self.is_killed |= signal == libc::SIGKILL;
                if self.is_killed && std::mem::take(&mut self.is_start_deferred) {
                    let reason = "its ranks were not started".to_string();
                    self.events.push_back(Event::Refused { status: STATUS_USAGE, reason });
                }
                self.ranks.iter().filter(|_| signal == libc::SIGKILL).for_each(Ranks::give_up);
                self.signal_spawned(signal);
                self.ranks.iter().for_each(|ranks| ranks.signal(signal));
            }
            Action::ReportWaits(which) => {
                if which == Reported::All {
                    self.signal_spawned(libc::SIGUSR1);
                }
                if let Some(ranks) = &self.ranks {
                    ranks.report_waits(which, &mut self.outputs, now);
                }
            }
            Action::CollectCards(request) => self.collect_cards(request),
            Action::TakeInput(bytes) => self.take_input(bytes),
            Action::Credit(stream, bytes) => {
                if let Some(stream) = Stream::from_number(stream) {
                    self.outputs.credit(stream, bytes as usize);
                }
            }
            Action::BreakOutput(stream) => {
                if let Some(stream) = Stream::from_number(stream) {
                    self.outputs.break_stream(stream);
                }
            }
            Action::Output(child, stream, bytes) => self.take_output(child, stream, &bytes),
            Action::OutputEnd(child) => self.end_output(child),
            Action::Answer(local, ask, address) => {
                if let Some(ranks) = &mut self.ranks {
                    ranks.answer(local, ask, address);
                }
            }
            Action::Call(local, caller) => {
                if let Some(ranks) = &mut self.ranks {
                    ranks.call(local, caller);
                }
            }
            Action::TakeMachines(machines) => {
                self.ranks.iter().for_each(|ranks| ranks.object().set_machines(&machines));
            }
            Action::NoteAllArrived(generation) => {
                self.ranks.iter().for_each(|ranks| ranks.note_all_arrived(generation));
            }
            Action::Checkpoint(order) => self.checkpoints.ordered.push_back(order),
            Action::Down(child, down) => self.connections.send_down(child, &down, now),
            Action::Up(up) if self.root.is_some() => self.decide_up(up),
            Action::Up(up) => self.connections.send_up(&up, now),
            Action::End => self.end = true,
        }
        if self.connections.is_listening() && !self.daemon.expects_any() {
            self.connections.stop_listening();
        }
    }
}
