//! Broadcast, gather, scatter, allgather and alltoall by a single copy (Ma, sections 3.5 and 3.6). Idle ranks
//! make the copies: readers of one source, writers to one target, all ranks among peers.

use crate::algorithms::banks::{READY, await_others, others};
use crate::algorithms::exposed::{DONE, SOURCE, TARGET, part};
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::EXPOSED;
use crate::generator::parameters::{FIXED, PIPELINE, PIPELINE_READERS, READERS};
use crate::generator::{Generator, entry};
use crate::ir::{Access, BufferId, Division, Index, Length, Loop, Span, Start, Table};
use crate::shape::{Collective as C, Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Bcast, "exposed", EXPOSED, PIPELINE_READERS, bcast, work::node::exposed_from_root),
    entry(C::Bcast, "exposed_both", EXPOSED, PIPELINE, bcast_both, work::node::exposed_bcast_both),
    entry(C::Gather, "exposed", EXPOSED, READERS, gather, work::node::exposed_from_root),
    entry(C::Gatherv, "exposed", EXPOSED, READERS, gather, work::node::exposed_from_root),
    entry(C::Gather, "exposed_pull", EXPOSED, FIXED, gather_pull, work::node::exposed_to_root),
    entry(C::Gatherv, "exposed_pull", EXPOSED, FIXED, gather_pull, work::node::exposed_to_root),
    entry(C::Scatter, "exposed", EXPOSED, READERS, scatter, work::node::exposed_from_root),
    entry(C::Scatterv, "exposed", EXPOSED, READERS, scatter, work::node::exposed_from_root),
    entry(C::Allgather, "exposed", EXPOSED, FIXED, allgather, work::node::exposed_all),
    entry(C::Allgatherv, "exposed", EXPOSED, FIXED, allgather, work::node::exposed_all),
    entry(C::Alltoall, "exposed", EXPOSED, FIXED, alltoall, work::node::exposed_all),
    entry(C::Alltoallv, "exposed", EXPOSED, FIXED, alltoall, work::node::exposed_all),
];

/// Broadcasts: every rank reads the buffer of the root, in pieces, each rank beginning with a different one.
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    if shape.is_root() {
        b.expose(0, build::range(BufferId::RECV, 0, shape.count), Access::Read);
        b.post(READY, 1);
        return await_others(shape, DONE, 1, b);
    }
    b.wait(shape.root, READY, 1);
    queue(shape, params, b);
    read_rotated(shape, shape.count, params, b);
    b.post(DONE, 1);
}

/// Waits until fewer than [`Params::readers`] others read the memory of the root: every rank follows the rank
/// that many places before it. Too many at a time slow each other down, in the kernel's locks and at the
/// memory of the root (Ma, section 4.5.2).
fn queue(shape: &Shape, params: &Params, b: &mut Builder) {
    let before = shape.neighbour(-1 - i64::from(shape.root));
    if params.readers > 0 && before >= params.readers {
        b.wait(shape.neighbour(-i64::from(params.readers)), DONE, 1);
    }
}

/// Reads the first `units` units of the root's buffer.
fn read_rotated(shape: &Shape, units: u64, params: &Params, b: &mut Builder) {
    let size = if params.segment == 0 { units } else { params.segment.min(units) };
    let size = size.max(units.div_ceil(u64::from(u32::MAX))).max(1);
    let count = units.div_ceil(size) as u32;
    let division = Division::Regular { size, total: units };
    let turn = (shape.rank + shape.ranks - shape.root - 1) % shape.ranks;
    let first = u64::from(turn) * u64::from(count) / u64::from(shape.ranks - 1);
    b.each(Index::cyclic(first as i64, 1, count), count, |piece, b| {
        let piece = |buffer| build::block(buffer, division, piece);
        b.pull(shape.root, piece(SOURCE), piece(BufferId::RECV));
    });
}

