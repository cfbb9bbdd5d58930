//! Functions that stand in the place of the C library's for calls that create, share or discard memory
//! ([`crate::interpose`]).
//!
//! This module only translates. It knows the numbers and structures of the calls; the [`Hooks`] know what a
//! call means for memory of this library. A call that does not concern such memory is passed on to the C
//! library, or to the kernel, unchanged.
//!
//! | function | system call | hook |
//! |---|---|---|
//! | _Fork, clone | fork, clone, clone3 | those around a fork, unless parent and child share memory |
//! | madvise | madvise | `advise` |
//! | process_madvise | process_madvise | `advise`, for this process |
//! | mremap | mremap | `moves` |
//! | munlock, munlockall | the same | `unlock`, `lock_all` |
//! | remap_file_pages | the same | `holds`: refused, as for private memory |
//! | pkey_mprotect, shmat | the same, mseal | `changes` |
//! | | userfaultfd | `changes`, of all memory |
//!
//! # Safety
//! Arguments are those of the program. They go to the kernel, which checks them. The author of a hook
//! argues for its safety.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::interpose::{self, Replacement};
use crate::{device, own_calls, remap};

/// Actions that run around the program's calls.
#[derive(Debug)]
pub struct Hooks {
    /// Handlers before a fork, after it in the parent, and after it in the child.
    pub fork: (unsafe extern "C" fn(), unsafe extern "C" fn(), unsafe extern "C" fn()),
    /// Replacement of madvise: address, bytes, advice.
    pub advise: unsafe fn(u64, u64, i32) -> io::Result<()>,
    /// Prepares bytes at an address for being moved, grown or shrunk.
    pub moves: unsafe fn(u64, u64) -> io::Result<()>,
    /// Prepares bytes at an address for an attribute that shared memory cannot have.
    pub changes: unsafe fn(u64, u64) -> io::Result<()>,
    /// Replacement of munlock: address, bytes.
    pub unlock: unsafe fn(u64, u64) -> io::Result<()>,
    /// Restores locks after munlockall.
    pub lock_all: fn(),
    /// Returns true if any of the bytes at an address is exposed now or was exposed before.
    pub holds: fn(u64, u64) -> bool,
}

static HOOKS: OnceLock<&'static Hooks> = OnceLock::new();

type Start = extern "C" fn(*mut c_void) -> c_int;
type Clone = unsafe extern "C" fn(
    Start,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

static REAL_FORK: AtomicUsize = AtomicUsize::new(0);
static REAL_CLONE: AtomicUsize = AtomicUsize::new(0);

const SYS_MSEAL: i64 = 462;
/// System calls whose use inside other code is searched for: those that programs are known to make without
/// the C library.
#[cfg(target_arch = "x86_64")]
const SEARCHED: [i64; 6] = [
    libc::SYS_fork,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_madvise,
    libc::SYS_process_madvise,
    libc::SYS_mremap,
];
#[cfg(not(target_arch = "x86_64"))]
const SEARCHED: [i64; 0] = [];
#[cfg(target_arch = "x86_64")]
const WATCHED: [i64; 13] = [
    libc::SYS_fork,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_madvise,
    libc::SYS_process_madvise,
    libc::SYS_mremap,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_remap_file_pages,
    libc::SYS_pkey_mprotect,
    libc::SYS_shmat,
    libc::SYS_userfaultfd,
    SYS_MSEAL,
];
#[cfg(not(target_arch = "x86_64"))]
const WATCHED: [i64; 12] = [
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_madvise,
    libc::SYS_process_madvise,
    libc::SYS_mremap,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_remap_file_pages,
    libc::SYS_pkey_mprotect,
    libc::SYS_shmat,
    libc::SYS_userfaultfd,
    SYS_MSEAL,
];

/// Describes the replacement of the C library's function `$name` by `$by`; `$real` receives the address of
/// the original.
macro_rules! replacement {
    ($name:literal, $by:expr) => {{
        static REAL: AtomicUsize = AtomicUsize::new(0);
        replacement!($name, $by, &REAL)
    }};
    ($name:literal, $by:expr, $real:expr) => {
        Replacement { name: $name, by: || $by as *const () as usize, real: $real }
    };
}

static FUNCTIONS: [Replacement; 13] = [
    replacement!(c"_Fork", make_child, &REAL_FORK),
    replacement!(c"clone", clone, &REAL_CLONE),
    replacement!(c"__clone", clone),
    replacement!(c"madvise", madvise),
    replacement!(c"process_madvise", process_madvise),
    replacement!(c"mremap", mremap),
    replacement!(c"munlock", munlock),
    replacement!(c"munlockall", munlockall),
    replacement!(c"remap_file_pages", remap_file_pages),
    replacement!(c"pkey_mprotect", pkey_mprotect),
    replacement!(c"shmat", shmat),
    replacement!(c"mseal", mseal),
    replacement!(c"syscall", interpose::jump_of_calls(), interpose::real_of_calls()),
];
static ALL: [&[Replacement]; 2] = [&interpose::LOADING, &FUNCTIONS];
static LOADING: [&[Replacement]; 1] = [&interpose::LOADING];

/// Redirects calls of the program to the functions of this module. Without hooks, only functions that load
/// objects are redirected. Only the first call has an effect.
pub fn install(hooks: Option<&'static Hooks>) {
    match hooks {
        Some(hooks) => {
            if HOOKS.set(hooks).is_ok() {
                interpose::watch(&WATCHED, watched);
            }
            interpose::install(&ALL);
        }
        None => interpose::install(&LOADING),
    }
    device::begin();
}

/// Returns true if code of this process makes such system calls directly, so that they cannot be
/// redirected.
pub fn are_made_past_this() -> bool {
    cfg!(target_arch = "x86_64") && own_calls::are_there(&SEARCHED)
}

fn hooks() -> &'static Hooks {
    HOOKS.get().expect("calls are led here once there are hooks")
}

