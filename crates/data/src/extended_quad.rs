//! `long double` where that is a binary128 (64-bit Arm): the arithmetic is that of `REAL(16)`, and external32
//! has the same bits. A type of its own, as that of x86-64 is.

use std::ops::{Add, Mul, Sub};

use crate::quad::Quad;

pub(crate) use self::LongQuad as Extended;

/// A `long double`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
#[repr(transparent)]
pub(crate) struct LongQuad(Quad);

impl Add for LongQuad {
    type Output = LongQuad;
    fn add(self, right: LongQuad) -> LongQuad {
        LongQuad(self.0 + right.0)
    }
}

impl Sub for LongQuad {
    type Output = LongQuad;
    fn sub(self, right: LongQuad) -> LongQuad {
        LongQuad(self.0 - right.0)
    }
}

impl Mul for LongQuad {
    type Output = LongQuad;
    fn mul(self, right: LongQuad) -> LongQuad {
        LongQuad(self.0 * right.0)
    }
}

impl LongQuad {
    /// Reads a value from its 16 bytes in memory.
    pub fn from_bytes(bytes: [u8; 16]) -> LongQuad {
        LongQuad(Quad(u128::from_le_bytes(bytes)))
    }

    /// Returns the 16 bytes of the value in memory.
    pub fn to_bytes(self) -> [u8; 16] {
        self.to_binary128().to_le_bytes()
    }

    /// Returns the bits of the same value in binary128.
    pub fn to_binary128(self) -> u128 {
        self.0.0
    }

    /// Returns the value of a binary128.
    pub fn from_binary128(bits: u128) -> LongQuad {
        LongQuad(Quad(bits))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    #[test]
    fn its_bytes_are_those_of_a_binary128() {
        let one = LongQuad::from_binary128(0x3fff << 112);
        assert_eq!(LongQuad::from_bytes((one + one).to_bytes()).to_binary128(), 0x4000 << 112);
        assert_eq!((one * one - one).to_binary128(), 0);
        assert_eq!(one.partial_cmp(&(one + one)), Some(Ordering::Less));
    }
}
