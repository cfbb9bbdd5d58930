//! Meaning of each constructor (MPI-5 sections 5.1.2 to 5.1.7), defined once for every [`Algebra`].

use crate::datatype::{Constructor, Datatype};
use crate::facts::{Algebra, fit, scale};
use crate::order::{Order, inwards_first};
use crate::predefined::{self, Predefined};
use std::iter::once;
use tutti_base::Result;

/// Function that interprets an inner type.
type Inner<'a, A> = &'a dyn Fn(&Datatype) -> Result<A>;
/// Function that interprets a basic item.
type Item<'a, A> = &'a dyn Fn(&'static Predefined) -> A;

/// Interprets `constructor`, with `of` for inner types and `item` for basic items.
pub(crate) fn expand<A: Algebra>(constructor: &Constructor, of: Inner<A>, item: Item<A>) -> Result<A> {
    match constructor {
        Constructor::Named(row) | Constructor::Fortran { row, .. } | Constructor::ValueIndex { row } => {
            basic(row, item)
        }
        Constructor::Dup(inner) => of(inner),
        Constructor::Contiguous { count, inner } => of(inner)?.repeat(*count, inner.extent()),
        Constructor::Vector { count, blocklength, stride, inner } => {
            let stride = scale(*stride, inner.extent(), "the stride")?;
            of(inner)?.repeat(*blocklength, inner.extent())?.repeat(*count, stride)
        }
        Constructor::Hvector { count, blocklength, stride, inner } => {
            of(inner)?.repeat(*blocklength, inner.extent())?.repeat(*count, *stride)
        }
        Constructor::Indexed { blocklengths, displacements, inner } => {
            blocks(inner, inner.extent(), blocklengths.iter().copied(), displacements, of)
        }
        Constructor::Hindexed { blocklengths, displacements, inner } => {
            blocks(inner, 1, blocklengths.iter().copied(), displacements, of)
        }
        Constructor::IndexedBlock { blocklength, displacements, inner } => {
            blocks(inner, inner.extent(), std::iter::repeat(*blocklength), displacements, of)
        }
        Constructor::HindexedBlock { blocklength, displacements, inner } => {
            blocks(inner, 1, std::iter::repeat(*blocklength), displacements, of)
        }
        Constructor::Struct { blocklengths, displacements, inner } => {
            let parts = blocklengths.iter().zip(displacements).zip(inner);
            A::join(parts.map(|((blocklength, displacement), inner)| {
                Ok((*displacement, of(inner)?.repeat(*blocklength, inner.extent())?))
            }))
        }
        Constructor::Subarray { sizes, subsizes, starts, order, inner } => {
            subarray(sizes, subsizes, starts, *order, inner, of)
        }
        Constructor::Darray { array, inner } => array.expand(inner.extent(), of(inner)?),
        Constructor::Resized { lb, extent, inner } => {
            let ub = fit(i128::from(*lb) + i128::from(*extent), "the upper bound")?;
            Ok(of(inner)?.bounded(*lb, ub))
        }
    }
}

/// Interprets a scalar, or a pair laid out as the C struct of its two items (MPI-5 section 6.9.4).
fn basic<A: Algebra>(row: &'static Predefined, item: Item<A>) -> Result<A> {
    let Some((value, index)) = row.pair else { return Ok(item(row)) };
    let (value, index) = (predefined::scalar(value), predefined::scalar(index));
    let offset = i64::from(value.bytes.next_multiple_of(index.align()));
    A::join([Ok((0, item(value))), Ok((offset, item(index)))].into_iter())
}

/// Blocks of `inner` at `displacements` in multiples of `unit` bytes.
fn blocks<A: Algebra>(
    inner: &Datatype,
    unit: i64,
    blocklengths: impl Iterator<Item = i64>,
    displacements: &[i64],
    of: Inner<A>,
) -> Result<A> {
    let one = of(inner)?;
    A::join(blocklengths.zip(displacements).map(|(blocklength, displacement)| {
        let displacement = scale(*displacement, unit, "a displacement")?;
        Ok((displacement, one.clone().repeat(blocklength, inner.extent())?))
    }))
}

fn subarray<A: Algebra>(
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: Order,
    inner: &Datatype,
    of: Inner<A>,
) -> Result<A> {
    let mut part = of(inner)?;
    let (mut stride, mut start) = (inner.extent(), 0i128);
    for dimension in inwards_first(order, sizes.len()) {
        part = part.repeat(subsizes[dimension], stride)?;
        start += i128::from(starts[dimension]) * i128::from(stride);
        stride = scale(sizes[dimension], stride, "the extent")?;
    }
    let start = fit(start, "the start")?;
    Ok(A::join(once(Ok((start, part))))?.bounded(0, stride))
}
