//! Products that are rounded once, by integers.
//!
//! A product of n numbers has n times the bits of one. Nearly always the first 128 of them decide how it is
//! rounded, so only those are computed. Each multiplication drops less than one unit of the last place, so
//! the product lies between the 128 bits and a bound above them. If both ends round to the same number, that
//! is the result. Otherwise all bits are computed.

use super::format::{Format, Parts, decode, round, signed};

/// Significant bits of a product, the highest being set.
struct Leading {
    mantissa: u128,
    exponent: i64,
    /// Bound of the units by which the mantissa is too small.
    error: u128,
}

impl Leading {
    /// Multiplies by `factor * 2^exponent`, whose factor is not 0.
    #[inline]
    fn multiply(&mut self, factor: u64, exponent: i64) {
        let shift = factor.leading_zeros();
        let factor = u128::from(factor << shift);
        let low = (self.mantissa & u128::from(u64::MAX)) * factor;
        let high = (self.mantissa >> 64) * factor + (low >> 64);
        let rest = low as u64;
        let (mantissa, rest, up) = match high >> 127 {
            1 => (high, rest, 64),
            _ => (high << 1 | u128::from(rest >> 63), rest << 1, 63),
        };
        // A unit is at most 2^-127 of the number, and such relative errors add up.
        self.error += if rest != 0 { 2 } else { 0 };
        self.mantissa = mantissa;
        self.exponent += exponent + up - i64::from(shift);
    }

    /// Returns the rounded product, if the known bits decide it.
    fn round<F: Format>(&self, negative: bool) -> Option<F::Bits> {
        let more = self.error > 0;
        let least = round::<F>(negative, self.mantissa, self.exponent, more);
        let most = self.mantissa.checked_add(self.error)?;
        let most = round::<F>(negative, most, self.exponent, more);
        (least == most).then_some(least)
    }
}

/// Returns the product of numbers, rounded once to nearest, ties to even.
///
/// A NaN among them, or an infinity and a zero, gives the quiet NaN. At least one operand is required.
pub(crate) fn product<F: Format>(operands: impl Iterator<Item = F::Bits> + Clone) -> F::Bits {
    let (mut negative, mut has_zero, mut has_infinity) = (false, false, false);
    let mut leading = Leading { mantissa: 1 << 127, exponent: -127, error: 0 };
    for operand in operands.clone() {
        match decode::<F>(operand) {
            Parts::Finite { negative: sign, mantissa, exponent } => {
                negative ^= sign;
                has_zero |= mantissa == 0;
                if mantissa != 0 {
                    leading.multiply(mantissa, exponent);
                }
            }
            Parts::Infinite { negative: sign } => {
                negative ^= sign;
                has_infinity = true;
            }
            Parts::Nan => return F::from_bits(F::NAN),
        }
    }
    match (has_zero, has_infinity) {
        (true, true) => F::from_bits(F::NAN),
        (true, false) => signed::<F>(negative, 0),
        (false, true) => signed::<F>(negative, F::TOP << F::FRACTION_BITS),
        (false, false) => {
            leading.round::<F>(negative).unwrap_or_else(|| with_all_bits::<F>(operands, negative))
        }
    }
}

/// Returns the product of numbers that are finite and not 0, from all its bits.
#[cold]
pub(crate) fn with_all_bits<F: Format>(operands: impl Iterator<Item = F::Bits>, negative: bool) -> F::Bits {
    let mut digits = vec![1_u64];
    let mut exponent = 0;
    for operand in operands {
        let Parts::Finite { mantissa, exponent: own, .. } = decode::<F>(operand) else { continue };
        exponent += own;
        let mut carry = 0;
        for digit in &mut digits {
            let wide = u128::from(*digit) * u128::from(mantissa) + carry;
            (*digit, carry) = (wide as u64, wide >> 64);
        }
        if carry != 0 {
            digits.push(carry as u64);
        }
    }
    let top = digits.len() - 1;
    let digit = |place: usize| top.checked_sub(place).map_or(0, |place| u128::from(digits[place]));
    let (high, low) = (digit(0) << 64 | digit(1), digit(2));
    let shift = high.leading_zeros();
    let filled = if shift == 0 { 0 } else { low >> (64 - shift) };
    let more = low << shift & u128::from(u64::MAX) != 0;
    let more = more || digits[..top.saturating_sub(2)].iter().any(|digit| *digit != 0);
    let exponent = exponent + 64 * (top as i64 - 1) - i64::from(shift);
    round::<F>(negative, high << shift | filled, exponent, more)
}
