//! Exposed memory (S2): a buffer is exposed to the peers of an operation, which read and write it by a single
//! copy.
//!
//! The owner calls [`Exposures::expose`] (or [`Exposures::expose_entries`], [`Exposures::expose_runs`]) and
//! publishes the [`Record`] it gets in memory that its peers read; a peer opens it ([`Exposures::open`]) and
//! works through the [`Window`]: in place where the owner's pages are mapped here ([`Window::direct`]),
//! through a back end elsewhere. The owner calls [`Exposures::withdraw`] when all peers are done.
//!
//! # Safety
//! Addresses of peers are never dereferenced; they go to back ends, which let the kernel check them. What is
//! dereferenced is the caller's memory, by its promise.

#![allow(unsafe_code)]

mod back_ends;
mod blocks;
mod calls;
mod convert;
mod count;
mod fork;
mod known;
mod loans;
mod object;
mod peers;
mod policy;
mod private;
mod proofs;
mod record;
mod refusal;
mod window;

#[cfg(test)]
mod tests;

use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use back_ends::{BackEnd, Unavailable};
pub use calls::advise;
pub use object::{Pages, pages};
pub use peers::Peers;
pub use record::{Access, EdgeRoom, Entry, PAGE_BYTES, Record};
pub use refusal::PrivateReason;
pub use window::{REPLACED_RUNS, Window};

use blocks::Blocks;
use convert::Bounds;
use known::Known;
use loans::Loans;
use object::{Object, ObjectRange};
use policy::{Advice, Policy};
use proofs::Proofs;
use record::{GATED, RecordLayout, SETTLED};
use tutti_base::config::{Config, Mapped};
use tutti_sys::job::{Job, Reach};
use tutti_sys::kept;

use crate::Peer;
use crate::locality::{CoreDistance, WHOLE, WriteBack, write_back};
use crate::single_copy::CopyError;

/// Counts of exposures and conversions so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of buffers whose pages have become shared.
    pub conversions: u64,
    /// Bytes of the buffers whose pages have become shared.
    pub converted_bytes: u64,
    /// Number of times that a buffer was exposed mapped.
    pub mapped: u64,
    /// Number of times that a buffer was exposed through the back end.
    pub unmapped: u64,
    /// Number of times that the kernel was asked where a buffer is mapped.
    pub asked: u64,
    /// Number of exposures whose memory is written back afterwards: far peers read it, and it changes between
    /// exposures.
    pub written_back: u64,
    /// Number of mapped buffers that the program has unmapped or changed.
    pub lost: u64,
    /// Number of refused conversions, by reason ([`PrivateReason`] as index).
    pub refused: [u64; PrivateReason::COUNT],
}

/// Message that its receiver may read in place, as long as this value lives.
#[derive(Debug)]
pub struct LentMessage {
    /// Record that the receiver needs ([`Peers::read`]).
    pub record: Record,
    loans: Loans,
}

impl LentMessage {
    /// Ends the exposure of a message that was read and whose memory is still unchanged, as
    /// [`Exposures::withdraw`] does for others.
    pub fn was_read(&self) {
        if self.record.written_back != 0 {
            // SAFETY: the caller says so; and it was found that it is to be done.
            unsafe { write_back(&[self.record.piece()]) };
        }
    }
}

impl Drop for LentMessage {
    fn drop(&mut self) {
        self.loans.end();
    }
}

/// The exposed memory of this process and the windows it has opened. One a process.
#[derive(Debug)]
pub struct Exposures {
    pid: i32,
    back_end: Result<BackEnd, Unavailable>,
    /// True if memory may be shared at all.
    shares: bool,
    explain: bool,
    limit_bytes: u64,
    policy: Policy,
    object: Option<&'static Object>,
    /// Objects that this process has had, the current one included.
    objects: u32,
    /// Address ranges that were made shared: a hint that it is worth asking the kernel.
    hints: Vec<(u64, u64)>,
    blocks: Blocks,
    known: Known,
    write_back: WriteBack,
    peers: Peers,
    proofs: Proofs,
    /// Records lent and not withdrawn.
    loans: Loans,
    /// Records lent so far, and when memory was last given back.
    lends: u64,
    swept: Instant,
    statistics: Statistics,
    lock: bool,
}

