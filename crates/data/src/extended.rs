//! `long double` of x86-64: the 80-bit x87 format in 16 bytes. Rust has no such type, so arithmetic is
//! inline assembly, and conversion from and to binary128 (external32) is integer work.
//!
//! # Safety
//! Every assembly block reads and writes 10 bytes of values that it has references to, leaves the x87
//! stack empty, and declares all of it clobbered.
#![allow(unsafe_code)]

use std::arch::asm;
use std::cmp::Ordering;
use std::ops::{Add, Mul, Sub};

/// An 80-bit float: explicit integer bit, 15-bit exponent, bias 16383.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
pub(crate) struct Extended {
    mantissa: u64,
    sign_exponent: u16,
    padding: [u16; 3],
}

/// Defines an operator by the instruction that replaces the two topmost registers by its result.
macro_rules! arithmetic {
    ($operator:ident, $method:ident, $instruction:literal) => {
        impl $operator for Extended {
            type Output = Extended;

            #[inline]
            fn $method(self, right: Extended) -> Extended {
                let mut result = Extended::default();
                // SAFETY: the three addresses are of live values of 16 bytes; see the module.
                unsafe {
                    asm!(
                        "fld tbyte ptr [{left}]",
                        "fld tbyte ptr [{right}]",
                        $instruction,
                        "fstp tbyte ptr [{result}]",
                        left = in(reg) &raw const self,
                        right = in(reg) &raw const right,
                        result = in(reg) &raw mut result,
                        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                        options(nostack),
                    );
                }
                result
            }
        }
    };
}

arithmetic!(Add, add, "faddp st(1), st");
arithmetic!(Sub, sub, "fsubp st(1), st");
arithmetic!(Mul, mul, "fmulp st(1), st");

impl PartialEq for Extended {
    fn eq(&self, other: &Extended) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Extended {
    #[inline]
    fn partial_cmp(&self, other: &Extended) -> Option<Ordering> {
        let (unordered, below, equal): (u8, u8, u8);
        // SAFETY: both addresses are of live values of 16 bytes; see the module.
        unsafe {
            asm!(
                "fld tbyte ptr [{right}]",
                "fld tbyte ptr [{left}]",
                "fucomip st, st(1)",
                "setp {unordered}",
                "setb {below}",
                "sete {equal}",
                "fstp st(0)",
                left = in(reg) &raw const *self,
                right = in(reg) &raw const *other,
                unordered = out(reg_byte) unordered,
                below = out(reg_byte) below,
                equal = out(reg_byte) equal,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        match (unordered, below, equal) {
            (1, _, _) => None,
            (_, 1, _) => Some(Ordering::Less),
            (_, _, 1) => Some(Ordering::Equal),
            _ => Some(Ordering::Greater),
        }
    }
}

/// Bits of a binary128 fraction that an x87 mantissa does not have.
const EXTRA: u32 = 49;
const INTEGER_BIT: u64 = 1 << 63;

impl Extended {
    /// Reads a value from its 16 bytes in memory; the last six are padding.
    pub fn from_bytes(bytes: [u8; 16]) -> Extended {
        let bits = u128::from_le_bytes(bytes);
        Extended { mantissa: bits as u64, sign_exponent: (bits >> 64) as u16, padding: [0; 3] }
    }

    /// Returns the 16 bytes of the value in memory, with zero padding.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.sign_exponent) << 64 | u128::from(self.mantissa)).to_le_bytes()
    }

    /// Returns the bits of the same value in binary128; always exact.
    pub fn to_binary128(self) -> u128 {
        let (sign, mut exponent) = (self.sign_exponent & 0x8000, self.sign_exponent & 0x7fff);
        if exponent == 0 && self.mantissa & INTEGER_BIT != 0 {
            exponent = 1;
        }
        let fraction = u128::from(self.mantissa & !INTEGER_BIT) << EXTRA;
        u128::from(sign | exponent) << 112 | fraction
    }

    /// Returns the value nearest to a binary128, ties to even.
    pub fn from_binary128(bits: u128) -> Extended {
        let sign_exponent = (bits >> 112) as u16;
        let (sign, exponent) = (sign_exponent & 0x8000, sign_exponent & 0x7fff);
        let fraction = bits & ((1 << 112) - 1);
        let top = (fraction >> EXTRA) as u64;
        let make =
            |mantissa, exponent| Extended { mantissa, sign_exponent: sign | exponent, padding: [0; 3] };
        if exponent == 0x7fff {
            let quiet = if fraction == 0 { 0 } else { 1 << 62 };
            return make(INTEGER_BIT | quiet | top, exponent);
        }
        let lost = fraction & ((1 << EXTRA) - 1);
        let half = 1u128 << (EXTRA - 1);
        let up = lost > half || lost == half && top & 1 == 1;
        let rounded = top + u64::from(up);
        if exponent == 0 {
            // Rounding up to the integer bit makes the smallest normal number.
            return make(rounded, (rounded >> 63) as u16);
        }
        // A carry out of the fraction leaves it zero and raises the exponent, up to infinity.
        make(INTEGER_BIT | rounded, exponent + (rounded >> 63) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_f64(value: f64) -> Extended {
        let mut result = Extended::default();
        // SAFETY: loads 8 bytes of `value` and stores 10 into `result`.
        unsafe {
            asm!("fld qword ptr [{v}]", "fstp tbyte ptr [{r}]", v = in(reg) &raw const value, r = in(reg) &raw mut result,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _);
        }
        result
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls assembly")]
    fn arithmetic_is_that_of_the_values() {
        assert_eq!(from_f64(1.5) + from_f64(2.25), from_f64(3.75));
        assert_eq!(from_f64(1.5) - from_f64(2.25), from_f64(-0.75));
        assert_eq!(from_f64(1.5) * from_f64(-4.0), from_f64(-6.0));
        assert!(
            from_f64(-1.0) < from_f64(2.0)
                && from_f64(2.0) > from_f64(1.0)
                && from_f64(f64::NAN).partial_cmp(&from_f64(1.0)).is_none()
        );
        // More than 53 bits survive.
        assert_ne!(from_f64(1.0) + from_f64(2f64.powi(-60)), from_f64(1.0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls assembly")]
    fn binary128_keeps_every_extended_value() {
        let one = from_f64(1.0).to_binary128();
        assert_eq!(one, 0x3fff_u128 << 112);
        for value in [0.0, -0.0, 1.0, -2.5, f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, 1.0 / 3.0] {
            let value = from_f64(value) * from_f64(1.0000000001);
            let back = Extended::from_binary128(value.to_binary128());
            assert_eq!(back.to_bytes(), value.to_bytes());
        }
        let tiny = Extended { mantissa: 3, sign_exponent: 0x8000, padding: [0; 3] };
        assert_eq!(Extended::from_binary128(tiny.to_binary128()).to_bytes(), tiny.to_bytes());
        let all_ones = (1u128 << 112) - 1;
        assert_eq!(Extended::from_binary128(0x3ffe_u128 << 112 | all_ones), from_f64(1.0));
        assert_eq!(Extended::from_binary128(all_ones).sign_exponent, 1);
        assert_eq!(Extended::from_binary128(0x7ffe_u128 << 112 | all_ones), from_f64(f64::INFINITY));
        assert!(Extended::from_binary128(0x7fff_u128 << 112 | 1).partial_cmp(&from_f64(0.0)).is_none());
    }
}
