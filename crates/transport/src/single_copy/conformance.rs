//! What every back end must do between two processes, and fakes of the kernel modules' devices.
//!
//! # Safety
//! A forked process that has memory of its own at addresses that this one knows too; the fakes reach it as
//! the modules would.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use tutti_sys::memory::{Mapping, create_object};
use tutti_sys::remap;

use super::*;

const BYTES: usize = 300_000;
const PAGES_BYTES: usize = 303_104;

/// A process with ones in its copy of the memory, which it has lent; it sleeps until it is killed.
struct Child {
    lent: Lent,
    memory: *mut u8,
}

impl Child {
    /// Starts the child process. `arrange` is called in it with the memory before this is filled.
    fn start(copier: &impl SingleCopy, arrange: impl FnOnce(*mut u8)) -> Child {
        let memory = remap::map_private(PAGES_BYTES).unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        // SAFETY: the child touches memory of its own, lends it and makes system calls.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            arrange(memory);
            // SAFETY: mapped memory, an open descriptor, eight readable bytes; the others have no
            // preconditions.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                memory.write_bytes(1, BYTES);
                let key = copier.lend(memory as u64, BYTES as u64, true, true).unwrap_or(u64::MAX);
                libc::write(writer.as_raw_fd(), (&raw const key).cast(), 8);
                loop {
                    libc::pause();
                }
            }
        }
        assert!(pid > 0);
        drop(writer);
        let mut key = [0; 8];
        reader.read_exact(&mut key).unwrap();
        let key = u64::from_ne_bytes(key);
        Child { lent: Lent { pid: Pid(pid), key, address: memory as u64, bytes: BYTES as u64 }, memory }
    }

    fn segments(&self, sizes: &[usize]) -> Vec<RemoteSegment> {
        let mut address = self.memory as u64;
        let mut next = |&bytes: &usize| {
            address += bytes as u64;
            RemoteSegment { address: address - bytes as u64, bytes }
        };
        sizes.iter().map(&mut next).collect()
    }

    fn end(&self) {
        // SAFETY: a child of this process that nobody has waited for yet.
        unsafe {
            libc::kill(self.lent.pid.0, libc::SIGKILL);
            libc::waitpid(self.lent.pid.0, std::ptr::null_mut(), 0);
        }
    }

    /// Returns true if this process's own memory is as it was: no back end mistakes it for the child's.
    fn here_is_zero(&self) -> bool {
        // SAFETY: mapped when the child was started.
        (0..BYTES).all(|index| unsafe { self.memory.add(index).read() } == 0)
    }
}

/// Runs the suite. If `kernel_checks`, the kernel checks addresses, so that wrong ones are errors.
fn conforms(copier: &impl SingleCopy, kernel_checks: bool, arrange: impl FnOnce(*mut u8)) {
    let child = Child::start(copier, arrange);
    let lent = child.lent;
    let ones = u64::from_ne_bytes([1; 8]);
    assert_eq!(copier.probe(lent, lent.address, ones), Ok(()));
    assert_eq!(copier.probe(lent, lent.address, 5), Err(CopyError::Stranger));
    let mut target = vec![0u8; BYTES];
    let whole = child.segments(&[BYTES]);
    assert_eq!(copier.read(lent, &whole, &mut [IoSliceMut::new(&mut target)]), Ok(BYTES));
    assert!(target.iter().all(|&byte| byte == 1) && child.here_is_zero());

    let sizes: Vec<usize> = (0..2000).map(|index| index % 301).collect();
    let pattern: Vec<u8> = (0..BYTES).map(|index| (index % 253) as u8).collect();
    let total: usize = sizes.iter().sum();
    let (first, second) = pattern.split_at(total / 3);
    let pieces = [IoSlice::new(first), IoSlice::new(second)];
    assert_eq!(copier.write(lent, &child.segments(&sizes), &pieces), Ok(total));
    let mut pieces: Vec<IoSliceMut<'_>> = target.chunks_mut(777).map(IoSliceMut::new).collect();
    assert_eq!(copier.read(lent, &whole, &mut pieces), Ok(BYTES));
    assert!(target[..total] == pattern[..total] && target[total..].iter().all(|&byte| byte == 1));
    assert!(child.here_is_zero());

    let part = Lent { address: lent.address + 5000, bytes: 10_000, ..lent };
    if let Some(near) = copier.near(part) {
        // SAFETY: the back end says so.
        assert!((0..10_000).all(|index| unsafe { near.add(index).read() } == pattern[5000 + index]));
    }
    if kernel_checks {
        let unmapped = [RemoteSegment { address: 4096, bytes: 8 }];
        let fault = copier.read(lent, &unmapped, &mut [IoSliceMut::new(&mut target)]);
        assert_eq!(fault, Err(CopyError::Fault));
    }
    child.end();
    if kernel_checks {
        let gone = copier.read(lent, &whole, &mut [IoSliceMut::new(&mut target)]);
        assert_eq!(gone, Err(CopyError::Gone));
    }
    copier.withdraw(lent.key);
    // SAFETY: used by nobody any more.
    unsafe { remap::unmap(child.memory, PAGES_BYTES) };
}

#[test]
fn cross_memory_attach_conforms() {
    conforms(&CrossMemoryAttach::new(), true, |_| ());
}

/// A device with one region, in memory that all processes of the test share; it copies by process_vm_readv.
struct FakeKnem(Mapping);

impl FakeKnem {
    fn new() -> FakeKnem {
        let object = create_object(c"knem", 4096).unwrap();
        FakeKnem(Mapping::of_object(object.as_fd()).unwrap())
    }

