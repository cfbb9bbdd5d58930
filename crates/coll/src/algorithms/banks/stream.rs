//! Large data through banks (Graham and Shipman, section 3): a segment at a time, in slots of the bank that
//! are used in turn. The owner fills a slot again when all who read it have counted its segment as taken.
//! What every rank reads stays in the caches, at the price of a second copy.

use crate::algorithms::banks::reduce::fold_subtree;
use crate::algorithms::banks::{Folding, READY, RESULT, fold_ordered, others};
use crate::algorithms::{own, segments};
use crate::build::{self, Builder};
use crate::generator::need::{FEW, SHARED};
use crate::generator::parameters::{PIPELINE, TREE};
use crate::generator::{Generator, entry, flat, right, sliced};
use crate::ir::{BufferId, Division, Index, Kind, Span};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Bcast, "bank_stream", SHARED, TREE, bcast, work::node::stream_down),
    flat(entry(C::Reduce, "bank_stream", SHARED, TREE, reduce, work::node::stream_up)),
    sliced(right(entry(C::Reduce, "bank_stream_slices", FEW, PIPELINE, reduce_slices, work::node::stream_slices))),
    sliced(right(entry(C::Allreduce, "bank_stream_slices", FEW, PIPELINE, allreduce_slices, work::node::stream_slices))),
];

/// Flag that counts the segments that a rank has taken out of the banks of others, plus the slots that were
/// free at the beginning.
const TAKEN: u16 = 3;

/// Stream of segments through slots of the bank.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    size: u64,
    total: u64,
    /// The first segment and how many.
    first: u32,
    count: u32,
    /// Slots, and whether they are used more than once.
    window: u32,
    reused: bool,
}

impl Stream {
    /// Largest number of slots of a stream.
    const SLOTS: u32 = 8;

    /// Returns a stream of `total` units in segments of [`Params::segment`].
    pub fn new(total: u64, params: &Params) -> Stream {
        // Flags count the segments, beginning at the number of slots.
        let least = total.div_ceil(Kind::VALUES - 2 * u64::from(Stream::SLOTS));
        let segment = if params.segment == 0 { 0 } else { params.segment.max(least) };
        let (division, count) = segments(total, &Params { segment, ..*params });
        let size = division.start(1, &Default::default()).clamp(1, total.max(1));
        let window = params.window.clamp(1, Stream::SLOTS).min(count.max(1));
        Stream { size, total, first: 0, count, window, reused: count > window }
    }

    /// Returns a stream for loops in which every rank awaits all others in every segment. A rank that has
    /// seen the others at one segment knows that they have taken the one before. Two slots therefore suffice,
    /// and no rank counts taken segments.
    pub fn in_lockstep(self) -> Stream {
        Stream { window: self.count.clamp(1, 2), reused: false, ..self }
    }

    /// Returns the stream of whole segments, and that of the last one if it is shorter.
    fn parts(self) -> [Stream; 2] {
        let whole = (self.total / self.size) as u32;
        let rest = Stream { first: whole, count: self.count - whole, ..self };
        [Stream { count: whole, ..self }, rest]
    }

    /// Returns the number of the segment plus `base`.
    pub fn number(&self, base: u32) -> Index {
        let base = i64::from(self.first + base);
        if self.count > 1 { Index::linear(base, 1) } else { Index::linear(base, 0) }
    }

    /// Returns the slot of the segment.
    fn turn(&self) -> Index {
        Index { modulus: self.window, ..self.number(0) }
    }

    /// Returns the segment of `buffer`.
    pub fn piece(&self, buffer: BufferId) -> Span {
        build::block(buffer, Division::Regular { size: self.size, total: self.total }, self.number(0))
    }

    /// Returns the segment of the data that begin at unit `offset` of `buffer`.
    pub fn piece_at(&self, buffer: BufferId, offset: u64) -> Span {
        build::slot(buffer, offset, self.size, self.number(0), self.piece(buffer))
    }

