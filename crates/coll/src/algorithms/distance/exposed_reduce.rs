//! Reductions that follow the machine and access each other's memory. Up the trees of S3, a node combines the
//! operands of its children in place, segment by segment (section 4.4.2, in the other direction). Data go
//! down again if all ranks need the result.

use crate::algorithms::banks::reduce::{alone, fold_subtree};
use crate::algorithms::banks::{Folding, RESULT, await_others};
use crate::algorithms::distance::exposed::{HERE, segments};
use crate::algorithms::distance::messages::{node, ordered};
use crate::algorithms::exposed::{DONE, SOURCE};
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::EXPOSED;
use crate::generator::parameters::TREE_NEAR;
use crate::generator::{Generator, entry};
use crate::ir::{Access, BufferId, Division, Index, Span, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::tree::TreeNode;
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Reduce, "hierarchical_pull", EXPOSED, TREE_NEAR, reduce, work::messages::reduce_kary),
    entry(C::Allreduce, "hierarchical_pull", EXPOSED, TREE_NEAR, allreduce, work::messages::allreduce_tree),
    entry(C::ReduceScatterBlock, "hierarchical_pull", EXPOSED, TREE_NEAR, reduce_scatter, work::messages::reduce_scatter_tree),
    entry(C::ReduceScatter, "hierarchical_pull", EXPOSED, TREE_NEAR, reduce_scatter, work::messages::reduce_scatter_tree),
];

/// A rank's part in the reduction up the tree.
struct Climb<'a> {
    shape: &'a Shape,
    node: TreeNode,
    division: Division,
    /// Number of segments of the data.
    count: u32,
    /// Buffer with the combined segments of its subtree.
    into: BufferId,
    /// Flag that the root sets when a segment is complete.
    whole: Option<u16>,
}

impl Climb<'_> {
    /// Returns the number of the segment plus `base`. A single segment has no loop, and so no iteration to
    /// count.
    fn number(&self, base: i64) -> Index {
        Index::linear(base, i64::from(self.count > 1))
    }

    fn segment(&self, buffer: BufferId) -> Span {
        build::block(buffer, self.division, self.number(0))
    }

    /// Exposes the combined data of this subtree to other ranks.
    fn expose(&self, b: &mut Builder) {
        // A span exposed only for reading is sent by value at the time of the exposure.
        let access = if self.into == BufferId::SEND { Access::Read } else { Access::ReadWrite };
        b.expose(0, build::range(self.into, 0, self.shape.count), access);
    }

    /// Combines the children's data with the own operand, and posts a flag for each segment.
    fn up(&self, b: &mut Builder) {
        let Climb { shape, node, into, .. } = self;
        let mine = own(shape);
        if node.degree() == 0 {
            if node.parent.is_some() {
                b.post(HERE, Index::fixed(u64::from(self.count)));
            }
            return;
        }
        let in_the_way = mine == *into && !shape.commutative && !node.right.is_empty();
        let saved = in_the_way.then(|| b.temporary(self.division.start(1, &Default::default())));
        b.repeat(self.count, 1, |b| {
            let mut operand = self.segment(mine);
            if let Some(saved) = saved {
                let room = build::slot(saved, 0, 0, 0, operand);
                b.copy(operand, room, &[]);
                operand = room;
            }
            let mut folding = Folding::new(operand, self.segment(*into));
            fold_subtree(shape, node, &mut folding, (HERE, self.number(1)), self.segment(SOURCE), b);
            folding.finish(b);
            match (node.parent, self.whole) {
                (Some(_), _) => drop(b.post(HERE, self.number(1))),
                (None, Some(flag)) => drop(b.post(flag, self.number(1))),
                (None, None) => {}
            }
        });
    }

    /// Waits until the children are done with this rank's exposed memory.
    fn await_children(&self, b: &mut Builder) {
        for group in self.node.by_size() {
            b.each(self.node.heads(group), group.count, |child, b| {
                b.wait(child, DONE, 1);
            });
        }
    }
}

fn climb<'a>(
    shape: &'a Shape,
    params: &Params,
    (root, inner): (BufferId, Option<BufferId>),
    b: &mut Builder,
) -> Climb<'a> {
    let node = node(&ordered(shape, params, b), shape, params);
    let (division, count) = segments(shape.count, params);
    let into = match (node.parent, node.degree()) {
        (None, _) => root,
        (Some(_), 0) => own(shape),
        _ => inner.unwrap_or_else(|| b.temporary(shape.count)),
    };
    Climb { shape, node, division, count, into, whole: None }
}

/// Reduces up the tree, in segments.
pub fn reduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return alone(shape, b);
    }
    let climb = climb(shape, params, (BufferId::RECV, None), b);
    if climb.node.parent.is_some() {
        climb.expose(b);
    }
    climb.up(b);
    if climb.node.degree() > 0 {
        b.post(DONE, 1);
    }
    if let Some(parent) = climb.node.parent {
        b.wait(parent, DONE, 1);
    }
}

/// Reduces up the tree and broadcasts down again, each segment as soon as it is complete.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return alone(shape, b);
    }
    let climb = climb(shape, params, (BufferId::RECV, Some(BufferId::RECV)), b);
    let climb = Climb { whole: Some(RESULT), ..climb };
    climb.expose(b);
    climb.up(b);
    if let Some(parent) = climb.node.parent {
        // The rank that read the old content has done so before the result existed, so it may be overwritten.
        b.repeat(climb.count, 1, |b| {
            b.wait(parent, RESULT, climb.number(1));
            b.pull(parent, climb.segment(SOURCE), climb.segment(BufferId::RECV));
            if climb.node.degree() > 0 {
                b.post(RESULT, climb.number(1));
            }
        });
        b.post(DONE, 1);
    }
    climb.await_children(b);
}

/// Reduces up the tree; every rank then reads its block out of the memory of the root.
pub fn reduce_scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let (total, division) = match shape.collective {
        Collective::ReduceScatter => (shape.count, Division::Table(Table::Recv)),
        _ => {
            let total = shape.count * u64::from(shape.ranks);
            (total, Division::Regular { size: shape.count, total })
        }
    };
    let block = |buffer| build::block(buffer, division, shape.rank);
    let result = build::slot(BufferId::RECV, 0, 0, 0, block(BufferId::RECV));
    if total == 0 || shape.ranks == 1 {
        let operand = if shape.in_place { result } else { block(own(shape)) };
        return Folding::alone(operand, result, b);
    }
    let whole = Shape { count: total, ..*shape };
    let room = if shape.is_root() { b.temporary(total) } else { BufferId::RECV };
    let climb = climb(&whole, params, (room, None), b);
    let climb = Climb { whole: Some(RESULT), ..climb };
    climb.expose(b);
    climb.up(b);
    if shape.is_root() {
        b.copy(block(room), result, &[]);
        return await_others(shape, DONE, 1, b);
    }
    // By then all others have also finished with this rank's memory.
    b.wait(shape.root, RESULT, Index::fixed(u64::from(climb.count)));
    b.pull(shape.root, block(SOURCE), result);
    b.post(DONE, 1);
}
