//! Algorithms by messages that follow the machine instead of the order of ranks (S3), on the trees and the
//! ring of [`crate::hierarchy`]. A node of a tree does the same as in any other tree; only the trees differ.
//!
//! [`Params::ignored`] lists the distances that make no difference. [`Params::radix`] is the form of the tree
//! of a group's leaders.

use std::sync::Arc;

use crate::algorithms::messages::{allgather, allreduce, barrier, bcast, gather, reduce};
use crate::algorithms::ring_through;
use crate::build::{self, Builder};
use crate::generator::need::ANY;
use crate::generator::parameters::{FIXED_NEAR, RADIX_NEAR, TREE_NEAR};
use crate::generator::{Generator, entry};
use crate::hierarchy::{Child, Hierarchy, Tree};
use crate::ir::{BufferId, Division, Index, Loop, Span, StepId};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Barrier, "hierarchical", ANY, RADIX_NEAR, barrier, work::messages::barrier_tree),
    entry(C::Bcast, "hierarchical", ANY, TREE_NEAR, bcast, work::messages::bcast_kary),
    entry(C::Gather, "hierarchical", ANY, RADIX_NEAR, gather, work::messages::rooted_tree),
    entry(C::Scatter, "hierarchical", ANY, RADIX_NEAR, scatter, work::messages::rooted_tree),
    entry(C::Allgather, "hierarchical_ring", ANY, FIXED_NEAR, allgather_ring, work::messages::allgather_ring),
    entry(C::Allgatherv, "hierarchical_ring", ANY, FIXED_NEAR, allgather_ring, work::messages::allgather_ring),
    entry(C::Reduce, "hierarchical", ANY, TREE_NEAR, reduce, work::messages::reduce_kary),
    entry(C::Allreduce, "hierarchical", ANY, TREE_NEAR, allreduce, work::messages::allreduce_tree),
];

/// Broadcasts down the tree, in segments.
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    let node = node(&b.hierarchy(shape.ranks, params.ignored), shape, params);
    bcast::down_from(shape, &node, params, None, b);
}

/// Reduces up the tree, in segments.
pub fn reduce(shape: &Shape, params: &Params, b: &mut Builder) {
    let node = node(&ordered(shape, params, b), shape, params);
    reduce::up_to(shape, &node, params, BufferId::RECV, b);
    b.join();
}

/// Reduces up the tree and broadcasts down again, each segment as soon as it is complete.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    let node = node(&ordered(shape, params, b), shape, params);
    allreduce::up_and_down(shape, &node, params, b);
}

/// Signals up the tree and down again.
pub fn barrier(shape: &Shape, params: &Params, b: &mut Builder) {
    barrier::up_and_down(&node(&b.hierarchy(shape.ranks, params.ignored), shape, params), b);
}

/// Gathers all blocks around the ring in which neighbours are near one another (section 4.4.3).
pub fn allgather_ring(shape: &Shape, params: &Params, b: &mut Builder) {
    let ring = b.hierarchy(shape.ranks, params.ignored).ring();
    let blocks = allgather::division(shape);
    b.permute(Arc::clone(&ring.order));
    gather::place_own(shape, blocks, b);
    let (rank, ranks) = (shape.rank, shape.ranks);
    let at = i64::from(ring.position(rank));
    let block = |back| build::permuted(BufferId::RECV, blocks, Index::cyclic(at - back, -1, ranks));
    ring_through(ranks, Some(ring.left(rank)), Some(ring.right(rank)), block, b);
}

/// Gathers up the tree: an inner node collects the blocks of its subtree in the order of the hierarchy, and
/// the root reorders them by rank. Subtrees of consecutive ranks are received at their final position.
pub fn gather(shape: &Shape, params: &Params, b: &mut Builder) {
    let hierarchy = b.hierarchy(shape.ranks, params.ignored);
    let tree = Tree::new(&hierarchy, Form::Kary(params.radix), shape.root, shape.rank);
    let mine = build::range(BufferId::SEND, 0, shape.count);
    let Some(parent) = tree.parent else {
        return gather_at_root(shape, &hierarchy, &tree, b);
    };
    let size = u64::from(tree.high - tree.low);
    let mut buffer = BufferId::SEND;
    if size > 1 {
        buffer = b.temporary(shape.count * size);
        b.copy(mine, build::range(buffer, 0, shape.count), &[]);
        for child in &tree.children {
            let (low, size) = (u64::from(child.low - tree.low), u64::from(child.high - child.low));
            b.recv(child.rank, 0, build::range(buffer, low * shape.count, size * shape.count), &[]);
        }
        b.join();
    }
    b.send(parent, 0, build::range(buffer, 0, shape.count * size), &[]);
    b.join();
}

fn gather_at_root(shape: &Shape, hierarchy: &Hierarchy, tree: &Tree, b: &mut Builder) {
    let blocks = gather::division(shape);
    let plan = Rootside::new(shape, hierarchy, &tree.far_first(), b);
    if !shape.in_place {
        b.copy(
            build::range(BufferId::SEND, 0, shape.count),
            build::block(BufferId::RECV, blocks, shape.root),
            &[],
        );
    }
    for part in &plan.parts {
        if part.in_place {
            b.recv(part.peer, 0, build::blocks(BufferId::RECV, blocks, part.peer, part.size), &[]);
            continue;
        }
        let arrived = b.recv(part.peer, 0, plan.whole(part), &[]);
        plan.each(part, BufferId::RECV, b, |block, slot, b| b.copy(slot, block, &[arrived.done()]));
    }
    b.join();
}

