//! Compilation of schedules without messages to straight-line code.
//!
//! Loops are unrolled, and spans are resolved to a base and an offset in bytes, so that execution needs no
//! lookups. A program does the same as [`super::execution`] with its schedule. It exists for operations in
//! which nanoseconds count.
//!
//! A program needs contiguous buffers, or contiguous entries, with adjacent elements. Other executions use
//! the schedule itself. A schedule with tables is compiled for the tables of one execution, and is reused
//! while they are the same.
//!
//! # Safety
//! The same as for [`super::memory`]. The caller that binds memory has promised that it is as large as the
//! shape says. The verifier has shown that every span lies inside its buffer, and that the operands of a step
//! are disjoint or equal.
#![allow(unsafe_code)]

use tutti_base::Result;
use tutti_base::traffic::TRAFFIC;
use tutti_coll::Schedule;
use tutti_coll::ir::{Access, BufferId, Kind, Length, Range, Span, Start, StepId, Tables};
use tutti_data::Reducer;

use super::copies::{copy, copy_to_bank};
use super::port::{Exposed, NodePort, Remote, Rows};
use crate::buffer::Buffer;

/// Maximum number of instructions. Longer programs would not be faster than the schedule.
const MOST: usize = 512;

/// Location in one of the buffers of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    base: u32,
    offset: usize,
}

/// Addresses of the buffers of an execution: send, receive, the own bank, temporaries.
pub(super) type Bases = [*mut u8];

/// Index of the bank among the bases.
pub(super) const BANK: usize = 2;

/// Instruction of a program. Lengths are in bytes, counts in elements.
#[derive(Clone, Copy, Debug)]
enum Instruction {
    Copy {
        from: At,
        into: At,
        bytes: usize,
    },
    Reduce {
        left: At,
        right: At,
        count: u64,
        /// Number of adjacent operands at `left`.
        operands: u64,
    },
    Post {
        flag: u16,
        value: u64,
    },
    Await {
        peer: u32,
        flag: u16,
        value: u64,
    },
    Pull {
        peer: u32,
        from: usize,
        into: At,
        bytes: usize,
    },
    Combine {
        peer: u32,
        from: usize,
        with: At,
        into: At,
        count: u64,
    },
    Expose {
        slot: u16,
        what: At,
        bytes: usize,
        access: Access,
    },
    /// Exposes entries of the buffer with this base: element `rows` of [`Program::rows`].
    ExposeRows {
        slot: u16,
        base: u32,
        rows: u32,
        access: Access,
    },
    Fetch {
        from: Remote,
        into: At,
        bytes: usize,
    },
    FetchCombine {
        from: Remote,
        with: At,
        into: At,
        count: u64,
    },
    Push {
        from: At,
        into: Remote,
        bytes: usize,
    },
}

/// Compiled schedule. Without messages no step is outstanding, so schedules of
/// [`tutti_coll::ir::Order::Edges`] are executed in the order of their steps too.
#[derive(Debug)]
pub(super) struct Program {
    instructions: Box<[Instruction]>,
    /// Entries that are exposed.
    rows: Box<[Rows]>,
    /// First instruction at which it waits for ranks that use its memory ([`Schedule::parting`]).
    parting: usize,
    /// Number of bytes of a unit.
    scale: usize,
    /// Reads of other ranks' banks: their number, and their bytes.
    shared: (u64, u64),
}

/// Position of a program after [`Program::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// End of the program.
    End,
    /// Number of an instruction that waits for a flag, or that a light port cannot execute.
    Flag(usize),
}

/// Data of one execution for the compilation. They are its tables, and for buffers with entries the entries'
/// offsets and running sums.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lookup<'a> {
    pub(super) tables: Tables<'a>,
    pub(super) entries: [Option<(&'a [isize], &'a [u64])>; 2],
}

