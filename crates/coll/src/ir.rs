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

use std::sync::Arc;

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

/// A number that depends on the iteration `i`: `base + step * i`, modulo `modulus` unless that is 0, and
/// `offset` more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Index {
    /// The value in iteration 0.
    pub base: i64,
    /// What an iteration adds.
    pub step: i64,
    /// 0, or what the sum is reduced by (into `0..modulus`).
    pub modulus: u32,
    /// Added at last: a cycle need not begin at 0.
    pub offset: u32,
}

impl Index {
    /// The same number in every iteration.
    pub const fn fixed(value: u64) -> Index {
        Index { base: value as i64, step: 0, modulus: 0, offset: 0 }
    }

    /// `base + step * i`, never negative.
    pub const fn linear(base: i64, step: i64) -> Index {
        Index { base, step, modulus: 0, offset: 0 }
    }

    /// `(base + step * i) mod modulus`.
    pub const fn cyclic(base: i64, step: i64, modulus: u32) -> Index {
        Index { base, step, modulus, offset: 0 }
    }

    /// The same and `offset` more.
    pub const fn plus(self, offset: u32) -> Index {
        Index { offset: self.offset + offset, ..self }
    }

    /// Its value in iteration `iteration`.
    #[inline]
    pub fn at(self, iteration: u32) -> u64 {
        let value = self.base + self.step * i64::from(iteration);
        if self.modulus == 0 {
            debug_assert!(value >= 0, "an index without modulus is never negative");
            return value as u64 + u64::from(self.offset);
        }
        let modulus = i64::from(self.modulus);
        let turned = if (0..modulus).contains(&value) { value } else { value.rem_euclid(modulus) };
        turned as u64 + u64::from(self.offset)
    }
}

/// A table of lengths that the caller gives when the schedule runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// The lengths of the blocks of the send buffer.
    Send = 0,
    /// The lengths of the blocks of the receive buffer (of the operand, for reduce_scatter).
    Recv = 1,
}

/// The tables of one run, as running sums: entry `b` begins at `sums[b]` and ends at `sums[b + 1]`,
/// so a table of n blocks has n + 1 sums, the first being 0. Empty where there is no table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables<'a> {
    /// The sums of [`Table::Send`], in units.
    pub send: &'a [u64],
    /// The sums of [`Table::Recv`], in units.
    pub recv: &'a [u64],
    /// [`Schedule::permutation`].
    pub permutation: &'a [u32],
}

impl<'a> Tables<'a> {
    /// The running sums of `table`.
    pub fn sums(&self, table: Table) -> &'a [u64] {
        match table {
            Table::Send => self.send,
            Table::Recv => self.recv,
        }
    }
}

/// A rule that divides a range of units into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// Blocks of `size`, clipped at `total`.
    Regular {
        /// Units of a block.
        size: u64,
        /// Units of all blocks.
        total: u64,
    },
    /// `parts` blocks whose sizes differ by at most one, the larger ones first.
    Even {
        /// How many blocks.
        parts: u32,
        /// Units of all blocks.
        total: u64,
    },
    /// Blocks given by a table.
    Table(Table),
    /// The same blocks in another order: block `b` is the one whose number is entry `b` of
    /// [`Schedule::permutation`]. Found by adding up, for few blocks.
    Permuted(Table),
}

impl Division {
    /// Where block `block` begins. Defined for the block after the last one too: the end.
    #[inline]
    pub fn start(self, block: u64, tables: &Tables<'_>) -> u64 {
        match self {
            Division::Regular { size, total } => (block * size).min(total),
            Division::Even { parts, total } => {
                let (quotient, rest) = (total / u64::from(parts), total % u64::from(parts));
                block * quotient + block.min(rest)
            }
            Division::Table(table) => tables.sums(table)[block as usize],
            Division::Permuted(table) => {
                let sums = tables.sums(table);
                let length = |&block: &u32| sums[block as usize + 1] - sums[block as usize];
                tables.permutation[..block as usize].iter().map(length).sum()
            }
        }
    }
}

