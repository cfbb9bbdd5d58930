//! Cost of an algorithm in closed form: the time of its [`Work`] on a [`Model`]. Selection sorts the
//! candidates by this cost before it simulates the best of them. For thousands of ranks nothing is simulated,
//! and the closed form decides alone.
//!
//! There are two regimes. With a core for every rank, time is the critical path: hops, and messages, bytes
//! and reductions of the busiest rank. With more ranks than cores, a wait for a message that has not arrived
//! switches to another process. A hop then costs as much as that switch, and the time is at least the work of
//! all ranks divided by the cores.

use std::sync::Arc;

use crate::generator::Node;
use crate::model::{DISTANCES, Model};
use crate::shape::{Params, Shape};
use crate::simulate::{Layout, Reach, Stage};
use crate::work::Work;

/// Placement of the ranks of a communicator, and the costs and permissions there. Equal on all ranks, so that
/// all of them select the same algorithm.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Cores that the ranks of this node share.
    pub cores: u32,
    /// Ranks of the communicator on this node; the largest number of any node.
    pub ranks_on_node: u32,
    /// True if a node has more ranks (of the job) than cores.
    pub oversubscribed: bool,
    /// Kind of memory that the ranks of the communicator share on a node.
    pub node: Node,
    /// The largest bank that the node gives a rank.
    pub bank_bytes: u64,
    /// Access of ranks to memory that others expose: by mapping or by system call.
    pub reach: Reach,
    /// Results are to have the same bits on any machine
    /// ([`Association::deterministic_for`](crate::generator::Association::deterministic_for)).
    pub deterministic: bool,
    /// True if the network copies messages of a host to several others.
    pub multicast: bool,
    /// Place of each rank: host, processor, distances.
    pub layout: Arc<Layout>,
    /// Parameters of the machine's speed.
    pub model: Arc<Model>,
}

impl Environment {
    /// Returns the environment of `ranks` ranks that share `cores` cores of one node of unknown layout. They
    /// can only send messages.
    pub fn flat(ranks: u32, cores: u32) -> Environment {
        Environment {
            cores,
            ranks_on_node: ranks,
            oversubscribed: ranks > cores,
            node: Node::Any,
            bank_bytes: 256 << 10,
            reach: Reach::Call,
            deterministic: false,
            multicast: false,
            layout: Arc::new(Layout::flat(ranks, cores)),
            model: Arc::new(Model::default()),
        }
    }

    /// Returns the environment of ranks on several hosts, made of properties that all of them know alike.
    /// Hosts that share one machine divide its cores evenly.
    pub fn on_hosts(layout: Arc<Layout>, model: Arc<Model>) -> Environment {
        let (ranks, ranks_on_node) = (layout.ranks(), layout.ranks_on_host());
        let oversubscribed = layout.crowded();
        let cores = layout.pools().iter().map(|pool| pool.processors).min().unwrap_or(1);
        let cores = (cores / layout.hosts_on_machine()).max(1);
        Environment { cores, ranks_on_node, oversubscribed, layout, model, ..Environment::flat(ranks, cores) }
    }

    /// Returns the environment of `ranks` ranks of a job that has `job_ranks` on this node, which share its
    /// `cores` cores.
    pub fn in_job(ranks: u32, job_ranks: u32, cores: u32, model: Arc<Model>) -> Environment {
        let (job_ranks, cores) = (job_ranks.max(1), cores.max(1));
        // If the job has more ranks than cores, ranks outside the communicator run beside these.
        let own = if job_ranks > cores { (ranks * cores / job_ranks).max(1) } else { cores };
        let oversubscribed = job_ranks > cores;
        Environment { cores, oversubscribed, model, ..Environment::flat(ranks, own) }
    }

    /// Returns the machine and the layout for the simulator.
    pub fn stage(&self) -> Stage<'_> {
        Stage { model: &self.model, layout: &self.layout, reach: self.reach }
    }
}

/// Seconds of the parts of the closed forms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    /// Least latency from one rank to another.
    hop: f64,
    /// Processor time to send or receive one message.
    message: f64,
    /// Time to move a byte from one rank to another.
    byte: f64,
    /// Time to combine or copy a byte.
    reduce: f64,
    /// Time to put one process to sleep and wake another on its core.
    switch: f64,
}