/// Broadcasts with a share of the root. It writes the last of as many equal parts as there are ranks to every
/// rank; the ranks read the other parts.
pub fn bcast_both(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    let read = shape.count - shape.count / u64::from(shape.ranks);
    let rest = |buffer, start| build::range(buffer, start, shape.count - read);
    if shape.is_root() {
        b.expose(0, build::range(BufferId::RECV, 0, read), Access::Read);
        b.post(READY, 1);
        b.repeat(shape.ranks - 1, 1, |b| {
            b.wait(others(shape), READY, 1);
            b.push(others(shape), rest(BufferId::RECV, read), rest(TARGET, 0));
        });
        b.post(DONE, 1);
        return await_others(shape, DONE, 1, b);
    }
    b.expose(1, rest(BufferId::RECV, read), Access::Write);
    b.post(READY, 1);
    b.wait(shape.root, READY, 1);
    read_rotated(shape, read, params, b);
    b.post(DONE, 1);
    b.wait(shape.root, DONE, 1);
}

/// Returns the buffer with a block of every rank, and its division.
fn blocks(shape: &Shape) -> (BufferId, Division) {
    let total = shape.count * u64::from(shape.ranks);
    let regular = Division::Regular { size: shape.count, total };
    match shape.collective {
        C::Gatherv | C::Allgatherv => (BufferId::RECV, Division::Table(Table::Recv)),
        C::Scatterv => (BufferId::SEND, Division::Table(Table::Send)),
        C::Scatter => (BufferId::SEND, regular),
        _ => (BufferId::RECV, regular),
    }
}

/// Returns block `rank` of the root's buffer. Only the root knows the lengths and positions of all blocks.
fn block_of_root(shape: &Shape, exposed: BufferId) -> Span {
    let (_, division) = blocks(shape);
    match division {
        Division::Table(_) => Span {
            buffer: exposed,
            start: Start::Entry(shape.rank.into()),
            length: Length::Fixed(shape.count),
        },
        _ => build::block(exposed, division, shape.rank),
    }
}

/// Gathers: every rank writes its block into the buffer of the root.
pub fn gather(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let mine = build::range(BufferId::SEND, 0, shape.count);
    let (buffer, division) = blocks(shape);
    if !shape.is_root() {
        b.wait(shape.root, READY, 1);
        queue(shape, params, b);
        b.push(shape.root, mine, block_of_root(shape, TARGET));
        b.post(DONE, 1);
        return;
    }
    if shape.ranks > 1 {
        b.expose(1, build::blocks(buffer, division, 0, shape.ranks), Access::Write);
        b.post(READY, 1);
    }
    if !shape.in_place {
        b.copy(mine, build::block(buffer, division, shape.rank), &[]);
    }
    await_others(shape, DONE, 1, b);
}

/// Gathers: the root reads the blocks of all others. A short block is sent by value, and its sender does not
/// wait.
pub fn gather_pull(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let mine = build::range(BufferId::SEND, 0, shape.count);
    if !shape.is_root() {
        b.expose(0, mine, Access::Read);
        b.post(READY, 1);
        b.wait(shape.root, DONE, 1);
        return;
    }
    let (buffer, division) = blocks(shape);
    let block = |rank: Index| build::block(buffer, division, rank);
    if !shape.in_place {
        b.copy(mine, block(shape.rank.into()), &[]);
    }
    b.repeat(shape.ranks - 1, 1, |b| {
        let peer = others(shape);
        b.wait(peer, READY, 1);
        b.pull(peer, build::slot(SOURCE, 0, 0, 0, block(peer)), block(peer));
    });
    if shape.ranks > 1 {
        b.post(DONE, 1);
    }
}

/// Scatters: every rank reads its block of the buffer of the root.
pub fn scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let mine = build::range(BufferId::RECV, 0, shape.count);
    let (buffer, division) = blocks(shape);
    if !shape.is_root() {
        b.wait(shape.root, READY, 1);
        queue(shape, params, b);
        b.pull(shape.root, block_of_root(shape, SOURCE), mine);
        b.post(DONE, 1);
        return;
    }
    if shape.ranks > 1 {
        b.expose(0, build::blocks(buffer, division, 0, shape.ranks), Access::Read);
        b.post(READY, 1);
    }
    if !shape.in_place {
        b.copy(build::block(buffer, division, shape.rank), mine, &[]);
    }
    await_others(shape, DONE, 1, b);
}

