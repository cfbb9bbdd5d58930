//! What an algorithm costs, in closed form: the work it makes, and the time of that work on a [`Model`]. Selection orders
//! the candidates by it before it simulates the best of them; for ranks by the thousand it is all that there is.
//!
//! Two regimes. With a core for every rank, time is the critical path: hops, messages of the busiest
//! rank, its bytes and reductions. With more ranks than cores every wait for a message that is not
//! there is a switch to another process: a hop costs as much, and the time is no less than the work of
//! all ranks divided by the cores.

use std::sync::Arc;

use crate::algorithms::tree::{Form, dimensions};
use crate::ir::Loop;
use crate::model::{DISTANCES, Model};
use crate::registry::Node;
use crate::shape::{Params, Shape};
use crate::simulate::{Layout, Reach, Stage};

/// Where the ranks of a communicator run, and what things cost there. Equal on all of them.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Cores that the ranks of this node share.
    pub cores: u32,
    /// Ranks of the communicator on this node; the largest number of any node.
    pub ranks_on_node: u32,
    /// Whether a node has more ranks (of the job) than cores.
    pub oversubscribed: bool,
    /// What the node gives the ranks of the communicator.
    pub node: Node,
    /// The largest bank that the node gives a rank.
    pub bank_bytes: u64,
    /// How ranks get at memory that others expose.
    pub reach: Reach,
    /// Results are to have the same bits on any machine ([`Association::of`](crate::registry::Association::of)).
    pub deterministic: bool,
    /// Where each rank is.
    pub layout: Arc<Layout>,
    /// What things cost.
    pub model: Arc<Model>,
}

impl Environment {
    /// `ranks` ranks that share `cores` cores of one node, of which nothing is known; they send messages.
    pub fn flat(ranks: u32, cores: u32) -> Environment {
        Environment {
            cores,
            ranks_on_node: ranks,
            oversubscribed: ranks > cores,
            node: Node::Any,
            bank_bytes: 256 << 10,
            reach: Reach::Call,
            deterministic: false,
            layout: Arc::new(Layout::flat(ranks, cores)),
            model: Arc::new(Model::default()),
        }
    }

    /// Ranks on several hosts: only what all of them know alike. Of hosts that are one machine each has its part of the cores.
    pub fn on_hosts(layout: Arc<Layout>, model: Arc<Model>) -> Environment {
        let (ranks, ranks_on_node) = (layout.ranks(), layout.ranks_on_host());
        let oversubscribed = layout.crowded();
        let cores = layout.pools().iter().map(|pool| pool.processors).min().unwrap_or(1);
        let cores = (cores / layout.hosts_on_machine()).max(1);
        Environment { cores, ranks_on_node, oversubscribed, layout, model, ..Environment::flat(ranks, cores) }
    }

    /// `ranks` ranks of a job that has `job_ranks` on this node, which share its `cores` cores.
    pub fn in_job(ranks: u32, job_ranks: u32, cores: u32, model: Arc<Model>) -> Environment {
        let (job_ranks, cores) = (job_ranks.max(1), cores.max(1));
        // Where the job has more ranks than cores, others run beside these.
        let own = if job_ranks > cores { (ranks * cores / job_ranks).max(1) } else { cores };
        let oversubscribed = job_ranks > cores;
        Environment { cores, oversubscribed, model, ..Environment::flat(ranks, own) }
    }

    /// What the simulator runs on.
    pub fn stage(&self) -> Stage<'_> {
        Stage { model: &self.model, layout: &self.layout, reach: self.reach }
    }
}

/// Seconds of the parts of the closed forms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    /// From one rank to another, at the least.
    hop: f64,
    /// To send or to receive one message.
    message: f64,
    /// To move a byte from one rank to another.
    byte: f64,
    /// To combine (or copy) a byte.
    reduce: f64,
    /// To put one process to sleep and wake another on its core.
    switch: f64,
}

