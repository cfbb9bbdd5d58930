//! Actions of a daemon on each event, from its start to its end. The state machine is pure: events and the
//! time go in, actions come out.
//!
//! | event | consequence |
//! |---|---|
//! | the plan arrives | agents start the children's daemons, then the ranks of this host are started |
//! | a child joins | it gets the plan |
//! | all hosts of the subtree have reported processors | passed up; all learn which hosts are one machine |
//! | ranks end, a host is lost, ranks cannot be started | passed up; the root decides |
//! | all ranks of the subtree have called MPI_Finalize | passed up; the root informs all |
//! | a rank requests another one to connect to it | passed towards that one |
//! | a signal comes down | sent to the ranks of this host and to the children |
//! | the parent is lost, or the job is over | ranks are killed, children are informed, this daemon ends |
//!
//! The state is a few words for each child. Two exceptions grow with the size of the job: the plan itself,
//! and the processors of hosts until they are passed on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tutti_base::Machines;
use tutti_base::machines::Processors;
use tutti_checkpoint::coordination::{Consequence, Member, Order, Report};

use super::cards::Collection;
use super::directory::{Asker, Directory, Step};
use super::machines::{self, Gathered};
use super::message::{
    Address, Ask, Bytes, Call, Cause, Down, Ending, HostProcessors, JobInfo, Loss, PHASES, Phase, RankCard,
    RankExit, StartFailure, StreamNumber, Up,
};
use super::shape::{Hop, Shape};
use crate::policy::Reported;

/// Maximum time for children to leave at the end of the job. A process manager that starts daemons
/// (Slurm) may end them with their agents, so the root leaves last. On a busy machine this may take a second.
pub const FAREWELL: Duration = Duration::from_secs(3);
/// Maximum number of signals that are remembered for children that have not joined yet.
const MOST_SIGNALS: usize = 16;
/// Maximum number of program generations that some ranks have finished and others not.
const MOST_ARRIVALS: usize = 1024;
const KILL: i32 = libc::SIGKILL;

/// Event that a daemon observes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The job is known (root only).
    Plan(Arc<JobInfo>),
    /// The parent sent a message.
    Down(Down),
    /// A child sent a message.
    Up(u32, Up),
    /// A child has joined.
    Joined(u32),
    /// The connection of a child has ended, or its agent before it joined.
    Lost(u32, Cause),
    /// The connection of the parent has ended.
    ParentLost,
    /// The ranks of this host have reached a phase. Drained: all of their reports and output were passed up.
    Reached(Phase),
    /// Ranks of this host ended.
    Exits(Vec<RankExit>),
    /// Ranks of this host were started, with these process numbers.
    Processes(Vec<(u32, i32)>),
    /// The ranks of this host cannot be started.
    Refused {
        /// Exit status of the job.
        status: u8,
        /// Line of text for the user.
        reason: String,
    },
    /// The processors of this host are known.
    Processors(Processors),
    /// A rank of this host requests an address.
    Ask(u32, Ask),
    /// A rank of this host requests another one to connect to it.
    Call(u32, Ask),
    /// A rank of this host has published an address for its program of this generation.
    Published(u32, u32, Address),
    /// A rank of this host has ended.
    RankEnded(u32),
    /// All ranks of this host have called MPI_Finalize in their programs of this generation.
    Arrived(u32),
    /// A process sent a signal to this one.
    Signal(i32),
    /// A rank of this host requests a checkpoint. True: the job ends with it.
    Wanted(bool),
    /// The root sends a signal to all ranks.
    SignalAll(i32),
    /// The root requests a report of waiting ranks.
    Report(Reported),
    /// A rank of this host has begun to wait for long.
    LongWait,
    /// The root requests the states of all ranks, under this number.
    Collect(u32),
    /// States of the ranks of this host for a request.
    Cards(u32, Vec<RankCard>),
    /// The root has input for the rank that reads it.
    Input(Bytes),
    /// The reader of the input, on this host, has accepted this number of bytes.
    InputTaken(u32),
    /// The root orders a phase of a checkpoint.
    Checkpoint(Order),
    /// Report that this host has performed its part of a phase.
    CheckpointDone(Report),
    /// End of the job.
    Quit,
}

