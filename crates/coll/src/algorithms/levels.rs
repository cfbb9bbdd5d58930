//! Collectives whose levels overlap (S4): the trees of S3, where an edge between hosts is a stream of messages and an edge
//! within a host is a copy out of the neighbour's memory.
//!
//! A rank that is on both levels has a strand a message stream and one for the node, joined by flags alone: there is no
//! barrier between levels, a segment goes on as soon as it is here. So the leader keeps the network busy while the
//! other ranks of its host fetch each arrived segment (HierKNEM, Algorithms 3 and 4). Special cases fall out: on one host the
//! schedule is the node's, with one rank a host it is the network's.
//!
//! A stream consists of [`STREAMS`] strands that take segments in turn, so that the next message is under way before the
//! last one has ended. Arrivals are counted by one flag a strand: value v of flag k says that segments k, k + STREAMS, ..
//! are here, v of them.

use super::tree::Form;
use crate::build::{self, Builder};
use crate::hierarchy::{Ignored, NETWORK, Tree};
use crate::ir::{Access, BufferId, Division, Index, Kind, Span};
use crate::shape::{Params, Shape};

/// Messages under way on one edge between hosts.
const STREAMS: u32 = 2;
/// The flag of what all strands of a rank begin with.
const READY: u16 = 7;
/// The flag of a rank that is done with others' memory.
const DONE: u16 = 6;
/// The first of the flags that count arrivals; one a stream.
const HERE: u16 = 0;

/// The segments of an operation.
#[derive(Clone, Copy)]
struct Segments {
    division: Division,
    /// At most [`STREAMS`].
    streams: u32,
    /// So many turns of all streams; the last segments may be empty.
    turns: u32,
}

/// Who is around a rank in the tree.
struct Edges {
    me: u32,
    root: u32,
    parent: Option<u32>,
    /// Its parent is on the same host.
    parent_is_near: bool,
    near: Vec<u32>,
    far: Vec<u32>,
}

impl Segments {
    fn new(units: u64, params: &Params) -> Segments {
        let least = units.div_ceil(Kind::VALUES / 2 - 2);
        let segment = if params.segment == 0 { 0 } else { params.segment.max(least) };
        let (division, count) = super::segments(units, &Params { segment, ..*params });
        let streams = STREAMS.min(count).max(1);
        Segments { division, streams, turns: count.div_ceil(streams) }
    }

    /// The segment that stream `stream` has in each turn.
    fn of(self, stream: u32, buffer: BufferId) -> Span {
        build::block(buffer, self.division, Index::linear(stream.into(), self.streams.into()))
    }

    /// How many segments of a stream are here after a turn.
    fn count() -> Index {
        Index::linear(1, 1)
    }
}

impl Edges {
    fn new(shape: &Shape, params: &Params, b: &Builder) -> Edges {
        let hierarchy = b.hierarchy(shape.ranks, params.ignored);
        let tree = {
            // Within a host everybody deals with the leader: the copies run at the same time.
            let form = |distance| Form::Kary(if distance == NETWORK { params.radix } else { Params::FLAT });
            Tree::of_levels(&hierarchy, form, shape.root, shape.rank)
        };
        // Whatever is ignored for the form of the tree.
        let hosts = b.hierarchy(shape.ranks, Ignored::NONE);
        let is_near = |peer: u32| hosts.distance(shape.rank, peer) != NETWORK;
        let (near, far) = tree.children.iter().map(|child| child.rank).partition(|child| is_near(*child));
        let parent_is_near = tree.parent.is_some_and(is_near);
        Edges { me: shape.rank, root: shape.root, parent: tree.parent, parent_is_near, near, far }
    }
}

/// Down the tree (Algorithm 3).
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    let edges = Edges::new(shape, params, b);
    let segments = Segments::new(shape.count, params);
    lend(shape.count, &edges, b);
    arrive(segments, &edges, b);
    forward(segments, &edges, b);
}

/// The first strand: lets those near by at the buffer, and waits until they are done with it.
fn lend(units: u64, edges: &Edges, b: &mut Builder) {
    if edges.near.is_empty() {
        return;
    }
    let access = if edges.parent.is_none() { Access::Read } else { Access::ReadWrite };
    b.expose(0, build::range(BufferId::RECV, 0, units), access);
    b.post(READY, 1);
    for child in &edges.near {
        b.wait(*child, DONE, 1);
    }
}

/// The strands by which segments arrive.
fn arrive(segments: Segments, edges: &Edges, b: &mut Builder) {
    match edges.parent {
        // They are here from the beginning.
        None => {}
        Some(parent) if edges.parent_is_near => {
            b.strand();
            b.wait(parent, READY, 1);
            b.repeat(segments.turns, 1, |b| {
                for stream in 0..segments.streams {
                    if parent != edges.root {
                        b.wait(parent, HERE + stream as u16, Segments::count());
                    }
                    b.pull(
                        parent,
                        segments.of(stream, BufferId::exposed(0)),
                        segments.of(stream, BufferId::RECV),
                    );
                    if !edges.near.is_empty() || !edges.far.is_empty() {
                        b.post(HERE + stream as u16, Segments::count());
                    }
                }
            });
            b.post(DONE, 1);
        }
        Some(parent) => {
            for stream in 0..segments.streams {
                b.strand();
                b.repeat(segments.turns, 1, |b| {
                    b.recv(parent, stream as u16, segments.of(stream, BufferId::RECV), &[]);
                    b.post(HERE + stream as u16, Segments::count());
                });
            }
        }
    }
}

/// The strands by which segments go to other hosts.
fn forward(segments: Segments, edges: &Edges, b: &mut Builder) {
    for child in &edges.far {
        for stream in 0..segments.streams {
            b.strand();
            b.repeat(segments.turns, 1, |b| {
                if edges.parent.is_some() {
                    b.wait(edges.me, HERE + stream as u16, Segments::count());
                }
                b.send(*child, stream as u16, segments.of(stream, BufferId::RECV), &[]);
            });
        }
    }
}