impl Rates {
    fn of(environment: &Environment) -> Rates {
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

/// The work of an algorithm: on its critical path, and in total over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Messages one after the other, each waiting for the one before.
    pub hops: f64,
    /// Messages sent and received on the critical path.
    pub messages: f64,
    /// Bytes moved on the critical path.
    pub bytes: f64,
    /// Bytes combined or copied on the critical path.
    pub reduced: f64,
    /// Messages of all ranks.
    pub all_messages: f64,
    /// Bytes moved by all ranks.
    pub all_bytes: f64,
    /// Bytes combined or copied by all ranks.
    pub all_reduced: f64,
    /// How often a rank waits, over all ranks.
    pub waits: f64,
    /// Messages and bytes of the busiest rank, where data go one way only: operations in a row take no longer than that. Or else
    /// who begins the next one has waited for others.
    pub busiest: Option<(f64, f64)>,
}

impl Work {
    /// The same on all of `ranks` ranks, who wait `hops` times each.
    fn even(ranks: f64, hops: f64, messages: f64, bytes: f64, reduced: f64) -> Work {
        Work {
            hops,
            messages,
            bytes,
            reduced,
            all_messages: ranks * messages / 2.0,
            all_bytes: ranks * bytes,
            all_reduced: ranks * reduced,
            waits: ranks * hops,
            ..Work::default()
        }
    }

    /// One after the other.
    pub(crate) fn then(self, next: Work) -> Work {
        Work {
            hops: self.hops + next.hops,
            messages: self.messages + next.messages,
            bytes: self.bytes + next.bytes,
            reduced: self.reduced + next.reduced,
            all_messages: self.all_messages + next.all_messages,
            all_bytes: self.all_bytes + next.all_bytes,
            all_reduced: self.all_reduced + next.all_reduced,
            waits: self.waits + next.waits,
            ..Work::default()
        }
    }

    /// How long it takes, in seconds.
    pub fn time(&self, environment: &Environment) -> f64 {
        let rates = Rates::of(environment);
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
        // Of two that keep the cores equally busy, the one with the shorter path wins.
        path.max(work / f64::from(environment.cores.max(1))) + path / 16.0
    }