/// Action that a daemon must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Starts the agent for a child.
    StartAgent(u32),
    /// Ends the agent of a child, whose connection is no longer accepted.
    StopAgent(u32),
    /// Starts the ranks of this host.
    StartRanks,
    /// Sends a signal to the ranks of this host.
    SignalRanks(i32),
    /// Reports the operations in which ranks of this host wait.
    ReportWaits(Reported),
    /// Collects the states of the ranks of this host for a request.
    CollectCards(u32),
    /// Passes input to the rank of this host that reads it.
    TakeInput(Bytes),
    /// Permits this number of further bytes of an output to the parent.
    Credit(StreamNumber, u32),
    /// Records that an output has no reader any more.
    BreakOutput(StreamNumber),
    /// Takes output of a child's subtree.
    Output(u32, StreamNumber, Bytes),
    /// Records that no more output comes from a child.
    OutputEnd(u32),
    /// Sends a rank of this host the address that it requested.
    Answer(u32, Ask, Address),
    /// Informs a rank of this host that another rank requests it to connect.
    Call(u32, Ask),
    /// Informs the ranks of this host which hosts are one machine.
    TakeMachines(Machines),
    /// Informs the ranks of this host that all ranks have called MPI_Finalize in their programs of this
    /// generation.
    NoteAllArrived(u32),
    /// Performs this host's part of a phase of a checkpoint.
    Checkpoint(Order),
    /// Sends a message to a child.
    Down(u32, Down),
    /// Sends a message to the parent; at the root, decides.
    Up(Up),
    /// Ends this process.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Started, and must join by this time.
    Starting(Duration),
    Joined,
    Gone,
}

#[derive(Debug)]
struct Child {
    state: State,
    reached: [bool; PHASES.len()],
    /// Address requests for its subtree until it has joined. The directory forwards each only once.
    asks: Vec<Ask>,
}

/// State of a daemon: its place in the tree, its children and the progress of the job.
#[derive(Debug)]
pub struct Daemon {
    number: u32,
    shape: Shape,
    job: Option<Arc<JobInfo>>,
    children: BTreeMap<u32, Child>,
    /// Phases that the ranks of this host have reached.
    own: [bool; PHASES.len()],
    reported: [bool; PHASES.len()],
    directory: Directory,
    machines: Gathered,
    checkpoint: Member,
    /// Children whose subtrees have arrived in MPI_Finalize, by generation. None stands for this host.
    arrivals: BTreeMap<u32, BTreeSet<Option<u32>>>,
    collection: Collection,
    signals: Vec<i32>,
    /// Time of the end of the job.
    over: Option<Duration>,
    ended: bool,
}

impl Daemon {
    /// Creates daemon `number`; 0 is the root. All else comes with the plan.
    pub fn new(number: u32) -> Daemon {
        Daemon {
            number,
            shape: Shape::new(1, 0),
            job: None,
            children: BTreeMap::new(),
            own: [false; PHASES.len()],
            reported: [false; PHASES.len()],
            directory: Directory::default(),
            machines: Gathered::default(),
            checkpoint: Member::default(),
            arrivals: BTreeMap::new(),
            collection: Collection::default(),
            signals: Vec::new(),
            over: None,
            ended: false,
        }
    }

    /// Returns the number of the daemon in the tree.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the job, once it is known.
    pub fn job(&self) -> Option<&Arc<JobInfo>> {
        self.job.as_ref()
    }

    /// Returns the host of the placement that this daemon serves, if any.
    pub fn host(&self) -> Option<u32> {
        let daemons = &self.job.as_ref()?.daemon_of;
        daemons.iter().position(|&daemon| daemon == self.number).map(|host| host as u32)
    }

    /// Returns the shape of the tree of daemons.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns true while the connection of `child` is awaited.
    pub fn expects(&self, child: u32) -> bool {
        self.children.get(&child).is_some_and(|child| matches!(child.state, State::Starting(_)))
    }

