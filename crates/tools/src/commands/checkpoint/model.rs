//! Model of the time that the coordination of a checkpoint takes, without the files. It counts steps along
//! the longest path, for Tutti's tree and for the ring of Yu 2006 (sections 4.1 to 4.3). With costs that were
//! measured on a few hosts, it predicts both at any size. The module is pure.
//!
//! | phase here | in the paper | along the longest path of the paper |
//! |---|---|---|
//! | prepare, freeze | initial synchronisation | a request through a ring of the N processes |
//! | drain | pre-checkpoint coordination | a flag to each peer, reports through the ring |
//! | thaw | post-checkpoint coordination | connections to all peers anew, their numbers through the ring |
//!
//! A tree of daemons sends an order down and a report up in each phase (`tutti_checkpoint::coordination`).
//! Stopped ranks keep their connections, so that a thaw creates none.

use std::fmt;

use tutti_checkpoint::coordination::Phase;
use tutti_coll::start::{Job, Spread};

/// Topology of the coordination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A tree of daemons, with this number of children each.
    Tree(u32),
    /// A star: the console sends orders to all daemons directly.
    Star,
    /// A ring of the processes, connections to all others, numbers by the bootstrap channel: the paper.
    Ring,
    /// The ring with connections to twice the logarithm of the ranks, which the paper plans.
    AdaptiveRing,
}

/// Names of the steps of a coordination.
pub const TERMS: [&str; 8] = ["hop", "child", "look", "stop", "round", "go", "flag", "connection"];

/// Description of each step of [`TERMS`], for users.
pub const MEANINGS: [&str; 8] = [
    "a message from one daemon or process to the next",
    "a parent's work for a child in a phase, one after another",
    "looking whether a rank can be kept",
    "stopping a rank and describing it",
    "a round of draining on a host",
    "letting a rank go on",
    "a flag on a connection (the paper's draining)",
    "making a connection (the paper's thaw, and a restart)",
];

/// Cost of each step in seconds that is assumed without a measurement.
pub const ASSUMED: [f64; 8] = [5e-5, 2e-5, 1e-4, 1e-3, 1e-4, 5e-5, 1e-5, 2e-4];

/// Phases that are coordination alone; between drain and thaw, files are written.
pub const MODELLED: [Phase; 4] = [Phase::Prepare, Phase::Freeze, Phase::Drain, Phase::Thaw];

/// Rounds of draining without messages in flight: one detects that, and one receives messages that arrived
/// meanwhile.
const ROUNDS: f64 = 2.0;

impl Scheme {
    /// Returns the number of times that each of [`TERMS`] occurs on the longest path of a phase.
    pub fn terms(self, phase: Phase, job: &Job) -> [f64; 8] {
        match self {
            Scheme::Tree(_) | Scheme::Star => self.of_daemons(phase, job),
            Scheme::Ring | Scheme::AdaptiveRing => self.of_ring(phase, job),
        }
    }

    /// Seconds of a phase.
    pub fn seconds(self, phase: Phase, job: &Job, costs: &[f64; 8]) -> f64 {
        self.terms(phase, job).iter().zip(costs).map(|(times, cost)| times * cost).sum()
    }

    /// Seconds of all phases.
    pub fn coordination(self, job: &Job, costs: &[f64; 8]) -> f64 {
        MODELLED.iter().map(|&phase| self.seconds(phase, job, costs)).sum()
    }

