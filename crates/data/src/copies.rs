//! Moves runs between a user's buffer and packed bytes, in either direction.
//!
//! Small runs are the hard case: a call of memcpy costs more than 8 bytes are worth. Loops over equal
//! runs use copies of constant size; loops over a body of several small runs are turned inside out, so
//! that each run of the body becomes one strided loop over a block of repetitions.
//!
//! # Safety
//! A [`Copier`] is made by an unsafe function whose caller promises that the memory a walk names and the
//! packed bytes it covers are valid. The walk names each packed byte once, in order.
#![allow(unsafe_code)]

use crate::shape::{Shape, Unit};
use crate::walk::{self, Visitor};

/// Copies between memory and packed bytes: out of memory if `PACK`, else into it.
pub(crate) struct Copier<const PACK: bool> {
    memory: *mut u8,
    packed: *mut u8,
}

/// Bodies with up to this many runs are turned inside out,
const INSIDE_OUT_RUNS: u64 = 32;
/// if the runs have at most this many bytes on average,
const INSIDE_OUT_BYTES: u64 = 64;
/// this many packed bytes at a time, so that they stay in the first-level cache.
const INSIDE_OUT_BLOCK: u64 = 8192;

impl<const PACK: bool> Copier<PACK> {
    /// # Safety
    /// Every run that the walk names, relative to `memory`, is valid (to read if `PACK`, else to write),
    /// and so are the packed bytes it covers from `packed` on, the other way round.
    pub unsafe fn new(memory: *mut u8, packed: *mut u8) -> Self {
        Copier { memory, packed }
    }

    /// Returns source and destination for the next packed bytes.
    fn sides(&self, offset: i64) -> (*const u8, *mut u8) {
        let memory = self.memory.wrapping_offset(offset as isize);
        if PACK { (memory, self.packed) } else { (self.packed, memory) }
    }

    fn advance(&mut self, bytes: u64) {
        self.packed = self.packed.wrapping_add(bytes as usize);
    }

    /// Runs `stride` apart in memory and `step` apart among the packed bytes.
    fn loop_of_runs(&mut self, offset: i64, stride: i64, step: i64, count: u64, bytes: u64) {
        let (source, destination) = self.sides(offset);
        let (from, to) = if PACK { (stride, step) } else { (step, stride) };
        // SAFETY: the constructor's promise covers every run that the walk names.
        unsafe { strided(source, from as isize, destination, to as isize, count as usize, bytes as usize) }
    }
}

impl<const PACK: bool> Visitor for Copier<PACK> {
    #[inline]
    fn run(&mut self, offset: i64, bytes: u64, _unit: Unit) -> bool {
        let (source, destination) = self.sides(offset);
        // SAFETY: the constructor's promise covers every run that the walk names.
        unsafe { copy_run(source, destination, bytes as usize) };
        self.advance(bytes);
        true
    }

    fn strided(&mut self, offset: i64, stride: i64, count: u64, bytes: u64, _unit: Unit) -> bool {
        self.loop_of_runs(offset, stride, bytes as i64, count, bytes);
        self.advance(count * bytes);
        true
    }

    fn listed(&mut self, base: i64, offsets: &[i64], bytes: u64, _unit: Unit) -> bool {
        let memory = self.memory.wrapping_offset(base as isize);
        // SAFETY: the constructor's promise covers every run that the walk names.
        unsafe { scattered::<PACK>(memory, offsets, self.packed, bytes as usize) };
        self.advance(offsets.len() as u64 * bytes);
        true
    }

    fn repeated(&mut self, body: &Shape, offset: i64, stride: i64, count: u64) -> bool {
        let worthwhile = body.runs <= INSIDE_OUT_RUNS.min(count) && body.size <= INSIDE_OUT_BYTES * body.runs;
        if !worthwhile {
            return (0..count).all(|i| walk::whole(self, body, offset + i as i64 * stride));
        }
        let block = (INSIDE_OUT_BLOCK / body.size).max(body.runs);
        let mut done = 0;
        while done < count {
            let repetitions = block.min(count - done);
            let mut inside_out = InsideOut { copier: self, stride, size: body.size, repetitions };
            walk::whole(&mut inside_out, body, offset + done as i64 * stride);
            // The walk advanced by one body; the block covers `repetitions` of them.
            self.advance((repetitions - 1) * body.size);
            done += repetitions;
        }
        true
    }
}

/// Walks a body once and moves each of its runs for all repetitions of a block.
struct InsideOut<'a, const PACK: bool> {
    copier: &'a mut Copier<PACK>,
    stride: i64,
    size: u64,
    repetitions: u64,
}

impl<const PACK: bool> Visitor for InsideOut<'_, PACK> {
    fn run(&mut self, offset: i64, bytes: u64, _unit: Unit) -> bool {
        self.copier.loop_of_runs(offset, self.stride, self.size as i64, self.repetitions, bytes);
        self.copier.advance(bytes);
        true
    }
}

