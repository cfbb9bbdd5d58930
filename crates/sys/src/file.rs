//! Access to files: reading and writing pieces of memory at an offset, reserving space, and the kind of
//! file system.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use crate::memory::Mapping;
use crate::remap;

/// Maximum number of memory pieces in one call.
pub const MOST_PIECES: usize = 1024;

/// Size of a page of a mapping in bytes.
const PAGE_BYTES: u64 = 4096;

fn place(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn moved(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Reads from `offset` on into pieces of memory, at most [`MOST_PIECES`]. Returns the number of bytes, 0 at
/// the end of the file.
///
/// # Errors
/// Errors of preadv.
pub fn read_at(fd: BorrowedFd<'_>, offset: u64, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let count = into.len().min(MOST_PIECES) as i32;
    // SAFETY: an IoSliceMut is an iovec of writable memory; fd is open.
    moved(unsafe { libc::preadv(fd.as_raw_fd(), into.as_mut_ptr().cast(), count, place(offset)?) })
}

/// Starts writing back bytes to the device without waiting for it. Where the system cannot do this,
/// write-back starts when the file is synced.
pub fn begin_sync(fd: BorrowedFd<'_>, offset: u64, bytes: u64) {
    let (Ok(offset), Ok(bytes)) = (place(offset), place(bytes)) else { return };
    // SAFETY: a plain system call on an open descriptor.
    unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Writes pieces of memory, at most [`MOST_PIECES`], starting at `offset`. Returns the number of bytes.
///
/// # Errors
/// Errors of pwritev.
pub fn write_at(fd: BorrowedFd<'_>, offset: u64, from: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = from.len().min(MOST_PIECES) as i32;
    // SAFETY: an IoSlice is an iovec of readable memory; fd is open.
    moved(unsafe { libc::pwritev(fd.as_raw_fd(), from.as_ptr().cast(), count, place(offset)?) })
}

/// Reserves space on the device for a range of a file, and extends the file to its end. Existing content is
/// kept; new bytes read as zero.
///
/// # Errors
/// The error of fallocate: no space, or a file system without this operation.
pub fn allocate(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: fd is open.
    if unsafe { libc::fallocate(fd.as_raw_fd(), 0, place(offset)?, place(bytes)?) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Stores into a range of a file through a mapping. `store` receives the address of the byte at `offset`.
/// The range must be allocated and within the file.
///
/// # Errors
/// Errors of mmap.
pub fn through_mapping<R>(
    fd: BorrowedFd<'_>,
    offset: u64,
    bytes: u64,
    store: impl FnOnce(NonNull<u8>) -> R,
) -> io::Result<R> {
    let before = offset % PAGE_BYTES;
    let length = usize::try_from(before + bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mapping = Mapping::range(fd, offset - before, length)?;
    // All pages are populated at once where the kernel can (Linux 5.14): a fault for each page costs more.
    remap::populate_written(mapping.base().as_ptr(), length);
    // SAFETY: inside the mapping.
    Ok(store(unsafe { mapping.base().add(before as usize) }))
}

/// Asks the system to read a part of a file into the page cache in the background. Errors are ignored.
pub fn fetch_ahead(fd: BorrowedFd<'_>, offset: u64, bytes: u64) {
    let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return };
    // SAFETY: gives advice on a file; nothing is read into this process.
    unsafe { libc::posix_fadvise(fd.as_raw_fd(), offset, bytes, libc::POSIX_FADV_WILLNEED) };
}

/// Kind of a file system, where it makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// File system of this host alone, with one page cache: a mapping is coherent with reads and writes.
    /// Holds its name.
    Local(&'static str),
    /// File system shared by several hosts. Holds its name.
    Shared(&'static str),
    /// Unknown file system. Holds its number of statfs(2).
    Unknown(u64),
}

/// Numbers of local file systems in statfs(2), and their names.
const LOCAL: [(u64, &str); 6] = [
    (0xef53, "ext4"),
    (0x0102_1994, "tmpfs"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x794c_7630, "overlay"),
    (0xf2f5_2010, "f2fs"),
];
const SHARED: [(u64, &str); 8] = [
    (0x6969, "nfs"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x00c3_6400, "ceph"),
    (0x6573_5546, "fuse"),
    (0xff53_4d42, "cifs"),
    (0x2003_0528, "orangefs"),
];

impl FileSystem {
    /// Returns the kind of file system on which an open file lies.
    ///
    /// # Errors
    /// Errors of fstatfs.
    pub fn of_file(fd: BorrowedFd<'_>) -> io::Result<FileSystem> {
        // SAFETY: an all-zero statfs is a valid value of that plain C structure.
        let mut status: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: fd is open and status is writable.
        if unsafe { libc::fstatfs(fd.as_raw_fd(), &mut status) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let number = status.f_type as u64 & 0xffff_ffff;
        let named = |table: &[(u64, &'static str)]| table.iter().find(|row| row.0 == number).map(|row| row.1);
        Ok(match (named(&LOCAL), named(&SHARED)) {
            (Some(name), _) => FileSystem::Local(name),
            (None, Some(name)) => FileSystem::Shared(name),
            (None, None) => FileSystem::Unknown(number),
        })
    }

    /// Returns the name of the file system, for messages.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Local(name) | FileSystem::Shared(name) => name,
            FileSystem::Unknown(_) => "unknown",
        }
    }
}

/// Copies pieces one after the other from `packed` into a mapping whose first byte is byte `start` of the
/// file. `places` has the file offset and the length of each piece.
///
/// # Panics
/// If the pieces are longer than `packed` in all.
pub fn store_pieces(
    base: NonNull<u8>,
    start: u64,
    places: impl Iterator<Item = (u64, usize)>,
    packed: &[u8],
) {
    let mut rest = packed;
    for (offset, bytes) in places {
        let (now, later) = rest.split_at(bytes);
        rest = later;
        // SAFETY: `through_mapping` gave the base for a range that contains every piece. Other ranks of the
        // job may store elsewhere in it; if they store in the same place, the program itself has the race.
        unsafe { base.add((offset - start) as usize).as_ptr().copy_from_nonoverlapping(now.as_ptr(), bytes) };
    }
}
