//! Memory that is shared from the start: the library's own temporaries, MPI_Alloc_mem, windows of
//! MPI_Win_allocate.
//!
//! Blocks stay in place until they are freed, so the kernel need not be asked where they are. Freed blocks
//! are kept for the next request of their size, up to a limit. Sizes have four significant bits, so that a
//! request usually finds one.
//!
//! # Safety
//! A block is unmapped when it is freed, by a caller that promises that it is no longer used. Pages of a
//! block in the cache keep their content, all of it data of this job.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use tutti_sys::remap;

use super::object::{Block, Object, ObjectRange, state};
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
    /// Allocates a block of at least `bytes`, if mapped memory stays within `limit` bytes.
    pub(super) fn allocate(
        &mut self,
        object: &'static Object,
        bytes: u64,
        limit: u64,
    ) -> Option<NonNull<u8>> {
        self.object = Some(object);
        let bytes = size_class(bytes);
        self.drop_retired(object);
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
        if self.is_of_current(&block) && kept + block.bytes <= KEPT_BYTES {
            self.free.push(block);
        } else {
            // SAFETY: the caller's promise.
            unsafe { destroy(self.object.filter(|_| self.is_of_current(&block)), block) };
        }
        Some(block.bytes)
    }

    /// Returns true if a block is shared: a fork makes blocks private with all else.
    fn is_of_current(&self, block: &Block) -> bool {
        self.object.is_some_and(|object| object.is_current() && object.key() == block.object)
    }

    /// Drops free blocks that a fork has made private.
    fn drop_retired(&mut self, object: &Object) {
        let key = object.key();
        self.free.retain(|block| {
            let is_shared = block.object == key;
            if !is_shared {
                // SAFETY: nobody uses a free block.
                unsafe { destroy(None, *block) };
            }
            is_shared
        });
    }

    /// Returns true if an address is in a block.
    pub(super) fn holds(&self, address: u64) -> bool {
        self.used.iter().any(|block| (block.start..block.start + block.bytes).contains(&address))
    }

    /// Finds the place of a buffer in the current object, if it is part of a block.
    #[inline]
    pub(super) fn find(&self, object: &Object, address: u64, bytes: u64) -> Option<ObjectRange> {
        let inside = |block: &&Block| address >= block.start && address + bytes <= block.start + block.bytes;
        let block = self.used.iter().find(inside).filter(|block| block.object == object.key())?;
        Some(ObjectRange {
            start: address,
            end: address + bytes,
            offset: block.offset + (address - block.start),
            map_offset: block.offset,
            map_bytes: block.bytes,
        })
    }
}

/// Rounds `bytes` up so that few sizes occur: whole pages, and four significant bits.
fn size_class(bytes: u64) -> u64 {
    let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
    let grain = 1 << (bytes.ilog2().max(3) - 3);
    bytes.next_multiple_of(grain.max(PAGE_BYTES))
}

fn make(object: &Object, bytes: u64, limit: u64) -> Option<Block> {
    let mut state = state();
    let is_usable = object.is_current() && object.is_intact();
    if !is_usable || state.live_bytes + bytes > limit {
        return None;
    }
    let offset = state.take_slot(0, bytes).ok()?;
    match remap::map(object.fd(), offset, bytes as usize) {
        Ok(base) => {
            let start = base.expose_provenance() as u64;
            let block = Block { start, bytes, offset, object: object.key() };
            state.blocks.push(block);
            Some(block)
        }
        Err(_) => {
            state.free_slot(object, offset, bytes);
            None
        }
    }
}

/// Unmaps a block, and frees its room in `object`, whose block it is if there is one.
///
/// # Safety
/// Nobody uses the block any more.
unsafe fn destroy(object: Option<&Object>, block: Block) {
    let mut state = state();
    // SAFETY: the caller's promise.
    unsafe {
        remap::unmap(std::ptr::with_exposed_provenance_mut(block.start as usize), block.bytes as usize)
    };
    if let Some(object) = object.filter(|object| object.is_current()) {
        state.blocks.retain(|other| *other != block);
        state.free_slot(object, block.offset, block.bytes);
    }
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
