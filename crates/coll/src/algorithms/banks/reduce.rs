//! Reductions of few elements through banks (Graham and Shipman, sections 3.1 and 3.2): the operands are read
//! in place, in the banks of their owners.

use crate::algorithms::banks::{Folding, READY, RESULT, fold_all, fold_ordered, offer, others};
use crate::algorithms::messages::exchange::Fold;
use crate::algorithms::messages::reduce::right_to_left;
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::SHARED;
use crate::generator::parameters::{FIXED, RADIX, UP_DOWN};
use crate::generator::{Generator, entry, flat, ordered, right};
use crate::ir::{BufferId, Division, Index, Span, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    right(entry(C::Reduce, "bank_flat", SHARED, FIXED, reduce_flat, work::node::reduce)),
    flat(entry(C::Reduce, "bank_tree", SHARED, RADIX, reduce_tree, work::node::fan_in)),
    right(entry(C::Reduce, "bank_slices", SHARED, FIXED, reduce_slices_gather, work::node::slices_gather)),
    ordered(right(entry(C::Allreduce, "bank_flat", SHARED, FIXED, allreduce_flat, work::node::allreduce))),
    flat(entry(C::Allreduce, "bank_tree", SHARED, UP_DOWN, allreduce_tree, work::node::fan_in_out)),
    entry(C::Allreduce, "bank_doubling", SHARED, FIXED, allreduce_doubling, work::node::doubling),
    right(entry(C::Allreduce, "bank_slices", SHARED, FIXED, allreduce_slices, work::node::slices)),
    right(entry(C::ReduceScatterBlock, "bank_flat", SHARED, FIXED, reduce_scatter_flat, work::node::reduce_scatter)),
    right(entry(C::ReduceScatter, "bank_flat", SHARED, FIXED, reduce_scatter_flat, work::node::reduce_scatter)),
    entry(C::Scan, "bank_flat", SHARED, FIXED, scan_flat, work::node::scan),
    entry(C::Scan, "bank_doubling", SHARED, FIXED, scan_doubling, work::node::doubling),
    entry(C::Exscan, "bank_flat", SHARED, FIXED, scan_flat, work::node::scan),
    entry(C::Exscan, "bank_doubling", SHARED, FIXED, scan_doubling, work::node::doubling),
];

fn whole(shape: &Shape, buffer: BufferId) -> Span {
    build::range(buffer, 0, shape.count)
}

/// Writes the schedule of a rank that is alone: the result is its operand.
pub(crate) fn alone(shape: &Shape, b: &mut Builder) {
    Folding::alone(whole(shape, own(shape)), whole(shape, BufferId::RECV), b);
}

/// The root reads the banks of all others, which do not wait.
pub fn reduce_flat(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return alone(shape, b);
    }
    b.bank(shape.count);
    let (mine, bank) = (whole(shape, own(shape)), whole(shape, BufferId::BANK));
    if !shape.is_root() {
        return offer(mine, bank, b);
    }
    let mine = out_of_the_way(shape, shape.rank + 1 == shape.ranks, b);
    fold_all(shape, false, (mine, whole(shape, BufferId::RECV)), |_| bank, b);
}

/// Returns the operand of a root. An operand in the place of the result is saved in the bank first. That is
/// not necessary if the result begins with it: if it is the rightmost, or the order does not matter.
fn out_of_the_way(shape: &Shape, rightmost: bool, b: &mut Builder) -> Span {
    let (mine, bank) = (whole(shape, own(shape)), whole(shape, BufferId::BANK));
    if !shape.in_place || shape.commutative || rightmost {
        return mine;
    }
    b.copy(mine, bank, &[]);
    bank
}

/// Reduces flat: every rank reads the banks of all others and combines them in the same order. One hop, the
/// same bits.
pub fn allreduce_flat(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return alone(shape, b);
    }
    b.bank(shape.count);
    let (mine, bank) = (whole(shape, own(shape)), whole(shape, BufferId::BANK));
    offer(mine, bank, b);
    let mine = if shape.in_place { bank } else { mine };
    fold_all(shape, true, (mine, whole(shape, BufferId::RECV)), |_| bank, b);
}

/// Combines the subtree of this rank, out of the banks of its children, into `into`: the own bank, or at
/// the root another place.
fn fan_in(shape: &Shape, params: &Params, into: Span, b: &mut Builder) {
    let node =
        TreeNode::new(Form::Kary(params.radix), shape.ranks, shape.root, shape.commutative, shape.rank);
    let bank = whole(shape, BufferId::BANK);
    let mine = match into.buffer {
        BufferId::RECV => out_of_the_way(shape, node.right.is_empty(), b),
        _ => whole(shape, own(shape)),
    };
    let mut folding = Folding::new(mine, into);
    fold_subtree(shape, &node, &mut folding, (READY, Index::fixed(1)), bank, b);
    folding.finish(b);
    if node.parent.is_some() {
        b.post(READY, 1);
    }
}

