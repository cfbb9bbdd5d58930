//! Prefix reductions. They keep the order of ranks by nature.

use crate::algorithms::{own, segments};
use crate::build::{self, Builder};
use crate::generator::need::ANY;
use crate::generator::parameters::{FIXED, PIPELINE};
use crate::generator::{Generator, entry, left, ordered};
use crate::ir::{BufferId, Edge, Index, Loop};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Scan, "recursive_doubling", ANY, FIXED, recursive_doubling, work::messages::scan_doubling),
    left(entry(C::Scan, "chain", ANY, PIPELINE, chain, work::messages::scan_chain)),
    entry(C::Exscan, "recursive_doubling", ANY, FIXED, recursive_doubling, work::messages::scan_doubling),
    ordered(left(entry(C::Exscan, "chain", ANY, PIPELINE, chain, work::messages::scan_chain))),
];

/// In round k every rank combines its data with those of the rank 2^k before it: log2 P rounds.
pub fn recursive_doubling(shape: &Shape, _: &Params, b: &mut Builder) {
    let all = |buffer| build::range(buffer, 0, shape.count);
    let exclusive = shape.collective == Collective::Exscan;
    let arriving = b.temporary(shape.count);
    // Data to forward: the own operand and those before it.
    let sum = if exclusive { b.temporary(shape.count) } else { BufferId::RECV };
    let passes_on = shape.rank + 1 < shape.ranks;
    if own(shape) != sum && (!exclusive || passes_on) {
        b.copy(all(own(shape)), all(sum), &[]);
        b.join();
    }
    let mut distance = 1;
    while distance < shape.ranks {
        let from = shape.rank.checked_sub(distance);
        let first = exclusive && distance == 1;
        let into = if first { BufferId::RECV } else { arriving };
        if shape.rank + distance < shape.ranks {
            b.send(shape.rank + distance, 0, all(sum), &[]);
        }
        if let Some(from) = from {
            b.recv(from, 0, all(into), &[]);
        }
        b.join();
        let needed = !exclusive || shape.rank + 2 * distance < shape.ranks;
        if from.is_some() && needed {
            b.reduce(all(into), all(sum), &[]);
        }
        if from.is_some() && exclusive && !first {
            b.reduce(all(into), all(BufferId::RECV), &[]);
        }
        b.join();
        distance *= 2;
    }
}

/// Computes prefixes from rank to rank, in segments: a pipeline for large data, and few wake-ups for small.
pub fn chain(shape: &Shape, params: &Params, b: &mut Builder) {
    let (division, count) = segments(shape.count, params);
    let window = params.window.clamp(1, Loop::MAX_WINDOW).min(count.max(1));
    let size = division.start(1, &Default::default());
    let segment = |buffer| build::block(buffer, division, Index::linear(0, 1));
    let (source, result) = (segment(own(shape)), segment(BufferId::RECV));
    let previous = shape.rank.checked_sub(1);
    let next = Some(shape.rank + 1).filter(|next| *next < shape.ranks);
    let exclusive = shape.collective == Collective::Exscan;
    let direct = !exclusive && !shape.in_place && shape.commutative;
    let room = b.temporary(size * u64::from(window));
    let slot = build::slot(room, 0, size, Index::cyclic(0, 1, window), result);
    b.repeat(count, window, |b| {
        // `sum` is the data that the next rank needs, complete after `ready`.
        let (sum, ready): (_, Vec<Edge>) = match previous {
            None if exclusive => (source, Vec::new()),
            None if shape.in_place => (result, Vec::new()),
            None => (result, vec![b.copy(source, result, &[]).done()]),
            Some(previous) if direct => {
                let arrived = b.recv(previous, 0, result, &[]);
                (result, vec![b.reduce(source, result, &[arrived.done()]).done()])
            }
            Some(previous) if exclusive => {
                let saved = next.map(|_| b.copy(source, slot, &[]).done());
                let first = if shape.in_place { saved } else { None };
                let arrived = b.recv(previous, 0, result, first.as_slice());
                let after: Vec<Edge> = [arrived.done()].into_iter().chain(saved).collect();
                (slot, next.map(|_| b.reduce(result, slot, &after).done()).into_iter().collect())
            }
            Some(previous) => {
                let own = if shape.in_place { None } else { Some(b.copy(source, result, &[]).done()) };
                let arrived = b.recv(previous, 0, slot, &[]);
                let after: Vec<Edge> = [arrived.done()].into_iter().chain(own).collect();
                (result, vec![b.reduce(slot, result, &after).done()])
            }
        };
        if let Some(next) = next {
            b.send(next, 0, sum, &ready);
        }
    });
    b.join();
}
