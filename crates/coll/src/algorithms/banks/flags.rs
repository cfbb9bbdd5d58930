//! Barriers by flags: no rank leaves before all ranks have entered.

use crate::algorithms::banks::{READY, RESULT, await_others};
use crate::build::Builder;
use crate::generator::need::SHARED;
use crate::generator::parameters::{FIXED, UP_DOWN};
use crate::generator::{Generator, entry};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Barrier, "flags_flat", SHARED, FIXED, barrier_flat, work::node::flat),
    entry(C::Barrier, "flags_dissemination", SHARED, FIXED, barrier_dissemination, work::node::doubling),
    entry(C::Barrier, "flags_tree", SHARED, UP_DOWN, barrier_tree, work::node::fan_in_out),
];

/// Every rank posts its flag and waits for all others: one hop, and no rank has a long sleep more than once.
pub fn barrier_flat(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks > 1 {
        b.post(READY, 1);
        await_others(shape, READY, 1, b);
    }
}

/// In round k every rank waits for the one 2^k before it. A single flag counts the rounds.
pub fn barrier_dissemination(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let (mut distance, mut round) = (1, 1);
    while distance < i64::from(shape.ranks) {
        b.post(READY, round);
        b.wait(shape.neighbour(-distance), READY, round);
        (distance, round) = (2 * distance, round + 1);
    }
}

/// Synchronises by a fan-in up a tree and a fan-out down one of its own radix (Graham and Shipman, section
/// 3.1): 2 (P - 1) waits in all.
pub fn barrier_tree(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let node = |params: Params| TreeNode::new(Form::Kary(params.radix), shape.ranks, 0, false, shape.rank);
    let (up, down) = (node(*params), node(params.downwards()));
    for group in up.by_size().iter().rev() {
        b.repeat(group.count, 1, |b| {
            b.wait(up.heads(*group), READY, 1);
        });
    }
    if up.parent.is_some() {
        b.post(READY, 1);
    }
    if let Some(parent) = down.parent {
        b.wait(parent, RESULT, 1);
    }
    if down.degree() > 0 {
        b.post(RESULT, 1);
    }
}