/// Number of exposures after which the give-back of mapped memory is considered, followed by the time after
/// which it happens.
const LENDS: u64 = 1024;
const SWEEP: Duration = Duration::from_secs(1);
/// Ranges of addresses that are kept in mind.
const HINTS: usize = 4096;

impl Exposures {
    /// Creates the exposures of a process from its settings.
    pub fn new(config: &Config) -> Exposures {
        let back_end = BackEnd::choose(config);
        calls::install(config.memory.mapped != Mapped::Never);
        // What XPMEM maps need not be moved.
        let mapped = if back_end == Ok(BackEnd::Xpmem) { Mapped::Never } else { config.memory.mapped };
        Exposures {
            pid: std::process::id() as i32,
            back_end,
            shares: config.memory.mapped != Mapped::Never,
            explain: config.collectives.explain.is_all(),
            limit_bytes: config.memory.mapped_limit,
            policy: Policy::new(&config.clone().changed(|c| c.memory.mapped = mapped)),
            object: None,
            objects: 0,
            hints: Vec::new(),
            blocks: Blocks::default(),
            known: Known::new(config.memory.mapped_watch),
            write_back: WriteBack::new(config.memory.mapped_home),
            peers: Peers::default(),
            proofs: Proofs::new(config.collectives.explain.is_all()),
            loans: Loans::default(),
            lends: 0,
            swept: Instant::now(),
            statistics: Statistics::default(),
            lock: true,
        }
    }

    /// Attaches the exposures to a rank of a job.
    #[must_use]
    pub fn of_job(self, job: Arc<Job>) -> Exposures {
        Exposures {
            write_back: self.write_back.of_job(Arc::clone(&job)),
            proofs: self.proofs.of_job(job),
            ..self
        }
    }

    /// Returns the access that this process has to the memory of ranks like it, as far as it knows by itself.
    pub fn reach(&self) -> Reach {
        match self.back_end {
            // It maps whatever there is.
            Ok(BackEnd::Xpmem) => Reach::Mapped,
            Ok(BackEnd::Attach | BackEnd::Knem) => Reach::of_process(true, self.shares),
            Err(_) => Reach::None,
        }
    }

    /// Returns a window on all memory of the process of `peer`, a rank of this host, by its addresses. `None`
    /// if it cannot be reached.
    pub fn process_of(&mut self, peer: Peer) -> Option<Window> {
        self.proofs.process(peer).ok().map(Window::of_process)
    }

    /// Returns true if this process can reach memory that `peer` has published.
    pub fn reaches_record(&mut self, peer: Peer, record: &Record) -> bool {
        self.proofs.verify(peer, record).is_ok()
    }

    /// Notes that the system has refused access to the memory of `peer`, as it may at any time. It is not
    /// tried again.
    #[cold]
    pub fn is_refused(&mut self, peer: Peer, error: CopyError) {
        self.proofs.refuse(peer, error);
    }

    /// Returns true if the next wait of an owner for its peers is to observe how far they are
    /// ([`Exposures::note_distance`]).
    #[inline]
    pub fn is_due(&self) -> bool {
        self.write_back.is_due()
    }

    /// Notes the observed distance of a peer; `None` if it could not be determined.
    pub fn note_distance(&mut self, distance: Option<CoreDistance>) {
        self.write_back.note(distance);
    }

    /// Returns true if exposing mapped memory is cheap, as the kernel reports changes.
    #[inline]
    pub fn is_told(&self) -> bool {
        self.known.is_told() && self.back_end == Ok(BackEnd::Attach)
    }

    /// Returns the back end by which any memory of this process can be exposed to peers of the same user, or
    /// the reason why there is none. A peer finds out by itself whether it can use it ([`Exposures::open`]).
    ///
    /// # Errors
    /// The reason if it cannot.
    pub fn available(&self) -> Result<BackEnd, Unavailable> {
        self.back_end
    }