    /// Returns the units of the first segment; no other one is longer.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of segments.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the slot of the segment in the bank, in group `place` of slots.
    pub fn place(&self, place: u32) -> Span {
        let offset = u64::from(place) * u64::from(self.window) * self.size;
        build::slot(BufferId::BANK, offset, self.size, self.turn(), self.piece(BufferId::BANK))
    }

    /// Requests banks with slots for `places` groups of segments.
    pub fn bank(&self, places: u32, b: &mut Builder) {
        b.bank(u64::from(places) * u64::from(self.window) * self.size);
    }

    /// Writes the loop over the segments.
    pub fn each(&self, b: &mut Builder, body: impl FnOnce(&mut Builder)) {
        b.repeat(self.count, 1, body);
    }

    /// Begins to count taken segments: all slots are free.
    pub fn open(&self, b: &mut Builder) {
        if self.reused {
            b.post(TAKEN, self.window);
        }
    }

    /// Says that the segment was taken.
    pub fn taken(&self, b: &mut Builder) {
        if self.reused {
            b.post(TAKEN, self.number(self.window + 1));
        }
    }

    /// Waits until `peer` has taken the previous segment out of the slot.
    pub fn free(&self, peer: Index, b: &mut Builder) {
        if self.reused {
            b.wait(peer, TAKEN, self.number(1));
        }
    }

    /// Waits until all other ranks have taken the previous segment out of the slot.
    pub fn free_of_others(&self, shape: &Shape, b: &mut Builder) {
        if self.reused {
            b.each(others(shape), shape.ranks - 1, |peer, b| self.free(peer, b));
        }
    }
}

/// Returns the children of a node.
fn children(node: &TreeNode) -> Vec<u32> {
    let groups = node.by_size().into_iter();
    groups
        .flat_map(|group| (0..group.count).map(move |child| (group, child)))
        .map(|(group, child)| node.heads(group).in_iteration(child) as u32)
        .collect()
}

/// Broadcasts down a tree. If the tree is flat, every rank reads the bank of the root.
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    let stream = Stream::new(shape.count, params);
    stream.bank(1, b);
    let node = TreeNode::new(Form::Kary(params.radix), shape.ranks, shape.root, true, shape.rank);
    let children = children(&node);
    if node.parent.is_some() {
        stream.open(b);
    }
    let (data, slot) = (stream.piece(BufferId::RECV), stream.place(0));
    stream.each(b, |b| {
        children.iter().for_each(|&child| stream.free(child.into(), b));
        let Some(parent) = node.parent else {
            b.copy(data, slot, &[]);
            b.post(READY, stream.number(1));
            return;
        };
        b.wait(parent, READY, stream.number(1));
        b.pull(parent, slot, if children.is_empty() { data } else { slot });
        stream.taken(b);
        if !children.is_empty() {
            b.post(READY, stream.number(1));
            b.copy(slot, data, &[]);
        }
    });
}

/// Reduces up a tree, segment by segment.
pub fn reduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    let stream = Stream::new(shape.count, params);
    if shape.ranks > 1 {
        stream.bank(1, b);
    }
    let node =
        TreeNode::new(Form::Kary(params.radix), shape.ranks, shape.root, shape.commutative, shape.rank);
    let children = node.degree() > 0;
    if children {
        stream.open(b);
    }
    let (mine, slot) = (stream.piece(own(shape)), stream.place(0));
    stream.each(b, |b| {
        if let Some(parent) = node.parent {
            stream.free(parent.into(), b);
        }
        let in_the_way = shape.in_place && !shape.commutative && !node.right.is_empty();
        if in_the_way {
            b.copy(mine, slot, &[]);
        }
        let into = if node.parent.is_some() { slot } else { stream.piece(BufferId::RECV) };
        let mut folding = Folding::new(if in_the_way { slot } else { mine }, into);
        let ready = (READY, stream.number(1));
        if shape.commutative || node.parent.is_none() {
            fold_subtree(shape, &node, &mut folding, ready, slot, b);
            children.then(|| stream.taken(b));
        } else {
            // The own operand is the leftmost; the children need not wait for it.
            for group in node.right.iter().rev() {
                folding.peers(node.heads_backwards(*group), group.count, Some(ready), |_| slot, b);
            }
            children.then(|| stream.taken(b));
            folding.own(b);
        }
        folding.finish(b);
        if node.parent.is_some() {
            b.post(READY, stream.number(1));
        }
    });
}

