//! The library behind a front, which the front finds once, when it is loaded.
//!
//! All MPI libraries export the same names. So a front cannot name the functions of `libmpi_abi.so.1`: it
//! would find its own. It takes them from one structure with a name of its own. The loader has loaded the
//! library already, since a front needs it by its name (`build.rs`). A front exports every function of the
//! library, so that a program never calls a function of another ABI.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::NAME;
use crate::shared::generated::callbacks::DIALECT;
use crate::shared::generated::interface::{Interface, VERSION};

const SONAME: &CStr = c"libmpi_abi.so.1";

static LIBRARY: AtomicPtr<Interface> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the functions of the library.
#[inline(always)]
pub fn library() -> &'static Interface {
    // SAFETY: set before anybody may call (`load` ends the process otherwise), never changed, and a static of the library.
    unsafe { &*LIBRARY.load(Ordering::Relaxed) }
}

/// Scope in which objects that this thread creates from callbacks call these in the front's ABI.
pub struct Speaking(());

impl Speaking {
    /// Begins a scope: callbacks that this thread registers are called in the front's ABI.
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

/// Opens the library that the process has loaded.
fn open() -> Option<*mut c_void> {
    // SAFETY: a name and flags.
    let handle = unsafe { libc::dlopen(SONAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!handle.is_null()).then_some(handle)
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

/// Ends the process with a message: without a library, no function could return a result.
fn give_up(why: &str) -> ! {
    eprintln!(
        "tutti: the library for programs of {NAME} cannot work: {why}; install Tutti anew (make install), or look at LD_LIBRARY_PATH"
    );
    std::process::exit(127);
}
