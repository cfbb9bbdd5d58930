//! The exactly rounded sum of all values of an array, of which several ranks hold parts.
//!
//! # Safety
//! The caller of [`GlobalSum::add`] and [`GlobalSum::write`] promises that the memory holds as many items as
//! it says.
#![allow(unsafe_code)]

use crate::datatype::{Constructor, Datatype};
use crate::exact::{Accumulator, Summing, select_sum};
use tutti_base::{Error, ErrorClass, Result};

/// A sum of values of one datatype. Its [`GlobalSum::words`] at all ranks, added as integers, describe the
/// sum of all values; so it depends on the values alone, not on their order or distribution.
pub struct GlobalSum {
    summing: Summing,
    /// Bytes of a real number.
    bytes: usize,
    /// One sum, or those of the real and the imaginary parts.
    sums: Vec<Accumulator>,
}

impl GlobalSum {
    /// Returns an empty sum.
    ///
    /// # Errors
    /// `Type` if the datatype is not a predefined one of numbers of at most 64 bits, or pairs of those.
    pub fn new(datatype: &Datatype) -> Result<GlobalSum> {
        let row = match &datatype.0.constructor {
            Constructor::Named(row) | Constructor::Fortran { row, .. } => Some(*row),
            _ => None,
        };
        let refuse = || {
            let message =
                format!("{datatype:?} has no exact sum; give a floating-point type of 16 to 64 bits");
            Error::new(ErrorClass::Type, message)
        };
        let row = row.ok_or_else(refuse)?;
        let summing = select_sum(row).ok_or_else(refuse)?;
        let bytes = usize::from(row.bytes) / summing.reals;
        let sums = vec![Accumulator::new(); summing.reals];
        Ok(GlobalSum { summing, bytes, sums })
    }

    /// Adds `count` items to the sum, without rounding.
    ///
    /// # Safety
    /// See the module's Safety section.
    pub unsafe fn add(&mut self, items: *const u8, count: usize) {
        // SAFETY: the caller's promise; buffers of parts lie on the stack.
        unsafe {
            match &mut self.sums[..] {
                [sum] => (self.summing.accumulate)(items, count, sum),
                sums => {
                    let bytes = self.bytes;
                    for number in 0..count * 2 {
                        let real = items.wrapping_add(number * bytes);
                        (self.summing.accumulate)(real, 1, &mut sums[number % 2]);
                    }
                }
            }
        }
    }

    /// Returns the sum as integers, which may be added one by one to those of up to 2^31 others.
    pub fn words(&mut self) -> Vec<i64> {
        self.sums.iter_mut().flat_map(Accumulator::words).collect()
    }

    /// Replaces the sum by the one that these integers describe.
    pub fn set_words(&mut self, words: &[i64]) {
        let (words, _) = words.as_chunks::<{ Accumulator::WORDS }>();
        self.sums = words.iter().map(Accumulator::from_words).collect();
    }

    /// Writes the sum as one item, rounded once to nearest, ties to even.
    ///
    /// # Safety
    /// See the module's Safety section.
    pub unsafe fn write(&self, item: *mut u8) {
        for (number, sum) in self.sums.iter().enumerate() {
            let bits = (self.summing.round)(sum).to_le_bytes();
            // SAFETY: the caller's promise.
            unsafe {
                item.wrapping_add(number * self.bytes).copy_from_nonoverlapping(bits.as_ptr(), self.bytes)
            };
        }
    }
}
