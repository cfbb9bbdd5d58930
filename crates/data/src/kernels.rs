//! Predefined operators on two elements, and the element type of each datatype.

use crate::brain::Brain;
use crate::extended::Extended;
use crate::op::Operator;
use crate::predefined::{self, Class, Predefined};
use crate::quad::{Half, Quad};
use crate::simd::{Combine, Kernels};
use std::num::Wrapping;
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub};

struct Sum;
struct Product;
struct Least;
struct Most;
struct And;
struct Or;
struct Xor;
struct LogicalAnd;
struct LogicalOr;
struct LogicalXor;
struct LeastWithIndex;
struct MostWithIndex;

impl<T: Add<Output = T>> Combine<T> for Sum {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        left + right
    }
}

impl<T: Mul<Output = T>> Combine<T> for Product {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        left * right
    }
}

impl<T: PartialOrd> Combine<T> for Least {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        if left < right { left } else { right }
    }
}

impl<T: PartialOrd> Combine<T> for Most {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        if left > right { left } else { right }
    }
}

impl<T: BitAnd<Output = T>> Combine<T> for And {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        left & right
    }
}

impl<T: BitOr<Output = T>> Combine<T> for Or {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        left | right
    }
}

impl<T: BitXor<Output = T>> Combine<T> for Xor {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        left ^ right
    }
}

impl<T: PartialEq + Default + From<bool>> Combine<T> for LogicalAnd {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        T::from((left != T::default()) & (right != T::default()))
    }
}

impl<T: PartialEq + Default + From<bool>> Combine<T> for LogicalOr {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        T::from((left != T::default()) | (right != T::default()))
    }
}

impl<T: PartialEq + Default + From<bool>> Combine<T> for LogicalXor {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        T::from((left != T::default()) ^ (right != T::default()))
    }
}

/// A complex number of C and Fortran.
#[derive(Clone, Copy)]
#[repr(C)]
struct Complex<T>(T, T);

impl<T: Copy + Add<Output = T> + Sub<Output = T> + Mul<Output = T>> Mul for Complex<T> {
    type Output = Complex<T>;

    #[inline(always)]
    fn mul(self, right: Complex<T>) -> Complex<T> {
        Complex(self.0 * right.0 - self.1 * right.1, self.0 * right.1 + self.1 * right.0)
    }
}

/// The C struct of a value and an index.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<V, I> {
    value: V,
    index: I,
}

/// Equal values keep the lower index (MPI-5 section 6.9.4).
impl<V: PartialOrd, I: PartialOrd> Combine<Pair<V, I>> for LeastWithIndex {
    #[inline(always)]
    fn combine(left: Pair<V, I>, right: Pair<V, I>) -> Pair<V, I> {
        let first = left.value < right.value || left.value == right.value && left.index < right.index;
        if first { left } else { right }
    }
}

impl<V: PartialOrd, I: PartialOrd> Combine<Pair<V, I>> for MostWithIndex {
    #[inline(always)]
    fn combine(left: Pair<V, I>, right: Pair<V, I>) -> Pair<V, I> {
        let first = left.value > right.value || left.value == right.value && left.index < right.index;
        if first { left } else { right }
    }
}

/// Returns the loops of a predefined operator over arrays of a predefined type, or `None` if it has none. The
/// caller checks the groups.
pub(crate) fn select(operator: Operator, row: &Predefined) -> Option<Kernels> {
    match operator {
        Operator::Sum => arithmetic::<Sum>(row).or_else(|| complex_sum(row)),
        Operator::Product => arithmetic::<Product>(row).or_else(|| complex_product(row)),
        Operator::Least => ordering::<Least>(row),
        Operator::Most => ordering::<Most>(row),
        Operator::BitAnd => Some(Kernels::for_processor::<u8, And>().lanes(row.bytes.into())),
        Operator::BitOr => Some(Kernels::for_processor::<u8, Or>().lanes(row.bytes.into())),
        Operator::BitXor => Some(Kernels::for_processor::<u8, Xor>().lanes(row.bytes.into())),
        Operator::LogicalAnd => logical::<LogicalAnd>(row),
        Operator::LogicalOr => logical::<LogicalOr>(row),
        Operator::LogicalXor => logical::<LogicalXor>(row),
        Operator::LeastWithIndex => located::<LeastWithIndex>(row),
        Operator::MostWithIndex => located::<MostWithIndex>(row),
        Operator::Replace | Operator::Nothing => None,
    }
}

