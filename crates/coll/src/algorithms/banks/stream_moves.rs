//! Gather, scatter, allgather, alltoall, reduce_scatter and scan of large data through banks, a segment of
//! every block at a time. They serve ranks that share memory but cannot access each other's memory.

use crate::algorithms::banks::stream::Stream;
use crate::algorithms::banks::{Folding, READY};
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::{FEW, SHARED};
use crate::generator::parameters::PIPELINE;
use crate::generator::{Generator, entry, left, ordered, right};
use crate::ir::{BufferId, Division, Index, Span, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Gather, "bank_stream", FEW, PIPELINE, gather, work::node::stream_gather),
    entry(C::Scatter, "bank_stream", FEW, PIPELINE, scatter, work::node::stream_gather),
    entry(C::Allgather, "bank_stream", FEW, PIPELINE, allgather, work::node::stream_all),
    entry(C::Allgatherv, "bank_stream", FEW, PIPELINE, allgatherv, work::node::stream_all),
    entry(C::Alltoall, "bank_stream", FEW, PIPELINE, alltoall, work::node::stream_all),
    right(entry(C::ReduceScatterBlock, "bank_stream", FEW, PIPELINE, reduce_scatter, work::node::stream_all)),
    ordered(left(entry(C::Scan, "bank_stream", SHARED, PIPELINE, scan, work::node::stream_chain))),
    ordered(left(entry(C::Exscan, "bank_stream", SHARED, PIPELINE, scan, work::node::stream_chain))),
];

/// Returns the segment of block `rank`.
fn of_block(shape: &Shape, stream: &Stream, buffer: BufferId, rank: u32) -> Span {
    stream.piece_at(buffer, u64::from(rank) * shape.count)
}

/// Returns the ranks after this one, around the ring, each with the place of its data in this rank's bank.
fn around(shape: &Shape) -> impl Iterator<Item = (u32, u32)> {
    let Shape { rank, ranks, .. } = *shape;
    (0..ranks - 1).map(move |place| ((rank + 1 + place) % ranks, place))
}

/// Returns the place of this rank's data in the bank of `peer`.
fn place_at(shape: &Shape, peer: u32) -> u32 {
    (shape.rank + shape.ranks - peer - 1) % shape.ranks
}

/// Copies the segments for all others into the bank and says so.
fn lay_out(shape: &Shape, stream: &Stream, buffer: BufferId, b: &mut Builder) {
    stream.free_of_others(shape, b);
    for (peer, place) in around(shape) {
        b.copy(of_block(shape, stream, buffer, peer), stream.place(place), &[]);
    }
    b.post(READY, stream.number(1));
}

/// Gathers: the root reads the banks of all others.
pub fn gather(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let mine = build::range(BufferId::SEND, 0, shape.count);
    let division = Division::Regular { size: shape.count, total: shape.count * u64::from(shape.ranks) };
    if shape.is_root() && !shape.in_place {
        b.copy(mine, build::block(BufferId::RECV, division, shape.rank), &[]);
    }
    if shape.ranks == 1 {
        return;
    }
    let stream = Stream::new(shape.count, params);
    stream.bank(1, b);
    if shape.is_root() {
        stream.open(b);
    }
    stream.each(b, |b| {
        if !shape.is_root() {
            stream.free(shape.root.into(), b);
            b.copy(stream.piece(BufferId::SEND), stream.place(0), &[]);
            b.post(READY, stream.number(1));
            return;
        }
        for (peer, _) in around(shape) {
            b.wait(peer, READY, stream.number(1));
            b.pull(peer, stream.place(0), of_block(shape, &stream, BufferId::RECV, peer));
        }
        stream.taken(b);
    });
}

/// Scatters: every rank reads the bank of the root.
pub fn scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let stream = Stream::new(shape.count, params);
    if shape.ranks > 1 {
        stream.bank(shape.ranks - 1, b);
        if !shape.is_root() {
            stream.open(b);
        }
        stream.each(b, |b| {
            if shape.is_root() {
                return lay_out(shape, &stream, BufferId::SEND, b);
            }
            b.wait(shape.root, READY, stream.number(1));
            b.pull(shape.root, stream.place(place_at(shape, shape.root)), stream.piece(BufferId::RECV));
            stream.taken(b);
        });
    }
    if shape.is_root() && !shape.in_place {
        let mine = build::range(BufferId::SEND, u64::from(shape.rank) * shape.count, shape.count);
        b.copy(mine, build::range(BufferId::RECV, 0, shape.count), &[]);
    }
}

/// Gathers all blocks: every rank reads the banks of all others.
pub fn allgather(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let stream = Stream::new(shape.count, params).in_lockstep();
    stream.bank(1, b);
    stream.each(b, |b| {
        let mine = of_block(shape, &stream, BufferId::RECV, shape.rank);
        let source = if shape.in_place { mine } else { stream.piece(BufferId::SEND) };
        b.copy(source, stream.place(0), &[]);
        b.post(READY, stream.number(1));
        if !shape.in_place {
            b.copy(source, mine, &[]);
        }
        for (peer, _) in around(shape) {
            b.wait(peer, READY, stream.number(1));
            b.pull(peer, stream.place(0), of_block(shape, &stream, BufferId::RECV, peer));
        }
    });
}

