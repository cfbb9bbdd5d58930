//! Moving memory of this process into a shared object and back, page by page, without changing addresses;
//! and access to an object of another process.
//!
//! All addresses and lengths are multiples of the page size. Functions that change a mapping are unsafe:
//! references may point into the memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::cma::Pid;
use crate::kept;

/// Maps `bytes` of an object from `offset` on, shared and writable, at an address chosen by the kernel. A
/// child of fork does not get the mapping.
///
/// # Errors
/// Errors of mmap or madvise.
pub fn map(object: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<*mut u8> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let base = unsafe { mmap(std::ptr::null_mut(), bytes, flags, object.as_raw_fd(), offset) }?;
    // SAFETY: the mapping was just created and is not in use.
    unsafe {
        if let Err(error) = advise(base.addr() as u64, bytes as u64, libc::MADV_DONTFORK) {
            libc::munmap(base.cast(), bytes);
            return Err(error);
        }
    }
    Ok(base)
}

/// Maps fresh private memory, all zero, at an address chosen by the kernel.
///
/// # Errors
/// Errors of mmap.
pub fn map_private(bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    unsafe { mmap(std::ptr::null_mut(), bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) }
}

/// # Safety
/// With MAP_FIXED among `flags`, the caller may replace the mapping at `address`.
unsafe fn mmap(address: *mut u8, bytes: usize, flags: i32, fd: i32, offset: u64) -> io::Result<*mut u8> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the caller's promise.
    let base =
        unsafe { libc::mmap(address.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, fd, offset) };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base.cast()) }
}

/// # Safety
/// The memory is not in use any more.
pub unsafe fn unmap(base: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise. The call fails only for an invalid range.
    unsafe { libc::munmap(base.cast(), bytes) };
}

/// Moves the mapping at `from` to the addresses at `to`, with its page tables, and replaces the mapping
/// there. Threads that touch the addresses meanwhile wait, and then find the new memory.
///
/// # Errors
/// Errors of mremap.
///
/// # Safety
/// `from` is a mapping of `bytes` that is not used by that address; the mapping at `to` may be replaced.
pub unsafe fn move_over(from: *mut u8, to: *mut u8, bytes: usize) -> io::Result<()> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the caller's promise.
    let moved = unsafe { libc::mremap(from.cast(), bytes, bytes, flags, to.cast::<libc::c_void>()) };
    if moved == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Maps an object at `to`, replacing the mapping there. Used when [`move_over`] has failed.
///
/// # Errors
/// Errors of mmap.
///
/// # Safety
/// The mapping at `to` may be replaced.
pub unsafe fn map_over(object: BorrowedFd<'_>, offset: u64, to: *mut u8, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        mmap(
            to,
            bytes,
            libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE,
            object.as_raw_fd(),
            offset,
        )?;
        advise(to.addr() as u64, bytes as u64, libc::MADV_DONTFORK)
    }
}

/// Access rights of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRights {
    /// The pages may be read.
    pub read: bool,
    /// The pages may be written.
    pub write: bool,
    /// The pages may be executed.
    pub execute: bool,
}

impl PageRights {
    /// Rights of ordinary memory: reading and writing.
    pub const BOTH: PageRights = PageRights { read: true, write: true, execute: false };

    fn bits(self) -> i32 {
        let one = |wanted: bool, bit: i32| if wanted { bit } else { 0 };
        one(self.read, libc::PROT_READ)
            | one(self.write, libc::PROT_WRITE)
            | one(self.execute, libc::PROT_EXEC)
    }
}

/// Maps `bytes` of an object at `to`, private. Earlier stores to the object are visible; later ones stay in
/// this process. No store of another thread is lost meanwhile. A child of fork gets the mapping.
///
/// # Errors
/// Errors of mmap.
///
/// # Safety
/// `to` is a shared mapping of the same bytes of the object.
pub unsafe fn map_private_over(
    object: BorrowedFd<'_>,
    offset: u64,
    (to, bytes): (*mut u8, usize),
    rights: PageRights,
) -> io::Result<()> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the caller's promise.
    let base = unsafe { libc::mmap(to.cast(), bytes, rights.bits(), flags, object.as_raw_fd(), offset) };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Maps fresh private memory, all zero, at `to`.
