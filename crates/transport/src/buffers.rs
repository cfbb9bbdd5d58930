//! Places of a table in which buffers are remembered by where they begin.

/// Buffers that are remembered; others take the places of these.
pub const BUFFERS: usize = 256;

/// Where a buffer is remembered that begins at `address`.
#[inline]
pub fn place(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

const _: () = assert!(BUFFERS == 256, "a place is eight bits");