    fn of_daemons(self, phase: Phase, job: &Job) -> [f64; 8] {
        let spread = if let Scheme::Tree(radix) = self { Spread::Tree(radix) } else { Spread::Star };
        let (depth, mut children) = spread.path(job);
        let mut here = f64::from(job.ranks.div_ceil(job.hosts.max(1)));
        let mut hosts_here = 1.0;
        if job.shared > 0 {
            // One machine does the work of all hosts.
            let shared = f64::from(job.shared);
            here = here.max(f64::from(job.ranks) / shared);
            children = children.max(f64::from(job.hosts.saturating_sub(1)) / shared);
            hosts_here = (f64::from(job.hosts) / shared).max(1.0);
        }
        let pass = |times: f64| [2.0 * depth * times, children * times, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let is_alone = job.hosts < 2;
        let mut terms = match phase {
            // One host has no network.
            Phase::Drain if is_alone => pass(0.0),
            Phase::Drain => pass(ROUNDS),
            _ => pass(1.0),
        };
        match phase {
            Phase::Prepare => terms[2] = here,
            Phase::Freeze => terms[3] = here,
            Phase::Drain if !is_alone => terms[4] = ROUNDS * hosts_here,
            Phase::Thaw => terms[5] = here,
            _ => {}
        }
        terms
    }

    fn of_ring(self, phase: Phase, job: &Job) -> [f64; 8] {
        let ranks = f64::from(job.ranks);
        let peers = self.peers(job);
        match phase {
            // Every process has a coordinator of its own.
            Phase::Prepare => [ranks, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            Phase::Freeze => [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
            Phase::Drain => [ranks, 0.0, 0.0, 0.0, 0.0, 0.0, peers, 0.0],
            Phase::Thaw => [2.0 * ranks, 0.0, 0.0, 0.0, 0.0, 1.0, peers, peers],
            _ => [0.0; 8],
        }
    }

    /// Returns the number of other processes with which a process is connected.
    pub fn peers(self, job: &Job) -> f64 {
        let others = f64::from(job.ranks.saturating_sub(1));
        match self {
            Scheme::Ring => others,
            _ => others.min(2.0 * f64::from(job.ranks.max(1)).log2().ceil()),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::Tree(radix) => write!(f, "tree:{radix}"),
            Scheme::Star => write!(f, "star"),
            Scheme::Ring => write!(f, "ring, flags to all"),
            Scheme::AdaptiveRing => write!(f, "ring, flags to 2 log N"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_checkpoint::coordination::{Consequence, Coordinator, Member, Next, Order, Report, Summary};

    /// Message between daemons, with its sender and receiver.
    enum Letter {
        Down(u32, Order),
        Up(u32, u32, Report),
    }

    /// Simulates a checkpoint with the real state machines. A message takes one unit of time, and nothing
    /// else takes time. Returns the duration of each phase.
    fn simulated(daemons: u32, radix: u32) -> Vec<(Phase, u32)> {
        let mut members: Vec<Member> = (0..daemons).map(|_| Member::default()).collect();
        let mut coordinator = Coordinator::default();
        let mut order = coordinator.begin(1, Vec::new(), None, daemons == 1, false);
        let mut times: Vec<(Phase, u32)> = Vec::new();
        loop {
            let mut letters = vec![(0, Letter::Down(0, order.clone()))];
            let mut ended = None;
            while !letters.is_empty() {
                letters.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
                let (at, letter) = letters.pop().expect("not empty");
                let mut out = Vec::new();
                let daemon = match letter {
                    Letter::Down(daemon, order) => {
                        let children = daemon * radix + 1..=daemon * radix + radix;
                        members[daemon as usize].order(
                            order,
                            children.filter(|&child| child < daemons),
                            &mut out,
                        );
                        daemon
                    }
                    Letter::Up(daemon, child, report) => {
                        members[daemon as usize].reported(child, report, &mut out);
                        daemon
                    }
                };
                while let Some(consequence) = out.pop() {
                    match consequence {
                        Consequence::Pass(child, order) => letters.push((at + 1, Letter::Down(child, order))),
                        Consequence::Perform(Order { set, phase, round, .. }) => {
                            let report = Report { set, phase, round, result: Ok(Summary::default()) };
                            members[daemon as usize].done(report, &mut out);
                        }
                        Consequence::Report(report) if daemon == 0 => ended = Some((at, report)),
                        Consequence::Report(report) => {
                            let parent = (daemon - 1) / radix;
                            letters.push((at + 1, Letter::Up(parent, daemon, report)));
                        }
                    }
                }
            }
            let (at, report) = ended.expect("all have reported");
            match times.last_mut() {
                Some((phase, time)) if *phase == report.phase => *time += at,
                _ => times.push((report.phase, at)),
            }
            let next = match coordinator.reported(report) {
                Next::Commit(_) => coordinator.committed(Ok(())),
                next => next,
            };
            match next {
                Next::Order(next) => order = next,
                Next::Over(Ok(1)) => return times,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Checks that the model counts the same hops as the state machines.
    fn check(hosts: u32, radix: u32) {
        let job = Job { hosts, ranks: hosts, shared: 0 };
        for (phase, hops) in simulated(hosts, radix).into_iter().filter(|(phase, _)| MODELLED.contains(phase))
        {
            let modelled = Scheme::Tree(radix).terms(phase, &job)[0];
            assert!((modelled - f64::from(hops)).abs() < 0.5, "{hosts}/{radix} {phase:?}: {modelled} {hops}");
        }
    }

    #[test]
    fn messages_are_counted_as_the_machines_send_them() {
        for hosts in 1..40 {
            for radix in [1, 2, 3, 32] {
                check(hosts, radix);
            }
        }
    }

    #[test]
    fn a_tree_grows_by_its_depth_and_a_ring_by_its_length() {
        let time = |scheme: Scheme, hosts: u32| {
            scheme.coordination(&Job { hosts, ranks: hosts * 32, shared: 0 }, &ASSUMED)
        };
        assert!(time(Scheme::Tree(32), 31250) < 1.3 * time(Scheme::Tree(32), 64));
        assert!(time(Scheme::Ring, 640) > 9.0 * time(Scheme::Ring, 64));
        assert!(time(Scheme::AdaptiveRing, 640) < time(Scheme::Ring, 640));
        assert!(time(Scheme::Star, 31250) > time(Scheme::Tree(32), 31250));
    }
}
