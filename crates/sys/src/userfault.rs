//! Notification of changes to some mappings of this process (userfaultfd): when they are unmapped, moved,
//! or replaced.
//!
//! The kernel reports a change after it has happened, and resumes the thread that made it only when the
//! message has been read. A thread of its own reads the messages. It increments a counter before and after
//! reading. An even count that has not changed proves that no call that made a change has returned since. A
//! call of another thread that has not returned yet is detected by asking the kernel
//! ([`Watcher::is_changing`]): the addresses may already be in other use.
//!
//! The thread is not created by the C library: otherwise a program with one thread would pay for locks
//! everywhere from then on. It runs a few instructions on registers alone, uses neither its stack nor
//! thread-local storage, and takes no signals. It ends when the watcher is dropped, and with the process.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

#[cfg(target_arch = "x86_64")]
use crate::signal::Mask;

/// Watcher of mappings of this process.
#[derive(Debug)]
pub struct Watcher {
    /// Descriptors that belong to the thread, which closes them.
    faults: RawFd,
    stop: RawFd,
    /// Process number: a child of fork has the descriptors, but not the thread.
    pid: u32,
}

/// Argument of the ioctl: struct uffdio_api.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// Argument of the ioctl: struct uffdio_register.
#[repr(C)]
struct Register {
    start: u64,
    bytes: u64,
    mode: u64,
    ioctls: u64,
}

/// Memory for the thread's system calls.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
struct Desk {
    polled: [libc::pollfd; 2],
    /// Buffer for several struct uffd_msg of 32 bytes.
    messages: [u64; 4 * MESSAGES],
}

#[cfg(target_arch = "x86_64")]
const MESSAGES: usize = 16;
/// Numbers of the ioctls, formed by _IOWR(0xaa, 0x3f, struct uffdio_api) and its like.
const API: libc::c_ulong = 3 << 30 | (size_of::<Api>() as libc::c_ulong) << 16 | 0xaa << 8 | 0x3f;
const REGISTER: libc::c_ulong = 3 << 30 | (size_of::<Register>() as libc::c_ulong) << 16 | 0xaa << 8;
const WRITE_PROTECT: libc::c_ulong = 3 << 30 | 24 << 16 | 0xaa << 8 | 0x06;
const API_VERSION: u64 = 0xaa;
/// Flag to leave out faults of system calls, so that no privilege is needed (Linux 5.11).
const USER_MODE_ONLY: i32 = 1;
const WRITE_PROTECTION: u64 = 1;
const EVENT_REMAP: u64 = 1 << 2;
const EVENT_REMOVE: u64 = 1 << 3;
const EVENT_UNMAP: u64 = 1 << 6;
/// Feature: shared objects can be registered for write protection. No page is ever protected, so such a
/// registration changes nothing.
const WRITE_PROTECTION_OF_OBJECTS: u64 = 1 << 12;
const MODE_WRITE_PROTECTION: u64 = 2;
/// Size of the thread's stack in bytes. The stack is never used.
#[cfg(target_arch = "x86_64")]
const STACK_BYTES: usize = 4096;

/// Number of watcher threads in this process.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// Descriptor of the latest watcher.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);

/// Returns the number of watcher threads in this process.
pub fn threads() -> usize {
    THREADS.load(Ordering::Relaxed)
}

/// Returns true if a descriptor belongs to a watcher, and not to the program.
pub fn is_watcher(fd: RawFd) -> bool {
    DESCRIPTOR.load(Ordering::Relaxed) == fd
}

