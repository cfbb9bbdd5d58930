//! Division of an access among servers, and its results. Memory and file are cut at the ends of stripes.
//! Consecutive pieces at the same server form a group.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

use tutti_base::Error;
use tutti_base::traffic::TRAFFIC;
use tutti_data::Segment;

use crate::driver::{Driver, Moved};
use crate::posix::Posix;

/// Consecutive bytes in memory that belong to one server.
#[derive(Debug)]
pub struct Group {
    /// Number of the server.
    pub server: usize,
    /// Pieces of the file; empty if a view determines them.
    pub pieces: Vec<Segment>,
    /// Range of the access's memory.
    pub memory: Range<u64>,
}

/// Results of an access at each server.
#[derive(Debug)]
pub struct Outcome {
    bytes: Vec<u64>,
    ended: Vec<bool>,
    fault: Option<Error>,
    failed: Vec<bool>,
}

impl Outcome {
    /// Returns the result before anything was moved.
    pub fn new(servers: usize) -> Outcome {
        Outcome {
            bytes: vec![0; servers],
            ended: vec![false; servers],
            fault: None,
            failed: vec![false; servers],
        }
    }

    /// Returns true if an error occurred at the server.
    pub fn has_failed(&self, server: usize) -> bool {
        self.failed[server]
    }

    /// Returns true if the server has no more data, or an error occurred there.
    pub fn has_ended(&self, server: usize) -> bool {
        self.failed[server] || self.ended[server]
    }

    /// Records an error of a server.
    pub fn fail(&mut self, server: usize, error: Error) {
        self.failed[server] = true;
        self.fault.get_or_insert(error);
    }

    /// Records a transfer at a server.
    pub fn add(&mut self, server: usize, moved: Moved) {
        self.bytes[server] += moved.bytes;
        if let Some(error) = moved.fault {
            self.fail(server, error);
        }
    }

    /// Records a transfer at a server. It has ended there if fewer bytes were moved than wanted.
    pub fn add_of(&mut self, server: usize, moved: Moved, wanted: u64) {
        self.ended[server] |= moved.bytes < wanted;
        self.add(server, moved);
    }

    /// Returns the ranges of memory whose bytes were not moved.
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

    /// Returns the transfer up to the first byte that was not moved.
    pub fn moved(&self, groups: &[Group]) -> Moved {
        let total = groups.last().map_or(0, |group| group.memory.end);
        let bytes = self.missing(groups).first().map_or(total, |missing| missing.start);
        Moved { bytes, fault: self.fault.clone() }
    }
}

/// Writes a group to the file that its server has lent.
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

/// Reads a group from the file that its server has lent.
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

/// Returns the memory of each group.
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

/// Returns the memory of each group, for writing to it.
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

/// Returns the number of bytes of ascending pieces within a file of `bytes` bytes.
pub fn below(pieces: &[Segment], bytes: u64) -> u64 {
    pieces.iter().map(|piece| bytes.saturating_sub(piece.offset as u64).min(piece.bytes)).sum()
}
