//! Anonymous shared memory objects (memfd) and their mappings.
//!
//! An object has no name: it lives as long as one of its descriptors or mappings. So nothing remains when
//! processes are killed. Where a filter refuses memfd_create, a nameless file replaces it
//! ([`create_shared`]).

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::ptr::NonNull;

use crate::{refusal, this_process, user};

/// Creates an anonymous shared memory object of `bytes`, all zero. Pages are allocated when they are
/// touched.
///
/// The descriptor is closed on exec; [`set_inheritable`] changes that for a child.
///
/// # Errors
/// Errors of memfd_create or ftruncate, for example ENOMEM.
pub fn create_object(name: &CStr, bytes: u64) -> io::Result<OwnedFd> {
    // SAFETY: name is a terminated string; the call has no other preconditions.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(refusal::last("memfd_create"));
    }
    // SAFETY: fd was just created and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    set_length(fd.as_fd(), bytes)?;
    Ok(fd)
}

/// Folders for a file that replaces an object of memfd_create, the preferred one first.
const STAND_IN_FOLDERS: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

/// Creates a shared memory object; where that is refused, a nameless file. The file lies in the first of
/// /dev/shm, TMPDIR, /tmp and /var/tmp with space for the first `used` bytes. Pages are not reserved in
/// either case; [`reserve`] does that for a part.
///
/// # Errors
/// Errors of [`create_object`]; StorageFull when no folder has enough space.
pub fn create_shared(name: &CStr, bytes: u64, used: u64) -> io::Result<OwnedFd> {
    match create_object(name, bytes) {
        Err(error) if refusal::call(&error) == Some("memfd_create") && is_refused(&error) => {
            stand_in(bytes, used, &error)
        }
        result => result,
    }
}

fn is_refused(error: &io::Error) -> bool {
    matches!(refusal::errno(error), Some(libc::EPERM | libc::EACCES | libc::ENOSYS))
}

fn stand_in(bytes: u64, used: u64, refused: &io::Error) -> io::Result<OwnedFd> {
    let own = user::variable("TMPDIR").filter(|folder| !folder.is_empty()).map(OsString::from);
    let folders = STAND_IN_FOLDERS.map(OsString::from).into_iter();
    // TMPDIR is the second candidate, after /dev/shm.
    let folders: Vec<OsString> = folders.clone().take(1).chain(own).chain(folders.skip(1)).collect();
    for folder in &folders {
        let Ok(file) = nameless_file(folder.clone()) else { continue };
        if room(file.as_fd()) >= used && set_length(file.as_fd(), bytes).is_ok() {
            return Ok(file);
        }
    }
    let names: Vec<String> = folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
    let text = format!(
        "{refused}; a file cannot stand in for it, as none of {} has room for the {} MiB of shared memory: allow memfd_create, or \
         make room",
        names.join(", "),
        used.div_ceil(1 << 20)
    );
    Err(io::Error::new(io::ErrorKind::StorageFull, text))
}

/// Creates a file that is deleted with its last descriptor.
fn nameless_file(folder: OsString) -> io::Result<OwnedFd> {
    let terminated = |bytes| CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let folder = folder.into_vec();
    let path = terminated(folder.clone())?;
    // SAFETY: a terminated path. The mode is that of a file for its owner alone.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC, 0o600) };
    if fd >= 0 {
        // SAFETY: fd was just created and has no other owner.
        return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    // Some file systems, such as network ones, cannot create a file without a name.
    let name = terminated([&folder[..], b"/tutti-XXXXXX"].concat())?.into_raw();
    // SAFETY: the name is terminated and writable. It is taken back with its original length, whatever the
    // calls do.
    unsafe {
        let fd = libc::mkostemp(name, libc::O_CLOEXEC);
        let error = refusal::last("mkostemp");
        let name = CString::from_raw(name);
        if fd < 0 {
            return Err(error);
        }
        libc::unlink(name.as_ptr());
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Returns the free bytes of the file system of `fd`.
fn room(fd: BorrowedFd<'_>) -> u64 {
    // SAFETY: an all-zero value is a valid one of that plain C structure.
    let mut status: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: fd is open and status is writable.
    let known = unsafe { libc::fstatvfs(fd.as_raw_fd(), &mut status) } == 0;
    if known { status.f_bavail.saturating_mul(status.f_frsize) } else { 0 }
}

/// Reserves the pages of a range of an object if it is a file: otherwise a full file system would cause
/// SIGBUS. An object of memfd_create uses the system's memory and is left alone.
///
/// # Errors
/// The error of fallocate, for example that the file system is full.
pub fn reserve(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    if link.is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"/memfd:")) {
        return Ok(());
    }
    allocate(fd, 0, offset, bytes)
}

fn set_length(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    if this_process::file_limit().is_some_and(|limit| limit < bytes) {
        // The system would kill this process by SIGXFSZ.
        return Err(refusal::with_call("ftruncate", io::Error::from_raw_os_error(libc::EFBIG)));
    }
    // SAFETY: fd is open.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), length) } < 0 {
        return Err(refusal::last("ftruncate"));
    }
    Ok(())
}

