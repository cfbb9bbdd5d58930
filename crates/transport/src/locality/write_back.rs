//! Memory that distant peers have read is written back to main memory before its owner writes it again.
//!
//! A line that a core of another last-level cache holds has to be taken back from it before it is written,
//! one by one. A program that rewrites 64 KiB after exposing them waits 30 us for that instead of 6 (EPYC,
//! cores of different last-level caches; 8 and 6 within one). The owner writes such lines back and drops them
//! when all peers are done with them, which takes 5 us. The program then fetches them from memory.
//!
//! It pays only where peers are far and the content changes between exposures. No interface reports the
//! distance: a hypervisor moves processors about. Hence an owner that waits for its peers measures now and
//! then the latency of the line by which one of them reports that it is done. A change of content shows in
//! some sampled words.
//!
//! # Safety
//! Memory is looked at when it is about to be lent for being read, and dropped from the caches when it is
//! withdrawn: as long as it is lent its owner has promised that it is valid and that nobody writes it.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tutti_base::config::MappedHome;
use tutti_sys::cache;
use tutti_sys::job::{Distance, Job};

use super::CoreDistance;
use super::estimate::{is_far, voted};
use super::limits::{DUE_LOANS, DUE_WAITS, MOST_VOTES, WRITTEN_BACK_BYTES};
use crate::buffers::{BUFFERS, place};

/// Words of the content that are looked at, at least one of each piece.
const WORDS: usize = 8;
const WORD_BYTES: u64 = size_of::<u64>() as u64;
/// Memory in more pieces is left alone, and what is lent while so much else is.
const PIECES: usize = 1024;
const AT_ONCE: usize = 256;
/// Number of changes in a row after which another change is likely.
const CHANGES: u32 = 2;

/// State of an owner about the content of its buffers and the distance of its peers.
#[derive(Debug)]
pub(crate) struct WriteBack {
    /// Setting; never, where the processor cannot write back.
    setting: MappedHome,
    loans: u32,
    /// Highest number of waits that are still to observe the distance of the peers.
    due_waits: u32,
    /// Memory that is exposed in pieces and to be written back, by number.
    pieces: Vec<(u32, Box<[Piece]>)>,
    last: u32,
    /// Job that shares observations among the ranks of a host, as ranks that share processors rarely find
    /// any.
    job: Option<Arc<Job>>,
    /// Distance observed by a process without a job.
    own: Distance,
    seen: Box<[Seen; BUFFERS]>,
}

/// Address and length in bytes of exposed memory.
pub(crate) type Piece = (*mut u8, u64);

/// Number of an exposure that is written back as a whole.
pub(crate) const WHOLE: u32 = 1;

/// A buffer, what it held when it was lent last, and how often in a row that was something new.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    start: u64,
    bytes: u64,
    content: u64,
    changes: u32,
}

// SAFETY: the addresses are of memory that is lent, which is bound to operations and not to threads.
unsafe impl Send for WriteBack {}

impl WriteBack {
    pub(crate) fn new(setting: MappedHome) -> WriteBack {
        WriteBack {
            setting: if cache::can_drop_lines() { setting } else { MappedHome::Never },
            loans: 0,
            due_waits: 0,
            pieces: Vec::new(),
            last: WHOLE,
            job: None,
            own: Distance::default(),
            seen: Box::new([Seen::default(); BUFFERS]),
        }
    }

    /// Shares observations with the other ranks of a host.
    pub(crate) fn of_job(self, job: Arc<Job>) -> WriteBack {
        WriteBack { job: Some(job), ..self }
    }

    /// Decides whether memory that is about to be exposed as a whole is written back afterwards. Returns
    /// [`WHOLE`], or 0.
    ///
    /// # Safety
    /// It can be read, and nobody writes it.
    #[inline]
    pub(crate) unsafe fn of_whole(&mut self, piece: Piece) -> u32 {
        // SAFETY: the caller's promise.
        u32::from(self.pays(piece.1) && unsafe { self.changes(std::iter::once(piece)) }) * WHOLE
    }

