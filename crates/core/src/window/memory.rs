//! Memory of windows: the location of a target's memory as seen by this process, and functions that read,
//! write and combine it.
//!
//! # Safety
//! A [`Base`] is an address in memory. A mapping keeps this memory alive as long as its window, or the user
//! has promised to keep it (MPI-5 section 12.2.1). The creator of a [`Spot`] has checked that it lies inside
//! the window. Conflicting accesses are errors of the program (section 12.7). Those of accumulates are
//! serialised by `alone`.
#![allow(unsafe_code)]

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::{Datatype, Op, Reducer, Segment};
use tutti_sys::cma::CopyError;
use tutti_sys::memory::Mapping;
use tutti_transport::Peer;
use tutti_transport::exposure::{self, Access, Entry, Exposures, Record, Window as Exposed};
use tutti_transport::window::Station;

use crate::buffer::{Buffer, ByteRun, combine_packed};

/// Location of a target's memory, as seen by an origin.
#[derive(Debug)]
pub enum WindowPlace {
    /// Memory of this process, or mapped into it.
    Here(Base),
    /// Memory of another process of the node that is read and written by system calls. Parts of it may be
    /// mapped.
    Lent(Exposed),
    /// Memory out of reach. The target performs the operations that messages request.
    Message,
}

/// Start of a window's memory, from which displacements count.
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
    /// Offset of the items from the base in bytes; an address for dynamic windows, which have no base.
    pub offset: i64,
    /// Number of items in memory.
    pub count: u64,
    /// Datatype of one item.
    pub datatype: &'a Datatype,
    /// Number of packed bytes that were processed already.
    pub done: u64,
}

/// Failed access to exposed memory.
#[derive(Clone, Copy, Debug)]
pub struct Stopped {
    /// Reason of the failure.
    pub error: CopyError,
    /// Number of packed bytes that were processed before.
    pub done: u64,
}

/// Update of the target's memory by an accumulate.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// Operand; None for MPI_NO_OP.
    pub origin: Option<&'a Buffer>,
    /// Buffer for the former content; None for MPI_Accumulate.
    pub result: Option<&'a Buffer>,
    /// Operator that combines the memory with the operand.
    pub op: &'a Op,
}

/// Update whose buffers are contiguous.
#[derive(Clone, Copy, Debug)]
pub struct RunUpdate<'a> {
    /// Operand; None for MPI_NO_OP.
    pub origin: Option<ByteRun>,
    /// Buffer for the former content; None for MPI_Accumulate.
    pub result: Option<ByteRun>,
    /// Operator that combines the memory with the operand.
    pub op: &'a Op,
}

/// Maximum number of packed bytes that an accumulate combines at a time, and that one message carries.
pub const PIECE_BYTES: u64 = 64 << 10;
/// Maximum number of contiguous runs of a piece.
const PIECE_RUNS: usize = 512;
/// Maximum number of contiguous runs of a piece that is replaced: all of it is written, or nothing.
const UPDATE_RUNS: usize = exposure::REPLACED_RUNS;
/// Longest copy in bytes that needs no allocation.
const SMALL_BYTES: usize = 64;

impl Base {
    /// Returns a base at this address.
    ///
    /// # Safety
    /// See the module's Safety section.
    pub unsafe fn new(address: *mut u8) -> Base {
        Base(address)
    }

    /// Returns the base at an offset in a mapping that the window keeps.
    pub fn mapped(mapping: &Mapping, offset: u64) -> Base {
        Base(mapping.base().as_ptr().wrapping_add(offset as usize))
    }

    /// Returns the address as a number.
    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// Returns the memory of this process from the base on, as exposed memory.
    pub fn window(self, bytes: u64) -> Exposed {
        // SAFETY: the module's promise.
        unsafe { Exposed::here(self.0, bytes) }
    }

    /// Returns a run of bytes from `offset` on, which must lie inside the window.
    #[inline(always)]
    pub fn run(self, offset: i64, bytes: u64) -> ByteRun {
        // SAFETY: the module's promise.
        unsafe { ByteRun::at(self.0.wrapping_offset(offset as isize), bytes) }
    }

    /// Stores `data` at `offset`; the bytes must lie inside the window.
    #[inline]
    pub fn store(self, offset: u64, data: &[u8]) {
        // SAFETY: the module's promise; a log is not memory of a window.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), self.0.wrapping_add(offset as usize), data.len());
        }
    }

    /// Returns the items as a buffer.
    ///
    /// # Errors
    /// `Count` if there are too many items.
    #[inline]
    pub fn buffer(self, spot: &Spot<'_>) -> Result<Buffer> {
        // SAFETY: the module's promise.
        unsafe { Buffer::user(self.0.wrapping_offset(spot.offset as isize), spot.count, spot.datatype) }
    }
}

/// Exposes the memory of a window that the program provides, as long as the window lives.
pub fn lend(exposures: &mut Exposures, base: Base, bytes: u64) -> Record {
    // SAFETY: the module's promise; the loan ends with the window.
    unsafe { exposures.expose(base.0, bytes, Access::ReadWrite, None) }
}

/// Returns the path to memory that the member with this local rank has exposed.
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

/// Returns the path to the complete memory of the process with this local rank, by addresses.
pub fn of_process(exposures: &mut Exposures, owner: u32) -> WindowPlace {
    exposures.process_of(Peer(owner)).map_or(WindowPlace::Message, WindowPlace::Lent)
}

