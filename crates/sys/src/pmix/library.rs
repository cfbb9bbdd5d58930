//! libpmix itself: the structures that are used, and its functions.
//!
//! The PMIx ABI fixes these declarations for the soname libpmix.so.2 (PMIx 3 to 6). A test compares sizes
//! and offsets with the headers where those are installed. Nothing links to the library: it is loaded in a
//! process that a PMIx server has started. It stays loaded, since it has a thread of its own.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub const NAMESPACE_BYTES: usize = 256;
pub const KEY_BYTES: usize = 512;
pub const RANK_WILDCARD: u32 = u32::MAX - 1;

pub const SUCCESS: c_int = 0;
pub const NOT_FOUND: c_int = -46;
/// Status: the operation is complete, and the callback will not be called.
pub const OPERATION_SUCCEEDED: c_int = -157;

/// Numbers of `pmix_data_type_t` that are read or written here.
pub mod data_type {
    pub const BOOL: u16 = 1;
    pub const STRING: u16 = 3;
    pub const SIZE: u16 = 4;
    pub const INT: u16 = 6;
    pub const INT32: u16 = 9;
    pub const UINT: u16 = 11;
    pub const UINT16: u16 = 13;
    pub const UINT32: u16 = 14;
    pub const UINT64: u16 = 15;
    pub const BYTE_OBJECT: u16 = 27;
    pub const PROC_RANK: u16 = 40;
}

/// Process identifier: `pmix_proc_t` of the PMIx ABI.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawProcess {
    pub namespace: [c_char; NAMESPACE_BYTES],
    pub rank: u32,
}

/// Byte array: `pmix_byte_object_t` of the PMIx ABI.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawBytes {
    pub bytes: *mut c_char,
    pub size: usize,
}

/// Union in `pmix_value_t`; its longest member is `pmix_envar_t`, two pointers and a character.
#[derive(Clone, Copy)]
#[repr(C)]
pub union RawData {
    pub flag: bool,
    pub uint16: u16,
    pub uint32: u32,
    pub uint64: u64,
    pub int32: i32,
    pub string: *mut c_char,
    pub bytes: RawBytes,
    pub longest: [u64; 3],
}

/// Typed value: `pmix_value_t` of the PMIx ABI.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawValue {
    pub data_type: u16,
    pub data: RawData,
}

/// Key with a value: `pmix_info_t` of the PMIx ABI.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawInfo {
    pub key: [c_char; KEY_BYTES],
    pub flags: u32,
    pub value: RawValue,
}

pub type ValueCallback = unsafe extern "C" fn(c_int, *mut RawValue, *mut c_void);
pub type OperationCallback = unsafe extern "C" fn(c_int, *mut c_void);
type Init = unsafe extern "C" fn(*mut RawProcess, *const RawInfo, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const RawInfo, usize) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *const RawProcess, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *const RawValue) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type FenceLater = unsafe extern "C" fn(
    *const RawProcess,
    usize,
    *const RawInfo,
    usize,
    OperationCallback,
    *mut c_void,
) -> c_int;
type Get = unsafe extern "C" fn(
    *const RawProcess,
    *const c_char,
    *const RawInfo,
    usize,
    *mut *mut RawValue,
) -> c_int;
type GetLater = unsafe extern "C" fn(
    *const RawProcess,
    *const c_char,
    *const RawInfo,
    usize,
    ValueCallback,
    *mut c_void,
) -> c_int;
type ResolveNodes = unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int;
type ResolvePeers =
    unsafe extern "C" fn(*const c_char, *const c_char, *mut *mut RawProcess, *mut usize) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// Functions of the library that are used. The library is never unloaded.
pub struct PmixLibrary {
    pub init: Init,
    pub finalize: Finalize,
    pub abort: Abort,
    pub put: Put,
    pub commit: Commit,
    pub fence_later: FenceLater,
    pub get: Get,
    pub get_later: GetLater,
    pub resolve_nodes: ResolveNodes,
    pub resolve_peers: ResolvePeers,
    pub error_string: ErrorString,
}

/// Looks up a function of the library with its type. Used in an unsafe block that vouches for the type.
macro_rules! function {
    ($handle:expr, $type:ty, $name:expr) => {
        std::mem::transmute::<*mut c_void, $type>(symbol($handle, $name)?)
    };
}

impl PmixLibrary {
    /// Loads the library: `path` if it is not empty, otherwise that of the starter (`PMIX_PREFIX`) or of
    /// the system.
    ///
    /// # Errors
    /// NotFound if there is none, Unsupported if it lacks a function.
    pub fn open(path: &str) -> io::Result<PmixLibrary> {
        let mut why = String::new();
        for candidate in candidates(path) {
            let Ok(name) = CString::new(candidate.as_os_str().as_bytes()) else { continue };
            // SAFETY: the name is terminated; the library's constructors have no preconditions.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if !handle.is_null() {
                // SAFETY: just opened.
                return unsafe { PmixLibrary::from_handle(handle) };
            }
            why = dynamic_linker_says();
        }
        Err(io::Error::new(io::ErrorKind::NotFound, why))
    }

    /// # Safety
    /// `handle` is an open libpmix.so.2.
    unsafe fn from_handle(handle: *mut c_void) -> io::Result<PmixLibrary> {
        // SAFETY: each symbol has the type of its field in every library of this soname.
        unsafe {
            Ok(PmixLibrary {
                init: function!(handle, Init, c"PMIx_Init"),
                finalize: function!(handle, Finalize, c"PMIx_Finalize"),
                abort: function!(handle, Abort, c"PMIx_Abort"),
                put: function!(handle, Put, c"PMIx_Put"),
                commit: function!(handle, Commit, c"PMIx_Commit"),
                fence_later: function!(handle, FenceLater, c"PMIx_Fence_nb"),
                get: function!(handle, Get, c"PMIx_Get"),
                get_later: function!(handle, GetLater, c"PMIx_Get_nb"),
                resolve_nodes: function!(handle, ResolveNodes, c"PMIx_Resolve_nodes"),
                resolve_peers: function!(handle, ResolvePeers, c"PMIx_Resolve_peers"),
                error_string: function!(handle, ErrorString, c"PMIx_Error_string"),
            })
        }
    }
}