/// Where a span starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// `offset + stride * index` units.
    Affine {
        /// Units before slot 0.
        offset: u64,
        /// Units of a slot.
        stride: u64,
        /// Which slot.
        index: Index,
    },
    /// At the first unit of a block.
    Block {
        /// How the buffer is divided.
        division: Division,
        /// Which block.
        index: Index,
    },
    /// At the first unit of the block whose number is entry `index` of [`Schedule::permutation`]: rings and
    /// subtrees that follow the machine instead of the ranks.
    Permuted {
        /// How the buffer is divided.
        division: Division,
        /// Which entry.
        index: Index,
    },
    /// At the first unit of part `part` of the `parts` nearly equal ones of a block: what is cut whose length
    /// only a table knows.
    Part {
        /// How the buffer is divided.
        division: Division,
        /// Which block.
        index: Index,
        /// Which part of it.
        part: Index,
        /// How many parts a block has.
        parts: u32,
    },
    /// In slot `slot` of `stride` units, as far from its beginning as block `index` begins after block
    /// `first`: blocks of which the lengths differ, kept for a while.
    Within {
        /// How blocks are measured.
        division: Division,
        /// Which block.
        index: Index,
        /// The block with which the slot begins.
        first: Index,
        /// Units of a slot.
        stride: u64,
        /// Which slot.
        slot: Index,
    },
    /// At the first unit of an entry of an exposed buffer that its owner describes by counts and
    /// displacements, which only the owner knows (alltoallv, gatherv, scatterv).
    Entry(
        /// Which entry.
        Index,
    ),
}

/// How long a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// So many units.
    Fixed(u64),
    /// As long as `count` consecutive blocks.
    Blocks {
        /// How blocks are measured.
        division: Division,
        /// The first of them.
        index: Index,
        /// How many.
        count: u32,
    },
    /// As long as the block whose number is entry `index` of [`Schedule::permutation`].
    Permuted {
        /// How blocks are measured.
        division: Division,
        /// Which entry.
        index: Index,
    },
    /// As long as a part of a block, as in [`Start::Part`].
    Part {
        /// How blocks are measured.
        division: Division,
        /// Which block.
        index: Index,
        /// Which part of it.
        part: Index,
        /// How many parts a block has.
        parts: u32,
    },
    /// As long as a block of more than `most` units; nothing of a shorter one. So what is too long for a
    /// frame ([`Kind::Pack`]) is a message, and what is not is none.
    Beyond {
        /// How blocks are measured.
        division: Division,
        /// Which block.
        index: Index,
        /// What is not longer is left out.
        most: u64,
    },
}

/// A range of a buffer, depending on the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Of which buffer.
    pub buffer: BufferId,
    /// Its first unit.
    pub start: Start,
    /// Its number of units.
    pub length: Length,
}

/// A span in one iteration: plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Of which buffer.
    pub buffer: BufferId,
    /// First unit.
    pub start: u64,
    /// Number of units.
    pub length: u64,
    /// Which block it begins in; the entry, where the buffer is given by a table.
    pub block: u32,
    /// Units of that block before it.
    pub within: u64,
}

impl Range {
    /// What it holds if it is a frame ([`Kind::Pack`]) with a block of `length` units.
    #[must_use]
    pub fn held(&self, length: u64) -> Range {
        Range { start: self.start + Kind::FRAME_HEADER, length, ..*self }
    }

    /// One past the last unit.
    pub fn end(&self) -> u64 {
        self.start + self.length
    }

    /// Whether the two have a unit in common.
    pub fn overlaps(&self, other: &Range) -> bool {
        self.buffer == other.buffer
            && self.length > 0
            && other.length > 0
            && self.start < other.end()
            && other.start < self.end()
    }
}

impl Span {
    /// The content of a message that carries nothing but the fact that it was sent.
    pub const SIGNAL: Span = Span {
        buffer: BufferId(u16::MAX),
        start: Start::Affine { offset: 0, stride: 0, index: Index::fixed(0) },
        length: Length::Fixed(0),
    };

    /// Whether this is [`Span::SIGNAL`].
    pub fn is_signal(&self) -> bool {
        self.buffer == Span::SIGNAL.buffer
    }

    /// Whether a table says where it is or how long.
    pub fn uses_table(&self) -> bool {
        let table = |division: Division| matches!(division, Division::Table(_) | Division::Permuted(_));
        let start = match self.start {
            Start::Block { division, .. }
            | Start::Permuted { division, .. }
            | Start::Within { division, .. }
            | Start::Part { division, .. } => table(division),
            Start::Affine { .. } | Start::Entry(_) => false,
        };
        let length = match self.length {
            Length::Blocks { division, .. }
            | Length::Permuted { division, .. }
            | Length::Beyond { division, .. }
            | Length::Part { division, .. } => table(division),
            Length::Fixed(_) => false,
        };
        start || length
    }

