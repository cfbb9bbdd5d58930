//! Memory for messages of libfabric: pieces of one size, each with the context of the operation that uses it.
//!
//! # Safety
//! - The memory is allocated once, zeroed, and freed when the pool is dropped; it is reached through raw
//!   pointers only, so that a provider may write a piece while others are read. A piece belongs to the
//!   provider from the post of an operation to its completion: owners of a pool borrow a piece only outside
//!   this time.
//! - An owner drops its endpoints, and so ends all operations, before its pools.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;

use tutti_sys::fabric::{Domain, OperationContext, RegisteredRegion, Result, Rights};

/// Alignment of pieces: a cache line.
const ALIGNMENT: usize = 64;

/// A pool of pieces.
#[derive(Debug)]
pub struct Buffers {
    /// Dropped before the memory is freed.
    region: Option<RegisteredRegion>,
    memory: NonNull<u8>,
    contexts: NonNull<OperationContext>,
    count: usize,
    stride: usize,
    free: Vec<u32>,
}

impl Buffers {
    /// Allocates `count` pieces of `bytes`, registered if the provider requires that. Pages are touched when
    /// they are used.
    ///
    /// # Errors
    /// The error of the provider.
    pub fn new(domain: &Rc<Domain>, count: usize, bytes: usize) -> Result<Buffers> {
        let stride = bytes.next_multiple_of(ALIGNMENT);
        let (memory, contexts) = (
            allocate(Self::layout(count * stride)),
            allocate(Self::layout(count * size_of::<OperationContext>())),
        );
        let free = (0..count as u32).rev().collect();
        let mut buffers = Buffers { region: None, memory, contexts: contexts.cast(), count, stride, free };
        if domain.info().registers_local_memory() {
            let start = buffers.memory.as_ptr();
            // SAFETY: the memory stays mapped until the region is dropped; no rights for peers.
            let region =
                unsafe { RegisteredRegion::register(domain, start, count * stride, Rights::Local, None)? };
            buffers.region = Some(region);
        }
        Ok(buffers)
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes.max(1), ALIGNMENT).expect("pools are small")
    }

    /// Takes a free piece.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives a piece back.
    #[inline]
    pub fn give(&mut self, piece: u32) {
        debug_assert!(!self.free.contains(&piece));
        self.free.push(piece);
    }

    /// Returns true if there is a piece that nobody uses.
    #[inline]
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns the first byte of a piece.
    #[inline]
    pub fn start(&self, piece: u32) -> *mut u8 {
        assert!((piece as usize) < self.count, "no such piece");
        self.memory.as_ptr().wrapping_add(piece as usize * self.stride)
    }

    /// Returns the context of a piece.
    #[inline]
    pub fn context(&self, piece: u32) -> *mut OperationContext {
        assert!((piece as usize) < self.count, "no such piece");
        self.contexts.as_ptr().wrapping_add(piece as usize)
    }

    /// Returns the piece to which a context belongs.
    #[inline]
    pub fn piece_of(&self, context: *mut OperationContext) -> Option<u32> {
        let offset = (context as usize).wrapping_sub(self.contexts.as_ptr() as usize);
        let piece = offset / size_of::<OperationContext>();
        (piece < self.count && !context.is_null()).then_some(piece as u32)
    }

    /// Returns the descriptor that operations on the memory must pass to the provider.
    #[inline]
    pub fn descriptor(&self) -> *mut c_void {
        self.region.as_ref().map_or(std::ptr::null_mut(), RegisteredRegion::descriptor)
    }

    /// Returns the first `bytes` of a piece that no operation uses.
    #[inline]
    pub fn read(&self, piece: u32, bytes: usize) -> &[u8] {
        assert!(bytes <= self.stride, "longer than a piece");
        // SAFETY: the piece lies in the memory, which holds valid bytes; see the module.
        unsafe { std::slice::from_raw_parts(self.start(piece), bytes) }
    }

    /// Returns the first `bytes` of a piece that no operation uses, to be written.
    #[inline]
    pub fn write(&mut self, piece: u32, bytes: usize) -> &mut [u8] {
        assert!(bytes <= self.stride, "longer than a piece");
        // SAFETY: as in read; the pool is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start(piece), bytes) }
    }

    /// Bytes of memory, touched or not.
    pub fn memory_bytes(&self) -> usize {
        self.count * (self.stride + size_of::<OperationContext>())
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout has a size.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.region = None;
        // SAFETY: both were allocated with these layouts, and nothing uses them any more; see the module.
        unsafe {
            dealloc(self.memory.as_ptr(), Self::layout(self.count * self.stride));
            let bytes = self.count * size_of::<OperationContext>();
            dealloc(self.contexts.as_ptr().cast(), Self::layout(bytes));
        }
    }
}