impl Program {
    /// Compiles `schedule` for rank `me`, with units of `scale` bytes. Returns None if the program is too
    /// long, sends messages, or needs tables and `lookup` is None.
    pub(super) fn new(
        schedule: &Schedule,
        me: u32,
        scale: usize,
        lookup: Option<Lookup<'_>>,
    ) -> Option<Program> {
        if !schedule.strands.is_empty() {
            return None;
        }
        let has_tables = lookup.is_some();
        let Lookup { tables, entries } = lookup.unwrap_or_default();
        let tables = Tables { permutation: &schedule.permutation, ..tables };
        let (instructions, rows) = (Vec::new(), Vec::new());
        let mut writer = Writer { me, scale, tables, has_tables, entries, instructions, rows };
        let (mut step, mut parting) = (0, usize::MAX);
        while step < schedule.steps.len() {
            let (steps, count) = match schedule.steps[step].in_loop {
                Some(number) => {
                    let this = schedule.loops[usize::from(number)];
                    (this.steps as usize, this.count)
                }
                None => (1, schedule.iterations(StepId(step as u32))),
            };
            if writer.instructions.len() + steps * count as usize > MOST {
                return None;
            }
            if step == schedule.parting().0 as usize {
                parting = writer.instructions.len();
            }
            for iteration in 0..count {
                for step in &schedule.steps[step..step + steps] {
                    writer.write(&step.kind, iteration)?;
                }
            }
            step += steps;
        }
        let shared = writer.instructions.iter().filter_map(|one| one.bank_bytes(scale));
        let shared = shared.fold((0, 0), |(count, bytes), one| (count + 1, bytes + one));
        let (instructions, rows) = (writer.instructions.into(), writer.rows.into());
        Some(Program { instructions, rows, parting, scale, shared })
    }

    /// Continues at instruction `next`.
    ///
    /// # Errors
    /// The errors of the port.
    #[inline]
    pub(super) fn run<P: NodePort>(
        &self,
        mut next: usize,
        bases: &Bases,
        reducer: Option<&Reducer>,
        port: &mut P,
    ) -> Result<Reached> {
        let at = |at: At| bases[at.base as usize].wrapping_add(at.offset);
        while let Some(instruction) = self.instructions.get(next) {
            match *instruction {
                // SAFETY: the module's Safety section.
                Instruction::Copy { from, into, bytes } => unsafe {
                    if into.base as usize == BANK {
                        copy_to_bank(at(from), at(into), bytes);
                    } else {
                        copy(at(from), at(into), bytes);
                    }
                },
                Instruction::Post { flag, value } => port.post(flag, value),
                Instruction::Await { peer, flag, value } => {
                    if next >= self.parting && !port.lends() {
                        break;
                    }
                    if !port.reached(peer, flag, value) {
                        return Ok(Reached::Flag(next));
                    }
                }
                Instruction::Pull { peer, from, into, bytes } => {
                    let from = port.bank(peer).wrapping_add(from);
                    // SAFETY: as above.
                    unsafe { copy(from, at(into), bytes) }
                }
                Instruction::Combine { peer, from, with, into, count } => {
                    let left = port.bank(peer).wrapping_add(from);
                    combine(reducer, left, at(with), at(into), count);
                }
                Instruction::Reduce { left, right, count, operands: 1 } => {
                    combine(reducer, at(left), at(right), at(right), count);
                }
                Instruction::Reduce { left, right, count, operands } => {
                    let reducer = reducer.expect("a reduction has its operator before it starts");
                    // SAFETY: as above; the left span holds so many operands.
                    unsafe { reducer.apply_rows(at(left), operands, at(right), count) };
                }
                _ if P::LIGHT => {
                    if !self.by_value(instruction, at, reducer, port) {
                        return Ok(Reached::Flag(next));
                    }
                }
                _ => self.exposed(instruction, at, reducer, port)?,
            }
            next += 1;
        }
        TRAFFIC.mapped.add_all(self.shared.0, self.shared.1);
        Ok(Reached::End)
    }

    /// Executes an instruction on exposed memory with a light port. Returns false if the port cannot execute
    /// it.
    #[inline]
    fn by_value<P: NodePort>(
        &self,
        instruction: &Instruction,
        at: impl Fn(At) -> *mut u8,
        reducer: Option<&Reducer>,
        port: &mut P,
    ) -> bool {
        match *instruction {
            Instruction::Expose { slot, what, bytes, access } => {
                port.carry(slot, Exposed::Run(at(what), bytes as u64), access)
            }
            Instruction::ExposeRows { slot, base, rows, access } => {
                let base = at(At { base, offset: 0 });
                port.carry(slot, Exposed::Rows(base, &self.rows[rows as usize]), access)
            }
            Instruction::Fetch { from, into, bytes } => {
                let Some(found) = port.carried(from) else { return false };
                // SAFETY: the module's Safety section.
                unsafe { copy(found, at(into), bytes) };
                TRAFFIC.mapped.add(bytes as u64);
                true
            }
            Instruction::FetchCombine { from, with, into, count } => {
                let Some(left) = port.carried(from) else { return false };
                combine(reducer, left, at(with), at(into), count);
                TRAFFIC.mapped.add(count * self.scale as u64);
                true
            }
            _ => false,
        }
    }

