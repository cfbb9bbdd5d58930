//! Memory of windows: where a target's lies as seen from here, and how it is read, written and combined.
//!
//! # Safety
//! A [`Base`] is an address in memory that a mapping keeps alive as long as its window, or that the user has promised to keep
//! (MPI-5 section 12.2.1). Who makes a [`Spot`] has checked that it lies inside the window. Accesses that conflict are the program's
//! mistake (section 12.7); those of accumulates are made one after the other, by `alone`.
#![allow(unsafe_code)]

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::{Datatype, Op, Reducer, Segment};
use tutti_sys::cma::CopyError;
use tutti_sys::memory::Mapping;
use tutti_transport::Peer;
use tutti_transport::exposure::{self, Access, Entry, Exposures, Record, Window as Exposed};
use tutti_transport::window::Station;

use crate::buffer::{Buffer, ByteRun, combine_packed};

/// Where the memory of a target is, seen from an origin.
#[derive(Debug)]
pub enum WindowPlace {
    /// In this process: its own, or mapped.
    Here(Base),
    /// In reach of the system's calls, as a whole or but for what is mapped.
    Lent(Exposed),
    /// Out of reach: the target does what is asked for.
    Message,
}

/// The address from which displacements count.
#[derive(Clone, Copy, Debug)]
pub struct Base(*mut u8);

// SAFETY: an address, with the promise of the module's Safety section; valid in every thread.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

// SAFETY: exposed memory is addresses and numbers as well; it is used under the lock of the first lane.
unsafe impl Sync for WindowPlace {}

/// Items in the memory of a target.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// From the base to where the items count from, in bytes; an address, if the window has no base.
    pub offset: i64,
    /// Number of items.
    pub count: u64,
    /// What they are.
    pub datatype: &'a Datatype,
    /// Packed bytes of them for which all is done.
    pub done: u64,
}

/// Why exposed memory could not be reached, and for how many packed bytes everything was done before.
#[derive(Clone, Copy, Debug)]
pub struct Stopped {
    /// Why.
    pub error: CopyError,
    /// How far it came.
    pub done: u64,
}

/// What an accumulate does to the memory of its target.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// What is combined with it; nothing for MPI_NO_OP.
    pub origin: Option<&'a Buffer>,
    /// Where its former content goes, if that is wanted.
    pub result: Option<&'a Buffer>,
    /// How it is combined.
    pub op: &'a Op,
}

/// The same where both sides of the origin are single runs.
#[derive(Clone, Copy, Debug)]
pub struct RunUpdate<'a> {
    /// As of [`Update`].
    pub origin: Option<ByteRun>,
    /// As of [`Update`].
    pub result: Option<ByteRun>,
    /// As of [`Update`].
    pub op: &'a Op,
}

/// Most packed bytes that an accumulate combines in one go, and that one message carries.
pub const PIECE_BYTES: u64 = 64 << 10;
/// Most runs of a piece.
const PIECE_RUNS: usize = 512;
/// The same of a piece that is read and written anew: all of it is written, or nothing.
const UPDATE_RUNS: usize = exposure::REPLACED_RUNS;
/// Copies up to this length need no memory of their own.
const SMALL_BYTES: usize = 64;

impl Base {
    /// An address.
    ///
    /// # Safety
    /// See the module's Safety section.
    pub unsafe fn new(address: *mut u8) -> Base {
        Base(address)
    }

    /// So many bytes into a mapping that a window keeps.
    pub fn mapped(mapping: &Mapping, offset: u64) -> Base {
        Base(mapping.base().as_ptr().wrapping_add(offset as usize))
    }

    /// As a number.
    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// Memory of this process from here on, as a target sees its own.
    pub fn window(self, bytes: u64) -> Exposed {
        // SAFETY: the module's promise.
        unsafe { Exposed::here(self.0, bytes) }
    }

    /// So many bytes, which lie inside the window, from `offset` on.
    #[inline(always)]
    pub fn run(self, offset: i64, bytes: u64) -> ByteRun {
        // SAFETY: the module's promise.
        unsafe { ByteRun::at(self.0.wrapping_offset(offset as isize), bytes) }
    }

