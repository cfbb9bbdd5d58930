//! One process's share of a distributed array (`MPI_Type_create_darray`, MPI-5 section 5.1.4).

use crate::facts::{Algebra, scale};
use crate::order::{Order, inwards_first};
use std::iter::once;
use tutti_base::{Error, ErrorClass, Result};

/// Distribution of one dimension among the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Every process of the dimension (there is one) has the whole dimension.
    None = 16,
    /// Each process has one block.
    Block = 17,
    /// Blocks are dealt out in turn.
    Cyclic = 18,
}

/// `MPI_DISTRIBUTE_DFLT_DARG`. In the ABI this is a positive number: an argument of just this value
/// cannot be told from the default.
pub const DEFAULT_ARGUMENT: i32 = 19;

impl Distribution {
    /// Returns the distribution for `MPI_DISTRIBUTE_*`; an argument error otherwise.
    pub fn from_code(code: i32) -> Result<Distribution> {
        match code {
            16 => Ok(Distribution::None),
            17 => Ok(Distribution::Block),
            18 => Ok(Distribution::Cyclic),
            _ => Err(error(format!(
                "argument array_of_distribs holds {code}; give MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC or MPI_DISTRIBUTE_NONE"
            ))),
        }
    }
}

/// The arguments of `MPI_Type_create_darray`; the four arrays have one entry a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Darray {
    /// Processes in the grid.
    pub size: i32,
    /// The process whose share is meant; ranks are laid over the grid in row-major order.
    pub rank: i32,
    /// Elements of the whole array.
    pub gsizes: Vec<i64>,
    /// Distribution of each dimension.
    pub distributions: Vec<Distribution>,
    /// Block sizes, or `MPI_DISTRIBUTE_DFLT_DARG` (19).
    pub arguments: Vec<i32>,
    /// Processes along each dimension.
    pub psizes: Vec<i32>,
    /// Storage order of the array.
    pub order: Order,
}

#[cold]
fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorClass::Arg, message.into())
}

impl Darray {
    /// Checks what the standard requires of the arguments.
    pub(crate) fn validate(&self) -> Result<()> {
        let dimensions = self.gsizes.len();
        if dimensions == 0 {
            return Err(error("ndims is 0; an array has at least one dimension"));
        }
        let same = [self.distributions.len(), self.arguments.len(), self.psizes.len()];
        if same.iter().any(|length| *length != dimensions) {
            return Err(error("the arrays of darray differ in length"));
        }
        if self.rank < 0 || self.rank >= self.size {
            return Err(error(format!(
                "rank is {} and size {}; give 0 <= rank < size",
                self.rank, self.size
            )));
        }
        let grid = self.psizes.iter().map(|p| i128::from(*p)).try_fold(1i128, i128::checked_mul);
        if self.psizes.iter().any(|p| *p < 1) || grid != Some(i128::from(self.size)) {
            let message = format!("psizes {:?} do not multiply to size {}", self.psizes, self.size);
            return Err(error(message));
        }
        (0..dimensions).try_for_each(|dimension| self.validate_dimension(dimension))
    }

    fn validate_dimension(&self, d: usize) -> Result<()> {
        let (gsize, argument, psize) = (self.gsizes[d], self.arguments[d], self.psizes[d]);
        if gsize < 1 {
            return Err(error(format!("gsizes[{d}] is {gsize}; give a positive size")));
        }
        if argument < 1 {
            return Err(error(format!(
                "dargs[{d}] is {argument}; give a positive size or MPI_DISTRIBUTE_DFLT_DARG"
            )));
        }
        match self.distributions[d] {
            Distribution::None if psize != 1 => {
                Err(error(format!("psizes[{d}] is {psize}; a dimension with MPI_DISTRIBUTE_NONE has 1")))
            }
            Distribution::Block
                if argument != DEFAULT_ARGUMENT && i64::from(argument) * i64::from(psize) < gsize =>
            {
                Err(error(format!(
                    "dargs[{d}] * psizes[{d}] = {argument} * {psize} is less than gsizes[{d}] = {gsize}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns this process's coordinates in the grid, in row-major order whatever the array's order.
    fn coordinates(&self) -> Vec<i64> {
        let mut rest = self.rank;
        let mut coordinates: Vec<i64> = self
            .psizes
            .iter()
            .rev()
            .map(|psize| {
                let coordinate = rest % psize;
                rest /= psize;
                i64::from(coordinate)
            })
            .collect();
        coordinates.reverse();
        coordinates
    }

    /// Expands the share into repetitions of `part`, whose extent is `extent`.
    pub(crate) fn expand<A: Algebra>(&self, extent: i64, mut part: A) -> Result<A> {
        let coordinates = self.coordinates();
        let mut stride = extent;
        for dimension in inwards_first(self.order, self.gsizes.len()) {
            part = self.deal(dimension, coordinates[dimension], stride, part)?;
            stride = scale(self.gsizes[dimension], stride, "the extent")?;
        }
        Ok(part.bounded(0, stride))
    }

    /// Expands the share of one dimension. `part` is one index of it, `stride` bytes from the next.
    fn deal<A: Algebra>(&self, dimension: usize, coordinate: i64, stride: i64, part: A) -> Result<A> {
        let (gsize, psize) = (self.gsizes[dimension], i64::from(self.psizes[dimension]));
        let argument = Some(self.arguments[dimension]).filter(|a| *a != DEFAULT_ARGUMENT).map(i64::from);
        let (block, cyclic) = match self.distributions[dimension] {
            Distribution::None => (gsize, false),
            Distribution::Block => (argument.unwrap_or((gsize - 1) / psize + 1), false),
            Distribution::Cyclic => (argument.unwrap_or(1), true),
        };
        // A block may be larger than the array; products of sizes and process numbers need 128 bits.
        let first = i128::from(block) * i128::from(coordinate);
        if first >= i128::from(gsize) {
            return part.repeat(0, stride);
        }
        let (first, block) = (first as i64, block.min(gsize));
        let place = |index: i64, count: i64, part: A| {
            Ok((scale(index, stride, "a start")?, part.repeat(count, stride)?))
        };
        if !cyclic {
            return A::join(once(place(first, block.min(gsize - first), part)));
        }
        let round = i128::from(block) * i128::from(psize);
        let full = ((i128::from(gsize - first) - i128::from(block)).div_euclid(round) + 1).max(0) as i64;
        let next = i128::from(first) + i128::from(full) * round;
        let blocks = part.clone().repeat(block, stride)?;
        // With fewer than two blocks the distance between them is never used and may not fit.
        let distance = if full > 1 { scale(round as i64, stride, "the stride")? } else { 0 };
        let body = (scale(first, stride, "a start")?, blocks.repeat(full, distance)?);
        match next < i128::from(gsize) {
            true => A::join([Ok(body), place(next as i64, gsize - next as i64, part)].into_iter()),
            false => A::join(once(Ok(body))),
        }
    }
}
