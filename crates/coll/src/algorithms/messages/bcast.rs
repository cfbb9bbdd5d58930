//! Broadcasts. The data are in the receive buffer, of the root too.

use crate::algorithms::messages::gather::scatter_down;
use crate::algorithms::{ring, segments};
use crate::build::{self, Builder};
use crate::generator::need::ANY;
use crate::generator::parameters::{FIXED, KNOMIAL_TREE, TREE};
use crate::generator::{Generator, entry};
use crate::ir::{BufferId, Division, Index, Loop, StepId};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Bcast, "knomial", ANY, KNOMIAL_TREE, knomial, work::messages::bcast_knomial),
    entry(C::Bcast, "kary", ANY, TREE, kary, work::messages::bcast_kary),
    entry(C::Bcast, "scatter_ring", ANY, FIXED, scatter_ring, work::messages::bcast_scatter_ring),
];

/// Broadcasts down a k-nomial tree, all data at once or in segments; radix 2 is the binomial tree.
pub fn knomial(shape: &Shape, params: &Params, b: &mut Builder) {
    down(shape, Form::Knomial(params.radix), params, b);
}

/// Broadcasts down a tree of at most `radix` children for each node, in segments. Radix 1 is a pipelined
/// chain; in a flat tree the root sends to all ranks.
pub fn kary(shape: &Shape, params: &Params, b: &mut Builder) {
    down(shape, Form::Kary(params.radix), params, b);
}

/// Sends the receive buffer down a tree.
pub(crate) fn down(shape: &Shape, form: Form, params: &Params, b: &mut Builder) {
    down_from(shape, &TreeNode::new(form, shape.ranks, shape.root, true, shape.rank), params, None, b);
}

/// Sends the receive buffer down a tree; a segment not before `ready`, a step in a loop over segments.
pub(crate) fn down_from(
    shape: &Shape,
    node: &TreeNode,
    params: &Params,
    ready: Option<StepId>,
    b: &mut Builder,
) {
    if shape.count == 0 {
        return;
    }
    let (division, count) = segments(shape.count, params);
    if count > 1 {
        pipeline(node, division, count, params.window, ready, b);
        return;
    }
    b.join();
    let whole = build::range(BufferId::RECV, 0, shape.count);
    if let Some(parent) = node.parent {
        b.recv(parent, 0, whole, &[]);
        b.join();
    }
    for group in node.by_size() {
        b.repeat(group.count, Loop::MAX_WINDOW, |b| {
            b.send(node.heads(group), 0, whole, &[]);
        });
    }
    b.join();
}

fn pipeline(
    node: &TreeNode,
    division: Division,
    count: u32,
    window: u32,
    ready: Option<StepId>,
    b: &mut Builder,
) {
    let ready = ready.map(StepId::done);
    let segment = build::block(BufferId::RECV, division, Index::linear(0, 1));
    if node.parent.is_none() && node.degree() == 0 {
        return;
    }
    b.repeat(count, window, |b| {
        let arrived = node.parent.map(|parent| b.recv(parent, 0, segment, ready.as_slice()).done());
        let arrived = arrived.or(ready);
        for group in node.by_size() {
            for child in 0..group.count {
                let child = node.heads(group).in_iteration(child) as u32;
                b.send(child, 0, segment, arrived.as_slice());
            }
        }
    });
    b.join();
}

/// Scatters P blocks down a binomial tree, then passes them around the ring: every rank sends and
/// receives the data about once (van de Geijn). The root receives nothing.
pub fn scatter_ring(shape: &Shape, _: &Params, b: &mut Builder) {
    let blocks = Division::Even { parts: shape.ranks, total: shape.count };
    let node = TreeNode::new(Form::Knomial(2), shape.ranks, shape.root, false, shape.rank);
    if let Some(parent) = node.parent {
        let mine = build::blocks(BufferId::RECV, blocks, node.low, node.high - node.low);
        b.recv(parent, 0, mine, &[]);
        b.join();
    }
    scatter_down(&node, blocks, BufferId::RECV, b);
    ring(shape, BufferId::RECV, blocks, Some(shape.root), b);
}
