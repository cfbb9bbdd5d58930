//! Hearing of every change of some mappings of this process (userfaultfd): when they are unmapped, moved, or covered by others.
//!
//! The kernel tells it after the change, and lets the thread that made it go on only when the message has been read. It is
//! read by a thread that does nothing else: it counts before it reads and after it has read, so that whoever was told of no
//! change by an even count that is still the same knows that no call for one has returned since. A call that has not yet
//! returned, of another thread, is seen by asking the kernel ([`Watcher::is_changing`]): the addresses may have been given to
//! somebody else already.
//!
//! The thread is none of the C library's: with one of those, a program with one thread would pay for locks everywhere from
//! then on. It runs a few instructions on registers alone, has neither a stack that it uses nor thread-local storage, and takes no
//! signals. It ends when the watcher is dropped, and with the process.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

#[cfg(target_arch = "x86_64")]
use crate::signal::Mask;

/// Watches mappings of this process.
#[derive(Debug)]
pub struct Watcher {
    /// Both belong to the thread, which closes them.
    faults: RawFd,
    stop: RawFd,
    /// The process: a child of fork has the descriptors, but not the thread.
    pid: u32,
}

/// struct uffdio_api.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// struct uffdio_register.
#[repr(C)]
struct Register {
    start: u64,
    bytes: u64,
    mode: u64,
    ioctls: u64,
}

/// What the thread works on.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
struct Desk {
    polled: [libc::pollfd; 2],
    /// Some struct uffd_msg of 32 bytes.
    messages: [u64; 4 * MESSAGES],
}

#[cfg(target_arch = "x86_64")]
const MESSAGES: usize = 16;
/// _IOWR(0xaa, 0x3f, struct uffdio_api) and so on.
const API: libc::c_ulong = 3 << 30 | (size_of::<Api>() as libc::c_ulong) << 16 | 0xaa << 8 | 0x3f;
const REGISTER: libc::c_ulong = 3 << 30 | (size_of::<Register>() as libc::c_ulong) << 16 | 0xaa << 8;
const WRITE_PROTECT: libc::c_ulong = 3 << 30 | 24 << 16 | 0xaa << 8 | 0x06;
const API_VERSION: u64 = 0xaa;
/// Faults of system calls are none of ours: so no privilege is needed (Linux 5.11).
const USER_MODE_ONLY: i32 = 1;
const WRITE_PROTECTION: u64 = 1;
const EVENT_REMAP: u64 = 1 << 2;
const EVENT_REMOVE: u64 = 1 << 3;
const EVENT_UNMAP: u64 = 1 << 6;
/// Memory of objects can be registered for write protection, of which nothing is ever made: such a registration changes nothing.
const WRITE_PROTECTION_OF_OBJECTS: u64 = 1 << 12;
const MODE_WRITE_PROTECTION: u64 = 2;
/// Bytes of the thread's stack, which only has to be there.
#[cfg(target_arch = "x86_64")]
const STACK_BYTES: usize = 4096;

/// Threads of this kind in this process.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// The descriptor of the latest one.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);

/// How many threads of this process are watchers.
pub fn threads() -> usize {
    THREADS.load(Ordering::Relaxed)
}

/// Whether a descriptor is that of a watcher, and not the program's.
pub fn is_watcher(fd: RawFd) -> bool {
    DESCRIPTOR.load(Ordering::Relaxed) == fd
}

impl Watcher {
    /// Begins; `count` becomes odd before a change is read and even after it, and stays odd when nothing is heard any more.
    ///
    /// # Errors
    /// Why the kernel does not do it: too old, or forbidden (a container).
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

    /// Watches what is mapped in a range of whole pages.
    ///
    /// # Errors
    /// What the kernel reports: nothing is mapped there, or something else watches it.
    pub fn register(&self, start: u64, bytes: u64) -> io::Result<()> {
        let mut register = Register { start, bytes, mode: MODE_WRITE_PROTECTION, ioctls: 0 };
        // SAFETY: as above. Registered memory behaves as before.
        if unsafe { libc::ioctl(self.faults, REGISTER, &mut register) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Whether some thread is changing what is watched at this moment, or has and was not yet heard.
    #[inline]
    pub fn is_changing(&self) -> bool {
        // The kernel looks at this first, and then refuses as there is no range.
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
        // SAFETY: the descriptor is open until the thread has read of this.
        unsafe { libc::write(self.stop, (&raw const one).cast(), size_of::<u64>()) };
    }
}

/// Whether this process has never had a second thread of the C library's.
#[inline]
pub fn is_single_threaded() -> bool {
    static FLAG: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    // SAFETY: looks a name up.
    let flag = *FLAG.get_or_init(|| unsafe {
        libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()).expose_provenance()
    });
    let flag: *const u8 = std::ptr::with_exposed_provenance(flag);
    // SAFETY: null, or the C library's variable, a char that is there for being read.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(target_arch = "x86_64")]
mod thread {
    use super::*;

    /// Starts the thread.
    pub(super) fn start(faults: RawFd, stop: RawFd, count: &'static AtomicU64) -> io::Result<()> {
        const { assert!(size_of::<libc::stat>() <= size_of::<[u64; 4 * MESSAGES]>()) };
        let polled = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let desk = Desk { polled: [polled(faults), polled(stop)], messages: [0; 4 * MESSAGES] };
        // Both stay: the thread may outlive whoever started it.
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

    /// Makes the thread, whose number or error is returned. The thread never returns: it stays among these instructions.
    ///
    /// # Safety
    /// Desk and count stay for ever, and the desk is the thread's; signals are blocked.
    #[inline(never)]
    unsafe fn run(desk: *mut Desk, stack: *mut u8, count: *mut u64) -> i64 {
        let flags = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND;
        let flags = flags | libc::CLONE_THREAD | libc::CLONE_SYSVSEM;
        let thread: i64;
        // SAFETY: a new thread begins behind the first `syscall` with a copy of the registers. It only uses r13 to r15, which no
        // system call changes, what these point to, and what system calls take and change.
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
                // A file that the program has put in its place is neither read nor closed.
                "mov eax, 5; mov edi, dword ptr [r13]; mov rsi, r15; syscall",
                "test eax, eax; jnz 7f; test dword ptr [r15 + {mode}], {kinds}; jnz 7f",
                // Odd: something has changed. Whoever changed it goes on only when this has been read.
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
                // Odd for ever. Closes both and ends.
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

    /// What an action on a watched mapping adds to the count: 2 for each time that something was heard.
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
        // Who hears nothing any more says so.
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
