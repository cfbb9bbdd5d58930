//! Broadcast, gather, scatter, allgather and alltoall of few bytes through banks: each contribution is
//! written once, to the own bank, and read from there.

use crate::algorithms::banks::{READY, offer, others};
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::SHARED;
use crate::generator::parameters::{FIXED, RADIX};
use crate::generator::{Generator, entry};
use crate::ir::{BufferId, Division, Index, Span, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Bcast, "bank_flat", SHARED, FIXED, bcast_flat, work::node::bcast),
    entry(C::Bcast, "bank_tree", SHARED, RADIX, bcast_tree, work::node::fan_out),
    entry(C::Gather, "bank_flat", SHARED, FIXED, gather_flat, work::node::gather),
    entry(C::Scatter, "bank_flat", SHARED, FIXED, scatter_flat, work::node::scatter),
    entry(C::Allgather, "bank_flat", SHARED, FIXED, allgather_flat, work::node::flat),
    entry(C::Allgatherv, "bank_flat", SHARED, FIXED, allgather_flat, work::node::flat),
    entry(C::Alltoall, "bank_flat", SHARED, FIXED, alltoall_flat, work::node::alltoall),
];

/// Returns the first `units` units of a bank.
fn bank(units: u64) -> Span {
    build::range(BufferId::BANK, 0, units)
}

/// Returns `count` blocks of `shape.count` units each, of a buffer with one block for each rank.
fn blocks(shape: &Shape, buffer: BufferId, first: impl Into<Index>, count: u32) -> Span {
    let division = Division::Regular { size: shape.count, total: shape.count * u64::from(shape.ranks) };
    build::blocks(buffer, division, first, count)
}

/// Broadcasts flat: every rank reads the bank of the root, which does not wait.
pub fn bcast_flat(shape: &Shape, params: &Params, b: &mut Builder) {
    bcast_tree(shape, &Params { radix: Params::FLAT, ..*params }, b);
}

/// Broadcasts down a tree: every rank reads the bank of its parent.
pub fn bcast_tree(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    let node = TreeNode::new(Form::Kary(params.radix), shape.ranks, shape.root, true, shape.rank);
    b.bank(shape.count);
    let (whole, bank) = (build::range(BufferId::RECV, 0, shape.count), bank(shape.count));
    let Some(parent) = node.parent else { return offer(whole, bank, b) };
    b.wait(parent, READY, 1);
    if node.degree() == 0 {
        b.pull(parent, bank, whole);
        return;
    }
    // The children need the data before the user does.
    b.pull(parent, bank, bank);
    b.post(READY, 1);
    b.copy(bank, whole, &[]);
}

/// Gathers flat: the root reads the banks of all others, which do not wait.
pub fn gather_flat(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let mine = build::range(BufferId::SEND, 0, shape.count);
    let bank = bank(shape.count);
    if shape.ranks > 1 {
        b.bank(shape.count);
    }
    if !shape.is_root() {
        return offer(mine, bank, b);
    }
    if !shape.in_place {
        b.copy(mine, blocks(shape, BufferId::RECV, shape.root, 1), &[]);
    }
    b.repeat(shape.ranks - 1, 1, |b| {
        b.wait(others(shape), READY, 1);
        b.pull(others(shape), bank, blocks(shape, BufferId::RECV, others(shape), 1));
    });
}

/// Copies the blocks for all others from `buffer` to the own bank: first that for the rank after this, so
/// that the own block needs no room.
fn lay_out(shape: &Shape, buffer: BufferId, b: &mut Builder) {
    let (below, above) = (shape.rank, shape.ranks - shape.rank - 1);
    b.bank(shape.count * u64::from(shape.ranks - 1));
    if above > 0 {
        b.copy(blocks(shape, buffer, shape.rank + 1, above), blocks(shape, BufferId::BANK, 0, above), &[]);
    }
    if below > 0 {
        b.copy(blocks(shape, buffer, 0, below), blocks(shape, BufferId::BANK, above, below), &[]);
    }
}

/// Scatters flat: every rank reads its block from the bank of the root, which does not wait.
pub fn scatter_flat(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let mine = build::range(BufferId::RECV, 0, shape.count);
    if !shape.is_root() {
        b.bank(shape.count * u64::from(shape.ranks - 1));
        let place = (shape.rank + shape.ranks - shape.root - 1) % shape.ranks;
        b.wait(shape.root, READY, 1);
        b.pull(shape.root, blocks(shape, BufferId::BANK, place, 1), mine);
        return;
    }
    if shape.ranks > 1 {
        lay_out(shape, BufferId::SEND, b);
        b.post(READY, 1);
    }
    if !shape.in_place {
        b.copy(blocks(shape, BufferId::SEND, shape.root, 1), mine, &[]);
    }
}

/// Gathers all blocks: every rank reads the banks of all others.
pub fn allgather_flat(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let total = match shape.collective {
        Collective::Allgatherv => shape.count,
        _ => shape.count * u64::from(shape.ranks),
    };
    let division = match shape.collective {
        Collective::Allgatherv => Division::Table(Table::Recv),
        _ => Division::Regular { size: shape.count, total },
    };
    let target = |rank: Index| build::block(BufferId::RECV, division, rank);
    let banked = |rank: Index| build::slot(BufferId::BANK, 0, 0, 0, target(rank));
    let place = target(shape.rank.into());
    let source = if shape.in_place { place } else { build::slot(BufferId::SEND, 0, 0, 0, place) };
    if shape.ranks > 1 {
        // No rank knows the longest block before it sees the table, but all know the sum.
        b.bank(if shape.collective == Collective::Allgatherv { total } else { shape.count });
        offer(source, banked(shape.rank.into()), b);
    }
    if !shape.in_place {
        b.copy(source, place, &[]);
    }
    b.repeat(shape.ranks - 1, 1, |b| {
        b.wait(others(shape), READY, 1);
        b.pull(others(shape), banked(others(shape)), target(others(shape)));
    });
}

/// Exchanges blocks: every rank reads its block from the banks of all others.
pub fn alltoall_flat(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let buffer = own(shape);
    if shape.ranks > 1 {
        lay_out(shape, buffer, b);
        b.post(READY, 1);
    }
    if !shape.in_place {
        let mine = |buffer| blocks(shape, buffer, shape.rank, 1);
        b.copy(mine(buffer), mine(BufferId::RECV), &[]);
    }
    // In the bank of the rank after this one, this rank's block is the last but one; and so on around the
    // ring.
    let place = Index::linear(i64::from(shape.ranks) - 2, -1);
    b.repeat(shape.ranks - 1, 1, |b| {
        b.wait(others(shape), READY, 1);
        let from = blocks(shape, BufferId::BANK, place, 1);
        b.pull(others(shape), from, blocks(shape, BufferId::RECV, others(shape), 1));
    });
}
