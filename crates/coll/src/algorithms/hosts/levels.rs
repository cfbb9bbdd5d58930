//! Broadcast whose levels overlap (S4), on the trees of S3. An edge between hosts is a stream of messages,
//! and an edge within a host is a copy out of the neighbour's memory.
//!
//! A rank on both levels has a strand for each message stream and one for the node, joined by flags alone.
//! There is no barrier between levels: a segment is forwarded as soon as it arrives. So the leader keeps the
//! network busy while the other ranks of its host fetch each arrived segment (HierKNEM, Algorithms 3 and 4).
//! Special cases need no code: on one host the schedule is that of a node, and with one rank on each host
//! that of the network.
//!
//! A stream consists of [`STREAMS`] strands that take segments in turn, so that the next message is under way
//! before the last one has ended. Arrivals are counted by one flag for each strand: value v of flag k means
//! that the first v of segments k, k + STREAMS, .. are here.

use crate::build::{self, Builder};
use crate::generator::need::LEVELS;
use crate::generator::parameters::TREE_NEAR;
use crate::generator::{Generator, entry};
use crate::hierarchy::{Child, Ignored, NETWORK, Tree};
use crate::ir::{Access, BufferId, Division, Index, Kind, Span};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::tree::Form;
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Bcast, "levels", LEVELS, TREE_NEAR, bcast, work::messages::bcast_kary),
];

/// Number of messages under way on one edge between hosts.
const STREAMS: u32 = 2;
/// Largest number of children of a rank on other hosts: each costs strands, and memory for segments on the
/// way up.
pub(crate) const MOST_FAR: u32 = 32;
/// Largest number of children of a rank on its host and at one distance, so that schedules stay short on
/// large hosts.
const MOST_NEAR: u32 = 16;
/// First of the flags that count the segments that have come down the tree, one for each stream.
pub(crate) const HERE: u16 = 0;
/// First of the flags that count the segments that are ready to go up, one for each stream.
pub(crate) const PARTIAL: u16 = 2;
/// Flag of a rank that has combined its children's data.
pub(crate) const COMBINED: u16 = 5;
/// Flag of a rank that has copied all of its parent's data.
pub(crate) const DONE: u16 = 6;
/// Flag of a rank that has exposed its memory.
pub(crate) const READY: u16 = 7;
/// Number under which data that go down are exposed.
pub(crate) const DOWN: u16 = 0;
/// Number under which data that go up are exposed.
pub(crate) const UP: u16 = 1;

/// Segments of an operation, divided among streams.
#[derive(Clone, Copy)]
pub(crate) struct Segments {
    pub(crate) division: Division,
    /// Number of the first segment.
    first: u32,
    /// Number of streams, at most [`STREAMS`].
    pub(crate) streams: u32,
    /// Number of turns of all streams; the last segments may be empty.
    pub(crate) turns: u32,
}

/// Neighbours of a rank in the tree.
pub(crate) struct Edges {
    pub(crate) me: u32,
    pub(crate) root: u32,
    pub(crate) parent: Option<u32>,
    /// True if its parent is on the same host.
    pub(crate) parent_is_near: bool,
    /// Children on the same host, and for each whether it has no children of its own.
    pub(crate) near: Vec<u32>,
    pub(crate) near_leaves: Vec<bool>,
    pub(crate) far: Vec<u32>,
    /// All children, from left to right in the order of the hierarchy, and the rank's own position in it.
    pub(crate) children: Vec<Child>,
    pub(crate) position: u32,
}

impl Segments {
    pub(crate) fn new(units: u64, params: &Params) -> Segments {
        let least = units.div_ceil(Kind::VALUES / 2 - 2);
        let segment = if params.segment == 0 { 0 } else { params.segment.max(least) };
        let (division, count) = crate::algorithms::segments(units, &Params { segment, ..*params });
        let streams = STREAMS.min(count).max(1);
        Segments { division, first: 0, streams, turns: count.div_ceil(streams) }
    }

    /// Returns the segments of part `part` of `parts` nearly equal ones.
    pub(crate) fn of_part(units: u64, params: &Params, (part, parts): (u32, u32)) -> Segments {
        let Segments { streams, turns, .. } = Segments::new(units.div_ceil(parts.into()), params);
        let each = streams * turns;
        let division = Division::Even { parts: parts * each, total: units };
        Segments { division, first: part * each, streams, turns }
    }

    /// Returns the segment that stream `stream` has in each turn.
    pub(crate) fn segment(self, stream: u32, buffer: BufferId) -> Span {
        let first = self.first + stream;
        build::block(buffer, self.division, Index::linear(first.into(), self.streams.into()))
    }

    /// Returns the number of segments of a stream that are here after a turn.
    pub(crate) fn count() -> Index {
        Index::linear(1, 1)
    }
}

impl Edges {
    /// Returns the neighbours in a tree of hosts for data in segments: the fewer children the better.
    pub(crate) fn new(shape: &Shape, params: &Params, b: &Builder) -> Edges {
        Edges::in_tree(shape, params, Form::Kary(params.radix.min(MOST_FAR)), b)
    }

    /// Returns the neighbours in a tree of hosts for few bytes: a host that has them sends as long as others
    /// wait.
    pub(crate) fn for_few(shape: &Shape, params: &Params, b: &Builder) -> Edges {
        let form = match params.radix {
            radix @ 2..=MOST_NEAR => Form::Knomial(radix),
            radix => Form::Kary(radix.min(MOST_FAR)),
        };
        Edges::in_tree(shape, params, form, b)
    }

