//! `REAL(16)` (binary128) and `REAL(2)` (binary16), which stable Rust cannot compute with.
//!
//! binary128 calls the compiler's runtime routines, which pass values in vector registers; a foreign
//! declaration with such types is not stable, so the calls are assembly.
//!
//! # Safety
//! The routines are pure functions of the platform's calling convention, which `clobber_abi` describes: two
//! vectors in xmm0 and xmm1 (v0 and v1), a vector in the first of them or a number in eax (w0).
#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::uint64x2_t as Register;
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m128i as Register;
use std::cmp::Ordering;
use std::ops::{Add, Mul, Sub};

unsafe extern "C" {
    // The signatures are not those of the routines: only their addresses are used.
    fn __addtf3();
    fn __subtf3();
    fn __multf3();
    fn __lttf2();
    fn __gttf2();
    fn __eqtf2();
}

/// A binary128.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(crate) struct Quad(pub u128);

/// Calls a routine of two binary128 that returns a third.
macro_rules! arithmetic {
    ($operator:ident, $method:ident, $routine:ident) => {
        impl $operator for Quad {
            type Output = Quad;

            fn $method(self, right: Quad) -> Quad {
                let result: Register;
                // SAFETY: a pure routine that takes two vectors and returns one; see the module.
                #[cfg(target_arch = "x86_64")]
                unsafe {
                    asm!(
                        "call {routine}",
                        routine = sym $routine,
                        inout("xmm0") self.register() => result,
                        in("xmm1") right.register(),
                        clobber_abi("C"),
                    );
                }
                // SAFETY: as above.
                #[cfg(target_arch = "aarch64")]
                unsafe {
                    asm!(
                        "bl {routine}",
                        routine = sym $routine,
                        inout("v0") self.register() => result,
                        in("v1") right.register(),
                        clobber_abi("C"),
                    );
                }
                Quad::from_register(result)
            }
        }
    };
}

arithmetic!(Add, add, __addtf3);
arithmetic!(Sub, sub, __subtf3);
arithmetic!(Mul, mul, __multf3);

/// Calls a routine that compares two binary128.
macro_rules! comparison {
    ($name:ident, $routine:ident) => {
        fn $name(left: Quad, right: Quad) -> i32 {
            let result: i32;
            // SAFETY: a pure routine that takes two vectors and returns a number; see the module.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                asm!(
                    "call {routine}",
                    routine = sym $routine,
                    in("xmm0") left.register(),
                    in("xmm1") right.register(),
                    lateout("eax") result,
                    clobber_abi("C"),
                );
            }
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                asm!(
                    "bl {routine}",
                    routine = sym $routine,
                    in("v0") left.register(),
                    in("v1") right.register(),
                    lateout("w0") result,
                    clobber_abi("C"),
                );
            }
            result
        }
    };
}

comparison!(less, __lttf2);
comparison!(greater, __gttf2);
comparison!(equal, __eqtf2);

impl Quad {
    fn register(self) -> Register {
        // SAFETY: both are 16 bytes, of which every pattern is valid.
        unsafe { std::mem::transmute(self.0) }
    }

    fn from_register(value: Register) -> Quad {
        // SAFETY: both are 16 bytes, of which every pattern is valid.
        Quad(unsafe { std::mem::transmute::<Register, u128>(value) })
    }
}

impl PartialEq for Quad {
    fn eq(&self, other: &Quad) -> bool {
        equal(*self, *other) == 0
    }
}

impl PartialOrd for Quad {
    fn partial_cmp(&self, other: &Quad) -> Option<Ordering> {
        match () {
            () if less(*self, *other) < 0 => Some(Ordering::Less),
            () if greater(*self, *other) > 0 => Some(Ordering::Greater),
            () if equal(*self, *other) == 0 => Some(Ordering::Equal),
            () => None,
        }
    }
}

/// A binary16; arithmetic goes through single precision, whose result rounds as if done once.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Half(pub u16);

impl Half {
    /// Returns the same value in single precision. Without branches, so that loops over it vectorise.
    #[inline(always)]
    pub fn widen(self) -> f32 {
        let (sign, magnitude) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7fff) << 13);
        // The exponent is 112 too small; the product is exact, and makes subnormal numbers normal ones.
        let finite = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
        let rest = if magnitude >= 0x1f << 23 { magnitude | 0x7f80_0000 } else { finite };
        f32::from_bits(sign | rest)
    }

    /// Returns the nearest binary16, ties to even. Without branches too.
    #[inline(always)]
    pub fn narrow(value: f32) -> Half {
        let bits = value.to_bits();
        let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
        // Below 2^-14: beside a half the last bit of a float is worth 2^-24, so the addition rounds.
        let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        // 65520 is the first number that rounds to infinity.
        let finite = if magnitude < 0x3880_0000 { small } else { normal };
        let finite = if magnitude < 0x477f_f000 { finite } else { 0x7c00 };
        let rest = if magnitude > 0x7f80_0000 { 0x7e00 } else { finite };
        Half((sign | rest) as u16)
    }
}

impl Add for Half {
    type Output = Half;
    #[inline(always)]
    fn add(self, right: Half) -> Half {
        Half::narrow(self.widen() + right.widen())
    }
}

impl Sub for Half {
    type Output = Half;
    #[inline(always)]
    fn sub(self, right: Half) -> Half {
        Half::narrow(self.widen() - right.widen())
    }
}

impl Mul for Half {
    type Output = Half;
    #[inline(always)]
    fn mul(self, right: Half) -> Half {
        Half::narrow(self.widen() * right.widen())
    }
}

impl PartialEq for Half {
    #[inline(always)]
    fn eq(&self, other: &Half) -> bool {
        self.widen() == other.widen()
    }
}

impl PartialOrd for Half {
    #[inline(always)]
    fn partial_cmp(&self, other: &Half) -> Option<Ordering> {
        self.widen().partial_cmp(&other.widen())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_widening() {
        for bits in (0..=u16::MAX).step_by(if cfg!(miri) { 199 } else { 1 }) {
            let half = Half(bits);
            let back = Half::narrow(half.widen());
            assert!(back.0 == bits || half.widen().is_nan() && back.widen().is_nan(), "{bits:#x}");
        }
        assert_eq!(Half::narrow(65519.0).0, 0x7bff);
        assert_eq!(Half::narrow(65520.0).0, 0x7c00);
        assert_eq!((Half::narrow(1.5) + Half::narrow(2.0)).widen(), 3.5);
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls assembly")]
    fn quad_arithmetic() {
        let (one, two, three) = (Quad(0x3fff << 112), Quad(0x4000 << 112), Quad(0x4000_8000 << 96));
        assert_eq!((one + two).0, three.0);
        assert_eq!((three - two).0, one.0);
        assert_eq!((two * two).0, 0x4001 << 112);
        assert!(one < two && three > two && one == one);
        assert!(Quad(0x7fff_8000 << 96).partial_cmp(&one).is_none());
    }
}
