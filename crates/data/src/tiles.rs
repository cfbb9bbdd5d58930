//! A [`Tiling`] from a displacement on: what of a file a process sees, as others know it (MPI-5 section
//! 14.3).
//!
//! A place in it is a number of *stream bytes*: bytes before it. Nothing is flattened; all questions are
//! answered in the depth of the type.

use std::ops::Range;

use tutti_base::Result;

use crate::{Segment, Tiling};

/// See the module.
#[derive(Debug)]
pub struct Tiles {
    displacement: i64,
    tiling: Tiling,
}

impl Tiles {
    /// From a displacement on.
    pub fn new(displacement: i64, tiling: Tiling) -> Tiles {
        Tiles { displacement, tiling }
    }

    /// What is repeated.
    pub fn tiling(&self) -> &Tiling {
        &self.tiling
    }

    /// For others.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.displacement.to_le_bytes().to_vec();
        bytes.extend(self.tiling.encode());
        bytes
    }

    /// What [`Tiles::encode`] gave.
    ///
    /// # Errors
    /// `Intern` for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Tiles> {
        let (displacement, tiling) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        Ok(Tiles { displacement: i64::from_le_bytes(*displacement), tiling: Tiling::decode(tiling)? })
    }

    /// Stream bytes that lie in the first `bytes` of the file.
    pub fn stream_below(&self, bytes: u64) -> u64 {
        let limit = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_sub(self.displacement);
        self.tiling.bytes_below(limit)
    }

    /// Of a range of the stream, what lies in a range of the file.
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

    /// Where in the file a stream byte is.
    pub fn byte_of(&self, stream: u64) -> Option<u64> {
        let mut run = Vec::new();
        self.runs(stream..stream.checked_add(1)?, &mut run, 1);
        run.first().and_then(|run| u64::try_from(run.offset).ok())
    }

    /// Where in the file a range of the stream begins and ends.
    pub fn span(&self, stream: &Range<u64>) -> Option<Range<u64>> {
        if stream.is_empty() {
            return None;
        }
        Some(self.byte_of(stream.start)?..self.byte_of(stream.end - 1)? + 1)
    }
}