/// Combines the own operand and those that the children of a node have in `bank` of theirs.
pub(crate) fn fold_subtree(
    shape: &Shape,
    node: &TreeNode,
    folding: &mut Folding,
    ready: (u16, Index),
    bank: Span,
    b: &mut Builder,
) {
    if shape.commutative {
        folding.own(b);
        for group in node.by_size().iter().rev() {
            folding.peers(node.heads(*group), group.count, Some(ready), |_| bank, b);
        }
        return;
    }
    for group in right_to_left(node) {
        match group {
            None => folding.own(b),
            Some(group) => {
                folding.peers(node.heads_backwards(group), group.count, Some(ready), |_| bank, b);
            }
        }
    }
}

/// Reduces by a fan-in up a tree; only its inner ranks wait.
pub fn reduce_tree(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 {
        return;
    }
    if shape.ranks > 1 {
        b.bank(shape.count);
    }
    let into = if shape.is_root() { BufferId::RECV } else { BufferId::BANK };
    fan_in(shape, params, whole(shape, into), b);
}

/// Reduces by a fan-in up a tree to rank 0 and a fan-out down one of its own radix. If that is flat, every
/// rank reads the bank of rank 0.
pub fn allreduce_tree(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return alone(shape, b);
    }
    b.bank(shape.count);
    let (bank, result) = (whole(shape, BufferId::BANK), whole(shape, BufferId::RECV));
    fan_in(shape, params, bank, b);
    let down =
        TreeNode::new(Form::Kary(params.downwards().radix), shape.ranks, 0, shape.commutative, shape.rank);
    if let Some(parent) = down.parent {
        b.wait(parent, RESULT, 1);
        if down.degree() == 0 {
            b.pull(parent, bank, result);
            return;
        }
        // The rank that read the old content has done so before the result existed, so it may be overwritten.
        b.pull(parent, bank, bank);
    }
    b.post(RESULT, 1);
    b.copy(bank, result, &[]);
}

/// Reduces by doubling: in round k, ranks at distance 2^k read each other's partial results, in log2 P
/// rounds. Each round has its own place in the bank, as a rank does not know when its partner has read.
pub fn allreduce_doubling(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let (mine, result) = (whole(shape, own(shape)), whole(shape, BufferId::RECV));
    if shape.ranks == 1 {
        return alone(shape, b);
    }
    let fold = Fold::new(&Shape { root: 0, ..*shape });
    let rounds = fold.size.ilog2();
    let folded = fold.size < shape.ranks;
    b.bank(shape.count * (u64::from(rounds) + u64::from(folded)));
    let place = |round: u32| build::range(BufferId::BANK, u64::from(round) * shape.count, shape.count);
    let Some(me) = fold.me() else {
        let partner = fold.partner().expect("who does not work has a partner who does");
        offer(mine, place(0), b);
        b.wait(partner, RESULT, 1);
        b.pull(partner, place(rounds), result);
        return;
    };
    if let Some(partner) = fold.partner() {
        b.wait(partner, READY, 1);
        combine_pair(shape.rank < partner, partner, place(0), mine, place(0), b);
    } else {
        b.copy(mine, place(0), &[]);
    }
    for round in 0..rounds {
        b.post(READY, round + 1);
        let peer = fold.rank(me ^ 1 << round);
        b.wait(peer, READY, round + 1);
        let last = round + 1 == rounds && fold.partner().is_none();
        let into = if last { result } else { place(round + 1) };
        combine_pair(shape.rank < peer, peer, place(round), place(round), into, b);
    }
    if fold.partner().is_some() {
        b.post(RESULT, 1);
        b.copy(place(rounds), result, &[]);
    }
}

/// Combines `theirs` of `peer` with `mine` into `into`, a third span. If `left` is true, `mine` is the left
/// operand.
fn combine_pair(left: bool, peer: u32, theirs: Span, mine: Span, into: Span, b: &mut Builder) {
    if left {
        b.pull(peer, theirs, into);
        b.reduce(mine, into, &[]);
    } else {
        b.combine(peer, theirs, mine, into);
    }
}

/// Combines one P-th of all operands at every rank, in its bank in place of its own part, which no other rank
/// needs. The content of `own(shape)` is not changed.
fn reduce_slices(shape: &Shape, division: Division, b: &mut Builder) {
    b.bank(shape.count);
    let mine = own(shape);
    let (below, above) = (shape.rank, shape.ranks - shape.rank - 1);
    let others = |first: u32, count: u32, b: &mut Builder| {
        if count > 0 {
            let part = |buffer| build::blocks(buffer, division, first, count);
            b.copy(part(mine), part(BufferId::BANK), &[]);
        }
    };
    others(0, below, b);
    others(shape.rank + 1, above, b);
    b.post(READY, 1);
    let slice = |buffer| build::block(buffer, division, shape.rank);
    let banked = slice(BufferId::BANK);
    fold_all(shape, false, (slice(mine), banked), |_| banked, b);
    b.post(RESULT, 1);
}

/// Reduces by a reduce-scatter and an allgather, both inside the banks.
pub fn allreduce_slices(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return alone(shape, b);
    }
    let division = Division::Even { parts: shape.ranks, total: shape.count };
    reduce_slices(shape, division, b);
    collect_slices(shape, division, b);
}

