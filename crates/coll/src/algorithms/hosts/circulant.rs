//! Broadcast on several hosts whose leaders follow the circulant graph
//! ([`crate::algorithms::hosts::circulant_graph`]). Each of the other hosts gets every segment once, and at
//! any time each host sends one and receives one. Within a host the segments go down the tree of
//! [`crate::algorithms::hosts::levels`] as they arrive.
//!
//! A leader has a strand for each neighbour and direction. One more strand counts the received segments for
//! its host, in the order of rounds.

use crate::algorithms::hosts::Hosts;
use crate::algorithms::hosts::circulant_graph::{Circulant, Passing};
use crate::algorithms::hosts::levels::{DONE, DOWN, Edges, READY, Segments, wait_for_children};
use crate::build::{self, Builder};
use crate::generator::need::LEVELS;
use crate::generator::parameters::SEVERAL_NEAR;
use crate::generator::{Generator, entry};
use crate::hierarchy::Ignored;
use crate::ir::{Access, BufferId, Division, Index, Kind};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Bcast, "levels_circulant", LEVELS, SEVERAL_NEAR, bcast, work::messages::bcast_circulant),
];

/// Flag that counts the present segments, in the order in which they come to the host.
const HERE: u16 = 0;
/// First of the private flags that count the segments from each neighbour.
const CAME: u16 = Kind::FLAGS;

/// Broadcasts along the circulant graph; see the module's documentation.
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    let edges = Edges::new(shape, &Params { radix: Params::FLAT, ..*params }, b);
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::NONE), shape.rank);
    let leads = edges.parent.is_none() || !edges.parent_is_near;
    let plan = Plan::new(shape, params, &hosts);
    if !edges.near.is_empty() {
        let access = if edges.parent.is_none() { Access::Read } else { Access::ReadWrite };
        b.expose(DOWN, build::range(BufferId::RECV, 0, shape.count), access);
        b.post(READY, 1);
        wait_for_children(&edges, b);
    }
    if leads {
        plan.pass(shape, &hosts, b);
        if edges.parent.is_some() && !edges.near.is_empty() {
            plan.count(shape.rank, b);
        }
        return;
    }
    let parent = edges.parent.expect("who does not lead has a parent");
    plan.fetch(parent, parent == shape.root, !edges.near.is_empty(), b);
}

/// Segments of a host, and the order of their arrival.
struct Plan {
    division: Division,
    segments: u64,
    /// Part of this host in the circulant graph; `None` if there is only one host.
    circulant: Option<Circulant>,
    /// Index of the host of the root.
    first: u32,
}

impl Plan {
    fn new(shape: &Shape, params: &Params, hosts: &Hosts) -> Plan {
        let Segments { division, .. } = Segments::new(shape.count, params);
        let segments = match division {
            Division::Regular { size, total } => total.div_ceil(size),
            _ => 1,
        };
        let count = hosts.count();
        let first = hosts.host_of(shape.root);
        let me = (hosts.mine + count - first) % count;
        Plan { division, segments, circulant: (count > 1).then(|| Circulant::new(count, me)), first }
    }

    fn segment(&self, buffer: BufferId, index: Index) -> crate::ir::Span {
        build::block(buffer, self.division, index)
    }

    /// Writes the strands of a leader, which receive and send.
    fn pass(&self, shape: &Shape, hosts: &Hosts, b: &mut Builder) {
        let Some(circulant) = &self.circulant else { return };
        let leader = |number: u32| hosts.speaker((number + self.first) % hosts.count(), shape.root);
        for k in 0..circulant.degree() {
            if let Some(from) = circulant.sender(k) {
                b.strand();
                each(&circulant.received(k, self.segments), b, |block, count, _, b| {
                    b.recv(leader(from), 0, self.segment(BufferId::RECV, block), &[]);
                    b.post(CAME + k as u16, count);
                });
            }
        }
        for k in 0..circulant.degree() {
            let Some(to) = circulant.receiver(k) else { continue };
            let source = circulant.sender(k).map(|_| circulant.origin(k));
            let source =
                source.map(|(origin, back)| (origin, circulant.received(origin, self.segments), back));
            b.strand();
            each(&circulant.sent(k, self.segments), b, |block, _, turn, b| {
                if let Some((origin, passing, back)) = &source {
                    b.wait(shape.rank, CAME + *origin as u16, passing.count_at(turn, *back));
                }
                b.send(leader(to), 0, self.segment(BufferId::RECV, block), &[]);
            });
        }
    }

