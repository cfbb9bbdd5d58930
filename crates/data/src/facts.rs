//! The algebra of datatypes and its first interpretation, the facts known at construction.
//!
//! Every constructor reduces to three operations on its inner types: repeat at a stride, place at
//! displacements, set bounds ([`crate::expand`]). [`Facts`] interprets them as sizes and bounds,
//! [`crate::shape::Shape`] as a program over memory.

use crate::predefined::Predefined;
use crate::signature::Signature;
use tutti_base::{Error, ErrorClass, Result};

/// An interpretation of type constructors.
pub(crate) trait Algebra: Sized + Clone {
    /// Repeats this part `count` times, each `stride` bytes after the one before. `count` is not negative.
    fn repeat(self, count: i64, stride: i64) -> Result<Self>;
    /// Joins parts in this order, each moved by its displacement in bytes.
    fn join(parts: impl Iterator<Item = Result<(i64, Self)>>) -> Result<Self>;
    /// Returns the same items with these lower and upper bounds.
    fn bounded(self, lb: i64, ub: i64) -> Self;
}

/// Kinds of the basic items of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basics {
    /// No items at all.
    Absent,
    /// All of the predefined type with this code.
    One(u32),
    /// Items of several kinds.
    Mixed,
}

/// Facts of a type map that need no layout. All numbers are checked to fit 63 bits.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Number of bytes of data.
    pub size: i64,
    /// Number of basic items.
    pub elements: i64,
    /// Largest alignment of an item, at least 1.
    pub align: i64,
    /// First byte and end of the data, if there are any (`true_lb`, `true_ub`).
    pub data: Option<(i64, i64)>,
    /// Hull of the bounds of the parts, if there is any data. MPI-5 section 5.1 defines bounds by the items
    /// alone. That differs only where parts with padding at their end lie at odd displacements. There
    /// programs (and other libraries) expect that a type ends no earlier than its parts.
    pub hull: Option<(i64, i64)>,
    /// Bounds set by a constructor that overrides the hull: resized, subarray, darray (MPI-5 section 5.1.6).
    pub marks: Option<(i64, i64)>,
    pub signature: Signature,
    /// Kinds of the basic items.
    pub basics: Basics,
    /// Kinds of the predefined types, where a pair counts as one item.
    pub predefined: Basics,
}

impl Basics {
    /// Returns the kinds of the items of both.
    fn and(self, other: Basics) -> Basics {
        match (self, other) {
            (Basics::Absent, other) | (other, Basics::Absent) => other,
            (Basics::One(left), Basics::One(right)) if left == right => Basics::One(left),
            _ => Basics::Mixed,
        }
    }
}

/// Returns `value` as a displacement or size, or an error that names the quantity `what` if it does not fit.
pub(crate) fn fit(value: i128, what: &str) -> Result<i64> {
    i64::try_from(value).map_err(|_| {
        let message = format!(
            "{what} of the datatype is {value} bytes, beyond 2^63-1: use a smaller count or displacement"
        );
        Error::new(ErrorClass::Count, message)
    })
}

/// Returns `count` times `unit` bytes, or an error that names `what`.
pub(crate) fn scale(count: i64, unit: i64, what: &str) -> Result<i64> {
    fit(i128::from(count) * i128::from(unit), what)
}

impl Facts {
    const EMPTY: Facts = Facts {
        size: 0,
        elements: 0,
        align: 1,
        data: None,
        hull: None,
        marks: None,
        signature: Signature::EMPTY,
        basics: Basics::Absent,
        predefined: Basics::Absent,
    };

    /// Returns the facts of one basic item.
    pub fn item(basic: &'static Predefined) -> Facts {
        let size = i64::from(basic.bytes);
        Facts {
            size,
            elements: 1,
            align: i64::from(basic.align()),
            data: Some((0, size)),
            hull: Some((0, size)),
            marks: None,
            signature: Signature::from_item(basic),
            basics: Basics::One(basic.code),
            predefined: Basics::One(basic.code),
        }
    }

