//! Order of the phases of a checkpoint or restart, as messages of the daemon tree. The state machines are
//! pure: orders and reports go in, consequences come out.
//!
//! | phase | action of each host | content of its report |
//! |---|---|---|
//! | prepare | looks whether all can be kept | what cannot, by name |
//! | freeze | stops all threads of all ranks | |
//! | drain | takes in what the network holds | bytes still on the way |
//! | write | writes its files and syncs them | bytes and hashes |
//! | thaw | lets all go on | |
//!
//! A host may prefer to write from copies of its ranks ([`pace`](crate::pace)). Its report of `prepare` says
//! so. If the job also goes on afterwards, these phases follow `drain` instead:
//!
//! | phase | action of each host | content of its report |
//! |---|---|---|
//! | fork | copies its ranks (keepers) and writes what they share; or writes all, if it cannot copy | |
//! | thaw | lets all ranks go on | |
//! | write | writes the memory of its keepers and syncs its files | bytes and hashes |
//! | settle | ends its keepers and records whether the set is complete | |
//!
//! A restart has phases of its own:
//!
//! | phase | action of each host | content of its report |
//! |---|---|---|
//! | listen | opens a listening socket for the daemons of the other hosts | its address |
//! | connect | restores the connections, then the ranks, which stay stopped | |
//! | release | lets all ranks go on | |
//!
//! The root ([`Coordinator`]) orders one phase after the other. An order goes down the tree. Each daemon
//! ([`Member`]) does its part, and reports when it and all of its children are done. A phase costs each
//! daemon one message per child, and the job as many steps as the tree is deep. The root commits the set when
//! all hosts have written.
//!
//! After any failure the next order is `thaw`, or `settle` if ranks go on already. Thus no rank stays stopped
//! and no keeper is left, and a set is either complete or absent. A failed restart ends the job, which starts
//! again from the same set or the one before.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::image::ConnectionEnd;
use crate::image::blocks::FileRecord;

/// Limit on consecutive rounds of `drain` that receive nothing. Each round waits some milliseconds. In all
/// they take as long as the network may need to repeat packets lost under load.
const MOST_ROUNDS: u32 = 2000;

/// Phase of a checkpoint or of a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Checks that the state of all ranks can be saved.
    Prepare,
    /// Stops all threads of all ranks.
    Freeze,
    /// Receives the bytes that the network holds.
    Drain,
    /// Copies the ranks, and writes all that the copies lack.
    Fork,
    /// Writes and syncs the files of the host.
    Write,
    /// Resumes the ranks of all hosts.
    Thaw,
    /// Ends the copies of ranks; the order says whether the set is complete.
    Settle,
    /// Restart: opens a listening socket for other hosts.
    Listen,
    /// Restart: restores connections and ranks.
    Connect,
    /// Restart: starts the restored ranks.
    Release,
}

/// Phases of a checkpoint during which ranks stand still, in order.
pub const PHASES: [Phase; 5] = [Phase::Prepare, Phase::Freeze, Phase::Drain, Phase::Write, Phase::Thaw];

/// Phases of a checkpoint that is written from copies of the ranks, in order.
pub const FORKED_PHASES: [Phase; 7] =
    [Phase::Prepare, Phase::Freeze, Phase::Drain, Phase::Fork, Phase::Thaw, Phase::Write, Phase::Settle];

/// Phases of a restart, in order.
pub const RESTART_PHASES: [Phase; 3] = [Phase::Listen, Phase::Connect, Phase::Release];

/// Returns the name of a phase, in lower case, for messages and for tests.
pub fn name(phase: Phase) -> String {
    format!("{phase:?}").to_lowercase()
}

/// Returns the names of all steps of a checkpoint and of a restart, at which tests stop a daemon. Each phase
/// has a step before and a step after the host's part. Steps of a checkpoint that is written from copies
/// begin with `forked:`.
pub fn steps() -> Vec<String> {
    let names = |phases: &[Phase]| {
        let mut names: Vec<String> = phases.iter().map(|phase| name(*phase)).collect();
        if let Some(write) = phases.iter().position(|phase| *phase == Phase::Write) {
            names.insert(write + 1, COMMIT.to_string());
        }
        names
    };
    let plain = [names(&PHASES), names(&RESTART_PHASES)].concat();
    let forked = names(&FORKED_PHASES).into_iter().map(|name| format!("{FORKED}{name}"));
    plain
        .into_iter()
        .chain(forked)
        .flat_map(|name| [format!("{name}:before"), format!("{name}:after")])
        .collect()
}

