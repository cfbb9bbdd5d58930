//! Work of the algorithms within a node, in closed form: as in [`super::messages`], with posts and waits in
//! place of messages.

use super::Work;
use crate::shape::{Collective, Params, Shape};
use crate::tree::{Form, dimensions};

/// A flag costs so much of a message.
const FLAG: f64 = 0.25;

fn ranks(shape: &Shape) -> f64 {
    f64::from(shape.ranks)
}

fn log(shape: &Shape) -> f64 {
    f64::from(shape.ranks.next_power_of_two().ilog2())
}

/// Returns the bytes of one block, or of all data if there are no blocks.
fn block(shape: &Shape) -> f64 {
    use Collective as C;
    let bytes = shape.bytes() as f64;
    if matches!(shape.collective, C::Allgatherv | C::ReduceScatter) { bytes / ranks(shape) } else { bytes }
}

/// Returns the work if every rank reads `bytes` from each of `peers` others, and combines or copies `reduced`
/// of it. It waits for `hops` others one after the other.
fn each(shape: &Shape, hops: f64, peers: f64, bytes: f64, reduced: f64) -> Work {
    let ranks = ranks(shape);
    Work {
        hops,
        messages: peers * FLAG,
        bytes: peers * bytes,
        reduced,
        all_messages: ranks * peers * FLAG / 2.0,
        all_bytes: ranks * peers * bytes,
        all_reduced: ranks * reduced,
        waits: ranks * hops,
        ..Work::default()
    }
}

/// Returns the work if one rank reads from all others.
fn one(shape: &Shape, bytes: f64, reduced: f64) -> Work {
    let others = ranks(shape) - 1.0;
    Work {
        hops: 1.0,
        messages: others * FLAG,
        bytes: others * bytes,
        reduced: reduced + bytes,
        all_messages: others * FLAG,
        all_bytes: others * bytes,
        all_reduced: reduced + others * bytes,
        waits: 1.0,
        ..Work::default()
    }
}

pub(crate) fn flat(shape: &Shape, _: &Params) -> Work {
    each(shape, 1.0, ranks(shape) - 1.0, block(shape), block(shape))
}

/// Returns the work of [`flat`] if each rank has put the blocks of all ranks into its bank.
pub(crate) fn alltoall(shape: &Shape, _: &Params) -> Work {
    each(shape, 1.0, ranks(shape) - 1.0, block(shape), ranks(shape) * block(shape))
}

pub(crate) fn reduce_scatter(shape: &Shape, _: &Params) -> Work {
    each(shape, 1.0, ranks(shape) - 1.0, block(shape), 2.0 * ranks(shape) * block(shape))
}

pub(crate) fn allreduce(shape: &Shape, _: &Params) -> Work {
    each(shape, 1.0, ranks(shape) - 1.0, block(shape), ranks(shape) * block(shape))
}

pub(crate) fn scan(shape: &Shape, _: &Params) -> Work {
    let work = each(shape, 1.0, ranks(shape) - 1.0, block(shape), ranks(shape) * block(shape));
    Work { all_bytes: work.all_bytes / 2.0, all_reduced: work.all_reduced / 2.0, ..work }
}

pub(crate) fn doubling(shape: &Shape, _: &Params) -> Work {
    let fold = if shape.ranks.is_power_of_two() { 0.0 } else { 2.0 };
    let rounds = log(shape) + fold;
    each(shape, rounds, rounds, block(shape), (rounds + 1.0) * block(shape))
}

pub(crate) fn bcast(shape: &Shape, _: &Params) -> Work {
    let work = one(shape, block(shape), 0.0);
    Work { messages: FLAG, bytes: block(shape), waits: ranks(shape) - 1.0, ..work }
}

pub(crate) fn scatter(shape: &Shape, _: &Params) -> Work {
    let all = (ranks(shape) - 1.0) * block(shape);
    Work {
        messages: FLAG,
        bytes: block(shape),
        reduced: all,
        waits: ranks(shape) - 1.0,
        ..one(shape, block(shape), 0.0)
    }
}