    /// What each of several operations in a row takes; as where it is simulated, of two that keep the busiest rank as long, the one
    /// with the shorter path wins.
    fn in_a_row(&self, environment: &Environment) -> f64 {
        let rates = Rates::of(environment);
        let path = self.time(environment);
        let steady = |(messages, bytes)| messages * rates.message + bytes * rates.byte;
        self.busiest.map_or(path, steady).min(path) + path / 16.0
    }
}

/// How long an algorithm for several hosts takes: what `work` says of leaders, one a host, and of the ranks of a host. In
/// segments the two overlap, but for the first one.
pub(crate) fn of_levels(
    work: fn(&Shape, &Params) -> Work,
    shape: &Shape,
    params: &Params,
    environment: &Environment,
) -> f64 {
    use crate::shape::Collective as C;
    let (hosts, local) = (environment.layout.hosts(), environment.ranks_on_node.max(1));
    // What stands for a host: the blocks of all its ranks.
    let blocks = match shape.collective {
        C::Gather | C::Scatter | C::Allgather | C::ReduceScatterBlock | C::Gatherv | C::Scatterv => {
            u64::from(local)
        }
        C::Alltoall | C::Alltoallv => u64::from(local) * u64::from(local),
        _ => 1,
    };
    // Where nobody knows how long blocks are, frames travel; what is longer does so in any algorithm.
    let framed = matches!(shape.collective, C::Gatherv | C::Scatterv | C::Alltoallv) && params.segment > 0;
    let frame = params.segment + crate::ir::Kind::FRAME_HEADER;
    let shape = &Shape { count: if framed { frame } else { shape.count }, ..*shape };
    let params = &Params { segment: if framed { 0 } else { params.segment }, ..*params };
    let leaders = Shape { ranks: hosts, root: 0, count: shape.count * blocks, ..*shape };
    // What is for all others passes the bank of a leader.
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

/// The numbers that the closed forms are made of.
struct Numbers {
    ranks: f64,
    /// Ceiling of the binary logarithm of the number of ranks.
    log: f64,
    /// Bytes of [`Shape::count`].
    bytes: f64,
    /// 1 where the ranks are no power of two.
    fold: f64,
}

fn numbers(shape: &Shape) -> Numbers {
    Numbers {
        ranks: f64::from(shape.ranks),
        log: f64::from(shape.ranks.next_power_of_two().ilog2()),
        bytes: shape.bytes() as f64,
        fold: if shape.ranks.is_power_of_two() { 0.0 } else { 1.0 },
    }
}

/// Data once down a tree (or up it: the same messages the other way), in segments.
fn tree(shape: &Shape, form: Form, params: &Params, bytes: f64) -> Work {
    let (depth, degree) = dimensions(form, shape.ranks.max(2));
    let (depth, degree) = (f64::from(depth), f64::from(degree));
    let others = f64::from(shape.ranks - 1);
    let segment = (params.segment * shape.unit_bytes) as f64;
    let pipelined = params.segment > 0 && segment < bytes;
    let segments = if pipelined { (bytes / segment).ceil() } else { 1.0 };
    // Without segments a k-nomial node feeds its last child after `degree` sends at the root, but
    // deeper ones have fewer children: depth times (radix - 1) sends on the longest way.
    let stage = match form {
        Form::Knomial(radix) if !pipelined => f64::from(radix - 1),
        _ => degree,
    };
    let stages = (depth + segments - 1.0) * stage;
    Work {
        hops: depth,
        messages: 2.0 * stages,
        bytes: stages * bytes / segments,
        reduced: 0.0,
        all_messages: others * segments,
        all_bytes: others * bytes,
        all_reduced: 0.0,
        waits: others * (segments / f64::from(params.window.max(1))).ceil(),
        busiest: Some(((degree + 1.0) * segments, degree * bytes)),
    }
}

/// As [`tree`], upwards, with a reduction of every message; only inner nodes wait.
fn tree_reduce(shape: &Shape, form: Form, params: &Params, bytes: f64) -> Work {
    let down = tree(shape, form, params, bytes);
    let (_, degree) = dimensions(form, shape.ranks.max(2));
    let inner = 1.0 + f64::from(shape.ranks - 1) / f64::from(degree.max(1));
    let share = inner / f64::from(shape.ranks.max(2) - 1);
    Work { reduced: down.bytes, all_reduced: down.all_bytes, waits: down.waits * share.min(1.0), ..down }
}

pub(crate) fn barrier_dissemination(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    Work::even(n.ranks, n.log, 2.0 * n.log, 0.0, 0.0)
}

pub(crate) fn barrier_spread(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    Work::even(n.ranks, 1.0, 2.0 * (n.ranks - 1.0), 0.0, 0.0)
}

pub(crate) fn allreduce_spread(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let others = n.ranks - 1.0;
    Work::even(n.ranks, 1.0, 2.0 * others, others * n.bytes, (n.ranks + 1.0) * n.bytes)
}

pub(crate) fn barrier_tree(shape: &Shape, params: &Params) -> Work {
    let form = Form::Kary(params.radix);
    tree_reduce(shape, form, params, 0.0).then(tree(shape, form, params, 0.0))
}

pub(crate) fn bcast_knomial(shape: &Shape, params: &Params) -> Work {
    tree(shape, Form::Knomial(params.radix), params, shape.bytes() as f64)
}

pub(crate) fn bcast_kary(shape: &Shape, params: &Params) -> Work {
    tree(shape, Form::Kary(params.radix), params, shape.bytes() as f64)
}

/// n segments in n - 1 + log2 P rounds.
pub(crate) fn bcast_circulant(shape: &Shape, params: &Params) -> Work {
    let n = numbers(shape);
    let segment = (params.segment * shape.unit_bytes) as f64;
    let segments = if params.segment > 0 { (n.bytes / segment).ceil().max(1.0) } else { 1.0 };
    let rounds = segments - 1.0 + n.log;
    Work {
        hops: n.log,
        messages: 2.0 * rounds,
        bytes: rounds * n.bytes / segments,
        all_messages: (n.ranks - 1.0) * segments,
        all_bytes: (n.ranks - 1.0) * n.bytes,
        waits: n.ranks * n.log,
        ..Work::default()
    }
}

pub(crate) fn bcast_scatter_ring(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let part = n.bytes / n.ranks;
    let scatter = Work {
        hops: n.log,
        messages: n.log,
        bytes: n.bytes - part,
        all_messages: n.ranks - 1.0,
        all_bytes: part * n.ranks * n.log / 2.0,
        waits: n.ranks - 1.0,
        ..Work::default()
    };
    scatter.then(around(n.ranks, part, 0.0))
}

/// Blocks of `part` bytes once around the ring.
fn around(ranks: f64, part: f64, reduced: f64) -> Work {
    let rounds = ranks - 1.0;
    Work::even(ranks, rounds, 2.0 * rounds, rounds * part, rounds * reduced)
}

pub(crate) fn rooted_linear(shape: &Shape, params: &Params) -> Work {
    let n = numbers(shape);
    let others = n.ranks - 1.0;
    Work {
        hops: 1.0,
        messages: others,
        bytes: others * n.bytes,
        all_messages: others,
        all_bytes: others * n.bytes,
        waits: others.max(others / f64::from(params.window)),
        ..Work::default()
    }
}

pub(crate) fn rooted_tree(shape: &Shape, params: &Params) -> Work {
    let n = numbers(shape);
    let (depth, degree) = dimensions(Form::Knomial(params.radix), shape.ranks.max(2));
    let (depth, degree) = (f64::from(depth), f64::from(degree));
    let others = n.ranks - 1.0;
    Work {
        hops: depth,
        messages: degree + depth,
        bytes: others * n.bytes,
        reduced: n.ranks / f64::from(params.radix) * n.bytes,
        all_messages: others,
        all_bytes: n.ranks * n.bytes * depth / 2.0,
        all_reduced: n.ranks * n.bytes,
        waits: others + others / f64::from(params.radix),
        ..Work::default()
    }
}

/// Bytes of one block, which is `count` unless that is the sum of all.
fn block_bytes(shape: &Shape) -> f64 {
    use crate::shape::Collective as C;
    let n = numbers(shape);
    if matches!(shape.collective, C::Allgatherv | C::ReduceScatter) { n.bytes / n.ranks } else { n.bytes }
}

pub(crate) fn allgather_ring(shape: &Shape, _: &Params) -> Work {
    around(numbers(shape).ranks, block_bytes(shape), 0.0)
}

pub(crate) fn spread(shape: &Shape, params: &Params) -> Work {
    let n = numbers(shape);
    let rounds = n.ranks - 1.0;
    let window = f64::from(params.window.clamp(1, Loop::MAX_WINDOW));
    let hops = (rounds / window).ceil();
    Work::even(n.ranks, hops, 2.0 * rounds, rounds * block_bytes(shape), 0.0)
}

/// Of one neighbour: the degree is not known here.
pub(crate) fn neighbourhood(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    Work::even(n.ranks, 1.0, 2.0, n.bytes, 0.0)
}

pub(crate) fn pairwise(shape: &Shape, params: &Params) -> Work {
    spread(shape, &Params { window: 1, ..*params })
}

pub(crate) fn allgather_doubling(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    Work::even(n.ranks, n.log, 2.0 * n.log, (n.ranks - 1.0) * n.bytes, 0.0)
}

pub(crate) fn allgather_bruck(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    Work::even(n.ranks, n.log, 2.0 * n.log, (n.ranks - 1.0) * n.bytes, n.ranks * n.bytes)
}

pub(crate) fn allgather_tree(shape: &Shape, params: &Params) -> Work {
    let n = numbers(shape);
    let (form, whole) = (Form::Kary(params.radix), Params { segment: 0, ..*params });
    let others = n.ranks - 1.0;
    let up = tree_reduce(shape, form, &whole, 0.0);
    let up = Work { bytes: others * n.bytes, all_bytes: others * n.bytes, ..up };
    up.then(tree(shape, form, &whole, n.ranks * n.bytes))
}

pub(crate) fn alltoall_bruck(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let moved = n.log * n.ranks / 2.0 * n.bytes;
    Work::even(n.ranks, n.log, 2.0 * n.log, moved, 2.0 * moved + 2.0 * n.ranks * n.bytes)
}

pub(crate) fn reduce_knomial(shape: &Shape, params: &Params) -> Work {
    tree_reduce(shape, Form::Knomial(params.radix), params, shape.bytes() as f64)
}

pub(crate) fn reduce_kary(shape: &Shape, params: &Params) -> Work {
    tree_reduce(shape, Form::Kary(params.radix), params, shape.bytes() as f64)
}

/// The exchange in pairs before and after, where the ranks are no power of two.
fn folded(shape: &Shape, after: f64) -> Work {
    let n = numbers(shape);
    Work::even(
        n.ranks,
        n.fold * (1.0 + after),
        n.fold * (1.0 + after),
        n.fold * n.bytes,
        n.fold * n.bytes / 2.0,
    )
}

pub(crate) fn reduce_rabenseifner(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let halving = Work::even(n.ranks, n.log, 2.0 * n.log, n.bytes, n.bytes);
    let gather = Work::even(n.ranks, n.log, n.log, n.bytes, 0.0);
    folded(shape, 0.0).then(halving).then(Work {
        waits: n.ranks,
        all_bytes: n.ranks * n.bytes / 2.0,
        ..gather
    })
}

pub(crate) fn allreduce_doubling(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let rounds = Work::even(n.ranks, n.log, 2.0 * n.log, n.log * n.bytes, n.log * n.bytes);
    folded(shape, 1.0).then(rounds)
}

pub(crate) fn allreduce_rabenseifner(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let rounds = Work::even(n.ranks, 2.0 * n.log, 4.0 * n.log, 2.0 * n.bytes, n.bytes);
    folded(shape, 1.0).then(rounds)
}

pub(crate) fn allreduce_ring(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let part = n.bytes / n.ranks;
    around(n.ranks, part, part).then(around(n.ranks, part, 0.0))
}

/// The same in blocks of about a segment, so many of them for each of some leaders.
pub(crate) fn allreduce_slices(shape: &Shape, params: &Params) -> Work {
    let ring = allreduce_ring(shape, params);
    let segment = (params.segment * shape.unit_bytes) as f64;
    let part = shape.bytes() as f64 / f64::from(shape.ranks) / f64::from(params.radix.min(8));
    let blocks = if segment > 0.0 { (part / segment).max(1.0) } else { 1.0 };
    Work { messages: ring.messages * blocks, all_messages: ring.all_messages * blocks, ..ring }
}

pub(crate) fn allreduce_tree(shape: &Shape, params: &Params) -> Work {
    reduce_kary(shape, params).then(bcast_kary(shape, params))
}

/// The blocks of all ranks go everywhere.
pub(crate) fn reduce_scatter_whole(shape: &Shape, params: &Params) -> Work {
    use crate::shape::Collective as C;
    let blocks = if shape.collective == C::ReduceScatter { 1 } else { u64::from(shape.ranks) };
    allreduce_tree(&Shape { count: shape.count * blocks, ..*shape }, params)
}

/// Down a tree of the leaders of hosts, each with its part: together they send what one would.
pub(crate) fn bcast_leaders(shape: &Shape, params: &Params) -> Work {
    bcast_kary(shape, &params.downwards())
}

/// The same up the tree.
pub(crate) fn reduce_leaders(shape: &Shape, params: &Params) -> Work {
    reduce_kary(shape, &params.downwards())
}

/// As by halving and doubling, but for any number of ranks.
pub(crate) fn allreduce_circulant(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    Work::even(n.ranks, 2.0 * n.log, 4.0 * n.log, 2.0 * n.bytes, n.bytes)
}

pub(crate) fn reduce_scatter_circulant(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let all = n.ranks * block_bytes(shape);
    Work::even(n.ranks, n.log, 2.0 * n.log, all, all)
}

pub(crate) fn reduce_scatter_halving(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let all = n.ranks * block_bytes(shape);
    let rounds = Work::even(n.ranks, n.log, 2.0 * n.log, all, all);
    let fold = Work::even(n.ranks, 2.0 * n.fold, 2.0 * n.fold, n.fold * all, n.fold * all / 2.0);
    fold.then(rounds)
}

pub(crate) fn reduce_scatter_ring(shape: &Shape, _: &Params) -> Work {
    let part = block_bytes(shape);
    around(numbers(shape).ranks, part, part)
}

pub(crate) fn reduce_scatter_pairwise(shape: &Shape, params: &Params) -> Work {
    let moved = spread(shape, &Params { window: params.window.min(8), ..*params });
    Work { reduced: moved.bytes, all_reduced: moved.all_bytes, ..moved }
}

pub(crate) fn reduce_scatter_tree(shape: &Shape, params: &Params) -> Work {
    let all = f64::from(shape.ranks) * block_bytes(shape);
    let scatter = rooted_linear(&Shape { count: 0, ..*shape }, params);
    let scatter = Work { bytes: all, all_bytes: all, ..scatter };
    tree_reduce(shape, Form::Kary(params.radix), params, all).then(scatter)
}

pub(crate) fn scan_doubling(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    Work::even(n.ranks, n.log, 2.0 * n.log, n.log * n.bytes, n.log * n.bytes + n.bytes)
}

pub(crate) fn scan_chain(shape: &Shape, params: &Params) -> Work {
    let work = tree(shape, Form::Kary(1), params, shape.bytes() as f64);
    Work { reduced: work.bytes, all_reduced: work.all_bytes, ..work }
}
