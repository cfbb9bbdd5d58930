//! The program of a datatype: which runs of memory, in packed order.
//!
//! Built bottom-up and kept normal: neighbouring runs merge, a loop over touching runs is one run, a
//! loop whose stride continues its body's loop is one loop, an indexed list with a constant step is a
//! loop. Loops are never unrolled, so the size follows the constructor's arguments, not the data.

use crate::facts::Algebra;
use crate::predefined::{self, Predefined};
use crate::walk::{self, Visitor};
use std::sync::Arc;
use tutti_base::Result;

/// The basic type of a run: 0 where it does not matter, else a code of a predefined scalar.
pub(crate) type Unit = u32;

/// A part of the program. Offsets are bytes from where the part starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Where the first run starts (not the lowest one).
    pub offset: i64,
    /// Bytes of data.
    pub size: u64,
    /// Runs of memory, saturating.
    pub runs: u64,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `size` bytes.
    Run { unit: Unit },
    /// `body`, `count` times, `stride` bytes apart.
    Loop { count: u64, stride: i64, body: Arc<Shape> },
    /// `body` at every offset.
    List { offsets: Arc<[i64]>, body: Arc<Shape> },
    /// Runs of different lengths.
    Table { entries: Arc<[Entry]>, unit: Unit },
    /// Anything else, one after the other.
    Parts { parts: Arc<[Part]> },
}

/// A run of a table; it ends where the next one starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub offset: i64,
    /// Packed bytes before this run.
    pub start: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Packed bytes before this part.
    pub start: u64,
    pub shape: Shape,
}

impl Shape {
    const EMPTY: Shape = Shape { offset: 0, size: 0, runs: 0, kind: Kind::Run { unit: 0 } };

    /// One basic item; `typed` keeps it apart from items of other types.
    pub fn item(row: &'static Predefined, typed: bool) -> Shape {
        Shape::run(0, u64::from(row.bytes), if typed { row.code } else { 0 })
    }

    /// So many bytes, whatever they mean.
    pub fn bytes(bytes: u64) -> Shape {
        Shape::run(0, bytes, 0)
    }

    fn run(offset: i64, size: u64, unit: Unit) -> Shape {
        Shape { offset, size, runs: 1, kind: Kind::Run { unit } }
    }

    fn moved(mut self, displacement: i64) -> Shape {
        // Wrapping only matters for parts without data, whose offset means nothing.
        self.offset = self.offset.wrapping_add(displacement);
        self
    }

    fn looped(mut self, count: u64, stride: i64) -> Shape {
        match &self.kind {
            _ if count == 0 || self.size == 0 => Shape::EMPTY,
            _ if count == 1 => self,
            Kind::Run { .. } if u64::try_from(stride) == Ok(self.size) => {
                self.size *= count;
                self
            }
            Kind::Loop { count: inner, stride: step, body }
                if i128::from(*inner) * i128::from(*step) == i128::from(stride) =>
            {
                let kind = Kind::Loop { count: inner * count, stride: *step, body: body.clone() };
                Shape {
                    offset: self.offset,
                    size: self.size * count,
                    runs: self.runs.saturating_mul(count),
                    kind,
                }
            }
            _ => {
                let (offset, size, runs) = (self.offset, self.size * count, self.runs.saturating_mul(count));
                self.offset = 0;
                Shape { offset, size, runs, kind: Kind::Loop { count, stride, body: Arc::new(self) } }
            }
        }
    }

    /// `body` at each of `offsets`, of which there is at least one.
    fn listed(offsets: Vec<i64>, body: Shape) -> Shape {
        let (first, count) = (offsets[0] + body.offset, offsets.len() as u64);
        if count == 1 {
            return body.moved(offsets[0]);
        }
        let stride = offsets[1] - offsets[0];
        if offsets.windows(2).all(|pair| pair[1] - pair[0] == stride) {
            return body.moved(offsets[0]).looped(count, stride);
        }
        let (size, runs) = (body.size * count, body.runs.saturating_mul(count));
        let offsets: Arc<[i64]> = offsets.iter().map(|offset| offset - offsets[0]).collect();
        let body = Arc::new(Shape { offset: 0, ..body });
        Shape { offset: first, size, runs, kind: Kind::List { offsets, body } }
    }

    /// Basic items in a shape whose runs carry their types.
    pub fn elements(&self) -> u64 {
        match &self.kind {
            Kind::Run { unit } | Kind::Table { unit, .. } => self.size / unit_bytes(*unit),
            Kind::Loop { count, body, .. } => count * body.elements(),
            Kind::List { offsets, body } => offsets.len() as u64 * body.elements(),
            Kind::Parts { parts } => parts.iter().map(|part| part.shape.elements()).sum(),
        }
    }