pub(crate) fn gather(shape: &Shape, _: &Params) -> Work {
    one(shape, block(shape), 0.0)
}

pub(crate) fn reduce(shape: &Shape, _: &Params) -> Work {
    one(shape, block(shape), (ranks(shape) - 1.0) * block(shape))
}

pub(crate) fn slices(shape: &Shape, _: &Params) -> Work {
    let part = block(shape) / ranks(shape);
    each(shape, 2.0, 2.0 * (ranks(shape) - 1.0), part, 2.0 * block(shape))
}

pub(crate) fn slices_gather(shape: &Shape, params: &Params) -> Work {
    let work = slices(shape, params);
    Work { all_bytes: work.all_bytes / 2.0, waits: ranks(shape) + 1.0, ..work }
}

/// Returns the work of one pass down or up a tree.
fn tree(shape: &Shape, params: &Params, reduced: f64, waits: f64) -> Work {
    let (depth, degree) = dimensions(Form::Kary(params.radix), shape.ranks.max(2));
    let (depth, degree) = (f64::from(depth), f64::from(degree));
    let others = ranks(shape) - 1.0;
    Work {
        hops: depth,
        messages: depth * FLAG,
        bytes: depth * block(shape),
        reduced: depth * (block(shape) + degree * reduced),
        all_messages: others * FLAG,
        all_bytes: others * block(shape),
        all_reduced: others * (block(shape) + reduced),
        waits,
        ..Work::default()
    }
}

/// Returns the number of ranks that have children in a tree.
fn inner(shape: &Shape, params: &Params) -> f64 {
    let (_, degree) = dimensions(Form::Kary(params.radix), shape.ranks.max(2));
    1.0 + ((ranks(shape) - 1.0) / f64::from(degree.max(1)) - 1.0).max(0.0)
}

pub(crate) fn fan_out(shape: &Shape, params: &Params) -> Work {
    tree(shape, params, 0.0, ranks(shape) - 1.0)
}

pub(crate) fn fan_in(shape: &Shape, params: &Params) -> Work {
    tree(shape, params, block(shape), inner(shape, params))
}

pub(crate) fn fan_in_out(shape: &Shape, params: &Params) -> Work {
    fan_in(shape, params).then(fan_out(shape, &params.downwards()))
}

/// Cost of exposed memory beyond a bank, in messages: publishing it and opening that of another rank.
const OPEN: f64 = 4.0;

/// Returns the work on exposed memory with a synchronisation of all ranks before and one after.
fn exposed(shape: &Shape, peers: f64, bytes: f64, reduced: f64) -> Work {
    let work = each(shape, 2.0, peers, bytes, reduced);
    Work {
        messages: work.messages + OPEN * peers,
        all_messages: work.all_messages + OPEN * peers * ranks(shape),
        ..work
    }
}

pub(crate) fn exposed_from_root(shape: &Shape, _: &Params) -> Work {
    let others = ranks(shape) - 1.0;
    Work {
        hops: 2.0,
        messages: OPEN + others * FLAG,
        bytes: block(shape),
        reduced: 0.0,
        all_messages: others * (OPEN + FLAG),
        all_bytes: others * block(shape),
        all_reduced: 0.0,
        waits: others + 1.0,
        ..Work::default()
    }
}

/// Returns the work if one rank reads from all others, which do not wait if their data are short.
pub(crate) fn exposed_to_root(shape: &Shape, _: &Params) -> Work {
    let others = ranks(shape) - 1.0;
    Work {
        hops: 2.0,
        messages: others * (OPEN + FLAG),
        bytes: others * block(shape),
        reduced: 0.0,
        all_messages: others * (OPEN + FLAG),
        all_bytes: others * block(shape),
        all_reduced: 0.0,
        waits: 1.0,
        ..Work::default()
    }
}