/// Prefix of the steps of a checkpoint that is written from copies of the ranks.
pub const FORKED: &str = "forked:";

/// Name of the step that the root alone performs, when all hosts have written.
pub const COMMIT: &str = "commit";

/// Order of the root to all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Number of the set.
    pub set: u64,
    /// Folder in which the set is written, as a path.
    pub folder: Vec<u8>,
    /// Phase that the hosts perform now.
    pub phase: Phase,
    /// Drain: number of rounds that were ordered before this one.
    pub round: u32,
    /// Fork and write: the last complete set, to which unchanged blocks refer. None: all blocks are written.
    pub older: Option<u64>,
    /// Thaw and settle: true if the set is complete.
    pub is_whole: bool,
    /// Thaw: true if memory is still to be written from copies.
    pub is_forked: bool,
    /// Connect: listening address of the daemon of each host.
    pub addresses: Vec<(u32, SocketAddr)>,
}

/// Result of a phase in a subtree of daemons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Number of the set.
    pub set: u64,
    /// Phase that was performed.
    pub phase: Phase,
    /// Round of the phase, as in the order.
    pub round: u32,
    /// Sum of the results of all hosts, or the first failure.
    pub result: Result<Summary, String>,
}

/// Figures and lists that a subtree reports after a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Drain: bytes that were sent and have not arrived.
    pub in_flight: u64,
    /// Drain: bytes that were received in this round.
    pub drained: u64,
    /// Drain: source and destination of one connection with bytes that have not arrived.
    pub lingers: Option<(SocketAddr, SocketAddr)>,
    /// Prepare: true if a host prefers to write from copies of its ranks.
    pub forks: bool,
    /// Write: records of the files that were written.
    pub files: Vec<FileRecord>,
    /// Write: ends of connections to other hosts.
    pub connections: Vec<ConnectionEnd>,
    /// Listen: listening addresses of the daemons, by host.
    pub addresses: Vec<(u32, SocketAddr)>,
    /// Write: number of bytes of the standard input that were read, and whether nothing is left. Only the
    /// host of the rank to which mpirun passes its standard input has it.
    pub input_read: Option<(u64, bool)>,
}

/// Action that a daemon must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Performs this host's part of an order.
    Perform(Order),
    /// Sends an order to a child.
    Pass(u32, Order),
    /// Sends a report to the parent; at the root, to the coordinator.
    Report(Report),
}

/// Phase in progress at a daemon.
#[derive(Debug)]
struct Current {
    order: Order,
    children: BTreeSet<u32>,
    is_done: bool,
    gathered: Result<Summary, String>,
}

/// Part of a daemon in a checkpoint: forwards orders and gathers the reports of its subtree.
#[derive(Debug, Default)]
pub struct Member {
    current: Option<Current>,
}

impl Member {
    /// Starts the phase of an order that has arrived, and forwards the order to the children that have
    /// joined.
    pub fn order(&mut self, order: Order, children: impl Iterator<Item = u32>, out: &mut Vec<Consequence>) {
        let children: BTreeSet<u32> = children.collect();
        out.extend(children.iter().map(|&child| Consequence::Pass(child, order.clone())));
        out.push(Consequence::Perform(order.clone()));
        let gathered = Ok(Summary::default());
        self.current = Some(Current { order, children, is_done: false, gathered });
    }

    /// Records that this host's part of the phase is done.
    pub fn done(&mut self, report: Report, out: &mut Vec<Consequence>) {
        self.take(report, |current| current.is_done = true, out);
    }

    /// Records that the subtree of a child has performed the phase.
    pub fn reported(&mut self, child: u32, report: Report, out: &mut Vec<Consequence>) {
        self.take(
            report,
            |current| {
                current.children.remove(&child);
            },
            out,
        );
    }

    /// Records the loss of a child. A phase in which the child takes part fails.
    pub fn lost(&mut self, child: u32, out: &mut Vec<Consequence>) {
        let Some(current) = &self.current else { return };
        if !current.children.contains(&child) {
            return;
        }
        let Order { set, phase, round, .. } = current.order;
        self.reported(child, Report { set, phase, round, result: Err("a host is lost".to_string()) }, out);
    }