/// Copies one run of any length.
///
/// # Safety
/// `bytes` are valid at both ends, which do not overlap.
#[inline(always)]
unsafe fn copy_run(source: *const u8, destination: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; within a branch both copies of N bytes lie inside `bytes`, and
    // together they cover it.
    unsafe {
        match bytes {
            4..8 => overlapped::<4>(source, destination, bytes),
            8..16 => overlapped::<8>(source, destination, bytes),
            16..=32 => overlapped::<16>(source, destination, bytes),
            _ => destination.copy_from_nonoverlapping(source, bytes),
        }
    }
}

/// Copies `bytes` bytes, N to 2N, as two copies of N that may overlap.
///
/// # Safety
/// As for [`copy_run`].
#[inline(always)]
unsafe fn overlapped<const N: usize>(source: *const u8, destination: *mut u8, bytes: usize) {
    // SAFETY: bytes >= N, so both copies lie inside; reads come first, so the second may overlap the first.
    unsafe {
        let head = source.cast::<[u8; N]>().read_unaligned();
        let tail = source.add(bytes - N).cast::<[u8; N]>().read_unaligned();
        destination.cast::<[u8; N]>().write_unaligned(head);
        destination.add(bytes - N).cast::<[u8; N]>().write_unaligned(tail);
    }
}

/// Copies `count` runs at constant distances on both sides.
///
/// # Safety
/// All runs are valid on both sides and do not overlap.
unsafe fn strided(
    source: *const u8,
    from: isize,
    destination: *mut u8,
    to: isize,
    count: usize,
    bytes: usize,
) {
    // SAFETY: passed on.
    unsafe {
        match bytes {
            1 => fixed::<1>(source, from, destination, to, count),
            2 => fixed::<2>(source, from, destination, to, count),
            4 => fixed::<4>(source, from, destination, to, count),
            8 => fixed::<8>(source, from, destination, to, count),
            12 => fixed::<12>(source, from, destination, to, count),
            16 => fixed::<16>(source, from, destination, to, count),
            24 => fixed::<24>(source, from, destination, to, count),
            32 => fixed::<32>(source, from, destination, to, count),
            64 => fixed::<64>(source, from, destination, to, count),
            _ => {
                for i in 0..count as isize {
                    copy_run(source.wrapping_offset(i * from), destination.wrapping_offset(i * to), bytes);
                }
            }
        }
    }
}

/// Copies runs of N bytes like [`strided`].
///
/// # Safety
/// As for [`strided`].
#[inline]
unsafe fn fixed<const N: usize>(
    source: *const u8,
    from: isize,
    destination: *mut u8,
    to: isize,
    count: usize,
) {
    let (mut source, mut destination) = (source, destination);
    for _ in 0..count {
        // SAFETY: the caller's promise.
        unsafe { destination.copy_from_nonoverlapping(source, N) };
        source = source.wrapping_offset(from);
        destination = destination.wrapping_offset(to);
    }
}

/// Copies equal runs at listed offsets.
///
/// # Safety
/// All runs are valid on both sides and do not overlap.
unsafe fn scattered<const PACK: bool>(memory: *mut u8, offsets: &[i64], packed: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe {
        match bytes {
            1 => scattered_fixed::<PACK, 1>(memory, offsets, packed),
            2 => scattered_fixed::<PACK, 2>(memory, offsets, packed),
            4 => scattered_fixed::<PACK, 4>(memory, offsets, packed),
            8 => scattered_fixed::<PACK, 8>(memory, offsets, packed),
            12 => scattered_fixed::<PACK, 12>(memory, offsets, packed),
            16 => scattered_fixed::<PACK, 16>(memory, offsets, packed),
            24 => scattered_fixed::<PACK, 24>(memory, offsets, packed),
            32 => scattered_fixed::<PACK, 32>(memory, offsets, packed),
            _ => {
                for (i, offset) in offsets.iter().enumerate() {
                    let memory = memory.wrapping_offset(*offset as isize);
                    let packed = packed.wrapping_add(i * bytes);
                    match PACK {
                        true => copy_run(memory, packed, bytes),
                        false => copy_run(packed, memory, bytes),
                    }
                }
            }
        }
    }
}

/// Copies runs of N bytes like [`scattered`].
///
/// # Safety
/// As for [`scattered`].
unsafe fn scattered_fixed<const PACK: bool, const N: usize>(
    memory: *mut u8,
    offsets: &[i64],
    packed: *mut u8,
) {
    for (i, offset) in offsets.iter().enumerate() {
        let memory = memory.wrapping_offset(*offset as isize);
        let packed = packed.wrapping_add(i * N);
        // SAFETY: the caller's promise.
        unsafe {
            match PACK {
                true => packed.copy_from_nonoverlapping(memory, N),
                false => memory.copy_from_nonoverlapping(packed, N),
            }
        }
    }
}