    /// Returns true while the connection of any child is awaited.
    pub fn expects_any(&self) -> bool {
        self.children.values().any(|child| matches!(child.state, State::Starting(_)))
    }

    /// Returns true if output of children may still arrive.
    pub fn awaits_output(&self) -> bool {
        let is_done = |child: &Child| child.reached[Phase::Drained as usize] || child.state == State::Gone;
        !self.children.values().all(is_done)
    }

    /// Returns true if the job is over, so that failures no longer matter.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Handles an event at time `now` and appends the actions.
    pub fn handle(&mut self, event: Event, now: Duration, actions: &mut Vec<Action>) {
        match event {
            Event::Plan(job) => self.begin(job, now, actions),
            Event::Down(down) => self.down(down, now, actions),
            Event::Up(child, up) => self.up(child, up, actions),
            Event::Joined(child) => self.joined(child, actions),
            Event::Lost(child, cause) => self.lost(child, cause, actions),
            Event::ParentLost | Event::Quit => self.quit(now, actions),
            Event::Reached(phase) => {
                self.own[phase as usize] = true;
                self.report(actions);
            }
            Event::Exits(exits) => actions.push(Action::Up(Up::Exits(exits))),
            Event::Processes(started) => actions.push(Action::Up(Up::Processes(started))),
            Event::Refused { status, reason } => {
                let refusal = StartFailure { daemon: self.number, status, reason };
                actions.push(Action::Up(Up::Refused(refusal)));
            }
            Event::Processors(own) => self.know_processors(own, actions),
            Event::Ask(local, ask) => self.ask(Asker::Rank(local), ask, actions),
            Event::Call(local, to) => {
                if let Some(host) = self.host() {
                    let from = Ask { host, local, generation: to.generation };
                    self.call(Call { to, from }, actions);
                }
            }
            Event::Published(local, generation, address) => {
                let mut steps = Vec::new();
                self.directory.publish(local, generation, address, &mut steps);
                self.take_steps(steps, actions);
            }
            Event::RankEnded(local) => {
                let mut steps = Vec::new();
                self.directory.end(local, &mut steps);
                self.take_steps(steps, actions);
            }
            Event::Arrived(generation) => self.arrived(None, generation, actions),
            Event::Signal(signal) => actions.push(Action::Up(Up::Signal(signal))),
            Event::Wanted(stops) => actions.push(Action::Up(Up::Wanted(stops))),
            Event::SignalAll(signal) => self.signal(signal, actions),
            Event::Report(which) => self.report_waits(which, actions),
            Event::LongWait => actions.push(Action::Up(Up::LongWait)),
            Event::Collect(request) => self.collect(request, actions),
            Event::Cards(request, cards) => {
                let whole = self.collection.take(None, request, cards);
                pass_cards(whole, actions);
            }
            Event::Input(bytes) => self.input(bytes, actions),
            Event::Checkpoint(order) => self.checkpoint(order, actions),
            Event::CheckpointDone(report) => {
                let mut out = Vec::new();
                self.checkpoint.done(report, &mut out);
                follow(out, actions);
            }
            Event::InputTaken(bytes) => actions.push(Action::Up(Up::InputTaken(bytes))),
        }
        self.end_when_alone(now, actions);
    }

    /// Performs the actions that are due at time `now`.
    pub fn tick(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let is_late = |child: &Child| matches!(child.state, State::Starting(until) if until <= now);
        let late: Vec<u32> =
            self.children.iter().filter(|(_, child)| is_late(child)).map(|(&number, _)| number).collect();
        for child in late {
            actions.push(Action::StopAgent(child));
            self.lost(child, Cause::Late, actions);
        }
        self.end_when_alone(now, actions);
    }

    /// Returns the time at which [`Daemon::tick`] must be called next, if any.
    pub fn deadline(&self) -> Option<Duration> {
        if self.ended {
            return None;
        }
        let starts = self.children.values().filter_map(|child| match child.state {
            State::Starting(until) => Some(until),
            _ => None,
        });
        starts.chain(self.over.map(|since| since + FAREWELL)).min()
    }

