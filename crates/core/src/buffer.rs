//! Validated user buffers: the only place where core holds an address of the user's memory.
//!
//! A [`Buffer`] is made once, at the edge, from a pointer, a count and a datatype. All other code addresses
//! the packed bytes `0..bytes()` of the message; the buffer finds their memory.
//!
//! # Safety
//! The caller of [`Buffer::user`] promises, for the user, the requirements of MPI-5 sections 3.2.2 and
//! 3.7.2:
//!
//! - The memory that `count` items of the datatype cover from `base` on is valid until the operation
//!   completes.
//! - While a send runs, nothing writes it. While a receive runs, nothing accesses it.
//!
//! All accesses below stay inside that memory because positions are clipped to `bytes()`.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::{Datatype, Reducer, Segment, copy};
pub use tutti_sys::device;
use tutti_transport::exposure::{Exposures, LentMessage};
use tutti_transport::loan::Pieces;

use crate::matching::Signature;

/// Memory of one message, as described by the user.
#[derive(Clone, Debug)]
pub struct Buffer {
    base: *mut u8,
    bytes: u64,
    layout: Layout,
}

/// One contiguous run of a user's memory, which most messages are. Two words, which stay in registers,
/// while a [`Buffer`] lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRun {
    base: *mut u8,
    bytes: u64,
}

/// Layout of the message in memory.
#[derive(Clone, Debug)]
enum Layout {
    /// A contiguous run of memory that begins at `base`.
    Run,
    /// `count` items of a datatype with gaps; the message begins at packed byte `first` of them.
    Typed { datatype: Datatype, count: u64, first: u64 },
    /// A contiguous run that the library owns; `base` points into it.
    Owned { _memory: Arc<[UnsafeCell<u8>]> },
}

// SAFETY: a buffer is an address with a promise about it (see the module's Safety section), valid in every
// thread of the process. It is used only under the lock of the first lane.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// Piece size, in bytes, of a copy between two memory layouts that both have gaps.
const PIECE: usize = 8 << 10;
/// Piece size, in bytes, where each piece costs a system call.
const STAGE: usize = 128 << 10;

/// Shortest run in bytes, on average over the first `COARSE_RUNS` runs, that is worth an entry in a list
/// for the kernel.
const COARSE_RUN: usize = 1 << 10;
/// Number of runs in the sample that decides whether runs are long.
const COARSE_RUNS: usize = 64;
/// Maximum number of runs in one call to the kernel. Its own limit is 1024, and a header takes one.
const RUNS: usize = 512;

impl ByteRun {
    /// Describes the memory of `count` items of `datatype` at `base`. Returns `None` if the items have
    /// gaps.
    ///
    /// # Safety
    /// See the module's Safety section.
    #[inline(always)]
    pub unsafe fn user(base: *mut u8, count: u64, datatype: &Datatype) -> Option<ByteRun> {
        datatype.dense_bytes(count).map(|bytes| ByteRun { base, bytes })
    }

    /// Describes `bytes` bytes of memory at `base`.
    ///
    /// # Safety
    /// See the module's Safety section.
    #[inline(always)]
    pub unsafe fn at(base: *mut u8, bytes: u64) -> ByteRun {
        ByteRun { base, bytes }
    }

    /// Returns the length in bytes.
    #[inline(always)]
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Returns the content as a number, if it fits a register.
    #[inline(always)]
    pub fn word(self) -> Option<u64> {
        let mut word = [0; 8];
        (self.bytes <= 8).then(|| {
            self.pack(&mut word);
            u64::from_ne_bytes(word)
        })
    }

    /// Copies the first bytes to `out`, up to the shorter length.
    #[inline(always)]
    pub fn pack(self, out: &mut [u8]) {
        // SAFETY: no more than either side has.
        unsafe { move_run(self.base, out.as_mut_ptr(), out.len().min(self.bytes as usize)) };
    }

    /// Copies as [`ByteRun::pack`] does, but past the caches, for data that another processor reads next.
    pub fn stream(self, out: &mut [u8]) {
        // SAFETY: no more than either side has; `out` is the library's own.
        unsafe { copy::copy_streaming(self.base, out.as_mut_ptr(), out.len().min(self.bytes as usize)) };
    }

