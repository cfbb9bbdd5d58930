//! Simulation of whole trees of daemons, without a process or a socket, and of the root that decides. Events
//! are ordered by time. Connections are ordered queues with a delay; ranks are a few words. A seed determines
//! the times of failures.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use tutti_base::Machines;
use tutti_base::machines::Processors;

use super::daemon::{Action, Daemon, Event};
use super::message::{Address, Ask, Cause, Down, Ending, JobInfo, Loss, Phase, ProgramPlan, RankExit, Up};
use super::shape::Shape;
use crate::policy;
use crate::root::Root;

const WIRE: Duration = Duration::from_millis(1);
const AGENT: Duration = Duration::from_millis(20);
const START_MS: u64 = 1000;
/// Time after which a daemon notices that a connection is silent.
const SILENCE: Duration = Duration::from_secs(5);
const KILL: i32 = libc::SIGKILL;

#[derive(Clone, Debug)]
enum Happening {
    Event(Event),
    /// The process of the daemon begins.
    Begin,
    /// The ranks of the daemon end by themselves.
    RanksEnd,
    /// One of the ranks of the daemon crashes.
    Crash,
    /// The connection to the parent stalls for this time.
    Stall(Duration),
    /// A decision of the root is due.
    Decide,
    /// The daemon is killed, so that its connections close.
    Die,
    /// The cable of the daemon is cut, so that its connections fall silent.
    Cut,
    Tick,
}

#[derive(Debug, Default)]
struct Host {
    daemon: Option<Daemon>,
    has_ended: bool,
    /// True while the ranks run; None before their start.
    ranks_run: Option<bool>,
    is_drained: bool,
    /// True for an agent that never succeeds.
    never_starts: bool,
    answers: Vec<(u32, Ask, Address)>,
    calls: Vec<(u32, Ask)>,
    machines: Option<Machines>,
    /// Generations in which all ranks have called MPI_Finalize.
    arrived: Vec<u32>,
}

struct Simulation {
    now: Duration,
    hosts: Vec<Host>,
    job: Arc<JobInfo>,
    queue: BinaryHeap<Reverse<(Duration, u64, u32)>>,
    happenings: BTreeMap<u64, Happening>,
    count: u64,
    /// Number of messages over the edge above each daemon.
    over_edge: Vec<u32>,
    said: Vec<(Duration, Up)>,
    root: Root,
    /// Messages for the user.
    told: String,
    /// Earliest time at which a message passes the connection above each daemon.
    stalled_until: Vec<Duration>,
    ends_by_itself: Duration,
    /// Time at which the last process ended.
    over: Duration,
}

impl Simulation {
    /// Creates `hosts` daemons with `ranks` ranks each, whose programs run for the given time.
    fn new(hosts: u32, radix: u32, ranks: u32, takes: Duration) -> Simulation {
        let job = Arc::new(JobInfo {
            names: (0..hosts).map(|host| format!("n{host}")).collect(),
            daemon_of: (0..hosts).collect(),
            runs: (0..hosts).map(|host| (host, ranks)).collect(),
            programs_of: vec![(0, hosts * ranks)],
            programs: vec![ProgramPlan {
                command: vec![b"a".to_vec()],
                directory: None,
                search: None,
                variables: Vec::new(),
            }],
            radix,
            start_ms: START_MS,
            ..JobInfo::default()
        });
        let mut simulation = Simulation {
            now: Duration::ZERO,
            hosts: (0..hosts).map(|_| Host::default()).collect(),
            job: Arc::clone(&job),
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            count: 0,
            over_edge: vec![0; hosts as usize],
            said: Vec::new(),
            root: Root::new(Arc::clone(&job), false),
            told: String::new(),
            stalled_until: vec![Duration::ZERO; hosts as usize],
            ends_by_itself: takes,
            over: Duration::ZERO,
        };
        simulation.hosts[0].daemon = Some(Daemon::new(0));
        simulation.schedule(Duration::ZERO, 0, Happening::Event(Event::Plan(job)));
        simulation
    }

    fn schedule(&mut self, delay: Duration, daemon: u32, what: Happening) {
        self.count += 1;
        self.happenings.insert(self.count, what);
        self.queue.push(Reverse((self.now + delay, self.count, daemon)));
    }

