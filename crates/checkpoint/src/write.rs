//! Writer of a host's files: copies memory and objects into files of blocks. It needs no tracer. Any thread
//! can write while all ranks stand still, and go on with the memory of keepers when the ranks run again.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tutti_sys::remap;

use crate::image::blocks::{BLOCK, Block, FileRecord, Known, Writer};
use crate::image::packing::Packing;
use crate::process::capture::{Bytes, Captured, Source};
use crate::process::memory::Memory;

/// Bytes that are read at once.
const PIECE: u64 = 4 << 20;

/// Blocks of the files of the last set, by file name.
pub type KnownFiles = HashMap<String, Known>;

/// Page ranges: first address, and end address (exclusive).
type Runs = Vec<(u64, u64)>;

/// Result of writing the files of a host.
#[derive(Debug, Default)]
pub struct Written {
    /// Records for the manifest, one per file.
    pub records: Vec<FileRecord>,
    /// Blocks by file name, to which the next set may refer.
    pub blocks: Vec<(String, Vec<Block>)>,
    /// Time spent waiting for the disk.
    pub waited: Duration,
    /// Time that all of the writing took.
    pub took: Duration,
}

impl Written {
    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.records.iter().map(|record| record.bytes).sum()
    }
}

/// Returns the name of the file of a rank.
pub fn rank_file(rank: u32) -> String {
    format!("rank-{rank}")
}

/// Returns the name of the file of a host.
pub fn host_file(host: u32) -> String {
    format!("host-{host}")
}

/// Returns the approximate number of bytes that will be read, to show progress.
pub fn expected_bytes(captured: &Captured) -> u64 {
    let own = captured.ranks.iter().flat_map(|source| source.runs(|_| true).unwrap_or_default());
    own.map(|(start, end)| end - start).sum()
}

/// Destination and settings of the files of a host.
#[derive(Debug)]
pub struct FileOptions<'a> {
    /// Folder of the set that is being written.
    pub folder: &'a Path,
    /// Blocks of the last set, to which unchanged blocks refer.
    pub known: &'a KnownFiles,
    /// Rule by which blocks are packed.
    pub packing: Packing,
    /// Counter of the bytes that were read, to show progress.
    pub done: &'a AtomicU64,
}

impl FileOptions<'_> {
    fn create(&self, name: &str) -> io::Result<Writer<'_>> {
        static NOTHING: std::sync::LazyLock<Known> = std::sync::LazyLock::new(Known::default);
        let known = self.known.get(name).unwrap_or(&NOTHING);
        Writer::create(&self.folder.join(name), known, self.packing).map_err(|error| self.named(name, error))
    }

    fn named(&self, name: &str, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.folder.join(name).display()))
    }
}

/// File of a rank that is incomplete: the memory of its keeper is still missing.
struct Begun<'a> {
    name: String,
    writer: Writer<'a>,
    rest: Runs,
}

/// Writes all files of a host. Calls `stood` when ranks no longer need to stand still. With keepers that is
/// when all bytes that these lack are written, otherwise at the end.
///
/// # Errors
/// Returns the error of a failed read or write, with the name of the file.
pub fn write(captured: &Captured, manner: &FileOptions<'_>, stood: &mut dyn FnMut()) -> io::Result<Written> {
    let mut written = Written::default();
    let start = Instant::now();
    let host = captured.host.host;
    let name = host_file(host);
    let mut objects = manner.create(&name)?;
    write_objects(captured, &mut objects, manner.done).map_err(|error| manner.named(&name, error))?;
    let mut begun = Vec::with_capacity(captured.ranks.len());
    for source in &captured.ranks {
        begun.push(begin_rank(source, manner)?);
    }
    let has_keepers = captured.ranks.iter().all(|source| source.kept.is_some());
    if has_keepers {
        stood();
    }
    let mut finish = |name: String, rank, head: Result<Vec<u8>, postcard::Error>, writer: Writer<'_>| {
        let head = head.map_err(io::Error::other);
        let result = head.and_then(|head| writer.finish(head, host, rank));
        let (record, blocks, waited) = result.map_err(|error| manner.named(&name, error))?;
        written.waited += waited;
        written.records.push(record);
        written.blocks.push((name, blocks));
        Ok::<(), io::Error>(())
    };
    finish(name, None, postcard::to_stdvec(&captured.host), objects)?;
    for (source, Begun { name, mut writer, rest }) in captured.ranks.iter().zip(begun) {
        let result = write_memory(source.bytes(), &rest, &mut writer, manner.done);
        result.map_err(|error| manner.named(&name, error))?;
        finish(name, Some(source.process.rank), postcard::to_stdvec(&source.process), writer)?;
    }
    if !has_keepers {
        stood();
    }
    written.took = start.elapsed();
    Ok(written)
}