    /// Stores the content of another run here, up to the shorter length.
    #[inline(always)]
    pub fn copy_from(self, source: ByteRun) {
        // SAFETY: no more than either side has.
        unsafe { move_run(source.base, self.base, source.bytes.min(self.bytes) as usize) };
    }

    /// Combines the content of a run of the same length with this one: `count` items without gaps, to which
    /// `reducer` is bound.
    #[inline(always)]
    pub fn combine(self, reducer: &Reducer, count: u64, input: ByteRun) {
        debug_assert!(self.bytes == input.bytes && reducer.datatype().dense_bytes(count) == Some(self.bytes));
        // SAFETY: both runs have `count` items; by the standard's rule they are disjoint (MPI-5 section
        // 12.3.4).
        unsafe { reducer.apply(input.base, self.base, count) };
    }
}

impl From<ByteRun> for Buffer {
    #[inline(always)]
    fn from(ByteRun { base, bytes }: ByteRun) -> Buffer {
        Buffer { base, bytes, layout: Layout::Run }
    }
}

impl Buffer {
    /// Makes a buffer from the memory of `count` items of `datatype` at `base`.
    ///
    /// # Errors
    /// Returns `Count` if the message would not fit in the address space.
    ///
    /// # Safety
    /// See the module's Safety section.
    #[inline]
    pub unsafe fn user(base: *mut u8, count: u64, datatype: &Datatype) -> Result<Buffer> {
        // SAFETY: the caller's promise.
        match unsafe { ByteRun::user(base, count, datatype) } {
            Some(run) => Ok(run.into()),
            None => Buffer::laid_out(base, count, datatype),
        }
    }

    /// Makes a buffer as [`Buffer::user`] does, for any datatype.
    fn laid_out(base: *mut u8, count: u64, datatype: &Datatype) -> Result<Buffer> {
        let bytes = count
            .checked_mul(datatype.size() as u64)
            .filter(|bytes| *bytes <= i64::MAX as u64)
            .ok_or_else(|| {
                Error::new(
                    ErrorClass::Count,
                    format!("{count} items of {} bytes are too many", datatype.size()),
                )
            })?;
        Ok(match datatype.contiguous(count) {
            Some((offset, bytes)) => {
                Buffer { base: base.wrapping_offset(offset as isize), bytes, layout: Layout::Run }
            }
            None => {
                Buffer { base, bytes, layout: Layout::Typed { datatype: datatype.clone(), count, first: 0 } }
            }
        })
    }

    /// Makes a buffer from consecutive bytes of memory.
    ///
    /// # Safety
    /// See the module's Safety section.
    pub unsafe fn bytes_at(base: *mut u8, bytes: u64) -> Buffer {
        Buffer { base, bytes, layout: Layout::Run }
    }

    /// Makes a buffer from the packed bytes `first..first + bytes` of `count` items of `datatype` at
    /// `base`.
    ///
    /// # Safety
    /// See the module's Safety section. The range must lie inside the items.
    pub unsafe fn part(base: *mut u8, count: u64, datatype: &Datatype, first: u64, bytes: u64) -> Buffer {
        Buffer { base, bytes, layout: Layout::Typed { datatype: datatype.clone(), count, first } }
    }

    /// Makes a buffer from memory that the library owns, to send from or receive into; clones share it.
    pub fn owned(bytes: Vec<u8>) -> Buffer {
        let memory: Arc<[UnsafeCell<u8>]> = bytes.into_iter().map(UnsafeCell::new).collect();
        Buffer {
            base: memory.as_ptr().cast_mut().cast(),
            bytes: memory.len() as u64,
            layout: Layout::Owned { _memory: memory },
        }
    }