/// Returns the loops of an arithmetic operator. Signed and unsigned integers wrap around alike, so one loop
/// serves both.
fn arithmetic<O>(row: &Predefined) -> Option<Kernels>
where
    O: Combine<Wrapping<u8>> + Combine<Wrapping<u16>> + Combine<Wrapping<u32>>,
    O: Combine<Wrapping<u64>> + Combine<Wrapping<u128>>,
    O: Combine<f32> + Combine<f64> + Combine<Half> + Combine<Brain> + Combine<Extended> + Combine<Quad>,
{
    Some(match (row.arithmetic_class(), row.bytes) {
        (Class::Signed | Class::Unsigned, 1) => Kernels::for_processor::<Wrapping<u8>, O>(),
        (Class::Signed | Class::Unsigned, 2) => Kernels::for_processor::<Wrapping<u16>, O>(),
        (Class::Signed | Class::Unsigned, 4) => Kernels::of_simple::<Wrapping<u32>, O>(),
        (Class::Signed | Class::Unsigned, 8) => Kernels::for_processor::<Wrapping<u64>, O>(),
        (Class::Signed, 16) => Kernels::scalar::<Wrapping<u128>, O>(),
        (Class::Float, 2) => Kernels::for_processor::<Half, O>(),
        (Class::Brain, 2) => Kernels::for_processor::<Brain, O>(),
        (Class::Float, 4) => Kernels::of_simple::<f32, O>(),
        (Class::Float, 8) => Kernels::of_simple::<f64, O>(),
        (Class::Float, 16) => Kernels::scalar::<Quad, O>(),
        (Class::Extended, 16) => Kernels::scalar::<Extended, O>(),
        _ => return None,
    })
}

fn complex_sum(row: &Predefined) -> Option<Kernels> {
    let one = match (row.arithmetic_class(), row.bytes) {
        (Class::Complex, 4) => Kernels::for_processor::<Half, Sum>(),
        (Class::Complex, 8) => Kernels::of_simple::<f32, Sum>(),
        (Class::Complex, 16) => Kernels::of_simple::<f64, Sum>(),
        (Class::Complex, 32) => Kernels::scalar::<Quad, Sum>(),
        (Class::ExtendedComplex, 32) => Kernels::scalar::<Extended, Sum>(),
        _ => return None,
    };
    Some(one.lanes(2))
}

fn complex_product(row: &Predefined) -> Option<Kernels> {
    Some(match (row.arithmetic_class(), row.bytes) {
        (Class::Complex, 4) => Kernels::for_processor::<Complex<Half>, Product>(),
        (Class::Complex, 8) => Kernels::for_processor::<Complex<f32>, Product>(),
        (Class::Complex, 16) => Kernels::for_processor::<Complex<f64>, Product>(),
        (Class::Complex, 32) => Kernels::scalar::<Complex<Quad>, Product>(),
        (Class::ExtendedComplex, 32) => Kernels::scalar::<Complex<Extended>, Product>(),
        _ => return None,
    })
}

fn ordering<O>(row: &Predefined) -> Option<Kernels>
where
    O: Combine<i8> + Combine<i16> + Combine<i32> + Combine<i64> + Combine<i128>,
    O: Combine<u8> + Combine<u16> + Combine<u32> + Combine<u64>,
    O: Combine<f32> + Combine<f64> + Combine<Half> + Combine<Brain> + Combine<Extended> + Combine<Quad>,
{
    Some(match (row.arithmetic_class(), row.bytes) {
        (Class::Signed, 1) => Kernels::for_processor::<i8, O>(),
        (Class::Signed, 2) => Kernels::for_processor::<i16, O>(),
        (Class::Signed, 4) => Kernels::for_processor::<i32, O>(),
        (Class::Signed, 8) => Kernels::for_processor::<i64, O>(),
        (Class::Signed, 16) => Kernels::scalar::<i128, O>(),
        (Class::Unsigned, 1) => Kernels::for_processor::<u8, O>(),
        (Class::Unsigned, 2) => Kernels::for_processor::<u16, O>(),
        (Class::Unsigned, 4) => Kernels::for_processor::<u32, O>(),
        (Class::Unsigned, 8) => Kernels::for_processor::<u64, O>(),
        (Class::Float, 2) => Kernels::for_processor::<Half, O>(),
        (Class::Brain, 2) => Kernels::for_processor::<Brain, O>(),
        (Class::Float, 4) => Kernels::of_simple::<f32, O>(),
        (Class::Float, 8) => Kernels::of_simple::<f64, O>(),
        (Class::Float, 16) => Kernels::scalar::<Quad, O>(),
        (Class::Extended, 16) => Kernels::scalar::<Extended, O>(),
        _ => return None,
    })
}