    /// Begins the job: starts the agents of children and the ranks of this host.
    fn begin(&mut self, job: Arc<JobInfo>, now: Duration, actions: &mut Vec<Action>) {
        if self.job.is_some() || self.over.is_some() {
            return;
        }
        self.shape = Shape::new(job.names.len() as u32, job.radix);
        let until = now + Duration::from_millis(job.start_ms);
        for child in self.shape.children(self.number) {
            let reached = [false; PHASES.len()];
            self.children.insert(child, Child { state: State::Starting(until), reached, asks: Vec::new() });
            actions.push(Action::StartAgent(child));
        }
        self.job = Some(job);
        self.directory = Directory::new(self.host());
        self.own[Phase::Joined as usize] = true;
        if self.host().is_some() {
            actions.push(Action::StartRanks);
        } else {
            self.own = [true; PHASES.len()];
            self.own[Phase::Drained as usize] = false;
        }
        self.report(actions);
    }

    /// Handles a message of the parent.
    fn down(&mut self, down: Down, now: Duration, actions: &mut Vec<Action>) {
        match down {
            Down::Plan(job) => self.begin(Arc::new(*job), now, actions),
            Down::Signal(signal) => self.signal(signal, actions),
            Down::ReportWaits(which) => self.report_waits(which, actions),
            Down::Input(bytes) => self.input(bytes, actions),
            Down::Credit(stream, bytes) => actions.push(Action::Credit(stream, bytes)),
            Down::BreakOutput(stream) => actions.push(Action::BreakOutput(stream)),
            Down::Ask(ask) => self.ask(Asker::Parent, ask, actions),
            Down::Call(call) => self.call(call, actions),
            Down::Table(table) => {
                let mut steps = Vec::new();
                self.directory.learn(table, &mut steps);
                self.take_steps(steps, actions);
            }
            Down::Machines(of_host, processors) => {
                match Machines::from_message(of_host, processors, self.job_hosts()) {
                    Some(machines) => self.tell_machines(machines, actions),
                    // With a malformed table, ranks would wait forever or choose other algorithms than those
                    // of other hosts. The parent is treated as lost.
                    None => self.quit(now, actions),
                }
            }
            Down::Quit => self.quit(now, actions),
            Down::Checkpoint(order) => self.checkpoint(*order, actions),
            Down::Arrived(generation) => self.tell_all_arrived(generation, actions),
            Down::Collect(request) => self.collect(request, actions),
        }
    }

    /// Handles a message of a child that has joined.
    fn up(&mut self, number: u32, up: Up, actions: &mut Vec<Action>) {
        let Some(child) = self.children.get_mut(&number).filter(|child| child.state == State::Joined) else {
            return;
        };
        match up {
            Up::Reached(phase) => {
                child.reached[phase as usize] = true;
                if phase == Phase::Drained {
                    actions.push(Action::OutputEnd(number));
                }
                self.report(actions);
            }
            Up::Output(stream, bytes) => actions.push(Action::Output(number, stream, bytes)),
            Up::Ask(ask) => self.ask(Asker::Child(number), ask, actions),
            Up::Call(call) => self.call(call, actions),
            Up::Table(table) => {
                let mut steps = Vec::new();
                self.directory.learn(table, &mut steps);
                self.take_steps(steps, actions);
            }
            Up::Arrived(generation) => self.arrived(Some(number), generation, actions),
            Up::Cards(request, cards) => {
                let whole = self.collection.take(Some(number), request, cards);
                pass_cards(whole, actions);
            }
            Up::Processors(said) => {
                self.machines.hear(number, said);
                self.pass_processors(actions);
            }
            Up::Checkpoint(report) => {
                let mut out = Vec::new();
                self.checkpoint.reported(number, *report, &mut out);
                follow(out, actions);
            }
            up @ (Up::Exits(_) | Up::Refused(_) | Up::Lost(_) | Up::Signal(_)) => {
                actions.push(Action::Up(up))
            }
            up @ (Up::InputTaken(_) | Up::Wanted(_) | Up::Processes(_) | Up::LongWait) => {
                actions.push(Action::Up(up))
            }
        }
    }

