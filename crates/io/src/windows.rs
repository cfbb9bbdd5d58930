//! The windows of one access in two phases, at a member in charge of some: puts the bytes of all members in the order of the file, and moves
//! them. Nothing but what was given is written.

use std::sync::{Arc, Mutex, PoisonError};

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::buffer::Buffer;
use tutti_core::collective::files::Windows;
use tutti_core::giant::Held;
use tutti_core::messenger::Messenger;
use tutti_core::process;
use tutti_core::request::RequestId;
use tutti_data::Segment;

use crate::background;
use crate::file::File;
use crate::observed;
use crate::two_phase::Division;
use crate::worker;
use tutti_storage::{Driver, Moved};

/// Runs that are made at a time.
const RUNS: usize = 4096;

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

    /// What went wrong here.
    pub fn fault(&self) -> Option<Error> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Windows for FileWindows {
    fn start(
        &self,
        held: &Held,
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

/// All of a window in the order of the file.
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

/// The ranges that pieces cover together.
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

fn write_window(driver: &dyn Driver, pieces: &[Piece], memory: &Buffer) -> Moved {
    let extents = extents(pieces);
    let bytes: u64 = extents.iter().map(|extent| extent.bytes).sum();
    let mut packed = vec![0; bytes as usize];
    // Where members write the same place, which MPI leaves open, the last one has it.
    placed(pieces, &extents, |at, piece| {
        memory.pack(piece.position, &mut packed[at..at + piece.bytes as usize]);
    });
    driver.scatter(&extents, &packed)
}

fn read_window(driver: &dyn Driver, pieces: &[Piece], memory: &Buffer) -> Moved {
    let extents = extents(pieces);
    let bytes: u64 = extents.iter().map(|extent| extent.bytes).sum();
    // What is beyond the end of the file is not counted by who asked for it.
    let mut packed = vec![0; bytes as usize];
    let moved = driver.gather(&extents, &mut packed);
    placed(pieces, &extents, |at, piece| {
        memory.unpack(piece.position, &packed[at..at + piece.bytes as usize]);
    });
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

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
