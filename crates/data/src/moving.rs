//! Moving data of a committed type: pack, unpack, segments for scatter-gather, and typed copies.
//!
//! A position is a byte of the packed stream and may lie anywhere, also inside a basic item. Any call
//! may start anywhere at the cost of finding the place (see [`crate::walk`]).
//!
//! # Safety
//! Callers of the unsafe functions promise that a buffer holds `count` items of the datatype at the
//! address they give, so that every run of memory named by the program is valid.
#![allow(unsafe_code)]

use crate::copies::Copier;
use crate::datatype::Datatype;
use crate::layout::{Contiguity, Segment};
use std::mem::MaybeUninit;
use std::ops::Range;

impl Datatype {
    /// Returns the run of memory of `count` items if it is only one, as its offset from the buffer's address
    /// and its bytes.
    #[inline]
    pub fn contiguous(&self, count: u64) -> Option<(i64, u64)> {
        let layout = self.layout();
        match layout.contiguity {
            Contiguity::Array => Some((layout.shape.offset, layout.shape.size.wrapping_mul(count))),
            Contiguity::Item if count <= 1 => Some((layout.shape.offset, layout.shape.size * count)),
            _ => None,
        }
    }

    /// Returns the packed bytes of `count` items, saturating.
    #[inline]
    pub fn packed_bytes(&self, count: u64) -> u64 {
        (self.size() as u64).saturating_mul(count)
    }

    /// Copies packed bytes from `position` on into `out`, as far as both go; returns how many.
    ///
    /// # Safety
    /// `base` is the address of `count` items of this type, valid to read and disjoint from `out`.
    pub unsafe fn pack(&self, base: *const u8, count: u64, position: u64, out: &mut [u8]) -> usize {
        let take = self.packed_bytes(count).saturating_sub(position).min(out.len() as u64);
        // SAFETY: the caller's promise; `out` holds `take` bytes and the memory is only read.
        unsafe { self.transfer::<true>(base.cast_mut(), count, position, take, out.as_mut_ptr()) };
        take as usize
    }

    /// Copies `input` to where packed bytes from `position` on belong, as far as both go; returns how
    /// many bytes were used.
    ///
    /// # Safety
    /// `base` is the address of `count` items of this type, valid to write and disjoint from `input`.
    pub unsafe fn unpack(&self, base: *mut u8, count: u64, position: u64, input: &[u8]) -> usize {
        let take = self.packed_bytes(count).saturating_sub(position).min(input.len() as u64);
        // SAFETY: the caller's promise; `input` holds `take` bytes and is only read.
        unsafe { self.transfer::<false>(base, count, position, take, input.as_ptr().cast_mut()) };
        take as usize
    }

    /// Moves `take` packed bytes after `position` between `base` and `packed`.
    ///
    /// # Safety
    /// As for [`Datatype::pack`] and [`Datatype::unpack`]; `packed` holds `take` bytes and `count` items
    /// have that many after `position`.
    unsafe fn transfer<const PACK: bool>(
        &self,
        base: *mut u8,
        count: u64,
        position: u64,
        take: u64,
        packed: *mut u8,
    ) {
        if let Some((offset, _)) = self.contiguous(count) {
            let memory = base.wrapping_offset(offset as isize).wrapping_add(position as usize);
            let (source, destination) = if PACK { (memory, packed) } else { (packed, memory) };
            // SAFETY: the items are one run, of which the caller promises the bytes from `position`.
            return unsafe { destination.copy_from_nonoverlapping(source, take as usize) };
        }
        // SAFETY: the caller's promise covers the runs of the walk.
        let mut copier = unsafe { Copier::<PACK>::new(base, packed) };
        self.layout().walk(&mut copier, position, take);
    }

    /// Appends the runs of memory of the packed bytes in `packed` to `out`, at most `limit` of them;
    /// neighbouring runs are merged. Returns how many packed bytes the appended runs cover.
    pub fn segments(&self, count: u64, packed: Range<u64>, out: &mut Vec<Segment>, limit: usize) -> u64 {
        let end = packed.end.min(self.packed_bytes(count));
        let take = end.saturating_sub(packed.start);
        if take == 0 || limit == 0 {
            return 0;
        }
        if let Some((offset, _)) = self.contiguous(count) {
            out.push(Segment { offset: offset + packed.start as i64, bytes: take });
            return take;
        }
        self.layout().collect(packed.start..packed.start + take, out, limit)
    }
}

