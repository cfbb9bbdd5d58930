//! What of an access is at which server, and what became of it there: memory and file are cut where stripes
//! end, and what follows one another at the same server is a group.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

use tutti_base::Error;
use tutti_base::traffic::TRAFFIC;
use tutti_data::Segment;

use crate::driver::{Driver, Moved};
use crate::posix::Posix;

/// Bytes at one server that follow one another in memory.
#[derive(Debug)]
pub struct Group {
    /// Which one.
    pub server: usize,
    /// Of the file; none where a view tells them.
    pub pieces: Vec<Segment>,
    /// Where in memory.
    pub memory: Range<u64>,
}

/// What became of an access, by server.
#[derive(Debug)]
pub struct Outcome {
    bytes: Vec<u64>,
    ended: Vec<bool>,
    fault: Option<Error>,
    failed: Vec<bool>,
}

impl Outcome {
    /// Of nothing yet.
    pub fn new(servers: usize) -> Outcome {
        Outcome {
            bytes: vec![0; servers],
            ended: vec![false; servers],
            fault: None,
            failed: vec![false; servers],
        }
    }

    /// Whether something went wrong there.
    pub fn has_failed(&self, server: usize) -> bool {
        self.failed[server]
    }

    /// Whether nothing more is to be had there.
    pub fn has_ended(&self, server: usize) -> bool {
        self.failed[server] || self.ended[server]
    }

    /// Something went wrong.
    pub fn fail(&mut self, server: usize, error: Error) {
        self.failed[server] = true;
        self.fault.get_or_insert(error);
    }

    /// So much was moved.
    pub fn add(&mut self, server: usize, moved: Moved) {
        self.bytes[server] += moved.bytes;
        if let Some(error) = moved.fault {
            self.fail(server, error);
        }
    }

    /// So much was moved of what was wanted.
    pub fn add_of(&mut self, server: usize, moved: Moved, wanted: u64) {
        self.ended[server] |= moved.bytes < wanted;
        self.add(server, moved);
    }

    /// Memory whose bytes were not moved.
    pub fn missing(&self, groups: &[Group]) -> Vec<Range<u64>> {
        let mut left = self.bytes.clone();
        let missing = |group: &Group| {
            let bytes = group.memory.end - group.memory.start;
            let there = left[group.server].min(bytes);
            left[group.server] -= there;
            (there < bytes).then_some(group.memory.start + there..group.memory.end)
        };
        groups.iter().filter_map(missing).collect()
    }

    /// Up to the first byte that was not moved.
    pub fn moved(&self, groups: &[Group]) -> Moved {
        let total = groups.last().map_or(0, |group| group.memory.end);
        let bytes = self.missing(groups).first().map_or(total, |missing| missing.start);
        Moved { bytes, fault: self.fault.clone() }
    }
}

/// Writes a group to the lent file of its server.
pub fn put_near(near: &Posix, group: &Group, lines: &[&[u8]]) -> Moved {
    TRAFFIC.server_near_bytes.add(group.memory.end - group.memory.start);
    match (&group.pieces[..], lines) {
        ([piece], lines) => {
            let from: Vec<IoSlice<'_>> = lines.iter().map(|line| IoSlice::new(line)).collect();
            near.write(piece.offset as u64, &from)
        }
        (pieces, [packed]) => near.scatter(pieces, packed),
        _ => unreachable!("pieces are moved from and to one packed memory"),
    }
}

/// Reads a group from it.
pub fn get_near(near: &Posix, group: &Group, lines: &mut [&mut [u8]]) -> Moved {
    TRAFFIC.server_near_bytes.add(group.memory.end - group.memory.start);
    match (&group.pieces[..], lines) {
        ([piece], lines) => {
            let mut into: Vec<IoSliceMut<'_>> = lines.iter_mut().map(|line| IoSliceMut::new(line)).collect();
            near.read(piece.offset as u64, &mut into)
        }
        (pieces, [packed]) => near.gather(pieces, packed),
        _ => unreachable!("pieces are moved from and to one packed memory"),
    }
}

/// The memory of each group.
pub fn split<'a>(memory: &[&'a [u8]], groups: &[Group]) -> Vec<Vec<&'a [u8]>> {
    let mut lines = memory.iter().copied();
    let mut rest: &[u8] = &[];
    let mut take = |mut bytes: usize| {
        let mut own = Vec::new();
        while bytes > 0 {
            if rest.is_empty() {
                rest = lines.next().expect("groups are as long as memory");
            }
            let (now, later) = rest.split_at(bytes.min(rest.len()));
            rest = later;
            bytes -= now.len();
            own.extend((!now.is_empty()).then_some(now));
        }
        own
    };
    groups.iter().map(|group| take((group.memory.end - group.memory.start) as usize)).collect()
}

/// The same, to be written.
pub fn split_mut<'a>(memory: &'a mut [&mut [u8]], groups: &[Group]) -> Vec<Vec<&'a mut [u8]>> {
    let mut lines = memory.iter_mut();
    let mut rest: &'a mut [u8] = &mut [];
    let mut take = |mut bytes: usize| {
        let mut own = Vec::new();
        while bytes > 0 {
            if rest.is_empty() {
                rest = lines.next().expect("groups are as long as memory");
            }
            let length = rest.len();
            let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes.min(length));
            rest = later;
            bytes -= now.len();
            own.extend((!now.is_empty()).then_some(now));
        }
        own
    };
    groups.iter().map(|group| take((group.memory.end - group.memory.start) as usize)).collect()
}

/// Fills a range of memory with zeros.
pub fn zero(memory: &mut [&mut [u8]], range: Range<u64>) {
    let mut start = 0;
    for line in memory {
        let length = line.len() as u64;
        let from = range.start.clamp(start, start + length) - start;
        let to = range.end.clamp(start, start + length) - start;
        line[from as usize..to as usize].fill(0);
        start += length;
    }
}

/// How many bytes of ascending pieces lie in a file of so many bytes.
pub fn below(pieces: &[Segment], bytes: u64) -> u64 {
    pieces.iter().map(|piece| bytes.saturating_sub(piece.offset as u64).min(piece.bytes)).sum()
}