    /// Returns the counts so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns a report of the counts for people, one fact a line.
    pub fn report(&self) -> Vec<String> {
        let Statistics { conversions, converted_bytes, mapped, unmapped, asked, written_back, lost, refused } =
            self.statistics;
        let mut lines = vec![
            match self.back_end {
                Ok(back_end) => format!("memory is exposed by {back_end:?}"),
                Err(why) => format!("memory cannot be exposed: {why}"),
            },
            self.known.report(),
            format!("{mapped} loans were mapped, {unmapped} were not; the kernel was asked {asked} times"),
            format!("{written_back} loans were written back to memory after far peers had read them"),
            format!("{conversions} buffers became shared, {} KiB; {lost} were lost", converted_bytes >> 10),
        ];
        let reasons = PrivateReason::ALL.iter().filter(|&&reason| refused[reason as usize] > 0);
        lines.extend(reasons.map(|&reason| format!("{} not mapped: {reason}", refused[reason as usize])));
        lines
    }

    /// Lends `bytes` at `address` to the peers that will see the record, until it is withdrawn. Peers are
    /// given `edges` as well, if it is stated here: memory of the operation that they can read.
    ///
    /// Nobody but the peers may write the memory until then; for [`Access::Read`] nobody at all. It may be
    /// mapped anew in this call, at the same address and with the same content: other threads may read it
    /// meanwhile.
    ///
    /// # Safety
    /// The memory is valid until the record is withdrawn, and so is the edge room.
    #[inline]
    pub unsafe fn expose(
        &mut self,
        address: *mut u8,
        bytes: u64,
        access: Access,
        edges: Option<ptr::NonNull<EdgeRoom>>,
    ) -> Record {
        // SAFETY: the caller's promise, also that nobody writes what is lent for being read.
        unsafe {
            let mut record = self.lend(address, bytes, access, edges, bytes);
            if access == Access::Read && record.is_near() {
                record.written_back = self.write_back.of_whole((address, bytes));
            }
            self.statistics.written_back += u64::from(record.written_back != 0);
            record
        }
    }

    /// Lends the entries that `rows` gives as (address, bytes), of which no peer uses entry `own`, `table`
    /// being room for as many rows in memory that the peers can read: they name an entry ([`Window::entry`]).
    /// Otherwise as [`Exposures::expose`].
    ///
    /// # Safety
    /// `table` is valid for writes of as many rows as there are. Otherwise as for [`Exposures::expose`].
    pub unsafe fn expose_entries(
        &mut self,
        rows: impl Iterator<Item = (*mut u8, u64)> + Clone,
        own: Option<u32>,
        table: *mut Entry,
        access: Access,
        edges: Option<ptr::NonNull<EdgeRoom>>,
    ) -> Record {
        let others = (0..).zip(rows.clone()).filter(|&(row, _)| Some(row) != own).map(|(_, piece)| piece);
        // SAFETY: the caller's promise, also that nobody writes what is lent for being read.
        unsafe {
            let mut record = self.expose_table(rows, table, access, edges, RecordLayout::Entries);
            if access == Access::Read && record.is_near() {
                record.written_back = self.write_back.of_pieces(others);
            }
            self.statistics.written_back += u64::from(record.written_back != 0);
            record
        }
    }

    /// Lends the runs of a buffer that is not contiguous: as [`Exposures::expose_entries`], but peers count
    /// through the runs as if they were contiguous. For few runs: a peer walks over those before the one it
    /// wants.
    ///
    /// # Safety
    /// `table` is valid for writes of as many rows as there are. Otherwise as for [`Exposures::expose`].
    pub unsafe fn expose_runs(
        &mut self,
        rows: impl Iterator<Item = (*mut u8, u64)> + Clone,
        table: *mut Entry,
        access: Access,
        edges: Option<ptr::NonNull<EdgeRoom>>,
    ) -> Record {
        // SAFETY: the caller's promise.
        unsafe { self.expose_table(rows, table, access, edges, RecordLayout::Runs) }
    }