    /// Stores `data`, which goes inside the window, at `offset`.
    #[inline]
    pub fn store(self, offset: u64, data: &[u8]) {
        // SAFETY: the module's promise; a log is no memory of a window.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), self.0.wrapping_add(offset as usize), data.len());
        }
    }

    /// The items as a buffer.
    ///
    /// # Errors
    /// `Count` when they are too many.
    #[inline]
    pub fn buffer(self, spot: &Spot<'_>) -> Result<Buffer> {
        // SAFETY: the module's promise.
        unsafe { Buffer::user(self.0.wrapping_offset(spot.offset as isize), spot.count, spot.datatype) }
    }
}

/// Lends the memory of a window that a program made, as long as the window lives.
pub fn lend(exposures: &mut Exposures, base: Base, bytes: u64) -> Record {
    // SAFETY: the module's promise; the loan ends with the window.
    unsafe { exposures.expose(base.0, bytes, Access::ReadWrite, None) }
}

/// Where memory is that a member of this node, of that local rank, has lent.
pub fn open(exposures: &mut Exposures, owner: u32, record: &Record) -> WindowPlace {
    if record.bytes() == 0 {
        return WindowPlace::Here(Base(std::ptr::null_mut()));
    }
    if !exposures.reaches_record(Peer(owner), record) {
        return WindowPlace::Message;
    }
    // SAFETY: a record without edges or a table; the window is used as long as the loan lasts.
    let window = unsafe { exposures.open(Peer(owner), record, std::ptr::null(), std::ptr::null()) };
    match window.direct(0, record.bytes()) {
        Some(base) => WindowPlace::Here(Base(base)),
        None => WindowPlace::Lent(window),
    }
}

/// The memory of a process of this node, of that local rank, by its addresses.
pub fn of_process(exposures: &mut Exposures, owner: u32) -> WindowPlace {
    exposures.process_of(Peer(owner)).map_or(WindowPlace::Message, WindowPlace::Lent)
}

impl<'a> Update<'a> {
    /// As runs, if its buffers are runs.
    fn runs(&self) -> Option<RunUpdate<'a>> {
        let origin = self.origin.map(Buffer::user_run);
        let result = self.result.map(Buffer::user_run);
        let are_runs = origin != Some(None) && result != Some(None);
        are_runs.then_some(RunUpdate { origin: origin.flatten(), result: result.flatten(), op: self.op })
    }
}

