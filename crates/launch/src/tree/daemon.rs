//! What a daemon does about what it hears, from its start to its end. Pure: events and the time go in, actions come out.
//!
//! | event | consequence |
//! |---|---|
//! | the plan comes | agents start the children's daemons, then the ranks of this host are started |
//! | a child joins | it gets the plan |
//! | all hosts of the subtree have said what their processors are | told upwards; the root tells all which hosts are one machine |
//! | ranks end, a host is lost, ranks cannot be started | told upwards; the root decides |
//! | all ranks of the subtree have called MPI_Finalize | told upwards; the root tells all |
//! | a rank wants another one to connect to it | told towards that one |
//! | a signal comes down | to the ranks of this host and on to the children |
//! | the parent is lost, or the job is over | ranks are killed, children are told, this daemon ends |
//!
//! All state is a few words a child: nothing grows with the size of the job but the plan itself and, until it is passed on,
//! what hosts say of their processors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tutti_base::Machines;
use tutti_base::machines::Processors;
use tutti_checkpoint::coordination::{Consequence, Member, Order, Report};

use super::directory::{Asker, Directory, Step};
use super::machines::{self, Gathered};
use super::message::{
    Address, Ask, Bytes, Call, Cause, Down, Ending, HostProcessors, JobInfo, Loss, PHASES, Phase, RankExit,
    Refusal, StreamNumber, Up,
};
use super::shape::{Hop, Shape};
use crate::policy::Reported;

/// How long children have to leave when the job is over, at most. Who starts daemons (Slurm) may end them with their agents, so the
/// last one to go is the root; on a busy machine a farewell takes a second.
pub const FAREWELL: Duration = Duration::from_secs(3);
/// Signals remembered for children that have not joined yet.
const MOST_SIGNALS: usize = 16;
/// Generations of programs that some ranks have ended and others not, at most.
const MOST_ARRIVALS: usize = 1024;
const KILL: i32 = libc::SIGKILL;

/// What a daemon sees happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This is the job; for the root.
    Plan(Arc<JobInfo>),
    /// The parent says.
    Down(Down),
    /// A child says.
    Up(u32, Up),
    /// A child has joined.
    Joined(u32),
    /// A child's connection has ended, or its agent before it joined.
    Lost(u32, Cause),
    /// The parent's connection has ended.
    ParentLost,
    /// The ranks of this host have reached a phase; drained: all that is known here has been passed up.
    Reached(Phase),
    /// Ranks of this host ended.
    Exits(Vec<RankExit>),
    /// Ranks of this host were started: their processes.
    Processes(Vec<(u32, i32)>),
    /// The ranks of this host cannot be started.
    Refused {
        /// Exit status of the job.
        status: u8,
        /// A line for the user.
        reason: String,
    },
    /// What this host's processors are.
    Processors(Processors),
    /// A rank of this host asks for an address.
    Ask(u32, Ask),
    /// A rank of this host wants another one to connect to it.
    Call(u32, Ask),
    /// A rank of this host has an address, in its program of this generation.
    Published(u32, u32, Address),
    /// A rank of this host has ended.
    RankEnded(u32),
    /// All ranks of this host have called MPI_Finalize in their programs of this generation.
    Arrived(u32),
    /// Somebody sent a signal to this process.
    Signal(i32),
    /// A rank of this host wants a checkpoint, and whether the job is to end with it.
    Wanted(bool),
    /// The root wants all ranks to get a signal.
    SignalAll(i32),
    /// The root wants to know where ranks wait.
    Report(Reported),
    /// The root has standard input for rank 0.
    Input(Bytes),
    /// Rank 0, on this host, has taken so much of its input.
    InputTaken(u32),
    /// The root wants a phase of a checkpoint.
    Checkpoint(Order),
    /// This host has done its part of a phase.
    CheckpointDone(Report),
    /// The job is over.
    Quit,
}