    /// Returns a window on the memory that `peer`, a rank of this host, has published. `edges` and `table`
    /// are the addresses here of the memory that the owner gave (null where it gave none). Where the peer's
    /// memory cannot be reached, the window refuses to read and write.
    ///
    /// # Safety
    /// Where the record has a table, `table` is its rows; where it has edges, `edges` is its edge room. Both
    /// stay until the operation ends. The window is not used after that, nor after this value is dropped.
    #[inline]
    pub unsafe fn open(
        &mut self,
        peer: Peer,
        record: &Record,
        edges: *const EdgeRoom,
        table: *const Entry,
    ) -> Window {
        let layout = record.layout();
        let bytes = match layout {
            RecordLayout::Whole | RecordLayout::Entries => record.bytes,
            RecordLayout::Runs => {
                // SAFETY: the owner has written that many rows.
                let bytes_of = |row| unsafe { (*table.add(row)).bytes };
                (0..record.entries as usize).map(bytes_of).sum()
            }
        };
        let by = BackEnd::from_number(record.by);
        let lent = record.lent();
        let is_reached = self.proofs.verify(peer, record).is_ok();
        let mapped = if record.is_near() && is_reached { self.peers.near(peer, record) } else { None };
        let (near, near_start, near_end) = match mapped {
            Some(_) => (mapped, record.near_start, record.near_end),
            None if by == BackEnd::Attach || !is_reached => (None, 0, 0),
            None => match by.copier().near(lent) {
                Some(near) => (Some(near), 0, record.bytes),
                None => (None, 0, 0),
            },
        };
        Window {
            copier: if is_reached { by.copier() } else { back_ends::none() },
            lent,
            near_start,
            near_end,
            near: near.map_or(ptr::null_mut(), |near| near.wrapping_sub(near_start as usize)),
            edges: if record.edges != 0 { edges } else { ptr::null() },
            layout,
            table,
            entries: record.entries,
            first: 0,
            bytes,
        }
    }

    /// Ends the exposure of `record` at its owner. All peers must be done with it.
    #[inline]
    pub fn withdraw(&mut self, record: &Record) {
        self.loans.end();
        if record.flags & GATED != 0 {
            fork::GATE.end();
        }
        if record.written_back != 0 {
            self.write_back_read(record);
        }
        if record.by == BackEnd::Knem as u32 {
            BackEnd::Knem.copier().withdraw(record.key);
        }
    }

    /// Drops what peers have read from the caches.
    #[cold]
    fn write_back_read(&mut self, record: &Record) {
        // SAFETY: memory that is lent is valid until it is withdrawn; and it was found that it is to be done.
        unsafe {
            match record.written_back {
                WHOLE => write_back(&[record.piece()]),
                number => write_back(&self.write_back.take(number)),
            }
        }
    }

    /// Lends the `bytes` of a message at `address` to the process that will receive it, if its pages are
    /// mapped; else it takes another way. This counts as a use of the buffer all the same.
    ///
    /// # Safety
    /// As for [`Exposures::expose`] with [`Access::Read`], until the loan is dropped.
    pub unsafe fn lend_message(&mut self, address: *mut u8, bytes: u64) -> Option<LentMessage> {
        if bytes < self.policy.at_least_bytes || self.back_end != Ok(BackEnd::Attach) {
            return None;
        }
        // SAFETY: the caller's promise.
        let record = unsafe { self.expose(address, bytes, Access::Read, None) };
        let lent = LentMessage { record, loans: self.loans.clone() };
        let Record { near_start, near_end, .. } = record;
        (record.is_near() && near_start < PAGE_BYTES && bytes - near_end < PAGE_BYTES).then_some(lent)
    }

