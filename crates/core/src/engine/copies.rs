//! Copies between the memory of processes: to an own bank that others read, and to the memory of a peer.
//! [`tutti_transport::locality`] chooses between normal and streaming stores.
//!
//! # Safety
//! Callers promise that both sides are valid for `bytes` bytes and disjoint.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU16;

use tutti_data::copy::copy_streaming;
use tutti_transport::locality::{self, Destination, FAR_BYTES, StorePath, Timer};

/// Copies `bytes` bytes; common short lengths without a function call.
///
/// # Safety
/// See the Safety section of the module.
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            8 => into.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            4 => into.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => std::ptr::copy_nonoverlapping(from, into, bytes),
        }
    }
}

/// Copies to the own bank, from which other ranks read.
///
/// # Safety
/// See the Safety section of the module.
#[inline(always)]
pub(crate) unsafe fn copy_to_bank(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            0..FAR_BYTES => copy(from, into, bytes),
            _ => copy_long_to_bank(from, into, bytes),
        }
    }
}

/// # Safety
/// See the module.
unsafe fn copy_long_to_bank(from: *const u8, into: *mut u8, bytes: usize) {
    static STREAMED: AtomicU16 = AtomicU16::new(0);
    // SAFETY: the caller's promise.
    unsafe { copy_by(locality::to_bank(bytes), from, into, bytes, (Destination::Bank, &STREAMED)) }
}

/// Copies to the memory of a peer, which reads it when the operation is complete.
///
/// # Safety
/// See the Safety section of the module.
pub(crate) unsafe fn copy_to_peer(from: *const u8, into: *mut u8, bytes: usize) {
    static STREAMED: AtomicU16 = AtomicU16::new(0);
    let path = locality::path(Destination::PeerMemory, bytes, None);
    // SAFETY: the caller's promise.
    unsafe { copy_by(path, from, into, bytes, (Destination::PeerMemory, &STREAMED)) }
}

/// Copies by the given kind of stores. The last argument has the destination, and the state of timed copies
/// to it.
///
/// # Safety
/// See the Safety section of the module.
#[inline]
unsafe fn copy_by(
    path: StorePath,
    from: *const u8,
    into: *mut u8,
    bytes: usize,
    (to, streamed): (Destination, &AtomicU16),
) {
    // SAFETY: the caller's promise.
    let (cached, streaming) =
        (|| unsafe { copy(from, into, bytes) }, || unsafe { copy_streaming(from, into, bytes) });
    match path {
        StorePath::Cached => cached(),
        StorePath::Timed => Timer::store_shared(to, streamed, bytes, cached, streaming),
        StorePath::PastCaches => streaming(),
    }
}