    /// Executes an instruction on exposed memory. It moves much data or makes system calls.
    fn exposed<P: NodePort>(
        &self,
        instruction: &Instruction,
        at: impl Fn(At) -> *mut u8,
        reducer: Option<&Reducer>,
        port: &mut P,
    ) -> Result<()> {
        // SAFETY: the module's Safety section.
        let buffer = |place: At, bytes: usize| unsafe { Buffer::bytes_at(at(place), bytes as u64) };
        match *instruction {
            Instruction::Expose { slot, what, bytes, access } => {
                port.expose(slot, Exposed::Run(at(what), bytes as u64), access)
            }
            Instruction::ExposeRows { slot, base, rows, access } => {
                let base = at(At { base, offset: 0 });
                port.expose(slot, Exposed::Rows(base, &self.rows[rows as usize]), access)
            }
            Instruction::Fetch { from, into, bytes } => port.pull(from, &buffer(into, bytes)),
            Instruction::Push { from, into, bytes } => port.push(&buffer(from, bytes), into),
            Instruction::FetchCombine { from, with, into, count } => {
                let size = reducer.map_or(1, |reducer| reducer.datatype().size() as u64);
                if let Some(left) = port.direct(from, count * size) {
                    combine(reducer, left, at(with), at(into), count);
                    return Ok(());
                }
                super::node::in_pieces(port, from, count, size, |left, first, count| {
                    let offset = (first * size) as usize;
                    let (with, into) = (at(with).wrapping_add(offset), at(into).wrapping_add(offset));
                    combine(reducer, left, with, into, count);
                })
            }
            _ => unreachable!("the other instructions are done where they are met"),
        }
    }
}

/// Computes `into = left op with`.
#[inline]
fn combine(reducer: Option<&Reducer>, left: *const u8, with: *mut u8, into: *mut u8, count: u64) {
    let reducer = reducer.expect("a reduction has its operator before it starts");
    // SAFETY: the module's Safety section.
    unsafe {
        if with == into {
            reducer.apply(left, into, count);
        } else {
            reducer.apply_into(left, with, into, count);
        }
    }
}

/// State of the compilation of a schedule.
struct Writer<'a> {
    me: u32,
    scale: usize,
    tables: Tables<'a>,
    has_tables: bool,
    entries: [Option<(&'a [isize], &'a [u64])>; 2],
    instructions: Vec<Instruction>,
    rows: Vec<Rows>,
}

