//! Gather and scatter, with blocks of one size or of sizes given by a table.

use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::ANY;
use crate::generator::parameters::{KNOMIAL, WINDOW};
use crate::generator::{Generator, entry};
use crate::ir::{BufferId, Division, Index, Loop, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Gather, "linear", ANY, WINDOW, gather_linear, work::messages::rooted_linear),
    entry(C::Gather, "knomial", ANY, KNOMIAL, gather_tree, work::messages::rooted_tree),
    entry(C::Gatherv, "linear", ANY, WINDOW, gather_linear, work::messages::rooted_linear),
    entry(C::Scatter, "linear", ANY, WINDOW, scatter_linear, work::messages::rooted_linear),
    entry(C::Scatter, "knomial", ANY, KNOMIAL, scatter_tree, work::messages::rooted_tree),
    entry(C::Scatterv, "linear", ANY, WINDOW, scatter_linear, work::messages::rooted_linear),
];

/// Returns the division of the root's buffer.
pub(crate) fn division(shape: &Shape) -> Division {
    match shape.collective {
        Collective::Gatherv => Division::Table(Table::Recv),
        Collective::Scatterv => Division::Table(Table::Send),
        _ => Division::Regular { size: shape.count, total: shape.count * u64::from(shape.ranks) },
    }
}

/// Gathers directly: all ranks send to the root.
pub fn gather_linear(shape: &Shape, params: &Params, b: &mut Builder) {
    let mine = build::range(BufferId::SEND, 0, shape.count);
    if !shape.is_root() {
        b.send(shape.root, 0, mine, &[]);
        b.join();
        return;
    }
    let division = division(shape);
    if !shape.in_place {
        b.copy(mine, build::block(BufferId::RECV, division, shape.root), &[]);
    }
    let peer = Index::cyclic(i64::from(shape.root) + 1, 1, shape.ranks);
    b.repeat(shape.ranks - 1, params.window, |b| {
        b.recv(peer, 0, build::block(BufferId::RECV, division, peer), &[]);
    });
    b.join();
}

/// Scatters directly: the root sends to every rank.
pub fn scatter_linear(shape: &Shape, params: &Params, b: &mut Builder) {
    let mine = build::range(BufferId::RECV, 0, shape.count);
    if !shape.is_root() {
        b.recv(shape.root, 0, mine, &[]);
        b.join();
        return;
    }
    let division = division(shape);
    let peer = Index::cyclic(i64::from(shape.root) + 1, 1, shape.ranks);
    b.repeat(shape.ranks - 1, params.window, |b| {
        b.send(peer, 0, build::block(BufferId::SEND, division, peer), &[]);
    });
    if !shape.in_place {
        b.copy(build::block(BufferId::SEND, division, shape.root), mine, &[]);
    }
    b.join();
}

/// Gathers up a k-nomial tree: an inner node collects the blocks of its subtree.
pub fn gather_tree(shape: &Shape, params: &Params, b: &mut Builder) {
    let node = TreeNode::new(Form::Knomial(params.radix), shape.ranks, shape.root, false, shape.rank);
    let mine = build::range(BufferId::SEND, 0, shape.count);
    let size = node.high - node.low;
    let Some(parent) = node.parent else {
        let blocks = division(shape);
        if !shape.in_place {
            b.copy(mine, build::block(BufferId::RECV, blocks, shape.root), &[]);
        }
        gather_up(&node, blocks, BufferId::RECV, 0, b);
        return;
    };
    let total = shape.count * u64::from(size);
    let (buffer, blocks) = if size == 1 {
        (BufferId::SEND, Division::Regular { size: shape.count, total })
    } else {
        let buffer = b.temporary(total);
        let blocks = Division::Regular { size: shape.count, total };
        b.copy(mine, build::block(buffer, blocks, 0), &[]);
        gather_up(&node, blocks, buffer, node.low, b);
        (buffer, blocks)
    };
    b.send(parent, 0, build::blocks(buffer, blocks, 0, size), &[]);
    b.join();
}

/// Receives the blocks of all subtrees into `buffer`, which begins with that of rank `origin`.
pub(crate) fn gather_up(node: &TreeNode, blocks: Division, buffer: BufferId, origin: u32, b: &mut Builder) {
    for group in node.by_size().iter().rev() {
        let first = Index::linear(i64::from(group.first - origin), i64::from(group.size));
        b.repeat(group.count, Loop::MAX_WINDOW, |b| {
            b.recv(node.heads(*group), 0, build::blocks(buffer, blocks, first, group.size), &[]);
        });
    }
    b.join();
}

/// Scatters down a k-nomial tree: an inner node receives the blocks of its subtree and forwards them.
pub fn scatter_tree(shape: &Shape, params: &Params, b: &mut Builder) {
    let node = TreeNode::new(Form::Knomial(params.radix), shape.ranks, shape.root, false, shape.rank);
    let mine = build::range(BufferId::RECV, 0, shape.count);
    let size = node.high - node.low;
    let Some(parent) = node.parent else {
        let blocks = division(shape);
        scatter_down(&node, blocks, BufferId::SEND, b);
        if !shape.in_place {
            b.copy(build::block(BufferId::SEND, blocks, shape.root), mine, &[]);
            b.join();
        }
        return;
    };
    if size == 1 {
        b.recv(parent, 0, mine, &[]);
        b.join();
        return;
    }
    let total = shape.count * u64::from(size);
    let buffer = b.temporary(total);
    b.recv(parent, 0, build::range(buffer, 0, total), &[]);
    b.join();
    for group in node.by_size() {
        let index = Index::linear(i64::from(group.first - node.low), i64::from(group.size));
        let blocks = Division::Regular { size: shape.count, total };
        b.repeat(group.count, Loop::MAX_WINDOW, |b| {
            b.send(node.heads(group), 0, build::blocks(buffer, blocks, index, group.size), &[]);
        });
    }
    b.copy(build::range(buffer, 0, shape.count), mine, &[]);
    b.join();
}

/// Sends the blocks of all subtrees from `buffer`, which begins with that of rank 0.
pub(crate) fn scatter_down(node: &TreeNode, blocks: Division, buffer: BufferId, b: &mut Builder) {
    for group in node.by_size() {
        let first = Index::linear(i64::from(group.first), i64::from(group.size));
        b.repeat(group.count, Loop::MAX_WINDOW, |b| {
            b.send(node.heads(group), 0, build::blocks(buffer, blocks, first, group.size), &[]);
        });
    }
    b.join();
}

/// Copies this rank's contribution to its block of the receive buffer, unless it is there.
pub(crate) fn place_own(shape: &Shape, blocks: Division, b: &mut Builder) {
    if own(shape) == BufferId::SEND {
        let target = build::block(BufferId::RECV, blocks, shape.rank);
        b.copy(build::slot(BufferId::SEND, 0, 0, 0, target), target, &[]);
        b.join();
    }
}
