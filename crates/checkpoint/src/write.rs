//! The bytes of a host: from memory and objects to files of blocks. Needs no tracer, so any thread can do it
//! while all ranks stand still, and go on with the memory of ranks that have keepers when they do not any
//! more.

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

/// Bytes read at once.
const PIECE: u64 = 4 << 20;

/// The blocks of the files of the last set, by name.
pub type KnownFiles = HashMap<String, Known>;

/// Runs of pages: first address, and first address behind.
type Runs = Vec<(u64, u64)>;

/// What was written.
#[derive(Debug, Default)]
pub struct Written {
    /// For the manifest.
    pub records: Vec<FileRecord>,
    /// For the next set.
    pub blocks: Vec<(String, Vec<Block>)>,
    /// How long the disk was waited for.
    pub waited: Duration,
    /// How long all of it has taken.
    pub took: Duration,
}

impl Written {
    /// Bytes that the disk has got.
    pub fn bytes(&self) -> u64 {
        self.records.iter().map(|record| record.bytes).sum()
    }
}

/// The name of the file of a rank.
pub fn rank_file(rank: u32) -> String {
    format!("rank-{rank}")
}

/// The name of the file of a host.
pub fn host_file(host: u32) -> String {
    format!("host-{host}")
}

/// Bytes that will be read, about: for showing how far it is.
pub fn expected_bytes(captured: &Captured) -> u64 {
    let own = captured.ranks.iter().flat_map(|source| source.runs(|_| true).unwrap_or_default());
    own.map(|(start, end)| end - start).sum()
}

/// Where and how files are written.
#[derive(Debug)]
pub struct Manner<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// What the last set has.
    pub known: &'a KnownFiles,
    /// When blocks are packed.
    pub packing: Packing,
    /// Counts the bytes.
    pub done: &'a AtomicU64,
}

impl Manner<'_> {
    fn create(&self, name: &str) -> io::Result<Writer<'_>> {
        static NOTHING: std::sync::LazyLock<Known> = std::sync::LazyLock::new(Known::default);
        let known = self.known.get(name).unwrap_or(&NOTHING);
        Writer::create(&self.folder.join(name), known, self.packing).map_err(|error| self.named(name, error))
    }

    fn named(&self, name: &str, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.folder.join(name).display()))
    }
}

/// A file of a rank that is begun: what its keeper has is still to be written.
struct Begun<'a> {
    name: String,
    writer: Writer<'a>,
    rest: Runs,
}

/// Writes all files of a host. `stood` is called when ranks need not stand still any more: with keepers when
/// all that these do not have is written, otherwise at the end.
///
/// # Errors
/// What reading or writing reports, with the name of the file.
pub fn write(captured: &Captured, manner: &Manner<'_>, stood: &mut dyn FnMut()) -> io::Result<Written> {
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

/// Begins the file of a rank with all that its keeper does not have, if there is one.
fn begin_rank<'a>(source: &Source, manner: &'a Manner<'_>) -> io::Result<Begun<'a>> {
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
                    let memory = Memory::of(pid)?;
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

fn read_object(fd: BorrowedFd<'_>, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::from(fd.try_clone_to_owned()?);
    // The last page of an object may go on behind its end.
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

/// Reads in large pieces, writes in blocks that begin at multiples of their size.
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
