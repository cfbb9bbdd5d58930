//! Inverse of a cursor: the number of packed bytes below an address, and the conditions under which it is
//! defined.
//!
//! A file view (MPI-5 section 14.3) is a datatype repeated without end. Where its runs follow one another,
//! the packed bytes in a range of the file are themselves one range. It begins and ends at
//! [`Datatype::bytes_below`] of the two ends of the file range. Each takes one division per loop and one
//! binary search per list: O(depth + log n). Nothing is ever flattened.

use std::ops::Range;

use tutti_base::{Error, ErrorClass, Result};

use crate::datatype::{Constructor, Datatype, Form};
use crate::layout::Layout;
use crate::shape::{Kind, Shape};

/// Order of the runs of a datatype that is repeated without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Succession {
    /// Each run begins where the one before ends, or later.
    Disjoint,
    /// Each run begins where the one before begins, or later; some overlap.
    Overlapping,
    /// Some runs begin before the one before.
    Decreasing,
}

/// Extent of a part, from which the succession of parts follows.
#[derive(Clone, Copy)]
struct Reach {
    /// Offset at which the first run begins.
    first: i64,
    /// Offset at which the last run begins.
    last: i64,
    /// Offset at which the furthest run ends.
    end: i64,
    succession: Succession,
}

impl Reach {
    fn then(self, next: Reach) -> Reach {
        let between = match next.first {
            first if first < self.last => Succession::Decreasing,
            first if first < self.end => Succession::Overlapping,
            _ => Succession::Disjoint,
        };
        let succession = between.max(self.succession).max(next.succession);
        Reach { first: self.first, last: next.last, end: self.end.max(next.end), succession }
    }

    fn moved(self, by: i64) -> Reach {
        Reach { first: self.first + by, last: self.last + by, end: self.end + by, ..self }
    }

    fn from_shape(shape: &Shape) -> Reach {
        let inner = match &shape.kind {
            Kind::Run { .. } => {
                Reach { first: 0, last: 0, end: shape.size as i64, succession: Succession::Disjoint }
            }
            Kind::Loop { count, stride, body } => {
                let one = Reach::from_shape(body);
                let pair = if *count > 1 { one.then(one.moved(*stride)) } else { one };
                let far = (*count as i64 - 1) * stride;
                Reach { last: one.last + far, end: one.end + far.max(0), ..pair }
            }
            Kind::List { offsets, body } => {
                let one = Reach::from_shape(body);
                let first = one.moved(offsets[0]);
                offsets[1..].iter().fold(first, |all, offset| all.then(one.moved(*offset)))
            }
            Kind::Table { entries, .. } => {
                let run = |index: usize| {
                    let entry = entries[index];
                    let end = entries.get(index + 1).map_or(shape.size, |next| next.start);
                    let bytes = (end - entry.start) as i64;
                    let (first, succession) = (entry.offset, Succession::Disjoint);
                    Reach { first, last: first, end: first + bytes, succession }
                };
                (1..entries.len()).fold(run(0), |all, index| all.then(run(index)))
            }
            Kind::Parts { parts } => {
                let first = Reach::from_shape(&parts[0].shape);
                parts[1..].iter().fold(first, |all, part| all.then(Reach::from_shape(&part.shape)))
            }
        };
        inner.moved(shape.offset)
    }
}

/// Returns the offset at which the first run of a shape begins.
fn first(shape: &Shape) -> i64 {
    shape.offset
        + match &shape.kind {
            Kind::Run { .. } => 0,
            Kind::Table { entries, .. } => entries[0].offset,
            Kind::Loop { body, .. } => first(body),
            Kind::List { offsets, body } => offsets[0] + first(body),
            Kind::Parts { parts } => first(&parts[0].shape),
        }
}

/// Returns the number of packed bytes of `shape` below `limit`.
fn below(shape: &Shape, limit: i64) -> u64 {
    let limit = limit.saturating_sub(shape.offset);
    match &shape.kind {
        Kind::Run { .. } => limit.clamp(0, shape.size as i64) as u64,
        Kind::Loop { count, stride, body } => looped(body, *stride, Some(*count), limit),
        Kind::List { offsets, body } => {
            let begun = offsets.partition_point(|offset| offset + first(body) < limit) as u64;
            let Some(last) = begun.checked_sub(1) else { return 0 };
            last * body.size + below(body, limit - offsets[last as usize])
        }
        Kind::Table { entries, .. } => {
            let begun = entries.partition_point(|entry| entry.offset < limit);
            let Some(entry) = begun.checked_sub(1).map(|last| entries[last]) else { return 0 };
            let end = entries.get(begun).map_or(shape.size, |next| next.start);
            entry.start + ((limit - entry.offset) as u64).min(end - entry.start)
        }
        Kind::Parts { parts } => {
            let begun = parts.partition_point(|part| first(&part.shape) < limit);
            let Some(part) = begun.checked_sub(1).map(|last| &parts[last]) else { return 0 };
            part.start + below(&part.shape, limit)
        }
    }
}

/// Returns the number of packed bytes below `limit` of `body` repeated, without end if there is no count.
fn looped(body: &Shape, stride: i64, count: Option<u64>, limit: i64) -> u64 {
    let reach = limit.saturating_sub(first(body));
    if reach <= 0 {
        return 0;
    }
    let last = match u64::try_from(stride) {
        // All but the last are wholly below: the next one begins after they end.
        Ok(stride) if stride > 0 => (reach as u64 - 1) / stride,
        _ => u64::MAX,
    };
    let last = count.map_or(last, |count| last.min(count - 1));
    let begin = i64::try_from(last).ok().and_then(|last| last.checked_mul(stride)).unwrap_or(i64::MAX);
    last.saturating_mul(body.size) + below(body, limit.saturating_sub(begin))
}