/// Gathers all blocks: every rank reads the blocks of all others from their original place.
pub fn allgather(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let (buffer, division) = blocks(shape);
    let place = |rank: Index| build::block(buffer, division, rank);
    let mine = place(shape.rank.into());
    let source = if shape.in_place { mine } else { build::slot(BufferId::SEND, 0, 0, 0, mine) };
    if shape.ranks > 1 {
        b.expose(0, source, Access::Read);
        b.post(READY, 1);
    }
    if !shape.in_place {
        b.copy(source, mine, &[]);
    }
    b.repeat(shape.ranks - 1, 1, |b| {
        let peer = others(shape);
        b.wait(peer, READY, 1);
        b.pull(peer, build::slot(SOURCE, 0, 0, 0, place(peer)), place(peer));
    });
    if shape.ranks > 1 {
        part(shape, b);
    }
}

/// Returns the divisions of the send and the receive buffer of an alltoall.
fn divisions(shape: &Shape) -> (Division, Division) {
    if shape.collective == C::Alltoallv {
        return (Division::Table(Table::Send), Division::Table(Table::Recv));
    }
    let (_, regular) = blocks(shape);
    (regular, regular)
}

/// Returns the block for or from this rank in a peer's exposed buffer. It is as long as the own block `like`.
fn block_of_peer(shape: &Shape, exposed: BufferId, division: Division, like: Span) -> Span {
    match division {
        Division::Table(_) => Span { buffer: exposed, start: Start::Entry(shape.rank.into()), ..like },
        _ => build::block(exposed, division, shape.rank),
    }
}

/// Exchanges blocks: every rank reads its block from the buffers of all others, beginning with the rank after
/// it. In place, every rank writes a copy of its blocks into the buffers of all others, once they have made
/// their copies.
pub fn alltoall(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let (sent, received) = divisions(shape);
    if shape.ranks == 1 {
        if !shape.in_place {
            b.copy(build::block(own(shape), sent, 0), build::block(BufferId::RECV, received, 0), &[]);
        }
        return;
    }
    let peer = others(shape);
    if shape.in_place {
        return alltoall_in_place(shape, received, b);
    }
    b.expose(0, build::blocks(BufferId::SEND, sent, 0, shape.ranks), Access::Read);
    b.post(READY, 1);
    let mine = Index::from(shape.rank);
    b.copy(build::block(BufferId::SEND, sent, mine), build::block(BufferId::RECV, received, mine), &[]);
    b.repeat(shape.ranks - 1, 1, |b| {
        let target = build::block(BufferId::RECV, received, peer);
        b.wait(peer, READY, 1);
        b.pull(peer, block_of_peer(shape, SOURCE, sent, target), target);
    });
    part(shape, b);
}

fn alltoall_in_place(shape: &Shape, blocks: Division, b: &mut Builder) {
    let peer = others(shape);
    let total = match blocks {
        Division::Regular { total, .. } => total,
        _ => shape.count,
    };
    let copy = b.temporary(total);
    b.expose(1, build::blocks(BufferId::RECV, blocks, 0, shape.ranks), Access::ReadWrite);
    match blocks {
        Division::Table(_) => b.repeat(shape.ranks - 1, Loop::MAX_WINDOW, |b| {
            b.copy(build::block(BufferId::RECV, blocks, peer), build::block(copy, blocks, peer), &[]);
        }),
        _ => drop(b.copy(build::range(BufferId::RECV, 0, total), build::range(copy, 0, total), &[])),
    }
    b.post(READY, 1);
    b.repeat(shape.ranks - 1, 1, |b| {
        let source = build::block(copy, blocks, peer);
        b.wait(peer, READY, 1);
        b.push(peer, source, block_of_peer(shape, TARGET, blocks, source));
    });
    part(shape, b);
}
