//! Memory of all ranks: the position of spans, the permissions to access them, and their content.

use super::accesses::{Access, Accesses};
use super::case::{Case, Sums};
use super::clocks::{Clocks, Thread};
use super::files::Disk;
use super::value::{Atom, Values};
use super::{Fault, is_entry, table_of};
use crate::cursor::Instance;
use crate::ir::{self, BufferId, Index, Kind, Length, Range, Schedule, Span, Start, Table};

/// A range of a buffer of `rank`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RankRange {
    pub rank: u32,
    pub range: Range,
}

impl RankRange {
    fn overlaps(&self, other: &RankRange) -> bool {
        self.rank == other.rank && self.range.overlaps(&other.range)
    }
}

/// A run of a step at a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub rank: u32,
    pub thread: Thread,
    pub instance: Instance,
}

/// Exposed span of an owner.
#[derive(Clone, Copy, Debug)]
struct Exposure {
    range: Range,
    access: ir::Access,
    /// Thread that exposed it, and its epoch at that time.
    thread: Thread,
    epoch: u32,
    /// Table by whose entries it is addressed, if any.
    table: Option<Table>,
}

/// Buffers of one rank, with accesses and exposures.
#[derive(Debug)]
struct Own {
    /// Contents of send buffer, receive buffer, temporaries and, last, the bank.
    buffers: Vec<Vec<Atom>>,
    /// Accesses to each buffer.
    accesses: Vec<Accesses>,
    exposures: [Option<Exposure>; BufferId::EXPOSURES as usize],
}

impl Own {
    fn number(&self, buffer: BufferId) -> usize {
        if buffer == BufferId::BANK { self.buffers.len() - 1 } else { usize::from(buffer.0) }
    }
}

/// The memory of all ranks.
pub(super) struct Memory<'a> {
    case: &'a Case,
    sums: &'a [Sums],
    ranks: Vec<Own>,
    file: Option<Disk>,
}

