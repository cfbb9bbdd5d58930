//! Algorithms that follow the machine and access each other's memory (S2 on the trees and the ring of S3).
//!
//! The ranks that have nothing else to do make the copies: data are pulled, never sent. One flag for each
//! rank counts the segments that it has. The flag shows ranks that pull from it which segments are there, and
//! shows the rank that it pulls from when it has finished.

use std::sync::Arc;

use crate::algorithms::distance::messages::{Part, node};
use crate::algorithms::exposed::{DONE, SOURCE};
use crate::algorithms::messages::{allgather, gather};
use crate::build::{self, Builder};
use crate::generator::need::EXPOSED;
use crate::generator::parameters::{FIXED_NEAR, RADIX_NEAR, TREE_NEAR};
use crate::generator::{Generator, entry};
use crate::hierarchy::{Hierarchy, Tree};
use crate::ir::{Access, BufferId, Division, Index, Kind};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::tree::Form;
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Bcast, "hierarchical_pull", EXPOSED, TREE_NEAR, bcast, work::messages::bcast_kary),
    entry(C::Gather, "hierarchical_pull", EXPOSED, RADIX_NEAR, gather, work::messages::rooted_tree),
    entry(C::Scatter, "hierarchical_pull", EXPOSED, RADIX_NEAR, scatter, work::messages::rooted_tree),
    entry(C::Allgather, "hierarchical_ring_pull", EXPOSED, FIXED_NEAR, allgather_ring, work::messages::allgather_ring),
];

/// Flag that counts the segments of a rank.
pub(crate) const HERE: u16 = 0;

/// Broadcasts down the tree: every rank pulls a segment from its parent as soon as the parent has it (section
/// 4.4.2).
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 {
        return;
    }
    let node = node(&b.hierarchy(shape.ranks, params.ignored), shape, params);
    let (division, count) = segments(shape.count, params);
    let last = u64::from(count);
    if node.degree() > 0 {
        let access = if node.parent.is_none() { Access::Read } else { Access::ReadWrite };
        b.expose(0, build::range(BufferId::RECV, 0, shape.count), access);
    }
    match node.parent {
        None if node.degree() > 0 => drop(b.post(HERE, Index::fixed(last))),
        None => {}
        Some(parent) => {
            b.repeat(count, 1, |b| {
                let (segment, number) = (Index::linear(0, 1), Index::linear(1, 1));
                b.wait(parent, HERE, number);
                let from = build::block(SOURCE, division, segment);
                b.pull(parent, from, build::block(BufferId::RECV, division, segment));
                if node.degree() > 0 {
                    b.post(HERE, number);
                }
            });
            if node.degree() == 0 {
                b.post(HERE, Index::fixed(last));
            }
        }
    }
    for group in node.by_size() {
        if group.count == 1 {
            b.wait(node.heads(group).in_iteration(0) as u32, HERE, Index::fixed(last));
            continue;
        }
        b.repeat(group.count, 1, |b| {
            b.wait(node.heads(group), HERE, Index::fixed(last));
        });
    }
}

/// Gathers all blocks around the ring in which neighbours are near one another. Every rank pulls the next
/// block from its left neighbour as soon as that has it (section 4.4.3).
pub fn allgather_ring(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let ring = b.hierarchy(shape.ranks, params.ignored).ring();
    let blocks = allgather::division(shape);
    b.permute(Arc::clone(&ring.order));
    gather::place_own(shape, blocks, b);
    let (left, right) = (ring.left(shape.rank), ring.right(shape.rank));
    if shape.ranks == 1 || shape.count == 0 {
        return;
    }
    let at = i64::from(ring.position(shape.rank));
    b.expose(0, build::range(BufferId::RECV, 0, shape.count * u64::from(shape.ranks)), Access::ReadWrite);
    b.post(HERE, Index::fixed(1));
    b.repeat(shape.ranks - 1, 1, |b| {
        let block = |buffer| build::permuted(buffer, blocks, Index::cyclic(at - 1, -1, shape.ranks));
        b.wait(left, HERE, Index::linear(1, 1));
        b.pull(left, block(SOURCE), block(BufferId::RECV));
        b.post(HERE, Index::linear(2, 1));
    });
    b.wait(right, HERE, Index::fixed(u64::from(shape.ranks)));
}

