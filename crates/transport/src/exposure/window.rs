//! Window of a peer on exposed memory.
//!
//! # Safety
//! A window holds addresses of this process only where the owner's pages are mapped, and of shared memory of
//! the operation (edge room, table), both of which outlive the operation. Everything else goes through a back
//! end, which checks the peer's addresses.

use std::io::{IoSlice, IoSliceMut};
use std::ptr;

use tutti_base::traffic::TRAFFIC;

use super::back_ends::BackEnd;
use super::record::{EdgeRoom, Entry, RecordLayout};
use crate::single_copy::{CopyError, Lent, Pid, RemoteSegment, SingleCopy};

/// Entries of a table that are handed to a back end in one call.
const PIECES: usize = 64;
/// Runs of memory as a whole of which [`Window::replace`] writes all or nothing: each may be mapped but for
/// its ends.
pub const REPLACED_RUNS: usize = PIECES / 2;

/// Exposed memory of a peer. Plain data: copying one costs nothing; valid until the operation ends.
#[derive(Clone, Copy)]
pub struct Window {
    pub(super) copier: &'static dyn SingleCopy,
    /// All of the exposed memory.
    pub(super) lent: Lent,
    /// Range of the bytes that are mapped here: `near_start..near_end`.
    pub(super) near_start: u64,
    pub(super) near_end: u64,
    /// Address that byte 0 of the memory would have here if it were mapped.
    pub(super) near: *mut u8,
    /// Address of the copies of the ends, or null.
    pub(super) edges: *const EdgeRoom,
    pub(super) layout: RecordLayout,
    pub(super) table: *const Entry,
    pub(super) entries: u32,
    /// Part of the memory that this window shows.
    pub(super) first: u64,
    pub(super) bytes: u64,
}

// SAFETY: a window is addresses and numbers; whoever reads and writes through it is bound by the operation,
// not by a thread.
unsafe impl Send for Window {}

impl Window {
    /// Creates a window on memory of this process, or mapped in it.
    ///
    /// # Safety
    /// The memory stays as long as the window is used.
    pub unsafe fn here(base: *mut u8, bytes: u64) -> Window {
        let whole = Window::of_process(Pid(0));
        Window { near: base, near_end: bytes, bytes, lent: Lent { bytes, ..whole.lent }, ..whole }
    }

    /// Creates a window on all memory of a process, through system calls. Offsets are addresses in that
    /// process.
    pub fn of_process(pid: Pid) -> Window {
        Window {
            copier: BackEnd::Attach.copier(),
            lent: Lent::from(pid),
            near_start: 0,
            near_end: 0,
            near: ptr::null_mut(),
            edges: ptr::null(),
            layout: RecordLayout::Whole,
            table: ptr::null(),
            entries: 0,
            first: 0,
            bytes: u64::MAX,
        }
    }