/// Returns the number of packed bytes below `offset` of the items of a layout without end.
pub(crate) fn endless_below(layout: &Layout, offset: i64) -> u64 {
    let (body, stride, start) = layout.endless();
    if body.size == 0 { 0 } else { looped(body, stride, None, offset.saturating_sub(start)) }
}

impl Datatype {
    /// Returns the order of the runs of one item of this type. A type without data is disjoint.
    pub fn succession_of_one(&self) -> Succession {
        let shape = &self.layout().shape;
        if shape.size == 0 { Succession::Disjoint } else { Reach::from_shape(shape).succession }
    }

    /// Returns the order of the runs of this type, repeated without end. A type without data is disjoint.
    pub fn succession(&self) -> Succession {
        let shape = &self.layout().shape;
        if shape.size == 0 {
            return Succession::Disjoint;
        }
        let one = Reach::from_shape(shape);
        one.then(one.moved(self.extent())).succession
    }

    /// Returns the number of packed bytes of this type, repeated without end, below `offset`. The type must
    /// be [`Succession::Disjoint`]. If its runs overlap, all bytes of runs that begin below count.
    pub fn bytes_below(&self, offset: i64) -> u64 {
        endless_below(self.layout(), offset)
    }

    /// Returns the range of packed bytes that lie in `offsets`.
    pub fn bytes_within(&self, offsets: Range<i64>) -> Range<u64> {
        self.bytes_below(offsets.start)..self.bytes_below(offsets.end)
    }

    /// Returns the committed type with the same constructors over other basic types. `bytes_of` gives the
    /// length of each. This is a file type in a data representation whose items have other lengths (MPI-5
    /// section 14.5).
    ///
    /// # Errors
    /// Those of `bytes_of`; `Type` for bounds that do not fit.
    pub fn represented(&self, bytes_of: &mut dyn FnMut(&Datatype) -> Result<i64>) -> Result<Datatype> {
        let new = self.with_leaves(bytes_of)?;
        new.commit();
        Ok(new)
    }

    fn with_leaves(&self, bytes_of: &mut dyn FnMut(&Datatype) -> Result<i64>) -> Result<Datatype> {
        use Constructor as C;
        let constructor = match &self.0.constructor {
            C::Named(_) | C::Fortran { .. } | C::ValueIndex { .. } => {
                let bytes = bytes_of(self)?;
                return Datatype::create_contiguous(bytes, byte()?, Form::Count);
            }
            C::Dup(inner) => return inner.with_leaves(bytes_of),
            C::Contiguous { count, inner } => {
                C::Contiguous { count: *count, inner: inner.with_leaves(bytes_of)? }
            }
            C::Vector { count, blocklength, stride, inner } => C::Vector {
                count: *count,
                blocklength: *blocklength,
                stride: *stride,
                inner: inner.with_leaves(bytes_of)?,
            },
            C::Hvector { count, blocklength, stride, inner } => C::Hvector {
                count: *count,
                blocklength: *blocklength,
                stride: *stride,
                inner: inner.with_leaves(bytes_of)?,
            },
            C::Indexed { blocklengths, displacements, inner } => C::Indexed {
                blocklengths: blocklengths.clone(),
                displacements: displacements.clone(),
                inner: inner.with_leaves(bytes_of)?,
            },
            C::Hindexed { blocklengths, displacements, inner } => C::Hindexed {
                blocklengths: blocklengths.clone(),
                displacements: displacements.clone(),
                inner: inner.with_leaves(bytes_of)?,
            },
            _ => self.0.constructor.with_outer_leaves(bytes_of)?,
        };
        Datatype::new(constructor, Form::Count)
    }
}

impl Constructor {
    /// Replaces the basic items like [`Datatype::represented`], for the constructors of arrays, structures
    /// and bounds.
    fn with_outer_leaves(&self, bytes_of: &mut dyn FnMut(&Datatype) -> Result<i64>) -> Result<Constructor> {
        use Constructor as C;
        Ok(match self {
            C::IndexedBlock { blocklength, displacements, inner } => C::IndexedBlock {
                blocklength: *blocklength,
                displacements: displacements.clone(),
                inner: inner.with_leaves(bytes_of)?,
            },
            C::HindexedBlock { blocklength, displacements, inner } => C::HindexedBlock {
                blocklength: *blocklength,
                displacements: displacements.clone(),
                inner: inner.with_leaves(bytes_of)?,
            },
            C::Struct { blocklengths, displacements, inner } => C::Struct {
                blocklengths: blocklengths.clone(),
                displacements: displacements.clone(),
                inner: inner.iter().map(|one| one.with_leaves(bytes_of)).collect::<Result<_>>()?,
            },
            C::Subarray { sizes, subsizes, starts, order, inner } => C::Subarray {
                sizes: sizes.clone(),
                subsizes: subsizes.clone(),
                starts: starts.clone(),
                order: *order,
                inner: inner.with_leaves(bytes_of)?,
            },
            C::Darray { array, inner } => {
                C::Darray { array: array.clone(), inner: inner.with_leaves(bytes_of)? }
            }
            C::Resized { lb, extent, inner } => {
                C::Resized { lb: *lb, extent: *extent, inner: inner.with_leaves(bytes_of)? }
            }
            _ => unreachable!("the others are handled where this is called"),
        })
    }
}

/// Returns the type MPI_BYTE.
fn byte() -> Result<&'static Datatype> {
    const BYTE: u32 = 0x247;
    Datatype::predefined(BYTE).ok_or_else(|| Error::new(ErrorClass::Intern, "there is no MPI_BYTE"))
}
