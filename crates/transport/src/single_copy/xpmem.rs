//! Single copies by XPMEM: a process offers all its memory once; peers attach the parts they need and keep
//! them.
//!
//! # Safety
//! An attachment shows what its owner has mapped at those addresses at each moment, so it cannot become
//! stale; it is never removed, for windows may point into it (there is a bound on their number, beyond which
//! one is made for each copy). To touch what the owner has not mapped is a fault: the owner promises that
//! lent memory is.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use tutti_sys::xpmem::XpmemDevice;

use super::{CopyError, Lent, RemoteSegment, SingleCopy, each_piece, is_proof, places, sources};

const PAGE_BYTES: u64 = 4096;
/// Highest number of attachments of one peer that are kept.
const KEPT: usize = 512;

/// Calls of the kernel module. Tests implement them with a fake.
pub trait XpmemCalls: Sync {
    /// Offers all memory of this process.
    fn make(&self) -> io::Result<u64>;
    /// Requests access to a peer's memory.
    fn get(&self, segment: u64) -> io::Result<u64>;
    /// Maps a part of the peer's memory.
    fn attach(&self, access: u64, address: u64, bytes: usize) -> io::Result<*mut u8>;
    /// Unmaps an attached part.
    ///
    /// # Safety
    /// Nobody uses it any more.
    unsafe fn detach(&self, base: *mut u8);
}

impl XpmemCalls for XpmemDevice {
    fn make(&self) -> io::Result<u64> {
        XpmemDevice::make(self)
    }

    fn get(&self, segment: u64) -> io::Result<u64> {
        XpmemDevice::get(self, segment)
    }

    fn attach(&self, access: u64, address: u64, bytes: usize) -> io::Result<*mut u8> {
        XpmemDevice::attach(self, access, address, bytes)
    }

    unsafe fn detach(&self, base: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { XpmemDevice::detach(self, base) }
    }
}

/// Single copies by XPMEM.
#[derive(Debug)]
pub struct Xpmem<C: XpmemCalls = XpmemDevice> {
    calls: C,
    /// The number by which peers find this process.
    segment: u64,
    peers: Mutex<HashMap<u64, Attached>>,
}

/// Access to one peer, and its attached parts.
#[derive(Debug)]
struct Attached {
    access: u64,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    start: u64,
    end: u64,
    base: *mut u8,
}

// SAFETY: a mapping is valid in every thread.
unsafe impl Send for Part {}

impl Xpmem {
    /// Opens the device and offers the memory of this process.
    ///
    /// # Errors
    /// The reason if it cannot.
    pub fn open() -> io::Result<Xpmem> {
        Xpmem::with_calls(XpmemDevice::open()?)
    }
}

impl<C: XpmemCalls> Xpmem<C> {
    pub(super) fn with_calls(calls: C) -> io::Result<Xpmem<C>> {
        let segment = calls.make()?;
        Ok(Xpmem { calls, segment, peers: Mutex::new(HashMap::new()) })
    }

    /// Calls `with` with the address of the bytes in this process. Attaches them if they are not attached
    /// yet.
    fn with_address<T>(
        &self,
        segment: u64,
        address: u64,
        bytes: u64,
        with: impl Fn(*mut u8) -> T,
    ) -> io::Result<T> {
        // A panic under the lock is a bug that ends the process.
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let attached = match peers.entry(segment) {
            std::collections::hash_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::hash_map::Entry::Vacant(none) => {
                none.insert(Attached { access: self.calls.get(segment)?, parts: Vec::new() })
            }
        };
        let inside = |part: &&Part| part.start <= address && address + bytes <= part.end;
        if let Some(part) = attached.parts.iter().find(inside) {
            return Ok(with(part.base.wrapping_add((address - part.start) as usize)));
        }
        let start = address / PAGE_BYTES * PAGE_BYTES;
        let end = (address + bytes).next_multiple_of(PAGE_BYTES);
        let base = self.calls.attach(attached.access, start, (end - start) as usize)?;
        let result = with(base.wrapping_add((address - start) as usize));
        if attached.parts.len() < KEPT {
            attached.parts.push(Part { start, end, base });
        } else {
            // SAFETY: made here, used by `with` only.
            unsafe { self.calls.detach(base) };
        }
        Ok(result)
    }

    fn is_kept(&self, segment: u64) -> bool {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&segment).is_none_or(|attached| attached.parts.len() < KEPT)
    }
}

impl<C: XpmemCalls> SingleCopy for Xpmem<C> {
    fn probe(&self, peer: Lent, address: u64, proof: u64) -> Result<(), CopyError> {
        let mut word = [0; 8];
        self.read(peer, &[RemoteSegment { address, bytes: 8 }], &mut [IoSliceMut::new(&mut word)])?;
        is_proof(word, proof)
    }

    fn lend(&self, _: u64, _: u64, _: bool, _: bool) -> Result<u64, CopyError> {
        Ok(self.segment)
    }

    fn near(&self, lent: Lent) -> Option<*mut u8> {
        self.is_kept(lent.key)
            .then(|| self.with_address(lent.key, lent.address, lent.bytes, |base| base).ok())
            .flatten()
    }

    fn read(
        &self,
        from: Lent,
        remote: &[RemoteSegment],
        local: &mut [IoSliceMut<'_>],
    ) -> Result<usize, CopyError> {
        each_piece(remote, places(local), |address, here, bytes| {
            // SAFETY: attached memory that its owner has lent; a piece of a slice of this process.
            let copy = |there: *mut u8| unsafe { ptr::copy_nonoverlapping(there, here, bytes) };
            Ok(self.with_address(from.key, address, bytes as u64, copy)?)
        })
    }

    fn write(&self, to: Lent, remote: &[RemoteSegment], local: &[IoSlice<'_>]) -> Result<usize, CopyError> {
        each_piece(remote, sources(local), |address, here, bytes| {
            // SAFETY: attached memory that its owner has lent for writing; a piece of a slice of this
            // process.
            let copy = |there: *mut u8| unsafe { ptr::copy_nonoverlapping(here, there, bytes) };
            Ok(self.with_address(to.key, address, bytes as u64, copy)?)
        })
    }
}
