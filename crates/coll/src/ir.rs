//! The intermediate representation: one rank's part of a collective operation.
//!
//! A [`Schedule`] is a short program of typed [`Step`]s. Straight-line steps run once; the steps of
//! a [`Loop`] run `count` times, with at most `window` iterations in flight. So a ring or a pipeline
//! costs a handful of steps, and a schedule's size is O(log P + degree) whatever the message size.
//!
//! # When a step may start
//! All edges in `after` must be satisfied ([`Edge`]), and the same step of the previous iteration must have
//! been started. In a loop, all steps of the iteration `window` before must be complete. Nothing else orders
//! steps: unordered steps may run in any order, or at the same time.
//!
//! # Messages
//! A message is matched by (peer, lane) in the order in which both sides start. Two different steps that use
//! one lane towards one peer must therefore be ordered by `after`, or use two lanes. A send may complete as
//! late as its receive. A message whose span is empty is not sent at all (both sides know its
//! length). [`Span::SIGNAL`] is the exception: it is sent although it carries nothing.
//!
//! # Units and addresses
//! Spans count units ([`Unit`]). In a schedule that only moves data a unit is one packed byte of the user's
//! datatype; in one that reduces it is one whole element. So derived datatypes and user-defined operators
//! need no second algorithm. A buffer is a linear space of units. A buffer given by counts and displacements
//! (the v and w collectives) is the concatenation of its entries, and a span in it is exactly one entry.
//! Counts are looked up in a [`Table`] when the schedule runs, not when it is built: a cached schedule serves
//! any counts.
//!
//! # Within a node: flags, banks, exposed memory
//! Ranks of one node share memory while an operation runs (S1, S2 of the papers):
//! - A *flag* is a counter that one rank sets ([`Kind::Post`]) and others wait for ([`Kind::Await`]). Its
//!   values only grow within an operation. All that a rank did before it posted is visible to a rank that
//!   awaited the value.
//! - The *bank* ([`BufferId::BANK`]) is shared scratch of [`Schedule::bank`] units at every rank, the same
//!   number on all of them. A rank writes only its own bank, by any step that writes memory; others read it
//!   by [`Kind::Pull`] and [`Kind::Combine`]. Its initial content is undefined. A rank may leave the
//!   operation while others still read its bank: the engine gives the bank to a later operation only when all
//!   have left this one.
//! - A *frame* holds a block together with its length ([`Kind::Pack`], [`Kind::Unpack`]), for lengths that
//!   differ from rank to rank.
//! - An *exposed* span ([`Kind::Expose`]) may be read or written by others until its owner leaves the
//!   operation. The owner leaves only after it has awaited that all are done with the span. Peers count from
//!   the first unit of the exposed span. They may access it after they awaited a flag that was posted after
//!   the exposure.
//!
//! These steps are for ranks of one node, and a schedule with such steps has [`Order::Program`].
//!
//! # Files
//! A *window* is a range of a file, with one rank in charge, its aggregator. The aggregator reads
//! ([`Kind::FileRead`]) or writes ([`Kind::FileWrite`]) those bytes of the window that ranks requested or
//! contributed, and no others. In memory these are contiguous, those of rank 0 first, each rank's in its own
//! order; the engine's port knows their positions in the file. Units are bytes.
//!
//! # Strands: levels that overlap
//! A schedule in program order may consist of several [`Schedule::strands`], which run at the same time, each
//! in its own order. So one keeps the network busy while another moves data within the node (S4). Strands are
//! joined by flags only: all that a strand did before it posted is visible to a strand that awaited the
//! value, in another rank or in the same one. A lane towards one peer belongs to one strand.
//!
//! # Multicast
//! [`Kind::Multicast`] is one message to each member of a group ([`Schedule::groups`]), sent as one if the
//! network can copy it (S8). Receivers have a [`Kind::Recv`] from the sender, which does not depend on the
//! way of sending.

mod kind;
mod span;

use std::sync::Arc;

pub use kind::{Access, Kind};
pub use span::{Division, Index, Length, Range, Span, Start, Table, Tables};

/// Bound of the lanes that schedules use; a transport may rely on it.
pub const LANES: u16 = 16;

/// Unit in which the spans of a schedule are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// One packed byte of the user's datatype.
    Byte,
    /// One whole element: an instance of the datatype of a reduction, laid out by its extent.
    Element,
}

/// Number of a memory that a schedule works on: user buffer, temporary, bank or exposed span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u16);

impl BufferId {
    /// The user's send buffer. Only read.
    pub const SEND: BufferId = BufferId(0);
    /// The user's receive buffer; also the only buffer of a broadcast.
    pub const RECV: BufferId = BufferId(1);
    /// The first temporary: `Schedule::temporaries[0]`.
    pub const FIRST_TEMPORARY: u16 = 2;

    /// The bank of a rank: its own, or in the `from` of a pull the peer's.
    pub const BANK: BufferId = BufferId(0x4000);
    /// Spans that a rank may expose in one operation.
    pub const EXPOSURES: u16 = 4;

    /// Returns the memory that `peer` has exposed as number `slot`.
    pub const fn exposed(slot: u16) -> BufferId {
        BufferId(Self::BANK.0 + 1 + slot)
    }

    /// Returns the index of this temporary in `Schedule::temporaries`, or `None` if it is another memory.
    pub fn temporary(self) -> Option<usize> {
        if self >= Self::BANK {
            return None;
        }
        self.0.checked_sub(Self::FIRST_TEMPORARY).map(usize::from)
    }