    /// Basic items in the first `bytes` packed bytes, or `None` if they end within an item.
    pub fn elements_before(&self, bytes: u64) -> Option<u64> {
        match &self.kind {
            _ if bytes >= self.size => Some(self.elements()),
            Kind::Run { unit } | Kind::Table { unit, .. } => {
                bytes.is_multiple_of(unit_bytes(*unit)).then(|| bytes / unit_bytes(*unit))
            }
            Kind::Loop { body, .. } | Kind::List { body, .. } => {
                let rest = body.elements_before(bytes % body.size)?;
                Some(bytes / body.size * body.elements() + rest)
            }
            Kind::Parts { parts } => {
                let begun = parts.iter().take_while(|part| part.start < bytes);
                begun.map(|part| part.shape.elements_before(bytes - part.start)).sum()
            }
        }
    }

    /// Bytes in external32 of a shape whose runs carry their types, saturating.
    pub fn external_size(&self) -> u64 {
        match &self.kind {
            _ if self.size == 0 => 0,
            Kind::Run { unit } | Kind::Table { unit, .. } => {
                let row = predefined::scalar(*unit);
                (self.size / u64::from(row.bytes)).saturating_mul(u64::from(row.external))
            }
            Kind::Loop { count, body, .. } => body.external_size().saturating_mul(*count),
            Kind::List { offsets, body } => body.external_size().saturating_mul(offsets.len() as u64),
            Kind::Parts { parts } => {
                parts.iter().map(|part| part.shape.external_size()).fold(0, u64::saturating_add)
            }
        }
    }
}

fn unit_bytes(unit: Unit) -> u64 {
    match unit {
        0 => 1,
        code => u64::from(predefined::scalar(code).bytes),
    }
}

impl Algebra for Shape {
    fn repeat(self, count: i64, stride: i64) -> Result<Shape> {
        Ok(self.looped(count as u64, stride))
    }

    fn join(parts: impl Iterator<Item = Result<(i64, Shape)>>) -> Result<Shape> {
        let mut shapes = Vec::with_capacity(parts.size_hint().0);
        for part in parts {
            let (displacement, shape) = part?;
            if shape.size > 0 {
                shapes.push(shape.moved(displacement));
            }
        }
        Ok(sequence(shapes))
    }

    fn bounded(self, _lb: i64, _ub: i64) -> Shape {
        self
    }
}

/// Parts with this many runs or fewer are written out among their neighbours.
const INLINE_RUNS: u64 = 16;
/// Unless there are more parts than this.
const INLINE_PARTS: usize = 4096;

fn sequence(shapes: Vec<Shape>) -> Shape {
    let Some(first) = shapes.first() else { return Shape::EMPTY };
    if !matches!(first.kind, Kind::Run { .. })
        && shapes.iter().all(|shape| shape.size == first.size && shape.kind == first.kind)
    {
        let body = Shape { offset: 0, ..first.clone() };
        return Shape::listed(shapes.iter().map(|shape| shape.offset).collect(), body);
    }
    let inline = if shapes.len() <= INLINE_PARTS { INLINE_RUNS } else { 1 };
    let mut builder = Builder::default();
    for shape in shapes {
        match shape.runs <= inline {
            true => _ = walk::whole(&mut builder, &shape, 0),
            false => builder.part(shape),
        }
    }
    builder.finish()
}

/// Merges runs as they come and keeps what cannot merge.
#[derive(Default)]
struct Builder {
    /// Runs not yet made into a part, all of `unit`.
    runs: Vec<(i64, u64)>,
    unit: Unit,
    parts: Vec<Shape>,
}

impl Visitor for Builder {
    fn run(&mut self, offset: i64, bytes: u64, unit: Unit) -> bool {
        if unit != self.unit {
            self.flush();
            self.unit = unit;
        }
        match self.runs.last_mut() {
            Some(last) if last.0.checked_add_unsigned(last.1) == Some(offset) => last.1 += bytes,
            _ => self.runs.push((offset, bytes)),
        }
        true
    }
}

impl Builder {
    fn part(&mut self, shape: Shape) {
        self.flush();
        self.parts.push(shape);
    }

    fn flush(&mut self) {
        let Some(&(first, bytes)) = self.runs.first() else { return };
        let runs = std::mem::take(&mut self.runs);
        if runs.iter().all(|run| run.1 == bytes) {
            let offsets = runs.iter().map(|run| run.0).collect();
            return self.parts.push(Shape::listed(offsets, Shape::run(0, bytes, self.unit)));
        }
        let mut size = 0;
        let entry = |run: &(i64, u64)| {
            let start = size;
            size += run.1;
            Entry { offset: run.0 - first, start }
        };
        let entries: Arc<[Entry]> = runs.iter().map(entry).collect();
        let kind = Kind::Table { entries, unit: self.unit };
        self.parts.push(Shape { offset: first, size, runs: runs.len() as u64, kind });
    }

    fn finish(mut self) -> Shape {
        self.flush();
        if self.parts.len() == 1 {
            return self.parts.remove(0);
        }
        let (mut size, mut runs) = (0, 0u64);
        let part = |shape: Shape| {
            let start = size;
            size += shape.size;
            runs = runs.saturating_add(shape.runs);
            Part { start, shape }
        };
        let parts: Arc<[Part]> = self.parts.into_iter().map(part).collect();
        Shape { offset: 0, size, runs, kind: Kind::Parts { parts } }
    }
}