impl<'a> Memory<'a> {
    pub fn new(case: &'a Case, schedules: &[Schedule], sums: &'a [Sums]) -> Memory<'a> {
        let ranks = (0..case.ranks).zip(schedules).map(|(rank, schedule)| {
            let mut buffers = Vec::from(case.initial(rank));
            let others = schedule.temporaries.iter().chain([&schedule.bank]);
            buffers.extend(others.map(|&units| vec![Atom::UNDEFINED; units as usize]));
            let mut accesses = vec![Accesses::default(); buffers.len()];
            accesses[buffers.len() - 1].watched = true;
            // Strands of a rank share memory that otherwise only one thread accesses.
            accesses.iter_mut().for_each(|accesses| accesses.watched |= !schedule.strands.is_empty());
            Own { buffers, accesses, exposures: Default::default() }
        });
        Memory { case, sums, ranks: ranks.collect(), file: Disk::new(case) }
    }

    /// Returns the receive buffer of `rank`.
    pub fn result(&self, rank: u32) -> &[Atom] {
        &self.ranks[rank as usize].buffers[1]
    }

    /// Returns a span of the rank's own memory, which must lie in its buffer, or `None` for a signal.
    pub fn own(&self, run: Run, span: &Span, write: bool) -> Result<Option<RankRange>, Fault> {
        if span.is_signal() {
            return Ok(None);
        }
        let own = &self.ranks[run.rank as usize];
        let range = span.in_iteration(run.instance.iteration, &self.sums[run.rank as usize].tables());
        if span.buffer.exposure().is_some() || matches!(span.start, Start::Entry(_)) {
            return Err(Fault::new(format!("{span} is no address of own memory")));
        }
        let size = own.buffers.get(own.number(range.buffer)).map_or(0, Vec::len) as u64;
        if range.end() > size {
            return Err(Fault::new(format!("accesses {range:?}, outside of a buffer of {size} units")));
        }
        if write && range.buffer == BufferId::SEND {
            return Err(Fault::new("writes the send buffer".into()));
        }
        let frozen = |exposure: &Exposure| {
            exposure.access == ir::Access::Read && write && exposure.range.overlaps(&range)
        };
        if own.exposures.iter().flatten().any(frozen) {
            return Err(Fault::new(format!("writes {range:?}, which it has exposed for reading")));
        }
        Ok(Some(RankRange { rank: run.rank, range }))
    }

    /// Returns a span in the bank of `peer` or in its exposed memory.
    pub fn remote(
        &self,
        run: Run,
        peer: u32,
        span: &Span,
        write: bool,
        clocks: &Clocks,
    ) -> Result<RankRange, Fault> {
        let mut range = span.in_iteration(run.instance.iteration, &self.sums[run.rank as usize].tables());
        let there = &self.ranks[peer as usize];
        let Some(slot) = span.buffer.exposure() else {
            let size = there.buffers[there.buffers.len() - 1].len() as u64;
            let entry = matches!(span.start, Start::Entry(_));
            if span.buffer != BufferId::BANK || write || entry || range.end() > size {
                return Err(Fault::new(format!("{span} of rank {peer} is out of reach ({size} units)")));
            }
            return Ok(RankRange { rank: peer, range });
        };
        if range.length == 0 {
            return Ok(RankRange { rank: peer, range });
        }
        let exposure = there.exposures[usize::from(slot)]
            .filter(|exposure| clocks.knows(run.thread, exposure.thread, exposure.epoch));
        let Some(exposure) = exposure else {
            return Err(Fault::new(format!("{span} of rank {peer} is not known to be exposed")));
        };
        let allowed = match exposure.access {
            ir::Access::Read => !write,
            ir::Access::Write => write,
            ir::Access::ReadWrite => true,
        };
        if !allowed {
            return Err(Fault::new(format!("{span} of rank {peer} is exposed as {:?}", exposure.access)));
        }
        match (span.start, exposure.table) {
            (Start::Entry(_), Some(table)) => {
                let tables = self.sums[peer as usize].tables();
                let sums = tables.sums(table);
                let entry = sums.get(range.block as usize..).filter(|sums| sums.len() > 1);
                if entry.is_none_or(|sums| sums[1] - sums[0] != range.length) {
                    return Err(Fault::new(format!("{span} is not entry {} of rank {peer}", range.block)));
                }
                range.start = sums[range.block as usize];
            }
            (Start::Entry(_), None) | (_, Some(_)) => {
                return Err(Fault::new(format!("{span} of rank {peer}: entries where there is a table")));
            }
            _ if range.end() > exposure.range.length => {
                return Err(Fault::new(format!("{span} of rank {peer} has {} units", exposure.range.length)));
            }
            _ => range.start += exposure.range.start,
        }
        range.buffer = exposure.range.buffer;
        Ok(RankRange { rank: peer, range })
    }

    /// Exposes `what` to other ranks.
    pub fn expose(
        &mut self,
        run: Run,
        slot: u16,
        what: &Span,
        access: ir::Access,
        clocks: &Clocks,
    ) -> Result<(), Fault> {
        let place = self.own(run, what, access != ir::Access::Read)?;
        let own = &mut self.ranks[run.rank as usize];
        let entries = table_of(self.case, what.buffer);
        let table = entries.filter(|_| what.uses_table() && !is_entry(what));
        let Some(RankRange { range, .. }) = place.filter(|_| what.buffer != BufferId::BANK) else {
            return Err(Fault::new(format!("{what} cannot be exposed")));
        };
        let all = own.buffers[own.number(what.buffer)].len() as u64;
        if entries.is_some() && !what.uses_table() && (range.start, range.length) != (0, all) {
            return Err(Fault::new(format!("exposes {what}, a part of entries side by side")));
        }
        if table.is_some_and(|table| !is_whole(what, table, self.case.ranks)) {
            return Err(Fault::new(format!("exposes {what}, neither an entry nor all of them")));
        }
        match own.exposures.get_mut(usize::from(slot)) {
            Some(free @ None) => {
                *free = Some(Exposure {
                    range,
                    access,
                    thread: run.thread,
                    epoch: clocks.epoch(run.thread),
                    table,
                });
            }
            _ => return Err(Fault::new(format!("exposes number {slot} twice, or it is too large"))),
        }
        let number = own.number(range.buffer);
        own.accesses[number].watched = true;
        Ok(())
    }

    /// Records that a step touches `place`.
    pub fn touch(&mut self, run: Run, place: &RankRange, write: bool, clocks: &Clocks) -> Result<(), Fault> {
        let own = &mut self.ranks[place.rank as usize];
        let number = own.number(place.range.buffer);
        if place.range.length == 0 || !own.accesses[number].watched {
            return Ok(());
        }
        let (start, end) = (place.range.start, place.range.end());
        let Run { rank, thread, instance } = run;
        let access = Access { start, end, rank, thread, epoch: clocks.epoch(thread), instance };
        own.accesses[number].record(access, write, clocks).map_err(|(earlier, written)| {
            let verb = |write: bool| if write { "writes" } else { "reads" };
            Fault::new(format!(
                "{} {start}..{end} of {} of rank {}, and nothing orders that with step {} (iteration {}) of rank {}, which {} {}..{}",
                verb(write),
                place.range.buffer,
                place.rank,
                earlier.instance.step.0,
                earlier.instance.iteration,
                earlier.rank,
                verb(written),
                earlier.start,
                earlier.end
            ))
        })
    }

    /// Executes `into = from`, or `into = from op with`.
    pub fn apply(
        &mut self,
        values: &mut Values,
        from: &RankRange,
        with: Option<&RankRange>,
        into: &RankRange,
    ) -> Result<(), Fault> {
        let length = into.range.length;
        let fits = from.range.length == length && with.is_none_or(|with| with.range.length == length);
        let apart = with.is_none_or(|with| with == into || !with.overlaps(into));
        if !fits || !apart || from.overlaps(into) {
            return Err(Fault::new(format!(
                "a span overlaps or its length differs: {from:?}, {with:?}, {into:?}"
            )));
        }
        if length == 0 {
            return Ok(());
        }
        let mut result = self.atoms(from).to_vec();
        if let Some(with) = with {
            for (left, &right) in result.iter_mut().zip(self.atoms(with)) {
                *left = values.combine(*left, right).ok_or_else(|| {
                    Fault::new(format!("combines {} and {}", values.show(*left), values.show(right)))
                })?;
            }
        }
        let own = &mut self.ranks[into.rank as usize];
        let number = own.number(into.range.buffer);
        own.buffers[number][into.range.start as usize..into.range.end() as usize].copy_from_slice(&result);
        Ok(())
    }

    /// Executes `right = l0 op (l1 op (.. op right))`. The left operands lie one after the other.
    pub fn reduce(&mut self, values: &mut Values, left: &RankRange, right: &RankRange) -> Result<(), Fault> {
        let length = right.range.length;
        if left.range.length == length {
            return self.apply(values, left, Some(right), right);
        }
        if length == 0 || !left.range.length.is_multiple_of(length) || left.overlaps(right) {
            return Err(Fault::new(format!("{left:?} are no operands for {right:?}")));
        }
        let mut result = self.atoms(right).to_vec();
        for (number, row) in self.atoms(left).chunks(length as usize).rev().enumerate() {
            for (right, &left) in result.iter_mut().zip(row) {
                let combined = match number {
                    0 => values.combine(left, *right),
                    _ => values.combine_at_once(left, *right),
                };
                *right = combined.ok_or_else(|| {
                    Fault::new(format!("combines {} and {}", values.show(left), values.show(*right)))
                })?;
            }
        }
        let own = &mut self.ranks[right.rank as usize];
        let number = own.number(right.range.buffer);
        let range = right.range.start as usize..right.range.end() as usize;
        own.buffers[number][range].copy_from_slice(&result);
        Ok(())
    }

    /// Writes a frame with its block.
    pub fn pack(&mut self, values: &mut Values, from: &RankRange, into: &RankRange) -> Result<(), Fault> {
        let (length, frame) = (from.range.length, into.range.length);
        let user = into.range.buffer <= BufferId::RECV;
        if frame < Kind::FRAME_HEADER || user || from.overlaps(into) {
            return Err(Fault::new(format!("packs {from:?} into {into:?}")));
        }
        let own = &mut self.ranks[into.rank as usize];
        let number = own.number(into.range.buffer);
        let atoms = &mut own.buffers[number][into.range.start as usize..into.range.end() as usize];
        atoms.fill(Atom::UNDEFINED);
        atoms[0] = Atom::length(length);
        if Kind::fits(length, frame) { self.apply(values, from, None, &held(into, length)) } else { Ok(()) }
    }

    /// Reads the block of a frame.
    pub fn unpack(&mut self, values: &mut Values, from: &RankRange, into: &RankRange) -> Result<(), Fault> {
        let (length, frame) = (into.range.length, from.range.length);
        if frame < Kind::FRAME_HEADER || self.atoms(from)[0] != Atom::length(length) {
            return Err(Fault::new(format!("{from:?} is no frame with a block as long as {into:?}")));
        }
        if Kind::fits(length, frame) { self.apply(values, &held(from, length), None, into) } else { Ok(()) }
    }

    /// Reads the requested bytes of a window.
    pub fn file_read(&mut self, into: &RankRange, window: u64) -> Result<(), Fault> {
        let atoms = self.disk()?.read(window, into.range.length)?;
        let own = &mut self.ranks[into.rank as usize];
        let number = own.number(into.range.buffer);
        own.buffers[number][into.range.start as usize..into.range.end() as usize].copy_from_slice(&atoms);
        Ok(())
    }

    /// Writes the contributed bytes of a window.
    pub fn file_write(&mut self, from: &RankRange, window: u64) -> Result<(), Fault> {
        let atoms = self.atoms(from).to_vec();
        self.disk()?.write(window, &atoms)
    }

    /// Checks the file at the end: its content is right, and nothing else was written.
    pub fn file_check(&self) -> Result<(), Fault> {
        self.file.as_ref().map_or(Ok(()), Disk::check)
    }

    fn disk(&mut self) -> Result<&mut Disk, Fault> {
        self.file.as_mut().ok_or_else(|| Fault::new("accesses a file in an operation that has none".into()))
    }

    fn atoms(&self, place: &RankRange) -> &[Atom] {
        let own = &self.ranks[place.rank as usize];
        let range = &place.range;
        &own.buffers[own.number(range.buffer)][range.start as usize..range.end() as usize]
    }

    /// Checks at the end that no rank accesses exposed memory after its owner leaves. Banks belong to the
    /// communicator.
    pub fn check(&self, clocks: &Clocks) -> Result<(), Fault> {
        for (rank, own) in (0..).zip(&self.ranks) {
            let private = &own.accesses[..own.accesses.len() - 1];
            if let Some(access) = private.iter().find_map(|accesses| accesses.beyond(rank, clocks)) {
                return Err(Fault::new(format!(
                    "may leave before step {} of rank {} is done with its memory ({}..{})",
                    access.instance.step.0, access.rank, access.start, access.end
                ))
                .at_rank(rank));
            }
        }
        Ok(())
    }
}

/// Returns the position of a frame's block.
fn held(frame: &RankRange, length: u64) -> RankRange {
    RankRange { range: frame.range.held(length), ..*frame }
}

/// Returns true if a span covers all entries of a table.
fn is_whole(span: &Span, table: Table, ranks: u32) -> bool {
    let division = ir::Division::Table(table);
    span.start == Start::Block { division, index: Index::fixed(0) }
        && span.length == Length::Blocks { division, index: Index::fixed(0), count: ranks }
}
