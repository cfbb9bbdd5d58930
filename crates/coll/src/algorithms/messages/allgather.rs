//! Allgather, with blocks of one size or of sizes given by a table.

use crate::algorithms::messages::bcast;
use crate::algorithms::messages::gather::{gather_up, place_own};
use crate::algorithms::{own, ring as pass_around};
use crate::build::{self, Builder};
use crate::generator::need::{ANY, POWER};
use crate::generator::parameters::{FIXED, RADIX, WINDOW};
use crate::generator::{Generator, entry};
use crate::ir::{BufferId, Division, Index, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Allgather, "recursive_doubling", POWER, FIXED, recursive_doubling, work::messages::allgather_doubling),
    entry(C::Allgather, "bruck", ANY, FIXED, bruck, work::messages::allgather_bruck),
    entry(C::Allgather, "ring", ANY, FIXED, ring, work::messages::allgather_ring),
    entry(C::Allgather, "spread", ANY, WINDOW, spread, work::messages::spread),
    entry(C::Allgather, "gather_bcast", ANY, RADIX, gather_bcast, work::messages::allgather_tree),
    entry(C::Allgatherv, "ring", ANY, FIXED, ring, work::messages::allgather_ring),
    entry(C::Allgatherv, "spread", ANY, WINDOW, spread, work::messages::spread),
];

pub(crate) fn division(shape: &Shape) -> Division {
    match shape.collective {
        Collective::Allgatherv => Division::Table(Table::Recv),
        _ => Division::Regular { size: shape.count, total: total(shape) },
    }
}

fn total(shape: &Shape) -> u64 {
    shape.count * u64::from(shape.ranks)
}

/// Gathers all blocks around the ring of ranks, in P - 1 rounds.
pub fn ring(shape: &Shape, _: &Params, b: &mut Builder) {
    place_own(shape, division(shape), b);
    pass_around(shape, BufferId::RECV, division(shape), None, b);
}

/// Gathers all blocks in one hop: every rank sends its block to every other rank.
pub fn spread(shape: &Shape, params: &Params, b: &mut Builder) {
    let blocks = division(shape);
    let (rank, ranks) = (i64::from(shape.rank), shape.ranks);
    let mine = build::block(BufferId::RECV, blocks, shape.rank);
    let (to, from) = (Index::cyclic(rank + 1, 1, ranks), Index::cyclic(rank - 1, -1, ranks));
    let source = match own(shape) {
        BufferId::RECV => mine,
        buffer => build::slot(buffer, 0, 0, 0, mine),
    };
    b.repeat(ranks - 1, params.window, |b| {
        b.send(to, 0, source, &[]);
        b.recv(from, 0, build::block(BufferId::RECV, blocks, from), &[]);
    });
    if !shape.in_place {
        b.copy(source, mine, &[]);
    }
    b.join();
}

/// Gathers all blocks by doubling: neighbours, then pairs, then fours exchange all blocks they have. For
/// powers of two.
pub fn recursive_doubling(shape: &Shape, _: &Params, b: &mut Builder) {
    let blocks = division(shape);
    place_own(shape, blocks, b);
    let mut size = 1;
    while size < shape.ranks {
        let peer = shape.rank ^ size;
        let (mine, theirs) = (shape.rank & !(size - 1), peer & !(size - 1));
        b.send(peer, 0, build::blocks(BufferId::RECV, blocks, mine, size), &[]);
        b.recv(peer, 0, build::blocks(BufferId::RECV, blocks, theirs, size), &[]);
        b.join();
        size *= 2;
    }
}

/// Gathers all blocks in log2 P rounds for any number of ranks (Bruck). The collected data begin with the own
/// block, and are rotated into place at the end.
pub fn bruck(shape: &Shape, _: &Params, b: &mut Builder) {
    let (rank, ranks) = (shape.rank, shape.ranks);
    let buffer = b.temporary(total(shape));
    let blocks = division(shape);
    let mine = match own(shape) {
        BufferId::RECV => build::block(BufferId::RECV, blocks, rank),
        send => build::range(send, 0, shape.count),
    };
    b.copy(mine, build::block(buffer, blocks, 0), &[]);
    b.join();
    let mut have = 1;
    while have < ranks {
        let size = have.min(ranks - have);
        b.send(shape.neighbour(-i64::from(have)), 0, build::blocks(buffer, blocks, 0, size), &[]);
        b.recv(shape.neighbour(i64::from(have)), 0, build::blocks(buffer, blocks, have, size), &[]);
        b.join();
        have += size;
    }
    let upper = ranks - rank;
    b.copy(build::blocks(buffer, blocks, 0, upper), build::blocks(BufferId::RECV, blocks, rank, upper), &[]);
    if rank > 0 {
        let lower = build::blocks(buffer, blocks, upper, rank);
        b.copy(lower, build::blocks(BufferId::RECV, blocks, 0, rank), &[]);
    }
    b.join();
}

/// Gathers up a tree to rank 0 and broadcasts down it.
pub fn gather_bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    let form = Form::Kary(params.radix);
    let node = TreeNode::new(form, shape.ranks, 0, false, shape.rank);
    let blocks = division(shape);
    place_own(shape, blocks, b);
    gather_up(&node, blocks, BufferId::RECV, 0, b);
    if let Some(parent) = node.parent {
        let subtree = build::blocks(BufferId::RECV, blocks, node.low, node.high - node.low);
        b.send(parent, 0, subtree, &[]);
        b.join();
    }
    let all = Shape { count: total(shape), root: 0, ..*shape };
    bcast::down(&all, form, &Params { segment: 0, ..*params }, b);
}
