//! Positions of a step's data: ranges of buffers in units, which may depend on the iteration of a loop and on
//! the counts of a call.

use super::{BufferId, Kind};

/// Number that depends on the iteration `i`: `base + step * i`, modulo `modulus` unless that is 0, plus
/// `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Index {
    /// The value in iteration 0.
    pub base: i64,
    /// Difference between two consecutive iterations.
    pub step: i64,
    /// Modulus that maps the sum into `0..modulus`; 0 for none.
    pub modulus: u32,
    /// Constant added last, for a cycle that does not begin at 0.
    pub offset: u32,
}

impl Index {
    /// Returns a number that is the same in every iteration.
    pub const fn fixed(value: u64) -> Index {
        Index { base: value as i64, step: 0, modulus: 0, offset: 0 }
    }

    /// Returns `base + step * i`, which must never be negative.
    pub const fn linear(base: i64, step: i64) -> Index {
        Index { base, step, modulus: 0, offset: 0 }
    }

    /// Returns `(base + step * i) mod modulus`.
    pub const fn cyclic(base: i64, step: i64, modulus: u32) -> Index {
        Index { base, step, modulus, offset: 0 }
    }

    /// Returns the same number with `offset` added.
    pub const fn plus(self, offset: u32) -> Index {
        Index { offset: self.offset + offset, ..self }
    }

    /// Returns its value in iteration `iteration`.
    #[inline]
    pub fn in_iteration(self, iteration: u32) -> u64 {
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

/// Name of a table of lengths that the caller passes when the schedule runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// The lengths of the blocks of the send buffer.
    Send = 0,
    /// The lengths of the blocks of the receive buffer (of the operand, for reduce_scatter).
    Recv = 1,
}

/// Tables of one execution, as running sums: entry `b` begins at `sums[b]` and ends at `sums[b + 1]`. A table
/// of n blocks has n + 1 sums, the first being 0. Empty if there is no table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables<'a> {
    /// The sums of [`Table::Send`], in units.
    pub send: &'a [u64],
    /// The sums of [`Table::Recv`], in units.
    pub recv: &'a [u64],
    /// The [`permutation`](super::Schedule::permutation) of the schedule.
    pub permutation: &'a [u32],
}

impl<'a> Tables<'a> {
    /// Returns the running sums of `table`.
    pub fn sums(&self, table: Table) -> &'a [u64] {
        match table {
            Table::Send => self.send,
            Table::Recv => self.recv,
        }
    }
}

/// Rule that divides a range of units into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// Blocks of `size`, clipped at `total`.
    Regular {
        /// Units of a block; the last one may be shorter.
        size: u64,
        /// Units of all blocks together.
        total: u64,
    },
    /// `parts` blocks whose sizes differ by at most one, the larger ones first.
    Even {
        /// Number of blocks, at least 1.
        parts: u32,
        /// Units of all blocks together.
        total: u64,
    },
    /// Blocks given by a table.
    Table(Table),
    /// The same blocks in another order: block `b` is the one whose number is entry `b` of
    /// [`permutation`](super::Schedule::permutation). Found by adding up, for few blocks.
    Permuted(Table),
}

impl Division {
    /// Returns the first unit of block `block`. The block after the last one is allowed and gives the end.
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

/// Rule that gives the first unit of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// `offset + stride * index` units.
    Affine {
        /// Units of the buffer before slot 0.
        offset: u64,
        /// Units from one slot to the next.
        stride: u64,
        /// Number of the slot.
        index: Index,
    },
    /// At the first unit of a block.
    Block {
        /// Division of the buffer into blocks.
        division: Division,
        /// Number of the block.
        index: Index,
    },
    /// At the first unit of the block whose number is entry `index` of
    /// [`permutation`](super::Schedule::permutation). Used by rings and subtrees that follow the machine
    /// instead of the order of ranks.
    Permuted {
        /// Division of the buffer into blocks.
        division: Division,
        /// Index into the permutation.
        index: Index,
    },
    /// At the first unit of part `part` of a block that is cut into `parts` nearly equal ones. Cuts a block
    /// whose length is in a table.
    Part {
        /// Division of the buffer into blocks.
        division: Division,
        /// Number of the block.
        index: Index,
        /// Number of the part within the block.
        part: Index,
        /// Number of parts of a block.
        parts: u32,
    },
    /// In slot `slot` of `stride` units, as far from its beginning as block `index` begins after block
    /// `first`. Stores blocks of different lengths in a temporary.
    Within {
        /// Division that gives the distances of blocks.
        division: Division,
        /// Number of the block.
        index: Index,
        /// The block with which the slot begins.
        first: Index,
        /// Units from one slot to the next.
        stride: u64,
        /// Number of the slot.
        slot: Index,
    },
    /// At the first unit of an entry of an exposed buffer that its owner describes by counts and
    /// displacements, which only the owner knows (alltoallv, gatherv, scatterv).
    Entry(
        /// Number of the entry.
        Index,
    ),
}