    /// Runs until no event is left.
    fn run(&mut self) {
        let mut steps = 0u64;
        while let Some(Reverse((time, number, daemon))) = self.queue.pop() {
            steps += 1;
            assert!(steps < 1_000_000 && time < Duration::from_secs(100), "it does not end");
            self.now = time;
            let what = self.happenings.remove(&number).expect("queued with its number");
            self.happen(daemon, what);
        }
    }

    /// Performs an event at its time.
    fn happen(&mut self, number: u32, what: Happening) {
        let host = &mut self.hosts[number as usize];
        let mut actions = Vec::new();
        match (what, &mut host.daemon) {
            (Happening::Begin, None) if !host.never_starts && !host.has_ended => {
                host.daemon = Some(Daemon::new(number));
                let parent = self.parent(number);
                let is_wanted = self.daemon(parent).is_some_and(|daemon| daemon.expects(number));
                if is_wanted {
                    self.schedule(WIRE, parent, Happening::Event(Event::Joined(number)));
                } else {
                    self.gone(number);
                }
                return;
            }
            (Happening::Die, _) => return self.die(number, WIRE, Cause::Closed),
            (Happening::Cut, _) => return self.die(number, SILENCE, Cause::Silent),
            (Happening::RanksEnd, Some(_)) if host.ranks_run == Some(true) => return self.end_ranks(number),
            (Happening::Crash, Some(_)) if host.ranks_run == Some(true) => return self.crash(number),
            (Happening::Stall(time), _) => {
                self.stalled_until[number as usize] = self.now + time;
                return;
            }
            (Happening::Decide, Some(_)) => {
                let mut decided = Vec::new();
                self.root.policy.tick(self.now, &mut decided);
                return self.obey(decided);
            }
            (Happening::Event(event), Some(daemon)) => daemon.handle(event, self.now, &mut actions),
            (Happening::Tick, Some(daemon)) => daemon.tick(self.now, &mut actions),
            _ => return,
        }
        if let Some(deadline) = self.daemon(number).and_then(Daemon::deadline) {
            let delay = deadline.saturating_sub(self.now).max(Duration::from_millis(1));
            if !matches!(actions[..], []) || deadline <= self.now {
                self.schedule(delay, number, Happening::Tick);
            }
        }
        actions.into_iter().for_each(|action| self.perform(number, action));
        self.drain(number);
    }

    /// Performs an action of a daemon.
    fn perform(&mut self, number: u32, action: Action) {
        match action {
            Action::StartAgent(child) => self.schedule(AGENT, child, Happening::Begin),
            Action::StopAgent(child) => self.hosts[child as usize].never_starts = true,
            Action::StartRanks => {
                self.hosts[number as usize].ranks_run = Some(true);
                self.schedule(WIRE, number, Happening::Event(Event::Reached(Phase::Started)));
                // Two hosts are one machine.
                let own = Processors { identity: u64::from(number / 2), count: 4 };
                self.schedule(Duration::ZERO, number, Happening::Event(Event::Processors(own)));
                self.schedule(self.ends_by_itself, number, Happening::RanksEnd);
            }
            Action::SignalRanks(KILL) => self.end_ranks(number),
            Action::Down(child, down) => {
                self.over_edge[child as usize] += 1;
                self.schedule(self.wire(child), child, Happening::Event(Event::Down(down)));
            }
            Action::Up(up) if number == 0 => self.decide(up),
            Action::Up(up) => {
                self.over_edge[number as usize] += 1;
                let parent = self.parent(number);
                self.schedule(self.wire(number), parent, Happening::Event(Event::Up(number, up)));
            }
            Action::Answer(local, ask, address) => {
                self.hosts[number as usize].answers.push((local, ask, address));
            }
            Action::Call(local, caller) => self.hosts[number as usize].calls.push((local, caller)),
            Action::TakeMachines(machines) => self.hosts[number as usize].machines = Some(machines),
            Action::NoteAllArrived(generation) => self.hosts[number as usize].arrived.push(generation),
            Action::End => self.die(number, WIRE, Cause::Closed),
            _ => {}
        }
    }

    /// Returns the delay of a message that is sent now on the connection above a daemon.
    fn wire(&self, below: u32) -> Duration {
        WIRE + self.stalled_until[below as usize].saturating_sub(self.now)
    }

    fn shape(&self) -> Shape {
        Shape::new(self.hosts.len() as u32, self.job.radix)
    }