    /// Returns the neighbours without those on other hosts.
    pub(crate) fn within_host(mut self) -> Edges {
        self.far.clear();
        self.children.retain(|child| child.distance != NETWORK);
        self.parent = self.parent.filter(|_| self.parent_is_near);
        self
    }

    /// Returns the neighbours in a tree whose hosts are arranged by `across`.
    pub(crate) fn in_tree(shape: &Shape, params: &Params, across: Form, b: &Builder) -> Edges {
        let hierarchy = b.hierarchy(shape.ranks, params.ignored);
        let tree = {
            // On a small host every rank is a child of the leader, so that the copies run at the same time.
            let form = |distance| if distance == NETWORK { across } else { Form::Kary(MOST_NEAR) };
            Tree::of_levels(&hierarchy, form, shape.root, shape.rank)
        };
        // Hosts are distinguished whatever distances the tree ignores.
        let hosts = b.hierarchy(shape.ranks, Ignored::NONE);
        let is_near = |peer: u32| hosts.distance(shape.rank, peer) != NETWORK;
        let (near, far): (Vec<&Child>, Vec<&Child>) =
            tree.children.iter().partition(|child| is_near(child.rank));
        Edges {
            me: shape.rank,
            root: shape.root,
            parent: tree.parent,
            parent_is_near: tree.parent.is_some_and(is_near),
            near: near.iter().map(|child| child.rank).collect(),
            near_leaves: near.iter().map(|child| child.high - child.low == 1).collect(),
            far: far.iter().map(|child| child.rank).collect(),
            position: hierarchy.position(shape.rank),
            children: tree.children,
        }
    }
}

/// Source of the root's data in a broadcast.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The root has all data from the beginning.
    Given,
    /// The root has the data as they are combined.
    Combined,
}

impl Source {
    /// Returns the first of the flags by which `rank` counts its segments, or `None` if it has all from the
    /// beginning.
    fn flags_of(self, rank: u32, edges: &Edges) -> Option<u16> {
        match self {
            _ if rank != edges.root => Some(HERE),
            Source::Given => None,
            Source::Combined => Some(PARTIAL),
        }
    }
}

/// Writes the schedule of a broadcast down the tree of hosts and ranks (HierKNEM, Algorithm 3).
///
/// Data arrive in segments. Each is forwarded as soon as it arrives, as a message to children on other hosts.
/// Children on this host copy it out of this rank's receive buffer. The buffer is exposed first, and the
/// schedule ends only after those children have copied all of it.
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    let edges = Edges::new(shape, params, b);
    let segments = Segments::new(shape.count, params);
    if !edges.near.is_empty() {
        let access = if edges.parent.is_none() { Access::Read } else { Access::ReadWrite };
        b.expose(DOWN, build::range(BufferId::RECV, 0, shape.count), access);
        b.post(READY, 1);
        wait_for_children(&edges, b);
    }
    down(segments, &edges, Source::Given, b);
}

/// Exposes the data that go down to children on the same host, while they are written.
pub(crate) fn lend_down(units: u64, edges: &Edges, b: &mut Builder) {
    if !edges.near.is_empty() {
        b.expose(DOWN, build::range(BufferId::RECV, 0, units), Access::ReadWrite);
    }
}

/// Waits until children on the same host have all data that go down.
pub(crate) fn wait_for_children(edges: &Edges, b: &mut Builder) {
    for child in &edges.near {
        b.wait(*child, DONE, 1);
    }
}

/// Writes the strands of the data that go down: they arrive, and are sent to other hosts; ranks of the same
/// host fetch them.
pub(crate) fn down(segments: Segments, edges: &Edges, source: Source, b: &mut Builder) {
    arrive(segments, edges, source, b);
    for child in &edges.far {
        for stream in 0..segments.streams {
            b.strand();
            b.repeat(segments.turns, 1, |b| {
                if let Some(flags) = source.flags_of(edges.me, edges) {
                    b.wait(edges.me, flags + stream as u16, Segments::count());
                }
                b.send(*child, stream as u16, segments.segment(stream, BufferId::RECV), &[]);
            });
        }
    }
}

/// Writes the strands by which a rank gets the data that go down.
pub(crate) fn arrive(segments: Segments, edges: &Edges, source: Source, b: &mut Builder) {
    match edges.parent {
        None => {}
        Some(parent) if edges.parent_is_near => fetch(segments, edges, parent, source, b),
        Some(parent) => {
            for stream in 0..segments.streams {
                b.strand();
                b.repeat(segments.turns, 1, |b| {
                    b.recv(parent, stream as u16, segments.segment(stream, BufferId::RECV), &[]);
                    b.post(HERE + stream as u16, Segments::count());
                });
            }
        }
    }
}

/// Writes the strand that fetches the data from a parent on the same host.
fn fetch(segments: Segments, edges: &Edges, parent: u32, source: Source, b: &mut Builder) {
    b.strand();
    b.wait(parent, READY, 1);
    b.repeat(segments.turns, 1, |b| {
        for stream in 0..segments.streams {
            if let Some(flags) = source.flags_of(parent, edges) {
                b.wait(parent, flags + stream as u16, Segments::count());
            }
            let from = segments.segment(stream, BufferId::exposed(DOWN));
            b.pull(parent, from, segments.segment(stream, BufferId::RECV));
            if !edges.near.is_empty() || !edges.far.is_empty() {
                b.post(HERE + stream as u16, Segments::count());
            }
        }
    });
    b.post(DONE, 1);
}
