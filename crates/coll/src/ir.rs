//! The intermediate representation: one rank's part of a collective operation.
//!
//! A [`Schedule`] is a short program of typed [`Step`]s. Straight-line steps run once; the steps of
//! a [`Loop`] run `count` times, with at most `window` iterations in flight. So a ring or a pipeline
//! costs a handful of steps, and a schedule's size is O(log P + degree) whatever the message size.
//!
//! # When a step may start
//! Every edge of `after` is satisfied ([`Edge`]), the same step of the previous iteration has been
//! started, and (in a loop) all steps of the iteration `window` before are complete. Nothing else
//! orders steps: what is not ordered may happen in any order, at the same time.
//!
//! # Messages
//! A message is matched by (peer, lane) in the order in which both sides start; hence two different
//! steps that use one lane towards one peer must be ordered by `after`, or use two lanes. A send may
//! complete as late as when it is received. A message whose span is empty is not sent at all (both
//! sides know its length); [`Span::SIGNAL`] is the exception, a message that carries nothing.
//!
//! # Units and addresses
//! Spans count units. In a schedule that only moves data a unit is one packed byte of the user's
//! datatype, in one that reduces it is one whole element ([`Unit`]), so that derived datatypes and
//! user-defined operators need no second algorithm. A buffer is a linear space of units; that of a
//! buffer given by counts and displacements (the v and w collectives) is the concatenation of its
//! entries, and a span in it is exactly one entry. Counts are looked up in a [`Table`] when the
//! schedule runs, not when it is built: a cached schedule serves any counts.
//!
//! # Within a node: flags, banks, exposed memory
//! Ranks of one node share memory while an operation runs (S1, S2 of the papers):
//! - a *flag* is a counter that one rank sets ([`Kind::Post`]) and others wait for ([`Kind::Await`]). Its
//!   values only grow within an operation. What a rank did before it posted is visible to whoever awaited
//!   that value.
//! - the *bank* ([`BufferId::BANK`]) is shared scratch of [`Schedule::bank`] units at every rank, equally
//!   many on all of them. A rank writes its own bank only, by any step that writes memory; the others read it
//!   by [`Kind::Pull`] and [`Kind::Combine`]. It is undefined when the operation begins. A rank may leave the
//!   operation while others still read its bank: the engine gives the bank to a later operation only when all
//!   have left this one.
//! - a *frame* holds a block together with its length ([`Kind::Pack`], [`Kind::Unpack`]), where lengths
//!   differ from rank to rank.
//! - a span that is *exposed* ([`Kind::Expose`]) may be read or written by the others until its owner leaves
//!   the operation; so the owner leaves only after it has awaited that all are done with it. Peers count from
//!   the first unit of the exposed span, and get at it after they awaited a flag that was posted after it was
//!   exposed.
//!
//! These steps are for ranks of one node, and a schedule that has them is [`Order::Program`].
//!
//! # Files
//! A *window* is a range of a file, of which one rank is in charge. It reads ([`Kind::FileRead`]) or writes
//! ([`Kind::FileWrite`]) the bytes of it that ranks have asked for or given, and no others. In memory these
//! are one after the other, those of rank 0 first, each rank's in the order in which it has them: where they
//! lie in the file the engine's port knows. Units are bytes.
//!
//! # Strands: levels that overlap
//! A schedule in program order may consist of several [`Schedule::strands`], which run at the same time, each
//! in its own order. So one keeps the network busy while another moves data within the node (S4). They are
//! joined by flags only: what a strand did before it posted is visible to whoever awaited that value, in
//! another rank or in another strand of the same one. A lane towards one peer belongs to one strand.
//!
//! # Multicast
//! [`Kind::Multicast`] is one message to each member of a group ([`Schedule::groups`]), sent as one where the
//! network can (S8). Receivers have a [`Kind::Recv`] from the sender, and so never know how it came.

mod kind;
mod span;

use std::sync::Arc;

pub use kind::{Access, Kind};
pub use span::{Division, Index, Length, Range, Span, Start, Table, Tables};

/// No schedule uses a lane from here on; a transport may count on it.
pub const LANES: u16 = 16;

/// What the spans of a schedule count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// One packed byte of the user's datatype.
    Byte,
    /// One whole element: an instance of the datatype of a reduction, laid out by its extent.
    Element,
}

/// A memory that a schedule works on.
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

    /// What `peer` has exposed as number `slot`.
    pub const fn exposed(slot: u16) -> BufferId {
        BufferId(Self::BANK.0 + 1 + slot)
    }

    /// Which temporary this is, if it is one.
    pub fn temporary(self) -> Option<usize> {
        if self >= Self::BANK {
            return None;
        }
        self.0.checked_sub(Self::FIRST_TEMPORARY).map(usize::from)
    }

    /// The number under which it is exposed, if it is an exposed span.
    pub fn exposure(self) -> Option<u16> {
        self.0.checked_sub(Self::BANK.0 + 1).filter(|slot| *slot < Self::EXPOSURES)
    }
}