    /// Adds a report to the phase in progress, and reports to the parent when this host and all children are
    /// done. Ignores reports of other phases or rounds.
    fn take(&mut self, report: Report, note: impl FnOnce(&mut Current), out: &mut Vec<Consequence>) {
        let Some(current) = &mut self.current else { return };
        let order = &current.order;
        if (order.set, order.phase, order.round) != (report.set, report.phase, report.round) {
            return;
        }
        note(current);
        match (&mut current.gathered, report.result) {
            (Ok(gathered), Ok(more)) => {
                gathered.in_flight += more.in_flight;
                gathered.drained += more.drained;
                gathered.lingers = gathered.lingers.or(more.lingers);
                gathered.forks |= more.forks;
                gathered.files.extend(more.files);
                gathered.connections.extend(more.connections);
                gathered.addresses.extend(more.addresses);
                gathered.input_read = gathered.input_read.or(more.input_read);
            }
            (gathered @ Ok(_), Err(error)) => *gathered = Err(error),
            // Only the first failure is reported to the user.
            (Err(_), _) => {}
        }
        if current.is_done && current.children.is_empty() {
            let Order { set, phase, round, .. } = current.order;
            let result = std::mem::replace(&mut current.gathered, Ok(Summary::default()));
            self.current = None;
            out.push(Consequence::Report(Report { set, phase, round, result }));
        }
    }
}

/// Next action of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Sends an order to all hosts.
    Order(Order),
    /// Completes the set, since all hosts have written, and reports the outcome to
    /// [`Coordinator::committed`].
    Commit(Summary),
    /// Ends the checkpoint: the job runs. Holds the number of the set, or the reason of the failure.
    Over(Result<u64, String>),
    /// Ignores the event, which belongs to an earlier phase.
    Nothing,
}

/// Part of the root in a checkpoint: decides which phase follows.
#[derive(Debug, Default)]
pub struct Coordinator {
    order: Option<Order>,
    is_alone: bool,
    /// The job goes on after the checkpoint, and may do so before all is written.
    may_fork: bool,
    /// Memory is written from copies of the ranks.
    forks: bool,
    /// True once the ranks were ordered to go on with the program.
    is_thawed: bool,
    was_empty: bool,
    /// Consecutive rounds of draining that received nothing.
    rounds_in_vain: u32,
    failure: Option<String>,
    older: Option<u64>,
    addresses: Vec<(u32, SocketAddr)>,
}

impl Coordinator {
    /// Returns true while a checkpoint or restart is in progress.
    pub fn is_busy(&self) -> bool {
        self.order.is_some()
    }

    /// Returns the number of the set in progress, if any.
    pub fn set(&self) -> Option<u64> {
        self.order.as_ref().map(|order| order.set)
    }

    /// Returns the phase in progress, if any.
    pub fn phase(&self) -> Option<Phase> {
        self.order.as_ref().map(|order| order.phase)
    }

    /// Begins a checkpoint and returns its first order.
    ///
    /// - `set`: number of the new set, which is written in `folder`;
    /// - `older`: complete set to which unchanged blocks refer;
    /// - `is_alone`: the job has one host, so that no network is drained;
    /// - `may_fork`: the job goes on after the checkpoint.
    pub fn begin(
        &mut self,
        set: u64,
        folder: Vec<u8>,
        older: Option<u64>,
        is_alone: bool,
        may_fork: bool,
    ) -> Order {
        let order = Order {
            set,
            folder,
            phase: Phase::Prepare,
            round: 0,
            older,
            is_whole: false,
            is_forked: false,
            addresses: Vec::new(),
        };
        *self =
            Coordinator { order: Some(order.clone()), is_alone, may_fork, older, ..Coordinator::default() };
        order
    }

    /// Begins a restart from a set, and returns its first order.
    pub fn restart(&mut self, set: u64) -> Order {
        let mut order = self.begin(set, Vec::new(), None, false, false);
        order.phase = Phase::Listen;
        self.order = Some(order.clone());
        order
    }