impl Spot<'_> {
    /// Length in packed bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.datatype.packed_bytes(self.count)
    }

    /// The runs of an item that is one piece.
    pub fn runs_of_one(&self) -> Vec<Entry> {
        self.runs(0, PIECE_RUNS, self.bytes(), 1)
    }

    /// The runs of the packed bytes from `position` on, at most `most` of them and `limit` bytes; a multiple of `granule` bytes.
    fn runs(&self, position: u64, most: usize, limit: u64, granule: u64) -> Vec<Entry> {
        let mut segments: Vec<Segment> = Vec::new();
        let end = (position + limit / granule * granule.max(1)).min(self.bytes());
        let covered = self.datatype.segments(self.count, position..end, &mut segments, most);
        if !covered.is_multiple_of(granule) {
            segments.clear();
            let end = position + covered / granule * granule;
            self.datatype.segments(self.count, position..end, &mut segments, most);
        }
        let entry =
            |segment: &Segment| Entry { offset: (self.offset + segment.offset) as u64, bytes: segment.bytes };
        segments.iter().map(entry).collect()
    }

    /// Calls `work` with the position, the length and the runs of one piece of the packed bytes after the other.
    ///
    /// # Errors
    /// The first of `work`.
    pub fn each_piece<E>(
        &self,
        limit: u64,
        granule: u64,
        work: impl FnMut(u64, u64, Vec<Entry>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.each_piece_of(PIECE_RUNS, limit, granule, work)
    }

    /// As [`Spot::each_piece`], a piece having at most so many runs.
    fn each_piece_of<E>(
        &self,
        most_runs: usize,
        limit: u64,
        granule: u64,
        mut work: impl FnMut(u64, u64, Vec<Entry>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut position = self.done;
        while position < self.bytes() {
            let runs = self.runs(position, most_runs, limit.max(granule), granule.max(1));
            let bytes = runs.iter().map(|run| run.bytes).sum();
            assert!(bytes > 0, "a piece holds at least one item of a few runs");
            work(position, bytes, runs)?;
            position += bytes;
        }
        Ok(())
    }
}

/// Stores the packed bytes from `position` on of one buffer as those of another.
fn move_piece(from: &Buffer, to: &Buffer, position: u64, bytes: usize) {
    with_piece(from, position, bytes, |piece| {
        to.unpack(position, piece);
    });
}

/// Hands over packed bytes of a buffer.
#[inline]
fn with_piece<R>(buffer: &Buffer, position: u64, bytes: usize, work: impl FnOnce(&[u8]) -> R) -> R {
    if let Some(run) = buffer.run() {
        return work(&run[position as usize..][..bytes]);
    }
    let (mut small, mut large);
    let room = if bytes <= SMALL_BYTES {
        small = [0; SMALL_BYTES];
        &mut small[..bytes]
    } else {
        large = vec![0; bytes];
        &mut large[..]
    };
    buffer.pack(position, room);
    work(room)
}

/// The granule in which items may be combined: whole items of the type where an item is more than its basic items.
fn granule(datatype: &Datatype) -> u64 {
    match datatype.basic() {
        Some(basic) if basic.extent() == basic.size() && basic.elements() == 1 => basic.size() as u64,
        _ => datatype.size() as u64,
    }
    .max(1)
}

/// The granule in which items may be combined once they are packed.
pub fn packed_granule(datatype: &Datatype) -> u64 {
    datatype.basic().map_or(1, |basic| basic.size() as u64).max(1)
}

/// Combines items that are in this process, piece by piece while nobody else accumulates at `station`.
///
/// # Errors
/// `Count` when they are too many.
#[inline]
pub fn update_here(
    base: Base,
    spot: &Spot<'_>,
    reducer: &Reducer,
    update: &Update<'_>,
    station: &Station,
    looks: u32,
) -> Result<()> {
    let target = base.buffer(spot)?;
    let bytes = target.bytes();
    let runs = update.runs();
    match (runs, target.user_run()) {
        (Some(runs), Some(target)) if spot.datatype.dense().is_some() && bytes <= PIECE_BYTES => {
            update_run((target, spot.count), reducer, &runs, station, looks);
        }
        _ => update_pieces(&target, reducer, update, |work| station.alone(looks, work)),
    }
    Ok(())
}

/// As [`update_here`] for a few items without gaps, at most [`PIECE_BYTES`], and single runs of the same length.
#[inline(always)]
pub fn update_run(
    (target, count): (ByteRun, u64),
    reducer: &Reducer,
    update: &RunUpdate<'_>,
    station: &Station,
    looks: u32,
) {
    let _taken = station.take(looks);
    if let Some(result) = update.result {
        result.copy_from(target);
    }
    if let Some(origin) = update.origin {
        target.combine(reducer, count, origin);
    }
}

/// As [`update_here`], whatever the types. Each piece is combined inside `alone`.
fn update_pieces(
    target: &Buffer,
    reducer: &Reducer,
    update: &Update<'_>,
    mut alone: impl FnMut(&mut dyn FnMut()),
) {
    let bytes = target.bytes();
    let granule = if bytes <= PIECE_BYTES { bytes.max(1) } else { granule(reducer.datatype()) };
    let step = (PIECE_BYTES / granule * granule).max(granule);
    let mut position = 0;
    while position < bytes {
        let take = step.min(bytes - position) as usize;
        alone(&mut || {
            if let Some(result) = update.result {
                move_piece(target, result, position, take);
            }
            if let Some(origin) = update.origin {
                with_piece(origin, position, take, |input| target.combine(reducer, position, input));
            }
        });
        position += take as u64;
    }
}

/// Compares an item that is in this process, and exchanges it if it is equal.
#[inline]
pub fn swap_here(target: &Buffer, compare: &Buffer, origin: &Buffer, result: &Buffer) {
    let equal = match (target.run(), compare.run()) {
        (Some(now), Some(wanted)) => is_same(now, wanted),
        _ => target.to_vec() == compare.to_vec(),
    };
    result.copy_from(target);
    if equal {
        target.copy_from(origin);
    }
}

/// Whether an item is equal to another: mostly one of a register's length, for which a call would cost more than all else.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    match (<[u8; 8]>::try_from(one), <[u8; 8]>::try_from(other)) {
        (Ok(one), Ok(other)) => u64::from_ne_bytes(one) == u64::from_ne_bytes(other),
        _ => one == other,
    }
}

/// Whether exposed memory could be reached.
pub type Reached = std::result::Result<(), CopyError>;

