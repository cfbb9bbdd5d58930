//! Reductions whose levels overlap (S4, Algorithm 4): up the trees of [`crate::algorithms::hosts::levels`],
//! segment by segment.
//!
//! A rank has a strand for each message stream from a child on another host. One more strand combines its
//! children's data, and one for each stream sends combined data. Children on the same host are read in place.
//! The two leaders of a host in the paper (one for the network, one for the node) are the strands of one rank
//! here: communication and combination run side by side.

use crate::algorithms::hosts::levels::{self, COMBINED, Edges, PARTIAL, READY, Segments, Source, UP};
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::LEVELS_COMMUTES;
use crate::generator::parameters::TREE_NEAR;
use crate::generator::{Generator, entry};
use crate::ir::{Access, BufferId, Division, Index, Kind, Span};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Reduce, "levels", LEVELS_COMMUTES, TREE_NEAR, reduce, work::messages::reduce_kary),
    entry(C::Allreduce, "levels", LEVELS_COMMUTES, TREE_NEAR, allreduce, work::messages::allreduce_tree),
];

/// First lane of data that go up, after those of data that go down.
const LANES: u16 = 2;
/// First of the private flags of combining streams, which mark free slots.
const FREED: u16 = Kind::FLAGS;
/// First of the private flags that count arrived messages, a few for each child.
const ARRIVED: u16 = FREED + 2;

/// Reduces up the tree of hosts and ranks to the root.
pub fn reduce(shape: &Shape, params: &Params, b: &mut Builder) {
    if is_alone(shape, b) {
        return;
    }
    let edges = Edges::new(shape, params, b);
    let up = Up::new(shape, params, &edges, edges.parent.is_none(), b);
    if edges.parent_is_near {
        up.lend(shape.count, b);
        b.post(READY, 1);
        up.wait_for_parent(b);
    }
    up.write(true, b);
}

/// Reduces up the tree and broadcasts down again, each segment as soon as it is complete.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    if is_alone(shape, b) {
        return;
    }
    let edges = Edges::new(shape, params, b);
    let up = Up::new(shape, params, &edges, true, b);
    levels::lend_down(shape.count, &edges, b);
    if edges.parent_is_near {
        up.lend(shape.count, b);
    }
    if edges.parent_is_near || !edges.near.is_empty() {
        b.post(READY, 1);
        levels::wait_for_children(&edges, b);
        // The arrival of the result shows that the operand has been read.
    }
    up.write(false, b);
    levels::down(up.segments, &edges, Source::Combined, b);
}

/// Begins a schedule. Returns true if it is complete, as there is nothing to combine. A rank that is alone
/// copies its operand to the result.
pub(crate) fn is_alone(shape: &Shape, b: &mut Builder) -> bool {
    b.in_program_order();
    if shape.count > 0 && shape.ranks == 1 && !shape.in_place {
        let all = |buffer| build::range(buffer, 0, shape.count);
        b.copy(all(BufferId::SEND), all(BufferId::RECV), &[]);
    }
    shape.count == 0 || shape.ranks == 1
}

/// Data that go up through one rank.
pub(crate) struct Up<'a> {
    edges: &'a Edges,
    segments: Segments,
    /// Buffer with the rank's own operand.
    own: BufferId,
    /// Buffer in which it combines; its own operand if it has no children.
    sum: BufferId,
    /// Memory for a segment of each stream of each child on another host.
    slots: Option<BufferId>,
    slot_units: u64,
}

impl<'a> Up<'a> {
    /// Returns the data of this rank. If `receives` is true, the result may be combined in the receive
    /// buffer.
    fn new(shape: &Shape, params: &Params, edges: &'a Edges, receives: bool, b: &mut Builder) -> Up<'a> {
        Up::of_segments(Segments::new(shape.count, params), shape, edges, receives, b)
    }

    /// Returns the data of this rank for given segments.
    pub(crate) fn of_segments(
        segments: Segments,
        shape: &Shape,
        edges: &'a Edges,
        receives: bool,
        b: &mut Builder,
    ) -> Up<'a> {
        let slot_units = match segments.division {
            Division::Regular { size, .. } => size.min(shape.count),
            Division::Even { parts, total } => total.div_ceil(parts.into()),
            Division::Table(_) | Division::Permuted(_) => shape.count,
        };
        let own = own(shape);
        let is_leaf = edges.near.is_empty() && edges.far.is_empty();
        let sum = match (is_leaf, receives) {
            (true, _) => own,
            (false, true) => BufferId::RECV,
            (false, false) => b.temporary(shape.count),
        };
        let room = slot_units * u64::from(segments.streams) * edges.far.len() as u64;
        let slots = (room > 0).then(|| b.temporary(room));
        Up { edges, segments, own, sum, slots, slot_units }
    }

