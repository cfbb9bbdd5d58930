//! Construction of schedules. An algorithm is a sequence of groups. The steps of a group run side by side,
//! and [`Builder::join`] ends the group, so that all later steps follow it. Inside a loop a group is an
//! iteration, and its steps are ordered by explicit edges.

use std::sync::Arc;

use crate::hierarchy::{Hierarchy, Ignored};
use crate::ir::{
    Access, BufferId, Division, Edge, Index, Kind, Length, Loop, Order, Schedule, Span, Start, Step, StepId,
    Unit,
};
use crate::neighbours::Neighbours;

/// Builder of a rank's schedule, step by step.
#[derive(Debug)]
pub struct Builder {
    schedule: Schedule,
    /// Edges that every new step gets.
    frontier: Vec<Edge>,
    /// Index of the first step since the last `join`.
    group: usize,
    in_loop: Option<u16>,
    /// Distances of the ranks, if known.
    hierarchy: Option<Arc<Hierarchy>>,
    /// Neighbours of the rank, for neighbourhood collectives.
    neighbours: Arc<Neighbours>,
}

impl Builder {
    /// Returns a builder of an empty schedule whose spans count `unit`s.
    pub fn new(unit: Unit) -> Builder {
        let order = Order::Edges;
        let schedule = Schedule {
            unit,
            order,
            bank: 0,
            temporaries: Vec::new(),
            permutation: Arc::default(),
            groups: Vec::new(),
            steps: Vec::new(),
            loops: Vec::new(),
            strands: Vec::new(),
        };
        Builder {
            schedule,
            frontier: Vec::new(),
            group: 0,
            in_loop: None,
            hierarchy: None,
            neighbours: Arc::default(),
        }
    }

    /// Returns a builder for ranks whose distances are known if `hierarchy` is given.
    pub fn with_hierarchy(unit: Unit, hierarchy: Option<&Arc<Hierarchy>>) -> Builder {
        Builder { hierarchy: hierarchy.cloned(), ..Builder::new(unit) }
    }

    /// Returns the same builder, for a rank with these neighbours.
    pub fn among(self, neighbours: Option<&Arc<Neighbours>>) -> Builder {
        Builder { neighbours: neighbours.cloned().unwrap_or_default(), ..self }
    }

    /// Returns the ranks with which this rank exchanges blocks in a neighbourhood collective.
    pub fn neighbours(&self) -> Arc<Neighbours> {
        Arc::clone(&self.neighbours)
    }

    /// Returns the distances of `ranks` ranks, with some distances ignored. If they are unknown, all ranks
    /// are equally far from one another.
    pub fn hierarchy(&self, ranks: u32, ignored: Ignored) -> Arc<Hierarchy> {
        match &self.hierarchy {
            Some(hierarchy) if ignored == Ignored::NONE => Arc::clone(hierarchy),
            Some(hierarchy) => Arc::new(hierarchy.without(ignored)),
            None => Arc::new(Hierarchy::flat(ranks)),
        }
    }

    /// Returns the finished schedule.
    pub fn finish(mut self) -> Schedule {
        if self.schedule.strands.last().is_some_and(|first| *first as usize == self.schedule.steps.len()) {
            self.schedule.strands.pop();
        }
        self.schedule
    }

    /// Adds a temporary of `units` units.
    pub fn temporary(&mut self, units: u64) -> BufferId {
        self.schedule.temporaries.push(units);
        let number = self.schedule.temporaries.len() - 1;
        BufferId(BufferId::FIRST_TEMPORARY + u16::try_from(number).expect("a schedule has few temporaries"))
    }

    /// Makes this a schedule in program order, for the steps within a node. Before the first step.
    pub fn in_program_order(&mut self) {
        assert!(self.schedule.steps.is_empty(), "the order of a schedule is chosen before its first step");
        self.schedule.order = Order::Program;
    }

    /// Ends a strand: the steps that follow run beside all that came before. Does nothing where no step came
    /// before.
    pub fn strand(&mut self) {
        assert!(
            self.schedule.order == Order::Program && self.in_loop.is_none(),
            "strands are in program order"
        );
        let first = self.schedule.steps.len() as u32;
        if first > self.schedule.strands.last().copied().unwrap_or(0) {
            self.schedule.strands.push(first);
        }
    }

