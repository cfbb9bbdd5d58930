//! Windows of one two-phase access at an aggregator: arranges the bytes of all members in the order of the
//! file, and reads or writes them. Bytes that no member supplied are never written.

use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, PoisonError};

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::buffer::Buffer;
use tutti_core::collective::files::Windows;
use tutti_core::lanes::LaneGuard;
use tutti_core::messenger::Messenger;
use tutti_core::process;
use tutti_core::request::RequestId;
use tutti_data::Segment;

use crate::background;
use crate::file::File;
use crate::observed;
use crate::transfer;
use crate::two_phase::Division;
use crate::worker;
use tutti_storage::{Driver, Moved};

/// Runs that are made at a time.
const RUNS: usize = 4096;
/// Shorter pieces are put in order first, by a copy that costs less than to name each.
const LONG_PIECE_BYTES: u64 = 512;
/// Smallest part of a window that is worth a system call of its own, if the window is not written as a whole.
const LONG_EXTENT_BYTES: u64 = 16 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct FileWindows {
    file: Arc<File>,
    division: Arc<Division>,
    /// The first that went wrong; the schedule goes on, as others wait for its messages.
    fault: Arc<Mutex<Option<Error>>>,
}

/// A run of the file, and where it is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    offset: u64,
    bytes: u64,
    position: u64,
}

impl FileWindows {
    pub fn new(file: Arc<File>, division: Arc<Division>) -> FileWindows {
        FileWindows { file, division, fault: Arc::default() }
    }

    /// Returns the first error of this member.
    pub fn fault(&self) -> Option<Error> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Windows for FileWindows {
    fn start(
        &self,
        held: &LaneGuard,
        _: &Messenger,
        window: u32,
        write: bool,
        memory: Buffer,
    ) -> Result<RequestId> {
        let gone = || Error::new(ErrorClass::Other, "MPI is not initialised");
        let process = process::process().ok_or_else(gone)?;
        let (driver, division) = (Arc::clone(&self.file.driver), Arc::clone(&self.division));
        let fault = Arc::clone(&self.fault);
        let work = move || {
            let pieces = pieces(&division, window.into());
            let moved = observed::counted(|| match write {
                true => write_window(&*driver, &pieces, &memory),
                false => read_window(&*driver, &pieces, &memory),
            });
            let mut first = fault.lock().unwrap_or_else(PoisonError::into_inner);
            *first = first.take().or(moved.fault);
            Moved::all(moved.bytes)
        };
        let job = worker::start(process, Box::new(work))?;
        Ok(background::watch(held, process, &self.file, job))
    }
}

/// Returns the pieces of all members in a window, in the order of the file.
fn pieces(division: &Division, window: u64) -> Vec<Piece> {
    let (mut pieces, mut runs, mut position) = (Vec::new(), Vec::new(), 0);
    for rank in 0..division.streams.len() as u32 {
        let mut stream = division.within(rank, window);
        while !stream.is_empty() {
            runs.clear();
            stream.start += division.views[rank as usize].runs(stream.clone(), &mut runs, RUNS);
            for Segment { offset, bytes } in runs.iter().copied() {
                pieces.push(Piece { offset: offset as u64, bytes, position });
                position += bytes;
            }
        }
    }
    pieces.sort_unstable();
    pieces
}

/// Returns the ranges that pieces cover together.
fn extents(pieces: &[Piece]) -> Vec<Segment> {
    let mut extents: Vec<Segment> = Vec::new();
    for piece in pieces {
        let end = piece.offset + piece.bytes;
        match extents.last_mut() {
            Some(last) if piece.offset <= last.offset as u64 + last.bytes => {
                last.bytes = last.bytes.max(end - last.offset as u64);
            }
            _ => extents.push(Segment { offset: piece.offset as i64, bytes: piece.bytes }),
        }
    }
    extents
}

/// Calls `each` with the place of every piece in the extents, one after the other, and in memory.
fn placed(pieces: &[Piece], extents: &[Segment], mut each: impl FnMut(usize, Piece)) {
    let (mut next, mut before) = (0, 0);
    for piece in pieces {
        while piece.offset >= extents[next].offset as u64 + extents[next].bytes {
            before += extents[next].bytes;
            next += 1;
        }
        each((before + piece.offset - extents[next].offset as u64) as usize, *piece);
    }
}

/// Returns true if pieces are transferred directly from and to memory. Short pieces, and those that overlap,
/// are copied into order first.
fn are_direct(pieces: &[Piece], extents: &[Segment]) -> bool {
    let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    let is_disjoint = |pair: &[Piece]| pair[0].offset + pair[0].bytes <= pair[1].offset;
    bytes >= LONG_PIECE_BYTES * pieces.len() as u64
        && bytes >= LONG_EXTENT_BYTES * extents.len() as u64
        && pieces.windows(2).all(is_disjoint)
}

/// Returns the pieces of each extent.
fn by_extent<'a>(pieces: &'a [Piece], extents: &'a [Segment]) -> impl Iterator<Item = (u64, &'a [Piece])> {
    let mut rest = pieces;
    extents.iter().map(move |extent| {
        let end = extent.offset as u64 + extent.bytes;
        let (its, others) = rest.split_at(rest.partition_point(|piece| piece.offset < end));
        rest = others;
        (extent.offset as u64, its)
    })
}

