//! Detection of a second MPI library in the process.
//!
//! A plugin or a wheel may load another MPI library beside Tutti, by a path of its own. Code that calls it is
//! alone in a job of one rank, without any error. Tutti's libraries for programs of other ABIs have the same
//! file names. They differ in that they need `libmpi_abi.so.1`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use tutti_base::mpi_libraries::is_core_library;
use tutti_sys::loaded;

/// Symbol that only Tutti's `libmpi_abi.so.1` has.
const OWN_SYMBOL: &std::ffi::CStr = c"tutti_interface";

static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Prints a warning that names the other library, once. It is called at the start and at the end, as a
/// program may load the library between them.
pub fn warn(rank: u32) {
    if IS_TOLD.load(Ordering::Relaxed) {
        return;
    }
    if let Some(file) = other() {
        IS_TOLD.store(true, Ordering::Relaxed);
        eprintln!(
            "Tutti: warning: rank {rank} has loaded a second MPI library, {}: what calls that one is alone in a job of one rank; \
             let it find Tutti's library of that name first (LD_LIBRARY_PATH, as mpirun sets it), or build it with Tutti's mpicc",
            file.display()
        );
    }
}

/// Returns the file of another MPI library, if one is loaded.
fn other() -> Option<PathBuf> {
    let is_core = |file: &PathBuf| file.file_name().is_some_and(|name| is_core_library(name.as_bytes()));
    loaded::libraries().into_iter().filter(is_core).find(|file| !loaded::has_symbol(file, OWN_SYMBOL))
}
