//! Reductions within a node that combine all operands of an element in one step, as those in
//! [`crate::algorithms::messages::together`]. A rank copies operands from the banks of others into rows of
//! its own, which stay in its cache.

use crate::algorithms::banks::{READY, RESULT, offer, others, reduce::alone};
use crate::algorithms::messages::together::Rows;
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::Need;
use crate::generator::parameters::FIXED;
use crate::generator::{Generator, entry, gathering};
use crate::ir::{BufferId, Division, Index, Span, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Banks of one host, and an operator that commutes.
const SHARED: &[Need] = &[Need::Commutative, Need::OneGroup, Need::Banks, Need::OneHost];

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    gathering(entry(C::Reduce, "bank_together", SHARED, FIXED, reduce, work::node::reduce)),
    gathering(entry(C::Reduce, "bank_together_slices", SHARED, FIXED, reduce_slices, work::node::slices_gather)),
    gathering(entry(C::Allreduce, "bank_together", SHARED, FIXED, allreduce, work::node::allreduce)),
    gathering(entry(C::Allreduce, "bank_together_slices", SHARED, FIXED, allreduce_slices, work::node::slices)),
    gathering(entry(C::ReduceScatterBlock, "bank_together", SHARED, FIXED, reduce_scatter, work::node::reduce_scatter)),
    gathering(entry(C::ReduceScatter, "bank_together", SHARED, FIXED, reduce_scatter, work::node::reduce_scatter)),
    gathering(entry(C::Scan, "bank_together", SHARED, FIXED, scan, work::node::scan)),
    gathering(entry(C::Exscan, "bank_together", SHARED, FIXED, scan, work::node::scan)),
];

fn whole(shape: &Shape, buffer: BufferId) -> Span {
    build::range(buffer, 0, shape.count)
}

/// Copies `from` of the bank of every other rank into a row, once it is ready, and combines the rows with
/// the operand `mine` into `into`.
fn combine_all(shape: &Shape, length: u64, (mine, into): (Span, Span), from: Span, b: &mut Builder) {
    let rows = Rows::new(shape.ranks - 1, length, b);
    b.repeat(shape.ranks - 1, 1, |b| {
        b.wait(others(shape), READY, 1);
        b.pull(others(shape), from, rows.row(Index::linear(0, 1), into));
    });
    if mine != into {
        b.copy(mine, into, &[]);
    }
    rows.combine(into, b);
}

/// The root combines the operands in the banks of all.
pub fn reduce(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return alone(shape, b);
    }
    b.bank(shape.count);
    let (mine, bank) = (whole(shape, own(shape)), whole(shape, BufferId::BANK));
    if !shape.is_root() {
        return offer(mine, bank, b);
    }
    combine_all(shape, shape.count, (mine, whole(shape, BufferId::RECV)), bank, b);
}

/// Every rank combines the operands in the banks of all.
pub fn allreduce(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return alone(shape, b);
    }
    b.bank(shape.count);
    let (mine, bank) = (whole(shape, own(shape)), whole(shape, BufferId::BANK));
    offer(mine, bank, b);
    combine_all(shape, shape.count, (mine, whole(shape, BufferId::RECV)), bank, b);
}

/// Copies all blocks of the own operand but block `rank` into the bank.
fn offer_others(shape: &Shape, division: Division, b: &mut Builder) {
    let parts = [(0, shape.rank), (shape.rank + 1, shape.ranks - shape.rank - 1)];
    for (first, count) in parts.into_iter().filter(|part| part.1 > 0) {
        let part = |buffer| build::blocks(buffer, division, first, count);
        b.copy(part(own(shape)), part(BufferId::BANK), &[]);
    }
    b.post(READY, 1);
}

/// Combines one slice of all operands at every rank, in `into`.
fn combine_slices(shape: &Shape, division: Division, into: BufferId, b: &mut Builder) {
    b.bank(shape.count);
    offer_others(shape, division, b);
    let slice = |buffer| build::block(buffer, division, shape.rank);
    let start = |slice: u32| division.start(u64::from(slice), &Default::default());
    let length = start(shape.rank + 1) - start(shape.rank);
    combine_all(shape, length, (slice(own(shape)), slice(into)), slice(BufferId::BANK), b);
}

/// Reads the slices of the others from their banks.
fn collect_slices(shape: &Shape, division: Division, b: &mut Builder) {
    b.repeat(shape.ranks - 1, 1, |b| {
        let peer = others(shape);
        let slice = |buffer| build::block(buffer, division, peer);
        b.wait(peer, RESULT, 1);
        b.pull(peer, slice(BufferId::BANK), slice(BufferId::RECV));
    });
}

/// Every rank combines one slice, and all read the slices.
pub fn allreduce_slices(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return alone(shape, b);
    }
    let division = Division::Even { parts: shape.ranks, total: shape.count };
    combine_slices(shape, division, BufferId::RECV, b);
    let slice = |buffer| build::block(buffer, division, shape.rank);
    b.copy(slice(BufferId::RECV), slice(BufferId::BANK), &[]);
    b.post(RESULT, 1);
    collect_slices(shape, division, b);
}

/// Every rank combines one slice, and the root reads them.
pub fn reduce_slices(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return alone(shape, b);
    }
    let division = Division::Even { parts: shape.ranks, total: shape.count };
    if !shape.is_root() {
        combine_slices(shape, division, BufferId::BANK, b);
        b.post(RESULT, 1);
        return;
    }
    combine_slices(shape, division, BufferId::RECV, b);
    collect_slices(shape, division, b);
}

/// Every rank combines its block.
pub fn reduce_scatter(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let (division, length, total) = match shape.collective {
        Collective::ReduceScatter => (Division::Table(Table::Recv), shape.own, shape.count),
        _ => {
            let total = shape.count * u64::from(shape.ranks);
            (Division::Regular { size: shape.count, total }, shape.count, total)
        }
    };
    let mine = build::block(own(shape), division, shape.rank);
    let output = build::slot(BufferId::RECV, 0, 0, 0, mine);
    if shape.ranks > 1 {
        b.bank(total);
        offer_others(shape, division, b);
    }
    // In place, the result may lie over a part of the own block.
    let into = if shape.in_place { build::slot(b.temporary(length), 0, 0, 0, mine) } else { output };
    combine_all(shape, length, (mine, into), build::block(BufferId::BANK, division, shape.rank), b);
    if into != output {
        b.copy(into, output, &[]);
    }
}

/// Every rank combines the operands of the ranks before it.
pub fn scan(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let exclusive = shape.collective == Collective::Exscan;
    let (mine, into) = (whole(shape, own(shape)), whole(shape, BufferId::RECV));
    let bank = whole(shape, BufferId::BANK);
    if shape.ranks > 1 {
        b.bank(shape.count);
    }
    if shape.rank + 1 < shape.ranks {
        offer(mine, bank, b);
    }
    let count = shape.rank.saturating_sub(u32::from(exclusive));
    let rows = Rows::new(count, shape.count, b);
    b.repeat(count, 1, |b| {
        b.wait(Index::linear(0, 1), READY, 1);
        b.pull(Index::linear(0, 1), bank, rows.row(Index::linear(0, 1), into));
    });
    match (exclusive, shape.rank) {
        (true, 0) => return,
        (true, rank) => {
            b.wait(rank - 1, READY, 1);
            b.pull(rank - 1, bank, into);
        }
        (false, _) if mine != into => drop(b.copy(mine, into, &[])),
        (false, _) => {}
    }
    rows.combine(into, b);
}