    /// Takes the joint report of all hosts and returns the next action.
    pub fn reported(&mut self, report: Report) -> Next {
        let Some(order) = &self.order else { return Next::Nothing };
        if (order.set, order.phase, order.round) != (report.set, report.phase, report.round) {
            return Next::Nothing;
        }
        match (order.phase, report.result) {
            (Phase::Thaw, Ok(_)) if order.is_forked => self.next(Phase::Write, 0),
            (Phase::Thaw, Err(error)) if order.is_forked => self.end(Some(error)),
            (Phase::Thaw | Phase::Settle, _) => {
                let order = self.order.take().expect("looked at above");
                Next::Over(self.failure.take().map_or(Ok(order.set), Err))
            }
            (Phase::Listen, Ok(summary)) => {
                self.addresses = summary.addresses;
                self.next(Phase::Connect, 0)
            }
            (Phase::Connect, Ok(_)) => self.next(Phase::Release, 0),
            (Phase::Release, Ok(_)) => {
                let order = self.order.take().expect("looked at above");
                Next::Over(Ok(order.set))
            }
            // A failed restart ends the job.
            (Phase::Listen | Phase::Connect | Phase::Release, Err(error)) => {
                self.order = None;
                Next::Over(Err(error))
            }
            // No rank is stopped yet, so none needs an order to go on.
            (Phase::Prepare, Err(error)) => {
                self.order = None;
                Next::Over(Err(error))
            }
            (_, Err(error)) => self.end(Some(error)),
            (Phase::Prepare, Ok(summary)) => {
                self.forks = self.may_fork && summary.forks;
                self.next(Phase::Freeze, 0)
            }
            (Phase::Freeze, Ok(_)) if self.is_alone => self.write(),
            (Phase::Freeze, Ok(_)) => self.next(Phase::Drain, 0),
            (Phase::Fork, Ok(_)) => {
                let next = self.next(Phase::Thaw, 0);
                self.is_thawed = true;
                next
            }
            (Phase::Drain, Ok(summary)) => self.drained(report.round, &summary),
            (Phase::Write, Ok(summary)) => Next::Commit(summary),
        }
    }

    /// Decides whether another round of draining is needed. All bytes have arrived when no sender has bytes
    /// in flight. One more round then receives those that arrived last.
    fn drained(&mut self, round: u32, summary: &Summary) -> Next {
        if self.was_empty {
            return self.write();
        }
        self.was_empty = summary.in_flight == 0;
        self.rounds_in_vain = if summary.drained > 0 { 0 } else { self.rounds_in_vain + 1 };
        if self.rounds_in_vain >= MOST_ROUNDS {
            let from = summary.lingers.map_or_else(String::new, |(from, to)| format!(" from {from} to {to}"));
            let bytes = summary.in_flight;
            return self.end(Some(format!(
                "the network between the hosts cannot be drained: {bytes} bytes{from} do not arrive"
            )));
        }
        self.next(Phase::Drain, round + 1)
    }

    /// Takes the outcome of the commit and returns the next action.
    pub fn committed(&mut self, result: Result<(), String>) -> Next {
        match &self.order {
            Some(order) if order.phase == Phase::Write => self.end(result.err()),
            _ => Next::Nothing,
        }
    }

    fn write(&mut self) -> Next {
        self.next(if self.forks { Phase::Fork } else { Phase::Write }, 0)
    }

    fn end(&mut self, failure: Option<String>) -> Next {
        self.failure = failure;
        self.next(if self.is_thawed { Phase::Settle } else { Phase::Thaw }, 0)
    }