/// Sets whether `fd` stays open across an exec. Async-signal-safe: may be called between fork and exec.
///
/// # Errors
/// Errors of fcntl; EBADF for a descriptor that is not open.
pub fn set_inheritable(fd: BorrowedFd<'_>, inheritable: bool) -> io::Result<()> {
    let flags = if inheritable { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: the descriptor is open while it is borrowed.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, flags) } < 0 {
        return Err(refusal::last("fcntl"));
    }
    Ok(())
}

/// Extends an object to at least `bytes`. The new part reads as zero and has no pages.
///
/// # Errors
/// Errors of fstat or ftruncate.
pub fn grow(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    if object_bytes(fd)? as u64 >= bytes {
        return Ok(());
    }
    set_length(fd, bytes)
}

/// Frees the pages of a range of `fd`. It reads as zero from then on, in every mapping.
///
/// # Errors
/// Errors of fallocate.
pub fn punch(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    allocate(fd, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, bytes)
}

fn allocate(fd: BorrowedFd<'_>, mode: i32, offset: u64, bytes: u64) -> io::Result<()> {
    let whole = |number: u64| libc::off_t::try_from(number).map_err(|_| io::ErrorKind::InvalidInput);
    // SAFETY: fd is open.
    if unsafe { libc::fallocate(fd.as_raw_fd(), mode, whole(offset)?, whole(bytes)?) } < 0 {
        return Err(refusal::last("fallocate"));
    }
    Ok(())
}

/// Shared, writable mapping of a memory object or of a part of it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is a range of addresses, valid in every thread. Its content is accessed through atomics
// or through types that state their own protocol.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Size of the smallest page in bytes.
const PAGE_BYTES: usize = 4096;