impl Watcher {
    /// Starts a watcher. `count` becomes odd before a change is read and even after it. It stays odd when
    /// no more changes are reported.
    ///
    /// # Errors
    /// The reason for which the kernel refuses: too old, or forbidden (a container).
    pub fn start(count: &'static AtomicU64) -> io::Result<Watcher> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        // SAFETY: a plain system call.
        let faults = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let faults = owned(RawFd::try_from(faults).unwrap_or(-1))?;
        let features =
            EVENT_REMAP | EVENT_REMOVE | EVENT_UNMAP | WRITE_PROTECTION | WRITE_PROTECTION_OF_OBJECTS;
        let mut api = Api { api: API_VERSION, features, ioctls: 0 };
        // SAFETY: the descriptor is open, the structure is of the stated size.
        if unsafe { libc::ioctl(faults.as_raw_fd(), API, &mut api) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a plain system call.
        let stop = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        thread::start(faults.as_raw_fd(), stop.as_raw_fd(), count)?;
        THREADS.fetch_add(1, Ordering::Relaxed);
        DESCRIPTOR.store(faults.as_raw_fd(), Ordering::Relaxed);
        Ok(Watcher { faults: faults.into_raw_fd(), stop: stop.into_raw_fd(), pid: std::process::id() })
    }

    /// Watches the mappings in a range of whole pages.
    ///
    /// # Errors
    /// The kernel's error: nothing is mapped there, or it is already being watched.
    pub fn register(&self, start: u64, bytes: u64) -> io::Result<()> {
        let mut register = Register { start, bytes, mode: MODE_WRITE_PROTECTION, ioctls: 0 };
        // SAFETY: as above. Registered memory behaves as before.
        if unsafe { libc::ioctl(self.faults, REGISTER, &mut register) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Returns true if a thread is changing a watched mapping now, or has changed it and the message was
    /// not read yet.
    #[inline]
    pub fn is_changing(&self) -> bool {
        // The kernel checks for changes first, and then fails because there is no range.
        // SAFETY: no memory is given.
        let refused = unsafe { libc::ioctl(self.faults, WRITE_PROTECT, std::ptr::null_mut::<u8>()) };
        refused >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if std::process::id() != self.pid {
            return;
        }
        THREADS.fetch_sub(1, Ordering::Relaxed);
        DESCRIPTOR.store(-1, Ordering::Relaxed);
        let one = 1u64;
        // SAFETY: the descriptor is open until the thread has read this message.
        unsafe { libc::write(self.stop, (&raw const one).cast(), size_of::<u64>()) };
    }
}

/// Returns true if this process has never had a second thread of the C library.
#[inline]
pub fn is_single_threaded() -> bool {
    static FLAG: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    // SAFETY: looks up a name.
    let flag = *FLAG.get_or_init(|| unsafe {
        libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()).expose_provenance()
    });
    let flag: *const u8 = std::ptr::with_exposed_provenance(flag);
    // SAFETY: null, or the C library's variable, a char that may be read.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, with no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(target_arch = "x86_64")]
mod thread {
    use super::*;

    /// Starts the watcher thread.
    pub(super) fn start(faults: RawFd, stop: RawFd, count: &'static AtomicU64) -> io::Result<()> {
        const { assert!(size_of::<libc::stat>() <= size_of::<[u64; 4 * MESSAGES]>()) };
        let polled = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let desk = Desk { polled: [polled(faults), polled(stop)], messages: [0; 4 * MESSAGES] };
        // Both stay allocated: the thread may outlive its creator.
        let desk: *mut Desk = Box::leak(Box::new(desk));
        let stack = Box::leak(vec![0u8; STACK_BYTES].into_boxed_slice()).as_mut_ptr_range().end;
        let old = Mask::all().block();
        // SAFETY: see `run`.
        let thread = unsafe { run(desk, stack, count.as_ptr()) };
        old.install();
        if thread < 0 {
            return Err(io::Error::from_raw_os_error(-thread as i32));
        }
        Ok(())
    }

    /// Creates the thread and returns its number, or a negative error. The thread never leaves these
    /// instructions.
    ///
    /// # Safety
    /// `desk` and `count` stay valid forever, the desk is used by the thread only, and signals are blocked.
    #[inline(never)]
    unsafe fn run(desk: *mut Desk, stack: *mut u8, count: *mut u64) -> i64 {
        let flags = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND;
        let flags = flags | libc::CLONE_THREAD | libc::CLONE_SYSVSEM;
        let thread: i64;
        // SAFETY: a new thread starts after the first `syscall` with a copy of the registers. It only uses
        // r13 to r15, which no system call changes, the memory they point to, and registers that system
        // calls take and change.
        unsafe {
            std::arch::asm!(
                "syscall",
                "test rax, rax",
                "jnz 9f",
                // Waits for a message, or for the end.
                "2:",
                "mov eax, 7",
                "mov rdi, r13",
                "mov esi, 2",
                "mov rdx, -1",
                "syscall",
                "cmp rax, -4",
                "je 2b",
                "test rax, rax",
                "js 8f",
                "cmp word ptr [r13 + 14], 0",
                "jne 8f",
                "cmp word ptr [r13 + 6], 1",
                "jne 8f",
                // If the program has replaced the descriptor by a file, it is neither read nor closed.
                "mov eax, 5; mov edi, dword ptr [r13]; mov rsi, r15; syscall",
                "test eax, eax; jnz 7f; test dword ptr [r15 + {mode}], {kinds}; jnz 7f",
                // The count becomes odd: memory has changed. The thread that did it waits for the read below.
                "lock inc qword ptr [r14]",
                "3:",
                "xor eax, eax",
                "mov edi, dword ptr [r13]",
                "mov rsi, r15",
                "mov edx, {bytes}",
                "syscall",
                "test rax, rax",
                "jg 3b",
                "lock inc qword ptr [r14]",
                "jmp 2b",
                // The count stays odd. Closes both descriptors and ends.
                "8:",
                "lock inc qword ptr [r14]",
                "mov eax, 3; mov edi, dword ptr [r13]; syscall",
                "mov eax, 3; mov edi, dword ptr [r13 + 8]; syscall",
                "jmp 6f",
                "7: lock inc qword ptr [r14]",
                "6: mov eax, 60; xor edi, edi; syscall; ud2",
                "9:",
                bytes = const 32 * MESSAGES,
                mode = const std::mem::offset_of!(libc::stat, st_mode),
                kinds = const libc::S_IFMT,
                inout("rax") libc::SYS_clone => thread,
                in("rdi") flags,
                in("rsi") stack,
                in("rdx") 0,
                in("r10") 0,
                in("r8") 0,
                in("r13") desk,
                in("r14") count,
                in("r15") &raw mut (*desk).messages,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        thread
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod thread {
    use super::*;

    pub(super) fn start(_: RawFd, _: RawFd, _: &'static AtomicU64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{memory, remap};
    use std::os::fd::AsFd;

    const BYTES: usize = 1 << 16;

    /// Checks if an action on a watched mapping increases the count, as it does when a message is read.
    fn check(act: impl FnOnce(*mut u8), heard: bool) {
        let count: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        let Ok(watcher) = Watcher::start(count) else { return };
        let object = memory::create_object(c"watched", 1 << 20).unwrap();
        let base = remap::map(object.as_fd(), 0, BYTES).unwrap();
        watcher.register(base.addr() as u64, BYTES as u64).unwrap();
        watcher.register(base.addr() as u64, BYTES as u64).unwrap();
        assert_eq!((count.load(Ordering::Acquire), watcher.is_changing()), (0, false));
        // SAFETY: memory of the test.
        unsafe { base.write(7) };
        act(base);
        let after = count.load(Ordering::Acquire);
        assert_eq!(after > 0, heard, "{after}");
        drop(watcher);
        // A watcher that receives no more messages makes that visible.
        while count.load(Ordering::Acquire).is_multiple_of(2) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn unmap(base: *mut u8, bytes: usize) {
        // SAFETY: memory of the test that is used no more.
        unsafe { remap::unmap(base, bytes) };
    }

    #[test]
    fn unmapping_is_heard_of_before_it_returns() {
        check(|base| unmap(base, BYTES), true);
        check(|base| unmap(base.wrapping_add(4096), 4096), true);
    }

    #[test]
    fn covering_and_moving_are_heard_of() {
        check(
            |base| {
                let other = remap::map_private(4096).unwrap();
                // SAFETY: memory of the test.
                unsafe {
                    libc::mremap(
                        other.cast(),
                        4096,
                        4096,
                        libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                        base.cast::<libc::c_void>(),
                    )
                };
            },
            true,
        );
        check(
            |base| {
                let there = remap::map_private(BYTES).unwrap();
                // SAFETY: memory of the test.
                unsafe {
                    libc::mremap(
                        base.cast(),
                        BYTES,
                        BYTES,
                        libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                        there.cast::<libc::c_void>(),
                    )
                };
            },
            true,
        );
    }

    #[test]
    fn use_is_not_heard_of() {
        // SAFETY: memory of the test.
        check(|base| unsafe { base.write_bytes(1, BYTES) }, false);
        check(|_| unmap(remap::map_private(4096).unwrap(), 4096), false);
        check(
            |_| {
                let child = std::process::Command::new("true").status().unwrap();
                assert!(child.success());
            },
            false,
        );
    }
}
