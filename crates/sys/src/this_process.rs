//! Actions of a rank on its own process: taking over descriptors, dying with its launcher, ending at once;
//! and its limits.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use tutti_base::machines::Processors;

use crate::{cpu, memory, process, remap};

/// Returns the lowest number for descriptors of objects to which the library writes. It is above the
/// numbers of the program's own files. If the program closes one by mistake, the loss is noticed, and the
/// number is not reused for a file that is opened later.
fn remote_number() -> i32 {
    const HIGHEST: u64 = 4096;
    (descriptor_limit().min(HIGHEST) * 3 / 4).max(3) as i32
}

/// Moves a descriptor to a high number, if one is free.
pub fn out_of_the_way(fd: OwnedFd) -> OwnedFd {
    // SAFETY: a plain system call on an open descriptor.
    let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, remote_number()) };
    // SAFETY: the copy was just created and has no other owner.
    if copy < 0 { fd } else { unsafe { OwnedFd::from_raw_fd(copy) } }
}

/// Takes ownership of a copy of an inherited descriptor. The copy is close-on-exec and [out of the
/// way](out_of_the_way). The inherited one stays open, so that a program may load the library a second
/// time.
///
/// # Errors
/// EBADF when `fd` is not open.
pub fn adopt_descriptor(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: no precondition; a number that is no open descriptor is reported.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the copy was just created and has no other owner.
    let owned = unsafe { OwnedFd::from_raw_fd(copy) };
    // SAFETY: fd is open, as the copy shows, and is only borrowed for this call.
    memory::set_inheritable(unsafe { BorrowedFd::borrow_raw(fd) }, true)?;
    Ok(out_of_the_way(owned))
}

/// Sets whether child programs inherit descriptor `number`, if it refers to `object`. The program may have
/// closed it and opened a file of its own with that number.
pub fn set_inheritance(number: i32, object: BorrowedFd<'_>, inherits: bool) {
    if number < 0 {
        return;
    }
    // SAFETY: borrowed for these calls only; a number that is no open descriptor is reported by fstat.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let identities = (remap::identity(inherited), remap::identity(object));
    if matches!(identities, (Ok(one), Ok(other)) if one == other) {
        // A refused change leaves the descriptor as it was.
        let _ = memory::set_inheritable(inherited, inherits);
    }
}

/// Closes an inherited descriptor that nothing else uses.
pub fn close_descriptor(fd: i32) {
    // SAFETY: the caller gives the descriptor up; a number that is not open causes an error, which is
    // ignored.
    unsafe { libc::close(fd) };
}

/// Returns true if `fd` is an open socket.
pub fn is_socket(fd: i32) -> bool {
    // SAFETY: an all-zero stat is a valid value of that plain C structure.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: status is writable; a number that is no open descriptor is reported.
    let known = unsafe { libc::fstat(fd, &mut status) } == 0;
    known && status.st_mode & libc::S_IFMT == libc::S_IFSOCK
}

/// Program or library in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Path of the file in the loader's list.
    pub file: Vec<u8>,
    /// Address of its first byte in memory.
    pub base: usize,
}

impl Loaded {
    /// Returns the last part of the path.
    pub fn name(&self) -> String {
        let name = self.file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }
}

/// Returns the program or library in memory that contains `address`.
pub fn loaded_at(address: usize) -> Option<Loaded> {
    // SAFETY: an all-zero result is a valid value of that plain C structure.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is only compared; the result is writable.
    let known = unsafe { libc::dladdr(address as *const libc::c_void, &mut found) } != 0;
    // SAFETY: the name is terminated and lives as long as the library is loaded.
    let name = (known && !found.dli_fname.is_null()).then(|| unsafe { CStr::from_ptr(found.dli_fname) })?;
    Some(Loaded { file: name.to_bytes().to_vec(), base: found.dli_fbase as usize })
}

/// Returns a text that is equal for all processes that find each other's sockets by name: the machine's
/// boot number and its network namespace.
pub fn host_identity() -> Vec<u8> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    [boot.trim_ascii(), network.as_os_str().as_bytes()].concat()
}

/// Returns a number that is equal on two hosts exactly if their processes share all processors. It is
/// derived from the machine's boot number, the usable processors and, where processor time is limited, the
/// control group. `None` where the system does not report them.
fn processors_identity() -> Option<u64> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let allowed = cpu::affinity().ok()?;
    let mut text = boot.trim_ascii().to_vec();
    if text.is_empty() {
        return None;
    }
    text.extend(allowed.iter().flat_map(|processor| (processor as u32).to_le_bytes()));
    if cpu::quota().is_some() {
        // Names of groups are relative to the container; the namespace distinguishes equal names of
        // different containers.
        text.extend(std::fs::read("/proc/self/cgroup").unwrap_or_default());
        let space = std::fs::read_link("/proc/self/ns/cgroup").unwrap_or_default();
        text.extend(space.as_os_str().as_bytes());
    }
    // FNV-1a: the same on all hosts, independent of library versions.
    Some(text.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    }))
}