    /// Sets the permutation in which [`permuted`] blocks are looked up.
    pub fn permute(&mut self, permutation: Arc<[u32]>) {
        assert!(self.schedule.permutation.is_empty(), "a schedule has one permutation");
        self.schedule.permutation = permutation;
    }

    /// Ensures that every rank's bank has at least `units` units. All ranks must make the same call.
    pub fn bank(&mut self, units: u64) {
        self.schedule.bank = self.schedule.bank.max(units);
    }

    /// Sets the own flag `flag`.
    pub fn post(&mut self, flag: u16, value: impl Into<Index>) -> StepId {
        self.step(Kind::Post { flag, value: value.into() }, &[])
    }

    /// Waits for the flag `flag` of `peer`.
    pub fn wait(&mut self, peer: impl Into<Index>, flag: u16, value: impl Into<Index>) -> StepId {
        self.step(Kind::Await { peer: peer.into(), flag, value: value.into() }, &[])
    }

    /// Exposes `what` to other ranks as number `slot`.
    pub fn expose(&mut self, slot: u16, what: Span, access: Access) -> StepId {
        self.step(Kind::Expose { slot, what, access }, &[])
    }

    /// Copies `from` of `peer` to `into`.
    pub fn pull(&mut self, peer: impl Into<Index>, from: Span, into: Span) -> StepId {
        self.step(Kind::Pull { peer: peer.into(), from, into }, &[])
    }

    /// Appends `into = from op with`, with `from` in the memory of `peer`.
    pub fn combine(&mut self, peer: impl Into<Index>, from: Span, with: Span, into: Span) -> StepId {
        self.step(Kind::Combine { peer: peer.into(), from, with, into }, &[])
    }

    /// Copies `from` to `into` of `peer`.
    pub fn push(&mut self, peer: impl Into<Index>, from: Span, into: Span) -> StepId {
        self.step(Kind::Push { peer: peer.into(), from, into }, &[])
    }

    /// Writes `from` into the frame `into`.
    pub fn pack(&mut self, from: Span, into: Span) -> StepId {
        self.step(Kind::Pack { from, into }, &[])
    }

    /// Copies the block in the frame `from` of `peer` to `into`.
    pub fn unpack(&mut self, peer: impl Into<Index>, from: Span, into: Span) -> StepId {
        self.step(Kind::Unpack { peer: peer.into(), from, into }, &[])
    }

    /// Sends `from` to `peer`.
    pub fn send(&mut self, peer: impl Into<Index>, lane: u16, from: Span, after: &[Edge]) -> StepId {
        self.step(Kind::Send { peer: peer.into(), lane, from }, after)
    }

    /// Adds a group of ranks for [`Builder::multicast`], and returns its number.
    pub fn group(&mut self, members: &[u32]) -> u16 {
        self.schedule.groups.push(members.into());
        u16::try_from(self.schedule.groups.len() - 1).expect("a schedule has few groups")
    }

    /// Sends `from` to all of a group.
    pub fn multicast(&mut self, group: u16, lane: u16, from: Span, after: &[Edge]) -> StepId {
        self.step(Kind::Multicast { group, lane, from }, after)
    }

    /// Receives `into` from `peer`.
    pub fn recv(&mut self, peer: impl Into<Index>, lane: u16, into: Span, after: &[Edge]) -> StepId {
        self.step(Kind::Recv { peer: peer.into(), lane, into }, after)
    }

    /// Copies `from` to `into`.
    pub fn copy(&mut self, from: Span, into: Span, after: &[Edge]) -> StepId {
        self.step(Kind::Copy { from, into }, after)
    }

    /// Appends `right = left op right`.
    pub fn reduce(&mut self, left: Span, right: Span, after: &[Edge]) -> StepId {
        self.step(Kind::Reduce { left, right }, after)
    }

