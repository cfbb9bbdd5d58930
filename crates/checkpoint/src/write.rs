//! The bytes of a host: from memory and objects to files of blocks. Needs no tracer, so any thread can do it
//! while all ranks stand still.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tutti_sys::remap;

use crate::image::Backing;
use crate::image::blocks::{BLOCK, Block, FileRecord, Known, Writer};
use crate::image::packing::Packing;
use crate::process::capture::{Bytes, Captured, Source};
use crate::process::memory::Memory;

/// Bytes read at once.
const PIECE: u64 = 4 << 20;

/// The blocks of the files of the last set, by name.
pub type KnownFiles = HashMap<String, Known>;

/// What was written.
#[derive(Debug, Default)]
pub struct Written {
    /// For the manifest.
    pub records: Vec<FileRecord>,
    /// For the next set.
    pub blocks: Vec<(String, Vec<Block>)>,
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
    let own = captured.ranks.iter().flat_map(|source| {
        let areas = source.process.areas.iter().filter(|area| !area.shared);
        areas.map(|area| source.pages.own(area.start, area.end).unwrap_or_default())
    });
    own.flatten().map(|(start, end)| end - start).sum()
}

/// Writes all files of a host into `folder`; `done` counts the bytes.
///
/// # Errors
/// What reading or writing reports, with the name of the file.
pub fn write(
    captured: &Captured,
    folder: &Path,
    known: &KnownFiles,
    done: &AtomicU64,
) -> io::Result<Written> {
    let mut written = Written::default();
    let nothing = Known::default();
    let host = captured.host.host;
    let named = |name: &str, error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", folder.join(name).display()))
    };
    let mut take = |name: String,
                    rank: Option<u32>,
                    head: io::Result<Vec<u8>>,
                    fill: &dyn Fn(&mut Writer<'_>) -> io::Result<()>| {
        let result = head.and_then(|head| {
            let known = known.get(&name).unwrap_or(&nothing);
            let mut writer = Writer::create(&folder.join(&name), known, Packing::Never)?;
            fill(&mut writer)?;
            writer.finish(head, host, rank)
        });
        let (record, blocks, _) = result.map_err(|error| named(&name, error))?;
        written.records.push(record);
        written.blocks.push((name, blocks));
        Ok::<(), io::Error>(())
    };
    let head = postcard::to_stdvec(&captured.host).map_err(io::Error::other);
    take(host_file(host), None, head, &|writer| write_objects(captured, writer, done))?;
    for source in &captured.ranks {
        let head = postcard::to_stdvec(&source.process).map_err(io::Error::other);
        let rank = source.process.rank;
        take(rank_file(rank), Some(rank), head, &|writer| write_memory(source, writer, done))?;
    }
    Ok(written)
}

fn write_memory(source: &Source, writer: &mut Writer<'_>, done: &AtomicU64) -> io::Result<()> {
    let mut room = Vec::new();
    for area in &source.process.areas {
        if area.shared || matches!(area.backing, Backing::Kernel(_)) {
            continue;
        }
        for (start, end) in source.pages.own(area.start, area.end)? {
            pieces(
                start,
                end,
                &mut room,
                done,
                &mut |at, bytes| source.memory.read(at, bytes),
                &mut |at, bytes| writer.push(0, at, bytes),
            )?;
        }
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