/// Maps a part of `fd` for reading and writing, shared.
///
/// # Safety
/// With `MAP_FIXED`, the memory at `place` is not in use.
unsafe fn map_at(
    place: *mut libc::c_void,
    fd: BorrowedFd<'_>,
    offset: u64,
    bytes: usize,
    fixed: libc::c_int,
) -> io::Result<NonNull<u8>> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE | fixed);
    // SAFETY: the caller's promise; at a null pointer the kernel chooses an unused address.
    let base = unsafe { libc::mmap(place, bytes, protection, flags, fd.as_raw_fd(), offset as libc::off_t) };
    if base == libc::MAP_FAILED {
        return Err(refusal::last("mmap"));
    }
    NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl Mapping {
    /// Maps all of `fd` for reading and writing, shared with every other process that maps it.
    ///
    /// # Errors
    /// Errors of fstat or mmap; InvalidInput for an empty object.
    pub fn of_object(fd: BorrowedFd<'_>) -> io::Result<Mapping> {
        Mapping::range(fd, 0, object_bytes(fd)?)
    }

    /// Maps `bytes` from `offset` on, which is a multiple of the page size.
    ///
    /// # Errors
    /// Errors of fstat or mmap; InvalidInput for a range that is empty or beyond the object.
    pub fn range(fd: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Mapping> {
        let end = offset.checked_add(bytes as u64).ok_or(io::ErrorKind::InvalidInput)?;
        if bytes == 0 || end > object_bytes(fd)? as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Mapping::map(fd, offset, bytes)
    }

    /// Maps the first `bytes` of an object whose size cannot be queried, such as a table of the kernel's
    /// programs.
    ///
    /// # Errors
    /// The error of mmap, if the object is shorter.
    pub fn beginning(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<Mapping> {
        Mapping::map(fd, 0, bytes)
    }

    /// Maps a range at an address that is a multiple of `alignment`: 1, or a power of two of at least a
    /// page.
    ///
    /// # Errors
    /// Errors of [`Mapping::range`].
    pub fn aligned_range(
        fd: BorrowedFd<'_>,
        offset: u64,
        bytes: usize,
        alignment: usize,
    ) -> io::Result<Mapping> {
        let room = Mapping::range(fd, offset, bytes)?;
        if room.base.as_ptr().addr().is_multiple_of(alignment) {
            return Ok(room);
        }
        let whole = bytes.next_multiple_of(PAGE_BYTES);
        let reserved = whole.checked_add(alignment).ok_or(io::ErrorKind::InvalidInput)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping at an address the kernel chooses cannot overlap live objects.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), reserved, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(refusal::last("mmap"));
        }
        let skipped = start.addr().next_multiple_of(alignment) - start.addr();
        let place = start.wrapping_byte_add(skipped);
        // SAFETY: the place is inside the reserved memory, which is not in use.
        let mapped = unsafe { map_at(place, fd, offset, bytes, libc::MAP_FIXED) };
        let unused = match mapped {
            Ok(_) => [(start, skipped), (place.wrapping_byte_add(whole), alignment - skipped)],
            Err(_) => [(start, reserved), (start, 0)],
        };
        for (from, length) in unused.into_iter().filter(|(_, length)| *length > 0) {
            // SAFETY: reserved memory that was never used.
            unsafe { libc::munmap(from, length) };
        }
        mapped.map(|base| Mapping { base, bytes })
    }

    fn map(fd: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Mapping> {
        // SAFETY: a fresh mapping at an address the kernel chooses cannot overlap live objects.
        let base = unsafe { map_at(std::ptr::null_mut(), fd, offset, bytes, 0)? };
        Ok(Mapping { base, bytes })
    }

    /// Maps the beginning of `fd` at the address of this mapping, with the present content. Neither may be
    /// written to meanwhile.
    ///
    /// # Errors
    /// The error of mmap; then this mapping is unchanged.
    pub fn replace(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let room = Mapping::beginning(fd, self.bytes)?;
        // SAFETY: two mappings of this length, which do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.base.as_ptr(), room.base.as_ptr(), self.bytes) };
        // SAFETY: the addresses are those of this mapping, and hold the same bytes afterwards.
        unsafe { map_at(self.base.as_ptr().cast(), fd, 0, self.bytes, libc::MAP_FIXED) }.map(drop)
    }

    /// Returns the first byte of the mapping, which is page aligned.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the length of the mapping in bytes.
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
        return Err(refusal::last("fstat"));
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
    fn a_mapping_is_replaced_in_its_place() {
        let [old, new] = [c"old", c"new"].map(|name| create_object(name, 8192).unwrap());
        let (one, other) =
            (Mapping::of_object(old.as_fd()).unwrap(), Mapping::of_object(new.as_fd()).unwrap());
        // SAFETY: both mappings are 8192 bytes and nothing else uses them.
        unsafe {
            one.base().add(5000).write(42);
            one.replace(new.as_fd()).unwrap();
            assert_eq!((one.base().add(5000).read(), other.base().add(5000).read()), (42, 42));
            other.base().write(7);
            assert_eq!(one.base().read(), 7);
        }
        let closed = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(one.replace(closed.as_fd()).is_err(), "it cannot be written");
    }

    #[test]
    fn two_mappings_see_one_memory() {
        let fd = create_object(c"test", 8192).unwrap();
        let (one, two) = (Mapping::of_object(fd.as_fd()).unwrap(), Mapping::of_object(fd.as_fd()).unwrap());
        // SAFETY: both mappings are 8192 bytes and nothing else uses them.
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
            (Mapping::of_object(fd.as_fd()).unwrap(), Mapping::range(fd.as_fd(), 4096, 4096).unwrap());
        // SAFETY: the mappings are long enough and nothing else uses them.
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
    fn a_file_stands_in_for_an_object_and_is_gone_with_it() {
        let refused = io::Error::from_raw_os_error(libc::EPERM);
        let fd = stand_in(8192, 4096, &refused).unwrap();
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
        assert!(link.to_string_lossy().ends_with("(deleted)"), "{}", link.display());
        let (one, two) = (Mapping::of_object(fd.as_fd()).unwrap(), Mapping::of_object(fd.as_fd()).unwrap());
        reserve(fd.as_fd(), 0, 8192).unwrap();
        // SAFETY: both mappings are 8192 bytes and nothing else uses them.
        let seen = unsafe {
            one.base().add(5000).write(42);
            two.base().add(5000).read()
        };
        assert_eq!(seen, 42);
        let error = stand_in(8192, 1 << 61, &refused).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("/dev/shm, "), "{error}");
    }

    #[test]
    fn an_empty_object_is_refused() {
        let fd = create_object(c"test", 0).unwrap();
        assert_eq!(Mapping::of_object(fd.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