    /// Bytes that it shows.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the part of the window that begins at byte `offset`.
    ///
    /// # Panics
    /// If it is outside: a bug of the caller.
    pub fn part(&self, offset: u64, bytes: u64) -> Window {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "a part of exposed memory");
        Window { first: self.first + offset, bytes, ..*self }
    }

    /// Returns true if it was given with a table of entries.
    pub fn has_entries(&self) -> bool {
        self.layout == RecordLayout::Entries
    }

    /// Returns the window on entry `index` of memory that was exposed with a table.
    ///
    /// # Panics
    /// If there is no such entry: a bug of the caller.
    pub fn entry(&self, index: u32) -> Window {
        assert!(self.layout == RecordLayout::Entries, "exposed memory with entries");
        let Entry { offset, bytes } = self.row(index);
        Window { layout: RecordLayout::Whole, ..*self }.part(offset, bytes)
    }

    /// Returns the address of the bytes in this process, to be read and written in place. `None` if they are
    /// not mapped here: the ends of a buffer that does not begin and end at a page, or all of it without a
    /// mapping.
    #[inline]
    pub fn direct(&self, offset: u64, bytes: u64) -> Option<*mut u8> {
        let start = self.first + offset;
        let inside =
            self.layout == RecordLayout::Whole && start >= self.near_start && start + bytes <= self.near_end;
        inside.then(|| self.near.wrapping_add(start as usize))
    }

    /// Calls `each(address, bytes before, bytes)` for each contiguous piece of a part as its owner sees it,
    /// mapped here or not.
    ///
    /// # Errors
    /// The first of `each`.
    pub fn pieces_at_owner<E>(
        &self,
        offset: u64,
        bytes: u64,
        mut each: impl FnMut(u64, u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut done = 0;
        self.runs(self.first + offset, bytes, |start, length| {
            each(self.lent.address + start, done, length)?;
            done += length;
            Ok(())
        })
    }

    /// Copies the bytes that begin at `offset` to `into`.
    ///
    /// # Errors
    /// The error of the back end. Part of the data may have been copied.
    ///
    /// # Safety
    /// `into` is valid for writes of `bytes`, and nobody else uses that memory meanwhile.
    pub unsafe fn read(&self, offset: u64, into: *mut u8, bytes: u64) -> Result<(), CopyError> {
        // SAFETY: passed on.
        unsafe { self.gather(&[Entry { offset, bytes }], into) }
    }

    /// Copies runs of the memory to `into`, one after the other.
    ///
    /// # Errors
    /// As [`Window::read`].
    ///
    /// # Safety
    /// `into` is valid for writes of all runs, and nobody else uses that memory meanwhile.
    pub unsafe fn gather(&self, runs: &[Entry], into: *mut u8) -> Result<(), CopyError> {
        self.each(runs, |place, done, length| {
            // SAFETY: the pieces of a transfer lie one after the other in the caller's memory.
            let into = unsafe { into.add(done) };
            match place {
                // SAFETY: mapped memory of the peer, which does not write it meanwhile (its promise when it
                // exposed it); no overlap, for the caller's memory is used by nobody else.
                Place::Near(from) => unsafe {
                    ptr::copy_nonoverlapping(from, into, length);
                    TRAFFIC.mapped.add(length as u64);
                },
                Place::Far(remote) => {
                    // SAFETY: the caller's promise.
                    let local = unsafe { std::slice::from_raw_parts_mut(into, length) };
                    let copied = self.copier.read(self.lent, remote, &mut [IoSliceMut::new(local)])?;
                    TRAFFIC.single_copy.add(copied as u64);
                    return if copied == length { Ok(()) } else { Err(CopyError::Fault) };
                }
            }
            Ok(())
        })
    }

    /// Copies `bytes` from `from` to the bytes that begin at `offset`.
    ///
    /// # Errors
    /// The error of the back end. Part of the data may have been copied.
    ///
    /// # Safety
    /// `from` is valid for reads of `bytes`; the owner exposed the memory for writing and no other peer uses
    /// that part.
    pub unsafe fn write(&self, offset: u64, from: *const u8, bytes: u64) -> Result<(), CopyError> {
        // SAFETY: passed on.
        unsafe { self.scatter(&[Entry { offset, bytes }], from) }
    }

    /// Copies to runs of the memory what lies from `from` on, one after the other.
    ///
    /// # Errors
    /// As [`Window::write`].
    ///
    /// # Safety
    /// `from` is valid for reads of all runs; the owner exposed the memory for writing and no other peer uses
    /// those runs.
    pub unsafe fn scatter(&self, runs: &[Entry], from: *const u8) -> Result<(), CopyError> {
        let writing = Window { edges: ptr::null(), ..*self };
        writing.each(runs, |place, done, length| {
            // SAFETY: the pieces of a transfer lie one after the other in the caller's memory.
            let from = unsafe { from.add(done) };
            match place {
                // SAFETY: mapped memory of the peer, which gave it for writing; no overlap with memory of
                // this process.
                Place::Near(into) => unsafe {
                    ptr::copy_nonoverlapping(from, into, length);
                    TRAFFIC.mapped.add(length as u64);
                },
                Place::Far(remote) => {
                    // SAFETY: the caller's promise.
                    let local = unsafe { std::slice::from_raw_parts(from, length) };
                    let copied = self.copier.write(self.lent, remote, &[IoSlice::new(local)])?;
                    TRAFFIC.single_copy.add(copied as u64);
                    return if copied == length { Ok(()) } else { Err(CopyError::Fault) };
                }
            }
            Ok(())
        })
    }

    /// Writes like [`Window::scatter`], for at most [`REPLACED_RUNS`] runs of contiguous memory. If the back
    /// end refuses, nothing was written.
    ///
    /// # Errors
    /// As [`Window::scatter`]; with [`CopyError::Fault`] part may be written.
    ///
    /// # Safety
    /// As [`Window::scatter`].
    pub unsafe fn replace(&self, runs: &[Entry], from: *const u8) -> Result<(), CopyError> {
        assert!(runs.len() <= REPLACED_RUNS && self.layout == RecordLayout::Whole, "few runs of a whole");
        let writing = Window { edges: ptr::null(), ..*self };
        let mut remote = Vec::with_capacity(PIECES);
        let mut local = Vec::with_capacity(PIECES);
        writing.each(runs, |place, done, length| {
            if let Place::Far(segments) = place {
                remote.extend_from_slice(segments);
                // SAFETY: the pieces of a transfer lie one after the other in the caller's memory.
                local.push(IoSlice::new(unsafe { std::slice::from_raw_parts(from.add(done), length) }));
            }
            Ok(())
        })?;
        let bytes = local.iter().map(|slice| slice.len()).sum();
        if bytes > 0 {
            // One call of the system, which looks at the rights before it writes.
            let copied = self.copier.write(self.lent, &remote, &local)?;
            TRAFFIC.single_copy.add(copied as u64);
            if copied < bytes {
                return Err(CopyError::Fault);
            }
        }
        writing.each(runs, |place, done, length| {
            if let Place::Near(into) = place {
                // SAFETY: as in `scatter`.
                unsafe { ptr::copy_nonoverlapping(from.add(done), into, length) };
                TRAFFIC.mapped.add(length as u64);
            }
            Ok(())
        })
    }

    fn row(&self, index: u32) -> Entry {
        assert!(index < self.entries, "entry {index} of {}", self.entries);
        // SAFETY: the table has that many rows, written before the flag was posted that the peer awaited.
        unsafe { self.table.add(index as usize).read() }
    }

    /// Calls `copy(place, bytes before, bytes)` for each piece of the parts that is contiguous at both sides;
    /// far pieces of several runs come together.
    fn each(
        &self,
        parts: &[Entry],
        mut copy: impl FnMut(Place<'_>, usize, usize) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let mut far = Far { segments: [RemoteSegment { address: 0, bytes: 0 }; PIECES], count: 0, bytes: 0 };
        let mut done = 0;
        for &Entry { offset, bytes } in parts {
            assert!(offset <= self.bytes && bytes <= self.bytes - offset, "a part of exposed memory");
            self.runs(self.first + offset, bytes, |start, length| {
                let mut at = start;
                while at < start + length {
                    let (place, piece) = self.place(at, start + length - at);
                    match place {
                        Some(near) => {
                            far.flush(done, &mut copy)?;
                            copy(Place::Near(near), done as usize, piece as usize)?;
                        }
                        None => {
                            if far.count == PIECES {
                                far.flush(done, &mut copy)?;
                            }
                            let address = self.lent.address + at;
                            far.push(RemoteSegment { address, bytes: piece as usize });
                        }
                    }
                    at += piece;
                    done += piece;
                }
                Ok::<(), CopyError>(())
            })?;
        }
        far.flush(done, &mut copy)
    }

    /// Calls `run(offset in the exposed memory, bytes)` for each contiguous piece of `bytes` that begin at
    /// `start`.
    fn runs<E>(
        &self,
        start: u64,
        bytes: u64,
        mut run: impl FnMut(u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.layout != RecordLayout::Runs {
            return run(start, bytes);
        }
        let (mut skip, mut left, mut index) = (start, bytes, 0);
        while left > 0 {
            let entry = self.row(index);
            if skip < entry.bytes {
                let piece = left.min(entry.bytes - skip);
                run(entry.offset + skip, piece)?;
                left -= piece;
            }
            skip = skip.saturating_sub(entry.bytes);
            index += 1;
        }
        Ok(())
    }

    /// Returns the address in this process of the bytes from `at` on, if they are mapped or copied here. The
    /// number is how many of `limit` bytes are in one place.
    fn place(&self, at: u64, limit: u64) -> (Option<*mut u8>, u64) {
        let near = self.near_start < self.near_end;
        if near && at >= self.near_start && at < self.near_end {
            return (Some(self.near.wrapping_add(at as usize)), limit.min(self.near_end - at));
        }
        if !near || self.edges.is_null() {
            let end = if near && at < self.near_start { self.near_start } else { u64::MAX };
            return (None, limit.min(end - at));
        }
        // SAFETY: the edge room outlives the operation; only addresses are taken, not references.
        let (head, tail) = unsafe { (&raw const (*self.edges).head, &raw const (*self.edges).tail) };
        if at < self.near_start {
            return (
                Some(head.cast::<u8>().wrapping_add(at as usize).cast_mut()),
                limit.min(self.near_start - at),
            );
        }
        let place = tail.cast::<u8>().wrapping_add((at - self.near_end) as usize);
        (Some(place.cast_mut()), limit.min(self.lent.bytes - at))
    }
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let near = self.near_end - self.near_start;
        write!(f, "{} bytes of process {}, {near} of them mapped", self.bytes, self.lent.pid.0)
    }
}

enum Place<'a> {
    Near(*mut u8),
    Far(&'a [RemoteSegment]),
}

/// Pieces that wait to be handed to the back end together: consecutive in the caller's memory.
struct Far {
    segments: [RemoteSegment; PIECES],
    count: usize,
    bytes: u64,
}

impl Far {
    fn push(&mut self, segment: RemoteSegment) {
        self.segments[self.count] = segment;
        self.count += 1;
        self.bytes += segment.bytes as u64;
    }

    /// Hands on what waits; `done` bytes of the transfer are accounted for, these included.
    fn flush(
        &mut self,
        done: u64,
        copy: &mut impl FnMut(Place<'_>, usize, usize) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        if self.count == 0 {
            return Ok(());
        }
        let (count, bytes) = (self.count, self.bytes);
        (self.count, self.bytes) = (0, 0);
        copy(Place::Far(&self.segments[..count]), (done - bytes) as usize, bytes as usize)
    }
}
