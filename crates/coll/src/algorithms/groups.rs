//! Collectives of an intercommunicator: data go from one group to the other (MPI-5 section 6.2.3). The ranks
//! of both groups are numbered together, the first group's first. The part within one group is a schedule of
//! this crate for its ranks alone, which is embedded in the whole ([`Builder::embed`]).

use crate::algorithms::messages::{barrier, bcast, reduce};
use crate::build::{self, Builder};
use crate::generator::need::BETWEEN;
use crate::generator::parameters::{RADIX, WINDOW};
use crate::generator::{Generator, entry, flat};
use crate::ir::{BufferId, Division, Index, Schedule, Span, Table};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Barrier, "between", BETWEEN, WINDOW, barrier, work::messages::barrier_dissemination),
    entry(C::Bcast, "between", BETWEEN, RADIX, bcast, work::messages::bcast_kary),
    entry(C::Gather, "between", BETWEEN, WINDOW, gather, work::messages::rooted_linear),
    entry(C::Gatherv, "between", BETWEEN, WINDOW, gather, work::messages::rooted_linear),
    entry(C::Scatter, "between", BETWEEN, WINDOW, scatter, work::messages::rooted_linear),
    entry(C::Scatterv, "between", BETWEEN, WINDOW, scatter, work::messages::rooted_linear),
    entry(C::Allgather, "between", BETWEEN, WINDOW, exchange, work::messages::spread),
    entry(C::Allgatherv, "between", BETWEEN, WINDOW, exchange, work::messages::spread),
    entry(C::Alltoall, "between", BETWEEN, WINDOW, exchange, work::messages::spread),
    entry(C::Alltoallv, "between", BETWEEN, WINDOW, exchange, work::messages::spread),
    flat(entry(C::Reduce, "between", BETWEEN, RADIX, reduce, work::messages::reduce_kary)),
    flat(entry(C::Allreduce, "between", BETWEEN, RADIX, allreduce, work::messages::allreduce_tree)),
    flat(entry(C::ReduceScatterBlock, "between", BETWEEN, RADIX, reduce_scatter, work::messages::reduce_scatter_tree)),
    flat(entry(C::ReduceScatter, "between", BETWEEN, RADIX, reduce_scatter, work::messages::reduce_scatter_tree)),
];

/// Group of consecutive ranks, one of the two of an intercommunicator.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: u32,
    size: u32,
}

impl Group {
    fn holds(self, rank: u32) -> bool {
        (self.first..self.first + self.size).contains(&rank)
    }
}

/// Returns the group of this rank, and the other one.
fn groups(shape: &Shape) -> (Group, Group) {
    let first = Group { first: 0, size: shape.first_group };
    let second = Group { first: shape.first_group, size: shape.ranks - shape.first_group };
    if first.holds(shape.rank) { (first, second) } else { (second, first) }
}

/// Role of a rank in a rooted operation of an intercommunicator.
enum Part {
    /// The rank is the root. It exchanges data with this group, the other one.
    Root(Group),
    /// The root is in the other group: this rank takes part with its own group, which is given.
    Member(Group),
    /// Another rank of this rank's own group is the root. This rank has nothing to do.
    Idle,
}

/// Returns the role of this rank in a rooted operation of an intercommunicator. Data move between the root
/// and the group that the root is not in (MPI-5 section 6.2.3).
fn part(shape: &Shape) -> Part {
    let (own, other) = groups(shape);
    match shape.root {
        root if root == shape.rank => Part::Root(other),
        root if other.holds(root) => Part::Member(own),
        _ => Part::Idle,
    }
}

/// Returns the schedule of an operation within `group`.
fn within(
    group: Group,
    shape: &Shape,
    inner: Shape,
    write: impl FnOnce(&Shape, &Params, &mut Builder),
    params: &Params,
) -> Schedule {
    let inner = Shape {
        ranks: group.size,
        rank: shape.rank - group.first,
        unit_bytes: shape.unit_bytes,
        commutative: shape.commutative,
        ..inner
    };
    let mut builder = Builder::new(shape.collective.unit());
    write(&inner, &Params { segment: 0, ..*params }, &mut builder);
    builder.finish()
}

/// Synchronises each group by itself; then every rank receives a signal from one of the other group.
pub fn barrier(shape: &Shape, params: &Params, b: &mut Builder) {
    let (own, other) = groups(shape);
    let inner = Shape::new(Collective::Barrier, 0, 0, 0);
    b.embed(
        within(own, shape, inner, barrier::dissemination, params),
        own.first,
        [BufferId::SEND, BufferId::RECV],
    );
    let place = shape.rank - own.first;
    b.recv(other.first + place % other.size, 0, Span::SIGNAL, &[]);
    let heard_by = Index::linear((other.first + place).into(), own.size.into());
    let count = other.size.saturating_sub(place).div_ceil(own.size);
    b.repeat(count, params.window, |b| {
        b.send(heard_by, 0, Span::SIGNAL, &[]);
    });
    b.join();
}

/// Broadcasts from the root to the first rank of the other group, which broadcasts to its group.
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    let all = build::range(BufferId::RECV, 0, shape.count);
    match part(shape) {
        Part::Root(other) => {
            b.send(other.first, 0, all, &[]);
            b.join();
        }
        Part::Member(own) => {
            if shape.rank == own.first {
                b.recv(shape.root, 0, all, &[]);
                b.join();
            }
            tell(own, shape, params, b);
        }
        Part::Idle => {}
    }
}

/// Broadcasts the receive buffer of a group's first rank within the group.
fn tell(own: Group, shape: &Shape, params: &Params, b: &mut Builder) {
    let inner = Shape::new(Collective::Bcast, 0, 0, shape.count);
    b.embed(within(own, shape, inner, bcast::kary, params), own.first, [BufferId::SEND, BufferId::RECV]);
}