/// Scatters down the tree: the root makes the blocks of each subtree contiguous, and inner nodes forward
/// parts of them.
pub fn scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    let hierarchy = b.hierarchy(shape.ranks, params.ignored);
    let tree = Tree::new(&hierarchy, Form::Kary(params.radix), shape.root, shape.rank);
    let mine = build::range(BufferId::RECV, 0, shape.count);
    let Some(parent) = tree.parent else {
        return scatter_at_root(shape, &hierarchy, &tree, b);
    };
    let size = u64::from(tree.high - tree.low);
    let buffer = if size > 1 { b.temporary(shape.count * size) } else { BufferId::RECV };
    b.recv(parent, 0, build::range(buffer, 0, shape.count * size), &[]);
    b.join();
    if size > 1 {
        for child in tree.far_first() {
            let (low, size) = (u64::from(child.low - tree.low), u64::from(child.high - child.low));
            b.send(child.rank, 0, build::range(buffer, low * shape.count, size * shape.count), &[]);
        }
        b.copy(build::range(buffer, 0, shape.count), mine, &[]);
        b.join();
    }
}

fn scatter_at_root(shape: &Shape, hierarchy: &Hierarchy, tree: &Tree, b: &mut Builder) {
    let blocks = gather::division(shape);
    let plan = Rootside::new(shape, hierarchy, &tree.far_first(), b);
    for part in &plan.parts {
        if part.in_place {
            b.send(part.peer, 0, build::blocks(BufferId::SEND, blocks, part.peer, part.size), &[]);
            continue;
        }
        let placed = b.upcoming();
        plan.each(part, BufferId::SEND, b, |block, slot, b| b.copy(block, slot, &[]));
        b.send(part.peer, 0, plan.whole(part), &[placed.whole()]);
    }
    if !shape.in_place {
        let own = build::block(BufferId::SEND, blocks, shape.root);
        b.copy(own, build::range(BufferId::RECV, 0, shape.count), &[]);
    }
    b.join();
}

/// Subtrees of the root of a gather or scatter.
pub(crate) struct Rootside {
    pub parts: Vec<Part>,
    /// Temporary for the blocks of subtrees that are not consecutive ranks.
    room: BufferId,
    /// Division of the root's buffer, and units of a block.
    blocks: Division,
    count: u64,
}

/// Subtree of a child of the root.
pub(crate) struct Part {
    pub peer: u32,
    /// First position of its ranks in the order of the hierarchy.
    low: u32,
    /// Number of ranks of the subtree.
    pub size: u32,
    /// True if its ranks are consecutive and in their own order.
    pub in_place: bool,
    /// Number of blocks before it in the temporary.
    offset: u64,
}

impl Part {
    /// Returns the subtree of ranks `order[low..high]`, headed by `peer`.
    pub fn new(hierarchy: &Hierarchy, peer: u32, (low, high): (u32, u32)) -> Part {
        let ranks = &hierarchy.order()[low as usize..high as usize];
        let in_place = ranks.iter().zip(peer..).all(|(&rank, expected)| rank == expected);
        Part { peer, low, size: high - low, in_place, offset: 0 }
    }

    /// Returns the positions of its ranks in the order of the hierarchy, one after the other.
    pub fn places(&self) -> Index {
        Index::linear(i64::from(self.low), 1)
    }
}

impl Rootside {
    /// Returns the subtrees under `children`.
    pub fn new(shape: &Shape, hierarchy: &Hierarchy, children: &[Child], b: &mut Builder) -> Rootside {
        let mut offset = 0;
        let parts: Vec<Part> = children
            .iter()
            .map(|child| {
                let part = Part { offset, ..Part::new(hierarchy, child.rank, (child.low, child.high)) };
                offset += if part.in_place { 0 } else { u64::from(part.size) };
                part
            })
            .collect();
        let mut room = BufferId::RECV;
        if offset > 0 {
            b.permute(hierarchy.order().into());
            room = b.temporary(offset * shape.count);
        }
        Rootside { parts, room, blocks: gather::division(shape), count: shape.count }
    }

    /// Returns all blocks of a part in the temporary.
    pub fn whole(&self, part: &Part) -> Span {
        build::range(self.room, part.offset * self.count, u64::from(part.size) * self.count)
    }

    /// Writes `body` for each block of a part that passes through the temporary, with its span in `buffer`
    /// and its slot in the temporary.
    pub fn each(
        &self,
        part: &Part,
        buffer: BufferId,
        b: &mut Builder,
        body: impl Fn(Span, Span, &mut Builder) -> StepId,
    ) {
        b.repeat(part.size, Loop::MAX_WINDOW, |b| {
            let block = build::permuted(buffer, self.blocks, part.places());
            let slot =
                build::slot(self.room, part.offset * self.count, self.count, Index::linear(0, 1), block);
            body(block, slot, b);
        });
    }
}

/// Returns this rank's place in the tree under the root.
pub(crate) fn node(hierarchy: &Hierarchy, shape: &Shape, params: &Params) -> TreeNode {
    let tree = Tree::new(hierarchy, Form::Kary(params.radix), shape.root, shape.rank);
    let own = hierarchy.position(shape.rank);
    let (left, right) = tree.children.split_at(tree.children.partition_point(|child| child.low < own));
    let heads = |children: &[Child]| -> Vec<(u32, u32)> {
        children.iter().map(|child| (child.rank, child.high - child.low)).collect()
    };
    TreeNode::from_children(tree.parent, shape.ranks, &heads(left), &heads(right))
}

/// Returns the hierarchy, or a flat one if an operator that does not commute would get its operands out of
/// order.
pub(crate) fn ordered(shape: &Shape, params: &Params, b: &Builder) -> Arc<Hierarchy> {
    let hierarchy = b.hierarchy(shape.ranks, params.ignored);
    if shape.commutative || hierarchy.order().is_sorted() {
        return hierarchy;
    }
    Arc::new(Hierarchy::flat(shape.ranks))
}