    /// Writes the strand that counts the arrived segments for the other ranks of the host.
    fn count(&self, me: u32, b: &mut Builder) {
        let Some(circulant) = &self.circulant else { return };
        b.strand();
        self.each_arrival(circulant, b, |k, passing, turn, arrived, _, b| {
            b.wait(me, CAME + k as u16, passing.count_at(turn, 0));
            b.post(HERE, arrived);
        });
    }

    /// Writes the strand that fetches segments from a parent on the same host. A parent that is the root has
    /// all of them from the beginning.
    fn fetch(&self, parent: u32, is_root: bool, passes_on: bool, b: &mut Builder) {
        b.strand();
        b.wait(parent, READY, 1);
        let take = |block: Index, arrived: Index, b: &mut Builder| {
            if !is_root {
                b.wait(parent, HERE, arrived);
            }
            let from = self.segment(BufferId::exposed(DOWN), block);
            b.pull(parent, from, self.segment(BufferId::RECV, block));
            if passes_on {
                b.post(HERE, arrived);
            }
        };
        match self.circulant.as_ref().filter(|circulant| circulant.sender(0).is_some()) {
            Some(circulant) => {
                self.each_arrival(circulant, b, |_, _, _, arrived, block, b| take(block, arrived, b));
            }
            // On the host of the root, segments come in their own order.
            None => b.repeat(self.segments as u32, 1, |b| take(Index::linear(0, 1), Index::linear(1, 1), b)),
        }
        b.post(DONE, 1);
    }

    /// Writes `body` for all segments that come to the host, in the order of rounds. Its arguments are the
    /// neighbour, the segments from it, the turn, the number of segments so far, and the segment.
    fn each_arrival(
        &self,
        circulant: &Circulant,
        b: &mut Builder,
        body: impl Fn(usize, &Passing, Index, Index, Index, &mut Builder),
    ) {
        let rounds: Vec<Passing> =
            (0..circulant.degree()).map(|k| circulant.received(k, self.segments)).collect();
        let turns = rounds[0].turns();
        // In all turns but the first two and the last one, every neighbour has a block.
        let (even, last) = (2.min(turns), turns.saturating_sub(1).max(2.min(turns)));
        let mut come = 0;
        let single = |turn: u64, come: &mut u64, b: &mut Builder| {
            for (k, passing) in rounds.iter().enumerate() {
                if let Some(block) = passing.block(turn) {
                    *come += 1;
                    body(k, passing, Index::fixed(turn), Index::fixed(*come), Index::fixed(block), b);
                }
            }
        };
        (0..even).for_each(|turn| single(turn, &mut come, b));
        let step = rounds.len() as i64;
        b.repeat((last - even) as u32, 1, |b| {
            for (k, passing) in rounds.iter().enumerate() {
                let arrived = Index::linear(come as i64 + 1 + k as i64, step);
                let block = passing.block(even).expect("from the third turn on all have blocks");
                let block = Index::linear(block as i64, step);
                body(k, passing, Index::linear(even as i64, 1), arrived, block, b);
            }
        });
        come += (last - even) * step as u64;
        (last..turns).for_each(|turn| single(turn, &mut come, b));
    }
}

/// Writes `body` for all that passes one edge: the block, how many have come with it, and the turn.
fn each(passing: &Passing, b: &mut Builder, body: impl Fn(Index, Index, Index, &mut Builder)) {
    for (first, count) in passing.runs() {
        let block = passing.block(first).expect("runs begin with a block") as i64;
        let come = passing.before(first) as i64 + 1;
        b.repeat(count as u32, 1, |b| {
            let turn = Index::linear(first as i64, 1);
            body(Index::linear(block, passing.step()), Index::linear(come, 1), turn, b);
        });
    }
}