/// Converts a result to the C library's convention: the value, or -1 with the error number in errno.
fn returned(result: io::Result<i64>) -> i64 {
    result.unwrap_or_else(|error| {
        // SAFETY: the calling thread's errno.
        unsafe { *libc::__errno_location() = error.raw_os_error().unwrap_or(libc::EINVAL) };
        -1
    })
}

/// Makes a system call and returns its value or its error.
///
/// # Safety
/// The arguments are the program's.
unsafe fn kernel(number: i64, arguments: [u64; 6]) -> io::Result<i64> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller's promise.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Runs `fork`, which returns twice, between the hooks around it.
///
/// # Safety
/// It makes a child with memory of its own, or none.
unsafe fn around_fork(fork: impl FnOnce() -> i64) -> i64 {
    let (before, parent, child) = hooks().fork;
    // SAFETY: hooks around a fork, each at its place; errno is the calling thread's.
    unsafe {
        before();
        let made = fork();
        let errno = *libc::__errno_location();
        if made == 0 {
            child()
        } else {
            parent()
        }
        *libc::__errno_location() = errno;
        made
    }
}

fn real(place: &AtomicUsize) -> *const () {
    std::ptr::with_exposed_provenance(place.load(Ordering::Acquire))
}

extern "C" fn make_child() -> c_int {
    // SAFETY: the C library's function of this type.
    let fork: extern "C" fn() -> c_int = unsafe { std::mem::transmute(real(&REAL_FORK)) };
    // SAFETY: _Fork gives the child memory of its own.
    unsafe { around_fork(|| i64::from(fork())) as c_int }
}

/// Start function and argument of a child of `clone`. They lie in the parent's stack; the child has a copy
/// of it.
struct Beginning {
    start: Start,
    argument: *mut c_void,
}

extern "C" fn begin(beginning: *mut c_void) -> c_int {
    // SAFETY: the copy of what `clone` has written; the hook of a child, in a child.
    unsafe {
        let Beginning { start, argument } = beginning.cast::<Beginning>().read();
        (hooks().fork.2)();
        start(argument)
    }
}

unsafe extern "C" fn clone(
    start: Start,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_tid: *mut c_void,
    tls: *mut c_void,
    child_tid: *mut c_void,
) -> c_int {
    // SAFETY: the C library's function of this type.
    let clone: Clone = unsafe { std::mem::transmute(real(&REAL_CLONE)) };
    if flags & libc::CLONE_VM != 0 {
        // SAFETY: the program's arguments.
        return unsafe { clone(start, stack, flags, argument, parent_tid, tls, child_tid) };
    }
    let mut beginning = Beginning { start, argument };
    let argument = (&raw mut beginning).cast();
    // SAFETY: the child has memory of its own, and begins in `begin`, which runs its hook.
    unsafe {
        around_fork(|| i64::from(clone(begin, stack, flags, argument, parent_tid, tls, child_tid))) as c_int
    }
}