    /// Appends a step that comes after the last `join` and after `after`.
    pub fn step(&mut self, kind: Kind, after: &[Edge]) -> StepId {
        let id = StepId(self.schedule.steps.len() as u32);
        if self.schedule.order == Order::Program {
            assert!(after.is_empty(), "a schedule in program order has no edges");
            self.schedule.steps.push(Step { kind, after: Box::default(), in_loop: self.in_loop });
            return id;
        }
        let group = self.group;
        let follows = after.iter().any(|edge| edge.distance != 0 || edge.step.0 as usize >= group);
        let inherits = !after.iter().any(|edge| edge.distance == 0 && edge.step.0 as usize >= group);
        debug_assert!(after.is_empty() || follows, "an edge points into the group; join does the rest");
        let mut edges = after.to_vec();
        if inherits {
            edges.extend_from_slice(&self.frontier);
        }
        self.schedule.steps.push(Step { kind, after: edges.into(), in_loop: self.in_loop });
        id
    }

    /// Appends all of another schedule, for ranks that begin with `first`. `user` replaces its send and
    /// receive buffers. All earlier steps precede it, and all later steps follow it.
    pub fn embed(&mut self, part: Schedule, first: u32, user: [BufferId; 2]) {
        assert!(
            part.order == Order::Edges && part.permutation.is_empty() && self.in_loop.is_none(),
            "only schedules of messages between consecutive ranks are embedded"
        );
        self.join();
        let (steps, loops) = (self.schedule.steps.len() as u32, self.schedule.loops.len() as u16);
        let temporaries = BufferId::FIRST_TEMPORARY + self.schedule.temporaries.len() as u16;
        let buffer = |buffer: BufferId| match buffer.temporary() {
            Some(number) => BufferId(temporaries + number as u16),
            None => user[usize::from(buffer.0)],
        };
        let span =
            |span: Span| if span.is_signal() { span } else { Span { buffer: buffer(span.buffer), ..span } };
        for Step { kind, after, in_loop } in part.steps {
            let kind = match kind {
                Kind::Send { peer, lane, from } => {
                    Kind::Send { peer: peer.plus(first), lane, from: span(from) }
                }
                Kind::Recv { peer, lane, into } => {
                    Kind::Recv { peer: peer.plus(first), lane, into: span(into) }
                }
                Kind::Copy { from, into } => Kind::Copy { from: span(from), into: span(into) },
                Kind::Reduce { left, right } => Kind::Reduce { left: span(left), right: span(right) },
                other => unreachable!("{other:?} is for schedules in program order"),
            };
            let inherits = !after.iter().any(|edge| matches!(edge.distance, 0 | Edge::WHOLE));
            let moved = after.iter().map(|edge| Edge { step: StepId(edge.step.0 + steps), ..*edge });
            let frontier = self.frontier.iter().copied().filter(|_| inherits);
            let after = moved.chain(frontier).collect();
            let in_loop = in_loop.map(|number| number + loops);
            self.schedule.steps.push(Step { kind, after, in_loop });
        }
        self.schedule.temporaries.extend(part.temporaries);
        let moved = |inner: Loop| Loop { first: inner.first + steps, ..inner };
        self.schedule.loops.extend(part.loops.into_iter().map(moved));
        self.join();
    }

    /// Returns the number of the step that is appended next.
    pub fn upcoming(&self) -> StepId {
        StepId(self.schedule.steps.len() as u32)
    }

    /// Ends a group: the steps that follow come after all of it.
    pub fn join(&mut self) {
        if self.schedule.order == Order::Program {
            return;
        }
        let steps = &self.schedule.steps[self.group..];
        if steps.is_empty() {
            return;
        }
        let mut sink = vec![true; steps.len()];
        for edge in steps.iter().flat_map(|step| step.after.iter()) {
            if edge.step.0 as usize >= self.group && matches!(edge.distance, 0 | Edge::WHOLE) {
                sink[edge.step.0 as usize - self.group] = false;
            }
        }
        self.frontier.clear();
        for (offset, step) in steps.iter().enumerate().filter(|(offset, _)| sink[*offset]) {
            let step_id = StepId((self.group + offset) as u32);
            self.frontier.push(if step.in_loop.is_some() { step_id.whole() } else { step_id.done() });
        }
        self.group = self.schedule.steps.len();
    }