impl<'a> Update<'a> {
    /// Returns the update with contiguous buffers, or None if a buffer has gaps.
    fn runs(&self) -> Option<RunUpdate<'a>> {
        let origin = self.origin.map(Buffer::user_run);
        let result = self.result.map(Buffer::user_run);
        let are_runs = origin != Some(None) && result != Some(None);
        are_runs.then_some(RunUpdate { origin: origin.flatten(), result: result.flatten(), op: self.op })
    }
}

impl Spot<'_> {
    /// Returns the length in packed bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.datatype.packed_bytes(self.count)
    }

    /// Returns the contiguous runs of all items. They must fit into one piece.
    pub fn runs_of_one(&self) -> Vec<Entry> {
        self.runs(0, PIECE_RUNS, self.bytes(), 1)
    }

    /// Returns the contiguous runs of the packed bytes, starting at `position`. There are at most `most` runs
    /// and `limit` bytes; the number of bytes is a multiple of `granule`.
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

    /// Calls `work` for each piece of the packed bytes, in order: with its position, its length and its runs.
    ///
    /// # Errors
    /// The first error of `work`.
    pub fn each_piece<E>(
        &self,
        limit: u64,
        granule: u64,
        work: impl FnMut(u64, u64, Vec<Entry>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.each_piece_of(PIECE_RUNS, limit, granule, work)
    }

    /// Does the same as [`Spot::each_piece`], with at most `most_runs` runs in a piece.
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

/// Copies packed bytes of one buffer to the same position of another.
fn move_piece(from: &Buffer, to: &Buffer, position: u64, bytes: usize) {
    with_piece(from, position, bytes, |piece| {
        to.unpack(position, piece);
    });
}

/// Calls `work` with packed bytes of a buffer.
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

/// Returns the unit in bytes in which items may be combined: the basic type if it has no gaps, otherwise the
/// datatype.
fn granule(datatype: &Datatype) -> u64 {
    match datatype.basic() {
        Some(basic) if basic.extent() == basic.size() && basic.elements() == 1 => basic.size() as u64,
        _ => datatype.size() as u64,
    }
    .max(1)
}

/// Returns the unit in bytes in which packed items may be combined.
pub fn packed_granule(datatype: &Datatype) -> u64 {
    datatype.basic().map_or(1, |basic| basic.size() as u64).max(1)
}

/// Combines items in this process, piece by piece, with exclusive access at `station`.
///
/// # Errors
/// `Count` if there are too many items.
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

/// Combines a few items without gaps, of at most [`PIECE_BYTES`]. All runs must have the same length.
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

/// Combines items of any type. Each piece is combined inside `alone`.
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

/// Compares an item in this process, and replaces it if it is equal.
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

/// Compares two items. They usually have the length of a register, for which the call of a function would be
/// slow.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    match (<[u8; 8]>::try_from(one), <[u8; 8]>::try_from(other)) {
        (Ok(one), Ok(other)) => u64::from_ne_bytes(one) == u64::from_ne_bytes(other),
        _ => one == other,
    }
}

/// Result of an access to exposed memory.
pub type Reached = std::result::Result<(), CopyError>;

/// Reads runs of exposed memory into a slice.
///
/// # Errors
/// The reason for which the memory cannot be reached.
pub fn gather(window: &Exposed, runs: &[Entry], into: &mut [u8]) -> Reached {
    assert_eq!(runs.iter().map(|run| run.bytes).sum::<u64>(), into.len() as u64);
    // SAFETY: the slice is as long as the runs together.
    unsafe { window.gather(runs, into.as_mut_ptr()) }
}

/// Writes a slice to runs of exposed memory.
///
/// # Errors
/// The reason for which the memory cannot be reached.
pub fn scatter(window: &Exposed, runs: &[Entry], from: &[u8]) -> Reached {
    assert_eq!(runs.iter().map(|run| run.bytes).sum::<u64>(), from.len() as u64);
    // SAFETY: the slice is as long as the runs together; the owner has made its memory a window.
    unsafe { window.scatter(runs, from.as_ptr()) }
}

/// Returns the error for a program whose target's memory cannot be reached.
#[cold]
pub fn unreachable(error: CopyError) -> Error {
    let class = if error == CopyError::Fault { ErrorClass::RmaRange } else { ErrorClass::Other };
    Error::new(class, format!("the memory of the target cannot be reached: {error}"))
}

/// Returns the largest piece in bytes for a copy from or to this buffer. Contiguous buffers are copied in one
/// piece.
fn most(buffer: &Buffer) -> u64 {
    if buffer.run().is_some() { u64::MAX / 2 } else { PIECE_BYTES }
}

/// Writes a buffer to exposed memory.
///
/// # Errors
/// The reason for which the memory cannot be reached.
pub fn put_lent(window: &Exposed, spot: &Spot<'_>, origin: &Buffer) -> Reached {
    spot.each_piece(most(origin), 1, |position, bytes, runs| {
        with_piece(origin, position, bytes as usize, |piece| scatter(window, &runs, piece))
    })
}

/// Reads exposed memory into a buffer.
///
/// # Errors
/// The reason for which the memory cannot be reached.
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

/// Combines items in exposed memory. `packed` is the reducer for packed items. Each piece is combined inside
/// `alone`.
///
/// # Errors
/// The reason for which the memory cannot be reached. Earlier pieces are combined.
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

/// Compares an item in exposed memory, and replaces it if it is equal.
///
/// # Errors
/// The reason for which the memory cannot be reached.
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
