//! Slots of a table that remembers buffers by their address.

/// Number of buffers remembered. A new one replaces the one in its slot.
pub const BUFFERS: usize = 256;

/// Returns the slot of the buffer that begins at `address`.
#[inline]
pub fn place(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

const _: () = assert!(BUFFERS == 256, "a place is eight bits");
