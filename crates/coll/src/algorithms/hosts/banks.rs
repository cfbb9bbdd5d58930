//! Collectives of few bytes on several hosts, up and down the trees of [`crate::algorithms::hosts::levels`].
//! An edge between hosts is one message, and an edge within a host is a bank and a flag (S1 within S4).
//!
//! No rank exposes memory, so none waits until others are done with it. A rank that has put its part into its
//! bank, or has sent it, leaves. Operations in a row therefore overlap, and on crowded processors each costs
//! a rank at most one sleep. Data in a bank are read from there by the next rank, or sent from there to
//! another host.

use crate::algorithms::banks::{READY, RESULT};
use crate::algorithms::hosts::levels::Edges;
use crate::algorithms::messages::reduce_scatter;
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::{LEVELS_ORDERED, LEVELS_SHARED};
use crate::generator::parameters::RADIX_NEAR;
use crate::generator::{Generator, entry};
use crate::hierarchy::{Child, NETWORK};
use crate::ir::{BufferId, Span};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Barrier, "levels_bank", LEVELS_SHARED, RADIX_NEAR, barrier, work::messages::barrier_tree),
    entry(C::Bcast, "levels_bank", LEVELS_SHARED, RADIX_NEAR, bcast, work::messages::bcast_kary),
    entry(C::Reduce, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, reduce, work::messages::reduce_kary),
    entry(C::Allreduce, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, allreduce, work::messages::allreduce_tree),
    entry(C::ReduceScatterBlock, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, reduce_scatter, work::messages::reduce_scatter_whole),
    entry(C::ReduceScatter, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, reduce_scatter, work::messages::reduce_scatter_whole),
];

/// Broadcasts from a bank to its readers, and from host to host.
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    b.bank(shape.count);
    let edges = Edges::for_few(shape, params, b);
    down(shape, &edges, READY, None, b);
}

/// Reduces up the tree: every rank combines the operands of its children.
pub fn reduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || alone(shape, b) {
        return;
    }
    b.bank(shape.count);
    let edges = Edges::for_few(shape, params, b);
    // The own operand may be in the place of a result that begins with another operand.
    let in_the_way = shape.in_place && !shape.commutative;
    let into = if edges.parent.is_none() && !in_the_way { BufferId::RECV } else { BufferId::BANK };
    let sum = up(shape, &edges, into, b);
    if edges.parent.is_none() && sum.buffer != BufferId::RECV {
        b.copy(sum, all(shape, BufferId::RECV), &[]);
    }
}

/// Reduces up the tree and broadcasts down again.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || alone(shape, b) {
        return;
    }
    b.bank(shape.count);
    let edges = Edges::for_few(shape, params, b);
    let sum = up(shape, &edges, BufferId::BANK, b);
    down(shape, &edges, RESULT, Some(sum), b);
}

/// Reduces like [`allreduce`] the blocks of all ranks, of which each rank takes its own at the end.
pub fn reduce_scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let (blocks, total) = reduce_scatter::division(shape);
    let result = reduce_scatter::result(shape, blocks);
    if shape.ranks == 1 {
        return reduce_scatter::copy_whole(shape, build::block(own(shape), blocks, 0), result, b);
    }
    if total == 0 {
        return;
    }
    b.bank(total);
    let whole = Shape { count: total, ..*shape };
    let edges = Edges::for_few(&whole, params, b);
    up(&whole, &edges, BufferId::BANK, b);
    let (bank, mine) = (all(&whole, BufferId::BANK), build::block(BufferId::BANK, blocks, shape.rank));
    match edges.parent {
        None => {}
        Some(parent) if edges.parent_is_near => {
            b.wait(parent, RESULT, 1);
            if edges.children.is_empty() {
                b.pull(parent, mine, result);
                return;
            }
            b.pull(parent, bank, bank);
        }
        Some(parent) => {
            b.recv(parent, 0, bank, &[]);
        }
    }
    for child in &edges.far {
        b.send(*child, 0, bank, &[]);
    }
    if !edges.near.is_empty() {
        b.post(RESULT, 1);
    }
    b.copy(mine, result, &[]);
}

/// Synchronises up the tree and down again, like [`allreduce`] without data.
pub fn barrier(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return;
    }
    let edges = Edges::for_few(shape, params, b);
    for child in &edges.near {
        b.wait(*child, READY, 1);
    }
    for child in &edges.far {
        b.recv(*child, 0, Span::SIGNAL, &[]);
    }
    match edges.parent {
        None => {}
        Some(parent) if edges.parent_is_near => {
            b.post(READY, 1);
            b.wait(parent, RESULT, 1);
        }
        Some(parent) => {
            b.send(parent, 0, Span::SIGNAL, &[]);
            b.recv(parent, 0, Span::SIGNAL, &[]);
        }
    }
    for child in &edges.far {
        b.send(*child, 0, Span::SIGNAL, &[]);
    }
    if !edges.near.is_empty() {
        b.post(RESULT, 1);
    }
}

