//! Location of the data of a committed type: its program with the facts that the hot path needs.
//!
//! A position is a byte of the packed stream and may lie anywhere, also inside a basic item. Any walk may
//! start anywhere at the cost of finding the place (see [`crate::walk`]).

use crate::shape::{Kind, Shape, Unit};
use crate::walk::{self, Visitor};
use std::ops::Range;
use std::sync::Arc;

/// A run of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Distance of the segment from the buffer's address, in bytes.
    pub offset: i64,
    /// Length of the segment in bytes.
    pub bytes: u64,
}

/// Number of items of a type that are contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contiguity {
    /// Any number of items is one run.
    Array,
    /// One item is one run.
    Item,
    None,
}

/// Program of a type with the facts that the hot path needs.
pub(crate) struct Layout {
    pub shape: Shape,
    pub contiguity: Contiguity,
    /// An array of items as one loop: the stride, the body, and its offset.
    stride: i64,
    body: Arc<Shape>,
    offset: i64,
}

impl Layout {
    pub fn new(shape: Shape, extent: i64) -> Layout {
        let contiguity = match shape.kind {
            _ if shape.size == 0 => Contiguity::Array,
            Kind::Run { .. } if i64::try_from(shape.size) == Ok(extent) => Contiguity::Array,
            Kind::Run { .. } => Contiguity::Item,
            _ => Contiguity::None,
        };
        let (stride, body, offset) = match &shape.kind {
            // A loop that ends where the next item's loop begins goes on through the array.
            Kind::Loop { count, stride, body }
                if i128::from(*count) * i128::from(*stride) == i128::from(extent) =>
            {
                (*stride, body.clone(), shape.offset)
            }
            _ => (extent, Arc::new(shape.clone()), 0),
        };
        Layout { shape, contiguity, stride, body, offset }
    }

    /// Returns the items without end as one loop: the body, its stride and its offset.
    pub fn endless(&self) -> (&Shape, i64, i64) {
        (&self.body, self.stride, self.offset)
    }

    /// Appends the runs of a range of packed bytes of items without end, at most `limit`; returns how many
    /// bytes they cover.
    pub fn collect(&self, packed: Range<u64>, out: &mut Vec<Segment>, limit: usize) -> u64 {
        let first = out.len();
        let mut collector = Collector { out, first, limit, covered: 0 };
        if limit > 0 && self.shape.size > 0 {
            self.walk(&mut collector, packed.start, packed.end.saturating_sub(packed.start));
        }
        collector.covered
    }

    /// Walks `take` packed bytes after `skip` of an array of items.
    pub fn walk<V: Visitor>(&self, visitor: &mut V, skip: u64, take: u64) -> bool {
        match (self.contiguity, &self.shape.kind) {
            _ if take == 0 => true,
            // Not one run for each item.
            (Contiguity::Array, Kind::Run { unit }) => {
                visitor.run(self.shape.offset + skip as i64, take, *unit)
            }
            _ => walk::looped(visitor, &self.body, self.offset, self.stride, skip, take),
        }
    }
}

/// Collects runs until there are `limit`.
struct Collector<'a> {
    out: &'a mut Vec<Segment>,
    first: usize,
    limit: usize,
    covered: u64,
}

impl Visitor for Collector<'_> {
    fn run(&mut self, offset: i64, bytes: u64, _unit: Unit) -> bool {
        let length = self.out.len();
        match self.out[self.first..].last_mut() {
            Some(last) if last.offset.checked_add_unsigned(last.bytes) == Some(offset) => last.bytes += bytes,
            _ if length - self.first == self.limit => return false,
            _ => self.out.push(Segment { offset, bytes }),
        }
        self.covered += bytes;
        true
    }
}