/// A place in the packed stream of a buffer, for sending it in fragments.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    datatype: &'a Datatype,
    count: u64,
    position: u64,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of `count` items.
    pub fn new(datatype: &'a Datatype, count: u64) -> Cursor<'a> {
        Cursor { datatype, count, position: 0 }
    }

    /// Moves to a packed byte.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Returns the position of the next packed byte.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of packed bytes not yet passed.
    pub fn remaining(&self) -> u64 {
        self.datatype.packed_bytes(self.count).saturating_sub(self.position)
    }

    /// Packs the next bytes into `out`; returns how many.
    ///
    /// # Safety
    /// As for [`Datatype::pack`].
    pub unsafe fn pack(&mut self, base: *const u8, out: &mut [u8]) -> usize {
        // SAFETY: passed on.
        let bytes = unsafe { self.datatype.pack(base, self.count, self.position, out) };
        self.position += bytes as u64;
        bytes
    }

    /// Unpacks the next bytes from `input`; returns how many it used.
    ///
    /// # Safety
    /// As for [`Datatype::unpack`].
    pub unsafe fn unpack(&mut self, base: *mut u8, input: &[u8]) -> usize {
        // SAFETY: passed on.
        let bytes = unsafe { self.datatype.unpack(base, self.count, self.position, input) };
        self.position += bytes as u64;
        bytes
    }

    /// Appends the runs of the next packed bytes: at most `bytes` of them in at most `limit` runs.
    /// Returns how many packed bytes they cover.
    pub fn segments(&mut self, bytes: u64, out: &mut Vec<Segment>, limit: usize) -> u64 {
        let range = self.position..self.position.saturating_add(bytes);
        let covered = self.datatype.segments(self.count, range, out, limit);
        self.position += covered;
        covered
    }
}

/// The buffer through which [`copy`] moves data that are scattered on both sides.
const COPY_BUFFER: usize = 8192;

/// Copies `source_count` items to `destination_count` items of another type with the same signature, as
/// far as both go; returns the packed bytes copied.
///
/// # Safety
/// Both buffers hold their items, the source to read and the destination to write, and are disjoint or,
/// if both are contiguous, overlap as `memmove` allows.
pub unsafe fn copy(
    source_type: &Datatype,
    source: *const u8,
    source_count: u64,
    destination_type: &Datatype,
    destination: *mut u8,
    destination_count: u64,
) -> u64 {
    let (from, to) =
        (source_type.packed_bytes(source_count), destination_type.packed_bytes(destination_count));
    let take = from.min(to);
    let (source_run, destination_run) =
        (source_type.contiguous(source_count), destination_type.contiguous(destination_count));
    // SAFETY: the caller's promise for both buffers; a contiguous side is one run of at least `take`
    // bytes at its offset, and the buffer on the stack is only read where it was just written.
    unsafe {
        match (source_run, destination_run) {
            _ if take == 0 => {}
            (Some((read, _)), Some((write, _))) => {
                destination.offset(write as isize).copy_from(source.offset(read as isize), take as usize);
            }
            (Some((read, _)), None) => {
                let packed = source.offset(read as isize).cast_mut();
                destination_type.transfer::<false>(destination, destination_count, 0, take, packed);
            }
            (None, Some((write, _))) => {
                let packed = destination.offset(write as isize);
                source_type.transfer::<true>(source.cast_mut(), source_count, 0, take, packed);
            }
            (None, None) => {
                let mut buffer = [MaybeUninit::<u8>::uninit(); COPY_BUFFER];
                let packed = buffer.as_mut_ptr().cast::<u8>();
                for position in (0..take).step_by(COPY_BUFFER) {
                    let bytes = (take - position).min(COPY_BUFFER as u64);
                    source_type.transfer::<true>(source.cast_mut(), source_count, position, bytes, packed);
                    destination_type.transfer::<false>(
                        destination,
                        destination_count,
                        position,
                        bytes,
                        packed,
                    );
                }
            }
        }
    }
    take
}