    /// Decides whether memory in pieces is written back afterwards. Returns a number for [`WriteBack::take`],
    /// or 0.
    ///
    /// # Safety
    /// As for [`WriteBack::of_whole`].
    pub(crate) unsafe fn of_pieces(&mut self, pieces: impl Iterator<Item = Piece> + Clone) -> u32 {
        let (count, bytes) = pieces.clone().fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes));
        // SAFETY: the caller's promise.
        let pays = count <= PIECES
            && self.pieces.len() < AT_ONCE
            && self.pays(bytes)
            && unsafe { self.changes(pieces.clone().filter(|one| one.1 >= WORD_BYTES)) };
        if !pays {
            return 0;
        }
        self.last = self.last.wrapping_add(1).max(WHOLE + 1);
        self.pieces.push((self.last, pieces.collect()));
        self.last
    }

    /// Returns the pieces of this number, which are withdrawn.
    pub(crate) fn take(&mut self, number: u32) -> Box<[Piece]> {
        let place = self.pieces.iter().position(|&(other, _)| other == number);
        place.map_or_else(Box::default, |place| self.pieces.swap_remove(place).1)
    }

    /// Returns true if it pays for so many bytes, if they change.
    #[inline]
    fn pays(&mut self, bytes: u64) -> bool {
        match self.setting {
            MappedHome::Never => return false,
            MappedHome::Always => return true,
            MappedHome::Auto if !WRITTEN_BACK_BYTES.contains(&bytes) => return false,
            MappedHome::Auto => {}
        }
        self.loans = self.loans.wrapping_add(1);
        if self.loans.is_multiple_of(DUE_LOANS) {
            self.due_waits = DUE_WAITS;
        }
        is_far(self.distance().votes.load(Ordering::Relaxed) as u8)
    }

    /// Returns true if the next wait for a peer is to observe how far it is.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due_waits > 0
    }

    /// Notes the observed distance of a peer; `None` if it could not be determined.
    pub(crate) fn note(&mut self, distance: Option<CoreDistance>) {
        self.due_waits = if distance.is_some() { 0 } else { self.due_waits.saturating_sub(1) };
        let votes = &self.distance().votes;
        let before = votes.load(Ordering::Relaxed) as u8;
        let after = distance.map_or(before, |distance| voted(before, distance, MOST_VOTES));
        if after != before {
            votes.store(after.into(), Ordering::Relaxed);
        }
    }

    fn distance(&self) -> &Distance {
        self.job.as_ref().map_or(&self.own, |job| &job.node().distance)
    }

    /// Returns true if the content is another one each time. No piece is shorter than a word.
    ///
    /// # Safety
    /// As for [`WriteBack::of_whole`].
    unsafe fn changes(&mut self, pieces: impl Iterator<Item = Piece> + Clone) -> bool {
        let Some((first, _)) = pieces.clone().next() else { return false };
        let words = (WORDS / pieces.clone().count()).max(1) as u64;
        let (mut content, mut bytes) = (0u64, 0);
        for (start, length) in pieces {
            for word in 0..words {
                // In the middle of as many parts.
                let at = (length * (2 * word + 1) / (2 * words)).min(length - WORD_BYTES);
                // SAFETY: the caller's promise; the word is within the piece.
                let read = unsafe { start.add(at as usize).cast::<u64>().read_unaligned() };
                content = (content.rotate_left(7) ^ read).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
            bytes += length;
        }
        self.is_new(first as u64, bytes, content) || self.setting == MappedHome::Always
    }

    /// Returns true if what begins at `start` holds something new each time it is lent, this time `content`.
    fn is_new(&mut self, start: u64, bytes: u64, content: u64) -> bool {
        let seen = &mut self.seen[place(start)];
        let is_it = seen.start == start && seen.bytes == bytes;
        let changes = if is_it && seen.content != content { seen.changes + 1 } else { 0 };
        *seen = Seen { start, bytes, content, changes: changes.min(CHANGES) };
        changes >= CHANGES
    }
}

/// Drops from the caches what peers have read.
///
/// # Safety
/// It is valid still, as it was lent; and it was found that it is to be written back.
pub(crate) unsafe fn write_back(pieces: &[Piece]) {
    for &(start, bytes) in pieces {
        // SAFETY: the caller's promise; that it is to be done says only who can.
        unsafe { cache::drop_lines(start, bytes as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks which exposures of memory, in this many pieces and with these contents in turn, are written
    /// back.
    fn check_loans(pieces: usize, contents: &[u8], expected: &[bool]) {
        let mut written = WriteBack::new(MappedHome::Auto);
        written.note(Some(CoreDistance::Far));
        let mut memory = vec![0u8; 100_000];
        let got = contents.iter().map(|&content| {
            memory.fill(content);
            let base = memory.as_mut_ptr();
            let length = 100_000 / pieces;
            // SAFETY: the vector's own memory, which nobody writes meanwhile.
            unsafe {
                match pieces {
                    1 => written.of_whole((base, 100_000)),
                    _ => {
                        written.of_pieces((0..pieces).map(|piece| (base.add(piece * length), length as u64)))
                    }
                }
            }
        });
        let got: Vec<u32> = got.collect();
        let homed: Vec<bool> = got.iter().map(|&number| number != 0).collect();
        let expected = if cache::can_drop_lines() { expected.to_vec() } else { vec![false; expected.len()] };
        assert_eq!(homed, expected, "{pieces} {contents:?}");
        for number in got.into_iter().filter(|&number| number > WHOLE) {
            assert_eq!(written.take(number).len(), pieces);
        }
        assert!(written.pieces.is_empty());
    }

    #[test]
    fn what_changes_each_time_is_written_back() {
        let (contents, expected) =
            ([1, 2, 3, 4, 4, 5, 6, 7], [false, false, true, true, false, false, true, true]);
        for pieces in [1, 2, 3, 7, 100, PIECES] {
            check_loans(pieces, &contents, &expected);
            check_loans(pieces, &[1, 1, 1], &[false; 3]);
        }
        check_loans(PIECES + 1, &contents, &[false; 8]);
    }

    #[test]
    fn buffers_that_take_each_others_place_are_told_apart() {
        let mut written = WriteBack::new(MappedHome::Auto);
        for content in 0..100 {
            let (first, second) =
                (written.is_new(4096, 65536, content), written.is_new(4096, 32768, content));
            assert!(!first && !second);
        }
    }

    #[test]
    fn only_what_is_of_the_right_length_is_looked_at() {
        let mut written = WriteBack::new(MappedHome::Auto);
        written.note(Some(CoreDistance::Far));
        assert!(
            !written.pays(*WRITTEN_BACK_BYTES.start() - 1) && !written.pays(*WRITTEN_BACK_BYTES.end() + 1)
        );
        assert_eq!(written.pays(*WRITTEN_BACK_BYTES.start()), cache::can_drop_lines());
    }
}
