//! Alltoall, with blocks of one size or of sizes given by tables (alltoallv, alltoallw).

use crate::build::{self, Builder};
use crate::generator::need::ANY;
use crate::generator::parameters::{FIXED, WINDOW};
use crate::generator::{Generator, entry};
use crate::ir::{BufferId, Division, Index, Loop, Span, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Alltoall, "spread", ANY, WINDOW, spread, work::messages::spread),
    entry(C::Alltoall, "pairwise", ANY, FIXED, pairwise, work::messages::pairwise),
    entry(C::Alltoall, "bruck", ANY, FIXED, bruck, work::messages::alltoall_bruck),
    entry(C::Alltoallv, "spread", ANY, WINDOW, spread, work::messages::spread),
    entry(C::Alltoallv, "pairwise", ANY, FIXED, pairwise, work::messages::pairwise),
];

/// Returns the divisions of the send and the receive buffer.
pub(crate) fn divisions(shape: &Shape) -> (Division, Division) {
    if shape.collective == Collective::Alltoallv {
        return (Division::Table(Table::Send), Division::Table(Table::Recv));
    }
    let total = shape.count * u64::from(shape.ranks);
    let regular = Division::Regular { size: shape.count, total };
    (regular, regular)
}

/// Returns the buffer with the blocks to send and its division. For MPI_IN_PLACE it is a copy of the receive
/// buffer, made here.
pub(crate) fn source(shape: &Shape, b: &mut Builder) -> (BufferId, Division) {
    let (sent, received) = divisions(shape);
    if !shape.in_place {
        return (BufferId::SEND, sent);
    }
    match received {
        Division::Regular { total, .. } => {
            let copy = b.temporary(total);
            b.copy(build::range(BufferId::RECV, 0, total), build::range(copy, 0, total), &[]);
            b.join();
            (copy, received)
        }
        _ => {
            let copy = b.temporary(shape.count);
            let each = Index::linear(0, 1);
            b.repeat(shape.ranks, Loop::MAX_WINDOW, |b| {
                let block = |buffer| build::block(buffer, received, each);
                b.copy(block(BufferId::RECV), block(copy), &[]);
            });
            b.join();
            (copy, received)
        }
    }
}

/// Exchanges blocks in rounds: round i sends to the rank i after this one and receives from the one i before
/// it. `window` rounds run at a time. 1 is the pairwise exchange; with more, a late rank delays the others
/// less.
pub fn spread(shape: &Shape, params: &Params, b: &mut Builder) {
    let (_, received) = divisions(shape);
    let (buffer, sent) = source(shape, b);
    let (rank, ranks) = (i64::from(shape.rank), shape.ranks);
    let (to, from) = (Index::cyclic(rank + 1, 1, ranks), Index::cyclic(rank - 1, -1, ranks));
    b.repeat(ranks - 1, params.window, |b| {
        b.recv(from, 0, build::block(BufferId::RECV, received, from), &[]);
        b.send(to, 0, build::block(buffer, sent, to), &[]);
    });
    if !shape.in_place {
        let mine = build::block(buffer, sent, shape.rank);
        b.copy(mine, build::block(BufferId::RECV, received, shape.rank), &[]);
    }
    b.join();
}

/// Exchanges blocks pairwise: one partner to send to and one to receive from at a time.
pub fn pairwise(shape: &Shape, params: &Params, b: &mut Builder) {
    spread(shape, &Params { window: 1, ..*params }, b);
}

/// Exchanges blocks in log2 P rounds (Bruck): in round k every block whose remaining distance has bit k set
/// travels 2^k ranks.
pub fn bruck(shape: &Shape, _: &Params, b: &mut Builder) {
    let (ranks, rank, total) = (shape.ranks, shape.rank, shape.count * u64::from(shape.ranks));
    let (buffer, blocks) = (crate::algorithms::own(shape), divisions(shape).0);
    let work = b.temporary(total);
    let upper = ranks - rank;
    b.copy(build::blocks(buffer, blocks, rank, upper), build::blocks(work, blocks, 0, upper), &[]);
    if rank > 0 {
        b.copy(build::blocks(buffer, blocks, 0, rank), build::blocks(work, blocks, upper, rank), &[]);
    }
    b.join();
    let half = shape.count * u64::from(ranks.next_power_of_two() / 2);
    let (outgoing, incoming) = (b.temporary(half), b.temporary(half));
    let mut distance = 1;
    while distance < ranks {
        let moved = (0..ranks).filter(|block| block & distance != 0).count() as u64 * shape.count;
        let size = shape.count * u64::from(distance);
        // The blocks that travel are every second run of `distance` blocks; the last may be short.
        let runs = ranks.div_ceil(distance) / 2;
        let run = build::block(work, Division::Regular { size, total }, Index::linear(1, 2));
        let packed = |buffer| -> Span { build::slot(buffer, 0, size, Index::linear(0, 1), run) };
        b.repeat(runs, Loop::MAX_WINDOW, |b| {
            b.copy(run, packed(outgoing), &[]);
        });
        b.join();
        b.send(shape.neighbour(i64::from(distance)), 0, build::range(outgoing, 0, moved), &[]);
        b.recv(shape.neighbour(-i64::from(distance)), 0, build::range(incoming, 0, moved), &[]);
        b.join();
        b.repeat(runs, Loop::MAX_WINDOW, |b| {
            b.copy(packed(incoming), run, &[]);
        });
        b.join();
        distance *= 2;
    }
    b.repeat(ranks, Loop::MAX_WINDOW, |b| {
        let from = build::block(work, blocks, Index::linear(0, 1));
        b.copy(from, build::block(BufferId::RECV, blocks, Index::cyclic(i64::from(rank), -1, ranks)), &[]);
    });
    b.join();
}