///
/// # Errors
/// Errors of mmap.
///
/// # Safety
/// The memory at `to` is not needed any more.
pub unsafe fn map_zeros_over(to: *mut u8, bytes: usize, rights: PageRights) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the caller's promise.
    let base = unsafe { libc::mmap(to.cast(), bytes, rights.bits(), flags, -1, 0) };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Frees the pages of a shared mapping; they read as zero afterwards, in all mappings. If `is_locked`, the
/// range is unlocked for that time and locked again ([`lock`]). The call works on addresses: it affects
/// whatever is mapped there now, independent of descriptors.
///
/// # Errors
/// EACCES if the mapping is not shared any more, or not writable.
///
/// # Safety
/// The content of the pages is not needed any more.
pub unsafe fn discard_mapped(from: *mut u8, bytes: usize, is_locked: bool) -> io::Result<()> {
    // SAFETY: the kernel checks the addresses; the content may be discarded by the caller's promise.
    let result = unsafe {
        if is_locked {
            let _ = unlock(from as u64, bytes as u64);
        }
        advise(from as u64, bytes as u64, libc::MADV_REMOVE)
    };
    if is_locked {
        // Errors are ignored, as when the memory became shared.
        let _ = lock(from, bytes);
    }
    result
}

/// Handle to read memory of this process through the kernel, even where it may not be read directly.
#[derive(Debug)]
pub struct OwnMemory(File);

impl OwnMemory {
    /// Opens the memory of this process.
    ///
    /// # Errors
    /// If there is no /proc.
    pub fn open() -> io::Result<OwnMemory> {
        Ok(OwnMemory(File::open("/proc/self/mem")?))
    }

    /// Copies `bytes` at `from` to `into`. Returns the number of bytes copied.
    ///
    /// # Errors
    /// Errors of pread.
    ///
    /// # Safety
    /// The memory at `into` may be written by this thread.
    pub unsafe fn copy(&self, from: u64, into: *mut u8, bytes: usize) -> io::Result<usize> {
        // SAFETY: the caller's promise.
        unsafe { load(self.0.as_raw_fd(), from, into, bytes) }
    }
}