    /// The range it denotes in iteration `iteration`.
    #[inline]
    pub fn at(&self, iteration: u32, tables: &Tables<'_>) -> Range {
        let (start, block, within) = match self.start {
            Start::Affine { offset, stride, index } => (offset + stride * index.at(iteration), 0, 0),
            Start::Block { division, index } => {
                let block = index.at(iteration);
                (division.start(block, tables), block as u32, 0)
            }
            Start::Permuted { division, index } => {
                let block = tables.permutation[index.at(iteration) as usize];
                (division.start(u64::from(block), tables), block, 0)
            }
            Start::Part { division, index, part, parts } => {
                let block = index.at(iteration);
                let within = part_of(division, block, parts, tables).start(part.at(iteration), tables);
                (division.start(block, tables) + within, block as u32, within)
            }
            Start::Within { division, index, first, stride, slot } => {
                let (block, first) = (index.at(iteration), first.at(iteration));
                let within = division.start(block, tables) - division.start(first, tables);
                (stride * slot.at(iteration) + within, block as u32, 0)
            }
            Start::Entry(index) => (0, index.at(iteration) as u32, 0),
        };
        let length = match self.length {
            Length::Fixed(length) => length,
            Length::Blocks { division, index, count } => {
                let first = index.at(iteration);
                division.start(first + u64::from(count), tables) - division.start(first, tables)
            }
            Length::Permuted { division, index } => {
                let block = u64::from(tables.permutation[index.at(iteration) as usize]);
                division.start(block + 1, tables) - division.start(block, tables)
            }
            Length::Part { division, index, part, parts } => {
                let (whole, part) =
                    (part_of(division, index.at(iteration), parts, tables), part.at(iteration));
                whole.start(part + 1, tables) - whole.start(part, tables)
            }
            Length::Beyond { division, index, most } => {
                let block = index.at(iteration);
                let length = division.start(block + 1, tables) - division.start(block, tables);
                if length > most { length } else { 0 }
            }
        };
        Range { buffer: self.buffer, start, length, block, within }
    }
}

/// The parts of a block, from its first unit on.
fn part_of(division: Division, block: u64, parts: u32, tables: &Tables<'_>) -> Division {
    let total = division.start(block + 1, tables) - division.start(block, tables);
    Division::Even { parts, total }
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Sends `from` to rank `peer`.
    Send {
        /// The receiver.
        peer: Index,
        /// Which sequence of messages between the two it belongs to.
        lane: u16,
        /// What is sent.
        from: Span,
    },
    /// Sends `from` to every member of a group, as one payload where the network copies it.
    Multicast {
        /// Which of [`Schedule::groups`].
        group: u16,
        /// Which sequence of messages it belongs to, with each of them.
        lane: u16,
        /// What is sent.
        from: Span,
    },
    /// Receives a message of rank `peer` into `into`; both spans have the same length.
    Recv {
        /// The sender.
        peer: Index,
        /// Which sequence of messages between the two it belongs to.
        lane: u16,
        /// Where it goes.
        into: Span,
    },
    /// Copies `from` to `into`, which has the same length and does not overlap it.
    Copy {
        /// What is copied.
        from: Span,
        /// Where it goes.
        into: Span,
    },
    /// `right = left op right`, element by element. The order of the operands matters.
    Reduce {
        /// The left operand; only read.
        left: Span,
        /// The right operand, and the result.
        right: Span,
    },
    /// Sets the rank's own flag `flag` to `value`, more than any value before in this operation (0 at its
    /// beginning).
    Post {
        /// Which flag: below [`Kind::ALL_FLAGS`].
        flag: u16,
        /// The new value.
        value: Index,
    },
    /// Waits until the flag `flag` of `peer` is at least `value`; not at all for 0.
    Await {
        /// Whose flag. May be the rank itself (nothing to wait for, once posted).
        peer: Index,
        /// Which flag: below [`Kind::FLAGS`], or a private one of the rank itself.
        flag: u16,
        /// At least this.
        value: Index,
    },
    /// Lets the others at `what`.
    Expose {
        /// The number under which they find it: below [`BufferId::EXPOSURES`], each once in an operation.
        slot: u16,
        /// A span of a user's buffer or of a temporary. A whole buffer given by a table is exposed
        /// entry by entry.
        what: Span,
        /// What they may do.
        access: Access,
    },
    /// Copies `from`, in the bank of `peer` or exposed there, to `into`. `from` is as long as `into`.
    Pull {
        /// Whose memory; may be the rank itself.
        peer: Index,
        /// What is copied: of [`BufferId::BANK`] or [`BufferId::exposed`].
        from: Span,
        /// Where it goes: own memory.
        into: Span,
    },
    /// `into = from op with`, `from` being in the bank of `peer` or exposed there. `with` and `into` are own
    /// memory, as long as `from`, and the same span or disjoint.
    Combine {
        /// Whose memory; may be the rank itself.
        peer: Index,
        /// The left operand.
        from: Span,
        /// The right operand.
        with: Span,
        /// The result.
        into: Span,
    },
    /// Copies `from`, own memory, to `into`, exposed by `peer` for writing.
    Push {
        /// Whose memory.
        peer: Index,
        /// What is copied.
        from: Span,
        /// Where it goes: of [`BufferId::exposed`]. As long as `from`.
        into: Span,
    },
    /// Writes the frame `into`: first how long `from` is ([`Kind::FRAME_HEADER`] units), then what it holds,
    /// if the rest of the frame has room for that. Frames have one length wherever blocks have many that only
    /// their owners know: so blocks of several ranks travel as one message, and whoever unpacks one finds out
    /// whether that is what it expects. Units are bytes.
    Pack {
        /// What is packed; only read.
        from: Span,
        /// The frame: own memory, not the user's.
        into: Span,
    },
    /// Reads a frame in the bank of `peer`, which must say that the block is as long as `into`; what it holds
    /// is copied there.
    Unpack {
        /// Whose bank; may be the rank itself.
        peer: Index,
        /// The frame.
        from: Span,
        /// Where it goes: own memory.
        into: Span,
    },
    /// Reads what ranks have asked for of a window of the file.
    FileRead {
        /// Where it goes: the bytes of all ranks, one rank's after the other.
        into: Span,
        /// Which window.
        window: Index,
    },
    /// Writes what ranks have given of a window of the file, each byte to its place.
    FileWrite {
        /// The bytes of all ranks, one rank's after the other; only read.
        from: Span,
        /// Which window.
        window: Index,
    },
}

