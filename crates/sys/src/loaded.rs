//! Libraries that the process has loaded, as listed by the dynamic loader.
//!
//! # Safety
//! The loader's structures are read only during its callback, while it does not change them.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns the files of all loaded libraries (dl_iterate_phdr(3)).
pub fn libraries() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    // SAFETY: `visit` is called before this returns, with the address of `found`.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// Records the file of one library. The program itself has an empty name.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _bytes: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes its own structure with a terminated name, and the pointer of `libraries`.
    let (name, found) = unsafe { (CStr::from_ptr((*info).dlpi_name), &mut *found.cast::<Vec<PathBuf>>()) };
    if !name.is_empty() {
        found.push(PathBuf::from(OsStr::from_bytes(name.to_bytes())));
    }
    0
}

/// Returns true if a loaded library, or one that it needs, defines this symbol.
pub fn has_symbol(library: &Path, symbol: &CStr) -> bool {
    let Ok(name) = CString::new(library.as_os_str().as_bytes()) else { return false };
    // SAFETY: a terminated name and flags; RTLD_NOLOAD loads nothing new.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return false;
    }
    // SAFETY: a handle of dlopen, which is closed once.
    unsafe {
        let found = libc::dlsym(handle, symbol.as_ptr());
        libc::dlclose(handle);
        !found.is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_loaded_and_has_its_symbols() {
        let found = libraries();
        let c =
            found.iter().find(|file| file.to_string_lossy().contains("libc.so")).expect("a program of glibc");
        assert!(has_symbol(c, c"malloc") && !has_symbol(c, c"no_such_symbol"));
        assert!(!has_symbol(Path::new("/nowhere/libmpi.so.40"), c"malloc"));
    }
}
