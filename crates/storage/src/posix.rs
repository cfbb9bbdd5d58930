//! Any mounted file system, by the calls of the system.
//!
//! # Small pieces
//! A call for each costs some microseconds. They are read by *sieving*: one read of a range that holds several, of which the pieces are
//! kept. They are never written so, since what lies between them is not ours: another process may write it at the same time, and its bytes
//! would be lost. On a file system of this host alone they are stored through a mapping, which is exact to the byte; room on the
//! device is taken before, since a store cannot report that there is none. (64 B at half density on ext4: 62 MB/s by calls, 4 GB/s by a
//! mapping.) Elsewhere each piece is a call.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::Segment;
use tutti_sys::file::{self, FileSystem, MOST_PIECES};

use crate::amode::Amode;
use crate::driver::{Driver, Moved};
use crate::fault::failed;

/// Pieces are read together where what is read and copied more than without costs less than a call: what lies
/// between them, and the next one once more. Two ranks, 16 KiB in turn in memory: 7.4 GB/s together, and 14
/// by calls.
const SIEVE_COSTS_BYTES: u64 = 8 << 10;
/// The same for what lies between them on a file system that hosts share, where a call crosses a network.
const REMOTE_GAP_BYTES: u64 = 16 << 10;
/// Pieces that are not further apart are stored through one mapping.
const WRITE_GAP_BYTES: u64 = 4 << 10;
/// Most bytes of the file that are mapped together.
const GROUP_BYTES: u64 = 4 << 20;
/// Most that are read together: what is read is still in a cache of the processor when its pieces are copied.
const SIEVE_BYTES: u64 = 256 << 10;
/// Pieces that are as long on average are written by calls: these need not clear the pages that they fill.
const LONG_PIECE_BYTES: u64 = 16 << 10;
/// So many pieces are worth a mapping.
const MAPPED_PIECES: usize = 8;

/// A file of the system.
#[derive(Debug)]
pub struct Posix {
    file: File,
    path: PathBuf,
    system: FileSystem,
    /// Small pieces may be stored through a mapping; not any more once the file system could not give room.
    maps: AtomicBool,
    /// What a sync has reported.
    unsynced: OnceLock<Error>,
}

impl Posix {
    /// Opens a file as `amode` says.
    ///
    /// # Errors
    /// What the system reports; `BadFile` for a directory.
    pub fn open(path: &[u8], amode: Amode) -> Result<Posix> {
        let path = Path::new(OsStr::from_bytes(path));
        let mut options = OpenOptions::new();
        options.read(amode.reads()).write(amode.writes());
        if amode.creates() {
            options.create(!amode.is_exclusive()).create_new(amode.is_exclusive());
        }
        let what = || format!("cannot open {}", path.display());
        let file = options.open(path).map_err(|error| failed(&what(), &error))?;
        Posix::of(file, path.to_path_buf(), amode)
    }

    /// A file that is open already; `path` is for messages.
    ///
    /// # Errors
    /// What the system reports; `BadFile` for a directory.
    pub fn of(file: File, path: PathBuf, amode: Amode) -> Result<Posix> {
        let what = || format!("cannot open {}", path.display());
        let status = file.metadata().map_err(|error| failed(&what(), &error))?;
        if status.is_dir() {
            return Err(Error::new(ErrorClass::BadFile, format!("{}: it is a directory", what())));
        }
        let system = FileSystem::of(file.as_fd()).map_err(|error| failed(&what(), &error))?;
        // A mapping that is written needs the right to read.
        let maps =
            status.is_file() && amode.reads() && amode.writes() && matches!(system, FileSystem::Local(_));
        Ok(Posix { file, path, system, maps: AtomicBool::new(maps), unsynced: OnceLock::new() })
    }

    /// Removes a file.
    ///
    /// # Errors
    /// What the system reports.
    pub fn delete(path: &[u8]) -> Result<()> {
        let path = Path::new(OsStr::from_bytes(path));
        std::fs::remove_file(path)
            .map_err(|error| failed(&format!("cannot delete {}", path.display()), &error))
    }