    /// Returns the buffer in which it combines.
    pub(crate) fn sum(&self) -> BufferId {
        self.sum
    }

    fn is_leaf(&self) -> bool {
        self.edges.near.is_empty() && self.edges.far.is_empty()
    }

    /// Exposes the combined data to a parent on the same host.
    fn lend(&self, units: u64, b: &mut Builder) {
        let access = if self.sum == BufferId::SEND { Access::Read } else { Access::ReadWrite };
        b.expose(UP, build::range(self.sum, 0, units), access);
    }

    /// Waits until a parent on the same host has read all of the combined data.
    fn wait_for_parent(&self, b: &mut Builder) {
        if let Some(parent) = self.edges.parent.filter(|_| self.edges.parent_is_near) {
            b.wait(parent, COMBINED, 1);
        }
    }

    /// Writes the strands. With `tells`, children on the same host are notified when all of their data have
    /// been read.
    pub(crate) fn write(&self, tells: bool, b: &mut Builder) {
        for child in 0..self.edges.far.len() {
            for stream in 0..self.segments.streams {
                b.strand();
                b.repeat(self.segments.turns, 1, |b| self.receive(child, stream, b));
            }
        }
        if !self.is_leaf() {
            b.strand();
            self.combine_all(b);
            if tells && !self.edges.near.is_empty() {
                b.post(COMBINED, 1);
            }
        }
        let Some(parent) = self.edges.parent.filter(|_| !self.edges.parent_is_near) else { return };
        for stream in 0..self.segments.streams {
            b.strand();
            b.repeat(self.segments.turns, 1, |b| {
                if !self.is_leaf() {
                    b.wait(self.edges.me, PARTIAL + stream as u16, Segments::count());
                }
                b.send(parent, LANES + stream as u16, self.segments.segment(stream, self.sum), &[]);
            });
        }
    }

    fn receive(&self, child: usize, stream: u32, b: &mut Builder) {
        b.wait(self.edges.me, FREED + stream as u16, Index::linear(0, 1));
        b.recv(self.edges.far[child], LANES + stream as u16, self.slot(child, stream), &[]);
        b.post(self.arrived(child, stream), Segments::count());
    }

    fn combine_all(&self, b: &mut Builder) {
        for child in &self.edges.near {
            b.wait(*child, READY, 1);
        }
        b.repeat(self.segments.turns, 1, |b| {
            for stream in 0..self.segments.streams {
                self.combine(stream, b);
                b.post(PARTIAL + stream as u16, Segments::count());
                if !self.edges.far.is_empty() {
                    b.post(FREED + stream as u16, Segments::count());
                }
            }
        });
    }

    /// Combines one segment of all children and of the rank itself.
    fn combine(&self, stream: u32, b: &mut Builder) {
        let segment = |buffer| self.segments.segment(stream, buffer);
        let mut with = self.own;
        for (child, is_leaf) in self.edges.near.iter().zip(&self.edges.near_leaves) {
            if !is_leaf {
                b.wait(*child, PARTIAL + stream as u16, Segments::count());
            }
            b.combine(*child, segment(BufferId::exposed(UP)), segment(with), segment(self.sum));
            with = self.sum;
        }
        if with != self.sum {
            b.copy(segment(with), segment(self.sum), &[]);
        }
        for child in 0..self.edges.far.len() {
            b.wait(self.edges.me, self.arrived(child, stream), Segments::count());
            b.reduce(self.slot(child, stream), segment(self.sum), &[]);
        }
    }

    fn slot(&self, child: usize, stream: u32) -> Span {
        let slots = self.slots.expect("a rank with children on other hosts has slots");
        let number = child as u64 * u64::from(self.segments.streams) + u64::from(stream);
        build::slot(slots, number * self.slot_units, 0, 0, self.segments.segment(stream, self.sum))
    }

    fn arrived(&self, child: usize, stream: u32) -> u16 {
        let flag = ARRIVED + (child as u32 * self.segments.streams + stream) as u16;
        assert!(flag < Kind::PACING, "a rank has few children on other hosts");
        flag
    }
}