    /// Returns a copy of the message.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.bytes as usize];
        self.pack(0, &mut out);
        out
    }

    /// Makes a message without bytes.
    pub fn empty() -> Buffer {
        Buffer { base: std::ptr::dangling_mut(), bytes: 0, layout: Layout::Run }
    }

    /// Returns the packed bytes from `start` on, at most `bytes` of them.
    #[must_use]
    pub fn slice(&self, start: u64, bytes: u64) -> Buffer {
        let (start, bytes) = (start.min(self.bytes), bytes.min(self.bytes.saturating_sub(start)));
        let (base, layout) = match &self.layout {
            Layout::Typed { datatype, count, first } => {
                (self.base, Layout::Typed { datatype: datatype.clone(), count: *count, first: first + start })
            }
            layout => (self.base.wrapping_add(start as usize), layout.clone()),
        };
        Buffer { base, bytes, layout }
    }

    /// Returns the length of the message in packed bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the message as a slice, if it is one contiguous run.
    #[inline]
    pub fn run(&self) -> Option<&[u8]> {
        match self.layout {
            Layout::Typed { .. } => None,
            // A null pointer is legal for no bytes.
            _ if self.bytes == 0 => Some(&[]),
            // SAFETY: base covers `bytes` bytes that nobody writes while the operation runs.
            _ => Some(unsafe { std::slice::from_raw_parts(self.base, self.bytes as usize) }),
        }
    }

    /// Returns the message as the run of the user, if it is one.
    #[inline]
    pub fn user_run(&self) -> Option<ByteRun> {
        matches!(self.layout, Layout::Run).then_some(ByteRun { base: self.base, bytes: self.bytes })
    }

    /// Returns true if the buffer holds an address only, so that dropping it has no effect.
    #[inline]
    pub fn owns_nothing(&self) -> bool {
        matches!(self.layout, Layout::Run)
    }

    /// Returns the address of the message, null if it is not one contiguous run.
    #[inline]
    pub fn start(&self) -> *mut u8 {
        match self.layout {
            Layout::Typed { .. } => std::ptr::null_mut(),
            _ => self.base,
        }
    }

    /// Returns the address of the message as a number, 0 if it is not one contiguous run.
    pub fn address(&self) -> u64 {
        self.start() as u64
    }

    /// Exposes a message of one contiguous run to its receiver, if it is mapped or exposing pays off. The
    /// exposure must end before the operation does.
    pub fn lend(&self, exposures: &mut Exposures) -> Option<LentMessage> {
        let start = self.start();
        // SAFETY: valid, and not written until the operation is complete; see the module.
        (!start.is_null()).then(|| unsafe { exposures.lend_message(start, self.bytes) }).flatten()
    }

    /// Fills `out` with the packed bytes from `position` on, and returns their number.
    #[inline]
    pub fn pack(&self, position: u64, out: &mut [u8]) -> usize {
        let take = self.clip(position, out.len());
        match &self.layout {
            // SAFETY: position + take <= bytes, which datatype and count cover from base on.
            Layout::Typed { datatype, count, first } => unsafe {
                datatype.pack(self.base, *count, first + position, &mut out[..take])
            },
            // SAFETY: as above.
            _ => unsafe {
                move_run(self.base.add(position as usize), out.as_mut_ptr(), take);
                take
            },
        }
    }

    /// Stores `input` as the packed bytes from `position` on, and returns the number of bytes stored.
    /// Excess bytes are dropped.
    #[inline]
    pub fn unpack(&self, position: u64, input: &[u8]) -> usize {
        let take = self.clip(position, input.len());
        match &self.layout {
            // SAFETY: position + take <= bytes, which datatype and count cover from base on.
            Layout::Typed { datatype, count, first } => unsafe {
                datatype.unpack(self.base, *count, first + position, &input[..take])
            },
            // SAFETY: as above.
            _ => unsafe {
                move_run(input.as_ptr(), self.base.add(position as usize), take);
                take
            },
        }
    }

    /// Stores the message of `source` here as far as it fits, and returns the number of bytes.
    #[inline(always)]
    pub fn copy_from(&self, source: &Buffer) -> u64 {
        if let (Layout::Run, Layout::Run) = (&self.layout, &source.layout)
            && source.bytes <= self.bytes
        {
            // SAFETY: both runs hold `source.bytes` bytes.
            unsafe { move_run(source.base, self.base, source.bytes as usize) };
            return source.bytes;
        }
        self.copy_pieces_from(source)
    }

    /// Copies as [`Buffer::copy_from`] does, for any layouts.
    fn copy_pieces_from(&self, source: &Buffer) -> u64 {
        if let Some(run) = source.run() {
            return self.unpack(0, run) as u64;
        }
        let mut piece = [0u8; PIECE];
        let end = source.bytes.min(self.bytes);
        let mut position = 0;
        while position < end {
            let take = PIECE.min((end - position) as usize);
            let packed = source.pack(position, &mut piece[..take]);
            self.unpack(position, &piece[..packed]);
            position += packed as u64;
        }
        end
    }

    /// Stores the bytes that `fill` writes. `fill` gets a position in the message, and the memory (or a
    /// staging buffer) of the packed bytes from there on.
    ///
    /// # Errors
    /// Returns the first error of `fill`.
    pub fn fill_from<E>(
        &self,
        mut fill: impl FnMut(u64, &mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if !matches!(self.layout, Layout::Typed { .. }) {
            return self.with_memory(0, self.bytes, 1, |memory| match memory {
                [run] => fill(0, run),
                _ => Ok(()),
            });
        }
        let mut piece = vec![0u8; (STAGE as u64).min(self.bytes) as usize];
        let mut position = 0;
        while position < self.bytes {
            let take = (piece.len() as u64).min(self.bytes - position) as usize;
            fill(position, &mut piece[..take])?;
            self.unpack(position, &piece[..take]);
            position += take as u64;
        }
        Ok(())
    }

    /// Passes the message to `drain` in pieces: a position in it, and the packed bytes at that position.
    ///
    /// # Errors
    /// Returns the first error of `drain`.
    pub fn drain_to<E>(
        &self,
        mut drain: impl FnMut(u64, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if let Some(run) = self.run() {
            return drain(0, run);
        }
        let mut piece = vec![0u8; (STAGE as u64).min(self.bytes) as usize];
        let mut position = 0;
        while position < self.bytes {
            let take = self.pack(position, &mut piece);
            drain(position, &piece[..take])?;
            position += take as u64;
        }
        Ok(())
    }

    /// Calls `use_memory` with the memory of the packed bytes `position..position + bytes`, up to `limit`
    /// pieces of it.
    pub fn with_memory<R>(
        &self,
        position: u64,
        bytes: u64,
        limit: usize,
        use_memory: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        let take = self.clip(position, bytes as usize);
        let Layout::Typed { datatype, count, first } = &self.layout else {
            // SAFETY: inside the run, which nobody else touches while the operation runs.
            let memory = unsafe { std::slice::from_raw_parts_mut(self.base.add(position as usize), take) };
            return use_memory(&mut [IoSliceMut::new(memory)]);
        };
        let mut segments: Vec<Segment> = Vec::new();
        let start = first + position;
        datatype.segments(*count, start..start + take as u64, &mut segments, limit);
        let memory = segments.iter().map(|segment| {
            let base = self.base.wrapping_offset(segment.offset as isize);
            // SAFETY: a run of the datatype from base on; runs of a receive buffer do not overlap.
            IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(base, segment.bytes as usize) })
        });
        use_memory(&mut memory.collect::<Vec<_>>())
    }

    /// Combines packed bytes with the packed bytes of the message from `position` on, as an accumulate
    /// does. `reducer` must be bound to the datatype of the buffer. Position and length must be whole basic
    /// items.
    #[inline]
    pub fn combine(&self, reducer: &Reducer, position: u64, input: &[u8]) {
        let input = &input[..self.clip(position, input.len())];
        let (base, count, first) = match &self.layout {
            Layout::Typed { count, first, .. } => (self.base, *count, *first),
            _ => {
                let (offset, item) = reducer.datatype().contiguous(1).unwrap_or((0, 1));
                (self.base.wrapping_offset(-(offset as isize)), self.bytes / item.max(1), 0)
            }
        };
        // SAFETY: the address is that of the items of the buffer. The input is the library's own or, by the
        // standard's rule, another part of the user's memory (MPI-5 section 12.3.4).
        unsafe { reducer.apply_packed(input, first + position, base, count) };
    }

    /// Returns true if its runs of memory are long enough to pass each of them to the kernel.
    pub fn is_coarse(&self) -> bool {
        let Layout::Typed { datatype, count, first } = &self.layout else { return true };
        let sample = self.bytes.min((COARSE_RUNS * COARSE_RUN) as u64);
        let mut runs: Vec<Segment> = Vec::new();
        datatype.segments(*count, *first..*first + sample, &mut runs, COARSE_RUNS) >= sample
    }

    /// Limits a length to the bytes of the message after `position`.
    #[inline]
    fn clip(&self, position: u64, length: usize) -> usize {
        (self.bytes.saturating_sub(position)).min(length as u64) as usize
    }
}

