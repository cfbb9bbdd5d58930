//! Assignment of a file's bytes to servers. Pure.

use std::ops::Range;
use std::sync::Arc;

use tutti_data::{Segment, Tiles};

/// Striping of a file: stripes of equal length, assigned to servers in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    /// Length of a stripe in bytes.
    bytes: u64,
    /// Number of servers.
    count: u32,
}

impl Stripes {
    /// Returns a striping; `None` for a stripe length or number of servers of 0.
    pub fn new(bytes: u64, count: u32) -> Option<Stripes> {
        (bytes > 0 && bytes <= i64::MAX as u64 && count > 0).then_some(Stripes { bytes, count })
    }

    /// Returns the length of a stripe in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of servers.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the server of a byte.
    pub fn owner(&self, offset: u64) -> u32 {
        (offset / self.bytes % u64::from(self.count)) as u32
    }

    /// Returns the range of a server's first stripe that ends after `offset`.
    pub fn next_of(&self, server: u32, offset: u64) -> Range<u64> {
        let (number, count) = (offset / self.bytes, u64::from(self.count));
        let own = number + (u64::from(server) + count - number % count) % count;
        let start = own.saturating_mul(self.bytes);
        start..start.saturating_add(self.bytes)
    }

    /// Returns the parts of a range of the file at a server, ascending.
    pub fn parts(self, range: Range<u64>, server: u32) -> impl Iterator<Item = Range<u64>> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let stripe = self.next_of(server, at);
            let part = stripe.start.max(at)..stripe.end.min(range.end);
            at = stripe.end;
            (part.start < part.end).then_some(part)
        })
    }

    /// Cuts pieces at the ends of stripes. Calls `each` for every part with its server, the part, and its
    /// position in the packed bytes.
    pub fn cut(&self, pieces: &[Segment], mut each: impl FnMut(u32, Segment, u64)) {
        let mut position = 0;
        for piece in pieces {
            let (mut at, end) = (piece.offset as u64, piece.offset as u64 + piece.bytes);
            while at < end {
                let bytes = (self.bytes - at % self.bytes).min(end - at);
                each(self.owner(at), Segment { offset: at as i64, bytes }, position);
                (at, position) = (at + bytes, position + bytes);
            }
        }
    }
}

/// Meaning of the positions in a stream.
#[derive(Clone, Debug)]
pub enum Ground {
    /// The file itself: stream positions are file offsets.
    File,
    /// A view: stream positions count the bytes that it selects.
    View(Arc<Tiles>),
}

impl Ground {
    /// Returns the file offset of a stream position.
    pub fn byte_of(&self, stream: u64) -> Option<u64> {
        match self {
            Ground::File => Some(stream),
            Ground::View(tiles) => tiles.byte_of(stream),
        }
    }

    /// Returns the number of stream bytes within the first `bytes` of the file.
    pub fn stream_below(&self, bytes: u64) -> u64 {
        match self {
            Ground::File => bytes,
            Ground::View(tiles) => tiles.stream_below(bytes),
        }
    }

    /// Appends the contiguous pieces of the file for a range of the stream, at most `limit`. Returns the
    /// number of stream bytes that they cover.
    pub fn runs(&self, stream: Range<u64>, runs: &mut Vec<Segment>, limit: usize) -> u64 {
        match self {
            Ground::File => {
                let bytes = stream.end - stream.start;
                runs.push(Segment { offset: stream.start as i64, bytes });
                bytes
            }
            Ground::View(tiles) => tiles.runs(stream, runs, limit),
        }
    }

    /// Returns the first part of a stream range that lies at a server, within one stripe. Client and server
    /// compute the same parts, in the same order. Returns `None` at the end, and for a view whose pieces do
    /// not ascend.
    pub fn next_part(&self, stream: &Range<u64>, stripes: &Stripes, server: u32) -> Option<Range<u64>> {
        let (mut at, mut after) = (stream.start, 0);
        while at < stream.end {
            let offset = self.byte_of(at).filter(|offset| *offset >= after)?;
            let stripe = stripes.next_of(server, offset);
            let start = self.stream_below(stripe.start).clamp(at, stream.end);
            let end = self.stream_below(stripe.end).clamp(start, stream.end);
            if start < end {
                return Some(start..end);
            }
            (at, after) = (start, stripe.end);
        }
        None
    }

    /// Returns all parts of a stream range that lie at a server.
    pub fn parts(
        &self,
        stream: Range<u64>,
        stripes: Stripes,
        server: u32,
    ) -> impl Iterator<Item = Range<u64>> {
        let mut rest = stream;
        std::iter::from_fn(move || {
            let part = self.next_part(&rest, &stripes, server)?;
            rest.start = part.end;
            Some(part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tutti_data::{Datatype, Form, Tiling};

    fn view(piece: i64, gap: i64, displacement: i64) -> Ground {
        let byte = Datatype::predefined(0x247).unwrap();
        let block = Datatype::create_contiguous(piece, byte, Form::Int).unwrap();
        let tile = Datatype::create_resized(0, piece + gap, &block, Form::Int).unwrap();
        tile.commit();
        Ground::View(Arc::new(Tiles::new(displacement, Tiling::from_datatype(&tile))))
    }

    fn check(range: Range<u64>, server: u32, expected: &[(u64, u64)]) {
        let stripes = Stripes::new(10, 3).unwrap();
        let parts: Vec<(u64, u64)> =
            stripes.parts(range, server).map(|part| (part.start, part.end)).collect();
        assert_eq!(parts, expected);
    }

    #[test]
    fn stripes_are_dealt_in_turn() {
        check(5..45, 0, &[(5, 10), (30, 40)]);
        check(5..45, 1, &[(10, 20), (40, 45)]);
        check(5..45, 2, &[(20, 30)]);
        check(5..6, 2, &[]);
    }

    #[test]
    fn pieces_are_cut_at_stripes() {
        let mut cut = Vec::new();
        let pieces = [Segment { offset: 8, bytes: 14 }, Segment { offset: 100, bytes: 1 }];
        let each = |server, piece: Segment, position| cut.push((server, piece.offset, piece.bytes, position));
        Stripes::new(10, 3).unwrap().cut(&pieces, each);
        assert_eq!(cut, [(0, 8, 2, 0), (1, 10, 10, 2), (2, 20, 2, 12), (1, 100, 1, 14)]);
    }

    proptest! {
        /// Checks that every stream byte has one owner, which is that of its byte in the file.
        #[test]
        fn parts_cover_a_range_once(
            piece in 1i64..40, gap in 0i64..90, displacement in 0i64..50, stream in 0u64..200, bytes in 0u64..500,
            stripe in 1u64..60, count in 1u32..6, plain in any::<bool>(),
        ) {
            let ground = if plain { Ground::File } else { view(piece, gap, displacement) };
            let stripes = Stripes::new(stripe, count).unwrap();
            let mut owners = vec![None; bytes as usize];
            for server in 0..count {
                for part in ground.parts(stream..stream + bytes, stripes, server) {
                    for at in part {
                        prop_assert_eq!(owners[(at - stream) as usize].replace(server), None);
                        prop_assert_eq!(stripes.owner(ground.byte_of(at).unwrap()), server);
                    }
                }
            }
            prop_assert!(owners.iter().all(Option::is_some));
        }
    }
}
