//! Fetching a long message straight out of the peer's memory: one copy instead of two.
//!
//! A copier is stateless; whether it works between two processes is found out by
//! [`SingleCopy::probe`], a real read. Sources: process_vm_readv ([`CrossMemoryAttach`]); kernel modules
//! and mapped regions are other implementations of the same trait.
//!
//! # Safety
//! None outside the tests, which start a second process to read from.

use std::io::{IoSlice, IoSliceMut};

pub use tutti_sys::cma::{CopyError, Pid, RemoteSegment};

use tutti_sys::cma;

/// Copies between the memory of this process and of a peer.
pub trait SingleCopy: Sync {
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

    /// For a process that has called [`cma::allow_peers`], or does not need to be reachable.
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

#[cfg(test)]
#[allow(unsafe_code)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use std::io::Read;

    const BYTES: usize = 300_000;

    /// A forked process that has memory of its own at addresses that this one knows too.
    struct Child {
        pid: Pid,
        memory: Vec<u8>,
    }

    impl Child {
        /// Starts a process that fills its copy of the memory with ones, then sleeps until it is killed.
        fn start() -> Child {
            let mut memory = vec![0u8; BYTES];
            let (mut reader, writer) = std::io::pipe().unwrap();
            // SAFETY: the child touches memory of its own and makes system calls only.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                memory.fill(1);
                // SAFETY: an open descriptor, one readable byte; pause and prctl have no preconditions.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    let fd = std::os::fd::AsRawFd::as_raw_fd(&writer);
                    libc::write(fd, memory.as_ptr().cast(), 1);
                    loop {
                        libc::pause();
                    }
                }
            }
            assert!(pid > 0);
            drop(writer);
            reader.read_exact(&mut [0]).unwrap();
            Child { pid: Pid(pid), memory }
        }

        fn segments(&self, sizes: &[usize]) -> Vec<RemoteSegment> {
            let mut address = self.memory.as_ptr() as u64;
            let mut next = |&bytes: &usize| {
                address += bytes as u64;
                RemoteSegment { address: address - bytes as u64, bytes }
            };
            sizes.iter().map(&mut next).collect()
        }

        fn end(&self) {
            // SAFETY: a child of this process that nobody has waited for yet.
            unsafe {
                libc::kill(self.pid.0, libc::SIGKILL);
                libc::waitpid(self.pid.0, std::ptr::null_mut(), 0);
            }
        }
    }

    /// What every implementation must do between two processes.
    fn conforms(copier: &impl SingleCopy) {
        let child = Child::start();
        let ones = u64::from_ne_bytes([1; 8]);
        assert_eq!(copier.probe(child.pid, child.memory.as_ptr() as u64, ones), Ok(()));
        assert_eq!(copier.probe(child.pid, child.memory.as_ptr() as u64, 5), Err(CopyError::Stranger));
        let mut target = vec![0u8; BYTES];
        let sizes: Vec<usize> = (0..2000).map(|index| index % 301).collect();
        let whole = child.segments(&[BYTES]);
        assert_eq!(copier.read(child.pid, &whole, &mut [IoSliceMut::new(&mut target)]), Ok(BYTES));
        assert!(target.iter().all(|&byte| byte == 1) && child.memory.iter().all(|&byte| byte == 0));

        let pattern: Vec<u8> = (0..BYTES).map(|index| (index % 253) as u8).collect();
        let total: usize = sizes.iter().sum();
        let (first, second) = pattern.split_at(total / 3);
        let pieces = [IoSlice::new(first), IoSlice::new(second)];
        assert_eq!(copier.write(child.pid, &child.segments(&sizes), &pieces), Ok(total));
        let mut pieces: Vec<IoSliceMut<'_>> = target.chunks_mut(777).map(IoSliceMut::new).collect();
        assert_eq!(copier.read(child.pid, &whole, &mut pieces), Ok(BYTES));
        assert!(target[..total] == pattern[..total] && target[total..].iter().all(|&byte| byte == 1));

        let unmapped = [RemoteSegment { address: 4096, bytes: 8 }];
        let fault = copier.read(child.pid, &unmapped, &mut [IoSliceMut::new(&mut target)]);
        assert_eq!(fault, Err(CopyError::Fault));
        child.end();
        let gone = copier.read(child.pid, &whole, &mut [IoSliceMut::new(&mut target)]);
        assert_eq!(gone, Err(CopyError::Gone));
    }

    #[test]
    fn cross_memory_attach_conforms() {
        conforms(&CrossMemoryAttach::new());
    }
}
