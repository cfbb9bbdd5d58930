//! Fetching a long message straight out of the peer's memory: one copy instead of two.
//!
//! A copier is stateless; whether it works between two processes is found out by
//! [`SingleCopy::probe`], a real read. Sources: process_vm_readv ([`CrossMemoryAttach`]); kernel modules
//! and mapped regions are other implementations of the same trait.

use std::io::{IoSlice, IoSliceMut};

pub use tutti_sys::cma::{CopyError, Pid, RemoteSegment};

use tutti_sys::cma;

/// Copies between the memory of this process and of a peer.
pub trait SingleCopy {
    /// Whether the peer's memory can be reached: the word at `address` there must hold `job_id`.
    ///
    /// # Errors
    /// Why not.
    fn probe(&self, peer: Pid, address: u64, job_id: u64) -> Result<(), CopyError>;

    /// Copies `remote` into `local`, up to the shorter of both sums; returns how many bytes. The peer
    /// must not write there meanwhile.
    ///
    /// # Errors
    /// Why it stopped; part of the data may have been copied.
    fn read(
        &self,
        peer: Pid,
        remote: &[RemoteSegment],
        local: &mut [IoSliceMut<'_>],
    ) -> Result<usize, CopyError>;

    /// Copies `local` into `remote`, up to the shorter of both sums; returns how many bytes. The peer must
    /// have exposed that memory for writing.
    ///
    /// # Errors
    /// Why it stopped; part of the data may have been copied.
    fn write(&self, peer: Pid, remote: &[RemoteSegment], local: &[IoSlice<'_>]) -> Result<usize, CopyError>;
}

/// process_vm_readv and process_vm_writev.
#[derive(Clone, Copy, Debug)]
pub struct CrossMemoryAttach(());

impl CrossMemoryAttach {
    /// Makes this process reachable for its peers too, where the system asks for that. Once a process.
    pub fn new() -> CrossMemoryAttach {
        cma::allow_peers();
        CrossMemoryAttach(())
    }
}

impl Default for CrossMemoryAttach {
    fn default() -> CrossMemoryAttach {
        CrossMemoryAttach::new()
    }
}

impl SingleCopy for CrossMemoryAttach {
    fn probe(&self, peer: Pid, address: u64, job_id: u64) -> Result<(), CopyError> {
        cma::probe(peer, address, job_id)
    }

    fn read(
        &self,
        peer: Pid,
        remote: &[RemoteSegment],
        local: &mut [IoSliceMut<'_>],
    ) -> Result<usize, CopyError> {
        cma::read(peer, remote, local)
    }

    fn write(&self, peer: Pid, remote: &[RemoteSegment], local: &[IoSlice<'_>]) -> Result<usize, CopyError> {
        cma::write(peer, remote, local)
    }
}
