//! Program of a datatype: its runs of memory, in packed order. It is kept normal ([`crate::normal`]).

use crate::predefined::{self, Predefined};
use std::sync::Arc;

/// The basic type of a run: 0 where it does not matter, else a code of a predefined scalar.
pub(crate) type Unit = u32;

/// Part of the program. Offsets are bytes from the start of the part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Offset at which the first run starts (not the lowest one).
    pub offset: i64,
    /// Number of bytes of data.
    pub size: u64,
    /// Number of runs of memory, saturating.
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
    /// Shape of a type without data.
    pub const EMPTY: Shape = Shape { offset: 0, size: 0, runs: 0, kind: Kind::Run { unit: 0 } };

    /// Returns the shape of one basic item. `typed` keeps it apart from items of other types.
    pub fn item(row: &'static Predefined, typed: bool) -> Shape {
        Shape::run(0, u64::from(row.bytes), if typed { row.code } else { 0 })
    }

    /// Returns the shape of a number of bytes without a type.
    pub fn bytes(bytes: u64) -> Shape {
        Shape::run(0, bytes, 0)
    }

    /// Returns the shape of one run.
    pub fn run(offset: i64, size: u64, unit: Unit) -> Shape {
        Shape { offset, size, runs: 1, kind: Kind::Run { unit } }
    }

    /// Returns the number of basic items in a shape whose runs carry their types.
    pub fn elements(&self) -> u64 {
        match &self.kind {
            Kind::Run { unit } | Kind::Table { unit, .. } => self.size / unit_bytes(*unit),
            Kind::Loop { count, body, .. } => count * body.elements(),
            Kind::List { offsets, body } => offsets.len() as u64 * body.elements(),
            Kind::Parts { parts } => parts.iter().map(|part| part.shape.elements()).sum(),
        }
    }

    /// Returns the number of basic items in the first `bytes` packed bytes, or `None` if they end within an
    /// item.
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
