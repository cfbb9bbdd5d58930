//! Datatype repeated without end, without the datatype object: the knowledge that members of a file have of
//! each other's views.
//!
//! It travels as its shape: a byte for the kind of a part and numbers of eight bytes. It is as long as the
//! constructors' arguments and never as long as the data. Incoming bytes are checked once; afterwards they
//! are a shape like any other.

use std::ops::Range;
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};

use crate::datatype::Datatype;
use crate::inverse;
use crate::layout::{Layout, Segment};
use crate::shape::{Entry, Kind, Part, Shape};

/// Layout of a datatype that is repeated without end.
pub struct Tiling {
    layout: Layout,
    extent: i64,
}

impl std::fmt::Debug for Tiling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tiling(size {}, extent {})", self.bytes(), self.extent)
    }
}

/// Highest nesting of incoming shapes.
const MOST_DEPTH: u32 = 500;

/// Codes of the kinds of parts in the encoding.
mod kind {
    pub const RUN: u8 = 0;
    pub const LOOP: u8 = 1;
    pub const LIST: u8 = 2;
    pub const TABLE: u8 = 3;
    pub const PARTS: u8 = 4;
}

impl Tiling {
    /// Returns the tiling of a committed type.
    pub fn from_datatype(datatype: &Datatype) -> Tiling {
        let (shape, extent) = (datatype.layout().shape.clone(), datatype.extent());
        Tiling { layout: Layout::new(shape, extent), extent }
    }

    /// Returns the bytes of data of an item.
    pub fn bytes(&self) -> u64 {
        self.layout.shape.size
    }

    /// Returns the number of runs of memory of an item, saturating.
    pub fn runs(&self) -> u64 {
        self.layout.shape.runs
    }

    /// Returns the average length of a run when items follow one another; `u64::MAX` if they touch.
    pub fn mean_run(&self) -> u64 {
        let shape = &self.layout.shape;
        let touches = matches!(shape.kind, Kind::Run { .. }) && i64::try_from(shape.size) == Ok(self.extent);
        if touches { u64::MAX } else { shape.size / shape.runs.max(1) }
    }

    /// Returns the number of packed bytes below `offset`, like [`Datatype::bytes_below`].
    pub fn bytes_below(&self, offset: i64) -> u64 {
        inverse::endless_below(&self.layout, offset)
    }

    /// Appends the runs of a range of packed bytes, at most `limit`, like [`Datatype::segments`].
    pub fn segments(&self, packed: Range<u64>, out: &mut Vec<Segment>, limit: usize) -> u64 {
        self.layout.collect(packed, out, limit)
    }

    /// Encodes the tiling for other processes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.extent.to_le_bytes().to_vec();
        encode(&self.layout.shape, &mut out);
        out
    }

    /// Decodes the result of [`Tiling::encode`].
    ///
    /// # Errors
    /// `Intern` for malformed bytes.
    pub fn decode(bytes: &[u8]) -> Result<Tiling> {
        let mut input = Input(bytes);
        let read = |input: &mut Input<'_>| {
            let extent = input.number()?;
            let shape = decode(input, 0)?;
            input.0.is_empty().then_some((extent, shape))
        };
        let found = read(&mut input);
        let (extent, shape) = found.ok_or_else(|| {
            Error::new(ErrorClass::Intern, "the file view from another member is malformed")
        })?;
        Ok(Tiling { layout: Layout::new(shape, extent), extent })
    }
}

fn put(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn encode(shape: &Shape, out: &mut Vec<u8>) {
    let mut head = |kind: u8, count: u64| {
        out.push(kind);
        put(out, shape.offset);
        put(out, count as i64);
    };
    match &shape.kind {
        Kind::Run { .. } => head(kind::RUN, shape.size),
        Kind::Loop { count, stride, body } => {
            head(kind::LOOP, *count);
            put(out, *stride);
            encode(body, out);
        }
        Kind::List { offsets, body } => {
            head(kind::LIST, offsets.len() as u64);
            offsets.iter().for_each(|offset| put(out, *offset));
            encode(body, out);
        }
        Kind::Table { entries, .. } => {
            head(kind::TABLE, entries.len() as u64);
            let ends = entries.iter().skip(1).map(|entry| entry.start).chain([shape.size]);
            for (entry, end) in entries.iter().zip(ends) {
                put(out, entry.offset);
                put(out, (end - entry.start) as i64);
            }
        }
        Kind::Parts { parts } => {
            head(kind::PARTS, parts.len() as u64);
            parts.iter().for_each(|part| encode(&part.shape, out));
        }
    }
}

/// Encoded bytes that are still to be read.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<i64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(i64::from_le_bytes(*first))
    }

    /// Reads a number of parts, each of which takes at least `each` bytes.
    fn count(&mut self, each: usize) -> Option<u64> {
        let count = u64::try_from(self.number()?).ok()?;
        (count > 0 && count <= (self.0.len() / each) as u64).then_some(count)
    }

    fn positive(&mut self) -> Option<u64> {
        u64::try_from(self.number()?).ok().filter(|number| *number > 0)
    }
}

fn decode(input: &mut Input<'_>, depth: u32) -> Option<Shape> {
    if depth > MOST_DEPTH {
        return None;
    }
    let (kind, offset) = (input.byte()?, input.number()?);
    Some(match kind {
        kind::RUN => {
            let size = u64::try_from(input.number()?).ok()?;
            Shape { offset, size, runs: 1, kind: Kind::Run { unit: 0 } }
        }
        kind::LOOP => {
            let (count, stride) = (input.positive()?, input.number()?);
            let body = decode(input, depth + 1)?;
            let size = body.size.checked_mul(count).filter(|size| *size > 0)?;
            let runs = body.runs.saturating_mul(count);
            Shape { offset, size, runs, kind: Kind::Loop { count, stride, body: Arc::new(body) } }
        }
        kind::LIST => {
            let count = input.count(8)?;
            let offsets: Arc<[i64]> = (0..count).map(|_| input.number()).collect::<Option<_>>()?;
            let body = decode(input, depth + 1)?;
            let size = body.size.checked_mul(count).filter(|size| *size > 0)?;
            let runs = body.runs.saturating_mul(count);
            Shape { offset, size, runs, kind: Kind::List { offsets, body: Arc::new(body) } }
        }
        kind::TABLE => {
            let (count, mut size) = (input.count(16)?, 0u64);
            let mut entries = Vec::with_capacity(count as usize);
            for _ in 0..count {
                entries.push(Entry { offset: input.number()?, start: size });
                size = size.checked_add(input.positive()?)?;
            }
            Shape { offset, size, runs: count, kind: Kind::Table { entries: entries.into(), unit: 0 } }
        }
        kind::PARTS => {
            let (count, mut size, mut runs) = (input.count(9)?, 0u64, 0u64);
            let mut parts = Vec::with_capacity(count as usize);
            for _ in 0..count {
                let shape = decode(input, depth + 1).filter(|shape| shape.size > 0)?;
                let start = size;
                size = size.checked_add(shape.size)?;
                runs = runs.saturating_add(shape.runs);
                parts.push(Part { start, shape });
            }
            Shape { offset, size, runs, kind: Kind::Parts { parts: parts.into() } }
        }
        _ => return None,
    })
}