/// Writes the schedule of a rank that is alone. Returns false if there are several ranks.
pub(crate) fn alone(shape: &Shape, b: &mut Builder) -> bool {
    if shape.ranks == 1 && !shape.in_place {
        b.copy(all(shape, BufferId::SEND), all(shape, BufferId::RECV), &[]);
    }
    shape.ranks == 1
}

pub(crate) fn all(shape: &Shape, buffer: BufferId) -> Span {
    build::range(buffer, 0, shape.count)
}

/// Passes the result down: to the children on other hosts first, as that takes longest. The root has it in
/// `given`, or in the receive buffer. Other ranks wait for flag `flag` of a parent on the same host.
pub(crate) fn down(shape: &Shape, edges: &Edges, flag: u16, given: Option<Span>, b: &mut Builder) {
    let (result, bank) = (all(shape, BufferId::RECV), all(shape, BufferId::BANK));
    // Children on the same host need the data before the user does.
    let arrives = if edges.near.is_empty() { result } else { bank };
    let here = match edges.parent {
        None => given.unwrap_or(result),
        Some(parent) if edges.parent_is_near => {
            b.wait(parent, flag, 1);
            b.pull(parent, bank, arrives);
            arrives
        }
        Some(parent) => {
            b.recv(parent, 0, arrives, &[]);
            arrives
        }
    };
    for child in &edges.far {
        b.send(*child, 0, here, &[]);
    }
    if !edges.near.is_empty() {
        if here.buffer != BufferId::BANK {
            b.copy(here, bank, &[]);
        }
        b.post(flag, 1);
    }
    if here.buffer != BufferId::RECV {
        b.copy(here, result, &[]);
    }
}

/// Combines the data that go up the tree, in `into` if there is anything to combine. Returns the span with
/// the result at the root.
pub(crate) fn up(shape: &Shape, edges: &Edges, into: BufferId, b: &mut Builder) -> Span {
    let (own, into) = (all(shape, own(shape)), all(shape, into));
    let mut sum = Sum { shape, have: None, into, room: None };
    if shape.commutative {
        // First the own operand, then those that need no message.
        sum.take_own(own, b);
        let by_distance = |far: bool| edges.children.iter().filter(move |child| is_far(child) == far);
        by_distance(false).chain(by_distance(true)).for_each(|child| sum.take(child, b));
    } else {
        let right = edges.children.partition_point(|child| child.low < edges.position);
        edges.children[right..].iter().rev().for_each(|child| sum.take(child, b));
        sum.take_own(own, b);
        edges.children[..right].iter().rev().for_each(|child| sum.take(child, b));
    }
    let have = sum.have.expect("a rank has its own operand");
    match edges.parent {
        None => return have,
        Some(_) if edges.parent_is_near => {
            if have.buffer != BufferId::BANK {
                b.copy(have, all(shape, BufferId::BANK), &[]);
            }
            b.post(READY, 1);
        }
        Some(parent) => {
            b.send(parent, 0, have, &[]);
        }
    }
    have
}

fn is_far(child: &Child) -> bool {
    child.distance == NETWORK
}

/// Operands that a rank combines, from right to left.
struct Sum<'a> {
    shape: &'a Shape,
    /// Partial result so far, if any.
    have: Option<Span>,
    into: Span,
    /// Temporary for operands that come by message.
    room: Option<Span>,
}

impl Sum<'_> {
    fn take_own(&mut self, own: Span, b: &mut Builder) {
        if self.have.is_none() {
            self.have = Some(own);
        } else {
            b.reduce(own, self.into, &[]);
        }
    }

    fn take(&mut self, child: &Child, b: &mut Builder) {
        if is_far(child) {
            return self.take_message(child.rank, b);
        }
        let bank = all(self.shape, BufferId::BANK);
        b.wait(child.rank, READY, 1);
        match self.have {
            None => b.pull(child.rank, bank, self.into),
            Some(have) => b.combine(child.rank, bank, have, self.into),
        };
        self.have = Some(self.into);
    }

    fn take_message(&mut self, child: u32, b: &mut Builder) {
        let Some(have) = self.have.replace(self.into) else {
            b.recv(child, 0, self.into, &[]);
            return;
        };
        let room = *self.room.get_or_insert_with(|| all(self.shape, b.temporary(self.shape.count)));
        b.recv(child, 0, room, &[]);
        if have != self.into {
            b.copy(have, self.into, &[]);
        }
        b.reduce(room, self.into, &[]);
    }
}