    /// Allocates at least `bytes` of memory that is shared from the start, page aligned, all zero or left by
    /// an earlier use. `None` if there is none (ordinary memory serves as well, but slower).
    pub fn allocate(&mut self, bytes: u64) -> Option<ptr::NonNull<u8>> {
        let object = self.object().ok().filter(|_| self.shares)?;
        self.blocks.allocate(object, bytes, self.limit_bytes)
    }

    /// Takes back memory that [`Exposures::allocate`] gave; false if it did not.
    ///
    /// # Safety
    /// Nobody uses it any more, peers included.
    pub unsafe fn free(&mut self, memory: ptr::NonNull<u8>) -> bool {
        // SAFETY: the caller's promise.
        match unsafe { self.blocks.free(memory) } {
            Some(bytes) => {
                self.policy.forget(memory.as_ptr() as u64, memory.as_ptr() as u64 + bytes);
                true
            }
            None => false,
        }
    }

    /// # Safety
    /// As [`Exposures::expose`]; but only `own` of the bytes were lent, what is in between belongs to
    /// somebody else.
    #[inline]
    unsafe fn lend(
        &mut self,
        address: *mut u8,
        bytes: u64,
        access: Access,
        edges: Option<ptr::NonNull<EdgeRoom>>,
        own: u64,
    ) -> Record {
        self.loans.begin();
        self.lends += 1;
        if self.lends.is_multiple_of(LENDS) {
            self.sweep();
        }
        let start = address as u64;
        let by = self.back_end.unwrap_or(BackEnd::Attach);
        let mut record = Record { address: start, bytes, pid: self.pid, by: by as u32, ..Record::default() };
        if by != BackEnd::Attach {
            record.key = register(by, &record, access);
        }
        // SAFETY: the caller's promise.
        let place = unsafe { self.place_for(start, bytes, access, own) };
        let Some((object, place)) = place else {
            self.statistics.unmapped += 1;
            return record;
        };
        self.statistics.mapped += 1;
        record.sequence = self.objects;
        let is_settled = self.objects > 1 && self.loans.is_only_one();
        record.flags = if is_settled { SETTLED } else { 0 } | if access != Access::Read { GATED } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { place.publish(object, record, access, edges) }
    }

    /// Finds the place of a buffer in the object, for a loan. Memory that peers may write stays there until
    /// the loan ends, because the gate was passed.
    ///
    /// # Safety
    /// As [`Exposures::expose`].
    #[inline]
    unsafe fn place_for(
        &mut self,
        start: u64,
        bytes: u64,
        access: Access,
        own: u64,
    ) -> Option<(&'static Object, ObjectRange)> {
        if access == Access::Read {
            // SAFETY: the caller's promise, here and below.
            return unsafe { self.find_or_convert(start, bytes, access, own) };
        }
        let stays = fork::GATE.begin();
        // SAFETY: as above.
        let place = if stays { unsafe { self.find_or_convert(start, bytes, access, own) } } else { None };
        if place.is_none() {
            fork::GATE.end();
        }
        place
    }

    /// # Safety
    /// As [`Exposures::expose`].
    #[inline]
    unsafe fn find_or_convert(
        &mut self,
        start: u64,
        bytes: u64,
        access: Access,
        own: u64,
    ) -> Option<(&'static Object, ObjectRange)> {
        let (hints, blocks) = (&self.hints, &self.blocks);
        let known =
            || blocks.holds(start) || hints.iter().any(|&(from, to)| from < start + bytes && start < to);
        match self.policy.advise(start, bytes, known) {
            Advice::Leave => None,
            Advice::Look => match self.look(start, bytes, access) {
                // SAFETY: the caller's promise.
                None if self.lost(start, bytes) => unsafe { self.convert(start, bytes, access, own) },
                found => found,
            },
            Advice::Convert => {
                // SAFETY: the caller's promise.
                let converted = unsafe { self.convert(start, bytes, access, own) };
                // What has grown may be mapped in part.
                converted.or_else(|| self.look(start, bytes, access))
            }
        }
    }

