//! Work of the algorithms that send messages, in closed form.

use super::Work;
use crate::ir::Loop;
use crate::shape::{Params, Shape};
use crate::tree::{Form, dimensions};

/// Quantities that the closed forms use.
struct Numbers {
    ranks: f64,
    /// Ceiling of the binary logarithm of the number of ranks.
    log: f64,
    /// Bytes of [`Shape::count`] units.
    bytes: f64,
    /// 1 if the number of ranks is no power of two, otherwise 0.
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

/// Returns the work of one pass of the data down a tree in segments. Upwards the messages are the same, in
/// the other direction.
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

/// Returns the work of a [`tree`] used upwards, with a reduction of every message; only inner nodes wait.
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

/// Returns the work if one rank gets and combines the operands of all others.
pub(crate) fn together_reduce(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let others = n.ranks - 1.0;
    Work {
        hops: 1.0,
        messages: others,
        bytes: others * n.bytes,
        reduced: n.ranks * n.bytes,
        all_messages: others,
        all_bytes: others * n.bytes,
        all_reduced: n.ranks * n.bytes,
        waits: 1.0,
        ..Work::default()
    }
}

/// Returns the work of an exchange of slices, which each rank combines, and of their collection.
pub(crate) fn together_slices(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let others = n.ranks - 1.0;
    let part = n.bytes / n.ranks;
    let exchange = Work::even(n.ranks, 1.0, 2.0 * others, others * part, n.bytes);
    exchange.then(Work::even(n.ranks, others, 2.0 * others, others * part, 0.0))
}

/// Returns the work if every rank sends its operand to all later ones.
pub(crate) fn together_scan(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let others = n.ranks - 1.0;
    let work = Work::even(n.ranks, 1.0, others, others * n.bytes, n.ranks * n.bytes);
    Work { all_bytes: work.all_bytes / 2.0, all_reduced: work.all_reduced / 2.0, ..work }
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

/// Returns the work of segments that all other ranks get at once.
pub(crate) fn bcast_multicast(shape: &Shape, params: &Params) -> Work {
    let n = numbers(shape);
    let segment = (params.segment * shape.unit_bytes) as f64;
    let segments = if params.segment > 0 { (n.bytes / segment).ceil().max(1.0) } else { 1.0 };
    let others = n.ranks - 1.0;
    Work {
        hops: 1.0,
        messages: 2.0 * segments,
        bytes: n.bytes,
        all_messages: others * segments,
        all_bytes: others * n.bytes,
        waits: others,
        busiest: Some((segments, n.bytes)),
        ..Work::default()
    }
}

/// Returns the work if every rank sends to all others at once, and receives from each of them.
pub(crate) fn hear_all(shape: &Shape, _: &Params) -> Work {
    let n = numbers(shape);
    let others = n.ranks - 1.0;
    Work::even(n.ranks, 1.0, n.ranks, others * n.bytes, others * n.bytes)
}

/// Returns the work of [`hear_all`] with one rank after the other.
pub(crate) fn hear_in_turn(shape: &Shape, params: &Params) -> Work {
    Work { hops: f64::from(shape.ranks - 1), ..hear_all(shape, params) }
}

/// Returns the work of n segments in n - 1 + log2 P rounds.
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

/// Returns the work of blocks of `part` bytes that travel once around the ring.
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

/// Returns the bytes of one block, which is `count` unless that is the sum of all blocks.
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

/// Returns the work for one neighbour: the degree is not known here.
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

/// Returns the work of the exchange in pairs before and after, if the number of ranks is no power of two.
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

/// Returns the work of a ring in blocks of about a segment, several of them for each of some leaders.
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

/// Returns the work if the blocks of all ranks go to every rank.
pub(crate) fn reduce_scatter_whole(shape: &Shape, params: &Params) -> Work {
    use crate::shape::Collective as C;
    let blocks = if shape.collective == C::ReduceScatter { 1 } else { u64::from(shape.ranks) };
    allreduce_tree(&Shape { count: shape.count * blocks, ..*shape }, params)
}

/// Returns the work of a broadcast down a tree of the leaders of hosts, each with its part: together they
/// send as much as one leader would.
pub(crate) fn bcast_leaders(shape: &Shape, params: &Params) -> Work {
    bcast_kary(shape, &params.downwards())
}

/// Returns the work of a reduction up the tree of [`bcast_leaders`].
pub(crate) fn reduce_leaders(shape: &Shape, params: &Params) -> Work {
    reduce_kary(shape, &params.downwards())
}

/// Returns the work of an allreduce, equal to halving and doubling but for any number of ranks.
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
