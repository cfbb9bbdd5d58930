//! What members find out together in the background.

use std::marker::PhantomData;

use crate::buffer::Buffer;
use crate::request::RequestId;

/// Something that all members contribute to in the background: a maximum, maxima, or all parts. Its memory
/// lives as long as the operation or this.
#[derive(Debug)]
pub struct Collected<T> {
    /// Complete when it is known.
    pub request: RequestId,
    pub(crate) all: Buffer,
    pub(crate) of: PhantomData<fn() -> T>,
}

/// One number: the maximum over all members.
pub type Maximum = Collected<u64>;
/// Element-wise maxima.
pub type Maxima = Collected<Vec<u64>>;
/// What each member gave, one after the other.
pub type Gathering = Collected<Vec<u8>>;

/// What is made of the bytes that have come.
pub trait OfBytes {
    /// It.
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