    /// The file system.
    pub fn system(&self) -> FileSystem {
        self.system
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn fault(&self, what: &str, error: &io::Error) -> Error {
        failed(&format!("{what} {}", self.path.display()), error)
    }

    /// Stores a group of pieces through a mapping; `None` where that is not possible.
    fn store_group(&self, pieces: &[Segment], packed: &[u8]) -> Option<Moved> {
        let (start, bytes) = span(pieces);
        if pieces.len() < MAPPED_PIECES
            || packed.len() as u64 / pieces.len() as u64 >= LONG_PIECE_BYTES
            || !self.maps.load(Ordering::Relaxed)
        {
            return None;
        }
        if let Err(error) = file::allocate(self.fd(), start, bytes) {
            let fault = self.fault("cannot write", &error);
            if fault.class == ErrorClass::NoSpace {
                // Calls fill what room there is.
                return None;
            }
            self.maps.store(false, Ordering::Relaxed);
            return None;
        }
        let store = |base: std::ptr::NonNull<u8>| file::store_pieces(base, start, places(pieces), packed);
        match file::through_mapping(self.fd(), start, bytes, store) {
            Ok(()) => Some(Moved::all(packed.len() as u64)),
            Err(_) => {
                self.maps.store(false, Ordering::Relaxed);
                None
            }
        }
    }

    fn write_each(&self, pieces: &[Segment], packed: &[u8]) -> Moved {
        let mut done = 0;
        for piece in pieces {
            let from = &packed[done as usize..(done + piece.bytes) as usize];
            let moved = self.write(piece.offset as u64, &[IoSlice::new(from)]);
            done += moved.bytes;
            if moved.fault.is_some() {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    /// Reads a group of pieces by one read of all that it spans.
    fn sieve(&self, pieces: &[Segment], packed: &mut [u8], sieve: &mut Vec<u8>) -> Moved {
        let (start, bytes) = span(pieces);
        sieve.resize(bytes as usize, 0);
        let moved = self.read(start, &mut [IoSliceMut::new(sieve)]);
        let (mut at, mut done) = (0, 0);
        for piece in pieces {
            let first = piece.offset as u64 - start;
            let there = moved.bytes.saturating_sub(first).min(piece.bytes) as usize;
            packed[at..at + there].copy_from_slice(&sieve[first as usize..first as usize + there]);
            at += piece.bytes as usize;
            done += there as u64;
        }
        Moved { bytes: done, fault: moved.fault }
    }
}

/// From the first byte of the pieces to the last: start and length.
fn span(pieces: &[Segment]) -> (u64, u64) {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return (0, 0) };
    (first.offset as u64, (last.offset - first.offset) as u64 + last.bytes)
}

fn places(pieces: &[Segment]) -> impl Iterator<Item = (u64, usize)> {
    pieces.iter().map(|piece| (piece.offset as u64, piece.bytes as usize))
}

/// The first pieces of which each is `near` the one before it, by the bytes between them and its own, and
/// that span no more than `most`; at least one. Pieces that are longer are groups of their own.
fn group(pieces: &[Segment], near: impl Fn(u64, u64) -> bool, most: u64) -> usize {
    let Some(first) = pieces.first() else { return 0 };
    let joins = |pair: &[Segment]| {
        let (before, next) = (pair[0], pair[1]);
        let end = before.offset + before.bytes as i64;
        near((next.offset - end) as u64, next.bytes)
            && (next.offset - first.offset) as u64 + next.bytes <= most
    };
    1 + pieces.windows(2).take_while(|pair| joins(pair)).count()
}

impl Driver for Posix {
    fn read(&self, offset: u64, mut into: &mut [IoSliceMut<'_>]) -> Moved {
        let mut done = 0;
        IoSliceMut::advance_slices(&mut into, 0);
        while !into.is_empty() {
            match file::read_at(self.fd(), offset + done, into) {
                Ok(0) => break,
                Ok(bytes) => {
                    done += bytes as u64;
                    IoSliceMut::advance_slices(&mut into, bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Moved { bytes: done, fault: Some(self.fault("cannot read", &error)) },
            }
        }
        Moved::all(done)
    }

    fn write(&self, offset: u64, from: &[IoSlice<'_>]) -> Moved {
        let mut pieces = from.to_vec();
        let mut rest = &mut pieces[..];
        let mut done = 0;
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match file::write_at(self.fd(), offset + done, rest) {
                Ok(0) => {
                    let fault = self.fault("cannot write", &io::ErrorKind::WriteZero.into());
                    return Moved { bytes: done, fault: Some(fault) };
                }
                Ok(bytes) => {
                    done += bytes as u64;
                    IoSlice::advance_slices(&mut rest, bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Moved { bytes: done, fault: Some(self.fault("cannot write", &error)) },
            }
        }
        Moved::all(done)
    }

    fn gather(&self, mut pieces: &[Segment], packed: &mut [u8]) -> Moved {
        let (mut sieve, mut rest, mut done) = (Vec::new(), packed, 0);
        let is_remote = self.is_remote();
        let near = |gap, bytes| match is_remote {
            true => gap <= REMOTE_GAP_BYTES,
            false => gap + bytes <= SIEVE_COSTS_BYTES,
        };
        while !pieces.is_empty() {
            let (group, others) = pieces.split_at(group(pieces, near, SIEVE_BYTES));
            let bytes: u64 = group.iter().map(|piece| piece.bytes).sum();
            let (now, later) = rest.split_at_mut(bytes as usize);
            let moved = match group {
                [piece] => self.read(piece.offset as u64, &mut [IoSliceMut::new(now)]),
                _ => self.sieve(group, now, &mut sieve),
            };
            (pieces, rest) = (others, later);
            done += moved.bytes;
            if moved.fault.is_some() || moved.bytes < bytes {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    fn scatter(&self, mut pieces: &[Segment], mut packed: &[u8]) -> Moved {
        let mut done = 0;
        while !pieces.is_empty() {
            let (group, others) =
                pieces.split_at(group(pieces, |gap, _| gap <= WRITE_GAP_BYTES, GROUP_BYTES));
            let bytes: u64 = group.iter().map(|piece| piece.bytes).sum();
            let (now, later) = packed.split_at(bytes as usize);
            let moved = self.store_group(group, now).unwrap_or_else(|| self.write_each(group, now));
            (pieces, packed) = (others, later);
            done += moved.bytes;
            if moved.fault.is_some() {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    fn bytes(&self) -> Result<u64> {
        let status = self.file.metadata().map_err(|error| self.fault("cannot look at", &error))?;
        Ok(status.len())
    }

    fn resize(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|error| self.fault("cannot resize", &error))
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.allocate_range(0, bytes)
    }

    fn allocate_range(&self, offset: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        match file::allocate(self.fd(), offset, bytes) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.allocate_by_hand(offset + bytes),
            Err(error) => Err(self.fault("cannot allocate room for", &error)),
        }
    }

    fn sync(&self) -> Result<()> {
        if let Some(error) = self.unsynced.get() {
            return Err(error.clone());
        }
        match self.file.sync_data() {
            // What has no device (a pipe, /dev/full) has nothing to wait for.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            Err(error) => Err(self.unsynced.get_or_init(|| self.fault("cannot sync", &error)).clone()),
            Ok(()) => Ok(()),
        }
    }

    fn is_remote(&self) -> bool {
        !matches!(self.system, FileSystem::Local(_))
    }

    fn describe(&self) -> String {
        let small = match self.maps.load(Ordering::Relaxed) {
            true => "through a mapping",
            false => "one by one",
        };
        format!("posix on {}, small pieces are written {small}", self.system.name())
    }
}

impl Posix {
    /// As fallocate, where the file system has none: what is beyond the end is written with zeros, what is before it stays as it is.
    fn allocate_by_hand(&self, bytes: u64) -> Result<()> {
        let zeros = vec![0; (1 << 20).min(bytes as usize)];
        let mut end = self.bytes()?;
        while end < bytes {
            let take = (bytes - end).min(zeros.len() as u64);
            end += self.write(end, &[IoSlice::new(&zeros[..take as usize])]).result()?;
        }
        Ok(())
    }
}

const _: () = assert!(MOST_PIECES >= 512, "as many pieces of memory as a buffer gives at a time");

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[(i64, u64)], most: u64, expected: usize) {
        let pieces: Vec<Segment> = pieces.iter().map(|&(offset, bytes)| Segment { offset, bytes }).collect();
        assert_eq!(group(&pieces, |gap, _| gap <= most, GROUP_BYTES), expected);
    }

    #[test]
    fn groups_end_at_gaps_and_at_their_bound() {
        check(&[(0, 4), (8, 4), (100, 4)], 10, 2);
        check(&[(0, 4), (8, 4), (100, 4)], 100, 3);
        check(&[(0, GROUP_BYTES), (GROUP_BYTES as i64, 1)], 10, 1);
        check(&[], 10, 0);
    }
}