/// Returns the identity and number of the processors that ranks of this host may use. If nothing is known,
/// the identity is unique.
pub fn processors() -> Processors {
    let alone = || process::random().unwrap_or_else(|_| u64::from(std::process::id()));
    let identity = processors_identity().unwrap_or_else(alone);
    Processors { identity, count: cpu::usable_processors() as u32 }
}

unsafe extern "C" {
    /// Function of the C library (glibc): atexit(3) that also receives the status of the process.
    fn on_exit(
        run: extern "C" fn(libc::c_int, *mut libc::c_void),
        argument: *mut libc::c_void,
    ) -> libc::c_int;
}

/// Registers `run` to be called with the exit status when this process returns from main or calls exit(3).
pub fn at_exit(run: fn(i32)) {
    extern "C" fn call(status: libc::c_int, run: *mut libc::c_void) {
        // SAFETY: the argument is the function that was passed to on_exit below.
        let run: fn(i32) = unsafe { std::mem::transmute(run) };
        run(status);
    }
    // SAFETY: both functions live as long as the library, which is never unloaded once MPI runs. A failure
    // to register is ignored.
    unsafe { on_exit(call, run as *mut libc::c_void) };
}

/// Writes the buffered output of the C library's streams (stdout and others).
pub fn flush_streams() {
    // SAFETY: without a stream the call flushes all of them.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Asks the kernel to kill this process when its parent dies, so that no rank survives a killed launcher.
pub fn die_with_parent() {
    // SAFETY: sets an attribute of this process; no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Ends the process without running exit handlers, which might wait for other threads or ranks.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: ends the process; nothing of it is used afterwards.
    unsafe { libc::_exit(status) }
}

/// Returns the number of bytes that this process may lock in memory; `None` if it is unlimited.
pub fn lockable_bytes() -> Option<u64> {
    const CAP_IPC_LOCK: u32 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is writable.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    let free = mask >> CAP_IPC_LOCK & 1 == 1 || limit.rlim_cur == libc::RLIM_INFINITY;
    (!free).then_some(limit.rlim_cur)
}

/// Memory of this process whose pages must not move, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Bytes registered with a device or an io_uring.
    pub pinned: u64,
    /// Bytes locked by the program or this library.
    pub locked: u64,
}

/// Returns the memory whose pages must not move, or `None` if the system does not report it. Allocates
/// nothing.
pub fn held_memory() -> Option<Held> {
    let mut text = [0u8; 4096];
    let length = {
        use std::io::Read;
        std::fs::File::open("/proc/self/status").and_then(|mut file| file.read(&mut text)).ok()?
    };
    let kilobytes = |name: &[u8]| {
        let line = text[..length].split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        let digits = line.iter().copied().filter(u8::is_ascii_digit);
        Some(digits.fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
    };
    Some(Held { pinned: kilobytes(b"VmPin:")? << 10, locked: kilobytes(b"VmLck:")? << 10 })
}

/// Returns the maximum length of a file that this process may create, in bytes; `None` if it is unlimited.
pub fn file_limit() -> Option<u64> {
    // An unknown limit counts as no limit.
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: the structure is writable.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Returns the maximum number of open descriptors of this process.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is writable.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur
}

/// Writes a text to standard error immediately. May be called between fork and exec, and when no memory is
/// left.
pub fn say(text: &str) {
    // SAFETY: the text has its stated length; an error is ignored.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// Writes a short message in one call. May be called between fork and exec.
pub fn send_now(fd: BorrowedFd<'_>, bytes: &[u8]) {
    // SAFETY: the bytes have their stated length; an error, such as a closed reader, is ignored.
    unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_known() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let of = |fd: &dyn std::os::fd::AsRawFd| is_socket(fd.as_raw_fd());
        assert_eq!((of(&near), of(&file), is_socket(987_654)), (true, false, false));
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_refused() {
        assert_eq!(adopt_descriptor(987_654).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn memory_that_is_locked_is_counted() {
        let before = held_memory().unwrap();
        let memory = crate::remap::map_private(4096).unwrap();
        let locked = crate::remap::lock(memory, 4096).is_ok();
        let after = held_memory().unwrap();
        assert_eq!(after.pinned, before.pinned);
        assert!(!locked || after.locked >= 4096);
    }

    #[test]
    fn a_host_says_the_same_of_its_processors_every_time() {
        assert_eq!(processors(), processors());
        assert!(processors().count > 0);
    }
}
