//! Copies between the memory of two processes: one copy instead of two.
//!
//! One trait has three back ends: process_vm_readv and process_vm_writev ([`CrossMemoryAttach`], on every
//! kernel), [`Xpmem`] and [`Knem`] (kernel modules, used if their device is there). All pass the same
//! conformance suite, the modules against fakes of their devices. Mapped regions (see `exposure`) need none
//! of them.
//!
//! # Safety
//! None here outside the tests, which start a second process to copy from.

mod knem;
mod xpmem;

use std::io::{IoSlice, IoSliceMut};

pub use knem::Knem;
pub use tutti_sys::cma::{CopyError, Pid, RemoteSegment};
pub use xpmem::Xpmem;

use tutti_sys::cma;

/// Memory that a peer has exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Process number of the peer.
    pub pid: Pid,
    /// Key that [`SingleCopy::lend`] returned at the peer.
    pub key: u64,
    /// Address of the first byte, in the peer's memory.
    pub address: u64,
    /// Length of the memory in bytes.
    pub bytes: u64,
}

impl From<Pid> for Lent {
    /// Describes all memory of a process, where no key is needed.
    fn from(pid: Pid) -> Lent {
        Lent { pid, key: 0, address: 0, bytes: u64::MAX }
    }
}

/// Copies between the memory of this process and of a peer.
pub trait SingleCopy: Sync {
    /// Checks that the peer's memory can be reached: the word at `address` there must be `proof`, as in no
    /// other process.
    ///
    /// # Errors
    /// The reason if it cannot.
    fn probe(&self, peer: Lent, address: u64, proof: u64) -> Result<(), CopyError>;

    /// Makes memory of this process reachable for peers; returns a key to tell them.
    ///
    /// # Errors
    /// The reason if it cannot.
    fn lend(&self, _address: u64, _bytes: u64, _readable: bool, _writable: bool) -> Result<u64, CopyError> {
        Ok(0)
    }

    /// Ends the exposure of memory with this key.
    fn withdraw(&self, _key: u64) {}

    /// Returns the address of the peer's memory in this process, if the back end maps it. The address is
    /// valid as long as this process lives.
    fn near(&self, _lent: Lent) -> Option<*mut u8> {
        None
    }

    /// Copies `remote` into `local`, up to the shorter of both sums; returns how many bytes. The peer
    /// must not write there meanwhile.
    ///
    /// # Errors
    /// The reason for which it stopped. Part of the data may have been copied.
    fn read(
        &self,
        from: Lent,
        remote: &[RemoteSegment],
        local: &mut [IoSliceMut<'_>],
    ) -> Result<usize, CopyError>;

    /// Copies `local` into `remote`, up to the shorter of both sums; returns how many bytes. The peer must
    /// have exposed that memory for writing.
    ///
    /// # Errors
    /// The reason for which it stopped. Part of the data may have been copied.
    fn write(&self, to: Lent, remote: &[RemoteSegment], local: &[IoSlice<'_>]) -> Result<usize, CopyError>;
}

/// Back end by the system calls process_vm_readv and process_vm_writev.
#[derive(Clone, Copy, Debug)]
pub struct CrossMemoryAttach(());

impl CrossMemoryAttach {
    /// Makes this process reachable for its peers too, where the system requires that. Called once by each
    /// process.
    pub fn new() -> CrossMemoryAttach {
        cma::allow_peers();
        CrossMemoryAttach(())
    }

    /// Creates the back end for a process that has called [`cma::allow_peers`], or that peers need not reach.
    pub const fn allowed() -> CrossMemoryAttach {
        CrossMemoryAttach(())
    }
}

impl Default for CrossMemoryAttach {
    fn default() -> CrossMemoryAttach {
        CrossMemoryAttach::new()
    }
}

impl SingleCopy for CrossMemoryAttach {
    fn probe(&self, peer: Lent, address: u64, proof: u64) -> Result<(), CopyError> {
        cma::probe(peer.pid, address, proof)
    }

    fn read(
        &self,
        from: Lent,
        remote: &[RemoteSegment],
        local: &mut [IoSliceMut<'_>],
    ) -> Result<usize, CopyError> {
        cma::read(from.pid, remote, local)
    }

    fn write(&self, to: Lent, remote: &[RemoteSegment], local: &[IoSlice<'_>]) -> Result<usize, CopyError> {
        cma::write(to.pid, remote, local)
    }
}

/// Checks that the word that was read is the proof of the peer.
fn is_proof(word: [u8; 8], proof: u64) -> Result<(), CopyError> {
    if u64::from_ne_bytes(word) == proof { Ok(()) } else { Err(CopyError::Stranger) }
}

/// Calls `copy(address there, memory here, bytes)` for each piece that is contiguous on both sides; returns
/// how many bytes.
fn each_piece(
    remote: &[RemoteSegment],
    local: impl Iterator<Item = (*mut u8, usize)>,
    mut copy: impl FnMut(u64, *mut u8, usize) -> Result<(), CopyError>,
) -> Result<usize, CopyError> {
    let mut there = remote.iter().copied();
    let mut rest = RemoteSegment { address: 0, bytes: 0 };
    let mut total = 0;
    for (mut here, mut bytes) in local {
        while bytes > 0 {
            if rest.bytes == 0 {
                match there.next() {
                    Some(next) => rest = next,
                    None => return Ok(total),
                }
                continue;
            }
            let piece = bytes.min(rest.bytes);
            copy(rest.address, here, piece)?;
            (here, bytes) = (here.wrapping_add(piece), bytes - piece);
            rest = RemoteSegment { address: rest.address + piece as u64, bytes: rest.bytes - piece };
            total += piece;
        }
    }
    Ok(total)
}

fn places<'a>(local: &'a mut [IoSliceMut<'_>]) -> impl Iterator<Item = (*mut u8, usize)> + 'a {
    local.iter_mut().map(|slice| (slice.as_mut_ptr(), slice.len()))
}

/// Returns the pieces like [`places`], for memory that is only read.
fn sources<'a>(local: &'a [IoSlice<'_>]) -> impl Iterator<Item = (*mut u8, usize)> + 'a {
    local.iter().map(|slice| (slice.as_ptr().cast_mut(), slice.len()))
}

#[cfg(test)]
mod conformance;