/// Reduces by a reduce-scatter in the banks, after which the root reads the slices. The others wait for
/// operands, not for the root.
pub fn reduce_slices_gather(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return alone(shape, b);
    }
    let division = Division::Even { parts: shape.ranks, total: shape.count };
    reduce_slices(shape, division, b);
    if shape.is_root() {
        collect_slices(shape, division, b);
    }
}

/// Reads the slices of the result from the banks.
fn collect_slices(shape: &Shape, division: Division, b: &mut Builder) {
    let slice = |buffer, rank: Index| build::block(buffer, division, rank);
    let mine = Index::from(shape.rank);
    b.copy(slice(BufferId::BANK, mine), slice(BufferId::RECV, mine), &[]);
    b.repeat(shape.ranks - 1, 1, |b| {
        let peer = others(shape);
        b.wait(peer, RESULT, 1);
        b.pull(peer, slice(BufferId::BANK, peer), slice(BufferId::RECV, peer));
    });
}

/// Reduces and scatters flat: every rank combines its block out of the banks of all.
pub fn reduce_scatter_flat(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let total = match shape.collective {
        Collective::ReduceScatter => shape.count,
        _ => shape.count * u64::from(shape.ranks),
    };
    let division = match shape.collective {
        Collective::ReduceScatter => Division::Table(Table::Recv),
        _ => Division::Regular { size: shape.count, total },
    };
    let buffer = own(shape);
    let mine = |buffer| build::block(buffer, division, shape.rank);
    let (below, above) = (shape.rank, shape.ranks - shape.rank - 1);
    let result = build::slot(BufferId::RECV, 0, 0, 0, mine(BufferId::RECV));
    if shape.ranks == 1 {
        let operand = if shape.in_place { result } else { mine(buffer) };
        return Folding::alone(operand, result, b);
    }
    b.bank(total);
    // If the result may overlap the operand, the operand is read from the bank.
    let table = matches!(division, Division::Table(_));
    let in_the_way = shape.in_place && (table || shape.rank == 0);
    let operand = if in_the_way { mine(BufferId::BANK) } else { mine(buffer) };
    let parts = if in_the_way { [(0, shape.ranks), (0, 0)] } else { [(0, below), (shape.rank + 1, above)] };
    for (first, count) in parts.into_iter().filter(|part| part.1 > 0) {
        let part = |buffer| build::blocks(buffer, division, first, count);
        b.copy(part(buffer), part(BufferId::BANK), &[]);
    }
    b.post(READY, 1);
    let banked = mine(BufferId::BANK);
    fold_all(shape, false, (operand, result), |_| banked, b);
}

/// Computes prefixes flat: every rank combines the operands of the ranks before it.
pub fn scan_flat(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let exclusive = shape.collective == Collective::Exscan;
    let (mine, result) = (whole(shape, own(shape)), whole(shape, BufferId::RECV));
    let bank = whole(shape, BufferId::BANK);
    if shape.ranks > 1 {
        b.bank(shape.count);
    }
    if shape.rank + 1 < shape.ranks {
        offer(mine, bank, b);
    }
    b.repeat(shape.rank, 1, |b| {
        b.wait(Index::linear(i64::from(shape.rank) - 1, -1), READY, 1);
    });
    let end = shape.rank + u32::from(!exclusive);
    fold_ordered(shape, end, Folding::new(mine, result), |_| bank, b);
}

/// Computes prefixes by doubling: in round k every rank combines the partial result of the one 2^k before it.
/// Each round has its own place in the bank. A partial result that goes back to rank 0 is final and stays
/// there.
pub fn scan_doubling(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let exclusive = shape.collective == Collective::Exscan;
    let (mine, result) = (whole(shape, own(shape)), whole(shape, BufferId::RECV));
    let place = |round: u32| build::range(BufferId::BANK, u64::from(round) * shape.count, shape.count);
    b.bank(shape.count * u64::from(shape.ranks.next_power_of_two().ilog2()));
    let rounds = |rank: u32| rank.checked_ilog2().map_or(0, |log| log + 1);
    let needed = |round: u32| u64::from(shape.rank) + (1 << round) < u64::from(shape.ranks);
    if needed(0) {
        offer(mine, place(0), b);
    }
    // Place of the operand, combined with those before it.
    let mut sum = if exclusive { place(0) } else { mine };
    for round in 0..rounds(shape.rank) {
        let peer = shape.rank - (1 << round);
        let at = round.min(rounds(peer));
        b.wait(peer, READY, at + 1);
        if needed(round + 1) {
            b.combine(peer, place(at), sum, place(round + 1));
            b.post(READY, round + 2);
            sum = place(round + 1);
        } else if !exclusive {
            b.combine(peer, place(at), sum, result);
            sum = result;
        }
        match (exclusive, round) {
            (false, _) => {}
            (true, 0) => drop(b.pull(peer, place(at), result)),
            (true, _) => drop(b.combine(peer, place(at), result, result)),
        }
    }
    if !exclusive && sum != result {
        b.copy(sum, result, &[]);
    }
}
