//! Pieces of a client's access at one server, some at a time: those of a range, of a view, or of a list.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::{Segment, Tiles};

use super::stripes::{Ground, Stripes};
use super::wire::{self, Selection, Token};
use crate::driver::Driver;

/// Maximum number of pieces that are moved at a time.
const CHUNK_PIECES: usize = 4096;

/// File that a client has open.
#[derive(Debug)]
pub struct File {
    /// Driver for the bytes of the file.
    pub driver: Arc<dyn Driver>,
    /// Ticket with which the client requests the open file.
    pub ticket: Token,
    /// Striping of the file.
    pub stripes: Stripes,
    /// Number of this server in the striping.
    pub server: u32,
    /// Views that the client has sent.
    pub views: BTreeMap<u32, Arc<Tiles>>,
    /// Error of an earlier sync, repeated until the file is closed.
    pub unsynced: Arc<Mutex<Option<Error>>>,
}

/// Pieces of an access, one after the other.
#[derive(Debug)]
pub struct Walk {
    source: Source,
    /// End of the last piece: the next ones must lie after it.
    end: i64,
}

#[derive(Debug)]
enum Source {
    Ground { ground: Ground, stripes: Stripes, server: u32, rest: Range<u64> },
    List { pieces: std::vec::IntoIter<Segment>, rest: Option<Segment> },
}

/// Creates an error of this class.
#[cold]
pub fn wrong(class: ErrorClass, why: &str) -> Error {
    Error::new(class, why.to_string())
}

impl Walk {
    /// Starts the walk over an access to an open file.
    ///
    /// # Errors
    /// `Arg` for an invalid place, `Io` for a view that was not sent.
    pub fn new(file: &File, place: Selection) -> Result<Walk> {
        let range = |start: u64, bytes: u64| {
            let end = start.checked_add(bytes).filter(|end| i64::try_from(*end).is_ok());
            end.map(|end| start..end).ok_or_else(|| wrong(ErrorClass::Arg, "a range beyond what files have"))
        };
        let (ground, rest) = match place {
            Selection::Run { offset, bytes } => (Ground::File, range(offset, bytes)?),
            Selection::View { number, stream, bytes } => {
                let view = file.views.get(&number).cloned();
                let view = view.ok_or_else(|| wrong(ErrorClass::Io, "a view that was not told"))?;
                (Ground::View(view), range(stream, bytes)?)
            }
            Selection::List(list) => {
                let pieces = wire::pieces(&list).filter(|_| list.len() <= wire::MOST_PIECES);
                let pieces = pieces.ok_or_else(|| wrong(ErrorClass::Arg, "pieces that make no sense"))?;
                return Ok(Walk { source: Source::List { pieces: pieces.into_iter(), rest: None }, end: 0 });
            }
        };
        Ok(Walk {
            source: Source::Ground { ground, stripes: file.stripes, server: file.server, rest },
            end: 0,
        })
    }

    /// Returns the next pieces, of at most `bytes` in all; none at the end.
    ///
    /// # Errors
    /// `Arg` for pieces that do not ascend.
    pub fn take(&mut self, bytes: u64) -> Result<Vec<Segment>> {
        let mut pieces = Vec::new();
        let mut left = bytes;
        while left > 0 && pieces.len() < CHUNK_PIECES {
            let first = pieces.len();
            let covered = self.more(left, &mut pieces);
            if covered == 0 {
                break;
            }
            for piece in &pieces[first..] {
                let end = piece.offset.checked_add_unsigned(piece.bytes);
                let end = end.filter(|_| piece.offset >= self.end && piece.bytes > 0);
                self.end = end.ok_or_else(|| wrong(ErrorClass::Arg, "pieces that do not ascend"))?;
            }
            left -= covered.min(left);
        }
        pieces.dedup_by(|next, last| {
            let touches = last.offset + last.bytes as i64 == next.offset;
            last.bytes += if touches { next.bytes } else { 0 };
            touches
        });
        Ok(pieces)
    }

    fn more(&mut self, most: u64, pieces: &mut Vec<Segment>) -> u64 {
        match &mut self.source {
            Source::List { pieces: list, rest } => {
                let Some(piece) = rest.take().or_else(|| list.next()) else { return 0 };
                let bytes = piece.bytes.min(most);
                if bytes < piece.bytes {
                    *rest = Some(Segment { offset: piece.offset + bytes as i64, bytes: piece.bytes - bytes });
                }
                pieces.push(Segment { offset: piece.offset, bytes });
                bytes
            }
            Source::Ground { ground, stripes, server, rest } => {
                let Some(part) = ground.next_part(rest, stripes, *server) else { return 0 };
                let end = part.end.min(part.start + most);
                let covered = ground.runs(part.start..end, pieces, CHUNK_PIECES - pieces.len());
                rest.start = part.start + covered;
                covered
            }
        }
    }
}
