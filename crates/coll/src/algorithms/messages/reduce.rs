//! Reductions to one rank, the root.

use crate::algorithms::messages::exchange::{Accumulator, Fold, halve};
use crate::algorithms::{own, segments};
use crate::build::{self, Builder};
use crate::generator::need::ANY;
use crate::generator::parameters::{FIXED, KNOMIAL_TREE, TREE};
use crate::generator::{Generator, entry, flat};
use crate::ir::{BufferId, Division, Edge, Index, Loop, StepId};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::tree::{Form, Group, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Reduce, "knomial", ANY, KNOMIAL_TREE, knomial, work::messages::reduce_knomial),
    flat(entry(C::Reduce, "kary", ANY, TREE, kary, work::messages::reduce_kary)),
    entry(C::Reduce, "rabenseifner", ANY, FIXED, rabenseifner, work::messages::reduce_rabenseifner),
];

/// Reduces up a k-nomial tree; radix 2 is the binomial tree.
pub fn knomial(shape: &Shape, params: &Params, b: &mut Builder) {
    up(shape, Form::Knomial(params.radix), params, BufferId::RECV, b);
}

/// Reduces up a tree of at most `radix` children for each node.
pub fn kary(shape: &Shape, params: &Params, b: &mut Builder) {
    up(shape, Form::Kary(params.radix), params, BufferId::RECV, b);
}

/// Buffers of an inner node of a tree.
struct Memory {
    own: BufferId,
    /// Collects the subtree, combined from right to left.
    accumulator: BufferId,
    /// True if the accumulator begins as the own operand.
    begun: bool,
    /// Number of operands of children that `room` can hold.
    slots: u32,
    /// Temporary that receives the operands of children.
    room: BufferId,
}

impl Memory {
    fn new(
        shape: &Shape,
        node: &TreeNode,
        result: BufferId,
        units: u64,
        slots: u32,
        b: &mut Builder,
    ) -> Memory {
        let own = own(shape);
        let everywhere = shape.collective == Collective::Allreduce;
        let home = if node.parent.is_none() || everywhere { Some(result) } else { None };
        let begun = home == Some(own) && (shape.commutative || node.right.is_empty());
        let accumulator = match home {
            Some(home) if begun || home != own => home,
            _ => b.temporary(units),
        };
        let received = node.degree() - u32::from(!begun && !node.right.is_empty());
        let slots = slots.min(received);
        let room = if slots > 0 { b.temporary(units * u64::from(slots)) } else { accumulator };
        Memory { own, accumulator, begun, slots, room }
    }
}

/// Returns the groups of a node from right to left; `None` stands for the node itself.
pub(crate) fn right_to_left(node: &TreeNode) -> Vec<Option<Group>> {
    let right = node.right.iter().rev().copied().map(Some);
    right.chain([None]).chain(node.left.iter().rev().copied().map(Some)).collect()
}

/// Reduces up a tree into `result` of the root. An allreduce may use it at all ranks.
pub(crate) fn up(shape: &Shape, form: Form, params: &Params, result: BufferId, b: &mut Builder) {
    up_to(
        shape,
        &TreeNode::new(form, shape.ranks, shape.root, shape.commutative, shape.rank),
        params,
        result,
        b,
    );
    b.join();
}

/// Reduces up a tree into `result` of the root. Returns, where that is a loop over segments, its last step;
/// then it is not joined.
pub(crate) fn up_to(
    shape: &Shape,
    node: &TreeNode,
    params: &Params,
    result: BufferId,
    b: &mut Builder,
) -> Option<StepId> {
    if shape.count == 0 {
        return None;
    }
    let (division, count) = segments(shape.count, params);
    match node.parent {
        Some(parent) if node.degree() == 0 => {
            let segment = build::block(own(shape), division, Index::linear(0, 1));
            let sent = b.upcoming();
            b.repeat(count, params.window, |b| {
                b.send(parent, 0, segment, &[]);
            });
            (count > 1).then_some(sent)
        }
        _ if count > 1 => pipeline(shape, node, division, count, params.window, result, b),
        _ => {
            whole(shape, node, params.window, result, b);
            None
        }
    }
}