fn write_window(driver: &dyn Driver, pieces: &[Piece], memory: &Buffer) -> Moved {
    let extents = extents(pieces);
    let bytes: u64 = extents.iter().map(|extent| extent.bytes).sum();
    if let Some(memory) = memory.run()
        && are_direct(pieces, &extents)
    {
        return write_pieces(driver, pieces, &extents, memory);
    }
    transfer::staged(bytes as usize, |packed| {
        // Where members write the same place, which MPI leaves open, the last one has it.
        placed(pieces, &extents, |at, piece| {
            memory.pack(piece.position, &mut packed[at..at + piece.bytes as usize]);
        });
        driver.scatter(&extents, packed)
    })
}

fn write_pieces(driver: &dyn Driver, pieces: &[Piece], extents: &[Segment], memory: &[u8]) -> Moved {
    let mut done = 0;
    for (offset, its) in by_extent(pieces, extents) {
        let slice = |piece: &Piece| IoSlice::new(&memory[piece.position as usize..][..piece.bytes as usize]);
        let moved = driver.write(offset, &its.iter().map(slice).collect::<Vec<_>>());
        done += moved.bytes;
        if moved.fault.is_some() {
            return Moved { bytes: done, ..moved };
        }
    }
    Moved::all(done)
}

fn read_window(driver: &dyn Driver, pieces: &[Piece], memory: &Buffer) -> Moved {
    let extents = extents(pieces);
    let bytes: u64 = extents.iter().map(|extent| extent.bytes).sum();
    if memory.run().is_some() && are_direct(pieces, &extents) {
        return memory.with_memory(0, memory.bytes(), 1, |memory| match memory {
            [run] => read_pieces(driver, pieces, &extents, run),
            _ => Moved::default(),
        });
    }
    transfer::staged(bytes as usize, |packed| {
        let moved = driver.gather(&extents, packed);
        // The requester does not count bytes beyond the end of the file.
        packed[moved.bytes as usize..].fill(0);
        placed(pieces, &extents, |at, piece| {
            memory.unpack(piece.position, &packed[at..at + piece.bytes as usize]);
        });
        moved
    })
}

fn read_pieces(driver: &dyn Driver, pieces: &[Piece], extents: &[Segment], memory: &mut [u8]) -> Moved {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_unstable_by_key(|number| pieces[*number].position);
    let (mut rest, mut runs) = (memory, Vec::new());
    runs.resize_with(pieces.len(), || IoSliceMut::new(&mut []));
    for number in order {
        // The data of members in a window are contiguous in memory.
        let (run, others) = rest.split_at_mut(pieces[number].bytes as usize);
        (runs[number], rest) = (IoSliceMut::new(run), others);
    }
    let (mut result, mut runs) = (Moved::default(), &mut runs[..]);
    for (offset, its) in by_extent(pieces, extents) {
        let (now, later) = runs.split_at_mut(its.len());
        runs = later;
        let moved = match result.fault {
            None => driver.read(offset, now),
            Some(_) => Moved::default(),
        };
        zero_behind(its, now, moved.bytes);
        result.bytes += moved.bytes;
        result.fault = result.fault.or(moved.fault);
    }
    result
}

