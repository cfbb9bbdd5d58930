//! Making the program of a datatype, bottom-up, and keeping it normal: neighbouring runs merge, a loop over
//! touching runs is one run, a loop whose stride continues its body's loop is one loop, an indexed list with
//! a constant step is a loop. Loops are never unrolled, so the size follows the constructor's arguments, not
//! the data.

use crate::facts::Algebra;
use crate::shape::{Entry, Kind, Part, Shape, Unit};
use crate::walk::{self, Visitor};
use std::sync::Arc;
use tutti_base::Result;

impl Shape {
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

    /// Returns the shape of `body` at each of `offsets`, of which there is at least one.
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