pub(crate) fn exposed_bcast_both(shape: &Shape, params: &Params) -> Work {
    let work = exposed_from_root(shape, params);
    let share = (ranks(shape) - 1.0) / ranks(shape);
    let others = ranks(shape) - 1.0;
    Work {
        hops: 3.0,
        messages: others * (OPEN + FLAG),
        bytes: work.bytes * share,
        all_messages: 2.0 * work.all_messages,
        waits: 2.0 * others + 1.0,
        ..work
    }
}

pub(crate) fn exposed_all(shape: &Shape, _: &Params) -> Work {
    exposed(shape, ranks(shape) - 1.0, block(shape), block(shape))
}

pub(crate) fn exposed_reduce(shape: &Shape, _: &Params) -> Work {
    exposed(shape, ranks(shape) - 1.0, block(shape) / ranks(shape), block(shape))
}

pub(crate) fn exposed_allreduce(shape: &Shape, _: &Params) -> Work {
    exposed(shape, 2.0 * (ranks(shape) - 1.0), block(shape) / ranks(shape), block(shape))
}

pub(crate) fn exposed_reduce_scatter(shape: &Shape, _: &Params) -> Work {
    exposed(shape, ranks(shape) - 1.0, block(shape), ranks(shape) * block(shape))
}

/// Returns the number of segments.
fn segments(shape: &Shape, params: &Params) -> f64 {
    let segment = (params.segment * shape.unit_bytes) as f64;
    if segment > 0.0 { (block(shape) / segment).ceil().max(1.0) } else { 1.0 }
}

/// Returns the work of one pass down or up a tree in segments: the first segment takes the depth of the tree,
/// the others follow.
fn stream(shape: &Shape, params: &Params, reduced: f64, waits: f64) -> Work {
    let (depth, degree) = dimensions(Form::Kary(params.radix), shape.ranks.max(2));
    let (depth, degree) = (f64::from(depth), f64::from(degree));
    let segments = segments(shape, params);
    let stages = (depth + segments - 1.0) / segments;
    let others = ranks(shape) - 1.0;
    Work {
        hops: depth + 1.0,
        messages: (depth + segments - 1.0) * (1.0 + degree) * FLAG,
        bytes: stages * block(shape),
        reduced: stages * (block(shape) + degree * reduced),
        all_messages: others * segments * 2.0 * FLAG,
        all_bytes: others * block(shape),
        all_reduced: others * (block(shape) + reduced),
        waits: waits * (segments / f64::from(params.window.max(1))).ceil(),
        ..Work::default()
    }
}

pub(crate) fn stream_down(shape: &Shape, params: &Params) -> Work {
    stream(shape, params, 0.0, ranks(shape) - 1.0)
}

pub(crate) fn stream_up(shape: &Shape, params: &Params) -> Work {
    stream(shape, params, block(shape), inner(shape, params))
}

pub(crate) fn stream_slices(shape: &Shape, params: &Params) -> Work {
    let work = slices(shape, params);
    let segments = segments(shape, params);
    Work {
        hops: 2.0 * segments,
        messages: work.messages * segments,
        all_messages: work.all_messages * segments,
        waits: work.waits * segments,
        ..work
    }
}

/// Returns `work` done in segments, with `hops` waits for each.
fn in_segments(shape: &Shape, params: &Params, work: Work, hops: f64) -> Work {
    let segments = segments(shape, params);
    Work {
        hops: hops * segments,
        messages: 2.0 * work.messages * segments,
        all_messages: 2.0 * work.all_messages * segments,
        waits: work.waits * segments,
        ..work
    }
}

pub(crate) fn stream_gather(shape: &Shape, params: &Params) -> Work {
    in_segments(shape, params, gather(shape, params), 1.0)
}

pub(crate) fn stream_all(shape: &Shape, params: &Params) -> Work {
    let work = each(shape, 1.0, ranks(shape) - 1.0, block(shape), ranks(shape) * block(shape));
    in_segments(shape, params, work, 1.0)
}

pub(crate) fn stream_chain(shape: &Shape, params: &Params) -> Work {
    stream(shape, &Params { radix: 1, ..*params }, block(shape), ranks(shape) - 1.0)
}