/// What a daemon has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the agent for a child.
    StartAgent(u32),
    /// End the agent of a child and accept it no more.
    StopAgent(u32),
    /// Start the ranks of this host.
    StartRanks,
    /// Send a signal to the ranks of this host.
    SignalRanks(i32),
    /// Say where ranks of this host wait.
    ReportWaits(Reported),
    /// Pass standard input to rank 0.
    TakeInput(Bytes),
    /// So many bytes more of an output may go to the parent.
    Credit(StreamNumber, u32),
    /// Nobody reads this output any more.
    BreakOutput(StreamNumber),
    /// Take what a child's subtree wrote.
    Output(u32, StreamNumber, Bytes),
    /// No more output comes from a child.
    OutputEnd(u32),
    /// Answer a rank of this host.
    Answer(u32, Ask, Address),
    /// Tell a rank of this host that another one wants it to connect.
    Call(u32, Ask),
    /// Tell the ranks of this host which hosts are one machine.
    TakeMachines(Machines),
    /// Tell the ranks of this host that all ranks have called MPI_Finalize in their programs of this
    /// generation.
    NoteAllArrived(u32),
    /// Do this host's part of a phase of a checkpoint.
    Checkpoint(Order),
    /// Tell a child.
    Down(u32, Down),
    /// Tell the parent; at the root, decide.
    Up(Up),
    /// End this process.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Must have joined by this time.
    Starting(Duration),
    Joined,
    Gone,
}

#[derive(Debug)]
struct Child {
    state: State,
    reached: [bool; PHASES.len()],
    /// Questions for its subtree until it has joined; the directory asks each only once.
    asks: Vec<Ask>,
}

/// A daemon.
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
    /// By generation: children whose subtrees have arrived in MPI_Finalize; `None` is this host.
    arrivals: BTreeMap<u32, BTreeSet<Option<u32>>>,
    signals: Vec<i32>,
    /// When the job was over.
    over: Option<Duration>,
    ended: bool,
}