    /// Handles a message that has come up to the root.
    fn decide(&mut self, up: Up) {
        let mut decided = Vec::new();
        self.said.push((self.now, up.clone()));
        let shape = self.shape();
        match up {
            Up::Exits(exits) => self.root.exits(&exits, self.now, &mut decided),
            Up::Lost(loss) => self.root.lost(&loss, shape, self.now, &mut decided),
            Up::Refused(refusal) => self.root.refused(refusal, self.now, &mut decided),
            Up::Reached(Phase::Drained) => self.schedule(Duration::ZERO, 0, Happening::Event(Event::Quit)),
            _ => {}
        }
        self.obey(decided);
    }

    /// Performs actions of the policy.
    fn obey(&mut self, decided: Vec<policy::Action>) {
        for action in decided {
            match action {
                policy::Action::SignalAll(signal) => {
                    self.schedule(Duration::ZERO, 0, Happening::Event(Event::SignalAll(signal)));
                }
                policy::Action::Tell(notice) => self.told += &self.root.tell(&notice).unwrap_or_default(),
                policy::Action::ReportWaits(_) => {}
            }
        }
        if self.root.policy.has_resigned() {
            self.schedule(Duration::ZERO, 0, Happening::Event(Event::Quit));
        }
        if let Some(deadline) = self.root.policy.deadline() {
            self.schedule(deadline.saturating_sub(self.now), 0, Happening::Decide);
        }
    }

    fn daemon(&self, number: u32) -> Option<&Daemon> {
        self.hosts[number as usize].daemon.as_ref()
    }

    fn parent(&self, number: u32) -> u32 {
        self.shape().parent(number).expect("not the root")
    }

    fn gone(&mut self, number: u32) {
        self.over = self.now;
        let host = &mut self.hosts[number as usize];
        (host.daemon, host.has_ended, host.ranks_run) = (None, true, Some(false));
    }

    /// Ends a process. Its neighbours notice this after some time.
    fn die(&mut self, number: u32, notice: Duration, cause: Cause) {
        if self.hosts[number as usize].has_ended {
            return;
        }
        let shape = self.shape();
        if let Some(parent) = shape.parent(number) {
            let notice = notice + self.wire(number);
            self.schedule(notice, parent, Happening::Event(Event::Lost(number, cause)));
        }
        for child in shape.children(number) {
            let notice = notice + self.wire(child);
            self.schedule(notice, child, Happening::Event(Event::ParentLost));
        }
        self.gone(number);
    }

    fn end_ranks(&mut self, number: u32) {
        if self.hosts[number as usize].ranks_run.replace(false) != Some(true) {
            return;
        }
        let (_, ranks) = self.job.runs[number as usize];
        let exit = |local| RankExit {
            rank: number * ranks + local,
            pid: 2,
            ending: Ending::Code(0),
            state: 2,
            abort_code: 0,
            remark: String::new(),
        };
        let exits = (0..ranks).map(exit).collect();
        self.schedule(Duration::ZERO, number, Happening::Event(Event::Exits(exits)));
    }

    fn crash(&mut self, number: u32) {
        let rank = number * self.job.runs[number as usize].1;
        let ending = Ending::Signal { number: libc::SIGSEGV, core: false };
        let exit = RankExit { rank, pid: 2, ending, state: 1, abort_code: 0, remark: String::new() };
        self.schedule(Duration::ZERO, number, Happening::Event(Event::Exits(vec![exit])));
    }

    /// Reports the drained phase once, as a node does when all below have drained.
    fn drain(&mut self, number: u32) {
        let host = &mut self.hosts[number as usize];
        let awaits = host.daemon.as_ref().is_none_or(Daemon::awaits_output);
        if host.ranks_run == Some(false) && !awaits && !std::mem::replace(&mut host.is_drained, true) {
            self.schedule(WIRE, number, Happening::Event(Event::Reached(Phase::Drained)));
        }
    }

    fn reached(&self, wanted: Phase) -> Option<Duration> {
        self.said.iter().find(|(_, up)| *up == Up::Reached(wanted)).map(|(at, _)| *at)
    }

    fn losses(&self) -> Vec<&Loss> {
        let losses = self.said.iter().filter_map(|(_, up)| match up {
            Up::Lost(loss) => Some(loss),
            _ => None,
        });
        losses.collect()
    }

