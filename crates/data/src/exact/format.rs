//! Binary floating-point formats of at most 64 bits, taken apart and put together by integers. So rounding
//! does not depend on the program's floating-point environment.

use std::fmt::Debug;

/// A format of IEEE 754, or one that is built like it.
pub(crate) trait Format: Copy + Debug + 'static {
    /// Integer of the format's size.
    type Bits: Copy + Debug + PartialEq + Into<u64>;
    /// Bits of the fraction, without the leading one.
    const FRACTION_BITS: u32;
    /// Bits of the exponent.
    const EXPONENT_BITS: u32;

    /// Largest biased exponent, that of infinities and NaNs.
    const TOP: u64 = (1 << Self::EXPONENT_BITS) - 1;
    /// Difference between the biased exponent and the exponent.
    const BIAS: i64 = (1 << (Self::EXPONENT_BITS - 1)) - 1;
    /// Quiet NaN that stands for all others: positive, with an empty payload.
    const NAN: u64 = Self::TOP << Self::FRACTION_BITS | 1 << (Self::FRACTION_BITS - 1);
    /// Position of the sign.
    const SIGN: u32 = Self::FRACTION_BITS + Self::EXPONENT_BITS;

    /// Returns the pattern, which is known to have no more bits than the format.
    fn from_bits(bits: u64) -> Self::Bits;
}

macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident: $bits:ty, $fraction:literal, $exponent:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;

        impl Format for $name {
            type Bits = $bits;
            const FRACTION_BITS: u32 = $fraction;
            const EXPONENT_BITS: u32 = $exponent;

            #[inline]
            fn from_bits(bits: u64) -> $bits {
                bits as $bits
            }
        }
    )*};
}

formats! {
    /// IEEE binary16.
    F16: u16, 10, 5;
    /// The upper half of an IEEE binary32.
    BF16: u16, 7, 8;
    /// IEEE binary32.
    F32: u32, 23, 8;
    /// IEEE binary64.
    F64: u64, 52, 11;
}

/// A number of a [`Format`], decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// `mantissa * 2^exponent`, negative if the flag is set. The mantissa may be 0.
    Finite {
        negative: bool,
        mantissa: u64,
        exponent: i64,
    },
    Infinite {
        negative: bool,
    },
    Nan,
}

/// Decodes a number.
#[inline]
pub(crate) fn decode<F: Format>(bits: F::Bits) -> Parts {
    let bits: u64 = bits.into();
    let negative = bits >> F::SIGN & 1 == 1;
    let exponent = bits >> F::FRACTION_BITS & F::TOP;
    let fraction = bits & ((1 << F::FRACTION_BITS) - 1);
    if exponent == F::TOP {
        return if fraction == 0 { Parts::Infinite { negative } } else { Parts::Nan };
    }
    let leading = u64::from(exponent != 0) << F::FRACTION_BITS;
    let exponent = exponent.max(1) as i64 - F::BIAS - i64::from(F::FRACTION_BITS);
    Parts::Finite { negative, mantissa: leading | fraction, exponent }
}

/// Returns zero or infinity with this sign.
pub(crate) fn signed<F: Format>(negative: bool, magnitude: u64) -> F::Bits {
    F::from_bits(u64::from(negative) << F::SIGN | magnitude)
}

/// Rounds `mantissa * 2^exponent` to nearest, ties to even. The mantissa's highest bit is set. The number is
/// a little larger if `more` is set, by less than one unit of the mantissa.
pub(crate) fn round<F: Format>(negative: bool, mantissa: u128, exponent: i64, more: bool) -> F::Bits {
    debug_assert!(mantissa >> 127 == 1, "the mantissa is normalised");
    // Biased exponent if the result were normal.
    let biased = exponent + 127 + F::BIAS;
    if biased >= F::TOP as i64 {
        return signed::<F>(negative, F::TOP << F::FRACTION_BITS);
    }
    // Bits that are dropped: those below the fraction of a normal number, more in a subnormal one.
    let extra = (1 - biased).max(0);
    let dropped = 127 - i64::from(F::FRACTION_BITS) + extra;
    if dropped > 128 {
        return signed::<F>(negative, 0);
    }
    let (kept, half, rest) = match dropped {
        128 => (0, true, mantissa << 1 != 0),
        _ => {
            let kept = (mantissa >> dropped) as u64;
            (kept, mantissa >> (dropped - 1) & 1 == 1, mantissa & ((1 << (dropped - 1)) - 1) != 0)
        }
    };
    let up = half && (rest || more || kept & 1 == 1);
    // The leading one of a normal number counts as one in the exponent; a carry does the same.
    let below = (biased.max(1) - 1) as u64;
    let magnitude = (below << F::FRACTION_BITS) + kept + u64::from(up);
    signed::<F>(negative, magnitude)
}
