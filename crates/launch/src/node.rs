//! The daemon of one host: one thread, one event loop. It starts the ranks of its host and the agents of its children, serves them,
//! and executes what [`tree::daemon`](crate::tree::daemon) and, at the root, [`policy`](crate::policy) decide. That of mpirun and those of
//! other hosts are the same; a job on one host is a tree of one.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_sys::event::{self, Interest, Poller};
use tutti_sys::process::{self, Exit, Reaped};
use tutti_sys::signal::{Mask, SignalFd};

use crate::connections::{self, Connections, Heard};
use crate::output::{Outputs, Stream};
use crate::policy;
use crate::program::HostJob;
use crate::ranks::{Inquired, Ranks, Refused, Surroundings};
use crate::request::Request;
use crate::root::{Root, placement_of};
use crate::tree::daemon::{Action, Daemon, Event};
use crate::tree::handshake::{self, Secret};
use crate::tree::link::Pace;
use crate::tree::message::{Cause, Down, JobInfo, Phase, Up};
use crate::{STATUS_USAGE, agent, interface, sweep};

const TOKEN_CONTROL: u64 = 0;
const TOKEN_CHILD: u64 = 1;
const TOKEN_INPUT: u64 = 2;
const TOKEN_OUTPUTS: u64 = 16;
const TOKEN_INQUIRIES: u64 = connections::TOKENS_END;
/// How long to wait for the end of outputs when no process of this host is left.
const DRAIN: Duration = Duration::from_secs(1);
/// How soon to try again what a rank had no room for.
const AGAIN: Duration = Duration::from_millis(10);
/// Standard input under way to rank 0 on another host.
const INPUT_WINDOW: usize = 64 << 10;

/// What a node is given by its supervisor.
#[derive(Debug)]
pub struct Given {
    /// Delivers signal numbers and ends when the supervisor does.
    pub control: PipeReader,
    /// Standard input of rank 0, at the root.
    pub input: OwnedFd,
    /// Signal mask of ranks.
    pub mask: Mask,
    /// The secret of the job.
    pub secret: Secret,
}

/// A child's agent.
#[derive(Debug)]
struct Agent {
    pid: i32,
    /// Its number among the outputs.
    output: Option<usize>,
    is_running: bool,
}

struct Node {
    start: Instant,
    given: Given,
    poller: Poller,
    has_control: bool,
    child_signals: SignalFd,
    outputs: Outputs,
    daemon: Daemon,
    connections: Connections,
    /// The address by which this host's ranks are reached.
    interface: String,
    /// Where children find this daemon.
    listening: Vec<SocketAddr>,
    agents: BTreeMap<u32, Agent>,
    /// Numbers of a child's streams among the outputs.
    streams: BTreeMap<u32, [usize; 2]>,
    here: Option<HostJob>,
    ranks: Option<Ranks>,
    /// Whether ranks are not to be started any more.
    is_killed: bool,
    swept_at: Option<Duration>,
    is_drained: bool,
    root: Option<Root>,
    time_limit: Option<Duration>,
    prints_timings: bool,
    hurry: bool,
    /// Where rank 0 reads, if its input comes from another host.
    input_pipe: Option<PipeWriter>,
    input_held: VecDeque<u8>,
    input_ends: bool,
    events: VecDeque<Event>,
    end: bool,
}

/// Runs the job as its root; returns its exit status.
pub fn run(request: &Request, info: Arc<JobInfo>, here: Option<HostJob>, given: Given) -> u8 {
    let mut node = match Node::new(given, Daemon::new(0)) {
        Ok(node) => node,
        Err(error) => return fail(&error),
    };
    node.outputs = match Outputs::new(TOKEN_OUTPUTS, request.timestamp) {
        Ok(outputs) => outputs,
        Err(error) => return fail(&error),
    };
    node.root = Some(Root::new(Arc::clone(&info)));
    node.here = here;
    node.time_limit = request.timeout;
    node.prints_timings = request.timings;
    node.events.push_back(Event::Plan(info));
    node.serve()
}