    /// Sends a child that has joined the plan, and all that was kept for it.
    fn joined(&mut self, number: u32, actions: &mut Vec<Action>) {
        let (Some(job), Some(child)) = (&self.job, self.children.get_mut(&number)) else { return };
        child.state = State::Joined;
        if self.over.is_some() {
            actions.push(Action::Down(number, Down::Quit));
            return;
        }
        actions.push(Action::Down(number, Down::Plan(Box::new(JobInfo::clone(job)))));
        actions.extend(self.signals.iter().map(|&signal| Action::Down(number, Down::Signal(signal))));
        actions.extend(child.asks.drain(..).map(|ask| Action::Down(number, Down::Ask(ask))));
    }

    /// Records the loss of a child, and reports it unless the job has ended.
    fn lost(&mut self, number: u32, cause: Cause, actions: &mut Vec<Action>) {
        let Some(child) = self.children.get_mut(&number) else { return };
        let before = std::mem::replace(&mut child.state, State::Gone);
        if before == State::Gone {
            return;
        }
        // A child that was ordered to leave is not a failure.
        if self.over.is_none() {
            actions.push(Action::Up(Up::Lost(Loss { daemon: number, cause })));
        }
        actions.push(Action::OutputEnd(number));
        let mut out = Vec::new();
        self.checkpoint.lost(number, &mut out);
        follow(out, actions);
        let whole = self.collection.lose(number);
        pass_cards(whole, actions);
        self.report(actions);
    }

    fn checkpoint(&mut self, order: Order, actions: &mut Vec<Action>) {
        let joined = self.children.iter().filter(|(_, child)| child.state == State::Joined);
        let mut out = Vec::new();
        self.checkpoint.order(order, joined.map(|(&number, _)| number), &mut out);
        follow(out, actions);
    }

    /// Reports to the parent each phase that the whole subtree has newly reached.
    fn report(&mut self, actions: &mut Vec<Action>) {
        for phase in PHASES {
            let at = phase as usize;
            // A lost child sends nothing more, so its output has ended.
            let done =
                |child: &Child| child.reached[at] || child.state == State::Gone && phase == Phase::Drained;
            if self.own[at] && !self.reported[at] && self.children.values().all(done) {
                self.reported[at] = true;
                actions.push(Action::Up(Up::Reached(phase)));
            }
        }
    }

    /// Records the processors of this host. They matter if the job has several hosts.
    fn know_processors(&mut self, own: Processors, actions: &mut Vec<Action>) {
        let Some(host) = self.host() else { return };
        self.machines.own = vec![HostProcessors { host, identity: own.identity, count: own.count }];
        self.pass_processors(actions);
    }

    /// Passes the processors up when all hosts of the subtree have reported theirs. The root computes from
    /// them which hosts are one machine, and sends that down.
    fn pass_processors(&mut self, actions: &mut Vec<Action>) {
        let hosts = self.job_hosts();
        if hosts <= 1 {
            return;
        }
        let says = self.host().is_some();
        let Some(said) = self.machines.complete(says, self.children.len()) else { return };
        if self.number > 0 {
            return actions.push(Action::Up(Up::Processors(said)));
        }
        self.tell_machines(machines::from_reports(&said, hosts), actions);
    }

    /// Returns the number of hosts with ranks of the job; 0 before the plan has arrived.
    fn job_hosts(&self) -> usize {
        self.job.as_ref().map_or(0, |job| job.daemon_of.len())
    }

    fn tell_machines(&mut self, machines: Machines, actions: &mut Vec<Action>) {
        for (&number, child) in &self.children {
            if child.state == State::Joined {
                let Machines { of_host, processors } = machines.clone();
                actions.push(Action::Down(number, Down::Machines(of_host, processors)));
            }
        }
        actions.push(Action::TakeMachines(machines));
    }