/// Reduces one segment after the other, by a reduce-scatter and an allgather inside the banks.
pub fn allreduce_slices(shape: &Shape, params: &Params, b: &mut Builder) {
    slices(shape, true, params, b);
}

/// Reduces one segment after the other by a reduce-scatter; the root reads the slices.
pub fn reduce_slices(shape: &Shape, params: &Params, b: &mut Builder) {
    slices(shape, shape.is_root(), params, b);
}

fn slices(shape: &Shape, collects: bool, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        let all = |buffer| build::range(buffer, 0, shape.count);
        return Folding::alone(all(own(shape)), all(BufferId::RECV), b);
    }
    // Every rank has a slice of a segment, except possibly of the last one; so it awaits all others.
    let least = if params.segment == 0 { 0 } else { params.segment.max(shape.ranks.into()) };
    let stream = Stream::new(shape.count, &Params { segment: least, ..*params }).in_lockstep();
    stream.bank(1, b);
    for part in stream.parts() {
        let units = if part.first == 0 { stream.size } else { stream.total % stream.size };
        part.each(b, |b| segment_in_slices(shape, collects, &part, units, b));
    }
}

/// Reduces one segment of `units` units: every rank combines its slice in its bank, in place of the own
/// operand.
fn segment_in_slices(shape: &Shape, collects: bool, stream: &Stream, units: u64, b: &mut Builder) {
    let division = Division::Even { parts: shape.ranks, total: units };
    let start = |slice: u32| division.start(u64::from(slice), &Default::default());
    // Slices `low..high` of a user's buffer, and of the bank.
    let user = |buffer, low, high| {
        let like = build::range(buffer, 0, start(high) - start(low));
        build::slot(buffer, start(low), stream.size, stream.number(0), like)
    };
    let bank = |low, high| {
        let like = build::range(BufferId::BANK, 0, start(high) - start(low));
        build::slot(BufferId::BANK, start(low), stream.size, stream.turn(), like)
    };
    let (rank, ranks, mine) = (shape.rank, shape.ranks, own(shape));
    for (low, high) in [(0, rank), (rank + 1, ranks)] {
        if start(low) < start(high) {
            b.copy(user(mine, low, high), bank(low, high), &[]);
        }
    }
    b.post(READY, stream.number(1));
    let has = |slice: u32| start(slice) < start(slice + 1);
    if has(rank) {
        let slice = bank(rank, rank + 1);
        fold_slice(shape, stream, user(mine, rank, rank + 1), slice, b);
        b.post(RESULT, stream.number(1));
        if collects {
            b.copy(slice, user(BufferId::RECV, rank, rank + 1), &[]);
        }
    }
    for peer in (rank + 1..ranks).chain(0..rank).filter(|peer| collects && has(*peer)) {
        b.wait(peer, RESULT, stream.number(1));
        b.pull(peer, bank(peer, peer + 1), user(BufferId::RECV, peer, peer + 1));
    }
}

/// Combines `mine` and `slice` of the other ranks' banks into `slice` of the own bank.
fn fold_slice(shape: &Shape, stream: &Stream, mine: Span, slice: Span, b: &mut Builder) {
    let mut folding = Folding::new(mine, slice);
    let (peers, count) = (others(shape), shape.ranks - 1);
    if shape.commutative {
        folding.own(b);
        folding.peers(peers, count, Some((READY, stream.number(1))), |_| slice, b);
        return folding.finish(b);
    }
    b.each(peers, count, |peer, b| {
        b.wait(peer, READY, stream.number(1));
    });
    fold_ordered(shape, shape.ranks, folding, |_| slice, b);
}
