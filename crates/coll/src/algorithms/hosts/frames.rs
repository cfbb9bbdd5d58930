//! Gatherv, scatterv and alltoallv on several hosts. The data from the ranks of one host to those of another
//! travel as one message between their leaders, although no leader knows the lengths of the blocks.
//!
//! Only the sender and the receiver of a block know its length. Short blocks therefore travel in frames
//! ([`Kind::Pack`]), which all have one length and contain that of the block, along the routes of blocks of
//! equal size ([`crate::algorithms::hosts::bank_moves`]). Long blocks gain nothing from being combined, and
//! are sent from rank to rank meanwhile. Both ends know which of the two applies ([`Params::segment`]), also
//! on the same host. The rank that unpacks a frame checks that its sender has the same length. That includes
//! long blocks, whose frames are empty.

use std::sync::Arc;

use crate::algorithms::banks::READY;
use crate::algorithms::hosts::bank_moves::{Pairs, Stars};
use crate::algorithms::hosts::{Hosts, Sending};
use crate::algorithms::messages::alltoall;
use crate::algorithms::messages::gather::division;
use crate::build::{self, Builder};
use crate::generator::need::LEVELS_SHARED;
use crate::generator::parameters::{FRAMES_NEAR, FRAMES_RADIX_NEAR};
use crate::generator::{Generator, entry};
use crate::hierarchy::Ignored;
use crate::ir::{BufferId, Division, Index, Kind, Span};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Gatherv, "levels_frames", LEVELS_SHARED, FRAMES_RADIX_NEAR, gatherv, work::messages::rooted_tree),
    entry(C::Scatterv, "levels_frames", LEVELS_SHARED, FRAMES_RADIX_NEAR, scatterv, work::messages::rooted_tree),
    entry(C::Alltoallv, "levels_frames", LEVELS_SHARED, FRAMES_NEAR, alltoallv, work::messages::spread),
];

/// Number of long blocks under way, in each direction.
const STREAMS: u32 = 2;
/// Lane of long blocks; leaders use lane 0.
const LONG: u16 = 1;
/// Private flag: the receive buffer may be written.
const SAVED: u16 = Kind::FLAGS + 1;

/// Frames side by side in a bank.
#[derive(Clone, Copy)]
struct Frames {
    /// Units of the longest block that fits.
    most: u64,
    /// Units of a frame, with its header.
    units: u64,
}

impl Frames {
    fn new(params: &Params) -> Frames {
        Frames { most: params.segment, units: params.segment + Kind::FRAME_HEADER }
    }

    /// Returns frame `index` of the bank.
    fn frame(&self, index: impl Into<Index>) -> Span {
        build::slot(BufferId::BANK, 0, self.units, index, build::range(BufferId::BANK, 0, self.units))
    }

    /// Returns `count` consecutive frames, beginning with `first`.
    fn all(&self, first: u32, count: u32) -> Span {
        build::range(BufferId::BANK, u64::from(first) * self.units, u64::from(count) * self.units)
    }

    /// Writes the strands of the long blocks that one rank exchanges with all others. `body` gets the other
    /// ranks and the blocks.
    fn long(
        &self,
        shape: &Shape,
        buffer: BufferId,
        division: Division,
        direction: i64,
        b: &mut Builder,
        body: impl Fn(Index, Span, &mut Builder),
    ) {
        for stream in 0..STREAMS {
            let count = (shape.ranks - 1).saturating_sub(stream).div_ceil(STREAMS);
            let first = i64::from(shape.rank) + direction * i64::from(1 + stream);
            let other = Index::cyclic(first, direction * i64::from(STREAMS), shape.ranks);
            b.strand();
            b.repeat(count, 1, |b| {
                body(other, build::beyond(buffer, division, other, self.most), b);
            });
        }
    }
}

/// Gathers up a tree of hosts: leaders collect the frames of their hosts.
pub fn gatherv(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let mine = build::range(BufferId::SEND, 0, shape.count);
    if shape.is_root() && !shape.in_place {
        b.copy(mine, build::block(BufferId::RECV, division(shape), shape.root), &[]);
    }
    if shape.ranks == 1 {
        return;
    }
    let (frames, stars) = (Frames::new(params), Stars::new(shape, params, b));
    b.bank(frames.units * u64::from(shape.ranks));
    let low = stars.tree.low;
    let slot = |position: Index| frames.frame(Index { base: position.base - i64::from(low), ..position });
    let Some(parent) = stars.tree.parent else { return gatherv_at_root(shape, frames, &stars, b) };
    b.pack(mine, frames.frame(0));
    if stars.leader().is_some() {
        b.post(READY, 1);
    } else {
        stars.each_near(b, |child, position, b| {
            b.wait(child, READY, 1);
            b.pull(child, frames.frame(0), slot(position));
        });
        for child in &stars.far {
            b.recv(child.rank, 0, frames.all(child.low - low, child.high - child.low), &[]);
        }
        b.send(parent, 0, frames.all(0, stars.tree.high - low), &[]);
    }
    if shape.count > frames.most {
        b.strand();
        b.send(shape.root, LONG, mine, &[]);
    }
}

