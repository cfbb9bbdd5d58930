//! Neighbourhood collectives: a block to every destination, one from every source (MPI-5 section 8.6), in one
//! hop.

use std::collections::HashMap;

use crate::build::{self, Builder};
use crate::generator::need::ANY;
use crate::generator::parameters::FIXED;
use crate::generator::{Generator, entry};
use crate::ir::LANES;
use crate::ir::{BufferId, Division, Edge, Span, StepId, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::NeighborAllgather, "direct", ANY, FIXED, direct, work::messages::neighbourhood),
    entry(C::NeighborAllgatherv, "direct", ANY, FIXED, direct, work::messages::neighbourhood),
    entry(C::NeighborAlltoall, "direct", ANY, FIXED, direct, work::messages::neighbourhood),
    entry(C::NeighborAlltoallv, "direct", ANY, FIXED, direct, work::messages::neighbourhood),
];

/// Lanes of several messages between the same two ranks. They are used in turn, so that each side may process
/// all messages at the same time.
#[derive(Default)]
struct Lanes(HashMap<u32, Vec<StepId>>);

impl Lanes {
    /// Returns the lane of the next message with `peer`, and the edge to the step that it follows.
    fn next(&mut self, peer: u32, step: StepId) -> (u16, Option<Edge>) {
        let steps = self.0.entry(peer).or_default();
        let number = steps.len();
        steps.push(step);
        let before = number.checked_sub(usize::from(LANES)).map(|number| steps[number].done());
        ((number % usize::from(LANES)) as u16, before)
    }
}

/// Sends to all destinations and receives from all sources at once.
pub fn direct(shape: &Shape, _: &Params, b: &mut Builder) {
    let neighbours = b.neighbours();
    let (mut from_self, mut to_self) = (Vec::new(), Vec::new());
    let mut lanes = Lanes::default();
    for (block, source) in neighbours.receives() {
        if source == shape.rank {
            from_self.push(block);
            continue;
        }
        let (lane, before) = lanes.next(source, b.upcoming());
        b.recv(source, lane, received(shape, neighbours.sources.len(), block), before.as_slice());
    }
    let mut lanes = Lanes::default();
    for (block, destination) in neighbours.sends() {
        if destination == shape.rank {
            to_self.push(block);
            continue;
        }
        let (lane, before) = lanes.next(destination, b.upcoming());
        b.send(destination, lane, sent(shape, neighbours.destinations.len(), block), before.as_slice());
    }
    for (from, into) in to_self.into_iter().zip(from_self) {
        let from = sent(shape, neighbours.destinations.len(), from);
        b.copy(from, received(shape, neighbours.sources.len(), into), &[]);
    }
    b.join();
}

/// Returns block `block` of the data for `all` destinations.
fn sent(shape: &Shape, all: usize, block: u32) -> Span {
    let division = match shape.collective {
        Collective::NeighborAlltoall => Division::Regular { size: shape.own, total: shape.own * all as u64 },
        Collective::NeighborAlltoallv => Division::Table(Table::Send),
        _ => return build::range(BufferId::SEND, 0, shape.own),
    };
    build::block(BufferId::SEND, division, block)
}

/// Returns block `block` of the data from `all` sources.
fn received(shape: &Shape, all: usize, block: u32) -> Span {
    let division = match shape.collective {
        Collective::NeighborAllgatherv | Collective::NeighborAlltoallv => Division::Table(Table::Recv),
        _ => Division::Regular { size: shape.count, total: shape.count * all as u64 },
    };
    build::block(BufferId::RECV, division, block)
}
