//! Copies between the memory of processes: to an own bank that others read, and to the memory of a peer.
//!
//! Either way lines are written that another core has read, and have to be taken back from it first. How long that takes changes
//! without a word where a hypervisor moves processors about: 64 KiB take 6 us between cores that share a cache and 30 between
//! others. Stores past the caches wait for no line, but then the reader has to go to memory. So a process looks at how
//! long its copies take, and passes the caches by for a while after a slow one.
//!
//! # Safety
//! Callers promise that both sides are valid for so many bytes and disjoint.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU16, Ordering};

use tutti_data::copy::copy_streaming;
use tutti_sys::clock;

use crate::p2p::pace::Pace;

/// Copies to a bank from here on go past the caches where others read them next: lines that this core has written would come to
/// them one by one, and have to be taken back from them for the next operation.
const STREAMED_BYTES: usize = 4 << 10;

/// These are looked at: where the cores are near and the lines have left the reader's cache, as those of a bank that moves about
/// have ([`tutti_transport::banks::Banks::spread`]), the way through the caches is the shorter one.
const TIMED_BYTES: usize = (8 << 10) + 1;
/// And these take longer through the caches in any case: 64 KiB by reduce 5.4 us and past them 4.8.
const LONG_BYTES: usize = 32 << 10;
/// Slow: so many bytes, or fewer, a tick of the clock. Past the caches it is about as many.
const SLOW_BYTES: u64 = 4;

/// Copies to a peer's memory are looked at from here on: it stays where it is, and its owner has read it since the last one.
const PEER_BYTES: usize = 4 << 10;
/// Slow among these. Between near cores two to four bytes a tick, between far ones less than one.
const PEER_SLOW_BYTES: u64 = 1;

/// Copies; short lengths without a call.
///
/// # Safety
/// See the module.
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

/// Copies to the own bank.
///
/// # Safety
/// See the module.
#[inline(always)]
pub(crate) unsafe fn copy_to_bank(from: *const u8, into: *mut u8, bytes: usize) {
    static STREAMED: AtomicU16 = AtomicU16::new(0);
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            0..STREAMED_BYTES => copy(from, into, bytes),
            TIMED_BYTES..LONG_BYTES => copy_timed(from, into, bytes, SLOW_BYTES, &STREAMED),
            _ => copy_streaming(from, into, bytes),
        }
    }
}

/// Copies to the memory of a peer, who reads it when the operation is over.
///
/// # Safety
/// See the module.
pub(crate) unsafe fn copy_to_peer(from: *const u8, into: *mut u8, bytes: usize) {
    static STREAMED: AtomicU16 = AtomicU16::new(0);
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            0..PEER_BYTES => copy(from, into, bytes),
            _ => copy_timed(from, into, bytes, PEER_SLOW_BYTES, &STREAMED),
        }
    }
}

/// In the way that is the better one at present: `slow_bytes` a tick, or fewer, are slow; `streamed` is what the process
/// knows of such copies. Another thread's knowledge may get lost.
///
/// # Safety
/// See the module.
unsafe fn copy_timed(from: *const u8, into: *mut u8, bytes: usize, slow_bytes: u64, streamed: &AtomicU16) {
    let mut pace = Pace::still(streamed.load(Ordering::Relaxed));
    // SAFETY: the caller's promise.
    unsafe {
        if pace.passes_by() {
            copy_streaming(from, into, bytes);
        } else {
            let begun = clock::ticks();
            std::ptr::copy_nonoverlapping(from, into, bytes);
            pace.took(clock::ticks().wrapping_sub(begun), bytes as u64 / slow_bytes);
        }
    }
    streamed.store(pace.streamed, Ordering::Relaxed);
}