/// Reads runs of exposed memory.
///
/// # Errors
/// Why they cannot be reached.
pub fn gather(window: &Exposed, runs: &[Entry], into: &mut [u8]) -> Reached {
    assert_eq!(runs.iter().map(|run| run.bytes).sum::<u64>(), into.len() as u64);
    // SAFETY: the slice is as long as the runs together.
    unsafe { window.gather(runs, into.as_mut_ptr()) }
}

/// Writes runs of exposed memory.
///
/// # Errors
/// Why they cannot be reached.
pub fn scatter(window: &Exposed, runs: &[Entry], from: &[u8]) -> Reached {
    assert_eq!(runs.iter().map(|run| run.bytes).sum::<u64>(), from.len() as u64);
    // SAFETY: the slice is as long as the runs together; the owner has made its memory a window.
    unsafe { window.scatter(runs, from.as_ptr()) }
}

/// Why the memory of a target cannot be reached, for the program.
#[cold]
pub fn unreachable(error: CopyError) -> Error {
    let class = if error == CopyError::Fault { ErrorClass::RmaRange } else { ErrorClass::Other };
    Error::new(class, format!("the memory of the target cannot be reached: {error}"))
}

/// Largest piece of a copy that a buffer with gaps takes part in; of others there is one.
fn most(buffer: &Buffer) -> u64 {
    if buffer.run().is_some() { u64::MAX / 2 } else { PIECE_BYTES }
}

/// Writes to exposed memory.
///
/// # Errors
/// Why it cannot be reached.
pub fn put_lent(window: &Exposed, spot: &Spot<'_>, origin: &Buffer) -> Reached {
    spot.each_piece(most(origin), 1, |position, bytes, runs| {
        with_piece(origin, position, bytes as usize, |piece| scatter(window, &runs, piece))
    })
}

/// Reads from exposed memory.
///
/// # Errors
/// Why it cannot be reached.
pub fn get_lent(window: &Exposed, spot: &Spot<'_>, origin: &Buffer) -> Reached {
    spot.each_piece(most(origin), 1, |position, bytes, runs| {
        if origin.run().is_some() {
            return origin.with_memory(position, bytes, 1, |memory| match memory {
                [run] => gather(window, &runs, run),
                _ => Ok(()),
            });
        }
        let mut piece = vec![0; bytes as usize];
        gather(window, &runs, &mut piece)?;
        origin.unpack(position, &piece);
        Ok(())
    })
}

/// Combines items in exposed memory; `packed` is the reducer of packed items. Each piece is combined inside `alone`.
///
/// # Errors
/// Why it cannot be reached; the pieces before are combined.
pub fn update_lent(
    window: &Exposed,
    spot: &Spot<'_>,
    packed: &Reducer,
    update: &Update<'_>,
    mut alone: impl FnMut(&mut dyn FnMut() -> Reached) -> Reached,
) -> std::result::Result<(), Stopped> {
    let granule = packed_granule(spot.datatype);
    spot.each_piece_of(UPDATE_RUNS, PIECE_BYTES, granule, |position, bytes, runs| {
        let mut old = vec![0; bytes as usize];
        let reached = alone(&mut || {
            gather(window, &runs, &mut old)?;
            if let Some(result) = update.result {
                result.unpack(position, &old);
            }
            let Some(origin) = update.origin else { return Ok(()) };
            with_piece(origin, position, old.len(), |input| combine_packed(packed, input, &mut old));
            // SAFETY: as long as the runs together; the owner has made its memory a window.
            unsafe { window.replace(&runs, old.as_ptr()) }
        });
        reached.map_err(|error| Stopped { error, done: position })
    })
}

/// Compares an item in exposed memory, and exchanges it if it is equal.
///
/// # Errors
/// Why it cannot be reached.
pub fn swap_lent(
    window: &Exposed,
    spot: &Spot<'_>,
    compare: &Buffer,
    origin: &Buffer,
    result: &Buffer,
) -> Reached {
    let runs = spot.runs_of_one();
    let mut old = vec![0; spot.bytes() as usize];
    gather(window, &runs, &mut old)?;
    result.unpack(0, &old);
    if compare.to_vec() != old {
        return Ok(());
    }
    let new = origin.to_vec();
    // SAFETY: one item of the same type; the owner has made its memory a window.
    unsafe { window.replace(&runs, new.as_ptr()) }
}