/// Reduces all data at once: the children of a group are a loop.
fn whole(shape: &Shape, node: &TreeNode, window: u32, result: BufferId, b: &mut Builder) {
    let memory = Memory::new(shape, node, result, shape.count, window.clamp(1, 8), b);
    let all = |buffer| build::range(buffer, 0, shape.count);
    let accumulator = all(memory.accumulator);
    let mut filled = memory.begun;
    for group in right_to_left(node) {
        let Some(group) = group else {
            match (memory.begun, filled) {
                (true, _) => {}
                (false, true) => drop(b.reduce(all(memory.own), accumulator, &[])),
                (false, false) => drop(b.copy(all(memory.own), accumulator, &[])),
            }
            filled = true;
            b.join();
            continue;
        };
        let mut peers = node.heads_backwards(group);
        let mut count = group.count;
        if !filled {
            b.recv(peers.in_iteration(0) as u32, 0, accumulator, &[]);
            b.join();
            (filled, count) = (true, count - 1);
            peers.base += peers.step;
        }
        let turn = Index::cyclic(0, 1, memory.slots.max(1));
        let slot = build::slot(memory.room, 0, shape.count, turn, accumulator);
        b.repeat(count, memory.slots, |b| {
            let arrived = b.recv(peers, 0, slot, &[]);
            let this = StepId(arrived.0 + 1);
            b.reduce(slot, accumulator, &[arrived.done(), this.before(1)]);
        });
        b.join();
    }
    if let Some(parent) = node.parent {
        b.send(parent, 0, accumulator, &[]);
    } else if memory.accumulator != result {
        b.copy(accumulator, all(result), &[]);
    }
    b.join();
}

/// Reduces segment by segment: the segments are the loop. Returns the last step of an iteration.
fn pipeline(
    shape: &Shape,
    node: &TreeNode,
    division: Division,
    count: u32,
    window: u32,
    result: BufferId,
    b: &mut Builder,
) -> Option<StepId> {
    let window = window.clamp(1, Loop::MAX_WINDOW).min(count);
    let size = division.start(1, &Default::default());
    let units = u64::from(window) * size;
    let memory = Memory::new(shape, node, result, units, 2, b);
    let turn = Index::cyclic(0, 1, window);
    let segment = |buffer| build::block(buffer, division, Index::linear(0, 1));
    let target = segment(result);
    let accumulator = match memory.accumulator.temporary() {
        Some(_) if memory.accumulator != result => build::slot(memory.accumulator, 0, size, turn, target),
        _ => segment(memory.accumulator),
    };
    let mut done = None;
    b.repeat(count, window, |b| {
        let mut last: Option<Edge> = None;
        let mut taken: Vec<Edge> = Vec::new();
        for group in right_to_left(node) {
            let Some(group) = group else {
                last = match (memory.begun, last) {
                    (true, last) => last,
                    (false, Some(_)) => {
                        Some(b.reduce(segment(memory.own), accumulator, last.as_slice()).done())
                    }
                    (false, None) => Some(b.copy(segment(memory.own), accumulator, &[]).done()),
                };
                continue;
            };
            for child in 0..group.count {
                let peer = node.heads_backwards(group).in_iteration(child) as u32;
                if !memory.begun && last.is_none() {
                    last = Some(b.recv(peer, 0, accumulator, &[]).done());
                    continue;
                }
                let slots = memory.slots as usize;
                let offset = (taken.len() % slots) as u64 * units;
                let slot = build::slot(memory.room, offset, size, turn, target);
                let free = taken.len().checked_sub(slots).map(|earlier| taken[earlier]);
                let arrived = b.recv(peer, 0, slot, free.as_slice());
                let after: Vec<Edge> = [arrived.done()].into_iter().chain(last).collect();
                taken.push(b.reduce(slot, accumulator, &after).done());
                last = taken.last().copied();
            }
        }
        done = last.map(|edge| edge.step);
        if let Some(parent) = node.parent {
            done = Some(b.send(parent, 0, accumulator, last.as_slice()));
        } else if memory.accumulator != result {
            done = Some(b.copy(accumulator, target, last.as_slice()));
        }
    });
    done
}

/// Reduces by a reduce-scatter by halving and a gather up the same tree (Rabenseifner): every rank sends the
/// data about twice, whatever the number of ranks.
pub fn rabenseifner(shape: &Shape, _: &Params, b: &mut Builder) {
    let home = if shape.is_root() { BufferId::RECV } else { b.temporary(shape.count) };
    let spare = b.temporary(shape.count);
    let mut state = Accumulator::new(own(shape), home, spare, shape);
    let fold = Fold::new(shape);
    let whole = build::range(home, 0, shape.count);
    fold.enter(&mut state, whole, b);
    let Some(me) = fold.me() else { return };
    let division = Division::Even { parts: fold.size, total: shape.count };
    let mut low = halve(&fold, me, division, &mut state, b);
    state.settle(build::block(home, division, low), b);
    let root = fold.worker(shape.root);
    let (mut length, mut distance) = (1, fold.size / 2);
    while distance > 0 {
        let peer = fold.rank(me ^ distance);
        if me & distance != root & distance {
            b.send(peer, 0, build::blocks(home, division, low, length), &[]);
            b.join();
            return;
        }
        let sibling = if me & distance == 0 { low + length } else { low - length };
        b.recv(peer, 0, build::blocks(home, division, sibling, length), &[]);
        b.join();
        (low, length, distance) = (low.min(sibling), length * 2, distance / 2);
    }
}