    /// Returns the order of a phase, with the fields that the phase needs.
    fn next(&mut self, phase: Phase, round: u32) -> Next {
        let Some(order) = &mut self.order else { return Next::Nothing };
        (order.phase, order.round) = (phase, round);
        order.older = self.older.filter(|_| matches!(phase, Phase::Fork | Phase::Write));
        order.is_forked = phase == Phase::Thaw && self.forks && self.failure.is_none();
        let is_last = matches!(phase, Phase::Thaw | Phase::Settle) && !order.is_forked;
        order.is_whole = is_last && self.failure.is_none();
        order.addresses =
            if phase == Phase::Connect { std::mem::take(&mut self.addresses) } else { Vec::new() };
        Next::Order(order.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Failure that is injected in a simulated checkpoint.
    #[derive(Clone, Copy, Debug)]
    enum Fault {
        Refused { daemon: u32, phase: usize },
        Lost { daemon: u32, phase: usize },
        CommitFails,
    }

    /// Number of bytes in flight that never arrive, a special value of the simulation.
    const NEVER_ARRIVES: u64 = 77;

    /// Phases by their index in faults.
    const ALL: [Phase; 10] = [
        Phase::Prepare,
        Phase::Freeze,
        Phase::Drain,
        Phase::Write,
        Phase::Thaw,
        Phase::Listen,
        Phase::Connect,
        Phase::Release,
        Phase::Fork,
        Phase::Settle,
    ];

    /// Simulated job: daemons in a tree, and a queue of messages for each link. A random link delivers next.
    struct World {
        radix: u32,
        members: Vec<Member>,
        coordinator: Coordinator,
        queues: BTreeMap<(u32, u32), Vec<Letter>>,
        frozen: Vec<bool>,
        lost: Vec<bool>,
        written: BTreeSet<u32>,
        /// Daemons that prefer to write from copies, and daemons that have keepers.
        forks: BTreeSet<u32>,
        keepers: BTreeSet<u32>,
        /// Bytes in flight of each daemon.
        in_flight: Vec<u64>,
        fault: Option<Fault>,
        outcome: Option<Result<u64, String>>,
        committed: bool,
        /// Restart: daemons that have restored their ranks, and daemons that have started them.
        made: BTreeSet<u32>,
        released: BTreeSet<u32>,
    }

    #[derive(Clone, Debug)]
    enum Letter {
        Down(Order),
        Up(Report),
        Done(Report),
        Lost,
    }

    impl World {
        fn new(daemons: u32, radix: u32, in_flight: Vec<u64>, fault: Option<Fault>) -> World {
            World {
                radix,
                members: (0..daemons).map(|_| Member::default()).collect(),
                coordinator: Coordinator::default(),
                queues: BTreeMap::new(),
                frozen: vec![false; daemons as usize],
                lost: vec![false; daemons as usize],
                written: BTreeSet::new(),
                forks: BTreeSet::new(),
                keepers: BTreeSet::new(),
                in_flight,
                fault,
                outcome: None,
                committed: false,
                made: BTreeSet::new(),
                released: BTreeSet::new(),
            }
        }

        fn children(&self, daemon: u32) -> Vec<u32> {
            let all = daemon * self.radix + 1..=daemon * self.radix + self.radix;
            all.filter(|&child| (child as usize) < self.members.len() && !self.lost[child as usize]).collect()
        }

        fn obey(&mut self, daemon: u32, out: Vec<Consequence>) {
            for consequence in out {
                match consequence {
                    Consequence::Pass(child, order) => self.send(daemon, child, Letter::Down(order)),
                    Consequence::Perform(order) => self.perform(daemon, order),
                    Consequence::Report(report) if daemon > 0 => {
                        self.send(daemon, (daemon - 1) / self.radix, Letter::Up(report));
                    }
                    Consequence::Report(report) => {
                        let next = self.coordinator.reported(report);
                        self.follow(next);
                    }
                }
            }
        }

        fn follow(&mut self, next: Next) {
            match next {
                Next::Order(order) => {
                    if order.phase == Phase::Fork || order.phase == Phase::Write && self.keepers.is_empty() {
                        assert!(self.frozen.iter().zip(&self.lost).all(|(frozen, lost)| *frozen || *lost));
                        assert!(self.in_flight.iter().all(|bytes| *bytes == 0), "written too early");
                    }
                    let children = self.children(0);
                    let mut out = Vec::new();
                    self.members[0].order(order, children.into_iter(), &mut out);
                    self.obey(0, out);
                }
                Next::Commit(_) => {
                    assert_eq!(self.written.len(), self.members.len(), "all have written");
                    let fails = matches!(self.fault, Some(Fault::CommitFails));
                    self.committed = !fails;
                    let next =
                        self.coordinator.committed(if fails { Err("full".to_string()) } else { Ok(()) });
                    self.follow(next);
                }
                Next::Over(outcome) => self.outcome = Some(outcome),
                Next::Nothing => {}
            }
        }

        fn send(&mut self, from: u32, to: u32, letter: Letter) {
            self.queues.entry((from, to)).or_default().push(letter);
        }

        fn perform(&mut self, daemon: u32, order: Order) {
            let at = ALL.iter().position(|phase| *phase == order.phase).unwrap();
            let mut result = Ok(Summary::default());
            match self.fault {
                Some(Fault::Refused { daemon: who, phase }) if who == daemon && phase == at => {
                    result = Err("refused".to_string());
                }
                Some(Fault::Lost { daemon: who, phase }) if who == daemon && phase == at && who > 0 => {
                    self.lost[who as usize] = true;
                    self.fault = None;
                    return self.send(who, (who - 1) / self.radix, Letter::Lost);
                }
                _ => {}
            }
            match order.phase {
                Phase::Prepare => {
                    let forks = self.forks.contains(&daemon);
                    result.iter_mut().for_each(|summary| summary.forks = forks);
                }
                Phase::Freeze if result.is_ok() => self.frozen[daemon as usize] = true,
                Phase::Fork if result.is_ok() => drop(self.keepers.insert(daemon)),
                Phase::Drain => {
                    let bytes = &mut self.in_flight[daemon as usize];
                    let drained = if *bytes == NEVER_ARRIVES { 0 } else { (*bytes).min(3) };
                    *bytes -= drained;
                    if let Ok(summary) = &mut result {
                        let ends = [5, 7].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
                        (summary.in_flight, summary.drained) = (*bytes, drained);
                        summary.lingers = (*bytes > 0).then_some((ends[0], ends[1]));
                    }
                }
                Phase::Write if result.is_ok() => drop(self.written.insert(daemon)),
                Phase::Thaw => {
                    self.frozen[daemon as usize] = false;
                    if !order.is_forked {
                        self.keepers.remove(&daemon);
                    }
                }
                Phase::Settle => drop(self.keepers.remove(&daemon)),
                Phase::Listen => {
                    if let Ok(summary) = &mut result {
                        summary.addresses.push((daemon, SocketAddr::from(([10, 0, 0, 1], daemon as u16))));
                    }
                }
                Phase::Connect => {
                    let mut told: Vec<u32> = order.addresses.iter().map(|(daemon, _)| *daemon).collect();
                    told.sort_unstable();
                    assert_eq!(told, (0..self.members.len() as u32).collect::<Vec<_>>(), "all are listening");
                    self.made.insert(daemon);
                }
                Phase::Release => {
                    assert_eq!(self.made.len(), self.members.len(), "all are made");
                    self.released.insert(daemon);
                }
                _ => {}
            }
            let Order { set, phase, round, .. } = order;
            self.send(daemon, daemon, Letter::Done(Report { set, phase, round, result }));
        }

        fn run(&mut self, may_fork: bool, choices: impl FnMut(usize) -> usize) {
            let alone = self.members.len() == 1;
            let order = self.coordinator.begin(5, Vec::new(), None, alone, may_fork);
            self.follow_to_the_end(order, choices);
        }

        fn follow_to_the_end(&mut self, order: Order, mut choices: impl FnMut(usize) -> usize) {
            self.follow(Next::Order(order));
            for _ in 0..100_000 {
                let links: Vec<(u32, u32)> = self
                    .queues
                    .iter()
                    .filter(|(_, queue)| !queue.is_empty())
                    .map(|(&link, _)| link)
                    .collect();
                if links.is_empty() {
                    return;
                }
                let (from, to) = links[choices(links.len())];
                let letter = self.queues.get_mut(&(from, to)).unwrap().remove(0);
                if self.lost[to as usize]
                    || from != to && self.lost[from as usize] && !matches!(letter, Letter::Lost)
                {
                    continue;
                }
                let children = self.children(to);
                let mut out = Vec::new();
                let member = &mut self.members[to as usize];
                match letter {
                    Letter::Down(order) => member.order(order, children.into_iter(), &mut out),
                    Letter::Up(report) => member.reported(from, report, &mut out),
                    Letter::Done(report) => member.done(report, &mut out),
                    Letter::Lost => member.lost(from, &mut out),
                }
                self.obey(to, out);
            }
            panic!("it does not end");
        }
    }

    fn fault() -> impl Strategy<Value = Option<Fault>> {
        prop_oneof![
            Just(None),
            (0u32..12, prop_oneof![0usize..4, Just(8)])
                .prop_map(|(daemon, phase)| Some(Fault::Refused { daemon, phase })),
            (0u32..12, prop_oneof![0usize..5, 8usize..10])
                .prop_map(|(daemon, phase)| Some(Fault::Lost { daemon, phase })),
            Just(Some(Fault::CommitFails)),
        ]
    }

    #[test]
    fn what_never_arrives_is_given_up() {
        let mut world = World::new(3, 2, vec![4, NEVER_ARRIVES, 0], None);
        world.run(false, |_| 0);
        let told = "the network between the hosts cannot be drained: 77 bytes from 10.0.0.1:5 to 10.0.0.1:7 do \
                    not arrive";
        assert_eq!(world.outcome, Some(Err(told.to_string())));
        assert!(!world.frozen.contains(&true) && !world.committed);
    }

    proptest! {
        /// Runs checkpoints with messages in random order, with failures, and with or without copies. Each
        /// one ends. No surviving daemon has stopped ranks or keepers left, and a set is complete only if all
        /// daemons have written.
        #[test]
        fn nothing_stays_frozen_and_no_half_is_whole(
            daemons in 1u32..12,
            radix in 1u32..4,
            bytes in proptest::collection::vec(0u64..9, 12),
            fault in fault(),
            forks in proptest::collection::btree_set(0u32..12, 0..3),
            may_fork in any::<bool>(),
            choices in proptest::collection::vec(any::<u16>(), 64),
        ) {
            let is_forked = may_fork && forks.iter().any(|&daemon| daemon < daemons);
            let bytes = if daemons == 1 { vec![0] } else { bytes[..daemons as usize].to_vec() };
            let mut world = World::new(daemons, radix, bytes, fault);
            world.forks = forks;
            let mut at = 0;
            world.run(may_fork, |links| {
                at += 1;
                usize::from(choices[at % choices.len()]) % links
            });
            // Daemons below a lost one receive nothing more; in a real job they end.
            let below_lost = |daemon: u32| {
                let mut at = daemon;
                loop {
                    if world.lost[at as usize] {
                        return true;
                    }
                    if at == 0 {
                        return false;
                    }
                    at = (at - 1) / radix;
                }
            };
            let outcome = world.outcome.clone().expect("it ends");
            for daemon in 0..daemons {
                prop_assert!(!world.frozen[daemon as usize] || below_lost(daemon), "{daemon} stays frozen");
                prop_assert!(!world.keepers.contains(&daemon) || below_lost(daemon), "{daemon} has keepers");
            }
            prop_assert_eq!(outcome.is_ok(), world.committed && outcome.is_ok());
            if world.committed {
                prop_assert_eq!(world.written.len() as u32, daemons);
            }
            let has_failed = match fault {
                Some(Fault::Refused { daemon, phase }) => {
                    let is_left_out = phase == 2 && daemons == 1 || phase == 8 && !is_forked;
                    daemon < daemons && !is_left_out
                }
                Some(Fault::CommitFails) => true,
                _ => false,
            };
            let is_sound = !world.lost.contains(&true) && !has_failed;
            prop_assert_eq!(outcome.is_ok() || !is_sound, true, "{:?}", outcome);
        }

        /// Runs restarts. No rank starts before all are restored, and none starts after a failure.
        #[test]
        fn nobody_goes_on_before_all_are_made(
            daemons in 1u32..12,
            radix in 1u32..4,
            fault in prop_oneof![
                Just(None),
                (0u32..12, 5usize..7).prop_map(|(daemon, phase)| Some(Fault::Refused { daemon, phase })),
                (1u32..12, 5usize..7).prop_map(|(daemon, phase)| Some(Fault::Lost { daemon, phase })),
            ],
            choices in proptest::collection::vec(any::<u16>(), 64),
        ) {
            let mut world = World::new(daemons, radix, vec![0; daemons as usize], fault);
            let order = world.coordinator.restart(3);
            let mut at = 0;
            world.follow_to_the_end(order, |links| {
                at += 1;
                usize::from(choices[at % choices.len()]) % links
            });
            let outcome = world.outcome.clone().expect("it ends");
            let all = world.released.len() == daemons as usize;
            prop_assert_eq!(outcome.is_ok(), all);
            prop_assert!(all || world.released.is_empty());
        }
    }
}
