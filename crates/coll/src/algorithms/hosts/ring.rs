//! An allgather whose levels overlap, of blocks of one size or of sizes given by a table. It follows the ring
//! of S3, in which the ranks of a host are neighbours.
//!
//! The blocks of other hosts arrive at the first rank of a host (its head). They pass from neighbour to
//! neighbour within the host by copies, and leave at the last rank (its tail) for the next host. A block
//! never returns to its own host, so each host gets every foreign block once, the least possible. The blocks
//! of the host itself go around within it. All of that runs side by side.

use std::sync::Arc;

use crate::algorithms::hosts::levels::READY;
use crate::algorithms::messages::{allgather, gather};
use crate::build::{self, Builder};
use crate::generator::need::LEVELS;
use crate::generator::parameters::FIXED_NEAR;
use crate::generator::{Generator, entry};
use crate::hierarchy::{Hierarchy, Ignored, NETWORK, Ring};
use crate::ir::{Access, BufferId, Division, Index, Span};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Allgather, "levels_ring", LEVELS, FIXED_NEAR, allgather, work::messages::allgather_ring),
    entry(C::Allgatherv, "levels_ring", LEVELS, FIXED_NEAR, allgather, work::messages::allgather_ring),
];

/// First of the flags that count foreign blocks, one for each stream: blocks alternate.
const HERE: u16 = 0;
const STREAMS: u32 = 2;
/// Flag that counts the blocks of the host.
const LOCAL: u16 = 2;
/// Flags of a rank that has all blocks of the host, and of one that has all foreign blocks.
const LOCAL_DONE: u16 = 3;
const FOREIGN_DONE: u16 = 4;

/// Place of a rank in the ring. Positions are those of the ring, and cyclic.
struct Stretch {
    me: u32,
    ranks: u32,
    /// Position of this rank in the ring.
    at: u32,
    /// Number of ranks of its host before it, and after it.
    before: u32,
    after: u32,
    /// Number of ranks of the host that receives from the tail.
    next_host: u32,
    left: u32,
    right: u32,
    /// Left neighbour within the host, where that of the head is the tail; and the right one likewise.
    local_left: u32,
    local_right: u32,
}

/// Gathers all blocks around the ring.
pub fn allgather(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let ring = b.hierarchy(shape.ranks, params.ignored).ring();
    let blocks = allgather::division(shape);
    b.permute(Arc::clone(&ring.order));
    gather::place_own(shape, blocks, b);
    if shape.ranks == 1 || shape.count == 0 {
        return;
    }
    let place = Stretch::new(&ring, &b.hierarchy(shape.ranks, Ignored::NONE), shape.rank);
    lend(shape, &place, b);
    around_host(&place, blocks, b);
    arrive(&place, blocks, b);
    leave(&place, blocks, b);
}

impl Stretch {
    fn new(ring: &Ring, hosts: &Hierarchy, rank: u32) -> Stretch {
        let ranks = ring.order.len() as u32;
        let at = ring.position(rank);
        let on = |position: u32| ring.order[(position % ranks) as usize];
        let together = |one: u32, two: u32| one == two || hosts.distance(one, two) != NETWORK;
        let near = |position: u32| together(rank, on(position));
        let before = (1..ranks).take_while(|back| near(at + ranks - back)).count() as u32;
        let after = (1..ranks - before).take_while(|step| near(at + step)).count() as u32;
        let tail = at + after;
        let next = on(tail + 1);
        let next_host = (1..ranks).take_while(|step| together(next, on(tail + step))).count() as u32;
        let local_left = if before > 0 { ring.left(rank) } else { on(tail) };
        let local_right = if after > 0 { ring.right(rank) } else { on(at + ranks - before) };
        let (left, right) = (ring.left(rank), ring.right(rank));
        Stretch { me: rank, ranks, at, before, after, next_host, left, right, local_left, local_right }
    }

    /// Returns the number of ranks of its host.
    fn neighbours(&self) -> u32 {
        self.before + 1 + self.after
    }

    /// Returns the number of blocks of other hosts.
    fn foreign(&self) -> u32 {
        self.ranks - self.neighbours()
    }

    /// Returns the block at position `at + offset`, and one that is `step` further in each iteration.
    fn block(&self, blocks: Division, buffer: BufferId, offset: i64, step: i64) -> Span {
        build::permuted(buffer, blocks, Index::cyclic(i64::from(self.at) + offset, step, self.ranks))
    }

    /// Returns the foreign block with which stream `stream` begins, and every other one after it.
    fn stream(&self, blocks: Division, buffer: BufferId, first: u32, step: u32) -> Span {
        let offset = -i64::from(self.before) - 1 - i64::from(first);
        self.block(blocks, buffer, offset, -i64::from(step))
    }
}