/// A step of a schedule, by its place in [`Schedule::steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u32);

impl StepId {
    /// "After this step", in the same iteration where both are in one loop.
    pub fn done(self) -> Edge {
        Edge { step: self, distance: 0 }
    }

    /// "After this step of `distance` iterations before."
    pub fn before(self, distance: u32) -> Edge {
        Edge { step: self, distance }
    }

    /// "After every iteration of this step."
    pub fn whole(self) -> Edge {
        Edge { step: self, distance: Edge::WHOLE }
    }
}

/// "Not before that step is complete."
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// The step that comes first.
    pub step: StepId,
    /// For a step in a loop: the iteration `distance` before this one (satisfied if there is none),
    /// or every iteration if this is [`Edge::WHOLE`]. Between different loops, iterations correspond
    /// by number. For a straight-line step: 0.
    pub distance: u32,
}

impl Edge {
    /// All iterations of the step.
    pub const WHOLE: u32 = u32::MAX;
}

/// One action and what must be complete before it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub kind: Kind,
    /// What comes first.
    pub after: Box<[Edge]>,
    /// The loop it is in: an index into [`Schedule::loops`].
    pub in_loop: Option<u16>,
}

/// Consecutive steps that run several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The first of its steps.
    pub first: u32,
    /// How many steps it has, at least one.
    pub steps: u32,
    /// How many iterations.
    pub count: u32,
    /// How many iterations may be in flight: `1..=Loop::MAX_WINDOW`.
    pub window: u32,
}

impl Loop {
    /// No loop has more iterations in flight than this.
    pub const MAX_WINDOW: u32 = tutti_base::config::algorithms::MAX_WINDOW;
}

/// What orders the steps of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// [`Step::after`] and windows, as the module says.
    Edges,
    /// Their place: a step starts when the one before it is complete, an iteration of a loop when the one
    /// before it is, in each strand. There are no edges, and windows are not looked at. All within a node is
    /// of this order: where nothing is under way while a processor copies, there is nothing to overlap.
    Program,
}

/// One rank's part of a collective operation. Immutable once built; shared by the blocking, the
/// non-blocking and the persistent form. Built by `build::Builder`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What spans count.
    pub unit: Unit,
    /// What orders its steps.
    pub order: Order,
    /// The size of the bank at every rank, in units.
    pub bank: u64,
    /// The sizes of the temporaries, in units.
    pub temporaries: Vec<u64>,
    /// An order of all ranks, for spans to refer to; or empty. The schedules of a communicator share it.
    pub permutation: Arc<[u32]>,
    /// Who gets what is sent to several at once: ranks, each once, never this one.
    pub groups: Vec<Box<[u32]>>,
    /// The program; an edge points to an earlier step, or within one loop at a distance.
    pub steps: Vec<Step>,
    /// Disjoint, in the order of their steps.
    pub loops: Vec<Loop>,
    /// The first steps of the strands after the first one, which begins with step 0; ascending, no strand
    /// without steps. None in [`Order::Edges`].
    pub strands: Vec<u32>,
}

impl Schedule {
    /// How often a step runs.
    pub fn iterations(&self, step: StepId) -> u32 {
        match self.steps[step.0 as usize].in_loop {
            Some(number) => self.loops[usize::from(number)].count,
            None => 1,
        }
    }

    /// The first of the steps with which a rank ends that has exposed memory: it only waits until others are
    /// done with that. Where all that it has exposed travelled by value, it need not. One past the last where
    /// there are none, or several strands.
    pub fn parting(&self) -> StepId {
        let awaits = |step: &Step| matches!(step.kind, Kind::Await { .. });
        let mut first = self.steps.iter().rposition(|step| !awaits(step)).map_or(0, |last| last + 1);
        // A loop that does more than wait is not over yet.
        if let Some(last) = first.checked_sub(1).and_then(|last| self.steps[last].in_loop) {
            first += self.steps[first..].iter().take_while(|step| step.in_loop == Some(last)).count();
        }
        let exposes =
            self.strands.is_empty() && self.steps.iter().any(|step| matches!(step.kind, Kind::Expose { .. }));
        StepId(if exposes { first } else { self.steps.len() } as u32)
    }

    /// The strand of a step.
    pub fn strand(&self, step: StepId) -> usize {
        self.strands.partition_point(|first| *first <= step.0)
    }

    /// Steps that run, those of loops as often as they do.
    pub fn instances(&self) -> u64 {
        (0..self.steps.len() as u32).map(|step| u64::from(self.iterations(StepId(step)))).sum()
    }

    /// Units of all temporaries.
    pub fn temporary_units(&self) -> u64 {
        self.temporaries.iter().sum()
    }
}
