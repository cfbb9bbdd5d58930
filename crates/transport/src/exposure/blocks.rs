//! Memory that is shared from the start: the library's own temporaries, MPI_Alloc_mem, windows of MPI_Win_allocate.
//!
//! Blocks stay where they are until they are freed, so nobody has to ask the kernel where they are. Freed ones are
//! kept for the next request of their size, up to a bound; their sizes have one digit of four bits, so
//! that a request finds one.
//!
//! # Safety
//! A block is unmapped when it is freed, by a caller who promises that nobody uses it; pages of a block in the cache keep
//! what was in them, all of it data of this job.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use tutti_sys::remap;

use super::object::{Block, Object, Place, state};
use super::record::PAGE_BYTES;

/// Bytes of freed blocks that are kept.
const KEPT_BYTES: u64 = 64 << 20;

/// The blocks of a process.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    used: Vec<Block>,
    free: Vec<Block>,
    object: Option<&'static Object>,
}

impl Blocks {
    /// A block of at least `bytes`, if `limit` bytes of mapped memory are not exceeded.
    pub(super) fn allocate(
        &mut self,
        object: &'static Object,
        bytes: u64,
        limit: u64,
    ) -> Option<NonNull<u8>> {
        self.object = Some(object);
        let bytes = size_class(bytes);
        let kept = self.free.iter().position(|block| block.bytes == bytes);
        let block = match kept {
            Some(index) => self.free.swap_remove(index),
            None => make(object, bytes, limit)?,
        };
        self.used.push(block);
        NonNull::new(std::ptr::with_exposed_provenance_mut(block.start as usize))
    }

    /// Takes a block back; returns how long it was, or `None` if it is not one.
    ///
    /// # Safety
    /// Nobody uses it any more.
    pub(super) unsafe fn free(&mut self, memory: NonNull<u8>) -> Option<u64> {
        let start = memory.as_ptr() as u64;
        let index = self.used.iter().position(|block| block.start == start)?;
        let block = self.used.swap_remove(index);
        let kept: u64 = self.free.iter().map(|block| block.bytes).sum();
        if kept + block.bytes <= KEPT_BYTES {
            self.free.push(block);
        } else if let Some(object) = self.object.filter(|object| object.is_current()) {
            // SAFETY: the caller's promise.
            unsafe { destroy(object, block) };
        }
        Some(block.bytes)
    }

    /// Whether an address is in a block.
    pub(super) fn holds(&self, address: u64) -> bool {
        self.used.iter().any(|block| (block.start..block.start + block.bytes).contains(&address))
    }

    /// Where a buffer is in the object, if it is part of a block.
    #[inline]
    pub(super) fn find(&self, address: u64, bytes: u64) -> Option<Place> {
        let inside = |block: &&Block| address >= block.start && address + bytes <= block.start + block.bytes;
        let block = self.used.iter().find(inside)?;
        Some(Place {
            start: address,
            end: address + bytes,
            offset: block.offset + (address - block.start),
            map_offset: block.offset,
            map_bytes: block.bytes,
        })
    }
}

/// `bytes`, rounded up so that few sizes occur: whole pages, and four significant bits.
fn size_class(bytes: u64) -> u64 {
    let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
    let grain = 1 << (bytes.ilog2().max(3) - 3);
    bytes.next_multiple_of(grain.max(PAGE_BYTES))
}

fn make(object: &Object, bytes: u64, limit: u64) -> Option<Block> {
    let mut state = state();
    if !object.is_current() || state.live_bytes + bytes > limit {
        return None;
    }
    let offset = state.take_slot(0, bytes).ok()?;
    match remap::map(object.fd(), offset, bytes as usize) {
        Ok(base) => {
            let block = Block { start: base.expose_provenance() as u64, bytes, offset };
            state.blocks.push(block);
            Some(block)
        }
        Err(_) => {
            state.free_slot(object, offset, bytes);
            None
        }
    }
}

/// # Safety
/// Nobody uses the block any more.
unsafe fn destroy(object: &Object, block: Block) {
    let mut state = state();
    state.blocks.retain(|other| *other != block);
    // SAFETY: the caller's promise.
    unsafe {
        remap::unmap(std::ptr::with_exposed_provenance_mut(block.start as usize), block.bytes as usize)
    };
    state.free_slot(object, block.offset, block.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: u64, expected: u64) {
        assert_eq!(size_class(bytes), expected, "{bytes}");
    }

    #[test]
    fn sizes_are_few() {
        check(0, 4096);
        check(4096, 4096);
        check(4097, 8192);
        check(65536, 65536);
        check(65537, 73728);
        check(1 << 30, 1 << 30);
        check((1 << 30) + 1, (1 << 30) + (1 << 27));
    }
}