/// Fills with zeros the bytes of `runs` beyond the end of the file. Members do not count these bytes. A
/// driver may have removed the bytes that it read from the runs.
fn zero_behind(pieces: &[Piece], runs: &mut [IoSliceMut<'_>], bytes: u64) {
    let mut there = bytes;
    for (piece, run) in pieces.iter().zip(runs) {
        let read = there.min(piece.bytes);
        let behind = run.len() - (piece.bytes - read) as usize;
        run[behind..].fill(0);
        there -= read;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_storage::{Amode, Posix, Simulated};

    fn check(pieces: &[(u64, u64)], expected: &[(i64, u64)]) {
        let pieces: Vec<Piece> =
            pieces.iter().map(|&(offset, bytes)| Piece { offset, bytes, position: 0 }).collect();
        let extents: Vec<(i64, u64)> = extents(&pieces).iter().map(|one| (one.offset, one.bytes)).collect();
        assert_eq!(extents, expected);
    }

    #[test]
    fn pieces_that_touch_are_one_extent() {
        check(&[(0, 4), (4, 4), (10, 1)], &[(0, 8), (10, 1)]);
        check(&[(0, 10), (2, 3), (8, 4)], &[(0, 12)]);
        check(&[], &[]);
    }

    /// Members have alternating pieces on both sides of a hole; they are written and read in both ways. Bytes
    /// behind the end of the file are zero.
    #[test]
    fn pieces_go_as_they_are_or_in_order() {
        let check = |file: &dyn Driver, bytes: u64, direct: bool| {
            let place = |number: u64| number * bytes + if number < 20 { 0 } else { 7 };
            let position = |number: u64| (number % 2 * 20 + number / 2) * bytes;
            let piece = |number| Piece { offset: place(number), bytes, position: position(number) };
            let pieces: Vec<Piece> = (0..40).map(piece).collect();
            assert_eq!(are_direct(&pieces, &extents(&pieces)), direct);
            let data: Vec<u8> = (0..40 * bytes).map(|byte| (byte % 251) as u8).collect();
            file.resize(0).unwrap();
            let moved = write_window(file, &pieces, &Buffer::owned(data.clone()));
            assert_eq!((moved.bytes, file.bytes().unwrap()), (40 * bytes, 40 * bytes + 7));
            let read = Buffer::owned(vec![1; data.len()]);
            assert_eq!(read_window(file, &pieces, &read).bytes, 40 * bytes);
            assert!(read.to_vec() == data);
            file.resize(39 * bytes + 17).unwrap();
            assert_eq!(read_window(file, &pieces, &read).bytes, 39 * bytes + 10);
            let (last, mut expected) = (position(39) as usize, data);
            expected[last + 10..].fill(0);
            assert!(read.to_vec() == expected);
        };
        let path = std::env::temp_dir().join(format!("tutti-windows-{}", std::process::id()));
        let posix = Posix::open(path.as_os_str().as_encoded_bytes(), Amode::new(34).unwrap()).unwrap();
        std::fs::remove_file(path).unwrap();
        for (bytes, direct) in [(1 << 10, true), (100, false)] {
            check(&Simulated::new(1, u64::MAX, 0), bytes, direct);
            check(&posix, bytes, direct);
        }
    }

    #[test]
    fn pieces_find_their_place() {
        let pieces =
            [(3, 2, 7), (9, 1, 0)].map(|(offset, bytes, position)| Piece { offset, bytes, position });
        let extents = extents(&pieces);
        let mut places = Vec::new();
        placed(&pieces, &extents, |at, piece| places.push((at, piece.position)));
        assert_eq!(places, [(0, 7), (2, 0)]);
    }
}