fn candidates(path: &str) -> Vec<PathBuf> {
    const NAME: &str = "libpmix.so.2";
    if !path.is_empty() {
        return vec![path.into()];
    }
    let mut all: Vec<PathBuf> = Vec::new();
    // A server that names its installation works best with its own library.
    if let Some(prefix) = std::env::var_os("PMIX_PREFIX") {
        all.extend(
            ["lib", "lib64", "lib/openmpi"].map(|below| PathBuf::from(&prefix).join(below).join(NAME)),
        );
    }
    all.push(NAME.into());
    all
}

fn dynamic_linker_says() -> String {
    // SAFETY: dlerror returns null or a terminated string that is valid until the next call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

/// # Safety
/// `handle` is an open library.
unsafe fn symbol(handle: *mut c_void, name: &CStr) -> io::Result<*mut c_void> {
    // SAFETY: the caller vouches for handle; name is terminated.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if address.is_null() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, format!("libpmix.so.2 has no {name:?}")));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};
    use std::path::Path;
    use std::process::Command;

    /// Returns the values that a C compiler finds in the headers, or `None` where one of them is missing.
    fn in_headers(name: &str, expressions: &str) -> Option<Vec<usize>> {
        let include = ["/usr/lib/x86_64-linux-gnu/pmix2/include", "/usr/include"];
        let include = include.into_iter().find(|path| Path::new(path).join("pmix.h").exists())?;
        let base = std::env::temp_dir().join(format!("tutti-pmix-{name}-{}", std::process::id()));
        let source = base.with_extension("c");
        let values: String =
            expressions.split(';').map(|value| format!("printf(\"%zu\\n\", (size_t)({value}));")).collect();
        let text = format!(
            "#include <stdio.h>\n#include <stddef.h>\n#include <pmix.h>\nint main(void) {{ {values} return 0; }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let compiled =
            Command::new("cc").args(["-I", include, "-o"]).arg(&base).arg(&source).status().ok()?;
        let output = compiled.success().then(|| Command::new(&base).output().unwrap());
        let _ = std::fs::remove_file(&source);
        let _ = std::fs::remove_file(&base);
        let text = String::from_utf8(output.expect("the headers compile").stdout).unwrap();
        Some(text.lines().map(|line| line.parse().unwrap()).collect())
    }

    #[test]
    fn structures_are_laid_out_as_in_the_headers() {
        let ours = [
            size_of::<RawProcess>(),
            offset_of!(RawProcess, rank),
            size_of::<RawValue>(),
            offset_of!(RawValue, data),
            size_of::<RawBytes>(),
            size_of::<RawInfo>(),
            offset_of!(RawInfo, flags),
            offset_of!(RawInfo, value),
        ];
        // Sizes and offsets of PMIx 4.2 on 64-bit machines.
        assert_eq!(ours, [260, 256, 32, 8, 16, 552, 512, 520]);
        let theirs = in_headers(
            "structures",
            "sizeof(pmix_proc_t);offsetof(pmix_proc_t, rank);sizeof(pmix_value_t);offsetof(pmix_value_t, data);\
             sizeof(pmix_byte_object_t);sizeof(pmix_info_t);offsetof(pmix_info_t, flags);offsetof(pmix_info_t, value)",
        );
        assert!(theirs.is_none_or(|theirs| theirs == ours));
    }

    #[test]
    fn numbers_are_those_of_the_headers() {
        let ours = [
            data_type::BOOL,
            data_type::STRING,
            data_type::SIZE,
            data_type::INT,
            data_type::INT32,
            data_type::UINT,
            data_type::UINT16,
            data_type::UINT32,
            data_type::UINT64,
            data_type::BYTE_OBJECT,
            data_type::PROC_RANK,
        ];
        let mut ours: Vec<usize> = ours.into_iter().map(usize::from).collect();
        ours.extend([NOT_FOUND, OPERATION_SUCCEEDED].map(|code| code.unsigned_abs() as usize));
        ours.extend([RANK_WILDCARD as usize, NAMESPACE_BYTES - 1, KEY_BYTES - 1]);
        let theirs = in_headers(
            "numbers",
            "PMIX_BOOL;PMIX_STRING;PMIX_SIZE;PMIX_INT;PMIX_INT32;PMIX_UINT;PMIX_UINT16;PMIX_UINT32;PMIX_UINT64;\
             PMIX_BYTE_OBJECT;PMIX_PROC_RANK;-PMIX_ERR_NOT_FOUND;-PMIX_OPERATION_SUCCEEDED;\
             (unsigned)(PMIX_RANK_WILDCARD);PMIX_MAX_NSLEN;PMIX_MAX_KEYLEN",
        );
        assert!(theirs.is_none_or(|theirs| theirs == ours));
    }

    #[test]
    fn a_library_that_is_not_there_is_refused() {
        let refused = PmixLibrary::open("/nowhere/libpmix.so.2").err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::NotFound));
    }
}