    /// Checks that no process is left.
    fn assert_over(&self) {
        for (number, host) in self.hosts.iter().enumerate() {
            let (is_alive, runs) = (host.daemon.is_some(), host.ranks_run == Some(true));
            assert!(!is_alive && !runs, "daemon {number}: alive {is_alive}, ranks {runs}");
        }
    }
}

/// Small random generator, whose numbers depend on the seed only.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn hundreds_of_hosts_start_in_a_time_of_the_depth() {
    for (hosts, radix, depth) in [(1, 2, 0), (2, 0, 1), (300, 0, 1), (300, 2, 8), (300, 16, 3), (1000, 4, 5)]
    {
        let mut simulation = Simulation::new(hosts, radix, 4, Duration::from_secs(1));
        simulation.run();
        simulation.assert_over();
        assert_eq!(simulation.losses(), Vec::<&Loss>::new());
        let exits: usize =
            simulation.said.iter().map(|(_, up)| if let Up::Exits(all) = up { all.len() } else { 0 }).sum();
        assert_eq!(exits as u32, 4 * hosts);
        // Down: agent, proof and plan. Up: the report that all have joined.
        let joined = simulation.reached(Phase::Joined).unwrap();
        assert_eq!(joined, (AGENT + WIRE + WIRE + WIRE) * depth, "{hosts} hosts, radix {radix}");
        let machines = Machines { of_host: (0..hosts).map(|host| host / 2).collect(), processors: 4 };
        let known = (hosts > 1).then_some(machines);
        assert!(simulation.hosts.iter().all(|host| host.machines == known), "{hosts} hosts, radix {radix}");
        // Each edge carries the plan, quit, and four phases, less the one for which ranks must publish. It
        // also carries processors, machines and the exits of the subtree.
        let busiest = (1..hosts as usize).map(|at| simulation.over_edge[at]).max().unwrap_or(0);
        let below = simulation.job.names.len() as u32;
        assert!(busiest <= 7 + below, "{busiest} messages over an edge");
    }
}

#[test]
fn a_daemon_that_dies_is_named_and_the_others_end() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let (hosts, radix) = (2 + random.below(60) as u32, random.below(5) as u32);
        let mut simulation = Simulation::new(hosts, radix, 2, Duration::from_secs(30));
        let victim = 1 + random.below(u64::from(hosts) - 1) as u32;
        let time = Duration::from_millis(30 + random.below(3000));
        let (what, is_cut) = if seed % 2 == 0 { (Happening::Die, false) } else { (Happening::Cut, true) };
        simulation.schedule(time, victim, what);
        simulation.run();
        simulation.assert_over();
        let losses = simulation.losses();
        assert_eq!(losses.first().map(|loss| loss.daemon), Some(victim), "seed {seed}: {losses:?}");
        let limit =
            time + SILENCE * u32::from(is_cut) + Duration::from_secs(2) + Duration::from_millis(START_MS);
        assert!(simulation.over <= limit, "seed {seed}: {:?}", simulation.over);
    }
}

#[test]
fn many_faults_at_once_leave_nothing_either() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let hosts = 2 + random.below(100) as u32;
        let mut simulation = Simulation::new(hosts, 1 + random.below(4) as u32, 1, Duration::from_secs(3));
        for _ in 0..random.below(8) {
            let victim = random.below(u64::from(hosts)) as u32;
            let what = if random.below(2) == 0 { Happening::Die } else { Happening::Cut };
            simulation.schedule(Duration::from_millis(random.below(4000)), victim, what);
        }
        let late = random.below(u64::from(hosts)) as usize;
        simulation.hosts[late].never_starts = random.below(3) == 0;
        simulation.run();
        simulation.assert_over();
    }
}

#[test]
fn a_stalled_connection_is_no_rank_that_hangs_in_the_kernel() {
    for (stall_s, is_late) in [(4, false), (20, true)] {
        let mut simulation = Simulation::new(3, 0, 2, Duration::from_secs(50));
        simulation.schedule(Duration::from_millis(900), 1, Happening::Stall(Duration::from_secs(stall_s)));
        simulation.schedule(Duration::from_secs(1), 0, Happening::Crash);
        simulation.run();
        simulation.assert_over();
        let told = &simulation.told;
        assert!(told.starts_with("mpirun: rank 0 (pid 2, host n0, a) was killed by signal 11"), "{told}");
        let said = "mpirun: host n1 has not said within 5 s that 2 ranks there died of SIGKILL: the connection to its";
        assert_eq!(told.contains(said), is_late, "{told}");
        assert_eq!(told.lines().count(), 1 + usize::from(is_late), "{told}");
        assert!(!told.contains("host n0 did not die") && !told.contains("host n2 has"), "{told}");
    }
}