/// Gathers up the tree: an inner node collects the blocks of its subtree, in the order of the hierarchy, out
/// of the memory of its children. The root reorders them by rank.
pub fn gather(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let hierarchy = b.hierarchy(shape.ranks, params.ignored);
    let tree = Tree::new(&hierarchy, Form::Kary(params.radix), shape.root, shape.rank);
    let mine = build::range(BufferId::SEND, 0, shape.count);
    let Some(parent) = tree.parent else {
        return gather_at_root(shape, &hierarchy, &tree, b);
    };
    let mut subtree = mine;
    if !tree.children.is_empty() {
        let room = b.temporary(shape.count * u64::from(tree.high - tree.low));
        let part = |low: u32, high: u32| {
            build::range(room, u64::from(low - tree.low) * shape.count, u64::from(high - low) * shape.count)
        };
        b.copy(mine, part(tree.low, tree.low + 1), &[]);
        for child in &tree.children {
            let blocks = part(child.low, child.high);
            b.wait(child.rank, HERE, 1);
            b.pull(child.rank, build::slot(SOURCE, 0, 0, 0, blocks), blocks);
        }
        b.post(DONE, 1);
        subtree = part(tree.low, tree.high);
    }
    b.expose(0, subtree, Access::Read);
    b.post(HERE, 1);
    b.wait(parent, DONE, 1);
}

fn gather_at_root(shape: &Shape, hierarchy: &Hierarchy, tree: &Tree, b: &mut Builder) {
    let blocks = gather::division(shape);
    if !shape.in_place {
        let mine = build::range(BufferId::SEND, 0, shape.count);
        b.copy(mine, build::block(BufferId::RECV, blocks, shape.root), &[]);
    }
    let mut permuted = false;
    for child in &tree.children {
        let part = Part::new(hierarchy, child.rank, (child.low, child.high));
        b.wait(part.peer, HERE, 1);
        if part.in_place {
            let target = build::blocks(BufferId::RECV, blocks, part.peer, part.size);
            b.pull(part.peer, build::slot(SOURCE, 0, 0, 0, target), target);
            continue;
        }
        permuted = true;
        b.repeat(part.size, 1, |b| {
            let target = build::permuted(BufferId::RECV, blocks, part.places());
            let from = build::slot(SOURCE, 0, shape.count, Index::linear(0, 1), target);
            b.pull(part.peer, from, target);
        });
    }
    if permuted {
        b.permute(hierarchy.order().into());
    }
    if !tree.children.is_empty() {
        b.post(DONE, 1);
    }
}

/// Scatters down the tree: every rank reads the blocks of its subtree out of the memory of its parent. The
/// children of the root read each block from its original position.
pub fn scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let hierarchy = b.hierarchy(shape.ranks, params.ignored);
    let tree = Tree::new(&hierarchy, Form::Kary(params.radix), shape.root, shape.rank);
    let blocks = gather::division(shape);
    let mine = build::range(BufferId::RECV, 0, shape.count);
    let size = u64::from(tree.high - tree.low);
    match tree.parent {
        None => {
            if !tree.children.is_empty() {
                b.expose(0, build::blocks(BufferId::SEND, blocks, 0, shape.ranks), Access::Read);
                b.post(HERE, 1);
            }
            if !shape.in_place {
                b.copy(build::block(BufferId::SEND, blocks, shape.root), mine, &[]);
            }
        }
        Some(parent) => {
            let subtree = if size > 1 { b.temporary(shape.count * size) } else { BufferId::RECV };
            let all = build::range(subtree, 0, shape.count * size);
            b.wait(parent, HERE, 1);
            if parent == shape.root {
                let part = Part::new(&hierarchy, shape.rank, (tree.low, tree.high));
                if !part.in_place {
                    b.permute(hierarchy.order().into());
                }
                scatter_from_root(shape, &part, subtree, b);
            } else {
                // The subtree begins with the parent.
                let above = u64::from(tree.low - hierarchy.position(parent));
                b.pull(parent, build::range(SOURCE, above * shape.count, shape.count * size), all);
            }
            b.post(DONE, 1);
            if size > 1 {
                b.expose(0, all, Access::Read);
                b.post(HERE, 1);
                b.copy(build::range(subtree, 0, shape.count), mine, &[]);
            }
        }
    }
    for child in &tree.children {
        b.wait(child.rank, DONE, 1);
    }
}

/// Reads the blocks of the subtree `part` of this rank from the root.
fn scatter_from_root(shape: &Shape, part: &Part, into: BufferId, b: &mut Builder) {
    let blocks = gather::division(shape);
    if part.in_place {
        let from = build::blocks(SOURCE, blocks, part.peer, part.size);
        b.pull(shape.root, from, build::slot(into, 0, 0, 0, from));
        return;
    }
    b.repeat(part.size, 1, |b| {
        let from = build::permuted(SOURCE, blocks, part.places());
        b.pull(shape.root, from, build::slot(into, 0, shape.count, Index::linear(0, 1), from));
    });
}

/// Returns the division of `units` units into segments, no more than a flag can count, and their number.
pub(crate) fn segments(units: u64, params: &Params) -> (Division, u32) {
    let segment = params.segment.max(if params.segment == 0 { 0 } else { units.div_ceil(Kind::VALUES - 2) });
    crate::algorithms::segments(units, &Params { segment, ..*params })
}
