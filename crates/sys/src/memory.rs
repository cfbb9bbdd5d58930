//! Anonymous shared memory objects (memfd) and their mappings.
//!
//! An object has no name: it lives as long as a descriptor or a mapping of it does, so nothing can be
//! left behind, whoever is killed.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Creates an anonymous shared memory object of `bytes`, all zero, without pages until touched.
///
/// The descriptor is closed on exec; [`set_inheritable`] changes that for a child.
///
/// # Errors
/// What memfd_create or ftruncate report, for example ENOMEM.
pub fn create_object(name: &CStr, bytes: u64) -> io::Result<OwnedFd> {
    // SAFETY: name is a terminated string; the call has no other preconditions.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fd was just created and is owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: fd is open.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), length) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

/// Sets whether `fd` survives an exec. Async-signal-safe: may be called between fork and exec.
///
/// # Errors
/// What fcntl reports; EBADF for a descriptor that is not open.
pub fn set_inheritable(fd: BorrowedFd<'_>, inheritable: bool) -> io::Result<()> {
    let flags = if inheritable { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: the descriptor is open while it is borrowed.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, flags) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Makes an object at least `bytes` long; what is new reads as zero and has no pages.
///
/// # Errors
/// What fstat or ftruncate report.
pub fn grow(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    if object_bytes(fd)? as u64 >= bytes {
        return Ok(());
    }
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: fd is open.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), length) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Gives the pages of a range of `fd` back to the system: it reads as zeros from now on, in every mapping.
///
/// # Errors
/// What fallocate reports.
pub fn punch(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    let whole = |number: u64| libc::off_t::try_from(number).map_err(|_| io::ErrorKind::InvalidInput);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: fd is open.
    if unsafe { libc::fallocate(fd.as_raw_fd(), mode, whole(offset)?, whole(bytes)?) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A shared, writable mapping of a memory object or a part of it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is a range of addresses, valid in every thread; what is stored in it is reached
// through atomics or through types that state their own protocol.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all of `fd` for reading and writing, shared with every other process that maps it.
    ///
    /// # Errors
    /// What fstat or mmap report; InvalidInput for an empty object.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Mapping> {
        Mapping::range(fd, 0, object_bytes(fd)?)
    }

    /// Maps `bytes` from `offset`, a multiple of the page size, on.
    ///
    /// # Errors
    /// What fstat or mmap report; InvalidInput for a range that is empty or beyond the object.
    pub fn range(fd: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Mapping> {
        let end = offset.checked_add(bytes as u64).ok_or(io::ErrorKind::InvalidInput)?;
        if bytes == 0 || end > object_bytes(fd)? as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: a fresh mapping at an address the kernel chooses cannot overlap live objects.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Mapping { base, bytes })
    }

    /// First byte of the mapping, aligned to a page.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and bytes are those of the mmap that made this value, unmapped only here.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

fn object_bytes(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: an all-zero stat is a valid value of that plain C structure.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fd is open and status is writable.
    if unsafe { libc::fstat(fd.as_raw_fd(), &mut status) } < 0 {
        return Err(io::Error::last_os_error());
    }
    match usize::try_from(status.st_size) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn two_mappings_see_one_memory() {
        let fd = create_object(c"test", 8192).unwrap();
        let (one, two) = (Mapping::of(fd.as_fd()).unwrap(), Mapping::of(fd.as_fd()).unwrap());
        // SAFETY: both mappings are 8192 bytes and nobody else uses them.
        let seen = unsafe {
            one.base().add(5000).write(42);
            two.base().add(5000).read()
        };
        assert_eq!((seen, one.bytes()), (42, 8192));
    }

    #[test]
    fn a_part_can_be_mapped_and_given_back() {
        let fd = create_object(c"test", 3 * 4096).unwrap();
        let (whole, part) =
            (Mapping::of(fd.as_fd()).unwrap(), Mapping::range(fd.as_fd(), 4096, 4096).unwrap());
        // SAFETY: the mappings are long enough and nobody else uses them.
        let write = |value| unsafe { whole.base().add(4096).write(value) };
        // SAFETY: as above.
        let read = || unsafe { part.base().read() };
        write(7);
        assert_eq!(read(), 7);
        punch(fd.as_fd(), 4096, 4096).unwrap();
        assert_eq!(read(), 0);
        let beyond = Mapping::range(fd.as_fd(), 8192, 8192).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn an_empty_object_is_refused() {
        let fd = create_object(c"test", 0).unwrap();
        assert_eq!(Mapping::of(fd.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