/// Copies a run of memory; source and target may overlap if the user aliased buffers.
///
/// # Safety
/// Both sides must have `bytes` bytes.
#[inline(always)]
unsafe fn move_run(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if bytes <= copy::SMALL {
            copy::copy_small(from, into, bytes);
        } else {
            move_long(from, into, bytes);
        }
    }
}

/// Copies as [`move_run`] does, for any length.
///
/// # Safety
/// Same as for [`move_run`].
#[inline(never)]
unsafe fn move_long(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; ranges at this distance do not overlap.
    unsafe {
        if from.addr().abs_diff(into.addr()) >= bytes {
            copy::copy(from, into, bytes);
        } else {
            std::ptr::copy(from, into, bytes);
        }
    }
}

/// Combines packed items with packed items; `reducer` must be bound to a predefined datatype.
pub fn combine_packed(reducer: &Reducer, input: &[u8], inout: &mut [u8]) {
    let datatype = reducer.datatype();
    let size = (datatype.size() as usize).max(1);
    if datatype.extent() == datatype.size() {
        // SAFETY: without gaps packed items are items; the slices are disjoint and of one length.
        unsafe {
            reducer.apply_packed(&input[..inout.len()], 0, inout.as_mut_ptr(), (inout.len() / size) as u64)
        };
        return;
    }
    for (input, inout) in input.chunks_exact(size).zip(inout.chunks_exact_mut(size)) {
        let mut item = [0u128; PAIR_WORDS];
        let place = item.as_mut_ptr().cast::<u8>();
        assert!(datatype.extent() as usize <= size_of_val(&item), "a predefined pair");
        // SAFETY: there is space for an item, as was just checked.
        unsafe {
            datatype.unpack(place, 1, 0, inout);
            reducer.apply_packed(input, 0, place, 1);
            datatype.pack(place, 1, 0, inout);
        }
    }
}