/// Runs as daemon `number` of a job on another host, whose parent is at `parents`; returns the exit status of this process.
pub fn run_daemon(number: u32, parents: &[SocketAddr], given: Given) -> u8 {
    let joined = Node::new(given, Daemon::new(number)).and_then(|mut node| {
        let nonce = connections::random_nonce()?;
        let now = node.now();
        let own = node.connections.join(number, parents, nonce, &node.poller, now)?;
        node.interface = own.to_string();
        Ok(node)
    });
    match joined {
        Ok(mut node) => node.serve(),
        Err(error) => {
            let parents: Vec<String> = parents.iter().map(SocketAddr::to_string).collect();
            eprintln!("mpirun: this daemon cannot join its parent at {}: {error}", parents.join(", "));
            STATUS_USAGE
        }
    }
}

fn fail(error: &io::Error) -> u8 {
    eprintln!("mpirun: cannot start the job: {error}");
    STATUS_USAGE
}

impl Node {
    fn new(given: Given, daemon: Daemon) -> io::Result<Node> {
        process::set_name(c"tutti-node");
        process::lead_group();
        process::adopt_orphans()?;
        let poller = Poller::new()?;
        event::set_nonblocking(given.control.as_fd())?;
        poller.add(given.control.as_fd(), TOKEN_CONTROL, Interest::Read)?;
        let child_signals = SignalFd::new(&Mask::of(&[libc::SIGCHLD]), true)?;
        poller.add(child_signals.as_fd(), TOKEN_CHILD, Interest::Read)?;
        Ok(Node {
            start: Instant::now(),
            connections: Connections::new(given.secret),
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
            is_killed: false,
            swept_at: None,
            is_drained: false,
            root: None,
            time_limit: None,
            prints_timings: false,
            hurry: false,
            input_pipe: None,
            input_held: VecDeque::new(),
            input_ends: false,
            events: VecDeque::new(),
            end: false,
        })
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// The event loop: until all ranks have ended and all they wrote is passed on.
    fn serve(&mut self) -> u8 {
        let mut ready = Vec::new();
        loop {
            self.settle();
            if self.end {
                return self.leave();
            }
            let timeout = self.deadline().map(|at| at.saturating_sub(self.now()));
            if self.poller.wait(timeout, &mut ready).is_err() {
                // Out of memory in the kernel: nothing can be served any more.
                self.decide(policy::Event::SupervisorLost);
                self.events.push_back(Event::Quit);
            }
            for event in ready.drain(..) {
                self.dispatch(event.token);
            }
            self.tick();
        }
    }

    /// Does all that follows from what has happened, until nothing more does.
    fn settle(&mut self) {
        loop {
            while let Some(event) = self.events.pop_front() {
                let mut actions = Vec::new();
                self.daemon.handle(event, self.now(), &mut actions);
                actions.into_iter().for_each(|action| self.perform(action));
            }
            self.pass_outputs();
            self.watch_for_end();
            let mut heard = Vec::new();
            self.connections.advance(&self.poller, self.now(), &mut heard);
            self.hear(heard);
            if self.events.is_empty() {
                return;
            }
        }
    }

    fn leave(&mut self) -> u8 {
        sweep::sweep();
        self.root.as_ref().map_or(0, |root| root.policy.status())
    }

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
        ];
        times.into_iter().flatten().min()
    }

    fn again(&self) -> Option<Duration> {
        let is_late = self.ranks.as_ref().is_some_and(Ranks::has_late_answers);
        is_late.then(|| self.now() + AGAIN)
    }

    fn tick(&mut self) {
        let now = self.now();
        if self.time_limit.is_some_and(|limit| limit <= now) {
            self.time_limit = None;
            self.decide(policy::Event::TimeLimit);
        }
        if let Some(root) = &mut self.root {
            let mut actions = Vec::new();
            root.policy.tick(now, &mut actions);
            self.obey(actions);
        }
        let mut actions = Vec::new();
        self.daemon.tick(now, &mut actions);
        actions.into_iter().for_each(|action| self.perform(action));
        if let Some(ranks) = &mut self.ranks {
            ranks.flush_answers();
        }
    }

    fn dispatch(&mut self, token: u64) {
        let now = self.now();
        match token {
            TOKEN_CONTROL => self.read_control(),
            TOKEN_CHILD => self.reap(),
            TOKEN_INPUT if self.root.is_some() => self.read_input(),
            TOKEN_INPUT => self.write_input(),
            TOKEN_OUTPUTS..connections::TOKENS => self.outputs.ready(token, now),
            connections::TOKENS..TOKEN_INQUIRIES => {
                let mut heard = Vec::new();
                let daemon = &self.daemon;
                self.connections.ready(token, &self.poller, now, |child| daemon.expects(child), &mut heard);
                self.hear(heard);
            }
            _ => self.read_inquiry((token - TOKEN_INQUIRIES) as u32),
        }
    }

    fn hear(&mut self, heard: Vec<Heard>) {
        for word in heard {
            match word {
                Heard::Joined(child) => {
                    let streams = Stream::ALL.map(|stream| self.outputs.add_child(stream));
                    self.streams.insert(child, streams);
                    self.events.push_back(Event::Joined(child));
                }
                Heard::Up(child, up) => self.events.push_back(Event::Up(child, up)),
                Heard::Down(down) => {
                    if let Down::Plan(info) = &down {
                        self.learn(info);
                    }
                    self.events.push_back(Event::Down(down));
                }
                Heard::Lost(child, cause) => {
                    self.silence_agent(child);
                    self.events.push_back(Event::Lost(child, cause));
                }
                Heard::ParentLost(_) => self.events.push_back(Event::ParentLost),
            }
            self.drain_events();
        }
    }

    /// In the order in which things were heard.
    fn drain_events(&mut self) {
        while let Some(event) = self.events.pop_front() {
            let mut actions = Vec::new();
            self.daemon.handle(event, self.now(), &mut actions);
            actions.into_iter().for_each(|action| self.perform(action));
        }
    }

    /// The plan has come: what this host has to start.
    fn learn(&mut self, info: &JobInfo) {
        let info = Arc::new(info.clone());
        self.connections.set_pace(pace(&info));
        if let Some(address) =
            Some(&info.interface).filter(|text| !text.is_empty()).and_then(|text| interface::named(text))
        {
            self.interface = address.to_string();
        }
        let host = info.daemon_of.iter().position(|&daemon| daemon == self.daemon.number());
        let Some((host, placement)) = host.zip(placement_of(&info)) else { return };
        match HostJob::new(info, placement, host as u32, false) {
            Ok(here) => self.here = Some(here),
            Err(refusal) => {
                let event = Event::Refused { status: refusal.status, reason: refusal.reason };
                self.events.push_back(event);
            }
        }
    }

    fn perform(&mut self, action: Action) {
        let now = self.now();
        match action {
            Action::StartAgent(child) => self.start_agent(child),
            Action::StopAgent(child) => self.stop_agent(child),
            Action::StartRanks => self.start_ranks(),
            Action::SignalRanks(signal) => {
                self.is_killed |= signal == libc::SIGKILL;
                self.ranks.iter().for_each(|ranks| ranks.signal(signal));
            }
            Action::ReportWaits => {
                if let Some(ranks) = &self.ranks {
                    ranks.report_waits(&mut self.outputs, now);
                }
            }
            Action::TakeInput(bytes) => self.take_input(bytes),
            Action::Credit(stream, bytes) => {
                if let Some(stream) = Stream::from_number(stream) {
                    self.outputs.credit(stream, bytes as usize);
                }
            }
            Action::Output(child, stream, bytes) => {
                let streams = self.streams.get(&child);
                if let Some(&number) = streams.and_then(|streams| streams.get(usize::from(stream))) {
                    self.outputs.feed(number, &bytes, now);
                }
            }
            Action::OutputEnd(child) => {
                for number in self.streams.remove(&child).into_iter().flatten() {
                    self.outputs.close(number, now);
                }
            }
            Action::Answer(local, ask, address) => {
                if let Some(ranks) = &mut self.ranks {
                    ranks.answer(local, ask, address);
                }
            }
            Action::Down(child, down) => self.connections.send_down(child, &down, now),
            Action::Up(up) if self.root.is_some() => self.decide_up(up),
            Action::Up(up) => self.connections.send_up(&up, now),
            Action::End => self.end = true,
        }
        if self.connections.is_listening() && !self.daemon.expects_any() {
            self.connections.stop_listening();
        }
    }

    /// What goes up at the root ends here.
    fn decide_up(&mut self, up: Up) {
        let now = self.now();
        let shape = self.daemon.shape();
        let Some(root) = &mut self.root else { return };
        let mut actions = Vec::new();
        match up {
            Up::Exits(exits) => root.exits(&exits, now, &mut actions),
            Up::Refused(refusal) => root.refused(refusal, now, &mut actions),
            Up::Lost(loss) => root.lost(&loss, shape, now, &mut actions),
            Up::Signal(signal) => root.policy.handle(policy::Event::Signal(signal), now, &mut actions),
            Up::Reached(phase) => root.reached(phase, now),
            Up::InputTaken(bytes) => self.input_taken(bytes as usize),
            // These are for neighbours.
            Up::Output(..) | Up::Ask(_) | Up::Table(_) => {}
        }
        self.obey(actions);
    }

    fn decide(&mut self, event: policy::Event) {
        let now = self.now();
        let Some(root) = &mut self.root else { return };
        let mut actions = Vec::new();
        root.policy.handle(event, now, &mut actions);
        self.obey(actions);
    }

    fn obey(&mut self, actions: Vec<policy::Action>) {
        for action in actions {
            match action {
                policy::Action::SignalAll(signal) => self.events.push_back(Event::SignalAll(signal)),
                policy::Action::ReportWaits => self.events.push_back(Event::ReportAll),
                policy::Action::Tell(notice) => {
                    let text = self.root.as_ref().and_then(|root| root.tell(&notice));
                    if let Some(text) = text {
                        self.outputs.say(&text, self.now());
                    }
                }
            }
        }
    }

    fn start_ranks(&mut self) {
        let Some(here) = self.here.take().filter(|_| !self.is_killed) else { return };
        let first = here.placement.place(0);
        let is_first = first.is_some_and(|place| place.host == here.host);
        let count = here.world.len();
        match self.start_these(here, is_first) {
            Ok(()) => {
                self.events.push_back(Event::Reached(Phase::Started));
                self.watch_inquiries();
            }
            Err(Refused { status, reason }) => {
                debug_assert!(count > 0, "a host of the job has ranks");
                self.events.push_back(Event::Refused { status, reason });
            }
        }
    }

    fn start_these(&mut self, here: HostJob, is_first: bool) -> Result<(), Refused> {
        let system = |error: io::Error| Refused {
            status: STATUS_USAGE,
            reason: format!("cannot start the job: {error}"),
        };
        let mut remote_input = None;
        if is_first && self.root.is_none() {
            let (reader, writer) = io::pipe().map_err(system)?;
            event::set_nonblocking(writer.as_fd()).map_err(system)?;
            self.input_pipe = Some(writer);
            remote_input = Some(reader);
        }
        let own_input = self.root.is_some().then(|| self.given.input.as_fd());
        let input = remote_input.as_ref().map(AsFd::as_fd).or(own_input);
        let surroundings = Surroundings {
            interface: &self.interface,
            secret: handshake::derive(&self.given.secret, "ranks"),
            input: input.filter(|_| is_first),
            mask: self.given.mask,
        };
        let now = self.start.elapsed();
        let mut ranks = Ranks::new(here, &surroundings, &mut self.outputs)?;
        let result = ranks.start(&surroundings, &mut self.outputs, now);
        self.ranks = Some(ranks);
        result
    }

    fn watch_inquiries(&mut self) {
        let Some(ranks) = &self.ranks else { return };
        for (local, end) in ranks.inquiry_ends() {
            // A rank that cannot be watched gets no answer: it will say that it waits for one.
            let _ = self.poller.add(end, TOKEN_INQUIRIES + u64::from(local), Interest::Read);
        }
    }

    fn read_inquiry(&mut self, local: u32) {
        let Some(ranks) = &mut self.ranks else { return };
        for word in ranks.inquired(local) {
            self.events.push_back(match word {
                Inquired::Ask(ask) => Event::Ask(local, ask),
                Inquired::Has(address) => Event::Published(local, address),
            });
        }
    }

    fn start_agent(&mut self, child: u32) {
        let Some(job) = self.daemon.job().cloned() else { return };
        if let Err(reason) = self.listen(&job) {
            self.events.push_back(Event::Lost(child, Cause::NoAgent(reason)));
            return;
        }
        let name = &job.names[child as usize];
        let parents: Vec<String> = self.listening.iter().map(SocketAddr::to_string).collect();
        let arguments = ["--daemon", &child.to_string(), "--parent", &parents.join(",")].map(str::to_string);
        let started =
            agent::start(&job.agent, name, &job.launcher, &arguments, &self.given.secret, self.given.mask);
        match started {
            Ok((pid, said)) => {
                let output = self.outputs.add_aside(said, format!("{name}: ")).ok();
                self.agents.insert(child, Agent { pid, output, is_running: true });
            }
            Err(error) => {
                let cause = Cause::NoAgent(error.error.to_string());
                self.events.push_back(Event::Lost(child, cause));
            }
        }
    }

    /// Listens for children, once.
    fn listen(&mut self, job: &JobInfo) -> Result<(), String> {
        if !self.listening.is_empty() {
            return Ok(());
        }
        let children = self.daemon.shape().children(self.daemon.number());
        let names: Vec<&str> = children.map(|child| job.names[child as usize].as_str()).collect();
        let addresses = interface::addresses(&job.interface, &names)?;
        self.listening =
            self.connections.listen(&addresses, &self.poller).map_err(|error| error.to_string())?;
        let own = addresses.first().filter(|address| !IpAddr::is_unspecified(address));
        if let Some(address) = own.filter(|_| self.interface.is_empty()) {
            self.interface = address.to_string();
        }
        self.connections.set_pace(pace(job));
        Ok(())
    }

    fn stop_agent(&mut self, child: u32) {
        self.silence_agent(child);
        if let Some(agent) = self.agents.get(&child).filter(|agent| agent.is_running) {
            process::kill_group(agent.pid, libc::SIGKILL);
        }
        self.connections.drop_child(child);
    }

    /// What an agent says of the end of its connection has been said already.
    fn silence_agent(&mut self, child: u32) {
        let output = self.agents.get_mut(&child).and_then(|agent| agent.output.take());
        if let Some(output) = output {
            self.outputs.close(output, self.now());
        }
    }

    fn read_control(&mut self) {
        if !self.has_control {
            return;
        }
        let mut signals = [0; 64];
        match self.given.control.read(&mut signals) {
            Ok(0) => {
                self.has_control = false;
                self.hurry = true;
                let _ = self.poller.remove(self.given.control.as_fd());
                self.decide(policy::Event::SupervisorLost);
                if self.root.is_none() {
                    self.events.push_back(Event::Quit);
                }
            }
            Ok(count) => {
                for &signal in &signals[..count] {
                    let ends = [libc::SIGINT, libc::SIGTERM].contains(&signal.into());
                    // Nobody runs, but a slow reader keeps us: the user wants to leave.
                    let is_alone = self.root.as_ref().is_some_and(|root| root.policy.running() == 0);
                    self.hurry |= is_alone && ends;
                    self.events.push_back(Event::Signal(signal.into()));
                }
            }
            Err(_) => {}
        }
    }

    fn reap(&mut self) {
        while self.child_signals.next().is_some() {}
        let mut exits = Vec::new();
        while let Reaped::Ended(pid, exit) = process::reap() {
            exits.push((pid, exit));
        }
        self.take_exits(&exits);
    }

    fn take_exits(&mut self, exits: &[(i32, Exit)]) {
        if let Some(ranks) = &mut self.ranks {
            let ended = ranks.ended(exits);
            for exit in &ended {
                if let Some(local) = ranks.settle(exit.rank) {
                    self.events.push_back(Event::Published(local, Vec::new()));
                }
            }
            if !ended.is_empty() {
                self.events.push_back(Event::Exits(ended));
            }
        }
        for &(pid, exit) in exits {
            let Some((&child, agent)) = self.agents.iter_mut().find(|(_, agent)| agent.pid == pid) else {
                continue;
            };
            agent.is_running = false;
            // Once the daemon has joined, its connection tells of its end.
            if self.daemon.expects(child) {
                let cause = Cause::Agent(crate::tree::daemon::ending(exit));
                self.events.push_back(Event::Lost(child, cause));
            }
        }
    }

    /// Writes to our own outputs or to the parent, and lets children write.
    fn pass_outputs(&mut self) {
        let now = self.now();
        self.outputs.advance(&self.poller, now);
        if let Some(error) = self.outputs.take_failure() {
            let is_disk = error.kind() != io::ErrorKind::BrokenPipe;
            if is_disk {
                self.outputs.say(&format!("mpirun: output cannot be written: {error}\n"), now);
            }
            self.decide(policy::Event::OutputLost { is_failure: is_disk });
        }
        if self.root.is_none() {
            for stream in Stream::ALL {
                while let Some(bytes) = self.outputs.take(stream) {
                    self.connections.send_up(&Up::Output(stream.number(), bytes), now);
                }
            }
        }
        for (&child, streams) in &self.streams {
            for (&number, stream) in streams.iter().zip(Stream::ALL) {
                if let Some(bytes) = self.outputs.grant(number) {
                    let grant = Down::Credit(stream.number(), bytes as u32);
                    self.connections.send_down(child, &grant, now);
                }
            }
        }
    }

    /// Notices when the ranks of this host, and at the root those of the job, have ended.
    fn watch_for_end(&mut self) {
        let is_started = self.ranks.is_some() || self.is_killed || self.daemon.is_over();
        let no_rank_runs = self.ranks.as_ref().is_none_or(|ranks| ranks.running() == 0);
        let has_none = self.daemon.job().is_some() && self.daemon.host().is_none();
        let given_up = self.root.as_ref().is_some_and(|root| root.policy.running() == 0);
        if (no_rank_runs && (is_started || has_none) || given_up) && self.swept_at.is_none() {
            let spared: Vec<i32> =
                self.agents.values().filter(|agent| agent.is_running).map(|agent| agent.pid).collect();
            let ended = sweep::sweep_but(&spared);
            self.take_exits(&ended);
            self.swept_at = Some(self.now());
        }
        let Some(since) = self.swept_at else { return };
        if since + DRAIN <= self.now() {
            self.outputs.close_sources(self.now());
        }
        if !self.is_drained && !self.daemon.awaits_output() && self.outputs.is_finished() {
            self.is_drained = true;
            self.events.push_back(Event::Reached(Phase::Drained));
        }
        let Some(root) = &self.root else { return };
        if root.policy.running() == 0 && (self.hurry || root.is_drained()) && !self.daemon.is_over() {
            if self.prints_timings {
                eprint!("{}", root.timings(self.connections.refused()));
            }
            self.events.push_back(Event::Quit);
        }
    }
}