    /// Returns the facts of a predefined type: one item of its kind, also for a pair.
    pub fn of_predefined(self, row: &'static Predefined) -> Facts {
        Facts { predefined: Basics::One(row.code), ..self }
    }

    /// Returns the facts of the type as a part of another one, with the bounds `lb` and `ub` including its
    /// padding.
    pub fn part(&self, lb: i64, ub: i64) -> Facts {
        Facts { hull: self.hull.map(|_| (lb, ub)), ..self.clone() }
    }

    /// Returns the lower and upper bound: those that a constructor set, otherwise the hull of the parts. The
    /// upper one is rounded so that the extent is a multiple of the alignment (the epsilon of MPI-5 section
    /// 5.1).
    pub fn bounds(&self) -> Result<(i64, i64)> {
        let (lb, ub) = match (self.marks, self.hull) {
            (Some(marks), _) => marks,
            (None, None) => (0, 0),
            (None, Some((low, high))) => {
                let extent = i128::from(high) - i128::from(low);
                let align = i128::from(self.align);
                let rounded = (extent + align - 1) / align * align;
                (low, fit(i128::from(low) + rounded, "the upper bound")?)
            }
        };
        fit(i128::from(ub) - i128::from(lb), "the extent")?;
        if let Some((low, high)) = self.data {
            fit(i128::from(high) - i128::from(low), "the true extent")?;
        }
        Ok((lb, ub))
    }
}

impl Algebra for Facts {
    fn repeat(self, count: i64, stride: i64) -> Result<Facts> {
        if count == 0 {
            return Ok(Facts::EMPTY);
        }
        let wide = i128::from(count);
        let last = (wide - 1) * i128::from(stride);
        let stretch = |range: Option<(i64, i64)>| match range {
            None => Ok(None),
            Some((low, high)) => {
                let low = fit(i128::from(low) + last.min(0), "the lower bound")?;
                let high = fit(i128::from(high) + last.max(0), "the upper bound")?;
                Result::Ok(Some((low, high)))
            }
        };
        Ok(Facts {
            size: fit(i128::from(self.size) * wide, "the size")?,
            elements: fit(i128::from(self.elements) * wide, "the number of elements")?,
            data: stretch(self.data)?,
            hull: stretch(self.hull)?,
            marks: stretch(self.marks)?,
            signature: self.signature.repeat(count as u64),
            ..self
        })
    }

    fn join(parts: impl Iterator<Item = Result<(i64, Facts)>>) -> Result<Facts> {
        let mut all = Facts::EMPTY;
        for part in parts {
            let (displacement, facts) = part?;
            all.size = fit(i128::from(all.size) + i128::from(facts.size), "the size")?;
            all.elements += facts.elements;
            all.align = all.align.max(facts.align);
            all.data = hull(all.data, facts.data, displacement)?;
            all.hull = hull(all.hull, facts.hull, displacement)?;
            all.marks = hull(all.marks, facts.marks, displacement)?;
            all.signature = all.signature.then(facts.signature);
            all.basics = all.basics.and(facts.basics);
            all.predefined = all.predefined.and(facts.predefined);
        }
        Ok(all)
    }

    fn bounded(mut self, lb: i64, ub: i64) -> Facts {
        self.marks = Some((lb, ub));
        self
    }
}

/// Returns the smallest range that contains `all` and `part` moved by `displacement`.
fn hull(all: Option<(i64, i64)>, part: Option<(i64, i64)>, displacement: i64) -> Result<Option<(i64, i64)>> {
    let Some((low, high)) = part else { return Ok(all) };
    let low = fit(i128::from(low) + i128::from(displacement), "the lower bound")?;
    let high = fit(i128::from(high) + i128::from(displacement), "the upper bound")?;
    Ok(Some(all.map_or((low, high), |(least, most)| (least.min(low), most.max(high)))))
}