fn logical<O>(row: &Predefined) -> Option<Kernels>
where
    O: Combine<u8> + Combine<u16> + Combine<u32> + Combine<u64> + Combine<u128>,
{
    Some(match row.bytes {
        1 => Kernels::for_processor::<u8, O>(),
        2 => Kernels::for_processor::<u16, O>(),
        4 => Kernels::for_processor::<u32, O>(),
        8 => Kernels::for_processor::<u64, O>(),
        16 => Kernels::scalar::<u128, O>(),
        _ => return None,
    })
}

/// Requirements of MINLOC and MAXLOC on an operator: every kind of index for a value `V`.
trait Locate<V>:
    Combine<Pair<V, i8>>
    + Combine<Pair<V, u8>>
    + Combine<Pair<V, i16>>
    + Combine<Pair<V, u16>>
    + Combine<Pair<V, i32>>
    + Combine<Pair<V, u32>>
    + Combine<Pair<V, i64>>
    + Combine<Pair<V, u64>>
    + Combine<Pair<V, i128>>
    + Combine<Pair<V, V>>
{
}

impl<V: PartialOrd> Locate<V> for LeastWithIndex {}
impl<V: PartialOrd> Locate<V> for MostWithIndex {}

fn located<O>(row: &Predefined) -> Option<Kernels>
where
    O: Locate<i8> + Locate<i16> + Locate<i32> + Locate<i64> + Locate<i128>,
    O: Locate<u8> + Locate<u16> + Locate<u32> + Locate<u64>,
    O: Locate<f32> + Locate<f64> + Locate<Half> + Locate<Brain> + Locate<Extended> + Locate<Quad>,
{
    let (value, index) = row.pair?;
    let (value, index) = (predefined::scalar(value), predefined::scalar(index));
    match (value.class, value.bytes) {
        (Class::Signed, 1) => indexed::<i8, O>(value, index),
        (Class::Signed, 2) => indexed::<i16, O>(value, index),
        (Class::Signed, 4) => indexed::<i32, O>(value, index),
        (Class::Signed, 8) => indexed::<i64, O>(value, index),
        (Class::Signed, 16) => indexed::<i128, O>(value, index),
        (Class::Unsigned, 1) => indexed::<u8, O>(value, index),
        (Class::Unsigned, 2) => indexed::<u16, O>(value, index),
        (Class::Unsigned, 4) => indexed::<u32, O>(value, index),
        (Class::Unsigned, 8) => indexed::<u64, O>(value, index),
        (Class::Float, 2) => indexed::<Half, O>(value, index),
        (Class::Brain, 2) => indexed::<Brain, O>(value, index),
        (Class::Float, 4) => indexed::<f32, O>(value, index),
        (Class::Float, 8) => indexed::<f64, O>(value, index),
        (Class::Float, 16) => indexed::<Quad, O>(value, index),
        (Class::Extended, 16) => indexed::<Extended, O>(value, index),
        _ => None,
    }
}

fn indexed<V: Copy, O: Locate<V>>(value: &Predefined, index: &Predefined) -> Option<Kernels> {
    Some(match (index.class, index.bytes) {
        (Class::Signed, 1) => Kernels::scalar::<Pair<V, i8>, O>(),
        (Class::Unsigned, 1) => Kernels::scalar::<Pair<V, u8>, O>(),
        (Class::Signed, 2) => Kernels::scalar::<Pair<V, i16>, O>(),
        (Class::Unsigned, 2) => Kernels::scalar::<Pair<V, u16>, O>(),
        (Class::Signed, 4) => Kernels::scalar::<Pair<V, i32>, O>(),
        (Class::Unsigned, 4) => Kernels::scalar::<Pair<V, u32>, O>(),
        (Class::Signed, 8) => Kernels::scalar::<Pair<V, i64>, O>(),
        (Class::Unsigned, 8) => Kernels::scalar::<Pair<V, u64>, O>(),
        (Class::Signed, 16) => Kernels::scalar::<Pair<V, i128>, O>(),
        // Fortran has pairs of two reals.
        (class, bytes) if (class, bytes) == (value.class, value.bytes) => Kernels::scalar::<Pair<V, V>, O>(),
        _ => return None,
    })
}