/// Writes the first strand, which exposes the result to the neighbours within the host until they have copied
/// it.
fn lend(shape: &Shape, place: &Stretch, b: &mut Builder) {
    if place.neighbours() > 1 {
        let blocks = if shape.collective == Collective::Allgatherv { 1 } else { u64::from(shape.ranks) };
        b.expose(0, build::range(BufferId::RECV, 0, shape.count * blocks), Access::ReadWrite);
    }
    b.post(READY, 1);
    if place.neighbours() > 1 {
        b.wait(place.local_right, LOCAL_DONE, 1);
    }
    if place.after > 0 && place.foreign() > 0 {
        b.wait(place.right, FOREIGN_DONE, 1);
    }
}

/// Writes the strand of the host's own blocks: each comes from the neighbour on the left.
fn around_host(place: &Stretch, blocks: Division, b: &mut Builder) {
    if place.neighbours() == 1 {
        return;
    }
    b.strand();
    b.wait(place.local_left, READY, 1);
    // First the blocks before this rank, then from the tail backwards those after it.
    for (count, first, offset) in [(place.before, 0, -1), (place.after, place.before, i64::from(place.after))]
    {
        b.repeat(count, 1, |b| {
            let had = Index::linear(first.into(), 1);
            b.wait(place.local_left, LOCAL, had);
            let from = place.block(blocks, BufferId::exposed(0), offset, -1);
            b.pull(place.local_left, from, place.block(blocks, BufferId::RECV, offset, -1));
            b.post(LOCAL, Index::linear(i64::from(first) + 1, 1));
        });
    }
    b.post(LOCAL_DONE, 1);
}

/// Writes the strands by which foreign blocks come: messages at the head, copies elsewhere.
fn arrive(place: &Stretch, blocks: Division, b: &mut Builder) {
    if place.foreign() == 0 {
        return;
    }
    if place.before == 0 {
        for stream in 0..STREAMS.min(place.foreign()) {
            b.strand();
            b.repeat((place.foreign() - stream).div_ceil(STREAMS), 1, |b| {
                let into = place.stream(blocks, BufferId::RECV, stream, STREAMS);
                b.recv(place.left, stream as u16, into, &[]);
                b.post(HERE + stream as u16, Index::linear(1, 1));
            });
        }
        return;
    }
    b.strand();
    b.wait(place.left, READY, 1);
    b.repeat(place.foreign() / STREAMS, 1, |b| {
        (0..STREAMS).for_each(|stream| fetch(place, blocks, stream, Index::linear(1, 1), b));
    });
    if !place.foreign().is_multiple_of(STREAMS) {
        let last = place.foreign() - 1;
        let from = place.stream(blocks, BufferId::exposed(0), last, 0);
        let count = Index::fixed(u64::from(last / STREAMS) + 1);
        b.wait(place.left, HERE, count);
        b.pull(place.left, from, place.stream(blocks, BufferId::RECV, last, 0));
        b.post(HERE, count);
    }
    b.post(FOREIGN_DONE, 1);
}

/// Fetches the foreign block of a stream from the neighbour on the left.
fn fetch(place: &Stretch, blocks: Division, stream: u32, count: Index, b: &mut Builder) {
    b.wait(place.left, HERE + stream as u16, count);
    let from = place.stream(blocks, BufferId::exposed(0), stream, STREAMS);
    b.pull(place.left, from, place.stream(blocks, BufferId::RECV, stream, STREAMS));
    b.post(HERE + stream as u16, count);
}

/// Writes the strands by which blocks leave the tail: those of the host, then foreign ones except those of
/// the next host.
fn leave(place: &Stretch, blocks: Division, b: &mut Builder) {
    if place.after > 0 || place.foreign() == 0 {
        return;
    }
    let (own, foreign) = (place.neighbours(), place.foreign() - place.next_host);
    for stream in 0..STREAMS.min(own + foreign) {
        b.strand();
        if stream == 0 {
            b.wait(place.me, READY, 1);
        }
        let lane = stream as u16;
        b.repeat(own.saturating_sub(stream).div_ceil(STREAMS), 1, |b| {
            if own > 1 {
                b.wait(place.me, LOCAL, Index::linear(stream.into(), STREAMS.into()));
            }
            let step = -i64::from(STREAMS);
            b.send(place.right, lane, place.block(blocks, BufferId::RECV, -i64::from(stream), step), &[]);
        });
        // Messages alternate between the streams on the whole way.
        let first = (stream + own) % STREAMS;
        b.repeat(foreign.saturating_sub(first).div_ceil(STREAMS), 1, |b| {
            b.wait(place.me, HERE + first as u16, Index::linear(1, 1));
            b.send(place.right, lane, place.stream(blocks, BufferId::RECV, first, STREAMS), &[]);
        });
    }
}
