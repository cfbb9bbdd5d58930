//! Barriers: no rank leaves before all ranks have entered.

use crate::build::Builder;
use crate::generator::need::ANY;
use crate::generator::parameters::{FIXED, RADIX, WINDOW};
use crate::generator::{Generator, entry};
use crate::ir::{Index, Loop, Span};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Barrier, "dissemination", ANY, FIXED, dissemination, work::messages::barrier_dissemination),
    entry(C::Barrier, "tree", ANY, RADIX, tree, work::messages::barrier_tree),
    entry(C::Barrier, "spread", ANY, WINDOW, spread, work::messages::barrier_spread),
];

/// In round k every rank sends a signal to the one 2^k after it. After log2 P rounds each has heard of all.
pub fn dissemination(shape: &Shape, _: &Params, b: &mut Builder) {
    let mut distance = 1;
    while distance < i64::from(shape.ranks) {
        b.send(shape.neighbour(distance), 0, Span::SIGNAL, &[]);
        b.recv(shape.neighbour(-distance), 0, Span::SIGNAL, &[]);
        b.join();
        distance *= 2;
    }
}

/// Synchronises by signals that are gathered up a tree, and a release that goes down it: 2 (P - 1) messages.
/// A flat tree wakes every rank once, which is what counts if ranks share cores.
pub fn tree(shape: &Shape, params: &Params, b: &mut Builder) {
    up_and_down(&TreeNode::new(Form::Kary(params.radix), shape.ranks, 0, false, shape.rank), b);
}

/// Signals up a tree, and down again.
pub(crate) fn up_and_down(node: &TreeNode, b: &mut Builder) {
    for group in node.by_size().iter().rev() {
        b.repeat(group.count, Loop::MAX_WINDOW, |b| {
            b.recv(node.heads(*group), 0, Span::SIGNAL, &[]);
        });
    }
    b.join();
    if let Some(parent) = node.parent {
        b.send(parent, 0, Span::SIGNAL, &[]);
        b.recv(parent, 0, Span::SIGNAL, &[]);
        b.join();
    }
    for group in node.by_size() {
        b.repeat(group.count, Loop::MAX_WINDOW, |b| {
            b.send(node.heads(group), 0, Span::SIGNAL, &[]);
        });
    }
    b.join();
}

/// Sends a signal from every rank to every other one: P (P - 1) messages, but every rank waits only once. If
/// few ranks share cores, this has the fewest switches between them.
pub fn spread(shape: &Shape, params: &Params, b: &mut Builder) {
    let (rank, ranks) = (i64::from(shape.rank), shape.ranks);
    let (to, from) = (Index::cyclic(rank + 1, 1, ranks), Index::cyclic(rank - 1, -1, ranks));
    b.repeat(ranks - 1, params.window, |b| {
        b.send(to, 0, Span::SIGNAL, &[]);
        b.recv(from, 0, Span::SIGNAL, &[]);
    });
    b.join();
}
