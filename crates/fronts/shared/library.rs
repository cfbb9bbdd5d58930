//! The library behind a front: found when the front is loaded, once.
//!
//! All libraries of MPI export the same names, so that a front cannot name the functions of `libmpi_abi.so.1`: it would find its
//! own. It takes them from one structure, which has a name of its own. The library is loaded without making its names known to
//! the program, so that whatever a front lacks is missed by name and not taken from an ABI that the program does not speak.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::NAME;
use crate::shared::generated::callbacks::DIALECT;
use crate::shared::generated::interface::{Interface, VERSION};

const SONAME: &CStr = c"libmpi_abi.so.1";

static LIBRARY: AtomicPtr<Interface> = AtomicPtr::new(std::ptr::null_mut());

/// The functions of the library.
#[inline(always)]
pub fn library() -> &'static Interface {
    // SAFETY: set before anybody may call (`load` ends the process otherwise), never changed, and a static of the library.
    unsafe { &*LIBRARY.load(Ordering::Relaxed) }
}

/// While it lives, what this thread makes out of callbacks calls them in the front's ABI.
pub struct Speaking(());

impl Speaking {
    /// From now on.
    pub fn begin() -> Speaking {
        // SAFETY: a static.
        unsafe { (library().speak)(&raw const DIALECT) };
        Speaking(())
    }
}

impl Drop for Speaking {
    fn drop(&mut self) {
        // SAFETY: the standard dialect.
        unsafe { (library().speak)(std::ptr::null()) };
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

/// Runs when the front is loaded.
extern "C" fn load() {
    let Some(handle) = open() else { give_up(&last_error()) };
    // SAFETY: a handle of dlopen, and a name.
    let found = unsafe { libc::dlsym(handle, c"tutti_interface".as_ptr()) };
    if found.is_null() {
        give_up("the libmpi_abi.so.1 that was found is another library's");
    }
    // SAFETY: whatever the version, it comes first.
    let version = unsafe { found.cast::<u64>().read() };
    if version != VERSION {
        give_up("the libmpi_abi.so.1 that was found is of another version of Tutti");
    }
    LIBRARY.store(found.cast(), Ordering::Relaxed);
}

/// The library that the process has, or the one of this installation, or the one that the loader finds.
fn open() -> Option<*mut c_void> {
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
    let try_open = |name: &CStr, more: c_int| {
        // SAFETY: a name and flags.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags | more) };
        (!handle.is_null()).then_some(handle)
    };
    try_open(SONAME, libc::RTLD_NOLOAD)
        .or_else(|| try_open(&beside_the_front()?, 0))
        .or_else(|| try_open(SONAME, 0))
}

/// `PREFIX/lib/libmpi_abi.so.1` where the front is `PREFIX/lib/tutti/ABI/libmpi.so.N`.
fn beside_the_front() -> Option<CString> {
    // SAFETY: all zero is a value of this structure.
    let mut place: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here: extern "C" fn() = load;
    // SAFETY: an address of this library, and a place for the answer.
    if unsafe { libc::dladdr(here as *const c_void, &raw mut place) } == 0 || place.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives a string that lives as long as the library.
    let name = unsafe { CStr::from_ptr(place.dli_fname) };
    let own = PathBuf::from(std::ffi::OsString::from_vec(name.to_bytes().to_vec())).canonicalize().ok()?;
    let path = own.ancestors().nth(3)?.join("libmpi_abi.so.1");
    if path.exists() { CString::new(path.into_os_string().into_vec()).ok() } else { None }
}

fn last_error() -> String {
    // SAFETY: no arguments.
    let error: *mut c_char = unsafe { libc::dlerror() };
    if error.is_null() {
        return "libmpi_abi.so.1 is not there".to_string();
    }
    // SAFETY: a string that lives until the next call.
    unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned()
}

/// Without a library there is nothing that a function could return.
fn give_up(why: &str) -> ! {
    eprintln!(
        "tutti: the library for programs of {NAME} cannot work: {why}; install Tutti anew (make install), or look at LD_LIBRARY_PATH"
    );
    std::process::exit(127);
}