impl Rates {
    fn from_environment(environment: &Environment) -> Rates {
        let model = &environment.model;
        let far = environment.layout.hosts() > 1;
        let distance = if far { DISTANCES - 1 } else { 1 };
        let (overhead, byte) =
            if far { (model.network_overhead, 1.0 / model.network_bandwidth) } else { (0.0, 0.0) };
        Rates {
            hop: model.message_latency[distance] + model.message_overhead + overhead,
            message: model.message_overhead + model.step + overhead,
            byte: model.message_byte + model.message_byte + byte,
            reduce: model.reduce_byte,
            switch: model.switch,
        }
    }
}

impl Work {
    /// Returns the estimated time in seconds.
    pub fn time(&self, environment: &Environment) -> f64 {
        let rates = Rates::from_environment(environment);
        let mean = if self.all_messages > 0.0 { self.all_bytes / self.all_messages } else { 0.0 };
        let one_host = environment.layout.hosts() == 1;
        let handshake = if mean > environment.model.longest_eager(!one_host) { 2.0 } else { 1.0 };
        // Between hosts, waiting for the network outweighs waiting for a processor.
        let crowded =
            one_host && (environment.oversubscribed || environment.ranks_on_node > environment.cores);
        let hop = if crowded { rates.switch } else { rates.hop };
        let path = handshake * self.hops * hop
            + self.messages * rates.message
            + self.bytes * rates.byte
            + self.reduced * rates.reduce;
        if !crowded {
            return path;
        }
        let work = handshake * self.waits * rates.switch
            + 2.0 * self.all_messages * rates.message
            + self.all_bytes * rates.byte
            + self.all_reduced * rates.reduce;
        // Among two that keep the cores equally busy, the one with the shorter path wins.
        path.max(work / f64::from(environment.cores.max(1))) + path / 16.0
    }

    /// Returns the estimated time of one of several operations in a row, in seconds. The busiest rank is the
    /// bottleneck. A sixteenth of the path is added, so that of two equal bottlenecks the shorter path wins.
    fn in_a_row(&self, environment: &Environment) -> f64 {
        let rates = Rates::from_environment(environment);
        let path = self.time(environment);
        let steady = |(messages, bytes)| messages * rates.message + bytes * rates.byte;
        self.busiest.map_or(path, steady).min(path) + path / 16.0
    }
}

/// Estimates the time in seconds of an algorithm for several hosts. It is the time of `work` for the leaders,
/// one for each host, plus that of `work` for the ranks of one host. With segments the two parts overlap,
/// except for the first segment.
pub(crate) fn of_levels(
    work: fn(&Shape, &Params) -> Work,
    shape: &Shape,
    params: &Params,
    environment: &Environment,
) -> f64 {
    use crate::shape::Collective as C;
    let (hosts, local) = (environment.layout.hosts(), environment.ranks_on_node.max(1));
    // Blocks that represent a host: those of all its ranks.
    let blocks = match shape.collective {
        C::Gather | C::Scatter | C::Allgather | C::ReduceScatterBlock | C::Gatherv | C::Scatterv => {
            u64::from(local)
        }
        C::Alltoall | C::Alltoallv => u64::from(local) * u64::from(local),
        _ => 1,
    };
    // Blocks of unknown lengths travel in frames. Longer blocks are messages of their own in any algorithm.
    let framed = matches!(shape.collective, C::Gatherv | C::Scatterv | C::Alltoallv) && params.segment > 0;
    let frame = params.segment + crate::ir::Kind::FRAME_HEADER;
    let shape = &Shape { count: if framed { frame } else { shape.count }, ..*shape };
    let params = &Params { segment: if framed { 0 } else { params.segment }, ..*params };
    let leaders = Shape { ranks: hosts, root: 0, count: shape.count * blocks, ..*shape };
    // Data for all other hosts pass through the bank of a leader.
    let passes = if blocks > 1 { u64::from(hosts) } else { 1 };
    let members = Shape { ranks: local, root: 0, count: shape.count * passes, ..*shape };
    let host = Environment {
        layout: Arc::new(Layout::flat(local, environment.cores)),
        model: Arc::clone(&environment.model),
        ..*environment
    };
    let across = work(&leaders, params).in_a_row(environment);
    let within = if local > 1 { work(&members, params).time(&host) } else { 0.0 };
    let segment = params.segment.max(1);
    let segments = if params.segment > 0 { shape.count.div_ceil(segment).max(1) } else { 1 };
    if segments == 1 { across + within } else { across.max(within) + across.min(within) / segments as f64 }
}