#[test]
fn a_host_that_never_starts_is_late() {
    let mut simulation = Simulation::new(50, 3, 1, Duration::from_secs(30));
    simulation.hosts[17].never_starts = true;
    simulation.run();
    simulation.assert_over();
    assert_eq!(simulation.losses(), [&Loss { daemon: 17, cause: Cause::Late }]);
}

#[test]
fn a_question_of_all_costs_a_message_an_edge() {
    let hosts = 200;
    let mut simulation = Simulation::new(hosts, 4, 2, Duration::from_secs(2));
    let asked = Ask { host: 0, local: 1, generation: 0 };
    for host in 0..hosts {
        for local in 0..2 {
            simulation.schedule(Duration::from_secs(1), host, Happening::Event(Event::Ask(local, asked)));
        }
    }
    // The rank publishes only after all have requested its address.
    let word = Event::Published(1, 0, b"here".to_vec());
    simulation.schedule(Duration::from_millis(1100), 0, Happening::Event(word));
    simulation.run();
    simulation.assert_over();
    for host in &simulation.hosts {
        let expected: Vec<_> = (0..2).map(|local| (local, asked, b"here".to_vec())).collect();
        assert_eq!(host.answers, expected);
    }
    let quiet = {
        let mut quiet = Simulation::new(hosts, 4, 2, Duration::from_secs(2));
        quiet.run();
        quiet.over_edge
    };
    let cost: Vec<u32> = (1..hosts as usize).map(|at| simulation.over_edge[at] - quiet[at]).collect();
    assert!(cost.iter().all(|&cost| cost == 2), "a question and an answer over each edge: {cost:?}");
}

#[test]
fn all_hosts_hear_when_the_last_one_has_arrived() {
    for radix in [0, 1, 3] {
        let mut simulation = Simulation::new(20, radix, 2, Duration::from_secs(2));
        for host in 0..20 {
            // Some ranks report it twice, some are in the next program already, one never gets there.
            let mut arrives = |at_ms, generation| {
                let event = Happening::Event(Event::Arrived(generation));
                simulation.schedule(Duration::from_millis(at_ms), host, event);
            };
            arrives(1000 + u64::from(host), 0);
            if host % 3 == 0 {
                arrives(1001 + u64::from(host), 0);
            }
            if host != 7 {
                arrives(1500, 1);
            }
        }
        simulation.run();
        simulation.assert_over();
        for host in &simulation.hosts {
            assert_eq!(host.arrived, [0], "radix {radix}");
        }
    }
}

#[test]
fn calls_find_their_rank() {
    for radix in [0, 1, 3] {
        let mut simulation = Simulation::new(20, radix, 2, Duration::from_secs(2));
        let pairs = [(0, 7), (7, 0), (13, 19), (4, 5), (3, 3), (5, 99)];
        for (from, to) in pairs {
            let call = Event::Call(1, Ask { host: to, local: 0, generation: 0 });
            simulation.schedule(Duration::from_secs(1), from, Happening::Event(call));
        }
        simulation.run();
        simulation.assert_over();
        for (host, found) in (0..).zip(&simulation.hosts) {
            let callers = pairs.iter().filter(|(_, to)| *to == host);
            let expected: Vec<_> =
                callers.map(|&(host, _)| (0, Ask { host, local: 1, generation: 0 })).collect();
            assert_eq!(found.calls, expected, "host {host}, radix {radix}");
        }
    }
}

#[test]
fn a_parent_that_says_what_cannot_be_is_as_good_as_lost() {
    let check = |of_host: &[u32], is_possible: bool| {
        let job = Simulation::new(2, 0, 1, Duration::ZERO).job;
        let (mut daemon, mut actions) = (Daemon::new(1), Vec::new());
        for event in [Event::Plan(job), Event::Down(Down::Machines(of_host.to_vec(), 2))] {
            daemon.handle(event, Duration::ZERO, &mut actions);
        }
        let told = actions.iter().any(|action| matches!(action, Action::TakeMachines(_)));
        assert_eq!((told, daemon.is_over()), (is_possible, !is_possible), "{of_host:?}");
    };
    check(&[0, 0], true);
    check(&[0, 2], false);
    check(&[0], false);
}