unsafe extern "C" fn madvise(address: u64, bytes: u64, advice: c_int) -> c_int {
    // SAFETY: the program's promise.
    returned(unsafe { (hooks().advise)(address, bytes, advice) }.map(|()| 0)) as c_int
}

unsafe extern "C" fn process_madvise(
    process: c_int,
    ranges: *const libc::iovec,
    count: usize,
    advice: c_int,
    flags: u64,
) -> isize {
    // SAFETY: the program's arguments.
    returned(unsafe { advise_process(process, ranges, count, advice, flags) }) as isize
}

/// Replaces process_madvise. The kernel accepts advice that changes content or inheritance for the calling
/// process only.
///
/// # Safety
/// As for the system call.
unsafe fn advise_process(
    process: c_int,
    ranges: *const libc::iovec,
    count: usize,
    advice: c_int,
    flags: u64,
) -> io::Result<i64> {
    const MOST: usize = 1024;
    let number = libc::SYS_process_madvise;
    let arguments =
        |count: usize| [process as u64, ranges.addr() as u64, count as u64, advice as u64, flags, 0];
    let has_effect = remap::effect_of(advice) != remap::Effect::None;
    // SAFETY: the program's arguments. A call without ranges only checks the other arguments.
    if !has_effect || count == 0 || count > MOST || unsafe { kernel(number, arguments(0)) }.is_err() {
        // SAFETY: as above.
        return unsafe { kernel(number, arguments(count)) };
    }
    let mut done = 0;
    for index in 0..count {
        // SAFETY: the program gives so many ranges.
        let result = unsafe {
            let range = ranges.add(index).read();
            let advised = (hooks().advise)(range.iov_base.addr() as u64, range.iov_len as u64, advice);
            advised.map(|()| range.iov_len as i64)
        };
        match result {
            Ok(bytes) => done += bytes,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

unsafe extern "C" fn mremap(old: u64, old_bytes: u64, new_bytes: u64, flags: c_int, new: u64) -> i64 {
    // SAFETY: the program's arguments.
    returned(unsafe { move_memory([old, old_bytes, new_bytes, flags as u64, new, 0]) })
}

/// # Safety
/// As for mremap.
unsafe fn move_memory(arguments: [u64; 6]) -> io::Result<i64> {
    // A size of 0 requests a second mapping of the same memory, which private memory cannot have.
    // SAFETY: the program's arguments.
    unsafe {
        (hooks().moves)(arguments[0], arguments[1].max(1))?;
        kernel(libc::SYS_mremap, arguments)
    }
}

unsafe extern "C" fn munlock(address: u64, bytes: usize) -> c_int {
    // SAFETY: the program's arguments.
    returned(unsafe { (hooks().unlock)(address, bytes as u64) }.map(|()| 0)) as c_int
}

extern "C" fn munlockall() -> c_int {
    // SAFETY: a call that the program makes.
    let result = unsafe { kernel(libc::SYS_munlockall, [0; 6]) };
    (hooks().lock_all)();
    returned(result) as c_int
}

unsafe extern "C" fn remap_file_pages(
    address: u64,
    bytes: usize,
    rights: c_int,
    offset: usize,
    flags: c_int,
) -> c_int {
    let arguments = [address, bytes as u64, rights as u64, offset as u64, flags as u64, 0];
    // SAFETY: the program's arguments.
    returned(unsafe { remap_pages(arguments) }) as c_int
}

/// # Safety
/// As for remap_file_pages.
unsafe fn remap_pages(arguments: [u64; 6]) -> io::Result<i64> {
    if (hooks().holds)(arguments[0], arguments[1]) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: the program's arguments.
    unsafe { kernel(libc::SYS_remap_file_pages, arguments) }
}

unsafe extern "C" fn pkey_mprotect(address: u64, bytes: usize, rights: c_int, key: c_int) -> c_int {
    let arguments = [address, bytes as u64, rights as u64, key as u64, 0, 0];
    // SAFETY: the program's arguments.
    returned(unsafe { change(libc::SYS_pkey_mprotect, arguments) }) as c_int
}

unsafe extern "C" fn mseal(address: u64, bytes: usize, flags: c_ulong) -> c_int {
    // SAFETY: the program's arguments.
    returned(unsafe { change(SYS_MSEAL, [address, bytes as u64, flags, 0, 0, 0]) }) as c_int
}

/// Makes a call that gives an attribute to `arguments[1]` bytes at `arguments[0]`, after the hook has
/// prepared them.
///
/// # Safety
/// As for the system call.
unsafe fn change(number: i64, arguments: [u64; 6]) -> io::Result<i64> {
    // SAFETY: the program's arguments.
    unsafe {
        (hooks().changes)(arguments[0], arguments[1])?;
        kernel(number, arguments)
    }
}

unsafe extern "C" fn shmat(segment: c_int, address: u64, flags: c_int) -> i64 {
    // SAFETY: the program's arguments.
    returned(unsafe { attach([segment as u64, address, flags as u64, 0, 0, 0]) })
}

/// Attaches a segment of System V shared memory. The kernel reports no event when it replaces other memory
/// (SHM_REMAP), so the hook runs here.
///
/// # Safety
/// As for shmat.
unsafe fn attach(arguments: [u64; 6]) -> io::Result<i64> {
    // SAFETY: the program's arguments; a structure of zeros is valid and writable.
    unsafe {
        let mut segment: libc::shmid_ds = std::mem::zeroed();
        let is_over = arguments[2] as c_int & libc::SHM_REMAP != 0;
        if is_over && libc::shmctl(arguments[0] as c_int, libc::IPC_STAT, &mut segment) == 0 {
            (hooks().moves)(arguments[1], segment.shm_segsz as u64)?;
        }
        kernel(libc::SYS_shmat, arguments)
    }
}

/// Handles the system calls of [`WATCHED`] that the program makes by `syscall`.
extern "C" fn watched(number: i64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> c_long {
    let arguments = [a, b, c, d, e, f];
    // SAFETY: the program's arguments, whose types follow from the number.
    unsafe {
        match number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork => around_fork(|| returned(kernel(number, arguments))),
            libc::SYS_clone | libc::SYS_clone3 => make_process(number, arguments),
            libc::SYS_madvise => returned((hooks().advise)(a, b, c as c_int).map(|()| 0)),
            libc::SYS_process_madvise => {
                let ranges = std::ptr::with_exposed_provenance(b as usize);
                returned(advise_process(a as c_int, ranges, c as usize, d as c_int, e))
            }
            libc::SYS_mremap => returned(move_memory(arguments)),
            libc::SYS_munlock => returned((hooks().unlock)(a, b).map(|()| 0)),
            libc::SYS_munlockall => munlockall().into(),
            libc::SYS_remap_file_pages => returned(remap_pages(arguments)),
            libc::SYS_pkey_mprotect | SYS_MSEAL => returned(change(number, arguments)),
            libc::SYS_shmat => returned(attach(arguments)),
            libc::SYS_userfaultfd => {
                // Events that the kernel reports for shared memory differ from those for private memory.
                returned((hooks().changes)(0, u64::MAX).and_then(|()| kernel(number, arguments)))
            }
            _ => returned(kernel(number, arguments)),
        }
    }
}

/// Makes the system call clone or clone3. A child with a stack of its own does not return here.
///
/// # Safety
/// As for the system call.
unsafe fn make_process(number: i64, arguments: [u64; 6]) -> i64 {
    let flags = match number {
        // SAFETY: the program gives a structure whose first word has the flags, or null.
        libc::SYS_clone3 if arguments[0] != 0 => unsafe {
            std::ptr::with_exposed_provenance::<u64>(arguments[0] as usize).read_unaligned()
        },
        _ => arguments[0],
    };
    // SAFETY: the program's arguments.
    let make = || returned(unsafe { kernel(number, arguments) });
    if flags & libc::CLONE_VM as u64 != 0 {
        return make();
    }
    // SAFETY: the child has memory of its own.
    unsafe { around_fork(make) }
}
