//! Algorithms that follow the machine and reach into each other's memory (S2 on the trees and the ring of S3).
//!
//! The ranks that have nothing else to do make the copies: data are pulled, never sent. One flag a rank counts what it has
//! got; so it tells those who pull from it what is there, and the one it pulls from when it has done so for the last time.

use std::sync::Arc;

use super::allgather;
use super::gather;
use super::hierarchical::node;
use crate::build::{self, Builder};
use crate::ir::{Access, BufferId, Division, Index, Kind};
use crate::shape::{Params, Shape};

/// The flag that counts.
const HERE: u16 = 0;

/// Down the tree: everybody pulls a segment from its parent as soon as that has it (section 4.4.2).
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
                let from = build::block(BufferId::exposed(0), division, segment);
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
            b.wait(node.heads(group).at(0) as u32, HERE, Index::fixed(last));
            continue;
        }
        b.repeat(group.count, 1, |b| {
            b.wait(node.heads(group), HERE, Index::fixed(last));
        });
    }
}

/// Around the ring in which neighbours are near one another: everybody pulls the next block from its left neighbour
/// as soon as that has it (section 4.4.3).
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
        b.pull(left, block(BufferId::exposed(0)), block(BufferId::RECV));
        b.post(HERE, Index::linear(2, 1));
    });
    b.wait(right, HERE, Index::fixed(u64::from(shape.ranks)));
}

/// The segments of `units` units, no more than a flag can count.
fn segments(units: u64, params: &Params) -> (Division, u32) {
    let segment = params.segment.max(if params.segment == 0 { 0 } else { units.div_ceil(Kind::VALUES - 2) });
    super::segments(units, &Params { segment, ..*params })
}