    /// Records that all ranks of this host (None), or of a child's subtree, have called MPI_Finalize in their
    /// programs of a generation. The same report may arrive more than once. When the whole subtree has
    /// arrived, this is passed up; the root then informs all.
    fn arrived(&mut self, child: Option<u32>, generation: u32, actions: &mut Vec<Action>) {
        if self.arrivals.len() >= MOST_ARRIVALS && !self.arrivals.contains_key(&generation) {
            return;
        }
        let arrived = self.arrivals.entry(generation).or_default();
        arrived.insert(child);
        let missing = u32::from(self.host().is_some());
        if self.arrivals.get(&generation).map_or(0, BTreeSet::len) < missing as usize + self.children.len() {
            return;
        }
        self.arrivals.remove(&generation);
        if self.number > 0 {
            actions.push(Action::Up(Up::Arrived(generation)));
        } else {
            self.tell_all_arrived(generation, actions);
        }
    }

    fn tell_all_arrived(&mut self, generation: u32, actions: &mut Vec<Action>) {
        let joined = self.children.iter().filter(|(_, child)| child.state == State::Joined);
        actions.extend(joined.map(|(&number, _)| Action::Down(number, Down::Arrived(generation))));
        actions.push(Action::NoteAllArrived(generation));
    }

    /// Sends a signal to the ranks of this host and to the children. SIGKILL also ends agents whose daemons
    /// have not joined.
    fn signal(&mut self, signal: i32, actions: &mut Vec<Action>) {
        actions.push(Action::SignalRanks(signal));
        if self.signals.len() < MOST_SIGNALS {
            self.signals.push(signal);
        }
        let mut given_up = Vec::new();
        for (&number, child) in &self.children {
            match child.state {
                State::Joined => actions.push(Action::Down(number, Down::Signal(signal))),
                // A child that has not joined yet has no ranks to kill.
                State::Starting(_) if signal == KILL => given_up.push(number),
                _ => {}
            }
        }
        for child in given_up {
            actions.push(Action::StopAgent(child));
            self.lost(child, Cause::Late, actions);
        }
    }

    fn report_waits(&mut self, which: Reported, actions: &mut Vec<Action>) {
        actions.push(Action::ReportWaits(which));
        for (&number, child) in &self.children {
            if child.state == State::Joined {
                actions.push(Action::Down(number, Down::ReportWaits(which)));
            }
        }
    }

    /// Begins a collection of the states of all ranks of the subtree.
    fn collect(&mut self, request: u32, actions: &mut Vec<Action>) {
        let joined = self.children.iter().filter(|(_, child)| child.state == State::Joined);
        let children: Vec<u32> = joined.map(|(&number, _)| number).collect();
        self.collection.begin(request, [None].into_iter().chain(children.iter().copied().map(Some)));
        actions.push(Action::CollectCards(request));
        actions.extend(children.into_iter().map(|child| Action::Down(child, Down::Collect(request))));
    }

    /// Passes input to the ranks of this host or towards the host that reads it.
    fn input(&mut self, bytes: Bytes, actions: &mut Vec<Action>) {
        let Some(job) = &self.job else { return };
        if job.manner.is_input_copied {
            for (&number, child) in &self.children {
                if child.state == State::Joined {
                    actions.push(Action::Down(number, Down::Input(bytes.clone())));
                }
            }
            actions.push(Action::TakeInput(bytes));
            return;
        }
        let Some(reader) = job.input_host() else { return };
        let Some(&daemon) = job.daemon_of.get(reader as usize) else { return };
        match self.shape.hop(self.number, daemon) {
            Hop::Here => actions.push(Action::TakeInput(bytes)),
            Hop::Child(child) => actions.push(Action::Down(child, Down::Input(bytes))),
            Hop::Parent => {}
        }
    }

    fn ask(&mut self, asker: Asker, ask: Ask, actions: &mut Vec<Action>) {
        let mut steps = Vec::new();
        self.directory.ask(asker, ask, &mut steps);
        self.take_steps(steps, actions);
    }

    /// Passes a request to connect towards its rank. That rank has an address, so its daemon has joined.
    fn call(&mut self, call: Call, actions: &mut Vec<Action>) {
        let daemon = self.job.as_ref().and_then(|job| job.daemon_of.get(call.to.host as usize));
        match daemon.map(|&daemon| self.shape.hop(self.number, daemon)) {
            Some(Hop::Here) => actions.push(Action::Call(call.to.local, call.from)),
            Some(Hop::Parent) => actions.push(Action::Up(Up::Call(call))),
            Some(Hop::Child(child)) => actions.push(Action::Down(child, Down::Call(call))),
            // The host does not exist, which is an error of the requesting rank.
            None => {}
        }
    }