/// Gathers blocks whose lengths are in a table. Each block is cut into the same number of parts. No part is
/// longer than a segment, whatever the lengths are.
pub fn allgatherv(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let stream = Stream::new(shape.count, params).in_lockstep();
    stream.bank(1, b);
    let (parts, division) = (stream.count(), Division::Table(Table::Recv));
    let own = build::block(BufferId::RECV, division, shape.rank);
    if !shape.in_place {
        b.copy(build::slot(BufferId::SEND, 0, 0, 0, own), own, &[]);
    }
    if shape.ranks == 1 {
        return;
    }
    stream.each(b, |b| {
        let part = |rank: u32| build::part(BufferId::RECV, division, rank, (stream.number(0), parts));
        let banked = |rank| Span { length: part(rank).length, ..stream.place(0) };
        b.copy(part(shape.rank), banked(shape.rank), &[]);
        b.post(READY, stream.number(1));
        for (peer, _) in around(shape) {
            b.wait(peer, READY, stream.number(1));
            b.pull(peer, banked(peer), part(peer));
        }
    });
}

/// Exchanges blocks: every rank reads its blocks from the banks of all others. In place, a segment is in the
/// bank before it is overwritten.
pub fn alltoall(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let stream = Stream::new(shape.count, params).in_lockstep();
    if shape.ranks > 1 {
        stream.bank(shape.ranks - 1, b);
    }
    stream.each(b, |b| {
        if shape.ranks > 1 {
            lay_out(shape, &stream, own(shape), b);
        }
        if !shape.in_place {
            let mine = |buffer| of_block(shape, &stream, buffer, shape.rank);
            b.copy(mine(BufferId::SEND), mine(BufferId::RECV), &[]);
        }
        for (peer, _) in around(shape) {
            let target = of_block(shape, &stream, BufferId::RECV, peer);
            b.wait(peer, READY, stream.number(1));
            b.pull(peer, stream.place(place_at(shape, peer)), target);
        }
    });
}

/// Reduces and scatters: every rank combines its block out of the banks of all. In place it works like
/// [`alltoall`].
pub fn reduce_scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let (rank, ranks) = (shape.rank, shape.ranks);
    let stream = Stream::new(shape.count, params).in_lockstep();
    if ranks == 1 {
        let all = |buffer| build::range(buffer, 0, shape.count);
        return Folding::alone(all(own(shape)), all(BufferId::RECV), b);
    }
    stream.bank(ranks - 1, b);
    let in_the_way = shape.in_place && rank == 0 && !shape.commutative;
    let saved = in_the_way.then(|| b.temporary(stream.size()));
    stream.each(b, |b| {
        lay_out(shape, &stream, own(shape), b);
        let result = stream.piece(BufferId::RECV);
        let mut mine =
            if rank == 0 { stream.piece(own(shape)) } else { of_block(shape, &stream, own(shape), rank) };
        if let Some(saved) = saved {
            let room = build::slot(saved, 0, 0, 0, mine);
            b.copy(mine, room, &[]);
            mine = room;
        }
        let theirs = |peer: Index| stream.place(place_at(shape, peer.in_iteration(0) as u32));
        let mut folding = Folding::new(mine, result);
        for (peer, _) in around(shape) {
            b.wait(peer, READY, stream.number(1));
        }
        if shape.commutative {
            folding.own(b);
            for (peer, _) in around(shape) {
                folding.peers(peer.into(), 1, None, theirs, b);
            }
        } else {
            for peer in (rank + 1..ranks).rev() {
                folding.peers(peer.into(), 1, None, theirs, b);
            }
            folding.own(b);
            for peer in (0..rank).rev() {
                folding.peers(peer.into(), 1, None, theirs, b);
            }
        }
        folding.finish(b);
    });
}

/// Computes prefixes from rank to rank.
pub fn scan(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let exclusive = shape.collective == Collective::Exscan;
    let stream = Stream::new(shape.count, params);
    let previous = shape.rank.checked_sub(1);
    let next = Some(shape.rank + 1).filter(|next| *next < shape.ranks);
    if shape.ranks > 1 {
        stream.bank(1, b);
    }
    if previous.is_some() {
        stream.open(b);
    }
    let (mine, result, slot) = (stream.piece(own(shape)), stream.piece(BufferId::RECV), stream.place(0));
    stream.each(b, |b| {
        if let Some(next) = next {
            stream.free(next.into(), b);
        }
        if let Some(previous) = previous {
            b.wait(previous, READY, stream.number(1));
        }
        match (previous, next) {
            (None, None) => {}
            (None, Some(_)) => _ = b.copy(mine, slot, &[]),
            (Some(previous), Some(_)) => _ = b.combine(previous, slot, mine, slot),
            (Some(previous), None) if !exclusive => _ = b.combine(previous, slot, mine, result),
            (Some(_), None) => {}
        }
        if next.is_some() {
            b.post(READY, stream.number(1));
        }
        match previous {
            Some(previous) if exclusive => _ = b.pull(previous, slot, result),
            Some(_) if next.is_some() => _ = b.copy(slot, result, &[]),
            None if !exclusive && !shape.in_place => _ = b.copy(mine, result, &[]),
            _ => {}
        }
        if previous.is_some() {
            stream.taken(b);
        }
    });
}