    /// Returns the object and the place of a mapped buffer, from memory or from the kernel.
    #[inline]
    fn look(&mut self, start: u64, bytes: u64, access: Access) -> Option<(&'static Object, ObjectRange)> {
        let object = self.object.filter(|object| object.is_current())?;
        let known = if access == Access::Read { self.known.place(start, bytes) } else { None };
        let place = match known.or_else(|| self.blocks.find(object, start, bytes)) {
            Some(place) => place,
            None => self.ask(object, start, bytes, access)?,
        };
        Some((object, place))
    }

    /// Asks the kernel for the place of a buffer and remembers it.
    fn ask(&mut self, object: &Object, start: u64, bytes: u64, access: Access) -> Option<ObjectRange> {
        self.statistics.asked += 1;
        let place =
            object.find(start, bytes, access != Access::Read).filter(|place| place.is_worth(bytes))?;
        if access == Access::Read {
            self.known.keep(object, start, bytes, place);
        }
        Some(place)
    }

    /// Handles a buffer that is no longer mapped. Returns true if it should be converted at once.
    #[cold]
    fn lost(&mut self, start: u64, bytes: u64) -> bool {
        self.statistics.lost += 1;
        self.hints.retain(|&(from, to)| to <= start || start + bytes <= from);
        self.policy.lost(start, bytes)
    }

    /// # Safety
    /// As [`Exposures::expose`].
    #[cold]
    unsafe fn convert(
        &mut self,
        start: u64,
        bytes: u64,
        access: Access,
        own: u64,
    ) -> Option<(&'static Object, ObjectRange)> {
        let bounds = Bounds {
            at_least: self.policy.at_least_bytes.max(PAGE_BYTES),
            limit: self.limit_bytes,
            idle: self.loans.is_only_one(),
            gaps: own < bytes,
            lock: self.lock,
        };
        let converted = self.object().and_then(|object| {
            match object.find(start, bytes, true) {
                Some(place) if place.is_all(start, bytes) => Ok(0),
                _ if own * 2 < bytes => Err(PrivateReason::Gaps),
                // SAFETY: the caller's promise.
                _ => unsafe { convert::convert(object, start, bytes, bounds) },
            }
        });
        match converted {
            Ok(moved) => {
                self.policy.converted(start, bytes);
                if self.hints.len() < HINTS {
                    self.hints.push((start, start + bytes));
                }
                if moved > 0 {
                    self.known.forget();
                    self.statistics.conversions += 1;
                    self.statistics.converted_bytes += moved;
                    self.tell(format_args!("{moved} bytes at {start:#x} are mapped into peers from now on"));
                }
                self.look(start, bytes, access)
            }
            Err(refusal) => {
                self.policy.refused(start, refusal.is_final());
                let count = &mut self.statistics.refused[refusal as usize];
                *count += 1;
                if *count == 1 {
                    self.tell(format_args!("{bytes} bytes at {start:#x} are not mapped: {refusal}"));
                }
                None
            }
        }
    }

    /// Gives back what the program has unmapped, now and then: a walk over the mappings, some 100 us a
    /// second.
    #[cold]
    fn sweep(&mut self) {
        let now = Instant::now();
        let due = self.statistics.conversions > 0 && self.loans.is_only_one() && now - self.swept >= SWEEP;
        if let Some(object) = self.object.filter(|object| due && object.is_current()) {
            self.swept = now;
            object::state().sweep(object);
        }
    }