    /// Turns the steps of the directory into actions. Checks whether all ranks of this host have published an
    /// address.
    fn take_steps(&mut self, steps: Vec<Step>, actions: &mut Vec<Action>) {
        for step in steps {
            match step {
                Step::Tell { to, ask, address } => actions.push(Action::Answer(to, ask, address)),
                Step::Send(Asker::Parent, table) => actions.push(Action::Up(Up::Table(table))),
                Step::Send(Asker::Child(child), table) => {
                    actions.push(Action::Down(child, Down::Table(table)))
                }
                Step::Send(Asker::Rank(_), _) => {}
                Step::Forward(ask) => self.forward(ask, actions),
            }
        }
        let mine = self.job.as_ref().zip(self.host());
        let ranks = mine.map(|(job, host)| {
            let own = job.runs.iter().filter(|run| run.0 == host);
            own.map(|run| u64::from(run.1)).sum::<u64>()
        });
        if ranks.is_some_and(|ranks| u64::from(self.directory.published()) == ranks) {
            self.own[Phase::Initialised as usize] = true;
            self.report(actions);
        }
    }

    /// Forwards an address request towards its host. A child that has not joined yet gets it later.
    fn forward(&mut self, ask: Ask, actions: &mut Vec<Action>) {
        let daemon = self.job.as_ref().and_then(|job| job.daemon_of.get(ask.host as usize));
        match daemon.map(|&daemon| self.shape.hop(self.number, daemon)) {
            Some(Hop::Parent) => actions.push(Action::Up(Up::Ask(ask))),
            Some(Hop::Child(number)) => match self.children.get_mut(&number) {
                Some(child) if child.state == State::Joined => {
                    actions.push(Action::Down(number, Down::Ask(ask)));
                }
                Some(child) if child.state != State::Gone => child.asks.push(ask),
                _ => {}
            },
            // The host does not exist. This is an error of the requesting rank, which gets no answer.
            Some(Hop::Here) | None => {}
        }
    }

    /// Ends the job on this host: kills the ranks and informs the children.
    fn quit(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.over.is_some() {
            return;
        }
        self.over = Some(now);
        actions.push(Action::SignalRanks(KILL));
        for (&number, child) in &mut self.children {
            match child.state {
                State::Joined => actions.push(Action::Down(number, Down::Quit)),
                State::Starting(_) => {
                    child.state = State::Gone;
                    actions.push(Action::StopAgent(number));
                }
                State::Gone => {}
            }
        }
    }

    fn end_when_alone(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Some(since) = self.over.filter(|_| !self.ended) else { return };
        if since + FAREWELL <= now || self.children.values().all(|child| child.state == State::Gone) {
            self.ended = true;
            actions.push(Action::End);
        }
    }
}

/// Passes a complete collection to the parent.
fn pass_cards(whole: Option<(u32, Vec<RankCard>)>, actions: &mut Vec<Action>) {
    actions.extend(whole.map(|(request, cards)| Action::Up(Up::Cards(request, cards))));
}

/// Turns the consequences of a phase of a checkpoint into actions.
fn follow(consequences: Vec<Consequence>, actions: &mut Vec<Action>) {
    actions.extend(consequences.into_iter().map(|consequence| match consequence {
        Consequence::Perform(order) => Action::Checkpoint(order),
        Consequence::Pass(child, order) => Action::Down(child, Down::Checkpoint(Box::new(order))),
        Consequence::Report(report) => Action::Up(Up::Checkpoint(Box::new(report))),
    }));
}

/// Returns the end of a process in the form of messages.
pub fn ending(exit: tutti_sys::process::Exit) -> Ending {
    match exit {
        tutti_sys::process::Exit::Code(code) => Ending::Code(code),
        tutti_sys::process::Exit::Signal { number, core } => Ending::Signal { number, core },
    }
}