impl Daemon {
    /// Number `number`; 0 is the root. It learns the rest from the plan.
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
            signals: Vec::new(),
            over: None,
            ended: false,
        }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The job, once it is known.
    pub fn job(&self) -> Option<&Arc<JobInfo>> {
        self.job.as_ref()
    }

    /// The host of the placement that this daemon serves, if any.
    pub fn host(&self) -> Option<u32> {
        let daemons = &self.job.as_ref()?.daemon_of;
        daemons.iter().position(|&daemon| daemon == self.number).map(|host| host as u32)
    }

    /// The tree.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether a connection from `child` is waited for.
    pub fn expects(&self, child: u32) -> bool {
        self.children.get(&child).is_some_and(|child| matches!(child.state, State::Starting(_)))
    }

    /// Whether any connection is waited for.
    pub fn expects_any(&self) -> bool {
        self.children.values().any(|child| matches!(child.state, State::Starting(_)))
    }

    /// Whether output of children may still come.
    pub fn awaits_output(&self) -> bool {
        let is_done = |child: &Child| child.reached[Phase::Drained as usize] || child.state == State::Gone;
        !self.children.values().all(is_done)
    }

    /// Whether the job is over and failures mean nothing any more.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Takes an event at time `now`; appends what to do.
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
                let refusal = Refusal { daemon: self.number, status, reason };
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

    /// Does what is due at time `now`.
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

    /// When [`Daemon::tick`] has something to do.
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
                match Machines::said(of_host, processors, self.job_hosts()) {
                    Some(machines) => self.tell_machines(machines, actions),
                    // Ranks would wait for what can be, or choose otherwise than those of other hosts: such a parent is as good as lost.
                    None => self.quit(now, actions),
                }
            }
            Down::Quit => self.quit(now, actions),
            Down::Checkpoint(order) => self.checkpoint(*order, actions),
            Down::Arrived(generation) => self.tell_all_arrived(generation, actions),
        }
    }

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
            up @ (Up::InputTaken(_) | Up::Wanted(_) | Up::Processes(_)) => actions.push(Action::Up(up)),
        }
    }

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

    fn lost(&mut self, number: u32, cause: Cause, actions: &mut Vec<Action>) {
        let Some(child) = self.children.get_mut(&number) else { return };
        let before = std::mem::replace(&mut child.state, State::Gone);
        if before == State::Gone {
            return;
        }
        // A child that was told to leave, leaves.
        if self.over.is_none() {
            actions.push(Action::Up(Up::Lost(Loss { daemon: number, cause })));
        }
        actions.push(Action::OutputEnd(number));
        let mut out = Vec::new();
        self.checkpoint.lost(number, &mut out);
        follow(out, actions);
        self.report(actions);
    }

    fn checkpoint(&mut self, order: Order, actions: &mut Vec<Action>) {
        let joined = self.children.iter().filter(|(_, child)| child.state == State::Joined);
        let mut out = Vec::new();
        self.checkpoint.order(order, joined.map(|(&number, _)| number), &mut out);
        follow(out, actions);
    }

    /// Tells the parent of every phase that the whole subtree has newly reached.
    fn report(&mut self, actions: &mut Vec<Action>) {
        for phase in PHASES {
            let at = phase as usize;
            // Of a lost child nothing comes any more: its output is at its end.
            let done =
                |child: &Child| child.reached[at] || child.state == State::Gone && phase == Phase::Drained;
            if self.own[at] && !self.reported[at] && self.children.values().all(done) {
                self.reported[at] = true;
                actions.push(Action::Up(Up::Reached(phase)));
            }
        }
    }

    /// What this host says of its processors; of interest where there are others.
    fn know_processors(&mut self, own: Processors, actions: &mut Vec<Action>) {
        let Some(host) = self.host() else { return };
        self.machines.own = vec![HostProcessors { host, identity: own.identity, count: own.count }];
        self.pass_processors(actions);
    }

    /// Once all of the subtree have said what their processors are, that goes up; from the root, what follows from it comes down.
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
        self.tell_machines(machines::of(&said, hosts), actions);
    }

    /// How many hosts have ranks of the job; none before the plan is there.
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

    /// All ranks of this host, or of a child's subtree, have called MPI_Finalize in their programs of a
    /// generation. It may be said more than once. Once it is so in the whole subtree that goes up; from the
    /// root it comes down to all.
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

    fn signal(&mut self, signal: i32, actions: &mut Vec<Action>) {
        actions.push(Action::SignalRanks(signal));
        if self.signals.len() < MOST_SIGNALS {
            self.signals.push(signal);
        }
        let mut given_up = Vec::new();
        for (&number, child) in &self.children {
            match child.state {
                State::Joined => actions.push(Action::Down(number, Down::Signal(signal))),
                // Whoever has not come by now has no ranks to kill.
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

    /// Passes a call on. Who is called has an address, so its daemon has joined.
    fn call(&mut self, call: Call, actions: &mut Vec<Action>) {
        let daemon = self.job.as_ref().and_then(|job| job.daemon_of.get(call.to.host as usize));
        match daemon.map(|&daemon| self.shape.hop(self.number, daemon)) {
            Some(Hop::Here) => actions.push(Action::Call(call.to.local, call.from)),
            Some(Hop::Parent) => actions.push(Action::Up(Up::Call(call))),
            Some(Hop::Child(child)) => actions.push(Action::Down(child, Down::Call(call))),
            // There is no such host: an error of who calls.
            None => {}
        }
    }

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
            // There is no such host: an error of who asks, which gets no answer.
            Some(Hop::Here) | None => {}
        }
    }

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

/// What follows from a phase of a checkpoint.
fn follow(consequences: Vec<Consequence>, actions: &mut Vec<Action>) {
    actions.extend(consequences.into_iter().map(|consequence| match consequence {
        Consequence::Perform(order) => Action::Checkpoint(order),
        Consequence::Pass(child, order) => Action::Down(child, Down::Checkpoint(Box::new(order))),
        Consequence::Report(report) => Action::Up(Up::Checkpoint(Box::new(report))),
    }));
}

/// How a process ended, in the words of messages.
pub fn ending(exit: tutti_sys::process::Exit) -> Ending {
    match exit {
        tutti_sys::process::Exit::Code(code) => Ending::Code(code),
        tutti_sys::process::Exit::Signal { number, core } => Ending::Signal { number, core },
    }
}