    /// Returns the number under which it is exposed, or `None` if it is no exposed span.
    pub fn exposure(self) -> Option<u16> {
        self.0.checked_sub(Self::BANK.0 + 1).filter(|slot| *slot < Self::EXPOSURES)
    }
}

/// A step of a schedule, by its place in [`Schedule::steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u32);

impl StepId {
    /// Returns the edge "after this step", in the same iteration if both are in one loop.
    pub fn done(self) -> Edge {
        Edge { step: self, distance: 0 }
    }

    /// Returns the edge "after this step, `distance` iterations before".
    pub fn before(self, distance: u32) -> Edge {
        Edge { step: self, distance }
    }

    /// Returns the edge "after every iteration of this step".
    pub fn whole(self) -> Edge {
        Edge { step: self, distance: Edge::WHOLE }
    }
}

/// Dependency of a step: it starts only after another step is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// Step that must be complete first.
    pub step: StepId,
    /// Number of iterations between the two. For a step in a loop, the iteration `distance` before this one
    /// must be complete (satisfied if there is none), or every iteration if this is [`Edge::WHOLE`]. Between
    /// different loops, iterations correspond by number. For a straight-line step: 0.
    pub distance: u32,
}

impl Edge {
    /// All iterations of the step.
    pub const WHOLE: u32 = u32::MAX;
}

/// One action, and the steps that must be complete before it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Action, with its peer and its spans.
    pub kind: Kind,
    /// Steps that must be complete first.
    pub after: Box<[Edge]>,
    /// Index of its loop in [`Schedule::loops`]; `None` for a straight-line step.
    pub in_loop: Option<u16>,
}

/// Consecutive steps that run several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Number of the first step in [`Schedule::steps`].
    pub first: u32,
    /// Number of steps, at least one.
    pub steps: u32,
    /// Number of iterations of the loop.
    pub count: u32,
    /// Number of iterations that may be in flight: `1..=Loop::MAX_WINDOW`.
    pub window: u32,
}

impl Loop {
    /// Largest number of iterations in flight of any loop.
    pub const MAX_WINDOW: u32 = tutti_base::config::algorithms::MAX_WINDOW;
}

/// Rule by which the steps of a schedule are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// By [`Step::after`] and windows; see the module's documentation.
    Edges,
    /// By position: a step starts when the one before it is complete, an iteration of a loop when the one
    /// before it is, in each strand. There are no edges, and windows are ignored. All schedules within a node
    /// have this order: a processor that copies has nothing else under way, so nothing could overlap.
    Program,
}

/// One rank's part of a collective operation. Immutable once built; shared by the blocking, the
/// non-blocking and the persistent form. Built by `build::Builder`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Unit of all spans.
    pub unit: Unit,
    /// Rule by which the steps are ordered.
    pub order: Order,
    /// The size of the bank at every rank, in units.
    pub bank: u64,
    /// The sizes of the temporaries, in units.
    pub temporaries: Vec<u64>,
    /// Permutation of all ranks that spans may refer to, or empty. The schedules of a communicator share it.
    pub permutation: Arc<[u32]>,
    /// Receivers of each multicast: distinct ranks, never this one.
    pub groups: Vec<Box<[u32]>>,
    /// The program; an edge points to an earlier step, or within one loop at a distance.
    pub steps: Vec<Step>,
    /// Loops, which are disjoint, in the order of their steps.
    pub loops: Vec<Loop>,
    /// The first steps of the strands after the first one, which begins with step 0; ascending, no strand
    /// without steps. None in [`Order::Edges`].
    pub strands: Vec<u32>,
}

impl Schedule {
    /// Returns the number of times that a step runs.
    pub fn iterations(&self, step: StepId) -> u32 {
        match self.steps[step.0 as usize].in_loop {
            Some(number) => self.loops[usize::from(number)].count,
            None => 1,
        }
    }

    /// Returns the first of the final steps in which a rank that exposed memory only waits until its peers
    /// are done with that memory. The wait is unnecessary if all exposed data travelled by value. Returns one
    /// past the last step if there are no such steps, or several strands.
    pub fn parting(&self) -> StepId {
        let awaits = |step: &Step| matches!(step.kind, Kind::Await { .. });
        let mut first = self.steps.iter().rposition(|step| !awaits(step)).map_or(0, |last| last + 1);
        // A loop with other steps than waits is not part of the final waits.
        if let Some(last) = first.checked_sub(1).and_then(|last| self.steps[last].in_loop) {
            first += self.steps[first..].iter().take_while(|step| step.in_loop == Some(last)).count();
        }
        let exposes =
            self.strands.is_empty() && self.steps.iter().any(|step| matches!(step.kind, Kind::Expose { .. }));
        StepId(if exposes { first } else { self.steps.len() } as u32)
    }

    /// Returns the index of a step's strand.
    pub fn strand(&self, step: StepId) -> usize {
        self.strands.partition_point(|first| *first <= step.0)
    }

    /// Returns the number of steps that run, those of loops counted once for each iteration.
    pub fn instances(&self) -> u64 {
        (0..self.steps.len() as u32).map(|step| u64::from(self.iterations(StepId(step)))).sum()
    }

    /// Returns the units of all temporaries together.
    pub fn temporary_units(&self) -> u64 {
        self.temporaries.iter().sum()
    }
}