fn pace(job: &JobInfo) -> Pace {
    let (interval, limit) = job.pace_ms;
    Pace { interval: Duration::from_millis(interval.max(1)), limit: Duration::from_millis(limit.max(1)) }
}

/// Standard input of a rank 0 on another host than mpirun's.
impl Node {
    /// Root: reads what may be under way, and watches for more.
    fn read_input(&mut self) {}

    fn input_taken(&mut self, _bytes: usize) {}

    /// Rank 0's daemon: passes input on.
    fn take_input(&mut self, bytes: Vec<u8>) {
        self.input_ends |= bytes.is_empty();
        self.input_held.extend(bytes);
        self.write_input();
    }

    fn write_input(&mut self) {
        let Some(pipe) = &mut self.input_pipe else { return };
        let mut taken = 0;
        while !self.input_held.is_empty() {
            match pipe.write(self.input_held.as_slices().0) {
                Ok(count) => {
                    self.input_held.drain(..count);
                    taken += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    // Rank 0 has closed its input.
                    taken += self.input_held.len();
                    self.input_held.clear();
                    self.input_ends = true;
                }
            }
        }
        if taken > 0 {
            self.events.push_back(Event::InputTaken(taken.min(INPUT_WINDOW) as u32));
        }
        if self.input_ends && self.input_held.is_empty() {
            self.input_pipe = None;
        }
    }
}