    /// Writes a loop of `count` iterations, at most `window` in flight; `body` writes the steps of one. The
    /// loop is part of the current group. Nothing is written if `count` is 0 or the body has no step. In
    /// program order, one iteration is no loop, so that two ranks do not pay for one.
    pub fn repeat(&mut self, count: u32, window: u32, body: impl FnOnce(&mut Builder)) {
        if count == 0 {
            return;
        }
        if count == 1 && self.schedule.order == Order::Program {
            body(self);
            return;
        }
        assert!(self.in_loop.is_none(), "loops do not nest");
        let first = self.schedule.steps.len();
        self.in_loop = Some(u16::try_from(self.schedule.loops.len()).expect("a schedule has few loops"));
        body(self);
        self.in_loop = None;
        let steps = (self.schedule.steps.len() - first) as u32;
        if steps == 0 {
            return;
        }
        let window = window.clamp(1, Loop::MAX_WINDOW);
        self.schedule.loops.push(Loop { first: first as u32, steps, count, window });
    }

    /// Writes `body` for `count` peers one after the other: as a loop, or within a loop (and for one peer) as
    /// separate steps.
    pub fn each(&mut self, peers: Index, count: u32, body: impl Fn(Index, &mut Builder)) {
        if self.in_loop.is_some() || count < 2 {
            (0..count).for_each(|number| body(Index::fixed(peers.in_iteration(number)), self));
        } else {
            self.repeat(count, 1, |b| body(peers, b));
        }
    }
}

impl From<u32> for Index {
    fn from(rank: u32) -> Index {
        Index::fixed(u64::from(rank))
    }
}

/// Returns `length` units of `buffer`, beginning at `offset`.
pub fn range(buffer: BufferId, offset: u64, length: u64) -> Span {
    let start = Start::Affine { offset, stride: 0, index: Index::fixed(0) };
    Span { buffer, start, length: Length::Fixed(length) }
}

/// Returns block `index` of `buffer`, divided by `division`.
pub fn block(buffer: BufferId, division: Division, index: impl Into<Index>) -> Span {
    blocks(buffer, division, index, 1)
}

/// Returns `count` consecutive blocks of `buffer`, beginning with block `index`.
pub fn blocks(buffer: BufferId, division: Division, index: impl Into<Index>, count: u32) -> Span {
    let index = index.into();
    let start = Start::Block { division, index };
    Span { buffer, start, length: Length::Blocks { division, index, count } }
}

/// Returns the block of `buffer`, divided by `division`, whose number is entry `index` of the schedule's
/// permutation.
pub fn permuted(buffer: BufferId, division: Division, index: impl Into<Index>) -> Span {
    let index = index.into();
    Span { buffer, start: Start::Permuted { division, index }, length: Length::Permuted { division, index } }
}

/// Returns part `part` of the `parts` nearly equal ones of block `index` of `buffer`.
pub fn part(
    buffer: BufferId,
    division: Division,
    index: impl Into<Index>,
    (part, parts): (Index, u32),
) -> Span {
    let index = index.into();
    let start = Start::Part { division, index, part, parts };
    Span { buffer, start, length: Length::Part { division, index, part, parts } }
}

/// Returns block `index` of `buffer` if it has more than `most` units, otherwise an empty span.
pub fn beyond(buffer: BufferId, division: Division, index: impl Into<Index>, most: u64) -> Span {
    let index = index.into();
    Span { buffer, start: Start::Block { division, index }, length: Length::Beyond { division, index, most } }
}

/// Returns a span of the length of `like` in `buffer`, at `offset + stride * index`.
pub fn slot(buffer: BufferId, offset: u64, stride: u64, index: impl Into<Index>, like: Span) -> Span {
    let start = Start::Affine { offset, stride, index: index.into() };
    Span { buffer, start, length: like.length }
}

/// Returns the same range as `like` in another buffer.
pub fn same(buffer: BufferId, like: Span) -> Span {
    Span { buffer, ..like }
}
