//! Sums without rounding: a fixed-point number that every f64 fits into, with room for 2^63 of them.
//!
//! The number is a row of digits to the base 2^32, each in a signed word of 64 bits. A value adds its
//! mantissa to three digits, without carries. After 2^30 values the carries are passed on, before a digit can
//! overflow. So the words of two sums may be added one by one, as integers: sums of ranks are an ordinary
//! reduction of integers, whose order does not matter. The scheme is that of the small superaccumulator (R.
//! Neal, "Fast exact summation using small and large superaccumulators", arXiv 1505.05571), without its
//! tables.

use super::format::{self, F64, Format, Parts, decode};

/// Digits: 2098 bits from the smallest subnormal to the largest number, and 64 for the number of values.
const DIGITS: usize = 70;
/// Exponent of the lowest bit of digit 0.
const LOWEST: i64 = -1074;
/// Number of values after which the accumulator passes on carries. A value adds less than 2^32 to a digit.
const MOST_PENDING: u32 = 1 << 30;

/// An exact sum of floating-point numbers.
///
/// Sums of several accumulators are found by adding their [`Accumulator::words`] as integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accumulator {
    /// The sum is `digits[i] * 2^(32 i - 1074)`, added up.
    digits: [i64; DIGITS],
    /// Number of values that were NaN.
    nans: i64,
    /// Number of positive and of negative infinities.
    infinities: [i64; 2],
    /// Number of values, and of those that were -0.
    values: i64,
    minus_zeros: i64,
    /// Number of values since the last pass of carries.
    pending: u32,
}

impl Default for Accumulator {
    fn default() -> Accumulator {
        Accumulator::new()
    }
}

impl Accumulator {
    /// Number of words of [`Accumulator::words`].
    pub const WORDS: usize = DIGITS + 5;

    /// Returns an empty sum.
    pub const fn new() -> Accumulator {
        Accumulator {
            digits: [0; DIGITS],
            nans: 0,
            infinities: [0; 2],
            values: 0,
            minus_zeros: 0,
            pending: 0,
        }
    }

    /// Adds a value to the sum, without rounding.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.add_bits::<F64>(value.to_bits());
    }

    /// Adds a value of a narrower format.
    #[inline]
    pub(crate) fn add_bits<F: Format>(&mut self, bits: F::Bits) {
        self.values += 1;
        match decode::<F>(bits) {
            Parts::Finite { negative, mantissa: 0, .. } => self.minus_zeros += i64::from(negative),
            Parts::Finite { negative, mantissa, exponent } => self.add_finite(negative, mantissa, exponent),
            Parts::Infinite { negative } => self.infinities[usize::from(negative)] += 1,
            Parts::Nan => self.nans += 1,
        }
    }

    #[inline]
    fn add_finite(&mut self, negative: bool, mantissa: u64, exponent: i64) {
        if self.pending == MOST_PENDING {
            self.carry();
        }
        self.pending += 1;
        let position = (exponent - LOWEST) as usize;
        let (digit, shift) = (position / 32, position % 32);
        let wide = u128::from(mantissa) << shift;
        let sign = if negative { -1 } else { 1 };
        for (place, digit) in self.digits[digit..digit + 3].iter_mut().enumerate() {
            *digit += sign * (wide >> (32 * place) & 0xffff_ffff) as i64;
        }
    }

    /// Passes on carries: afterwards all digits but the last are in `0..2^32`, and the last has the sign.
    fn carry(&mut self) {
        let mut carry = 0;
        for digit in &mut self.digits[..DIGITS - 1] {
            let sum = *digit + carry;
            (*digit, carry) = (sum & 0xffff_ffff, sum >> 32);
        }
        self.digits[DIGITS - 1] += carry;
        self.pending = 0;
    }

    /// Returns the sum as integers. The integers of up to 2^31 sums may be added one by one, in any order;
    /// the result describes the sum of all.
    pub fn words(&mut self) -> [i64; Accumulator::WORDS] {
        self.carry();
        let mut words = [0; Accumulator::WORDS];
        words[..DIGITS].copy_from_slice(&self.digits);
        let [positive, negative] = self.infinities;
        words[DIGITS..].copy_from_slice(&[self.nans, positive, negative, self.values, self.minus_zeros]);
        words
    }

    /// Returns the sum that these integers describe.
    pub fn from_words(words: &[i64; Accumulator::WORDS]) -> Accumulator {
        let mut sum = Accumulator::new();
        sum.digits.copy_from_slice(&words[..DIGITS]);
        let [nans, positive, negative, values, minus_zeros] =
            words[DIGITS..].try_into().expect("five words follow the digits");
        (sum.nans, sum.infinities) = (nans, [positive, negative]);
        (sum.values, sum.minus_zeros) = (values, minus_zeros);
        sum.carry();
        sum
    }

    /// Adds another sum, without rounding.
    pub fn merge(&mut self, other: &Accumulator) {
        self.carry();
        let mut other = other.clone();
        other.carry();
        self.digits.iter_mut().zip(other.digits).for_each(|(digit, theirs)| *digit += theirs);
        self.carry();
        self.nans += other.nans;
        self.values += other.values;
        self.minus_zeros += other.minus_zeros;
        self.infinities.iter_mut().zip(other.infinities).for_each(|(count, theirs)| *count += theirs);
    }

    /// Returns the sum, rounded once to nearest, ties to even.
    pub fn round(&self) -> f64 {
        f64::from_bits(self.round_to::<F64>())
    }

    /// Returns the sum as [`Accumulator::round`] does, in another format.
    pub(crate) fn round_to<F: Format>(&self) -> F::Bits {
        let [positive, negative] = self.infinities.map(|count| count != 0);
        if self.nans != 0 || positive && negative {
            return F::from_bits(F::NAN);
        }
        if positive || negative {
            return format::signed::<F>(negative, F::TOP << F::FRACTION_BITS);
        }
        let mut sum = self.clone();
        sum.carry();
        let negative = sum.digits[DIGITS - 1] < 0;
        if negative {
            sum.digits.iter_mut().for_each(|digit| *digit = -*digit);
            sum.carry();
        }
        let Some(top) = sum.digits.iter().rposition(|digit| *digit != 0) else {
            return format::signed::<F>(self.values > 0 && self.values == self.minus_zeros, 0);
        };
        sum.round_magnitude::<F>(negative, top)
    }

    /// Rounds the digits up to `top`, which is the highest that is not zero. All are positive.
    fn round_magnitude<F: Format>(&self, negative: bool, top: usize) -> F::Bits {
        let digit = |place: usize| top.checked_sub(place).map_or(0, |place| self.digits[place] as u128);
        // The top digit has 1 to 63 significant bits, so these three have 65 to 127.
        let high = digit(0) << 64 | digit(1) << 32 | digit(2);
        let low = digit(3) << 32 | digit(4);
        let shift = high.leading_zeros();
        let below = &self.digits[..top.saturating_sub(4)];
        let more = low & !(u128::MAX << (64 - shift)) != 0 || below.iter().any(|digit| *digit != 0);
        let exponent = 32 * (top as i64 - 2) + LOWEST - i64::from(shift);
        format::round::<F>(negative, high << shift | low >> (64 - shift), exponent, more)
    }
}
