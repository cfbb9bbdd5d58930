//! Results that members compute together in the background.

use std::marker::PhantomData;

use crate::buffer::Buffer;
use crate::request::RequestId;

/// Result to which all members contribute in the background: a maximum, several maxima, or all
/// contributions. Its memory lives until both the operation and this value end.
#[derive(Debug)]
pub struct Collected<T> {
    /// Request that is complete when the result is known.
    pub request: RequestId,
    /// Memory of the result.
    pub(crate) all: Buffer,
    pub(crate) of: PhantomData<fn() -> T>,
}

/// The maximum of one number over all members.
pub type Maximum = Collected<u64>;
/// Element-wise maxima of a list of numbers.
pub type Maxima = Collected<Vec<u64>>;
/// The contributions of all members, one after the other.
pub type Gathering = Collected<Vec<u8>>;

/// Conversion from the received bytes.
pub trait OfBytes {
    /// Converts the bytes, in native byte order.
    fn of_bytes(bytes: Vec<u8>) -> Self;
}

impl OfBytes for u64 {
    fn of_bytes(bytes: Vec<u8>) -> u64 {
        bytes.first_chunk().copied().map_or(0, u64::from_ne_bytes)
    }
}

impl OfBytes for Vec<u64> {
    fn of_bytes(bytes: Vec<u8>) -> Vec<u64> {
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    }
}

impl OfBytes for Vec<u8> {
    fn of_bytes(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}