/// What others may do with exposed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read it. The owner only reads it too.
    Read,
    /// Write it, each his part.
    Write,
    /// Both, as flags order it.
    ReadWrite,
}

impl Kind {
    /// Flags of a rank in an operation that others can see.
    pub const FLAGS: u16 = 8;
    /// All flags of a rank: those from [`Kind::FLAGS`] on are private, for its own strands to await.
    pub const ALL_FLAGS: u16 = 128;
    /// Flags from this on keep a strand from running ahead of the others, which would cost time: no data
    /// depend on them.
    pub const PACING: u16 = Kind::ALL_FLAGS - 2;
    /// Values of flags stay below this, whatever the size of the operation: sizes of segments grow with it.
    pub const VALUES: u64 = 1 << 24;
    /// Units of a frame before the block: how long that is.
    pub const FRAME_HEADER: u64 = 8;

    /// Whether a block of `length` units fits into a frame of `frame`.
    pub fn fits(length: u64, frame: u64) -> bool {
        length.saturating_add(Kind::FRAME_HEADER) <= frame
    }

    /// Whether it moves data within the node, and so takes its time but waits for nobody.
    pub fn moves(&self) -> bool {
        match self {
            Kind::Copy { .. } | Kind::Reduce { .. } | Kind::Pull { .. } | Kind::Combine { .. } => true,
            Kind::Push { .. } | Kind::Pack { .. } | Kind::Unpack { .. } => true,
            Kind::Send { .. } | Kind::Multicast { .. } | Kind::Recv { .. } => false,
            Kind::FileRead { .. } | Kind::FileWrite { .. } => false,
            Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => false,
        }
    }

    /// The span of own memory that it reads without writing it.
    pub fn reads(&self) -> Option<&Span> {
        match self {
            Kind::Send { from, .. } | Kind::Copy { from, .. } | Kind::Push { from, .. } => Some(from),
            Kind::Pack { from, .. } | Kind::FileWrite { from, .. } => Some(from),
            Kind::Multicast { from, .. } => Some(from),
            Kind::Reduce { left, .. } => Some(left),
            Kind::Combine { with, into, .. } if with != into => Some(with),
            Kind::Recv { .. } | Kind::Combine { .. } | Kind::Pull { .. } | Kind::Unpack { .. } => None,
            Kind::FileRead { .. } => None,
            Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => None,
        }
    }

    /// Whether it writes the rank's own bank.
    pub fn fills_bank(&self) -> bool {
        self.writes().is_some_and(|span| span.buffer == BufferId::BANK)
    }

    /// The span of own memory that it writes.
    pub fn writes(&self) -> Option<&Span> {
        match self {
            Kind::Recv { into, .. } | Kind::Copy { into, .. } => Some(into),
            Kind::Pull { into, .. } | Kind::Combine { into, .. } => Some(into),
            Kind::Pack { into, .. } | Kind::Unpack { into, .. } => Some(into),
            Kind::FileRead { into, .. } => Some(into),
            Kind::Reduce { right, .. } => Some(right),
            Kind::Send { .. } | Kind::Push { .. } | Kind::FileWrite { .. } => None,
            Kind::Multicast { .. } => None,
            Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => None,
        }
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
    pub const MAX_WINDOW: u32 = 64;
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