    fn region(&self) -> &[AtomicU64; 4] {
        // SAFETY: a page of zeros, which are valid atomics.
        unsafe { self.0.base().cast().as_ref() }
    }
}

impl knem::Calls for FakeKnem {
    fn create(&self, address: u64, bytes: u64, readable: bool, writable: bool) -> io::Result<u64> {
        assert!(readable && writable);
        let values = [u64::from(std::process::id()), address, bytes, 4711];
        self.region().iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::SeqCst));
        Ok(4711)
    }

    fn destroy(&self, cookie: u64) {
        assert_eq!(self.region()[3].swap(0, Ordering::SeqCst), cookie);
    }

    unsafe fn copy(
        &self,
        cookie: u64,
        offset: u64,
        local: *mut u8,
        bytes: usize,
        write: bool,
    ) -> io::Result<()> {
        let [pid, address, length, live] = self.region().each_ref().map(|word| word.load(Ordering::SeqCst));
        // SAFETY: asks whether a process is there.
        if cookie != live || unsafe { libc::kill(pid as i32, 0) } < 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        assert!(offset + bytes as u64 <= length);
        let (pid, remote) = (Pid(pid as i32), [RemoteSegment { address: address + offset, bytes }]);
        // SAFETY: the caller's promise.
        let copied = unsafe {
            match write {
                true => cma::write(pid, &remote, &[IoSlice::new(std::slice::from_raw_parts(local, bytes))]),
                false => cma::read(
                    pid,
                    &remote,
                    &mut [IoSliceMut::new(std::slice::from_raw_parts_mut(local, bytes))],
                ),
            }
        };
        assert_eq!(copied, Ok(bytes));
        Ok(())
    }
}

#[test]
fn knem_conforms() {
    conforms(&Knem::with_calls(FakeKnem::new()), true, |_| ());
}

/// A device that attaches memory of one object, which the child has mapped at `base`.
struct FakeXpmem {
    object: OwnedFd,
    base: AtomicU64,
}

impl xpmem::XpmemCalls for &FakeXpmem {
    fn make(&self) -> io::Result<u64> {
        Ok(77)
    }

    fn get(&self, segment: u64) -> io::Result<u64> {
        assert_eq!(segment, 77);
        Ok(78)
    }

    fn attach(&self, access: u64, address: u64, bytes: usize) -> io::Result<*mut u8> {
        assert!(access == 78 && address.is_multiple_of(4096) && bytes.is_multiple_of(4096));
        remap::map(self.object.as_fd(), address - self.base.load(Ordering::SeqCst), bytes)
    }

    unsafe fn detach(&self, base: *mut u8) {
        // The length is not told; the tests leave it to the end of the process.
        assert!(base.is_aligned());
    }
}

#[test]
fn xpmem_conforms() {
    let fake =
        FakeXpmem { object: create_object(c"xpmem", PAGES_BYTES as u64).unwrap(), base: AtomicU64::new(0) };
    // Where the child will have its memory is known only when it is mapped: the same in both processes.
    let arrange = |memory: *mut u8| {
        // SAFETY: fresh memory of the child, replaced.
        unsafe { remap::map_over(fake.object.as_fd(), 0, memory, PAGES_BYTES) }.unwrap();
    };
    let copier = Based { inner: Xpmem::with_calls(&fake).unwrap(), base: &fake.base };
    conforms(&copier, false, arrange);
}

/// Tells the fake where the lent memory begins, which a real device knows.
struct Based<'a> {
    inner: Xpmem<&'a FakeXpmem>,
    base: &'a AtomicU64,
}

impl Based<'_> {
    fn told(&self, lent: Lent) -> Lent {
        let _ = self.base.compare_exchange(0, lent.address, Ordering::SeqCst, Ordering::SeqCst);
        lent
    }
}

impl SingleCopy for Based<'_> {
    fn probe(&self, peer: Lent, address: u64, proof: u64) -> Result<(), CopyError> {
        self.inner.probe(self.told(peer), address, proof)
    }

    fn lend(&self, address: u64, bytes: u64, readable: bool, writable: bool) -> Result<u64, CopyError> {
        self.inner.lend(address, bytes, readable, writable)
    }

    fn near(&self, lent: Lent) -> Option<*mut u8> {
        self.inner.near(self.told(lent))
    }

    fn read(
        &self,
        from: Lent,
        remote: &[RemoteSegment],
        local: &mut [IoSliceMut<'_>],
    ) -> Result<usize, CopyError> {
        self.inner.read(self.told(from), remote, local)
    }

    fn write(&self, to: Lent, remote: &[RemoteSegment], local: &[IoSlice<'_>]) -> Result<usize, CopyError> {
        self.inner.write(self.told(to), remote, local)
    }
}

#[test]
fn attachments_beyond_the_bound_are_made_for_each_copy() {
    let fake = FakeXpmem { object: create_object(c"xpmem", 4 << 20).unwrap(), base: AtomicU64::new(1 << 30) };
    let copier = Xpmem::with_calls(&fake).unwrap();
    let lent = |page: u64| Lent { pid: Pid(1), key: 77, address: (1 << 30) + page * 4096, bytes: 4096 };
    let near = (0..600).filter(|&page| copier.near(lent(page)).is_some()).count();
    assert_eq!(near, 512);
    let (mut word, there) = ([0u8; 8], [RemoteSegment { address: lent(700).address + 8, bytes: 8 }]);
    assert_eq!(copier.write(lent(700), &there, &[IoSlice::new(&[5; 8])]), Ok(8));
    assert_eq!(copier.read(lent(700), &there, &mut [IoSliceMut::new(&mut word)]), Ok(8));
    assert_eq!(word, [5; 8]);
}
