//! Hashes of type signatures (MPI-5 section 5.1: the sequence of basic types, without displacements).
//!
//! A sequence w1..wn is the map x -> x*B^n + (w1*B^(n-1) + .. + wn) modulo the prime 2^61-1. Maps
//! compose associatively, so the hash depends on the sequence alone and not on how constructors nest,
//! and a repetition is a power, found by squaring.

use crate::predefined::Predefined;

const PRIME: u64 = (1 << 61) - 1;
const BASE: u64 = 0x0e35_7a1c_9b4d_62f1;

/// The signature of a datatype, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    factor: u64,
    term: u64,
    /// Contains bytes or packed data, which match anything.
    wild: bool,
}

impl Signature {
    /// The signature without items.
    pub const EMPTY: Signature = Signature { factor: 1, term: 0, wild: false };

    /// Returns the signature of one item. Types that are the same in memory (`MPI_LONG` and `MPI_INT64_T`)
    /// are equal here: the standard distinguishes them, but programs mix them without harm.
    pub fn from_item(basic: &Predefined) -> Signature {
        let word = mix((basic.class as u64) << 8 | u64::from(basic.bytes)) % PRIME;
        Signature { factor: BASE, term: word.max(1), wild: basic.is_wildcard() }
    }

    /// Returns the signature of this sequence followed by `next`.
    pub fn then(self, next: Signature) -> Signature {
        Signature {
            factor: multiply(self.factor, next.factor),
            term: add(multiply(self.term, next.factor), next.term),
            wild: self.wild || next.wild,
        }
    }

    /// Returns the signature of this sequence repeated `count` times.
    pub fn repeat(self, mut count: u64) -> Signature {
        let (mut result, mut square) = (Signature::EMPTY, self);
        while count > 0 {
            if count & 1 == 1 {
                result = result.then(square);
            }
            square = square.then(square);
            count >>= 1;
        }
        result
    }

    /// Returns the hash, or `None` if the sequence matches by bytes.
    pub fn hash(self) -> Option<u64> {
        (!self.wild).then(|| mix(self.term ^ self.factor.rotate_left(31)))
    }
}

fn add(left: u64, right: u64) -> u64 {
    let sum = left + right;
    if sum >= PRIME { sum - PRIME } else { sum }
}

fn multiply(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    let folded = (product as u64 & PRIME) + (product >> 61) as u64;
    if folded >= PRIME { folded - PRIME } else { folded }
}

/// Spreads every bit of the input over the output.
fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ value >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predefined::scalar;

    #[test]
    fn structure_does_not_matter() {
        let (int, double) = (Signature::from_item(scalar(0x209)), Signature::from_item(scalar(0x214)));
        let pair = int.then(double);
        assert_eq!(pair.repeat(3), int.then(double.then(int)).then(double.then(int).then(double)));
        assert_ne!(pair.hash(), double.then(int).hash());
        assert_ne!(int.repeat(2).hash(), int.repeat(3).hash());
        assert_eq!(int.repeat(0), Signature::EMPTY);
        assert_eq!(Signature::from_item(scalar(0x247)).then(int).hash(), None);
    }
}