fn gatherv_at_root(shape: &Shape, frames: Frames, stars: &Stars, b: &mut Builder) {
    let blocks = division(shape);
    b.permute(stars.hierarchy.order().into());
    stars.each_near(b, |child, _, b| {
        b.wait(child, READY, 1);
        b.unpack(child, frames.frame(0), build::block(BufferId::RECV, blocks, child));
    });
    for child in &stars.far {
        b.recv(child.rank, 0, frames.all(child.low, child.high - child.low), &[]);
        let place = Index::linear(child.low.into(), 1);
        b.repeat(child.high - child.low, 1, |b| {
            b.unpack(shape.root, frames.frame(place), build::permuted(BufferId::RECV, blocks, place));
        });
    }
    frames.long(shape, BufferId::RECV, blocks, 1, b, |other, block, b| {
        b.recv(other, LONG, block, &[]);
    });
}

/// Scatters down a tree of hosts: the other ranks of a host find their frames in the bank of their leader.
pub fn scatterv(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let mine = build::range(BufferId::RECV, 0, shape.count);
    if shape.is_root() && !shape.in_place {
        b.copy(build::block(BufferId::SEND, division(shape), shape.root), mine, &[]);
    }
    if shape.ranks == 1 {
        return;
    }
    let (frames, stars) = (Frames::new(params), Stars::new(shape, params, b));
    b.bank(frames.units * u64::from(shape.ranks));
    let Some(parent) = stars.tree.parent else { return scatterv_at_root(shape, frames, &stars, b) };
    if let Some(leader) = stars.leader() {
        b.wait(leader, READY, 1);
        b.unpack(leader, frames.frame(stars.position - stars.start), mine);
    } else {
        let low = stars.tree.low;
        b.recv(parent, 0, frames.all(0, stars.tree.high - low), &[]);
        for child in &stars.far {
            b.send(child.rank, 0, frames.all(child.low - low, child.high - child.low), &[]);
        }
        if stars.size > 1 {
            b.post(READY, 1);
        }
        b.unpack(shape.rank, frames.frame(0), mine);
    }
    if shape.count > frames.most {
        b.strand();
        b.recv(shape.root, LONG, mine, &[]);
    }
}

/// Writes the root's part of a scatterv. Its bank begins with the frames of its own host, as that of every
/// leader does; the others follow around the order.
fn scatterv_at_root(shape: &Shape, frames: Frames, stars: &Stars, b: &mut Builder) {
    let (blocks, start) = (division(shape), stars.start);
    b.permute(stars.hierarchy.order().into());
    for (first, count, slot) in [(start, shape.ranks - start, 0), (0, start, shape.ranks - start)] {
        let (place, slot) = (Index::linear(first.into(), 1), Index::linear(slot.into(), 1));
        b.repeat(count, 1, |b| {
            b.pack(build::permuted(BufferId::SEND, blocks, place), frames.frame(slot));
        });
    }
    if stars.size > 1 {
        b.post(READY, 1);
    }
    for child in &stars.far {
        let slot = (child.low + shape.ranks - start) % shape.ranks;
        b.send(child.rank, 0, frames.all(slot, child.high - child.low), &[]);
    }
    frames.long(shape, BufferId::SEND, blocks, 1, b, |other, block, b| {
        b.send(other, LONG, block, &[]);
    });
}

/// Exchanges blocks: every rank packs its blocks into its bank; leaders send each other host the frames for
/// it.
pub fn alltoallv(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let (_, received) = alltoall::divisions(shape);
    let (buffer, sent) = alltoall::source(shape, b);
    if !shape.in_place {
        let mine = build::block(buffer, sent, shape.rank);
        b.copy(mine, build::block(BufferId::RECV, received, shape.rank), &[]);
    }
    if shape.ranks == 1 {
        return;
    }
    let saved = |b: &mut Builder| {
        if shape.in_place {
            b.wait(shape.rank, SAVED, 1);
        }
    };
    if shape.in_place {
        b.post(SAVED, 1);
    }
    let frames = Frames::new(params);
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::WITHIN_NODE), shape.rank);
    let framed = Shape { count: frames.units, ..*shape };
    let pairs = Pairs { shape: &framed, hosts: &hosts };
    b.bank(pairs.bank_units());
    b.permute(Arc::clone(&hosts.order));
    let each = Index::linear(0, 1);
    b.repeat(shape.ranks, 1, |b| {
        b.pack(build::permuted(buffer, sent, each), frames.frame(each));
    });
    if hosts.size(hosts.mine) > 1 {
        b.post(READY, 1);
    }
    let mut sending = Sending::new(shape.rank);
    if hosts.leads() && hosts.count() > 1 {
        pairs.lead(&mut sending, b);
    }
    pairs.fetch(received, b, |peer, from, into, b| {
        b.unpack(peer, from, into);
    });
    sending.finish(b);
    frames.long(shape, BufferId::RECV, received, -1, b, |other, block, b| {
        saved(b);
        b.recv(other, LONG, block, &[]);
    });
    frames.long(shape, buffer, sent, 1, b, |other, block, b| {
        saved(b);
        b.send(other, LONG, block, &[]);
    });
}
