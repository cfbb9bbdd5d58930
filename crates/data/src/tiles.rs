//! A [`Tiling`] from a displacement on: the part of a file that a process sees, as other processes know it
//! (MPI-5 section 14.3).
//!
//! A position in it is a number of *stream bytes*: the bytes before it. Nothing is flattened; all questions
//! are answered in the depth of the type.

use std::ops::Range;

use tutti_base::Result;

use crate::{Segment, Tiling};

/// File view of a process: a tiling that begins at a displacement.
#[derive(Debug)]
pub struct Tiles {
    displacement: i64,
    tiling: Tiling,
}

impl Tiles {
    /// Creates the view that begins at `displacement` and repeats `tiling`.
    pub fn new(displacement: i64, tiling: Tiling) -> Tiles {
        Tiles { displacement, tiling }
    }

    /// Returns the tiling that the view repeats.
    pub fn tiling(&self) -> &Tiling {
        &self.tiling
    }

    /// Encodes the view for other processes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.displacement.to_le_bytes().to_vec();
        bytes.extend(self.tiling.encode());
        bytes
    }

    /// Decodes the result of [`Tiles::encode`].
    ///
    /// # Errors
    /// `Intern` for malformed bytes.
    pub fn decode(bytes: &[u8]) -> Result<Tiles> {
        let (displacement, tiling) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        Ok(Tiles { displacement: i64::from_le_bytes(*displacement), tiling: Tiling::decode(tiling)? })
    }

    /// Returns the number of stream bytes in the first `bytes` bytes of the file.
    pub fn stream_below(&self, bytes: u64) -> u64 {
        let limit = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_sub(self.displacement);
        self.tiling.bytes_below(limit)
    }

    /// Returns the part of a range of the stream that lies in a range of the file.
    pub fn within(&self, stream: &Range<u64>, file: &Range<u64>) -> Range<u64> {
        let place = |end: u64| self.stream_below(end).clamp(stream.start, stream.end);
        place(file.start)..place(file.end)
    }

    /// Appends the runs of the file (offset, bytes) of a range of the stream, at most `limit`; how many
    /// stream bytes they cover.
    pub fn runs(&self, stream: Range<u64>, runs: &mut Vec<Segment>, limit: usize) -> u64 {
        let first = runs.len();
        let covered = self.tiling.segments(stream, runs, limit);
        runs[first..].iter_mut().for_each(|run| run.offset = run.offset.saturating_add(self.displacement));
        covered
    }

    /// Returns the position in the file of a stream byte.
    pub fn byte_of(&self, stream: u64) -> Option<u64> {
        let mut run = Vec::new();
        self.runs(stream..stream.checked_add(1)?, &mut run, 1);
        run.first().and_then(|run| u64::try_from(run.offset).ok())
    }

    /// Returns the range of the file from the first to the last byte of a range of the stream.
    pub fn span(&self, stream: &Range<u64>) -> Option<Range<u64>> {
        if stream.is_empty() {
            return None;
        }
        Some(self.byte_of(stream.start)?..self.byte_of(stream.end - 1)? + 1)
    }
}