/// Begins the file of a rank. If the rank has a keeper, writes all bytes that the keeper lacks.
fn begin_rank<'a>(source: &Source, manner: &'a FileOptions<'_>) -> io::Result<Begun<'a>> {
    let name = rank_file(source.process.rank);
    let mut writer = manner.create(&name)?;
    let result = source.runs(|area| source.kept.is_some() && !source.is_kept(area));
    let result = result.and_then(|runs| write_memory(&source.memory, &runs, &mut writer, manner.done));
    let rest = result.and_then(|()| source.runs(|area| source.kept.is_none() || source.is_kept(area)));
    let rest = rest.map_err(|error| manner.named(&name, error))?;
    Ok(Begun { name, writer, rest })
}

fn write_memory(memory: &Memory, runs: &Runs, writer: &mut Writer<'_>, done: &AtomicU64) -> io::Result<()> {
    let mut room = Vec::new();
    for &(start, end) in runs {
        let mut read = |at, bytes: &mut [u8]| memory.read(at, bytes);
        pieces(start, end, &mut room, done, &mut read, &mut |at, bytes| writer.push(0, at, bytes))?;
    }
    Ok(())
}

/// Writes the data of all shared objects. Holes are skipped. Objects without a descriptor are read from a
/// process that has mapped them.
fn write_objects(captured: &Captured, writer: &mut Writer<'_>, done: &AtomicU64) -> io::Result<()> {
    let mut room = Vec::new();
    for (number, (object, bytes)) in (0..).zip(captured.host.objects.iter().zip(&captured.objects)) {
        match bytes {
            Bytes::Open(fd) => {
                let mut at = 0;
                while let Some((start, end)) = remap::next_data(fd.as_fd(), at, object.bytes)? {
                    let mut read = |at, bytes: &mut [u8]| read_object(fd.as_fd(), at, bytes);
                    pieces(start, end, &mut room, done, &mut read, &mut |at, bytes| {
                        writer.push(number, at, bytes)
                    })?;
                    at = end;
                }
            }
            Bytes::Mapped(places) => {
                for &(pid, address, offset, length) in places {
                    let memory = Memory::open(pid)?;
                    let mut read = |at: u64, bytes: &mut [u8]| memory.read(address + (at - offset), bytes);
                    pieces(offset, offset + length, &mut room, done, &mut read, &mut |at, bytes| {
                        writer.push(number, at, bytes)
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// Reads from offset `at` of an object. Fills the part behind its end with zeros.
fn read_object(fd: BorrowedFd<'_>, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::from(fd.try_clone_to_owned()?);
    // The last page of an object may extend beyond its end.
    let mut copied = 0;
    while copied < bytes.len() {
        match file.read_at(&mut bytes[copied..], at + copied as u64)? {
            0 => break,
            more => copied += more,
        }
    }
    bytes[copied..].fill(0);
    Ok(())
}

/// Reads large pieces of `PIECE` bytes, and writes blocks that begin at multiples of their size.
fn pieces(
    start: u64,
    end: u64,
    room: &mut Vec<u8>,
    done: &AtomicU64,
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
    write: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = start;
    while at < end {
        let until = end.min((at + PIECE) / BLOCK * BLOCK);
        let bytes = (until - at) as usize;
        room.resize(bytes, 0);
        read(at, room)?;
        let mut from = at;
        while from < until {
            let to = until.min((from + BLOCK) / BLOCK * BLOCK);
            write(from, &room[(from - at) as usize..(to - at) as usize])?;
            from = to;
        }
        done.fetch_add(until - at, Ordering::Relaxed);
        at = until;
    }
    Ok(())
}
