//! Collectives of few bytes on several hosts: up and down the trees of [`crate::algorithms::hosts::levels`],
//! where an edge between hosts is one message and an edge within a host a bank and a flag (S1 within S4).
//!
//! Nobody lends memory, so nobody waits until others are done with it: a rank that has put its part into its
//! bank, or has sent it, leaves. So operations in a row overlap, and on crowded processors each costs a rank
//! one sleep at most. What is in a bank is read from there by who needs it next, also by the message that
//! takes it to another host.

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

/// What is written here.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Barrier, "levels_bank", LEVELS_SHARED, RADIX_NEAR, barrier, work::messages::barrier_tree),
    entry(C::Bcast, "levels_bank", LEVELS_SHARED, RADIX_NEAR, bcast, work::messages::bcast_kary),
    entry(C::Reduce, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, reduce, work::messages::reduce_kary),
    entry(C::Allreduce, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, allreduce, work::messages::allreduce_tree),
    entry(C::ReduceScatterBlock, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, reduce_scatter, work::messages::reduce_scatter_whole),
    entry(C::ReduceScatter, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, reduce_scatter, work::messages::reduce_scatter_whole),
];

/// From a bank to its readers, from host to host.
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    b.bank(shape.count);
    let edges = Edges::for_few(shape, params, b);
    down(shape, &edges, READY, None, b);
}

/// Up the tree: every rank combines what its children have.
pub fn reduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || alone(shape, b) {
        return;
    }
    b.bank(shape.count);
    let edges = Edges::for_few(shape, params, b);
    // Where its own operand is in the way of a result that begins with another one.
    let in_the_way = shape.in_place && !shape.commutative;
    let into = if edges.parent.is_none() && !in_the_way { BufferId::RECV } else { BufferId::BANK };
    let sum = up(shape, &edges, into, b);
    if edges.parent.is_none() && sum.buffer != BufferId::RECV {
        b.copy(sum, all(shape, BufferId::RECV), &[]);
    }
}

/// Up the tree and down again.
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

/// The same for the blocks of all ranks, of which each takes its own at last.
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

/// The same with nothing to combine.
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

/// A rank alone has the result.
pub(crate) fn alone(shape: &Shape, b: &mut Builder) -> bool {
    if shape.ranks == 1 && !shape.in_place {
        b.copy(all(shape, BufferId::SEND), all(shape, BufferId::RECV), &[]);
    }
    shape.ranks == 1
}

pub(crate) fn all(shape: &Shape, buffer: BufferId) -> Span {
    build::range(buffer, 0, shape.count)
}

/// What goes down: to the children on other hosts first, as that takes longest. The root has it in `given`,
/// or in the receive buffer; others wait for flag `flag` of a parent near by.
pub(crate) fn down(shape: &Shape, edges: &Edges, flag: u16, given: Option<Span>, b: &mut Builder) {
    let (result, bank) = (all(shape, BufferId::RECV), all(shape, BufferId::BANK));
    // Children near by need it more urgently than the user.
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

/// What goes up, combined in `into` where there is something to combine. Returns where it is at the root.
pub(crate) fn up(shape: &Shape, edges: &Edges, into: BufferId, b: &mut Builder) -> Span {
    let (own, into) = (all(shape, own(shape)), all(shape, into));
    let mut sum = Sum { shape, have: None, into, room: None };
    if shape.commutative {
        // Its own, then those that need no message.
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

/// What a rank combines, from right to left.
struct Sum<'a> {
    shape: &'a Shape,
    /// Where what has been combined so far is.
    have: Option<Span>,
    into: Span,
    /// For what comes by message.
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