impl Writer<'_> {
    /// Appends the instruction of a step. Returns None if the step cannot be compiled.
    fn write(&mut self, kind: &Kind, iteration: u32) -> Option<()> {
        let (scale, tables) = (self.scale, self.tables);
        let has_tables = self.has_tables;
        let range = |span: &Span, iteration| range(span, iteration, &tables, has_tables);
        let bytes = |range: &Range| range.length as usize * scale;
        let instruction = match kind {
            Kind::Multicast { .. } => return None,
            Kind::Send { .. } | Kind::Recv { .. } | Kind::Pack { .. } | Kind::Unpack { .. } => return None,
            Kind::FileRead { .. } | Kind::FileWrite { .. } => return None,
            Kind::Post { flag, value } => {
                Instruction::Post { flag: *flag, value: value.in_iteration(iteration) }
            }
            Kind::Await { value, .. } if value.in_iteration(iteration) == 0 => return Some(()),
            Kind::Await { peer, flag, value } => {
                let peer = peer.in_iteration(iteration) as u32;
                Instruction::Await { peer, flag: *flag, value: value.in_iteration(iteration) }
            }
            Kind::Copy { from, into } => {
                let (from, into) = (range(from, iteration)?, range(into, iteration)?);
                Instruction::Copy { from: self.at(&from), into: self.at(&into), bytes: bytes(&into) }
            }
            Kind::Reduce { left, right } => {
                let (left, right) = (range(left, iteration)?, range(right, iteration)?);
                let operands = left.length.checked_div(right.length).unwrap_or(1);
                let (left, count) = (self.at(&left), right.length);
                Instruction::Reduce { left, right: self.at(&right), count, operands }
            }
            Kind::Expose { slot, what, access } => {
                let whole = !matches!(what.length, Length::Blocks { count: 1, .. });
                if whole && let Some(instruction) = self.rows_of(what.buffer, *slot, *access) {
                    self.instructions.push(instruction);
                    return Some(());
                }
                let what = range(what, iteration)?;
                let (at, bytes) = (self.at(&what), bytes(&what));
                Instruction::Expose { slot: *slot, what: at, bytes, access: *access }
            }
            Kind::Pull { peer, from, into } => {
                let (from, into) = (range(from, iteration)?, range(into, iteration)?);
                let (peer, bytes, into) = (peer.in_iteration(iteration) as u32, bytes(&into), self.at(&into));
                match self.remote(peer, &from) {
                    None => Instruction::Pull { peer, from: from.start as usize * scale, into, bytes },
                    Some(from) => Instruction::Fetch { from, into, bytes },
                }
            }
            Kind::Combine { peer, from, with, into } => {
                let (from, with) = (range(from, iteration)?, range(with, iteration)?);
                let out = range(into, iteration)?;
                let (peer, count) = (peer.in_iteration(iteration) as u32, out.length);
                let (with, into) = (self.at(&with), self.at(&out));
                match self.remote(peer, &from) {
                    None => {
                        Instruction::Combine { peer, from: from.start as usize * scale, with, into, count }
                    }
                    Some(from) => Instruction::FetchCombine { from, with, into, count },
                }
            }
            Kind::Push { peer, from, into } => {
                let (from, into) = (range(from, iteration)?, range(into, iteration)?);
                let bytes = bytes(&from);
                let into = self.remote(peer.in_iteration(iteration) as u32, &into)?;
                Instruction::Push { from: self.at(&from), into, bytes }
            }
        };
        if !instruction.is_empty() {
            self.instructions.push(instruction);
        }
        Some(())
    }

    /// Returns the location of a range of this process.
    fn at(&self, range: &Range) -> At {
        let base = match range.buffer {
            BufferId::BANK => BANK,
            buffer => buffer.temporary().map_or(usize::from(buffer.0), |number| BANK + 1 + number),
        };
        let offset = match self.entries.get(base) {
            Some(Some((offsets, _))) => {
                offsets[range.block as usize] as usize + range.within as usize * self.scale
            }
            _ => range.start as usize * self.scale,
        };
        At { base: base as u32, offset }
    }

    /// Returns the instruction that exposes all entries of a buffer, if it has entries.
    fn rows_of(&mut self, buffer: BufferId, slot: u16, access: Access) -> Option<Instruction> {
        let base = usize::from(buffer.0);
        let (offsets, sums) = (*self.entries.get(base)?)?;
        let lengths = sums.windows(2).map(|pair| pair[1] - pair[0]);
        let each = offsets.iter().map(|offset| *offset as usize).zip(lengths).collect();
        self.rows.push(Rows::new(each, self.me));
        let (base, rows) = (base as u32, self.rows.len() as u32 - 1);
        Some(Instruction::ExposeRows { slot, base, rows, access })
    }

    /// Returns the location of a range of exposed memory, or None for a bank.
    fn remote(&self, peer: u32, range: &Range) -> Option<Remote> {
        let slot = range.buffer.exposure()?;
        Some(Remote { peer, slot, entry: range.block, offset: range.start * self.scale as u64 })
    }
}

impl Instruction {
    /// Returns the number of bytes that the instruction reads from another rank's bank, or None.
    fn bank_bytes(&self, scale: usize) -> Option<u64> {
        match self {
            Instruction::Pull { bytes, .. } => Some(*bytes as u64),
            Instruction::Combine { count, .. } => Some(count * scale as u64),
            _ => None,
        }
    }

    /// Returns true if the instruction moves no data.
    fn is_empty(&self) -> bool {
        match self {
            Instruction::Copy { bytes, .. }
            | Instruction::Pull { bytes, .. }
            | Instruction::Fetch { bytes, .. }
            | Instruction::Push { bytes, .. } => *bytes == 0,
            Instruction::Reduce { count, .. }
            | Instruction::Combine { count, .. }
            | Instruction::FetchCombine { count, .. } => *count == 0,
            Instruction::Post { .. }
            | Instruction::Await { .. }
            | Instruction::Expose { .. }
            | Instruction::ExposeRows { .. } => false,
        }
    }
}

/// Returns the range of a span, or None if it depends on tables and there are none.
fn range(span: &Span, iteration: u32, tables: &Tables<'_>, has_tables: bool) -> Option<Range> {
    let is_entry = matches!(span.start, Start::Entry(_));
    if span.uses_table() && !has_tables {
        return None;
    }
    let range = span.in_iteration(iteration, tables);
    // The same as in the steps of a schedule: a block is a part of exposed memory; an entry needs an owner
    // with a table.
    let is_part = range.buffer.exposure().is_some() && !is_entry;
    Some(if is_part { Range { block: 0, ..range } } else { range })
}
