//! Sums and products that are rounded once: their bits do not depend on the order of the operands.
//!
//! An ordinary reduction rounds after each operation, so that another order gives other bits. Here the result
//! is the real number that the operands add up to, rounded once to nearest, ties to even. A real number has
//! one rounding, so any algorithm that finds it gives these bits. There are three ways to find it, and one
//! test suite that compares them:
//!
//! | way | used for | idea |
//! |---|---|---|
//! | [`Accumulator`] | any number of values, sums of ranks | fixed point with 2240 bits: no rounding at all |
//! | `cascade` | arrays of a few operands | error-free transformations in vectors, with a test that they were exact; if not, an accumulator |
//! | `product` | products | mantissas of 128 bits with a bound of the error; where that does not decide, all bits |
//!
//! Special values follow IEEE 754 where it defines a sum regardless of order:
//!
//! - A NaN among the operands, or infinities of both signs, give the quiet NaN that [`Format::NAN`] names.
//! - Otherwise an infinity gives itself. Sums overflow only if the rounded result is out of range.
//! - A sum that is zero is +0, unless all operands are -0. An empty sum is +0.
//!
//! The guide's page on reproducible results has the guarantee and its proof.

mod accumulator;
mod cascade;
mod environment;
mod format;
mod kernels;
pub(crate) mod product;

pub use accumulator::Accumulator;

pub(crate) use kernels::{Summing, select, select_sum};
#[cfg(test)]
pub(crate) use {
    cascade::Element,
    format::{BF16, F16, F32, F64, Format},
    kernels::levels,
};
