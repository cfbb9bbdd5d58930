//! Single copies by KNEM: memory is registered for each exposure and identified by a cookie.
//!
//! A region keeps the pages that it found, so none is kept beyond its loan: nothing can become stale.
//!
//! # Safety
//! Memory of this process is handed to the module as slices give it.

#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};

use tutti_sys::knem::Device;

use super::{CopyError, Lent, RemoteSegment, SingleCopy, each_piece, is_proof, places, sources};

/// Calls of the kernel module. Tests implement them with a fake.
pub trait Calls: Sync {
    /// Registers memory; returns a cookie.
    fn create(&self, address: u64, bytes: u64, readable: bool, writable: bool) -> io::Result<u64>;
    /// Removes a region.
    fn destroy(&self, cookie: u64);
    /// Copies between a region and memory of this process.
    ///
    /// # Safety
    /// The memory may be read, or written unless `write`.
    unsafe fn copy(
        &self,
        cookie: u64,
        offset: u64,
        local: *mut u8,
        bytes: usize,
        write: bool,
    ) -> io::Result<()>;
}

impl Calls for Device {
    fn create(&self, address: u64, bytes: u64, readable: bool, writable: bool) -> io::Result<u64> {
        Device::create(self, address, bytes, readable, writable)
    }

    fn destroy(&self, cookie: u64) {
        Device::destroy(self, cookie);
    }

    unsafe fn copy(
        &self,
        cookie: u64,
        offset: u64,
        local: *mut u8,
        bytes: usize,
        write: bool,
    ) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Device::copy(self, cookie, offset, local, bytes, write) }
    }
}

/// Single copies by KNEM.
#[derive(Debug)]
pub struct Knem<C: Calls = Device> {
    calls: C,
}

impl Knem {
    /// Opens the device of the module.
    ///
    /// # Errors
    /// The reason if there is none.
    pub fn open() -> io::Result<Knem> {
        Ok(Knem { calls: Device::open()? })
    }
}

impl<C: Calls> Knem<C> {
    #[cfg(test)]
    pub(super) fn with_calls(calls: C) -> Knem<C> {
        Knem { calls }
    }

    fn copy(
        &self,
        lent: Lent,
        remote: &[RemoteSegment],
        local: impl Iterator<Item = (*mut u8, usize)>,
        write: bool,
    ) -> Result<usize, CopyError> {
        each_piece(remote, local, |address, here, bytes| {
            let offset = address.checked_sub(lent.address).ok_or(CopyError::Fault)?;
            if offset + bytes as u64 > lent.bytes {
                return Err(CopyError::Fault);
            }
            // SAFETY: a piece of a slice that may be read, or written where it is not only read.
            match unsafe { self.calls.copy(lent.key, offset, here, bytes, write) } {
                Ok(()) => Ok(()),
                // The cookie went with its process.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(CopyError::Gone),
                Err(error) => Err(error.into()),
            }
        })
    }
}

impl<C: Calls> SingleCopy for Knem<C> {
    fn probe(&self, peer: Lent, address: u64, proof: u64) -> Result<(), CopyError> {
        let mut word = [0; 8];
        self.read(peer, &[RemoteSegment { address, bytes: 8 }], &mut [IoSliceMut::new(&mut word)])?;
        is_proof(word, proof)
    }

    fn lend(&self, address: u64, bytes: u64, readable: bool, writable: bool) -> Result<u64, CopyError> {
        Ok(self.calls.create(address, bytes, readable, writable)?)
    }

    fn withdraw(&self, key: u64) {
        self.calls.destroy(key);
    }

    fn read(
        &self,
        from: Lent,
        remote: &[RemoteSegment],
        local: &mut [IoSliceMut<'_>],
    ) -> Result<usize, CopyError> {
        self.copy(from, remote, places(local), false)
    }

    fn write(&self, to: Lent, remote: &[RemoteSegment], local: &[IoSlice<'_>]) -> Result<usize, CopyError> {
        self.copy(to, remote, sources(local), true)
    }
}