/// Size of the largest predefined pair, in 16-byte words.
const PAIR_WORDS: usize = 4;

impl Pieces for Buffer {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&[IoSlice<'_>])) {
        let take = self.clip(position, bytes as usize);
        let Layout::Typed { datatype, count, first } = &self.layout else {
            // SAFETY: inside the run, which nobody writes while the operation runs.
            let memory = unsafe { std::slice::from_raw_parts(self.base.add(position as usize), take) };
            return use_memory(&[IoSlice::new(memory)]);
        };
        let mut segments: Vec<Segment> = Vec::new();
        let start = first + position;
        datatype.segments(*count, start..start + take as u64, &mut segments, RUNS);
        let memory = segments.iter().map(|segment| {
            let base = self.base.wrapping_offset(segment.offset as isize);
            // SAFETY: a run of the datatype from base on, which nobody writes while the operation runs.
            IoSlice::new(unsafe { std::slice::from_raw_parts(base, segment.bytes as usize) })
        });
        use_memory(&memory.collect::<Vec<_>>());
    }

    fn write(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&mut [IoSliceMut<'_>])) {
        self.with_memory(position, bytes, RUNS, use_memory);
    }
}

/// Returns the signature of `count` items of `datatype` in messages; 0 if it must not be compared.
pub fn signature(datatype: &Datatype, count: u64) -> Signature {
    match datatype.signature_hash(count) {
        None => 0,
        Some(hash) => ((hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) as u16).max(1),
    }
}