/// Rule that gives the number of units of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// A constant number of units.
    Fixed(u64),
    /// Length of `count` consecutive blocks.
    Blocks {
        /// Division that gives the lengths of blocks.
        division: Division,
        /// Number of the first block.
        index: Index,
        /// Number of blocks that are added up.
        count: u32,
    },
    /// Length of the block whose number is entry `index` of [`permutation`](super::Schedule::permutation).
    Permuted {
        /// Division that gives the lengths of blocks.
        division: Division,
        /// Index into the permutation.
        index: Index,
    },
    /// Length of a part of a block, see [`Start::Part`].
    Part {
        /// Division that gives the lengths of blocks.
        division: Division,
        /// Number of the block.
        index: Index,
        /// Number of the part within the block.
        part: Index,
        /// Number of parts of a block.
        parts: u32,
    },
    /// Length of a block of more than `most` units; 0 for a shorter one. So a block that is too long for a
    /// frame ([`Kind::Pack`]) is sent as a message, and for a shorter one there is none.
    Beyond {
        /// Division that gives the lengths of blocks.
        division: Division,
        /// Number of the block.
        index: Index,
        /// Units of the longest block that is left out.
        most: u64,
    },
}

/// Range of a buffer that depends on the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Memory that contains the span.
    pub buffer: BufferId,
    /// Rule for its first unit.
    pub start: Start,
    /// Rule for its number of units.
    pub length: Length,
}

/// Plain numbers of a span in one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Memory that contains the range.
    pub buffer: BufferId,
    /// First unit of the range.
    pub start: u64,
    /// Number of units, possibly 0.
    pub length: u64,
    /// Number of the block that it begins in; the entry if the buffer is described by a table.
    pub block: u32,
    /// Units of that block before the range.
    pub within: u64,
}

impl Range {
    /// Returns the content of a frame ([`Kind::Pack`]) that holds a block of `length` units.
    #[must_use]
    pub fn held(&self, length: u64) -> Range {
        Range { start: self.start + Kind::FRAME_HEADER, length, ..*self }
    }

    /// Returns one past the last unit.
    pub fn end(&self) -> u64 {
        self.start + self.length
    }

    /// Returns true if the two have a unit in common.
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

    /// Returns true if this is [`Span::SIGNAL`].
    pub fn is_signal(&self) -> bool {
        self.buffer == Span::SIGNAL.buffer
    }

    /// Returns true if its start or length is looked up in a table.
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

    /// Returns the range it denotes in iteration `iteration`.
    #[inline]
    pub fn in_iteration(&self, iteration: u32, tables: &Tables<'_>) -> Range {
        let (start, block, within) = match self.start {
            Start::Affine { offset, stride, index } => {
                (offset + stride * index.in_iteration(iteration), 0, 0)
            }
            Start::Block { division, index } => {
                let block = index.in_iteration(iteration);
                (division.start(block, tables), block as u32, 0)
            }
            Start::Permuted { division, index } => {
                let block = tables.permutation[index.in_iteration(iteration) as usize];
                (division.start(u64::from(block), tables), block, 0)
            }
            Start::Part { division, index, part, parts } => {
                let block = index.in_iteration(iteration);
                let within =
                    part_of(division, block, parts, tables).start(part.in_iteration(iteration), tables);
                (division.start(block, tables) + within, block as u32, within)
            }
            Start::Within { division, index, first, stride, slot } => {
                let (block, first) = (index.in_iteration(iteration), first.in_iteration(iteration));
                let within = division.start(block, tables) - division.start(first, tables);
                (stride * slot.in_iteration(iteration) + within, block as u32, 0)
            }
            Start::Entry(index) => (0, index.in_iteration(iteration) as u32, 0),
        };
        let length = match self.length {
            Length::Fixed(length) => length,
            Length::Blocks { division, index, count } => {
                let first = index.in_iteration(iteration);
                division.start(first + u64::from(count), tables) - division.start(first, tables)
            }
            Length::Permuted { division, index } => {
                let block = u64::from(tables.permutation[index.in_iteration(iteration) as usize]);
                division.start(block + 1, tables) - division.start(block, tables)
            }
            Length::Part { division, index, part, parts } => {
                let (whole, part) = (
                    part_of(division, index.in_iteration(iteration), parts, tables),
                    part.in_iteration(iteration),
                );
                whole.start(part + 1, tables) - whole.start(part, tables)
            }
            Length::Beyond { division, index, most } => {
                let block = index.in_iteration(iteration);
                let length = division.start(block + 1, tables) - division.start(block, tables);
                if length > most { length } else { 0 }
            }
        };
        Range { buffer: self.buffer, start, length, block, within }
    }
}

/// Returns the division of a block into parts, counted from the block's first unit.
fn part_of(division: Division, block: u64, parts: u32, tables: &Tables<'_>) -> Division {
    let total = division.start(block + 1, tables) - division.start(block, tables);
    Division::Even { parts, total }
}
