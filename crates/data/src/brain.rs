//! bfloat16: the upper half of a binary32, of which MPICH 5 makes a datatype.

use std::cmp::Ordering;
use std::ops::{Add, Mul};

/// A bfloat16. A sum of two is computed in single precision, whose 24 bits are enough to round as if once; a
/// product in double precision, as that of subnormal numbers has fewer bits in single precision.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Brain(pub u16);

impl Brain {
    /// Returns the same value in single precision.
    #[inline(always)]
    pub fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// Returns the nearest bfloat16, ties to even. Without branches, so that loops over it vectorise. The
    /// processor's own instruction is not used: it takes subnormal numbers for zero.
    #[inline(always)]
    pub fn narrow(value: f32) -> Brain {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
        Brain(if is_nan { bits >> 16 | 0x40 } else { rounded } as u16)
    }
}

impl Add for Brain {
    type Output = Brain;
    #[inline(always)]
    fn add(self, right: Brain) -> Brain {
        Brain::narrow(self.widen() + right.widen())
    }
}

impl Mul for Brain {
    type Output = Brain;
    #[inline(always)]
    fn mul(self, right: Brain) -> Brain {
        // Exact, as 16 bits are enough for it. Its rest is folded into the last bit of the single, so that
        // narrowing rounds once.
        let product = f64::from(self.widen()) * f64::from(right.widen());
        Brain::narrow(odd(product))
    }
}

/// Returns the single nearest to `value`, or the one beside it whose last bit is 1 if the value lies between
/// two. Rounding that to a format with fewer bits is rounding once (S. Boldo, G. Melquiond, "Emulation of FMA
/// and correctly rounded sums", IEEE Trans. Comput. 57, 2008).
#[inline(always)]
pub(crate) fn odd(value: f64) -> f32 {
    let near = value as f32;
    let (bits, back) = (near.to_bits(), f64::from(near));
    let is_odd = bits & 1 == 1;
    let step = if back.abs() < value.abs() { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    // A NaN compares as different from itself, and stays.
    let stays = back == value || is_odd || value.is_nan();
    f32::from_bits(if stays { bits } else { step })
}

impl PartialEq for Brain {
    #[inline(always)]
    fn eq(&self, other: &Brain) -> bool {
        self.widen() == other.widen()
    }
}

impl PartialOrd for Brain {
    #[inline(always)]
    fn partial_cmp(&self, other: &Brain) -> Option<Ordering> {
        self.widen().partial_cmp(&other.widen())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_narrow(value: f32, expected: u16) {
        assert_eq!(Brain::narrow(value).0, expected, "{value:e}");
    }

    #[test]
    fn every_brain_survives_widening() {
        for bits in (0..=u16::MAX).step_by(if cfg!(miri) { 199 } else { 1 }) {
            let back = Brain::narrow(Brain(bits).widen());
            assert!(back.0 == bits || back.widen().is_nan() && Brain(bits).widen().is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn ties_go_to_the_even_neighbour() {
        check_narrow(f32::from_bits(0x3f80_8000), 0x3f80);
        check_narrow(f32::from_bits(0x3f81_8000), 0x3f82);
        check_narrow(f32::from_bits(0x3f80_8001), 0x3f81);
        check_narrow(f32::MAX, 0x7f80);
        check_narrow(f32::from_bits(0x7f80_0001), 0x7fc0);
        check_narrow(f32::from_bits(0x0000_8001), 0x0001);
    }

    #[test]
    fn products_of_subnormal_results_round_once() {
        // 2^-133 is the smallest bfloat16; the product is a little more than half of it.
        let (half, above) = (Brain::narrow(2f32.powi(-60)), Brain::narrow(2f32.powi(-74) * 1.0078125));
        assert_eq!((half * above).0, 1);
        assert_eq!((half * Brain::narrow(2f32.powi(-74))).0, 0);
    }
}