    /// Returns the object of this process; a new one if a fork has retired it.
    fn object(&mut self) -> Result<&'static Object, PrivateReason> {
        if let Some(object) = self.object.filter(|object| object.is_current()) {
            return Ok(object);
        }
        if std::process::id().cast_signed() != kept::current(self.pid) {
            return Err(PrivateReason::Forked);
        }
        let object = Object::of_process()?;
        self.object = Some(object);
        self.objects = self.objects.wrapping_add(1);
        self.known.forget();
        Ok(object)
    }

    fn tell(&self, what: std::fmt::Arguments<'_>) {
        if self.explain {
            eprintln!("Tutti: process {}: {what}", self.pid);
        }
    }

    /// # Safety
    /// As for [`Exposures::expose_entries`].
    unsafe fn expose_table(
        &mut self,
        rows: impl Iterator<Item = (*mut u8, u64)> + Clone,
        table: *mut Entry,
        access: Access,
        edges: Option<ptr::NonNull<EdgeRoom>>,
        layout: RecordLayout,
    ) -> Record {
        // Empty entries may have any address, null too.
        let full = rows.clone().filter(|&(_, bytes)| bytes > 0).map(|(start, bytes)| (start as u64, bytes));
        let start = full.clone().map(|(start, _)| start).min().unwrap_or(0);
        let end = full.clone().map(|(start, bytes)| start + bytes).max().unwrap_or(0);
        // In the usual order, one follows the other. Elsewhere there may be a gap, as entries may overlap.
        let whole = full.clone().try_fold(start, |at, (next, bytes)| (next == at).then_some(at + bytes));
        let most = if whole.is_some() { end - start } else { (end - start).saturating_sub(1) };
        let own = full.map(|(_, bytes)| bytes).sum::<u64>().min(most);
        let mut entries = 0;
        for (address, bytes) in rows {
            let offset = if bytes == 0 { 0 } else { address as u64 - start };
            // SAFETY: the caller's promise.
            unsafe { table.add(entries as usize).write(Entry { offset, bytes }) };
            entries += 1;
        }
        let first = ptr::without_provenance_mut(start as usize);
        // SAFETY: the caller's promise.
        let record = unsafe { self.lend(first, end - start, access, edges, own) };
        Record { layout: layout as u32, entries, ..record }
    }
}

/// Registers memory at a kernel module and returns its key. If the module refuses, the key is an impossible
/// one, so that peers fail with a named error.
#[cold]
fn register(by: BackEnd, record: &Record, access: Access) -> u64 {
    let (readable, writable) = (access != Access::Write, access != Access::Read);
    by.copier().lend(record.address, record.bytes, readable, writable).unwrap_or(u64::MAX)
}

impl ObjectRange {
    /// Returns true if mapping helps a buffer of `bytes`.
    fn is_worth(&self, bytes: u64) -> bool {
        (self.end - self.start) * 2 >= bytes
    }

    /// Returns true if all pages of a buffer are here that lie in it as a whole.
    fn is_all(&self, start: u64, bytes: u64) -> bool {
        self.start < start + PAGE_BYTES && self.end + PAGE_BYTES > start + bytes
    }

    /// Completes the record of a buffer that is found here.
    ///
    /// # Safety
    /// As [`Exposures::expose`].
    unsafe fn publish(
        &self,
        object: &Object,
        record: Record,
        access: Access,
        edges: Option<ptr::NonNull<EdgeRoom>>,
    ) -> Record {
        let (near_start, near_end) = (self.start - record.address, self.end - record.address);
        let tail = record.bytes - near_end;
        // Gaps of a table are copied too; they are as readable as the rest of their page.
        let edges = edges.filter(|_| {
            access == Access::Read && near_start + tail > 0 && near_start.max(tail) <= PAGE_BYTES
        });
        if let Some(room) = edges {
            let from: *const u8 = ptr::without_provenance(record.address as usize);
            // SAFETY: the caller's promise; both lengths fit, as was just checked.
            unsafe {
                ptr::copy_nonoverlapping(from, (&raw mut (*room.as_ptr()).head).cast(), near_start as usize);
                let end = from.wrapping_add(near_end as usize);
                ptr::copy_nonoverlapping(end, (&raw mut (*room.as_ptr()).tail).cast(), tail as usize);
            }
        }
        let (inode, device) = object.identity();
        Record {
            edges: u32::from(edges.is_some()),
            near_start,
            near_end,
            offset: self.offset,
            map_offset: self.map_offset,
            map_bytes: self.map_bytes,
            inode,
            device,
            object: object.number(),
            writable: u32::from(access != Access::Read),
            ..record
        }
    }
}