/// Sets the access rights of pages.
///
/// # Errors
/// Errors of mprotect.
///
/// # Safety
/// No code depends on access that is removed.
pub unsafe fn protect(base: *mut u8, bytes: usize, rights: PageRights) -> io::Result<()> {
    // SAFETY: the caller's promise.
    if unsafe { libc::mprotect(base.cast(), bytes, rights.bits()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Locks pages into memory as they are touched. The intended effect is that the kernel then refuses to
/// discard them: madvise with DONTNEED or REMOVE fails with EINVAL.
///
/// # Errors
/// EPERM or ENOMEM beyond RLIMIT_MEMLOCK.
pub fn lock(base: *mut u8, bytes: usize) -> io::Result<()> {
    // SAFETY: changes how pages are kept, not what they hold; the kernel checks the addresses.
    if unsafe { libc::mlock2(base.cast(), bytes, libc::MLOCK_ONFAULT) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Enters the pages of a mapping in the page tables, so that no fault occurs later. Errors are ignored.
pub fn populate(base: *mut u8, bytes: usize) {
    // SAFETY: changes page tables only; the kernel checks the addresses.
    let _ = unsafe { advise(base.addr() as u64, bytes as u64, libc::MADV_POPULATE_READ) };
}

/// Allocates all pages of a writable mapping at once, which otherwise happens at the first write to each.
/// Errors are ignored.
pub fn populate_written(base: *mut u8, bytes: usize) {
    let _ = is_there(base as u64, bytes as u64, true);
}

/// Returns true if all pages of a range are mapped and may be read or, with `written`, written. Returns
/// true also if the kernel cannot tell (before Linux 5.14).
pub fn is_there(address: u64, bytes: u64, written: bool) -> bool {
    if bytes == 0 {
        return true;
    }
    const PAGE: u64 = 4096;
    let start = address / PAGE * PAGE;
    let end = (address + bytes).next_multiple_of(PAGE);
    let advice = if written { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    // SAFETY: enters pages in the page tables; the kernel checks the addresses.
    let result = unsafe { advise(start, end - start, advice) };
    result.map_or_else(|error| error.raw_os_error() == Some(libc::EINVAL), |()| true)
}

/// Merges small pages into huge ones where possible. Errors are ignored; users of the memory notice
/// nothing.
pub fn collapse(base: *mut u8, bytes: usize) {
    // SAFETY: changes the size of pages, not their content; the kernel checks the addresses.
    let _ = unsafe { advise(base.addr() as u64, bytes as u64, libc::MADV_COLLAPSE) };
}

/// Frees the pages of a range of an object; they read as zero afterwards.
///
/// # Errors
/// Errors of fallocate.
///
/// # Safety
/// The content of the pages is not needed any more.
pub unsafe fn discard(object: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: an open descriptor; the caller's promise.
    if unsafe { libc::fallocate(object.as_raw_fd(), mode, offset as libc::off_t, bytes as libc::off_t) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Writes memory of this process to an object. Returns the number of bytes, which is smaller if the memory
/// ends. The kernel reads the memory, so an unmapped address causes an error and no fault.
///
/// # Errors
/// Errors of pwrite.
///
/// # Safety
/// The memory may be read by this thread.
pub unsafe fn store(object: BorrowedFd<'_>, offset: u64, from: *const u8, bytes: usize) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes {
        // SAFETY: an open descriptor; the kernel checks the addresses.
        let written = unsafe {
            let place = (offset + done as u64) as libc::off_t;
            libc::pwrite(object.as_raw_fd(), from.add(done).cast(), bytes - done, place)
        };
        match usize::try_from(written) {
            Ok(0) => return Ok(done),
            Ok(more) => done += more,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(done)
}

/// Reads an object into memory of this process. Returns the number of bytes. May be called between fork and
/// exec.
///
/// # Errors
/// Errors of pread.
///
/// # Safety
/// The memory may be written by this thread.
pub unsafe fn load(object: i32, offset: u64, into: *mut u8, bytes: usize) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes {
        // SAFETY: the kernel checks descriptor and addresses.
        let read = unsafe {
            let place = (offset + done as u64) as libc::off_t;
            libc::pread(object, into.add(done).cast(), bytes - done, place)
        };
        match usize::try_from(read) {
            Ok(0) => return Ok(done),
            Ok(more) => done += more,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(done)
}

/// Returns the next range of an object with pages, at or after `from`, that begins before `end`.
///
/// # Errors
/// Errors of lseek.
pub fn next_data(object: BorrowedFd<'_>, from: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    let seek = |at: u64, what| {
        // SAFETY: a plain system call on an open descriptor that was opened for this, so that nothing
        // depends on its offset.
        match unsafe { libc::lseek(object.as_raw_fd(), at as libc::off_t, what) } {
            found if found >= 0 => Ok(Some(found as u64)),
            _ => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
                error => Err(error),
            },
        }
    };
    if from >= end {
        return Ok(None);
    }
    let Some(start) = seek(from, libc::SEEK_DATA)?.filter(|start| *start < end) else { return Ok(None) };
    let until = seek(start, libc::SEEK_HOLE)?.unwrap_or(end).min(end);
    Ok(Some((start, until)))
}

/// Returns inode and device (major and minor number) of an object, which are unique on this machine.
///
/// # Errors
/// Errors of fstat.
pub fn identity(object: BorrowedFd<'_>) -> io::Result<(u64, (u32, u32))> {
    // SAFETY: an all-zero stat is a valid value of that plain C structure.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor and a writable structure.
    if unsafe { libc::fstat(object.as_raw_fd(), &mut status) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((status.st_ino, (libc::major(status.st_dev), libc::minor(status.st_dev))))
}

/// Returns a descriptor of the object that process `peer` has open as `number`.
///
/// The call pidfd_getfd has the requirements of process_vm_readv and interprets process numbers in the same
/// way. The folder /proc may belong to another pid namespace. So it is used only if the call is missing or
/// refused.
///
/// # Errors
/// The system's error. The caller checks by [`identity`] that it is the expected object.
pub fn object_of(peer: Pid, number: i32) -> io::Result<OwnedFd> {
    let _critical = kept::Critical::enter();
    let peer = Pid(kept::current(peer.0));
    pidfd_getfd(peer, number).or_else(|error| {
        let path = format!("/proc/{}/fd/{number}", peer.0);
        OpenOptions::new().read(true).write(true).open(path).map(OwnedFd::from).map_err(|_| error)
    })
}

fn pidfd_getfd(peer: Pid, number: i32) -> io::Result<OwnedFd> {
    let owned = |fd: libc::c_long| match i32::try_from(fd) {
        // SAFETY: the call that returned the descriptor just made it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: system calls with plain numbers.
    unsafe {
        let process = owned(libc::syscall(libc::SYS_pidfd_open, peer.0, 0))?;
        owned(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0))
    }
}

/// Returns the NUMA node of the page at `address`; `None` if it is not known.
pub fn node_of(address: u64) -> Option<i32> {
    const MPOL_F_NODE: libc::c_ulong = 1;
    const MPOL_F_ADDR: libc::c_ulong = 2;
    let mut node = -1;
    // SAFETY: node is writable, no mask is requested; the kernel checks the address.
    let failed = unsafe {
        let (none, flags) = (std::ptr::null::<u8>(), MPOL_F_NODE | MPOL_F_ADDR);
        libc::syscall(libc::SYS_get_mempolicy, &raw mut node, none, 0, address, flags)
    };
    (failed == 0 && node >= 0).then_some(node)
}

/// Returns true if any page of the range is part of a huge page (PAGEMAP_SCAN, Linux 6.7 and later).
pub fn has_huge_pages(base: *const u8, bytes: usize) -> bool {
    /// Argument of the ioctl: struct pm_scan_arg of linux/fs.h.
    #[derive(Default)]
    #[repr(C)]
    struct Scan {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walk_end: u64,
        regions: u64,
        regions_count: u64,
        max_pages: u64,
        inverted: u64,
        mask: u64,
        any_of: u64,
        returned: u64,
    }
    const PAGEMAP_SCAN: libc::c_ulong = 3 << 30 | (size_of::<Scan>() as libc::c_ulong) << 16 | 0x66 << 8 | 16;
    const PAGE_IS_HUGE: u64 = 1 << 6;
    let Ok(pagemap) = File::open("/proc/self/pagemap") else { return false };
    let mut found = [0u64; 3];
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        start: base as u64,
        end: base as u64 + bytes as u64,
        regions: found.as_mut_ptr() as u64,
        regions_count: 1,
        mask: PAGE_IS_HUGE,
        returned: PAGE_IS_HUGE,
        ..Scan::default()
    };
    // SAFETY: the argument is of the stated size, the room for results of the stated size.
    unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &mut scan) > 0 }
}

/// Returns the error of a call whose arguments do not fit the memory.
pub fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

/// Returns the error of a call that may succeed later.
pub fn try_again() -> io::Error {
    io::Error::from_raw_os_error(libc::EAGAIN)
}

/// Returns the error of a descriptor that does not denote its original object any more.
pub fn lost_descriptor() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

/// Unlocks pages by the system call itself, not by the function that the program calls.
///
/// # Errors
/// Errors of the kernel.
pub fn unlock(address: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: changes how pages are kept; the kernel checks the addresses.
    if unsafe { libc::syscall(libc::SYS_munlock, address, bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Makes the system call madvise by its number, because the function of that name is replaced for the
/// program. Unlike the C library's function, it returns the error.
///
/// # Errors
/// Errors of the kernel.
///
/// # Safety
/// The requirements of madvise: the program does not need the discarded content.
pub unsafe fn advise(address: u64, bytes: u64, advice: i32) -> io::Result<()> {
    // SAFETY: the caller's promise.
    if unsafe { libc::syscall(libc::SYS_madvise, address, bytes, advice) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Effect of an advice of madvise on private memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No effect that a program can observe.
    None,
    /// The memory reads as zero afterwards, immediately or later.
    Discard,
    /// The kernel refuses the advice, because there is no file.
    Refused,
    /// Children get the memory in another way or not at all, core files omit it, or access faults.
    Special,
    /// A special effect ends.
    Ordinary,
}

/// Returns true if the kernel refuses an advice for locked memory.
pub fn is_for_unlocked(advice: i32) -> bool {
    advice == libc::MADV_COLD || advice == libc::MADV_PAGEOUT
}

/// Returns the effect of an advice on private memory. An unknown advice is considered special.
pub fn effect_of(advice: i32) -> Effect {
    const DONTNEED_LOCKED: i32 = 24;
    const GUARD_REMOVE: i32 = 103;
    match advice {
        libc::MADV_DONTNEED | libc::MADV_FREE | DONTNEED_LOCKED => Effect::Discard,
        libc::MADV_REMOVE => Effect::Refused,
        libc::MADV_NORMAL | libc::MADV_RANDOM | libc::MADV_SEQUENTIAL | libc::MADV_WILLNEED => Effect::None,
        libc::MADV_COLD | libc::MADV_PAGEOUT | libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE => {
            Effect::None
        }
        libc::MADV_HUGEPAGE | libc::MADV_NOHUGEPAGE | libc::MADV_COLLAPSE => Effect::None,
        libc::MADV_MERGEABLE | libc::MADV_UNMERGEABLE => Effect::None,
        libc::MADV_DOFORK | libc::MADV_KEEPONFORK | libc::MADV_DODUMP | GUARD_REMOVE => Effect::Ordinary,
        _ => Effect::Special,
    }
}

/// Registers three functions around every fork of this process: before it, after it in the parent, and in
/// the child.
///
/// # Errors
/// ENOMEM.
///
/// # Safety
/// The functions obey the rules for fork handlers: none waits for a thread that forks, and the one in the
/// child allocates no memory.
pub unsafe fn at_fork(
    before: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) -> io::Result<()> {
    // SAFETY: the caller's promise.
    match unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) } {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// Returns true if `malloc` in this process is the C library's own.
pub fn malloc_is_the_c_library_s() -> bool {
    // SAFETY: looks up a name that is terminated; a Dl_info of zeros is valid; dladdr only reads addresses.
    unsafe {
        let malloc = libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr());
        let libc_function = libc::dlsym(libc::RTLD_DEFAULT, c"gnu_get_libc_version".as_ptr());
        let (mut one, mut two): (libc::Dl_info, libc::Dl_info) = (std::mem::zeroed(), std::mem::zeroed());
        !malloc.is_null()
            && !libc_function.is_null()
            && libc::dladdr(malloc, &mut one) != 0
            && libc::dladdr(libc_function, &mut two) != 0
            && one.dli_fbase == two.dli_fbase
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::create_object;
    use std::os::fd::AsFd;

    #[test]
    fn memory_moves_into_an_object_and_a_peer_finds_it() {
        const BYTES: usize = 64 << 10;
        let object = create_object(c"test", 1 << 62).unwrap();
        let offset = 3 << 47;
        let memory = map_private(BYTES).unwrap();
        // SAFETY: memory of this test.
        unsafe {
            memory.write_bytes(7, BYTES);
            assert_eq!(store(object.as_fd(), offset, memory, BYTES).unwrap(), BYTES);
            let alias = map(object.as_fd(), offset, BYTES).unwrap();
            populate(alias, BYTES);
            move_over(alias, memory, BYTES).unwrap();
            memory.add(5000).write(8);
            let me = Pid(std::process::id() as i32);
            let found = object_of(me, object.as_raw_fd()).unwrap();
            assert_eq!(identity(found.as_fd()).unwrap(), identity(object.as_fd()).unwrap());
            assert!(pidfd_getfd(me, object.as_raw_fd()).is_ok());
            let mut seen = vec![0; BYTES];
            assert_eq!(load(found.as_raw_fd(), offset, seen.as_mut_ptr(), BYTES).unwrap(), BYTES);
            assert_eq!((seen[4999], seen[5000], seen[5001]), (7, 8, 7));
            if lock(memory, BYTES).is_ok() {
                assert_eq!(libc::madvise(memory.cast(), BYTES, libc::MADV_DONTNEED), -1);
                assert_eq!(libc::madvise(memory.cast(), BYTES, libc::MADV_REMOVE), -1);
            }
            discard(object.as_fd(), offset, BYTES as u64).unwrap();
            assert_eq!(memory.add(5000).read(), 0);
            unmap(memory, BYTES);
        }
    }

    #[test]
    fn properties_of_memory_are_told() {
        let word = 0u64;
        assert!(node_of(&raw const word as u64).is_none_or(|node| node < 1024));
        assert!(malloc_is_the_c_library_s());
        assert!(object_of(Pid(i32::MAX), 0).is_err());
        let memory = map_private(8 << 20).unwrap();
        let aligned = memory.wrapping_add(memory.align_offset(2 << 20));
        // SAFETY: memory of this test, 8 MiB of it.
        unsafe {
            libc::madvise(aligned.cast(), 2 << 20, libc::MADV_HUGEPAGE);
            aligned.write_bytes(1, 2 << 20);
            assert!(!has_huge_pages(aligned.add(4 << 20), 1 << 20));
            unmap(memory, 8 << 20);
        }
    }
}