/// Combines `count` elements of the send buffers of the own group at its first rank. Returns the buffer of
/// the result there.
fn collect(own: Group, shape: &Shape, count: u64, params: &Params, b: &mut Builder) -> BufferId {
    let result = if shape.rank == own.first { b.temporary(count) } else { BufferId::RECV };
    let inner = Shape::new(Collective::Reduce, 0, 0, count);
    b.embed(within(own, shape, inner, reduce::kary, params), own.first, [BufferId::SEND, result]);
    result
}

/// Reduces the operands of one group, whose first rank sends the result to the root in the other group.
pub fn reduce(shape: &Shape, params: &Params, b: &mut Builder) {
    let all = |buffer| build::range(buffer, 0, shape.count);
    match part(shape) {
        Part::Root(other) => {
            b.recv(other.first, 0, all(BufferId::RECV), &[]);
        }
        Part::Member(own) => {
            let result = collect(own, shape, shape.count, params, b);
            if shape.rank == own.first {
                b.send(shape.root, 0, all(result), &[]);
            }
        }
        Part::Idle => {}
    }
    b.join();
}

/// Combines the operands of each group; the first ranks exchange the results and send them to their groups.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    let (own, other) = groups(shape);
    let all = |buffer| build::range(buffer, 0, shape.count);
    let result = collect(own, shape, shape.count, params, b);
    if shape.rank == own.first {
        b.send(other.first, 0, all(result), &[]);
        b.recv(other.first, 0, all(BufferId::RECV), &[]);
        b.join();
    }
    tell(own, shape, params, b);
}

/// Reduces the operands of each group. The first ranks exchange the results, and scatter them to their
/// groups.
pub fn reduce_scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    let (own, other) = groups(shape);
    let (total, mine, division) = match shape.collective {
        Collective::ReduceScatter => (shape.count, shape.own, Division::Table(Table::Recv)),
        _ => {
            let total = shape.count * u64::from(own.size);
            (total, shape.count, Division::Regular { size: shape.count, total })
        }
    };
    let result = collect(own, shape, total, params, b);
    let mine = build::range(BufferId::RECV, 0, mine);
    if shape.rank != own.first {
        b.recv(own.first, 0, mine, &[]);
        b.join();
        return;
    }
    let theirs = b.temporary(total);
    b.send(other.first, 0, build::range(result, 0, total), &[]);
    b.recv(other.first, 0, build::range(theirs, 0, total), &[]);
    b.join();
    let member = Index::linear(1, 1);
    b.repeat(own.size - 1, params.window, |b| {
        b.send(member.plus(own.first), 0, build::block(theirs, division, member), &[]);
    });
    b.copy(build::block(theirs, division, 0), mine, &[]);
    b.join();
}

/// Gathers: every rank of the other group sends its block to the root.
pub fn gather(shape: &Shape, params: &Params, b: &mut Builder) {
    match part(shape) {
        Part::Root(other) => {
            let member = Index::linear(0, 1);
            let division = blocks(shape, Table::Recv, other);
            b.repeat(other.size, params.window, |b| {
                b.recv(member.plus(other.first), 0, build::block(BufferId::RECV, division, member), &[]);
            });
        }
        Part::Member(_) => {
            b.send(shape.root, 0, build::range(BufferId::SEND, 0, shape.count), &[]);
        }
        Part::Idle => {}
    }
    b.join();
}

/// Scatters: the root sends a block to every rank of the other group.
pub fn scatter(shape: &Shape, params: &Params, b: &mut Builder) {
    match part(shape) {
        Part::Root(other) => {
            let member = Index::linear(0, 1);
            let division = blocks(shape, Table::Send, other);
            b.repeat(other.size, params.window, |b| {
                b.send(member.plus(other.first), 0, build::block(BufferId::SEND, division, member), &[]);
            });
        }
        Part::Member(_) => {
            b.recv(shape.root, 0, build::range(BufferId::RECV, 0, shape.count), &[]);
        }
        Part::Idle => {}
    }
    b.join();
}

fn blocks(shape: &Shape, table: Table, other: Group) -> Division {
    match shape.collective {
        Collective::Gatherv | Collective::Scatterv => Division::Table(table),
        _ => Division::Regular { size: shape.count, total: shape.count * u64::from(other.size) },
    }
}

/// Exchanges blocks between all ranks of both groups, in rounds. In round k those ranks exchange whose
/// positions in their groups add up to k, modulo the size of the larger group. Every rank goes through the
/// rounds in the same order, so there is no cyclic wait.
pub fn exchange(shape: &Shape, params: &Params, b: &mut Builder) {
    let (own, other) = groups(shape);
    let rounds = own.size.max(other.size);
    let first = (rounds - (shape.rank - own.first)) % rounds;
    let first = if first < other.size { first } else { 0 };
    let partner = Index::cyclic(first.into(), 1, other.size);
    let regular = |size: u64| Division::Regular { size, total: size * u64::from(other.size) };
    let sent = match shape.collective {
        Collective::Alltoall => build::block(BufferId::SEND, regular(shape.own), partner),
        Collective::Alltoallv => build::block(BufferId::SEND, Division::Table(Table::Send), partner),
        _ => build::range(BufferId::SEND, 0, shape.own),
    };
    let received = match shape.collective {
        Collective::Allgather | Collective::Alltoall => regular(shape.count),
        _ => Division::Table(Table::Recv),
    };
    b.repeat(other.size, params.window, |b| {
        b.recv(partner.plus(other.first), 0, build::block(BufferId::RECV, received, partner), &[]);
        b.send(partner.plus(other.first), 0, sent, &[]);
    });
    b.join();
}
