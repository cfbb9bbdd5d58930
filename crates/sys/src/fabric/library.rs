//! Loading of libfabric, once in each process.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use super::raw::{FabricAttributes, FabricInfo, FidFabric};
use super::{Error, Result};
use crate::signal;

const LIBRARY: &CStr = c"libfabric.so.1";

/// Functions of libfabric that are used.
pub struct Library {
    pub getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const FabricInfo,
        *mut *mut FabricInfo,
    ) -> c_int,
    pub freeinfo: unsafe extern "C" fn(*mut FabricInfo),
    pub dupinfo: unsafe extern "C" fn(*const FabricInfo) -> *mut FabricInfo,
    pub fabric: unsafe extern "C" fn(*mut FabricAttributes, *mut *mut FidFabric, *mut c_void) -> c_int,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    version: unsafe extern "C" fn() -> u32,
}

static LOADED: OnceLock<Result<Library>> = OnceLock::new();

/// Returns the library. The first call loads it, which may take some hundred milliseconds.
pub fn library() -> Result<&'static Library> {
    LOADED.get_or_init(|| signal::keeping_handlers(open)).as_ref().map_err(Clone::clone)
}

/// Returns the version of the loaded library: major and minor number.
///
/// # Errors
/// Errors of loading the library.
pub fn version() -> Result<(u32, u32)> {
    // SAFETY: a function without arguments or preconditions.
    let version = unsafe { (library()?.version)() };
    Ok((version >> 16, version & 0xffff))
}

/// Returns libfabric's description of an error number.
pub fn text_of(code: c_int) -> String {
    let Ok(library) = library() else { return format!("error {code}") };
    // SAFETY: takes any number and returns a constant string.
    let text = unsafe { CStr::from_ptr((library.strerror)(code)) };
    text.to_string_lossy().into_owned()
}

/// Looks up a function of the library by name and version. Used in an unsafe block that vouches for the
/// type.
macro_rules! function {
    ($handle:expr, $name:literal, $version:literal, $type:ty) => {
        std::mem::transmute::<*mut c_void, $type>(symbol($handle, $name, $version)?)
    };
}

fn open() -> Result<Library> {
    // SAFETY: the name is terminated. The library is never closed: its providers keep threads and handlers.
    let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: dlerror returns null or a string that stays until the next call of this thread.
        let why = unsafe {
            let text = libc::dlerror();
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        };
        return Err(Error::NotInstalled(why));
    }
    // SAFETY: a symbol of the given version has the type that is stated here: versions exist to fix that.
    unsafe {
        Ok(Library {
            getinfo: function!(
                handle,
                c"fi_getinfo",
                c"FABRIC_1.3",
                unsafe extern "C" fn(
                    u32,
                    *const c_char,
                    *const c_char,
                    u64,
                    *const FabricInfo,
                    *mut *mut FabricInfo,
                ) -> c_int
            ),
            freeinfo: function!(handle, c"fi_freeinfo", c"FABRIC_1.3", unsafe extern "C" fn(*mut FabricInfo)),
            dupinfo: function!(
                handle,
                c"fi_dupinfo",
                c"FABRIC_1.3",
                unsafe extern "C" fn(*const FabricInfo) -> *mut FabricInfo
            ),
            fabric: function!(
                handle,
                c"fi_fabric",
                c"FABRIC_1.1",
                unsafe extern "C" fn(*mut FabricAttributes, *mut *mut FidFabric, *mut c_void) -> c_int
            ),
            strerror: function!(
                handle,
                c"fi_strerror",
                c"FABRIC_1.0",
                unsafe extern "C" fn(c_int) -> *const c_char
            ),
            version: function!(handle, c"fi_version", c"FABRIC_1.0", unsafe extern "C" fn() -> u32),
        })
    }
}

/// # Safety
/// `handle` is an open library.
unsafe fn symbol(handle: *mut c_void, name: &'static CStr, version: &CStr) -> Result<*mut c_void> {
    // SAFETY: the caller vouches for handle; the strings are terminated.
    let address = unsafe { libc::dlvsym(handle, name.as_ptr(), version.as_ptr()) };
    if address.is_null() {
        return Err(Error::Incompatible(name.to_str().unwrap_or("a function")));
    }
    Ok(address)
}
