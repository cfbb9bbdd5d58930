//! Driver for all mounted file systems, by system calls.
//!
//! # Small pieces
//! One call for each small piece costs some microseconds. Small pieces are read by *sieving*: one read of a
//! range with several pieces, from which they are copied. They are never written in this way. The bytes
//! between them are not ours: another process may write them at the same time, and its data would be lost.
//! On a file system of this host alone, small pieces are stored through a mapping, which changes only their
//! bytes. Space on the device is reserved before, since a store cannot report a full device. With 64 B at
//! half density on ext4, calls reach 62 MB/s and a mapping reaches 4 GB/s. On other file systems each piece
//! is a call.

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

/// Maximum cost in bytes of reading pieces together instead of by calls. The cost is the gap, which is
/// read, and the next piece, which is copied once more. With two ranks that alternate in memory by 16 KiB,
/// reading together reaches 7.4 GB/s, and calls reach 14.
const SIEVE_COSTS_BYTES: u64 = 8 << 10;
/// Maximum gap of pieces that are read together on a shared file system, where a call crosses a network.
const REMOTE_GAP_BYTES: u64 = 16 << 10;
/// Maximum gap of pieces that are stored through one mapping.
const WRITE_GAP_BYTES: u64 = 4 << 10;
/// Maximum length of a mapping in bytes.
const GROUP_BYTES: u64 = 4 << 20;
/// Maximum length of one read for several pieces in bytes. The data are still in a processor cache when the
/// pieces are copied.
const SIEVE_BYTES: u64 = 256 << 10;
/// Average length in bytes from which pieces are written by calls: these need not clear the pages that they
/// fill.
const LONG_PIECE_BYTES: u64 = 16 << 10;
/// Minimum number of pieces for which a mapping pays.
const MAPPED_PIECES: usize = 8;

/// File on a mounted file system.
#[derive(Debug)]
pub struct Posix {
    file: File,
    path: PathBuf,
    system: FileSystem,
    /// True if small pieces may be stored through a mapping; false after the file system failed to reserve
    /// space.
    maps: AtomicBool,
    /// Error of an earlier sync, which later ones repeat.
    unsynced: OnceLock<Error>,
}

impl Posix {
    /// Opens a file with the access mode `amode`.
    ///
    /// # Errors
    /// Errors of the system; `BadFile` for a directory.
    pub fn open(path: &[u8], amode: Amode) -> Result<Posix> {
        let path = Path::new(OsStr::from_bytes(path));
        let mut options = OpenOptions::new();
        options.read(amode.reads()).write(amode.writes());
        if amode.creates() {
            options.create(!amode.is_exclusive()).create_new(amode.is_exclusive());
        }
        let what = || format!("cannot open {}", path.display());
        let file = options.open(path).map_err(|error| failed(&what(), &error))?;
        Posix::from_file(file, path.to_path_buf(), amode)
    }

    /// Wraps a file that is already open; `path` is used in messages.
    ///
    /// # Errors
    /// Errors of the system; `BadFile` for a directory.
    pub fn from_file(file: File, path: PathBuf, amode: Amode) -> Result<Posix> {
        let what = || format!("cannot open {}", path.display());
        let status = file.metadata().map_err(|error| failed(&what(), &error))?;
        if status.is_dir() {
            return Err(Error::new(ErrorClass::BadFile, format!("{}: it is a directory", what())));
        }
        let system = FileSystem::of_file(file.as_fd()).map_err(|error| failed(&what(), &error))?;
        // A writable mapping also needs read access.
        let maps =
            status.is_file() && amode.reads() && amode.writes() && matches!(system, FileSystem::Local(_));
        Ok(Posix { file, path, system, maps: AtomicBool::new(maps), unsynced: OnceLock::new() })
    }

    /// Deletes a file by its path.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn delete(path: &[u8]) -> Result<()> {
        let path = Path::new(OsStr::from_bytes(path));
        std::fs::remove_file(path)
            .map_err(|error| failed(&format!("cannot delete {}", path.display()), &error))
    }

    /// Returns the kind of file system.
    pub fn system(&self) -> FileSystem {
        self.system
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn fault(&self, what: &str, error: &io::Error) -> Error {
        failed(&format!("{what} {}", self.path.display()), error)
    }

    /// Stores a group of pieces through a mapping. Returns `None` where that is not possible.
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
                // Calls fill the remaining space.
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

    /// Reads a group of pieces by one read of the whole range.
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

/// Returns start and length of the range from the first byte of the pieces to the last.
fn span(pieces: &[Segment]) -> (u64, u64) {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return (0, 0) };
    (first.offset as u64, (last.offset - first.offset) as u64 + last.bytes)
}

fn places(pieces: &[Segment]) -> impl Iterator<Item = (u64, usize)> {
    pieces.iter().map(|piece| (piece.offset as u64, piece.bytes as usize))
}

/// Returns the number of leading pieces that form a group, at least one. Each is `near` its predecessor,
/// given the gap and its own length. Together they span at most `most` bytes; a longer piece is a group of
/// its own.
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
            // Files without a device (a pipe, /dev/full) have nothing to wait for.
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
    /// Replaces fallocate where the file system lacks it: writes zeros after the end of the file, and
    /// leaves existing data unchanged.
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
