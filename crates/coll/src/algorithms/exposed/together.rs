//! Reductions of long data within a node that combine all operands of an element in one step, as those in
//! [`crate::algorithms::messages::together`]. Every rank combines one slice piece by piece: it copies the
//! piece of each operand into a row, combines the rows in its cache, and writes the result to its
//! destination.

use crate::algorithms::banks::{others, reduce::alone};
use crate::algorithms::exposed::{SOURCE, TARGET, meet, part};
use crate::algorithms::messages::together::Rows;
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::Need;
use crate::generator::parameters::PIPELINE;
use crate::generator::{Generator, entry, gathering};
use crate::ir::{Access, BufferId, Division, Index, Span};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::work;

/// Exposed memory of one host, and an operator that commutes. Pieces are a loop whose body has steps for each
/// rank.
const EXPOSED: &[Need] =
    &[Need::Commutative, Need::FewRanks, Need::OneGroup, Need::ExposedMemory, Need::OneHost];

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    gathering(entry(C::Reduce, "exposed_together", EXPOSED, PIPELINE, reduce, work::node::exposed_reduce)),
    gathering(entry(C::Allreduce, "exposed_together", EXPOSED, PIPELINE, allreduce, work::node::exposed_allreduce)),
];

/// Combines this rank's slice of all operands in pieces. `done` writes what happens to a piece of the
/// result. Pieces lie in the receive buffer if `direct`, otherwise in a temporary.
fn combine_pieces(
    shape: &Shape,
    params: &Params,
    direct: bool,
    b: &mut Builder,
    done: impl Fn(Span, &dyn Fn(BufferId) -> Span, &mut Builder),
) {
    let division = Division::Even { parts: shape.ranks, total: shape.count };
    let start = |slice: u32| division.start(u64::from(slice), &Default::default());
    let (first, length) = (start(shape.rank), start(shape.rank + 1) - start(shape.rank));
    let size = if params.segment == 0 { length } else { params.segment.min(length) };
    if length == 0 {
        return;
    }
    let others_rows = Rows::of_pieces(shape.ranks - 1, size, size, b);
    let room = if direct { BufferId::RECV } else { b.temporary(size) };
    let one = |piece: Index, units: u64, b: &mut Builder| {
        let rows = others_rows.shorter(units);
        let like = build::range(BufferId::RECV, 0, units);
        let place = |buffer: BufferId| build::slot(buffer, first, size, piece, like);
        let into = if direct { place(room) } else { build::range(room, 0, units) };
        for number in 0..shape.ranks - 1 {
            let peer = Index::fixed(others(shape).in_iteration(number));
            b.pull(peer, place(SOURCE), rows.row(number, like));
        }
        if place(own(shape)) != into {
            b.copy(place(own(shape)), into, &[]);
        }
        rows.combine(into, b);
        done(into, &place, b);
    };
    b.repeat((length / size) as u32, 1, |b| one(Index::linear(0, 1), size, b));
    if !length.is_multiple_of(size) {
        one(Index::fixed(length / size), length % size, b);
    }
}

/// Exposes the operand for others to read, and the receive buffer for them to write if `result` is true.
fn expose(shape: &Shape, result: bool, b: &mut Builder) {
    let access = |alone| if shape.in_place { Access::ReadWrite } else { alone };
    b.expose(0, build::range(own(shape), 0, shape.count), access(Access::Read));
    if result {
        b.expose(1, build::range(BufferId::RECV, 0, shape.count), access(Access::Write));
    }
}

/// Every rank combines a slice and writes it to the root.
pub fn reduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return alone(shape, b);
    }
    expose(shape, shape.is_root(), b);
    meet(shape, b);
    combine_pieces(shape, params, shape.is_root(), b, |into, place, b| {
        if !shape.is_root() {
            b.push(shape.root, into, place(TARGET));
        }
    });
    part(shape, b);
}

/// Every rank combines a slice and writes it to all ranks.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return alone(shape, b);
    }
    expose(shape, true, b);
    meet(shape, b);
    combine_pieces(shape, params, true, b, |into, place, b| {
        for number in 0..shape.ranks - 1 {
            b.push(Index::fixed(others(shape).in_iteration(number)), into, place(TARGET));
        }
    });
    part(shape, b);
}
